package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/internal/app/inspect"
	"github.com/streamsvm/streamsvm/predictor"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/modeltopic"
)

// side is one of two models that are compared.
type side struct {
	name string
	p    *predictor.Predictor
	u    *stream.Update // nil of a file
}

// property is something that models have.
type property struct {
	Name   string `json:"name"`
	A      string `json:"a"`
	B      string `json:"b"`
	Differ bool   `json:"differ"`
}

// diff compares two models.
func (o *versions) diff(ctx context.Context, c *cli.Call) error {
	if len(c.Args) != 2 {
		return cli.Failf(cli.Usage, "model diff takes two of: a version, an alias, a MODEL%s", ext)
	}
	var sides [2]side
	for i, name := range c.Args {
		s, err := o.side(ctx, c, name)
		if err != nil {
			return err
		}
		sides[i] = s
	}
	ps := compareModels(&sides[0], &sides[1])
	if o.json {
		e := json.NewEncoder(c.Out)
		e.SetIndent("", "  ")
		return e.Encode(ps)
	}
	w := tabwriter.NewWriter(c.Out, 0, 8, 2, ' ', 0)
	fmt.Fprintf(w, " \t \t%s\t%s\n", sides[0].name, sides[1].name)
	for _, p := range ps {
		mark := " "
		if p.Differ {
			mark = "*"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", mark, p.Name, cli.Printable(cmp.Or(p.A, "-")), cli.Printable(cmp.Or(p.B, "-")))
	}
	return w.Flush()
}

// properties returns what is known of a model, in order.
func (s *side) properties() (names []string, values map[string]string) {
	values = map[string]string{}
	add := func(name, value string) {
		names, values[name] = append(names, name), value
	}
	info, sig := s.p.Info(), s.p.Signature()
	add("learner", s.p.Learner())
	add("task", string(s.p.Task()))
	if u := s.u; u != nil {
		add("version", strconv.FormatUint(u.Version, 10))
		add("examples", strconv.FormatUint(u.Examples, 10))
		add("step", strconv.FormatUint(u.Step, 10))
		add("made", u.Created.Format(time.RFC3339))
		add("bytes", strconv.Itoa(len(u.Payload)))
		add("hash", hash(u.Hash))
	}
	add("model", info.Text)
	add("kind", string(info.Kind))
	if info.Support >= 0 {
		add("support vectors", strconv.Itoa(info.Support))
	}
	add("preprocessing", s.p.Preprocessing())
	add("format", sig.Codec)
	add("labels", sig.Labels)
	add("features", strconv.Itoa(max(sig.Length(), info.Dim)))
	add("names of features", strings.Join(sig.Features(), ","))
	opts := s.p.Options()
	for _, k := range slices.Sorted(maps.Keys(opts)) {
		add("option "+k, opts[k])
	}
	if s.u != nil {
		for _, m := range s.u.Evaluation {
			add(m.Name, strconv.FormatFloat(m.Value, 'g', 6, 64))
		}
	}
	// A description of events has many lines, of which few differ.
	for line := range strings.Lines(sig.Schema) {
		if line = strings.TrimSpace(line); line != "" {
			add("schema: "+line, "yes")
		}
	}
	return names, values
}

// compareModels lists the properties of both, those of a that b lacks where a
// has them. Lines of a schema that both have are left out.
func compareModels(a, b *side) []property {
	names, as := a.properties()
	more, bs := b.properties()
	for _, name := range more {
		if _, ok := as[name]; !ok {
			names = append(names, name)
		}
	}
	var ps []property
	seen := map[string]bool{}
	for _, name := range names {
		p := property{name, as[name], bs[name], as[name] != bs[name]}
		if seen[name] || strings.HasPrefix(name, "schema: ") && !p.Differ || p.A == "" && p.B == "" {
			continue
		}
		seen[name] = true
		ps = append(ps, p)
	}
	return ps
}

// side finds one of the models: a version or an alias in the topic, or a file.
func (o *versions) side(ctx context.Context, c *cli.Call, name string) (side, error) {
	version, err := strconv.ParseUint(name, 10, 64)
	if isVersion := err == nil; !isVersion && (strings.HasSuffix(name, ext) || strings.ContainsRune(name, filepath.Separator)) {
		p, err := inspect.ReadModel(name)
		return side{name: name, p: p}, err
	}
	if o.topic == "" {
		return side{}, c.Bad("model-topic", fmt.Errorf("no topic is given that could hold %s", name))
	}
	var u *stream.Update
	if version > 0 {
		one := *o
		one.version = version
		u, err = one.chosen(ctx, c)
		name = "version " + name
	} else {
		var t *modeltopic.Contents
		if t, err = o.contents(ctx, c, 0); err == nil {
			if m := held(t, modeltopic.AliasName(o.name, name)); m == nil || m.Newest == nil {
				err = cli.Failf(cli.Data, "topic %s holds no %s", o.topic, modeltopic.AliasName(o.name, name))
			} else {
				u = m.Newest
			}
		}
	}
	if err != nil {
		return side{}, err
	}
	p, err := predictor.Decode(u.Payload)
	if err != nil {
		return side{}, cli.Fail(cli.Data, fmt.Errorf("%s: %w", name, err))
	}
	return side{name, p, u}, nil
}
