package oip

import (
	_ "embed"
	"encoding/json"

	"github.com/streamsvm/streamsvm/events"
	"github.com/streamsvm/streamsvm/stream/codec"
)

// routes describes the HTTP interface of predict, for any model.
//
//go:embed openapi.json
var routes []byte

// object is a JSON object.
type object = map[string]any

// OpenAPI returns a description of the HTTP interface of predict, as an OpenAPI 3.1
// document, with the fields of examples and the labels of m. m may be nil.
func OpenAPI(m *Model) ([]byte, error) {
	var doc struct {
		OpenAPI    string `json:"openapi"`
		Info       object `json:"info"`
		Servers    any    `json:"servers"`
		Paths      any    `json:"paths"`
		Components struct {
			Responses  any               `json:"responses"`
			Parameters object            `json:"parameters"`
			Schemas    map[string]object `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(routes, &doc); err != nil {
		return nil, err
	}
	if m != nil {
		doc.Info["title"] = "streamsvm predict: " + m.Name
		if m.Version != "" {
			doc.Info["version"] = m.Version
		}
		doc.Components.Parameters["model"].(object)["example"] = m.Name
		doc.Components.Schemas["Example"] = m.example()
		m.prediction(doc.Components.Schemas["Prediction"]["properties"].(object))
	}
	return json.MarshalIndent(&doc, "", "  ")
}

// number and optional are the schemas of a number, and of one that may be null.
var (
	number   = object{"type": "number", "format": "double"}
	optional = object{"type": []string{"number", "null"}, "format": "double"}
)

// example returns the schema of an example in JSON.
func (m *Model) example() object {
	if !m.Inputs.Events {
		return m.vector()
	}
	properties := object{}
	for i := range m.Inputs.Fields {
		if f := &m.Inputs.Fields[i]; f.Type != string(events.Ignore) {
			properties[f.Name] = fieldSchema(f)
		}
	}
	return object{"type": "object", "properties": properties, "additionalProperties": !m.Inputs.Strict,
		"description": "An event. A field that is null or absent is missing. A dot in a name may also lead into a nested object."}
}

// fieldSchema returns the schema of a field of events.
func fieldSchema(f *codec.Input) object {
	switch events.Type(f.Type) {
	case events.Numeric:
		return optional
	case events.Length:
		return object{"type": []string{"array", "number", "null"}, "description": "A list, or the number of its items."}
	case events.Boolean:
		return object{"type": []string{"boolean", "null"}}
	case events.Timestamp:
		return object{"type": []string{"string", "number", "null"}, "description": "A time."}
	case events.Array:
		return object{"type": []string{"array", "null"}, "items": optional, "minItems": f.Width, "maxItems": f.Width}
	case events.Tags:
		return object{"type": []string{"array", "null"}, "items": object{"type": "string"}, "maxItems": events.MaxArray}
	case events.Summary:
		return object{"type": []string{"array", "null"}, "items": optional, "maxItems": events.MaxArray}
	default:
		return object{"type": []string{"string", "null"}}
	}
}

// vector returns the schema of an example with a vector.
func (m *Model) vector() object {
	x := object{"type": "array", "items": number}
	if n := m.Inputs.Length; n > 0 {
		x["minItems"], x["maxItems"] = n, n
	}
	if len(m.Inputs.Fields) > 0 {
		x["description"] = "The features, in this order: " + m.inputNames()
	}
	sparse := object{"type": "object", "additionalProperties": number, "description": "Features by their position, from 1. Others are 0."}
	return object{"type": "object", "required": []string{"x"}, "properties": object{"x": object{"oneOf": []object{x, sparse}}, "id": object{"type": "string"}}}
}

// prediction completes the properties of a prediction.
func (m *Model) prediction(properties object) {
	label := number
	if len(m.LabelValues) > 0 {
		switch m.LabelValues[0].(type) {
		case string:
			label = object{"type": "string", "enum": m.LabelValues}
		case bool:
			label = object{"type": "boolean"}
		}
	}
	properties["label"] = label
	if len(m.Labels) != 2 {
		delete(properties, "probability")
	}
	for _, name := range []string{"scores", "probabilities"} {
		if len(m.Labels) < 3 {
			delete(properties, name)
			continue
		}
		classes := object{}
		for _, text := range m.Labels {
			classes[text] = optional
		}
		p := properties[name].(object)
		p["properties"], p["required"], p["additionalProperties"] = classes, m.Labels, false
	}
}
