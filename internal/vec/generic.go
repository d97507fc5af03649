package vec

import "math"

// blockGeneric is Block in Go. It defines the bits: the assembly is tested against
// it.
func (k Kernel) blockGeneric(dst []float32, ld int, x []float32, n int, p *Panels, phase []float32, from, to int) {
	e := newExpScale(k.Gamma)
	for j := from; j < to; {
		c := j % Width
		w := min(Width-c, to-j)
		panel := p.data[j/Width*Width*p.dim:][:Width*p.dim]
		for r := range n {
			row := x[r*p.dim : (r+1)*p.dim]
			out := dst[r*ld+j-from:][:w]
			k.sums(out, row, panel, c)
			if k.Kind == fourier {
				for i, s := range out {
					out[i] = cosTurns(s + phase[j-from+i])
				}
				continue
			}
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

// squares4 and products4 check four sums at a time for the rare one that float64
// might round wrongly.
func squares4(out *[4]float32, x, z []float32) {
	if fused {
		squares4Fused(out, x, z)
		return
	}
	var a, b, c, d float32
	for f, v := range x {
		w := (*[4]float32)(z[f*Width:])
		t0, t1, t2, t3 := float64(v-w[0]), float64(v-w[1]), float64(v-w[2]), float64(v-w[3])
		p0, p1, p2, p3 := t0*t0, t1*t1, t2*t2, t3*t3
		s0, s1, s2, s3 := p0+float64(a), p1+float64(b), p2+float64(c), p3+float64(d)
		if unsure(s0) || unsure(s1) || unsure(s2) || unsure(s3) {
			a, b, c, d = roundSum(p0, float64(a)), roundSum(p1, float64(b)), roundSum(p2, float64(c)), roundSum(p3, float64(d))
			continue
		}
		a, b, c, d = float32(s0), float32(s1), float32(s2), float32(s3)
	}
	out[0], out[1], out[2], out[3] = a, b, c, d
}

func products4(out *[4]float32, x, z []float32) {
	if fused {
		products4Fused(out, x, z)
		return
	}
	var a, b, c, d float32
	for f, v := range x {
		w, t := (*[4]float32)(z[f*Width:]), float64(v)
		p0, p1, p2, p3 := t*float64(w[0]), t*float64(w[1]), t*float64(w[2]), t*float64(w[3])
		s0, s1, s2, s3 := p0+float64(a), p1+float64(b), p2+float64(c), p3+float64(d)
		if unsure(s0) || unsure(s1) || unsure(s2) || unsure(s3) {
			a, b, c, d = roundSum(p0, float64(a)), roundSum(p1, float64(b)), roundSum(p2, float64(c)), roundSum(p3, float64(d))
			continue
		}
		a, b, c, d = float32(s0), float32(s1), float32(s2), float32(s3)
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
