package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/internal/app/metrics"
	"github.com/streamsvm/streamsvm/internal/testkit/kafkatest"
	"github.com/streamsvm/streamsvm/internal/version"
	"github.com/streamsvm/streamsvm/stream"
)

// TestTopicMadeAnew: a topic that was deleted and created again is noticed even
// where it has a record at the offset of the checkpoint.
func TestTopicMadeAnew(t *testing.T) {
	brokers := kafkatest.Brokers(t)
	topic := kafkatest.Topic(t, brokers, 1, nil)
	kafkatest.Produce(t, brokers, examples(topic, 50)...)
	state := filepath.Join(t.TempDir(), "state")
	settings := []string{"--brokers", strings.Join(brokers, ","), "--topics", topic, "--checkpoint", state, "--learner", "sbp", "--tune=off", "--warmup", "10"}
	train := append([]string{"train", "--until-end", "-q"}, settings...)
	must(t, train...)
	must(t, train...) // the same topic: nothing to object to
	kafkatest.Delete(t, brokers, topic)
	kafkatest.Create(t, brokers, topic, 1, nil)
	kafkatest.Produce(t, brokers, examples(topic, 70)...)
	if code, _, errText := streamsvm(t.Context(), train...); code != int(cli.Data) || !strings.Contains(errText, "topic "+topic+" has been deleted and created again") {
		t.Errorf("exit code %d, %s", code, errText)
	}
	if code, out, _ := streamsvm(t.Context(), append([]string{"doctor"}, settings...)...); code != int(cli.Findings) || !strings.Contains(out, "FAIL  topic "+topic+": it has been deleted and created again since the checkpoint") {
		t.Errorf("doctor: exit code %d\n%s", code, out)
	}
	must(t, append(train, "--on-out-of-range", "earliest")...)
	if m := newest(t, state).Meta; m["consumed"] != "120" {
		t.Errorf("%s records consumed, want 50 of the first topic and 70 of the second", m["consumed"])
	}
	must(t, train...) // the checkpoint knows the new one by now
}

// TestProduceOldTimestamps: records that the topic's retention deletes at once
// are not written without a word.
func TestProduceOldTimestamps(t *testing.T) {
	brokers := kafkatest.Brokers(t)
	source, short, long := kafkatest.Topic(t, brokers, 1, nil), kafkatest.Topic(t, brokers, 1, map[string]string{"retention.ms": "86400000"}), kafkatest.Topic(t, brokers, 1, nil)
	kafkatest.Produce(t, brokers, stream.Record{Topic: source, Value: []byte("old"), Time: time.Now().Add(-48 * time.Hour)}, stream.Record{Topic: source, Value: []byte("new")})
	file := filepath.Join(t.TempDir(), "r.ssr")
	at := []string{"--brokers", strings.Join(brokers, ","), "-q"}
	must(t, append([]string{"copy", file, "--topics", source, "--until-end"}, at...)...)
	for topic, want := range map[string]bool{short: true, long: false} {
		code, _, errText := streamsvm(t.Context(), append([]string{"copy", file, "--topic", topic}, at...)...)
		if code != 0 || strings.Contains(errText, "retention") != want || strings.Count(errText, "level=WARN") > 1 {
			t.Errorf("exit code %d, %q, want a warning: %v", code, errText, want)
		}
	}
}

// TestExitCodesAreListed: one case for each code, all of which --help lists.
func TestExitCodesAreListed(t *testing.T) {
	brokers := strings.Join(kafkatest.Brokers(t), ",")
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		write(t, path, text)
		return path
	}
	bad, typo, data := write("bad.libsvm", "+1 3:x\n"), write("typo.yaml", "brokerz: a\n"), write("good.libsvm", "+1 1:1\n-1 1:2\n")
	over, cancel := context.WithCancel(t.Context())
	cancel()
	help := must(t, "--help")
	for _, c := range []struct {
		ctx  context.Context
		code cli.Code
		args []string
	}{
		{t.Context(), cli.OK, []string{"--version"}},
		{t.Context(), cli.Findings, []string{"config", "lint", typo}},
		{t.Context(), cli.Usage, []string{"train", "--topix"}},
		{t.Context(), cli.Data, []string{"replay", bad, "--learner", "sbp", "-q"}},
		{t.Context(), cli.Unavailable, []string{"train", "--brokers", brokers, "--topics", "no-such-topic", "-q"}},
		{t.Context(), cli.IO, []string{"generate", "moons", "--count", "1", "--out", filepath.Join(dir, "no", "such", "directory"), "-q"}},
		{over, cli.Temporary, []string{"replay", data, "--learner", "sbp", "-q"}},
		{t.Context(), cli.Config, []string{"train", "--config", typo}},
	} {
		code, out, errText := streamsvm(c.ctx, c.args...)
		if code != int(c.code) {
			t.Errorf("%v: exit code %d, want %d\n%s%s", c.args, code, c.code, out, errText)
		}
		if !strings.Contains(help, fmt.Sprintf("\n  %2d  ", c.code)) {
			t.Errorf("--help does not list %d", c.code)
		}
		if n := strings.Count(strings.TrimSpace(errText), "\n"); c.code != cli.OK && n != 0 {
			t.Errorf("%v: %d lines on stderr:\n%s", c.args, n+1, errText)
		}
	}
}

// TestSecondSignal: a service whose shutdown hangs, because the broker does,
// ends at once when it is told again.
func TestSecondSignal(t *testing.T) {
	dir := t.TempDir()
	broker := process(t, "broker", "-q", "--addr", "127.0.0.1:0")
	addr := firstLine(t, broker, "listening on ")
	state := filepath.Join(dir, "state")
	must(t, "generate", "moons", "--count", "1000", "--topic", "examples", "--partitions", "1", "--brokers", addr, "-q")
	// Nothing is published before the end, so that there is something to wait
	// for then.
	p := process(t, "train", "--brokers", addr, "--topics", "examples", "--model-topic", "models", "--checkpoint", state, "--checkpoint-interval", "0s",
		"--shutdown-timeout", "10m", "--learner", "sbp", "--tune=off", "--warmup", "200")
	p.Stderr = nil
	progress, err := p.StderrPipe()
	if err == nil {
		err = p.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	var said []string
	lines := bufio.NewScanner(progress)
	for lines.Scan() && !slices.Contains(strings.Fields(lines.Text()), "1000") {
		said = append(said, lines.Text())
	}
	if lines.Text() == "" {
		t.Fatalf("the service has ended by itself: %v\n%s", p.Wait(), strings.Join(said, "\n"))
	}
	done := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, progress)
		_ = p.Wait() // the state says how it ended
		close(done)
	}()
	if err := broker.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	// Signals that come together are one: go on until it has had two.
	for ended := false; !ended; {
		_ = p.Process.Signal(syscall.SIGTERM) // fails if it is gone
		select {
		case <-done:
			ended = true
		case <-time.After(200 * time.Millisecond):
		}
	}
	status, ok := p.ProcessState.Sys().(syscall.WaitStatus)
	if !ok || !(status.Signaled() && status.Signal() == syscall.SIGTERM) {
		t.Errorf("it ends with %v, want by the second signal", p.ProcessState)
	}
}

// firstLine starts a process that is killed with the test and returns what its
// first line says after the prefix.
func firstLine(t *testing.T, p *exec.Cmd, prefix string) string {
	t.Helper()
	out, err := p.StdoutPipe()
	if err == nil {
		err = p.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.Process.Kill()
		_ = p.Wait() // reports the kill
	})
	buf := make([]byte, 200)
	n, err := out.Read(buf)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(strings.TrimPrefix(string(buf[:n]), prefix))
}

// TestListenIsLoopback: without a host, other machines are not served.
func TestListenIsLoopback(t *testing.T) {
	s := newServer(metrics.NewRegistry(version.String))
	if err := s.start(&cli.Call{Log: slog.New(slog.DiscardHandler)}, ":0"); err != nil {
		t.Fatal(err)
	}
	defer s.stop()
	if host, _, err := net.SplitHostPort(s.addr); err != nil || !net.ParseIP(host).IsLoopback() {
		t.Errorf("it listens on %s, %v", s.addr, err)
	}
}

// TestStopCutsOff: requests may finish, but not forever.
func TestStopCutsOff(t *testing.T) {
	for hang, cut := range map[time.Duration]bool{100 * time.Millisecond: false, time.Hour: true} {
		s, log, begun := newServer(metrics.NewRegistry(version.String)), &buffer{}, make(chan struct{})
		s.drain = time.Second
		s.mux.HandleFunc("GET /hang", func(_ http.ResponseWriter, r *http.Request) {
			close(begun)
			select {
			case <-time.After(hang):
			case <-r.Context().Done():
			}
		})
		if err := s.start(&cli.Call{Log: slog.New(slog.NewTextHandler(log, nil))}, ":0"); err != nil {
			t.Fatal(err)
		}
		answered := make(chan error, 1)
		go func() {
			resp, err := http.Get("http://" + s.addr + "/hang")
			if err == nil {
				resp.Body.Close()
			}
			answered <- err
		}()
		<-begun
		s.stop()
		if err := <-answered; (err != nil) != cut || strings.Contains(log.String(), "cut off") != cut {
			t.Errorf("a request of %v: %v, %s", hang, err, log)
		}
	}
}
