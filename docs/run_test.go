//go:build unix

package docs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/streamsvm/streamsvm/contrib/broker"
	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/internal/testkit/dataset"
)

// TestPages runs the commands in the code blocks of each page, in order, as a
// reader would who types them, and compares what they print with the page. A page
// has a directory and a broker of its own, which testdata/setup.sh fills; ports are
// replaced by free ones.
//
// A block, indented or fenced, is run if it begins with a command. The lines below a
// command that are no commands are what it prints on stdout, or on stderr if
// nothing on stdout. Comments before a block, which GitHub does not show, say more:
//
//	<!--skip: REASON-->         do not run the block
//	<!--long-->                 run it only with STREAMSVM_LONG
//	<!--file: NAME-->           write the block, which is none of commands, to a file
//	<!--version: TOPIC COUNT--> wait before until a model of so many examples is published
//	<!--on: REGEXP-->           the commands run on: wait for a line that matches or, without REGEXP,
//	                            until what has --listen is ready, and leave them running
//	<!--exits: CODE-->          the commands end with this exit code, not with 0
//	<!--prints-->               the block is what the last command before it printed
//	<!--varies: REGEXP-->       what matches in the output differs from run to run
//
// The output is compared line by line, but for the width of gaps, times, and what varies.
// A line "…" stands for any lines. go test ./docs -run TestPages -update writes
// what is printed into the pages. Without STREAMSVM_LONG only README and start are run.
func TestPages(t *testing.T) {
	for name, text := range pages(t) {
		short := name == "README.md" || name == "docs/start.md"
		if strings.HasPrefix(name, "docs/measured/") || !short && os.Getenv("STREAMSVM_LONG") == "" {
			continue // measured: hours of benchmarks
		}
		blocks := parse(text)
		if !slices.ContainsFunc(blocks, func(b *block) bool { return len(b.steps) > 0 && b.marks["skip"] == "" }) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newShell(t)
			s.setup("bash \"$TESTDATA/setup.sh\" " + name)
			for _, b := range blocks {
				s.run(b)
			}
			s.stop()
			if *update {
				write(t, filepath.Join("..", name), text, blocks)
			}
		})
	}
}

// block is a code block of a page.
type block struct {
	line  int    // of its first line, from 0
	text  string // without indentation
	info  string // sh, python
	marks map[string]string
	steps []*step
}

// step is a command with what it prints, or only the latter.
type step struct {
	line    int // of the command, or of the output if there is no command
	command string
	first   int // line where the output begins
	indent  string
	want    []string
	got     []string // nil if nothing was compared
}

var (
	mark    = regexp.MustCompile(`^ *<!--([a-z]+)(?:: (.*))?-->$`)
	heredoc = regexp.MustCompile(`<<'(\w+)'$`)
	opening = regexp.MustCompile("^ *```([a-z]*)$")
	starts  = regexp.MustCompile(`^(streamsvm|curl|echo|printf|awk|openssl|kcat|sleep|export|go|git|pip|python3|helm|kubectl|docker|~/\S+/bin/\S+|scripts/\S+|bench/\S+|\.ci/\S+|\(umask|cd|sh) `)
)

// parse returns the code blocks of a page.
func parse(text string) (all []*block) {
	lines := strings.Split(text, "\n")
	marks := map[string]string{}
	add := func(b *block, from, to int) {
		b.line, b.marks = from, marks
		marks = map[string]string{}
		all = append(all, b)
		indent := lines[from][:len(lines[from])-len(strings.TrimLeft(lines[from], " "))]
		for _, line := range lines[from:to] {
			b.text += strings.TrimPrefix(line, indent) + "\n"
		}
		if b.info == "python" {
			b.steps = []*step{{line: from, command: b.text, first: to}}
			return
		}
		if _, ok := b.marks["prints"]; ok {
			b.steps = []*step{{line: from, first: from, indent: indent, want: strings.Split(strings.TrimSuffix(b.text, "\n"), "\n")}}
			return
		}
		for i := from; i < to; i++ {
			line := strings.TrimPrefix(lines[i], indent)
			if !starts.MatchString(line) {
				if len(b.steps) == 0 {
					return // no commands
				}
				if s := b.steps[len(b.steps)-1]; line != "" || len(s.want) > 0 {
					s.want = append(s.want, line)
				} else {
					s.first++
				}
				continue
			}
			s := &step{line: i, indent: indent}
			for s.command = line; i+1 < to && (strings.HasSuffix(s.command, `\`) || strings.Count(s.command, "'")%2 > 0); i++ {
				s.command += "\n" + strings.TrimPrefix(lines[i+1], indent)
			}
			if end := heredoc.FindStringSubmatch(line); end != nil {
				for last := ""; i+1 < to && last != end[1]; i++ {
					last = strings.TrimPrefix(lines[i+1], indent)
					s.command += "\n" + last
				}
			}
			s.first = i + 1
			b.steps = append(b.steps, s)
		}
		for _, s := range b.steps {
			for n := len(s.want); n > 0 && s.want[n-1] == ""; n-- {
				s.want = s.want[:n-1]
			}
		}
	}
	blank := true // the line before
	for i := 0; i < len(lines); i++ {
		line := lines[i]
		switch m, f := mark.FindStringSubmatch(line), opening.FindStringSubmatch(line); {
		case m != nil:
			marks[m[1]] = m[2]
		case f != nil:
			to := i + 1
			for to < len(lines) && strings.TrimSpace(lines[to]) != "```" {
				to++
			}
			if to > i+1 {
				add(&block{info: f[1]}, i+1, to)
			}
			i = to
		case blank && strings.HasPrefix(line, "    "):
			to := i + 1
			for to < len(lines) && (lines[to] == "" || strings.HasPrefix(lines[to], "    ")) {
				to++
			}
			for lines[to-1] == "" {
				to--
			}
			add(&block{}, i, to)
			i = to - 1
		case line != "":
			marks = map[string]string{}
		}
		blank = line == "" || mark.MatchString(line)
	}
	return all
}

// write puts what was printed into a page.
func write(t *testing.T, path, text string, blocks []*block) {
	lines := strings.Split(text, "\n")
	for _, b := range slices.Backward(blocks) {
		for _, s := range slices.Backward(b.steps) {
			for i, line := range s.got {
				s.got[i] = strings.TrimRight(s.indent+line, " ")
			}
			if s.got != nil {
				lines = slices.Replace(lines, s.first, s.first+len(s.want), s.got...)
			}
		}
	}
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o644); err != nil {
		t.Fatal(err)
	}
}

// shell runs the commands of a page.
type shell struct {
	t     *testing.T
	dir   string
	env   []string
	ports map[string]string // free ports by those of the page
	last  *job
	left  []*job // that run on
	lines *job   // the interpreter of the page's Python blocks, which are one program
	block int    // how many it has run
}

// job is a command that has been started.
type job struct {
	command  string
	cmd      *exec.Cmd
	in       io.WriteCloser
	out, err output
	done     chan struct{}
	checked  bool // its exit code
}

// output is what a command has printed so far.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// printed is what a page shows: stdout, or stderr if nothing is there.
func (j *job) printed() string {
	if s := j.out.String(); s != "" {
		return s
	}
	return j.err.String()
}

// program builds streamsvm and returns the directory that it is in.
var program = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "streamsvm-docs-")
	if err != nil {
		return "", err
	}
	if out, err := exec.Command("go", "build", "-o", dir, "../cmd/streamsvm").CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return dir, nil
})

func TestMain(m *testing.M) {
	flag.Set("test.parallel", "6") // pages wait most of the time
	code := m.Run()
	if dir, err := program(); err == nil {
		os.RemoveAll(dir)
	}
	os.Exit(code)
}

func newShell(t *testing.T) *shell {
	bin, err := program()
	if err != nil {
		t.Fatal(err)
	}
	b, err := broker.Start(broker.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	_, port, err := net.SplitHostPort(b.Addr())
	if err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	s := &shell{t: t, dir: t.TempDir(), ports: map[string]string{"9092": port}}
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "STREAMSVM_") {
			s.env = append(s.env, v)
		}
	}
	s.env = append(s.env, "PATH="+strings.Join([]string{bin, filepath.Dir(interpreterPath()), os.Getenv("PATH")}, ":"), "STREAMSVM_BROKERS="+b.Addr(), "PYTHONPATH="+filepath.Join(root, "python", "src"), "TESTDATA="+filepath.Join(root, "docs", "testdata"), "PYTHONDONTWRITEBYTECODE=1")
	t.Cleanup(s.stop)
	return s
}

// interpreterPath is where an interpreter is that has what the package needs, on a
// machine where .ci/run prepare has made one.
func interpreterPath() string {
	if path := os.Getenv("STREAMSVM_PYTHON"); path != "" {
		return path
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "none"
	}
	return filepath.Join(cache, "streamsvm", "python", "bin", "python")
}

// python returns that interpreter, and skips the rest of the page if there is none.
func python(t *testing.T) string {
	path := interpreterPath()
	if _, err := os.Stat(path); err != nil {
		t.Skipf("the rest of the page needs Python: set STREAMSVM_PYTHON, or run .ci/run (%v)", err)
	}
	return path
}

var (
	address = regexp.MustCompile(`(127\.0\.0\.1|localhost|--listen )?:(\d{4,5})\b`)
	listen  = regexp.MustCompile(`--listen \S*:(\d+)`)
	data    = regexp.MustCompile(`\ba9a\.(train|test)\.libsvm\.gz\b`)
)

// here puts this machine's ports and files into a command.
func (s *shell) here(text string) string {
	text = strings.ReplaceAll(text, "go run ./cmd/streamsvm ", "streamsvm ")
	text = data.ReplaceAllStringFunc(text, func(f string) string { return dataset.Path(s.t, f) })
	return address.ReplaceAllStringFunc(text, func(a string) string {
		m := address.FindStringSubmatch(a)
		if m[1] == "" {
			return a
		}
		if s.ports[m[2]] == "" {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				s.t.Fatal(err)
			}
			_, s.ports[m[2]], _ = net.SplitHostPort(l.Addr().String())
			l.Close()
		}
		return m[1] + ":" + s.ports[m[2]]
	})
}

// start starts a command.
func (s *shell) start(name string, args ...string) *job {
	last := &args[len(args)-1]
	j := &job{command: *last, done: make(chan struct{})}
	*last = s.here(*last)
	j.cmd = exec.Command(name, args...)
	j.cmd.Dir, j.cmd.Env, j.cmd.Stdout, j.cmd.Stderr = s.dir, s.env, &j.out, &j.err
	if strings.Contains(*last, "--until-end") || strings.Contains(*last, "setup.sh") {
		// One version at the end, however long a busy machine takes.
		j.cmd.Env = append(slices.Clone(s.env), "STREAMSVM_CHECKPOINT_INTERVAL=0")
	}
	var err error
	if j.in, err = j.cmd.StdinPipe(); err != nil {
		s.t.Fatal(err)
	}
	if args[0] != "-u" {
		j.in.Close()
	}
	j.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := j.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	go func() {
		j.cmd.Wait()
		close(j.done)
	}()
	s.last, s.left = j, append(s.left, j)
	return j
}

// interpreter runs blocks of Python, a line of JSON each, in one namespace.
const interpreter = `
import json, sys
names = {"__name__": "__main__"}
for n, line in enumerate(sys.stdin, 1):
    exec(compile(json.loads(line), "page", "exec"), names)
    print(f"block {n} has ended", flush=True)
`

// interpret runs a block of Python after those before it. The job has what this block
// has printed.
func (s *shell) interpret(code string) *job {
	if s.lines == nil {
		s.lines = s.start(python(s.t), "-u", "-c", interpreter)
	}
	line, err := json.Marshal(s.here(code))
	if err != nil {
		s.t.Fatal(err)
	}
	before, said := len(s.lines.out.String()), len(s.lines.err.String())
	s.block++
	_, _ = s.lines.in.Write(append(line, '\n')) // it may have ended: its exit code is looked at below
	end := fmt.Sprintf("block %d has ended", s.block)
	s.await(s.lines, "^"+end+"$")
	j := &job{command: code, cmd: s.lines.cmd, done: s.lines.done, checked: true}
	_, _ = j.out.Write([]byte(strings.TrimSuffix(s.lines.out.String()[before:], end+"\n")))
	_, _ = j.err.Write([]byte(s.lines.err.String()[said:]))
	s.last = j
	return j
}

// patience is how long a command may take before it is given up.
const patience = 5 * time.Minute

// await waits for the end of a job or, with a pattern, for a line that it prints.
func (s *shell) await(j *job, until string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	want := regexp.MustCompile("(?m)" + until)
	for until == "" || !want.MatchString(j.out.String()) && !want.MatchString(j.err.String()) {
		wait := 20 * time.Millisecond
		if until == "" {
			wait = patience
		}
		select {
		case <-j.done:
			return
		case <-ctx.Done():
			s.t.Fatalf("%s\ndoes not end, or print %q: %v\n%s%s", j.command, until, ctx.Err(), &j.out, &j.err)
		case <-time.After(wait):
		}
	}
}

// ready waits until what listens on a port is ready.
func (s *shell) ready(j *job, port string) {
	s.t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		r, err := http.Get("http://127.0.0.1:" + port + "/readyz")
		if err == nil {
			r.Body.Close()
			if r.StatusCode == http.StatusOK {
				return
			}
		}
		select {
		case <-j.done:
			return
		default:
		}
		if time.Now().After(end) {
			s.t.Fatalf("%s\nis not ready: %v\n%s%s", j.command, err, &j.out, &j.err)
		}
	}
}

// ended fails the test if a job has ended with another exit code.
func (s *shell) ended(j *job, want string) bool {
	s.t.Helper()
	j.checked = true
	got := fmt.Sprint(j.cmd.ProcessState.ExitCode())
	if got != want {
		s.t.Errorf("%s\nends with exit code %s, want %s\n%s%s", j.command, got, want, &j.out, &j.err)
	}
	return got == want
}

// stop ends the jobs that run on, the latest first.
func (s *shell) stop() {
	for _, j := range slices.Backward(s.left) {
		select {
		case <-j.done:
			if !j.checked {
				s.ended(j, "0")
			}
			continue
		default:
		}
		syscall.Kill(-j.cmd.Process.Pid, syscall.SIGTERM)
		select {
		case <-j.done:
		case <-time.After(patience):
			syscall.Kill(-j.cmd.Process.Pid, syscall.SIGKILL)
			s.t.Errorf("%s\ndoes not end on SIGTERM\n%s%s", j.command, &j.out, &j.err)
			<-j.done
		}
		// A service ends with 0, a command that was interrupted with 75.
		if !j.cmd.ProcessState.Sys().(syscall.WaitStatus).Signaled() && j.cmd.ProcessState.ExitCode() != int(cli.Temporary) {
			s.ended(j, "0")
		}
	}
	s.left = nil
}

// setup runs a command that is not on the page.
func (s *shell) setup(command string) {
	s.t.Helper()
	j := s.start("bash", "-ec", command)
	s.await(j, "")
	if !s.ended(j, "0") {
		s.t.FailNow()
	}
}

// run runs a block.
func (s *shell) run(b *block) {
	reason, skip := b.marks["skip"]
	_, long := b.marks["long"]
	_, prints := b.marks["prints"]
	switch {
	case skip && reason == "":
		s.t.Errorf("line %d: skip has no reason", b.line+1)
	case b.marks["file"] != "":
		if err := os.WriteFile(filepath.Join(s.dir, b.marks["file"]), []byte(b.text), 0o644); err != nil {
			s.t.Fatal(err)
		}
		return
	case skip || len(b.steps) == 0:
		return
	case long && os.Getenv("STREAMSVM_LONG") == "":
		s.last = nil
		return
	case prints && s.last == nil:
		return // the output of a block that is not run
	}
	if v := b.marks["version"]; v != "" {
		topic, count, _ := strings.Cut(v, " ")
		s.setup(fmt.Sprintf("until streamsvm model list --model-topic %s | grep -q ' %s '; do sleep .2; done", topic, count))
	}
	code := b.marks["exits"]
	if code == "" {
		code = "0"
	}
	for _, st := range b.steps {
		began := time.Now()
		var j *job
		switch {
		case st.command == "":
			j = s.last
		case b.info == "python":
			j = s.interpret(st.command)
			select {
			case <-j.done:
				s.lines.checked = true
				if m := regexp.MustCompile(`No module named '[^']+'`).FindString(j.err.String()); m != "" && !strings.Contains(m, "streamsvm") {
					s.t.Skipf("the rest of the page needs more Python packages: %s", m)
				}
				s.ended(j, "0")
				s.t.FailNow()
			default:
			}
		case strings.HasPrefix(st.command, "kcat ") && !has("kcat"):
			s.t.Skip("the rest of the page needs kcat")
		default:
			if strings.HasPrefix(st.command, "python3 ") {
				python(s.t)
			}
			command, apart := strings.CutSuffix(st.command, " &")
			j = s.start("bash", "-o", "pipefail", "-c", command)
			on, ok := b.marks["on"]
			switch listens := listen.FindStringSubmatch(command); {
			case apart && !ok:
			case ok && on == "" && listens != nil:
				s.ready(j, s.ports[listens[1]])
			case ok && on == "":
				select { // time to fail
				case <-j.done:
				case <-time.After(time.Second):
				}
			default:
				s.await(j, on)
			}
			select {
			case <-j.done:
				if !s.ended(j, code) {
					s.t.FailNow()
				}
			default:
			}
		}
		s.t.Logf("%5.1f s  %s", time.Since(began).Seconds(), j.command)
		if len(st.want) > 0 {
			s.compare(b, st, j.printed())
		}
	}
}

func has(program string) bool {
	_, err := exec.LookPath(program)
	return err == nil
}

var clock = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`)

// compare compares what was printed with the page.
func (s *shell) compare(b *block, st *step, printed string) {
	for page, port := range s.ports {
		printed = strings.ReplaceAll(printed, ":"+port, ":"+page)
	}
	varies := clock
	if v := b.marks["varies"]; v != "" {
		varies = regexp.MustCompile(clock.String() + "|" + v)
	}
	plain := func(line string) string {
		return strings.Join(strings.Fields(varies.ReplaceAllString(strings.TrimSpace(line), " … ")), " ")
	}
	got := strings.Split(strings.TrimRight(printed, "\n"), "\n")
	same := func(want, got string) bool { return plain(want) == plain(got) }
	text, err := align(st.want, got, same)
	select {
	case <-s.last.done:
	default: // it may have printed more by now
		if _, more := align(append(slices.Clone(st.want), "…"), got, same); more == nil {
			err = nil
		}
	}
	switch {
	case err == nil:
	case *update:
		st.got = text
	default:
		s.t.Errorf("line %d: %v\nthe page:\n%s\nprinted:\n%s\n(go test ./docs -run TestPages -update writes it into the page)",
			st.first+1, err, strings.Join(st.want, "\n"), strings.Join(got, "\n"))
	}
}

// align compares the lines of a page, where "…" stands for any lines, with those that
// were printed. It returns the text that the page should have: as many lines
// before the first "…" and after the last one as the page has.
func align(want, got []string, same func(want, got string) bool) ([]string, error) {
	gap := func(line string) bool { return strings.TrimSpace(line) == "…" }
	head := slices.IndexFunc(want, gap)
	if head < 0 {
		if len(want) == len(got) && slices.EqualFunc(want, got, same) {
			return want, nil
		}
		return got, errors.New("the output differs")
	}
	tail := 0
	for !gap(want[len(want)-1-tail]) {
		tail++
	}
	if len(got) < head+tail {
		return got, errors.New("the output is shorter")
	}
	middle, rest := want[head:len(want)-tail], got[head:len(got)-tail]
	for _, line := range middle {
		if gap(line) {
			continue
		}
		i := slices.IndexFunc(rest, func(g string) bool { return same(line, g) })
		if i < 0 {
			return want, fmt.Errorf("not printed: %s", line)
		}
		rest = rest[i+1:]
	}
	if slices.EqualFunc(want[:head], got[:head], same) && slices.EqualFunc(want[len(want)-tail:], got[len(got)-tail:], same) {
		return want, nil
	}
	return slices.Concat(got[:head], middle, got[len(got)-tail:]), errors.New("the output differs")
}

var (
	listed = regexp.MustCompile(`(?m)^  ([a-z]+) {2,}\S`)
	flags  = regexp.MustCompile(`(?m)^ +(?:-\w, )?--([a-z][a-z0-9-]*)`)
	called = regexp.MustCompile(`(?:^|[\s(|;&/]|exec )streamsvm ([a-z]+)((?:\\\n|[^\n|;&#])*)`)
	given  = regexp.MustCompile(`(?:^|\s)--([a-z][a-z0-9-]*)`)
	quotes = regexp.MustCompile(`'[^']*'|"[^"]*"`)
)

// TestCommands checks the commands that TestPages does not run, in the text and in blocks
// that it skips: each exists, with the flags that it is given.
func TestCommands(t *testing.T) {
	bin, err := program()
	if err != nil {
		t.Fatal(err)
	}
	help := func(args ...string) string {
		out, err := exec.CommandContext(t.Context(), filepath.Join(bin, "streamsvm"), args...).Output()
		if err != nil {
			t.Fatal(args, err)
		}
		return string(out)
	}
	known := map[string]string{"man": "", "completion": ""} // " FLAG FLAG … " by command
	for _, m := range listed.FindAllStringSubmatch(help("--help"), -1) {
		known[m[1]] = " "
		for _, f := range flags.FindAllStringSubmatch(help(m[1], "--help-all"), -1) {
			known[m[1]] += f[1] + " "
		}
	}
	calls := 0
	for page, text := range pages(t) {
		var parts []string
		for _, b := range parse(text) {
			for _, s := range b.steps {
				parts = append(parts, s.command)
			}
		}
		for _, b := range inline.FindAllString(fence.ReplaceAllString(text, ""), -1) {
			parts = append(parts, strings.Trim(b, "`"))
		}
		for _, p := range parts {
			for _, m := range called.FindAllStringSubmatch(quotes.ReplaceAllString(p, "''"), -1) {
				if _, ok := known[m[1]]; !ok {
					t.Errorf("%s: there is no command %q", page, m[1])
					continue
				}
				calls++
				own, _, _ := strings.Cut(m[2], " -- ") // flags of another command follow
				for _, f := range given.FindAllStringSubmatch(own, -1) {
					if !strings.Contains(known[m[1]], " "+f[1]+" ") {
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
