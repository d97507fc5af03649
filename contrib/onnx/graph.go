package onnx

import (
	"crypto/sha256"
	"strconv"
)

// ref names a tensor of a graph. In comments N is the number of rows; numbers
// are doubles unless stated otherwise.
type ref string

// graph is a GraphProto under construction. Nodes are in the order in which they are
// computed.
type graph struct {
	nodes, tensors message // fields 1 and 5 of GraphProto
	infos          message // field 13: types of values that standard tools cannot infer
	inputs         []Value
	outputs        []Value
	names          int
	numbers        int // of tensors
	// made maps the content of a tensor or an operator to its output: equal tensors, and
	// equal operators on equal inputs, are added once.
	made    map[[sha256.Size]byte]ref
	texts   bool
	domains map[string]bool
}

func newGraph() *graph {
	return &graph{made: map[[sha256.Size]byte]ref{}, domains: map[string]bool{}}
}

// next returns a new name. It begins with a slash, unlike the names of inputs.
func (g *graph) next() ref {
	g.names++
	return ref("/" + strconv.Itoa(g.names))
}

// attr is an attribute of a node.
type attr struct {
	name  string
	value any
}

const (
	domainML        = "ai.onnx.ml"
	domainMicrosoft = "com.microsoft"
)

// op adds a node of the ONNX domain and returns its output.
func (g *graph) op(typ string, in ...ref) ref { return g.node("", typ, nil, in...) }

func (g *graph) node(domain, typ string, attrs []attr, in ...ref) ref {
	key := sha256.Sum256(operator(nil, domain, typ, attrs, in))
	out, ok := g.made[key]
	if !ok {
		out = g.next()
		g.made[key] = out
		g.into(out, domain, typ, attrs, in...)
	}
	return out
}

// into adds a node whose output has a given name.
func (g *graph) into(out ref, domain, typ string, attrs []attr, in ...ref) {
	g.nodes.bytes(1, operator([]ref{out}, domain, typ, attrs, in))
	if domain != "" {
		g.domains[domain] = true
	}
}

// operator returns a NodeProto.
func operator(out []ref, domain, typ string, attrs []attr, in []ref) message {
	var m message
	for _, r := range in {
		m.text(1, string(r))
	}
	for _, r := range out {
		m.text(2, string(r))
	}
	m.text(4, typ)
	for _, a := range attrs {
		m.bytes(5, attribute(a.name, a.value))
	}
	if domain != "" {
		m.text(7, domain)
	}
	return m
}

// tensor adds a constant.
func (g *graph) tensor(values any, shape ...int) ref {
	m := tensor(values, shape)
	key := sha256.Sum256(m)
	if r, ok := g.made[key]; ok {
		return r
	}
	r, n := g.next(), 1
	for _, k := range shape {
		n *= k
	}
	g.made[key] = r
	g.numbers += n
	m.text(8, string(r))
	g.tensors.bytes(5, m)
	return r
}

// scalar returns a constant without dimensions.
func (g *graph) scalar(v float64) ref { return g.tensor([]float64{v}) }

// ints returns a constant of one dimension.
func (g *graph) ints(v ...int64) ref { return g.tensor(v, len(v)) }

// wide returns 32-bit numbers, which take half the space, as doubles.
func (g *graph) wide(values []float32, shape ...int) ref {
	return g.cast(g.tensor(values, shape...), typeDouble)
}

func (g *graph) cast(x ref, to int) ref { return g.node("", "Cast", []attr{{"to", to}}, x) }

// round rounds numbers to 32 bits, like features.
func (g *graph) round(x ref) ref { return g.cast(g.cast(x, typeFloat), typeDouble) }

func (g *graph) clip(x ref, low, high float64) ref {
	return g.op("Clip", x, g.scalar(low), g.scalar(high))
}

// sum returns the sums of the rows of x, keeping the dimension.
func (g *graph) sum(x ref) ref { return g.op("ReduceSum", x, g.ints(1)) }

func (g *graph) concat(axis int, in ...ref) ref {
	if len(in) == 1 {
		return in[0]
	}
	return g.node("", "Concat", []attr{{"axis", axis}}, in...)
}

func (g *graph) argMax(x ref) ref {
	return g.node("", "ArgMax", []attr{{"axis", 1}, {"keepdims", 1}}, x)
}

// smallest returns the columns, [N,k], of the k smallest numbers of each row of x, the
// smallest first, and the first columns of equal ones.
func (g *graph) smallest(x ref, k int) ref {
	values, columns := g.next(), g.next()
	g.nodes.bytes(1, operator([]ref{values, columns}, "", "TopK", []attr{{"axis", 1}, {"largest", 0}, {"sorted", 1}}, []ref{x, g.ints(int64(k))}))
	return columns
}

// oneHot returns [N,n] numbers, with 1 in the column given by code, [N,1] of int64.
func (g *graph) oneHot(code ref, n int) ref {
	all := make([]int64, n)
	for k := range all {
		all[k] = int64(k)
	}
	return g.cast(g.op("Equal", code, g.tensor(all, 1, n)), typeDouble)
}

// encode maps the texts of x to int64 numbers; others is the number of all other
// texts.
func (g *graph) encode(x ref, texts []string, codes []int64, others int) ref {
	return g.node(domainML, "LabelEncoder", []attr{{"keys_strings", texts}, {"values_int64s", codes}, {"default_int64", others}}, x)
}

func (g *graph) input(v Value) ref {
	g.inputs = append(g.inputs, v)
	return ref(v.Name)
}

// output gives x, of shape [N,1] or with more columns, a name.
func (g *graph) output(x ref, name, typ string, columns int) {
	v := Value{Name: name, Type: typ}
	if columns == 1 {
		g.into(ref(name), "", "Squeeze", nil, x, g.ints(1))
	} else {
		v.Shape = []int64{int64(columns)}
		g.into(ref(name), "", "Identity", nil, x)
	}
	g.outputs = append(g.outputs, v)
}

// meta is an entry of metadata_props.
type meta struct{ key, value string }

// model returns the ModelProto.
func (g *graph) model(name, producer string, version int64, metas []meta) []byte {
	graph := append(message{}, g.nodes...)
	graph.text(2, name)
	graph = append(graph, g.tensors...)
	graph = append(graph, g.infos...)
	for i := range g.inputs {
		graph.bytes(11, g.inputs[i].info())
	}
	for i := range g.outputs {
		graph.bytes(12, g.outputs[i].info())
	}
	ir, ops := int64(irVersion), int64(opset)
	if g.texts {
		ir, ops = irVersionTexts, opsetTexts
	}
	var m message
	m.int(1, ir)
	m.text(2, "streamsvm")
	m.text(3, producer)
	m.int(5, version)
	m.bytes(7, graph)
	use := func(domain string, version int64) {
		var o message
		o.text(1, domain)
		o.int(2, version)
		m.bytes(8, o)
	}
	use("", ops)
	if g.domains[domainML] {
		use(domainML, opsetML)
	}
	if g.domains[domainMicrosoft] {
		use(domainMicrosoft, opsetMicrosoft)
	}
	for _, e := range metas {
		var s message
		s.text(1, e.key)
		s.text(2, e.value)
		m.bytes(14, s)
	}
	return m
}
