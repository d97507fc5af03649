package smo

import (
	"math"

	"github.com/streamsvm/streamsvm/internal/vec"
)

// least replaces the curvature of two points that the kernel
// cannot tell apart, as in LIBSVM.
const least = 1e-12

// optimise does at most n iterations.
func (l *Learner) optimise(n int) {
	if len(l.y) == 0 {
		return
	}
	l.model = nil
	l.sides()
	for ; n > 0 && l.fresh; n-- {
		if l.opt.Intercept {
			l.fresh = l.pair()
		} else {
			l.fresh = l.single()
		}
		if l.fresh {
			l.step++
		}
	}
	if l.opt.Intercept {
		l.setBias()
	}
}

// Coefficients move along y: an example is up if y_i α_i can rise, low if it can
// fall. f_i = y_i − s_i is what the objective gains with y_i α_i, at first; at
// the optimum no f of an up example is above that of a low one.
func (l *Learner) up(i int) bool {
	if l.y[i] > 0 {
		return l.alpha[i] < l.most(i)
	}
	return l.alpha[i] > 0
}

func (l *Learner) low(i int) bool {
	if l.y[i] > 0 {
		return l.alpha[i] > 0
	}
	return l.alpha[i] < l.most(i)
}

// sides notes for every example whether it is up and whether it is low. Which
// it is follows no pattern that a processor could foresee, and a search asks it
// of all: so the answer is a number that takes an example out of the running,
// not a branch.
func (l *Learner) sides() {
	for len(l.notUp) < len(l.y) {
		l.notUp, l.notLow = append(l.notUp, 0), append(l.notLow, 0)
	}
	for i := range l.y {
		l.side(i)
	}
}

func (l *Learner) side(i int) {
	l.notUp[i], l.notLow[i] = 0, 0
	if !l.up(i) {
		l.notUp[i] = math.Inf(1)
	}
	if !l.low(i) {
		l.notLow[i] = math.Inf(1)
	}
}

// extremes returns the up example with the largest f, and the least f of a low
// one. i is −1 and the values are infinite where there is none.
func (l *Learner) extremes() (i int, most, min float64) {
	i, most, min = -1, math.Inf(-1), math.Inf(1)
	n := len(l.y)
	s, notUp, notLow := l.s[:n], l.notUp[:n], l.notLow[:n]
	for j, y := range l.y {
		f := y - s[j]
		if v := f - notUp[j]; v > most {
			i, most = j, v
		}
		if v := f + notLow[j]; v < min {
			min = v
		}
	}
	return i, most, min
}

// second returns the low example with which i, whose f is most, gains most, and
// the step there; −1 where none gains.
func (l *Learner) second(i int, most float64) (j int, best float64) {
	j = -1
	n := len(l.y)
	k, s, diag, notLow := l.rows.Row(i)[:n], l.s[:n], l.diag[:n], l.notLow[:n]
	kii, gain, bar := float64(k[i]), 0.0, 0.0
	for m, y := range l.y {
		d := most - (y - s[m]) - notLow[m]
		a := kii + diag[m] - float64(2*float64(k[m]))
		if a < least {
			a = least
		}
		// Few get past this, since bar is a little below gain; a quotient larger
		// than gain does however it is rounded, a d that is not positive does not.
		if q := float64(d * math.Abs(d)); q > float64(bar*a) {
			if g := q / a; g > gain {
				j, gain, best, bar = m, g, d/a, g*(1-1e-9)
			}
		}
	}
	return j, best
}

// pair does an iteration with an intercept. It reports whether there was
// anything to improve.
func (l *Learner) pair() bool {
	i, most, min := l.extremes()
	l.worst = math.Max(0, most-min)
	if i < 0 || !(most-min > l.opt.Tol) {
		return false
	}
	j, best := l.second(i, most)
	if j < 0 {
		return false
	}
	l.move(i, j, math.Min(best, math.Min(l.room(i, 1), l.room(j, -1))))
	l.side(i)
	l.side(j)
	return true
}

// room returns how far y_i α_i can move in direction dir, 1 or −1.
func (l *Learner) room(i int, dir float64) float64 {
	if l.y[i] == dir {
		return l.most(i) - l.alpha[i]
	}
	return l.alpha[i]
}

// move adds d to y_i α_i and takes it from y_j α_j; d is within the room of
// either.
func (l *Learner) move(i, j int, d float64) {
	l.shift(i, d)
	l.shift(j, -d)
	// The second row is fetched while the first may still be wanted; the cache
	// holds several.
	ki := l.rows.Row(i)
	vec.AxpyMixed(d, ki, l.s)
	vec.AxpyMixed(-d, l.rows.Row(j), l.s)
}

// shift adds d to y_i α_i, meeting the ends of its range exactly.
func (l *Learner) shift(i int, d float64) {
	a := l.alpha[i] + float64(l.y[i]*d)
	switch {
	case math.Abs(d) >= l.room(i, math.Copysign(1, d)):
		if a = 0; float64(l.y[i]*d) > 0 {
			a = l.most(i)
		}
	case a < 0:
		a = 0
	case a > l.most(i):
		a = l.most(i)
	}
	l.alpha[i] = a
}

// single does an iteration without an intercept.
func (l *Learner) single() bool {
	i, gain, best := -1, 0.0, 0.0
	l.worst = 0
	for m, y := range l.y {
		g := 1 - float64(y*l.s[m])
		if g > 0 && l.alpha[m] == l.most(m) || g < 0 && l.alpha[m] == 0 || g == 0 {
			continue
		}
		l.worst = math.Max(l.worst, math.Abs(g))
		kmm := math.Max(l.diag[m], least)
		d := math.Min(math.Max(l.alpha[m]+g/kmm, 0), l.most(m)) - l.alpha[m]
		if v := float64(d*g) - float64(float64(d*d)*kmm)/2; v > gain {
			i, gain, best = m, v, d
		}
	}
	if i < 0 || !(l.worst > l.opt.Tol) {
		return false
	}
	d := float64(best * l.y[i])
	l.shift(i, d)
	vec.AxpyMixed(d, l.rows.Row(i), l.s)
	return true
}

// setBias sets b to the mean of f over the free coefficients, which are on the
// margin, or to the middle of what the others leave.
func (l *Learner) setBias() {
	var sum, n float64
	for i, a := range l.alpha {
		if a > 0 && a < l.most(i) {
			sum += l.y[i] - l.s[i]
			n++
		}
	}
	if n > 0 {
		l.b = sum / n
		return
	}
	switch _, most, min := l.extremes(); {
	case math.IsInf(min, 1): // only positive examples
		l.b = most
	case math.IsInf(most, -1):
		l.b = min
	default:
		l.b = (most + min) / 2
	}
}

// leave makes the coefficients in slots 0, those of the examples that are to be
// replaced.
func (l *Learner) leave(slots []int) {
	leaving := map[int]bool{}
	for _, i := range slots {
		leaving[i] = true
	}
	for _, i := range slots {
		if l.alpha[i] == 0 {
			continue
		}
		l.removed++
		if !l.opt.Intercept {
			d := float64(-l.alpha[i] * l.y[i])
			l.alpha[i] = 0
			vec.AxpyMixed(d, l.rows.Row(i), l.s)
			continue
		}
		for l.alpha[i] > 0 {
			j := l.partner(i, leaving)
			if j < 0 { // what is left is rounding
				l.alpha[i] = 0
				break
			}
			d := -l.y[i] * math.Min(l.alpha[i], l.room(j, l.y[i]))
			l.move(i, j, d)
		}
	}
}

// partner returns the example that loses least by taking over as much as it can
// of α_i, or −1. One that is about to leave cannot take more.
func (l *Learner) partner(i int, leaving map[int]bool) int {
	k := l.rows.Row(i)
	kii := float64(k[i])
	j, best := -1, math.Inf(-1)
	fi := l.y[i] - l.s[i]
	for m, y := range l.y {
		room := l.room(m, l.y[i])
		if m == i || room <= 0 || y == l.y[i] && leaving[m] {
			continue
		}
		d := math.Min(l.alpha[i], room)
		a := math.Max(kii+l.diag[m]-float64(2*float64(k[m])), least)
		// The gain for each unit moved.
		g := float64(l.y[i]*(y-l.s[m]-fi)) - float64(d*a)/2
		if g > best {
			j, best = m, g
		}
	}
	return j
}
