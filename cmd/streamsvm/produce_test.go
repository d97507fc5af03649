package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/internal/testkit/kafkatest"
	"github.com/streamsvm/streamsvm/stream"
)

// TestPaced: records go at the rate, and none after the context has ended.
func TestPaced(t *testing.T) {
	recs := make([]stream.Record, 5)
	for perSecond, want := range map[float64]string{0: "[0s 0s 0s 0s 0s]", 4: "[0s 250ms 500ms 750ms 1s]", 20: "[0s 0s 100ms 100ms 150ms]"} {
		synctest.Test(t, func(t *testing.T) {
			var at []time.Duration
			start := time.Now()
			err := paced(t.Context(), new(progress), newMemory(recs, "t", 1, nil), limiter(perSecond), func(some []stream.Record) error {
				for range some {
					at = append(at, time.Since(start))
				}
				return nil
			})
			if got := fmt.Sprint(at); err != nil || got != want {
				t.Errorf("%v a second: sent at %v, want %v; %v", perSecond, got, want, err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			put := func([]stream.Record) error { cancel(); return nil }
			if err := paced(ctx, new(progress), newMemory(recs, "t", 2, nil), limiter(perSecond), put); err == nil {
				t.Error("no error after the context has ended")
			}
		})
	}
}

// TestTopicBeforeProducer: the topic is created before the producer asks for anything,
// since a producer waits seconds for a topic that its cached metadata does not have.
func TestTopicBeforeProducer(t *testing.T) {
	c := kafkatest.Fake(t, kfake.NumBrokers(1))
	var mu sync.Mutex
	var order []kmsg.Key
	c.Control(func(r kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		mu.Lock()
		defer mu.Unlock()
		if k := kmsg.Key(r.Key()); k == kmsg.CreateTopics || k == kmsg.InitProducerID {
			order = append(order, k)
		}
		return nil, nil, false
	})
	must(t, "generate", "moons", "--count", "3", "--topic", "t", "--partitions", "1", "--brokers", strings.Join(c.ListenAddrs(), ","), "-q")
	mu.Lock()
	defer mu.Unlock()
	if len(order) < 2 || order[0] != kmsg.CreateTopics {
		t.Errorf("requests %v, want the topic first", order)
	}
}

// TestPredictPositions: with --positions a restart scores what is new.
func TestPredictPositions(t *testing.T) {
	c := newCluster(t)
	topic, out := c.name(), c.name()
	model, pos := filepath.Join(t.TempDir(), "m.ssm"), filepath.Join(t.TempDir(), "pos.json")
	must(t, append([]string{"replay", moons(t, "train.libsvm", 500, 0), "--model", model}, learn...)...)
	for _, n := range []int{200, 300} {
		c.run("generate", "moons", "--count", fmt.Sprint(n), "--topic", topic, "--partitions", "2", "-q")
		c.run("predict", "--model", model, "--topics", topic, "--predictions-topic", out, "--until-end", "--positions", pos, "-q")
	}
	if n := len(kafkatest.ReadAll(t, c.brokers, out)); n != 500 {
		t.Errorf("%d predictions, want 500", n)
	}
	o, err := readPositions(pos)
	if err != nil || len(o) != 2 || o[stream.Partition{Topic: topic}]+o[stream.Partition{Topic: topic, ID: 1}] != 500 {
		t.Errorf("positions are %v, %v", o, err)
	}
}

// TestPredictBadRecords: a record that cannot be scored keeps its line.
func TestPredictBadRecords(t *testing.T) {
	dir := t.TempDir()
	model, in := filepath.Join(dir, "m.ssm"), filepath.Join(dir, "in.json")
	must(t, append([]string{"replay", moons(t, "train.libsvm", 500, 0), "--model", model}, learn...)...)
	write(t, in, `{"x":[1,2],"id":"a"}`+"\n"+`{"x":"?"}`+"\n"+`{"x":[0,0]}`+"\n")
	for form, want := range map[string]string{"json": `{"error":`, "label": "?", "decision": "?"} {
		code, out, errText := streamsvm(t.Context(), "predict", "--model", model, "--output", form, in)
		lines := strings.Split(strings.TrimSpace(out), "\n")
		if code != int(cli.Data) || len(lines) != 3 || !strings.HasPrefix(lines[1], want) || !strings.Contains(errText, "in.json record 2") {
			t.Errorf("%s: exit code %d, stdout %q, stderr %q", form, code, out, errText)
		}
	}
}

func TestJSONLog(t *testing.T) {
	var e bytes.Buffer
	code := program().Main(t.Context(), append([]string{"replay", moons(t, "a.libsvm", 3000, 0), "--log-format", "json"}, learn[:len(learn)-1]...),
		cli.Stdio{Out: &bytes.Buffer{}, Err: &e, Getenv: func(string) (string, bool) { return "", false }})
	last := map[string]any{}
	for line := range strings.Lines(e.String()) {
		clear(last)
		if err := json.Unmarshal([]byte(line), &last); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
	}
	if code != 0 || last["msg"] != "progress" || last["records"] != 3000. {
		t.Errorf("exit code %d, %s", code, e.String())
	}
}

// TestDemo: the demo learns the board, says so, and cleans up.
func TestDemo(t *testing.T) {
	tmp, dir := t.TempDir(), t.TempDir()
	t.Setenv("TMPDIR", tmp)
	out := must(t, "demo", "--count", "10000", "--report", dir)
	for _, want := range []string{
		"10000 read from the topic = 10000 learned + 0 sampled out + 0 refused", "stopped and resumed once", "state hash", "index.html",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("the output lacks %q:\n%s", want, out)
		}
	}
	var accuracy float64
	for line := range strings.Lines(out) {
		if f := strings.Fields(line); strings.HasPrefix(strings.TrimSpace(line), "accuracy of the last model") {
			if _, err := fmt.Sscan(f[5], &accuracy); err != nil {
				t.Errorf("%v in %s", err, line)
			}
		}
	}
	if accuracy < 90 {
		t.Errorf("the last model has an accuracy of %v %%:\n%s", accuracy, out)
	}
	for _, name := range []string{"index.html"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Size() == 0 {
			t.Errorf("report: %v", err)
		}
	}
	if left, err := os.ReadDir(tmp); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
