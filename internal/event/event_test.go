package event

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand"
	"reflect"
	"slices"
	"testing"

	"github.com/streamsvm/streamsvm/stream"
)

func text(s string) Cell   { return Cell{Kind: Text, Text: []byte(s)} }
func num(v float64) Cell   { return Cell{Kind: Number, Num: v} }
func flag(v float64) Cell  { return Cell{Kind: Bool, Num: v} }
func list(c ...Cell) Named { return Named{Cell: Cell{Kind: List}, Items: c} }

// TestMurmur3 compares with sklearn.utils.murmurhash3_32, and slots with
// sklearn.feature_extraction.FeatureHasher(16, input_type="string").
func TestMurmur3(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       uint32
	}{
		{"a", "b", 3016165030}, {"country", "DE", 2312529861}, {"merchant", "m17", 1128676159},
		{"x", "", 998814254}, {"näme", "ü", 1400456955}, {"abcdefgh", "12345", 2446974955},
	} {
		if got := newMurmur(c.name + "=").sum([]byte(c.text)); got != c.want {
			t.Errorf("%s=%s: %d, want %d", c.name, c.text, got, c.want)
		}
	}
	for _, c := range []struct {
		name, text string
		at, sign   int
	}{{"country", "DE", 11, -1}, {"merchant", "m17", 15, 1}, {"a", "b", 10, -1}} {
		f := Field{Name: c.name, Hash: 16}
		f.prepare()
		if at, sign := f.slot([]byte(c.text)); at != c.at || sign != c.sign {
			t.Errorf("%s=%s: slot %d, %d, want %d, %d", c.name, c.text, at, sign, c.at, c.sign)
		}
	}
}

// row puts the fields of an event where the schema has them.
func row(s *Schema, e []Named) *Row {
	r := new(Row)
	r.Reset(len(s.Fields))
	for _, n := range e {
		i := slices.IndexFunc(s.Fields, func(f Field) bool { return f.Name == n.Name })
		if i < 0 {
			continue
		}
		c := n.Cell
		if c.Kind == List {
			c.From = int32(len(r.Items))
			r.Items = append(r.Items, n.Items...)
			c.To = int32(len(r.Items))
		}
		r.Cells[i] = c
	}
	return r
}

// sample returns events with fields of all types.
func sample(n int) (events [][]Named) {
	rng := rand.New(rand.NewSource(3))
	for i := range n {
		tags := list(text([]string{"a", "b", "c"}[rng.Intn(3)]), text("d"))
		tags.Name = "tags"
		pair := list(num(rng.Float64()), num(float64(i)))
		pair.Name = "pair"
		if i%10 == 0 {
			pair.Items[0] = Cell{Kind: Null}
		}
		e := []Named{
			{Name: "amount", Cell: num(rng.ExpFloat64() * 100)}, {Name: "country", Cell: text([]string{"DE", "FR", "US"}[rng.Intn(3)])},
			{Name: "id", Cell: num(float64(1000 + i))}, {Name: "key", Cell: text(fmt.Sprintf("k-%d", i))}, {Name: "vip", Cell: flag(float64(rng.Intn(2)))},
			{Name: "made_at", Cell: num(float64(1_700_000_000 + i*977))}, {Name: "when", Cell: text(fmt.Sprintf("2026-03-%02dT%02d:30:00Z", 1+i%28, i%24))},
			{Name: "words", Cell: text(fmt.Sprintf("please ship order %d to box %d soon", i, rng.Intn(99)))}, {Name: "shop", Cell: text(fmt.Sprintf("shop-%d", rng.Intn(90)))},
			{Name: "price", Cell: text(fmt.Sprintf("%.2f", rng.Float64()))}, {Name: "none", Cell: Cell{Kind: Null}}, tags, pair,
		}
		if i%7 == 0 {
			e = e[1:] // no amount
		}
		events = append(events, e)
	}
	return events
}

func TestInfer(t *testing.T) {
	events := sample(1000)
	s, err := Infer(events, Spec{})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]Type{
		"amount": Numeric, "country": Categorical, "id": Ignore, "key": Ignore, "vip": Boolean, "made_at": Timestamp, "when": Timestamp,
		"words": Words, "shop": Categorical, "price": Numeric, "none": Ignore, "tags": Tags, "pair": Array,
	}
	got := map[string]Type{}
	for i := range s.Fields {
		got[s.Fields[i].Name] = s.Fields[i].Type
		if s.Fields[i].Name == "shop" && s.Fields[i].Hash == 0 {
			t.Error("90 shops are not hashed")
		}
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("types %v, want %v", got, want)
	}
	if n := len(s.Features()); n != s.Dim() {
		t.Errorf("%d names for %d features", n, s.Dim())
	}
	again, err := Parse(s.String())
	if err != nil || again.String() != s.String() || again.Dim() != s.Dim() {
		t.Errorf("read again it is %v, %v", again, err)
	}
	// Neither the order of events nor that of their fields matters.
	rng := rand.New(rand.NewSource(5))
	rng.Shuffle(len(events), func(i, j int) { events[i], events[j] = events[j], events[i] })
	for _, e := range events {
		rng.Shuffle(len(e), func(i, j int) { e[i], e[j] = e[j], e[i] })
	}
	other, err := Infer(events, Spec{})
	if err != nil || other.String() != s.String() {
		t.Errorf("in another order it is\n%s\nnot\n%s\n%v", other, s, err)
	}
	// What is printed for people is a specification of the same schema.
	printed, err := s.Spec()
	if err != nil {
		t.Fatal(err)
	}
	spec, err := ParseSpec(string(printed))
	if err != nil {
		t.Fatalf("%v\n%s", err, printed)
	}
	if same, err := Infer(events, spec); err != nil || same.String() != s.String() {
		t.Errorf("by what is printed it is\n%s\nnot\n%s\n%v\n%s", same, s, err, printed)
	}
}

// TestEncode: what each field puts where.
func TestEncode(t *testing.T) {
	s, err := Infer(sample(1000), Spec{Features: map[string]Field{
		"amount": {Type: Numeric, Transform: "log1p", Clip: []float64{0, 1000}}, "country": {Type: Categorical}, "vip": {Type: Boolean},
		"when": {Type: Timestamp}, "pair": {Type: Array}, "tags": {Type: Tags},
	}})
	if err != nil {
		t.Fatal(err)
	}
	names := s.Features()
	seen := NewSeen(s)
	vector := func(e ...Named) map[string]float64 {
		t.Helper()
		x, err := s.Encode(row(s, e), nil, seen)
		if err != nil {
			t.Fatal(err)
		}
		m := map[string]float64{}
		for j, v := range x.Val {
			if v != 0 {
				m[names[j]] = math.Round(float64(v)*1e4) / 1e4
			}
		}
		return m
	}
	tags := list(text("a"), text("zzz"), text("a"))
	tags.Name = "tags"
	pair := list(Cell{Kind: Null}, num(2))
	pair.Name = "pair"
	got := vector(Named{Name: "amount", Cell: num(1e9)}, Named{Name: "country", Cell: text("FR")}, Named{Name: "vip", Cell: flag(1)},
		Named{Name: "when", Cell: text("2026-03-01T06:00:00Z")}, tags, pair) // a Sunday
	mean := math.Round(float64(float32(s.Fields[slices.IndexFunc(s.Fields, func(f Field) bool { return f.Name == "pair" })].Means[0]))*1e4) / 1e4
	want := map[string]float64{
		"amount": 6.9088, "country=FR": .7071, "vip": 1, "when hour sin": .5, "when hour cos": 0, "when weekday cos": .5,
		"tags=a": .7071, "tags other": .7071, "pair[0]": mean, "pair[1]": 2, "pair[0] missing": .7071,
	}
	delete(want, "when hour cos") // 3e-17
	delete(got, "when hour cos")
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	got = vector(Named{Name: "country", Cell: text("XX")})
	if got["country other"] != .7071 || got["amount missing"] != .7071 || got["vip"] == 0 {
		t.Errorf("without values: %v", got)
	}
	counts := map[string]FieldCounts{}
	for _, c := range seen.Counts() {
		counts[c.Field] = c
	}
	if counts["country"].Unknown != 1 || counts["amount"].Missing != 1 || counts["amount"].Outside != 1 || counts["tags"].Unknown != 1 {
		t.Errorf("counts %+v", counts)
	}
}

// TestRefused: what cannot be used is an error that names the field, unless the
// schema says otherwise.
func TestRefused(t *testing.T) {
	for _, c := range []struct {
		spec   Spec
		cell   Named
		reason stream.Reason // empty: encoded
	}{
		{Spec{}, Named{Name: "amount", Cell: text("a")}, stream.ReasonType},
		{Spec{Invalid: TakeMissing}, Named{Name: "amount", Cell: text("a")}, ""},
		{Spec{}, Named{Name: "amount", Cell: num(1e300)}, stream.ReasonNotFinite},
		{Spec{Missing: Refuse}, Named{Name: "country", Cell: text("DE")}, stream.ReasonMissing},
		{Spec{Unknown: Refuse}, Named{Name: "country", Cell: text("XX")}, stream.ReasonLabel},
		{Spec{Unknown: Zero}, Named{Name: "country", Cell: text("XX")}, ""},
		{Spec{}, Named{Name: "pair", Cell: Cell{Kind: List}, Items: []Cell{num(1)}}, stream.ReasonDimension},
		{Spec{}, Named{Name: "vip", Cell: text("maybe")}, stream.ReasonType},
		{Spec{}, Named{Name: "when", Cell: text("yesterday")}, stream.ReasonType},
		{Spec{}, Named{Name: "tags", Cell: num(1)}, stream.ReasonType},
		{Spec{}, Named{Name: "made_at", Cell: num(1e300)}, stream.ReasonType},
	} {
		s, err := Infer(sample(1000), c.spec)
		if err != nil {
			t.Fatal(err)
		}
		_, err = s.Encode(row(s, []Named{c.cell}), nil, nil)
		var wrong *Wrong
		if (err != nil) != (c.reason != "") || err != nil && (!errors.As(err, &wrong) || wrong.Reason != c.reason || wrong.Field == "") {
			t.Errorf("%s %v under %+v: %v, want %q", c.cell.Name, c.cell.Cell, c.spec, err, c.reason)
		}
	}
}

// TestSparse: a schema of many features gives the same vector in another form.
func TestSparse(t *testing.T) {
	s, err := Infer(sample(1000), Spec{Features: map[string]Field{"words": {Type: Words}, "amount": {}, "tags": {Type: Tags, Hash: 64}}})
	if err != nil {
		t.Fatal(err)
	}
	if s.Dim() <= DenseLimit {
		t.Fatalf("%d features are dense", s.Dim())
	}
	for _, e := range sample(50) {
		var a stream.Arena
		x, err := s.Encode(row(s, e), &a, nil)
		if err != nil {
			t.Fatal(err)
		}
		norm, last := 0.0, int32(-1)
		first := s.Fields[slices.IndexFunc(s.Fields, func(f Field) bool { return f.Name == "words" })].at
		for k, j := range x.Idx {
			if j <= last || int(j) >= s.Dim() || x.Val[k] == 0 {
				t.Fatalf("%v", x)
			}
			if last = j; int(j) >= first {
				norm += float64(x.Val[k]) * float64(x.Val[k])
			}
		}
		if math.Abs(norm-1) > 1e-6 {
			t.Errorf("the words have the square norm %v", norm)
		}
	}
}

// TestParseRefuses: a schema cannot be what Parse refuses.
func TestParseRefuses(t *testing.T) {
	for _, bad := range []string{
		``, `{`, `{"label":"y","fields":[{"name":"a","type":"what"}]}`, `{"label":"y","fields":[{"name":"a","type":"numeric"}]}`,
		`{"label":"a","fields":[{"name":"a","type":"ignore"}]}`, `{"fields":[{"name":"b","type":"ignore"},{"name":"a","type":"ignore"}]}`,
		`{"fields":[{"name":"a","type":"text","hash":-1}]}`, `{"fields":[{"name":"a","type":"categorical","categories":["b","a"],"gaps":[false]}]}`,
		`{"fields":[{"name":"a","type":"numeric","means":[1],"gaps":[false],"range":[1]}]}`, `{"fields":[]} {}`, `{"more":1}`,
	} {
		if s, err := Parse(bad); err == nil {
			t.Errorf("%s is read as %v", bad, s)
		}
	}
}

// FuzzParse: whatever a model holds for a schema, it is refused or can encode.
func FuzzParse(f *testing.F) {
	// Each seed has a field: of a long one the fuzzer does nothing but try for
	// minutes whether less of it does as well.
	events := sample(20)
	for _, n := range events[1] {
		var column [][]Named
		for _, e := range events {
			i := slices.IndexFunc(e, func(m Named) bool { return m.Name == n.Name })
			if i < 0 {
				column = append(column, nil)
				continue
			}
			column = append(column, e[i:i+1])
		}
		if s, err := Infer(column, Spec{}); err == nil {
			f.Add(s.String())
		}
	}
	values := []Cell{{}, {Kind: Null}, num(2.5), flag(1), text("DE"), text("two words"), text("2026-03-01T10:00:00Z"),
		{Kind: Time, Num: 1e12}, {Kind: List, To: 2}, {Kind: Other}}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Parse(text)
		if err != nil || s.Dim() > 1<<16 {
			return
		}
		r := new(Row)
		for _, v := range values {
			r.Reset(len(s.Fields))
			r.Items = append(r.Items, num(1), Cell{Kind: Null})
			for i := range r.Cells {
				r.Cells[i] = v
			}
			x, err := s.Encode(r, nil, NewSeen(s))
			if err == nil && (x.Dim() > s.Dim() || x.CheckFinite() >= 0) {
				t.Fatalf("%v by %s", x, text)
			}
		}
		if again, err := Parse(s.String()); err != nil || again.String() != s.String() {
			t.Fatalf("%s: %v", s, err)
		}
	})
}

// TestTable compares with a map, on texts of all lengths that differ in one byte.
func TestTable(t *testing.T) {
	rng := rand.New(rand.NewSource(7))
	var table Table
	want := map[string]int{}
	var texts [][]byte
	for n := range 40 {
		for range 50 {
			b := bytes.Repeat([]byte{'a'}, n)
			if n > 0 {
				b[rng.Intn(n)] = byte(rng.Intn(4))
			}
			texts = append(texts, b)
		}
	}
	for i, b := range texts {
		if i%2 > 0 {
			continue
		}
		if _, ok := want[string(b)]; !ok {
			want[string(b)] = len(want)
		}
		if at := table.Put(string(b)); at != want[string(b)] {
			t.Fatalf("%q is put at %d, want %d", b, at, want[string(b)])
		}
	}
	for _, b := range texts {
		at, ok := want[string(b)]
		if !ok {
			at = -1
		}
		if got := table.Find(b); got != at {
			t.Fatalf("%q is found at %d, want %d", b, got, at)
		}
	}
}

// TestSteps: what most values are is encoded as the values that are looked at
// more closely are.
func TestSteps(t *testing.T) {
	events := sample(1000)
	s, err := Infer(events, Spec{})
	if err != nil {
		t.Fatal(err)
	}
	events = append(events, []Named{{Name: "amount", Cell: num(1e300)}}, []Named{{Name: "amount", Cell: num(-1e9)}, {Name: "shop", Cell: text("no shop")}, {Name: "country", Cell: text("")}})
	slow := *s
	slow.steps = slices.Clone(s.steps)
	for i := range slow.steps {
		slow.steps[i].kind = Other
	}
	seen, seenSlowly := NewSeen(s), NewSeen(s)
	for _, e := range events {
		x, err := s.Encode(row(s, e), nil, seen)
		y, errSlow := slow.Encode(row(s, e), nil, seenSlowly)
		if !reflect.DeepEqual(x, y) || fmt.Sprint(err) != fmt.Sprint(errSlow) {
			t.Fatalf("%v, %v, and slowly %v, %v", x, err, y, errSlow)
		}
		seen.Events.Add(1)
		seenSlowly.Events.Add(1)
	}
	if a, b := fmt.Sprint(seen.Counts()), fmt.Sprint(seenSlowly.Counts()); a != b {
		t.Errorf("counted %s, and slowly %s", a, b)
	}
}
