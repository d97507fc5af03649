package tune

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/stream"
)

// oracle is a learner whose accuracy is a known function of its options and of
// the number of examples it has learned from: it predicts example i right if a
// hash of i is below that accuracy.
type oracle struct {
	accuracy func(n int) float64
	n        int
	err      error
	log      *[]*stream.Example
}

type oracleOptions struct {
	C      float64 `opt:"c" default:"1" range:"(0,inf)" tune:"log 0.1 1000" doc:"c"`
	Lambda float64 `opt:"lambda" default:"auto" range:"(0,inf)" auto:"1/(C n)" doc:"lambda"`
	Kernel string  `opt:"kernel" default:"rbf" enum:"rbf,linear" doc:"kernel"`
	Gamma  float64 `opt:"gamma" default:"auto" range:"(0,inf)" auto:"median" tune:"log 0.01 30" doc:"gamma"`
	Mode   string  `opt:"mode" default:"slow" enum:"slow,fast" tune:"list slow fast" doc:"mode"`
	Fixed  int     `opt:"fixed" default:"3" range:"[1,9]" doc:"not tuned"`
}

func oracleSpec(accuracy func(o oracleOptions, n int) float64, change func(*oracle)) algos.Spec {
	return algos.Define(algos.SpecInfo{Name: "oracle", Kind: algos.Kernel}, nil,
		func(_ algos.Env, o oracleOptions) (algos.Learner, error) {
			l := &oracle{accuracy: func(n int) float64 { return accuracy(o, n) }}
			if change != nil {
				change(l)
			}
			return l, nil
		}, nil)
}

func (l *oracle) Add(x *stream.Example) (algos.Fate, error) {
	l.n++
	if l.log != nil {
		*l.log = append(*l.log, x)
	}
	return algos.Learned, nil
}
func (l *oracle) Need() algos.Need                                 { return algos.Need{Fresh: 1, Steps: 1} }
func (l *oracle) Step(context.Context) (algos.Report, error)       { return algos.Report{}, l.err }
func (l *oracle) Finish(ctx context.Context) (algos.Report, error) { return algos.Report{}, l.err }
func (l *oracle) Report() algos.Report                             { return algos.Report{} }
func (l *oracle) Model() algos.Model                               { return oracleModel{l.accuracy(l.n)} }
func (l *oracle) AppendBinary(dst []byte) ([]byte, error)          { return dst, nil }
func (l *oracle) UnmarshalBinary([]byte) error                     { return nil }

type oracleModel struct{ accuracy float64 }

// The examples carry their number and label as features.
func (m oracleModel) Decision(x stream.Vec) float64 {
	r := rand.New(rand.NewPCG(uint64(x.Val[0]), 1))
	if r.Float64() < m.accuracy {
		return float64(x.Val[1])
	}
	return -float64(x.Val[1])
}
func (m oracleModel) Decisions(dst []float64, xs []stream.Vec) {
	for i, x := range xs {
		dst[i] = m.Decision(x)
	}
}
func (m oracleModel) Info() algos.Info                        { return algos.Info{} }
func (m oracleModel) AppendBinary(dst []byte) ([]byte, error) { return dst, nil }

// numbered returns n examples with their number and label as features; one in
// rare is positive.
func numbered(n, rare int) []*stream.Example {
	xs := make([]*stream.Example, n)
	for i := range xs {
		x := &stream.Example{Seq: uint64(i + 1), Labelled: true, Y: -1}
		if i%rare == 0 {
			x.Y = 1
		}
		x.X.Val = []float32{float32(i), float32(x.Y)}
		xs[i] = x
	}
	return xs
}

// peak is an accuracy with its maximum at the given place, smooth in the
// logarithms, that rises with n.
func peak(c, gamma float64, mode string) func(oracleOptions, int) float64 {
	return func(o oracleOptions, n int) float64 {
		d := math.Pow(math.Log10(o.C/c), 2)/4 + math.Pow(math.Log10(o.Gamma/gamma), 2)/2
		if o.Mode != mode {
			d += .3
		}
		return .5 + .45*math.Exp(-d)*float64(n)/float64(n+200)
	}
}

func TestFindsThePeak(t *testing.T) {
	xs := numbered(3000, 2)
	for _, want := range []struct {
		c, factor float64
		mode      string
	}{{10, 1, "slow"}, {100, 4, "fast"}, {.5, .5, "slow"}} {
		// The grid is laid around 2/median distance, so the peak is, too.
		median := 1 / medianDistance(xs)
		spec := oracleSpec(peak(want.c, want.factor*median, want.mode), nil)
		var shares []float64
		res, err := Run(t.Context(), spec, algos.Env{Seed: 1}, nil, xs, func(share float64) { shares = append(shares, share) })
		if err != nil {
			t.Fatal(err)
		}
		if n := len(shares); n < 100 || !slices.IsSorted(shares) || shares[0] > 0.1 || math.Abs(shares[n-1]-1) > 0.01 {
			t.Errorf("%d shares from %v to %v", n, shares[0], shares[n-1])
		}
		c, _ := strconv.ParseFloat(chosenOf(res)["c"], 64)
		g, _ := strconv.ParseFloat(chosenOf(res)["gamma"], 64)
		// A grid step is a factor of 4.6 in c and of 3 in gamma.
		if math.Abs(math.Log(c/want.c)) > math.Log(5) || math.Abs(math.Log(g/median/want.factor)) > math.Log(4) || chosenOf(res)["mode"] != want.mode {
			t.Errorf("peak at c=%g, gamma=%g medians, %s; chosen c=%g, gamma=%g medians, %s", want.c, want.factor, want.mode, c, g/median, chosenOf(res)["mode"])
		}
		if !reflect.DeepEqual(chosenOf(res), res.Options) {
			t.Errorf("options %v, chosen %v", res.Options, chosenOf(res))
		}
		chosen := 0
		for _, r := range res.Table {
			if r.Chosen {
				chosen++
				if r.Options != fmt.Sprintf("c=%s gamma=%s mode=%s", chosenOf(res)["c"], chosenOf(res)["gamma"], chosenOf(res)["mode"]) || r.Examples != 3000 {
					t.Errorf("the row %+v is marked", r)
				}
			}
		}
		if chosen != 1 {
			t.Errorf("%d rows are marked as chosen", chosen)
		}
	}
}

func medianDistance(xs []*stream.Example) float64 {
	var d []float64
	for i, x := range xs {
		for _, z := range xs[:i] {
			a, b := float64(x.X.Val[0]-z.X.Val[0]), float64(x.X.Val[1]-z.X.Val[1])
			d = append(d, a*a+b*b)
		}
	}
	slices.Sort(d)
	return d[len(d)/2]
}

func TestGivenOptionsStay(t *testing.T) {
	xs := numbered(600, 2)
	spec := oracleSpec(peak(10, 1, "slow"), nil)
	for _, c := range []struct {
		fixed map[string]string
		tuned string
	}{
		{map[string]string{"fixed": "5"}, "c gamma mode"},
		{map[string]string{"c": "7"}, "gamma mode"},
		{map[string]string{"gamma": "auto", "mode": "fast"}, "c gamma"},
		{map[string]string{"lambda": "0.1"}, "gamma mode"},
		{map[string]string{"lambda": "auto", "kernel": "linear"}, "c mode"},
		{map[string]string{"c": "1", "gamma": "2", "mode": "slow"}, ""},
	} {
		res, err := Run(t.Context(), spec, algos.Env{Seed: 1}, c.fixed, xs, nil)
		if err != nil {
			t.Fatal(err)
		}
		var tuned []string
		for k := range chosenOf(res) {
			tuned = append(tuned, k)
		}
		slices.Sort(tuned)
		if got := strings.Join(tuned, " "); got != c.tuned {
			t.Errorf("%v: tuned %q, want %q", c.fixed, got, c.tuned)
		}
		for k, v := range c.fixed {
			if v != "auto" && res.Options[k] != v {
				t.Errorf("%v: %s became %s", c.fixed, k, res.Options[k])
			}
		}
		if (res.Note != "") != (c.tuned == "") || (len(res.Table) == 0) != (c.tuned == "") {
			t.Errorf("%v: note %q, %d rows", c.fixed, res.Note, len(res.Table))
		}
	}
	if _, err := Run(t.Context(), spec, algos.Env{}, map[string]string{"c": "-1"}, xs, nil); err == nil || !strings.Contains(err.Error(), "outside (0,inf)") {
		t.Errorf("an option out of range: %v", err)
	}
}

// chosenOf returns the options of the row that is marked.
func chosenOf(res Result) map[string]string {
	out := map[string]string{}
	for _, r := range res.Table {
		if !r.Chosen {
			continue
		}
		for f := range strings.FieldsSeq(r.Options) {
			k, v, _ := strings.Cut(f, "=")
			out[k] = v
		}
	}
	return out
}

// Equal scores: the middle of the grid; among equals there, the more
// regularised one.
func TestTies(t *testing.T) {
	spec := oracleSpec(func(oracleOptions, int) float64 { return .9 }, nil)
	res, err := Run(t.Context(), spec, algos.Env{Seed: 1}, nil, numbered(900, 2), nil)
	if err != nil {
		t.Fatal(err)
	}
	if chosenOf(res)["c"] != "10" || chosenOf(res)["mode"] != "slow" {
		t.Errorf("chosen %v", chosenOf(res))
	}
	grid, err := candidates(spec, algos.Env{}, map[string]string{"gamma": "1"}, numbered(10, 2), 6)
	if err != nil || len(grid) != 6 || grid[0].options["c"] != "0.1" {
		t.Fatalf("grid %v, error %v", grid, err)
	}
	for i, g := range grid[1:] {
		if g.rank < grid[i].rank {
			t.Errorf("%v after %v", g.options, grid[i].options)
		}
	}
}

func TestBoundedWork(t *testing.T) {
	xs := numbered(9000, 2)
	learned, trainings := 0, 0
	spec := oracleSpec(func(o oracleOptions, n int) float64 {
		learned += n
		trainings++
		return .6
	}, nil)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // the counters are not guarded
	res, err := Run(t.Context(), spec, algos.Env{Seed: 1}, nil, xs, nil)
	if err != nil {
		t.Fatal(err)
	}
	first, said := 0, 0
	for _, r := range res.Table {
		if r.Rung == 1 {
			first++
		}
		if r.Examples > maxExamples {
			t.Errorf("%d examples at rung %d", r.Examples, r.Rung)
		}
		said += r.Examples * (numFolds - 1)
	}
	if first < maxCandidates/2 || first > maxCandidates {
		t.Errorf("%d candidates, bound %d", first, maxCandidates)
	}
	// A rung takes whole runs of examples: up to one more for each fold.
	if learned < said || learned > said+trainings*numFolds*maxExamples/(numFolds*blocksPerFold) {
		t.Errorf("learned from %d examples, said %d", learned, said)
	}
}

// Folds are disjoint, cover everything, have equal class shares at every rung
// even if the stream is sorted by class, and are made of consecutive runs.
func TestFolds(t *testing.T) {
	for name, positive := range map[string]func(i int) bool{
		"alternating": func(i int) bool { return i%2 == 0 },
		"sorted":      func(i int) bool { return i < 1100 },
		"rare":        func(i int) bool { return i%40 == 0 },
	} {
		xs := numbered(3000, 2)
		share := 0.0
		for i, x := range xs {
			x.Y = -1
			if positive(i) {
				x.Y = 1
				share += 1. / 3000
			}
			x.Labelled = true
		}
		for seed := range uint64(8) {
			d, note := split(xs, algos.Env{Task: algos.Classify, Seed: seed})
			if note != "" {
				t.Fatal(note)
			}
			sizes := d.rungs(100)
			if name == "rare" && sizes[0] < 1000 {
				t.Errorf("a rung of %d examples has %d of the rare class", sizes[0], sizes[0]/40)
			}
			var smaller map[uint64]int
			for _, size := range sizes {
				folds := d.part(size)
				tested := map[uint64]int{}
				neighbours, total := 0, 0
				for k, f := range folds {
					train, pos := map[uint64]bool{}, 0
					for i, x := range f.train {
						if i > 0 && x.Seq <= f.train[i-1].Seq {
							t.Fatalf("%s: training examples out of order", name)
						}
						train[x.Seq] = true
						if x.Y > 0 {
							pos++
						}
					}
					if got := float64(pos) / float64(len(f.train)); math.Abs(got-share) > .06 {
						t.Errorf("%s, seed %d, %d examples, fold %d: share %.3f of the class, overall %.3f", name, seed, size, k, got, share)
					}
					for _, x := range f.test {
						if _, twice := tested[x.Seq]; twice || train[x.Seq] {
							t.Fatalf("%s: example %d is trained and tested on", name, x.Seq)
						}
						tested[x.Seq] = k
						total++
						if train[x.Seq-1] {
							neighbours++
						}
					}
				}
				if n := len(tested); n < size || n > size+3*d.labelled/(3*blocksPerFold) {
					t.Errorf("%s: %d examples at a rung for %d", name, n, size)
				}
				if share := float64(neighbours) / float64(total); share > 1.0/8 {
					t.Errorf("%s: %.2f of the test examples follow a training example", name, share)
				}
				for seq, k := range smaller {
					if got, ok := tested[seq]; !ok || got != k {
						t.Fatalf("%s: example %d left fold %d at the next rung", name, seq, k)
					}
				}
				smaller = tested
			}
			if len(smaller) != 3000 {
				t.Fatalf("%s: the last rung has %d of 3000 examples", name, len(smaller))
			}
		}
	}
}

func TestTooLittle(t *testing.T) {
	spec := oracleSpec(peak(10, 1, "slow"), nil)
	unlabelled := numbered(500, 2)
	for _, x := range unlabelled {
		x.Labelled, x.Y = false, 0
	}
	for name, xs := range map[string][]*stream.Example{
		"nothing": nil, "few": numbered(20, 2), "one class": numbered(500, 1), "hardly a second": numbered(500, 120), "unlabelled": unlabelled,
	} {
		res, err := Run(t.Context(), spec, algos.Env{Seed: 1}, map[string]string{"fixed": "2"}, xs, nil)
		if err != nil || res.Note == "" || len(chosenOf(res)) > 0 || !reflect.DeepEqual(res.Options, map[string]string{"fixed": "2"}) {
			t.Errorf("%s: %+v, error %v", name, res, err)
		}
	}
}

// Unlabelled examples are learned from, but not scored, and labelled ones
// count.
func TestUnlabelled(t *testing.T) {
	xs := numbered(2000, 2)
	for i, x := range xs {
		if i%4 > 0 {
			x.Labelled, x.Y = false, 0
		}
		x.Y = float64(x.X.Val[1]) * map[bool]float64{true: 1, false: 0}[x.Labelled]
	}
	for i := 0; i < 2000; i += 8 { // both classes among the labelled
		xs[i].Y, xs[i].X.Val[1] = -1, -1
	}
	var log []*stream.Example
	spec := oracleSpec(peak(10, 1, "slow"), func(l *oracle) { l.log = &log })
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // the log is not guarded
	res, err := Run(t.Context(), spec, algos.Env{Seed: 1}, nil, xs, nil)
	if err != nil {
		t.Fatal(err)
	}
	labelled := 0
	for _, x := range log {
		if x.Labelled {
			labelled++
		}
	}
	if last := res.Table[len(res.Table)-1]; last.Examples != 500 {
		t.Errorf("%d examples at the last rung, want the 500 labelled ones", last.Examples)
	}
	if share := float64(labelled) / float64(len(log)); share < .2 || share > .3 {
		t.Errorf("%.2f of the examples learned from are labelled", share)
	}
}

func TestErrors(t *testing.T) {
	boom := errors.New("boom")
	spec := oracleSpec(peak(10, 1, "slow"), func(l *oracle) { l.err = boom })
	if _, err := Run(t.Context(), spec, algos.Env{Seed: 1}, nil, numbered(500, 2), nil); !errors.Is(err, boom) || !strings.Contains(err.Error(), "gamma=") {
		t.Errorf("a learner that fails: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Run(ctx, oracleSpec(peak(10, 1, "slow"), nil), algos.Env{Seed: 1}, nil, numbered(500, 2), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled run: %v", err)
	}
	// A candidate whose model is not finite loses to all others.
	nan := oracleSpec(func(o oracleOptions, n int) float64 { return .9 }, nil)
	inner := nan.New
	nan.New = func(env algos.Env, o map[string]string) (algos.Learner, error) {
		l, err := inner(env, o)
		if c, _ := strconv.ParseFloat(o["c"], 64); c >= 10 {
			l = diverged{l}
		}
		return l, err
	}
	all := nan
	all.New = func(env algos.Env, o map[string]string) (algos.Learner, error) {
		l, err := inner(env, o)
		return diverged{l}, err
	}
	res, err := Run(t.Context(), all, algos.Env{Seed: 1}, nil, numbered(900, 2), nil)
	if err != nil || len(res.Options) > 0 || res.Note == "" {
		t.Errorf("all candidates diverge: %+v, error %v", res.Options, err)
	}
	res, err = Run(t.Context(), nan, algos.Env{Seed: 1}, nil, numbered(900, 2), nil)
	if c, _ := strconv.ParseFloat(chosenOf(res)["c"], 64); err != nil || c >= 10 {
		t.Errorf("chosen %v, error %v", chosenOf(res), err)
	}
}

type diverged struct{ algos.Learner }

func (d diverged) Model() algos.Model { return nowhere{d.Learner.Model()} }

type nowhere struct{ algos.Model }

func (nowhere) Decisions(dst []float64, xs []stream.Vec) {
	for i := range dst {
		dst[i] = math.NaN()
	}
}

func TestRows(t *testing.T) {
	rows := []Row{{Options: "c=1 gamma=0.5", Rung: 1, Examples: 400, Score: .91, Loss: .25}, {Options: "c=10 gamma=0.5", Rung: 2, Examples: 1200, Score: .5, Loss: math.Inf(1), Chosen: true}}
	for _, r := range rows {
		data, err := state.Append(nil, r.Fields)
		var back Row
		if err == nil {
			err = state.Decode(data, back.Fields)
		}
		if err != nil || back != r {
			t.Errorf("%+v became %+v, error %v", r, back, err)
		}
	}
}

// At the last rung every example is held out exactly once.
func TestScoreIsCrossValidated(t *testing.T) {
	xs := numbered(900, 2)
	right := 0.0
	for _, x := range xs {
		if (oracleModel{.9}).Decision(x.X) == x.Y {
			right++
		}
	}
	spec := oracleSpec(func(oracleOptions, int) float64 { return .9 }, nil)
	res, err := Run(t.Context(), spec, algos.Env{Seed: 1}, nil, xs, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range res.Table {
		if r.Examples == 900 && r.Score != right/900 {
			t.Errorf("score %g, want %g", r.Score, right/900)
		}
	}
}
