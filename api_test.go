package streamsvm_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// What a package exports can be used from outside: no signature, field or type
// of a public package names one that cannot be imported there, or the wire types
// of a Kafka client.
func TestExportedTypes(t *testing.T) {
	public := 0
	for pkg := range imports(t) {
		if strings.HasPrefix(pkg, "internal/") || strings.Contains(pkg, "/internal/") || strings.HasPrefix(pkg, "cmd/") {
			continue
		}
		public++
		files, err := filepath.Glob(filepath.Join(pkg, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			checkExported(t, name, file)
		}
	}
	if public < 15 {
		t.Errorf("%d public packages found", public)
	}
}

func checkExported(t *testing.T, name string, file *ast.File) {
	hidden := map[string]string{}
	for _, spec := range file.Imports {
		p, _ := strconv.Unquote(spec.Path.Value)
		if strings.Contains(p, "/internal/") || strings.HasSuffix(p, "/kmsg") {
			as := path.Base(p)
			if spec.Name != nil {
				as = spec.Name.Name
			}
			hidden[as] = p
		}
	}
	// look reports hidden types below a node. Bodies, and what is not exported,
	// are left out.
	look := func(what string, node ast.Node) {
		ast.Inspect(node, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.StructType:
				n.Fields.List = exportedFields(n.Fields.List)
			case *ast.InterfaceType:
				n.Methods.List = exportedFields(n.Methods.List)
			case *ast.SelectorExpr:
				if x, ok := n.X.(*ast.Ident); ok && hidden[x.Name] != "" {
					t.Errorf("%s: exported %s names %s.%s", name, what, hidden[x.Name], n.Sel.Name)
				}
			}
			return true
		})
	}
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Name.IsExported() && (d.Recv == nil || exportedReceiver(d.Recv.List[0].Type)) {
				look(d.Name.Name, d.Type)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch s := spec.(type) {
				case *ast.TypeSpec:
					if s.Name.IsExported() {
						look(s.Name.Name, s.Type)
					}
				case *ast.ValueSpec:
					if s.Names[0].IsExported() && s.Type != nil {
						look(s.Names[0].Name, s.Type)
					}
				}
			}
		}
	}
}

// exportedFields keeps the fields and methods that can be seen from outside. An
// embedded type of a learner's options is told by its own name.
func exportedFields(list []*ast.Field) []*ast.Field {
	var out []*ast.Field
	for _, f := range list {
		if len(f.Names) > 0 && f.Names[0].IsExported() || len(f.Names) == 0 {
			out = append(out, f)
		}
	}
	return out
}

func exportedReceiver(x ast.Expr) bool {
	for {
		switch e := x.(type) {
		case *ast.StarExpr:
			x = e.X
		case *ast.IndexExpr:
			x = e.X
		case *ast.Ident:
			return e.IsExported()
		default:
			return false
		}
	}
}
