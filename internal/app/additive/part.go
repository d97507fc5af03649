package additive

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/normal"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/kafkaio"
)

// Counts says what became of records.
type Counts struct{ Summed, Unlabelled, Dead, Tombstones uint64 }

func (c *Counts) add(o *Counts) {
	c.Summed += o.Summed
	c.Unlabelled += o.Unlabelled
	c.Dead += o.Dead
	c.Tombstones += o.Tombstones
}

// Part is what is known of the records of a partition up to a position.
type Part struct {
	Next int64 // the offset of the next record
	Counts
	Dim  int // of the examples
	Sums *normal.Sums
}

func (p *Part) fields(f *state.Fields) {
	if f.Decoding() {
		p.Sums = new(normal.Sums)
	}
	f.Int64("next", &p.Next)
	f.Uint64("summed", &p.Summed)
	f.Uint64("unlabelled", &p.Unlabelled)
	f.Uint64("dead", &p.Dead)
	f.Uint64("tombstones", &p.Tombstones)
	f.Int("dim", &p.Dim)
	f.Group("sums", p.Sums.Fields)
}

// HeaderKey is that of the header of records of a topic of sums. Its value is
//
//	1 plan=HASH next=OFFSET chunks=N hash=HASH
//
// in decimal, hashes in 16 hexadecimal digits: the version of the format, the plan,
// the offset behind the records, the number of records that the sums have been cut
// into, and the xxh64 of them together.
const HeaderKey = "__streamsvm.sums"

const headerFormat = "1 plan=%016x next=%d chunks=%d hash=%016x"

// chunkSize bounds the value of a record.
const chunkSize = 900 << 10

// Topic is a topic of sums: the partition of a record is that of the records which
// its sums are of, its key MODEL/TOPIC/PARTITION/CHUNK.
type Topic struct {
	kafkaio.Config
	Name    string
	Source  string // the topic of examples
	MaxDown time.Duration

	seen map[int32]seen
}

// seen is the newest part of a partition, and the end of the partition then.
type seen struct {
	plan uint64
	end  int64
	part *Part
}

// Open makes the topic, where it does not exist, and looks whether it has as many
// partitions as the source.
func (t *Topic) Open(ctx context.Context, wait time.Duration) (partitions int, err error) {
	of, err := kafkaio.Partitions(ctx, t.Config, []string{t.Source}, wait, t.MaxDown)
	if err != nil {
		return 0, err
	}
	if _, err := kafkaio.CreateTopic(ctx, t.Config, kafkaio.TopicSpec{Name: t.Name, Partitions: len(of), MaxDown: t.MaxDown, Config: map[string]string{
		"cleanup.policy": "compact", "segment.bytes": strconv.Itoa(64 << 20), "segment.ms": strconv.Itoa(10 * 60 * 1000), "min.cleanable.dirty.ratio": "0.1",
	}}); err != nil {
		return 0, err
	}
	own, err := kafkaio.Partitions(ctx, t.Config, []string{t.Name}, 10*time.Second, t.MaxDown)
	if err == nil && len(own) != len(of) {
		err = &PartitionsError{t.Source, t.Name, len(of), len(own)}
	}
	return len(of), err
}

// PartitionsError says that a topic of sums has not as many partitions as the
// source has.
type PartitionsError struct {
	Source, Topic  string
	Examples, Sums int
}

func (e *PartitionsError) Error() string {
	return fmt.Sprintf("topic %s has %d partitions, the topic of sums %s has %d: the numbers must be equal", e.Source, e.Examples, e.Topic, e.Sums)
}

func (t *Topic) key(p *Plan, id int32) string {
	return p.Model + "/" + t.Source + "/" + strconv.Itoa(int(id)) + "/"
}

// records returns those of a part.
func (t *Topic) records(p *Plan, id int32, part *Part) ([]stream.Record, error) {
	data, err := state.Append(nil, part.fields)
	if err != nil {
		return nil, err
	}
	n := max(1, (len(data)+chunkSize-1)/chunkSize)
	head := stream.Header{Key: HeaderKey, Value: fmt.Appendf(nil, headerFormat, p.Hash, part.Next, n, xxhash.Sum64(data))}
	recs := make([]stream.Record, n)
	for i := range recs {
		recs[i] = stream.Record{
			Topic: t.Name, Partition: id, Key: []byte(t.key(p, id) + strconv.Itoa(i)),
			Value: data[i*chunkSize : min((i+1)*chunkSize, len(data))], Headers: []stream.Header{head},
		}
	}
	return recs, nil
}

// Newest returns the newest part of a partition that is committed, nil without one.
func (t *Topic) Newest(ctx context.Context, p *Plan, id int32) (*Part, error) {
	at := stream.Partition{Topic: t.Name, ID: id}
	firsts, ends, err := kafkaio.Bounds(ctx, t.Config, []stream.Partition{at}, t.MaxDown)
	if err != nil {
		return nil, err
	}
	first, end := firsts[at], ends[at]
	if s, ok := t.seen[id]; ok && s.end == end && s.plan == p.Hash {
		return s.part, nil
	}
	// The newest is looked for from the end on: before it the topic has older ones
	// that have not been compacted away.
	for span := int64(32); ; span *= 4 {
		from := max(first, end-span)
		part, err := t.scan(ctx, p, at, from)
		if err != nil {
			return nil, err
		}
		if part != nil || from == first {
			if t.seen == nil {
				t.seen = map[int32]seen{}
			}
			t.seen[id] = seen{p.Hash, end, part}
			return part, nil
		}
	}
}

// scan returns the last part that is complete from an offset on, or nil.
func (t *Topic) scan(ctx context.Context, p *Plan, at stream.Partition, from int64) (newest *Part, err error) {
	key := t.key(p, at.ID)
	var head string
	var data []byte
	var next, chunks int
	_, _, err = kafkaio.ReadAll(ctx, kafkaio.SourceOptions{
		Config: t.Config, Topics: []string{at.Topic}, Partitions: map[string][]int32{at.Topic: {at.ID}}, Offsets: stream.Offsets{at: from},
		UntilEnd: true, MaxDown: t.MaxDown,
	}, func(r *stream.Record) {
		chunk, ours := strings.CutPrefix(string(r.Key), key)
		if !ours || err != nil {
			return
		}
		i, bad := strconv.Atoi(chunk)
		value := ""
		for _, h := range r.Headers {
			if h.Key == HeaderKey {
				value = string(h.Value)
			}
		}
		var plan, hash uint64
		var position int64
		var n int
		if _, scan := fmt.Sscanf(value, headerFormat, &plan, &position, &n, &hash); bad != nil || scan != nil {
			err = fmt.Errorf("topic %s, partition %d, offset %d: these are no sums: key %q, header %q", r.Topic, r.Partition, r.Offset, r.Key, value)
			return
		}
		if plan != p.Hash {
			return
		}
		switch {
		case i == 0:
			head, data, next, chunks = value, nil, 0, n
		case value != head || i != next:
			head = "" // its first chunks are before from, or have been replaced
		}
		if head == "" {
			return
		}
		data = append(data, r.Value...)
		if next++; next < chunks {
			return
		}
		part := new(Part)
		if got := xxhash.Sum64(data); got != hash {
			err = fmt.Errorf("topic %s, partition %d, offset %d: the sums have the hash %016x, want %016x", r.Topic, r.Partition, r.Offset, got, hash)
		} else if bad := state.Decode(data, part.fields); bad != nil {
			err = fmt.Errorf("topic %s, partition %d, offset %d: %w", r.Topic, r.Partition, r.Offset, bad)
		} else {
			newest = part
		}
		head = ""
	})
	return newest, err
}
