package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	_ "net/http/pprof"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/streamsvm/streamsvm/internal/app/admit"
	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/internal/app/metrics"
	"github.com/streamsvm/streamsvm/internal/crash"
	"github.com/streamsvm/streamsvm/internal/version"
)

// server answers /metrics, /healthz, /readyz and /version, and the routes added to
// its mux before it is started.
type server struct {
	mux    *http.ServeMux
	panics prometheus.Counter // of handlers
	// healthy, if not nil, returns an error if something keeps the service from
	// doing its work. It is set before start.
	healthy func() error
	// ready says whether the service does its work: false while it starts, and
	// once it stops.
	ready atomic.Bool
	// waiting, if not nil, says what the service waits for before its work is
	// useful to others, or "". It is set before start.
	waiting func() string
	// drain is how long stop lets requests finish. It is set before start; the default
	// is enough for pages.
	drain  time.Duration
	limits *admit.Limits
	m      *metrics.HTTP
	srv    *http.Server
	addr   string
	log    *slog.Logger
}

func newServer(reg *prometheus.Registry) *server {
	s := &server{mux: http.NewServeMux(), panics: newPanics(reg), drain: 5 * time.Second}
	s.m = metrics.NewHTTP(reg, admit.Reasons(), func() int64 { return s.limits.Held() })
	s.bound(admit.Options{})
	s.mux.Handle("GET /metrics", promhttp.HandlerFor(metrics.Gatherer(reg), promhttp.HandlerOpts{}))
	s.mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		if s.healthy != nil {
			if err := s.healthy(); err != nil {
				http.Error(w, err.Error(), http.StatusServiceUnavailable)
				return
			}
		}
		_, _ = w.Write([]byte("ok\n"))
	})
	s.mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if !s.ready.Load() {
			http.Error(w, "not ready", http.StatusServiceUnavailable)
			return
		}
		_, _ = w.Write([]byte("ready\n"))
		if s.waiting != nil {
			if why := s.waiting(); why != "" {
				_, _ = w.Write([]byte(why + "\n"))
			}
		}
	})
	s.mux.HandleFunc("GET /version", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]string{"version": version.String, "go": runtime.Version()})
	})
	return s
}

// bound sets the limits. It is called before start, and before the handlers that the
// limits apply to are added to the mux.
func (s *server) bound(o admit.Options) {
	o.Rejected = s.m.Rejected
	s.limits = admit.New(o)
}

// profile adds the handlers of net/http/pprof. Profiles reveal what is in memory, so
// they are served only if a flag enables them.
func (s *server) profile() {
	s.mux.HandleFunc("GET /debug/pprof/", func(w http.ResponseWriter, r *http.Request) {
		// A profile ends when its client goes away, and an expired deadline looks
		// like that.
		_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
		http.DefaultServeMux.ServeHTTP(w, r) // where net/http/pprof registers them
	})
}

// start listens on addr, unless that is empty, and answers until stop. Other machines
// can connect only if addr allows it: without a host it means the loopback interface.
func (s *server) start(c *cli.Call, addr string) error {
	if addr == "" {
		return nil
	}
	if strings.HasPrefix(addr, ":") {
		addr = "127.0.0.1" + addr
	}
	l, err := net.Listen("tcp", addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		err = fmt.Errorf("--listen: another process listens on %s: choose another port", addr)
	}
	if err != nil {
		return cli.Fail(cli.Unavailable, err)
	}
	s.addr, s.log = l.Addr().String(), c.Log
	c.Log.Info("listening", "addr", s.addr)
	s.srv = s.limits.Server(&guard{s.mux, c.Log, s.panics})
	crash.Go(func() {
		if err := s.srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			c.Log.Error("the HTTP server has stopped", "err", err)
		}
	})
	return nil
}

// stop lets current requests finish, for up to s.drain.
func (s *server) stop() {
	s.ready.Store(false)
	if s.srv == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.drain)
	defer cancel()
	if s.srv.Shutdown(ctx) != nil {
		s.log.Warn("requests are cut off: they have not ended in time", "after", s.drain)
		_ = s.srv.Close()
	}
}
