package crash

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/streamsvm/streamsvm/internal/version"
)

// about has the context of a report besides the panic itself.
var about struct {
	sync.Mutex
	context
}

type context struct {
	command    string
	dir        string // directory for the stacks; "" if there is none
	checkpoint string // description of the last one
	debug      bool   // print stacks on standard error too
}

// Command sets the command of the program that is running, and whether its user
// wants stacks on standard error.
func Command(name string, debug bool) {
	about.Lock()
	defer about.Unlock()
	about.context = context{command: name, debug: debug}
}

// Dir sets the directory for the stacks, which must exist.
func Dir(dir string) {
	about.Lock()
	defer about.Unlock()
	about.dir = dir
}

// Checkpoint describes the last checkpoint.
func Checkpoint(text string) {
	about.Lock()
	defer about.Unlock()
	about.checkpoint = text
}

// reportFor bounds how long a process lives after a panic: a disk that does not
// respond, or a pipe that nobody reads, must not keep it alive.
const reportFor = 5 * time.Second

// finish reports p and ends the process.
func finish(program string, out io.Writer, exit func(), p *Panic) {
	about.Lock()
	c := about.context
	about.Unlock()
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.report(program, out, p, time.Now())
	}()
	select {
	case <-done:
	case <-time.After(reportFor):
	}
	exit()
}

// report prints the line, and writes the stacks if there is a directory for them.
func (c *context) report(program string, out io.Writer, p *Panic, now time.Time) {
	text := c.stacks(p, now)
	line := program + ": panic"
	if c.command != "" {
		line += " in " + c.command
	}
	if p.Doing != "" {
		line += ", " + p.Doing
	}
	line += fmt.Sprintf(": %v", p.Value)
	if p.At != "" {
		line += ", in " + p.At
	}
	if c.checkpoint != "" {
		line += "; the last checkpoint is " + c.checkpoint
	}
	path, err := c.write(text, now)
	switch {
	case err != nil:
		line += fmt.Sprintf("; the stack cannot be kept: %v", err)
	case path != "":
		line += "; the stack is in " + path
	case !c.debug:
		line += "; --log-level debug shows the stack"
	}
	fmt.Fprintln(out, strings.Join(strings.FieldsFunc(line, func(r rune) bool { return r == '\n' || r == '\r' }), " "))
	if c.debug {
		_, _ = io.WriteString(out, text)
	}
}

// stacks returns the full report, for finding the bug.
func (c *context) stacks(p *Panic, now time.Time) string {
	all := make([]byte, 1<<20)
	all = all[:runtime.Stack(all, true)]
	return fmt.Sprintf("%s\n%s\n\npanic in %s, %s: %v\n\n%s\nall goroutines:\n\n%s",
		version.Text(), now.UTC().Format(time.RFC3339Nano), c.command, p.Doing, p.Value, p.Stack, all)
}

// maxFiles is the number of stack files kept, so that a program that is restarted
// again and again does not fill the disk.
const maxFiles = 10

// write writes the stacks to a file, if there is a directory for it.
func (c *context) write(text string, now time.Time) (path string, err error) {
	if c.dir == "" {
		return "", nil
	}
	if _, err := os.Stat(c.dir); err != nil {
		return "", err
	}
	old, _ := filepath.Glob(filepath.Join(c.dir, "panic-*.txt")) // ordered by time
	for len(old) >= maxFiles {
		_ = os.Remove(old[0])
		old = slices.Delete(old, 0, 1)
	}
	path = filepath.Join(c.dir, "panic-"+now.UTC().Format("20060102T150405.000Z")+".txt")
	return path, os.WriteFile(path, []byte(text), 0o600)
}
