package adaptive

import (
	"fmt"

	"github.com/streamsvm/streamsvm/checkpoint/state"
)

func (l *Learner) fields(f *state.Fields) {
	f.Group("buffer", l.Buffer.Fields)
	f.Group("cutting", l.cutting.Fields)
	f.Group("inputs", l.inputs.fields)
	l.weightFields(f)
	for e := range l.linear {
		f.Group("linear", l.linear[e].fields)
	}
	dim := 0
	if l.waves != nil {
		dim = l.waves.dim
	}
	f.Int("random_features", &dim)
	f.Group("vote", l.vote.fields)
	f.Group("trust", l.trust.fields)
	f.Int("features", &l.dim)
	f.Uint64("tuned", &l.tuned)
	f.Uint64("told", &l.told)
	if f.Decoding() && f.Err() == nil {
		l.evals, l.waves = 0, nil
		switch {
		case dim < 0 || dim > len(l.inputs.mean):
			f.Fail("random_features", fmt.Errorf("of %d features", dim))
			return
		case dim > 0:
			l.waves = newWaves(dim, l.env.Seed)
		}
	}
	for e := range l.machines {
		there := l.machines[e] != nil
		f.Bool("machine", &there)
		if f.Decoding() {
			l.machines[e] = nil
		}
		if !there || f.Err() != nil {
			continue
		}
		if f.Decoding() {
			l.machines[e] = &machine{}
			if e > growing {
				l.machines[e].window = windows[e-k64]
			}
		}
		f.Group("state", func(f *state.Fields) { l.machines[e].fields(f, l.env) })
		if f.Decoding() && f.Err() == nil && (e > growing && l.machines[growing] == nil) {
			f.Fail("machine", fmt.Errorf("%d without the first", e))
		}
	}
	l.waitingFields(f)
}

// AppendBinary appends the complete state.
func (l *Learner) AppendBinary(dst []byte) ([]byte, error) { return state.Append(dst, l.fields) }

// UnmarshalBinary restores what AppendBinary wrote; after an error the state is
// undefined.
func (l *Learner) UnmarshalBinary(data []byte) error { return state.Decode(data, l.fields) }
