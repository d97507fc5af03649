package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/streamsvm/streamsvm/internal/app/broker"
	"github.com/streamsvm/streamsvm/internal/app/cli"
)

func brokerCommand() *cli.Command {
	return &cli.Command{
		Name: "broker", Summary: "run a broker on the loopback interface, for development and trials only",
		Text: `
The broker speaks the Kafka protocol, so that the other commands and any Kafka
client can be tried out without an installation. It is not Apache Kafka: one
process, no replication, no access control, no throttling. Do not keep in it
what you cannot lose.`,
		Example: "streamsvm broker --data-dir ./broker-data",
		Setup: func(f *cli.Flags) func(context.Context, *cli.Call) error {
			var o broker.Options
			f.Group("Broker", func() {
				f.StringVar(&o.Addr, "addr", "127.0.0.1:9092", "loopback `HOST:PORT` to listen on; port 0 picks a free one")
				f.StringVar(&o.DataDir, "data-dir", "", "`DIR` that keeps topics over restarts; without it they are kept in memory")
			})
			return func(ctx context.Context, c *cli.Call) error {
				o.Log = c.Log
				b, err := broker.Start(o)
				var addr *broker.AddrError
				if errors.As(err, &addr) {
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
