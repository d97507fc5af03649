package events

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/streamsvm/streamsvm/stream"
)

// list chooses the type of a column of lists.
func (c *column) list(f *Field) {
	numbers, texts, decimals, objects, names, all := 0, 0, 0, 0, 0, 0
	c.texts = map[string]int{}
	for _, l := range c.lists {
		for i := range l {
			if text, ok := l[i].category(nil); ok {
				c.texts[string(text)]++
			}
			switch l[i].Kind {
			case Number, Bool:
				numbers++
				if l[i].Num == math.Trunc(l[i].Num) {
					names++
				}
			case Other:
				objects++
			case Text:
				if _, ok := decimal(l[i].Text); ok {
					decimals++
				}
				texts++
			case Null:
				continue
			}
			all++
		}
	}
	length, one := c.length()
	switch {
	case all == 0:
		f.Note = "its lists are empty"
	case nearly(objects, all):
		f.Type = Length
	case nearly(texts, all) && (!nearly(decimals, all) || !one) || nearly(names, all) && codeName(f.Name):
		if len(c.texts) > rareDistinct && float64(len(c.texts)) > distinctIDs*float64(all) {
			f.Note = fmt.Sprintf("it looks like ids: %d different values in %d", len(c.texts), all)
			break
		}
		f.Type = Tags
		c.tags(f, all)
	case !nearly(numbers+decimals, all):
		f.Note = "its lists hold different things"
	case !one:
		f.Type = Summary
	case length > MaxArray:
		f.Note = fmt.Sprintf("its lists have %d numbers, the limit is %d", length, MaxArray)
	default:
		f.Type = Array
	}
}

// length returns the length that nearly all lists have.
func (c *column) length() (n int, ok bool) {
	lengths := map[int]int{}
	for _, l := range c.lists {
		lengths[len(l)]++
	}
	best := 0
	for _, k := range slices.Sorted(maps.Keys(lengths)) {
		if lengths[k] > best {
			n, best = k, lengths[k]
		}
	}
	return n, c.mostly(best)
}

func (c *column) array(f *Field, events int) {
	length, _ := c.length()
	length = min(length, MaxArray)
	vs := make([][]float64, length)
	f.MissingIndicator = make([]bool, length)
	for k := range length {
		for _, l := range c.lists {
			if len(l) != length {
				continue
			}
			if v, err := number(f, &l[k]); err == nil {
				vs[k] = append(vs[k], v)
			}
		}
		f.MissingIndicator[k] = len(vs[k]) < events
	}
	f.setMeans(vs...)
}

func (c *column) summary(f *Field, events int) {
	vs := make([][]float64, 4)
	if f.Type == Length {
		vs = vs[:1]
	}
	for _, l := range c.lists {
		v, ok, err := [4]float64{float64(len(l))}, true, (*FieldError)(nil)
		if f.Type == Summary {
			v, ok, err = summarize(f, l)
		}
		for k := range vs {
			if ok && err == nil {
				vs[k] = append(vs[k], v[k])
			}
		}
	}
	f.setMeans(vs...)
	f.MissingIndicator = []bool{len(vs[0]) < events}
}

// array encodes a list of numbers. Any of them may be missing.
func (e *encoder) array(i int, f *Field, c *Cell) *FieldError {
	if c.Kind != List {
		return invalid(f, c)
	}
	items := e.row.Items[c.From:c.To]
	if len(items) != len(f.Means) {
		return &FieldError{f.Name, stream.ReasonDimension, fmt.Errorf("a list of %d, where the schema has %d", len(items), len(f.Means))}
	}
	for k := range items {
		if items[k].Kind <= Null {
			continue
		}
		if _, err := number(f, &items[k]); err != nil {
			err.Field = fmt.Sprintf("%s[%d]", f.Name, k)
			return err
		}
	}
	for k := range items {
		v := f.Means[k]
		if items[k].Kind > Null {
			v, _ = number(f, &items[k])
		} else {
			e.note(i, Missing)
		}
		e.number(f, k, v)
	}
	j := f.at + len(f.Means)
	for k, g := range f.MissingIndicator {
		if !g {
			continue
		}
		if items[k].Kind <= Null {
			e.set(j, half)
		}
		j++
	}
	return nil
}

// summary encodes a list of numbers by its sum, mean, minimum and maximum. Some may be missing, not
// all.
func (e *encoder) summary(i int, f *Field, c *Cell) *FieldError {
	if c.Kind != List {
		return invalid(f, c)
	}
	v, ok, err := summarize(f, e.row.Items[c.From:c.To])
	switch {
	case err != nil:
		return err
	case !ok && cmp.Or(f.Missing, e.s.Missing, Indicator) == Refuse:
		return &FieldError{f.Name, stream.ReasonMissing, errMissing}
	case !ok:
		e.note(i, Missing)
		e.missing(f)
		return nil
	}
	for k := range v {
		e.number(f, k, v[k])
	}
	return nil
}

// summarize returns sum, mean, minimum and maximum of those items that are not missing. ok is false
// if all are.
func summarize(f *Field, items []Cell) (v [4]float64, ok bool, err *FieldError) {
	n := 0
	for k := range items {
		if items[k].Kind <= Null {
			continue
		}
		x, err := number(f, &items[k])
		if err != nil {
			err.Field = fmt.Sprintf("%s[%d]", f.Name, k)
			return v, false, err
		}
		if n++; n == 1 {
			v[2], v[3] = x, x
		}
		v[0], v[2], v[3] = v[0]+x, min(v[2], x), max(v[3], x)
	}
	v[1] = v[0] / float64(max(n, 1))
	if w := float32(v[0]); w-w != 0 {
		return v, false, &FieldError{f.Name, stream.ReasonNotFinite, fmt.Errorf("the sum %g is not a finite float32", v[0])}
	}
	return v, n > 0, nil
}
