package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/algos/registry"
	"github.com/streamsvm/streamsvm/internal/testkit/kafkatest"
	"github.com/streamsvm/streamsvm/stream/modeltopic"
)

// disturbance is something that happens to a cluster while it is in use.
type disturbance struct {
	name string
	// first is the learner to try where there is no time for all; "": then it is
	// left out.
	first string
	// via says that trainer and subscriber connect through forwarders.
	via bool
	// transactions says that the writer uses them.
	transactions bool
	// grows says that partitions are added, whose place among the others depends
	// on when the trainer finds them.
	grows bool
	// bites is for how long learning stands still at least. Else it has not
	// happened.
	bites time.Duration
	// before prepares it, unless it is nil.
	before func(*clusterRun)
	// happen lets it happen, and returns when it is over. When things are at their
	// worst it calls middle.
	happen func(r *clusterRun, middle func())
}

// The times of disturbances. A broker that has died is noticed after 9 s, the
// default of broker.session.timeout.ms.
const (
	deadFor   = 12 * time.Second
	pausedFor = 40 * time.Second
	cutFor    = 15 * time.Second
)

var disturbances = []disturbance{
	{name: "leader of an input partition killed", first: "scs", bites: deadFor / 4, happen: func(r *clusterRun, middle func()) {
		r.killed(r.c.Leader(r.w.topic, 0), middle)
	}},
	{name: "controller killed", happen: func(r *clusterRun, middle func()) { r.killed(r.c.Controller(), middle) }},
	{name: "all brokers restarted, one after the other", happen: func(r *clusterRun, middle func()) {
		for n := 1; n <= kafkatest.Nodes; n++ {
			r.c.Stop(n)
			if n == 2 {
				middle()
			}
			r.c.Start(n)
			r.c.Healthy()
		}
	}},
	{name: "leader of an input partition paused (SIGSTOP)", bites: deadFor / 4, happen: func(r *clusterRun, middle func()) {
		n := r.c.Leader(r.w.topic, 1)
		r.c.Pause(n)
		time.Sleep(pausedFor / 2)
		middle()
		time.Sleep(pausedFor / 2)
		r.c.Resume(n)
	}},
	{name: "preferred leaders elected", before: func(r *clusterRun) {
		r.c.Stop(1)
		r.c.Start(1)
		r.c.Healthy()
	}, happen: func(r *clusterRun, middle func()) {
		r.c.ElectPreferred()
		middle()
	}},
	{name: "partitions added to the input topic", grows: true, first: "online", happen: func(r *clusterRun, middle func()) {
		r.partitions += 3
		kafkatest.AddPartitions(r.t, r.c.Brokers, r.w.topic, r.partitions)
		middle()
		newest := fmt.Sprintf(`streamsvm_lag_records{partition="%d",`, r.partitions-1)
		for _, l := range r.learners {
			l.train.until("the trainer to read the last partition", func(_ uint64, metrics string) bool { return strings.Contains(metrics, newest) })
		}
	}},
	{name: "trainer cut off from a broker, connections refused", via: true, bites: cutFor / 2, happen: func(r *clusterRun, middle func()) {
		r.cut(kafkatest.Refuse, middle)
	}},
	{name: "trainer cut off from a broker, no answer", via: true, bites: cutFor / 2, first: "tsgs3vm", happen: func(r *clusterRun, middle func()) {
		r.cut(kafkatest.Hole, middle)
	}},
	{name: "leader of the model topic killed at a publication", first: "sbp", happen: func(r *clusterRun, middle func()) {
		n, l := r.c.Leader(r.models, 0), r.learners[0]
		waitCheckpoints(r.t, l.state, latest(r.t, l.state)+1, l.train.done)
		r.killed(n, middle)
	}},
	{name: "leader of the dead letters killed", happen: func(r *clusterRun, middle func()) {
		r.killed(r.c.Leader(r.w.topic+r.learners[0].dlq, 0), middle)
	}},
	{name: "coordinator of the writer's transactions killed", transactions: true, happen: func(r *clusterRun, middle func()) {
		r.killed(r.c.Coordinator(r.w.id), middle)
	}},
	{name: "coordinator of the trainer's transactions killed", happen: func(r *clusterRun, middle func()) {
		r.killed(r.c.Coordinator(modeltopic.TransactionalID(r.models, r.learners[0].spec.Name)), middle)
	}},
}

// clusterRun is a disturbance and the trainers that go through it.
type clusterRun struct {
	t          *testing.T
	c          *kafkatest.Cluster
	w          *inputWriter
	models     string // the model topic
	partitions int    // of the input topic
	learners   []*clusterLearner
}

// clusterLearner is a trainer, a subscriber to its model, and where they keep
// what.
type clusterLearner struct {
	spec                    algos.Spec
	train                   *trainee
	follow                  *follower
	args                    []string // of train
	how                     []string // those that make it what it learns
	dlq                     string   // suffix
	state, recording, saved string
}

// killed kills a node and starts it again.
func (r *clusterRun) killed(node int, middle func()) {
	r.c.Kill(node)
	time.Sleep(deadFor / 6)
	middle()
	time.Sleep(deadFor * 5 / 6)
	r.c.Start(node)
}

// cut interrupts the way from trainers and subscribers to the leader of an input partition.
func (r *clusterRun) cut(how kafkatest.Gate, middle func()) {
	n := r.c.Leader(r.w.topic, 2)
	r.c.Cut(n, how)
	defer r.c.Cut(n, kafkatest.Open)
	time.Sleep(cutFor / 3)
	middle()
	time.Sleep(cutFor * 2 / 3)
}

// phase lets the disturbance happen, with a kill of the trainers in the middle
// or without, and returns when everything is as before: how long it has lasted,
// and for how long writing and each learner stood still.
func (r *clusterRun) phase(d *disturbance, kill bool) (lasted, writing time.Duration, learning []time.Duration) {
	r.t.Helper()
	if d.before != nil {
		d.before(r)
	}
	r.further(writeRate)
	r.w.standstill()
	for _, l := range r.learners {
		l.train.standstill()
	}
	start := time.Now()
	d.happen(r, func() {
		if kill {
			for _, l := range r.learners {
				l.train.kill()
				l.train.start()
			}
		}
	})
	lasted = time.Since(start)
	r.further(writeRate)
	r.c.Healthy()
	writing = r.w.standstill()
	for _, l := range r.learners {
		still := l.train.standstill()
		if learning = append(learning, still); still < d.bites {
			r.t.Errorf("%s: learning stood still for %v only", d.name, still)
		}
	}
	r.t.Logf("%s for %s s, trainer killed: %v; writing stood still for %s s, learning for %s s; %d records consumed", d.name,
		sec(lasted), kill, sec(writing), sec(learning...), r.learners[0].train.consumed())
	return lasted, writing, learning
}

// further waits until every trainer has consumed so many more records.
func (r *clusterRun) further(n uint64) {
	r.t.Helper()
	for _, l := range r.learners {
		l.train.further(n)
	}
}

// sec returns times in seconds.
func sec(ds ...time.Duration) string {
	var out []string
	for _, d := range ds {
		out = append(out, fmt.Sprintf("%.1f", d.Seconds()))
	}
	return strings.Join(out, ", ")
}

// TestCluster trains on a topic of a cluster of three brokers while it is written
// to and the cluster is disturbed, with a kill of the trainer in the midst of it,
// and then, in full, the cluster alone. Then state, model and dead letters must be those
// of undisturbed runs, and every record must have been consumed once.
//
// It needs Apache Kafka and time: with STREAMSVM_TEST_CLUSTER=short some minutes,
// with full, where every disturbance and every learner has its turn and the
// results go to docs/measured/cluster.md, most of an hour; -run takes some.
func TestCluster(t *testing.T) {
	how := os.Getenv("STREAMSVM_TEST_CLUSTER")
	if how != "short" && how != "full" {
		t.Skip("set STREAMSVM_TEST_CLUSTER to short (some minutes) or full (most of an hour)")
	}
	c := kafkatest.NewCluster(t)
	examples := filepath.Join(t.TempDir(), "examples.json")
	must(t, "generate", "moons", "--count", "20000", "--codec", "json", "--out", examples, "-q")
	text := read(t, examples)
	lines := strings.Fields(string(text))

	try := func(d disturbance, specs ...algos.Spec) {
		name := d.name
		for _, spec := range specs {
			name += "/" + spec.Name
		}
		t.Run(name, func(t *testing.T) {
			c.In(t)
			row := clusterTrial(t, c, &d, specs, lines)
			if t.Log(row); how == "full" && !t.Failed() {
				tableRow(t, filepath.Join("..", "..", "docs", "measured", "cluster.md"), row)
			}
		})
	}
	if how == "short" {
		for _, d := range disturbances {
			if spec, err := registry.Lookup(d.first); err == nil {
				try(d, spec)
			}
		}
		return
	}
	// Two learners at a time are enough for all to have their turn.
	all := registry.All
	for i, d := range disturbances {
		try(d, all[2*i%len(all)], all[(2*i+1)%len(all)])
	}
	if 2*len(disturbances) < len(all) {
		t.Errorf("%d learners, but only %d have had a turn", len(all), 2*len(disturbances))
	}
}

// tableRow puts a row into the table of a page, in place of the one that begins
// in the same way, or behind the others.
func tableRow(t *testing.T, page, row string) {
	t.Helper()
	text := read(t, page)
	first, _, _ := strings.Cut(row[2:], "|")
	old := regexp.MustCompile(`(?m)^\| ` + regexp.QuoteMeta(first) + `\|.*\n`).FindIndex(text)
	if old == nil {
		all := regexp.MustCompile(`(?m)^\|.*\n`).FindAllIndex(text, -1)
		end := all[len(all)-1][1]
		old = []int{end, end}
	}
	write(t, page, slices.Concat(text[:old[0]], []byte(row), text[old[1]:]))
}

// cheaper has more flags for learners that would not keep pace with the writer.
var cheaper = map[string][]string{
	"sbp": {"--set", "buffer=500", "--set", "updates=2"},
}

// clusterTrial returns a row of the table.
func clusterTrial(t *testing.T, c *kafkatest.Cluster, d *disturbance, specs []algos.Spec, lines []string) string {
	brokers := c.Brokers
	if d.via {
		brokers = c.Via
	}
	topic := kafkatest.Topic(t, c.Brokers, 6, nil)
	r := &clusterRun{t: t, c: c, partitions: 6, models: topic + "-models", w: &inputWriter{t: t, brokers: c.Brokers, topic: topic, lines: lines}}
	if d.transactions {
		r.w.id = topic + "-writer"
	}
	r.w.start()
	for _, spec := range specs {
		dir := filepath.Join(t.TempDir(), spec.Name)
		if err := os.Mkdir(dir, 0o777); err != nil {
			t.Fatal(err)
		}
		l := &clusterLearner{
			spec: spec, how: slices.Concat(cheap(spec, algos.Classify), cheaper[spec.Name], []string{"--codec", "json", "--tolerance", "data"}),
			dlq:   ".dlq-" + spec.Name,
			state: filepath.Join(dir, "state"), recording: filepath.Join(dir, "run.ssr"), saved: filepath.Join(dir, "models"),
		}
		l.args = slices.Concat([]string{"train", "--brokers", strings.Join(brokers, ","), "--topics", topic, "--merge", "ordered",
			"--lateness", "2m", "--dlq=" + l.dlq, "--checkpoint", l.state, "--checkpoint-every", "1000", "--checkpoint-interval", "0",
			"--record", l.recording, "--model-topic", r.models, "--model-name", spec.Name}, l.how)
		l.train = newTrainee(t, dir, l.args)
		l.follow = newFollower(t, "--brokers", strings.Join(brokers, ","), "--model-topic", r.models, "--model-name", spec.Name, "--save", l.saved)
		r.learners = append(r.learners, l)
	}
	r.further(2 * writeRate)
	r.c.Healthy()

	lasted, writing, killed := r.phase(d, true)
	learning := killed
	if os.Getenv("STREAMSVM_TEST_CLUSTER") == "full" {
		lasted, writing, learning = r.phase(d, false)
	}

	r.w.end()
	n, refused := 0, 0
	for _, l := range r.learners {
		// The rest is learned by one more life, which ends.
		l.train.end()
		must(t, slices.Concat(l.args, []string{"--until-end"})...)
		var bad map[place]bool
		n, bad = checkRecords(t, r.w, l.recording, !d.grows)
		refused = len(bad)
		oneLetterEach(t, c.Brokers, topic+l.dlq, bad)
		s := newest(t, l.state)
		if m := s.Meta; m["consumed"] != fmt.Sprint(n) || m["dead"] != fmt.Sprint(refused) || m["pending"] != "0" {
			t.Errorf("%s: of %d records, %d of which cannot be used: %v", l.spec.Name, n, refused, m)
		}
		last := decode[updateLine](t, must(t, "model", "follow", "--brokers", strings.Join(c.Brokers, ","), "--model-topic", r.models,
			"--model-name", l.spec.Name, "--until", "1", "--json"))
		l.follow.has(last.Hash)

		// Undisturbed, the recording, which holds what it should, gives the same.
		again := filepath.Join(l.saved, "again.ssm")
		args := slices.Concat([]string{"replay", l.recording, "--model", again, "--json", "-"}, l.how)
		if x := decode[result](t, must(t, args...)).StateHash; x != s.StateHash {
			t.Errorf("%s: state %s, of the recording replayed %s", l.spec.Name, s.StateHash, x)
		}
		sameFile(t, filepath.Join(l.saved, l.spec.Name+ext), again)
	}
	var names []string
	for _, spec := range specs {
		names = append(names, spec.Name)
	}
	return fmt.Sprintf("| %s | %s | %s | %s | %s | %s | %d | %d |\n", d.name, sec(lasted), strings.Join(names, ", "), sec(writing), sec(learning...),
		sec(killed...), n, refused)
}
