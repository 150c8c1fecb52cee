package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	patience = 60 * time.Second // time limit for events that should happen at once
	grace    = 10 * time.Second // time limit for the server's exit after WaitDelay
	stuck    = 3                // the exit status of a server whose handlers outlived WaitDelay
)

// A session is one client and its server.
type session struct {
	seed   uint64
	number int64
	source *rand.PCG
	*rand.Rand
	steps  uint64
	pieces *rand.Rand // for decisions on how lines are written
	args   []string
	procs  string // GOMAXPROCS of the server
	ending string
	calm   bool // the client waits for all requests before it ends the session
	drain  time.Duration
	limit  int    // Server.MaxMessageBytes
	legacy string // the revision of initialize, or ""
	cmd    *exec.Cmd
	in     *os.File // the server's stdin
	out    *os.File // the server's stdout
	stderr output
	exited chan struct{}
	unsent []byte // lines that are not written yet
	nextID int

	mu      sync.Mutex
	changed chan struct{} // closed when the fields below have changed
	deaf    chan struct{} // if not nil, the client does not read until it is closed
	checks
}

// An output is a buffer that may be written and read concurrently.
type output struct {
	mu sync.Mutex
	b  []byte
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.b = append(o.b, b...)
	return len(b), nil
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return string(o.b)
}

var endings = []string{
	"half-close", "half-close", "half-close", "half-close", // the ending with the strictest checks
	"close", "stdout", "SIGTERM", "SIGTERM", "SIGINT", "SIGKILL", "unread", "stuck",
}

func newSession(server string, seed uint64, number int64) *session {
	s := &session{
		seed: seed, number: number, source: rand.NewPCG(seed, uint64(number)),
		changed: make(chan struct{}), exited: make(chan struct{}),
	}
	s.Rand = rand.New(s.source)
	s.react = rand.New(rand.NewPCG(seed+1, uint64(number)))
	s.pieces = rand.New(rand.NewPCG(seed+2, uint64(number)))
	s.calls, s.tokens = make(map[string]*call), make(map[string]*call)
	s.questions = make(map[string]*question)
	s.ending, s.calm = pick(s, endings), s.one(3)
	s.drain = 20 * time.Second
	if s.ending == "unread" || s.ending == "stuck" {
		s.drain = 300 * time.Millisecond
	}
	s.procs = pick(s, []string{"1", "2", "2", "4"})
	s.legacy = pick(s, []string{"", "2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2025-11-25"})
	s.limit = pick(s, []int{0, 0, 4096})
	s.args = []string{server, "-drain", s.drain.String(), "-message", strconv.Itoa(s.limit),
		"-linger", pick(s, []string{"0", "0", "0", "5ms", "2s"}), "-concurrent", pick(s, []string{"0", "0", "0", "1", "4"})}
	return s
}

func pick[T any](s *session, from []T) T { return from[s.IntN(len(from))] }

// one returns true once in n times.
func (s *session) one(n int) bool { return s.IntN(n) == 0 }

// step seeds the generator for the next decision. The number of random values that a
// decision uses may depend on the lines of the server, and must not affect later decisions.
func (s *session) step() {
	s.steps++
	s.source.Seed(s.seed, uint64(s.number)<<32+s.steps)
}

func (s *session) play() {
	if err := s.start(); err != nil {
		s.fault("start: %v", err)
		return
	}
	read := make(chan struct{})
	go func() {
		s.listen()
		close(read)
	}()
	if s.legacy != "" {
		s.initialize()
	}
	base := ""
	if s.one(2) {
		base = s.warmUp()
	}
	s.step()
	for range 1 + s.IntN(5) {
		s.mu.Lock()
		faulty := len(s.faults) > 0
		s.mu.Unlock()
		if faulty {
			break
		}
		s.step()
		switch s.IntN(4) {
		case 0:
			s.load(1 + s.IntN(100))
		case 1:
			s.load(1 + s.IntN(10))
		default:
			for range 1 + s.IntN(8) {
				s.lone()
			}
		}
		s.step()
		if base != "" && s.one(2) && s.settle() {
			s.compare(base)
		}
	}
	if s.calm && s.settle() && base != "" {
		s.compare(base)
	}
	s.end(read)
	s.out.Close()
	s.in.Close()
	<-read
}

// start starts the server, in a process group of its own.
func (s *session) start() error {
	stdin, in, err := os.Pipe()
	if err != nil {
		return err
	}
	out, stdout, err := os.Pipe()
	if err != nil {
		return err
	}
	s.in, s.out = in, out
	s.cmd = exec.Command(s.args[0], s.args[1:]...)
	s.cmd.Env = append(os.Environ(), "GOMAXPROCS="+s.procs, "GORACE=halt_on_error=0")
	s.cmd.Stdin, s.cmd.Stdout, s.cmd.Stderr = stdin, stdout, &s.stderr
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	err = s.cmd.Start()
	stdin.Close()
	stdout.Close()
	if err != nil {
		in.Close()
		out.Close()
		return err
	}
	go func() {
		s.cmd.Wait()
		close(s.exited)
	}()
	return nil
}

// listen reads the lines of the server, sometimes slowly.
func (s *session) listen() {
	rng := rand.New(rand.NewPCG(s.seed+3, uint64(s.number)))
	lines := bufio.NewReaderSize(s.out, 1<<(4+rng.IntN(13)))
	lazy := rng.IntN(4) == 0
	for {
		line, err := lines.ReadBytes('\n')
		s.mu.Lock()
		if err == nil {
			s.take(bytes.TrimSuffix(line, []byte("\n")))
		} else {
			s.finished, s.rest = true, string(line)
		}
		close(s.changed)
		s.changed = make(chan struct{})
		deaf := s.deaf
		s.mu.Unlock()
		if err != nil {
			return
		}
		if deaf != nil {
			<-deaf
		}
		if lazy && rng.IntN(50) == 0 {
			time.Sleep(time.Duration(rng.IntN(20)) * time.Millisecond)
		}
	}
}

// until waits for ok, which is called under mu, and meanwhile sends the responses of the
// client that are due.
func (s *session) until(what string, ok func() bool) bool {
	limit := time.NewTimer(patience)
	defer limit.Stop()
	for {
		s.mu.Lock()
		done, changed, finished, faulty := ok(), s.changed, s.finished, len(s.faults) > 0
		s.mu.Unlock()
		if done || faulty {
			return done
		}
		if s.reply(1<<30) > 0 {
			s.flush()
			continue
		}
		s.flush()
		if !finished {
			select {
			case <-changed:
				continue
			case <-limit.C:
			}
		}
		s.fault("%s did not happen in time", what)
		return false
	}
}

// ---- sending ----

// queue adds a line to the output and returns its position. If c is not nil, it registers
// c as the call that the line makes.
func (s *session) queue(line string, c *call) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent++
	if c != nil {
		s.register(c)
	}
	s.record("> ", line)
	s.unsent = append(append(s.unsent, line...), '\n')
	return s.sent
}

// flush writes the queued lines in one piece or in several.
func (s *session) flush() {
	for len(s.unsent) > 0 {
		n := len(s.unsent)
		if s.pieces.IntN(5) == 0 {
			n = 1 + s.pieces.IntN(n)
		}
		s.in.SetWriteDeadline(time.Now().Add(patience))
		_, err := s.in.Write(s.unsent[:n])
		if err != nil {
			s.mu.Lock()
			expected := s.over || len(s.faults) > 0
			s.mu.Unlock()
			if s.unsent = nil; !expected {
				s.fault("write: %v", err)
			}
			return
		}
		if s.unsent = s.unsent[n:]; len(s.unsent) > 0 {
			s.pause()
		}
	}
}

// pause does nothing, or sleeps for a random time, often about a millisecond: then the
// server's watch timer passes the turn.
func (s *session) pause() {
	switch s.pieces.IntN(6) {
	case 0:
		time.Sleep(time.Duration(s.pieces.IntN(3000)) * time.Microsecond)
	case 1:
		time.Sleep(time.Duration(700+s.pieces.IntN(600)) * time.Microsecond)
	}
}

const caps = `{"roots":{},"sampling":{},"elicitation":{}}`

func (s *session) initialize() {
	c := s.newCall("initialize", false)
	s.queue(`{"jsonrpc":"2.0","id":`+c.id+`,"method":"initialize","params":{"protocolVersion":"`+s.legacy+`","capabilities":`+caps+`,"clientInfo":{"name":"soak","version":"1"}}}`, c)
	s.queue(`{"jsonrpc":"2.0","method":"notifications/initialized"}`, nil)
	if !s.one(4) {
		s.logging = true
		s.request("logging/setLevel", `"level":"debug"`, false)
	}
	if s.one(2) {
		s.flush()
	}
}

// newCall returns a call with a new id of a random form.
func (s *session) newCall(kind string, modern bool) *call {
	s.nextID++
	n := strconv.Itoa(s.nextID)
	id := pick(s, []string{n, n, "-" + n, `"` + n + `"`, `"\u00e9\"` + n + `"`, "90071992547409930000" + n, n + ".0"})
	text := "t" + n
	return &call{id: id, kind: kind, text: text, token: pick(s, []string{n, `"` + text + `"`}),
		modern: modern, logs: modern || s.logging}
}

// request sends a request. Params are members without braces.
func (s *session) request(method, params string, modern bool) *call {
	c := s.newCall(method, modern)
	s.queue(c.line(method, params), c)
	return c
}

// An arguments is the input type of the server.
type arguments struct {
	Text    string `json:"text,omitempty"`
	What    string `json:"what,omitempty"`
	Micros  int    `json:"micros,omitempty"`
	N       int    `json:"n,omitempty"`
	Deaf    bool   `json:"deaf,omitempty"`
	Spin    bool   `json:"spin,omitempty"`
	Timeout int    `json:"timeout,omitempty"`
}

func (s *session) tool(name string, a arguments) *call {
	c := s.newCall(name, s.legacy == "" || s.one(2))
	a.Text = c.text
	if c.args = a; name == "echo" && s.one(8) {
		c.args.Text += strings.Repeat("é", s.IntN(1500))
	}
	s.queue(c.line("tools/call", c.params()), c)
	return c
}

// wait returns arguments for a call that takes some time.
func (s *session) wait() (a arguments) {
	switch s.IntN(8) {
	case 0, 1:
	case 2, 3, 4:
		a.Micros = 500 + s.IntN(1000)
	case 5, 6:
		a.Micros = s.IntN(5000)
	default:
		a.Micros = s.IntN(20000)
	}
	a.Deaf = s.one(3)
	a.Spin = s.one(6) && a.Micros < 3000
	return a
}

// any sends a random call of a tool.
func (s *session) any() *call {
	a := s.wait()
	switch s.IntN(16) {
	default:
		return s.tool("echo", a)
	case 0:
		return s.tool("panic", a)
	case 1:
		return s.tool("goexit", a)
	case 2:
		return s.tool("fail", a)
	case 3:
		a.N = 1 + s.IntN(20)
		return s.tool("burst", a)
	case 4:
		return s.tool("stray", a)
	case 5:
		a.N = s.IntN(20000)
		if s.one(20) {
			a.N = s.IntN(5 << 20)
		}
		return s.tool("big", a)
	case 6:
		return s.tool("print", a)
	case 7:
		if s.one(5) {
			return s.tool("child", a)
		}
		return s.tool("echo", arguments{Micros: 3600e6}) // runs until it is cancelled
	case 8, 9:
		a.What = pick(s, []string{"tools", "resources", "prompts", "updates"})
		return s.tool("change", a)
	case 10, 11:
		a.What = pick(s, []string{"roots", "sample", "elicit"})
		if a.N = 1 + s.IntN(3); s.one(3) {
			a.Timeout = 1 + s.IntN(3000)
		}
		return s.tool("ask", a)
	}
}

// act does one random action.
func (s *session) act() {
	modern := s.legacy == "" || s.one(2)
	switch s.IntN(20) {
	default:
		s.any()
	case 0:
		s.ping()
	case 1, 2, 3:
		if c := s.some(func(c *call) bool { return c.kind != "initialize" }); c != nil {
			s.cancel(c)
		}
	case 4:
		s.queue(cancelling(pick(s, []string{"0", `"unknown"`, "[]", "null"})), nil)
	case 5: // uses an id again
		if c := s.some(func(c *call) bool { return c.kind == "echo" && !c.batch && c.args.Micros < 1e6 }); c != nil {
			s.again(c)
		}
	case 6:
		s.garbage()
	case 7:
		m := strconv.Itoa(s.wait().Micros)
		s.request(pick(s, []string{"tools/list", "resources/list", "prompts/list"}), "", modern)
		s.request("resources/read", `"uri":"soak://`+m+`"`, modern)
		s.request("prompts/get", `"name":"wait","arguments":{"micros":"`+m+`"}`, modern)
		s.request("completion/complete", `"ref":{"type":"ref/prompt","name":"wait"},"argument":{"name":"micros","value":"`+m+`"}`, modern)
	case 8:
		if c := s.some(func(c *call) bool { return c.kind == "subscriptions/listen" }); c != nil && s.one(2) {
			s.cancel(c)
		} else if s.listens() < 10 {
			s.request("subscriptions/listen", `"notifications":{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true,"resourceSubscriptions":["soak://0"]}`, true)
		}
	case 9:
		if s.legacy != "" {
			s.request(pick(s, []string{"resources/subscribe", "resources/unsubscribe"}), `"uri":"soak://0"`, false)
		}
	case 10:
		if s.legacy == "2025-03-26" {
			s.batch()
		}
	}
}

func (s *session) ping() *call {
	c := s.newCall("ping", false)
	s.queue(`{"jsonrpc":"2.0","id":`+c.id+`,"method":"ping"}`, c)
	return c
}

func cancelling(id string) string {
	return `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `,"reason":"soaked"}}`
}

// cancel cancels c, which may already have a response.
func (s *session) cancel(c *call) {
	at := s.queue(cancelling(c.id), nil)
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.answers < c.sends {
		c.cancelled = at
	}
}

// again uses an id a second time.
func (s *session) again(c *call) {
	s.mu.Lock()
	c.sends++ // from now on the client cannot know which of the requests was refused
	s.mu.Unlock()
	again := &call{id: c.id, kind: c.kind, args: c.args, token: `"again"`, modern: c.modern}
	s.queue(again.line("tools/call", again.params()), nil)
}

// garbage sends an invalid message. The server refuses it with a null id or its own id, or
// ignores it.
func (s *session) garbage() {
	if s.limit > 0 && s.one(6) { // its id is not read
		s.mu.Lock()
		s.nullsDue++
		s.mu.Unlock()
		s.queue(`{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"`+strings.Repeat("x", s.limit+s.IntN(100_000))+`"}}`, nil)
		return
	}
	if s.one(3) {
		c := s.newCall("refused", false)
		s.queue(`{"id":`+c.id+`,"method":"ping"}`, c)
		return
	}
	null := []string{`{"jsonrpc":"2.0","id":1,`, "\xff\xfe", "7", "[]", "{}", `{"jsonrpc":"2.0","id":null,"method":"ping"}`,
		`{"jsonrpc":"2.0","id":1.5,"method":"ping"}`}
	silent := []string{"", " \t\r", `{"jsonrpc":"2.0","method":"no/such"}`, `{"jsonrpc":"2.0","id":"x","result":{}}`,
		`{"jsonrpc":"2.0","id":999999,"error":{"code":1,"message":"x"}}`, `{"jsonrpc":"2.0","method":"notifications/cancelled"}`}
	if s.one(2) {
		s.queue(pick(s, silent), nil)
		return
	}
	s.mu.Lock()
	s.nullsDue++
	s.mu.Unlock()
	s.queue(pick(s, null), nil)
}

// batch sends several calls in one line.
func (s *session) batch() {
	var lines []string
	for range 1 + s.IntN(5) {
		c := s.newCall("echo", false)
		c.batch, c.args = true, s.wait()
		c.args.Text = c.text
		lines = append(lines, c.line("tools/call", c.params()))
		s.mu.Lock()
		s.sent++ // each call has its own position, although they share a line
		s.register(c)
		s.mu.Unlock()
	}
	s.queue("["+strings.Join(lines, ",")+"]", nil)
}

// some returns a random call for which fit returns true, and prefers open ones. It returns
// nil if there are none.
func (s *session) some(fit func(*call) bool) *call {
	s.mu.Lock()
	defer s.mu.Unlock()
	var open, all []*call
	for _, c := range s.order {
		if fit(c) {
			all = append(all, c)
			if c.open() {
				open = append(open, c)
			}
		}
	}
	switch {
	case len(open) > 0 && !s.one(4):
		return pick(s, open)
	case len(all) > 0:
		return pick(s, all)
	}
	return nil
}

func (s *session) listens() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.order {
		if c.kind == "subscriptions/listen" && c.open() {
			n++
		}
	}
	return n
}

// reply queues the client's responses that are due after acts more actions, and returns
// their number.
func (s *session) reply(acts int) int {
	s.mu.Lock()
	var due, rest []answer
	for _, a := range s.answers {
		if a.after -= acts; a.after <= 0 && !s.over {
			due = append(due, a)
			if a.of != nil && a.of.answered == 0 {
				a.of.answered = s.sent + len(due)
			}
		} else {
			rest = append(rest, a)
		}
	}
	s.answers = rest
	s.mu.Unlock()
	for _, a := range due {
		s.queue(a.line, a.call)
	}
	return len(due)
}

// ---- scenes ----

// load does n random actions.
func (s *session) load(n int) {
	for range n {
		s.step()
		s.act()
		s.reply(1)
		if s.one(2) {
			s.flush()
			s.pause()
		}
	}
}

// lone sends one call while no other is open, and sometimes more lines when it is about to
// end.
func (s *session) lone() {
	if !s.quiet() {
		return
	}
	s.step()
	c := s.any()
	if s.one(3) { // the call and its cancel are in one write
		s.cancel(c)
	}
	s.flush()
	for s.one(2) {
		s.pause()
		switch s.IntN(3) {
		case 0:
			s.cancel(c)
		case 1:
			s.ping()
		case 2:
			s.any()
		}
		if s.one(2) {
			s.flush()
		}
	}
}

// quiet waits until all requests except subscriptions have ended, and reports whether they
// have.
func (s *session) quiet() bool {
	s.mu.Lock()
	var open []*call
	for _, c := range s.order {
		endless := c.args.Micros > 1e6 || c.kind == "ask" && s.one(2)
		if c.open() && endless {
			open = append(open, c)
		}
	}
	s.answerAll() // also the questions that plan ignored
	s.mu.Unlock()
	for _, c := range open {
		s.cancel(c)
	}
	last := s.ping()
	return s.until("quiet", func() bool {
		for _, c := range s.order {
			if c.open() && c.kind != "subscriptions/listen" {
				s.answerAll()
				return false
			}
		}
		return s.answerAll() == 0 && last.answers > 0
	})
}

// settle cancels all subscriptions and then calls quiet.
func (s *session) settle() bool {
	for {
		s.mu.Lock()
		var stream *call
		for _, c := range s.order {
			if c.open() && c.kind == "subscriptions/listen" {
				stream = c
			}
		}
		s.mu.Unlock()
		if stream == nil {
			return s.quiet()
		}
		s.cancel(stream)
	}
}

// warmUp makes the server start the goroutines and open the files that it may keep, and
// returns its stats.
func (s *session) warmUp() string {
	for range 3 {
		s.tool("echo", arguments{Micros: 3000})
	}
	s.tool("child", arguments{})
	s.stats()
	if !s.settle() {
		return ""
	}
	return s.stats()
}

func (s *session) stats() string {
	c := s.tool("stats", arguments{})
	if !s.until("stats", func() bool { return c.answers > 0 }) {
		return ""
	}
	return c.said
}

// compare reports goroutines and files that the server has leaked since the stats in base.
// It tries again for a while, because some may be about to end.
func (s *session) compare(base string) {
	var goroutines, files, g, f int
	fmt.Sscan(base, &goroutines, &files)
	var now string
	for end := time.Now().Add(grace); ; time.Sleep(time.Millisecond) {
		if now = s.stats(); now == "" {
			return
		}
		fmt.Sscan(now, &g, &f)
		if g <= goroutines+2 && f <= files {
			return
		}
		if time.Now().After(end) {
			break
		}
	}
	s.fault("goroutines and files: %s, and at the beginning %s", now, base)
	s.cmd.Process.Signal(syscall.SIGQUIT)
}

// ---- endings ----

// end ends the session and checks how the server ends.
func (s *session) end(read <-chan struct{}) {
	s.step()
	torn := s.one(3)
	signal := map[string]os.Signal{"SIGTERM": syscall.SIGTERM, "SIGINT": os.Interrupt, "SIGKILL": os.Kill}[s.ending]
	var hangs *call
	switch s.ending {
	case "SIGTERM", "SIGINT": // after a response, the server catches signals
		ping := s.ping()
		s.until("ping", func() bool { return s.readUpTo > 0 || ping.answers > 0 })
	case "unread":
		s.mu.Lock()
		s.deaf = make(chan struct{})
		defer close(s.deaf)
		s.mu.Unlock()
		s.tool("big", arguments{N: 1 << 20})
	case "stuck":
		if s.one(2) {
			s.quiet()
		}
		hangs = s.tool("echo", arguments{Micros: 3600e6, Deaf: true})
		if signal == nil && s.one(2) { // a signal could overtake the call
			signal = syscall.SIGTERM
			ping := s.ping()
			s.until("ping", func() bool { return ping.answers > 0 })
		}
	}
	s.mu.Lock()
	s.over = true
	s.mu.Unlock()
	if s.ending == "half-close" && torn { // the last line has no newline
		if s.one(2) {
			s.ping()
			s.unsent = s.unsent[:len(s.unsent)-1]
		} else {
			s.nullsDue++
			s.queue(`{"jsonrpc":"2.0","id":1,"me`, nil)
			s.unsent = s.unsent[:len(s.unsent)-1]
		}
	}
	s.flush()
	s.pause()
	readUpTo := 0
	switch s.ending {
	case "half-close":
		s.in.Close()
	case "close":
		s.in.Close()
		s.out.Close()
	case "stdout":
		s.out.Close()
		for alive := true; alive; { // the server sees the closed pipe when it writes
			s.ping()
			s.flush()
			select {
			case <-s.exited:
				alive = false
			case <-time.After(100 * time.Millisecond):
				alive = s.sent < 1000
			}
		}
	case "SIGTERM", "SIGINT", "SIGKILL":
		s.mu.Lock()
		readUpTo = s.readUpTo
		s.mu.Unlock()
		s.cmd.Process.Signal(signal)
	case "unread":
		s.in.Close()
	case "stuck":
		if signal != nil {
			s.cmd.Process.Signal(signal)
		} else {
			s.in.Close()
		}
	}

	select {
	case <-s.exited:
	case <-time.After(s.drain + grace):
		s.fault("the server did not exit")
		s.cmd.Process.Signal(syscall.SIGQUIT)
		select {
		case <-s.exited:
		case <-time.After(grace):
			s.cmd.Process.Kill()
			<-s.exited
		}
	}
	status := s.cmd.ProcessState.ExitCode()
	switch {
	case s.ending == "SIGKILL":
	case s.ending == "stuck" && status == stuck:
	case s.ending == "stuck" && status == 0 && s.concurrent() != "0":
		// The call waited for another one. It gets a response and does not start.
		select {
		case <-read:
		case <-time.After(patience):
		}
		s.mu.Lock()
		if hangs.answers == 0 {
			s.wrong("exit status 0, and the call that hangs has no response")
		}
		s.mu.Unlock()
	case s.ending == "unread" && status == stuck:
	case status != 0 || s.ending == "stuck":
		s.fault("exit status %d", status)
	}
	for end := time.Now().Add(grace); syscall.Kill(-s.cmd.Process.Pid, 0) != syscall.ESRCH; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			s.fault("a child process still runs")
			syscall.Kill(-s.cmd.Process.Pid, syscall.SIGKILL)
			break
		}
	}
	for _, bad := range []string{"panic:", "fatal error", "DATA RACE"} {
		if stderr := s.stderr.String(); strings.Contains(stderr, bad) {
			s.fault("%s on stderr", bad)
		}
	}
	switch s.ending {
	case "half-close", "SIGTERM", "SIGINT":
		select {
		case <-read:
		case <-time.After(patience):
			s.fault("stdout is still open")
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.balance(s.ending != "half-close", readUpTo)
	}
}

// concurrent returns the server's MaxConcurrent; "0" means no limit.
func (s *session) concurrent() string { return s.args[slices.Index(s.args, "-concurrent")+1] }

func (s *session) fault(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wrong(format, args...)
}

// report returns the end of the transcript, the server's stderr and the violations.
func (s *session) report() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b strings.Builder
	fmt.Fprintf(&b, "---- -seed %d -only %d: %s, GOMAXPROCS %s, %v\n", s.seed, s.number, s.ending, s.procs, s.args[1:])
	wire := s.wire[max(0, len(s.wire)-200):]
	stderr := s.stderr.String()
	io.WriteString(&b, strings.Join(wire, "\n"))
	fmt.Fprintf(&b, "\n---- stderr: %s\n", stderr[max(0, len(stderr)-20000):])
	for _, f := range s.faults {
		fmt.Fprintf(&b, "---- VIOLATION: %s\n", f)
	}
	return b.String()
}
