package fileio

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/streamsvm/streamsvm/stream"
)

// Constants of docs/formats/recording.md.
const (
	magic         = "\x93SSR\r\n\x1a\n"
	formatVersion = 1
	headerSize    = 24
	frameSize     = 24
	sumSize       = 8
	// blockTarget is the size at which a block of a recording ends.
	blockTarget = 256 << 10

	kindBlock   = 'B'
	kindTrailer = 'E'
)

// Flags of a record.
const (
	hasTime = 1 << iota
	hasKey
	hasValue
	hasHeaders
	allFlags = 1<<iota - 1
)

// appendHeader appends a recording's header.
func appendHeader(dst []byte, sample uint32) []byte {
	n := len(dst)
	dst = append(dst, magic...)
	dst = binary.LittleEndian.AppendUint16(dst, formatVersion)
	dst = append(dst, 0, 0)
	dst = binary.LittleEndian.AppendUint32(dst, sample)
	return binary.LittleEndian.AppendUint64(dst, xxhash.Sum64(dst[n:]))
}

// checkHeader returns the checksum of the header b.
func checkHeader(b []byte) (uint64, error) {
	if string(b[:8]) != magic {
		return 0, errors.New("not a recording")
	}
	sum := binary.LittleEndian.Uint64(b[16:])
	if sum != xxhash.Sum64(b[:16]) {
		return 0, errors.New("the header is corrupt")
	}
	if v := binary.LittleEndian.Uint16(b[8:]); v != formatVersion {
		return 0, fmt.Errorf("format version %d, want %d: written by a newer streamsvm", v, formatVersion)
	}
	return sum, nil
}

// frame is the header of a frame.
type frame struct {
	kind, flags      byte
	size, raw, count uint32
	chain            uint64
}

// chainSum returns the chain checksum of a frame whose header starts with the 16
// bytes head, after prev.
func chainSum(prev uint64, head []byte) uint64 {
	var b [8 + 16]byte
	binary.LittleEndian.PutUint64(b[:], prev)
	copy(b[8:], head)
	return xxhash.Sum64(b[:])
}

// payloadSum returns the checksum of a block's payload.
func payloadSum(chain uint64, payload []byte) uint64 {
	var d xxhash.Digest
	var b [8]byte
	d.Reset()
	binary.LittleEndian.PutUint64(b[:], chain)
	// Writing to a Digest cannot fail.
	_, _ = d.Write(b[:])
	_, _ = d.Write(payload)
	return d.Sum64()
}

// append appends the header of f, which follows a frame with the chain checksum
// prev, and sets f.chain.
func (f *frame) append(dst []byte, prev uint64) []byte {
	n := len(dst)
	dst = append(dst, f.kind, f.flags, 0, 0)
	dst = binary.LittleEndian.AppendUint32(dst, f.size)
	dst = binary.LittleEndian.AppendUint32(dst, f.raw)
	dst = binary.LittleEndian.AppendUint32(dst, f.count)
	f.chain = chainSum(prev, dst[n:])
	return binary.LittleEndian.AppendUint64(dst, f.chain)
}

// parseFrame parses the header of the frame that follows one with the chain
// checksum prev.
func parseFrame(b []byte, prev uint64) (f frame, err error) {
	f = frame{
		kind: b[0], flags: b[1],
		size:  binary.LittleEndian.Uint32(b[4:]),
		raw:   binary.LittleEndian.Uint32(b[8:]),
		count: binary.LittleEndian.Uint32(b[12:]),
		chain: binary.LittleEndian.Uint64(b[16:]),
	}
	if f.chain != chainSum(prev, b[:16]) {
		return f, errors.New("the head of a frame is corrupt or not in its place")
	}
	ok := b[2] == 0 && b[3] == 0
	switch f.kind {
	case kindBlock:
		ok = ok && f.flags == 0 && f.size > 0 && f.raw > 0 && f.count > 0
	case kindTrailer:
		ok = ok && f.flags <= 1 && f.size == 0 && f.raw == 0 && f.count == 0
	default:
		ok = false
	}
	if !ok {
		return f, errors.New("the head of a frame is invalid")
	}
	return f, nil
}

// length returns how many bytes follow the header.
func (f *frame) length() int64 {
	if f.kind == kindTrailer {
		return 0
	}
	return int64(f.size) + sumSize
}

func appendBytes(dst, b []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(b)))
	return append(dst, b...)
}

// appendRecord appends the recorded form of rec.
func appendRecord(dst []byte, rec *stream.Record) []byte {
	flags := byte(0)
	if !rec.Time.IsZero() {
		flags |= hasTime
	}
	if rec.Key != nil {
		flags |= hasKey
	}
	if rec.Value != nil {
		flags |= hasValue
	}
	if len(rec.Headers) > 0 {
		flags |= hasHeaders
	}
	dst = append(dst, flags)
	dst = binary.AppendUvarint(dst, uint64(len(rec.Topic)))
	dst = append(dst, rec.Topic...)
	dst = binary.AppendVarint(dst, int64(rec.Partition))
	dst = binary.AppendVarint(dst, rec.Offset)
	if flags&hasTime != 0 {
		dst = binary.AppendVarint(dst, rec.Time.UnixMilli())
	}
	if flags&hasKey != 0 {
		dst = appendBytes(dst, rec.Key)
	}
	if flags&hasValue != 0 {
		dst = appendBytes(dst, rec.Value)
	}
	if flags&hasHeaders != 0 {
		dst = binary.AppendUvarint(dst, uint64(len(rec.Headers)))
		for _, h := range rec.Headers {
			dst = binary.AppendUvarint(dst, uint64(len(h.Key)))
			dst = append(dst, h.Key...)
			if h.Value == nil {
				dst = append(dst, 0)
				continue
			}
			dst = binary.AppendUvarint(dst, uint64(len(h.Value))+1)
			dst = append(dst, h.Value...)
		}
	}
	return dst
}

var errRecord = errors.New("a record is malformed")

// fields reads the fields of records; the first missing one sets bad.
type fields struct {
	b   []byte
	bad bool
}

func (f *fields) uvarint() uint64 { return varint(f, binary.Uvarint) }

func (f *fields) varint() int64 { return varint(f, binary.Varint) }

func varint[T any](f *fields, read func([]byte) (T, int)) (v T) {
	v, n := read(f.b)
	if n <= 0 {
		f.bad = true
		return *new(T)
	}
	f.b = f.b[n:]
	return v
}

func (f *fields) take(n uint64) []byte {
	if n > uint64(len(f.b)) {
		f.bad = true
		return nil
	}
	b := f.b[:n:n]
	f.b = f.b[n:]
	return b
}

func (f *fields) bytes() []byte { return f.take(f.uvarint()) }

// record reads one record. Its bytes are shared with f; intern returns the string
// for a topic.
func (f *fields) record(intern func([]byte) string) (rec stream.Record, err error) {
	if len(f.b) == 0 {
		return rec, errRecord
	}
	flags := f.b[0]
	f.b = f.b[1:]
	rec.Topic = intern(f.bytes())
	partition := f.varint()
	rec.Partition = int32(partition)
	rec.Offset = f.varint()
	if flags&hasTime != 0 {
		rec.Time = time.UnixMilli(f.varint()).UTC()
	}
	if flags&hasKey != 0 {
		rec.Key = f.bytes()
	}
	if flags&hasValue != 0 {
		rec.Value = f.bytes()
	}
	if flags&hasHeaders != 0 {
		n := f.uvarint()
		// A header takes at least two bytes.
		if n == 0 || n > uint64(len(f.b))/2 {
			return rec, errRecord
		}
		rec.Headers = make([]stream.Header, n)
		for k := range rec.Headers {
			h := &rec.Headers[k]
			h.Key = string(f.bytes())
			if size := f.uvarint(); size > 0 {
				h.Value = f.take(size - 1)
			}
		}
	}
	if f.bad || flags&^allFlags != 0 || int64(rec.Partition) != partition {
		return rec, errRecord
	}
	return rec, nil
}
