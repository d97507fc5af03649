package vec

import (
	"encoding/binary"
	"hash/fnv"
	"math"
	"testing"
)

// TestGolden pins the bits of every function, so that CPUs and compilers that
// are never on one machine together are compared too. A change of these
// numbers changes what a stream trains to: it needs a new version of the
// state format.
func TestGolden(t *testing.T) {
	const dim, rows, n = 29, 150, 9
	for c := generic; c <= best(); c++ {
		h := fnv.New64a()
		add32 := func(v []float32) {
			for _, x := range v {
				h.Write(binary.LittleEndian.AppendUint32(nil, math.Float32bits(x)))
			}
		}
		add64 := func(v ...float64) {
			for _, x := range v {
				h.Write(binary.LittleEndian.AppendUint64(nil, math.Float64bits(x)))
			}
		}
		x, row := make([]float32, n*dim), make([]float32, dim)
		normalsOn(c, x, 1, 5)
		p := NewPanels(dim)
		for i := range rows {
			cauchysOn(c, row, 2, uint64(i*dim))
			p.Append(row)
		}
		add32(x)
		add32(p.data)
		out := make([]float32, n*rows)
		coef, dst := make([]float64, rows), make([]float64, n)
		for i := range coef {
			coef[i] = math.Sqrt(float64(i)) - 6
		}
		for _, k := range kernels {
			k.blockOn(c, out, rows, x, n, p, 3, rows-1)
			add32(out)
			k.decideOn(c, dst, x, n, p, coef, 0.5)
			add64(dst...)
		}
		cosOn(c, out, rows, x, n, p, x, 7, rows)
		add32(out)
		axpyMixedOn(c, 1.1, out[:rows], coef)
		add64(coef...)
		add64(dot64On(c, coef, coef), dotMixedOn(c, out[:rows], coef))
		if got := h.Sum64(); got != golden {
			t.Errorf("%s: hash %#x, want %#x", c, got, uint64(golden))
		}
	}
}

const golden = 0xa4f9fac9de44b58f

func TestChoose(t *testing.T) {
	for _, x := range []struct {
		want string
		best code
		code code
	}{
		{"", avx512, avx512}, {"avx2", avx512, avx2}, {"generic", avx2, generic}, {"avx512", avx2, avx2}, {"sse", generic, generic},
	} {
		if got := choose(x.want, x.best); got != x.code {
			t.Errorf("choose(%q, %s) = %s, want %s", x.want, x.best, got, x.code)
		}
	}
}
