package predictor_test

import (
	"bytes"
	"encoding/json"
	"errors"
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
	"github.com/streamsvm/streamsvm/algos/model"
	"github.com/streamsvm/streamsvm/algos/ovr"
	"github.com/streamsvm/streamsvm/algos/registry"
	_ "github.com/streamsvm/streamsvm/contrib/scale/lssvm"
	"github.com/streamsvm/streamsvm/internal/plain"
	"github.com/streamsvm/streamsvm/internal/prep"
	"github.com/streamsvm/streamsvm/predictor"
	"github.com/streamsvm/streamsvm/stream"
)

// reader returns the Python program of the documentation.
func reader(t *testing.T) string {
	t.Helper()
	doc, err := os.ReadFile("../docs/formats/plain.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(doc), "```python\n")
	code, _, closed := strings.Cut(rest, "\n```\n")
	if !ok || !closed {
		t.Fatal("docs/formats/plain.md has no program between ```python and ```")
	}
	return code + "\n"
}

// driver runs the reader over many models at a time.
const driver = `
import json, reader, sys
for n in range(int(sys.argv[1])):
    with open(f"{n}.json") as f:
        doc = json.load(f)
    with open(f"{n}.jsonl") as f:
        print(" ".join(repr(reader.decision(doc, json.loads(line))) for line in f))
`

func python(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("python3")
	if err == nil {
		err = exec.Command(path, "-c", "import json").Run()
	}
	if err != nil {
		t.Skipf("no python3 here to run the reader of docs/formats/plain.md with: %v", err)
	}
	return path
}

// shape says what examples look like.
type shape struct {
	name   string
	dim    int
	filled int // features that are not 0
	sparse bool
}

var (
	denseShape  = shape{"dense", 7, 7, false}
	listedShape = shape{"listed", 12, 5, true}
	farShape    = shape{"far", 3000, 6, true}
)

// draw returns n examples of a smooth function. Feature 2 is constant but for
// those after the first half, dense feature 4 has heavy tails, and scales differ.
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
			if j == 4 && !s.sparse {
				v = float32(math.Exp(float64(v)))
			}
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

// trained returns a predictor by the learner and rows to decide.
func trained(t *testing.T, spec algos.Spec, task algos.Task, options map[string]string, s shape, o prep.Options, r *rand.Rand) (*predictor.Predictor, []stream.Vec) {
	t.Helper()
	return trainedOn(t, spec, algos.Env{Seed: 1, Task: task}, options, s, o, r)
}

func trainedOn(t *testing.T, spec algos.Spec, env algos.Env, options map[string]string, s shape, o prep.Options, r *rand.Rand) (*predictor.Predictor, []stream.Vec) {
	t.Helper()
	task := env.Task
	n := 120
	if strings.HasPrefix(spec.Name, "adaptive") {
		n = 600 // has all kinds of experts
	}
	xs := s.draw(r, n+40)
	tr, err := prep.Fit(xs[:60], o)
	if err != nil {
		t.Fatal(err)
	}
	l, err := spec.New(env, options)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range xs[:n] {
		c := *x
		c.X = tr.Next(x.X).Clone()
		if task == algos.Classify {
			c.Y = math.Copysign(1, x.Y)
		}
		if env.Classes > 2 {
			c.Y = math.Floor(min(max(x.Y, -1), .99)) + 1
		}
		if _, err := algos.Feed(t.Context(), l, &c); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := l.Finish(t.Context()); err != nil {
		t.Fatal(err)
	}
	var rows []stream.Vec
	for _, x := range xs[n+34:] {
		rows = append(rows, x.X)
	}
	// The empty vector, and one with zeros spelt out.
	rows = append(rows, stream.Vec{Idx: []int32{}, Val: []float32{}}, stream.Vec{Idx: []int32{0, 2, 4}, Val: []float32{0, 1, 0}}, stream.Vec{Val: []float32{0, 3, 0}})
	m := l.Model()
	if p, ok := l.(algos.Publisher); ok && s.sparse { // has other weights
		m = p.Published()
	}
	return predictor.New(spec, task, options, tr, m), rows
}

func row(x stream.Vec) any {
	if x.Idx == nil {
		return x.Val
	}
	return plain.Sparse[float32]{Index: x.Idx, Value: x.Val}
}

// exportCase is one model with rows to decide.
type exportCase struct {
	name string
	p    *predictor.Predictor
	rows []stream.Vec
}

// small makes learners of random features cheap to export.
func small(spec algos.Spec, o map[string]string) map[string]string {
	if spec.Kind == algos.Features {
		o["features"] = "128"
	}
	if spec.Kind == algos.Features && spec.Name != "lssvm" {
		o["block"] = "32"
	}
	return o
}

// TestReaderOfTheDocs runs the Python program of the documentation on exported
// models of every learner, kernel and preprocessing.
func TestReaderOfTheDocs(t *testing.T) {
	exe := python(t)
	const seed = 11
	r := rand.New(rand.NewPCG(seed, 1))
	var cases []exportCase
	add := func(spec algos.Spec, task algos.Task, options map[string]string, s shape, o prep.Options) {
		p, rows := trained(t, spec, task, small(spec, options), s, o, r)
		cases = append(cases, exportCase{fmt.Sprintf("%s %s %v, %s, %s", spec.Name, task, options, s.name, p.Preprocessing()), p, rows})
	}
	kernels := map[string]bool{}
	for _, spec := range registry.All {
		for _, task := range spec.Tasks {
			add(spec, task, map[string]string{}, denseShape, prep.Options{Scale: prep.Standard})
			add(spec, task, map[string]string{}, listedShape, prep.Options{Scale: prep.Common, HashDim: 16})
			if spec.Name == "adaptive" { // its experts are others where there are many features
				add(spec, task, map[string]string{}, farShape, prep.Options{})
				c := &cases[len(cases)-1]
				unseen := stream.Vec{Idx: append(slices.Clone(c.rows[0].Idx), 4000), Val: append(slices.Clone(c.rows[0].Val), 2)}
				c.rows = append(c.rows, unseen)
			}
		}
		if slices.Contains(spec.Tasks, algos.Classify) {
			options := small(spec, map[string]string{})
			p, rows := trainedOn(t, ovr.Spec(spec), algos.Env{Seed: 1, Task: algos.Classify, Classes: 4}, options, denseShape, prep.Options{Scale: prep.Standard}, r)
			cases = append(cases, exportCase{spec.Name + " of classes", p, rows})
		}
		for _, o := range spec.Options {
			if o.Name != "kernel" {
				continue
			}
			for k := range strings.SplitSeq(o.Enum, ",") {
				kernels[k] = true
				add(spec, spec.Tasks[0], map[string]string{"kernel": k}, listedShape, prep.Options{Scale: prep.Unit})
			}
		}
	}
	for _, k := range []string{"rbf", "linear", "poly", "laplacian"} {
		if !kernels[k] {
			t.Errorf("no learner has kernel %s", k)
		}
	}
	for _, name := range []string{"sbp", "online"} { // what happens before the model is the same for all
		spec, err := registry.Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, scale := range prep.Scales() {
			for _, s := range []shape{denseShape, listedShape, farShape} {
				for _, hash := range []int{0, 64, 37} {
					if spec.Kind != algos.Kernel && hash == 37 {
						continue // what hashing does has been seen
					}
					add(spec, algos.Classify, map[string]string{}, s, prep.Options{Scale: scale, HashDim: hash, Span: 50})
				}
			}
		}
	}
	for _, name := range []string{"panel", "alone"} { // mixtures, which are no longer made
		p, err := predictor.Load(filepath.Join("testdata", name+".ssm"))
		if err != nil {
			t.Fatal(err)
		}
		rows := []stream.Vec{{Val: []float32{}}, {Val: []float32{0.5, -2, 1}}, {Idx: []int32{1}, Val: []float32{1.5}}}
		cases = append(cases, exportCase{name + " of an earlier version", p, rows})
	}

	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("reader.py", reader(t))
	write("driver.py", driver)
	heavy := 0
	for i, c := range cases {
		var doc, rows bytes.Buffer
		if err := c.p.Export(&doc, predictor.ExportOptions{}); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		heavy += strings.Count(doc.String(), "asinh_size")
		e := json.NewEncoder(&rows)
		for _, x := range c.rows {
			if err := e.Encode(row(x)); err != nil {
				t.Fatal(err)
			}
		}
		write(fmt.Sprintf("%d.json", i), doc.String())
		write(fmt.Sprintf("%d.jsonl", i), rows.String())
	}
	if heavy < 10 {
		t.Errorf("%d scalings with asinh", heavy)
	}
	cmd := exec.CommandContext(t.Context(), exe, "driver.py", strconv.Itoa(len(cases)))
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(lines) != len(cases) {
		t.Fatalf("%d lines for %d models", len(lines), len(cases))
	}
	worst, of := 0.0, ""
	for i, c := range cases {
		got := strings.Fields(lines[i])
		if len(got) != len(c.rows) {
			t.Fatalf("%s: %d decisions for %d rows", c.name, len(got), len(c.rows))
		}
		want := make([]float64, len(got))
		size := 0.0 // root of the mean square
		for k, x := range c.rows {
			want[k] = c.p.Decision(x)
			size += want[k] * want[k] / float64(len(got))
		}
		if size = math.Sqrt(size); size == 0 || size-size != 0 {
			t.Errorf("seed %d, %s: decisions of size %g check nothing", seed, c.name, size)
			continue
		}
		for k, text := range got {
			v, err := strconv.ParseFloat(text, 64)
			if err != nil {
				t.Fatal(err)
			}
			diff := math.Abs(v-want[k]) / max(size, math.Abs(want[k]))
			if !(diff <= 1e-4) {
				t.Errorf("seed %d, %s: row %d %v: the reader decides %v, streamsvm %v", seed, c.name, k, c.rows[k], v, want[k])
				break
			}
			if diff > worst {
				worst, of = diff, c.name
			}
		}
	}
	t.Logf("%d models; the largest relative difference is %.2g, of %s", len(cases), worst, of)

	// The program by itself, with a model that it must refuse.
	data, err := os.ReadFile(filepath.Join(dir, "0.json"))
	if err != nil {
		t.Fatal(err)
	}
	write("later.json", strings.Replace(string(data), `"version": 2`, `"version": 3`, 1))
	for name, ok := range map[string]bool{"0.json": true, "later.json": false} {
		cmd := exec.CommandContext(t.Context(), exe, "reader.py", name)
		cmd.Dir, cmd.Stdin = dir, strings.NewReader("[1, 2, 3]\n")
		out, err := cmd.CombinedOutput()
		if ok && (err != nil || !strings.HasSuffix(string(out), " None\n")) || !ok && (err == nil || !strings.Contains(string(out), "not a model of a known version")) {
			t.Errorf("%s: %v: %s", name, err, out)
		}
	}
}

// TestExportRefuses: what cannot be exported is an error, and nothing is
// written.
func TestExportRefuses(t *testing.T) {
	spec, err := registry.Lookup("online")
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	of := func(m algos.Model) *predictor.Predictor {
		return predictor.New(spec, algos.Classify, nil, new(prep.Transform), m)
	}
	err = of(model.NewLinear([]float64{1, math.Inf(1)}, 0)).Export(&b, predictor.ExportOptions{})
	if err == nil || !strings.Contains(err.Error(), "+Inf") {
		t.Errorf("an infinite weight: %v", err)
	}
	points := []stream.Vec{{Val: []float32{1, 2, 3}}, {Val: []float32{1, 2, 4}}}
	expansion, err := model.NewExpansion(model.Kernel{Name: "rbf", Gamma: 1}, points, []float64{1, -1}, 0)
	if err != nil {
		t.Fatal(err)
	}
	big := of(expansion)
	var limit *plain.LimitError
	if err := big.Export(&b, predictor.ExportOptions{MaxNumbers: 5}); !errors.As(err, &limit) || limit.Numbers != 6 {
		t.Errorf("6 numbers of 5: %v", err)
	}
	if b.Len() != 0 {
		t.Errorf("%d bytes of what was refused", b.Len())
	}
	if err := big.Export(&b, predictor.ExportOptions{MaxNumbers: 6}); err != nil || b.Len() == 0 {
		t.Errorf("6 numbers of 6: %v", err)
	}
}
