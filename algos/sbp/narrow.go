package sbp

import (
	"slices"

	"github.com/streamsvm/streamsvm/internal/rank"
)

// sorted is the number of entries of a class up to which they are sorted directly.
const sorted = 48

// narrow reduces the bands of the given number of classes to the entries around the
// level, by bisection over ranks, and sorts them. Each round looks at the pair (or the
// entry of a single class) in the middle of the remaining ranks, and moves the end of
// the bands that is on its other side from the level. An end of a band that the level
// lies beyond stays. Where a class has many more entries than the other, those that make
// no pair stay unsorted, after the others.
func (l *level) narrow(classes int, volume float64) {
	for {
		// Ranks (from 0) that all classes have in their bands: first ≤ r < end.
		first, end := l.below[0], l.below[0]+len(l.band[0])
		if classes == 2 {
			first = max(first, l.below[1])
			end = min(end, l.below[1]+len(l.band[1]))
		}
		if end-first <= sorted {
			for c := range classes {
				band := l.band[c]
				if n := max(sorted, end-l.below[c]); n < len(band) {
					rank.Nth(band, n) // and the one after the last pair is in its place
					band = band[:n]
				}
				slices.SortFunc(band, rank.Compare)
			}
			return
		}
		r := first + (end-first)/2
		filled := l.depth
		var at [2]rank.Entry
		for c := range classes {
			band, i := l.band[c], r-l.below[c]
			at[c] = rank.Nth(band, i)
			filled += float64(float64(l.below[c]) * (at[c].V - l.lo[c]))
			for _, e := range band[:i] {
				filled += at[c].V - e.V
			}
		}
		for c := range classes {
			i := r - l.below[c]
			if filled >= volume {
				l.band[c] = l.band[c][:i+1]
				continue
			}
			if classes == 1 { // entries of equal value are not below it
				i = rank.Partition(l.band[c][:i], rank.Entry{V: at[c].V, I: -1})
			}
			if l.band[c] = l.band[c][i:]; i == 0 {
				slices.SortFunc(l.band[c], rank.Compare)
				return
			}
			l.below[c] += i
			l.lo[c] = at[c].V
		}
		if filled < volume {
			l.depth = filled
		}
	}
}
