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
)

// contents is what a topic holds of one state, as far as it has been read.
type contents struct {
	topic, name string
	// keep says that the chunks are wanted, and not only how many there are.
	keep  bool
	claim claim
	slot  [slots]held
	bad   error // a claim that cannot be read
}

// held is what a slot holds.
type held struct {
	head  *head
	bad   error          // the newest head cannot be read
	at    int64          // offset of the newest head
	parts map[int][]byte // chunks; empty ones if they are not kept
}

// note takes note of a record.
func (c *contents) note(r *stream.Record) {
	k, slot, i := parseKey(r.Key, c.name)
	h := &c.slot[slot]
	switch k {
	case isClaim:
		var n claim
		if r.Value == nil { // somebody has removed it
			c.claim, c.bad = n, nil
			return
		}
		if err := state.Decode(r.Value, n.fields); err != nil {
			c.bad = c.fail(fmt.Sprintf("claim at offset %d", r.Offset), err)
			return
		}
		c.claim, c.bad = n, nil
	case isHead:
		n := new(head)
		h.at, h.head, h.bad = r.Offset, nil, nil
		if r.Value == nil {
			return
		}
		err := state.Decode(r.Value, n.fields)
		if err == nil {
			err = n.check()
		}
		if err != nil {
			h.bad = c.fail(fmt.Sprintf("head at offset %d", r.Offset), err)
			return
		}
		h.head = n
	case isChunk:
		if h.parts == nil {
			h.parts = map[int][]byte{}
		}
		switch {
		case r.Value == nil:
			delete(h.parts, i)
		case c.keep:
			h.parts[i] = r.Value
		default:
			h.parts[i] = nil
		}
	}
}

// chunks is 1 more than the largest number of a chunk that is there.
func (h *held) chunks() (n int) {
	for i := range h.parts {
		n = max(n, i+1)
	}
	return n
}

// place is kafka://TOPIC/NAME/SLOT.
func (c *contents) place(slot int) string { return fmt.Sprintf("%s/%s/%d", URL(c.topic), c.name, slot) }

// path names a part of the topic in errors.
func (c *contents) path() string { return URL(c.topic) + " partition 0, " + c.name }

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

// order returns the slots that hold something, the one with the newest snapshot
// first; one whose head cannot be read counts as new.
func (c *contents) order() []int {
	var out []int
	for i := range c.slot {
		if h := &c.slot[i]; h.head != nil || h.bad != nil {
			out = append(out, i)
		}
	}
	slices.SortStableFunc(out, func(a, b int) int { return cmp.Compare(c.slot[b].rank(), c.slot[a].rank()) })
	return out
}

func (h *held) rank() uint64 {
	if h.head == nil {
		return ^uint64(0)
	}
	return h.head.seq
}

// read puts the snapshot of a slot together.
func (c *contents) read(slot int) (*checkpoint.Snapshot, error) {
	h := &c.slot[slot]
	if h.bad != nil {
		return nil, h.bad
	}
	n := h.head
	part := fmt.Sprintf("snapshot %d in slot %d, its head at offset %d", n.seq, slot, h.at)
	fail := func(reason error, format string, args ...any) error {
		return &checkpoint.Error{Path: c.path(), Part: part, Err: fmt.Errorf("%w: %s", reason, fmt.Sprintf(format, args...))}
	}
	var packed []byte
	for i := range int(n.chunks) {
		chunk, ok := h.parts[i]
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
