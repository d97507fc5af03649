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

// assembler makes updates of one model out of the records of its topic.
type assembler struct {
	model  string // "": the first that comes with the
	alias  string // which is "" for models that are no alias
	limit  uint64 // bytes of a payload
	deltas bool   // whether deltas are applied
	// keys, if there are any, are those whose signature an update must have.
	keys []ed25519.PublicKey

	epoch uint64 // the largest seen: smaller ones are a replaced trainer's
	cur   *stream.Update
	about about             // what its record says of cur,
	kind  stream.UpdateKind // in which cur has come, and
	size  uint64            // with how large a payload
	open  []*partial        // oldest first
}

// partial is an update some of whose chunks have come.
type partial struct {
	head   envelope // without data
	about  about    // of the first chunk
	chunks map[uint64][]byte
	size   uint64
}

// openMax bounds the updates that are being put together at a time, and with
// it the memory. A reader of committed records finds the chunks of an update
// side by side, or, while the topic is being compacted, some of them only.
const openMax = 3

// add takes a record and reports whether it has completed an update that is
// newer than cur, which is then the new cur. An error says why the record (or
// the update that it completes) is of no use.
func (a *assembler) add(r *stream.Record) (bool, error) {
	if r.Value == nil {
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
	if len(a.keys) == 0 { // or anybody could have those refused that are signed
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

// raise forgets what is of a smaller epoch.
func (a *assembler) raise(epoch uint64) {
	a.epoch = epoch
	a.open = slices.DeleteFunc(a.open, func(p *partial) bool { return p.head.Epoch < epoch })
}

// wanted reports whether an update is newer than the current one and can be
// used. A later epoch counts more than the version: its trainer started from
// its own checkpoint, which may be older than what the replaced one published.
func (a *assembler) wanted(e *envelope) bool {
	if a.cur == nil {
		return e.Kind == stream.Full
	}
	if c := cmp.Or(cmp.Compare(e.Epoch, a.cur.Epoch), cmp.Compare(e.Version, a.cur.Version)); c <= 0 {
		return false
	}
	return e.Kind == stream.Full || a.deltas && e.Epoch == a.cur.Epoch && e.Base == a.cur.Version
}

// partial returns what there is of e's update.
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

// complete puts the chunks together, verifies them and applies a delta.
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
