package doctor

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/internal/deadletter"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/codec"
)

// format is what a record looks like: the name of the codec that may read it, or a
// description of something that no codec reads.
type format string

const (
	formatJSON    format = "json"
	formatLibSVM  format = "libsvm"
	formatCSV     format = "csv"
	formatMsgpack format = "msgpack"

	formatRegistry   format = "Avro or Protobuf framed for a schema registry"
	formatEmpty      format = "an empty value"
	formatTombstone  format = "a tombstone (a key without a value)"
	formatDeadLetter format = "a dead letter of streamsvm"
	formatModel      format = "a model of streamsvm"
	formatUnknown    format = "another format"
)

var libsvmLine = regexp.MustCompile(`^([^\s:]+\s+)?(qid:\d+\s+)?\d+:\S+(\s+\d+:\S+)*\s*(#.*)?$`)

// formatOf guesses the format of a record.
func formatOf(r *stream.Record) format {
	if _, err := deadletter.Parse(r); err == nil {
		return formatDeadLetter
	}
	for _, h := range r.Headers {
		if h.Key == "content-type" && strings.HasPrefix(string(h.Value), "application/vnd.streamsvm.") {
			return formatModel
		}
	}
	if r.Value == nil {
		return formatTombstone
	}
	return formatOfValue(r.Value)
}

func formatOfValue(v []byte) format {
	text := bytes.TrimPrefix(bytes.TrimSpace(v), []byte("\ufeff"))
	switch {
	case len(text) == 0:
		return formatEmpty
	case isMsgpackMap(v):
		return formatMsgpack
	case len(v) > 5 && v[0] == 0: // magic byte 0 and four bytes of schema id
		if v[5] == '{' && utf8.Valid(v[5:]) {
			return formatJSON // codec json skips the frame
		}
		return formatRegistry
	case !utf8.Valid(text) || bytes.IndexByte(text, 0) >= 0:
		return formatUnknown
	case text[0] == '{', bytes.HasPrefix(text, []byte(`"{`)): // an object, or a string with one in it
		return formatJSON
	case libsvmLine.Match(text):
		return formatLibSVM
	case text[0] != '[' && text[0] != '<' && bytes.ContainsAny(text, codec.Separators):
		return formatCSV
	}
	return formatUnknown
}

// codecOf guesses which codec reads a record; "" if none does.
func codecOf(r *stream.Record) string {
	if f := formatOf(r); f.readable() {
		return string(f)
	}
	return ""
}

// isMsgpackMap reports whether v is one map of MessagePack and nothing else.
func isMsgpackMap(v []byte) bool {
	if c := v[0]; c>>4 != 8 && c != 0xde && c != 0xdf {
		return false
	}
	var s codec.MsgpackSplitter
	n, err := s.Next(v)
	return err == nil && n == len(v)
}

// readable reports whether there is a codec for the format.
func (f format) readable() bool { return slices.Contains(codec.Names(), string(f)) }

// plain lists examples of the codecs that need no schema registry.
const plain = `{"amount":12.5,"country":"DE","label":1} or {"x":[0.5,1.25],"y":1} (json), 0.5,1.25,1 (csv), 1 1:0.5 2:1.25 (libsvm), the map {"x":...,"y":...} (msgpack)`

// remedy says what to do about a format that no codec reads.
func (d *checks) remedy(f format) string {
	switch f {
	case formatRegistry:
		return "name the schema registry, and which of the two it is: --codec avro --schema-registry http://REGISTRY:8081, or --codec protobuf"
	case formatDeadLetter:
		return "read the topic that they come from; to list and repair them: streamsvm dlq list --topics " + cli.Quote(strings.TrimSuffix(d.Topics[0], ".dlq"))
	case formatModel:
		return "this is a --model-topic; give the topic of examples with --topics"
	}
	return "have the producer write one of these: " + plain
}
