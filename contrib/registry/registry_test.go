package registry

import (
	"context"
	"encoding/base64"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/sr"
	"github.com/twmb/franz-go/pkg/sr/srfake"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/streamsvm/streamsvm/stream/codec"
)

const record = `{"type":"record","name":"R","fields":[{"name":"a","type":"int"}]}`

func registry(t *testing.T, o Options) *Registry {
	t.Helper()
	r, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func number(n int) codec.SchemaID { return codec.SchemaID{Number: uint32(n)} }

// TestRegistry gets schemas of each kind, once, and keeps them.
func TestRegistry(t *testing.T) {
	fake := srfake.New(srfake.WithAuth("Basic dTpw")) // u:p
	defer fake.Close()
	var asked atomic.Int64
	fake.Intercept(func(http.ResponseWriter, *http.Request) bool { asked.Add(1); return false })
	fake.SeedSchema("base", 1, 1, sr.Schema{Schema: `{"type":"enum","name":"E","namespace":"n","symbols":["A"]}`})
	fake.SeedSchema("a", 1, 2, sr.Schema{Schema: `{"type":"record","name":"R","fields":[{"name":"e","type":"n.E"}]}`,
		References: []sr.SchemaReference{{Name: "n.E", Subject: "base", Version: 1}}})
	fake.SeedSchema("inner.proto", 1, 3, sr.Schema{Schema: `syntax = "proto3"; message In { int32 a = 1; }`, Type: sr.TypeProtobuf})
	fake.SeedSchema("p", 1, 4, sr.Schema{Schema: `syntax = "proto3"; import "inner.proto"; import "confluent/meta.proto"; message Out { In in = 1 [(confluent.field_meta).doc = "x"]; }`,
		Type: sr.TypeProtobuf, References: []sr.SchemaReference{{Name: "inner.proto", Subject: "inner.proto", Version: 1}}})
	file, err := proto.Marshal(&descriptorpb.FileDescriptorProto{Name: new("x.proto"), Syntax: new("proto3"),
		MessageType: []*descriptorpb.DescriptorProto{{Name: new("Bare")}}})
	if err != nil {
		t.Fatal(err)
	}
	fake.SeedSchema("b", 1, 5, sr.Schema{Schema: base64.StdEncoding.EncodeToString(file), Type: sr.TypeProtobuf})
	fake.SeedSchema("broken", 1, 6, sr.Schema{Schema: `syntax = "proto3"; message {`, Type: sr.TypeProtobuf})

	path := filepath.Join(t.TempDir(), "kept")
	r := registry(t, Options{URLs: []string{fake.URL()}, User: "u", Password: "p"})
	if err := errors.Join(r.KeepIn(path), r.Check(t.Context())); err != nil {
		t.Fatal(err)
	}
	asked.Store(0)
	for range 3 {
		for id := 2; id <= 6; id++ {
			s, err := r.Schema(t.Context(), number(id))
			var bad *codec.SchemaError
			switch {
			case id == 6 && errors.As(err, &bad) && strings.Contains(err.Error(), "schema 6: "):
			case id == 6 || err != nil:
				t.Fatalf("schema %d: %v", id, err)
			case id == 2 && (s.Type != codec.AvroSchema || len(s.References) != 1):
				t.Errorf("schema %d: %+v", id, s)
			case id == 4 && !strings.Contains(string(s.Descriptors), "inner.proto"):
				t.Errorf("schema %d: %q", id, s.Descriptors)
			case id == 5 && !strings.Contains(string(s.Descriptors), "Bare"):
				t.Errorf("schema %d: %q", id, s.Descriptors)
			}
		}
	}
	if n := asked.Load(); n != 7 { // 5 schemas, 2 that they refer to
		t.Errorf("the registry was asked %d times", n)
	}

	// Nothing is asked by those who know already.
	other := registry(t, Options{})
	if err := other.Restore(r.Known()); err != nil {
		t.Fatal(err)
	}
	loaded := registry(t, Options{})
	if err := loaded.Load(path); err != nil {
		t.Fatal(err)
	}
	for _, o := range []*Registry{other, loaded} {
		if s, err := o.Schema(t.Context(), number(4)); err != nil || len(s.Descriptors) == 0 {
			t.Errorf("%v, %v", s, err)
		}
		if o.Known() != r.Known() {
			t.Errorf("known are\n%s\nwant\n%s", o.Known(), r.Known())
		}
		if _, err := o.Schema(t.Context(), number(99)); !errors.Is(err, codec.ErrNoSchemas) {
			t.Errorf("%v", err)
		}
	}
	for _, bad := range []string{
		strings.Replace(r.Known(), "confluent", "Confluent", 1), "[", `[{"id":"x"}]`,
	} {
		if err := registry(t, Options{}).Restore(bad); err == nil {
			t.Errorf("restored %s", bad)
		}
	}
	if err := os.WriteFile(path, []byte("{"), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := registry(t, Options{}).Load(path); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("%v", err)
	}
}

// TestAnotherRegistry refuses schemas that are not what they were.
func TestAnotherRegistry(t *testing.T) {
	var known [2]string
	for i, text := range []string{record, strings.Replace(record, "int", "long", 1)} {
		fake := srfake.New()
		defer fake.Close()
		fake.SeedSchema("a", 1, 1, sr.Schema{Schema: text})
		r := registry(t, Options{URLs: []string{fake.URL()}})
		if _, err := r.Schema(t.Context(), number(1)); err != nil {
			t.Fatal(err)
		}
		known[i] = r.Known()
	}
	r := registry(t, Options{})
	if err := r.Restore(known[0]); err != nil {
		t.Fatal(err)
	}
	if err := r.Restore(known[1]); err == nil || !strings.Contains(err.Error(), "schema 1 is not the one that it was") {
		t.Errorf("%v", err)
	}
}

// TestByGUID gets a schema by its GUID.
func TestByGUID(t *testing.T) {
	fake := srfake.New()
	defer fake.Close()
	fake.SeedSchema("a", 1, 1, sr.Schema{Schema: record})
	s, ok := fake.GetSchema("a", 1)
	if !ok {
		t.Fatal("no schema")
	}
	id, err := codec.ParseSchemaID(s.GUID)
	if err != nil || id.String() != s.GUID {
		t.Fatalf("%v, %v, want %s", id, err, s.GUID)
	}
	r := registry(t, Options{URLs: []string{fake.URL()}})
	if got, err := r.Schema(t.Context(), id); err != nil || got.Text != record {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestMissing asks for a schema that there is not once a minute.
func TestMissing(t *testing.T) {
	fake := srfake.New()
	defer fake.Close()
	var asked atomic.Int64
	fake.Intercept(func(http.ResponseWriter, *http.Request) bool { asked.Add(1); return false })
	r := registry(t, Options{URLs: []string{fake.URL()}})
	for range 100 {
		var bad *codec.SchemaError
		if _, err := r.Schema(t.Context(), number(7)); !errors.As(err, &bad) || !strings.Contains(err.Error(), "schema 7: the schema registry does not have it") {
			t.Fatal(err)
		}
	}
	if n := asked.Load(); n != 1 {
		t.Errorf("asked %d times", n)
	}
	fake.SeedSchema("a", 1, 7, sr.Schema{Schema: record})
	r.mu.Lock()
	r.missing[number(7)] = time.Now().Add(-missingFor)
	r.mu.Unlock()
	if _, err := r.Schema(t.Context(), number(7)); err != nil {
		t.Error(err)
	}
}

// TestFaults waits for a registry that does not answer, whatever it says instead.
func TestFaults(t *testing.T) {
	for _, tt := range []struct {
		name   string
		answer func(http.ResponseWriter, *http.Request)
	}{
		{"a failure", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", 500) }},
		{"too many requests", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusTooManyRequests) }},
		{"no entry", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusUnauthorized) }},
		{"a page of a proxy that does not know the path", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "<html>", 404) }},
		{"not JSON", func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("<html>")) }},
		{"a connection cut off", func(w http.ResponseWriter, _ *http.Request) {
			c, _, _ := w.(http.Hijacker).Hijack()
			c.Close()
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			fake := srfake.New()
			defer fake.Close()
			fake.SeedSchema("a", 1, 1, sr.Schema{Schema: record})
			var faults, waits, goes atomic.Int64
			fake.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
				if faults.Add(1) <= 3 {
					tt.answer(w, r)
					return true
				}
				return false
			})
			r := registry(t, Options{URLs: []string{fake.URL()}, Waiting: func(yes bool) {
				if yes {
					waits.Add(1)
				} else {
					goes.Add(1)
				}
			}})
			if _, err := r.Schema(t.Context(), number(1)); err != nil || faults.Load() != 4 || waits.Load() != 1 || goes.Load() != 1 {
				t.Errorf("%v after %d answers; %d, %d", err, faults.Load(), waits.Load(), goes.Load())
			}
		})
	}
}

// TestStopped ends a wait with the context, and says meanwhile what is waited for.
func TestStopped(t *testing.T) {
	var log strings.Builder
	r := registry(t, Options{URLs: []string{"http://127.0.0.1:1"}, Log: slog.New(slog.NewTextHandler(&log, nil))})
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	if _, err := r.Schema(ctx, number(1)); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	if s := log.String(); !strings.Contains(s, "waiting for the schema registry") || !strings.Contains(s, "connection refused") {
		t.Errorf("log: %s", s)
	}
	if err := r.Check(t.Context()); err == nil || !strings.Contains(err.Error(), "http://127.0.0.1:1") {
		t.Error(err)
	}
}

func TestOptions(t *testing.T) {
	for _, o := range []Options{{URLs: []string{"registry:8081"}}, {URLs: []string{"ftp://x"}}, {User: "u"}} {
		if _, err := New(o); err == nil {
			t.Errorf("%+v is accepted", o)
		}
	}
}

// FuzzSchemas compiles what a registry may say, and reads what may have been
// kept.
func FuzzSchemas(f *testing.F) {
	f.Add(`syntax = "proto3"; message R { map<string, int32> a = 1; oneof b { string c = 2; } enum E { X = 0; } }`, `syntax = "proto2"; import "registered.proto";`)
	f.Add(`syntax = "proto3"; import "in"; message R { R r = 1; In i = 2; }`, `syntax = "proto3"; message In {}`)
	f.Add("CgF4", "")
	f.Fuzz(func(t *testing.T, text, ref string) {
		if len(text)+len(ref) > 4096 {
			return
		}
		e := newEntry(kept{Type: codec.ProtobufSchema, Schema: text, References: []file{{"in", ref}}})
		if (e.err == nil) == (e.schema.Descriptors == nil) {
			t.Fatalf("%v, %d bytes", e.err, len(e.schema.Descriptors))
		}
		if r, err := New(Options{}); err != nil || r.Restore(text) == nil && text != "" && r.Known() == "" && strings.TrimSpace(text) != "[]" && strings.TrimSpace(text) != "null" {
			t.Fatalf("%v", err)
		}
		if e.err == nil {
			c, err := codec.NewDiscovery("protobuf", codec.Options{Events: codec.Auto, Schemas: one{e.schema}})
			if err != nil {
				t.Fatal(err)
			}
			c.Look([]byte("\x00\x00\x00\x00\x01\x00"))
		}
	})
}

type one struct{ s *codec.WrittenSchema }

func (o one) Schema(context.Context, codec.SchemaID) (*codec.WrittenSchema, error) { return o.s, nil }
