package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/algos/registry"
	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/internal/app/contrib"
	"github.com/streamsvm/streamsvm/internal/engine"
	"github.com/streamsvm/streamsvm/internal/prep"
	"github.com/streamsvm/streamsvm/stream/codec"
	"github.com/streamsvm/streamsvm/stream/fileio"
	"github.com/streamsvm/streamsvm/stream/kafkaio"
	"github.com/streamsvm/streamsvm/stream/modeltopic"
	"github.com/streamsvm/streamsvm/trainer"
)

// codecFlags say how values are decoded.
type codecFlags struct {
	name, labels string
	maxFeatures  int
	csv          codec.CSVOptions
	comma        string
	// Of commands that learn; see defineEvents.
	events cli.Document
	label  string

	schemaFlags
}

func (o *codecFlags) define(f *cli.Flags) {
	f.Group("Format", func() {
		f.Choice(&o.name, "codec", "", codec.AllNames(), codecUsage)
		f.StringVar(&o.labels, "labels", codec.Auto, "`LABELS` of the classes: auto, pm1 (-1 and 1), 01, 12, or a list such as no,yes, of two the negative one first; of more than two, others may follow")
		f.IntVar(&o.maxFeatures, "max-features", codec.DefaultMaxFeatures, "largest feature index accepted")
		f.BoolVar(&o.csv.Header, "csv-header", false, headerUsage)
		f.StringVar(&o.csv.LabelColumn, "label-column", "", "csv: `COLUMN` of the label: a name, a number from 1 on, first or last")
		f.StringSliceVar(&o.csv.DropColumns, "drop-columns", nil, "csv: `COLUMNS` to ignore")
		f.StringVar(&o.comma, "csv-separator", ",", "csv: what separates fields; found out for files")
	})
	o.schemaFlags.define(f)
	f.Check(o.check)
}

// defineEvents defines the flags that say how events become examples.
func (o *codecFlags) defineEvents(f *cli.Flags) {
	o.events.Text = codec.Auto
	f.Group("Format", func() {
		f.StringVar(&o.label, "label", "", "events: `FIELD` to predict (default: y, label, target, class or outcome)")
		f.Var(&o.events, "events", "YAML `FILE` that describes the fields of events; auto infers them; vectors: there are no events")
	})
}

// defaultCodec is how values in topics and recordings are read unless a flag
// says otherwise.
const defaultCodec = "json"

// verify returns an error if there is no codec for records of a topic or of files.
func (o *codecFlags) verify(c *cli.Call, files ...string) error {
	name, opts, err := o.resolve(c, algos.Classify, files...)
	if err != nil {
		return err
	}
	if opts.Labels == codec.Auto {
		opts.Labels = ""
	}
	opts.Events, opts.Label = "", ""
	if _, err := codec.New(name, opts); err != nil {
		return c.Bad("codec", err)
	}
	return nil
}

// resolve returns the name and the options of the codec. For files the name of the first one
// decides, unless a flag does.
func (o *codecFlags) resolve(c *cli.Call, task algos.Task, files ...string) (name string, opts codec.Options, err error) {
	if name = o.name; name == "" {
		name = defaultCodec
		// The first file decides for all of them.
		if len(files) > 0 && !strings.HasSuffix(files[0], fileio.RecordingExt) {
			byName, ok := codec.ByFileName(files[0])
			if !ok {
				return "", opts, o.noCodec(c, files[0])
			}
			name = byName
		}
	}
	if opts, err = o.codecOptions(c); err != nil {
		return "", opts, err
	}
	opts.Task = string(task)
	if err := o.schemaFlags.options(c, name, &opts); err != nil {
		return "", opts, err
	}
	if name == "csv" && len(files) > 0 && files[0] != "-" {
		if err := o.columns(c, &opts.CSV, files[0]); err != nil {
			return "", opts, err
		}
	}
	return name, opts, nil
}

// columns finds out the separator of a csv file, and reads the names of the columns from its first
// line, if it has them.
func (o *codecFlags) columns(c *cli.Call, csv *codec.CSVOptions, file string) error {
	lines, err := fileio.Lines(file, 20)
	if err != nil {
		return err
	}
	if !c.Given("csv-separator") {
		var rows []string
		for _, line := range lines {
			rows = append(rows, string(line))
		}
		csv.Comma = codec.GuessSeparator(rows, csv.Comma)
		o.comma = string(rune(csv.Comma))
	}
	if !csv.Header && !c.Given("csv-header") {
		o.csv.Header = codec.LooksLikeHeader(lines, csv.Comma)
		csv.Header = o.csv.Header
	}
	if !csv.Header {
		return nil
	}
	line, err := fileio.Header(file)
	if err != nil {
		return err
	}
	if csv.Columns, err = codec.ParseHeader(line, csv.Comma); err != nil {
		return cli.Fail(cli.Data, fmt.Errorf("%s: %w", file, err))
	}
	return nil
}

// found sets the labels that have been found in the records, unless a flag gives them.
func (o *codecFlags) found(labels string) {
	switch {
	case labels == "" || o.labels != codec.Auto:
	case labels == "-1,1":
		o.labels = "pm1"
	case labels == "0,1", labels == "1,2":
		o.labels = strings.ReplaceAll(labels, ",", "")
	default:
		o.labels = labels
	}
}

// discoveryError gives errors about the first records their exit codes, and names the
// codec that could read them.
func (o *codecFlags) discoveryError(err error) error {
	var own *trainer.DiscoveryError
	if !errors.As(err, &own) {
		return err
	}
	if own.First != nil {
		if name := contrib.CodecOf(own.First); name != "" && name != o.codecName() {
			return cli.Failf(cli.Data, "%w; it looks like %s: give --codec %s", own, name, name)
		}
		return cli.Failf(cli.Data, "%w%s", own, codec.Hint(own.First.Value))
	}
	return cli.Fail(cli.Data, own)
}

// noCodec is the error for a file whose name does not say its format.
func (*codecFlags) noCodec(c *cli.Call, file string) error {
	return c.Bad("codec", fmt.Errorf("the name of %s does not say its format; give one of %s", file, strings.Join(codec.Names(), ", ")))
}

// codecOptions returns the options of the codec without the task.
func (o *codecFlags) codecOptions(c *cli.Call) (codec.Options, error) {
	if len(o.comma) != 1 {
		return codec.Options{}, c.Bad("csv-separator", fmt.Errorf("%q is not a single byte", o.comma))
	}
	if o.labels != codec.Auto {
		if _, err := codec.ParseClasses(o.labels); err != nil {
			return codec.Options{}, c.Bad("labels", err)
		}
	}
	opts := codec.Options{Labels: o.labels, MaxFeatures: o.maxFeatures, CSV: o.csv, Label: o.label}
	switch text, err := o.events.Content(); {
	case err != nil:
		return opts, c.Bad("events", err)
	case text != "vectors":
		opts.Events = text
	case o.label != "":
		return opts, c.Bad("label", errors.New("vectors have no fields"))
	}
	opts.CSV.Comma = o.comma[0]
	return opts, nil
}

// check returns an error if the flags about the format of records are invalid.
func (o *codecFlags) check(c *cli.Call) []error {
	return []error{o.verify(c)}
}

// fileOptions returns the options of fileio for these flags.
func (o *codecFlags) fileOptions() fileio.Options {
	name := o.name
	if codec.Schematic(name) {
		name = "" // recordings hold them, other files do not
	}
	return fileio.Options{Codec: name, Header: o.csv.Header}
}

// kafkaFlags say how to reach a cluster.
type kafkaFlags struct {
	brokers           []string
	tls               bool
	ca, cert, key, id string
	loginFlags
}

func (o *kafkaFlags) define(f *cli.Flags) {
	f.Group("Kafka", func() {
		f.StringSliceVar(&o.brokers, "brokers", []string{"127.0.0.1:9092"}, "`HOST:PORT` of one or more brokers")
		f.BoolVar(&o.tls, "tls", false, "encrypt connections")
		f.StringVar(&o.ca, "tls-ca", "", "PEM `FILE` with the certificates to trust instead of the system's")
		f.StringVar(&o.cert, "tls-cert", "", "PEM `FILE` with the client's certificate")
		f.StringVar(&o.key, "tls-key", "", "PEM `FILE` with the client's key")
		o.loginFlags.define(f)
		f.StringVar(&o.id, "client-id", "streamsvm", "`NAME` in the brokers' logs and quotas")
	})
	f.AlsoKnown("brokers", "bootstrap-servers", "bootstrap", "broker-list", "hosts")
	f.AlsoKnown("tls", "ssl", "security-protocol")
	f.AlsoKnown("tls-ca", "ssl-ca-location", "ca-file", "truststore")
	f.Check(func(c *cli.Call) []error {
		_, err := o.config(c)
		return []error{err}
	})
}

// defineKafka defines the flags of kafkaFlags for a command elsewhere.
func defineKafka(f *cli.Flags) func(c *cli.Call) (kafkaio.Config, error) {
	o := &kafkaFlags{}
	o.define(f)
	return o.config
}

func (o *kafkaFlags) config(c *cli.Call) (kafkaio.Config, error) {
	cfg := kafkaio.Config{Brokers: o.brokers, ClientID: o.id, Dial: c.Dial, Log: c.Log}
	if err := cfg.Validate(); err != nil {
		return cfg, c.Bad("brokers", err)
	}
	if o.tls {
		t := &tls.Config{MinVersion: tls.VersionTLS12}
		if o.ca != "" {
			pem, err := os.ReadFile(o.ca)
			if err != nil {
				return cfg, c.Bad("tls-ca", err)
			}
			t.RootCAs = x509.NewCertPool()
			if !t.RootCAs.AppendCertsFromPEM(pem) {
				return cfg, c.Bad("tls-ca", fmt.Errorf("%s holds no certificate", o.ca))
			}
		}
		if o.cert != "" || o.key != "" {
			pair, err := tls.LoadX509KeyPair(o.cert, o.key)
			if err != nil {
				return cfg, c.Bad("tls-cert", err)
			}
			t.Certificates = []tls.Certificate{pair}
		}
		cfg.TLS = t
	} else if o.ca != "" || o.cert != "" || o.key != "" {
		return cfg, c.Bad("tls", errors.New("certificates are given, but connections are not encrypted"))
	}
	var err error
	cfg.SASL, err = o.login(c, cfg)
	return cfg, err
}

// learnFlags say what to learn, and how: everything that determines a state.
type learnFlags struct {
	learner, preset, task, scale, tune string
	classWeight, cost                  string
	set                                cli.Pairs
	seed                               uint64
	hashDim, warmup, window            int
	maxClasses                         int
	promote, gate                      string
	join                               joinFlags
}

func (o *learnFlags) define(f *cli.Flags) {
	o.set = cli.Pairs{}
	f.Group("Learning", func() {
		f.StringVar(&o.learner, "learner", "adaptive", learnerUsage)
		f.Suggest("learner", registry.Names())
		f.StringVar(&o.preset, "preset", "default", "`NAME` of the learner's preset: default, paper or another of its own")
		f.Var(o.set, "set", setUsage)
		f.Choice(&o.tune, "tune", "auto", []string{"auto", "on", "off"}, tuneUsage)
		f.Choice(&o.task, "task", "", []string{string(algos.Classify), string(algos.Regress)}, taskUsage)
		f.Uint64Var(&o.seed, "seed", 1, seedUsage)
		f.Choice(&o.scale, "scale", "auto", prep.Scales(), scaleUsage)
		f.StringVar(&o.classWeight, "class-weight", "auto", "weights of the classes: auto gives more to rare ones (not for several classes of adaptive); none; or a `LIST` such as fraud=10,ok=1")
		f.StringVar(&o.cost, "cost", "", "predict the label of least expected cost: a `LIST` of what it costs to miss a label, such as fraud=10,ok=1; of two labels also fn=10,fp=1")
		f.IntVar(&o.hashDim, "hash-dim", 0, hashUsage)
		f.IntVar(&o.warmup, "warmup", 0, warmupUsage)
		f.IntVar(&o.window, "window", 1000, "number of examples in windowed measures")
		f.IntVar(&o.maxClasses, "max-classes", trainer.DefaultMaxClasses, "most classes; records of further ones cannot be used")
	})
	f.Group("Champion", func() {
		f.StringVar(&o.promote, "promote", "", "choose a champion by --gate, and point this `ALIAS`, such as champion, to it")
		f.StringVar(&o.gate, "gate", "auto", "conditions for becoming champion: `CLAUSES` such as 'brier <= champion + 0.002; ece <= 0.05; examples >= 5000; demote >= 0.01'; auto compares Brier scores, or mean absolute errors, on 5000 examples")
	})
	o.join.define(f)
	f.Check(o.check)
}

// options returns the options of the trainer; the error is about the first invalid one.
func (o *learnFlags) options(c *cli.Call) (trainer.Options, error) {
	opts, err := o.gather(c)
	if err == nil {
		err = badOption(c, opts.Validate(), "")
	}
	return opts, err
}

func (o *learnFlags) gather(c *cli.Call) (opts trainer.Options, err error) {
	if strings.Contains(o.learner, ",") {
		return opts, c.Bad("learner", errors.New("a list of learners is given to replay --compare"))
	}
	opts = trainer.Options{
		Learner: o.learner, Preset: o.preset, Set: o.set, Task: algos.Task(o.task), Seed: o.seed, Tune: trainer.Tune(o.tune),
		Scale: trainer.Scale(o.scale), HashDim: o.hashDim, ClassWeight: o.classWeight, Costs: o.cost, Warmup: o.warmup, Window: o.window, MaxClasses: o.maxClasses,
	}
	if spec, err := registry.Lookup(o.learner); err == nil && opts.Task == "" {
		opts.Task = spec.Tasks[0]
	}
	switch {
	case o.promote == "" && c.Origin("gate").Source != cli.FromDefault:
		return opts, c.Bad("gate", errors.New("it needs --promote, and an alias such as champion"))
	case o.promote != "":
		if err := modeltopic.CheckAlias(o.promote); err != nil {
			return opts, c.Bad("promote", err)
		}
		opts.Gate = o.gate
	}
	opts.Join, err = o.join.config(c)
	return opts, err
}

// check returns the errors in these flags.
func (o *learnFlags) check(c *cli.Call) (errs []error) {
	opts, err := o.gather(c)
	if err != nil {
		errs = append(errs, err)
	}
	for _, bad := range optionErrors(opts.Validate()) {
		name := optionFlags[bad.Field]
		if bad.Key != "" {
			name += "." + bad.Key
		}
		errs = append(errs, c.Bad(name, bad.Err))
	}
	return errs
}

// optionFlags are the flags for fields of trainer.Options and trainer.Job.
var optionFlags = map[string]string{
	"Learner": "learner", "Preset": "preset", "Set": "set", "Task": "task", "Tune": "tune", "Scale": "scale",
	"HashDim": "hash-dim", "ClassWeight": "class-weight", "Costs": "cost", "Warmup": "warmup", "Window": "window", "MaxClasses": "max-classes", "Gate": "gate", "Kafka": "topics", "Checkpoints": "checkpoint", "Recording": "record", "MaxDead": "max-dead", "Tombstones": "tombstones", "Join": "labels-topic", "Delay": "delay", "VersionEvery": "publish-every",
}

// optionErrors lists the errors of the trainer about its options in err.
func optionErrors(err error) (list []*trainer.OptionError) {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, err := range joined.Unwrap() {
			list = append(list, optionErrors(err)...)
		}
	} else if bad, ok := errors.AsType[*trainer.OptionError](err); ok {
		list = append(list, bad)
	}
	return list
}

// badOption expresses errors of the trainer in terms of flags, and gives them their
// exit codes. again is the flag that starts over.
func badOption(c *cli.Call, err error, again string) error {
	if _, ok := errors.AsType[*trainer.StateError](err); ok {
		if other, ok := errors.AsType[*engine.MismatchError](err); ok {
			err = fmt.Errorf("%w: %s, or begin again with %s", err, asBefore(other), again)
		}
		return cli.Fail(cli.Config, err)
	}
	list := optionErrors(err)
	if len(list) == 0 {
		return err
	}
	if name, ok := optionFlags[list[0].Field]; ok {
		return c.Bad(name, list[0].Err)
	}
	return cli.Fail(cli.Usage, list[0].Err)
}

// stateFlags are the flags for settings of an engine.MismatchError that have one.
var stateFlags = map[string]string{
	"learner": "learner", "preset": "preset", "task": "task", "seed": "seed", "scale": "scale", "hash_dim": "hash-dim",
	"class_weight": "class-weight", "warmup": "warmup", "tune": "tune", "window": "window", "set": "set", "labels": "labels", "delay": "delay", "missing_label": "missing-label",
}

// asBefore says how to give a setting the value that the checkpoint was made with.
func asBefore(e *engine.MismatchError) string {
	name, ok := stateFlags[e.Setting]
	switch was := append(strings.SplitN(e.Was, " ", 4), "", "", ""); {
	case e.Setting == "join" && e.Was != "":
		give := "give --join " + cli.Quote(was[2]) + unless(was[0] == "-", " --labels-topic "+cli.Quote(was[0])) + " --join-window " + was[1]
		if was[3] != "" {
			give += " --labels-field " + cli.Quote(was[3])
		}
		return give
	case e.Setting == "join":
		return "leave --join out"
	case !ok:
		return "use the one that it was made with"
	case e.Setting == "tune":
		return "give --tune=" + map[string]string{"true": "on", "false": "off"}[e.Was]
	case e.Was == "":
		return "leave --" + name + " out"
	case e.Setting == "set":
		return "give --set " + strings.Join(strings.Fields(e.Was), " --set ")
	case strings.HasPrefix(e.Was, "-"):
		return "give --" + name + "=" + cli.Quote(e.Was)
	}
	return "give --" + name + " " + cli.Quote(e.Was)
}

// eventsFlag returns the flag that is wrong if a codec does not find its fields.
func eventsFlag(codec string) string {
	if codec == "csv" {
		return "label"
	}
	return "events"
}

// job returns a job of the trainer with options and decoders, for records of a topic
// or of files.
func (o *learnFlags) job(c *cli.Call, co *codecFlags, files ...string) (job trainer.Job, err error) {
	if job.Options, err = o.options(c); err != nil {
		return job, err
	}
	name, opts, err := co.resolve(c, job.Task, files...)
	if err != nil {
		return job, err
	}
	job.Join.Codec(&opts)
	if job.Discovery, err = codec.NewDiscovery(name, opts); err != nil {
		return job, c.Bad(eventsFlag(name), err)
	}
	job.Log = c.Log
	if codec.Schematic(name) && opts.Written == nil && co.registry != nil {
		job.Schemas = co.registry
	}
	if job.Discovery.Needed() {
		return job, nil
	}
	job.Discovery = nil
	if job.Decoder, err = codec.New(name, opts); err != nil {
		return job, c.Bad("codec", err)
	}
	if o.join.used() {
		if job.LabelDecoder, err = codec.NewLabels(opts); err != nil {
			return job, c.Bad("labels-field", err)
		}
	}
	return job, nil
}
