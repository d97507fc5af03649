// Package stream defines what flows through streamsvm: records as a message
// queue delivers them, examples as learners take them, the positions that say
// how far a consumer has come, and the updates that carry a model back out.
//
// It imports no client of any queue. Package stream/codec turns a record's
// value into an example, stream/fileio and stream/kafkaio are sources and
// sinks, stream/synth generates synthetic streams.
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

// Dim returns one more than the largest feature index that x holds, which for
// a dense vector is its length.
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

// Dense writes x into dst, which must be at least x.Dim() long, and sets the
// remaining elements of dst to 0.
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

// CheckFinite returns the position in x.Val of the first NaN or infinite
// value, or -1.
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
	// Seq numbers the examples of a stream 1, 2, 3… in order of consumption;
	// it is an example's identity downstream of the decoder.
	Seq uint64
	// ID is the identifier the producer gave, or empty.
	ID string
	X  Vec
	// Y is the label: +1 or −1 for two classes, the number of the class, from 0
	// on, for more, any finite number for regression, 0 where Labelled is false.
	Y float64
	// Labelled says whether the label is known.
	Labelled bool
	// Class is the label of a class that had no number yet when the example was
	// decoded, and Y is then 0. It is empty elsewhere.
	Class string
	// Weight is how much the example counts, a finite number above 0; 0 stands
	// for 1.
	Weight float32
	// Represents is how many records of a stream the example stands for, where it
	// was chosen from so many at random; 0 stands for 1. Weight has it in it.
	Represents float32
}

// Importance returns how much the example counts: Weight, or 1 where that is 0.
func (e *Example) Importance() float64 {
	if e.Weight == 0 {
		return 1
	}
	return float64(e.Weight)
}

// Count returns how many records of a stream the example stands for: Represents,
// or 1 where that is 0.
func (e *Example) Count() float64 {
	if e.Represents == 0 {
		return 1
	}
	return float64(e.Represents)
}

// Bytes returns about how much memory the example holds.
func (e *Example) Bytes() int {
	return 104 + 4*len(e.X.Idx) + 4*len(e.X.Val) + len(e.ID)
}
