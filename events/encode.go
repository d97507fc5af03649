package events

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/streamsvm/streamsvm/stream"
)

// FieldError says which field of an event cannot be encoded, and why.
type FieldError struct {
	Field  string
	Reason stream.Reason
	Err    error
}

func (e *FieldError) Error() string { return fmt.Sprintf("%s: %v", e.Field, e.Err) }

func (e *FieldError) Unwrap() error { return e.Err }

// half is the value of a category's feature: two categories are then 1 apart.
var half = float32(math.Sqrt(0.5))

// An encoder makes the vector of one event.
type encoder struct {
	s   *Schema
	row *Row
	val []float32
	idx []int32 // nil if val is dense
}

// Encode returns the vector of an event, with [Schema.Dim] features, in memory of a,
// which may be nil. It is dense up to DenseLimit features. Row has a cell for each field
// of the schema; Encode sets its Issues. The error is a *FieldError.
func (s *Schema) Encode(row *Row, a *stream.Arena) (stream.Vec, error) {
	e := encoder{s: s, row: row}
	row.Issues = row.Issues[:0]
	if s.dim <= DenseLimit {
		e.val = a.Val(s.dim)[:s.dim]
		clear(e.val)
	} else {
		e.val, e.idx = a.Val(64), a.Idx(64)
	}
	for k := range s.steps {
		st := &s.steps[k]
		c := &row.Cells[st.i]
		if c.Kind == st.kind {
			// The usual values are encoded here, without the calls of field, which
			// take most of the time.
			switch st.way {
			case asNumber:
				if v := float32(c.Num); float64(v) >= st.low && float64(v) <= st.high && v-v == 0 {
					e.set(st.at, float32(float64(v)-st.center))
					continue
				}
			case asTruth:
				e.set(st.at, float32(c.Num))
				continue
			case asCategory:
				if k := st.field.find(c.Text); k >= 0 {
					e.set(st.at+k, half)
					continue
				}
			case asHash:
				j, sign := st.field.slot(c.Text)
				e.set(st.at+j, float32(sign)*half)
				continue
			}
		}
		if err := e.field(st.i, st.field, c); err != nil {
			return stream.Vec{}, err
		}
	}
	return a.Take(stream.Vec{Idx: e.idx, Val: e.val}), nil
}

func (e *encoder) note(field int, k IssueKind) {
	e.row.Issues = append(e.row.Issues, Issue{field, k})
}

// set assigns v to feature j, which is larger than all set before.
func (e *encoder) set(j int, v float32) {
	switch {
	case e.idx == nil:
		e.val[j] = v
	case v != 0:
		e.idx, e.val = append(e.idx, int32(j)), append(e.val, v)
	}
}

// A step describes how to encode a field, and which of its values are usual.
type step struct {
	i, at int // the field and its first feature
	field *Field
	kind  Kind // of usual values
	way   way
	// low and high are the range of usual numbers, and center is subtracted from them.
	low, high, center float64
}

// A way is a method of encoding a usual value.
type way uint8

const (
	unusual way = iota // by the general method
	asNumber
	asTruth
	asCategory
	asHash
)

// step returns the step of field i.
func (f *Field) step(i int) step {
	st := step{i: i, at: f.at, field: f, low: math.Inf(-1), high: math.Inf(1)}
	if len(f.Range) == 2 {
		st.low, st.high = f.Range[0], f.Range[1]
	}
	switch {
	case f.Type == Numeric && f.Clip == nil && f.Transform == "" && !slices.ContainsFunc(f.nulls, func(v float64) bool { return v >= st.low && v <= st.high }):
		st.kind, st.way = Number, asNumber
	case f.Type == Boolean:
		st.kind, st.way = Bool, asTruth
	case f.Before != "" || f.After != "":
	case f.Type == Categorical && f.Hash > 0:
		st.kind, st.way = Text, asHash
	case f.Type == Categorical:
		st.kind, st.way = Text, asCategory
	}
	return st
}

var errMissing = errors.New("missing")

func (e *encoder) field(i int, f *Field, c *Cell) error {
	if c.Kind > Null && !f.null(c) {
		err := e.value(i, f, c)
		if err == nil {
			return nil
		}
		if cmp.Or(f.Invalid, e.s.Invalid, Refuse) == Refuse || err.Reason == stream.ReasonLabel {
			e.note(i, Invalid)
			return err
		}
		e.note(i, Invalid)
	}
	if cmp.Or(f.Missing, e.s.Missing, Indicator) == Refuse {
		return &FieldError{f.Name, stream.ReasonMissing, errMissing}
	}
	e.note(i, Missing)
	e.missing(f)
	return nil
}

// missing encodes a missing value: as the mean, and with its indicator if it has one.
func (e *encoder) missing(f *Field) {
	indicator := len(f.MissingIndicator) > 0 && f.MissingIndicator[0]
	switch f.Type {
	case Numeric, Boolean, Length, Summary:
		for k, m := range f.Means {
			e.number(f, k, m)
		}
		if indicator {
			e.set(f.at+len(f.Means), half)
		}
	case Array:
		for k, m := range f.Means {
			e.number(f, k, m)
		}
		j := f.at + len(f.Means)
		for _, g := range f.MissingIndicator {
			if g {
				e.set(j, half)
				j++
			}
		}
	case Categorical, Tags, Timestamp:
		if f.aged() {
			e.number(f, 0, f.Means[0])
		}
		switch {
		case indicator:
			e.set(f.at+f.width()-1, half)
		case f.Type == Categorical && f.Hash == 0: // none was missing in the first events
			e.set(f.at+len(f.Categories), half)
		}
	}
}

// value encodes a value. If it returns an error, it has set no feature.
func (e *encoder) value(i int, f *Field, c *Cell) *FieldError {
	switch f.Type {
	case Numeric:
		v, err := number(f, c)
		if err != nil {
			return err
		}
		if len(f.Range) == 2 && (v < f.Range[0] || v > f.Range[1]) {
			e.note(i, Outside)
		}
		e.number(f, 0, v)
	case Boolean:
		v, ok := truth(c)
		if !ok {
			return invalid(f, c)
		}
		e.set(f.at, v)
	case Categorical:
		return e.category(i, f, c)
	case Tags:
		return e.tags(i, f, c)
	case Timestamp:
		t, ok := f.time(c)
		if !ok {
			return invalid(f, c)
		}
		e.parts(f, t)
	case HashedText:
		if c.Kind != Text {
			return invalid(f, c)
		}
		e.words(f, c.Text)
	case Array:
		if c.Kind == Text && f.Split != "" {
			from := len(e.row.Items)
			e.row.Items = appendNumbers(e.row.Items, c.Text, f.Split)
			c = &Cell{Kind: List, From: int32(from), To: int32(len(e.row.Items))}
		}
		return e.array(i, f, c)
	case Length:
		v := c.Num
		if c.Kind == List {
			v = float64(c.To - c.From)
		} else if c.Kind != Number || !c.finite() {
			return invalid(f, c)
		}
		e.number(f, 0, v)
	case Summary:
		return e.summary(i, f, c)
	}
	return nil
}

func invalid(f *Field, c *Cell) *FieldError {
	reason := stream.ReasonType
	if !c.finite() {
		reason = stream.ReasonNotFinite
	}
	unit := ""
	if f.Type == Numeric && f.Unit != "" {
		unit = " with unit " + f.Unit
	}
	return &FieldError{f.Name, reason, fmt.Errorf("%s, where the schema has %s%s", c.what(), f.Type, unit)}
}

// what describes a cell in an error.
func (c *Cell) what() string {
	switch {
	case c.Kind == Text && len(c.Text) <= 32:
		return "the text " + strconv.QuoteToASCII(string(c.Text))
	case c.Kind == Number:
		return "the number " + strconv.FormatFloat(c.Num, 'g', -1, 64)
	}
	return c.Kind.String()
}

// truth returns 0 or 1.
func truth(c *Cell) (float32, bool) {
	switch {
	case c.Kind == Bool || c.Kind == Number && (c.Num == 0 || c.Num == 1):
		return float32(c.Num), true
	case c.Kind == Text:
		switch string(c.Text) {
		case "true", "True", "TRUE", "1":
			return 1, true
		case "false", "False", "FALSE", "0":
			return 0, true
		}
	}
	return 0, false
}

// finite reports whether a cell is not a number, or a finite one.
func (c *Cell) finite() bool { return c.Kind != Number || c.Num-c.Num == 0 }
