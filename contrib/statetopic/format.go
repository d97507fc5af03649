package statetopic

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/topiclog"
)

// Records, keys and their order are described in docs/formats/state-topic.md.
const (
	formatVersion = 1

	slots = 2

	// maxPacked bounds a compressed snapshot, maxRaw an uncompressed one: a larger one
	// takes longer to write than a transaction may last.
	maxPacked = 256 << 20
	maxRaw    = 2 << 30
)

// claimFields describes a claim, whose Owner is the identity of the state: the same in
// all its claims.
func claimFields(c *topiclog.Claim) func(*state.Fields) {
	return func(f *state.Fields) {
		format(f)
		f.Uint64("epoch", &c.Epoch)
		f.String("token", &c.Token)
		f.String("id", &c.Owner)
		f.String("writer", &c.Writer)
		f.String("by", &c.By)
		f.UnixMilli("created_ms", &c.At)
	}
}

// head describes the snapshot in a slot.
type head struct {
	epoch, seq uint64
	examples   uint64
	size, hash uint64 // of the checkpoint file
	packed     uint64 // bytes in all chunks
	chunks     uint64
	at         time.Time
}

func (h *head) fields(f *state.Fields) {
	format(f)
	f.Uint64("epoch", &h.epoch)
	f.Uint64("seq", &h.seq)
	f.Uint64("examples", &h.examples)
	f.UnixMilli("created_ms", &h.at)
	f.Uint64("size", &h.size)
	f.Uint64("hash", &h.hash)
	f.Uint64("packed", &h.packed)
	f.Uint64("chunks", &h.chunks)
}

// check returns an error if no chunks could match the head.
func (h *head) check() error {
	switch {
	case h.seq == 0 || h.epoch == 0:
		return fmt.Errorf("seq: number %d of epoch %d", h.seq, h.epoch)
	case h.size > maxRaw || h.packed > maxPacked || h.chunks == 0 || h.chunks > h.packed:
		return fmt.Errorf("size: %d bytes, packed %d in %d chunks", h.size, h.packed, h.chunks)
	}
	return nil
}

// versionError says that a record was written in a format newer than this one.
type versionError uint64

func (e versionError) Error() string { return fmt.Sprintf("version %d is not known here", uint64(e)) }

func format(f *state.Fields) {
	v := uint64(formatVersion)
	f.Uint64("format", &v)
	if f.Decoding() && f.Err() == nil && v != formatVersion {
		f.Fail("format", versionError(v))
	}
}

func claimKey(name string) string              { return name + "/claim" }
func headKey(name string, slot int) string     { return fmt.Sprintf("%s/head/%d", name, slot) }
func chunkKey(name string, slot, i int) string { return chunkPrefix(name, slot) + strconv.Itoa(i) }

func chunkPrefix(name string, slot int) string { return fmt.Sprintf("%s/c/%d/", name, slot) }

// kind of a record, by its key.
type kind int

const (
	foreign kind = iota // of another state, or not a record of this format
	isClaim
	isHead
	isChunk
)

// parseKey returns the meaning of a key in the state called name.
func parseKey(key []byte, name string) (k kind, slot, i int) {
	rest, ok := strings.CutPrefix(string(key), name+"/")
	if !ok {
		return foreign, 0, 0
	}
	number := func(s string, below int) (int, bool) {
		n, err := strconv.Atoi(s)
		return n, err == nil && n >= 0 && n < below && strconv.Itoa(n) == s
	}
	part := strings.Split(rest, "/")
	switch {
	case rest == "claim":
		return isClaim, 0, 0
	case len(part) == 2 && part[0] == "head":
		if slot, ok = number(part[1], slots); ok {
			return isHead, slot, 0
		}
	case len(part) == 3 && part[0] == "c":
		var ok2 bool
		slot, ok = number(part[1], slots)
		if i, ok2 = number(part[2], maxPacked); ok && ok2 {
			return isChunk, slot, i
		}
	}
	return foreign, 0, 0
}
