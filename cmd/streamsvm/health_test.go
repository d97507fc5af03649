package main

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/streamsvm/streamsvm/internal/app/cli"
)

func TestHealthCommand(t *testing.T) {
	srv := newServer(prometheus.NewRegistry())
	var problem error
	srv.healthy = func() error { return problem }
	ts := httptest.NewServer(srv.mux)
	defer ts.Close()

	code, out, errOut := streamsvm(t.Context(), "doctor", ts.URL+"/healthz")
	if code != 0 || out != "ok\n" {
		t.Errorf("healthy: exit code %d, output %q, %s", code, out, errOut)
	}
	problem = errors.New("no progress for 50s with 3 records waiting")
	code, _, errOut = streamsvm(t.Context(), "doctor", ts.URL+"/healthz")
	if code != int(cli.Unavailable) || !strings.Contains(errOut, problem.Error()) {
		t.Errorf("stalled: exit code %d, %s", code, errOut)
	}
	ts.Close()
	if code, _, _ = streamsvm(t.Context(), "doctor", ts.URL+"/healthz"); code != int(cli.Unavailable) {
		t.Errorf("gone: exit code %d", code)
	}
	if code, _, errOut = streamsvm(t.Context(), "doctor", "orders"); code != int(cli.Usage) || !strings.Contains(errOut, "--topics") {
		t.Errorf("no URL: exit code %d, %s", code, errOut)
	}
}

// TestProfilesAreOff: profiles are served only where that was asked for.
func TestProfilesAreOff(t *testing.T) {
	for _, on := range []bool{false, true} {
		srv := newServer(prometheus.NewRegistry())
		if on {
			srv.profile()
		}
		rec := httptest.NewRecorder()
		srv.mux.ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/debug/pprof/cmdline", nil))
		if (rec.Code == http.StatusOK) != on {
			t.Errorf("switched on: %v, status %d", on, rec.Code)
		}
	}
}
