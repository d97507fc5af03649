package onnx

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"

	"go.yaml.in/yaml/v3"
)

// loader is what MLflow loads the model with.
//
//go:embed mlflow/streamsvm_onnx.py
var loader []byte

// File is one of a directory.
type File struct {
	Name string
	Data []byte
}

// spec is a column or a tensor of a signature of MLflow.
type spec struct {
	Type     string      `json:"type"`
	Name     string      `json:"name,omitempty"`
	Items    *spec       `json:"items,omitempty"`
	Tensor   *tensorSpec `json:"tensor-spec,omitempty"`
	Required *bool       `json:"required,omitempty"`
}

type tensorSpec struct {
	Dtype string  `json:"dtype"`
	Shape []int64 `json:"shape"`
}

var columnTypes = map[string]string{"double": "double", "string": "string", "bool": "boolean"}

// inputSpecs describes the inputs: fields of events, which may be missing, or
// tensors, of which x has no name, so that it may be a table.
func (m *Model) inputSpecs() (list []spec) {
	for _, v := range m.Inputs {
		shape := append([]int64{-1}, v.Shape...)
		no := false
		s := spec{Type: columnTypes[v.Type], Name: v.Name, Required: &no}
		switch {
		case m.fields && v.Shape[0] > 1:
			s = spec{Type: "array", Name: v.Name, Items: &spec{Type: "double"}, Required: &no}
		case m.fields:
		case len(m.Inputs) == 1:
			s = spec{Type: "tensor", Tensor: &tensorSpec{"float64", shape}}
		case v.Type == "int64":
			s = spec{Type: "tensor", Name: v.Name, Tensor: &tensorSpec{"int64", shape}}
		default:
			s = spec{Type: "tensor", Name: v.Name, Tensor: &tensorSpec{"float64", shape}}
		}
		list = append(list, s)
	}
	return list
}

// outputSpecs describes the columns that the loader makes.
func (m *Model) outputSpecs() (list []spec) {
	for _, v := range m.Outputs {
		if len(v.Shape) == 0 {
			list = append(list, spec{Type: columnTypes[v.Type], Name: v.Name})
			continue
		}
		for _, l := range m.labels {
			list = append(list, spec{Type: "double", Name: fmt.Sprintf("%s %v", v.Name, l)})
		}
	}
	return list
}

// MLflow returns the files of a directory that MLflow loads as a model of the
// flavours onnx and python_function. The file that says what the others are comes
// last.
func (m *Model) MLflow() ([]File, error) {
	inputs, err := json.Marshal(m.inputSpecs())
	if err != nil {
		return nil, err
	}
	outputs, err := json.Marshal(m.outputSpecs())
	if err != nil {
		return nil, err
	}
	// The first versions that know the operators.
	library, runtime := "1.12", "1.12"
	if m.texts {
		library, runtime = "1.15", "1.17"
	}
	const name = "model.onnx"
	var mlmodel bytes.Buffer
	enc := yaml.NewEncoder(&mlmodel)
	enc.SetIndent(2)
	if err := enc.Encode(map[string]any{
		"flavors": map[string]any{
			"onnx":            map[string]any{"data": name, "code": nil, "onnx_version": library, "providers": []string{"CPUExecutionProvider"}},
			"python_function": map[string]any{"loader_module": "streamsvm_onnx", "data": name, "code": "code", "env": map[string]any{"virtualenv": "python_env.yaml"}, "python_version": "3.11"},
		},
		"metadata":         m.metadata,
		"model_size_bytes": len(m.Bytes),
		"signature":        map[string]any{"inputs": string(inputs), "outputs": string(outputs), "params": nil},
	}); err != nil {
		return nil, err
	}
	requirements := fmt.Sprintf("mlflow\nnumpy\nonnx>=%s\nonnxruntime>=%s\npandas\n", library, runtime)
	return []File{
		{name, m.Bytes},
		{"requirements.txt", []byte(requirements)},
		{"python_env.yaml", []byte("python: \"3.11\"\nbuild_dependencies: [pip]\ndependencies: [-r requirements.txt]\n")},
		{"code/streamsvm_onnx.py", loader},
		{"MLmodel", mlmodel.Bytes()},
	}, nil
}
