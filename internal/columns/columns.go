// Package columns encodes lists of examples, column by column, and offsets as part of a
// state.
package columns

import (
	"errors"
	"fmt"
	"slices"

	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/weight"
	"github.com/streamsvm/streamsvm/stream"
)

var errShape = errors.New("lengths do not agree")

// Examples describes a list of examples under the given name. They are stored
// column by column, which takes a fraction of the space and time of a list of
// records. Every decoded example gets its own memory, so that dropping one frees it.
func Examples(f *state.Fields, name string, list *[]*stream.Example) {
	f.Group(name, func(f *state.Fields) {
		var c columns
		if !f.Decoding() {
			c.fill(*list)
		}
		c.fields(f)
		if !f.Decoding() || f.Err() != nil {
			return
		}
		var err error
		if *list, err = c.examples((*list)[:0]); err != nil {
			f.Fail("val", err)
		}
	})
}

// Alike reports whether two lists of examples differ in their labels only.
func Alike(a, b []*stream.Example) bool {
	return slices.EqualFunc(a, b, func(x, y *stream.Example) bool {
		return x.Seq == y.Seq && x.ID == y.ID && x.Labelled == y.Labelled && x.Weight == y.Weight && x.Represents == y.Represents &&
			x.X.Sparse() == y.X.Sparse() && slices.Equal(x.X.Idx, y.X.Idx) && slices.Equal(x.X.Val, y.X.Val)
	})
}

// Labels describes the labels of a list of examples that is Alike others, under the given name.
// Decoded examples share the features of others.
func Labels(f *state.Fields, name string, list *[]*stream.Example, others []*stream.Example) {
	var y []float64
	if !f.Decoding() {
		for _, x := range *list {
			y = append(y, x.Y)
		}
	}
	f.Float64s(name, &y)
	if !f.Decoding() || f.Err() != nil {
		return
	}
	if len(y) != len(others) {
		f.Fail(name, errShape)
		return
	}
	*list = nil
	for i, x := range others {
		c := *x
		c.Y = y[i]
		*list = append(*list, &c)
	}
}

// columns is a list of examples, field by field.
type columns struct {
	seq      []uint64
	y        []float64
	labelled []bool
	sparse   []bool
	nnz      []int32 // len(X.Val)
	idx      []int32 // of the sparse examples, concatenated
	val      []float32
	idLen    []int32 // empty if no example has an ID
	id       []byte
	weights  weight.List
	counts   weight.List
}

func (c *columns) fill(list []*stream.Example) {
	for i, x := range list {
		c.weights.Set(i, i+1, x.Importance())
		c.counts.Set(i, i+1, x.Count())
		c.seq = append(c.seq, x.Seq)
		c.y = append(c.y, x.Y)
		c.labelled = append(c.labelled, x.Labelled)
		c.sparse = append(c.sparse, x.X.Sparse())
		c.nnz = append(c.nnz, int32(len(x.X.Val)))
		c.idx = append(c.idx, x.X.Idx...)
		c.val = append(c.val, x.X.Val...)
		c.idLen = append(c.idLen, int32(len(x.ID)))
		c.id = append(c.id, x.ID...)
	}
	if len(c.id) == 0 {
		c.idLen = nil
	}
}

func (c *columns) fields(f *state.Fields) {
	f.Uint64s("seq", &c.seq)
	f.Float64s("y", &c.y)
	f.Bools("labelled", &c.labelled)
	f.Bools("sparse", &c.sparse)
	f.Int32s("nnz", &c.nnz)
	f.Int32s("idx", &c.idx)
	f.Float32s("val", &c.val)
	f.Int32s("id_len", &c.idLen)
	f.Bytes("id", &c.id)
	c.weights.Fields(f, len(c.seq))
	c.counts.Named(f, "represents", len(c.seq))
}

// examples appends the examples to list. It validates everything: the columns may
// come from a damaged file.
func (c *columns) examples(list []*stream.Example) ([]*stream.Example, error) {
	n := len(c.seq)
	if len(c.y) != n || len(c.labelled) != n || len(c.sparse) != n || len(c.nnz) != n ||
		len(c.idLen) != 0 && len(c.idLen) != n {
		return list, errShape
	}
	idx, val, id := c.idx, c.val, c.id
	for i := range n {
		x := &stream.Example{Seq: c.seq[i], Y: c.y[i], Labelled: c.labelled[i]}
		k := int(c.nnz[i])
		if k < 0 || k > len(val) || c.sparse[i] && k > len(idx) {
			return list, errShape
		}
		x.X.Val = append([]float32(nil), val[:k]...)
		val = val[k:]
		if c.sparse[i] {
			last := int32(-1)
			for _, j := range idx[:k] {
				if j <= last {
					return list, fmt.Errorf("feature %d follows feature %d", j, last)
				}
				last = j
			}
			x.X.Idx = append(make([]int32, 0, k), idx[:k]...)
			idx = idx[k:]
		}
		if len(c.idLen) > 0 {
			k := int(c.idLen[i])
			if k < 0 || k > len(id) {
				return list, errShape
			}
			x.ID, id = string(id[:k]), id[k:]
		}
		if w := c.weights.At(i); w != 1 {
			x.Weight = float32(w)
		}
		if n := c.counts.At(i); n != 1 {
			x.Represents = float32(n)
		}
		list = append(list, x)
	}
	if len(idx)+len(val)+len(id) > 0 {
		return list, errShape
	}
	return list, nil
}

// Offsets describes the next offset of each partition.
func Offsets(f *state.Fields, o *stream.Offsets) {
	ps := o.Partitions()
	read := stream.Offsets{}
	f.List("offsets", len(ps), 3, func(n int) { ps = make([]stream.Partition, n) }, func(f *state.Fields, i int) {
		next, id := (*o)[ps[i]], int64(ps[i].ID)
		f.String("topic", &ps[i].Topic)
		f.Int64("partition", &id)
		f.Int64("next", &next)
		ps[i].ID = int32(id)
		read[ps[i]] = next
	})
	if f.Decoding() {
		*o = read
	}
}
