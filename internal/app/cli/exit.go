package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
)

// Code is an exit code, with the meanings of sysexits.h.
type Code int

// The exit codes in use.
const (
	OK          Code = 0
	Findings    Code = 1  // a command that looks for problems has found some
	Usage       Code = 64 // the command line is wrong
	Data        Code = 65 // the input data is wrong
	Unavailable Code = 69 // a service that is needed does not answer, or refuses
	Software    Code = 70 // a defect of the program, such as a panic
	IO          Code = 74 // reading or writing failed
	Temporary   Code = 75 // try again later
	Config      Code = 78 // the configuration file or the environment is wrong
	// Fenced: another process has taken over. A supervisor must not restart this
	// one, or the two would take over from each other forever. It is not in
	// sysexits.h.
	Fenced Code = 79
)

// codes documents the exit codes in the help text.
var codes = []struct {
	code Code
	text string
}{
	{OK, "success; also after SIGINT or SIGTERM, once a service has shut down cleanly"},
	{Findings, "config lint or doctor has found problems"},
	{Usage, "the command line is wrong"},
	{Data, "the input data is wrong"},
	{Unavailable, "a service that is needed does not answer, or refuses"},
	{Software, "a defect of the program, such as a panic"},
	{IO, "reading or writing failed"},
	{Temporary, "interrupted or locked: try again"},
	{Config, "the configuration file or the environment is wrong"},
	{Fenced, "another process has taken over: do not start this one again"},
}

// Error is an error that knows its exit code.
type Error struct {
	Code Code
	Err  error
}

func (e *Error) Error() string { return e.Err.Error() }

func (e *Error) Unwrap() error { return e.Err }

// Fail attaches an exit code to err, which may be nil.
func Fail(code Code, err error) error {
	if err == nil {
		return nil
	}
	return &Error{code, err}
}

// Failf is Fail with a formatted error.
func Failf(code Code, format string, args ...any) error {
	return Fail(code, fmt.Errorf(format, args...))
}

// CodeOf returns the exit code for err: its own if it has one, otherwise the one
// that suits the standard library error that it wraps.
func CodeOf(err error) Code {
	var own *Error
	var netErr net.Error
	var path *fs.PathError
	var link *os.LinkError
	switch {
	case err == nil:
		return OK
	case errors.As(err, &own):
		return own.Code
	case errors.Is(err, context.Canceled):
		return Temporary
	case errors.As(err, &path), errors.As(err, &link):
		return IO
	case errors.As(err, &netErr): // includes context.DeadlineExceeded: only requests have deadlines
		return Unavailable
	}
	return Software
}
