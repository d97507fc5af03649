package predictor

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/codec"
)

// records says how records are read for one model, and what its labels are
// called.
type records struct {
	sig codec.Signature // of the model
	dec codec.Codec
	// json reads records that are JSON objects. It is dec where that reads JSON.
	json codec.Codec
	// either says that a record may be a JSON object although dec reads another
	// form.
	either bool
	// missing is why there is no codec for records that are no JSON objects: the
	// program does not have it.
	missing error

	labels []any    // of −1 and +1, or by number; nil for a regression
	texts  []string // the labels as text
	inJSON []string // the labels in JSON

	contributions int                      // of a prediction
	features      func() ([]string, error) // the names of features, once they are asked for
	inputs        func() (codec.Inputs, error)
}

// RecordsError says that records cannot be read for a model: what is known about
// them is incomplete, contradicts itself, or needs a codec that the program does
// not have.
type RecordsError struct{ Err error }

func (e *RecordsError) Error() string { return "records of the model: " + e.Err.Error() }

func (e *RecordsError) Unwrap() error { return e.Err }

// newRecords returns how records are read for p. What last has counted in the
// fields of events goes on where nothing has changed in how they are read.
func newRecords(p *Predictor, o *ScorerOptions, last *records) (*records, error) {
	r := &records{sig: p.Signature(), contributions: o.Contributions}
	sig, features := r.sig, r.sig.Features()
	sig.MaxFeatures = max(codec.DefaultMaxFeatures, sig.MaxFeatures)
	if o.Columns != nil && (features != nil || sig.Schema != "") {
		// Columns count by their names: those of the training data may be absent.
		if !slices.Contains(o.Columns, sig.CSV.LabelColumn) {
			sig.CSV.LabelColumn = ""
		}
		sig.CSV.DropColumns = nil
	}
	if o.Adapt != nil {
		if err := o.Adapt(&sig); err != nil {
			return nil, err
		}
	}
	name := cmp.Or(sig.Codec, "json")
	opts := codec.Options{Task: string(p.Task()), Labels: sig.Labels, MaxFeatures: sig.MaxFeatures, Schema: sig.Schema}
	err := r.open(name, opts, &sig, features, o)
	if err != nil {
		return nil, &RecordsError{err}
	}
	if last != nil && sig.Schema != "" && sameCodec(last.dec, r.dec) && sameCodec(last.json, r.json) {
		r.dec, r.json = last.dec, last.json
	}
	if err := r.name(p, sig.Labels); err != nil {
		return nil, &RecordsError{err}
	}
	r.features = sync.OnceValues(func() ([]string, error) {
		if r.sig.Schema != "" {
			return codec.SchemaFeatures(r.sig.Schema)
		}
		return features, nil
	})
	r.inputs = sync.OnceValues(r.sig.Inputs)
	return r, nil
}

// open makes the codecs.
func (r *records) open(name string, opts codec.Options, sig *codec.Signature, features []string, o *ScorerOptions) (err error) {
	inJSON := opts
	schematic := codec.Schematic(name)
	if schematic {
		opts.Schemas, opts.Written = o.Schemas, o.Written
	}
	if name == "csv" {
		opts.CSV = sig.CSV
		if sig.Schema == "" {
			opts.CSV.Dim = sig.Length()
		}
		if o.Columns != nil {
			opts.CSV.Columns, opts.CSV.Features = o.Columns, features
		}
	}
	r.dec, err = codec.New(name, opts)
	if errors.Is(err, codec.ErrNotRegistered) {
		name, r.missing = "json", err
		r.dec, err = codec.New(name, inJSON)
	}
	if err != nil {
		return err
	}
	if r.json = r.dec; name != "json" {
		r.json, err = codec.New("json", inJSON)
	}
	r.either = schematic || !o.Strict && (name == "libsvm" || name == "csv")
	return err
}

// name finds out what the labels are called.
func (r *records) name(p *Predictor, labels string) (err error) {
	if p.Task() == algos.Regress {
		return nil
	}
	if r.labels, err = codec.ParseClasses(labels); err != nil {
		return err
	}
	if n := p.Classes(); n > 2 && r.sig.Labels == "" { // the classes have numbers only
		r.labels = r.labels[:0]
		for k := range n {
			r.labels = append(r.labels, float64(k))
		}
	}
	for _, v := range r.labels {
		b, err := json.Marshal(v)
		if err != nil {
			return err
		}
		text, ok := v.(string)
		if !ok {
			text = string(b)
		}
		r.inJSON, r.texts = append(r.inJSON, string(b)), append(r.texts, text)
	}
	return nil
}

// sameCodec reports whether two codecs read records alike.
func sameCodec(a, b codec.Codec) bool {
	return reflect.DeepEqual(codec.SignatureOf(a), codec.SignatureOf(b))
}

// decode reads a record, which is JSON if only says so, and refuses a dense
// vector that is not for the model.
func (r *records) decode(ctx context.Context, a *stream.Arena, rec *stream.Record, only bool, ex *stream.Example) error {
	dec := r.dec
	switch {
	case only:
		dec = r.json
	case r.missing != nil && (len(rec.Value) == 0 || rec.Value[0] != '{'):
		return &stream.FieldError{Stage: stream.StageDecode, Reason: stream.ReasonSchema, Err: r.missing}
	case r.either && len(rec.Value) > 0 && rec.Value[0] == '{':
		err := r.json.DecodeIn(a, rec.Value, ex)
		if err == nil {
			return r.sig.Check(ex.X)
		}
		if !codec.Schematic(r.dec.Name()) { // whose records may begin with any byte
			return err
		}
	}
	if err := stream.DecodeRecord(ctx, dec, a, rec, ex); err != nil {
		return err
	}
	return r.sig.Check(ex.X)
}

// index is that of the label y in labels.
func (r *records) index(y float64) int {
	switch {
	case len(r.labels) > 2:
		return int(y)
	case y > 0:
		return 1
	}
	return 0
}

// row returns the fields of a record as an example in JSON.
func (r *records) row(fields map[string]any) ([]byte, error) {
	in, err := r.inputs()
	if err != nil {
		return nil, err
	}
	if _, ok := fields["x"]; ok || in.Events || len(in.Fields) == 0 {
		return json.Marshal(fields)
	}
	x := make([]any, len(in.Fields))
	for i, f := range in.Fields {
		v, ok := fields[f.Name]
		if !ok {
			return nil, &stream.FieldError{Stage: stream.StageFeature, Reason: stream.ReasonMissing, Field: f.Name, Err: fmt.Errorf("there is no %q, which the model needs", f.Name)}
		}
		x[i] = v
	}
	return json.Marshal(map[string]any{"x": x})
}
