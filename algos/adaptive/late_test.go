package adaptive

import (
	"bytes"
	"testing"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/algos/algostest"
	"github.com/streamsvm/streamsvm/stream"
)

// A challenger that has been dropped cannot win: neither by what it has won in the
// last examples before, when no test for a cut came in between, nor by a state in
// which it has won since, as versions wrote that compared what it had predicted
// before it was dropped.
func TestDroppedChallengerCannotWin(t *testing.T) {
	const dropped = 240                       // the first tick above short.settled, halfway between two tests
	xs := make([]*stream.Example, dropped+64) // so easy that nothing else is cut
	for i := range xs {
		y := float64(i%2*2 - 1)
		xs[i] = &stream.Example{Seq: uint64(i + 1), X: stream.Vec{Val: []float32{float32(y), float32(i % 7)}}, Y: y, Labelled: true}
	}
	for name, at := range map[string]int{"just before": dropped - 1, "since": dropped + 3} {
		a, err := Short.New(algos.Env{Seed: 1}, nil)
		if err != nil {
			t.Fatal(err)
		}
		l := a.(*Learner)
		follow := func(from, to int) {
			if _, _, err := l.Follow(t.Context(), make([]float64, to-from), xs[from:to]); err != nil {
				t.Fatal(err)
			}
		}
		follow(0, at)
		if there := l.kernels[k2048] != nil; there != (at < dropped) {
			t.Fatalf("%s: after %d examples there is a longest challenger: %v", name, at, there)
		}
		for range 30 {
			l.detector.Compare([]float64{0, 0, 0, 1})
		}
		if z := l.detector.Z(k2048 - k64); z < 4 {
			t.Fatalf("%s: it wins by %g standard errors only", name, z)
		}
		stored := algostest.Bytes(t, l)
		a, _ = Short.New(algos.Env{Seed: 1}, nil)
		l = a.(*Learner)
		if err := l.UnmarshalBinary(stored); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(stored, algostest.Bytes(t, l)) {
			t.Errorf("%s: the state changes as it is restored", name)
		}
		follow(at, len(xs))
		if n, cuts := l.ChangePoints(); n > 0 || l.detector.Z(k2048-k64) != 0 {
			t.Errorf("%s: %v, z = %g", name, cuts, l.detector.Z(k2048-k64))
		}
	}
}
