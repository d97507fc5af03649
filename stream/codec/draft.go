package codec

import "github.com/streamsvm/streamsvm/stream"

// A draft is an example while its value is being decoded.
type draft struct {
	x        stream.Vec
	y        label
	id       string
	labelled bool
	weight   float32
	seen     field // all fields seen so far
}

// A field is the meaning of an object's key, in the forms json and msgpack: a bit.
type field uint8

const (
	fieldX field = 1 << iota
	fieldY
	fieldID
	fieldWeight
	fieldOther field = 0
)

// field returns the meaning of a key, and an error if it comes twice.
func (d *draft) field(key string) (field, error) {
	f := fieldOther
	switch key {
	case "x":
		f = fieldX
	case "y":
		f = fieldY
	case "id":
		f = fieldID
	case "weight":
		f = fieldWeight
	}
	return f, d.once(f, key)
}

// once marks a field as seen, and returns an error if it has come before.
func (d *draft) once(f field, key string) error {
	if d.seen&f != 0 {
		return twice(key)
	}
	d.seen |= f
	return nil
}

func twice(key string) error {
	return failf(stream.StageDecode, stream.ReasonDuplicate, key, "the key comes twice")
}

// finish sets ex to the example; its features are in memory of a.
func (d *draft) finish(a *stream.Arena, ex *stream.Example) {
	ex.ID, ex.Y, ex.Labelled, ex.Class, ex.Weight = d.id, d.y.y, d.labelled, d.y.class, d.weight
	ex.X.Idx, ex.X.Val = d.x.Idx, d.x.Val // a copy of the struct would wait for its parts
	a.Keep(&ex.X)
}

// weightOf returns an importance weight in the form of stream.Example: 0 stands for 1.
func weightOf(v float64, field string) (float32, error) {
	w := float32(v)
	switch {
	case w-w != 0:
		return 0, failf(stream.StageFeature, stream.ReasonNotFinite, field, "the weight is %g, want a finite number above 0", v)
	case !(w > 0):
		return 0, failf(stream.StageFeature, stream.ReasonLimit, field, "the weight is %g, want a finite number above 0", v)
	case w == 1:
		return 0, nil
	}
	return w, nil
}

// hasWeight reports whether a codec has to write the weight of ex.
func hasWeight(ex *stream.Example) (bool, error) {
	if ex.Weight == 0 {
		return false, nil
	}
	w, err := weightOf(float64(ex.Weight), "weight")
	return w != 0, err
}
