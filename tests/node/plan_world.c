#include "tests/node/plan_world.h"
#include "tests/suite.h"

#include <stdio.h>
#include <string.h>

const char plan_world_cluster[] =
    "cost_model: replay\n"
    "zones:\n"
    "  - {name: a, region: east}\n  - {name: b, region: west}\n"
    "devices: [{name: fast, memory: 8GiB, usd_per_hour: 2, per_machine: 4, profiles: "
    "[fast.json]},\n"
    "          {name: slow, memory: 4GiB, per_machine: 2, correction: 1.25, profiles: "
    "[slow.json]}]\n"
    "pools:\n"
    "  - {device: fast, zone: a, count: 8}\n"
    "  - {device: slow, zone: a, count: 4, usd_per_hour: 1.5}\n"
    "nodes:\n"
    "  - {name: b1, device: slow, zone: b, count: 2}\n"
    "links:\n"
    "  - {from: a, to: a, mbit_per_s: 1000}\n"
    "  - {from: b, to: b, mbit_per_s: 1000}\n"
    "  - {from: a, to: b, mbit_per_s: 100, round_trip_ms: 20, both_ways: true}\n"
    "egress:\n"
    "  - {from: a, to: b, usd_per_gb: 0.02, both_ways: true}\n";

static void
fill(struct profile_file *profile, double speed)
{
    for (int i = 0; i < profile->sizes_count; i++) {
        struct profile_sizes *sizes = &profile->sizes[i];
        sizes->tp = 1 << i;
        for (int l = 0; l < profile->layers; l++) {
            sizes->parameters[l] = 1000 * (l + 1) >> i;
            sizes->output_elements[l] = 10 * (l + 1);
            sizes->kept_elements[l] = 1000 * (l + 1) >> i;
        }
    }
    for (int i = 0; i < profile->times_count; i++) {
        struct profile_times *times = &profile->times[i];
        times->tp = 1 << i / 2;
        times->micro_batch = 1 << i % 2;
        double scale = times->micro_batch / (double)times->tp / speed;
        for (int l = 0; l < profile->layers; l++) {
            times->forward_s[l] = 0.03125 * (l + 1) * scale;
            times->backward_s[l] = 0.0625 * (l + 1) * scale;
            times->update_s[l] = 0.125 / speed;
        }
    }
}

int
plan_world_profile(const char *path, struct profile_file *out, struct err *err)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    bool fast = strcmp(name, "fast.json") == 0,
         is_short = strcmp(name, "short.json") == 0;
    if (strlen(name) < 6)
        return err_set(err, ERR_USAGE, "could not read \"%s\"", path);
    profile_file_init(out, is_short ? 3 : 4, 2, 4);
    snprintf(out->model, sizeof(out->model), "%s",
             strcmp(name, "other.json") == 0 ? "other" : "tiny");
    snprintf(out->device, sizeof(out->device), "%s", fast ? "fast" : "slow");
    out->tokens = 128;
    out->element_bytes = 4;
    fill(out, fast ? 1 : 0.5);
    if (strcmp(name, "wide.json") == 0)
        out->sizes[1].kept_elements[2]++;
    return 0;
}

void
plan_world_text(const char *text, const char *piece, const char *other, char *out,
                size_t size)
{
    const char *at = piece ? strstr(text, piece) : text;
    ck_assert_msg(at != NULL, "\"%s\" is not in the text", piece ? piece : "");
    snprintf(out, size, "%.*s%s%s", (int)(at - text), text, piece ? other : "",
             at + (piece ? strlen(piece) : 0));
}
