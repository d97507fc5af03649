package codec

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/streamsvm/streamsvm/events"
	"github.com/streamsvm/streamsvm/internal/wire"
	"github.com/streamsvm/streamsvm/stream"
)

// wireEvents reads events whose records refer to the schema that they were written with: the
// codecs of package wire, such as avro and protobuf. For each schema it makes a plan that
// maps fields to cells. Fields are matched by name, so that records of several schemas
// give the same features.
type wireEvents struct {
	common
	encoder // without a schema if all fields are wanted, or none is known yet
	format  wire.Format
	all     bool           // all fields are wanted
	schemas Schemas        // may be nil
	bare    *WrittenSchema // of all records, or nil
	readers sync.Pool

	last  atomic.Pointer[knownPlan] // the one used last
	mu    sync.Mutex
	plans map[planKey]*knownPlan
}

type planKey struct {
	id   SchemaID
	path string
}

// A knownPlan is a plan, or the error for a schema that has none.
type knownPlan struct {
	key    planKey
	plan   wire.Plan
	leaves []string // the names of all fields, if all are wanted
	err    error
}

// newWireEvents returns the codec of a format.
func newWireEvents(format wire.Format, c common, o Options) (*wireEvents, error) {
	w := &wireEvents{common: c, format: format, schemas: o.Schemas, bare: o.Written, plans: map[planKey]*knownPlan{}}
	w.readers.New = func() any { return new(wire.Reader) }
	if o.Schema != "" {
		var err error
		if w.encoder, err = newEncoder(o.Schema); err != nil {
			return nil, err
		}
	}
	if w.bare != nil {
		if p := w.make(planKey{}, w.bare); p.err != nil {
			return nil, fmt.Errorf("codec %s: %w", format.Name, p.err)
		}
	}
	return w, nil
}

// wantAll makes fields return all fields.
func (c *wireEvents) wantAll() {
	c.all = true
	clear(c.plans)
	if c.bare != nil {
		c.make(planKey{}, c.bare)
	}
}

// Name implements Codec.
func (c *wireEvents) Name() string { return c.format.Name }

// Append implements stream.Encoder. An event cannot be restored from its features.
func (c *wireEvents) Append(dst []byte, _ *stream.Example) ([]byte, error) {
	return dst, failf(stream.StageDecode, stream.ReasonOther, "", "events can only be read")
}

// Decode implements stream.Decoder.
func (c *wireEvents) Decode(value []byte, ex *stream.Example) error {
	return c.DecodeIn(nil, value, ex)
}

// DecodeIn implements stream.ArenaDecoder. It may wait for a schema.
func (c *wireEvents) DecodeIn(a *stream.Arena, value []byte, ex *stream.Example) error {
	return c.decode(context.Background(), a, nil, value, ex)
}

// DecodeRecord implements stream.RecordDecoder.
func (c *wireEvents) DecodeRecord(ctx context.Context, a *stream.Arena, r *stream.Record, ex *stream.Example) error {
	return c.decode(ctx, a, headOf(r), r.Value, ex)
}

// headOf returns the frame in the headers of a record, or nil.
func headOf(r *stream.Record) []byte {
	for i := range r.Headers {
		if r.Headers[i].Key == schemaHeader {
			return r.Headers[i].Value
		}
	}
	return nil
}

var errNoEvents = errors.New("it is not known yet which fields the events have")

func (c *wireEvents) decode(ctx context.Context, a *stream.Arena, head, value []byte, ex *stream.Example) error {
	if c.schema == nil {
		return fail(stream.StageDecode, stream.ReasonOther, "", errNoEvents)
	}
	if len(value) > MaxValueBytes {
		return checkSize(value)
	}
	r := c.readers.Get().(*wire.Reader)
	defer c.readers.Put(r)
	if _, err := c.read(ctx, r, head, value); err != nil {
		return err
	}
	var d draft
	var err error
	n := len(c.schema.Fields)
	if d.y, d.labelled, err = c.labels.cell(&r.Row.Cells[n], c.schema.Label); err != nil {
		return err
	}
	if d.id, err = identity(r, &r.Row.Cells[n+1], c.schema.ID); err != nil {
		return err
	}
	if d.weight, err = cellWeight(&r.Row.Cells[n+2], c.schema.Weight); err != nil {
		return err
	}
	if d.x, err = c.encode(&r.Row, a); err != nil {
		return err
	}
	d.finish(nil, ex)
	return nil
}

// read reads a record into the row of r.
func (c *wireEvents) read(ctx context.Context, r *wire.Reader, head, value []byte) (*knownPlan, error) {
	var key frame
	data := value
	if c.bare == nil {
		if value == nil || len(value) == 0 && head == nil {
			return nil, fail(stream.StageDecode, stream.ReasonEmpty, "", errEmpty)
		}
		var err error
		if key, data, err = unframe(head, value, c.format.Paths); err != nil {
			return nil, err
		}
	} else if value == nil {
		return nil, fail(stream.StageDecode, stream.ReasonEmpty, "", errEmpty)
	}
	p := c.last.Load()
	if p == nil || p.key.id != key.id || p.key.path != string(key.path) {
		var err error
		if p, err = c.find(ctx, &key); err != nil {
			return nil, err
		}
		c.last.Store(p)
	}
	if p.err != nil {
		return nil, p.err
	}
	n := len(p.leaves)
	if !c.all {
		n = len(c.schema.Fields)
	}
	r.Row.Reset(n + 3)
	r.IDCell, r.IDText = n+1, r.IDText[:0]
	return p, p.plan.Read(r, data)
}

// find returns the plan for records with the frame f.
func (c *wireEvents) find(ctx context.Context, f *frame) (*knownPlan, error) {
	key := planKey{f.id, string(f.path)}
	c.mu.Lock()
	p := c.plans[key]
	c.mu.Unlock()
	if p != nil {
		return p, nil
	}
	refuse := func(err error) error {
		return fail(stream.StageDecode, stream.ReasonSchema, "", err)
	}
	if c.schemas == nil {
		return nil, refuse(&SchemaError{f.id, ErrNoSchemas})
	}
	s, err := c.schemas.Schema(ctx, f.id)
	if _, ok := errors.AsType[*SchemaError](err); ok {
		return nil, refuse(err) // it may be registered later
	}
	if err != nil {
		return nil, err
	}
	if len(c.plans) > mostPlans && len(f.path) > 0 {
		return nil, refuse(&SchemaError{f.id, errors.New("too many different messages")})
	}
	return c.make(key, s), nil
}

// mostPlans bounds the memory for plans, because records can make up any path.
const mostPlans = 10_000

// make makes the plan for a schema.
func (c *wireEvents) make(key planKey, s *WrittenSchema) *knownPlan {
	p := &knownPlan{key: key}
	top := &level{names: c.names}
	if c.schema != nil {
		top.special = len(c.schema.Fields)
	}
	if c.all {
		top.names, top.leaves, top.seen = nil, &p.leaves, map[string]int{}
	}
	var err error
	if s.Type != c.format.Type {
		err = fmt.Errorf("it is of type %s, the codec is %s", s.Type, c.format.Name)
	} else {
		f := frame{key.id, []byte(key.path)}
		p.plan, err = c.format.Plan((*wire.Schema)(s), f.numbers(), top)
	}
	if err == nil && len(p.leaves) > 2*events.MaxFields {
		err = fmt.Errorf("more than %d fields", 2*events.MaxFields)
	}
	if err != nil {
		p.err = fail(stream.StageDecode, stream.ReasonSchema, "", &SchemaError{key.id, err})
	}
	c.mu.Lock()
	c.plans[key] = p
	c.mu.Unlock()
	return p
}

// fields returns all fields of a record. They share no memory with it.
func (c *wireEvents) fields(ctx context.Context, rec *stream.Record) ([]events.NamedCell, error) {
	r := c.readers.Get().(*wire.Reader)
	defer c.readers.Put(r)
	p, err := c.read(ctx, r, headOf(rec), rec.Value)
	if err != nil {
		return nil, err
	}
	var list []events.NamedCell
	for i, name := range p.leaves {
		cell := r.Row.Cells[i]
		if cell.Kind == events.Absent || cell.Num-cell.Num != 0 {
			continue // a non-finite value says nothing about the field
		}
		n := events.NamedCell{Name: name, Cell: cell}
		n.Cell.Text = bytes.Clone(cell.Text)
		if cell.Kind == events.List {
			n.Items = append(n.Items, r.Row.Items[cell.From:cell.To]...)
			for k := range n.Items {
				n.Items[k].Text = bytes.Clone(n.Items[k].Text)
			}
			n.Cell.From, n.Cell.To = 0, 0
		}
		list = append(list, n)
	}
	return list, nil
}

// A level selects the fields of one object: those listed in a schema, by name, or all.
type level struct {
	names   *names // nil if all fields are wanted
	special int    // the cell of the label; the id and the weight have the next ones
	prefix  string
	depth   int
	leaves  *[]string      // the names of all fields, in the order of their cells
	seen    map[string]int // the cells of keys, if all fields are wanted
}

// Cell implements wire.Level.
func (l *level) Cell(key string) int {
	if l.leaves != nil {
		at, ok := l.seen[key]
		if !ok {
			if at = len(*l.leaves); at > 2*events.MaxFields {
				return wire.Passed // records are refused, and of a map not all keys are read
			}
			*l.leaves, l.seen[key] = append(*l.leaves, pathOf(l.prefix, key)), at
		}
		return at
	}
	e := l.find(key)
	switch {
	case e == nil:
		return wire.Unlisted
	case e.at >= 0:
		return e.at
	case e.at == labelAt:
		return l.special
	case e.at == idAt:
		return l.special + 1
	case e.at == weightAt:
		return l.special + 2
	}
	return wire.Passed
}

func (l *level) find(key string) *name {
	if l.names == nil {
		return nil
	}
	return l.names.byKey[key]
}

// Known implements wire.Level.
func (l *level) Known(key string) bool { return l.leaves != nil || l.find(key) != nil }

// Path implements wire.Level.
func (l *level) Path(key string) string { return pathOf(l.prefix, key) }

// In implements wire.Level.
func (l *level) In(key string) wire.Level {
	sub := &level{special: l.special, depth: l.depth + 1, leaves: l.leaves}
	if l.leaves != nil {
		if l.depth+1 >= events.MaxDepth+2 || len(*l.leaves) > 2*events.MaxFields {
			return nil
		}
		sub.prefix, sub.seen = pathOf(l.prefix, key), map[string]int{}
		return sub
	}
	if e := l.find(key); e == nil || e.sub == nil {
		return nil
	} else {
		sub.names = e.sub
	}
	return sub
}

// identity returns the id of the event.
func identity(r *wire.Reader, c *events.Cell, field string) (string, error) {
	switch {
	case c.Kind <= events.Null:
		return "", nil
	case c.Kind == events.Text:
		return string(c.Text), nil
	case len(r.IDText) > 0:
		return string(r.IDText), nil
	case c.Kind == events.Number || c.Kind == events.Time:
		return strconv.FormatFloat(c.Num, 'g', -1, 64), nil
	}
	return "", failf(stream.StageDecode, stream.ReasonType, field, "the id is %s, want a text or a number", c.Kind)
}

// cellWeight returns the weight of an event, 0 if it has none.
func cellWeight(c *events.Cell, field string) (float32, error) {
	switch {
	case c.Kind <= events.Null:
		return 0, nil
	case c.Kind != events.Number:
		return 0, failf(stream.StageFeature, stream.ReasonType, field, "the weight is %s, want a number", c.Kind)
	}
	return weightOf(c.Num, field)
}

var truths = [2][]byte{[]byte("false"), []byte("true")}

// cell returns the label that the cell of field holds.
func (l *labels) cell(c *events.Cell, field string) (y label, labelled bool, err error) {
	switch {
	case c.Kind <= events.Null:
		return label{}, false, nil
	case c.Kind == events.Number && l.numeric():
		y, err = l.decode(c.Num)
	case c.Kind == events.Text && l.kind == texts && !l.regress:
		y, err = l.word(c.Text)
	case c.Kind == events.Bool && l.kind == bools && !l.regress:
		y, err = l.word(truths[int(c.Num)])
	default:
		return label{}, false, failf(stream.StageLabel, stream.ReasonType, field, "the label is %s, want %s", c.Kind, l.want())
	}
	return y, err == nil, renamed(err, field)
}

// want describes the valid labels, for errors.
func (l *labels) want() string {
	switch {
	case l.regress:
		return "a number"
	case l.kind == numbers:
		return "a number: " + l.String()
	}
	return l.String()
}

func (c *wireEvents) signature(s *Signature) {
	c.common.signature(s)
	if c.schema != nil {
		s.Schema = c.schema.String()
	}
}
