package doctor

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/streamsvm/streamsvm/internal/deadletter"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/codec"
)

// form is what a record is, in words that a finding can use. The forms that a
// codec reads are the codecs' names.
type form string

const (
	formJSON    form = "json"
	formLibSVM  form = "libsvm"
	formCSV     form = "csv"
	formMsgpack form = "msgpack"

	formTombstone  form = "tombstones (records without a value)"
	formEmpty      form = "empty values"
	formLetter     form = "dead letters of streamsvm"
	formModel      form = "models of streamsvm"
	formRegistry   form = "a schema registry's binary frames, of Avro or Protobuf"
	formDebezium   form = "change events of Debezium"
	formEnvelope   form = "JSON in an envelope"
	formFields     form = "JSON with named fields"
	formTextNumber form = "JSON with numbers in quotes"
	formArray      form = "JSON arrays of numbers"
	formBatch      form = "JSON with several examples in a record"
	formQuoted     form = "JSON inside a JSON string"
	formPython     form = "Python literals"
	formCut        form = "JSON that is cut off"
	formBadJSON    form = "broken JSON"
	formLabel      form = "labels without features"
	formFieldsPack form = "MessagePack with named fields"
	formBlanks     form = "numbers separated by blanks"
	formDecimal    form = "numbers with decimal commas"
	formVW         form = "lines of Vowpal Wabbit"
	formXML        form = "XML"
	formText       form = "text"
	formUTF16      form = "text in UTF-16"
	formBOM        form = "text with a byte order mark"
	formLatin      form = "text that is not UTF-8"
	formBase64     form = "base64"
	formGzip       form = "values compressed with gzip"
	formZstd       form = "values compressed with zstd"
	formSnappy     form = "values compressed with snappy"
	formLZ4        form = "values compressed with lz4"
	formZlib       form = "values compressed with zlib"
	formAvroFile   form = "Avro files"
	formParquet    form = "Parquet files"
	formJava       form = "serialized Java objects"
	formPickle     form = "Python pickles"
	formFloats     form = "bare arrays of floats"
	formBinary     form = "binary data of no known kind"
)

// magics are the first bytes of values that tell what they are.
var magics = []struct {
	bytes string
	form  form
}{
	{"\x1f\x8b", formGzip}, {"\x28\xb5\x2f\xfd", formZstd}, {"\x04\x22\x4d\x18", formLZ4}, {"\x82SNAPPY\x00", formSnappy}, {"\xff\x06\x00\x00sNaPpY", formSnappy},
	{"\x78\x01", formZlib}, {"\x78\x9c", formZlib}, {"\x78\xda", formZlib}, {"Obj\x01", formAvroFile}, {"PAR1", formParquet}, {"\xac\xed\x00\x05", formJava},
	{"\xff\xfe", formUTF16}, {"\xfe\xff", formUTF16}, {"\xef\xbb\xbf", formBOM},
}

// formOf says what a record is.
func formOf(r *stream.Record) form {
	if _, err := deadletter.Parse(r); err == nil {
		return formLetter
	}
	for _, h := range r.Headers {
		if h.Key == "content-type" && strings.HasPrefix(string(h.Value), "application/vnd.streamsvm.") {
			return formModel
		}
	}
	if r.Value == nil {
		return formTombstone
	}
	return formOfValue(r.Value)
}

func formOfValue(v []byte) form {
	if len(bytes.TrimSpace(v)) == 0 {
		return formEmpty
	}
	for _, m := range magics {
		if bytes.HasPrefix(v, []byte(m.bytes)) {
			return m.form
		}
	}
	if f := packedForm(v); f != "" {
		return f
	}
	switch {
	case bareFloats(v):
		return formFloats
	case len(unframed(v)) < len(v):
		return formOfValue(unframed(v))
	case schemaID(v) > 0:
		return formRegistry
	case alternatingZeros(v):
		return formUTF16
	case v[0] == 0x80 && len(v) > 2 && v[1] <= 5 && v[len(v)-1] == '.':
		return formPickle
	case bytes.ContainsFunc(v, func(r rune) bool { return r < ' ' && r != '\t' && r != '\n' && r != '\r' }):
		return formBinary
	case !utf8.Valid(v) && mostly(v, func(b byte) bool { return b >= ' ' && b < 0x7f || b == '\t' || b == '\n' || b == '\r' }):
		return formLatin
	case !utf8.Valid(v):
		return formBinary
	}
	return textForm(strings.TrimSpace(string(v)))
}

// schemaID returns the id of a schema registry's frame, magic byte 0 and four
// bytes of id, 0 if v is none.
func schemaID(v []byte) int {
	if len(v) < 6 || v[0] != 0 || v[1] != 0 {
		return 0 // no registry has had so many schemas
	}
	return int(v[2])<<16 | int(v[3])<<8 | int(v[4])
}

// unframed returns the JSON in a schema registry's frame, which codec json reads
// as if there were none.
func unframed(v []byte) []byte {
	if schemaID(v) > 0 && jsonLike(v[5:]) {
		return v[5:]
	}
	return v
}

func jsonLike(v []byte) bool { return len(v) > 0 && v[0] == '{' && utf8.Valid(v) }

// bareFloats tells numbers in float32, all of a size that features have, from
// other values that are not text.
func bareFloats(v []byte) bool {
	if len(v) < 8 || len(v)%4 != 0 || !bytes.ContainsFunc(v, func(r rune) bool { return r < '\t' || r == utf8.RuneError }) {
		return false
	}
	for ; len(v) > 0; v = v[4:] {
		a := math.Abs(float64(math.Float32frombits(binary.LittleEndian.Uint32(v))))
		if !(a == 0 || a > 1e-6 && a < 1e6) {
			return false
		}
	}
	return true
}

// alternatingZeros tells text of two bytes a letter.
func alternatingZeros(v []byte) bool {
	var zeros [2]int
	for i, b := range v {
		if b == 0 {
			zeros[i%2]++
		}
	}
	return len(v) >= 4 && len(v)%2 == 0 && (zeros[0] > len(v)*2/5 && zeros[1] == 0 || zeros[1] > len(v)*2/5 && zeros[0] == 0)
}

func mostly(v []byte, is func(byte) bool) bool {
	n := 0
	for _, b := range v {
		if is(b) {
			n++
		}
	}
	return n*10 >= len(v)*8
}

// packedForm tells a map of MessagePack.
func packedForm(v []byte) form {
	if c := v[0]; c>>4 != 8 && c != 0xde && c != 0xdf {
		return ""
	}
	var s codec.MsgpackSplitter
	if n, err := s.Next(v); err != nil || n != len(v) {
		return ""
	}
	if m := unpack(v); m == nil || m["x"] != nil {
		return formMsgpack
	}
	return formFieldsPack
}

// unpack returns a map of MessagePack with its names, nil if it has others.
func unpack(v []byte) map[string]any {
	var m map[string]any
	if err := msgpack.Unmarshal(v, &m); err != nil {
		return nil
	}
	return m
}

var (
	libsvmLine = regexp.MustCompile(`^(\S+|\S*)( +|\t+)?(qid:\d+\s+)?(\d+:\S+(\s+|$))+(#.*)?$|^(\d+:\S+(\s+|$))+$`)
	vwLine     = regexp.MustCompile(`^\S+( \S+)* \|\S*( [^|]+)`)
	base64Line = regexp.MustCompile(`^[A-Za-z0-9+/_-]{16,}={0,2}$`)
	decimals   = regexp.MustCompile(`^-?\d+(,\d+)?([;\t|]-?\d+(,\d+)?)+$`)
	bareNaN    = regexp.MustCompile(`([\[:,]\s*)-?(NaN|Infinity|nan|inf)\b`)
)

// textForm says what text without blanks around it is.
func textForm(s string) form {
	switch s[0] {
	case '{', '[', '"':
		return jsonForm(s)
	case '<':
		return formXML
	}
	fields := strings.Fields(s)
	switch {
	case isNumber(s):
		return formLabel
	case base64Line.MatchString(s) && !strings.ContainsAny(s, " ,;\t|"):
		if raw, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(s, "=")); err == nil && len(raw) > 0 {
			return formBase64
		}
		return formText
	case libsvmLine.MatchString(s):
		return formLibSVM
	case vwLine.MatchString(s) && strings.Contains(s, " |") && !isNumber(strings.SplitN(s, "|", 2)[1]):
		return formVW
	case strings.Contains(s, ",") && decimals.MatchString(s):
		return formDecimal
	case len(fields) > 1 && !strings.Contains(s, "\t") && !slices.ContainsFunc(fields, func(f string) bool { return !isNumber(f) }):
		return formBlanks
	case strings.ContainsAny(s, ",;\t|"):
		return formCSV
	}
	return formText
}

func isNumber(s string) bool {
	_, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
	return err == nil
}

// parseJSON returns the JSON value that s is, with NaN and infinities, which
// JSON does not have, as null. The error is io.ErrUnexpectedEOF if s is cut
// off, errTrailing if something follows.
func parseJSON(s string) (any, error) {
	var v any
	d := json.NewDecoder(strings.NewReader(s))
	d.UseNumber()
	err := d.Decode(&v)
	if err != nil && bareNaN.MatchString(s) {
		d = json.NewDecoder(strings.NewReader(bareNaN.ReplaceAllString(s, "${1}null")))
		d.UseNumber()
		err = d.Decode(&v)
	}
	if err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return v, errTrailing
	}
	return v, nil
}

var errTrailing = errors.New("something follows the value")

// jsonForm says what text that begins like JSON is.
func jsonForm(s string) form {
	v, err := parseJSON(s)
	switch {
	case errors.Is(err, errTrailing) && s[0] == '"':
		return formCSV // a field in quotes
	case errors.Is(err, errTrailing) && s[0] == '{':
		return formBatch
	case errors.Is(err, io.ErrUnexpectedEOF):
		return formCut
	case err != nil && strings.Contains(s, "'"):
		return formPython
	case err != nil:
		return formBadJSON
	}
	switch v := v.(type) {
	case map[string]any:
		return objectForm(v)
	case []any:
		if slices.ContainsFunc(v, func(e any) bool { _, ok := e.(map[string]any); return ok }) {
			return formBatch
		}
		return formArray
	case string:
		if v = strings.TrimSpace(v); v == "" {
			return formEmpty
		}
		switch f := textForm(v); {
		case f == formBase64:
			return f
		case strings.HasPrefix(v, "{"):
			return formQuoted
		case f == formCSV || f == formLibSVM:
			return formQuoted
		}
	}
	return formText
}

func objectForm(m map[string]any) form {
	body, _ := m["payload"].(map[string]any)
	switch {
	case isChange(m), isChange(body):
		return formDebezium
	case body != nil && m["schema"] != nil, m["specversion"] != nil && m["data"] != nil:
		return formEnvelope
	}
	switch x := m["x"].(type) {
	case []any:
		if len(x) > 0 && !slices.ContainsFunc(x, func(e any) bool { s, ok := e.(string); return !ok || !isNumber(s) }) {
			return formTextNumber
		}
		return formJSON
	case map[string]any:
		named := false
		for k := range x {
			_, err := strconv.Atoi(k)
			named = named || err != nil
		}
		if !named {
			return formJSON
		}
	case nil:
		_, y := m["y"]
		_, id := m["id"]
		if _, there := m["x"]; y && !there && (len(m) == 1 || id && len(m) == 2) {
			return formLabel
		}
	}
	return formFields
}

// isChange tells an event of Debezium.
func isChange(m map[string]any) bool {
	_, before := m["before"]
	_, after := m["after"]
	_, op := m["op"].(string)
	return op && (before || after)
}
