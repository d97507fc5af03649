package adaptive

import (
	"context"
	"math"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/stream"
)

// Experts of a regression: those of the classifier, and two that know no
// features.
const (
	last = numExperts + iota // the number that came last
	mean                     // the mean so far
	numGuessers
)

var guesserNames = append(names[:], "last", "mean")

// regressor is the panel for numbers. Its machines are kernel ridge regressions
// whatever the loss, which is that of the other experts and of the average, and so
// is the growing one, which slides once it holds as many examples as it may. Not
// safe for concurrent use.
type regressor struct {
	*panel
	labels  labels
	average *average

	scores [numGuessers]float64 // scratch
}

var (
	_ algos.Sequential    = (*regressor)(nil)
	_ algos.DriftReporter = (*regressor)(nil)
)

func newRegressor(env algos.Env, o options, s *sizes) (algos.Learner, error) {
	absolute := o.Loss == "absolute"
	l := &regressor{average: newAverage(absolute)}
	var err error
	l.panel, err = makePanel(env, o, s, s.held, l, func(x onePass) linearLearner {
		return &follower{onePass: x, absolute: absolute, labels: &l.labels}
	})
	return l, err
}

func (l *regressor) look(xs []*stream.Example) int {
	l.scoreMachines(xs)
	return len(xs)
}

func (*regressor) learned() error { return nil }

// one predicts an example, whose predictions by machines are known, and learns
// from it.
func (l *regressor) one(i int, x *stream.Example) (float64, error) {
	z, phi := l.see(x)
	l.scoresOf(l.scores[:], i, z, phi, l.labels.mean)
	l.scores[last], l.scores[mean] = l.labels.last, l.labels.mean
	f := weighted(l.average.weights(), l.scores[:])
	if l.machines[growing] != nil {
		var d [k2048]float64
		for k := range d {
			d[k] = better(l.scores[k64+k]-x.Y, l.scores[growing]-x.Y)
		}
		l.compare(d)
	}
	l.average.learn(l.scores[:], f, x.Y)
	l.labels.learn(x.Y)
	wide := l.inputs.wide
	return f, l.take(x, func() error {
		if l.inputs.wide != wide { // it has just been found to be wide
			z, phi = l.see(x)
			clear(l.scores[l1:numExperts])
		}
		for e, o := range l.linear {
			if z := inputOf(l1+e, z, phi); z != nil {
				o.learn(*z, l.scores[l1+e], x.Y, x.Importance())
			}
		}
		return nil
	})
}

func (l *regressor) turn(context.Context) error { return nil }
func (l *regressor) widen()                     {}

// better is 1 where the first error is the smaller one, −1 where it is the
// larger one.
func better(a, b float64) float64 {
	switch a, b := math.Abs(a), math.Abs(b); {
	case a < b:
		return 1
	case a > b:
		return -1
	}
	return 0
}

// Report describes the present state.
func (l *regressor) Report() algos.Report { return l.report(guesserNames, l.average.weights()) }

func (l *regressor) fields(f *state.Fields) {
	l.panel.fields(f, func() {
		f.Group("labels", l.labels.fields)
		f.Group("average", l.average.fields)
	})
}

// AppendBinary appends the complete state.
func (l *regressor) AppendBinary(dst []byte) ([]byte, error) { return state.Append(dst, l.fields) }

// UnmarshalBinary restores what AppendBinary wrote; after an error the state is
// undefined.
func (l *regressor) UnmarshalBinary(data []byte) error { return state.Decode(data, l.fields) }
