package modeltopic

import (
	"errors"
	"fmt"
	"strings"

	"github.com/cespare/xxhash/v2"
	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/stream"
)

// Records, keys and their order are described in docs/formats/model-topic.md.
const (
	formatVersion = 1

	headerType    = "content-type"
	contentType   = "application/vnd.streamsvm.update+msgpack"
	headerVersion = "format-version"

	// maxPayload bounds the payload of an update, before and after a delta is applied, in
	// bytes. A reader may need up to five times as much while it assembles updates.
	maxPayload = 1 << 30

	// claim is the kind of a record that is not an update: it names the process that
	// writes the model from then on.
	claim stream.UpdateKind = "claim"
)

// envelope is the value of one record of the model topic.
type envelope struct {
	stream.Update        // Payload is not used here
	size          uint64 // bytes of the whole payload, over all chunks
	chunk, chunks uint64 // index of this chunk from 0, and the number of chunks
	chunkHash     uint64 // xxh64 of data
	data          []byte // this chunk's piece of the payload

	// Of a claim: the identity of the checkpoints, empty if the claim has been given
	// up, and a description of the process for people.
	owner, by string
}

func (e *envelope) fields(f *state.Fields) {
	e.about(f)
	if e.Kind == claim {
		return
	}
	f.Uint64("chunk", &e.chunk)
	f.Uint64("chunks", &e.chunks)
	f.Uint64("chunk_hash", &e.chunkHash)
	f.Bytes("data", &e.data)
}

// about describes the fields that all chunks of an update share, and all fields of
// a claim.
func (e *envelope) about(f *state.Fields) {
	format := uint64(formatVersion)
	f.Uint64("format", &format)
	if f.Decoding() && f.Err() == nil && format != formatVersion {
		f.Fail("format", fmt.Errorf("version %d is not known here", format))
		return
	}
	kind := string(e.Kind)
	f.String("kind", &kind)
	e.Kind = stream.UpdateKind(kind)
	f.String("model", &e.Model)
	if e.Kind == claim {
		f.Uint64("epoch", &e.Epoch)
		f.String("owner", &e.owner)
		f.String("by", &e.by)
		f.UnixMilli("created_ms", &e.Created)
		return
	}
	f.String("learner", &e.Learner)
	f.Uint64("version", &e.Version)
	f.Uint64("base", &e.Base)
	f.Uint64("epoch", &e.Epoch)
	f.Uint64("step", &e.Step)
	f.Uint64("examples", &e.Examples)
	ps := e.Offsets.Partitions()
	f.List("offsets", len(ps), 3, func(n int) {
		ps = make([]stream.Partition, n)
		e.Offsets = make(stream.Offsets, n)
	}, func(f *state.Fields, i int) {
		id, next := int64(ps[i].ID), e.Offsets[ps[i]]
		f.String("topic", &ps[i].Topic)
		f.Int64("partition", &id)
		f.Int64("next", &next)
		ps[i].ID = int32(id)
		e.Offsets[ps[i]] = next
	})
	f.UnixMilli("created_ms", &e.Created)
	f.List("evaluation", len(e.Evaluation), 10, func(n int) { e.Evaluation = make([]stream.Measure, n) }, func(f *state.Fields, i int) {
		f.String("name", &e.Evaluation[i].Name)
		f.Float64("value", &e.Evaluation[i].Value)
	})
	f.Uint64("payload_hash", &e.Hash)
	f.Uint64("payload_size", &e.size)
}

// claim returns the content of a claim.
func (e *envelope) claim() Claim {
	return Claim{Epoch: e.Epoch, Owner: e.owner, By: e.by, At: e.Created}
}

func (e *envelope) encode() ([]byte, error) { return state.Append(nil, e.fields) }

// peek reads a record's value and checks nothing but that it names a model.
func peek(value []byte) (*envelope, error) {
	e := new(envelope)
	if err := state.Decode(value, e.fields); err != nil {
		return nil, err
	}
	if e.Model == "" || len(e.Model) > maxName {
		return nil, errors.New("model: the name is missing or too long")
	}
	return e, nil
}

// decodeEnvelope reads and checks one record's value. Memory is bounded by a
// small multiple of the value's length, whatever sizes it claims.
func decodeEnvelope(value []byte, maxModel uint64) (*envelope, error) {
	e, err := peek(value)
	switch {
	case err != nil:
		return nil, err
	case e.Kind == claim && e.Epoch == 0:
		return nil, errors.New("epoch: missing in a claim")
	case e.Kind == claim:
		return e, nil
	case e.Version == 0:
		return nil, errors.New("version: is 0")
	case e.Kind == stream.Full && e.Base != 0:
		return nil, fmt.Errorf("base: %d in a full update", e.Base)
	case e.Kind == stream.Delta && (e.Base == 0 || e.Base >= e.Version):
		return nil, fmt.Errorf("base: %d in a delta of version %d", e.Base, e.Version)
	case e.Kind != stream.Full && e.Kind != stream.Delta:
		return nil, fmt.Errorf("kind: %q", e.Kind)
	case e.size > maxModel:
		return nil, fmt.Errorf("payload_size: %d bytes are more than the limit of %d", e.size, maxModel)
	case e.chunks == 0 || e.chunk >= e.chunks || e.chunks > max(e.size, 1):
		return nil, fmt.Errorf("chunk: %d of %d for %d bytes", e.chunk, e.chunks, e.size)
	case uint64(len(e.data)) > e.size || e.size > 0 && len(e.data) == 0:
		return nil, fmt.Errorf("data: %d bytes of %d", len(e.data), e.size)
	case xxhash.Sum64(e.data) != e.chunkHash:
		return nil, errors.New("data: does not have the hash that it should have")
	}
	return e, nil
}

const maxName = 200

// CheckName returns an error if no model or alias can have the name: some names would
// be ambiguous in a record's key.
func CheckName(model string) error {
	if model == "" || len(model) > maxName || strings.ContainsAny(model, "/\x00\n") {
		return fmt.Errorf("kafka: model name %q is empty, longer than %d bytes, or has a slash or control character", model, maxName)
	}
	return nil
}
