package kernel

import (
	"errors"

	"github.com/streamsvm/streamsvm/stream"
)

// Table is a kernel by its values instead of a function of features. A vector
// then has one feature: the number of the point in the table. Experiments that
// need the same values over and over use it.
type Table interface {
	// Values returns K(i, ·): point i against the points from 0 on that a Basis
	// may hold. It is not written to.
	Values(i int) []float32
}

// listed is the layout of points of a Table.
type listed struct {
	table Table
	ids   []int32
	runs  bool // ids are ascending without gaps
}

// Tabulate has an empty Basis take its values from a table.
func (b *Basis) Tabulate(t Table) {
	if b.Len() > 0 {
		panic("kernel: Tabulate of a Basis with points")
	}
	b.list = &listed{table: t, runs: true}
}

// Tabulated reports whether values come from a table.
func (b *Basis) Tabulated() bool { return b.list != nil }

// Whole returns the kernel row of point i where a table has it as it is, and
// nil otherwise. It must not be written to.
func (b *Basis) Whole(i int) []float32 {
	l := b.list
	if l == nil || !l.runs || b.Func.Bias != 0 {
		return nil
	}
	first := int(l.ids[0])
	return l.table.Values(int(l.ids[i]))[first : first+len(l.ids)]
}

// WholeRows reports whether Whole has the rows.
func (b *Basis) WholeRows() bool { return b.list != nil && b.list.runs && b.Func.Bias == 0 }

// Like returns an empty Basis with the same kernel.
func (b *Basis) Like() *Basis {
	e := New(b.Func)
	if b.list != nil {
		e.Tabulate(b.list.table)
	}
	return e
}

// number returns the place of a point in the table.
func number(x stream.Vec) int32 { return int32(x.Val[0]) }

func (l *listed) append(x stream.Vec) int {
	l.runs = l.runs && (len(l.ids) == 0 || number(x) == l.ids[len(l.ids)-1]+1)
	l.ids = append(l.ids, number(x))
	return len(l.ids) - 1
}

func (l *listed) set(i int, x stream.Vec) {
	l.runs = l.runs && l.ids[i] == number(x)
	l.ids[i] = number(x)
}

func (l *listed) row(i int) stream.Vec { return stream.Vec{Val: []float32{float32(l.ids[i])}} }

func (l *listed) subset(idx []int32) *listed {
	s := &listed{table: l.table, ids: make([]int32, len(idx))}
	for k, i := range idx {
		s.ids[k] = l.ids[i]
	}
	return s
}

// values sets dst[j-from] to the value of point i of the table and point j.
func (l *listed) values(dst []float32, i int32, from, to int) {
	row := l.table.Values(int(i))
	if l.runs && to > from {
		copy(dst[:to-from], row[l.ids[from]:])
		return
	}
	for k, j := range l.ids[from:to] {
		dst[k] = row[j]
	}
}

var errStored = errors.New("points of a table cannot be stored")
