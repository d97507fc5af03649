package predictor

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/algos/model"
	"github.com/streamsvm/streamsvm/algos/ovr"
	"github.com/streamsvm/streamsvm/internal/plain"
	"github.com/streamsvm/streamsvm/stream"
)

// Name and version at the start of an exported predictor.
const (
	exportFormat  = "streamsvm-model"
	exportVersion = 2
)

// MaxNumbers is the default of ExportOptions.MaxNumbers.
const MaxNumbers = 20_000_000

// ExportOptions are the options of Export.
type ExportOptions struct {
	// Update, if not nil, is the update that the predictor came in. Its payload is
	// ignored.
	Update *stream.Update
	// MaxNumbers bounds the number of support vectors' features, weights or
	// frequencies, which take about 12 bytes each in the file and up to 50 in
	// memory; 0 is MaxNumbers.
	MaxNumbers int
}

// origin describes the update that an exported predictor came in.
type origin struct {
	Model      string             `json:"model"`
	Version    uint64             `json:"version"`
	Epoch      uint64             `json:"epoch"`
	Step       uint64             `json:"step"`
	Examples   uint64             `json:"examples"`
	Created    time.Time          `json:"created"`
	Hash       string             `json:"hash"`
	Offsets    []originOffset     `json:"offsets"`
	Evaluation map[string]float64 `json:"evaluation"`
}

type originOffset struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Next      int64  `json:"next"`
}

func newOrigin(u *stream.Update) *origin {
	if u == nil {
		return nil
	}
	o := &origin{
		Model: u.Model, Version: u.Version, Epoch: u.Epoch, Step: u.Step, Examples: u.Examples, Created: u.Created.UTC(),
		Hash: fmt.Sprintf("%016x", u.Hash), Offsets: []originOffset{}, Evaluation: map[string]float64{},
	}
	for _, p := range u.Offsets.Partitions() {
		o.Offsets = append(o.Offsets, originOffset{p.Topic, p.ID, u.Offsets[p]})
	}
	for _, m := range u.Evaluation {
		if m.Value-m.Value == 0 { // JSON has neither NaN nor infinity
			o.Evaluation[m.Name] = m.Value
		}
	}
	return o
}

// Export writes the predictor in the plain form of docs/formats/plain.md: JSON,
// with all numbers written out and each top-level field on its own line. If the
// model has more numbers than MaxNumbers, or numbers that are not finite, it
// returns an error and writes nothing.
func (p *Predictor) Export(w io.Writer, o ExportOptions) error {
	if o.MaxNumbers == 0 {
		o.MaxNumbers = MaxNumbers
	}
	limits := plain.Options{Features: p.pipe.Transform.Features(), Numbers: o.MaxNumbers}
	if p.HashDim() == 0 {
		limits.Features = max(limits.Features, p.pipe.Signature.Dim, p.pipe.Signature.Index)
	}
	form, err := p.exportModel(p.pipe.Model, limits)
	if err != nil {
		return fmt.Errorf("export: %w", err)
	}
	options := p.pipe.Options
	if options == nil {
		options = map[string]string{}
	}
	var b bytes.Buffer
	sep := "{"
	for _, f := range []struct {
		name  string
		value any
	}{
		{"format", exportFormat},
		{"version", exportVersion},
		{"learner", p.pipe.Learner},
		{"task", p.pipe.Task},
		{"options", options},
		{"origin", newOrigin(o.Update)},
		{"signature", p.exportSignature()},
		{"preprocessing", p.pipe.Transform.Export()},
		{"labels", p.classLabels()},
		{"model", form},
		{"probability", p.exportProbability()},
		{"costs", p.exportCosts()},
	} {
		if list, ok := f.value.([]any); ok && list == nil {
			continue
		}
		data, err := json.Marshal(f.value)
		if bad, ok := errors.AsType[*json.UnsupportedValueError](err); ok {
			return fmt.Errorf("export: %s: a number is %s", f.name, bad.Str)
		}
		if err != nil {
			return fmt.Errorf("export: %s: %w", f.name, err)
		}
		fmt.Fprintf(&b, "%s\n%q: %s", sep, f.name, data)
		sep = ","
	}
	b.WriteString("\n}\n")
	_, err = w.Write(b.Bytes())
	return err
}

// signatureForm is the plain form of the data's signature.
type signatureForm struct {
	Codec    string          `json:"codec"`
	Features int             `json:"features"`
	Names    []string        `json:"names"`
	Schema   json.RawMessage `json:"schema"`
}

func (p *Predictor) exportSignature() signatureForm {
	s := p.Signature()
	x := signatureForm{Codec: s.Codec, Features: max(s.Dim, s.Index), Names: s.Features()}
	if s.Schema != "" {
		x.Schema = json.RawMessage(s.Schema)
	}
	return x
}

// mapForm is the plain form of the map to probabilities.
type mapForm struct {
	Decisions []float64 `json:"decisions"`
	LogOdds   []float64 `json:"log_odds"`
}

// softmaxForm is the plain form of the map for more than two classes.
type softmaxForm struct {
	Slope float64 `json:"slope"`
	Scale float64 `json:"scale"`
}

func (p *Predictor) exportCosts() (list []any) {
	for _, c := range p.pipe.Costs {
		list = append(list, c)
	}
	return list
}

func (p *Predictor) exportProbability() any {
	if m := p.pipe.Softmax; m != nil {
		return softmaxForm{m.Slope, m.Scale}
	}
	if m := p.pipe.Probability; m != nil {
		return mapForm{m.Decisions, m.LogOdds}
	}
	return nil
}

func (p *Predictor) exportModel(m algos.Model, o plain.Options) (any, error) {
	switch m := m.(type) {
	case *model.Linear:
		return exportLinear(m, o)
	case plain.Exporter:
		return m.Export(o)
	}
	parts, blank, ok := ovr.Parts(m)
	if !ok {
		return nil, fmt.Errorf("models of %s have no plain form", p.pipe.Learner)
	}
	x := classesForm{Kind: "classes"}
	for k, part := range parts {
		var form any = linearForm{"linear", ovr.Blank, 0, []float64{}}
		if !blank[k] {
			var err error
			if form, err = p.exportModel(part, o); err != nil {
				return nil, err
			}
		}
		x.Parts = append(x.Parts, form)
	}
	return x, nil
}

// classesForm is the plain form of a model of more than two classes, one part for
// each.
type classesForm struct {
	Kind  string `json:"kind"`
	Parts []any  `json:"parts"`
}

// classLabels returns the labels of the classes by number; for two classes the
// label of −1 comes first. It is nil for regression.
func (p *Predictor) classLabels() []any {
	if p.Classes() == 2 {
		return []any{p.pipe.Signature.Label(-1), p.pipe.Signature.Label(1)}
	}
	var list []any
	for k := range p.Classes() {
		list = append(list, p.pipe.Signature.Label(float64(k)))
	}
	return list
}

// linearForm is the plain form of a linear model: f(x) = bias + Σ_j weights[j]·x_j.
type linearForm struct {
	Kind     string  `json:"kind"`
	Bias     float64 `json:"bias"`
	Features int     `json:"features"`
	Weights  any     `json:"weights"`
}

func exportLinear(m *model.Linear, o plain.Options) (any, error) {
	w := m.Weights()
	if err := o.Check("the weights", 1, min(2*m.Info().Nonzero, len(w))); err != nil {
		return nil, err
	}
	return linearForm{Kind: "linear", Bias: m.Bias(), Features: len(w), Weights: plain.Vector(w)}, nil
}
