package codec

import "github.com/streamsvm/streamsvm/stream"

// Decoded returns a decoder with the signature of d, which must come from New, for records
// that were decoded before: next returns the examples in their order. Several learners
// can then read a stream that is decoded only once.
func Decoded(d stream.Decoder, next func(ex *stream.Example) error) stream.Decoder {
	c, ok := d.(Codec)
	if !ok {
		panic("codec: Decoded of a decoder that is no codec")
	}
	return &decoded{c, next}
}

type decoded struct {
	Codec
	next func(ex *stream.Example) error
}

// Decode implements stream.Decoder.
func (d *decoded) Decode(_ []byte, ex *stream.Example) error { return d.next(ex) }

func (d *decoded) signature(s *Signature) {
	*s = SignatureOf(d.Codec)
}
