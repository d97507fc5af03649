package kafkaio

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/segmentio/kafka-go"
	"github.com/streamsvm/streamsvm/stream"
)

// batch is a record batch of Kafka's message format 2 under construction
// (https://kafka.apache.org/documentation/#recordbatch), after the four bytes
// of length that precede a record set in a request. kafka-go's own encoder
// leaves no room for a producer id and sequence number, without which a
// retry may store a batch twice.
type batch struct {
	buf     []byte
	records int
	firstTS int64
	maxTS   int64
}

// Positions in batch.buf; those of the batch proper start after the length.
const (
	posSet        = 0 // length of the record set
	posBatch      = 4
	posLength     = posBatch + 8
	posEpoch      = posBatch + 12
	posMagic      = posBatch + 16
	posCRC        = posBatch + 17
	posAttributes = posBatch + 21
	posLastDelta  = posBatch + 23
	posFirstTS    = posBatch + 27
	posMaxTS      = posBatch + 35
	posProducer   = posBatch + 43
	posPEpoch     = posBatch + 51
	posSequence   = posBatch + 53
	posCount      = posBatch + 57
	posRecords    = posBatch + 61
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// size is what the broker's limit on batches counts, before compression.
func (b *batch) size() int { return max(len(b.buf)-posBatch, 0) }

func (b *batch) reset() { b.buf, b.records = b.buf[:0], 0 }

func varintLen(v int64) int {
	u := uint64(v<<1) ^ uint64(v>>63)
	n := 1
	for ; u >= 0x80; u >>= 7 {
		n++
	}
	return n
}

func nullableLen(b []byte) int {
	if b == nil {
		return varintLen(-1)
	}
	return varintLen(int64(len(b))) + len(b)
}

func appendNullable(dst, b []byte) []byte {
	if b == nil {
		return binary.AppendVarint(dst, -1)
	}
	return append(binary.AppendVarint(dst, int64(len(b))), b...)
}

// add appends a record; ms is its timestamp.
func (b *batch) add(r *stream.Record, ms int64) {
	if b.records == 0 {
		b.buf = append(b.buf[:0], make([]byte, posRecords)...)
		b.firstTS, b.maxTS = ms, ms
	}
	b.maxTS = max(b.maxTS, ms)
	dts, doff := ms-b.firstTS, int64(b.records)
	n := 1 + varintLen(dts) + varintLen(doff) + nullableLen(r.Key) + nullableLen(r.Value) + varintLen(int64(len(r.Headers)))
	for _, h := range r.Headers {
		n += varintLen(int64(len(h.Key))) + len(h.Key) + nullableLen(h.Value)
	}
	d := binary.AppendVarint(b.buf, int64(n))
	d = append(d, 0)
	d = binary.AppendVarint(d, dts)
	d = binary.AppendVarint(d, doff)
	d = appendNullable(d, r.Key)
	d = appendNullable(d, r.Value)
	d = binary.AppendVarint(d, int64(len(r.Headers)))
	for _, h := range r.Headers {
		d = append(binary.AppendVarint(d, int64(len(h.Key))), h.Key...)
		d = appendNullable(d, h.Value)
	}
	b.buf = d
	b.records++
}

// session is a producer's identity towards the broker; id −1: none.
type session struct {
	id    int64
	epoch int16
}

// seal compresses the records and fills in the header; the batch is then ready
// to be sent, any number of times.
func (b *batch) seal(codec kafka.Compression, s session, sequence int32) error {
	if codec != 0 {
		var out bytes.Buffer
		out.Grow(len(b.buf) / 2)
		out.Write(b.buf[:posRecords])
		w := codec.Codec().NewWriter(&out)
		if _, err := w.Write(b.buf[posRecords:]); err != nil {
			return fmt.Errorf("kafka: compress: %w", err)
		}
		if err := w.Close(); err != nil {
			return fmt.Errorf("kafka: compress: %w", err)
		}
		b.buf = append(b.buf[:0], out.Bytes()...)
	}
	be := binary.BigEndian
	be.PutUint32(b.buf[posSet:], uint32(len(b.buf)-posBatch))
	be.PutUint64(b.buf[posBatch:], 0)
	be.PutUint32(b.buf[posLength:], uint32(len(b.buf)-posEpoch))
	be.PutUint32(b.buf[posEpoch:], 0xffffffff)
	b.buf[posMagic] = 2
	be.PutUint16(b.buf[posAttributes:], uint16(codec))
	be.PutUint32(b.buf[posLastDelta:], uint32(b.records-1))
	be.PutUint64(b.buf[posFirstTS:], uint64(b.firstTS))
	be.PutUint64(b.buf[posMaxTS:], uint64(b.maxTS))
	be.PutUint32(b.buf[posCount:], uint32(b.records))
	b.sign(s, sequence)
	return nil
}

// sign writes the producer's identity, the sequence number and the checksum.
func (b *batch) sign(s session, sequence int32) {
	if s.id < 0 {
		s.epoch, sequence = -1, -1
	}
	be := binary.BigEndian
	be.PutUint64(b.buf[posProducer:], uint64(s.id))
	be.PutUint16(b.buf[posPEpoch:], uint16(s.epoch))
	be.PutUint32(b.buf[posSequence:], uint32(sequence))
	be.PutUint32(b.buf[posCRC:], crc32.Checksum(b.buf[posAttributes:], castagnoli))
}
