package checkpoint

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"testing"
)

// TestMain lets the test binary be started as a writer: a process that claims
// the directory, loads, and saves without end, one line of output for each
// snapshot that is durable.
func TestMain(m *testing.M) {
	if dir := os.Getenv("STREAMSVM_TEST_WRITER"); dir != "" {
		os.Exit(writer(dir))
	}
	os.Exit(m.Run())
}

const exitFenced = 3

func writer(dir string) int {
	s, err := Open(dir, Options{Log: discard()})
	if err == nil {
		_, err = s.Claim(context.Background())
	}
	var snap *Snapshot
	if err == nil {
		snap, err = s.Load()
	}
	n := 0
	if snap != nil {
		n = int(snap.Header.Examples)
	}
	for err == nil {
		n++
		next := numbered(n)
		next.Sections[1].Data = make([]byte, 1<<20)
		if _, err = s.Save(context.Background(), next); err == nil {
			fmt.Println(n)
		}
	}
	if errors.Is(err, ErrFenced) {
		return exitFenced
	}
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// process is a running writer.
type process struct {
	cmd   *exec.Cmd
	lines *bufio.Scanner
}

func start(t *testing.T, dir string) *process {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe)
	cmd.Env = append(os.Environ(), "STREAMSVM_TEST_WRITER="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	return &process{cmd, bufio.NewScanner(out)}
}

// next waits for one more snapshot and returns its number, or 0 after the last.
func (p *process) next(t *testing.T) int {
	t.Helper()
	if !p.lines.Scan() {
		return 0
	}
	n, err := strconv.Atoi(p.lines.Text())
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestKilled kills writers wherever they happen to be. No snapshot that was
// reported may be lost, none may be damaged.
func TestKilled(t *testing.T) {
	dir := t.TempDir()
	found := 0
	for round := 1; round <= 12; round++ {
		p := start(t, dir)
		last := 0
		for range round % 4 {
			n := p.next(t)
			if n != max(last, found)+1 {
				t.Fatalf("round %d: snapshot %d follows %d", round, n, max(last, found))
			}
			last = n
		}
		if err := p.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		for n := p.next(t); n > 0; n = p.next(t) { // reported before the kill
			last = n
		}
		_ = p.cmd.Wait() // it was killed
		s := open(t, dir, Options{})
		n := load(t, s)
		if n < max(last, found) || len(s.skipped) > 0 {
			t.Fatalf("round %d: found %d, %d was reported; skipped %v", round, n, max(last, found), s.skipped)
		}
		found = n
	}
	if found < 12 {
		t.Errorf("only %d snapshots in 12 rounds", found)
	}
}

// TestTakenOver starts a second process while the first one is saving.
func TestTakenOver(t *testing.T) {
	dir := t.TempDir()
	first := start(t, dir)
	last := first.next(t)
	second := start(t, dir)
	for n := last; n > 0; n = first.next(t) {
		last = n
	}
	var exit *exec.ExitError
	if err := first.cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != exitFenced {
		t.Errorf("the first process ended with %v", err)
	}
	if n := second.next(t); n != last+1 {
		t.Errorf("the second process begins with %d, the first ended with %d", n, last)
	}
	if err := second.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = second.cmd.Wait() // it was killed
}
