package dlq

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/internal/deadletter"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/kafkaio"
)

// Headers of a record that has been sent back.
const (
	replayedHeader    = "__streamsvm.replayed."
	replayedFrom      = replayedHeader + "from"      // the letter, as topic/partition:offset
	replayedTimestamp = replayedHeader + "timestamp" // of the original record, in ms since 1970
)

const (
	// replayBatch bounds the letters processed between two commits, and so the
	// records that are duplicated after a kill.
	replayBatch = 1000
	// replayGrace is how long an interrupted replay has to commit.
	replayGrace = 10 * time.Second
)

// letterReplay is dlq replay.
type letterReplay struct {
	*letterFlags
	group, from, to, repair string
	outOfRange              string
	dry                     bool

	positions interface { // a *kafkaio.Group
		Commit(ctx context.Context, o stream.Offsets, note string) error
	}
	p interface { // a *kafkaio.Producer
		Produce(ctx context.Context, recs ...stream.Record) error
		Flush(ctx context.Context) error
	}
	limits  map[string]int // largest record, by topic, where it is known
	batch   int
	next    stream.Offsets // after the letters processed so far
	pending int            // letters since the last commit
	n       replayCounts
}

// replayCounts counts the letters by outcome.
type replayCounts struct {
	read, sent, filtered, truncated, tooLarge, unrepaired, others, tombstones int
}

func (r *letterReplay) define(f *cli.Flags) {
	r.batch = replayBatch
	f.Group("Replay", func() {
		f.StringVar(&r.group, "group", deadletter.ReplayGroup, "consumer `GROUP`; its processes share the partitions, and it keeps the positions; of train and copy it only shows the lag")
		f.Choice(&r.from, "from", "", []string{"earliest", "latest"}, "where to begin if the group has no position")
		f.StringVar(&r.to, "to", "", "`TOPIC` to send the records to, instead of those that they came from")
		f.StringVar(&r.repair, "repair", "", "shell `COMMAND` that reads a value and prints the one to send")
		f.Choice(&r.outOfRange, "on-out-of-range", "fail", []string{"fail", "earliest", "latest"}, "what to do when the next offset no longer exists")
		f.BoolVar(&r.dry, "dry-run", false, "check everything and print what would be done, without changing anything")
	})
}

// validate finds settings that contradict each other.
func (r *letterReplay) validate() error {
	c := r.c
	if r.group == "" {
		return c.Bad("group", errors.New("it is empty"))
	}
	// A group in the configuration file is for replays without a filter.
	if r.filters() && c.Origin("group").Source != cli.FromFlag {
		return c.Bad("group", errors.New("a replay with --reason or --origin needs one of its own, on the command line: what it skips is skipped for good"))
	}
	if len(r.note()) > 4000 {
		return c.Bad("origin", errors.New("too many topics"))
	}
	if slices.Contains(r.letters, r.to) {
		return c.Bad("to", fmt.Errorf("%s is a topic of dead letters that is read", r.to))
	}
	for _, name := range r.letters {
		if r.to == "" && (!strings.HasSuffix(name, r.suffix) || name == r.suffix) {
			return c.Bad("dlq", fmt.Errorf("topic %s does not end in %s, so it is not known where its records came from: give its suffix, or --to", name, r.suffix))
		}
	}
	return nil
}

// note is the text that the group stores with its positions: which letters it is for.
func (r *letterReplay) note() string {
	if !r.filters() {
		return "all letters"
	}
	list := func(names []string) string {
		return cmp.Or(strings.Join(slices.Compact(slices.Sorted(slices.Values(names))), ","), "any")
	}
	return fmt.Sprintf("reason %s, origin %s", list(r.reasons), list(r.origins))
}

func (r *letterReplay) run(ctx context.Context) error {
	err := r.validate()
	if err != nil {
		return err
	}
	group, err := kafkaio.OpenGroup(r.cfg, r.group, patience)
	if err != nil {
		return err
	}
	defer group.Close()
	r.positions = group
	src, err := r.begin(ctx, group)
	if err != nil {
		return r.ended(ctx, err)
	}
	defer src.Close()
	batch := r.findLimits(ctx)
	if !r.dry {
		p, err := kafkaio.NewProducer(ctx, kafkaio.ProducerOptions{Config: r.cfg, Partition: samePartition(), BatchBytes: batch, MaxDown: patience})
		if err != nil {
			return r.ended(ctx, err)
		}
		defer p.Close()
		r.p = p
	}
	err = r.feed(ctx, src)
	if !r.c.Quiet {
		fmt.Fprintln(r.c.Err, r.summary())
	}
	return err
}

// samePartition sends records to the partition that they name, or by their key if
// that partition does not exist.
func samePartition() kafkaio.Partitioner {
	byKey := kafkaio.ByKey()
	return func(r *stream.Record, n int) int32 {
		if r.Partition >= 0 && int(r.Partition) < n {
			return r.Partition
		}
		return byKey(r, n)
	}
}

// begin opens the letters at the group's positions. If there are none yet, it first
// commits the positions given by --from, before anything is sent: letters that
// arrive in the meantime belong to the next replay.
func (r *letterReplay) begin(ctx context.Context, group *kafkaio.Group) (*kafkaio.Source, error) {
	parts, err := kafkaio.Partitions(ctx, r.cfg, r.letters, 0, patience)
	if err != nil {
		return nil, r.noTopic(err)
	}
	found, err := group.Committed(ctx, parts)
	if err != nil {
		return nil, r.exit(err)
	}
	from, known := stream.Offsets{}, map[string]bool{}
	for _, p := range parts {
		at, ok := found[p]
		if !ok {
			continue
		}
		if at.Note != r.note() {
			return nil, r.c.Bad("group", fmt.Errorf("the position of group %s in %v is one of another replay (%s; this one is for %s): use another group", r.group, p, cli.Printable(at.Note), r.note()))
		}
		from[p], known[p.Topic] = at.Next, true
	}
	for _, name := range r.letters {
		if !known[name] && r.from == "" {
			return nil, r.c.Bad("from", fmt.Errorf("group %s has no position in topic %s: say where to begin, earliest or latest", r.group, name))
		}
	}
	src, err := r.open(ctx, from, kafkaio.StartAt(r.from), kafkaio.OutOfRange(r.outOfRange))
	if err != nil {
		return nil, err
	}
	r.next = src.Start()
	if r.dry {
		return src, nil
	}
	if err := r.positions.Commit(ctx, r.next, r.note()); err != nil {
		return nil, r.exit(errors.Join(err, src.Close()))
	}
	return src, nil
}

// feed processes all letters. If it ends early, the letters sent so far are
// committed, if the brokers still accept it.
func (r *letterReplay) feed(ctx context.Context, src stream.Source) error {
	var recs []stream.Record
	for {
		var err error
		recs, err = src.Fetch(ctx, recs[:0])
		for i := 0; err == nil && i < len(recs); i++ {
			if err = r.handle(ctx, &recs[i]); err == nil && r.pending >= r.batch {
				err = r.settle(ctx)
			}
		}
		switch {
		case err == nil:
			continue
		case errors.Is(err, io.EOF) && ctx.Err() == nil:
			return r.settle(ctx)
		}
		after, cancel := context.WithTimeout(context.WithoutCancel(ctx), replayGrace)
		defer cancel()
		return errors.Join(r.ended(ctx, err), r.settle(after))
	}
}

// settle commits the position once everything sent is acknowledged.
func (r *letterReplay) settle(ctx context.Context) error {
	if r.pending == 0 || r.dry {
		return nil
	}
	if err := r.p.Flush(ctx); err != nil {
		return r.exit(err)
	}
	if err := r.positions.Commit(ctx, r.next, r.note()); err != nil {
		return r.exit(err)
	}
	r.pending = 0
	return nil
}

// handle sends the record of a letter, or logs why not. After an error the letter
// has not been processed.
func (r *letterReplay) handle(ctx context.Context, rec *stream.Record) error {
	out, err := r.record(ctx, rec)
	if err != nil {
		return err
	}
	if out != nil {
		if r.dry {
			fmt.Fprintf(r.c.Out, "%s/%d offset %d -> %s: %q\n", rec.Topic, rec.Partition, rec.Offset, out.Topic, out.Value)
		} else if err := r.p.Produce(ctx, *out); err != nil {
			var unknown *kafkaio.UnknownTopicError
			if errors.As(err, &unknown) && unknown.Partition < 0 {
				return cli.Failf(cli.Unavailable, "%w, or the user may not write to it: --to names another one", err)
			}
			return r.exit(err)
		}
		r.n.sent++
	}
	r.n.read++
	r.pending++
	r.next[stream.Partition{Topic: rec.Topic, ID: rec.Partition}] = rec.Offset + 1
	return nil
}

// record returns the record to send for a letter, or nil.
func (r *letterReplay) record(ctx context.Context, rec *stream.Record) (*stream.Record, error) {
	skip := func(n *int, why string, args ...any) (*stream.Record, error) {
		*n++
		r.c.Log.Warn("dead letter skipped: "+why, append([]any{"topic", rec.Topic, "partition", rec.Partition, "offset", rec.Offset}, args...)...)
		return nil, nil
	}
	l, err := deadletter.Parse(rec)
	if err != nil {
		return skip(&r.n.others, "it is none", "err", err)
	}
	origin := fmt.Sprintf("%s/%d offset %d", cli.Printable(l.Topic), l.Partition, l.Offset)
	switch {
	case r.to == "" && l.Topic+r.suffix != rec.Topic:
		return skip(&r.n.others, "it is about a record of another topic", "origin", origin)
	case !r.wants(l):
		r.n.filtered++
		return nil, nil
	case l.Truncated:
		return skip(&r.n.truncated, "it is not all of its record", "origin", origin)
	case rec.Value == nil && r.repair == "": // sent again, it would delete newer values of the key
		return skip(&r.n.tombstones, "its record is a tombstone", "origin", origin)
	}
	out := fedBack(rec, l)
	if r.to != "" {
		out.Topic, out.Partition = r.to, -1
	}
	if r.repair != "" {
		value, ok, err := repaired(ctx, r.repair, rec, l)
		if err != nil {
			return nil, err
		}
		if !ok {
			return skip(&r.n.unrepaired, "the repair command has refused it", "origin", origin)
		}
		out.Value = value
	}
	if size, limit := deadletter.WireSize(out), r.limits[out.Topic]; limit > 0 && size > limit {
		return skip(&r.n.tooLarge, "the topic does not take so large a record", "to", out.Topic, "bytes", size, "limit", limit)
	}
	return out, nil
}

// fedBack returns the record that is sent back to a letter's topic.
func fedBack(rec *stream.Record, l *deadletter.Letter) *stream.Record {
	out := &stream.Record{Topic: l.Topic, Partition: l.Partition, Key: rec.Key, Value: rec.Value}
	for _, h := range l.Headers {
		if !strings.HasPrefix(h.Key, replayedHeader) { // set again for a record that is sent back once more
			out.Headers = append(out.Headers, h)
		}
	}
	out.Headers = append(out.Headers, stream.Header{Key: replayedFrom, Value: fmt.Appendf(nil, "%s/%d:%d", rec.Topic, rec.Partition, rec.Offset)})
	if l.Timestamp != 0 {
		out.Headers = append(out.Headers, stream.Header{Key: replayedTimestamp, Value: strconv.AppendInt(nil, l.Timestamp, 10)})
	}
	return out
}

// findLimits looks up max.message.bytes of the topics that records go to, and
// returns the maximum size of a batch. If it is unknown, a record that is too large
// ends the replay before its letter.
func (r *letterReplay) findLimits(ctx context.Context) (batch int) {
	batch = 256 << 10
	r.limits = map[string]int{}
	var targets []string
	for _, name := range r.letters {
		targets = append(targets, cmp.Or(r.to, strings.TrimSuffix(name, r.suffix)))
	}
	for _, name := range targets {
		if n, err := deadletter.MessageLimit(ctx, r.cfg, name); err == nil {
			r.limits[name], batch = n, min(batch, n)
		}
	}
	return batch
}

// summary describes the outcomes of the letters.
func (r *letterReplay) summary() string {
	sent := "fed back"
	if r.dry {
		sent = "to be fed back"
	}
	return fmt.Sprintf("%s: %d %s", r.total(r.n.read), r.n.sent, sent) + some(r.n.filtered, " + %d skipped by the filter") + some(r.n.truncated, " + %d truncated") +
		some(r.n.tombstones, " + %d tombstones") + some(r.n.unrepaired, " + %d refused by the repair command") + some(r.n.tooLarge, " + %d too large") +
		some(r.n.others, " + %d no letters about these topics")
}
