#include <stddef.h>

// n rows of d features at x, m (a multiple of 64) columns packed 64 wide.
void ref_rbf(const float *x, size_t n, const float *panels, size_t m, size_t d, float gamma, float *out);
void ref_fourier(const float *x, size_t n, const float *panels, const float *b, size_t m, size_t d, float *out);
double ref_dot_mixed(const float *k, const double *a, size_t n);
void ref_axpy_mixed(double c, const float *k, double *y, size_t n);
float ref_fmas(size_t n);
float ref_read(const float *x, size_t n, size_t times);
void ref_exps(const float *x, float *y, size_t n, size_t times);
void ref_coses(const float *x, float *y, size_t n, size_t times);
