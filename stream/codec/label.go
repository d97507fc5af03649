package codec

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/streamsvm/streamsvm/events"
	"github.com/streamsvm/streamsvm/internal/wire"
	"github.com/streamsvm/streamsvm/stream"
)

// labelDecoder decodes the records of a topic of labels.
type labelDecoder struct {
	json    *jsonEvents            // its fields are the possible names of the label
	schemas Schemas                // or nil
	wire    map[string]*wireEvents // by type of schema

	rows    *csvCodec // of rows of csv; nil if there are none
	at, key int       // the columns of label and key, as in csvCodec
}

// NewLabels returns a decoder for the records of a topic with delayed labels, whose
// examples are in another topic. A value is
//
//	{"y":1,"id":"a7"}   a JSON object. The label is the field o.LabelsField, by default
//	                    the first of y, label, target, class and outcome that it has;
//	                    the identity is the field o.LabelsID, by default id. Other
//	                    fields are ignored
//	+1                  a label alone, a text with or without double quotes; blanks
//	                    around it and the end of a line are ignored
//	a7,1                a row of csv, if o.LabelsID or o.LabelsField is the number of a
//	                    column, from 1 on. The label is in the last column by default.
//	                    As on a topic of examples, there is no header
//
// With o.Schemas it may also be Avro or Protobuf with these fields, behind a reference
// to its schema, whatever the format of the examples.
//
// The decoder sets Y, Labelled and ID, and leaves X empty. It implements
// stream.RecordDecoder, with the errors and guarantees of the codecs.
func NewLabels(o Options) (stream.Decoder, error) {
	l, err := newLabels(o)
	if err != nil {
		return nil, fmt.Errorf("labels: %w", err)
	}
	return l, nil
}

func newLabels(o Options) (*labelDecoder, error) {
	c, err := o.common()
	if err != nil {
		return nil, err
	}
	// Each possible name of the label becomes a field, so that the codecs of events read
	// the record. The type only makes them read its value unchanged.
	s := &events.Schema{ID: o.LabelsID}
	if s.ID == "" {
		s.ID = "id"
	}
	names := usual
	if o.LabelsField != "" {
		names = []string{o.LabelsField}
	}
	if slices.Contains(names, o.LabelsID) {
		return nil, fmt.Errorf("the field %s cannot be both the label and what it is joined by", o.LabelsID)
	}
	for _, name := range names {
		s.Fields = append(s.Fields, events.Field{Name: name, Type: events.Categorical})
	}
	e := encoder{schema: s, names: newNames(s)}
	l := &labelDecoder{json: &jsonEvents{jsonCodec: jsonCodec{c}, encoder: e}, schemas: o.Schemas, wire: map[string]*wireEvents{}}
	l.json.readers.New = func() any { return new(eventReader) }
	if l.key, err = (&CSVOptions{}).column(o.LabelsID); err != nil {
		l.key = noColumn
	}
	if l.at, err = (&CSVOptions{}).column(o.LabelsField); err != nil {
		l.at = lastColumn
	}
	if l.key >= 0 || l.at >= 0 {
		if l.rows, err = newCSV(c, CSVOptions{Comma: o.CSV.Comma}); err != nil {
			return nil, err
		}
	}
	for _, name := range AllNames() {
		if f, ok := wire.Lookup(name); ok && o.Schemas != nil {
			if l.wire[f.Type], err = newWireEvents(f, c, Options{Schemas: o.Schemas}); err != nil {
				return nil, err
			}
			l.wire[f.Type].encoder = e
		}
	}
	return l, nil
}

// Decode implements stream.Decoder.
func (l *labelDecoder) Decode(value []byte, ex *stream.Example) error {
	return l.DecodeRecord(context.Background(), nil, &stream.Record{Value: value}, ex)
}

// DecodeIn implements stream.ArenaDecoder.
func (l *labelDecoder) DecodeIn(_ *stream.Arena, value []byte, ex *stream.Example) error {
	return l.Decode(value, ex)
}

// DecodeRecord implements stream.RecordDecoder.
func (l *labelDecoder) DecodeRecord(ctx context.Context, _ *stream.Arena, r *stream.Record, ex *stream.Example) error {
	var d draft
	err := l.read(ctx, r, func(c *events.Cell, field, id string) (err error) {
		if d.id = id; field == "" {
			d.labelled = true
			d.y, err = l.alone(c.Text)
			return err
		}
		if d.y, d.labelled, err = l.json.labels.cell(c, field); err == nil && !d.labelled {
			err = failf(stream.StageLabel, stream.ReasonMissing, field, "missing")
		}
		return err
	})
	if err == nil {
		d.finish(nil, ex)
	}
	return err
}

// read calls use with the label of a record, its field, and the record's identity. If
// the value is a bare label, field is empty, and the cell has its text. Texts are valid
// only during the call.
func (l *labelDecoder) read(ctx context.Context, r *stream.Record, use func(c *events.Cell, field, id string) error) error {
	c, value, head := l.json, unframed(r.Value), headOf(r)
	if l.schemas != nil && (head != nil || len(value) > 5 && value[0] == 0) {
		key, _, err := unframe(head, value, false)
		if err != nil {
			return err
		}
		s, err := l.schemas.Schema(ctx, key.id)
		if _, ok := errors.AsType[*SchemaError](err); ok {
			return fail(stream.StageDecode, stream.ReasonSchema, "", err)
		}
		if err != nil {
			return err
		}
		if w := l.wire[s.Type]; w != nil {
			return l.readWire(ctx, w, head, value, use)
		}
	}
	if err := checkSize(value); err != nil {
		return err
	}
	b := trimLine(value)
	i := skipBlank(b, 0)
	if i == len(b) {
		return fail(stream.StageDecode, stream.ReasonEmpty, "", errEmpty)
	}
	switch {
	case b[i] != '{' && l.rows != nil:
		return l.row(b, use)
	case b[i] != '{':
		return use(&events.Cell{Kind: events.Text, Text: bytes.TrimRight(b[i:], " \t")}, "", "")
	}
	er := c.readers.Get().(*eventReader)
	defer er.put()
	if err := er.read(c, value); err != nil {
		return err
	}
	return l.label(&er.row, er.id, use)
}

// row is read for a row of csv.
func (l *labelDecoder) row(b []byte, use func(c *events.Cell, field, id string) error) error {
	var text []byte
	var id string
	err := l.rows.split(b, func(k, of int, f []byte) error {
		if of == 1 || k == l.at || l.at == lastColumn && k == of-1 {
			text = bytes.Clone(f)
		} else if k == l.key {
			id = string(f)
		}
		return nil
	})
	switch {
	case err != nil:
		return err
	case none(text):
		return use(&events.Cell{}, l.json.schema.Fields[0].Name, id)
	}
	return use(&events.Cell{Kind: events.Text, Text: text}, "", id)
}

// readWire is read for a record of Avro or Protobuf.
func (l *labelDecoder) readWire(ctx context.Context, w *wireEvents, head, value []byte, use func(c *events.Cell, field, id string) error) error {
	if len(value) > MaxValueBytes {
		return checkSize(value)
	}
	wr := w.readers.Get().(*wire.Reader)
	defer w.readers.Put(wr)
	if _, err := w.read(ctx, wr, head, value); err != nil {
		return err
	}
	id, err := identity(wr, &wr.Row.Cells[len(w.schema.Fields)+1], w.schema.ID)
	if err != nil {
		return err
	}
	return l.label(&wr.Row, id, use)
}

// label passes the first possible label in a record to use.
func (l *labelDecoder) label(row *events.Row, id string, use func(c *events.Cell, field, id string) error) error {
	fields := l.json.schema.Fields
	for i := range fields {
		if c := &row.Cells[i]; c.Kind > events.Null {
			return use(c, fields[i].Name, id)
		}
	}
	return use(&events.Cell{}, fields[0].Name, id)
}

// alone decodes a value that is a bare label.
func (l *labelDecoder) alone(b []byte) (label, error) {
	labels := &l.json.labels
	if labels.numeric() {
		number, n := scan(b)
		if n == 0 || n != len(b) {
			return label{}, failf(stream.StageLabel, stream.ReasonSyntax, "y", "the label is %s, want a number or an object", quoted(b))
		}
		return labels.decode(number.float64(b))
	}
	if b[0] == '"' {
		p := jsonText{b: b}
		text, err := p.str("y")
		if err == nil && p.i < len(b) {
			err = p.fail("y", "want nothing after the label")
		}
		if err != nil {
			return label{}, err
		}
		b = text
	}
	return labels.word(b)
}
