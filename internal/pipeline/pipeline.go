// Package pipeline holds what a trainer makes: a model behind the
// preprocessing that belongs to it, and its encoded form.
package pipeline

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/cespare/xxhash/v2"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/algos/registry"
	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/prep"
	"github.com/streamsvm/streamsvm/stream"
)

// Pipeline is a model with its preprocessing. Its methods change nothing.
type Pipeline struct {
	Learner   string // registered name
	Task      algos.Task
	Options   map[string]string // of the learner, tuned ones included
	Transform *prep.Transform
	Model     algos.Model // takes what Transform gives
}

// Info describes the model.
func (p *Pipeline) Info() algos.Info { return p.Model.Info() }

// Decisions sets dst[i] to the decision for xs[i].
func (p *Pipeline) Decisions(dst []float64, xs []stream.Vec) {
	t := make([]stream.Vec, len(xs))
	for i, x := range xs {
		t[i] = p.Transform.Apply(x)
	}
	p.Model.Decisions(dst, t)
}

// magic starts an encoded pipeline; the digit is the format's version.
const magic = "streamsvm-predictor-1\n"

// ErrFormat is returned for bytes that no known version of this package wrote.
var ErrFormat = errors.New("not an encoded predictor of a known version")

// AppendBinary appends the encoded pipeline: the magic line, the fields, and
// the xxh64 of both.
func (p *Pipeline) AppendBinary(dst []byte) ([]byte, error) {
	start := len(dst)
	model, err := p.Model.AppendBinary(nil)
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

func (p *Pipeline) fields(f *state.Fields, model *[]byte) {
	f.String("learner", &p.Learner)
	f.String("task", (*string)(&p.Task))
	Options(f, &p.Options)
	f.Group("transform", p.Transform.Fields)
	f.Bytes("model", model)
}

// Options describes the options of a learner, in order of name.
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

// Decode reads an encoded pipeline. It copes with any input.
func Decode(data []byte) (*Pipeline, error) {
	if len(data) < len(magic)+8 || string(data[:len(magic)]) != magic {
		return nil, ErrFormat
	}
	body := data[:len(data)-8]
	if got, want := xxhash.Sum64(body), binary.LittleEndian.Uint64(data[len(body):]); got != want {
		return nil, fmt.Errorf("encoded predictor: checksum %016x, expected %016x", got, want)
	}
	p := &Pipeline{Transform: new(prep.Transform)}
	var model []byte
	if err := state.Decode(body[len(magic):], func(f *state.Fields) { p.fields(f, &model) }); err != nil {
		return nil, fmt.Errorf("encoded predictor: %w", err)
	}
	spec, err := registry.Lookup(p.Learner)
	if err != nil {
		return nil, fmt.Errorf("encoded predictor: %w", err)
	}
	if p.Model, err = spec.DecodeModel(model); err != nil {
		return nil, fmt.Errorf("encoded predictor: model of %s: %w", p.Learner, err)
	}
	return p, nil
}
