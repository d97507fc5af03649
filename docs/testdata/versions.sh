# Three signed versions of a model of the topic clicks on the topic models; version 3 is
# the champion.
set -e
openssl genpkey -algorithm ed25519 -out trainer.pem
openssl pkey -in trainer.pem -pubout -out trainer.pub
for skip in 0 2000 4000; do
	streamsvm generate checkerboard --count 2000 --skip $skip --topic clicks --partitions 1
	streamsvm train --topics clicks --model-topic models --checkpoint state --signing-key-file trainer.pem --until-end
done
streamsvm model promote --model-topic models --version 3
