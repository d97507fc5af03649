package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/streamsvm/streamsvm/checkpoint"
	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/internal/app/describe"
	"github.com/streamsvm/streamsvm/internal/testkit/kafkatest"
	"github.com/streamsvm/streamsvm/stream"
)

// faults is what the cases of TestFaults share, and the table that they write.
type faults struct {
	t       *testing.T
	brokers []string
	table   bytes.Buffer
	well    []string // what does no harm
	names   []string // what the table calls by another name: old, new, old, new…
}

// topic makes a topic of n examples and trains on it undisturbed; want is the
// hash of the state.
func (f *faults) topic(n int) (topic, want string) {
	f.t.Helper()
	topic = kafkatest.Topic(f.t, f.brokers, 1, nil)
	kafkatest.Produce(f.t, f.brokers, examples(topic, n)...)
	return topic, f.clean(topic)
}

// clean returns the state hash of an undisturbed run over the topic.
func (f *faults) clean(topic string) string {
	f.t.Helper()
	state := f.t.TempDir()
	must(f.t, f.args(topic, state, "--until-end")...)
	return newest(f.t, state).StateHash
}

// args are those of a quick run.
func (f *faults) args(topic, state string, more ...string) []string {
	f.names = append(f.names, topic, "TOPIC", state, "DIR")
	return slices.Concat([]string{"train", "--brokers", strings.Join(f.brokers, ","), "--topics", topic, "--checkpoint", state, "--checkpoint-interval", "0",
		"--learner", "sbp", "--tune=off", "--warmup", "10"}, more)
}

// state returns a path for a checkpoint directory.
func (f *faults) state() string { return filepath.Join(f.t.TempDir(), "state") }

// fates says what the newest checkpoint has counted, and fails if that does not
// add up.
func (f *faults) fates(state string) string {
	f.t.Helper()
	m := map[string]string{}
	for _, kv := range f.whole(state).Meta {
		m[kv[0]] = kv[1]
	}
	var n [5]int
	for i, name := range []string{"consumed", "learned", "sampled_out", "dead", "pending"} {
		if _, err := fmt.Sscan(m[name], &n[i]); err != nil {
			f.t.Fatal(err)
		}
	}
	if n[0] != n[1]+n[2]+n[3]+n[4] {
		f.t.Errorf("fates %v do not add up", m)
	}
	if n[2]+n[4] > 0 {
		f.t.Errorf("fates %v", m)
	}
	return fmt.Sprintf("%d = %d + %d", n[0], n[1], n[3])
}

// whole returns the header of the newest checkpoint that can be read.
func (f *faults) whole(state string) checkpoint.Header {
	f.t.Helper()
	store, err := checkpoint.Open(state, checkpoint.Options{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		f.t.Fatal(err)
	}
	snap, err := store.Load()
	if err != nil || snap == nil {
		f.t.Fatal(snap, err)
	}
	return snap.Header
}

// written is what is said of a file that is full: how far it came depends on
// how the records came.
var written = regexp.MustCompile(`\(\d+ bytes so far\): write \S+ssc`)

// refilled is how far a topic that was created again has been filled when the trainer
// looks: it may look before the first record.
var refilled = regexp.MustCompile(`available are 0 up to \d+: the topic was created again`)

// early is what is said besides if the trainer looks before the topic has as many
// records as it had before.
var early = regexp.MustCompile(`reading the stream: kafka: topic \S+ partition 0: offset 50 is out of range, available are 0 up to \d+: the topic was created again or has lost records; `)

// row adds a row: what was wrong, the last thing that was said, how it ended.
func (f *faults) row(what, flags, said string, code int, fates string) {
	f.t.Helper()
	if code == 0 && strings.HasSuffix(fates, "+ 0") {
		if flags != "" {
			what += " (" + flags + ")"
		}
		f.well = append(f.well, what)
		return
	}
	said = strings.TrimSpace(said)
	if i := strings.LastIndexByte(said, '\n'); i >= 0 {
		said = said[i+1:]
	}
	if i := strings.Index(said, "; model version"); i >= 0 {
		said = said[:i]
	}
	said = written.ReplaceAllString(said, "(… bytes so far): write DIR/…")
	said = refilled.ReplaceAllString(said, "available are 0 up to …: the topic was created again")
	said = strings.NewReplacer(append(f.names, strings.Join(f.brokers, ","), "BROKER", "|", `\|`)...).Replace(said)
	fmt.Fprintf(&f.table, "| %s | %s | %s | %d | %s |\n", what, flags, said, code, fates)
}

// same fails the test if the newest state is not the one wanted.
func (f *faults) same(what, state, want string) {
	f.t.Helper()
	if got := describe.Hash(f.whole(state).StateHash); got != want {
		f.t.Errorf("%s: state %s, want %s", what, got, want)
	}
}

// serve runs train until stop is called, which returns what it has said.
func (f *faults) serve(args []string) (done chan struct{}, stop func() (int, string)) {
	ctx, cancel := context.WithCancel(f.t.Context())
	done = make(chan struct{})
	var code int
	var errText string
	go func() {
		code, _, errText = streamsvm(ctx, args...)
		close(done)
	}()
	return done, func() (int, string) {
		cancel()
		<-done
		return code, errText
	}
}

// wait waits until ok, or until done is closed.
func wait(t *testing.T, done <-chan struct{}, ok func() bool) {
	t.Helper()
	for !ok() {
		select {
		case <-done:
			return
		case <-t.Context().Done():
			t.Fatal("it does not come")
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// TestFaults runs train under everything around it that can fail, and documents
// what is said, how the run ends, and what became of the records. Wherever the
// run can go on, or be started again, the state is that of an undisturbed run.
func TestFaults(t *testing.T) {
	t.Parallel()
	f := &faults{t: t, brokers: kafkatest.Brokers(t)}
	fmt.Fprintf(&f.table, "| | flags | the last line on stderr | exit code | consumed = learned + dead |\n| --- | --- | --- | --- | --- |\n")
	f.topics()
	f.broker()
	f.disk()
	f.checkpoints()
	if !kafkatest.Real() {
		fmt.Fprintf(&f.table, "\nNo harm, exit code 0, every record learned: %s.\n", strings.Join(f.well, "; "))
		compareTable(t, "../../docs/failures.md", "faults", f.table.String())
	}
}

func (f *faults) topics() {
	t := f.t
	// Empty: nothing to learn, and nothing is wrong.
	topic := kafkatest.Topic(t, f.brokers, 1, nil)
	state := f.state()
	code, _, said := streamsvm(t.Context(), f.args(topic, state, "--until-end")...)
	f.row("empty topic", "`--until-end`", said, code, f.fates(state))
	if code != 0 {
		t.Errorf("empty topic: %d, %s", code, said)
	}
	// A service on an empty topic waits, and learns what comes.
	before := state
	state = f.state()
	done, stop := f.serve(f.args(topic, state, "--checkpoint-every", "40"))
	kafkatest.Produce(t, f.brokers, examples(topic, 40)...)
	wait(t, done, func() bool { return latest(t, state) >= 2 })
	code, said = stop()
	f.row("empty topic that fills, then SIGTERM", "", said, code, f.fates(state))
	must(t, f.args(topic, state, "--until-end")...)
	f.same("empty topic that fills", state, f.clean(topic))
	must(t, f.args(topic, before, "--until-end")...)
	f.same("empty topic that fills after a run", before, f.clean(topic))

	// Missing.
	missing := kafkatest.Name(t, f.brokers)
	state = f.state()
	done, stop = f.serve(f.args(missing, state, "--topic-wait", "-1s", "--checkpoint-every", "40"))
	kafkatest.Create(t, f.brokers, missing, 1, nil)
	kafkatest.Produce(t, f.brokers, examples(missing, 40)...)
	wait(t, done, func() bool { return latest(t, state) >= 2 })
	code, said = stop()
	f.row("missing topic that is made later", "`--topic-wait -1s`", said, code, f.fates(state))
	must(t, f.args(missing, state, "--until-end")...)
	f.same("missing topic that is made later", state, f.clean(missing))

	// Created again between two runs.
	topic, _ = f.topic(50)
	state = f.state()
	must(t, f.args(topic, state, "--until-end")...)
	kafkatest.Delete(t, f.brokers, topic)
	kafkatest.Create(t, f.brokers, topic, 1, nil)
	kafkatest.Produce(t, f.brokers, examples(topic, 70)...)
	code, _, said = streamsvm(t.Context(), f.args(topic, state, "--until-end")...)
	f.row("topic created again between runs", "", said, code, f.fates(state))
	if code != int(cli.Data) {
		t.Errorf("topic created again: %d, %s", code, said)
	}
	code, _, said = streamsvm(t.Context(), f.args(topic, state, "--until-end", "--on-out-of-range", "earliest")...)
	f.row("topic created again between runs", "`--on-out-of-range earliest`", said, code, f.fates(state))

	// Created again during a run.
	for _, n := range []int{30, 120} {
		topic, _ = f.topic(50)
		state = f.state()
		done, stop = f.serve(f.args(topic, state, "--checkpoint-every", "50"))
		wait(t, done, func() bool { return latest(t, state) >= 2 })
		kafkatest.Delete(t, f.brokers, topic)
		kafkatest.Create(t, f.brokers, topic, 1, nil)
		kafkatest.Produce(t, f.brokers, examples(topic, n)...)
		select {
		case <-done:
		case <-time.After(8 * time.Second):
			t.Errorf("topic created again with %d records during a run: it goes on", n)
		}
		code, said = stop()
		if n > 50 {
			said = early.ReplaceAllString(said, "")
		}
		f.row(fmt.Sprintf("topic created again during a run, %s records than before", map[bool]string{true: "fewer", false: "more"}[n < 50]), "", said, code, f.fates(state))
		if code != int(cli.Data) {
			t.Errorf("topic created again during a run: %d, %s", code, said)
		}
	}

	// Well formed, but more than the learner takes.
	topic = kafkatest.Topic(t, f.brokers, 1, nil)
	good := examples(topic, 40)
	wide := stream.Record{Topic: topic, Value: []byte(`{"x":{"1":1,"9":1},"y":1}`)}
	kafkatest.Produce(t, f.brokers, slices.Concat(good[:20], []stream.Record{wide}, good[20:])...)
	limited := func(state string, more ...string) []string {
		args := f.args(topic, state, append([]string{"--until-end", "--set", "dims=8"}, more...)...)
		args[slices.Index(args, "sbp")] = "l1smooth"
		return args
	}
	state = f.state()
	code, _, said = streamsvm(t.Context(), limited(state)...)
	f.row("a record that only the learner cannot take", "`--learner l1smooth --set dims=8`", said, code, f.fates(state))
	if code != int(cli.Data) {
		t.Errorf("a feature beyond dim: %d, %s", code, said)
	}
	code, _, said = streamsvm(t.Context(), limited(state, "--tolerance", "data", "--dlq")...)
	f.row("the same", "`--tolerance data --dlq`", said, code, f.fates(state))
	if letters := kafkatest.ReadAll(t, f.brokers, topic+".dlq"); len(letters) != 1 || string(letters[0].Value) != string(wide.Value) {
		t.Errorf("letters %v", letters)
	}
	kafkatest.Delete(t, f.brokers, topic+".dlq")

	// Another format than the settings say, from some record on.
	topic = kafkatest.Topic(t, f.brokers, 1, nil)
	avro := make([]stream.Record, 60)
	for i := range avro {
		avro[i] = stream.Record{Topic: topic, Value: []byte("\x00\x00\x00\x00\x07\x02ab")}
	}
	kafkatest.Produce(t, f.brokers, slices.Concat(examples(topic, 40), avro)...)
	state = f.state()
	code, _, said = streamsvm(t.Context(), f.args(topic, state, "--until-end", "--tolerance", "data")...)
	f.row("records of another format, from the 41st on", "`--tolerance data`", said, code, f.fates(state))
	if code != int(cli.Data) {
		t.Errorf("another format: %d, %s", code, said)
	}
	code, _, said = streamsvm(t.Context(), f.args(topic, state, "--until-end", "--tolerance", "data", "--max-dead", "1")...)
	f.row("the same, started again", "`--tolerance data --max-dead 1`", said, code, f.fates(state))
	if n := strings.Count(said, `level=WARN msg="record refused"`); code != 0 || n != 4 { // of ten: the 1st, 2nd, 4th and 8th
		t.Errorf("any number tolerated: %d, %d warnings, %s", code, n, said)
	}

	// Retention has taken what the checkpoint needs.
	topic, _ = f.topic(50)
	state = f.state()
	must(t, f.args(topic, state, "--until-end")...)
	kafkatest.Produce(t, f.brokers, examples(topic, 50)...)
	kafkatest.DeleteRecords(t, f.brokers, topic, 0, 80)
	code, _, said = streamsvm(t.Context(), f.args(topic, state, "--until-end")...)
	f.row("records deleted that the checkpoint needs", "", said, code, f.fates(state))
	if code != int(cli.Data) {
		t.Errorf("records deleted: %d, %s", code, said)
	}
}

func (f *faults) broker() {
	t := f.t
	before := f.brokers
	defer func() { f.brokers = before }()
	b := kafkatest.Start(t)
	f.brokers = []string{b.Addr}
	f.names = append(f.names, b.Addr, "BROKER")
	topic, want := f.topic(3000)
	b.Kill()
	state := f.state()
	done, stop := f.serve(f.args(topic, state, "--until-end", "--checkpoint-every", "500"))
	time.Sleep(500 * time.Millisecond)
	b.Restart()
	<-done
	code, said := stop()
	f.row("broker down at the start, then there", "", said, code, f.fates(state))
	f.same("broker down at the start", state, want)

	// In mid-run.
	const down = time.Second
	topic, want = f.topic(3000)
	state = f.state()
	done, stop = f.serve(f.args(topic, state, "--checkpoint-every", "500", "--fetch-max-bytes", "2000", "--until-end"))
	if !waitCheckpoints(t, state, 2, done) {
		t.Error("the run ended before the broker went down")
	}
	b.Kill()
	time.Sleep(down)
	b.Restart()
	<-done
	code, said = stop()
	f.row("broker down in mid-run and back", "", said, code, f.fates(state))
	if code != 0 {
		t.Errorf("broker down in mid-run: %d, %s", code, said)
	}
	f.same("broker down in mid-run", state, want)
	t.Logf("broker down for %v in mid-run", down)
}

func (f *faults) disk() {
	t := f.t
	topic, want := f.topic(2000)
	// A file cannot grow beyond a few KiB: the first checkpoints fit.
	state := f.state()
	args := f.args(topic, state, "--until-end", "--checkpoint-every", "200", "-q")
	p := process(t, args...)
	p.Args = append([]string{"sh", "-c", `ulimit -f 32 && exec "$0" "$@"`, p.Path}, p.Args[1:]...)
	p.Path = "/bin/sh"
	var stderr bytes.Buffer
	p.Stderr = &stderr
	_ = p.Run() // the exit code says how it ended
	f.fates(state)
	f.row("checkpoint directory full in mid-run (here: files may not grow)", "", stderr.String(), p.ProcessState.ExitCode(), "what the last checkpoint has")
	if p.ProcessState.ExitCode() != int(cli.IO) {
		t.Errorf("full: %d, %s", p.ProcessState.ExitCode(), stderr.String())
	}
	if left, _ := filepath.Glob(filepath.Join(state, ".tmp-*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	code, _, said := streamsvm(t.Context(), f.args(topic, state, "--until-end")...)
	f.row("a full checkpoint directory, once there is room again", "", said, code, f.fates(state))
	f.same("full", state, want)
}

// damaged is a checkpoint directory, which damage changes a copy of.
func (f *faults) damaged(from string, damage func(files []string)) (state string) {
	f.t.Helper()
	state = f.state()
	if err := os.CopyFS(state, os.DirFS(from)); err != nil {
		f.t.Fatal(err)
	}
	store, err := checkpoint.Open(state, checkpoint.Options{})
	if err != nil {
		f.t.Fatal(err)
	}
	files, err := store.Files()
	if err != nil {
		f.t.Fatal(err)
	}
	damage(files)
	return state
}

func (f *faults) checkpoints() {
	t := f.t
	// Two checkpoints of a run that was stopped in the middle.
	topic, half := kafkatest.Topic(t, f.brokers, 1, nil), f.state()
	done, stop := f.serve(f.args(topic, half, "--checkpoint-every", "30"))
	for i := range uint64(2) {
		kafkatest.Produce(t, f.brokers, examples(topic, 30)...)
		if !waitCheckpoints(t, half, 2+i, done) {
			t.Error("no checkpoint")
		}
	}
	if code, said := stop(); code != 0 {
		t.Errorf("%d, %s", code, said)
	}
	kafkatest.Produce(t, f.brokers, examples(topic, 60)...)
	undisturbed := f.damaged(half, func([]string) {})
	must(t, f.args(topic, undisturbed, "--until-end")...)
	want := describe.Hash(f.whole(undisturbed).StateHash)
	write := func(name string, data []byte) {
		write(t, name, data)
	}
	data := func(name string) []byte {
		b := read(t, name)
		return b
	}
	one := func(damage func(b []byte) []byte) func(files []string) {
		return func(files []string) {
			write(files[0], damage(data(files[0])))
			for _, name := range files[1:] {
				if err := os.Remove(name); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	try := func(what, flags string, state string, code int, more ...string) {
		t.Helper()
		got, _, said := streamsvm(t.Context(), f.args(topic, state, append([]string{"--until-end"}, more...)...)...)
		fates := "none"
		if got == 0 {
			fates = f.fates(state)
			f.same(what, state, want)
		}
		f.row(what, flags, said, got, fates)
		if got != code {
			t.Errorf("%s: exit code %d, want %d: %s", what, got, code, said)
		}
	}
	try("the only checkpoint is cut off", "", f.damaged(half, one(func(b []byte) []byte { return b[:len(b)/2] })), int(cli.Data))
	try("the only checkpoint has a wrong bit", "", f.damaged(half, one(func(b []byte) []byte { b[len(b)-100] ^= 4; return b })), int(cli.Data))
	try("the only checkpoint is of a newer format", "", f.damaged(half, one(newer)), int(cli.Data))
	try("the newest checkpoint is of a newer format", "", f.damaged(half, func(files []string) { write(files[0], newer(data(files[0]))) }), 0)
	try("checkpoint of another learner", "`--learner online`", f.damaged(half, func([]string) {}), int(cli.Config), "--learner", "online", "--warmup", "10")
	try("checkpoint of other settings", "`--seed 2`", f.damaged(half, func([]string) {}), int(cli.Config), "--seed", "2")
	try("checkpoint from tomorrow: the clock was set back", "", f.damaged(half, func(files []string) { f.dated(files[0], 24*time.Hour) }), 0)
	try("checkpoint of ten years ago: the clock was set forward", "", f.damaged(half, func(files []string) { f.dated(files[0], -87600*time.Hour) }), 0)

	// The newest checkpoint cut off after many lengths: the one before is used.
	length := 0
	f.damaged(half, func(files []string) { length = len(data(files[0])) })
	const step = 293
	tries := 0
	for n := 0; n < length; n += step {
		state := f.damaged(half, func(files []string) { write(files[0], data(files[0])[:n]) })
		must(t, f.args(topic, state, "--until-end", "-q", "--log-level", "error")...)
		f.same(fmt.Sprintf("cut off after %d bytes", n), state, want)
		tries++
	}
	t.Logf("%d of %d lengths of the newest checkpoint", tries, length)
	try("the newest checkpoint is cut off, after any byte", "", f.damaged(half, func(files []string) { write(files[0], data(files[0])[:length-1]) }), 0)
}

// newer makes a checkpoint one of the next version of the format.
func newer(b []byte) []byte {
	binary.LittleEndian.PutUint32(b[8:], checkpoint.Format+1)
	binary.LittleEndian.PutUint32(b[12:], uint32(xxhash.Sum64(b[:12])))
	return b
}

// dated sets the time of a checkpoint, as if the clock had been wrong by d.
func (f *faults) dated(name string, d time.Duration) {
	f.t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		f.t.Fatal(err)
	}
	snap, err := checkpoint.Decode(name, data)
	if err != nil {
		f.t.Fatal(err)
	}
	snap.Header.Created = time.Now().Add(d)
	store, err := checkpoint.Open(filepath.Dir(name), checkpoint.Options{})
	if err == nil {
		_, err = store.Claim(f.t.Context())
	}
	if err == nil {
		_, err = store.Load()
	}
	if err == nil {
		_, err = store.Save(f.t.Context(), snap)
	}
	if err != nil {
		f.t.Fatal(err)
	}
}
