package modeltopic

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/streamsvm/streamsvm/stream"
)

// An alias is published like a model, under the name MODEL@ALIAS on the model's topic.
// It is a full update with the payload of its target version, so it survives the
// compaction of that version. Its epoch counts promotions. MODEL@ALIAS-1 is the
// previous target.

// before is the suffix of the name of an alias's previous target.
const before = "-1"

var aliasForm = regexp.MustCompile(`^[a-z][a-z0-9-]*$`)

// AliasName returns the name under which an alias is published.
func AliasName(model, alias string) string { return model + "@" + alias }

// SplitName splits a name in a model topic; the alias is empty for a model's own name.
func SplitName(name string) (model, alias string) {
	model, alias, _ = strings.Cut(name, "@")
	return model, alias
}

// CheckModel returns an error if no trainer can publish a model of this name. Names
// with @ are for aliases.
func CheckModel(model string) error {
	if err := CheckName(model); err != nil {
		return err
	}
	if strings.Contains(model, "@") {
		return fmt.Errorf("kafka: model name %q has an @, as only aliases do", model)
	}
	return nil
}

// CheckAlias returns an error if no alias can have this name.
func CheckAlias(alias string) error {
	switch {
	case !aliasForm.MatchString(alias):
		return fmt.Errorf("kafka: alias %q is not of small letters, digits and hyphens, with a letter first", alias)
	case alias == "latest":
		return errors.New(`kafka: alias "latest" would be taken for the newest version, which has no alias`)
	case strings.HasSuffix(alias, before):
		return fmt.Errorf("kafka: alias %q ends in %s, like what an alias stood for before", alias, before)
	}
	return nil
}

// follows reports whether name is the one sought or, if sought is empty, one with the
// given alias.
func follows(sought, alias, name string) bool {
	if sought != "" {
		return name == sought
	}
	_, has := SplitName(name)
	return has == alias
}

// The headers of an alias's first chunk.
const (
	headerBy       = "promoted-by"
	headerReason   = "reason"
	headerPrevious = "previous"
)

// maxReason bounds Promotion.By and Reason, in bytes.
const maxReason = 1000

// about is the content of the headers of an update's first chunk.
type about struct {
	promotion stream.Promotion
	promoted  bool
	at        time.Time // of the record
	signature string
}

func aboutOf(r *stream.Record) (a about) {
	a.at = r.Time
	for _, h := range r.Headers {
		switch v := string(h.Value); h.Key {
		case headerBy:
			a.promoted, a.promotion.By = true, v
		case headerReason:
			a.promotion.Reason = v
		case headerPrevious:
			a.promotion.Previous, _ = strconv.ParseUint(v, 10, 64)
		case headerSignature:
			a.signature = v
		}
	}
	return a
}

// headers returns the headers of an alias, which aboutOf reads.
func (a *about) headers() []stream.Header {
	return []stream.Header{
		{Key: headerBy, Value: []byte(a.promotion.By)},
		{Key: headerReason, Value: []byte(a.promotion.Reason)},
		{Key: headerPrevious, Value: strconv.AppendUint(nil, a.promotion.Previous, 10)},
	}
}
