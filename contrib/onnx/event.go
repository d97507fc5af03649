package onnx

import (
	"errors"
	"math"
	"slices"
	"strings"

	"github.com/streamsvm/streamsvm/events"
)

// half is the value of a category's feature.
var half = float64(float32(math.Sqrt(0.5)))

// Codes of categories that have no feature.
const (
	codeMissing = -1
	codeNone    = -2 // unknown
)

// events returns the vectors, [N,n], of events: an input for each field.
func (c *converter) events(text []byte) (x ref, n int, err error) {
	s, err := events.Parse(string(text))
	if err != nil {
		return "", 0, err
	}
	e := &encoder{converter: c, schema: s}
	var blocks []ref
	for i := range s.Fields {
		f := &s.Fields[i]
		if f.Type == events.Ignore {
			continue
		}
		columns, err := e.field(f)
		if err != nil {
			return "", 0, err
		}
		blocks = append(blocks, columns...)
	}
	if len(blocks) == 0 {
		return "", 0, refuse("events have no field that is a feature")
	}
	return c.concat(1, blocks...), s.Dim(), nil
}

// CheckSchema returns an error if models of events with the schema have no ONNX form,
// whatever they learn: a *RefusedError that names all offending fields. A model may still
// be refused for its size.
func CheckSchema(schema string) error {
	s, err := events.Parse(schema)
	if err != nil {
		return err
	}
	e := &encoder{converter: &converter{graph: newGraph()}, schema: s}
	var reasons []string
	for i := range s.Fields {
		f := &s.Fields[i]
		var refused *RefusedError
		if f.Type == events.Ignore {
			continue
		}
		if _, err := e.field(f); errors.As(err, &refused) {
			reasons = append(reasons, refused.Reason)
		}
	}
	if len(reasons) > 0 {
		return refuse("%s", strings.Join(reasons, "; "))
	}
	return nil
}

// encoder builds the operations that package events performs on a row.
type encoder struct {
	*converter
	schema  *events.Schema
	moments map[string]moment
}

// take adds an input of k columns for the field. Its name is prefixed with _ if it
// would collide with a name of the graph.
func (e *encoder) take(f *events.Field, typ string, k int) ref {
	name := f.Name
	for slices.Contains(taken, name) || strings.HasPrefix(name, "/") || slices.ContainsFunc(e.inputs, func(v Value) bool { return v.Name == name }) {
		name = "_" + name
	}
	return e.input(Value{Name: name, Type: typ, Shape: []int64{int64(k)}})
}

// taken lists the names of outputs.
var taken = []string{"label", "decision", "probability", "value"}

// policy returns the first policy that is not empty.
func policy(of ...string) string {
	for _, p := range of {
		if p != "" {
			return p
		}
	}
	return ""
}

func (e *encoder) missing(f *events.Field) string {
	return policy(f.Missing, e.schema.Missing, events.Indicator)
}

// invalid reports whether an invalid value is treated as missing.
func (e *encoder) invalid(f *events.Field) bool {
	return policy(f.Invalid, e.schema.Invalid, events.Refuse) == events.AsMissing
}

// check replaces invalid numbers of x by NaN if they are treated as missing, and by
// infinity, which is refused later, if not.
func (e *encoder) check(f *events.Field, x, invalid ref) ref {
	v := math.Inf(1)
	if e.invalid(f) {
		v = math.NaN()
	}
	return e.op("Where", invalid, e.scalar(v), x)
}

// fill replaces missing values of x by the means, and returns the columns of the field:
// x and the missing indicators.
func (e *encoder) fill(f *events.Field, x ref) []ref {
	missing := e.op("IsNaN", x) // [N,k]
	means := slices.Clone(f.Means)
	k := len(means)
	if e.missing(f) == events.Refuse && f.Type != events.Array {
		means[0] = math.Inf(1)
	}
	x = e.op("Where", missing, e.tensor(means, k), x)
	if e.missing(f) == events.Refuse && f.Type == events.Array {
		// Of an array, all of it.
		none := e.op("Equal", e.count(missing), e.scalar(float64(k)))
		x = e.op("Where", none, e.scalar(math.Inf(1)), x)
	}
	columns := []ref{e.less(f, x)}
	var gaps []int64
	for k, g := range f.MissingIndicator {
		if g {
			gaps = append(gaps, int64(k))
		}
	}
	if len(gaps) > 0 {
		says := e.op("Mul", e.cast(missing, typeDouble), e.scalar(half))
		if len(gaps) < k {
			says = e.node("", "Gather", []attr{{"axis", 1}}, says, e.ints(gaps...))
		}
		columns = append(columns, says)
	}
	return columns
}

// less returns the numbers x of a field, less their means if they are centered.
func (e *encoder) less(f *events.Field, x ref) ref {
	x = e.round(x)
	if !f.Centered {
		return x
	}
	return e.round(e.op("Sub", x, e.tensor(f.Means, len(f.Means))))
}

// count returns the number of true values in each row of x.
func (e *encoder) count(x ref) ref { return e.sum(e.cast(x, typeDouble)) }

func (e *encoder) field(f *events.Field) ([]ref, error) {
	switch f.Type {
	case events.Numeric:
		return e.fill(f, e.number(f, e.given(f))), nil
	case events.Boolean:
		x := e.take(f, "double", 1)
		fits := e.op("Or", e.op("Or", e.op("Equal", x, e.scalar(0)), e.op("Equal", x, e.scalar(1))), e.op("IsNaN", x))
		return e.fill(f, e.check(f, x, e.op("Not", fits))), nil
	case events.Array:
		x := e.take(f, "double", len(f.Means))
		given := x
		x = e.number(f, x)
		if e.invalid(f) { // then the whole value is missing
			wrong := e.op("And", e.op("IsNaN", x), e.op("Not", e.op("IsNaN", given)))
			x = e.op("Where", e.op("Greater", e.count(wrong), e.scalar(0)), e.scalar(math.NaN()), x)
		}
		return e.fill(f, x), nil
	case events.Categorical:
		x := e.take(f, "string", 1)
		if f.Hash > 0 {
			return e.hashed(f, x), nil
		}
		return e.category(f, x), nil
	case events.Timestamp:
		if f.Milliseconds() == 0 {
			return nil, refuse("field %s holds dates as numbers of eight digits", f.Name)
		}
		return e.time(f), nil
	case events.HashedText:
		return []ref{e.words(f, e.take(f, "string", 1))}, nil
	case events.Tags:
		return nil, refuse("field %s is a list of categories, of any length", f.Name)
	case events.Summary, events.Length:
		return nil, refuse("field %s is a list of any length", f.Name)
	}
	return nil, refuse("field %s is of type %s", f.Name, f.Type)
}

// given returns the numbers of a field, with NaN for those that stand for no value.
func (e *encoder) given(f *events.Field) ref {
	x := e.take(f, "double", 1)
	for _, v := range f.NullNumbers() {
		x = e.op("Where", e.op("Equal", x, e.scalar(v)), e.scalar(math.NaN()), x)
	}
	return x
}

// number returns the transformed numbers of x, rounded to 32 bits.
func (e *encoder) number(f *events.Field, x ref) ref {
	given := x
	if f.Clip != nil {
		x = e.clip(x, f.Clip[0], f.Clip[1])
	}
	if f.Transform != "" {
		x = e.op("Mul", e.op("Sign", x), e.op("Log", e.op("Add", e.op("Abs", x), e.scalar(1))))
	}
	x = e.check(f, e.round(x), e.op("IsInf", e.round(x)))
	if f.Clip == nil && f.Transform == "" {
		return x
	}
	return e.op("Where", e.op("IsNaN", given), e.scalar(math.NaN()), x)
}

// category returns a column for each category, one for others and one for missing values.
func (e *encoder) category(f *events.Field, x ref) []ref {
	n := len(f.Categories)
	width, missing, others := n+1, n, n
	if f.MissingIndicator[0] {
		width, missing = n+2, n+1
	}
	unknown := policy(f.Unknown, e.schema.Unknown, events.OtherCategory)
	if unknown != events.OtherCategory {
		others = codeNone
	}
	refuseMissing := e.missing(f) == events.Refuse
	if refuseMissing {
		missing = codeMissing
	}
	texts, codes := slices.Clone(f.Categories), make([]int64, n, n+1)
	for k := range codes {
		codes[k] = int64(k)
	}
	part := e.part(f, x)
	if part == x && (n == 0 || texts[0] != "") { // sorted
		texts, codes = append(texts, ""), append(codes, int64(missing))
	}
	code := e.encode(part, texts, codes, others)
	if part != x { // which may be empty where x is not
		code = e.op("Where", e.cast(e.encode(x, []string{""}, []int64{1}, 0), typeBool), e.ints(int64(missing)), code)
	}
	hot := e.op("Mul", e.oneHot(code, width), e.scalar(half))
	if refuseMissing {
		hot = e.refuse(hot, e.op("Equal", code, e.ints(codeMissing)))
	}
	if unknown == events.Refuse {
		hot = e.refuse(hot, e.op("Equal", code, e.ints(codeNone)))
	}
	return []ref{hot}
}

// part returns the part of each text of x, [N,1], that is its category.
func (e *encoder) part(f *events.Field, x ref) ref {
	if f.After != "" {
		x = e.cut(x, f.After, true)
	}
	if f.Before != "" {
		x = e.cut(x, f.Before, false)
	}
	return x
}

// cut returns the part of each text of x before the first separator, or behind the last one.
func (e *encoder) cut(x ref, sep string, last bool) ref {
	e.texts = true
	split, n := e.next(), e.next() // [N,1,K] and [N,1]
	e.nodes.bytes(1, operator([]ref{split, n}, "", "StringSplit", []attr{{"delimiter", sep}}, []ref{x}))
	padding := e.op("Expand", e.tensor([]string{""}, 1, 1), e.op("Shape", x))
	parts := e.concat(1, e.op("Squeeze", split, e.ints(1)), padding)
	if last {
		return e.node("", "GatherElements", []attr{{"axis", 1}}, parts, e.op("Max", e.op("Sub", n, e.ints(1)), e.ints(0)))
	}
	return e.node("", "Gather", []attr{{"axis", 1}}, parts, e.ints(0))
}

// refuse sets rows to NaN, which no vector may hold.
func (e *encoder) refuse(x, rows ref) ref { return e.op("Where", rows, e.scalar(math.NaN()), x) }

// hashed returns a column for each slot and one for missing values.
func (e *encoder) hashed(f *events.Field, x ref) []ref {
	slot, sign := e.slots(f, e.part(f, x))
	hot := e.op("Mul", e.oneHot(slot, f.Hash), e.op("Mul", sign, e.scalar(half)))
	missing := e.cast(e.encode(x, []string{""}, []int64{1}, 0), typeBool) // [N,1]
	if e.missing(f) == events.Refuse {
		hot = e.refuse(hot, missing)
	} else {
		hot = e.op("Where", missing, e.scalar(0), hot)
	}
	if !f.MissingIndicator[0] {
		return []ref{hot}
	}
	return []ref{hot, e.op("Mul", e.cast(missing, typeDouble), e.scalar(half))}
}

// slots returns the slot of each text of x and its sign, in the shape of x.
func (e *encoder) slots(f *events.Field, x ref) (slot, sign ref) {
	e.texts = true
	name := e.op("StringConcat", e.tensor([]string{f.Name + "="}, 1), x)
	h := e.cast(e.node(domainMicrosoft, "MurmurHash3", []attr{{"positive", 0}, {"seed", 0}}, name), typeInt64)
	return e.op("Mod", e.op("Abs", h), e.ints(int64(f.Hash))), e.op("Where", e.op("Less", h, e.ints(0)), e.scalar(-1), e.scalar(1))
}

// words returns the counts of the words of x, [N,1], with signs and norm 1. Rows with a
// word of more than 64 bytes are refused: the rest of such a word cannot be cut off.
func (e *encoder) words(f *events.Field, x ref) ref {
	// A column of padding keeps the operators from tensors of no text.
	all := e.op("Shape", x)
	words := e.node(domainMicrosoft, "Tokenizer", []attr{{"mark", 0}, {"mincharnum", 1}, {"pad_value", ""}, {"tokenexp", "(?:[A-Za-z0-9]|[^\\x00-\\x7f])+"}}, e.op("Reshape", x, e.ints(-1)))
	known := Value{Name: string(words), Type: "string", Shape: []int64{-1}}
	e.infos.bytes(13, known.info())
	words = e.concat(1, words, e.op("Expand", e.tensor([]string{""}, 1, 1), all)) // [N,K]
	// In the locale C only letters of ASCII have a lower case.
	list := e.node("", "StringNormalizer", []attr{{"case_change_action", "LOWER"}, {"is_case_sensitive", 1}, {"locale", "C"}}, e.op("Reshape", words, e.ints(-1)))
	slot, sign := e.slots(f, e.op("Reshape", list, e.op("Shape", words)))
	sign = e.op("Where", e.cast(e.encode(words, []string{""}, []int64{1}, 0), typeBool), e.scalar(0), sign)
	zeros := e.op("Expand", e.tensor(make([]float64, f.Hash), 1, f.Hash), all)
	counts := e.node("", "ScatterElements", []attr{{"axis", 1}, {"reduction", "add"}}, zeros, slot, sign)
	norm := e.op("Sqrt", e.sum(e.op("Mul", counts, counts)))
	v := e.op("Mul", counts, e.round(e.op("Div", e.scalar(1), e.op("Max", norm, e.scalar(1)))))
	wrong := e.count(e.node("", "RegexFullMatch", []attr{{"pattern", "\\C{65,}"}}, words))
	if e.missing(f) == events.Refuse {
		wrong = e.op("Add", wrong, e.cast(e.encode(x, []string{""}, []int64{1}, 0), typeDouble))
	}
	return e.refuse(e.round(v), e.op("Greater", wrong, e.scalar(0)))
}

// A moment is a time in whole milliseconds since 1970, [N,1]; 0 where it is missing or wrong.
type moment struct{ ms, missing, wrong ref }

// moment returns the time in a field, from one input however often it is asked for.
func (e *encoder) moment(f *events.Field) moment {
	if m, ok := e.moments[f.Name]; ok {
		return m
	}
	x := e.given(f)
	ms := e.op("Mul", x, e.scalar(f.Milliseconds()))
	far := e.op("Not", e.op("Or", e.op("Less", e.op("Abs", ms), e.scalar(1e15)), e.op("IsNaN", x)))
	ms = e.check(f, ms, far)
	m := moment{missing: e.op("IsNaN", ms), wrong: e.op("IsInf", ms)}
	ms = e.op("Where", e.op("Or", m.missing, m.wrong), e.scalar(0), ms)
	m.ms = e.cast(e.cast(ms, typeInt64), typeDouble) // truncated
	if e.moments == nil {
		e.moments = map[string]moment{}
	}
	e.moments[f.Name] = m
	return m
}

// time returns the age, and sine and cosine of each other part of a time.
func (e *encoder) time(f *events.Field) []ref {
	m := e.moment(f)
	// whole(k, n): the number of whole k milliseconds, modulo n.
	whole := func(k, n, from float64) ref {
		t := e.op("Add", e.op("Floor", e.op("Div", m.ms, e.scalar(k))), e.scalar(from))
		return e.op("Sub", t, e.op("Mul", e.op("Floor", e.op("Div", t, e.scalar(n))), e.scalar(n)))
	}
	var blocks, columns []ref
	wrong := m.wrong
	if e.missing(f) == events.Refuse {
		wrong = e.op("Or", wrong, m.missing)
	}
	if len(f.Means) > 0 {
		blocks = append(blocks, e.refuse(e.less(f, e.age(f, m)), wrong))
	}
	for _, p := range f.Parts {
		turn := e.op("Div", whole(60_000, 1440, 0), e.scalar(1440))
		switch p {
		case "age":
			continue
		case "weekday": // 1970 began on a Thursday
			turn = e.op("Div", whole(86_400_000, 7, 4), e.scalar(7))
		}
		angle := e.op("Mul", turn, e.scalar(2*math.Pi))
		for _, wave := range []string{"Sin", "Cos"} {
			columns = append(columns, e.op("Mul", e.round(e.op(wave, angle)), e.scalar(.5)))
		}
	}
	if len(columns) > 0 {
		parts := e.op("Where", m.missing, e.scalar(0), e.concat(1, columns...))
		blocks = append(blocks, e.refuse(parts, wrong))
	}
	if f.MissingIndicator[0] {
		blocks = append(blocks, e.op("Mul", e.cast(m.missing, typeDouble), e.scalar(half)))
	}
	return blocks
}

// age returns the days from m to the field that ages are measured up to, or the mean if one is
// missing.
func (e *encoder) age(f *events.Field, m moment) ref {
	end, none := e.scalar(events.AgesUpTo), m.missing
	for i := range e.schema.Fields {
		if until := &e.schema.Fields[i]; until.Name == f.Until {
			last := e.moment(until)
			end, none = last.ms, e.op("Or", none, e.op("Or", last.missing, last.wrong))
		}
	}
	age := e.op("Div", e.op("Sub", end, m.ms), e.scalar(86_400_000))
	return e.op("Where", none, e.scalar(f.Means[0]), age)
}
