package ownlearner_test

import (
	"context"
	"fmt"
	"log"
	"testing"

	"example.com/ownlearner"
	"github.com/streamsvm/streamsvm/algos/algostest"
	"github.com/streamsvm/streamsvm/algos/registry"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/trainer"
)

func TestConformance(t *testing.T) { algostest.Run(t, ownlearner.Spec) }

// Once it is registered, the trainer runs the learner under its name.
func Example() {
	if err := registry.Register(ownlearner.Spec); err != nil {
		log.Fatal(err)
	}
	examples := make([]stream.Example, 1000)
	for i := range examples { // which side of the diagonal?
		a, b := float32(i%17), float32(i%23)
		examples[i] = stream.Example{X: stream.Vec{Val: []float32{a, b}}, Y: 1, Labelled: true}
		if a < b {
			examples[i].Y = -1
		}
	}
	fit, err := trainer.Fit(context.Background(), examples, trainer.Options{Learner: "pa"})
	if err != nil {
		log.Fatal(err)
	}
	model, err := fit.Predictor()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(model.Learner(), model.Predict(stream.Vec{Val: []float32{15, 4}}), model.Predict(stream.Vec{Val: []float32{4, 15}}))
	// Output: pa 1 -1
}
