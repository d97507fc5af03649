// Package pipeline combines a model with its preprocessing, probability calibration
// and data signature into the unit that a trainer publishes, and encodes it.
package pipeline

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/cespare/xxhash/v2"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/algos/ovr"
	"github.com/streamsvm/streamsvm/algos/registry"
	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/calibrate"
	"github.com/streamsvm/streamsvm/internal/linear"
	"github.com/streamsvm/streamsvm/internal/prep"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/codec"
)

// Pipeline is a model with its preprocessing. Its methods do not change it.
type Pipeline struct {
	Learner   string // registered name
	Task      algos.Task
	Options   map[string]string // of the learner, including tuned ones
	Signature codec.Signature
	Transform *prep.Transform
	Model     algos.Model // expects the output of Transform
	// Probability maps a decision to the probability that the label is positive;
	// nil if unknown.
	Probability *calibrate.Map
	// Softmax maps the scores of more than two classes to their probabilities; nil
	// for two classes, for regression, and if unknown.
	Softmax *calibrate.Softmax
	// Costs choose the label by the probabilities, if these are known; if nil, the
	// decision or the largest score does.
	Costs calibrate.Costs
}

// Best returns the predicted class, given the scores of more than two classes.
func (p *Pipeline) Best(scores []float64) int {
	if p.Costs == nil || p.Softmax == nil {
		return algos.Largest(scores)
	}
	probabilities := make([]float64, len(scores))
	p.Softmax.Probabilities(probabilities, scores)
	return p.Costs.Best(probabilities)
}

// Info describes the model.
func (p *Pipeline) Info() algos.Info { return p.Model.Info() }

// Preprocessing describes the preprocessing in one line.
func (p *Pipeline) Preprocessing() string {
	s := p.Transform.String()
	if spec, err := registry.Lookup(p.Learner); err == nil && spec.OwnScale && p.Transform.Scale() == prep.None {
		s += " (the learner scales by itself)"
	}
	return s
}

// Pack returns the pipeline in the form for publishing: with fewer bytes, if its
// model has such an encoding.
func (p *Pipeline) Pack() *Pipeline {
	q := *p
	q.Model = algos.Packed(p.Model)
	return &q
}

// Classes returns the number of classes; 0 for regression.
func (p *Pipeline) Classes() int {
	m, ok := p.Model.(algos.Scorer)
	switch {
	case p.Task == algos.Regress:
		return 0
	case ok:
		return m.Classes()
	}
	return 2
}

// Decisions sets dst[i] to the decision for xs[i].
func (p *Pipeline) Decisions(dst []float64, xs []stream.Vec) { p.Model.Decisions(dst, p.apply(xs)) }

// Scores sets dst[i*K+k] to the score of class k of K for xs[i]. For two classes
// the scores are −decision and decision.
func (p *Pipeline) Scores(dst []float64, xs []stream.Vec) {
	if m, ok := p.Model.(algos.Scorer); ok {
		m.Scores(dst, p.apply(xs))
		return
	}
	f := make([]float64, len(xs))
	p.Decisions(f, xs)
	for i, v := range f {
		dst[2*i], dst[2*i+1] = -v, v
	}
}

func (p *Pipeline) apply(xs []stream.Vec) []stream.Vec {
	if p.Transform.Identity() {
		return xs
	}
	t := make([]stream.Vec, len(xs))
	for i, x := range xs {
		t[i] = p.Transform.Apply(x)
	}
	return t
}

// magic starts an encoded pipeline; the digit is the format version.
const (
	magic   = "streamsvm-predictor-3\n"
	magicV2 = "streamsvm-predictor-2\n" // lacks probabilities
	magicV1 = "streamsvm-predictor-1\n" // lacks a signature too
)

// ErrFormat is returned for bytes that no known version of this package wrote.
var ErrFormat = errors.New("not a model, or written by a newer version of streamsvm than this one")

// ErrOldModel is returned for a model whose checksum is right but whose form its
// learner no longer reads.
var ErrOldModel = errors.New("written by another version of streamsvm, whose models this one does not read: publish or save it again with this version, or read it with the version that wrote it")

// AppendBinary appends the encoded pipeline: the magic line, the fields, and
// the xxh64 of both.
func (p *Pipeline) AppendBinary(dst []byte) ([]byte, error) {
	start := len(dst)
	dst = append(dst, magic...)
	dst, err := state.Append(dst, func(f *state.Fields) { p.fields(f, 3, nil) })
	if err != nil {
		return dst, err
	}
	return binary.LittleEndian.AppendUint64(dst, xxhash.Sum64(dst[start:])), nil
}

// fields describes the pipeline; model gets the encoded model when decoding.
func (p *Pipeline) fields(f *state.Fields, version int, model *[]byte) {
	f.String("learner", &p.Learner)
	f.String("task", (*string)(&p.Task))
	Options(f, &p.Options)
	if version > 1 {
		f.Group("signature", func(f *state.Fields) { signature(f, &p.Signature) })
	}
	f.Group("transform", p.Transform.Fields)
	f.Nested("model", func(dst []byte) ([]byte, error) { return p.Model.AppendBinary(dst) }, func(data []byte) error {
		*model = data
		return nil
	})
	if version > 2 {
		f.Group("probability", p.probability)
	}
}

// The forms of a map from decisions to probabilities.
const (
	formNone    = "none"
	formLogOdds = "log_odds"
	formSoftmax = "softmax"
)

func (p *Pipeline) probability(f *state.Fields) {
	form := formNone
	if p.Probability != nil {
		form = formLogOdds
	}
	if p.Softmax != nil {
		form = formSoftmax
	}
	f.String("form", &form)
	switch {
	case form == formNone:
	case form == formLogOdds && p.Task != algos.Regress:
		if f.Decoding() {
			p.Probability = new(calibrate.Map)
		}
		p.Probability.Fields(f)
	case form == formSoftmax && p.Task != algos.Regress:
		if f.Decoding() {
			p.Softmax = new(calibrate.Softmax)
		}
		p.Softmax.Fields(f)
	default:
		f.Fail("form", fmt.Errorf("%q for the task %s", form, p.Task))
	}
	if f.Next("costs") || !f.Decoding() && p.Costs != nil {
		f.Float64s("costs", (*[]float64)(&p.Costs))
		f.Fail("costs", linear.Finite(p.Costs))
		if f.Decoding() && f.Err() == nil && (len(p.Costs) < 2 || slices.Min(p.Costs) <= 0 || p.Task == algos.Regress) {
			f.Fail("costs", fmt.Errorf("%v for the task %s", p.Costs, p.Task))
		}
	}
}

// Options describes a learner's options, sorted by name.
func Options(f *state.Fields, options *map[string]string) {
	keys := slices.Sorted(maps.Keys(*options))
	f.List("options", len(keys), 2, func(n int) {
		keys, *options = make([]string, n), make(map[string]string, n)
	}, func(f *state.Fields, i int) {
		v := (*options)[keys[i]]
		f.String("name", &keys[i])
		f.String("value", &v)
		if f.Decoding() {
			(*options)[keys[i]] = v
		}
	})
}

// signature describes the data that the model was made for.
func signature(f *state.Fields, s *codec.Signature) {
	f.String("codec", &s.Codec)
	f.String("labels", &s.Labels)
	f.Int("max_features", &s.MaxFeatures)
	f.Int("dim", &s.Dim)
	f.Int("index", &s.Index)
	if s.Labels != "" {
		_, err := codec.ParseClasses(s.Labels)
		f.Fail("labels", err)
	}
	if s.Schema != "" || f.Next("schema") {
		f.String("schema", &s.Schema)
		_, err := s.Scaled()
		f.Fail("schema", err)
	}
	if s.Dim < 0 || s.Dim > s.Index || s.Index > math.MaxInt32 {
		f.Fail("dim", fmt.Errorf("dimension %d, largest index %d", s.Dim, s.Index))
	}
	if s.Codec != "csv" {
		return
	}
	c := &s.CSV
	comma := string(c.Comma)
	f.Bool("header", &c.Header)
	list(f, "columns", &c.Columns)
	f.String("label_column", &c.LabelColumn)
	list(f, "drop_columns", &c.DropColumns)
	f.Bool("empty_as_zero", &c.EmptyAsZero)
	f.String("separator", &comma)
	if f.Decoding() && f.Err() == nil && len(comma) != 1 {
		f.Fail("separator", fmt.Errorf("%q is not a single byte", comma))
	} else if f.Decoding() && f.Err() == nil {
		c.Comma = comma[0]
	}
}

func list(f *state.Fields, name string, names *[]string) {
	f.List(name, len(*names), 1, func(n int) { *names = make([]string, n) }, func(f *state.Fields, i int) {
		f.String("name", &(*names)[i])
	})
}

// Decode decodes a pipeline. It returns an error for any other input, and never
// panics.
func Decode(data []byte) (*Pipeline, error) {
	version := 0
	if len(data) >= len(magic)+8 {
		version = 1 + slices.Index([]string{magicV1, magicV2, magic}, string(data[:len(magic)]))
	}
	if version == 0 {
		return nil, ErrFormat
	}
	body := data[:len(data)-8]
	if got, want := xxhash.Sum64(body), binary.LittleEndian.Uint64(data[len(body):]); got != want {
		return nil, fmt.Errorf("encoded predictor: checksum %016x, expected %016x", got, want)
	}
	p := &Pipeline{Transform: new(prep.Transform)}
	var model []byte
	if err := state.Decode(body[len(magic):], func(f *state.Fields) { p.fields(f, version, &model) }); err != nil {
		return nil, fmt.Errorf("encoded predictor: %w", err)
	}
	spec, err := registry.ModelsOf(p.Learner)
	if err != nil {
		return nil, fmt.Errorf("encoded predictor: %w", err)
	}
	if p.Model, err = ovr.Spec(spec).DecodeModel(model); err != nil {
		return nil, fmt.Errorf("encoded predictor: %w (model of %s: %w)", ErrOldModel, p.Learner, err)
	}
	if n := p.Signature.Classes(); n > 0 && p.Task == algos.Classify && n != p.Classes() {
		return nil, fmt.Errorf("encoded predictor: model of %s: %d labels, %d classes", p.Learner, n, p.Classes())
	}
	if n := len(p.Costs); n > 0 && n != p.Classes() {
		return nil, fmt.Errorf("encoded predictor: %d costs of %d classes", n, p.Classes())
	}
	return p, nil
}
