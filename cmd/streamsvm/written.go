package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"os"

	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/stream/codec"
	"github.com/streamsvm/streamsvm/trainer"
)

// registryOptions are the options of a schema registry's client.
type registryOptions struct {
	URLs           []string
	User, Password string
	TLS            *tls.Config
	Log            *slog.Logger
	Waiting        func(bool)
}

// schemaRegistry provides the schemas of records.
type schemaRegistry interface {
	trainer.SchemaKeeper
	// Load adds the schemas in a file, if it exists.
	Load(path string) error
	// Check returns an error if the registry does not answer.
	Check(ctx context.Context) error
}

// newRegistry returns a client of a schema registry, without connecting to it. It is nil
// in a build without one.
var newRegistry func(registryOptions) (schemaRegistry, error)

// schemaFlags say where the schemas of records come from.
type schemaFlags struct {
	urls                       []string
	user                       string
	avro, descriptors, message string
	registry                   schemaRegistry // made by connect; nil in a build without one
}

func (o *schemaFlags) define(f *cli.Flags) {
	f.Group("Format", func() {
		f.StringSliceVar(&o.urls, "schema-registry", nil, "avro, protobuf: `URL` of the schema registry; https uses the --tls flags for Kafka")
		f.StringVar(&o.user, "schema-registry-user", "", "`NAME` for the schema registry")
		f.Secret("schema-registry-password", "the password for the schema registry")
		f.StringVar(&o.avro, "avro-schema", "", "avro: `FILE` with the schema of records that refer to none")
		f.StringVar(&o.descriptors, "proto-descriptors", "", "protobuf: `FILE` of protoc --include_imports --descriptor_set_out, for records that refer to no schema")
		f.StringVar(&o.message, "proto-message", "", "protobuf: full `NAME` of the message that such records are")
	})
	f.AlsoKnown("schema-registry", "schema-registry-url", "registry")
}

// written returns the schema that flags give for all records, nil if there is none.
func (o *schemaFlags) written(c *cli.Call) (*codec.WrittenSchema, error) {
	read := func(flag, path string) ([]byte, error) {
		b, err := os.ReadFile(path)
		if err != nil {
			return nil, c.Bad(flag, err)
		}
		if len(o.urls) > 0 {
			return nil, c.Bad(flag, errors.New("it cannot be combined with --schema-registry"))
		}
		return b, nil
	}
	switch {
	case o.avro != "" && (o.descriptors != "" || o.message != ""):
		return nil, c.Bad("avro-schema", errors.New("it cannot be combined with --proto-descriptors"))
	case o.avro != "":
		b, err := read("avro-schema", o.avro)
		return &codec.WrittenSchema{Type: codec.AvroSchema, Text: string(b)}, err
	case o.descriptors == "" && o.message == "":
		return nil, nil
	case o.descriptors == "":
		return nil, c.Bad("proto-message", errors.New("it needs --proto-descriptors"))
	case o.message == "":
		return nil, c.Bad("proto-message", errors.New("--proto-descriptors needs it"))
	}
	b, err := read("proto-descriptors", o.descriptors)
	return &codec.WrittenSchema{Type: codec.ProtobufSchema, Descriptors: b, Message: o.message}, err
}

// options completes the options of codec name.
func (o *schemaFlags) options(c *cli.Call, name string, opts *codec.Options) (err error) {
	if !codec.Schematic(name) {
		return nil
	}
	if opts.Written, err = o.written(c); err == nil && o.registry != nil {
		opts.Schemas = o.registry
	}
	return err
}

// connect makes the registry. t is the TLS configuration for Kafka, nil for none.
func (o *schemaFlags) connect(c *cli.Call, t *tls.Config, waiting func(bool)) error {
	so := registryOptions{URLs: o.urls, User: o.user, TLS: t, Log: c.Log, Waiting: waiting}
	if _, err := o.open(c, so); err != nil {
		return err
	}
	var err error
	if o.user != "" {
		if so.Password, err = c.Secret("schema-registry-password"); err != nil {
			return err
		}
	}
	o.registry, err = o.open(c, so)
	return err
}

// open makes the registry; nil without an error if there is neither a URL nor a registry.
func (o *schemaFlags) open(c *cli.Call, so registryOptions) (schemaRegistry, error) {
	if newRegistry == nil && len(so.URLs) == 0 {
		return nil, nil
	}
	err := codec.ErrNotRegistered
	if newRegistry != nil {
		var r schemaRegistry
		if r, err = newRegistry(so); err == nil {
			return r, nil
		}
	}
	return nil, c.Bad("schema-registry", err)
}

// needed returns errors about flags that are missing, or have no effect, when records
// of codec name are read from topics.
func (o *schemaFlags) needed(c *cli.Call, name string) []error {
	_, err := o.written(c)
	errs := []error{err}
	flag := ""
	switch {
	case len(o.urls) > 0:
		flag = "schema-registry"
	case o.avro != "":
		flag = "avro-schema"
	case o.descriptors != "":
		flag = "proto-descriptors"
	}
	switch {
	case !codec.Schematic(name) && flag != "":
		errs = append(errs, c.Bad(flag, errors.New("it is for --codec avro and protobuf")))
	case name == "avro" && o.descriptors != "", name == "protobuf" && o.avro != "":
		errs = append(errs, c.Bad(flag, errors.New("it is for the other of --codec avro and protobuf")))
	case codec.Schematic(name) && flag == "":
		alone := map[string]string{"avro": "--avro-schema", "protobuf": "--proto-descriptors"}[name]
		errs = append(errs, c.Bad("schema-registry", errors.New("--codec "+name+" needs it, or "+alone)))
	}
	_, err = o.open(c, registryOptions{URLs: o.urls, User: o.user})
	return append(errs, err)
}

// codecName returns the name of the codec for topics.
func (o *codecFlags) codecName() string { return cmp.Or(o.name, defaultCodec) }
