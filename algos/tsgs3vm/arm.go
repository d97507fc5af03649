package tsgs3vm

import (
	"math"

	"github.com/streamsvm/streamsvm/internal/vec"
)

// arm is one decision function f(x) = norm·⟨w, cos⟩ + bias·b.
type arm struct {
	rho   float64
	semi  bool      // learns from unlabelled points
	fold  int       // the labels of this fold, from 1, are not learned; 0: all are
	w, wl []float64 // wl, the labelled part, is w itself if there is no other
	b, bl float64
	a     []float64 // by slot
	score evidence
	mean  iterates // served, if there are any; otherwise the last one is
}

func newArm(rho float64, semi bool, fold, features int) *arm {
	a := &arm{rho: rho, semi: semi, fold: fold, w: make([]float64, features)}
	a.wl = a.w
	if semi {
		a.wl = make([]float64, features)
	}
	return a
}

// model returns the coefficients and the bias that an arm would serve.
func (a *arm) model() (w []float64, b float64) {
	if a.mean.n > 0 {
		return a.mean.w, a.mean.b
	}
	return a.w, a.b
}

// value returns f at a point with features z for coefficients w and bias b.
func (d *dual) value(w []float64, b float64, z []float32) float64 {
	return float64(d.norm()*vec.DotMixed(z, w)) + float64(d.opt.Bias*b)
}

// decision returns f of the last iterate at a point with the given features.
func (d *dual) decision(a *arm, z []float32) float64 { return d.value(a.w, a.b, z) }

// predict returns the decision that an arm would serve at a point with the given
// features.
func (d *dual) predict(a *arm, z []float32) float64 {
	w, b := a.model()
	return d.value(w, b, z)
}

// shift adds t·z to the arm, and to its labelled part if labelled is set.
func (d *dual) shift(a *arm, t float64, z []float32, labelled bool) {
	vec.AxpyMixed(t, z, a.w)
	a.b += t
	if labelled && a.semi {
		vec.AxpyMixed(t, z, a.wl)
		a.bl += t
	}
}

// relax does one dual coordinate step for the point in a slot and returns how far
// it was from optimal.
func (d *dual) relax(a *arm, c float64, i int, y float64) float64 {
	if a.fold > 0 && a.fold == d.fold[i] {
		return 0
	}
	return d.relaxAt(a, c, i, d.z[i], d.m[i], d.q[i], y)
}

func (d *dual) relaxAt(a *arm, c float64, i int, z, m []float32, q, y float64) float64 {
	next, by := d.ascend(a, c, a.a[i], z, q, y)
	t := next - a.a[i]
	if t == 0 {
		return 0
	}
	a.a[i] = next
	d.shift(a, t*y, m, true)
	return by
}

// ascend returns the α that is best for a point, all others as they are, and how far it is
// from the present one, times k(x,x).
func (d *dual) ascend(a *arm, c, alpha float64, z []float32, q, y float64) (next, by float64) {
	g := 1 - float64(y*d.decision(a, z))
	next = min(max(alpha+g/q, 0), c)
	return next, math.Abs(next-alpha) * q
}
