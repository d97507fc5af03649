package events

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/streamsvm/streamsvm/stream"
)

// number returns the transformed number of c.
func number(f *Field, c *Cell) (float64, *FieldError) {
	v := c.Num
	switch c.Kind {
	case Number, Bool, Time:
	case Text:
		var ok bool
		if v, ok = f.decimal(c.Text); !ok {
			return 0, invalid(f, c)
		}
	default:
		return 0, invalid(f, c)
	}
	if f.Clip != nil {
		v = min(max(v, f.Clip[0]), f.Clip[1])
	}
	if f.Transform != "" {
		v = math.Copysign(math.Log1p(math.Abs(v)), v)
	}
	w := float32(v)
	if w-w != 0 {
		return 0, &FieldError{f.Name, stream.ReasonNotFinite, fmt.Errorf("%g is not a finite float32", v)}
	}
	return float64(w), nil
}

// decimal parses a number that is written as a text.
func decimal(text []byte) (float64, bool) {
	if len(text) == 0 || len(text) > 64 {
		return 0, false
	}
	switch c := text[0]; {
	case c >= '0' && c <= '9' || c == '-' || c == '+' || c == '.':
	default: // no NaN, Inf
		return 0, false
	}
	for _, c := range text {
		if c == 'x' || c == 'X' || c == '_' || c == 'n' || c == 'N' {
			return 0, false
		}
	}
	v, err := strconv.ParseFloat(string(text), 64)
	return v, err == nil
}

// number chooses the type of a column of numbers. Whole numbers are categories if the name
// of the field or the labels say that they are names.
func (c *column) number(f *Field) {
	f.Type = Numeric
	sorted := slices.Sorted(slices.Values(c.numbers))
	whole, distinct := true, true
	for i, v := range sorted {
		whole = whole && v == math.Trunc(v)
		distinct = distinct && (i == 0 || v != sorted[i-1])
	}
	n, first, last := len(sorted), sorted[0], sorted[len(sorted)-1]
	var never []string
	unit, timed := "", timeName(f.Name) && f.Unit == "" && f.Comma == ""
	if timed {
		first, never = firstTime(sorted)
		if unit = timeUnit(f.Name, first, last); !whole && unit != "s" {
			unit = ""
		}
	}
	switch {
	case whole && distinct && !timed && (n >= leastRun && last-first == float64(n-1) || n >= leastIDs && c.ids(f)):
		f.Type, f.Note = Ignore, "it looks like an id: whole numbers that are all different"
	case unit != "":
		f.Type, f.Unit, f.Nulls = Timestamp, unit, never
	case whole && (codeName(f.Name) || 100*c.zeros >= n || c.names(f)):
		c.texts = map[string]int{}
		for i := range c.all {
			text, _ := c.all[i].category(nil)
			c.texts[string(text)]++
		}
		c.category(f, c.n)
	default:
		f.Nulls = c.farOff(f)
	}
}

// setMeans sets the means and the deviations of numbers. It sorts each of lists before it sums,
// so that their order does not matter.
func (f *Field) setMeans(lists ...[]float64) {
	f.Means, f.deviations = make([]float64, len(lists)), make([]float64, len(lists))
	for k, vs := range lists {
		slices.Sort(vs)
		sum, squares, n := 0.0, 0.0, float64(max(len(vs), 1))
		for _, v := range vs {
			sum += v
		}
		for _, v := range vs {
			squares += (v - sum/n) * (v - sum/n)
		}
		f.Means[k], f.deviations[k] = float64(float32(sum/n)), math.Sqrt(squares/n)
	}
}

// center decides which numbers are centered. Those with heavy tails are not: learners take their
// logarithms, from 0 on.
func (s *Schema) center() {
	for i := range s.Fields {
		f := &s.Fields[i]
		mean, deviation := 0.0, 0.0
		for k, m := range f.Means {
			mean += m * m
			deviation += f.deviations[k] * f.deviations[k]
		}
		f.Centered = f.Type != Boolean && mean > deviation
	}
	_ = s.place() // once more, with the same features
}

// quantiles sets Range, Quantiles and Reference from sorted numbers.
func (f *Field) quantiles(vs []float64) {
	if len(vs) == 0 {
		return
	}
	f.Range = []float64{vs[0], vs[len(vs)-1]}
	for k := 1; k < 10; k++ {
		if q := vs[k*len(vs)/10]; q < f.Range[1] && (len(f.Quantiles) == 0 || q > f.Quantiles[len(f.Quantiles)-1]) {
			f.Quantiles = append(f.Quantiles, q)
		}
	}
	below := 0
	for _, q := range f.Quantiles {
		n, _ := slices.BinarySearch(vs, math.Nextafter(q, math.Inf(1)))
		f.Reference = append(f.Reference, share(n-below, len(vs)))
		below = n
	}
	f.Reference = append(f.Reference, share(len(vs)-below, len(vs)))
}

func share(n, of int) float64 { return math.Round(1e4*float64(n)/float64(of)) / 1e4 }

// number sets feature k of the numbers of f.
func (e *encoder) number(f *Field, k int, v float64) {
	if f.Centered {
		v = float64(float32(v)) - f.Means[k]
	}
	e.set(f.at+k, float32(v))
}
