package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/streamsvm/streamsvm/internal/app/cli"
)

func healthCommand() *cli.Command {
	return &cli.Command{
		Name: "health", Args: "URL", Summary: "check whether a service is healthy, for containers without curl",
		Text: `
Exits with code 0 if the URL answers 200 OK, and with 69 otherwise.`,
		Example: "streamsvm health http://127.0.0.1:8080/healthz",
		MinArgs: 1, MaxArgs: 1,
		Setup: func(f *cli.Flags) func(context.Context, *cli.Call) error {
			var timeout time.Duration
			f.Group("Input", func() { f.DurationVar(&timeout, "timeout", 4*time.Second, "how long to wait for the answer") })
			return func(ctx context.Context, c *cli.Call) error {
				if timeout <= 0 {
					return c.Bad("timeout", fmt.Errorf("%v is not a time to answer in", timeout))
				}
				ctx, cancel := context.WithTimeout(ctx, timeout)
				defer cancel()
				req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.Args[0], nil)
				if err != nil {
					return cli.Fail(cli.Usage, err)
				}
				if s := req.URL.Scheme; req.URL.Host == "" || s != "http" && s != "https" {
					return cli.Failf(cli.Usage, "%q is no URL like http://127.0.0.1:8080/healthz", c.Args[0])
				}
				resp, err := http.DefaultClient.Do(req)
				if err != nil {
					return cli.Fail(cli.Unavailable, err)
				}
				defer resp.Body.Close()
				body, err := io.ReadAll(io.LimitReader(resp.Body, 4096))
				if err != nil {
					return cli.Fail(cli.Unavailable, err)
				}
				text := strings.TrimSpace(string(body))
				if resp.StatusCode != http.StatusOK {
					return cli.Failf(cli.Unavailable, "%s: %s", resp.Status, text)
				}
				fmt.Fprintln(c.Out, text)
				return nil
			}
		},
	}
}
