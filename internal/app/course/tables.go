package course

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/streamsvm/streamsvm/events"
	"github.com/streamsvm/streamsvm/internal/app/chart"
	"github.com/streamsvm/streamsvm/internal/eval"
	"github.com/streamsvm/streamsvm/stream/codec"
)

// mostClasses bounds the classes that are shown one by one.
const mostClasses = 20

// Tables returns tables of classes, of what is taken for what, of the fields of
// events and of weights, as far as there are any.
func (n *Now) Tables() (list []chart.Table) {
	if n.Scored > 0 && n.Summary.MAE == nil {
		list = append(list, n.classes(), n.confusion())
	}
	if len(n.Fields) > 0 {
		list = append(list, n.fields())
	}
	if len(n.Weights) > 0 {
		list = append(list, n.weights())
	}
	return list
}

// classes says how well each class is told, the most frequent ones first if there
// are many.
func (n *Now) classes() chart.Table {
	last := "last " + strconv.Itoa(n.Summary.Window.Examples)
	t := chart.Table{Title: "Classes", Head: []string{"class", "examples", "recall", "precision", last, "recall", "precision"}}
	all, window := perClass(&n.Summary.Measures, n.Classes), perClass(&n.Summary.Window.Measures, n.Classes)
	order := mostFrequent(all)
	if len(order) <= mostClasses {
		slices.Sort(order)
	}
	for i, k := range order {
		if i == mostClasses {
			t.Note = fmt.Sprintf("And %d classes more.", len(order)-i)
			break
		}
		c, w := all[k], eval.Class{Recall: eval.Number(math.NaN()), Precision: eval.Number(math.NaN())}
		if k < len(window) {
			w = window[k]
		}
		t.Rows = append(t.Rows, []string{clip(c.Label, longest), fmt.Sprint(c.Examples), eval.Percent(c.Recall), eval.Percent(c.Precision), fmt.Sprint(w.Examples), eval.Percent(w.Recall), eval.Percent(w.Precision)})
	}
	return t
}

// confusion counts what is taken for what over the window. Of many classes those
// that are less frequent are one.
func (n *Now) confusion() chart.Table {
	w := &n.Summary.Window
	list := perClass(&w.Measures, n.Classes)
	hits := w.Confusion
	if w.Classes == nil {
		for k := range w.Hits {
			hits = append(hits, w.Hits[k][:])
		}
	}
	const most = 12
	order, place := mostFrequent(list), make([]int, len(list))
	if len(list) <= most {
		slices.Sort(order)
	}
	t := chart.Table{Title: fmt.Sprintf("Predicted, last %d examples", w.Examples), Head: []string{"class"}, Note: "A row is what the examples of a class were taken for."}
	size := min(len(list), most)
	for i, k := range order {
		place[k] = min(i, most-1)
		if i < size {
			t.Head = append(t.Head, clip(list[k].Label, longest/3))
		}
	}
	if len(list) > most {
		t.Head[most] = "others"
	}
	count := make([][]uint64, size)
	for i := range count {
		count[i] = make([]uint64, size)
	}
	for y, row := range hits {
		for p, c := range row {
			count[place[y]][place[p]] += c
		}
	}
	for i, row := range count {
		cells, heat, sum := []string{t.Head[1+i]}, make([]float64, size), 0.
		for _, c := range row {
			sum += float64(c)
		}
		for p, c := range row {
			cells = append(cells, fmt.Sprint(c))
			heat[p] = 0.6 * float64(c) / math.Max(sum, 1)
		}
		t.Rows, t.Heat = append(t.Rows, cells), append(t.Heat, heat)
	}
	return t
}

// byChange returns the numbers of fields, those that have changed most first.
func byChange(fields []codec.FieldCount) []int {
	order := make([]int, len(fields))
	for k := range order {
		order[k] = k
	}
	known := func(k int) float64 {
		if v := fields[k].PSI; !math.IsNaN(v) {
			return v
		}
		return -1
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(known(b), known(a)) })
	return order
}

// fields says what has been noticed in the fields of events.
func (n *Now) fields() chart.Table {
	t := chart.Table{
		Title: "Fields of events", Head: []string{"field", "type", "missing", "unknown", "invalid", "out of range", "PSI"},
		Note: "Compared with the first events. PSI, the population stability index: below 0.1 little has changed, above 0.25 much.",
	}
	share := func(c uint64) string {
		if c == 0 {
			return "–"
		}
		return eval.Percent(float64(c) / float64(max(n.Events, 1)))
	}
	order := byChange(n.Fields)
	if len(order) > maxFields {
		t.Note = fmt.Sprintf("And %d fields more. %s", len(order)-maxFields, t.Note)
		order = order[:maxFields]
	}
	for _, k := range order {
		f := &n.Fields[k]
		t.Rows = append(t.Rows, []string{clip(f.Name, longest), string(f.Type), share(f.Missing), share(f.Unknown), share(f.Invalid), share(f.Outside), number(f.PSI)})
		psi := 0.
		if f.PSI > 0 {
			psi = math.Min(f.PSI, 1) * 0.6
		}
		t.Heat = append(t.Heat, []float64{0, 0, 0, 0, 0, psi})
	}
	return t
}

// weights explains a linear model: features by the magnitude of their weight.
func (n *Now) weights() chart.Table {
	t := chart.Table{
		Title: "Weights of features", Head: []string{"feature", "weight"},
		Note: fmt.Sprintf("The score is %s + the sum of weight · feature, of features after scaling; up to %d of the largest.", signed(n.Bias), maxWeights),
	}
	var names []string
	if n.Schema != "" {
		if s, err := events.Parse(n.Schema); err == nil { // it has been read before
			names = s.Features()
		}
	}
	for _, w := range n.Weights {
		name := fmt.Sprintf("feature %d", w.Index+1)
		if w.Index < len(names) {
			name = names[w.Index]
		}
		t.Rows = append(t.Rows, []string{clip(name, longest), signed(w.Value)})
		t.Heat = append(t.Heat, []float64{0.6 * math.Abs(w.Value/n.Weights[0].Value)})
	}
	return t
}

func number(v float64) string {
	switch a := math.Abs(v); {
	case math.IsNaN(v):
		return "–"
	case v == math.Trunc(v) && a < 1e15:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case a >= 1000 && a < 1e15:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}

func signed(v float64) string {
	if v > 0 {
		return "+" + number(v)
	}
	return number(v)
}
