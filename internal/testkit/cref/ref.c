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

// ref_fmas does n fused multiply-adds, as many at a time as the machine can:
// enough sums, in registers, that none waits for its own last one.
#ifdef __AVX512F__
enum { SUMS = 12 };
#else
enum { SUMS = 5 };
#endif
float ref_fmas(size_t n) {
    vector s[SUMS], a, b;
    for (int k = 0; k < LANES; k++) {
        a[k] = 0.999f;
        b[k] = 1e-3f * (float)k;
    }
    for (int k = 0; k < SUMS; k++)
        s[k] = b * (float)k;
    for (size_t i = 0; i < n; i += SUMS * LANES)
#pragma GCC unroll 12
        for (int k = 0; k < SUMS; k++)
            s[k] = s[k] * a + b;
    float out = 0;
    for (int k = 0; k < SUMS; k++)
        for (int j = 0; j < LANES; j++)
            out += s[k][j];
    return out;
}

// ref_read reads n floats, n a multiple of 128, so many times, as fast as the
// machine can.
float ref_read(const float *x, size_t n, size_t times) {
    vector s[8] = {0};
    for (; times > 0; times--) {
        for (size_t i = 0; i < n; i += 8 * LANES)
#pragma GCC unroll 8
            for (int k = 0; k < 8; k++)
                s[k] += *(const vector *)(x + i + k * LANES);
        __asm__ volatile("" ::: "memory"); // or one pass would do for all
    }
    float out = 0;
    for (int k = 0; k < 8; k++)
        for (int j = 0; j < LANES; j++)
            out += s[k][j];
    return out;
}

// ref_exps sets y to the exponentials of the n floats of x, so many times.
void ref_exps(const float *restrict x, float *restrict y, size_t n, size_t times) {
    for (; times > 0; times--) {
        for (size_t i = 0; i < n; i++)
            y[i] = expf(x[i]);
        __asm__ volatile("" ::: "memory");
    }
}

// ref_coses does the same with cosines.
void ref_coses(const float *restrict x, float *restrict y, size_t n, size_t times) {
    for (; times > 0; times--) {
        for (size_t i = 0; i < n; i++)
            y[i] = cosf(x[i]);
        __asm__ volatile("" ::: "memory");
    }
}
