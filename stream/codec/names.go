package codec

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/streamsvm/streamsvm/stream"
)

// maxLabelName bounds the bytes of a label's name.
const maxLabelName = 100

// LabelNames returns how a stream with Options.Labels writes its negative and
// its positive label.
func LabelNames(labels string) (neg, pos string, err error) {
	switch labels {
	case "", "pm1":
		return "-1", "1", nil
	case "01":
		return "0", "1", nil
	case "12":
		return "1", "2", nil
	}
	neg, pos, ok := strings.Cut(labels, ",")
	neg, pos = strings.TrimSpace(neg), strings.TrimSpace(pos)
	switch {
	case !ok || strings.Contains(pos, ","):
		return "", "", fmt.Errorf("want pm1, 01, 12, or two labels, the negative one first, such as no,yes")
	case neg == "" || pos == "" || neg == "?" || pos == "?":
		return "", "", fmt.Errorf("%q and %q: a label that is empty or ? means that there is none", neg, pos)
	case strings.EqualFold(neg, pos):
		return "", "", fmt.Errorf("%q and %q differ in nothing but case", neg, pos)
	}
	for _, s := range []string{neg, pos} {
		if len(s) > maxLabelName || !utf8.ValidString(s) || strings.ContainsRune(s, '"') || strings.ContainsFunc(s, unicode.IsControl) {
			return "", "", fmt.Errorf("%s cannot be the name of a label", quoted([]byte(s)))
		}
	}
	if a, b := numeric(neg), numeric(pos); a == b {
		return "", "", fmt.Errorf("%s and %s are the same number", neg, pos)
	}
	return neg, pos, nil
}

// numeric is the number that s is, NaN if it is none.
func numeric(s string) float64 {
	d, n := scan([]byte(s))
	if n == 0 || n != len(s) {
		return math.NaN()
	}
	return d.float64([]byte(s))
}

// name sets which two labels there are, as Options.Labels has them.
func (l *labels) name(s string) error {
	neg, pos, err := LabelNames(s)
	if err != nil {
		return fmt.Errorf("option Labels is %q: %w", s, err)
	}
	l.neg, l.pos = numeric(neg), numeric(pos) // a word is equal to no number
	if strings.Contains(s, ",") {
		l.names = []string{neg, pos}
	}
	return nil
}

// text returns the label that a word on the wire means: one of the names,
// whatever its case, or a number. It is for labels that have names.
func (l *labels) text(field string, b []byte) (float64, error) {
	b = bytes.TrimSpace(b)
	for k, name := range l.names {
		if strings.EqualFold(string(b), name) {
			return float64(2*k - 1), nil
		}
	}
	if v := numeric(string(b)); v == v {
		return l.decode(v)
	}
	return 0, failf(stream.StageLabel, stream.ReasonLabel, field, "the label is %s, want %s", quoted(b), l.wanted())
}

// wanted names both labels.
func (l *labels) wanted() string {
	if l.names != nil {
		return l.names[0] + " or " + l.names[1]
	}
	return fmt.Sprintf("%v or %v", l.neg, l.pos)
}

// word returns the name of a label that is no number, "" if it is one.
func (l *labels) word(y float64) string {
	if l.names == nil || l.regress {
		return ""
	}
	name := l.names[0]
	if y > 0 {
		name = l.names[1]
	}
	if v := numeric(name); v == v {
		return ""
	}
	return name
}

// named reports whether labels may be words.
func (l *labels) named() bool { return l.names != nil && !l.regress }

// jsonWord reads a label that is a string, true or false; ok is false if
// something else comes next.
func (l *labels) jsonWord(p *jsonText) (y float64, ok bool, err error) {
	if !l.named() {
		return 0, false, nil
	}
	for _, w := range []string{"true", "false"} {
		if p.word(w) {
			y, err = l.text("y", []byte(w))
			return y, true, err
		}
	}
	if p.i == len(p.b) || p.b[p.i] != '"' {
		return 0, false, nil
	}
	s, err := p.str("y")
	if err == nil {
		y, err = l.text("y", s)
	}
	return y, true, err
}

// packedWord reads a label that is a string or a boolean, whose head is h.
func (l *labels) packedWord(p *packed, h head) (y float64, ok bool, err error) {
	if !l.named() {
		return 0, false, nil
	}
	switch h.kind {
	case kindBool:
		y, err = l.text("y", strconv.AppendBool(nil, h.n != 0))
		return y, true, err
	case kindString:
		b, err := p.bytes(h.size)
		if err != nil {
			return 0, true, fail(stream.StageDecode, stream.ReasonSyntax, "y", err)
		}
		y, err = l.text("y", b)
		return y, true, err
	}
	return 0, false, nil
}

// append appends the label y as text, a word in quotes if it is for JSON.
func (l *labels) append(dst []byte, y float64, json bool) ([]byte, error) {
	v, err := l.encode(y)
	if err != nil {
		return dst, err
	}
	name := l.word(y)
	switch {
	case name == "":
		return appendFloat64(dst, v), nil
	case !json || name == "true" || name == "false":
		return append(dst, name...), nil
	}
	dst = append(dst, '"')
	dst = append(dst, strings.ReplaceAll(name, `\`, `\\`)...)
	return append(dst, '"'), nil
}

// appendPacked appends the label y as MessagePack.
func (l *labels) appendPacked(dst []byte, y float64) ([]byte, error) {
	v, err := l.encode(y)
	if err != nil {
		return dst, err
	}
	name := l.word(y)
	switch {
	case name == "true":
		return append(dst, 0xc3), nil
	case name == "false":
		return append(dst, 0xc2), nil
	case name != "":
		return append(append(dst, 0xd9, byte(len(name))), name...), nil // maxLabelName fits
	case !l.regress && v == math.Trunc(v) && v >= -32 && v <= 127:
		return append(dst, byte(int8(v))), nil // a fixint
	}
	return binary.BigEndian.AppendUint64(append(dst, 0xcb), math.Float64bits(v)), nil
}
