// Package stream defines the data types of an online learning stream: records as a
// message queue delivers them, examples as learners consume them, offsets, and
// model updates; and the interfaces of sources, decoders, publishers and
// subscribers.
//
// It imports no client of any queue. Package stream/codec turns a record's value
// into an example, stream/fileio and stream/kafkaio are sources and sinks,
// contrib/synth generates synthetic streams.
//
// The API is stable.
package stream

// Vec is a feature vector. Features are float32 in memory.
//
// If Idx is nil the vector is dense and Val[j] is feature j; otherwise Val[k]
// is feature Idx[k], Idx is strictly increasing from 0 upwards, and every
// feature that is not listed is 0.
type Vec struct {
	Idx []int32
	Val []float32
}

// Dim returns one more than the largest feature index in x; for a dense vector that
// is its length.
func (x Vec) Dim() int {
	if x.Idx == nil {
		return len(x.Val)
	}
	if len(x.Idx) == 0 {
		return 0
	}
	return int(x.Idx[len(x.Idx)-1]) + 1
}

// Sparse reports whether x lists its features by index.
func (x Vec) Sparse() bool { return x.Idx != nil }

// Clone returns a copy that shares no memory with x.
func (x Vec) Clone() Vec {
	c := Vec{Val: append([]float32(nil), x.Val...)}
	if x.Idx != nil {
		c.Idx = append(make([]int32, 0, len(x.Idx)), x.Idx...)
	}
	return c
}

// Dense writes x to dst, which must have at least x.Dim() elements, and sets the
// others to 0.
func (x Vec) Dense(dst []float32) {
	if x.Idx == nil {
		n := copy(dst, x.Val)
		clear(dst[n:])
		return
	}
	clear(dst)
	for k, j := range x.Idx {
		dst[j] = x.Val[k]
	}
}

// CheckFinite returns the position in x.Val of the first value that is NaN or
// infinite, or -1.
func (x Vec) CheckFinite() int {
	for k, v := range x.Val {
		// v-v is 0 for finite v and NaN otherwise.
		if v-v != 0 {
			return k
		}
	}
	return -1
}

// Example is one observation.
type Example struct {
	// Seq numbers the examples of a stream 1, 2, 3… in order of consumption. It
	// identifies an example downstream of the decoder.
	Seq uint64
	// ID is the identifier given by the producer, or empty.
	ID string
	X  Vec
	// Y is the label: +1 or −1 for two classes, the class number from 0 for more,
	// any finite number for regression, 0 if Labelled is false.
	Y float64
	// Labelled reports whether the label is known.
	Labelled bool
	// Class is the label of a class that had no number yet when the example was
	// decoded; Y is then 0. Otherwise it is empty.
	Class string
	// Weight is the importance weight, finite and above 0; 0 stands for 1.
	Weight float32
	// Represents is the number of records that the example represents if it was
	// sampled from a stream; 0 stands for 1. Weight already includes it.
	Represents float32
}

// Importance returns the importance weight: Weight, or 1 if that is 0.
func (e *Example) Importance() float64 {
	if e.Weight == 0 {
		return 1
	}
	return float64(e.Weight)
}

// Count returns the number of records that the example represents: Represents, or 1
// if that is 0.
func (e *Example) Count() float64 {
	if e.Represents == 0 {
		return 1
	}
	return float64(e.Represents)
}

// Bytes returns the approximate memory of the example.
func (e *Example) Bytes() int {
	return 104 + 4*len(e.X.Idx) + 4*len(e.X.Val) + len(e.ID)
}
