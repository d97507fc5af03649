package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/internal/deadletter"
	"github.com/streamsvm/streamsvm/internal/testkit/kafkatest"
	"github.com/streamsvm/streamsvm/internal/testkit/lettertest"
	"github.com/streamsvm/streamsvm/stream"
)

// header returns the value of a record's header, and how often it is there.
func header(r *stream.Record, key string) (value string, n int) {
	for _, h := range r.Headers {
		if h.Key == key {
			value = string(h.Value)
			n++
		}
	}
	return value, n
}

// repairNaN is a command that makes a record of those with NaN, refuses what
// has no features, and fails for all others.
const repairNaN = `case $DLQ_REASON in not_finite) sed s/NaN/0.5/;; missing) exit 65;; *) echo "no idea: $DLQ_MESSAGE" >&2; exit 3;; esac`

func needShell(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there is no sh")
	}
}

// TestDLQReplayThenTrain: what could not be used is repaired, fed back, and
// learned; the learner is in the end that of a stream that had the repaired
// records from the beginning.
func TestDLQReplayThenTrain(t *testing.T) {
	needShell(t)
	c := newCluster(t)
	topic, clean := kafkatest.Topic(t, c.brokers, 2, nil), kafkatest.Topic(t, c.brokers, 1, nil)
	dead := topic + ".dlq"
	kafkatest.Create(t, c.brokers, dead, 1, nil)
	t.Cleanup(func() { kafkatest.Delete(t, c.brokers, dead) })
	var recs, good, mended []stream.Record
	at := time.Now().Add(-time.Hour).Truncate(time.Millisecond)
	for i := range 1200 {
		y := 1 - 2*(i*7%2)
		value := fmt.Sprintf(`{"x":[%d.5,%d],"y":%d}`, y*(i%5), i*i%11, y)
		r := stream.Record{Topic: topic, Partition: int32(i % 2), Time: at.Add(time.Duration(i) * time.Millisecond), Key: fmt.Appendf(nil, "k%d", i), Value: []byte(value)}
		r.Headers = []stream.Header{{Key: "trace", Value: fmt.Append(nil, i)}}
		switch i % 100 {
		case 50:
			r.Value = fmt.Appendf(nil, `{"x":[NaN,%d],"y":%d}`, i*i%11, y)
			m := r
			m.Value = bytes.Replace(r.Value, []byte("NaN"), []byte("0.5"), 1)
			mended = append(mended, m)
		case 70:
			r.Value = []byte(`{"y":1}`)
		default:
			good = append(good, r)
		}
		recs = append(recs, r)
	}
	kafkatest.Produce(t, c.brokers, recs...)
	state := filepath.Join(t.TempDir(), "state")
	base := func(topic, state string) []string {
		// The state of online does not depend on where runs ended.
		return []string{"train", "--topics", topic, "--merge", "ordered", "--until-end", "--checkpoint", state, "--tolerance", "data", "--dlq", "--brokers", strings.Join(c.brokers, ","),
			"--learner", "online", "--tune=off", "--warmup", "200", "-q"}
	}
	must(t, base(topic, state)...)

	kafkatest.AwaitDecided(t, c.brokers, dead)
	replay := []string{"dlq", "replay", "--topics", topic, "--repair", repairNaN, "--log-level", "error", "--brokers", strings.Join(c.brokers, ",")}
	dry := must(t, append(replay, "--from", "earliest", "--dry-run")...)
	if strings.Count(dry, "\n") != 12 || !strings.HasPrefix(dry, dead+`/0 offset 0 -> `+topic+`: "{\"x\":[0.5,`) {
		t.Errorf("dry run:\n%s", dry)
	}
	if got := kafkatest.ReadAll(t, c.brokers, topic); len(got) != len(recs) || len(kafkatest.Committed(t, c.brokers, deadletter.ReplayGroup, dead)) != 0 {
		t.Error("the dry run has changed something")
	}
	code, _, errText := streamsvm(t.Context(), append(replay, "--from", "earliest")...)
	if code != 0 || errText != "24 dead letters in "+dead+": 12 fed back + 12 refused by the repair command\n" {
		t.Fatalf("exit code %d, %s", code, errText)
	}
	code, _, errText = streamsvm(t.Context(), replay...)
	if code != 0 || errText != "0 dead letters in "+dead+": 0 fed back\n" {
		t.Errorf("the second time: exit code %d, %s", code, errText)
	}
	letters := kafkatest.ReadAll(t, c.brokers, dead)
	var back []stream.Record
	for _, r := range kafkatest.ReadAll(t, c.brokers, topic) {
		if r.Offset >= 600 {
			back = append(back, r)
		}
	}
	slices.SortStableFunc(back, func(a, b stream.Record) int {
		return strings.Compare(fmt.Sprintf("%5s", a.Key), fmt.Sprintf("%5s", b.Key))
	})
	for i, r := range back {
		want := mended[i]
		from, n := header(&r, "__streamsvm.replayed.from")
		found := false
		for _, l := range letters {
			found = found || from == fmt.Sprintf("%s/0:%d", dead, l.Offset) && bytes.Equal(l.Key, r.Key)
		}
		was, _ := header(&r, "__streamsvm.replayed.timestamp")
		trace, _ := header(&r, "trace")
		if string(r.Key) != string(want.Key) || string(r.Value) != string(want.Value) || r.Partition != want.Partition || n != 1 || !found ||
			was != fmt.Sprint(want.Time.UnixMilli()) || trace != string(want.Headers[0].Value) || len(r.Headers) != 3 || time.Since(r.Time) > 30*time.Minute {
			t.Errorf("fed back: %s %s to partition %d at %v with %v; want %s %s in %d", r.Key, r.Value, r.Partition, r.Time, r.Headers, want.Key, want.Value, want.Partition)
		}
	}
	if len(back) != len(mended) {
		t.Fatalf("%d records have come back, want %d", len(back), len(mended))
	}

	kafkatest.AwaitDecided(t, c.brokers, topic)
	must(t, base(topic, state)...)
	// The order of those that came back is that of the ordered merge.
	slices.SortStableFunc(back, func(a, b stream.Record) int {
		return cmpOr(a.Time.Compare(b.Time), int(a.Partition-b.Partition), int(a.Offset-b.Offset))
	})
	var all []stream.Record
	for _, r := range append(good, back...) {
		all = append(all, stream.Record{Topic: clean, Value: r.Value})
	}
	kafkatest.Produce(t, c.brokers, all...)
	other := filepath.Join(t.TempDir(), "clean")
	must(t, base(clean, other)...)
	if !bytes.Equal(learnerState(t, state), learnerState(t, other)) {
		t.Error("the learner is not that of the good and the repaired records")
	}
	if m := newest(t, state).Meta; m["consumed"] != "1212" || m["learned"] != "1188" || m["dead"] != "24" {
		t.Errorf("fates are %v", m)
	}
}

func cmpOr(ns ...int) int {
	for _, n := range ns {
		if n != 0 {
			return n
		}
	}
	return 0
}

// TestDLQReplayKilled kills a replay with SIGKILL in the middle of a batch.
func TestDLQReplayKilled(t *testing.T) {
	needShell(t)
	b := newBrokerProcess(t)
	brokers := []string{b.addr}
	const n = 1150
	topic, dead := lettertest.Topic(t, brokers, n)
	killer := filepath.Join(t.TempDir(), "killed")
	// The shell's parent is the replay. Once the file is there it lives on.
	command := fmt.Sprintf(`if [ "$DLQ_OFFSET" = 1100 ] && ! [ -e %[1]s ]; then : >%[1]s; kill -9 $PPID; sleep 10; fi; exec cat`, killer)
	args := []string{"dlq", "replay", dead, "--from", "earliest", "--brokers", b.addr, "--repair", command, "-q"}
	p := process(t, args...)
	if err := p.Run(); err == nil {
		t.Fatal("the replay has not been killed")
	}
	if _, err := os.Stat(killer); err != nil {
		t.Fatal("the repair command has not killed the replay")
	}
	if at := kafkatest.Committed(t, brokers, deadletter.ReplayGroup, dead); sum(at) != 1000 {
		t.Errorf("committed %v, want %d letters", at, 1000)
	}
	must(t, args...)
	twice, missing := lettertest.Came(t, brokers, topic, n)
	if missing != 0 || twice > 100 {
		t.Errorf("%d records are missing, and %d there twice", missing, twice)
	}
	t.Logf("%d records there twice", twice)
}

// TestDLQReplaySkips: letters that are skipped, truncated, too large or
// none are counted, and named where they are lost to the replay; a command that
// fails ends it before its letter.
func TestDLQReplaySkips(t *testing.T) {
	needShell(t)
	c := newCluster(t)
	topic := kafkatest.Topic(t, c.brokers, 1, map[string]string{"max.message.bytes": "3000"})
	dead := topic + ".dlq"
	kafkatest.Create(t, c.brokers, dead, 1, nil)
	t.Cleanup(func() { kafkatest.Delete(t, c.brokers, dead) })
	kafkatest.Produce(t, c.brokers,
		lettertest.About(topic, 0, stream.ReasonLabel, "a", 1<<20),
		lettertest.About(topic, 1, stream.ReasonSyntax, "b", 1<<20),
		lettertest.About(topic, 2, stream.ReasonLabel, strings.Repeat("v", 5000), 2000), // truncated
		lettertest.About(topic, 3, stream.ReasonLabel, strings.Repeat("v", 2990), 1<<20),
		stream.Record{Topic: dead, Value: []byte("no letter")},
		func() stream.Record {
			r := lettertest.About("another", 5, stream.ReasonLabel, "c", 1<<20)
			r.Topic = dead
			return r
		}(),
		lettertest.About(topic, 6, stream.ReasonMissing, "d", 1<<20))
	at := []string{"--brokers", strings.Join(c.brokers, ",")}
	run := func(args ...string) (int, string) {
		t.Helper()
		code, _, errText := streamsvm(t.Context(), slices.Concat([]string{"dlq", "replay", dead}, args, at)...)
		return code, errText
	}
	values := func(topic string) (out []string) {
		t.Helper()
		for _, r := range kafkatest.ReadAll(t, c.brokers, topic) {
			out = append(out, string(r.Value))
		}
		return out
	}

	group := c.name()
	code, errText := run("--from", "earliest", "--reason", "label", "--group", group)
	if code != 0 || !strings.HasSuffix(errText, "7 dead letters in "+dead+": 1 fed back + 2 skipped by the filter + 1 truncated + 1 too large + 2 no letters about these topics\n") {
		t.Errorf("exit code %d, %s", code, errText)
	}
	for _, want := range []string{"offset=2 origin=\"" + topic + "/1 offset 2\"", "offset=3 to=" + topic + " bytes=", "offset=4 err=", "offset=5 origin=\"another/1"} {
		if !strings.Contains(errText, want) {
			t.Errorf("not named: %s\n%s", want, errText)
		}
	}
	// The group is for these letters alone.
	if code, errText := run("--from", "earliest", "--group", group); code != int(cli.Usage) || !strings.Contains(errText, "is one of another replay (reason label, origin any; this one is for all letters)") {
		t.Errorf("exit code %d, %s", code, errText)
	}
	if code, _ := run("--reason", "label,label", "--group", group); code != 0 {
		t.Errorf("the same filter again: exit code %d", code)
	}
	if got := values(topic); !slices.Equal(got, []string{"a"}) {
		t.Errorf("%q have come, want a", got)
	}

	// From the end of now on nothing is sent, and the position is kept.
	late := c.name()
	if code, errText := run("--from", "latest", "--group", late); code != 0 || !strings.HasPrefix(errText, "0 dead letters") {
		t.Errorf("from the end: exit code %d, %s", code, errText)
	}

	other := kafkatest.Topic(t, c.brokers, 3, nil)
	code, errText = run("--from", "earliest", "--to", other, "--repair", repairNaN, "--log-level", "error")
	if code != int(cli.Data) || !strings.Contains(errText, dead+"/0 offset 0: the repair command: exit status 3: no idea: x[1]: bad·[2J\n") || !strings.HasPrefix(errText, "0 dead letters") {
		t.Errorf("exit code %d, %s", code, errText)
	}
	// A binary value keeps what only looks like a newline at its end.
	command := `case $DLQ_OFFSET in 0) printf '\201\n';; 1) echo text;; 6) exit 9;; *) cat;; esac`
	code, errText = run("--to", other, "--repair", command, "--log-level", "error")
	if code != int(cli.Data) || !strings.HasPrefix(errText, "6 dead letters in "+dead+": 4 fed back + 1 truncated + 1 no letters about these topics\n") {
		t.Errorf("exit code %d, %s", code, errText)
	}
	got := values(other)
	slices.Sort(got)
	if want := []string{"c", "text", strings.Repeat("v", 2990), "\x81\n"}; !slices.Equal(got, want) {
		t.Errorf("%q have come, want %q", got, want)
	}
	// The position is before the letter at which the command failed.
	if got := kafkatest.Committed(t, c.brokers, deadletter.ReplayGroup, dead); sum(got) != 6 {
		t.Errorf("committed %v, want 6", got)
	}

	kafkatest.Produce(t, c.brokers, lettertest.About(topic, 9, stream.ReasonLabel, "new", 1<<20))
	if code, errText := run("--group", late); code != 0 || errText != "1 dead letter in "+dead+": 1 fed back\n" {
		t.Errorf("what came after the end: exit code %d, %s", code, errText)
	}
	// Letters that retention has deleted are not skipped without a word.
	kafkatest.DeleteRecords(t, c.brokers, dead, 0, 7)
	if code, errText := run(); code != int(cli.Data) || !strings.Contains(errText, "offset 6 is out of range") {
		t.Errorf("after retention: exit code %d, %s", code, errText)
	}
	if code, errText := run("--on-out-of-range", "earliest", "--log-level", "error"); code != 0 || !strings.HasSuffix(errText, "1 dead letter in "+dead+": 1 fed back\n") {
		t.Errorf("after retention, told to go on: exit code %d, %s", code, errText)
	}
}

// TestDLQReplayInterrupted: what was sent before a signal is committed.
func TestDLQReplayInterrupted(t *testing.T) {
	needShell(t)
	c := newCluster(t)
	const n = 40
	topic, dead := lettertest.Topic(t, c.brokers, n)
	mark := filepath.Join(t.TempDir(), "mark")
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for ctx.Err() == nil {
			if _, err := os.Stat(mark); err == nil {
				cancel()
			}
			time.Sleep(time.Millisecond)
		}
	}()
	args := []string{"dlq", "replay", dead, "--from", "earliest", "-q", "--brokers", strings.Join(c.brokers, ","), "--repair",
		fmt.Sprintf(`[ $DLQ_OFFSET = 25 ] && ! [ -e %[1]s ] && : >%[1]s && exec sleep 10; exec cat`, mark)}
	code, _, errText := streamsvm(ctx, args...)
	if code != int(cli.Temporary) {
		t.Errorf("exit code %d, %s", code, errText)
	}
	if got := kafkatest.Committed(t, c.brokers, deadletter.ReplayGroup, dead); sum(got) == 0 || sum(got) >= n {
		t.Errorf("committed %v", got)
	}
	must(t, args...)
	if twice, missing := lettertest.Came(t, c.brokers, topic, n); twice != 0 || missing != 0 {
		t.Errorf("%d records are missing, and %d there twice", missing, twice)
	}
}

func sum(o stream.Offsets) (n int64) {
	for _, at := range o {
		n += at
	}
	return n
}
