# Payments with the fields amount, country and hour, and a model of them in a file and on
# the topic models.
set -e
awk -f "$TESTDATA/payments.awk" | sed 's/"card":{\("country":".."\)}/\1/; s/"note":"....",//' >payments.jsonl
streamsvm replay payments.jsonl --label fraud --model model.ssm
streamsvm copy payments.jsonl --topic payments --partitions 1
streamsvm train --topics payments --label fraud --model-topic models --model-name clicks --checkpoint state --until-end
