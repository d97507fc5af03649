package deadletter

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/streamsvm/streamsvm/checkpoint"
	"github.com/streamsvm/streamsvm/internal/crash"
	"github.com/streamsvm/streamsvm/internal/engine"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/kafkaio"
	"github.com/streamsvm/streamsvm/topiclog"
)

// Queue sends records that cannot be used to dead-letter topics, named like the records'
// own topics with a suffix. Key, value and headers stay as they are; additional headers
// say what was wrong. The timestamp is the time of sending, since retention would soon
// delete a record with an old one. Queue is an engine.DeadLetters and an engine.Marker.
//
// Each dead letter is written once. They are written in transactions under the job's own
// id, so once a run has opened its Queue, the previous run can write no more. And a
// checkpoint keeps low watermarks: dead letters about records after the checkpoint have
// at least these offsets. From there the next run reads which of them have been written
// already.
//
// Send hands dead letters to a goroutine, which writes all that have arrived during its
// previous write.
type Queue struct {
	opt    Options
	w      topiclog.Writer
	topics map[string]*topic
	names  []string // of topics
	batch  int      // bytes of a transaction of more than one dead letter
	// sent has the dead letters of earlier runs about records that come again, by record.
	sent  map[Origin]sentLetter
	end   context.CancelFunc
	ended chan struct{}

	mu         sync.Mutex // guards the fields below
	change     *sync.Cond
	waiting    []stream.Record
	bytes      int    // of waiting
	sends      uint64 // dead letters accepted
	written    uint64 // how many of them are written
	err        error
	news       bool // something was sent since the watermarks were taken
	watermarks stream.Offsets
}

// sentLetter is the position of a dead letter, and the timestamp of its record.
type sentLetter struct {
	place  stream.Partition
	offset int64
	about  int64
}

// topic is a dead-letter topic.
type topic struct {
	limit      int // bytes of a record
	partition  kafkaio.Partitioner
	partitions int
}

// TransactionalIDs returns the prefix of the ids for a job's first dead-letter topic.
func TransactionalIDs(topic string) string { return "streamsvm.letters." + topic + "." }

// waitingMax bounds the dead letters that wait, in bytes.
const waitingMax = 4 << 20

// Options say where dead letters go.
type Options struct {
	Config  kafkaio.Config
	Topics  []string // of the records
	Suffix  string
	MaxDown time.Duration // see kafkaio.SourceOptions
	Log     *slog.Logger
	// ID is the job's; empty is a unique one. Lease, if not nil, returns an error if
	// another process has taken over the job. It waits during outages.
	ID    string
	Lease func(context.Context) error
	// Restored: there is a checkpoint, with these positions and this Mark, which is empty
	// if no dead letters were kept then.
	Restored bool
	From     stream.Offsets
	Mark     string
}

// Open creates the topics that do not exist, and looks for dead letters that were sent
// after the checkpoint.
func Open(ctx context.Context, o Options) (*Queue, error) {
	if o.Lease == nil {
		o.Lease = func(context.Context) error { return nil }
	}
	d := &Queue{opt: o, topics: map[string]*topic{}, batch: 512 << 10, sent: map[Origin]sentLetter{}, ended: make(chan struct{})}
	d.change = sync.NewCond(&d.mu)
	watermarks, err := parseOffsets(o.Mark)
	if err != nil {
		return nil, &checkpoint.Error{Path: "header", Part: engine.MetaDeadLetters, Err: err}
	}
	largest := 0
	for _, name := range o.Topics {
		name += o.Suffix
		if _, err := kafkaio.CreateTopic(ctx, o.Config, kafkaio.TopicSpec{Name: name}); err != nil {
			return nil, err
		}
		n, err := MessageLimit(ctx, o.Config, name)
		if err != nil {
			n = DefaultMessageBytes
			o.Log.Warn("the record limit of the topic of dead letters is not known: a dead letter above it stops the run", "topic", name, "assumed", n, "err", err)
		}
		d.names = append(d.names, name)
		d.topics[name] = &topic{limit: n, partition: kafkaio.ByKey()}
		d.batch, largest = min(d.batch, n), max(largest, n)
	}
	d.w, err = topiclog.NewWriter(kafkaio.TransactorOptions{
		Config: o.Config, ID: TransactionalIDs(d.names[0]) + cmp.Or(o.ID, rand.Text()), BatchBytes: largest, MaxDown: o.MaxDown,
	})
	if err != nil {
		return nil, err
	}
	so := kafkaio.SourceOptions{Config: o.Config, Topics: d.names, Start: kafkaio.StartLatest, TopicWait: time.Minute, MaxDown: o.MaxDown}
	if o.Restored {
		so.Start, so.Offsets = kafkaio.StartEarliest, stream.Offsets{}
		for p, n := range watermarks {
			if d.topics[p.Topic] != nil {
				so.Offsets[p] = n
			}
		}
	}
	if err = d.w.Take(ctx); err == nil {
		err = d.find(ctx, so)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("dead letters of the run before: %w", err), d.w.Close())
	}
	run, end := context.WithCancel(context.Background())
	d.end = end
	crash.Go(func() {
		d.run(run)
		close(d.ended) // not after a panic
	})
	return d, nil
}

// MessageLimit returns the topic's max.message.bytes.
func MessageLimit(ctx context.Context, cfg kafkaio.Config, topic string) (int, error) {
	config, why := kafkaio.TopicConfig(ctx, cfg, topic)
	if n, err := strconv.Atoi(config["max.message.bytes"]); err == nil && n > 0 {
		return n, nil
	}
	return 0, cmp.Or(why, errors.New("the broker does not say"))
}

// find reads the dead letters up to the current end, and remembers the ones about records
// that come again. The positions where it starts become the first watermarks.
func (d *Queue) find(ctx context.Context, so kafkaio.SourceOptions) (err error) {
	d.watermarks, _, err = kafkaio.ReadAll(ctx, so, func(r *stream.Record) {
		// A record that is no dead letter, or is about a topic that is not read here,
		// comes from elsewhere.
		l, err := Parse(r)
		if err == nil && l.Topic+d.opt.Suffix == r.Topic && l.Offset >= d.opt.From[l.Origin().Partition] {
			d.sent[l.Origin()] = sentLetter{stream.Partition{Topic: r.Topic, ID: r.Partition}, r.Offset, l.Timestamp}
		}
	})
	if err != nil {
		return err
	}
	for p := range d.watermarks {
		d.topics[p.Topic].partitions++
	}
	if n := len(d.sent); n > 0 {
		d.opt.Log.Info("dead letters sent after the checkpoint are not sent again", "letters", n)
	}
	return nil
}

// Send implements engine.DeadLetters. If a dead letter cannot be written, every later
// call returns the error.
func (d *Queue) Send(ctx context.Context, rec *stream.Record, why *stream.RecordError) error {
	id := Origin{stream.Partition{Topic: rec.Topic, ID: rec.Partition}, rec.Offset}
	if l, ok := d.sent[id]; ok {
		delete(d.sent, id)
		// In a topic that was created again, another record may have this offset.
		if l.about == timestamp(rec) {
			return nil
		}
	}
	to := d.topics[rec.Topic+d.opt.Suffix]
	if to == nil { // a source of the caller's own may deliver anything
		return fmt.Errorf("dead letters: a record of topic %q, which is not among the topics %q", rec.Topic, d.opt.Topics)
	}
	out := New(rec, why, d.opt.Suffix, time.Now(), to.limit)
	out.Key, out.Value = bytes.Clone(out.Key), bytes.Clone(out.Value) // the caller's
	for i := range out.Headers {
		out.Headers[i].Value = bytes.Clone(out.Headers[i].Value)
	}
	out.Partition = to.partition(&out, to.partitions)
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.wait(ctx, func() bool { return d.bytes < waitingMax }); err != nil {
		return err
	}
	d.news = true
	d.sends++
	d.waiting = append(d.waiting, out)
	d.bytes += WireSize(&out)
	d.change.Broadcast()
	return nil
}

// wait returns nil when f holds, or the error why it never will. d.mu is held.
func (d *Queue) wait(ctx context.Context, f func() bool) error {
	defer context.AfterFunc(ctx, crash.Func(func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.change.Broadcast()
	}))()
	for d.err == nil && !f() && ctx.Err() == nil {
		d.change.Wait()
	}
	return cmp.Or(d.err, ctx.Err())
}

// run writes the waiting dead letters, until ctx ends or something fails.
func (d *Queue) run(ctx context.Context) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for {
		if d.wait(ctx, func() bool { return len(d.waiting) > 0 }) != nil {
			return
		}
		n, total := 0, 0
		for n < len(d.waiting) && (n == 0 || total+WireSize(&d.waiting[n]) <= d.batch) {
			total += WireSize(&d.waiting[n])
			n++
		}
		letters := d.waiting[:n:n]
		d.waiting, d.bytes = d.waiting[n:], d.bytes-total
		from := d.watermarks
		d.mu.Unlock()
		err := d.write(ctx, from, letters)
		d.mu.Lock()
		if err != nil {
			d.err = fmt.Errorf("dead letters: %w", err)
		}
		d.written += uint64(n)
		d.change.Broadcast()
	}
}

// write writes each dead letter exactly once. They become visible partition by partition,
// and the embedded broker, if it is killed meanwhile, may commit a transaction in some
// partitions only. So it searches for each separately, at or after the watermarks.
func (d *Queue) write(ctx context.Context, watermarks stream.Offsets, letters []stream.Record) error {
	type key struct {
		about Origin
		at    int64 // in ms: an earlier one about the same record does not count
	}
	keyOf := func(r *stream.Record) (k key) {
		if l, err := Parse(r); err == nil {
			k = key{l.Origin(), r.Time.UnixMilli()}
		}
		return k
	}
	for {
		found := map[key]bool{}
		absent := func() []stream.Record {
			return slices.DeleteFunc(slices.Clone(letters), func(r stream.Record) bool { return found[keyOf(&r)] })
		}
		log := topiclog.Log{Topics: d.names, Writer: d.w, Lease: d.opt.Lease, Fold: func(r *stream.Record) bool {
			found[keyOf(r)] = true
			return false
		}}
		log.From(watermarks)
		err := topiclog.Append(ctx, topiclog.Entry{Log: &log, Records: letters, Check: func() (bool, error) {
			return len(absent()) < len(letters), nil
		}})
		rest := absent()
		if err != nil || len(rest) == 0 || len(rest) == len(letters) { // none had been there: all are written now
			return err
		}
		letters = rest
	}
}

// Flush implements engine.DeadLetters.
func (d *Queue) Flush(ctx context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := d.sends
	if err := d.wait(ctx, func() bool { return d.written >= all }); err != nil || !d.news {
		return err
	}
	d.news = false
	d.mu.Unlock()
	_, ends, err := kafkaio.Bounds(ctx, d.opt.Config, d.watermarks.Partitions(), time.Second)
	d.mu.Lock()
	if err != nil {
		// The old watermarks are right too; there is only more to read after them.
		d.opt.Log.Debug("ends of the dead letters", "err", err)
		d.news = true
		return nil
	}
	for _, l := range d.sent { // their records come after the checkpoint, maybe in another run
		ends[l.place] = min(ends[l.place], l.offset)
	}
	d.watermarks = ends
	return nil
}

// Mark implements engine.Marker. The watermarks were taken before this call, and dead
// letters about records after the checkpoint are sent after it.
func (d *Queue) Mark() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return formatOffsets(d.watermarks)
}

// Close drops dead letters that have not been written yet.
func (d *Queue) Close() error {
	d.end()
	<-d.ended
	return d.w.Close()
}

// formatOffsets writes offsets as "topic/partition:offset topic/partition:offset".
func formatOffsets(o stream.Offsets) string {
	var b []byte
	for i, p := range o.Partitions() {
		if i > 0 {
			b = append(b, ' ')
		}
		b = fmt.Appendf(b, "%s/%d:%d", p.Topic, p.ID, o[p])
	}
	return string(b)
}

func parseOffsets(text string) (stream.Offsets, error) {
	o := stream.Offsets{}
	for f := range strings.FieldsSeq(text) {
		topic, rest, ok1 := strings.Cut(f, "/")
		id, at, ok2 := strings.Cut(rest, ":")
		p, err1 := strconv.ParseInt(id, 10, 32)
		n, err2 := strconv.ParseInt(at, 10, 64)
		if !ok1 || !ok2 || err1 != nil || err2 != nil || p < 0 || n < 0 {
			return nil, fmt.Errorf("%q is not topic/partition:offset", f)
		}
		o[stream.Partition{Topic: topic, ID: int32(p)}] = n
	}
	return o, nil
}
