package adaptive

import (
	"fmt"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/expansion"
	"github.com/streamsvm/streamsvm/stream"
)

// guesser is the model of the panel for numbers: f(x) = Σ_e w_e f_e(x).
type guesser struct {
	parts
	labels labels
}

// Model returns a view of the present panel.
func (l *regressor) Model() algos.Model {
	return &guesser{l.parts(l.average.weights()), l.labels}
}

// Decision returns f(x).
func (m *guesser) Decision(x stream.Vec) float64 { return decision(m, x) }

// Decisions sets dst[i] = f(xs[i]).
func (m *guesser) Decisions(dst []float64, xs []stream.Vec) {
	var scores [numGuessers]float64
	m.predict(scores[:], xs, m.labels.mean, func(i int) {
		scores[last], scores[mean] = m.labels.last, m.labels.mean
		dst[i] = weighted(m.weights, scores[:])
	})
}

// Info describes the model.
func (m *guesser) Info() algos.Info { return m.info(guesserNames) }

// Compile returns the same function in a form that decides faster.
func (m *guesser) Compile() algos.Model {
	c := *m
	c.machinesAs((*expansion.Expansion).Compile)
	return &c
}

// Pack returns the form that is published, in fewer bytes.
func (m *guesser) Pack() algos.Model {
	c := *m
	c.machinesAs((*expansion.Expansion).Pack)
	return &c
}

// guesserWeights is the first field of an encoded guesser, by which it is known
// from a mixture.
const guesserWeights = "average"

func (m *guesser) fields(f *state.Fields) {
	f.Float64s(guesserWeights, &m.weights)
	if f.Decoding() && f.Err() == nil && len(m.weights) != numGuessers {
		f.Fail(guesserWeights, fmt.Errorf("%d for %d experts", len(m.weights), numGuessers))
		return
	}
	f.Group("labels", m.labels.fields)
	m.parts.fields(f)
	if f.Decoding() && f.Err() == nil {
		f.Fail(guesserWeights, m.check())
	}
}

// AppendBinary appends the encoded model.
func (m *guesser) AppendBinary(dst []byte) ([]byte, error) { return state.Append(dst, m.fields) }
