// Package algos is the contract between the training loop and the learners,
// and nothing else. Each learner has a folder below this one; package registry
// lists them; package algostest is the suite that each of them must pass.
//
// docs/architecture.md shows how five rather different families of algorithm
// fit this contract.
//
// The API is stable.
package algos

import (
	"context"
	"encoding"
	"log/slog"
	"math"

	"github.com/streamsvm/streamsvm/compare"
	"github.com/streamsvm/streamsvm/samplers"
	"github.com/streamsvm/streamsvm/stream"
)

// Fate and Need are the words of the buffer that most learners embed: see
// package samplers.
type (
	Fate = samplers.Fate
	Need = samplers.Need
)

// What becomes of an example.
const (
	Learned    = samplers.Learned
	SampledOut = samplers.SampledOut
)

// Report describes a learner after a step. Numbers that the learner has not
// computed are NaN.
type Report struct {
	// Step is the number of iterations done since the start, in the paper's
	// counting.
	Step uint64
	// Objective is the regularised risk on the sample, in the units of the
	// learner's documented objective.
	Objective float64
	// GradNorm is the norm of the (sub)gradient or direction, StepSize the
	// length of the last step.
	GradNorm, StepSize float64
	// Certificate bounds Objective minus its minimum from above: a duality gap
	// or its equivalent.
	Certificate float64
	// Sample is the number of examples held.
	Sample int
	// KernelEvals counts kernel values computed since the start, or −1 for
	// learners without a kernel.
	KernelEvals int64
	// Gauges are further numbers, in a fixed order, named in snake case.
	Gauges []stream.Measure
}

// NewReport returns a Report in which nothing has been computed.
func NewReport() Report {
	nan := math.NaN()
	return Report{Objective: nan, GradNorm: nan, StepSize: nan, Certificate: nan, KernelEvals: -1}
}

// A Learner learns from a stream by reverse communication: it says how many
// examples it wants, the loop adds them and calls Step, so that one loop owns
// ingest, evaluation, publishing and checkpoints for all learners. A learner
// that embeds a buffer of package samplers, which decides what it keeps, has its
// Add and Need.
//
// A Learner's state is a function of its options, its seed and the sequence of
// Add, Step and Finish calls; it does not depend on time, on GOMAXPROCS or on
// how often it was stored and restored in between. It is used by one goroutine
// at a time.
type Learner interface {
	// Add hands over one example. The learner takes ownership of its memory
	// and does not modify it. Add never changes the model. An error refuses
	// this example and leaves the state as it was. What is within Limited's
	// limits is never refused.
	Add(x *stream.Example) (Fate, error)
	// Need says when the next Step is due.
	Need() Need
	// Step does one unit of work. It is called only when Need().Fresh is 0.
	// After ctx ends, Step either completes or returns ctx.Err() with the
	// state as it was before. Any other error is final.
	Step(ctx context.Context) (Report, error)
	// Finish does what is left when a bounded stream has ended: it takes
	// pending examples in and completes the optimisation. Learning may go on
	// afterwards. For a learner without pending work it does nothing.
	Finish(ctx context.Context) (Report, error)
	// Report describes the present state. It changes nothing.
	Report() Report
	// Model returns a view of the present model, valid until the next Step or
	// Finish. Before the first Step its decisions are 0.
	Model() Model
	// AppendBinary and UnmarshalBinary store and restore the complete state:
	// model, samples, optimiser, generators, counters. UnmarshalBinary is
	// called on a learner made with the same options.
	encoding.BinaryAppender
	encoding.BinaryUnmarshaler
}

// A Sequential learner changes with every example. It can take many at a time,
// and says what it would have predicted for each just before it learned from it.
type Sequential interface {
	Learner
	// Follow does for each of xs in turn what Model().Decision, whose result goes
	// to dst if the example is labelled, Add and the Steps then due would do. It
	// returns how many it has learned from, and the number of steps. With K > 2
	// classes there are K numbers an example in dst, as Scorer.Scores gives them.
	Follow(ctx context.Context, dst []float64, xs []*stream.Example) (learned, steps int, err error)
}

// A Passing learner is a Sequential one that keeps nothing of the examples that it
// follows: their memory is used again.
type Passing interface {
	Sequential
	// Passes does nothing; it says so.
	Passes()
}

// A ScoreForeteller is for more than two classes what a Foreteller is for two.
type ScoreForeteller interface {
	Learner
	// ForetellScores sets dst to the scores of the classes, as Foretell returns
	// the decision.
	ForetellScores(dst []float64, x *stream.Example)
}

// A ClassAdder is a learner of more than two classes that takes further ones. All
// such learners are, for streams in which classes are found.
type ClassAdder interface {
	Learner
	// AddClass makes room for one more class, whose number is that of the classes
	// before. It changes the model: the score of the new class is -1 or so until
	// there are examples of it. An error is final.
	AddClass(ctx context.Context) error
}

// A CrossValidator is a learner of two classes that tells more cheaply what its
// models predict than by learning anew with each fold and each weight of the losses.
type CrossValidator interface {
	// HeldOut returns, for each value of the option c in cs, which ascend, the
	// decisions at the examples xs, all labelled, of models that have learned from
	// those of other folds: entry k·len(xs)+i is that at xs[i] with cs[k]. Folds
	// are 0, 1, … The learner itself does not change.
	HeldOut(xs []*stream.Example, fold []int, cs []float64) []float64
}

// A Foreteller judges itself, or its parts, by what it predicts. Where labels
// come late that must be what it predicted when the example came.
type Foreteller interface {
	Learner
	// Foretell returns the decision of the present model for an example that will
	// be handed over later, with the same Seq: to be learned from if its label
	// has come by then, or without one. The learner keeps what it has predicted
	// until then, but not x: the features may be scaled in another way by then.
	// Examples are foretold in the order in which they are handed over, and not
	// all of them need be. The model does not change.
	Foretell(x *stream.Example) float64
}

// A DriftReporter is a learner that detects drift, and cuts its sample at change points.
type DriftReporter interface {
	// ChangePoints returns their number, and the latest ones in order.
	ChangePoints() (total uint64, latest []compare.ChangePoint)
}

// Kind is the form of a model.
type Kind string

const (
	Kernel   Kind = "kernel"   // kernel expansion over support vectors
	Features Kind = "features" // linear in seeded random features
	Linear   Kind = "linear"   // linear in the inputs
	Mixture  Kind = "mixture"  // votes of several models, each with a scaling of its own
)

// Info describes a model.
type Info struct {
	Kind Kind
	// Dim is the number of input features the model has seen.
	Dim int
	// Support is the number of support vectors, or −1.
	Support int
	// Nonzero is the number of coefficients that are not 0.
	Nonzero int
	// Text says in a line what the model is, e.g. the kernel and its width.
	Text string
}

// A Model is a decision function f. The predicted class is +1 where f(x) ≥ 0
// and −1 elsewhere; the predicted value of a regression is f(x). All methods
// are const and safe for concurrent use.
type Model interface {
	// Decision returns f(x).
	Decision(x stream.Vec) float64
	// Decisions sets dst[i] = f(xs[i]), bit for bit what Decision returns.
	Decisions(dst []float64, xs []stream.Vec)
	Info() Info
	// AppendBinary appends all that a predictor needs.
	encoding.BinaryAppender
}

// A Scorer is a Model of more than two classes. The predicted class is that with
// the largest score, the first of several. Decision returns its number.
type Scorer interface {
	Model
	// Classes returns the number K of classes.
	Classes() int
	// Scores sets dst[i*K+k] to the score of class k for xs[i].
	Scores(dst []float64, xs []stream.Vec)
}

// Decide sets dst[i] to the number of the class that m predicts for xs[i]: the
// Decisions of a Scorer.
func Decide(m Scorer, dst []float64, xs []stream.Vec) {
	n := m.Classes()
	scores := make([]float64, n*len(xs))
	m.Scores(scores, xs)
	for i := range xs {
		dst[i] = float64(Largest(scores[i*n : (i+1)*n]))
	}
}

// Largest returns the index of the largest score, the first of several; 0 if
// there is none.
func Largest(scores []float64) int {
	best := 0
	for k, s := range scores {
		if s > scores[best] {
			best = k
		}
	}
	return best
}

// Task is what a learner predicts.
type Task string

const (
	Classify Task = "classify" // labels +1 and −1, or numbers of classes
	Regress  Task = "regress"  // any finite number
)

// Env is what a learner is told about its surroundings.
type Env struct {
	// Seed determines all of the learner's randomness.
	Seed uint64
	Task Task
	// Classes is the number of classes, 2 or more, of a classifier; 0 stands
	// for 2. Labels are +1 and −1 for two, 0, 1, … Classes−1 for more.
	Classes int
	// Scaled says of features, by index, that their scale means something, so
	// that a learner that scales by itself leaves them alone.
	Scaled []bool
	Log    *slog.Logger // never nil
}
