package trainer

import (
	"context"

	"github.com/streamsvm/streamsvm/internal/engine"
	"github.com/streamsvm/streamsvm/stream/modeltopic"
)

// champions says where champions are published.
func (r *run) champions(ctx context.Context) error {
	if r.Gate == "" || r.Models.Alias == "" {
		return nil
	}
	p, err := modeltopic.NewPromoter(ctx, modeltopic.PromoterOptions{
		Config: r.Kafka.Config, Topic: r.Models.Topic, Model: r.Models.Name, MaxRecordBytes: r.Models.MaxRecordBytes, SigningKey: r.Models.SigningKey, MaxDown: r.Kafka.MaxDown,
	})
	if err != nil {
		return err
	}
	r.closers = append(r.closers, p.Close)
	r.run.Champions = engine.Champions{Promoter: p, Alias: r.Models.Alias, Meta: r.meta(engine.MetaGate)}
	return nil
}
