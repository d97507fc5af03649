package samplers_test

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/streamsvm/streamsvm/samplers"
	"github.com/streamsvm/streamsvm/stream"
)

// A loop of one's own that estimates a mean on a sample that grows: as the
// radius within which it has to be known shrinks, Theorem 3.3 asks for more draws.
func Example() {
	b, err := samplers.NewGrowing(samplers.Options{Regress: true}, samplers.Growth{
		Rule: "theorem", Kappa: 4, PFail: 0.1, Initial: 8, Max: 5000, Full: "stop", Stride: 1,
	})
	if err != nil {
		panic(err)
	}
	r := rand.New(rand.NewPCG(1, 2))
	sum, radius := 0.0, 1.0
	for seq := uint64(1); radius > 0.2; seq++ {
		if _, err := b.Add(&stream.Example{Seq: seq, Labelled: true, Y: r.Float64()}); err != nil {
			panic(err)
		}
		if b.Need().Fresh > 0 {
			continue
		}
		d := b.Take() // s_k and T_k
		for _, x := range d.Join {
			sum += x.Y
		}
		mean, off := sum/float64(b.Len()), 0.0
		for _, x := range d.Test {
			off += (x.Y - mean) / float64(len(d.Test))
		}
		fmt.Printf("radius %.2f: %3d in the sample, off by %.2f on %d fresh draws\n", radius, b.Len(), math.Abs(off), len(d.Test))
		radius /= 1.5
		b.Plan(radius, 0) // fixes the size of S_{k+1}
	}
	// Output:
	// radius 1.00:   8 in the sample, off by 0.00 on 0 fresh draws
	// radius 0.67:   8 in the sample, off by 0.09 on 8 fresh draws
	// radius 0.44:  39 in the sample, off by 0.15 on 8 fresh draws
	// radius 0.30: 195 in the sample, off by 0.15 on 39 fresh draws
}
