package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/internal/engine"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/codec"
)

// boundGauge is the gauge with the bound on the certificate.
const boundGauge = "gap_bound"

// tap records the calls of an engine's learner: every step, the decisions of its
// models, and the labels that follow. It ignores calls before the engine has
// started, which come from trials of the tuner.
type tap struct {
	engine *engine.Engine
	decs   []float64 // decisions on labelled examples that have not been added yet
	n      uint64    // examples added
	vecs   func(xs []stream.Vec)
	err    error // error of writing

	block       block
	spent       float64 // processor seconds of the measuring itself
	steps       *table
	gauges      []string // columns of steps
	predictions *table
	scaled      *table
	enc         codec.Codec
}

// cpu returns the processor seconds of this process.
func cpu() float64 {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return math.NaN()
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

// spec returns s with the tap on its learners.
func (t *tap) spec(s algos.Spec) algos.Spec {
	make := s.New
	s.New = func(env algos.Env, options map[string]string) (algos.Learner, error) {
		inner, err := make(env, options)
		if err != nil {
			return nil, err
		}
		l := &learner{inner, t}
		if limited, ok := inner.(algos.Limited); ok {
			return struct {
				*learner
				algos.Limited
			}{l, limited}, nil
		}
		return l, nil
	}
	return s
}

// learner passes all calls on to a learner and records them.
type learner struct {
	algos.Learner
	t *tap
}

func (l *learner) live() bool { return l.t.engine != nil && l.t.engine.Started() }

func (l *learner) Add(x *stream.Example) (algos.Fate, error) {
	if l.live() {
		l.t.added(x)
	}
	return l.Learner.Add(x)
}

func (l *learner) Step(ctx context.Context) (algos.Report, error) {
	began := cpu()
	r, err := l.Learner.Step(ctx)
	if err == nil && l.live() {
		l.Learner.Model() // the next example needs it in any case
		l.t.stepped(r, cpu()-began)
	}
	return r, err
}

func (l *learner) Model() algos.Model { return model{l.Learner.Model(), l} }

type model struct {
	algos.Model
	l *learner
}

func (m model) Decisions(dst []float64, xs []stream.Vec) {
	m.Model.Decisions(dst, xs)
	switch t := m.l.t; {
	case !m.l.live():
	case t.vecs != nil:
		t.vecs(xs)
	default:
		t.decs = append(t.decs, dst...)
	}
}

// added records an example before the learner gets it, with its decision if it has
// been scored.
func (t *tap) added(x *stream.Example) {
	t.n++
	if t.scaled != nil {
		began := cpu()
		t.write(x)
		t.spent += cpu() - began
	}
	if !x.Labelled || len(t.decs) == 0 {
		return
	}
	f := t.decs[0]
	if t.decs = t.decs[1:]; len(t.decs) == 0 {
		t.decs = nil
	}
	t.block.score(f, x.Y)
	if t.predictions != nil {
		t.predictions.row(strconv.FormatUint(t.n, 10), number(x.Y), number(f))
	}
}

// write writes a preprocessed example.
func (t *tap) write(x *stream.Example) {
	b, err := t.enc.Append(nil, x)
	if err != nil {
		t.err = errors.Join(t.err, err)
		return
	}
	t.scaled.row(string(b))
}

// stepped records a step.
func (t *tap) stepped(r algos.Report, took float64) {
	bound := gauge(r, boundGauge)
	t.block.step(r.Certificate, bound, took)
	if t.steps == nil {
		return
	}
	began := cpu()
	p := t.engine.Predictor()
	data, err := p.AppendBinary(nil)
	t.err = errors.Join(t.err, err)
	if t.gauges == nil {
		t.gauges = []string{}
		head := []string{"examples", "step", "sample", "support", "objective", "certificate", boundGauge, "bytes", "seconds"}
		for _, g := range r.Gauges {
			if g.Name != boundGauge && g.Name != "support" {
				t.gauges = append(t.gauges, g.Name)
			}
		}
		t.steps.row(append(head, t.gauges...)...)
	}
	row := []string{
		strconv.FormatUint(t.n, 10), strconv.FormatUint(r.Step, 10), strconv.Itoa(r.Sample), strconv.Itoa(p.Info().Support),
		number(r.Objective), number(r.Certificate), number(bound), strconv.Itoa(len(data)), fmt.Sprintf("%.4g", took),
	}
	for _, name := range t.gauges {
		row = append(row, number(gauge(r, name)))
	}
	t.steps.row(row...)
	t.spent += cpu() - began
}

// gauge returns the gauge called name, or NaN.
func gauge(r algos.Report, name string) float64 {
	for _, g := range r.Gauges {
		if g.Name == name {
			return g.Value
		}
	}
	return math.NaN()
}

func number(v float64) string {
	if math.IsNaN(v) {
		return ""
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}

// table is a file of rows, comma-separated.
type table struct {
	f io.WriteCloser
	w *bufio.Writer
}

// create creates the file at path. It returns nil if path is empty.
func create(path string) (*table, error) {
	if path == "" {
		return nil, nil
	}
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	return &table{f, bufio.NewWriterSize(f, 1<<16)}, nil
}

func (t *table) row(cells ...string) {
	for i, c := range cells {
		if i > 0 {
			t.w.WriteByte(',')
		}
		t.w.WriteString(c)
	}
	t.w.WriteByte('\n') // errors stay until Flush
}

func (t *table) close() error {
	if t == nil {
		return nil
	}
	return errors.Join(t.w.Flush(), t.f.Close())
}
