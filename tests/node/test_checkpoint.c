#include "node/engine/checkpoint.h"
#include "tests/suite.h"
#include "transport/base/alloc.h"
#include "transport/base/clock.h"
#include "transport/base/file.h"
#include "transport/base/rng.h"
#include "transport/json.h"
#include "transport/key.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

Suite *suite_checkpoint(void);

static const char *const files[] = {"config.json",        "generation_config.json",
                                    "model.safetensors",  "optimizer.safetensors",
                                    "trainer_state.json", "manifest.json"};
enum { FILES = sizeof(files) / sizeof(files[0]), DAMAGED = 1024 };

static const struct id any = {{0}};
static char root[PATH_BYTES_MAX], folder[PATH_BYTES_MAX];
static char path[PATH_BYTES_MAX], newest[PATH_BYTES_MAX];
static char damaged[DAMAGED];
static struct checkpoint_info info;
static struct err err;

/* Tensors whose values follow from (step, kind, tensor, element). */
static struct checkpoint_state state;

static float
value(int64_t step, int kind, int tensor, int64_t element)
{
    return (float)rng_normal((uint64_t)step, (uint64_t)kind << 32 | (uint64_t)tensor,
                             (uint64_t)element);
}

static void
fill(int64_t step)
{
    info.step = step;
    info.samples_hash = UINT64_C(0xfedcba9876543210) + (uint64_t)step;
    for (int t = 0; t < workload_tensor_count(&info.shape); t++) {
        struct tensor_spec spec;
        workload_tensor(&info.shape, t, &spec);
        for (int kind = 0; kind < 3; kind++) {
            float *to = (float *)(uintptr_t)state.tensors[kind][t];
            for (int64_t i = 0; i < spec.elements; i++)
                to[i] = value(step, kind, t, i);
        }
    }
}

static void
setup(void)
{
    ck_assert_int_eq(key_setup(&err), 0);
    suite_folder(root);
    path_join(folder, root, "sail");
    info = (struct checkpoint_info){
        .lineage = {UINT64_C(3) << 32 | 9, UINT64_MAX - 5},
        .seed = UINT64_MAX,
        .job = {{7}},
        .data = {{8}},
        .data_bytes = 12345,
        .name = "sail",
        .shape = {.blocks = 1, .heads = 1, .hidden = 8, .context = 8, .vocabulary = 256},
        .text = "name: sail\n# \"quoted\" \\ and \xc3\xa9\n",
    };
    int count = workload_tensor_count(&info.shape);
    for (int kind = 0; kind < 3; kind++) {
        state.tensors[kind] = xcalloc((size_t)count, sizeof(*state.tensors[kind]));
        for (int t = 0; t < count; t++) {
            struct tensor_spec spec;
            workload_tensor(&info.shape, t, &spec);
            state.tensors[kind][t] = xcalloc((size_t)spec.elements, sizeof(float));
        }
    }
    err = (struct err){0};
}

static void
teardown(void)
{
    for (int kind = 0; kind < 3; kind++) {
        for (int t = 0; t < workload_tensor_count(&info.shape); t++)
            free((void *)(uintptr_t)state.tensors[kind][t]);
        free(state.tensors[kind]);
    }
    file_remove_tree(root, &err);
}

static void
write_step(int64_t step, int keep)
{
    fill(step);
    ck_assert_msg(checkpoint_write(folder, &info, &state, keep, path, &err) == 0, "%s",
                  err.msg);
}

/* Is the checkpoint at `where` that of `step`, to the last bit? */
static void
whole(const char *where, int64_t step)
{
    struct checkpoint_info found;
    struct checkpoint *checkpoint = checkpoint_open(where, &found, &err);
    ck_assert_msg(checkpoint != NULL, "%s", err.msg);
    ck_assert_int_eq(found.step, step);
    ck_assert_uint_eq(found.samples_hash, UINT64_C(0xfedcba9876543210) + (uint64_t)step);
    ck_assert(lineage_same(&found.lineage, &info.lineage));
    ck_assert_uint_eq(found.seed, info.seed);
    ck_assert(id_equal(&found.job, &info.job) && id_equal(&found.data, &info.data));
    ck_assert_int_eq(found.data_bytes, info.data_bytes);
    ck_assert_str_eq(found.name, info.name);
    ck_assert_str_eq(found.text, info.text);
    ck_assert_mem_eq(&found.shape, &info.shape, sizeof(info.shape));
    for (int t = 0; t < workload_tensor_count(&info.shape); t++) {
        struct tensor_spec spec;
        workload_tensor(&info.shape, t, &spec);
        float *got = xcalloc((size_t)spec.elements, sizeof(float));
        for (int kind = 0; kind < 3; kind++) {
            ck_assert_msg(checkpoint_tensor(checkpoint, t, kind, got, &err) == 0, "%s",
                          err.msg);
            for (int64_t i = 0; i < spec.elements; i++) {
                float expected = value(step, kind, t, i);
                ck_assert_mem_eq(&got[i], &expected, sizeof(float));
            }
        }
        free(got);
    }
    checkpoint_info_release(&found);
    checkpoint_close(checkpoint);
}

static void
newest_is(int64_t step)
{
    ck_assert_msg(checkpoint_newest(root, &any, newest, damaged, DAMAGED, &err) == 0,
                  "%s", err.msg);
    whole(newest, step);
}

/* All names in the job's folder, hidden ones too, sorted: "a b c". */
static void
lists(const char *expected)
{
    struct dirent **entries;
    char text[1024] = "";
    int count = scandir(folder, &entries, NULL, alphasort);
    for (int i = 0; i < count; i++) {
        size_t used = strlen(text);
        if (strcmp(entries[i]->d_name, ".") != 0 && strcmp(entries[i]->d_name, "..") != 0)
            snprintf(text + used, sizeof(text) - used, "%s%s", used ? " " : "",
                     entries[i]->d_name);
        free(entries[i]);
    }
    free(entries);
    ck_assert_str_eq(text, expected);
}

START_TEST(what_was_written_is_read_bit_for_bit)
{
    write_step(200, 0);
    char expected[PATH_BYTES_MAX];
    ck_assert_str_eq(path, path_join(expected, folder, "step-000200"));
    whole(path, 200);
    newest_is(200);
    ck_assert_str_eq(damaged, "");
    for (size_t i = 0; i < FILES; i++)
        ck_assert(file_exists(path_join(expected, path, files[i])));
}
END_TEST

START_TEST(without_a_whole_checkpoint_there_is_none)
{
    ck_assert_int_eq(checkpoint_newest(root, &any, newest, damaged, DAMAGED, &err), -1);
    ck_assert_int_eq(err.code, ERR_USAGE);
    ck_assert(strstr(err.msg, "there is no whole checkpoint") && strstr(err.msg, root));
    ck_assert_int_eq(checkpoint_newest("/nonexistent", &any, newest, NULL, 0, &err), -1);
    ck_assert_int_eq(checkpoint_in(folder, &any, newest, NULL, 0, &err), -1);
    ck_assert_int_eq(err.code, ERR_USAGE);
}
END_TEST

START_TEST(hugging_face_finds_its_configuration)
{
    write_step(1, 0);
    char file[PATH_BYTES_MAX];
    struct json *config = json_read(path_join(file, path, "config.json"), 1 << 20, &err);
    ck_assert_ptr_nonnull(config);
    ck_assert_str_eq(json_text(json_get(config, "model_type"), ""), "gpt2");
    ck_assert_str_eq(json_text(json_at(json_get(config, "architectures"), 0), ""),
                     "GPT2LMHeadModel");
    ck_assert_str_eq(json_text(json_get(config, "activation_function"), ""), "gelu_new");
    ck_assert_int_eq(json_int(json_get(config, "n_embd"), 0), 8);
    ck_assert_int_eq(json_int(json_get(config, "n_positions"), 0), 8);
    ck_assert(json_bool(json_get(config, "tie_word_embeddings"), false));
    ck_assert(json_double(json_get(config, "layer_norm_epsilon"), 0) == 1e-5);
    json_free(config);
}
END_TEST

/* Flip and cut every file at many places: never used, always named, the one before is. */
START_TEST(a_damaged_checkpoint_is_named_and_the_one_before_is_used)
{
    write_step(100, 0);
    write_step(200, 0);
    for (size_t f = 0; f < FILES; f++) {
        char file[PATH_BYTES_MAX];
        struct buf bytes = {0};
        path_join(file, path, files[f]);
        ck_assert_int_eq(file_read(file, 1 << 24, &bytes, &err), 0);
        size_t stride = bytes.len / 24 + 1;
        for (size_t at = 0; at < 2 * bytes.len; at += stride) {
            bool cut = at >= bytes.len;
            uint8_t *bad = xmemdup(bytes.data, bytes.len);
            bad[at % bytes.len] ^= 0x10;
            ck_assert_int_eq(
                file_write(file, bad, cut ? at - bytes.len : bytes.len, 0600, &err), 0);
            free(bad);
            struct checkpoint_info found;
            struct checkpoint *checkpoint = checkpoint_open(path, &found, &err);
            if (checkpoint) {
                /* A flip in the manifest's own words, such as its version. */
                ck_assert_msg(strcmp(files[f], "manifest.json") == 0 && !cut, "%s at %zu",
                              files[f], at);
                checkpoint_info_release(&found);
                checkpoint_close(checkpoint);
                continue;
            }
            ck_assert_int_eq(err.code, ERR_CORRUPT);
            ck_assert_msg(strstr(err.msg, "step-000200") != NULL, "%s at %zu: %s",
                          files[f], at, err.msg);
            ck_assert_int_eq(
                checkpoint_newest(root, &any, newest, damaged, DAMAGED, &err), 0);
            ck_assert_msg(strstr(newest, "step-000100"), "%s", newest);
            ck_assert_msg(strstr(damaged, "step-000200"), "%s", damaged);
        }
        ck_assert_int_eq(unlink(file), 0);
        newest_is(100);
        ck_assert_msg(strstr(damaged, "step-000200"), "%s", damaged);
        ck_assert_int_eq(file_write(file, bytes.data, bytes.len, 0600, &err), 0);
        buf_release(&bytes);
    }
    newest_is(200);
    ck_assert_str_eq(damaged, "");
}
END_TEST

START_TEST(only_names_of_our_own_are_checkpoints)
{
    static const char *const names[] = {"step-",
                                        "step-abc",
                                        "step-7",
                                        "step-+009",
                                        "step- 009",
                                        "step-000009x",
                                        "step--0009",
                                        "step-99999999999999999999",
                                        ".step-000300.new",
                                        "notes"};
    write_step(100, 0);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char other[PATH_BYTES_MAX];
        ck_assert_int_eq(file_make_folder(path_join(other, folder, names[i]), &err), 0);
    }
    newest_is(100);
    ck_assert_str_eq(damaged, "");
    /* A file where a folder should be is damage. */
    char file[PATH_BYTES_MAX];
    ck_assert_int_eq(
        file_write(path_join(file, folder, "step-000400"), "x", 1, 0600, &err), 0);
    newest_is(100);
    ck_assert_msg(strstr(damaged, "step-000400") != NULL, "%s", damaged);
    write_step(1234567, 1); /* more digits than six */
    newest_is(1234567);
}
END_TEST

START_TEST(the_newest_are_kept_and_older_ones_go)
{
    for (int step = 10; step <= 50; step += 10)
        write_step(step, 3);
    lists("step-000030 step-000040 step-000050");
    write_step(60, 1);
    lists("step-000060");
    write_step(70, 0);
    write_step(80, 0);
    lists("step-000060 step-000070 step-000080");
}
END_TEST

static void
damage(const char *step, const char *name)
{
    char where[PATH_BYTES_MAX], file[PATH_BYTES_MAX];
    path_join(file, path_join(where, folder, step), name);
    ck_assert_int_eq(truncate(file, 3), 0);
}

/* A run that fell back to step 100 because 200 is damaged writes 150 next. */
START_TEST(a_damaged_newer_one_does_not_cost_the_one_just_written)
{
    write_step(100, 2);
    write_step(200, 2);
    damage("step-000200", "model.safetensors");
    write_step(150, 1);
    newest_is(150);
    write_step(200, 1); /* the run reaches it again */
    lists("step-000200");
    newest_is(200);
    ck_assert_str_eq(damaged, "");
}
END_TEST

START_TEST(a_damaged_older_one_does_not_count_among_those_kept)
{
    write_step(10, 0);
    write_step(20, 0);
    write_step(30, 0);
    damage("step-000030", "manifest.json");
    write_step(40, 2);
    lists("step-000020 step-000040");
}
END_TEST

START_TEST(the_same_step_again_replaces_the_first)
{
    write_step(7, 0);
    info.data_bytes = 999;
    write_step(7, 2);
    lists("step-000007");
    newest_is(7);
}
END_TEST

START_TEST(of_several_runs_the_one_written_last_is_resumed)
{
    struct id first = info.job, second = {{99}};
    write_step(900, 0);
    clock_sleep_ms(20);
    /* A new run under the same name begins at the bottom. */
    info.job = second;
    write_step(10, 1);
    clock_sleep_ms(20);
    write_step(20, 1);
    newest_is(20);
    lists("step-000020 step-000900");
    /* By its id each is found, the largest step first. */
    ck_assert_int_eq(checkpoint_newest(root, &first, newest, damaged, DAMAGED, &err), 0);
    ck_assert(strstr(newest, "step-000900"));
    ck_assert_int_eq(checkpoint_newest(root, &second, newest, damaged, DAMAGED, &err), 0);
    ck_assert(strstr(newest, "step-000020"));
    ck_assert_int_eq(
        checkpoint_newest(root, &(struct id){{5}}, newest, damaged, DAMAGED, &err), -1);
    /* And a run of another name, in a folder of its own. */
    clock_sleep_ms(20);
    path_join(folder, root, "other");
    info.job = first;
    write_step(5, 1);
    newest_is(5);
    ck_assert_int_eq(checkpoint_in(folder, &any, newest, damaged, DAMAGED, &err), 0);
    ck_assert(strstr(newest, "other/step-000005"));
}
END_TEST

/* As another program wrote it: one character of the trainer's state is another, so far behind
 * a key, and the manifest is right about it. */
static void
say_instead(const char *key, size_t behind, char other)
{
    char trainer[PATH_BYTES_MAX], manifest[PATH_BYTES_MAX], hex[ID_TEXT_SIZE];
    struct buf text = {0}, lines = {0};
    struct id hash;
    path_join(trainer, path, "trainer_state.json");
    path_join(manifest, path, "manifest.json");
    ck_assert_int_eq(file_read(trainer, 1 << 20, &text, &err), 0);
    ck_assert_int_eq(file_read(manifest, 1 << 20, &lines, &err), 0);
    buf_add(&text, "", 1);
    buf_add(&lines, "", 1);
    char *at = strstr((char *)text.data, key);
    ck_assert_ptr_nonnull(at);
    at[strlen(key) + behind] = other;
    key_hash(text.data, text.len - 1, &hash);
    at = strstr((char *)lines.data, "\"trainer_state.json\"");
    ck_assert_ptr_nonnull(at);
    at = strchr(strstr(at, "\"blake2b\"") + 9, '"');
    memcpy(at + 1, id_text(&hash, hex), 64);
    ck_assert_int_eq(file_write(trainer, text.data, text.len - 1, 0600, &err), 0);
    ck_assert_int_eq(file_write(manifest, lines.data, lines.len - 1, 0600, &err), 0);
    buf_release(&text);
    buf_release(&lines);
}

static void
say_version(char version)
{
    say_instead("\"version\":", 0, version);
}

static struct lineage
lineage_found(void)
{
    struct checkpoint_info found;
    struct checkpoint *checkpoint = checkpoint_open(path, &found, &err);
    ck_assert_msg(checkpoint != NULL, "%s", err.msg);
    struct lineage lineage = found.lineage;
    checkpoint_info_release(&found);
    checkpoint_close(checkpoint);
    return lineage;
}

START_TEST(a_checkpoint_of_the_older_form_is_named_by_what_is_in_it)
{
    write_step(20, 0);
    struct lineage told = lineage_found();
    ck_assert(lineage_same(&told, &info.lineage));
    say_version('1');
    struct lineage first = lineage_found();
    ck_assert_uint_eq(first.epoch, 0);
    write_step(20, 0); /* the same numbers */
    say_version('1');
    struct lineage same = lineage_found();
    ck_assert(lineage_same(&first, &same));
    ((float *)(uintptr_t)state.tensors[2][1])[0] += 1;
    ck_assert_int_eq(checkpoint_write(folder, &info, &state, 0, path, &err), 0);
    say_version('1');
    struct lineage other = lineage_found();
    ck_assert(!lineage_same(&first, &other));
}
END_TEST

START_TEST(a_checkpoint_of_a_form_that_is_not_known_is_refused)
{
    struct checkpoint_info found;
    write_step(20, 0);
    say_version('3');
    ck_assert_ptr_null(checkpoint_open(path, &found, &err));
    ck_assert_int_eq(err.code, ERR_CORRUPT);
    ck_assert_msg(strstr(err.msg, "version 3"), "%s", err.msg);
}
END_TEST

START_TEST(words_that_are_not_as_we_write_them_are_refused)
{
    static const struct {
        const char *key;
        size_t behind;
        char other;
    } changes[] = {{"\"seed\":\"", 0, '-'},         {"\"seed\":\"", 0, ' '},
                   {"\"samples_hash\":\"", 1, 'x'}, {"\"decree\":\"", 15, 'F'},
                   {"\"name\":\"", 0, '.'},         {"\"name\":\"", 1, '/'},
                   {"\"job\":\"", 0, 'g'}};
    for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
        struct checkpoint_info found;
        write_step(20, 0);
        say_instead(changes[i].key, changes[i].behind, changes[i].other);
        ck_assert_msg(checkpoint_open(path, &found, &err) == NULL, "%s", changes[i].key);
        ck_assert_int_eq(err.code, ERR_CORRUPT);
    }
}
END_TEST

START_TEST(a_tensor_of_another_shape_is_refused)
{
    write_step(1, 0);
    /* A config that belongs to another model, with a manifest that is right about it. */
    struct checkpoint_info found;
    struct checkpoint *checkpoint = checkpoint_open(path, &found, &err);
    ck_assert_ptr_nonnull(checkpoint);
    checkpoint_close(checkpoint);
    checkpoint_info_release(&found);
    char other[PATH_BYTES_MAX], from[PATH_BYTES_MAX], to[PATH_BYTES_MAX];
    snprintf(other, sizeof(other), "%s", path);
    struct model_shape shape = info.shape;
    info.shape.context = 4; /* fewer positions are written than said below */
    write_step(2, 0);
    info.shape = shape;
    struct buf config = {0};
    ck_assert_int_eq(
        file_read(path_join(from, other, "config.json"), 1 << 20, &config, &err), 0);
    ck_assert_int_eq(file_write(path_join(to, path, "config.json"), config.data,
                                config.len, 0600, &err),
                     0);
    struct buf manifest = {0}, replaced = {0};
    ck_assert_int_eq(
        file_read(path_join(from, path, "manifest.json"), 1 << 20, &manifest, &err), 0);
    buf_add(&manifest, "", 1);
    struct id hash;
    char hex[ID_TEXT_SIZE];
    key_hash(config.data, config.len, &hash);
    char *at = strstr((char *)manifest.data, "\"blake2b\"");
    ck_assert_ptr_nonnull(at);
    at = strchr(at, ':') + 1;
    at += *at == ' ';
    memcpy(at + 1, id_text(&hash, hex), 64);
    buf_add(&replaced, manifest.data, manifest.len - 1);
    ck_assert_int_eq(file_write(from, replaced.data, replaced.len, 0600, &err), 0);
    ck_assert_ptr_null(checkpoint_open(path, &found, &err));
    ck_assert_int_eq(err.code, ERR_CORRUPT);
    ck_assert_msg(strstr(err.msg, "transformer.wpe.weight"), "%s", err.msg);
    buf_release(&config);
    buf_release(&manifest);
    buf_release(&replaced);
}
END_TEST

/* ---- a disk that fails ---- */

/* In a process of its own, whose files may have `bytes_max` bytes: the older checkpoint
 * is there before and after, nothing else is. Returns 1 when checkpoint_write() failed.
 */
static int
write_in_child(const char *before, rlim_t bytes_max)
{
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        fill(200);
        struct err why = {0};
        signal(SIGXFSZ, SIG_IGN);
        setrlimit(RLIMIT_FSIZE, &(struct rlimit){bytes_max, RLIM_INFINITY});
        int result = checkpoint_write(folder, &info, &state, 0, path, &why);
        bool said = result == 0 ||
                    (why.code == ERR_SYSTEM && strstr(why.msg, folder) != NULL &&
                     (strstr(why.msg, "No space left") || strstr(why.msg, "too large")));
        if (!said)
            fprintf(stderr, "%s\n", why.msg);
        _exit(said ? (result == 0 ? 0 : 1) : 2);
    }
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) < 2, "status %x", status);
    if (WEXITSTATUS(status) == 1) {
        lists(before);
        newest_is(100);
        ck_assert_str_eq(damaged, "");
    }
    return WEXITSTATUS(status);
}

START_TEST(a_file_that_may_not_grow_leaves_the_older_checkpoint)
{
    write_step(100, 0);
    int failed = 0, result = 1;
    for (rlim_t bytes = 0; result != 0; bytes += bytes / 5 + 97) {
        ck_assert_msg(bytes < 1 << 22, "it never succeeds");
        result = write_in_child("step-000100", bytes);
        failed += result;
    }
    ck_assert_int_gt(failed, 10);
    lists("step-000100 step-000200");
    newest_is(200);
}
END_TEST

/* A disk with one page more each time: every write that can fail does, once. */
START_TEST(a_full_disk_leaves_the_older_checkpoint)
{
    if (geteuid() != 0 || unshare(CLONE_NEWNS) ||
        mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL)) {
        suite_skip("a_full_disk_leaves_the_older_checkpoint",
                   "mounting a small disk needs root");
        return;
    }
    long page = sysconf(_SC_PAGESIZE);
    int failed = 0, result = 1;
    for (int pages = 8; result != 0; pages++) {
        char options[64];
        ck_assert_int_lt(pages, 400);
        snprintf(options, sizeof(options), "size=%ld", pages * page);
        if (mount("none", root, "tmpfs", 0, options)) {
            suite_skip("a_full_disk_leaves_the_older_checkpoint",
                       "no tmpfs can be mounted here");
            return;
        }
        fill(100);
        if (checkpoint_write(folder, &info, &state, 0, path, &err) == 0) {
            result = write_in_child("step-000100", RLIM_INFINITY);
            failed += result;
        } else {
            ck_assert_msg(strstr(err.msg, "No space left"), "%s", err.msg);
            lists("");
        }
        if (result == 0)
            newest_is(200);
        ck_assert_int_eq(umount(root), 0);
    }
    ck_assert_int_gt(failed, 10);
}
END_TEST

/* Killed at any moment, the step that is written again and again is always there. */
START_TEST(a_kill_at_any_moment_leaves_a_whole_checkpoint)
{
    struct rng rng = {
        .seed = suite_seed("a_kill_at_any_moment_leaves_a_whole_checkpoint", 11)};
    write_step(100, 0);
    for (int round = 0; round < 40; round++) {
        pid_t child = fork();
        ck_assert_int_ge(child, 0);
        if (child == 0) {
            for (int64_t step = 101;; step = step == 101 ? 100 : 101) {
                fill(step);
                if (checkpoint_write(folder, &info, &state, 1, path, &err))
                    _exit(1);
            }
        }
        usleep((useconds_t)rng_below(&rng, 12000));
        kill(child, SIGKILL);
        int status;
        ck_assert_int_eq(waitpid(child, &status, 0), child);
        ck_assert_msg(WIFSIGNALED(status), "a write failed");
        ck_assert_msg(checkpoint_newest(root, &any, newest, damaged, DAMAGED, &err) == 0,
                      "round %d: %s", round, err.msg);
        whole(newest, strstr(newest, "step-000101") ? 101 : 100);
    }
    write_step(300, 1);
    lists("step-000300"); /* whatever the kills left behind is gone */
}
END_TEST

START_TEST(a_folder_that_cannot_be_made_is_an_error)
{
    ck_assert_int_eq(file_write(folder, "in the way", 10, 0600, &err), 0);
    fill(1);
    ck_assert_int_eq(checkpoint_write(folder, &info, &state, 1, path, &err), -1);
    ck_assert_int_eq(err.code, ERR_SYSTEM);
    ck_assert_msg(strstr(err.msg, folder), "%s", err.msg);
}
END_TEST

/* ---- other readers ---- */

static const char reader[] =
    "import json, struct, sys, os\n"
    "p = sys.argv[1]\n"
    "try:\n"
    "    from safetensors.numpy import load_file\n"
    "    t = {k: (list(v.shape), v.astype('<f4').tobytes()) for k, v in "
    "load_file(p).items()}\n"
    "except ImportError:\n"
    "    b = open(p, 'rb').read()\n"
    "    n, = struct.unpack('<Q', b[:8])\n"
    "    h = json.loads(b[8:8 + n])\n"
    "    assert h.pop('__metadata__') == {'format': 'pt'}\n"
    "    d = b[8 + n:]\n"
    "    t = {k: (v['shape'], d[v['data_offsets'][0]:v['data_offsets'][1]]) for k, v in "
    "h.items()}\n"
    "    assert all(v['dtype'] == 'F32' for v in h.values())\n"
    "assert len(t) == 16, len(t)\n"
    "assert t['transformer.wte.weight'][0] == [256, 8]\n"
    "assert t['transformer.h.0.attn.c_attn.weight'][0] == [8, 24]\n"
    "assert t['transformer.ln_f.bias'][0] == [8]\n"
    "assert 'lm_head.weight' not in t\n"
    "assert t['transformer.wpe.weight'][1] == open(sys.argv[2], 'rb').read()\n";

START_TEST(another_reader_finds_the_same_tensors)
{
    if (access("/usr/bin/python3", X_OK)) {
        suite_skip("another_reader_finds_the_same_tensors", "there is no python3");
        return;
    }
    write_step(3, 0);
    char model[PATH_BYTES_MAX], raw[PATH_BYTES_MAX];
    path_join(model, path, "model.safetensors");
    path_join(raw, root, "wpe");
    ck_assert_int_eq(file_write(raw, state.tensors[0][1], 64 * sizeof(float), 0600, &err),
                     0);
    pid_t child = fork();
    if (child == 0) {
        execl("/usr/bin/python3", "python3", "-c", reader, model, raw, (char *)NULL);
        _exit(127);
    }
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
}
END_TEST

Suite *
suite_checkpoint(void)
{
    Suite *suite = suite_create("checkpoint");
    TCase *tests = suite_case(suite, "checkpoint", 60);
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, what_was_written_is_read_bit_for_bit);
    tcase_add_test(tests, without_a_whole_checkpoint_there_is_none);
    tcase_add_test(tests, hugging_face_finds_its_configuration);
    tcase_add_test(tests, a_damaged_checkpoint_is_named_and_the_one_before_is_used);
    tcase_add_test(tests, only_names_of_our_own_are_checkpoints);
    tcase_add_test(tests, the_newest_are_kept_and_older_ones_go);
    tcase_add_test(tests, a_damaged_newer_one_does_not_cost_the_one_just_written);
    tcase_add_test(tests, a_damaged_older_one_does_not_count_among_those_kept);
    tcase_add_test(tests, the_same_step_again_replaces_the_first);
    tcase_add_test(tests, of_several_runs_the_one_written_last_is_resumed);
    tcase_add_test(tests, a_checkpoint_of_the_older_form_is_named_by_what_is_in_it);
    tcase_add_test(tests, a_checkpoint_of_a_form_that_is_not_known_is_refused);
    tcase_add_test(tests, words_that_are_not_as_we_write_them_are_refused);
    tcase_add_test(tests, a_tensor_of_another_shape_is_refused);
    tcase_add_test(tests, a_file_that_may_not_grow_leaves_the_older_checkpoint);
    tcase_add_test(tests, a_full_disk_leaves_the_older_checkpoint);
    tcase_add_test(tests, a_kill_at_any_moment_leaves_a_whole_checkpoint);
    tcase_add_test(tests, a_folder_that_cannot_be_made_is_an_error);
    tcase_add_test(tests, another_reader_finds_the_same_tensors);
    return suite;
}
