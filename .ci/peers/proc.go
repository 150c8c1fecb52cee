package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"time"

	"example.com/mcp/peers/tools"
)

// A proc is a running server and its client. To use little CPU, the client has one goroutine,
// prepares its requests in advance, and searches responses for the id and does not parse them.
// Its methods panic on any failure, and the measurement is discarded.
type proc struct {
	cmd    *exec.Cmd
	in     *os.File
	out    *os.File
	lines  *bufio.Reader // of out
	asleep chan struct{} // closed when all handlers are asleep
	stderr []byte        // the beginning of stderr
	alarm  *time.Timer   // kills a server that does not respond
	ended  bool
}

// patience is the time limit for a response and for the exit.
const patience = time.Minute

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// must panics if there is an error, after the server has ended.
func (p *proc) must(err error) {
	if err != nil {
		p.end()
		panic(err)
	}
}

// answers has room for the longest response. All servers share it, because only one runs at
// a time.
var answers = bufio.NewReaderSize(nil, 24<<20)

func start(s *server, env ...string) *proc {
	s.proc = run(s.bin, s.args, env)
	return s.proc
}

// run starts a program.
func run(bin string, args, env []string) *proc {
	stdin, in, err := os.Pipe()
	must(err)
	out, stdout, err := os.Pipe()
	must(err)
	// Fd makes the files blocking, so that the time of Go's poller is not measured.
	in.Fd()
	out.Fd()
	answers.Reset(out)
	p := &proc{cmd: exec.Command(bin, args...), in: in, out: out, lines: answers, asleep: make(chan struct{})}
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = stdin, stdout, p
	p.cmd.Env = append(os.Environ(), env...)
	must(p.cmd.Start())
	stdin.Close()
	stdout.Close()
	p.alarm = time.AfterFunc(patience, func() { p.cmd.Process.Kill() })
	return p
}

// ready starts a server and opens a session of revision 2025-11-25.
func ready(s *server, env ...string) *proc {
	p := start(s, env...)
	p.play(newScript(1, false, "initialize",
		same(`"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"peers","version":"1"}`),
		same(`"protocolVersion":"2025-11-25"`)), 0, 1, 1)
	_, err := p.in.WriteString(`{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n")
	must(err)
	return p
}

// end closes the server's stdin, reads the rest of its output, and waits until it has
// exited.
func (p *proc) end() {
	if p.ended {
		return
	}
	p.ended = true
	answered := p.alarm.Stop()
	p.alarm.Reset(patience)
	p.in.Close()
	io.Copy(io.Discard, p.out)
	p.out.Close()
	err := p.cmd.Wait()
	switch ended := p.alarm.Stop(); {
	case !answered:
		err = fmt.Errorf("no response within %v", patience)
	case !ended:
		err = fmt.Errorf("no exit within %v after EOF", patience)
	}
	if err != nil {
		panic(fmt.Sprintf("%v %s", err, bytes.TrimSpace(p.stderr)))
	}
}

// total returns the CPU time of a server that has ended.
func (p *proc) total() time.Duration {
	return p.cmd.ProcessState.UserTime() + p.cmd.ProcessState.SystemTime()
}

// cost returns the CPU time that the server uses while f runs, in nanoseconds.
func (p *proc) cost(f func()) float64 {
	before := p.spent()
	f()
	return float64(p.spent() - before)
}

// Write receives the stderr of the server.
func (p *proc) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte("asleep\n")) {
		close(p.asleep)
	}
	p.stderr = append(p.stderr, b[:min(len(b), 200-len(p.stderr))]...)
	return len(b), nil
}

// sleep starts tools.Many handlers that sleep, and waits until all of them do.
func (p *proc) sleep() {
	naps := newScript(tools.Many, false, "tools/call", same(`"name":"sleep","arguments":{"ms":0}`), nil)
	_, err := p.in.Write(naps.lines)
	p.must(err)
	select {
	case <-p.asleep:
	case <-time.After(patience):
		panic("the handlers did not start")
	}
}

// A text appends to b the text for the request with this id.
type text func(b []byte, id int) []byte

func same(s string) text { return func(b []byte, _ int) []byte { return append(b, s...) } }

func greeting(b []byte, id int) []byte {
	return strconv.AppendInt(append(b, "Good morning, "...), int64(id), 10)
}

// A script is a list of requests, one on each line, numbered from 1.
type script struct {
	lines []byte
	begin []int // the start of each line, and the end of the last
	sent  []time.Time
	took  []time.Duration // the times of the responses, in the order of their arrival
	want  text            // the text that they must contain
	buf   []byte
}

// claims are the members that a client of revision 2026-07-28 sends with every request.
const claims = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
	`"io.modelcontextprotocol/clientInfo":{"name":"peers","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}},`

func newScript(n int, modern bool, method string, params, want text) *script {
	s := &script{begin: []int{0}, want: want, sent: make([]time.Time, n), took: make([]time.Duration, 0, n)}
	for id := 1; id <= n; id++ {
		s.lines = fmt.Appendf(s.lines, `{"jsonrpc":"2.0","id":%d,"method":%q,"params":{`, id, method)
		if modern {
			s.lines = append(s.lines, claims...)
		}
		s.lines = append(params(s.lines, id), "}}\n"...)
		s.begin = append(s.begin, len(s.lines))
	}
	return s
}

func echoes(n int, modern bool, t text) *script {
	return newScript(n, modern, "tools/call",
		func(b []byte, id int) []byte {
			return append(t(append(b, `"name":"echo","arguments":{"text":"`...), id), `"}`...)
		},
		func(b []byte, id int) []byte { return append(t(append(b, `"text":"`...), id), '"') })
}

func sums(n int, modern bool) *script {
	return newScript(n, modern, "tools/call",
		func(b []byte, id int) []byte { return fmt.Appendf(b, `"name":"add","arguments":{"a":%d,"b":1}`, id) },
		func(b []byte, id int) []byte {
			return append(strconv.AppendInt(append(b, `"structuredContent":{"sum":`...), int64(id)+1, 10), '}')
		})
}

// play sends the requests with the ids from+1 to to, and checks the responses. It keeps up to
// window requests in flight. After each batch of responses it sends the next requests in one
// write.
func (p *proc) play(s *script, from, to, window int) {
	p.alarm.Reset(patience)
	s.took = s.took[:0]
	for sent := from; len(s.took) < to-from; {
		next := min(from+len(s.took)+window, to)
		now := time.Now()
		_, err := p.in.Write(s.lines[s.begin[sent]:s.begin[next]])
		p.must(err)
		for ; sent < next; sent++ {
			s.sent[sent] = now
		}
		for first := true; first || p.lines.Buffered() > 0; first = false {
			line, err := p.lines.ReadSlice('\n')
			p.must(err)
			s.check(line)
		}
	}
}

// check finds the request of a response, and checks the contents of the response.
func (s *script) check(line []byte) {
	_, rest, _ := bytes.Cut(line, []byte(`"id":`))
	id := 0
	for len(rest) > 0 && '0' <= rest[0] && rest[0] <= '9' {
		id, rest = 10*id+int(rest[0]-'0'), rest[1:]
	}
	if id == 0 && bytes.Contains(line, []byte(`"method":"notifications/`)) {
		return
	}
	if id == 0 || id > len(s.sent) || s.sent[id-1].IsZero() {
		panic(fmt.Sprintf("a response without a request: %.200s", line))
	}
	s.took = append(s.took, time.Since(s.sent[id-1]))
	s.sent[id-1] = time.Time{}
	s.buf = s.want(s.buf[:0], id)
	if !bytes.Contains(line, s.buf) || bytes.Contains(line, []byte(`"error"`)) || bytes.Contains(line, []byte(`"isError":true`)) {
		panic(fmt.Sprintf("a wrong response: %.200s", line))
	}
}
