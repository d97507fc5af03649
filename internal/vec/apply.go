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
