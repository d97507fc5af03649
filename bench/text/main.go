// Command text writes examples like those of text classification: a few dozen
// of tens of thousands of words each, with frequencies by Zipf's law.
//
//	go run -C bench ./text -rows 12748 -words 62061 -length 100 > DIR/text.train
//	go run -C bench ./text -rows 4000 -words 62061 -length 100 -skip 12748 > DIR/text.test
//
// The lines are LIBSVM's; with -binary a word counts once. A text has two of 24
// topics. A word comes from the whole vocabulary or from that of a topic, in
// which words have other ranks. The label is the sign of a weight of either
// topic and one of the pair: partly linear in the words, partly not. Row i is
// the same whatever -skip is.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"

	"github.com/streamsvm/streamsvm/internal/rng"
)

const (
	topics  = 24
	common  = 0.5  // share of words from the whole vocabulary
	flipped = 0.03 // share of labels
)

type options struct {
	rows, skip, words, length int
	seed                      uint64
	binary                    bool
}

func main() {
	var o options
	flag.IntVar(&o.rows, "rows", 12748, "texts")
	flag.IntVar(&o.skip, "skip", 0, "texts before the first")
	flag.IntVar(&o.words, "words", 62061, "size of the vocabulary")
	flag.IntVar(&o.length, "length", 100, "mean length of a text; some words come more than once")
	flag.Uint64Var(&o.seed, "seed", 1, "seed")
	flag.BoolVar(&o.binary, "binary", false, "1 instead of counts")
	flag.Parse()
	if err := write(os.Stdout, o); err != nil {
		fmt.Fprintln(os.Stderr, "text:", err)
		os.Exit(1)
	}
}

func write(to io.Writer, o options) error {
	w := bufio.NewWriter(to)
	weight := weights(o.seed)
	count := map[int]int{}
	var line []byte
	for i := o.skip; i < o.skip+o.rows; i++ {
		r := rng.New(o.seed, "text/"+strconv.Itoa(i))
		pair := [2]int{r.IntN(topics), r.IntN(topics)}
		clear(count)
		for range o.length/2 + r.IntN(o.length+1) {
			word := rank(r.Float64(), o.words)
			if r.Float64() >= common {
				word = spread(word, pair[r.IntN(2)], o.words)
			}
			count[word]++
		}
		y := weight[pair[0]][pair[1]] > 0
		if r.Float64() < flipped {
			y = !y
		}
		line = append(line[:0], "-1"...)
		if y {
			line = append(line[:0], "+1"...)
		}
		for _, j := range sorted(count) {
			n := count[j]
			if o.binary {
				n = 1
			}
			line = fmt.Appendf(line, " %d:%d", j+1, n)
		}
		if _, err := w.Write(append(line, '\n')); err != nil {
			return err
		}
	}
	return w.Flush()
}

// weights returns the score of each pair of topics.
func weights(seed uint64) (w [topics][topics]float64) {
	r := rng.New(seed, "text/weights")
	var single [topics]float64
	for a := range single {
		single[a] = r.NormFloat64()
	}
	for a := range w {
		for b := range a + 1 {
			w[a][b] = single[a] + single[b] + r.NormFloat64()
			w[b][a] = w[a][b]
		}
	}
	return w
}

// rank returns the rank from 0, below n, that u draws by Zipf's law.
func rank(u float64, n int) int { return min(int(math.Exp(u*math.Log(float64(n)+1)))-1, n-1) }

// spread returns the word of a rank in the vocabulary of a topic: a product
// with a prime, so that ranks do not meet within a topic.
func spread(rank, topic, n int) int {
	const prime = 1_000_003 // larger than any vocabulary here
	return int((uint64(rank)*prime + uint64(topic+1)*7919) % uint64(n))
}

func sorted(count map[int]int) []int {
	keys := make([]int, 0, len(count))
	for j := range count {
		keys = append(keys, j)
	}
	slices.Sort(keys)
	return keys
}
