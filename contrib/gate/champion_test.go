package gate

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/streamsvm/streamsvm/internal/rng"
)

// Streams of numbers in [−1,1] whose expectations are known: x returns the next
// number and its expectation, given those before.
var streams = map[string]func(r *rng.Source) func(n int) (x, mean float64){
	"coin": func(r *rng.Source) func(int) (float64, float64) {
		return func(int) (float64, float64) { return float64(2*r.IntN(2) - 1), 0 }
	},
	"rare": func(r *rng.Source) func(int) (float64, float64) {
		return func(int) (float64, float64) {
			if r.Float64() < 0.02 {
				return 1, 0.02
			}
			return 0, 0.02
		}
	},
	"small": func(r *rng.Source) func(int) (float64, float64) {
		return func(int) (float64, float64) { return 0.1 * (2*r.Float64() - 1), 0 }
	},
	// The expectation changes with what has come, and in stretches.
	"drifting": func(r *rng.Source) func(int) (float64, float64) {
		last := 0.0
		return func(n int) (float64, float64) {
			mean := 0.3*last + 0.3
			if n/200%2 == 1 {
				mean = 0.3*last - 0.4
			}
			x := -1.0
			if r.Float64() < (mean+1)/2 {
				x = 1
			}
			last = x
			return x, mean
		}
	},
}

// However often one looks, a bound is wrong in at most a share alpha of the runs.
func TestConfidenceSequenceCovers(t *testing.T) {
	const runs, length, a = 400, 3000, 0.1
	for name, stream := range streams {
		t.Run(name, func(t *testing.T) {
			wrong, naive := [2]int{}, 0
			for seed := range uint64(runs) {
				next := stream(rng.New(seed, "gate "+name))
				var m ConfidenceSequence
				sum, out, z := 0.0, [2]bool{}, false
				for n := range length {
					x, mean := next(n)
					m.Add(x)
					sum += mean
					low, high := m.Bounds(a)
					out[0] = out[0] || low > sum/float64(n+1)+1e-12
					out[1] = out[1] || high < sum/float64(n+1)-1e-12
					// What a test for one look would say, from 30 numbers on.
					z = z || n >= 30 && m.Mean()-sum/float64(n+1) > 1.2816*math.Sqrt(m.variance)/float64(n+1)
				}
				if z {
					naive++
				}
				for k := range out {
					if out[k] {
						wrong[k]++
					}
				}
			}
			for k, n := range wrong {
				if n > runs*a {
					t.Errorf("bound %d is wrong in %d of %d runs", k, n, runs)
				}
			}
			if naive < 2*runs*a {
				t.Errorf("the bound for one look is wrong in %d of %d runs only: the streams are no test", naive, runs)
			}
			t.Logf("wrong in %d and %d of %d runs; the bound for one look in %d", wrong[0], wrong[1], runs, naive)
		})
	}
}

// The bounds come near what is bounded: at 5,000 numbers they are less than four
// times as far as those of a z-test looked at once.
func TestConfidenceSequenceIsTight(t *testing.T) {
	for _, deviation := range []float64{1, 0.3, 0.15} {
		r, m := rng.New(1, "near"), ConfidenceSequence{}
		for range 5000 {
			m.Add(deviation * float64(2*r.IntN(2)-1))
		}
		low, high := m.Bounds(alpha)
		if z := 1.645 * deviation / math.Sqrt(5000); (high-low)/2 > 4*z+0.004 {
			t.Errorf("deviation %v: %v to %v, of a z-test ±%v", deviation, low, high, z)
		} else {
			t.Logf("deviation %v: ±%.4f, of a z-test ±%.4f", deviation, (high-low)/2, z)
		}
	}
}

func noMeasures() map[string]float64 { return nil }
func unchanged() string              { return "" }

// trial feeds a trial with 0-1 losses of two models, which are wrong with the
// probabilities given, until it ends, and returns the verdict and when.
func trial(seed uint64, r *Rule, champion, candidate func(n int) float64) (Verdict, int) {
	g, t := rng.New(seed, "trial"), ChampionTest{}
	for n := 0; ; n++ {
		u := g.Float64() // a shared part: both are wrong on hard examples
		l := Losses{Baseline: 0.5}
		if u < champion(n) {
			l.Champion = 1
		}
		if v := g.Float64(); v < 0.8 && u < candidate(n) || v >= 0.8 && g.Float64() < candidate(n) {
			l.Challenger = 1
		}
		t.Add(r, l, 1)
		if v, _ := t.Verdict(r, true, 1, noMeasures, unchanged); v != Wait {
			return v, n + 1
		}
	}
}

func always(p float64) func(int) float64 { return func(int) float64 { return p } }

// A candidate that is worse than the margin is promoted at most as often as the
// bound allows, one that is better is, and soon.
func TestChampionTest(t *testing.T) {
	r, err := ParseRule("error <= champion + 0.002; examples >= 1000", false, false)
	if err != nil {
		t.Fatal(err)
	}
	const runs = 200
	for _, tt := range []struct {
		name                string
		champion, candidate func(int) float64
		least, most         int // promoted
	}{
		{"as much worse as allowed", always(0.2), always(0.202), 0, runs * 5 / 100},
		{"worse", always(0.2), always(0.23), 0, runs / 100},
		{"better by 3 %", always(0.2), always(0.17), runs * 60 / 100, runs},
		{"better by 6 %", always(0.2), always(0.14), runs * 98 / 100, runs},
		// It learned from flipped labels, that end after a part of the trial.
		{"poisoned, nearly all the time right", always(0.6), func(n int) float64 {
			if n < 960 {
				return 0.3
			}
			return 0.9
		}, 0, runs * 5 / 100},
	} {
		promoted, sum := 0, 0
		champion := tt.champion
		if strings.HasPrefix(tt.name, "poisoned") {
			champion = func(n int) float64 {
				if n < 960 {
					return 0.9
				}
				return 0.1
			}
		}
		for seed := range uint64(runs) {
			v, n := trial(seed, &r, champion, tt.candidate)
			if v == Promote {
				promoted++
			}
			sum += n
		}
		t.Logf("%s: promoted in %d of %d, after %d examples", tt.name, promoted, runs, sum/runs)
		if promoted < tt.least || promoted > tt.most {
			t.Errorf("%s: promoted in %d of %d, want %d to %d", tt.name, promoted, runs, tt.least, tt.most)
		}
	}
}

func TestFirstChampion(t *testing.T) {
	r, _ := ParseRule("error <= champion; accuracy >= 0.9; examples >= 200", false, false)
	var tr ChampionTest
	for range 199 {
		tr.Add(&r, Losses{Challenger: 0, Baseline: 1}, 1)
	}
	good := func() map[string]float64 { return map[string]float64{"accuracy": 0.95} }
	if v, why := tr.Verdict(&r, false, 1, good, unchanged); v != Wait {
		t.Errorf("%q: %s", v, why)
	}
	tr.Add(&r, Losses{Challenger: 0, Baseline: 1}, 1)
	for _, tt := range []struct {
		accuracy float64
		changed  string
		want     Verdict
		why      string
	}{
		{0.95, "", Promote, "the first one"},
		{0.85, "", Reject, "accuracy is 0.85"},
		{math.NaN(), "", Reject, "accuracy is NaN"},
		{0.95, "amount", Reject, "inputs have changed: amount"},
	} {
		v, why := tr.Verdict(&r, false, 1, func() map[string]float64 { return map[string]float64{"accuracy": tt.accuracy} }, func() string { return tt.changed })
		if v != tt.want || why != tt.why {
			t.Errorf("%q: %s, want %q: %s", v, why, tt.want, tt.why)
		}
	}
	for range 500 {
		tr.Add(&r, Losses{Challenger: 1, Baseline: 0}, 1)
	}
	if v, why := tr.Verdict(&r, false, 1, good, unchanged); v != Reject || !strings.Contains(why, "larger class") {
		t.Errorf("%q: %s", v, why)
	}
}

func TestRollbackTest(t *testing.T) {
	r, err := ParseRule("demote >= 0.05", false, false)
	if err != nil {
		t.Fatal(err)
	}
	g := rng.New(3, "back")
	var worse, equal RollbackTest
	at := 0
	for n := range 20000 {
		d := 0.0
		if g.Float64() < 0.2 {
			d = 1
		}
		worse.Add(d, 0)
		equal.Add(d*float64(g.IntN(2)), d*float64(g.IntN(2)))
		if at == 0 && worse.Demote(&r, 1) {
			at = n + 1
		}
		if equal.Demote(&r, 1) {
			t.Fatal("a champion that is as good goes")
		}
	}
	if at == 0 || at > 1000 {
		t.Errorf("a champion that is worse by 0.2 goes after %d examples", at)
	}
}

func TestParseRule(t *testing.T) {
	for _, tt := range []struct {
		text             string
		regress, classes bool
		want             string
	}{
		{"auto", false, false, "brier <= champion + 0.002; examples >= 5000"},
		{"auto", true, false, "mae <= champion; examples >= 5000"},
		{"brier <= champion + 0.002; ece <= 0.05; examples >= 5000", false, false, "brier <= champion + 0.002; ece <= 0.05; examples >= 5000"},
		{"accuracy>=champion-0.01", false, true, "error <= champion + 0.01; examples >= 5000"},
		{"brier <= champion; demote >= 0.01; ", false, true, "brier <= champion; examples >= 5000; demote >= 0.01"},
		{"mae <= champion - 2; r2 >= 0.5; examples >= 300", true, false, "mae <= champion - 2; r2 >= 0.5; examples >= 300"},
	} {
		r, err := ParseRule(tt.text, tt.regress, tt.classes)
		if err != nil || r.String() != tt.want {
			t.Errorf("%s: %q, %v", tt.text, r.String(), err)
		}
		if again, err := ParseRule(r.String(), tt.regress, tt.classes); err != nil || again.String() != r.String() || !slices.Equal(again.Limits, r.Limits) {
			t.Errorf("%s, read again: %+v, %v", r.String(), again, err)
		}
	}
	for _, tt := range []struct {
		text             string
		regress, classes bool
		want             string
	}{
		{"", false, false, "there is no clause"},
		{"brier", false, false, "want MEASURE"},
		{"brier < champion", false, false, "want MEASURE"},
		{"brier >= champion", false, false, "less is better"},
		{"accuracy <= champion", false, false, "want accuracy >= champion"},
		{"auc >= champion", false, false, "cannot be compared"},
		{"brierr <= 1", false, false, "did you mean \"brier\"?"},
		{"ece <= 0.1", false, true, "no such measure here"},
		{"brier <= champion", true, false, "no such measure here"},
		{"mae <= champion", false, false, "no such measure here"},
		{"ece <= NaN", false, false, "is not a number"},
		{"ece <= champion * 2", false, false, "want champion + NUMBER"},
		{"examples >= 10", false, false, "want a whole number"},
		{"examples >= 1000.5", false, false, "want a whole number"},
		{"examples <= 1000", false, false, "want examples >="},
		{"demote >= 0", false, false, "larger than 0"},
		{"ece <= 0.1; ece <= 0.2", false, false, "such a clause already"},
		{"brier <= champion; error <= champion", false, false, "such a clause already"},
	} {
		if _, err := ParseRule(tt.text, tt.regress, tt.classes); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q: %v, want %q", tt.text, err, tt.want)
		}
	}
}
