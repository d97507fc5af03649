package codec

import (
	"bytes"
	"encoding/binary"
	"encoding/csv"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	vmsgpack "github.com/vmihailenco/msgpack/v5"

	"github.com/streamsvm/streamsvm/stream"
)

// decodeChecked decodes a fuzzed value and checks what holds for all codecs:
// errors are FieldErrors, memory is bounded, accepted examples are valid, the
// same in an arena, and come back from encoding unchanged. ok is false if the
// value was refused.
func decodeChecked(t *testing.T, c Codec, value []byte) (ex stream.Example, ok bool) {
	t.Helper()
	var err error
	if got, limit := allocated(func() { err = c.Decode(value, &ex) }), uint64(4*len(value)+64<<10); got > limit {
		t.Fatalf("%d bytes allocated for %d, the limit is %d", got, len(value), limit)
	}
	var arena stream.Arena
	var in [2]stream.Example
	for i := range in {
		if err2 := c.DecodeIn(&arena, value, &in[i]); (err2 == nil) != (err == nil) || err != nil && err2.Error() != err.Error() {
			t.Fatalf("Decode: %v, DecodeIn: %v", err, err2)
		}
	}
	for i := range in {
		if err == nil && (!sameBits(&in[i], &ex) || in[i].X.Sparse() != ex.X.Sparse()) {
			t.Fatalf("%+v in an arena, %+v without", in[i], ex)
		}
	}
	if err != nil {
		var fe *stream.FieldError
		if !errors.As(err, &fe) || fe.Err == nil || fe.Stage == "" || fe.Reason.Known() != fe.Reason || fe.Reason == stream.ReasonOther {
			t.Fatalf("error %#v", err)
		}
		return ex, false
	}
	if ex.X.CheckFinite() >= 0 || ex.Y-ex.Y != 0 || !ex.Labelled && ex.Y != 0 {
		t.Fatalf("accepted %+v", ex)
	}
	last := int32(-1)
	for _, j := range ex.X.Idx {
		if j <= last {
			t.Fatalf("accepted the indices %v", ex.X.Idx)
		}
		last = j
	}
	if _, events := c.(*jsonEvents); events || Schematic(c.Name()) || c.Name() == "csv" && ex.X.Dim() == 0 || c.Name() == "json" && !json.Valid(value) {
		return ex, true
	}
	again, err := c.Append(nil, &ex)
	if err != nil {
		if c.Name() == "json" && strings.Contains(err.Error(), "UTF-8") {
			return ex, true
		}
		t.Fatalf("%+v cannot be encoded: %v", ex, err)
	}
	var back stream.Example
	if err := c.Decode(again, &back); err != nil {
		t.Fatalf("%q does not decode: %v", again, err)
	}
	if !sameBits(&ex, &back) {
		t.Fatalf("%+v came back as %+v", ex, back)
	}
	return ex, true
}

// reference32 is the float32 that text means.
func reference32(text string) float32 {
	f, _ := strconv.ParseFloat(text, 32)
	return float32(f)
}

// referenceLibsvm decodes a line by the book, with nothing but strings and
// strconv.
func referenceLibsvm(value string) (ex stream.Example, ok bool) {
	value = strings.TrimSuffix(strings.TrimSuffix(value, "\n"), "\r")
	value, _, _ = strings.Cut(value, "#")
	words := strings.FieldsFunc(value, func(r rune) bool { return r == ' ' || r == '\t' })
	if len(words) == 0 {
		return ex, false
	}
	if w := words[0]; w == "?" {
		words = words[1:]
	} else if !strings.Contains(w, ":") {
		y, err := strconv.ParseFloat(w, 64)
		if err != nil || !number.MatchString(w) {
			return ex, false
		}
		ex.Y, ex.Labelled = y, true
		words = words[1:]
	}
	if len(words) > 0 && strings.HasPrefix(words[0], "qid:") {
		words = words[1:]
	}
	ex.X = stream.Vec{Idx: []int32{}}
	last := 0
	for _, w := range words {
		index, text, found := strings.Cut(w, ":")
		j, err := strconv.ParseUint(index, 10, 63)
		if !found || err != nil || int(j) <= last || j > DefaultMaxFeatures || !number.MatchString(text) {
			return ex, false
		}
		v := reference32(text)
		if v-v != 0 {
			return ex, false
		}
		last = int(j)
		ex.X.Idx = append(ex.X.Idx, int32(j-1))
		ex.X.Val = append(ex.X.Val, v)
	}
	return ex, true
}

func FuzzLibsvm(f *testing.F) {
	for _, s := range []string{
		"+1 3:0.5 7:1.25", "? 1:2", "1:2 4:0", "-1", "2 qid:12 2:.5 # doc 1:2", "1 1:nan", "1 3:1 3:1",
		"1 1:1 \r\n", "1 16777217:1", "1 00016777216:1e-45", "1:::", "1 qid:1 qid:2 3:4", "1e400 1:1", "1\t1:1\t\t2:2",
	} {
		f.Add([]byte(s))
	}
	c := must(f, "libsvm", Options{Task: "regress"})
	f.Fuzz(func(t *testing.T, value []byte) { checkLibsvm(t, c, value) })
}

func checkLibsvm(t *testing.T, c Codec, value []byte) (ok bool) {
	t.Helper()
	ex, ok := decodeChecked(t, c, value)
	want, wantOK := referenceLibsvm(string(value))
	if ok != wantOK || ok && !sameBits(&ex, &want) {
		t.Fatalf("%q: got %+v, %v, want %+v, %v", value, ex, ok, want, wantOK)
	}
	return ok
}

// TestLibsvmLengths decodes lines of indices and numbers of all lengths, some of them
// with a byte that is another: what is read eight bytes at a time ends anywhere.
func TestLibsvmLengths(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 0))
	c := must(t, "libsvm", Options{Task: "regress"})
	digits := func(most int) string {
		b := make([]byte, 1+r.IntN(most))
		for i := range b {
			b[i] = byte('0' + r.IntN(10))
		}
		return string(b)
	}
	good := 0
	const n = 20_000
	for range n {
		line := []byte([]string{"+1", "-1", "0", "-0", "7", "12", "?", "0.5", "-"}[r.IntN(9)])
		j := 0
		for range r.IntN(8) {
			j += 1 + r.IntN([]int{3, 30, 300, 100_000}[r.IntN(4)])
			line = fmt.Appendf(line, " %d:", j)
			if r.IntN(3) == 0 {
				line = append(line, '-')
			}
			line = append(line, digits(1+r.IntN(3))...)
			if r.IntN(2) == 0 {
				line = append(line, "."+digits(17)...)
			}
		}
		if r.IntN(3) == 0 {
			line[r.IntN(len(line))] = " \t:.-+#e09/\x00\xff"[r.IntN(13)]
		}
		if checkLibsvm(t, c, line) {
			good++
		}
	}
	if good < n/4 || good > n*9/10 {
		t.Errorf("%d of %d lines are good", good, n)
	}
}

// referenceJSON decodes a value that encoding/json understands; ok is false if
// it is no example. It knows nothing of keys that come twice.
func referenceJSON(value []byte) (ex stream.Example, ok bool) {
	var m map[string]json.RawMessage
	if json.Unmarshal(value, &m) != nil || m == nil {
		return ex, false
	}
	var y *json.Number
	if raw, there := m["y"]; there {
		if json.Unmarshal(raw, &y) != nil || raw[0] == '"' {
			return ex, false
		}
		if y != nil {
			v, err := strconv.ParseFloat(y.String(), 64)
			if err != nil {
				return ex, false
			}
			ex.Y, ex.Labelled = v, true
		}
	}
	if raw, there := m["id"]; there && string(raw) != "null" {
		if json.Unmarshal(raw, &ex.ID) != nil {
			var n json.Number
			if json.Unmarshal(raw, &n) != nil {
				return ex, false
			}
			ex.ID = n.String()
		}
	}
	number32 := func(raw json.RawMessage) (float32, bool) {
		if !number.Match(raw) {
			return 0, false
		}
		v := reference32(string(raw))
		return v, v-v == 0
	}
	var list []json.RawMessage
	var set map[string]json.RawMessage
	switch raw := m["x"]; {
	case len(raw) == 0 || string(raw) == "null":
		return ex, false
	case json.Unmarshal(raw, &list) == nil:
		ex.X.Val = []float32{}
		for _, r := range list {
			v, fine := number32(r)
			if !fine {
				return ex, false
			}
			ex.X.Val = append(ex.X.Val, v)
		}
	case json.Unmarshal(raw, &set) == nil:
		all := map[int]float32{}
		most := 0
		for key, r := range set {
			j, err := strconv.ParseUint(key, 10, 63)
			v, fine := number32(r)
			if err != nil || j < 1 || j > DefaultMaxFeatures || !fine {
				return ex, false
			}
			all[int(j)] = v
			most = max(most, int(j))
		}
		ex.X = stream.Vec{Idx: []int32{}}
		for j := 1; j <= most; j++ {
			if v, there := all[j]; there {
				ex.X.Idx = append(ex.X.Idx, int32(j-1))
				ex.X.Val = append(ex.X.Val, v)
			}
		}
	default:
		return ex, false
	}
	return ex, true
}

// repeated reports whether an object of the outer two levels has a key twice.
// encoding/json lets the last one stand, whatever the ones before were.
func repeated(value []byte) bool {
	d := json.NewDecoder(bytes.NewReader(value))
	var keys []map[string]bool // of the objects around; nil for an array
	isKey := false
	for {
		tok, err := d.Token()
		if err != nil {
			return false
		}
		inObject := len(keys) > 0 && keys[len(keys)-1] != nil
		if key, ok := tok.(string); ok && inObject && isKey {
			if len(keys) <= 2 && keys[len(keys)-1][key] {
				return true
			}
			keys[len(keys)-1][key], isKey = true, false
			continue
		}
		switch tok {
		case json.Delim('{'):
			keys = append(keys, map[string]bool{})
		case json.Delim('['):
			keys = append(keys, nil)
		case json.Delim('}'), json.Delim(']'):
			keys = keys[:len(keys)-1]
		}
		isKey = true // wherever an object goes on
	}
}

func FuzzJSON(f *testing.F) {
	for _, s := range []string{
		`{"x":[0.5,1.25],"y":1}`, ` { "y" : -1 , "x" : { "3" : 0.5 } } `, `{"x":{"7":7,"1":1,"3":-3}}`, `{"x":[],"y":null}`,
		`{"id":"a\u00e9\"","ts":"2026","x":[1],"z":[{"a":[true,false,null]},"]}",-1.5e3]}`, `{"id":-12e3,"\u0078":[1]}`,
		`{"x":[1],"x":[2]}`, `{"x":0,"x":{}}`, `{"z":[{"x":1}],"x":{"1":null,"1":2}}`, `{"x":{"1":1,"01":2}}`, `{"x":[NaN]}`, `{"x":[[1]]}`, `{"x":[1,2`, `{"x":[1],"id":"\ud800"}`, `{"x":[01]}`,
	} {
		f.Add([]byte(s))
	}
	c := must(f, "json", Options{Task: "regress"})
	f.Fuzz(func(t *testing.T, value []byte) {
		ex, ok := decodeChecked(t, c, value)
		if ok {
			want, wantOK := referenceJSON(value)
			if !wantOK || !sameBits(&ex, &want) {
				t.Fatalf("got %+v, want %+v, %v", ex, want, wantOK)
			}
			return
		}
		// What is refused must not be an example, unless a key comes twice, the
		// nesting is deep, or the text is not UTF-8, of which encoding/json
		// takes no notice.
		err := c.Decode(value, &ex).Error()
		if strings.Contains(err, "twice") || repeated(value) || strings.Contains(err, "deep") || strings.Contains(err, "UTF-8") {
			return
		}
		if want, wantOK := referenceJSON(value); wantOK && json.Valid(value) {
			t.Fatalf("%s, want %+v", err, want)
		}
	})
}

// referenceMsgpack decodes an accepted value with another implementation.
func referenceMsgpack(value []byte) (ex stream.Example, err error) {
	d := vmsgpack.NewDecoder(bytes.NewReader(value))
	n, err := d.DecodeMapLen()
	if err != nil {
		return ex, err
	}
	for range n {
		key, isString, err := referenceKey(d)
		if err != nil {
			return ex, err
		}
		switch {
		case isString && key == "x":
			code, err := d.PeekCode()
			if err != nil {
				return ex, err
			}
			if code != 0xde && code != 0xdf && code&0xf0 != 0x80 {
				if ex.X.Val, err = referenceList(d); err != nil {
					return ex, err
				}
				continue
			}
			pairs, err := d.DecodeMapLen()
			if err != nil {
				return ex, err
			}
			for range pairs {
				key, isString, err := referenceKey(d)
				switch {
				case err != nil:
				case isString && key == "i":
					v, err := d.DecodeInterface()
					if err != nil {
						return ex, err
					}
					ex.X.Idx = []int32{}
					if b, ok := v.([]byte); ok {
						for ; len(b) > 0; b = b[4:] {
							ex.X.Idx = append(ex.X.Idx, int32(binary.LittleEndian.Uint32(b)))
						}
						continue
					}
					for _, e := range v.([]any) {
						ex.X.Idx = append(ex.X.Idx, int32(asFloat(e)))
					}
				case isString && key == "v":
					ex.X.Val, err = referenceList(d)
				default:
					err = d.Skip()
				}
				if err != nil {
					return ex, err
				}
			}
		case isString && key == "y":
			v, err := d.DecodeInterface()
			if err != nil {
				return ex, err
			}
			if v != nil {
				ex.Y, ex.Labelled = asFloat(v), true
			}
		case isString && key == "id":
			v, err := d.DecodeInterfaceLoose()
			if err != nil {
				return ex, err
			}
			switch v := v.(type) {
			case string:
				ex.ID = v
			case []byte:
				ex.ID = string(v)
			case int64:
				ex.ID = strconv.FormatInt(v, 10)
			case uint64:
				ex.ID = strconv.FormatUint(v, 10)
			}
		default:
			if err := d.Skip(); err != nil {
				return ex, err
			}
		}
	}
	return ex, nil
}

// referenceKey returns a map's key.
func referenceKey(d *vmsgpack.Decoder) (key string, isString bool, err error) {
	code, err := d.PeekCode()
	if err != nil {
		return "", false, err
	}
	if code&0xe0 == 0xa0 || code == 0xd9 || code == 0xda || code == 0xdb {
		key, err = d.DecodeString()
		return key, true, err
	}
	return "", false, d.Skip()
}

func referenceList(d *vmsgpack.Decoder) ([]float32, error) {
	v, err := d.DecodeInterface()
	if err != nil {
		return nil, err
	}
	list := []float32{}
	if b, ok := v.([]byte); ok {
		for ; len(b) > 0; b = b[4:] {
			list = append(list, math.Float32frombits(binary.LittleEndian.Uint32(b)))
		}
		return list, nil
	}
	for _, e := range v.([]any) {
		switch n := e.(type) {
		case int64:
			list = append(list, float32(n))
		case uint64:
			list = append(list, float32(n))
		default:
			list = append(list, float32(asFloat(e)))
		}
	}
	return list, nil
}

func asFloat(v any) float64 {
	switch v := v.(type) {
	case int8:
		return float64(v)
	case int16:
		return float64(v)
	case int32:
		return float64(v)
	case int64:
		return float64(v)
	case uint8:
		return float64(v)
	case uint16:
		return float64(v)
	case uint32:
		return float64(v)
	case uint64:
		return float64(v)
	case float32:
		return float64(v)
	}
	return v.(float64)
}

func FuzzMsgpack(f *testing.F) {
	for _, s := range []string{
		"81a17893010203", "82a178c4080000003f0000a03fa17901", "82a179ffa17882a169c40402000000a176c4040000003f",
		"81a17882a16992010aa17692ca3f000000cbbff0000000000000", "84a27473d6ff00000000a179c005c3a17890",
		"83a26964a2c3a9a17891d0ffa179cb3ff8000000000000", "82a26964cfffffffffffffffffa17891cf8000000000000000",
		"81a178dd3fffffff", "81a178c63fffffff", "df3fffffff", "81a17a919191919191", "81a17881a169dd3fffffff", "82c0a178a17890c4017800",
	} {
		b, err := hex.DecodeString(s)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	c := must(f, "msgpack", Options{Task: "regress"})
	f.Fuzz(func(t *testing.T, value []byte) {
		var s MsgpackSplitter
		n, splitErr := s.Next(value)
		if splitErr == nil && (n < 1 || n > len(value)) {
			t.Fatalf("a value of %d bytes has %d", n, len(value))
		}
		ex, ok := decodeChecked(t, c, value)
		if !ok {
			return
		}
		if splitErr != nil || n != len(value) {
			t.Fatalf("accepted, but the splitter says %d of %d bytes, %v", n, len(value), splitErr)
		}
		want, err := referenceMsgpack(value)
		if err != nil {
			t.Skip(err) // the other implementation does not skip every extension
		}
		if !sameBits(&ex, &want) {
			t.Fatalf("got %+v, want %+v", ex, want)
		}
	})
}

func FuzzCSV(f *testing.F) {
	for _, s := range []string{
		"0.5,1.25,1", "0.5,1.25,", "0.5,1.25,?\n", "-1, \"2\" ,3", "\"one, \"\"two\"\"\",1,2", "1,2\n3,4", ",,,", "1,\"\n\",2", "1,\"2\"3", `1,"2`, "1,1e50",
	} {
		f.Add([]byte(s))
	}
	c := must(f, "csv", Options{Task: "regress", CSV: CSVOptions{LabelColumn: "last", DropColumns: []string{"2"}}})
	f.Fuzz(func(t *testing.T, value []byte) {
		ex, ok := decodeChecked(t, c, value)
		r := csv.NewReader(bytes.NewReader(value))
		r.FieldsPerRecord = -1
		rows, err := r.ReadAll()
		if err != nil || len(rows) != 1 {
			// Blanks around quotes are refused by encoding/csv only; blank
			// lines, and quotes inside a dropped field, mean nothing to us.
			return
		}
		var want stream.Example
		want.X.Val = []float32{}
		wantOK := true
		for k, field := range rows[0] {
			field = strings.Trim(field, " \t")
			switch {
			case k == 1:
			case k == len(rows[0])-1:
				if field == "" || field == "?" {
					continue
				}
				v, err := strconv.ParseFloat(field, 64)
				wantOK = wantOK && err == nil && number.MatchString(field)
				want.Y, want.Labelled = v, true
			default:
				v := reference32(field)
				wantOK = wantOK && number.MatchString(field) && v-v == 0
				want.X.Val = append(want.X.Val, v)
			}
		}
		if len(rows[0]) == 2 {
			return // the label is dropped
		}
		if ok && (!wantOK || !sameBits(&ex, &want)) {
			t.Fatalf("got %+v, want %+v, %v", ex, want, wantOK)
		}
		if !ok && wantOK && !bytes.ContainsAny(value, "\r\n") && len(bytes.TrimLeft(value, " \t")) > 0 {
			t.Fatalf("refused, want %+v", want)
		}
	})
}
