package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/algos/registry"
	"github.com/streamsvm/streamsvm/algos/sbp"
	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/internal/crash"
	"github.com/streamsvm/streamsvm/internal/par"
	"github.com/streamsvm/streamsvm/internal/testkit/kafkatest"
	"github.com/streamsvm/streamsvm/stream"
)

// plantEnv has processes of tests know the learner "planted", which is sbp, but
// panics in a PLACE where an example is no less than N.
const plantEnv = "STREAMSVM_TEST_PLANT" // PLACE N

// plant registers the learner planted.
func plant() {
	place, text, ok := strings.Cut(os.Getenv(plantEnv), " ")
	if !ok {
		return
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		panic(err)
	}
	at := func(name string, seq uint64) {
		if name == place && seq >= n {
			panic("planted in " + name)
		}
	}
	s := algos.Define(algos.SpecInfo{Name: "planted", Summary: "s", When: "w", Paper: "p", Kind: sbp.Spec.Kind}, nil,
		func(env algos.Env, _ struct{}) (algos.Learner, error) {
			l, err := sbp.Spec.New(env, map[string]string{"every": "1", "updates": "1"})
			return &plantedLearner{Learner: l, at: at}, err
		},
		func(data []byte) (algos.Model, error) {
			at("DecodeModel", n)
			m, err := sbp.Spec.DecodeModel(data)
			return plantedModel{m, func() { at("predict", n) }}, err
		})
	if err := registry.Register(s); err != nil {
		panic(err)
	}
}

type plantedLearner struct {
	algos.Learner
	at  func(name string, seq uint64)
	seq uint64
}

func (l *plantedLearner) Add(x *stream.Example) (algos.Fate, error) {
	l.at("Add", x.Seq)
	l.seq = x.Seq
	return l.Learner.Add(x)
}

func (l *plantedLearner) Step(ctx context.Context) (algos.Report, error) {
	l.at("Step", l.seq)
	par.Each(8, func(i int) {
		if i == 5 {
			l.at("par", l.seq)
		}
	})
	if stopped := make(chan struct{}); l.seq > 0 {
		crash.Go(func() {
			l.at("goroutine", l.seq)
			close(stopped)
		})
		<-stopped
	}
	return l.Learner.Step(ctx)
}

func (l *plantedLearner) Model() algos.Model {
	return plantedModel{l.Learner.Model(), func() { l.at("Decisions", l.seq) }}
}

type plantedModel struct {
	algos.Model
	at func()
}

func (m plantedModel) Decision(x stream.Vec) float64 {
	m.at()
	return m.Model.Decision(x)
}

func (m plantedModel) Decisions(dst []float64, xs []stream.Vec) {
	m.at()
	m.Model.Decisions(dst, xs)
}

// planted runs a command in a process with a plant.
func planted(t *testing.T, plant string, args ...string) (code int, out, errText string) {
	t.Helper()
	var o, e bytes.Buffer
	cmd := process(t, args...)
	cmd.Env = append(cmd.Env, plantEnv+"="+plant, "GOMAXPROCS=2")
	cmd.Stdout, cmd.Stderr = &o, &e
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), o.String(), e.String()
}

// panicLine checks that all that stands on standard error is one line with the texts.
func panicLine(t *testing.T, errText string, texts ...string) {
	t.Helper()
	if strings.Count(errText, "\n") != 1 || !strings.HasPrefix(errText, "streamsvm: panic in ") {
		t.Errorf("standard error is %q, want one line about a panic", errText)
	}
	for _, s := range texts {
		if !strings.Contains(errText, s) {
			t.Errorf("standard error is %q, want %q in it", errText, s)
		}
	}
}

// TestPanicLive plants panics in a trainer on a broker: it ends with exit code 70 and
// one line, leaves the stack beside the checkpoints, publishes nothing afterwards,
// and the next start without the plant ends as if nothing had happened.
func TestPanicLive(t *testing.T) {
	c := newCluster(t)
	topic, dir := c.name(), t.TempDir()
	args := func(name string, more ...string) []string {
		return append([]string{"train", "--brokers", strings.Join(c.brokers, ","), "--topics", topic, "--codec", "libsvm", "--merge", "ordered", "--model-topic", topic + "-" + name,
			"--checkpoint", filepath.Join(dir, name), "--checkpoint-every", "300", "--learner", "planted", "--warmup", "200", "-q"}, more...)
	}
	// All have published a model of the first examples before the others come.
	places := []string{"Add", "Step", "Decisions", "par", "goroutine"}
	c.run("copy", moons(t, "first.libsvm", 1500, 0), "--topic", topic, "--partitions", "2", "-q")
	for _, place := range places {
		p := process(t, args(place)...)
		p.Env = append(p.Env, plantEnv+"=nowhere 0")
		if err := p.Start(); err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		go func() {
			_ = p.Wait()
			close(done)
		}()
		waitCheckpoints(t, filepath.Join(dir, place), 2, done)
		_ = p.Process.Signal(syscall.SIGTERM)
		if <-done; !p.ProcessState.Success() {
			t.Fatal("the first run has failed")
		}
	}
	c.run("copy", moons(t, "rest.libsvm", 1500, 1500), "--topic", topic, "-q")
	if code, _, errText := planted(t, "nowhere 0", args("plain", "--until-end")...); code != 0 {
		t.Fatal(errText)
	}
	want := newest(t, filepath.Join(dir, "plain"))
	for _, place := range places {
		t.Run(place, func(t *testing.T) {
			state := filepath.Join(dir, place)
			code, _, errText := planted(t, place+" 2000", args(place, "--until-end")...)
			if code != 70 {
				t.Errorf("exit code %d, want 70", code)
			}
			panicLine(t, errText, "planted in "+place, "panic_test.go:", "the stack is in "+state)
			if place != "goroutine" {
				panicLine(t, errText, "the last record being "+topic+"/")
				if !strings.Contains(errText, "panic in train, learning,") && !strings.Contains(errText, "panic in train, taking a snapshot,") { // which learns first
					t.Errorf("standard error is %q", errText)
				}
			}
			stacks, err := filepath.Glob(filepath.Join(state, "panic-*.txt"))
			if err != nil || len(stacks) != 1 {
				t.Fatalf("files of stacks: %q, %v", stacks, err)
			}
			if text, err := os.ReadFile(stacks[0]); err != nil || !strings.Contains(string(text), "panic_test.go") || !strings.Contains(string(text), "planted in "+place) {
				t.Errorf("%v in the file of the stack:\n%s", err, text)
			}
			s := newest(t, state)
			if s.Examples == 0 || s.Examples > 2000 {
				t.Errorf("the newest checkpoint is of %d examples", s.Examples)
			}
			// The newest one may have been stored at the moment of the panic, before that was told.
			if m := regexp.MustCompile(`the last checkpoint is of ([0-9]+) examples`).FindStringSubmatch(errText); m == nil {
				t.Errorf("%q does not say what the last checkpoint is", errText)
			} else if n, err := strconv.ParseUint(m[1], 10, 64); err != nil || n == 0 || n > s.Examples {
				t.Errorf("it says that the last checkpoint is of %s examples, which is of %d", m[1], s.Examples)
			}
			var u updateLine
			if code, out, errText := planted(t, "nowhere 0", "model", "follow", "--brokers", strings.Join(c.brokers, ","), "--model-topic", topic+"-"+place, "--until", "1", "--json"); code != 0 {
				t.Fatal(errText)
			} else if u = decode[updateLine](t, out); u.Version > s.ModelVersion || u.Examples > s.Examples {
				t.Errorf("version %d of %d examples has been published, the checkpoint is version %d of %d", u.Version, u.Examples, s.ModelVersion, s.Examples)
			}

			if code, _, errText := planted(t, "nowhere 0", args(place, "--until-end")...); code != 0 {
				t.Fatal(errText)
			}
			if s := newest(t, state); s.StateHash != want.StateHash {
				t.Errorf("state %s after a panic and a restart, %s without", s.StateHash, want.StateHash)
			}
		})
	}
}

// TestPanicOfCommands: exit code 70 and one line, whichever command and goroutine.
// There is no directory for the stack, which --log-level debug shows.
func TestPanicOfCommands(t *testing.T) {
	c := newCluster(t)
	brokers := strings.Join(c.brokers, ",")
	topic, models, scored := c.name(), c.name(), c.name()
	file := moons(t, "train.libsvm", 600, 0)
	saved := filepath.Join(t.TempDir(), "m.ssm")
	run := func(args ...string) {
		t.Helper()
		if code, _, errText := planted(t, "nowhere 0", args...); code != 0 {
			t.Fatalf("%v: %s", args, errText)
		}
	}
	c.run("copy", file, "--topic", topic, "--partitions", "1", "-q")
	for _, name := range []string{"model", "other"} {
		run("train", "--brokers", brokers, "--topics", topic, "--codec", "libsvm", "--until-end", "--model-topic", models, "--model-name", name, "--checkpoint", filepath.Join(t.TempDir(), "c"), "--learner", "planted", "--warmup", "100", "-q")
	}
	run("replay", file, "--learner", "planted", "--warmup", "100", "--model", saved, "-q")

	for _, p := range []struct {
		plant string
		args  []string
		texts []string
	}{
		{"Step 300", []string{"replay", file, "--learner", "planted", "--warmup", "100", "--model", filepath.Join(t.TempDir(), "none.ssm")}, []string{"panic in replay, learning, the last record being train.libsvm/0 offset "}},
		{"Step 300", []string{"replay", file, "--compare", "sbp,planted", "--warmup", "100"}, []string{"panic in replay, learning, the last record being train.libsvm/0 offset "}},
		{"predict 0", []string{"predict", "--model", saved, file}, []string{"panic in predict, scoring train.libsvm/0 offset 0 to train.libsvm/0 offset "}},
		{"DecodeModel 0", []string{"predict", "--model", saved, file}, []string{"panic in predict: planted in DecodeModel"}},
		{"DecodeModel 0", []string{"predict", "--model-topic", models, "--model-name", "model", "--brokers", brokers, file}, []string{"panic in predict, taking over version ", " of model model: planted"}},
		{"predict 0", []string{"predict", "--model-topic", models, "--model-name", "model", "--brokers", brokers, "--topics", topic, "--predictions-topic", scored}, []string{"panic in predict, scoring " + topic + "/0 offset 0 to "}},
		{"predict 0", []string{"predict", "--model-topic", models, "--model-name", "model", "--brokers", brokers, "--topics", topic, "--predictions-topic", scored, "--group", c.name()}, []string{"panic in predict, scoring " + topic + "/0 offset 0 to "}},
		{"predict 0", []string{"sift", "--model-topic", models, "--model-name", "model", "--brokers", brokers, "--topics", topic, "--distilled-topic", c.name(), "--group", c.name()}, []string{"panic in sift, sifting ", " records from " + topic + "/0 offset 0"}},
		{"DecodeModel 0", []string{"model", "follow", "--model-topic", models, "--model-name", "model", "--brokers", brokers}, []string{"panic in model, having received version "}},
		{"predict 0", []string{"model", "compare", saved, saved, file}, []string{"panic in model"}},
	} {
		code, _, errText := planted(t, p.plant, append(p.args, "-q")...)
		if code != 70 {
			t.Errorf("%s: exit code %d, want 70", p.args, code)
		}
		panicLine(t, errText, append(p.texts, "planted in ", "panic_test.go:", "--log-level debug shows the stack")...)
	}
	for _, r := range kafkatest.ReadAll(t, c.brokers, scored) {
		t.Errorf("a prediction after the panic: %s", r.Value)
	}
	_, _, errText := planted(t, "predict 0", "predict", "--model", saved, file, "-q", "--log-level", "debug")
	if !strings.Contains(errText, "all goroutines:") || !strings.Contains(errText, "panic_test.go") {
		t.Errorf("--log-level debug does not show the stack:\n%s", errText)
	}
}

// TestPanicOfRequests: a request on which the program fails is answered with 500,
// logged and counted, and the service goes on.
func TestPanicOfRequests(t *testing.T) {
	file, saved := moons(t, "train.libsvm", 600, 0), filepath.Join(t.TempDir(), "m.ssm")
	if code, _, errText := planted(t, "nowhere 0", "replay", file, "--learner", "planted", "--warmup", "100", "--model", saved, "-q"); code != 0 {
		t.Fatal(errText)
	}
	cmd := process(t, "predict", "--model", saved, "--listen", "127.0.0.1:0", "--codec", "libsvm")
	cmd.Env = append(cmd.Env, plantEnv+"=predict 0", "GOMAXPROCS=2")
	r, w := io.Pipe()
	cmd.Stderr = w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	lines := bufio.NewScanner(r)
	url, ok := "", false
	for !ok && lines.Scan() {
		url, ok = strings.CutPrefix(lines.Text(), "POST ")
	}
	log := make(chan string, 10)
	go func() {
		for lines.Scan() {
			log <- lines.Text()
		}
	}()
	many := strings.Repeat("+1 1:0.5 2:0.5\n", 300) // over several processors
	for _, body := range []string{"+1 1:0.5 2:0.5\n", many} {
		if code, text := post(t, url, body); code != http.StatusInternalServerError || !strings.Contains(text, "bug") {
			t.Errorf("the answer is %d %s, want 500", code, text)
		}
		line := <-log
		for strings.Contains(line, " requests, ") { // the progress
			line = <-log
		}
		if !strings.Contains(line, "planted in predict") || !strings.Contains(line, "path=/predict") {
			t.Errorf("the log says %q", line)
		}
	}
	base := strings.TrimSuffix(url, "/predict")
	for path, want := range map[string]string{"/healthz": "ok", "/metrics": "streamsvm_http_panics_total 2\n"} {
		resp, err := http.Get(base + path)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != 200 || !strings.Contains(string(text), want) {
			t.Errorf("%s: %d, %v, without %q", path, resp.StatusCode, err, want)
		}
	}
}

// TestPanicOfHandlers: half an answer is cut off, so that nobody takes it for a whole
// one; what a handler means by http.ErrAbortHandler is left to it.
func TestPanicOfHandlers(t *testing.T) {
	reg := prometheus.NewRegistry()
	s := newServer(reg)
	s.mux.HandleFunc("GET /half", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "half")
		_ = http.NewResponseController(w).Flush()
		panic("planted")
	})
	s.mux.HandleFunc("GET /abort", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	log := &buffer{}
	c := &cli.Call{Log: slog.New(slog.NewTextHandler(log, nil))}
	if err := s.start(c, "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	defer s.stop()
	for path, counted := range map[string]bool{"/half": true, "/abort": false} {
		before := strings.Count(log.String(), "panic in the handler")
		resp, err := http.Get("http://" + s.addr + path)
		if err == nil {
			_, err = io.ReadAll(resp.Body)
			resp.Body.Close()
		}
		if err == nil {
			t.Errorf("%s: the answer looks whole", path)
		}
		if logged := strings.Count(log.String(), "panic in the handler") > before; logged != counted {
			t.Errorf("%s: logged %v, want %v", path, logged, counted)
		}
	}
}
