package registry

import (
	"encoding/binary"
	"math/bits"

	"github.com/streamsvm/streamsvm/internal/wire"
	"github.com/streamsvm/streamsvm/stream/codec"
)

var (
	avroFormat     = wire.Format{Name: "avro", Type: codec.AvroSchema, Plan: newAvroPlan}
	protobufFormat = wire.Format{Name: "protobuf", Type: codec.ProtobufSchema, Paths: true, Plan: newProtoPlan}
)

func init() {
	wire.Register(avroFormat)
	wire.Register(protobufFormat)
}

// reader reads one event.
type reader struct {
	*wire.Reader
	b  []byte // of Avro: the record
	at int    // and how far it has been read
	// depth of what is being read, bounded for types that hold themselves.
	depth int
	// scattered says that the items of lists are in no order, and tell by From
	// which list they are of.
	scattered bool
}

// shortVarint reads a varint of up to eight bytes, with no branch for each of
// them; n is 0 if it has more, or fewer than eight bytes are there.
func shortVarint(b []byte) (u uint64, n int) {
	if len(b) < 8 {
		return 0, 0
	}
	u = binary.LittleEndian.Uint64(b)
	last := ^u & 0x8080808080808080 // of the bytes after which another number begins
	if last == 0 {
		return 0, 0
	}
	u &= (last ^ (last - 1)) & 0x7f7f7f7f7f7f7f7f
	u = u&0x007f007f007f007f | u&0x7f007f007f007f00>>1
	u = u&0x00003fff00003fff | u&0x3fff00003fff0000>>2
	u = u&0x000000000fffffff | u&0x0fffffff00000000>>4
	return u, bits.TrailingZeros64(last)/8 + 1
}
