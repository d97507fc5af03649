package adaptive

import (
	"fmt"
	"math/bits"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/stream"
)

const (
	defaultEvery = 2500 // examples between versions, if the trainer does not say
	firstVersion = 64
	earlyMost    = 20  // early versions in an interval, in the long run
	judgedFirst  = 512 // examples of a version's life that all judge it
	judgeMost    = 8   // examples that a later one stands for, at most
)

// schedule says when versions begin. The learner must be a function of the stream, so these are
// not the versions that happen to be published: they begin at 64 examples, at each doubling up
// to the publishing interval, and then at multiples of the interval.
//
// After a change, the latest version is wrong for the rest of its life. So a version begins early
// if there has been a change point since the latest one, and again when the sample that the
// change has left is twice as large. In the long run there are at most twenty early versions an
// interval: each takes a twentieth of it from what has been saved, at most a whole one.
type schedule struct {
	every uint64
	began uint64 // examples when the latest version began; 0: none yet
	next  uint64 // examples when the next one is due at the latest
	look  uint64 // examples when due is decided next
	saved uint64 // examples saved for early versions when the latest version began
	cuts  uint64 // change points then
	early uint64 // versions begun before they were due by the interval
}

// changes are the change points of a stream so far.
type changes struct {
	cuts   uint64 // their number
	before uint64 // examples before the sample that the latest one has left
}

func newSchedule(every int) schedule {
	if every <= 0 {
		every = defaultEvery
	}
	return schedule{every: uint64(every), next: firstVersion, look: firstVersion}
}

// life is the number of examples between the latest version and the next, if that is not early.
func (s *schedule) life() float64 { return float64(s.next - s.began) }

// judges returns those of xs that judge the latest version, and for how many examples each of xs
// stands: 0 if it does not judge. xs follow the given number of examples. As losses within a
// version are correlated, a few examples late in its life are enough.
func (s *schedule) judges(xs []*stream.Example, seen uint64) (some []stream.Vec, stands []float64) {
	stands = make([]float64, len(xs))
	stride := min(judgeMost, max(1, uint64(s.life()/effective)))
	for i, x := range xs {
		switch age := seen + uint64(i) - s.began; {
		case age < judgedFirst:
			stands[i] = 1
		case age%stride == chosen(age/stride, stride):
			stands[i] = float64(stride)
		default:
			continue
		}
		some = append(some, x.X)
	}
	return some, stands
}

// chosen returns a number below n that looks random but depends only on its arguments: the bits
// after the point of a multiple of the golden ratio. Every n-th example would never meet some
// phases of a stream that has a period.
func chosen(block, n uint64) uint64 {
	phase, _ := bits.Mul64(block*0x9e3779b97f4a7c15, n)
	return phase
}

// due reports whether a version is due.
func (s *schedule) due(examples uint64, c changes) bool {
	if examples < s.look {
		return false
	}
	changed := c.cuts != s.cuts || c.cuts > 0 && examples-c.before >= 2*(s.began-c.before)
	if examples >= s.next || changed && s.savedBy(examples) >= s.every/earlyMost {
		return true
	}
	s.plan(examples)
	return false
}

// savedBy is what has been saved. A state may come from a run with a longer interval.
func (s *schedule) savedBy(examples uint64) uint64 {
	return min(s.saved+examples-s.began, s.every)
}

// begin begins a version.
func (s *schedule) begin(examples uint64, c changes) {
	s.saved = s.savedBy(examples)
	if examples < s.next {
		s.early++
		s.saved -= s.every / earlyMost
	}
	s.began, s.next, s.cuts = examples, min(2*examples, examples-examples%s.every+s.every), c.cuts
	s.plan(examples)
}

// plan sets look.
func (s *schedule) plan(examples uint64) {
	if s.look = s.next; s.next > s.every {
		s.look = min(s.next, examples+algos.EarlyAfter(s.every))
	}
}

func (s *schedule) fields(f *state.Fields) {
	f.Uint64("look", &s.look)
	f.Uint64("saved", &s.saved)
	f.Uint64("cuts", &s.cuts)
	f.Uint64("early", &s.early)
	if f.Decoding() && f.Err() == nil && (s.look <= s.began || s.look > s.next) {
		f.Fail("look", fmt.Errorf("%d, not from %d to %d", s.look, s.began, s.next))
	}
}
