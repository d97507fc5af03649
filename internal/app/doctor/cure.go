package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/stream"
)

// why says why records of a form cannot be read.
func (s *study) why(f form) string {
	v := []byte(s.values[0])
	switch f {
	case formRegistry:
		return fmt.Sprintf(" (magic byte 0, schema id %d), which codec %s does not read", schemaID(v), s.codec)
	case formDebezium:
		return " (before, after, op), which describe changes of a row and are no examples"
	case formEnvelope:
		return ", a schema or context around the data, which no codec opens"
	case formFields:
		_, says := fieldsOf(s.values, whole).filter("")
		return ", where codec json wants {\"x\":[...],\"y\":1}; " + says
	case formLabel:
		return ": nothing can be learned from them alone"
	case formLetter:
		return ": they are what a run could not use"
	case formModel:
		return ", the topic of a model (--model-topic), which predict and subscribe read"
	case formBase64:
		return ", the text of bytes, which no codec decodes"
	case formCut:
		return ": their producer sends a part of each only"
	}
	return ", which no codec reads: " + shown(s.values[0])
}

// cure says what to do about a form that no codec reads.
func (s *study) cure(f form) string {
	switch f {
	case formEmpty:
		return "have the producer write the examples as values"
	case formLetter:
		return "read the topic that they come from; to list and repair them: streamsvm dlq list --topics " + cli.Quote(strings.TrimSuffix(s.Topics[0], ".dlq"))
	case formModel:
		return "give the topic of examples with --topics"
	case formRegistry:
		return "give the schema registry, and which of the two they are: --codec avro --schema-registry http://REGISTRY:8081, or --codec protobuf"
	case formDebezium:
		prefix := ".after"
		if formHasPayload(s.values[0]) {
			prefix = ".payload.after"
		}
		return s.named(s.values, "select("+prefix+"!=null)|"+prefix+"|", func(m map[string]any) any {
			if p, ok := m["payload"].(map[string]any); ok {
				m = p
			}
			return m["after"]
		})
	case formEnvelope:
		key := "data"
		if formHasPayload(s.values[0]) {
			key = "payload"
		}
		if inner := fieldsOf(s.values, func(m map[string]any) any { return m[key] }); inner.n[".y"] != nil && inner.n[".x[0]"] != nil {
			return s.pipe(jq("." + key))
		}
		return s.named(s.values, "."+key+"|", func(m map[string]any) any { return m[key] })
	case formFields:
		filter, _ := fieldsOf(s.values, whole).filter("")
		return s.pipe(jq(filter))
	case formTextNumber:
		return s.pipe(jq(".x|=map(tonumber)"))
	case formArray:
		return s.pipe(jq("{x:.[:-1],y:.[-1]}")) + "\nthat takes the last number for the label; with the first it is {x:.[1:],y:.[0]}"
	case formBatch:
		return s.pipe(jq("if type==\"array\" then .[] else . end"))
	case formQuoted:
		return s.pipe("jq -r --unbuffered .")
	case formPython:
		return "have the producer write JSON: json.dumps(example) in place of str(example)"
	case formCut:
		return "look for a limit in the producer: what is cut off cannot be restored"
	case formLabel:
		return "give the topic of examples with --topics, and this one with --join key --labels-topic " + cli.Quote(s.Topics[0])
	case formFieldsPack:
		return `have the producer write the map {"x": features, "y": label}`
	case formBlanks:
		return s.into("csv", "sed -u 's/^ *//;s/ *$//;s/  */,/g'")
	case formDecimal:
		return s.into("csv", "sed -u 's/,/./g;s/[;\\t|]/,/g'")
	case formVW:
		return s.into("libsvm", "sed -u -E 's/ ?\\|[^ ]*//'") + "\nif the features have numbers for names; others have to be numbered first"
	case formBOM, formUTF16, formLatin:
		return "have the producer write UTF-8 without a byte order mark (value.serializer.encoding=UTF-8)"
	case formBase64:
		return s.pipe("jq -Rr --unbuffered 'fromjson? // .|@base64d'")
	case formGzip, formZstd, formSnappy, formLZ4, formZlib:
		return "have the producer send plain values and compress batches, which every consumer undoes by itself: compression.type=zstd"
	case formAvroFile, formParquet:
		return "these are files, not events: read them in Python (fastavro, pyarrow), write a line of JSON or CSV for each row, and send that with streamsvm produce"
	case formFloats:
		return "have the producer write MessagePack: the map {\"x\": the same bytes as bin, \"y\": label}"
	}
	return `have the producer write one of these: {"x":[0.5,1.25],"y":1} (json), 1 1:0.5 2:1.25 (libsvm), 0.5,1.25,1 (csv), the map {"x":...,"y":...} (msgpack)`
}

// whole takes all of an object.
func whole(m map[string]any) any { return m }

func formHasPayload(value string) bool {
	v, err := parseJSON(value)
	m, ok := v.(map[string]any)
	return err == nil && ok && m["payload"] != nil
}

// named converts objects with named fields, and says which is which.
func (s *study) named(values []string, prefix string, dig func(map[string]any) any, before ...string) string {
	filter, says := fieldsOf(values, dig).filter(prefix)
	return s.pipe(append(before, jq(filter))...) + "\n" + says
}

// renumber says how to number features from 1.
func (s *study) renumber() string {
	if s.codec == "json" {
		return s.pipe(jq(".x|=with_entries(.key|=(tonumber+1|tostring))"))
	}
	return s.into("libsvm", `awk '{for(i=1;i<=NF;i++)if($i~/^[0-9]+:/){split($i,a,":");$i=(a[1]+1)":"a[2]};print;fflush()}'`)
}

// sparse says what to do about numbers of features that differ.
func (s *study) sparse(common int, dims map[int]int) string {
	if n := sum(dims) - dims[common]; s.codec == "json" && few(n, sum(dims)) {
		return fmt.Sprintf("if the others, %d of %d, are mistakes, leave them out: ", n, sum(dims)) + s.pipe(jq(fmt.Sprintf("select(.x|length==%d)", common)))
	}
	if s.codec == "json" {
		return "if features that are missing at the end are 0, number them and " + s.pipe(jq(".x|=(to_entries|map({key:(.key+1|tostring),value})|from_entries)"))
	}
	return "write as many features in each record; where those at the end may be missing, write them by number: +1 1:0.5 3:1.25 (libsvm)"
}

// mend says what to do about records that cannot be read and are too many to
// be left out.
func (s *study) mend(reasons map[stream.Reason]int) string {
	if reasons[stream.ReasonNotFinite]+reasons[stream.ReasonEmpty]+reasons[stream.ReasonSyntax]+reasons[stream.ReasonType] > 0 && s.codec == "json" {
		return "if features are missing, put a number in place of them, such as 0 or the mean: " + s.pipe(jq(".x|=map(if type==\"number\" and (isnan|not) then . else 0 end)"))
	}
	return "have the producer write them as the others; a feature that is missing needs a number in its place, such as 0 or the mean"
}

// oneAgainstRest says what to do about more classes than two.
func (s *study) oneAgainstRest(all tally) string {
	by := slices.SortedStableFunc(slices.Values(all.sorted()), func(a, b label) int { return cmp.Compare(all[b], all[a]) })
	cure := "train a model for each class against the rest, from topics in which that class is 1 and the others are -1"
	if s.codec == "json" {
		cure += "\n" + s.pipe(jq(".y|=(if .=="+jsonText(by[0])+" then 1 else -1 end)"))
	}
	rest := all.total() - all[by[0]] - all[by[1]]
	switch {
	case few(rest, all.total()):
		two := tally{by[0]: 1, by[1]: 1}
		cure += fmt.Sprintf("\nif all but %s and %s are mistakes, %d of %d, a run with --labels %s --tolerance data --dlq puts them aside", by[0].text, by[1].text, rest, all.total(), cli.Quote(two.convention(s.format.Labels)))
	case !all.has(word) && !all.has(boolean):
		cure += "\nif they are quantities, predict them: --task regress --learner online"
	}
	return cure
}

// jsonText is a label as JSON has it.
func jsonText(l label) string {
	if l.kind == word {
		return strconv.Quote(l.text)
	}
	return l.text
}

// sameLabels says what to do about labels that are written in several ways.
func (s *study) sameLabels(all tally) string {
	if s.codec != "json" || s.Labels != "" {
		return "have the producers write each in one way"
	}
	if all.has(number) {
		return s.pipe(jq(".y|=(if type==\"string\" then tonumber else . end)"))
	}
	return s.pipe(jq(".y|=(tostring|ascii_downcase)"))
}
