package promote

import (
	"fmt"
	"time"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/calibrate"
	"github.com/streamsvm/streamsvm/internal/eval"
	"github.com/streamsvm/streamsvm/internal/pipeline"
	"github.com/streamsvm/streamsvm/stream"
)

// Published measures the predictions that a subscriber gets: each example is predicted
// when it arrives, by the latest published version, and scored when its label arrives.
// A replay takes a version after a fixed number of records, or early (Due, Take), a live run
// adopts the versions it publishes (Adopt). This affects neither learning nor the state.
type Published struct {
	every    uint64 // records between versions of a replay; 0 for a live run
	at       uint64 // records at the last version, divided by every
	measures func(window bool) *eval.Prequential

	version  *PublishedVersion
	number   uint64 // of version, also between Fields and Adopt
	versions uint64
	early    uint64 // those of a replay that were due early
	age      uint64 // examples that have arrived since the version
	requests []*Forecast
	xs       []stream.Vec // of requests

	all  *eval.Prequential
	ages [ageBands]*eval.Prequential
	ends [ageBands]uint64 // ages at which the bands end, in examples
}

// ageBands is the number of age bands, which are measured separately.
const ageBands = 4

// liveEnds are the ends of the age bands of a live run, in examples. The last band is
// open.
var liveEnds = [ageBands]uint64{100, 1_000, 10_000, 100_000}

// maxRequests bounds the examples that are predicted in one call.
const maxRequests = 256

// PublishedVersion is a version as a subscriber uses it.
type PublishedVersion struct {
	Number  uint64    // 0 in a replay
	Created time.Time // zero in a replay
	pipe    *pipeline.Pipeline
}

// NewVersion decodes the payload of a full update.
func NewVersion(number uint64, created time.Time, payload []byte) (*PublishedVersion, error) {
	p, err := pipeline.Decode(payload)
	if err != nil {
		return nil, fmt.Errorf("reading back version %d: %w", number, err)
	}
	p.Model = algos.Compiled(p.Model) // as predictor.Follow does
	return &PublishedVersion{number, created, p}, nil
}

// Forecast is the prediction of a published version for one example.
type Forecast struct {
	decision    float64 // or the number of the class
	probability float64 // of the positive label; NaN if not known
	classes     []float64
	age         uint64 // of the version when the example arrived, in examples
	made        bool
}

// NewPublished returns a Published. every is the number of records between versions of
// a replay, 0 for a live run. measures returns empty measures of the task, with a
// window or with the smallest one.
func NewPublished(every uint64, measures func(window bool) *eval.Prequential) *Published {
	p := &Published{every: every, measures: measures, ends: liveEnds}
	p.clear()
	if every > 0 {
		for i := range p.ends {
			p.ends[i] = every * uint64(i+1) / ageBands
		}
	}
	return p
}

func (p *Published) clear() {
	var costs calibrate.Costs
	if p.all != nil {
		costs = p.all.Costs
	}
	p.versions, p.age, p.all = 0, 0, p.measures(true)
	for i := range p.ages {
		p.ages[i] = p.measures(false)
	}
	p.SetCosts(costs)
}

// SetCosts sets the costs of the labels predicted from now on.
func (p *Published) SetCosts(c calibrate.Costs) {
	for _, m := range append(p.ages[:], p.all) {
		m.Costs = c
	}
}

// Arrive is called with the features of each example when it arrives, before
// preprocessing. It returns the prediction to pass to Measure once the label is known,
// or nil if the example will have no label or there is no version yet. It may keep x
// until then.
func (p *Published) Arrive(x stream.Vec, labelled bool) *Forecast {
	p.age++
	if p.version == nil || !labelled {
		return nil
	}
	if len(p.requests) == maxRequests {
		p.predict()
	}
	f := &Forecast{age: p.age - 1}
	p.requests, p.xs = append(p.requests, f), append(p.xs, x)
	return f
}

// predict makes the predictions requested so far.
func (p *Published) predict() {
	if len(p.requests) == 0 {
		return
	}
	a := Predict(p.version.pipe, p.xs)
	for i, f := range p.requests {
		f.decision, f.probability = a.Of(i)
		if a.K > 1 && a.Pipe.Softmax != nil {
			f.classes = make([]float64, a.K)
			a.Pipe.Softmax.Probabilities(f.classes, a.V[i*a.K:(i+1)*a.K])
		}
		f.made = true
	}
	clear(p.requests)
	clear(p.xs)
	p.requests, p.xs = p.requests[:0], p.xs[:0]
}

// Measure scores a prediction that Arrive has returned.
func (p *Published) Measure(f *Forecast, y float64) {
	if f == nil {
		return
	}
	if !f.made {
		p.predict()
	}
	band := 0
	for band < ageBands-1 && f.age >= p.ends[band] {
		band++
	}
	for _, m := range []*eval.Prequential{p.all, p.ages[band]} {
		m.Add(f.decision, y)
		if len(f.classes) > 0 {
			m.AddProbabilities(f.classes, int(y))
		} else if f.probability == f.probability {
			m.AddProbability(f.probability, y > 0)
		}
	}
}

// Due reports whether a replay publishes a version after this number of records.
func (p *Published) Due(records uint64) bool { return p.every > 0 && records/p.every != p.at }

// Take makes the model after this number of records the latest version; nil is no model.
// All work due by then must have been done.
func (p *Published) Take(records uint64, model *pipeline.Pipeline) error {
	early := !p.Due(records)
	p.at = records / p.every
	if model == nil {
		return nil
	}
	payload, err := model.Pack().AppendBinary(nil)
	if err != nil {
		return fmt.Errorf("encoding the version after %d records: %w", records, err)
	}
	v, err := NewVersion(0, time.Time{}, payload)
	if err != nil {
		return fmt.Errorf("the version after %d records: %w", records, err)
	}
	p.put(v)
	if early {
		p.early++
	}
	return nil
}

// Adopt makes v the version of a live run that predicts from now on. After a restart, v
// is the version that was in use, published again.
func (p *Published) Adopt(v *PublishedVersion) {
	if v.Number == p.number {
		p.version = v
		return
	}
	p.put(v)
}

func (p *Published) put(v *PublishedVersion) {
	p.predict()
	p.version, p.number, p.age = v, v.Number, 0
	p.versions++
}

// Fields describes the part of a live run that checkpoints keep: the measures, and the
// predictions for the examples that wait for their labels, nil if there is none. The
// version itself is published again after a restart.
func (p *Published) Fields(f *state.Fields, waiting []*Forecast) {
	if f.Decoding() {
		p.clear()
	} else {
		p.predict()
	}
	f.Uint64("version", &p.number)
	f.Uint64("versions", &p.versions)
	f.Uint64("age", &p.age)
	f.Group("measures", p.all.Fields)
	for _, m := range p.ages {
		f.Group("band", m.Fields)
	}
	f.List("waiting", len(waiting), 1, func(n int) {
		if n != len(waiting) {
			f.Fail("waiting", fmt.Errorf("%d predictions for %d examples", n, len(waiting)))
		}
	}, func(f *state.Fields, i int) {
		if f.Err() != nil {
			return
		}
		there := waiting[i] != nil
		if f.Bool("there", &there); !there || f.Err() != nil {
			return
		}
		if f.Decoding() {
			waiting[i] = &Forecast{made: true}
		}
		v := waiting[i]
		f.Float64("decision", &v.decision)
		f.Float64("probability", &v.probability)
		f.Float64s("classes", &v.classes)
		f.Uint64("age", &v.age)
	})
}

// PublishedReport describes the predictions of published versions.
type PublishedReport struct {
	Every    uint64 `json:"every"`           // records; 0 for a live run
	Versions uint64 `json:"versions"`        // published so far
	Early    uint64 `json:"early,omitempty"` // those of a replay that a change has made due early
	Examples uint64 `json:"examples"`        // labelled ones that a version has predicted
	eval.Summary
	// ByAge has the measures by the age of the version, youngest first: for each quarter
	// of the interval of a replay, by powers of ten for a live run.
	ByAge []AgeReport `json:"by_age"`
	// Version is the version in use in a live run, 0 if there is none, Created the time
	// when it was made, and Age the number of examples that have arrived since.
	Version uint64    `json:"version,omitempty"`
	Created time.Time `json:"created,omitzero"`
	Age     uint64    `json:"-"`
}

// AgeReport describes the predictions of versions in an age band.
type AgeReport struct {
	To       uint64 `json:"to"` // examples since the version, exclusive; the last band is open
	Examples uint64 `json:"examples"`
	eval.Measures
}

// Final is Report with a confidence interval.
func (p *Published) Final(names []string) *PublishedReport {
	r := p.Report(names)
	r.Interval = p.all.Final().Interval
	return r
}

// Report returns the measures over the examples scored so far. names are the names of
// the classes.
func (p *Published) Report(names []string) *PublishedReport {
	r := &PublishedReport{Every: p.every, Versions: p.versions, Early: p.early, Examples: p.all.Examples(), Summary: p.all.Summary(), Age: p.age}
	if v := p.version; v != nil {
		r.Version, r.Created = v.Number, v.Created
	}
	r.Summary.Name(names)
	for i, m := range p.ages {
		r.ByAge = append(r.ByAge, AgeReport{p.ends[i], m.Examples(), m.Summary().Measures})
		eval.Name(r.ByAge[i].Classes, names)
	}
	return r
}

// List lists the measures for publication, as eval.Prequential.Measures does.
func (r *PublishedReport) List(classes bool) []stream.Measure {
	list := []stream.Measure{{Name: "published_examples", Value: float64(r.Examples)}}
	for _, over := range []struct {
		*eval.Measures
		suffix string
	}{{&r.Summary.Measures, ""}, {&r.Window.Measures, "_window"}} {
		for _, m := range over.List(classes) {
			list = append(list, stream.Measure{Name: "published_" + m.Name + over.suffix, Value: m.Value})
		}
	}
	return list
}
