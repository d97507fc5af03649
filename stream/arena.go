package stream

// ArenaDecoder is implemented by decoders that can put features into memory from an
// Arena.
type ArenaDecoder interface {
	Decoder
	// DecodeIn is Decode with the features of the example in memory of a; with a
	// nil a it is Decode.
	DecodeIn(a *Arena, value []byte, ex *Example) error
}

// arenaBlock is the number of elements in a block.
const arenaBlock = 512

// Arena hands out memory for features from blocks, so that a decoder allocates once
// for many examples. The zero value is ready to use.
//
// Memory is not handed out twice without a Reset in between. A block lives as long
// as any vector in it: a vector that is kept without its neighbours keeps at most 4
// KiB besides its own size alive. Vectors of more than a quarter of a block get
// memory of their own.
//
// Callers that keep no vector beyond a batch call Reset after each batch; then
// nothing is allocated in the long run.
type Arena struct {
	idx block[int32]
	val block[float32]
}

// Idx returns an empty slice with capacity for n indices. It is the next free
// memory of the arena: unless Take follows, the next call returns the same. A nil
// Arena allocates.
func (a *Arena) Idx(n int) []int32 {
	if a == nil {
		return make([]int32, 0, n)
	}
	return a.idx.next(n)
}

// Val is Idx for values.
func (a *Arena) Val(n int) []float32 {
	if a == nil {
		return make([]float32, 0, n)
	}
	return a.val.next(n)
}

// Take keeps x, whose elements are in the memory that the last calls of Idx and Val
// returned. The result has no spare capacity.
func (a *Arena) Take(x Vec) Vec {
	if a == nil {
		return x
	}
	return Vec{Idx: a.idx.take(x.Idx), Val: a.val.take(x.Val)}
}

// Reset takes back all memory: vectors handed out before must not be used any more.
func (a *Arena) Reset() {
	a.idx.reset()
	a.val.reset()
}

// Keep is Take for an example's own vector.
func (a *Arena) Keep(x *Vec) {
	if a != nil {
		x.Idx, x.Val = a.idx.take(x.Idx), a.val.take(x.Val)
	}
}

type block[T any] struct {
	all, free []T
	used      int // elements handed out since the last reset
}

func (b *block[T]) next(n int) []T {
	if n > len(b.free) || b.free == nil { // an empty vector is not nil
		if n > arenaBlock/4 {
			return make([]T, 0, n)
		}
		b.all = make([]T, arenaBlock)
		b.free = b.all
	}
	return b.free[:0:n]
}

func (b *block[T]) take(s []T) []T {
	n := len(s)
	b.used += n
	if n > 0 && len(b.free) > 0 && &s[0] == &b.free[0] {
		b.free = b.free[n:]
	}
	return s[:n:n]
}

// reset makes a single block as large as what was needed since the last reset.
func (b *block[T]) reset() {
	if b.used > len(b.all) {
		b.all = make([]T, b.used+b.used/4)
	}
	b.free, b.used = b.all, 0
}
