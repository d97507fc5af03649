// Command mutate measures what the tests notice. It changes the source in one
// place, a mutant, and runs the tests of the mutant's package, then those of the
// packages that most directly depend on it, until one fails. A mutant that none
// of them notices is a survivor.
//
//	go run -C bench ./mutate -seed 1 checkpoint=20 samplers=20
//
// draws 20 mutants of each of two packages. What is drawn depends on the seed
// and the mutated function alone, so the rest of the draw stays when code
// changes elsewhere. With -again FILE, results of an earlier run, the mutants
// killed there are not run again.
//
// All mutants are built at once, into an overlay of the build: a function that
// has some begins with a switch on the environment to its mutated bodies.
package main

import (
	"bufio"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// dependents are the tests to run where those of a package notice nothing: a
// folder, and after a colon which tests.
var dependents = map[string][]string{
	"checkpoint":        {"trainer"},
	"checkpoint/state":  {"samplers", "checkpoint"},
	"samplers":          {golden, "algos/sbp"},
	"stream/kafkaio":    {"stream/modeltopic"},
	"stream/modeltopic": {"predictor"},
	"trainer":           {"cmd/streamsvm:Train|Replay"},
	"internal/engine":   {"trainer"},
}

// golden are the states of all learners after a fixed stream: what notices a
// learner's mutants, and those of what learners share, where nothing else does.
const golden = "internal/engine:TestGoldenStates/avx512"

type result struct {
	Mutant
	Verdict string // killed, timeout or survived
	By      string // the test that noticed
	Seconds float64
}

func main() {
	log.SetFlags(0)
	root := flag.String("root", "..", "root of the module")
	seed := flag.Uint64("seed", 1, "seed of the draw")
	workers := flag.Int("workers", 2, "mutants tested at the same time")
	limit := flag.Duration("limit", 5*time.Minute, "time after which tests are a timeout")
	cpu := flag.Uint64("cpu", 90, "seconds of processor time after which they are one")
	skip := flag.String("skip", `_(other|amd64)\.go`, "what to leave out: an expression for file and function")
	again := flag.String("again", "", "results of an earlier run, whose kills are kept")
	resume := flag.Bool("resume", false, "the earlier run was interrupted: keep its survivors, too")
	own := flag.Bool("own", false, "run the tests of the mutant's own package only")
	out := flag.String("o", "mutants.jsonl", "results, a line each")
	list := flag.Bool("list", false, "print the draw and stop")
	flag.Parse()
	*root, _ = filepath.Abs(*root)
	kept := earlier(*again)

	draw := map[string][]*Mutant{}
	want := map[string]int{}
	var packages []string
	for _, arg := range flag.Args() {
		pkg, count, _ := strings.Cut(arg, "=")
		n, err := strconv.Atoi(count)
		if err != nil {
			log.Fatalf("%s: want folder=count", arg)
		}
		all, err := mutants(*root, pkg, regexp.MustCompile(*skip))
		if err != nil {
			log.Fatal(err)
		}
		for _, m := range all {
			h := sha256.Sum256(fmt.Append(nil, *seed, m.key()))
			m.rank = binary.BigEndian.Uint64(h[:])
		}
		slices.SortFunc(all, func(a, b *Mutant) int { return cmp.Compare(a.rank, b.rank) })
		// Those that do not compile are none: spare ones take their places.
		packages, want[pkg], draw[pkg] = append(packages, pkg), n, all[:min(2*n+5, len(all))]
	}
	// Every process started from here on has this much for itself, however busy
	// the machine is.
	if err := syscall.Setrlimit(syscall.RLIMIT_CPU, &syscall.Rlimit{Cur: *cpu, Max: *cpu + 10}); err != nil {
		log.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "mutate-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	b := &builder{root: *root, dir: dir}
	b.dropVoid(packages, draw)
	for pkg, n := range want {
		draw[pkg] = draw[pkg][:min(n, len(draw[pkg]))]
	}
	if *list {
		for _, pkg := range packages {
			for _, m := range draw[pkg] {
				fmt.Println(m)
			}
		}
		return
	}
	b.write(draw)

	f, err := os.Create(*out)
	if err != nil {
		log.Fatal(err)
	}
	var mu sync.Mutex
	score := map[string]map[string]int{}
	report := func(r result) {
		mu.Lock()
		defer mu.Unlock()
		score[filepath.Dir(r.File)][r.Verdict]++
		fmt.Printf("%-8s %5.1f s  %v  %s\n", r.Verdict, r.Seconds, &r.Mutant, r.By)
		if err := json.NewEncoder(f).Encode(r); err != nil {
			log.Fatal(err)
		}
	}
	slots := make(chan struct{}, *workers)
	var wg sync.WaitGroup
	for _, pkg := range packages {
		score[pkg] = map[string]int{}
	}
	// In turns, or all workers would wait for the tests of one package to be built.
	for i := range slices.Max(slices.Collect(maps.Values(want))) {
		for _, pkg := range packages {
			if i >= len(draw[pkg]) {
				continue
			}
			m := draw[pkg][i]
			if r, ok := kept[m.key()]; ok && (*resume || r.Verdict != "survived") {
				r.Mutant = *m
				report(r)
				continue
			}
			tests := []string{pkg}
			if next := dependents[pkg]; next != nil {
				tests = append(tests, next...)
			} else {
				tests = append(tests, golden)
			}
			if *own {
				tests = tests[:1]
			}
			slots <- struct{}{}
			wg.Go(func() {
				defer func() { <-slots }()
				r, start := result{Mutant: *m}, time.Now()
				for _, t := range tests {
					if r.Verdict, r.By = b.try(t, m.ID, *limit); r.Verdict != "survived" {
						break
					}
				}
				r.Seconds = time.Since(start).Seconds()
				report(r)
			})
		}
	}
	wg.Wait()

	fmt.Printf("\n| package | killed | of them by time | of |\n| --- | ---: | ---: | ---: |\n")
	var sum [3]int
	for _, pkg := range packages {
		s := score[pkg]
		row := [3]int{s["killed"] + s["timeout"], s["timeout"], s["killed"] + s["timeout"] + s["survived"]}
		fmt.Printf("| `%s` | %d | %d | %d |\n", pkg, row[0], row[1], row[2])
		for i := range sum {
			sum[i] += row[i]
		}
	}
	fmt.Printf("| all | %d | %d | %d |\n", sum[0], sum[1], sum[2])
}

// earlier reads the results of an earlier run.
func earlier(name string) map[string]result {
	kept := map[string]result{}
	if name == "" {
		return kept
	}
	f, err := os.Open(name)
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	s := bufio.NewScanner(f)
	for s.Scan() {
		var r result
		if err := json.Unmarshal(s.Bytes(), &r); err != nil {
			log.Fatal(err)
		}
		if r.Verdict != "void" {
			kept[r.key()] = r
		}
	}
	if err := s.Err(); err != nil {
		log.Fatal(err)
	}
	return kept
}
