// Package rank finds the n smallest entries of a list without sorting it.
package rank

import "cmp"

// Entry is a value and the index of the point that it belongs to. Equal values are
// ordered by index.
type Entry struct {
	V float64
	I int32
}

// Compare orders entries by value, then by index.
func Compare(a, b Entry) int {
	switch {
	case a.V < b.V: // cmp.Compare would also test for NaN
		return -1
	case a.V > b.V:
		return 1
	}
	return cmp.Compare(a.I, b.I)
}

// Nth moves the i-th smallest entry (from 0) to position i, smaller ones before it
// and larger ones after it, and returns it.
func Nth(s []Entry, i int) Entry {
	for len(s) > 1 {
		// The median of three.
		a, b, c := s[0], s[len(s)/2], s[len(s)-1]
		if b.less(a) {
			a, b = b, a
		}
		if c.less(b) {
			if b = c; b.less(a) {
				b = a
			}
		}
		k := Partition(s, b)
		if i < k {
			s = s[:k]
			continue
		}
		// b is the smallest of s[k:].
		for j := k; ; j++ {
			if s[j] == b {
				s[k], s[j] = b, s[k]
				break
			}
		}
		if i == k {
			return b
		}
		s, i = s[k+1:], i-k-1
	}
	return s[0]
}

// Partition moves the entries below p to the front and returns their number.
func Partition(s []Entry, p Entry) int {
	k := 0
	for j, e := range s {
		s[j] = s[k]
		s[k] = e
		if e.less(p) {
			k++
		}
	}
	return k
}

func (a Entry) less(b Entry) bool { return a.V < b.V || a.V == b.V && a.I < b.I }
