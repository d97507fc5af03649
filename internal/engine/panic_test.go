package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/checkpoint"
	"github.com/streamsvm/streamsvm/internal/crash"
	"github.com/streamsvm/streamsvm/internal/par"
	"github.com/streamsvm/streamsvm/stream"
)

const plantEnv = "STREAMSVM_TEST_PLANT"

// plants are the places where a run is made to panic, and what the report says of
// them. The run has 2000 records and takes a snapshot every 500.
var plants = []struct{ place, doing string }{
	{"Add", "learning, the last record being t/"},
	{"Step", "learning, the last record being t/"},
	{"Decisions", "learning, the last record being t/"},
	{"par", "learning, the last record being t/"},
	{"Finish", "finishing the optimisation, the last record being t/1 offset 999: "},
	{"Decode", "decoding t/0 offset 350: "},
	{"Fetch", "reading the stream: "},
	{"Record", "learning, the last record being t/"},
	{"Mark", "taking a snapshot, the last record being t/"},
	{"Flush", "sending dead letters: "},
	{"Confirm", "storing the checkpoint of "},
	{"Save", "storing the checkpoint of "},
	{"Publish", "publishing version 2: "},
	{"Commit", "committing offsets: "},
	{"Consumed", "learning, the last record being t/"},
	{"Checkpointed", "storing the checkpoint of "},
	{"Published", "publishing version 2: "},
}

// TestPanicEndsTheProgram plants panics all over a run: each ends the process with
// one line, and nothing is stored or published afterwards.
func TestPanicEndsTheProgram(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range append(plants, struct{ place, doing string }{"nowhere", ""}) {
		t.Run(p.place, func(t *testing.T) {
			t.Parallel()
			var out, errText bytes.Buffer
			cmd := exec.Command(exe, "-test.run=^TestPlanted$")
			cmd.Env = append(os.Environ(), plantEnv+"="+p.place, "GOMAXPROCS=2")
			cmd.Stdout, cmd.Stderr = &out, &errText
			var exit *exec.ExitError
			if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
				t.Fatal(err)
			}
			if p.place == "nowhere" { // or this test shows nothing
				if cmd.ProcessState.ExitCode() != 0 || !strings.Contains(out.String(), "stored 2000\npublished ") {
					t.Fatalf("exit code %d, without a plant\n%s%s", cmd.ProcessState.ExitCode(), &out, &errText)
				}
				return
			}
			if code := cmd.ProcessState.ExitCode(); code != 70 {
				t.Errorf("exit code %d, want 70\n%s", code, &errText)
			}
			line := errText.String()
			if strings.Count(line, "\n") != 1 || !strings.HasPrefix(line, "test: panic, "+p.doing) || !strings.Contains(line, "planted in "+p.place) || !strings.Contains(line, "panic_test.go:") {
				t.Errorf("standard error is %q, want a line with %q", line, p.doing)
			}
			lines := strings.Split(strings.TrimSpace(out.String()), "\n")
			if last := lines[len(lines)-1]; last != "planted" {
				t.Errorf("after the panic came %q", last)
			}
			if !strings.Contains(out.String(), "stored 500\n") {
				t.Errorf("the panic came too early to show anything: %q", out.String())
			}
		})
	}
}

// TestPlanted is the process of TestPanicEndsTheProgram.
func TestPlanted(t *testing.T) {
	place := os.Getenv(plantEnv)
	if place == "" {
		t.Skip("it is run by TestPanicEndsTheProgram")
	}
	crash.Install("test", os.Stderr, func() { os.Exit(70) })
	w := &planted{place: place, first: make(chan struct{})}
	cfg := config(t, "sbp")
	inner := cfg.Spec
	cfg.Options = nil
	cfg.Spec = algos.Define(algos.SpecInfo{Name: "planted", Summary: "s", When: "w", Paper: "p", Kind: inner.Kind}, nil,
		func(env algos.Env, _ struct{}) (algos.Learner, error) {
			l, err := inner.New(env, map[string]string{"every": "1", "updates": "1"})
			return &plantedLearner{Learner: l, w: w}, err
		}, inner.DecodeModel)
	_, err := Run(t.Context(), newEngine(t, cfg), RunConfig{
		Source:  &plantedSource{memory{recs: records(2000, 4, false), r: rand.New(rand.NewPCG(1, 1))}, w},
		Decoder: w, Store: w, Publisher: w, Recorder: w, DeadLetters: w, Hooks: []any{w}, Confirm: w.Confirm,
		CheckpointEvery: 500, QueueRecords: 512,
	})
	if err != nil {
		t.Fatal(err)
	}
}

// planted is everything that a run needs from outside, and panics in one place.
type planted struct {
	place string
	mu    sync.Mutex
	n     map[string]int
	first chan struct{} // closed when the first version has been published and committed
	told  sync.Once
	// Snapshots, and those of them whose offsets have been committed, last.
	taken, committed atomic.Int64
}

// at panics if this is the place, and has been reached often enough, once nothing is
// under way elsewhere that would be said later.
func (w *planted) at(place string, times int) {
	if w.place != place {
		return
	}
	w.mu.Lock()
	if w.n == nil {
		w.n = map[string]int{}
	}
	w.n[place]++
	now := w.n[place] == times
	w.mu.Unlock()
	if !now {
		return
	}
	<-w.first
	// Elsewhere than on the goroutine that stores and publishes, what it has begun is
	// waited for: it would be said later without anything being wrong.
	switch place {
	case "Flush", "Confirm", "Save", "Publish", "Commit", "Checkpointed", "Published":
	default:
		for w.taken.Load() > w.committed.Load() {
			time.Sleep(time.Millisecond)
		}
	}
	w.say("planted")
	panic("planted in " + place + "\nwith a second line")
}

func (w *planted) say(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	fmt.Printf(format+"\n", args...)
}

func (w *planted) Decode(b []byte, x *stream.Example) error {
	w.at("Decode", 701)
	return plain{}.Decode(b, x)
}

func (w *planted) Save(_ context.Context, snap *checkpoint.Snapshot) (string, error) {
	w.at("Save", 2)
	w.say("stored %d", snap.Header.Examples)
	return strconv.FormatUint(snap.Header.Examples, 10), nil
}

func (w *planted) Epoch() uint64 { return 1 }

func (w *planted) Publish(_ context.Context, u *stream.Update) error {
	w.at("Publish", 2)
	w.say("published %d", u.Version)
	return nil
}

func (w *planted) Close() error { return nil }

func (w *planted) Write(*stream.Record) error {
	w.at("Record", 700)
	return nil
}

func (w *planted) Sync() (int64, error) { return 0, nil }

func (w *planted) Send(context.Context, *stream.Record, *stream.RecordError) error { return nil }

func (w *planted) Flush(context.Context) error {
	w.at("Flush", 2)
	return nil
}

func (w *planted) Mark() string {
	w.at("Mark", 2)
	w.taken.Add(1)
	return ""
}

func (w *planted) Confirm(context.Context) error {
	w.at("Confirm", 2)
	return nil
}

func (w *planted) Consumed(e *Engine, _ int64) {
	if e.Counts().Consumed >= 700 {
		w.at("Consumed", 1)
	}
}

func (w *planted) Checkpointed(string, checkpoint.Header, int64, time.Duration) {
	w.at("Checkpointed", 2)
}

func (w *planted) Published(*stream.Update, time.Duration) { w.at("Published", 2) }

// plantedSource delivers no more than is due before the first snapshot until that is
// published.
type plantedSource struct {
	memory
	w *planted
}

func (s *plantedSource) Fetch(ctx context.Context, dst []stream.Record) ([]stream.Record, error) {
	if s.sent >= 700 {
		s.w.at("Fetch", 1)
		select {
		case <-s.w.first:
		case <-ctx.Done():
			return dst, ctx.Err()
		}
	}
	n := min(len(s.recs), 500)
	if s.sent == 500 {
		n = 201
	}
	if n == 0 {
		return s.memory.Fetch(ctx, dst)
	}
	dst = append(dst, s.recs[:n]...)
	s.recs = s.recs[n:]
	s.sent += n
	return dst, nil
}

// Commit implements stream.Committer.
func (s *plantedSource) Commit(context.Context, stream.Offsets) error {
	s.w.at("Commit", 2)
	s.w.committed.Add(1)
	s.w.told.Do(func() { close(s.w.first) })
	return nil
}

type plantedLearner struct {
	algos.Learner
	w *planted
}

func (l *plantedLearner) Add(x *stream.Example) (algos.Fate, error) {
	l.w.at("Add", 700)
	return l.Learner.Add(x)
}

func (l *plantedLearner) Step(ctx context.Context) (algos.Report, error) {
	l.w.at("Step", 650)
	par.Each(8, func(i int) {
		if i == 5 {
			l.w.at("par", 650)
		}
	})
	return l.Learner.Step(ctx)
}

func (l *plantedLearner) Finish(ctx context.Context) (algos.Report, error) {
	l.w.at("Finish", 1)
	return l.Learner.Finish(ctx)
}

func (l *plantedLearner) Model() algos.Model { return plantedModel{l.Learner.Model(), l.w} }

type plantedModel struct {
	algos.Model
	w *planted
}

func (m plantedModel) Decisions(dst []float64, xs []stream.Vec) {
	for range xs {
		m.w.at("Decisions", 650)
	}
	m.Model.Decisions(dst, xs)
}

// held is a store that waits until it is let go.
type held struct{ in, out chan struct{} }

func (h held) Save(context.Context, *checkpoint.Snapshot) (string, error) {
	close(h.in)
	<-h.out
	return "", nil
}

func (held) Epoch() uint64 { return 1 }

// TestPanicLeavesNoWriter: where a caller survives the panic of a run, in a program
// that has not called crash.Install, the goroutine that stores and publishes stops
// where it is.
func TestPanicLeavesNoWriter(t *testing.T) {
	h := held{make(chan struct{}), make(chan struct{})}
	pub := &topic{}
	committed := make(chan struct{}, 1)
	before := runtime.NumGoroutine()
	func() {
		defer func() {
			if v := recover(); v != "planted" {
				t.Errorf("recovered %v", v)
			}
		}()
		_, err := Run(t.Context(), newEngine(t, config(t, "sbp")), RunConfig{
			Source:  &committing{memory{recs: records(5000, 4, false), r: rand.New(rand.NewPCG(1, 1))}, committed},
			Decoder: plain{}, Store: h, Publisher: pub, CheckpointEvery: 500, ShutdownTimeout: time.Millisecond, Hooks: []any{panicsOnce{h.in}},
		})
		t.Errorf("the run ended with %v", err)
	}()
	close(h.out) // the checkpoint of the snapshot under way is stored
	for runtime.NumGoroutine() > before {
		if t.Context().Err() != nil {
			t.Fatal("goroutines of the run go on")
		}
		runtime.Gosched()
	}
	if len(pub.updates) > 0 || len(committed) > 0 {
		t.Errorf("%d versions published, %d commits after the panic", len(pub.updates), len(committed))
	}
}

type committing struct {
	memory
	done chan struct{}
}

func (c *committing) Commit(context.Context, stream.Offsets) error {
	c.done <- struct{}{}
	return nil
}

// panicsOnce panics while a checkpoint is being stored.
type panicsOnce struct{ storing chan struct{} }

func (p panicsOnce) Consumed(e *Engine, _ int64) {
	if e.Counts().Consumed >= 1500 {
		<-p.storing
		panic("planted")
	}
}
