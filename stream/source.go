package stream

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Header is one header of a Record.
type Header struct {
	Key   string
	Value []byte
}

// Record is one message as the queue holds it, or one line of a file.
type Record struct {
	// Topic is the topic, or the base name of the file.
	Topic     string
	Partition int32
	// Offset is the record's position in its partition; in a file, the number
	// of the record, counted from 0.
	Offset  int64
	Time    time.Time // millisecond precision, UTC; zero if unknown
	Key     []byte    // nil if absent
	Value   []byte    // nil for a tombstone
	Headers []Header
}

// Partition names one partition of one topic.
type Partition struct {
	Topic string
	ID    int32
}

// String returns "topic/partition".
func (p Partition) String() string { return fmt.Sprintf("%s/%d", p.Topic, p.ID) }

// Compare orders partitions by topic, then number.
func (p Partition) Compare(q Partition) int {
	return cmp.Or(cmp.Compare(p.Topic, q.Topic), cmp.Compare(p.ID, q.ID))
}

// Offsets holds, for every partition, the offset of the NEXT record to read.
type Offsets map[Partition]int64

// Clone returns an independent copy.
func (o Offsets) Clone() Offsets {
	c := make(Offsets, len(o))
	maps.Copy(c, o)
	return c
}

// Partitions returns the partitions in order of Compare: the order in which
// offsets are written wherever bytes matter.
func (o Offsets) Partitions() []Partition {
	ps := make([]Partition, 0, len(o))
	for p := range o {
		ps = append(ps, p)
	}
	slices.SortFunc(ps, Partition.Compare)
	return ps
}

// A Source delivers the records of a stream in consumption order.
//
// The start position is given to the source's constructor, as the Offsets of a
// checkpoint. A source is used by one goroutine at a time.
type Source interface {
	// Fetch appends at least one record to dst and returns the extended slice,
	// blocking until there is one. The bytes of the records belong to the caller:
	// no later call changes them.
	//
	// It returns io.EOF and dst unchanged after the last record of a bounded
	// stream, ctx.Err() when ctx ends, and any other error if the source cannot
	// continue. Errors name topic, partition and offset if known.
	Fetch(ctx context.Context, dst []Record) ([]Record, error)
	// Close releases the source's resources.
	Close() error
}

// Lagger is implemented by sources that know how many records they are behind the
// end of each partition. Lag may be called from any goroutine.
type Lagger interface {
	Lag() map[Partition]int64
}

// Committer is implemented by sources that can publish the consumer's position for
// lag displays. Restarts ignore it; they use the positions in the checkpoint.
type Committer interface {
	Commit(ctx context.Context, o Offsets) error
}

// Skipper is implemented by sources that count records that were read but not
// delivered, because they lie before the start position.
type Skipper interface {
	Skipped() uint64
}

// Stage is the processing step that refused a record.
type Stage string

// The stages, a closed set, in processing order.
const (
	StageDecode  Stage = "decode"  // the value is not what the codec expects
	StageLabel   Stage = "label"   // the label is not one of those configured
	StageFeature Stage = "feature" // a feature is NaN, infinite, or out of dimension
	StageWeight  Stage = "weight"  // a header with the weight is invalid
	StageLearn   Stage = "learn"   // the learner refused the example
)

// Reason categorises the fault of a record, for counting. The errors have texts for
// people.
type Reason string

// The reasons, a closed set.
const (
	ReasonOther     Reason = "other"      // none of the others
	ReasonEmpty     Reason = "empty"      // no value, or an empty field
	ReasonTooLarge  Reason = "too_large"  // more bytes than allowed
	ReasonSyntax    Reason = "syntax"     // the format does not allow this here
	ReasonType      Reason = "type"       // a value has the wrong type
	ReasonMissing   Reason = "missing"    // the features, the label or the key are absent
	ReasonDuplicate Reason = "duplicate"  // a key or feature occurs twice
	ReasonOrder     Reason = "order"      // indices do not increase
	ReasonIndex     Reason = "index"      // not a valid index
	ReasonLimit     Reason = "limit"      // more features, or a larger index, than allowed
	ReasonDimension Reason = "dimension"  // not the expected number of features
	ReasonNotFinite Reason = "not_finite" // NaN, infinite, or too large to be finite
	ReasonLabel     Reason = "label"      // a number that is not a label
	ReasonSchema    Reason = "schema"     // the schema that the record was written with is unavailable or unusable
)

// Reasons returns the closed set of reasons.
func Reasons() []Reason {
	return []Reason{ReasonOther, ReasonEmpty, ReasonTooLarge, ReasonSyntax, ReasonType, ReasonMissing, ReasonDuplicate,
		ReasonOrder, ReasonIndex, ReasonLimit, ReasonDimension, ReasonNotFinite, ReasonLabel, ReasonSchema}
}

// Known returns r, or ReasonOther if r is not in the closed set.
func (r Reason) Known() Reason {
	if slices.Contains(Reasons(), r) {
		return r
	}
	return ReasonOther
}

// RecordError says why a record could not be used. The stream continues after it.
type RecordError struct {
	Topic     string
	Partition int32
	Offset    int64
	Stage     Stage
	Reason    Reason
	Field     string // e.g. "x[3]", "y", "feature 17"; empty if there is none
	Err       error
}

func (e *RecordError) Error() string {
	field := ""
	if e.Field != "" {
		field = ", " + e.Field
	}
	return fmt.Sprintf("%s/%d offset %d: %s%s: %v", e.Topic, e.Partition, e.Offset, e.Stage, field, e.Err)
}

func (e *RecordError) Unwrap() error { return e.Err }

// FieldError is the error of a decoder: stage, field and reason. The caller, who
// knows the record, turns it into a RecordError.
type FieldError struct {
	Stage  Stage
	Reason Reason
	Field  string
	Err    error
}

func (e *FieldError) Error() string {
	if e.Field == "" {
		return fmt.Sprintf("%s: %v", e.Stage, e.Err)
	}
	return fmt.Sprintf("%s, %s: %v", e.Stage, e.Field, e.Err)
}

func (e *FieldError) Unwrap() error { return e.Err }

// At returns the RecordError for err, which a decoder returned for rec.
func At(rec *Record, err error) *RecordError {
	re := &RecordError{Topic: rec.Topic, Partition: rec.Partition, Offset: rec.Offset, Stage: StageDecode, Err: err}
	if fe, ok := err.(*FieldError); ok {
		re.Stage, re.Reason, re.Field, re.Err = fe.Stage, fe.Reason, fe.Field, fe.Err
	}
	return re
}

// A Decoder turns a record's value into an example. It sets X, Y, Labelled and ID;
// their memory is new (or the value's own), and the decoder never reuses it. Its
// errors are *FieldError. It never panics, whatever the value, and allocates at
// most a small multiple of the value's length.
type Decoder interface {
	Decode(value []byte, ex *Example) error
}

// RecordDecoder is implemented by decoders that use record headers, or that may
// have to wait for something that a record refers to, such as a schema.
type RecordDecoder interface {
	Decoder
	// DecodeRecord is DecodeIn for a record; see ArenaDecoder. It may block until
	// ctx ends. An error other than a *FieldError is not the record's fault: the
	// record may be good.
	DecodeRecord(ctx context.Context, a *Arena, r *Record, ex *Example) error
}

// DecodeRecord decodes a record with what d supports: headers, memory from a (which
// may be nil), or just the value.
func DecodeRecord(ctx context.Context, d Decoder, a *Arena, r *Record, ex *Example) error {
	switch d := d.(type) {
	case RecordDecoder:
		return d.DecodeRecord(ctx, a, r, ex)
	case ArenaDecoder:
		return d.DecodeIn(a, r.Value, ex)
	}
	return d.Decode(r.Value, ex)
}

// An Encoder appends the wire form of an example to dst.
type Encoder interface {
	Append(dst []byte, ex *Example) ([]byte, error)
}
