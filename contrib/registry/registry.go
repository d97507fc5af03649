// Package registry adds the codecs avro and protobuf to package codec, and has a
// client for schema registries. Import it for its side effect to use the codecs. It is
// a separate package because of the libraries that it needs.
//
// A Registry holds the schemas that records refer to. They come from a schema registry
// with the API of Confluent's, which Apicurio, Karapace and Redpanda also offer, or from
// stored copies.
//
// github.com/twmb/avro and google.golang.org/protobuf decode the records. That takes 2
// to 4 µs for an event of twelve fields (BenchmarkDecode), little compared with learning
// from it (BenchmarkTraining). Memory for a record is proportional to its length, but
// may exceed the 4 times that package codec guarantees for the other forms.
//
// The API is stable.
package registry

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/sr"

	"github.com/streamsvm/streamsvm/internal/atomicfile"
	"github.com/streamsvm/streamsvm/internal/remind"
	"github.com/streamsvm/streamsvm/stream/codec"
)

// Options are the sources of schemas.
type Options struct {
	// URLs of the registry; the others are tried if the first does not answer.
	// Without any, only stored schemas are available.
	URLs []string
	// User and Password, if User is not empty, authenticate to the registry.
	User, Password string
	// TLS, if not nil, is used for URLs that begin with https.
	TLS *tls.Config
	// Log receives messages about waiting; nil discards them.
	Log *slog.Logger
	// Waiting, if not nil, is called with true when the registry stops answering, and with
	// false when it answers again. Several goroutines may call it.
	Waiting func(bool)
}

// Validate returns an error if the options are invalid.
func (o *Options) Validate() error {
	for _, s := range o.URLs {
		u, err := url.Parse(s)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return fmt.Errorf("%q is not a URL such as http://registry:8081", s)
		}
	}
	if o.User != "" && len(o.URLs) == 0 {
		return errors.New("a user is given, but no registry")
	}
	return nil
}

// Registry holds schemas. It keeps every schema that it has fetched, since the schema of an
// id never changes. It implements codec.Schemas. Any number of goroutines may use it.
type Registry struct {
	o      Options
	client *sr.Client // nil if only stored schemas are available

	mu      sync.Mutex
	known   map[codec.SchemaID]*entry
	missing map[codec.SchemaID]time.Time // time of the negative answer
	file    string
}

// kept is the stored form of a schema.
type kept struct {
	ID         string `json:"id"`
	Type       string `json:"type"`
	Schema     string `json:"schema"`
	References []file `json:"references,omitempty"`
	SHA256     string `json:"sha256"`
}

// A file is a schema that others refer to by its name.
type file struct {
	Name   string `json:"name"`
	Schema string `json:"schema"`
}

type entry struct {
	kept
	schema *codec.WrittenSchema
	err    error // why it cannot be used
}

// New returns a registry. It sends no request yet.
func New(o Options) (*Registry, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	r := &Registry{o: o, known: map[codec.SchemaID]*entry{}, missing: map[codec.SchemaID]time.Time{}}
	if r.o.Log == nil {
		r.o.Log = slog.New(slog.DiscardHandler)
	}
	if len(o.URLs) == 0 {
		return r, nil
	}
	opts := []sr.ClientOpt{sr.URLs(o.URLs...), sr.UserAgent("streamsvm")}
	if o.TLS != nil {
		opts = append(opts, sr.DialTLSConfig(o.TLS))
	}
	if o.User != "" {
		opts = append(opts, sr.BasicAuth(o.User, o.Password))
	}
	var err error
	r.client, err = sr.NewClient(opts...)
	return r, err
}

// missingFor is how long a missing schema is not requested again.
const missingFor = time.Minute

// mostMissing bounds the number of missing schemas remembered.
const mostMissing = 10_000

var errUnknown = errors.New("the schema registry does not have it")

// Schema implements codec.Schemas.
func (r *Registry) Schema(ctx context.Context, id codec.SchemaID) (*codec.WrittenSchema, error) {
	r.mu.Lock()
	e, at := r.known[id], r.missing[id]
	r.mu.Unlock()
	switch {
	case e != nil && e.err != nil:
		return nil, &codec.SchemaError{ID: id, Err: e.err}
	case e != nil:
		return e.schema, nil
	case r.client == nil:
		return nil, &codec.SchemaError{ID: id, Err: codec.ErrNoSchemas}
	case !at.IsZero() && time.Since(at) < missingFor:
		return nil, &codec.SchemaError{ID: id, Err: errUnknown}
	}
	k, err := r.fetch(ctx, id)
	if _, ok := errors.AsType[*noSuch](err); ok {
		r.mu.Lock()
		if len(r.missing) >= mostMissing {
			clear(r.missing)
		}
		r.missing[id] = time.Now()
		r.mu.Unlock()
		return nil, &codec.SchemaError{ID: id, Err: err}
	}
	if err != nil {
		return nil, err
	}
	e = newEntry(*k)
	if err := r.add(id, e); err != nil {
		return nil, err
	}
	return r.Schema(ctx, id)
}

// newEntry converts a stored schema for the codecs.
func newEntry(k kept) *entry {
	e := &entry{kept: k, schema: &codec.WrittenSchema{Type: k.Type, Text: k.Schema}}
	if k.Type == codec.ProtobufSchema {
		e.schema.Descriptors, e.err = compile(k.Schema, k.References)
		return e
	}
	for _, f := range k.References {
		e.schema.References = append(e.schema.References, f.Schema)
	}
	return e
}

// add adds a schema, and stores it in the file.
func (r *Registry) add(id codec.SchemaID, e *entry) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.known[id] != nil {
		return nil
	}
	r.known[id] = e
	delete(r.missing, id)
	return r.write()
}

func (r *Registry) write() error {
	if r.file == "" || len(r.known) == 0 {
		return nil
	}
	if err := atomicfile.Write(r.file, []byte(r.text()+"\n")); err != nil {
		return fmt.Errorf("keeping schemas: %w", err)
	}
	return nil
}

// Known returns the schemas that have been requested, in the form that Restore reads: the
// same text for the same schemas; empty if there are none.
func (r *Registry) Known() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text()
}

func (r *Registry) text() string {
	if len(r.known) == 0 {
		return ""
	}
	ids := slices.SortedFunc(maps.Keys(r.known), func(a, b codec.SchemaID) int {
		if a.Number != b.Number {
			return int(int64(a.Number) - int64(b.Number))
		}
		return slices.Compare(a.GUID[:], b.GUID[:])
	})
	list := make([]kept, len(ids))
	for i, id := range ids {
		list[i] = r.known[id].kept
	}
	b, err := json.Marshal(list)
	if err != nil { // they are texts
		panic(err)
	}
	return string(b)
}

// Restore adds the schemas that Known has returned.
func (r *Registry) Restore(text string) error {
	if text == "" {
		return nil
	}
	var list []kept
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		return fmt.Errorf("schemas that have been kept: %w", err)
	}
	for _, k := range list {
		id, err := codec.ParseSchemaID(k.ID)
		if err != nil {
			return fmt.Errorf("schemas that have been kept: %w", err)
		}
		if k.SHA256 != k.sum() {
			return fmt.Errorf("schemas that have been kept: schema %s is corrupt: its checksum is another", k.ID)
		}
		r.mu.Lock()
		old := r.known[id]
		r.mu.Unlock()
		if old != nil && old.SHA256 != k.SHA256 {
			return fmt.Errorf("schema %s is not the one that it was: the records are of another registry", k.ID)
		}
		if err := r.add(id, newEntry(k)); err != nil {
			return err
		}
	}
	return nil
}

// KeepIn also stores the schemas in a file, which is written before the first record
// with a new schema can be read. It adds the schemas that the file already holds.
func (r *Registry) KeepIn(path string) error {
	if err := r.Load(path); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.file = path
	return r.write()
}

// Load adds the schemas in a file written by KeepIn, if it exists.
func (r *Registry) Load(path string) error {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = r.Restore(strings.TrimSpace(string(data)))
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// sum is the SHA-256 of a schema and the schemas that it refers to.
func (k *kept) sum() string {
	h := sha256.New()
	for _, s := range append([]file{{k.Type, k.Schema}}, k.References...) {
		fmt.Fprintf(h, "%d %s%d %s", len(s.Name), s.Name, len(s.Schema), s.Schema)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// noSuch says that the registry does not have a schema.
type noSuch struct{ err error }

func (e *noSuch) Error() string { return errUnknown.Error() + ": " + e.err.Error() }

func (e *noSuch) Unwrap() error { return e.err }

// Pauses between requests that are not answered.
const (
	shortestPause = 100 * time.Millisecond
	longestPause  = time.Second
)

// fetch requests a schema until the registry answers.
func (r *Registry) fetch(ctx context.Context, id codec.SchemaID) (*kept, error) {
	var again remind.Reminder
	again.Due(time.Now())
	waiting := false
	for pause := shortestPause; ; pause = min(2*pause, longestPause) {
		k, err := r.ask(ctx, id)
		if err = about(err); err == nil || errors.As(err, new(*noSuch)) || ctx.Err() != nil {
			if waiting {
				r.waiting(false)
			}
			if waiting && ctx.Err() == nil {
				r.o.Log.Info("the schema registry answers again", "schema", id.String())
			}
			if ctx.Err() != nil && err != nil {
				err = ctx.Err()
			}
			return k, err
		}
		if !waiting {
			waiting = true
			r.waiting(true)
		}
		if again.Due(time.Now()) {
			r.o.Log.Warn("waiting for the schema registry: records cannot be read without their schema", "schema", id.String(), "url", r.o.URLs[0], "err", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

func (r *Registry) waiting(yes bool) {
	if r.o.Waiting != nil {
		r.o.Waiting(yes)
	}
}

// about returns a *noSuch if the answer says that there is no such schema. A 404 from
// anything but a registry, such as a proxy in front of it, proves nothing.
func about(err error) error {
	var answer *sr.ResponseError
	if !errors.As(err, &answer) {
		return err
	}
	switch code := answer.ErrorCode; {
	case answer.StatusCode == 404 && code >= 40401 && code <= 40499, answer.StatusCode == 422:
		return &noSuch{err}
	}
	return fmt.Errorf("status %d: %w", answer.StatusCode, err)
}

// ask sends the request once.
func (r *Registry) ask(ctx context.Context, id codec.SchemaID) (*kept, error) {
	var s sr.Schema
	var err error
	if id.GUID == [16]byte{} {
		s, err = r.client.SchemaByID(ctx, int(id.Number))
	} else {
		var found sr.SubjectSchema
		found, err = r.client.SchemaByGUID(ctx, id.String())
		s = found.Schema
	}
	if err != nil {
		return nil, err
	}
	k := &kept{ID: id.String(), Type: s.Type.String(), Schema: s.Schema}
	if k.References, err = r.references(ctx, nil, s.References, 0); err != nil {
		return nil, err
	}
	k.SHA256 = k.sum()
	return k, nil
}

// mostReferences bounds the number of schemas that one refers to.
const mostReferences = 1000

// references appends the schemas in refs to list, each after the schemas that it
// refers to itself.
func (r *Registry) references(ctx context.Context, list []file, refs []sr.SchemaReference, depth int) ([]file, error) {
	for _, ref := range refs {
		if slices.ContainsFunc(list, func(f file) bool { return f.Name == ref.Name }) {
			continue
		}
		if depth > 32 || len(list) > mostReferences {
			return nil, &noSuch{errors.New("it refers to too many others")}
		}
		s, err := r.client.SchemaByVersion(ctx, ref.Subject, ref.Version)
		if err != nil {
			return nil, fmt.Errorf("%s, which it refers to: %w", ref.Name, err)
		}
		if list, err = r.references(ctx, list, s.References, depth+1); err != nil {
			return nil, err
		}
		list = append(list, file{ref.Name, s.Schema.Schema})
	}
	return list, nil
}

// Check sends one request to find out whether the registry answers.
func (r *Registry) Check(ctx context.Context) error {
	if r.client == nil {
		return nil
	}
	if err := r.client.Compatibility(ctx)[0].Err; err != nil {
		return fmt.Errorf("the schema registry at %s: %w", r.o.URLs[0], about(err))
	}
	return nil
}
