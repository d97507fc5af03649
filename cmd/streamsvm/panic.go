package main

import (
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/streamsvm/streamsvm/checkpoint"
	"github.com/streamsvm/streamsvm/internal/crash"
	"github.com/streamsvm/streamsvm/internal/engine"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/topiclog"
)

// keepStacks makes crash reports name the last checkpoint, and writes them to the
// directory of the checkpoints.
type keepStacks struct{ dir string }

// Started implements engine.StartedHook.
func (k keepStacks) Started(e *engine.Engine, _ stream.Source) {
	k.set(e.Counts().Consumed)
}

// Checkpointed implements trainer.HookCheckpointed.
func (k keepStacks) Checkpointed(_ string, h checkpoint.Header, _ int64, _ time.Duration) {
	k.set(h.Examples)
}

func (k keepStacks) set(examples uint64) {
	if _, topic := topiclog.StateTopic(k.dir); !topic {
		crash.Dir(k.dir)
	}
	if k.dir != "" && examples > 0 {
		crash.Checkpoint(fmt.Sprintf("of %d examples", examples))
	}
}

// guard answers a request whose handler panics with 500, logs the panic and counts
// it, and goes on. It does not end the process, as other panics do: handlers change
// nothing that is learned, stored or published by others, so the state is sound, and
// one request that the program cannot cope with must not be able to stop a service
// for everybody, again after every restart.
type guard struct {
	http.Handler
	log    *slog.Logger
	panics prometheus.Counter
}

func newPanics(reg prometheus.Registerer) prometheus.Counter {
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: "streamsvm_http_panics_total", Help: "Requests that were not answered since the program failed on them, which is a defect."})
	reg.MustRegister(c)
	return c
}

// ServeHTTP implements http.Handler.
func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a := &begun{ResponseWriter: w}
	defer func() {
		v := recover()
		if v == nil {
			return
		}
		if v == http.ErrAbortHandler {
			panic(v)
		}
		p := crash.Caught(v)
		g.panics.Inc()
		g.log.Error("panic in the handler of a request; this is a defect of the program", "method", r.Method, "path", r.URL.Path, "panic", p.Value, "in", p.At)
		g.log.Debug("its stack", "stack", string(p.Stack))
		if a.yes {
			panic(http.ErrAbortHandler) // or the client would take half an answer for a whole one
		}
		http.Error(w, "this request has made the program fail, which is a bug; its log has the details", http.StatusInternalServerError)
	}()
	g.Handler.ServeHTTP(a, r)
}

// begun is a response that knows whether it has begun.
type begun struct {
	http.ResponseWriter
	yes bool
}

// Unwrap is for http.ResponseController.
func (a *begun) Unwrap() http.ResponseWriter { return a.ResponseWriter }

func (a *begun) WriteHeader(code int) {
	a.yes = true
	a.ResponseWriter.WriteHeader(code)
}

func (a *begun) Write(b []byte) (int, error) {
	a.yes = true
	return a.ResponseWriter.Write(b)
}
