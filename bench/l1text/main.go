// Command l1text writes documents of two classes as sparse vectors, in libsvm
// form, for bench/l1.py: real collections need a download.
//
//	go run -C bench ./l1text [-rows N] [-words M] [-share S] [-counts] [-seed S] >FILE
//
// Word r of M is drawn with a probability of about 1/(r+2.7) (Zipf, Mandelbrot);
// a tenth of the words is more frequent in one class than in the other. Lengths
// vary by a factor of two or so, for S of the words in a document on average. Of
// a tenth of the documents every other word comes from the other class, so that
// the classes overlap. Values are logarithmic counts by inverse document
// frequency, and rows have length 1; with -counts all values are 1.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"sort"
)

func main() {
	rows := flag.Int("rows", 12748, "documents")
	words := flag.Int("words", 62061, "features")
	share := flag.Float64("share", 0.0013, "share of the values that are not 0")
	counts := flag.Bool("counts", false, "all values are 1, no tf-idf")
	seed := flag.Uint64("seed", 1, "seed")
	flag.Parse()
	if err := write(*rows, *words, *share, *counts, *seed); err != nil {
		fmt.Fprintln(os.Stderr, "l1text:", err)
		os.Exit(1)
	}
}

func write(rows, words int, share float64, counts bool, seed uint64) error {
	r := rand.New(rand.NewPCG(seed, 0))
	classes := vocabulary(r, words)
	docs, y, found := make([]map[int]int, rows), make([]int, rows), make([]int, words)
	// A document repeats some of its words: draw until there are enough.
	for i := range docs {
		y[i] = r.IntN(2)
		mixed := r.IntN(10) == 0
		want := max(3, int(share*float64(words)*math.Exp(0.5*r.NormFloat64()-0.125)))
		docs[i] = map[int]int{}
		for k := 0; len(docs[i]) < want; k++ {
			class := y[i]
			if mixed && k%2 == 1 {
				class = 1 - class
			}
			c := classes[class]
			docs[i][sort.SearchFloat64s(c, r.Float64()*c[len(c)-1])]++
		}
		for j := range docs[i] {
			found[j]++
		}
	}
	out := bufio.NewWriter(os.Stdout)
	for i, d := range docs {
		fmt.Fprintf(out, "%+d", 2*y[i]-1)
		value := func(j int) float64 {
			if counts {
				return 1
			}
			return (1 + math.Log(float64(d[j]))) * math.Log(float64(rows)/float64(found[j]))
		}
		list, length := slices.Sorted(maps.Keys(d)), 1.0
		if !counts {
			length = 0
			for _, j := range list {
				length += value(j) * value(j)
			}
		}
		for _, j := range list {
			fmt.Fprintf(out, " %d:%.6g", j+1, value(j)/math.Sqrt(length))
		}
		fmt.Fprintln(out)
	}
	return out.Flush()
}

// vocabulary returns for each class the sums of the words' probabilities, up to
// a factor. Numbers of features say nothing of frequency.
func vocabulary(r *rand.Rand, words int) (sums [2][]float64) {
	rank := r.Perm(words)
	for class := range sums {
		sums[class] = make([]float64, words)
	}
	total := [2]float64{}
	for j := range words {
		lean := 0.0
		if r.IntN(10) == 0 {
			lean = r.NormFloat64()
		}
		for class := range sums {
			total[class] += math.Exp(lean*float64(2*class-1)) / (float64(rank[j]) + 2.7)
			sums[class][j] = total[class]
		}
	}
	return sums
}
