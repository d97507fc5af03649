package codec

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/streamsvm/streamsvm/events"
)

// labelSet counts the labels seen so far.
type labelSet struct {
	numbers map[float64]int
	truths  [2]int
	texts   map[string]int
	strange int
}

// mostLabels bounds the number of labels kept.
const mostLabels = 1000

func (l *labelSet) add(c *events.Cell) {
	switch c.Kind {
	case events.Absent, events.Null:
	case events.Number:
		if c.Num-c.Num != 0 {
			return // Decode refuses it
		}
		if l.numbers == nil {
			l.numbers = map[float64]int{}
		}
		if len(l.numbers) <= mostLabels {
			l.numbers[c.Num+0]++
		}
	case events.Bool:
		l.truths[int(c.Num)]++
	case events.Text:
		if l.texts == nil {
			l.texts = map[string]int{}
		}
		if len(l.texts) <= mostLabels {
			l.texts[string(c.Text)]++
		}
	default:
		l.strange++
	}
}

// usual reports whether both labels of a usual pair have occurred, and no other.
func (l *labelSet) usual() bool {
	if l.truths[0] > 0 && l.truths[1] > 0 {
		return len(l.numbers)+len(l.texts)+l.strange == 0
	}
	return len(l.texts)+l.strange+l.truths[0]+l.truths[1] == 0 && len(l.numbers) == 2 && l.numbers[1] > 0 && (l.numbers[0] > 0 || l.numbers[2] > 0)
}

// differ reports whether there are two labels.
func (l *labelSet) differ() bool {
	return len(l.numbers) > 1 || l.truths[0] > 0 && l.truths[1] > 0 || len(l.texts) > 1
}

// mostClasses is the largest number of labels that are treated as classes.
const mostClasses = 64

// Labels with at most this share of all are treated as mistakes if the others are of
// one type, or a usual pair.
const (
	rareKind  = 0.05 // of another type
	rareClass = 0.005
)

// decide returns Options.Labels.
func (l *labelSet) decide(regress bool) (string, error) {
	truths := l.truths[0] + l.truths[1]
	numbers, texts := sum(l.numbers), sum(l.texts)
	all := truths + numbers + texts + l.strange
	most := max(truths, numbers, texts)
	switch {
	case regress || all == 0:
		return "", nil
	case float64(all-most) > rareKind*float64(all):
		return "", errors.New("the labels are of different types: say which two or more there are with --labels")
	case most == truths:
		return "false,true", nil
	case most == numbers:
		return l.numberLabels()
	}
	words := slices.Sorted(maps.Keys(l.texts))
	switch {
	case len(words) == 1:
		return "", fmt.Errorf("all labels are %q: there is nothing to tell apart; is --codec right?", words[0])
	case len(words) > mostClasses:
		return "", fmt.Errorf("there are more than %d different labels: list them with --labels, and raise --max-classes", mostClasses)
	}
	for i, t := range words {
		if _, _, _, err := parseLabel(t, false); err != nil {
			return "", err
		}
		b, err := json.Marshal(t)
		if err != nil {
			return "", err
		}
		words[i] = string(b)
	}
	return strings.Join(words, ","), nil
}

// any reports whether there is a label.
func (l *labelSet) any() bool {
	return len(l.numbers)+len(l.texts)+l.strange+l.truths[0]+l.truths[1] > 0
}

func sum[K comparable](counts map[K]int) (n int) {
	for _, k := range counts {
		n += k
	}
	return n
}

// numberLabels returns Options.Labels for numbers.
func (l *labelSet) numberLabels() (string, error) {
	numbers, all := slices.Sorted(maps.Keys(l.numbers)), float64(sum(l.numbers))
	// within reports whether the labels are a and b, apart from mistakes.
	within := func(a, b float64) bool {
		others := slices.DeleteFunc(slices.Clone(numbers), func(v float64) bool { return v == a || v == b })
		return !slices.ContainsFunc(others, func(v float64) bool { return float64(l.numbers[v]) > max(rareClass*all, 1) })
	}
	// A pair with both labels seen takes precedence over one whose other label may
	// still come: 0 among many 1 is not a mistake for -1.
	for most := 2; most > 0; most-- {
		for _, pair := range [][2]float64{{-1, 1}, {0, 1}, {1, 2}} {
			n := min(l.numbers[pair[0]], 1) + min(l.numbers[pair[1]], 1)
			if n == most && within(pair[0], pair[1]) {
				return fmt.Sprintf("%v,%v", pair[0], pair[1]), nil
			}
		}
	}
	if len(numbers) == 1 {
		return "", fmt.Errorf("all labels are %v: there is nothing to tell apart", numbers[0])
	}
	whole := !slices.ContainsFunc(numbers, func(v float64) bool { return v != math.Trunc(v) })
	if len(numbers) > mostClasses || len(numbers) > 2 && !whole {
		return "", fmt.Errorf("the labels are %d different numbers, such as %v: predict them with --task regress, or list classes with --labels", len(numbers), numbers[0])
	}
	list := make([]string, len(numbers))
	for i, v := range numbers {
		list[i] = strconv.FormatFloat(v, 'g', -1, 64)
	}
	return strings.Join(list, ","), nil
}
