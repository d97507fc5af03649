package finitesum

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/streamsvm/streamsvm/stream"
)

// A Gram matrix kept up to date is that of the rows, and sums of growing
// width are right.
func TestGramKept(t *testing.T) {
	p := generate(200, 12, .4, 1).with(Squared, 0, 0, 1)
	var g, fresh Gram
	q := &Problem{Bias: 1}
	for i := range p.Len() {
		if q.Len() < 50 {
			q.Append(p.rows[i], p.b[i])
			g.Add(q, q.Len()-1)
			continue
		}
		g.Remove(q, i%50)
		q.Set(i%50, p.rows[i], p.b[i])
		g.Add(q, i%50)
	}
	fresh.Rebuild(q)
	if g.Len() != 50 || fresh.Len() != 50 || largest(g.low, fresh.low) > 1e-12 || largest(g.h, fresh.h) > 1e-12 {
		t.Errorf("%d rows, sums %g and %g apart", g.Len(), largest(g.low, fresh.low), largest(g.h, fresh.h))
	}
	x := make([]float64, q.Dim())
	for j := range x {
		x[j] = float64(j%5) - 1.5
	}
	var wq, wh float64
	for i := range q.Len() {
		z := q.dot(x, i)
		wq += z * z / 50
		wh += z * q.b[i] / 50
	}
	if gq, gh := g.forms(x); math.Abs(gq-wq) > 1e-12 || math.Abs(gh-wh) > 1e-12 {
		t.Errorf("forms %g, %g; want %g, %g", gq, gh, wq, wh)
	}
}

// Without a ridge a feature that is never seen, or twice the same, costs
// nothing: the solution still satisfies the normal equations.
func TestRidgeSingular(t *testing.T) {
	p := &Problem{}
	r := rand.New(rand.NewPCG(1, 2))
	for range 40 {
		a, b := float32(r.NormFloat64()), float32(r.NormFloat64())
		p.Append(stream.Vec{Val: []float32{a, a, 0, b}}, float64(a)-2*float64(b))
	}
	var g Gram
	g.Rebuild(p)
	x, err := g.Ridge(0)
	if err != nil {
		t.Fatal(err)
	}
	if n := p.subgradient(x, p.Gradient(x)); n > 1e-12 {
		t.Errorf("gradient %g at %v", n, x)
	}
	if fmt.Sprintf("%.6f", x[3]) != "-2.000000" || x[2] != 0 {
		t.Errorf("x = %v", x)
	}
}
