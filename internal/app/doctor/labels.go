package doctor

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/streamsvm/streamsvm/stream/codec"
)

// label is what a record has where its label is expected. Two that a codec
// takes for the same are equal.
type label struct {
	kind labelKind
	text string // of numbers in their shortest form
}

type labelKind uint8

const (
	number labelKind = iota + 1
	boolean
	word // a number in quotes, too, where the form has them
)

// noLabel is where there is none.
var noLabel = label{}

// numberLabel is a label that is a number.
func numberLabel(s string) (label, bool) {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || v-v != 0 {
		return noLabel, false
	}
	return label{number, strconv.FormatFloat(v+0, 'g', -1, 64)}, true // -0 becomes 0
}

// textLabel is the label that a text means in forms that are text.
func textLabel(s string) label {
	s = strings.TrimSpace(s)
	switch s {
	case "", "?":
		return noLabel
	case "true", "false":
		return label{boolean, s}
	}
	if l, ok := numberLabel(s); ok {
		return l
	}
	return label{word, s}
}

// valueLabel is the label that a value of JSON or MessagePack is.
func valueLabel(v any) label {
	switch v := v.(type) {
	case bool:
		return label{boolean, strconv.FormatBool(v)}
	case string:
		return label{word, v}
	case nil:
		return noLabel
	}
	l, ok := numberLabel(fmt.Sprint(v)) // MessagePack has numbers of many types
	if !ok {
		l = label{word, "an object or a list"}
	}
	return l
}

// tally counts labels.
type tally map[label]int

func (t tally) add(l label) {
	if l != noLabel {
		t[l]++
	}
}

func (t tally) total() (n int) {
	for _, k := range t {
		n += k
	}
	return n
}

// sorted lists the labels, numbers first.
func (t tally) sorted() []label {
	return slices.SortedFunc(maps.Keys(t), func(a, b label) int {
		if a.kind == number && b.kind == number {
			x, _ := strconv.ParseFloat(a.text, 64) // a number it is
			y, _ := strconv.ParseFloat(b.text, 64)
			return cmp.Compare(x, y)
		}
		return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.text, b.text))
	})
}

// has reports whether there is a label of that kind.
func (t tally) has(k labelKind) bool {
	for l := range t {
		if l.kind == k {
			return true
		}
	}
	return false
}

// mixed reports whether there are labels of several kinds.
func (t tally) mixed() bool {
	kinds := map[labelKind]bool{}
	for l := range t {
		kinds[l.kind] = true
	}
	return len(kinds) > 1
}

// folded is how many labels there are without regard to case and quotes.
func (t tally) folded() int {
	all := map[string]bool{}
	for l := range t {
		all[strings.ToLower(strings.TrimSpace(l.text))] = true
	}
	return len(all)
}

func (t tally) String() string {
	var list []string
	for i, l := range t.sorted() {
		if i == 6 {
			list = append(list, fmt.Sprintf("and %d more", len(t)-i))
			break
		}
		text := l.text
		if l.kind == word && textLabel(text).kind != word {
			text = strconv.Quote(text)
		}
		list = append(list, fmt.Sprintf("%s (%d)", text, t[l]))
	}
	return strings.Join(list, ", ")
}

// polarities are pairs of words, the negative one first.
var polarities = [][2]string{
	{"false", "true"}, {"no", "yes"}, {"n", "y"}, {"f", "t"}, {"off", "on"}, {"neg", "pos"}, {"negative", "positive"}, {"-", "+"}, {"ham", "spam"},
	{"ok", "fraud"}, {"legit", "fraud"}, {"normal", "attack"}, {"normal", "anomaly"}, {"bad", "good"}, {"benign", "malignant"}, {"failure", "success"}, {"absent", "present"}, {"stay", "churn"},
}

// convention returns the setting labels for the two labels that there are;
// present is the one that holds, and stays if it reads them.
func (t tally) convention(present string) string {
	if t.readBy(present) {
		return present
	}
	two := t.sorted()
	neg, pos := two[0], two[1]
	for _, p := range polarities {
		if p[0] == strings.ToLower(pos.text) && p[1] == strings.ToLower(neg.text) {
			neg, pos = pos, neg
		}
	}
	bare := neg.text + "," + pos.text
	switch {
	case neg.kind == number && pos.kind == number && bare == "-1,1":
		return "pm1"
	case neg.kind == number && pos.kind == number && (bare == "0,1" || bare == "1,2"):
		return strings.ReplaceAll(bare, ",", "")
	case t.readBy(bare):
		return bare
	}
	return strconv.Quote(neg.text) + "," + strconv.Quote(pos.text)
}

// readBy reports whether the setting labels reads all of them.
func (t tally) readBy(setting string) bool {
	neg, pos, err := codec.ParseLabels(setting)
	if err != nil {
		return false
	}
	for l := range t {
		if l != valueLabel(neg) && l != valueLabel(pos) {
			return false
		}
	}
	return true
}

// quantities reports whether the labels look like values to predict, not like
// the names of classes.
func (t tally) quantities() bool {
	whole := 0
	for l := range t {
		if l.kind != number {
			return false
		}
		if v, _ := strconv.ParseFloat(l.text, 64); v == math.Trunc(v) {
			whole++
		}
	}
	return whole < len(t) || len(t) > 100
}

// labelName tells names that people give to labels.
func labelName(s string) bool {
	switch strings.ToLower(strings.ReplaceAll(s, "_", "")) {
	case "y", "label", "labels", "class", "target", "outcome", "category", "islabel", "groundtruth", "fraud", "isfraud", "churn", "churned", "clicked", "click", "converted", "spam", "isspam", "result":
		return true
	}
	return false
}
