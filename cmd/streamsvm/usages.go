package main

import "github.com/streamsvm/streamsvm/internal/app/contrib"

// A setting has the same meaning in all commands: these are the texts that several
// commands share. The text after "; " is left out of the short help.
const (
	topicsUsage      = "`TOPICS` to read"
	startUsage       = "`WHERE` a first start begins: earliest, latest, a time (RFC 3339), or milliseconds since 1970"
	untilEndUsage    = "stop at the ends that the partitions have at the start"
	rateLimitUsage   = "most `RECORDS` a second to take; 0 takes what there is"
	groupUsage       = "consumer `GROUP`; its processes share the partitions, and it keeps the positions; of train and copy it only shows the lag"
	partitionsUsage  = contrib.PartitionsUsage
	topicWaitUsage   = "how long to wait for a topic that does not exist, or that holds no model; negative forever"
	listenUsage      = "`HOST:PORT` for the status page, /metrics, /healthz and /readyz, and for predictions over HTTP; without HOST the loopback interface"
	limitUsage       = "use only the first `N` records; 0 uses all"
	codecUsage       = "format of the records; by default by file name, else that of the model's training data, else json"
	headerUsage      = "csv: the first line names the columns"
	toleranceUsage   = "records that cannot be used: stop at the first one, go on, or go on even if it cannot be dead-lettered"
	predictionsUsage = "`TOPIC` for predictions"
	errorsUsage      = "`TOPIC` for records that cannot be used, as dead letters, instead of errors among the predictions"
	modelTopicUsage  = "compacted `TOPIC` of models"
	modelNameUsage   = "`NAME` of the model in the topic; by default model if it is published, else the first or only one"
	modelFileUsage   = "`FILE` with a model, instead of --model-topic"
	replaceUsage     = "replace a model in the topic that does not come from these checkpoints"
	aliasUsage       = "use the version that the alias `NAME` points to, instead of the newest; promote and rollback move it, by default champion"
	checkpointUsage  = "`DIR` of checkpoints; training continues from the newest; train also takes kafka://TOPIC, a compacted topic"
	everyUsage       = "records between checkpoints; 0 sets none"
	publishUsage     = "publish a version after each `N` records, or sooner if the default learner finds a change (replay: measure what subscribers would get)"
	jsonUsage        = "print JSON"
	outUsage         = "write to `FILE`; without it to standard output; generate compresses .gz and .zst"
	dryRunUsage      = "check everything and print what would be done, without changing anything"
	learnerUsage     = "`NAME` of the learner; see streamsvm learners"
	setUsage         = "set an option of the learner, or of a synthetic stream; repeatable"
	taskUsage        = "what to predict; by default classes, or what the learner does first"
	tuneUsage        = "choose tunable options that are not set on the first examples; auto does so with every preset but paper"
	seedUsage        = "seed of all randomness"
	scaleUsage       = "scaling of features"
	hashUsage        = "hash features into so many; 0 does not"
	warmupUsage      = "number of first examples on which scaling and tuning are chosen, before anything is scored; 0 chooses it; at most two thirds of a stream"
)
