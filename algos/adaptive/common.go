package adaptive

import (
	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/stream"
)

// common holds what depends on the features of a batch only. It is computed once for all
// learners that have seen the same examples, from any one of them.
type common struct {
	seen   uint64 // examples before the batch
	batch  []input
	inputs inputs     // after the batch
	near   neighbours // likewise, without labels
	search search
	phis   []float32  // memory of the random features
	hats   stream.Vec // memory of the splines
	of     *ensemble  // the version whose inputs are in aged; nil: none
	aged   *inputBatch
}

// prepare computes everything for xs, the examples that h learns from next.
func (c *common) prepare(h *Learner, xs []*stream.Example) error {
	seen := h.detector.Seen()
	if seen == 0 || h.nextFit(seen-1) == seen || seen != c.seen+uint64(len(c.batch)) {
		if err := c.begin(h); err != nil {
			return err
		}
	}
	c.seen, c.batch, c.of = seen, c.batch[:0], h.version
	if next := h.nextFit(seen); next > 0 {
		xs = xs[:min(uint64(len(xs)), next-seen)]
	}
	for _, x := range xs {
		if !c.inputs.wide && x.X.Dim() > narrow { // learners restart
			*c = common{}
			return nil
		}
		c.batch = append(c.batch, c.inputs.next(nil, x.X))
	}
	for part := c.batch; len(part) > 0; {
		n := min(len(part), tick)
		zs := make([]stream.Vec, n)
		for i := range zs {
			zs[i] = part[i].z
		}
		c.search.begin(&c.near, zs...)
		for i := range zs {
			v := c.search.votes(i)
			part[i].votes = &v
			c.near.add(part[i].toLearn().z, 0)
		}
		part = part[n:]
	}
	h.setPhis(&c.phis, c.batch)
	h.setHats(&c.hats, &c.inputs, c.batch, xs)
	if c.of != nil {
		some, _ := h.shared.judges(xs, seen)
		c.aged = c.of.inputsOf(some)
	}
	return nil
}

// begin copies the feature statistics and neighbours of h.
func (c *common) begin(h *Learner) error {
	c.inputs.scaled = h.inputs.scaled
	data, err := state.Append(nil, h.inputs.fields)
	if err == nil {
		err = state.Decode(data, c.inputs.fields)
	}
	if err == nil {
		data, err = state.Append(nil, h.near().fields)
	}
	if err == nil {
		err = state.Decode(data, c.near.fields)
	}
	return err
}

// input returns the forms of example number seen, if they are known.
func (c *common) input(seen uint64) (in input, known bool) {
	if c == nil || seen < c.seen || seen >= c.seen+uint64(len(c.batch)) {
		return in, false
	}
	return c.batch[seen-c.seen], true
}

// inputsOf returns the inputs of version m for the first n examples from number seen that judge
// it; nil if unknown.
func (c *common) inputsOf(m *ensemble, seen uint64, n int) *inputBatch {
	if c == nil || c.of == nil || m == nil || m.inputs != c.of.inputs || seen != c.seen || n != len(c.aged.xs) {
		return nil
	}
	return c.aged
}
