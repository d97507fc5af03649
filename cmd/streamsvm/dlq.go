package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/internal/engine"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/kafkaio"
)

// Names of the headers of a dead letter. The first five and the reason are
// always there.
const (
	dlqHeader    = "__streamsvm.errors."
	dlqTopic     = dlqHeader + "topic"
	dlqPartition = dlqHeader + "partition"
	dlqOffset    = dlqHeader + "offset"
	dlqStage     = dlqHeader + "stage"
	dlqMessage   = dlqHeader + "message"
	dlqReason    = dlqHeader + "reason"
	dlqTimestamp = dlqHeader + "timestamp" // of the record, in ms since 1970
	dlqTruncated = dlqHeader + "truncated" // bytes that the value had; the letter is not all of the record
)

const (
	// defaultMessageBytes is Kafka's own max.message.bytes.
	defaultMessageBytes = 1048588
	// letterOverhead is more than a batch adds to its only record.
	letterOverhead = 128
	// longestMessage bounds what names from outside could make of a message.
	longestMessage = 1024
)

// deadLetters sends records that cannot be used to a topic whose name is that
// of their own topic and a suffix, with key, value and headers as they are and
// headers more that say what was wrong. Their timestamp is the time of sending,
// since retention would soon delete what is old. It is a engine.DeadLetters
// and engine.Marker.
//
// Each letter is there once: a checkpoint says from where on the letters lie
// that are about records after it, so that a run that goes on from there finds
// those that the run before it has already sent.
type deadLetters struct {
	p      *kafkaio.Producer
	cfg    kafkaio.Config
	log    *slog.Logger
	suffix string
	limit  map[string]int         // bytes that a record may have, by topic of letters
	sent   map[letterOrigin]int64 // by the run before, about records that come again; with their timestamps
	parts  []stream.Partition     // of the letters
	mu     sync.Mutex             // guards what is below
	news   bool                   // something was sent since the marks were taken
	marks  stream.Offsets         // letters about records that come are not before these
	now    func() time.Time
}

// letterOrigin is the record that a letter is about.
type letterOrigin struct {
	stream.Partition
	offset int64
}

// dlqOptions say where dead letters go.
type dlqOptions struct {
	cfg     kafkaio.Config
	topics  []string // of the records
	suffix  string
	maxDown time.Duration
	log     *slog.Logger
	// restored: there is a checkpoint, with these positions and this mark,
	// which is empty if no letters were kept then.
	restored bool
	from     stream.Offsets
	mark     string
}

// newDeadLetters creates the topics that do not exist, and looks for letters
// that were sent after the checkpoint.
func newDeadLetters(ctx context.Context, o dlqOptions) (*deadLetters, error) {
	d := &deadLetters{cfg: o.cfg, log: o.log, suffix: o.suffix, limit: map[string]int{}, sent: map[letterOrigin]int64{}, now: time.Now}
	marks, err := parseMarks(o.mark)
	if err != nil {
		return nil, cli.Fail(cli.Data, fmt.Errorf("checkpoint: %s: %w", engine.MetaDeadLetters, err))
	}
	batch := 512 << 10
	var names []string
	for _, name := range o.topics {
		name += o.suffix
		names = append(names, name)
		if _, err := kafkaio.CreateTopic(ctx, o.cfg, kafkaio.TopicSpec{Name: name}); err != nil {
			return nil, kafkaError(err)
		}
		d.limit[name] = messageLimit(ctx, o.cfg, d.log, name)
		batch = min(batch, d.limit[name])
	}
	so := kafkaio.SourceOptions{Config: o.cfg, Topics: names, Start: kafkaio.StartLatest, UntilEnd: true, ReadUncommitted: true, TopicWait: time.Minute, MaxDown: o.maxDown}
	if o.restored {
		so.Start, so.OutOfRange, so.Offsets = kafkaio.StartEarliest, kafkaio.OutOfRangeEarliest, stream.Offsets{}
		for p, n := range marks {
			if _, ok := d.limit[p.Topic]; ok {
				so.Offsets[p] = n
			}
		}
	}
	if err := d.find(ctx, so, o); err != nil {
		return nil, kafkaError(fmt.Errorf("dead letters of the run before: %w", err))
	}
	if d.p, err = kafkaio.NewProducer(ctx, kafkaio.ProducerOptions{Config: o.cfg, BatchBytes: batch}); err != nil {
		return nil, kafkaError(err)
	}
	return d, nil
}

// messageLimit returns the topic's max.message.bytes, or what it probably is.
func messageLimit(ctx context.Context, cfg kafkaio.Config, log *slog.Logger, topic string) int {
	config, why := kafkaio.TopicConfig(ctx, cfg, topic)
	if n, err := strconv.Atoi(config["max.message.bytes"]); err == nil && n > 0 {
		return n
	}
	log.Warn("the largest record that the topic of dead letters takes is not known: letters that it does not take stop the run", "topic", topic, "assumed", defaultMessageBytes, "err", why)
	return defaultMessageBytes
}

// find reads letters to their present end and remembers those about records
// that come again. Where it starts becomes the first mark.
func (d *deadLetters) find(ctx context.Context, so kafkaio.SourceOptions, o dlqOptions) error {
	src, err := kafkaio.NewSource(ctx, so)
	if err != nil {
		return err
	}
	defer src.Close()
	d.marks = src.Start()
	d.parts = d.marks.Partitions()
	var recs []stream.Record
	for o.restored {
		if recs, err = src.Fetch(ctx, recs[:0]); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return err
		}
		for i := range recs {
			// What is no letter, or one about a topic that is not read here, is
			// somebody else's.
			l, err := parseLetter(&recs[i])
			if err == nil && l.Topic+d.suffix == recs[i].Topic && l.Offset >= o.from[l.origin().Partition] {
				d.sent[l.origin()] = l.Timestamp
			}
		}
	}
	if n := len(d.sent); n > 0 {
		d.log.Info("dead letters sent after the checkpoint are not sent again", "letters", n)
	}
	return nil
}

// Send implements engine.DeadLetters.
func (d *deadLetters) Send(ctx context.Context, rec *stream.Record, why *stream.RecordError) error {
	id := letterOrigin{stream.Partition{Topic: rec.Topic, ID: rec.Partition}, rec.Offset}
	if at, ok := d.sent[id]; ok {
		delete(d.sent, id)
		// Of a topic that was made anew, another record may have the offset.
		if at == timestamp(rec) {
			return nil
		}
	}
	out := letter(rec, why, d.suffix, d.now(), d.limit[rec.Topic+d.suffix])
	d.mu.Lock()
	d.news = true
	d.mu.Unlock()
	return d.p.Produce(ctx, out)
}

// timestamp returns the record's time in ms since 1970, 0 if it has none.
func timestamp(rec *stream.Record) int64 {
	if rec.Time.IsZero() {
		return 0
	}
	return rec.Time.UnixMilli()
}

// letter makes a letter of at most limit bytes.
func letter(rec *stream.Record, why *stream.RecordError, suffix string, now time.Time, limit int) stream.Record {
	message := why.Err.Error()
	if why.Field != "" {
		message = why.Field + ": " + message
	}
	if len(message) > longestMessage {
		message = strings.ToValidUTF8(message[:longestMessage], "")
	}
	own := []stream.Header{
		{Key: dlqTopic, Value: []byte(why.Topic)},
		{Key: dlqPartition, Value: strconv.AppendInt(nil, int64(why.Partition), 10)},
		{Key: dlqOffset, Value: strconv.AppendInt(nil, why.Offset, 10)},
		{Key: dlqStage, Value: []byte(why.Stage)},
		{Key: dlqReason, Value: []byte(why.Reason.Known())},
		{Key: dlqMessage, Value: []byte(message)},
	}
	if ms := timestamp(rec); ms != 0 {
		own = append(own, stream.Header{Key: dlqTimestamp, Value: strconv.AppendInt(nil, ms, 10)})
	}
	out := *rec
	out.Topic, out.Time = rec.Topic+suffix, now
	size := func() int {
		n := letterOverhead + len(out.Key) + len(out.Value)
		for _, h := range out.Headers {
			n += 10 + len(h.Key) + len(h.Value)
		}
		return n
	}
	out.Headers = append(rec.Headers[:len(rec.Headers):len(rec.Headers)], own...)
	if size() <= limit {
		return out
	}
	// Who needs the rest finds the record by its offset.
	own = append(own, stream.Header{Key: dlqTruncated, Value: strconv.AppendInt(nil, int64(len(rec.Value)), 10)})
	out.Headers = append(rec.Headers[:len(rec.Headers):len(rec.Headers)], own...)
	over := size() - limit
	if over > len(out.Value) {
		out.Headers, out.Key = own, nil
		over = size() - limit
	}
	out.Value = out.Value[:max(0, len(out.Value)-max(0, over))]
	return out
}

// Flush implements engine.DeadLetters.
func (d *deadLetters) Flush(ctx context.Context) error {
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
func (d *deadLetters) Mark() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return formatMarks(d.marks)
}

func (d *deadLetters) close() error { return d.p.Close() }

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

// parsedLetter is what the headers of a dead letter say.
type parsedLetter struct {
	Topic     string          `json:"topic"`
	Partition int32           `json:"partition"`
	Offset    int64           `json:"offset"`
	Stage     string          `json:"stage"`
	Reason    string          `json:"reason"`
	Message   string          `json:"message"`
	Timestamp int64           `json:"timestamp_ms,omitempty"` // of the record; 0: unknown
	Truncated bool            `json:"truncated,omitempty"`
	headers   []stream.Header // the record's own
}

func (l *parsedLetter) origin() letterOrigin {
	return letterOrigin{stream.Partition{Topic: l.Topic, ID: l.Partition}, l.Offset}
}

// parseLetter reads the headers of a letter. If a header is there twice, as in
// a letter about a letter, the last one counts.
func parseLetter(r *stream.Record) (*parsedLetter, error) {
	l := &parsedLetter{Partition: -1, Offset: -1, Reason: string(stream.ReasonOther)}
	for _, h := range r.Headers {
		v := string(h.Value)
		switch h.Key {
		case dlqTopic:
			l.Topic = v
		case dlqPartition:
			if n, err := strconv.ParseInt(v, 10, 32); err == nil {
				l.Partition = int32(n)
			}
		case dlqOffset:
			if n, err := strconv.ParseInt(v, 10, 64); err == nil {
				l.Offset = n
			}
		case dlqStage:
			l.Stage = v
		case dlqReason:
			l.Reason = v
		case dlqMessage:
			l.Message = v
		case dlqTimestamp:
			l.Timestamp, _ = strconv.ParseInt(v, 10, 64) // 0 if it is none
		case dlqTruncated:
			l.Truncated = true
		default:
			if !strings.HasPrefix(h.Key, dlqHeader) {
				l.headers = append(l.headers, h)
			}
		}
	}
	if l.Topic == "" || l.Partition < 0 || l.Offset < 0 {
		return nil, fmt.Errorf("%s/%d offset %d is no dead letter: it has no headers %s{topic,partition,offset}", r.Topic, r.Partition, r.Offset, dlqHeader)
	}
	return l, nil
}
