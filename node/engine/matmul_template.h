/*
 * matmul_template.h - our own matrix product for one instruction set: packed panels and a
 * register tile, as in Goto and van de Geijn, "Anatomy of high-performance matrix
 * multiplication", TOMS 2008. matmul_builtin.c includes it once for each set, with
 *
 *     NAME(x)  the name of x in this set      TARGET   function attribute of the set
 *     LANES    floats of a vector             FMA(a, b, c)  a x b + c on vectors
 *     SPREAD(x)                               x in every lane
 *     TILE_ROWS, TILE_VECTORS                 the tile held in registers
 *
 * An element of C is summed over k in one order, whichever rows are computed with it.
 */
typedef float NAME(vector) __attribute__((vector_size(LANES * 4)));
typedef float NAME(loose) __attribute__((vector_size(LANES * 4), aligned(4), may_alias));

enum {
    NAME(TILE_COLUMNS) = TILE_VECTORS * LANES,
};

/* c[rows, columns] = beta c + the product of two packed panels; beta 0 does not read
 * c. */
TARGET static void
NAME(tile)(int k, const float *a, const float *b, float beta, float *c, int64_t ldc,
           int rows, int columns)
{
    NAME(vector) sum[TILE_ROWS][TILE_VECTORS];
    for (int i = 0; i < TILE_ROWS; i++)
        for (int j = 0; j < TILE_VECTORS; j++)
            sum[i][j] = (NAME(vector)){0};
    for (int p = 0; p < k; p++) {
        NAME(vector) row[TILE_VECTORS];
        for (int j = 0; j < TILE_VECTORS; j++)
            row[j] = *(const NAME(loose) *)(b + (int64_t)j * LANES);
        for (int i = 0; i < TILE_ROWS; i++) {
            NAME(vector) factor = SPREAD(a[i]);
            for (int j = 0; j < TILE_VECTORS; j++)
                sum[i][j] = FMA(factor, row[j], sum[i][j]);
        }
        a += TILE_ROWS;
        b += NAME(TILE_COLUMNS);
    }
    if (rows == TILE_ROWS && columns == NAME(TILE_COLUMNS)) {
        for (int i = 0; i < TILE_ROWS; i++)
            for (int j = 0; j < TILE_VECTORS; j++) {
                NAME(loose) *out = (NAME(loose) *)(c + i * ldc + (int64_t)j * LANES);
                if (beta == 0)
                    *out = (NAME(loose))sum[i][j];
                else
                    *out = (NAME(loose))(beta * *out + sum[i][j]);
            }
        return;
    }
    float edge[TILE_ROWS][TILE_VECTORS * LANES];
    memcpy(edge, sum, sizeof(edge));
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < columns; j++) {
            float *out = c + i * ldc + j;
            *out = beta == 0 ? edge[i][j] : beta * *out + edge[i][j];
        }
}

/* Panels of `width` rows of x (element (i, p) at i * across + p * along), zeros beyond
 * `count`. */
TARGET static void
NAME(pack)(float *out, int width, int count, int k, float alpha, const float *x,
           int64_t across, int64_t along)
{
    for (int i = 0; i < count; i += width) {
        int here = count - i < width ? count - i : width;
        const float *from = x + i * across;
        if (across == 1) {
            for (int p = 0; p < k; p++, out += width) {
                const float *line = from + p * along;
                for (int j = 0; j < here; j++)
                    out[j] = alpha * line[j];
                for (int j = here; j < width; j++)
                    out[j] = 0;
            }
            continue;
        }
        for (int p = 0; p < k; p++) {
            float *line = out + (int64_t)p * width;
            for (int j = 0; j < here; j++)
                line[j] = alpha * from[j * across + p * along];
            for (int j = here; j < width; j++)
                line[j] = 0;
        }
        out += (int64_t)k * width;
    }
}

TARGET static bool
NAME(product)(bool transpose_a, bool transpose_b, int m, int n, int k, float alpha,
              const float *a, int lda, const float *b, int ldb, float beta, float *c,
              int ldc)
{
    int64_t across_a = transpose_a ? 1 : lda, along_a = transpose_a ? lda : 1;
    int64_t across_b = transpose_b ? ldb : 1, along_b = transpose_b ? 1 : ldb;
    if (k <= 0)
        scale(m, n, beta, c, ldc);
    for (int64_t jc = 0; jc < n; jc += BLOCK_COLUMNS) {
        int columns = (int)(n - jc < BLOCK_COLUMNS ? n - jc : BLOCK_COLUMNS);
        for (int64_t pc = 0; pc < k; pc += BLOCK_DEPTH) {
            int depth = (int)(k - pc < BLOCK_DEPTH ? k - pc : BLOCK_DEPTH);
            float keep = pc == 0 ? beta : 1;
            NAME(pack)
            (panel_b, NAME(TILE_COLUMNS), columns, depth, 1,
             b + jc * across_b + pc * along_b, across_b, along_b);
            for (int64_t ic = 0; ic < m; ic += BLOCK_ROWS) {
                int rows = (int)(m - ic < BLOCK_ROWS ? m - ic : BLOCK_ROWS);
                NAME(pack)
                (panel_a, TILE_ROWS, rows, depth, alpha, a + ic * across_a + pc * along_a,
                 across_a, along_a);
                for (int j = 0; j < columns; j += NAME(TILE_COLUMNS))
                    for (int i = 0; i < rows; i += TILE_ROWS)
                        NAME(tile)
                (depth, panel_a + (int64_t)i * depth, panel_b + (int64_t)j * depth, keep,
                 c + (ic + i) * ldc + jc + j, ldc,
                 rows - i < TILE_ROWS ? rows - i : TILE_ROWS,
                 columns - j < NAME(TILE_COLUMNS) ? columns - j : NAME(TILE_COLUMNS));
            }
        }
    }
    return true;
}

#undef NAME
#undef TARGET
#undef LANES
#undef SPREAD
#undef FMA
#undef TILE_ROWS
#undef TILE_VECTORS
