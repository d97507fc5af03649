package onnx_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/algos/registry"
	"github.com/streamsvm/streamsvm/internal/prep"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/codec"
)

// TestMLflow: MLflow itself loads the directory, and predicts tables of events and
// of vectors.
func TestMLflow(t *testing.T) {
	python := onnxPython(t)
	r := rand.New(rand.NewPCG(9, 10))
	spec, err := registry.Lookup("pegasos")
	if err != nil {
		t.Fatal(err)
	}
	labels := `"ash","beech","cedar","fir"`
	d, err := codec.New("json", codec.Options{Labels: labels, Schema: eventSchemas["full"]})
	if err != nil {
		t.Fatal(err)
	}
	var xs []*stream.Example
	var events []map[string]any
	for len(xs) < 200 {
		e := drawn(r, .1)
		delete(e, "seen") // no row has this column
		e["_value"] = e["value"]
		data, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		x := stream.Example{Seq: uint64(len(xs) + 1)}
		if err := d.Decode(data, &x); err != nil {
			t.Fatal(err)
		}
		amount, _ := e["amount"].(float64)
		x.Y, x.Labelled = math.Mod(amount, 5), true
		xs, events = append(xs, &x), append(events, e)
	}
	sig := codec.SignatureOf(d)
	sig.Dim, sig.Index = xs[0].X.Dim(), xs[0].X.Dim()
	check(t, python, learned(t, spec, algos.Env{Seed: 1, Task: algos.Classify, Classes: 4}, map[string]string{}, xs[:160], prep.Options{}, sig), xs, events)

	xs = vectors(r, 200, 7, 7)
	var table []map[string]any
	for _, x := range xs {
		row := map[string]any{}
		for j, v := range x.X.Val {
			row[fmt.Sprintf("f%d", j)] = v
		}
		table = append(table, row)
	}
	for _, args := range [][]string{nil, {"--array"}} {
		c := learned(t, spec, algos.Env{Seed: 1, Task: algos.Classify}, map[string]string{}, xs[:160], prep.Options{}, codec.Signature{Codec: "json", Labels: "0,1", Dim: 7, Index: 7})
		check(t, python, c, xs, table, args...)
	}
}

// check has MLflow predict a table, of which xs are the vectors.
func check(t *testing.T, python string, c *onnxCase, xs []*stream.Example, table []map[string]any, args ...string) {
	t.Helper()
	m, err := convert(c.p)
	if err != nil {
		t.Fatal(err)
	}
	files, err := m.MLflow()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, f := range files {
		path := filepath.Join(dir, f.Name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, f.Data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	data, err := json.Marshal(table)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), python, append([]string{"testdata/mlflow_run.py", dir}, args...)...)
	var errText bytes.Buffer
	cmd.Stdin, cmd.Stderr = bytes.NewReader(data), &errText
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, errText.String())
	}
	var got []map[string]any
	if err := json.Unmarshal(out, &got); err != nil || len(got) != len(xs) {
		t.Fatalf("%v: %d rows: %s", err, len(got), out)
	}
	s := c.p.Signature()
	for i, x := range xs {
		if want := s.Label(c.p.Predict(x.X)); fmt.Sprint(got[i]["label"]) != fmt.Sprint(want) {
			t.Errorf("row %d has the label %v, want %v", i, got[i]["label"], want)
		}
		want, name := c.p.Decision(x.X), "decision"
		if k := c.p.Classes(); k > 2 {
			scores := make([]float64, k)
			c.p.Scores(scores, []stream.Vec{x.X})
			want, name = scores[1], fmt.Sprint("decision ", s.Label(1))
		}
		if v, ok := got[i][name].(float64); !ok || !(math.Abs(v-want) <= 1e-4*math.Abs(want)+1e-5) {
			t.Errorf("row %d: %s is %v, want %v", i, name, got[i][name], want)
		}
	}
}
