package predictor_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/algos/registry"
	"github.com/streamsvm/streamsvm/internal/delta"
	"github.com/streamsvm/streamsvm/internal/prep"
	"github.com/streamsvm/streamsvm/internal/testkit/kafkatest"
	"github.com/streamsvm/streamsvm/predictor"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/kafkaio"
	"github.com/streamsvm/streamsvm/stream/modeltopic"
)

// versions makes models of a kernel learner, each some examples further than
// the one before, as a trainer publishes them: fulls, and between them deltas.
type versions struct {
	b       *testing.B
	spec    algos.Spec
	learner algos.Learner
	tr      *prep.Transform
	rng     *rand.Rand
	dim     int
	n       uint64
	base    []byte
}

// growing begins with a model of about so many bytes. Labels are random, so
// that almost every example becomes a support vector.
func growing(b *testing.B, dim, bytes int) *versions {
	spec, err := registry.Lookup("sbp")
	if err != nil {
		b.Fatal(err)
	}
	v := &versions{b: b, spec: spec, dim: dim, rng: rand.New(rand.NewPCG(1, 2))}
	if v.learner, err = spec.New(algos.Env{Seed: 1}, map[string]string{"gamma": "0.1", "c": "1"}); err != nil {
		b.Fatal(err)
	}
	xs := v.examples(1000)
	if v.tr, err = prep.Fit(xs, prep.Options{Scale: prep.Standard}); err != nil {
		b.Fatal(err)
	}
	for len(v.base) < bytes {
		v.learn(max(16, (bytes-len(v.base))/(4*dim+8)))
	}
	return v
}

func (v *versions) examples(n int) []*stream.Example {
	xs := make([]*stream.Example, n)
	for i := range xs {
		x := make([]float32, v.dim)
		for k := range x {
			x[k] = float32(v.rng.NormFloat64())
		}
		xs[i] = &stream.Example{X: stream.Vec{Val: x}, Y: float64(1 - 2*v.rng.IntN(2)), Labelled: true}
	}
	return xs
}

func (v *versions) learn(n int) {
	xs := v.examples(n)
	for _, x := range xs {
		x.X = v.tr.Apply(x.X)
	}
	if _, err := algos.Feed(context.Background(), v.learner, xs...); err != nil {
		v.b.Fatal(err)
	}
	var err error
	v.base, err = predictor.New(v.spec, algos.Classify, nil, v.tr, v.learner.Model()).AppendBinary(nil)
	if err != nil {
		v.b.Fatal(err)
	}
	v.n++
}

// next returns the next version, one in 16 of them a full.
func (v *versions) next() *stream.Update {
	before := v.base
	v.learn(20)
	u := &stream.Update{Kind: stream.Full, Model: "m", Learner: "sbp", Version: v.n, Epoch: 1, Payload: v.base, Created: time.Now()}
	if v.n%16 != 0 {
		u.Kind, u.Base, u.Payload = stream.Delta, v.n-1, delta.Diff(before, v.base)
	}
	u.Hash = xxhash.Sum64(u.Payload)
	return u
}

// BenchmarkFollow lets 1 and 100 subscribers follow one model topic. An operation is a
// version: from its publication to the last subscriber that has it in use. It
// reports, for fulls and deltas, how long after the call of Publish a
// subscriber has the version in use, and how many bytes a subscriber receives
// for it, over its TCP connections.
func BenchmarkFollow(b *testing.B) {
	for _, c := range []struct {
		name       string
		dim, bytes int
	}{{"50kB", 10, 50_000}, {"5MB", 100, 5_000_000}} {
		var models *versions
		for _, subscribers := range []int{1, 100} {
			b.Run(fmt.Sprintf("%s/%d", c.name, subscribers), func(b *testing.B) {
				if models == nil {
					models = growing(b, c.dim, c.bytes)
				}
				follow(b, models, subscribers)
			})
		}
	}
}

func follow(b *testing.B, models *versions, subscribers int) {
	brokers := kafkatest.Brokers(b)
	topic := kafkatest.Name(b, brokers)
	wired := newWired(brokers)
	ctx, cancel := context.WithCancel(context.Background())
	cfg := kafkaio.Config{Brokers: brokers, Log: slog.New(slog.NewTextHandler(io.Discard, nil))}
	pub, err := modeltopic.NewPublisher(ctx, modeltopic.PublisherOptions{Config: cfg, Topic: topic, Model: "m"})
	if err != nil {
		b.Fatal(err)
	}
	defer pub.Close()
	first := models.next()
	first.Kind, first.Base, first.Payload, first.Hash = stream.Full, 0, models.base, xxhash.Sum64(models.base)
	if err := pub.Publish(ctx, first); err != nil {
		b.Fatal(err)
	}

	type swap struct {
		version uint64
		at      time.Time
	}
	swaps := make(chan swap, subscribers)
	var done sync.WaitGroup
	for range subscribers {
		sub, err := modeltopic.NewSubscriber(ctx, modeltopic.SubscriberOptions{Config: cfg, Topic: topic, Model: "m"})
		if err != nil {
			b.Fatal(err)
		}
		live := predictor.Follow(ctx, sub, predictor.FollowOptions{OnUpdate: func(v *predictor.Version) { swaps <- swap{v.Update.Version, time.Now()} }})
		done.Go(func() {
			<-live.Done()
			sub.Close()
		})
	}
	defer done.Wait()
	defer cancel()
	await := func(version uint64, seen func(time.Time)) {
		for n := 0; n < subscribers; {
			select {
			case s := <-swaps:
				if s.version == version {
					n++
					seen(s.at)
				}
			case <-time.After(60 * time.Second):
				b.Fatalf("version %d: %d of %d subscribers have it", version, n, subscribers)
			}
		}
	}
	await(first.Version, func(time.Time) {})

	kinds := []stream.UpdateKind{stream.Full, stream.Delta}
	took, wire, payload, published := map[stream.UpdateKind][]time.Duration{}, map[stream.UpdateKind]int64{}, map[stream.UpdateKind]int{}, map[stream.UpdateKind]int{}
	var ack time.Duration
	b.ResetTimer()
	for range b.N {
		b.StopTimer()
		u := models.next()
		time.Sleep(300 * time.Millisecond) // a trainer does not publish without a pause
		before := wired.received()
		b.StartTimer()
		start := time.Now()
		if err := pub.Publish(ctx, u); err != nil {
			b.Fatal(err)
		}
		ack += time.Since(start)
		await(u.Version, func(at time.Time) { took[u.Kind] = append(took[u.Kind], at.Sub(start)) })
		wire[u.Kind] += wired.received() - before
		payload[u.Kind] += len(u.Payload)
		published[u.Kind]++
	}
	b.StopTimer()
	var all []time.Duration
	report := func(name string, took []time.Duration) {
		slices.Sort(took)
		b.ReportMetric(quantile(took, 0.5), name+"p50-ms")
		b.ReportMetric(quantile(took, 0.99), name+"p99-ms")
	}
	for _, k := range kinds {
		if n := published[k]; n > 0 {
			all = append(all, took[k]...)
			report(string(k)+"-", took[k])
			b.ReportMetric(float64(payload[k])/float64(n), string(k)+"-payload-B")
			b.ReportMetric(float64(wire[k])/float64(n*subscribers), string(k)+"-wire-B")
		}
	}
	report("", all)
	b.ReportMetric(float64(len(models.base)), "model-B")
	b.ReportMetric(float64(ack.Milliseconds())/float64(b.N), "publish-ms")
}

// quantile of sorted durations, in milliseconds.
func quantile(d []time.Duration, q float64) float64 {
	return float64(d[min(int(q*float64(len(d))), len(d)-1)].Microseconds()) / 1000
}
