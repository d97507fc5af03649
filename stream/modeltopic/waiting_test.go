package modeltopic

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/streamsvm/streamsvm/internal/testkit/kafkatest"
	"github.com/streamsvm/streamsvm/stream"
)

// announced is what a trainer writes that has taken a model and has published
// nothing yet, or a kind of a later program.
func announced(t *testing.T, topic, model string, epoch uint64) stream.Record {
	t.Helper()
	e := envelope{Update: stream.Update{Kind: claim, Model: model, Epoch: epoch, Created: time.UnixMilli(1)}, owner: "o", by: "host process 7"}
	value, err := e.encode()
	if err != nil {
		t.Fatal(err)
	}
	return stream.Record{Topic: topic, Key: []byte(model + "/claim"), Value: value}
}

// A topic without the model is told about once, in one message, and waited at
// no longer than asked for.
func TestSubscriberWithoutModel(t *testing.T) {
	brokers := kafkatest.Brokers(t)
	raw := func(values ...string) func(*testing.T, string) {
		return func(t *testing.T, topic string) {
			var recs []stream.Record
			for _, v := range values {
				recs = append(recs, stream.Record{Topic: topic, Value: []byte(v)})
			}
			kafkatest.Produce(t, brokers, recs...)
		}
	}
	models := func(t *testing.T, topic string) {
		for i := range 14 {
			name := fmt.Sprintf("model-%c", 'a'+i)
			p := publisher(t, PublisherOptions{Config: config(brokers), Topic: topic, Model: name})
			publish(t, p, update(name, 1, 1, 10))
		}
		p := publisher(t, PublisherOptions{Config: config(brokers), Topic: topic, Model: "clicks"})
		publish(t, p, update("clicks", 1, 1, 10))
	}
	for _, c := range []struct {
		name, model string
		fill        func(t *testing.T, topic string)
		rejected    uint64
		want        string
	}{
		{"empty", "", raw(), 0, "topic T is empty"},
		{"examples", "", raw(slices.Repeat([]string{`{"x":[0.5,1.25],"y":0}`}, 10_900)...), 10_900,
			"topic T holds 10900 records, none of them of a model: the first one (partition 0, offset 0) is \"{\\\"x\\\":[0.5,1.25],\\\"y\\\":0}\""},
		{"libsvm", "m", raw("+1 1:2 7:3", "x"), 2, "topic T holds 2 records, none of them of a model: the first one (partition 0, offset 0) is \"+1 1:2 7:3\""},
		{"long", "m", raw(strings.Repeat("long", 100)), 1, `has 400 bytes and begins with "longlonglonglonglonglonglonglonglonglong"`},
		{"bytes", "m", raw("\xff\xfe"), 1, `is "\xff\xfe"`},
		{"claim", "m", func(t *testing.T, topic string) { kafkatest.Produce(t, brokers, announced(t, topic, "m", 3)) }, 0,
			"topic T holds no version of model m yet: a trainer (host process 7) has claimed it at 1970-01-01T00:00:00Z and has not published one"},
		{"claim of any", "", func(t *testing.T, topic string) {
			raw("{}")(t, topic)
			kafkatest.Produce(t, brokers, announced(t, topic, "clicks", 1))
		}, 1, "topic T holds no version of model clicks yet: a trainer (host process 7) has claimed it at 1970-01-01T00:00:00Z and has not published one; 1 record of no model: the first one (partition 0, offset 0) is \"{}\""},
		{"pieces", "m", func(t *testing.T, topic string) {
			kafkatest.Produce(t, brokers, chunks(t, PublisherOptions{Topic: topic, MaxRecordBytes: 1500}, update("m", 1, 1, 4000))[:2]...)
		}, 0, "topic T holds no complete model m, but 2 records of one"},
		{"unknown name", "cliks", models, 0,
			`topic T holds no model cliks, but clicks, model-a, model-b, model-c, model-d, model-e, model-f, model-g, model-h, model-i and 5 more; did you mean "clicks"?`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			topic := kafkatest.Topic(t, brokers, 1, nil)
			c.fill(t, topic)
			var log bytes.Buffer
			cfg := config(brokers)
			cfg.Log = slog.New(slog.NewTextHandler(&log, nil))
			const wait = 2500 * time.Millisecond
			s := subscriber(t, SubscriberOptions{Config: cfg, Topic: topic, Model: c.model, TopicWait: wait})
			_, err := s.Next(t.Context())
			var none *NoModelError
			if !errors.As(err, &none) || none.Topic != topic || none.Model != c.model || none.Waited != wait {
				t.Fatalf("%#v", err)
			}
			want := strings.Replace(c.want, "topic T ", "topic "+topic+" ", 1)
			if !strings.Contains(none.Holds, want) || strings.HasPrefix(want, "topic") && none.Holds != want || !strings.Contains(err.Error(), none.Holds) {
				t.Errorf("%v,\nwant %s", err, want)
			}
			// A busy machine may sleep until the end.
			if n := strings.Count(log.String(), "\n"); n > 1 || n == 1 && !strings.Contains(log.String(), "waiting for "+strings.TrimSpace("model "+c.model)) {
				t.Errorf("%d messages:\n%s", n, log.String())
			}
			if s.Rejected() != c.rejected {
				t.Errorf("%d records rejected, want %d", s.Rejected(), c.rejected)
			}
			// It is still so, and says so at once.
			if _, again := s.Next(t.Context()); again == nil || again.Error() != err.Error() {
				t.Errorf("then %v", again)
			}
		})
	}
}

// What is waited for is said after 2 s, and then at growing intervals.
func TestSubscriberReminds(t *testing.T) {
	var log bytes.Buffer
	w := &waiting{topic: "t", wait: time.Hour, log: slog.New(slog.NewTextHandler(&log, nil))}
	w.saw(&stream.Record{Topic: "t", Value: []byte("x")}, nil)
	start := time.Now()
	var said []int
	for s := range 3700 {
		_, err := w.look(start.Add(time.Duration(s)*time.Second), true)
		if n := strings.Count(log.String(), "\n"); n > len(said) {
			said = append(said, s)
		}
		if (err != nil) != (s >= 3600) {
			t.Fatalf("after %d s: %v", s, err)
		}
	}
	if want := []int{2, 17, 47, 107, 227, 467, 947, 1907}; !slices.Equal(said, want) {
		t.Errorf("said at %v, want %v", said, want)
	}
	if want := `holds 1 record, none of them of a model: the first one (partition 0, offset 0) is \"x\": waiting for model" for=2s at_most=1h0m0s`; !strings.Contains(log.String(), want) {
		t.Errorf("log: %s", log.String())
	}
}

// Each piece of the model shows that one is on its way: the wait begins again.
func TestSubscriberWaitsForPieces(t *testing.T) {
	w := &waiting{topic: "t", model: "m", wait: time.Minute, log: quiet}
	piece := peekOf(t, &envelope{Update: *update("m", 1, 1, 0), chunks: 1})
	start := time.Now().Add(-time.Hour)
	if _, err := w.look(start, true); err != nil {
		t.Fatal(err)
	}
	r := &stream.Record{Topic: "t", Value: []byte("x")}
	w.saw(r, piece)
	if left, err := w.look(time.Now(), false); err != nil || left > time.Minute {
		t.Errorf("after a piece: %v, %v", left, err)
	}
	w.since = start
	w.saw(r, nil)
	w.saw(r, peekOf(t, &envelope{Update: *update("other", 1, 1, 0), chunks: 1}))
	if _, err := w.look(time.Now(), true); err == nil {
		t.Error("other records are taken for pieces of the model")
	}
}

func peekOf(t *testing.T, e *envelope) *envelope {
	t.Helper()
	value, err := e.encode()
	if err != nil {
		t.Fatal(err)
	}
	e, err = peek(value)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// A model that comes in time is delivered, and later records of no use do not
// fill the log.
func TestSubscriberModelComes(t *testing.T) {
	brokers := kafkatest.Brokers(t)
	topic := kafkatest.Topic(t, brokers, 1, nil)
	junk := func(n int) {
		kafkatest.Produce(t, brokers, slices.Repeat([]stream.Record{{Topic: topic, Value: []byte("x")}}, n)...)
	}
	junk(3)
	kafkatest.Produce(t, brokers, announced(t, topic, "m", 1))
	var log bytes.Buffer
	cfg := config(brokers)
	cfg.Log = slog.New(slog.NewTextHandler(&log, nil))
	s := subscriber(t, SubscriberOptions{Config: cfg, Topic: topic, TopicWait: time.Minute})
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := s.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	p := publisher(t, PublisherOptions{Config: config(brokers), Topic: topic, Model: "m"})
	publish(t, p, update("m", 2, 1, 10))
	sameUpdate(t, next(t, s), update("m", 2, 1, 10))
	junk(1000)
	publish(t, p, update("m", 2, 2, 10))
	for next(t, s).Version < 2 {
	}
	if s.Rejected() != 1003 {
		t.Errorf("%d records rejected", s.Rejected())
	}
	if n := strings.Count(log.String(), "\n"); n > 10 {
		t.Errorf("%d messages:\n%s", n, log.String())
	}
}

// Read knows models that have been claimed and not published, and does not call
// them damaged.
func TestContentsClaimed(t *testing.T) {
	brokers := kafkatest.Brokers(t)
	topic := kafkatest.Topic(t, brokers, 1, nil)
	kafkatest.Produce(t, brokers, announced(t, topic, "m", 3))
	c, err := Read(t.Context(), ReadOptions{Config: config(brokers), Topic: topic})
	if err != nil || c.Rejected != 0 || len(c.Models) != 1 || c.Models[0].Name != "m" || c.Models[0].Newest != nil || len(c.Models[0].Updates) != 0 {
		t.Errorf("%+v, %v", c, err)
	}
}
