package trainer

import (
	"context"
	"errors"

	"github.com/streamsvm/streamsvm/internal/engine"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/modeltopic"
)

// champions says where champions are published.
func (r *run) champions(context.Context) error {
	if r.Gate == "" || r.Models.Alias == "" {
		return nil
	}
	r.run.Champions = engine.Champions{Promoter: promoter{r}, Alias: r.Models.Alias, Meta: r.meta(engine.MetaGate)}
	return nil
}

// promoter publishes what an alias stands for as a model of its own name, whose
// epoch counts promotions.
type promoter struct{ r *run }

// Promote implements stream.Promoter.
func (p promoter) Promote(ctx context.Context, alias string, u *stream.Update, _ stream.Promotion) error {
	o := modeltopic.PublisherOptions{
		Config: p.r.Kafka.Config, Topic: p.r.Models.Topic, Model: u.Model + "@" + alias, MaxRecordBytes: p.r.Models.MaxRecordBytes, MaxDown: p.r.Kafka.MaxDown,
	}
	pub, err := modeltopic.NewPublisher(ctx, o)
	if err != nil {
		return err
	}
	last, version := pub.Last()
	if version == u.Version {
		return pub.Close()
	}
	c := *u
	c.Model, c.Epoch = o.Model, last.Epoch+1
	err = pub.Claim(ctx, p.r.store.ID(), c.Epoch)
	if err == nil {
		err = pub.Publish(ctx, &c)
	}
	return errors.Join(err, pub.Close())
}
