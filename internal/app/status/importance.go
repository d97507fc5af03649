package status

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/events"
	"github.com/streamsvm/streamsvm/internal/app/page"
	"github.com/streamsvm/streamsvm/internal/eval"
	"github.com/streamsvm/streamsvm/internal/rng"
	"github.com/streamsvm/streamsvm/predictor"
	"github.com/streamsvm/streamsvm/stream"
)

const (
	// ImportanceExamples is the number of latest examples that Importance is computed on.
	ImportanceExamples = 500
	mostWork           = 1e10 // multiplications: a second or two
	mostFields         = 64   // fields, or features if there are no fields
	mostRows           = 20
)

// Importance returns the permutation importance of fields or features (Breiman,
// "Random forests", Machine Learning 45, 2001, section 10): how much accuracy the
// model loses when the values of one field are permuted among the examples or, for a
// regression, how much the mean absolute error grows. It returns nil if there are few
// examples or it would take long. Labels are ±1, class numbers or targets.
func Importance(p *predictor.Predictor, xs []stream.Vec, labels []float64) *page.Table {
	names := featureFields(p, xs)
	fields := slices.Compact(slices.Clone(names)) // the features of a field are adjacent
	work := float64(len(xs)) * float64(len(fields)) * float64(max(p.Info().Support, 1)) * float64(len(names))
	if len(xs) < ImportanceExamples/5 || len(fields) > mostFields || work > mostWork {
		return nil
	}
	rows := make([]stream.Vec, len(xs))
	for i, x := range xs {
		rows[i].Val = make([]float32, len(names))
		for k, v := range x.Val {
			if x.Idx != nil {
				k = int(x.Idx[k])
			}
			rows[i].Val[k] = v
		}
	}
	type importance struct {
		field string
		loss  float64
	}
	var list []importance
	order := rng.New(1, "importance").Perm(len(rows))
	before, at := loss(p, rows, labels), 0
	for _, field := range fields {
		end := at
		for end < len(names) && names[end] == field {
			end++
		}
		permuted := make([]stream.Vec, len(rows))
		for i, j := range order {
			permuted[i].Val = slices.Concat(rows[i].Val[:at], rows[j].Val[at:end], rows[i].Val[end:])
		}
		list = append(list, importance{field, loss(p, permuted, labels) - before})
		at = end
	}
	slices.SortStableFunc(list, func(a, b importance) int { return cmp.Compare(b.loss, a.loss) })
	t := &page.Table{
		Title: "Importance", Head: []string{"field", "accuracy lost"},
		Note: fmt.Sprintf("What the last model loses on the latest %d examples, which it has learned from, when the values of one field are exchanged between examples. Small differences are chance. Fields with the same information share their importance.", len(rows)),
	}
	regress := p.Task() == algos.Regress
	if regress {
		t.Head[1] = "added mean absolute error"
	}
	for _, l := range list[:min(len(list), mostRows)] {
		text := eval.Percent(l.loss)
		if regress {
			text = page.Number(l.loss)
		}
		t.Rows = append(t.Rows, []string{page.Clip(l.field, maxName), text})
		t.Heat = append(t.Heat, []float64{0.6 * max(l.loss, 0) / max(list[0].loss, 1e-300)})
	}
	return t
}

// loss returns the share of wrong predictions, or the mean absolute error.
func loss(p *predictor.Predictor, xs []stream.Vec, labels []float64) float64 {
	scores := make([]float64, len(xs))
	p.Decisions(scores, xs)
	if p.Classes() > 2 {
		return float64(eval.EvaluateClasses(scores, labels).Error)
	}
	if t := eval.Evaluate(p.Task() == algos.Regress, scores, labels); t.MAE != nil {
		return float64(*t.MAE)
	} else {
		return float64(t.Error)
	}
}

// featureFields returns the field of each feature; a feature of vectors is a field.
func featureFields(p *predictor.Predictor, xs []stream.Vec) (names []string) {
	if s, err := events.Parse(p.Signature().Schema); p.Signature().Schema != "" && err == nil {
		for i := range s.Fields {
			from, to, _ := s.Range(i)
			names = append(names, slices.Repeat([]string{s.Fields[i].Name}, to-from)...)
		}
	}
	dim := 0
	for _, x := range xs {
		dim = max(dim, x.Dim())
	}
	for k := len(names); k < dim; k++ {
		names = append(names, "feature "+strconv.Itoa(k+1))
	}
	return names
}
