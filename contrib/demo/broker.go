package demo

import (
	"context"
	"errors"
	"fmt"

	"github.com/streamsvm/streamsvm/contrib/broker"
	"github.com/streamsvm/streamsvm/internal/app/cli"
)

// brokerCommand returns the command broker.
func brokerCommand() *cli.Command {
	return &cli.Command{
		Name: "broker", Summary: "run a Kafka-compatible broker on this machine, for development and trials only",
		Text: `
Speaks the Kafka protocol on the loopback interface, so that you can try the
other commands, and any Kafka client, without installing Kafka. It is one process
without replication, access control or throttling: do not keep data in it that
you cannot afford to lose. As in Apache Kafka, a topic is created with one
partition when a client writes to it.`,
		Example: "streamsvm broker --data-dir ./broker-data",
		Setup: func(f *cli.Flags) func(context.Context, *cli.Call) error {
			var o broker.Options
			var noAutoCreate bool
			f.Group("Broker", func() {
				f.StringVar(&o.Addr, "addr", "127.0.0.1:9092", "loopback `HOST:PORT` to listen on; port 0 picks a free one")
				f.StringVar(&o.DataDir, "data-dir", "", "`DIR` that keeps topics across restarts; without it they are in memory")
				f.BoolVar(&noAutoCreate, "no-auto-create", false, "answer UNKNOWN_TOPIC_OR_PARTITION instead of creating a topic that a client asks for")
			})
			return func(ctx context.Context, c *cli.Call) error {
				o.Log, o.AutoCreate = c.Log, !noAutoCreate
				b, err := broker.Start(o)
				if _, ok := errors.AsType[*broker.AddrError](err); ok {
					return c.Bad("addr", err)
				}
				if err != nil {
					return cli.Fail(cli.Unavailable, err)
				}
				defer b.Close()
				fmt.Fprintf(c.Out, "listening on %s\n", b.Addr())
				if !c.Quiet {
					where := "in " + o.DataDir
					if o.DataDir == "" {
						where = "in memory: they are gone when it stops"
					}
					fmt.Fprintf(c.Err, "For development and trials only. Topics are kept %s. Stop with Ctrl-C.\n", where)
				}
				<-ctx.Done()
				return nil
			}
		},
	}
}
