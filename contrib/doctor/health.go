package doctor

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/streamsvm/streamsvm/internal/app/cli"
)

// healthTimeout is below the 5 s after which Docker and Kubernetes usually give up.
const healthTimeout = 4 * time.Second

// checkHealth checks whether a running service is healthy, for containers without curl.
// It fails with code 69 unless the response is 200 OK.
func checkHealth(ctx context.Context, c *cli.Call, url string) error {
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return cli.Fail(cli.Usage, err)
	}
	if s := req.URL.Scheme; req.URL.Host == "" || s != "http" && s != "https" {
		return cli.Failf(cli.Usage, "%q is no URL like http://127.0.0.1:8080/healthz; a topic is given by --topics", url)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return cli.Fail(cli.Unavailable, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 4096))
	if err != nil {
		return cli.Fail(cli.Unavailable, err)
	}
	text := strings.TrimSpace(string(body))
	if resp.StatusCode != http.StatusOK {
		return cli.Failf(cli.Unavailable, "%s: %s", resp.Status, text)
	}
	_, err = fmt.Fprintln(c.Out, text)
	return err
}
