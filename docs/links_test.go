// Package docs checks the documentation: its links, the paths it names, and
// the bytes that the pages on formats show.
package docs

import (
	"go/parser"
	"go/token"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode"
)

var (
	fence  = regexp.MustCompile("(?ms)^[ \t]*```.*?^[ \t]*```[ \t]*$")
	inline = regexp.MustCompile("`[^`\n]*`")
	link   = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	title  = regexp.MustCompile(`(?m)^#{1,6} +(.+?) *$`)
)

// pages returns the text of every Markdown file of the repository, by path
// from its root.
func pages(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != ".." && strings.HasPrefix(d.Name(), "."):
			return filepath.SkipDir
		case d.IsDir() || filepath.Ext(path) != ".md":
			return nil
		}
		text, err := os.ReadFile(path)
		rel, _ := filepath.Rel("..", path)
		all[filepath.ToSlash(rel)] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// anchors returns the names that GitHub gives to the headings of a page.
func anchors(text string) map[string]bool {
	all := map[string]bool{}
	for _, m := range title.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
		name := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
				return unicode.ToLower(r)
			}
			return -1
		}, m[1])
		unique := name
		for n := 1; all[unique]; n++ {
			unique = name + "-" + strconv.Itoa(n)
		}
		all[unique] = true
	}
	return all
}

// Every relative link leads to a file of the repository, and to a heading of it
// where it names one.
func TestLinks(t *testing.T) {
	all := pages(t)
	if len(all) < 10 {
		t.Fatalf("only %d pages", len(all))
	}
	links := 0
	for page, text := range all {
		text = inline.ReplaceAllString(fence.ReplaceAllString(text, ""), "")
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			u, err := url.Parse(m[1])
			if err != nil {
				t.Errorf("%s: %v", page, err)
				continue
			}
			if u.Scheme != "" {
				continue
			}
			links++
			target := page
			if u.Path != "" {
				target = filepath.ToSlash(filepath.Join(filepath.Dir(page), u.Path))
			}
			if _, err := os.Stat(filepath.Join("..", target)); err != nil {
				t.Errorf("%s: link to %s: there is no such file", page, m[1])
			} else if u.Fragment != "" && !anchors(all[target])[u.Fragment] {
				t.Errorf("%s: link to %s: %s has no such heading", page, m[1], target)
			}
		}
	}
	if links < 20 {
		t.Errorf("only %d links found", links)
	}
}

var (
	code = regexp.MustCompile("`([a-z][a-zA-Z0-9_./-]*)`")
	roof = regexp.MustCompile(`^(cmd|bench|internal|trainer|predictor|algos|samplers|stream|checkpoint|scripts|docs)(/|$)`)
)

// Every folder and file of the repository that the page on architecture names
// is there.
func TestPaths(t *testing.T) {
	text := pages(t)["docs/architecture.md"]
	paths := map[string]bool{}
	for _, m := range code.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
		if roof.MatchString(m[1]) {
			paths[m[1]] = true
		}
	}
	if len(paths) < 50 {
		t.Errorf("only %d paths found", len(paths))
	}
	for p := range paths {
		// stream.Source and the like begin as a path does.
		if dir, _, ok := strings.Cut(p, "."); ok && !strings.Contains(p, "/") && roof.MatchString(dir) {
			continue
		}
		if _, err := os.Stat(filepath.Join("..", p)); err != nil {
			t.Errorf("architecture.md names %s, which does not exist", p)
		}
	}
}

var (
	floor  = regexp.MustCompile(`(?s)\{"([^"]+)", \[\]string\{([^}]*)\}\}`)
	quoted = regexp.MustCompile(`"([^"]+)"`)
)

// The table of floors on the page on architecture is that of floors_test.go.
func TestFloors(t *testing.T) {
	src, err := os.ReadFile(filepath.Join("..", "floors_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	rooms := map[string]string{} // floor by room
	for _, m := range floor.FindAllStringSubmatch(string(src), -1) {
		for _, r := range quoted.FindAllStringSubmatch(m[2], -1) {
			rooms[r[1]] = m[1]
		}
	}
	_, table, _ := strings.Cut(pages(t)["docs/architecture.md"], "\n| floor |")
	table, _, _ = strings.Cut(table, "\n\n")
	on, named := "", map[string]bool{}
	for _, row := range strings.Split(table, "\n")[2:] {
		cells := strings.Split(row, "|")
		if name := strings.TrimSpace(cells[1]); name != "" {
			on = name
		}
		for _, m := range code.FindAllStringSubmatch(cells[2], -1) {
			named[m[1]] = true
			want := rooms[m[1]]
			for dir := m[1]; want == "" && dir != "."; dir = path.Dir(dir) {
				want = rooms[dir+"/..."]
			}
			if want != on && on != "on no floor" {
				t.Errorf("%s is on the floor %q, the page says %q", m[1], want, on)
			}
		}
	}
	for r := range rooms {
		if !strings.HasSuffix(r, "...") && !named[r] {
			t.Errorf("the page does not name %s", r)
		}
	}
	if len(rooms) < 20 || len(named) < 40 {
		t.Errorf("found %d rooms and %d packages", len(rooms), len(named))
	}
}

var (
	promise = regexp.MustCompile("(?m)^\\| (`[^|]+`) \\|[^|\n]*\\| (stable|may change) \\|$")
	snippet = regexp.MustCompile("(?s)\\]\\(\\.\\./([^)]*\\.go)\\)|```go\n(.*?)```")
)

// The page on the library and the documentation of each public package agree on
// whether its API is stable, and its programs are copied from code that is run.
func TestLibrary(t *testing.T) {
	text := pages(t)["docs/library.md"]
	packages, programs := 0, 0
	for _, m := range promise.FindAllStringSubmatch(text, -1) {
		want := map[string]string{"stable": "The API is stable", "may change": "The API may change"}[m[2]]
		for _, p := range code.FindAllStringSubmatch(m[1], -1) {
			packages++
			if doc := strings.Join(strings.Fields(packageDoc(t, p[1])), " "); !strings.Contains(doc, want) {
				t.Errorf("package %s does not say: %s", p[1], want)
			}
		}
	}
	source := "" // the file that the page has named last
	for _, m := range snippet.FindAllStringSubmatch(text, -1) {
		if m[1] != "" {
			data, err := os.ReadFile(filepath.Join("..", m[1]))
			if err != nil {
				t.Fatal(err)
			}
			source = string(data)
			continue
		}
		programs++
		for line := range strings.Lines(m[2]) {
			if line = strings.TrimSpace(line); !strings.Contains(source, line) {
				t.Errorf("this line of a program is not in the file named before it: %s", line)
			}
		}
	}
	if packages < 15 || programs < 4 {
		t.Errorf("found %d packages and %d programs", packages, programs)
	}
}

// packageDoc returns the documentation of a package of this module.
func packageDoc(t *testing.T, dir string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", dir, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("package %s: no files, %v", dir, err)
	}
	doc := ""
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.PackageClauseOnly|parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		doc += f.Doc.Text()
	}
	return doc
}
