package vec

import (
	"math"
	"math/rand/v2"
	"testing"
)

// nonzeroRow sets about share of dst, single features or stretches of them, and
// returns it with zeros listed and as Append takes it.
func nonzeroRow(rng *rand.Rand, m mix, dim int, share float64) ([]float32, []int32, []float32) {
	row, drawn := make([]float32, dim), make([]float32, dim)
	m.fill(rng, drawn)
	for j := 0; j < dim; {
		n := 1
		if rng.IntN(2) == 0 {
			n += rng.IntN(9)
		}
		on := rng.Float64() < share
		for ; n > 0 && j < dim; n-- {
			if on {
				row[j] = drawn[j]
			}
			j++
		}
	}
	var idx []int32
	var val []float32
	for j, v := range row {
		if v != 0 || rng.IntN(20) == 0 { // zeros may be listed, too
			idx, val = append(idx, int32(j)), append(val, v)
		}
	}
	return row, idx, val
}

// TestCosSparse compares rows by their nonzeros with dense rows: the same bits,
// on every code, in either form.
func TestCosSparse(t *testing.T) {
	const seed = 31
	for round := range 600 {
		rng := rand.New(rand.NewPCG(seed, uint64(round)))
		finite := mixes[round%4]
		dim, n, rows := 1+rng.IntN(70), rng.IntN(20), 1+rng.IntN(330)
		switch round % 7 {
		case 0:
			n = 60 + rng.IntN(200)
		case 1:
			dim = 1 + rng.IntN(1100)
		}
		w := randomPanels(rng, finite, dim, rows)
		from := rng.IntN(rows)
		to := from + rng.IntN(rows-from+1)
		phase := make([]float32, to-from)
		for i := range phase {
			phase[i] = rng.Float32()
		}
		var x []float32
		s := &Sparse{}
		s.Append(7, nil, []float32{1, 2, 3})
		s.Reset()
		place := rng.Perm(n + 2)[:n]
		known := 1 + rng.IntN(dim) // features of rows, the others of w are more
		share := rng.Float64() * rng.Float64()
		for i := range n {
			row, idx, val := nonzeroRow(rng, mixes[rng.IntN(len(mixes))], known, share)
			switch {
			case rng.IntN(4) == 0:
				idx, val = nil, row
			case rng.IntN(20) == 0:
				clear(row)
				idx, val = nil, nil
			case rng.IntN(20) == 0: // the first and the last alone
				clear(row)
				row[0], row[known-1] = 2, -3
				idx, val = nil, row
			case rng.IntN(20) == 0: // no zeros
				mixes[0].fill(rng, row)
				idx, val = nil, row
			}
			s.Append(place[i], idx, val)
			x = append(append(x, row...), make([]float32, dim-known)...)
		}
		ld := to - from + rng.IntN(2)
		size := (n+1)*ld + to - from
		dense := make([]float32, n*ld+to-from)
		cosOn(generic, dense, ld, x, n, w, phase, from, to)
		want, _ := guarded(size, 3)
		for i, p := range place {
			copy(want[p*ld:][:to-from], dense[i*ld:])
		}
		for c := generic; c <= best(); c++ {
			got, intact := guarded(size, 3)
			cosSparseOn(c, got, ld, s, w, phase, from, to)
			if i, ok := same32(got, want); !ok || !intact() {
				t.Fatalf("round %d, dim %d of %d, n %d, %d to %d: %s gives %x for value %d, dense rows %x; guards intact: %v",
					round, known, dim, n, from, to, c, math.Float32bits(got[i]), i, math.Float32bits(want[i]), intact())
			}
		}
	}
}

func TestCosSparseRefuses(t *testing.T) {
	w := NewPanels(5)
	w.Append(make([]float32, 5))
	for name, index := range map[string]int32{"beyond the panels": 5, "beyond all limits": 1 << 24, "negative": -1} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("a feature %s was accepted", name)
				}
			}()
			s := &Sparse{}
			s.Append(0, []int32{index}, []float32{1})
			CosSparse(make([]float32, 1), 1, s, w, make([]float32, 1), 0, 1)
		}()
	}
}
