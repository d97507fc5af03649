package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/streamsvm/streamsvm/contrib/inspect"
)

// keys lists the paths of all keys of a JSON object, but not those below any
// of the paths in stop.
func keys(v any, prefix string, stop ...string) []string {
	m, ok := v.(map[string]any)
	if !ok || slices.Contains(stop, prefix) {
		return nil
	}
	var all []string
	for k, sub := range m {
		path := strings.TrimPrefix(prefix+"."+k, ".")
		all = append(all, path)
		all = append(all, keys(sub, path, stop...)...)
	}
	slices.Sort(all)
	return all
}

// contract lists the keys of replay's JSON.
var contract = strings.Fields(`
	cuts dead delay examples examples_per_second folds labelled learner model model.bytes model.kind model.nonzero model.support options peak_rss_bytes
	prequential prequential.accuracy prequential.auc prequential.balanced_accuracy
	prequential.baseline prequential.baseline.majority prequential.baseline.no_change
	prequential.brier prequential.brier_skill prequential.ece prequential.ece_noise
	prequential.error prequential.hinge prequential.interval prequential.kappa prequential.kappa_t prequential.log_loss
	prequential.reliability prequential.window seconds seed state_hash test test.accuracy test.auc test.error test.examples
	tombstones train train.certificate train.kernel_evaluations train.objective train.sample train.steps unlabelled warnings`)

func TestReplayJSONContract(t *testing.T) {
	train, test := moons(t, "train.libsvm.gz", 1200, 0), moons(t, "test.libsvm.gz", 300, 5000)
	args := []string{"replay", train, "--learner", "sbp", "--tune=off", "--warmup", "100", "--json", "-"}
	out := must(t, append(args, "--test", test)...)
	got := decode[map[string]any](t, out)
	if all := keys(got, "", "options", "prequential.window"); !slices.Equal(all, contract) {
		t.Errorf("keys\n%v, want\n%v", all, contract)
	}
	if acc := got["test"].(map[string]any)["accuracy"].(float64); acc < 0.95 {
		t.Errorf("test accuracy %v on a stream that is easy to learn", acc)
	}
	if got["examples"] != 1200.0 || got["labelled"] != 1200.0 || got["dead"] != 0.0 || got["seed"] != 1.0 {
		t.Errorf("counts are wrong in %s", out)
	}
	if o := got["options"].(map[string]any); o["buffer"] != 10000.0 || o["kernel"] != "rbf" {
		t.Errorf("options are not complete and typed: %v", o)
	}
	// What does not apply is null, and nothing else goes to standard output.
	got = decode[map[string]any](t, must(t, args...))
	if v, ok := got["test"]; !ok || v != nil {
		t.Errorf("test is %v without --test", v)
	}
	if v := got["train"].(map[string]any)["certificate"]; v != nil {
		t.Errorf("sbp has the certificate %v", v)
	}
}

// TestReplayWarns replays labels that come in runs of 50, and features that say
// nothing about them.
func TestReplayWarns(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runs.libsvm")
	var b strings.Builder
	for i := range 1500 {
		fmt.Fprintf(&b, "%d 1:%d 2:%d\n", 2*(i/50%2)-1, i*7919%101-50, i*104729%97-50)
	}
	write(t, path, b.String())
	out := must(t, "replay", path, "--learner", "sbp", "--tune=off", "--warmup", "100", "-q")
	for _, want := range []string{"kappa-temporal -", "95 % interval  accuracy ", "larger class so far ", ", label before 98.", "warning ", "Over all 1400 examples the learner is right in ", "predicting the label of the example before again in 98."} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	r := replayJSON(t, path)
	if i := r.Prequential.Interval; len(r.Warnings) == 0 ||
		i == nil || i[0] > r.Prequential.Accuracy || i[1] < r.Prequential.Accuracy || r.Prequential.Baseline.NoChange < 0.97 {
		t.Errorf("%+v", r)
	}
	r.cuts, r.Cuts = 3, []cutResult{{At: 7, From: 9, To: 8, Z: 3}, {At: 900, From: 500, To: 64, Z: 3.5}}
	if rows := fmt.Sprint(r.rows()); !strings.Contains(rows, "[cuts 3 of the sample, the last one at example 900 from 500 to 64]") {
		t.Error(rows)
	}
}

func replayJSON(t *testing.T, args ...string) result {
	t.Helper()
	return decode[result](t, must(t, append([]string{"replay", "--learner", "sbp", "--tune=off", "--warmup", "100", "-q", "--json", "-"}, args...)...))
}

func TestReplayFlags(t *testing.T) {
	train := moons(t, "train.libsvm.gz", 1500, 0)
	base := replayJSON(t, train)
	if again := replayJSON(t, train); again.StateHash != base.StateHash {
		t.Errorf("the same run gave state %s and %s", base.StateHash, again.StateHash)
	}
	for _, c := range []struct {
		args                 []string
		examples, labels     uint64
		same                 bool // as base
		prequential          uint64
		minAccuracy, maximum float64
	}{
		{args: []string{"--seed", "2", "--set", "buffer=400"}, examples: 1500, labels: 1500},
		{args: []string{"--set", "gamma=3"}, examples: 1500, labels: 1500},
		{args: []string{"--scale", "standard"}, examples: 1500, labels: 1500},
		{args: []string{"--limit", "400"}, examples: 400, labels: 400},
		{args: []string{"--passes", "3"}, examples: 4500, labels: 4500},
		{args: []string{"--labelled", "200"}, examples: 1500, labels: 200},
		{args: []string{"--labelled", "1500"}, examples: 1500, labels: 1500, same: true},
		{args: []string{"--labelled", "10", "--passes", "2"}, examples: 3000, labels: 20},
		{args: []string{"--delay", "100"}, examples: 1500, labels: 1500},
		{args: []string{"--delay", "100", "--labelled", "200", "--passes", "2"}, examples: 3000, labels: 400},
		{args: []string{"--shuffle", "7"}, examples: 1500, labels: 1500},
		{args: []string{"--shuffle", "7", "--labelled", "77"}, examples: 1500, labels: 77},
		{args: []string{"--checkpoint-every", "100", "--checkpoint", filepath.Join(t.TempDir(), "s")}, examples: 1500, labels: 1500, same: true},
	} {
		r := replayJSON(t, append(c.args, train)...)
		if r.Examples != c.examples || r.Labelled != c.labels || r.Unlabelled != c.examples-c.labels {
			t.Errorf("%v: %d examples, %d labelled, %d unlabelled; want %d and %d labelled", c.args, r.Examples, r.Labelled, r.Unlabelled, c.examples, c.labels)
		}
		if (r.StateHash == base.StateHash) != c.same {
			t.Errorf("%v: state %s, base %s, want them equal: %v", c.args, r.StateHash, base.StateHash, c.same)
		}
	}
	// Late labels cost what the model cannot know yet, and nothing of what it is in
	// the end: it is what it would be, but for the state of the wait.
	dir := t.TempDir()
	var models [2][]byte
	var accuracy [2]float64
	for i, delay := range []string{"0", "400"} {
		model := filepath.Join(dir, delay)
		r := replayJSON(t, train, "--learner", "online", "--tune", "off", "--warmup", "50", "--delay", delay, "--model", model)
		if accuracy[i] = float64(r.Prequential.Accuracy); fmt.Sprint(r.Delay) != delay {
			t.Errorf("--delay %s gives %d", delay, r.Delay)
		}
		data := read(t, model)
		models[i] = learned(t, data)
	}
	if !bytes.Equal(models[0], models[1]) || !(accuracy[1] < accuracy[0]) {
		t.Errorf("with labels 400 examples later models are equal: %v, accuracies %v", bytes.Equal(models[0], models[1]), accuracy)
	}
	for _, args := range [][]string{{"--delay", "-1"}, {"--delay", "16777217"}, {"--delay", "1", "--join", "key", "--labels-topic", "x"}} {
		if code, _, errText := streamsvm(t.Context(), append([]string{"replay", train}, args...)...); code != 64 || !strings.Contains(errText, "delay") {
			t.Errorf("%v: exit code %d, %q", args, code, errText)
		}
	}
	a, b := replayJSON(t, train, "--labelled", "200"), replayJSON(t, train, "--labelled", "200", "--seed", "9", "--set", "buffer=50000")
	if a.StateHash == b.StateHash {
		t.Error("another seed keeps the same labels")
	}
	if r := replayJSON(t, train, "--shuffle", "3", "--holdout", "0.2"); r.Examples != 1200 || r.Test == nil || r.Test.Examples != 300 || r.Test.Accuracy < 0.95 {
		t.Errorf("--holdout 0.2: %d examples, test %+v", r.Examples, r.Test)
	}
}

// TestReplayHidesExactlyTheLabels: hidden labels are neither learned from nor
// scored, also where some records cannot be used.
func TestReplayHidesExactlyTheLabels(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mixed.json")
	var b strings.Builder
	for i := range 300 {
		switch {
		case i%10 == 3:
			b.WriteString(`{"x":[1]}` + "\n") // a dimension of its own: refused
		case i%10 == 5:
			b.WriteString(`{"x":[0,1]}` + "\n") // no label
		case i%2 == 0:
			b.WriteString(`{"x":[1,0.5],"y":1}` + "\n")
		default:
			b.WriteString(`{"x":[0,0.5],"y":-1}` + "\n")
		}
	}
	write(t, path, b.String())
	r := replayJSON(t, path, "--tolerance", "data", "--labelled", "100")
	if r.Dead != 30 || r.Examples != 270 || r.Labelled != 100 || r.Unlabelled != 170 {
		t.Errorf("dead %d, examples %d, labelled %d, unlabelled %d; want 30, 270, 100, 170", r.Dead, r.Examples, r.Labelled, r.Unlabelled)
	}
	code, _, errText := streamsvm(t.Context(), "replay", path, "--learner", "sbp", "-q")
	if code != 65 || !strings.Contains(errText, "offset 3: feature, x") {
		t.Errorf("without tolerance: exit code %d, %q", code, errText)
	}
}

func TestReplayModelCheckpointReport(t *testing.T) {
	train, test := moons(t, "train.libsvm", 1500, 0), moons(t, "test.libsvm", 200, 3000)
	dir := t.TempDir()
	model, state, rep, js := filepath.Join(dir, "m.ssm"), filepath.Join(dir, "state"), filepath.Join(dir, "report"), filepath.Join(dir, "r.json")
	out := must(t, "replay", train, "--learner", "sbp", "--tune=off", "--test", test, "--model", model, "--checkpoint", state, "--report", rep, "--json", js)
	if !strings.Contains(out, "prequential") || !strings.Contains(out, "on 200 examples") {
		t.Errorf("the summary is\n%s", out)
	}
	data := read(t, js)
	r := decode[result](t, string(data))
	for _, name := range []string{"index.html"} {
		if info, err := os.Stat(filepath.Join(rep, name)); err != nil || info.Size() == 0 {
			t.Errorf("report: %v", err)
		}
	}

	// The model predicts as the test did.
	lines := strings.Split(strings.TrimSpace(must(t, "predict", "--model", model, "--output", "label", test)), "\n")
	want := read(t, test)
	right := 0
	for i, line := range strings.Split(strings.TrimSpace(string(want)), "\n") {
		y := strings.TrimPrefix(strings.Fields(line)[0], "+")
		if lines[i] == y {
			right++
		}
	}
	if got := float64(right) / 200; len(lines) != 200 || got != float64(r.Test.Accuracy) {
		t.Errorf("%d predictions, accuracy %v, the test says %v", len(lines), got, r.Test.Accuracy)
	}

	// inspect knows all of it, and the checkpoint is that of the state.
	ds := decode[[]inspect.Description](t, must(t, "model", "inspect", "--json", model, state))
	if len(ds) != 2 || ds[0].Kind != "model" || ds[0].Learner != "sbp" || *ds[0].Support != *r.Model.Support {
		t.Errorf("inspect says %+v", ds)
	}
	if c := ds[1]; c.Kind != "checkpoint" || c.StateHash != r.StateHash || c.Examples != 1500 || c.Partitions[0].Next != 1500 {
		t.Errorf("inspect says %+v, want state %s", c, r.StateHash)
	}

	// A second run finds nothing to do, and a longer file is gone on with.
	again := decode[result](t, must(t, "replay", train, "--learner", "sbp", "--tune=off", "--checkpoint", state, "--json", "-", "-q"))
	if again.StateHash != r.StateHash || again.Examples != 1500 {
		t.Errorf("the second run has state %s and %d examples, the first %s", again.StateHash, again.Examples, r.StateHash)
	}
	more := decode[result](t, must(t, "replay", train, test, "--learner", "sbp", "--tune=off", "--checkpoint", state, "--json", "-", "-q"))
	if more.Examples != 1700 {
		t.Errorf("with another file: %d examples", more.Examples)
	}
	// Another configuration must not go on from it.
	code, _, errText := streamsvm(t.Context(), "replay", train, "--learner", "sbp", "--tune=off", "--seed", "8", "--checkpoint", state, "-q")
	if code != 78 || !strings.Contains(errText, "seed") {
		t.Errorf("another seed: exit code %d, %q", code, errText)
	}
}

func TestInspectDamage(t *testing.T) {
	train := moons(t, "train.libsvm", 500, 0)
	dir := t.TempDir()
	state := filepath.Join(dir, "state")
	must(t, "replay", train, "--learner", "sbp", "--tune=off", "--checkpoint", state, "-q")
	files, err := filepath.Glob(filepath.Join(state, "*.ssc"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%v, %v", files, err)
	}
	data := read(t, files[0])
	data[len(data)-100] ^= 1
	write(t, files[0], data)
	code, out, errText := streamsvm(t.Context(), "model", "inspect", state)
	if code != 65 || !strings.Contains(out, "\ndamage: ") || !strings.Contains(errText, "checksum mismatch") {
		t.Errorf("exit code %d\n%s%s", code, out, errText)
	}
}

// TestReportWithoutLabels: nothing to draw is no error.
func TestReportWithoutLabels(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"empty.libsvm": "", "unlabelled.libsvm": "+1 1:1\n-1 1:2\n? 1:3\n"} {
		path := filepath.Join(dir, name)
		write(t, path, text)
		must(t, "replay", path, "--learner", "sbp", "-q", "--report", path+".report")
		if _, err := os.Stat(filepath.Join(path+".report", "index.html")); err != nil {
			t.Error(err)
		}
	}
}
