// Package checkpoint stores snapshots of a training run in a directory, one file
// each, written atomically, checksummed and versioned, so that a restart continues
// exactly where a snapshot was taken.
//
// A [Store] is a directory. [Store.Claim] makes the caller its only writer and
// fences off earlier ones; [Store.Load] returns the newest valid snapshot;
// [Store.Save] adds one. After a crash at any instant the directory holds either
// the snapshots from before the interrupted Save, or those and the new one.
// docs/formats/checkpoint.md describes the file byte by byte.
//
// The API is stable.
package checkpoint

import (
	"errors"
	"fmt"
	"time"

	"github.com/streamsvm/streamsvm/stream"
)

// Format is the newest version of the file format that this package reads. It
// writes the same one.
const Format = 1

// Header describes a snapshot. It can be read without the sections.
type Header struct {
	// Format is the file's format version. Save and Load set it.
	Format uint32
	// Epoch is the fencing epoch under which the snapshot was written. Seq is its
	// number in the directory, counted over all epochs. Save sets both.
	Epoch, Seq uint64
	// Created has millisecond precision, in UTC. Save sets it if it is zero.
	Created time.Time
	// StreamSVM is the version of the program that wrote the snapshot.
	StreamSVM string
	// Learner is the registered name of the algorithm.
	Learner string
	// Examples is the number of examples consumed.
	Examples uint64
	// Offsets are the positions at which the stream continues.
	Offsets stream.Offsets
	// StateHash is the xxh64 of the complete encoded state: of the concatenated
	// data of the sections that the state consists of.
	StateHash uint64
	// ModelVersion is the version of the newest published model.
	ModelVersion uint64
	// Meta holds further (name, value) pairs in a fixed order, such as the CPU
	// features of the writer. It must not hold secrets.
	Meta [][2]string
}

// Section is a named part of the state.
type Section struct {
	// Name is 1 to 255 bytes long and unique in its snapshot.
	Name string
	Data []byte
}

// Snapshot is one unit of state: everything a restart needs.
type Snapshot struct {
	Header   Header
	Sections []Section
	// Bytes is the size of the file. Save and Load set it.
	Bytes int64
}

// Section returns the data of the section called name.
func (s *Snapshot) Section(name string) ([]byte, bool) {
	for i := range s.Sections {
		if s.Sections[i].Name == name {
			return s.Sections[i].Data, true
		}
	}
	return nil, false
}

// Reasons why a file is not a readable snapshot. An [*Error] wraps one of them.
var (
	// ErrMagic: the file does not start like a snapshot.
	ErrMagic = errors.New("not a streamsvm checkpoint")
	// ErrVersion: the file was written in a format newer than Format.
	ErrVersion = errors.New("written in a newer format")
	// ErrTruncated: the file is shorter than its header says.
	ErrTruncated = errors.New("truncated")
	// ErrChecksum: bytes have changed since they were written.
	ErrChecksum = errors.New("checksum mismatch")
	// ErrCorrupt: the checksums match but the content makes no sense.
	ErrCorrupt = errors.New("corrupt")
	// ErrRead: the operating system could not read the file.
	ErrRead = errors.New("cannot be read")
)

// Reasons why a Store refuses to continue.
var (
	// ErrFenced: another writer has claimed the directory in the meantime.
	ErrFenced = errors.New("checkpoint: another process has claimed the directory; this one must stop")
	// ErrNotClaimed: Save was called before Claim.
	ErrNotClaimed = errors.New("checkpoint: the directory has not been claimed")
	// ErrNoValid: the directory has snapshots but none of them can be read.
	ErrNoValid = errors.New("checkpoint: no valid snapshot")
	// ErrLocked: another process held the directory's lock for too long.
	ErrLocked = errors.New("checkpoint: the directory is locked by another process")
)

// Error says why and where a file is not a valid snapshot.
type Error struct {
	Path string
	Part string // "prefix", "header", "section \"model\"", "trailer", "file"
	Err  error
}

func (e *Error) Error() string { return fmt.Sprintf("checkpoint %s: %s: %v", e.Path, e.Part, e.Err) }

func (e *Error) Unwrap() error { return e.Err }
