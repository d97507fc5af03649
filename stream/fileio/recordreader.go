package fileio

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/klauspost/compress/zstd"

	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/codec"
)

// CorruptError says where a recording is damaged.
type CorruptError struct {
	Path string
	Pos  int64 // of the frame, in bytes from the start of the file
	Err  error
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("fileio: %s is corrupt at byte %d: %v", e.Path, e.Pos, e.Err)
}

func (e *CorruptError) Unwrap() error { return e.Err }

// RecordReader reads a recording. Only one goroutine may use it at a time.
type RecordReader struct {
	path     string
	r        *bufio.Reader
	f        *os.File
	dec      *zstd.Decoder
	chain    uint64
	pos      int64 // of the next frame
	maxRaw   uint32
	topics   map[string]string
	body     []byte // the last block, compressed
	lent     bool   // records are no longer in use at the next block
	raw      []byte // the memory of the last block, if lent
	sample   uint32
	finished bool
	torn     bool
	err      error
}

// OpenRecording opens the recording at path and checks its header.
func OpenRecording(path string) (*RecordReader, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("fileio: %w", err)
	}
	r, err := newRecordReader(path, f)
	if err != nil {
		f.Close()
		return nil, err
	}
	r.f = f
	return r, nil
}

func newRecordReader(path string, in io.Reader) (*RecordReader, error) {
	r := &RecordReader{path: path, r: bufio.NewReaderSize(in, blockSize), topics: make(map[string]string)}
	r.bound(codec.MaxValueBytes)
	h := make([]byte, headerSize)
	n, err := io.ReadFull(r.r, h)
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		// The writer may have been interrupted while it wrote the header.
		if whole := appendHeader(nil, 0); !bytes.Equal(h[:n], whole[:n]) {
			return nil, &CorruptError{path, 0, errors.New("not a recording")}
		}
		r.torn, r.err = true, io.EOF
		return r, nil
	}
	if err != nil {
		return nil, fmt.Errorf("fileio: %s: %w", path, err)
	}
	if r.chain, err = checkHeader(h); err != nil {
		return nil, &CorruptError{path, 0, err}
	}
	r.pos, r.sample = headerSize, binary.LittleEndian.Uint32(h[12:])
	return r, nil
}

// Sample returns the number set by RecordWriter.SetSample, or 0.
func (r *RecordReader) Sample() uint32 { return r.sample }

// bound sets the length of the longest accepted record, which bounds the memory that a
// frame can claim.
func (r *RecordReader) bound(n int) { r.maxRaw = uint32(n + 2*blockTarget) }

// Next appends the records of the next block to dst. It returns io.EOF after the
// last one, whether the recording ends with a trailer or is torn, and a
// *CorruptError for damage in the middle. The bytes of the records are not reused.
func (r *RecordReader) Next(dst []stream.Record) ([]stream.Record, error) {
	if r.err != nil {
		return dst, r.err
	}
	recs, err := r.block(dst)
	if err != nil {
		r.err = err
		return dst, err
	}
	return recs, nil
}

// read implements input.
func (r *RecordReader) read(_ context.Context, dst []stream.Record) ([]stream.Record, error) {
	return r.Next(dst)
}

// at implements input.
func (r *RecordReader) at() (int64, error) { return r.f.Seek(0, io.SeekCurrent) }

// lend implements input.
func (r *RecordReader) lend() { r.lent = true }

func (r *RecordReader) corrupt(err error) error { return &CorruptError{r.path, r.pos, err} }

// short turns an end of file inside a frame into a torn end.
func (r *RecordReader) short(err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		r.torn = true
		return io.EOF
	}
	return fmt.Errorf("fileio: %s: %w", r.path, err)
}

func (r *RecordReader) block(dst []stream.Record) ([]stream.Record, error) {
	var head [frameSize]byte
	if _, err := io.ReadFull(r.r, head[:]); err != nil {
		return dst, r.short(err)
	}
	f, err := parseFrame(head[:], r.chain)
	if err != nil {
		return dst, r.damaged(head[:], err)
	}
	if f.kind == kindTrailer {
		if _, err := r.r.ReadByte(); err != io.EOF {
			return dst, r.corrupt(errors.New("something follows the trailer"))
		}
		r.finished = f.flags == 1
		return dst, io.EOF
	}
	if f.raw > r.maxRaw || f.size > r.maxRaw {
		return dst, r.corrupt(fmt.Errorf("a block of %d bytes is too large, the limit is %d", max(f.raw, f.size), r.maxRaw))
	}
	body, err := readAll(r.r, r.body[:0], int(f.length()))
	if err != nil {
		return dst, r.short(err)
	}
	if cap(body) <= 2*blockTarget {
		r.body = body
	}
	payload := body[:f.size]
	if binary.LittleEndian.Uint64(body[f.size:]) != payloadSum(f.chain, payload) {
		return dst, r.damaged(body, errors.New("the checksum of a block is wrong"))
	}
	recs, err := r.records(dst, &f, payload)
	if err != nil {
		return dst, r.corrupt(err)
	}
	r.chain = f.chain
	r.pos += frameSize + f.length()
	return recs, nil
}

// damaged returns the error for a part of a frame whose checksum is wrong. It is a
// torn end if the part ends in zeros, at least eight (the length of a checksum),
// and only zeros follow: that is what a file system leaves behind that lost power
// after it recorded the length of the file but before it wrote the data.
func (r *RecordReader) damaged(part []byte, err error) error {
	tail := part[len(part)-sumSize:]
	buf := make([]byte, blockSize)
	for {
		for _, b := range tail {
			if b != 0 {
				return r.corrupt(err)
			}
		}
		n, rerr := r.r.Read(buf)
		tail = buf[:n]
		if n == 0 && rerr == io.EOF {
			r.torn = true
			return io.EOF
		}
		if n == 0 && rerr != nil {
			return fmt.Errorf("fileio: %s: %w", r.path, rerr)
		}
	}
}

// readAll reads n bytes into b, which is empty, allocating as they arrive: a file
// that ends early costs no more than its size.
func readAll(r io.Reader, b []byte, n int) ([]byte, error) {
	b = slices.Grow(b, min(n, 2*blockTarget))
	for len(b) < n {
		if len(b) == cap(b) {
			b = append(make([]byte, 0, min(n, 2*cap(b))), b...)
		}
		k, err := io.ReadFull(r, b[len(b):min(cap(b), n)])
		b = b[:len(b)+k]
		if err != nil {
			return b, err
		}
	}
	return b, nil
}

// records appends the records of a block.
func (r *RecordReader) records(dst []stream.Record, f *frame, payload []byte) ([]stream.Record, error) {
	if r.dec == nil {
		dec, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(uint64(r.maxRaw)))
		if err != nil {
			return dst, err
		}
		r.dec = dec
	}
	raw := r.raw
	if cap(raw) < int(f.raw) {
		raw = make([]byte, 0, f.raw)
	}
	if r.lent && cap(raw) <= 2*blockTarget {
		r.raw = raw
	}
	raw, err := r.dec.DecodeAll(payload, raw)
	if err != nil {
		return dst, fmt.Errorf("a block cannot be decompressed: %w", err)
	}
	if len(raw) != int(f.raw) {
		return dst, fmt.Errorf("a block has %d bytes, want %d", len(raw), f.raw)
	}
	in := fields{b: raw}
	for range f.count {
		rec, err := in.record(r.topic)
		if err != nil {
			return dst, err
		}
		dst = append(dst, rec)
	}
	if len(in.b) > 0 {
		return dst, fmt.Errorf("%d bytes follow the records of a block", len(in.b))
	}
	return dst, nil
}

// maxTopics bounds the number of cached topic names.
const maxTopics = 4096

// topic returns b as a string, the same one for the same topic.
func (r *RecordReader) topic(b []byte) string {
	if s, ok := r.topics[string(b)]; ok {
		return s
	}
	if len(r.topics) == maxTopics {
		clear(r.topics)
	}
	s := string(b)
	r.topics[s] = s
	return s
}

// Finished reports, after io.EOF, whether the recorded stream ended.
func (r *RecordReader) Finished() bool { return r.finished }

// Torn reports, after io.EOF, whether the recording has no trailer: its writer was
// interrupted or is still writing.
func (r *RecordReader) Torn() bool { return r.torn }

// Position returns the end of the last complete block that was read, in bytes from
// the start of the file.
func (r *RecordReader) Position() int64 { return r.pos }

// Close closes the file.
func (r *RecordReader) Close() error {
	if r.dec != nil {
		r.dec.Close()
	}
	if r.f == nil {
		return nil
	}
	return r.f.Close()
}
