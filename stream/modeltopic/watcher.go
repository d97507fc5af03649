package modeltopic

import (
	"context"
	"maps"
	"strings"
	"time"

	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/kafkaio"
)

// Move is a promotion: the version that an alias points to from a time on.
type Move struct {
	Alias    string
	Version  uint64
	Examples uint64 // that the version has learned from
	stream.Promotion
	At time.Time
}

// Watcher follows the promotions of one model. Only one goroutine may use it at a time.
type Watcher struct {
	opt     ReadOptions
	next    stream.Offsets // end of the part of the topic that has been read
	aliases map[string]*assembler
}

// NewWatcher does not read yet. Model must be set; Version is ignored.
func NewWatcher(o ReadOptions) *Watcher {
	return &Watcher{opt: o, aliases: map[string]*assembler{}}
}

// Look reads the records added to the topic since the last call and returns the
// promotions among them, in order for each alias; compaction keeps only the last one. It
// leaves out promotions without a signature by one of the TrustedKeys. Its errors come
// from kafkaio.NewSource and from reading. Promotions that were read before an error are
// returned with it, and not again.
func (w *Watcher) Look(ctx context.Context) (moves []Move, err error) {
	_, next, err := kafkaio.ReadAll(ctx, kafkaio.SourceOptions{
		Config: w.opt.Config, Topics: []string{w.opt.Topic}, Offsets: w.next, UntilEnd: true,
		TopicWait: w.opt.TopicWait, MaxDown: w.opt.MaxDown,
	}, func(r *stream.Record) {
		name, _, _ := strings.Cut(string(r.Key), "/")
		model, alias := SplitName(name)
		if r.Value == nil || model != w.opt.Model || CheckAlias(alias) != nil {
			return
		}
		a := w.aliases[alias]
		if a == nil {
			a = &assembler{model: name, limit: maxPayload, keys: w.opt.TrustedKeys}
			w.aliases[alias] = a
		}
		if done, err := a.add(r); err == nil && done {
			moves = append(moves, Move{Alias: alias, Version: a.cur.Version, Examples: a.cur.Examples, Promotion: a.about.promotion, At: a.about.at})
			a.cur.Payload = nil // no later update needs it
		}
	})
	if err == nil {
		w.next = maps.Clone(next)
	}
	return moves, err
}
