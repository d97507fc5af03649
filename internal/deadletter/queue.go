package deadletter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/streamsvm/streamsvm/checkpoint"
	"github.com/streamsvm/streamsvm/internal/engine"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/kafkaio"
)

// Queue sends records that cannot be used to a topic whose name is that of their
// own topic and a suffix, with key, value and headers as they are and headers
// more that say what was wrong. Their timestamp is the time of sending, since
// retention would soon delete what is old. It is an engine.DeadLetters and an
// engine.Marker.
//
// Each letter is there once: a checkpoint says from where on the letters lie
// that are about records after it, so that a run that goes on from there finds
// those that the run before it has already sent.
type Queue struct {
	p      *kafkaio.Producer
	cfg    kafkaio.Config
	log    *slog.Logger
	suffix string
	limit  map[string]int     // bytes that a record may have, by topic of letters
	sent   map[Origin]int64   // by the run before, about records that come again; with their timestamps
	parts  []stream.Partition // of the letters
	mu     sync.Mutex         // guards what is below
	news   bool               // something was sent since the marks were taken
	marks  stream.Offsets     // letters about records that come are not before these
	now    func() time.Time
}

// Options say where dead letters go.
type Options struct {
	Config  kafkaio.Config
	Topics  []string // of the records
	Suffix  string
	MaxDown time.Duration // see kafkaio.SourceOptions
	Log     *slog.Logger
	// Restored: there is a checkpoint, with these positions and this mark,
	// which is empty if no letters were kept then.
	Restored bool
	From     stream.Offsets
	Mark     string
}

// Open creates the topics that do not exist, and looks for letters that were
// sent after the checkpoint.
func Open(ctx context.Context, o Options) (*Queue, error) {
	d := &Queue{cfg: o.Config, log: o.Log, suffix: o.Suffix, limit: map[string]int{}, sent: map[Origin]int64{}, now: time.Now}
	marks, err := parseMarks(o.Mark)
	if err != nil {
		return nil, &checkpoint.Error{Path: "header", Part: engine.MetaDeadLetters, Err: err}
	}
	batch := 512 << 10
	var names []string
	for _, name := range o.Topics {
		name += o.Suffix
		names = append(names, name)
		if _, err := kafkaio.CreateTopic(ctx, o.Config, kafkaio.TopicSpec{Name: name}); err != nil {
			return nil, err
		}
		n, err := MessageLimit(ctx, o.Config, name)
		if err != nil {
			n = defaultMessageBytes
			d.log.Warn("the largest record that the topic of dead letters takes is not known: letters that it does not take stop the run", "topic", name, "assumed", n, "err", err)
		}
		d.limit[name] = n
		batch = min(batch, d.limit[name])
	}
	so := kafkaio.SourceOptions{Config: o.Config, Topics: names, Start: kafkaio.StartLatest, UntilEnd: true, ReadUncommitted: true, TopicWait: time.Minute, MaxDown: o.MaxDown}
	if o.Restored {
		so.Start, so.OutOfRange, so.Offsets = kafkaio.StartEarliest, kafkaio.OutOfRangeEarliest, stream.Offsets{}
		for p, n := range marks {
			if _, ok := d.limit[p.Topic]; ok {
				so.Offsets[p] = n
			}
		}
	}
	if err := d.find(ctx, so, o); err != nil {
		return nil, fmt.Errorf("dead letters of the run before: %w", err)
	}
	if d.p, err = kafkaio.NewProducer(ctx, kafkaio.ProducerOptions{Config: o.Config, BatchBytes: batch}); err != nil {
		return nil, err
	}
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
func (d *Queue) find(ctx context.Context, so kafkaio.SourceOptions, o Options) error {
	src, err := kafkaio.NewSource(ctx, so)
	if err != nil {
		return err
	}
	defer src.Close()
	d.marks = src.Start()
	d.parts = d.marks.Partitions()
	var recs []stream.Record
	for o.Restored {
		if recs, err = src.Fetch(ctx, recs[:0]); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return err
		}
		for i := range recs {
			// What is no letter, or one about a topic that is not read here, is
			// somebody else's.
			l, err := Parse(&recs[i])
			if err == nil && l.Topic+d.suffix == recs[i].Topic && l.Offset >= o.From[l.Origin().Partition] {
				d.sent[l.Origin()] = l.Timestamp
			}
		}
	}
	if n := len(d.sent); n > 0 {
		d.log.Info("dead letters sent after the checkpoint are not sent again", "letters", n)
	}
	return nil
}

// Send implements engine.DeadLetters.
func (d *Queue) Send(ctx context.Context, rec *stream.Record, why *stream.RecordError) error {
	id := Origin{stream.Partition{Topic: rec.Topic, ID: rec.Partition}, rec.Offset}
	if at, ok := d.sent[id]; ok {
		delete(d.sent, id)
		// In a topic that was created again, another record may have the offset.
		if at == timestamp(rec) {
			return nil
		}
	}
	out := New(rec, why, d.suffix, d.now(), d.limit[rec.Topic+d.suffix])
	d.mu.Lock()
	d.news = true
	d.mu.Unlock()
	return d.p.Produce(ctx, out)
}

// Flush implements engine.DeadLetters.
func (d *Queue) Flush(ctx context.Context) error {
	if err := d.p.Flush(ctx); err != nil {
		return err
	}
	d.mu.Lock()
	news := d.news
	d.news = false
	d.mu.Unlock()
	if !news {
		return nil
	}
	_, ends, err := kafkaio.Bounds(ctx, d.cfg, d.parts)
	d.mu.Lock()
	defer d.mu.Unlock()
	if err != nil {
		// The old marks are good too, there is only more behind them to read.
		d.log.Debug("ends of the dead letters", "err", err)
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
func (d *Queue) Close() error { return d.p.Close() }

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
