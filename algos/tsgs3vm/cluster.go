package tsgs3vm

import (
	"math"

	"github.com/streamsvm/streamsvm/internal/par"
	"github.com/streamsvm/streamsvm/internal/rff"
	"github.com/streamsvm/streamsvm/internal/vec"
	"github.com/streamsvm/streamsvm/samplers"
	"github.com/streamsvm/streamsvm/stream"
)

const (
	// mostLandmarks bounds the number of unlabelled examples in a cluster kernel;
	// with fewer than leastLandmarks there is none.
	mostLandmarks, leastLandmarks = 1024, 64
	// surveyGrowth is the factor by which the number of unlabelled examples grows
	// until the cluster kernel is chosen again, while there are not enough
	// landmarks yet.
	surveyGrowth = 4
)

// tuneCluster are the candidate weights of the cluster kernel.
var tuneCluster = [...]float64{0, 0.3, 1, 3, 10}

// cluster is the contribution of unlabelled examples to the kernel. With n
// landmarks u, a uniform sample of the unlabelled examples, and t(x) the row of
// k(x,u) minus its mean, the kernel is
//
//	k_a(x,z) = (k(x,z) + a/s·⟨t(x),t(z)⟩/n) / (1+a)
//
// In this kernel two points are similar if they are similar to the same unlabelled
// points (a two-step walk over them; Chapelle, Weston and Schölkopf, "Cluster
// kernels for semi-supervised learning", NIPS 2002): the principal components of the
// features gain weight. s is the mean of ⟨t,t⟩/n over the labelled points, relative
// to the spread of the kernel, which makes a comparable between data sets.
//
// In terms of features this is a matrix: a labelled point adds
//
//	m(z) = z/(1+a) + a/(1+a)/(s n)·Σ_u t_u(z) z_u
//
// to the coefficients instead of z. So the model keeps its form, and unlabelled
// points cost nothing once the rows of the labelled ones are known.
type cluster struct {
	weight float64 // a; 0: none
	spread float64 // s
	points []*stream.Example
	z      []float32 // features of the points; nil until needed
}

// wantsCluster reports whether a cluster kernel may be used at all.
func (o *options) wantsCluster() bool {
	return o.Solver == "dual" && o.Serve != "supervised" && o.Cluster != 0
}

// clusters returns the candidate weights for the present sample of unlabelled
// examples, and the landmarks.
func (l *Learner) clusters() ([]float64, []*stream.Example) {
	if !l.opt.wantsCluster() || len(l.Recent()) < leastLandmarks {
		return []float64{0}, nil
	}
	marks := make([]*stream.Example, min(len(l.Recent()), mostLandmarks))
	for i := range marks { // any part of a uniform sample is uniform
		marks[i] = l.Recent()[len(l.Recent())-1-i]
	}
	if l.opt.Cluster > 0 {
		return []float64{l.opt.Cluster}, marks
	}
	return tuneCluster[:], marks
}

// fewLabels reports whether n labels are few enough for a cluster kernel: each label
// costs as much as about a thousand unlabelled examples, and all labels must use the
// same kernel.
func (l *Learner) fewLabels(n int) bool { return n <= min(l.opt.Labels, l.opt.Tuning) }

// mapped returns the random features of examples, row by row.
func mapped(feats *rff.Features, size int, xs []*stream.Example) []float32 {
	var p rff.Points
	p.Pack(samplers.Vecs(xs))
	z := make([]float32, len(xs)*size)
	mapAll(feats, z, size, &p)
	return z
}

// mapAll sets z to all random features of the points, row by row.
func mapAll(feats *rff.Features, z []float32, size int, p *rff.Points) {
	if p.Len() == 0 {
		return
	}
	b := feats.Block()
	par.Split(size/b, 1, float64(size)*p.Work(), func(from, to int) {
		for k := from; k < to; k++ {
			feats.Map(z[k*b:], size, p, uint64(k))
		}
	})
}

// affinities returns t, row by row, for n points with features z and u landmarks
// with features zu, each of length size, processed in blocks. row(i,size) returns z.
func affinities(row func(i, size int) []float32, n int, zu []float32, u, size, block int) []float64 {
	t := make([]float64, n*u)
	part, out := make([]float32, n*block), make([]float32, n*u)
	rows := vec.NewPanels(block)
	for b := 0; b < size; b += block {
		rows.Truncate(0)
		for j := range u {
			rows.Append(zu[j*size+b : j*size+b+block])
		}
		for i := range n {
			copy(part[i*block:(i+1)*block], row(i, size)[b:])
		}
		vec.Kernel{Kind: vec.Linear}.Block(out, u, part, n, rows, 0, u)
		for k, v := range out {
			t[k] += float64(v)
		}
	}
	for i := range n {
		row := t[i*u : (i+1)*u]
		mean := 0.0
		for j := range row {
			row[j] *= 2 / float64(size)
			mean += row[j]
		}
		mean /= float64(u)
		for j := range row {
			row[j] -= mean
		}
	}
	return t
}

// spreadOf returns s for the n points with affinities t to u landmarks, whose
// kernel values have the given spread, the mean of k(x,x) − k(x,z).
func spreadOf(t []float64, n, u int, spread float64) float64 {
	s := vec.Dot64(t, t) / float64(n*u)
	return max(s/max(spread, 1e-6), 1e-12)
}

// smoothed returns m for n points with features z. It keeps the features of the
// landmarks for later points.
func (c *cluster) smoothed(feats *rff.Features, size int, z []float32, n int) []float32 {
	block, u := feats.Block(), len(c.points)
	if c.z == nil {
		c.z = mapped(feats, size, c.points)
	}
	t := affinities(func(i, size int) []float32 { return z[i*size:][:size] }, n, c.z, u, size, block)
	scale := c.weight / ((1 + c.weight) * c.spread * float64(u))
	sum, out := make([]float64, block), make([]float32, n*size)
	for b := 0; b < size; b += block {
		for i := range n {
			clear(sum)
			vec.AxpyMixed(1/(1+c.weight), z[i*size+b:i*size+b+block], sum)
			for j := range u {
				vec.AxpyMixed(scale*t[i*u+j], c.z[j*size+b:j*size+b+block], sum)
			}
			for k, v := range sum {
				out[i*size+b+k] = float32(v)
			}
		}
	}
	return out
}

// dropCluster returns to the plain kernel once there are too many labels for another.
func (l *Learner) dropCluster(fresh int) {
	if l.cluster.weight > 0 && !l.fewLabels(int(min(l.labelled, 1<<30))+fresh) {
		l.cluster, l.averages = cluster{}, make([]average, len(l.averages))
		l.solver.restart(l, false)
	}
}

// surveyDue reports whether enough unlabelled examples have come to choose the cluster
// kernel again.
func (l *Learner) surveyDue(last bool) bool {
	if !l.opt.wantsCluster() || len(l.Recent()) < leastLandmarks || l.unlab+l.Skipped() == l.surveyed {
		return false
	}
	return last || len(l.cluster.points) < mostLandmarks && l.surveyed < surveyGrowth*mostLandmarks && l.unlab+l.Skipped() >= surveyGrowth*l.surveyed
}

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }
