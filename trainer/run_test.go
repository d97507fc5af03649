package trainer_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/streamsvm/streamsvm/checkpoint"
	"github.com/streamsvm/streamsvm/internal/testkit/kafkatest"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/codec"
	"github.com/streamsvm/streamsvm/stream/fileio"
	"github.com/streamsvm/streamsvm/stream/kafkaio"
	"github.com/streamsvm/streamsvm/trainer"
)

// hook counts what it is told.
type hook struct {
	progress, dead, saved, published int
	last                             trainer.Counts
}

func (h *hook) Progress(s trainer.State, _ int64) { h.progress, h.last = h.progress+1, s.Counts() }
func (h *hook) Dead(*stream.RecordError)          { h.dead++ }
func (h *hook) Checkpointed(string, checkpoint.Header, int64, time.Duration) {
	h.saved++
}
func (h *hook) Published(*stream.Update, time.Duration) { h.published++ }

// TestRunInParts: a job that is cut into two runs ends in the state of one that
// is not, each bad record has one dead letter, and another job does not publish
// over its model unless it is told to.
func TestRunInParts(t *testing.T) {
	brokers := kafkatest.Brokers(t)
	topic := kafkatest.Topic(t, brokers, 1, nil)
	for _, name := range []string{topic + ".dlq", topic + ".models"} {
		t.Cleanup(func() { kafkatest.Delete(t, brokers, name) })
	}
	enc, err := codec.New("json", codec.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var recs []stream.Record
	for i, x := range moons(1000) {
		value, err := enc.Append(nil, &x)
		if err != nil {
			t.Fatal(err)
		}
		if i%100 == 50 {
			value = []byte("no JSON")
		}
		recs = append(recs, stream.Record{Topic: topic, Value: value})
	}
	kafkatest.Produce(t, brokers, recs...)
	job := func(dir string, end int64) trainer.Job {
		return trainer.Job{
			Options:     trainer.Options{Learner: "sbp", Tune: trainer.TuneOff, Warmup: 100},
			Kafka:       kafkaio.SourceOptions{Config: kafkaio.Config{Brokers: brokers}, Topics: []string{topic}, StopAt: stream.Offsets{{Topic: topic}: end}},
			Tolerance:   trainer.TolerateData,
			DeadLetters: ".dlq",
			Checkpoints: trainer.Checkpoints{Dir: dir, Every: 300},
			Models:      trainer.Models{Topic: topic + ".models"},
			Recording:   dir + ".ssr",
			Unfinished:  end < int64(len(recs)),
		}
	}
	run := func(j trainer.Job) (trainer.Result, *hook, error) {
		h := &hook{}
		j.Hooks = []trainer.Hook{h}
		res, err := trainer.Run(t.Context(), j)
		return res, h, err
	}
	dir := t.TempDir()
	cut := filepath.Join(dir, "cut")
	first, h, err := run(job(cut, 460))
	if err != nil || h.last.Consumed != 460 || h.dead != 5 || h.saved < 1 || h.published < 1 || h.progress < 2 {
		t.Fatalf("%v, %+v", err, h)
	}
	second, h, err := run(job(cut, 1000))
	if err != nil || h.last.Dead != 10 || h.last.Learned != 990 || !second.Ended || second.Version <= first.Version {
		t.Fatalf("%v, %+v, version %d after %d", err, h, second.Version, first.Version)
	}
	if n := len(kafkatest.ReadAll(t, brokers, topic+".dlq")); n != 10 {
		t.Errorf("%d dead letters", n)
	}

	other := job(filepath.Join(dir, "whole"), 1000)
	var foreign *trainer.ForeignModelError
	if _, _, err := run(other); !errors.As(err, &foreign) || foreign.Version == 0 {
		t.Errorf("another job publishes over the model: %v", err)
	}
	other.Models.Replace, other.DeadLetters = true, ""
	whole, _, err := run(other)
	if err != nil || whole.Version <= second.Version {
		t.Fatalf("version %d, %v", whole.Version, err)
	}
	a, err1 := second.Hash()
	b, err2 := whole.Hash()
	if a != b || errors.Join(err1, err2) != nil {
		t.Errorf("state %016x in two runs, %016x in one; %v %v", a, b, err1, err2)
	}

	// The recording of both parts is the stream.
	replay := job("", 1000)
	replay.Checkpoints, replay.Models, replay.DeadLetters, replay.Recording = trainer.Checkpoints{}, trainer.Models{}, "", ""
	replay.Open = func(_ context.Context, from stream.Offsets) (stream.Source, error) {
		return fileio.Open([]string{cut + ".ssr"}, fileio.Options{Start: from})
	}
	replayed, _, err := run(replay)
	if c, _ := replayed.Hash(); err != nil || c != a {
		t.Errorf("state %016x from the recording, %016x before; %v", c, a, err)
	}

	// Nothing new, and other options.
	nothing := job(cut, 1000)
	nothing.Models = trainer.Models{}
	again, _, err := run(nothing)
	if c, _ := again.Hash(); err != nil || !again.Ended || c != a {
		t.Errorf("state %016x after nothing new, %v", c, err)
	}
	seeded := nothing
	seeded.Seed = 7
	var state *trainer.StateError
	if _, _, err := run(seeded); !errors.As(err, &state) {
		t.Errorf("another seed: %v", err)
	}
	res, err := trainer.Run(context.Background(), trainer.Job{})
	if p, none := res.Predictor(); err == nil || p != nil || none != nil || res.Counts().Consumed != 0 {
		t.Errorf("a job without a stream: %v", err)
	}
}

// TestJoinOfTopics: without decoders of its own a job reads examples and labels
// as JSON, and brings them together.
func TestJoinOfTopics(t *testing.T) {
	brokers := kafkatest.Brokers(t)
	examples, labels := kafkatest.Topic(t, brokers, 1, nil), kafkatest.Topic(t, brokers, 1, nil)
	var recs []stream.Record
	for i, x := range moons(300) {
		key := fmt.Append(nil, "k", i)
		recs = append(recs,
			stream.Record{Topic: examples, Key: key, Value: fmt.Appendf(nil, `{"x":[%g,%g]}`, x.X.Val[0], x.X.Val[1])},
			stream.Record{Topic: labels, Key: key, Value: fmt.Appendf(nil, `{"y":%g}`, x.Y)})
	}
	kafkatest.Produce(t, brokers, recs...)
	j := trainer.Job{
		Options: trainer.Options{Learner: "sbp", Tune: trainer.TuneOff, Warmup: 100, Join: trainer.Join{Topic: labels, Window: 300}},
		Kafka: kafkaio.SourceOptions{
			Config: kafkaio.Config{Brokers: brokers}, Topics: []string{examples},
			StopAt: stream.Offsets{{Topic: examples}: 300, {Topic: labels}: 300},
		},
	}
	res, err := trainer.Run(t.Context(), j)
	if c := res.Counts(); err != nil || c.Joined != 300 || c.Learned != 300 {
		t.Errorf("%+v, %v", c, err)
	}
	j.Kafka.Topics, j.Kafka.StopAt, j.Join = []string{kafkatest.Name(t, brokers)}, nil, trainer.Join{}
	var unknown *kafkaio.UnknownTopicError
	if _, err := trainer.Run(t.Context(), j); !errors.As(err, &unknown) {
		t.Errorf("of a topic that is not there: %v", err)
	}
}

// TestTopicMadeAgain: the positions of a checkpoint mean nothing in a topic that
// has been deleted and made again, even where there are as many records; the job
// goes on in it only where it has been told to.
func TestTopicMadeAgain(t *testing.T) {
	brokers := kafkatest.Brokers(t)
	topic := kafkatest.Topic(t, brokers, 1, nil)
	fill := func() {
		var recs []stream.Record
		for _, x := range moons(200) {
			recs = append(recs, stream.Record{Topic: topic, Value: fmt.Appendf(nil, `{"x":[%g,%g],"y":%g}`, x.X.Val[0], x.X.Val[1], x.Y)})
		}
		kafkatest.Produce(t, brokers, recs...)
	}
	fill()
	j := trainer.Job{
		Options:     trainer.Options{Learner: "sbp", Tune: trainer.TuneOff, Warmup: 50},
		Kafka:       kafkaio.SourceOptions{Config: kafkaio.Config{Brokers: brokers}, Topics: []string{topic}, StopAt: stream.Offsets{{Topic: topic}: 100}},
		Checkpoints: trainer.Checkpoints{Dir: t.TempDir()},
		Unfinished:  true,
	}
	if _, err := trainer.Run(t.Context(), j); err != nil {
		t.Fatal(err)
	}
	kafkatest.Delete(t, brokers, topic)
	kafkatest.Create(t, brokers, topic, 1, nil)
	fill()
	j.Kafka.StopAt = stream.Offsets{{Topic: topic}: 200}
	for _, outOfRange := range []kafkaio.OutOfRange{"", kafkaio.OutOfRangeFail} {
		j.Kafka.OutOfRange = outOfRange
		var replaced *trainer.TopicReplacedError
		if _, err := trainer.Run(t.Context(), j); !errors.As(err, &replaced) || len(replaced.Topics) != 1 || replaced.Topics[0] != topic {
			t.Errorf("out of range %q: %v", outOfRange, err)
		}
	}
	j.Kafka.OutOfRange = kafkaio.OutOfRangeEarliest
	res, err := trainer.Run(t.Context(), j)
	if c := res.Counts(); err != nil || c.Consumed != 300 {
		t.Errorf("%+v, %v", c, err)
	}
}
