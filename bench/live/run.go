package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"

	"github.com/streamsvm/streamsvm/internal/engine"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/codec"
	"github.com/streamsvm/streamsvm/stream/fileio"
)

// run measures, and reports whether there are no complaints.
func (c *config) run(ctx context.Context, out io.Writer) (bool, error) {
	enc, err := codec.New("libsvm", codec.Options{Task: string(c.engine.Task)})
	if err != nil {
		return false, err
	}
	t := &tap{enc: enc}
	var testScaled *table
	for _, f := range []struct {
		to   **table
		path string
	}{{&t.steps, c.csv}, {&t.predictions, c.predictions}, {&t.scaled, c.scaled}, {&testScaled, c.testScaled}} {
		if *f.to, err = create(f.path); err != nil {
			return false, err
		}
	}
	if t.predictions != nil {
		t.predictions.row("example", "label", "decision")
	}
	src, dec, err := c.open(ctx, string(c.engine.Task))
	if err != nil {
		return false, err
	}
	defer src.Close()
	c.engine.Spec = t.spec(c.engine.Spec)
	if t.engine, err = engine.NewEngine(c.engine); err != nil {
		return false, err
	}
	m := &meter{config: c, t: t, out: out, base: heap()}
	if err := m.learn(ctx, src, dec); err != nil {
		return false, err
	}
	res := m.result()
	if c.test != "" {
		if err := m.tests(ctx, &res, testScaled); err != nil {
			return false, err
		}
	}
	bad := complaints(m.blocks)
	for _, s := range bad {
		fmt.Fprintln(out, "bad:", s)
	}
	res.Bad = bad
	if c.json != "" {
		data, err := json.MarshalIndent(res, "", "  ")
		if err == nil {
			err = os.WriteFile(c.json, append(data, '\n'), 0o644)
		}
		if err != nil {
			return false, err
		}
	}
	return len(bad) == 0, errors.Join(t.err, t.steps.close(), t.predictions.close(), t.scaled.close(), testScaled.close())
}

// meter cuts a run into blocks.
type meter struct {
	*config
	t      *tap
	out    io.Writer
	base   float64 // heap at the start
	blocks []block
	began  float64 // processor seconds at the start of the block
}

// heap returns the bytes in use after a collection.
func heap() float64 {
	runtime.GC()
	runtime.GC() // frees what was in pools at the first one
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return float64(s.HeapAlloc)
}

// learn runs the engine to the end of the stream, without Finish.
func (m *meter) learn(ctx context.Context, src stream.Source, dec codec.Codec) error {
	e := m.t.engine
	var n uint64
	var arena stream.Arena
	var recs []stream.Record
	items := make([]engine.Item, 1)
	fmt.Fprintf(m.out, "%9s %8s %8s %8s %6s %8s %7s %7s %9s %7s %11s %8s\n",
		"examples", "accuracy", "hinge", "seconds", "steps", "longest", "sample", "support", "model", "heap", "certificate", "of bound")
	m.began = cpu()
	for m.limit == 0 || n < m.limit {
		var err error
		recs, err = src.Fetch(ctx, recs[:0])
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		for i := range recs {
			r := &recs[i]
			items[0] = engine.Item{Partition: stream.Partition{Topic: r.Topic, ID: r.Partition}, Offset: r.Offset}
			if err := dec.DecodeIn(&arena, r.Value, &items[0].Example); err != nil {
				return stream.At(r, err)
			}
			if _, err := e.Consume(ctx, items); err != nil {
				return err
			}
			if items[0].Err != nil { // refused by the engine
				return items[0].Err
			}
			if n++; n%uint64(m.block) == 0 {
				if err := m.cut(ctx, n); err != nil {
					return err
				}
			}
			if n == m.limit {
				break
			}
		}
	}
	if n%uint64(m.block) != 0 {
		return m.cut(ctx, n)
	}
	return nil
}

// cut ends a block after n examples.
func (m *meter) cut(ctx context.Context, n uint64) error {
	e := m.t.engine
	if err := e.Settle(ctx); err != nil {
		return err
	}
	end := cpu()
	b := m.t.block
	b.examples, b.seconds, b.support = n, end-m.began-m.t.spent, -1
	if p := e.Predictor(); p != nil {
		data, err := p.AppendBinary(nil)
		if err != nil {
			return err
		}
		b.support, b.bytes = p.Info().Support, len(data)
	}
	b.sample = e.Report().Sample
	b.heap = heap() - m.base
	m.blocks = append(m.blocks, b)
	orNot := func(format string, v float64, ok bool) string {
		if !ok {
			return "-"
		}
		return fmt.Sprintf(format, v)
	}
	fmt.Fprintf(m.out, "%9d %8s %8s %8.2f %6d %8.3f %7d %7d %9d %7.1f %11s %8s\n", n,
		orNot("%.4f", b.accuracy(), b.scored > 0), orNot("%.4f", b.hinge/float64(b.scored), b.scored > 0), b.seconds, b.steps, b.longest,
		b.sample, b.support, b.bytes, b.heap/(1<<20), orNot("%.3g", b.certificate, b.given), orNot("%.3g", b.ratio, b.bounded))
	m.t.block, m.t.spent, m.began = block{}, 0, cpu()
	return nil
}

// result is the output of -json.
type result struct {
	Learner       string            `json:"learner"`
	Options       map[string]string `json:"options"` // given or chosen; the others have their defaults
	Preprocessing string            `json:"preprocessing"`
	Examples      uint64            `json:"examples"`
	Seconds       float64           `json:"seconds"`
	Blocks        []blockResult     `json:"blocks"`
	Live          *testResult       `json:"test_live"`
	Finished      *testResult       `json:"test_finished"`
	Bad           []string          `json:"bad"`
}

type blockResult struct {
	Examples    uint64   `json:"examples"`
	Scored      int      `json:"scored"`
	Accuracy    *float64 `json:"accuracy"`
	Hinge       *float64 `json:"hinge"`
	Seconds     float64  `json:"seconds"`
	Steps       int      `json:"steps"`
	Longest     float64  `json:"longest_step_seconds"`
	Sample      int      `json:"sample"`
	Support     int      `json:"support"`
	Bytes       int      `json:"model_bytes"`
	Heap        float64  `json:"heap_bytes"`
	Certificate *float64 `json:"certificate"`
	OfBound     *float64 `json:"certificate_of_bound"`
}

type testResult struct {
	Examples int     `json:"examples"`
	Accuracy float64 `json:"accuracy"`
	Support  int     `json:"support"`
	Bytes    int     `json:"model_bytes"`
	Seconds  float64 `json:"seconds"` // of Finish
}

func (m *meter) result() result {
	e := m.t.engine
	r := result{Learner: m.engine.Spec.Name, Options: e.Options(), Examples: m.t.n}
	if p := e.Predictor(); p != nil {
		r.Preprocessing = p.Transform.String()
	}
	// JSON has neither NaN nor infinity.
	value := func(v float64, ok bool) *float64 {
		if !ok || math.IsNaN(v) {
			return nil
		}
		v = min(v, math.MaxFloat64)
		return &v
	}
	for i := range m.blocks {
		b := &m.blocks[i]
		r.Seconds += b.seconds
		r.Blocks = append(r.Blocks, blockResult{
			Examples: b.examples, Scored: b.scored, Accuracy: value(b.accuracy(), b.scored > 0), Hinge: value(b.hinge/float64(b.scored), b.scored > 0),
			Seconds: b.seconds, Steps: b.steps, Longest: b.longest, Sample: b.sample, Support: b.support, Bytes: b.bytes, Heap: b.heap,
			Certificate: value(b.certificate, b.given), OfBound: value(b.ratio, b.bounded),
		})
	}
	return r
}

// tests scores the live and the finished model on the test file.
func (m *meter) tests(ctx context.Context, res *result, scaled *table) error {
	e := m.t.engine
	if e.Predictor() == nil {
		return errors.New("the stream ended before the warm-up, and there is no model to test")
	}
	xs, err := readAll(ctx, m.test, string(m.engine.Task))
	if err != nil {
		return err
	}
	if res.Live, err = m.score(xs, scaled); err != nil {
		return err
	}
	fmt.Fprintf(m.out, "test, live model:     accuracy %.4f on %d, %d support vectors, %d bytes\n", res.Live.Accuracy, len(xs), res.Live.Support, res.Live.Bytes)
	if !m.finish {
		return nil
	}
	began := cpu()
	if err := e.Finish(ctx); err != nil {
		return err
	}
	took := cpu() - began
	if res.Finished, err = m.score(xs, nil); err != nil {
		return err
	}
	res.Finished.Seconds = took
	fmt.Fprintf(m.out, "test, after Finish:   accuracy %.4f on %d, %d support vectors, %d bytes, %.2f s\n",
		res.Finished.Accuracy, len(xs), res.Finished.Support, res.Finished.Bytes, took)
	return nil
}

// score tests the current model on xs, and writes the preprocessed examples to
// scaled.
func (m *meter) score(xs []*stream.Example, scaled *table) (*testResult, error) {
	p := m.t.engine.Predictor()
	data, err := p.AppendBinary(nil)
	if err != nil {
		return nil, err
	}
	var at []*stream.Example
	m.t.vecs = func(vs []stream.Vec) {
		for i, v := range vs {
			if scaled != nil && m.t.err == nil {
				var b []byte
				b, m.t.err = m.t.enc.Append(nil, &stream.Example{X: v, Y: at[i].Y, Labelled: true})
				scaled.row(string(b))
			}
		}
	}
	defer func() { m.t.vecs = nil }()
	var b block
	const few = 64 // examples in one call of the model
	vecs, decs := make([]stream.Vec, few), make([]float64, few)
	for i := 0; i < len(xs); i += few {
		at = xs[i:min(i+few, len(xs))]
		for k, x := range at {
			vecs[k] = x.X
		}
		p.Decisions(decs[:len(at)], vecs[:len(at)])
		for k, x := range at {
			b.score(decs[k], x.Y)
		}
	}
	return &testResult{Examples: len(xs), Accuracy: b.accuracy(), Support: p.Info().Support, Bytes: len(data)}, nil
}

// readAll reads the labelled examples of a file.
func readAll(ctx context.Context, path, task string) ([]*stream.Example, error) {
	dec, err := decoder(path, task)
	if err != nil {
		return nil, err
	}
	src, err := fileio.Open([]string{path}, fileio.Options{})
	if err != nil {
		return nil, err
	}
	defer src.Close()
	var xs []*stream.Example
	var recs []stream.Record
	for {
		recs, err = src.Fetch(ctx, recs[:0])
		if errors.Is(err, io.EOF) {
			return xs, nil
		}
		if err != nil {
			return nil, err
		}
		for i := range recs {
			x := new(stream.Example)
			if err := dec.Decode(recs[i].Value, x); err != nil {
				return nil, stream.At(&recs[i], err)
			}
			if x.Labelled {
				xs = append(xs, x)
			}
		}
	}
}
