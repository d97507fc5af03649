package deadletter

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
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

// Queue sends records that cannot be used to a topic whose name is that of their
// own topic and a suffix, with key, value and headers as they are and headers
// more that say what was wrong. Their timestamp is the time of sending, since
// retention would soon delete what is old. It is an engine.DeadLetters and an
// engine.Marker.
//
// Each letter is there once. Letters are written in transactions under an id of
// the job's own, so that when a run opens its Queue, nothing more of the run
// before comes. And a checkpoint says from where on the letters lie that are
// about records after it, so that the run finds those that are there already.
//
// Send hands letters to a goroutine, which writes all that have come while it
// wrote the ones before.
type Queue struct {
	opt   Options
	w     topiclog.Writer
	names []string             // topics of dead letters
	limit map[string]int       // bytes that a record may have, by topic of dead letters
	batch int                  // bytes of a transaction of more than one dead letter
	sent  map[Origin]int64     // by the run before, about records that come again; with their timestamps
	parts []stream.Partition   // of the letters
	place map[string]placement // by topic of letters
	end   context.CancelFunc
	ended chan struct{}

	mu      sync.Mutex // guards what is below
	change  *sync.Cond
	waiting []stream.Record
	bytes   int    // of waiting
	sends   uint64 // letters taken over, and
	written uint64 // how many of them are written
	err     error
	news    bool           // something was sent since the marks were taken
	marks   stream.Offsets // letters about records that come are not before these
}

// placement chooses one of n partitions for a letter.
type placement struct {
	choose kafkaio.Partitioner
	n      int
}

// TransactionalIDs begins the ids under which the letters of a job are written
// whose first topic of letters is topic.
func TransactionalIDs(topic string) string { return "streamsvm.letters." + topic + "." }

// waitingMax bounds the letters that wait, in bytes.
const waitingMax = 4 << 20

// Options say where dead letters go.
type Options struct {
	Config  kafkaio.Config
	Topics  []string // of the records
	Suffix  string
	MaxDown time.Duration // see kafkaio.SourceOptions; for opening
	Log     *slog.Logger
	// ID is the job's; empty is one that nobody else has. Lease, if not nil, returns an
	// error if another process does the job. It waits out outages.
	ID    string
	Lease func(context.Context) error
	// Restored: there is a checkpoint, with these positions and this mark,
	// which is empty if no letters were kept then.
	Restored bool
	From     stream.Offsets
	Mark     string
}

// Open creates the topics that do not exist, and looks for letters that were
// sent after the checkpoint.
func Open(ctx context.Context, o Options) (*Queue, error) {
	d := &Queue{
		opt: o, limit: map[string]int{}, batch: 512 << 10, sent: map[Origin]int64{}, place: map[string]placement{},
		ended: make(chan struct{}),
	}
	d.change = sync.NewCond(&d.mu)
	marks, err := parseMarks(o.Mark)
	if err != nil {
		return nil, &checkpoint.Error{Path: "header", Part: engine.MetaDeadLetters, Err: err}
	}
	if o.Lease == nil {
		d.opt.Lease = func(context.Context) error { return nil }
	}
	largest := 0
	for _, name := range o.Topics {
		name += o.Suffix
		d.names = append(d.names, name)
		if _, err := kafkaio.CreateTopic(ctx, o.Config, kafkaio.TopicSpec{Name: name}); err != nil {
			return nil, err
		}
		n, err := MessageLimit(ctx, o.Config, name)
		if err != nil {
			n = DefaultMessageBytes
			o.Log.Warn("the largest record that the topic of dead letters takes is not known: letters that it does not take stop the run", "topic", name, "assumed", n, "err", err)
		}
		d.limit[name] = n
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
		for p, n := range marks {
			if _, ok := d.limit[p.Topic]; ok {
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

// find reads letters to their present end and remembers those about records
// that come again. Where it starts becomes the first mark.
func (d *Queue) find(ctx context.Context, so kafkaio.SourceOptions) (err error) {
	d.marks, _, err = kafkaio.ReadAll(ctx, so, func(r *stream.Record) {
		// What is no letter, or one about a topic that is not read here, is
		// somebody else's.
		l, err := Parse(r)
		if err == nil && l.Topic+d.opt.Suffix == r.Topic && l.Offset >= d.opt.From[l.Origin().Partition] {
			d.sent[l.Origin()] = l.Timestamp
		}
	})
	if err != nil {
		return err
	}
	d.parts = d.marks.Partitions()
	for _, p := range d.parts {
		l, ok := d.place[p.Topic]
		if !ok {
			l.choose = kafkaio.ByKey()
		}
		l.n++
		d.place[p.Topic] = l
	}
	if n := len(d.sent); n > 0 {
		d.opt.Log.Info("dead letters sent after the checkpoint are not sent again", "letters", n)
	}
	return nil
}

// Send implements engine.DeadLetters. An error of an earlier letter is returned
// by every later call.
func (d *Queue) Send(ctx context.Context, rec *stream.Record, why *stream.RecordError) error {
	id := Origin{stream.Partition{Topic: rec.Topic, ID: rec.Partition}, rec.Offset}
	if at, ok := d.sent[id]; ok {
		delete(d.sent, id)
		// In a topic that was created again, another record may have the offset.
		if at == timestamp(rec) {
			return nil
		}
	}
	topic := rec.Topic + d.opt.Suffix
	out := New(rec, why, d.opt.Suffix, time.Now(), d.limit[topic])
	out.Key, out.Value = bytes.Clone(out.Key), bytes.Clone(out.Value) // the caller's
	for i := range out.Headers {
		out.Headers[i].Value = bytes.Clone(out.Headers[i].Value)
	}
	out.Partition = d.place[topic].choose(&out, d.place[topic].n)
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

// wait returns when f holds, or with why it will not. d.mu is held.
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

// run writes the letters that wait, until ctx ends or something fails.
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
		marks := d.marks
		d.mu.Unlock()
		err := d.write(ctx, marks, letters)
		d.mu.Lock()
		if err != nil {
			d.err = fmt.Errorf("dead letters: %w", err)
		}
		d.written += uint64(n)
		d.change.Broadcast()
	}
}

// write writes dead letters once. marks are where to look for them if that is not
// certain. They become visible partition by partition, and the embedded broker, if it is
// killed meanwhile, may commit a transaction in some partitions only. So each is looked
// for by itself.
func (d *Queue) write(ctx context.Context, marks stream.Offsets, letters []stream.Record) error {
	type sending struct {
		about Origin
		at    int64 // in ms: one that was sent before about the same record does not count
	}
	there := map[sending]bool{}
	log := topiclog.Log{Topics: d.names, Writer: d.w, Lease: d.opt.Lease, Fold: func(r *stream.Record) bool {
		if l, err := Parse(r); err == nil {
			there[sending{l.Origin(), r.Time.UnixMilli()}] = true
		}
		return false
	}}
	for len(letters) > 0 {
		var absent []stream.Record
		clear(there)
		log.From(marks)
		err := topiclog.Append(ctx, topiclog.Entry{Log: &log, Records: letters, Check: func() (bool, error) {
			absent = nil
			for i := range letters {
				l, err := Parse(&letters[i])
				if err != nil {
					return false, err
				}
				if !there[sending{l.Origin(), letters[i].Time.UnixMilli()}] {
					absent = append(absent, letters[i])
				}
			}
			return len(absent) < len(letters), nil
		}})
		if err != nil {
			return err
		}
		if len(absent) == len(letters) {
			absent = nil // all have been written now
		}
		letters = absent
	}
	return nil
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
	_, ends, err := kafkaio.Bounds(ctx, d.opt.Config, d.parts, time.Second)
	d.mu.Lock()
	if err != nil {
		// The old marks are good too, there is only more behind them to read.
		d.opt.Log.Debug("ends of the dead letters", "err", err)
		d.news = true
		return nil
	}
	d.marks = ends
	return nil
}

// Mark implements engine.Marker. The marks were taken before this moment, and
// letters about records behind the checkpoint are sent after it.
func (d *Queue) Mark() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return formatMarks(d.marks)
}

// Close gives up what is not written yet.
func (d *Queue) Close() error {
	d.end()
	<-d.ended
	return d.w.Close()
}

// formatMarks writes offsets as "topic/partition:offset topic/partition:offset".
func formatMarks(o stream.Offsets) string {
	var b []byte
	for i, p := range o.Partitions() {
		if i > 0 {
			b = append(b, ' ')
		}
		b = fmt.Appendf(b, "%s/%d:%d", p.Topic, p.ID, o[p])
	}
	return string(b)
}

func parseMarks(text string) (stream.Offsets, error) {
	o := stream.Offsets{}
	for _, f := range strings.Fields(text) {
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
