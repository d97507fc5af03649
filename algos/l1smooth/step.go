package l1smooth

import "math"

// search finds the step. It starts at first or, if first is 0, at the minimiser of the
// quadratic model with the exact l1 term (section 2.4). It shortens the step until f_α
// falls enough. Weights whose sign would change become 0 before the test, not after it
// (E7).
func (s *solver) search(alpha, slope, first float64) bool {
	s.q = resize(s.q, s.n)
	a := s.along(s.q, s.d, s.pt.h)
	s.passes++
	var b float64
	s.ws, s.ds = s.ws[:0], s.ds[:0]
	for _, j := range s.set {
		a += float64(s.lambda * float64(s.d[j]*s.d[j]))
		b += float64(s.d[j] * s.ghat[j])
		s.ws, s.ds = append(s.ws, s.w[j]), append(s.ds, s.d[j])
	}
	a /= 2
	step, hits := first, []int32(nil)
	switch {
	case first > 0:
	case s.mu == 0:
		step = -b / (2 * a)
	default:
		var ok bool
		if step, hits, ok = minimise(s.ws, s.ds, a, b, s.mu, &s.cross); !ok {
			step = 1 // the model is unbounded below, but f is not
		}
	}
	if !(step > 0) || math.IsInf(step, 0) {
		return false
	}
	clip := true
	for tries := 0; ; tries++ {
		change, mean := s.try(alpha, step, hits, clip)
		if change <= float64(armijo*float64(step*slope)) {
			s.accept(mean)
			s.length = step
			return true
		}
		if step < leastTry {
			return false
		}
		switch {
		case s.opt.Search == "halve" || tries > 1:
			step, hits, clip = step/2, nil, true
		case tries == 0:
			step, hits = s.minimum(alpha, slope, step)
		default:
			clip = false // try the minimum itself
		}
	}
}

// try computes the trial point at the given step, and returns the change of f_α and
// the mean hinge there. With clip, weights whose sign would change become 0.
func (s *solver) try(alpha, step float64, hits []int32, clip bool) (change, mean float64) {
	q, t := s.q, step
	if s.trial(step, hits, clip) {
		s.dw = resize(s.dw, s.size())
		clear(s.dw)
		for i, j := range s.set {
			s.dw[j] = s.next[i] - s.ws[i]
		}
		s.q2 = resize(s.q2, s.n)
		s.along(s.q2, s.dw, s.pt.h)
		s.passes++
		q, t = s.q2, 1
	}
	change, mean = s.rise(s.pt.u, q, t, alpha)
	s.values++
	for i, v := range s.next {
		w := s.ws[i]
		change += float64(s.lambda/2*float64((v-w)*(v+w))) + float64(s.mu*(math.Abs(v)-math.Abs(w)))
	}
	return change, mean
}

// trial sets next to w + step·d on the support. It reports whether it clipped a sign
// other than at a hit, where the change is only rounding.
func (s *solver) trial(step float64, hits []int32, clip bool) (clipped bool) {
	s.next = s.next[:0]
	for i, w := range s.ws {
		s.next = append(s.next, w+float64(step*s.ds[i]))
	}
	for _, i := range hits {
		s.next[i] = 0
	}
	if s.mu == 0 || !clip {
		return false
	}
	for i, w := range s.ws {
		if v := s.next[i]; w != 0 && v != 0 && (v < 0) != (w < 0) {
			s.next[i] = 0
			clipped = true
		}
	}
	return clipped
}

// curvature is the fraction of the slope at which minimum stops.
const curvature = 0.1

// minimum returns an approximate minimiser over 0 < s ≤ most of f_α along d and, if it
// is on a kink, the positions of the weights that are 0 there. It uses bisection over
// the kinks, then Newton's method on the derivative, which is monotone, within a
// bracket.
func (s *solver) minimum(alpha, slope, most float64) (step float64, hits []int32) {
	lo, hi := 0.0, most
	if s.mu > 0 {
		s.cross = crossings(s.cross, s.ws, s.ds)
		from, to := 0, 0
		for to < len(s.cross) && s.cross[to].at < most {
			to++
		}
		for from < to {
			mid := from + (to-from)/2
			sigma := s.cross[mid].at
			d1, _ := s.derivatives(alpha, sigma, sigma)
			first, end := mid, mid
			var jump float64
			for first > 0 && s.cross[first-1].at == sigma {
				first--
			}
			for end = first; end < len(s.cross) && s.cross[end].at == sigma; end++ {
				jump += float64(s.mu * math.Abs(s.ds[s.cross[end].j]))
			}
			switch {
			case d1-jump > 0:
				hi, to = sigma, first
			case d1+jump < 0:
				lo, from = sigma, end
			default:
				for _, c := range s.cross[first:end] {
					hits = append(hits, c.j)
				}
				return sigma, hits
			}
		}
	}
	at := lo + 0.5*(hi-lo)
	for range 20 {
		d1, d2 := s.derivatives(alpha, at, lo+0.5*(hi-lo))
		if math.Abs(d1) <= -curvature*slope {
			return at, nil
		}
		if d1 > 0 {
			hi = at
		} else {
			lo = at
		}
		next := at - d1/d2
		if !(next > lo+0.05*(hi-lo) && next < hi-0.05*(hi-lo)) {
			// The step is usually far too long: approach from above first.
			next = lo + 0.25*(hi-lo)
		}
		at = next
	}
	return lo + 0.5*(hi-lo), nil
}

// derivatives returns the first and the second derivative of f_α at w + at·d along d.
// The l1 term uses the signs of the weights at w + signs·d; weights that become 0 there
// contribute nothing to the first derivative.
func (s *solver) derivatives(alpha, at, signs float64) (d1, d2 float64) {
	d1, d2 = s.slopes(s.pt.u, s.q, at, alpha)
	s.values++
	for i, d := range s.ds {
		w := s.ws[i]
		d1 += float64(s.lambda * float64((w+float64(at*d))*d))
		d2 += float64(s.lambda * float64(d*d))
		if s.mu == 0 {
			continue
		}
		switch sign := w * d; {
		case sign < 0 && -w/d > signs: // not at 0 yet
			d1 -= float64(s.mu * math.Abs(d))
		case sign < 0 && -w/d == signs:
		default:
			d1 += float64(s.mu * math.Abs(d))
		}
	}
	return d1, d2
}

// accept accepts the trial point. mean is its mean hinge.
func (s *solver) accept(mean float64) {
	for i, j := range s.set {
		s.w[j] = s.next[i]
	}
	s.known = false
	for j, w := range s.w {
		s.active[j] = w != 0
	}
	square, norm := norms(s.w)
	s.objective = float64(s.lambda/2*square) + mean + float64(s.mu*norm)
	s.gap = math.NaN()
}
