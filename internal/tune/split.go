package tune

import (
	"cmp"
	"math"
	"slices"
	"sort"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/internal/rng"
	"github.com/streamsvm/streamsvm/stream"
)

// data are the examples for cross-validation, in runs of consecutive examples. Each run
// belongs to a fold. Smaller rungs use the first runs of every fold, so that rungs are
// nested.
type data struct {
	blocks   [][]block // by fold, in seeded order
	labelled int
	minority float64 // share of the rarer class, or 1 in regression
}

// block is a run of consecutive examples.
type block struct {
	at       int // position in the stream
	list     []*stream.Example
	labelled int
	positive int
}

// fold is one split into a training and a test part, both in stream order.
type fold struct{ train, test []*stream.Example }

// blocksPerFold is the number of runs in a fold: enough to cover every part of the
// stream, few enough that most neighbours stay together.
const blocksPerFold = 64

// split distributes the examples over folds. If that is impossible, note says why.
func split(examples []*stream.Example, env algos.Env) (d *data, note string) {
	task := env.Task
	d = &data{minority: 1}
	n := 0
	for i, x := range examples {
		if !x.Labelled {
			continue
		}
		n++
		if n == maxExamples {
			examples = examples[:i+1]
			break
		}
	}
	isPositive := positives(examples, env.Classes)
	positive := 0
	for _, x := range examples {
		if x.Labelled && isPositive(x) {
			positive++
		}
	}
	d.labelled = n
	if task == algos.Classify {
		rare := min(positive, n-positive)
		d.minority = float64(rare) / float64(max(n, 1))
		if rare < 2*numFolds {
			return nil, "too few examples of one class to tune on"
		}
	}
	if n < 10*numFolds {
		return nil, "too few labelled examples to tune on"
	}
	size := max(1, n/(numFolds*blocksPerFold))
	var all []block
	for _, x := range examples {
		if k := len(all); k == 0 || all[k-1].labelled >= size {
			all = append(all, block{at: k})
		}
		b := &all[len(all)-1]
		b.list = append(b.list, x)
		if x.Labelled {
			b.labelled++
			if isPositive(x) {
				b.positive++
			}
		}
	}
	// Sort the runs by their share of one class and deal them to the folds in
	// rounds, in random order within a round: equal shares, and no pattern.
	r := rng.New(env.Seed, "tune.folds")
	r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	sort.SliceStable(all, func(i, j int) bool { return all[i].positive*all[j].labelled < all[j].positive*all[i].labelled })
	d.blocks = make([][]block, numFolds)
	for len(all) > 0 {
		hand := all[:min(numFolds, len(all))]
		all = all[len(hand):]
		for i, k := range r.Perm(numFolds) {
			if i < len(hand) {
				d.blocks[k] = append(d.blocks[k], hand[i])
			}
		}
	}
	for k := range d.blocks {
		d.blocks[k] = spread(d.blocks[k], r.Float64())
	}
	return d, ""
}

// positives returns a function that says which labelled examples count as positive for
// folds and rungs. With more than two classes, these are all but the largest class.
func positives(examples []*stream.Example, classes int) func(*stream.Example) bool {
	if classes <= 2 {
		return func(x *stream.Example) bool { return x.Y > 0 }
	}
	count, largest := make([]int, classes), 0
	for _, x := range examples {
		if x.Labelled {
			count[int(x.Y)]++
		}
	}
	for k, n := range count {
		if n > count[largest] {
			largest = k
		}
	}
	return func(x *stream.Example) bool { return int(x.Y) != largest }
}

// spread reorders blocks, which are sorted by their share of a class, so that the first
// k of them, for any k, are spread evenly over all. It sorts by the fractional parts of
// multiples of the golden ratio. So a rung has the class shares of the whole even if
// the stream is sorted by class.
func spread(blocks []block, offset float64) []block {
	order := make([]int, len(blocks))
	key := make([]float64, len(blocks))
	for i := range order {
		_, key[i] = math.Modf(offset + float64(float64(i)*(math.Phi-1)))
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int { return cmp.Compare(key[i], key[j]) })
	out := make([]block, len(blocks))
	for i, j := range order {
		out[i] = blocks[j]
	}
	return out
}

// rungs returns the sizes of the rungs, in labelled examples.
func (d *data) rungs(trials int) []int {
	least := max(leastExamples, int(math.Ceil(leastMinority/d.minority)))
	sizes := []int{d.labelled}
	for n := d.labelled / 3; n >= least && len(sizes) < maxRungs && trials > leastSurvivors; n /= 3 {
		sizes = append(sizes, n)
	}
	if len(sizes) == 1 && 2*least <= d.labelled && trials > leastSurvivors {
		sizes = append(sizes, least)
	}
	slices.Reverse(sizes)
	return sizes
}

// part returns the folds of a rung of about size labelled examples.
func (d *data) part(size int) []fold {
	var use [][]block
	for _, blocks := range d.blocks {
		n, k := 0, 0
		for k < len(blocks) && n < (size+numFolds-1)/numFolds {
			n += blocks[k].labelled
			k++
		}
		use = append(use, blocks[:k])
	}
	folds := make([]fold, numFolds)
	for k := range folds {
		var train, test []block
		for j, blocks := range use {
			if j == k {
				test = append(test, blocks...)
			} else {
				train = append(train, blocks...)
			}
		}
		folds[k].train = join(train, true)
		folds[k].test = join(test, false)
	}
	return folds
}

// join returns the examples of the blocks in stream order.
func join(blocks []block, unlabelled bool) []*stream.Example {
	sort.Slice(blocks, func(i, j int) bool { return blocks[i].at < blocks[j].at })
	var out []*stream.Example
	for _, b := range blocks {
		for _, x := range b.list {
			if x.Labelled || unlabelled {
				out = append(out, x)
			}
		}
	}
	return out
}
