package cli

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/pflag"
)

// redacted replaces a secret in everything that is printed.
const redacted = "<redacted>"

// secretMark is the annotation of flags that hold a secret.
const secretMark = "streamsvm-secret"

func secret(f *pflag.Flag) bool { return f.Annotations[secretMark] != nil }

// Secret defines the settings called name and name-file for a secret. In the
// environment or the configuration file the first one is the secret itself, the
// second one names a file that has it. The command line accepts only the file,
// because everybody on a machine can see the arguments of its processes.
// Call.Secret returns the secret.
func (f *Flags) Secret(name, usage string) {
	f.String(name, "", usage)
	own := f.Lookup(name)
	own.Hidden = true
	own.Annotations = map[string][]string{secretMark: {usage}}
	f.String(name+"-file", "", fmt.Sprintf("`FILE` that holds %s; or set %s, or %s in the configuration file", usage, EnvName(name), name))
}

// refuseSecrets returns an error if a secret is on the command line.
func (f *Flags) refuseSecrets() error {
	var err error
	f.VisitAll(func(fl *pflag.Flag) {
		if secret(fl) && fl.Changed {
			err = Failf(Usage, "--%s: secrets must not be on the command line, where every user of this machine can read them; use --%s-file, %s, or the configuration file", fl.Name, fl.Name, EnvName(fl.Name))
		}
	})
	return err
}

// Secret returns the secret of that name. The stronger source wins. Errors name the
// setting, never the value. The trailing newline of a file is not part of the
// secret.
func (c *Call) Secret(name string) (string, error) {
	file := name + "-file"
	own, other := c.secretRanks(name)
	flags := c.settings.flags
	switch {
	case own == 0 && other == 0:
		return "", c.Bad(file, errors.New("it is not set, and neither is "+EnvName(name)))
	case own == other:
		return "", c.Bad(name, fmt.Errorf("%s is set as well", file))
	case own > other:
		v := flags.Lookup(name).Value.String()
		if v == "" {
			return "", c.Bad(name, errors.New("it is empty"))
		}
		return v, nil
	}
	data, err := os.ReadFile(flags.Lookup(file).Value.String())
	if err != nil {
		return "", c.Bad(file, err)
	}
	v := strings.TrimRight(string(data), "\r\n")
	if v == "" {
		return "", c.Bad(file, errors.New("the file is empty"))
	}
	return v, nil
}

// SecretFile returns the name of the file that Call.Secret reads, empty if the
// secret is in a setting.
func (c *Call) SecretFile(name string) string {
	if own, other := c.secretRanks(name); own >= other {
		return ""
	}
	return c.settings.flags.Lookup(name + "-file").Value.String()
}

// secretRanks returns the precedence of the sources of a secret and of its file.
func (c *Call) secretRanks(name string) (own, file int) {
	rank := map[Source]int{FromFlag: 3, FromEnv: 2, FromFile: 1, FromDefault: 0}
	return rank[c.Origin(name).Source], rank[c.Origin(name+"-file").Source]
}
