package registry

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/bufbuild/protocompile"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
)

// registered is the file name used for a schema: a registry names only the schemas
// that others refer to.
const registered = "registered.proto"

// builtin holds files that registries know without a reference.
var builtin = map[string]string{
	"confluent/meta.proto": `syntax = "proto3"; package confluent; import "google/protobuf/descriptor.proto";
message Meta { string doc = 1; map<string, string> params = 2; repeated string tags = 3; repeated Rule rules = 4; }
message Rule { string name = 1; string doc = 2; string expr = 3; string sql = 4; }
extend google.protobuf.FileOptions { Meta file_meta = 1088; }
extend google.protobuf.MessageOptions { Meta message_meta = 1088; }
extend google.protobuf.FieldOptions { Meta field_meta = 1088; }
extend google.protobuf.EnumOptions { Meta enum_meta = 1088; }
extend google.protobuf.EnumValueOptions { Meta enum_value_meta = 1088; }`,
	"confluent/type/decimal.proto": `syntax = "proto3"; package confluent.type;
message Decimal { bytes value = 1; uint32 precision = 2; int32 scale = 3; }`,
}

// compile returns the descriptors of a Protobuf schema: a FileDescriptorSet of
// its file and all imports, each after its own imports. A file is a text, or a
// FileDescriptorProto in base64, as some clients register it.
func compile(text string, refs []file) ([]byte, error) {
	files := map[string]protocompile.SearchResult{}
	put := func(name, text string) {
		res := protocompile.SearchResult{Source: strings.NewReader(text)}
		if f := decoded(text); f != nil {
			f.Name = new(name)
			res = protocompile.SearchResult{Proto: f}
		}
		files[name] = res
	}
	for name, text := range builtin {
		put(name, text)
	}
	for _, f := range refs {
		put(f.Name, f.Schema)
	}
	put(registered, text)
	c := protocompile.Compiler{
		Resolver: protocompile.WithStandardImports(protocompile.ResolverFunc(func(name string) (protocompile.SearchResult, error) {
			if res, ok := files[name]; ok {
				return res, nil
			}
			return protocompile.SearchResult{}, fmt.Errorf("%s is imported, and no reference of the schema", name)
		})),
		MaxParallelism: 1,
	}
	linked, err := c.Compile(context.Background(), registered)
	if err != nil {
		return nil, err
	}
	if len(linked) != 1 {
		return nil, errors.New("there is no file")
	}
	var set descriptorpb.FileDescriptorSet
	collect(linked[0], map[string]bool{}, &set)
	return proto.Marshal(&set)
}

// decoded returns the file that text holds in base64, or nil.
func decoded(text string) *descriptorpb.FileDescriptorProto {
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(raw) == 0 {
		return nil
	}
	f := new(descriptorpb.FileDescriptorProto)
	if proto.Unmarshal(raw, f) != nil {
		return nil
	}
	nameJSON(f.MessageType, f.Extension)
	return f
}

// nameJSON sets the default JSON names of fields where some clients leave them
// out.
func nameJSON(messages []*descriptorpb.DescriptorProto, fields []*descriptorpb.FieldDescriptorProto) {
	for _, f := range fields {
		if f.JsonName == nil {
			f.JsonName = new(camel(f.GetName()))
		}
	}
	for _, m := range messages {
		nameJSON(m.NestedType, slices.Concat(m.Field, m.Extension))
	}
}

// camel returns the JSON name of a field: fooBar for foo_bar.
func camel(name string) string {
	var b strings.Builder
	up := false
	for _, c := range name {
		switch {
		case c == '_':
			up = true
			continue
		case up:
			c = unicode.ToUpper(c)
		}
		b.WriteRune(c)
		up = false
	}
	return b.String()
}

// collect adds a file to the set, after its imports.
func collect(f protoreflect.FileDescriptor, seen map[string]bool, set *descriptorpb.FileDescriptorSet) {
	if seen[f.Path()] {
		return
	}
	seen[f.Path()] = true
	for i := range f.Imports().Len() {
		collect(f.Imports().Get(i), seen, set)
	}
	set.File = append(set.File, protodesc.ToFileDescriptorProto(f))
}
