package eval

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/integrate"

	"github.com/streamsvm/streamsvm/checkpoint/state"
)

// AUC returns the area under the ROC curve: the share of pairs of a positive (label
// ≥ 0) and a negative example in which the positive one has the higher score, ties
// counting half. It takes O(n log n). It is NaN if a class is missing. NaN scores
// rank below all finite ones.
func AUC(scores, labels []float64) float64 {
	type prediction struct {
		score float64
		class int
	}
	list := make([]prediction, len(scores))
	for i, s := range scores {
		list[i] = prediction{min(max(s, -math.MaxFloat64), math.MaxFloat64), class(labels[i])}
		if math.IsNaN(s) {
			list[i].score = math.Inf(-1)
		}
	}
	slices.SortFunc(list, func(a, b prediction) int { return cmp.Compare(a.score, b.score) })
	var all, below [2]float64 // negative and positive ones
	for _, p := range list {
		all[p.class]++
	}
	if all[0] == 0 || all[1] == 0 {
		return math.NaN()
	}
	// The ROC curve by falling recall: a point for each score below which all is negative.
	fpr, tpr := []float64{1}, []float64{1}
	for i, p := range list {
		below[p.class]++
		if i+1 < len(list) && list[i+1].score != p.score {
			fpr, tpr = append(fpr, 1-below[0]/all[0]), append(tpr, 1-below[1]/all[1])
		}
	}
	fpr, tpr = append(fpr, 0), append(tpr, 0)
	slices.Reverse(fpr)
	slices.Reverse(tpr)
	return integrate.Trapezoidal(fpr, tpr)
}

// bins is a histogram of the scores of both classes with bins of equal relative
// width, for the AUC over a whole stream in bounded memory. Scores in the same bin
// count as tied, so the error is at most half the share of pairs whose scores
// differ by less than 1/64 of their size. Unlike a sample of the scores, it has
// neither variance nor seed.
type bins struct {
	counts [2][]uint64 // by class; nil before the first score
}

const (
	octaveBins = 64  // a power of two: the first bits of the mantissa
	minExp     = -20 // smaller |scores| share two bins
	maxExp     = 12  // larger |scores| share two bins
	halfBins   = (maxExp-minExp)*octaveBins + 2
	numBins    = 2 * halfBins
	expBias    = 1023 // of a float64
)

// bin returns the bin of a score, increasing with it. 0 is in the lowest bin of the
// positive half, because it is predicted positive.
func bin(score float64) int {
	if math.IsNaN(score) {
		return 0
	}
	a := math.Abs(score)
	i := 0
	switch {
	case a >= 1<<maxExp:
		i = halfBins - 1
	case a >= 1.0/(1<<-minExp):
		const shift = 52 - 6 // 2^6 = octaveBins
		i = 1 + int(math.Float64bits(a)>>shift) - (expBias+minExp)*octaveBins
	}
	// Without a branch, since signs are unpredictable: −1 − i is the complement of i.
	return halfBins + (i ^ -int(one(score < 0)))
}

func (b *bins) add(score float64, class int) {
	if b.counts[0] == nil {
		b.counts = [2][]uint64{make([]uint64, numBins), make([]uint64, numBins)}
	}
	b.counts[class][bin(score)]++
}

// auc returns the AUC as if the scores in one bin were tied.
func (b *bins) auc() float64 {
	var negatives, positives, wins float64
	for i := range b.counts[0] {
		neg, pos := float64(b.counts[0][i]), float64(b.counts[1][i])
		wins += float64(pos * (negatives + neg/2))
		negatives += neg
		positives += pos
	}
	return wins / (negatives * positives)
}

// fields describes the nonempty bins.
func (b *bins) fields(f *state.Fields) {
	var at []int32
	var neg, pos []uint64
	for i := range b.counts[0] {
		if b.counts[0][i]+b.counts[1][i] > 0 {
			at = append(at, int32(i))
			neg, pos = append(neg, b.counts[0][i]), append(pos, b.counts[1][i])
		}
	}
	f.Int32s("bin", &at)
	f.Uint64s("negative", &neg)
	f.Uint64s("positive", &pos)
	if !f.Decoding() || f.Err() != nil {
		return
	}
	if len(neg) != len(at) || len(pos) != len(at) {
		f.Fail("bin", fmt.Errorf("%d bins, %d and %d counts", len(at), len(neg), len(pos)))
		return
	}
	b.counts = [2][]uint64{}
	if len(at) > 0 {
		b.counts = [2][]uint64{make([]uint64, numBins), make([]uint64, numBins)}
	}
	for k, i := range at {
		if i < 0 || i >= numBins || k > 0 && i <= at[k-1] {
			f.Fail("bin", fmt.Errorf("bin %d is out of order", i))
			return
		}
		b.counts[0][i], b.counts[1][i] = neg[k], pos[k]
	}
}
