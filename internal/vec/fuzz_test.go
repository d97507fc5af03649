package vec

import (
	"encoding/binary"
	"math"
	"testing"
)

// FuzzSameBits feeds arbitrary words to every kernel on every code.
func FuzzSameBits(f *testing.F) {
	seed := make([]byte, 0, 4*64)
	for i := range 64 {
		seed = binary.LittleEndian.AppendUint32(seed, math.Float32bits(specials[i%len(specials)]))
	}
	f.Add(uint8(0), float32(0.5), float32(1), uint8(3), uint8(3), uint8(5), uint16(20), uint8(1), seed)
	f.Add(uint8(2), float32(2), float32(-1), uint8(2), uint8(1), uint8(1), uint16(300), uint8(64), seed[:40])
	f.Fuzz(func(t *testing.T, kind uint8, gamma, coef0 float32, degree, dim, n uint8, rows uint16, from uint8, words []byte) {
		k := Kernel{KernelKind(kind % 4), gamma, coef0, int(degree)}
		d, nr, m := int(dim%40), int(n%20), int(rows%400)
		fr := min(int(from), m)
		// The words are used again and again, from another one each time.
		next := 0
		draw := func(dst []float32) {
			for i := range dst {
				if len(words) >= 4 {
					dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(words[next%(len(words)-3):]))
				}
				next += 5
			}
		}
		p, row := NewPanels(d), make([]float32, d)
		for range m {
			draw(row)
			p.Append(row)
		}
		x := make([]float32, nr*d)
		draw(x)
		coef := make([]float64, m)
		for i := range coef {
			coef[i] = float64(i%7) - 3.1
		}
		want, got := make([]float32, nr*(m-fr)), make([]float32, nr*(m-fr))
		cosines := make([]float32, len(want))
		score, batch := NewScore(gamma, p, coef), Rows{}
		for r := range nr {
			if score != nil {
				score.Append(&batch, nil, x[r*d:(r+1)*d])
			}
		}
		sums, sums2 := make([]float64, nr), make([]float64, nr)
		k.blockOn(generic, want, m-fr, x, nr, p, fr, m)
		k.decideOn(generic, sums, x, nr, p, coef, float64(coef0))
		for c := generic + 1; c <= best(); c++ {
			k.blockOn(c, got, m-fr, x, nr, p, fr, m)
			if i, ok := same32(got, want); !ok {
				t.Fatalf("%+v: %s gives %x for value %d, Go %x", k, c, math.Float32bits(got[i]), i, math.Float32bits(want[i]))
			}
			phase := want[:min(len(want), m-fr)] // any numbers
			if nr > 0 {
				cosOn(generic, cosines, m-fr, x, nr, p, phase, fr, m)
				cosOn(c, got, m-fr, x, nr, p, phase, fr, m)
				if i, ok := same32(got, cosines); !ok {
					t.Fatalf("cosine: %s gives %x for value %d, Go %x", c, math.Float32bits(got[i]), i, math.Float32bits(cosines[i]))
				}
			}
			if n := batch.Len(); n > 0 {
				score.decideOn(generic, sums[:n], &batch)
				score.decideOn(c, sums2[:n], &batch)
				if !same64(sums[:n], sums2[:n]) {
					t.Fatalf("score: %s gives %v, Go %v", c, sums2[:n], sums[:n])
				}
				k.decideOn(generic, sums, x, nr, p, coef, float64(coef0))
			}
			k.decideOn(c, sums2, x, nr, p, coef, float64(coef0))
			if !same64(sums, sums2) {
				t.Fatalf("%+v: %s decides %v, Go %v", k, c, sums2, sums)
			}
		}
	})
}
