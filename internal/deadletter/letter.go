// Package deadletter writes unusable records to dead-letter topics, each exactly once,
// also across crashes and restarts.
package deadletter

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/streamsvm/streamsvm/stream"
)

// Header begins the names of all headers that a letter has besides its record's.
const Header = "__streamsvm.errors."

// ReplayGroup is the default consumer group of the command dlq replay. The group keeps
// its position.
const ReplayGroup = "streamsvm-dlq"

// The headers. The first five and the reason are always there.
const (
	headerTopic     = Header + "topic"
	headerPartition = Header + "partition"
	headerOffset    = Header + "offset"
	headerStage     = Header + "stage"
	headerMessage   = Header + "message"
	headerReason    = Header + "reason"
	headerTimestamp = Header + "timestamp" // of the record, in ms since 1970
	headerTruncated = Header + "truncated" // bytes that the value had; the letter is not all of the record
)

const (
	// DefaultMessageBytes is Kafka's default of max.message.bytes.
	DefaultMessageBytes = 1048588
	// letterOverhead is more than a batch adds to its only record.
	letterOverhead = 128
	// longestMessage bounds a message in bytes, since it may contain names from outside.
	longestMessage = 1024
)

// Origin is the record that a letter is about.
type Origin struct {
	stream.Partition
	Offset int64
}

// Letter is the content of the headers of a dead letter.
type Letter struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
	Stage     string `json:"stage"`
	Reason    string `json:"reason"`
	Message   string `json:"message"`
	Timestamp int64  `json:"timestamp_ms,omitempty"` // of the record; 0: unknown
	Truncated bool   `json:"truncated,omitempty"`
	// Whole is how many bytes the value of a truncated letter's record had.
	Whole   int64           `json:"-"`
	Headers []stream.Header `json:"-"` // the record's own
}

// Origin returns the record that the letter is about.
func (l *Letter) Origin() Origin {
	return Origin{stream.Partition{Topic: l.Topic, ID: l.Partition}, l.Offset}
}

// Parse reads the headers of a letter. If a header occurs twice, as in a letter about
// a letter, the last one counts.
func Parse(r *stream.Record) (*Letter, error) {
	l := &Letter{Partition: -1, Offset: -1, Reason: string(stream.ReasonOther)}
	for _, h := range r.Headers {
		v := string(h.Value)
		switch h.Key {
		case headerTopic:
			l.Topic = v
		case headerPartition:
			if n, err := strconv.ParseInt(v, 10, 32); err == nil {
				l.Partition = int32(n)
			}
		case headerOffset:
			if n, err := strconv.ParseInt(v, 10, 64); err == nil {
				l.Offset = n
			}
		case headerStage:
			l.Stage = v
		case headerReason:
			l.Reason = v
		case headerMessage:
			l.Message = v
		case headerTimestamp:
			l.Timestamp, _ = strconv.ParseInt(v, 10, 64) // 0 if it is none
		case headerTruncated:
			l.Truncated = true
			l.Whole, _ = strconv.ParseInt(v, 10, 64)
		default:
			if !strings.HasPrefix(h.Key, Header) {
				l.Headers = append(l.Headers, h)
			}
		}
	}
	if l.Topic == "" || l.Partition < 0 || l.Offset < 0 {
		return nil, fmt.Errorf("%s/%d offset %d is not a dead letter: it lacks the headers %s{topic,partition,offset}", r.Topic, r.Partition, r.Offset, Header)
	}
	return l, nil
}

// timestamp returns the record's time in ms since 1970, 0 if it has none.
func timestamp(rec *stream.Record) int64 {
	if rec.Time.IsZero() {
		return 0
	}
	return rec.Time.UnixMilli()
}

// New makes the letter of at most limit bytes about a record.
func New(rec *stream.Record, why *stream.RecordError, suffix string, now time.Time, limit int) stream.Record {
	message := why.Err.Error()
	if why.Field != "" {
		message = why.Field + ": " + message
	}
	if len(message) > longestMessage {
		message = strings.ToValidUTF8(message[:longestMessage], "")
	}
	own := []stream.Header{
		{Key: headerTopic, Value: []byte(why.Topic)},
		{Key: headerPartition, Value: strconv.AppendInt(nil, int64(why.Partition), 10)},
		{Key: headerOffset, Value: strconv.AppendInt(nil, why.Offset, 10)},
		{Key: headerStage, Value: []byte(why.Stage)},
		{Key: headerReason, Value: []byte(why.Reason.Known())},
		{Key: headerMessage, Value: []byte(message)},
	}
	if ms := timestamp(rec); ms != 0 {
		own = append(own, stream.Header{Key: headerTimestamp, Value: strconv.AppendInt(nil, ms, 10)})
	}
	out := *rec
	out.Topic, out.Time = rec.Topic+suffix, now
	out.Headers = append(slices.Clip(rec.Headers), own...)
	if WireSize(&out) <= limit {
		return out
	}
	// The whole record can be found by its offset.
	own = append(own, stream.Header{Key: headerTruncated, Value: strconv.AppendInt(nil, int64(len(rec.Value)), 10)})
	out.Headers = append(slices.Clip(rec.Headers), own...)
	over := WireSize(&out) - limit
	if over > len(out.Value) {
		out.Headers, out.Key = own, nil
		over = WireSize(&out) - limit
	}
	out.Value = out.Value[:max(0, len(out.Value)-max(0, over))]
	return out
}

// WireSize returns an upper bound of the size of a batch that holds only this record.
func WireSize(r *stream.Record) int {
	n := letterOverhead + len(r.Key) + len(r.Value)
	for _, h := range r.Headers {
		n += 10 + len(h.Key) + len(h.Value)
	}
	return n
}
