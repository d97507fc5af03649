package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/internal/app/describe"
	"github.com/streamsvm/streamsvm/internal/eval"
	"github.com/streamsvm/streamsvm/stream/modeltopic"
)

// versionLine is what model list says about a version or an alias.
type versionLine struct {
	Alias    string    `json:"alias,omitempty"`
	Version  uint64    `json:"version"`
	Epoch    uint64    `json:"epoch"`
	Learner  string    `json:"learner"`
	Step     uint64    `json:"step"`
	Examples uint64    `json:"examples"`
	Created  time.Time `json:"created"`
	// By is who trained a version, if known; for an alias, who promoted it.
	By         string                 `json:"by,omitempty"`
	Promoted   *time.Time             `json:"promoted,omitempty"`
	Reason     string                 `json:"reason,omitempty"`
	Previous   *uint64                `json:"previous,omitempty"` // version; 0 is none
	Aliases    []string               `json:"aliases,omitempty"`  // of a version
	SignedBy   string                 `json:"signed_by,omitempty"`
	Evaluation map[string]eval.Number `json:"evaluation"`
	recent     string
}

func newVersionLine(u *modeltopic.RetainedUpdate) versionLine {
	l := versionLine{
		Version: u.Version, Epoch: u.Epoch, Learner: u.Learner, Step: u.Step, Examples: u.Examples, Created: u.Created, SignedBy: u.SignedBy,
		Evaluation: describe.Measures(u.Evaluation), recent: strings.TrimPrefix(recently(u.Evaluation), ", recent "),
	}
	if p := u.Promotion; p != nil {
		l.By, l.Reason, l.Previous, l.Promoted = p.By, p.Reason, &p.Previous, &u.PromotedAt
	}
	return l
}

// modelList is what model list --json prints.
type modelList struct {
	Topic    string        `json:"topic"`
	Model    string        `json:"model"`
	Versions []versionLine `json:"versions"`
	Aliases  []versionLine `json:"aliases"`
}

// newModelList lists the versions of a model that can be promoted, oldest first,
// and its aliases.
func newModelList(t *modeltopic.Contents, model string) modelList {
	l := modelList{Topic: t.Topic, Model: model, Versions: []versionLine{}, Aliases: []versionLine{}}
	stand := map[uint64][]string{}
	for i := range t.Models {
		m := &t.Models[i]
		name, alias := modeltopic.SplitName(m.Name)
		if name != model || alias == "" || m.Newest == nil {
			continue
		}
		for k := range m.Updates {
			if u := &m.Updates[k]; u.State == modeltopic.StateCurrent {
				line := newVersionLine(u)
				line.Alias = alias
				l.Aliases = append(l.Aliases, line)
				stand[u.Version] = append(stand[u.Version], alias)
			}
		}
	}
	if m := held(t, model); m != nil {
		for k := range m.Updates {
			u := &m.Updates[k]
			if !u.Verified {
				continue
			}
			line := newVersionLine(u)
			if m.Claim.Epoch == u.Epoch {
				line.By = m.Claim.By
			}
			line.Aliases = stand[u.Version]
			// A trainer that starts again publishes its last version again.
			l.Versions = slices.DeleteFunc(l.Versions, func(v versionLine) bool { return v.Version == u.Version })
			l.Versions = append(l.Versions, line)
		}
	}
	return l
}

func (o *versions) list(ctx context.Context, c *cli.Call) error {
	t, err := o.contents(ctx, c, 0)
	if err != nil {
		return err
	}
	l := newModelList(t, o.name)
	if o.json {
		e := json.NewEncoder(c.Out)
		e.SetIndent("", "  ")
		return e.Encode(l)
	}
	return l.print(c.Out)
}

func (l *modelList) print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	dash := func(s string) string { return cmp.Or(s, "-") }
	if len(l.Versions) == 0 {
		fmt.Fprintf(w, "no version of model %s can be used\n", l.Model)
	} else {
		fmt.Fprintf(w, "version\tlearner\texamples\trecent\tmade\tby\tsigned by\taliases\n")
	}
	for _, v := range l.Versions {
		fmt.Fprintf(w, "%d\t%s\t%d\t%s\t%s\t%s\t%s\t%s\n", v.Version, v.Learner, v.Examples, dash(v.recent), v.Created.Format(time.RFC3339),
			dash(v.By), dash(v.SignedBy), dash(strings.Join(v.Aliases, ", ")))
	}
	if len(l.Aliases) > 0 {
		fmt.Fprintf(w, "\nalias\tversion\tbefore\texamples\trecent\tpromoted\tby\tsigned by\treason\n")
	}
	for _, v := range l.Aliases {
		at, previous := "-", "-"
		if v.Promoted != nil {
			at = v.Promoted.Format(time.RFC3339)
		}
		if v.Previous != nil && *v.Previous > 0 {
			previous = strconv.FormatUint(*v.Previous, 10)
		}
		fmt.Fprintf(w, "%s\t%d\t%s\t%d\t%s\t%s\t%s\t%s\t%s\n", v.Alias, v.Version, previous, v.Examples, dash(v.recent), at, dash(cli.Printable(v.By)), dash(v.SignedBy), dash(cli.Printable(v.Reason)))
	}
	return w.Flush()
}
