package events

import (
	"math"
	"slices"
)

// A term is a value to add to a feature of a field; at is relative to its first feature.
type term struct {
	at int32
	v  float32
}

// words sets the signed counts of the words, scaled to norm 1.
func (e *encoder) words(f *Field, text []byte) {
	e.row.sums = e.row.sums[:0]
	var word [64]byte
	w := word[:0]
	flush := func() {
		if len(w) > 0 {
			j, sign := f.slot(w)
			e.row.sums = append(e.row.sums, term{int32(j), float32(sign)})
			w = word[:0]
		}
	}
	for _, c := range text {
		switch {
		case c >= 'A' && c <= 'Z':
			c += 'a' - 'A'
			fallthrough
		case c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c >= 0x80:
			if len(w) < len(word) {
				w = append(w, c)
			}
		default:
			flush()
		}
	}
	flush()
	if len(e.row.sums) == 0 {
		return
	}
	slices.SortFunc(e.row.sums, func(a, b term) int { return int(a.at) - int(b.at) })
	square, n := 0.0, 0
	for k := 0; k < len(e.row.sums); n++ {
		s := e.row.sums[k]
		for k++; k < len(e.row.sums) && e.row.sums[k].at == s.at; k++ {
			s.v += e.row.sums[k].v
		}
		e.row.sums[n] = s
		square += float64(float64(s.v) * float64(s.v))
	}
	e.row.sums = e.row.sums[:n]
	if square > 0 {
		e.add(f, true, float32(1/math.Sqrt(square)))
	}
}

// add sets the features of e.row.sums, times scale. Terms of the same feature are summed
// if sum is true, and otherwise only the first counts.
func (e *encoder) add(f *Field, sum bool, scale float32) {
	slices.SortFunc(e.row.sums, func(a, b term) int { return int(a.at) - int(b.at) })
	for k := 0; k < len(e.row.sums); {
		at, v := e.row.sums[k].at, e.row.sums[k].v
		for k++; k < len(e.row.sums) && e.row.sums[k].at == at; k++ {
			if sum {
				v += e.row.sums[k].v
			}
		}
		e.set(f.at+int(at), v*scale)
	}
}

// slot returns the feature and the sign that a text is hashed to, as in scikit-learn's
// FeatureHasher: with h = murmur3(name=text), |h| modulo the number of features, and
// the sign of h.
func (f *Field) slot(text []byte) (j, sign int) {
	var room [128]byte
	h := int32(murmur3(append(append(append(room[:0], f.Name...), '='), text...)))
	minus := h >> 31                    // 0, or −1 if h is negative
	size := uint32((h ^ minus) - minus) // |−2³¹| is 2³¹
	return int(size % uint32(f.Hash)), int(minus | 1)
}
