package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/kafkaio"
)

// ageWatch warns when it sees a record, on its way into a topic, that the
// topic's retention deletes at once.
type ageWatch struct {
	stream.Source
	topic string
	keeps time.Duration // 0: forever
	log   *slog.Logger
}

// watchAge returns src wrapped in an ageWatch. The topic's retention is read once; if it
// is unknown or never applies, src is returned as it is.
func watchAge(ctx context.Context, src stream.Source, cfg kafkaio.Config, topic string, log *slog.Logger) stream.Source {
	config, err := kafkaio.TopicConfig(ctx, cfg, topic)
	// A broker may give all records its own time.
	if err != nil || config["message.timestamp.type"] == "LogAppendTime" {
		return src
	}
	if keeps := kafkaio.Retention(config); keeps > 0 {
		return &ageWatch{src, topic, keeps, log}
	}
	return src
}

// Fetch implements stream.Source.
func (a *ageWatch) Fetch(ctx context.Context, recs []stream.Record) ([]stream.Record, error) {
	n := len(recs)
	recs, err := a.Source.Fetch(ctx, recs)
	if a.keeps == 0 {
		return recs, err
	}
	for i := range recs[n:] {
		at := recs[n+i].Time
		if age := time.Since(at); !at.IsZero() && age > a.keeps {
			a.log.Warn("the topic's retention deletes records as old as these soon after they have been written; set its retention.ms to -1 to keep them",
				"topic", a.topic, "timestamp", at.UTC().Format(time.RFC3339), "retention", a.keeps)
			a.keeps = 0 // once is enough
			break
		}
	}
	return recs, err
}
