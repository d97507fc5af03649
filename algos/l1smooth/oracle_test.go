package l1smooth

import (
	"encoding/json"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/stream"
)

// problem is a small problem in plain form. Column 0 of z is the constant
// feature; z is multiplied by the labels.
type problem struct {
	z          [][]float64
	y          []float64
	lambda, mu float64
}

// random draws n examples of m features, correlated by rho, of which a part
// is 0.
func random(r *rand.Rand, n, m int, rho, zeros float64) (xs []*stream.Example) {
	w := make([]float64, m)
	for j := range w {
		if r.IntN(3) == 0 {
			w[j] = r.NormFloat64()
		}
	}
	for i := range n {
		common, f := r.NormFloat64(), 0.3*r.NormFloat64()
		x := &stream.Example{Seq: uint64(i + 1), Labelled: true, Y: 1}
		for j := range m {
			v := float32(rho*common + math.Sqrt(1-rho*rho)*r.NormFloat64())
			if r.Float64() < zeros {
				v = 0
			}
			x.X.Val = append(x.X.Val, v)
			f += w[j] * float64(v)
		}
		if f < 0 {
			x.Y = -1
		}
		xs = append(xs, x)
	}
	return xs
}

// sparse returns the examples with their features by index.
func sparse(xs []*stream.Example) []*stream.Example {
	out := make([]*stream.Example, len(xs))
	for i, x := range xs {
		c := *x
		c.X = stream.Vec{Idx: []int32{}}
		for j, v := range x.X.Val {
			if v != 0 {
				c.X.Idx, c.X.Val = append(c.X.Idx, int32(j)), append(c.X.Val, v)
			}
		}
		out[i] = &c
	}
	return out
}

// ready returns a learner that has taken the examples in and is about to solve
// for them, and the same problem in plain form.
func ready(t *testing.T, xs []*stream.Example, options map[string]string) (*Learner, *problem) {
	t.Helper()
	o := map[string]string{"every": "1000000", "start": "newton"}
	maps.Copy(o, options)
	made, err := Spec.New(algos.Env{Seed: 1}, o)
	if err != nil {
		t.Fatal(err)
	}
	l := made.(*Learner)
	for _, x := range xs {
		if _, err := l.Add(x); err != nil {
			t.Fatal(err)
		}
	}
	l.begin(true)
	p := &problem{lambda: l.s.lambda, mu: l.s.mu}
	for _, x := range xs {
		row := make([]float64, l.s.size())
		row[0] = x.Y * l.opt.Bias
		for k, v := range x.X.Val {
			j := k
			if x.X.Sparse() {
				j = int(x.X.Idx[k])
			}
			row[j+1] = x.Y * float64(v)
		}
		p.z, p.y = append(p.z, row), append(p.y, x.Y)
	}
	return l, p
}

// value is f_α(w), or f(w) where α is 0.
func (p *problem) value(w []float64, alpha float64) float64 {
	var loss, pen float64
	for _, z := range p.z {
		u := 1 - plainDot(z, w)
		loss += (u + math.Hypot(u, alpha)) / 2
	}
	for _, v := range w {
		pen += p.lambda/2*v*v + p.mu*math.Abs(v)
	}
	return loss/float64(len(p.z)) + pen
}

// gradient is that of f_α without the l1 term.
func (p *problem) gradient(w []float64, alpha float64) []float64 {
	g := make([]float64, len(w))
	for _, z := range p.z {
		u := 1 - plainDot(z, w)
		c := (1 + u/math.Hypot(u, alpha)) / 2 / float64(len(p.z))
		for j, v := range z {
			g[j] -= c * v
		}
	}
	for j, v := range w {
		g[j] += p.lambda * v
	}
	return g
}

// slope is the one-sided derivative of f_α at w along d.
func (p *problem) slope(w, d []float64, alpha float64) float64 {
	s := plainDot(p.gradient(w, alpha), d)
	for j, v := range w {
		switch {
		case v > 0:
			s += p.mu * d[j]
		case v < 0:
			s -= p.mu * d[j]
		default:
			s += p.mu * math.Abs(d[j])
		}
	}
	return s
}

func plainDot(a, b []float64) float64 {
	var s float64
	for j, v := range a {
		s += v * b[j]
	}
	return s
}

// optimum is an entry of testdata/optimum.json.
type optimum struct {
	Lam, Mu        float64
	X              [][]float32
	Y              []float64
	W              []float64
	Objective, Gap float64
}

func optima(t *testing.T) (list []optimum) {
	t.Helper()
	data, err := os.ReadFile("testdata/optimum.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &list); err != nil {
		t.Fatal(err)
	}
	return list
}

func (o *optimum) examples() (xs []*stream.Example) {
	for i, x := range o.X {
		xs = append(xs, &stream.Example{Seq: uint64(i + 1), X: stream.Vec{Val: x}, Y: o.Y[i], Labelled: true})
	}
	return xs
}
