#include "node/doctor.h"
#include "node/engine/matmul.h"
#include "transport/base/clock.h"
#include "transport/base/file.h"

#include <arpa/inet.h>
#include <errno.h>
#include <math.h>
#include <netdb.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum {
    DISK_BAD_MIB = 64,
    DISK_WARN_MIB = 2048,
    SYNC_SLOW_MS = 200,
    MEMORY_WARN_MIB = 512,
    LOCKED_BYTES_MIN = 64 << 10, /* secrets take a few pages each */
    FILES_OWN = 300              /* besides connections: handshakes, files, libzmq */
};

const char *
finding_level_name(enum finding_level level)
{
    static const char *const names[] = {"ok", "warn", "bad"};
    return names[level];
}

void
findings_add(struct findings *findings, enum finding_level level, const char *topic,
             const char *fmt, ...)
{
    if (findings->count == FINDINGS_MAX)
        return;
    struct finding *finding = &findings->list[findings->count++];
    finding->level = level;
    snprintf(finding->topic, sizeof(finding->topic), "%s", topic);
    va_list arguments;
    va_start(arguments, fmt);
    vsnprintf(finding->text, sizeof(finding->text), fmt, arguments);
    va_end(arguments);
}

enum finding_level
findings_worst(const struct findings *findings)
{
    enum finding_level worst = FINDING_OK;
    for (int i = 0; i < findings->count; i++)
        if (findings->list[i].level > worst)
            worst = findings->list[i].level;
    return worst;
}

double
doctor_mathis(double round_trip_ms, double loss)
{
    return 1448 / (round_trip_ms / 1e3) * sqrt(1.5) / sqrt(loss);
}

int64_t
doctor_files_needed(int64_t members)
{
    /* To and from each other one, control and data: libzmq takes four descriptors for a
     * connection of ours and one for a connection to us. A leader has them all. */
    return FILES_OWN + 10 * (members > 1 ? members - 1 : 0);
}

/* ---- this machine ---- */

/* The first line of a small file of the system, "" when it is not there. */
static void
system_text(const char *path, char *out, size_t size)
{
    struct buf text = {0};
    struct err err;
    out[0] = '\0';
    if (file_read(path, 64 << 10, &text, &err) == 0 && text.len > 0) {
        buf_add(&text, "", 1);
        snprintf(out, size, "%.*s", (int)strcspn((char *)text.data, "\n"),
                 (char *)text.data);
    }
    buf_release(&text);
}

void
doctor_folder(struct findings *findings, const char *data)
{
    char path[PATH_BYTES_MAX];
    struct statvfs disk;
    struct err err;
    static uint8_t block[1 << 20];
    if (file_make_folder(data, &err)) {
        findings_add(findings, FINDING_BAD, "disk", "%s; name another folder with --data",
                     err.msg);
        return;
    }
    int64_t began = clock_ms();
    bool written = file_write(path_join(path, data, "doctor"), block, sizeof(block), 0600,
                              &err) == 0;
    int64_t took = clock_ms() - began;
    if (written)
        unlink(path);
    if (!written) {
        findings_add(findings, FINDING_BAD, "disk",
                     "the data folder cannot be written: %s; mend that, or name another "
                     "folder with --data",
                     err.msg);
        return;
    }
    if (statvfs(data, &disk) != 0)
        return;
    int64_t free_mib = (int64_t)(disk.f_bavail * disk.f_frsize) >> 20;
    enum finding_level level = free_mib < DISK_BAD_MIB    ? FINDING_BAD
                               : free_mib < DISK_WARN_MIB ? FINDING_WARN
                                                          : FINDING_OK;
    findings_add(findings, level, "disk", "%lld MiB free in %s%s", (long long)free_mib,
                 data,
                 level == FINDING_OK
                     ? ""
                     : "; a checkpoint takes twelve bytes a parameter, three are kept: "
                       "make room, or keep fewer (checkpoint.keep)");
    findings_add(
        findings, took > SYNC_SLOW_MS ? FINDING_WARN : FINDING_OK, "disk",
        "a megabyte was written and synced in %lld ms%s", (long long)took,
        took > SYNC_SLOW_MS
            ? "; each vote and each epoch waits for this: put the data folder on "
              "a faster disk"
            : "");
}

static int64_t
memory_available_mib(void)
{
    struct buf text = {0};
    struct err err;
    int64_t kib = 0;
    if (file_read("/proc/meminfo", 64 << 10, &text, &err) == 0) {
        buf_add(&text, "", 1);
        const char *at = strstr((char *)text.data, "MemAvailable:");
        kib = at ? strtoll(at + strlen("MemAvailable:"), NULL, 10) : 0;
    }
    buf_release(&text);
    return kib >> 10;
}

void
doctor_memory(struct findings *findings)
{
    int64_t available = memory_available_mib();
    char limit[64];
    system_text("/sys/fs/cgroup/memory.max", limit, sizeof(limit));
    if (limit[0] >= '0' && limit[0] <= '9') {
        int64_t mib = strtoll(limit, NULL, 10) >> 20;
        findings_add(findings, FINDING_OK, "memory",
                     "this process's group may use %lld MiB", (long long)mib);
        if (mib < available)
            available = mib;
    }
    findings_add(
        findings, available < MEMORY_WARN_MIB ? FINDING_WARN : FINDING_OK, "memory",
        "%lld MiB of memory available; a node takes 80 %% of it%s", (long long)available,
        available < MEMORY_WARN_MIB
            ? ": little model will fit; end other programs, or say with --memory "
              "what training may have"
            : " unless --memory says otherwise");
    struct rlimit locked;
    if (getrlimit(RLIMIT_MEMLOCK, &locked) != 0)
        return;
    if (locked.rlim_cur != RLIM_INFINITY && locked.rlim_cur < LOCKED_BYTES_MIN)
        findings_add(
            findings, FINDING_WARN, "memory",
            "only %llu KiB may be locked, so that keys may reach the swap; raise "
            "the limit of locked memory (ulimit -l)",
            (unsigned long long)locked.rlim_cur >> 10);
    else
        findings_add(findings, FINDING_OK, "memory",
                     "keys can be locked into memory, away from the swap");
}

void
doctor_files(struct findings *findings, int64_t members)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) != 0)
        return;
    int64_t most = files.rlim_max == RLIM_INFINITY ? INT32_MAX : (int64_t)files.rlim_max;
    int64_t needed = doctor_files_needed(members);
    int64_t enough_for = (most - doctor_files_needed(1)) / 10 + 1;
    if (most < needed)
        findings_add(findings, FINDING_BAD, "files",
                     "a node may open %lld files, and a swarm of %lld needs up to %lld; "
                     "raise the hard limit of open files (ulimit -Hn, LimitNOFILE)",
                     (long long)most, (long long)members, (long long)needed);
    else
        findings_add(findings, enough_for < 100 ? FINDING_WARN : FINDING_OK, "files",
                     "a node may open %lld files: enough for a swarm of %lld%s",
                     (long long)most, (long long)enough_for,
                     enough_for < 100
                         ? "; raise the hard limit of open files (ulimit -Hn, "
                           "LimitNOFILE) before it grows"
                         : "");
}

void
doctor_products(struct findings *findings)
{
    const char *provider = matmul_setup();
    bool own = strcmp(provider, "builtin") == 0;
    findings_add(
        findings, own ? FINDING_WARN : FINDING_OK, "compute",
        own ? "neither oneDNN nor OpenBLAS multiplies matrices rightly here (%s is "
              "used, several times slower); install a newer libdnnl or libopenblas"
            : "matrix products by %s are right on all shapes that were tried",
        provider);
}

static int
try_listening(const struct address *base, int which, int *why)
{
    char port[8];
    struct addrinfo *found = NULL;
    struct addrinfo wanted = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
    snprintf(port, sizeof(port), "%d", base->port + which);
    *why = EADDRNOTAVAIL;
    if (getaddrinfo(base->host, port, &wanted, &found) != 0)
        return -1;
    int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int one = 1, rc = -1;
    if (fd >= 0) {
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
        rc = bind(fd, found->ai_addr, found->ai_addrlen) == 0 ? listen(fd, 1) : -1;
        *why = errno;
        close(fd);
    }
    freeaddrinfo(found);
    return rc;
}

void
doctor_ports(struct findings *findings, const struct address *base)
{
    static const char *const uses[] = {"join", "control", "data"};
    bool good = true;
    for (int which = 0; which < 3; which++) {
        int why;
        if (try_listening(base, which, &why) == 0)
            continue;
        good = false;
        findings_add(findings, FINDING_BAD, "ports",
                     "port %d (%s) cannot be listened at: %s; %s", base->port + which,
                     uses[which], strerror(why),
                     why == EADDRINUSE
                         ? "end the program that has it, or choose others with --listen"
                         : "choose another address with --listen");
    }
    if (good)
        findings_add(
            findings, FINDING_OK, "ports",
            "ports %d (join), %d (control) and %d (data) can be listened at; open "
            "all three for TCP in the firewall. Whether others reach them shows "
            "once a node runs in a swarm",
            base->port, base->port + 1, base->port + 2);
}

/* ---- the network ---- */

/* The largest value of a "min default max" line. */
static int64_t
buffer_most(const char *path)
{
    char text[128];
    system_text(path, text, sizeof(text));
    const char *last = strrchr(text, '\t');
    return last ? strtoll(last + 1, NULL, 10) : 0;
}

/* The member that is farthest away, by its round trip; NULL: none is known. */
static const struct json *
farthest(const struct json *status, double *round_trip_ms)
{
    const struct json *members = json_get(status, "members"), *far = NULL;
    *round_trip_ms = 0;
    for (size_t i = 0; i < json_count(members); i++) {
        double ms = json_double(json_get(json_at(members, i), "round_trip_ms"), 0);
        if (ms > *round_trip_ms) {
            *round_trip_ms = ms;
            far = json_at(members, i);
        }
    }
    return far;
}

static bool
word_in(const char *words, const char *word)
{
    size_t len = strlen(word);
    for (const char *at = strstr(words, word); at; at = strstr(at + 1, word))
        if ((at == words || at[-1] == ' ') && (at[len] == ' ' || at[len] == '\0'))
            return true;
    return false;
}

static void
congestion(struct findings *findings, const struct json *status)
{
    char used[32], allowed[256], cost[200];
    double ms;
    const struct json *far = farthest(status, &ms);
    system_text("/proc/sys/net/ipv4/tcp_congestion_control", used, sizeof(used));
    system_text("/proc/sys/net/ipv4/tcp_allowed_congestion_control", allowed,
                sizeof(allowed));
    if (strcmp(used, "bbr") == 0 || word_in(allowed, "bbr")) {
        findings_add(findings, FINDING_OK, "congestion",
                     "data connections use bbr (the system's is %s)", used);
        return;
    }
    /* Short paths lose little by it. */
    bool long_path = far && ms >= 5;
    double far_ms = long_path ? ms : 50;
    snprintf(
        cost, sizeof(cost),
        "one packet lost in a thousand leaves %.1f Mbit/s to a connection of %.0f ms%s%s",
        doctor_mathis(far_ms, 1e-3) * 8 / 1e6, far_ms, long_path ? ", such as to " : "",
        long_path ? json_text(json_get(far, "name"), "") : "");
    findings_add(
        findings, FINDING_WARN, "congestion",
        "the congestion control is %s, and bbr is not allowed: %s, 6 to 30 times "
        "less than with bbr; as root: modprobe tcp_bbr; sysctl "
        "net.ipv4.tcp_congestion_control=bbr (or add bbr to "
        "net.ipv4.tcp_allowed_congestion_control: nodes then choose it)",
        used[0] ? used : "unknown", cost);
}

static void
buffers(struct findings *findings, const struct json *status)
{
    int64_t most = buffer_most("/proc/sys/net/ipv4/tcp_wmem");
    int64_t received = buffer_most("/proc/sys/net/ipv4/tcp_rmem");
    double ms;
    const struct json *far = farthest(status, &ms);
    if (received < most)
        most = received;
    if (most <= 0)
        return;
    double far_ms = far && ms >= 5 ? ms : 50, allows = (double)most / (far_ms / 1e3);
    /* The fastest link that we know of, over that round trip. */
    double needs = 0;
    const struct json *links = json_get(status, "links");
    for (size_t i = 0; i < json_count(links); i++) {
        double rate = json_double(json_get(json_at(links, i), "mbit_per_s"), 0) * 1e6 / 8;
        double trip = json_double(json_get(json_at(links, i), "round_trip_ms"), 0) / 1e3;
        needs = rate * trip > needs ? rate * trip : needs;
    }
    if (needs > (double)most)
        findings_add(
            findings, FINDING_WARN, "buffers",
            "a link here holds %.1f MiB under way, and TCP's buffers %.1f MiB: "
            "raise the last value of net.ipv4.tcp_wmem and tcp_rmem to twice that",
            needs / 1048576, (double)most / 1048576);
    else
        findings_add(findings, FINDING_OK, "buffers",
                     "TCP's buffers let one connection of %.0f ms carry %.0f Mbit/s",
                     far_ms, allows * 8 / 1e6);
}

void
doctor_network(struct findings *findings, const struct json *status)
{
    congestion(findings, status);
    buffers(findings, status);
}

void
doctor_reach(struct findings *findings, const struct json *status)
{
    static const char *const keys[] = {"join", "control", "data"};
    const struct json *reach = json_get(status, "reach");
    const struct json *answers = json_get(reach, "answers");
    const char *address = json_text(json_get(reach, "address"), "");
    const char *seen = json_text(json_get(reach, "seen"), "");
    const char *colon = strrchr(address, ':');
    int port = colon ? (int)strtol(colon + 1, NULL, 10) : ADDRESS_DEFAULT_PORT;
    if (json_count(answers) == 0) {
        findings_add(findings, FINDING_OK, "reach",
                     "no other node has dialled this one back yet (it advertises %s)",
                     address);
        return;
    }
    for (size_t i = 0; i < json_count(answers); i++) {
        const struct json *answer = json_at(answers, i);
        const char *peer = json_text(json_get(answer, "peer"), "");
        char shut[96] = "";
        for (int which = 0; which < 3; which++) {
            const char *is = json_text(json_get(answer, keys[which]), "");
            size_t at = strlen(shut);
            if (strcmp(is, "open") != 0 && strcmp(is, "untried") != 0)
                snprintf(shut + at, sizeof(shut) - at, "%s%d (%s, %s)", at ? ", " : "",
                         port + which, keys[which], is);
        }
        if (shut[0])
            findings_add(
                findings, FINDING_BAD, "reach",
                "%s cannot reach this node at %s: port %s; open it for TCP in the "
                "firewall and forward it in the router, or say with --advertise "
                "which address leads here%s%s%s; until then others answer on the "
                "connections that this node opens",
                peer, address, shut, seen[0] ? " (it sees us come from " : "", seen,
                seen[0] ? ")" : "");
        else
            findings_add(findings, FINDING_OK, "reach", "%s reaches all ports of %s",
                         peer, address);
    }
}

/* ", N of them WHAT", unless there are none. */
static void
put_part(char *text, size_t size, size_t count, const char *what)
{
    size_t at = strlen(text);
    if (count > 0)
        snprintf(text + at, size - at, ", %zu of them %s", count, what);
}

void
doctor_swarm(struct findings *findings, const struct json *status, int64_t answered_ms)
{
    findings_add(findings, answered_ms > 1000 ? FINDING_WARN : FINDING_OK, "node",
                 "the node answered within %lld ms%s", (long long)answered_ms,
                 answered_ms > 1000
                     ? "; it is starved: others may take it for gone. Give "
                       "it a core (--threads)"
                     : "");
    if (!json_bool(json_get(status, "entered"), false)) {
        findings_add(
            findings, FINDING_BAD, "node",
            "the node is in no swarm yet: it waits for the seed that it was told "
            "to join; its log says why");
        return;
    }
    const char *paused = json_text(json_get(status, "paused"), "");
    if (!json_bool(json_get(status, "quorum"), false))
        findings_add(findings, FINDING_BAD, "node",
                     "the node hears no majority of the voters: nothing is decided here "
                     "until it does");
    else if (paused[0])
        findings_add(findings, FINDING_WARN, "node", "training waits here: %s", paused);
    const struct json *members = json_get(status, "members");
    size_t others = 0, round = 0, hidden = 0, lost = 0;
    for (size_t i = 0; i < json_count(members); i++) {
        const struct json *member = json_at(members, i);
        bool alive = strcmp(json_text(json_get(member, "state"), ""), "alive") == 0;
        const char *way = json_text(json_get(member, "way"), "");
        if (json_bool(json_get(member, "self"), false) || !alive)
            continue;
        others++;
        round += strcmp(way, "round") == 0;
        hidden += strcmp(way, "back") == 0;
        lost += strcmp(way, "none") == 0 && json_count(members) <= 24;
    }
    char detail[200] = "";
    put_part(detail, sizeof(detail), hidden, "reached on connections that they opened");
    put_part(detail, sizeof(detail), round,
             "reached by a third node, which is slower: open the ports of one side");
    put_part(detail, sizeof(detail), lost, "not connected: is a port shut between them?");
    findings_add(findings, lost > 0 ? FINDING_WARN : FINDING_OK, "swarm",
                 "%zu other nodes are alive%s", others, detail);
}
