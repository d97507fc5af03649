// Package predictor loads trained models and predicts with them: it decodes a model
// together with its preprocessing, follows a model topic so that predictions always
// use the newest version, and scores raw records (bytes in, label, probability and
// score out).
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
	"slices"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/internal/atomicfile"
	"github.com/streamsvm/streamsvm/internal/par"
	"github.com/streamsvm/streamsvm/internal/pipeline"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/codec"
)

// Predictor is a model with its preprocessing. It takes examples as decoded from
// the wire, not preprocessed. It is immutable and safe for concurrent use.
type Predictor struct{ pipe pipeline.Pipeline }

// Learner returns the registered name of the learner that made the model.
func (p *Predictor) Learner() string { return p.pipe.Learner }

// Task returns what the model predicts.
func (p *Predictor) Task() algos.Task { return p.pipe.Task }

// Signature describes the data that the model was made for. It is zero if a version
// without signatures wrote the model.
func (p *Predictor) Signature() codec.Signature { return p.pipe.Signature }

// Check returns a *stream.FieldError if x is dense and its length differs from that
// of the training data. A sparse vector may list features that the model has not
// seen, as in LIBSVM. Decision and the other methods do not check.
func (p *Predictor) Check(x stream.Vec) error { return p.pipe.Signature.Check(x) }

// Options returns the learner's options, including tuned ones.
func (p *Predictor) Options() map[string]string { return maps.Clone(p.pipe.Options) }

// Preprocessing describes the preprocessing in one line.
func (p *Predictor) Preprocessing() string { return p.pipe.Preprocessing() }

// HashDim returns the number of features that all features are hashed into, or 0.
func (p *Predictor) HashDim() int { return p.pipe.Transform.HashDim() }

// Info describes the model.
func (p *Predictor) Info() algos.Info { return p.pipe.Info() }

// Model returns the model, which expects preprocessed vectors.
func (p *Predictor) Model() algos.Model { return p.pipe.Model }

// Classes returns the number K of classes, 2 or more; 0 for regression.
func (p *Predictor) Classes() int { return p.pipe.Classes() }

// Decision returns f(x). For two classes its sign is the predicted class, for more
// than two it is the number of the predicted class, and for regression it is the
// prediction.
func (p *Predictor) Decision(x stream.Vec) float64 {
	return p.pipe.Model.Decision(p.pipe.Transform.Apply(x))
}

// Compile returns the same predictor in a form that decides several times faster,
// if its model has one. Kernel expansions do; their decisions then differ from p's
// by rounding, about 1e-7 of the sum of the coefficients' absolute values. Decision
// and Decisions of the result agree in every bit.
func (p *Predictor) Compile() *Predictor {
	q := *p
	q.pipe.Model = algos.Compiled(p.pipe.Model)
	return &q
}

// ErrCompact is returned if no smaller form of a model is known within the change
// allowed.
var ErrCompact = errors.New("no smaller form of this model is known within the change allowed")

// Compact returns a predictor whose encoding takes fewer bytes. For every vector, its
// decisions differ from p's by at most change, and change is at most most, apart from
// the rounding errors that decisions of kernel expansions have anyway. It works for
// models of two classes and regressions that are expansions with kernel rbf over
// features of more than a few values, or that an earlier version has written; for any
// other model it returns ErrCompact. The time it takes grows with the cube of the
// number of support vectors.
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

// share is the smallest number of vectors for which another goroutine pays off.
const share = 64

// Decisions sets dst[i] to Decision(xs[i]), bit for bit, in less time. It spreads
// many vectors over the processors.
func (p *Predictor) Decisions(dst []float64, xs []stream.Vec) {
	spread(len(xs), func(from, to int) { p.pipe.Decisions(dst[from:to], xs[from:to]) })
}

// Scores sets dst[i*K+k] to the score of class k for xs[i], K being Classes(). The
// predicted class is the one with the largest score, the first of several. For two
// classes the scores are −decision (label −1) and decision (label +1). It must not
// be called for a regression. It spreads many vectors over the processors.
func (p *Predictor) Scores(dst []float64, xs []stream.Vec) {
	k := p.Classes()
	spread(len(xs), func(from, to int) { p.pipe.Scores(dst[k*from:k*to], xs[from:to]) })
}

// spread calls f for subranges of n vectors, concurrently.
func spread(n int, f func(from, to int)) {
	parts := min(runtime.GOMAXPROCS(0), n/share)
	if parts < 2 {
		f(0, n)
		return
	}
	par.Each(parts, func(i int) { f(i*n/parts, (i+1)*n/parts) })
}

// Predict returns the predicted label for x: +1 or −1, a class number if there are
// more than two, or the value of a regression. Signature().Label returns the label
// as the data has it.
func (p *Predictor) Predict(x stream.Vec) float64 {
	if k := p.Classes(); k > 2 && p.pipe.Costs != nil {
		scores := make([]float64, k)
		p.Scores(scores, []stream.Vec{x})
		return float64(p.pipe.Best(scores))
	}
	return p.Label(p.Decision(x))
}

// Costs returns the cost of predicting another class, by true class, with the negative one
// of two first; nil unless the trainer was given costs. Predicted labels then have the
// least expected cost, as soon as probabilities are known.
func (p *Predictor) Costs() []float64 { return slices.Clone(p.pipe.Costs) }

// Label turns a decision into a prediction.
func (p *Predictor) Label(decision float64) float64 {
	switch {
	case p.Classes() != 2:
		return decision
	case p.pipe.Costs != nil && p.pipe.Probability != nil:
		if p.pipe.Costs.Positive(p.pipe.Probability.Probability(decision)) {
			return 1
		}
		return -1
	case decision >= 0:
		return 1
	default:
		return -1
	}
}

// Probability returns the probability, from 0 to 1, that the label is positive,
// given the decision. It is unknown, and NaN, for a regression, before the trainer
// has compared 200 predictions with their labels, and for models written by versions
// without probabilities. It does not decrease with the decision, up to rounding. The
// probability for decision 0 need not be ½, so in a close case Label may be the less
// probable one.
func (p *Predictor) Probability(decision float64) (probability float64, known bool) {
	if p.pipe.Probability == nil {
		return math.NaN(), false
	}
	return p.pipe.Probability.Probability(decision), true
}

// Probabilities sets dst, which may be scores, to the probabilities of more than
// two classes, given their scores, and reports whether they are known; see
// Probability. The class with the largest score has the largest probability. If
// they are unknown, dst is unchanged.
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

// Decode decodes a predictor, such as the payload of a full [stream.Update]. It
// returns an error for any other input, and never panics. The learner that made the
// model must be registered, see package registry.
func Decode(data []byte) (*Predictor, error) {
	pipe, err := pipeline.Decode(data)
	if err != nil {
		return nil, err
	}
	return &Predictor{*pipe}, nil
}

// Save writes the encoded predictor to the file at path, replacing an existing file
// atomically.
func (p *Predictor) Save(path string) error {
	data, err := p.AppendBinary(nil)
	if err != nil {
		return err
	}
	return atomicfile.Write(path, data)
}

// Load reads a predictor written by Save.
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
