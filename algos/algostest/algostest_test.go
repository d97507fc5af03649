package algostest_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/algos/algostest"
	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/columns"
	"github.com/streamsvm/streamsvm/stream"
)

// toy is a least-squares learner on minibatches, with faults to choose from.
type toy struct {
	fault   string
	task    algos.Task
	pending []*stream.Example
	w       []float64 // the last one is the bias
	steps   uint64
	seen    uint64
	procs   int
	ended   int
	asked   uint64
	late    bool
}

type toyOptions struct {
	Rate  float64 `opt:"rate" default:"0.1" range:"(0,1]" tune:"log 0.01 1" doc:"step size"`
	Batch int     `opt:"batch" default:"5" range:"[1,100]" doc:"minibatch"`
}

type untold struct {
	Rate float64 `opt:"rate" default:"0.1" range:"(0,1]" tune:"square 1 2" doc:"step size"`
	Size int     `opt:"size" default:"3" doc:"size"`
}

func toySpec(fault string) algos.Spec {
	info := algos.SpecInfo{
		Name: "toy", Summary: "least squares", When: "never", Paper: "none", Kind: algos.Linear,
		Tasks: []algos.Task{algos.Classify, algos.Regress},
	}
	if fault == "undocumented" {
		return algos.Define(info, nil, func(e algos.Env, _ untold) (algos.Learner, error) {
			return &toy{task: e.Task, w: make([]float64, 1)}, nil
		}, decode)
	}
	read := decode
	switch fault {
	case "panics":
		read = func(b []byte) (algos.Model, error) { _ = b[20]; return decode(b) }
	case "gullible":
		read = func(b []byte) (algos.Model, error) {
			if m, err := decode(b); err == nil {
				return m, nil
			}
			return &linear{}, nil
		}
	case "greedy":
		read = func(b []byte) (algos.Model, error) {
			m, err := decode(b)
			if err != nil {
				_ = make([]byte, 1<<28)
			}
			return m, err
		}
	}
	return algos.Define(info, nil, func(e algos.Env, _ toyOptions) (algos.Learner, error) {
		l := &toy{fault: fault, task: e.Task, w: make([]float64, 1), late: fault == "late"}
		if fault == "early" {
			l.w[0] = 1
		}
		return l, nil
	}, read)
}

const batch = 5

func (l *toy) Add(x *stream.Example) (algos.Fate, error) {
	switch l.fault {
	case "impatient":
		l.w[0] += .01
	case "scribbles":
		if len(x.X.Val) > 0 {
			x.X.Val[0] += 0.5
		}
	case "fussy":
		if len(x.X.Val) == 0 {
			return 0, errors.New("no features")
		}
	}
	l.seen++
	if !x.Labelled {
		return algos.SampledOut, nil
	}
	l.pending = append(l.pending, x)
	return algos.Learned, nil
}

func (l *toy) Need() algos.Need {
	n := max(0, batch-len(l.pending))
	if l.fault == "eager" && n > 0 {
		n++
	}
	return algos.Need{Fresh: n, Steps: 1}
}

func (l *toy) Step(ctx context.Context) (algos.Report, error) {
	if l.fault == "careless" {
		l.steps++
	}
	if err := ctx.Err(); err != nil {
		return algos.Report{}, err
	}
	if l.fault != "careless" {
		l.steps++
	}
	if l.fault == "processors" {
		l.procs = runtime.GOMAXPROCS(0)
	}
	rate := min(.1, 5/float64(l.steps+1)) // or it would never settle
	for _, x := range l.pending {
		if need := x.X.Dim() + 1; need > len(l.w) {
			bias := l.w[len(l.w)-1]
			l.w[len(l.w)-1] = 0
			l.w = append(l.w, make([]float64, need-len(l.w))...)
			l.w[need-1] = bias
		}
		r := min(rate*x.Importance(), 0.5) * (x.Y - (&linear{w: l.w}).Decision(x.X))
		if l.fault == "deaf" {
			r = rate * (x.Y - (&linear{w: l.w}).Decision(x.X))
		}
		if l.fault == "lazy" {
			r = 0
		}
		l.w[len(l.w)-1] += r
		each(x.X, func(j int, v float64) { l.w[j] += r * max(-1, min(v, 1)) })
	}
	l.pending = nil
	if l.fault == "tires" {
		l.w[len(l.w)-1] += .0005 * float64(l.steps)
	}
	return l.Report(), nil
}

func each(x stream.Vec, f func(j int, v float64)) {
	for k, v := range x.Val {
		if x.Idx != nil {
			f(int(x.Idx[k]), float64(v))
		} else {
			f(k, float64(v))
		}
	}
}

func (l *toy) Follow(ctx context.Context, dst []float64, xs []*stream.Example) (learned, steps int, err error) {
	if err := ctx.Err(); err != nil && l.fault != "tireless" {
		return 0, 0, err
	}
	for i, x := range xs {
		f := l.Model().Decision(x.X)
		fate, err := l.Add(x)
		if err != nil {
			return learned, steps, err
		}
		if fate == algos.Learned {
			learned++
		}
		before := steps
		if err := algos.StepDue(context.WithoutCancel(ctx), l, func() { steps++ }); err != nil {
			return learned, steps, err
		}
		if l.fault == "ahead" {
			f = l.Model().Decision(x.X)
		}
		if l.fault == "miscounts" {
			steps = before
		}
		if l.fault == "offhand" {
			l.seen-- // a state that differs, though decisions do not
		}
		dst[i] = f
	}
	return learned, steps, nil
}

func (l *toy) Finish(ctx context.Context) (algos.Report, error) {
	l.ended++
	if l.fault == "late" {
		l.late = false
	}
	if l.fault == "once" && l.ended > 1 {
		return algos.Report{}, errors.New("finished already")
	}
	if len(l.pending) > 0 {
		return l.Step(ctx)
	}
	return l.Report(), nil
}

func (l *toy) PredictPending(x *stream.Example) float64 {
	f := l.Model().Decision(x.X)
	switch l.fault {
	case "boastful":
		return 2 * f
	case "nervous":
		l.w[0] += 0.01
	}
	return f
}

func (l *toy) Report() algos.Report {
	r := algos.NewReport()
	r.Step = l.steps
	if l.fault == "curious" {
		l.asked++
	}
	r.Gauges = []stream.Measure{{Name: "seen"}}
	if l.fault == "fickle" {
		r.Gauges[0].Name = fmt.Sprint("seen_", l.steps)
	}
	return r
}

func (l *toy) Model() algos.Model {
	if l.steps == 0 && l.fault != "early" && l.fault != "impatient" {
		return &linear{fault: l.fault}
	}
	if l.late {
		// What a last iterate is like: thrown about by the latest labels.
		w := append([]float64(nil), l.w...)
		w[len(w)-1] += .3
		return &linear{fault: l.fault, w: w}
	}
	return &linear{fault: l.fault, w: l.w}
}

func (l *toy) fields(f *state.Fields) {
	if l.fault != "forgets" {
		columns.Examples(f, "pending", &l.pending)
	}
	f.Float64s("w", &l.w)
	f.Uint64("steps", &l.steps)
	if l.fault != "stale" {
		f.Uint64("seen", &l.seen)
	} else if !f.Decoding() || l.seen == 0 { // decoding into a used learner leaves seen as it is
		f.Uint64("seen", &l.seen)
	} else {
		f.Uint64("seen", new(uint64))
	}
	f.Int("procs", &l.procs)
	f.Uint64("asked", &l.asked)
	f.Bool("late", &l.late)
	if f.Decoding() && len(l.w) == 0 {
		f.Fail("w", errors.New("no bias"))
	}
}

func (l *toy) AppendBinary(dst []byte) ([]byte, error) { return state.Append(dst, l.fields) }

func (l *toy) UnmarshalBinary(data []byte) error {
	err := state.Decode(data, l.fields)
	if l.fault == "trusting" {
		l.w = make([]float64, 1)
		return nil
	}
	return err
}

// linear is f(x) = ⟨w,x⟩ + bias, features limited to [−1,1].
type linear struct {
	fault string
	w     []float64
}

func decode(data []byte) (algos.Model, error) {
	m := &linear{}
	return m, state.Decode(data, m.fields)
}

func (m *linear) fields(f *state.Fields) {
	w := m.w
	if m.fault == "lossy" && !f.Decoding() {
		w = nil
		for _, v := range m.w {
			w = append(w, float64(float32(v)))
		}
	}
	f.Float64s("w", &w)
	if f.Decoding() {
		m.w = w
	}
}

func (m *linear) AppendBinary(dst []byte) ([]byte, error) { return state.Append(dst, m.fields) }

func (m *linear) Decision(x stream.Vec) float64 {
	if len(m.w) == 0 {
		return 0
	}
	last := len(m.w) - 1
	f := m.w[last]
	each(x, func(j int, v float64) {
		if j < last {
			f += m.w[j] * max(-1, min(v, 1))
		}
	})
	return f
}

func (m *linear) Decisions(dst []float64, xs []stream.Vec) {
	for i, x := range xs {
		dst[i] = m.Decision(x)
		if m.fault == "sociable" && len(xs) > 3 {
			dst[i] *= 1 + 1e-15
		}
	}
}

func (m *linear) Info() algos.Info {
	return algos.Info{Kind: algos.Linear, Support: -1, Nonzero: len(m.w)}
}

// A sound learner passes.
func TestSound(t *testing.T) {
	algostest.Run(t, toySpec(""), algostest.Examples(400), algostest.Accuracy(.75), algostest.Live(4000, nil))
}

// A learner with a fault fails, and in the check that is for it. Each fault
// runs in a process of its own, because the test there fails.
func TestFaults(t *testing.T) {
	if fault := os.Getenv("ALGOSTEST_FAULT"); fault != "" {
		algostest.Run(t, toySpec(fault), algostest.Examples(400), algostest.Accuracy(.75), algostest.Live(4000, nil))
		return
	}
	for fault, check := range map[string]string{
		"undocumented": "options",
		"processors":   "deterministic",
		"forgets":      "resume",
		"stale":        "resume",
		"eager":        "need",
		"impatient":    "add_leaves_the_model",
		"scribbles":    "input",
		"fussy":        "odd_examples",
		"early":        "model",
		"lossy":        "model",
		"sociable":     "model",
		"trusting":     "damage",
		"gullible":     "damage",
		"greedy":       "damage",
		"panics":       "damage",
		"careless":     "cancel",
		"ahead":        "follow",
		"miscounts":    "follow",
		"offhand":      "follow",
		"tireless":     "follow",
		"boastful":     "pending",
		"nervous":      "pending",
		"once":         "finish",
		"curious":      "report",
		"fickle":       "report",
		"lazy":         "learns",
		"deaf":         "weights",
		"late":         "live",
		"tires":        "live",
	} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestFaults$")
			cmd.Env = append(os.Environ(), "ALGOSTEST_FAULT="+fault)
			out, err := cmd.CombinedOutput()
			if err == nil {
				t.Fatalf("the suite lets it pass:\n%s", out)
			}
			if !strings.Contains(string(out), "/"+check+" ") && !strings.Contains(string(out), "/"+check+"\n") {
				t.Errorf("the suite fails, but not in %q:\n%s", check, out)
			}
		})
	}
}
