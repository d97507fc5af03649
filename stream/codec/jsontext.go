package codec

import (
	"encoding/binary"
	"encoding/json"
	"math/bits"
	"strings"
	"unicode/utf8"

	"github.com/streamsvm/streamsvm/stream"
)

// jsonText is a JSON text and a position in it.
type jsonText struct {
	b []byte
	i int
}

func (p *jsonText) fail(field, reason string) error {
	if p.i >= len(p.b) {
		return failf(stream.StageDecode, stream.ReasonSyntax, field, "%s, but the value ends", reason)
	}
	return failf(stream.StageDecode, stream.ReasonSyntax, field, "%s at byte %d, found %s", reason, p.i, quoted(p.b[p.i:p.i+1]))
}

func (p *jsonText) space() {
	for p.i < len(p.b) {
		switch p.b[p.i] {
		case ' ', '\t', '\r', '\n':
			p.i++
		default:
			return
		}
	}
}

// eat consumes c if it is next.
func (p *jsonText) eat(c byte) bool {
	if p.i < len(p.b) && p.b[p.i] == c {
		p.i++
		return true
	}
	return false
}

// open reads the opening bracket; the value must be an object.
func (p *jsonText) open() error {
	if p.space(); p.i == len(p.b) {
		return fail(stream.StageDecode, stream.ReasonEmpty, "", errEmpty)
	}
	if !p.eat('{') {
		return p.fail("", "want an object")
	}
	return nil
}

// close checks that nothing follows the object.
func (p *jsonText) close() error {
	if p.space(); p.i != len(p.b) {
		return p.fail("", "want nothing after the object")
	}
	return nil
}

// more skips to the next element of a list and reports whether there is one; end
// closes the list.
func (p *jsonText) more(first bool, end byte) (bool, error) {
	p.space()
	if p.eat(end) {
		return false, nil
	}
	if !first {
		if !p.eat(',') {
			return false, p.fail("", "want , or "+string(rune(end)))
		}
		p.space()
	}
	return true, nil
}

// key reads a key of an object and the colon after it.
func (p *jsonText) key() ([]byte, error) {
	key, err := p.str("")
	if err != nil {
		return nil, err
	}
	p.space()
	if !p.eat(':') {
		return nil, p.fail("", "want :")
	}
	p.space()
	return key, nil
}

// find reads an object behind its opening bracket, and returns the position of the value
// of a field, or -1. The path has a dot for each nested object.
func (p *jsonText) find(path string, depth int) (at int, err error) {
	at = -1
	if depth > maxDepth {
		return at, p.fail("", "the nesting is too deep")
	}
	for first := true; ; first = false {
		more, err := p.more(first, '}')
		if err != nil || !more {
			return at, err
		}
		key, err := p.key()
		if err != nil {
			return at, err
		}
		rest, inside := strings.CutPrefix(path, string(key)+".")
		switch {
		case string(key) == path:
			at = p.i
			err = p.skip(depth)
		case inside && p.eat('{'):
			within := -1
			if within, err = p.find(rest, depth+1); within >= 0 {
				at = within
			}
		default:
			err = p.skip(depth)
		}
		if err != nil {
			return at, err
		}
	}
}

// word consumes the literal w if it is next.
func (p *jsonText) word(w string) bool {
	if len(p.b)-p.i >= len(w) && string(p.b[p.i:p.i+len(w)]) == w {
		p.i += len(w)
		return true
	}
	return false
}

// number reads a number. NaN and infinities, which are not JSON but which some programs
// write, are an error at the given stage.
func (p *jsonText) number(field string, stage stream.Stage) (decimal, []byte, error) {
	d, n := scan(p.b[p.i:])
	if n == 0 || !d.plain {
		for _, w := range []string{"NaN", "Infinity", "-Infinity", "nan", "inf", "-inf"} {
			if p.word(w) {
				return d, nil, failf(stage, stream.ReasonNotFinite, field, "the value is %s", w)
			}
		}
		return d, nil, p.fail(field, "want a number")
	}
	text := p.b[p.i : p.i+n]
	p.i += n
	return d, text, nil
}

// value reads the value of the 1-based feature j or, if j is negative, of
// position k in a dense vector.
func (p *jsonText) value(j, k int) (float32, error) {
	if v, n := short32(p.b[p.i:]); n > 0 {
		p.i += n
		return v, nil
	}
	d, n := scan(p.b[p.i:])
	if n > 0 && d.plain {
		text := p.b[p.i : p.i+n]
		if v := d.float32(text); v-v == 0 {
			p.i += n
			return v, nil
		}
	}
	field := feature(j)
	if j < 0 {
		field = indexed(k)
	}
	_, text, err := p.number(field, stream.StageFeature)
	if err != nil {
		return 0, err
	}
	return 0, failf(stream.StageFeature, stream.ReasonNotFinite, field, "%s overflows a float32", quoted(text))
}

// str reads a string and returns its contents, which share memory with the
// text unless it holds escapes.
func (p *jsonText) str(field string) ([]byte, error) {
	raw, escaped, err := p.rawString(field)
	if err != nil {
		return nil, err
	}
	s := raw[1 : len(raw)-1]
	if escaped {
		var u string
		if err := json.Unmarshal(raw, &u); err != nil {
			return nil, fail(stream.StageDecode, stream.ReasonSyntax, field, err)
		}
		s = []byte(u)
	}
	return s, nil
}

// embedded reads a string that holds an object in JSON and returns that, behind its opening
// bracket. If another value is next, it reads nothing.
func (p *jsonText) embedded(depth int) (inner jsonText, ok bool) {
	if p.i == len(p.b) || p.b[p.i] != '"' {
		return inner, false
	}
	start := p.i
	text, err := p.str("")
	inner.b = text
	if inner.space(); err == nil && inner.i < len(text) && text[inner.i] == '{' {
		check := inner
		if check.skip(depth) == nil && check.close() == nil {
			return inner, inner.eat('{')
		}
	}
	p.i = start
	return inner, false
}

// rawString reads a string and returns it with its quotes.
func (p *jsonText) rawString(field string) (raw []byte, escaped bool, err error) {
	start := p.i
	if !p.eat('"') {
		return nil, false, p.fail(field, "want a string")
	}
	for p.i < len(p.b) {
		if len(p.b)-p.i >= 8 {
			if m := stops(binary.LittleEndian.Uint64(p.b[p.i:])); m != 0 {
				p.i += bits.TrailingZeros64(m) / 8
			} else {
				p.i += 8
				continue
			}
		}
		switch c := p.b[p.i]; {
		case c == '"':
			p.i++
			return p.b[start:p.i], escaped, nil
		case c < ' ':
			return nil, false, p.fail(field, "a string holds a control character")
		case c == '\\':
			escaped = true
			p.i++
			if !p.escape() {
				return nil, false, p.fail(field, "a string holds an unknown escape")
			}
		default:
			p.i++
		}
	}
	return nil, false, p.fail(field, "want the end of a string")
}

// stops marks the first of eight bytes that is a quote, a backslash or a control
// character, by its highest bit; bytes behind it may be marked too.
func stops(x uint64) uint64 {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	quote, slash := x^ones*'"', x^ones*'\\'
	return ((quote-ones)&^quote | (slash-ones)&^slash | (x-ones*' ')&^x) & highs
}

// escape consumes what follows a backslash.
func (p *jsonText) escape() bool {
	if p.i == len(p.b) {
		return false
	}
	switch p.b[p.i] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		p.i++
		return true
	case 'u':
		if len(p.b)-p.i < 5 {
			return false
		}
		for _, c := range p.b[p.i+1 : p.i+5] {
			if c-'0' > 9 && c-'a' > 5 && c-'A' > 5 {
				return false
			}
		}
		p.i += 5
		return true
	}
	return false
}

func (p *jsonText) id() (string, error) {
	if p.word("null") {
		return "", nil
	}
	if p.i < len(p.b) && p.b[p.i] != '"' {
		_, text, err := p.number("id", stream.StageDecode)
		return string(text), err
	}
	s, err := p.str("id")
	if err == nil && !utf8.Valid(s) {
		err = failf(stream.StageDecode, stream.ReasonSyntax, "id", "the string is not UTF-8")
	}
	return string(s), err
}

// skip skips any value, which lies depth levels deep.
func (p *jsonText) skip(depth int) error {
	if depth > maxDepth {
		return p.fail("", "the nesting is too deep")
	}
	switch {
	case p.i < len(p.b) && p.b[p.i] == '"':
		_, _, err := p.rawString("")
		return err
	case p.word("null"), p.word("true"), p.word("false"):
		return nil
	case p.eat('['):
		return p.skipList(depth, ']')
	case p.eat('{'):
		return p.skipList(depth, '}')
	}
	_, _, err := p.number("", stream.StageDecode)
	return err
}

// skipList skips the rest of an array or, if end is '}', of an object.
func (p *jsonText) skipList(depth int, end byte) error {
	for first := true; ; first = false {
		more, err := p.more(first, end)
		if err != nil || !more {
			return err
		}
		if end == '}' {
			if _, _, err := p.rawString(""); err != nil {
				return err
			}
			p.space()
			if !p.eat(':') {
				return p.fail("", "want :")
			}
			p.space()
		}
		if err := p.skip(depth + 1); err != nil {
			return err
		}
	}
}
