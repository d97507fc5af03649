package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/internal/app/serve"
	"github.com/streamsvm/streamsvm/internal/deadletter"
	"github.com/streamsvm/streamsvm/predictor"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/kafkaio"
)

// outgoing says what the records of predictions hold besides predictions, and
// where records go that cannot be scored.
type outgoing struct {
	headers     []string // of the record that go with its prediction
	keep        []string // fields of the event that do
	cloudEvents bool
	errors      string // topic
	limit       int    // bytes that a record of it may have
}

// passed are the headers that go with a prediction unless told otherwise: those
// by which traces and requests are followed.
var passed = []string{"traceparent", "tracestate", "baggage", "correlation-id", "x-request-id"}

func (o *outgoing) define(f *cli.Flags) {
	f.StringSliceVar(&o.headers, "headers", passed, "headers of a record that its prediction has too, by `NAME`")
	f.StringSliceVar(&o.keep, "keep", nil, "fields of a record in JSON that its prediction has too, by `NAME`, with dots in objects")
	f.BoolVar(&o.cloudEvents, "cloudevents", false, "make predictions CloudEvents, by their headers (binary mode)")
	f.StringVar(&o.errors, "errors-topic", "", "`TOPIC` for records that cannot be scored, as dead letters, instead of errors among the predictions; created if it does not exist")
}

// check finds what is wrong with the settings, where p scores topics.
func (o *outgoing) check(p *predict) error {
	for _, name := range o.keep {
		if name == "" {
			return p.c.Bad("keep", errors.New("a name is empty"))
		}
	}
	for _, name := range o.headers {
		if name == contentType || o.cloudEvents && len(name) > 3 && name[:3] == "ce_" {
			return p.c.Bad("headers", fmt.Errorf("%s is the prediction's own", name))
		}
	}
	switch t := o.errors; {
	case t == "":
	case slices.Contains(p.topics, t):
		return p.c.Bad("errors-topic", fmt.Errorf("%s is scored too", t))
	case t == p.predictions || t == p.modelFlags.topic:
		return p.c.Bad("errors-topic", fmt.Errorf("%s holds the predictions, or the model", t))
	}
	return nil
}

// open makes the topic of errors.
func (o *outgoing) open(ctx context.Context, p *predict, partitions int) error {
	if o.errors == "" {
		return nil
	}
	if _, err := kafkaio.CreateTopic(ctx, p.cfg, kafkaio.TopicSpec{Name: o.errors, Partitions: partitions}); err != nil {
		return err
	}
	var err error
	if o.limit, err = deadletter.MessageLimit(ctx, p.cfg, o.errors); err != nil {
		o.limit = deadletter.DefaultMessageBytes
		p.c.Log.Warn("the largest record that the topic of errors takes is not known: a letter that it does not take stops the run", "topic", o.errors, "assumed", o.limit, "err", err)
	}
	return nil
}

// letter is the dead letter about a record that cannot be scored.
func (o *outgoing) letter(r *stream.Record, why error) stream.Record {
	out := deadletter.New(r, stream.At(r, why), "", time.Now(), o.limit)
	out.Topic = o.errors
	return out
}

const contentType = "content-type"

var (
	inJSON      = stream.Header{Key: contentType, Value: []byte("application/json")}
	specVersion = stream.Header{Key: "ce_specversion", Value: []byte("1.0")}
	predicted   = stream.Header{Key: "ce_type", Value: []byte("streamsvm.prediction")}
	failed      = stream.Header{Key: "ce_type", Value: []byte("streamsvm.prediction.error")}
)

// appendHeaders appends the headers of the prediction of a record.
func (o *outgoing) appendHeaders(h []stream.Header, r *stream.Record, row *outcome, v *predictor.Version) []stream.Header {
	h = append(h, inJSON)
	if o.cloudEvents {
		kind := predicted
		if row.err != nil {
			kind = failed
		}
		text := func(key, value string) stream.Header { return stream.Header{Key: key, Value: []byte(value)} }
		h = append(h, specVersion, kind,
			text("ce_source", "/streamsvm/"+url.PathEscape(v.Update.Model)),
			text("ce_id", r.Topic+"/"+strconv.Itoa(int(r.Partition))+"/"+strconv.FormatInt(r.Offset, 10)))
		if row.id != "" {
			h = append(h, text("ce_subject", row.id))
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

// appendKept adds the fields that are kept to a prediction, which is an object.
func (o *outgoing) appendKept(b []byte, r *stream.Record, row *outcome, root string) []byte {
	if len(o.keep) == 0 {
		return b
	}
	value := unframed(r.Value)
	if len(value) == 0 || value[0] != '{' || row.err != nil && !json.Valid(value) {
		return b
	}
	b = append(b[:len(b)-1], `,"input":{`...)
	for _, name := range o.keep {
		field := serve.Find(value, name)
		if field == nil && root != "" {
			field = serve.Find(value, root+"."+name)
		}
		if json.Valid(field) { // what is there is not looked at in all places
			b = append(append(serve.AppendString(separated(b), name), ':'), field...)
		}
	}
	return append(b, "}}"...)
}

// keepable returns where the fields of records in JSON are, or why there are none.
func keepable(f *form) (root string, err error) {
	if f.dec.Name() != "json" {
		return "", fmt.Errorf("fields are kept of records in JSON, and these are %s", f.dec.Name())
	}
	t, err := f.rowForm()
	if err != nil {
		return "", err
	}
	return t.inputs.Root, nil
}

// separated appends a comma unless b ends with the beginning of an object.
func separated(b []byte) []byte {
	if b[len(b)-1] != '{' {
		b = append(b, ',')
	}
	return b
}

// unframed returns what is behind the five bytes that producers with a schema
// registry put before JSON, and behind white space.
func unframed(value []byte) []byte {
	if len(value) > 5 && value[0] == 0 {
		value = value[5:]
	}
	return bytes.TrimSpace(value)
}
