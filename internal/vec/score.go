package vec

import "math"

// A feature is one feature of a sparse row: its byte offset in a panel, and its
// value.
type feature struct {
	at  int32
	val float32
}

// Rows has sparse rows in the form that a Score needs. The zero value is empty and
// ready to use; Reset keeps the memory.
type Rows struct {
	features []feature
	count    []int32   // number of features, by row
	norm     []float64 // squared norm, by row
	sums     [][16]float64
}

// Reset drops all rows.
func (r *Rows) Reset() { r.features, r.count, r.norm = r.features[:0], r.count[:0], r.norm[:0] }

// Len returns the number of rows.
func (r *Rows) Len() int { return len(r.count) }

// Score is f(x) = Σ_j coef_j·exp(−γ‖x−p_j‖²) over fixed points, for sparse x.
//
// It computes exp(−γ‖x‖²)·Σ_j coef_j·2^(2γ⟨x,p_j⟩·log₂e − γ‖p_j‖²·log₂e) and skips
// the features that x does not have. If it skips many, it is several times faster
// than Decide. It is somewhat less accurate: a kernel value can lose the bits of
// γ‖x‖², so vectors beyond scoreRange are refused. Within the range the relative
// error of a kernel value is at most about 1e-5, and about 1e-6 if γ‖x‖² is near 1.
// Coefficients are rounded to float32.
type Score struct {
	panels *Panels
	bias   []float32 // −γ‖p_j‖²·log₂e, in whole panels
	coef   []float32 // divided by unit
	unit   float64   // a power of two
	gain   float32   // 2γ·log₂e
}

const (
	scoreRange = 30   // largest γ‖x‖²·log₂e
	scoreNorm  = 1e36 // largest ‖x‖²: beyond, an inner product may be infinite
	scoreDim   = 1 << 22
	scoreFull  = 96   // largest dimension of the points for which rows may be full
	scoreCells = 8192 // features of the rows that pass over the panels together: 64 KiB
	scoreRows  = 256
)

// NewScore returns the Score for the RBF kernel with parameter gamma over the
// points of p, which must not change while it is in use, with one coefficient each.
// It returns nil if γ‖p_j‖² is too large for some j, or a number is not finite.
func NewScore(gamma float32, p *Panels, coef []float64) *Score {
	coef = coef[:p.n]
	if !(gamma >= 0) || gamma > math.MaxFloat32/4 || p.dim > scoreDim {
		return nil
	}
	s := &Score{panels: p, gain: float32(2 * float64(gamma) * math.Log2E), unit: 1}
	size := (p.n + Width - 1) / Width * Width
	s.bias, s.coef = make([]float32, size), make([]float32, size)
	largest := 0.0
	for j, c := range coef {
		norm := 0.0
		for k := range p.dim {
			v := float64(p.data[(j/Width*p.dim+k)*Width+j%Width])
			norm += float64(v * v)
		}
		exponent, ok := s.exponent(norm)
		if !ok || c-c != 0 {
			return nil
		}
		s.bias[j] = float32(-exponent)
		largest = max(largest, math.Abs(c))
	}
	if largest > 0 {
		_, e := math.Frexp(largest)
		s.unit = math.Ldexp(1, max(e, -1000))
	}
	for j, c := range coef {
		s.coef[j] = float32(c / s.unit)
	}
	return s
}

// exponent returns γ·norm·log₂e, and whether it is in range.
func (s *Score) exponent(norm float64) (float64, bool) {
	e := float64(float64(s.gain) * norm / 2)
	return e, e <= scoreRange && norm <= scoreNorm
}

// Append adds a vector to rows if the Score accepts it, and reports whether it did;
// if not, rows is unchanged. The features are val[k] at idx[k], or at k if idx is
// nil. Features beyond the points' dimension add equally to the distance from every
// point. The Score accepts vectors whose norm is in range and for which it is faster
// than Decide: with many features, at least half of them must be 0.
func (s *Score) Append(rows *Rows, idx []int32, val []float32) bool {
	from, norm := len(rows.features), 0.0
	dim := int32(s.panels.dim)
	for k, v := range val {
		if v == 0 {
			continue
		}
		norm += float64(float64(v) * float64(v))
		g := int32(k)
		if idx != nil {
			g = idx[k]
		}
		if g < dim {
			rows.features = append(rows.features, feature{g * 4 * Width, v})
		}
	}
	n := len(rows.features) - from
	if _, ok := s.exponent(norm); !ok || dim > scoreFull && 2*n > int(dim) {
		rows.features = rows.features[:from]
		return false
	}
	rows.count, rows.norm = append(rows.count, int32(n)), append(rows.norm, norm)
	return true
}

// Full reports whether there are enough rows to decide together.
func (r *Rows) Full() bool { return len(r.count) >= scoreRows || len(r.features) >= scoreCells }

// Decide sets dst[r] = f(x_r) for all rows added by Append. The bits of dst[r] do
// not depend on the other rows.
func (s *Score) Decide(dst []float64, rows *Rows) { s.decideOn(active, dst, rows) }

func (s *Score) decideOn(c code, dst []float64, rows *Rows) {
	n := rows.Len()
	dst = dst[:n]
	if n == 0 {
		return
	}
	if cap(rows.sums) < n {
		rows.sums = make([][16]float64, n)
	}
	sums := rows.sums[:n]
	clear(sums)
	step := Width * s.panels.dim
	for j := 0; j < len(s.coef); {
		z, done := s.panels.data[j/Width*step:], 1
		if c == generic || len(rows.features) == 0 {
			s.panelGeneric(z, j, rows, sums)
		} else {
			done = s.panelAsm(c, z, j, rows, sums)
		}
		j += done * Width
	}
	for r := range sums {
		l := &sums[r]
		for w := len(l) / 2; w > 0; w /= 2 {
			for i := range w {
				l[i] += l[i+w]
			}
		}
		e, _ := s.exponent(rows.norm[r])
		dst[r] = float64(float64(l[0]*s.unit) * exp2(-e))
	}
}

// Coefficients of 2^r on [−½, ½], with the smallest relative error.
const (
	pow2c0 = float32(1.0000000716546849)
	pow2c1 = float32(0.6931469670647604)
	pow2c2 = float32(0.24022119723840252)
	pow2c3 = float32(0.05550713273498316)
	pow2c4 = float32(0.009675541334439939)
	pow2c5 = float32(0.0013276471992398253)
)

// panelGeneric adds the terms of the panel z, whose first column is column j.
func (s *Score) panelGeneric(z []float32, j int, rows *Rows, sums [][16]float64) {
	bias, coef := s.bias[j:j+Width], s.coef[j:j+Width]
	features := rows.features
	for r, n := range rows.count {
		var dot [Width]float32
		for _, f := range features[:n] {
			for c, v := range z[f.at/4:][:Width] {
				dot[c] = fma(v, f.val, dot[c])
			}
		}
		features = features[n:]
		var part [16]float32
		for c, d := range dot {
			w := fma(d, s.gain, bias[c])
			t := w + 0x1.8p23
			x := w - (t - 0x1.8p23)
			y := fma(pow2c5, x, pow2c4)
			y = fma(y, x, pow2c3)
			y = fma(y, x, pow2c2)
			y = fma(y, x, pow2c1)
			y = fma(y, x, pow2c0)
			y = math.Float32frombits(math.Float32bits(y) + math.Float32bits(t)<<23)
			if c < len(part) {
				part[c] = float32(y * coef[c])
			} else {
				part[c%16] = fma(y, coef[c], part[c%16])
			}
		}
		for l, v := range part {
			sums[r][l] += float64(v)
		}
	}
}

// Coefficients ln(2)^k/k! of 2^r, highest first.
var exp2c = [...]float64{
	2.5678435993488206e-11, 4.4455382718708115e-10, 7.0549116208011235e-09, 1.0178086009239699e-07,
	1.3215486790144307e-06, 1.5252733804059841e-05, 0.0001540353039338161, 0.0013333558146428443,
	0.009618129107628477, 0.05550410866482158, 0.2402265069591007, 0.6931471805599453,
}

// exp2 returns 2^x for −1000 ≤ x ≤ 0 within 1e-14, by its Taylor series.
func exp2(x float64) float64 {
	n := math.Floor(x + 0.5)
	r, y := x-n, 0.0
	for _, c := range exp2c {
		y = float64(y*r) + c
	}
	return math.Ldexp(1+float64(y*r), int(n))
}
