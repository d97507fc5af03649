package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsvm/streamsvm/checkpoint"
	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/internal/spell"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/kafkaio"
	"github.com/streamsvm/streamsvm/stream/statetopic"
	"github.com/streamsvm/streamsvm/trainer"
)

// checkpoints looks at the directory and returns the newest valid checkpoint,
// if there is one.
func (d *checks) checkpoints() *checkpoint.Snapshot {
	if d.Checkpoint == "" {
		d.warn("checkpoint", "none is kept: after every restart learning begins again from nothing", "set checkpoint to a directory that outlives the process, or to kafka://TOPIC")
		return nil
	}
	if _, ok := statetopic.Topic(d.Checkpoint); ok {
		return nil // the cluster comes first
	}
	subject := "checkpoint " + d.Checkpoint
	dir := d.Checkpoint
	info, err := os.Stat(dir)
	for errors.Is(err, fs.ErrNotExist) && dir != filepath.Dir(filepath.Clean(dir)) { // it will be created
		dir = filepath.Dir(filepath.Clean(dir))
		info, err = os.Stat(dir)
	}
	switch {
	case err != nil:
		d.fail(cli.IO, subject, err.Error(), "")
		return nil
	case !info.IsDir():
		d.fail(cli.IO, subject, dir+" is not a directory", "")
		return nil
	}
	if err := writable(dir); err != nil {
		d.fail(cli.IO, subject, fmt.Sprintf("this user may not write to %s: %v", dir, err), fmt.Sprintf("chown %d %s", os.Geteuid(), dir))
	}
	store, err := checkpoint.Open(d.Checkpoint, checkpoint.Options{Retain: d.Retain, Log: d.Kafka.Log})
	if err != nil {
		d.fail(d.Code(err), subject, err.Error(), "")
		return nil
	}
	snap, err := store.Load()
	if err != nil {
		d.fail(d.Code(err), subject, err.Error(), "streamsvm model inspect "+d.Checkpoint)
		return nil
	}
	return d.fits(subject, snap)
}

// fits says whether training goes on from the checkpoint, and returns it.
func (d *checks) fits(subject string, snap *checkpoint.Snapshot) *checkpoint.Snapshot {
	if snap == nil {
		d.ok(subject, "there is none yet: this is a first start")
		return nil
	}
	if d.Learner == nil {
		return snap // the reason is among the settings' findings
	}
	if err := d.Learner.Fits(snap); err != nil {
		d.fail(cli.Config, subject, err.Error(), "use the settings that it was written with (streamsvm model inspect "+d.Checkpoint+"), or another "+d.place())
		return snap
	}
	d.ok(subject, "goes on after %d examples, written %s", snap.Header.Examples, snap.Header.Created.UTC().Format(time.RFC3339))
	return snap
}

// place says what keeps the checkpoints.
func (d *checks) place() string {
	if _, ok := statetopic.Topic(d.Checkpoint); ok {
		return "topic"
	}
	return "directory"
}

// stateTopic looks at the topic of the checkpoints, and returns the newest valid
// one, if there is one.
func (d *checks) stateTopic(ctx context.Context, name string) *checkpoint.Snapshot {
	subject := "topic " + name
	t, good := d.topic(ctx, name, need{"Write", "to keep checkpoints"}, need{"Read", "to go on from them after a restart"})
	if t == nil {
		d.missing(ctx, name, " --partitions 1 --config cleanup.policy=compact")
		return nil
	}
	if t.partitions != nil {
		if why, setting := statetopic.Unfit(len(t.partitions), t.config, d.MaxRecordBytes); why != "" {
			todo := "set checkpoint to another topic"
			if setting != "" {
				todo = d.tool("kafka-configs.sh") + " --alter --entity-type topics --entity-name " + name + " --add-config " + setting
			}
			d.fail(cli.Config, subject, why, todo)
			return nil
		}
	}
	if !good {
		return nil
	}
	subject = "checkpoint " + d.Checkpoint
	states, err := statetopic.Read(ctx, statetopic.ReadOptions{Config: d.Kafka, Topic: name, Name: d.Model, MaxDown: triedFor})
	if err != nil {
		d.fail(cli.Unavailable, subject, err.Error(), "")
		return nil
	}
	var snap *checkpoint.Snapshot
	if len(states) > 0 {
		if snap, err = states[0].Newest(); err != nil {
			d.fail(d.Code(err), subject, err.Error(), "streamsvm model inspect "+d.Checkpoint)
			return nil
		}
	}
	return d.fits(subject, snap)
}

// need is an operation on a topic, as kafka-acls.sh calls it, and what for.
type need struct {
	op, why string
}

// inputs checks the topics to read. The result tells whether all can be read.
func (d *checks) inputs(ctx context.Context, c *cluster) bool {
	good := true
	for _, name := range d.reads() {
		t, ok := d.topic(ctx, name, need{"Read", "to read examples"})
		if t == nil {
			d.fail(cli.Unavailable, "topic "+name, "it does not exist"+spell.DidYouMean(name, c.topics),
				d.tool("kafka-topics.sh")+" --create --topic "+name+" --partitions 3")
			good = false
			continue
		}
		if !ok {
			good = false
			continue
		}
		if len(t.leaderless) > 0 {
			d.fail(cli.Unavailable, "topic "+name, fmt.Sprintf("partitions %v have no leader: their brokers are down", t.leaderless), d.tool("kafka-topics.sh")+" --describe --unavailable-partitions")
			good = false
			continue
		}
		for _, p := range d.Partitions {
			if int(p) >= len(t.partitions) && slices.Contains(d.Topics, name) { // labels are read from all
				d.fail(cli.Unavailable, "topic "+name, fmt.Sprintf("it has no partition %d, only %d", p, len(t.partitions)), "")
				good = false
			}
		}
		d.ok("topic "+name, "%s, retention %s", count(len(t.partitions), "partition"), retentionText(t.config))
	}
	return good && len(d.Topics) > 0
}

// topic looks up a topic and what the user may do with it: nil if it does not
// exist, and false if there is anything against using it, which has been
// reported.
func (d *checks) topic(ctx context.Context, name string, needs ...need) (*topicInfo, bool) {
	t, err := d.describe(ctx, name)
	subject := "topic " + name
	switch {
	case err != nil:
		d.fail(cli.Unavailable, subject, err.Error(), "")
		return &topicInfo{name: name}, false
	case errors.Is(t.err, kerr.UnknownTopicOrPartition):
		return nil, false
	case errors.Is(t.err, kerr.TopicAuthorizationFailed):
		d.fail(cli.Unavailable, subject, d.who()+" may not even see it (no permission DESCRIBE), if it exists", d.aclFor("topic", name, needs[0].op))
		return t, false
	case t.err != nil:
		d.fail(cli.Unavailable, subject, t.err.Error(), "")
		return t, false
	}
	ok := true
	for _, n := range needs {
		if !may(t.allowed, n.op) {
			d.fail(cli.Unavailable, subject, fmt.Sprintf("%s has no permission %s, which it needs %s", d.who(), strings.ToUpper(n.op), n.why), d.aclFor("topic", name, n.op))
			ok = false
		}
	}
	if t.configErr != nil {
		todo := ""
		if errors.Is(t.configErr, kerr.TopicAuthorizationFailed) {
			todo = d.aclFor("topic", name, "DescribeConfigs")
		}
		d.warn(subject, "its settings cannot be read, so they are not checked: "+t.configErr.Error(), todo)
	}
	return t, ok
}

// who names the user in messages.
func (d *checks) who() string {
	if d.User != "" {
		return "user " + d.User
	}
	return "this client"
}

// outputs checks the model topic and the dead-letter topics.
func (d *checks) outputs(ctx context.Context) {
	if d.ModelTopic != "" {
		t, _ := d.topic(ctx, d.ModelTopic, need{"Write", "to publish the model"}, need{"Read", "to see which versions are there"})
		if t == nil {
			d.missing(ctx, d.ModelTopic, " --partitions 1 --config cleanup.policy=compact")
		} else if t.config != nil {
			d.modelSettings(t)
		}
	}
	if d.DeadLetters == "" {
		return
	}
	for _, name := range d.reads() {
		name += d.DeadLetters
		t, ok := d.topic(ctx, name, need{"Write", "to keep records that cannot be used"}, need{"Read", "to see after a restart which ones are there"})
		switch {
		case t == nil:
			d.missing(ctx, name, "")
		case ok:
			d.ok("topic "+name, "dead letters can be written")
		}
	}
}

// missing reports a topic that train would create.
func (d *checks) missing(ctx context.Context, name, options string) {
	subject := "topic " + name
	switch err := d.mayCreate(ctx, name); {
	case err == nil:
		d.ok(subject, "it does not exist and will be created")
	case errors.Is(err, kerr.TopicAuthorizationFailed), errors.Is(err, kerr.ClusterAuthorizationFailed):
		d.fail(cli.Unavailable, subject, "it does not exist, and "+d.who()+" may not create it",
			d.tool("kafka-topics.sh")+" --create --topic "+name+options+"\n"+d.aclFor("topic", name, "Create"))
	default:
		d.fail(cli.Unavailable, subject, "it does not exist and cannot be created: "+err.Error(), d.tool("kafka-topics.sh")+" --create --topic "+name+options)
	}
}

// modelSettings checks that the topic keeps the newest model, whole.
func (d *checks) modelSettings(t *topicInfo) {
	subject, good := "topic "+t.name, true
	alter := d.tool("kafka-configs.sh") + " --alter --entity-type topics --entity-name " + t.name + " --add-config "
	policy := t.config["cleanup.policy"]
	switch {
	case strings.Contains(policy, "delete"):
		good = false
		d.fail(cli.Config, subject, fmt.Sprintf("cleanup.policy is %s: the model is deleted after %s", policy, retentionText(t.config)), alter+"cleanup.policy=compact")
	case policy != "compact":
		good = false
		d.warn(subject, fmt.Sprintf("cleanup.policy is %q, not compact: the topic grows forever", policy), alter+"cleanup.policy=compact")
	}
	if most, err := strconv.ParseInt(t.config["max.message.bytes"], 10, 64); err == nil && most < int64(d.MaxRecordBytes)+batchOverhead {
		good = false
		d.fail(cli.Config, subject, fmt.Sprintf("max.message.bytes is %d, but records of the model have up to %d bytes and a header", most, d.MaxRecordBytes),
			fmt.Sprintf("%smax.message.bytes=%d\nor set max-record-bytes: %d", alter, d.MaxRecordBytes+batchOverhead, max(1, most-batchOverhead)))
	}
	if good {
		d.ok(subject, "compacted, records of up to %s bytes", t.config["max.message.bytes"])
	}
}

// batchOverhead is more than key, headers and framing add to a record of a
// model.
const batchOverhead = 4 << 10

// consumerGroup checks the group that is told about progress.
func (d *checks) consumerGroup(ctx context.Context) {
	if d.Group == "" {
		return
	}
	allowed, err := d.groupAllows(ctx, d.Group)
	if errors.Is(err, kerr.GroupAuthorizationFailed) || err == nil && !may(allowed, "Read") {
		d.fail(cli.Unavailable, "group "+d.Group, d.who()+" has no permission READ, which it needs to tell about progress", d.aclFor("group", d.Group, "Read"))
		return
	}
	if err != nil {
		d.fail(cli.Unavailable, "group "+d.Group, err.Error(), "")
		return
	}
	d.ok("group "+d.Group, "progress can be committed")
}

// transactions checks what the transactions need in which models and dead
// letters are written: permission, and a topic in which the brokers can note
// them.
func (d *checks) transactions(ctx context.Context, c *cluster) {
	grants := d.grantsOnTransactions()
	if len(grants) == 0 {
		return
	}
	const subject = "transactions"
	if len(c.leaderless) > 0 {
		d.fail(cli.Unavailable, subject, fmt.Sprintf("partitions %v of %s have no leader: their brokers are down", c.leaderless, transactionLog), d.tool("kafka-topics.sh")+" --describe --unavailable-partitions")
		return
	}
	if !c.transactions && !d.logsTransactions(ctx, c) {
		return
	}
	for _, g := range grants {
		if err := d.mayTransact(ctx, g.Name); err != nil {
			d.fail(cli.Unavailable, subject, fmt.Sprintf("%s has no permission WRITE on transactional id %s, which it needs to write", d.who(), g.Name), d.grant(g))
			return
		}
	}
	d.ok(subject, "models and dead letters can be written in transactions")
}

// logsTransactions tells, before the first transaction, whether the brokers
// will be able to note it, as far as they say.
func (d *checks) logsTransactions(ctx context.Context, c *cluster) bool {
	for id := range c.brokers {
		config, err := d.config(ctx, kmsg.ConfigResourceTypeBroker, strconv.Itoa(int(id)))
		if err != nil {
			return true // that is for administrators
		}
		replicas, err := strconv.Atoi(config["transaction.state.log.replication.factor"])
		if err != nil {
			continue
		}
		if replicas > len(c.brokers) {
			d.fail(cli.Unavailable, "transactions", fmt.Sprintf("transaction.state.log.replication.factor is %d at broker %d, and there are %d brokers: no transaction can begin", replicas, id, len(c.brokers)),
				fmt.Sprintf("set transaction.state.log.replication.factor=%d in the brokers' settings, or start more brokers", len(c.brokers)))
			return false
		}
		if least, err := strconv.Atoi(config["transaction.state.log.min.isr"]); err == nil && least > replicas {
			d.fail(cli.Unavailable, "transactions", fmt.Sprintf("transaction.state.log.min.isr is %d at broker %d, and transaction.state.log.replication.factor only %d: no transaction can begin", least, id, replicas),
				fmt.Sprintf("set transaction.state.log.min.isr=%d in the brokers' settings", max(1, replicas-1)))
			return false
		}
	}
	return true
}

// Retention returns how long a topic with these settings keeps records; 0 is forever.
func Retention(config map[string]string) time.Duration {
	if !strings.Contains(config["cleanup.policy"], "delete") {
		return 0
	}
	ms, err := strconv.ParseInt(config["retention.ms"], 10, 64)
	if err != nil || ms < 0 || ms > int64(1<<63-1)/int64(time.Millisecond) {
		return 0
	}
	return time.Duration(ms) * time.Millisecond
}

func retentionText(config map[string]string) string {
	if config == nil {
		return "unknown"
	}
	text := "forever"
	if r := Retention(config); r > 0 {
		text = r.String()
	}
	if n, err := strconv.ParseInt(config["retention.bytes"], 10, 64); err == nil && n >= 0 && strings.Contains(config["cleanup.policy"], "delete") {
		text += fmt.Sprintf(" or %d bytes", n)
	}
	return text
}

// same tells whether the topics are those that the checkpoint knows, as far as
// that can be found out.
func (d *checks) same(ctx context.Context, snap *checkpoint.Snapshot) bool {
	if snap == nil {
		return true
	}
	renewed, err := trainer.ReplacedTopics(ctx, d.Kafka, snap.Header, triedFor)
	if err != nil {
		return true // what keeps us from asking is among the findings
	}
	for _, name := range renewed {
		d.fail(cli.Data, "topic "+name, "it has been deleted and created again since the checkpoint, whose offsets mean other records now",
			"start over with another checkpoint "+d.place()+", or go on with --on-out-of-range earliest or latest")
	}
	return len(renewed) == 0
}

// retention compares what the topics still have with what is to be read next.
func (d *checks) retention(ctx context.Context, snap *checkpoint.Snapshot) {
	if snap == nil {
		return
	}
	var ps []stream.Partition
	for _, p := range snap.Header.Offsets.Partitions() {
		for _, t := range d.reads() {
			if p.Topic == t {
				ps = append(ps, p)
			}
		}
	}
	if len(ps) == 0 {
		d.warn("checkpoint "+d.Checkpoint, "it knows none of the topics: they are read from "+d.Start, "")
		return
	}
	first, end, err := kafkaio.Bounds(ctx, d.Kafka, ps, time.Second)
	if err != nil {
		d.fail(cli.Unavailable, "topics", "the offsets that they hold cannot be asked for: "+err.Error(), "")
		return
	}
	good := true
	for _, p := range ps {
		next := snap.Header.Offsets[p]
		subject := fmt.Sprintf("topic %s partition %d", p.Topic, p.ID)
		switch {
		case next < first[p]:
			good = false
			d.fail(cli.Data, subject, fmt.Sprintf("retention has overtaken the checkpoint: it goes on at offset %d, but the topic begins at %d; %d records are lost", next, first[p], first[p]-next),
				"accept that with --on-out-of-range earliest, or start over with another checkpoint "+d.place())
		case next > end[p]:
			good = false
			d.fail(cli.Data, subject, fmt.Sprintf("the checkpoint goes on at offset %d, but the topic ends at %d: it was created again, or has lost records", next, end[p]),
				"start over with another checkpoint "+d.place()+", or accept a jump with --on-out-of-range")
		}
	}
	age := time.Since(snap.Header.Created)
	for _, name := range d.reads() {
		t, err := d.describe(ctx, name)
		if err != nil || t.config == nil {
			continue
		}
		if r := Retention(t.config); r > 0 && age > r/2 {
			good = false
			d.warn("topic "+name, fmt.Sprintf("the checkpoint is %v old and the topic keeps records for %v: what has not been read by then is lost", age.Round(time.Second), r),
				"start train soon, or "+d.tool("kafka-configs.sh")+" --alter --entity-type topics --entity-name "+name+" --add-config retention.ms="+strconv.FormatInt(max(2*r, 4*age).Milliseconds(), 10))
		}
	}
	if good {
		d.ok("checkpoint "+d.Checkpoint, "the topics still have what comes next")
	}
}
