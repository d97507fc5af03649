package vec

import (
	"encoding/binary"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"testing"
)

// sparseRow returns up to dim+2 features at rate density, a few of them beyond
// dim, as indices and values; dense rows have no indices.
func sparseRow(rng *rand.Rand, dim int, density float64, dense bool, scale float64) (idx []int32, val []float32) {
	idx = []int32{}
	for k := range dim + 2 {
		v := float32(rng.NormFloat64() * scale)
		if rng.Float64() >= density {
			v = 0
		}
		if dense || v != 0 || rng.IntN(50) == 0 { // a zero may be listed
			idx, val = append(idx, int32(k)), append(val, v)
		}
	}
	if dense {
		idx = nil
	}
	return idx, val
}

// TestScore compares every code with the formula in float64, and with the
// pure-Go code bit by bit; a decision does not depend on the company.
func TestScore(t *testing.T) {
	const seed = 31
	worst := 0.0
	for round := range 150 {
		rng := rand.New(rand.NewPCG(seed, uint64(round)))
		dim, points, density := 1+rng.IntN(60), rng.IntN(400), rng.Float64()
		gamma := float32(math.Exp(3 * rng.NormFloat64()))
		// Norms over all of the range.
		scale := math.Sqrt(10*rng.Float64()/(float64(gamma)*float64(dim)*density+1e-3)) + 1e-3
		p, row := NewPanels(dim), make([]float32, dim)
		_, coef := guarded64(rng, mix{0, float32(math.Exp(10 * rng.NormFloat64()))}, points)
		for range points {
			for k := range row {
				row[k] = 0
				if rng.Float64() < density {
					row[k] = float32(rng.NormFloat64() * scale)
				}
			}
			p.Append(row)
		}
		s := NewScore(gamma, p, coef)
		if s == nil {
			continue
		}
		var rows, one Rows
		var want []float64
		size := 0.0
		for range rng.IntN(40) {
			idx, val := sparseRow(rng, dim, density, rng.IntN(2) == 0, scale)
			if !s.Append(&rows, idx, val) {
				continue
			}
			x := make([]float64, dim+2)
			for k, v := range val {
				if idx != nil {
					x[idx[k]] = float64(v)
				} else {
					x[k] = float64(v)
				}
			}
			f := 0.0
			size = 0
			for j, c := range coef {
				p.Row(row, j)
				d := x[dim]*x[dim] + x[dim+1]*x[dim+1]
				for k, v := range row {
					d += (x[k] - float64(v)) * (x[k] - float64(v))
				}
				f += c * math.Exp(-float64(gamma)*d)
				size += math.Abs(c)
			}
			want = append(want, f)
		}
		got, plain := make([]float64, rows.Len()), make([]float64, rows.Len())
		s.decideOn(generic, plain, &rows)
		for i, f := range plain {
			err := math.Abs(f-want[i]) / (size + 1e-300)
			worst = max(worst, err)
			if err > 2e-6 {
				t.Fatalf("round %d, row %d of dim %d, %d points, gamma %g: %g, want %g: error %g of Σ|coef|", round, i, dim, points, gamma, f, want[i], err)
			}
		}
		for c := generic; c <= best(); c++ {
			s.decideOn(c, got, &rows)
			if !same64(got, plain) {
				t.Fatalf("round %d: %s gives %v, Go %v", round, c, got, plain)
			}
			at := 0
			for i := range got {
				one.Reset()
				one.features = append(one.features, rows.features[at:at+int(rows.count[i])]...)
				one.count, one.norm = append(one.count, rows.count[i]), append(one.norm, rows.norm[i])
				at += int(rows.count[i])
				s.decideOn(c, got[:1], &one)
				if !same64(got[:1], plain[i:i+1]) {
					t.Fatalf("round %d: %s gives %v for row %d alone, %v in company", round, c, got[0], i, plain[i])
				}
			}
		}
	}
	t.Logf("largest error %.2g of Σ|coef|", worst)
	if worst == 0 {
		t.Error("nothing was compared")
	}
}

// What is out of range is refused: large norms, and numbers that are not
// finite.
func TestScoreRange(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	points := func(v float64) *Panels {
		p := NewPanels(2)
		p.Append([]float32{0, 1})
		p.Append([]float32{1, float32(v)})
		return p
	}
	for _, x := range []struct {
		gamma, v, coef float64
		ok             bool
	}{
		{1, 1, 1, true}, {1, 4, 1, true}, {1, 5, 1, false}, {0, 5, 1e300, true}, {0, 1e19, 1, false},
		{1, nan, 1, false}, {1, inf, 1, false}, {nan, 1, 1, false}, {-1, 1, 1, false}, {inf, 1, 1, false},
		{1, 1, nan, false}, {1, 1, inf, false},
	} {
		s := NewScore(float32(x.gamma), points(x.v), []float64{-1, x.coef})
		if (s != nil) != x.ok {
			t.Errorf("%+v: %v", x, s)
		}
	}
	s := NewScore(1, points(1), []float64{1, 1})
	var rows Rows
	for _, x := range []struct {
		val []float32
		ok  bool
	}{
		{nil, true}, {[]float32{1, -4}, true}, {[]float32{0, 5}, false}, {[]float32{0, 0, 5}, false},
		{[]float32{float32(nan)}, false}, {[]float32{1, float32(inf)}, false}, {[]float32{2, 2, 2}, true},
	} {
		n, m := rows.Len(), len(rows.features)
		if ok := s.Append(&rows, nil, x.val); ok != x.ok || !ok && (rows.Len() != n || len(rows.features) != m) {
			t.Errorf("%v: %v, %d rows of %d features", x.val, ok, rows.Len(), len(rows.features))
		}
	}
	wide := NewPanels(scoreFull + 1)
	wide.Append(make([]float32, scoreFull+1))
	s, rows = NewScore(1e-3, wide, []float64{1}), Rows{}
	for n := range scoreFull + 2 {
		x := make([]float32, scoreFull+1)
		for k := range n {
			x[k] = 1
		}
		if ok := s.Append(&rows, nil, x); ok != (n <= scoreFull/2) {
			t.Errorf("%d of %d features: %v", n, len(x), ok)
		}
	}
}

func TestExp2(t *testing.T) {
	for x := -60.0; x <= 0; x += 1.0 / 512 {
		if got, want := exp2(x), math.Exp2(x); math.Abs(got-want) > 1e-14*want {
			t.Fatalf("2^%g = %g, want %g", x, got, want)
		}
	}
}

// TestScoreGolden pins the bits, as TestGolden does for the rest.
func TestScoreGolden(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 0))
	p, row, coef := NewPanels(21), make([]float32, 21), make([]float64, 150)
	for i := range coef {
		mix{0, 0.5}.fill(rng, row)
		p.Append(row)
		coef[i] = math.Sqrt(float64(i)) - 6
	}
	s := NewScore(0.75, p, coef)
	var rows Rows
	for range 20 {
		idx, val := sparseRow(rng, 21, 0.4, false, 0.5)
		if !s.Append(&rows, idx, val) {
			t.Fatal("a row is refused")
		}
	}
	got := make([]float64, rows.Len())
	for c := generic; c <= best(); c++ {
		s.decideOn(c, got, &rows)
		h := fnv.New64a()
		for _, v := range got {
			h.Write(binary.LittleEndian.AppendUint64(nil, math.Float64bits(v)))
		}
		if got, want := h.Sum64(), uint64(0xa67a779d6d1c93d8); got != want {
			t.Errorf("%s: hash %#x, want %#x", c, got, want)
		}
	}
}
