package adaptive

import (
	"errors"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/linear"
	"github.com/streamsvm/streamsvm/stream"
)

// prediction is what the experts have said of an example.
type prediction struct {
	scores [numExperts]float64
	f      float64 // the panel's decision
	// machine is 0 while there is no growing machine, else 1 and the number of
	// cuts: which one it was.
	machine uint64
}

// foretold is a prediction for an example that has not been learned from.
type foretold struct {
	seq uint64
	prediction
}

// Foretell implements algos.Foreteller. Experts are weighed, trusted and
// compared by what they said before the label was known, when the example came;
// each then learns from its error of today.
func (l *Learner) Foretell(x *stream.Example) float64 {
	l.scoreMachines([]*stream.Example{x})
	z, phi := l.see(x)
	t := foretold{seq: x.Seq, prediction: l.predict(0, z, phi)}
	l.waiting = append(l.waiting, t)
	return t.f
}

// recall returns what was foretold of x, or nil, and forgets it, and what was
// foretold of examples before it, which have no label.
func (l *Learner) recall(x *stream.Example) *prediction {
	n := 0
	for n < len(l.waiting) && l.waiting[n].seq < x.Seq {
		n++
	}
	var p *prediction
	if n < len(l.waiting) && l.waiting[n].seq == x.Seq {
		p = &l.waiting[n].prediction
		n++
	}
	l.waiting = l.waiting[n:]
	return p
}

// Add takes an example in.
func (l *Learner) Add(x *stream.Example) (algos.Fate, error) {
	if !x.Labelled {
		l.recall(x)
	}
	return l.Buffer.Add(x)
}

// waitingFields describes what was foretold, which is part of a state only where
// there is something.
func (l *Learner) waitingFields(f *state.Fields) {
	if f.Decoding() {
		l.waiting = nil
	}
	if !f.Next("foretold") && (f.Decoding() || len(l.waiting) == 0) {
		return
	}
	const each = numExperts + 1
	var seqs, machines []uint64
	var said []float64
	for i := range l.waiting {
		t := &l.waiting[i]
		seqs, machines = append(seqs, t.seq), append(machines, t.machine)
		said = append(append(said, t.scores[:]...), t.f)
	}
	f.Uint64s("foretold", &seqs)
	f.Uint64s("machines", &machines)
	f.Float64s("said", &said)
	if !f.Decoding() || f.Err() != nil {
		return
	}
	if len(machines) != len(seqs) || len(said) != each*len(seqs) {
		f.Fail("said", errors.New("lengths do not agree"))
		return
	}
	if err := linear.Finite(said); err != nil {
		f.Fail("said", err)
		return
	}
	l.waiting = make([]foretold, len(seqs))
	for i := range l.waiting {
		t := &l.waiting[i]
		t.seq, t.machine = seqs[i], machines[i]
		copy(t.scores[:], said[each*i:])
		t.f = said[each*i+numExperts]
		if i > 0 && t.seq <= seqs[i-1] {
			f.Fail("foretold", errors.New("examples are not in order"))
			return
		}
	}
}
