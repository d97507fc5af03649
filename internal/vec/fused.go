package vec

import "math"

// The language allows a compiler to fuse x*y + z. The Go compiler does so for arm64,
// GOAMD64=v3 and some others, which makes the three functions below equal to the
// emulation and several times faster. Nothing guarantees this, so they are compared
// with the emulation at program start. The comparison executes each of their
// multiplications, and without fusing the sums would differ.
var fused = fusesAsExpected()

//go:noinline
func squares4Fused(out *[4]float32, x, z []float32) {
	var a, b, c, d float32
	for f, v := range x {
		w := (*[4]float32)(z[f*Width:])
		t0, t1, t2, t3 := v-w[0], v-w[1], v-w[2], v-w[3]
		a, b, c, d = t0*t0+a, t1*t1+b, t2*t2+c, t3*t3+d
	}
	out[0], out[1], out[2], out[3] = a, b, c, d
}

//go:noinline
func products4Fused(out *[4]float32, x, z []float32) {
	var a, b, c, d float32
	for f, v := range x {
		w := (*[4]float32)(z[f*Width:])
		a, b, c, d = v*w[0]+a, v*w[1]+b, v*w[2]+c, v*w[3]+d
	}
	out[0], out[1], out[2], out[3] = a, b, c, d
}

//go:noinline
func nonzeros4Fused(out *[4]float32, x []feature, z []float32) {
	var a, b, c, d float32
	for _, f := range x {
		v, w := f.val, (*[4]float32)(z[f.at/4:])
		a, b, c, d = v*w[0]+a, v*w[1]+b, v*w[2]+c, v*w[3]+d
	}
	out[0], out[1], out[2], out[3] = a, b, c, d
}

func fusesAsExpected() bool {
	const n = 64
	// Any random numbers with 24 bits will do.
	state := uint32(1)
	draw := func() float32 {
		state = state*1664525 + 1013904223
		return math.Float32frombits(0x3f000000|state>>9) - 0.75
	}
	var x [n]float32
	var z [n * Width]float32
	var nonzeros [n]feature
	for i := range x {
		x[i] = draw()
		nonzeros[i] = feature{int32(4 * Width * i), x[i]}
		for j := range 4 {
			z[i*Width+j] = draw()
		}
	}
	var squares, products, sparse [4]float32
	squares4Fused(&squares, x[:], z[:])
	products4Fused(&products, x[:], z[:])
	nonzeros4Fused(&sparse, nonzeros[:], z[:])
	for j := range 4 {
		var s, p float32
		for i, v := range x {
			t := v - z[i*Width+j]
			s = fma(t, t, s)
			p = fma(v, z[i*Width+j], p)
		}
		if s != squares[j] || p != products[j] || p != sparse[j] {
			return false
		}
	}
	return true
}
