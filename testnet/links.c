#include "testnet/links.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *
text_of(const struct json *object, const char *key)
{
    return json_text(json_get(object, key), "");
}

static bool
here(const struct json *members, const char *name)
{
    for (size_t i = 0; i < json_count(members); i++)
        if (strcmp(text_of(json_at(members, i), "name"), name) == 0)
            return strcmp(text_of(json_at(members, i), "state"), "alive") == 0;
    return false;
}

bool
links_due(const struct scenario *scenario, const struct links_seen *seen,
          int64_t since_formed_ms)
{
    const struct expectations *expect = &scenario->expect;
    return expect->links_within >= 0 && !seen->passed_ms &&
           (double)since_formed_ms >= expect->links_by_s * 1e3;
}

bool
links_over(const struct scenario *scenario, const struct links_seen *seen,
           int64_t since_formed_ms)
{
    const struct expectations *expect = &scenario->expect;
    return expect->links_within < 0 || seen->passed_ms ||
           (double)since_formed_ms >= expect->links_by_s * 1e3 + LINKS_PATIENCE_MS;
}

/* The estimates of one pair of zones: how many, and the largest error. */
static int
look_at_pair(const struct scenario *scenario, const struct json *status, int from, int to,
             struct links_seen *seen)
{
    const struct json *links = json_get(status, "links");
    const struct json *members = json_get(status, "members");
    double wanted = scenario->links[from][to].mbit_per_s;
    int count = 0;
    for (size_t i = 0; i < json_count(links); i++) {
        const struct json *link = json_at(links, i);
        const char *method = text_of(link, "method");
        double rate = json_double(json_get(link, "mbit_per_s"), 0);
        if (strcmp(text_of(link, "from_zone"), scenario->zones[from]) != 0 ||
            strcmp(text_of(link, "to_zone"), scenario->zones[to]) != 0 ||
            strcmp(method, "model") == 0 || strcmp(method, "unknown") == 0 ||
            (scenario->expect.links_passive && strcmp(method, "passive") != 0) ||
            !here(members, text_of(link, "from")) || !here(members, text_of(link, "to")))
            continue;
        count++;
        double error = fabs(rate - wanted) / wanted;
        if (error < seen->worst)
            continue;
        seen->worst = error;
        snprintf(seen->what, sizeof(seen->what),
                 "%.40s to %.40s: %.1f Mbit/s (%.10s), the link has %g",
                 text_of(link, "from"), text_of(link, "to"), rate, method, wanted);
    }
    return count;
}

void
links_look(const struct scenario *scenario, const struct json *status,
           int64_t since_formed_ms, struct links_seen *seen)
{
    bool all = json_is_object(status);
    if (seen->looks++ == 0)
        seen->first_ms = since_formed_ms;
    seen->worst = 0;
    seen->what[0] = '\0';
    for (int from = 0; from < scenario->zones_count; from++)
        for (int to = 0; to < scenario->zones_count; to++) {
            if (from == to || scenario->links[from][to].mbit_per_s <= 0 ||
                look_at_pair(scenario, status, from, to, seen) > 0)
                continue;
            all = false;
            snprintf(seen->what, sizeof(seen->what), "nobody has measured %.40s to %.40s",
                     scenario->zones[from], scenario->zones[to]);
        }
    if (!all)
        seen->worst = INFINITY;
    seen->good = seen->worst <= scenario->expect.links_within ? seen->good + 1 : 0;
    if (seen->good >= LINKS_LOOKS)
        seen->passed_ms = since_formed_ms;
}

void
links_spent(const struct json *status, struct links_seen *seen)
{
    const struct json *probes = json_get(status, "probes");
    int64_t sent = json_int(json_get(probes, "sent_bytes"), 0),
            hour = json_int(json_get(probes, "hour_bytes"), 0);
    seen->probe_bytes += sent;
    if (sent > hour)
        snprintf(seen->spent, sizeof(seen->spent),
                 "%.40s sent %.1f MB, an hour may see %.1f MB", text_of(status, "name"),
                 (double)sent / 1e6, (double)hour / 1e6);
}
