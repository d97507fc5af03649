package deadletter

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/streamsvm/streamsvm/stream"
)

func TestLetterFits(t *testing.T) {
	now := time.UnixMilli(1_700_000_000_000)
	rec := stream.Record{Topic: "t", Partition: 3, Offset: 17, Time: now.Add(-time.Hour), Key: []byte("key"), Value: bytes.Repeat([]byte("v"), 5000),
		Headers: []stream.Header{{Key: "trace", Value: bytes.Repeat([]byte("h"), 300)}}}
	why := &stream.RecordError{Topic: "t", Partition: 3, Offset: 17, Stage: stream.StageDecode, Reason: "unheard of", Field: "y", Err: errors.New("bad")}
	for _, c := range []struct {
		limit, value int
		key, headers int
		truncated    bool
	}{
		{1 << 20, 5000, 3, 1, false},
		{4000, -1, 3, 1, true},
		{700, 0, 0, 0, true},
	} {
		out := New(&rec, why, ".dlq", now, c.limit)
		l, err := Parse(&out)
		if err != nil {
			t.Fatal(err)
		}
		size := letterOverhead + len(out.Key) + len(out.Value)
		for _, h := range out.Headers {
			size += 10 + len(h.Key) + len(h.Value)
		}
		if size > c.limit || c.value > 0 && len(out.Value) != c.value || !bytes.HasPrefix(rec.Value, out.Value) || len(out.Key) != c.key || len(l.Headers) != c.headers || l.Truncated != c.truncated {
			t.Errorf("limit %d: %d bytes: value %d, key %d, %+v", c.limit, size, len(out.Value), len(out.Key), l)
		}
		if c.value < 0 && size != c.limit {
			t.Errorf("limit %d: only %d bytes are used", c.limit, size)
		}
		if out.Topic != "t.dlq" || !out.Time.Equal(now) || l.Timestamp != rec.Time.UnixMilli() || l.Reason != "other" || l.Message != "y: bad" || l.Partition != 3 || l.Offset != 17 {
			t.Errorf("limit %d: %v %+v", c.limit, out.Time, l)
		}
	}
}

func TestMarks(t *testing.T) {
	o := stream.Offsets{{Topic: "a.dlq", ID: 0}: 3, {Topic: "a.dlq", ID: 11}: 0, {Topic: "b-c_d", ID: 2}: 1 << 40}
	text := formatOffsets(o)
	if back, err := parseOffsets(text); err != nil || formatOffsets(back) != text || len(back) != 3 {
		t.Errorf("%q came back as %v, %v", text, back, err)
	}
	if o, err := parseOffsets(""); err != nil || len(o) != 0 {
		t.Error(o, err)
	}
	for _, bad := range []string{"a", "a/1", "a/x:1", "a/-1:1", "a/1:-1", "a/1:1x", "a/99999999999:1"} {
		if _, err := parseOffsets(bad); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}
