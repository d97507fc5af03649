package main

import (
	"bytes"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/streamsvm/streamsvm/contrib/broker"
	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/internal/testkit/kafkatest"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/kafkaio"
	"github.com/streamsvm/streamsvm/stream/modeltopic"

	"github.com/twmb/franz-go/pkg/kgo"
)

// writer is a trainer in a process of its own.
type writer struct {
	t    *testing.T
	cmd  *exec.Cmd
	done chan struct{}
	mu   sync.Mutex
	log  bytes.Buffer
}

func (w *writer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.log.Write(p)
}

func (w *writer) said() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.log.String()
}

// startWriter starts train on a topic that is being produced to, with a model
// after each hundred examples.
func startWriter(t *testing.T, c *cluster, topic, models, dir string, more ...string) *writer {
	t.Helper()
	args := append([]string{"train", "--topics", topic, "--model-topic", models, "--checkpoint", dir, "--checkpoint-every", "100", "--checkpoint-interval", "200ms",
		"--brokers", strings.Join(c.brokers, ",")}, learn...)
	w := &writer{t: t, cmd: process(t, append(args, more...)...), done: make(chan struct{})}
	w.cmd.Stderr = w
	if err := w.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = w.cmd.Wait()
		close(w.done)
	}()
	t.Cleanup(func() {
		_ = w.cmd.Process.Kill()
		<-w.done
	})
	return w
}

// ended reports whether the process has ended, and its exit code.
func (w *writer) ended() (bool, cli.Code) {
	select {
	case <-w.done:
		return true, cli.Code(w.cmd.ProcessState.ExitCode())
	default:
		return false, 0
	}
}

// stop ends the process by SIGTERM.
func (w *writer) stop() cli.Code {
	_ = w.cmd.Process.Signal(syscall.SIGTERM)
	<-w.done
	return cli.Code(w.cmd.ProcessState.ExitCode())
}

// feed produces examples until the test ends or stop is called.
func feed(t *testing.T, c *cluster, topic string) (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	var once sync.Once
	go func() {
		defer close(ended)
		for n := 0; ; n += 200 {
			select {
			case <-done:
				return
			case <-time.After(20 * time.Millisecond):
			}
			streamsvm(t.Context(), "generate", "moons", "--count", "200", "--skip", fmt.Sprint(n), "--topic", topic, "-q", "--brokers", strings.Join(c.brokers, ","))
		}
	}()
	stop = func() { once.Do(func() { close(done) }); <-ended }
	t.Cleanup(stop)
	return stop
}

// published returns what the topic holds of the model.
func published(t *testing.T, c *cluster, models string) modeltopic.Model {
	t.Helper()
	r, err := modeltopic.Read(t.Context(), modeltopic.ReadOptions{Config: kafkaio.Config{Brokers: c.brokers}, Topic: models, TopicWait: -1})
	if err != nil {
		t.Fatal(err)
	}
	if r.Rejected > 0 {
		t.Errorf("%d records of the model topic are of no use: %+v", r.Rejected, r.Rejections)
	}
	if len(r.Models) == 0 {
		return modeltopic.Model{}
	}
	return r.Models[0]
}

// until waits until f holds.
func until(t *testing.T, what string, f func() bool) {
	t.Helper()
	for start := time.Now(); !f(); time.Sleep(20 * time.Millisecond) {
		if time.Since(start) > 2*time.Minute {
			t.Fatalf("%s has not happened", what)
		}
	}
}

// compacting are settings under which a broker compacts soon.
var compacting = map[string]string{
	"cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.001", "delete.retention.ms": "100", "min.compaction.lag.ms": "0",
}

// Two trainers of different directories begin together on one model topic that
// is still empty: one of them goes on, and all that is published is its own.
func TestTwoTrainersBeginTogether(t *testing.T) {
	c := newCluster(t)
	topic, models := kafkatest.Topic(t, c.brokers, 1, nil), kafkatest.Topic(t, c.brokers, 1, compacting)
	feed(t, c, topic)
	dir := t.TempDir()
	ws := []*writer{startWriter(t, c, topic, models, filepath.Join(dir, "a")), startWriter(t, c, topic, models, filepath.Join(dir, "b"))}
	until(t, "the end of one trainer", func() bool {
		return slices.ContainsFunc(ws, func(w *writer) bool { e, _ := w.ended(); return e })
	})
	if e, _ := ws[0].ended(); !e {
		slices.Reverse(ws)
	}
	// The later one is told before it disturbs the other, or in the very moment.
	if _, code := ws[0].ended(); code != cli.Fenced && code != cli.Config {
		t.Errorf("one ends with %d: %s", code, ws[0].said())
	}
	version := uint64(0)
	if m := published(t, c, models); m.Newest != nil {
		version = m.Newest.Version
	}
	until(t, "ten more versions", func() bool {
		m := published(t, c, models)
		return m.Newest != nil && m.Newest.Version > version+10
	})
	if e, code := ws[1].ended(); e {
		t.Fatalf("the other ends too, with %d: %s", code, ws[1].said())
	}
	m := published(t, c, models)
	for _, u := range m.Updates {
		if u.Epoch != m.Claim.Epoch || u.State == modeltopic.StateDamaged || u.State == modeltopic.StateUnchained {
			t.Errorf("version %d of epoch %d is %s; the model is claimed by %+v", u.Version, u.Epoch, u.State, m.Claim)
		}
	}
	if code := ws[1].stop(); code != 0 {
		t.Errorf("the other ends with %d: %s", code, ws[1].said())
	}
	if code, out, errText := streamsvm(t.Context(), "model", "inspect", "--model-topic", models, "--brokers", strings.Join(c.brokers, ",")); code != 0 || strings.Contains(out, "damage") {
		t.Errorf("inspect: exit code %d, %s%s", code, out, errText)
	}
}

// A trainer that is replaced while it runs ends. Its model does not come back, neither by itself nor by compaction.
func TestReplacedTrainerEnds(t *testing.T) {
	c := newCluster(t)
	var embedded *broker.Broker
	if !kafkatest.Real() {
		embedded = kafkatest.Embedded(t)
		c.brokers = []string{embedded.Addr()}
	}
	topic, models := kafkatest.Topic(t, c.brokers, 1, nil), kafkatest.Topic(t, c.brokers, 1, compacting)
	stop := feed(t, c, topic)
	dir := t.TempDir()
	old := startWriter(t, c, topic, models, filepath.Join(dir, "old"))
	until(t, "version 3", func() bool { m := published(t, c, models); return m.Newest != nil && m.Newest.Version >= 3 })
	// A second one without the flag is refused, and disturbs nobody.
	foreign := startWriter(t, c, topic, models, filepath.Join(dir, "foreign"))
	<-foreign.done
	if _, code := foreign.ended(); code != cli.Config || !strings.Contains(foreign.said(), "--replace-model") {
		t.Errorf("a trainer of other checkpoints ends with %d: %s", code, foreign.said())
	}
	before := published(t, c, models)
	heir := startWriter(t, c, topic, models, filepath.Join(dir, "heir"), "--replace-model")
	until(t, "the end of the replaced trainer", func() bool { e, _ := old.ended(); return e })
	if _, code := old.ended(); code != cli.Fenced || !strings.Contains(old.said(), "has taken over") {
		t.Errorf("the replaced trainer ends with %d: %s", code, old.said())
	}
	until(t, "versions of the new trainer", func() bool {
		m := published(t, c, models)
		return m.Newest != nil && m.Newest.Epoch > before.Claim.Epoch && m.Newest.Version > before.Newest.Version+5
	})
	if e, code := heir.ended(); e {
		t.Fatalf("the new trainer ends with %d: %s", code, heir.said())
	}
	stop()
	if code := heir.stop(); code != 0 {
		t.Errorf("the new trainer ends with %d: %s", code, heir.said())
	}
	last := published(t, c, models)
	until(t, "compaction", func() bool {
		// A record more closes the segment, and the cleaner takes what is before it.
		kafkatest.Produce(t, c.brokers, stream.Record{Topic: models, Key: []byte("cover")})
		if embedded != nil {
			embedded.Compact()
		} else {
			time.Sleep(200 * time.Millisecond)
		}
		return !slices.ContainsFunc(published(t, c, models).Updates, func(u modeltopic.RetainedUpdate) bool { return u.Kind == stream.Full && u.Epoch < last.Claim.Epoch })
	})
	m := published(t, c, models)
	if m.Newest == nil || m.Newest.Epoch != last.Newest.Epoch || m.Newest.Version != last.Newest.Version || m.Newest.Hash != last.Newest.Hash {
		t.Errorf("after compaction a subscriber gets %+v, before it was %+v", m.Newest, last.Newest)
	}
}

// supervised runs train as the unit for systemd does, until it ends with a code
// after which it is not started again.
func supervised(t *testing.T, c *cluster, topic, models, dir string, quit <-chan struct{}) (last cli.Code, starts int) {
	t.Helper()
	unit := read(t, "../../deploy/systemd/streamsvm-train.service")
	m := regexp.MustCompile(`(?m)^RestartPreventExitStatus=(.*)$`).FindSubmatch(unit)
	if m == nil {
		t.Fatal("the unit does not say what prevents a restart")
	}
	final := strings.Fields(string(m[1]))
	for {
		w := startWriter(t, c, topic, models, dir)
		starts++
		select {
		case <-quit:
			return w.stop(), starts
		case <-w.done:
		}
		if _, code := w.ended(); code == 0 || slices.Contains(final, fmt.Sprint(int(code))) {
			return code, starts
		}
	}
}

// Two supervised trainers on one directory do not take over from each other for
// ever: the replaced one is not started again.
func TestSupervisedTrainersOnOneDirectory(t *testing.T) {
	c := newCluster(t)
	topic, models, dir := kafkatest.Topic(t, c.brokers, 1, nil), kafkatest.Topic(t, c.brokers, 1, compacting), t.TempDir()
	feed(t, c, topic)
	type end struct {
		code   cli.Code
		starts int
	}
	quit, ends := make(chan struct{}), make(chan end, 2)
	for range 2 {
		go func() {
			code, n := supervised(t, c, topic, models, dir, quit)
			ends <- end{code, n}
		}()
	}
	first := <-ends
	if first.code != cli.Fenced {
		t.Errorf("one ends with %d", first.code)
	}
	var claimed modeltopic.Claim
	until(t, "five versions in one epoch", func() bool {
		m := published(t, c, models)
		before := claimed.Epoch
		claimed = m.Claim
		return m.Newest != nil && m.Newest.Epoch == claimed.Epoch && claimed.Epoch == before && m.Newest.Version > 5
	})
	close(quit)
	second := <-ends
	if second.code != 0 || first.starts+second.starts > 4 || claimed.Epoch > 4 {
		t.Errorf("the other ends with %d; %d and %d starts, %d epochs", second.code, first.starts, second.starts, claimed.Epoch)
	}
}

// TestKilledWhilePublishing: a trainer that died in the middle of a publication, or
// of a promotion, leaves a transaction open. The next one ends it, and does not wait
// until the brokers do so after a minute.
func TestKilledWhilePublishing(t *testing.T) {
	for _, name := range []string{"model", "model@champion"} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			topic, models := c.name(), c.name()
			args := append([]string{"train", "--topics", topic, "--until-end", "--model-topic", models, "--checkpoint", filepath.Join(t.TempDir(), "state"),
				"--promote", "champion", "--gate", "error <= champion + 0.05; examples >= 500"}, learn...)
			generate := []string{"generate", "moons", "--count", "300", "--topic", topic, "--partitions", "1", "-q"}
			c.run(generate...)
			c.run(args...)
			dead := kafkatest.Client(t, c.brokers, kgo.TransactionalID(modeltopic.TransactionalID(models, name)), kgo.TransactionTimeout(time.Minute))
			if err := dead.BeginTransaction(); err != nil {
				t.Fatal(err)
			}
			kafkatest.ProduceWith(t, dead, stream.Record{Topic: models, Key: []byte(name + "/full/0"), Value: []byte("half of it")})
			c.run(generate...)
			start := time.Now()
			c.run(args...)
			if took := time.Since(start); took > 30*time.Second {
				t.Errorf("the next trainer took %v", took)
			}
			if u := decode[updateLine](t, c.run("model", "follow", "--model-topic", models, "--model-name", "model", "--until", "1", "--json")); u.Examples != 600 {
				t.Errorf("the model has learned from %d examples", u.Examples)
			}
		})
	}
}
