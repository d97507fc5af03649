package doctor

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/internal/app/contrib"
	"github.com/streamsvm/streamsvm/internal/deadletter"
	"github.com/streamsvm/streamsvm/stream/kafkaio"
)

// aclCommands are the commands for which config acls knows the permissions.
var aclCommands = []string{"train", "predict", "model", "dlq", "sift"}

// printACLs prints the commands of kafka-acls.sh that let the principal run the command
// with these settings. principal may be empty if they name a SASL user.
func printACLs(c *cli.Call, command string, resolve func() ([]cli.Value, error), principal string) error {
	if !slices.Contains(aclCommands, command) {
		return cli.Failf(cli.Usage, "config acls knows the permissions of %s, not of %q", strings.Join(aclCommands, ", "), command)
	}
	values, err := resolve()
	if err != nil {
		return err
	}
	of := map[string]string{}
	for _, v := range values {
		of[v.Name] = v.Value
	}
	list := func(name string) []string {
		return strings.FieldsFunc(of[name], func(r rune) bool { return r == ',' })
	}
	p := &plan{contrib.Plan{
		Kafka: kafkaio.Config{Brokers: list("brokers")}, User: of["sasl-username"], Secure: of["tls"] == "true" || of["sasl-mechanism"] != "none",
		Topics: list("topics"), Group: of["group"], ModelTopic: of["model-topic"], Model: cmp.Or(of["model-name"], "model"),
		DeadLetters: of["dlq"], Checkpoint: of["checkpoint"],
		Predictions: of["predictions-topic"], Labels: of["labels-topic"],
	}}
	switch {
	case principal == "" && p.User == "":
		return c.Bad("principal", errors.New("it is missing: give the user, such as User:trainer, or for client certificates User:CN=trainer"))
	case principal == "":
		principal = "User:" + p.User
	case !strings.Contains(principal, ":"):
		principal = "User:" + principal
	}
	missing := func(names ...string) error {
		for _, name := range names {
			if of[name] == "" {
				return cli.Failf(cli.Usage, "%s needs --%s: give it after --", command, name)
			}
		}
		return nil
	}
	var grants []grant
	switch command {
	case "train":
		grants = p.grantsToTrain()
	case "predict":
		grants = p.grantsToPredict(of["predictions-topic"], of["errors-topic"])
	case "sift":
		err = missing("group", "distilled-topic")
		grants = p.grantsToPredict(of["distilled-topic"], "")
	case "model":
		grants = p.grantsToPromote()
	case "dlq":
		p.Group = cmp.Or(p.Group, deadletter.ReplayGroup)
		grants = p.grantsToReplay()
	}
	if err == nil && len(grants) == 0 {
		err = cli.Failf(cli.Usage, "these settings of %s use no topic: there is nothing to grant", command)
	}
	if err != nil {
		return err
	}
	for _, g := range grants {
		fmt.Fprintln(c.Out, p.command(principal, g))
	}
	return nil
}
