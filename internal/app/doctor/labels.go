package doctor

import (
	"cmp"
	"encoding/json"
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
	text  string // a number in its shortest form; a word in small letters
	wordy bool   // it is a word, or a number in quotes
}

// noLabel is where there is none.
var noLabel = label{}

// numberLabel is a label that is a number, without quotes where the form has
// them.
func numberLabel(s string) (label, bool) {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || v-v != 0 {
		return noLabel, false
	}
	return label{text: strconv.FormatFloat(v, 'g', -1, 64)}, true
}

// textLabel is the label that a text means.
func textLabel(s string) label {
	s = strings.TrimSpace(s)
	if s == "" || s == "?" {
		return noLabel
	}
	if l, ok := numberLabel(s); ok {
		return l
	}
	return label{text: strings.ToLower(s), wordy: true}
}

// valueLabel is the label that a value of JSON or MessagePack is.
func valueLabel(v any) label {
	switch v := v.(type) {
	case bool:
		return label{text: strconv.FormatBool(v), wordy: true}
	case json.Number:
		l, _ := numberLabel(v.String())
		return l
	case string:
		l := textLabel(v)
		l.wordy = l != noLabel
		return l
	case nil:
		return noLabel
	}
	l, ok := numberLabel(fmt.Sprint(v)) // MessagePack has numbers of many types
	if !ok {
		l = label{text: "an object or a list", wordy: true}
	}
	return l
}

// tally counts labels by their text.
type tally struct {
	n     map[string]int
	wordy bool // one of them is
}

func (t *tally) add(l label) {
	if l == noLabel {
		return
	}
	if t.n == nil {
		t.n = map[string]int{}
	}
	t.n[l.text]++
	t.wordy = t.wordy || l.wordy
}

func (t *tally) total() (n int) {
	for _, k := range t.n {
		n += k
	}
	return n
}

// texts are those of the labels that are there, numbers first, in order.
func (t *tally) texts() []string {
	return slices.SortedFunc(maps.Keys(t.n), func(a, b string) int {
		x, errX := strconv.ParseFloat(a, 64)
		y, errY := strconv.ParseFloat(b, 64)
		switch {
		case errX == nil && errY == nil:
			return cmp.Compare(x, y)
		case errX == nil:
			return -1
		case errY == nil:
			return 1
		}
		return cmp.Compare(a, b)
	})
}

func (t *tally) String() string {
	var list []string
	for i, text := range t.texts() {
		if i == 6 {
			list = append(list, fmt.Sprintf("and %d more", len(t.n)-i))
			break
		}
		list = append(list, fmt.Sprintf("%s (%d)", text, t.n[text]))
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
func (t *tally) convention(present string) string {
	if t.readBy(present) {
		return present
	}
	two := t.texts()
	neg, pos := two[0], two[1]
	for _, p := range polarities {
		if p[0] == pos && p[1] == neg {
			neg, pos = pos, neg
		}
	}
	if !t.wordy {
		switch neg + "," + pos {
		case "-1,1":
			return "pm1"
		case "0,1":
			return "01"
		case "1,2":
			return "12"
		}
	}
	return neg + "," + pos
}

// readBy reports whether the setting labels reads all of them.
func (t *tally) readBy(setting string) bool {
	neg, pos, err := codec.LabelNames(setting)
	if err != nil || t.wordy && !strings.Contains(setting, ",") {
		return false
	}
	for text := range t.n {
		if text != textLabel(neg).text && text != textLabel(pos).text {
			return false
		}
	}
	return true
}

// quantities reports whether the labels look like values to predict, not like
// the names of classes.
func (t *tally) quantities() bool {
	whole := 0
	for text := range t.n {
		v, err := strconv.ParseFloat(text, 64)
		if err != nil || t.wordy {
			return false
		}
		if v == math.Trunc(v) {
			whole++
		}
	}
	return whole < len(t.n) || len(t.n) > 100
}

// labelName tells names that people give to labels.
func labelName(s string) bool {
	switch strings.ToLower(strings.ReplaceAll(s, "_", "")) {
	case "y", "label", "labels", "class", "target", "outcome", "category", "islabel", "groundtruth", "fraud", "isfraud", "churn", "churned", "clicked", "click", "converted", "spam", "isspam", "result":
		return true
	}
	return false
}
