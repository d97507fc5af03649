package codec

import (
	"bytes"
	"fmt"

	"github.com/streamsvm/streamsvm/stream"
)

// labelDecoder decodes what NewLabels describes.
type labelDecoder struct{ json jsonCodec }

// NewLabels returns a decoder for the values of a topic that holds labels whose
// examples are elsewhere. A value is
//
//	{"y":1,"id":"a7"}   an object as of codec json, of which only y, which must
//	                    be there, and id are used
//	+1                  or a label alone, a text with or without double quotes;
//	                    blanks around it and the end of a line are ignored
//
// It sets Y, Labelled and ID, and leaves X empty. Its errors are those of the
// codecs, and it keeps to what they keep to.
func NewLabels(o Options) (stream.Decoder, error) {
	c, err := o.common()
	if err != nil {
		return nil, fmt.Errorf("labels: %w", err)
	}
	return &labelDecoder{jsonCodec{c}}, nil
}

// Decode implements stream.Decoder.
func (l *labelDecoder) Decode(value []byte, ex *stream.Example) error {
	c := &l.json
	if err := c.checkSize(value); err != nil {
		return err
	}
	b := trimLine(value)
	i := skipBlank(b, 0)
	if i == len(b) {
		return fail(stream.StageDecode, stream.ReasonEmpty, "", errEmpty)
	}
	if b[i] == '{' {
		var all stream.Example
		if err := c.object(nil, value, &all, false); err != nil {
			return err
		}
		if !all.Labelled {
			return failf(stream.StageLabel, stream.ReasonMissing, "y", "missing")
		}
		ex.ID, ex.X, ex.Y, ex.Labelled, ex.Class, ex.Weight = all.ID, stream.Vec{}, all.Y, true, all.Class, 0
		return nil
	}
	if !c.labels.numeric() {
		y, err := l.word(bytes.TrimRight(b[i:], " \t"))
		if err != nil {
			return err
		}
		ex.ID, ex.X, ex.Y, ex.Labelled, ex.Class, ex.Weight = "", stream.Vec{}, y.y, true, y.class, 0
		return nil
	}
	d, n := scan(b[i:])
	if n == 0 || skipBlank(b, i+n) != len(b) {
		return failf(stream.StageLabel, stream.ReasonSyntax, "y", "the label is %s, want a number or an object", quoted(b[i:]))
	}
	y, err := c.labels.decode(d.float64(b[i : i+n]))
	if err != nil {
		return err
	}
	ex.ID, ex.X, ex.Y, ex.Labelled, ex.Class, ex.Weight = "", stream.Vec{}, y.y, true, y.class, 0
	return nil
}

// word returns the label that is alone in b and is no number.
func (l *labelDecoder) word(b []byte) (label, error) {
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
	return l.json.labels.word(b)
}
