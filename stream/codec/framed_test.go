package codec

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"testing"

	"github.com/streamsvm/streamsvm/stream"
)

const eventsOf = `{"label":"y","id":"id","weight":"w","fields":[
 {"name":"a","type":"numeric","means":[0],"gaps":[true]},
 {"name":"b.c","type":"numeric","means":[0],"gaps":[true]},
 {"name":"d","type":"categorical","categories":["p","q"],"gaps":[true]}]}`

// framed returns data behind a frame.
func framed(id uint32, data []byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{0}, id), data...)
}

// TestFramedJSON reads vectors and events behind a frame, whatever its id.
func TestFramedJSON(t *testing.T) {
	for _, tt := range []struct{ schema, value string }{{"", `{"x":[3],"y":1}`}, {eventsOf, `{"a":3,"y":1}`}} {
		c := must(t, "json", Options{Schema: tt.schema})
		var ex stream.Example
		if err := c.Decode(framed(4711, []byte(tt.value)), &ex); err != nil || ex.X.Val[0] != 3 || ex.Y != 1 {
			t.Errorf("%s: %+v, %v", tt.value, ex, err)
		}
	}
	d, err := NewDiscovery("json", Options{Labels: Auto, Events: Auto})
	if err != nil {
		t.Fatal(err)
	}
	value := func(i int) []byte { return framed(uint32(i), fmt.Appendf(nil, `{"x":[%d],"y":%d}`, i, 1-2*(i%2))) }
	for i := range 20 {
		d.Look(value(i))
	}
	o, err := d.Decide()
	if err != nil || o.Schema != "" || must(t, "json", o).Decode(value(0), new(stream.Example)) != nil {
		t.Errorf("framed vectors are taken for %+v, %v", o, err)
	}
}

// TestEightBytes: what looks at eight bytes at a time finds what a loop does.
func TestEightBytes(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 0))
	for range 100_000 {
		b := make([]byte, r.IntN(20))
		for i := range b {
			b[i] = byte(32 + r.IntN(95))
			if r.IntN(12) == 0 {
				b[i] = byte(r.Uint32())
			}
		}
		if len(b) < 8 {
			continue
		}
		want := 8
		for i, c := range b[:8] {
			if c == '"' || c == '\\' || c < ' ' {
				want = i
				break
			}
		}
		if got := bits.TrailingZeros64(stops(binary.LittleEndian.Uint64(b))) / 8; got != want {
			t.Fatalf("%q stops at %d, want %d", b[:8], got, want)
		}
	}
}

// TestNotRegistered: a program without package contrib/registry says so.
func TestNotRegistered(t *testing.T) {
	for _, name := range []string{"avro", "protobuf"} {
		if _, err := New(name, Options{}); !errors.Is(err, ErrNotRegistered) || !Schematic(name) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := NewDiscovery(name, Options{Labels: Auto, Events: Auto}); !errors.Is(err, ErrNotRegistered) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := New("morse", Options{}); err == nil || errors.Is(err, ErrNotRegistered) || Schematic("morse") {
		t.Error(err)
	}
}
