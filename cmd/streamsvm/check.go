package main

import (
	"errors"
	"fmt"
	"net"
	"strconv"

	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/stream/modeltopic"
)

// badListen returns an error if addr is not an address to listen on. Empty means not
// to listen.
func badListen(c *cli.Call, addr string) error {
	if addr == "" {
		return nil
	}
	_, port, err := net.SplitHostPort(addr)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return c.Bad("listen", fmt.Errorf("%q is not HOST:PORT%s", addr, bare(addr)))
	}
	return nil
}

// bare suggests an address if only a port is given.
func bare(port string) string {
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return ""
	}
	return fmt.Sprintf("; did you mean %q?", "127.0.0.1:"+port)
}

// badModelName refuses a --model-name that no model can have; empty means any model.
func badModelName(c *cli.Call, name string) error {
	if name == "" {
		return nil
	}
	if err := modeltopic.CheckName(name); err != nil {
		return c.Bad("model-name", err)
	}
	return nil
}

// alone refuses flags on the command line that have no effect because the flag needs
// is missing.
func alone(c *cli.Call, needs string, names ...string) error {
	for _, name := range names {
		if c.Origin(name).Source == cli.FromFlag {
			return c.Bad(name, errors.New("it needs "+needs))
		}
	}
	return nil
}
