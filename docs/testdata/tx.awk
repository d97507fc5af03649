# 2,000 made-up transactions, the same with every awk: docs/serving.md shows this program.
function draw(n) { seed = (16807 * seed + 11) % 2147483647; return seed % n }
BEGIN {
	split("BR DE FR US", c)
	for (i = 1; i <= 2000; i++) {
		a = draw(10000) / 100
		k = c[1 + draw(4)]
		printf "{\"tx\":\"t%d\",\"amount\":%s,\"country\":\"%s\",\"is_fraud\":%s}\n", i, a, k, (a > 60) != (k == "BR") ? "true" : "false"
	}
}
