package checkpoint

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/cespare/xxhash/v2"

	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/stream"
)

// Constants of docs/formats/checkpoint.md.
const (
	magic      = "\x89SSVM\r\n\x1a"
	endMark    = "SSVM.END"
	prefixLen  = 32
	trailerLen = 16
	maxHeader  = 64 << 20 // header and table together
	maxName    = 255
	chunk      = 1 << 20 // bytes between checks of the context
)

// fields describes the header.
func (h *Header) fields(f *state.Fields) {
	f.Uint64("epoch", &h.Epoch)
	f.Uint64("seq", &h.Seq)
	f.UnixMilli("created_ms", &h.Created)
	f.String("streamsvm", &h.StreamSVM)
	f.String("learner", &h.Learner)
	f.Uint64("examples", &h.Examples)
	f.Uint64("state_hash", &h.StateHash)
	f.Uint64("model_version", &h.ModelVersion)
	parts := h.Offsets.Partitions()
	f.List("offsets", len(parts), 26, func(n int) { parts = make([]stream.Partition, n) },
		func(f *state.Fields, i int) {
			p := &parts[i]
			id, offset := int64(p.ID), h.Offsets[*p]
			f.String("topic", &p.Topic)
			f.Int64("partition", &id)
			f.Int64("offset", &offset)
			if !f.Decoding() {
				return
			}
			if id != int64(int32(id)) {
				f.Fail("partition", fmt.Errorf("%d is not a partition", id))
			}
			p.ID = int32(id)
			if h.Offsets == nil {
				h.Offsets = stream.Offsets{}
			}
			h.Offsets[*p] = offset
		})
	f.List("meta", len(h.Meta), 12, func(n int) { h.Meta = make([][2]string, n) },
		func(f *state.Fields, i int) {
			f.String("key", &h.Meta[i][0])
			f.String("value", &h.Meta[i][1])
		})
}

// encodeHead returns everything before the data of the first section.
func encodeHead(s *Snapshot) ([]byte, error) {
	header, err := state.Append(nil, s.Header.fields)
	if err != nil {
		return nil, err
	}
	var table []byte
	seen := map[string]bool{}
	for i := range s.Sections {
		sec := &s.Sections[i]
		if len(sec.Name) == 0 || len(sec.Name) > maxName || seen[sec.Name] {
			return nil, fmt.Errorf("section name %q is empty, longer than %d bytes or used twice", sec.Name, maxName)
		}
		seen[sec.Name] = true
		table = append(table, byte(len(sec.Name)))
		table = append(table, sec.Name...)
		table = binary.LittleEndian.AppendUint64(table, uint64(len(sec.Data)))
		table = binary.LittleEndian.AppendUint64(table, xxhash.Sum64(sec.Data))
	}
	if len(header)+len(table) > maxHeader {
		return nil, fmt.Errorf("header of %d bytes exceeds %d", len(header)+len(table), maxHeader)
	}
	// The prefix has two checksums. The first covers magic and version only, whose
	// place never changes, so that a file in a newer format is recognised as such;
	// the second covers the lengths, so that they can be trusted before anything is
	// allocated.
	head := append(make([]byte, 0, prefixLen+len(header)+len(table)+8), magic...)
	head = binary.LittleEndian.AppendUint32(head, Format)
	head = binary.LittleEndian.AppendUint32(head, uint32(xxhash.Sum64(head)))
	head = binary.LittleEndian.AppendUint32(head, uint32(len(header)))
	head = binary.LittleEndian.AppendUint32(head, uint32(len(table)))
	head = binary.LittleEndian.AppendUint64(head, xxhash.Sum64(head))
	head = append(append(head, header...), table...)
	return binary.LittleEndian.AppendUint64(head, xxhash.Sum64(head[prefixLen:])), nil
}

// write writes s to w and returns the number of bytes written. It checks ctx from
// time to time, since a snapshot can have gigabytes.
func write(ctx context.Context, w io.Writer, s *Snapshot) (int64, error) {
	head, err := encodeHead(s)
	if err != nil {
		return 0, err
	}
	sum := xxhash.New()
	var total int64
	put := func(b []byte) error {
		for len(b) > 0 {
			if err := ctx.Err(); err != nil {
				return err
			}
			n, err := w.Write(b[:min(len(b), chunk)])
			total += int64(n)
			if err != nil {
				return err
			}
			sum.Write(b[:n])
			b = b[n:]
		}
		return nil
	}
	if err := put(head); err != nil {
		return total, err
	}
	for i := range s.Sections {
		if err := put(s.Sections[i].Data); err != nil {
			return total, err
		}
	}
	// The mark and a checksum over the whole file come last: a file that ends early
	// cannot have them.
	if err := put([]byte(endMark)); err != nil {
		return total, err
	}
	return total, put(binary.LittleEndian.AppendUint64(nil, sum.Sum64()))
}

// AppendBinary appends the bytes of a file with s. The header is stored as it is,
// except for Format.
func (s *Snapshot) AppendBinary(dst []byte) ([]byte, error) {
	n := 1 << 10
	for i := range s.Sections {
		n += len(s.Sections[i].Data)
	}
	b := bytes.NewBuffer(slices.Grow(dst, n))
	_, err := write(context.Background(), b, s)
	return b.Bytes(), err
}

// Decode decodes what AppendBinary wrote. Its errors are [*Error] with path as
// their Path.
func Decode(path string, data []byte) (*Snapshot, error) {
	return read(path, bytes.NewReader(data), int64(len(data)))
}

// entry is a row of the section table.
type entry struct {
	name string
	size uint64
	hash uint64
}

// reader reads a file of known size and hashes everything that it reads.
type reader struct {
	path string
	r    io.Reader
	size int64 // of the file
	pos  int64
	sum  *xxhash.Digest
}

func (r *reader) fail(part string, reason error, format string, args ...any) error {
	if format != "" {
		reason = fmt.Errorf("%w: %s", reason, fmt.Sprintf(format, args...))
	}
	return &Error{Path: r.path, Part: part, Err: reason}
}

// fill reads len(b) bytes, which must not extend beyond the size of the file.
func (r *reader) fill(part string, b []byte) error {
	n, err := io.ReadFull(r.r, b)
	r.pos += int64(n)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return r.fail(part, ErrTruncated, "the file became shorter while it was read")
	}
	if err != nil {
		return r.fail(part, ErrRead, "%v", err)
	}
	r.sum.Write(b)
	return nil
}

func (r *reader) left() int64 { return r.size - r.pos }

// head reads and verifies everything before the data of the first section. If only
// the length of the file is wrong, it returns header and table as well as the
// error.
func (r *reader) head() (h Header, table []entry, err error) {
	prefix := make([]byte, min(prefixLen, r.left()))
	if err = r.fill("prefix", prefix); err != nil {
		return h, nil, err
	}
	// Magic and version come first in every version of the format, so that a newer
	// file is not mistaken for a damaged one.
	if n := min(len(magic), len(prefix)); string(prefix[:n]) != magic[:n] {
		return h, nil, r.fail("prefix", ErrMagic, "")
	}
	if len(prefix) < 16 {
		return h, nil, r.fail("prefix", ErrTruncated, "%d bytes", r.size)
	}
	if binary.LittleEndian.Uint32(prefix[12:]) != uint32(xxhash.Sum64(prefix[:12])) {
		return h, nil, r.fail("prefix", ErrChecksum, "")
	}
	h.Format = binary.LittleEndian.Uint32(prefix[8:])
	switch {
	case h.Format > Format:
		return h, nil, r.fail("prefix", ErrVersion, "format %d, this program reads up to %d", h.Format, Format)
	case h.Format == 0:
		return h, nil, r.fail("prefix", ErrCorrupt, "format 0")
	case len(prefix) < prefixLen:
		return h, nil, r.fail("prefix", ErrTruncated, "%d bytes", r.size)
	case binary.LittleEndian.Uint64(prefix[24:]) != xxhash.Sum64(prefix[:24]):
		return h, nil, r.fail("prefix", ErrChecksum, "")
	}
	headerLen := int64(binary.LittleEndian.Uint32(prefix[16:]))
	tableLen := int64(binary.LittleEndian.Uint32(prefix[20:]))
	if headerLen+tableLen > maxHeader {
		return h, nil, r.fail("prefix", ErrCorrupt, "header of %d bytes exceeds %d", headerLen+tableLen, maxHeader)
	}
	if headerLen+tableLen+8 > r.left() {
		return h, nil, r.fail("header", ErrTruncated, "%d bytes, %d are left", headerLen+tableLen+8, r.left())
	}
	body := make([]byte, headerLen+tableLen+8)
	if err = r.fill("header", body); err != nil {
		return h, nil, err
	}
	body, check := body[:headerLen+tableLen], body[headerLen+tableLen:]
	if binary.LittleEndian.Uint64(check) != xxhash.Sum64(body) {
		return h, nil, r.fail("header", ErrChecksum, "")
	}
	if err = state.Decode(body[:headerLen], h.fields); err != nil {
		return h, nil, r.fail("header", ErrCorrupt, "%v", err)
	}
	table, err = decodeTable(body[headerLen:])
	if err != nil {
		return h, nil, r.fail("section table", ErrCorrupt, "%v", err)
	}
	// One comparison validates all lengths: no section can extend beyond the end.
	need := uint64(trailerLen)
	for _, e := range table {
		if e.size > math.MaxInt/2 || need > math.MaxInt/2 {
			return h, nil, r.fail("section table", ErrCorrupt, "section %q of %d bytes", e.name, e.size)
		}
		need += e.size
	}
	switch left := uint64(r.left()); {
	case left < need:
		return h, table, r.fail("file", ErrTruncated, "%d bytes of %d", r.size, uint64(r.pos)+need)
	case left > need:
		return h, table, r.fail("file", ErrCorrupt, "%d bytes after the end", left-need)
	}
	return h, table, nil
}

func decodeTable(b []byte) ([]entry, error) {
	var table []entry
	seen := map[string]bool{}
	for len(b) > 0 {
		n := int(b[0])
		if n == 0 || len(b) < 1+n+16 {
			return nil, fmt.Errorf("entry %d is cut off", len(table))
		}
		e := entry{
			name: string(b[1 : 1+n]),
			size: binary.LittleEndian.Uint64(b[1+n:]),
			hash: binary.LittleEndian.Uint64(b[1+n+8:]),
		}
		if seen[e.name] {
			return nil, fmt.Errorf("section %q occurs twice", e.name)
		}
		seen[e.name] = true
		table = append(table, e)
		b = b[1+n+16:]
	}
	return table, nil
}

// trailer reads and verifies the bytes after the data of the last section.
func (r *reader) trailer() error {
	var b [trailerLen]byte
	if err := r.fill("trailer", b[:8]); err != nil {
		return err
	}
	want := r.sum.Sum64()
	if err := r.fill("trailer", b[8:]); err != nil {
		return err
	}
	if string(b[:8]) != endMark || binary.LittleEndian.Uint64(b[8:]) != want {
		return r.fail("trailer", ErrChecksum, "")
	}
	return nil
}

// read reads a complete snapshot from src, which has size bytes. Its errors are
// *Error.
func read(path string, src io.Reader, size int64) (*Snapshot, error) {
	r := &reader{path: path, r: src, size: size, sum: xxhash.New()}
	h, table, err := r.head()
	if err != nil {
		return nil, err
	}
	s := &Snapshot{Header: h, Bytes: size}
	for _, e := range table {
		part := fmt.Sprintf("section %q", e.name)
		data := make([]byte, e.size)
		if err := r.fill(part, data); err != nil {
			return nil, err
		}
		if xxhash.Sum64(data) != e.hash {
			return nil, r.fail(part, ErrChecksum, "")
		}
		s.Sections = append(s.Sections, Section{Name: e.name, Data: data})
	}
	if err := r.trailer(); err != nil {
		return nil, err
	}
	return s, nil
}
