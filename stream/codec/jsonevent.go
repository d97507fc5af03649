package codec

import (
	"bytes"
	"slices"
	"strconv"
	"sync"

	"github.com/streamsvm/streamsvm/events"
	"github.com/streamsvm/streamsvm/stream"
)

// encoder is the part that the codecs of events share: the schema, the names of its
// fields, and their statistics.
type encoder struct {
	schema *events.Schema
	names  *names
	stats  *events.Statistics
}

func newEncoder(text string) (encoder, error) {
	s, err := events.Parse(text)
	if err != nil {
		return encoder{}, err
	}
	return encoder{schema: s, names: newNames(s), stats: events.NewStatistics(s)}, nil
}

func (e *encoder) statistics() *events.Statistics { return e.stats }

// encode makes the vector of a row.
func (e *encoder) encode(row *events.Row, a *stream.Arena) (stream.Vec, error) {
	x, err := e.schema.Encode(row, a)
	if err != nil {
		e.stats.AddRefused(row)
		if wrong, ok := err.(*events.FieldError); ok {
			err = fail(stream.StageFeature, wrong.Reason, wrong.Field, wrong.Err)
		}
		return x, err
	}
	e.stats.Add(row, x)
	if row.Unlisted > 0 && e.schema.Unlisted == events.Refuse {
		return x, failf(stream.StageFeature, stream.ReasonOther, "", "the event has %d fields that the schema does not list", row.Unlisted)
	}
	return x, err
}

// jsonEvents reads events: JSON objects whose fields a schema lists. Fields of nested
// objects, also of those in JSON in a text, have names with dots.
//
// A field may come once. Fields that the schema does not list are skipped and counted.
type jsonEvents struct {
	jsonCodec
	encoder
	readers sync.Pool // of *eventReader
}

func newJSONEvents(c common, schema string) (*jsonEvents, error) {
	e, err := newEncoder(schema)
	j := &jsonEvents{jsonCodec: jsonCodec{c}, encoder: e}
	j.readers.New = func() any { return new(eventReader) }
	return j, err
}

// Decode implements stream.Decoder.
func (c *jsonEvents) Decode(value []byte, ex *stream.Example) error {
	return c.DecodeIn(nil, value, ex)
}

// DecodeIn implements stream.ArenaDecoder.
func (c *jsonEvents) DecodeIn(a *stream.Arena, value []byte, ex *stream.Example) error {
	value = unframed(value)
	if err := checkSize(value); err != nil {
		return err
	}
	r := c.readers.Get().(*eventReader)
	defer r.put()
	err := r.read(c, value)
	if err == nil {
		r.x, err = c.encode(&r.row, a)
	}
	if err != nil {
		return err
	}
	r.finish(nil, ex)
	return nil
}

// Append implements stream.Encoder. An event cannot be restored from its features.
func (c *jsonEvents) Append(dst []byte, _ *stream.Example) ([]byte, error) {
	return dst, failf(stream.StageDecode, stream.ReasonOther, "", "events can only be read")
}

// unframed returns the JSON after the five bytes that producers with a schema registry
// write before it, and the object in a text, of producers that encode it twice.
func unframed(value []byte) []byte {
	switch {
	case len(value) > 5 && value[0] == 0 && value[5] == '{':
		return value[5:]
	case len(value) > 2 && value[0] == '"':
		p := jsonText{b: value}
		if inner, ok := p.embedded(1); ok && p.close() == nil {
			return inner.b
		}
	}
	return value
}

// eventReader reads one event after another.
type eventReader struct {
	draft
	p   jsonText
	c   *jsonEvents
	row events.Row

	keys []lastKey // of the previous event
	k    int       // number of keys read so far in this one
	had  []*name   // the fields of the objects of lists that are being read
}

// A lastKey is a key of the previous event. It is likely to recur in the same place,
// because a producer writes the fields of all events in one order; then comparing a prefix
// is enough to read it.
type lastKey struct {
	in    *names
	first bool   // in its object
	text  []byte // from the previous value to its own
	name  *name  // or nil
}

// Bounds on the keys that are kept.
const (
	mostKeys    = 256
	longestKeys = 64
)

// put returns the reader to the pool.
func (r *eventReader) put() {
	c := r.c
	r.p, r.c, r.draft = jsonText{}, nil, draft{}
	c.readers.Put(r)
}

// read reads the fields of an event that the schema of c lists.
func (r *eventReader) read(c *jsonEvents, value []byte) error {
	r.c, r.p, r.draft, r.k = c, jsonText{b: value}, draft{}, 0
	r.row.Reset(len(c.schema.Fields))
	err := r.p.open()
	if err == nil {
		err = r.object(c.names, 1)
	}
	if err == nil {
		err = r.p.close()
	}
	return err
}

// next reads the next key of an object, with the punctuation around it, and returns its
// entry, or nil. more is false at the end of the object.
func (r *eventReader) next(n *names, first bool) (e *name, more bool, err error) {
	p := &r.p
	if r.k < len(r.keys) {
		if l := &r.keys[r.k]; l.in == n && l.first == first && bytes.HasPrefix(p.b[p.i:], l.text) {
			r.k++
			p.i += len(l.text)
			p.space()
			return l.name, true, nil
		}
	}
	start := p.i
	if more, err := p.more(first, '}'); err != nil || !more {
		return nil, false, err
	}
	key, err := p.key()
	if err != nil {
		return nil, false, err
	}
	e = n.byKey[string(key)]
	if r.k == len(r.keys) && r.k < mostKeys {
		r.keys = append(r.keys, lastKey{})
	}
	if text := p.b[start:p.i]; r.k < len(r.keys) {
		l := &r.keys[r.k]
		if l.in = nil; len(text) <= longestKeys {
			*l = lastKey{n, first, append(l.text[:0], text...), e}
		}
	}
	r.k++
	return e, true, nil
}

// object reads the fields of an object behind its opening bracket.
func (r *eventReader) object(n *names, depth int) error {
	p := &r.p
	for first := true; ; first = false {
		e, more, err := r.next(n, first)
		if err != nil || !more {
			return err
		}
		if e != nil && e.sub != nil {
			if inner, ok := p.embedded(depth + 1); ok {
				outer := r.p
				r.p = inner
				err = r.object(e.sub, depth+1)
				if r.p = outer; err != nil {
					return err
				}
				continue
			}
		}
		switch {
		case e == nil:
			r.row.Unlisted++
			err = p.skip(depth)
		case e.sub != nil && p.eat('{'):
			if depth > maxDepth {
				return p.fail("", "the nesting is too deep")
			}
			err = r.object(e.sub, depth+1)
		case e.sub != nil && p.eat('['):
			err = r.list(e, depth)
		case e.at >= 0:
			err = r.cell(e, depth)
		case e.at == labelAt:
			if err = r.once(fieldY, e.text); err == nil {
				r.y, r.labelled, err = r.c.label(p)
				err = renamed(err, e.text)
			}
		case e.at == idAt:
			if err = r.once(fieldID, e.text); err == nil {
				r.id, err = p.id()
			}
		case e.at == weightAt:
			if err = r.once(fieldWeight, e.text); err == nil {
				r.draft.weight, err = p.weight(e.text)
			}
		default:
			err = p.skip(depth)
		}
		if err != nil {
			return err
		}
	}
}

// list reads a list behind its opening bracket. Its objects may have fields of the schema; the
// values of a field in all of them are a list.
func (r *eventReader) list(e *name, depth int) error {
	if depth > maxDepth {
		return r.p.fail("", "the nesting is too deep")
	}
	from, n := len(r.row.Items), 0
	for first := true; ; first = false {
		more, err := r.p.more(first, ']')
		if err == nil && more {
			item := events.Cell{Kind: events.Other}
			if e.sub != nil && r.p.eat('{') {
				err = r.item(e.sub, depth+2)
			} else {
				err = readCell(&r.p, &item, e.text, depth+1)
			}
			if n++; n <= events.MaxArray {
				r.row.Items = append(r.row.Items, item)
			}
		}
		if err != nil {
			return err
		}
		if !more {
			break
		}
	}
	if e.at >= 0 {
		c := &r.row.Cells[e.at]
		if c.Kind != events.Absent {
			return r.twice(e.at)
		}
		c.Kind, c.From, c.To = events.List, int32(from), int32(len(r.row.Items))
		if n > events.MaxArray {
			c.Kind = events.Other
		}
	}
	if at := r.row.Gathered(); at >= 0 {
		return r.twice(at)
	}
	return nil
}

// item reads the fields of an object in a list behind its opening bracket.
func (r *eventReader) item(n *names, depth int) error {
	p, before := &r.p, len(r.had)
	defer func() { r.had = r.had[:before] }()
	for first := true; ; first = false {
		e, more, err := r.next(n, first)
		if err != nil || !more {
			return err
		}
		if e != nil && slices.Contains(r.had[before:], e) {
			if e.at >= 0 {
				return r.twice(e.at)
			}
			return failf(stream.StageDecode, stream.ReasonDuplicate, e.text, "the key comes twice")
		}
		switch {
		case e == nil:
			r.row.Unlisted++
			err = p.skip(depth)
		case depth > maxDepth:
			return p.fail("", "the nesting is too deep")
		case e.sub != nil && p.eat('{'):
			err = r.item(e.sub, depth+1)
		case e.at >= 0:
			var c events.Cell
			if err = readCell(p, &c, r.c.schema.Fields[e.at].Name, depth); c.Kind > events.Null {
				r.row.Gather(e.at, c)
			}
		default:
			err = p.skip(depth)
		}
		if err != nil {
			return err
		}
		if e != nil {
			r.had = append(r.had, e)
		}
	}
}

func (r *eventReader) twice(at int) error {
	return failf(stream.StageDecode, stream.ReasonDuplicate, r.c.schema.Fields[at].Name, "the key comes twice")
}

// renamed replaces "y" by the name of the label in the field of an error.
func renamed(err error, name string) error {
	if fe, ok := err.(*stream.FieldError); ok && fe.Field == "y" {
		fe.Field = name
	}
	return err
}

// cell reads the value of a field.
func (r *eventReader) cell(e *name, depth int) error {
	c := &r.row.Cells[e.at]
	if c.Kind != events.Absent {
		return r.twice(e.at)
	}
	if e.plain {
		// A feature keeps only a float32, and short32 takes a third of the time.
		if v, n := short32(r.p.b[r.p.i:]); n > 0 {
			r.p.i += n
			c.Kind, c.Num = events.Number, float64(v)
			return nil
		}
	}
	f := &r.c.schema.Fields[e.at]
	if !r.p.eat('[') {
		return readCell(&r.p, c, f.Name, depth)
	}
	return r.list(e, depth)
}

// readCell reads a value. For a list or an object it only notes that it is one. A number
// may be NaN or infinite: the schema decides what becomes of it.
func readCell(p *jsonText, c *events.Cell, field string, depth int) (err error) {
	if p.i == len(p.b) {
		return p.fail(field, "want a value")
	}
	switch p.b[p.i] {
	case '"':
		c.Kind = events.Text
		c.Text, err = p.str(field)
		return err
	case '{', '[':
		c.Kind = events.Other
		return p.skip(depth)
	case 't', 'f', 'n':
		switch {
		case p.word("true"):
			c.Kind, c.Num = events.Bool, 1
			return nil
		case p.word("false"):
			c.Kind = events.Bool
			return nil
		case p.word("null"):
			c.Kind = events.Null
			return nil
		}
	}
	start := p.i
	d, text, err := p.number(field, stream.StageFeature)
	if fe, ok := err.(*stream.FieldError); ok && fe.Reason == stream.ReasonNotFinite {
		c.Kind = events.Number
		c.Num, _ = strconv.ParseFloat(string(p.b[start:p.i]), 64)
		return nil
	}
	if err != nil {
		return err
	}
	c.Kind = events.Number
	if v, ok := d.quick(); ok {
		c.Num = v
	} else {
		c.Num = d.float64(text)
	}
	return nil
}

// jsonAt checks the object in value, and returns the text starting at the value of a field.
func jsonAt(value []byte, path string) (jsonText, error) {
	p := jsonText{b: unframed(value)}
	at := -1
	err := p.open()
	if err == nil {
		at, err = p.find(path, 1)
	}
	if err == nil {
		err = p.close()
	}
	if err != nil {
		return p, err
	}
	if at < 0 {
		return p, failf(stream.StageDecode, stream.ReasonMissing, path, "missing")
	}
	return jsonText{b: p.b, i: at}, nil
}

// jsonField returns the value of a field of the object in value. It must not be a list.
func jsonField(value []byte, path string) (c events.Cell, err error) {
	p, err := jsonAt(value, path)
	if err == nil {
		err = readCell(&p, &c, path, 1)
	}
	return c, err
}

// jsonFields returns all fields of the event in value. They share no memory with it.
func jsonFields(value []byte) ([]events.NamedCell, error) {
	p := jsonText{b: unframed(value)}
	if err := p.open(); err != nil {
		return nil, err
	}
	list, err := p.fields(nil, "", 1)
	if err == nil {
		err = p.close()
	}
	return list, err
}

// fields reads an object behind its opening bracket, and those in it.
func (p *jsonText) fields(list []events.NamedCell, prefix string, depth int) ([]events.NamedCell, error) {
	keys := map[string]bool{}
	for first := true; ; first = false {
		more, err := p.more(first, '}')
		if err != nil || !more {
			return list, err
		}
		key, err := p.key()
		if err != nil {
			return list, err
		}
		if keys[string(key)] {
			return list, failf(stream.StageDecode, stream.ReasonDuplicate, pathOf(prefix, string(key)), "the key comes twice")
		}
		keys[string(key)] = true
		n := events.NamedCell{Name: pathOf(prefix, string(key))}
		if depth < events.MaxDepth+2 {
			if inner, ok := p.embedded(depth + 1); ok {
				if list, err = inner.fields(list, n.Name, depth+1); err != nil {
					return list, err
				}
				continue
			}
		}
		switch {
		case depth < events.MaxDepth+2 && p.eat('{'):
			if list, err = p.fields(list, n.Name, depth+1); err != nil {
				return list, err
			}
			continue
		case p.eat('['):
			var inside []events.NamedCell
			if n, inside, err = p.listFields(n, depth); err == nil {
				list = append(list, inside...)
			}
		default:
			err = readCell(p, &n.Cell, n.Name, depth)
			n.Cell.Text = bytes.Clone(n.Cell.Text)
		}
		if err != nil {
			return list, err
		}
		if list = append(list, n); len(list) > 2*events.MaxFields {
			return list, failf(stream.StageFeature, stream.ReasonLimit, "", "more than %d fields", 2*events.MaxFields)
		}
	}
}

// listFields reads a list behind its opening bracket: its items, and those of the fields of objects
// in it.
func (p *jsonText) listFields(n events.NamedCell, depth int) (_ events.NamedCell, inside []events.NamedCell, err error) {
	n.Cell.Kind = events.List
	at := map[string]int{}
	for first := true; ; first = false {
		more, err := p.more(first, ']')
		if err != nil {
			return n, nil, err
		}
		if !more {
			break
		}
		item := events.Cell{Kind: events.Other}
		var fields []events.NamedCell
		if depth < events.MaxDepth+2 && p.eat('{') {
			fields, err = p.fields(nil, n.Name, depth+2)
		} else {
			err = readCell(p, &item, n.Name, depth+1)
			item.Text = bytes.Clone(item.Text)
		}
		if err != nil {
			return n, nil, err
		}
		n.Items = append(n.Items, item)
		for _, f := range fields {
			if f.Cell.Kind == events.List {
				continue // no lists of lists
			}
			k, ok := at[f.Name]
			if !ok {
				k = len(inside)
				at[f.Name], inside = k, append(inside, events.NamedCell{Name: f.Name, Cell: events.Cell{Kind: events.List}})
			}
			if f.Cell.Kind > events.Null {
				inside[k].Items = append(inside[k].Items, f.Cell)
			}
		}
	}
	for k := range inside {
		if len(inside[k].Items) > events.MaxArray {
			inside[k].Cell.Kind, inside[k].Items = events.Other, nil
		}
	}
	if len(n.Items) > events.MaxArray {
		n.Cell.Kind, n.Items = events.Other, nil
	}
	return n, inside, nil
}
