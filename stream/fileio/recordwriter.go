package fileio

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/klauspost/compress/zstd"

	"github.com/streamsvm/streamsvm/stream"
)

// RecordWriter writes a recording. It is used by one goroutine at a time. After a
// failed write every further call fails, because it is unknown what the file
// contains beyond the position returned by the last Sync.
type RecordWriter struct {
	path  string
	f     *os.File
	enc   *zstd.Encoder
	chain uint64
	pos   int64  // end of the last frame
	raw   []byte // records of the next block
	count uint32
	out   []byte
	err   error
}

// ErrLocked means that another process, or another RecordWriter, is writing the recording.
var ErrLocked = errors.New("another process is writing it")

// CreateRecording creates a recording at path. An existing file must be a recording
// without records, as left by a writer that was killed before it wrote one.
func CreateRecording(path string) (*RecordWriter, error) {
	w, err := openRecordWriter(path, os.O_CREATE)
	if err != nil {
		return nil, err
	}
	h := appendHeader(nil, 0)
	w.chain = binary.LittleEndian.Uint64(h[16:])
	if err := w.create(h); err != nil {
		w.f.Close()
		return nil, err
	}
	return w, nil
}

func (w *RecordWriter) create(header []byte) error {
	if !holdsNothing(w.path) {
		return fmt.Errorf("fileio: %w", &os.PathError{Op: "create", Path: w.path, Err: os.ErrExist})
	}
	if err := w.f.Truncate(0); err != nil {
		return fmt.Errorf("fileio: %w", err)
	}
	if err := w.write(header); err != nil {
		return err
	}
	// The file's name must be as durable as the data that Sync has written.
	if err := syncDir(filepath.Dir(w.path)); err != nil {
		return fmt.Errorf("fileio: %w", err)
	}
	return nil
}

func holdsNothing(path string) bool {
	r, err := OpenRecording(path)
	if err != nil {
		return false
	}
	defer r.Close()
	_, err = r.Next(nil)
	return err == io.EOF
}

// Reopen truncates the recording at path to pos, which a Sync returned, and
// continues writing there. The frames up to pos must exist. The last one is
// verified completely; for the others only the headers are, which are chained to
// it.
func Reopen(path string, pos int64) (*RecordWriter, error) {
	w, err := openRecordWriter(path, 0)
	if err != nil {
		return nil, err
	}
	if err := w.resume(pos); err != nil {
		w.f.Close()
		return nil, fmt.Errorf("fileio: %s cannot be continued at byte %d: %w", path, pos, err)
	}
	return w, nil
}

// openRecordWriter opens the file and locks it, if the system has such locks: a
// writer that hung and was replaced would otherwise write into its successor's
// file. The lock ends with the process.
func openRecordWriter(path string, flag int) (*RecordWriter, error) {
	f, err := os.OpenFile(path, os.O_RDWR|flag, 0o666)
	if err != nil {
		return nil, fmt.Errorf("fileio: %w", err)
	}
	if err := lock(f); err != nil {
		f.Close()
		return nil, fmt.Errorf("fileio: %s: %w", path, err)
	}
	w, err := newRecordWriter(path, f)
	if err != nil {
		f.Close()
	}
	return w, err
}

func newRecordWriter(path string, f *os.File) (*RecordWriter, error) {
	// The frame's own checksum makes zstd's redundant.
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(false))
	if err != nil {
		return nil, fmt.Errorf("fileio: %s: %w", path, err)
	}
	return &RecordWriter{path: path, f: f, enc: enc}, nil
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// resume follows the chain up to pos and positions the writer there.
func (w *RecordWriter) resume(pos int64) error {
	info, err := w.f.Stat()
	if err != nil {
		return err
	}
	if pos > info.Size() {
		return fmt.Errorf("it has only %d bytes", info.Size())
	}
	b := make([]byte, headerSize)
	if pos < headerSize {
		return errors.New("the position lies in the header")
	}
	if _, err := w.f.ReadAt(b, 0); err != nil {
		return err
	}
	if w.chain, err = checkHeader(b); err != nil {
		return err
	}
	at := int64(headerSize)
	for at < pos {
		if pos-at < frameSize {
			return errors.New("the position lies in a frame")
		}
		if _, err := w.f.ReadAt(b[:frameSize], at); err != nil {
			return err
		}
		f, err := parseFrame(b, w.chain)
		if err != nil {
			return fmt.Errorf("byte %d: %w", at, err)
		}
		next := at + frameSize + f.length()
		switch {
		case f.kind == kindTrailer:
			return errors.New("the position lies behind the trailer")
		case next > pos:
			return errors.New("the position lies in a frame")
		case next == pos:
			body := make([]byte, f.length())
			if _, err := w.f.ReadAt(body, at+frameSize); err != nil {
				return err
			}
			payload := body[:f.size]
			if binary.LittleEndian.Uint64(body[f.size:]) != payloadSum(f.chain, payload) {
				return fmt.Errorf("byte %d: a block is corrupt", at)
			}
		}
		w.chain = f.chain
		at = next
	}
	if err := w.f.Truncate(pos); err != nil {
		return err
	}
	if _, err := w.f.Seek(pos, io.SeekStart); err != nil {
		return err
	}
	w.pos = pos
	return w.f.Sync()
}

// SetSample records that the format of the records was inferred from the first n of them,
// so that a reader of the recording infers the same; 0 is the number that a
// codec.Discovery requests. It has no effect once a record has been written.
func (w *RecordWriter) SetSample(n uint32) error {
	if w.err != nil || w.pos > headerSize || w.count > 0 {
		return w.err
	}
	h := appendHeader(nil, n)
	if _, err := w.f.WriteAt(h, 0); err != nil {
		w.err = fmt.Errorf("fileio: %s: %w", w.path, err)
	}
	w.chain = binary.LittleEndian.Uint64(h[16:])
	return w.err
}

// Write adds a record, which may stay in memory until the next Sync or Close.
func (w *RecordWriter) Write(rec *stream.Record) error {
	if w.err != nil {
		return w.err
	}
	n := len(w.raw)
	w.raw = appendRecord(w.raw, rec)
	if len(w.raw) > maxRaw {
		w.raw = w.raw[:n]
		return fmt.Errorf("fileio: %s: %s/%d offset %d: the record is too large for a recording",
			w.path, rec.Topic, rec.Partition, rec.Offset)
	}
	w.count++
	if len(w.raw) >= blockTarget {
		return w.flush()
	}
	return nil
}

// maxRaw keeps the lengths of a block within 32 bits.
const maxRaw = 1 << 30

// flush writes the current block.
func (w *RecordWriter) flush() error {
	if w.count == 0 {
		return nil
	}
	// The payload is compressed after a gap for the header, which needs its length.
	out := append(w.out[:0], make([]byte, frameSize)...)
	out = w.enc.EncodeAll(w.raw, out)
	f := frame{kind: kindBlock, size: uint32(len(out) - frameSize), raw: uint32(len(w.raw)), count: w.count}
	f.append(out[:0], w.chain)
	out = binary.LittleEndian.AppendUint64(out, payloadSum(f.chain, out[frameSize:]))
	w.out = out
	if err := w.write(out); err != nil {
		return err
	}
	w.chain = f.chain
	w.raw, w.count = w.raw[:0], 0
	return nil
}

func (w *RecordWriter) write(b []byte) error {
	n, err := w.f.Write(b)
	w.pos += int64(n)
	if err != nil {
		w.err = fmt.Errorf("fileio: %s: %w", w.path, err)
	}
	return w.err
}

// Sync makes all records written so far durable and returns the length of the
// recording, with which Reopen can continue after a crash.
func (w *RecordWriter) Sync() (int64, error) {
	if w.err != nil {
		return 0, w.err
	}
	if err := w.flush(); err != nil {
		return 0, err
	}
	if err := w.f.Sync(); err != nil {
		w.err = fmt.Errorf("fileio: %s: %w", w.path, err)
		return 0, w.err
	}
	return w.pos, nil
}

// Close writes the trailer, which says whether the stream ended or was only
// stopped, makes everything durable and closes the file.
func (w *RecordWriter) Close(finished bool) error {
	if w.f == nil {
		return nil
	}
	err := w.err
	if err == nil {
		err = w.flush()
	}
	if err == nil {
		f := frame{kind: kindTrailer}
		if finished {
			f.flags = 1
		}
		if err = w.write(f.append(nil, w.chain)); err == nil {
			err = w.f.Sync()
		}
	}
	err = errors.Join(err, w.f.Close(), w.enc.Close())
	w.f = nil
	if w.err == nil {
		w.err = fmt.Errorf("fileio: %s: the recording is closed", w.path)
	}
	return err
}
