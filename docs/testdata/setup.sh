# What a page takes for granted: files in the directory, topics of the broker.
set -e

transactions() { awk -f "$TESTDATA/tx.awk" >tx.jsonl; }

# moons TOPIC COUNT
moons() { streamsvm generate moons --count "$2" --topic "$1" --partitions 1; }

case $1 in
README.md) transactions ;;
docs/choosing.md)
	streamsvm generate moons --count 1200 --out train.libsvm.gz
	streamsvm generate moons --count 1000 --skip 1200 --out test.libsvm.gz
	moons clicks 3000
	;;
docs/dead-letters.md)
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
	;;
docs/doctor.md)
	awk 'BEGIN { for (i = 0; i < 300; i++) printf "{\"x\":[%d,%d],\"y\":%d}\n", i % 5, i % 7, (i + 1) % 2 }' >clicks.jsonl
	streamsvm copy clicks.jsonl --topic clicks --partitions 1
	;;
docs/events.md)
	transactions
	streamsvm copy tx.jsonl --topic transactions --partitions 1
	;;
docs/formats/plain.md | docs/onnx.md) # payments with amount, country and hour
	awk -f "$TESTDATA/payments.awk" | sed 's/"card":{\("country":".."\)}/\1/; s/"note":"....",//; 1500q' >payments.jsonl
	streamsvm replay payments.jsonl --label fraud --model model.ssm
	streamsvm copy payments.jsonl --topic payments --partitions 1
	streamsvm train --topics payments --label fraud --model-topic models --model-name clicks --checkpoint state --until-end
	;;
docs/gate.md) streamsvm generate checkerboard --count 12000 --topic tx --partitions 1 ;;
docs/lifecycle.md) # three signed versions, of which 2 is the champion, and later records
	openssl genpkey -algorithm ed25519 -out trainer.pem
	openssl pkey -in trainer.pem -pubout -out trainer.pub
	for skip in 0 2000 4000; do
		streamsvm generate checkerboard --count 2000 --skip $skip --topic clicks --partitions 1
		streamsvm train --topics clicks --model-topic models --checkpoint state --signing-key-file trainer.pem --until-end
		[ $skip != 2000 ] || streamsvm model promote --model-topic models
	done
	streamsvm generate checkerboard --count 2000 --skip 6000 --topic clicks
	;;
docs/operations.md) # the topic of models has the wrong cleanup.policy
	moons clicks 300
	moons models 1
	printf 'topics: clicks\nmodel-topic: models\ncheckpoint: ./state\n' >streamsvm.yaml
	;;
docs/pages.md) moons examples 3000 ;;
docs/python.md) awk -f "$TESTDATA/payments.awk" >payments.json ;;
docs/scale-out.md)
	moons clicks 3000
	moons examples 3000
	streamsvm train --topics examples --model-topic models --checkpoint state --until-end
	for day in first monday tuesday; do streamsvm generate moons --count 1200 --codec json --out $day.jsonl; done
	;;
docs/start.md)
	streamsvm generate moons --count 500 --out train.libsvm.gz
	streamsvm generate moons --count 500 --skip 500 --out test.libsvm.gz
	;;
esac
