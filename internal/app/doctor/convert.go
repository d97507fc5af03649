package doctor

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/streamsvm/streamsvm/internal/app/cli"
)

// pipe returns commands that convert the first topic of examples into another
// one, whose records codec json reads, by a filter of jq, and what to do then.
func (p *Plan) pipe(between ...string) string {
	return p.into("json", between...)
}

// into is pipe for any codec and any filter of lines.
func (p *Plan) into(codec string, between ...string) string {
	topic, brokers := p.Topics[0], strings.Join(p.Kafka.Brokers, ",")
	cat := "kcat -C -u -q -b " + brokers + " -t " + cli.Quote(topic)
	if p.Secure {
		cat += " -F kcat.properties"
	}
	all := slices.Concat([]string{cat}, between, []string{"streamsvm produce - --codec " + codec + " --topic " + cli.Quote(topic+"-converted") + " --partitions 3 --brokers " + brokers})
	return "convert it: " + strings.Join(all, " | ") + "\nthen run doctor with --topics " + cli.Quote(topic+"-converted") + " --codec " + codec
}

func jq(filter string) string {
	return "jq -c --unbuffered '" + strings.ReplaceAll(filter, "'", `'\''`) + "'"
}

// fields are the leaves of JSON objects: how often each path holds what.
type fields struct {
	objects int
	n       map[string]*leaf
}

type leaf struct {
	name          string // last part of the path
	numbers, text int
	values        tally
}

// identifier is what jq takes without quotes.
var identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

func (f *fields) add(path string, v any) {
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			sub := path + "." + k
			if !identifier.MatchString(k) {
				quotedKey, _ := json.Marshal(k) // a string can always be
				sub = cmp.Or(path, ".") + "[" + string(quotedKey) + "]"
			}
			f.add(sub, e)
			if l := f.n[sub]; l != nil {
				l.name = k
			}
		}
		return
	case []any:
		for i, e := range v {
			if i < 1000 {
				f.add(fmt.Sprintf("%s[%d]", cmp.Or(path, "."), i), e)
			}
		}
		return
	}
	if f.n == nil {
		f.n = map[string]*leaf{}
	}
	l := f.n[path]
	if l == nil {
		l = &leaf{name: path, values: tally{}}
		f.n[path] = l
	}
	switch x := v.(type) {
	case string:
		if isNumber(x) {
			l.numbers++
		} else {
			l.text++
		}
	case nil:
		return
	case bool:
	default:
		l.numbers++
	}
	l.values.add(valueLabel(v))
}

// label returns the path that holds the label, if one does: one whose name says
// so, or the only one of two values.
func (f *fields) label() string {
	var two []string
	for _, path := range slices.Sorted(maps.Keys(f.n)) {
		l := f.n[path]
		if labelName(l.name) {
			return path
		}
		if len(l.values) == 2 && l.values.total()*10 > f.objects*9 {
			two = append(two, path)
		}
	}
	if len(two) == 1 {
		return two[0]
	}
	return ""
}

// filter returns a filter of jq that makes examples of the objects, which
// prefix selects, and says what it is made of.
func (f *fields) filter(prefix string) (filter, says string) {
	label := f.label()
	var x, left []string
	for _, path := range slices.Sorted(maps.Keys(f.n)) {
		l := f.n[path]
		switch {
		case path == label:
		case l.numbers*10 > f.objects*9 && l.text == 0:
			x = append(x, path)
		default:
			left = append(left, path)
		}
	}
	// The elements of one list are the list.
	if len(x) > 0 {
		if list, rest, ok := strings.Cut(x[0], "[0]"); ok && rest == "" && !slices.ContainsFunc(x, func(p string) bool { return !strings.HasPrefix(p, list+"[") }) {
			x = []string{list + "[]"}
		}
	}
	for i, path := range x {
		if l := f.n[path]; l != nil && l.numbers > 0 && f.inQuotes(path) {
			x[i] = "(" + path + "|tonumber)"
		}
	}
	says = "no field looks like the label"
	y := ".LABEL"
	if label != "" {
		y = label
		says = "the label seems to be " + label
	}
	if len(left) > 0 {
		says += "; not numbers, so left out: " + strings.Join(left[:min(len(left), 8)], ", ")
	}
	return prefix + "{x:[" + strings.Join(x, ",") + "],y:" + y + "}", says
}

// inQuotes reports whether the numbers at the path are in quotes.
func (f *fields) inQuotes(path string) bool { return f.n[path].values.has(word) }

// fieldsOf collects the fields of the objects that values hold, each as dig
// finds it.
func fieldsOf(values []string, dig func(map[string]any) any) *fields {
	f := &fields{}
	for _, v := range values {
		all, err := parseJSON(v)
		m, ok := all.(map[string]any)
		if err != nil || !ok {
			continue
		}
		if found := dig(m); found != nil {
			f.objects++
			f.add("", found)
		}
	}
	return f
}
