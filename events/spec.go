package events

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// ParseSpec reads a specification in YAML. A field may be its type alone.
func ParseSpec(text string) (Spec, error) {
	var s Spec
	dec := yaml.NewDecoder(bytes.NewReader([]byte(text)))
	dec.KnownFields(true)
	if err := dec.Decode(&s); err != nil && !errors.Is(err, io.EOF) {
		return s, err
	}
	return s, s.Check()
}

// UnmarshalYAML implements yaml.Unmarshaler.
func (f *Field) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode {
		f.Type = Type(n.Value)
		return nil
	}
	type plain Field
	// Node.Decode would accept unknown fields.
	b, err := yaml.Marshal(n)
	if err != nil {
		return err
	}
	dec := yaml.NewDecoder(bytes.NewReader(b))
	dec.KnownFields(true)
	if err := dec.Decode((*plain)(f)); err != nil {
		return fmt.Errorf("line %d: %w", n.Line, err)
	}
	return nil
}

// Spec returns a specification that the schema conforms to, as YAML for people to edit.
// What was inferred from the events is left out, or in comments.
func (s *Schema) Spec() ([]byte, error) {
	var doc yaml.Node
	if err := doc.Encode(s); err != nil {
		return nil, err
	}
	doc.Style = 0 // not a line in braces, as an empty mapping is
	fields := &yaml.Node{Kind: yaml.MappingNode}
	for i := range s.Fields {
		f := s.Fields[i]
		note := f.Note
		if note == "" {
			note = f.Summary()
		}
		f.Categories, f.Means, f.MissingIndicator, f.Range, f.Quantiles, f.Reference = nil, nil, nil, nil, nil, nil
		key, value := &yaml.Node{Kind: yaml.ScalarNode, Value: f.Name}, &yaml.Node{}
		if err := value.Encode(f); err != nil {
			return nil, err
		}
		if len(value.Content) == 2 {
			value = &yaml.Node{Kind: yaml.ScalarNode, Value: string(f.Type)}
		} else {
			value.Style = yaml.FlowStyle
		}
		value.LineComment = note
		fields.Content = append(fields.Content, key, value)
	}
	doc.Content = append(doc.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: "features"}, fields)
	return yaml.Marshal(&doc)
}

// Summary says in a few words what was inferred about the field.
func (f *Field) Summary() string {
	switch f.Type {
	case Numeric:
		if len(f.Range) == 2 {
			return fmt.Sprintf("%.4g to %.4g", f.Range[0], f.Range[1])
		}
	case Categorical, Tags:
		if f.Hash > 0 {
			return fmt.Sprintf("hashed into %d", f.Hash)
		}
		show := slices.Clone(f.Categories[:min(len(f.Categories), 4)])
		if len(f.Categories) > 4 {
			show = append(show, "...")
		}
		return fmt.Sprintf("%d: %s", len(f.Categories), strings.Join(show, ", "))
	case Array:
		return fmt.Sprintf("%d numbers", len(f.Means))
	}
	return ""
}
