package tune

import (
	"math"
	"slices"
	"strconv"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/internal/kernel"
	"github.com/streamsvm/streamsvm/stream"
)

// axis is a tuned option with its values, most regularised first.
type axis struct {
	name   string
	values func(n int) []string
	n      int
	list   bool // the values have no order
}

const (
	// gammaCenter / median squared distance is the middle of the search for gamma:
	// a narrower kernel than the examples so far suggest, because more will come.
	// gammaSpan is the factor from the middle to each end.
	gammaCenter = 2
	gammaSpan   = 9
	// gammaPairs is the number of pairs for the median.
	gammaPairs = 20000
	// steps and gammaSteps are the numbers of values on an axis that is a range. They
	// are odd, so that the axis has a middle.
	steps, gammaSteps = 7, 5
)

// candidates returns the grid, at most limit points, from most to least
// regularised.
func candidates(spec algos.Spec, env algos.Env, fixed map[string]string, examples []*stream.Example, limit int) ([]point, error) {
	if err := spec.Check(fixed); err != nil {
		return nil, err
	}
	var axes []axis
	for _, o := range spec.Options {
		if o.Tune == "" || !open(o.Name, spec, fixed) {
			continue
		}
		a := axis{name: o.Name, values: o.Candidates, n: steps}
		if list := o.Candidates(1); len(list) != 1 {
			a.n, a.list = len(list), true
		}
		if o.Name == "gamma" && o.Auto != "" {
			vecs := make([]stream.Vec, len(examples))
			for i, x := range examples {
				vecs[i] = x.X
			}
			center := gammaCenter * kernel.SampledGamma(vecs, gammaPairs, env.Seed, fixed["kernel"] == "laplacian")
			a.values = func(n int) []string { return around(center, n) }
			a.n = gammaSteps
		}
		if o.Name == "lambda" { // a larger lambda regularises more
			values := a.values
			a.values = func(n int) []string {
				v := values(n)
				slices.Reverse(v)
				return v
			}
		}
		axes = append(axes, a)
	}
	for size(axes) > limit {
		widest := -1
		for i, a := range axes {
			if a.n > 1 && !a.list && (widest < 0 || a.n > axes[widest].n) {
				widest = i
			}
		}
		if widest < 0 {
			break
		}
		axes[widest].n -= 2 // 2 keeps the middle
	}
	if len(axes) == 0 {
		return nil, nil
	}
	grid := []point{{options: map[string]string{}}}
	for _, a := range axes {
		var next []point
		for i, v := range a.values(a.n) {
			p := point{rank: i}
			if a.n > 1 && !a.list {
				p.far = 2*float64(i)/float64(a.n-1) - 1
			}
			for _, g := range grid {
				next = append(next, point{
					options: overlay(g.options, map[string]string{a.name: v}),
					rank:    g.rank + p.rank, far: g.far + float64(p.far*p.far),
				})
			}
		}
		grid = next
	}
	slices.SortStableFunc(grid, func(a, b point) int { return a.rank - b.rank })
	var out []point
	for _, g := range grid {
		// A combination of valid values may be invalid.
		if spec.Check(overlay(fixed, g.options)) == nil && len(out) < limit {
			out = append(out, g)
		}
	}
	return out, nil
}

// point is a point of the grid.
type point struct {
	options map[string]string
	// rank is the sum of the positions on the axes: lower is more regularised.
	rank int
	// far is the squared distance from the middle of the grid; the ends of an axis
	// are at distance 1.
	far float64
}

func size(axes []axis) int {
	n := 1
	for _, a := range axes {
		n *= a.n
	}
	return n
}

// open reports whether the tuner may choose the named option.
func open(name string, spec algos.Spec, fixed map[string]string) bool {
	value := func(option string) string {
		if v, ok := fixed[option]; ok {
			return v
		}
		for _, o := range spec.Options {
			if o.Name == option {
				return o.Default
			}
		}
		return ""
	}
	// An explicit "auto" leaves the choice open.
	if v, ok := fixed[name]; ok && v != "auto" {
		return false
	}
	switch name {
	case "gamma":
		return value("kernel") != "linear"
	case "c":
		v := value("lambda")
		return v == "" || v == "auto"
	case "lambda":
		_, given := fixed["c"]
		return !given
	}
	return true
}

// around returns n values spaced evenly on a logarithmic scale, from
// center/gammaSpan to center·gammaSpan.
func around(center float64, n int) []string {
	out := make([]string, n)
	for i := range out {
		e := 0.0
		if n > 1 {
			e = 2*float64(i)/float64(n-1) - 1
		}
		out[i] = strconv.FormatFloat(center*math.Pow(gammaSpan, e), 'g', 4, 64)
	}
	return out
}
