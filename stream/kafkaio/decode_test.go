package kafkaio

import (
	"slices"
	"testing"
	"time"

	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/fetch"
	"github.com/streamsvm/streamsvm/stream"
)

// Answers as brokers give them, built by hand.
func answerOf(aborted []fetch.ResponseTransaction, batches ...protocol.RecordReader) *fetch.ResponsePartition {
	p := &fetch.ResponsePartition{AbortedTransactions: aborted}
	p.RecordSet.Records = &protocol.RecordStream{Records: batches}
	return p
}

func dataBatch(producer, base int64, transactional bool, offsets ...int64) *protocol.RecordBatch {
	b := &protocol.RecordBatch{ProducerID: producer, BaseOffset: base}
	if transactional {
		b.Attributes = protocol.Transactional
	}
	var recs []protocol.Record
	for _, o := range offsets {
		recs = append(recs, protocol.Record{Offset: o, Time: time.UnixMilli(o), Value: protocol.NewBytes([]byte{byte(o)})})
	}
	b.Records = protocol.NewRecordReader(recs...)
	return b
}

func marker(producer, offset int64, commit int16) *protocol.ControlBatch {
	b := protocol.NewControlBatch(protocol.ControlRecord{Offset: offset, Type: commit})
	b.ProducerID, b.BaseOffset = producer, offset
	b.Attributes = protocol.Transactional | protocol.Control
	return b
}

func TestDecode(t *testing.T) {
	const commit, abort = 1, 0
	for _, c := range []struct {
		name      string
		committed bool
		from, to  int64
		answer    func() *fetch.ResponsePartition
		want      []int64
		next      int64
		before    int
	}{
		{"empty", true, 5, 100, func() *fetch.ResponsePartition { return &fetch.ResponsePartition{} }, nil, 5, 0},
		{"begins in a batch", true, 5, 100, func() *fetch.ResponsePartition { return answerOf(nil, dataBatch(-1, 3, false, 3, 4, 5, 6)) }, []int64{5, 6}, 7, 2},
		{"ends in a batch", true, 3, 5, func() *fetch.ResponsePartition { return answerOf(nil, dataBatch(-1, 3, false, 3, 4, 5, 6)) }, []int64{3, 4}, 5, 0},
		{"commit marker last", true, 3, 100, func() *fetch.ResponsePartition {
			return answerOf(nil, dataBatch(7, 3, true, 3, 4), marker(7, 5, commit))
		}, []int64{3, 4}, 6, 0},
		{"two producers, one aborts twice", true, 0, 100, func() *fetch.ResponsePartition {
			return answerOf([]fetch.ResponseTransaction{{ProducerID: 7, FirstOffset: 0}, {ProducerID: 7, FirstOffset: 9}},
				dataBatch(7, 0, true, 0, 1), dataBatch(8, 2, true, 2), marker(7, 3, abort), marker(8, 4, commit),
				dataBatch(7, 5, true, 5), dataBatch(7, 6, false, 6), marker(7, 7, commit), dataBatch(-1, 8, false, 8),
				dataBatch(7, 9, true, 9), marker(7, 10, abort))
		}, []int64{2, 5, 6, 8}, 11, 0},
		{"one that aborts with nothing, then with records", true, 0, 100, func() *fetch.ResponsePartition {
			return answerOf([]fetch.ResponseTransaction{{ProducerID: 7, FirstOffset: 1}},
				marker(7, 0, abort), dataBatch(7, 1, true, 1, 2), marker(7, 3, abort), dataBatch(7, 4, true, 4), marker(7, 5, commit))
		}, []int64{4}, 6, 0},
		{"an aborted transaction that began before", true, 10, 100, func() *fetch.ResponsePartition {
			return answerOf([]fetch.ResponseTransaction{{ProducerID: 7, FirstOffset: 2}}, dataBatch(7, 10, true, 10), marker(7, 11, abort), dataBatch(7, 12, true, 12))
		}, []int64{12}, 13, 0},
		{"uncommitted", false, 0, 100, func() *fetch.ResponsePartition {
			return answerOf(nil, dataBatch(7, 0, true, 0, 1), marker(7, 2, abort))
		}, []int64{0, 1}, 3, 0},
		{"batch emptied by compaction", true, 0, 100, func() *fetch.ResponsePartition {
			return answerOf(nil, dataBatch(-1, 0, false, 0, 3), dataBatch(-1, 8, false), dataBatch(-1, 10, false, 12))
		}, []int64{0, 3, 12}, 13, 0},
		{"old message format", true, 0, 100, func() *fetch.ResponsePartition {
			b := dataBatch(-1, 0, false, 0, 1)
			return answerOf(nil, &protocol.MessageSet{BaseOffset: 0, Records: b.Records})
		}, []int64{0, 1}, 2, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := decoder{id: stream.Partition{Topic: "t", ID: 3}, committed: c.committed}
			out, err := d.decode(c.answer(), c.from, c.to, nil)
			if err != nil {
				t.Fatal(err)
			}
			var got []int64
			for _, r := range out.recs {
				got = append(got, r.Offset)
				if r.Topic != "t" || r.Partition != 3 || !r.Time.Equal(time.UnixMilli(r.Offset)) || len(r.Value) != 1 || r.Value[0] != byte(r.Offset) {
					t.Errorf("%+v", r)
				}
			}
			if !slices.Equal(got, c.want) || out.next != c.next || out.before != c.before {
				t.Errorf("offsets %v, next %d, before %d; want %v, %d, %d", got, out.next, out.before, c.want, c.next, c.before)
			}
		})
	}
}

func TestArena(t *testing.T) {
	var a arena
	var all [][]byte
	for i := range 3000 {
		b := a.alloc(i * 7)
		for j := range b {
			b[j] = byte(i)
		}
		if cap(b) != len(b) {
			t.Fatalf("an append to %d bytes would reach into the next", len(b))
		}
		all = append(all, b)
	}
	for i, b := range all {
		for _, x := range b {
			if x != byte(i) {
				t.Fatalf("piece %d has been overwritten", i)
			}
		}
	}
}
