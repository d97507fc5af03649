// Package python tests the Python package that lies here: it writes models,
// vectors and events with what streamsvm makes of them, and runs pytest, which
// compares, on these and on a broker.
package python

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/algos/ovr"
	"github.com/streamsvm/streamsvm/algos/registry"
	_ "github.com/streamsvm/streamsvm/contrib/scale/lssvm"
	"github.com/streamsvm/streamsvm/internal/calibrate"
	"github.com/streamsvm/streamsvm/internal/pipeline"
	"github.com/streamsvm/streamsvm/internal/plain"
	"github.com/streamsvm/streamsvm/internal/prep"
	"github.com/streamsvm/streamsvm/internal/testkit/kafkatest"
	"github.com/streamsvm/streamsvm/predictor"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/codec"
)

// TestPython runs the suite of the Python package.
func TestPython(t *testing.T) {
	python := interpreter(t)
	golden := t.TempDir()
	writeModels(t, golden)
	writeEvents(t, golden)
	bin := filepath.Join(t.TempDir(), "streamsvm")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", bin, "../cmd/streamsvm").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	brokers := kafkatest.Brokers(t)
	cmd := exec.CommandContext(t.Context(), python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-rs", "--durations=3", "-W", "error")
	if os.Getenv("STREAMSVM_LONG") == "" { // the others train, or wait for brokers, a notebook and wheels
		cmd.Args = append(cmd.Args, "-k", "test_golden or test_formats or test_package and not test_wheel")
	}
	cmd.Env = append(os.Environ(), "PYTHONPATH=src", "PYTHONDONTWRITEBYTECODE=1", "STREAMSVM_GOLDEN="+golden,
		"STREAMSVM_BIN="+bin, "STREAMSVM_BROKERS="+strings.Join(brokers, ","))
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Error(err)
	}
}

// interpreter returns a Python that has what the package and its tests need.
func interpreter(t *testing.T) string {
	t.Helper()
	python := os.Getenv("STREAMSVM_PYTHON")
	if python == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			t.Skip(err)
		}
		python = filepath.Join(cache, "streamsvm", "python", "bin", "python")
	}
	if out, err := exec.Command(python, "-c", "import numpy, msgpack, xxhash, confluent_kafka, pytest").CombinedOutput(); err != nil {
		t.Skipf("no Python with what python/pyproject.toml lists; .ci/run prepare makes one in %s: %v %s", filepath.Dir(filepath.Dir(python)), err, out)
	}
	return python
}

// shape says what examples look like.
type shape struct {
	name   string
	dim    int
	filled int // features that are not 0
	sparse bool
}

var shapes = []shape{{"dense", 7, 7, false}, {"listed", 12, 5, true}, {"far", 3000, 6, true}}

// draw returns n examples of a smooth function. Feature 2 is constant but for
// those after the first half, and scales differ.
func (s shape) draw(r *rand.Rand, n int) []*stream.Example {
	out := make([]*stream.Example, n)
	for i := range out {
		var x stream.Vec
		f := 0.2
		for k, j := range r.Perm(s.dim)[:s.filled] {
			if !s.sparse {
				j = k
			}
			v := float32(r.NormFloat64()) * float32(1+j%3)
			if j == 2 && i < n/2 {
				v = 0.5
			}
			f += math.Sin(float64(j)) * float64(v) / float64(1+j%3)
			if s.sparse {
				x.Idx = append(x.Idx, int32(j))
			}
			x.Val = append(x.Val, v)
		}
		if s.sparse {
			slices.Sort(x.Idx)
		}
		out[i] = &stream.Example{Seq: uint64(i + 1), X: x, Y: f, Labelled: true}
	}
	return out
}

// golden is a model and what it says of vectors.
type golden struct {
	Name      string   `json:"name"`
	Rows      []any    `json:"rows"`   // lists, or indices and values
	Dim       int      `json:"dim"`    // of sparse ones
	Scores    []scores `json:"scores"` // of two classes the decision alone
	Labels    []any    `json:"labels"`
	Probable  []scores `json:"probable"` // none where there are no probabilities
	Tolerance float64  `json:"tolerance"`
}

type scores []float64

// writeModels writes models of all learners, kernels and ways of preprocessing.
func writeModels(t *testing.T, dir string) {
	const seed = 12
	r := rand.New(rand.NewPCG(seed, 1))
	n := 0
	add := func(spec algos.Spec, task algos.Task, classes int, set map[string]string, s shape, o prep.Options) {
		t.Helper()
		if spec.Kind == algos.Features {
			set["features"] = "128"
			if spec.Name != "lssvm" { // which has no blocks to choose
				set["block"] = "32"
			}
		}
		name := fmt.Sprintf("%s %s of %d classes %v, %s, %+v", spec.Name, task, classes, set, s.name, o)
		env := algos.Env{Seed: seed, Task: task}
		if classes > 2 {
			spec, env.Classes = ovr.Spec(spec), classes
		}
		length := 160
		switch {
		case !strings.HasPrefix(spec.Name, "adaptive"):
		case task == algos.Classify && classes == 2 && !s.sparse:
			length = 2300 // more than the neighbours that are kept
		case task == algos.Classify:
			length = 640 // has all kinds of experts
		default:
			length = 440
		}
		xs := s.draw(r, length+20)
		tr, err := prep.Fit(xs[:60], o)
		if err != nil {
			t.Fatal(err)
		}
		l, err := spec.New(env, set)
		if err != nil {
			t.Fatal(name, err)
		}
		for _, x := range xs[:length] {
			c := *x
			c.X = tr.Next(x.X).Clone()
			switch {
			case classes > 2:
				c.Y = math.Floor(min(max(x.Y, -1), .99)) + 1
			case task == algos.Classify:
				c.Y = math.Copysign(1, x.Y)
			}
			if _, err := algos.Feed(t.Context(), l, &c); err != nil {
				t.Fatal(name, err)
			}
		}
		if _, err := l.Finish(t.Context()); err != nil {
			t.Fatal(name, err)
		}
		p := pipeline.Pipeline{Learner: spec.Name, Task: task, Options: set, Transform: tr, Model: l.Model()}
		if l, ok := l.(algos.Publisher); ok && s.sparse { // has other weights
			p.Model = l.Published()
		}
		if !s.sparse {
			p.Signature = codec.Signature{Codec: "json", Dim: s.dim, Index: s.dim}
		}
		switch {
		case task == algos.Regress:
		case classes > 2:
			p.Signature.Labels = []string{`"a","b","c"`, "1,2,3,5"}[classes-3]
			p.Softmax, p.Costs = &calibrate.Softmax{Slope: 1.5, Scale: .7}, slices.Repeat(calibrate.Costs{1, 20}, classes)[:classes]
		default:
			p.Signature.Labels = []string{"0,1", "-1,1", "false,true", `"no","yes"`, ""}[n%5]
			p.Probability = &calibrate.Map{Decisions: []float64{-1.5, -.1, 0, .4}, LogOdds: []float64{-3, -1, .1, 2.5}}
			if n%2 == 0 {
				p.Costs = calibrate.Costs{1, 7}
			}
		}
		form := &p
		if n%4 < 2 {
			form = p.Pack()
		}
		data, err := form.AppendBinary(nil)
		if err != nil {
			t.Fatal(name, err)
		}
		write(t, filepath.Join(dir, fmt.Sprintf("%d.ssm", n)), data)
		rows := []stream.Vec{}
		for _, x := range xs[length+8:] {
			rows = append(rows, x.X)
		}
		dim := s.dim
		if s.sparse { // the empty vector, one with zeros spelt out, and one with a feature that is new
			x := rows[0].Clone()
			x.Idx, x.Val = append(x.Idx, int32(dim)), append(x.Val, 2)
			rows = append(rows, stream.Vec{Idx: []int32{}, Val: []float32{}}, stream.Vec{Idx: []int32{0, 2, 4}, Val: []float32{0, 1, 0}}, x)
			dim++
		}
		writeJSON(t, filepath.Join(dir, fmt.Sprintf("%d.json", n)), answers(t, name, data, rows, dim))
		n++
	}

	for _, spec := range registry.All {
		for _, task := range spec.Tasks {
			add(spec, task, 2, map[string]string{}, shapes[0], prep.Options{Scale: prep.Standard})
			add(spec, task, 2, map[string]string{}, shapes[1], prep.Options{Scale: prep.Common, HashDim: 16})
			if spec.Name == "adaptive" { // its experts are others where there are many features
				add(spec, task, 2, map[string]string{}, shapes[2], prep.Options{})
			}
		}
		if slices.Contains(spec.Tasks, algos.Classify) {
			add(spec, algos.Classify, 3, map[string]string{}, shapes[0], prep.Options{Scale: prep.Standard})
		}
		for _, o := range spec.Options {
			if o.Name != "kernel" {
				continue
			}
			for k := range strings.SplitSeq(o.Enum, ",") {
				add(spec, spec.Tasks[0], 2, map[string]string{"kernel": k}, shapes[1], prep.Options{Scale: prep.Unit})
				if spec.Name == "sbp" {
					add(spec, spec.Tasks[0], 2, map[string]string{"kernel": k}, shapes[2], prep.Options{Scale: prep.Unit})
				}
			}
		}
	}
	for _, name := range []string{"sbp", "online"} { // what happens before the model is the same for all
		spec, err := registry.Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, scale := range prep.Scales() {
			for _, s := range shapes {
				for _, hash := range []int{0, 64, 37} {
					if spec.Kind != algos.Kernel && hash == 37 {
						continue // what hashing does has been seen
					}
					add(spec, algos.Classify, 2, map[string]string{}, s, prep.Options{Scale: scale, HashDim: hash, Span: 50})
				}
			}
		}
	}
	for _, name := range []string{"panel", "alone"} { // mixtures, which are no longer made
		data, err := os.ReadFile("../predictor/testdata/" + name + ".ssm")
		if err != nil {
			t.Fatal(err)
		}
		rows := []stream.Vec{{Idx: []int32{0, 1}, Val: []float32{0.5, -2}}, {Idx: []int32{1}, Val: []float32{0.25}}, {Idx: []int32{}, Val: []float32{}}}
		write(t, filepath.Join(dir, fmt.Sprintf("%d.ssm", n)), data)
		writeJSON(t, filepath.Join(dir, fmt.Sprintf("%d.json", n)), answers(t, name+" of an earlier version", data, rows, 2))
		n++
	}
	t.Logf("%d models", n)
}

// answers asks a model.
func answers(t *testing.T, name string, data []byte, xs []stream.Vec, dim int) golden {
	t.Helper()
	p, err := predictor.Decode(data)
	if err != nil {
		t.Fatal(name, err)
	}
	g := golden{Name: name, Dim: dim, Rows: []any{}, Scores: []scores{}, Labels: []any{}, Probable: []scores{}, Tolerance: 1e-4}
	sig := p.Signature()
	for _, x := range xs {
		if x.Idx == nil {
			g.Rows = append(g.Rows, x.Val)
		} else {
			g.Rows = append(g.Rows, plain.Sparse[float32]{Index: x.Idx, Value: x.Val})
		}
		f := p.Decision(x)
		row := scores{f}
		var chances scores
		if k := p.Classes(); k > 2 {
			row = make(scores, k)
			p.Scores(row, []stream.Vec{x})
			chances = make(scores, k)
			if !p.Probabilities(chances, row) {
				chances = nil
			}
		} else if one, known := p.Probability(f); known {
			chances = scores{1 - one, one}
		}
		g.Scores = append(g.Scores, row)
		g.Labels = append(g.Labels, sig.Label(p.Predict(x)))
		if chances != nil {
			g.Probable = append(g.Probable, chances)
		}
	}
	return g
}

// events is a schema, and what becomes of events.
type events struct {
	Name   string            `json:"name"`
	Codec  string            `json:"codec"`
	Schema string            `json:"schema"`
	Events []json.RawMessage `json:"events"`
	// Rows are dense, with as many features as the schema has; an event that is
	// refused has none, and Errors the field.
	Rows   [][]float32 `json:"rows"`
	Errors []string    `json:"errors"`
}

// schemas are such as people write, with all that a field may say.
var schemas = []struct{ name, schema string }{
	{"every type", `{"label":"y","id":"id","fields":[
		{"name":"a","type":"numeric","nulls":["x","1000","-2.50"],"means":[1.5],"gaps":[true]},
		{"name":"b","type":"boolean","means":[0.25],"gaps":[false]},
		{"name":"c","type":"categorical","categories":["12.5","1e+06","DE","FR","true"],"gaps":[true]},
		{"name":"d.e","type":"categorical","hash":8,"gaps":[true]},
		{"name":"d.f.g","type":"numeric","transform":"log1p","means":[0],"gaps":[false]},
		{"name":"h","type":"tags","categories":["x","y"],"gaps":[false]},
		{"name":"i","type":"tags","hash":4,"gaps":[true]},
		{"name":"j","type":"time","nulls":["yesterday"],"parts":["hour","weekday"],"gaps":[true]},
		{"name":"k","type":"time","nulls":["0"],"unit":"s","parts":["weekday"],"gaps":[false]},
		{"name":"l","type":"text","hash":16},
		{"name":"m","type":"array","means":[1,2,3],"gaps":[true,false,true]},
		{"name":"n","type":"numeric","clip":[-2,5],"means":[0],"gaps":[false]},
		{"name":"o","type":"ignore"}]}`},
	{"invalid is missing", `{"label":"y","invalid":"missing","unknown":"zero","fields":[
		{"name":"a","type":"numeric","means":[1.5],"gaps":[true]},
		{"name":"b","type":"boolean","means":[0.25],"gaps":[true]},
		{"name":"c","type":"categorical","categories":["DE","FR"],"gaps":[false]},
		{"name":"d.e","type":"categorical","hash":8,"gaps":[true]},
		{"name":"h","type":"tags","categories":["x","y"],"gaps":[true]},
		{"name":"j","type":"time","parts":["hour"],"gaps":[true]},
		{"name":"l","type":"text","hash":16},
		{"name":"m","type":"array","means":[1,2,3],"gaps":[true,false,true]}]}`},
	{"refused", `{"label":"y","missing":"refuse","unknown":"refuse","others":"refuse","fields":[
		{"name":"a","type":"numeric","means":[0],"gaps":[false],"missing":"mean"},
		{"name":"c","type":"categorical","categories":["DE","FR"],"gaps":[false]}]}`},
	{"wide", `{"label":"y","fields":[
		{"name":"a","type":"numeric","means":[1.5],"gaps":[true]},
		{"name":"c","type":"categorical","hash":700,"gaps":[true]},
		{"name":"h","type":"tags","hash":3,"gaps":[false]},
		{"name":"l","type":"text","hash":1000}]}`},
	{"as found", `{"label":"y","fields":[
		{"name":"p","type":"numeric","unit":"$","means":[1.5],"gaps":[true]},
		{"name":"q","type":"numeric","unit":"%","comma":"decimal","means":[1.5],"gaps":[false]},
		{"name":"q2","type":"numeric","comma":"thousands","means":[1.5],"gaps":[false]},
		{"name":"q3","type":"numeric","unit":":","means":[1.5],"gaps":[false]},
		{"name":"r","type":"time","order":"dmy","parts":["hour","age"],"until":"s","means":[12.5],"gaps":[true]},
		{"name":"s","type":"time","order":"mdy","nulls":["never"],"parts":["weekday","age","hour"],"means":[-3],"gaps":[false]},
		{"name":"t","type":"time","unit":"yyyymmdd","parts":["age"],"until":"r","means":[0],"gaps":[false]},
		{"name":"t2","type":"time","unit":"us","parts":["hour"],"gaps":[false]},
		{"name":"t3","type":"time","unit":"d","parts":["weekday"],"gaps":[false]},
		{"name":"u","type":"categorical","after":"@","categories":["a.com","b","c"],"gaps":[true]},
		{"name":"v","type":"categorical","before":"-","after":"é","hash":8,"gaps":[false]},
		{"name":"v2","type":"tags","split":"|","categories":["x","y z"],"gaps":[true]},
		{"name":"w","type":"length","means":[2],"gaps":[true]},
		{"name":"w.n","type":"summary","means":[1,2,3,4],"gaps":[true]},
		{"name":"w.o.c","type":"tags","categories":["x","y"],"gaps":[false]}]}`},
	{"found invalid", `{"label":"y","invalid":"missing","others":"refuse","fields":[
		{"name":"p","type":"numeric","unit":"$","means":[1.5],"gaps":[true]},
		{"name":"r","type":"time","order":"dmy","parts":["age"],"means":[12.5],"gaps":[true]},
		{"name":"w","type":"ignore"},
		{"name":"w.n","type":"summary","clip":[0,5],"means":[1,2,3,4],"gaps":[true],"missing":"refuse"},
		{"name":"w.o.c","type":"array","means":[1,2],"gaps":[true,false]}]}`},
	{"centered", `{"label":"y","fields":[
		{"name":"a","type":"numeric","centered":true,"nulls":["1000"],"means":[1.5],"gaps":[true]},
		{"name":"b","type":"boolean","means":[0.25],"gaps":[true]},
		{"name":"c","type":"categorical","hash":700,"gaps":[true]},
		{"name":"d.f.g","type":"numeric","centered":true,"transform":"log1p","means":[0.7],"gaps":[false]},
		{"name":"m","type":"array","centered":true,"means":[1,2,3],"gaps":[true,false,true]},
		{"name":"s","type":"time","order":"mdy","parts":["hour","age"],"centered":true,"means":[-9570.5],"gaps":[true]},
		{"name":"w","type":"length","centered":true,"means":[2.5],"gaps":[true]},
		{"name":"w.n","type":"summary","centered":true,"means":[1,2,3,4],"gaps":[true]}]}`},
	{"other spellings", `{"label":"y","fields":[
		{"name":"q4","type":"numeric","unit":"$","means":[1.5],"gaps":[true]},
		{"name":"q5","type":"numeric","unit":"days","means":[1.5],"gaps":[false]},
		{"name":"q6","type":"numeric","comma":"thousands","means":[1.5],"gaps":[false]},
		{"name":"r2","type":"time","parts":["hour","weekday"],"gaps":[false]}]}`},
	{"lists in texts", `{"label":"y","fields":[
		{"name":"v3","type":"array","split":",","nulls":["?"],"means":[1,2.5],"gaps":[false,true]},
		{"name":"v4","type":"array","split":" ","means":[1,2,3],"gaps":[true,false,false]}]}`},
	{"root", `{"root":"payload.after","label":"y","fields":[
		{"name":"a","type":"numeric","means":[1.5],"gaps":[true]},
		{"name":"c","type":"categorical","categories":["DE","FR"],"gaps":[false]}]}`},
}

// values are such as a field may have.
var values = map[string][]string{
	"a":       {"1", "-2.5", "1e3", `"12.25"`, `" 1"`, "true", "null", `"x"`, "1e300", "[1]", "0.1", `"0x1p3"`, `".5"`, `{"z":1}`},
	"b":       {"true", "false", "0", "1", "2", `"True"`, `"no"`, "null"},
	"c":       {`"DE"`, `"FR"`, `"IT"`, "true", "1000000", "12.5", "1234567", "0.00001", "-0.25", "null", "[]", "123456", "1e21", "1.5e-7"},
	"d.e":     {`"x"`, `"Zürich"`, `""`, "17", "false", "null", `"a long text that is hashed as others are"`},
	"d.f.g":   {"0", "-3", "1e6", "null"},
	"h":       {`["x"]`, `["x","y","x"]`, `["z","w"]`, "[]", `"x"`, "[null]", "null"},
	"i":       {`["p","q","p"]`, "[1,true,2.5]", "[]", "null"},
	"j":       {`"2026-03-01T13:45:10Z"`, `"2026-03-01T23:45:10.25+02:30"`, `"2026-03-01 06:00:00"`, `"2026-03-01"`, "1700000000000", `"1700000000000"`, `"yesterday"`, "null", `"2026-02-30"`, `"1969-12-31T00:30:00-01:00"`, "-1234567890123"},
	"k":       {"1700000000", `"1700000000"`, "1700000000.5", "0", "1e15", "null"},
	"l":       {`"the Quick brown fox, the end"`, `""`, `"Ünïcode und ASCII 42"`, "7", "null", `"` + strings.Repeat("ab", 50) + ` x"`},
	"m":       {"[1,2,3]", "[1,null,3]", "[null,null,null]", "[1,2]", `[1,"2.5",true]`, `[1,"x",3]`, "null", "[0.1,0.2,0.3]"},
	"n":       {"7", "-7", "1.25", "1e200"},
	"o":       {"1", `{"p":2}`},
	"p":       {"1", `"$1,234.50"`, `"-$ 5"`, `"$-5.25"`, `"$12,34.5"`, `"1,23,456"`, `"€5"`, `"$.50"`, `"5 $"`, `"$ 5 $"`, `"7.5"`, `"$1 234 567"`, `"$"`, "null", `"$1.2.3"`, `"\u2212$3"`, `"+3$"`, `"$1'000"`},
	"q":       {`"12,5 %"`, `"1.234,56%"`, `"12.5 %"`, `"1\u00a0234,5"`, `"12.345"`, "2.5", `"1.2"`, `"-,5%"`, `"5,"`},
	"q2":      {`"1,234"`, `"1,23"`, `"1e3"`, `"12,345,678.25"`, "3", `"007"`, `"1,234.5.6"`},
	"q3":      {`"14:35"`, `"-1:02:03.5"`, `"36:10:00"`, `"14:60"`, `"5"`, "7", `"1:2"`, `"12:00 x"`, `" 1:30"`},
	"q4":      {`"($5.25)"`, `"$ (5)"`, `"(5"`, `"7.50- $"`, `"7.50 $-"`, `"-$7-"`, "null"},
	"q5":      {`"1 day"`, `"2 days"`, `"3 dayss"`, `"4"`, `"-5 day"`, `"6 Days"`},
	"q6":      {`"1,234-"`, `"(12)"`, `"5-x"`, `"(-6)"`, `"7 - "`},
	"r2":      {`"20260301174510"`, `"20260301T174510.25Z"`, `"20261301174510"`, `"Sun Mar  1 17:45:10 2026"`, `"Sun Mar 01 17:45:10 +0130 2026"`, `"Sun Mar 01 2026 17:45:10 GMT-0200 (a zone)"`, `"Sun Mar 01 17:45 2026"`, `"2026-03-01 10:00:00 "`},
	"r":       {`"31/12/2025"`, `"12/31/2025"`, `"1.2.2026 3:04 PM"`, `"01-02-2026T05:06"`, `"1-2/2026"`, `"24/12/99 23:59:59.9999 +0130"`, `"1.2.26"`, `"2026/3/1"`, `"Mon, 02 Mar 2026 15:04:05 GMT"`, `"March 5, 2026 12:30 am"`, `"5-Mar-2026"`, `"5 Foo 2026"`, "1700000000000", "null", `"1/2/2026 13:00 PM"`, `"2026-03-01T10:00:00.123+0000"`, `"2026-03-01 10:00:00+00:00"`, `"1/2/2026 24:00"`, `"2026-03-01T10:00:00+24:00"`, `"2026-03-01T10:00:00+25:00"`, `"2026-03-01 10:00:00+0360"`},
	"s":       {`"12/31/2025 01:02:03"`, `"31/12/2025"`, `"never"`, "null", `"Sept. 9, 2026"`, `"2026.03.01"`, "1750000000000", `"1/2/26 12:00 AM"`, "true", `"1/2/68"`, `"1/2/69"`},
	"t":       {"20260301", `"20260301"`, "20260230", "2026", "20260301.5", "null", `"2026-03-01"`, "99991231"},
	"t2":      {"1700000000123456", "-1", `"1700000000123456"`, "1e19"},
	"t3":      {"20513", "-400.75", "1e9"},
	"u":       {`"x@a.com"`, `"x@y@b"`, `"c"`, `"@"`, "5", "null", `"x@"`},
	"v":       {`"ab-1"`, `"ab"`, `"-1"`, `"é-x-y"`, "-5"},
	"v3":      {`"1,2"`, `" [ 1.5 , -2e3 ]"`, `"POINT(1,2)"`, `"1,"`, `","`, `"1,2,3"`, `"1,x"`, `""`, `"?"`, `"(1,2"`, `"((1,2)"`, `")"`, `"1,2)"`, `"1,1e300"`, `[1,"2"]`, "[null,2]", "1", "null"},
	"v4":      {`"1 2 3"`, `" 1  2\t 3 "`, `"{1 2 3}"`, `"1 2"`, `""`, `"[1 2 [3]"`, "[1,2,3]", "null"},
	"v2":      {`"x|y z"`, `" x | q||"`, `""`, `["x","y z|x"]`, `"x"`, "5", "null", `"|"`},
	"w":       {`[{"n":1,"o":{"c":"x"}},{"n":2.5,"o":{"c":"z"}},{"o":{}}]`, `[]`, `[{"n":"7"}]`, `[{"n":null}]`, `[{"n":[1]}]`, `[1,2]`, `[{"n":1e300}]`, "null", "3", "true", `[{"n":-1,"o.c":"y"},{"n":3}]`, `[{"z":1}]`, `{"n":[1,2,null]}`, `{"n":[]}`, `[{"n":3e38},{"n":3e38}]`, `"x"`, `[{"n":2,"o":{"c":1}},{"n":3,"o":{"c":"2"}}]`, `[{"n":[{"q":1}],"o":[{"c":1}]}]`},
	"w.n":     {"[1,2]", "[null]"},
	"w.o.c":   {`["x"]`, `["z","x"]`},
	"y":       {"1", "-1"},
	"unknown": {"1"},
}

// event writes an object: names with dots as they are, or as objects in it.
func event(r *rand.Rand, fields []string) string {
	var flat, inD, inF []string
	for _, f := range fields {
		v := values[f][r.IntN(len(values[f]))]
		name, in := f, &flat
		if rest, ok := strings.CutPrefix(f, "d.f."); ok && r.IntN(3) > 0 {
			name, in = rest, &inF
		} else if rest, ok := strings.CutPrefix(f, "d."); ok && r.IntN(3) > 0 {
			name, in = rest, &inD
		}
		*in = append(*in, fmt.Sprintf("%q:%s", name, v))
	}
	if len(inF) > 0 {
		inD = append(inD, `"f":{`+strings.Join(inF, ",")+"}")
	}
	if len(inD) > 0 {
		d := "{" + strings.Join(inD, ",") + "}"
		if r.IntN(4) == 0 { // in a text
			text, _ := json.Marshal(d)
			d = string(text)
		}
		flat = append(flat, `"d":`+d)
	}
	return "{" + strings.Join(flat, ",") + "}"
}

// writeEvents writes events with their vectors.
func writeEvents(t *testing.T, dir string) {
	r := rand.New(rand.NewPCG(13, 1))
	var list []events
	for _, s := range schemas {
		var in struct {
			Root   string
			Others string
			Fields []struct{ Name string }
		}
		if err := json.Unmarshal([]byte(s.schema), &in); err != nil {
			t.Fatal(err)
		}
		e := events{Name: s.name, Codec: "json", Schema: s.schema, Rows: [][]float32{}, Errors: []string{}}
		dec, err := codec.New("json", codec.Options{Labels: "pm1", Schema: s.schema})
		if err != nil {
			t.Fatal(s.name, err)
		}
		dim := 0
		for i := range 600 {
			fields := []string{"y"}
			for _, f := range in.Fields {
				// A value is in the list w, or in a field of its own.
				if r.IntN(8) > 0 && !(strings.HasPrefix(f.Name, "w.") && slices.Contains(fields, "w")) {
					fields = append(fields, f.Name)
				}
			}
			if in.Others == "" || r.IntN(10) == 0 {
				fields = append(fields, "unknown")
			}
			text := event(r, fields)
			if in.Root != "" && i%3 > 0 {
				text = []string{`{"payload":{"after":` + text + `}}`, `{"payload.after":` + text + `}`}[i%3-1]
			}
			var ex stream.Example
			err := dec.Decode([]byte(text), &ex)
			var wrong *stream.FieldError
			if err != nil && !errors.As(err, &wrong) {
				t.Fatal(err)
			}
			e.Events = append(e.Events, json.RawMessage(text))
			if err != nil {
				e.Rows, e.Errors = append(e.Rows, nil), append(e.Errors, wrong.Field)
				continue
			}
			dim = max(dim, ex.X.Dim())
			row := make([]float32, ex.X.Dim())
			ex.X.Dense(row)
			e.Rows, e.Errors = append(e.Rows, row), append(e.Errors, "")
		}
		list = append(list, e)
	}
	writeJSON(t, filepath.Join(dir, "events.json"), list)
}

func writeJSON(t *testing.T, path string, v any) {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	write(t, path, data)
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}
