package modeltopic

import (
	"cmp"
	"crypto/ed25519"
	"fmt"
	"slices"

	"github.com/cespare/xxhash/v2"
	"github.com/streamsvm/streamsvm/internal/delta"
	"github.com/streamsvm/streamsvm/stream"
)

// assembler assembles the updates of one model from the records of its topic.
type assembler struct {
	model  string // "": the first one with the alias
	alias  string // "": none
	limit  uint64 // bytes of a payload
	deltas bool   // whether deltas are applied
	// keys, if there are any, are trusted: an update must be signed with one of them.
	keys []ed25519.PublicKey

	epoch uint64            // the largest seen; smaller ones are from a replaced trainer
	cur   *stream.Update    // the newest update that is complete
	about about             // headers of cur
	kind  stream.UpdateKind // cur as it was sent: full or delta,
	size  uint64            // and the bytes of that payload
	open  []*partial        // incomplete updates, oldest first
}

// partial is an update with some of its chunks read.
type partial struct {
	head   envelope // without data
	about  about    // of the first chunk
	chunks map[uint64][]byte
	size   uint64
}

// openMax bounds the number of updates that are assembled at a time, and so the memory. A
// reader of committed records finds the chunks of an update side by side. While the
// topic is compacted, some may be missing.
const openMax = 3

// add processes a record, and reports whether it completes an update that is newer than
// cur, which it then replaces. An error says why the record, or the update that it
// completes, cannot be used.
func (a *assembler) add(r *stream.Record) (bool, error) {
	if r.Value == nil {
		if deletes(r, a.model) && a.cur != nil {
			a.raise(max(a.epoch, a.cur.Epoch+1)) // older updates stay superseded
			a.cur = nil
		}
		return false, nil
	}
	e, err := decodeEnvelope(r.Value, a.limit)
	if err != nil {
		return false, err
	}
	if a.model == "" && e.Kind != claim && follows("", a.alias, e.Model) {
		a.model = e.Model
	}
	if e.Model != a.model || e.Epoch < a.epoch {
		return false, nil
	}
	if len(a.keys) == 0 { // otherwise an unsigned record could shut out signed ones
		a.raise(e.Epoch)
	}
	if e.Kind == claim || !a.wanted(e) {
		return false, nil
	}
	p := a.partial(e)
	if old, ok := p.chunks[e.chunk]; ok {
		p.size -= uint64(len(old))
	}
	p.chunks[e.chunk] = e.data
	if e.chunk == 0 {
		p.about = aboutOf(r)
	}
	p.size += uint64(len(e.data))
	if uint64(len(p.chunks)) < e.chunks && p.size <= e.size {
		return false, nil
	}
	a.open = slices.DeleteFunc(a.open, func(q *partial) bool { return q == p })
	u, err := a.complete(p)
	if err != nil {
		return false, fmt.Errorf("version %d: %w", e.Version, err)
	}
	a.cur, a.about, a.kind, a.size = u, p.about, p.head.Kind, p.head.size
	a.raise(u.Epoch)
	a.open = slices.DeleteFunc(a.open, func(q *partial) bool { return !a.wanted(&q.head) })
	return true, nil
}

// deletes reports whether r is the tombstone that deletes the model or alias called name:
// nothing else removes the first chunk of a full without replacing it.
func deletes(r *stream.Record, name string) bool {
	return r.Value == nil && string(r.Key) == name+"/full/0"
}

// raise drops incomplete updates of smaller epochs.
func (a *assembler) raise(epoch uint64) {
	a.epoch = epoch
	a.open = slices.DeleteFunc(a.open, func(p *partial) bool { return p.head.Epoch < epoch })
}

// wanted reports whether an update is newer than cur and can be applied. Epochs are
// compared before versions: a trainer that takes over continues from its own checkpoint,
// which may be older than the last version of the trainer that it replaces.
func (a *assembler) wanted(e *envelope) bool {
	if a.cur == nil {
		return e.Kind == stream.Full
	}
	if c := cmp.Or(cmp.Compare(e.Epoch, a.cur.Epoch), cmp.Compare(e.Version, a.cur.Version)); c <= 0 {
		return false
	}
	return e.Kind == stream.Full || a.deltas && e.Epoch == a.cur.Epoch && e.Base == a.cur.Version
}

// partial returns the incomplete update that e is a chunk of.
func (a *assembler) partial(e *envelope) *partial {
	for _, p := range a.open {
		h := &p.head
		if h.Epoch == e.Epoch && h.Version == e.Version && h.Kind == e.Kind && h.Hash == e.Hash && h.size == e.size && h.chunks == e.chunks {
			return p
		}
	}
	if len(a.open) == openMax {
		a.open = slices.Delete(a.open, 0, 1)
	}
	p := &partial{head: *e, chunks: map[uint64][]byte{}}
	p.head.data = nil
	a.open = append(a.open, p)
	return p
}

// complete joins the chunks, verifies the payload and applies a delta.
func (a *assembler) complete(p *partial) (*stream.Update, error) {
	if p.size != p.head.size {
		return nil, fmt.Errorf("the chunks have %d bytes, the payload %d", p.size, p.head.size)
	}
	u := p.head.Update
	u.Payload = make([]byte, 0, p.size)
	for i := range p.head.chunks {
		u.Payload = append(u.Payload, p.chunks[i]...)
	}
	if sum := xxhash.Sum64(u.Payload); sum != u.Hash {
		return nil, fmt.Errorf("the payload's hash is %016x, not %016x", sum, u.Hash)
	}
	if len(a.keys) > 0 {
		if err := p.head.verify(u.Payload, p.about.signature, a.keys); err != nil {
			return nil, err
		}
	}
	if u.Kind == stream.Delta {
		size, err := delta.Size(u.Payload)
		if err == nil && uint64(size) > a.limit {
			err = fmt.Errorf("a result of %d bytes is more than the limit of %d", size, a.limit)
		}
		var full []byte
		if err == nil {
			full, err = delta.Patch(a.cur.Payload, u.Payload)
		}
		if err != nil {
			return nil, fmt.Errorf("delta on version %d: %w", u.Base, err)
		}
		u.Kind, u.Base, u.Payload, u.Hash = stream.Full, 0, full, xxhash.Sum64(full)
	}
	return &u, nil
}
