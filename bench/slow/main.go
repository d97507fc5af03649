// Command slow measures the effect of slow and large requests on streamsvm predict:
// the largest memory use, the latency of health and metrics under this load, and
// whether ordinary requests are answered.
//
//	go run -C bench ./slow -model MODEL.ssm PROGRAM...
//
// The model must take events with the fields amount and country. Each load begins
// with a new process.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

var (
	model   = flag.String("model", "", "model of events with the fields amount and country")
	seconds = flag.Float64("seconds", 30, "of each load")
	only    = flag.String("only", "", "loads whose name contains this")
	address = flag.String("address", "", "make the load of -only on this address: what the command starts itself with, so that the load is in a process of its own")
)

// load describes the requests of the clients. run returns when stop is closed.
type load struct {
	name    string
	clients int
	run     func(s *server, stop <-chan struct{})
}

const (
	limit = 16 << 20
	event = `{"amount":82,"country":"DE"}`
)

// array returns a request for events, of about size bytes.
func array(size int) []byte {
	n := size / (len(event) + 1)
	return []byte("[" + strings.TrimSuffix(strings.Repeat(event+",", n), ",") + "]")
}

// rows returns a request for n events, filled up with spaces to size bytes.
func rows(n, size int) []byte {
	row := event + strings.Repeat(" ", max(0, size/n-len(event)-1))
	return []byte("[" + strings.TrimSuffix(strings.Repeat(row+",", n), ",") + "]")
}

// empty returns a request for n events without fields, which is small for its cost.
func empty(n int) []byte {
	return []byte("[" + strings.TrimSuffix(strings.Repeat("{},", n), ",") + "]")
}

// binary returns a request of the Open Inference Protocol with n rows.
func binary(n int) []byte {
	one := func(name, datatype, v string) string {
		return fmt.Sprintf(`{"name":%q,"shape":[%d],"datatype":%q,"data":[%s]}`, name, n, datatype, strings.TrimSuffix(strings.Repeat(v+",", n), ","))
	}
	return []byte(`{"inputs":[` + one("amount", "FP64", "82.5") + "," + one("country", "BYTES", `"DE"`) + `]}`)
}

func loads() []load {
	large, full := rows(99_000, limit-1024), array(4<<20)
	infer := binary(99_000)
	one := []byte(`{"amount":82,"country":"` + strings.Repeat("x", limit-1024) + `"}`)
	many := []byte("[" + strings.TrimSuffix(strings.Repeat("1,", limit/2-8), ",") + "]")
	return []load{
		{"1,000 send 4 MB at 5 bytes/s", 1000, func(s *server, stop <-chan struct{}) { s.trickle(full, 0, stop) }},
		{"400 send 4 MB and wait", 400, func(s *server, stop <-chan struct{}) { s.trickle(full, len(full)-1, stop) }},
		{"1,000 send 16 MiB of 99,000 rows", 1000, func(s *server, stop <-chan struct{}) { s.ask("/predict", large, stop) }},
		{"12 send 16 MiB of 99,000 rows", 12, func(s *server, stop <-chan struct{}) { s.ask("/predict", large, stop) }},
		{"12 send 16 MiB of one row", 12, func(s *server, stop <-chan struct{}) { s.ask("/predict", one, stop) }},
		{"12 send 16 MiB of too many rows", 12, func(s *server, stop <-chan struct{}) { s.ask("/predict", many, stop) }},
		{"100 send 99,000 rows of 3 bytes", 100, func(s *server, stop <-chan struct{}) { s.ask("/predict", empty(99_000), stop) }},
		{"100 send 99,000 rows to /v2", 100, func(s *server, stop <-chan struct{}) { s.ask(s.infer, infer, stop) }},
		{"100 send 99,000 rows and do not read", 100, func(s *server, stop <-chan struct{}) { s.trickle(empty(99_000), -1, stop) }},
	}
}

// server is a running predict, started by this process or by another one.
type server struct {
	cmd         *exec.Cmd
	addr, infer string
	mu          sync.Mutex
	codes       map[string]int // answers to the load
}

func newServer(addr string) *server {
	name := (*model)[strings.LastIndexByte(*model, '/')+1:]
	return &server{addr: addr, infer: "/v2/models/" + strings.TrimSuffix(name, ".ssm") + "/infer", codes: map[string]int{}}
}

// make runs the load for some time, and prints the counts of the responses.
func (l *load) make(s *server) {
	stop := make(chan struct{})
	time.AfterFunc(time.Duration(*seconds*float64(time.Second)), func() { close(stop) })
	var all sync.WaitGroup
	for range l.clients {
		all.Go(func() { l.run(s, stop) })
	}
	<-stop
	s.mu.Lock()
	defer s.mu.Unlock()
	var codes []string
	for code, n := range s.codes {
		codes = append(codes, fmt.Sprintf("%s: %d", code, n))
	}
	slices.Sort(codes)
	fmt.Print(strings.Join(codes, ", "))
	os.Exit(0)
}

func start(program string) *server {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	cmd := exec.Command(program, "predict", "--model", *model, "--listen", addr, "-q")
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		log.Fatal(err)
	}
	s := newServer(addr)
	s.cmd = cmd
	for range 200 {
		if resp, err := http.Get("http://" + addr + "/readyz"); err == nil {
			resp.Body.Close()
			if resp.StatusCode == 200 {
				return s
			}
		}
		time.Sleep(50 * time.Millisecond)
	}
	log.Fatal("predict does not start")
	return nil
}

// memory returns a memory size of the process in MB, by its name in /proc/PID/status.
func (s *server) memory(name string) float64 {
	data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, name+":"); ok {
			kb, _ := strconv.ParseFloat(strings.Fields(rest)[0], 64)
			return kb * 1024 / 1e6
		}
	}
	return 0
}

// got counts a response to the load.
func (s *server) got(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.codes[what]++
}

// dial connects to the server, and closes the connection when the load ends.
func (s *server) dial(stop <-chan struct{}) (c net.Conn, done func()) {
	c, err := net.Dial("tcp", s.addr)
	if err != nil {
		s.got("not connected")
		select {
		case <-stop:
		case <-time.After(time.Second):
		}
		return nil, nil
	}
	ended := make(chan struct{})
	go func() {
		select {
		case <-stop:
		case <-ended:
		}
		c.Close()
	}()
	return c, func() { close(ended) }
}

// trickle sends a request again and again. The first bytes, first of them, are sent at
// once and the rest at 5 bytes per second. If first is negative, all are sent at once,
// and the response is not read.
func (s *server) trickle(body []byte, first int, stop <-chan struct{}) {
	head := fmt.Sprintf("POST /predict HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n", len(body))
	for !over(stop) {
		c, done := s.dial(stop)
		if c == nil {
			continue
		}
		if first < 0 {
			_ = c.(*net.TCPConn).SetReadBuffer(4096)
		}
		_, err := io.WriteString(c, head)
		if err == nil && first < 0 {
			if _, err = c.Write(body); err == nil {
				<-stop
			}
		} else if err == nil {
			answered := make(chan struct{})
			go func() {
				defer close(answered)
				b := make([]byte, 4096)
				if n, _ := io.ReadAtLeast(c, b, 12); n >= 12 {
					s.got(string(b[9:12]))
				} else if !over(stop) {
					s.got("closed")
				}
			}()
			_, err = c.Write(body[:first])
			for i := first; err == nil && i < len(body); i += 5 {
				select {
				case <-stop:
				case <-answered:
					err = io.EOF
				case <-time.After(time.Second):
					_, err = c.Write(body[i:min(i+5, len(body))])
				}
				if over(stop) {
					break
				}
			}
			done()
			<-answered
			continue
		}
		done()
	}
}

func over(stop <-chan struct{}) bool {
	select {
	case <-stop:
		return true
	default:
		return false
	}
}

// ask sends requests one after the other, and reads the responses.
func (s *server) ask(path string, body []byte, stop <-chan struct{}) {
	client := &http.Client{Transport: &http.Transport{}, Timeout: 2 * time.Minute}
	defer client.CloseIdleConnections()
	go func() { <-stop; client.CloseIdleConnections() }()
	for !over(stop) {
		resp, err := client.Post("http://"+s.addr+path, "application/json", bytes.NewReader(body))
		if err != nil {
			s.got("closed")
			time.Sleep(100 * time.Millisecond)
			continue
		}
		_, err = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		code := strconv.Itoa(resp.StatusCode)
		if err != nil {
			code = "cut off"
		}
		s.got(code)
		if resp.StatusCode == 503 {
			select {
			case <-stop:
			case <-time.After(time.Second): // as Retry-After says
			}
		}
	}
}

// probe sends a request every 200 ms, each time over a new connection.
type probe struct {
	name   string
	took   []time.Duration
	failed int
}

func (p *probe) run(ask func(*http.Client) (*http.Response, error), stop <-chan struct{}) {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}
	for !over(stop) {
		begin := time.Now()
		resp, err := ask(client)
		if err == nil {
			var text []byte
			text, err = io.ReadAll(resp.Body)
			resp.Body.Close()
			if err == nil && resp.StatusCode != 200 {
				err = fmt.Errorf("%s: %s", resp.Status, text)
			}
		}
		p.took = append(p.took, time.Since(begin))
		if err != nil {
			log.Printf("%s: %v, after %v", p.name, err, time.Since(begin))
			p.failed++
		}
		select {
		case <-stop:
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func (p *probe) String() string {
	if len(p.took) == 0 {
		return "none"
	}
	slices.Sort(p.took)
	s := fmt.Sprintf("%d, %.0f/%.0f ms", len(p.took), ms(p.took[len(p.took)/2]), ms(p.took[len(p.took)-1]))
	if p.failed > 0 {
		s += fmt.Sprintf(", **%d failed**", p.failed)
	}
	return s
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func main() {
	log.SetFlags(0)
	flag.Parse()
	if flag.NArg() == 0 && *address == "" || *model == "" {
		flag.Usage()
		os.Exit(2)
	}
	if *address != "" {
		for _, l := range loads() {
			if l.name == *only {
				l.make(newServer(*address))
			}
		}
		return
	}
	fmt.Println("| load | program | memory at the start, MB | more at most, MB | /healthz: number, median/slowest | /metrics | /predict, 1 row | answers to the load |")
	fmt.Println("| --- | --- | --- | --- | --- | --- | --- | --- |")
	for _, l := range loads() {
		if !strings.Contains(l.name, *only) {
			continue
		}
		for _, program := range flag.Args() {
			measure(&l, program)
		}
	}
}

func measure(l *load, program string) {
	s := start(program)
	base := s.memory("VmRSS")
	own, err := os.Executable()
	if err != nil {
		log.Fatal(err)
	}
	answers := make(chan string, 1)
	go func() {
		cmd := exec.Command(own, "-model", *model, "-only", l.name, "-seconds", fmt.Sprint(*seconds), "-address", s.addr)
		cmd.Stderr = os.Stderr
		text, err := cmd.Output()
		if err != nil {
			log.Print(err)
		}
		answers <- string(text)
	}()
	stop := make(chan struct{})
	var all sync.WaitGroup
	probes := []probe{{name: "/healthz"}, {name: "/metrics"}, {name: "/predict"}}
	for i := range probes {
		p := &probes[i]
		all.Go(func() {
			p.run(func(c *http.Client) (*http.Response, error) {
				if p.name == "/predict" {
					return c.Post("http://"+s.addr+p.name, "application/json", strings.NewReader(event))
				}
				return c.Get("http://" + s.addr + p.name)
			}, stop)
		})
	}
	died := make(chan struct{})
	go func() { _ = s.cmd.Wait(); close(died) }()
	var most float64
	for end := time.Now().Add(time.Duration(*seconds * float64(time.Second))); time.Now().Before(end) && !over(died); {
		most = max(most, s.memory("VmHWM"))
		time.Sleep(100 * time.Millisecond)
	}
	close(stop)
	all.Wait()
	loaded := <-answers
	_ = s.cmd.Process.Kill()
	name := program[strings.LastIndexByte(program, '/')+1:]
	fmt.Printf("| %s | %s | %.0f | %.0f | %v | %v | %v | %s |\n", l.name, name, base, most-base, &probes[0], &probes[1], &probes[2], loaded)
}
