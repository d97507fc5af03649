package promote

import (
	"fmt"

	"github.com/streamsvm/streamsvm/internal/eval"
	"github.com/streamsvm/streamsvm/internal/pipeline"
	"github.com/streamsvm/streamsvm/stream"
)

// Published measures what a subscriber gets: the predictions of the version published
// last, on the examples that come after it. A version is published after every so many
// records. It has no influence on what is learned and is not part of the state.
type Published struct {
	every    uint64
	now      func() *eval.Prequential
	version  *snapshot
	at       uint64 // records, when the version was published, divided by every
	versions uint64
	since    uint64 // labelled examples since the version
	pending  []stream.Example
	all      *eval.Prequential
	ages     [ageBands]*eval.Prequential
	byAge    [ageBands]uint64 // ages at which the bands end, in labelled examples
}

// ageBands is the number of bands of age that are measured one by one.
const ageBands = 4

// NewPublished returns a Published with a version after every so many records. measures
// returns empty measures of the task.
func NewPublished(every uint64, measures func() *eval.Prequential) *Published {
	p := &Published{every: every, now: measures, all: measures()}
	for i := range p.ages {
		p.ages[i], p.byAge[i] = measures(), every*uint64(i+1)/ageBands
	}
	return p
}

// Add takes a labelled example as it came, before preprocessing, and keeps its vector
// until Score. Others are ignored.
func (p *Published) Add(x *stream.Example) {
	if x.Labelled {
		p.pending = append(p.pending, stream.Example{X: x.X, Y: x.Y})
	}
}

// Score scores the examples added.
func (p *Published) Score() {
	if p.version != nil && len(p.pending) > 0 {
		xs := make([]stream.Vec, len(p.pending))
		for i := range xs {
			xs[i] = p.pending[i].X
		}
		a := predict(p.version, xs)
		for i := range p.pending {
			band := 0
			for band < ageBands-1 && p.since >= p.byAge[band] {
				band++
			}
			p.since++
			a.measureAll(p.all, i, p.pending[i].Y)
			a.measureAll(p.ages[band], i, p.pending[i].Y)
		}
	}
	clear(p.pending)
	p.pending = p.pending[:0]
}

// measureAll is measure, with the probabilities of more than two classes.
func (a *predictions) measureAll(m *eval.Prequential, i int, y float64) {
	a.measure(m, i, y)
	if a.k > 1 && a.pipe.Softmax != nil {
		q := make([]float64, a.k)
		a.pipe.Softmax.Probabilities(q, a.v[i*a.k:(i+1)*a.k])
		m.AddProbabilities(q, int(y))
	}
}

// Due reports whether a version is due after so many records.
func (p *Published) Due(records uint64) bool { return records/p.every != p.at }

// Take publishes the model after so many records; nil is no model. All work that is due
// by then must have been done.
func (p *Published) Take(records uint64, model *pipeline.Pipeline) error {
	p.at = records / p.every
	if model == nil {
		return nil
	}
	payload, err := model.AppendBinary(nil)
	if err != nil {
		return fmt.Errorf("encoding the version after %d records: %w", records, err)
	}
	s := &snapshot{examples: records}
	if s.pipe, err = pipeline.Decode(payload); err != nil {
		return fmt.Errorf("the version after %d records: %w", records, err)
	}
	p.version, p.since = s, 0
	p.versions++
	return nil
}

// PublishedReport describes the predictions of published versions.
type PublishedReport struct {
	Every    uint64 `json:"every"`    // records
	Versions uint64 `json:"versions"` // published so far
	Examples uint64 `json:"examples"` // labelled ones that a version has predicted
	eval.Summary
	// ByAge has the measures of each quarter of the interval, the youngest first.
	ByAge []AgeReport `json:"by_age"`
}

// AgeReport describes the predictions of versions of up to an age.
type AgeReport struct {
	To       uint64 `json:"to"` // labelled examples since the version, exclusive; the last band is open
	Examples uint64 `json:"examples"`
	eval.Measures
}

// Report returns the measures over the examples scored so far. names are those of the
// classes.
func (p *Published) Report(names []string) *PublishedReport {
	r := &PublishedReport{Every: p.every, Versions: p.versions, Examples: p.all.Examples(), Summary: p.all.Final()}
	r.Summary.Name(names)
	for i, m := range p.ages {
		r.ByAge = append(r.ByAge, AgeReport{p.byAge[i], m.Examples(), m.Summary().Measures})
		eval.Name(r.ByAge[i].Classes, names)
	}
	return r
}
