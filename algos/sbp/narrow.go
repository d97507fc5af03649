package sbp

import "slices"

// sorted is the number of entries of a class up to which they are sorted.
const sorted = 48

// narrow leaves in the bands of the first classes what lies around the level,
// as if the scan had been told, and sorts it. Each round takes the pair in the
// middle of the ranks that are left, of one class its entry, and moves the end
// of the bands there on whose side the level is not. The bands stay as they are
// where they end before the level.
func (l *level) narrow(classes int, volume float64) {
	for {
		// Ranks (from 0) that all classes have in their bands: first ≤ r < end.
		first, end := l.below[0], l.below[0]+len(l.band[0])
		if classes == 2 {
			first = max(first, l.below[1])
			end = min(end, l.below[1]+len(l.band[1]))
		}
		if end-first <= sorted {
			break
		}
		r := first + (end-first)/2
		filled := l.depth
		var at [2]entry
		for c := range classes {
			band, i := l.band[c], r-l.below[c]
			at[c] = nth(band, i)
			filled += float64(float64(l.below[c]) * (at[c].v - l.lo[c]))
			for _, e := range band[:i] {
				filled += at[c].v - e.v
			}
		}
		for c := range classes {
			i := r - l.below[c]
			if filled >= volume {
				l.band[c] = l.band[c][:i+1]
				continue
			}
			if classes == 1 { // those as high as the entry are not below it
				i = partition(l.band[c][:i], entry{at[c].v, -1})
			}
			if l.band[c] = l.band[c][i:]; i == 0 {
				slices.SortFunc(l.band[c], entry.compare)
				return
			}
			l.below[c] += i
			l.lo[c] = at[c].v
		}
		if filled < volume {
			l.depth = filled
		}
	}
	for c := range classes {
		slices.SortFunc(l.band[c], entry.compare)
	}
}

// nth puts the i-th least entry (from 0) in place i, lesser ones before it and
// greater ones behind, and returns it.
func nth(s []entry, i int) entry {
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
		k := partition(s, b)
		if i < k {
			s = s[:k]
			continue
		}
		// b is the least of s[k:].
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

// partition puts those below p first and returns their number.
func partition(s []entry, p entry) int {
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

func (a entry) less(b entry) bool { return a.v < b.v || a.v == b.v && a.j < b.j }
