// Package algos defines the interface between a training loop and an online
// learner: Learner, Model, Report, options, and the registration of learners. Each
// learner has a folder below this one. Package registry lists them, and package
// algostest is the conformance suite that they must pass.
//
// docs/architecture.md shows how five rather different families of algorithms fit
// this interface.
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

// Fate and Need belong to the buffer that most learners embed: see package samplers.
type (
	Fate = samplers.Fate
	Need = samplers.Need
)

// The fates of an example.
const (
	Learned    = samplers.Learned
	SampledOut = samplers.SampledOut
)

// Report describes a learner after a step. Numbers that the learner has not
// computed are NaN.
type Report struct {
	// Step is the number of iterations since the start, counted as in the paper.
	Step uint64
	// Objective is the regularised risk on the sample, in the units of the
	// learner's documented objective.
	Objective float64
	// GradNorm is the norm of the (sub)gradient or direction, StepSize the
	// length of the last step.
	GradNorm, StepSize float64
	// Certificate is an upper bound on Objective minus its minimum: a duality gap
	// or its equivalent.
	Certificate float64
	// Sample is the number of stored examples.
	Sample int
	// KernelEvals is the number of kernel values computed since the start, −1 for
	// learners without a kernel.
	KernelEvals int64
	// Gauges are further measurements, in a fixed order, named in snake case.
	Gauges []stream.Measure
}

// NewReport returns a Report in which nothing has been computed.
func NewReport() Report {
	nan := math.NaN()
	return Report{Objective: nan, GradNorm: nan, StepSize: nan, Certificate: nan, KernelEvals: -1}
}

// A Learner learns from a stream by reverse communication: it says how many
// examples it needs, and the loop adds them and calls Step. So one loop does
// ingest, evaluation, publishing and checkpoints for all learners. Many learners
// embed a buffer of package samplers, which decides which examples to keep and
// implements Add and Need.
//
// A Learner's state is a function of its options, its seed and the sequence of Add,
// Step and Finish calls. It does not depend on time, on GOMAXPROCS, or on how often
// it was stored and restored. It is used by one goroutine at a time.
type Learner interface {
	// Add hands over one example. The learner owns its memory from then on, and
	// does not modify it. Add never changes the model. If it returns an error, the
	// example is refused and the state unchanged. Examples within the limits of
	// Limited are never refused.
	Add(x *stream.Example) (Fate, error)
	// Need says when the next Step is due.
	Need() Need
	// Step does one unit of work. It is called only when Need().Fresh is 0.
	// After ctx ends, Step either completes or returns ctx.Err() and leaves the
	// state unchanged. Any other error is final.
	Step(ctx context.Context) (Report, error)
	// Finish completes the work at the end of a bounded stream: it learns from
	// pending examples and finishes the optimisation. Learning may continue
	// afterwards. A learner without pending work does nothing.
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

// A Sequential learner changes with every example. It accepts many at a time, and
// returns for each its prediction from just before learning from it.
type Sequential interface {
	Learner
	// Follow is equivalent to calling, for each of xs in turn, Model().Decision, whose
	// result, up to rounding, goes to dst if the example is labelled, then Add and every
	// Step that is due. It returns the number of examples learned from and the number of steps. With
	// K > 2 classes dst has K numbers per example, as from Scorer.Scores.
	Follow(ctx context.Context, dst []float64, xs []*stream.Example) (learned, steps int, err error)
}

// A Passing learner is a Sequential one that does not keep the examples passed to
// Follow, so that their memory can be reused.
type Passing interface {
	Sequential
	// Passes does nothing; it marks the type.
	Passes()
}

// A PendingScorer is a PendingPredictor for more than two classes.
type PendingScorer interface {
	Learner
	// ScorePending is like PredictPending, but sets dst to the scores of the classes
	// instead of returning a decision.
	ScorePending(dst []float64, x *stream.Example)
}

// A ClassAdder is a learner of more than two classes that accepts new classes. All
// multi-class learners do, for streams whose classes are not known in advance.
type ClassAdder interface {
	Learner
	// AddClass adds a class, with the next number. It changes the model: the score
	// of the new class is about -1 until there are examples of it. An error is
	// final.
	AddClass(ctx context.Context) error
}

// An Expecter is a two-class learner that finishes a step in the background.
type Expecter interface {
	Learner
	// Expect is called before Model, with the points that the model will score. The
	// learner prepares for them while the step finishes. It changes no result.
	Expect(xs []stream.Vec)
}

// A CrossValidator is a two-class learner that can cross-validate several weights
// of the losses at a lower cost than training anew for each fold and weight.
type CrossValidator interface {
	// HeldOut cross-validates: for each value of the option c in cs, ascending, it
	// returns the decisions at xs, all labelled, of models trained on the other
	// folds. Entry k·len(xs)+i is the decision at xs[i] with cs[k]. fold has the
	// fold of each example, from 0. The learner itself does not change.
	HeldOut(xs []*stream.Example, fold []int, cs []float64) []float64
}

// A PendingPredictor adapts to its own prediction errors. With delayed labels it must use
// the predictions that it made when the examples arrived, so it has to remember them.
type PendingPredictor interface {
	Learner
	// PredictPending returns the present model's decision for an example that will be
	// added later with the same Seq, and with its label if it has arrived by then. The
	// learner keeps the prediction until then, but not x, since the features may be
	// scaled differently later on. PredictPending is called in the order in which the
	// examples will be added, possibly not for all of them. The model does not change.
	PredictPending(x *stream.Example) float64
}

// A Publisher publishes a model other than its present one. Subscribers use a version
// until there is a newer one, and the model that predicts best now need not predict best
// over all this time.
type Publisher interface {
	Learner
	// Published returns a view of the model to publish, valid until the next Step or
	// Finish.
	Published() Model
	// Calibrated reports whether decisions of both models, minus shift, are log odds:
	// log of P(+1)/P(−1). With more than two classes it reports whether the softmax of
	// the scores gives the probabilities.
	Calibrated() (shift float64, ok bool)
	// Early returns how many versions so far were due before Env.PublishEvery examples,
	// because the stream had changed since the version before.
	Early() uint64
}

// EarlyAfter returns the number of examples after which a version can be due early, if one is
// due after each every examples anyway; further ones follow at multiples of it.
func EarlyAfter(every uint64) uint64 { return min(max(every/10, 16), 64) }

// A DriftReporter is a learner that detects drift and cuts its sample at change points.
type DriftReporter interface {
	// ChangePoints returns the number of change points, and the latest ones, in order.
	ChangePoints() (total uint64, latest []compare.ChangePoint)
}

// Kind is the form of a model.
type Kind string

const (
	Kernel   Kind = "kernel"   // kernel expansion over support vectors
	Features Kind = "features" // linear in random features drawn by a seed
	Linear   Kind = "linear"   // linear in the inputs
	Mixture  Kind = "mixture"  // weighted mixture of several models, each with its own scaling
)

// Info describes a model.
type Info struct {
	Kind Kind
	// Dim is the number of input features the model has seen.
	Dim int
	// Support is the number of support vectors, or −1.
	Support int
	// Nonzero is the number of nonzero coefficients.
	Nonzero int
	// Text describes the model in one line, e.g. the kernel and its width.
	Text string
}

// A Model is a decision function f. The predicted class is +1 if f(x) ≥ 0,
// otherwise −1; the predicted value of a regression is f(x). Models are immutable
// and safe for concurrent use.
type Model interface {
	// Decision returns f(x).
	Decision(x stream.Vec) float64
	// Decisions sets dst[i] = f(xs[i]), with the same bits as Decision.
	Decisions(dst []float64, xs []stream.Vec)
	Info() Info
	// AppendBinary appends everything that a predictor needs.
	encoding.BinaryAppender
}

// Compiled returns m in a form that predicts faster, if it has one.
func Compiled(m Model) Model {
	if x, ok := m.(interface{ Compile() Model }); ok {
		return x.Compile()
	}
	return m
}

// Packed returns m in the form for publishing, which takes fewer bytes, if it has one.
func Packed(m Model) Model {
	if x, ok := m.(interface{ Pack() Model }); ok {
		return x.Pack()
	}
	return m
}

// A Scorer is a Model of more than two classes. The predicted class has the largest
// score; the first one wins ties. Decision returns its number.
type Scorer interface {
	Model
	// Classes returns the number K of classes.
	Classes() int
	// Scores sets dst[i*K+k] to the score of class k for xs[i].
	Scores(dst []float64, xs []stream.Vec)
}

// Decide sets dst[i] to the number of the class that m predicts for xs[i]. It
// implements Decisions for a Scorer.
func Decide(m Scorer, dst []float64, xs []stream.Vec) {
	n := m.Classes()
	scores := make([]float64, n*len(xs))
	m.Scores(scores, xs)
	for i := range xs {
		dst[i] = float64(Largest(scores[i*n : (i+1)*n]))
	}
}

// Largest returns the index of the largest score, the first one if there are ties. It
// returns 0 if there are no scores.
func Largest(scores []float64) int {
	best := 0
	for k, s := range scores {
		if s > scores[best] {
			best = k
		}
	}
	return best
}

// Task says what a learner predicts.
type Task string

const (
	Classify Task = "classify" // labels +1 and −1, or class numbers
	Regress  Task = "regress"  // any finite number
)

// MaxClasses is the largest number of classes. It bounds what a corrupt state can make a
// learner allocate.
const MaxClasses = 1 << 12

// Env is the environment of a learner.
type Env struct {
	// Seed determines all of the learner's randomness.
	Seed uint64
	Task Task
	// Classes is the number of classes of a classifier, 2 to MaxClasses; 0 stands for 2.
	// Labels are +1 and −1 for two classes, 0, 1, … Classes−1 for more.
	Classes int
	// Against is the number of classes if the learner is one of several one-vs-rest
	// classifiers, otherwise 0.
	Against int
	// Scaled says by feature index whether the scale of a feature is meaningful, so
	// that a learner with its own scaling leaves it alone.
	Scaled []bool
	// PublishEvery is the number of labelled examples between published versions, or 0
	// if it is not known.
	PublishEvery int
	Log          *slog.Logger // never nil
}
