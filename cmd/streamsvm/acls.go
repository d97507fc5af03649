package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/internal/app/dlq"
)

func aclsCommand() *cli.Command {
	return &cli.Command{
		Name: "acls", Section: "train", Summary: "print the commands that grant train what it needs, and no more",
		Text: `
Takes the settings of train and prints, for Apache Kafka's kafka-acls.sh, the
permissions that its user needs: nothing is changed. With --role predict they
are those of predict and subscribe.`,
		Example: "streamsvm acls --config streamsvm.yaml --principal User:trainer",
		Setup: func(f *cli.Flags) func(context.Context, *cli.Call) error {
			t := &train{}
			t.define(f)
			var role, principal, predictions string
			f.Group("ACLs", func() {
				f.Choice(&role, "role", "train", []string{"train", "predict", "dlq"}, "what the user does")
				f.StringVar(&principal, "principal", "", "`USER` as the brokers see it (default User: and --sasl-username)")
				f.StringVar(&predictions, "predictions-topic", "", "predict: `TOPIC` for predictions")
			})
			return func(_ context.Context, c *cli.Call) error {
				if principal == "" {
					if t.username == "" {
						return c.Bad("principal", fmt.Errorf("who is it? Give the user, e.g. User:trainer, or for client certificates User:CN=trainer"))
					}
					principal = "User:" + t.username
				}
				if !strings.Contains(principal, ":") {
					principal = "User:" + principal
				}
				grants := t.grants()
				switch role {
				case "predict":
					grants = t.grantsToPredict(predictions)
				case "dlq":
					grants = t.grantsToReplay()
				}
				if len(grants) == 0 {
					return cli.Failf(cli.Usage, "these settings use no topic: there is nothing to grant")
				}
				d := &checkup{train: t}
				for _, g := range grants {
					fmt.Fprintln(c.Out, d.grantLine(principal, g))
				}
				return nil
			}
		},
	}
}

// grant is a permission on one resource.
type grant struct {
	resource, name string // resource as an option of kafka-acls.sh
	ops            []kmsg.ACLOperation
}

// grants returns what train needs.
func (t *train) grants() []grant {
	var out []grant
	for _, name := range t.reads() {
		out = append(out, grant{"topic", name, []kmsg.ACLOperation{kmsg.ACLOperationRead}})
	}
	if t.modelTopic != "" {
		out = append(out, grant{"topic", t.modelTopic, []kmsg.ACLOperation{
			kmsg.ACLOperationRead, kmsg.ACLOperationWrite, kmsg.ACLOperationCreate, kmsg.ACLOperationDescribeConfigs,
		}})
	}
	if t.dlq != "" {
		for _, name := range t.reads() {
			out = append(out, grant{"topic", name + t.dlq, []kmsg.ACLOperation{
				kmsg.ACLOperationRead, kmsg.ACLOperationWrite, kmsg.ACLOperationCreate, kmsg.ACLOperationDescribeConfigs,
			}})
		}
	}
	if t.group != "" {
		out = append(out, grant{"group", t.group, []kmsg.ACLOperation{kmsg.ACLOperationRead}})
	}
	return out
}

// grantsToPredict returns what predict and subscribe need.
func (t *train) grantsToPredict(predictions string) []grant {
	var out []grant
	read := []kmsg.ACLOperation{kmsg.ACLOperationRead}
	for _, name := range slices.Concat(t.topics, []string{t.modelTopic}) {
		if name != "" {
			out = append(out, grant{"topic", name, read})
		}
	}
	if predictions != "" {
		out = append(out, grant{"topic", predictions, []kmsg.ACLOperation{kmsg.ACLOperationWrite, kmsg.ACLOperationCreate}})
	}
	return out
}

// grantsToReplay returns what dlq list and dlq replay need, without --to.
func (t *train) grantsToReplay() []grant {
	suffix, group := cmp.Or(t.dlq, ".dlq"), cmp.Or(t.group, dlq.Group)
	read := []kmsg.ACLOperation{kmsg.ACLOperationRead}
	var out []grant
	for _, name := range t.reads() {
		out = append(out, grant{"topic", name + suffix, read},
			grant{"topic", name, []kmsg.ACLOperation{kmsg.ACLOperationWrite, kmsg.ACLOperationDescribeConfigs}})
	}
	if len(out) == 0 {
		return nil
	}
	return append(out, grant{"group", group, read})
}

// operationNames are those that kafka-acls.sh takes.
var operationNames = map[kmsg.ACLOperation]string{
	kmsg.ACLOperationRead: "Read", kmsg.ACLOperationWrite: "Write", kmsg.ACLOperationCreate: "Create",
	kmsg.ACLOperationDescribe: "Describe", kmsg.ACLOperationDescribeConfigs: "DescribeConfigs",
}

func (d *checkup) grantLine(principal string, g grant) string {
	var b strings.Builder
	b.WriteString(d.tool("kafka-acls.sh") + " --add --allow-principal " + quoted(principal))
	for _, op := range g.ops {
		b.WriteString(" --operation " + operationNames[op])
	}
	fmt.Fprintf(&b, " --%s %s", g.resource, quoted(g.name))
	return b.String()
}

// quoted is a word for a shell.
func quoted(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_.:=/,", r))
	}) {
		return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
	}
	return s
}

// aclFor is the command that grants one operation to the present user.
func (d *checkup) aclFor(resource, name string, op kmsg.ACLOperation) string {
	principal := "User:" + d.username
	if d.username == "" {
		principal = "User:..."
	}
	return d.grantLine(principal, grant{resource, name, []kmsg.ACLOperation{op}})
}
