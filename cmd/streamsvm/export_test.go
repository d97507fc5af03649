package main

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/streamsvm/streamsvm/contrib/inspect"
	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/internal/app/describe"
	"github.com/streamsvm/streamsvm/internal/delta"
	"github.com/streamsvm/streamsvm/internal/testkit/kafkatest"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/kafkaio"
	"github.com/streamsvm/streamsvm/stream/modeltopic"
)

// exported is the part of an exported model that these tests look at.
type exportedModel struct {
	Format, Learner, Task string
	Version               int
	Origin                *struct {
		Model    string
		Version  uint64
		Examples uint64
		Hash     string
	}
	Model struct {
		Kind string
		Coef []float64
	}
}

// modelFile trains a model on n examples.
func modelFile(t *testing.T, n int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "model.ssm")
	must(t, append([]string{"replay", moons(t, "train.libsvm", n, 0), "--model", path}, learn...)...)
	return path
}

func TestModelExport(t *testing.T) {
	path := modelFile(t, 600)
	out := must(t, "model", "export", path)
	m := decode[exportedModel](t, out)
	if m.Format != "streamsvm-model" || m.Version != 2 || m.Learner != "sbp" || m.Task != "classify" || m.Origin != nil || m.Model.Kind != "kernel" || len(m.Model.Coef) == 0 {
		t.Errorf("exported %+v", m)
	}
	other := filepath.Join(t.TempDir(), "other")
	write(t, other, "streamsvm-predictor-1\nbut no more")
	for _, c := range []struct {
		args []string
		code cli.Code
		text string
	}{
		{[]string{"model", "exprot", path}, cli.Usage, `did you mean "export"`},
		{[]string{"model", "export"}, cli.Usage, "--model-topic"},
		{[]string{"model", "export", path, "--model-topic", "models"}, cli.Usage, "not both"},
		{[]string{"model", "export", path, "--format", "pmml"}, cli.Usage, "onnx"},
		{[]string{"model", "export", other}, cli.Data, "checksum"},
		{[]string{"model", "export", other + "s"}, cli.IO, "no such file"},
		{[]string{"model", "inspect"}, cli.Usage, "--model-topic"},
	} {
		code, out, errText := streamsvm(t.Context(), c.args...)
		if code != int(c.code) || !strings.Contains(errText, c.text) || out != "" {
			t.Errorf("%v: exit code %d, %q, output %q; want %d, %q", c.args, code, errText, out, c.code, c.text)
		}
	}
}

// A compacted model is smaller, is read, and decides the same but for what is said.
func TestModelCompact(t *testing.T) {
	dir := t.TempDir()
	path, small := filepath.Join(dir, "model.ssm"), filepath.Join(dir, "small.ssm")
	train := moons(t, "train.libsvm", 1500, 0)
	must(t, "replay", train, "--model", path, "--learner", "sbp")
	out := must(t, "model", "compact", path, "--max-change", "0.25", "--out", small)
	var after, before int
	var change float64
	if _, err := fmt.Sscanf(strings.TrimPrefix(out, small), ": %d bytes, %d before; no decision changes by more than %g", &after, &before, &change); err != nil {
		t.Fatalf("%q: %v", out, err)
	}
	if !(change > 0 && change <= 0.25) || after >= before {
		t.Error(out)
	}
	for name, size := range map[string]int{path: before, small: after} {
		if info, err := os.Stat(name); err != nil || info.Size() != int64(size) {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	f := strings.Fields(must(t, "predict", "--model", path, "--output", "decision", train))
	g := strings.Fields(must(t, "predict", "--model", small, "--output", "decision", train))
	moved := false
	for i := range f {
		x, err := strconv.ParseFloat(f[i], 64)
		if err != nil {
			t.Fatal(err)
		}
		y, err := strconv.ParseFloat(g[i], 64)
		if err != nil || math.Abs(x-y) > change {
			t.Fatalf("decision %d: %g, %g before, %v", i, y, x, err)
		}
		moved = moved || x != y
	}
	if !moved {
		t.Error("nothing has been rounded")
	}
	for _, args := range [][]string{
		{"model", "compact", path, "--out", small},
		{"model", "compact", path, "--max-change", "0.5"},
		{"model", "compact", path, "--max-change", "-1", "--out", small},
		{"model", "compact", path, "--max-change", "1", "--out", small, "--format", "onnx"},
		{"model", "export", path, "--max-change", "1"},
	} {
		if code, _, _ := streamsvm(t.Context(), args...); code != int(cli.Usage) {
			t.Errorf("%v: code %d", args, code)
		}
	}
	if code, _, text := streamsvm(t.Context(), "model", "compact", path, "--max-change", "1e-30", "--out", small); code != int(cli.Data) {
		t.Errorf("code %d: %s", code, text)
	}
}

// TestModelExportONNX tests only that the command writes the model; package onnx
// tests the model.
func TestModelExportONNX(t *testing.T) {
	path := modelFile(t, 600)
	out := must(t, "model", "export", path, "--format", "onnx")
	if !strings.HasPrefix(out, "\x08\x08\x12\x09streamsvm") { // IR 8, producer
		t.Errorf("it begins with %q", out[:min(20, len(out))])
	}
	var texts strings.Builder
	for i := range 400 {
		fmt.Fprintf(&texts, `{"words":["order","a%d",%q],"y":%d}`+"\n", i%9, []string{"late", "here"}[i%2], i%2)
	}
	wordy := filepath.Join(t.TempDir(), "wordy.ssm")
	must(t, append([]string{"replay", save(t, "texts.jsonl", texts.String()), "--model", wordy}, learn...)...)
	file := filepath.Join(t.TempDir(), "wordy.onnx")
	code, _, errText := streamsvm(t.Context(), "model", "export", wordy, "--format", "onnx", "--out", file)
	if _, err := os.Stat(file); code != int(cli.Data) || !strings.Contains(errText, "field words is a list of categories") || err == nil {
		t.Errorf("a list of texts: exit code %d, %s, file %v", code, errText, err)
	}
}

// TestModelTopic describes and exports what a topic holds: two versions of a
// model as full and delta, and another model; then with damage.
func TestModelTopic(t *testing.T) {
	c := newCluster(t)
	topic := c.name()
	var payloads [][]byte
	for _, n := range []int{500, 700} {
		data := read(t, modelFile(t, n))
		payloads = append(payloads, data)
	}
	pubs := map[string]*modeltopic.Publisher{}
	publish := func(model string, version, base uint64, payload []byte) {
		t.Helper()
		if pubs[model] == nil {
			pub, err := modeltopic.NewPublisher(t.Context(), modeltopic.PublisherOptions{Config: kafkaio.Config{Brokers: c.brokers}, Topic: topic, Model: model, MaxRecordBytes: 4000})
			if err == nil {
				err = pub.Claim(t.Context(), "test", 3)
			}
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { pub.Close() })
			pubs[model] = pub
		}
		u := &stream.Update{
			Kind: stream.Full, Model: model, Learner: "sbp", Version: version, Base: base, Epoch: 3, Step: 7, Examples: 100 * version,
			Offsets: stream.Offsets{{Topic: "in", ID: 2}: 55}, Created: time.UnixMilli(1_700_000_000_000),
			Evaluation: []stream.Measure{{Name: "prequential_accuracy", Value: 0.75}}, Payload: payload, Hash: xxhash.Sum64(payload),
		}
		if base > 0 {
			u.Kind = stream.Delta
		}
		err := pubs[model].Publish(t.Context(), u)
		if err == nil {
			err = pubs[model].Release(t.Context()) // a broker answers a moment before it can be read
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"model", "inspect"}, {"model", "export"}} {
		args = append(args, "--model-topic", topic, "--brokers", strings.Join(c.brokers, ","))
		if code, _, errText := streamsvm(t.Context(), args...); code != int(cli.Unavailable) || !strings.Contains(errText, "does not exist") {
			t.Errorf("%v: exit code %d, %s", args, code, errText)
		}
	}
	if slices.Contains(kafkatest.Topics(t, c.brokers), topic) {
		t.Fatal("looking has made the topic")
	}

	publish("clicks", 4, 0, payloads[0])
	publish("clicks", 5, 4, delta.Diff(payloads[0], payloads[1]))
	// One model: it needs no name, and is that of the file.
	out := c.run("model", "export", "--model-topic", topic)
	m := decode[exportedModel](t, out)
	if o := m.Origin; o == nil || o.Model != "clicks" || o.Version != 5 || o.Examples != 500 || o.Hash != describe.Hash(xxhash.Sum64(payloads[1])) {
		t.Errorf("exported %+v", m.Origin)
	}
	path := filepath.Join(t.TempDir(), "model.ssm")
	write(t, path, payloads[1])
	if file := must(t, "model", "export", path); modelLine(out) != modelLine(file) || modelLine(out) == "" {
		t.Error("the model of the topic and that of the file are exported differently")
	}
	publish("views", 1, 0, payloads[0])
	if code, _, errText := streamsvm(t.Context(), "model", "export", "--model-topic", topic, "--brokers", c.brokers[0]); code != int(cli.Usage) || !strings.Contains(errText, "clicks, views") {
		t.Errorf("two models without a name: exit code %d, %s", code, errText)
	}
	if m := decode[exportedModel](t, c.run("model", "export", "--model-topic", topic, "--model-name", "views")); m.Origin.Model != "views" {
		t.Errorf("views is exported as %+v", m.Origin)
	}

	before := kafkatest.ReadAll(t, c.brokers, topic)
	d := decode[[]inspect.Description](t, c.run("model", "inspect", "--json", path, "--model-topic", topic))
	if len(d) != 2 || d[0].Kind != "model" || d[1].Kind != "model topic" || len(d[1].Topic.Models) != 2 || d[1].Damage != "" || d[1].Topic.Records != uint64(len(before)) {
		t.Fatalf("inspect says %+v", d)
	}
	clicks := d[1].Topic.Models[0]
	var states []string
	for _, u := range clicks.Updates {
		states = append(states, fmt.Sprintf("%s %d %s", u.Kind, u.Version, u.State))
		if !u.Verified || u.Held != u.Chunks {
			t.Errorf("update %+v", u)
		}
	}
	if want := []string{"full 4 current", "delta 5 applied"}; !slices.Equal(states, want) {
		t.Errorf("updates %v, want %v", states, want)
	}
	if n := clicks.Newest; n.Version != 5 || n.Epoch != 3 || n.Step != 7 || n.Bytes != len(payloads[1]) || n.Learner != "sbp" || n.ModelKind != "kernel" ||
		n.Evaluation["prequential_accuracy"] != 0.75 || len(n.Offsets) != 1 || n.Offsets[0].Next != 55 {
		t.Errorf("newest %+v", n)
	}
	text := c.run("model", "inspect", "--model-topic", topic, "--model-name", "clicks")
	for _, want := range []string{"kind: full, version: 4,", "kind: delta, version: 5, base: 4,", "{topic: in, partition: 2, next: 55}", "prequential_accuracy: 0.75", "2023-11-14"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if strings.Contains(text, "views") {
		t.Errorf("another model than was asked for in\n%s", text)
	}
	// Looking has changed nothing.
	after := kafkatest.ReadAll(t, c.brokers, topic)
	if len(after) != len(before) {
		t.Errorf("%d records have become %d", len(before), len(after))
	}

	// A delta on a version that is not there, and a full that cannot be decoded.
	publish("clicks", 9, 8, delta.Diff(payloads[0], payloads[1]))
	publish("views", 2, 0, bytes.Repeat([]byte{1}, 100))
	args := []string{"model", "inspect", "--model-topic", topic, "--brokers", c.brokers[0]}
	code, text, errText := streamsvm(t.Context(), args...)
	for _, want := range []string{"state: unchained", "kind: delta, version: 9, base: 8,", "version 2 cannot be decoded"} {
		if code != int(cli.Data) || !strings.Contains(text, want) {
			t.Errorf("exit code %d, %s; no %q in\n%s", code, errText, want, text)
		}
	}
	if code, out, errText := streamsvm(t.Context(), "model", "export", "--model-topic", topic, "--model-name", "views", "--brokers", c.brokers[0]); code != int(cli.Data) || out != "" {
		t.Errorf("what cannot be decoded: exit code %d, %s", code, errText)
	}
	if code, _, errText := streamsvm(t.Context(), append(args, "--model-name", "none")...); code != int(cli.Data) || !strings.Contains(errText, "no model none") {
		t.Errorf("a name that is not there: exit code %d, %s", code, errText)
	}
}

// modelLine is the line with the model in an export.
func modelLine(out string) string {
	for line := range strings.Lines(out) {
		if strings.HasPrefix(line, `"model": {"kind"`) {
			return line
		}
	}
	return ""
}

// TestRequireExport: train refuses before it learns, and doctor says so, what no model
// of the records could be exported for.
func TestRequireExport(t *testing.T) {
	c := newCluster(t)
	topic, dir := c.name(), t.TempDir()
	var b strings.Builder
	for i := range 600 {
		fmt.Fprintf(&b, `{"amount":%d,"note":"word%d and more of them","tags":["a","b%d"],"fraud":%t}`+"\n", i%50, i, i%3, i%50 > 25)
	}
	in, events := filepath.Join(dir, "in.jsonl"), filepath.Join(dir, "events.yaml")
	write(t, in, b.String())
	write(t, events, "label: fraud\nfeatures: {amount: numeric, tags: ignore, note: text}\n")
	c.run("copy", in, "--topic", topic, "--partitions", "1", "-q")
	const why = "field tags is a list of categories"
	train := append([]string{"--topics", topic, "--brokers", strings.Join(c.brokers, ","), "--label", "fraud", "--require-export", "onnx"}, learn...)
	fails(t, append([]string{"train", "--until-end"}, train...), "--require-export onnx: ", why)
	if code, out, _ := streamsvm(t.Context(), append([]string{"doctor"}, train...)...); code == 0 || !strings.Contains(out, "FAIL  export: ") || !strings.Contains(out, why) {
		t.Errorf("doctor: exit code %d: %s", code, out)
	}
	if out := c.run("doctor", "--topics", topic, "--label", "fraud"); !strings.Contains(out, "models cannot be exported as onnx: ") || !strings.Contains(out, why) {
		t.Errorf("doctor without the flag: %s", out)
	}
	must(t, append([]string{"train", "--until-end", "--events", events}, append(train[:4:4], train[6:]...)...)...)
}
