package adaptive

import "github.com/streamsvm/streamsvm/checkpoint/state"

func (l *Learner) fields(f *state.Fields) {
	l.weightFields(f)
	l.panel.fields(f, func() {
		f.Group("vote", l.vote.fields)
		f.Group("trust", l.trust.fields)
	})
	l.waitingFields(f)
}

// AppendBinary appends the complete state.
func (l *Learner) AppendBinary(dst []byte) ([]byte, error) { return state.Append(dst, l.fields) }

// UnmarshalBinary restores what AppendBinary wrote; after an error the state is
// undefined.
func (l *Learner) UnmarshalBinary(data []byte) error { return state.Decode(data, l.fields) }
