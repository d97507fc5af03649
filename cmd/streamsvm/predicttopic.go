package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/internal/app/describe"
	"github.com/streamsvm/streamsvm/internal/app/serve"
	"github.com/streamsvm/streamsvm/internal/atomicfile"
	"github.com/streamsvm/streamsvm/internal/crash"
	"github.com/streamsvm/streamsvm/internal/deadletter"
	"github.com/streamsvm/streamsvm/internal/jsonenc"
	"github.com/streamsvm/streamsvm/predictor"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/kafkaio"
	"github.com/streamsvm/streamsvm/trainer"
)

// outgoing says what prediction records hold besides the prediction, and where
// records go that cannot be scored.
type outgoing struct {
	headers     []string // headers to copy from a record to its prediction
	keep        []string // fields to copy
	cloudEvents bool
	errors      errorsTopic
}

// errorsTopic receives dead letters about records that cannot be scored.
type errorsTopic struct {
	topic string // empty for no dead letters
	limit int    // largest record of the topic, in bytes
}

func (o *outgoing) define(f *cli.Flags) {
	f.StringSliceVar(&o.headers, "headers", predictor.PassedHeaders, "headers to copy from a record to its prediction, by `NAME`")
	f.StringSliceVar(&o.keep, "keep", nil, "JSON fields to copy from a record to its prediction, by `NAME`, with dots in objects")
	f.BoolVar(&o.cloudEvents, "cloudevents", false, "make predictions CloudEvents, by their headers (binary mode)")
	f.StringVar(&o.errors.topic, "errors-topic", "", errorsUsage)
}

// check returns an error if the settings are invalid. It is called if p scores topics.
func (o *outgoing) check(p *predict) error {
	if slices.Contains(o.keep, "") {
		return p.c.Bad("keep", errors.New("a name is empty"))
	}
	for _, name := range o.headers {
		if name == inJSON.Key || o.cloudEvents && len(name) > 3 && name[:3] == "ce_" {
			return p.c.Bad("headers", fmt.Errorf("%s is the prediction's own", name))
		}
	}
	switch t := o.errors.topic; {
	case t == "":
	case slices.Contains(p.topics, t):
		return p.c.Bad("errors-topic", fmt.Errorf("%s is scored too", t))
	case t == p.predictions || t == p.modelFlags.topic:
		return p.c.Bad("errors-topic", fmt.Errorf("%s holds the predictions, or the model", t))
	}
	return nil
}

// open creates the topic.
func (e *errorsTopic) open(ctx context.Context, c *cli.Call, cfg kafkaio.Config, partitions int) error {
	if e.topic == "" {
		return nil
	}
	if _, err := kafkaio.CreateTopic(ctx, cfg, kafkaio.TopicSpec{Name: e.topic, Partitions: partitions}); err != nil {
		return err
	}
	var err error
	if e.limit, err = deadletter.MessageLimit(ctx, cfg, e.topic); err != nil {
		e.limit = deadletter.DefaultMessageBytes
		c.Log.Warn("the largest record that the topic of errors takes is not known: a letter that it does not take stops the run", "topic", e.topic, "assumed", e.limit, "err", err)
	}
	return nil
}

// letter returns the dead letter about a record that cannot be used.
func (e *errorsTopic) letter(r *stream.Record, why *stream.RecordError) stream.Record {
	out := deadletter.New(r, why, "", time.Now(), e.limit)
	out.Topic = e.topic
	return out
}

var (
	inJSON      = predictor.JSONHeader
	specVersion = stream.Header{Key: "ce_specversion", Value: []byte("1.0")}
	predicted   = stream.Header{Key: "ce_type", Value: []byte("streamsvm.prediction")}
	failed      = stream.Header{Key: "ce_type", Value: []byte("streamsvm.prediction.error")}
)

// appendHeaders appends the headers for a record's prediction.
func (o *outgoing) appendHeaders(h []stream.Header, r *stream.Record, row *predictor.Prediction) []stream.Header {
	h = append(h, inJSON)
	if o.cloudEvents {
		kind := predicted
		if row.Err != nil {
			kind = failed
		}
		text := func(key, value string) stream.Header { return stream.Header{Key: key, Value: []byte(value)} }
		h = append(h, specVersion, kind,
			text("ce_source", "/streamsvm/"+url.PathEscape(row.Model)),
			text("ce_id", r.Topic+"/"+strconv.Itoa(int(r.Partition))+"/"+strconv.FormatInt(r.Offset, 10)))
		if row.ID != "" {
			h = append(h, text("ce_subject", row.ID))
		}
		if !r.Time.IsZero() {
			h = append(h, text("ce_time", r.Time.UTC().Format(time.RFC3339Nano)))
		}
	}
	for i := range r.Headers {
		if slices.Contains(o.headers, r.Headers[i].Key) {
			h = append(h, r.Headers[i])
		}
	}
	return h
}

// appendKept adds the kept fields to b, which ends with a prediction, a JSON object.
func (o *outgoing) appendKept(b []byte, r *stream.Record, row *predictor.Prediction, root string) []byte {
	if len(o.keep) == 0 {
		return b
	}
	value := unframed(r.Value)
	if len(value) == 0 || value[0] != '{' || row.Err != nil && !json.Valid(value) {
		return b
	}
	b = append(b[:len(b)-1], `,"input":{`...)
	for _, name := range o.keep {
		field := serve.Find(value, name)
		if field == nil && root != "" {
			field = serve.Find(value, root+"."+name)
		}
		if json.Valid(field) { // Find does not check all of it
			b = append(append(jsonenc.AppendString(separated(b), name), ':'), field...)
		}
	}
	return append(b, "}}"...)
}

// keepable returns the root of the fields in JSON records, or an error for other codecs.
func keepable(s *predictor.Scorer) (root string, err error) {
	if name := s.Codec().Name(); name != "json" {
		return "", fmt.Errorf("fields are kept of records in JSON, and these are %s", name)
	}
	in, err := s.Inputs()
	return in.Root, err
}

// separated appends a comma unless b ends with the beginning of an object.
func separated(b []byte) []byte {
	if b[len(b)-1] != '{' {
		b = append(b, ',')
	}
	return b
}

// unframed returns value without the five bytes that producers with a schema
// registry put before JSON, and without white space around it.
func unframed(value []byte) []byte {
	if len(value) > 5 && value[0] == 0 {
		value = value[5:]
	}
	return bytes.TrimSpace(value)
}

// scoreTopics scores topics into the predictions topic.
func (p *predict) scoreTopics(ctx context.Context) error {
	from, err := readPositions(p.positions)
	if err != nil {
		return p.c.Bad("positions", err)
	}
	if len(from) == 0 {
		from = p.from
	}
	opts, err := p.sourceFlags.options(p.c, p.cfg, from)
	if err != nil {
		return err
	}
	opts.StopAt = p.until
	src, err := kafkaio.NewSource(ctx, opts)
	if err != nil {
		return err
	}
	defer src.Close()
	p.prog.reads(src, p.untilEnd)
	pos := src.Start()
	defer p.startShadow(ctx, pos.Clone(), src.End())()
	if err := p.openTopics(ctx, len(pos)); err != nil {
		return err
	}
	// Predictions for one partition stay in order.
	prod, err := kafkaio.NewProducer(ctx, kafkaio.ProducerOptions{Config: p.cfg, Partition: func(r *stream.Record, n int) int32 {
		return r.Partition % int32(n)
	}})
	if err != nil {
		return err
	}
	defer prod.Close()
	saved := time.Now()
	keep := func() error {
		saved = time.Now()
		if err := prod.Flush(context.WithoutCancel(ctx)); err != nil {
			return err
		}
		return writePositions(p.positions, pos)
	}
	b := newScoring()
	defer crash.Recover(b.doing)
	for {
		b.Records, err = src.Fetch(ctx, b.Records[:0])
		if err != nil {
			if ctx.Err() != nil || errors.Is(err, io.EOF) {
				err = nil
			}
			return errors.Join(err, keep())
		}
		before := pos.Clone()
		for i := range b.Records {
			r := &b.Records[i]
			pos[stream.Partition{Topic: r.Topic, ID: r.Partition}] = r.Offset + 1
		}
		out, err := p.scored(ctx, b)
		if ctx.Err() != nil { // some may have waited for their schema, in vain
			pos = before
			return keep()
		}
		if err != nil {
			return errors.Join(err, keep())
		}
		p.count(b.Predictions)
		at := pos.Clone()
		p.at.Store(&at)
		for _, r := range out {
			if err := prod.Produce(ctx, r); err != nil {
				return err
			}
		}
		if time.Since(saved) >= time.Second {
			if err := keep(); err != nil {
				return err
			}
		}
	}
}

// openTopics creates the topics to write to if they do not exist.
func (p *predict) openTopics(ctx context.Context, partitions int) error {
	if _, err := kafkaio.CreateTopic(ctx, p.cfg, kafkaio.TopicSpec{Name: p.predictions, Partitions: partitions}); err != nil {
		return err
	}
	return p.errors.open(ctx, p.c, p.cfg, partitions)
}

// scored scores the records of b with the current model, and returns the records
// to write.
func (p *predict) scored(ctx context.Context, b *scoring) (out []stream.Record, err error) {
	b.Records = p.withValues(b.Records)
	if b.s, err = p.pin(nil); err != nil {
		return nil, err
	}
	p.score(ctx, b)
	root := ""
	if len(p.keep) > 0 {
		if root, err = keepable(b.s); err != nil {
			return nil, p.c.Bad("keep", err)
		}
	}
	// The values of a batch share memory, which then belongs to the producer.
	values := make([]byte, 0, 96*len(b.Records))
	headers := make([]stream.Header, 0, len(b.Records))
	out = make([]stream.Record, 0, len(b.Records))
	for i := range b.Records {
		r, row := &b.Records[i], &b.Predictions[i]
		if row.Err != nil && p.errors.topic != "" {
			out = append(out, p.errors.letter(r, stream.At(r, row.Err)))
			continue
		}
		from, first := len(values), len(headers)
		values = p.outgoing.appendKept(row.AppendJSON(values, r), r, row, root)
		headers = p.outgoing.appendHeaders(headers, r, row)
		out = append(out, stream.Record{
			Topic: p.predictions, Partition: r.Partition, Time: r.Time, Key: r.Key,
			Value: values[from:len(values):len(values)], Headers: headers[first:len(headers):len(headers)],
		})
	}
	return out, nil
}

// withValues returns the records to score: all, or without the tombstones if those
// are skipped.
func (p *predict) withValues(recs []stream.Record) []stream.Record {
	if p.tombstones != string(trainer.TombstonesSkip) {
		return recs
	}
	n := len(recs)
	recs = slices.DeleteFunc(recs, func(r stream.Record) bool { return r.Value == nil })
	n -= len(recs)
	p.skipped += n
	p.counts.skipped.Add(uint64(n))
	return recs
}

// readPositions reads the positions of an earlier run; without a file there
// are none.
func readPositions(path string) (stream.Offsets, error) {
	if path == "" {
		return nil, nil
	}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var list []describe.Partition
	if err := json.Unmarshal(data, &list); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	o := stream.Offsets{}
	for _, p := range list {
		o[stream.Partition{Topic: p.Topic, ID: p.Partition}] = p.Next
	}
	return o, nil
}

func writePositions(path string, o stream.Offsets) error {
	if path == "" {
		return nil
	}
	data, err := json.MarshalIndent(describe.Positions(o), "", "  ")
	if err != nil {
		return err
	}
	return atomicfile.Write(path, append(data, '\n'))
}
