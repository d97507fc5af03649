package registry

import (
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
