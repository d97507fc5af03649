package streamsvm_test

import (
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
		"stream", "checkpoint/state",
		"internal/atomicfile", "internal/calibrate", "internal/columns", "internal/delta", "internal/event", "internal/finitesum", "internal/jsonenc", "internal/kernel/...", "internal/linear", "internal/normal", "internal/par", "internal/plain",
		"internal/rff", "internal/reach", "internal/remind", "internal/rng", "internal/sift", "internal/spell", "internal/vec", "internal/version", "internal/weight", "internal/wire",
	}},
	{"sampling, the contract of learners, what measures them and chooses their options", []string{
		"samplers", "algos", "algos/model", "algos/internal/...", "internal/eval", "internal/gate", "internal/prep", "internal/rest", "internal/tune",
	}},
	{"learners", []string{"algos/..."}},
	{"what is read and written", []string{
		"checkpoint", "predictor", "stream/...", "internal/onnx", "internal/pipeline",
	}},
	{"what a build may leave out", []string{"contrib/..."}},
	{"the main job", []string{"internal/deadletter", "internal/engine", "trainer"}},
	{"applications", []string{"internal/app/..."}},
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

// imports returns, for each package, which packages of the module its files
// import. Files of tests and of other modules are left out.
func imports(t *testing.T) map[string][]string {
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
		src, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		pkg := path.Dir(filepath.ToSlash(file))
		list[pkg] = append(list[pkg], nil...)
		for _, spec := range src.Imports {
			p, _ := strconv.Unquote(spec.Path.Value)
			if p, ok := strings.CutPrefix(p, module+"/"); ok && !slices.Contains(list[pkg], p) {
				list[pkg] = append(list[pkg], p)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// Only cmd/streamsvm/contrib.go imports what is in contrib, and only in builds
// without the tag core.
func TestContrib(t *testing.T) {
	for pkg, deps := range imports(t) {
		for _, dep := range deps {
			if strings.HasPrefix(dep, "contrib/") && !strings.HasPrefix(pkg, "contrib/") && pkg != "cmd/streamsvm" {
				t.Errorf("%s imports %s", pkg, dep)
			}
		}
	}
	for tag, want := range map[string]bool{"": true, "core": false} {
		deps := dependencies(t, tag, "./cmd/streamsvm")
		for _, pkg := range []string{module + "/contrib/registry", "github.com/twmb/avro", "github.com/bufbuild/protocompile"} {
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
			t.Errorf("cmd/streamsvm has %s, which makes it a sixth larger; see internal/app/chart/html.go", pkg)
		}
	}
}
