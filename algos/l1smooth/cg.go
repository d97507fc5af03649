package l1smooth

import "math"

const (
	// cgTolerance is the size of the residual, relative to the gradient, at
	// which conjugate gradients stop.
	cgTolerance = 1e-2
	cgMost      = 500
)

// cg is scratch memory for conjugate gradients.
type cg struct{ diag, r, p, z, x, out []float64 }

// conjugate is direction by conjugate gradients, with the diagonal as
// preconditioner, for large active sets: the Hessian is never formed. Every iterate
// from the first on is a descent direction. It reports whether coordinates were
// removed, in which case it must be called again.
func (s *solver) conjugate(least float64) bool {
	c, n := &s.cg, s.size()
	c.clear(n)
	s.diagonal(c.diag, s.pt.h, least)
	for _, j := range s.set {
		c.diag[j] += s.lambda
		if !(c.diag[j] > 0) {
			c.diag[j] = 1
		}
		c.r[j] = -s.g[j]
	}
	s.products += c.solve(s.set, cgMost, cgTolerance, s.lambda, func(out, v []float64) { s.times(out, v, s.pt.h, least) })
	x := s.ds[:0]
	for _, j := range s.set {
		x = append(x, c.x[j])
	}
	s.ds = x
	return s.drop(x)
}

// clear sets all vectors to n zeros.
func (c *cg) clear(n int) {
	for _, v := range []*[]float64{&c.diag, &c.r, &c.p, &c.z, &c.x, &c.out} {
		*v = resize(*v, n)
		clear(*v)
	}
}

// solve solves (H + ridge) x = r on the coordinates in set, given x = 0 and the
// diagonal of the matrix, until the residual has fallen to tolerance. times
// multiplies by H. It returns the number of products.
func (c *cg) solve(set []int32, most int, tolerance, ridge float64, times func(out, v []float64)) (products uint64) {
	var norm, rz float64
	for _, j := range set {
		c.z[j] = c.r[j] / c.diag[j]
		c.p[j] = c.z[j]
		norm += float64(c.r[j] * c.r[j])
		rz += float64(c.r[j] * c.z[j])
	}
	stop := norm * tolerance * tolerance
	for k := range most {
		times(c.out, c.p)
		products++
		var curve float64
		for _, j := range set {
			c.out[j] += float64(ridge * c.p[j])
			curve += float64(c.p[j] * c.out[j])
		}
		if !(curve > 0) {
			if norm > 0 && k == 0 {
				copy(c.x, c.p) // no curvature at all: the gradient
			}
			break
		}
		step := rz / curve
		norm = 0
		var next float64
		for _, j := range set {
			c.x[j] += float64(step * c.p[j])
			c.r[j] -= float64(step * c.out[j])
			c.z[j] = c.r[j] / c.diag[j]
			norm += float64(c.r[j] * c.r[j])
			next += float64(c.r[j] * c.z[j])
		}
		if norm <= stop || math.IsNaN(norm) {
			break
		}
		beta := next / rz
		rz = next
		for _, j := range set {
			c.p[j] = c.z[j] + float64(beta*c.p[j])
		}
	}
	return products
}
