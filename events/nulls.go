package events

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// nullTexts stand for no value in a field of numbers or times, in small or capital letters.
var nullTexts = []string{"", "?", "-", "--", "na", "n/a", "nan", "null", "nil", "none", "unknown", "missing", "undefined"}

const leastFarOff = 50 // values

// null reports whether c stands for no value.
func (f *Field) null(c *Cell) bool {
	if f.Nulls == nil {
		return false
	}
	v := c.Num
	if c.Kind == Text {
		var ok bool
		if v, ok = decimal(c.Text); !ok {
			return slices.Contains(f.Nulls, string(c.Text))
		}
	}
	return (c.Kind == Text || c.Kind == Number) && slices.Contains(f.nulls, v)
}

// NullNumbers returns those of Nulls that are numbers.
func (f *Field) NullNumbers() (list []float64) {
	for _, text := range f.Nulls {
		if v, ok := decimal([]byte(text)); ok {
			list = append(list, v)
		}
	}
	return list
}

// nulls returns the texts that stand for no value in a field of numbers or times, and how often
// they occur: those of nullTexts and, where most values are numbers, or nine of ten are texts with
// numbers, another that recurs. With more of these they would no longer be told apart.
func (c *column) nulls() (list []string, n int) {
	var codes []string
	numbers := c.kinds[Number]
	for text, k := range c.texts {
		switch {
		case noTime(text):
			list, n = append(list, text), n+k
		case Measured([]byte(text)):
			numbers += k
		case slices.Contains(nullTexts, strings.ToLower(strings.TrimSpace(text))):
			list, n = append(list, text), n+k
		case k >= defaultMin:
			codes = append(codes, text)
		}
	}
	if len(codes) == 1 && (2*c.kinds[Number] >= c.n || 10*numbers >= 9*c.n) {
		list, n = append(list, codes[0]), n+c.texts[codes[0]]
	}
	slices.Sort(list)
	return list, n
}

// noTime reports whether a text is a time by which programs say that there is none: of the year 0, 1
// or 9999, or the first second of 1970.
func noTime(text string) bool {
	if strings.HasPrefix(text, "0000-00-00") {
		return true
	}
	for _, order := range []string{DayFirst, MonthFirst} {
		if t, ok := parseTime([]byte(text), order); ok && (t.Year() <= 1 || t.Year() == 9999 || t.Unix() == 0 && len(text) > len(time.DateOnly)) {
			return true
		}
	}
	return false
}

// farOff returns up to two numbers that stand for no value, such as -999 and 9999: they recur,
// have no digit but 9, and are farther from all others than these are from one another.
func (c *column) farOff(f *Field) (list []string) {
	var vs []float64
	for i := range c.all {
		if v, err := number(&Field{Type: Numeric, Unit: f.Unit, Comma: f.Comma}, &c.all[i]); err == nil {
			vs = append(vs, v)
		}
	}
	slices.Sort(vs)
	for range 2 {
		n := len(vs)
		if n < leastFarOff {
			return list
		}
		below, _ := slices.BinarySearch(vs, math.Nextafter(vs[0], math.Inf(1)))
		above, _ := slices.BinarySearch(vs, vs[n-1])
		switch least := max(defaultMin, n/200); {
		case below >= least && below < n && apart(vs[below:], vs[0]):
			list, vs = append(list, strconv.FormatFloat(vs[0], 'g', -1, 64)), vs[below:]
		case n-above >= least && above > 0 && apart(vs[:above], vs[n-1]):
			list, vs = append(list, strconv.FormatFloat(vs[n-1], 'g', -1, 64)), vs[:above]
		default:
			return list
		}
	}
	return list
}

// apart reports whether v has no digit but 9 and is farther from the sorted numbers vs, ten
// different ones or more, than these are from one another.
func apart(vs []float64, v float64) bool {
	span := vs[len(vs)-1] - vs[0]
	return strings.Trim(strconv.FormatFloat(math.Abs(v), 'f', -1, 64), "9") == "" && min(math.Abs(v-vs[0]), math.Abs(v-vs[len(vs)-1])) > span && len(slices.Compact(slices.Clone(vs))) >= 10
}

// firstTime returns the first of sorted numbers that are times, and up to two different ones
// before, not above 0, that stand for none: 0 and -1.
func firstTime(sorted []float64) (first float64, never []string) {
	k, _ := slices.BinarySearch(sorted, math.SmallestNonzeroFloat64)
	early := slices.Compact(slices.Clone(sorted[:k]))
	if 2*k >= len(sorted) || len(early) > 2 {
		return sorted[0], nil
	}
	for _, v := range early {
		never = append(never, strconv.FormatFloat(v, 'g', -1, 64))
	}
	return sorted[k], never
}
