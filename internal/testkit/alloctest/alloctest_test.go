package alloctest

import (
	"fmt"
	"testing"
)

// failure is a test that remembers whether it has failed.
type failure struct {
	testing.TB
	text string
}

func (f *failure) Helper() {}

func (f *failure) Fatalf(format string, args ...any) { f.text = fmt.Sprintf(format, args...) }

var sink []byte

func TestCheck(t *testing.T) {
	if !Exact {
		t.Skip("the race detector allocates too: Check bounds nothing")
	}
	for _, c := range []struct {
		size, allocated int
		fails           bool
	}{{0, 60 << 10, false}, {0, 80 << 10, true}, {1 << 20, 4 << 20, false}, {1 << 20, 5 << 20, true}} {
		f := &failure{TB: t}
		Check(f, c.size, func() { sink = make([]byte, c.allocated) })
		if (f.text != "") != c.fails {
			t.Errorf("%d bytes for %d: %q", c.allocated, c.size, f.text)
		}
	}
}
