package vec

import "fmt"

// Apply turns sums over features into kernel values, in place: squared distances
// for RBF, l1 distances for Laplacian, inner products for the others. It is for
// layouts other than Panels.
func (k Kernel) Apply(s []float32) { k.applyOn(active, s) }

func (k Kernel) applyOn(c code, s []float32) {
	if k.Degree < 0 {
		panic(fmt.Sprintf("vec: degree %d", k.Degree))
	}
	e := newExpScale(k.Gamma)
	k.finish(s[k.applyAsm(c, s, e):], e)
}

// Shift adds c to each element of s; NaN results are canonical.
func Shift(s []float32, c float32) { shiftOn(active, s, c) }

func shiftOn(on code, s []float32, c float32) {
	for i := shiftAsm(on, s, c); i < len(s); i++ {
		v := s[i] + c
		if v != v {
			v = nan32
		}
		s[i] = v
	}
}
