# 4,000 made-up payments, the same with every awk.
function draw(n) { seed = (16807 * seed + 11) % 2147483647; return seed % n }
BEGIN {
	split("BR CN DE FR", c)
	split("gift rent", notes)
	for (i = 1; i <= 4000; i++) {
		a = draw(10000) / 100
		k = 1 + draw(4)
		printf "{\"amount\":%s,\"card\":{\"country\":\"%s\"},\"hour\":%d,\"note\":\"%s\",\"fraud\":%s}\n", a, c[k], draw(24), notes[1 + draw(2)], (a > 40) != (k < 3) ? "true" : "false"
	}
}
