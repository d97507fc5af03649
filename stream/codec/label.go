package codec

import (
	"bytes"
	"fmt"

	"github.com/streamsvm/streamsvm/stream"
)

// labelDecoder decodes the values of a topic of labels.
type labelDecoder struct{ json jsonCodec }

// NewLabels returns a decoder for the values of a topic that holds labels whose
// examples are elsewhere. A value is
//
//	{"y":1,"id":"a7"}   an object of codec json; only y, which is required, and id
//	                    are used
//	+1                  or a label alone, a text with or without double quotes;
//	                    blanks around it and the end of a line are ignored
//
// It sets Y, Labelled and ID, and leaves X empty. Its errors and guarantees are those of
// the codecs.
func NewLabels(o Options) (stream.Decoder, error) {
	c, err := o.common()
	if err != nil {
		return nil, fmt.Errorf("labels: %w", err)
	}
	return &labelDecoder{jsonCodec{c}}, nil
}

// Decode implements stream.Decoder.
func (l *labelDecoder) Decode(value []byte, ex *stream.Example) error {
	d, err := l.decode(value)
	if err == nil {
		d.finish(nil, ex)
	}
	return err
}

func (l *labelDecoder) decode(value []byte) (d draft, err error) {
	c := &l.json
	if err := c.checkSize(value); err != nil {
		return d, err
	}
	b := trimLine(value)
	i := skipBlank(b, 0)
	if i == len(b) {
		return d, fail(stream.StageDecode, stream.ReasonEmpty, "", errEmpty)
	}
	if b[i] == '{' {
		err = c.object(nil, value, &d)
		if err == nil && !d.labelled {
			err = failf(stream.StageLabel, stream.ReasonMissing, "y", "missing")
		}
		d.x, d.weight = stream.Vec{}, 0
		return d, err
	}
	d.labelled = true
	if !c.labels.numeric() {
		d.y, err = l.word(bytes.TrimRight(b[i:], " \t"))
		return d, err
	}
	number, n := scan(b[i:])
	if n == 0 || skipBlank(b, i+n) != len(b) {
		return d, failf(stream.StageLabel, stream.ReasonSyntax, "y", "the label is %s, want a number or an object", quoted(b[i:]))
	}
	d.y, err = c.labels.decode(number.float64(b[i : i+n]))
	return d, err
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
