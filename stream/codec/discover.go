package codec

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	mp "github.com/vmihailenco/msgpack/v5"

	"github.com/streamsvm/streamsvm/internal/event"
	"github.com/streamsvm/streamsvm/stream"
)

// Auto is the value of Options.Labels that has the labels found out, and of
// Options.Events that has it found out whether records are events.
const Auto = "auto"

// SampleSize is how many records a Discovery looks at, of a longer stream.
const SampleSize = 1000

// vectorSample is the same where the records are vectors and their labels a pair
// that is usual: of those there is less to be found out.
const vectorSample = 200

// sampleMost bounds the records that are looked at until two labels differ.
const sampleMost = 100 * SampleSize

// A Discovery finds out from the first records of a stream what a codec has to
// know: whether they are vectors or events, what the fields of events are, and
// which labels there are. What it finds is a function of the set of these
// records. It is used by one goroutine.
type Discovery struct {
	name string
	o    Options
	spec event.Spec
	csv  *csvCodec
	wire *wireEvents // which reads all fields

	records     int
	plain       int // vectors, as far as the codec json can tell
	minus, plus bool
	events      [][]event.Named
	values      [][]byte // of events
	labels      labelSet
	bad         error // of the first record that is not what the codec reads
	refused     int
}

// NewDiscovery returns a Discovery for the codec called name. Of the options
// Labels may be Auto, and Events Auto or a specification in YAML; see Options.
func NewDiscovery(name string, o Options) (*Discovery, error) {
	if name == "csv" && o.CSV.LabelColumn == "" {
		o.CSV.LabelColumn = o.Label
		for _, name := range usual {
			if o.CSV.LabelColumn == "" && slices.Contains(o.CSV.Columns, name) {
				o.CSV.LabelColumn = name
			}
		}
	}
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
	c, err := New(name, check)
	if err != nil {
		return nil, err
	}
	if o.Events != "" && o.Events != Auto {
		if d.spec, err = event.ParseSpec(o.Events); err != nil {
			return nil, fmt.Errorf("events: %w", err)
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
		d.spec.Label = "" // it has a name of its own
	}
	d.spec.Label = cmp.Or(o.Label, d.spec.Label)
	return d, nil
}

// Given describes what has been said about the records, on which what is found
// out depends; empty if nothing has.
func (d *Discovery) Given() string {
	said := ""
	for _, kv := range [][2]string{{"label", d.o.Label}, {"events", d.o.Events}} {
		if kv[1] != "" && kv[1] != Auto {
			said += kv[0] + ": " + strings.TrimSpace(kv[1]) + "\n"
		}
	}
	return strings.TrimSpace(said)
}

// Needed reports whether there is anything to be found out.
func (d *Discovery) Needed() bool { return d.o.Labels == Auto || d.o.Events != "" }

// given reports whether it is said that records are events.
func (d *Discovery) given() bool {
	return d.wire != nil || d.o.Label != "" || d.o.Events != "" && d.o.Events != Auto
}

// Look takes in the value of a record, and reports whether enough is known.
func (d *Discovery) Look(value []byte) bool {
	enough, _ := d.LookRecord(context.Background(), &stream.Record{Value: value})
	return enough
}

// LookRecord is Look for a record with its headers. It may have to wait for what
// the record refers to. An error is not about the record.
func (d *Discovery) LookRecord(ctx context.Context, rec *stream.Record) (enough bool, err error) {
	value := rec.Value
	if d.wire != nil {
		if err := d.lookWire(ctx, rec); err != nil {
			return false, err
		}
		return d.enough(), nil
	}
	d.records++
	switch d.name {
	case "json":
		d.lookJSON(value)
	case "csv":
		d.lookCSV(value)
	default:
		d.lookVector(value)
	}
	return d.enough(), nil
}

// enough reports whether enough is known.
func (d *Discovery) enough() bool {
	if d.minus && d.plus && d.plain == d.records && !d.given() {
		return true // what the labels are by default, and nothing else so far
	}
	if d.records >= vectorSample && d.plain == d.records && !d.given() && d.labels.usual() {
		return true
	}
	if d.o.Task == "regress" && d.plain == d.records && d.plain >= 10 && !d.given() {
		return true
	}
	return d.records >= SampleSize && d.differ() || d.records >= sampleMost
}

// LookLabel is Look for a record of a topic of labels.
func (d *Discovery) LookLabel(value []byte) bool {
	b := trimLine(value)
	if i := skipBlank(b, 0); i < len(b) && b[i] == '{' {
		if fields, err := jsonFields(value); err == nil {
			for i := range fields {
				if fields[i].Name == "y" {
					d.labels.add(&fields[i].Cell)
				}
			}
		}
	} else if i < len(b) {
		c := event.Cell{}
		if p := (jsonText{b: b, i: i}); readCell(&p, &c, "y", 1) != nil || p.i != len(b) {
			c = event.Cell{Kind: event.Text, Text: b[i:]}
		}
		d.labels.add(&c)
	}
	return d.records >= SampleSize && d.labels.differ()
}

// see notes a label.
func (d *Discovery) see(c *event.Cell) {
	if c.Kind == event.Number {
		d.minus, d.plus = d.minus || c.Num == -1, d.plus || c.Num == 1
	}
	d.labels.add(c)
}

func (d *Discovery) lookJSON(value []byte) {
	fields, err := jsonFields(value)
	if err != nil {
		if d.refused++; d.bad == nil {
			d.bad = err
		}
		return
	}
	if !d.given() && d.vector(value) {
		d.plain++
		for i := range fields {
			if fields[i].Name == "y" {
				d.see(&fields[i].Cell)
			}
		}
	}
	if d.o.Events != "" || d.given() {
		d.events, d.values = append(d.events, fields), append(d.values, value)
	}
}

// vector reports whether a JSON value is {"x":…}, whatever its label.
func (d *Discovery) vector(value []byte) bool {
	o := d.o
	o.Labels, o.Events, o.Schema, o.Task = "", "", "", "regress"
	c, err := o.common()
	if err != nil {
		return false
	}
	var ex stream.Example
	err = (&jsonCodec{c}).Decode(value, &ex)
	var fe *stream.FieldError
	return err == nil || errors.As(err, &fe) && (fe.Stage == stream.StageLabel || fe.Field == "y")
}

func (d *Discovery) lookCSV(value []byte) {
	fields, err := d.csv.csvFields(value)
	if err != nil {
		if d.refused++; d.bad == nil {
			d.bad = err
		}
		return
	}
	plain := !d.given()
	for i := range fields {
		f := &fields[i]
		if f.Name == csvLabel {
			c := f.Cell
			if c.Kind == event.Text {
				textLabel(&c)
			}
			d.see(&c)
			continue
		}
		if f.Cell.Kind == event.Text {
			b := event.Cell{}
			textCell(&b, f.Cell.Text, event.Numeric)
			plain = plain && b.Kind == event.Number
		} else if !d.o.CSV.EmptyAsZero {
			plain = false
		}
	}
	if plain {
		d.plain++
	}
	if d.o.Events != "" || d.given() {
		d.events, d.values = append(d.events, fields), append(d.values, value)
	}
}

func (d *Discovery) lookWire(ctx context.Context, rec *stream.Record) error {
	fields, err := d.wire.fields(ctx, rec)
	var bad *stream.FieldError
	switch {
	case err == nil:
		d.events = append(d.events, fields)
	case !errors.As(err, &bad):
		return err
	default:
		if d.refused++; d.bad == nil {
			d.bad = err
		}
	}
	d.records++
	return nil
}

// textLabel makes the number or boolean of a text that is one.
func textLabel(c *event.Cell) {
	switch text := string(c.Text); text {
	case "true":
		c.Kind, c.Num = event.Bool, 1
	case "false":
		c.Kind, c.Num = event.Bool, 0
	default:
		if v, err := strconv.ParseFloat(text, 64); err == nil && v-v == 0 {
			c.Kind, c.Num = event.Number, v
		}
	}
}

// lookVector looks at the label of a record of the codecs libsvm and msgpack.
func (d *Discovery) lookVector(value []byte) {
	d.plain++
	c := event.Cell{}
	switch d.name {
	case "libsvm":
		text, _, _ := strings.Cut(strings.TrimLeft(string(trimLine(value)), " \t"), " ")
		if text == "" || strings.Contains(text, ":") {
			return
		}
		c = event.Cell{Kind: event.Text, Text: []byte(text)}
		textLabel(&c)
	case "msgpack":
		var m map[string]any
		if mp.Unmarshal(value, &m) != nil {
			return
		}
		switch y := m["y"].(type) {
		case nil:
			return
		case string:
			c = event.Cell{Kind: event.Text, Text: []byte(y)}
		case bool:
			c.Kind = event.Bool
			if y {
				c.Num = 1
			}
		default:
			v, err := strconv.ParseFloat(fmt.Sprint(y), 64)
			if err != nil {
				return
			}
			c = event.Cell{Kind: event.Number, Num: v}
		}
	}
	d.see(&c)
}

// Decide returns the options of the codec: those of the Discovery with Labels
// and Schema as found out. The error says what cannot be found out, and what to
// do about it.
func (d *Discovery) Decide() (Options, error) {
	o := d.o
	o.Events, o.Label = "", ""
	sure := d.given() || d.plain == 0 || d.labelElsewhere()
	switch {
	case d.given() && len(d.events) == 0 && d.records == 0:
		return o, errors.New("there are no records to find out their fields from")
	case d.given() && len(d.events) == 0:
		return o, fmt.Errorf("none of the first %d records is an event; the first error: %w", d.records, d.bad)
	case len(d.events) > 0 && (sure || len(d.events) > d.plain):
		s, err := d.infer()
		if err != nil && sure {
			return o, err
		}
		if err == nil && (sure || d.better(s.String())) {
			o.Schema = s.String()
		}
	}
	if o.Schema == "" && d.name == "csv" && d.csv.label == noColumn && !o.Unlabelled {
		events, _, _ := d.shape()
		return o, d.noLabel("", events)
	}
	if o.Labels == Auto {
		var err error
		if o.Labels, err = d.labels.decide(d.o.Task == "regress"); err != nil {
			return o, err
		}
	}
	return o, nil
}

// better reports whether clearly more records can be read as events of the
// schema than as vectors, so that it is not a few bad ones.
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

// labelElsewhere reports whether records that look like vectors have no label
// where vectors have it, but have one under another usual name.
func (d *Discovery) labelElsewhere() bool {
	if d.name != "json" || d.plain == 0 || d.labels.any() || len(d.events) == 0 {
		return false
	}
	_, spec, _ := d.shape()
	return spec.Label != "" && spec.Label != usual[0]
}

// Events reports whether the records are events, as far as has been seen.
func (d *Discovery) Events() bool { return d.given() || len(d.events) > 0 && d.plain == 0 }

// Known returns the options with what another Discovery of the same stream has
// found out, as a Signature has it.
func (d *Discovery) Known(labels, schema string) Options {
	o := d.o
	o.Events, o.Label, o.Schema = "", "", schema
	if o.Labels == Auto {
		o.Labels = labels
	}
	return o
}

// Codec returns the codec for options as Decide or Known returned them.
func (d *Discovery) Codec(o Options) (Codec, error) { return New(d.name, o) }

// usual are the names of labels that are taken for such without being told.
var usual = []string{"y", "label", "target", "class", "outcome"}

// shape returns the events without their envelope, if any, and where their label
// is.
func (d *Discovery) shape() ([][]event.Named, event.Spec, map[string]int) {
	spec, events := d.spec, d.events
	found := map[string]int{}
	for _, e := range events {
		for i := range e {
			found[e[i].Name]++
		}
	}
	if spec.Root == "" {
		spec.Root = root(found)
	}
	if spec.Root != "" {
		events = make([][]event.Named, len(d.events))
		clear(found)
		for k, e := range d.events {
			for i := range e {
				if name, ok := strings.CutPrefix(e[i].Name, spec.Root+"."); ok {
					n := e[i]
					n.Name = name
					events[k] = append(events[k], n)
					found[name]++
				}
			}
		}
	}
	if spec.Label == "" && found[csvLabel] > 0 {
		spec.Label = csvLabel
	}
	for _, name := range usual {
		if spec.Label == "" && found[name] > 0 && d.name != "csv" {
			spec.Label = name
		}
	}
	if spec.ID == "" && found["id"] > 0 && spec.Features["id"].Type == "" {
		spec.ID = "id"
	}
	return events, spec, found
}

// eventLabels adds the labels of events to those that have been seen.
func (d *Discovery) eventLabels(events [][]event.Named, spec event.Spec, l *labelSet) {
	if d.name == "csv" {
		return // they have been seen
	}
	for _, e := range events {
		for i := range e {
			if e[i].Name == spec.Label {
				l.add(&e[i].Cell)
			}
		}
	}
}

// differ reports whether there are two labels, as far as that matters.
func (d *Discovery) differ() bool {
	if d.o.Labels != Auto || d.o.Task == "regress" || d.labels.differ() {
		return true
	}
	if len(d.events) == 0 || d.records%SampleSize != 0 {
		return false
	}
	var l labelSet
	events, spec, _ := d.shape()
	d.eventLabels(events, spec, &l)
	return l.differ() || spec.Label == ""
}

// infer finds out what the fields of the events are.
func (d *Discovery) infer() (*event.Schema, error) {
	events, spec, found := d.shape()
	if (spec.Label == "" || found[spec.Label] == 0) && !d.o.Unlabelled {
		return nil, d.noLabel(spec.Label, events)
	}
	d.eventLabels(events, spec, &d.labels)
	s, err := event.Infer(events, spec)
	if err == nil && s.Label == csvLabel {
		s.Label = ""
	}
	return s, err
}

// root returns where the fields of events are that come in an envelope known by
// its fields: of Debezium, of Kafka Connect with schemas, of CloudEvents.
func root(found map[string]int) string {
	has := func(prefix string) bool {
		for name := range found {
			if strings.HasPrefix(name, prefix) {
				return true
			}
		}
		return false
	}
	for _, p := range []string{"payload.", ""} {
		if (p == "" || has("schema.")) && found[p+"op"] > 0 && (has(p+"after.") || has(p+"source.")) {
			return p + "after"
		}
	}
	switch {
	case has("schema.") && has("payload."):
		return "payload"
	case found["specversion"] > 0 && has("data."):
		return "data"
	}
	return ""
}

// candidates returns the fields that might hold the label, those with fewest
// values first, and their values.
func candidates(events [][]event.Named) (fields []string, values map[string]map[string]int) {
	values = map[string]map[string]int{}
	for _, e := range events {
		for i := range e {
			c := &e[i].Cell
			if c.Kind != event.Text && c.Kind != event.Bool && c.Kind != event.Number || e[i].Name == csvLabel {
				continue
			}
			m := values[e[i].Name]
			if m == nil {
				m = map[string]int{}
				values[e[i].Name] = m
			}
			if len(m) <= 20 {
				m[cellText(c)]++
			}
		}
	}
	for field, m := range values {
		if len(m) >= 2 && len(m) <= 20 {
			fields = append(fields, field)
		}
	}
	slices.SortFunc(fields, func(a, b string) int {
		return cmp.Or(len(values[a])-len(values[b]), strings.Compare(a, b))
	})
	return fields, values
}

// LabelField returns the only field of the events that has two values, and so may
// well hold the label; "" if there is none, or several.
func (d *Discovery) LabelField() string {
	events, _, _ := d.shape()
	fields, values := candidates(events)
	if len(fields) == 0 || len(values[fields[0]]) != 2 || len(fields) > 1 && len(values[fields[1]]) == 2 {
		return ""
	}
	return fields[0]
}

// noLabel says which fields might hold the label.
func (d *Discovery) noLabel(name string, events [][]event.Named) error {
	fields, values := candidates(events)
	var list []string
	for _, field := range fields[:min(len(fields), 6)] {
		words := slices.Sorted(maps.Keys(values[field]))
		if len(words) > 3 {
			words = append(words[:3], "...")
		}
		list = append(list, fmt.Sprintf("%s (%s)", field, strings.Join(words, ", ")))
	}
	what := "no field y, label or target in the events tells what to predict"
	if d.name == "csv" {
		what = "no column y, label or target tells what to predict"
	}
	if name != "" {
		what = fmt.Sprintf("the events have no field %s to predict", name)
	}
	if list == nil {
		return errors.New(what + ": name it with --label")
	}
	return fmt.Errorf("%s: name it with --label; fields with few values are %s", what, strings.Join(list, ", "))
}

func cellText(c *event.Cell) string {
	switch c.Kind {
	case event.Text:
		return string(c.Text)
	case event.Bool:
		return strconv.FormatBool(c.Num != 0)
	}
	return strconv.FormatFloat(c.Num, 'g', -1, 64)
}

// labelSet holds the labels that have been seen.
type labelSet struct {
	numbers map[float64]int
	truths  [2]int
	texts   map[string]int
	strange int
}

// mostLabels bounds what is kept.
const mostLabels = 1000

func (l *labelSet) add(c *event.Cell) {
	switch c.Kind {
	case event.Absent, event.Null:
	case event.Number:
		if l.numbers == nil {
			l.numbers = map[float64]int{}
		}
		if len(l.numbers) <= mostLabels {
			l.numbers[c.Num+0]++
		}
	case event.Bool:
		l.truths[int(c.Num)]++
	case event.Text:
		if l.texts == nil {
			l.texts = map[string]int{}
		}
		if len(l.texts) <= mostLabels {
			l.texts[string(c.Text)]++
		}
	default:
		l.strange++
	}
}

// usual reports whether both of two labels that are usual have come, and no other.
func (l *labelSet) usual() bool {
	if l.truths[0] > 0 && l.truths[1] > 0 {
		return len(l.numbers)+len(l.texts)+l.strange == 0
	}
	return len(l.texts)+l.strange+l.truths[0]+l.truths[1] == 0 && len(l.numbers) == 2 && l.numbers[1] > 0 && (l.numbers[0] > 0 || l.numbers[2] > 0)
}

// differ reports whether there are two labels.
func (l *labelSet) differ() bool {
	return len(l.numbers) > 1 || l.truths[0] > 0 && l.truths[1] > 0 || len(l.texts) > 1
}

// mostClasses is the number of labels up to which they are classes.
const mostClasses = 64

// Labels of which there are at most rare among all are taken for mistakes where
// the others are of one type, or a pair that is usual.
const (
	rareKind  = 0.05 // of another type
	rareClass = 0.005
)

// decide returns Options.Labels.
func (l *labelSet) decide(regress bool) (string, error) {
	truths := l.truths[0] + l.truths[1]
	numbers, texts := sum(l.numbers), sum(l.texts)
	all := truths + numbers + texts + l.strange
	most := max(truths, numbers, texts)
	switch {
	case regress || all == 0:
		return "", nil
	case float64(all-most) > rareKind*float64(all):
		return "", errors.New("the labels are of different types: say which two or more there are with --labels")
	case most == truths:
		return "false,true", nil
	case most == numbers:
		return l.numberLabels()
	}
	words := slices.Sorted(maps.Keys(l.texts))
	switch {
	case len(words) == 1:
		return "", fmt.Errorf("all labels are %q: there is nothing to tell apart; is --codec right?", words[0])
	case len(words) > mostClasses:
		return "", fmt.Errorf("there are %d different labels or more, the limit is %d classes", len(words), mostClasses)
	}
	for i, t := range words {
		if _, _, _, err := parseLabel(t, false); err != nil {
			return "", err
		}
		b, err := json.Marshal(t)
		if err != nil {
			return "", err
		}
		words[i] = string(b)
	}
	return strings.Join(words, ","), nil
}

// any reports whether there is a label.
func (l *labelSet) any() bool {
	return len(l.numbers)+len(l.texts)+l.strange+l.truths[0]+l.truths[1] > 0
}

func sum[K comparable](counts map[K]int) (n int) {
	for _, k := range counts {
		n += k
	}
	return n
}

// numberLabels returns Options.Labels for numbers.
func (l *labelSet) numberLabels() (string, error) {
	numbers, all := slices.Sorted(maps.Keys(l.numbers)), float64(sum(l.numbers))
	// within reports whether the labels are a and b, but for mistakes.
	within := func(a, b float64) bool {
		others := slices.DeleteFunc(slices.Clone(numbers), func(v float64) bool { return v == a || v == b })
		return len(others) < len(numbers) && !slices.ContainsFunc(others, func(v float64) bool { return float64(l.numbers[v]) > max(rareClass*all, 1) })
	}
	switch {
	case within(-1, 1):
		return "-1,1", nil
	case within(0, 1):
		return "0,1", nil
	case within(1, 2):
		return "1,2", nil
	case len(numbers) == 1:
		return "", fmt.Errorf("all labels are %v: there is nothing to tell apart", numbers[0])
	}
	whole := !slices.ContainsFunc(numbers, func(v float64) bool { return v != math.Trunc(v) })
	if len(numbers) > mostClasses || len(numbers) > 2 && !whole {
		return "", fmt.Errorf("the labels are %d different numbers, such as %v: predict them with --task regress, or list classes with --labels", len(numbers), numbers[0])
	}
	list := make([]string, len(numbers))
	for i, v := range numbers {
		list[i] = strconv.FormatFloat(v, 'g', -1, 64)
	}
	return strings.Join(list, ","), nil
}
