package samplers_test

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/streamsvm/streamsvm/samplers"
	"github.com/streamsvm/streamsvm/stream"
)

// A loop of one's own that estimates a mean on a sample that doubles, and tests it on
// fresh draws before these join.
func Example() {
	b, err := samplers.NewGrowing(samplers.Options{Regress: true}, samplers.Growth{
		Rule: "geometric", Factor: 2, Initial: 8, Max: 5000, Recycle: true, Full: "stop", Stride: 1,
	})
	if err != nil {
		panic(err)
	}
	r := rand.New(rand.NewPCG(1, 2))
	sum := 0.0
	for seq := uint64(1); b.Len() < 64; seq++ {
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
		fmt.Printf("%2d in the sample, off by %.2f on %d fresh draws\n", b.Len(), math.Abs(off), len(d.Test))
		n, _ := b.Admit()
		for _, x := range d.Test[:n] {
			sum += x.Y
		}
	}
	// Output:
	//  8 in the sample, off by 0.00 on 0 fresh draws
	//  8 in the sample, off by 0.09 on 8 fresh draws
	// 16 in the sample, off by 0.03 on 16 fresh draws
	// 32 in the sample, off by 0.03 on 32 fresh draws
}
