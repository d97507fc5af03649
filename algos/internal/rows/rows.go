// Package rows computes kernel rows of buffered points, and keeps those that
// were used last.
package rows

import (
	"errors"
	"fmt"

	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/kernel"
)

// Block is the number of kernel rows that are computed together. The points
// then pass through the processor's caches once for all of them, which is
// several times as fast as a row at a time.
const Block = 24

// Cache keeps the kernel rows of the buffered points that were used last.
//
// Which rows are held is part of the state, so that the number of kernel values
// computed is the same after a restart; the values are not, since they can be
// computed again to the same bits. A row of which columns have changed since it
// was used is brought up to date when it is used next.
type Cache struct {
	basis *kernel.Basis
	bytes int

	// The directory. Entry h holds the row of point held[h], last used at
	// used[h], its columns being those of tick[h].
	held    []int32
	used    []uint64
	tick    []uint64
	changed []uint64 // tick at which a point was last replaced
	now     uint64   // tick: changes of points
	clock   uint64   // uses

	// Evals counts the kernel values computed. Callers add those that they
	// compute themselves.
	Evals int64

	where  []int32     // where[i] is 1 + the entry of point i, or 0
	store  [][]float32 // nil: not there since a restart
	sparse bool        // the layout on which the last bits depend
	bits   *bitset
	block  []float32 // scratch
}

// New returns a cache of the rows of b's points that takes up to bytes of
// memory, or Block rows if that is more.
func New(b *kernel.Basis, bytes int) *Cache {
	return &Cache{basis: b, bytes: bytes, bits: newBitset(b.Func)}
}

// Direct reports whether rows cost the same one at a time as in blocks, which
// is so while all points are binary. It depends on the points alone.
func (r *Cache) Direct() bool { return r.bits.active() }

// compute sets dst to the columns of the row of point i from from on.
func (r *Cache) compute(dst []float32, i, from int) {
	if r.Direct() {
		r.bits.row(dst, i, from)
	} else {
		r.basis.Between(dst, len(dst), []int32{int32(i)}, from, from+len(dst))
	}
}

var errLengths = errors.New("lengths do not agree")

// limit is the number of rows that may be held.
func (r *Cache) limit() int { return max(Block, r.bytes/max(4*r.basis.Len(), 1)) }

// Tick begins a round of changes: calls of Changed, then one of Sync. Rows that
// are used in between count as up to date.
func (r *Cache) Tick() { r.now++ }

// Changed notes that point i was appended or replaced.
func (r *Cache) Changed(i int) {
	for len(r.changed) < r.basis.Len() {
		r.changed = append(r.changed, r.now)
		r.where = append(r.where, 0)
	}
	r.changed[i] = r.now
	r.bits.set(i, r.basis.Row(i))
	if h := r.where[i] - 1; h >= 0 {
		r.drop(h)
	}
}

// Sync ends a round of changes. It forgets all rows if the layout of the points has changed.
func (r *Cache) Sync() {
	if s := r.basis.Sparse(); s != r.sparse {
		r.sparse = s
		for len(r.held) > 0 {
			r.drop(0)
		}
	}
}

func (r *Cache) drop(h int32) {
	last := int32(len(r.held) - 1)
	r.where[r.held[h]] = 0
	if h != last {
		r.held[h], r.used[h], r.tick[h], r.store[h] = r.held[last], r.used[last], r.tick[last], r.store[last]
		r.where[r.held[h]] = h + 1
	}
	r.store[last] = nil
	r.held, r.used, r.tick, r.store = r.held[:last], r.used[:last], r.tick[:last], r.store[:last]
}

// Has reports whether the row of point i is held.
func (r *Cache) Has(i int32) bool { return r.where[i] > 0 }

// Row returns the kernel row of point i. It is valid until the next call of Row
// or Fetch.
func (r *Cache) Row(i int) []float32 {
	if !r.Has(int32(i)) {
		r.Fetch([]int32{int32(i)})
	}
	h := r.where[i] - 1
	r.clock++
	r.used[h] = r.clock
	n := r.basis.Len()
	k := r.store[h]
	whole := k == nil
	if whole {
		k = make([]float32, n)
		r.compute(k, i, 0)
	}
	if r.tick[h] != r.now {
		k = r.update(i, h, k, whole)
	}
	r.store[h] = k
	return k
}

// update brings the columns of a row up to date.
func (r *Cache) update(i int, h int32, k []float32, whole bool) []float32 {
	n := r.basis.Len()
	if n > len(k) {
		grown := make([]float32, n)
		copy(grown, k)
		k = grown
	}
	for j := 0; j < n; j++ {
		if r.changed[j] <= r.tick[h] {
			continue
		}
		from := j
		for j < n && r.changed[j] > r.tick[h] {
			j++
		}
		r.Evals += int64(j - from)
		if !whole {
			r.compute(k[from:j], i, from)
		}
	}
	r.tick[h] = r.now
	return k
}

// Fetch computes the rows of up to Block distinct points, none of which is
// held, in one pass over the points.
func (r *Cache) Fetch(idx []int32) {
	n := r.basis.Len()
	if len(idx) == 0 {
		return
	}
	direct := r.Direct()
	if !direct {
		if len(r.block) < len(idx)*n {
			r.block = make([]float32, len(idx)*n)
		}
		r.basis.Between(r.block, n, idx, 0, n)
	}
	r.Evals += int64(n * len(idx))
	for q, i := range idx {
		k := r.evict()
		if cap(k) < n {
			k = make([]float32, n)
		}
		k = k[:n]
		if direct {
			r.bits.row(k, int(i), 0)
		} else {
			copy(k, r.block[q*n:(q+1)*n])
		}
		r.clock++
		r.held = append(r.held, i)
		r.used = append(r.used, r.clock)
		r.tick = append(r.tick, r.now)
		r.store = append(r.store, k)
		r.where[i] = int32(len(r.held))
	}
}

// evict drops the rows used longest ago until there is room for one more. It
// returns memory for a row, if there is some to spare.
func (r *Cache) evict() (spare []float32) {
	for limit := r.limit(); len(r.held) >= limit; {
		oldest := int32(0)
		for h, u := range r.used {
			if u < r.used[oldest] {
				oldest = int32(h)
			}
		}
		spare = r.store[oldest]
		r.drop(oldest)
	}
	return spare
}

// Fields describes the directory.
func (r *Cache) Fields(f *state.Fields) {
	f.Int32s("held", &r.held)
	f.Uint64s("used", &r.used)
	f.Uint64s("tick", &r.tick)
	f.Uint64s("changed", &r.changed)
	f.Uint64("now", &r.now)
	f.Uint64("clock", &r.clock)
	f.Int64("evals", &r.Evals)
	if !f.Decoding() || f.Err() != nil {
		return
	}
	n := r.basis.Len()
	if len(r.changed) != n || len(r.used) != len(r.held) || len(r.tick) != len(r.held) || len(r.held) > n {
		f.Fail("held", errLengths)
		return
	}
	r.where = make([]int32, n)
	for h, i := range r.held {
		if i < 0 || int(i) >= n || r.where[i] > 0 {
			f.Fail("held", fmt.Errorf("no row %d", i))
			return
		}
		r.where[i] = int32(h + 1)
	}
	r.bits = newBitset(r.basis.Func)
	for i := range n {
		r.bits.set(i, r.basis.Row(i))
	}
	r.store = make([][]float32, len(r.held))
	r.sparse = r.basis.Sparse()
}
