// Package crash makes a panic end the program at once, before anything inconsistent
// is stored or published.
//
// After Install, a panic on a goroutine covered by Recover ends the process: one
// line on standard error, the stacks in a file, and an exit code. No outer deferred
// function runs, and no other goroutine gets past Hold, so nothing is stored or
// published on the way down. From the outside it looks as if the process had been killed
// at that moment, and checkpoints are designed for that.
//
// A panic is never turned into an error that the program continues from: the state may
// be half changed, and a model made from it could be wrong without anybody noticing.
//
// Without Install, as in a program that uses streamsvm as a library, panics behave
// as usual in Go.
package crash

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"
	"sync/atomic"
)

// Panic is a panic that has been caught.
type Panic struct {
	Value any
	// Doing describes the work that was being done; "" if unknown.
	Doing string
	// At is the function that panicked, with its file and line.
	At    string
	Stack []byte // stack of its goroutine
}

// Error returns the value and the stack. Go prints it when a Panic ends a program
// that has not called Install.
func (p *Panic) Error() string { return fmt.Sprintf("%v\n\n%s", p.Value, p.Stack) }

var (
	installed atomic.Pointer[func(*Panic)]
	ending    atomic.Bool
)

// Install makes a panic end the process: it is reported to out under the program's
// name, then exit is called, which must not return.
func Install(program string, out io.Writer, exit func()) {
	end := func(p *Panic) { finish(program, out, exit, p) }
	installed.Store(&end)
}

// Recover ends the process if the goroutine panics. Defer it after (so that it runs
// before) anything that must not run then: functions that flush, commit, or signal
// other goroutines that work is done. doing describes the current work, and may be
// nil; it must not wait for a lock.
func Recover(doing func() string) {
	end := installed.Load()
	if end == nil {
		return // without recover, so that Go reports the panic as usual
	}
	v := recover()
	if v == nil {
		return
	}
	if ending.Swap(true) {
		select {} // another goroutine panicked first
	}
	p := Caught(v)
	p.Doing = describe(doing)
	(*end)(p)
}

// describe calls doing and survives if that panics, since the panic may have left a
// broken state.
func describe(doing func() string) (text string) {
	defer func() {
		if recover() != nil {
			text = ""
		}
	}()
	if doing == nil {
		return ""
	}
	return doing()
}

// Hold normally returns at once. Once a panic is ending the process it never
// returns. Call it before anything that others can see: a rename, a commit, a clean
// exit.
func Hold() {
	if ending.Load() {
		select {}
	}
}

// Go runs f on a goroutine whose panics end the process.
func Go(f func()) { go Func(f)() }

// Func wraps f, for use by code that starts goroutines or calls back on its own: a
// panic in f ends the process.
func Func(f func()) func() {
	return func() {
		defer Recover(nil)
		f()
	}
}

// Task is Func for functions that return an error.
func Task(f func() error) func() error {
	return func() error {
		defer Recover(nil)
		return f()
	}
}

// Caught returns the panic whose value a deferred function has recovered. It must
// be called while that deferred function runs, since only then is the function that
// panicked known. A Panic passed on from another goroutine is returned unchanged.
func Caught(v any) *Panic {
	if p, ok := v.(*Panic); ok {
		return p
	}
	return &Panic{Value: v, At: origin(), Stack: debug.Stack()}
}

// origin returns the function that panicked.
func origin() string {
	var pcs [64]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(1, pcs[:])])
	panicked := false
	for {
		f, more := frames.Next()
		switch inside := strings.HasPrefix(f.Function, "runtime."); {
		case f.Function == "runtime.gopanic" || f.Function == "runtime.sigpanic":
			panicked = true
		case panicked && !inside:
			name := f.Function[strings.LastIndexByte(f.Function, '/')+1:]
			file := f.File[strings.LastIndexByte(f.File, '/')+1:]
			return fmt.Sprintf("%s (%s:%d)", name, file, f.Line)
		}
		if !more {
			return ""
		}
	}
}
