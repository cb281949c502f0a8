#include "node/node.h"
#include "node/command/command.h"
#include "node/engine/matmul.h"
#include "node/status.h"
#include "transport/base/file.h"

#include <argp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    OPTION_MEMORY = 256,
    OPTION_SECRET,
    OPTION_LOG_FORMAT,
    OPTION_LOG_LEVEL,
    OPTION_ADVERTISE,
    OPTION_MOVED,
    OPTION_NEW_IDENTITY,
    OPTION_ENGINE
};

static const struct argp_option options[] = {
    {"zone", 'z', "ZONE", 0, "Zone of this machine: nodes with fast links among them", 0},
    {"name", 'n', "NAME", 0, "Name of this node (default: the short form of its id)", 0},
    {"data", 'd', "DIR", 0, "Data folder (default ~/.local/share/flotilla)", 0},
    {"listen", 'l', "HOST:PORT", 0,
     "Join socket (default 0.0.0.0:7700); control is PORT+1, bulk data PORT+2", 0},
    {"advertise", OPTION_ADVERTISE, "HOST:PORT", 0, "Address that other nodes dial", 0},
    {"join", 'j', "HOST:PORT", 0,
     "Join the swarm of the node at this address, or by an invite (swarm1:...)", 0},
    {"secret-file", OPTION_SECRET, "FILE", 0,
     "The swarm's secret (default: FLOTILLA_SECRET, then DIR/swarm.secret)", 0},
    {"threads", 't', "N", 0, "Compute threads (default: one per core)", 0},
    {"memory", OPTION_MEMORY, "SIZE", 0,
     "Memory that training may use, such as 4GiB, at least 64MiB (default: 80 % of what "
     "is available)",
     0},
    {"engine", OPTION_ENGINE, "on|off", 0,
     "off: this node votes and keeps the swarm together, but has no part in a run", 0},
    {"moved", OPTION_MOVED, NULL, 0,
     "The data folder was moved here from another machine (needed once)", 0},
    {"new-identity", OPTION_NEW_IDENTITY, NULL, 0,
     "The data folder is a copy: join as another node, with --join", 0},
    {"config", 'c', "FILE", 0, "Read node.yaml; options win over it", 0},
    {"log-format", OPTION_LOG_FORMAT, "FORMAT", 0, "text or json", 0},
    {"log-level", OPTION_LOG_LEVEL, "LEVEL", 0, "error, warn, info or debug", 0},
    {0}};

static const char doc[] =
    "Run a node: it founds a swarm in an empty data folder, joins one by a seed's "
    "address and the swarm's secret, or comes back as the member that it was.\v"
    "Examples:\n"
    "  flotilla node --zone a\n"
    "  flotilla node --zone b --join 203.0.113.7:7700 --secret-file swarm.secret\n"
    "  flotilla node --zone c --join swarm1:pzlj2...   (from \"flotilla invite\")\n\n"
    "Ports to open: PORT, PORT+1 and PORT+2. SIGTERM leaves the swarm, a second one\n"
    "stops at once.";

static int
take_option(int key, char *arg, struct node_config *config, struct err *err)
{
    char *end;
    switch (key) {
    case 'z':
        snprintf(config->zone, sizeof(config->zone), "%.32s", arg);
        return config_name_check("--zone", arg, err);
    case 'n':
        snprintf(config->name, sizeof(config->name), "%.32s", arg);
        return config_name_check("--name", arg, err);
    case 'd':
        return config_data_take(arg, config->data, err);
    case 'l':
        return address_parse(arg, &config->listen, err);
    case OPTION_ADVERTISE:
        return config_advertise(arg, config, err);
    case 'j':
        if (config_join_take(arg, config, err))
            return -1;
        /* An invite is a secret: it is not left where "ps" shows it. */
        if (config->invited)
            key_wipe(arg + strlen(INVITE_PREFIX), strlen(arg + strlen(INVITE_PREFIX)));
        return 0;
    case OPTION_MOVED:
        config->moved = true;
        return 0;
    case OPTION_NEW_IDENTITY:
        config->new_identity = true;
        return 0;
    case OPTION_SECRET:
        if (strlen(arg) >= sizeof(config->secret_file))
            return err_set(err, ERR_USAGE, "--secret-file is a path that is too long");
        snprintf(config->secret_file, sizeof(config->secret_file), "%s", arg);
        return 0;
    case 't':
        config->threads = (int)strtol(arg, &end, 10);
        if (*end || config->threads < 1 || config->threads > 1024)
            return err_set(err, ERR_USAGE,
                           "--threads is \"%s\", but must be from 1 to 1024", arg);
        return 0;
    case OPTION_ENGINE:
        return config_engine_take("--engine", arg, config, err);
    case OPTION_MEMORY:
        return config_memory_take("--memory", arg, &config->memory_bytes, err);
    case OPTION_LOG_FORMAT:
        config->log_json = strcmp(arg, "json") == 0;
        if (!config->log_json && strcmp(arg, "text") != 0)
            return err_set(err, ERR_USAGE, "--log-format is \"%s\"; use text or json",
                           arg);
        return 0;
    default: {
        static const char *const levels[] = {"error", "warn", "info", "debug"};
        for (int i = 0; i < 4; i++)
            if (strcmp(arg, levels[i]) == 0) {
                config->log_level = (enum log_level)i;
                return 0;
            }
        return err_set(err, ERR_USAGE,
                       "--log-level is \"%s\"; use error, warn, info or debug", arg);
    }
    }
}

/* The file is read in a pass of its own before the options that win over it. */
struct passes {
    struct node_config *config;
    bool file_pass;
    struct err err; /* of the file */
};

/* An option that follows at once was taken for the value that was forgotten. */
static void
check_value(int key, const char *arg, struct argp_state *state)
{
    for (const struct argp_option *option = options; option->name; option++)
        if (option->key == key && arg && strncmp(arg, "--", 2) == 0)
            argp_error(state, "--%s needs a value, but \"%s\" follows it", option->name,
                       arg);
}

static error_t
parse(int key, char *arg, struct argp_state *state)
{
    struct passes *passes = state->input;
    struct err err;
    check_value(key, arg, state);
    if (key == ARGP_KEY_ARG) {
        argp_error(state, "\"%s\" is one argument too many", arg);
        return EINVAL;
    }
    if (!arg && key != OPTION_MOVED && key != OPTION_NEW_IDENTITY)
        return key == ARGP_KEY_END || key == ARGP_KEY_INIT ? 0 : ARGP_ERR_UNKNOWN;
    if (passes->file_pass && key == 'c')
        return config_read(arg, passes->config, &passes->err) ? EINVAL : 0;
    if (!passes->file_pass && key != 'c' && take_option(key, arg, passes->config, &err))
        argp_error(state, "%s", err.msg);
    return 0;
}

static int64_t
memory_available(void)
{
    struct buf text = {0};
    struct err err;
    long long kib = 0;
    if (file_read("/proc/meminfo", 64 << 10, &text, &err) == 0) {
        buf_add(&text, "", 1);
        const char *at = strstr((char *)text.data, "MemAvailable:");
        if (at)
            kib = strtoll(at + strlen("MemAvailable:"), NULL, 10);
    }
    buf_release(&text);
    return kib > 0 ? kib * 1024 / 10 * 8 : INT64_C(1) << 30;
}

/* The loop reads these two from a descriptor. Blocked before there are other threads, which
 * inherit that. */
static void
block_signals(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigprocmask(SIG_BLOCK, &set, NULL);
}

int
cmd_node(int argc, char **argv)
{
    struct node_config config;
    config_init(&config);
    struct err err;
    static const struct argp argp = {options, parse, NULL, doc, NULL, NULL, NULL};
    struct passes passes = {.config = &config, .file_pass = true};
    for (int pass = 0; pass < 2; pass++, passes.file_pass = false) {
        if (argp_parse(&argp, argc, argv, 0, NULL, &passes)) {
            config_release(&config);
            return passes.err.code ? command_fail(&passes.err) : EXIT_USAGE;
        }
    }
    if (config.new_identity && !config.join.host[0]) {
        err_set(
            &err, ERR_USAGE,
            "with a new identity this is another node, which has to join: give --join");
        config_release(&config);
        return command_fail(&err);
    }
    if (config.secret_file[0] && !file_exists(config.secret_file)) {
        err_set(&err, ERR_USAGE,
                "there is no file \"%.160s\" with the swarm's secret; "
                "copy " STATUS_SECRET_FILE " from the data folder of a node",
                config.secret_file);
        config_release(&config);
        return command_fail(&err);
    }
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    if (config.threads == 0)
        config.threads = cores > 0 ? (int)cores : 1;
    if (config.memory_bytes == 0)
        config.memory_bytes = memory_available();
    log_setup(config.log_level, config.log_json);
    block_signals();
    if (!config.engine_off)
        log_info("engine", "matrix products provider=%s threads=%d", matmul_setup(),
                 config.threads);
    key_guard(true);
    int result = node_run(&config, &err);
    key_guard(false);
    config_release(&config);
    return result ? command_fail(&err) : EXIT_DONE;
}
