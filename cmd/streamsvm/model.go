package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/user"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/internal/eval"
	"github.com/streamsvm/streamsvm/internal/spell"
	"github.com/streamsvm/streamsvm/predictor"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/modeltopic"
	"github.com/streamsvm/streamsvm/topiclog"
)

// modelVerbs are the verbs of the command model, each with its flags besides the ones
// for connections. A configuration file may set flags of several verbs.
var modelVerbs = map[string][]string{
	"compact":  {"model-topic", "model-name", "alias", "out", "max-change"},
	"compare":  {"model-topic", "model-name", "json", "max-features", "csv-header", "label-column", "drop-columns", "csv-empty-as-zero", "csv-separator", "codec", "labels", "label"},
	"delete":   {"model-topic", "model-name", "version", "yes"},
	"export":   {"model-topic", "model-name", "alias", "out", "format"},
	"follow":   {"model-topic", "model-name", "alias", "json", "save", "until", "topic-wait"},
	"inspect":  {"model-topic", "model-name", "json"},
	"list":     {"model-topic", "model-name", "json"},
	"promote":  {"model-topic", "model-name", "alias", "version", "model", "expect", "reason", "signing-key-file"},
	"rollback": {"model-topic", "model-name", "alias", "expect", "reason", "signing-key-file"},
}

// checkVerb refuses unknown verbs, and flags that a verb does not take.
func checkVerb(c *cli.Call, verb string) error {
	own, ok := modelVerbs[verb]
	if verb == "diff" {
		return cli.Failf(cli.Usage, "model diff has been removed: streamsvm model inspect describes a model, and model compare A B FILE... compares the predictions of two")
	}
	if !ok {
		return cli.Failf(cli.Usage, "model has no %q%s", verb, spell.DidYouMean(verb, slices.Sorted(maps.Keys(modelVerbs))))
	}
	for _, names := range modelVerbs {
		for _, name := range names {
			if c.Origin(name).Source == cli.FromFlag && !slices.Contains(own, name) {
				return c.Bad(name, fmt.Errorf("model %s has no such flag", verb))
			}
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
	force   bool
	json    bool
	// From the command line: --model gives the version, and --expect is given.
	ofFile, expects bool
}

func (o *versions) define(f *cli.Flags) {
	f.Group("Promotion", func() {
		f.StringVar(&o.alias, "alias", "", aliasUsage)
		f.Uint64Var(&o.version, "version", 0, "`VERSION` to promote, by default the newest, or to delete, by default all")
		f.StringVar(&o.file, "model", "", modelFileUsage)
		f.Uint64Var(&o.expect, "expect", 0, "change nothing unless the alias points to this `VERSION` now; 0: to none")
		f.BoolVar(&o.force, "yes", false, yesUsage)
		f.StringVar(&o.reason, "reason", "", "`TEXT` to keep with the promotion")
		o.signFlags.define(f)
	})
}

func (o *versions) run(ctx context.Context, c *cli.Call, verb string) error {
	o.alias = cmp.Or(o.alias, "champion")
	if err := badAlias(c, o.alias); err != nil {
		return err
	}
	if o.version == 0 && c.Origin("version").Source != cli.FromDefault {
		return c.Bad("version", errors.New("0, want 1 or more"))
	}
	o.expects = c.Given("expect")
	o.ofFile = c.Origin("model").Source == cli.FromFlag // a configuration file may have it for predict
	if verb != "compare" && len(c.Args) > 0 {
		return cli.Failf(cli.Usage, "model %s takes no arguments", verb)
	}
	if verb == "compare" {
		return o.compare(ctx, c)
	}
	if o.topic == "" {
		return c.Bad("model-topic", errors.New("no topic is given"))
	}
	if name, alias := modeltopic.SplitName(o.name); alias != "" {
		return c.Bad("model-name", fmt.Errorf("%s is an alias of model %s", o.name, name))
	}
	defer awaiting(c, o.brokers)()
	done := ""
	var err error
	switch verb {
	case "list":
		return o.list(ctx, c)
	case "rollback":
		done, err = o.rollback(ctx, c)
	case "delete":
		done, err = o.delete(ctx, c)
	default:
		done, err = o.promote(ctx, c)
	}
	if err == nil && !c.Quiet {
		_, err = fmt.Fprintln(c.Out, done)
	}
	return err
}

// badAlias refuses what cannot be the name of an alias; "" stands for no alias.
func badAlias(c *cli.Call, alias string) error {
	if alias == "" {
		return nil
	}
	// ALIAS-1, the version before, can be followed too.
	if err := modeltopic.CheckAlias(strings.TrimSuffix(alias, "-1")); err != nil {
		return c.Bad("alias", err)
	}
	return nil
}

// contents reads the topic, including the given version, and finds out which model is
// meant.
func (o *versions) contents(ctx context.Context, c *cli.Call, version uint64) (*modeltopic.Contents, error) {
	name := o.name
	o.name = ""
	t, err := o.readVersion(ctx, c, version)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, m := range t.Models {
		if len(m.Updates) == 0 {
			continue // a trainer has claimed the name, and published nothing
		}
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
		return nil, cli.Failf(cli.Data, "topic %s holds no model%s%s", o.topic, unless(name == "", " "+name), spell.DidYouMean(name, names))
	}
	o.name = name
	return t, nil
}

// held returns the model that the topic holds under a name, or nil.
func held(t *modeltopic.Contents, name string) *modeltopic.Model {
	for i := range t.Models {
		if t.Models[i].Name == name {
			return &t.Models[i]
		}
	}
	return nil
}

// promoter opens the topic for a change of the alias.
func (o *versions) promoter(ctx context.Context, c *cli.Call) (*modeltopic.AliasWriter, error) {
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
	if o.ofFile { // it may be the first model
		if _, _, err := topiclog.Create(ctx, cfg, o.topic, patience); err != nil {
			return nil, kafkaError(err)
		}
	}
	po := modeltopic.AliasOptions{Config: cfg, Topic: o.topic, Model: o.name, Alias: o.alias, MaxDown: patience, SigningKey: key, TrustedKeys: trusted}
	if o.expects {
		po.Expect = &o.expect
	}
	p, err := modeltopic.NewAliasWriter(ctx, po)
	return p, kafkaError(err)
}

// why returns who promotes, and the reason given.
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

// stands describes the version that an alias points to.
func stands(u *stream.Update) string {
	if u == nil {
		return "nothing"
	}
	return fmt.Sprintf("version %d", u.Version)
}

// standing returns what moves the alias, and the version to which it points now.
func (o *versions) standing(ctx context.Context, c *cli.Call) (*modeltopic.AliasWriter, *stream.Update, error) {
	p, err := o.promoter(ctx, c)
	if err != nil {
		return nil, nil, err
	}
	now, _, err := p.Held(ctx)
	if err != nil {
		p.Close()
		return nil, nil, kafkaError(err)
	}
	return p, now, nil
}

// promote promotes the chosen version, and returns a sentence about it.
func (o *versions) promote(ctx context.Context, c *cli.Call) (string, error) {
	u, err := o.chosen(ctx, c)
	if err != nil {
		return "", err
	}
	p, now, err := o.standing(ctx, c)
	if err != nil {
		return "", err
	}
	defer p.Close()
	if err := p.Promote(ctx, u, o.why()); err != nil {
		return "", kafkaError(err)
	}
	if now != nil && now.Version == u.Version && now.Hash == u.Hash {
		newest := ""
		if o.version == 0 && !o.ofFile {
			newest = ", the newest"
		}
		return fmt.Sprintf("%s stands for version %d already%s; nothing is changed", modeltopic.AliasName(o.name, o.alias), u.Version, newest), nil
	}
	return fmt.Sprintf("%s now stands for version %d, %d examples%s; before for %s",
		modeltopic.AliasName(o.name, o.alias), u.Version, u.Examples, recently(u.Evaluation), stands(now)), nil
}

// rollback promotes the version that the alias pointed to before.
func (o *versions) rollback(ctx context.Context, c *cli.Call) (string, error) {
	if _, err := o.contents(ctx, c, 0); err != nil {
		return "", err
	}
	p, now, err := o.standing(ctx, c)
	if err != nil {
		return "", err
	}
	defer p.Close()
	o.reason = cmp.Or(o.reason, "rollback")
	u, err := p.Rollback(ctx, o.why())
	if err != nil {
		return "", kafkaError(err)
	}
	return fmt.Sprintf("%s stands for version %d again; before for %s", modeltopic.AliasName(o.name, o.alias), u.Version, stands(now)), nil
}

// chosen returns the version that the flags ask for.
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
		// An alias keeps a version that compaction has removed from the model.
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
		return nil, cli.Failf(cli.Data, "topic %s holds no version of model %s that can be used; streamsvm model inspect --model-topic shows what is wrong", o.topic, o.name)
	case u == nil:
		return nil, c.Bad("version", fmt.Errorf("topic %s does not have version %d of model %s: it is gone, or not published yet; streamsvm model list shows the versions that are there, and --model reads a file that model follow --save kept", o.topic, o.version, o.name))
	}
	if _, err := predictor.Decode(u.Payload); err != nil {
		return nil, cli.Fail(cli.Data, fmt.Errorf("topic %s: model %s version %d: %w", o.topic, o.name, u.Version, err))
	}
	return u, nil
}

// savedName matches the names that model follow --save gives to files.
var savedName = regexp.MustCompile(`-(\d+)\` + ext + `$`)

// fromFile returns the model in a file as the version given by --version or by the
// file's name.
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

// recently says how good a model had recently been when it was made, and how good the
// versions before it were as published.
func recently(ms []stream.Measure) (text string) {
	for _, m := range ms {
		switch m.Name {
		case "prequential_accuracy_window":
			text = ", recent accuracy " + eval.Percent(m.Value)
		case "prequential_mae_window":
			text = ", recent mean absolute error " + decimal(eval.Number(m.Value))
		case "published_accuracy_window":
			text += ", as published " + eval.Percent(m.Value)
		case "published_mae_window":
			text += ", as published " + decimal(eval.Number(m.Value))
		}
	}
	return text
}
