package main

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/streamsvm/streamsvm/algos/registry"
	"github.com/streamsvm/streamsvm/contrib/synth"
	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/internal/engine"
	"github.com/streamsvm/streamsvm/predictor"
	"github.com/streamsvm/streamsvm/stream"
)

// lagging is a source that is behind the ends of its topics.
type lagging struct {
	stream.Source
	n int64
}

func (l *lagging) Lag() map[stream.Partition]int64 { return map[stream.Partition]int64{{}: l.n} }

// TestProgressLines: what a line says of a run of the trainer, in a pipe, on a terminal and
// as JSON, with the rate since the line before.
func TestProgressLines(t *testing.T) {
	spec, err := registry.Lookup("sbp")
	if err != nil {
		t.Fatal(err)
	}
	for form, want := range map[string][]string{
		"pipe": {
			"0 %, 0s left, 0 records, 0/s, lag 2000; waiting for the first record",
			"25 %, 3s left, 0 records, 0/s, lag 2000; tuning",
			"50 %, 11s left, 1000 records, 100/s, lag 1000, accuracy A",
			"100 %, 0s left, 2000 records, 50/s, lag 0, accuracy A, version 3",
			"100 %, 0s left, 2000 records, 0/s, lag 0, accuracy A, version 3",
		},
		"terminal": {
			"[--------------------] 0 %, 0s left, 0 records, 0/s, lag 2000; waiting for the first record",
			"[#####---------------] 25 %, 3s left, 0 records, 0/s, lag 2000; tuning",
			"[##########----------] 50 %, 11s left, 1000 records, 100/s, lag 1000, accuracy A",
			"[####################] 100 %, 0s left, 2000 records, 48/s, lag 0, accuracy A, version 3", // done prints none
		},
		"json": {
			`{"level":"INFO","msg":"progress","records":0,"per_second":0,"phase":"waiting for the first record","lag":2000,"share":0,"seconds_left":0}`,
			`{"level":"INFO","msg":"progress","records":0,"per_second":0,"phase":"tuning","lag":2000,"share":0.25,"seconds_left":3}`,
			`{"level":"INFO","msg":"progress","records":1000,"per_second":100,"phase":"","lag":1000,"accuracy":A,"share":0.5,"seconds_left":11}`,
			`{"level":"INFO","msg":"progress","records":2000,"per_second":50,"phase":"","lag":0,"accuracy":A,"version":3,"share":1,"seconds_left":0}`,
			`{"level":"INFO","msg":"progress","records":2000,"per_second":0,"phase":"","lag":0,"accuracy":A,"version":3,"share":1,"seconds_left":0}`,
		},
	} {
		e, err := engine.NewEngine(engine.Config{Spec: spec, Seed: 1, Scale: "none"})
		if err != nil {
			t.Fatal(err)
		}
		gen, err := synth.New("moons", 1, nil)
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		c := &cli.Call{Stdio: cli.Stdio{Err: &b}, JSONLog: form == "json"}
		if form == "terminal" {
			c.Live = func(line string) { fmt.Fprintln(&b, line) }
		}
		p := startProgress(c, "")
		p.stopped() // the lines come when they are asked for
		b.Reset()
		src, now := &lagging{n: 2000}, p.last.at
		p.now = func() time.Time { return now }
		p.reads(src, true)
		learn := func(n int) {
			for range n {
				it := engine.Item{Partition: stream.Partition{Topic: "t"}, Offset: int64(e.Counts().Consumed)}
				gen.Next(&it.Example)
				if _, err := e.Consume(t.Context(), []engine.Item{it}); err != nil {
					t.Fatal(err)
				}
			}
			if err := e.Settle(t.Context()); err != nil {
				t.Fatal(err)
			}
			src.n -= int64(n)
			p.Consumed(e, 0)
		}
		p.Discovering(src, 0)
		p.print()
		p.Started(e, src)
		p.Tuning(0.125)
		now = now.Add(time.Second)
		p.Tuning(0.25)
		p.print()
		now = now.Add(10 * time.Second)
		learn(1000)
		p.print()
		p.Published(&stream.Update{Version: 3}, 0)
		now = now.Add(20 * time.Second)
		learn(1000)
		p.done()
		p.done()
		now = now.Add(time.Second)
		p.print()
		got := regexp.MustCompile(`"time":"[^"]*",|(accuracy"?:? ?)[01][.0-9]*`).ReplaceAllStringFunc(b.String(), func(s string) string {
			if strings.HasPrefix(s, "acc") {
				return strings.TrimRight(s, ".0123456789") + "A"
			}
			return ""
		})
		if lines := strings.Split(strings.TrimSpace(got), "\n"); !slices.Equal(lines, want) {
			t.Errorf("%s:\n%s\nwant\n%s", form, got, strings.Join(want, "\n"))
		}
	}
}

// TestProgressOfService: a service shows requests, rows, errors and the version.
func TestProgressOfService(t *testing.T) {
	var b bytes.Buffer
	s := &predict{current: func() *predictor.Version { return &predictor.Version{Update: stream.Update{Version: 7}} }}
	p := startProgress(&cli.Call{Stdio: cli.Stdio{Err: &b}}, "")
	p.stopped()
	p.serves(s)
	s.counts.requests.Add(2)
	s.counts.predictions.Add(5)
	s.counts.refused.Add(1)
	p.done()
	if got := b.String(); !strings.HasPrefix(got, "2 requests, ") || !strings.HasSuffix(got, "/s, rows 6, errors 1, version 7\n") {
		t.Error(got)
	}
}

// TestAwaiting: a command that waits for a broker says so.
func TestAwaiting(t *testing.T) {
	defer func(p, s time.Duration) { patience, slowAfter = p, s }(patience, slowAfter)
	patience, slowAfter = time.Millisecond, 0
	for _, verb := range []string{"list", "promote", "rollback"} {
		code, _, said := streamsvm(t.Context(), "model", verb, "--model-topic", "m", "--brokers", "127.0.0.1:1")
		if code != int(cli.Unavailable) || !strings.Contains(said, "waiting for an answer of 127.0.0.1:1, for up to 1ms") {
			t.Errorf("%s: exit code %d: %s", verb, code, said)
		}
	}
}

// TestScreen: on a terminal the last line is rewritten, cut to its width, and what else is
// written is above it.
func TestScreen(t *testing.T) {
	var b bytes.Buffer
	s := &screen{w: &b, width: func() int { return 10 }}
	err, out := over{s, &b}, over{s, &b}
	s.rewrite("1 record")
	s.rewrite("12345678901")
	fmt.Fprintln(err, "a warning")
	s.rewrite("3 records")
	fmt.Fprintln(out, "a result")
	fmt.Fprintln(err, "another")
	s.rewrite("")
	const clear = "\r\x1b[K"
	want := clear + "1 record" + clear + "123456789" + clear + "a warning\n" + clear + "3 records" + clear + "a result\n" + "another\n"
	if b.String() != want {
		t.Errorf("%q, want\n%q", b.String(), want)
	}
}
