# A topic clicks with 40 good records and two bad ones, which the trainer has sent to
# clicks.dlq, and streamsvm.yaml.
set -e
awk 'BEGIN {
	for (i = 0; i < 40; i++) printf "{\"x\":[%d,%d],\"y\":%d}\n", i % 5, i % 7, i % 2 * 2 - 1
	print "{\"x\":[NaN,1],\"y\":1}"
	print "{\"x\":[1,2],\"y\":7}"
}' >clicks.jsonl
printf 'topics: clicks\ndlq: .dlq\ntolerance: data\nlabels: pm1\n' >streamsvm.yaml
printf '#!/bin/sh\nsed s/7/1/\n' >repair.sh
chmod +x repair.sh
streamsvm copy clicks.jsonl --topic clicks --partitions 1
streamsvm train --config streamsvm.yaml --checkpoint state --until-end
