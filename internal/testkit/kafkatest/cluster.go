package kafkatest

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Nodes is the number of brokers in a Cluster, called 1 to Nodes.
const Nodes = 3

// Cluster is an Apache Kafka cluster of three brokers, each of which is a
// controller, too. Topics have three replicas, two of which must have a record
// before it is acknowledged. Timeouts are Kafka's defaults.
type Cluster struct {
	// Brokers and Via are the addresses of all brokers: for direct connections, and
	// through forwarders that Cut interrupts. The cluster advertises the addresses
	// that match the way of the connection.
	Brokers, Via []string

	tb    testing.TB
	nodes []*Broker // node i+1
	gates []*gate
	admin *kgo.Client
}

// NewCluster starts a cluster that stops when the test ends. It skips the test
// unless the environment names scripts/kafka.sh in STREAMSVM_TEST_KAFKA.
func NewCluster(tb testing.TB) *Cluster {
	tb.Helper()
	script := os.Getenv("STREAMSVM_TEST_KAFKA")
	if script == "" {
		tb.Skip("needs Apache Kafka: STREAMSVM_TEST_KAFKA=$PWD/scripts/kafka.sh")
	}
	dir := filepath.Join(tb.TempDir(), "cluster")
	all := &Broker{tb: tb, dir: dir, script: script}
	tb.Cleanup(func() { all.run("clean") })
	c := &Cluster{tb: tb, Brokers: strings.Fields(all.run("cluster"))}
	for i, addr := range c.Brokers {
		c.nodes = append(c.nodes, &Broker{Addr: addr, tb: tb, dir: filepath.Join(dir, strconv.Itoa(i+1)), script: script})
	}
	f, err := os.Open(filepath.Join(dir, "via"))
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		at, to, _ := strings.Cut(lines.Text(), " ")
		g := newGate(tb, "127.0.0.1:"+at, "127.0.0.1:"+to)
		c.gates = append(c.gates, g)
		c.Via = append(c.Via, g.addr)
	}
	if len(c.Brokers) != Nodes || len(c.Via) != Nodes {
		tb.Fatalf("brokers %v, through forwarders %v", c.Brokers, c.Via)
	}
	c.admin = Client(tb, c.Brokers, kgo.MetadataMinAge(50*time.Millisecond), kgo.RequestTimeoutOverhead(3*time.Second))
	return c
}

// In makes t, a subtest of the test that started the cluster, the one that fails
// when an operation does.
func (c *Cluster) In(t *testing.T) {
	outer := c.tb
	set := func(tb testing.TB) {
		c.tb = tb
		for _, n := range c.nodes {
			n.tb = tb
		}
	}
	set(t)
	t.Cleanup(func() { set(outer) })
}

// Kill ends a node with SIGKILL, Stop with SIGTERM. Both wait until it has ended.
func (c *Cluster) Kill(node int) { c.tb.Helper(); c.nodes[node-1].run("kill") }

// Stop is described with Kill.
func (c *Cluster) Stop(node int) { c.tb.Helper(); c.nodes[node-1].run("stop") }

// Start starts a node that has ended, and returns when it answers.
func (c *Cluster) Start(node int) { c.tb.Helper(); c.nodes[node-1].run("start") }

// Pause suspends a node with SIGSTOP, Resume continues it.
func (c *Cluster) Pause(node int) { c.tb.Helper(); c.signal(node, syscall.SIGSTOP) }

// Resume is described with Pause.
func (c *Cluster) Resume(node int) { c.tb.Helper(); c.signal(node, syscall.SIGCONT) }

func (c *Cluster) signal(node int, s syscall.Signal) {
	c.tb.Helper()
	text, err := os.ReadFile(filepath.Join(c.nodes[node-1].dir, "pid"))
	pid := 0
	if err == nil {
		pid, err = strconv.Atoi(strings.TrimSpace(string(text)))
	}
	if err == nil {
		err = syscall.Kill(pid, s)
	}
	if err != nil {
		c.tb.Fatalf("%v to node %d: %v", s, node, err)
	}
}

// Gate is the behaviour of a forwarder.
type Gate int

// What a forwarder does.
const (
	Open   Gate = iota // forwards
	Refuse             // refuses new connections and resets existing ones
	Hole               // forwards nothing: connections, old and new, get no answer
)

// Cut sets what the forwarder in front of a node does; Open ends a cut.
func (c *Cluster) Cut(node int, how Gate) { c.gates[node-1].set(how) }

// Leader returns the node that leads a partition, waiting until there is one.
func (c *Cluster) Leader(topic string, partition int32) int {
	c.tb.Helper()
	return await(c, fmt.Sprintf("leader of %s/%d", topic, partition), func(ctx context.Context) (int, error) {
		for _, p := range metadata(ctx, c.tb, c.admin, topic).Partitions {
			if p.Partition == partition && p.Leader > 0 {
				return int(p.Leader), nil
			}
		}
		return 0, kerr.LeaderNotAvailable
	})
}

// Controller returns the node that is the active controller.
func (c *Cluster) Controller() int {
	c.tb.Helper()
	return await(c, "controller", func(ctx context.Context) (int, error) {
		req := kmsg.NewPtrDescribeQuorumRequest()
		t := kmsg.NewDescribeQuorumRequestTopic()
		t.Topic = "__cluster_metadata"
		t.Partitions = append(t.Partitions, kmsg.NewDescribeQuorumRequestTopicPartition())
		req.Topics = append(req.Topics, t)
		resp, err := req.RequestWith(ctx, c.admin)
		if err == nil {
			err = kerr.ErrorForCode(resp.ErrorCode)
		}
		if err == nil {
			err = kerr.ErrorForCode(resp.Topics[0].Partitions[0].ErrorCode)
		}
		if err == nil && resp.Topics[0].Partitions[0].LeaderID <= 0 {
			err = kerr.NotController
		}
		if err != nil {
			return 0, err
		}
		return int(resp.Topics[0].Partitions[0].LeaderID), nil
	})
}

// Coordinator returns the node that coordinates the transactions of the id.
func (c *Cluster) Coordinator(id string) int {
	c.tb.Helper()
	return await(c, "coordinator of "+id, func(ctx context.Context) (int, error) {
		req := kmsg.NewPtrFindCoordinatorRequest()
		req.CoordinatorType, req.CoordinatorKey = 1, id
		req.CoordinatorKeys = []string{id}
		resp, err := req.RequestWith(ctx, c.admin)
		if err != nil {
			return 0, err
		}
		if len(resp.Coordinators) > 0 {
			return int(resp.Coordinators[0].NodeID), kerr.ErrorForCode(resp.Coordinators[0].ErrorCode)
		}
		return int(resp.NodeID), kerr.ErrorForCode(resp.ErrorCode)
	})
}

// ElectPreferred makes the first replica of every partition its leader.
func (c *Cluster) ElectPreferred() {
	c.tb.Helper()
	await(c, "election", func(ctx context.Context) (int, error) {
		req := kmsg.NewPtrElectLeadersRequest()
		resp, err := req.RequestWith(ctx, c.admin)
		if err == nil {
			err = kerr.ErrorForCode(resp.ErrorCode)
		}
		return 0, err
	})
}

// Healthy waits until all nodes are up and every partition has a leader and all
// replicas in sync.
func (c *Cluster) Healthy() {
	c.tb.Helper()
	await(c, "all replicas in sync", func(ctx context.Context) (int, error) {
		req := kmsg.NewPtrMetadataRequest()
		req.Topics = nil
		resp, err := req.RequestWith(ctx, c.admin)
		if err != nil {
			return 0, err
		}
		if len(resp.Brokers) < Nodes {
			return 0, fmt.Errorf("%d brokers", len(resp.Brokers))
		}
		for _, t := range resp.Topics {
			for _, p := range t.Partitions {
				if p.Leader <= 0 || len(p.ISR) < len(p.Replicas) {
					return 0, fmt.Errorf("%s/%d is led by %d, in sync %v of %v", *t.Topic, p.Partition, p.Leader, p.ISR, p.Replicas)
				}
			}
		}
		return 0, nil
	})
}

// await calls f until it succeeds.
func await[T any](c *Cluster, what string, f func(context.Context) (T, error)) T {
	c.tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	for {
		v, err := f(ctx)
		if err == nil {
			return v
		}
		if ctx.Err() != nil {
			c.tb.Fatalf("%s: %v", what, err)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// gate forwards connections to addr to target.
type gate struct {
	tb           testing.TB
	addr, target string

	mu    sync.Mutex
	l     net.Listener
	conns map[*net.TCPConn]bool
	hole  chan struct{} // closed if there is none
}

// newGate returns an open gate that is closed at the end of the test.
func newGate(tb testing.TB, addr, target string) *gate {
	g := &gate{tb: tb, addr: addr, target: target, hole: make(chan struct{})}
	close(g.hole)
	g.set(Open)
	tb.Cleanup(func() { g.set(Refuse) })
	return g
}

func (g *gate) set(how Gate) {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-g.hole:
	default:
		close(g.hole)
	}
	if how == Hole {
		g.hole = make(chan struct{})
	}
	if how == Refuse {
		if g.l != nil {
			g.l.Close()
		}
		g.l = nil
		for c := range g.conns {
			_ = c.SetLinger(0) // send a reset instead of an orderly close
			c.Close()
		}
		g.conns = nil
		return
	}
	if g.l != nil {
		return
	}
	l, err := net.Listen("tcp", g.addr)
	if err != nil {
		g.tb.Fatal(err)
	}
	g.l, g.conns = l, map[*net.TCPConn]bool{}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go g.forward(c.(*net.TCPConn))
		}
	}()
}

// forward copies in both directions between a client and the target.
func (g *gate) forward(client *net.TCPConn) {
	defer client.Close()
	if !g.enter(client) {
		return
	}
	defer g.leave(client)
	g.wait()
	to, err := net.Dial("tcp", g.target)
	if err != nil {
		return
	}
	server := to.(*net.TCPConn)
	defer server.Close()
	if !g.enter(server) {
		return
	}
	defer g.leave(server)
	go g.copy(client, server)
	g.copy(server, client)
}

// copy copies what src sends until either side ends, and closes both.
func (g *gate) copy(dst, src *net.TCPConn) {
	defer dst.Close()
	defer src.Close()
	buf := make([]byte, 64<<10)
	for {
		n, err := src.Read(buf)
		g.wait()
		if n > 0 {
			if _, err := dst.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func (g *gate) wait() {
	g.mu.Lock()
	hole := g.hole
	g.mu.Unlock()
	<-hole
}

func (g *gate) enter(c *net.TCPConn) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.conns == nil {
		return false
	}
	g.conns[c] = true
	return true
}

func (g *gate) leave(c *net.TCPConn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.conns, c)
}
