package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/internal/spell"
	"github.com/streamsvm/streamsvm/internal/testkit/kafkatest"
	"github.com/streamsvm/streamsvm/stream"
)

// quick are the flags of a quick learner that says how it ended.
var quick = []string{"--learner", "sbp", "--tune=off", "--warmup", "50"}

// zeroOneFile writes n examples labelled 0 and 1 to a file, of which every fourth is
// of class 0, and returns their number.
func zeroOneFile(t *testing.T, n int) (path string, zeros int) {
	t.Helper()
	data := read(t, moons(t, "m.libsvm", 3*n, 0))
	var pos, neg, lines []string
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, "-1"); ok {
			neg = append(neg, "0"+rest)
		} else {
			pos = append(pos, line)
		}
	}
	for i := range n {
		if i%4 == 0 {
			lines = append(lines, neg[i/4])
			zeros++
		} else {
			lines = append(lines, pos[i-i/4])
		}
	}
	path = filepath.Join(t.TempDir(), "zeroone.libsvm")
	write(t, path, strings.Join(lines, ""))
	return path, zeros
}

// fails runs a command that has to end with exit code 65 and to say all of the
// texts, and returns what it said last.
func fails(t *testing.T, args []string, says ...string) string {
	t.Helper()
	code, out, said := streamsvm(t.Context(), args...)
	lines := strings.Split(strings.TrimSpace(said), "\n")
	last := lines[len(lines)-1]
	if code != int(cli.Data) {
		t.Errorf("streamsvm %s: exit code %d, want %d\n%s%s", strings.Join(args, " "), code, cli.Data, out, said)
	}
	for _, text := range says {
		if !strings.Contains(last, text) {
			t.Errorf("streamsvm %s\nsays  %s\nwithout %q", strings.Join(args, " "), last, text)
		}
	}
	return last
}

// TestLabelsOfAnotherConvention: a topic labelled 0 and 1 that is read as −1 and
// +1, with tolerance, gives no model that knows one class, but says what to type;
// typed, that trains the model.
func TestLabelsOfAnotherConvention(t *testing.T) {
	c := newCluster(t)
	file, zeros := zeroOneFile(t, 1600)
	topic, models, dir := c.name(), c.name(), t.TempDir()
	c.run("copy", file, "--topic", topic, "--partitions", "1", "-q")
	args := func(state string, more ...string) []string {
		return slices.Concat([]string{"train", "--topics", topic, "--codec", "libsvm", "--until-end", "--model-topic", models, "--checkpoint", filepath.Join(dir, state),
			"--checkpoint-every", "200", "--brokers", strings.Join(c.brokers, ",")}, quick, more)
	}
	last := fails(t, args("a", "--labels", "pm1", "--tolerance", "data", "--dlq"),
		fmt.Sprintf("there is no model: label +1 was seen %d times, label -1 never; label 0 was refused %d times; ", 1600-zeros, zeros),
		"if the labels are 0 and 1, type --labels 01, and begin again with --restart")
	if strings.Contains(last, "--labels 12") {
		t.Errorf("other labels are suggested too: %s", last)
	}
	if m := published(t, c, models); len(m.Updates) > 0 {
		t.Errorf("a model of one class is published: %+v", m.Updates)
	}
	if m := newest(t, filepath.Join(dir, "a")); m.Meta["dead"] != fmt.Sprint(zeros) || m.ModelVersion != 0 {
		t.Errorf("checkpoint %+v", m)
	}
	// Again, with nothing new, and nobody knows what was refused.
	fails(t, args("a", "--labels", "pm1", "--tolerance", "data", "--dlq"), "label -1 never; if the labels are 0 and 1, type --labels 01, or if the labels are 1 and 2, type --labels 12, and begin")
	must(t, args("b", "--labels", "01", "-q")...)
	if m := newest(t, filepath.Join(dir, "b")); m.Meta["dead"] != "0" || m.ModelVersion == 0 {
		t.Errorf("with --labels 01: checkpoint %+v", m)
	}

	// The same of a file, with which no model is written.
	model := filepath.Join(dir, "model.ssm")
	replay := append([]string{"replay", file, "--model", model, "--tolerance", "data"}, quick...)
	fails(t, append(replay, "--labels", "pm1"), "label -1 never", "type --labels 01")
	if _, err := os.Stat(model); err == nil {
		t.Error("replay has written a model of one class")
	}
	fails(t, append(replay, "--labels", "12"), "label -1 was seen", "with --labels 12, label -1 is 1 in the records", "type --labels 01")
	fails(t, append(replay, "--labels", "pm1", "--max-dead", "0.2"), "more than --max-dead 0.2 allows; if the labels are 0 and 1, type --labels 01")
	must(t, append(replay, "--labels", "01", "-q")...)
	if code, _, said := streamsvm(t.Context(), append(replay, "--max-dead", "0")...); code != int(cli.Usage) || !strings.Contains(said, "max-dead") {
		t.Errorf("--max-dead 0: exit code %d, %s", code, said)
	}
}

// TestWrongCodec: of records in another format the first 20 are read, not all; the error
// names the first one, and the codec.
func TestWrongCodec(t *testing.T) {
	c := newCluster(t)
	file, topic, state := moons(t, "m.libsvm", 100, 0), c.name(), t.TempDir()
	c.run("copy", file, "--topic", topic, "--partitions", "1", "-q")
	args := append([]string{"train", "--topics", topic, "--checkpoint", state, "--brokers", strings.Join(c.brokers, ",")}, quick...)
	fails(t, args, "none of the first 20 records can be read; the first one: "+topic+"/0 offset 0: decode: ", "it looks like libsvm: give --codec libsvm")
	fails(t, append(args, "--tolerance", "data"), "none of the first 50 records can be read")
	fails(t, []string{"replay", file, "--codec", "json"}, "m.libsvm/0 offset 0: decode: ", "give --codec libsvm")
	must(t, append(args, "--codec", "libsvm", "--until-end")...)
}

// TestNoLabelAtAll: examples without labels give no model, and what is said
// depends on the format.
func TestNoLabelAtAll(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		write(t, path, text)
		return path
	}
	fails(t, append([]string{"replay", write("a.jsonl", strings.Repeat("{\"x\":[1,2]}\n", 120))}, quick...), "none of 120 examples has a label", "--labels-topic")
	fails(t, append([]string{"replay", write("a.csv", strings.Repeat("1,2\n", 120)), "--codec", "csv"}, quick...), "no column y, label or target tells what to predict: name it with --label")
	fails(t, []string{"replay", write("b.jsonl", strings.Repeat("{\"x\":[1,2],\"y\":3}\n", 120)), "--learner", "online", "--task", "regress"}, "the only target seen is 3, 120 times")
	fails(t, append([]string{"replay", write("c.libsvm", strings.Repeat("nonsense\n", 20)), "--tolerance", "all"}, quick...), `all labels are "nonsense"`, "is --codec right?")
	fails(t, append([]string{"replay", filepath.Join(dir, "c.libsvm"), "--labels", "pm1", "--tolerance", "all"}, quick...), "none of the last 20 records can be used", "c.libsvm/0 offset 0: label, y", "is --codec right?")
}

// TestWrongFormatStopsTraining: records in a format that is another one than
// that of train end it, tolerant or not; nothing is lost or counted twice when it
// goes on.
func TestWrongFormatStopsTraining(t *testing.T) {
	c := newCluster(t)
	const good, avro, after = 400, 1300, 300
	topic, dir := kafkatest.Topic(t, c.brokers, 1, nil), t.TempDir()
	dead := topic + ".dlq"
	kafkatest.Create(t, c.brokers, dead, 1, nil)
	t.Cleanup(func() { kafkatest.Delete(t, c.brokers, dead) })
	recs := examples(topic, good)
	for i := range avro {
		recs = append(recs, stream.Record{Topic: topic, Value: fmt.Appendf(nil, "\x00\x00\x00\x00\x07%c\x04ab", i%7)})
	}
	recs = append(recs, examples(topic, after)...)
	kafkatest.Produce(t, c.brokers, recs...)
	state := filepath.Join(dir, "state")
	args := slices.Concat([]string{"train", "--topics", topic, "--until-end", "--tolerance", "data", "--dlq", "--checkpoint", state, "--brokers", strings.Join(c.brokers, ",")}, quick)
	// Of 801 records 401 are bad.
	for range 2 {
		fails(t, args, "401 of the last 801 records cannot be used", topic+"/0 offset", "more than --max-dead 0.5 allows", `"streamsvm doctor --brokers `, "--topics "+topic+` --codec json"`)
		if m := newest(t, state).Meta; m["consumed"] != "800" || m["dead"] != "400" {
			t.Errorf("checkpoint %v", m)
		}
	}
	config := filepath.Join(dir, "streamsvm.yaml")
	write(t, config, "topics: ["+topic+"]\n")
	fails(t, append(slices.Delete(slices.Clone(args), 1, 3), "--config", config), `see what they are with "streamsvm doctor --config `+config+`"`)
	fails(t, append(args, "--max-dead", "0.9"), "901 of the last 1000 records cannot be used", "more than --max-dead 0.9 allows")
	must(t, append(args, "--max-dead", "1", "-q")...)
	if m := newest(t, state).Meta; m["consumed"] != fmt.Sprint(len(recs)) || m["dead"] != fmt.Sprint(avro) || m["learned"] != fmt.Sprint(good+after) {
		t.Errorf("checkpoint %v", m)
	}
	letters := kafkatest.ReadAll(t, c.brokers, dead)
	for i, l := range letters {
		if i >= avro || string(l.Value) != string(recs[good+i].Value) {
			t.Fatalf("letter %d is %q", i, l.Value)
		}
	}
	if len(letters) != avro {
		t.Errorf("%d letters, want %d", len(letters), avro)
	}
}

// TestHealthOfBadStream: a service whose records cannot be used is not healthy,
// and one that waits for a second label says so.
func TestHealthOfBadStream(t *testing.T) {
	c := newCluster(t)
	topic, dir := kafkatest.Topic(t, c.brokers, 1, nil), t.TempDir()
	var ones []stream.Record
	for i := range 300 {
		ones = append(ones, stream.Record{Topic: topic, Value: fmt.Appendf(nil, "+1 1:%d 2:1", i%9)})
	}
	kafkatest.Produce(t, c.brokers, ones...)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r, w := io.Pipe()
	code := make(chan int, 1)
	go func() {
		args := slices.Concat([]string{"train", "--topics", topic, "--codec", "libsvm", "--labels", "pm1", "--tolerance", "data", "--model-topic", c.name(), "--checkpoint", filepath.Join(dir, "state"),
			"--checkpoint-every", "100", "--listen", "127.0.0.1:0", "--log-level", "info", "--brokers", strings.Join(c.brokers, ",")}, quick)
		code <- program().Main(ctx, args, cli.Stdio{In: strings.NewReader(""), Out: io.Discard, Err: w, Getenv: func(string) (string, bool) { return "", false }})
		w.Close()
	}()
	addr, warned, last := make(chan string, 1), make(chan bool, 9), make(chan string, 1)
	go func() {
		said := ""
		for s := bufio.NewScanner(r); s.Scan(); {
			said = s.Text()
			if _, a, ok := strings.Cut(said, "addr="); ok {
				addr <- strings.Fields(a)[0]
			}
			if strings.Contains(said, "no model is published yet: only label +1 seen in") {
				warned <- true
			}
		}
		last <- said
	}()
	base := "http://" + <-addr
	get := func(path string) (int, string) {
		resp, err := http.Get(base + path)
		if err != nil {
			return 0, err.Error()
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(body)
	}
	const waits = "no model yet: only label +1 seen in 300 examples"
	for {
		status, body := get("/readyz")
		if status == http.StatusOK && body == "ready\n"+waits+"\n" {
			break
		}
		if ctx.Err() != nil {
			t.Fatalf("/readyz: %d %s", status, body)
		}
		time.Sleep(50 * time.Millisecond)
	}
	if _, page := get("/"); !strings.Contains(page, waits) {
		t.Errorf("the page does not say %q", waits)
	}
	if _, m := get("/metrics"); !strings.Contains(m, "streamsvm_model_waits_for_labels 1\n") {
		t.Error("no metric says that there is no model")
	}
	if status, body := get("/healthz"); status != http.StatusOK {
		t.Errorf("/healthz: %d %s", status, body)
	}
	bad := make([]stream.Record, 800)
	for i := range bad {
		bad[i] = stream.Record{Topic: topic, Value: []byte("\x00\x00\x00\x00\x01")}
	}
	kafkatest.Produce(t, c.brokers, bad...)
	if got := <-code; got != int(cli.Data) {
		t.Errorf("exit code %d, want %d", got, cli.Data)
	}
	if said := <-last; !strings.Contains(said, "301 of the last 601 records cannot be used") {
		t.Errorf("the last thing said is %s", said)
	}
	if len(warned) != 1 {
		t.Errorf("warned %d times that no model is published", len(warned))
	}
}

// TestCompactedTopic: of a topic that is really compacted, tombstones are skipped
// and counted, gaps are nothing, and the recording of the run gives its state;
// without the flag the first tombstone ends the run.
func TestCompactedTopic(t *testing.T) {
	brokers, compact := kafkatest.Brokers(t), func() {}
	if !kafkatest.Real() {
		b := kafkatest.Embedded(t)
		brokers, compact = []string{b.Addr()}, b.Compact
	}
	const n = 900
	topic := kafkatest.Topic(t, brokers, 1, map[string]string{"cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0"})
	at, last := time.Now().Add(-time.Hour), 0
	keyed := func(i int, value []byte) stream.Record {
		last++
		return stream.Record{Topic: topic, Key: fmt.Appendf(nil, "k%d", i), Value: value, Time: at.Add(time.Duration(last) * time.Second)}
	}
	var recs []stream.Record
	for i, r := range examples(topic, n) {
		recs = append(recs, keyed(i, r.Value))
	}
	for i := 0; i < n; i += 3 { // a third is deleted, some of it comes again
		recs = append(recs, keyed(i, nil))
	}
	for i := 0; i < n; i += 9 {
		recs = append(recs, keyed(i, recs[i].Value))
	}
	kafkatest.Produce(t, brokers, recs...)
	// A real broker compacts, in its own time, what is not the segment in use: the
	// record of this call. When no other key comes twice, nothing is left to compact
	// during the test.
	kafkatest.Produce(t, brokers, keyed(0, recs[0].Value))
	var left []stream.Record
	for deadline := time.Now().Add(time.Minute); len(left) == 0 || len(left) > n+1; time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the broker does not compact: %d records left", len(left))
		}
		compact()
		left = kafkatest.ReadAll(t, brokers, topic)
	}
	tombstones := n * 2 / 9
	gaps := left[len(left)-1].Offset + 1 - int64(len(left))
	if gaps < n/3 {
		t.Fatalf("%d offsets are missing in %d records", gaps, len(left))
	}

	dir := t.TempDir()
	state, recording := filepath.Join(dir, "state"), filepath.Join(dir, "run.ssr")
	at0 := []string{"--topics", topic, "--until-end", "--brokers", strings.Join(brokers, ",")}
	args := slices.Concat([]string{"train", "--checkpoint", state, "--checkpoint-every", "100"}, at0, quick)
	fails(t, args, topic+"/0 offset", "the value is empty; --tolerance data skips such records, --tombstones skip those without a value")
	code, _, said := streamsvm(t.Context(), slices.Concat(args, []string{"--checkpoint", filepath.Join(dir, "whole"), "--record", recording, "--tombstones", "skip"})...)
	if code != 0 || !strings.Contains(said, fmt.Sprintf("%d learned + 0 sampled out + 0 dead + %d tombstones + 0 waiting", len(left)-tombstones, tombstones)) {
		t.Fatalf("exit code %d, %s", code, said)
	}
	whole := newest(t, filepath.Join(dir, "whole"))
	if m := whole.Meta; m["consumed"] != fmt.Sprint(len(left)) || m["tombstones"] != fmt.Sprint(tombstones) || m["dead"] != "0" {
		t.Errorf("checkpoint %v, of %d records %d tombstones", m, len(left), tombstones)
	}
	// What stopped at a tombstone goes on over it.
	must(t, append(args, "--tombstones", "skip", "-q")...)
	if got := newest(t, state).StateHash; got != whole.StateHash {
		t.Errorf("interrupted: state %s, at once %s", got, whole.StateHash)
	}
	model := filepath.Join(dir, "m.ssm")
	r := decode[result](t, must(t, slices.Concat([]string{"replay", recording, "--tombstones", "skip", "--json", "-", "-q", "--model", model, "--test", recording}, quick)...))
	if r.StateHash != whole.StateHash || r.Tombstones != uint64(tombstones) || r.Test.Examples != len(left)-tombstones {
		t.Errorf("the recording gives %+v, the run gave %s", r, whole.StateHash)
	}
	scored := kafkatest.Name(t, brokers)
	predict := slices.Concat([]string{"predict", "--model", model, "--predictions-topic", scored, "--positions", filepath.Join(dir, "positions")}, at0)
	code, _, said = streamsvm(t.Context(), append(predict, "--tombstones", "skip")...)
	if got := kafkatest.ReadAll(t, brokers, scored); code != 0 || len(got) != len(left)-tombstones || !strings.Contains(said, spell.Count(tombstones, "tombstone")+" skipped") {
		t.Errorf("predict: exit code %d, %d predictions, %s", code, len(got), said)
	}
	if code, _, said = streamsvm(t.Context(), append(predict, "--tombstones", "skip")...); code != 0 || strings.Contains(said, "skipped") {
		t.Errorf("predict, again: exit code %d, %s", code, said)
	}
	out := must(t, "predict", "--model", model, "--tombstones", "skip", "-q", recording)
	if lines := strings.Count(out, "\n"); lines != len(left)-tombstones || strings.Contains(out, "error") {
		t.Errorf("predict of the recording: %d lines", lines)
	}

	// Letters about tombstones are not sent back: they would delete what the key
	// has got since.
	dead := topic + ".dlq"
	kafkatest.Create(t, brokers, dead, 1, nil)
	t.Cleanup(func() { kafkatest.Delete(t, brokers, dead) })
	must(t, slices.Concat(args, []string{"--checkpoint", filepath.Join(dir, "tolerant"), "--tolerance", "data", "--dlq", "-q"})...)
	if got := len(kafkatest.ReadAll(t, brokers, dead)); got != tombstones {
		t.Fatalf("%d letters about %d tombstones", got, tombstones)
	}
	code, _, said = streamsvm(t.Context(), "dlq", "replay", dead, "--from", "earliest", "--log-level", "error", "--brokers", strings.Join(brokers, ","))
	if code != 0 || said != fmt.Sprintf("%d dead letters in %s: 0 fed back + %d tombstones\n", tombstones, dead, tombstones) {
		t.Errorf("dlq replay: exit code %d, %s", code, said)
	}
}
