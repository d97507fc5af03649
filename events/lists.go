package events

import (
	"bytes"
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
	length, one := c.length(c.n)
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

// numberLists reports whether nearly all of n texts are lists of numbers, all of one length, such
// as 48.85,2.35 or [0.1, 0.2], and sets their separator. Those that recur are names, and so are
// those with a code or an id among the numbers.
func (c *column) numberLists(f *Field, n int) bool {
	if float64(len(c.texts)) <= distinctIDs*float64(n) && c.hashes(n) == 0 {
		return false
	}
	for _, sep := range []string{",", ";", "|", "/", "x", " "} {
		rows := c.parseLists(sep)
		length, ok := c.length(n)
		if ok = ok && length > 1 && length <= MaxArray && !c.codes(length, rows); ok {
			f.Type, f.Split, f.Note = Array, sep, "its texts are lists of numbers"
		}
		if c.lists = nil; ok {
			return true
		}
	}
	return false
}

// parseLists adds the texts that are lists of numbers to c.lists, and returns their events. Whole
// numbers with blanks between them are a card's or a telephone's.
func (c *column) parseLists(sep string) (rows []int) {
	for i := range c.all {
		l := appendNumbers(nil, c.all[i].Text, sep)
		if (sep != " " || bytes.ContainsAny(c.all[i].Text, ".([{")) && !slices.ContainsFunc(l, func(item Cell) bool { _, ok := decimal(item.Text); return !ok }) {
			c.lists, rows = append(c.lists, l), append(rows, c.rows[i])
		}
	}
	return rows
}

// codes reports whether there are ids or codes among the numbers of lists, of the events rows.
func (c *column) codes(length int, rows []int) bool {
	for k := range length {
		item := &column{targets: c.targets}
		for i, l := range c.lists {
			if len(l) == length {
				item.add(rows[i], &NamedCell{Cell: l[k]})
			}
		}
		var f Field
		if item.choose(&f); f.Type == Ignore || 100*item.zeros >= item.n {
			return true
		}
	}
	return false
}

// appendNumbers appends the items of a list of numbers in a text to dst. There may be brackets
// around them, and a word before these: POINT(2.35 48.85). An empty item is null.
func appendNumbers(dst []Cell, text []byte, sep string) []Cell {
	text = bytes.TrimSpace(text)
	if n := len(text); n > 0 && bytes.IndexByte([]byte(")]}"), text[n-1]) >= 0 {
		text = text[bytes.IndexAny(text, "([{")+1 : n-1]
	}
	for item := range bytes.SplitSeq(text, []byte(sep)) {
		switch item = bytes.TrimSpace(item); {
		case len(item) > 0:
			dst = append(dst, Cell{Kind: Text, Text: item})
		case sep != " ":
			dst = append(dst, Cell{Kind: Null})
		}
	}
	return dst
}

// length returns the length that nearly all of that many lists have.
func (c *column) length(all int) (n int, ok bool) {
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
	return n, nearly(best, all)
}

func (c *column) array(f *Field, events int) {
	if f.Split != "" {
		c.parseLists(f.Split)
	}
	length, _ := c.length(c.n)
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
