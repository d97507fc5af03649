package events

import (
	"fmt"
	"math"
	"math/rand"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"
)

// inferred returns the schema of n events with the field f beside a number.
func inferred(t *testing.T, n int, name string, f func(i int) Cell) (*Schema, [][]NamedCell) {
	t.Helper()
	var list [][]NamedCell
	for i := range n {
		list = append(list, []NamedCell{{Name: name, Cell: f(i)}, {Name: "zz", Cell: num(float64(i % 7))}})
	}
	s, err := Infer(list, Spec{})
	if err != nil {
		t.Fatal(err)
	}
	return s, list
}

// TestAmounts: numbers with units and separators give what the plain numbers give; names that hold
// digits stay names.
func TestAmounts(t *testing.T) {
	value := func(i int) float64 { return float64(i*i%4000_00) / 100 } // from 0.00 to 3,999.99
	group := func(v float64, comma, point string) string {
		text := fmt.Sprintf("%.2f", v)
		if v >= 1000 {
			text = text[:1] + comma + text[1:]
		}
		return strings.Replace(text, ".", point, len(point))
	}
	german := func(i int) string { return strings.Replace(group(value(i), "", "."), ".", ",", 1) }
	for name, tt := range map[string]struct {
		of    func(i int) string
		want  Type
		unit  string
		comma string
	}{
		"dollars":      {func(i int) string { return "$" + group(value(i), ",", ".") }, Numeric, "$", ""},
		"negative":     {func(i int) string { return "-US$ " + group(value(i), ",", ".") }, Numeric, "US$", ""},
		"accountants":  {func(i int) string { return "($" + group(value(i), ",", ".") + ")" }, Numeric, "$", ""},
		"minus behind": {func(i int) string { return group(value(i), ",", ".") + "-" }, Numeric, "", Thousands},
		"codes":        {func(i int) string { return "USD " + group(value(i), ",", ".") }, Numeric, "USD", ""},
		"days": {func(i int) string {
			return fmt.Sprint(value(i), " ", strings.TrimSuffix("days", strings.Repeat("s", max(0, 1-i%9))))
		}, Numeric, "days", ""},
		"percent":           {func(i int) string { return fmt.Sprint(value(i), " %") }, Numeric, "%", ""},
		"euros":             {func(i int) string { return german(i) + " €" }, Numeric, "€", DecimalComma},
		"euros, grouped":    {func(i int) string { return strings.NewReplacer(".", ",", ",", ".").Replace(group(value(i), ",", ".")) }, Numeric, "", DecimalComma},
		"thousands":         {func(i int) string { return group(value(i), ",", ".") }, Numeric, "", Thousands},
		"Swiss":             {func(i int) string { return group(value(i), "'", ".") }, Numeric, "", Thousands},
		"French":            {func(i int) string { return strings.Replace(group(value(i), "\u202f", "."), ".", ",", 1) }, Numeric, "", DecimalComma},
		"some with units":   {func(i int) string { return fmt.Sprint(value(i)) + strings.Repeat("kg", i%2) }, Numeric, "kg", ""},
		"clocks":            {func(i int) string { m := i * i % 4000_00 / 100 * 60; return fmt.Sprintf("%d:%02d:00", m/60, m%60) }, Numeric, ":", ""},
		"two units":         {func(i int) string { return fmt.Sprint(i%10) + []string{"kg", "lb"}[i%2] }, Categorical, "", ""},
		"rooms":             {func(i int) string { return fmt.Sprint("room ", i%10) }, Categorical, "", ""},
		"ages":              {func(i int) string { return []string{"18-24", "25-34", "35-44"}[i%3] }, Categorical, "", ""},
		"addresses":         {func(i int) string { return fmt.Sprintf("10.0.%d.%d", i%3, i%4) }, Categorical, "", ""},
		"places":            {func(i int) string { return fmt.Sprintf("%.2f,%.2f", float64(i%9), float64(i%5)) }, Categorical, "", ""},
		"numbers of orders": {func(i int) string { return fmt.Sprintf("#%d", 4000+i) }, Ignore, "", ""},
	} {
		s, list := inferred(t, 1000, "v", func(i int) Cell { return text(tt.of(i)) })
		f := &s.Fields[0]
		if f.Type != tt.want || f.Unit != tt.unit || f.Comma != tt.comma {
			t.Errorf("%s: %s, unit %q, comma %q", name, f.Type, f.Unit, f.Comma)
			continue
		}
		if tt.want != Numeric {
			continue
		}
		for i, e := range list {
			want := float32(value(i))
			if name == "clocks" {
				want = float32(math.Trunc(value(i)))
			}
			if slices.Contains([]string{"negative", "accountants", "minus behind"}, name) {
				want = -want
			}
			if got, err := s.Encode(row(s, e), nil); err != nil || got.Val[0] != want {
				t.Fatalf("%s: %s is %v, want %v, %v", name, tt.of(i), got.Val, want, err)
			}
		}
		if _, err := s.Encode(row(s, []NamedCell{{Name: "v", Cell: text("£1,23")}, {Name: "zz", Cell: num(1)}}), nil); err == nil {
			t.Errorf("%s: £1,23 is read", name)
		}
	}
}

// TestTimes compares times as people write them with what package time reads by their layouts.
func TestTimes(t *testing.T) {
	rng := rand.New(rand.NewSource(7))
	for layout, order := range map[string]string{
		time.RFC3339: "", time.RFC3339Nano: "", time.DateTime: "", time.DateOnly: "", "2006-01-02 15:04:05.000000": "",
		"2006-01-02T15:04": "", "2006-01-02T15:04:05.000-0700": "", "2006-01-02 15:04:05-07:00": "", "2006/01/02 15:04": "", "2006.1.2": "",
		time.RFC1123Z: "", "02/Jan/2006:15:04:05 -0700": "", "Jan 2, 2006 3:04 PM": "", "2 January 2006": "", "02-Jan-2006 15:04:05": "",
		"Mon, 02 Jan 2006 15:04:05 GMT": "", "2006-01-02 15:04:05 UTC": "",
		time.ANSIC: "", "Mon Jan 02 15:04:05 -0700 2006": "", "Mon Jan 02 2006 15:04:05 GMT-0700 (Zone)": "", "20060102150405": "", "20060102T150405Z": "",
		"02/01/2006": DayFirst, "01/02/2006 15:04:05": MonthFirst, "1/2/06 3:04 pm": MonthFirst, "02.01.2006 15:04": DayFirst, "02-01-2006": DayFirst,
	} {
		for range 300 {
			at := time.UnixMilli(rng.Int63n(4e12) - 1e12).In(time.FixedZone("", rng.Intn(40)*1800-36000))
			if layout == "1/2/06 3:04 pm" {
				at = time.UnixMilli(rng.Int63n(1.2e12)).UTC()
			}
			text := at.Format(layout)
			want, err := time.Parse(layout, text)
			if err != nil {
				t.Fatal(err)
			}
			got, ok := parseTime([]byte(text), order)
			if !ok || !got.Equal(want) {
				t.Fatalf("%s: %v, %v, want %v", text, got, ok, want)
			}
		}
	}
	for _, text := range []string{"2026-02-29", "2026-13-01", "2026-01-02T24:00", "2026-01-02 10:60", "2026-01/02", "1.2.34", "31/02/2026", "2 Foo 2026", "13:00 PM", "1/2/2026 13:00 PM", "12345678", "18991231000000", "20260101246060", "Sun Mar 32 17:45:10 2026", "2026-01-02T03:04:05+25:00", "10/20/30/40"} {
		if got, ok := parseTime([]byte(text), DayFirst); ok {
			t.Errorf("%q is read as %v", text, got)
		}
	}
	if _, ok := parseTime([]byte("03/04/2026"), ""); ok {
		t.Error("a time with the year last is read without an order")
	}
}

// TestInferTimes: units of times that are numbers, and orders of day and month.
func TestInferTimes(t *testing.T) {
	day := func(i int) time.Time { return time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC).AddDate(0, 0, i) }
	at := func(layout string, days int) func(i int) Cell {
		return func(i int) Cell { return text(day(i % days).Format(layout)) }
	}
	of := func(unit time.Duration) func(i int) Cell {
		return func(i int) Cell { return num(float64(day(i).UnixNano() / int64(unit))) }
	}
	for _, tt := range []struct {
		name  string
		cell  func(i int) Cell
		want  Type
		unit  string
		order string
	}{
		{"a_date", at("02/01/2006", 300), Timestamp, "", DayFirst}, {"a_date", at("01/02/2006", 300), Timestamp, "", MonthFirst},
		{"a_date", at("02.01.2006", 9), Timestamp, "", DayFirst}, {"a_date", at("01/02/2006", 9), Timestamp, "", MonthFirst}, // close to one another
		{"a_date", at("Jan 2, 2006", 300), Timestamp, "", ""},
		{"a_ts", of(time.Microsecond), Timestamp, "us", ""}, {"a_ts", of(time.Nanosecond), Timestamp, "ns", ""},
		{"a_ts", of(time.Millisecond), Timestamp, "ms", ""}, {"a_ts", of(time.Second), Timestamp, "s", ""},
		{"a_date", of(24 * time.Hour), Timestamp, "d", ""}, {"wait_time", of(24 * time.Hour), Ignore, "", ""},
		{"order.createdAt", of(time.Millisecond), Timestamp, "ms", ""}, {"created", of(time.Second), Timestamp, "s", ""},
		{"DeliveredOn", of(time.Millisecond), Timestamp, "ms", ""}, {"flat", of(time.Second), Numeric, "", ""},
		{"a_date", func(i int) Cell { v := day(i); return num(float64(v.Year()*10000 + int(v.Month())*100 + v.Day())) }, Timestamp, yyyymmdd, ""},
		{"a_date", func(i int) Cell { return text(day(i).Format("20060102")) }, Timestamp, yyyymmdd, ""},
	} {
		s, list := inferred(t, 400, tt.name, tt.cell)
		f := &s.Fields[0]
		if f.Type == Numeric && tt.name == "wait_time" {
			continue
		}
		if f.Type != tt.want || f.Unit != tt.unit || f.Order != tt.order {
			t.Errorf("%s, %v: %s, unit %q, order %q", tt.name, tt.cell(0), f.Type, f.Unit, f.Order)
			continue
		}
		if f.Type == Timestamp {
			c := list[30][0].Cell
			got, ok := f.time(&c)
			want := day(30)
			if days := strings.Contains(string(c.Text), "2026") && tt.order != "" && string(c.Text) == string(list[3][0].Cell.Text); days {
				want = day(3)
			}
			if !ok || got.Weekday() != want.Weekday() && !got.Equal(day(30%9)) {
				t.Errorf("%s: %s is %v", tt.name, c.Text, got)
			}
		}
	}
}

// TestAges: beside the time of the event, others have their age, in days; a birthday has no hour.
func TestAges(t *testing.T) {
	var list [][]NamedCell
	now := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	for i := range 500 {
		paid := now.Add(time.Duration(i) * time.Hour)
		e := []NamedCell{
			{Name: "paid_at", Cell: num(float64(paid.Unix()))},
			{Name: "signup", Cell: text(paid.Add(-time.Duration(i*i) * time.Minute).Format(time.RFC3339))},
			{Name: "birth", Cell: text(now.AddDate(-20-i%50, 0, -i).Format("01/02/2006"))},
		}
		if i%10 == 0 {
			e = e[:2]
		}
		if i%9 == 0 {
			e = e[1:] // not paid
		}
		list = append(list, e)
	}
	s, err := Infer(list, Spec{})
	if err != nil {
		t.Fatal(err)
	}
	want := "birth age,birth missing,paid_at hour sin,paid_at hour cos,paid_at weekday sin,paid_at weekday cos,paid_at missing," +
		"signup age,signup hour sin,signup hour cos,signup weekday sin,signup weekday cos"
	if got := strings.Join(s.Features(), ","); got != want+",signup missing" && got != want {
		t.Fatalf("features %s", got)
	}
	scaled := s.Scaled()
	if scaled[0] || scaled[7] || !scaled[1] || !scaled[2] {
		t.Errorf("scaled %v", scaled)
	}
	sum, n := 0.0, 0
	for i, e := range list {
		x, err := s.Encode(row(s, e), nil)
		if err != nil {
			t.Fatal(err)
		}
		age := float64(i*i) / 1440
		if i%9 == 0 {
			age = s.Fields[2].Means[0]
		} else {
			sum, n = sum+age, n+1
		}
		if math.Abs(float64(x.Val[7])-age) > 1e-4 {
			t.Fatalf("event %d: the age is %v, want %v", i, x.Val[7], age)
		}
		if missing := i%10 == 0; (x.Val[1] != 0) != missing || missing && x.Val[0] != float32(s.Fields[0].Means[0]) {
			t.Fatalf("event %d: %v", i, x.Val[:2])
		}
	}
	if math.Abs(s.Fields[2].Means[0]-sum/float64(n)) > 1e-3 {
		t.Errorf("the mean age is %v, want %v", s.Fields[2].Means[0], sum/float64(n))
	}
	// A birthday alone is measured up to 2000.
	alone, _ := inferred(t, 100, "birth", func(i int) Cell { return text(now.AddDate(-20-i%50, 0, 0).Format(time.DateOnly)) })
	x, err := alone.Encode(row(alone, []NamedCell{{Name: "birth", Cell: text("1999-12-02")}, {Name: "zz", Cell: num(1)}}), nil)
	if f := &alone.Fields[0]; err != nil || !slices.Equal(f.Parts, []string{"age"}) || f.Until != "" || x.Val[0] != 30 {
		t.Errorf("alone: %v, until %q, %v, %v", f.Parts, f.Until, x.Val, err)
	}
}

// TestParts: of names that are nearly all different, the part that recurs.
func TestParts(t *testing.T) {
	domains := []string{"a.com", "b.org", "c.de", "d.com"}
	random := rand.New(rand.NewSource(1))
	hex := func() string { return fmt.Sprintf("%08x", random.Uint32()) }
	for name, tt := range map[string]struct {
		of            func(i int) string
		before, after string
		want          Type
	}{
		"paths":     {func(i int) string { return fmt.Sprintf("https://a.com/%s/%d?sid=%s", domains[i%4], i, hex()) }, "", "", HashedText},
		"routes":    {func(i int) string { return fmt.Sprintf("/%s/%d", domains[i%4], i%200) }, "", "", HashedText},
		"urls":      {func(i int) string { return strings.TrimSuffix(fmt.Sprintf("https://%s/p/%d", domains[i%4], i), "/p/7") }, "/", "://", Categorical},
		"addresses": {func(i int) string { return fmt.Sprintf("u@%d@%s", i, domains[i*i%4]) }, "", "@", Categorical},
		"networks":  {func(i int) string { return fmt.Sprintf("%d.1.%d.%d", 10+i%30, i%200, i%190) }, ".", "", Categorical},
		"shops":     {func(i int) string { return fmt.Sprintf("%02d-%06d", i%12, i) }, "-", "", Categorical},
		"orders":    {func(i int) string { return fmt.Sprintf("ORD-%06d", i) }, "", "", Ignore},
		"uuids":     {func(int) string { return hex() + "-" + hex()[:4] + "-4" + hex()[:3] + "-" + hex() }, "", "", Ignore},
	} {
		s, list := inferred(t, 1000, "v", func(i int) Cell { return text(tt.of(i)) })
		f := &s.Fields[0]
		if f.Type != tt.want || f.Before != tt.before || f.After != tt.after {
			t.Errorf("%s: %s, before %q, after %q", name, f.Type, f.Before, f.After)
			continue
		}
		if f.Type == Ignore || f.Type == HashedText {
			continue
		}
		var parts [][]NamedCell
		for _, e := range list {
			part := string(e[0].Cell.Text)
			if u, err := url.Parse(part); err == nil && name == "urls" {
				part = u.Host
			} else if f.Before != "" {
				part = strings.Split(part, f.Before)[0]
			} else {
				part = part[strings.LastIndex(part, f.After)+1:]
			}
			parts = append(parts, []NamedCell{{Name: "v", Cell: text(part)}, e[1]})
		}
		plain, err := Infer(parts, Spec{Features: map[string]Field{"v": {Type: Categorical}, "zz": {}}})
		if err != nil {
			t.Fatal(err)
		}
		for i, e := range list {
			got, err := s.Encode(row(s, e), nil)
			want, err2 := plain.Encode(row(plain, parts[i]), nil)
			if err != nil || err2 != nil || !slices.Equal(got.Val, want.Val) {
				t.Fatalf("%s: %s is %v, want %v, %v, %v", name, e[0].Cell.Text, got.Val, want.Val, err, err2)
			}
		}
	}
}

// TestLists: lists of numbers that differ in length, and lengths.
func TestLists(t *testing.T) {
	var events [][]NamedCell
	for i := range 200 {
		l, o, ids := list(), list(), list()
		for k := range i % 5 {
			l.Items = append(l.Items, num(float64(k*i)))
			o.Items = append(o.Items, Cell{Kind: Other})
			ids.Items = append(ids.Items, num(float64(k)))
		}
		l.Name, o.Name, ids.Name = "l", "o", "shop_id"
		events = append(events, []NamedCell{l, o, ids, {Name: "zz", Cell: num(1)}})
	}
	s, err := Infer(events, Spec{})
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(s.Features()[:7], ","); got != "l sum,l mean,l min,l max,l missing,o length,shop_id=0" {
		t.Fatal(got)
	}
	for i, e := range events {
		x, err := s.Encode(row(s, e), nil)
		if err != nil {
			t.Fatal(err)
		}
		n := float32(i % 5)
		want := []float32{n * (n - 1) / 2 * float32(i), (n - 1) / 2 * float32(i), 0, (n - 1) * float32(i), 0, n}
		if n == 0 { // no sum, and so on; a length
			want = []float32{0, 0, 0, 0, half, 0}
			for k, m := range s.Fields[0].Means {
				want[k] = float32(m)
			}
		}
		if !slices.Equal(x.Val[:6], want) {
			t.Fatalf("event %d: %v, want %v", i, x.Val[:6], want)
		}
	}
	// Many names in lists are hashed, as those in fields are; ids are left out.
	for distinct, want := range map[int]Type{30: Tags, 150: Tags, 1 << 20: Ignore} {
		var events [][]NamedCell
		for i := range 1000 {
			l := list(text(fmt.Sprint("s", i*7919%distinct)), text(fmt.Sprint("s", (i*7919+500_000)%distinct)))
			l.Name = "l"
			events = append(events, []NamedCell{l, {Name: "zz", Cell: num(1)}})
		}
		s, err := Infer(events, Spec{})
		if err != nil {
			t.Fatal(err)
		}
		if f := &s.Fields[0]; f.Type != want || (f.Hash > 0) != (distinct == 150) {
			t.Errorf("%d names in lists: %s, hashed into %d", distinct, f.Type, f.Hash)
		}
	}
	for _, c := range []NamedCell{list(text("x")), list(num(math.MaxFloat64)), list(num(3e38), num(3e38)), {Cell: num(1)}} {
		c.Name = "l"
		if _, err := s.Encode(row(s, []NamedCell{c}), nil); err == nil {
			t.Errorf("%v is encoded", c.Items)
		}
	}
}

// TestNoTimes: times that stand for none are missing, and neither parts nor ages.
func TestNoTimes(t *testing.T) {
	none := []string{"9999-12-31T23:59:59Z", "0001-01-01 00:00:00", "0000-00-00", "Dec 31, 9999", "1970-01-01T00:00:00Z"}
	s, list := inferred(t, 400, "ended", func(i int) Cell {
		if i%10 < len(none) {
			return text(none[i%10])
		}
		return text(fmt.Sprintf("2026-03-%02dT10:00:00Z", 1+i%28))
	})
	f := &s.Fields[0]
	if f.Type != Timestamp || len(f.Nulls) != len(none) || !slices.Equal(f.Parts, []string{"hour", "weekday"}) {
		t.Fatalf("%s, nulls %q, parts %v", f.Type, f.Nulls, f.Parts)
	}
	for i, e := range list {
		x, err := s.Encode(row(s, e), nil)
		if missing := x.Val[4] != 0; err != nil || missing != (i%10 < len(none)) {
			t.Fatalf("%s is %v, %v", e[0].Cell.Text, x.Val, err)
		}
	}
	// A field that has had no value keeps all parts.
	s, err := Infer(list, Spec{Features: map[string]Field{"later": {Type: Timestamp}, "zz": {}}})
	if err != nil || !slices.Equal(s.Fields[0].Parts, []string{"hour", "weekday"}) {
		t.Errorf("%v, %v", s.Fields, err)
	}
}

// TestCentered: in sparse vectors, numbers far from 0 are less their means, others are not.
func TestCentered(t *testing.T) {
	var list [][]NamedCell
	for i := range 1000 {
		e := []NamedCell{
			{Name: "pressure", Cell: num(1000 + float64(i%40))}, {Name: "amount", Cell: num(math.Exp(float64(i%90) / 10))}, {Name: "ok", Cell: flag(1)},
			{Name: "body", Cell: text(fmt.Sprintf("one two three %d and %d", i, i*7))},
		}
		if i%10 == 0 {
			e = e[1:]
		}
		list = append(list, e)
	}
	s, err := Infer(list, Spec{})
	if err != nil {
		t.Fatal(err)
	}
	again, err := Parse(s.String())
	if err != nil {
		t.Fatal(err)
	}
	for i, e := range list {
		x, err := again.Encode(row(again, e), nil)
		dense := make([]float32, s.Dim())
		x.Dense(dense)
		from, _, means := s.Range(3)
		want := float32(1000 + float64(i%40) - s.Fields[3].Means[0])
		if i%10 == 0 {
			want = 0
		}
		amount := e[len(e)-3].Cell.Num
		if err != nil || x.Idx == nil || dense[from] != want || means[0] != 0 || dense[0] != float32(amount) {
			t.Fatalf("event %d: %v, want %v; amount %v, %v", i, dense[from], want, dense[0], err)
		}
	}
	if h := NewHistogram(s); true {
		x, _ := s.Encode(row(s, list[39]), nil)
		h.Add(x)
		if got := s.Fields[3].bin(x, len(s.Fields[3].Quantiles)+2); got != len(s.Fields[3].Quantiles) {
			t.Errorf("the largest number is in bin %d", got)
		}
	}
}

// TestNumberLists: numbers in a text are as those in a list are; names that hold numbers stay names.
func TestNumberLists(t *testing.T) {
	a, b := func(i int) float64 { return float64(i*7919%1000) / 100 }, func(i int) float64 { return float64(i*i%977) - 300 }
	pair := func(format string) func(i int) string {
		return func(i int) string { return fmt.Sprintf(format, a(i), b(i)) }
	}
	for name, tt := range map[string]struct {
		of    func(i int) string
		split string // of an array; empty is another type
	}{
		"comma":    {pair("%.2f,%g"), ","},
		"brackets": {pair("[%.2f, %g]"), ","},
		"braces":   {pair(" {%.2f;%g}"), ";"},
		"bar":      {pair("%.2f|%g"), "|"},
		"point":    {pair("SRID=4326;POINT(%.2f  %g)"), " "},
		"size":     {pair("%.2f x %g"), "x"},
		"pressure": {pair("%.2f/%g"), "/"},
		"missing": {func(i int) string {
			if i%3 == 0 {
				return []string{"", "n/a", "?"}[i%9/3]
			}
			return pair("%.2f,%g")(i)
		}, ","},
		"one":     {func(i int) string { return fmt.Sprintf("[%.2f]", a(i)) }, ""},
		"lengths": {func(i int) string { return "1.5" + strings.Repeat(fmt.Sprintf(",%g", a(i)), i%3) }, ""},
		"few":     {func(i int) string { return pair("%.2f,%g")(i % 40) }, ""},
		"a word":  {pair("%.2f,%gm"), ""},
		"an id":   {func(i int) string { return fmt.Sprintf("2026/%d", 5000+i) }, ""},
		"codes":   {func(i int) string { return fmt.Sprintf("%04d/%02d", i*7919%1000, i%89) }, ""},
		"decimal": {func(i int) string { return strings.Replace(fmt.Sprintf("%.2f", a(i)), ".", ",", 1) }, ""},
		"a phone": {func(i int) string { return fmt.Sprintf("0%d %d", 30+i%50, 100000+i*i*7919%899981) }, ""},
		"a card": {func(i int) string {
			return fmt.Sprintf("%d %d %d", 1000+i*7919%8999, 1000+i*i*31%8999, 1000+i*i*7%8999)
		}, ""},
		"addresses": {func(i int) string { return fmt.Sprintf("10.0.%d.%d", i%200, i*7919%251) }, ""},
	} {
		s, list := inferred(t, 1000, "v", func(i int) Cell { return text(tt.of(i)) })
		if f := &s.Fields[0]; (f.Type == Array) != (tt.split != "") || f.Type == Array && (f.Split != tt.split || len(f.Means) != 2) {
			t.Errorf("%s: %s, split %q, %d numbers", name, f.Type, f.Split, len(f.Means))
			continue
		}
		if tt.split == "" {
			continue
		}
		same, _ := inferred(t, 1000, "v", func(i int) Cell { return Cell{Kind: Null} })
		same.Fields[0] = s.Fields[0]
		if same.Fields[0].Split = ""; same.place() != nil {
			t.Fatal(name)
		}
		for i, e := range list {
			x, err := s.Encode(row(s, e), nil)
			r := row(same, e)
			if r.Cells[0] = (Cell{Kind: List, From: int32(len(r.Items)), To: int32(len(r.Items) + 2)}); name == "missing" && i%3 == 0 {
				r.Cells[0] = Cell{Kind: Null}
			}
			r.Items = append(r.Items, num(math.Round(a(i)*100)/100), num(b(i)))
			want, err2 := same.Encode(r, nil)
			if err != nil || err2 != nil || !slices.Equal(x.Val, want.Val) {
				t.Fatalf("%s: %q is %v (%v), want %v (%v)", name, e[0].Cell.Text, x.Val, err, want.Val, err2)
			}
		}
	}
}

// TestSplit: lists in a text are as lists are; texts with separators that are no lists stay as they are.
func TestSplit(t *testing.T) {
	genres := []string{"action", "comedy", "drama", "film noir", "war", "western"}
	several := func(i int) (some []string) {
		for k, g := range genres {
			if (i*37+i/7)>>k&1 == 1 {
				some = append(some, g)
			}
		}
		return some
	}
	for name, tt := range map[string]struct {
		of    func(i int) string
		split string
		want  Type
	}{
		"bars":   {func(i int) string { return strings.Join(several(i), "|") }, "|", Tags},
		"commas": {func(i int) string { return strings.Join(several(i), ", ") }, ",", Tags},
		"cities": {func(i int) string { return fmt.Sprintf("city %d, %s", i%60, genres[i%60%6]) }, "", Categorical},
		"names":  {func(i int) string { return fmt.Sprintf("name %d, A. B.", i%300) }, "", Categorical},
		"one":    {func(i int) string { return genres[i%6] }, "", Categorical},
	} {
		s, list := inferred(t, 1000, "v", func(i int) Cell { return text(tt.of(i)) })
		f := &s.Fields[0]
		if f.Type != tt.want || f.Split != tt.split {
			t.Errorf("%s: %s, split %q", name, f.Type, f.Split)
			continue
		}
		if tt.split == "" {
			continue
		}
		for i, e := range list {
			x, err := s.Encode(row(s, e), nil)
			for k, g := range f.Categories {
				if want := slices.Contains(several(i), g); err != nil || (x.Val[k] != 0) != want {
					t.Fatalf("%s: %q is %v, %v", name, e[0].Cell.Text, x.Val, err)
				}
			}
		}
	}
}

// TestNames: whole numbers are categories if they say more of the labels than their size does.
func TestNames(t *testing.T) {
	const n = 1000
	rng := rand.New(rand.NewSource(11))
	rate := make([]float64, n)
	for i := range rate {
		rate[i] = []float64{0.1, 0.9}[rng.Intn(2)]
	}
	chance := func(p float64) Cell { return flag(map[bool]float64{true: 1}[rng.Float64() < p]) }
	class := func(v int) Cell { return text([]string{"low", "mid", "high"}[int(2*rate[v]+1.2*rng.Float64())]) }
	among := func(m int) func(i int) int { return func(int) int { return 100 + rng.Intn(m) } }
	for name, tt := range map[string]struct {
		n     int
		value func(i int) int
		label func(v int) Cell
		want  Type
		hash  int
	}{
		"shops":              {n, among(20), func(v int) Cell { return chance(rate[v]) }, Categorical, 0},
		"customers":          {n, among(200), func(v int) Cell { return chance(rate[v]) }, Categorical, manyHash},
		"long numbers":       {n, func(int) int { return 123_456_700 + rng.Intn(20) }, func(v int) Cell { return chance(rate[v%n]) }, Categorical, 0},
		"too many":           {n, func(i int) int { return i * 7 % 401 }, func(v int) Cell { return chance(rate[v]) }, Numeric, 0},
		"few records":        {60, func(i int) int { return i * 7 % 20 }, func(v int) Cell { return chance(0.15 + 0.7*float64(v%2)) }, Numeric, 0},
		"a little":           {10 * n, among(20), func(v int) Cell { return chance(0.425 + 0.15*float64(v%2)) }, Numeric, 0},
		"three classes":      {n, among(20), class, Categorical, 0},
		"a number":           {n, among(20), func(v int) Cell { return num(20*rate[v] + rng.ExpFloat64()) }, Categorical, 0},
		"a number, by size":  {n, among(200), func(v int) Cell { return num(float64(v) + 50*rng.NormFloat64()) }, Numeric, 0},
		"a limit":            {n, among(200), func(v int) Cell { return chance(map[bool]float64{true: 0.95, false: 0.05}[v > 215]) }, Numeric, 0},
		"a hill":             {n, among(200), func(v int) Cell { return chance(1 - math.Abs(float64(v-200))/100) }, Numeric, 0},
		"nothing":            {n, among(50), func(int) Cell { return chance(0.3) }, Numeric, 0},
		"sessions":           {n, func(i int) int { return i / 10 }, func(v int) Cell { return chance(rate[v]) }, Numeric, 0},
		"no labels":          {n, among(20), func(int) Cell { return Cell{Kind: Null} }, Numeric, 0},
		"texts, all another": {n, among(20), func(v int) Cell { return text(fmt.Sprint("t", rng.Int())) }, Numeric, 0},
	} {
		for kind, cell := range map[string]func(v int) Cell{"": func(v int) Cell { return num(float64(v)) }, " in texts": func(v int) Cell { return text(fmt.Sprint(v)) }} {
			rng = rand.New(rand.NewSource(12))
			var events [][]NamedCell
			for i := range tt.n {
				v := tt.value(i)
				events = append(events, []NamedCell{{Name: "v", Cell: cell(v)}, {Name: "out", Cell: tt.label(v)}})
			}
			s, err := Infer(events, Spec{Label: "out"})
			if err != nil {
				t.Fatal(err)
			}
			if f := &s.Fields[0]; f.Type != tt.want || f.Hash != tt.hash {
				t.Errorf("%s%s: %s, hashed into %d", name, kind, f.Type, f.Hash)
			}
			if s, err = Infer(events, Spec{Label: "out", Features: map[string]Field{"v": {Type: Numeric}}}); err != nil || s.Fields[0].Type != Numeric {
				t.Errorf("%s%s: numeric is not kept: %v", name, kind, err)
			}
		}
	}
}

// TestIDs: whole numbers that are all different are ids by their name, or if they follow the order
// of the records, or if they are spread evenly and say nothing of the labels.
func TestIDs(t *testing.T) {
	const n = 1200
	for name, tt := range map[string]struct {
		field string
		n     int
		value func(i int, rng *rand.Rand) float64
		label func(v float64, rng *rand.Rand) Cell
		want  Type
	}{
		"amounts":           {"v", n, func(_ int, rng *rand.Rand) float64 { return math.Round(math.Exp(10 + 2*rng.NormFloat64())) }, nil, Numeric},
		"times":             {"v", n, func(_ int, rng *rand.Rand) float64 { return math.Round(1e7 + 1e6*rng.NormFloat64()) }, nil, Numeric},
		"named":             {"v_id", n, func(_ int, rng *rand.Rand) float64 { return math.Round(math.Exp(10 + 2*rng.NormFloat64())) }, nil, Ignore},
		"even":              {"v", n, func(int, *rand.Rand) float64 { return 0 }, nil, Ignore},
		"even, few":         {"v", 900, func(int, *rand.Rand) float64 { return 0 }, nil, Numeric},
		"even, with labels": {"v", n, func(int, *rand.Rand) float64 { return 0 }, func(_ float64, rng *rand.Rand) Cell { return num(rng.Float64()) }, Ignore},
		"even, telling": {"v", n, func(int, *rand.Rand) float64 { return 0 }, func(v float64, rng *rand.Rand) Cell {
			return flag(map[bool]float64{true: 1}[v > 1e8*(4+2*rng.Float64())])
		}, Numeric},
		"rising, with gaps": {"v", n, func(i int, rng *rand.Rand) float64 { return 1e6 + float64(i*i) }, nil, Ignore},
		"falling":           {"v", n, func(i int, rng *rand.Rand) float64 { return 1e9 - float64(i*i) }, nil, Ignore},
		"rising, nearly":    {"v", n, func(i int, rng *rand.Rand) float64 { return 1e6 + math.Pow(float64(i+rng.Intn(300)), 3) }, nil, Ignore},
		"consecutive":       {"v", 120, func(i int, rng *rand.Rand) float64 { return float64(i * 7 % 120) }, func(v float64, _ *rand.Rand) Cell { return flag(map[bool]float64{true: 1}[v > 60]) }, Ignore},
	} {
		for unit, cell := range map[string]func(v float64) Cell{"": num, " EUR": func(v float64) Cell { return text(fmt.Sprintf("%.0f EUR", v)) }} {
			rng, seen := rand.New(rand.NewSource(3)), map[float64]bool{}
			var events [][]NamedCell
			for i := range tt.n {
				v := tt.value(i, rng)
				for v == 0 && i > 0 || seen[v] {
					if v++; strings.HasPrefix(name, "even") {
						v = float64(1 + rng.Intn(1e9))
					}
				}
				seen[v] = true
				label := Cell{Kind: Null}
				if tt.label != nil {
					label = tt.label(v, rng)
				}
				events = append(events, []NamedCell{{Name: tt.field, Cell: cell(v)}, {Name: "out", Cell: label}, {Name: "x", Cell: num(float64(i % 3))}})
			}
			s, err := Infer(events, Spec{Label: "out"})
			if err != nil {
				t.Fatal(err)
			}
			if f := &s.Fields[0]; f.Type != tt.want {
				t.Errorf("%s%s: %s, want %s", name, unit, f.Type, tt.want)
			}
		}
	}
}
