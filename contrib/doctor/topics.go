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
	"github.com/streamsvm/streamsvm/contrib/statetopic"
	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/internal/spell"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/codec"
	"github.com/streamsvm/streamsvm/stream/kafkaio"
	"github.com/streamsvm/streamsvm/topiclog"
	"github.com/streamsvm/streamsvm/trainer"
)

// checkpoints checks the directory and returns its newest valid checkpoint, if
// there is one.
func (d *checks) checkpoints() *checkpoint.Snapshot {
	if d.Checkpoint == "" {
		d.warn("checkpoint", "none is kept: every restart begins from nothing", "set checkpoint to a directory that outlives the process, or to kafka://TOPIC")
		return nil
	}
	if _, ok := topiclog.StateTopic(d.Checkpoint); ok {
		return nil // stateTopic checks it once the cluster is known
	}
	subject, dir := "checkpoint "+d.Checkpoint, d.Checkpoint
	info, err := os.Stat(dir)
	for errors.Is(err, fs.ErrNotExist) && dir != filepath.Dir(filepath.Clean(dir)) { // it will be created
		dir = filepath.Dir(filepath.Clean(dir))
		info, err = os.Stat(dir)
	}
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is not a directory", dir)
	}
	if err != nil {
		d.fail(cli.IO, subject, err.Error(), "")
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
	return d.fits(store.Load())
}

// fits reports whether training continues from a checkpoint that was read, and
// returns it.
func (d *checks) fits(snap *checkpoint.Snapshot, err error) *checkpoint.Snapshot {
	subject := "checkpoint " + d.Checkpoint
	switch {
	case err != nil:
		d.fail(d.Code(err), subject, err.Error(), "streamsvm model inspect "+d.Checkpoint)
		return nil
	case snap == nil:
		d.ok(subject, "there is none yet: this is a first start")
		return nil
	case d.Learner == nil:
		return snap // the reason is among the findings about the settings
	}
	given, err := codec.NewDiscovery(d.Codec, d.Format)
	if err == nil {
		err = d.Learner.Fits(snap, given)
	}
	if err != nil {
		d.fail(cli.Config, subject, err.Error(), "use the settings that it was written with (streamsvm model inspect "+d.Checkpoint+"), or train --restart")
		return snap
	}
	d.ok(subject, "continues after %d examples, written %s", snap.Header.Examples, snap.Header.Created.UTC().Format(time.RFC3339))
	return snap
}

// compacted are the options of kafka-topics.sh for topics of models and states.
const compacted = " --partitions 1 --config cleanup.policy=compact"

// stateTopic checks the topic of the checkpoints and returns the newest valid one,
// if there is one.
func (d *checks) stateTopic(ctx context.Context, name string) *checkpoint.Snapshot {
	t, good := d.topic(ctx, name, need{"Write", "to keep checkpoints"}, need{"Read", "to go on from them after a restart"})
	if t == nil {
		d.missing(ctx, name, compacted)
		return nil
	}
	if t.partitions != nil {
		if why, setting := statetopic.Unfit(len(t.partitions), t.config, d.MaxRecordBytes); why != "" {
			todo := "set checkpoint to another topic"
			if setting != "" {
				todo = d.alter(name, setting)
			}
			d.fail(cli.Config, "topic "+name, why, todo)
			return nil
		}
	}
	if !good {
		return nil
	}
	states, err := statetopic.Read(ctx, statetopic.ReadOptions{Config: d.Kafka, Topic: name, Name: d.Model, MaxDown: triedFor})
	switch {
	case err != nil:
		d.unavailable("checkpoint "+d.Checkpoint, err.Error(), "")
		return nil
	case len(states) == 0:
		return d.fits(nil, nil)
	}
	return d.fits(states[0].Newest())
}

// need is an operation on a topic, as kafka-acls.sh calls it, and its purpose.
type need struct{ op, why string }

// inputs checks the topics to read, and reports whether all can be read.
func (d *checks) inputs(ctx context.Context, c *cluster) bool {
	failures := len(d.failed)
	for _, name := range d.reads() {
		t, ok := d.topic(ctx, name, need{"Read", "to read examples"})
		switch {
		case t == nil:
			d.unavailable("topic "+name, "it does not exist"+spell.DidYouMean(name, c.topics), d.tool("kafka-topics.sh")+" --create --topic "+name+" --partitions 3")
		case !ok:
		case len(t.leaderless) > 0:
			d.leaderless("topic "+name, "", t.leaderless)
		default:
			for _, p := range d.Partitions {
				if int(p) >= len(t.partitions) && slices.Contains(d.Topics, name) { // labels are read from all
					d.unavailable("topic "+name, fmt.Sprintf("it has no partition %d, only %d", p, len(t.partitions)), "")
				}
			}
			d.ok("topic "+name, "%s, retention %s", spell.Count(len(t.partitions), "partition"), retentionText(t.config))
		}
	}
	return len(d.failed) == failures && len(d.Topics) > 0
}

func (d *checks) leaderless(subject, of string, partitions []int32) {
	d.unavailable(subject, fmt.Sprintf("partitions %v%s have no leader: their brokers are down", partitions, of), d.tool("kafka-topics.sh")+" --describe --unavailable-partitions")
}

// topic describes a topic. It returns nil if the topic does not exist, and false if
// anything prevents its use, which it has then reported.
func (d *checks) topic(ctx context.Context, name string, needs ...need) (*topicInfo, bool) {
	subject := "topic " + name
	t, err := d.describe(ctx, name)
	if err == nil {
		err = t.err
	}
	switch {
	case errors.Is(err, kerr.UnknownTopicOrPartition):
		return nil, false
	case errors.Is(err, kerr.TopicAuthorizationFailed):
		d.unavailable(subject, d.who()+" may not even see it (no permission DESCRIBE), if it exists", d.toUser("topic", name, needs[0].op))
		return t, false
	case err != nil:
		d.unavailable(subject, err.Error(), "")
		return &topicInfo{name: name}, false
	}
	ok := true
	for _, n := range needs {
		if !may(t.allowed, n.op) {
			d.unavailable(subject, fmt.Sprintf("%s has no permission %s, which it needs %s", d.who(), strings.ToUpper(n.op), n.why), d.toUser("topic", name, n.op))
			ok = false
		}
	}
	if t.configErr != nil {
		todo := ""
		if errors.Is(t.configErr, kerr.TopicAuthorizationFailed) {
			todo = d.toUser("topic", name, "DescribeConfigs")
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

// outputs checks the model topic and the topics of predictions and dead letters.
func (d *checks) outputs(ctx context.Context) {
	if d.ModelTopic != "" {
		t, _ := d.topic(ctx, d.ModelTopic, need{"Write", "to publish the model"}, need{"Read", "to see which versions are there"})
		if t == nil {
			d.missing(ctx, d.ModelTopic, compacted)
		} else if t.config != nil {
			subject := "topic " + t.name
			if why, setting := topiclog.Unfit(t.config, d.MaxRecordBytes); why != "" {
				d.fail(cli.Config, subject, why, d.alter(t.name, setting))
			} else {
				d.ok(subject, "compacted, records of up to %s bytes", t.config["max.message.bytes"])
			}
		}
	}
	if name := d.Predictions; name != "" {
		t, ok := d.topic(ctx, name, need{"Write", "to predict"})
		if t == nil {
			d.missing(ctx, name, "")
		} else if ok {
			d.ok("topic "+name, "predictions can be written")
		}
	}
	for _, name := range d.letters() {
		t, ok := d.topic(ctx, name, need{"Write", "to keep records that cannot be used"}, need{"Read", "to see after a restart which ones are there"})
		if t == nil {
			d.missing(ctx, name, "")
		} else if ok {
			d.ok("topic "+name, "dead letters can be written")
		}
	}
}

// missing reports a topic that train would create.
func (d *checks) missing(ctx context.Context, name, options string) {
	subject, create := "topic "+name, d.tool("kafka-topics.sh")+" --create --topic "+name+options
	switch err := d.mayCreate(ctx, name); {
	case err == nil:
		d.ok(subject, "it does not exist and will be created")
	case errors.Is(err, kerr.TopicAuthorizationFailed), errors.Is(err, kerr.ClusterAuthorizationFailed):
		d.unavailable(subject, "it does not exist, and "+d.who()+" may not create it", create+"\n"+d.toUser("topic", name, "Create"))
	default:
		d.unavailable(subject, "it does not exist and cannot be created: "+err.Error(), create)
	}
}

// consumerGroup checks the group to which progress is committed.
func (d *checks) consumerGroup(ctx context.Context) {
	if d.Group == "" {
		return
	}
	subject := "group " + d.Group
	allowed, err := d.groupAllows(ctx, d.Group)
	switch {
	case errors.Is(err, kerr.GroupAuthorizationFailed), err == nil && !may(allowed, "Read"):
		d.unavailable(subject, d.who()+" has no permission READ, which it needs to tell about progress", d.toUser("group", d.Group, "Read"))
	case err != nil:
		d.unavailable(subject, err.Error(), "")
	default:
		d.ok(subject, "progress can be committed")
	}
}

// transactions checks the requirements of the transactions of models and dead letters:
// the permission, and a log in which the brokers can record them.
func (d *checks) transactions(ctx context.Context, c *cluster) {
	const subject = "transactions"
	grants := d.grantsOnTransactions()
	if len(grants) == 0 {
		return
	}
	if len(c.leaderless) > 0 {
		d.leaderless(subject, " of "+transactionLog, c.leaderless)
		return
	}
	if !c.transactions && !d.logsTransactions(ctx, c) {
		return
	}
	for _, g := range grants {
		if !d.mayTransact(ctx, g.Name) {
			d.unavailable(subject, fmt.Sprintf("%s has no permission WRITE on transactional id %s, which it needs to write", d.who(), g.Name), d.toUser(g.Resource, g.Name, g.Operations))
			return
		}
	}
	d.ok(subject, "models and dead letters can be written in transactions")
}

// logsTransactions reports whether the brokers will be able to create the log for
// the first transaction, as far as their answers tell.
func (d *checks) logsTransactions(ctx context.Context, c *cluster) bool {
	const factor, isr = "transaction.state.log.replication.factor", "transaction.state.log.min.isr"
	for id := range c.brokers {
		config, err := d.config(ctx, kmsg.ConfigResourceTypeBroker, strconv.Itoa(int(id)))
		if err != nil {
			return true // only administrators may ask
		}
		replicas, err := strconv.Atoi(config[factor])
		if err != nil {
			continue
		}
		if replicas > len(c.brokers) {
			d.unavailable("transactions", fmt.Sprintf("%s is %d at broker %d, and there are %d brokers: no transaction can begin", factor, replicas, id, len(c.brokers)),
				fmt.Sprintf("set %s=%d in the brokers' settings, or start more brokers", factor, len(c.brokers)))
			return false
		}
		if least, err := strconv.Atoi(config[isr]); err == nil && least > replicas {
			d.unavailable("transactions", fmt.Sprintf("%s is %d at broker %d, and %s only %d: no transaction can begin", isr, least, id, factor, replicas),
				fmt.Sprintf("set %s=%d in the brokers' settings", isr, max(1, replicas-1)))
			return false
		}
	}
	return true
}

func retentionText(config map[string]string) string {
	if config == nil {
		return "unknown"
	}
	text := "forever"
	if r := kafkaio.Retention(config); r > 0 {
		text = r.String()
	}
	if n, err := strconv.ParseInt(config["retention.bytes"], 10, 64); err == nil && n >= 0 && strings.Contains(config["cleanup.policy"], "delete") {
		text += fmt.Sprintf(" or %d bytes", n)
	}
	return text
}

// same reports whether the topics are the ones that the checkpoint knows, as far as
// can be determined.
func (d *checks) same(ctx context.Context, snap *checkpoint.Snapshot) bool {
	if snap == nil {
		return true
	}
	renewed, err := trainer.ReplacedTopics(ctx, d.Kafka, snap.Header, triedFor)
	if err != nil {
		return true // the reason is among the findings
	}
	for _, name := range renewed {
		d.fail(cli.Data, "topic "+name, "it has been deleted and created again since the checkpoint, whose offsets mean other records now",
			"start over with --restart, or go on with --on-out-of-range earliest or latest")
	}
	return len(renewed) == 0
}

// retention compares the oldest retained records with the next ones to read.
func (d *checks) retention(ctx context.Context, snap *checkpoint.Snapshot) {
	if snap == nil {
		return
	}
	ps := slices.DeleteFunc(snap.Header.Offsets.Partitions(), func(p stream.Partition) bool { return !slices.Contains(d.reads(), p.Topic) })
	if len(ps) == 0 {
		d.warn("checkpoint "+d.Checkpoint, "it knows none of the topics: they are read from "+d.Start, "")
		return
	}
	first, end, err := kafkaio.Bounds(ctx, d.Kafka, ps, time.Second)
	if err != nil {
		d.unavailable("topics", "their offsets cannot be looked up: "+err.Error(), "")
		return
	}
	good := true
	for _, p := range ps {
		next := snap.Header.Offsets[p]
		text, todo := "", ""
		if next < first[p] {
			text = fmt.Sprintf("retention has overtaken the checkpoint: it continues at offset %d, but the topic begins at %d now; %d records are lost", next, first[p], first[p]-next)
			todo = "accept that with --on-out-of-range earliest, or start over with --restart"
		} else if next > end[p] {
			text = fmt.Sprintf("the checkpoint continues at offset %d, but the topic ends at %d: it was created again, or has lost records", next, end[p])
			todo = "start over with --restart, or accept a jump with --on-out-of-range"
		}
		if text != "" {
			good = false
			d.fail(cli.Data, fmt.Sprintf("topic %s partition %d", p.Topic, p.ID), text, todo)
		}
	}
	age := time.Since(snap.Header.Created)
	for _, name := range d.reads() {
		t, err := d.describe(ctx, name)
		if err != nil {
			continue
		}
		if r := kafkaio.Retention(t.config); r > 0 && age > r/2 {
			good = false
			d.warn("topic "+name, fmt.Sprintf("the checkpoint is %v old and the topic keeps records for %v: records not read by then are lost", age.Round(time.Second), r),
				"start train soon, or "+d.alter(name, "retention.ms="+strconv.FormatInt(max(2*r, 4*age).Milliseconds(), 10)))
		}
	}
	if good {
		d.ok("checkpoint "+d.Checkpoint, "the topics still have the records that come next")
	}
}
