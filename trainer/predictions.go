package trainer

import (
	"bytes"
	"context"
	"slices"

	"github.com/streamsvm/streamsvm/internal/engine"
	"github.com/streamsvm/streamsvm/predictor"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/kafkaio"
)

// openPredictions opens the topic of predictions, creating it if necessary.
func (r *run) openPredictions(ctx context.Context) error {
	if r.Predictions == "" {
		return nil
	}
	spec := kafkaio.TopicSpec{Name: r.Predictions, MaxDown: r.Kafka.MaxDown}
	if r.Open == nil {
		from, err := kafkaio.Partitions(ctx, r.Kafka.Config, r.Kafka.Topics, r.Kafka.TopicWait, r.Kafka.MaxDown)
		if err != nil {
			return err
		}
		spec.Partitions = len(from)
	}
	if _, err := kafkaio.CreateTopic(ctx, r.Kafka.Config, spec); err != nil {
		return err
	}
	to, err := kafkaio.Partitions(ctx, r.Kafka.Config, []string{r.Predictions}, r.Kafka.TopicWait, r.Kafka.MaxDown)
	if err != nil {
		return err
	}
	w := predictions{run: r, partitions: int32(len(to))}
	r.run.Answer = w.record
	return nil
}

// predictions makes the records for predictions.
type predictions struct {
	run        *run
	partitions int32
	labels     *predictor.Labels
	classes    int // number of classes of labels, if more than two
}

// record makes the record for an answer. Predictions for one partition stay in order.
func (w *predictions) record(a *engine.Answer, version uint64) (stream.Record, error) {
	in, x := &a.Record, &a.Example
	p := predictor.Prediction{ID: x.ID, Err: a.Err, Labelled: x.Labelled, Y: x.Y, Class: x.Class, Version: version}
	if version > 0 {
		p.Model = w.run.Models.Name
	}
	if a.Err == nil {
		if w.labels == nil || w.classes != len(a.Scores) {
			l, err := predictor.NewLabels(w.run.engineConfig.Task, w.run.e.LabelList(), len(a.Scores))
			if err != nil {
				return stream.Record{}, err
			}
			l.Costs = w.run.e.Costs()
			w.labels, w.classes = l, len(a.Scores)
		}
		if len(a.Scores) > 0 && int(p.Y) >= len(a.Scores) { // its class was not known yet
			p.Labelled = false
		}
		w.labels.Set(&p, a.Decision, a.Probability, a.Scores, a.Probabilities)
	}
	out := stream.Record{
		Topic: w.run.Predictions, Partition: in.Partition % w.partitions, Time: in.Time, Key: in.Key,
		Value: p.AppendJSON(nil, in), Headers: []stream.Header{predictor.JSONHeader},
	}
	for _, h := range in.Headers {
		if slices.Contains(predictor.PassedHeaders, h.Key) {
			out.Headers = append(out.Headers, stream.Header{Key: h.Key, Value: bytes.Clone(h.Value)})
		}
	}
	return out, nil
}
