// Package synth generates synthetic streams of labelled examples with and without
// concept drift, for demonstrations, tests and measurements.
//
// A stream is a pure function of its name, its options and a seed: example i is the
// same on every machine, however it is reached. To that end each example has its
// own random generator, seeded with its number, and all arithmetic is elementary;
// see draw.
//
// Every label is a function of the features as delivered, except for moons, rare,
// rbf and waveform, whose classes overlap by definition. The option "noise" flips
// labels at random. The labels of friedman are numbers.
//
// The API is stable.
package synth

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/streamsvm/streamsvm/internal/rng"
	"github.com/streamsvm/streamsvm/stream"
)

// Option describes an option of a generator.
type Option struct {
	Name    string
	Default float64
	// Min and Max are inclusive bounds.
	Min, Max float64
	// Integer says that the value must be a whole number.
	Integer bool
	Doc     string
}

// Info describes a generator.
type Info struct {
	Name, Summary string
	// Reference is the publication that defines the stream.
	Reference string
	Options   []Option
	// Regress says that labels are numbers, not classes.
	Regress bool
}

// concept generates the examples of one stream.
type concept struct {
	dim int // number of features
	// example writes the features of example i to x and returns its label before
	// noise: +1 or −1, or a number. It is called with increasing i.
	example func(i uint64, d *draw, x []float32) float64
}

// kind is a generator's description and constructor.
type kind struct {
	Info
	make func(s settings, r *rng.Source) concept
}

// settings are the values of a generator's options.
type settings map[string]float64

func (s settings) int(name string) int { return int(s[name]) }

// shared are the options that every generator has.
func shared(noise float64) []Option {
	return []Option{
		{Name: "noise", Default: noise, Max: 1, Doc: "probability that a label is flipped"},
		{Name: "unlabelled", Max: 1, Doc: "probability that a label is withheld"},
	}
}

// kinds returns all generators, by name.
func kinds() []kind {
	return []kind{checkerboard(), friedman(), hyperplane(), moons(), rare(), rbf(), sea(), waveform()}
}

// List describes the generators that New knows, in order of their names.
func List() []Info {
	var list []Info
	for _, k := range kinds() {
		list = append(list, k.Info)
	}
	return list
}

// Generator produces the examples of one stream, without end. It is used by
// one goroutine at a time.
type Generator struct {
	name              string
	c                 concept
	regress           bool
	noise, unlabelled float64
	base              uint64 // differs between seeds
	next              uint64
	d                 draw
}

// New returns the generator called name at the start of its stream. opts overrides
// the defaults of the options that List describes.
func New(name string, seed uint64, opts map[string]string) (*Generator, error) {
	all := kinds()
	at := slices.IndexFunc(all, func(k kind) bool { return k.Name == name })
	if at < 0 {
		var names []string
		for _, k := range all {
			names = append(names, k.Name)
		}
		return nil, fmt.Errorf("synth: generator %q is unknown: choose one of %s", name, strings.Join(names, ", "))
	}
	k := all[at]
	s, err := k.parse(opts)
	if err != nil {
		return nil, fmt.Errorf("synth: %s: %w", name, err)
	}
	r := rng.New(seed, "synth/"+name)
	g := &Generator{name: name, regress: k.Regress, noise: s["noise"], unlabelled: s["unlabelled"], base: r.Uint64()}
	g.c = k.make(s, r)
	return g, nil
}

// parse validates opts and adds the defaults.
func (k *kind) parse(opts map[string]string) (settings, error) {
	s := make(settings, len(k.Options))
	for _, o := range k.Options {
		s[o.Name] = o.Default
		text, ok := opts[o.Name]
		if !ok {
			continue
		}
		v, err := strconv.ParseFloat(text, 64)
		if err != nil || math.IsNaN(v) || v < o.Min || v > o.Max || o.Integer && v != math.Trunc(v) {
			what := "a number"
			if o.Integer {
				what = "a whole number"
			}
			return nil, fmt.Errorf("option %s is %q, want %s from %v to %v", o.Name, text, what, o.Min, o.Max)
		}
		s[o.Name] = v
	}
	for _, name := range slices.Sorted(maps.Keys(opts)) {
		if _, ok := s[name]; !ok {
			var known []string
			for _, o := range k.Options {
				known = append(known, o.Name)
			}
			return nil, fmt.Errorf("option %s is unknown, there are %s", name, strings.Join(known, ", "))
		}
	}
	return s, nil
}

// Name returns the generator's name.
func (g *Generator) Name() string { return g.name }

// Regress reports whether labels are numbers, not classes.
func (g *Generator) Regress() bool { return g.regress }

// Dim returns the number of features, which are dense.
func (g *Generator) Dim() int { return g.c.dim }

// Position returns the number of the next example, from 0.
func (g *Generator) Position() uint64 { return g.next }

// Skip skips n examples. It takes constant time, except for hyperplane, whose drift
// is a random walk: there the next example takes a few nanoseconds per skipped one.
func (g *Generator) Skip(n uint64) { g.next += n }

// Next sets *ex to the next example. Its memory is fresh; Seq counts from 1.
func (g *Generator) Next(ex *stream.Example) {
	i := g.next
	g.next++
	g.d.seed(g.base, i)
	x := make([]float32, g.c.dim)
	y := g.c.example(i, &g.d, x)
	switch {
	case g.regress:
		y += float64(g.noise * g.d.normal())
	case g.d.uniform() < g.noise:
		y = -y
	}
	*ex = stream.Example{Seq: i + 1, X: stream.Vec{Val: x}, Y: y, Labelled: true}
	if g.d.uniform() < g.unlabelled {
		ex.Y, ex.Labelled = 0, false
	}
}
