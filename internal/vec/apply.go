package vec

import "fmt"

// Apply turns sums over features into kernel values, in place: squared
// distances for RBF, l1 distances for Laplacian, inner products for the
// others. It is for layouts other than Panels.
func (k Kernel) Apply(s []float32) { k.applyOn(active, s) }

func (k Kernel) applyOn(c code, s []float32) {
	if k.Degree < 0 {
		panic(fmt.Sprintf("vec: degree %d", k.Degree))
	}
	e, done := newExpScale(k.Gamma), 0
	if c != generic {
		done = k.applyAsm(c, s, e)
	}
	k.finish(s[done:], e)
}

// Shift adds c to each element of s; a NaN result is the one NaN.
func Shift(s []float32, c float32) { shiftOn(active, s, c) }

func shiftOn(on code, s []float32, c float32) {
	done := 0
	if on != generic {
		done = shiftAsm(on, s, c)
	}
	for i := done; i < len(s); i++ {
		v := s[i] + c
		if v != v {
			v = nan32
		}
		s[i] = v
	}
}
