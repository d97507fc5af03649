package main

// removed says what replaces the commands and settings that earlier versions had; see
// cli.Program. Package registry does so for learners, and learners for their options.
var removed = map[string]string{
	"acls":      "streamsvm config acls [COMMAND] [-- FLAGS] prints the permissions of a command",
	"compare":   "streamsvm model compare A B FILE... compares two models on records, streamsvm replay FILE --compare A,B,... learners",
	"health":    "streamsvm doctor URL asks whether a service is healthy",
	"inspect":   "streamsvm model inspect describes files and model topics",
	"subscribe": "streamsvm model follow prints and saves the updates of a model topic",
	"produce":   "streamsvm copy FILE... --topic TOPIC writes files to a topic",
	"merge":     "streamsvm sum SKETCH... adds up sketches",
	"solve":     "streamsvm sum --solve SKETCH... makes the model of sketches",
	"record":    "streamsvm copy FILE.ssr --topics TOPICS saves topics to a recording",

	"--allow-admin":         "the admin token allows promotions by the status page",
	"--fetch-max-wait":      "it is 500ms now",
	"--full-every":          "it is 16 now",
	"--member":              "any number of processes share a --group, without numbers; --instance NAME makes one a static member",
	"--max-down":            "services wait for brokers forever now, other commands for 30 s",
	"--max-numbers":         "it is 20000000 now",
	"--max-rows":            "it is 100000 now",
	"--max-in-flight-bytes": "it is 64 MiB now, or four times --max-body-bytes if that is more",
	"--once":                "--until 1 stops after the first update",
	"--original-timing":     "--rate sets the records per second",
	"--queue":               "it is 65536 now",
	"--session-timeout":     "it is 10s now",
	"--scale-span":          "it is 1000 now",
	"--set-only":            "config show prints the source of each value: those that are set have another one than default",
	"--sift-target-lag":     "it is 30s now",
	"--stall-timeout":       "it is 45s now",
	"--timeout":             "it is 4s now",
	"--role":                "name the command: streamsvm config acls COMMAND",
	"--transaction-timeout": "it is 20s now",
	"--weights":             "it is 10 now",

	"sift --predictions-topic": "streamsvm predict makes predictions",
	"sift --without-model":     "sift waits 3 s for a first model now",
	"sift --band":              "there is no replacement",
	"config --for":             "name the commands after the FILE",
	"config --origin":          "config show always prints the source of each value",
	"learners --all":           "all options are shown now",
	"learners --markdown":      "docs/learners.md has this, and --json prints it for programs",
}
