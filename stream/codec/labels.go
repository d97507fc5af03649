package codec

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/streamsvm/streamsvm/stream"
)

// labels maps labels on the wire to labels in memory.
type labels struct {
	regress bool
	kind    labelKind
	neg     float64   // of numbers: what −1 is on the wire
	pos     float64   // and +1
	text    [2]string // what −1 and +1 are in text
	json    [2]string // and in JSON
}

type labelKind uint8

const (
	numbers labelKind = iota
	bools
	texts
)

// ParseLabels returns the two labels that Options.Labels means by s: both are
// float64, both bool, or both string.
func ParseLabels(s string) (negative, positive any, err error) {
	l, err := parseLabels(s)
	if err != nil {
		return nil, nil, err
	}
	switch l.kind {
	case numbers:
		return l.neg, l.pos, nil
	case bools:
		return l.text[0] == "true", l.text[1] == "true", nil
	}
	return l.text[0], l.text[1], nil
}

// parseLabels understands a value of Options.Labels.
func parseLabels(s string) (l labels, err error) {
	switch s {
	case "", "pm1":
		s = "-1,1"
	case "01":
		s = "0,1"
	case "12":
		s = "1,2"
	}
	// Texts that hold a comma come in double quotes, both of them.
	var quoted []string
	if json.Unmarshal([]byte("["+s+"]"), &quoted) != nil || len(quoted) != 2 {
		neg, pos, ok := strings.Cut(s, ",")
		if !ok || strings.Contains(pos, ",") {
			return l, fmt.Errorf("option Labels is %q, want pm1, 01, 12, or two labels with a comma between them, the negative one first", s)
		}
		quoted = []string{neg, pos}
	}
	var kinds [2]labelKind
	for i, w := range quoted {
		var v float64
		if kinds[i], v, l.text[i], err = parseLabel(w, !strings.HasPrefix(s, `"`)); err != nil {
			return l, fmt.Errorf("option Labels is %q: %w", s, err)
		}
		l.json[i] = l.text[i]
		if kinds[i] == texts {
			b, err := json.Marshal(l.text[i])
			if err != nil {
				return l, err
			}
			l.json[i] = string(b)
		}
		if i == 0 {
			l.neg = v
		} else {
			l.pos = v
		}
	}
	l.kind = kinds[0]
	switch {
	case kinds[0] != kinds[1]:
		return l, fmt.Errorf("option Labels is %q: the labels must both be numbers, both texts, or false and true", s)
	case l.text[0] == l.text[1]:
		return l, fmt.Errorf("option Labels is %q: the two labels are the same", s)
	}
	return l, nil
}

// parseLabel says what a label is; bare says that it may be more than a text.
func parseLabel(s string, bare bool) (kind labelKind, v float64, text string, err error) {
	if bare {
		if s == "true" || s == "false" {
			return bools, 0, s, nil
		}
		if d, n := scan([]byte(s)); n > 0 && n == len(s) {
			if v = d.float64([]byte(s)); v-v != 0 {
				return numbers, 0, "", fmt.Errorf("%s is not finite", s)
			}
			b, err := json.Marshal(v + 0) // −0 becomes 0
			return numbers, v, string(b), err
		}
		if t, err := strconv.Unquote(s); err == nil && s[0] == '"' {
			s = t
		}
	}
	switch {
	case s == "" || s == "?":
		err = errors.New("an empty label or ? stands for an example without one")
	case !utf8.ValidString(s) || strings.TrimSpace(s) != s || strings.ContainsAny(s, "\"\r\n"):
		err = fmt.Errorf("the label %q holds what cannot be written in all forms", s)
	}
	return texts, 0, s, err
}

// String returns the labels in full, as Options.Labels takes them: -1,1.
func (l *labels) String() string { return l.json[0] + "," + l.json[1] }

// decode returns the label that the number v on the wire means.
func (l *labels) decode(v float64) (float64, error) {
	switch {
	case v-v != 0:
		return 0, failf(stream.StageLabel, stream.ReasonNotFinite, "y", "the label is %v, want a finite number", v)
	case l.regress:
		return v, nil
	case l.kind != numbers:
		return 0, l.unknown(numeral(v))
	case v == l.pos:
		return 1, nil
	case v == l.neg:
		return -1, nil
	}
	return 0, l.unknown(numeral(v))
}

// numeral is a label as records may have it, and as messages show it.
func numeral(v float64) (text, shown string) {
	text = strconv.FormatFloat(v, 'g', -1, 64)
	return text, text
}

// number reports whether labels are numbers.
func (l *labels) number() bool { return l.regress || l.kind == numbers }

// word returns the label that a text means, where labels are no numbers.
func (l *labels) word(text []byte) (float64, error) {
	switch string(text) {
	case l.text[1]:
		return 1, nil
	case l.text[0]:
		return -1, nil
	}
	return 0, l.unknown(string(text), quoted(text))
}

// LabelError is the cause of a stream.FieldError about a label that is neither
// of the two.
type LabelError struct {
	// Label is what the record has.
	Label string

	shown              string
	negative, positive string
}

func (e *LabelError) Error() string {
	return fmt.Sprintf("the label is %s, want %s or %s", e.shown, e.negative, e.positive)
}

func (l *labels) unknown(text, shown string) error {
	return fail(stream.StageLabel, stream.ReasonLabel, "y", &LabelError{text, shown, l.json[0], l.json[1]})
}

// encode is decode's inverse. Of labels that are no numbers it returns −1 or 1,
// see class.
func (l *labels) encode(y float64) (float64, error) {
	switch {
	case y-y != 0:
		return 0, failf(stream.StageLabel, stream.ReasonNotFinite, "y", "the label is %v, want a finite number", y)
	case l.regress:
		return y, nil
	case y == 1 || y == -1:
		if l.kind != numbers {
			return y, nil
		}
		if y == 1 {
			return l.pos, nil
		}
		return l.neg, nil
	}
	return 0, failf(stream.StageLabel, stream.ReasonLabel, "y", "the label is %v, want -1 or 1", y)
}

// class is the index of y, −1 or 1, in text and json.
func class(y float64) int {
	if y > 0 {
		return 1
	}
	return 0
}

// appendText appends the label y as it is in text.
func (l *labels) appendText(dst []byte, y float64) ([]byte, error) {
	v, err := l.encode(y)
	if err != nil {
		return dst, err
	}
	if !l.number() {
		return append(dst, l.text[class(y)]...), nil
	}
	return appendFloat64(dst, v), nil
}

// appendJSON appends the label y as it is in JSON.
func (l *labels) appendJSON(dst []byte, y float64) ([]byte, error) {
	v, err := l.encode(y)
	if err != nil {
		return dst, err
	}
	if !l.number() {
		return append(dst, l.json[class(y)]...), nil
	}
	return appendFloat64(dst, v), nil
}
