package onnx_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/algos/ovr"
	"github.com/streamsvm/streamsvm/algos/registry"
	"github.com/streamsvm/streamsvm/contrib/onnx"
	"github.com/streamsvm/streamsvm/contrib/scale/lssvm"
	"github.com/streamsvm/streamsvm/internal/calibrate"
	"github.com/streamsvm/streamsvm/internal/pipeline"
	"github.com/streamsvm/streamsvm/internal/prep"
	"github.com/streamsvm/streamsvm/predictor"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/codec"
)

// rows is how many vectors, or events, a model is tried with.
const rows = 200

// onnxPython returns the interpreter that has ONNX Runtime.
func onnxPython(t *testing.T) string {
	t.Helper()
	home := os.Getenv("STREAMSVM_CACHE")
	if home == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			t.Skip(err)
		}
		home = filepath.Join(cache, "streamsvm")
	}
	python := filepath.Join(home, "onnx", "bin", "python")
	// To import them takes seconds.
	const there = "import importlib.util as u, sys; sys.exit(not all(map(u.find_spec, ('numpy', 'onnx', 'onnxruntime'))))"
	if out, err := exec.Command(python, "-c", there).CombinedOutput(); err != nil {
		t.Skipf("scripts/onnx.sh has not made %s, which runs exported models: %v %s", filepath.Dir(filepath.Dir(python)), err, out)
	}
	return python
}

// given is an input as run.py reads it.
type given struct {
	Name  string `json:"name"`
	Type  string `json:"type"`
	Shape []int  `json:"shape"`
	Data  []any  `json:"data"`
}

// onnxCase is a model and what it is asked.
type onnxCase struct {
	kind, name string
	p          *predictor.Predictor
	xs         []stream.Vec // as the codec makes them; Val nil: refused
	inputs     []given
	bytes      int
	// terms returns how large the numbers are whose sum a decision is: streamsvm
	// adds them up in 32 bits.
	terms func(x stream.Vec) float64
}

// runONNX runs all cases in one process and returns what each gives, by output.
func runONNX(t *testing.T, cases []*onnxCase) []map[string][]any {
	t.Helper()
	python, dir := onnxPython(t), t.TempDir()
	for i, c := range cases {
		m, err := convert(c.p)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		c.bytes = len(m.Bytes)
		data, err := json.Marshal(c.inputs)
		if err != nil {
			t.Fatal(err)
		}
		for name, data := range map[string][]byte{"onnx": m.Bytes, "json": data} {
			if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%d.%s", i, name)), data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	script, err := filepath.Abs("testdata/run.py")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), python, script, strconv.Itoa(len(cases)))
	var errText bytes.Buffer
	cmd.Dir, cmd.Stderr = dir, &errText
	out, err := cmd.Output()
	var all []map[string][]any
	lines := bufio.NewScanner(bytes.NewReader(out))
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var answer map[string][]any
		if err := json.Unmarshal(lines.Bytes(), &answer); err != nil {
			t.Fatal(err)
		}
		all = append(all, answer)
	}
	if err != nil || len(all) != len(cases) {
		name := ""
		if len(all) < len(cases) {
			name = cases[len(all)].name
		}
		t.Fatalf("%s: %v\n%s", name, err, errText.String())
	}
	return all
}

func convert(p *predictor.Predictor) (*onnx.Model, error) {
	var doc bytes.Buffer
	if err := p.Export(&doc, predictor.ExportOptions{}); err != nil {
		return nil, err
	}
	return onnx.Convert(doc.Bytes(), onnx.Options{})
}

// numbers returns an output.
func numbers(t *testing.T, name string, list []any) []float64 {
	t.Helper()
	out := make([]float64, len(list))
	for i, v := range list {
		switch v := v.(type) {
		case nil:
			out[i] = math.NaN()
		case float64:
			out[i] = v
		default:
			t.Fatalf("%s: %v", name, v)
		}
	}
	return out
}

// compare holds the outputs of a case against the predictor. It returns the
// largest difference in units of what is allowed, and absolutely.
func compare(t *testing.T, c *onnxCase, got map[string][]any) (units, worst float64, beyond int) {
	t.Helper()
	p, k := c.p, max(1, c.p.Classes())
	name := "decision"
	if p.Task() == algos.Regress {
		name = "value"
	}
	if k == 2 {
		k = 1
	}
	fs := numbers(t, c.name, got[name])
	if len(fs) != k*len(c.xs) {
		t.Fatalf("%s: %d numbers %s for %d rows, outputs %d", c.name, len(fs), name, len(c.xs), len(got))
	}
	probabilities, known := got["probability"]
	sign := [2]int{}
	want := make([]float64, k)
	for i, x := range c.xs {
		label := got["label"]
		if x.Val == nil { // refused
			none := label == nil || label[i] == nil || label[i] == "" || label[i] == false
			if !math.IsNaN(fs[i*k]) || !none {
				t.Errorf("%s: row %d is refused by streamsvm, here it is %v", c.name, i, fs[i*k])
			}
			continue
		}
		if k == 1 {
			want[0] = p.Decision(x)
		} else {
			p.Scores(want, []stream.Vec{x})
		}
		tied, top, terms := false, slices.Max(want), max(1, c.terms(x))
		for j, f := range want {
			d, allowed := math.Abs(fs[i*k+j]-f), 1e-4*math.Abs(f)+1e-6*terms
			if d > 1e-4*math.Abs(f)+1e-6 {
				beyond++
			}
			if !(d <= allowed) {
				t.Errorf("%s: row %d, number %d: %v, streamsvm has %v, of the units allowed %.3g", c.name, i, j, fs[i*k+j], f, d/allowed)
				return d / allowed, d, beyond
			}
			units, worst = max(units, d/allowed), max(worst, d)
			tied = tied || k == 1 && math.Abs(f) <= allowed || k > 1 && f < top && top-f <= allowed+1e-4*math.Abs(top)+1e-6*terms
		}
		if p.Task() == algos.Regress {
			continue
		}
		s := p.Signature()
		class := p.Predict(x)
		if w := s.Label(class); !tied && fmt.Sprint(label[i]) != fmt.Sprint(w) {
			t.Errorf("%s: row %d of decisions %v has the label %v, want %v", c.name, i, want, label[i], w)
		}
		if want[0] >= 0 {
			sign[1]++
		} else {
			sign[0]++
		}
		var q []float64
		if k == 1 {
			if v, ok := p.Probability(want[0]); ok {
				q = []float64{v}
			}
		} else if v := slices.Clone(want); p.Probabilities(v, want) {
			q = v
		}
		if known != (q != nil) {
			t.Fatalf("%s: probabilities %v, want %v", c.name, probabilities, q)
		}
		for j, v := range q {
			if g := numbers(t, c.name, probabilities[i*k+j:i*k+j+1])[0]; !(math.Abs(g-v) <= 1e-3) {
				t.Errorf("%s: row %d, class %d: the probability %v, want %v", c.name, i, j, g, v)
			}
		}
	}
	return units, worst, beyond
}

// report prints the largest differences by kind of model.
func report(t *testing.T, cases []*onnxCase) {
	t.Helper()
	type most struct {
		units, worst float64
		n, bytes     int
		rows, beyond int
		of           string
	}
	all := map[string]*most{}
	for i, got := range runONNX(t, cases) {
		c := cases[i]
		units, worst, beyond := compare(t, c, got)
		m := all[c.kind]
		if m == nil {
			m = new(most)
			all[c.kind] = m
		}
		m.n++
		m.rows += len(c.xs)
		m.beyond += beyond
		m.bytes += c.bytes
		m.worst = max(m.worst, worst)
		if units > m.units {
			m.units, m.of = units, c.name
		}
	}
	for kind, m := range all {
		t.Logf("%-28s %3d models, %6d bytes each; largest |Δ| %.2g, %.3f of what is allowed; beyond 1e-4·|f| + 1e-6: %d of %d rows; %s", kind, m.n, m.bytes/m.n, m.worst, m.units, m.beyond, m.rows, m.of)
	}
}

// learned returns a predictor by the learner, of examples of which each has a
// decision in Y.
func learned(t *testing.T, spec algos.Spec, env algos.Env, options map[string]string, xs []*stream.Example, o prep.Options, s codec.Signature) *onnxCase {
	t.Helper()
	if spec.Kind == algos.Features {
		options["features"] = "128"
	}
	if spec.Kind == algos.Features && spec.Name != "lssvm" {
		options["block"] = "32"
	}
	tr, err := prep.Fit(xs[:60], o)
	if err != nil {
		t.Fatal(err)
	}
	name := spec.Name
	if env.Classes > 2 {
		spec = ovr.Spec(spec)
	}
	l, err := spec.New(env, options)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range xs {
		c := *x
		c.X = tr.Next(x.X).Clone()
		switch {
		case env.Classes > 2:
			c.Y = math.Floor(min(max(x.Y, -1), .99)) + 1
			if env.Classes == 4 && x.Y > 2 {
				c.Y = 3
			}
		case env.Task == algos.Classify:
			c.Y = math.Copysign(1, x.Y)
		}
		if _, err := algos.Feed(t.Context(), l, &c); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := l.Finish(t.Context()); err != nil {
		t.Fatal(err)
	}
	pipe := pipeline.Pipeline{Learner: name, Task: env.Task, Options: options, Signature: s, Transform: tr, Model: l.Model()}
	if l, ok := l.(algos.Publisher); ok && s.Dim == 0 { // has other weights
		pipe.Model = l.Published()
	}
	if env.Classes > 2 {
		pipe.Softmax, pipe.Costs = &calibrate.Softmax{Slope: 1.5, Scale: .7}, slices.Repeat(calibrate.Costs{1, 20}, env.Classes)[:env.Classes]
	} else if env.Task == algos.Classify {
		pipe.Probability = &calibrate.Map{Decisions: []float64{-2, -.5, 0, .25, 3}, LogOdds: []float64{-4, -1.5, .25, .25, 3}}
		pipe.Costs = calibrate.Costs{1, 7}
	}
	data, err := pipe.AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	p, err := predictor.Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	var doc bytes.Buffer
	if err := p.Export(&doc, predictor.ExportOptions{}); err != nil {
		t.Fatal(err)
	}
	var form struct{ Model plainModel }
	if err := json.Unmarshal(doc.Bytes(), &form); err != nil {
		t.Fatal(err)
	}
	return &onnxCase{kind: form.Model.kind(), p: p, terms: func(x stream.Vec) float64 { return terms(form.Model, tr.Apply(x)) }}
}

// terms returns Σ |c_k|·K_k, with K_k of absolute values, for x.
func terms(m plainModel, x stream.Vec) float64 {
	all := map[int]float64{}
	for k, v := range x.Val {
		if x.Idx != nil {
			k = int(x.Idx[k])
		}
		all[k] = math.Abs(float64(v))
	}
	sum := 0.
	switch m.Kind {
	case "ensemble", "average", "mixture": // most terms are of at most 6
		sum = 10
		for _, e := range m.Experts {
			for _, a := range e.Model.Coef { // of kernels of at most 1, with a bias of 1
				sum += math.Abs(2 * e.Weight * a)
			}
		}
	case "classes":
		for _, part := range m.Parts {
			sum = max(sum, terms(part, x))
		}
	case "features":
		for _, a := range m.Coef {
			sum += math.Abs(m.Scale * a)
		}
	case "kernel":
		k := m.Kernel.(map[string]any)
		for i, a := range m.Coef {
			dot := 0.
			switch v := m.Points[i].(type) {
			case []any:
				for j, v := range v {
					dot += math.Abs(v.(float64)) * all[j]
				}
			case map[string]any:
				for i, j := range v["index"].([]any) {
					dot += math.Abs(v["value"].([]any)[i].(float64)) * all[int(j.(float64))]
				}
			}
			value := 1.
			switch k["name"] {
			case "linear":
				value = dot
			case "polynomial":
				value = math.Pow(k["gamma"].(float64)*dot+math.Abs(k["coef0"].(float64)), k["degree"].(float64))
			}
			sum += math.Abs(a) * (value + m.Bias)
		}
	}
	return sum
}

// plainModel is a model in plain form.
type plainModel struct {
	Kind        string
	Kernel      any
	Bias, Scale float64
	Coef        []float64
	Points      []any
	Parts       []plainModel
	Experts     []struct {
		Weight float64
		Model  plainModel
	}
}

// kind says what form it has.
func (m *plainModel) kind() string {
	s := m.Kind
	switch k := m.Kernel.(type) {
	case map[string]any:
		s += " " + fmt.Sprint(k["name"])
	case string:
		s = strings.TrimSpace(s + " " + k)
	}
	for i := range m.Parts {
		if of := m.Parts[i].kind(); !strings.Contains(s, of) {
			s += " " + of
		}
	}
	return s
}

// vectors returns n examples of a smooth function of some of dim features. Feature 2
// is constant but for those after the first half; feature 4 of dense ones has heavy tails.
func vectors(r *rand.Rand, n, dim, filled int) []*stream.Example {
	out := make([]*stream.Example, n)
	for i := range out {
		var x stream.Vec
		f := 0.2
		for k, j := range r.Perm(dim)[:filled] {
			if filled == dim {
				j = k
			}
			v := float32(r.NormFloat64()) * float32(1+j%3)
			if j == 2 && i < n/2 {
				v = 0.5
			}
			f += math.Sin(float64(j)) * float64(v) / float64(1+j%3)
			if j == 4 && filled == dim {
				v = float32(math.Exp(float64(v)))
			}
			if filled < dim {
				x.Idx = append(x.Idx, int32(j))
			}
			x.Val = append(x.Val, v)
		}
		slices.Sort(x.Idx)
		out[i] = &stream.Example{Seq: uint64(i + 1), X: x, Y: f, Labelled: true}
	}
	return out
}

// ask makes examples of so many features the rows of the case.
func (c *onnxCase) ask(xs []*stream.Example, dim int) {
	data := make([]any, len(xs)*dim)
	for i := range data {
		data[i] = 0.
	}
	for i, x := range xs {
		c.xs = append(c.xs, x.X)
		for k, v := range x.X.Val {
			j := k
			if x.X.Idx != nil {
				j = int(x.X.Idx[k])
			}
			data[i*dim+j] = float64(v)
		}
	}
	c.inputs = []given{{"x", "double", []int{len(xs), dim}, data}}
}

// TestVectors: models of all learners, kernels, scales and hashes decide in ONNX
// Runtime as they do here.
func TestVectors(t *testing.T) {
	onnxPython(t)
	r := rand.New(rand.NewPCG(5, 6))
	var cases []*onnxCase
	add := func(spec algos.Spec, task algos.Task, classes int, options map[string]string, dim, filled int, o prep.Options) {
		t.Helper()
		labels := `"no","yes"`
		switch {
		case task == algos.Regress:
			labels = ""
		case classes == 3:
			labels = `"ash","beech","cedar"`
		case classes == 4:
			labels = "10,20,30,40"
		case dim == 12:
			labels = "false,true"
		case o.Scale == prep.Common:
			labels = "0,1"
		}
		sig := codec.Signature{Codec: "json", Labels: labels, Index: dim}
		if filled == dim {
			sig.Dim = dim
		}
		n, xs := 160, vectors(r, 160+rows, dim, filled)
		if spec.Name == "adaptive" && task == algos.Classify { // needs more for all kinds of experts
			xs = append(vectors(rand.New(rand.NewPCG(5, uint64(dim))), 480, dim, filled), xs...)
			n += 480
		}
		c := learned(t, spec, algos.Env{Seed: 1, Task: task, Classes: classes}, options, xs[:n], o, sig)
		c.name = fmt.Sprintf("%s %s %d %v, %d of %d, %s", spec.Name, task, classes, options, filled, dim, c.p.Preprocessing())
		c.ask(xs[n:], dim)
		cases = append(cases, c)
	}
	for _, spec := range registry.All {
		for _, task := range spec.Tasks {
			if spec.Name == "lssvm" {
				continue // below: draws come in turn, and those of others stay what they were
			}
			add(spec, task, 0, map[string]string{}, 7, 7, prep.Options{Scale: prep.Standard})
		}
	}
	for _, name := range []string{"sbp", "online", "tsgs3vm", "adaptive"} {
		spec, err := registry.Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		add(spec, algos.Classify, 3, map[string]string{}, 7, 7, prep.Options{Scale: prep.Standard})
		for _, o := range spec.Options {
			if o.Name != "kernel" {
				continue
			}
			for k := range strings.SplitSeq(o.Enum, ",") {
				add(spec, algos.Classify, 0, map[string]string{"kernel": k}, 12, 5, prep.Options{Scale: prep.Unit})
				add(spec, algos.Classify, 4, map[string]string{"kernel": k}, 12, 5, prep.Options{Scale: prep.MinMax})
			}
		}
		for _, scale := range prep.Scales() {
			if name != "sbp" && name != "online" {
				continue // what happens before the model is the same for all
			}
			for _, filled := range []int{12, 4} {
				for _, hash := range []int{0, 37, 2048} {
					if hash > 37 && filled == 12 {
						continue
					}
					add(spec, algos.Classify, 0, map[string]string{}, 12, filled, prep.Options{Scale: scale, HashDim: hash, Span: 50})
				}
			}
		}
	}
	for _, name := range []string{"panel", "alone"} { // mixtures, which are no longer made
		p, err := predictor.Load("../../predictor/testdata/" + name + ".ssm")
		if err != nil {
			t.Fatal(err)
		}
		sig := p.Signature()
		c := &onnxCase{kind: "mixture", name: name + " of an earlier version", p: p, terms: func(stream.Vec) float64 { return 10 }}
		c.ask(vectors(rand.New(rand.NewPCG(5, 6)), rows, sig.Index, sig.Index), sig.Index)
		cases = append(cases, c)
	}
	for _, classes := range []int{0, 2, 3} {
		task := algos.Classify
		if classes == 0 {
			task = algos.Regress
		}
		add(lssvm.Spec, task, classes, map[string]string{}, 7, 7, prep.Options{Scale: prep.Standard})
	}
	for _, spec := range registry.All {
		switch spec.Name {
		case "adaptive": // its experts are others where there are many features
			add(spec, algos.Classify, 0, map[string]string{}, 600, 6, prep.Options{})
		case "sbp": // distances from some points, then from others
			add(spec, algos.Classify, 0, map[string]string{"kernel": "laplacian"}, 600, 6, prep.Options{})
		}
	}
	report(t, cases)
}

// eventSchema says what a test's events look like. The first says the least, the
// others all that can be said.
var eventSchemas = map[string]string{
	"plain": `{"label":"y","fields":[
		{"name":"amount","type":"numeric","means":[2.5],"gaps":[false]},
		{"name":"country","type":"categorical","categories":["BR","DE","FR"],"gaps":[false]},
		{"name":"id","type":"ignore"},
		{"name":"message","type":"text","hash":8},
		{"name":"value","type":"numeric","transform":"log1p","clip":[-5,900],"means":[1.5],"gaps":[true]},
		{"name":"vip","type":"boolean","means":[0.25],"gaps":[true]}]}`,
	"full": `{"label":"y","invalid":"missing","fields":[
		{"name":"amount","type":"numeric","nulls":["-999"],"centered":true,"means":[2.5],"gaps":[true]},
		{"name":"country","type":"categorical","unknown":"zero","categories":["BR","DE","FR"],"gaps":[true]},
		{"name":"list","type":"array","centered":true,"means":[0.5,-1,2],"gaps":[true,false,true]},
		{"name":"mail","type":"categorical","after":"@","categories":["","a.com","b"],"gaps":[true]},
		{"name":"merchant","type":"categorical","hash":16,"gaps":[true]},
		{"name":"message","type":"text","hash":32},
		{"name":"net","type":"categorical","before":"--","after":"é","hash":4,"gaps":[false]},
		{"name":"seen","type":"time","unit":"s","parts":["weekday"],"gaps":[false]},
		{"name":"value","type":"numeric","transform":"log1p","means":[1.5],"gaps":[true]},
		{"name":"vip","type":"boolean","means":[0.25],"gaps":[false]},
		{"name":"when","type":"time","unit":"ms","parts":["hour","weekday","age"],"until":"seen","centered":true,"means":[3.5],"gaps":[true]}]}`,
	"strict": `{"label":"y","missing":"refuse","unknown":"refuse","fields":[
		{"name":"amount","type":"numeric","means":[2.5],"gaps":[false]},
		{"name":"country","type":"categorical","categories":["BR","DE","FR"],"gaps":[false]},
		{"name":"list","type":"array","means":[0.5,-1,2],"gaps":[false,false,false]},
		{"name":"merchant","type":"categorical","hash":16,"gaps":[false]},
		{"name":"message","type":"text","hash":16},
		{"name":"net","type":"categorical","before":"-","categories":["7","9"],"unknown":"other","gaps":[false]},
		{"name":"vip","type":"boolean","missing":"mean","means":[0.25],"gaps":[false]},
		{"name":"when","type":"time","unit":"us","parts":["hour","age"],"means":[0],"gaps":[false]}]}`,
}

// drawn is an event: the fields that it has.
func drawn(r *rand.Rand, odd float64) map[string]any {
	e := map[string]any{
		"id": r.IntN(1000), "amount": r.NormFloat64() * 3, "value": math.Exp(5 * r.NormFloat64()), "vip": r.IntN(2) == 0,
		"country": []string{"BR", "DE", "FR"}[r.IntN(3)], "merchant": fmt.Sprintf("shop é %d", r.IntN(60)),
		"mail": []string{"x@a.com", "x@y@b", "b", "@", "no one", "x@c"}[r.IntN(6)], "net": []string{"7--x-1", "7--", "9-", "--9", "é--7", "9"}[r.IntN(6)],
		"list": []any{r.NormFloat64(), r.NormFloat64(), r.Float64()},
		"when": r.Int64N(4e12) - 1e12, "seen": float64(r.Int64N(4e9)-1e9) + r.Float64(),
	}
	words := []string{"Hello, ", "WORLD", " world", "...", "Straße ", "日本語", "ÄÖ ", "7x\t", "the ", "THE-", strings.Repeat("y", 64) + "\n"}
	text := ""
	for range 1 + r.IntN(12) {
		text += words[r.IntN(len(words))]
	}
	for _, word := range wordsOf(text) {
		if len(word) > 64 {
			text = "?"
		}
	}
	e["message"] = text
	if r.IntN(8) == 0 {
		e["amount"] = -999
	}
	for _, k := range []string{"amount", "value", "vip", "country", "merchant", "message", "list", "when", "seen", "mail", "net"} {
		if r.Float64() < odd {
			delete(e, k)
		}
	}
	if r.Float64() < odd && e["list"] != nil {
		e["list"].([]any)[r.IntN(3)] = nil
	}
	if r.Float64() < odd {
		e["country"] = "XX"
	}
	if r.Float64() < odd {
		e["amount"] = 1e300
	}
	if r.Float64() < odd {
		e["vip"] = 2
	}
	if r.Float64() < odd {
		e["when"] = 1e16
	}
	if r.Float64() < odd && e["list"] != nil {
		e["list"].([]any)[0] = -1e99
	}
	return e
}

// wordsOf returns the words of a text.
func wordsOf(text string) []string {
	return strings.FieldsFunc(text, func(c rune) bool {
		return c < 0x80 && !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9')
	})
}

// asInputs returns events as a client gives them to the model of a schema: NaN
// and "" for what is missing.
func asInputs(m *onnx.Model, task string, events []map[string]any) []given {
	number := func(v any) any {
		switch v := v.(type) {
		case bool:
			return map[bool]any{false: 0., true: 1.}[v]
		}
		return v // nil is NaN to run.py
	}
	var all []given
	for _, in := range m.Inputs {
		g := given{Name: in.Name, Type: in.Type, Shape: []int{len(events)}}
		for _, n := range in.Shape {
			g.Shape = append(g.Shape, int(n))
		}
		field := strings.TrimPrefix(in.Name, "_")
		for _, e := range events {
			v := e[field]
			switch {
			case in.Type == "string" && v == nil:
				g.Data = append(g.Data, "")
			case in.Type == "string":
				g.Data = append(g.Data, v)
			case field == "list" && v == nil:
				g.Data = append(g.Data, nil, nil, nil)
			case field == "list":
				g.Data = append(g.Data, v.([]any)...)
			default:
				g.Data = append(g.Data, number(v))
			}
		}
		all = append(all, g)
	}
	return all
}

// TestEvents: models of events take them in ONNX Runtime as they take records
// here, whatever is missing, unknown or invalid.
func TestEvents(t *testing.T) {
	onnxPython(t)
	r := rand.New(rand.NewPCG(7, 8))
	var cases []*onnxCase
	for _, name := range []string{"plain", "full", "strict"} {
		schema := eventSchemas[name]
		for _, learner := range []string{"sbp", "online", "dsg", "adaptive"} {
			if (learner == "dsg" || learner == "adaptive") && name != "full" {
				continue
			}
			spec, err := registry.Lookup(learner)
			if err != nil {
				t.Fatal(err)
			}
			for i, o := range []prep.Options{{Scale: prep.None}, {Scale: prep.Standard}, {Scale: prep.MinMax}, {Scale: prep.Unit, HashDim: 20}} {
				for _, classes := range []int{0, 2, 4} {
					task, labels := algos.Classify, `"no","yes"`
					switch {
					case classes == 0 && (i > 0 || !slices.Contains(spec.Tasks, algos.Regress)), classes == 4 && i != 1:
						continue
					case classes == 0:
						task, labels = algos.Regress, ""
					case classes == 4:
						labels = "10,20,30,40"
					}
					d, err := codec.New("json", codec.Options{Task: string(task), Labels: labels, Schema: schema})
					if err != nil {
						t.Fatal(err)
					}
					var xs []*stream.Example
					for len(xs) < 160 {
						e := drawn(r, .02)
						var x stream.Example
						if data, err := json.Marshal(e); err != nil {
							t.Fatal(err)
						} else if d.Decode(data, &x) != nil {
							continue
						}
						x.Labelled, x.Seq = true, uint64(len(xs)+1)
						amount, _ := e["amount"].(float64)
						if x.Y = amount / 3; e["country"] == "DE" {
							x.Y = 1 - x.Y
						}
						xs = append(xs, &x)
					}
					sig := codec.SignatureOf(d)
					sig.Dim, sig.Index = xs[0].X.Dim(), xs[0].X.Dim()
					c := learned(t, spec, algos.Env{Seed: 1, Task: task, Classes: classes}, map[string]string{}, xs, o, sig)
					c.name = fmt.Sprintf("%s %s %s %d, %s", name, learner, task, classes, c.p.Preprocessing())
					c.kind += " of events"
					var events []map[string]any
					refused := 0
					for k := range rows {
						e := drawn(r, []float64{0, .1}[k%2])
						events = append(events, e)
						data, err := json.Marshal(e)
						if err != nil {
							t.Fatal(err)
						}
						var x stream.Example
						if err := d.Decode(data, &x); err != nil {
							refused++
						}
						c.xs = append(c.xs, x.X)
					}
					if (refused > 0) != (name != "full") || refused > rows/2+20 {
						t.Errorf("%s: %d events of %d are refused", c.name, refused, rows)
					}
					m, err := convert(c.p)
					if err != nil {
						t.Fatalf("%s: %v", c.name, err)
					}
					c.inputs = asInputs(m, string(task), events)
					cases = append(cases, c)
				}
			}
		}
	}
	report(t, cases)
}
