// Package crash decides what a panic does to the program.
//
// Where a program has called Install, a panic on a goroutine that is covered by
// Recover ends the process at once: one line on standard error, the stacks in a
// file, and an exit code. No deferred function further out runs, and no other
// goroutine gets past Hold, so nothing is stored or published on the way down. To
// the outside it is as if the process had been killed at that moment, which
// checkpoints are made for.
//
// Nothing turns a panic into an error to go on with: the state may be half
// changed, and a model made of it would be wrong without anybody noticing.
//
// Where nothing is installed, as in a program that uses streamsvm as a library, a
// panic stays what it is in Go.
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
	// Doing says what was being done; "" where that is not known.
	Doing string
	// At is the function that panicked, with its file and line.
	At    string
	Stack []byte // of its goroutine
}

// Error returns the value and the stack, which is what Go prints where a Panic
// ends a program that has not called Install.
func (p *Panic) Error() string { return fmt.Sprintf("%v\n\n%s", p.Value, p.Stack) }

var (
	installed atomic.Pointer[func(*Panic)]
	ending    atomic.Bool
)

// Install has panics reported to out, in the name of the program, and then end the
// process by exit, which must not return.
func Install(program string, out io.Writer, exit func()) {
	end := func(p *Panic) { finish(program, out, exit, p) }
	installed.Store(&end)
}

// Recover ends the process if the goroutine panics. It is deferred, after (which
// means it runs before) whatever must not run then: functions that flush, commit,
// or tell other goroutines that work has been done. doing says what is being done,
// and may be nil; it must not wait for a lock.
func Recover(doing func() string) {
	end := installed.Load()
	if end == nil {
		return // without recover, so that Go reports the panic as it always does
	}
	v := recover()
	if v == nil {
		return
	}
	if ending.Swap(true) {
		select {} // another panic was first
	}
	p := Caught(v)
	p.Doing = describe(doing)
	(*end)(p)
}

// describe survives a doing that fails on the state that the panic has left.
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

// Hold returns at once while all is well. Once a panic is about to end the process
// it never returns. It is called before whatever others can see: a rename, a
// commit, a clean exit.
func Hold() {
	if ending.Load() {
		select {}
	}
}

// Go runs f on a goroutine whose panics end the process.
func Go(f func()) { go Func(f)() }

// Func returns f for whoever starts goroutines, or calls back on one of theirs: a
// panic in it ends the process.
func Func(f func()) func() {
	return func() {
		defer Recover(nil)
		f()
	}
}

// Task is Func for functions with an error.
func Task(f func() error) func() error {
	return func() error {
		defer Recover(nil)
		return f()
	}
}

// Caught returns the panic whose value a deferred function has recovered. The
// function that panicked is known until that deferred function returns. A Panic
// that was passed on from another goroutine stays as it is.
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
