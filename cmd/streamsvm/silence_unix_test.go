//go:build unix

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/internal/testkit/kafkatest"
)

// TestNoSilence: every command that may take long says at its start what it does, before it
// waits for a record, and then how far it is although nothing comes, in a pipe and on a
// terminal; with -q it says nothing.
func TestNoSilence(t *testing.T) {
	defer func(a, b time.Duration) { progressEvery, progressLive = a, b }(progressEvery, progressLive)
	progressEvery, progressLive = 100*time.Microsecond, 100*time.Microsecond
	brokers := kafkatest.Embedded(t).Addr()
	dir := t.TempDir()
	model, pipe := filepath.Join(dir, "m.ssm"), filepath.Join(dir, "pipe.libsvm")
	must(t, append([]string{"replay", moons(t, "train.libsvm", 500, 0), "--model", model, "-q"}, quick...)...)
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Skip("no named pipes here: ", err)
	}
	hold, err := os.OpenFile(pipe, os.O_RDWR, 0) // a reader waits for records then
	if err != nil {
		t.Fatal(err)
	}
	defer hold.Close()
	kafkatest.Create(t, []string{brokers}, "empty", 1, nil)
	for _, c := range []struct {
		args        string
		start, line string // regular expressions
	}{
		{"train --topics empty --model-topic models --checkpoint " + dir + "/state", `learning from topic empty at .*records as json; learner adaptive; checkpoints in .*state; models to topic models`, `0 records, 0/s, lag 0; waiting for the first record`},
		{"train --topics absent --topic-wait -1s", `learning from topic absent`, `0 records, 0/s; starting`},
		{"predict --model " + model + " --topics empty --predictions-topic scored", `predicting from empty to scored, at .*; model of .*m.ssm\n.*model m of learner sbp; records as libsvm`, `0 records, 0/s, lag 0; waiting for records`},
		{"predict --model-topic models --topic-wait -1s --topics empty --predictions-topic scored", `predicting from empty to scored, at .*; model of topic models`, `0 records, 0/s; waiting for a model`},
		{"predict --model " + model + " --topics empty --predictions-topic scored --group g", `from empty to scored in group g`, `0 records, 0/s, lag 0; waiting for records`},
		{"predict --model " + model + " " + pipe, `predicting records of .*pipe.libsvm`, `0 records, 0/s`},
		{"model follow --model-topic models --topic-wait -1s", `following the models of topic models at`, `0 updates, 0/s; waiting for the next version`},
		{"copy --topics empty " + dir + "/rec.ssr", `recording topic empty at .* in .*rec.ssr`, `0 records, 0/s, lag 0; waiting for records`},
		{"copy --topic other --partitions 1 " + pipe, `writing .*pipe.libsvm to topic other at`, `0 records, 0/s`},
		{"generate moons --count 0 --rate 0.001 --topic other", `generating moons as json: to topic other at`, `1 records, [.\d]+/s`},
		{"generate moons --count 10 --rate 0.001 --out " + dir + "/g.libsvm", `generating moons as libsvm: to .*g.libsvm`, `10 %, .* left, 1 records, [.\d]+/s`},
		{"replay " + pipe, `learning from .*pipe.libsvm; learner adaptive`, `0 records, 0/s`},
		{"replay --compare sbp,online " + pipe, `learning from .*pipe.libsvm; learner sbp, online`, `0 records, 0/s`},
	} {
		for _, how := range []string{"pipe", "terminal", "json", "quiet"} {
			args := append(strings.Fields(c.args), "--log-level", "error")
			if strings.Contains(c.args, "topic") {
				args = append(args, "--brokers", brokers)
			}
			var said buffer
			io := cli.Stdio{In: strings.NewReader(""), Out: &buffer{}, Err: &said, Getenv: func(string) (string, bool) { return "", false }}
			start, line := c.start, c.line
			switch how {
			case "terminal":
				io.Live = func(line string) { fmt.Fprintln(&said, line) }
				line = strings.Replace(line, "10 %", `\[##-{18}\] 10 %`, 1)
			case "json":
				args = append(args, "--log-format", "json")
				start, line = strings.Replace(start, `\n.*`, `"}\n.*`, 1), `"msg":"progress","(records|updates)":[01]`
			case "quiet":
				args = append(args, "-q")
			}
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				program().Main(ctx, args, io)
			}()
			lines := regexp.MustCompile(`(?s)^[^\n]*` + start + `.*\n[^\n]*` + line + `[^\n]*\n.*` + line)
			for deadline := time.Now().Add(5 * time.Second); how != "quiet" && !lines.MatchString(said.String()); time.Sleep(time.Millisecond) {
				select {
				case <-ended:
					t.Fatalf("%s, %s: ended\n%s", how, c.args, said.String())
				default:
				}
				if time.Now().After(deadline) {
					t.Fatalf("%s, %s: no %s\n%.2000s", how, c.args, lines, said.String())
				}
			}
			cancel()
			<-ended
			os.Remove(dir + "/rec.ssr")
			if text := said.String(); how == "quiet" && regexp.MustCompile(start+"|records,|updates,").MatchString(text) {
				t.Errorf("%s -q: %s", c.args, text)
			} else if how == "json" {
				for line := range strings.Lines(text) {
					if !json.Valid([]byte(line)) && !strings.HasPrefix(line, "streamsvm: ") {
						t.Errorf("%s: not JSON: %s", c.args, line)
					}
				}
			}
		}
	}
}
