package main

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/streamsvm/streamsvm/checkpoint"
	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/stream/kafkaio"
)

// metaTopic, with the topic's name after it, is the name under which a
// checkpoint keeps the id that a topic has.
const metaTopic = "topic_id:"

// topicsOf returns the ids that topics had when the checkpoint was written.
func topicsOf(snap *checkpoint.Snapshot) map[string]string {
	out := map[string]string{}
	if snap != nil {
		for _, kv := range snap.Header.Meta {
			if name, ok := strings.CutPrefix(kv[0], metaTopic); ok {
				out[name] = kv[1]
			}
		}
	}
	return out
}

// madeAnew returns the topics that have been deleted and made anew since the
// checkpoint.
func madeAnew(then, now map[string]string) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(then)) {
		if id, ok := now[name]; ok && id != then[name] {
			out = append(out, name)
		}
	}
	return out
}

// openSource opens the topics at the positions of the checkpoint. In a topic
// that has been made anew they mean other records, even where there are some:
// that is an error, unless --on-out-of-range says where to go on.
func (t *train) openSource(ctx context.Context, opts kafkaio.SourceOptions, snap *checkpoint.Snapshot) (*kafkaio.Source, error) {
	src, err := kafkaio.NewSource(ctx, opts)
	if err != nil || t.run.Store == nil {
		return src, err
	}
	now, err := kafkaio.TopicIDs(ctx, t.cfg, opts.Topics, t.maxDown)
	if err != nil {
		return nil, closeAfter(src, err)
	}
	for _, name := range slices.Sorted(maps.Keys(now)) {
		t.run.Meta = append(t.run.Meta, [2]string{metaTopic + name, now[name]})
	}
	t.run.Confirm = t.stillThere(opts.Topics, now)
	anew := madeAnew(topicsOf(snap), now)
	if len(anew) == 0 {
		return src, nil
	}
	if opts.OutOfRange == kafkaio.OutOfRangeFail || opts.OutOfRange == "" {
		return nil, closeAfter(src, cli.Failf(cli.Data, "topic %s has been deleted and made anew since the checkpoint, whose offsets mean other records now: begin anew with another --checkpoint, or go on with --on-out-of-range earliest or latest",
			strings.Join(anew, ", ")))
	}
	if err := src.Close(); err != nil {
		return nil, err
	}
	opts.Offsets = opts.Offsets.Clone()
	for p := range opts.Offsets {
		if slices.Contains(anew, p.Topic) {
			delete(opts.Offsets, p)
		}
	}
	opts.Start = kafkaio.StartAt(opts.OutOfRange)
	t.c.Log.Error("topics have been made anew since the checkpoint: going on in them", "topics", anew, "at", fmt.Sprint(opts.Start))
	return kafkaio.NewSource(ctx, opts)
}

// confirmFor bounds how long a checkpoint waits for the ids of the topics.
const confirmFor = time.Second

// stillThere returns a check that the topics are those that had the given ids.
// One that is made anew during a run, quickly enough, goes on giving records to
// who reads by its name. A cluster that does not answer stops no checkpoint.
func (t *train) stillThere(topics []string, then map[string]string) func(context.Context) error {
	cfg := t.cfg
	cfg.Log = slog.New(slog.DiscardHandler)
	return func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, confirmFor) // a broker may accept and say nothing
		defer cancel()
		now, err := kafkaio.TopicIDs(ctx, cfg, topics, confirmFor)
		if err != nil {
			t.c.Log.Debug("the ids of the topics are not known", "err", err)
			return nil
		}
		if anew := madeAnew(then, now); len(anew) > 0 {
			return cli.Failf(cli.Data, "topic %s has been deleted and made anew during the run: what has been read since the last checkpoint is dropped; begin anew with another --checkpoint, or go on with --on-out-of-range earliest or latest",
				strings.Join(anew, ", "))
		}
		return nil
	}
}

func closeAfter(src *kafkaio.Source, err error) error {
	_ = src.Close() // the first error counts
	return err
}
