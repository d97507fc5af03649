package codec

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/streamsvm/streamsvm/events"
	"github.com/streamsvm/streamsvm/stream"
)

// Auto is the value of Options.Labels that detects the labels, and of Options.Events
// that detects whether records are events.
const Auto = "auto"

// SampleSize is the number of records that a Discovery reads if the stream is longer.
const SampleSize = 1000

// LeastSample is the number of readable records that suffice when a stream brings few
// more. See Discovery.Usable.
const LeastSample = 20

// vectorSample replaces SampleSize for vectors with a usual pair of labels, where there
// is less to find out.
const vectorSample = 200

// sampleMost bounds the search for a second label.
const sampleMost = 100 * SampleSize

// A Discovery infers the options of a codec from the first records of a stream: whether
// records are vectors or events, the schema of events, and the labels. The result depends
// only on the set of these records. Only one goroutine may use it.
type Discovery struct {
	name string
	o    Options
	spec events.Spec
	csv  *csvCodec
	wire *wireEvents // which reads all fields

	records     int
	plain       int // records that may be vectors
	minus, plus bool
	events      [][]events.NamedCell
	values      [][]byte       // of events
	schema      *events.Schema // that Decide has inferred
	labels      labelSet
	counted     bool   // labels includes the labels of events
	label       string // the field of the label, in records after the sample
	vectors     Codec  // of the codecs libsvm and msgpack; for the features only
	bad         error  // the error of the first record that cannot be read
	hint        string // a description of the first record, if it is not an event
	refused     int
	ids         int // vectors that have the field o.ID

	apart *labelDecoder // for the topic of labels
	first []byte        // its first value
	// Number of records of that topic with a label, and with the field o.LabelsID.
	labelled, labelIDs int
}

// NewDiscovery returns a Discovery for the codec called name. Labels may be Auto, and
// Events may be Auto or a specification in YAML; see Options.
func NewDiscovery(name string, o Options) (*Discovery, error) {
	if name == "csv" && o.CSV.LabelColumn == "" {
		o.CSV.LabelColumn = o.Label
		for _, name := range usual {
			if o.CSV.LabelColumn == "" && slices.Contains(o.CSV.Columns, name) {
				o.CSV.LabelColumn = name
			}
		}
	}
	o.LabelsField = cmp.Or(o.LabelsField, o.Label)
	if name == "csv" {
		o.Label = ""
	}
	d := &Discovery{name: name, o: o}
	check := o
	check.Schema = ""
	if o.Labels == Auto {
		check.Labels = ""
	}
	check.Events = ""
	if name == "csv" {
		check.ID = "" // ID makes the records events
	}
	c, err := New(name, check)
	if err != nil {
		return nil, err
	}
	if o.Events != "" && o.Events != Auto {
		if d.spec, err = events.ParseSpec(o.Events); err != nil {
			return nil, fmt.Errorf("events: %w", err)
		}
	}
	check.LabelsField = cmp.Or(o.LabelsField, d.spec.Label)
	d.o.LabelsField = check.LabelsField
	if d.apart, err = newLabels(check); err != nil {
		return nil, err
	}
	if check.Task = "regress"; name == "libsvm" || name == "msgpack" {
		check.Labels = ""
		if d.vectors, err = New(name, check); err != nil {
			return nil, err
		}
	}
	d.wire, _ = c.(*wireEvents)
	if d.wire != nil {
		if o.Events == "" {
			return nil, fmt.Errorf("records of codec %s are events, not vectors", name)
		}
		d.wire.wantAll()
	}
	if o.Events != "" && name != "json" && name != "csv" && d.wire == nil {
		if o.Events != Auto {
			return nil, fmt.Errorf("codec %s has no fields with names: events are for json, csv, avro and protobuf", name)
		}
		d.o.Events = ""
	}
	d.csv, _ = c.(*csvCodec)
	if d.csv != nil && d.csv.label == noColumn && d.spec.Label != "" {
		d.o.CSV.LabelColumn, d.spec.Label = d.spec.Label, ""
		if d.csv, err = newCSV(d.csv.common, d.o.CSV); err != nil {
			return nil, err
		}
	}
	if d.csv != nil {
		d.spec.Label = "" // the label column has a reserved name
	}
	d.spec.Label, d.spec.ID = cmp.Or(o.Label, d.spec.Label), cmp.Or(o.ID, d.spec.ID)
	return d, nil
}

// Given describes the options that the result depends on; empty if none is given.
func (d *Discovery) Given() string {
	said := ""
	for _, kv := range [][2]string{{"label", d.o.Label}, {"events", d.o.Events}} {
		if kv[1] != "" && kv[1] != Auto {
			said += kv[0] + ": " + strings.TrimSpace(kv[1]) + "\n"
		}
	}
	return strings.TrimSpace(said)
}

// Needed reports whether there is anything to find out.
func (d *Discovery) Needed() bool { return d.o.Labels == Auto || d.o.Events != "" }

// given reports whether the options say that records are events.
func (d *Discovery) given() bool {
	return d.wire != nil || d.o.Label != "" || d.csv != nil && d.o.ID != "" || d.o.Events != "" && d.o.Events != Auto
}

// Look adds the value of a record to the sample, and reports whether enough is known.
func (d *Discovery) Look(value []byte) bool {
	enough, _ := d.LookRecord(context.Background(), &stream.Record{Value: value})
	return enough
}

// LookRecord is Look for a record with its headers. It may wait for a schema. The error
// is never about the record itself.
func (d *Discovery) LookRecord(ctx context.Context, rec *stream.Record) (enough bool, err error) {
	value := rec.Value
	if d.wire != nil {
		if err := d.lookWire(ctx, rec); err != nil {
			return false, err
		}
		return d.enough(), nil
	}
	if d.records++; d.records == 1 {
		d.hint = Hint(value)
	}
	switch {
	case d.name == "json" && d.records > SampleSize:
		if c, err := jsonField(value, d.label); err == nil {
			d.labels.add(&c)
		}
	case d.name == "json":
		d.lookJSON(value)
	case d.name == "csv":
		d.lookCSV(value)
	default:
		d.lookVector(value)
	}
	return d.enough(), nil
}

// enough reports whether enough is known.
func (d *Discovery) enough() bool {
	plain := d.plain == d.records && !d.given() // nothing but vectors
	switch {
	case plain && (d.minus && d.plus || d.records >= vectorSample && d.labels.usual() || d.o.Task == "regress" && d.plain >= 10):
		return true
	case d.records == SampleSize:
		d.count()
	}
	return d.records >= SampleSize && d.labelsKnown() || d.records >= sampleMost
}

// labelsKnown reports whether the labels are known without further records. It is valid
// after count.
func (d *Discovery) labelsKnown() bool {
	known := d.o.Labels != Auto || d.o.Task == "regress" || d.labels.differ() || d.o.MissingLabel != "" && d.labels.any()
	if d.o.Unlabelled {
		return known && (d.o.Labels != Auto || d.labelled >= min(d.records, vectorSample))
	}
	return known || d.label == ""
}

// Usable reports whether the records seen suffice: at least LeastSample can be read, and
// they have two labels. More records give a better schema, so this is for streams that
// would take long to reach SampleSize.
func (d *Discovery) Usable() bool {
	c := *d
	c.labels.numbers, c.labels.texts = maps.Clone(d.labels.numbers), maps.Clone(d.labels.texts)
	c.count()
	if d.o.Labels == Auto && d.o.Task != "regress" && d.plain > 0 && !c.labels.any() {
		return false // few vectors of the stream may have a label
	}
	return d.records-d.refused >= LeastSample && c.labelsKnown()
}

// Refused returns the number of records seen, and the error of the first one, if none of
// them can be read; otherwise 0 and nil. The error is a *stream.FieldError.
func (d *Discovery) Refused() (int, error) {
	if d.refused < d.records {
		return 0, nil
	}
	return d.records, d.bad
}

// count adds the labels of the events in the sample. Of later records only the label is
// read.
func (d *Discovery) count() {
	if d.counted {
		return
	}
	d.counted = true
	events, spec, _ := d.shape()
	d.label = spec.Label
	if len(d.events) == 0 {
		d.label = usual[0]
	} else if spec.Root != "" && spec.Label != "" {
		d.label = spec.Root + "." + spec.Label
	}
	if d.name == "csv" {
		return // split has already added them
	}
	for _, e := range events {
		for i := range e {
			if e[i].Name == spec.Label {
				d.labels.add(&e[i].Cell)
			}
		}
	}
}

// see adds a label.
func (d *Discovery) see(c *events.Cell) {
	if c.Kind == events.Number {
		d.minus, d.plus = d.minus || c.Num == -1, d.plus || c.Num == 1
	}
	d.labels.add(c)
}

func (d *Discovery) lookJSON(value []byte) {
	plain, sparse := false, false
	if !d.given() {
		var err error
		if plain, sparse, err = d.vector(value); !plain && d.o.Events == "" {
			d.keep(nil, nil, err, false)
			return
		}
	}
	if plain {
		d.plain++
		if c, err := jsonField(value, usual[0]); err == nil {
			d.see(&c)
		}
		if _, err := jsonAt(value, d.o.ID); err == nil {
			d.ids++
		}
	}
	if sparse || d.o.Events == "" && !d.given() {
		return // one field per feature would take much memory, for nothing
	}
	fields, err := jsonFields(value)
	d.keep(fields, value, err, plain)
}

// Hint returns what to do about records like this one, which is not a JSON object. It
// begins with a semicolon, or is empty.
func Hint(value []byte) string {
	switch text := bytes.TrimSpace(value); {
	case len(text) > 0 && text[0] == '[':
		return "; this is a JSON array: write each of its objects on a line, as jq -c '.[]' does"
	case len(text) > 1 && text[0] == 0x1f && text[1] == 0x8b:
		return "; this is gzip: decompress it, or give the file a name with .gz"
	case len(text) > 0 && text[0] != '{' && bytes.ContainsAny(text, ",;\t"):
		return "; if this is CSV, give --codec csv"
	}
	return ""
}

// keep adds the fields of a record to the sample, or counts the record as refused.
func (d *Discovery) keep(fields []events.NamedCell, value []byte, err error, plain bool) {
	switch {
	case err == nil:
		d.events, d.values = append(d.events, fields), append(d.values, value)
	case !plain:
		if d.refused++; d.bad == nil {
			d.bad = err
		}
	}
}

// vector reports whether a JSON value has the form {"x":…}, whatever its label, and
// whether it is sparse; the error says why it does not have the form.
func (d *Discovery) vector(value []byte) (plain, sparse bool, err error) {
	o := d.o
	o.Labels, o.Events, o.Schema, o.Task = "", "", "", "regress"
	c, err := o.common()
	if err != nil {
		return false, false, err
	}
	p, err := jsonAt(value, "x")
	if err != nil {
		return false, false, err
	}
	x, err := (&jsonCodec{c}).vector(nil, &p)
	return err == nil, err == nil && x.Sparse(), err
}

func (d *Discovery) lookCSV(value []byte) {
	fields, err := d.csv.csvFields(value)
	plain := !d.given() && err == nil
	for i := range fields {
		f := &fields[i]
		if f.Name == csvLabel {
			c := f.Cell
			if c.Kind == events.Text {
				textLabel(&c)
			}
			d.see(&c)
			continue
		}
		if f.Cell.Kind == events.Text {
			b := events.Cell{}
			textCell(&b, f.Cell.Text, events.Numeric)
			plain = plain && b.Kind == events.Number && !events.CodeOrTime(f.Name, b.Num)
		} else if !d.o.CSV.EmptyAsZero {
			plain = false
		}
	}
	if d.records > SampleSize {
		return // only its label counts
	}
	if plain {
		d.plain++
	}
	if err != nil || d.o.Events != "" || d.given() {
		d.keep(fields, value, err, false)
	}
}

func (d *Discovery) lookWire(ctx context.Context, rec *stream.Record) error {
	fields, err := d.wire.fields(ctx, rec)
	var bad *stream.FieldError
	if err != nil && !errors.As(err, &bad) {
		return err
	}
	if d.records++; d.records <= SampleSize {
		d.keep(fields, nil, err, false)
		return nil
	}
	for i := range fields {
		if fields[i].Name == d.label {
			d.labels.add(&fields[i].Cell)
		}
	}
	return nil
}

// lookVector processes a record of the codecs libsvm and msgpack, where only the labels
// are unknown.
func (d *Discovery) lookVector(value []byte) {
	d.plain++
	label, rest := vectorLabel(d.name, value)
	d.see(&label)
	var ex stream.Example
	var bad *stream.FieldError
	if errors.As(d.vectors.Decode(rest, &ex), &bad) && bad.Field != "y" {
		d.keep(nil, nil, bad, false)
	}
}

// Decide returns the options of the codec: the options of the Discovery, with Labels and
// Schema set. The error says what cannot be inferred, and what to do about it.
func (d *Discovery) Decide() (Options, error) {
	o := d.o
	o.Events, o.Label = "", ""
	if o.MissingLabel != "" && d.labels.any() {
		c := events.Cell{Kind: events.Text, Text: []byte(o.MissingLabel)}
		aloneLabel(&c)
		d.labels.add(&c)
	}
	sure := d.given() || d.plain == 0 || d.labelElsewhere()
	switch {
	case d.given() && len(d.events) == 0 && d.records == 0:
		return o, errors.New("there are no records to infer the fields from")
	case d.given() && len(d.events) == 0:
		return o, fmt.Errorf("none of the first %d records is an event; the first error: %w%s", d.records, d.bad, d.hint)
	case len(d.events) > 0 && (sure || len(d.events) > d.plain):
		s, err := d.infer()
		if err != nil && sure {
			return o, err
		}
		if err == nil && (sure || d.better(s.String())) {
			o.Schema, d.schema = s.String(), s
		}
	}
	if o.Schema == "" && o.ID != "" && d.plain > 0 && d.ids == 0 {
		return o, fmt.Errorf("none of the first %d records has a field %s to join by", d.records, o.ID)
	}
	if err := d.checkApart(); err != nil {
		return o, err
	}
	if o.Schema == "" && d.name == "csv" && d.csv.label == noColumn && !o.Unlabelled {
		events, _, _ := d.shape()
		return o, d.noLabel("", events)
	}
	if o.Labels == Auto {
		var err error
		if o.Labels, err = d.labels.decide(d.o.Task == "regress"); err != nil {
			if (d.o.Unlabelled || d.o.LaterLabels) && !d.labels.differ() {
				err = errors.New("all labels are the same: --missing-label names that of the examples without one")
			}
			return o, err
		}
	}
	return o, nil
}

// Schema returns the schema that Decide has inferred, with notes; nil if there is none.
func (d *Discovery) Schema() *events.Schema { return d.schema }

// better reports whether clearly more records (more than a few bad ones) can be read as
// events of the schema than as vectors.
func (d *Discovery) better(schema string) bool {
	o := d.o
	o.Schema, o.Events = schema, ""
	var err error
	if o.Labels == Auto {
		if o.Labels, err = d.labels.decide(o.Task == "regress"); err != nil {
			return false
		}
	}
	c, err := New(d.name, o)
	if err != nil {
		return false
	}
	n := 0
	var ex stream.Example
	for _, v := range d.values {
		if c.Decode(v, &ex) == nil {
			n++
		}
	}
	return 20*n > 21*d.plain
}

// labelElsewhere reports whether records that look like vectors have no y, but a label
// under another usual name.
func (d *Discovery) labelElsewhere() bool {
	if d.name != "json" || d.plain == 0 || d.labels.any() || len(d.events) == 0 {
		return false
	}
	_, spec, _ := d.shape()
	return spec.Label != "" && spec.Label != usual[0]
}

// Events reports whether the records seen so far are events.
func (d *Discovery) Events() bool { return d.given() || len(d.events) > 0 && d.plain == 0 }

// Known returns the options with the labels and the schema that another Discovery of the
// same stream has found, in the form of a Signature.
func (d *Discovery) Known(labels, schema string) Options {
	o := d.o
	o.Events, o.Label, o.Schema = "", "", schema
	if o.Labels == Auto {
		o.Labels = labels
	}
	return o
}

// Codec returns the codec for options returned by Decide or Known.
func (d *Discovery) Codec(o Options) (Codec, error) { return New(d.name, o) }
