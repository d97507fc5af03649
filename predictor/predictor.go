// Package predictor holds what leaves a trainer and arrives at its users: a
// model together with the preprocessing that belongs to it, as one value that
// can be encoded, decoded and asked for predictions, and a handle that follows
// a model topic and always answers with the newest version.
//
// The API is stable.
package predictor

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"runtime"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/internal/atomicfile"
	"github.com/streamsvm/streamsvm/internal/par"
	"github.com/streamsvm/streamsvm/internal/pipeline"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/codec"
)

// Predictor is a model with its preprocessing. It takes examples as they are
// on the wire. It is immutable and safe for concurrent use.
type Predictor struct{ pipe pipeline.Pipeline }

// Learner returns the registered name of the learner that made the model.
func (p *Predictor) Learner() string { return p.pipe.Learner }

// Task returns what the model predicts.
func (p *Predictor) Task() algos.Task { return p.pipe.Task }

// Signature says what data the model was made for. The zero signature, of a
// model of before there were signatures, is of data that is not known.
func (p *Predictor) Signature() codec.Signature { return p.pipe.Signature }

// Check returns a *stream.FieldError for a dense vector of another length than
// those that the model was made for. A sparse one may list features that the
// model has not seen, as LIBSVM's may. Decision and its like do not check.
func (p *Predictor) Check(x stream.Vec) error { return p.pipe.Signature.Check(x) }

// Options returns the learner's options, tuned ones included.
func (p *Predictor) Options() map[string]string { return maps.Clone(p.pipe.Options) }

// Preprocessing describes the preprocessing in a line.
func (p *Predictor) Preprocessing() string { return p.pipe.Preprocessing() }

// HashDim returns the number of features into which all are hashed, or 0.
func (p *Predictor) HashDim() int { return p.pipe.Transform.HashDim() }

// Info describes the model.
func (p *Predictor) Info() algos.Info { return p.pipe.Info() }

// Model returns the model, which takes vectors that have been preprocessed.
func (p *Predictor) Model() algos.Model { return p.pipe.Model }

// Classes returns the number K of classes, 2 or more; 0 for a regression.
func (p *Predictor) Classes() int { return p.pipe.Classes() }

// Decision returns f(x): for a classifier its sign is the predicted class, for
// a regression it is the prediction, and with more than two classes the number of
// the class predicted.
func (p *Predictor) Decision(x stream.Vec) float64 {
	return p.pipe.Model.Decision(p.pipe.Transform.Apply(x))
}

// Compile returns the same predictor in a form that decides several times
// faster, where its model has one: kernel expansions do, and their decisions
// then differ from p's by rounding, about 1e-7 of the sum of the coefficients'
// absolute values. Decision and Decisions of the result agree in every bit.
func (p *Predictor) Compile() *Predictor {
	m, ok := p.pipe.Model.(interface{ Compile() algos.Model })
	if !ok {
		return p
	}
	q := *p
	q.pipe.Model = m.Compile()
	return &q
}

// ErrCompact is returned for a model that has no smaller form within the change allowed.
var ErrCompact = errors.New("no smaller form of this model is known within the change allowed")

// Compact returns a predictor whose encoding takes fewer bytes. Its decisions differ
// from p's by no more than change for any vector at all, most at most, but for the
// rounding with which decisions of kernel expansions are computed in any case. It is
// for models of two classes, and regressions, that are kernel expansions with the kernel
// rbf over features of more than a few values, or that an earlier version has written;
// any other one is ErrCompact.
// The time it takes grows with the cube of the number of support vectors.
func (p *Predictor) Compact(most float64) (compact *Predictor, change float64, err error) {
	m, ok := p.pipe.Model.(interface {
		Round(most float64) (algos.Model, float64, bool)
	})
	if !ok {
		return nil, 0, ErrCompact
	}
	q := *p
	if q.pipe.Model, change, ok = m.Round(most); !ok {
		return nil, 0, ErrCompact
	}
	return &q, change, nil
}

// share is the least number of vectors for which another goroutine pays.
const share = 64

// Decisions sets dst[i] to Decision(xs[i]), bit for bit, in less time. It
// spreads many vectors over the processors.
func (p *Predictor) Decisions(dst []float64, xs []stream.Vec) {
	spread(len(xs), func(from, to int) { p.pipe.Decisions(dst[from:to], xs[from:to]) })
}

// Scores sets dst[i*K+k] to the score of class k for xs[i], where K is Classes():
// the class predicted is that with the largest score, the first of several. Of
// two classes the scores are minus the decision, of label -1, and the decision, of
// label +1. It must not be called for a regression. It spreads many vectors over
// the processors.
func (p *Predictor) Scores(dst []float64, xs []stream.Vec) {
	k := p.Classes()
	spread(len(xs), func(from, to int) { p.pipe.Scores(dst[k*from:k*to], xs[from:to]) })
}

// spread calls f for parts of n vectors.
func spread(n int, f func(from, to int)) {
	parts := min(runtime.GOMAXPROCS(0), n/share)
	if parts < 2 {
		f(0, n)
		return
	}
	par.Each(parts, func(i int) { f(i*n/parts, (i+1)*n/parts) })
}

// Predict returns the predicted label for x: +1 or -1, with more than two classes
// the number of one, or the value of a regression. Label of Signature says what
// the data calls it.
func (p *Predictor) Predict(x stream.Vec) float64 { return p.Label(p.Decision(x)) }

// Label turns a decision into a prediction.
func (p *Predictor) Label(decision float64) float64 {
	switch {
	case p.Classes() != 2:
		return decision
	case decision >= 0:
		return 1
	default:
		return -1
	}
}

// Probability returns the probability that the label is positive, given the
// decision, from 0 to 1, and whether it is known: not for a regression, nor
// before the trainer has compared 200 predictions with their labels, nor for
// models of before there were probabilities; it then is NaN. Of two decisions the
// larger one has no smaller probability, but for rounding. That of the decision 0 need not be ½,
// so that Label may be the less probable one where it is a close thing.
func (p *Predictor) Probability(decision float64) (probability float64, known bool) {
	if p.pipe.Probability == nil {
		return math.NaN(), false
	}
	return p.pipe.Probability.Probability(decision), true
}

// Probabilities sets dst, which may be scores, to the probabilities of more than
// two classes, given their scores, and reports whether they are known: see
// Probability. The class with the largest score has the largest one. Where they
// are not known dst is left alone.
func (p *Predictor) Probabilities(dst, scores []float64) (known bool) {
	if p.pipe.Softmax == nil {
		return false
	}
	p.pipe.Softmax.Probabilities(dst, scores)
	return true
}

// ErrFormat is returned for bytes that no known version of this package wrote.
var ErrFormat = pipeline.ErrFormat

// AppendBinary appends the encoded predictor, which Decode reads.
func (p *Predictor) AppendBinary(dst []byte) ([]byte, error) { return p.pipe.AppendBinary(dst) }

// Decode reads an encoded predictor, such as the payload of a full
// [stream.Update]. It copes with any input. The learner that made it must be
// registered, see package registry.
func Decode(data []byte) (*Predictor, error) {
	pipe, err := pipeline.Decode(data)
	if err != nil {
		return nil, err
	}
	return &Predictor{*pipe}, nil
}

// Save writes the encoded predictor to the file at path. A file that is there
// is replaced in one step.
func (p *Predictor) Save(path string) error {
	data, err := p.AppendBinary(nil)
	if err != nil {
		return err
	}
	return atomicfile.Write(path, data)
}

// Load reads a predictor that Save has written.
func Load(path string) (*Predictor, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	p, err := Decode(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return p, nil
}
