package tsgs3vm

import (
	"math"

	"github.com/streamsvm/streamsvm/internal/vec"
)

// arm is one decision function f(x) = norm·⟨w, cos⟩ + bias·b.
type arm struct {
	rho   float64
	semi  bool      // learns from unlabelled points
	fold  int       // from 1: the fold whose labels are left out; 0: none
	class int       // from 1: the class that it tells from the rest; 0: there are two classes
	w, wl []float64 // wl is the labelled part, the same slice as w if not semi
	b, bl float64
	a     []float64 // α by slot
	score evidence
	mean  iterates // the served model if not empty; otherwise the last iterate is served
}

func newArm(rho float64, semi bool, fold, features int) *arm {
	a := &arm{rho: rho, semi: semi, fold: fold, w: make([]float64, features)}
	a.wl = a.w
	if semi {
		a.wl = make([]float64, features)
	}
	return a
}

// sign returns the label of the arm's classifier for the label y.
func (a *arm) sign(y float64) float64 {
	switch {
	case a.class == 0:
		return y
	case int(y) == a.class-1:
		return 1
	}
	return -1
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

// predict returns the decision of the model that an arm would serve, at a point with the
// given features.
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

// ascend returns the best α of a point while all others stay fixed, and its distance from
// the present α, times k(x,x).
func (d *dual) ascend(a *arm, c, alpha float64, z []float32, q, y float64) (next, by float64) {
	g := 1 - float64(y*d.decision(a, z))
	next = min(max(alpha+g/q, 0), c)
	return next, math.Abs(next-alpha) * q
}
