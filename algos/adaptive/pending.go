package adaptive

import (
	"errors"
	"math"
	"slices"
	"sort"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/linear"
	"github.com/streamsvm/streamsvm/stream"
)

// prediction holds the experts' predictions for an example.
type prediction struct {
	scores []score
	aged   aged
	f      float64 // the learner's log odds, or number
	// generation identifies the growing SVM that predicted: 0 if there was none, else one
	// plus the number of cuts.
	generation uint64
}

// pendingPrediction is the prediction for an example that waits for its label.
type pendingPrediction struct {
	seq uint64
	prediction
}

// generation identifies the present growing SVM; see prediction.
func (l *Learner) generation() uint64 {
	if l.kernels[growing] == nil {
		return 0
	}
	cuts, _ := l.detector.ChangePoints()
	return 1 + cuts
}

// PredictPending implements algos.PendingPredictor. Experts are weighted and compared by their
// predictions on arrival of the example, before the label was known. When the label comes,
// each learns from the error that it would make then.
func (l *Learner) PredictPending(x *stream.Example) float64 {
	in := input{x: x}
	l.prepare(&in)
	p := prediction{scores: make([]score, len(l.experts)), generation: l.generation()}
	for e, x := range l.experts {
		x.begin([]input{in}, true)
		p.scores[e] = x.predict(&in)
	}
	switch {
	case l.mixer != nil:
		p.f = l.mixer.predict([][]score{p.scores})[0] + l.shift()
	case l.numbers != nil:
		p.f = l.numbers.predict(p.scores)
	}
	if list := l.versionScores([]stream.Vec{x.X}, nil); list != nil {
		p.aged = aged{list[0], 1, nil}
		switch {
		case l.mixer != nil && l.published.versions > 0:
			p.aged.out = slices.Clone(l.published.outputs(list))
		case l.numbers != nil && l.numbers.began > 0:
			p.aged.out = l.numbers.outputs(l.numbers.frozen, list[0])
		}
	}
	l.pending = append(l.pending, pendingPrediction{x.Seq, p})
	return p.f
}

// takePending removes and returns the prediction made when x arrived, or nil. Labels come nearly in
// the order of examples.
func (l *Learner) takePending(x *stream.Example) *prediction {
	n := sort.Search(len(l.pending), func(i int) bool { return l.pending[i].seq >= x.Seq })
	if n == len(l.pending) || l.pending[n].seq != x.Seq {
		return nil
	}
	p := l.pending[n].prediction
	copy(l.pending[1:n+1], l.pending[:n])
	l.pending[0] = pendingPrediction{}
	l.pending = l.pending[1:]
	return &p
}

// Add takes an example in.
func (l *Learner) Add(x *stream.Example) (algos.Fate, error) {
	if !x.Labelled {
		l.takePending(x)
	}
	return l.Buffer.Add(x)
}

// pendingFields describes the pending predictions. A state without any does not have the
// field.
func (l *Learner) pendingFields(f *state.Fields) {
	if f.Decoding() {
		l.pending = nil
	}
	if !f.Next("pending") && (f.Decoding() || len(l.pending) == 0) {
		return
	}
	// For each: f, whether there are scores of a version, and for each expert, now and in the
	// version, whether it has a score and the score.
	n, width := len(l.experts), numOutputs
	if l.numbers != nil {
		width = len(hedgePrior)
	}
	var seqs, generations []uint64
	var numbers, out []float64
	put := func(list []score) {
		for _, s := range list {
			there := 0.0
			if s.ok {
				there = 1
			}
			numbers = append(numbers, there, s.f)
		}
	}
	for i := range l.pending {
		p := &l.pending[i]
		seqs, generations = append(seqs, p.seq), append(generations, p.generation)
		old, there := p.aged.scores, 1.0
		if old == nil {
			old, there = make([]score, n), 0
		}
		numbers = append(numbers, p.f, there)
		put(p.scores)
		put(old)
		if out = append(out, p.aged.out...); p.aged.out == nil {
			out = append(out, slices.Repeat([]float64{math.NaN()}, width)...)
		}
	}
	f.Uint64s("pending", &seqs)
	f.Uint64s("machines", &generations)
	f.Float64s("scores", &numbers)
	if !f.Decoding() || f.Next("outputs") { // earlier states have none
		f.Float64s("outputs", &out)
	}
	if !f.Decoding() || f.Err() != nil {
		return
	}
	each := 2 + 4*n
	if len(generations) != len(seqs) || len(numbers) != each*len(seqs) || len(out) > 0 && len(out) != width*len(seqs) {
		f.Fail("scores", errors.New("lengths do not agree"))
		return
	}
	if err := linear.Finite(numbers); err != nil {
		f.Fail("scores", err)
		return
	}
	if slices.ContainsFunc(out, func(v float64) bool { return math.IsInf(v, 0) }) {
		f.Fail("outputs", errors.New("infinite"))
		return
	}
	get := func(from []float64) []score {
		list := make([]score, n)
		for e := range list {
			list[e] = score{from[2*e+1], from[2*e] != 0}
		}
		return list
	}
	for i, seq := range seqs {
		if i > 0 && seq <= seqs[i-1] {
			f.Fail("pending", errors.New("examples are not in order"))
			return
		}
		at := numbers[each*i:]
		p := pendingPrediction{seq, prediction{scores: get(at[2:]), f: at[0], generation: generations[i]}}
		if at[1] != 0 {
			p.aged = aged{get(at[2+2*n:]), 1, nil}
		}
		if len(out) > 0 {
			o := out[width*i:][:width]
			if v := o[width-2] + o[width-1]; v == v {
				p.aged.out = o
			}
		}
		l.pending = append(l.pending, p)
	}
}
