package trainer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/streamsvm/streamsvm/checkpoint"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/kafkaio"
)

// metaTopic, followed by a topic's name, names the entry of a checkpoint's header with
// the topic's id.
const metaTopic = "topic_id:"

// TopicReplacedError says that topics have been deleted and re-created since the
// checkpoint, whose offsets mean other records now. A run that finds this when it
// starts can continue at Kafka.OutOfRange.
type TopicReplacedError struct {
	Topics []string
	// Running: it has happened during the run. The records read since the last
	// checkpoint are dropped.
	Running bool
}

func (e *TopicReplacedError) Error() string {
	since := "since the checkpoint, whose offsets mean other records now"
	if e.Running {
		since = "during the run: what has been read since the last checkpoint is dropped"
	}
	return fmt.Sprintf("topic %s has been deleted and created again %s", strings.Join(e.Topics, ", "), since)
}

// ReplacedTopics returns the topics that have been deleted and re-created since a
// checkpoint with this header. It waits at most maxDown for brokers to answer; 0 sets
// no limit.
func ReplacedTopics(ctx context.Context, cfg kafkaio.Config, h checkpoint.Header, maxDown time.Duration) ([]string, error) {
	then := topicIDs(h)
	now, err := kafkaio.TopicIDs(ctx, cfg, slices.Sorted(maps.Keys(then)), maxDown)
	return replaced(then, now), err
}

// topicIDs returns the ids that the topics had when the checkpoint was written.
func topicIDs(h checkpoint.Header) map[string]string {
	out := map[string]string{}
	for _, kv := range h.Meta {
		if name, ok := strings.CutPrefix(kv[0], metaTopic); ok {
			out[name] = kv[1]
		}
	}
	return out
}

// replaced returns the topics whose id has changed.
func replaced(then, now map[string]string) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(then)) {
		if id, ok := now[name]; ok && id != then[name] {
			out = append(out, name)
		}
	}
	return out
}

// topics returns the input topics.
func (r *run) topics() []string {
	topics := slices.Clone(r.Kafka.Topics)
	if r.Join.Topic != "" {
		topics = append(topics, r.Join.Topic)
	}
	return topics
}

// openTopics opens the topics at the positions of the checkpoint. In a re-created
// topic these are other records, if they exist at all: that is an error, unless
// OutOfRange says where to continue.
func (r *run) openTopics(ctx context.Context, from stream.Offsets) (stream.Source, error) {
	o := r.Kafka
	o.Topics, o.Offsets = r.topics(), from
	if o.Merge == "" && r.Join.used() {
		// The prediction for an example must not depend on how far ahead or behind its
		// label was read.
		o.Merge = kafkaio.MergeOrdered
	}
	src, err := kafkaio.NewSource(ctx, o)
	if err != nil {
		return nil, err
	}
	r.run.Start = src.Start()
	if r.run.Store == nil {
		return src, nil
	}
	now, err := kafkaio.TopicIDs(ctx, o.Config, o.Topics, o.MaxDown)
	if err != nil {
		return nil, errors.Join(err, src.Close())
	}
	for _, name := range slices.Sorted(maps.Keys(now)) {
		r.run.Meta = append(r.run.Meta, [2]string{metaTopic + name, now[name]})
	}
	r.run.Confirm = r.confirmTopics(o.Topics, now)
	var gone []string
	if r.snap != nil {
		gone = replaced(topicIDs(r.snap.Header), now)
	}
	if len(gone) == 0 {
		return src, nil
	}
	if err := src.Close(); err != nil {
		return nil, err
	}
	o.Offsets = o.Offsets.Clone()
	maps.DeleteFunc(o.Offsets, func(p stream.Partition, _ int64) bool { return slices.Contains(gone, p.Topic) })
	switch {
	case r.snap.Header.Examples == 0: // no record has been consumed, so none can be missed or repeated
	case o.OutOfRange == kafkaio.OutOfRangeFail || o.OutOfRange == "":
		return nil, &TopicReplacedError{Topics: gone}
	default:
		o.Start = kafkaio.StartAt(o.OutOfRange)
		r.Log.Error("topics have been created again since the checkpoint: going on in them", "topics", gone, "at", fmt.Sprint(o.Start))
	}
	if src, err = kafkaio.NewSource(ctx, o); err != nil {
		return nil, err
	}
	r.run.Start = src.Start()
	return src, nil
}

// confirmFor bounds how long a checkpoint waits for the ids of the topics.
const confirmFor = time.Second

// confirmTopics returns a check that the topics still have the given ids. A topic that
// is re-created quickly during a run continues to deliver records to a reader that knows
// only its name. If the cluster does not answer, the checkpoint goes on without it.
func (r *run) confirmTopics(topics []string, then map[string]string) func(context.Context) error {
	cfg := r.Kafka.Config
	cfg.Log = slog.New(slog.DiscardHandler)
	return func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, confirmFor) // a broker may accept the connection and never answer
		defer cancel()
		now, err := kafkaio.TopicIDs(ctx, cfg, topics, confirmFor)
		if err != nil {
			r.Log.Debug("the ids of the topics are not known", "err", err)
			return nil
		}
		if gone := replaced(then, now); len(gone) > 0 {
			return &TopicReplacedError{gone, true}
		}
		return nil
	}
}
