package main

import (
	"bufio"
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/streamsvm/streamsvm/contrib/inspect"
	"github.com/streamsvm/streamsvm/internal/testkit/kafkatest"
	"github.com/streamsvm/streamsvm/stream"
)

// mortal is a broker in a process of its own that a test kills with SIGKILL: that of
// this program or, with STREAMSVM_TEST_KAFKA, Apache Kafka.
type mortal struct {
	addr        string
	start, kill func()
}

func newMortal(t *testing.T) *mortal {
	if os.Getenv("STREAMSVM_TEST_KAFKA") != "" {
		k := kafkatest.Start(t)
		return &mortal{k.Addr, k.Restart, k.Kill}
	}
	b := newBrokerProcess(t)
	return &mortal{b.addr, b.start, b.kill}
}

// diskless is a trainer whose working and temporary directory is an empty one.
type diskless struct {
	cmd  *exec.Cmd
	dir  string
	rose time.Time
	done chan struct{}

	mu     sync.Mutex
	log    bytes.Buffer
	stored int           // checkpoints of this life
	bytes  int           // of them
	first  time.Duration // from the start to the first of them
	// restored is the time from the start until the checkpoint was taken over.
	restored time.Duration
}

func startDiskless(t *testing.T, args ...string) *diskless {
	t.Helper()
	d := &diskless{dir: t.TempDir(), done: make(chan struct{})}
	d.cmd = process(t, append(args, "--log-level", "info")...)
	d.cmd.Dir, d.cmd.Env = d.dir, append(d.cmd.Env, "HOME="+d.dir, "TMPDIR="+d.dir)
	d.cmd.Stderr = nil
	out, err := d.cmd.StderrPipe()
	d.rose = time.Now()
	if err == nil {
		err = d.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(d.done)
		for s := bufio.NewScanner(out); s.Scan(); {
			d.said(s.Text())
		}
		_ = d.cmd.Wait() // d.cmd.ProcessState has it
	}()
	t.Cleanup(func() {
		d.kill()
		if text := d.text(); t.Failed() {
			t.Logf("a trainer said:\n%s", text[max(0, len(text)-2000):])
		}
	})
	return d
}

var (
	saidStored = regexp.MustCompile(`msg=checkpoint path=kafka:\S+ examples=\d+ bytes=(\d+)`)
	saidFrom   = regexp.MustCompile(`msg="continuing from a checkpoint"`)
)

// said takes note of a line of the log.
func (d *diskless) said(line string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	fmt.Fprintln(&d.log, line)
	if saidFrom.MatchString(line) {
		d.restored = time.Since(d.rose)
	}
	if m := saidStored.FindStringSubmatch(line); m != nil {
		n, _ := strconv.Atoi(m[1])
		if d.stored == 0 {
			d.first = time.Since(d.rose)
		}
		d.stored++
		d.bytes += n
	}
}

func (d *diskless) text() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.log.String()
}

// count returns how many checkpoints have been stored in this life.
func (d *diskless) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.stored
}

func (d *diskless) kill() {
	_ = d.cmd.Process.Kill()
	<-d.done
}

// until waits until n checkpoints have been stored in this life or it is over, which
// it reports.
func (d *diskless) until(t *testing.T, n int) (alive bool) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; {
		if d.count() >= n {
			return true
		}
		select {
		case <-d.done:
			return false
		case <-time.After(2 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			t.Fatalf("no %d checkpoints within two minutes", n)
		}
	}
}

// empty fails the test if the trainer has left something on the disk.
func (d *diskless) empty(t *testing.T) {
	t.Helper()
	if left, err := os.ReadDir(d.dir); err != nil || len(left) > 0 {
		t.Errorf("left in the directory: %v, %v", left, err)
	}
}

// inTopic returns the newest checkpoint of a state topic.
func inTopic(t *testing.T, addr, topic string) inspect.Description {
	t.Helper()
	return decode[[]inspect.Description](t, must(t, "model", "inspect", "--json", "--brokers", addr, "kafka://"+topic))[0]
}

// slow are the flags of a learner that takes long enough to be killed.
var slow = []string{"--learner", "adaptive", "--tune=off", "--warmup", "200", "-q"}

// TestStateTopicKills kills a trainer without a disk, and the broker, with SIGKILL,
// so often as STREAMSVM_TEST_STATE_KILLS says, and starts it in an empty directory
// each time. In the end the state, the models and the dead letters are those of an
// undisturbed run with a directory. On the built-in broker TestSimulation does this.
func TestStateTopicKills(t *testing.T) {
	if os.Getenv("STREAMSVM_TEST_KAFKA") == "" {
		t.Skip("needs Apache Kafka: set STREAMSVM_TEST_KAFKA")
	}
	t.Parallel()
	kills := 5
	if n, err := strconv.Atoi(os.Getenv("STREAMSVM_TEST_STATE_KILLS")); err == nil {
		kills = n
	}
	const every = 300
	b := newMortal(t)
	n := 3000 + kills*2400
	must(t, "generate", "checkerboard", "--count", fmt.Sprint(n), "--topic", "examples", "--partitions", "4", "--brokers", b.addr, "-q")
	bad := map[place]bool{}
	for i := range 40 {
		kafkatest.Produce(t, []string{b.addr}, stream.Record{Topic: "examples", Partition: int32(i % 4), Time: time.UnixMilli(1e12), Value: []byte("no example")})
	}
	for _, r := range kafkatest.ReadAll(t, []string{b.addr}, "examples") {
		if string(r.Value) == "no example" {
			bad[place{r.Partition, r.Offset, 0}] = true
		}
	}
	args := func(name, checkpoint string) []string {
		return slices.Concat([]string{"train", "--brokers", b.addr, "--topics", "examples", "--merge", "ordered", "--until-end", "--checkpoint", checkpoint,
			"--checkpoint-interval", "0", "--checkpoint-every", fmt.Sprint(every), "--max-record-bytes", "8000", "--model-topic", "models-" + name,
			"--tolerance", "data", "--dlq=.dlq-" + name, "--promote", "champion", "--gate", "error <= champion + 0.05; examples >= 500"}, slow)
	}
	undisturbed := filepath.Join(t.TempDir(), "state")
	must(t, args("plain", undisturbed)...)

	r := rand.New(rand.NewPCG(uint64(kills), 1))
	var firsts, restored []time.Duration
	written, stored, brokers, early := 0, 0, 0, 0
	began := time.Now()
	for k := 0; ; k++ {
		d := startDiskless(t, args("topic", "kafka://state")...)
		switch {
		case k == kills:
			<-d.done
			if code := d.cmd.ProcessState.ExitCode(); code != 0 {
				t.Fatalf("the last life ended with %d", code)
			}
		case k%5 == 3: // in the midst of its start, or of its first checkpoint
			early++
			time.Sleep(time.Duration(r.IntN(1200)) * time.Millisecond)
		default:
			if !d.until(t, 1+r.IntN(3)) {
				t.Fatalf("the trainer ended before kill %d", k+1)
			}
			time.Sleep(time.Duration(r.IntN(100)) * time.Millisecond)
		}
		if k%2 == 1 && k < kills { // in between two lives, or before the trainer dies
			brokers++
			b.kill()
			time.Sleep(time.Duration(r.IntN(300)) * time.Millisecond)
			d.kill()
			b.start()
		}
		d.kill()
		d.empty(t)
		written, stored = written+d.bytes, stored+d.stored
		if d.first > 0 {
			firsts, restored = append(firsts, d.first), append(restored, d.restored)
		}
		if k == kills {
			break
		}
	}
	spread := func(ds []time.Duration) string {
		slices.Sort(ds)
		return fmt.Sprintf("%v, median %v, at most %v", ds[0].Round(time.Millisecond), ds[len(ds)/2].Round(time.Millisecond), ds[len(ds)-1].Round(time.Millisecond))
	}
	topic := inTopic(t, b.addr, "state")
	t.Logf("%d kills of the trainer, %d of them at any moment of its start, %d of the broker: %v; %d records, %d checkpoints, %d bytes",
		kills, early, brokers, time.Since(began).Round(time.Second), n, stored, written)
	t.Logf("from the start of the process until the checkpoint is taken over: %s; until the next one is stored: %s", spread(restored), spread(firsts))

	if m := topic.Meta; m["consumed"] != fmt.Sprint(n+40) || m["learned"] != fmt.Sprint(n) || m["dead"] != "40" || m["pending"] != "0" {
		t.Errorf("fates after %d kills: %v", kills, m)
	}
	if a := newest(t, undisturbed); a.StateHash != topic.StateHash {
		t.Errorf("state %s after %d kills, %s without", topic.StateHash, kills, a.StateHash)
	}
	served := func(name, model string) updateLine {
		return decode[updateLine](t, must(t, "model", "follow", "--brokers", b.addr, "--model-topic", "models-"+name, "--model-name", model, "--until", "1", "--json"))
	}
	for _, model := range []string{"model", "model@champion"} {
		if x, y := served("plain", model), served("topic", model); x.Hash != y.Hash {
			t.Errorf("%s after %d kills:\n%+v, without\n%+v", model, kills, y, x)
		}
	}
	oneLetterEach(t, []string{b.addr}, "examples.dlq-topic", bad)
}

// TestStateTopicFenced: of two trainers of one state on two nodes, the one that was
// paused when the other began ends with 79 when it wakes up, and writes nothing.
func TestStateTopicFenced(t *testing.T) {
	for _, models := range []bool{true, false} {
		t.Run(fmt.Sprintf("model topic %v", models), func(t *testing.T) {
			c := newCluster(t)
			topic, state, published := kafkatest.Topic(t, c.brokers, 1, nil), c.name(), c.name()
			c.run("generate", "moons", "--count", "20000", "--topic", topic, "-q")
			args := slices.Concat([]string{"train", "--brokers", strings.Join(c.brokers, ","), "--topics", topic, "--checkpoint", "kafka://" + state,
				"--checkpoint-interval", "0", "--checkpoint-every", "200"}, slow)
			if models {
				args = append(args, "--model-topic", published)
			}
			a := startDiskless(t, args...)
			if !a.until(t, 2) { // the second may be the last: storing the first one takes long
				t.Fatal("the first trainer ended")
			}
			if err := a.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			c.run("generate", "moons", "--count", "2000", "--skip", "20000", "--topic", topic, "-q") // the first may have learned from all
			b := startDiskless(t, args...)
			if !b.until(t, 1) {
				t.Fatal("the second trainer ended")
			}
			if err := a.cmd.Process.Signal(syscall.SIGCONT); err != nil {
				t.Fatal(err)
			}
			select {
			case <-a.done:
			case <-time.After(time.Minute):
				t.Fatal("the trainer that was replaced goes on")
			}
			if code := a.cmd.ProcessState.ExitCode(); code != 79 || !strings.Contains(a.text(), "another trainer has taken over") {
				t.Errorf("exit code %d", code)
			}
			stored := b.count()
			c.run("generate", "moons", "--count", "2000", "--skip", "22000", "--topic", topic, "-q")
			if !b.until(t, stored+1) {
				t.Fatal("the second trainer ended")
			}
			_ = b.cmd.Process.Signal(syscall.SIGTERM)
			<-b.done
			if code := b.cmd.ProcessState.ExitCode(); code != 0 {
				t.Errorf("the second trainer ended with %d", code)
			}
			// What comes after the claim of the second is the second's alone.
			if s := inTopic(t, c.brokers[0], state); s.Epoch != 2 {
				t.Errorf("the newest checkpoint is of epoch %d", s.Epoch)
			}
			if models {
				if u := decode[updateLine](t, c.run("model", "follow", "--model-topic", published, "--until", "1", "--json")); u.Epoch != 2 {
					t.Errorf("the newest version is of epoch %d", u.Epoch)
				}
			}
			var order []string
			for _, r := range kafkatest.ReadAll(t, c.brokers, state) {
				if string(r.Key) == "model/claim" {
					order = append(order, "claim")
				}
			}
			if len(order) < 1 || len(order) > 2 { // compaction may have removed the first one
				t.Errorf("%d claims", len(order))
			}
		})
	}
}

// TestStateTopicFaults: what is wrong with a state topic is said by train and by
// doctor, and a first start and a later one are told apart.
func TestStateTopicFaults(t *testing.T) {
	c := newCluster(t)
	topic := kafkatest.Topic(t, c.brokers, 1, nil)
	kafkatest.Produce(t, c.brokers, examples(topic, 500)...)
	args := func(state, models string) []string {
		return slices.Concat([]string{"--brokers", strings.Join(c.brokers, ","), "--topics", topic, "--until-end", "--checkpoint", "kafka://" + state, "--model-topic", models, "--codec", "json"}, learn)
	}
	try := func(want int, command string, args []string, says ...string) {
		t.Helper()
		code, out, errText := streamsvm(t.Context(), append([]string{command}, args...)...)
		if code != want {
			t.Errorf("%s ends with %d, not %d:\n%s%s", command, code, want, out, errText)
		}
		for _, s := range says {
			if !strings.Contains(out+errText, s) {
				t.Errorf("%s does not say %q:\n%s%s", command, s, out, errText)
			}
		}
	}
	verbose := func(args []string) []string {
		return slices.DeleteFunc(slices.Clone(args), func(s string) bool { return s == "-q" })
	}

	state, models := c.name(), c.name()
	good := args(state, models)
	try(0, "doctor", verbose(good), "topic "+state+": it does not exist and will be created")
	try(0, "train", good)
	try(0, "doctor", verbose(good), "checkpoint kafka://"+state+": continues after 500 examples")
	other := slices.Clone(good)
	other[slices.Index(other, "sbp")] = "online"
	try(1, "doctor", verbose(other), "streamsvm model inspect kafka://"+state+"), or train --restart")
	// The state is gone, the model is there.
	try(78, "train", args(c.name(), models), "which does not come from the checkpoints in kafka://")

	// The model goes on elsewhere from the same state: it is not lost.
	try(0, "train", args(state, c.name()))
	if s := inTopic(t, c.brokers[0], state); s.Epoch != 1 || s.Examples != 500 { // nothing new was stored
		t.Errorf("epoch %d, %d examples", s.Epoch, s.Examples)
	}

	for _, bad := range []struct {
		partitions int
		config     map[string]string
		says, todo string
	}{
		{2, map[string]string{"cleanup.policy": "compact"}, "it has 2 partitions, and must have 1", "set checkpoint to another topic"},
		{1, map[string]string{"cleanup.policy": "delete"}, "its cleanup.policy is delete, and must be compact", "--add-config cleanup.policy=compact"},
		{1, map[string]string{"cleanup.policy": "compact", "max.message.bytes": "100000"}, "its max.message.bytes is 100000, and must be", "--add-config max.message.bytes=925696"},
	} {
		unfit := kafkatest.Topic(t, c.brokers, bad.partitions, bad.config)
		try(78, "train", args(unfit, c.name()), "state topic "+unfit+": "+bad.says)
		try(1, "doctor", verbose(args(unfit, c.name())), bad.says, bad.todo)
	}

	for _, r := range []string{"/head/0", "/head/1"} {
		kafkatest.Produce(t, c.brokers, stream.Record{Topic: state, Key: []byte("model" + r), Value: []byte("?")})
	}
	try(65, "train", good, "no valid snapshot in topic "+state, "partition 0, model: head at offset")
	try(1, "doctor", verbose(good), "head at offset", "streamsvm model inspect kafka://"+state)
	try(65, "model", []string{"inspect", "--brokers", c.brokers[0], "kafka://" + state}, "head at offset")
	try(65, "model", []string{"inspect", "--brokers", c.brokers[0], "--model-name", "nobody", "kafka://" + state}, "topic "+state+" holds no checkpoint")

	for place, says := range map[string]string{"kafka://": "is not kafka://TOPIC", "kafka://a/b": "is not kafka://TOPIC", "kafka://" + topic: "is a topic of examples too", "kafka://" + models: "is the model topic too"} {
		bad := args(state, models)
		bad[slices.Index(bad, "kafka://"+state)] = place
		try(64, "train", bad, says)
	}
	try(64, "replay", []string{"x.libsvm", "--checkpoint", "kafka://x"}, "only train keeps checkpoints in a topic")
}

// TestStateTopicACLs: acls prints what a state topic needs.
func TestStateTopicACLs(t *testing.T) {
	for models, id := range map[string]string{"": "streamsvm.state.s.model", "m": "streamsvm.model.m.model"} {
		args := []string{"config", "acls", "--principal", "x", "--", "--topics", "a", "--checkpoint", "kafka://s"}
		if models != "" {
			args = append(args, "--model-topic", models)
		}
		out := must(t, args...)
		for _, want := range []string{"--operation Read --operation Write --operation Create --operation DescribeConfigs --topic s\n", "--operation Write --transactional-id " + id + "\n"} {
			if !strings.Contains(out, want) {
				t.Errorf("no %q in\n%s", want, out)
			}
		}
	}
}
