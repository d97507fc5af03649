package docs

import (
	"bytes"
	"context"
	"encoding/hex"
	"flag"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/algos/registry"
	"github.com/streamsvm/streamsvm/checkpoint"
	_ "github.com/streamsvm/streamsvm/contrib/scale/lssvm"
	"github.com/streamsvm/streamsvm/contrib/statetopic"
	"github.com/streamsvm/streamsvm/internal/delta"
	"github.com/streamsvm/streamsvm/internal/pipeline"
	"github.com/streamsvm/streamsvm/internal/testkit/kafkatest"
	"github.com/streamsvm/streamsvm/predictor"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/codec"
	"github.com/streamsvm/streamsvm/stream/fileio"
	"github.com/streamsvm/streamsvm/stream/kafkaio"
)

var update = flag.Bool("update", false, "write the bytes of today's formats into the pages")

// dumps returns the bytes of the blocks marked hexdump on a page of
// docs/formats, and the text of the blocks.
func dumps(t *testing.T, page string) (data [][]byte, text []string) {
	t.Helper()
	doc, err := os.ReadFile(filepath.Join("formats", page))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(doc), "```hexdump\n")
	for ok {
		block, after, closed := strings.Cut(rest, "```\n")
		if !closed {
			t.Fatalf("%s: a block does not end", page)
		}
		var b []byte
		for line := range strings.Lines(block) {
			line, _, _ = strings.Cut(line, "|")
			for _, s := range strings.Fields(line)[1:] {
				v, err := hex.DecodeString(s)
				if err != nil {
					t.Fatalf("%s: %q: %v", page, line, err)
				}
				b = append(b, v...)
			}
		}
		data, text = append(data, b), append(text, block)
		_, rest, ok = strings.Cut(after, "```hexdump\n")
	}
	return data, text
}

// same compares the n-th dump of a page with what is written today.
func same(t *testing.T, page string, n int, want []byte) {
	t.Helper()
	data, text := dumps(t, page)
	if n >= len(data) {
		t.Fatalf("%s has %d dumps", page, len(data))
	}
	if bytes.Equal(data[n], want) {
		return
	}
	if !*update {
		t.Fatalf("%s shows other bytes than are written today (go test ./docs -update):\n%s", page, hex.Dump(want))
	}
	path := filepath.Join("formats", page)
	doc, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	doc = bytes.Replace(doc, []byte("```hexdump\n"+text[n]), []byte("```hexdump\n"+hex.Dump(want)), 1)
	if err := os.WriteFile(path, doc, 0o644); err != nil {
		t.Fatal(err)
	}
}

// The bytes on the pages about files are those that the program writes.
func TestFiles(t *testing.T) {
	ctx, dir := context.Background(), t.TempDir()
	now := time.Date(2026, 1, 2, 3, 4, 5, 6e6, time.UTC)

	store, err := checkpoint.Open(dir, checkpoint.Options{Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Claim(ctx); err != nil {
		t.Fatal(err)
	}
	path, err := store.Save(ctx, &checkpoint.Snapshot{
		Header: checkpoint.Header{
			StreamSVM: "v1.0.0", Learner: "ridge", Examples: 3, StateHash: xxhash.Sum64String("abcdefg"), ModelVersion: 1,
			Offsets: stream.Offsets{{Topic: "t", ID: 0}: 3},
			Meta:    [][2]string{{"consumed", "3"}},
		},
		Sections: []checkpoint.Section{{Name: "engine.3", Data: []byte("abc")}, {Name: "learner", Data: []byte("defg")}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if want := "checkpoint-0000000001-000000000001.ssc"; filepath.Base(path) != want {
		t.Errorf("the file is called %s, the page says %s", filepath.Base(path), want)
	}
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "checkpoint.md", 0, file)

	path = filepath.Join(dir, "r.ssr")
	w, err := fileio.CreateRecording(path)
	if err != nil {
		t.Fatal(err)
	}
	rec := stream.Record{
		Topic: "t", Partition: 1, Offset: 7, Time: now, Key: []byte("k"), Value: []byte(`{"x":[1],"y":1}`),
		Headers: []stream.Header{{Key: "h", Value: []byte("v")}},
	}
	if err := w.Write(&rec); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(true); err != nil {
		t.Fatal(err)
	}
	if file, err = os.ReadFile(path); err != nil {
		t.Fatal(err)
	}
	same(t, "recording.md", 0, file)

	base := []byte("0123456789 the quick brown fox jumps over the lazy dog")
	next := []byte("0123456789! the quick brown fox jumps over the lazy cat")
	same(t, "delta.md", 0, delta.Diff(base, next))
	if got, err := delta.Patch(base, delta.Diff(base, next)); err != nil || !bytes.Equal(got, next) {
		t.Errorf("%q, %v", got, err)
	}
}

// The head of a snapshot on the page about state topics is what the program writes.
func TestStateTopic(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 6e6, time.UTC)
	brokers := []string{kafkatest.Embedded(t).Addr()}
	store, err := statetopic.Open(t.Context(), statetopic.Options{
		Config: kafkaio.Config{Brokers: brokers, Log: slog.New(slog.DiscardHandler)}, Topic: "state", Name: "clicks", Now: func() time.Time { return now },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if _, err := store.Claim(t.Context()); err != nil {
		t.Fatal(err)
	}
	place, err := store.Save(t.Context(), &checkpoint.Snapshot{Header: checkpoint.Header{Learner: "ridge", Examples: 3}, Sections: []checkpoint.Section{{Name: "learner", Data: []byte("defg")}}})
	if err != nil {
		t.Fatal(err)
	}
	if place != "kafka://state/clicks/0" {
		t.Errorf("stored at %s", place)
	}
	var keys []string
	for _, r := range kafkatest.ReadAll(t, brokers, "state") {
		keys = append(keys, string(r.Key))
		if string(r.Key) == "clicks/head/0" {
			same(t, "state-topic.md", 0, r.Value)
		}
	}
	if want := []string{"clicks/claim", "clicks/c/0/0", "clicks/head/0"}; !reflect.DeepEqual(keys, want) {
		t.Errorf("keys %q, want %q", keys, want)
	}
}

// The models on the pages are read, decide as the pages say, and are written
// with the same bytes.
func TestModels(t *testing.T) {
	x := stream.Vec{Val: []float32{0.5, 2}}
	data, _ := dumps(t, "predictor.md")
	pipe, err := pipeline.Decode(data[0])
	if err != nil {
		t.Fatal(err)
	}
	m := pipe.Model
	packed, err := m.(interface{ Pack() algos.Model }).Pack().AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "models.md", 0, packed)
	data, _ = dumps(t, "models.md")
	if len(data) != 2 {
		t.Fatalf("models.md has %d dumps", len(data))
	}
	for i, want := range []struct {
		learner  string
		decision float64
	}{
		{pipe.Learner, 2 - 0.5*(math.Exp(-0.5*9.25)+1)},
		{"ridge", 2.5},
	} {
		spec, err := registry.Lookup(want.learner)
		if err != nil {
			t.Fatal(err)
		}
		m, err := spec.DecodeModel(data[i])
		if err != nil {
			t.Errorf("dump %d: %v", i, err)
			continue
		}
		if got := m.Decision(x); math.Abs(got-want.decision) > 1e-4 {
			t.Errorf("dump %d: f(x) = %g, want %g", i, got, want.decision)
		}
		again, err := m.AppendBinary(nil)
		if err != nil || !bytes.Equal(again, data[i]) {
			t.Errorf("dump %d: written as\n%s%v", i, hex.Dump(again), err)
		}
	}

	if got := m.Decision(x); math.Abs(got-1.4951) > 1e-4 {
		t.Errorf("f(x) = %g", got)
	}
	pipe.Signature = codec.Signature{Codec: "json", Labels: "0,1", MaxFeatures: codec.DefaultMaxFeatures, Dim: 2, Index: 2}
	again, err := pipe.AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "predictor.md", 0, again)
	p, err := predictor.Decode(again)
	if err != nil {
		t.Fatal(err)
	}
	if s := p.Signature(); !reflect.DeepEqual(s, pipe.Signature) {
		t.Errorf("signature %+v", s)
	}
	if got, want := p.Options(), (map[string]string{"gamma": "0.5"}); !reflect.DeepEqual(got, want) {
		t.Errorf("options %v, want %v", got, want)
	}
	if got := p.Predict(x); got != 1 {
		t.Errorf("f(x) = %g", got)
	}
}
