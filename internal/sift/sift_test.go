package sift

import (
	"strings"
	"testing"

	"github.com/streamsvm/streamsvm/stream"
)

func TestHeader(t *testing.T) {
	h := Header{P: 0.05, Decision: -1.7305, Version: 12, Epoch: 3}
	const text = "1 p=0.05 f=-1.7305 v=12 e=3"
	if got := string(h.Append(nil)); got != text {
		t.Errorf("%q, want %q", got, text)
	}
	if got, err := ParseHeader([]byte(text)); err != nil || got != h {
		t.Errorf("%+v, %v", got, err)
	}
	for _, bad := range []struct{ text, says string }{
		{"", "format"}, {"2 p=1 f=0 v=1 e=1", "format"}, {"1 p=1 f=0 v=1", "words"}, {"1 p=1 f=0 v=1 e=1 g=2", "words"},
		{"1 f=0 p=1 v=1 e=1", "want p="}, {"1 p=0 f=0 v=1 e=1", "p is"}, {"1 p=1.5 f=0 v=1 e=1", "p is"}, {"1 p=NaN f=0 v=1 e=1", "p is"},
		{"1 p=-0.5 f=0 v=1 e=1", "p is"}, {"1 p=1e-9 f=0 v=1 e=1", "least"}, {"1 p=x f=0 v=1 e=1", "p is"}, {"1 p=1 f=Inf v=1 e=1", "f is"},
		{"1 p=1 f=0 v=-1 e=1", "v is"}, {"1 p=1 f=0 v=1 e=x", "e is"},
	} {
		if h, err := ParseHeader([]byte(bad.text)); err == nil || !strings.Contains(err.Error(), bad.says) || h != (Header{}) {
			t.Errorf("%q: %+v, %v", bad.text, h, err)
		}
	}
}

func TestSource(t *testing.T) {
	s := Source{stream.Partition{Topic: "examples", ID: 3}, 123456}
	const text = "examples/3:123456"
	if got := string(s.Append(nil)); got != text {
		t.Errorf("%q, want %q", got, text)
	}
	if got, err := ParseSource([]byte(text)); err != nil || got != s {
		t.Errorf("%+v, %v", got, err)
	}
	for _, bad := range []string{"", "examples", ":", "/", "/3:4", "examples/3", "examples:4", "examples/-1:4", "examples/3:-4", "examples/3:x", "examples/x:4",
		"examples/3:9223372036854775807", "examples/2147483648:1"} {
		if s, err := ParseSource([]byte(bad)); err == nil {
			t.Errorf("%q: %+v", bad, s)
		}
	}
}

func TestOf(t *testing.T) {
	r := &stream.Record{Headers: []stream.Header{{Key: "other", Value: []byte("x")}}}
	if _, ok, err := Of(r); ok || err != nil {
		t.Error("a header where there is none")
	}
	r.Headers = append(r.Headers, stream.Header{Key: HeaderKey, Value: []byte("1 p=0.5 f=2 v=1 e=1")})
	if h, ok, err := Of(r); !ok || err != nil || h.P != 0.5 {
		t.Error(h, ok, err)
	}
	r.Headers = append(r.Headers, r.Headers[1])
	if _, ok, err := Of(r); !ok || err == nil {
		t.Error("two headers pass")
	}
}

func FuzzHeader(f *testing.F) {
	f.Add([]byte("1 p=0.05 f=-1.7305 v=12 e=3"))
	f.Add([]byte("examples/3:123456"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if h, err := ParseHeader(text); err == nil {
			if again, err := ParseHeader(h.Append(nil)); err != nil || again != h {
				t.Errorf("%+v is read as %+v, %v", h, again, err)
			}
			if !(h.P >= LeastP && h.P <= 1) {
				t.Errorf("p %g", h.P)
			}
		}
		if s, err := ParseSource(text); err == nil {
			if again, err := ParseSource(s.Append(nil)); err != nil || again != s {
				t.Errorf("%+v is read as %+v, %v", s, again, err)
			}
		}
	})
}

// TestDraw pins draws: workers of all versions must decide alike.
func TestDraw(t *testing.T) {
	for _, c := range []struct {
		at   Source
		seed uint64
		want float64
	}{
		{Source{stream.Partition{Topic: "examples", ID: 3}, 123456}, 1, 0.2253299082721576},
		{Source{stream.Partition{Topic: "examples", ID: 3}, 123457}, 1, 0.3067250898061279},
		{Source{stream.Partition{Topic: "examples", ID: 3}, 123456}, 2, 0.2955035278095912},
	} {
		if got := draw(c.at, c.seed); got != c.want {
			t.Errorf("%+v, seed %d: %v, want %v", c.at, c.seed, got, c.want)
		}
	}
}
