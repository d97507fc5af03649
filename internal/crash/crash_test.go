package crash

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

type inner struct{ list []int }

func (p *inner) fail(i int) int { return p.list[i] }

// A caught panic knows where it has come from, whoever has raised it: the program,
// the runtime, or the processor.
func TestOrigin(t *testing.T) {
	caught := func(f func()) (p *Panic) {
		defer func() { p = Caught(recover()) }()
		f()
		return nil
	}
	for want, f := range map[string]func(){
		"inner).fail (crash_test.go:":       func() { (&inner{}).fail(3) },
		"TestOrigin.func3 (crash_test.go:":  func() { panic(errors.New("x")) },
		"TestOrigin.func4 (crash_test.go:":  func() { var p *inner; _ = p.list },
		"TestOrigin.func5.1 (crash_test.go": func() { func() { panic("x") }() },
	} {
		if p := caught(f); !strings.Contains(p.At, want) || !strings.Contains(string(p.Stack), "TestOrigin") {
			t.Errorf("a panic comes from %q, want %q", p.At, want)
		}
	}
	p := caught(func() { panic("x") })
	if Caught(p) != p {
		t.Error("a panic that is passed on is another one")
	}
}

func TestReport(t *testing.T) {
	dir := t.TempDir()
	p := &Panic{Value: "boom\nof two lines", Doing: "learning", At: "f (f.go:1)", Stack: []byte("the stack")}
	now := time.Date(2026, 1, 2, 3, 4, 5, 6e6, time.UTC)
	file := filepath.Join(dir, "panic-20260102T030405.006Z.txt")
	for _, c := range []struct {
		about context
		p     *Panic
		want  string
	}{
		{context{command: "train", dir: dir, checkpoint: "of 7 examples"}, p,
			"x: panic in train, learning: boom of two lines, in f (f.go:1); the last checkpoint is of 7 examples; the stack is in " + file},
		{context{command: "train"}, p, "x: panic in train, learning: boom of two lines, in f (f.go:1); --log-level debug shows the stack"},
		{context{command: "train", dir: filepath.Join(dir, "none")}, p, "x: panic in train, learning: boom of two lines, in f (f.go:1); the stack cannot be kept: stat "},
		{context{}, &Panic{Value: 3}, "x: panic: 3; --log-level debug shows the stack"},
	} {
		var out strings.Builder
		c.about.report("x", &out, c.p, now)
		if got := out.String(); strings.Count(got, "\n") != 1 || !strings.HasPrefix(got, c.want) {
			t.Errorf("%+v: %q, want %q", c.about, got, c.want)
		}
	}
	if text, err := os.ReadFile(file); err != nil || !strings.Contains(string(text), "the stack") || !strings.Contains(string(text), "TestReport") {
		t.Errorf("the file: %v\n%s", err, text)
	}
	var out strings.Builder
	(&context{debug: true}).report("x", &out, p, now)
	if !strings.Contains(out.String(), "the stack") {
		t.Errorf("with debug: %q", out.String())
	}
	for i := range 2 * maxFiles {
		(&context{dir: dir}).report("x", &out, p, now.Add(time.Duration(i)*time.Second))
	}
	files, err := filepath.Glob(filepath.Join(dir, "panic-*"))
	if err != nil || len(files) != maxFiles || files[0] == file {
		t.Errorf("%d files, the oldest is %s, %v", len(files), files[0], err)
	}
}

// Without Install a panic goes on as it does in Go, and nothing is held.
func TestLibrary(t *testing.T) {
	defer func() {
		if v := recover(); v != "x" {
			t.Errorf("recovered %v", v)
		}
		Hold()
	}()
	Func(func() { panic("x") })()
}
