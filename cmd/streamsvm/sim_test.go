package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/streamsvm/streamsvm/algos/adaptive"
	"github.com/streamsvm/streamsvm/algos/registry"
	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/twmb/franz-go/pkg/kgo"
)

var (
	simSeeds = flag.Int("sim.seeds", 20, "how many seeds TestSimulation runs")
	simFirst = flag.Uint64("sim.first", 1, "the first seed of TestSimulation")
	simRun   = flag.String("sim.plan", "", "a plan of TestSimulation, in JSON, to run in place of seeds")
	simStop  = flag.Bool("sim.stop", false, "stop at the first seed of TestSimulation that fails; do not shrink its plan")
	simTrace = flag.Bool("sim.trace", false, "print what happens in each run")
	simWork  = flag.Int("sim.stride", 0, "of TestSimulationWorker: run one seed in so many")
)

// TestSimulation runs the whole program, with its cluster, its disk and its network,
// in virtual time: jobs that are drawn from a seed, undisturbed and disturbed by
// faults that are drawn from it too. Both must end with the same state, model and
// dead letters. docs/simulation.md describes it.
//
//	go test ./cmd/streamsvm -run 'TestSimulation$' -sim.seeds 10000 -sim.first 1
//	go test ./cmd/streamsvm -run 'TestSimulation$' -sim.first 4711 -sim.seeds 1 -sim.trace -v
//
// A seed that fails is run again with fewer faults and fewer records, as long as it
// fails, and the smallest plan is printed.
func TestSimulation(t *testing.T) {
	n := *simSeeds
	if *simRun != "" {
		n = 1
	}
	workers := min(n, runtime.GOMAXPROCS(0))
	all := make([]simOutcome, workers)
	var done sync.WaitGroup
	for i := range workers {
		done.Go(func() { all[i] = simWorkers(t, *simFirst+uint64(i), *simFirst+uint64(n), workers) })
	}
	done.Wait()
	if n := simLeast.Load(); n > 0 {
		t.Errorf("seed %d: %s", n, simLeastWhy)
	}
	total := simOutcome{Faults: map[string]int{}}
	for _, o := range all {
		total.Runs += o.Runs
		total.Virtual += o.Virtual
		for k, n := range o.Faults {
			total.Faults[k] += n
		}
		total.stuck = append(total.stuck, o.stuck...)
	}
	t.Logf("%d seeds, %v of virtual time, faults:", total.Runs, total.Virtual.Round(time.Second))
	for _, k := range slices.Sorted(maps.Keys(total.Faults)) {
		t.Logf("%6d %s", total.Faults[k], k)
	}
	if len(total.stuck) > 0 {
		t.Logf("time stood still in %d: %v", len(total.stuck), total.stuck)
	}
	if len(total.stuck) > 2+n/50 {
		t.Errorf("time stood still in %d of %d seeds: %v", len(total.stuck), n, total.stuck)
	}
}

// simOutcome is what has come out of some seeds.
type simOutcome struct {
	Seed    uint64
	Failed  bool
	Wrong   string // the first thing that is wrong
	Runs    int
	Faults  map[string]int
	Virtual time.Duration
	stuck   []uint64 // seeds in which time stood still
}

// The smallest seed that has failed, where -sim.stop is given, and why.
var (
	simLeast    atomic.Uint64 // 0: none
	simLeastMu  sync.Mutex
	simLeastWhy string
)

// simPatience is how long, in real time, a worker may say nothing.
const simPatience = time.Minute

// Lines that a worker prints.
const simBegins, simEnds = "simulation begins: ", "simulation ends: "

// simWorkers runs every stride-th of the seeds in a process of its own, so that a
// panic names its seed, and one that does not end ends nothing else. It starts
// another one where that process dies.
func simWorkers(t *testing.T, from, to uint64, stride int) simOutcome {
	total := simOutcome{Faults: map[string]int{}}
	for from < to {
		next := from
		cmd, lines := simProcess(t, "-sim.first", fmt.Sprint(from), "-sim.seeds", fmt.Sprint((to-from+uint64(stride)-1)/uint64(stride)), "-sim.stride", fmt.Sprint(stride))
		var text []string
		hung, wrong := false, ""
		for open := true; open; {
			select {
			case line, ok := <-lines:
				if open = ok; !ok {
					break
				}
				if rest, ok := strings.CutPrefix(line, simEnds); ok {
					var o simOutcome
					if err := json.Unmarshal([]byte(rest), &o); err != nil {
						t.Error(err)
					}
					total.Runs++
					total.Virtual += o.Virtual
					for k, n := range o.Faults {
						total.Faults[k] += n
					}
					if o.Failed {
						simFailed(t, o.Seed, o.Wrong, text)
					}
					next, text = o.Seed+uint64(stride), nil
					if least := simLeast.Load(); least > 0 && next > least {
						_ = cmd.Process.Kill()
						next = to
					}
				} else if !strings.HasPrefix(line, simBegins) {
					text = append(text, line)
					if wrong == "" && (strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ") || strings.HasPrefix(line, "does not end")) {
						wrong = line
					}
				}
			case <-time.After(simPatience):
				hung = true
				_ = cmd.Process.Signal(syscall.SIGQUIT) // prints all goroutines
			}
		}
		_ = cmd.Wait()
		if next >= to {
			break
		}
		switch {
		case hung && simStoodStill(text):
			total.stuck = append(total.stuck, next)
		default:
			if hung {
				wrong = fmt.Sprintf("nothing happens for %v of real time", simPatience)
			}
			simFailed(t, next, wrong, text)
			if *simStop {
				return total
			}
		}
		total.Runs++
		from = next + uint64(stride)
	}
	return total
}

// simStoodStill reports whether virtual time could not go on because a goroutine of
// a client waits for a mutex while another one that holds it waits for a broker:
// only those that wait for a channel, or for the time, let it go on.
func simStoodStill(text []string) bool {
	for i, line := range text {
		if strings.HasPrefix(line, "goroutine ") && strings.Contains(line, "synctest bubble") && strings.Contains(line, "Mutex.") {
			for _, frame := range text[i:min(i+24, len(text))] {
				if strings.Contains(frame, "franz-go/pkg/kgo.") || strings.Contains(frame, "segmentio/kafka-go.") {
					return true
				}
			}
		}
	}
	return false
}

// simGoroutines leaves out, of a dump of all goroutines, those that have nothing to do
// with a simulation.
func simGoroutines(text []string) []string {
	var out []string
	keep := true
	for _, line := range text {
		if strings.HasPrefix(line, "goroutine ") {
			keep = strings.Contains(line, "synctest bubble")
		}
		if keep && !strings.HasPrefix(line, "\t/usr/") {
			out = append(out, line)
		}
	}
	return out
}

// simProcess starts a worker and returns what it prints, by lines.
func simProcess(t *testing.T, args ...string) (*exec.Cmd, <-chan string) {
	args = append([]string{"-test.run=^TestSimulationWorker$", "-test.timeout=0", fmt.Sprintf("-sim.trace=%v", *simTrace)}, args...)
	if *simRun != "" && !slices.Contains(args, "-sim.plan") {
		args = append(args, "-sim.plan", *simRun)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, args...)
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1") // fewer ways to interleave
	out, err := cmd.StdoutPipe()
	if err == nil {
		cmd.Stderr = cmd.Stdout
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	lines := make(chan string)
	go func() {
		defer close(lines)
		s := bufio.NewScanner(out)
		s.Buffer(nil, 1<<24)
		for s.Scan() {
			lines <- s.Text()
		}
	}()
	return cmd, lines
}

// simFailed reports a seed, and the smallest plan like it that fails too.
func simFailed(t *testing.T, seed uint64, wrong string, text []string) {
	if *simStop {
		simLeastMu.Lock()
		defer simLeastMu.Unlock()
		if least := simLeast.Load(); least == 0 || seed < least {
			simLeast.Store(seed)
			simLeastWhy = wrong
			text = simGoroutines(text)
			t.Log(strings.Join(text[:min(len(text), 1000)], "\n"))
		}
		return
	}
	plan := drawPlan(seed)
	if *simRun != "" {
		if err := json.Unmarshal([]byte(*simRun), &plan); err != nil {
			t.Fatal(err)
		}
	} else {
		plan = simShrink(t, plan)
	}
	text = simGoroutines(text)
	if len(text) > 400 {
		text = append(text[:300:300], append([]string{"…"}, text[len(text)-100:]...)...)
	}
	t.Errorf("seed %d fails:\n%s\nto run the smallest plan that fails:\n  go test ./cmd/streamsvm -run 'TestSimulation$' -v -sim.trace -sim.plan '%s'", seed, strings.Join(text, "\n"), plan)
}

// simShrink leaves out faults and records while the plan fails. How goroutines
// interleave is not part of a plan: each is tried three times.
func simShrink(t *testing.T, plan simPlan) simPlan {
	fails := func(p simPlan) bool {
		for range 3 {
			cmd, lines := simProcess(t, "-sim.plan", p.String(), "-sim.stride", "1")
			kill := time.AfterFunc(simPatience, func() { _ = cmd.Process.Kill() })
			ended := false
			for line := range lines {
				if rest, ok := strings.CutPrefix(line, simEnds); ok {
					ended = strings.Contains(rest, `"Failed":false`)
				}
			}
			kill.Stop()
			_ = cmd.Wait()
			if !ended {
				return true
			}
		}
		return false
	}
	for i := 0; i < len(plan.Faults); {
		less := plan
		less.Faults = slices.Delete(slices.Clone(plan.Faults), i, i+1)
		if fails(less) {
			plan = less
		} else {
			i++
		}
	}
	for n := plan.Records / 2; n >= 50; n /= 2 {
		less := plan
		if less.Records = plan.Records - n; less.Records > 50 && fails(less) {
			plan = less
		}
	}
	return plan
}

// TestSimulationWorker is the process that runs seeds for TestSimulation.
func TestSimulationWorker(t *testing.T) {
	if *simWork == 0 {
		t.Skip("TestSimulation starts it")
	}
	short := adaptive.Short
	short.Name = simShort
	if err := registry.Register(short); err != nil {
		t.Fatal(err)
	}
	plan := simPlan{}
	if *simRun != "" {
		if err := json.Unmarshal([]byte(*simRun), &plan); err != nil {
			t.Fatal(err)
		}
		*simSeeds = 1
	}
	for i := range *simSeeds {
		if *simRun == "" {
			plan = drawPlan(*simFirst + uint64(i**simWork))
		}
		fmt.Printf("%s%d\n", simBegins, plan.Seed)
		o := simOutcome{Seed: plan.Seed, Faults: map[string]int{}}
		var log strings.Builder
		t.Run(fmt.Sprint(plan.Seed), func(t *testing.T) {
			defer func() { o.Failed = t.Failed() }()
			simulate(t, plan, &o, &log)
		})
		if o.Failed || *simTrace {
			fmt.Print(log.String())
		}
		b, _ := json.Marshal(o)
		fmt.Printf("%s%s\n", simEnds, b)
	}
}

// simulate runs a plan without its faults and with them, and compares.
func simulate(t *testing.T, plan simPlan, total *simOutcome, log *strings.Builder) {
	calm := plan
	calm.Faults = nil
	want, size := runPlan(t, calm, simSize{}, total, log)
	if len(plan.Faults) == 0 || t.Failed() {
		return
	}
	got, _ := runPlan(t, plan, size, total, log)
	if t.Failed() {
		return
	}
	for _, k := range slices.Sorted(maps.Keys(want)) {
		if got[k] != want[k] {
			t.Fail()
			total.Wrong = cmp.Or(total.Wrong, fmt.Sprintf("%s with faults: %s", k, simDifference(got[k], want[k])))
			fmt.Fprintf(log, "%s with faults:\n%s\nwithout:\n%s\n", k, got[k], want[k])
		}
	}
}

// simDifference returns the first line of got that differs from want's, and that one.
func simDifference(got, want string) string {
	a, b := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range max(len(a), len(b)) {
		switch {
		case i >= len(a):
			return fmt.Sprintf("there is no %q", b[i])
		case i >= len(b):
			return fmt.Sprintf("%q, which is not there without them", a[i])
		case a[i] != b[i]:
			return fmt.Sprintf("%q, without them: %q", a[i], b[i])
		}
	}
	return ""
}

// runPlan runs the plan in a bubble. It returns what does not depend on faults, by
// name.
func runPlan(t *testing.T, plan simPlan, size simSize, total *simOutcome, log *strings.Builder) (result map[string]string, did simSize) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "broker")
	synctest.Test(t, func(t *testing.T) {
		w := newSimWorld(t, plan, size, dir)
		defer func() {
			w.broker.Close()
			// Time stands still when this function returns. Requests that were left
			// without an answer end with their own time limits before.
			time.Sleep(time.Minute)
			for k, n := range w.injected {
				total.Faults[k] += n
			}
			total.Virtual += time.Since(time.UnixMilli(simStart))
			for _, line := range w.failures {
				fmt.Fprintln(log, line)
				total.Wrong = cmp.Or(total.Wrong, line)
			}
			if t.Failed() || *simTrace {
				fmt.Fprintf(log, "plan: %s\n", plan)
				for _, line := range w.trace {
					fmt.Fprintln(log, line)
				}
				for _, p := range w.procs {
					fmt.Fprintf(log, "%s: exit code %d\n%s", p.role, p.code, simTail(p.err.String()))
				}
			}
		}()
		began := time.Now()
		result = w.job()
		did = simSize{Counts: w.counts, Took: time.Since(began)}
	})
	return result, did
}

// job runs everything until the stream has ended, and checks it.
func (w *simWorld) job() map[string]string {
	t, j := w.tb, w.plan.Job
	w.createTopics()
	args := w.plan.trainArgs()
	defer time.AfterFunc(simLimit, func() {
		w.errorf("not over after %v", simLimit)
		w.mu.Lock()
		w.over = true
		w.mu.Unlock()
		for _, p := range w.running("") {
			p.kill()
		}
	}).Stop()
	took := max(w.size.Took, 5*time.Second)
	defer time.AfterFunc(2*simLimit, func() {
		fmt.Printf("does not end, after %v: %s\n%s\n", 2*simLimit, w.plan, strings.Join(w.trace, "\n"))
		simStacks()
		os.Exit(3)
	}).Stop()
	var produced sync.WaitGroup
	if j.Live {
		produced.Go(func() { w.produce(took / 2) })
	} else {
		w.produce(0)
	}
	last := slices.Concat(args, []string{"--until-end"})
	ended := make(chan struct{})
	var trainers, others sync.WaitGroup
	supervise := func(role string) {
		if j.Live {
			p := w.supervise(role, args, func(p *simProc) {
				go func() {
					produced.Wait()
					select {
					case <-time.After(time.Second):
						p.cancel() // SIGTERM
					case <-p.ended:
					}
				}()
			})
			if p == nil || p.code == int(cli.Fenced) {
				return
			}
		}
		w.supervise(role, last, nil)
	}
	trainers.Go(func() { supervise("trainer") })
	for m := range j.Members {
		role := fmt.Sprintf("member-%d", m)
		others.Go(func() {
			w.serve(role, ended, "predict", "--brokers", simBroker, "--model-topic", simModels, "--model-name", "model", "--topic-wait", "-1s", "--topics", simEvents,
				"--predictions-topic", simScored, "--group", "scorers", "--log-level", "info")
		})
	}
	if j.Follow {
		others.Go(func() {
			w.serve("follower", ended, "model", "follow", "--brokers", simBroker, "--model-topic", simModels, "--model-name", "model", "--topic-wait", "-1s", "--json", "--log-level", "info")
		})
	}
	stop := make(chan struct{})
	var disturbed sync.WaitGroup
	disturbed.Go(func() {
		w.disturb(stop, func() { trainers.Go(func() { supervise("rival") }) })
	})
	trainers.Wait()
	close(stop)
	disturbed.Wait()
	trainers.Wait() // a rival's that has started meanwhile
	w.outages.Wait()
	produced.Wait()
	if j.Members > 0 && !t.Failed() {
		w.awaitScored()
	}
	close(ended)
	others.Wait()
	w.all.Wait()
	if t.Failed() {
		return nil
	}
	w.checkFollower()
	return w.results()
}

func (w *simWorld) isOver() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.over
}

// simStacks prints where goroutines of this module, or those that wait for a mutex, are.
func simStacks() {
	buf := make([]byte, 64<<20)
	for g := range strings.SplitSeq(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
		if strings.Contains(g, "synctest bubble") && (strings.Contains(g, "streamsvm.(*") || strings.Contains(g, "Mutex.") || strings.Contains(g, "trainer.") || strings.Contains(g, "kafkaio.")) {
			fmt.Println(g)
		}
	}
}

// simLimit is the virtual time that a run may take.
const simLimit = 20 * time.Minute

// restarts is how often a process is started again, at most, for each fault.
const restarts = 4

// supervise starts a trainer again and again until it ends well, and returns the one
// that did, or one that somebody has taken over from.
func (w *simWorld) supervise(role string, args []string, started func(*simProc)) *simProc {
	for life := 0; ; life++ {
		if w.isOver() {
			return nil
		}
		p := w.start(role, args...)
		if started != nil {
			started(p)
		}
		for !p.killed() {
			select {
			case <-p.ended:
			case <-time.After(50 * time.Millisecond):
				continue
			}
			break
		}
		switch {
		case p.killed(), p.wasTold() && p.code != 70:
		case p.code == int(cli.OK):
			return p
		case p.code == int(cli.Fenced) && w.rival:
			return p
		case p.code == int(cli.Fenced):
			w.errorf("%s is fenced by nobody: %s", role, lastLine(p.err.String()))
			return nil
		case len(w.plan.Faults) == 0 || p.code == 70 || p.code == int(cli.Usage):
			w.errorf("%s ends with exit code %d: %s", role, p.code, lastLine(p.err.String()))
			return nil
		}
		if life > restarts*len(w.plan.Faults) {
			w.errorf("%s does not come to an end: exit code %d after %d starts: %s", role, p.code, life, lastLine(p.err.String()))
			return nil
		}
		time.Sleep(time.Duration(life) * 300 * time.Millisecond)
	}
}

// serve keeps a service running until ended is closed.
func (w *simWorld) serve(role string, ended <-chan struct{}, args ...string) {
	for life := 0; ; life++ {
		if w.isOver() {
			return
		}
		p := w.start(role, args...)
		for !p.killed() {
			select {
			case <-ended:
				p.cancel()
				<-p.ended
				if p.code != int(cli.OK) {
					w.errorf("%s ends with exit code %d: %s", role, p.code, lastLine(p.err.String()))
				}
				return
			case <-p.ended:
				if p.killed() || p.wasTold() && p.code == int(cli.OK) {
					break
				}
				if len(w.plan.Faults) == 0 || p.code != int(cli.Temporary) || life > 10 {
					w.errorf("%s ends with exit code %d: %s", role, p.code, lastLine(p.err.String()))
					return
				}
			case <-time.After(50 * time.Millisecond):
				continue
			}
			break
		}
		time.Sleep(500 * time.Millisecond)
	}
}

// read returns the committed records of a topic, by partition in order; nil where
// the topic does not exist.
func (w *simWorld) read(topic string) []*kgo.Record {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	from, ends := map[string]map[int32]kgo.Offset{topic: {}}, map[int32]int64{}
	for _, p := range w.broker.Cluster().PartitionInfos(topic) {
		// What is open in transactions is given up within a minute or so.
		for p.LastStableOffset < p.HighWatermark && ctx.Err() == nil {
			time.Sleep(time.Second)
			p = w.broker.Cluster().PartitionInfo(topic, p.Partition)
		}
		if p.HighWatermark > p.LogStartOffset {
			from[topic][p.Partition], ends[p.Partition] = kgo.NewOffset().At(p.LogStartOffset), p.HighWatermark
		}
	}
	left := len(ends)
	if left == 0 {
		return nil
	}
	var out []*kgo.Record
	r := w.client(kgo.ConsumePartitions(from), kgo.KeepControlRecords())
	defer r.Close()
	for left > 0 {
		fs := r.PollFetches(ctx)
		if err := fs.Err0(); err != nil {
			w.errorf("topic %s cannot be read to its end: %v", topic, err)
			return out
		}
		fs.EachRecord(func(x *kgo.Record) {
			if !x.Attrs.IsControl() {
				out = append(out, x)
			}
			if x.Offset == ends[x.Partition]-1 {
				left--
			}
		})
	}
	slices.SortStableFunc(out, func(a, b *kgo.Record) int {
		if a.Partition != b.Partition {
			return int(a.Partition - b.Partition)
		}
		return int(a.Offset - b.Offset)
	})
	return out
}

// awaitScored waits until the group has predicted each record, and checks that it
// has done so once, in order.
func (w *simWorld) awaitScored() {
	type at struct {
		Topic     string
		Partition int32
		Offset    int64
	}
	want := map[int32]int64{}
	total := int64(0)
	for _, r := range w.read(simEvents) {
		if r.Value != nil || !w.plan.Job.Tombstones {
			want[r.Partition]++
		}
		total++
	}
	for {
		recs := w.read(simScored)
		if int64(len(recs)) < total && !w.isOver() {
			time.Sleep(2 * time.Second)
			continue
		}
		next := map[int32]int64{}
		for _, r := range recs {
			var a at
			if err := json.Unmarshal(r.Value, &a); err != nil {
				w.errorf("prediction %s: %v", r.Value, err)
				return
			}
			if a.Topic != simEvents || a.Offset != next[a.Partition] {
				w.errorf("prediction %d of partition %d is about offset %d, want %d", r.Offset, a.Partition, a.Offset, next[a.Partition])
				return
			}
			next[a.Partition]++
		}
		if int64(len(recs)) != total {
			w.errorf("%d predictions of %d records: %v", len(recs), total, next)
		}
		return
	}
}

// checkFollower: versions only go up.
func (w *simWorld) checkFollower() {
	var last uint64
	for _, p := range w.procs {
		if p.role != "follower" {
			continue
		}
		for line := range strings.Lines(p.out.String()) {
			var u updateLine
			if err := json.Unmarshal([]byte(line), &u); err != nil {
				w.errorf("follower: %v in %s", err, line)
				return
			}
			if u.Version < last {
				w.errorf("the follower goes back from version %d to %d", last, u.Version)
			}
			last = u.Version
		}
		// A new process begins with what is newest, which may be the same.
	}
}

var (
	versionOf   = regexp.MustCompile(`,"model":"model","version":\d+`)
	versionWord = regexp.MustCompile(`model version \d+; `)
	fatesLine   = regexp.MustCompile(`(\d+) records consumed = (.*?);`)
	countText   = regexp.MustCompile(`\d+`)
)

// results returns what must not depend on faults.
func (w *simWorld) results() map[string]string {
	res := map[string]string{}
	// The last of those that have come to the end says what it has learned.
	for _, p := range w.procs {
		if p.code == int(cli.OK) && !p.dead && (p.role == "trainer" || p.role == "rival") {
			if line := lastSummary(p.err.String()); strings.HasPrefix(line, "the stream has ended") {
				res["state"] = versionWord.ReplaceAllString(line, "")
			}
		}
	}
	if res["state"] == "" {
		w.errorf("no trainer has come to the end of the stream")
		return res
	}
	m := fatesLine.FindStringSubmatch(res["state"])
	if m == nil {
		w.errorf("no fates in %q", res["state"])
		return res
	}
	sum := 0
	for _, n := range countText.FindAllString(m[2], -1) {
		x := 0
		fmt.Sscan(n, &x)
		sum += x
	}
	if fmt.Sprint(sum) != m[1] {
		w.errorf("the fates do not add up: %s", res["state"])
	}
	if consumed := len(w.plan.stream()); m[1] != fmt.Sprint(consumed) {
		w.errorf("%s records consumed, %d produced", m[1], consumed)
	}
	models := []string{"model"}
	if w.plan.Job.Gate {
		models = append(models, "model@champion")
	}
	for _, name := range models {
		p := w.start("reader", "model", "follow", "--brokers", simBroker, "--model-topic", simModels, "--model-name", name, "--until", "1", "--json", "--topic-wait", "1s")
		<-p.ended
		var u updateLine
		if p.code == 0 {
			if err := json.Unmarshal([]byte(p.out.String()), &u); err != nil {
				w.errorf("%s: %v", name, err)
			}
		}
		res[name] = fmt.Sprintf("exit code %d, %d examples, hash %s", p.code, u.Examples, u.Hash)
	}
	for _, topic := range []string{simEvents, simLabels} {
		var letters []string
		for _, r := range w.read(topic + ".dlq") {
			about := map[string]string{}
			for _, h := range r.Headers {
				about[h.Key] = string(h.Value)
			}
			keys := slices.Sorted(maps.Keys(about))
			var text []string
			for _, k := range keys {
				text = append(text, about[k])
			}
			letters = append(letters, strings.Join(text, " "))
		}
		slices.Sort(letters)
		res["letters of "+topic] = strings.Join(letters, "\n")
	}
	w.checkVersions()
	if w.plan.Job.State == "kafka" {
		res["answers"] = w.answers()
	}
	return res
}

// answers checks that the trainer has predicted every record once, in order, and returns
// its predictions without their versions, which depend on when checkpoints are taken.
func (w *simWorld) answers() string {
	next, lines := map[int32]int64{}, map[int32][]string{}
	due := map[int32][]bool{} // whether the record is to be predicted
	for _, r := range w.read(simEvents) {
		label := w.plan.Job.Later && bytes.Contains(r.Value, []byte(`"y":`))
		due[r.Partition] = append(due[r.Partition], !label && (r.Value != nil || !w.plan.Job.Tombstones))
	}
	skip := func(p int32) {
		for next[p] < int64(len(due[p])) && !due[p][next[p]] {
			next[p]++
		}
	}
	for _, r := range w.read(simAnswers) {
		var a struct {
			Topic     string
			Partition int32
			Offset    int64
		}
		if err := json.Unmarshal(r.Value, &a); err != nil {
			w.errorf("the trainer's prediction %s: %v", r.Value, err)
			return ""
		}
		if skip(a.Partition); a.Topic != simEvents || a.Offset != next[a.Partition] {
			w.errorf("the trainer's prediction %d of partition %d is about %s offset %d, want %d", r.Offset, a.Partition, a.Topic, a.Offset, next[a.Partition])
			return ""
		}
		next[a.Partition]++
		lines[a.Partition] = append(lines[a.Partition], versionOf.ReplaceAllString(string(r.Value), ""))
	}
	for p := range due {
		if skip(p); next[p] != int64(len(due[p])) {
			w.errorf("the trainer has predicted %d of %d records of partition %d", next[p], len(due[p]), p)
		}
	}
	var all []string
	for _, p := range slices.Sorted(maps.Keys(lines)) {
		all = append(all, lines[p]...)
	}
	return strings.Join(all, "\n")
}

// simTail returns the end of a long text.
func simTail(text string) string { return text[max(0, len(text)-8000):] }

func lastSummary(text string) string {
	last := ""
	for line := range strings.Lines(text) {
		if strings.Contains(line, " records consumed = ") {
			last = strings.TrimSpace(line)
		}
	}
	return last
}

// checkVersions reads the model topic as it is: nobody publishes after it has been
// fenced, and versions only go up.
func (w *simWorld) checkVersions() {
	epochs, last := map[string]uint64{}, map[string]simUpdate{}
	for _, r := range w.read(simModels) {
		if r.Value == nil {
			continue
		}
		var e simUpdate
		if err := state.Decode(r.Value, e.fields); err != nil {
			w.errorf("model topic, offset %d: %v", r.Offset, err)
			return
		}
		if strings.Contains(e.Model, "@") {
			continue
		}
		if e.Epoch < epochs[e.Model] {
			w.errorf("offset %d of the model topic: a %s of epoch %d after one of epoch %d", r.Offset, e.Kind, e.Epoch, epochs[e.Model])
		}
		if e.Kind == "claim" {
			epochs[e.Model] = e.Epoch
			continue
		}
		epochs[e.Model] = e.Epoch
		switch before := last[e.Model]; {
		case e.Version < before.Version:
			w.errorf("offset %d of the model topic: version %d after %d", r.Offset, e.Version, before.Version)
		case e.Version == before.Version && e.Kind == before.Kind && e.Hash != before.Hash:
			w.errorf("offset %d of the model topic: two models are version %d", r.Offset, e.Version)
		}
		last[e.Model] = e
	}
}

// simUpdate is a record of the model topic, as docs/formats/model-topic.md says.
type simUpdate struct {
	Kind, Model          string
	Epoch, Version, Hash uint64
}

func (e *simUpdate) fields(f *state.Fields) {
	var text string
	var n uint64
	var i int64
	var x float64
	var data []byte
	f.Uint64("format", &n)
	f.String("kind", &e.Kind)
	f.String("model", &e.Model)
	if e.Kind == "claim" {
		f.Uint64("epoch", &e.Epoch)
		f.String("owner", &text)
		f.String("by", &text)
		f.Int64("created_ms", &i)
		return
	}
	f.String("learner", &text)
	f.Uint64("version", &e.Version)
	f.Uint64("base", &n)
	f.Uint64("epoch", &e.Epoch)
	f.Uint64("step", &n)
	f.Uint64("examples", &n)
	f.List("offsets", 0, 3, func(int) {}, func(f *state.Fields, _ int) {
		f.String("topic", &text)
		f.Int64("partition", &i)
		f.Int64("next", &i)
	})
	f.Int64("created_ms", &i)
	f.List("evaluation", 0, 10, func(int) {}, func(f *state.Fields, _ int) {
		f.String("name", &text)
		f.Float64("value", &x)
	})
	f.Uint64("payload_hash", &e.Hash)
	f.Uint64("payload_size", &n)
	f.Uint64("chunk", &n)
	f.Uint64("chunks", &n)
	f.Uint64("chunk_hash", &n)
	f.Bytes("data", &data)
}
