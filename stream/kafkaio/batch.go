package kafkaio

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/segmentio/kafka-go"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// batch is a record batch of Kafka's message format 2 under construction
// (https://kafka.apache.org/documentation/#recordbatch). kafka-go's own encoder
// leaves no room for a producer id and sequence number, without which a retry
// may store a batch twice.
type batch struct {
	kmsg.RecordBatch
	record []byte // the last one that was added
}

// Positions in an encoded batch.
const (
	posLength  = 12 // what RecordBatch.Length counts begins here
	posCRC     = 17
	posSigned  = 21 // what the checksum is of begins here
	posRecords = 61
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// size is what the broker's limit on batches counts, before compression.
func (b *batch) size() int {
	if b.NumRecords == 0 {
		return 0
	}
	return posRecords + len(b.Records)
}

func (b *batch) reset() { b.RecordBatch = kmsg.RecordBatch{Records: b.Records[:0]} }

// add appends a record; ms is its timestamp.
func (b *batch) add(r *stream.Record, ms int64) {
	if b.NumRecords == 0 {
		b.FirstTimestamp, b.MaxTimestamp = ms, ms
	}
	b.MaxTimestamp = max(b.MaxTimestamp, ms)
	k := kmsg.Record{TimestampDelta64: ms - b.FirstTimestamp, OffsetDelta: b.NumRecords, Key: r.Key, Value: r.Value}
	for _, h := range r.Headers {
		k.Headers = append(k.Headers, kmsg.Header{Key: h.Key, Value: h.Value})
	}
	b.record = k.AppendTo(b.record[:0]) // after a byte for its length, which is not known before
	b.Records = binary.AppendVarint(b.Records, int64(len(b.record)-1))
	b.Records = append(b.Records, b.record[1:]...)
	b.NumRecords++
}

// session is a producer's identity towards the broker; id −1: none.
type session struct {
	id    int64
	epoch int16
}

// seal compresses the records; the batch can then be encoded, any number of
// times.
func (b *batch) seal(codec kafka.Compression) error {
	if codec != 0 {
		var out bytes.Buffer
		w := codec.Codec().NewWriter(&out)
		if _, err := w.Write(b.Records); err != nil {
			return fmt.Errorf("kafka: compress: %w", err)
		}
		if err := w.Close(); err != nil {
			return fmt.Errorf("kafka: compress: %w", err)
		}
		b.Records = out.Bytes()
	}
	b.PartitionLeaderEpoch, b.Magic, b.Attributes = -1, 2, int16(codec)
	b.Length, b.LastOffsetDelta = int32(posRecords-posLength+len(b.Records)), b.NumRecords-1
	return nil
}

// encode returns the batch, after its length, as the session's with this
// sequence number. It may use dst's memory.
func (b *batch) encode(dst []byte, s session, sequence int32) []byte {
	b.ProducerID, b.ProducerEpoch, b.FirstSequence = s.id, s.epoch, sequence
	if s.id < 0 {
		b.ProducerEpoch, b.FirstSequence = -1, -1
	}
	dst = b.AppendTo(binary.BigEndian.AppendUint32(dst[:0], uint32(posRecords+len(b.Records))))
	set := dst[4:]
	binary.BigEndian.PutUint32(set[posCRC:], crc32.Checksum(set[posSigned:], castagnoli))
	return dst
}
