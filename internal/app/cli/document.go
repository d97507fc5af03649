package cli

import (
	"fmt"
	"os"
	"strings"

	"go.yaml.in/yaml/v3"
)

// A Document is a setting that is a word, the path of a YAML file, or, in a
// configuration file, the document itself.
type Document struct {
	Text   string // as given: a word or a path
	inline string
}

// String implements pflag.Value.
func (d *Document) String() string { return d.Text }

// Set implements pflag.Value.
func (d *Document) Set(text string) error {
	d.Text, d.inline = text, ""
	return nil
}

// Type implements pflag.Value.
func (d *Document) Type() string { return "document" }

// take sets the document from a node of a configuration file.
func (d *Document) take(n *yaml.Node, at Origin) error {
	b, err := yaml.Marshal(n)
	d.Text, d.inline = at.String(), string(b)
	return err
}

// Content returns the word, or the text of the document.
func (d *Document) Content() (string, error) {
	switch {
	case d.inline != "":
		return d.inline, nil
	case d.Text == "" || !strings.ContainsAny(d.Text, "./\\"):
		return d.Text, nil
	}
	b, err := os.ReadFile(d.Text)
	if err == nil && len(strings.TrimSpace(string(b))) == 0 {
		err = fmt.Errorf("%s is empty", d.Text)
	}
	return string(b), err
}
