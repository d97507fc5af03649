package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/streamsvm/streamsvm/checkpoint"
	"github.com/streamsvm/streamsvm/contrib/broker"
	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/internal/rng"
	"github.com/streamsvm/streamsvm/internal/testkit/simkit"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const simBroker = "127.0.0.1:9092"

// simWorld is a cluster, a machine for the trainers with one disk, and processes,
// all in a bubble of virtual time.
type simWorld struct {
	tb   testing.TB
	plan simPlan
	size simSize // of the undisturbed run
	net  *simkit.Network
	dir  string // of the broker
	rand *rand.Rand

	mu       sync.Mutex
	broker   *broker.Broker // nil while it is down
	disk     *simkit.Disk
	procs    []*simProc     // all that were started
	hits     map[int]int    // how often each fault has struck
	counts   map[string]int // writes and operations, by role
	rival    bool           // one is to be, or was, started
	over     bool           // the run has taken too long
	injected map[string]int // faults, by kind
	trace    []string
	failures []string
	all      sync.WaitGroup // of processes
	outages  sync.WaitGroup
	steady   chan struct{} // holds an element unless the broker is down
}

// simSize is how much an undisturbed run does.
type simSize struct {
	Counts map[string]int
	Took   time.Duration
}

// simProc is a process.
type simProc struct {
	w      *simWorld
	role   string
	host   *simkit.Host
	mount  *simMount
	cancel context.CancelFunc
	ended  chan struct{}
	// Once it has ended.
	code     int
	out, err buffer
	dead     bool // killed; guarded by w.mu
	told     bool // by a fault, to end; guarded by w.mu
}

func newSimWorld(tb testing.TB, plan simPlan, size simSize, dir string) *simWorld {
	fullEvery = plan.Job.FullEvery
	w := &simWorld{tb: tb, plan: plan, size: size, net: simkit.NewNetwork(plan.Seed), dir: dir, rand: rand.New(rand.NewPCG(plan.Seed, 4)),
		disk: simkit.NewDisk(), hits: map[int]int{}, counts: map[string]int{}, injected: map[string]int{}}
	w.rival = slices.ContainsFunc(plan.Faults, func(f simFault) bool { return f.Kind == "rival starts" })
	w.steady = make(chan struct{}, 1)
	w.steady <- struct{}{}
	w.net.Prompt = plan.Job.Nodes > 1
	w.startBroker()
	return w
}

func (w *simWorld) logf(format string, args ...any) {
	line := time.Now().UTC().Format("15:04:05.000 ") + fmt.Sprintf(format, args...)
	if *simTrace {
		fmt.Println(line)
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.trace = append(w.trace, line)
}

// errorf says what is wrong.
func (w *simWorld) errorf(format string, args ...any) {
	w.tb.Fail()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failures = append(w.failures, fmt.Sprintf(format, args...))
}

func (w *simWorld) startBroker() {
	ports := []int{9092, 9093, 9094}[:w.plan.Job.Nodes]
	dir := ""
	if slices.ContainsFunc(w.plan.Faults, func(f simFault) bool { return strings.HasPrefix(f.Kind, "broker ") }) {
		dir = w.dir
	}
	b, err := broker.Start(broker.Options{Addr: simBroker, DataDir: dir, Listen: w.net.Listen, Dial: w.net.Host("broker").Dial, More: []kfake.Opt{
		kfake.NumBrokers(len(ports)), kfake.Ports(ports...),
	}})
	if err != nil {
		panic(fmt.Sprintf("the broker does not start: %v", err))
	}
	b.Cluster().ControlKey(int16(kmsg.OffsetForLeaderEpoch), func(req kmsg.Request) (kmsg.Response, error, bool) {
		b.Cluster().KeepControl()
		return simEpochs(req.(*kmsg.OffsetForLeaderEpochRequest)), nil, true
	})
	w.mu.Lock()
	w.broker = b
	w.mu.Unlock()
}

// simEpochs answers that no leader epoch asked about has ended, since no log is ever cut
// off here. While nothing has been written since a leader moved, kfake answers that it
// does not know the epoch before, as Kafka does not, and the client starts over.
func simEpochs(req *kmsg.OffsetForLeaderEpochRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.OffsetForLeaderEpochResponse)
	for _, t := range req.Topics {
		rt := kmsg.NewOffsetForLeaderEpochResponseTopic()
		rt.Topic = t.Topic
		for _, p := range t.Partitions {
			rp := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
			rp.Partition, rp.LeaderEpoch, rp.EndOffset = p.Partition, p.LeaderEpoch, math.MaxInt64
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return resp
}

// restart stops the broker, as SIGKILL does if it is to be killed, and starts it after
// a while.
func (w *simWorld) restart(kill bool, after time.Duration) {
	// What a killed broker leaves is what there is while it runs.
	left := w.dir
	if kill {
		left += "-"
		if err := os.CopyFS(left, os.DirFS(w.dir)); err != nil {
			panic(err)
		}
	}
	w.broker.Close()
	w.dir = left
	time.Sleep(after)
	w.startBroker()
	w.logf("the broker is back")
}

// client returns one for what surrounds the job, which nothing disturbs.
func (w *simWorld) client(opts ...kgo.Opt) *kgo.Client {
	c, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(simBroker), kgo.Dialer(w.net.Host("observer").Dial),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.MetadataMinAge(50 * time.Millisecond), kgo.UnknownTopicRetries(-1), kgo.FetchIsolationLevel(kgo.ReadCommitted())}, opts...)...)
	if err != nil {
		panic(err)
	}
	return c
}

// createTopics makes the topics that are read.
func (w *simWorld) createTopics() {
	c := w.broker.Cluster()
	if err := c.CreateTopic(simEvents, int32(w.plan.Job.Partitions), nil); err != nil {
		panic(err)
	}
	if n := w.plan.Job.LabelPartitions; n > 0 {
		if err := c.CreateTopic(simLabels, int32(n), nil); err != nil {
			panic(err)
		}
	}
}

// produce writes the stream, all at once or, where it is live, over some time.
func (w *simWorld) produce(took time.Duration) {
	recs := w.plan.stream()
	// A client that gets no producer id, because the broker is down, never gets one.
	c := w.client()
	for {
		if _, _, err := c.ProducerID(context.Background()); err == nil {
			break
		}
		c.Close()
		time.Sleep(time.Second)
		c = w.client()
	}
	defer c.Close()
	r := rand.New(rand.NewPCG(w.plan.Seed, 5))
	for len(recs) > 0 {
		n := len(recs)
		if w.plan.Job.Live {
			n = min(n, 1+r.IntN(60))
			time.Sleep(time.Duration(r.ExpFloat64() * float64(took) / float64(1+len(w.plan.stream())/30)))
		}
		if err := c.ProduceSync(context.Background(), recs[:n]...).FirstErr(); err != nil {
			panic(err)
		}
		recs = recs[n:]
	}
}

// start starts a process.
func (w *simWorld) start(role string, args ...string) *simProc {
	ctx, cancel := context.WithCancel(context.Background())
	p := &simProc{w: w, role: role, host: w.net.Host(role), cancel: cancel, ended: make(chan struct{})}
	p.host.OnWrite = func(b []byte) *simkit.Fault { return w.onWrite(p, b) }
	p.host.OnDead(func() { p.die() })
	w.mu.Lock()
	p.mount = &simMount{disk: w.disk, p: p, locks: map[string]func() error{}}
	w.procs = append(w.procs, p)
	w.mu.Unlock()
	w.logf("%s starts", role)
	w.all.Go(func() {
		p.code = program().Main(ctx, args, cli.Stdio{In: strings.NewReader(""), Out: &p.out, Err: &p.err, Getenv: func(string) (string, bool) { return "", false }, Dial: p.host.Dial, FS: p.mount})
		cancel()
		p.host.Reset()
		p.mount.unlock()
		w.logf("%s ends with %d%s", role, p.code, map[bool]string{true: ", after it was killed"}[p.killed()])
		close(p.ended)
	})
	return p
}

func (p *simProc) killed() bool {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	return p.dead
}

// kill ends the process as SIGKILL does: nothing that it does from now on has any
// effect.
func (p *simProc) kill() {
	p.host.Kill()
	p.die()
}

func (p *simProc) die() {
	p.w.mu.Lock()
	was := p.dead
	p.dead = true
	p.w.mu.Unlock()
	if !was {
		p.mount.unlock()
		p.cancel()
	}
}

// powerCut ends all processes of the machine with the disk.
func (w *simWorld) powerCut(how string) {
	how = map[string]string{"lose": simkit.LoseAll, "keep": simkit.KeepAll, "names": simkit.KeepNames, "zeros": simkit.ZeroBytes, "random": simkit.KeepRandom}[how]
	w.mu.Lock()
	old := w.disk
	w.disk = old.Crash(how, rng.New(w.plan.Seed, "power"))
	procs := slices.Clone(w.procs)
	w.mu.Unlock()
	for _, p := range procs {
		if p.mount.disk == old {
			p.kill()
		}
	}
}

// stop tells the process to end, as SIGTERM does, and checks that it does so.
func (p *simProc) stop() {
	p.w.mu.Lock()
	p.told = true
	p.w.mu.Unlock()
	p.cancel()
	p.w.all.Go(func() {
		select {
		case <-p.ended:
		case <-time.After(simGrace):
			p.w.errorf("%s has not ended %v after SIGTERM", p.role, simGrace)
		}
	})
}

// simGrace is how long a process may take to end: two times its shutdown timeout,
// and a little more.
const simGrace = time.Minute

func (p *simProc) wasTold() bool {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	return p.told
}

// take returns the fault that is due at this operation of the role, of which what
// counts the operations: "write" to the network, "disk", or a request's name.
func (w *simWorld) take(role, what string, kinds []string) *simFault {
	w.mu.Lock()
	defer w.mu.Unlock()
	key := role + " " + what
	w.counts[key]++
	total := max(w.size.Counts[key], 1)
	if strings.HasPrefix(role, "member") || role == "follower" {
		total = max(total, 60)
	}
	for i := range w.plan.Faults {
		f := &w.plan.Faults[i]
		if w.hits[i] >= max(f.N, 1) || f.Role != role || cmp.Or(f.Request, what) != what || f.Request == "" && what != "write" && what != "disk" || !slices.Contains(kinds, f.Kind) || w.counts[key] < int(f.At*float64(total)) {
			continue
		}
		if w.hits[i]++; w.hits[i] == 1 {
			w.injected[f.Kind]++
		}
		return f
	}
	return nil
}

func (w *simWorld) onWrite(p *simProc, b []byte) *simkit.Fault {
	f := w.take(p.role, "write", simNetworkFaults)
	if key := simkit.RequestKey(b); f == nil && key >= 0 {
		f = w.take(p.role, kmsg.NameForKey(key), simNetworkFaults)
	}
	if f == nil {
		return nil
	}
	w.logf("%s: %s %s, %.2f of it sent", p.role, f.Kind, f.Request, f.Part)
	switch f.Kind {
	case "kill at a send":
		return &simkit.Fault{Part: f.Part, Dead: true}
	case "cut at a send":
		return &simkit.Fault{Part: f.Part, Reset: true}
	case "broker killed at a send":
		w.outages.Go(func() {
			time.Sleep(time.Duration(f.Part * float64(2*time.Millisecond))) // before the request arrives, or after
			<-w.steady
			w.restart(true, f.For)
			w.steady <- struct{}{}
		})
		return nil
	}
	return &simkit.Fault{Part: 1, Stall: f.For}
}

// simMount is the disk as a process sees it.
type simMount struct {
	disk *simkit.Disk
	p    *simProc

	mu    sync.Mutex
	locks map[string]func() error
	full  int // operations that still fail
}

var errSimDead = errors.New("the process is dead")

// op is called before each operation that changes something.
func (m *simMount) op(what string) error {
	if m.p.killed() {
		return errSimDead
	}
	m.mu.Lock()
	full := m.full > 0
	if full {
		m.full--
	}
	m.mu.Unlock()
	if full {
		return syscall.ENOSPC
	}
	f := m.p.w.take(m.p.role, "disk", simDiskFaults)
	if f == nil {
		return nil
	}
	m.p.w.logf("%s: %s at %s %s", m.p.role, f.Kind, what, f.How)
	switch f.Kind {
	case "kill at a disk write":
		m.p.kill()
		return errSimDead
	case "power cut":
		m.p.w.powerCut(f.How)
		return errSimDead
	case "disk full":
		m.mu.Lock()
		m.full = f.N
		m.mu.Unlock()
		return syscall.ENOSPC
	}
	return syscall.EIO
}

func (m *simMount) unlock() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, unlock := range m.locks {
		_ = unlock()
	}
	clear(m.locks)
}

func (m *simMount) Mkdir(dir string) error {
	if err := m.op("mkdir"); err != nil {
		return err
	}
	return m.disk.Mkdir(dir)
}

func (m *simMount) List(dir string) ([]string, error) { return m.disk.List(dir) }

func (m *simMount) Open(name string) (checkpoint.File, int64, error) {
	f, n, err := m.disk.Open(name)
	return f, n, err
}

func (m *simMount) Create(name string) (checkpoint.File, error) {
	if err := m.op("create"); err != nil {
		return nil, err
	}
	f, err := m.disk.Create(name)
	if err != nil {
		return nil, err
	}
	return &simFile{f, m}, nil
}

func (m *simMount) Rename(from, to string) error {
	if err := m.op("rename"); err != nil {
		return err
	}
	return m.disk.Rename(from, to)
}

func (m *simMount) Remove(name string) error {
	if err := m.op("remove"); err != nil {
		return err
	}
	return m.disk.Remove(name)
}

func (m *simMount) SyncDir(dir string) error {
	if err := m.op("syncdir"); err != nil {
		return err
	}
	return m.disk.SyncDir(dir)
}

func (m *simMount) TryLock(name string) (func() error, bool, error) {
	if m.p.killed() {
		return nil, false, errSimDead
	}
	unlock, ok, err := m.disk.TryLock(name)
	if !ok {
		return nil, false, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.locks[name] = unlock
	return func() error {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.locks[name] == nil {
			return nil
		}
		delete(m.locks, name)
		return unlock()
	}, true, nil
}

type simFile struct {
	checkpoint.File
	m *simMount
}

// Write writes half of b when it fails.
func (f *simFile) Write(b []byte) (int, error) {
	if err := f.m.op("write"); err != nil {
		if errors.Is(err, syscall.ENOSPC) {
			_, _ = f.File.Write(b[:len(b)/2])
		}
		return 0, err
	}
	return f.File.Write(b)
}

func (f *simFile) Sync() error {
	if err := f.m.op("sync"); err != nil {
		return err
	}
	return f.File.Sync()
}

func (f *simFile) Close() error {
	if err := f.m.op("close"); err != nil {
		return err
	}
	return f.File.Close()
}

// running returns the processes of a role that live; "" is all.
func (w *simWorld) running(role string) []*simProc {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []*simProc
	for _, p := range w.procs {
		select {
		case <-p.ended:
			continue
		default:
		}
		if !p.dead && (role == "" || p.role == role) {
			out = append(out, p)
		}
	}
	return out
}

// disturb does what is to happen at given times, until the job has ended. The
// broker is up again when it returns.
func (w *simWorld) disturb(ended <-chan struct{}, rival func()) {
	type timed struct {
		at time.Duration
		i  int
	}
	var due []timed
	for i, f := range w.plan.Faults {
		if slices.Contains(simTimedFaults, f.Kind) {
			due = append(due, timed{time.Duration(f.At * float64(w.size.Took)), i})
		}
	}
	slices.SortFunc(due, func(a, b timed) int { return int(a.at - b.at) })
	began := time.Now()
	for _, d := range due {
		select {
		case <-ended:
			return
		case <-time.After(time.Until(began.Add(d.at))):
		}
		<-w.steady
		f := w.plan.Faults[d.i]
		w.mu.Lock()
		w.injected[f.Kind]++
		w.mu.Unlock()
		w.logf("%s %s %s for %v", f.Kind, f.Role, f.How, f.For)
		c := w.broker.Cluster()
		switch f.Kind {
		case "kill":
			for _, p := range w.running(f.Role) {
				p.kill()
			}
		case "stopped":
			for _, p := range w.running(f.Role) {
				p.stop()
			}
		case "connections cut":
			for _, p := range w.running(f.Role) {
				p.host.Reset()
			}
		case "isolated":
			for _, p := range w.running(f.Role) {
				p.host.Isolate(f.For)
			}
		case "broker restarted", "broker killed", "broker gone at a stop":
			if f.Kind == "broker gone at a stop" {
				for _, p := range w.running(f.Role) {
					p.stop()
				}
			}
			w.restart(f.Kind == "broker killed", f.For)
		case "leader moved":
			c.ShufflePartitionLeaders()
		case "coordinator moved":
			c.RehashCoordinators()
		case "request refused":
			key, code, _ := strings.Cut(f.How, " ")
			x := kfake.Fault{Count: f.N}
			for k := range kmsg.Key(100) {
				if k.Name() == key {
					x.Keys = append(x.Keys, k)
				}
			}
			for code16 := range int16(120) {
				if e, ok := kerr.ErrorForCode(code16).(*kerr.Error); ok && e.Message == code {
					x.Err = e
				}
			}
			if len(x.Keys) != 1 || x.Err == nil {
				panic(f.How)
			}
			c.Fault(x)
		case "topic compacted":
			c.Compact()
		case "rival starts":
			rival()
		}
		w.steady <- struct{}{}
	}
}
