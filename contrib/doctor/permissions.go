package doctor

import (
	"strings"

	"github.com/streamsvm/streamsvm/contrib/statetopic"
	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/internal/deadletter"
	"github.com/streamsvm/streamsvm/stream/modeltopic"
	"github.com/streamsvm/streamsvm/topiclog"
)

// grant is a permission on one resource, in the words of kafka-acls.sh.
type grant struct {
	Resource, Name string // topic, group or transactional-id
	Operations     string // separated by spaces
	Prefix         bool   // Name is the beginning of names
}

const (
	toRead = "Read"
	toKeep = "Read Write Create DescribeConfigs" // a topic of one's own
)

// onTopics returns grants on topics; an empty name is none.
func onTopics(operations string, names ...string) (out []grant) {
	for _, name := range names {
		if name != "" {
			out = append(out, grant{"topic", name, operations, false})
		}
	}
	return out
}

func onID(id string) grant { return grant{"transactional-id", id, "Write", false} }

// grantsOnTransactions returns the grants on the ids under which models, checkpoints
// and dead letters are written. A user with these grants can stop the trainer that writes.
func (p *plan) grantsOnTransactions() (out []grant) {
	if p.ModelTopic != "" {
		out = append(out, onID(modeltopic.TransactionalID(p.ModelTopic, p.Model)))
	} else if topic, ok := topiclog.StateTopic(p.Checkpoint); ok {
		out = append(out, onID(statetopic.TransactionalID(topic, p.Model)))
	}
	if letters := p.letters(); len(letters) > 0 {
		g := onID(deadletter.TransactionalIDs(letters[0]))
		g.Prefix = true
		out = append(out, g)
	}
	return out
}

// letters lists the topics of dead letters.
func (p *plan) letters() (names []string) {
	for _, name := range p.reads() {
		if p.DeadLetters != "" {
			names = append(names, name+p.DeadLetters)
		}
	}
	return names
}

// grantsToTrain returns the grants that train needs.
func (p *plan) grantsToTrain() []grant {
	out := append(onTopics(toRead, p.reads()...), onTopics(toKeep, p.ModelTopic)...)
	if topic, ok := topiclog.StateTopic(p.Checkpoint); ok {
		out = append(out, onTopics(toKeep, topic)...)
	}
	out = append(out, onTopics("Write Create", p.Predictions)...)
	out = append(append(out, onTopics(toKeep, p.letters()...)...), p.grantsOnTransactions()...)
	if p.Group != "" {
		out = append(out, grant{"group", p.Group, toRead, false})
	}
	return out
}

// grantsToPredict returns the grants that predict and model follow need. The topics may be "".
func (p *plan) grantsToPredict(predictions, errors string) []grant {
	out := append(onTopics(toRead, p.Topics...), onTopics(toRead, p.ModelTopic)...)
	out = append(append(out, onTopics("Write Create", predictions)...), onTopics("Write Create DescribeConfigs", errors)...)
	if p.Group != "" { // transactions of every member
		out = append(out, grant{"group", p.Group, toRead, false}, grant{"transactional-id", p.Group + "-", "Write Describe", true})
	}
	return out
}

// grantsToPromote returns the grants that model promote and rollback need, for all aliases.
func (p *plan) grantsToPromote() []grant {
	if p.ModelTopic == "" {
		return nil
	}
	aliases := onID(modeltopic.TransactionalID(p.ModelTopic, modeltopic.AliasName(p.Model, "")))
	aliases.Prefix = true
	return append(onTopics("Read Write", p.ModelTopic), aliases)
}

// grantsToReplay returns the grants that dlq list and dlq replay need, without --to.
func (p *plan) grantsToReplay() (out []grant) {
	for i, letters := range p.letters() {
		out = append(append(out, onTopics(toRead, letters)...), onTopics("Write DescribeConfigs", p.reads()[i])...)
	}
	if out != nil {
		out = append(out, grant{"group", p.Group, toRead, false})
	}
	return out
}

// command returns the command that gives the grant to the principal, such as
// User:trainer.
func (p *plan) command(principal string, g grant) string {
	s := p.tool("kafka-acls.sh") + " --add --allow-principal " + cli.Quote(principal)
	for op := range strings.FieldsSeq(g.Operations) {
		s += " --operation " + op
	}
	s += " --" + g.Resource + " " + cli.Quote(g.Name)
	if g.Prefix {
		s += " --resource-pattern-type prefixed"
	}
	return s
}

// toUser returns the command that gives the grant to the present user.
func (p *plan) toUser(resource, name, operations string) string {
	user := p.User
	if user == "" {
		user = "..."
	}
	return p.command("User:"+user, grant{resource, name, operations, false})
}

// tool returns the beginning of an Apache Kafka command for this cluster.
func (p *plan) tool(name string) string {
	s := name + " --bootstrap-server " + strings.Join(p.Kafka.Brokers, ",")
	if p.Secure {
		s += " --command-config admin.properties"
	}
	return s
}

// alter returns the command that changes a setting of a topic.
func (p *plan) alter(topic, setting string) string {
	return p.tool("kafka-configs.sh") + " --alter --entity-type topics --entity-name " + topic + " --add-config " + setting
}
