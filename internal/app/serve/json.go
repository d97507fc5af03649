// Package serve has functions shared by prediction servers: it cuts the rows of requests
// into batches, and takes JSON apart.
package serve

import (
	"encoding/json"
	"errors"
	"iter"
	"strings"
)

// ErrTooMany is wrapped by the errors about requests with too many rows.
var ErrTooMany = errors.New("too many rows")

// A batch of rows is full at this number of rows or bytes.
const (
	batchRows  = 512
	batchBytes = 512 << 10
)

// Batches cuts rows into batches, so that a large request is never decoded as a
// whole. A batch is valid until the next one.
func Batches(rows iter.Seq[[]byte], memory *[][]byte) iter.Seq[[][]byte] {
	return func(yield func([][]byte) bool) {
		batch, size := (*memory)[:0], 0
		defer func() { *memory = batch }()
		for row := range rows {
			batch, size = append(batch, row), size+len(row)
			if len(batch) == batchRows || size >= batchBytes {
				if !yield(batch) {
					return
				}
				batch, size = batch[:0], 0
			}
		}
		if len(batch) > 0 {
			yield(batch)
		}
	}
}

// These functions read JSON that is known to be valid, without copying it.

// SkipSpace returns the index of the first byte of b, from i on, that is not white
// space.
func SkipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\t' || b[i] == '\r' || b[i] == '\n') {
		i++
	}
	return i
}

// EndOf returns the index just after the value that begins at b[i].
func EndOf(b []byte, i int) int {
	depth := 0
	for ; i < len(b); i++ {
		switch b[i] {
		case '"':
			for i++; i < len(b) && b[i] != '"'; i++ {
				if b[i] == '\\' {
					i++
				}
			}
		case '{', '[':
			depth++
			continue
		case '}', ']':
			depth--
		default:
			// Only the end of a number or word matters, and within brackets not even
			// that.
			if depth > 0 {
				continue
			}
			for i+1 < len(b) && !ends(b[i+1]) {
				i++
			}
		}
		if depth == 0 {
			return i + 1
		}
	}
	return len(b)
}

// ends reports whether c ends a number or a word.
func ends(c byte) bool {
	switch c {
	case ',', ']', '}', ' ', '\t', '\r', '\n':
		return true
	}
	return false
}

// Items calls f with each value of a list, until it returns an error.
func Items(list []byte, f func(item []byte) error) error {
	i := SkipSpace(list, SkipSpace(list, 0)+1)
	for i < len(list) && list[i] != ']' {
		end := EndOf(list, i)
		if err := f(list[i:end]); err != nil {
			return err
		}
		if i = SkipSpace(list, end); i < len(list) && list[i] == ',' {
			i = SkipSpace(list, i+1)
		}
	}
	return nil
}

// Fields calls f with each key of an object, and its value, until it returns an
// error.
func Fields(object []byte, f func(key, value []byte) error) error {
	i := SkipSpace(object, SkipSpace(object, 0)+1)
	for i < len(object) && object[i] == '"' {
		end := EndOf(object, i)
		key := object[i:end]
		i = SkipSpace(object, SkipSpace(object, end)+1) // after the colon
		end = EndOf(object, i)
		if err := f(unquoted(key), object[i:end]); err != nil {
			return err
		}
		if i = SkipSpace(object, end); i < len(object) && object[i] == ',' {
			i = SkipSpace(object, i+1)
		}
	}
	return nil
}

// errFound ends a search.
var errFound = errors.New("found")

// Find returns the value of a field of an object, or nil. A dot in the name leads
// into a nested object, unless a key contains it.
func Find(object []byte, name string) (value []byte) {
	_ = Fields(object, func(key, v []byte) error {
		if string(key) == name {
			value = v
			return errFound
		}
		if rest, ok := strings.CutPrefix(name, string(key)+"."); ok && len(v) > 0 && v[0] == '{' {
			if value = Find(v, rest); value != nil {
				return errFound
			}
		}
		return nil
	})
	return value
}

// unquoted returns the text of a string.
func unquoted(s []byte) []byte {
	for _, c := range s {
		if c == '\\' {
			var text string
			if json.Unmarshal(s, &text) == nil {
				return []byte(text)
			}
			break
		}
	}
	return s[1 : len(s)-1]
}
