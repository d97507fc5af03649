package adaptive

import (
	"slices"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/linear"
)

// mixer combines the experts' scores to log odds: for the next example, and in published for
// later ones.
type mixer struct {
	calibrators [][]*calibrator // by lane and expert
	stack       *stack
	shares      shares // weights of probabilities; two classes only
	published   *published

	x         [][]float64 // scratch, by lane
	f, likely []float64
}

func newMixer(env algos.Env, lanes int, experts []entry) *mixer {
	n := len(experts)
	m := &mixer{stack: newStack(n+1, ownSpread, ownKeep), published: newPublished(env.PublishEvery, lanes, experts), likely: make([]float64, n)}
	for e := range n {
		m.stack.w[e] = 1 / float64(n)
	}
	m.shares = newShares(slices.Repeat([]float64{1 / float64(n)}, n))
	m.grow(lanes)
	return m
}

// grow adds lanes until there are as many as lanes.
func (m *mixer) grow(lanes int) {
	n := len(m.likely)
	m.calibrators = append(m.calibrators, newCalibrators(lanes-len(m.calibrators), n)...)
	m.x, m.f = newRows(lanes, n+1), make([]float64, lanes)
	m.published.grow(lanes)
}

// predict returns the log odds of each lane for the experts' scores, valid until the next call.
func (m *mixer) predict(scores [][]score) []float64 {
	mixInto(m.f, m.stack.w, logOddsOf(m.x, scores, m.calibrators))
	return m.f
}

// learn updates weights and calibrations with an example. scores are the experts' scores, old
// those of the latest version, for which the example stands for a number of examples, and out is
// what its rules gave; see published.learn.
func (m *mixer) learn(scores, old [][]score, out outputs, y int, weight, stands float64) {
	x := logOddsOf(m.x, scores, m.calibrators)
	m.stack.learn(x, y, weight)
	if len(x) == 1 {
		for e, v := range x[0][:len(m.likely)] {
			loss := bounded(logLoss([]float64{v}, y), mostLogLoss)
			m.likely[e] = linear.ExpNeg(float64(weight * max(loss, leastLoss)))
		}
		m.shares.learn(m.likely, weight)
	}
	learnCalibrations(m.calibrators, scores, y, ownForget, ownOffset, weight, m.f)
	m.published.learn(old, out, y, weight*stands)
	learnCalibrations(m.published.calibrators, scores, y, slowForget, 1, weight, m.f)
}

// Bounds of an expert's loss for fixed share, so that an expert that has failed badly can
// recover.
const (
	leastLoss   = 0.020202707317519466 // −ln 0.98
	mostLogLoss = 3.912023005428146    // −ln 0.02
)

// center returns the log odds of each lane for the classes' rates, given the log odds of each
// class against the rest.
func (m *mixer) center(odds ...float64) []float64 {
	if len(odds) > 1 {
		for k, v := range odds {
			odds[k] = -linear.Softplus(-v)
		}
	}
	return odds
}

func calibratorFields(f *state.Fields, list [][]*calibrator) {
	for _, lane := range list {
		for _, c := range lane {
			f.Group("calibration", c.fields)
		}
	}
}

func (m *mixer) fields(f *state.Fields) {
	calibratorFields(f, m.calibrators)
	f.Group("stack", m.stack.fields)
	if len(m.x) == 1 {
		f.Group("shares", m.shares.fields)
	}
	f.Group("published", m.published.fields)
}
