package serve

import "testing"

func TestFind(t *testing.T) {
	const object = ` { "a" : 1, "b.c" : "x,\"}", "d" : {"e": [1, {"f":2}], "g.h": null}, "k\u0065y": true } `
	for name, want := range map[string]string{"a": "1", "b.c": `"x,\"}"`, "d.e": `[1, {"f":2}]`, "d.g.h": "null", "key": "true", "d": `{"e": [1, {"f":2}], "g.h": null}`, "z": "", "a.b": "", "d.e.f": ""} {
		if got := Find([]byte(object), name); string(got) != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
}
