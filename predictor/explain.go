package predictor

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/streamsvm/streamsvm/events"
	"github.com/streamsvm/streamsvm/stream"
)

// Contribution is how much a field of a record adds to its prediction.
type Contribution struct {
	// Feature is the name of the field or, for vectors, of the feature: "feature 1" for
	// the first one if it has no name.
	Feature string
	// Value is the prediction for the record minus the prediction with this field
	// occluded. For two classes the prediction is Prediction.Score, for more the log odds
	// of the predicted class against all others, for a regression the number.
	Value float64
}

// maxExplained is the most fields of a record to explain: each takes a prediction.
const maxExplained = events.MaxFields

// Explain returns the contributions to the prediction for a record, largest magnitude
// first and without zeros.
//
// It works for every model, by occlusion: each field in turn is replaced by a neutral
// value. A number becomes its mean, since a model of scaled numbers takes it for 0. A
// category, text or time has no mean, and its most frequent value would carry information,
// so none of its features is set. A missing value contributes the effect of its absence.
// A feature of a vector becomes its mean, if the model or its preprocessing knows it, or 0.
//
// For a linear model, Value is the weight times the difference between the preprocessed
// value and the preprocessed mean, and the contributions sum to the score minus
// Prediction.Constant. In other models, an interaction between fields counts in several
// contributions or in none.
func (s *Scorer) Explain(record []byte) ([]Contribution, error) {
	p, err := s.one(record, Batch{Contributions: math.MaxInt})
	if err == nil && p.Contributions == nil {
		err = fmt.Errorf("the record has more than %d features to explain", maxExplained)
	}
	return p.Contributions, err
}

// A part is a set of features that are occluded together: the features of a field.
type part struct {
	name     string
	from, to int
	means    []float64 // of the first features; 0 for the others
}

// occlusion knows how to occlude parts of records.
type occlusion struct {
	fields []part    // of events
	names  []string  // of the features of vectors
	means  []float64 // of these
}

func newOcclusion(p *Predictor) *occlusion {
	sig := p.Signature()
	if sig.Schema == "" {
		return &occlusion{names: sig.Features(), means: p.means()}
	}
	schema, err := events.Parse(sig.Schema)
	o := new(occlusion)
	for i := 0; err == nil && i < len(schema.Fields); i++ { // the codec has read the schema
		f := &schema.Fields[i]
		if from, to, means := schema.Range(i); from < to {
			o.fields = append(o.fields, part{f.Name, from, to, means})
		}
	}
	return o
}

// means returns the mean of each feature of vectors: what the preprocessing subtracts, or
// the means that the model knows; nil if neither is known.
func (p *Predictor) means() []float64 {
	if m := p.pipe.Transform.Shift(); m != nil || p.HashDim() > 0 {
		return m
	}
	if m, ok := p.pipe.Model.(interface{ Means() []float64 }); ok {
		return m.Means()
	}
	return nil
}

// parts returns the parts of x, for vectors without features that are 0 and have no mean.
func (o *occlusion) parts(x stream.Vec) (list []part) {
	if o.fields != nil {
		return o.fields
	}
	add := func(j int) {
		f := part{"feature " + strconv.Itoa(j+1), j, j + 1, o.means[min(j, len(o.means)):min(j+1, len(o.means))]}
		if j < len(o.names) {
			f.name = o.names[j]
		}
		list = append(list, f)
	}
	for j := range o.means {
		add(j)
	}
	for k, v := range x.Val {
		j := k
		if x.Idx != nil {
			j = int(x.Idx[k])
		}
		if v != 0 && j >= len(o.means) {
			add(j)
		}
	}
	return list
}

// occlude returns a copy of x in which the part is occluded.
func (f *part) occlude(x stream.Vec) stream.Vec {
	if x.Idx == nil {
		y := slices.Clone(x.Val)
		hidden := y[min(f.from, len(y)):min(f.to, len(y))]
		clear(hidden)
		for k, v := range f.means[:min(len(f.means), len(hidden))] {
			hidden[k] = float32(v)
		}
		return stream.Vec{Val: y}
	}
	from, _ := slices.BinarySearch(x.Idx, int32(f.from))
	to, _ := slices.BinarySearch(x.Idx, int32(f.to))
	y := stream.Vec{Idx: slices.Clone(x.Idx[:from]), Val: slices.Clone(x.Val[:from])}
	for k, v := range f.means {
		if v != 0 {
			y.Idx, y.Val = append(y.Idx, int32(f.from+k)), append(y.Val, float32(v))
		}
	}
	y.Idx, y.Val = append(y.Idx, x.Idx[to:]...), append(y.Val, x.Val[to:]...)
	return y
}

// explain sets the contributions of the prediction for x: at most most of them.
func (s *Scorer) explain(ctx context.Context, p *Prediction, x stream.Vec, most int) {
	parts := s.records.occlusion().parts(x)
	if len(parts) > maxExplained || ctx.Err() != nil {
		return
	}
	none := x
	for i := range parts {
		none = parts[i].occlude(none)
	}
	f := s.explained([]stream.Vec{x, none}, p)
	list := make([]Contribution, 0, len(parts))
	for some := range slices.Chunk(parts, 4*share) {
		xs := make([]stream.Vec, len(some))
		for i := range some {
			xs[i] = some[i].occlude(x)
		}
		for i, v := range s.explained(xs, p) {
			if v != f[0] {
				list = append(list, Contribution{some[i].name, f[0] - v})
			}
		}
	}
	slices.SortStableFunc(list, func(a, b Contribution) int { return cmp.Compare(math.Abs(b.Value), math.Abs(a.Value)) })
	p.Contributions, p.Constant = list[:min(len(list), most)], f[1]
}

// explained returns, for each vector, the number that contributions to p add up to.
func (s *Scorer) explained(xs []stream.Vec, p *Prediction) []float64 {
	f := make([]float64, len(xs))
	k := s.version.Classes()
	if k <= 2 {
		s.version.Decisions(f, xs)
		return f
	}
	scores := make([]float64, k*len(xs))
	s.version.Scores(scores, xs)
	for i := range f {
		f[i] = s.version.logOdds(scores[k*i:k*i+k], int(p.Value))
	}
	return f
}

// logOdds returns the log odds of a class against all others, given the scores.
func (p *Predictor) logOdds(scores []float64, class int) float64 {
	unit := 1.0
	if m := p.pipe.Softmax; m != nil {
		unit = m.Slope / m.Scale
	}
	top, sum := math.Inf(-1), 0.0
	for k, v := range scores {
		if k != class {
			top = max(top, v)
		}
	}
	for k, v := range scores {
		if k != class {
			sum += math.Exp(unit * (v - top))
		}
	}
	return float64(unit*(scores[class]-top)) - math.Log(sum)
}
