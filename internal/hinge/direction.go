package hinge

import "math"

// TurnRKHS sets d to −Nr{−d, c} in the norm of the function space, or to −c if fresh is
// set, where c are the coefficients of the functional subgradient at α. It returns
// ‖d‖_H, or 0 if d is only rounding error. It needs no kernel values: Qc = λs − q/m.
func (p *Problem) TurnRKHS(fresh bool) float64 {
	var theta float64
	if !fresh {
		var gg, gd, dd float64
		for i, d := range p.D {
			c, qc := p.CoefGrad(i)
			gg += float64(c * qc)
			gd += float64(d * qc)
			dd += float64(d * p.P[i])
		}
		theta = MinNorm2(dd, -gd, gg)
	}
	var norm, scale float64
	m := p.Count()
	for i, d := range p.D {
		c, qc := p.CoefGrad(i)
		scale += float64((math.Abs(p.Lambda*p.Alpha[i]) + p.V.At(i)/m) * (math.Abs(p.Lambda*p.S[i]) + math.Abs(p.Q[i])/m))
		d = float64(theta*d) - float64((1-theta)*c)
		pi := float64(theta*p.P[i]) - float64((1-theta)*qc)
		p.D[i], p.P[i] = d, pi
		norm += float64(d * pi)
	}
	if norm <= noise*scale {
		return 0
	}
	return Norm(norm)
}

// noise is the ratio of the square of a difference to the squares of its terms, below
// which the digits of the difference are mostly rounding: (10⁻¹¹)², five digits above
// the resolution of float64.
const noise = 1e-22

// TurnAlpha is TurnRKHS in the Euclidean norm of the coefficients, where the
// subgradient is g = Qc. It takes a product with Q.
func (p *Problem) TurnAlpha(fresh bool) float64 {
	p.g = extend(p.g, p.Len())[:p.Len()]
	p.qg = extend(p.qg, p.Len())[:p.Len()]
	var gg, gd, dd float64
	for i, d := range p.D {
		_, g := p.CoefGrad(i)
		p.g[i] = g
		gg += float64(g * g)
		gd += float64(g * d)
		dd += float64(d * d)
	}
	var theta float64
	if !fresh {
		theta = MinNorm2(dd, -gd, gg)
	}
	p.Multiply(p.qg, p.g)
	var norm, scale float64
	m := p.Count()
	for i, d := range p.D {
		scale += sqr(math.Abs(p.Lambda*p.S[i]) + math.Abs(p.Q[i])/m)
		d = float64(theta*d) - float64((1-theta)*p.g[i])
		p.D[i] = d
		p.P[i] = float64(theta*p.P[i]) - float64((1-theta)*p.qg[i])
		norm += float64(d * d)
	}
	if norm <= noise*scale {
		return 0
	}
	return Norm(norm)
}

func sqr(x float64) float64 { return x * x }
