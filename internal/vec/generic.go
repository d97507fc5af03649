package vec

import "math"

// blockGeneric is Block in Go; it is also what the assembly is tested against.
func (k Kernel) blockGeneric(dst []float32, ld int, x []float32, n int, p *Panels, from, to int) {
	e := newExpScale(k.Gamma)
	for j := from; j < to; {
		c := j % Width
		w := min(Width-c, to-j)
		panel := p.data[j/Width*Width*p.dim:][:Width*p.dim]
		for r := range n {
			row := x[r*p.dim : (r+1)*p.dim]
			out := dst[r*ld+j-from:][:w]
			k.sums(out, row, panel, c)
			k.finish(out, e)
		}
		j += w
	}
}

// sums sets out[i] to the sum for column c+i of the panel.
func (k Kernel) sums(out, x, panel []float32, c int) {
	if len(x) == 0 {
		clear(out)
		return
	}
	i := 0
	for ; i+4 <= len(out); i += 4 {
		o, z := (*[4]float32)(out[i:]), panel[c+i:]
		switch k.Kind {
		case RBF:
			squares4(o, x, z)
		case Laplacian:
			absolutes4(o, x, z)
		default:
			products4(o, x, z)
		}
	}
	for ; i < len(out); i++ {
		var s float32
		for f, v := range x {
			z := panel[f*Width+c+i]
			switch k.Kind {
			case RBF:
				t := v - z
				s = fma(t, t, s)
			case Laplacian:
				s += math.Float32frombits(math.Float32bits(v-z) &^ (1 << 31))
			default:
				s = fma(v, z, s)
			}
		}
		out[i] = s
	}
}

// A squareSum is a sum of squares s ≥ 0 kept as s+m, where m is 2^29 times the
// lower end of s's binade: adding an exact square to that rounds as a float32
// fused multiply-add does, in one operation. It is valid while the result is
// below limit, the upper end of the binade plus m.
type squareSum struct{ s, m, limit float64 }

func newSquareSum(s float32) squareSum {
	e := int(math.Float32bits(s) >> 23)
	if e == 0xff { // ±Inf or NaN: no result is below the limit
		return squareSum{float64(s), 0, math.Inf(-1)}
	}
	e = max(e, 1) - 127
	m := math.Float64frombits(uint64(e+29+1023) << 52)
	return squareSum{float64(s) + m, m, m + math.Float64frombits(uint64(e+1+1023)<<52)}
}

// next leaves the binade: it adds t² in the slow way.
func (q squareSum) next(t float32) squareSum {
	return newSquareSum(fma(t, t, float32(q.s-q.m)))
}

func squares4(out *[4]float32, x, z []float32) {
	a := newSquareSum(0)
	b, c, d := a, a, a
	for f, v := range x {
		w := (*[4]float32)(z[f*Width:])
		t0, t1, t2, t3 := v-w[0], v-w[1], v-w[2], v-w[3]
		d0, d1, d2, d3 := float64(t0), float64(t1), float64(t2), float64(t3)
		s0, s1, s2, s3 := a.s+d0*d0, b.s+d1*d1, c.s+d2*d2, d.s+d3*d3
		if s0 < a.limit && s1 < b.limit && s2 < c.limit && s3 < d.limit {
			a.s, b.s, c.s, d.s = s0, s1, s2, s3
			continue
		}
		a, b, c, d = a.next(t0), b.next(t1), c.next(t2), d.next(t3)
	}
	out[0], out[1], out[2], out[3] = float32(a.s-a.m), float32(b.s-b.m), float32(c.s-c.m), float32(d.s-d.m)
}

func products4(out *[4]float32, x, z []float32) {
	var a, b, c, d float32
	for f, v := range x {
		w := (*[4]float32)(z[f*Width:])
		x := float64(v)
		a = roundSum(x*float64(w[0]), float64(a))
		b = roundSum(x*float64(w[1]), float64(b))
		c = roundSum(x*float64(w[2]), float64(c))
		d = roundSum(x*float64(w[3]), float64(d))
	}
	out[0], out[1], out[2], out[3] = a, b, c, d
}

func absolutes4(out *[4]float32, x, z []float32) {
	var a, b, c, d float32
	const abs = 1<<31 - 1
	for f, v := range x {
		w := (*[4]float32)(z[f*Width:])
		a += math.Float32frombits(math.Float32bits(v-w[0]) & abs)
		b += math.Float32frombits(math.Float32bits(v-w[1]) & abs)
		c += math.Float32frombits(math.Float32bits(v-w[2]) & abs)
		d += math.Float32frombits(math.Float32bits(v-w[3]) & abs)
	}
	out[0], out[1], out[2], out[3] = a, b, c, d
}

// finish turns the sums in out into kernel values.
func (k Kernel) finish(out []float32, e expScale) {
	switch k.Kind {
	case RBF, Laplacian:
		for i, s := range out {
			out[i] = e.of(s)
		}
	case Polynomial:
		for i, s := range out {
			out[i] = power(fma(k.Gamma, s+0, k.Coef0), k.Degree)
		}
	default:
		for i, s := range out {
			if s += 0; s != s { // −0 becomes +0
				s = nan32
			}
			out[i] = s
		}
	}
}

// power returns x^n by squaring.
func power(x float32, n int) float32 {
	y := float32(1)
	for ; n > 0; n >>= 1 {
		if n&1 != 0 {
			y *= x
		}
		x *= x
	}
	if y != y {
		return nan32
	}
	return y
}
