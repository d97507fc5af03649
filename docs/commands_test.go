package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	listed  = regexp.MustCompile(`(?m)^  ([a-z]+) {2,}\S`)
	setting = regexp.MustCompile("(?m)^\\| `([a-z][a-z0-9-]*)` \\|.*\\| ([a-z, ]+) \\|$")
	called  = regexp.MustCompile(`(?:^|[\s(|;&/]|exec )streamsvm ([a-z]+)((?:\\\n|[^\n|;&#])*)`)
	given   = regexp.MustCompile(`(?:^|\s)--([a-z][a-z0-9-]*)`)
	text    = regexp.MustCompile(`'[^']*'|"[^"]*"`)
	several = regexp.MustCompile(`\*(all that [a-z ]+)\* are ([a-z, ]+)[;.]`)
	code4   = regexp.MustCompile(`(?m)^(?: {4}|\t).*$`)
)

// Every command in code on a page exists, with the flags that it is given.
func TestCommands(t *testing.T) {
	help, err := os.ReadFile(filepath.Join("..", "cmd", "streamsvm", "testdata", "help.golden"))
	if err != nil {
		t.Fatal(err)
	}
	flags := map[string]map[string]bool{"man": {}, "completion": {}}
	for _, m := range listed.FindAllStringSubmatch(string(help), -1) {
		flags[m[1]] = map[string]bool{"config": true, "log-level": true, "log-format": true, "quiet": true, "help": true, "help-all": true}
	}
	all := pages(t)
	list := map[string]string{}
	for _, m := range several.FindAllStringSubmatch(all["docs/configuration.md"], -1) {
		list[m[1]] = m[2]
	}
	for _, m := range setting.FindAllStringSubmatch(all["docs/configuration.md"], -1) {
		commands := m[2]
		if list[commands] != "" {
			commands = list[commands]
		}
		for c := range strings.SplitSeq(commands, ", ") {
			if flags[c] != nil {
				flags[c][m[1]] = true
			}
		}
	}
	flags["doctor"] = flags["train"]
	calls := 0
	for page, md := range all {
		parts := fence.FindAllString(md, -1)
		rest := fence.ReplaceAllString(md, "")
		parts = append(parts, strings.Join(code4.FindAllString(rest, -1), "\n"))
		for _, b := range inline.FindAllString(rest, -1) {
			parts = append(parts, strings.Trim(b, "`"))
		}
		for _, p := range parts {
			p = text.ReplaceAllString(p, "''")
			for _, m := range called.FindAllStringSubmatch(p, -1) {
				known := flags[m[1]]
				if known == nil {
					t.Errorf("%s: there is no command %q", page, m[1])
					continue
				}
				calls++
				own, _, _ := strings.Cut(m[2], " -- ") // what follows are flags of another command
				for _, f := range given.FindAllStringSubmatch(own, -1) {
					if !known[f[1]] {
						t.Errorf("%s: streamsvm %s has no flag --%s", page, m[1], f[1])
					}
				}
			}
		}
	}
	if calls < 100 {
		t.Errorf("only %d commands found", calls)
	}
}

// The README is what a newcomer reads first, and stays short.
func TestReadmeIsShort(t *testing.T) {
	if n := strings.Count(pages(t)["README.md"], "\n"); n > 150 {
		t.Errorf("README.md has %d lines, 150 are enough", n)
	}
}
