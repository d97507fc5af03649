package synth_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"testing"

	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/codec"
	"github.com/streamsvm/streamsvm/stream/synth"
)

func generator(tb testing.TB, name string) *synth.Generator {
	tb.Helper()
	g, err := synth.New(name, 1, nil)
	if err != nil {
		tb.Fatal(err)
	}
	return g
}

func source(tb testing.TB, name string, o synth.SourceOptions) (*synth.Source, codec.Codec) {
	tb.Helper()
	c, err := codec.New("msgpack", codec.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	s, err := synth.NewSource(generator(tb, name), c, o)
	if err != nil {
		tb.Fatal(err)
	}
	return s, c
}

func drain(tb testing.TB, s stream.Source) []stream.Record {
	tb.Helper()
	var recs []stream.Record
	for {
		var err error
		recs, err = s.Fetch(tb.Context(), recs)
		if err == io.EOF {
			return recs
		}
		if err != nil {
			tb.Fatal(err)
		}
	}
}

// TestSource starts at every position of a small stream in three partitions
// and compares with the generator itself.
func TestSource(t *testing.T) {
	const limit, parts = 700, 3
	want := make([]stream.Example, limit)
	g := generator(t, "hyperplane")
	for k := range want {
		g.Next(&want[k])
		want[k].Seq = 0
	}
	start := stream.Offsets{}
	for done := 0; done <= limit; done++ {
		if done%50 == 0 || done > limit-5 || done < 5 {
			s, c := source(t, "hyperplane", synth.SourceOptions{Topic: "t", Partitions: parts, Start: start.Clone(), Limit: limit})
			recs := drain(t, s)
			if len(recs) != limit-done || s.Skipped() != uint64(done) {
				t.Fatalf("after %d: %d records, %d skipped", done, len(recs), s.Skipped())
			}
			for k := range recs {
				i := done + k
				if r := recs[k]; r.Topic != "t" || int(r.Partition) != i%parts || r.Offset != int64(i/parts) {
					t.Fatalf("after %d: record %d is %s/%d offset %d", done, k, r.Topic, r.Partition, r.Offset)
				}
				var ex stream.Example
				if err := c.Decode(recs[k].Value, &ex); err != nil {
					t.Fatal(err)
				}
				if !reflect.DeepEqual(ex, want[i]) {
					t.Fatalf("after %d: record %d is %+v, want %+v", done, k, ex, want[i])
				}
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
		p := stream.Partition{Topic: "t", ID: int32(done % parts)}
		start[p] = int64(done/parts) + 1
	}
}

func TestSourceErrors(t *testing.T) {
	s, c := source(t, "moons", synth.SourceOptions{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Fetch(ctx, nil); err != context.Canceled {
		t.Errorf("a cancelled Fetch: %v", err)
	}
	recs, err := s.Fetch(t.Context(), nil)
	if err != nil || len(recs) == 0 || recs[0].Offset != 0 || recs[0].Topic != "moons" {
		t.Errorf("after a cancelled Fetch: %d records, %v", len(recs), err)
	}
	s.Close()
	if _, err := s.Fetch(t.Context(), nil); err == nil || err == io.EOF {
		t.Errorf("a closed source: %v", err)
	}
	g := generator(t, "moons")
	if _, err := synth.NewSource(g, c, synth.SourceOptions{Partitions: -1}); err == nil {
		t.Error("-1 partitions")
	}
	g.Skip(1)
	if _, err := synth.NewSource(g, c, synth.SourceOptions{}); err == nil {
		t.Error("a generator in the middle")
	}
	small, err := codec.New("msgpack", codec.Options{MaxFeatures: 1})
	if err != nil {
		t.Fatal(err)
	}
	s, err = synth.NewSource(generator(t, "moons"), small, synth.SourceOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var fe *stream.FieldError
	if _, err := s.Fetch(t.Context(), nil); !errors.As(err, &fe) {
		t.Errorf("an encoder's error: %v", err)
	}
}

func ExampleNew() {
	g, err := synth.New("sea", 1, map[string]string{"noise": "0", "block": "1000"})
	if err != nil {
		fmt.Println(err)
		return
	}
	var ex stream.Example
	for range 3 {
		g.Next(&ex)
		fmt.Println(ex.Seq, ex.X.Val, ex.Y)
	}
	// Output:
	// 1 [3.5721724 6.9657264 4.6115956] -1
	// 2 [3.2566195 3.3552067 1.2251905] 1
	// 3 [8.250746 4.3558273 8.3413] -1
}

func BenchmarkNext(b *testing.B) {
	var names []string
	for _, info := range synth.List() {
		names = append(names, info.Name)
	}
	slices.Sort(names)
	for _, name := range names {
		b.Run(name, func(b *testing.B) {
			g := generator(b, name)
			b.ReportAllocs()
			var ex stream.Example
			for b.Loop() {
				g.Next(&ex)
			}
		})
	}
}
