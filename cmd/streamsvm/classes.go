package main

import (
	"fmt"
	"strconv"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/internal/app/report"
	"github.com/streamsvm/streamsvm/internal/eval"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/codec"
)

// classNumbers numbers the classes of examples that come from a decoder: those
// of a signature first, others as they come. For two classes it does nothing.
type classNumbers map[string]float64

func numbersOf(sig codec.Signature) classNumbers {
	n := classNumbers{}
	for k := range sig.Classes() {
		if name, text := sig.Label(float64(k)).(string); text {
			n[name] = float64(k)
		} else {
			n[fmt.Sprint(sig.Label(float64(k)))] = float64(k)
		}
	}
	return n
}

// of returns the label of ex.
func (n classNumbers) of(ex *stream.Example) float64 {
	if ex.Class == "" {
		return ex.Y
	}
	if _, known := n[ex.Class]; !known {
		n[ex.Class] = float64(len(n))
	}
	return n[ex.Class]
}

// newQuality returns measures of predictions by a model that has so many classes.
func newQuality(task algos.Task, classes, window int) *eval.Prequential {
	if classes > 2 {
		return eval.NewClasses(window)
	}
	return eval.New(task == algos.Regress, window)
}

// classRows is how many classes people are shown one by one.
const classRows = 20

// classTables lists how well each of more than two classes is told, and what is
// taken for what over the window.
func classTables(s *eval.Summary) []report.Table {
	if s.Classes == nil {
		return nil
	}
	each := report.Table{Title: "Classes", Head: []string{"class", "examples", "recall", "precision", "last " + strconv.Itoa(s.Window.Examples), "recall", "precision"}}
	table := report.Table{Title: fmt.Sprintf("Predicted, last %d examples", s.Window.Examples), Head: []string{"class"}}
	for k, c := range s.Classes {
		w := s.Window.Classes[k]
		each.Rows = append(each.Rows, []string{c.Label, fmt.Sprint(c.Examples), eval.Percent(c.Recall), eval.Percent(c.Precision), fmt.Sprint(w.Examples), eval.Percent(w.Recall), eval.Percent(w.Precision)})
		table.Head = append(table.Head, c.Label)
		row := []string{c.Label}
		for _, n := range s.Window.Confusion[k] {
			row = append(row, fmt.Sprint(n))
		}
		table.Rows = append(table.Rows, row)
	}
	return []report.Table{each, table}
}
