/*
 * A checkpoint's folder in which one file is the input's: what the manifest says then fits
 * it, so that the reader behind it is met. Opened whole, with every tensor of its model to
 * be copied and every value in its range, or passed over with a sentence.
 *
 * The first byte says which file; with 16 in it the input is that file, else it changes the
 * good one, (place, value) in three bytes each. With 32 the input is the header before the
 * good tensors' data.
 */
#include "node/engine/checkpoint.h"
#include "transport/base/alloc.h"
#include "transport/base/file.h"
#include "transport/base/must.h"
#include "transport/base/utf8.h"
#include "transport/key.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { WRITTEN = 5, MANIFEST = WRITTEN, FILES, MODEL = 2, AS_IT_IS = 16, HEADER = 32 };

static const char *const names[FILES] = {"config.json",        "generation_config.json",
                                         "model.safetensors",  "optimizer.safetensors",
                                         "trainer_state.json", "manifest.json"};
static char root[] = "/tmp/fuzz_checkpoint.XXXXXX";
static char folder[PATH_BYTES_MAX], path[PATH_BYTES_MAX];
static struct buf good[FILES];
static struct checkpoint_info made = {
    .step = 7,
    .lineage = {UINT64_C(3) << 32 | 9, UINT64_MAX - 5},
    .samples_hash = 1,
    .seed = UINT64_MAX,
    .job = {{7}},
    .data = {{8}},
    .data_bytes = 12345,
    .name = "sail",
    .shape = {.blocks = 1, .heads = 1, .hidden = 2, .context = 2, .vocabulary = 4}};

static void
clean_up(void)
{
    struct err err;
    file_remove_tree(root, &err);
}

static void
make_good(void)
{
    struct checkpoint_state state;
    struct err err = {0};
    float zeros[64] = {0};
    char text[] = "name: sail\n", file[PATH_BYTES_MAX];
    int count = workload_tensor_count(&made.shape);
    for (int kind = 0; kind < 3; kind++) {
        state.tensors[kind] = xcalloc((size_t)count, sizeof(*state.tensors[kind]));
        for (int t = 0; t < count; t++)
            state.tensors[kind][t] = zeros;
    }
    made.text = text;
    must(checkpoint_write(folder, &made, &state, 0, path, &err) == 0);
    made.text = NULL;
    for (int f = 0; f < FILES; f++)
        must(file_read(path_join(file, path, names[f]), 1 << 20, &good[f], &err) == 0);
    for (int kind = 0; kind < 3; kind++)
        free(state.tensors[kind]);
}

static void
setup(void)
{
    struct err err = {0};
    must(key_setup(&err) == 0 && mkdtemp(root));
    atexit(clean_up);
    path_join(folder, root, "sail");
    make_good();
}

/* Neither synced nor cut to nothing first, at which some file systems wait for the disk. */
static void
put(int which, const struct buf *bytes)
{
    char file[PATH_BYTES_MAX];
    int fd =
        open(path_join(file, path, names[which]), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    must(fd >= 0 && write(fd, bytes->data, bytes->len) == (ssize_t)bytes->len);
    must(ftruncate(fd, (off_t)bytes->len) == 0 && close(fd) == 0);
}

static void
make_manifest(int other, const struct buf *its)
{
    struct buf text = {0};
    buf_printf(&text, "{\"version\":1,\"files\":{");
    for (int f = 0; f < WRITTEN; f++) {
        const struct buf *bytes = f == other ? its : &good[f];
        struct id hash;
        char hex[ID_TEXT_SIZE];
        key_hash(bytes->len > 0 ? bytes->data : (const uint8_t *)"", bytes->len, &hash);
        buf_printf(&text, "%s\"%s\":{\"bytes\":%zu,\"blake2b\":\"%s\"}", f ? "," : "",
                   names[f], bytes->len, id_text(&hash, hex));
    }
    buf_printf(&text, "}}");
    put(MANIFEST, &text);
    buf_release(&text);
}

static void
make_changed(int which, const uint8_t *data, size_t size, struct buf *out)
{
    buf_add(out, good[which].data, good[which].len);
    for (size_t i = 0; i + 3 <= size; i += 3)
        out->data[((size_t)data[i] << 8 | data[i + 1]) % out->len] = data[i + 2];
}

/* A length, the input, and the data of the good file. */
static void
make_tensors(int which, const uint8_t *data, size_t size, struct buf *out)
{
    size_t header = good[which].data[0] | (size_t)good[which].data[1] << 8;
    uint8_t length[8] = {(uint8_t)size, (uint8_t)(size >> 8), (uint8_t)(size >> 16)};
    buf_add(out, length, sizeof(length));
    buf_add(out, data, size);
    buf_add(out, good[which].data + 8 + header, good[which].len - 8 - header);
}

static void
use(struct checkpoint *checkpoint, const struct checkpoint_info *info)
{
    struct err err = {0};
    must(model_shape_check(&info->shape, &err) == 0);
    must(info->step >= 0 && info->step <= INT64_C(1) << 40);
    must(info->data_bytes >= 0 && info->name[0]);
    must(!info->text || strlen(info->text) < JOB_BYTES_MAX);
    for (const char *at = info->name; *at; at += utf8_bytes(at))
        must((unsigned char)*at >= 0x20 && utf8_bytes(at) > 0);
    for (int t = 0; t < workload_tensor_count(&info->shape); t++) {
        struct tensor_spec spec;
        workload_tensor(&info->shape, t, &spec);
        float *out = xcalloc((size_t)spec.elements, sizeof(*out));
        for (int kind = 0; kind < 3; kind++)
            must(checkpoint_tensor(checkpoint, t, kind, out, &err) == 0);
        free(out);
    }
}

static void
look(void)
{
    struct checkpoint_info info = {0};
    struct err err = {0};
    char newest[PATH_BYTES_MAX], damaged[64] = "";
    struct checkpoint *checkpoint = checkpoint_open(path, &info, &err);
    if (checkpoint)
        use(checkpoint, &info);
    else
        must(err.code == ERR_CORRUPT && err.msg[0] && !info.text);
    bool ours = checkpoint && id_equal(&info.job, &made.job);
    must(!checkpoint_newest(root, &made.job, newest, damaged, sizeof(damaged), &err) ==
         ours);
    must(ours || err.code == ERR_USAGE);
    checkpoint_close(checkpoint);
    checkpoint_info_release(&info);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct buf bytes = {0};
    if (!good[0].len)
        setup();
    if (size < 1 || size > 1 << 16)
        return 0;
    int how = data[0], which = how % 16 % FILES;
    data++, size--;
    if (how & HEADER && (which == MODEL || which == MODEL + 1))
        make_tensors(which, data, size, &bytes);
    else if (how & AS_IT_IS)
        buf_add(&bytes, data, size);
    else
        make_changed(which, data, size, &bytes);
    put(which, &bytes);
    if (which != MANIFEST)
        make_manifest(which, &bytes);
    look();
    put(which, &good[which]);
    put(MANIFEST, &good[MANIFEST]);
    buf_release(&bytes);
    return 0;
}
