package codec

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"testing"

	"github.com/streamsvm/streamsvm/stream"
)

// discovered returns the codec for records that are all that there is.
func discovered(t *testing.T, name string, o Options, records []string) (Codec, Options) {
	t.Helper()
	o.Labels, o.Events = Auto, cmp.Or(o.Events, Auto)
	d, err := NewDiscovery(name, o)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range records {
		if d.Look([]byte(r)) {
			break
		}
	}
	found, err := d.Decide()
	if err != nil {
		t.Fatal(err)
	}
	c, err := New(name, found)
	if err != nil {
		t.Fatalf("%v: %+v", err, found)
	}
	return c, found
}

// TestTopics: records as people have them can all be read, with what is found
// out about them.
func TestTopics(t *testing.T) {
	rng := rand.New(rand.NewSource(1))
	country := func() string { return []string{"DE", "FR", "US", "BR"}[rng.Intn(4)] }
	for _, c := range []struct {
		name, codec, label string
		record             func(i int) string
		labels             string
		dim                int
	}{
		{"flat", "json", "is_fraud", func(i int) string {
			return fmt.Sprintf(`{"user_id":"u%d","amount":%.2f,"country":%q,"hour":%d,"is_fraud":%v}`, i, rng.Float64()*100, country(), rng.Intn(24), i%3 == 0)
		}, "false,true", 1 + 5 + 1},
		{"named x", "json", "", func(i int) string {
			return fmt.Sprintf(`{"x":{"amount":%.2f,"country":%q},"y":%d}`, rng.Float64()*100, country(), 2*(i%2)-1)
		}, "-1,1", 1 + 5},
		{"named numbers", "json", "", func(i int) string {
			return fmt.Sprintf(`{"x":{"amount":%.2f,"hour":%d},"y":%d}`, rng.Float64()*100, rng.Intn(24), 2*(i%2)-1)
		}, "-1,1", 2},
		{"features", "json", "", func(i int) string {
			return fmt.Sprintf(`{"features":[%.2f,%.2f],"label":%d}`, rng.Float64(), rng.Float64(), 2*(i%2)-1)
		}, "-1,1", 2},
		{"01", "json", "", func(i int) string { return fmt.Sprintf(`{"x":[%.2f,1],"y":%d}`, rng.Float64(), i%2) }, "0,1", 0},
		{"bools", "json", "", func(i int) string { return fmt.Sprintf(`{"x":[%.2f,1],"y":%v}`, rng.Float64(), i%2 == 0) }, "false,true", 0},
		{"words", "json", "", func(i int) string {
			return fmt.Sprintf(`{"x":[%.2f,1],"y":%q}`, rng.Float64(), []string{"ham", "spam"}[i%2])
		}, `"ham","spam"`, 0},
		{"null", "json", "", func(i int) string {
			if i%4 == 0 {
				return fmt.Sprintf(`{"x":[null,%d],"y":%d}`, rng.Intn(9), 2*(i%2)-1)
			}
			return fmt.Sprintf(`{"x":[%.2f,%d],"y":%d}`, rng.Float64(), rng.Intn(9), 2*(i%2)-1)
		}, "-1,1", 3},
		{"flat numbers", "json", "", func(i int) string {
			return fmt.Sprintf(`{"x1":%.2f,"x2":%.2f,"y":%d}`, rng.Float64(), rng.Float64(), 2*(i%2)-1)
		}, "-1,1", 2},
		{"csv", "csv", "", func(i int) string { return fmt.Sprintf("%.2f,%s,%v", rng.Float64(), country(), i%2 == 0) }, "false,true", 1 + 5},
		{"csv numbers", "csv", "a,b,y", func(i int) string { return fmt.Sprintf("%.2f,%d,%d", rng.Float64(), rng.Intn(9), 2*(i%2)-1) }, "-1,1", 0},
		{"csv with a code", "csv", "a,shop_id,y", func(i int) string { return fmt.Sprintf("%.2f,%d,%d", rng.Float64(), 1000+i%8, 2*(i%2)-1) }, "-1,1", 1 + 8 + 1},
		{"csv with a time", "csv", "a,paid_at,y", func(i int) string { return fmt.Sprintf("%.2f,%d,%d", rng.Float64(), 1700000000+i, 2*(i%2)-1) }, "-1,1", 1 + 4},
		{"libsvm words", "libsvm", "", func(i int) string {
			return fmt.Sprintf("%s 1:%.2f", []string{"no", "yes"}[i%2], rng.Float64())
		}, `"no","yes"`, 0},
		{"debezium", "json", "fraud", func(i int) string {
			return fmt.Sprintf(`{"schema":{"type":"struct"},"payload":{"before":null,"after":{"amount":%.2f,"fraud":%d},"op":"c","ts_ms":1}}`, rng.Float64(), i%2)
		}, "0,1", 1},
		{"debezium in a payload", "json", "fraud", func(i int) string {
			return fmt.Sprintf(`{"payload":{"before":null,"after":{"amount":%.2f,"fraud":%d},"op":"c"}}`, rng.Float64(), i%2)
		}, "0,1", 1},
		{"cloudevents", "json", "fraud", func(i int) string {
			return fmt.Sprintf(`{"specversion":"1.0","id":"%d","data":{"amount":%.2f,"fraud":%d}}`, i, rng.Float64(), i%2)
		}, "0,1", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := Options{Label: c.label}
			if c.codec == "csv" {
				o = Options{CSV: CSVOptions{LabelColumn: "last"}}
				if c.label != "" {
					o.CSV.Columns = strings.Split(c.label, ",")
				}
			}
			var records []string
			for i := range 1200 {
				records = append(records, c.record(i))
			}
			dec, found := discovered(t, c.codec, o, records)
			if found.Labels != c.labels {
				t.Errorf("labels %s, want %s", found.Labels, c.labels)
			}
			if (found.Schema != "") != (c.dim > 0) {
				t.Fatalf("schema %s", found.Schema)
			}
			for _, r := range records {
				var ex stream.Example
				if err := dec.Decode([]byte(r), &ex); err != nil {
					t.Fatalf("%s: %v", r, err)
				}
				if !ex.Labelled || c.dim > 0 && ex.X.Dim() != c.dim {
					t.Fatalf("%s: %+v, want %d features; %s", r, ex, c.dim, found.Schema)
				}
			}
			// The order of records makes no difference.
			again := slices.Clone(records[:SampleSize])
			rng.Shuffle(len(again), func(i, j int) { again[i], again[j] = again[j], again[i] })
			if _, other := discovered(t, c.codec, o, again); found.Schema != "" && other.Schema != found.Schema {
				t.Errorf("in another order the schema is\n%s\nnot\n%s", other.Schema, found.Schema)
			}
		})
	}
}

// TestOneLabel: where only one label is reported, the sample does not wait for another one.
func TestOneLabel(t *testing.T) {
	for _, missing := range []string{"none", ""} {
		for _, later := range []bool{true, false} {
			d, err := NewDiscovery("json", Options{Labels: Auto, Events: Auto, Label: "y", LabelsField: "y", LaterLabels: later, Unlabelled: !later, MissingLabel: missing})
			if err != nil {
				t.Fatal(err)
			}
			enough := false
			for i := 0; i < 2*SampleSize && !enough; i++ {
				rec := &stream.Record{Value: fmt.Appendf(nil, `{"id":%d,"amount":%d}`, i, i%7)}
				if enough, err = d.LookRecord(t.Context(), rec); err != nil {
					t.Fatal(err)
				}
				rec.Value = fmt.Appendf(nil, `{"id":%d,"amount":%d,"y":"click"}`, i, i%7)
				if later {
					_, err = d.LookRecord(t.Context(), rec)
				} else {
					_, err = d.LookLabel(t.Context(), rec)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			o, err := d.Decide()
			switch {
			case enough != (missing != ""):
				t.Errorf("missing %q, later %v: enough %v", missing, later, enough)
			case missing != "" && (err != nil || o.Labels != `"click","none"`):
				t.Errorf("missing %q, later %v: labels %s, %v", missing, later, o.Labels, err)
			case missing == "" && (err == nil || !strings.Contains(err.Error(), "--missing-label")):
				t.Errorf("later %v: %v does not name --missing-label", later, err)
			}
		}
	}
}

// TestNoLabel: an error names the fields that may hold the label.
func TestNoLabel(t *testing.T) {
	d, err := NewDiscovery("json", Options{Labels: Auto, Events: Auto})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		d.Look(fmt.Appendf(nil, `{"amount":%d.5,"is_fraud":%v}`, i, i%9 == 0))
	}
	if _, err := d.Decide(); err == nil || !strings.Contains(err.Error(), "is_fraud (false, true)") {
		t.Errorf("got %v", err)
	}
}

// TestDots: a path of many dots does not take for ever, and is found.
func TestDots(t *testing.T) {
	long := strings.Repeat("a.", 60) + "a"
	record := func(y int) string { return fmt.Sprintf(`{%q:%d,"b.c":{"d":{"e.f":2}},"y":%d}`, long, y+5, y) }
	c, o := discovered(t, "json", Options{}, []string{record(0), record(1), record(0), record(1)})
	var ex stream.Example
	if err := c.Decode([]byte(record(1)), &ex); err != nil || len(ex.X.Val) != 2 || ex.X.Val[0] != 6 || ex.X.Val[1] != 2 {
		t.Errorf("%+v, %v by %s", ex, err, o.Schema)
	}
}

// TestWideAndLong: sparse vectors of many features are vectors, whatever their
// labels, and a label that comes late is found, without all records between being
// kept.
func TestWideAndLong(t *testing.T) {
	var b strings.Builder
	b.WriteString(`{"x":{"1":1`)
	for j := range 20000 {
		fmt.Fprintf(&b, `,"%d":2`, 3*j+2)
	}
	wide := b.String() + `},"y":%d}`
	if _, o := discovered(t, "json", Options{}, []string{fmt.Sprintf(wide, 0), fmt.Sprintf(wide, 1)}); o.Schema != "" || o.Labels != "0,1" {
		t.Errorf("wide: labels %s, schema %.80s", o.Labels, o.Schema)
	}
	for name, c := range map[string]struct {
		codec, often, late, labels string
		o                          Options
	}{
		"vectors":  {"json", `{"x":[1,2],"y":"ok"}`, `{"x":[1,2],"y":"bad"}`, `"bad","ok"`, Options{}},
		"events":   {"json", `{"a":1,"o":{"l":"ok"}}`, `{"a":1,"o":{"l":"bad"}}`, `"bad","ok"`, Options{Label: "o.l"}},
		"envelope": {"json", `{"specversion":"1.0","data":{"a":1,"y":"ok"}}`, `{"specversion":"1.0","data":{"a":1,"y":"bad"}}`, `"bad","ok"`, Options{}},
		"csv":      {"csv", "red,ok", "red,bad", `"bad","ok"`, Options{CSV: CSVOptions{LabelColumn: "2"}}},
	} {
		c.o.Labels, c.o.Events = Auto, Auto
		d, err := NewDiscovery(c.codec, c.o)
		if err != nil {
			t.Fatal(err)
		}
		n := 1
		for ; !d.Look([]byte(map[bool]string{true: c.late, false: c.often}[n == 5000])); n++ {
		}
		if o, err := d.Decide(); err != nil || o.Labels != c.labels || n != 5000 || len(d.events) > SampleSize {
			t.Errorf("%s: labels %s after %d records, %d kept, %v", name, o.Labels, n, len(d.events), err)
		}
	}
}

// TestNumberLabels: a pair of which both numbers come is not taken for another of
// which one is missing.
func TestNumberLabels(t *testing.T) {
	for want, counts := range map[string]map[float64]int{
		"-1,1":  {-1: 10, 1: 990},
		"0,1":   {0: 1, 1: 999},
		"1,2":   {1: 1, 2: 999},
		"-1,1 ": {1: 20},
		"0,1 ":  {0: 1000, 7: 5},
		"0,1,2": {0: 300, 1: 300, 2: 300},
	} {
		l := labelSet{numbers: counts}
		if got, err := l.decide(false); err != nil || got != strings.TrimSpace(want) {
			t.Errorf("%v: %s, %v, want %s", counts, got, err, want)
		}
	}
}

// TestManyLabels: with more texts than classes, an error names the flags with which they are classes.
func TestManyLabels(t *testing.T) {
	l := labelSet{texts: map[string]int{}}
	for i := range mostClasses {
		l.texts[fmt.Sprint("t", i)] = 1
	}
	if got, err := l.decide(false); err != nil || strings.Count(got, ",") != mostClasses-1 {
		t.Errorf("%s, %v", got, err)
	}
	l.texts["one more"] = 1
	if _, err := l.decide(false); err == nil || !strings.Contains(err.Error(), "--labels") || !strings.Contains(err.Error(), "--max-classes") {
		t.Errorf("%v", err)
	}
}

// TestSmallSamples: whether some records will do if no more come, and which cannot be
// read at all.
func TestSmallSamples(t *testing.T) {
	event := func(i int) string { return fmt.Sprintf(`{"amount":%d,"bad":%v}`, i, i%2 == 0) }
	for _, c := range []struct {
		what, codec string
		o           Options
		record      func(i int) string
		usable      int  // after how many records; 0 never
		refused     bool // all records
	}{
		{"events", "json", Options{Label: "bad"}, event, 20, false},
		{"label not named", "json", Options{}, event, 20, false}, // the error says which fields may hold it
		{"one label so far", "json", Options{Label: "bad"}, func(int) string { return event(0) }, 0, false},
		{"no label so far", "json", Options{}, func(int) string { return `{"x":[1,2]}` }, 0, false},
		{"one label of a regression", "json", Options{Label: "bad", Task: "regress"}, func(int) string { return event(0) }, 20, false},
		{"every other record", "json", Options{Label: "bad"}, func(i int) string { return []string{event(i / 2), "?"}[i%2] }, 39, false},
		{"libsvm as json", "json", Options{}, func(int) string { return "+1 1:0.5" }, 0, true},
		{"libsvm as vectors in json", "json", Options{Events: "none"}, func(int) string { return "+1 1:0.5" }, 0, true},
		{"json as libsvm", "libsvm", Options{}, event, 0, true},
		{"json as msgpack", "msgpack", Options{}, event, 0, true},
		{"words", "libsvm", Options{}, func(i int) string { return fmt.Sprintf("%s 1:0.5", []string{"no", "yes"}[i%2]) }, 20, false},
	} {
		c.o.Labels = Auto
		switch c.o.Events {
		case "":
			c.o.Events = Auto
		case "none":
			c.o.Events = ""
		}
		d, err := NewDiscovery(c.codec, c.o)
		if err != nil {
			t.Fatal(err)
		}
		usable := 0
		for i := range 60 {
			d.Look([]byte(c.record(i)))
			if usable == 0 && d.Usable() {
				usable = i + 1
			}
		}
		n, err := d.Refused()
		if usable != c.usable || (n == 60) != c.refused || (err != nil) != c.refused {
			t.Errorf("%s: usable after %d, want %d; %d refused: %v", c.what, usable, c.usable, n, err)
		}
	}
}

// TestQuotedTarget: the number to predict may be in a text, with nothing else.
func TestQuotedTarget(t *testing.T) {
	c := must(t, "json", Options{Task: "regress", Schema: `{"label":"price","fields":[{"name":"a","type":"numeric","means":[0],"gaps":[false]}]}`})
	for value, want := range map[string]float64{`{"a":1,"price":"-12.5"}`: -12.5, `{"a":1,"price":12.5}`: 12.5} {
		var ex stream.Example
		if err := c.Decode([]byte(value), &ex); err != nil || !ex.Labelled || ex.Y != want {
			t.Errorf("%s: %+v, %v", value, ex, err)
		}
	}
	var wrong *stream.FieldError
	if err := c.Decode([]byte(`{"a":1,"price":"$12"}`), new(stream.Example)); !errors.As(err, &wrong) || wrong.Field != "price" || wrong.Stage != stream.StageLabel {
		t.Errorf("$12: %v", err)
	}
}

// TestNested: objects in texts are as objects are, and the values of objects in lists as lists.
func TestNested(t *testing.T) {
	c := must(t, "json", Options{Task: "regress", Schema: `{"label":"y","fields":[{"name":"l","type":"length","means":[0],"gaps":[false]},
		{"name":"l.v","type":"summary","means":[0,0,0,0],"gaps":[false]},{"name":"p.a","type":"numeric","means":[0],"gaps":[false]}]}`})
	long := func(n int) string { return `{"y":1,"l":[` + strings.Repeat(`{"v":1},`, n-1) + `{"v":1}]}` }
	for value, want := range map[string][]float32{
		`{"y":1,"p":{"a":7}}`: {0, 0, 0, 0, 0, 7}, `{"y":1,"p.a":7}`: {0, 0, 0, 0, 0, 7}, `{"y":1,"p":" {\"a\": 7}"}`: {0, 0, 0, 0, 0, 7},
		`"{\"y\":1,\"p\":\"{\\\"a\\\":7}\"}"`: {0, 0, 0, 0, 0, 7}, `{"y":1,"p":"{\"a\": 7"}`: make([]float32, 6),
		`{"y":1,"l":[{"v":1},{"v":3},{}]}`: {3, 4, 2, 1, 3, 0}, `{"y":1,"l":3,"l.v":[1,3]}`: {3, 4, 2, 1, 3, 0}, `{"y":1,"l":[]}`: make([]float32, 6),
		`{"y":1,"l":[` + strings.Repeat("0,", 8192) + `0]}`: nil, long(8192): {8192, 8192, 1, 1, 1, 0}, long(8193): nil, `{"y":1,"l":[{"v":1,"v":1}]}`: nil, `{"y":1,"l":[{"v":1}],"l.v":[1]}`: nil, `{"y":1,"p":{"a":7},"p.a":7}`: nil,
	} {
		var ex stream.Example
		if err := c.Decode([]byte(value), &ex); (err == nil) != (want != nil) || err == nil && !slices.Equal(ex.X.Val, want) {
			t.Errorf("%.60s: %v, want %v, %v", value, ex.X.Val, want, err)
		}
	}
}
