package codec

import (
	"slices"

	"github.com/streamsvm/streamsvm/events"
	"github.com/streamsvm/streamsvm/stream"
)

// Signature describes the data that a model was trained on: the form of the records, and
// the length of vectors. It is part of a model, so that predictors need no settings for
// it, and cannot contradict it.
type Signature struct {
	// Codec is the name of the codec; empty if examples did not come through one. Then
	// only Dim and Index of the following are known.
	Codec string
	// Labels is Options.Labels in full, such as "0,1" or "\"no\",\"yes\""; empty for a
	// regression. If there are three or more, it lists all that were known when the model
	// was made, in the order of their numbers.
	Labels string
	// MaxFeatures is Options.MaxFeatures.
	MaxFeatures int
	// CSV is Options.CSV, for the codec csv, with columns given by name if Columns is set.
	// Features and Dim are not set.
	CSV CSVOptions
	// Schema is Options.Schema.
	Schema string
	// Dim is the number of features of every dense example, 0 if there was none.
	Dim int
	// Index is the largest index of a feature, 1-based, in all examples; 0 if it
	// is not known.
	Index int
}

// SignatureOf returns the signature of examples that come through d, without Dim and Index.
// It is empty if d is not a Codec of this package.
func SignatureOf(d stream.Decoder) Signature {
	c, ok := d.(interface{ signature(*Signature) })
	if !ok {
		return Signature{}
	}
	s := Signature{Codec: d.(Codec).Name()}
	c.signature(&s)
	return s
}

func (c *common) signature(s *Signature) {
	s.MaxFeatures = c.maxDim
	if !c.labels.regress {
		s.Labels = c.labels.String()
	}
}

func (c *jsonEvents) signature(s *Signature) {
	c.common.signature(s)
	s.Schema = c.schema.String()
}

func (c *csvEvents) signature(s *Signature) {
	c.csvCodec.signature(s)
	s.Schema = c.schema.String()
}

func (c *csvCodec) signature(s *Signature) {
	c.common.signature(s)
	o := c.o
	o.Features, o.Dim, o.DropColumns = nil, 0, nil
	name := func(k int, given string) string {
		if k >= 0 && k < len(o.Columns) {
			return o.Columns[k]
		}
		return given
	}
	o.LabelColumn = name(c.label, o.LabelColumn)
	for _, given := range c.o.DropColumns {
		k, _ := o.column(given) // newCSV has validated it
		o.DropColumns = append(o.DropColumns, name(k, given))
	}
	s.CSV = o
}

// Features returns the names of the features, in the order of the vector; nil if
// they have none.
func (s *Signature) Features() []string {
	var names []string
	if s.Schema != "" {
		return nil
	}
	for _, name := range s.CSV.Columns {
		if name != s.CSV.LabelColumn && !slices.Contains(s.CSV.DropColumns, name) {
			names = append(names, name)
		}
	}
	return names
}

// Scaled reports for each feature of events whether its scale has a meaning and must be
// kept, as for categories; nil if records are vectors.
func (s *Signature) Scaled() ([]bool, error) {
	if s.Schema == "" {
		return nil, nil
	}
	schema, err := events.Parse(s.Schema)
	if err != nil {
		return nil, err
	}
	return schema.Scaled(), nil
}

// Label returns the label of the data for y, which is +1 or −1 or the number of a class:
// a float64, a bool or a string. For a regression it is y.
func (s *Signature) Label(y float64) any {
	if s.Labels == "" {
		return y
	}
	all, err := ParseClasses(s.Labels)
	i := int(y)
	switch {
	case err != nil || len(all) > 2 && (i < 0 || i >= len(all)):
		return y
	case len(all) > 2:
		return all[i]
	case y > 0:
		return all[1]
	}
	return all[0]
}

// Classes returns the number of labels, 2 or more; 0 if they are not known, and for a
// regression.
func (s *Signature) Classes() int {
	l, err := parseLabels(s.Labels)
	if s.Labels == "" || err != nil {
		return 0
	}
	return len(l.text)
}

// AddClass appends a class to three or more Labels. class has the form of
// stream.Example.Class.
func (s *Signature) AddClass(class string) error {
	l, err := parseLabels(s.Labels)
	if err != nil {
		return err
	}
	_, _, text, err := l.encodeClass(class)
	if err != nil {
		return err
	}
	if l.kind == numbers {
		text = class
	}
	s.Labels = l.String() + "," + text
	_, err = parseLabels(s.Labels)
	return err
}

// Length returns the length of dense vectors: Dim, or Index if all examples were sparse,
// or 0 if it is not known.
func (s *Signature) Length() int {
	if s.Dim > 0 {
		return s.Dim
	}
	return s.Index
}

// Check returns a *stream.FieldError for a dense vector whose length differs from the
// training data. A sparse one may have features that the model has not seen, as in
// LIBSVM.
func (s *Signature) Check(x stream.Vec) error {
	if want := s.Length(); x.Idx == nil && want > 0 && len(x.Val) != want {
		return failf(stream.StageFeature, stream.ReasonDimension, "x", "%d features where the model has %d", len(x.Val), want)
	}
	return nil
}
