package adaptive

import (
	"fmt"
	"math"

	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/compare"
)

func (l *Learner) fields(f *state.Fields) {
	f.Float64("heaviest", &l.maxWeight)
	if f.Decoding() && f.Err() == nil && !(l.maxWeight == 0 || l.maxWeight >= 1 && l.maxWeight < math.Inf(1)) {
		f.Fail("heaviest", fmt.Errorf("%g is not a weight of at least 1", l.maxWeight))
	}
	for k := range l.meanWeights {
		b := &l.meanWeights[k]
		f.Float64("weighed", &b.n)
		f.Float64("mean", &b.mean)
		if f.Decoding() && f.Err() == nil && !(b.n >= 0 && b.n < math.Inf(1) && (b.n == 0 || b.mean > 0) && b.mean < math.Inf(1)) {
			f.Fail("mean", fmt.Errorf("%g of %g", b.mean, b.n))
		}
	}
	var other *compare.Detector
	if l.first != nil {
		other = l.first.detector
	}
	l.panel.fields(f, func(f *state.Fields) { l.detector.FieldsBeside(f, other) }, func() {
		if l.mixer != nil {
			l.mixer.fields(f)
		}
		if l.numbers != nil {
			f.Group("numbers", l.numbers.fields)
		}
		l.versionFields(f)
	})
	for _, e := range l.experts {
		fields := e.fields
		if near, ok := e.expert.(*nearExpert); ok && !near.second && l.first != nil {
			fields = func(f *state.Fields) { near.fieldsBeside(f, l.first.near()) }
		}
		f.Group("expert", fields)
	}
	l.pendingFields(f)
}

// versionFields describes the latest version.
func (l *Learner) versionFields(f *state.Fields) {
	there := l.version != nil
	f.Bool("version", &there)
	if f.Decoding() {
		l.version, l.place = nil, make([]int, len(l.experts))
	}
	if !there || f.Err() != nil {
		return
	}
	if f.Decoding() {
		l.version = new(ensemble)
	}
	f.Group("version", l.version.fields)
	if f.Decoding() && f.Err() == nil && l.first == nil { // points of other classes follow
		f.Fail("version", complete(l.version))
	}
	for e := range l.place {
		f.Int("place", &l.place[e])
		if k := l.place[e]; f.Decoding() && f.Err() == nil && (k < -1 || k >= len(l.version.members)) {
			f.Fail("place", fmt.Errorf("expert %d of %d", k, len(l.version.members)))
		}
	}
}

// AppendBinary appends the complete state.
func (l *Learner) AppendBinary(dst []byte) ([]byte, error) { return state.Append(dst, l.fields) }

// UnmarshalBinary restores what AppendBinary wrote; after an error the state is
// undefined.
func (l *Learner) UnmarshalBinary(data []byte) error { return state.Decode(data, l.fields) }
