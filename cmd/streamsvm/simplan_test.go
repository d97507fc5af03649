package main

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// simPlan is all that a simulated run depends on besides the order in which
// goroutines happen to run.
type simPlan struct {
	Seed    uint64     `json:"seed"`
	Records int        `json:"records"`
	Job     simJob     `json:"job"`
	Faults  []simFault `json:"faults,omitempty"`
}

// simJob is what the trainer is to do, and who else there is.
type simJob struct {
	Learner    string `json:"learner"`
	Classes    int    `json:"classes"` // 0: a number is to be predicted
	Events     bool   `json:"events,omitempty"`
	Weights    bool   `json:"weights,omitempty"`
	Partitions int    `json:"partitions"`
	Nodes      int    `json:"nodes"`
	Malformed  int    `json:"malformed,omitempty"` // one record in so many; 0: none
	Tombstones bool   `json:"tombstones,omitempty"`
	Large      bool   `json:"large,omitempty"` // some malformed records have a feature at the limit
	Rare       bool   `json:"rare,omitempty"`  // the last class is rare
	Turn       int    `json:"turn,omitempty"`  // from this record on labels are reversed; 0: never
	Unlabelled bool   `json:"unlabelled,omitempty"`
	Jumps      bool   `json:"jumps,omitempty"` // of the producer's clock

	// Of labels on a topic of their own; 0: they come with the records.
	LabelPartitions int  `json:"label_partitions,omitempty"`
	Later           bool `json:"later,omitempty"` // labels come in later records of the examples' topic
	Delay           int  `json:"delay,omitempty"` // most records between an example and its label
	Window          int  `json:"window,omitempty"`

	Fetch     int    `json:"fetch"` // bytes of a partition at a time
	State     string `json:"state"` // dir or kafka
	Every     int    `json:"every"` // records between checkpoints
	FullEvery int    `json:"full_every"`
	Chunk     int    `json:"chunk,omitempty"` // bytes of a record in the model topic
	Gate      bool   `json:"gate,omitempty"`
	Tune      bool   `json:"tune,omitempty"`
	Live      bool   `json:"live,omitempty"`    // records come while the trainer runs
	Members   int    `json:"members,omitempty"` // of a group that predicts
	Follow    bool   `json:"follow,omitempty"`  // a subscriber follows the model
}

// simFault is one thing that goes wrong.
type simFault struct {
	Kind string `json:"kind"`
	// Role is whom it hits: trainer, rival, member-N or follower.
	Role string `json:"role,omitempty"`
	// At is when, as a share of the undisturbed run: of the role's writes to the
	// network or the disk, or of the time.
	At   float64       `json:"at"`
	Part float64       `json:"part,omitempty"` // of the bytes written that still arrive
	For  time.Duration `json:"for,omitempty"`
	How  string        `json:"how,omitempty"` // a crash of the disk, an error
	N    int           `json:"n,omitempty"`   // how many times
	// Request is the only kind of request that a fault at a send hits; "" is any.
	Request string `json:"request,omitempty"`
}

// Kinds of faults, by what sets them off.
var (
	simNetworkFaults = []string{"kill at a send", "cut at a send", "slow send", "broker killed at a send"}
	simDiskFaults    = []string{"kill at a disk write", "power cut", "disk full", "disk error"}
	simTimedFaults   = []string{"kill", "stopped", "broker gone at a stop", "connections cut", "isolated", "broker restarted", "broker killed", "leader moved", "coordinator moved", "request refused", "topic compacted", "rival starts"}
)

// simRequests are those of transactions.
var simRequests = []string{"InitProducerID", "AddPartitionsToTxn", "Produce", "TxnOffsetCommit", "EndTxn", "EndTxn"}

// simRefusals are answers of a broker that clients must cope with.
var simRefusals = []string{
	"Produce NOT_LEADER_FOR_PARTITION", "Produce REQUEST_TIMED_OUT", "Produce NOT_ENOUGH_REPLICAS",
	"Fetch NOT_LEADER_FOR_PARTITION", "Fetch UNKNOWN_LEADER_EPOCH", "ListOffsets NOT_LEADER_FOR_PARTITION",
	"EndTxn CONCURRENT_TRANSACTIONS", "EndTxn COORDINATOR_LOAD_IN_PROGRESS", "EndTxn NOT_COORDINATOR",
	"AddPartitionsToTxn CONCURRENT_TRANSACTIONS", "AddPartitionsToTxn COORDINATOR_NOT_AVAILABLE",
	"InitProducerID CONCURRENT_TRANSACTIONS", "InitProducerID COORDINATOR_LOAD_IN_PROGRESS",
	"FindCoordinator COORDINATOR_NOT_AVAILABLE", "Heartbeat REBALANCE_IN_PROGRESS", "JoinGroup COORDINATOR_LOAD_IN_PROGRESS",
	"OffsetFetch COORDINATOR_LOAD_IN_PROGRESS", "TxnOffsetCommit COORDINATOR_LOAD_IN_PROGRESS",
}

// drawPlan draws a job and what disturbs it.
func drawPlan(seed uint64) simPlan {
	r := rand.New(rand.NewPCG(seed, 2))
	one := func(p float64) bool { return r.Float64() < p }
	pick := func(list ...string) string { return list[r.IntN(len(list))] }
	p := simPlan{Seed: seed, Records: 100 + r.IntN(500)}
	j := &p.Job
	j.Learner = pick("adaptive", simShort, simShort, simShort, "scs", "online", "online", "dsg", "sbp", "ridge", "tsgs3vm")
	j.Classes = []int{2, 2, 2, 3, 4}[r.IntN(5)]
	if j.Learner == "ridge" || (j.Learner == "adaptive" || j.Learner == simShort || j.Learner == "online") && one(.2) {
		j.Classes = 0
	}
	j.Events = one(.5)
	j.Weights = !j.Events && j.Learner != "sbp" && one(.3)
	j.Partitions, j.Nodes = 1+r.IntN(4), 1+2*r.IntN(2)
	if one(.5) {
		j.Malformed = 5 + r.IntN(60)
	}
	j.Tombstones, j.Unlabelled, j.Jumps = one(.2), one(.3), one(.15)
	j.Large, j.Rare = one(.3), one(.2)
	if one(.5) {
		j.Turn = 100 + r.IntN(200)
	}
	if one(.4) {
		j.LabelPartitions, j.Delay, j.Window = 1+r.IntN(3), 1+r.IntN(200), 10+r.IntN(400)
		if j.Window%3 == 0 {
			j.LabelPartitions, j.Later = 0, true
		}
	}
	j.Fetch = 1 << (9 + r.IntN(8))
	j.State, j.Every, j.FullEvery = "dir", 20+r.IntN(200), []int{1, 2, 4, 16}[r.IntN(4)]
	if one(.3) {
		j.State = "kafka"
	}
	if j.Gate, j.Tune, j.Live = one(.25), one(.2), one(.3); j.Gate {
		p.Records += 500 // a comparison takes 200 or more
	}
	if one(.3) {
		j.Chunk = 4<<10 + r.IntN(8<<10)
	}
	if j.Live && j.Events {
		_ = one(.7) // so that plans stay as they were
		// How many events a live run looks at for their fields depends on when they come, which
		// faults change. TestSlowTopic has what must be equal: the replay of the recording.
		j.Events = false
	}
	if one(.2) {
		j.Members = 1
	}
	j.Follow = one(.2)

	roles := []string{"trainer", "trainer", "trainer"}
	for m := range j.Members {
		roles = append(roles, fmt.Sprintf("member-%d", m))
	}
	if j.Follow {
		roles = append(roles, "follower")
	}
	for range []int{0, 1, 1, 2, 2, 3, 4, 6}[r.IntN(8)] {
		f := simFault{At: r.Float64(), Part: math.Max(0, 1.4*r.Float64()-.2), Role: roles[r.IntN(len(roles))]}
		f.Part = min(1, f.Part)
		f.For = time.Duration(r.ExpFloat64() * float64(3*time.Second))
		if one(.1) {
			f.For = 65*time.Second + time.Duration(r.Int64N(int64(30*time.Second))) // longer than a transaction may last
		}
		switch k := r.Float64(); {
		case k < .3:
			f.Kind = simNetworkFaults[r.IntN(len(simNetworkFaults))]
			if f.Kind == "broker killed at a send" && (j.Nodes > 1 || f.Role != "trainer") {
				f.Kind = "cut at a send"
			}
			if f.Kind == "broker killed at a send" || one(.5) {
				f.Request = simRequests[r.IntN(len(simRequests))]
				if f.Kind == "cut at a send" {
					f.N = 1 + r.IntN(4) // clients try again
				}
			}
		case k < .5 && j.State == "dir" && f.Role == "trainer":
			f.Kind = simDiskFaults[r.IntN(len(simDiskFaults))]
			f.How = []string{"lose", "keep", "names", "zeros", "random"}[r.IntN(5)]
		default:
			f.Kind = simTimedFaults[r.IntN(len(simTimedFaults))]
			f.N = 1 + r.IntN(3)
			if f.Kind == "request refused" {
				f.How = simRefusals[r.IntN(len(simRefusals))]
			}
			if f.Kind == "broker killed" && j.Nodes > 1 { // the built-in broker is one
				f.Kind = "broker restarted"
			}
			if f.Kind == "broker gone at a stop" {
				f.For = simGrace + 10*time.Second
			}
			if f.Kind == "rival starts" && slices.ContainsFunc(p.Faults, func(x simFault) bool { return x.Kind == f.Kind }) {
				f.Kind = "kill"
			}
		}
		p.Faults = append(p.Faults, f)
		if f.Kind == "rival starts" && one(.5) { // while the first one is thought dead
			p.Faults = append(p.Faults, simFault{Kind: "isolated", Role: "trainer", At: f.At * r.Float64(), For: time.Duration(r.ExpFloat64() * float64(5*time.Second))})
		}
	}
	return p
}

func (p simPlan) String() string {
	b, _ := json.Marshal(p)
	return string(b)
}

// simShort is the default learner with sizes that short streams reach.
const simShort = "adaptive-short"

const (
	simEvents, simLabels, simModels, simState, simScored, simAnswers = "events", "labels", "models", "state", "scored", "answers"
	simStart                                                         = 946684800000 // when a bubble begins, in ms
)

// stream makes the records of the job, in the order in which they are produced.
func (p simPlan) stream() []*kgo.Record {
	r := rand.New(rand.NewPCG(p.Seed, 3))
	j := p.Job
	type rec struct {
		*kgo.Record
		at float64
	}
	var all []rec
	classes := []string{"ham", "spam", "eggs", "tofu"}
	add := func(at float64, topic string, partitions int, key string, value []byte, ts int64) {
		x := &kgo.Record{Topic: topic, Partition: int32(r.IntN(partitions)), Value: value, Timestamp: time.UnixMilli(ts)}
		if key != "" {
			x.Key = []byte(key)
		}
		all = append(all, rec{x, at})
	}
	clock := int64(simStart)
	for i := range p.Records {
		amount, hour, vip := 50+20*r.NormFloat64(), r.IntN(24), r.Float64() < .3
		country := []string{"DE", "FR", "BR", "US", "JP"}[r.IntN(5)]
		z := amount/20 + math.Abs(float64(hour-12))/6 + 2*float64(i)/float64(p.Records) + .3*r.NormFloat64()
		if country == "BR" || country == "JP" {
			z += 2
		}
		if vip {
			z += 1.5
		}
		// Quantiles of z, roughly.
		class := 0
		for _, t := range map[int][]float64{2: {6}, 3: {5, 7}, 4: {4.5, 6, 7.5}}[j.Classes] {
			if z > t {
				class++
			}
		}
		if j.Rare && class == j.Classes-1 && r.IntN(15) > 0 {
			class = 0
		}
		if j.Turn > 0 && i >= j.Turn {
			z, class = 10-z, max(0, j.Classes-1-class)
		}
		label := fmt.Sprintf("%q", classes[class])
		switch {
		case j.Classes == 0:
			label = fmt.Sprintf("%.4f", z)
		case !j.Events && j.Classes == 2:
			label = fmt.Sprint(2*class - 1)
		case !j.Events:
			label = fmt.Sprint(class)
		}
		key := fmt.Sprintf("e%d", i)
		var fields []string
		if j.Events {
			fields = append(fields, fmt.Sprintf(`"amount":%.3f,"country":%q,"hour":%d,"customer":{"vip":%v}`, amount, country, hour, vip))
		} else {
			v := 0.
			if vip {
				v = 1
			}
			fields = append(fields, fmt.Sprintf(`"x":[%.3f,%.3f,%.3f,%v]`, amount/20-2.5, float64(hour)/12-1, float64(len(country+key)%5), v))
		}
		if j.Weights {
			fields = append(fields, fmt.Sprintf(`"weight":%.2f`, .2+2*r.Float64()))
		}
		late := j.LabelPartitions > 0 || j.Later
		unlabelled := j.Unlabelled && r.IntN(20) == 0
		if !late && !unlabelled {
			fields = append(fields, `"y":`+label)
		}
		value := []byte("{" + strings.Join(fields, ",") + "}")
		switch {
		case j.Malformed > 0 && i > 30 && r.IntN(j.Malformed) == 0:
			value = [][]byte{[]byte(`{"amount":`), {0xff, 0xfe, 0}, []byte("[1,2,3"), []byte(`{"x":"NaNsense"`), {}}[r.IntN(5)]
		case j.Large && i > 30 && r.IntN(40) == 0:
			y := `,"y":` + label
			if j.Later {
				y = ""
			}
			large := []string{"1e18", "9.9e17", "-1e18", "1e19", "1e-30"}[r.IntN(5)]
			if value = []byte(`{"x":[` + large + `,0,0,1]` + y + `}`); j.Events {
				value = []byte(`{"amount":` + large + `,"country":"DE","hour":3,"customer":{"vip":true}` + y + `}`)
			}
		case j.Tombstones && i > 30 && r.IntN(25) == 0:
			value = nil
		}
		clock += int64(1 + r.IntN(4))
		if j.Jumps && r.IntN(60) == 0 {
			clock += r.Int64N(7_200_000) - 3_600_000
		}
		add(float64(i), simEvents, j.Partitions, key, value, clock)
		if !late || unlabelled {
			continue
		}
		topic, partitions, l := simLabels, j.LabelPartitions, fmt.Appendf(nil, `{"id":%q,"y":%s}`, key, label)
		if j.Later {
			topic, partitions, l = simEvents, j.Partitions, []byte("{"+strings.Join(fields, ",")+`,"y":`+label+"}")
		}
		d := 1 + r.IntN(j.Delay)
		switch r.IntN(40) {
		case 0: // it never comes
			continue
		case 1: // it comes before its example
			d = -d
		case 3: // it comes much later than others
			d *= 4
		case 2: // it comes twice
			add(float64(i)+float64(d)+.7, topic, partitions, key, l, clock+int64(3*d)+2)
		}
		add(float64(i)+float64(d)+.5, topic, partitions, key, l, clock+int64(2*d)+1)
	}
	slices.SortStableFunc(all, func(a, b rec) int { return int(math.Copysign(1, a.at-b.at)) })
	out := make([]*kgo.Record, len(all))
	for i, x := range all {
		out[i] = x.Record
	}
	return out
}

// trainArgs is the trainer's command line.
// missing returns one of the labels.
func (j *simJob) missing() string {
	switch {
	case j.Classes == 0:
		return "5"
	case !j.Events && j.Classes == 2:
		return "-1"
	case !j.Events:
		return "0"
	}
	return "ham"
}

func (p simPlan) trainArgs() []string {
	j := p.Job
	state := "state"
	if j.State == "kafka" {
		state = "kafka://" + simState
	}
	args := []string{"train", "--brokers", simBroker, "--topics", simEvents, "--merge", "ordered", "--lateness", "24h", "--tolerance", "data", "--dlq",
		"--max-dead", "1", "--checkpoint", state, "--checkpoint-every", fmt.Sprint(j.Every), "--checkpoint-interval", "0", "--model-topic", simModels,
		"--fetch-max-bytes", fmt.Sprint(j.Fetch), "--learner", j.Learner, "--window", "100", "--log-level", "info"}
	if j.Chunk > 0 {
		args = append(args, "--max-record-bytes", fmt.Sprint(j.Chunk))
	}
	if j.Classes == 0 {
		args = append(args, "--task", "regress")
	}
	if j.Tune {
		args = append(args, "--warmup", "60")
	} else if j.Learner != "adaptive" && j.Learner != simShort {
		args = append(args, "--tune", "off", "--warmup", "50")
	}
	if j.Learner == "dsg" || j.Learner == "tsgs3vm" {
		args = append(args, "--set", "features=128")
	}
	if j.Events {
		args = append(args, "--label", "y")
	}
	if j.Tombstones {
		args = append(args, "--tombstones", "skip")
	}
	if j.LabelPartitions > 0 {
		args = append(args, "--labels-topic", simLabels)
	}
	if j.LabelPartitions > 0 || j.Later {
		args = append(args, "--join", "key", "--join-window", fmt.Sprint(j.Window))
		if j.Window%4 == 0 {
			args = append(args, "--missing-label", j.missing())
		}
	}
	if j.State == "kafka" {
		args = append(args, "--predictions-topic", simAnswers)
	}
	if j.Gate {
		gate := "error <= champion + 0.05; examples >= 200"
		if j.Classes == 0 {
			gate = "mae <= champion + 1; examples >= 200"
		}
		args = append(args, "--promote", "champion", "--gate", gate)
	}
	return args
}
