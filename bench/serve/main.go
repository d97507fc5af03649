// Command serve measures how many requests streamsvm predict answers, and how
// fast: each request with one program and with another in turn, so that what else
// the machine does is the same for both.
//
//	go run -C bench ./serve -model MODEL.ssm -before OLD -after NEW
//
// OLD and NEW are programs; without -before only NEW is measured. The model takes
// vectors of two features.
package main

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

var (
	model   = flag.String("model", "", "model of two features")
	before  = flag.String("before", "", "program to compare with")
	after   = flag.String("after", "", "program")
	conns   = flag.Int("conns", 16, "connections, each with one request at a time")
	rounds  = flag.Int("rounds", 5, "rounds")
	seconds = flag.Float64("seconds", 3, "of each measurement")
	only    = flag.String("only", "", "requests whose name contains this")
)

// request is one kind of request.
type request struct {
	name, path, header, body string
	old                      bool // the program before knows it too
}

func requests(model string) []request {
	name := strings.TrimSuffix(filepath.Base(model), filepath.Ext(model))
	rows := func(n int, row, sep string) string { return strings.TrimSuffix(strings.Repeat(row+sep, n), sep) }
	infer := "/v2/models/" + name + "/infer"
	return []request{
		{"/predict, 1 row", "/predict", "", `{"x":[0.5,1.25]}`, true},
		{"/predict, 100 rows", "/predict", "", "[" + rows(100, `{"x":[0.5,1.25]}`, ",") + "]", true},
		{"/predict, 100 JSON lines", "/predict", "Content-Type: application/x-ndjson\r\n", rows(100, `{"x":[0.5,1.25]}`, "\n"), false},
		{"/v2 infer, 1 row", infer, "", `{"inputs":[{"name":"x","shape":[1,2],"datatype":"FP64","data":[0.5,1.25]}]}`, false},
		{"/v2 infer, 100 rows", infer, "", `{"inputs":[{"name":"x","shape":[100,2],"datatype":"FP64","data":[` + rows(100, "0.5,1.25", ",") + `]}]}`, false},
		{"/invocations, 1 row", "/invocations", "", `{"instances":[[0.5,1.25]]}`, false},
	}
}

func main() {
	log.SetFlags(0)
	flag.Parse()
	if *after == "" || *model == "" {
		flag.Usage()
		os.Exit(2)
	}
	programs := []string{*after}
	names := []string{"after"}
	if *before != "" {
		programs, names = []string{*before, *after}, []string{"before", "after"}
	}
	var addrs []string
	for _, p := range programs {
		addr, stop := start(p, *model)
		defer stop()
		addrs = append(addrs, addr)
	}
	fmt.Println("| request | program | requests/s | p50, ms | p99, ms |")
	fmt.Println("| --- | --- | --- | --- | --- |")
	for _, q := range requests(*model) {
		if !strings.Contains(q.name, *only) {
			continue
		}
		results := make([][3][]float64, len(programs))
		for range *rounds {
			for i, addr := range addrs {
				if names[i] == "before" && !q.old {
					continue
				}
				rate, p50, p99 := load(addr, q)
				for k, v := range []float64{rate, p50, p99} {
					results[i][k] = append(results[i][k], v)
				}
			}
		}
		for i, r := range results {
			if len(r[0]) > 0 {
				fmt.Printf("| %s | %s | %.0f | %.3f | %.2f |\n", q.name, names[i], median(r[0]), median(r[1]), median(r[2]))
			}
		}
	}
}

func median(v []float64) float64 {
	slices.Sort(v)
	return v[len(v)/2]
}

// start starts predict and waits until it is ready.
func start(program, model string) (addr string, stop func()) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	addr = l.Addr().String()
	l.Close()
	cmd := exec.Command(program, "predict", "--model", model, "--listen", addr, "-q")
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		log.Fatal(err)
	}
	for range 100 {
		time.Sleep(50 * time.Millisecond)
		if c, err := net.Dial("tcp", addr); err == nil {
			c.Close()
			break
		}
	}
	return addr, func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
	}
}

// load asks over several connections, and returns requests a second and
// quantiles of the time to the answer in ms.
func load(addr string, q request) (rate, p50, p99 float64) {
	text := fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: %s\r\n%sContent-Length: %d\r\n\r\n%s", q.path, addr, q.header, len(q.body), q.body)
	var all []time.Duration
	var mu sync.Mutex
	var clients sync.WaitGroup
	begin := time.Now()
	end := begin.Add(time.Duration(*seconds * float64(time.Second)))
	for range *conns {
		clients.Go(func() {
			c, err := net.Dial("tcp", addr)
			if err != nil {
				log.Fatal(err)
			}
			defer c.Close()
			r := bufio.NewReader(c)
			var took []time.Duration
			for now := time.Now(); now.Before(end); {
				if _, err := c.Write(text); err != nil {
					log.Fatal(err)
				}
				answer(r, q.name)
				then := time.Now()
				took = append(took, then.Sub(now))
				now = then
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, took...)
		})
	}
	clients.Wait()
	rate = float64(len(all)) / time.Since(begin).Seconds()
	slices.Sort(all)
	ms := func(share float64) float64 {
		return float64(all[int(share*float64(len(all)-1))].Nanoseconds()) / 1e6
	}
	return rate, ms(.5), ms(.99)
}

var length = []byte("Content-Length: ")

// answer reads an answer, which must be one of 200.
func answer(r *bufio.Reader, name string) {
	n, chunked := -1, false
	for first := true; ; first = false {
		line, err := r.ReadSlice('\n')
		if err != nil {
			log.Fatalf("%s: %v", name, err)
		}
		if first && !bytes.HasPrefix(line, []byte("HTTP/1.1 200")) {
			log.Fatalf("%s: %s", name, line)
		}
		if bytes.HasPrefix(line, length) {
			if n, err = strconv.Atoi(string(bytes.TrimSpace(line[len(length):]))); err != nil {
				log.Fatal(err)
			}
		}
		chunked = chunked || bytes.HasPrefix(line, []byte("Transfer-Encoding"))
		if len(line) == 2 {
			break
		}
	}
	for chunked {
		line, err := r.ReadSlice('\n')
		if err != nil {
			log.Fatal(err)
		}
		size, err := strconv.ParseInt(string(bytes.TrimSpace(line)), 16, 64)
		if err != nil {
			log.Fatal(err)
		}
		if _, err := r.Discard(int(size) + 2); err != nil {
			log.Fatal(err)
		}
		if size == 0 {
			return
		}
	}
	if _, err := io.CopyN(io.Discard, r, int64(max(n, 0))); err != nil {
		log.Fatal(err)
	}
}
