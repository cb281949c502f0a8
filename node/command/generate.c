#include "node/command/command.h"
#include "node/engine/checkpoint.h"
#include "node/engine/matmul.h"
#include "node/engine/stage.h"
#include "transport/base/alloc.h"
#include "transport/base/rng.h"
#include "transport/key.h"

#include <argp.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct given {
    const char *path;
    const char *prompt;
    int64_t tokens;
    double temperature;
    uint64_t seed;
};

static const struct argp_option options[] = {
    {"prompt", 'p', "TEXT", 0, "Text to go on from (default: a new line)", 0},
    {"tokens", 'n', "N", 0, "Tokens to write (default 200)", 0},
    {"temperature", 'T', "X", 0,
     "0: always the likeliest token; 1: as learnt (default 0.8)", 0},
    {"seed", 's', "N", 0, "Seed of the choices (default 1)", 0},
    {0}};

static const char doc[] =
    "Write text with the model of a checkpoint folder: of one checkpoint, or of a folder "
    "that holds several, whose whole one that was written last is taken.\v"
    "Example:\n"
    "  flotilla generate ~/.local/share/flotilla/checkpoints -p \"Call me\"\n";

static error_t
parse(int key, char *arg, struct argp_state *state)
{
    struct given *given = state->input;
    char *end = NULL;
    switch (key) {
    case 'p':
        given->prompt = arg;
        break;
    case 'n':
        given->tokens = strtoll(arg, &end, 10);
        if (end == arg || *end || given->tokens < 1 || given->tokens > 1000000)
            argp_error(state, "--tokens is \"%s\", but must be from 1 to 1000000", arg);
        break;
    case 'T':
        given->temperature = strtod(arg, &end);
        if (end == arg || *end || !(given->temperature >= 0 && given->temperature <= 100))
            argp_error(state, "--temperature is \"%s\", but must be from 0 to 100", arg);
        break;
    case 's':
        given->seed = strtoull(arg, &end, 10);
        if (end == arg || *end || arg[0] == '-')
            argp_error(state, "--seed is \"%s\", but must be a number", arg);
        break;
    case ARGP_KEY_ARG:
        if (given->path)
            argp_error(state, "\"%s\" is one argument too many", arg);
        given->path = arg;
        break;
    case ARGP_KEY_END:
        if (!given->path)
            argp_error(state, "name a checkpoint's folder");
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static struct checkpoint *
open_newest(const char *given, struct checkpoint_info *info, struct err *err)
{
    char path[PATH_BYTES_MAX];
    if (command_checkpoint(given, path, err))
        return NULL;
    struct checkpoint *checkpoint = checkpoint_open(path, info, err);
    if (checkpoint)
        fprintf(stderr, "using %s: job \"%s\", step %lld\n", path, info->name,
                (long long)info->step);
    return checkpoint;
}

static struct stage *
load(const struct checkpoint *checkpoint, const struct model_shape *shape,
     struct err *err)
{
    struct stage_spec spec = {.first_layer = 0,
                              .layers = workload_layers(shape),
                              .micro_batch = 1,
                              .in_flight = 1};
    struct stage *stage = stage_open(shape, &spec, 1, err);
    for (int t = 0; stage && t < workload_tensor_count(shape); t++) {
        if (checkpoint_tensor(checkpoint, t, STATE_WEIGHT,
                              stage_state(stage, t, STATE_WEIGHT), err)) {
            stage_close(stage);
            stage = NULL;
        }
    }
    return stage;
}

static int32_t
choose(const float *logits, int count, double temperature, double unit)
{
    int best = 0;
    for (int i = 1; i < count; i++)
        if (logits[i] > logits[best])
            best = i;
    if (temperature <= 0)
        return best;
    double sum = 0;
    for (int i = 0; i < count; i++)
        sum += exp(((double)logits[i] - (double)logits[best]) / temperature);
    double at = unit * sum;
    for (int i = 0; i < count; i++) {
        at -= exp(((double)logits[i] - (double)logits[best]) / temperature);
        if (at < 0)
            return i;
    }
    return best;
}

static int
write_text(struct stage *stage, const struct model_shape *shape,
           const struct given *given, struct err *err)
{
    size_t length = strlen(given->prompt);
    size_t room = (size_t)shape->context;
    int32_t *tokens = xcalloc(room, sizeof(*tokens));
    float *logits = xcalloc((size_t)shape->vocabulary, sizeof(*logits));
    struct rng rng = {.seed = given->seed, .stream = 0x67656e};
    /* The last `context` bytes of the prompt are what the model sees. */
    size_t skip = length > room ? length - room : 0;
    size_t count = length - skip;
    for (size_t i = 0; i < count; i++)
        tokens[i] = (unsigned char)given->prompt[skip + i];
    fputs(given->prompt, stdout);
    int result = 0;
    for (int64_t n = 0; n < given->tokens && result == 0; n++) {
        result = stage_logits(stage, tokens, (int)count, logits, err);
        if (result)
            break;
        int32_t next =
            choose(logits, shape->vocabulary, given->temperature, rng_unit(&rng));
        putchar(next);
        if (count == room) {
            /* Half of the context goes, so that not every token computes all anew from
             * the left. */
            memmove(tokens, tokens + room / 2, (room - room / 2) * sizeof(*tokens));
            count = room - room / 2;
        }
        tokens[count++] = next;
    }
    putchar('\n');
    free(tokens);
    free(logits);
    return result;
}

int
cmd_generate(int argc, char **argv)
{
    struct given given = {.prompt = "\n", .tokens = 200, .temperature = 0.8, .seed = 1};
    static const struct argp argp = {options, parse, "CHECKPOINT", doc, NULL, NULL, NULL};
    if (argp_parse(&argp, argc, argv, 0, NULL, &given))
        return EXIT_USAGE;
    if (given.prompt[0] == '\0')
        given.prompt = "\n";
    struct err err;
    struct checkpoint_info info = {0};
    if (key_setup(&err))
        return command_fail(&err);
    matmul_setup();
    struct checkpoint *checkpoint = open_newest(given.path, &info, &err);
    struct stage *stage = checkpoint ? load(checkpoint, &info.shape, &err) : NULL;
    int result = stage ? write_text(stage, &info.shape, &given, &err) : -1;
    stage_close(stage);
    checkpoint_close(checkpoint);
    checkpoint_info_release(&info);
    return result ? command_fail(&err) : EXIT_DONE;
}
