/* attention_body.h - the attention of tensor.h for `real`; see real.h. Included after
 * tensor_body.h. */
#include <math.h>

struct attention_job {
    const struct kernels *kernels;
    const struct attention *attention;
    const real *dout;
    real *dqkv;
};

/* One head of one sequence: where its matrices start. */
struct head {
    const real *q, *k, *v; /* stride 3 columns */
    real *out;             /* stride columns */
    real *maximum, *inverse;
    int width;  /* columns of a head */
    int stride; /* of q, k, v */
    real scale;
    int64_t place; /* of q in qkv, for the gradient */
    int64_t out_place;
    real *scores;
    int scores_stride;
};

static struct head
head_of(const struct attention *a, int64_t number, int thread)
{
    struct head head;
    int64_t sequence = number / a->heads, which = number % a->heads;
    head.width = a->columns / a->heads;
    head.stride = 3 * a->columns;
    head.place = sequence * a->length * head.stride + which * head.width;
    head.out_place = sequence * a->length * a->columns + which * head.width;
    head.q = a->qkv + head.place;
    head.k = head.q + a->columns;
    head.v = head.k + a->columns;
    head.out = a->out + head.out_place;
    head.maximum = a->maximum + number * a->length;
    head.inverse = a->inverse + number * a->length;
    head.scale = (real)(1 / sqrt((double)head.width));
    head.scores = a->scratch + thread * a->scratch_stride;
    head.scores_stride = (int)((a->length + 15) / 16 * 16);
    return head;
}

static void
attend_heads(void *context, int64_t first, int64_t end, int thread)
{
    const struct attention_job *job = context;
    const struct attention *a = job->attention;
    for (int64_t number = first; number < end; number++) {
        struct head h = head_of(a, number, thread);
        for (int64_t from = 0; from < a->length; from += ATTENTION_BLOCK) {
            int64_t left = a->length - from;
            int rows = (int)(left < ATTENTION_BLOCK ? left : ATTENTION_BLOCK);
            int keys = (int)from + rows;
            real *out = h.out + from * a->columns;
            matmul_real(false, true, rows, keys, h.width, h.scale, h.q + from * h.stride,
                        h.stride, h.k, h.stride, 0, h.scores, h.scores_stride);
            job->kernels->softmax_forward(rows, from, keys, h.scores, h.scores_stride,
                                          h.maximum + from, h.inverse + from);
            matmul_real(false, false, rows, h.width, keys, 1, h.scores, h.scores_stride,
                        h.v, h.stride, 0, out, a->columns);
            job->kernels->scale_rows(rows, h.width, out, a->columns, h.inverse + from);
        }
    }
}

void
attention_forward(const struct compute *compute, const struct attention *attention)
{
    struct attention_job job = {.kernels = compute->kernels, .attention = attention};
    pool_run(compute->pool, attention->sequences * attention->heads, 1, attend_heads,
             &job);
}

/* The queries from `from` on: their probabilities again, then what they give to the
 * gradients of the keys and values before them. The last block comes first and sees all
 * keys: it sets, the others add. */
static void
attend_block_backward(const struct attention_job *job, const struct head *h, int64_t from,
                      int rows)
{
    const struct attention *a = job->attention;
    int keys = (int)from + rows;
    real beta = keys == a->length ? 0 : 1;
    real *p = h->scores, *d = p + (int64_t)ATTENTION_BLOCK * h->scores_stride;
    real *dots = d + (int64_t)ATTENTION_BLOCK * h->scores_stride;
    const real *dout = job->dout + h->out_place + from * a->columns;
    const real *q = h->q + from * h->stride;
    real *dq = job->dqkv + h->place, *dk = dq + a->columns, *dv = dk + a->columns;

    matmul_real(false, true, rows, keys, h->width, h->scale, q, h->stride, h->k,
                h->stride, 0, p, h->scores_stride);
    job->kernels->softmax_again(rows, from, keys, p, h->scores_stride, h->maximum + from,
                                h->inverse + from);
    matmul_real(true, false, keys, h->width, rows, 1, p, h->scores_stride, dout,
                a->columns, beta, dv, h->stride);
    matmul_real(false, true, rows, keys, h->width, 1, dout, a->columns, h->v, h->stride,
                0, d, h->scores_stride);
    job->kernels->row_dots(rows, h->width, dout, h->out + from * a->columns, a->columns,
                           dots);
    job->kernels->softmax_backward(rows, keys, p, d, h->scores_stride, dots);
    matmul_real(true, false, keys, h->width, rows, h->scale, d, h->scores_stride, q,
                h->stride, beta, dk, h->stride);
    matmul_real(false, false, rows, h->width, keys, h->scale, d, h->scores_stride, h->k,
                h->stride, 0, dq + from * h->stride, h->stride);
}

static void
attend_heads_backward(void *context, int64_t first, int64_t end, int thread)
{
    const struct attention_job *job = context;
    const struct attention *a = job->attention;
    for (int64_t number = first; number < end; number++) {
        struct head h = head_of(a, number, thread);
        for (int64_t from = (a->length - 1) / ATTENTION_BLOCK * ATTENTION_BLOCK;
             from >= 0; from -= ATTENTION_BLOCK) {
            int64_t left = a->length - from;
            attend_block_backward(job, &h, from,
                                  (int)(left < ATTENTION_BLOCK ? left : ATTENTION_BLOCK));
        }
    }
}

void
attention_backward(const struct compute *compute, const struct attention *attention,
                   const real *dout, real *dqkv)
{
    struct attention_job job = {
        .kernels = compute->kernels, .attention = attention, .dout = dout, .dqkv = dqkv};
    pool_run(compute->pool, attention->sequences * attention->heads, 1,
             attend_heads_backward, &job);
}
