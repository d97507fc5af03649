package events

import (
	"math"
	"slices"
)

// Whole numbers are names of things, such as shops or customers, if records with the same number
// have labels more alike than records with numbers of about the same size. Labels are predicted
// by both and compared by cross-validation. Its folds are blocks of the order, because what
// counts is whether a name that comes again later still says the same.
const (
	nameFolds = 8
	namePrior = 2    // records with the mean label that are added to each group
	nameEach  = 0.02 // least gain in half the logarithm of the squared error
	nameAll   = 8    // least gain, times the number of records
)

// sizes are the numbers of groups into which numbers are put by size.
var sizes = []int{2, 4, 8, 16}

// targets returns what is predicted for each event, one list for each of several classes, and
// one otherwise: 0 or 1, or the rank of a number. It is NaN where there is no label.
func targets(events [][]NamedCell, label string) [][]float64 {
	texts, numbers := make([]string, len(events)), make([]float64, len(events))
	classes, ranks, numeric := []string{}, []float64{}, true
	for k, e := range events {
		numbers[k] = math.NaN()
		for i := range e {
			c := &e[i].Cell
			if text, ok := c.category(nil); ok && e[i].Name == label && c.Kind > Null {
				v, number := decimal(text)
				numeric = numeric && number
				texts[k], numbers[k] = string(text), v
				classes, ranks = append(classes, texts[k]), append(ranks, v)
			}
		}
	}
	slices.Sort(classes)
	classes = slices.Compact(classes)
	if len(classes) < 2 {
		return nil
	}
	one := func(is func(k int) float64) []float64 {
		y := make([]float64, len(events))
		for k := range y {
			if y[k] = is(k); texts[k] == "" {
				y[k] = math.NaN()
			}
		}
		return y
	}
	if len(classes) > defaultMax {
		if !numeric {
			return nil
		}
		slices.Sort(ranks)
		return [][]float64{one(func(k int) float64 { r, _ := slices.BinarySearch(ranks, numbers[k]); return float64(r) })}
	}
	if len(classes) == 2 {
		classes = classes[1:]
	}
	var list [][]float64
	for _, class := range classes {
		list = append(list, one(func(k int) float64 {
			if texts[k] == class {
				return 1
			}
			return 0
		}))
	}
	return list
}

// names reports whether the numbers of a column are names.
func (c *column) names(f *Field) bool {
	var rows, named []int
	var vs []float64
	ids := map[string]int{}
	for i := range c.all {
		if c.targets == nil || math.IsNaN(c.targets[0][c.rows[i]]) {
			continue
		}
		v, err := number(&Field{Type: Numeric, Unit: f.Unit, Comma: f.Comma}, &c.all[i])
		if err != nil {
			continue
		}
		text, _ := c.all[i].category(nil)
		id, ok := ids[string(text)]
		if !ok {
			id = len(ids)
			ids[string(text)] = id
		}
		rows, named, vs = append(rows, c.rows[i]), append(named, id), append(vs, v)
	}
	if len(ids) < 3 || len(ids) > len(rows)*9/10 {
		return false
	}
	bySize, sorted := math.Inf(1), slices.Sorted(slices.Values(vs))
	for _, n := range sizes {
		groups := make([]int, len(vs))
		var edges []float64
		for k := 1; k < n; k++ {
			edges = append(edges, sorted[k*len(sorted)/n])
		}
		for i, v := range vs {
			groups[i], _ = slices.BinarySearch(edges, math.Nextafter(v, math.Inf(1)))
		}
		bySize = min(bySize, squaredError(groups, n, rows, c.targets))
	}
	gain := 0.5 * math.Log(bySize/squaredError(named, len(ids), rows, c.targets))
	return gain > nameEach && gain*float64(len(rows)) > nameAll
}

// squaredError returns the error of predicting targets by the mean of the group, from 0 to n-1,
// in the other folds.
func squaredError(groups []int, n int, rows []int, targets [][]float64) float64 {
	type sum struct{ n, y float64 }
	loss := 1e-9
	for _, target := range targets {
		all, group := [nameFolds + 1]sum{}, make([][nameFolds + 1]sum, n) // the last is of all folds
		fold := func(i int) int { return i * nameFolds / len(rows) }
		for i, row := range rows {
			for _, s := range []*sum{&all[fold(i)], &all[nameFolds], &group[groups[i]][fold(i)], &group[groups[i]][nameFolds]} {
				s.n++
				s.y += target[row]
			}
		}
		for i, row := range rows {
			g, k := &group[groups[i]], fold(i)
			mean := (all[nameFolds].y - all[k].y) / (all[nameFolds].n - all[k].n)
			p := (g[nameFolds].y - g[k].y + namePrior*mean) / (g[nameFolds].n - g[k].n + namePrior)
			loss += (p - target[row]) * (p - target[row])
		}
	}
	return loss
}
