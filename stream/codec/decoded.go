package codec

import "github.com/streamsvm/streamsvm/stream"

// Decoded returns a decoder that stands for d, which must be one of New's, where
// records have been decoded before: next gives what became of them, in their
// order. Several learners can so go through one stream that is decoded once.
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
