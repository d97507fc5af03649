// Package codec turns the values of records into examples and back.
//
// Six wire forms are known by name:
//
//	libsvm   +1 3:0.5 7:1.25            label, then 1-based increasing indices
//	json     {"x":[0.5,1.25],"y":1}     or sparse {"x":{"3":0.5},"y":-1}
//	msgpack  the same map; dense x as array of numbers or as bin of
//	         little-endian float32, sparse x as {"i":bin,"v":bin}
//	csv      0.5,1.25,1                 one column may hold the label
//	avro     binary events, with a reference to a schema in a registry, or with
//	protobuf one given schema for all
//
// The last two need large libraries. They exist only in programs that import package
// contrib/registry, which registers them.
//
// Feature indices are 1-based in the text forms libsvm and json (sparse), as
// LIBSVM's users write them, and 0-based in msgpack, as programs hold them;
// feature 3 of a libsvm line is Idx 2 of a stream.Vec. Dense forms need no
// index: the first value is feature 0 of the vector.
//
// All decoders guarantee:
//
//   - A value is decoded whole or refused with a *stream.FieldError that names
//     the stage (decode, label or feature), the field where there is one, and
//     the reason. The example is changed only when the value was accepted.
//   - NaN and infinite features are refused, and so are values that overflow a
//     float32; subnormal numbers and −0 are kept as they are. Text becomes the
//     nearest float32, as strconv.ParseFloat(s, 32) rounds it.
//   - The example shares no memory with the value.
//   - No value makes a decoder panic, recurse without bound or allocate more
//     than 4 times the value's length plus 64 KiB (Avro and Protobuf: more, but in
//     proportion to it).
//   - A decoder holds no state: one decoder serves any number of goroutines.
//   - DecodeIn allocates nothing that fits in the arena, except for an ID.
//
// The API is stable.
package codec

import (
	"errors"
	"fmt"
	"math"
	"path"
	"strconv"
	"strings"

	"github.com/streamsvm/streamsvm/internal/wire"
	"github.com/streamsvm/streamsvm/stream"
)

// Codec is one wire form, in both directions.
type Codec interface {
	stream.ArenaDecoder
	stream.Encoder
	// Name returns the name by which New knows the codec.
	Name() string
	// Header returns the line, without its end, that a file of this form must
	// start with; nil if there is none, as for all but csv.
	Header() []byte
}

// Options say how to decode values. The zero value of each field selects its default.
type Options struct {
	// Labels are the labels that a classification stream uses: "pm1" (−1 and +1,
	// the default), "01" (0 means −1), "12" (1 means −1, 2 means +1), or any two,
	// separated by a comma, the one that means −1 first: two numbers, "false,true",
	// or two texts such as "no,yes". A label in double quotes is always a text. The
	// mapping is never guessed from the data. It does not apply to regression.
	//
	// Three or more, all numbers or all texts, are numbered from 0 on in the order
	// given: "setosa,versicolor,virginica". Other labels of that kind are accepted, and
	// put into Class of their examples.
	Labels string
	// Task is "classify" (the default) or "regress", which accepts every finite
	// label unchanged.
	Task string
	// MaxFeatures is the largest number of features accepted, and so the largest 1-based
	// index: 1 to 2³¹−1, default 2²⁴.
	MaxFeatures int
	// CSV has the options that only csv uses.
	CSV CSVOptions
	// Schema, if not empty, says that records of json or csv are events, objects or rows
	// of named fields, and how each field is encoded. It is JSON; a Discovery infers it.
	Schema string
	// Schemas resolves the schemas that records of avro and protobuf refer to. Written, if
	// not nil, is the schema of all records, which then do not refer to any.
	Schemas Schemas
	Written *WrittenSchema

	// ID is the field with the identity of an example, in json, avro, protobuf, and csv
	// with a Schema; the default is "id". Fields of nested objects are named with dots.
	ID string
	// LabelsField and LabelsID are the fields of label and identity in a topic of labels;
	// see NewLabels.
	LabelsField, LabelsID string

	// The following are for a Discovery only, and so is the value Auto of Labels.

	// Events is empty if records are vectors, Auto to detect whether they are, or a
	// specification of the fields in YAML; see docs/events.md.
	Events string
	// Label is the field of the label; the default is the first of y, label,
	// target, class and outcome that occurs in the events.
	Label string
	// MissingLabel is the label of examples without one there, or empty.
	MissingLabel string
	// Unlabelled says that events need not have a label, because labels come in a separate
	// topic.
	Unlabelled bool
	// LaterLabels says that an event's label comes in a later record of the same topic. Fields are
	// then inferred from records without a label: others have what was not known before.
	LaterLabels bool
}

// DefaultMaxFeatures is the default of Options.MaxFeatures.
const DefaultMaxFeatures = 1 << 24

// MaxValueBytes is the length of the longest value that is accepted.
const MaxValueBytes = 64 << 20

// Names lists the codecs that can also write, and that data files may use.
func Names() []string { return []string{"libsvm", "json", "msgpack", "csv"} }

// AllNames lists all codecs, including the read-only ones.
func AllNames() []string { return append(Names(), "avro", "protobuf") }

// Schematic reports whether records of the codec called name need a schema to be read, as
// avro and protobuf records do.
func Schematic(name string) bool {
	_, ok := wire.Lookup(name)
	return ok || name == "avro" || name == "protobuf"
}

// New returns the codec called name.
func New(name string, o Options) (Codec, error) {
	c, err := o.common()
	if err != nil {
		return nil, fmt.Errorf("codec %s: %w", name, err)
	}
	if o.ID != "" && (name == "libsvm" || name == "msgpack" || name == "csv" && o.Schema == "") {
		return nil, fmt.Errorf("codec %s: vectors have no field %s", name, o.ID)
	}
	switch name {
	case "libsvm":
		for _, t := range c.labels.text {
			if strings.ContainsAny(t, " \t:#") {
				return nil, fmt.Errorf("codec libsvm: the label %q cannot be written in this form", t)
			}
		}
		c.labels.forbid = " \t:#"
		return &libsvm{c}, nil
	case "json":
		if o.Schema != "" {
			return newJSONEvents(c, o.Schema)
		}
		return &jsonCodec{c}, nil
	case "msgpack":
		return &msgpack{c}, nil
	case "csv":
		d, err := newCSV(c, o.CSV)
		if err != nil {
			return nil, fmt.Errorf("codec csv: %w", err)
		}
		if o.Schema != "" {
			return newCSVEvents(d, o.Schema)
		}
		return d, nil
	}
	switch f, ok := wire.Lookup(name); {
	case ok:
		return newWireEvents(f, c, o)
	case Schematic(name):
		return nil, fmt.Errorf("codec %s: %w", name, ErrNotRegistered)
	}
	return nil, fmt.Errorf("codec %q is unknown: choose one of %s", name, strings.Join(AllNames(), ", "))
}

// ErrNotRegistered is the error of New for avro and protobuf in programs that do not
// import package contrib/registry.
var ErrNotRegistered = errors.New("this program has no Avro and no Protobuf: it was built with -tags core, or, if it is one of your own, does not import github.com/streamsvm/streamsvm/contrib/registry")

// ByFileName returns the codec that the extension of a file suggests, ignoring a final
// .gz or .zst. ok is false if it suggests none.
func ByFileName(name string) (codec string, ok bool) {
	ext := strings.ToLower(path.Ext(name))
	if ext == ".gz" || ext == ".zst" {
		ext = strings.ToLower(path.Ext(name[:len(name)-len(ext)]))
	}
	switch ext {
	case ".libsvm", ".svm", ".svmlight":
		return "libsvm", true
	case ".json", ".jsonl", ".ndjson":
		return "json", true
	case ".msgpack", ".mpk", ".mp":
		return "msgpack", true
	case ".csv", ".tsv":
		return "csv", true
	}
	return "", false
}

// common has the options that all codecs share.
type common struct {
	labels labels
	maxDim int
	id     string // field of the identity; "" if it has the usual name
}

func (o Options) common() (common, error) {
	c := common{maxDim: o.MaxFeatures, id: o.ID}
	if c.maxDim == 0 {
		c.maxDim = DefaultMaxFeatures
	}
	if c.maxDim < 1 || c.maxDim > math.MaxInt32 {
		return c, fmt.Errorf("MaxFeatures is %d, want 1 to %d", o.MaxFeatures, math.MaxInt32)
	}
	var err error
	if c.labels, err = parseLabels(o.Labels); err != nil {
		return c, err
	}
	switch o.Task {
	case "", "classify":
	case "regress":
		c.labels.regress = true
	default:
		return c, fmt.Errorf("option Task is %q, want classify or regress", o.Task)
	}
	return c, nil
}

// Header implements Codec for the forms without a header.
func (c *common) Header() []byte { return nil }

var errEmpty = errors.New("the value is empty")

// checkSize refuses empty and oversized values.
func checkSize(value []byte) error {
	if len(value) == 0 {
		return fail(stream.StageDecode, stream.ReasonEmpty, "", errEmpty)
	}
	if len(value) > MaxValueBytes {
		return failf(stream.StageDecode, stream.ReasonTooLarge, "", "the value has %d bytes, the limit is %d", len(value), MaxValueBytes)
	}
	return nil
}

// checkDim refuses a dense vector with too many features.
func (c *common) checkDim(n int) error {
	if n > c.maxDim {
		return failf(stream.StageFeature, stream.ReasonLimit, "x", "%d features, the limit is %d", n, c.maxDim)
	}
	return nil
}

// indexTooLarge is the error for a 1-based index that is out of range.
func (c *common) indexTooLarge(field string) error {
	return failf(stream.StageFeature, stream.ReasonLimit, field, "the index is above the limit of %d", c.maxDim)
}

// checkVec refuses features that no codec may write: values that are not finite, and
// indices that are not strictly increasing from 0.
func (c *common) checkVec(x stream.Vec) error {
	if x.Idx != nil {
		if len(x.Idx) != len(x.Val) {
			return failf(stream.StageFeature, stream.ReasonDimension, "x", "%d indices, %d values", len(x.Idx), len(x.Val))
		}
		last := int32(-1)
		for _, j := range x.Idx {
			if j <= last {
				return failf(stream.StageFeature, stream.ReasonOrder, feature(int(j)+1), "the indices do not increase")
			}
			last = j
		}
	}
	if k := x.CheckFinite(); k >= 0 {
		field := indexed(k)
		if x.Idx != nil {
			field = feature(int(x.Idx[k]) + 1)
		}
		return failf(stream.StageFeature, stream.ReasonNotFinite, field, "the value is %v", x.Val[k])
	}
	if d := x.Dim(); d > c.maxDim {
		return failf(stream.StageFeature, stream.ReasonLimit, "x", "%d features, the limit is %d", d, c.maxDim)
	}
	return nil
}

// fail returns a decoder's error.
func fail(stage stream.Stage, reason stream.Reason, field string, err error) error {
	return &stream.FieldError{Stage: stage, Reason: reason, Field: field, Err: err}
}

// failf is fail with a formatted reason.
func failf(stage stream.Stage, reason stream.Reason, field, format string, args ...any) error {
	return fail(stage, reason, field, fmt.Errorf(format, args...))
}

// feature names the feature with the 1-based index j.
func feature(j int) string { return "feature " + strconv.Itoa(j) }

// indexed names the feature at position k, from 0, of a dense vector.
func indexed(k int) string { return "x[" + strconv.Itoa(k) + "]" }

// quoted returns at most 32 bytes of b for an error message.
func quoted(b []byte) string { return wire.Quoted(b) }
