package sbp

import (
	"math"
	"slices"

	"github.com/streamsvm/streamsvm/internal/rank"
)

// level solves the inner problem: it finds the height γ of the water that is poured
// over the responses. A bias, if there is one, shifts the basins of the two classes
// relative to each other.
//
//	unbiased   Σ_i max(0, γ − c_i) = V
//	biased     max_b γ  subject to  Σ_i max(0, γ − c_i − y_i b) = V
//
// At the maximum over b, k examples of each class are under water. So, with each class
// in ascending order, the pairs P_j = c⁺_j + c⁻_j fill up like one basin with level
// 2γ.
//
// Only examples near the level have to be sorted. A solve scans all examples once
// and collects those within delta of the last solution. It widens that band if the
// level has left it; delta adapts to the number of examples collected. Selection by
// rank then narrows the band to the few entries around the level, which are sorted.
type level struct {
	gamma, bias float64 // the last solution
	delta       float64 // half the width of the band

	// The last solution, for sampling. v(i) = y_i (u_i + shift).
	biased bool
	shift  float64
	count  [2]int // numbers of examples under water: all in [0], or by class
	edge   [2]rank.Entry
	under  int // total number

	// A scan: the entries in the band, and for the entries below it their number and
	// Σ max(0, lo − v). narrow moves the ends of the band towards the level.
	band  [2][]rank.Entry // scratch memory
	found []int32         // scratch memory
	lo    [2]float64
	below [2]int
	depth float64
}

// The width of the band stays the same while it has bandLow to bandHigh examples:
// enough for the level to stay inside until the next update, and few enough to search
// in less time than a scan takes.
const (
	bandLow  = 64
	bandHigh = 384
)

// solve finds the level for volume ≥ 0 over c_i = y_i u_i. There is at least one
// example or, if biased, at least one of each class.
func (l *level) solve(u, y []float64, volume float64, biased bool) {
	l.biased, l.shift = biased, 0
	if biased {
		l.shift = l.bias
	}
	floor := 1e-12 * (1 + math.Abs(l.gamma))
	low, high := max(l.delta, floor), max(l.delta, floor)
	full := l.delta == 0
	var collected int
	for try := 0; ; try++ {
		lo, hi := l.gamma-low, l.gamma+high
		if full || try > 24 || !(low < math.MaxFloat64) {
			lo, hi = l.span(u, y)
		}
		l.scan(u, y, lo, hi)
		collected = len(l.band[0]) + len(l.band[1])
		var miss int
		if biased {
			l.narrow(2, volume)
			miss = l.fillPairs(volume, hi, len(u))
		} else {
			l.narrow(1, volume)
			miss = l.fill(volume, hi, len(u))
		}
		if miss == found {
			if full {
				l.delta = (hi - lo) / 2
			}
			break
		}
		if miss != missHigh {
			low *= 4
			l.delta = max(l.delta, low/2)
		}
		if miss != missLow {
			high *= 4
			l.delta = max(l.delta, high/2)
		}
	}
	switch {
	case collected > bandHigh:
		l.delta *= .6
	case collected < bandLow:
		l.delta *= 1.25
	}
	l.delta = max(l.delta, floor)
}

// rescale adapts to values that are f times as large.
func (l *level) rescale(f float64) {
	l.gamma *= f
	l.bias *= f
	l.delta *= f
}

// foresee moves the last solution to a prediction of the next one, after u has grown
// by c·k. It uses examples near the level.
func (l *level) foresee(c float64, k []float32, y []float64) {
	var move [2]float64
	for class, band := range l.band {
		var sum, n float64
		for i := 0; i < len(band); i += 1 + len(band)/64 {
			j := band[i].I
			sum += float64(y[j] * float64(k[j]))
			n++
		}
		if n > 0 {
			move[class] = float64(c*sum) / n
		}
	}
	if !l.biased {
		l.gamma += move[0]
		return
	}
	l.gamma += (move[0] + move[1]) / 2
	l.bias += (move[1] - move[0]) / 2
}

// span returns the smallest value, and the next number above the largest.
func (l *level) span(u, y []float64) (lo, hi float64) {
	lo, hi = math.Inf(1), math.Inf(-1)
	for i, v := range u {
		v = y[i] * (v + l.shift)
		lo, hi = min(lo, v), max(hi, v)
	}
	return lo, math.Nextafter(hi, math.Inf(1))
}

const signBit = 1 << 63

// value returns v(i), never −0, and the sign bit of y.
func (l *level) value(u, y float64) (v float64, sign uint64) {
	sign = math.Float64bits(y) & signBit
	return math.Float64frombits(math.Float64bits(u+l.shift)^sign) + 0, sign
}

// scan sums up the values below lo and collects the values in [lo, hi). Example i is
// added in lane i mod 8; the lanes are added at the end.
func (l *level) scan(u, y []float64, lo, hi float64) {
	for c := range l.band {
		l.band[c] = l.band[c][:0]
	}
	var depth [lanes]float64
	l.found = slices.Grow(l.found[:0], len(u))[:len(u)]
	all, negative, found := scan(u, y[:len(u)], l.shift, lo, hi, &depth, l.found)
	for _, i := range l.found[:found] {
		v, sign := l.value(u[i], y[i])
		c := 0
		if l.biased {
			c = int(sign >> 63)
		}
		l.band[c] = append(l.band[c], rank.Entry{V: v, I: i})
	}
	for w := lanes / 2; w > 0; w /= 2 {
		for j := range w {
			depth[j] += depth[j+w]
		}
	}
	l.depth, l.lo = depth[0], [2]float64{lo, lo}
	if l.biased {
		l.below = [2]int{all - negative, negative}
	} else {
		l.below = [2]int{all, 0}
	}
}

// Results of fill and fillPairs: whether the level was in the band, or on which
// side the band ends too early.
const (
	found = iota
	missLow
	missHigh
	missBoth
)

// fill finds the level without a bias.
func (l *level) fill(volume, hi float64, n int) int {
	band := l.band[0]
	k, filled, at := l.below[0], l.depth, l.lo[0]
	if k > 0 && filled >= volume || k == 0 && len(band) == 0 {
		if k == 0 {
			return missHigh
		}
		return missLow
	}
	gamma := math.NaN()
	for _, e := range band {
		if k > 0 {
			rise := float64(float64(k) * (e.V - at))
			if filled+rise >= volume {
				gamma = at + (volume-filled)/float64(k)
				break
			}
			filled += rise
		}
		at = e.V
		k++
	}
	if math.IsNaN(gamma) {
		gamma = at + (volume-filled)/float64(k)
		if gamma > hi && k < n { // examples at hi and above are not in the band
			return missHigh
		}
	}
	if volume == 0 {
		gamma = band[0].V // no water: the level is the smallest response
	}
	l.gamma, l.bias = gamma, 0
	// p* is uniform on c_i < γ or, without water, on the smallest responses.
	l.edge[0] = rank.Entry{V: gamma, I: -1}
	l.count[0] = l.below[0]
	for _, e := range band {
		if e.V < gamma {
			l.count[0]++
		}
	}
	if l.count[0] == 0 {
		l.edge[0].I = math.MaxInt32
		for _, e := range band {
			if e.V <= gamma {
				l.count[0]++
			}
		}
	}
	l.under = l.count[0]
	return found
}

// known returns the k-th smallest value of a class, k ≥ 1, if it is in the band.
func (l *level) known(class, k int) (rank.Entry, bool) {
	i := k - 1 - l.below[class]
	if i < 0 || i >= len(l.band[class]) {
		return rank.Entry{}, false
	}
	return l.band[class][i], true
}

// fillPairs finds the level and the bias.
func (l *level) fillPairs(volume, hi float64, n int) int {
	k := max(l.below[0], l.below[1]) + 1
	p, okP := l.known(0, k)
	q, okN := l.known(1, k)
	if !okP || !okN {
		// Either class may have no more examples, or no more in the band.
		if max(l.below[0], l.below[1]) > 0 && l.depth >= volume {
			return missLow
		}
		return missBoth
	}
	// The volume up to the k-th pair.
	filled := l.depth
	for c, e := range [2]rank.Entry{p, q} {
		filled += float64(float64(l.below[c]) * (e.V - l.lo[c]))
		for i := l.below[c]; i < k-1; i++ {
			filled += e.V - l.band[c][i-l.below[c]].V
		}
	}
	if k > 1 && filled >= volume {
		return missLow
	}
	var nextP, nextN rank.Entry
	for {
		nextP, okP = l.known(0, k+1)
		nextN, okN = l.known(1, k+1)
		if !okP || !okN {
			break
		}
		rise := float64(float64(k) * ((nextP.V - p.V) + (nextN.V - q.V)))
		if filled+rise >= volume {
			break
		}
		filled += rise
		p, q = nextP, nextN
		k++
	}
	free := (volume - filled) / float64(k)
	dp, dn := free, free
	if okP {
		dp = min(dp, nextP.V-p.V)
	} else if l.more(0, k, n) && p.V+free > hi {
		return missHigh
	}
	if okN {
		dn = min(dn, nextN.V-q.V)
	} else if l.more(1, k, n) && q.V+free > hi {
		return missHigh
	}
	gp := p.V + (free+dp-dn)/2
	gn := q.V + (free-dp+dn)/2
	l.gamma, l.bias = (gp+gn)/2, l.shift+(gn-gp)/2
	l.count, l.edge, l.under = [2]int{k, k}, [2]rank.Entry{p, q}, 2*k
	return found
}

// more reports whether a class may have more than k examples, given that all up to
// the k-th are in the band or below.
func (l *level) more(class, k, n int) bool {
	known := [2]int{l.below[0] + len(l.band[0]), l.below[1] + len(l.band[1])}
	return known[0]+known[1] != n && k >= known[class]
}

// lowest returns, in order, all examples at which p* is nonzero, and possibly others.
func (l *level) lowest(u, y []float64) []int32 {
	var depth [lanes]float64
	top := max(l.edge[0].V, l.edge[1].V)
	l.found = slices.Grow(l.found[:0], len(u))[:len(u)]
	_, _, n := scan(u, y, l.shift, math.Inf(-1), math.Nextafter(top, math.Inf(1)), &depth, l.found)
	return l.found[:n]
}

// has reports whether p* is nonzero at an example, according to the last solution.
func (l *level) has(i int, u, y []float64) bool {
	c := 0
	if l.biased && y[i] < 0 {
		c = 1
	}
	v := y[i] * (u[i] + l.shift)
	return v < l.edge[c].V || v == l.edge[c].V && int32(i) <= l.edge[c].I
}
