// Package intake is the part that kernel learners on a buffer have in common
// between Add and the next step.
package intake

import (
	"errors"
	"fmt"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/columns"
	"github.com/streamsvm/streamsvm/internal/kernel"
	"github.com/streamsvm/streamsvm/stream"
)

// Queue holds examples that have been added and not been learned from.
type Queue struct {
	// Ready says that the kernel is known. Before that, kernel.Warmup examples are
	// wanted.
	Ready   bool
	Pending []*stream.Example
}

var (
	// ErrLabel is the error of labels other than +1 and −1.
	ErrLabel   = errors.New("label is neither +1 nor -1")
	errFeature = errors.New("a feature is not finite, or is too large for single precision kernels")
)

// Add keeps a labelled example until the next step; unlabelled ones go by.
func (q *Queue) Add(x *stream.Example) (algos.Fate, error) {
	if !x.Labelled {
		return algos.SampledOut, nil
	}
	if x.Y != 1 && x.Y != -1 {
		return 0, &stream.FieldError{Stage: stream.StageLabel, Field: "y", Err: fmt.Errorf("%w: %g", ErrLabel, x.Y)}
	}
	if !kernel.Finite(x.X) {
		return 0, &stream.FieldError{Stage: stream.StageFeature, Field: "x", Err: errFeature}
	}
	q.Pending = append(q.Pending, x)
	return algos.Learned, nil
}

// NeedEvery is the Need of a learner that does a step every so many examples.
func (q *Queue) NeedEvery(every int) algos.Need {
	if !q.Ready {
		every = max(every, kernel.Warmup)
	}
	return algos.Need{Fresh: max(0, every-len(q.Pending)), Steps: 1}
}

// Vecs returns the features of the pending examples.
func (q *Queue) Vecs() []stream.Vec {
	xs := make([]stream.Vec, len(q.Pending))
	for i, x := range q.Pending {
		xs[i] = x.X
	}
	return xs
}

// Fields describes the state.
func (q *Queue) Fields(f *state.Fields) {
	f.Bool("ready", &q.Ready)
	columns.Examples(f, "pending", &q.Pending)
	if !f.Decoding() || f.Err() != nil {
		return
	}
	for _, x := range q.Pending {
		if !x.Labelled || x.Y != 1 && x.Y != -1 || !kernel.Finite(x.X) {
			f.Fail("pending", fmt.Errorf("example %d cannot have been accepted", x.Seq))
			return
		}
	}
}
