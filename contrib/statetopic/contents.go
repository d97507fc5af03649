package statetopic

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/cespare/xxhash/v2"
	"github.com/klauspost/compress/zstd"

	"github.com/streamsvm/streamsvm/checkpoint"
	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/topiclog"
)

// contents is the content of a topic for one state, as far as it has been read.
type contents struct {
	topic, name string
	// keep says whether to keep chunks, from which a snapshot is read.
	keep  bool
	claim topiclog.Claim
	slot  [slots]slot
	bad   error // why the newest claim cannot be read
}

// slot is one of the places that snapshots use in turn.
type slot struct {
	head   *head
	bad    error          // why the newest head cannot be read
	at     int64          // offset of the newest head
	chunks map[int][]byte // none if they are not kept
}

// fold processes a record and returns its kind.
func (c *contents) fold(r *stream.Record) kind {
	k, slot, i := parseKey(r.Key, c.name)
	s := &c.slot[slot]
	switch k {
	case isClaim:
		var n topiclog.Claim // zero if the claim has been deleted
		if r.Value != nil {
			if err := state.Decode(r.Value, claimFields(&n)); err != nil {
				c.bad = c.fail(fmt.Sprintf("claim at offset %d", r.Offset), err)
				return k
			}
		}
		c.claim, c.bad = n, nil
	case isHead:
		n := new(head)
		s.at, s.head, s.bad = r.Offset, nil, nil
		if r.Value == nil {
			return k
		}
		err := state.Decode(r.Value, n.fields)
		if err == nil {
			err = n.check()
		}
		if err != nil {
			s.bad = c.fail(fmt.Sprintf("head at offset %d", r.Offset), err)
			return k
		}
		s.head = n
	case isChunk:
		if s.chunks == nil {
			s.chunks = map[int][]byte{}
		}
		if r.Value == nil {
			delete(s.chunks, i)
		} else if c.keep {
			s.chunks[i] = r.Value
		}
	}
	return k
}

// place is kafka://TOPIC/NAME/SLOT.
func (c *contents) place(slot int) string {
	return fmt.Sprintf("%s/%s/%d", topiclog.StateURL(c.topic), c.name, slot)
}

// path names a part of the topic in errors.
func (c *contents) path() string { return topiclog.StateURL(c.topic) + " partition 0, " + c.name }

func (c *contents) fail(part string, err error) error {
	reason := checkpoint.ErrCorrupt
	if v := versionError(0); errors.As(err, &v) {
		reason = checkpoint.ErrVersion
	}
	return &checkpoint.Error{Path: c.path(), Part: part, Err: fmt.Errorf("%w: %w", reason, err)}
}

var unpack = func() *zstd.Decoder {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxRaw))
	if err != nil {
		panic(err) // the options are constants
	}
	return d
}()

// order returns the slots in use, the one with the newest snapshot first; a slot whose
// head cannot be read counts as newest.
func (c *contents) order() []int {
	var out []int
	for i := range c.slot {
		if s := &c.slot[i]; s.head != nil || s.bad != nil {
			out = append(out, i)
		}
	}
	slices.SortStableFunc(out, func(a, b int) int { return cmp.Compare(c.slot[b].rank(), c.slot[a].rank()) })
	return out
}

func (s *slot) rank() uint64 {
	if s.head == nil {
		return ^uint64(0)
	}
	return s.head.seq
}

// read assembles the snapshot of a slot.
func (c *contents) read(slot int) (*checkpoint.Snapshot, error) {
	s := &c.slot[slot]
	if s.bad != nil {
		return nil, s.bad
	}
	n := s.head
	part := fmt.Sprintf("snapshot %d in slot %d, its head at offset %d", n.seq, slot, s.at)
	fail := func(reason error, format string, args ...any) error {
		return &checkpoint.Error{Path: c.path(), Part: part, Err: fmt.Errorf("%w: %s", reason, fmt.Sprintf(format, args...))}
	}
	var packed []byte
	for i := range int(n.chunks) {
		chunk, ok := s.chunks[i]
		if !ok {
			return nil, fail(checkpoint.ErrTruncated, "chunk %d of %d is missing", i, n.chunks)
		}
		packed = append(packed, chunk...)
	}
	if uint64(len(packed)) != n.packed {
		return nil, fail(checkpoint.ErrChecksum, "the chunks have %d bytes, not %d", len(packed), n.packed)
	}
	raw, err := unpack.DecodeAll(packed, make([]byte, 0, min(n.size, 64*n.packed)))
	if err != nil {
		return nil, fail(checkpoint.ErrChecksum, "%v", err)
	}
	if sum := xxhash.Sum64(raw); sum != n.hash {
		return nil, fail(checkpoint.ErrChecksum, "xxh64 %016x, not %016x", sum, n.hash)
	}
	snap, err := checkpoint.Decode(c.path()+", "+part, raw)
	if err == nil {
		snap.Bytes = int64(n.packed)
	}
	return snap, err
}
