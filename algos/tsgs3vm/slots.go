package tsgs3vm

import (
	"github.com/streamsvm/streamsvm/internal/par"
	"github.com/streamsvm/streamsvm/samplers"
	"github.com/streamsvm/streamsvm/stream"
)

// slots has the labelled points of the pool in the form that the arms learn from.
type slots struct {
	z     [][]float32 // features, as cosines
	held  bands       // their memory
	m     [][]float32 // contributions to w: z itself without a cluster kernel
	q     []float64   // ⟨z,m⟩, that is, k(x,x)
	y, v  []float64   // labels and weights
	ready bool        // the fields above match the pool
}

// place stores the point x, with its z, m and q, in slot i.
func (p *slots) place(i int, x *stream.Example, z, m []float32, q float64) {
	if i == len(p.z) {
		p.z = append(p.z, p.held.row(i, len(z)))
		p.m, p.q = append(p.m, nil), append(p.q, 0)
		p.y, p.v = append(p.y, 0), append(p.v, 0)
	}
	p.y[i], p.v[i] = x.Y, x.Importance()
	same := &z[0] == &m[0]
	copy(p.z[i], z)
	if p.m[i] = p.z[i]; !same {
		p.m[i] = append([]float32(nil), m...)
	}
	p.q[i] = q
}

// prepare computes the features of the pool unless they are up to date.
func (d *dual) prepare(l *Learner) {
	d.wait()
	if d.ready {
		return
	}
	n := l.Len()
	d.z, d.m, d.q, d.y, d.v = d.z[:0], d.m[:0], d.q[:0], d.y[:0], d.v[:0]
	for from := 0; from < n; from += chunk {
		xs := samplers.Vecs(l.Sample()[from:min(n, from+chunk)])
		z := d.features(l, xs)
		m := d.rows(l, z, len(xs))
		q := make([]float64, len(xs))
		squares(q, z, m, d.opt.Features, d.opt.Bias)
		for r := range xs {
			d.place(len(d.z), l.Sample()[from+r], d.row(z, r), d.row(m, r), q[r])
		}
	}
	d.ready = true
}

// rows returns the contributions to w of n labelled points with features z.
func (d *dual) rows(l *Learner, z []float32, n int) []float32 {
	if l.cluster.weight == 0 {
		return z
	}
	return l.cluster.smoothed(l.feats, d.opt.Features, z[:n*d.opt.Features], n)
}

func (d *dual) row(z []float32, r int) []float32 {
	return z[r*d.opt.Features : (r+1)*d.opt.Features]
}

// features returns all features of the points, row by row, valid until the next
// call.
func (d *dual) features(l *Learner, xs []stream.Vec) []float32 {
	n := len(xs) * d.opt.Features
	if len(d.buf) < n {
		d.buf = make([]float32, n)
	}
	l.points.Pack(xs)
	mapAll(l.feats, d.buf, d.opt.Features, &l.points)
	return d.buf[:n]
}

// squares sets q[r] to ⟨z_r,m_r⟩ plus the bias, that is, k(x_r,x_r), for rows of
// size features z and m.
func squares(q []float64, z, m []float32, size int, bias float64) {
	norm := 2 / float64(size)
	par.Split(len(q), squaresAtOnce, float64(len(q)*size)/4, func(from, to int) {
		for r := from; r < to; r += squaresAtOnce {
			var sum [squaresAtOnce]float64
			z, m, n := z[r*size:], m[r*size:], min(squaresAtOnce, to-r)
			if n == squaresAtOnce && &z[0] == &m[0] { // four sums in parallel, to hide the latency of the additions
				z0, z1, z2, z3 := z[:size], z[size:][:size], z[2*size:][:size], z[3*size:][:size]
				var s0, s1, s2, s3 float64
				for j := range z0 {
					v0, v1, v2, v3 := float64(z0[j]), float64(z1[j]), float64(z2[j]), float64(z3[j])
					s0, s1, s2, s3 = s0+v0*v0, s1+v1*v1, s2+v2*v2, s3+v3*v3
				}
				sum = [...]float64{s0, s1, s2, s3}
			} else {
				for k := range n {
					for j, v := range z[k*size : (k+1)*size] {
						sum[k] += float64(v) * float64(m[k*size+j]) // exact
					}
				}
			}
			for k := range n {
				q[r+k] = max(float64(norm*sum[k])+bias, 1e-3)
			}
		}
	})
}

const squaresAtOnce = 4
