package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

const env = "STREAMSVM_MUTANT"

// builder makes test programs that contain mutants.
type builder struct {
	root, dir string
	overlay   string

	mu    sync.Mutex
	tests map[string]*program // by folder
}

// program is a built test program.
type program struct {
	built, timed sync.Once
	path         string
	quick        string // an expression for the tests that are run first
}

// write makes the overlay of all mutants in draw.
func (b *builder) write(draw map[string][]*Mutant) {
	replace, byFile := map[string]string{}, map[string][]*Mutant{}
	put := func(name string, text []byte) {
		file := filepath.Join(b.dir, fmt.Sprintf("%d.go", len(replace)))
		if err := os.WriteFile(file, text, 0o666); err != nil {
			log.Fatal(err)
		}
		replace[filepath.Join(b.root, name)] = file
	}
	for pkg, list := range draw {
		for _, m := range list {
			byFile[m.File] = append(byFile[m.File], m)
		}
		if len(list) > 0 {
			put(filepath.Join(pkg, "zz_mutant.go"), fmt.Appendf(nil, `package %s
import ("os"; "strconv")
var mutantID, _ = strconv.Atoi(os.Getenv(%q))
`, list[0].pkg, env))
		}
	}
	for name, list := range byFile {
		src, err := os.ReadFile(filepath.Join(b.root, name))
		if err != nil {
			log.Fatal(err)
		}
		put(name, instrument(src, name, list))
	}
	b.overlay, b.tests = filepath.Join(b.dir, "overlay.json"), map[string]*program{}
	text, _ := json.Marshal(map[string]any{"Replace": replace})
	if err := os.WriteFile(b.overlay, text, 0o666); err != nil {
		log.Fatal(err)
	}
}

// instrument puts the bodies of mutants in front of those of their functions.
func instrument(src []byte, name string, list []*Mutant) []byte {
	bodies := map[int][]*Mutant{}
	for _, m := range list {
		bodies[m.begin] = append(bodies[m.begin], m)
	}
	var out []byte
	at := 0
	for _, begin := range slices.Sorted(maps.Keys(bodies)) {
		out = append(append(out, src[at:begin]...), "\nswitch mutantID {\n"...)
		at = begin
		for _, m := range bodies[begin] {
			body := string(src[begin:m.From]) + m.New + string(src[m.To:m.end])
			for _, label := range m.labels { // their scope is the function
				body = regexp.MustCompile(`\b`+label+`\b`).ReplaceAllString(body, fmt.Sprint(label, m.ID))
			}
			end := "return"
			if m.results {
				end = `panic("a mutant without a result")`
			}
			out = fmt.Appendf(out, "case %d:\n//line mutant%d.go:1\n{%s\n}\n%s\n", m.ID, m.ID, body, end)
		}
		line := 1 + bytes.Count(src[:begin], []byte("\n"))
		out = fmt.Appendf(out, "}\n//line %s:%d\n", filepath.Base(name), line)
	}
	return append(out, src[at:]...)
}

func (b *builder) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir = b.root
	// Tests that build commands build mutants, too.
	cmd.Env = append(os.Environ(), "GOFLAGS=-overlay="+b.overlay)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

// dropVoid removes the mutants that do not compile.
func (b *builder) dropVoid(packages []string, draw map[string][]*Mutant) {
	for n, list := range slices.Sorted(maps.Keys(draw)) {
		for i, m := range draw[list] {
			m.ID = 1 + 1000*n + i
		}
	}
	for {
		b.write(draw)
		args := []string{"go", "build", "-gcflags=-e"}
		for _, pkg := range packages {
			args = append(args, "./"+pkg)
		}
		output, err := b.command(context.Background(), args...).CombinedOutput()
		if err == nil {
			return
		}
		void := map[int]bool{}
		for _, m := range regexp.MustCompile(`mutant(\d+)\.go`).FindAllSubmatch(output, -1) {
			id, _ := strconv.Atoi(string(m[1]))
			void[id] = true
		}
		if len(void) == 0 {
			log.Fatalf("%s", output)
		}
		for pkg := range draw {
			draw[pkg] = slices.DeleteFunc(draw[pkg], func(m *Mutant) bool { return void[m.ID] })
		}
	}
}

// program builds the tests of a folder.
func (b *builder) program(folder string) *program {
	b.mu.Lock()
	p := b.tests[folder]
	if p == nil {
		p = &program{path: filepath.Join(b.dir, strings.ReplaceAll(folder, "/", "-")+".test")}
		b.tests[folder] = p
	}
	b.mu.Unlock()
	p.built.Do(func() {
		output, err := b.command(context.Background(), "go", "test", "-c", "-vet=off", "-gcflags=-e", "-o", p.path, "./"+folder).CombinedOutput()
		if err != nil {
			log.Fatalf("%s", output)
		}
	})
	return p
}

// rounds returns the options for runs of a program, the tests that take less
// than half a second without a mutant first.
func (b *builder) rounds(p *program, folder string) [][]string {
	p.timed.Do(func() {
		var output []byte
		for tries := 1; ; tries++ { // on a busy machine a test may come too late
			cmd := b.command(context.Background(), p.path, "-test.v")
			cmd.Dir = filepath.Join(b.root, folder)
			var err error
			if output, err = cmd.CombinedOutput(); err == nil {
				break
			}
			if tries == 3 {
				log.Fatalf("%s fails without a mutant:\n%s", folder, output)
			}
		}
		var quick []string
		for _, m := range regexp.MustCompile(`(?m)^--- PASS: (\w+) \((\S+)s\)`).FindAllSubmatch(output, -1) {
			if t, _ := strconv.ParseFloat(string(m[2]), 64); t < 0.5 {
				quick = append(quick, string(m[1]))
			}
		}
		p.quick = "^(" + strings.Join(quick, "|") + ")$"
	})
	return [][]string{{"-test.run", p.quick}, {"-test.skip", p.quick}}
}

// try runs tests, those that are quick first, with a mutant.
func (b *builder) try(tests string, id int, limit time.Duration) (verdict, by string) {
	folder, run, _ := strings.Cut(tests, ":")
	p := b.program(folder)
	rounds := [][]string{{"-test.run", run}}
	if run == "" {
		rounds = b.rounds(p, folder)
	}
	for _, round := range rounds {
		ctx, cancel := context.WithTimeout(context.Background(), limit+time.Minute)
		cmd := b.command(ctx, append([]string{p.path, "-test.failfast", "-test.timeout", limit.String()}, round...)...)
		cmd.Dir = filepath.Join(b.root, folder)
		cmd.Env = append(cmd.Env, fmt.Sprint(env, "=", id))
		output, err := cmd.CombinedOutput()
		late := ctx.Err() != nil || bytes.Contains(output, []byte("panic: test timed out")) || bytes.Contains(output, []byte("SIGXCPU"))
		cancel()
		if err == nil {
			continue
		}
		if late {
			return "timeout", folder
		}
		noticed := regexp.MustCompile(`--- FAIL: (\w+)`).FindSubmatch(output)
		if noticed == nil {
			return "killed", folder + " by a panic"
		}
		return "killed", folder + " " + string(noticed[1])
	}
	return "survived", ""
}
