package kafkaio

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/fetch"
	"github.com/streamsvm/streamsvm/stream"
)

// arena allocates memory for keys and values in blocks. A block lives as long
// as any record that points into it, so it is kept small; large values get
// memory of their own.
type arena struct{ free []byte }

const (
	arenaBlock = 64 << 10
	arenaLarge = 16 << 10
)

func (a *arena) alloc(n int) []byte {
	if n > arenaLarge {
		return make([]byte, n)
	}
	if n > len(a.free) {
		a.free = make([]byte, arenaBlock)
	}
	b := a.free[:n:n]
	a.free = a.free[n:]
	return b
}

// copy returns b's content in memory of the arena and releases b.
func (a *arena) copy(b protocol.Bytes) ([]byte, error) {
	if b == nil {
		return nil, nil
	}
	buf := a.alloc(b.Len())
	_, err := io.ReadFull(b, buf)
	if len(buf) == 0 {
		buf, err = []byte{}, nil
	}
	b.Close()
	return buf, err
}

// decoder decodes the fetch responses of one partition.
type decoder struct {
	id        stream.Partition
	committed bool // drop records of aborted transactions
	arena     arena
}

// decoded is the decoded content of one response.
type decoded struct {
	recs []stream.Record
	// next is the offset after the last record seen, delivered or not, but at
	// least the requested one.
	next int64
	// before counts the records below the requested offset.
	before int
	// batches is the number of batches in the response, base the first one's base
	// offset.
	batches int
	base    int64
}

// decode appends the records of the response with offsets from ≤ offset < stop
// to recs[:0].
func (d *decoder) decode(p *fetch.ResponsePartition, from, stop int64, recs []stream.Record) (decoded, error) {
	out := decoded{recs: recs[:0], next: from}
	set, ok := p.RecordSet.Records.(*protocol.RecordStream)
	if !ok {
		if p.RecordSet.Records != nil {
			return out, fmt.Errorf("kafka: %v: unexpected record set %T", d.id, p.RecordSet.Records)
		}
		return out, nil
	}
	out.batches = len(set.Records)
	// aborted maps a producer to the first offsets of its aborted transactions in this
	// response that no marker has ended yet. Records of open ones are dropped.
	aborted := map[int64][]int64{}
	if d.committed {
		for _, t := range p.AbortedTransactions {
			aborted[t.ProducerID] = append(aborted[t.ProducerID], t.FirstOffset)
		}
	}
	for i, r := range set.Records {
		var base int64
		drop := false
		switch b := r.(type) {
		case *protocol.ControlBatch:
			base = b.BaseOffset
			if err := d.control(b, aborted, &out); err != nil {
				return out, err
			}
			drop = true
		case *protocol.RecordBatch:
			base = b.BaseOffset
			if b.Attributes.Transactional() {
				for _, first := range aborted[b.ProducerID] {
					drop = drop || first <= base
				}
			}
		case *protocol.MessageSet:
			base = b.BaseOffset
		}
		if i == 0 {
			out.base = base
		}
		if base >= out.next && out.batches > 0 {
			// Compaction may have left a batch without records.
			out.next = base
		}
		if err := d.batch(r, from, stop, drop, &out); err != nil {
			return out, err
		}
	}
	return out, nil
}

// control reads the marker that ends a transaction.
func (d *decoder) control(b *protocol.ControlBatch, aborted map[int64][]int64, out *decoded) error {
	out.next = max(out.next, b.BaseOffset+1)
	// A transaction without a record here has a marker too, but is not listed.
	if open := aborted[b.ProducerID]; len(open) == 0 || open[0] > b.BaseOffset {
		return nil
	}
	rec, err := b.Records.ReadRecord()
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("kafka: %v offset %d: control record: %w", d.id, b.BaseOffset, err)
	}
	key, err := d.arena.copy(rec.Key)
	if err != nil {
		return fmt.Errorf("kafka: %v offset %d: control record: %w", d.id, rec.Offset, err)
	}
	out.next = max(out.next, rec.Offset+1)
	const abort = 0
	if len(key) >= 4 && binary.BigEndian.Uint16(key[2:]) == abort {
		aborted[b.ProducerID] = aborted[b.ProducerID][1:]
	}
	return nil
}

func (d *decoder) batch(r protocol.RecordReader, from, stop int64, drop bool, out *decoded) error {
	for {
		rec, err := r.ReadRecord()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("kafka: %v offset %d: %w", d.id, out.next, err)
		}
		if rec.Offset < from || rec.Offset >= stop || drop {
			if rec.Offset < from {
				out.before++
			} else if rec.Offset < stop {
				out.next = max(out.next, rec.Offset+1)
			} else {
				out.next = max(out.next, stop)
			}
			release(rec)
			continue
		}
		out.recs = append(out.recs, stream.Record{Topic: d.id.Topic, Partition: d.id.ID, Offset: rec.Offset})
		o := &out.recs[len(out.recs)-1]
		if rec.Time.Unix() >= 0 { // −1 ms is Kafka's "unknown"
			o.Time = rec.Time.UTC()
		}
		if o.Key, err = d.arena.copy(rec.Key); err == nil {
			o.Value, err = d.arena.copy(rec.Value)
		}
		if err != nil {
			return fmt.Errorf("kafka: %v offset %d: %w", d.id, rec.Offset, err)
		}
		if len(rec.Headers) > 0 {
			o.Headers = make([]stream.Header, len(rec.Headers))
			for i, h := range rec.Headers {
				o.Headers[i] = stream.Header{Key: h.Key, Value: h.Value}
			}
		}
		out.next = rec.Offset + 1
	}
}

func release(rec *protocol.Record) {
	if rec.Key != nil {
		rec.Key.Close()
	}
	if rec.Value != nil {
		rec.Value.Close()
	}
}
