//go:build cref

// Package cref wraps the C code that internal/vec is benchmarked against. It is the
// only cgo in the module and needs the build tag cref.
package cref

// #cgo LDFLAGS: -lmvec -lm
// #include "ref.h"
import "C"

// RBF sets out[r*m+j] = exp(−gamma·‖x_r−p_j‖²) for n rows and m packed
// columns, m a multiple of 64.
func RBF(out, x []float32, n int, panels []float32, m, d int, gamma float32) {
	C.ref_rbf((*C.float)(&x[0]), C.size_t(n), (*C.float)(&panels[0]), C.size_t(m), C.size_t(d), C.float(gamma), (*C.float)(&out[0]))
}

// Fourier sets out[r*m+j] = cos(⟨x_r, p_j⟩ + b_j).
func Fourier(out, x []float32, n int, panels, b []float32, m, d int) {
	C.ref_fourier((*C.float)(&x[0]), C.size_t(n), (*C.float)(&panels[0]), (*C.float)(&b[0]), C.size_t(m), C.size_t(d), (*C.float)(&out[0]))
}

// DotMixed returns Σ k[i]·a[i].
func DotMixed(k []float32, a []float64) float64 {
	return float64(C.ref_dot_mixed((*C.float)(&k[0]), (*C.double)(&a[0]), C.size_t(len(k))))
}

// AxpyMixed sets y[i] += c·k[i].
func AxpyMixed(c float64, k []float32, y []float64) {
	C.ref_axpy_mixed(C.double(c), (*C.float)(&k[0]), (*C.double)(&y[0]), C.size_t(len(k)))
}

// FMAs does n fused multiply-adds of float32, n a multiple of 960, as many in
// parallel as the machine can.
func FMAs(n int) float32 { return float32(C.ref_fmas(C.size_t(n))) }

// Read reads x, a multiple of 128 elements, the given number of times, as fast as
// the machine can.
func Read(x []float32, times int) float32 {
	return float32(C.ref_read((*C.float)(&x[0]), C.size_t(len(x)), C.size_t(times)))
}

// Exps sets y to the exponentials of x by libmvec, the given number of times.
func Exps(x, y []float32, times int) {
	C.ref_exps((*C.float)(&x[0]), (*C.float)(&y[0]), C.size_t(len(x)), C.size_t(times))
}

// Coses does the same with cosines.
func Coses(x, y []float32, times int) {
	C.ref_coses((*C.float)(&x[0]), (*C.float)(&y[0]), C.size_t(len(x)), C.size_t(times))
}
