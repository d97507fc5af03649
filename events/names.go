package events

import (
	"math"
	"slices"
)

// Whole numbers are names of things, such as shops or customers, if records with the same number
// have labels more alike than records with numbers of about the same size. Labels are predicted
// by both in cross-validation. Its folds are blocks of the order of the records, and the blocks
// beside a record's own are left out too, so that numbers of which each has its time, such as
// those of sessions, are no names: later records do not have them.
const (
	nameFolds   = 12
	namePrior   = 2    // records with the mean label that are added to each group
	nameGain    = 0.04 // share of the squared error by which names are better, at least
	nameRecords = 16   // this share times the number of records, at least
	nameEach    = 3    // records of each name on average, at least; of rare ones, the size says more
	mostClasses = 64   // more different labels are ranks
	idsInOrder  = 0.8  // rank correlation with the order of the records, at least
	idsUneven   = 1.63 // Kolmogorov's statistic of numbers that are spread evenly, times √n, at most
)

// sizes are the numbers of groups of equal frequency into which numbers are put by size.
var sizes = []int{2, 4, 8, 16}

// targets returns what is predicted for each event: 0 or 1 for each class, or the rank of a
// number. It is NaN where there is no label, and nil if there is nothing to predict.
func targets(events [][]NamedCell, label string) [][]float64 {
	texts, numbers := make([]string, len(events)), make([]float64, len(events))
	classes, sorted, numeric := []string{}, []float64{}, true
	for k, e := range events {
		for i := range e {
			c := &e[i].Cell
			if text, ok := c.category(nil); ok && e[i].Name == label {
				v, number := decimal(text)
				numeric = numeric && number
				texts[k], numbers[k] = string(text), v
				classes, sorted = append(classes, texts[k]), append(sorted, v)
			}
		}
	}
	slices.Sort(classes)
	slices.Sort(sorted)
	classes = slices.Compact(classes)
	labelled := func(of func(k int) float64) []float64 {
		y := make([]float64, len(events))
		for k := range y {
			if y[k] = math.NaN(); texts[k] != "" {
				y[k] = of(k)
			}
		}
		return y
	}
	switch {
	case len(classes) < 2 || len(classes) > mostClasses && !numeric:
		return nil
	case len(classes) > mostClasses:
		return [][]float64{labelled(func(k int) float64 { rank, _ := slices.BinarySearch(sorted, numbers[k]); return float64(rank) })}
	case len(classes) == 2:
		classes = classes[1:]
	}
	var list [][]float64
	for _, class := range classes {
		list = append(list, labelled(func(k int) float64 {
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
	if c.targets == nil {
		return false
	}
	var rows, named []int
	var vs []float64
	groups := map[string]int{} // by all digits: as a float32, long numbers would be the same
	for i, row := range c.rows {
		v, err := number(&Field{Type: Numeric, Unit: f.Unit, Comma: f.Comma}, &c.all[i])
		if err != nil || math.IsNaN(c.targets[0][row]) {
			continue
		}
		text, _ := c.all[i].category(nil)
		group, ok := groups[string(text)]
		if !ok {
			group = len(groups)
			groups[string(text)] = group
		}
		rows, named, vs = append(rows, row), append(named, group), append(vs, v)
	}
	if len(groups) < 3 || nameEach*len(groups) > len(rows) {
		return false
	}
	gain := 1 - squaredError(named, len(groups), rows, c.targets)/c.sizeError(rows, vs)
	return gain > nameGain && gain*float64(len(rows)) > nameRecords
}

// sizeError returns the least error of predicting the targets of the events rows by the size of
// their numbers.
func (c *column) sizeError(rows []int, vs []float64) float64 {
	sorted, least := slices.Sorted(slices.Values(vs)), math.Inf(1)
	for _, n := range sizes {
		sized := make([]int, len(vs))
		for i, v := range vs {
			for k := 1; k < n && v >= sorted[k*len(sorted)/n]; k++ {
				sized[i] = k
			}
		}
		least = min(least, squaredError(sized, n, rows, c.targets))
	}
	return least
}

// ids reports whether whole numbers that are all different are ids: they rise or fall with the
// order of the records, or are spread evenly, as amounts are not, and tell nothing of the labels.
func (c *column) ids(f *Field) bool {
	var rows []int
	var vs, known []float64
	for i, row := range c.rows {
		v, err := number(&Field{Type: Numeric, Unit: f.Unit, Comma: f.Comma}, &c.all[i])
		if err != nil {
			continue
		}
		if vs = append(vs, v); c.targets != nil && !math.IsNaN(c.targets[0][row]) {
			rows, known = append(rows, row), append(known, v)
		}
	}
	sorted, n := slices.Sorted(slices.Values(vs)), float64(len(vs))
	var moved, uneven float64 // squared differences of the ranks; Kolmogorov's statistic
	for i, v := range vs {
		rank, _ := slices.BinarySearch(sorted, v)
		d := float64(rank - i)
		moved += float64(d * d)
		uneven = max(uneven, math.Abs((v-sorted[0])/(sorted[len(sorted)-1]-sorted[0])-(float64(rank)+0.5)/n))
	}
	switch correlation := 1 - 6*moved/(n*(n*n-1)); {
	case math.Abs(correlation) > idsInOrder:
		return true
	case uneven > idsUneven/math.Sqrt(n):
		return false
	}
	return len(rows) == 0 || (1-c.sizeError(rows, known)/squaredError(make([]int, len(rows)), 1, rows, c.targets))*float64(len(rows)) < nameRecords
}

// squaredError returns the error of predicting the targets of the events rows by the means of
// their groups, from 0 to n-1, in the other folds.
func squaredError(groups []int, n int, rows []int, targets [][]float64) float64 {
	type sum struct{ n, y float64 }
	type folds [nameFolds + 1]sum // the last is of all
	others := func(f *folds, fold int) sum {
		s := f[nameFolds]
		for k := max(0, fold-1); k <= min(fold+1, nameFolds-1); k++ {
			s.n -= f[k].n
			s.y -= f[k].y
		}
		return s
	}
	loss := 1e-9
	for _, target := range targets {
		all, sums := folds{}, make([]folds, n)
		for i, row := range rows {
			fold, g := i*nameFolds/len(rows), &sums[groups[i]]
			for _, s := range []*sum{&all[fold], &all[nameFolds], &g[fold], &g[nameFolds]} {
				s.n++
				s.y += target[row]
			}
		}
		for i, row := range rows {
			fold := i * nameFolds / len(rows)
			a, g := others(&all, fold), others(&sums[groups[i]], fold)
			d := (g.y+float64(namePrior*a.y/a.n))/(g.n+namePrior) - target[row]
			loss += float64(d * d)
		}
	}
	return loss
}
