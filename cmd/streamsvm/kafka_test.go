package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/streamsvm/streamsvm/contrib/inspect"
	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/internal/app/describe"
	"github.com/streamsvm/streamsvm/internal/app/metrics"
	"github.com/streamsvm/streamsvm/internal/deadletter"
	"github.com/streamsvm/streamsvm/internal/eval"
	"github.com/streamsvm/streamsvm/internal/testkit/kafkatest"
	"github.com/streamsvm/streamsvm/internal/version"
	"github.com/streamsvm/streamsvm/predictor"
	"github.com/streamsvm/streamsvm/stream"
)

// learn are the flags of a quick learner.
var learn = []string{"--learner", "sbp", "--tune=off", "--warmup", "200", "-q"}

// cluster is what the tests of this file share: a broker and topic names.
type cluster struct {
	t       *testing.T
	brokers []string
}

func newCluster(t *testing.T) *cluster {
	t.Parallel() // such a test waits for a broker rather than computes
	return &cluster{t, kafkatest.Brokers(t)}
}

func (c *cluster) name() string { return kafkatest.Name(c.t, c.brokers) }

// run runs a command that has to succeed.
func (c *cluster) run(args ...string) string {
	c.t.Helper()
	return must(c.t, append(args, "--brokers", strings.Join(c.brokers, ","))...)
}

// newest describes the newest checkpoint.
func newest(t *testing.T, dir string) inspect.Description {
	t.Helper()
	return decode[[]inspect.Description](t, must(t, "model", "inspect", "--json", dir))[0]
}

// TestProduceTrainSubscribePredict is the whole path: file, topic, training,
// model topic, subscriber, predictions, and the recording of it all.
func TestProduceTrainSubscribePredict(t *testing.T) {
	c := newCluster(t)
	topic, models, predictions := c.name(), c.name(), c.name()
	train, test := moons(t, "train.libsvm.gz", 4000, 0), moons(t, "test.libsvm", 300, 9000)
	dir := t.TempDir()
	state, recording, saved := filepath.Join(dir, "state"), filepath.Join(dir, "run.ssr"), filepath.Join(dir, "models")

	c.run("copy", train, "--topic", topic, "--partitions", "3", "-q")
	args := append([]string{"train", "--topics", topic, "--codec", "libsvm", "--until-end", "--model-topic", models, "--checkpoint", state,
		"--checkpoint-every", "1000", "--record", recording}, learn...)
	c.run(args...)
	s := newest(t, state)
	if m := s.Meta; m["consumed"] != "4000" || m["learned"] != "4000" || m["dead"] != "0" || m["pending"] != "0" || len(s.Partitions) != 3 {
		t.Errorf("the last checkpoint says %+v", s)
	}

	u := decode[updateLine](t, c.run("model", "follow", "--model-topic", models, "--until", "1", "--json", "--save", saved))
	if u.Version != s.ModelVersion || u.Examples != 4000 || u.Learner != "sbp" || u.Model != "model" {
		t.Errorf("the subscriber got %+v, the checkpoint says %+v", u, s)
	}
	file := filepath.Join(saved, "model.ssm")
	if _, err := os.Stat(filepath.Join(saved, fmt.Sprintf("model-%010d.ssm", u.Version))); err != nil {
		t.Error(err)
	}

	// The same decisions, to the bit, from the topic and from the file.
	fromFile := must(t, "predict", "--model", file, "--output", "decision", "-q", test)
	if got := c.run("predict", "--model-topic", models, "--output", "decision", "-q", test); got != fromFile {
		t.Error("decisions with the model of the topic and of the file differ")
	}
	c.run("predict", "--model-topic", models, "--topics", topic, "--predictions-topic", predictions, "--codec", "libsvm", "--until-end", "-q")
	seen := map[string]bool{}
	right := 0
	for _, r := range kafkatest.ReadAll(t, c.brokers, predictions) {
		p := decode[prediction](t, string(r.Value))
		seen[fmt.Sprintf("%s/%d/%d", p.Topic, *p.Partition, *p.Offset)] = true
		if float64(*p.Label) == *p.Y {
			right++
		}
		if p.Version != u.Version || r.Partition != *p.Partition {
			t.Fatalf("prediction %s in partition %d", r.Value, r.Partition)
		}
	}
	if len(seen) != 4000 || right < 3900 {
		t.Errorf("%d different records predicted, %d right; want 4000, most of them right", len(seen), right)
	}

	// The recording leads to the same state; so does training on what it is
	// produced from.
	r := decode[result](t, must(t, append([]string{"replay", recording, "--codec", "libsvm", "--json", "-"}, learn...)...))
	if r.StateHash != s.StateHash {
		t.Errorf("the recording of the run gives state %s, the run gave %s", r.StateHash, s.StateHash)
	}
	d := decode[[]inspect.Description](t, must(t, "model", "inspect", "--json", recording))[0]
	if d.Kind != "recording" || d.Records != 4000 || !*d.Finished || *d.Torn {
		t.Errorf("inspect says %+v of the recording", d)
	}
	// Of a part of it, there is a warning.
	whole, err := os.ReadFile(recording)
	if err != nil {
		t.Fatal(err)
	}
	part := filepath.Join(t.TempDir(), "part.ssr")
	write(t, part, string(whole[:len(whole)/2]))
	if _, _, errText := streamsvm(t.Context(), append([]string{"replay", part, "--codec", "libsvm"}, learn...)...); !strings.Contains(errText, "ends without a trailer") {
		t.Errorf("of a torn recording: %s", errText)
	}
	// Starting again finds nothing to do.
	c.run(args...)
	if again := newest(t, state); again.StateHash != s.StateHash || again.ModelVersion != s.ModelVersion {
		t.Errorf("after another start the state is %s version %d, before %s version %d", again.StateHash, again.ModelVersion, s.StateHash, s.ModelVersion)
	}
}

// TestRecordProduceRecord: a recording survives the way through another topic.
func TestRecordProduceRecord(t *testing.T) {
	c := newCluster(t)
	first, second := c.name(), c.name()
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a.ssr"), filepath.Join(dir, "b.ssr")
	c.run("generate", "moons", "--count", "500", "--topic", first, "--partitions", "2", "-q")
	c.run("copy", a, "--topics", first, "--until-end", "--merge", "ordered", "-q")
	c.run("copy", a, "--topic", second, "--partitions", "2", "--partition-by", "recorded", "-q")
	c.run("copy", b, "--topics", second, "--until-end", "--merge", "ordered", "-q")
	before, after := recorded(t, a), recorded(t, b)
	if len(before) != 500 || strings.Join(before, "") != strings.Join(after, "") {
		t.Errorf("%d records before, %d after, or they differ", len(before), len(after))
	}
	code, _, errText := streamsvm(t.Context(), "copy", a, "--topics", first, "--brokers", strings.Join(c.brokers, ","))
	if code != int(cli.IO) || !strings.Contains(errText, "exists") {
		t.Errorf("recording over a recording: exit code %d, %q", code, errText)
	}
}

// recorded lists the records of a recording, without their topic.
func recorded(t *testing.T, path string) []string {
	t.Helper()
	var out []string
	for _, r := range recordedRecords(t, path) {
		out = append(out, fmt.Sprintf("%d/%d %v %s %s\n", r.Partition, r.Offset, r.Time, r.Key, r.Value))
	}
	return out
}

func recordedRecords(t *testing.T, path string) []stream.Record {
	t.Helper()
	r := &replay{files: []string{path}}
	src, err := r.openFiles(r.files, nil, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	recs, err := readAll(t.Context(), src)
	if err != nil {
		t.Fatal(err)
	}
	return recs
}

// TestDeadLettersAndTolerance: refused records arrive in the dead-letter topic
// as they were, with the reason, and every record has one fate.
func TestDeadLettersAndTolerance(t *testing.T) {
	c := newCluster(t)
	topic := kafkatest.Topic(t, c.brokers, 1, nil)
	kafkatest.Create(t, c.brokers, topic+".dlq", 1, nil)
	t.Cleanup(func() { kafkatest.Delete(t, c.brokers, topic+".dlq") })
	var recs []stream.Record
	for i := range 100 {
		r := stream.Record{Topic: topic, Key: fmt.Appendf(nil, "k%d", i), Value: fmt.Appendf(nil, `{"x":[%d,1],"y":%d}`, i%7, 1-2*(i%2))}
		if i == 30 || i == 60 {
			r.Value = []byte(`{"x":[1,"?"],"y":1}`)
			r.Headers = []stream.Header{{Key: "trace", Value: []byte("abc")}}
		}
		recs = append(recs, r)
	}
	kafkatest.Produce(t, c.brokers, recs...)
	state := filepath.Join(t.TempDir(), "state")
	base := []string{"train", "--topics", topic, "--until-end", "--checkpoint", state, "--learner", "sbp", "--tune=off", "--warmup", "10", "-q",
		"--brokers", strings.Join(c.brokers, ",")}

	code, _, errText := streamsvm(t.Context(), base...)
	if code != int(cli.Data) || !strings.Contains(errText, topic+"/0 offset 30: decode") {
		t.Errorf("without tolerance: exit code %d, %q", code, errText)
	}
	if s := newest(t, state); s.Partitions[0].Next != 30 || s.Meta["consumed"] != "30" {
		t.Errorf("the checkpoint is not just before the record that stopped the run: %+v", s)
	}
	must(t, append(base, "--tolerance", "data", "--dlq")...)
	if m := newest(t, state).Meta; m["consumed"] != "100" || m["dead"] != "2" || m["learned"] != "98" {
		t.Errorf("fates are %v", m)
	}
	dead := kafkatest.ReadAll(t, c.brokers, topic+".dlq")
	if len(dead) != 2 {
		t.Fatalf("%d dead letters, want 2", len(dead))
	}
	for i, r := range dead {
		h := map[string]string{}
		for _, kv := range r.Headers {
			h[kv.Key] = string(kv.Value)
		}
		offset := []string{"30", "60"}[i]
		if string(r.Key) != "k"+offset || string(r.Value) != `{"x":[1,"?"],"y":1}` || h["trace"] != "abc" ||
			h[deadletter.Header+"topic"] != topic || h[deadletter.Header+"partition"] != "0" || h[deadletter.Header+"offset"] != offset ||
			h[deadletter.Header+"stage"] != "decode" || !strings.Contains(h[deadletter.Header+"message"], "x[1]") {
			t.Errorf("dead letter %d: key %s, value %s, headers %v", i, r.Key, r.Value, h)
		}
	}
}

// TestStartAtLatestIsRepeatable: where a first start at latest begins is
// decided once, even if nothing was read before the first run ended.
func TestStartAtLatestIsRepeatable(t *testing.T) {
	c := newCluster(t)
	topic := c.name()
	state := filepath.Join(t.TempDir(), "state")
	args := append([]string{"train", "--topics", topic, "--start", "latest", "--until-end", "--checkpoint", state}, learn...)
	c.run("generate", "moons", "--count", "100", "--topic", topic, "--partitions", "2", "-q")
	c.run(args...)
	c.run("generate", "moons", "--count", "300", "--topic", topic, "-q")
	c.run(args...)
	if m := newest(t, state).Meta; m["consumed"] != "300" {
		t.Errorf("%s records consumed, want the 300 that came after the first start", m["consumed"])
	}
}

// TestForeignModel: a model of other checkpoints is not overwritten by
// accident, and if it is to be, subscribers take the new one.
func TestForeignModel(t *testing.T) {
	c := newCluster(t)
	topic, models := c.name(), c.name()
	c.run("generate", "moons", "--count", "900", "--topic", topic, "--partitions", "1", "-q")
	args := func() []string {
		return append([]string{"train", "--topics", topic, "--until-end", "--model-topic", models, "--checkpoint", filepath.Join(t.TempDir(), "state"),
			"--checkpoint-every", "200", "--brokers", strings.Join(c.brokers, ",")}, learn...)
	}
	first := args()
	must(t, first...)
	must(t, first...) // its own checkpoints: nothing to object to
	before := decode[updateLine](t, c.run("model", "follow", "--model-topic", models, "--until", "1", "--json"))
	second := append(args(), "--seed", "2", "--set", "gamma=2")
	if code, _, errText := streamsvm(t.Context(), second...); code != int(cli.Config) || !strings.Contains(errText, "--replace-model") {
		t.Errorf("exit code %d, %q", code, errText)
	}
	must(t, append(second, "--replace-model")...)
	after := decode[updateLine](t, c.run("model", "follow", "--model-topic", models, "--until", "1", "--json"))
	if after.Hash == before.Hash || after.Version <= before.Version || after.Options["gamma"] != "2" {
		t.Errorf("before %+v, after %+v", before, after)
	}
}

func TestPredictHTTP(t *testing.T) {
	train := moons(t, "train.libsvm", 1000, 0)
	model := filepath.Join(t.TempDir(), "m.ssm")
	must(t, append([]string{"replay", train, "--model", model}, learn...)...)
	m, err := describe.ReadModel(model)
	if err != nil {
		t.Fatal(err)
	}
	reg := metrics.NewRegistry(version.String)
	flags := codecFlags{maxFeatures: 100, labels: "pm1", comma: ","}
	p := &predict{c: &cli.Call{}, codecFlags: flags, maxBody: 1000, m: metrics.NewPredictor(reg), quality: eval.New(false, 10), current: func() *predictor.Version {
		return &predictor.Version{Predictor: m, Update: stream.Update{Model: "m", Version: 7}}
	}}
	s := newServer(reg)
	p.ready, p.limits = &s.ready, s.limits
	s.mux.Handle("POST /predict", p.routes()["POST /predict"])
	srv := httptest.NewServer(s.mux)
	defer srv.Close()
	for path, ask := range map[string]func(string) (*http.Response, error){
		"/predict": func(url string) (*http.Response, error) {
			return http.Post(url, "application/json", strings.NewReader(`{"x":[0.5,1.25]}`))
		},
		"/readyz": http.Get,
	} {
		resp, err := ask(srv.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("%s before there is a model: status %d", path, resp.StatusCode)
		}
	}
	s.ready.Store(true)
	want := m.Decision(stream.Vec{Val: []float32{0.5, 1.25}})
	for _, c := range []struct {
		body string
		code int
		n    int
	}{
		{`{"x":[0.5,1.25]}`, 200, 1},
		{` [{"x":[0.5,1.25],"id":"a"},{"x":{"1":0.5,"2":1.25},"id":"b"}]`, 200, 2},
		{`[]`, 200, 0},
		{``, 400, 0},
		{`[{"x":[1]},{"x":"no"}]`, 400, 0},
		{`[1`, 400, 0},
		{strings.Repeat(" ", 1001), 413, 0},
	} {
		resp, err := http.Post(srv.URL+"/predict", "application/json", strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		var a answer
		body, err := io.ReadAll(resp.Body)
		if err == nil {
			err = json.Unmarshal(body, &a)
		}
		resp.Body.Close()
		if err != nil || resp.StatusCode != c.code || len(a.Predictions) != c.n {
			t.Errorf("%q: status %d, want %d; %s, %v", c.body, resp.StatusCode, c.code, body, err)
		}
		for _, p := range a.Predictions {
			if float64(*p.Decision) != want || a.Version != 7 {
				t.Errorf("%q: %s, want the decision %v", c.body, body, want)
			}
		}
	}
	for path, want := range map[string]string{
		"/metrics": "streamsvm_predictions_total 3", "/healthz": "ok", "/version": `"version"`, "/readyz": "ready",
	} {
		resp, err := http.Get(srv.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || !strings.Contains(string(body), want) {
			t.Errorf("%s lacks %q", path, want)
		}
	}
}
