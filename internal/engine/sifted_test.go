package engine

import (
	"bytes"
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/streamsvm/streamsvm/contrib/scale/siftplan"
	"github.com/streamsvm/streamsvm/internal/sift"
	"github.com/streamsvm/streamsvm/stream"
)

// siftedRecords returns those of n records that were forwarded, with their
// headers, by the decisions of a rule that errs now and then.
func siftedRecords(n int, seed uint64) (all, forwarded []stream.Record) {
	all = records(n, seed, false)
	plan := siftplan.Plan{S: 0.1}
	for i, r := range all {
		at := sift.Source{Partition: stream.Partition{Topic: "examples", ID: r.Partition}, Offset: r.Offset}
		var x stream.Example
		if err := (plain{}).Decode(r.Value, &x); err != nil {
			panic(err)
		}
		f := 2 * x.Y
		if i%7 == 0 {
			f = -0.5 * x.Y
		}
		p := plan.Probability(siftplan.Hinge, x.Y*f, 0.2)
		if !sift.Forward(at, 3, p) {
			continue
		}
		h := sift.Header{P: p, Decision: f, Version: 1, Epoch: 1}
		r.Headers = []stream.Header{{Key: sift.HeaderKey, Value: h.Append(nil)}, {Key: sift.SourceKey, Value: at.Append(nil)}}
		r.Topic = "distilled"
		forwarded = append(forwarded, r)
	}
	return all, forwarded
}

func runSifted(t *testing.T, name string, recs []stream.Record, stops int) (*Engine, string) {
	t.Helper()
	e := newEngine(t, config(t, name))
	for part := range slices.Chunk(recs, (len(recs)+stops)/(stops+1)) {
		var b batch
		in := newIngest(nil, plain{}, 1, 1<<30, false)
		if !in.send(t.Context(), part) {
			t.Fatal(in.err)
		}
		b = *<-in.queue
		consume(t, e, b.items)
		if stops == 0 {
			continue
		}
		settle(t, e)
		s := snapshot(t, e)
		e = newEngine(t, config(t, name))
		restore(t, e, s)
	}
	settle(t, e)
	own, learner, err := e.encode()
	if err != nil {
		t.Fatal(err)
	}
	return e, string(append(own, learner...))
}

// TestSifted: of a stream that was sifted the engine knows how much there was, and
// goes on after a restart as if there had been none.
func TestSifted(t *testing.T) {
	for _, name := range []string{"scs", "online", "adaptive"} {
		t.Run(name, func(t *testing.T) {
			all, recs := siftedRecords(6000, 5)
			e, once := runSifted(t, name, recs, 0)
			if _, again := runSifted(t, name, recs, 4); once != again {
				t.Error("the state depends on restarts")
			}
			// As little where the first records were not sifted.
			mixed := slices.Concat(all[:500], recs[:500])
			_, some := runSifted(t, name, mixed, 0)
			if _, again := runSifted(t, name, mixed, 9); some != again {
				t.Error("the state of a stream that is sifted from some record on depends on restarts")
			}
			n := float64(len(all)) - float64(e.cfg.Warmup)/float64(len(recs))*float64(len(all))
			m := e.Prequential().Weighted()
			// Each of about 6/7 of the records that is forwarded stands for 5.
			if m == nil || math.Abs(m.Sum-n) > 4*math.Sqrt(4*n) {
				t.Fatalf("weights add up to %+v, there are about %.0f examples", m, n)
			}
			if m.Effective >= m.Sum || m.Effective > float64(e.Prequential().Examples()) {
				t.Errorf("%g examples count as %g, of %d", m.Sum, m.Effective, e.Prequential().Examples())
			}
			p, ok, err := siftplan.PlanOf(e.Plan(0))
			if !ok || err != nil || p.Kappa != 0 {
				t.Errorf("plan %+v, %v, %v", p, ok, err)
			}
			if p, _, err = siftplan.PlanOf(e.Plan(0.1)); err != nil || p.Kappa == 0 {
				t.Errorf("plan under a budget %+v, %v", p, err)
			}
			last := all[len(all)-1]
			if got := e.reached()[stream.Partition{Topic: "examples", ID: last.Partition}]; got < last.Offset-100 || got > last.Offset+1 {
				t.Errorf("the source has been read up to %d, the last one is at %d", got, last.Offset)
			}
		})
	}
}

// TestNotSifted: headers of others change nothing, and neither does a record that
// counts once but for what is known of the stream.
func TestNotSifted(t *testing.T) {
	recs := records(3000, 5, false)
	_, without := runSifted(t, "scs", recs, 0)
	for i := range recs {
		recs[i].Headers = []stream.Header{{Key: "trace", Value: []byte("x")}}
	}
	e, with := runSifted(t, "scs", recs, 0)
	if with != without || e.sifted != nil {
		t.Error("a header of others changes the state")
	}
	before, _, _ := e.encode()
	_, learner, _ := e.encode()
	for i := range recs {
		recs[i].Headers = []stream.Header{{Key: sift.HeaderKey, Value: []byte("1 p=1 f=0 v=0 e=0")}}
	}
	e, _ = runSifted(t, "scs", recs, 0)
	after, learned, _ := e.encode()
	if !bytes.Equal(learner, learned) || e.Prequential().Weighted() != nil || bytes.Equal(before, after) {
		t.Error("a probability of 1 is not what it should be")
	}
}

// TestBadSiftHeader: a header that is none is a dead letter that says where.
func TestBadSiftHeader(t *testing.T) {
	for _, c := range []struct{ learner, key, value, says string }{
		{"scs", sift.HeaderKey, "1 p=7 f=0 v=1 e=1", "distilled/0 offset 4: weight, __streamsvm.sift: p is"},
		{"scs", sift.SourceKey, "nowhere", "distilled/0 offset 4: weight, __streamsvm.source"},
		{"sbp", sift.HeaderKey, "1 p=0.5 f=0 v=1 e=1", "learner sbp cannot weigh examples"},
	} {
		recs := records(5, 1, false)
		for i := range recs {
			recs[i].Topic, recs[i].Partition, recs[i].Offset = "distilled", 0, int64(i)
		}
		recs[4].Headers = []stream.Header{{Key: sift.HeaderKey, Value: []byte("1 p=1 f=0 v=1 e=1")}}
		if c.key == sift.HeaderKey {
			recs[4].Headers = nil
		}
		recs[4].Headers = append(recs[4].Headers, stream.Header{Key: c.key, Value: []byte(c.value)})
		e := newEngine(t, config(t, c.learner))
		in := newIngest(nil, plain{}, 1, 1<<30, false)
		in.send(context.Background(), recs)
		b := <-in.queue
		consume(t, e, b.items)
		if err := b.items[4].Err; err == nil || err.Stage != stream.StageWeight || !strings.Contains(err.Error(), c.says) || e.Counts().Dead != 1 {
			t.Errorf("%s %q: %v", c.learner, c.value, err)
		}
	}
}

// TestSiftBudget: a trainer that is behind asks for less, the less the further it
// is, and for all again when it has caught up.
func TestSiftBudget(t *testing.T) {
	_, recs := siftedRecords(3000, 5)
	e, _ := runSifted(t, "online", recs, 0)
	r := &run{RunConfig: RunConfig{Source: late{}, Log: e.cfg.Log}, e: e, newest: time.Now()}
	if r.keepUp(); r.budget != 0 {
		t.Error("a budget for a trainer that is not behind")
	}
	r.newest = time.Now().Add(-time.Hour)
	if r.keepUp(); !(r.budget > 0 && r.budget < 1) {
		t.Errorf("budget %g for a trainer that is an hour behind", r.budget)
	}
}

type late struct{}

func (late) Fetch(context.Context, []stream.Record) ([]stream.Record, error) { return nil, nil }
func (late) Close() error                                                    { return nil }
func (late) Lag() map[stream.Partition]int64 {
	return map[stream.Partition]int64{{Topic: "distilled"}: 100}
}

// TestPlanPublished: each version comes with the plan, with how far the source has
// been read, and with measures by weight.
func TestPlanPublished(t *testing.T) {
	_, recs := siftedRecords(3000, 5)
	e := newEngine(t, config(t, "online"))
	var pub topic
	if _, err := Run(t.Context(), e, RunConfig{Source: &memory{recs: recs, r: rand.New(rand.NewPCG(1, 1))}, Decoder: plain{}, Publisher: &pub, Model: "m", CheckpointEvery: 300}); err != nil {
		t.Fatal(err)
	}
	if len(pub.updates) < 2 {
		t.Fatalf("%d updates", len(pub.updates))
	}
	u := pub.updates[len(pub.updates)-1]
	if p, ok, err := siftplan.PlanOf(u.Evaluation); !ok || err != nil || p.Kappa != 0 {
		t.Errorf("plan %+v, %v, %v", p, ok, err)
	}
	if u.Offsets[stream.Partition{Topic: "examples"}] == 0 || u.Offsets[stream.Partition{Topic: "distilled"}] == 0 {
		t.Errorf("positions %v", u.Offsets)
	}
	if !slices.ContainsFunc(u.Evaluation, func(m stream.Measure) bool { return m.Name == "prequential_weighted_accuracy" && m.Value > 0.5 }) {
		t.Errorf("%v", u.Evaluation)
	}
}
