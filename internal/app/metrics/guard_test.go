package metrics

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/streamsvm/streamsvm/internal/crash"
)

func broken(send) { panic("planted") }

// A collector that panics, on a goroutine of the registry, panics where the metrics
// are asked for, be it one of several that fail.
func TestGathererPassesPanicsOn(t *testing.T) {
	for n := range 3 {
		reg := prometheus.NewRegistry()
		for range n {
			reg.MustRegister(collector(broken))
		}
		func() {
			defer func() {
				p, ok := recover().(*crash.Panic)
				if ok != (n > 0) || ok && p.Value != "planted" {
					t.Errorf("%d broken collectors: %v", n, p)
				}
			}()
			if _, err := Gatherer(reg).Gather(); err != nil {
				t.Error(err)
			}
		}()
	}
}
