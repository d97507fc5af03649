package engine

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/checkpoint"
	"github.com/streamsvm/streamsvm/stream"
)

// memory is a source over records in memory that can break off.
type memory struct {
	recs  []stream.Record
	r     *rand.Rand
	stop  int // cancel after so many records; 0: never
	calls context.CancelFunc
	sent  int
}

func (m *memory) Fetch(ctx context.Context, dst []stream.Record) ([]stream.Record, error) {
	if err := ctx.Err(); err != nil {
		return dst, err
	}
	if len(m.recs) == 0 {
		return dst, io.EOF
	}
	n := min(len(m.recs), 1+m.r.IntN(700))
	dst = append(dst, m.recs[:n]...)
	m.recs = m.recs[n:]
	m.sent += n
	if m.stop > 0 && m.sent >= m.stop {
		m.calls()
	}
	return dst, nil
}

func (m *memory) Close() error { return nil }

// from drops the records before o.
func from(recs []stream.Record, o stream.Offsets) []stream.Record {
	var rest []stream.Record
	for _, r := range recs {
		if r.Offset >= o[stream.Partition{Topic: r.Topic, ID: r.Partition}] {
			rest = append(rest, r)
		}
	}
	return rest
}

// plain decodes a label and float32 features in 4 bytes each.
type plain struct{}

func (plain) Decode(b []byte, x *stream.Example) error {
	if len(b) == 0 || len(b)%4 != 0 {
		return &stream.FieldError{Stage: stream.StageDecode, Field: "value", Err: errors.New("length is not a multiple of 4")}
	}
	*x = stream.Example{Y: float64(math.Float32frombits(binary.LittleEndian.Uint32(b)))}
	x.Labelled = x.Y != 0
	for b = b[4:]; len(b) > 0; b = b[4:] {
		x.X.Val = append(x.X.Val, math.Float32frombits(binary.LittleEndian.Uint32(b)))
	}
	return nil
}

func records(n int, seed uint64, bad bool) []stream.Record {
	var recs []stream.Record
	for _, it := range rings(n, seed, bad) {
		var v []byte
		if it.Err == nil {
			v = binary.LittleEndian.AppendUint32(v, math.Float32bits(float32(it.Example.Y)))
			for _, f := range it.Example.X.Val {
				v = binary.LittleEndian.AppendUint32(v, math.Float32bits(f))
			}
		}
		recs = append(recs, stream.Record{Topic: it.Partition.Topic, Partition: it.Partition.ID, Offset: it.Offset, Value: v})
	}
	return recs
}

// topic is a publisher that remembers.
type topic struct {
	mu      sync.Mutex
	updates []stream.Update
	fail    error
	news    chan struct{} // if not nil, told of updates
}

func (p *topic) Publish(_ context.Context, u *stream.Update) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fail != nil {
		return p.fail
	}
	p.updates = append(p.updates, *u)
	select {
	case p.news <- struct{}{}:
	default:
	}
	return nil
}

func (p *topic) Close() error { return nil }

func openStore(t *testing.T, dir string) *checkpoint.Store {
	t.Helper()
	s, err := checkpoint.Open(dir, checkpoint.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Claim(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestInterruptedRunEqualsPlainRun stops and restarts a run at random places,
// sometimes from a checkpoint that is older than where it stopped, and
// compares state and published model with a run that was never stopped.
func TestInterruptedRunEqualsPlainRun(t *testing.T) {
	const n = 6000
	cfg := config(t, "online")
	if os.Getenv("STREAMSVM_LONG") != "" {
		cfg = config(t, "sbp")
	}
	var want uint64
	var model stream.Update
	for seed := range uint64(5) {
		dir, r := t.TempDir(), rand.New(rand.NewPCG(seed, 9))
		pub := &topic{}
		var e *Engine
		for tries := 0; ; tries++ {
			if tries > 100 {
				t.Fatal("no end in sight")
			}
			store := openStore(t, dir)
			snap, err := store.Load()
			if err != nil {
				t.Fatal(err)
			}
			e = newEngine(t, cfg)
			rc := RunConfig{Decoder: plain{}, Store: store, Publisher: pub, Model: "m", Tolerance: TolerateData, CheckpointEvery: 500, QueueRecords: 1024}
			if snap != nil {
				restore(t, e, snap)
				rc.Version = snap.Header.ModelVersion
			}
			ctx, cancel := context.WithCancel(t.Context())
			src := &memory{recs: from(records(n, 4, true), e.Offsets()), r: r, calls: cancel}
			if seed > 0 {
				src.stop = 1 + r.IntN(3000)
			}
			rc.Source = src
			res, err := Run(ctx, e, rc)
			cancel()
			if err != nil {
				t.Fatal(err)
			}
			if res.Ended {
				break
			}
		}
		c := e.Counts()
		if c.Consumed != n || c.Learned+c.SampledOut+c.Dead != n {
			t.Fatalf("seed %d: %+v", seed, c)
		}
		last := pub.updates[len(pub.updates)-1]
		if seed == 0 {
			want, model = hashOf(t, e), last
			continue
		}
		if h := hashOf(t, e); h != want {
			t.Errorf("seed %d: state %x, of the plain run %x", seed, h, want)
		}
		if last.Hash != model.Hash {
			t.Errorf("seed %d: the published model differs from that of the plain run", seed)
		}
		for i := 1; i < len(pub.updates); i++ {
			if pub.updates[i].Version <= pub.updates[i-1].Version {
				t.Errorf("seed %d: version %d after %d", seed, pub.updates[i].Version, pub.updates[i-1].Version)
			}
		}
	}
}

func TestToleranceNoneStopsBeforeTheRecord(t *testing.T) {
	recs := records(1000, 4, false)
	recs[700].Value = []byte("xyz")
	store := openStore(t, t.TempDir())
	e := newEngine(t, config(t, "sbp"))
	_, err := Run(t.Context(), e, RunConfig{
		Source: &memory{recs: recs, r: rand.New(rand.NewPCG(1, 1))}, Decoder: plain{}, Store: store,
	})
	var re *stream.RecordError
	if !errors.As(err, &re) || re.Offset != recs[700].Offset || re.Field != "value" {
		t.Fatalf("error %v does not name the record", err)
	}
	snap, err := store.Load()
	if err != nil || snap == nil {
		t.Fatal("no checkpoint of what came before", err)
	}
	if snap.Header.Examples != 700 {
		t.Errorf("checkpoint after %d records, want 700", snap.Header.Examples)
	}
}

// letters is a dead-letter topic.
type letters struct {
	offsets []int64
	fail    error
}

func (l *letters) Send(_ context.Context, rec *stream.Record, why *stream.RecordError) error {
	if l.fail != nil {
		return l.fail
	}
	l.offsets = append(l.offsets, rec.Offset)
	return nil
}

func (l *letters) Flush(context.Context) error { return nil }

func TestDeadLetters(t *testing.T) {
	run := func(l *letters, tol Tolerance) (*Engine, error) {
		e := newEngine(t, config(t, "sbp"))
		_, err := Run(t.Context(), e, RunConfig{
			Source: &memory{recs: records(2000, 4, true), r: rand.New(rand.NewPCG(1, 1))}, Decoder: plain{}, DeadLetters: l, Tolerance: tol,
		})
		return e, err
	}
	l := &letters{}
	e, err := run(l, TolerateData)
	if err != nil {
		t.Fatal(err)
	}
	if n := e.Counts().Dead; n == 0 || int(n) != len(l.offsets) {
		t.Errorf("%d dead records, %d dead letters", n, len(l.offsets))
	}
	broken := &letters{fail: errors.New("topic is gone")}
	if _, err := run(broken, TolerateData); err == nil || !strings.Contains(err.Error(), "topic is gone") {
		t.Errorf("a lost dead letter ended the run with %v", err)
	}
	if _, err := run(broken, TolerateAll); err != nil {
		t.Error(err)
	}
}

func TestFailingPublisherStopsTheRun(t *testing.T) {
	e := newEngine(t, config(t, "sbp"))
	_, err := Run(t.Context(), e, RunConfig{
		Source: &memory{recs: records(2000, 4, false), r: rand.New(rand.NewPCG(1, 1))}, Decoder: plain{},
		Publisher: &topic{fail: errors.New("no leader")}, CheckpointEvery: 500,
	})
	if err == nil || !strings.Contains(err.Error(), "no leader") {
		t.Errorf("error %v", err)
	}
}

// TestZombieStops lets a second process claim the directory: the first must
// end with the fencing error and leave no newer checkpoint.
func TestZombieStops(t *testing.T) {
	dir := t.TempDir()
	old := openStore(t, dir)
	openStore(t, dir)
	e := newEngine(t, config(t, "sbp"))
	pub := &topic{}
	_, err := Run(t.Context(), e, RunConfig{
		Source: &memory{recs: records(2000, 4, false), r: rand.New(rand.NewPCG(1, 1))}, Decoder: plain{},
		Store: old, Publisher: pub, CheckpointEvery: 500,
	})
	if !errors.Is(err, checkpoint.ErrFenced) {
		t.Errorf("error %v, want ErrFenced", err)
	}
	if len(pub.updates) > 0 {
		t.Error("a fenced trainer published")
	}
}

// stuck is a source that delivers a few records and then blocks.
type stuck struct{ memory }

func (s *stuck) Fetch(ctx context.Context, dst []stream.Record) ([]stream.Record, error) {
	if len(s.recs) > 0 {
		return s.memory.Fetch(ctx, dst)
	}
	<-ctx.Done()
	return dst, ctx.Err()
}

// endAfter ends a run when so many records have been consumed.
type endAfter struct {
	records uint64
	end     func()
}

func (c endAfter) Consumed(e *Engine, _ int64) {
	if e.Counts().Consumed >= c.records {
		c.end()
	}
}

func TestStopWhileWaiting(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	store := openStore(t, t.TempDir())
	e := newEngine(t, config(t, "sbp"))
	res, err := Run(ctx, e, RunConfig{
		Source: &stuck{memory{recs: records(900, 4, false), r: rand.New(rand.NewPCG(1, 1))}}, Decoder: plain{}, Store: store,
		Hooks: []any{endAfter{900, cancel}},
	})
	if err != nil || res.Ended {
		t.Fatal(res, err)
	}
	snap, err := store.Load()
	if err != nil || snap == nil || snap.Header.Examples != 900 {
		t.Errorf("the last checkpoint is %+v, %v", snap, err)
	}
}

// TestFirstPublication: a run that goes on from a checkpoint publishes its model
// at once where none has been published, and otherwise when there is a newer one.
func TestFirstPublication(t *testing.T) {
	e := newEngine(t, config(t, "sbp"))
	consume(t, e, rings(1000, 2, false))
	snap := snapshot(t, e)
	for version, want := range []int{1, 0} {
		e := newEngine(t, config(t, "sbp"))
		restore(t, e, snap)
		pub := &topic{}
		res, err := Run(t.Context(), e, RunConfig{
			Source: &memory{r: rand.New(rand.NewPCG(1, 1))}, Decoder: plain{}, Publisher: pub, Version: uint64(version), Stop: true,
		})
		if err != nil || len(pub.updates) != want || res.Version != 1 {
			t.Errorf("after version %d: %d updates, version %d, %v", version, len(pub.updates), res.Version, err)
		}
	}
}

// unfinished is a learner that cannot Finish.
type unfinished struct{ algos.Learner }

func (unfinished) Finish(context.Context) (algos.Report, error) {
	return algos.Report{}, errors.New("no memory")
}

func TestFailingFinishStopsTheRun(t *testing.T) {
	cfg := config(t, "sbp")
	inner := cfg.Spec
	cfg.Options = nil
	cfg.Spec = algos.Define(algos.SpecInfo{Name: "unfinished", Summary: "s", When: "w", Paper: "p", Kind: inner.Kind}, nil,
		func(env algos.Env, _ struct{}) (algos.Learner, error) {
			l, err := inner.New(env, map[string]string{"every": "1", "updates": "1"})
			return unfinished{l}, err
		}, inner.DecodeModel)
	store := openStore(t, t.TempDir())
	res, err := Run(t.Context(), newEngine(t, cfg), RunConfig{
		Source: &memory{recs: records(500, 4, false), r: rand.New(rand.NewPCG(1, 1))}, Decoder: plain{}, Store: store,
	})
	if err == nil || !strings.Contains(err.Error(), "no memory") || res.Ended {
		t.Errorf("ended %v, error %v", res.Ended, err)
	}
	if files, err := store.Files(); err != nil || len(files) > 0 {
		t.Errorf("a state that is not sound was kept: %v, %v", files, err)
	}
}
