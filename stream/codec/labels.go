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

// labels maps labels on the wire to labels in memory. There are two, −1 and +1,
// or more, numbered from 0 on; with more than two, new labels may appear later.
type labels struct {
	regress bool
	kind    labelKind
	neg     float64  // the wire value of −1, if there are two numbers
	pos     float64  // the wire value of +1
	text    []string // labels as text: −1 and +1, or by number
	json    []string // labels in JSON
	// Numbers of more than two labels: by text, and by numeric value.
	class  map[string]int
	number map[float64]int
	values []float64 // the labels, if they are more than two numbers
	forbid string    // bytes that a text of another class must not hold
}

// label is a decoded label, as in stream.Example.
type label struct {
	y     float64
	class string
}

type labelKind uint8

const (
	numbers labelKind = iota
	bools
	texts
)

// ParseClasses returns the labels that s, a value of Options.Labels, lists, two or
// more: all are float64, all bool, or all string. Of two the first is the negative
// one; more are in the order of their numbers.
func ParseClasses(s string) ([]any, error) {
	l, err := parseLabels(s)
	if err != nil {
		return nil, err
	}
	all := make([]any, len(l.text))
	for i := range all {
		all[i] = l.value(i)
	}
	return all, nil
}

// value returns label i, converted from its text.
func (l *labels) value(i int) any {
	switch {
	case l.kind == texts:
		return l.text[i]
	case l.kind == bools:
		return l.text[i] == "true"
	case l.many():
		return l.values[i]
	case i == 0:
		return l.neg
	}
	return l.pos
}

// many reports whether there are more than two labels.
func (l *labels) many() bool { return len(l.text) > 2 }

// parseLabels parses a value of Options.Labels.
func parseLabels(s string) (l labels, err error) {
	switch s {
	case "", "pm1":
		s = "-1,1"
	case "01":
		s = "0,1"
	case "12":
		s = "1,2"
	}
	// Texts that hold a comma come in double quotes, all of them.
	var quoted []string
	if json.Unmarshal([]byte("["+s+"]"), &quoted) != nil || len(quoted) < 2 {
		if quoted = strings.Split(s, ","); len(quoted) < 2 {
			return l, fmt.Errorf("option Labels is %q, want pm1, 01, 12, or two labels with a comma between them, the negative one first, or more", s)
		}
	}
	l.class, l.number = make(map[string]int, len(quoted)), map[float64]int{}
	for i, w := range quoted {
		kind, v, text, err := parseLabel(w, !strings.HasPrefix(s, `"`))
		if err != nil {
			return l, fmt.Errorf("option Labels is %q: %w", s, err)
		}
		inJSON := text
		if kind == texts {
			b, err := json.Marshal(text)
			if err != nil {
				return l, err
			}
			inJSON = string(b)
		}
		if i == 0 {
			l.kind, l.neg = kind, v
		}
		l.pos = v
		switch _, twice := l.class[text]; {
		case kind != l.kind && len(quoted) == 2:
			return l, fmt.Errorf("option Labels is %q: the labels must both be numbers, both texts, or false and true", s)
		case kind != l.kind:
			return l, fmt.Errorf("option Labels is %q: the labels must all be numbers or all be texts", s)
		case twice && len(quoted) == 2:
			return l, fmt.Errorf("option Labels is %q: the two labels are the same", s)
		case twice:
			return l, fmt.Errorf("option Labels is %q: the label %s comes twice", s, text)
		}
		l.text, l.json, l.values = append(l.text, text), append(l.json, inJSON), append(l.values, v)
		l.class[text], l.number[v] = i, i
	}
	return l, nil
}

// parseLabel parses one label; bare says that it may be a boolean or a number.
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
		err = fmt.Errorf("the label %q has characters that not every format can write", s)
	}
	return texts, 0, s, err
}

// String returns the labels in full, as Options.Labels takes them: -1,1.
func (l *labels) String() string { return strings.Join(l.json, ",") }

// decode returns the label for the number v on the wire.
func (l *labels) decode(v float64) (label, error) {
	switch {
	case v-v != 0:
		return label{}, failf(stream.StageLabel, stream.ReasonNotFinite, "y", "the label is %v, want a finite number", v)
	case l.regress:
		return label{y: v}, nil
	case l.kind != numbers:
		return label{}, l.unknown(numeral(v))
	case l.many():
		if k, ok := l.number[v]; ok {
			return label{y: float64(k)}, nil
		}
		text, _ := numeral(v + 0) // −0 becomes 0
		return label{class: text}, nil
	case v == l.pos:
		return label{y: 1}, nil
	case v == l.neg:
		return label{y: -1}, nil
	}
	return label{}, l.unknown(numeral(v))
}

// numeral formats a number as a label of records, and as error messages show it.
func numeral(v float64) (text, shown string) {
	text = strconv.FormatFloat(v, 'g', -1, 64)
	return text, text
}

// numeric reports whether labels are numbers.
func (l *labels) numeric() bool { return l.regress || l.kind == numbers }

// maxClass bounds the length of the text of a class that is found in the stream.
const maxClass = 256

// word returns the label for a text if labels are not numbers.
func (l *labels) word(text []byte) (label, error) {
	if l.many() {
		if k, ok := l.class[string(text)]; ok {
			return label{y: float64(k)}, nil
		}
		class := string(text)
		_, _, _, err := parseLabel(class, false)
		switch {
		case err == nil && len(class) > maxClass:
			err = fmt.Errorf("the label has %d bytes, the limit is %d", len(class), maxClass)
		case err == nil && strings.ContainsAny(class, l.forbid):
			err = fmt.Errorf("the label %s contains the separator of fields", quoted(text))
		}
		if err != nil {
			return label{}, fail(stream.StageLabel, stream.ReasonLabel, "y", err)
		}
		return label{class: class}, nil
	}
	switch string(text) {
	case l.text[1]:
		return label{y: 1}, nil
	case l.text[0]:
		return label{y: -1}, nil
	}
	return label{}, l.unknown(string(text), quoted(text))
}

// LabelError is the cause of a stream.FieldError about a label that is not one of the
// known labels.
type LabelError struct {
	// Label is the label in the record.
	Label string

	shown string
	want  []string
}

func (e *LabelError) Error() string {
	n := len(e.want) - 1
	return fmt.Sprintf("the label is %s, want %s or %s", e.shown, strings.Join(e.want[:n], ", "), e.want[n])
}

func (l *labels) unknown(text, shown string) error {
	return fail(stream.StageLabel, stream.ReasonLabel, "y", &LabelError{text, shown, l.json})
}

// encode is the inverse of decode and word: it returns the label of ex as a number
// or, if labels are not numbers, as a text and in JSON.
func (l *labels) encode(ex *stream.Example) (v float64, text, inJSON string, err error) {
	y := ex.Y
	refuse := func(want string) (float64, string, string, error) {
		return 0, "", "", failf(stream.StageLabel, stream.ReasonLabel, "y", "the label is %v, want %s", y, want)
	}
	i := 0
	switch {
	case y-y != 0:
		return 0, "", "", failf(stream.StageLabel, stream.ReasonNotFinite, "y", "the label is %v, want a finite number", y)
	case l.regress:
		return y, "", "", nil
	case l.many() && ex.Class != "":
		return l.encodeClass(ex.Class)
	case l.many():
		if i = int(y); float64(i) != y || i < 0 || i >= len(l.text) {
			return refuse(fmt.Sprintf("the number of a class, 0 to %d", len(l.text)-1))
		}
		v = l.values[i]
	case y == 1:
		i, v = 1, l.pos
	case y == -1:
		v = l.neg
	default:
		return refuse("-1 or 1")
	}
	if l.kind == numbers {
		return v, "", "", nil
	}
	return 0, l.text[i], l.json[i], nil
}

// encodeClass is encode for a class without a number.
func (l *labels) encodeClass(class string) (v float64, text, inJSON string, err error) {
	if l.kind == numbers {
		if v, err = strconv.ParseFloat(class, 64); err != nil || v-v != 0 {
			return 0, "", "", failf(stream.StageLabel, stream.ReasonLabel, "y", "the label is %q, want a number", class)
		}
		return v, "", "", nil
	}
	if _, err := l.word([]byte(class)); err != nil {
		return 0, "", "", err
	}
	b, err := json.Marshal(class)
	return 0, class, string(b), err
}

// appendText appends the label of ex in text form.
func (l *labels) appendText(dst []byte, ex *stream.Example) ([]byte, error) {
	v, text, _, err := l.encode(ex)
	if err != nil || !l.numeric() {
		return append(dst, text...), err
	}
	return appendFloat64(dst, v), nil
}

// appendJSON appends the label of ex in JSON.
func (l *labels) appendJSON(dst []byte, ex *stream.Example) ([]byte, error) {
	v, _, text, err := l.encode(ex)
	if err != nil || !l.numeric() {
		return append(dst, text...), err
	}
	return appendFloat64(dst, v), nil
}
