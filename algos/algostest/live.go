package algostest

import (
	"maps"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/stream"
)

// Live makes Run also check the models between steps, on n examples of each of
// the noisy streams, with the given options on top of the others. Limits on the
// stored examples must be small enough for n examples to exceed them by far.
func Live(n int, options map[string]string) Option {
	return func(c *config) { c.live, c.liveOptions = n, options }
}

// concept is a stationary stream with noise.
type concept struct {
	name  string
	noise float64 // share of flipped labels; in regression the standard deviation of the noise
	draw  func(r *rand.Rand) (x []float32, y float64)
}

func cube(r *rand.Rand, d int) []float32 {
	x := make([]float32, d)
	for j := range x {
		x[j] = float32((2*r.Float64() - 1) * math.Sqrt(3)) // variance 1
	}
	return x
}

func sign(positive bool) float64 {
	if positive {
		return 1
	}
	return -1
}

// plane is SEA without drift: two of three features matter, and a third of the
// examples is of class +1.
var plane = concept{"plane", .1, func(r *rand.Rand) ([]float32, float64) {
	x := cube(r, 3)
	return x, sign(x[0]+x[1] < -.7)
}}

// ball has balanced classes.
var ball = concept{"ball", .12, func(r *rand.Rand) ([]float32, float64) {
	x := cube(r, 3)
	return x, sign(x[0]*x[0]+x[1]*x[1]+x[2]*x[2] < 2.93)
}}

var line = concept{"line", .5, func(r *rand.Rand) ([]float32, float64) {
	x := cube(r, 3)
	return x, float64(x[0]) - 2*float64(x[1]) + .5
}}

// examples draws n examples; noise 0 gives the truth.
func (k concept) examples(n int, seed uint64, task algos.Task, noise float64) []*stream.Example {
	r := rand.New(rand.NewPCG(seed, 0x6c697665))
	xs := make([]*stream.Example, n)
	for i := range xs {
		x, y := k.draw(r)
		switch {
		case task == algos.Regress:
			y += noise * r.NormFloat64()
		case r.Float64() < noise:
			y = -y
		}
		xs[i] = &stream.Example{Seq: uint64(i + 1), X: stream.Vec{Val: x}, Y: y, Labelled: true}
	}
	return xs
}

const (
	// livePoints is the size of the test set: noise free, so that a standard
	// error is .3 points at 97 %.
	livePoints = 4000
	// liveMoments is the number of times, evenly spaced over the second half of
	// the stream, at which the model is tested. The first half, where a learner
	// may know little, is not tested.
	liveMoments = 8
	// liveLag is how far the model may be behind the finished one, in accuracy
	// on noisy labels or in R².
	liveLag = .005
)

// checkLive: a deployed learner is never finished, so the model between steps
// matters. On a stationary stream with noise it must end at most half a point
// behind the finished model, and it must not get worse as the stream goes on.
//
// The measure is the agreement with the concept, always on the same points
// without noise. If a share q of the labels is flipped, half a point of accuracy
// is 0.5/(1 − 2q) points of agreement. The agreement at the end is the mean over
// the last quarter of the tests, since a single model may be lucky. At any later
// time the agreement may be lower than earlier by at most 4 standard errors of
// the difference of two independent proportions, plus half a point for the
// random contents of the window. In regression the measure is R², with the
// standard error of the paired differences of squared errors.
func (s *suite) checkLive(t *testing.T) {
	if s.live == 0 || s.classes > 2 {
		t.Skip("not asked for: see Live")
	}
	concepts := []concept{plane, ball}
	switch {
	case s.task == algos.Regress:
		concepts = []concept{line}
	case s.spec.Kind == algos.Linear:
		concepts = []concept{plane}
	}
	for _, k := range concepts {
		t.Run(k.name, func(t *testing.T) { s.liveOn(t, k) })
	}
}

// look is a test of the model at one time: the mean loss on the test set, and the
// loss at each point: 0 or 1, or the squared error divided by the variance.
type look struct {
	at     int
	loss   float64
	losses []float64
}

func (s *suite) liveOn(t *testing.T, k concept) {
	options := map[string]string{}
	for _, o := range []map[string]string{s.options, s.liveOptions} {
		maps.Copy(options, o)
	}
	l, err := s.spec.New(algos.Env{Seed: s.seed, Task: s.task}, options)
	if err != nil {
		t.Fatal(err)
	}
	test := k.examples(livePoints, s.seed+1, s.task, 0)
	var looks []look
	for i, x := range k.examples(s.live, s.seed, s.task, k.noise) {
		Feed(t, l, x)
		if at := 2*(i+1) - s.live; at > 0 && at*liveMoments%s.live < 2*liveMoments {
			looks = append(looks, s.look(l, test, i+1))
		}
	}
	if _, err := l.Finish(t.Context()); err != nil {
		t.Fatal(err)
	}
	finished := s.look(l, test, s.live)
	lag := liveLag
	if s.task == algos.Classify {
		lag /= 1 - 2*k.noise
	}
	for i, later := range looks {
		t.Logf("after %d examples %.4f", later.at, 1-later.loss)
		for _, earlier := range looks[:i] {
			if rise, most := later.loss-earlier.loss, lag+s.liveNoise(earlier, later); rise > most {
				t.Errorf("%.4f after %d examples, %.4f after %d: the model gets worse by %.4f, of which %.4f may be chance",
					1-earlier.loss, earlier.at, 1-later.loss, later.at, rise, most)
				return
			}
		}
	}
	end := looks[len(looks)-len(looks)/4:]
	mean := 0.0
	for _, v := range end {
		mean += v.loss / float64(len(end))
	}
	t.Logf("at the end %.4f, finished %.4f", 1-mean, 1-finished.loss)
	if mean > finished.loss+lag {
		t.Errorf("%.4f at the end of the stream, %.4f after Finish: the live model is %.4f behind, more than %.4f",
			1-mean, 1-finished.loss, mean-finished.loss, lag)
	}
}

func (s *suite) look(l algos.Learner, test []*stream.Example, at int) look {
	v := look{at: at, losses: make([]float64, len(test))}
	xs := make([]stream.Vec, len(test))
	var sum, squares float64
	for i, x := range test {
		xs[i] = x.X
		sum += x.Y
		squares += x.Y * x.Y
	}
	n := float64(len(test))
	variance := squares/n - sum/n*sum/n
	f := make([]float64, len(test))
	l.Model().Decisions(f, xs)
	for i, x := range test {
		switch {
		case s.task == algos.Regress:
			v.losses[i] = (f[i] - x.Y) * (f[i] - x.Y) / variance
		case (f[i] >= 0) != (x.Y > 0):
			v.losses[i] = 1
		}
		v.loss += v.losses[i] / n
	}
	return v
}

// liveNoise returns 4 standard errors of the difference of two looks.
func (s *suite) liveNoise(a, b look) float64 {
	n := float64(livePoints)
	if s.task == algos.Classify {
		p := (a.loss + b.loss) / 2
		return 4 * math.Sqrt(2*p*(1-p)/n)
	}
	var squares float64
	for i := range a.losses {
		d := b.losses[i] - a.losses[i]
		squares += d * d
	}
	return 4 * math.Sqrt(squares) / n
}
