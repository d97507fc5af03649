package codec

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"strconv"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"github.com/streamsvm/streamsvm/internal/event"
	"github.com/streamsvm/streamsvm/stream"
)

// wireEvents reads events whose records say with which schema they have been
// written: the codecs avro and protobuf. For each schema there is a plan, made
// once, of where the fields go; none depends on the order of fields in it, so
// that records of several schemas give the same features.
type wireEvents struct {
	common
	events                 // without a schema where all fields are wanted, or none is known yet
	name    string         // of the codec
	all     bool           // fields are wanted, whatever they are called
	schemas Schemas        // may be nil
	bare    *WrittenSchema // of all records, or nil
	readers sync.Pool

	last  atomic.Pointer[knownPlan] // the one used last
	mu    sync.Mutex
	plans map[planKey]*knownPlan
}

// A plan reads records of one schema into a row.
type plan interface {
	read(r *wireReader, data []byte) error
}

type planKey struct {
	id   SchemaID
	path string
}

// A knownPlan is one that has been made, or why it cannot be.
type knownPlan struct {
	key    planKey
	plan   plan
	leaves []string // where all fields are wanted: their names
	err    error
}

// newWireEvents returns the codec called name, avro or protobuf.
func newWireEvents(name string, c common, o Options) (*wireEvents, error) {
	w := &wireEvents{common: c, name: name, schemas: o.Schemas, bare: o.Written, plans: map[planKey]*knownPlan{}}
	w.readers.New = func() any { return new(wireReader) }
	if o.Schema != "" {
		var err error
		if w.events, err = newEvents(o.Schema); err != nil {
			return nil, err
		}
	}
	if w.bare != nil {
		if p := w.make(planKey{}, w.bare); p.err != nil {
			return nil, fmt.Errorf("codec %s: %w", name, p.err)
		}
	}
	return w, nil
}

// wantAll makes the codec one that reads all fields, by fields.
func (c *wireEvents) wantAll() {
	c.all = true
	clear(c.plans)
	if c.bare != nil {
		c.make(planKey{}, c.bare)
	}
}

// Name implements Codec.
func (c *wireEvents) Name() string { return c.name }

// Append implements stream.Encoder: what an event was cannot be told from its
// features.
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
	if len(value) > c.maxBytes {
		return c.checkSize(value)
	}
	r := c.readers.Get().(*wireReader)
	defer c.readers.Put(r)
	if _, err := c.read(ctx, r, head, value); err != nil {
		return err
	}
	n := len(c.schema.Fields)
	out := stream.Example{}
	y, labelled, err := c.labels.cell(&r.row.Cells[n], c.schema.Label)
	if err != nil {
		return err
	}
	out.Y, out.Class, out.Labelled = y.y, y.class, labelled
	if out.ID, err = r.identity(&r.row.Cells[n+1], c.schema.ID); err != nil {
		return err
	}
	if out.Weight, err = cellWeight(&r.row.Cells[n+2], c.schema.Weight); err != nil {
		return err
	}
	if out.X, err = c.encode(&r.row, a); err != nil {
		return err
	}
	*ex = out
	return nil
}

// read reads a record into the row of r.
func (c *wireEvents) read(ctx context.Context, r *wireReader, head, value []byte) (*knownPlan, error) {
	var key frame
	data := value
	if c.bare == nil {
		if value == nil || len(value) == 0 && head == nil {
			return nil, fail(stream.StageDecode, stream.ReasonEmpty, "", errEmpty)
		}
		var err error
		if key, data, err = unframe(head, value, c.name == "protobuf"); err != nil {
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
	r.row.Reset(n + 3)
	r.at, r.idAt, r.depth, r.idText, r.scattered = 0, n+1, 0, r.idText[:0], false
	return p, p.plan.read(r, data)
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
	var bad *SchemaError
	if errors.As(err, &bad) {
		return nil, refuse(err) // there may be one later
	}
	if err != nil {
		return nil, err
	}
	if len(c.plans) > mostPlans && len(f.path) > 0 {
		return nil, refuse(&SchemaError{f.id, errors.New("too many different messages")})
	}
	return c.make(key, s), nil
}

// mostPlans bounds what records can have made by paths that they make up.
const mostPlans = 10_000

// make makes the plan for a schema.
func (c *wireEvents) make(key planKey, s *WrittenSchema) *knownPlan {
	p := &knownPlan{key: key}
	top := &level{names: c.names}
	if c.schema != nil {
		top.special = len(c.schema.Fields)
	}
	if c.all {
		top.names, top.leaves = nil, &p.leaves
	}
	want := AvroSchema
	var err error
	if c.name == "protobuf" {
		want = ProtobufSchema
	}
	switch {
	case s.Type != want:
		err = fmt.Errorf("it is of type %s, the codec is %s", s.Type, c.name)
	case c.name == "avro":
		p.plan, err = newAvroPlan(s, top)
	default:
		f := frame{key.id, []byte(key.path)}
		p.plan, err = newProtoPlan(s, f.numbers(), top)
	}
	if err == nil && len(p.leaves) > 2*event.MaxFields {
		err = fmt.Errorf("more than %d fields", 2*event.MaxFields)
	}
	if err != nil {
		p.err = fail(stream.StageDecode, stream.ReasonSchema, "", &SchemaError{key.id, err})
	}
	c.mu.Lock()
	c.plans[key] = p
	c.mu.Unlock()
	return p
}

// fields returns all fields of a record. Their memory is their own.
func (c *wireEvents) fields(ctx context.Context, rec *stream.Record) ([]event.Named, error) {
	r := c.readers.Get().(*wireReader)
	defer c.readers.Put(r)
	p, err := c.read(ctx, r, headOf(rec), rec.Value)
	if err != nil {
		return nil, err
	}
	var list []event.Named
	for i, name := range p.leaves {
		cell := r.row.Cells[i]
		if cell.Kind == event.Absent || cell.Num-cell.Num != 0 {
			continue // what is not finite says nothing about the field
		}
		n := event.Named{Name: name, Cell: cell}
		n.Cell.Text = bytes.Clone(cell.Text)
		if cell.Kind == event.List {
			n.Items = append(n.Items, r.row.Items[cell.From:cell.To]...)
			for k := range n.Items {
				n.Items[k].Text = bytes.Clone(n.Items[k].Text)
			}
			n.Cell.From, n.Cell.To = 0, 0
		}
		list = append(list, n)
	}
	return list, nil
}

// What a plan does with a field that goes into no cell.
const (
	passed   = -1 // known, and not used
	unlisted = -2 // counted as unknown
)

// A level is what is wanted of one object: the fields of a schema by their
// names, or all.
type level struct {
	names   *names // nil where all fields are wanted
	special int    // the cell of the label, before those of the id and the weight
	prefix  string
	depth   int
	leaves  *[]string // the names of all fields, in the order of their cells
}

// cell returns the cell of a field, passed or unlisted.
func (l *level) cell(key string) int {
	if l.leaves != nil {
		*l.leaves = append(*l.leaves, pathOf(l.prefix, key))
		return len(*l.leaves) - 1
	}
	e := l.find(key)
	switch {
	case e == nil:
		return unlisted
	case e.at >= 0:
		return e.at
	case e.at == labelAt:
		return l.special
	case e.at == idAt:
		return l.special + 1
	case e.at == weightAt:
		return l.special + 2
	}
	return passed
}

func (l *level) find(key string) *name {
	if l.names == nil {
		return nil
	}
	return l.names.find([]byte(key))
}

// in returns the level of an object that a field holds, or nil if nothing in it
// is wanted.
func (l *level) in(key string) *level {
	sub := &level{special: l.special, depth: l.depth + 1, leaves: l.leaves}
	if l.leaves != nil {
		if l.depth+1 >= event.MaxDepth+2 || len(*l.leaves) > 2*event.MaxFields {
			return nil
		}
		sub.prefix = pathOf(l.prefix, key)
		return sub
	}
	if e := l.find(key); e == nil || e.sub == nil {
		return nil
	} else {
		sub.names = e.sub
	}
	return sub
}

// wireReader reads one event.
type wireReader struct {
	row  event.Row
	b    []byte // of Avro: the record
	at   int    // and how far it has been read
	idAt int    // the cell of the id
	// depth of what is being read, bounded for types that hold themselves.
	depth int
	// idText is the id if that is a whole number, some of which no float64 holds.
	idText []byte
	// scattered says that the items of lists are in no order, and tell by From
	// which list they are of.
	scattered bool
}

// wireDepth bounds how deep records are read.
const wireDepth = 64

func (r *wireReader) fail(reason stream.Reason, field, format string, args ...any) error {
	return failf(stream.StageDecode, reason, field, format, args...)
}

// shortVarint reads a varint of up to eight bytes, with no branch for each of
// them; n is 0 if it has more, or fewer than eight bytes are there.
func shortVarint(b []byte) (u uint64, n int) {
	if len(b) < 8 {
		return 0, 0
	}
	u = binary.LittleEndian.Uint64(b)
	last := ^u & 0x8080808080808080 // of the bytes after which another number begins
	if last == 0 {
		return 0, 0
	}
	u &= (last ^ (last - 1)) & 0x7f7f7f7f7f7f7f7f
	u = u&0x007f007f007f007f | u&0x7f007f007f007f00>>1
	u = u&0x00003fff00003fff | u&0x3fff00003fff0000>>2
	u = u&0x000000000fffffff | u&0x0fffffff00000000>>4
	return u, bits.TrailingZeros64(last)/8 + 1
}

// ascii reports whether a text, which is short, is of ASCII.
func ascii(b []byte) bool {
	n := len(b)
	if n > 64 {
		return false
	}
	if n < 8 {
		return event.Short(b)&0x8080808080808080 == 0
	}
	all := binary.LittleEndian.Uint64(b[n-8:])
	for i := 8; i < n; i += 8 {
		all |= binary.LittleEndian.Uint64(b[i-8:])
	}
	return all&0x8080808080808080 == 0
}

// text sets a cell to a text, which must be UTF-8.
func (r *wireReader) text(c *event.Cell, b []byte, field string) error {
	if !ascii(b) && !utf8.Valid(b) {
		return r.fail(stream.ReasonSyntax, field, "%s is not UTF-8", quoted(b))
	}
	c.Kind, c.Text = event.Text, b
	return nil
}

// identity returns the id of the event.
func (r *wireReader) identity(c *event.Cell, field string) (string, error) {
	switch {
	case c.Kind <= event.Null:
		return "", nil
	case c.Kind == event.Text:
		return string(c.Text), nil
	case len(r.idText) > 0:
		return string(r.idText), nil
	case c.Kind == event.Number || c.Kind == event.Time:
		return strconv.FormatFloat(c.Num, 'g', -1, 64), nil
	}
	return "", failf(stream.StageDecode, stream.ReasonType, field, "the id is %s, want a text or a number", c.Kind)
}

// cellWeight returns the weight of an event, 0 if it has none.
func cellWeight(c *event.Cell, field string) (float32, error) {
	w := float32(c.Num)
	switch {
	case c.Kind <= event.Null:
		return 0, nil
	case c.Kind != event.Number:
		return 0, failf(stream.StageFeature, stream.ReasonType, field, "the weight is %s, want a number", c.Kind)
	case !(w > 0) || w-w != 0:
		return 0, failf(stream.StageFeature, stream.ReasonNotFinite, field, "the weight is %v, want a finite number above 0", c.Num)
	}
	return w, nil
}

var truths = [2][]byte{[]byte("false"), []byte("true")}

// cell returns the label that the cell of field holds.
func (l *labels) cell(c *event.Cell, field string) (y label, labelled bool, err error) {
	switch {
	case c.Kind <= event.Null:
		return label{}, false, nil
	case c.Kind == event.Number && l.numeric():
		y, err = l.decode(c.Num)
	case c.Kind == event.Text && l.kind == texts && !l.regress:
		y, err = l.word(c.Text)
	case c.Kind == event.Bool && l.kind == bools && !l.regress:
		y, err = l.word(truths[int(c.Num)])
	default:
		return label{}, false, failf(stream.StageLabel, stream.ReasonType, field, "the label is %s, want %s", c.Kind, l.want())
	}
	return y, err == nil, renamed(err, field)
}

// want says what a label has to be.
func (l *labels) want() string {
	if l.regress {
		return "a number"
	}
	return l.String()
}

func (c *wireEvents) signature(s *Signature) {
	c.common.signature(s)
	if c.schema != nil {
		s.Schema = c.schema.String()
	}
}
