package algos_test

import (
	"context"
	"fmt"
	"log"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/algos/registry"
	"github.com/streamsvm/streamsvm/stream"
)

// Train a kernel SVM on a slice of examples, without any broker: the exclusive
// or of two signs, which no linear model can tell.
func Example() {
	spec, err := registry.Lookup("scs")
	if err != nil {
		log.Fatal(err)
	}
	learner, err := spec.New(algos.Env{Seed: 1}, map[string]string{"gamma": "2", "c": "10"})
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	for i := range 20 {
		for j := range 20 {
			a, b := float32(i)/10-0.95, float32(j)/10-0.95
			y := 1.0
			if (a > 0) != (b > 0) {
				y = -1
			}
			x := &stream.Example{X: stream.Vec{Val: []float32{a, b}}, Y: y, Labelled: true}
			if _, err := algos.Feed(ctx, learner, x); err != nil {
				log.Fatal(err)
			}
		}
	}
	if _, err := learner.Finish(ctx); err != nil {
		log.Fatal(err)
	}
	model := learner.Model()
	for _, x := range [][]float32{{0.5, 0.5}, {-0.5, 0.5}, {-0.5, -0.5}, {0.5, -0.5}} {
		fmt.Printf("%v %t\n", x, model.Decision(stream.Vec{Val: x}) > 0)
	}
	// Output:
	// [0.5 0.5] true
	// [-0.5 0.5] false
	// [-0.5 -0.5] true
	// [0.5 -0.5] false
}
