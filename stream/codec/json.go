package codec

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/streamsvm/streamsvm/stream"
)

// jsonCodec reads and writes one JSON object per value:
//
//	{"x":[0.5,1.25],"y":1,"id":"a7"}   dense
//	{"x":{"3":0.5,"7":1.25},"y":-1}    sparse, keys are 1-based indices
//
// The keys of a sparse vector may come in any order; a duplicate is refused.
// If "y" is absent or null the example is unlabelled; "id" is a string or a
// number, which becomes its text, or null. "weight" is a number above 0, the
// importance weight, 1 if absent or null. "ts" and every other key are skipped,
// whatever their value; "x", "y", "id" and "weight" may come once. Nesting
// deeper than 64 is refused.
type jsonCodec struct{ common }

func (*jsonCodec) Name() string { return "json" }

// maxDepth bounds the nesting of values that are skipped, in JSON and in
// MessagePack.
const maxDepth = 64

// Decode implements stream.Decoder.
func (c *jsonCodec) Decode(value []byte, ex *stream.Example) error {
	return c.DecodeIn(nil, value, ex)
}

// DecodeIn implements stream.ArenaDecoder.
func (c *jsonCodec) DecodeIn(a *stream.Arena, value []byte, ex *stream.Example) error {
	var d draft
	value = unframed(value)
	if err := c.object(a, value, &d); err != nil {
		return err
	}
	if c.id != "" {
		d.id = ""
		if p, err := jsonAt(value, c.id); err == nil { // otherwise it is missing
			if d.id, err = p.id(); err != nil {
				return err
			}
		}
	}
	if d.seen&fieldX == 0 {
		return failf(stream.StageDecode, stream.ReasonMissing, "x", "missing")
	}
	d.finish(a, ex)
	return nil
}

// object decodes the one object in value, with any fields.
func (c *jsonCodec) object(a *stream.Arena, value []byte, d *draft) error {
	if err := checkSize(value); err != nil {
		return err
	}
	p := jsonText{b: value}
	if err := p.open(); err != nil {
		return err
	}
	for first := true; ; first = false {
		if more, err := p.more(first, '}'); err != nil {
			return err
		} else if !more {
			break
		}
		key, err := p.key()
		if err != nil {
			return err
		}
		f, err := d.field(string(key))
		if err != nil {
			return err
		}
		switch f {
		case fieldX:
			d.x, err = c.vector(a, &p)
		case fieldY:
			d.y, d.labelled, err = c.label(&p)
		case fieldID:
			d.id, err = p.id()
		case fieldWeight:
			d.weight, err = p.weight("weight")
		default:
			err = p.skip(1)
		}
		if err != nil {
			return err
		}
	}
	return p.close()
}

// weight reads the importance weight of an example.
func (p *jsonText) weight(field string) (float32, error) {
	if p.word("null") {
		return 0, nil
	}
	d, text, err := p.number(field, stream.StageFeature)
	if err != nil {
		return 0, err
	}
	return weightOf(d.float64(text), field)
}

func (c *jsonCodec) label(p *jsonText) (y label, labelled bool, err error) {
	if p.word("null") {
		return label{}, false, nil
	}
	if !c.labels.numeric() {
		return c.labelWord(p)
	}
	if c.labels.regress && p.i < len(p.b) && p.b[p.i] == '"' { // as quoted features are numbers
		text, err := p.str("y")
		if err != nil {
			return label{}, false, err
		}
		if d, n := scan(text); n == 0 || n != len(text) {
			return label{}, false, failf(stream.StageLabel, stream.ReasonLabel, "y", "the label is the text %s, want a number", quoted(text))
		} else {
			y, err = c.labels.decode(d.float64(text))
		}
		return y, err == nil, err
	}
	d, text, err := p.number("y", stream.StageLabel)
	if err != nil {
		return label{}, false, err
	}
	y, err = c.labels.decode(d.float64(text))
	return y, err == nil, err
}

// labelWord reads a label that is not a number.
func (c *jsonCodec) labelWord(p *jsonText) (y label, labelled bool, err error) {
	var text []byte
	switch {
	case c.labels.kind == texts:
		text, err = p.str("y")
	case p.word("true"):
		text = []byte("true")
	case p.word("false"):
		text = []byte("false")
	default:
		err = p.fail("y", "want true or false")
	}
	if err != nil {
		return label{}, false, err
	}
	y, err = c.labels.word(text)
	return y, err == nil, err
}

func (c *jsonCodec) vector(a *stream.Arena, p *jsonText) (stream.Vec, error) {
	switch {
	case p.eat('['):
		return c.dense(a, p)
	case p.eat('{'):
		return c.sparse(a, p)
	}
	return stream.Vec{}, p.fail("x", "want an array or an object")
}

func (c *jsonCodec) dense(a *stream.Arena, p *jsonText) (stream.Vec, error) {
	p.space()
	if p.eat(']') {
		return stream.Vec{Val: []float32{}}, nil
	}
	// Everything before the next bracket is numbers and commas, or refused below; a
	// number and its comma take at least two bytes.
	end := bytes.IndexByte(p.b[p.i:], ']')
	if end < 0 {
		return stream.Vec{}, p.fail("x", "the array does not end")
	}
	n := bytes.Count(p.b[p.i:p.i+end], []byte{','}) + 1
	if err := c.checkDim(n); err != nil {
		return stream.Vec{}, err
	}
	val := a.Val(n)
	for {
		v, err := p.value(-1, len(val))
		if err != nil {
			return stream.Vec{}, err
		}
		val = append(val, v)
		p.space()
		if p.eat(']') {
			return stream.Vec{Val: val}, nil
		}
		if !p.eat(',') {
			return stream.Vec{}, p.fail(indexed(len(val)), "want , or ]")
		}
		p.space()
	}
}

func (c *jsonCodec) sparse(a *stream.Arena, p *jsonText) (stream.Vec, error) {
	p.space()
	if p.eat('}') {
		return stream.Vec{Idx: []int32{}, Val: []float32{}}, nil
	}
	end := bytes.IndexByte(p.b[p.i:], '}')
	if end < 0 {
		return stream.Vec{}, p.fail("x", "the object does not end")
	}
	// `"1":0,` is the shortest feature.
	n := min(bytes.Count(p.b[p.i:p.i+end], colon), (end+1)/6)
	x := stream.Vec{Idx: a.Idx(n), Val: a.Val(n)}
	sorted := true
	last := int32(-1)
	for {
		key, err := p.str("x")
		if err != nil {
			return x, err
		}
		index := int64(0)
		for _, b := range key {
			d := b - '0'
			if d > 9 {
				return x, failf(stream.StageDecode, stream.ReasonIndex, "x", "the key %s is not a feature's index", quoted(key))
			}
			if index = index*10 + int64(d); index > int64(c.maxDim) {
				return x, c.indexTooLarge("x[" + quoted(key) + "]")
			}
		}
		j := int(index)
		if j == 0 {
			return x, failf(stream.StageDecode, stream.ReasonIndex, "x", "the key %s is not a feature's index, those start at 1", quoted(key))
		}
		p.space()
		if !p.eat(':') {
			return x, p.fail(feature(j), "want :")
		}
		p.space()
		v, err := p.value(j, 0)
		if err != nil {
			return x, err
		}
		k := int32(j - 1)
		sorted = sorted && k > last
		last = k
		x.Idx = append(x.Idx, k)
		x.Val = append(x.Val, v)
		p.space()
		if p.eat('}') {
			break
		}
		if !p.eat(',') {
			return x, p.fail(feature(j), "want , or }")
		}
		p.space()
	}
	if sorted {
		return x, nil
	}
	return x, sortFeatures(x)
}

// sortFeatures sorts the features of x by their index and refuses duplicates.
func sortFeatures(x stream.Vec) error {
	both := make([]uint64, len(x.Idx))
	for k, j := range x.Idx {
		both[k] = uint64(j)<<32 | uint64(math.Float32bits(x.Val[k]))
	}
	slices.Sort(both)
	for k, b := range both {
		x.Idx[k] = int32(b >> 32)
		x.Val[k] = math.Float32frombits(uint32(b))
		if k > 0 && x.Idx[k] == x.Idx[k-1] {
			return failf(stream.StageDecode, stream.ReasonDuplicate, feature(int(x.Idx[k])+1), "the feature comes twice")
		}
	}
	return nil
}

// Append implements stream.Encoder. An unlabelled example is written without
// "y", one without ID without "id".
func (c *jsonCodec) Append(dst []byte, ex *stream.Example) ([]byte, error) {
	if err := c.checkVec(ex.X); err != nil {
		return dst, err
	}
	out := append(dst, `{"x":`...)
	if ex.X.Idx == nil {
		out = append(out, '[')
		for k, v := range ex.X.Val {
			if k > 0 {
				out = append(out, ',')
			}
			out = appendFloat32(out, v)
		}
		out = append(out, ']')
	} else {
		out = append(out, '{')
		for k, v := range ex.X.Val {
			if k > 0 {
				out = append(out, ',')
			}
			out = append(out, '"')
			out = strconv.AppendInt(out, int64(ex.X.Idx[k])+1, 10)
			out = append(out, '"', ':')
			out = appendFloat32(out, v)
		}
		out = append(out, '}')
	}
	if ex.Labelled {
		var err error
		if out, err = c.labels.appendJSON(append(out, `,"y":`...), ex); err != nil {
			return dst, err
		}
	}
	if ex.ID != "" {
		if !utf8.ValidString(ex.ID) {
			return dst, failf(stream.StageDecode, stream.ReasonSyntax, "id", "the string is not UTF-8")
		}
		id, err := json.Marshal(ex.ID)
		if err != nil {
			return dst, fail(stream.StageDecode, stream.ReasonSyntax, "id", err)
		}
		out = append(out, `,"id":`...)
		out = append(out, id...)
	}
	weight, err := hasWeight(ex)
	if err != nil {
		return dst, err
	}
	if weight {
		out = appendFloat32(append(out, `,"weight":`...), ex.Weight)
	}
	return append(out, '}'), nil
}
