package events

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

func text(s string) Cell       { return Cell{Kind: Text, Text: []byte(s)} }
func num(v float64) Cell       { return Cell{Kind: Number, Num: v} }
func flag(v float64) Cell      { return Cell{Kind: Bool, Num: v} }
func list(c ...Cell) NamedCell { return NamedCell{Cell: Cell{Kind: List}, Items: c} }

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
		if got := murmur3([]byte(c.name + "=" + c.text)); got != c.want {
			t.Errorf("%s=%s: %d, want %d", c.name, c.text, got, c.want)
		}
	}
	for _, c := range []struct {
		name, text string
		at, sign   int
	}{{"country", "DE", 11, -1}, {"merchant", "m17", 15, 1}, {"a", "b", 10, -1}} {
		f := Field{Name: c.name, Hash: 16}
		if at, sign := f.slot([]byte(c.text)); at != c.at || sign != c.sign {
			t.Errorf("%s=%s: slot %d, %d, want %d, %d", c.name, c.text, at, sign, c.at, c.sign)
		}
	}
}

// row puts the fields of an event where the schema has them.
func row(s *Schema, e []NamedCell) *Row {
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
func sample(n int) (events [][]NamedCell) {
	rng := rand.New(rand.NewSource(3))
	for i := range n {
		tags := list(text([]string{"a", "b", "c"}[rng.Intn(3)]), text("d"))
		tags.Name = "tags"
		pair := list(num(rng.Float64()), num(float64(i)))
		pair.Name = "pair"
		if i%10 == 0 {
			pair.Items[0] = Cell{Kind: Null}
		}
		e := []NamedCell{
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

// Short texts are words where words recur and whole texts do not.
func TestShortTexts(t *testing.T) {
	for _, c := range []struct {
		want Type
		text func(i int) string
	}{
		{HashedText, func(i int) string { return fmt.Sprintf("pay k%d %d", i%7, i*i%997) }},
		{HashedText, func(i int) string { return fmt.Sprintf("k%d no-%d", i%7, i) }},
		{HashedText, func(i int) string { return fmt.Sprintf("please send box %d", i%400) }}, // a few events of each
		{Categorical, func(i int) string { return fmt.Sprintf("please send box %d", i%300) }},
		{Array, func(i int) string { return fmt.Sprintf("[%d, %d, %d]", i%9, i%10, i%11) }},
		{Categorical, func(i int) string { return fmt.Sprintf("%d %d %d", i%9, i%10, i%11) }},
		{Ignore, func(i int) string { return fmt.Sprintf("first%d last%d", i, i*i) }},
		{Categorical, func(i int) string { return fmt.Sprintf("first%d last%d", i%700, i%700) }},
		{Categorical, func(i int) string { return fmt.Sprintf("pay k%d", i%400) }},
	} {
		events := make([][]NamedCell, 1000)
		for i := range events {
			events[i] = []NamedCell{{Name: "x", Cell: num(float64(i % 10))}, {Name: "t", Cell: text(c.text(i))}}
		}
		if s, err := Infer(events, Spec{}); err != nil || s.Fields[0].Type != c.want {
			t.Errorf("%s: %+v, %v, want %v", c.text(3), s.Fields[0], err, c.want)
		}
	}
}

func TestInfer(t *testing.T) {
	events := sample(1000)
	s, err := Infer(events, Spec{})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]Type{
		"amount": Numeric, "country": Categorical, "id": Ignore, "key": Ignore, "vip": Boolean, "made_at": Timestamp, "when": Timestamp,
		"words": HashedText, "shop": Categorical, "price": Numeric, "none": Ignore, "tags": Tags, "pair": Array,
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
// TestInferRareCategories: a field most of whose values are rare is hashed widely, unless
// they are ids; one with many values, most of them in frequent ones, is not.
func TestInferRareCategories(t *testing.T) {
	for name, c := range map[string]struct {
		events int
		of     func(i int) string
		hash   int
		typ    Type
	}{
		"merchants":         {1000, func(i int) string { return fmt.Sprint("m", i*7919%700) }, rareHash, Categorical},
		"few":               {40, func(i int) string { return fmt.Sprint("m", i*7919%30) }, 0, Categorical},
		"ids":               {1000, func(i int) string { return fmt.Sprint("m", i%990) }, 0, Ignore},
		"frequent and rare": {1000, func(i int) string { return fmt.Sprint("m", i%300*(i%5/3)) }, 0, Categorical},
		"cities":            {1000, func(i int) string { return fmt.Sprint("m", i*7919%150) }, manyHash, Categorical},
	} {
		var events [][]NamedCell
		for i := range c.events {
			events = append(events, []NamedCell{{Name: "x", Cell: num(float64(i % 7))}, {Name: "shop", Cell: text(c.of(i))}})
		}
		s, err := Infer(events, Spec{})
		if err != nil {
			t.Fatal(err)
		}
		if f := &s.Fields[0]; f.Name != "shop" || f.Hash != c.hash || f.Type != c.typ {
			t.Errorf("%s: %s is %s, hashed into %d; want %s, %d", name, f.Name, f.Type, f.Hash, c.typ, c.hash)
		}
	}
}

// TestInferCodes: whole numbers are categories if their name says so.
func TestInferCodes(t *testing.T) {
	for name, want := range map[string]Type{
		"id": Categorical, "ID": Categorical, "shop_id": Categorical, "shop.id": Categorical, "shopId": Categorical, "shopID": Categorical,
		"zip": Categorical, "area-code": Categorical, "zipCode": Categorical,
		"paid": Numeric, "bid": Numeric, "VALID": Numeric, "gridded": Numeric, "id.count": Numeric, "id_count": Numeric,
	} {
		for _, cell := range []func(v int) Cell{func(v int) Cell { return num(float64(v)) }, func(v int) Cell { return text(fmt.Sprint(v)) }} {
			var events [][]NamedCell
			for i := range 300 {
				events = append(events, []NamedCell{{Name: name, Cell: cell(i * 31 % 50)}})
			}
			s, err := Infer(events, Spec{})
			if err != nil {
				t.Fatal(err)
			}
			if f := &s.Fields[0]; f.Type != want || want == Categorical && len(f.Categories) != 50 {
				t.Errorf("%s is %s with %d categories, want %s", name, f.Type, len(f.Categories), want)
			}
		}
	}
	for name, c := range map[string]struct {
		text func(i int) string
		want Type
	}{
		"quantity": {func(i int) string {
			if i == 7 {
				return "07"
			}
			return fmt.Sprint(i % 50)
		}, Numeric},
		"branch":     {func(i int) string { return fmt.Sprintf("%04d", i%50) }, Categorical},
		"share":      {func(i int) string { return fmt.Sprintf("0.%d", i%50) }, Numeric},
		"number":     {func(i int) string { return fmt.Sprint(700 + i) }, Ignore},
		"created_at": {func(i int) string { return fmt.Sprint(1760000000 + i*7) }, Timestamp},
	} {
		var events [][]NamedCell
		for i := range 300 {
			events = append(events, []NamedCell{{Name: name, Cell: text(c.text(i))}, {Name: "x", Cell: num(float64(i % 3))}})
		}
		s, err := Infer(events, Spec{})
		if err != nil {
			t.Fatal(err)
		}
		if f := &s.Fields[0]; f.Type != c.want {
			t.Errorf("%s is %s, want %s", name, f.Type, c.want)
		}
		for _, e := range events {
			got, err := s.Encode(row(s, e), nil)
			if err != nil || c.want == Timestamp && got.Val[0] == 0 && got.Val[1] == 0 {
				t.Fatalf("%s: %v, %v", name, got, err)
			}
		}
	}
	// Neither fractions nor whole numbers that are nearly all different.
	for _, c := range []struct {
		of   func(i int) float64
		want Type
	}{{func(i int) float64 { return float64(i%9) / 2 }, Numeric}, {func(i int) float64 { return float64(i * 7 % 295) }, Ignore}} {
		var events [][]NamedCell
		for i := range 300 {
			events = append(events, []NamedCell{{Name: "shop_id", Cell: num(c.of(i))}, {Name: "x", Cell: num(float64(i % 3))}})
		}
		s, err := Infer(events, Spec{})
		if err != nil {
			t.Fatal(err)
		}
		if f := &s.Fields[0]; f.Type != c.want {
			t.Errorf("shop_id is %s, want %s", f.Type, c.want)
		}
	}
}

// TestInferNulls: what stands for no value beside numbers and times, in texts and in numbers.
func TestInferNulls(t *testing.T) {
	at := func(i int) Cell { return Cell{Kind: Text, Text: fmt.Appendf(nil, "2026-01-02T03:04:%02dZ", i%60)} }
	number := func(v float64) Cell { return Cell{Kind: Number, Num: v} }
	text := func(s string) Cell { return Cell{Kind: Text, Text: []byte(s)} }
	other := func(of, other func(i int) Cell, every int) func(i int) Cell {
		return func(i int) Cell {
			if i%every == 0 {
				return other(i)
			}
			return of(i)
		}
	}
	small, id := func(i int) Cell { return number(float64(i%37) / 4) }, func(i int) Cell { return text(fmt.Sprint("x", i)) }
	decimals := func(i int) Cell { return text(fmt.Sprint(float64(i%37) / 4)) }
	always := func(c Cell) func(int) Cell { return func(int) Cell { return c } }
	tests := map[string]struct {
		cell  func(i int) Cell
		want  Type
		nulls []string
	}{
		"a text among numbers":     {other(small, always(text("n/A")), 4), Numeric, []string{"n/A"}},
		"once":                     {other(small, always(text("null")), 400), Numeric, []string{"null"}},
		"two texts among decimals": {other(other(decimals, always(text("")), 3), always(text("-")), 5), Numeric, []string{"", "-"}},
		"a code":                   {other(small, always(text("ERR 7")), 10), Numeric, []string{"ERR 7"}},
		"two codes":                {other(other(small, always(text("ERR 7")), 10), always(text("ERR 8")), 7), Categorical, nil},
		"a code and none":          {other(other(small, always(text("ERR 7")), 10), always(text("N/A")), 7), Numeric, []string{"ERR 7", "N/A"}},
		"none, and garbage":        {other(other(small, always(text("N/A")), 10), id, 200), Numeric, []string{"N/A"}},
		"a code among decimals":    {other(decimals, always(text("ERR 7")), 10), Numeric, []string{"ERR 7"}},
		"many among decimals":      {other(decimals, always(text("ERR 7")), 5), Categorical, nil},
		"a few decimals":           {other(small, decimals, 3), Numeric, nil},
		"an unusual text, once":    {other(small, always(text("ERR 7")), 400), Numeric, nil},
		"most are codes":           {other(always(text("ERR 7")), small, 3), Categorical, nil},
		"texts":                    {other(small, id, 10), Categorical, nil},
		"a time that never was":    {other(at, always(text("none")), 3), Timestamp, []string{"none"}},
		"all are none":             {always(text("N/A")), Categorical, nil},
		"0 and -1 for no time":     {other(other(func(i int) Cell { return number(1.7e9 + float64(i)) }, always(number(0)), 4), always(number(-1)), 9), Timestamp, []string{"-1", "0"}},
		"a number at 0":            {other(func(i int) Cell { return number(float64(20 + i%37)) }, always(number(0)), 4), Numeric, nil},
		"-999":                     {other(small, always(number(-999)), 10), Numeric, []string{"-999"}},
		"-99 and 9999":             {other(other(small, always(number(-99)), 10), always(number(9999)), 7), Numeric, []string{"-99", "9999"}},
		"as texts":                 {other(other(decimals, always(text("-99")), 10), always(text("NA")), 7), Numeric, []string{"-99", "NA"}},
		"too near":                 {other(func(i int) Cell { return number(float64(i % 60)) }, always(number(99)), 10), Numeric, nil},
		"too rare":                 {other(small, always(number(-999)), 100), Numeric, nil},
		"another number":           {other(small, always(number(-500)), 10), Numeric, nil},
		"few values":               {other(func(i int) Cell { return number(float64(i % 3)) }, always(number(-999)), 10), Numeric, nil},
	}
	for name, tt := range tests {
		var list [][]NamedCell
		for i := range 400 {
			list = append(list, []NamedCell{{Name: "a_at", Cell: tt.cell(i)}, {Name: "b", Cell: number(float64(i % 7))}})
		}
		s, err := Infer(list, Spec{})
		if err != nil {
			t.Fatal(err)
		}
		f := &s.Fields[0]
		if f.Type != tt.want || !slices.Equal(f.Nulls, tt.nulls) {
			t.Errorf("%s: %s, nulls %q", name, f.Type, f.Nulls)
			continue
		}
		if tt.nulls == nil {
			continue
		}
		if !f.MissingIndicator[0] || f.Type == Numeric && (f.Range[0] != 0 || f.Range[1] != 9) {
			t.Errorf("%s: indicators %v, range %v", name, f.MissingIndicator, f.Range)
		}
		again, err := Parse(s.String())
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range []*Schema{s, again} {
			for i := range list {
				c := list[i][0].Cell
				got, err := s.Encode(&Row{Cells: []Cell{c, number(1)}}, nil)
				want, _ := s.Encode(&Row{Cells: []Cell{{Kind: Null}, number(1)}}, nil)
				null := slices.Contains(tt.nulls, string(c.Text)) || c.Kind == Number && slices.Contains(tt.nulls, fmt.Sprint(c.Num))
				if bytes.HasPrefix(c.Text, []byte("x")) {
					continue // garbage
				}
				if err != nil || slices.Equal(got.Val, want.Val) != null {
					t.Fatalf("%s: event %d: %v, missing %v, %v", name, i, got.Val, want.Val, err)
				}
			}
		}
	}
}

func TestEncode(t *testing.T) {
	s, err := Infer(sample(1000), Spec{Features: map[string]Field{
		"amount": {Type: Numeric, Transform: "log1p", Clip: []float64{0, 1000}}, "country": {Type: Categorical}, "vip": {Type: Boolean},
		"when": {Type: Timestamp}, "pair": {Type: Array}, "tags": {Type: Tags},
	}})
	if err != nil {
		t.Fatal(err)
	}
	names := s.Features()
	seen := NewStatistics(s)
	vector := func(e ...NamedCell) map[string]float64 {
		t.Helper()
		r := row(s, e)
		x, err := s.Encode(r, nil)
		if err != nil {
			t.Fatal(err)
		}
		seen.Add(r, x)
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
	got := vector(NamedCell{Name: "amount", Cell: num(1e9)}, NamedCell{Name: "country", Cell: text("FR")}, NamedCell{Name: "vip", Cell: flag(1)},
		NamedCell{Name: "when", Cell: text("2026-03-01T06:00:00Z")}, tags, pair) // a Sunday
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
	got = vector(NamedCell{Name: "country", Cell: text("XX")})
	if got["country other"] != .7071 || got["amount missing"] != .7071 || got["vip"] == 0 {
		t.Errorf("without values: %v", got)
	}
	counts := map[string]FieldStatistics{}
	for _, c := range seen.Fields() {
		counts[c.Name] = c
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
		cell   NamedCell
		reason stream.Reason // empty: encoded
	}{
		{Spec{}, NamedCell{Name: "amount", Cell: text("a")}, stream.ReasonType},
		{Spec{Invalid: AsMissing}, NamedCell{Name: "amount", Cell: text("a")}, ""},
		{Spec{}, NamedCell{Name: "amount", Cell: num(1e300)}, stream.ReasonNotFinite},
		{Spec{Missing: Refuse}, NamedCell{Name: "country", Cell: text("DE")}, stream.ReasonMissing},
		{Spec{Unknown: Refuse}, NamedCell{Name: "country", Cell: text("XX")}, stream.ReasonLabel},
		{Spec{Unknown: Zero}, NamedCell{Name: "country", Cell: text("XX")}, ""},
		{Spec{}, NamedCell{Name: "pair", Cell: Cell{Kind: List}, Items: []Cell{num(1)}}, stream.ReasonDimension},
		{Spec{}, NamedCell{Name: "vip", Cell: text("maybe")}, stream.ReasonType},
		{Spec{}, NamedCell{Name: "when", Cell: text("yesterday")}, stream.ReasonType},
		{Spec{}, NamedCell{Name: "tags", Cell: num(1)}, stream.ReasonType},
		{Spec{}, NamedCell{Name: "made_at", Cell: num(1e300)}, stream.ReasonType},
		{Spec{}, NamedCell{Name: "when", Cell: Cell{Kind: Other}}, stream.ReasonType},
		{Spec{}, NamedCell{Name: "tags", Cell: Cell{Kind: Other}}, stream.ReasonType},
		{Spec{}, NamedCell{Name: "pair", Cell: Cell{Kind: Other}}, stream.ReasonType},
		{Spec{Features: map[string]Field{"amount": {Type: Numeric, Clip: []float64{0, 9}}}}, NamedCell{Name: "amount", Cell: Cell{Kind: Other}}, stream.ReasonType},
		{Spec{Features: map[string]Field{"amount": {Type: Numeric, Nulls: []string{"n/a", "3"}}}}, NamedCell{Name: "amount", Cell: text("a")}, stream.ReasonType},
		{Spec{Features: map[string]Field{"amount": {Type: Numeric, Nulls: []string{"n/a", "3"}}}}, NamedCell{Name: "amount", Cell: text("3.0")}, ""},
		{Spec{Missing: Refuse, Features: map[string]Field{"amount": {Type: Numeric, Nulls: []string{"n/a", "3"}}}}, NamedCell{Name: "amount", Cell: text("n/a")}, stream.ReasonMissing},
	} {
		s, err := Infer(sample(1000), c.spec)
		if err != nil {
			t.Fatal(err)
		}
		_, err = s.Encode(row(s, []NamedCell{c.cell}), nil)
		var wrong *FieldError
		if (err != nil) != (c.reason != "") || err != nil && (!errors.As(err, &wrong) || wrong.Reason != c.reason || wrong.Field == "") {
			t.Errorf("%s %v under %+v: %v, want %q", c.cell.Name, c.cell.Cell, c.spec, err, c.reason)
		}
	}
}

// TestSparse: a schema of many features gives the same vector in another form.
func TestSparse(t *testing.T) {
	s, err := Infer(sample(1000), Spec{Features: map[string]Field{"words": {Type: HashedText}, "amount": {}, "tags": {Type: Tags, Hash: 64}}})
	if err != nil {
		t.Fatal(err)
	}
	if s.Dim() <= DenseLimit {
		t.Fatalf("%d features are dense", s.Dim())
	}
	for _, e := range sample(50) {
		var a stream.Arena
		x, err := s.Encode(row(s, e), &a)
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
		var column [][]NamedCell
		for _, e := range events {
			i := slices.IndexFunc(e, func(m NamedCell) bool { return m.Name == n.Name })
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
			x, err := s.Encode(r, nil)
			if err == nil && (x.Dim() > s.Dim() || x.CheckFinite() >= 0) {
				t.Fatalf("%v by %s", x, text)
			}
		}
		if again, err := Parse(s.String()); err != nil || again.String() != s.String() {
			t.Fatalf("%s: %v", s, err)
		}
	})
}

// TestSteps: what most values are is encoded as the values that are looked at
// more closely are.
func TestSteps(t *testing.T) {
	events := sample(1000)
	s, err := Infer(events, Spec{})
	if err != nil {
		t.Fatal(err)
	}
	events = append(events, []NamedCell{{Name: "amount", Cell: num(1e300)}}, []NamedCell{{Name: "amount", Cell: num(-1e9)}, {Name: "shop", Cell: text("no shop")}, {Name: "country", Cell: text("")}})
	slow := *s
	slow.steps = slices.Clone(s.steps)
	for i := range slow.steps {
		slow.steps[i].kind = Other
	}
	for _, e := range events {
		r, slowly := row(s, e), row(s, e)
		x, err := s.Encode(r, nil)
		y, errSlow := slow.Encode(slowly, nil)
		if !reflect.DeepEqual(x, y) || !slices.Equal(r.Issues, slowly.Issues) || fmt.Sprint(err) != fmt.Sprint(errSlow) {
			t.Fatalf("%v, %v, and slowly %v, %v", x, err, y, errSlow)
		}
	}
}

// TestStatistics: the index is small for events like those of the schema, and large for
// others; issues are counted, of refused events too.
func TestStatistics(t *testing.T) {
	events := sample(1000)
	s, err := Infer(events, Spec{})
	if err != nil {
		t.Fatal(err)
	}
	psi := func(change func(e []NamedCell)) (amount, country float64) {
		stats := NewStatistics(s)
		for range 5 { // one event in eight is counted
			for _, e := range sample(1000) {
				change(e)
				r := row(s, e)
				x, err := s.Encode(r, nil)
				if err != nil {
					t.Fatal(err)
				}
				stats.Add(r, x)
			}
		}
		if n, _ := stats.Events(); n != 5000 {
			t.Errorf("%d events", n)
		}
		for _, f := range stats.Fields() {
			switch f.Name {
			case "amount":
				amount = f.PSI
			case "country":
				country = f.PSI
			case "vip", "when":
				if !math.IsNaN(f.PSI) {
					t.Errorf("%s has an index of %v", f.Name, f.PSI)
				}
			}
		}
		return amount, country
	}
	if amount, country := psi(func([]NamedCell) {}); !(amount < .05) || !(country < .05) {
		t.Errorf("the same values have the indices %v, %v", amount, country)
	}
	if amount, country := psi(func(e []NamedCell) {
		for i := range e {
			switch e[i].Name {
			case "amount":
				e[i].Cell.Num *= 5
			case "country":
				e[i].Cell.Text = []byte("DE")
			}
		}
	}); !(amount > .25) || !(country > .25) {
		t.Errorf("other values have the indices %v, %v", amount, country)
	}
	stats := NewStatistics(s)
	r := row(s, []NamedCell{{Name: "amount", Cell: text("much")}})
	if _, err := s.Encode(r, nil); err == nil {
		t.Fatal("a text is taken for a number")
	}
	stats.AddRefused(r)
	if n, _ := stats.Events(); n != 0 || stats.Fields()[0].Invalid != 1 {
		t.Errorf("%d events, %+v", n, stats.Fields()[0])
	}
}
