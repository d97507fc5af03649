package doctor

import (
	"fmt"
	"strings"

	"github.com/streamsvm/streamsvm/internal/app/cli"
)

// Grant is a permission on one resource, in the words of kafka-acls.sh.
type Grant struct {
	Resource, Name string // topic, group or transactional-id
	Operations     []string
}

var (
	toRead = []string{"Read"}
	toKeep = []string{"Read", "Write", "Create", "DescribeConfigs"} // a topic of one's own
)

// GrantsToTrain returns what train needs.
func (p *Plan) GrantsToTrain() []Grant {
	var out []Grant
	for _, name := range p.reads() {
		out = append(out, Grant{"topic", name, toRead})
	}
	if p.ModelTopic != "" {
		out = append(out, Grant{"topic", p.ModelTopic, toKeep})
	}
	if p.DeadLetters != "" {
		for _, name := range p.reads() {
			out = append(out, Grant{"topic", name + p.DeadLetters, toKeep})
		}
	}
	if p.transacts() {
		out = append(out, Grant{transactionalID, transactionalIDs, []string{"Write"}})
	}
	if p.Group != "" {
		out = append(out, Grant{"group", p.Group, toRead})
	}
	return out
}

// transactionalIDs begins the ids of all transactions: streamsvm.model.TOPIC.NAME
// for models, streamsvm.letters.ID for dead letters. Grants on a
// transactionalID are for all that begin so; Write implies Describe.
const (
	transactionalID  = "transactional-id"
	transactionalIDs = "streamsvm."
)

// transacts reports whether anything is written in transactions.
func (p *Plan) transacts() bool { return p.ModelTopic != "" || p.DeadLetters != "" }

// GrantsToPredict returns what predict and subscribe need.
func (p *Plan) GrantsToPredict(predictions string) []Grant {
	var out []Grant
	for _, name := range append(p.Topics[:len(p.Topics):len(p.Topics)], p.ModelTopic) {
		if name != "" {
			out = append(out, Grant{"topic", name, toRead})
		}
	}
	if predictions != "" {
		out = append(out, Grant{"topic", predictions, []string{"Write", "Create"}})
	}
	return out
}

// GrantsToReplay returns what dlq list and dlq replay need, without --to.
func (p *Plan) GrantsToReplay() []Grant {
	var out []Grant
	for _, name := range p.reads() {
		out = append(out, Grant{"topic", name + p.DeadLetters, toRead}, Grant{"topic", name, []string{"Write", "DescribeConfigs"}})
	}
	if len(out) == 0 {
		return nil
	}
	return append(out, Grant{"group", p.Group, toRead})
}

// Command is what gives the grant to the principal, such as User:trainer.
func (p *Plan) Command(principal string, g Grant) string {
	var b strings.Builder
	b.WriteString(p.tool("kafka-acls.sh") + " --add --allow-principal " + cli.Quote(principal))
	for _, op := range g.Operations {
		b.WriteString(" --operation " + op)
	}
	fmt.Fprintf(&b, " --%s %s", g.Resource, cli.Quote(g.Name))
	if g.Resource == transactionalID {
		b.WriteString(" --resource-pattern-type prefixed")
	}
	return b.String()
}

// aclFor is the command that grants one operation to the present user.
func (p *Plan) aclFor(resource, name, op string) string {
	principal := "User:" + p.User
	if p.User == "" {
		principal = "User:..."
	}
	return p.Command(principal, Grant{resource, name, []string{op}})
}

// tool is the beginning of a command of Apache Kafka's for this cluster.
func (p *Plan) tool(name string) string {
	s := name + " --bootstrap-server " + strings.Join(p.Kafka.Brokers, ",")
	if p.Secure {
		s += " --command-config admin.properties"
	}
	return s
}
