package events

import (
	"bytes"
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

// A term is a value to add to a feature of a field; at is relative to its first feature.
type term struct {
	at int32
	v  float32
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

// number sets feature k of the numbers of f.
func (e *encoder) number(f *Field, k int, v float64) {
	if f.Centered {
		v = float64(float32(v)) - f.Means[k]
	}
	e.set(f.at+k, float32(v))
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

// category returns the category that a cell names.
func (c *Cell) category(buf []byte) ([]byte, bool) {
	switch c.Kind {
	case Text:
		return c.Text, true
	case Bool:
		if c.Num != 0 {
			return append(buf, "true"...), true
		}
		return append(buf, "false"...), true
	case Number, Time:
		return strconv.AppendFloat(buf, c.Num, 'g', -1, 64), c.finite()
	}
	return nil, false
}

func (e *encoder) category(i int, f *Field, c *Cell) *FieldError {
	var room [32]byte
	text, ok := c.category(room[:0])
	if !ok {
		return invalid(f, c)
	}
	text = f.part(text)
	if f.Hash > 0 {
		j, sign := f.slot(text)
		e.set(f.at+j, float32(sign)*half)
		return nil
	}
	k := f.find(text)
	if k < 0 {
		switch cmp.Or(f.Unknown, e.s.Unknown, OtherCategory) {
		case Refuse:
			return &FieldError{f.Name, stream.ReasonLabel, fmt.Errorf("%s is not one of its %d categories", c.what(), len(f.Categories))}
		case Zero:
			e.note(i, Unknown)
			return nil
		}
		e.note(i, Unknown)
		k = len(f.Categories)
	}
	e.set(f.at+k, half)
	return nil
}

// part returns the part of a text that is the category.
func (f *Field) part(text []byte) []byte {
	if f.Before != "" {
		text, _, _ = bytes.Cut(text, []byte(f.Before))
	}
	if f.After != "" {
		text = text[max(0, bytes.LastIndex(text, []byte(f.After))+len(f.After)):]
	}
	return text
}

// find returns the index of a category, or -1.
func (f *Field) find(text []byte) int {
	if f.categories == nil {
		for k, c := range f.Categories {
			if c == string(text) {
				return k
			}
		}
		return -1
	}
	if k, ok := f.categories[string(text)]; ok {
		return k
	}
	return -1
}

// tags encodes a list of categories, or a text with some, each once.
func (e *encoder) tags(i int, f *Field, c *Cell) *FieldError {
	if c.Kind == Text && f.Split != "" {
		from := len(e.row.Items)
		for part := range bytes.SplitSeq(c.Text, []byte(f.Split)) {
			if part = bytes.TrimSpace(part); len(part) > 0 {
				e.row.Items = append(e.row.Items, Cell{Kind: Text, Text: part})
			}
		}
		c = &Cell{Kind: List, From: int32(from), To: int32(len(e.row.Items))}
	}
	if c.Kind != List || c.To-c.From > MaxArray {
		return invalid(f, c)
	}
	items := e.row.Items[c.From:c.To]
	for k := range items {
		switch {
		case items[k].Kind != Text && items[k].Kind != Number && items[k].Kind != Bool:
			return invalid(f, c)
		case !items[k].finite():
			err := invalid(f, &items[k])
			err.Field = fmt.Sprintf("%s[%d]", f.Name, k)
			return err
		}
	}
	e.row.sums = e.row.sums[:0]
	for k := range items {
		var room [32]byte
		text, _ := items[k].category(room[:0])
		if f.Hash > 0 {
			j, sign := f.slot(text)
			e.row.sums = append(e.row.sums, term{int32(j), float32(sign) * half})
			continue
		}
		j := f.find(text)
		if j < 0 {
			e.note(i, Unknown)
			if cmp.Or(f.Unknown, e.s.Unknown, OtherCategory) == Zero {
				continue
			}
			j = len(f.Categories)
		}
		e.row.sums = append(e.row.sums, term{int32(j), half})
	}
	e.add(f, f.Hash > 0, 1)
	return nil
}

// add sets the features of e.row.sums, times scale. Terms of the same feature are summed
// if sum is true, and otherwise only the first counts.
func (e *encoder) add(f *Field, sum bool, scale float32) {
	slices.SortFunc(e.row.sums, func(a, b term) int { return int(a.at) - int(b.at) })
	for k := 0; k < len(e.row.sums); {
		at, v := e.row.sums[k].at, e.row.sums[k].v
		for k++; k < len(e.row.sums) && e.row.sums[k].at == at; k++ {
			if sum {
				v += e.row.sums[k].v
			}
		}
		e.set(f.at+int(at), v*scale)
	}
}

// words sets the signed counts of the words, scaled to norm 1.
func (e *encoder) words(f *Field, text []byte) {
	e.row.sums = e.row.sums[:0]
	var word [64]byte
	w := word[:0]
	flush := func() {
		if len(w) > 0 {
			j, sign := f.slot(w)
			e.row.sums = append(e.row.sums, term{int32(j), float32(sign)})
			w = word[:0]
		}
	}
	for _, c := range text {
		switch {
		case c >= 'A' && c <= 'Z':
			c += 'a' - 'A'
			fallthrough
		case c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c >= 0x80:
			if len(w) < len(word) {
				w = append(w, c)
			}
		default:
			flush()
		}
	}
	flush()
	if len(e.row.sums) == 0 {
		return
	}
	slices.SortFunc(e.row.sums, func(a, b term) int { return int(a.at) - int(b.at) })
	square, n := 0.0, 0
	for k := 0; k < len(e.row.sums); n++ {
		s := e.row.sums[k]
		for k++; k < len(e.row.sums) && e.row.sums[k].at == s.at; k++ {
			s.v += e.row.sums[k].v
		}
		e.row.sums[n] = s
		square += float64(float64(s.v) * float64(s.v))
	}
	e.row.sums = e.row.sums[:n]
	if square > 0 {
		e.add(f, true, float32(1/math.Sqrt(square)))
	}
}

// array encodes a list of numbers. Any of them may be missing.
func (e *encoder) array(i int, f *Field, c *Cell) *FieldError {
	if c.Kind != List {
		return invalid(f, c)
	}
	items := e.row.Items[c.From:c.To]
	if len(items) != len(f.Means) {
		return &FieldError{f.Name, stream.ReasonDimension, fmt.Errorf("a list of %d, where the schema has %d", len(items), len(f.Means))}
	}
	for k := range items {
		if items[k].Kind <= Null {
			continue
		}
		if _, err := number(f, &items[k]); err != nil {
			err.Field = fmt.Sprintf("%s[%d]", f.Name, k)
			return err
		}
	}
	for k := range items {
		v := f.Means[k]
		if items[k].Kind > Null {
			v, _ = number(f, &items[k])
		} else {
			e.note(i, Missing)
		}
		e.number(f, k, v)
	}
	j := f.at + len(f.Means)
	for k, g := range f.MissingIndicator {
		if !g {
			continue
		}
		if items[k].Kind <= Null {
			e.set(j, half)
		}
		j++
	}
	return nil
}

// summary encodes a list of numbers by its sum, mean, minimum and maximum. Some may be missing, not
// all.
func (e *encoder) summary(i int, f *Field, c *Cell) *FieldError {
	if c.Kind != List {
		return invalid(f, c)
	}
	v, ok, err := summarize(f, e.row.Items[c.From:c.To])
	switch {
	case err != nil:
		return err
	case !ok && cmp.Or(f.Missing, e.s.Missing, Indicator) == Refuse:
		return &FieldError{f.Name, stream.ReasonMissing, errMissing}
	case !ok:
		e.note(i, Missing)
		e.missing(f)
		return nil
	}
	for k := range v {
		e.number(f, k, v[k])
	}
	return nil
}

// summarize returns sum, mean, minimum and maximum of those items that are not missing. ok is false
// if all are.
func summarize(f *Field, items []Cell) (v [4]float64, ok bool, err *FieldError) {
	n := 0
	for k := range items {
		if items[k].Kind <= Null {
			continue
		}
		x, err := number(f, &items[k])
		if err != nil {
			err.Field = fmt.Sprintf("%s[%d]", f.Name, k)
			return v, false, err
		}
		if n++; n == 1 {
			v[2], v[3] = x, x
		}
		v[0], v[2], v[3] = v[0]+x, min(v[2], x), max(v[3], x)
	}
	v[1] = v[0] / float64(max(n, 1))
	if w := float32(v[0]); w-w != 0 {
		return v, false, &FieldError{f.Name, stream.ReasonNotFinite, fmt.Errorf("the sum %g is not a finite float32", v[0])}
	}
	return v, n > 0, nil
}

// slot returns the feature and the sign that a text is hashed to, as in scikit-learn's
// FeatureHasher: with h = murmur3(name=text), |h| modulo the number of features, and
// the sign of h.
func (f *Field) slot(text []byte) (j, sign int) {
	var room [128]byte
	h := int32(murmur3(append(append(append(room[:0], f.Name...), '='), text...)))
	minus := h >> 31                    // 0, or −1 if h is negative
	size := uint32((h ^ minus) - minus) // |−2³¹| is 2³¹
	return int(size % uint32(f.Hash)), int(minus | 1)
}
