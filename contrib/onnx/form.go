package onnx

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/streamsvm/streamsvm/internal/prep"
)

// document is the part of a predictor's plain form that Convert reads;
// docs/formats/plain.md describes it.
type document struct {
	Format        string
	Version       int
	Learner, Task string
	Origin        *struct {
		Model, Hash, Created     string
		Version, Epoch, Examples uint64
		Offsets                  json.RawMessage
	}
	Signature struct {
		Features int
		Schema   json.RawMessage
	}
	Preprocessing json.RawMessage
	Labels        []any
	Costs         []float64
	Model         json.RawMessage
	Probability   *struct {
		Decisions []float64
		LogOdds   []float64 `json:"log_odds"`
		Slope     float64
		Scale     float64
	}
}

// events reports whether records are events, not vectors.
func (d *document) events() bool {
	s := d.Signature.Schema
	return len(s) > 0 && string(s) != "null"
}

type linearForm struct {
	Bias    float64
	Weights vector[float64]
}

type kernelForm struct {
	Kernel struct {
		Name         string
		Gamma, Coef0 float32
		Degree       int
	}
	Bias   float32
	Offset float64
	Coef   []float64
	Points []vector[float32]
}

type featuresForm struct {
	Offset, Scale float64
	Features      int
	Coef          []float64
	Phases        []float32
	Frequencies   []vector[float32]
	Weights       vector[float64]
}

type splinesForm struct {
	Bias     float64
	Features []int
	Knots    [][]float64
	Coarse   [][]float64
	Weights  [][]float64
	Pairs    []struct {
		Features [2]int
		Weights  [][]float64
	}
}

// expertsForm is the form of an ensemble, an average or a mixture of experts.
type expertsForm struct {
	Kind                string
	Bias, Mixed, Center float64 // of an ensemble
	Caps                []struct{ At, Weight float64 }
	Low, High           *float64 // of an average
	Experts             []expertForm
}

type expertForm struct {
	Preprocessing, Model json.RawMessage
	Terms                []termForm // of an ensemble
	termForm                        // of others
}

type termForm struct{ Square, Slope, Outer, Offset, Weight, Share float64 }

type neighboursForm struct {
	Nearest int
	Mean    bool
	Points  []vector[float32]
	Labels  []float64
}

type classesForm struct{ Parts []json.RawMessage }

// read decodes one of the forms.
func read[T any](data []byte) (*T, error) {
	t := new(T)
	return t, json.Unmarshal(data, t)
}

// form returns the model in data.
func form(data []byte) (any, error) {
	kind, err := read[struct{ Kind string }](data)
	if err != nil {
		return nil, err
	}
	switch kind.Kind {
	case "linear":
		return read[linearForm](data)
	case "kernel":
		return read[kernelForm](data)
	case "features":
		return read[featuresForm](data)
	case "splines":
		return read[splinesForm](data)
	case "neighbours":
		return read[neighboursForm](data)
	case "ensemble", "mixture", "average":
		return read[expertsForm](data)
	case "classes":
		return read[classesForm](data)
	}
	return nil, fmt.Errorf("models of kind %q are not known", kind.Kind)
}

// vector is a vector of the plain form: a list of all its numbers, or of the numbers at
// some indices.
type vector[F float32 | float64] struct {
	Index []int32
	Value []F
}

func (v *vector[F]) UnmarshalJSON(data []byte) error {
	if bytes.HasPrefix(data, []byte("[")) {
		return json.Unmarshal(data, &v.Value)
	}
	type plain vector[F]
	if err := json.Unmarshal(data, (*plain)(v)); err != nil {
		return err
	}
	if len(v.Index) != len(v.Value) {
		return fmt.Errorf("a vector of %d features has %d numbers", len(v.Index), len(v.Value))
	}
	if v.Index == nil {
		v.Index = []int32{}
	}
	return nil
}

// each calls f for the nonzero numbers.
func (v *vector[F]) each(f func(j int, v F)) {
	for k, x := range v.Value {
		if x == 0 {
			continue
		}
		if v.Index != nil {
			k = int(v.Index[k])
		}
		f(k, x)
	}
}

// scaling returns the preprocessing in data.
func scaling(data []byte) (*prep.Exported, error) {
	p, err := read[prep.Exported](data)
	if err != nil {
		return nil, err
	}
	if n := len(p.Index); len(p.Shift) != n || len(p.Factor) != n {
		return nil, fmt.Errorf("%d features, %d shifts and %d factors", n, len(p.Shift), len(p.Factor))
	}
	if n := len(p.AsinhSize); len(p.AsinhCenter) != n || n > 0 && n != len(p.Index) {
		return nil, fmt.Errorf("%d features, %d centers and %d sizes", len(p.Index), len(p.AsinhCenter), n)
	}
	return p, nil
}
