package main

import (
	"context"
	"strconv"

	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/kafkaio"
)

// deadLetters sends records that cannot be used to a topic whose name is that
// of their own topic and a suffix, with key, value and headers as they are and
// headers more that say what was wrong. It is a trainer.DeadLetters.
type deadLetters struct {
	p      *kafkaio.Producer
	cfg    kafkaio.Config
	suffix string
	known  map[string]bool
}

// Names of the headers of a dead letter.
const dlqHeader = "__streamsvm.errors."

func newDeadLetters(ctx context.Context, cfg kafkaio.Config, suffix string) (*deadLetters, error) {
	p, err := kafkaio.NewProducer(ctx, kafkaio.ProducerOptions{Config: cfg})
	if err != nil {
		return nil, kafkaError(err)
	}
	return &deadLetters{p: p, cfg: cfg, suffix: suffix, known: map[string]bool{}}, nil
}

// Send implements trainer.DeadLetters.
func (d *deadLetters) Send(ctx context.Context, rec *stream.Record, why *stream.RecordError) error {
	out := *rec
	out.Topic += d.suffix
	if !d.known[out.Topic] {
		if _, err := kafkaio.CreateTopic(ctx, d.cfg, kafkaio.TopicSpec{Name: out.Topic}); err != nil {
			return err
		}
		d.known[out.Topic] = true
	}
	message := why.Err.Error()
	if why.Field != "" {
		message = why.Field + ": " + message
	}
	out.Headers = append(rec.Headers[:len(rec.Headers):len(rec.Headers)],
		stream.Header{Key: dlqHeader + "topic", Value: []byte(why.Topic)},
		stream.Header{Key: dlqHeader + "partition", Value: strconv.AppendInt(nil, int64(why.Partition), 10)},
		stream.Header{Key: dlqHeader + "offset", Value: strconv.AppendInt(nil, why.Offset, 10)},
		stream.Header{Key: dlqHeader + "stage", Value: []byte(why.Stage)},
		stream.Header{Key: dlqHeader + "message", Value: []byte(message)},
	)
	return d.p.Produce(ctx, out)
}

// Flush implements trainer.DeadLetters.
func (d *deadLetters) Flush(ctx context.Context) error { return d.p.Flush(ctx) }

func (d *deadLetters) close() { d.p.Close() }
