package main

import (
	"fmt"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/internal/eval"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/codec"
)

// classNumbers numbers the classes of examples that come from a decoder: those
// of a signature first, others as they come. For two classes it does nothing.
type classNumbers map[string]float64

func numbersOf(sig codec.Signature) classNumbers {
	n := classNumbers{}
	for k := range sig.Classes() {
		if name, text := sig.Label(float64(k)).(string); text {
			n[name] = float64(k)
		} else {
			n[fmt.Sprint(sig.Label(float64(k)))] = float64(k)
		}
	}
	return n
}

// of returns the label of ex.
func (n classNumbers) of(ex *stream.Example) float64 {
	if ex.Class == "" {
		return ex.Y
	}
	if _, known := n[ex.Class]; !known {
		n[ex.Class] = float64(len(n))
	}
	return n[ex.Class]
}

// newQuality returns measures for the predictions of a model.
func newQuality(task algos.Task, classes, window int) *eval.Prequential {
	if classes > 2 {
		return eval.NewClasses(window)
	}
	return eval.New(task == algos.Regress, window)
}

// classRows is how many classes are printed one by one.
const classRows = 20
