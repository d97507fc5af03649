package l1smooth

import "math"

const (
	// faceProducts bounds the products with the matrix in a step of face.
	faceProducts = 80
	// settled is the largest relative change of the number of free θ_i in a round for
	// which a step of newtonDual is worth its cost.
	settled = 0.02
	// Bounds of the damping, relative to the diagonal, and its first value.
	leastDamping, firstDamping, mostDamping = 1e-9, 1e-2, 10
)

// face is scratch memory for a step on the free θ_i. Row k of the matrix B is y_i x_i,
// restricted to the active features and divided by its norm. Columns are renumbered.
type face struct {
	rows, end, idx []int32
	val            []float32
	scale          []float64 // y_i over the norm
	unit           []float64 // change of θ_i for a change of τ_k by 1
	cg                       // r is the right-hand side, x is τ
	all            []int32   // 0, 1, …
	at             []int32   // the column of each feature, or −1
	v              []float64 // Bᵀ times a vector
	theta, next    []float64 // θ and z to try
	damping        float64   // see newtonDual
}

// newtonDual does a Newton step of the dual problem in the free θ_i, which are
// between their bounds, with the features that are active now: λ K δ = u, for
// K = B Bᵀ. This is the system of the paper's Newton step in its limit α → 0
// (section 2.2: active weights; examples on the margin), written in terms of the
// examples. Wide data have fewer examples than active weights. The step helps where
// coordinate steps are slow because frequent words couple all examples.
//
// K may be singular while too many θ_i are free, so a multiple of its diagonal is
// added, less and less as full steps succeed (Levenberg, Marquardt). θ is clipped
// to its bounds, and the step is halved until the dual value rises. So the bound
// stays valid, and the value never falls. newtonDual reports whether it rose.
func (s *solver) newtonDual() bool {
	f, a := &s.ascent.face, &s.ascent
	s.submatrix()
	s.dampedCG()
	l, c := s.mu/s.lambda, s.lambda*s.mass
	f.theta = resize(f.theta, len(f.rows))
	for t := 1.0; t > 1e-3; t /= 2 {
		f.next = append(f.next[:0], a.z...)
		var sum float64
		for k, i := range f.rows {
			b, at := s.example(int(i))
			old, v := a.theta[i], b.weight.At(at)
			f.theta[k] = min(max(old+float64(t*float64(f.x[k]*f.unit[k])), 0), 1)
			change := float64(v * (f.theta[k] - old))
			if change == 0 {
				continue
			}
			sum += change
			step := float64(change*b.y[at]) / c
			b.axpy(f.next, at, step)
			f.next[0] += float64(step * s.bias)
		}
		rise := sum / s.mass
		for j, z := range f.next {
			w, old := soft(z, l), a.w[j]
			rise -= float64(s.lambda / 2 * float64((w-old)*(w+old)))
		}
		if !(rise > 0) {
			continue
		}
		copy(a.z, f.next)
		for j, z := range a.z {
			a.w[j] = soft(z, l)
		}
		for k, i := range f.rows {
			a.theta[i] = f.theta[k]
		}
		switch {
		case t == 1:
			f.damping = max(f.damping/10, leastDamping)
		case t < 0.3:
			f.damping = min(f.damping*10, mostDamping)
		}
		return true
	}
	f.damping = min(f.damping*10, mostDamping)
	return false
}

// submatrix packs B, and sets r to the residuals u_i divided by the norms.
func (s *solver) submatrix() {
	f, a := &s.ascent.face, &s.ascent
	f.at = resize(f.at, s.size())
	active := int32(0)
	for j, w := range a.w {
		f.at[j] = -1
		if w != 0 {
			f.at[j] = active
			active++
		}
	}
	f.v = resize(f.v, int(active))
	f.rows, f.end, f.idx, f.val = f.rows[:0], f.end[:0], f.idx[:0], f.val[:0]
	f.scale, f.unit, f.all = f.scale[:0], f.unit[:0], f.all[:0]
	f.clear(s.n)
	for i, theta := range a.theta {
		if !(theta > 0 && theta < 1) {
			continue
		}
		b, at := s.example(i)
		from := len(f.idx)
		if k := f.at[0]; k >= 0 && s.bias != 0 {
			f.idx, f.val = append(f.idx, k), append(f.val, float32(s.bias))
		}
		for j, v := range b.values(at) {
			if k := f.at[j+1]; k >= 0 && v != 0 {
				f.idx, f.val = append(f.idx, k), append(f.val, float32(v))
			}
		}
		var square float64
		for _, v := range f.val[from:] {
			square += float64(float64(v) * float64(v))
		}
		if square == 0 {
			continue
		}
		norm := math.Sqrt(square)
		u := 1 - float64(b.y[at]*(float64(a.w[0]*s.bias)+b.dot(a.w, at)))
		f.rows, f.end = append(f.rows, int32(i)), append(f.end, int32(len(f.idx)))
		k := len(f.all)
		f.all, f.scale = append(f.all, int32(k)), append(f.scale, b.y[at]/norm)
		f.r[k], f.diag[k] = u/norm, 1
		f.unit = append(f.unit, float64(s.lambda*s.mass)/float64(b.weight.At(at)*norm))
	}
}

// dampedCG solves (B Bᵀ + damping) τ = r by conjugate gradients, with a looser
// tolerance while the damping is strong.
func (s *solver) dampedCG() {
	f := &s.ascent.face
	tolerance := cgTolerance
	if f.damping >= firstDamping {
		tolerance = 0.1
	}
	s.products += f.solve(f.all, faceProducts, tolerance, f.damping, func(out, p []float64) {
		clear(f.v)
		from := int32(0)
		for k, end := range f.end {
			c, idx, val := float64(p[k]*f.scale[k]), f.idx[from:end], f.val[from:end]
			for e, v := range val {
				f.v[idx[e]] += float64(c * float64(v))
			}
			from = end
		}
		from = 0
		for k, end := range f.end {
			idx, val := f.idx[from:end], f.val[from:end]
			var sum float64
			for e, v := range val {
				sum += float64(f.v[idx[e]] * float64(v))
			}
			out[k] = float64(sum * f.scale[k])
			from = end
		}
	})
}
