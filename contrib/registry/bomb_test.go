package registry

import (
	"testing"

	"github.com/streamsvm/streamsvm/internal/testkit/alloctest"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/codec"
)

// A list of items without bytes, or of as many as the record claims, costs no more memory
// than its length allows.
func TestClaimedItems(t *testing.T) {
	for name, items := range map[string]string{"null": `"null"`, "empty": `{"type":"fixed","name":"F","size":0}`, "string": `"string"`} {
		c := must(t, "avro", codec.Options{Schema: eventsOf, Schemas: memorySchemas{1: avroSchema(
			`{"type":"record","name":"R","fields":[{"name":"a","type":{"type":"array","items":` + items + `}}]}`)}})
		value := framed(1, []byte{0x80, 0x80, 0x80, 0x80, 0x08, 0}) // 2³⁰ items
		var ex stream.Example
		var err error
		if n := alloctest.Bytes(func() { err = c.Decode(value, &ex) }); n > 1<<20 && alloctest.Exact {
			t.Errorf("%s: %d bytes allocated, error %v", name, n, err)
		}
		if err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
