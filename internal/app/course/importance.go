package course

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/events"
	"github.com/streamsvm/streamsvm/internal/app/chart"
	"github.com/streamsvm/streamsvm/internal/eval"
	"github.com/streamsvm/streamsvm/internal/rng"
	"github.com/streamsvm/streamsvm/predictor"
	"github.com/streamsvm/streamsvm/stream"
)

const (
	// Latest is how many examples say how important fields are.
	Latest = 500
	// mostWork bounds the multiplications that this takes: a second or two.
	mostWork  = 1e10
	mostAsked = 64 // fields, or features where they have no fields
)

// Importance explains a model by the accuracy that it loses on examples when the
// values of one field, or of one feature, are exchanged between them (permutation
// importance: Breiman, "Random forests", Machine Learning 45, 2001, section 10);
// of a regression, by how much larger the mean absolute error is. It returns nil
// where that would take long, or there are few examples. The labels are ±1,
// numbers of classes, or targets.
func Importance(p *predictor.Predictor, xs []stream.Vec, labels []float64) *chart.Table {
	info, names := p.Info(), owners(p)
	most := len(names)
	for _, x := range xs {
		most = max(most, x.Dim())
	}
	for k := len(names); k < most; k++ { // features without a field
		names = append(names, "feature "+strconv.Itoa(k+1))
	}
	fields := slices.Compact(slices.Clone(names))
	work := float64(len(xs)) * float64(len(fields)) * float64(max(info.Support, 1)) * float64(len(names))
	if len(xs) < Latest/5 || len(fields) > mostAsked || work > mostWork {
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
	loss := func() float64 {
		scores := make([]float64, len(rows))
		p.Decisions(scores, rows)
		switch {
		case p.Task() == algos.Regress:
			return float64(*eval.Evaluate(true, scores, labels).MAE)
		case p.Classes() > 2:
			return float64(eval.EvaluateClasses(scores, labels).Error)
		}
		return float64(eval.Evaluate(false, scores, labels).Error)
	}
	before := loss()
	order := rng.New(1, "importance").Perm(len(rows))
	type importance struct {
		field string
		lost  float64
	}
	var list []importance
	kept := make([]float32, len(rows))
	exchange := func(k int, back bool) {
		for i := range rows {
			kept[i] = rows[i].Val[k]
		}
		for i, j := range order {
			if back {
				i, j = j, i
			}
			rows[i].Val[k] = kept[j]
		}
	}
	for at := 0; at < len(names); {
		end := at + 1
		for end < len(names) && names[end] == names[at] {
			end++
		}
		for k := at; k < end; k++ {
			exchange(k, false)
		}
		list = append(list, importance{names[at], loss() - before})
		for k := at; k < end; k++ {
			exchange(k, true)
		}
		at = end
	}
	slices.SortStableFunc(list, func(a, b importance) int { return cmp.Compare(b.lost, a.lost) })
	t := &chart.Table{
		Title: "Importance", Head: []string{"field", "accuracy lost"},
		Note: fmt.Sprintf("What the last model loses on the latest %d examples, which it has learned from, when the values of one field are exchanged between them. Small differences are chance; fields that say the same share what they are worth.", len(rows)),
	}
	if p.Task() == algos.Regress {
		t.Head[1] = "added mean absolute error"
	}
	for _, l := range list[:min(len(list), maxWeights)] {
		text := eval.Percent(l.lost)
		if p.Task() == algos.Regress {
			text = number(l.lost)
		}
		t.Rows = append(t.Rows, []string{clip(l.field, longest), text})
		heat := 0.
		if l.lost > 0 {
			heat = 0.6 * l.lost / list[0].lost
		}
		t.Heat = append(t.Heat, []float64{heat})
	}
	return t
}

// owners returns the field of each feature of events, nil where there are none.
func owners(p *predictor.Predictor) []string {
	if schema := p.Signature().Schema; schema != "" {
		if s, err := events.Parse(schema); err == nil { // it has been read before
			return s.Owners()
		}
	}
	return nil
}
