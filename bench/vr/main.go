// Command vr compares variance-reduced methods on ridge, Lasso and elastic-net
// regression, as Shang et al. (AISTATS 2018) do, with the ablation that they
// leave out: momentum without sufficient-decrease steps.
//
//	go run -C bench ./vr -data DIR -out DIR
//
// For each data set and problem every method runs with every step size of the
// paper's grid on one seed; the best one runs on all seeds. Written are
// results.md (medians), runs.csv (every run), curves.csv, steps.csv (the whole
// grid) and index.html with a chart for each data set and problem.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"math"
	"os"
	"runtime"
	"strconv"
	"strings"

	"github.com/streamsvm/streamsvm/internal/app/chart"
	"github.com/streamsvm/streamsvm/internal/finitesum"
)

// paperGrid is {10^j, 2.5, 5, 7.5, 10 times 10^j} for j = −2, −1, 0.
var paperGrid = []float64{.01, .025, .05, .075, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10}

var levels = []float64{1e-4, 1e-8, 1e-12}

// contender is a method with its settings.
type contender struct {
	name string
	par  finitesum.Params
	// fits says on which problems it runs.
	fits func(p *finitesum.Problem) bool
}

func contenders() []contender {
	any := func(*finitesum.Problem) bool { return true }
	ridge := func(p *finitesum.Problem) bool { return p.Lasso == 0 }
	lasso := func(p *finitesum.Problem) bool { return p.Lasso > 0 }
	small := func(p *finitesum.Problem) bool { return p.Dim() <= finitesum.MaxGram && p.Len() < 200000 } // each step costs d²/2
	convex := func(p *finitesum.Problem) bool { return p.Ridge == 0 }
	all := []contender{
		{"svrg", finitesum.Params{Method: finitesum.SVRG}, ridge},
		{"prox-svrg", finitesum.Params{Method: finitesum.ProxSVRG}, lasso},
		{"saga", finitesum.Params{Method: finitesum.SAGA}, any},
		{"katyusha", finitesum.Params{Method: finitesum.Katyusha}, any},
		{"svrg-sd", finitesum.Params{Method: finitesum.SVRGSD, Decrease: .001}, any},
		{"svrg-sd, m1 = 0", finitesum.Params{Method: finitesum.SVRGSD}, any},
		{"svrg-sd, m1 = m", finitesum.Params{Method: finitesum.SVRGSD, Decrease: 1}, small},
		{"svrg-sd, variant B", finitesum.Params{Method: finitesum.SVRGSD, Decrease: .001, Variant: finitesum.ConvexB}, convex},
		{"svrg-sd, SC start", finitesum.Params{Method: finitesum.SVRGSD, Decrease: .001, Variant: finitesum.Strongly}, convex},
		{"saga-sd", finitesum.Params{Method: finitesum.SAGASD, Decrease: .001}, any},
		{"saga-sd, m1 = 0", finitesum.Params{Method: finitesum.SAGASD}, any},
	}
	for i := range all {
		all[i].par.Sigma, all[i].par.Delta = .5, .1
	}
	return all
}

// curve is a run: the gap after each epoch.
type curve struct {
	passes, seconds, gap []float64
}

// reach returns passes and seconds at which the gap first was at most level;
// NaN where it never was.
func (c *curve) reach(level float64) (passes, seconds float64) {
	for k, g := range c.gap {
		if g <= level {
			return c.passes[k], c.seconds[k]
		}
	}
	return math.NaN(), math.NaN()
}

func (c *curve) last() float64 { return c.gap[len(c.gap)-1] }

// behind reports whether after ten passes or more c is hopelessly worse than
// best was.
func (c *curve) behind(best *curve) bool {
	at := c.passes[len(c.passes)-1]
	if best == nil || at < 10 {
		return false
	}
	then := best.gap[0]
	for k, p := range best.passes {
		if p <= at {
			then = best.gap[k]
		}
	}
	return c.last() > 100*then && c.last() > 1e-10
}

// measure runs a method until the gap is below the last level, more than limit
// passes are done, it diverges or falls far behind a better run. Time spent on
// the gap does not count.
func measure(ctx context.Context, o *optimum, par finitesum.Params, limit float64, better *curve) (*curve, error) {
	begin := clock()
	s := finitesum.NewSolver(o.p, par)
	if par.Decrease > 0 && o.p.Dim() <= finitesum.MaxGram {
		g := new(finitesum.Gram)
		g.Rebuild(o.p)
		s.UseGram(g)
	}
	spent := clock() - begin
	first := o.gap(s.X())
	c := &curve{[]float64{0}, []float64{0}, []float64{first}}
	for s.Passes() < limit {
		begin := clock()
		if err := s.Epoch(ctx); err != nil {
			return nil, err
		}
		spent += clock() - begin
		g := o.gap(s.X())
		c.passes, c.seconds, c.gap = append(c.passes, s.Passes()), append(c.seconds, spent.Seconds()), append(c.gap, g)
		if !(g < 1e3*first) {
			c.gap[len(c.gap)-1] = math.Inf(1)
			break
		}
		if g <= levels[len(levels)-1] || c.behind(better) {
			break
		}
	}
	return c, nil
}

// result is a method on a problem: the best step and its runs, one a seed.
type result struct {
	name string
	step float64
	runs []*curve
}

type bench struct {
	ctx    context.Context
	out    string
	grid   []float64
	seeds  int
	limit  float64
	runs   strings.Builder
	steps  strings.Builder
	curves strings.Builder
	text   strings.Builder
	charts []chart.Chart
}

func main() {
	log.SetFlags(log.Ltime)
	runtime.LockOSThread() // for clock
	data := flag.String("data", os.Getenv("STREAMSVM_DATA"), "directory of the data sets")
	out := flag.String("out", "", "directory to write to")
	sets := flag.String("sets", "ijcnn1,reuters_moneyfx,covtype15k,generated", "data sets")
	seeds := flag.Int("seeds", 5, "runs with the best step")
	limit := flag.Float64("passes", 100, "passes after which a run ends")
	rows := flag.Int("rows", 1000000, "rows of the generated set")
	only := flag.String("problems", "", "run the problems whose names contain this")
	narrow := flag.String("grid", "", "step sizes to try, parted by commas, instead of the paper's")
	flag.Parse()
	if *out == "" || *data == "" {
		log.Fatal("-data DIR and -out DIR are needed")
	}
	b := &bench{ctx: context.Background(), out: *out, grid: paperGrid, seeds: *seeds, limit: *limit}
	if *narrow != "" {
		b.grid = nil
		for text := range strings.SplitSeq(*narrow, ",") {
			v, err := strconv.ParseFloat(text, 64)
			if err != nil {
				log.Fatal(err)
			}
			b.grid = append(b.grid, v)
		}
	}
	if err := os.MkdirAll(*out, 0o777); err != nil {
		log.Fatal(err)
	}
	fmt.Fprintln(&b.runs, "set,problem,method,step,seed,"+columns("passes")+","+columns("seconds")+",final_gap")
	fmt.Fprintln(&b.steps, "set,problem,method,step,passes,final_gap")
	fmt.Fprintln(&b.curves, "set,problem,method,seed,passes,seconds,gap")
	for name := range strings.SplitSeq(*sets, ",") {
		t, err := load(*data, name, *rows)
		if err != nil {
			log.Fatal(err)
		}
		for _, w := range []struct {
			name         string
			ridge, lasso float64
		}{{"ridge 1e-4", 1e-4, 0}, {"ridge 1e-6", 1e-6, 0}, {"lasso 1e-4", 0, 1e-4}, {"elastic net 1e-5, 1e-5", 1e-5, 1e-5}} {
			if !strings.Contains(w.name, *only) {
				continue
			}
			if err := b.compare(t, w.name, t.problem(w.ridge, w.lasso, 1)); err != nil {
				log.Fatalf("%s, %s: %v", t.name, w.name, err)
			}
			if err := b.write(); err != nil { // after each, since it takes long
				log.Fatal(err)
			}
		}
	}
}

func columns(what string) string {
	var s []string
	for _, l := range levels {
		s = append(s, fmt.Sprintf("%s_%.0e", what, l))
	}
	return strings.Join(s, ",")
}

func (b *bench) compare(t *table, problem string, p *finitesum.Problem) error {
	o, err := solve(b.ctx, p, t.problem(p.Ridge, p.Lasso, 0))
	if err != nil {
		return err
	}
	log.Printf("%s, %s: %d rows, %d features, F* = %.12g, %d not 0", t.name, problem, p.Len(), p.Dim(), o.f, o.support)
	var scout *optimum
	small := &table{name: t.name + ", first rows", rows: t.rows[:len(t.rows)/20], b: t.b, dim: t.dim}
	if p.Len() > scoutRows {
		if scout, err = solve(b.ctx, small.problem(p.Ridge, p.Lasso, 1), small.problem(p.Ridge, p.Lasso, 0)); err != nil {
			return err
		}
	}
	var all []result
	for _, c := range contenders() {
		if !c.fits(p) {
			continue
		}
		start := len(b.grid) / 2
		if scout != nil {
			if start, err = b.search(small, problem, scout, c, start); err != nil {
				return err
			}
		}
		r, err := b.best(t, problem, o, c, start)
		if err != nil {
			return err
		}
		all = append(all, r)
		passes, seconds := r.median(levels[2])
		log.Printf("  %-20s step %-5g passes %.1f seconds %.3f", r.name, r.step, passes, seconds)
	}
	seconds, gap := direct(o)
	b.table(t, problem, o, all, seconds, gap)
	b.plot(t, problem, all)
	return nil
}

// scoutRows is the number of rows above which the search for a step begins
// where it ends on a twentieth of them.
const scoutRows = 400000

// best looks for the best step of the grid on one seed, from the one at index
// start; then it runs that step on all seeds.
func (b *bench) best(t *table, problem string, o *optimum, c contender, start int) (result, error) {
	r := result{name: c.name}
	best, err := b.search(t, problem, o, c, start)
	if err != nil {
		return r, err
	}
	r.step = b.grid[best]
	for seed := range b.seeds {
		par := c.par
		par.Rate, par.Seed = r.step, uint64(seed+1)
		run, err := measure(b.ctx, o, par, b.limit, nil)
		if err != nil {
			return r, err
		}
		r.runs = append(r.runs, run)
		var p, s []string
		for _, l := range levels {
			a, b := run.reach(l)
			p, s = append(p, number(a, "%.2f")), append(s, number(b, "%.4f"))
		}
		fmt.Fprintf(&b.runs, "%s,%q,%q,%g,%d,%s,%s,%.3e\n", t.name, problem, c.name, r.step, seed+1, strings.Join(p, ","), strings.Join(s, ","), run.last())
		for k := range run.gap {
			fmt.Fprintf(&b.curves, "%s,%q,%q,%d,%.3f,%.5f,%.4e\n", t.name, problem, c.name, seed+1, run.passes[k], run.seconds[k], run.gap[k])
		}
	}
	return r, nil
}

// search looks for the best step of the grid on one seed, from the one at index
// best up, or else down, as long as it gets better.
func (b *bench) search(t *table, problem string, o *optimum, c contender, best int) (int, error) {
	limit := b.limit
	var leader *curve
	try := func(k int) (float64, error) {
		if k < 0 || k >= len(b.grid) {
			return math.Inf(1), nil
		}
		par := c.par
		par.Rate, par.Seed = b.grid[k], 1000
		run, err := measure(b.ctx, o, par, limit, leader)
		if err != nil {
			return 0, err
		}
		fmt.Fprintf(&b.steps, "%q,%q,%q,%g,%.2f,%.3e\n", t.name, problem, c.name, par.Rate, run.passes[len(run.passes)-1], run.last())
		// Passes to the last level; those that fail come after, by their gap.
		score, _ := run.reach(levels[2])
		if math.IsNaN(score) {
			score = 1e6 * (1 + math.Max(0, 30+math.Log10(run.last())))
		} else {
			limit = min(limit, score) // others need not run longer
		}
		if leader == nil || run.last() < leader.last() {
			leader = run
		}
		return score + 1e-3*math.Log10(run.last()), nil // among equals the smaller gap
	}
	low, err := try(best)
	if err != nil {
		return 0, err
	}
	for _, way := range []int{1, -1} {
		for moved := false; ; moved = true {
			score, err := try(best + way)
			if err != nil {
				return 0, err
			}
			if !(score < low) {
				if moved {
					way = 0 // the other side is worse
				}
				break
			}
			low, best = score, best+way
		}
		if way == 0 {
			break
		}
	}
	return best, nil
}

func number(v float64, format string) string {
	if math.IsNaN(v) {
		return ""
	}
	return fmt.Sprintf(format, v)
}

// direct returns the seconds that the normal equations take and the gap that
// they leave; NaN where there are too many features or a Lasso term.
func direct(o *optimum) (seconds, gap float64) {
	if o.p.Lasso > 0 || o.p.Dim() > finitesum.MaxGram {
		return math.NaN(), math.NaN()
	}
	begin := clock()
	var g finitesum.Gram
	g.Rebuild(o.p)
	x, err := g.Ridge(o.p.Ridge)
	seconds = (clock() - begin).Seconds()
	if err != nil {
		return math.NaN(), math.NaN()
	}
	return seconds, o.gap(x)
}
