// Package predictor holds what leaves a trainer and arrives at its users: a
// model together with the preprocessing that belongs to it, as one value that
// can be encoded, decoded and asked for predictions, and a handle that follows
// a model topic and always answers with the newest version.
package predictor

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"

	"github.com/cespare/xxhash/v2"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/algos/registry"
	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/prep"
	"github.com/streamsvm/streamsvm/stream"
)

// Predictor is a model with its preprocessing. It takes examples as they stand
// on the wire. It is immutable and safe for concurrent use.
type Predictor struct {
	learner   string
	task      algos.Task
	options   map[string]string
	transform *prep.Transform
	model     algos.Model
}

// New puts a predictor together. It keeps its arguments, which must not change
// as long as the predictor is in use.
func New(spec algos.Spec, task algos.Task, options map[string]string, tr *prep.Transform, m algos.Model) *Predictor {
	return &Predictor{learner: spec.Name, task: task, options: options, transform: tr, model: m}
}

// Learner returns the registered name of the learner that made the model.
func (p *Predictor) Learner() string { return p.learner }

// Task returns what the model predicts.
func (p *Predictor) Task() algos.Task { return p.task }

// Options returns the learner's options, tuned ones included.
func (p *Predictor) Options() map[string]string { return maps.Clone(p.options) }

// Preprocessing describes the preprocessing in a line.
func (p *Predictor) Preprocessing() string { return p.transform.String() }

// HashDim returns the number of features into which all are hashed, or 0.
func (p *Predictor) HashDim() int { return p.transform.HashDim() }

// Info describes the model.
func (p *Predictor) Info() algos.Info { return p.model.Info() }

// Model returns the model, which takes vectors that have been preprocessed.
func (p *Predictor) Model() algos.Model { return p.model }

// Decision returns f(x): for a classifier its sign is the predicted class, for
// a regression it is the prediction.
func (p *Predictor) Decision(x stream.Vec) float64 {
	return p.model.Decision(p.transform.Apply(x))
}

// Compile returns the same predictor in a form that decides several times
// faster, where its model has one: kernel expansions do, and their decisions
// then differ from p's by rounding, about 1e-7 of the sum of the coefficients'
// absolute values. Decision and Decisions of the result agree in every bit.
func (p *Predictor) Compile() *Predictor {
	m, ok := p.model.(interface{ Compile() algos.Model })
	if !ok {
		return p
	}
	q := *p
	q.model = m.Compile()
	return &q
}

// share is the least number of vectors for which another goroutine pays.
const share = 64

// Decisions sets dst[i] to Decision(xs[i]), bit for bit, in less time. It
// spreads many vectors over the processors.
func (p *Predictor) Decisions(dst []float64, xs []stream.Vec) {
	n := min(runtime.GOMAXPROCS(0), len(xs)/share)
	if n < 2 {
		p.decisions(dst, xs)
		return
	}
	var others sync.WaitGroup
	for i := range n {
		from, to := i*len(xs)/n, (i+1)*len(xs)/n
		if i == n-1 {
			p.decisions(dst[from:to], xs[from:to])
			break
		}
		others.Go(func() { p.decisions(dst[from:to], xs[from:to]) })
	}
	others.Wait()
}

func (p *Predictor) decisions(dst []float64, xs []stream.Vec) {
	t := make([]stream.Vec, len(xs))
	for i, x := range xs {
		t[i] = p.transform.Apply(x)
	}
	p.model.Decisions(dst, t)
}

// Predict returns the predicted label for x: +1 or -1, or the value of a
// regression.
func (p *Predictor) Predict(x stream.Vec) float64 { return p.Label(p.Decision(x)) }

// Label turns a decision into a prediction.
func (p *Predictor) Label(decision float64) float64 {
	switch {
	case p.task == algos.Regress:
		return decision
	case decision >= 0:
		return 1
	default:
		return -1
	}
}

// magic starts an encoded predictor; the digit is the format's version.
const magic = "streamsvm-predictor-1\n"

// ErrFormat is returned for bytes that no known version of this package wrote.
var ErrFormat = errors.New("not an encoded predictor of a known version")

// AppendBinary appends the encoded predictor: the magic line, the fields, and
// the xxh64 of both.
func (p *Predictor) AppendBinary(dst []byte) ([]byte, error) {
	start := len(dst)
	model, err := p.model.AppendBinary(nil)
	if err != nil {
		return dst, err
	}
	dst = append(dst, magic...)
	dst, err = state.Append(dst, func(f *state.Fields) { p.fields(f, &model) })
	if err != nil {
		return dst, err
	}
	return binary.LittleEndian.AppendUint64(dst, xxhash.Sum64(dst[start:])), nil
}

func (p *Predictor) fields(f *state.Fields, model *[]byte) {
	f.String("learner", &p.learner)
	f.String("task", (*string)(&p.task))
	keys := slices.Sorted(maps.Keys(p.options))
	f.List("options", len(keys), 2, func(n int) {
		keys, p.options = make([]string, n), make(map[string]string, n)
	}, func(f *state.Fields, i int) {
		v := p.options[keys[i]]
		f.String("name", &keys[i])
		f.String("value", &v)
		if f.Decoding() {
			p.options[keys[i]] = v
		}
	})
	f.Group("transform", p.transform.Fields)
	f.Bytes("model", model)
}

// Decode reads an encoded predictor. It copes with any input.
func Decode(data []byte) (*Predictor, error) {
	if len(data) < len(magic)+8 || string(data[:len(magic)]) != magic {
		return nil, ErrFormat
	}
	body := data[:len(data)-8]
	if got, want := xxhash.Sum64(body), binary.LittleEndian.Uint64(data[len(body):]); got != want {
		return nil, fmt.Errorf("encoded predictor: checksum %016x, expected %016x", got, want)
	}
	p := &Predictor{transform: new(prep.Transform)}
	var model []byte
	if err := state.Decode(body[len(magic):], func(f *state.Fields) { p.fields(f, &model) }); err != nil {
		return nil, fmt.Errorf("encoded predictor: %w", err)
	}
	spec, err := registry.Lookup(p.learner)
	if err != nil {
		return nil, fmt.Errorf("encoded predictor: %w", err)
	}
	if p.model, err = spec.DecodeModel(model); err != nil {
		return nil, fmt.Errorf("encoded predictor: model of %s: %w", p.learner, err)
	}
	return p, nil
}
