// Command serve measures the rate at which streamsvm predict answers requests, the
// latency, and the processor time per request.
//
//	go run -C bench ./serve -model MODEL.ssm -exe PROGRAM
//
// The model takes vectors of two features.
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
	exe     = flag.String("exe", "", "streamsvm `program`")
	conns   = flag.Int("conns", 16, "connections, each with one request at a time")
	rounds  = flag.Int("rounds", 5, "rounds")
	seconds = flag.Float64("seconds", 3, "of each measurement")
	only    = flag.String("only", "", "requests whose name contains this")
)

// request is one kind of request.
type request struct {
	name, path, header, body string
}

func requests(model string) []request {
	name := strings.TrimSuffix(filepath.Base(model), filepath.Ext(model))
	rows := func(n int, row, sep string) string { return strings.TrimSuffix(strings.Repeat(row+sep, n), sep) }
	infer := "/v2/models/" + name + "/infer"
	return []request{
		{"/predict, 1 row", "/predict", "", `{"x":[0.5,1.25]}`},
		{"/predict, 100 rows", "/predict", "", "[" + rows(100, `{"x":[0.5,1.25]}`, ",") + "]"},
		{"/predict, 100 JSON lines", "/predict", "Content-Type: application/x-ndjson\r\n", rows(100, `{"x":[0.5,1.25]}`, "\n")},
		{"/v2 infer, 1 row", infer, "", `{"inputs":[{"name":"x","shape":[1,2],"datatype":"FP64","data":[0.5,1.25]}]}`},
		{"/v2 infer, 100 rows", infer, "", `{"inputs":[{"name":"x","shape":[100,2],"datatype":"FP64","data":[` + rows(100, "0.5,1.25", ",") + `]}]}`},
	}
}

func main() {
	log.SetFlags(0)
	flag.Parse()
	if *exe == "" || *model == "" {
		flag.Usage()
		os.Exit(2)
	}
	server := start(*exe, *model)
	defer server.stop()
	server.load(requests(*model)[0]) // warms up
	fmt.Println("| request | requests/s | p50, ms | p99, ms | processor, µs a request |")
	fmt.Println("| --- | --- | --- | --- | --- |")
	for _, q := range requests(*model) {
		if !strings.Contains(q.name, *only) {
			continue
		}
		var results [4][]float64
		for range *rounds {
			for k, v := range server.load(q) {
				results[k] = append(results[k], v)
			}
		}
		fmt.Printf("| %s | %.0f | %.3f | %.2f | %.1f |\n", q.name, median(results[0]), median(results[1]), median(results[2]), median(results[3]))
	}
}

func median(v []float64) float64 {
	slices.Sort(v)
	return v[len(v)/2]
}

// server is a running predict.
type server struct {
	cmd  *exec.Cmd
	addr string
}

func (s *server) stop() {
	_ = s.cmd.Process.Signal(os.Interrupt)
	_ = s.cmd.Wait()
}

// processor returns the processor time of the server so far, in µs, or 0 if there is
// no /proc.
func (s *server) processor() float64 {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.cmd.Process.Pid))
	_, rest, ok := strings.Cut(string(data), ") ")
	if err != nil || !ok {
		return 0
	}
	f := strings.Fields(rest)
	user, _ := strconv.ParseFloat(f[11], 64)
	system, _ := strconv.ParseFloat(f[12], 64)
	return (user + system) * 10_000 // in hundredths of a second
}

// start starts predict and waits until it is ready.
func start(program, model string) *server {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	addr := l.Addr().String()
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
	return &server{cmd, addr}
}

// load sends requests over several connections. It returns requests per second,
// quantiles of the latency in ms, and the processor time per request in µs.
func (s *server) load(q request) [4]float64 {
	addr, used := s.addr, s.processor()
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
	rate := float64(len(all)) / time.Since(begin).Seconds()
	slices.Sort(all)
	ms := func(share float64) float64 {
		return float64(all[int(share*float64(len(all)-1))].Nanoseconds()) / 1e6
	}
	return [4]float64{rate, ms(.5), ms(.99), (s.processor() - used) / float64(len(all))}
}

var length = []byte("Content-Length: ")

// answer reads a response, which must have status 200.
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
