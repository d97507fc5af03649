//go:build cref

// What a C compiler makes of the same kernels: panels of 64 columns, a tile of
// 6 rows by 64 columns in registers, exp and cos from libmvec. Built with
// -O3 -march=native -mprefer-vector-width=512 -ffast-math (see kernels.sh).
#include "ref.h"
#include <math.h>

enum { WIDTH = 64, LANES = 16, VECTORS = WIDTH / LANES, ROWS = 6 };
typedef float vector __attribute__((vector_size(4 * LANES), aligned(4)));

enum { SQUARE, PRODUCT };

// sums leaves the sums of rows of x with one panel in s.
static inline __attribute__((always_inline)) void sums(const int op, const int rows, const float *x, size_t d,
                                                       const float *z, float *s) {
    vector a[ROWS][VECTORS] = {0};
    for (size_t k = 0; k < d; k++) {
        const vector *p = (const vector *)(z + k * WIDTH);
        vector z0 = p[0], z1 = p[1], z2 = p[2], z3 = p[3];
#pragma GCC unroll 8
        for (int i = 0; i < rows; i++) {
            float v = x[i * d + k];
            if (op == SQUARE) {
                vector t0 = z0 - v, t1 = z1 - v, t2 = z2 - v, t3 = z3 - v;
                a[i][0] += t0 * t0, a[i][1] += t1 * t1, a[i][2] += t2 * t2, a[i][3] += t3 * t3;
            } else {
                a[i][0] += z0 * v, a[i][1] += z1 * v, a[i][2] += z2 * v, a[i][3] += z3 * v;
            }
        }
    }
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < VECTORS; j++)
            *(vector *)(s + i * WIDTH + j * LANES) = a[i][j];
}

static inline __attribute__((always_inline)) void rbf_rows(const int rows, const float *x, size_t d, const float *z,
                                                           float gamma, float *out, size_t ld) {
    float s[ROWS * WIDTH] __attribute__((aligned(64)));
    sums(SQUARE, rows, x, d, z, s);
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < WIDTH; j++)
            out[i * ld + j] = expf(-gamma * s[i * WIDTH + j]);
}

static inline __attribute__((always_inline)) void fourier_rows(const int rows, const float *x, size_t d, const float *z,
                                                               const float *b, float *out, size_t ld) {
    float s[ROWS * WIDTH] __attribute__((aligned(64)));
    sums(PRODUCT, rows, x, d, z, s);
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < WIDTH; j++)
            out[i * ld + j] = cosf(s[i * WIDTH + j] + b[j]);
}

void ref_rbf(const float *x, size_t n, const float *panels, size_t m, size_t d, float gamma, float *out) {
    for (size_t p = 0; p < m; p += WIDTH) {
        const float *z = panels + p * d;
        size_t i = 0;
        for (; i + ROWS <= n; i += ROWS)
            rbf_rows(ROWS, x + i * d, d, z, gamma, out + i * m + p, m);
        for (; i < n; i++)
            rbf_rows(1, x + i * d, d, z, gamma, out + i * m + p, m);
    }
}

void ref_fourier(const float *x, size_t n, const float *panels, const float *b, size_t m, size_t d, float *out) {
    for (size_t p = 0; p < m; p += WIDTH) {
        const float *z = panels + p * d;
        size_t i = 0;
        for (; i + ROWS <= n; i += ROWS)
            fourier_rows(ROWS, x + i * d, d, z, b + p, out + i * m + p, m);
        for (; i < n; i++)
            fourier_rows(1, x + i * d, d, z, b + p, out + i * m + p, m);
    }
}

double ref_dot_mixed(const float *restrict k, const double *restrict a, size_t n) {
    double s = 0;
    for (size_t i = 0; i < n; i++)
        s += k[i] * a[i];
    return s;
}

void ref_axpy_mixed(double c, const float *restrict k, double *restrict y, size_t n) {
    for (size_t i = 0; i < n; i++)
        y[i] += c * k[i];
}
