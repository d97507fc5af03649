package sbp

import (
	"fmt"

	"github.com/streamsvm/streamsvm/internal/kernel"
	"github.com/streamsvm/streamsvm/internal/state"
)

// blockRows is the number of kernel rows that are computed together. The points
// then pass through the processor's caches once for all of them, which is
// several times as fast as a row at a time.
const blockRows = 24

// rows keeps the kernel rows of the buffered points that were used last.
//
// Which rows are held is part of the state, so that the number of kernel values
// computed is the same after a restart; the values are not, since they can be
// computed again to the same bits. A row of which columns have changed since it
// was used is brought up to date when it is used next.
type rows struct {
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

	evals int64 // kernel values computed

	where  []int32     // where[i] is 1 + the entry of point i, or 0
	store  [][]float32 // nil: not there since a restart
	sparse bool        // the layout on which the last bits depend
	block  []float32   // scratch
}

func newRows(b *kernel.Basis, bytes int) *rows { return &rows{basis: b, bytes: bytes} }

// limit is the number of rows that may be held.
func (r *rows) limit() int { return max(blockRows, r.bytes/max(4*r.basis.Len(), 1)) }

// changedAt notes that point i was appended or replaced. sync must follow.
func (r *rows) changedAt(i int) {
	for len(r.changed) < r.basis.Len() {
		r.changed = append(r.changed, r.now)
		r.where = append(r.where, 0)
	}
	r.changed[i] = r.now
	if h := r.where[i] - 1; h >= 0 {
		r.drop(h)
	}
}

// sync forgets all rows if the layout of the points has changed.
func (r *rows) sync() {
	if s := r.basis.Sparse(); s != r.sparse {
		r.sparse = s
		for len(r.held) > 0 {
			r.drop(0)
		}
	}
}

func (r *rows) drop(h int32) {
	last := int32(len(r.held) - 1)
	r.where[r.held[h]] = 0
	if h != last {
		r.held[h], r.used[h], r.tick[h], r.store[h] = r.held[last], r.used[last], r.tick[last], r.store[last]
		r.where[r.held[h]] = h + 1
	}
	r.store[last] = nil
	r.held, r.used, r.tick, r.store = r.held[:last], r.used[:last], r.tick[:last], r.store[:last]
}

func (r *rows) has(i int32) bool { return r.where[i] > 0 }

// row returns the kernel row of point i. It is valid until the next call of row
// or fetch.
func (r *rows) row(i int) []float32 {
	if !r.has(int32(i)) {
		r.fetch([]int32{int32(i)})
	}
	h := r.where[i] - 1
	r.clock++
	r.used[h] = r.clock
	n := r.basis.Len()
	k := r.store[h]
	whole := k == nil
	if whole {
		k = make([]float32, n)
		r.basis.Between(k, n, []int32{int32(i)}, 0, n)
	}
	if r.tick[h] != r.now {
		k = r.update(i, h, k, whole)
	}
	r.store[h] = k
	return k
}

// update brings the columns of a row up to date.
func (r *rows) update(i int, h int32, k []float32, whole bool) []float32 {
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
		r.evals += int64(j - from)
		if !whole {
			r.basis.Between(k[from:j], j-from, []int32{int32(i)}, from, j)
		}
	}
	r.tick[h] = r.now
	return k
}

// fetch computes the rows of up to blockRows distinct points, none of which is
// held, in one pass over the points.
func (r *rows) fetch(idx []int32) {
	n := r.basis.Len()
	if len(idx) == 0 {
		return
	}
	if len(r.block) < len(idx)*n {
		r.block = make([]float32, len(idx)*n)
	}
	r.basis.Between(r.block, n, idx, 0, n)
	r.evals += int64(n * len(idx))
	for q, i := range idx {
		k := r.evict()
		if cap(k) < n {
			k = make([]float32, n)
		}
		k = k[:n]
		copy(k, r.block[q*n:(q+1)*n])
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
func (r *rows) evict() (spare []float32) {
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

// fields describes the directory.
func (r *rows) fields(f *state.Fields) {
	f.Int32s("held", &r.held)
	f.Uint64s("used", &r.used)
	f.Uint64s("tick", &r.tick)
	f.Uint64s("changed", &r.changed)
	f.Uint64("now", &r.now)
	f.Uint64("clock", &r.clock)
	f.Int64("evals", &r.evals)
	if !f.Decoding() || f.Err() != nil {
		return
	}
	n := r.basis.Len()
	if len(r.changed) != n || len(r.used) != len(r.held) || len(r.tick) != len(r.held) || len(r.held) > n {
		f.Fail("held", errLength)
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
	r.store = make([][]float32, len(r.held))
	r.sparse = r.basis.Sparse()
}
