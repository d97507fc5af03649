package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/user"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/internal/app/inspect"
	"github.com/streamsvm/streamsvm/internal/eval"
	"github.com/streamsvm/streamsvm/internal/spell"
	"github.com/streamsvm/streamsvm/predictor"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/modeltopic"
)

// modelVerbs are what the command model can do, each with the flags that are
// not its own: in a configuration file they may be together.
var modelVerbs = map[string][]string{
	"export":   {"version", "model", "expect", "reason", "signing-key-file", "json"},
	"list":     {"alias", "version", "model", "expect", "reason", "signing-key-file", "max-numbers", "format", "out"},
	"promote":  {"json", "max-numbers", "format", "out"},
	"rollback": {"version", "model", "json", "max-numbers", "format", "out"},
	"diff":     {"alias", "version", "model", "expect", "reason", "signing-key-file", "max-numbers", "format", "out"},
}

// checkVerb refuses a verb that does not exist, and flags that it does not have.
func checkVerb(c *cli.Call, verb string) error {
	foreign, ok := modelVerbs[verb]
	if !ok {
		return cli.Failf(cli.Usage, "model has no %q%s", verb, spell.DidYouMean(verb, slices.Sorted(maps.Keys(modelVerbs))))
	}
	for _, name := range foreign {
		if c.Origin(name).Source == cli.FromFlag {
			return c.Bad(name, fmt.Errorf("model %s has no such flag", verb))
		}
	}
	return nil
}

// versions are the verbs about versions and aliases.
type versions struct {
	*modelTopicFlags
	signFlags
	alias   string
	version uint64
	file    string
	expect  uint64
	reason  string
	json    bool
	// Of the command line: the version is of a file, and one is expected.
	ofFile, expects bool
}

func (o *versions) define(f *cli.Flags) {
	f.Group("Promotion", func() {
		f.StringVar(&o.alias, "alias", "champion", "`NAME` that the version gets")
		f.Uint64Var(&o.version, "version", 0, "`VERSION` to promote; default the newest")
		f.StringVar(&o.file, "model", "", "promote the model of a `FILE`, as of subscribe --save")
		f.Uint64Var(&o.expect, "expect", 0, "change nothing unless the alias stands for this `VERSION` now; 0: for none")
		f.StringVar(&o.reason, "reason", "", "`TEXT` that is kept with the promotion")
		o.signFlags.define(f)
	})
	f.Group("Output", func() {
		f.BoolVar(&o.json, "json", false, "print JSON")
	})
}

func (o *versions) run(ctx context.Context, c *cli.Call, verb string) error {
	if err := badAlias(c, o.alias); err != nil {
		return err
	}
	o.expects = c.Given("expect")
	o.ofFile = c.Origin("model").Source == cli.FromFlag // a configuration file may have it for predict
	if verb != "diff" && len(c.Args) > 0 {
		return cli.Failf(cli.Usage, "model %s takes no arguments", verb)
	}
	if verb == "diff" {
		return o.diff(ctx, c)
	}
	if o.topic == "" {
		return c.Bad("model-topic", errors.New("no topic is given"))
	}
	if name, alias := modeltopic.SplitName(o.name); alias != "" {
		return c.Bad("model-name", fmt.Errorf("%s is an alias of model %s", o.name, name))
	}
	done := ""
	var err error
	switch verb {
	case "list":
		return o.list(ctx, c)
	case "rollback":
		done, err = o.rollback(ctx, c)
	default:
		done, err = o.promote(ctx, c)
	}
	if err == nil && !c.Quiet {
		_, err = fmt.Fprintln(c.Out, done)
	}
	return err
}

// badAlias refuses an alias that nothing can have; empty is none.
func badAlias(c *cli.Call, alias string) error {
	if alias == "" {
		return nil
	}
	// What an alias stood for before can be followed too.
	if err := modeltopic.CheckAlias(strings.TrimSuffix(alias, "-1")); err != nil {
		return c.Bad("alias", err)
	}
	return nil
}

// contents reads the topic, with the version wanted, and finds out which model
// is meant.
func (o *versions) contents(ctx context.Context, c *cli.Call, version uint64) (*modeltopic.Contents, error) {
	name := o.name
	o.name = ""
	t, err := o.readVersion(ctx, c, version)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, m := range t.Models {
		if model, _ := modeltopic.SplitName(m.Name); !slices.Contains(names, model) {
			names = append(names, model)
		}
	}
	switch {
	case name == "" && len(names) > 1:
		return nil, c.Bad("model-name", fmt.Errorf("topic %s holds %d models, choose one: %s", o.topic, len(names), strings.Join(names, ", ")))
	case name == "" && len(names) == 1:
		name = names[0]
	case !slices.Contains(names, name):
		return nil, cli.Failf(cli.Data, "topic %s holds no model %s%s", o.topic, name, spell.DidYouMean(name, names))
	}
	o.name = name
	return t, nil
}

// held returns what the topic holds under a name, nil if nothing.
func held(t *modeltopic.Contents, name string) *modeltopic.Model {
	for i := range t.Models {
		if t.Models[i].Name == name {
			return &t.Models[i]
		}
	}
	return nil
}

// promoter opens the topic for a change of the alias.
func (o *versions) promoter(ctx context.Context, c *cli.Call) (*modeltopic.Promoter, error) {
	if err := modeltopic.CheckAlias(o.alias); err != nil {
		return nil, c.Bad("alias", err)
	}
	cfg, err := o.kafkaFlags.config(c)
	if err != nil {
		return nil, err
	}
	key, err := o.signingKey(c)
	if err != nil {
		return nil, err
	}
	trusted, err := o.trustedKeys(c)
	if err != nil {
		return nil, err
	}
	po := modeltopic.PromoterOptions{Config: cfg, Topic: o.topic, Model: o.name, MaxDown: o.down, SigningKey: key, TrustedKeys: trusted}
	if o.expects {
		po.Expect = &o.expect
	}
	p, err := modeltopic.NewPromoter(ctx, po)
	return p, kafkaError(err)
}

// why says who promotes.
func (o *versions) why() stream.Promotion {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown host"
	}
	name := "unknown user"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	return stream.Promotion{By: name + "@" + host, Reason: o.reason}
}

// stands says for what an alias stands.
func stands(u *stream.Update) string {
	if u == nil {
		return "nothing"
	}
	return fmt.Sprintf("version %d", u.Version)
}

// promote promotes, and returns what has been done, for people.
func (o *versions) promote(ctx context.Context, c *cli.Call) (string, error) {
	u, err := o.chosen(ctx, c)
	if err != nil {
		return "", err
	}
	p, err := o.promoter(ctx, c)
	if err != nil {
		return "", err
	}
	defer p.Close()
	now, _, err := p.Held(ctx, o.alias)
	if err != nil {
		return "", kafkaError(err)
	}
	if err := p.Promote(ctx, o.alias, u, o.why()); err != nil {
		return "", kafkaError(err)
	}
	if now != nil && now.Version == u.Version && now.Hash == u.Hash {
		return fmt.Sprintf("%s stands for version %d already", modeltopic.AliasName(o.name, o.alias), u.Version), nil
	}
	return fmt.Sprintf("%s now stands for version %d, %d examples%s; before for %s",
		modeltopic.AliasName(o.name, o.alias), u.Version, u.Examples, recently(u.Evaluation), stands(now)), nil
}

// rollback is promote for the version before.
func (o *versions) rollback(ctx context.Context, c *cli.Call) (string, error) {
	if _, err := o.contents(ctx, c, 0); err != nil {
		return "", err
	}
	p, err := o.promoter(ctx, c)
	if err != nil {
		return "", err
	}
	defer p.Close()
	now, _, err := p.Held(ctx, o.alias)
	if err != nil {
		return "", kafkaError(err)
	}
	o.reason = cmp.Or(o.reason, "rollback")
	u, err := p.Rollback(ctx, o.alias, o.why())
	if err != nil {
		return "", kafkaError(err)
	}
	return fmt.Sprintf("%s stands for version %d again; before for %s", modeltopic.AliasName(o.name, o.alias), u.Version, stands(now)), nil
}

// chosen returns the version that is to be promoted.
func (o *versions) chosen(ctx context.Context, c *cli.Call) (*stream.Update, error) {
	if o.ofFile {
		return o.fromFile(c)
	}
	t, err := o.contents(ctx, c, o.version)
	if err != nil {
		return nil, err
	}
	m := held(t, o.name)
	var u *stream.Update
	if m != nil && o.version == 0 {
		u = m.Newest
	} else if m != nil {
		u = m.Wanted
	}
	if u == nil {
		// An alias keeps what compaction has taken from the model.
		for i := range t.Models {
			a := &t.Models[i]
			if model, alias := modeltopic.SplitName(a.Name); model == o.name && alias != "" && o.version > 0 && a.Newest != nil && a.Newest.Version == o.version {
				moved := *a.Newest
				moved.Model = o.name
				u = &moved
			}
		}
	}
	switch {
	case u == nil && o.version == 0:
		return nil, cli.Failf(cli.Data, "topic %s holds no version of model %s that can be used; streamsvm inspect --model-topic says more", o.topic, o.name)
	case u == nil:
		return nil, c.Bad("version", fmt.Errorf("topic %s does not hold version %d of model %s any more, or not yet: streamsvm model list says which it holds; one that is gone can come from a file of subscribe --save, by --model", o.topic, o.version, o.name))
	}
	if _, err := predictor.Decode(u.Payload); err != nil {
		return nil, cli.Fail(cli.Data, fmt.Errorf("topic %s: model %s version %d: %w", o.topic, o.name, u.Version, err))
	}
	return u, nil
}

// savedName is the form of names that subscribe --save gives.
var savedName = regexp.MustCompile(`-(\d+)\` + ext + `$`)

// fromFile returns the model of a file as the version that its name, or
// --version, says.
func (o *versions) fromFile(c *cli.Call) (*stream.Update, error) {
	version := o.version
	if m := savedName.FindStringSubmatch(filepath.Base(o.file)); m != nil && version == 0 {
		version, _ = strconv.ParseUint(m[1], 10, 64)
	}
	if version == 0 {
		return nil, c.Bad("version", fmt.Errorf("the name of %s does not say of which version it is", o.file))
	}
	if o.name == "" {
		return nil, c.Bad("model-name", errors.New("a file does not say of which model it is"))
	}
	info, err := os.Stat(o.file)
	if err != nil {
		return nil, err
	}
	payload, err := os.ReadFile(o.file)
	if err != nil {
		return nil, err
	}
	p, err := predictor.Decode(payload)
	if err != nil {
		return nil, cli.Fail(cli.Data, fmt.Errorf("%s: %w", o.file, err))
	}
	return &stream.Update{
		Kind: stream.Full, Model: o.name, Learner: p.Learner(), Version: version, Offsets: stream.Offsets{},
		Created: info.ModTime().UTC().Truncate(time.Millisecond), Hash: xxhash.Sum64(payload), Payload: payload,
	}, nil
}

// recently says how good a model was of late when it was made.
func recently(ms []stream.Measure) string {
	for _, m := range ms {
		switch m.Name {
		case "prequential_accuracy_window":
			return ", recent accuracy " + eval.Percent(m.Value)
		case "prequential_mae_window":
			return ", recent mean absolute error " + decimal(eval.Number(m.Value))
		}
	}
	return ""
}

// versionLine is what model list says of a version, or of an alias.
type versionLine struct {
	Alias    string    `json:"alias,omitempty"`
	Version  uint64    `json:"version"`
	Epoch    uint64    `json:"epoch"`
	Learner  string    `json:"learner"`
	Step     uint64    `json:"step"`
	Examples uint64    `json:"examples"`
	Created  time.Time `json:"created"`
	// By is who trained a version where that is known, and who has promoted it to
	// an alias.
	By         string                 `json:"by,omitempty"`
	Promoted   *time.Time             `json:"promoted,omitempty"`
	Reason     string                 `json:"reason,omitempty"`
	Previous   *uint64                `json:"previous,omitempty"` // version; 0 is none
	Aliases    []string               `json:"aliases,omitempty"`  // of a version
	SignedBy   string                 `json:"signed_by,omitempty"`
	Evaluation map[string]eval.Number `json:"evaluation"`
	recent     string
}

func newVersionLine(u *modeltopic.HeldUpdate) versionLine {
	l := versionLine{
		Version: u.Version, Epoch: u.Epoch, Learner: u.Learner, Step: u.Step, Examples: u.Examples, Created: u.Created, SignedBy: u.SignedBy,
		Evaluation: map[string]eval.Number{}, recent: strings.TrimPrefix(recently(u.Evaluation), ", recent "),
	}
	for _, e := range u.Evaluation {
		l.Evaluation[e.Name] = eval.Number(e.Value)
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
		fmt.Fprintf(w, "%s\t%d\t%s\t%d\t%s\t%s\t%s\t%s\t%s\n", v.Alias, v.Version, previous, v.Examples, dash(v.recent), at, dash(oneLine(v.By)), dash(v.SignedBy), dash(oneLine(v.Reason)))
	}
	return w.Flush()
}

// oneLine is text from outside for a terminal.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return '·'
		}
		return r
	}, strings.ToValidUTF8(s, "·"))
}

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
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", mark, p.Name, oneLine(cmp.Or(p.A, "-")), oneLine(cmp.Or(p.B, "-")))
	}
	return w.Flush()
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
