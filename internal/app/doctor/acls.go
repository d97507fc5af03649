package doctor

import (
	"fmt"
	"strings"

	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/internal/deadletter"
	"github.com/streamsvm/streamsvm/stream/modeltopic"
	"github.com/streamsvm/streamsvm/stream/statetopic"
)

// Grant is a permission on one resource, in the words of kafka-acls.sh.
type Grant struct {
	Resource, Name string // topic, group or transactional-id
	Operations     []string
	Prefix         bool // Name is the beginning of names
}

var (
	toRead = []string{"Read"}
	toKeep = []string{"Read", "Write", "Create", "DescribeConfigs"} // a topic of one's own
)

func onTopic(name string, operations []string) Grant {
	return Grant{Resource: "topic", Name: name, Operations: operations}
}

// grantsOnTransactions returns the grants on the ids under which models, checkpoints and
// dead letters are written. Who holds them can stop the trainer that writes.
func (p *Plan) grantsOnTransactions() (out []Grant) {
	write := []string{"Write"}
	if p.ModelTopic != "" {
		out = append(out, Grant{Resource: "transactional-id", Name: modeltopic.TransactionalID(p.ModelTopic, p.Model), Operations: write})
	} else if topic, ok := statetopic.Topic(p.Checkpoint); ok {
		out = append(out, Grant{Resource: "transactional-id", Name: statetopic.TransactionalID(topic, p.Model), Operations: write})
	}
	if p.DeadLetters != "" && len(p.reads()) > 0 {
		out = append(out, Grant{Resource: "transactional-id", Name: deadletter.TransactionalIDs(p.reads()[0] + p.DeadLetters), Operations: write, Prefix: true})
	}
	return out
}

// GrantsToTrain returns what train needs.
func (p *Plan) GrantsToTrain() []Grant {
	var out []Grant
	for _, name := range p.reads() {
		out = append(out, onTopic(name, toRead))
	}
	if p.ModelTopic != "" {
		out = append(out, onTopic(p.ModelTopic, toKeep))
	}
	if topic, ok := statetopic.Topic(p.Checkpoint); ok {
		out = append(out, onTopic(topic, toKeep))
	}
	if p.DeadLetters != "" {
		for _, name := range p.reads() {
			out = append(out, onTopic(name+p.DeadLetters, toKeep))
		}
	}
	out = append(out, p.grantsOnTransactions()...)
	if p.Group != "" {
		out = append(out, Grant{Resource: "group", Name: p.Group, Operations: toRead})
	}
	return out
}

// GrantsToPredict returns what predict and model follow need, and, where there is a
// topic for what is forwarded, sift; the topics may be "".
func (p *Plan) GrantsToPredict(predictions, errors, distilled string) []Grant {
	var out []Grant
	for _, name := range append(p.Topics[:len(p.Topics):len(p.Topics)], p.ModelTopic) {
		if name != "" {
			out = append(out, onTopic(name, toRead))
		}
	}
	if predictions != "" {
		out = append(out, onTopic(predictions, []string{"Write", "Create"}))
	}
	if distilled != "" {
		out = append(out, onTopic(distilled, []string{"Write", "Create"}))
	}
	if errors != "" {
		out = append(out, onTopic(errors, []string{"Write", "Create", "DescribeConfigs"}))
	}
	if p.Group != "" { // transactions of every member
		out = append(out, Grant{Resource: "group", Name: p.Group, Operations: toRead},
			Grant{Resource: "transactional-id", Name: p.Group + "-", Operations: []string{"Write", "Describe"}, Prefix: true})
	}
	return out
}

// GrantsToSum returns what sum needs; the topic of errors may be "".
func (p *Plan) GrantsToSum(sums, errors string) []Grant {
	return append(p.GrantsToPredict("", errors, ""), onTopic(sums, []string{"Read", "Write", "Create"}))
}

// GrantsToSolve returns what solve needs.
func (p *Plan) GrantsToSolve(sums string) []Grant {
	var out []Grant
	for _, name := range p.Topics {
		out = append(out, onTopic(name, toRead))
	}
	out = append(out, onTopic(sums, []string{"Read", "Create"}))
	if p.ModelTopic != "" {
		out = append(out, onTopic(p.ModelTopic, toKeep),
			Grant{Resource: "transactional-id", Name: modeltopic.TransactionalID(p.ModelTopic, p.Model), Operations: []string{"Write"}})
	}
	return out
}

// GrantsToPromote returns what model promote and rollback need, for all aliases.
func (p *Plan) GrantsToPromote() []Grant {
	if p.ModelTopic == "" {
		return nil
	}
	return []Grant{
		onTopic(p.ModelTopic, []string{"Read", "Write"}),
		{Resource: "transactional-id", Name: modeltopic.TransactionalID(p.ModelTopic, modeltopic.AliasName(p.Model, "")), Operations: []string{"Write"}, Prefix: true},
	}
}

// GrantsToReplay returns what dlq list and dlq replay need, without --to.
func (p *Plan) GrantsToReplay() []Grant {
	var out []Grant
	for _, name := range p.reads() {
		out = append(out, onTopic(name+p.DeadLetters, toRead), onTopic(name, []string{"Write", "DescribeConfigs"}))
	}
	if len(out) == 0 {
		return nil
	}
	return append(out, Grant{Resource: "group", Name: p.Group, Operations: toRead})
}

// Command is what gives the grant to the principal, such as User:trainer.
func (p *Plan) Command(principal string, g Grant) string {
	var b strings.Builder
	b.WriteString(p.tool("kafka-acls.sh") + " --add --allow-principal " + cli.Quote(principal))
	for _, op := range g.Operations {
		b.WriteString(" --operation " + op)
	}
	fmt.Fprintf(&b, " --%s %s", g.Resource, cli.Quote(g.Name))
	if g.Prefix {
		b.WriteString(" --resource-pattern-type prefixed")
	}
	return b.String()
}

// aclFor is the command that grants one operation to the present user.
func (p *Plan) aclFor(resource, name, op string) string {
	return p.grant(Grant{Resource: resource, Name: name, Operations: []string{op}})
}

// grant is the command that gives the grant to the present user.
func (p *Plan) grant(g Grant) string {
	principal := "User:" + p.User
	if p.User == "" {
		principal = "User:..."
	}
	return p.Command(principal, g)
}

// tool is the beginning of a command of Apache Kafka's for this cluster.
func (p *Plan) tool(name string) string {
	s := name + " --bootstrap-server " + strings.Join(p.Kafka.Brokers, ",")
	if p.Secure {
		s += " --command-config admin.properties"
	}
	return s
}
