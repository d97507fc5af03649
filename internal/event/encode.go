package event

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/streamsvm/streamsvm/stream"
)

// Wrong says which field of an event cannot be used, and why.
type Wrong struct {
	Field  string
	Reason stream.Reason
	Err    error
}

func (w *Wrong) Error() string { return fmt.Sprintf("%s: %v", w.Field, w.Err) }

func (w *Wrong) Unwrap() error { return w.Err }

// half is what a category of its own puts into its feature: two categories are
// then 1 apart.
var half = float32(math.Sqrt(0.5))

// An encoder makes vectors by a schema; it is for one goroutine.
type encoder struct {
	s     *Schema
	seen  *Seen // may be nil
	share *Seen // counts parts; nil in most events
	val   []float32
	idx   []int32 // nil where val is dense
	// sums of hashed features of one field
	sums []hashed
}

type hashed struct {
	at int32
	v  float32
}

// Encode returns the vector of an event, in memory of a, which may be nil: a
// dense one up to DenseLimit features. Row has a cell for each field of the
// schema. What it notices is counted in seen, which may be nil. The error is a
// *Wrong.
func (s *Schema) Encode(row *Row, a *stream.Arena, seen *Seen) (stream.Vec, error) {
	e := encoder{s: s, seen: seen, sums: row.sums}
	if seen != nil && seen.Events.Load()%partsEach == 0 {
		e.share = seen
	}
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
			// What most values are is encoded here, in a fraction of the time that
			// field takes.
			switch st.way {
			case asNumber:
				if v := float32(c.Num); float64(v) >= st.low && float64(v) <= st.high && v-v == 0 {
					if e.share != nil {
						e.share.number(st.i, st.field, float64(v))
					}
					e.set(st.at, v)
					continue
				}
			case asTruth:
				e.set(st.at, float32(c.Num))
				continue
			case asCategory:
				if k := st.field.table.Find(c.Text); k >= 0 {
					e.share.part(st.i, k)
					e.set(st.at+k, half)
					continue
				}
			case asHash:
				j, sign := st.field.slot(c.Text)
				e.set(st.at+j, float32(sign)*half)
				continue
			}
		}
		if err := e.field(st.i, st.field, row, c); err != nil {
			return stream.Vec{}, err
		}
	}
	row.sums = e.sums
	return a.Take(stream.Vec{Idx: e.idx, Val: e.val}), nil
}

// set gives feature j, which is larger than those before, a value.
func (e *encoder) set(j int, v float32) {
	switch {
	case e.idx == nil:
		e.val[j] = v
	case v != 0:
		e.idx, e.val = append(e.idx, int32(j)), append(e.val, v)
	}
}

// A step is what becomes of a field, and which values of it are quick to encode.
type step struct {
	i, at int // the field and its first feature
	field *Field
	kind  Kind // of those values; none is Other
	way   way
	// low and high bound a number.
	low, high float64
}

// A way is how a cell gets into the vector.
type way uint8

const (
	asNumber way = iota
	asTruth
	asCategory
	asHash
)

// step returns the step of field i.
func (f *Field) step(i int) step {
	st := step{i: i, at: f.at, field: f, kind: Other, low: math.Inf(-1), high: math.Inf(1)}
	if len(f.Range) == 2 {
		st.low, st.high = f.Range[0], f.Range[1]
	}
	switch {
	case f.Type == Numeric && f.Clip == nil && f.Transform == "":
		st.kind, st.way = Number, asNumber
	case f.Type == Boolean:
		st.kind, st.way = Bool, asTruth
	case f.Type == Categorical && f.Hash > 0:
		st.kind, st.way = Text, asHash
	case f.Type == Categorical:
		st.kind, st.way = Text, asCategory
	}
	return st
}

var errMissing = errors.New("missing")

func (e *encoder) field(i int, f *Field, row *Row, c *Cell) error {
	if c.Kind > Null {
		err := e.value(i, f, row, c)
		if err == nil {
			return nil
		}
		if or(f.Invalid, e.s.Invalid, Refuse) == Refuse || err.Reason == stream.ReasonLabel {
			e.seen.invalid(i)
			return err
		}
		e.seen.invalid(i)
	}
	if or(f.Missing, e.s.Missing, Indicator) == Refuse {
		return &Wrong{f.Name, stream.ReasonMissing, errMissing}
	}
	e.seen.missing(i)
	e.missing(f)
	return nil
}

// or returns the first that is not empty.
func or(a, b, c string) string {
	switch {
	case a != "":
		return a
	case b != "":
		return b
	}
	return c
}

// missing encodes that there is no value.
func (e *encoder) missing(f *Field) {
	gap := len(f.Gaps) > 0 && f.Gaps[0]
	switch f.Type {
	case Numeric, Boolean:
		e.set(f.at, float32(f.Means[0]))
		if gap {
			e.set(f.at+1, half)
		}
	case Array:
		for k, m := range f.Means {
			e.set(f.at+k, float32(m))
		}
		j := f.at + len(f.Means)
		for _, g := range f.Gaps {
			if g {
				e.set(j, half)
				j++
			}
		}
	case Categorical, Tags, Timestamp:
		switch {
		case gap:
			e.set(f.at+f.width()-1, half)
		case f.Type == Categorical && f.Hash == 0: // none was missing before
			e.set(f.at+len(f.Categories), half)
		}
	}
}

// value encodes a value that is there. On an error nothing has been set.
func (e *encoder) value(i int, f *Field, row *Row, c *Cell) *Wrong {
	switch f.Type {
	case Numeric:
		v, err := number(f, c)
		if err != nil {
			return err
		}
		e.seen.outside(i, f, v)
		e.share.number(i, f, v)
		e.set(f.at, float32(v))
	case Boolean:
		v, ok := truth(c)
		if !ok {
			return invalid(f, c)
		}
		e.set(f.at, v)
	case Categorical:
		return e.category(i, f, c)
	case Tags:
		return e.tags(i, f, row, c)
	case Timestamp:
		t, ok := f.time(c)
		if !ok {
			return invalid(f, c)
		}
		e.parts(f, t)
	case Words:
		if c.Kind != Text {
			return invalid(f, c)
		}
		e.words(f, c.Text)
	case Array:
		return e.array(i, f, row, c)
	}
	return nil
}

func invalid(f *Field, c *Cell) *Wrong {
	return &Wrong{f.Name, stream.ReasonType, fmt.Errorf("%s, where the schema has %s", c.what(), f.Type)}
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
func number(f *Field, c *Cell) (float64, *Wrong) {
	v := c.Num
	switch c.Kind {
	case Number, Bool, Time:
	case Text:
		var ok bool
		if v, ok = decimal(c.Text); !ok {
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
		return 0, &Wrong{f.Name, stream.ReasonNotFinite, fmt.Errorf("%g is not finite as a float32", v)}
	}
	return float64(w), nil
}

// decimal reads a number that is written as a text.
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

// category returns the text of a cell that names one.
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
		return strconv.AppendFloat(buf, c.Num, 'g', -1, 64), true
	}
	return nil, false
}

func (e *encoder) category(i int, f *Field, c *Cell) *Wrong {
	var room [32]byte
	text, ok := c.category(room[:0])
	if !ok {
		return invalid(f, c)
	}
	if f.Hash > 0 {
		j, sign := f.slot(text)
		e.set(f.at+j, float32(sign)*half)
		return nil
	}
	k := f.table.Find(text)
	if k < 0 {
		switch or(f.Unknown, e.s.Unknown, OtherSlot) {
		case Refuse:
			return &Wrong{f.Name, stream.ReasonLabel, fmt.Errorf("%s is not one of its %d categories", c.what(), len(f.Categories))}
		case Zero:
			e.seen.unknown(i)
			return nil
		}
		e.seen.unknown(i)
		k = len(f.Categories)
	}
	e.share.part(i, k)
	e.set(f.at+k, half)
	return nil
}

// tags encodes a list of categories, each once.
func (e *encoder) tags(i int, f *Field, row *Row, c *Cell) *Wrong {
	if c.Kind != List {
		return invalid(f, c)
	}
	items := row.Items[c.From:c.To]
	for k := range items {
		if items[k].Kind != Text && items[k].Kind != Number && items[k].Kind != Bool {
			return invalid(f, c)
		}
	}
	e.sums = e.sums[:0]
	for k := range items {
		var room [32]byte
		text, _ := items[k].category(room[:0])
		if f.Hash > 0 {
			j, sign := f.slot(text)
			e.sums = append(e.sums, hashed{int32(j), float32(sign) * half})
			continue
		}
		j := f.table.Find(text)
		if j < 0 {
			e.seen.unknown(i)
			if or(f.Unknown, e.s.Unknown, OtherSlot) == Zero {
				continue
			}
			j = len(f.Categories)
		}
		e.sums = append(e.sums, hashed{int32(j), half})
	}
	e.add(f, f.Hash > 0, 1)
	return nil
}

// add sets what e.sums holds: sums of what comes several times, or each once.
func (e *encoder) add(f *Field, sum bool, scale float32) {
	slices.SortFunc(e.sums, func(a, b hashed) int { return int(a.at) - int(b.at) })
	for k := 0; k < len(e.sums); {
		at, v := e.sums[k].at, e.sums[k].v
		for k++; k < len(e.sums) && e.sums[k].at == at; k++ {
			if sum {
				v += e.sums[k].v
			}
		}
		e.set(f.at+int(at), v*scale)
	}
}

// time returns the time in a cell.
func (f *Field) time(c *Cell) (time.Time, bool) {
	ms := c.Num
	switch c.Kind {
	case Time:
	case Number:
		if f.Unit == "s" {
			ms *= 1000
		}
	case Text:
		return parseTime(c.Text)
	default:
		return time.Time{}, false
	}
	if !(math.Abs(ms) < 1e15) {
		return time.Time{}, false
	}
	return time.UnixMilli(int64(ms)).UTC(), true
}

// layouts are those of RFC 3339, and with a blank or without a zone, which then
// is UTC.
var layouts = []string{time.RFC3339Nano, "2006-01-02 15:04:05", "2006-01-02T15:04:05", "2006-01-02"}

func parseTime(text []byte) (time.Time, bool) {
	if len(text) < 10 || len(text) > 40 || text[4] != '-' {
		return time.Time{}, false
	}
	for _, l := range layouts {
		if t, err := time.Parse(l, string(text)); err == nil {
			return t.UTC(), true
		}
	}
	return time.Time{}, false
}

// parts sets the place on a circle of each part, at most 1 apart.
func (e *encoder) parts(f *Field, t time.Time) {
	for k, p := range f.Parts {
		turn := float64(t.Hour())/24 + float64(t.Minute())/1440
		if p == "weekday" {
			turn = float64(t.Weekday()) / 7
		}
		sin, cos := math.Sincos(2 * math.Pi * turn)
		e.set(f.at+2*k, float32(sin)/2)
		e.set(f.at+2*k+1, float32(cos)/2)
	}
}

// words sets the counts of the words, hashed with signs, with norm 1.
func (e *encoder) words(f *Field, text []byte) {
	e.sums = e.sums[:0]
	var word [64]byte
	w := word[:0]
	flush := func() {
		if len(w) > 0 {
			j, sign := f.slot(w)
			e.sums = append(e.sums, hashed{int32(j), float32(sign)})
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
	if len(e.sums) == 0 {
		return
	}
	slices.SortFunc(e.sums, func(a, b hashed) int { return int(a.at) - int(b.at) })
	square, n := 0.0, 0
	for k := 0; k < len(e.sums); n++ {
		s := e.sums[k]
		for k++; k < len(e.sums) && e.sums[k].at == s.at; k++ {
			s.v += e.sums[k].v
		}
		e.sums[n] = s
		square += float64(float64(s.v) * float64(s.v))
	}
	e.sums = e.sums[:n]
	if square > 0 {
		e.add(f, true, float32(1/math.Sqrt(square)))
	}
}

// array encodes a list of numbers, each of which may be missing.
func (e *encoder) array(i int, f *Field, row *Row, c *Cell) *Wrong {
	if c.Kind != List {
		return invalid(f, c)
	}
	items := row.Items[c.From:c.To]
	if len(items) != len(f.Means) {
		return &Wrong{f.Name, stream.ReasonDimension, fmt.Errorf("a list of %d, where the schema has %d", len(items), len(f.Means))}
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
			e.seen.missing(i)
		}
		e.set(f.at+k, float32(v))
	}
	j := f.at + len(f.Means)
	for k, g := range f.Gaps {
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

// slot returns the feature and the sign that a text is hashed to: murmur3 of 32
// bits, seed 0, of name=text; |h| modulo the number of features, and the sign of
// h, as the hashing of scikit-learn has it.
func (f *Field) slot(text []byte) (j, sign int) {
	h := int32(f.hash.sum(text))
	minus := h >> 31                    // 0, or −1 where h is negative
	size := uint32((h ^ minus) - minus) // |−2³¹| is 2³¹
	return int(size % uint32(f.Hash)), int(minus | 1)
}
