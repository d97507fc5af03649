// Command mutate measures what the tests notice. It changes the source in one
// place at a time, a mutant, in an overlay of the build, and runs the tests of
// the mutant's package, then those of the packages that most directly depend on
// it. A mutant that none of them notices is a survivor.
//
//	go run -C bench ./mutate -seed 1 checkpoint=20 samplers=20
//
// draws 20 mutants of each of two packages. What is drawn depends on the seed
// and the mutated function alone, so the rest of the draw stays when code
// changes elsewhere. With -again FILE, results of an earlier run, the mutants
// killed there are not run again.
package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// dependents are the tests to run where those of a package notice nothing, in
// order: a folder, and after a colon which tests.
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
	Verdict string // killed, timeout, survived, or void: does not compile
	By      string // the tests that noticed
	Seconds float64
}

func main() {
	log.SetFlags(0)
	root := flag.String("root", "..", "root of the module")
	seed := flag.Uint64("seed", 1, "seed of the draw")
	workers := flag.Int("workers", 1, "mutants tested at the same time")
	limit := flag.Duration("limit", 5*time.Minute, "time after which a run of tests is a timeout")
	cpu := flag.Uint64("cpu", 90, "seconds of processor time after which a test is a timeout")
	skip := flag.String("skip", `_(other|amd64)\.go`, "what to leave out: an expression for file and function")
	again := flag.String("again", "", "results of an earlier run, whose kills are kept")
	out := flag.String("o", "mutants.jsonl", "results, a line each")
	own := flag.Bool("own", false, "run the tests of the mutant's own package only")
	list := flag.Bool("list", false, "print the draw and stop")
	flag.Parse()
	*root, _ = filepath.Abs(*root)
	// Every process started from here on has this much for itself, however busy
	// the machine is.
	if err := syscall.Setrlimit(syscall.RLIMIT_CPU, &syscall.Rlimit{Cur: *cpu, Max: *cpu}); err != nil {
		log.Fatal(err)
	}

	kept := map[string]result{}
	if *again != "" {
		f, err := os.Open(*again)
		if err != nil {
			log.Fatal(err)
		}
		for s := bufio.NewScanner(f); s.Scan(); {
			var r result
			if err := json.Unmarshal(s.Bytes(), &r); err != nil {
				log.Fatal(err)
			}
			kept[r.key()] = r
		}
	}
	type queue struct {
		pkg  string
		want int
		all  []Mutant
	}
	var queues []queue
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
		rank := func(m Mutant) uint64 {
			h := sha256.Sum256(fmt.Append(nil, *seed, m.key()))
			return binary.BigEndian.Uint64(h[:])
		}
		slices.SortFunc(all, func(a, b Mutant) int {
			if rank(a) < rank(b) {
				return -1
			}
			return 1
		})
		queues = append(queues, queue{pkg, n, all})
	}
	if *list {
		for _, q := range queues {
			fmt.Printf("%s: %d possible\n", q.pkg, len(q.all))
			for _, m := range q.all[:min(q.want, len(q.all))] {
				fmt.Println("  ", m)
			}
		}
		return
	}

	f, err := os.Create(*out)
	if err != nil {
		log.Fatal(err)
	}
	var mu sync.Mutex
	score := map[string]map[string]int{}
	slots := make(chan struct{}, *workers)
	var wg sync.WaitGroup
	for _, q := range queues {
		score[q.pkg] = map[string]int{}
	}
	for _, q := range queues {
		// A mutant that does not compile is none: the next in the draw takes its
		// place, once it is known that there is need for one.
		next, running := 0, 0
		done := sync.NewCond(&mu)
		wg.Go(func() {
			mu.Lock()
			defer mu.Unlock()
			for next < len(q.all) {
				tested := score[q.pkg]["killed"] + score[q.pkg]["timeout"] + score[q.pkg]["survived"]
				if tested == q.want {
					return
				}
				if tested+running == q.want {
					done.Wait()
					continue
				}
				m := q.all[next]
				next, running = next+1, running+1
				wg.Go(func() {
					slots <- struct{}{}
					start := time.Now()
					r, ok := kept[m.key()]
					if !ok || r.Verdict == "survived" {
						r = result{Mutant: m}
						r.Verdict, r.By = try(*root, m, *limit, *own)
						r.Seconds = time.Since(start).Seconds()
					}
					<-slots
					mu.Lock()
					defer mu.Unlock()
					running--
					score[q.pkg][r.Verdict]++
					json.NewEncoder(f).Encode(r)
					if r.Verdict != "void" {
						fmt.Printf("%-8s %5.1f s  %v  %s\n", r.Verdict, r.Seconds, m, r.By)
					}
					done.Signal()
				})
			}
		})
	}
	wg.Wait()
	fmt.Printf("\n| package | killed | of them by time | of |\n| --- | ---: | ---: | ---: |\n")
	all := [3]int{}
	for _, q := range queues {
		s := score[q.pkg]
		row := [3]int{s["killed"] + s["timeout"], s["timeout"], s["killed"] + s["timeout"] + s["survived"]}
		fmt.Printf("| `%s` | %d | %d | %d |\n", q.pkg, row[0], row[1], row[2])
		for i := range all {
			all[i] += row[i]
		}
	}
	fmt.Printf("| all | %d | %d | %d |\n", all[0], all[1], all[2])
}

// try runs the tests that might notice m, until some do.
func try(root string, m Mutant, limit time.Duration, own bool) (verdict, by string) {
	dir, err := os.MkdirTemp("", "mutate-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	source := filepath.Join(root, m.File)
	text, err := os.ReadFile(source)
	if err != nil {
		log.Fatal(err)
	}
	text = slices.Concat(text[:m.From], []byte(m.New), text[m.To:])
	mutated, overlay := filepath.Join(dir, "mutated.go"), filepath.Join(dir, "overlay.json")
	replace, _ := json.Marshal(map[string]any{"Replace": map[string]string{source: mutated}})
	if err := errors.Join(os.WriteFile(mutated, text, 0o666), os.WriteFile(overlay, replace, 0o666)); err != nil {
		log.Fatal(err)
	}
	pkg := filepath.Dir(m.File)
	next := dependents[pkg]
	if next == nil {
		next = []string{golden}
	}
	if own {
		next = nil
	}
	for _, tests := range append([]string{pkg}, next...) {
		folder, run, _ := strings.Cut(tests, ":")
		ctx, cancel := context.WithTimeout(context.Background(), limit+5*time.Minute)
		cmd := exec.CommandContext(ctx, "go", "test", "-vet=off", "-failfast", "-timeout", limit.String(), "-run", run, "./"+folder)
		cmd.Dir = root
		// Tests that build commands build mutants, too.
		cmd.Env = append(os.Environ(), "GOFLAGS=-overlay="+overlay)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
		output, err := cmd.CombinedOutput()
		late := ctx.Err() != nil || bytes.Contains(output, []byte("panic: test timed out")) || bytes.Contains(output, []byte("SIGXCPU"))
		cancel()
		switch {
		case err == nil:
		case bytes.Contains(output, []byte("[build failed]")):
			return "void", ""
		case late:
			return "timeout", tests
		default:
			by := regexp.MustCompile(`--- FAIL: (\w+)`).FindSubmatch(output)
			if by == nil {
				by = [][]byte{nil, []byte("a panic or exit")}
			}
			return "killed", folder + " " + string(by[1])
		}
	}
	return "survived", ""
}
