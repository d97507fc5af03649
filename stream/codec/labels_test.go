package codec

import (
	"bytes"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/streamsvm/streamsvm/stream"
)

func TestParseLabels(t *testing.T) {
	for s, want := range map[string][2]any{
		"": {-1., 1.}, "pm1": {-1., 1.}, "01": {0., 1.}, "12": {1., 2.}, "-1,+1": {-1., 1.}, "1,0": {1., 0.}, "0.5,2e3": {.5, 2000.},
		"false,true": {false, true}, "true,false": {true, false}, "False,True": {"False", "True"}, "no,yes": {"no", "yes"},
		`"0","1"`: {"0", "1"}, `"a,b","c"`: {"a,b", "c"}, `"true","no"`: {"true", "no"}, "nan,inf": {"nan", "inf"},
	} {
		got, err := ParseClasses(s)
		if err != nil || !slices.Equal(got, want[:]) {
			t.Errorf("%q: %v, %v, want %v", s, got, err, want)
			continue
		}
		l, _ := parseLabels(s)
		if got, err = ParseClasses(l.String()); err != nil || !slices.Equal(got, want[:]) {
			t.Errorf("%q in full is %s: %v, %v", s, l.String(), got, err)
		}
	}
	for _, s := range []string{"0", "0,0", "1,1.0", "-0,0", "no,", ",", "no,1", "true,1", "?,a", "a,b c\n", `a,"`, "1e999,1", "\xff,a"} {
		if got, err := ParseClasses(s); err == nil {
			t.Errorf("%q was accepted: %v", s, got)
		}
	}
}

// TestLabelsInAllForms: labels of every kind are written and read again, and
// others are refused.
func TestLabelsInAllForms(t *testing.T) {
	for _, set := range []string{"01", "-40,500", "0.25,0.75", "false,true", "yes,no", `"0","1"`} {
		for _, name := range Names() {
			o := Options{Labels: set, CSV: CSVOptions{LabelColumn: "first"}}
			c := must(t, name, o)
			other := Options{Labels: "vrai,faux", CSV: o.CSV}
			for _, y := range []float64{-1, 1} {
				ex := stream.Example{X: dense(1.5, 2.5), Y: y, Labelled: true}
				b, err := c.Append(nil, &ex)
				if err != nil {
					t.Fatalf("%s, %s: %v", name, set, err)
				}
				var got stream.Example
				if err := c.Decode(b, &got); err != nil || got.Y != y || !got.Labelled {
					t.Errorf("%s, %s: %q becomes %+v, %v", name, set, b, got, err)
				}
				if err := must(t, name, other).Decode(b, &got); err == nil {
					t.Errorf("%s: %q was accepted as vrai or faux", name, b)
				}
				if set == "01" || strings.HasPrefix(set, `"`) && name != "json" && name != "msgpack" {
					continue // a text without quotes may be a number
				}
				if err := must(t, name, Options{Labels: "12", CSV: o.CSV}).Decode(b, &got); err == nil {
					t.Errorf("%s: %q was accepted as 1 or 2", name, b)
				}
			}
			ex := stream.Example{X: dense(1.5, 2.5)}
			b, err := c.Append(nil, &ex)
			if err != nil {
				t.Fatal(err)
			}
			var got stream.Example
			if err := c.Decode(b, &got); err != nil || got.Labelled {
				t.Errorf("%s, %s: %q becomes %+v, %v", name, set, b, got, err)
			}
		}
	}
	if _, err := New("libsvm", Options{Labels: "not so,so"}); err == nil {
		t.Error("libsvm takes a label with a blank")
	}
	if _, err := New("csv", Options{Labels: `"a,b","c"`}); err == nil {
		t.Error("csv takes a label with a comma")
	}
}

// TestWordsAlone: on a topic of labels they may stand alone.
func TestWordsAlone(t *testing.T) {
	dec, err := NewLabels(Options{Labels: "no,yes"})
	if err != nil {
		t.Fatal(err)
	}
	for value, want := range map[string]float64{"no": -1, " yes\r\n": 1, `"yes"`: 1, `{"y":"no"}`: -1, "1": 0, `"yes" x`: 0, "yess": 0, `{"y":1}`: 0} {
		var ex stream.Example
		if err := dec.Decode([]byte(value), &ex); (err == nil) != (want != 0) || ex.Y != want {
			t.Errorf("%q: %+v, %v", value, ex, err)
		}
	}
}

// TestColumnsByName: the columns of a file may be in any order, and others
// among them.
func TestColumnsByName(t *testing.T) {
	names := []string{"a", "b", "c", "class"}
	record := map[string]string{"a": "1", "b": "2", "c": "3", "class": "1", "x": "no number", "y": ""}
	r := rand.New(rand.NewPCG(1, 1))
	for range 200 {
		columns := append([]string(nil), names...)
		for _, more := range []string{"x", "y"} {
			if r.IntN(2) == 0 {
				columns = append(columns, more)
			}
		}
		r.Shuffle(len(columns), func(i, j int) { columns[i], columns[j] = columns[j], columns[i] })
		c := must(t, "csv", Options{CSV: CSVOptions{Columns: columns, Features: names[:3], LabelColumn: "class", Dim: 3}})
		var fields []string
		for _, name := range columns {
			fields = append(fields, record[name])
		}
		line := strings.Join(fields, ",")
		var ex stream.Example
		if err := c.Decode([]byte(line), &ex); err != nil || !reflect.DeepEqual(ex.X.Val, []float32{1, 2, 3}) || ex.Y != 1 {
			t.Fatalf("%v %s: %+v, %v", columns, line, ex, err)
		}
		for _, bad := range []string{line + ",1", strings.Join(fields[1:], ",")} {
			if err := c.Decode([]byte(bad), &ex); err == nil || !strings.Contains(err.Error(), "fields, want") {
				t.Errorf("%v %s: %v", columns, bad, err)
			}
		}
	}
	_, err := New("csv", Options{CSV: CSVOptions{Columns: []string{"c", "a"}, Features: names[:3]}})
	if err == nil || !strings.Contains(err.Error(), `no column "b"`) {
		t.Errorf("a column that is missing: %v", err)
	}
}

// TestFeaturesAlone: where their number is known, a record may have them alone.
func TestFeaturesAlone(t *testing.T) {
	c := must(t, "csv", Options{CSV: CSVOptions{LabelColumn: "last", DropColumns: []string{"1"}, Dim: 2}})
	for line, want := range map[string]string{
		"id7,1,2,-1": "", "1,2": "", "1": "the last column", "7,1,2,3,-1": "5 fields, want 4, or the 2 features alone", "1,2,1": "3 fields, want 4",
	} {
		var ex stream.Example
		err := c.Decode([]byte(line), &ex)
		if want == "" && (err != nil || !reflect.DeepEqual(ex.X.Val, []float32{1, 2}) || ex.Labelled != strings.HasSuffix(line, "-1")) ||
			want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %+v, %v", line, ex, err)
		}
	}
}

func TestSignature(t *testing.T) {
	c := must(t, "csv", Options{Labels: "01", CSV: CSVOptions{Columns: []string{"id", "a", "y", "b"}, LabelColumn: "3", DropColumns: []string{"first"}}})
	s := SignatureOf(c)
	if s.Codec != "csv" || s.Labels != "0,1" || s.CSV.LabelColumn != "y" || !reflect.DeepEqual(s.Features(), []string{"a", "b"}) || s.Label(-1) != 0. || s.Label(1) != 1. {
		t.Errorf("%+v", s)
	}
	if s := SignatureOf(must(t, "json", Options{Task: "regress"})); s.Labels != "" || s.Label(2.5) != 2.5 || s.Features() != nil {
		t.Errorf("%+v", s)
	}
	s.Dim = 2
	if err := s.Check(dense(1, 2, 3)); err == nil || !strings.Contains(err.Error(), "3 features where the model has 2") {
		t.Error(err)
	}
	for _, x := range []stream.Vec{dense(1, 2), sparse([]int32{7}, 1)} {
		if err := s.Check(x); err != nil {
			t.Error(err)
		}
	}
	s.Dim, s.Index = 0, 2
	if err := s.Check(dense(1)); err == nil {
		t.Error("a dense vector that is shorter than the sparse ones were is accepted")
	}
	dec, err := NewLabels(Options{})
	if err != nil || SignatureOf(dec).Codec != "" {
		t.Error("a decoder of labels has a signature")
	}
	if b, err := c.Append(nil, &stream.Example{X: dense(1, 2), Y: -1, Labelled: true}); err != nil || !bytes.Equal(b, []byte(",1,0,2")) {
		t.Errorf("%s, %v", b, err)
	}
}

// FuzzWords decodes any value with labels that are no numbers, and columns by
// name.
func FuzzWords(f *testing.F) {
	var all []Codec
	for _, labels := range []string{"no,yes", "false,true"} {
		for _, name := range Names() {
			c, err := New(name, Options{Labels: labels, CSV: CSVOptions{LabelColumn: "first"}})
			if err != nil {
				f.Fatal(err)
			}
			all = append(all, c)
		}
	}
	named, err := New("csv", Options{CSV: CSVOptions{Columns: []string{"c", "y", "b", "x", "a"}, Features: []string{"a", "b", "c"}, LabelColumn: "y", Dim: 3}})
	if err != nil {
		f.Fatal(err)
	}
	for _, s := range []string{"yes 1:2", "no,1,2", `{"x":[1],"y":"yes"}`, `{"x":[1],"y":false}`, "\x82\xa1x\x91\x01\xa1y\xa2no", "\x82\xa1x\x91\x01\xa1y\xc3", "3,1,2,,1", "3,1,2,"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		for _, c := range all {
			decodeChecked(t, c, value)
		}
		var ex stream.Example
		if err := named.Decode(value, &ex); err == nil && len(ex.X.Val) != 3 || ex.X.CheckFinite() >= 0 {
			t.Errorf("%q: %+v", value, ex)
		}
	})
}

func TestParseClasses(t *testing.T) {
	for s, want := range map[string][]any{
		"01": {0., 1.}, "1,2,3": {1., 2., 3.}, "false,true": {false, true}, "c,a,b": {"c", "a", "b"},
		`"1","2","3"`: {"1", "2", "3"}, `"a,b","c","d"`: {"a,b", "c", "d"}, `a,"true",b`: {"a", "true", "b"},
	} {
		got, err := ParseClasses(s)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %v, %v, want %v", s, got, err, want)
			continue
		}
		l, _ := parseLabels(s)
		if got, err := ParseClasses(l.String()); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q in full is %s: %v, %v", s, l.String(), got, err)
		}
	}
	for _, s := range []string{"1,2,1", "1,2,", "1,2,x", "true,false,perhaps", "a,b,a", `"a","b","a"`} {
		if got, err := ParseClasses(s); err == nil {
			t.Errorf("%q was accepted: %v", s, got)
		}
	}
}

// TestClassesInAllForms: labels of more than two classes are written and read
// again by number, and one that is not in the list by its text.
func TestClassesInAllForms(t *testing.T) {
	for set, other := range map[string]string{"0,1,2": "7", "-1,0.5,1000": "2.5", "a,b,c": "d", `"1","2","3"`: "4"} {
		for _, name := range Names() {
			c := must(t, name, Options{Labels: set, CSV: CSVOptions{LabelColumn: "last"}})
			for y := range 4 {
				ex := stream.Example{X: dense(1.5, 2.5), Labelled: true}
				if y < 3 {
					ex.Y = float64(y)
				} else {
					ex.Class = other
				}
				b, err := c.Append(nil, &ex)
				if err != nil {
					t.Fatalf("%s, %s: %v", name, set, err)
				}
				got := stream.Example{Class: "stale"}
				if err := c.Decode(b, &got); err != nil || got.Y != ex.Y || !got.Labelled || got.Class != ex.Class {
					t.Errorf("%s, %s: %q becomes %+v, %v", name, set, b, got, err)
				}
			}
			for _, bad := range []float64{-1, 3, .5} {
				if b, err := c.Append(nil, &stream.Example{X: dense(1), Y: bad, Labelled: true}); err == nil {
					t.Errorf("%s, %s: class %v is written as %q", name, set, bad, b)
				}
			}
		}
		dec, err := NewLabels(Options{Labels: set})
		if err != nil {
			t.Fatal(err)
		}
		var ex stream.Example
		if err := dec.Decode([]byte(other), &ex); err != nil || ex.Class != other || !ex.Labelled {
			t.Errorf("%s: %+v, %v", set, ex, err)
		}
	}
	c := must(t, "json", Options{Labels: "a,b,c"})
	for _, y := range []string{`""`, `"?"`, `" a"`, `"a\nb"`, "1", "true", `"` + strings.Repeat("x", 257) + `"`} {
		var ex stream.Example
		if err := c.Decode([]byte(`{"x":[1],"y":`+y+`}`), &ex); err == nil {
			t.Errorf("the label %s becomes %+v", y, ex)
		}
	}
}

func TestSignatureOfClasses(t *testing.T) {
	s := SignatureOf(must(t, "json", Options{Labels: "a,b,c"}))
	if err := s.AddClass("d,e"); err != nil || s.Classes() != 4 || s.Label(3) != "d,e" || s.Label(0) != "a" || s.Label(9) != 9. {
		t.Errorf("%+v, %v", s, err)
	}
	if s.AddClass("a") == nil {
		t.Error("a class was added twice")
	}
	s = SignatureOf(must(t, "json", Options{Labels: "1,2,3"}))
	if err := s.AddClass("1e+21"); err != nil || s.Label(3) != 1e21 {
		t.Errorf("%+v, %v", s, err)
	}
}
