package predictor_test

import (
	"context"
	"errors"
	"log"
	"log/slog"
	"strings"
	"testing"

	"github.com/cespare/xxhash/v2"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/algos/registry"
	"github.com/streamsvm/streamsvm/contrib/broker"
	"github.com/streamsvm/streamsvm/internal/prep"
	"github.com/streamsvm/streamsvm/predictor"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/kafkaio"
	"github.com/streamsvm/streamsvm/stream/modeltopic"
)

// quadrants trains on the product of two signs.
func quadrants(sign float64) *predictor.Predictor {
	spec, err := registry.Lookup("scs")
	if err != nil {
		log.Fatal(err)
	}
	options := map[string]string{"gamma": "2", "c": "10"}
	l, err := spec.New(algos.Env{Seed: 1}, options)
	if err != nil {
		log.Fatal(err)
	}
	var raw, xs []*stream.Example
	for i := range 400 {
		a, b := float32(i/20)*2-19, float32(i%20)*2-19
		raw = append(raw, &stream.Example{X: stream.Vec{Val: []float32{a / 20, b / 20}}, Y: sign, Labelled: true})
		if (a > 0) != (b > 0) {
			raw[i].Y = -sign
		}
	}
	tr, err := prep.Fit(raw, prep.Options{Scale: prep.Standard})
	if err != nil {
		log.Fatal(err)
	}
	for _, x := range raw {
		c := *x
		c.X = tr.Apply(x.X)
		xs = append(xs, &c)
	}
	if _, err := algos.Feed(context.Background(), l, xs...); err != nil {
		log.Fatal(err)
	}
	if _, err := l.Finish(context.Background()); err != nil {
		log.Fatal(err)
	}
	return predictor.New(spec, algos.Classify, options, tr, l.Model())
}

func update(p *predictor.Predictor, version uint64) *stream.Update {
	payload, err := p.AppendBinary(nil)
	if err != nil {
		log.Fatal(err)
	}
	return &stream.Update{Kind: stream.Full, Model: "clicks", Learner: p.Learner(), Version: version, Epoch: 1, Payload: payload, Hash: xxhash.Sum64(payload)}
}

// publishedModel starts a broker with a model in the topic "models".
func publishedModel() (brokers []string, stop func()) {
	b, err := broker.Start(broker.Options{})
	if err != nil {
		log.Fatal(err)
	}
	brokers = []string{b.Addr()}
	ctx := context.Background()
	pub, err := modeltopic.NewPublisher(ctx, modeltopic.PublisherOptions{Config: kafkaio.Config{Brokers: brokers}, Topic: "models", Model: "clicks"})
	if err != nil {
		log.Fatal(err)
	}
	if err := pub.Claim(ctx, "a test", 1); err != nil {
		log.Fatal(err)
	}
	if err := pub.Publish(ctx, update(quadrants(1), 1)); err != nil {
		log.Fatal(err)
	}
	return brokers, func() { _ = pub.Close(); b.Close() }
}

// list is a subscriber over a list of updates; then it fails.
type list struct{ updates []*stream.Update }

var errEnd = errors.New("the end")

func (l *list) Next(context.Context) (*stream.Update, error) {
	if len(l.updates) == 0 {
		return nil, errEnd
	}
	u := l.updates[0]
	l.updates = l.updates[1:]
	return u, nil
}

func (l *list) Close() error { return nil }

// TestFollowSwaps: versions replace each other, and one that cannot be decoded
// leaves the one before it in use.
func TestFollowSwaps(t *testing.T) {
	var logged strings.Builder
	bad := update(quadrants(1), 2)
	bad.Payload = append([]byte(nil), bad.Payload...)
	bad.Payload[len(bad.Payload)/2] ^= 4
	x := stream.Vec{Val: []float32{0.5, -0.5}}
	var seen []float64
	live := predictor.Follow(t.Context(), &list{[]*stream.Update{update(quadrants(1), 1), bad, update(quadrants(-1), 3)}},
		predictor.FollowOptions{
			Log:      slog.New(slog.NewTextHandler(&logged, nil)),
			OnUpdate: func(v *predictor.Version) { seen = append(seen, float64(v.Update.Version), v.Predict(x)) },
		})
	<-live.Done()
	if !errors.Is(live.Err(), errEnd) {
		t.Error(live.Err())
	}
	want := []float64{1, -1, 3, 1}
	if len(seen) != len(want) || seen[0] != want[0] || seen[1] != want[1] || seen[2] != want[2] || seen[3] != want[3] {
		t.Errorf("versions and predictions %v, want %v", seen, want)
	}
	if v := live.Current(); v.Update.Version != 3 || v.Update.Payload != nil {
		t.Errorf("current is %+v", v.Update)
	}
	if !strings.Contains(logged.String(), "version=2") {
		t.Errorf("the refused version is not logged: %s", logged.String())
	}
}

func TestWaitFailsWithTheSubscriber(t *testing.T) {
	live := predictor.Follow(t.Context(), &list{}, predictor.FollowOptions{})
	if v, err := live.Wait(t.Context()); v != nil || !errors.Is(err, errEnd) {
		t.Error(v, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := predictor.Follow(t.Context(), blocked{}, predictor.FollowOptions{}).Wait(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

type blocked struct{}

func (blocked) Next(ctx context.Context) (*stream.Update, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (blocked) Close() error { return nil }

// TestDecodeHostile truncates an encoded predictor at every byte and flips
// bits: always an error, never a panic.
func TestDecodeHostile(t *testing.T) {
	data := update(quadrants(1), 1).Payload
	p, err := predictor.Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	if p.Options()["c"] != "10" || p.Info().Support == 0 || p.Learner() != "scs" {
		t.Errorf("decoded %v %+v", p.Options(), p.Info())
	}
	for n := range data {
		if _, err := predictor.Decode(data[:n]); err == nil {
			t.Fatalf("%d of %d bytes decode", n, len(data))
		}
	}
	for i := range data {
		c := append([]byte(nil), data...)
		c[i] ^= 0x20
		if _, err := predictor.Decode(c); err == nil {
			t.Fatalf("a flip in byte %d was not noticed", i)
		}
	}
}
