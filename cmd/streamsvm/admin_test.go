package main

import (
	"context"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/streamsvm/streamsvm/internal/app/cli"
)

const token = "0123456789abcdef"

// served runs predict on the topic until the test ends, and returns its address.
func served(t *testing.T, c *cluster, models, token string, more ...string) string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var errs buffer
	ended := make(chan int, 1)
	go func() {
		ended <- program().Main(ctx, append([]string{"predict", "--model-topic", models, "--listen", "127.0.0.1:0", "--brokers", strings.Join(c.brokers, ",")}, more...),
			cli.Stdio{In: strings.NewReader(""), Out: io.Discard, Err: &errs, Getenv: func(name string) (string, bool) {
				if name == "STREAMSVM_ADMIN_TOKEN" && token != "" {
					return token, true
				}
				return "", false
			}})
	}()
	t.Cleanup(func() {
		cancel()
		if code := <-ended; code != 0 {
			t.Errorf("exit code %d: %s", code, errs.String())
		}
	})
	for range 600 {
		if m := regexp.MustCompile(`POST (http://\S+)/predict`).FindStringSubmatch(errs.String()); m != nil {
			return m[1]
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatal(errs.String())
	return ""
}

// TestAdmin: who has the token promotes and rolls back over HTTP, and nobody
// else does.
func TestAdmin(t *testing.T) {
	c := newCluster(t)
	private, public := keyPair(t)
	_, models := c.trained("--signing-key-file", private)
	open := served(t, c, models, token, "--signing-key-file", private)
	closed := served(t, c, models, "")
	stands := func() (version uint64) {
		t.Helper()
		l := decode[modelList](t, c.run("model", "list", "--model-topic", models, "--json", "--trusted-keys", public))
		if len(l.Aliases) > 0 {
			version = l.Aliases[0].Version
		}
		return version
	}
	ask := func(want int, text, method, url, authorization, body string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if authorization != "" {
			req.Header.Set("Authorization", authorization)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		answer, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != want || !strings.Contains(string(answer), text) {
			t.Errorf("%s %s %s: %s, %s, want %d and %q", method, url, body, resp.Status, answer, want, text)
		}
	}
	for _, verb := range []string{"promote", "rollback"} {
		ask(http.StatusForbidden, "not allowed", "POST", closed+"/admin/"+verb, "Bearer "+token, `{}`)
		for _, bad := range []string{"", token, "Bearer", "Bearer ", "Bearer " + token[1:], "Bearer " + token + "0", "Basic " + token} {
			ask(http.StatusUnauthorized, "missing or wrong", "POST", open+"/admin/"+verb, bad, `{}`)
		}
		ask(http.StatusMethodNotAllowed, "", "GET", open+"/admin/"+verb, "Bearer "+token, "")
		ask(http.StatusUnauthorized, "missing or wrong", "POST", open+"/admin/"+verb+"?token="+token, "", "token="+token)
		ask(http.StatusBadRequest, "no JSON", "POST", open+"/admin/"+verb, "Bearer "+token, `alias=champion`)
		ask(http.StatusBadRequest, "unknown field", "POST", open+"/admin/"+verb, "Bearer "+token, `{"verison":1}`)
		ask(http.StatusConflict, "alias", "POST", open+"/admin/"+verb, "Bearer "+token, `{"alias":"latest"}`)
	}
	ask(http.StatusConflict, "nothing to go back to", "POST", open+"/admin/rollback", "Bearer "+token, `{}`)
	ask(http.StatusConflict, "does not have version 99", "POST", open+"/admin/promote", "Bearer "+token, `{"version":99}`)
	if v := stands(); v != 0 {
		t.Fatalf("the alias stands for %d after nothing but refusals", v)
	}
	ask(http.StatusOK, "model@champion now stands for version 1", "POST", open+"/admin/promote", "Bearer "+token, `{"version":1,"reason":"first <b>"}`)
	ask(http.StatusOK, "model@champion now stands for version 2", "POST", open+"/admin/promote", "Bearer "+token, `{"alias":"champion","version":2}`)
	if v := stands(); v != 2 {
		t.Errorf("the alias stands for %d", v)
	}
	ask(http.StatusOK, "stands for version 1 again", "POST", open+"/admin/rollback", "Bearer "+token, `{}`)
	if v := stands(); v != 1 {
		t.Errorf("the alias stands for %d", v)
	}
	// The pages of both show it, and only one has buttons. They read when they
	// are asked for.
	for url, buttons := range map[string]bool{open: true, closed: false} {
		page := ""
		for end := time.Now().Add(30 * time.Second); !strings.Contains(page, "Aliases") && time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
			resp, err := http.Get(url)
			if err != nil {
				t.Fatal(err)
			}
			data, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if err != nil {
				t.Fatal(err)
			}
			page = string(data)
		}
		if !strings.Contains(page, `<th scope="row">champion</th><td class="n">1</td><td class="n">2</td>`) || strings.Contains(page, `value="rollback"`) != buttons || strings.Contains(page, token) {
			t.Errorf("the page of one with buttons (%v):\n%s", buttons, page)
		}
	}
}

func TestAdminRefuses(t *testing.T) {
	for args, want := range map[string]string{
		"predict --model-topic m --admin-token-file t":           "--admin-token-file: it needs --listen",
		"predict --model m.ssm --listen :0 --admin-token-file t": "--admin-token-file: it needs --model-topic",
		"train --topics a --model-topic m --admin-token-file t":  "--admin-token-file: it needs --listen",
		"predict --model-topic m --listen :0 --admin-token=0123": "admin-token",
	} {
		if code, _, errText := streamsvm(t.Context(), strings.Fields(args)...); code != int(cli.Usage) || !strings.Contains(errText, want) {
			t.Errorf("%s: exit code %d, %s", args, code, errText)
		}
	}
}
