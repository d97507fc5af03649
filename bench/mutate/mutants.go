package main

import (
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// Mutant is one change: in File, the bytes [From, To), Old, become New.
type Mutant struct {
	File, Func, Op string
	Line, From, To int
	Old, New       string
	Nth            int // among the same changes in Func
	ID             int // in this run

	pkg        string
	begin, end int // of the function's body, between the braces
	results    bool
	labels     []string
	rank       uint64
}

func (m *Mutant) key() string {
	return fmt.Sprintf("%s %s %s %q %q %d", m.File, m.Func, m.Op, m.Old, m.New, m.Nth)
}

func (m *Mutant) String() string {
	short := func(s string) string {
		s = strings.Join(strings.Fields(s), " ")
		if len(s) > 60 {
			s = s[:57] + "..."
		}
		return s
	}
	return fmt.Sprintf("%s:%d %s: %s: %s → %s", m.File, m.Line, m.Func, m.Op, short(m.Old), short(m.New))
}

var swaps = map[token.Token][]string{
	token.LSS: {"<=", ">="}, token.LEQ: {"<", ">"}, token.GTR: {">=", "<="}, token.GEQ: {">", "<"},
	token.EQL: {"!="}, token.NEQ: {"=="},
	token.ADD: {"-"}, token.SUB: {"+"}, token.MUL: {"/"}, token.QUO: {"*"}, token.REM: {"*"},
	token.LAND: {"||"}, token.LOR: {"&&"},
	token.ADD_ASSIGN: {"-=", "="}, token.SUB_ASSIGN: {"+="}, token.MUL_ASSIGN: {"/="}, token.QUO_ASSIGN: {"*="},
	token.INC: {"--"}, token.DEC: {"++"},
	token.CONTINUE: {"break"}, token.BREAK: {"continue"},
	token.SHL: {">>"}, token.SHR: {"<<"}, token.AND: {"|"}, token.OR: {"&"},
}

var words = map[string]string{"true": "false", "false": "true", "min": "max", "max": "min"}

// mutants returns what may be changed in the functions of a package.
func mutants(root, pkg string, skip *regexp.Regexp) ([]*Mutant, error) {
	p, err := build.ImportDir(filepath.Join(root, pkg), 0)
	if err != nil {
		return nil, err
	}
	var all []*Mutant
	for _, name := range p.GoFiles {
		file := filepath.Join(pkg, name)
		src, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			return nil, err
		}
		set := token.NewFileSet()
		tree, err := parser.ParseFile(set, file, src, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		for _, d := range tree.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Body == nil || f.Name.Name == "init" {
				continue
			}
			name := f.Name.Name
			if f.Recv != nil {
				name = typeName(f.Recv.List[0].Type) + "." + name
			}
			if skip.MatchString(file + " " + name) {
				continue
			}
			var labels []string
			ast.Inspect(f.Body, func(n ast.Node) bool {
				if l, ok := n.(*ast.LabeledStmt); ok {
					labels = append(labels, l.Label.Name)
				}
				return true
			})
			nth := map[string]int{}
			add := func(op string, from, to token.Pos, text string) {
				m := &Mutant{
					File: file, Func: name, Op: op, Line: set.Position(from).Line, From: set.Position(from).Offset, To: set.Position(to).Offset, New: text,
					pkg: tree.Name.Name, begin: set.Position(f.Body.Lbrace).Offset + 1, end: set.Position(f.Body.Rbrace).Offset,
					results: f.Type.Results != nil, labels: labels,
				}
				m.Old = string(src[m.From:m.To])
				key := m.key()
				m.Nth = nth[key]
				nth[key]++
				all = append(all, m)
			}
			text := func(n ast.Node) string {
				return string(src[set.Position(n.Pos()).Offset:set.Position(n.End()).Offset])
			}
			ast.Inspect(f.Body, func(n ast.Node) bool { return visit(n, add, text) })
		}
	}
	return all, nil
}

func typeName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return typeName(e.X)
	case *ast.IndexExpr:
		return typeName(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}

// visit adds the mutants of one node.
func visit(n ast.Node, add func(op string, from, to token.Pos, text string), text func(ast.Node) string) bool {
	swap := func(at token.Pos, t token.Token) {
		for _, s := range swaps[t] {
			add("operator", at, at+token.Pos(len(t.String())), s)
		}
	}
	drop := func(n ast.Node) {
		if !strings.Contains(text(n), "Log.") {
			add("dropped", n.Pos(), n.End(), "")
		}
	}
	negate := func(c ast.Expr) {
		if c == nil {
			return
		}
		// Of a comparison the swapped operator is that already.
		if b, ok := c.(*ast.BinaryExpr); !ok || b.Op != token.EQL && b.Op != token.NEQ {
			add("negated", c.Pos(), c.End(), "!("+text(c)+")")
		}
	}
	switch n := n.(type) {
	case *ast.CallExpr:
		name := text(n.Fun)
		if name == "panic" || strings.HasPrefix(name, "fmt.") || strings.HasPrefix(name, "errors.New") || strings.Contains(name, "Log.") {
			return false // messages
		}
		if len(n.Args) == 1 && (strings.HasSuffix(name, "IntN") || strings.HasSuffix(name, "Uint64N")) {
			add("range", n.Args[0].End(), n.Args[0].End(), "+1")
		}
	case *ast.ImportSpec, *ast.ArrayType:
		return false
	case *ast.BinaryExpr:
		if t := text(n); t == "err != nil" || t == "err == nil" {
			return false // anything would notice; "error dropped" is the real question
		}
		swap(n.OpPos, n.Op)
	case *ast.IncDecStmt:
		swap(n.TokPos, n.Tok)
		drop(n)
	case *ast.AssignStmt:
		swap(n.TokPos, n.Tok)
		if n.Tok != token.DEFINE {
			drop(n)
		}
	case *ast.BranchStmt:
		if n.Label == nil {
			swap(n.TokPos, n.Tok)
		}
	case *ast.ExprStmt, *ast.DeferStmt:
		drop(n)
	case *ast.IfStmt:
		negate(n.Cond)
	case *ast.ForStmt:
		negate(n.Cond)
	case *ast.ReturnStmt:
		if k := len(n.Results); k > 0 {
			last := n.Results[k-1]
			switch t := text(last); {
			case t == "err" || strings.HasPrefix(t, "fmt.Errorf"):
				add("error dropped", last.Pos(), last.End(), "nil")
			case k == 1 && t != "nil" && t != "true" && t != "false":
				add("dropped", n.Pos(), n.End(), "") // compiles where nothing is returned, or more follows
			}
		} else {
			drop(n)
		}
	case *ast.CaseClause:
		if len(n.Body) > 0 {
			add("dropped", n.Body[0].Pos(), n.Body[len(n.Body)-1].End(), "")
		}
	case *ast.Ident:
		if w := words[n.Name]; w != "" {
			add("constant", n.Pos(), n.End(), w)
		}
	case *ast.BasicLit:
		switch n.Kind {
		case token.INT:
			if !strings.HasPrefix(n.Value, "0o") {
				add("constant", n.Pos(), n.End(), "("+n.Value+"+1)")
				add("constant", n.Pos(), n.End(), "("+n.Value+"-1)")
			}
		case token.FLOAT:
			if strings.Trim(n.Value, "0.") == "" {
				break
			}
			add("constant", n.Pos(), n.End(), "("+n.Value+"*2)")
			add("constant", n.Pos(), n.End(), "("+n.Value+"/2)")
		}
	}
	return true
}
