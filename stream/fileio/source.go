// Package fileio reads streams from files and writes them to files: data files of
// examples, plain or compressed, and recordings of what was consumed from a queue,
// whose format docs/formats/recording.md describes.
//
// The API is stable.
package fileio

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"

	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/codec"
)

// stdin is the path that means standard input or output.
const stdin = "-"

// RecordingExt is the suffix of the names of recordings.
const RecordingExt = ".ssr"

// Options say how files are read. The zero value of each field selects its default.
type Options struct {
	// Codec is the format of data files, which determines where records end. The
	// default is given by the name of each file; standard input needs it.
	// Recordings ignore it.
	Codec string
	// Header says that the first record of each csv file has the names of its
	// columns and is not part of the stream. See Header.
	Header bool
	// OnHeader, if not nil, is called with that first record of each csv file,
	// before Fetch returns records of the file. An error ends the stream.
	OnHeader func(path string, header []byte) error
	// Start is the start position: records below these offsets are read and counted by
	// Skipped, but not delivered. Other partitions start at their first record.
	Start stream.Offsets
	// Limit is the number of records, counted over all files from their beginning,
	// after which a pass ends; 0 is no limit. Records before Start count, so that a
	// resumed run ends where an uninterrupted one does.
	Limit uint64
	// Passes is how often the sequence of files is read, default 1. Offsets
	// continue from pass to pass: in a data file of n records, record i of pass p,
	// both from 0, has offset p·n+i.
	Passes int

	limit int // of the length of a record in bytes, default 64 MiB; other in tests
}

// Source reads files one after the other, each to its end. It implements
// stream.Source and stream.Skipper.
//
// In a data file a record's topic is the base name of the file, "stdin" for standard
// input, its partition is 0, and its offset is its number in the file; in a recording
// all three come from the recorded record.
type Source struct {
	o       Options
	paths   []string
	pass    int
	file    int // index of the next file to open
	in      input
	count   uint64         // records read in this pass
	perPass uint64         // records in a pass, known after the first one
	end     stream.Offsets // past the first pass's records
	skipped atomic.Uint64
	size    int64         // of all files, in bytes; 0 if it is not known
	closed  int64         // size of the files of this pass that have been read
	total   atomic.Uint64 // see Total
	torn    []string
	sample  uint32
	lent    bool
	err     error
}

var (
	_ stream.Source  = (*Source)(nil)
	_ stream.Skipper = (*Source)(nil)
)

// input is one open file.
type input interface {
	// read appends at least one record, or returns an error.
	read(ctx context.Context, dst []stream.Record) ([]stream.Record, error)
	at() (int64, error) // bytes read so far
	lend()              // see Source.Lend
	Close() error
}

// Open returns a source of the records in the files at paths, where "-" is standard
// input. It opens no file; missing ones are reported by Fetch.
func Open(paths []string, o Options) (*Source, error) {
	if len(paths) == 0 {
		return nil, errors.New("fileio: no files to read")
	}
	if o.Passes == 0 {
		o.Passes = 1
	}
	if o.Passes < 1 {
		return nil, fmt.Errorf("fileio: Passes is %d, want at least 1", o.Passes)
	}
	o.limit = cmp.Or(o.limit, codec.MaxValueBytes)
	if o.Codec != "" {
		if _, err := newSplitter(o.Codec); err != nil {
			return nil, fmt.Errorf("fileio: %w", err)
		}
	}
	topics := make(map[string]string, len(paths))
	for _, path := range paths {
		if path == stdin && o.Passes > 1 {
			return nil, fmt.Errorf("fileio: standard input cannot be read %d times", o.Passes)
		}
		if isRecording(path) {
			continue
		}
		if _, err := o.codec(path); err != nil {
			return nil, err
		}
		topic := topicOf(path)
		if other, ok := topics[topic]; ok {
			return nil, fmt.Errorf("fileio: %s and %s would both be topic %q", other, path, topic)
		}
		topics[topic] = path
	}
	s := &Source{o: o, paths: paths, end: make(stream.Offsets)}
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil || !info.Mode().IsRegular() {
			s.size = 0
			break
		}
		s.size += info.Size()
	}
	return s, nil
}

func isRecording(path string) bool { return strings.EqualFold(filepath.Ext(path), RecordingExt) }

func topicOf(path string) string {
	if path == stdin {
		return "stdin"
	}
	return filepath.Base(path)
}

// codec returns the format of the data file at path.
func (o *Options) codec(path string) (string, error) {
	if o.Codec != "" {
		return o.Codec, nil
	}
	if path == stdin {
		return "", errors.New("fileio: the codec of standard input must be given")
	}
	name, ok := codec.ByFileName(path)
	if !ok {
		return "", fmt.Errorf("fileio: the name of %s does not say which codec it has: give one of %s",
			path, strings.Join(codec.Names(), ", "))
	}
	return name, nil
}

// Fetch implements stream.Source. After any error except ctx.Err() every further
// call returns the same error. If ctx ends while standard input is being opened,
// the source ends as well.
func (s *Source) Fetch(ctx context.Context, dst []stream.Record) ([]stream.Record, error) {
	n := len(dst)
	for {
		if s.err != nil {
			return dst, s.err
		}
		if err := ctx.Err(); err != nil {
			return dst, err
		}
		if s.in != nil && s.full() {
			s.file = len(s.paths)
			s.err = s.closeInput()
			continue
		}
		if s.in == nil {
			s.err = s.open(ctx)
			if err := ctx.Err(); err != nil && errors.Is(s.err, err) {
				s.err = err
			}
			continue
		}
		recs, err := s.in.read(ctx, dst)
		switch {
		case err == nil:
			dst, s.err = s.admit(recs, n)
			if s.estimate(); len(dst) > n {
				return dst, nil
			}
		case err == io.EOF:
			s.err = s.closeInput()
		case err == ctx.Err():
			return dst, err
		default:
			s.err = err
		}
	}
}

// open opens the next file, or returns io.EOF after the last.
func (s *Source) open(ctx context.Context) error {
	if s.file == len(s.paths) || s.full() {
		if s.pass == 0 {
			s.perPass = s.count
		} else if s.count != s.perPass {
			return fmt.Errorf("fileio: %d records in the first pass and %d in pass %d: a file has changed",
				s.perPass, s.count, s.pass+1)
		}
		s.pass++
		// Passes that lie before Start in every partition need not be read.
		for s.perPass > 0 && s.pass < s.o.Passes && s.before() {
			s.skipped.Add(s.perPass)
			s.pass++
		}
		if s.pass == s.o.Passes || s.perPass == 0 {
			s.pass = s.o.Passes - 1
			return io.EOF
		}
		s.file, s.count = 0, 0
	}
	path := s.paths[s.file]
	s.file++
	if isRecording(path) {
		r, err := OpenRecording(path)
		if err != nil {
			return err
		}
		r.bound(s.o.limit)
		if s.in = r; s.file == 1 {
			s.sample = r.Sample()
		}
	} else {
		in, err := openData(ctx, path, &s.o)
		if err != nil {
			return err
		}
		s.in = in
	}
	if s.lent {
		s.in.lend()
	}
	return nil
}

// Lend says that from now on the bytes of records are needed only until the next call of
// Fetch, so that their memory can be reused.
func (s *Source) Lend() {
	s.lent = true
	if s.in != nil {
		s.in.lend()
	}
}

// full reports whether the pass has reached Limit.
func (s *Source) full() bool { return s.o.Limit > 0 && s.count == s.o.Limit }

// before reports whether all of the current pass lies before Start.
func (s *Source) before() bool {
	for p, n := range s.end {
		if s.o.Start[p] < int64(s.pass+1)*n {
			return false
		}
	}
	return true
}

// estimate updates the total.
func (s *Source) estimate() {
	n := s.perPass
	if at, err := s.in.at(); s.pass == 0 && err == nil && s.size > 0 {
		n = uint64(float64(s.count) * float64(s.size) / float64(max(s.closed+at, 1)))
	}
	if s.o.Limit > 0 && n > 0 {
		n = min(n, s.o.Limit)
	}
	s.total.Store(n * uint64(s.o.Passes))
}

// Total returns the number of records in all passes, estimated from the bytes read so far;
// 0 if it is unknown, as for standard input. It may be called from any goroutine.
func (s *Source) Total() uint64 { return s.total.Load() }

func (s *Source) closeInput() error {
	in := s.in
	if at, err := in.at(); err == nil {
		s.closed += at
	}
	s.in = nil
	if r, ok := in.(*RecordReader); ok && r.Torn() {
		s.torn = append(s.torn, r.path)
	}
	return in.Close()
}

// admit sets the offsets of the records from position n on for the present pass,
// and drops those before Start and beyond Limit.
func (s *Source) admit(recs []stream.Record, n int) ([]stream.Record, error) {
	kept := n
	var p stream.Partition
	var end, start int64 // of p
	begun := false
	for k := n; k < len(recs); k++ {
		if s.full() {
			break
		}
		rec := &recs[k]
		// Records come in runs of one partition, so that the maps are rarely
		// accessed.
		if !begun || rec.Partition != p.ID || rec.Topic != p.Topic {
			if begun && s.pass == 0 {
				s.end[p] = end
			}
			begun = true
			p = stream.Partition{Topic: rec.Topic, ID: rec.Partition}
			end, start = s.end[p], s.o.Start[p]
		}
		if s.pass == 0 {
			end = max(end, rec.Offset+1)
		} else if rec.Offset >= end {
			clear(recs[kept:])
			return recs[:kept], fmt.Errorf("fileio: %v has more records in pass %d than before: the file has changed", p, s.pass+1)
		} else {
			rec.Offset += int64(s.pass) * end
		}
		s.count++
		if rec.Offset < start {
			s.skipped.Add(1)
			continue
		}
		if kept < k {
			recs[kept] = *rec
		}
		kept++
	}
	if begun && s.pass == 0 {
		s.end[p] = end
	}
	clear(recs[kept:])
	return recs[:kept], nil
}

// Skipped implements stream.Skipper.
func (s *Source) Skipped() uint64 { return s.skipped.Load() }

// Torn returns the recordings read so far that end without a trailer, because their
// writer was interrupted or is still writing.
func (s *Source) Torn() []string { return s.torn }

// Sample returns RecordReader.Sample of the first file, once Fetch has opened it; 0 if it is
// not a recording.
func (s *Source) Sample() uint32 { return s.sample }

// Close implements stream.Source.
func (s *Source) Close() error {
	if s.err == nil {
		s.err = errors.New("fileio: the source is closed")
	}
	if s.in == nil {
		return nil
	}
	in := s.in
	s.in = nil
	return in.Close()
}
