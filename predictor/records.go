package predictor

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/events"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/codec"
)

// records knows how to read records for one model, and the names of its labels.
type records struct {
	sig codec.Signature // of the model
	dec codec.Codec
	// json reads JSON objects. It is the same as dec if the codec is json.
	json codec.Codec
	// either says to try records that begin with { as JSON first.
	either bool
	// missing is not nil if the program lacks the codec of the model: then only JSON
	// objects can be read.
	missing error

	labels []any    // for −1 and +1, or by class number; nil for a regression
	texts  []string // the labels as text
	inJSON []string // the labels in JSON

	// unknownColumns and missingColumns compare ScorerOptions.Columns with the fields of
	// the model.
	unknownColumns, missingColumns []string

	occlusion func() *occlusion // to explain predictions
	inputs    func() (codec.Inputs, error)
}

// RecordsError says that no records can be read for a model: their description is
// incomplete or contradictory, or the codec is unknown.
type RecordsError struct{ Err error }

func (e *RecordsError) Error() string { return "records of the model: " + e.Err.Error() }

func (e *RecordsError) Unwrap() error { return e.Err }

// newRecords returns the records of p. If last reads records in the same way, it reuses
// the codecs of last, so that their statistics of fields continue across versions.
func newRecords(p *Predictor, o *ScorerOptions, last *records) (*records, error) {
	r := &records{sig: p.Signature()}
	sig, features := r.sig, r.sig.Features()
	sig.MaxFeatures = max(codec.DefaultMaxFeatures, sig.MaxFeatures)
	if o.Columns != nil && (features != nil || sig.Schema != "") {
		// Columns are matched by name. The label may be absent.
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
	if err := r.name(p.Task(), p.Classes(), sig.Labels); err != nil {
		return nil, &RecordsError{err}
	}
	r.occlusion = sync.OnceValue(func() *occlusion { return newOcclusion(p) })
	r.inputs = sync.OnceValues(r.sig.Inputs)
	if o.Columns != nil {
		if err := r.compareColumns(o.Columns); err != nil {
			return nil, &RecordsError{err}
		}
	}
	return r, nil
}

// compareColumns sets unknownColumns and missingColumns.
func (r *records) compareColumns(columns []string) error {
	in, err := r.inputs()
	if err != nil || len(in.Fields) == 0 {
		return err
	}
	known := append([]string{r.sig.CSV.LabelColumn}, r.sig.CSV.DropColumns...)
	var fields []string
	for _, f := range in.Fields {
		if known = append(known, f.Name); f.Type != string(events.Ignore) {
			fields = append(fields, f.Name)
		}
	}
	r.unknownColumns, r.missingColumns = without(columns, known), without(fields, columns)
	return nil
}

// without returns the names that are not in others, up to codec.MaxNames.
func without(names, others []string) []string {
	names = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return slices.Contains(others, name) })
	return names[:min(len(names), codec.MaxNames)]
}

// compare compares the fields of a decoded record with the fields of the model; see
// codec.CompareFields.
func (r *records) compare(record []byte, inJSON bool) (unknown, missing []string) {
	if inJSON || r.dec == r.json || r.either && len(record) > 0 && record[0] == '{' {
		return codec.CompareFields(r.json, record)
	}
	return r.unknownColumns, r.missingColumns
}

// fieldsError returns the error about fields that are unknown or missing, nil if there
// are none.
func fieldsError(unknown, missing []string) error {
	var parts []string
	if len(unknown) > 0 {
		parts = append(parts, "unknown fields: "+strings.Join(unknown, ", "))
	}
	if len(missing) > 0 {
		parts = append(parts, "missing fields: "+strings.Join(missing, ", "))
	}
	if parts == nil {
		return nil
	}
	return &stream.FieldError{Stage: stream.StageFeature, Reason: stream.ReasonOther, Err: errors.New(strings.Join(parts, "; "))}
}

// open creates the codecs.
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

// name sets the labels and their texts.
func (r *records) name(task algos.Task, classes int, labels string) (err error) {
	if task == algos.Regress {
		return nil
	}
	if r.labels, err = codec.ParseClasses(labels); err != nil {
		return err
	}
	if classes > 2 && labels == "" { // the classes have numbers only
		r.labels = r.labels[:0]
		for k := range classes {
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

// decode reads a record, as JSON if inJSON is set, and checks the length of a dense
// vector.
func (r *records) decode(ctx context.Context, a *stream.Arena, rec *stream.Record, inJSON bool, ex *stream.Example) error {
	dec := r.dec
	switch {
	case inJSON:
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

// index returns the position of the label y in labels.
func (r *records) index(y float64) int {
	switch {
	case len(r.labels) > 2:
		return int(y)
	case y > 0:
		return 1
	}
	return 0
}

// row encodes a record given as a map, in JSON.
func (r *records) row(fields map[string]any) ([]byte, error) {
	record, err := r.asJSON(fields)
	if err == nil {
		return record, nil
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) { // encoding/json does not say which one it is
		if _, why := json.Marshal(fields[name]); why != nil {
			reason := stream.ReasonType
			if _, ok := errors.AsType[*json.UnsupportedValueError](why); ok {
				reason = stream.ReasonNotFinite
			}
			return nil, &stream.FieldError{Stage: stream.StageFeature, Reason: reason, Field: name, Err: why}
		}
	}
	return nil, err
}

func (r *records) asJSON(fields map[string]any) ([]byte, error) {
	in, err := r.inputs()
	if err != nil {
		return nil, err
	}
	if fields == nil {
		fields = map[string]any{}
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
