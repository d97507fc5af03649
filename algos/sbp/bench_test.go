package sbp

import (
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/internal/testkit/dataset"
	"github.com/streamsvm/streamsvm/stream"
)

// cpu returns the processor seconds of the process, which, unlike the time of
// day, mean something on a busy machine.
func cpu() float64 {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return math.NaN()
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

// errorRate returns the share of test examples that m classifies wrongly.
func errorRate(m algos.Model, test []*stream.Example) float64 {
	xs := make([]stream.Vec, len(test))
	for i, x := range test {
		xs[i] = x.X
	}
	f := make([]float64, len(xs))
	m.Decisions(f, xs)
	wrong := 0
	for i, x := range test {
		if (f[i] >= 0) != (x.Y > 0) {
			wrong++
		}
	}
	return float64(wrong) / float64(len(test))
}

// TestPaperSets trains on whole data sets with a bias and the parameters of
// the paper's second experiment, and says what it took. Averages begin anew at
// each doubling of the number of updates. SBP_SETS chooses among the names,
// SBP_OPTIONS overrides options.
func TestPaperSets(t *testing.T) {
	if os.Getenv("STREAMSVM_LONG") == "" {
		t.Skip("set STREAMSVM_LONG=1")
	}
	for _, c := range []struct {
		name    string
		scale   float32
		options string
		updates []int
		goal    float64 // error on the test set, to be reached at the last
	}{
		{"a9a", 1, "gamma=0.005 c=100", []int{1000, 2000, 4000, 8000, 16000}, .152},
		{"mnist8", 1. / 255, "gamma=0.02 nu=6.42e-11 cache=1024", []int{500, 1000, 2000, 4000, 8000, 12000}, .0048},
	} {
		if s := os.Getenv("SBP_SETS"); s != "" && !strings.Contains(","+s+",", ","+c.name+",") {
			continue
		}
		train := dataset.Load(t, c.name+".train.libsvm.gz", 0, c.scale)
		test := dataset.Load(t, c.name+".test.libsvm.gz", 0, c.scale)
		o := map[string]string{"buffer": strconv.Itoa(len(train))}
		for w := range strings.FieldsSeq(c.options + " " + os.Getenv("SBP_OPTIONS")) {
			k, v, _ := strings.Cut(w, "=")
			o[k] = v
		}
		start := cpu()
		l := filled(t, o, train)
		rate := 1.
		for i, at := range c.updates {
			if i > 0 {
				l.settle()
				l.restart(1, 0)
			}
			for int(l.step) < at {
				l.update(min(256, at-int(l.step)))
			}
			l.settle()
			if at != c.updates[len(c.updates)-1] && !testing.Verbose() {
				continue // nothing is asked of it
			}
			seconds := cpu() - start
			rate = errorRate(l.Model(), test)
			start = cpu() - seconds
			t.Logf("%s, %d updates: error %.2f %%, %.1f s, %.3g kernel values, gauges %s", c.name, at, 100*rate, seconds, float64(l.rows.Evals), fmt.Sprint(l.Report().Gauges))
		}
		if rate > c.goal {
			t.Errorf("%s: error %.4f", c.name, rate)
		}
	}
}
