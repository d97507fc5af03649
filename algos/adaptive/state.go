package adaptive

import (
	"fmt"
	"math"

	"github.com/streamsvm/streamsvm/checkpoint/state"
)

func (l *Learner) fields(f *state.Fields) {
	f.Float64("heaviest", &l.heaviest)
	if f.Decoding() && f.Err() == nil && !(l.heaviest == 0 || l.heaviest >= 1 && l.heaviest < math.Inf(1)) {
		f.Fail("heaviest", fmt.Errorf("%g is not a weight of at least 1", l.heaviest))
	}
	l.panel.fields(f, func() {
		for e := range l.calibrators {
			f.Group("calibration", l.calibrators[e].fields)
		}
		f.Group("stack", l.stack.fields)
		f.Group("shares", l.shares.fields)
		f.Group("published", l.published.fields)
	})
	for _, e := range l.experts {
		f.Group("expert", e.fields)
	}
	l.pendingFields(f)
}

// AppendBinary appends the complete state.
func (l *Learner) AppendBinary(dst []byte) ([]byte, error) { return state.Append(dst, l.fields) }

// UnmarshalBinary restores what AppendBinary wrote; after an error the state is
// undefined.
func (l *Learner) UnmarshalBinary(data []byte) error { return state.Decode(data, l.fields) }
