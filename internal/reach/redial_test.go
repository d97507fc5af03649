package reach

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// A client that asks for a connection again and again is held up, but only where the
// last try has failed.
func TestRedial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries, down := 0, true
		dial := Config{Dial: func(context.Context, string, string) (net.Conn, error) {
			tries++
			if down {
				return nil, errors.New("refused")
			}
			return nil, nil
		}}.dialer()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		for ctx.Err() == nil {
			dial(ctx, "tcp", "a:1")
		}
		if tries < 5 || tries > 11 {
			t.Errorf("%d tries in a second", tries)
		}
		down = false
		began := time.Now()
		for range 3 {
			if _, err := dial(t.Context(), "tcp", "b:1"); err != nil {
				t.Error(err)
			}
		}
		if d := time.Since(began); d != 0 {
			t.Errorf("connections that can be made take %v", d)
		}
	})
}
