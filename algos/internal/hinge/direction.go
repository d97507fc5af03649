package hinge

// TurnRKHS sets d to −Nr{−d, c} in the norm of the function space, where c are
// the coefficients of the functional subgradient at α, or to −c if fresh is
// set. It returns ‖d‖_H. It needs no kernel values: Qc = λs − q/m.
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
	var norm float64
	for i, d := range p.D {
		c, qc := p.CoefGrad(i)
		d = float64(theta*d) - float64((1-theta)*c)
		pi := float64(theta*p.P[i]) - float64((1-theta)*qc)
		p.D[i], p.P[i] = d, pi
		norm += float64(d * pi)
	}
	return Norm(norm)
}

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
	var norm float64
	for i, d := range p.D {
		d = float64(theta*d) - float64((1-theta)*p.g[i])
		p.D[i] = d
		p.P[i] = float64(theta*p.P[i]) - float64((1-theta)*p.qg[i])
		norm += float64(d * d)
	}
	return Norm(norm)
}
