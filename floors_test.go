package streamsvm_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/streamsvm/streamsvm"

// floors lists the rooms of the house from the ground up. A package may import
// packages of its own floor and of those below. A name that ends in /... is a
// folder with all that is below it; the longest name that fits counts, and of
// two equal ones the one without /....
var floors = []struct {
	name  string
	rooms []string
}{
	{"leaves: numbers, bytes and the types of a stream", []string{
		"stream", "checkpoint/state", "compare", "events",
		"internal/atomicfile", "internal/calibrate", "internal/columns", "internal/crash", "internal/delta", "internal/finitesum", "internal/jsonenc", "internal/kernel/...", "internal/linear", "internal/par", "internal/plain",
		"internal/rff", "internal/reach", "internal/remind", "internal/rng", "internal/sift", "internal/spell", "internal/vec", "internal/version", "internal/weight", "internal/wire",
	}},
	{"sampling, the contract of learners, what measures them and chooses their options", []string{
		"samplers", "algos", "algos/model", "algos/ovr", "internal/eval", "internal/expansion", "internal/hinge", "internal/prep", "internal/rank", "internal/rffmodel", "internal/tune",
	}},
	{"learners", []string{"algos/..."}},
	{"what is read and written", []string{
		"checkpoint", "predictor", "stream/...", "topiclog", "internal/pipeline",
	}},
	{"the main job", []string{"internal/deadletter", "internal/engine", "internal/promote", "trainer"}},
	{"applications", []string{"internal/app/..."}},
	{"what a build may leave out", []string{"contrib/..."}},
	{"commands", []string{"cmd/..."}},
}

// floorOf returns the floor of a package, by its path in the module, and the
// room of the table that names it.
func floorOf(pkg string) (floor int, room string) {
	floor = -1
	for i, f := range floors {
		for _, r := range f.rooms {
			if r == pkg {
				return i, r
			}
			tree, all := strings.CutSuffix(r, "...")
			if all && strings.HasPrefix(pkg+"/", tree) && len(r) > len(room) {
				floor, room = i, r
			}
		}
	}
	return floor, room
}

// sources returns the files of each package. Those of tests and of other modules
// are left out.
func sources(t *testing.T) map[string][]string {
	t.Helper()
	list := map[string][]string{}
	err := filepath.WalkDir(".", func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || file != "." && isModule(file)):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go"):
			return nil
		}
		pkg := path.Dir(filepath.ToSlash(file))
		list[pkg] = append(list[pkg], file)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// imports returns, for each package, which packages of the module its files import.
func imports(t *testing.T) map[string][]string {
	t.Helper()
	list := map[string][]string{}
	for pkg, files := range sources(t) {
		list[pkg] = nil
		for _, file := range files {
			src, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
			if err != nil {
				t.Fatal(err)
			}
			for _, spec := range src.Imports {
				p, _ := strconv.Unquote(spec.Path.Value)
				if p, ok := strings.CutPrefix(p, module+"/"); ok && !slices.Contains(list[pkg], p) {
					list[pkg] = append(list[pkg], p)
				}
			}
		}
	}
	return list
}

// A panic on a goroutine that does not have crash.Recover ends the program past
// everything that the program has to say about it. So shipped code starts
// goroutines through internal/crash, and wraps what others start or call back.
func TestGoroutines(t *testing.T) {
	reasons := map[string]string{
		"internal/crash": "is what the others use",
		"internal/par":   "passes panics on to the goroutine that waits",
	}
	used := map[string]bool{}
	for pkg, files := range sources(t) {
		if strings.HasPrefix(pkg, "internal/testkit/") || pkg == "algos/algostest" {
			continue
		}
		for _, file := range files {
			set := token.NewFileSet()
			src, err := parser.ParseFile(set, file, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			for _, at := range bareGoroutines(src) {
				if used[pkg] = true; reasons[pkg] == "" {
					t.Errorf("%v: a goroutine without crash.Recover: use crash.Go, or wrap the function by crash.Func or crash.Task", set.Position(at))
				}
			}
		}
	}
	for pkg, why := range reasons {
		if !used[pkg] {
			t.Errorf("%s starts no goroutine, although it %s", pkg, why)
		}
	}
}

// bareGoroutines returns where a file starts goroutines, or has functions called on
// others (errgroup.Go, WaitGroup.Go, time.AfterFunc, context.AfterFunc), without
// package crash.
func bareGoroutines(src ast.Node) (list []token.Pos) {
	of := func(e ast.Expr) (x, name string) { // x is "" where it is no identifier
		sel, ok := e.(*ast.SelectorExpr)
		if !ok {
			return "", ""
		}
		if id, ok := sel.X.(*ast.Ident); ok {
			x = id.Name
		}
		return x, sel.Sel.Name
	}
	ast.Inspect(src, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			list = append(list, n.Pos())
		case *ast.CallExpr:
			x, name := of(n.Fun)
			if name != "Go" && name != "AfterFunc" || x == "crash" || len(n.Args) == 0 {
				return true
			}
			if f, ok := n.Args[len(n.Args)-1].(*ast.CallExpr); ok {
				if x, name := of(f.Fun); x == "crash" && (name == "Func" || name == "Task") {
					return true
				}
			}
			list = append(list, n.Pos())
		}
		return true
	})
	return list
}

// TestBareGoroutines tries what TestGoroutines goes by.
func TestBareGoroutines(t *testing.T) {
	for code, want := range map[string]int{
		"go f()": 1, "go func() {}()": 1, "g.Go(f)": 1, "a.b.Go(func() {})": 1, "time.AfterFunc(1, f)": 1, "defer context.AfterFunc(ctx, f)()": 1,
		"g.Go(other.Func(f))": 1, "g.Go(func() { go f() })": 2,
		"crash.Go(f)": 0, "g.Go(crash.Func(f))": 0, "g.Go(crash.Task(f))": 0, "time.AfterFunc(1, crash.Func(f))": 0, "context.AfterFunc(ctx, crash.Func(func() {}))": 0,
	} {
		src, err := parser.ParseFile(token.NewFileSet(), "x.go", "package x\nfunc _() { "+code+" }", parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		if got := len(bareGoroutines(src)); got != want {
			t.Errorf("%s: %d found, want %d", code, got, want)
		}
	}
}

// Only cmd/streamsvm imports what is in contrib, in files that builds with the tag core
// leave out. Tests may use the broker.
func TestContrib(t *testing.T) {
	for pkg, deps := range imports(t) {
		for _, dep := range deps {
			if strings.HasPrefix(dep, "contrib/") && !strings.HasPrefix(pkg, "contrib/") && pkg != "cmd/streamsvm" && !strings.HasPrefix(pkg, "internal/testkit/") {
				t.Errorf("%s imports %s", pkg, dep)
			}
		}
	}
	optional := []string{"github.com/twmb/franz-go/pkg/kfake", "github.com/twmb/avro", "github.com/bufbuild/protocompile"}
	for pkg := range imports(t) {
		if strings.HasPrefix(pkg, "contrib/") {
			optional = append(optional, module+"/"+pkg)
		}
	}
	for tag, want := range map[string]bool{"": true, "core": false} {
		deps := dependencies(t, tag, "./cmd/streamsvm")
		for _, pkg := range optional {
			if slices.Contains(deps, pkg) != want {
				t.Errorf("with the tag %q cmd/streamsvm has %s: %v", tag, pkg, !want)
			}
		}
	}
}

// Those who only predict do not get a Kafka client, Avro, Protobuf, metrics or
// anything else that is large.
func TestPredictorDependencies(t *testing.T) {
	known := []string{"github.com/cespare/xxhash/v2", "github.com/vmihailenco/msgpack/v5", "github.com/vmihailenco/tagparser/v2", "go.yaml.in/yaml/v3", "golang.org/x/sync", "golang.org/x/sys"}
	for _, pkg := range dependencies(t, "", "./predictor") {
		switch own, ok := strings.CutPrefix(pkg, module+"/"); {
		case ok && (strings.HasPrefix(own, "internal/app/") || strings.HasPrefix(own, "contrib/") || own == "stream/kafkaio"):
			t.Errorf("predictor has %s", pkg)
		case ok:
		case !slices.ContainsFunc(known, func(m string) bool { return pkg == m || strings.HasPrefix(pkg, m+"/") }):
			t.Errorf("predictor has %s, of a module that is new to it", pkg)
		}
	}
}

// dependencies lists the packages outside of the standard library that pkg is built
// with.
func dependencies(t *testing.T, tag, pkg string) []string {
	t.Helper()
	out, err := exec.Command("go", "list", "-tags", tag, "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", pkg).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(string(out))
}

func isModule(dir string) bool {
	found, _ := filepath.Glob(filepath.Join(dir, "go.mod"))
	return len(found) > 0
}

// No package imports what is above it, and only tests import test kits.
func TestFloors(t *testing.T) {
	list := imports(t)
	if len(list) < 30 {
		t.Fatalf("%d packages found", len(list))
	}
	used := map[string]bool{}
	for pkg, deps := range list {
		if strings.HasPrefix(pkg, "internal/testkit/") || pkg == "algos/algostest" {
			continue // they are for tests, and may use everything
		}
		from, room := floorOf(pkg)
		if from < 0 {
			t.Errorf("%s has no floor: enter it in the table", pkg)
			continue
		}
		used[room] = true
		for _, dep := range deps {
			if strings.HasPrefix(dep, "internal/testkit/") || dep == "algos/algostest" {
				t.Errorf("%s imports %s, which is for tests", pkg, dep)
				continue
			}
			if to, _ := floorOf(dep); to > from {
				t.Errorf("%s (%s) imports %s (%s)", pkg, floors[from].name, dep, floors[to].name)
			}
		}
	}
	for _, f := range floors {
		for _, r := range f.rooms {
			if !used[r] {
				t.Errorf("the table names %s, which is not there", r)
			}
		}
	}
}

// The program has no package of templates: with one the linker keeps every
// exported method of every type, since a template may call any by its name.
func TestNoTemplates(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "./cmd/streamsvm").Output()
	if err != nil {
		t.Fatal(err)
	}
	deps := strings.Fields(string(out))
	if !slices.Contains(deps, "reflect") {
		t.Fatalf("%d packages, without reflect", len(deps))
	}
	for _, pkg := range []string{"text/template", "html/template"} {
		if slices.Contains(deps, pkg) {
			t.Errorf("cmd/streamsvm has %s, which makes it a sixth larger; see internal/app/page/html.go", pkg)
		}
	}
}
