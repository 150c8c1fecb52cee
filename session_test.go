// SPDX-License-Identifier: MIT
// SPDX-FileCopyrightText: 2026 The mcp authors

package mcp

import (
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"log"
	"log/slog"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"reflect"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"
	"unicode/utf8"
)

// This file has the helpers of all tests, and the tests of session.go. Sessions run in
// synctest bubbles, in which time passes only while all goroutines are blocked. Tests
// that need a process start this test binary as a child process.

// ---- clients ----

// A client is the other end of a session in a synctest bubble. If all other goroutines
// are blocked, it has received everything that was sent so far. What it sends and wants
// are lines as full explains.
type client struct {
	t      *testing.T
	in     *io.PipeWriter // the server's r; its w is the client itself
	cancel context.CancelCauseFunc
	done   chan error // what Serve returned
	caps   string     // the capabilities of requests of the modern era, if not {}

	reads  chan struct{} // closed once the client reads
	gone   context.Context
	hangUp context.CancelCauseFunc // makes Writes that the client has not read fail with an error

	mu     sync.Mutex
	got    []string // lines that were received and not yet returned by recv
	writes []string // the Writes of the server that did not fail
	tries  int      // the number of all Writes
	fail   func(b []byte) (int, error)

	state string   // the requestState of the last round; $STATE in a line
	keys  []string // the test's names of the questions of all rounds, each with the server's key
	task  string   // the id of the last task; $TASK in a line
}

// serve starts a session of s with a client that reads everything. If the session is still
// open at the end of the bubble, it must end well; see end.
func serve(t *testing.T, s *Server, trace ...*os.File) *client {
	t.Helper()
	c := serveUnread(t, s, trace...)
	c.listen()
	return c
}

// serveUnread starts a session whose client reads nothing before listen.
func serveUnread(t *testing.T, s *Server, trace ...*os.File) *client {
	t.Helper()
	if s.Name == "" {
		s.Name, s.Version = "demo", "1.0.0"
	}
	if s.ErrorLog == nil {
		s.ErrorLog = log.New(io.Discard, "", 0)
	}
	r, in := io.Pipe()
	ctx, cancel := context.WithCancelCause(context.Background())
	c := &client{t: t, in: in, cancel: cancel, done: make(chan error, 1), reads: make(chan struct{})}
	c.gone, c.hangUp = context.WithCancelCause(context.Background())
	returned := make(chan struct{})
	go func() {
		err := serveTraced(ctx, s, r, c, trace...)
		r.CloseWithError(io.ErrClosedPipe) // as an exiting process would
		c.hangUp(io.ErrClosedPipe)
		cancel(nil)
		c.done <- err
		close(returned)
	}()
	t.Cleanup(func() {
		synctest.Wait()
		select {
		case <-returned:
		default:
			c.end()
		}
	})
	return c
}

// listen makes the client read everything from now on.
func (c *client) listen() { close(c.reads) }

// setFail makes f decide, from now on, which of the server's Writes fail.
func (c *client) setFail(f func(b []byte) (int, error)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fail = f
}

// Write is what the server calls.
func (c *client) Write(b []byte) (int, error) {
	c.mu.Lock()
	c.tries++
	fail := c.fail
	c.mu.Unlock()
	select {
	case <-c.reads:
	case <-c.gone.Done():
		return 0, context.Cause(c.gone)
	}
	if fail != nil {
		if n, err := fail(b); n < len(b) {
			return n, err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writes = append(c.writes, string(b))
	c.got = append(c.got, strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")...)
	return len(b), nil
}

// openSessions returns the sessions that are served.
func (s *Server) openSessions() []*session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.sessions))
}

// serveTraced is Serve with traces. If MCP_TEST_WIRE names a folder, each session is
// also traced to a file in it, which .ci/schema checks.
func serveTraced(ctx context.Context, s *Server, r io.Reader, w io.Writer, trace ...*os.File) error {
	if wireFolder != "" {
		file := must(os.CreateTemp(wireFolder, "session"))
		defer file.Close()
		trace = append(trace, file)
	}
	for _, file := range trace {
		r = io.MultiReader(r, strings.NewReader("\n")) // ends a last line
		r, w = io.TeeReader(r, &tracer{file: file, prefix: "in  "}), io.MultiWriter(w, &tracer{file: file, prefix: "out "})
	}
	return s.Serve(ctx, r, w)
}

var wireFolder = os.Getenv("MCP_TEST_WIRE")

// send writes each of its arguments to the server in one Write: a line, or several.
func (c *client) send(lines ...string) {
	c.t.Helper()
	for _, line := range lines {
		text := written(line)
		if c.caps != "" {
			text = strings.ReplaceAll(text, `clientCapabilities":{}`, `clientCapabilities":`+c.caps)
		}
		text = strings.ReplaceAll(text, "$TASK", c.task)
		if c.state != "" {
			text = strings.NewReplacer(append([]string{"$STATE", c.state}, c.keys...)...).Replace(text)
		}
		if _, err := io.WriteString(c.in, text); err != nil {
			c.t.Errorf("send %.200s: %v", line, err)
		}
	}
}

// recv returns the lines that came since the last time, when no more will
// without the passing of time.
func (c *client) recv() []string {
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	got := c.got
	c.got = nil
	return got
}

// ask sends lines and returns what comes then.
func (c *client) ask(lines ...string) []string {
	c.t.Helper()
	c.send(lines...)
	return c.recv()
}

// want checks what came, as JSON values, in order.
func (c *client) want(lines ...string) {
	c.t.Helper()
	got := c.recv()
	for i := range max(len(got), len(lines)) {
		switch {
		case i >= len(lines):
			c.t.Errorf("unexpected: %s", got[i])
		case i >= len(got):
			c.t.Errorf("missing: %s", lines[i])
		default:
			if made := taskMade.FindStringSubmatch(got[i]); made != nil {
				c.task = made[1]
			}
			want := strings.ReplaceAll(lines[i], "$TASK", c.task)
			if id, mark, rest := cutID(want); mark == "?" {
				want = c.questions(id, rest, got[i])
			}
			if !sameJSON(c.t, got[i], want) {
				c.t.Errorf("got  %s\nwant %s", got[i], want)
			}
		}
	}
}

var taskMade = regexp.MustCompile(`"resultType":"task","taskId":"([^"]+)"`)

// wantInAnyOrder is want for lines whose order is not promised.
func (c *client) wantInAnyOrder(lines ...string) {
	c.t.Helper()
	got := c.recv()
	for _, line := range lines {
		if i := slices.IndexFunc(got, func(g string) bool { return sameJSON(c.t, g, line) }); i >= 0 {
			got = slices.Delete(got, i, i+1)
		} else {
			c.t.Errorf("missing: %s", line)
		}
	}
	for _, line := range got {
		c.t.Errorf("unexpected: %s", line)
	}
}

// questions writes out a response that asks, with the server's keys and requestState in
// it. From then on send writes these where the test has its own names for them, as in "$k".
func (c *client) questions(id, questions, got string) string {
	c.t.Helper()
	var m struct {
		Result struct {
			RequestState  string
			InputRequests map[string]json.RawMessage
		}
	}
	var named map[string]json.RawMessage
	if err := json.Unmarshal([]byte(questions), &named); err != nil {
		c.t.Fatal(err)
	}
	if json.Unmarshal([]byte(got), &m); m.Result.RequestState == "" {
		c.t.Fatalf("no questions: %s", got)
	}
	c.state = m.Result.RequestState
	for name, question := range named {
		for key, raw := range m.Result.InputRequests {
			if sameJSON(c.t, string(raw), string(question)) {
				c.keys = append([]string{strconv.Quote(name), strconv.Quote(key)}, c.keys...) // the newest is found first
				questions = strings.Replace(questions, strconv.Quote(name), strconv.Quote(key), 1)
			}
			if len(key) > 33 {
				c.t.Errorf("key %q", key)
			}
		}
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"resultType":"input_required","inputRequests":%s,"requestState":%q,%s}}`, id, questions, c.state, serverMeta)
}

// play plays a transcript: lines after > are sent, and those after < must come before the
// next is sent. A line after ~ is a time that passes, and a line after # a comment.
func (c *client) play(transcript ...string) {
	c.t.Helper()
	var expected []string
	sent := false
	for line := range strings.Lines(strings.Join(transcript, "\n") + "\n>") {
		switch line = strings.TrimLeft(strings.TrimSuffix(line, "\n"), " \t"); {
		case strings.HasPrefix(line, "< "):
			expected = append(expected, line[2:])
		case strings.HasPrefix(line, "~ "):
			if sent || expected != nil {
				c.want(expected...)
			}
			expected, sent = nil, false
			time.Sleep(must(time.ParseDuration(line[2:])))
		case strings.HasPrefix(line, ">"):
			if strings.Contains(strings.Join(expected, ""), "notifications/progress") {
				time.Sleep(progressGap) // a response may follow
			}
			if sent || expected != nil || line == ">" {
				c.want(expected...)
			}
			if expected, sent = nil, true; line != ">" {
				c.send(line[2:])
			}
		case line != "" && line[0] != '#':
			c.t.Fatalf("not a line of a transcript: %s", line)
		}
	}
}

// initialize opens a legacy session of the revision with these capabilities.
func (c *client) initialize(version, capabilities string) {
	c.t.Helper()
	got := c.ask(`"init" initialize ` + version + " " + capabilities)
	if len(got) != 1 || !strings.Contains(got[0], version) {
		c.t.Fatalf("initialize: got %q", got)
	}
	c.send("notifications/initialized")
	synctest.Wait() // a change that comes while it is handled may be announced twice
}

// end closes the client's end, and checks that Serve returns nil and nothing
// is left to be said.
func (c *client) end() {
	c.t.Helper()
	c.in.Close()
	if err := <-c.done; err != nil {
		c.t.Errorf("Serve: %v", err)
	}
	c.want()
}

// sameJSON reports whether two lines hold the same JSON value. A member that comes twice in
// one of them is an error.
func sameJSON(t *testing.T, a, b string) bool {
	t.Helper()
	tokens := func(text []byte) (n int) {
		for d := json.NewDecoder(bytes.NewReader(text)); ; n++ {
			if _, err := d.Token(); err != nil {
				return n
			}
		}
	}
	value := func(text string) (v any) {
		d := json.NewDecoder(strings.NewReader(text))
		d.UseNumber()
		if err := d.Decode(&v); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if again, _ := json.Marshal(v); tokens(again) != tokens([]byte(text)) {
			t.Errorf("a member comes twice in %s", text)
		}
		return v
	}
	return reflect.DeepEqual(value(full(a)), value(full(b)))
}

// ---- lines, written short ----

// full writes out a line that is written short:
//
//	1 tools/list {...}             a request; {} may be left out
//	1 call echo {...}              a request of tools/call with these arguments
//	1 call echo @7 {...}           one with the progress token 7
//	1 initialize 2025-11-25 {...}  the request that opens a session, with the client's capabilities
//	1+ tools/list {...}            a request of the modern era, also with call
//	notifications/x {...}          a notification
//	cancel 1                       notifications/cancelled for the request 1
//	1 {...}                        a result
//	1+ {...}                       one of the modern era; 1* has the caching hints as well
//	1 said text                    a result of one text; failed is the same for an error that the model reads
//	1! -32602 text {...}           an error, and its data if it has any
//	1? {...}                       the questions of a round, for want only; see questions
//
// Any other line, such as JSON, is returned as it is.
func full(line string) string {
	if line == "" || strings.ContainsRune("{[", rune(line[0])) {
		return line
	}
	id, mark, rest := cutID(line)
	word, after, _ := strings.Cut(rest, " ")
	start := `{"jsonrpc":"2.0"`
	if id != "" {
		start += `,"id":` + id
	}
	request := func(method, params string) string {
		switch {
		case mark == "+" && lastIsMeta.MatchString(params):
			params = strings.TrimSuffix(params, "}}") + "," + modernMeta + "}}"
		case mark == "+" && len(params) > len("{}"):
			params = params[:len(params)-1] + "," + modernParams + "}"
		case mark == "+":
			params = "{" + modernParams + "}"
		}
		if params != "" {
			params = `,"params":` + params
		}
		return start + `,"method":` + quote(method) + params + "}"
	}
	result := func(members string) string {
		switch mark {
		case "+":
			members = `"resultType":"complete",` + members + serverMeta
		case "*":
			members = `"resultType":"complete","ttlMs":0,"cacheScope":"private",` + members + serverMeta
		}
		return start + `,"result":{` + strings.TrimSuffix(members, ",") + "}}"
	}
	switch {
	case id == "" && word == "cancel":
		return `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + after + `,"reason":"user pressed stop"}}`
	case id == "" && strings.HasPrefix(word, "notifications/"):
		return request(word, after)
	case id == "" || rest == "":
		return line
	case mark == "!":
		text, data, _ := strings.Cut(after, " {")
		if data != "" {
			data = `,"data":{` + data
		}
		return start + `,"error":{"code":` + word + `,"message":` + quote(text) + data + "}}"
	case word == "said":
		return result(`"content":[{"type":"text","text":` + quote(after) + `}],`)
	case word == "failed":
		return result(`"content":[{"type":"text","text":` + quote(after) + `}],"isError":true,`)
	case word == "call":
		name, params, _ := strings.Cut(after, " ")
		meta := ""
		if strings.HasPrefix(params, "@") {
			meta, params, _ = strings.Cut(params[1:], " ")
			meta = `,"_meta":{"progressToken":` + meta + "}"
		}
		if params != "" {
			params = `,"arguments":` + params
		}
		return request("tools/call", `{"name":`+quote(name)+params+meta+"}")
	case word == "initialize" && after != "" && after[0] != '{':
		version, capabilities, _ := strings.Cut(after, " ")
		return request(word, `{"protocolVersion":`+quote(version)+`,"capabilities":`+cmp.Or(capabilities, "{}")+`,"clientInfo":{"name":"c","version":"1"}}`)
	case rest[0] == '{':
		inner := rest[1 : len(rest)-1]
		if inner != "" {
			inner += ","
		}
		return result(inner)
	}
	return request(word, after)
}

// cutID cuts a line after its id, which may be "", and after the mark of the id.
func cutID(line string) (id, mark, rest string) {
	if m := withID.FindStringSubmatch(line); m != nil {
		return m[1], m[2], line[len(m[0]):]
	}
	return "", "", line
}

var withID, lastIsMeta = regexp.MustCompile(`^(-?[\d.]+|null|"(?:[^"\\]|\\.)*")([+*!?]?) ?`), regexp.MustCompile(`"_meta":\{[^{}]+\}\}$`)

// written is lines as they are sent.
func written(lines ...string) string {
	var b strings.Builder
	for _, line := range lines {
		for part := range strings.SplitSeq(line, "\n") {
			b.WriteString(full(part) + "\n")
		}
	}
	return b.String()
}

// calls returns the lines of calls with the ids from to to.
func calls(from, to int, call string) (lines []string) {
	for id := from; id <= to; id++ {
		lines = append(lines, fmt.Sprint(id, " call ", call))
	}
	return lines
}

// modernParams is what makes a request one of the modern era, as a member of its params;
// serverMeta is the same of its result.
const (
	modernMeta   = `"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}`
	modernParams = `"_meta":{` + modernMeta + `}`
	serverMeta   = `"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"demo","version":"1.0.0"}}`

	pingLine   = `{"jsonrpc":"2.0","id":"p","method":"ping"}`
	pongLine   = `{"jsonrpc":"2.0","id":"p","result":{}}`
	ping       = "\n> " + pingLine + "\n< " + pongLine + "\n"
	listenLine = `"sub"+ subscriptions/listen {"notifications":{"toolsListChanged":true}}`
	legacyPV   = "2025-11-25"
	opening    = `0 initialize 2025-11-25 {"roots":{}}` + "\nnotifications/initialized"
)

// quote is s as JSON, written as the library writes it: without escapes for HTML.
func quote(s string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.Encode(s)
	return strings.TrimSuffix(b.String(), "\n")
}

func progressLine(token, done string) string {
	return `notifications/progress {"progressToken":` + token + `,"progress":` + done + `}`
}

var stopped = &CancelledError{Reason: "user pressed stop"}

// ---- sessions ----

// inBubble runs f with a client, of a legacy session if version is not "", and sees the
// session end well.
func inBubble(t *testing.T, s *Server, version string, f func(c *client)) {
	t.Helper()
	inBubbleWith(t, s, version, "{}", f)
}

// inBubbleWith is inBubble with capabilities, which the client declares in both eras.
func inBubbleWith(t *testing.T, s *Server, version, capabilities string, f func(c *client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		t.Helper()
		c := serve(t, s)
		if c.caps = capabilities; version != "" {
			c.initialize(version, capabilities)
		}
		f(c)
	})
}

// eras are both ways to speak: the version to initialize with, and the mark of
// a request.
var eras = []struct{ name, version, plus string }{{"legacy", "2025-11-25", ""}, {"modern", "", "+"}}

// feed serves what r holds and returns the lines that the server wrote.
func feed(t *testing.T, s *Server, r io.Reader) (lines []string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		if s.Name == "" {
			s.Name, s.Version, s.ErrorLog = "demo", "1.0.0", log.New(io.Discard, "", 0)
		}
		if err := serveTraced(context.Background(), s, r, &out); err != nil {
			t.Error("Serve:", err)
		}
		lines = strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	})
	return lines
}

// ---- whole sessions ----

// The responses to requests of which the session lacks the method, or which have invalid
// params.
func TestInvalidRequests(t *testing.T) {
	s := demo()
	s.AddResource(Resource{URI: "demo://a", Name: "a"}, texts("A"))
	many := &Server{}
	for _, name := range "abcdefghijkl" {
		add(many, string(name), noText)
	}
	const key = `tools/list {"_meta":{"io.modelcontextprotocol/`
	const noFilter = "! -32602 Invalid params: notifications must be an object with lists and resourceSubscriptions"
	for _, tt := range []struct {
		s                 *Server
		request, response string
	}{
		// the envelope
		{s, ` ` + key + `protocolVersion":"2026-07-28"}}`, "! -32602 Missing required _meta field io.modelcontextprotocol/clientCapabilities"},
		{s, ` ` + key + `protocolVersion":"1900-01-01"}}`, "! -32602 Missing required _meta field io.modelcontextprotocol/clientCapabilities"},
		{s, ` ` + key + `protocolVersion":20260728,"io.modelcontextprotocol/clientCapabilities":{}}}`,
			"! -32602 Invalid params: io.modelcontextprotocol/protocolVersion must be a string"},
		{s, ` ` + key + `protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":[]}}`,
			"! -32602 Invalid params: io.modelcontextprotocol/clientCapabilities must be an object"},
		{s, ` ` + key + `clientInfo":{"name":"c"},` + modernMeta + `}}`,
			"! -32602 Invalid params: io.modelcontextprotocol/clientInfo must be an object with name and version"},
		{s, ` ` + key + `protocolVersion":"2025-11-25","io.modelcontextprotocol/clientCapabilities":{}}}`,
			`! -32022 Unsupported protocol version {"supported":["2026-07-28"],"requested":"2025-11-25"}`},
		{s, ` ` + key + `logLevel":"loud",` + modernMeta + `}}`, "! -32602 Invalid log level: loud"}, // before the method is looked at

		// methods that were removed, and tasks
		{s, `+ ping`, "! -32601 Method not found: ping"},
		{s, `+ resources/subscribe`, "! -32601 Method not found: resources/subscribe"},
		{s, `+ tasks/get`, "! -32601 Method not found: tasks/get"},
		{s, ` tasks/get {"taskId":"t"}`, "! -32601 Method not found: tasks/get"},
		{s, ` tools/call {"name":"echo","arguments":{"text":"x"},"task":{"ttl":60000}}`, ` {"content":[{"type":"text","text":"x"}]}`},
		{s, `+ initialize {"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}`,
			`! -32601 Method not found: initialize {"supported":["2026-07-28"]}`},

		// params
		{s, ` tools/call {"name":"nope"}`, "! -32602 Unknown tool: nope (there is echo, slow, ask)"},
		{many, ` tools/call {"name":"nope"}`, "! -32602 Unknown tool: nope (there is a, b, c, d, e, f, g, h, i, j, and 2 more)"},
		{s, ` tools/call {"arguments":{}}`, "! -32602 Invalid params: name is required"},
		{s, ` tools/call`, "! -32602 Invalid params: name is required"},
		{s, ` tools/call {"name":7}`, "! -32602 Invalid params: name is required"},
		{s, ` tools/call {"name":"slow","_meta":{"progressToken":1.5}}`, "! -32602 Invalid params: progressToken must be an integer, or a string without U+2028, U+2029 and escapes of half a character"},
		{s, ` tools/call {"name":"slow","_meta":{"progressToken":"\ud83d"}}`, "! -32602 Invalid params: progressToken must be an integer, or a string without U+2028, U+2029 and escapes of half a character"},
		{s, ` resources/subscribe {}`, "! -32602 Invalid params: uri is required"},
		{s, ` resources/unsubscribe {"uri":["demo://a"]}`, "! -32602 Invalid params: uri is required"},
		{s, `+ subscriptions/listen`, noFilter},
		{s, `+ subscriptions/listen {"notifications":[]}`, noFilter},
		{s, `+ subscriptions/listen {"notifications":{"toolsListChanged":"yes"}}`, noFilter},
		{s, `+ subscriptions/listen {"notifications":{"resourceSubscriptions":"x:a"}}`, noFilter},
		{s, `+ subscriptions/listen {"notifications":{"resourceSubscriptions":["x:a",1]}}`, noFilter},
		{s, `+ subscriptions/listen {"notifications":{"resourceSubscriptions":["x:a",null]}}`, noFilter},
		{s, `+ subscriptions/listen {"notifications":{"resourceSubscriptions":{"0":"x:a"}}}`, noFilter},
		{s, `+ subscriptions/listen {"notifications":{"promptsListChanged":0}}`, noFilter},
		{s, `+ subscriptions/listen {"notifications":null}`, noFilter},
		{s, `+ subscriptions/listen {"Notifications":{}}`, noFilter},

		// capabilities that are not declared
		{&Server{}, ` resources/list`, ` {"resources":[]}`},
		{&Server{}, ` resources/templates/list`, ` {"resourceTemplates":[]}`},
		{&Server{}, ` tools/list`, ` {"tools":[]}`},
		{&Server{}, ` resources/read {"uri":"demo://a"}`, "! -32601 Method not found: resources/read"},
		{&Server{}, ` prompts/get {"name":"x"}`, "! -32601 Method not found: prompts/get"},
		{&Server{}, ` completion/complete {}`, "! -32601 Method not found: completion/complete"},
		{&Server{}, ` logging/setLevel {"level":"info"}`, "! -32601 Method not found: logging/setLevel"},
		{&Server{}, ` resources/subscribe {"uri":"demo://a"}`, "! -32601 Method not found: resources/subscribe"},
		{&Server{}, `+ resources/list`, "! -32601 Method not found: resources/list"},
		{&Server{}, `+ resources/templates/list`, "! -32601 Method not found: resources/templates/list"},
		{&Server{}, `+ tools/list`, "! -32601 Method not found: tools/list"},
		{&Server{}, `+ server/discover`, `* {"supportedVersions":["2026-07-28"],"capabilities":{}}`},
	} {
		inBubble(t, tt.s, legacyPV, func(c *client) { c.play("> 1"+tt.request, "< 1"+tt.response) })
	}
	const missing = "! -32602 Missing required _meta fields io.modelcontextprotocol/protocolVersion and io.modelcontextprotocol/clientCapabilities (older revisions send initialize)"
	inBubble(t, demo(), "", func(c *client) { // a client that does not open a session, and then probes and falls back
		c.play(`
			> notifications/no_such_thing
			> {"jsonrpc":"2.0","method":"tools/list"}
			> {"jsonrpc":"2.0","method":"tools/call","params":7}
			> 1 call echo {"text":"hi"}
			< 1`+missing, `
			> 2 no/such
			< 2! -32601 Method not found: no/such
			> 3 server/discover
			< 3`+missing, `
			> 4 server/discover {"_meta":{"io.modelcontextprotocol/protocolVersion":"2099-01-01","io.modelcontextprotocol/clientCapabilities":{}}}
			< 4! -32022 Unsupported protocol version {"supported":["2026-07-28"],"requested":"2099-01-01"}
			> 5+ server/discover
			< 5* {"supportedVersions":["2026-07-28"],"capabilities":{"tools":{"listChanged":true}}}
			> 6 initialize 2025-06-18
			< 6 {"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"demo","version":"1.0.0"}}
			# before notifications/initialized
			> 7 prompts/list
			< 7 {"prompts":[]}`)
	})
}

// ---- what each revision knows ----

// If the revision of an initialize request is unknown, its result has the newest legacy
// revision. TestRevisions has the known revisions.
func TestInitialize(t *testing.T) {
	const theirs = `"capabilities":{},"clientInfo":{"name":"c","version":"1"}`
	for _, tt := range []struct{ params, want string }{
		{`{"protocolVersion":"2025-11-25","unknown":null,` + theirs + `}`, "2025-11-25"},
		{`{"protocolVersion":"2026-07-28",` + theirs + `}`, "2025-11-25"},
		{`{"protocolVersion":"2099-01-01",` + theirs + `}`, "2025-11-25"},
		{`{"protocolVersion":"",` + theirs + `}`, "2025-11-25"},
		{`{"protocolVersion":20251125,` + theirs + `}`, "protocolVersion is required"},
		{`{` + theirs + `}`, "protocolVersion is required"},
		{`{"protocolVersion":"2025-11-25","clientInfo":{"name":"c","version":"1"}}`, "capabilities is required"},
		{`{"protocolVersion":"2025-11-25","capabilities":[],"clientInfo":{"name":"c","version":"1"}}`, "capabilities is required"},
		{`{"protocolVersion":"2025-11-25","capabilities":{}}`, "clientInfo with name and version is required"},
		{`{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c"}}`, "clientInfo with name and version is required"},
		{`[]`, "params must be an object"},
	} {
		want := "! -32602 Invalid params: " + tt.want
		if strings.HasPrefix(tt.want, "20") {
			want = ` {"protocolVersion":"` + tt.want + `","capabilities":{},"serverInfo":{"name":"demo","version":"1.0.0"}}`
		}
		inBubble(t, &Server{}, "", func(c *client) {
			c.send(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":` + tt.params + "}")
			c.play("< 1" + want + ping)
		})
	}
}

// A second initialize ends all that belongs to the legacy session before it, and nothing of the modern era. Each request
// that it ends is answered before it is, unless both have one id.
func TestSecondInitialize(t *testing.T) {
	replaced := &CancelledError{"initialize opened a new session"}
	again := func(c *client, id, version string, before ...string) {
		c.t.Helper()
		response := `"id":` + id + `,"result":{"protocolVersion":"` + version
		got := c.ask(id + " initialize " + version + ` {"roots":{}}`)
		if last := len(got) - 1; last < 0 || !strings.Contains(got[last], response) {
			c.t.Errorf("got %q, want %s", got, response)
		} else {
			c.got = got[:last]
			c.wantInAnyOrder(before...)
		}
	}
	gone := func(id string) string { return id + "! -32603 initialize opened a new session" }
	bubble(t, func(t *testing.T, s *stage) { // requests, also with the id of the initialize
		c := serve(t, &s.Server)
		s.AddPrompt(Prompt{Name: "p"}, func(ctx context.Context, _ map[string]string) ([]PromptMessage, error) {
			<-ctx.Done()
			return nil, context.Cause(ctx)
		})
		s.AddMethod("x/wait", func(ctx context.Context, _ json.RawMessage) (any, error) {
			<-ctx.Done()
			return nil, context.Cause(ctx)
		})
		again(c, "0", "2025-06-18")
		c.send("0 call wait", "1 call deaf @1", "2+ call wait", listenLine)
		c.ask(`3 prompts/get {"name":"p"}`)
		c.ask(`4 x/wait {}`)
		again(c, "0.0", "2025-11-25", gone("1"), gone("3"), gone("4"))
		s.saw(t, replaced)
		c.send("1 call wait")
		for _, id := range []string{"0", "3", "4"} {
			c.play(fmt.Sprint("> ", id, " call hi"), fmt.Sprint("< ", id, " said hi"))
		}
		s.release <- struct{}{} // the handler of the first session: another request has the id now
		s.saw(t, replaced)
		c.want()
		add(&s.Server, "new", noText) // the stream is open, and the session has not sent initialized
		c.play(`< notifications/tools/list_changed {"_meta":{"io.modelcontextprotocol/subscriptionId":"sub"}}`)
		c.send("cancel 1", "cancel 2")
		s.saw(t, stopped, stopped)
	})
	bubble(t, func(t *testing.T, s *stage) { // requests that wait
		s.MaxConcurrent = 1
		c := serve(t, &s.Server)
		c.initialize("2025-06-18", "{}")
		c.send("0 call deaf", "1 call hi", "2+ call hi", "3 call hi")
		again(c, "1", "2025-06-18", gone("0"), gone("3"))
		c.send("3 call wait")
		c.want()
		close(s.release) // the handler of the first session keeps its place until it returns
		c.want("2+ said hi")
		s.ran(t, "0", "2", "3")
		again(c, `"x"`, "2025-06-18", gone("3"))
		s.saw(t, replaced, replaced)
	})
	bubble(t, func(t *testing.T, s *stage) { // a list that a handler makes, a batch, an id that is a text, and a cancelled request
		c := serve(t, &s.Server)
		listing := make(chan bool)
		addEmpty(&s.Server, Tool{Name: "slow", Enabled: func(context.Context) bool { return <-listing }})
		c.initialize("2025-03-26", "{}")
		c.send("1 tools/list", `[{"jsonrpc":"2.0","id":2,"method":"tools/list"},{"jsonrpc":"2.0","id":"2","method":"tools/list"}]`, "3 call wait")
		addEmpty(&s.Server, Tool{Name: "late"}) // the list lacks it, but the error is no list
		synctest.Wait()                         // the call has begun
		c.send("cancel 3")
		c.want(changed)
		s.saw(t, stopped)
		again(c, "9", "2025-11-25", gone("1"), gone("2"), gone(`"2"`))
		close(listing)
		c.want()
	})
	bubble(t, func(t *testing.T, s *stage) { // after EOF, while handlers may go on
		s.CancelDelay = time.Second
		c := serve(t, &s.Server)
		c.initialize("2025-06-18", "{}")
		c.send("1 call deaf")
		c.want()
		io.WriteString(c.in, written(`2 initialize 2025-06-18 {}`)) // and EOF before it has been accepted
		c.in.Close()
		if got := c.recv(); len(got) != 2 || !sameJSON(t, got[0], gone("1")) {
			t.Errorf("got %q", got)
		}
		close(s.release)
		s.saw(t, replaced)
	})
	for _, detached := range []bool{false, true} { // questions
		var errs []error
		s := asker(func(ctx context.Context) (string, error) {
			if detached {
				ctx = context.WithoutCancel(ctx)
			}
			_, err := listRoots(ctx)
			errs = append(errs, err)
			return outcome("answered", err)
		})
		inBubbleWith(t, s, "2025-06-18", `{"roots":{}}`, func(c *client) {
			c.play("> 1 call ask", "< 1 roots/list {}")
			again(c, `"1"`, "2025-06-18", gone("1"), withdrawn(1))
			c.play("> 1 call ask", "< 2 roots/list {}")
			c.send(`1 {"roots":[]}`) // late
			c.want()
			c.play(`> 2 {"roots":[]}`, "< 1 said answered")
			if !reflect.DeepEqual(errs, []error{replaced, nil}) {
				t.Errorf("the questions returned %v", errs)
			}
		})
	}
	s := &Server{} // what the session was notified of
	logger := slog.New(s.LogHandler(""))
	do := doer(s)
	*do = func(ctx context.Context) { logger.InfoContext(ctx, "m") }
	s.AddResource(Resource{URI: "x:a", Name: "a"}, texts("A"))
	inBubble(t, s, "2025-03-26", func(c *client) {
		c.play(`
			> 1 resources/subscribe {"uri":"x:a"}
			< 1 {}
			> 2 logging/setLevel {"level":"debug"}
			< 2 {}`)
		again(c, "1", "2025-11-25")
		s.ResourceUpdated("x:a")
		lists[tools].add(s, "new", "")
		c.play(`
			> 1 call do
			< 1 {"content":[]}
			> notifications/initialized
			< notifications/tools/list_changed
			> 1 resources/subscribe {"uri":"x:a"}
			< 1 {}`)
		s.ResourceUpdated("x:a")
		c.play("< notifications/resources/updated {\"uri\":\"x:a\"}")
		lists[tools].add(s, "newer", "")
		c.play("< notifications/tools/list_changed") // once
		c.play(`
			> [` + pingLine + `]
			< null! -32600 Invalid Request: batching is not supported`)
	})
	bubble(t, func(t *testing.T, s *stage) { // an invalid one changes nothing
		c := serve(t, &s.Server)
		c.initialize("2025-03-26", "{}")
		c.send("1 call wait", "2+ call wait")
		c.recv()
		request := full(`1 initialize 2025-11-25 {"roots":{}}`)
		for _, invalid := range []struct{ old, new, response string }{
			{`"capabilities":{"roots":{}}`, `"x":0`, "null! -32600 Invalid Request: id 1 is in use"},
			{`"2.0","id":1`, `"1.0","id":1`, `null! -32600 Invalid Request: jsonrpc must be "2.0"`},
			{`"id":1`, `"id":2`, "null! -32600 Invalid Request: id 2 is in use"}, // a modern request has it
			{`"id":1,`, ``, ""},
			{`"id":1,`, `"id":3,"x":"` + "\xe9" + `",`, "3! -32700 Parse error: not UTF-8"},
			{`"id":1`, `"id":true`, "null! -32600 Invalid Request: id must be an integer, or a string without U+2028, U+2029 and escapes of half a character"},
			{`{"jsonrpc":"2.0","id":1`, `[{"jsonrpc":"2.0","id":4`, "4! -32600 Invalid Request: initialize must not be part of a batch"},
			{`"params":{`, `"params":{` + modernParams + `,`, "null! -32600 Invalid Request: id 1 is in use"},
		} {
			line := strings.Replace(request, invalid.old, invalid.new, 1)
			if line[0] == '[' {
				line += "]"
			}
			c.send(line)
			if invalid.response == "" {
				c.want()
			} else {
				c.want(invalid.response)
			}
		}
		s.saw(t)
		c.send("cancel 1", "cancel 2", "["+pingLine+"]")
		c.want(pongLine)
		s.saw(t, stopped, stopped)
	})
}

// One server in all revisions: what a client of some revision would refuse differs, and
// nothing else. A part «...» of the transcript is sent in the revisions whose letters are
// before its colon.
func TestRevisions(t *testing.T) {
	icon := []Icon{{Src: "https://x/i.png", MIMEType: "image/png", Sizes: []string{"48x48"}, Theme: "dark"}}
	notes := Annotations{Audience: []Role{RoleUser}, Priority: 0.5, LastModified: time.Date(2025, 1, 2, 3, 4, 5, 0, time.UTC)}
	meta := map[string]any{"k": 1}
	s := &Server{Name: "demo", Version: "1.0.0", Title: "Demo", WebsiteURL: "https://x", Icons: icon, Instructions: "Be kind.",
		CacheTTL: 90 * time.Second, CachePublic: true, Extensions: map[string]any{"x/y": none{}}}
	AddTool(s, Tool{Name: "full", Title: "Full", Description: "Has it all.", Icons: icon, Meta: meta,
		Annotations:  ToolAnnotations{Title: "Other", ReadOnlyHint: Yes, DestructiveHint: No, IdempotentHint: No, OpenWorldHint: Yes},
		OutputSchema: json.RawMessage(`{"type":"object"}`)},
		func(ctx context.Context, _ none) (*Result, error) {
			Progress(ctx, 0, 0, "on it")
			return &Result{StructuredContent: map[string]int{"n": 1}, Meta: map[string]any{"k": 1, keyServer: "not me"}, Content: []Content{
				{Type: "text", Text: "<t>\u2028", Annotations: notes, Meta: meta},
				Image([]byte("GIF8"), "image/gif"),
				Audio([]byte("a"), "audio/wav"),
				ResourceLink(Resource{URI: "demo://a", Name: "a", Title: "A", Description: "d", MIMEType: "text/plain", Size: 3, Annotations: notes, Icons: icon, Meta: meta}),
				{Type: "resource_link", Link: &Resource{URI: "demo://l", Name: "l"}, Annotations: notes, Meta: meta},
				EmbeddedResource(ResourceContents{URI: "demo://t", MIMEType: "text/plain", Meta: meta}),
				EmbeddedResource(ResourceContents{URI: "demo://b", Blob: []byte{}}),
			}}, nil
		})
	AddTool(s, Tool{Name: "list", OutputSchema: SchemaOf[[]int](), Annotations: ToolAnnotations{ReadOnlyHint: No}},
		func(context.Context, none) ([]int, error) { return nil, nil })
	AddTool(s, Tool{Name: "ref", OutputSchema: json.RawMessage(`{"$ref":"#/$defs/x","$defs":{"x":{"type":"array"}}}`)},
		func(context.Context, none) ([]int, error) { return nil, nil })
	for _, uri := range []string{"x:b", "x:{b}"} {
		s.AddResource(Resource{URI: uri, Name: "b", Title: "B", Description: "D", MIMEType: "x/y", Size: 7, Annotations: notes, Icons: icon, Meta: meta}, texts(""))
	}
	s.AddPrompt(Prompt{Name: "c", Title: "C", Arguments: []PromptArgument{{Name: "d", Title: "D"}}, Icons: icon, Meta: meta}, promptOf())

	const (
		ICON  = `"icons":[{"src":"https://x/i.png","mimeType":"image/png","sizes":["48x48"],"theme":"dark"}]`
		NOTES = `"annotations":{"audience":["user"],"priority":0.5,"lastModified":"2025-01-02T03:04:05Z"}`
		CAPS  = `"tools":{"listChanged":true},"prompts":{"listChanged":true},"resources":{"listChanged":true,"subscribe":true},"extensions":{"x/y":{}}`
		BOTH  = `"name":"b","title":"B","description":"D","mimeType":"x/y",` + NOTES + `,` + ICON + `,"_meta":{"k":1}`
		ARGS  = `"inputSchema":{"type":"object","properties":{},"additionalProperties":false}`
	)
	transcript := strings.NewReplacer("$ICON", ICON, "$NOTES", NOTES, "$ARGS", ARGS, "$CAPS", CAPS, "$BOTH", BOTH, "$PUBLIC", `«M:,"ttlMs":90000,"cacheScope":"public"»`, "\n\t\t\t", "").Replace(`
		«ABCD:> 0 initialize {"protocolVersion":"$VERSION","capabilities":{},"clientInfo":{"name":"c","version":"1"}}
		< 0 {"protocolVersion":"$VERSION","capabilities":{$CAPS},"instructions":"Be kind.",
			"serverInfo":{"name":"demo","version":"1.0.0","title":"Demo","websiteUrl":"https://x",$ICON}}»
		«M:> 0+ server/discover
		< 0 {"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{$CAPS},"instructions":"Be kind.",
			"ttlMs":90000,"cacheScope":"public","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"demo","version":"1.0.0","title":"Demo","websiteUrl":"https://x",$ICON}}}»
		> 1«M:+» tools/list {}
		< 1«M:+» {"tools":[
			{"name":"full","title":"Full","description":"Has it all.",$ARGS,"outputSchema":{"type":"object"}
			,"annotations":{"title":"Other","readOnlyHint":true,"destructiveHint":false,"idempotentHint":false,"openWorldHint":true},$ICON,"_meta":{"k":1}},
			{"name":"list",$ARGS«M:,"outputSchema":{"type":"array","items":{"type":"integer"}}»,"annotations":{"readOnlyHint":false}},
			{"name":"ref",$ARGS«M:,"outputSchema":{"$ref":"#/$defs/x","$defs":{"x":{"type":"array"}}}»}]$PUBLIC}
		> 4«M:+» resources/list {}
		< 4«M:+» {"resources":[{"uri":"x:b","size":7,$BOTH}]$PUBLIC}
		> 5«M:+» resources/templates/list {}
		< 5«M:+» {"resourceTemplates":[{"uriTemplate":"x:{b}",$BOTH}]$PUBLIC}
		> 6«M:+» prompts/list {}
		< 6«M:+» {"prompts":[{"name":"c","title":"C","arguments":[{"name":"d","title":"D"}],$ICON,"_meta":{"k":1}}]$PUBLIC}
		> 2«M:+» call full @0
		< notifications/progress {"progressToken":0,"progress":0,"message":"on it"}
		< 2 {«M:"resultType":"complete",»"content":[
			{"type":"text","text":"<t>\u2028",$NOTES,"_meta":{"k":1}},
			{"type":"image","data":"R0lGOA==","mimeType":"image/gif"},
			«A:{"type":"text","text":"[audio, audio/wav, 1 bytes]"}»«BCDM:{"type":"audio","data":"YQ==","mimeType":"audio/wav"}»,
			«AB:{"type":"text","text":"a: demo://a"},{"type":"text","text":"l: demo://l"}»
			«CDM:{"type":"resource_link","uri":"demo://a","name":"a","title":"A","description":"d","mimeType":"text/plain","size":3,$NOTES,$ICON,"_meta":{"k":1}},
			{"type":"resource_link","uri":"demo://l","name":"l",$NOTES,"_meta":{"k":1}}»,
			{"type":"resource","resource":{"uri":"demo://t","mimeType":"text/plain","text":"","_meta":{"k":1}}},
			{"type":"resource","resource":{"uri":"demo://b","blob":""}}]
			,"structuredContent":{"n":1}
			,"_meta":{"k":1«M:,"io.modelcontextprotocol/serverInfo":{"name":"demo","version":"1.0.0"}»}}
		> 3«M:+» call list
		< 3«M:+» {"content":[{"type":"text","text":"[]"}],"structuredContent":«ABCD:{"result":[]}»«M:[]»}`)
	choice := regexp.MustCompile(`«([A-M]+):([^«»]*)»`) // the innermost
	for i, version := range []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"} {
		t.Run(version, func(t *testing.T) {
			script := strings.ReplaceAll(transcript, "$VERSION", version)
			for choice.MatchString(script) {
				script = choice.ReplaceAllStringFunc(script, func(s string) string {
					if m := choice.FindStringSubmatch(s); strings.Contains(m[1], "ABCDM"[i:i+1]) {
						return m[2]
					}
					return ""
				})
			}
			inBubble(t, s, "", func(c *client) { c.play(script) })
		})
	}
}

// ---- rounds of the modern era ----

// Each round asks the questions that have no response yet. The server keeps nothing
// between rounds.
func TestRoundsAskMissingQuestions(t *testing.T) {
	ask := func(ctx context.Context) (string, error) {
		_, err := confirm(ctx, "a")
		_, err2 := confirm(ctx, "b")
		return outcome("done", errors.Join(err, err2))
	}
	entry := func(key string) string {
		return fmt.Sprintf(`%q:{"method":"elicitation/create","params":%s}`, "$"+key, confirmParams(key))
	}
	both, onlyA := ` {`+entry("a")+`,`+entry("b")+`}`, ` {`+entry("a")+`}`
	with := func(more string) string { return `+ tools/call {"name":"ask",` + more + `}` }
	inBubbleWith(t, asker(ask), "", `{"elicitation":{}}`, func(c *client) {
		c.play("> 1+ call ask", "< 1?"+both)
		for _, none := range []string{`{}`, `null`, `{"$c":` + confirmYes + `}`} {
			c.play("> 1"+with(`"inputResponses":`+none+`,"requestState":"$STATE"`), "< 1?"+both)
		}
		c.play("> 2"+with(`"inputResponses":{"$b":`+confirmYes+`,"$c":{}},"requestState":"$STATE"`), "< 2?"+onlyA)
		for _, same := range []string{"", `"arguments":{},`, `"arguments":null,`} {
			c.play("> 3"+with(same+`"requestState":"$STATE"`), "< 3?"+onlyA)
		}
		c.play("> 3"+with(`"inputResponses":{"$a":{"action":"decline"}},"requestState":"$STATE"`), "< 3+ said declined")

		// Responses are accepted without a state, and nothing is remembered here.
		yes := `"inputResponses":{"$a":` + confirmYes + `,"$b":` + confirmYes + `}`
		c.play("> 4"+with(yes), "< 4+ said done")
		c.play("> 5"+with(`"inputResponses":null,"requestState":null`), "< 5?"+both)

		for _, invalid := range []string{
			`[]`, `"x"`, `5`, `true`, `{"$a":null}`, `{"$a":[]}`, `{"$b":"accept"}`, `{"$c":5}`,
			`{"$a":` + confirmYes + `,"$b":5}`,
		} {
			got := c.ask("6" + with(`"inputResponses":`+invalid+`,"requestState":"$STATE"`))
			if len(got) != 1 || !strings.Contains(got[0], `"id":6,"error":{"code":-32602,"message":"Invalid params: inputResponses`) {
				t.Errorf("%s: got %q", invalid, got)
			}
		}
		for _, state := range []string{`""`, `"forged"`, `"."`, `".."`, `"..."`, `5`, `{}`, `["$STATE"]`,
			`"$STATE."`, `"` + c.state[1:] + `"`, `"` + c.state[:len(c.state)-1] + `"`, `"x` + c.state[1:] + `"`, `"$STATE$STATE"`, `" $STATE"`} {
			c.play("> 7"+with(yes+`,"requestState":`+state), "< 7! -32602 Invalid requestState")
		}
	})
	inBubbleWith(t, asker(noText), "", everyCap, func(c *client) { // also if the handler asks nothing
		for _, more := range []string{`"requestState":"x"`, `"inputResponses":[]`, `"inputResponses":{"a":5}`} {
			if got := c.ask("1" + with(more)); len(got) != 1 || !strings.Contains(got[0], `"id":1,"error":{"code":-32602`) {
				t.Errorf("%s: got %q", more, got)
			}
		}
	})
}

// A requestState is accepted for the call that it was made for, by the Server that made it.
func TestRequestState(t *testing.T) {
	const call = `tools/call {"name":"ask","arguments":{"n":1,"s":" x\n"}}`
	for _, test := range []struct {
		made, used string
		elsewhere  bool // it is used on another Server
		ok         bool
	}{
		{call, call, false, true},
		{call, call, true, false},
		{call, `tools/call { "arguments" : {"n" :	1 ,"s":" x\n"  } , "name":"\u0061sk" }`, false, true},
		{call, `tools/call {"name":"ask","arguments":{"n":1,"s":" x\n"},"more":true}`, false, true},
		{call, `tools/call {"name":"other","arguments":{"n":1,"s":" x\n"}}`, false, false},
		{call, `tools/call {"name":"ask","arguments":{"n":2,"s":" x\n"}}`, false, false},
		{call, `tools/call {"name":"ask","arguments":{}}`, false, false},
		{call, `tools/call {"name":"ask"}`, false, false},
		{`tools/call {"name":"ask"}`, `prompts/get {"name":"ask"}`, false, false},
		{`prompts/get {"name":"ask","arguments":{"a":"1"}}`, `prompts/get {"name":"ask","arguments":{"a":"1"}}`, false, true},
		{`prompts/get {"name":"ask","arguments":{"a":"1"}}`, `prompts/get {"name":"other","arguments":{"a":"1"}}`, false, false},
		{`resources/read {"uri":"ask:a"}`, `resources/read {"uri":"ask:a"}`, false, true},
		{`resources/read {"uri":"ask:a"}`, `resources/read {"uri":"ask:o"}`, false, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			c := serve(t, asker(askOnce))
			c.caps = everyCap
			c.play("> 1+ "+test.made, "< 1? "+asksK)
			if test.elsewhere {
				c.end()
				old := c
				c = serve(t, asker(askOnce))
				c.caps, c.state, c.keys = everyCap, old.state, old.keys
			}
			c.send("2+ " + test.used[:len(test.used)-1] + answersK + "}")
			if !test.ok {
				c.want("2! -32602 Invalid requestState")
			} else if got := c.recv(); len(got) != 1 || !strings.Contains(got[0], `"true"`) {
				t.Errorf("%s: got %q", test.used, got)
			}
		})
	}
}

// asksK are the questions of askOnce, for which answersK has the user's consent.
const (
	asksK    = `{"$k":{"method":"elicitation/create","params":` + confirmAsk + `}}`
	answersK = `,"inputResponses":{"$k":` + confirmYes + `},"requestState":"$STATE"`
)

// Servers with one Checksum accept each other's requestStates, and know each other's questions.
// The checksum may be the bytes of a hash.
func TestChecksum(t *testing.T) {
	keyed := func(key string) func([]byte) string {
		return func(data []byte) string {
			mac := hmac.New(sha256.New, []byte(key))
			mac.Write(data)
			return string(mac.Sum(nil)[:16])
		}
	}
	hex := func(data []byte) string { return fmt.Sprintf("%08x", crc32.ChecksumIEEE(data)) }
	special := func(data []byte) string { return "\"\x00.\xff\n\u2028-" + hex(data) }
	for name, test := range map[string]struct {
		first, second func([]byte) string
		ok            bool
	}{
		"one key":            {keyed("a"), keyed("a"), true},
		"two keys":           {keyed("a"), keyed("b"), false},
		"a text":             {hex, hex, true},
		"special characters": {special, special, true},
		"none":               {nil, nil, false},
		"only the first":     {keyed("a"), nil, false},
		"only the second":    {nil, keyed("a"), false},
	} {
		synctest.Test(t, func(t *testing.T) {
			serveWith := func(sum func([]byte) string) *client {
				s := asker(askOnce)
				s.Checksum = sum
				c := serve(t, s)
				c.caps = everyCap
				return c
			}
			first, second := serveWith(test.first), serveWith(test.second)
			first.play("> 1+ call ask", "< 1? "+asksK)
			second.state, second.keys = first.state, first.keys
			got := second.ask(`2+ tools/call {"name":"ask"` + answersK + "}")
			if len(got) != 1 || strings.Contains(got[0], `"true"`) != test.ok || strings.Contains(got[0], "Invalid requestState") == test.ok {
				t.Errorf("%s: got %q", name, got)
			}
		})
	}
}

// A panic in Checksum costs only the call.
func TestChecksumPanics(t *testing.T) {
	s := asker(askOnce)
	s.Checksum = func([]byte) string { panic("no key") }
	diagnostics(s)
	inBubbleWith(t, s, "", everyCap, func(c *client) {
		c.play(`
			> 1+ call ask
			< 1+ failed Internal error in tool ask
			> 2+ tools/call {"name":"ask","requestState":"x.y"}
			< 2+ failed Internal error in tool ask`)
	})
}

// A handler that asks and does not return the error of the question has lost it: without
// another error the call fails, another error says so too, and ErrorLog has it. A handler
// that returns the error, alone or with other errors, asks the question.
func TestDroppedQuestionIsReported(t *testing.T) {
	const hint = "the question was not sent: the handler must return the error of Elicit, ElicitURL or Confirm, or wrap it with %w, and return no *Error beside it"
	confirmK := func(ctx context.Context) error { _, err := confirm(ctx, "k"); return err }
	for name, test := range map[string]struct {
		ask     askFunc
		want    string // the text of a failure, or "! " and an error response; "asks" is a round
		reports int
	}{
		"dropped":       {func(ctx context.Context) (string, error) { confirmK(ctx); return "fine", nil }, hint, 1},
		"another error": {func(ctx context.Context) (string, error) { confirmK(ctx); return "", errors.New("x") }, "x\n" + hint, 1},
		"not wrapped":   {func(ctx context.Context) (string, error) { return "", fmt.Errorf("x: %v", confirmK(ctx)) }, "x: " + ErrInputRequired.Error() + " (elicitation/create)\n" + hint, 1},
		"returned":      {askOnce, "asks", 0},
		"wrapped":       {func(ctx context.Context) (string, error) { return "", fmt.Errorf("w: %w", confirmK(ctx)) }, "asks", 0},
		"joined":        {func(ctx context.Context) (string, error) { return "", errors.Join(errors.New("x"), confirmK(ctx)) }, "asks", 0},
		"joined with fs.ErrNotExist": {func(ctx context.Context) (string, error) {
			return "", errors.Join(fs.ErrNotExist, confirmK(ctx))
		}, "asks", 0},
		"asked twice": {func(ctx context.Context) (string, error) { confirmK(ctx); return outcome(confirm(ctx, "k")) }, "asks", 0},
		"joined with an *Error": {func(ctx context.Context) (string, error) {
			return "", errors.Join(confirmK(ctx), &Error{Code: 1, Message: "m"})
		}, "! 1 m", 1},
		"joined with a question that cannot be asked": {func(ctx context.Context) (string, error) {
			_, err := listRoots(ctx)
			return "", errors.Join(confirmK(ctx), err)
		}, `! -32021 This request needs the roots capability, which this client does not have {"requiredCapabilities":{"roots":{}}}`, 1},
		"not asked": {func(ctx context.Context) (string, error) { return "", ErrInputRequired }, ErrInputRequired.Error(), 0},
	} {
		for _, request := range []string{`tools/call {"name":"ask"}`, `prompts/get {"name":"ask"}`, `resources/read {"uri":"ask:a"}`} {
			s := asker(test.ask)
			log := diagnostics(s)
			inBubbleWith(t, s, "", `{"elicitation":{}}`, func(c *client) {
				c.send("1+ " + request)
				switch {
				case test.want == "asks":
					c.want("1? " + asksK)
				case test.want[0] == '!':
					c.want("1" + test.want)
				case strings.HasPrefix(request, "tools"):
					c.want("1+ failed " + test.want)
				default:
					c.want("1! -32603 " + test.want)
				}
				c.caps = "{}" // cannot be asked
				c.ask("2+ " + request)
			})
			if got := strings.Count(log.String(), hint); got != test.reports {
				t.Errorf("%s, %s: reported %d times, want %d: %s", name, request, got, test.reports, log)
			}
		}
	}
}

// A question that changes in each round is never answered. After three rounds in a row in
// which the client sent answers, and the handler took none of them, the call fails. Rounds
// without answers do not count, and an answer that is taken ends the row.
func TestQuestionThatChangesFails(t *testing.T) {
	const hint = "in 3 rounds none of the client's answers matched a question: the handler must ask the same questions each time it runs, so leave times and random texts out of them"
	for _, request := range []struct{ line, fails string }{{`1+ tools/call {"name":"ask"`, "1+ failed "}, {`1+ resources/read {"uri":"ask:a"`, "1! -32603 "}} {
		runs := 0
		s := asker(func(ctx context.Context) (string, error) {
			runs++
			for _, text := range []string{"first", strconv.Itoa(runs)} { // the first question is the same in each run
				if _, err := confirm(ctx, text); err != nil {
					return "", err
				}
			}
			return "done", nil
		})
		log := diagnostics(s)
		inBubbleWith(t, s, "", everyCap, func(c *client) {
			state := ""
			// round sends answers, and checks which question comes: that of the run, or the first
			round := func(answers, question string) {
				t.Helper()
				question = cmp.Or(question, strconv.Itoa(runs+1))
				c.send(request.line + answers + state + "}")
				c.want(`1? {"$` + question + `":{"method":"elicitation/create","params":` + confirmParams(question) + `}}`)
				state = `,"requestState":"$STATE"`
			}
			unknown := `,"inputResponses":{"x":` + confirmYes + `}`
			round("", "first")
			for range 2 { // unknown keys are ignored, and count
				round(unknown, "first")
			}
			for _, none := range []string{"", `,"inputResponses":{}`, `,"inputResponses":null`} {
				round(none, "first")
			}
			round(`,"inputResponses":{"$first":`+confirmYes+`}`, "") // is taken, also in each later run
			for range 2 {
				round(`,"inputResponses":{"$`+strconv.Itoa(runs)+`":`+confirmYes+`}`, "")
			}
			round("", "")
			c.send(request.line + unknown + state + "}")
			c.want(request.fails + hint)
		})
		if n := strings.Count(log.String(), hint); n != 1 {
			t.Errorf("reported %d times: %s", n, log)
		}
	}
}

// ---- lines ----

// CRLF, blanks, a byte order mark, empty lines and a last line without a newline are
// accepted, however the input is cut into Reads.
func TestLineEndings(t *testing.T) {
	const p1, p2 = `{"jsonrpc":"2.0","id":1,"method":"ping"}`, `{"jsonrpc":"2.0","id":2,"method":"ping"}`
	two := []string{`{"jsonrpc":"2.0","id":1,"result":{}}`, `{"jsonrpc":"2.0","id":2,"result":{}}`}
	for name, input := range map[string]string{
		"plain":                      p1 + "\n" + p2 + "\n",
		"CRLF":                       p1 + "\r\n" + p2 + "\r\n",
		"byte order mark":            "\ufeff" + p1 + "\n" + p2 + "\n",
		"byte order mark and blanks": "\ufeff \t" + p1 + "\n" + p2 + "\n",
		"blank lines":                "\n\r\n  \n\t\n" + p1 + "\n\n \n" + p2 + "\n\n",
		"blanks around":              "  " + p1 + " \n\t" + p2 + "\t \r\n",
		"no newline at the end":      p1 + "\n" + p2,
		"no newline, but a blank":    p1 + "\n" + p2 + " ",
	} {
		t.Run(name, func(t *testing.T) {
			for name, r := range map[string]io.Reader{
				"at once":       strings.NewReader(input),
				"one by one":    iotest.OneByteReader(strings.NewReader(input)),
				"data with EOF": iotest.DataErrReader(strings.NewReader(input)),
				"by halves":     iotest.HalfReader(strings.NewReader(input)),
			} {
				if got := feed(t, demo(), r); !slices.Equal(got, two) {
					t.Errorf("%s: got %q", name, got)
				}
			}
		})
	}
}

// Each message is one line of valid UTF-8, whatever it contains and whatever methods write it.
func TestMessagesAreOneLine(t *testing.T) {
	for _, v := range []any{json.RawMessage("{\"a\":\n\"\xff\u2028\u2029\"}"), map[string]any{"k": valJSON{1}}, color(3), []string{"\xc3(", "\u2028"}} {
		s := &Server{}
		logger := slog.New(s.LogHandler(""))
		AddTool(s, Tool{Name: "t"}, func(ctx context.Context, _ none) (any, error) { logger.InfoContext(ctx, "m", "v", v); return v, nil })
		got := feed(t, s, strings.NewReader(full(`1+ tools/call {"name":"t","_meta":{"`+keyLevel+`":"info"}}`)))
		for _, line := range got {
			if len(got) != 2 || !utf8.ValidString(line) || !json.Valid([]byte(line)) || strings.ContainsAny(line, "\r\u2028\u2029") {
				t.Errorf("%T: got %q", v, got)
			}
		}
	}
	text := "a\r\nb\x00\x7f\u2028\u2029\xff\\\" \U0001f600"
	s := &Server{}
	schema := json.RawMessage("{\n\t\"type\": \"object\",\r\n\t\"properties\": {},\"x\": \"a b\\n\u2028\"\n}")
	AddTool(s, Tool{Name: "t", Description: text, Meta: map[string]any{text: text}, InputSchema: schema},
		func(context.Context, json.RawMessage) (*Result, error) {
			return &Result{Content: []Content{Text(text)}, StructuredContent: json.RawMessage("{\n\"a\": 1\r\n}")}, nil
		})
	got := feed(t, s, strings.NewReader(full("1+ tools/list")+"\n"+full("2+ call t")))
	text = strings.ToValidUTF8(text, "\ufffd")
	want := []string{
		`1* {"tools":[{"name":"t","description":` + quote(text) + `,"inputSchema":{"type":"object","properties":{},"x":"a b\n\u2028"},"_meta":{` + quote(text) + `:` + quote(text) + `}}]}`,
		`2+ {"content":[{"type":"text","text":` + quote(text) + `}],"structuredContent":{"a":1}}`,
	}
	for i, line := range got {
		if len(got) != 2 || !sameJSON(t, line, want[i]) || strings.ContainsAny(line, "\r\u2028\u2029") {
			t.Errorf("got %q", got)
		}
	}
}

// No line has an escape of half a character, wherever the user's JSON stands in it: each half
// becomes U+FFFD. Whole characters, and texts that only look like escapes, stay.
func TestHalfCharactersAreReplaced(t *testing.T) {
	const halves = `{"\uD83D":"a\ud83db\udc00\ud83d\uDE00\udc00","k":"\ude00\ud83d \\ud83d\\\ud83d \ud83d\n\ud83d\u0041"}`
	const whole = `{"\ufffd":"a\ufffdb\ufffd\ud83d\uDE00\ufffd","k":"\ufffd\ufffd \\ud83d\\\ufffd \ufffd\n\ufffd\u0041"}`
	type marshaler struct{ json.RawMessage }
	raw := json.RawMessage(halves)
	meta := map[string]any{"m": raw}
	schema := json.RawMessage(`{"type":"object","properties":{},"examples":[` + halves + `]}`)
	s := &Server{Extensions: map[string]any{"x/y": meta}}
	logger := slog.New(s.LogHandler(""))
	AddTool(s, Tool{Name: "result", InputSchema: schema, OutputSchema: schema, Meta: meta}, func(ctx context.Context, _ none) (*Result, error) {
		logger.InfoContext(ctx, "m", "v", marshaler{raw})
		return &Result{StructuredContent: raw, Meta: meta, Content: []Content{{Meta: meta},
			{Type: "resource_link", Link: &Resource{URI: "x:a", Name: "a", Meta: meta}},
			EmbeddedResource(ResourceContents{URI: "x:a", Meta: meta}),
		}}, nil
	})
	AddTool(s, Tool{Name: "raw"}, func(context.Context, none) (any, error) {
		return map[string]any{"method": marshaler{raw}, "null": nil}, nil
	})
	AddTool(s, Tool{Name: "fails"}, func(context.Context, none) (any, error) { return nil, &Error{Data: raw} })
	add(s, "form", func(ctx context.Context) (string, error) {
		_, err := ElicitSchema(ctx, "?", json.RawMessage(`{"type":"object","properties":{"\udc00\ud83d":{"type":"string","title":"\uD83Da"}}}`))
		_, err2 := Ask(ctx, "sampling/createMessage", json.RawMessage(`{"messages":[],"maxTokens":1,"metadata":`+halves+`}`))
		return "", errors.Join(err, err2)
	})
	s.AddMethod("x/get", func(context.Context, json.RawMessage) (any, error) { return raw, nil })
	s.AddPrompt(Prompt{Name: "p", Meta: meta}, promptOf(Content{Meta: meta}))
	s.AddResource(Resource{URI: "x:a", Name: "a", Meta: meta}, func(context.Context, string, map[string]string) ([]ResourceContents, error) {
		return []ResourceContents{{Meta: meta}}, nil
	})
	inBubbleWith(t, s, legacyPV, everyCap, func(c *client) {
		for _, test := range []struct {
			request string
			n       int // how often the value is in what comes
		}{
			{`1+ server/discover`, 1}, {`1+ tools/list`, 3}, {`1+ prompts/list`, 1}, {`1+ resources/list`, 1}, {`1+ x/get`, 0},
			{`1+ prompts/get {"name":"p"}`, 1}, {`1+ resources/read {"uri":"x:a"}`, 1},
			{`1 logging/setLevel {"level":"info"}`, 0}, {`1 call result`, 6},
			{`1+ call raw`, 1}, {`1+ call fails`, 1}, {`1+ call form`, 1},
		} {
			got := strings.Join(c.ask(test.request), "\n")
			if n := strings.Count(got, whole); n != test.n || hasHalf(got) || !strings.Contains(got, `"result":`) && !strings.Contains(got, `"error":`) {
				t.Errorf("%s: %d times in %s", test.request, n, got)
			}
		}
	})
}

// hasHalf reports whether JSON has an escape of half a character.
func hasHalf(text string) bool { return oneHalf.MatchString(wholeEscape.ReplaceAllString(text, "")) }

var wholeEscape, oneHalf = regexp.MustCompile(`\\\\|(?i)\\ud[89ab]..\\ud[c-f]..`), regexp.MustCompile(`(?i)\\ud[89a-f]`)

// A line above MaxMessageBytes, blanks included, is refused without an id, and the next line is
// served.
func TestLineTooLong(t *testing.T) {
	const max = 300
	x, blanks := strings.Repeat("x", max), strings.Repeat(" ", max)
	fit := `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":""}}`
	fill := func(n int) string { return fit[:len(fit)-3] + x[:max-len(fit)+n] + `"}}` }
	const served = `{"jsonrpc":"2.0","id":1,"result":{}}`
	refused := full("null! -32600 Invalid Request: the message is longer than 300 bytes")
	for _, tt := range []struct{ name, line, want string }{
		{"just fits", fill(0), served},
		{"just fits, with blanks", " " + fill(-2) + "\r", served},
		{"one more", fill(1), refused},
		{"one more blank", fill(0) + "\r", refused},
		{"a response", `{"jsonrpc":"2.0","id":1,"result":"` + x + `"}`, refused},
		{"in many pieces", `{"jsonrpc":"2.0","id":9,"method":"ping","params":"` + strings.Repeat(x, 2000) + `"}`, refused},
		{"blanks before", blanks + fit, refused},
		{"nothing but blanks", blanks + blanks, refused},
	} {
		in := tt.line + "\n" + pingLine + "\n"
		for name, r := range map[string]io.Reader{"at once": strings.NewReader(in), "one by one": iotest.OneByteReader(strings.NewReader(in))} {
			if got := feed(t, &Server{MaxMessageBytes: max}, r); !slices.Equal(got, []string{tt.want, pongLine}) {
				t.Errorf("%s, %s: got %q", tt.name, name, got)
			}
		}
	}
}

// A line that is too long is read to its end without being kept. Reading it costs memory for
// its bytes, and not for each Read.
func TestLineTooLongIsNotKept(t *testing.T) {
	skipIfNotMeasurable(t)
	const limit, count, size = 1 << 20, 4 << 10, 1 << 10
	part := strings.Repeat("x", size)
	before, kept, reads := heap(), int64(0), 0
	r := readFunc(func(b []byte) (int, error) {
		switch reads++; {
		case reads < count:
			return copy(b, part), nil
		case reads == count:
			kept = heap() - before
			return copy(b, "\n"+pingLine), nil
		}
		return 0, io.EOF
	})
	var got []string
	cost := allocated(func() { got = feed(t, &Server{MaxMessageBytes: limit}, r) })
	if len(got) != 2 || got[1] != pongLine || kept > 3*limit || cost > 4*count*size {
		t.Errorf("%d KiB of %d are kept, and %.0f KiB were allocated; got %q", kept>>10, count*size>>10, cost/1024, got)
	}
}

// An invalid line costs one error response and one line in ErrorLog at most.
func TestInvalidLine(t *testing.T) {
	const noMethod = "! -32600 Invalid Request: a message must be an object whose method is a string"
	for _, tt := range []struct{ line, response, log string }{
		{`not json`, "null! -32700 Parse error", "Parse error"},
		{`5`, "null" + noMethod, "must be an object"},
		{`null`, "null" + noMethod, "must be an object"},
		{`"ping"`, "null" + noMethod, "must be an object"},
		{`[]`, "null! -32600 Invalid Request: batching is not supported", "batching"},
		{`{}`, "null" + noMethod, "must be an object"},
		{`{"jsonrpc":"2.0","id":1}`, "1" + noMethod, "must be an object"},
		{`{"jsonrpc":"2.0","id":1,"method":["ping"]}`, "1" + noMethod, "must be an object"},
		{`{"jsonrpc":"1.0","id":1,"method":"ping"}`, `1! -32600 Invalid Request: jsonrpc must be "2.0"`, "jsonrpc must be"},
		{`{"jsonrpc":2.0,"id":1,"method":"ping"}`, `1! -32600 Invalid Request: jsonrpc must be "2.0"`, "jsonrpc must be"},
		{`{"jsonrpc":"2.0","id":1,"method":"ping"}{"jsonrpc":"2.0","id":2,"method":"ping"}`, "null! -32700 Parse error", "Parse error"},
		{`{"jsonrpc":"2.0","id":1,"method":"ping","params":"` + strings.Repeat("x", 1000) + `"}`,
			"null! -32600 Invalid Request: the message is longer than 1000 bytes", "longer than 1000 bytes"},
		// A message that is not UTF-8 is answered with its id, if it is a request.
		{`{"jsonrpc":"2.0","id":1,"method":"pi` + "\xff" + `ng"}`, "1! -32700 Parse error: not UTF-8", "not UTF-8"},
		{`{"jsonrpc":"2.0","` + "\xe9" + `":0,"id":"\u0061","method":"ping"}`, `"a"! -32700 Parse error: not UTF-8`, "not UTF-8"},
		{`{"jsonrpc":"2.0","id":"caf` + "\xe9" + `","method":"ping"}`, "null! -32700 Parse error: not UTF-8", "not UTF-8"},
		{`{"jsonrpc":"2.0","id":1e3,"method":"ping","x":"` + "\xe9" + `"}`, `{"jsonrpc":"2.0","id":1e3,"error":{"code":-32700,"message":"Parse error: not UTF-8"}}`, "not UTF-8"},
		{`{"jsonrpc":"2.0","id":1,"x":"` + "\xe9" + `"}`, "null! -32700 Parse error: not UTF-8", "not UTF-8"},
		{`{"jsonrpc":"2.0","method":"notifications/x","params":"` + "\xe9" + `"}`, "null! -32700 Parse error: not UTF-8", "not UTF-8"},
		{`"caf` + "\xe9" + `"`, "null! -32700 Parse error: not UTF-8", "not UTF-8"},
		{`{"jsonrpc":"2.0","id":1,"method":"` + "\xe9" + `",}`, "null! -32700 Parse error: not UTF-8", "not UTF-8"},
		{"{\x00\"\x00\xff", "null! -32700 Parse error: not UTF-8", "not UTF-8"}, // UTF-16
		{`{"jsonrpc":"2.0","id":99,"result":"` + "\xe9" + `"}`, "", "no request of this server has the id 99"},
		{`{"jsonrpc":"2.0","id":1,"method":"pi` + "\x01" + `ng"}`, "null! -32700 Parse error", "Parse error"},
		{`{"jsonrpc":"2.0","id":01,"method":"ping"}`, "null! -32700 Parse error", "Parse error"},
		{`{"jsonrpc":"2.0","id":1,"method":"ping",}`, "null! -32700 Parse error", "Parse error"},
		{`{"jsonrpc":"2.0","method":"notifications/none"}`, "", "unknown method \"notifications/none\""},
		// A message with the shape of a response gets no response.
		{`{"jsonrpc":"2.0","id":99,"result":{}}`, "", "no request of this server has the id 99"},
		{`{"jsonrpc":"2.0","id":99,"error":{"code":1,"message":"x"}}`, "", "no request of this server has the id 99"},
		{`{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"x"}}`, "", "no request of this server"},
		{`{"result":null}`, "", "no request of this server"},
		{`{"jsonrpc":"1.0","id":[],"result":1,"error":5}`, "", "no request of this server"},
		{`{"jsonrpc":"2.0","id":1,"id":2,"result":{},"result":{}}`, "", "no request of this server"},
		{`{"error":"x","id":1.5}`, "", "no request of this server"},
	} {
		t.Run(tt.line[:min(len(tt.line), 60)], func(t *testing.T) {
			s := &Server{Name: "demo", Version: "1", MaxMessageBytes: 1000}
			log := diagnostics(s)
			got := feed(t, s, strings.NewReader(tt.line+"\n"+pingLine+"\n"))
			want := []string{tt.response, pongLine}
			if tt.response == "" {
				want = want[1:]
			}
			if len(got) != len(want) || !sameJSON(t, got[0], want[0]) || got[len(got)-1] != pongLine {
				t.Errorf("got %q, want %q", got, want)
			}
			if strings.Count(log.String(), "\n") != 1 || !strings.Contains(log.String(), tt.log) {
				t.Errorf("log %q, want %q", log, tt.log)
			}
		})
	}
}

// Each diagnostic is one Write, and what a client sends cannot add a line to it.
func TestDiagnosticsAreOneLineEach(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) {
		var prints []string
		s.ErrorLog = log.New(writeFunc(func(b []byte) (int, error) {
			time.Sleep(time.Millisecond) // while other diagnostics are made
			prints = append(prints, string(b))
			return len(b), nil
		}), "", 0)
		c := serve(t, &s.Server)
		c.send("1+ call wait", `notifications/cancelled {"requestId":1,"reason":"no\nmcp: forged"}`)
		c.send("{\"id\":[\r1,\"\u0085\u2028\"],\"result\":1}", `{"id":1,"error":{}}`, "x", "2+ call panic")
		time.Sleep(time.Second)
		c.recv()
		c.end()
		if len(prints) != 5 {
			t.Errorf("%d diagnostics: %q", len(prints), prints)
		}
		for _, text := range prints {
			if lines := strings.Count(text, "\n"); strings.ContainsAny(text, "\r\u0085\u2028") || (lines != 1) != strings.Contains(text, "panicked") {
				t.Errorf("%q", text)
			}
		}
	})
}

// ---- JSON-RPC ----

// Ids are echoed byte for byte.
func TestIDsAreEchoed(t *testing.T) {
	for _, id := range []string{
		`0`, `-0`, `-1`, `7`, `1.0`, `-2.000`, `1e5`, `1.5E+1`, `0.12e2`, `50e-1`, `0e999999999999`, `1e19`, `9007199254740993`, `18446744073709551616`, strings.Repeat("9", 100),
		`""`, `"0"`, `"null"`, `"a b"`, `"\u0061"`, `"\"\\\/\n"`, `"\ud83d\ude00"`, `"é"`, `"` + strings.Repeat("x", 5000) + `"`,
	} {
		got := feed(t, demo(), strings.NewReader(`{"jsonrpc":"2.0","id":`+id+`,"method":"ping"}`))
		if want := `{"jsonrpc":"2.0","id":` + id + `,"result":{}}`; len(got) != 1 || got[0] != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	// The last three have half a character, which a client could not read in the response.
	for _, id := range []string{`null`, `1.5`, `1e-1`, `1e20`, `1e999999999`, `15e-2`, `true`, `[1]`, `{"id":1}`, `"\ud83d"`, `"a\uDC00b"`, `"\udc00\ud83d"`} {
		got := feed(t, demo(), strings.NewReader(`{"jsonrpc":"2.0","id":`+id+`,"method":"ping"}`))
		if len(got) != 1 || !strings.HasPrefix(got[0], `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,`) {
			t.Errorf("id %s: got %q", id, got)
		}
	}
}

// Names are matched exactly except for escapes, and unknown members are ignored.
func TestMembersOfAMessage(t *testing.T) {
	for _, tt := range []struct{ name, version, transcript string }{
		{"names may be escaped", "", `
			> {"jsonrpc":"\u0032.0","\u0069d":1,"meth\u006fd":"p\u0069ng"}
			< 1 {}`},
		{"names in another case are unknown", legacyPV, `
			> {"jsonrpc":"2.0","id":1,"method":"ping","ID":2,"Method":"no/such","PARAMS":7,"Result":1}
			< 1 {}
			> {"JSONRPC":"2.0","id":2,"method":"ping"}
			< 2! -32600 Invalid Request: jsonrpc must be "2.0"
			> 3 tools/call {"Name":"slow","name":"echo","Arguments":{"text":"x"},"arguments":{"text":"y"}}
			< 3 said y`},
		{"the last of two members counts", legacyPV, `
			> {"jsonrpc":"1.0","id":1,"method":"no/such","params":7,"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"slow","name":"echo","arguments":{},"arguments":{"text":"y"}}}
			< 2 said y`},
		{"null is treated as absent", legacyPV, `
			> {"jsonrpc":"2.0","id":1,"method":"ping","params":null}
			< 1 {}
			> 2 prompts/list {"cursor":null,"_meta":null}
			< 2 {"prompts":[]}
			> 3 prompts/list {"_meta":{"progressToken":null}}
			< 3 {"prompts":[]}`},
		{"an id in use", legacyPV, `
			> 7 call slow {}
			> 7 call echo {"text":"x"}
			< null! -32600 Invalid Request: id 7 is in use
			> 7 ping
			< null! -32600 Invalid Request: id 7 is in use
			# nor may a request that is wrong in itself be answered under it
			> {"id":7,"method":"ping"}
			< null! -32600 Invalid Request: jsonrpc must be "2.0"
			> {"jsonrpc":"2.0","id":7}
			< null! -32600 Invalid Request: a message must be an object whose method is a string
			> "7" call echo {"text":"another id"}
			< "7" said another id
			# an id is compared by its value
			> {"jsonrpc":"2.0","id":0.7e1,"method":"ping"}
			< null! -32600 Invalid Request: id 0.7e1 is in use
			> 7.0 call echo {"text":"x"}
			< null! -32600 Invalid Request: id 7.0 is in use
			> {"jsonrpc":"2.0","id":7.00}
			< null! -32600 Invalid Request: a message must be an object whose method is a string
			> "\u0037" call slow {}
			> "7" ping
			< null! -32600 Invalid Request: id "7" is in use
			> -0 call slow {}
			> 0.0 ping
			< null! -32600 Invalid Request: id 0.0 is in use
			> 9007199254740993 call slow {}
			> 9007199254740992 ping
			< 9007199254740992 {}
			> 9007199254740993.0 ping
			< null! -32600 Invalid Request: id 9007199254740993.0 is in use
			> {"method":"notifications/cancelled","params":{"requestId":"7"}}
			> {"method":"notifications/cancelled","params":{"requestId":0}}
			> {"method":"notifications/cancelled","params":{"requestId":9007199254740993}}
			# a notification needs no jsonrpc
			> {"method":"notifications/cancelled","params":{"requestId":7}}
			> 7 ping
			< 7 {}
			> 7 call echo {"text":"once"}
			< 7 said once
			> 7 call echo {"text":"again"}
			< 7 said again`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubbleWith(t, demo(), tt.version, everyCap, func(c *client) { c.play(tt.transcript) })
		})
	}
}

// A batch is served in 2025-03-26 as if each element were a line, and refused in other
// revisions.
func TestBatches(t *testing.T) {
	const b = "2025-03-26"
	refused := "null! -32600 Invalid Request: batching is not supported"
	notAnObject := "\n< null! -32600 Invalid Request: a message must be an object whose method is a string"
	one, slow := `[{"jsonrpc":"2.0","id":1,"method":"ping"}]`, full("1 call slow")
	for _, tt := range []struct{ name, version, transcript string }{
		{"mixed", b, `
			> [ {"jsonrpc":"2.0","id":1,"method":"ping"} , 1,{"jsonrpc":"2.0","id":null,"method":"ping"},{"jsonrpc":"2.0","method":"notifications/x"},[` + pingLine + `],{"jsonrpc":"2.0","id":5,"result":{}},{"jsonrpc":"2.0","id":"]","method":"ping"}]
			< 1 {}` + notAnObject + `
			< null! -32600 Invalid Request: id must be an integer, or a string without U+2028, U+2029 and escapes of half a character` + notAnObject + `
			< "]" {}`},
		{"each response is a line", b, `
			> [` + slow + `,{"jsonrpc":"2.0","id":2,"method":"ping"},` + slow + `]
			> ` + pingLine + `
			< 2 {}
			< null! -32600 Invalid Request: id 1 is in use
			< ` + pongLine + `
			> [{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}]` + ping},
		{"no requests", b, `> [{"jsonrpc":"2.0","method":"notifications/x"},{"jsonrpc":"2.0","id":1,"result":{}}]` + ping},
		{"not JSON", b, `
			> [{"jsonrpc":"2.0","id":1,"method":"ping"},]
			< null! -32700 Parse error` + ping},
		{"not UTF-8", b, `
			> [{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":2,"method":"ping","params":{"x":"` + "\xe9" + `"}},` + full("3 call slow") + `,{"jsonrpc":"2.0","id":3,"method":"` + "\xe9" + `"}]
			> ` + pingLine + `
			< 1 {}
			< 2! -32700 Parse error: not UTF-8
			< null! -32700 Parse error: not UTF-8
			< ` + pongLine + `
			> notifications/cancelled {"requestId":3}` + ping},
		{"empty", b, `
			> [ ]
			< null! -32600 Invalid Request: empty batch` + ping},
		{"initialize inside", b, `
			> [` + full("1 initialize 2025-11-25") + `]
			< 1! -32600 Invalid Request: initialize must not be part of a batch
			> ` + one + `
			< 1 {}`},
		{"a modern claim inside", b, `
			> [` + full("1+ tools/list") + `,{"jsonrpc":"2.0","id":2,"method":"ping"}]
			< 1! -32600 Invalid Request: batching is not supported
			< 2 {}`},
		{"the response to a question inside", b, `
			> [` + full(`"a" call ask`) + `]
			< 1 roots/list {}
			> [{"jsonrpc":"2.0","id":1,"result":{"roots":[]}}]
			< "a" {"content":[{"type":"text","text":"[]"}],"structuredContent":{"result":[]}}`},
		{"before initialize", "", "> " + one + "\n< " + refused + ping},
		{"2025-06-18", "2025-06-18", "> " + one + "\n< " + refused + ping},
		{"2025-11-25", "2025-11-25", "> " + one + "\n< " + refused + ping},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubbleWith(t, demo(), tt.version, everyCap, func(c *client) { c.play(tt.transcript) })
		})
	}
}

// ---- who reads, and who serves ----

// Responses to requests that were read together are one Write. They do not wait for a slow
// handler.
func TestResponsesAreWrittenTogether(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) {
		c := serve(t, &s.Server)
		c.send(pingLine + strings.Repeat(" ", 4*minRead)) // so that a Read has room for many lines
		c.recv()
		c.writes = nil
		var lines, responses []string
		for i := range 100 {
			lines = append(lines, fmt.Sprint(i, "+ call hi"))
			responses = append(responses, fmt.Sprint(i, "+ said hi"))
		}
		c.send(strings.Join(lines, "\n"))
		c.want(responses...)
		if len(c.writes) != 1 {
			t.Errorf("%d writes for 100 responses", len(c.writes))
		}
		c.send("1+ call hi\n2+ call sleep1\n3+ call hi\n" + pingLine)
		c.want()
		time.Sleep(maxInline)
		c.wantInAnyOrder(pongLine, "1+ said hi", "3+ said hi")
		time.Sleep(time.Second - maxInline)
		c.want("2+ said slept")
	})
}

// A goroutine that serves a request for longer than a millisecond loses the turn to
// read, and not earlier. A long line gives it more time. A question to the client
// passes the turn at once.
func TestTheTurnPassesAfterAMillisecond(t *testing.T) {
	// pings checks how long after begin a ping gets its response.
	pings := func(c *client, begin time.Time, after time.Duration) {
		c.t.Helper()
		c.play("> "+pingLine, "< "+pongLine)
		if took := time.Since(begin); took != after {
			c.t.Errorf("read after %v, want %v", took, after)
		}
	}
	bubble(t, func(t *testing.T, s *stage) {
		c := serve(t, &s.Server)
		begin := time.Now()
		c.send("1+ call sleep1")
		pings(c, begin, maxInline)
		time.Sleep(time.Second)
		c.want("1+ said slept")
		c.initialize("2025-11-25", `{"roots":{}}`)
		c.want()
		begin = time.Now()
		c.play("> 2 call ask", "< 1 roots/list {}")
		pings(c, begin, 0)
		c.play(`> 1 {"roots":[]}`, "< 2 said asked")
		pings(c, begin, 0)
		c.send(`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"sleep1","text":"` + strings.Repeat("x", 2*longText) + `"}}`)
		pings(c, begin, 3*maxInline)
		time.Sleep(time.Second)
		c.want("3 said slept")
		c.play("> 4 call hi", "< 4 said hi")
		for _, session := range s.openSessions() { // an idle session has no timer, which only the field shows
			if session.turn.timer.Stop() {
				t.Error("the timer of the turn runs in an idle session")
			}
		}
	})
	bubble(t, func(t *testing.T, s *stage) { // the time counts from the start of the current handler
		add(&s.Server, "short", func(context.Context) (string, error) { time.Sleep(maxInline * 3 / 5); return "short", nil })
		c := serve(t, &s.Server)
		begin := time.Now()
		c.send("1+ call short\n2+ call short\n3+ call sleep2\n4+ call hi")
		time.Sleep(maxInline*11/5 - 1)
		c.want("1+ said short", "2+ said short")
		time.Sleep(1)
		c.want("4+ said hi")
		c.send("5+ call deaf") // ends while another goroutine has the turn, and is timed in turn
		c.play("> 6+ call hi", "< 6+ said hi")
		time.Sleep(time.Until(begin.Add(maxInline*6/5 + 2*time.Second)))
		c.want("3+ said slept")
		close(s.release)
		c.want("5+ said late")
	})
}

// Responses to many short calls that were read together are written about every
// millisecond.
func TestShortCallsDoNotDelayResponses(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) {
		add(&s.Server, "short", func(context.Context) (string, error) { time.Sleep(maxInline / 2); return "short", nil })
		c := serve(t, &s.Server)
		c.send(pingLine + strings.Repeat(" ", 4*minRead)) // so that a Read has room for many lines
		c.recv()
		var lines []string
		for i := range 100 {
			lines = append(lines, fmt.Sprint(i, "+ call short"))
		}
		c.send(strings.Join(lines, "\n"))
		for i := range 20 {
			time.Sleep(2 * maxInline)
			if got := len(c.recv()); got < 2 || got > 6 {
				t.Errorf("%d responses in the %dth two milliseconds", got, i+1)
			}
		}
		time.Sleep(time.Second)
		c.recv()
	})
}

// Many handlers that sleep delay neither other requests nor the end.
func TestSlowHandlersDelayNoOtherRequest(t *testing.T) {
	sleepers := 10_000
	if raceBuild() {
		sleepers = 2000
	}
	bubble(t, func(t *testing.T, s *stage) {
		c := serve(t, &s.Server)
		c.initialize("2025-11-25", "{}")
		c.send(strings.Join(calls(1, sleepers, "wait"), "\n"))
		begun := time.Now()
		c.play("> "+pingLine, "< "+pongLine)
		c.play("> 0 call hi", "< 0 said hi")
		if n := s.starts(); n != sleepers+1 || time.Since(begun) > maxInline {
			t.Errorf("%d handlers have started after %v", n, time.Since(begun))
		}
		c.in.Close()
		c.ends(0, nil)
		wantResponses(t, strings.Join(c.recv(), "\n")+"\n", 1, sleepers, isClosedError)
	})
}

// ---- many ----

// With MaxConcurrent, calls wait in the order of their arrival. No other requests
// wait.
func TestMaxConcurrent(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) { // the order, and the cancel of a call that waits
		s.MaxConcurrent = 1
		c := serve(t, &s.Server)
		begun := time.Now()
		for _, id := range []string{"1", "2", "3", "4", "5"} {
			c.send(fmt.Sprint(id, "+ call sleep1"))
		}
		time.Sleep(maxInline)
		s.ran(t, "1")
		c.send(pingLine, `"l"+ tools/list`, "cancel 3")
		if got := c.recv(); len(got) != 2 || !sameJSON(t, got[0], pongLine) || !strings.Contains(got[1], `"id":"l"`) {
			t.Errorf("while calls wait: %.100q", got)
		}
		c.send("3+ call hi") // has the id of the cancelled call, not its place
		for i, id := range []string{"1", "2", "4", "5"} {
			time.Sleep(time.Until(begun.Add(time.Duration(i+1)*time.Second - 1)))
			c.want()
			time.Sleep(1)
			if id == "5" {
				c.want("5+ said slept", "3+ said hi")
			} else {
				c.want(fmt.Sprint(id, "+ said slept"))
			}
		}
		s.ran(t, "2", "4", "5", "3")
	})
	bubble(t, func(t *testing.T, s *stage) { // three at a time
		s.MaxConcurrent = 3
		c := serve(t, &s.Server)
		c.send(listenLine) // does not count
		c.recv()
		for i := range 9 {
			c.send(fmt.Sprint(i, "+ call sleep1"))
		}
		c.send(`cancel "sub"`) // starts no other request
		for i := range 3 {
			if n := s.starts(); n != 3*(i+1) {
				t.Errorf("%d handlers have started after %d s", n, i)
			}
			if time.Sleep(time.Second); len(c.recv()) != 3 {
				t.Error("not three at a time")
			}
		}
	})
	for _, end := range []func(*client){func(c *client) { c.in.Close() }, func(c *client) { c.cancel(ErrClosed) }} {
		bubble(t, func(t *testing.T, s *stage) { // requests that wait at the end get a response, and do not start
			s.MaxConcurrent = 1
			shown := func(context.Context) bool { panic("a list has started") }
			AddTool(&s.Server, Tool{Name: "hidden", Enabled: shown}, func(context.Context, none) (string, error) { return "", nil })
			c := serve(t, &s.Server)
			var want []string
			for i := range 10 {
				c.send(fmt.Sprint(i, "+ call wait"))
				want = append(want, fmt.Sprint(i, "! -32603 "+ErrClosed.Error()))
			}
			c.send(`"l"+ tools/list`)
			want = slices.Concat([]string{`"l"! -32603 ` + ErrClosed.Error()}, []string{"0+ failed " + ErrClosed.Error()}, want[1:])
			c.want()
			end(c)
			c.ends(0, nil)
			c.wantInAnyOrder(want...)
			s.saw(t, ErrClosed)
			s.ran(t, "0")
		})
	}
}

// The time to cancel a request that waits does not depend on how many others wait.
func TestCancelsOfWaitingRequestsAreLinear(t *testing.T) {
	mustBeLinear(t, 2000, func(n int) time.Duration {
		s := newStage()
		s.MaxConcurrent = 1
		l := newLoad(t, &s.Server)
		l.exchange([]byte(written("0+ call wait")), 0)
		for i := range n {
			l.exchange([]byte(written(fmt.Sprint(i+1, "+ call hi"))), 0)
		}
		session := s.openSessions()[0]
		for queued := 0; queued < n; runtime.Gosched() {
			session.mu.Lock()
			queued = session.waiting.Len()
			session.mu.Unlock()
		}
		begun := time.Now()
		for i := range n {
			session.cancelRequest([]byte(strconv.Itoa(n-i)), "") // the last one first
		}
		d := time.Since(begun)
		l.close()
		return d
	})
}

// mustBeLinear fails if 8n of something take much more time than eight times n of it. The
// eight are timed one by one, because the clock of Windows may take 15 ms for a step.
func mustBeLinear(t *testing.T, n int, took func(n int) time.Duration) {
	t.Helper()
	var few, many time.Duration
	for range 10 { // other processes may have taken the time
		few = 8 * time.Millisecond
		for range 8 {
			few += took(n)
		}
		if many = took(8 * n); many < 5*few {
			return
		}
	}
	t.Errorf("8 times %d took %v, %d took %v", n, few, 8*n, many)
}

// All sessions of a Server are notified of its changes. They do not share requests.
func TestSessionsOfOneServer(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) {
		cs := make([]*client, 5)
		for i := range cs {
			cs[i] = serve(t, &s.Server)
			cs[i].initialize("2025-11-25", `{"roots":{}}`)
			cs[i].send("1 call wait", "2 call ask") // the same ids in all
			cs[i].want("1 roots/list {}")
		}
		add(&s.Server, "new", noText)
		for _, c := range cs {
			c.want(changed)
		}
		cs[0].send("cancel 1")
		s.saw(t, stopped)
		cs[1].send("1! 1 no")
		cs[1].want("2 failed mcp: the client responded with an error: no (1)")
		cs[2].in.Close()
		cs[2].ends(0, nil)
		cs[2].recv()
		s.RemoveTools("new", "none")
		s.RemoveTools("none")
		for _, i := range []int{0, 1, 3, 4} {
			cs[i].want(changed)
			cs[i].cancel(nil)
			cs[i].ends(0, nil)
		}
		if cs[2].want(); len(s.sessions) != 0 {
			t.Errorf("%d sessions are still known", len(s.sessions))
		}
	})
}

// Tools may be added, removed, listed and called concurrently. A tool that is not shown is in
// none of the lists.
func TestToolsChangeWhileServing(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) {
		c := serve(t, &s.Server)
		c.initialize("2025-11-25", "{}")
		c.send(listenLine)
		var wg sync.WaitGroup
		for n := range 4 {
			wg.Go(func() {
				for i := range 50 {
					name := fmt.Sprintf("t%d%d", n, i%5)
					add(&s.Server, name, noText)
					addEmpty(&s.Server, Tool{Name: "hidden" + name, Enabled: func(context.Context) bool { return false }})
					s.RemoveTools(name, "hidden"+name)
				}
			})
		}
		for i := range 100 {
			c.send(fmt.Sprint(2*i, " tools/list"), fmt.Sprintf("%d call t1%d", 2*i+1, i%5))
		}
		wg.Wait()
		got := strings.Join(c.recv(), "\n")
		if n := strings.Count(got, `{"jsonrpc":"2.0","id":`); n != 200 || strings.Contains(got, `"name":"hidden`) {
			t.Errorf("%d responses, want 200: %s", n, got)
		}
	})
}

// ---- the client that does not read ----

// If more output is unsent than the bound, no further line is accepted. When the
// client reads, it receives all responses.
func TestClientThatDoesNotRead(t *testing.T) {
	// fill requests lists of 1 MiB until more output is unsent than the bound, and then a call.
	fill := func(t *testing.T, s *stage) (c *client) {
		AddTool(&s.Server, Tool{Name: "big", Description: strings.Repeat("x", 1<<20)}, func(context.Context, none) (string, error) { return "", nil })
		c = serveUnread(t, &s.Server)
		for i := range 15 {
			c.send(fmt.Sprint(i, "+ tools/list"))
		}
		c.send("15+ call hi")
		s.ran(t, "15")
		c.send("16+ tools/list", "17+ call hi")
		s.ran(t)
		return c
	}
	for _, row := range []struct {
		event func(*client)
		lasts time.Duration
		err   error
	}{
		{func(c *client) { c.in.Close() }, 1100 * time.Millisecond, ErrWaitDelay},
		{func(c *client) { c.cancel(nil) }, 1100 * time.Millisecond, ErrWaitDelay},
		{func(c *client) { c.hangUp(io.ErrClosedPipe) }, 0, nil},
	} {
		bubble(t, func(t *testing.T, s *stage) {
			c := fill(t, s)
			row.event(c)
			err := c.over(row.lasts)
			if !errors.Is(err, row.err) || err != nil && !strings.HasSuffix(err.Error(), "the client did not read all responses in time") {
				t.Errorf("Serve: %v", err)
			}
			s.ran(t)
		})
	}
	bubble(t, func(t *testing.T, s *stage) { // if a handler has not returned either, the error names that
		c := serveUnread(t, &s.Server)
		c.send("1+ call deaf", "2+ call hi")
		s.ran(t, "1", "2")
		c.in.Close()
		if err := c.over(1100 * time.Millisecond); err == nil || !strings.HasSuffix(err.Error(), ": tools/call deaf (id 1)") {
			t.Errorf("Serve: %v", err)
		}
		close(s.release)
	})
	for _, eof := range []bool{false, true} {
		if eof && raceBuild() { // which is slow with bytes
			continue
		}
		bubble(t, func(t *testing.T, s *stage) { // it reads later
			c := fill(t, s)
			if c.send("18+ call hi"); eof {
				c.in.Close()
				time.Sleep(time.Second / 2)
			}
			c.listen()
			var ids []int
			for _, line := range c.recv() {
				ids = append(ids, parseMessage(t, line).ID)
			}
			slices.Sort(ids[min(len(ids), 17):]) // the last two run concurrently
			want := []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18}
			if !slices.Equal(ids, want) {
				t.Errorf("responses to %v", ids)
			}
		})
	}
}

// A lateJSON is marshalled as "late", once the channel is closed.
type lateJSON <-chan struct{}

func (l lateJSON) MarshalJSON() ([]byte, error) { <-l; return []byte(`"late"`), nil }

// While a line is written and another one is built, the lines that are queued use other memory.
func TestLinesDoNotShareMemory(t *testing.T) {
	for _, row := range []struct{ sent, got string }{ // what waits in a Write: a line in new memory, one in that of an earlier line, or nothing
		{"2+ none", "2! -32601 Method not found: none"},
		{"2+ call hi", "2+ said hi"},
		{"", ""},
	} {
		bubble(t, func(t *testing.T, s *stage) {
			built, release := make(chan struct{}), make(chan struct{})
			AddTool(&s.Server, Tool{Name: "late"}, func(context.Context, none) (Content, error) {
				return Content{Type: "text", Text: "x", Meta: map[string]any{"at": lateJSON(built)}}, nil
			})
			c := serve(t, &s.Server)
			c.send("1+ call hi")
			c.want("1+ said hi")
			want := []string{"4+ said hi", "5+ said hi", `3+ {"content":[{"type":"text","text":"x","_meta":{"at":"late"}}]}`, "6+ said hi"}
			if row.sent != "" {
				c.setFail(func(b []byte) (int, error) { <-release; return len(b), nil })
				c.send(row.sent)
				want = append(want, row.got)
			}
			for _, line := range []string{"3+ call late", "4+ call hi", "5+ call hi"} {
				synctest.Wait()
				c.send(line)
			}
			synctest.Wait()
			close(built)
			synctest.Wait()
			c.send("6+ call hi")
			synctest.Wait()
			close(release)
			c.wantInAnyOrder(want...)
		})
	}
}

// A Write that has failed may still use its memory, as that of an HTTP/2 stream does after a time-out.
func TestMemoryOfAFailedWriteIsNotUsedAgain(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) {
		c, boom := serve(t, &s.Server), errors.New("boom")
		var failed []byte
		var text string
		c.setFail(func(b []byte) (int, error) {
			failed, text = b, string(b)
			return 0, boom
		})
		c.send("1+ call wait", "2+ call hi")
		c.ends(0, boom)
		if s.saw(t, boom); text == "" || string(failed) != text {
			t.Errorf("the line of a failed Write has become %q", failed)
		}
	})
}

// Each request that was read ahead while too much output was unsent gets one response, however
// the session ends: after the end of ctx, and of the input without CancelDelay, an error with the
// cause. What has no valid id gets none.
func TestRequestsReadAheadAreAnswered(t *testing.T) {
	boom := errors.New("boom")
	for i, row := range []struct {
		linger time.Duration
		end    func(*client)
		cause  string // "" if the requests are served
	}{
		{0, func(c *client) { c.cancel(boom) }, "boom"},
		{0, func(c *client) { c.in.Close() }, ErrClosed.Error()},
		{0, func(c *client) { c.in.CloseWithError(boom) }, "boom"},
		{time.Hour, func(c *client) { c.in.Close() }, ""},
	} {
		bubble(t, func(t *testing.T, s *stage) {
			s.CancelDelay = row.linger
			add(&s.Server, "big", func(context.Context) (string, error) { return strings.Repeat("x", outputBound), nil })
			c, release := serve(t, &s.Server), make(chan struct{})
			c.initialize("2025-03-26", "{}")
			c.setFail(func(b []byte) (int, error) { <-release; return len(b), nil })
			c.send("0 call big")
			synctest.Wait()
			c.send("1 call hi", "2 ping", "3+ tools/list",
				"["+full("4 call hi")+`,{"jsonrpc":"2.0","id":5,"method":"none"},7]`, `{"id":6,"method":"ping"}`, `{"jsonrpc":"2.0","id":7}`,
				`8+ subscriptions/listen {"notifications":{"toolsListChanged":true}}`, "garbage", `{"jsonrpc":"2.0","id":[],"method":"ping"}`, "[]", "\xff",
				`{"jsonrpc":"2.0","method":"x"}`, `{"id":9,"result":1}`, "10+ call none")
			synctest.Wait() // all of it was read
			row.end(c)
			synctest.Wait()
			close(release)
			<-c.done
			seen := make(map[string]int)
			for _, line := range c.recv() {
				var m struct {
					ID    json.RawMessage
					Error struct{ Message string }
				}
				json.Unmarshal([]byte(line), &m)
				id, invalid := string(m.ID), strings.HasPrefix(m.Error.Message, "Invalid Request")
				if seen[id]++; row.cause != "" && id != "0" && m.Error.Message != row.cause && !((id == "6" || id == "7") && invalid) {
					t.Errorf("%s: got %s", row.cause, line)
				}
			}
			want := map[string]int{"0": 1, "1": 1, "2": 1, "3": 1, "4": 1, "5": 1, "6": 1, "7": 1, "8": 1, "10": 1}
			if row.cause == "" {
				want["null"] = 5
			}
			if !maps.Equal(seen, want) {
				t.Errorf("%d, %q: responses %v, want %v", i, row.cause, seen, want)
			}
			s.ran(t, map[bool][]string{true: {"1", "4"}}[row.cause == ""]...)
		})
	}
}

// A Progress that waits for the client to read returns when its request or the session
// ends.
func TestEveryEndWakesProgress(t *testing.T) {
	boom := errors.New("boom")
	for _, row := range []struct {
		event func(*client)
		cause error
		lasts time.Duration // of Serve; the client never reads
		err   error
	}{
		{func(c *client) { c.send("cancel 1"); synctest.Wait(); c.in.Close() }, stopped, 1100 * time.Millisecond, ErrWaitDelay},
		{func(c *client) { c.in.Close() }, ErrClosed, 1100 * time.Millisecond, ErrWaitDelay},
		{func(c *client) { c.cancel(boom) }, boom, 1100 * time.Millisecond, ErrWaitDelay},
		{func(c *client) { c.hangUp(io.ErrClosedPipe) }, ErrClosed, 0, nil},
		{func(c *client) { c.hangUp(boom) }, boom, 0, boom},
	} {
		bubble(t, func(t *testing.T, s *stage) {
			add(&s.Server, "report", func(ctx context.Context) (string, error) {
				Progress(context.WithoutCancel(ctx), 1, 0, "")
				<-ctx.Done() // if w fails, Progress returns a moment before
				s.end(context.Cause(ctx))
				return "reported", nil
			})
			c := serveUnread(t, &s.Server)
			c.send("1+ call report @1")
			time.Sleep(time.Hour)
			s.saw(t)
			row.event(c)
			s.saw(t, row.cause)
			c.ends(row.lasts, row.err)
		})
	}
	bubble(t, func(t *testing.T, s *stage) { // the client reads
		c := serveUnread(t, &s.Server)
		c.send("1+ call sleep1 @1")
		time.Sleep(time.Hour)
		c.listen()
		c.want(progressLine("1", "1"))
		time.Sleep(progressGap - 1)
		c.want()
		time.Sleep(1)
		c.want("1+ said slept")
	})
}

// The response to a request that has reported progress comes progressGap after it, whatever it
// is. Meanwhile other requests are served, and no more progress is sent.
func TestProgressPrecedesItsResponse(t *testing.T) {
	ends := map[string]struct {
		f    func(context.Context) error
		want string
	}{
		"result":         {func(context.Context) error { return nil }, `"result":`},
		"error":          {func(context.Context) error { return errors.New("no") }, `no"`},
		"protocol error": {func(context.Context) error { return &Error{Code: 7, Message: "no"} }, `"code":7`},
		"panic":          {func(context.Context) error { panic("no") }, "Internal error"},
		"Goexit":         {func(context.Context) error { runtime.Goexit(); return nil }, "Internal error"},
		"question":       {func(ctx context.Context) error { _, err := listRoots(ctx); return err }, `input_required`},
	}
	for name, end := range ends {
		s := &Server{}
		handle := func(ctx context.Context) error {
			Progress(ctx, 1, 0, "")
			go Progress(context.WithoutCancel(ctx), 2, 0, "of a goroutine that the handler has left")
			return end.f(ctx)
		}
		add(s, "t", func(ctx context.Context) (string, error) { return "", handle(ctx) })
		s.AddPrompt(Prompt{Name: "p", Arguments: []PromptArgument{{Name: "a", Complete: func(ctx context.Context, _ string, _ map[string]string) ([]string, error) {
			return nil, handle(ctx)
		}}}}, func(ctx context.Context, _ map[string]string) ([]PromptMessage, error) { return nil, handle(ctx) })
		s.AddResource(Resource{URI: "x:a", Name: "a"}, func(ctx context.Context, _ string, _ map[string]string) ([]ResourceContents, error) {
			return nil, handle(ctx)
		})
		s.AddMethod("x/y", func(ctx context.Context, _ json.RawMessage) (any, error) { return nil, handle(ctx) })
		AddTool(s, Tool{Name: "hidden", Enabled: func(ctx context.Context) bool {
			if requestOf(ctx).service.isList {
				handle(ctx)
			}
			return true
		}}, func(context.Context, none) (string, error) { return "", nil })
		for _, era := range eras {
			inBubbleWith(t, s, era.version, `{"roots":{}}`, func(c *client) {
				for _, request := range []string{
					`tools/call {"name":"t"`, `prompts/get {"name":"p"`, `resources/read {"uri":"x:a"`, `x/y {"n":1`, `tools/list {"n":1`,
					`completion/complete {"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"a","value":""}`,
				} {
					asks := strings.Contains(request, "call") || strings.Contains(request, "get") || strings.Contains(request, "read")
					if name == "question" && (era.version != "" || !asks) {
						continue // no response has the question
					}
					got := strings.Join(c.ask("1"+era.plus+" "+request+`,"_meta":{"progressToken":1}}`, `"l"+ server/discover`), "\n")
					if !strings.Contains(got, `"id":"l"`) || !strings.Contains(got, `"progress":1}`) || strings.Contains(got, `"id":1`) {
						t.Errorf("%s, %s: at first %q", name, request, got)
					}
					time.Sleep(progressGap - 1)
					if early := strings.Join(c.recv(), "\n"); strings.Contains(early, `"id":1`) {
						t.Errorf("%s, %s: too early %q", name, request, early)
					}
					time.Sleep(1)
					if last := c.recv(); len(last) != 1 || !strings.Contains(last[0], `"id":1`) || !strings.Contains(request, "list") && !strings.Contains(last[0], end.want) {
						t.Errorf("%s, %s: then %q", name, request, last)
					}
				}
			})
		}
	}
}

// The time between progress and response ends with the request and with the session. It counts
// for MaxConcurrent.
func TestProgressGapEnds(t *testing.T) {
	done := progressLine("7", "1")
	report := func(s *stage) {
		add(&s.Server, "report", func(ctx context.Context) (string, error) { Progress(ctx, 1, 0, ""); return "reported", nil })
		add(&s.Server, "early", func(ctx context.Context) (string, error) {
			Progress(ctx, 1, 0, "")
			left := context.WithoutCancel(ctx)
			time.AfterFunc(progressGap/2, func() { Progress(left, 2, 0, "late") })
			return "early", nil
		})
	}
	bubble(t, func(t *testing.T, s *stage) {
		s.MaxConcurrent = 1
		report(s)
		c := serve(t, &s.Server)
		c.play("> 1+ call hi @7", "< 1+ said hi") // no progress, no wait
		c.send("1+ call report @7", "2+ call hi", pingLine)
		c.want(done, pongLine)
		time.Sleep(progressGap)
		c.want("1+ said reported", "2+ said hi")
		c.send("1+ call report @7", "2+ call hi")
		c.want(done)
		c.play("> cancel 1", "< 2+ said hi")
		c.send("1+ call early @7")
		c.want(done)
		time.Sleep(progressGap)
		c.want("1+ said early")
	})
	bubble(t, func(t *testing.T, s *stage) { // progress of another goroutine, which the client has not read
		add(&s.Server, "leave", func(ctx context.Context) (string, error) {
			go Progress(ctx, 1, 0, "")
			time.Sleep(time.Second)
			return "left", nil
		})
		c := serveUnread(t, &s.Server)
		c.send("1+ call leave @7")
		time.Sleep(time.Hour)
		c.listen()
		c.want(done)
		time.Sleep(progressGap - 1)
		c.want()
		time.Sleep(1)
		c.want("1+ said left")
	})
	for _, delay := range []time.Duration{0, time.Second} {
		for _, end := range []func(*client){func(c *client) { c.in.Close() }, func(c *client) { c.cancel(ErrClosed) }} {
			bubble(t, func(t *testing.T, s *stage) {
				s.CancelDelay = delay
				report(s)
				c := serve(t, &s.Server)
				c.send("1+ call report @7")
				c.want(done)
				end(c)
				c.ends(0, nil)
				c.want("1+ said reported")
			})
		}
	}
}

// ---- asking the client ----

// The client's response to a question is a result, an error, or reported as invalid.
// TestAskingInBothEras has the other responses.
func TestClientResponses(t *testing.T) {
	inBubbleWith(t, asker(askRoots), legacyPV, everyCap, func(c *client) {
		for i, tt := range []struct{ response, want string }{
			{`"error":"x"`, "error: mcp: the client responded with an error: no message (no code)"},
			{`"method":null,"params":null,"result":{"roots":[]}`, `"[]"`},
			{`"result":{"roots":[]},"error":{"code":1,"message":"m"}`, "error: mcp: the client responded with an error: m (1)"},
			{`"result":{"roots":[]},"error":null`, `"[]"`},
			{`"error":null,"result":{"roots":[]}`, `"[]"`},
			{`"error":null`, "error: mcp: the client responded with an error: no message (no code)"},
		} {
			id := strconv.Itoa(i + 1)
			c.play(fmt.Sprint("> ", id, " call ask"), fmt.Sprint("< ", id, " roots/list {}"))
			c.send(`{"jsonrpc":"2.0",` + tt.response + `,"id":` + id + `}`)
			if got := c.recv(); len(got) != 1 || !strings.Contains(got[0], tt.want) {
				t.Errorf("%s: got %q", tt.response, got)
			}
		}
	})
}

// The ids of our requests are independent of the client's ids and are not used again.
// Questions may be asked concurrently, and responses may come in any order.
func TestIDsOfQuestions(t *testing.T) {
	askThree := func(ctx context.Context) (string, error) {
		var wg sync.WaitGroup
		texts, errs := make([]string, 3), make([]error, 3)
		for i := range texts {
			wg.Go(func() {
				time.Sleep(time.Duration(i)) // so that the ids are in order
				roots, err := listRoots(ctx)
				texts[i], errs[i] = fmt.Sprint(len(roots), err), err
			})
		}
		wg.Wait()
		return outcome(strings.Join(texts, ";"), errors.Join(errs...))
	}
	inBubbleWith(t, asker(askThree), "2025-11-25", everyCap, func(c *client) {
		asks := func(id, question int) {
			c.t.Helper()
			c.send(fmt.Sprint(id, " call ask"))
			time.Sleep(3)
			c.want(fmt.Sprint(question, " roots/list {}"), fmt.Sprint(question+1, " roots/list {}"), fmt.Sprint(question+2, " roots/list {}"))
		}
		asks(2, 1) // a question has the same id
		c.send(`2 {"roots":[{"uri":"file:///x"}]}`)
		c.want()
		asks(3, 4)
		for _, id := range []int{5, 4, 3, 1, 6} {
			c.send(fmt.Sprint(id, ` {"roots":[]}`))
		}
		c.wantInAnyOrder("2 said 0 <nil>;1 <nil>;0 <nil>", "3 said 0 <nil>;0 <nil>;0 <nil>")
		asks(7, 7)
		c.send("cancel 8") // the id of a question, which the client cannot cancel
		c.want()
		c.send("cancel 7")
		c.wantInAnyOrder(withdrawn(7), withdrawn(8), withdrawn(9))
	})
	inBubbleWith(t, asker(askThree), "", everyCap, func(c *client) { // equal questions for roots share the answer
		c.send("1+ call ask")
		time.Sleep(3)
		c.want(`1? {"$k":{"method":"roots/list","params":{}}}`)
		c.send(`2+ tools/call {"name":"ask","inputResponses":{"$k":{"roots":[{}]}},"requestState":"$STATE"}`)
		time.Sleep(3)
		c.want("2+ said 1 <nil>;1 <nil>;1 <nil>")
	})
	seen := make(map[string]bool)
	inBubbleWith(t, asker(askURL), "2025-11-25", everyCap, func(c *client) {
		for id := 1; id <= 20; id++ {
			c.send(fmt.Sprint(id, " call ask"))
			var m struct {
				Params struct{ ElicitationID string }
			}
			got := c.recv()
			if err := json.Unmarshal([]byte(got[0]), &m); err != nil || m.Params.ElicitationID == "" || seen[m.Params.ElicitationID] {
				t.Fatalf("%q: the elicitationId is not new", got)
			}
			seen[m.Params.ElicitationID] = true
			c.play(fmt.Sprint("> ", id, ` {"action":"accept"}`), fmt.Sprint("< ", id, " said agreed"))
		}
	})
}

// How questions of the older revisions end without a valid response. See
// TestQuestionsEndWithTheSession for the end of the session.
func TestQuestionsWithoutAResponse(t *testing.T) {
	q := "1 elicitation/create " + confirmAsk
	detached := func(ctx context.Context) (string, error) { return askOnce(context.WithoutCancel(ctx)) }
	const cancel = `notifications/cancelled {"requestId":1}`
	cancels := func(c *client) {
		c.play("> "+cancel, "< "+withdrawn(1))
		c.send("1 " + confirmYes) // too late
	}
	for name, test := range map[string]struct {
		ask  askFunc
		play func(*client)
	}{
		"deadline": {func(ctx context.Context) (string, error) {
			ctx, stop := context.WithTimeout(ctx, time.Minute)
			defer stop()
			return askOnce(ctx)
		}, func(c *client) {
			time.Sleep(time.Minute - 1)
			c.want()
			time.Sleep(1)
			c.want(withdrawn(1), "1 said error: context deadline exceeded")
			c.send("1 " + confirmYes) // too late
		}},
		"deadline with a cause": {func(ctx context.Context) (string, error) {
			ctx, stop := context.WithTimeoutCause(ctx, time.Minute, errors.New("lunch"))
			defer stop()
			return askOnce(ctx)
		}, func(c *client) {
			time.Sleep(time.Minute)
			c.want(withdrawn(1), "1 said error: lunch")
		}},
		"cancelled":           {askOnce, cancels},
		"cancelled, detached": {detached, cancels},
		"asked after the cancel": {func(ctx context.Context) (string, error) {
			askOnce(ctx)
			askOnce(context.WithoutCancel(ctx))
			Progress(ctx, 1, 1, "")
			return "", nil
		}, cancels},
		"response before the cancel": {askOnce, func(c *client) {
			c.send("1 "+confirmYes, cancel)
			if got := c.recv(); len(got) > 1 || len(got) == 1 && !sameJSON(c.t, got[0], "1 said true") {
				c.t.Errorf("got %q", got)
			}
		}},
		"result null": {askOnce, func(c *client) {
			c.send(`{"jsonrpc":"2.0","id":1,"result":null}`)
			if got := c.recv(); len(got) != 1 || !strings.Contains(got[0], "the client's answer is invalid: ") {
				c.t.Errorf("got %q", got)
			}
		}},
		"strange ids": {askOnce, func(c *client) {
			for _, id := range []string{`"1.0"`, `"01"`, `" 1"`, `1.5`, `10`, `true`, `2`, `0`, `-1`, `null`, `[1]`, `""`, `"init"`} {
				c.send(`{"jsonrpc":"2.0","id":` + id + `,"result":` + confirmYes + "}")
			}
			c.send(`cancel "1"`)
			c.want()
			c.send("1.0 "+confirmYes, `1 {"action":"decline"}`)
			c.want("1 said true")
		}},
		"id as a text": {askOnce, func(c *client) {
			c.send(`"1" `+confirmYes, `1 {"action":"decline"}`)
			c.want("1 said true")
		}},
		"id as a text with escapes, and an error": {askOnce, func(c *client) {
			c.send(`"\u0031"! 5 m`)
			c.want("1 said error: mcp: the client responded with an error: m (5)")
		}},
		"not UTF-8": {askOnce, func(c *client) {
			c.send(`1 {"action":"accept","content":{"ok":true,"x":"`+"\xe9"+`"}}`, "1 "+confirmYes)
			c.want("1 said error: mcp: the client's response is not UTF-8")
		}},
		"an error that is not UTF-8": {detached, func(c *client) {
			c.send(`{"jsonrpc":"2.0","id":"1","error":{"code":5,"message":"` + "\xe9" + `"}}`)
			c.want("1 said error: mcp: the client's response is not UTF-8")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := asker(test.ask)
			inBubbleWith(t, s, "2025-11-25", everyCap, func(c *client) {
				c.send("1 call ask")
				if got := c.recv(); len(got) != 1 || !strings.Contains(got[0], `"id":1,"method":`) || strings.Contains(got[0], "elicit") && !sameJSON(t, got[0], q) {
					t.Fatalf("got %q", got)
				}
				test.play(c)
				if synctest.Wait(); len(s.openSessions()[0].pending) > 0 {
					t.Error("the question is kept")
				}
			})
		})
	}
}

// A question is not sent outside of a handler, or if its context or its request has ended. See
// TestQuestionsEndWithTheSession for the end of the session.
func TestQuestionsAfterTheEnd(t *testing.T) {
	kept := make(chan context.Context, 2)
	s := asker(func(ctx context.Context) (string, error) {
		late, stop := context.WithCancelCause(ctx)
		stop(errors.New("too late"))
		kept <- ctx
		return askOnce(late)
	})
	inBubbleWith(t, s, "2025-11-25", everyCap, func(c *client) {
		c.send("1 call ask", "2+ call ask")
		c.wantInAnyOrder("1 said error: too late", "2+ said error: too late")
		for range 2 {
			if text, _ := askOnce(context.WithoutCancel(<-kept)); text != "error: context canceled" {
				t.Errorf("after the response: %q", text)
			}
		}
	})
	// After EOF a question fails at once, also while the handler may go on.
	s = asker(func(ctx context.Context) (string, error) {
		time.Sleep(time.Second)
		return askOnce(ctx)
	})
	s.CancelDelay = 2 * time.Second
	inBubbleWith(t, s, "2025-11-25", everyCap, func(c *client) {
		c.send("1 call ask", "2+ call ask")
		synctest.Wait()
		c.in.Close()
		time.Sleep(time.Second)
		c.wantInAnyOrder("1 said closed", "2+ said closed")
	})
	for _, ask := range []askFunc{askOnce, askURL, askRoots, askByHand, askConsent, askModel(hiAsk)} {
		if text, err := ask(t.Context()); text != "" || !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "outside of a handler") {
			t.Errorf("outside of a handler: %q, %v", text, err)
		}
	}
}

// A modern handler that asks in a loop, without returning the error, ends when its request
// is cancelled.
func TestLoopOfQuestionsEnds(t *testing.T) {
	cancelled := false
	s := asker(func(ctx context.Context) (string, error) {
		for {
			time.Sleep(time.Second)
			if _, err := confirm(ctx, "a"); !errors.Is(err, ErrInputRequired) {
				cancelled = errors.As(err, new(*CancelledError))
				return "", err
			}
		}
	})
	inBubbleWith(t, s, "", everyCap, func(c *client) {
		c.send("1+ call ask")
		time.Sleep(time.Minute)
		c.send("cancel 1")
		time.Sleep(time.Minute)
		if c.want(); !cancelled {
			t.Error("the loop continues")
		}
	})
}

// A context that is used after its handler has returned has ended, whether or not the handler
// used it. It has the values and the deadline of the context of Serve.
func TestContextEndsWithItsRequest(t *testing.T) {
	for _, early := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			type key struct{}
			var kept context.Context
			s := &Server{Name: "demo", Version: "1"}
			add(s, "keep", func(ctx context.Context) (string, error) {
				if kept = ctx; early && ctx.Err() != nil {
					t.Error(ctx.Err())
				}
				return "", nil
			})
			deadline := time.Now().Add(time.Hour)
			ctx, cancel := context.WithDeadline(context.WithValue(t.Context(), key{}, "theirs"), deadline)
			defer cancel()
			if err := s.Serve(ctx, strings.NewReader(full("1+ call keep")), io.Discard); err != nil {
				t.Error(err)
			}
			child, stop := context.WithCancel(kept)
			defer stop()
			until, _ := kept.Deadline()
			if kept.Err() != context.Canceled || context.Cause(child) != context.Canceled || kept.Value(key{}) != "theirs" || RequestFrom(child).Method == "" || !until.Equal(deadline) {
				t.Errorf("%v, %v, %v, %v, %v", kept.Err(), context.Cause(child), kept.Value(key{}), RequestFrom(child), until)
			}
		})
	}
}

// ---- changes ----

const changed = "notifications/tools/list_changed"

// A legacy session is notified of changes of the lists that were declared to it, once
// notifications/initialized has arrived.
func TestListChanged(t *testing.T) {
	for _, list := range lists {
		notified := "< notifications/" + list.change + "/list_changed"
		s := &Server{}
		list.add(s, "a", "")
		synctest.Test(t, func(t *testing.T) {
			c, early, modern := serve(t, s), serve(t, s), serve(t, s)
			modern.ask("1+ server/discover") // is not notified
			early.ask(`0 initialize 2024-11-05`)
			c.initialize("2025-11-25", "{}")
			list.add(s, "b", "")
			c.play(notified)
			list.add(s, "b", "replaced")
			c.play(notified)
			list.remove(s, "none")
			c.play("")
			list.remove(s, "a", "none")
			c.play(notified)
			early.play("> 1 ping", "< 1 {}", "> notifications/initialized\n"+notified, "> notifications/initialized", "> 2 ping", "< 2 {}")
			list.add(s, "c", "")
			early.play(notified)
			c.play(notified)
		})
	}
	s := &Server{} // changes of what was not declared
	lists[tools].add(s, "a", "")
	inBubble(t, s, "2025-11-25", func(c *client) {
		lists[prompts].add(s, "b", "")
		lists[templates].add(s, "c", "")
		s.ResourceUpdated("x:c")
		c.play("> 1 ping", "< 1 {}")
	})
}

// A list is announced as changed only if it has changed. What is added again alike is replaced
// without a notification: its functions are the new ones.
func TestListThatDidNotChange(t *testing.T) {
	for k, list := range lists {
		s := &Server{}
		list.add(s, "a", "")
		list.add(s, "b", "")
		notified := "< notifications/" + list.change + "/list_changed"
		const stream = `"sub"+ subscriptions/listen {"notifications":{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true}}`
		for _, era := range eras {
			inBubble(t, s, era.version, func(c *client) {
				notified := notified
				if era.version == "" {
					c.send(stream)
					c.recv()
					notified += ` {"_meta":{"io.modelcontextprotocol/subscriptionId":"sub"}}`
				}
				list.add(s, "a", "")
				list.add(s, "b", "")
				c.play("")
				list.add(s, "a", "changed")
				c.play(notified)
				list.add(s, "a", "changed")
				c.play("")
				list.add(s, "a", "")
				c.play(notified)
				list.remove(s, "b")
				c.play(notified)
				list.add(s, "b", "")
				c.play(notified)
				if declaredAs[k] == resources { // what no list has
					for range 2 {
						s.AddResource(Resource{URI: "note://my note", Name: "a"}, texts(""))
						s.AddResource(Resource{URI: "note://my note{v}", Name: "a"}, texts(""))
						s.RemoveResources("note://my note", "note://my note{v}")
					}
					c.play("")
				}
			})
		}
	}
	s := &Server{}
	enabled := func(context.Context) bool { return true }
	addAll := func(result string) {
		AddTool(s, Tool{Name: "t"}, func(context.Context, none) (string, error) { return result, nil })
		s.AddResource(Resource{URI: "x:a", Name: "a"}, texts(result))
		s.AddResource(Resource{URI: "y:{v}", Name: "a", Complete: map[string]CompleteFunc{"v": words(result)}}, texts(result))
		s.AddPrompt(Prompt{Name: "p", Arguments: []PromptArgument{{Name: "a", Complete: words(result)}}}, promptOf(Text(result)))
	}
	addAll("old")
	inBubble(t, s, legacyPV, func(c *client) {
		for _, result := range []string{"old", "new"} {
			addAll(result)
			for _, request := range []string{`tools/call {"name":"t"}`, `resources/read {"uri":"x:a"}`, `resources/read {"uri":"y:a"}`, `prompts/get {"name":"p"}`,
				`completion/complete {"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"a","value":""}}`,
				`completion/complete {"ref":{"type":"ref/resource","uri":"y:{v}"},"argument":{"name":"v","value":""}}`} {
				if got := c.ask("1 " + request); len(got) != 1 || !strings.Contains(got[0], `"`+result+`"`) {
					t.Errorf("%s: got %q, want %q", request, got, result)
				}
			}
		}
		// Whether these are listed as before is known only when a client asks.
		for range 2 {
			addEmpty(s, Tool{Name: "t", Enabled: enabled})
			c.play("< notifications/tools/list_changed")
		}
		addEmpty(s, Tool{Name: "t"})
		c.play("< notifications/tools/list_changed")
	})
}

// A client that lists its tools after each notification, and a program that adds its tools again
// for each list, come to rest, also if a tool is left out.
func TestListsComeToRest(t *testing.T) {
	for _, era := range eras {
		s := &Server{}
		addAll := func() {
			for _, list := range lists {
				list.add(s, "a", "")
				list.add(s, "b", "")
			}
		}
		addAll()
		addEmpty(s, Tool{Name: "first", Enabled: func(context.Context) bool {
			addAll()
			byHand[any](s, `{"type":"object","properties":{"a":{"minLength":null}}}`)
			return true
		}})
		inBubble(t, s, era.version, func(c *client) {
			if era.version == "" {
				c.ask("1" + era.plus + ` subscriptions/listen {"notifications":{"toolsListChanged":true,"resourcesListChanged":true}}`)
			}
			s.RemoveTools("a")
			asked := 0
			for ; asked < 10 && strings.Contains(strings.Join(c.recv(), ""), "list_changed"); asked++ {
				c.send("2" + era.plus + " tools/list")
			}
			if asked != 2 { // the first adds the tool that was removed
				t.Errorf("%s: listed %d times", era.name, asked)
			}
		})
	}
}

// subscriptions/listen is acknowledged with the notifications that the server offers, and
// the client receives only these.
func TestStreams(t *testing.T) {
	s := &Server{}
	lists[tools].add(s, "a", "")
	const tag = `"_meta":{"io.modelcontextprotocol/subscriptionId":`
	inBubble(t, s, "", func(c *client) { // without resources
		c.play(`
			> 1+ subscriptions/listen {"notifications":{"resourcesListChanged":true,"toolsListChanged":true,"resourceSubscriptions":["x:a"]}}
			< notifications/subscriptions/acknowledged {` + tag + `1},"notifications":{"toolsListChanged":true}}`)
		s.ResourceUpdated("x:a")
	})
	lists[resources].add(s, "a", "")
	inBubble(t, s, "", func(c *client) {
		c.play(`
			> 1+ subscriptions/listen {"notifications":{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":false,"resourceSubscriptions":["x:a"],"unknown":7}}
			< notifications/subscriptions/acknowledged {` + tag + `1},"notifications":{"toolsListChanged":true,"resourceSubscriptions":["x:a"]}}
			> "1"+ subscriptions/listen {"notifications":{"toolsListChanged":true,"promptsListChanged":null,"resourcesListChanged":true,"resourceSubscriptions":null}}
			< notifications/subscriptions/acknowledged {` + tag + `"1"},"notifications":{"toolsListChanged":true,"resourcesListChanged":true}}
			> 0+ subscriptions/listen {"notifications":{"promptsListChanged":true}}
			< notifications/subscriptions/acknowledged {` + tag + `0},"notifications":{}}
			> 1+ subscriptions/listen {"notifications":{}}
			< null! -32600 Invalid Request: id 1 is in use
			> 1.0+ subscriptions/listen {"notifications":{}}
			< null! -32600 Invalid Request: id 1.0 is in use
			# names are exact; the last member of a name counts; a URI that reads like a list is none
			> 2+ subscriptions/listen {"notifications":{"ToolsListChanged":true,"resourcesListChanged":true,"resourcesListChanged":false,"resourcesubscriptions":["x:a"]}}
			< notifications/subscriptions/acknowledged {` + tag + `2},"notifications":{}}
			> 3+ subscriptions/listen {"notifications":{"resourceSubscriptions":["tools/list_changed"]}}
			< notifications/subscriptions/acknowledged {` + tag + `3},"notifications":{"resourceSubscriptions":["tools/list_changed"]}}`)
		lists[tools].add(s, "b", "")
		c.wantInAnyOrder("notifications/tools/list_changed {"+tag+`"1"}}`, "notifications/tools/list_changed {"+tag+"1}}")
		lists[templates].add(s, "b", "")
		c.play(`< notifications/resources/list_changed {` + tag + `"1"}}`)
		lists[prompts].add(s, "b", "") // there was none when it was subscribed to
		s.ResourceUpdated("x:b")
		s.ResourceUpdated("x:a")
		c.play(`
			< notifications/resources/updated {` + tag + `1},"uri":"x:a"}
			> notifications/cancelled {"requestId":1}`)
		lists[tools].remove(s, "b")
		s.ResourceUpdated("x:a")
		c.play(`
			< notifications/tools/list_changed {` + tag + `"1"}}
			# the id is free again
			> 1+ subscriptions/listen {"notifications":{"promptsListChanged":true}}
			< notifications/subscriptions/acknowledged {` + tag + `1},"notifications":{"promptsListChanged":true}}`)
		lists[prompts].remove(s, "b")
		c.play(`< notifications/prompts/list_changed {` + tag + `1}}`)
	})
}

// A session has 1,024 open streams at most, because the client of go-sdk opens one for each resource.
func TestOpenStreamsAreBounded(t *testing.T) {
	s := &Server{}
	lists[tools].add(s, "a", "")
	for _, era := range eras {
		inBubble(t, s, era.version, func(c *client) {
			open := maxStreams
			if era.version != "" { // the session is notified too, and counts
				open--
			}
			for i := range open {
				c.ask(fmt.Sprintf(`%d+ subscriptions/listen {"notifications":{"toolsListChanged":true}}`, i))
			}
			c.play(`
				> 5000+ subscriptions/listen {"notifications":{}}
				< 5000! -32603 Subscription limit reached: there are too many, or an id or a URI is too long
				> notifications/cancelled {"requestId":7}
				> 5000+ subscriptions/listen {"notifications":{}}
				< notifications/subscriptions/acknowledged {"_meta":{"io.modelcontextprotocol/subscriptionId":5000},"notifications":{}}`)
			lists[tools].add(s, "b", era.name)
			if got := c.recv(); len(got) != maxStreams-1 {
				t.Errorf("%s: %d notifications", era.name, len(got))
			}
		})
	}
}

// A legacy session is notified of changes of the resources that it has subscribed to
// only.
func TestResourceSubscriptions(t *testing.T) {
	s := &Server{}
	s.AddResource(Resource{URI: "demo://a", Name: "a"}, texts("A"))
	synctest.Test(t, func(t *testing.T) {
		c, other := serve(t, s), serve(t, s)
		c.initialize("2025-11-25", "{}")
		other.initialize("2024-11-05", "{}")
		s.ResourceUpdated("demo://a")
		c.play(`
			# before this, no client has subscribed
			> 4 resources/subscribe {"uri":"demo://a"}
			< 4 {}
			> 5 resources/subscribe {"uri":"demo://a"}
			< 5 {}
			> 6 resources/subscribe {"uri":"demo://unknown?%22it%22"}
			< 6 {}`)
		s.ResourceUpdated("demo://a")
		s.ResourceUpdated("demo://b")
		c.play(`< notifications/resources/updated {"uri":"demo://a"}`)
		s.ResourceUpdated(`demo://unknown?%22it%22`)
		c.play(`
			< notifications/resources/updated {"uri":"demo://unknown?%22it%22"}
			> 9 resources/unsubscribe {"uri":"demo://a"}
			< 9 {}
			> 10 resources/unsubscribe {"uri":"demo://a"}
			< 10 {}
			> 11 resources/unsubscribe {"uri":"demo://never"}
			< 11 {}`)
		s.ResourceUpdated("demo://a")
		c.end()
		other.end()
		s.ResourceUpdated("demo://a") // with no session
	})
}

// What is subscribed to before notifications/initialized counts, too: at once, and only once afterwards.
func TestSubscriptionsBeforeInitialized(t *testing.T) {
	s := &Server{}
	s.AddResource(Resource{URI: "demo://a", Name: "a"}, texts("A"))
	inBubble(t, s, "", func(c *client) {
		c.ask(`"init" initialize 2025-11-25 {}`)
		st := s.openSessions()[0].streams[legacyKey]
		for i := range maxWatched - len(st.watched) {
			st.watched[topic{uri: fmt.Sprintf("demo://%d", i)}] = 0
		}
		c.play(`
			> 1 resources/subscribe {"uri":"demo://one/more"}
			< 1! -32603 Subscription limit reached: there are too many, or an id or a URI is too long
			> 2 resources/unsubscribe {"uri":"demo://7"}
			< 2 {}
			> 3 resources/subscribe {"uri":"demo://one/more"}
			< 3 {}
			> 4 resources/unsubscribe {"uri":"demo://8"}
			< 4 {}
			> notifications/initialized
			> 5 resources/subscribe {"uri":"demo://two/more"}
			< 5 {}
			> 6 resources/subscribe {"uri":"demo://three/more"}
			< 6! -32603 Subscription limit reached: there are too many, or an id or a URI is too long`)
	})
}

// The number and the length of the URIs that a client subscribes to are bounded, and so
// are the id of a subscription and the token of progress, which notifications repeat.
func TestSubscriptionsAreBounded(t *testing.T) {
	s := &Server{}
	s.AddResource(Resource{URI: "demo://a", Name: "a"}, texts("A"))
	inBubble(t, s, "2025-11-25", func(c *client) {
		var many []string
		st := s.openSessions()[0].streams[legacyKey]
		for i := range maxWatched - len(st.watched) {
			uri := fmt.Sprintf("demo://%d", i)
			many = append(many, strconv.Quote(uri))
			st.watched[topic{uri: uri}] = 0
		}
		c.play(`
			> 1 resources/subscribe {"uri":"demo://one/more"}
			< 1! -32603 Subscription limit reached: there are too many, or an id or a URI is too long
			> 2 resources/subscribe {"uri":"demo://7"}
			< 2 {}
			> 3 resources/unsubscribe {"uri":"demo://7"}
			< 3 {}
			> 4 resources/subscribe {"uri":"x:` + strings.Repeat("a", maxURI) + `"}
			< 4! -32603 Subscription limit reached: there are too many, or an id or a URI is too long
			> 4 resources/subscribe {"uri":"demo://one/more"}
			< 4 {}
			> 5+ subscriptions/listen {"notifications":{"resourceSubscriptions":[` + strings.Join(many, ",") + `,"demo://one/more","demo://two/more"]}}
			< 5! -32603 Subscription limit reached: there are too many, or an id or a URI is too long`)
		// The resources of all streams count together, also those of the legacy session.
		c.play(`
			> 5+ subscriptions/listen {"notifications":{"resourceSubscriptions":["demo://7"]}}
			< 5! -32603 Subscription limit reached: there are too many, or an id or a URI is too long
			> 6 resources/unsubscribe {"uri":"demo://9"}
			< 6 {}
			> 7+ subscriptions/listen {"notifications":{"resourceSubscriptions":["demo://8"]}}
			< notifications/subscriptions/acknowledged {"_meta":{"io.modelcontextprotocol/subscriptionId":7},"notifications":{"resourceSubscriptions":["demo://8"]}}
			> 8 resources/subscribe {"uri":"demo://7"}
			< 8! -32603 Subscription limit reached: there are too many, or an id or a URI is too long`)
		long := `"` + strings.Repeat("x", maxRepeated) + `"`
		c.send(long + `+ subscriptions/listen {"notifications":{}}`)
		c.want(fmt.Sprint(long, "! -32603 Subscription limit reached: there are too many, or an id or a URI is too long"))
		c.play("> 1+ call hi @"+long, "< 1! -32602 Invalid params: progressToken is too long")
	})
}

// Many changes while the client does not read are one notification. A change is sent
// again if the last notification of it may have been read already, or if a response was
// queued after it, because the client could take that response for newer.
func TestManyUpdatesAreSentOnce(t *testing.T) {
	s := &Server{}
	lists[resources].add(s, "a", "")
	synctest.Test(t, func(t *testing.T) {
		c := serveUnread(t, s)
		c.send(`"sub"+ subscriptions/listen {"notifications":{"resourcesListChanged":true,"resourceSubscriptions":["x:a"]}}`)
		c.send(opening, `2 resources/subscribe {"uri":"x:a"}`)
		changed := 0
		change := func() { // the first changes are after the responses above, which are unread
			synctest.Wait()
			for range 5 {
				s.ResourceUpdated("x:a")
				changed++
				lists[resources].add(s, "a", strconv.Itoa(changed))
			}
		}
		change()
		c.send(pingLine)
		change()
		c.listen()
		var got []string
		name := regexp.MustCompile(`"(?:notifications/)?(result|[a-z]+/(?:updated|list_changed|acknowledged))"`)
		for _, line := range c.recv() {
			got = append(got, name.FindStringSubmatch(line)[1])
		}
		slices.Sort(got[min(3, len(got)):min(7, len(got))]) // the stream and the session are notified in any order
		slices.Sort(got[min(8, len(got)):])
		changes := []string{"resources/list_changed", "resources/list_changed", "resources/updated", "resources/updated"}
		want := slices.Concat([]string{"subscriptions/acknowledged", "result", "result"}, changes, []string{"result"}, changes)
		if !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		s.ResourceUpdated("x:a")
		if got := c.recv(); len(got) != 2 {
			t.Errorf("a later change has %d notifications: %q", len(got), got)
		}
	})
}

// ---- memory and trace ----

// The memory of requests that were served or cancelled is released, also while others wait, and
// an open subscription keeps nothing of its line, nor of a response before it.
func TestMemoryIsReleased(t *testing.T) {
	skipIfNotMeasurable(t)
	const size = 1 << 20
	pad := strings.Repeat("x", size)
	bubble(t, func(t *testing.T, s *stage) {
		s.MaxConcurrent = 1
		AddTool(&s.Server, Tool{Name: "take"}, func(context.Context, struct{ Text string }) (string, error) { return "", nil })
		c := serve(t, &s.Server)
		c.send("0+ call sleep1")
		for i := range 32 {
			c.send(fmt.Sprint(i+1, `+ call take {"Text":"`+pad+`"}`))
		}
		c.send("100+ call sleep2", "101+ call sleep1")
		synctest.Wait()
		full := heap()
		time.Sleep(time.Second)
		c.recv()
		if kept := heap() - (full - 32*size); kept > 8*size {
			t.Errorf("%d MiB are kept of 32 that were served", kept>>20)
		}
		c.in.Close()
		c.ends(0, nil)
	})
	bubble(t, func(t *testing.T, s *stage) {
		add(&s.Server, "big", func(context.Context) (string, error) { return pad, nil })
		c := serve(t, &s.Server)
		before := heap()
		for i := range 16 {
			c.caps = ""
			c.send("100+ call big")
			c.want("100+ said " + pad)
			c.caps = `{"experimental":{"x":{"y":"` + pad + `"}}}`
			c.send(strconv.Itoa(i) + `+ subscriptions/listen {"notifications":{"toolsListChanged":true}}`)
			if got := c.recv(); len(got) != 1 {
				t.Fatalf("acknowledgements: %.300q", got)
			}
		}
		c.writes = nil
		if kept := heap() - before; kept > 8*size {
			t.Errorf("%d MiB are kept by 16 subscriptions", kept>>20)
		}
	})
	bubble(t, func(t *testing.T, s *stage) { // Intercept works on after next, with a short response after a long one
		s.Intercept = func(ctx context.Context, next func(context.Context) error) error {
			err := next(ctx)
			if RequestFrom(ctx).Name == "hi" {
				<-s.release
			}
			return err
		}
		add(&s.Server, "big", func(context.Context) (string, error) { return pad, nil })
		c := serve(t, &s.Server)
		before := heap()
		for i := range 16 {
			c.send("100+ call big")
			c.want("100+ said " + pad)
			c.send(strconv.Itoa(i) + "+ call hi")
			synctest.Wait()
		}
		c.writes = nil
		if kept := heap() - before; kept > 8*size {
			t.Errorf("%d MiB are kept by 16 calls in Intercept", kept>>20)
		}
		close(s.release)
		c.recv()
	})
	for _, end := range []string{"cancel", "initialize"} {
		bubble(t, func(t *testing.T, s *stage) { // calls that are cancelled while they wait
			s.MaxConcurrent = 1
			c := serve(t, &s.Server)
			c.initialize(legacyPV, "{}")
			c.send("0+ call wait")
			c.recv()
			before := heap()
			for i := range 200 {
				id := strconv.Itoa(i + 1)
				c.send(fmt.Sprint(id, ` call hi {"x":"`+pad+`"}`), pingLine)
				if c.want(pongLine); end == "cancel" {
					c.send("cancel " + id + ".0")
				}
			}
			if end != "cancel" {
				if got := c.ask("1 initialize " + legacyPV + " {}"); len(got) != 200 {
					t.Errorf("%d responses to initialize and 199 calls", len(got))
				}
				c.send("notifications/initialized")
			}
			c.want()
			if kept := heap() - before; kept > 8*size {
				t.Errorf("%s: %d MiB are kept by 200 calls that waited", end, kept>>20)
			}
			c.send("cancel 0", "1+ call hi")
			c.want("1+ said hi")
		})
	}
}

// A request that lasts keeps little more than its own line, however much was read together with
// it.
func TestShortRequestKeepsNoLongLine(t *testing.T) {
	skipIfNotMeasurable(t)
	const size = 10 << 20
	for name, lines := range map[string]func(long, short string) string{
		"after":   func(long, short string) string { return long + "\n" + short },
		"between": func(long, short string) string { return long + "\n\n" + short + "\n" + long },
		"half":    func(long, short string) string { return long[:len(long)/3] + `"}}}` + "\n" + short + "\n" + long },
	} {
		s := asker(askConsent)
		AddTool(s, Tool{Name: "take"}, func(context.Context, struct{ Text string }) (string, error) { return "", nil })
		inBubbleWith(t, s, legacyPV, everyCap, func(c *client) {
			long := `0 call take {"Text":"` + strings.Repeat("x", size) + `"}`
			before := heap()
			for i := range 20 {
				c.send(lines(long, fmt.Sprint(i+1, " call ask")))
				time.Sleep(time.Second)
			}
			questions := 0
			for _, line := range c.recv() {
				questions += strings.Count(line, "elicitation/create")
			}
			heap() // twice, because of a sync.Pool
			if kept := heap() - before; kept > 16<<20 || questions != 20 {
				t.Errorf("%s: %d questions keep %d KiB", name, questions, kept>>10)
			}
			runtime.KeepAlive(long)
			for i := range 20 {
				c.send("cancel " + strconv.Itoa(i+1))
			}
			c.recv()
		})
	}
}

// The trace has each line that was read or written, with its time and direction, except blank ones.
// A last line needs no newline.
func TestTrace(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) {
		out := must(os.CreateTemp(t.TempDir(), "trace"))
		var want []string
		c := serve(t, &s.Server, out)
		for _, line := range []string{pingLine, full("1+ call hi"), "", "rubbish", " " + full("2+ call panic") + "\r", `{"jsonrpc":"2.0","method":"x"}`, pingLine} {
			c.send(line)
			if line != "" {
				want = append(want, "in  "+line)
			}
			for _, response := range c.recv() {
				want = append(want, "out "+response)
			}
		}
		c.end()
		var got []string
		for _, m := range regexp.MustCompile(`(?m)^\d{4}/\d\d/\d\d \d\d:\d\d:\d\d\.\d{6} (.*)$`).FindAllStringSubmatch(contents(out), -1) {
			got = append(got, m[1])
		}
		if !slices.Equal(got, want) {
			t.Errorf("trace:\n%s\nwant:\n%s", contents(out), strings.Join(want, "\n"))
		}
	})
	bubble(t, func(t *testing.T, s *stage) {
		trace := must(os.CreateTemp(t.TempDir(), "trace"))
		s.MaxMessageBytes = 10
		c := serve(t, &s.Server, trace)
		for _, part := range []string{"123456", "789012", "345\n", "1234567890\n", "no newline"} {
			io.WriteString(c.in, part)
		}
		c.in.Close()
		c.ends(0, nil)
		if got := contents(trace); !strings.Contains(got, " in  no newline\n") || !strings.Contains(got, " in  123456789012345\n") || !strings.Contains(got, " in  1234567890\n") {
			t.Errorf("trace:\n%s", got)
		}
	})
	bubble(t, func(t *testing.T, s *stage) { // responses that were not written are not in the trace
		trace := must(os.CreateTemp(t.TempDir(), "trace"))
		c := serveUnread(t, &s.Server, trace)
		c.send("1+ call hi", "2+ call hi")
		synctest.Wait()
		c.hangUp(io.ErrClosedPipe)
		c.ends(0, nil)
		if got := contents(trace); strings.Contains(got, " out ") || strings.Count(got, " in ") != 2 {
			t.Errorf("trace:\n%s", got)
		}
	})
}

// contents closes a file and returns what is in it.
func contents(f *os.File) string {
	f.Close()
	return string(must(os.ReadFile(f.Name())))
}

// Serve waits for the diagnostics, up to WaitDelay. If ErrorLog blocks, it delays no response,
// and a bounded number of diagnostics wait for it.
func TestDiagnosticsDelayNothing(t *testing.T) {
	for _, test := range []struct{ nap, lasts time.Duration }{
		{50 * time.Millisecond, 500 * time.Millisecond}, {time.Minute, time.Second},
	} {
		bubble(t, func(t *testing.T, s *stage) {
			printed := 0
			s.ErrorLog = log.New(writeFunc(func(b []byte) (int, error) {
				time.Sleep(test.nap)
				printed++
				return len(b), nil
			}), "", 0)
			c := serve(t, &s.Server)
			lines := 10
			if test.nap > time.Second {
				lines = 10 * maxReports
			}
			c.send(strings.Repeat("garbage\n", lines-1) + "garbage")
			if got := c.recv(); len(got) != lines {
				t.Errorf("%d of %d responses", len(got), lines)
			}
			c.in.Close()
			c.ends(test.lasts, nil)
			time.Sleep(30 * 24 * time.Hour)
			if synctest.Wait(); printed < min(lines, maxReports) || printed > 2*maxReports+2 {
				t.Errorf("%d diagnostics were printed for %d lines", printed, lines)
			}
		})
	}
}

// ---- the three machines by themselves ----

// Lines do not depend on how the input is cut into Reads. Of a line that is too long only the
// beginning is returned.
func TestLinesDoNotDependOnReads(t *testing.T) {
	long := strings.Repeat("y", keepBuffer+1)
	other := strings.Repeat("z", keepBuffer+1)
	input := "\ufeff one\r\n\n \t\ntwo\n" + long + "\n" + long + long + "END\n" + other + "\nthree\n" + other + "\nlast"
	want := []string{"\ufeff one\r", "", " \t", "two", long, "long", other, "three", other, "last"}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 10 {
		rest := input
		r := &lineReader{limit: 3 * keepBuffer / 2, r: readFunc(func(b []byte) (n int, err error) {
			n = copy(b, rest[:min(len(rest), 1+rng.IntN([]int{2, 100, 1 << 20}[rng.IntN(3)]))])
			if rest = rest[n:]; rest == "" && (n == 0 || rng.IntN(2) == 0) {
				err = io.EOF
			}
			return n, err
		})}
		var got [][]byte // not copied, because a line must not change later
		for done := false; !done; {
			line := r.nextLine()
			switch {
			case len(line) > r.limit:
				got = append(got, []byte("long"))
			case line != nil:
				got = append(got, line)
			case r.err != nil:
				done = true
			case rng.IntN(3) == 0:
				for range 1 + rng.IntN(3) {
					ahead(r)
				}
			default:
				r.readMore()
			}
		}
		if !slices.EqualFunc(got, want, func(line []byte, s string) bool { return string(line) == s }) {
			t.Fatalf("got %.60q, want %.60q", got, want)
		}
	}
}

// The time to read a line that comes in many small Reads does not depend on its length.
func TestSmallReadsTakeLinearTime(t *testing.T) {
	mustBeLinear(t, 2000, func(n int) time.Duration {
		r := &lineReader{limit: 1 << 30, r: readFunc(func(b []byte) (int, error) {
			n--
			return copy(b, strings.Repeat("x", 1000)), nil
		})}
		start := time.Now()
		for n > 0 {
			r.nextLine()
			r.readMore()
		}
		return time.Since(start)
	})
}

// A session that reads one short line needs little memory for it. If lines come together, later Reads
// are larger.
func TestFirstReadIsSmall(t *testing.T) {
	var sizes []int
	rest := strings.Repeat(`{"jsonrpc":"2.0","id":1,"method":"ping"}`+strings.Repeat(" ", 1000)+"\n", 60)
	err := (&Server{Name: "a", Version: "1"}).Serve(t.Context(), readFunc(func(b []byte) (n int, err error) {
		sizes = append(sizes, len(b))
		n = copy(b, rest)
		if rest = rest[n:]; rest == "" {
			err = io.EOF
		}
		return n, err
	}), io.Discard)
	if err != nil || sizes[0] != minRead || slices.Min(sizes) < minRead || slices.Max(sizes) < 2*minRead {
		t.Errorf("Reads of up to %d bytes, %v", sizes, err)
	}
}

// ahead reads ahead once.
func ahead(r *lineReader) {
	if r.readAhead(); r.ahead != nil {
		r.add(<-r.ahead)
	}
}

// While output is stuck, a bounded part of the input is read ahead. A session that is idle
// keeps at most keepBuffer bytes for it, also after that.
func TestIdleSessionKeepsNoInput(t *testing.T) {
	skipIfNotMeasurable(t)
	line := `{"jsonrpc":"2.0","method":"notifications/progress","params":"` + strings.Repeat("x", 1000) + "\"}\n"
	for _, size := range []int{1 << 20, outputBound / 2, outputBound, outputBound + 1<<20} {
		for _, rest := range []string{"", "{", strings.Repeat("x", 300<<10)} { // the start of the next line
			bubble(t, func(t *testing.T, s *stage) {
				input, release := strings.Repeat(line, size/len(line))+rest, make(chan struct{})
				add(&s.Server, "big", func(context.Context) (string, error) { return strings.Repeat("x", outputBound), nil })
				c := serve(t, &s.Server)
				before := heap()
				c.setFail(func(b []byte) (int, error) { <-release; return len(b), nil })
				c.send("1+ call big")
				synctest.Wait()
				sent := make(chan struct{})
				go func() {
					io.WriteString(c.in, input)
					close(sent)
				}()
				synctest.Wait()
				isRead := false
				select {
				case <-sent:
					isRead = true
				default:
				}
				if isRead != (len(input) <= outputBound) {
					t.Errorf("%d bytes: read ahead: %v", size, isRead)
				}
				close(release)
				<-sent
				c.recv()
				c.writes = nil
				heap() // twice, because of a sync.Pool
				if kept := heap() - before; kept > keepBuffer+128<<10 {
					t.Errorf("%d bytes, %.9q: an idle session keeps %d KiB", size, rest, kept>>10)
				}
				c.in.Close()
				<-c.done
				runtime.KeepAlive(input)
			})
		}
	}
}

// readFunc is a Reader that is a function.
type readFunc func(b []byte) (int, error)

func (f readFunc) Read(b []byte) (int, error) { return f(b) }

// ---- fuzzing: sessions ----

const fuzzMeta = `"_meta":{"progressToken":7,"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"roots":{}}}`

func fuzzServer(option byte) *Server {
	s := &Server{Name: "demo", Version: "1", ErrorLog: log.New(io.Discard, "", 0), WaitDelay: 20 * time.Second}
	s.MaxConcurrent = int(option & 1)
	if option&8 != 0 {
		s.MaxMessageBytes = 150
	}
	AddTool(s, Tool{Name: "echo"}, func(ctx context.Context, in struct {
		Text string     `json:"text"`
		N    int        `json:"n,omitempty" minimum:"1" maximum:"9"`
		When *time.Time `json:"when"`
	}) (map[string]any, error) {
		Progress(ctx, 1, 2, in.Text)
		return map[string]any{in.Text: in}, nil
	})
	AddTool(s, Tool{Name: "raw", InputSchema: json.RawMessage(`{"type":"object","properties":{}}`)}, func(_ context.Context, in json.RawMessage) (json.RawMessage, error) { return in, nil })
	add(s, "slow", func(ctx context.Context) (string, error) { <-ctx.Done(); return "late", ctx.Err() })
	add(s, "roots", func(ctx context.Context) (string, error) { return outcome(listRoots(ctx)) })
	add(s, "panic", func(context.Context) (string, error) { panic("!") })
	AddTool(s, Tool{Name: "grow"}, func(context.Context, map[string]string) (string, error) {
		addEmpty(s, Tool{Name: "more"})
		return "", &Error{Code: 1, Message: "\xff", Data: 1.5}
	})
	return s
}

// expectResponse returns the id and the number of the responses to a line of the client. It
// reports doubt if these depend on earlier lines.
func expectResponse(line []byte) (id string, n int, doubt bool) {
	if !json.Valid(line) {
		return "null", 1, false
	}
	if line[0] == '[' {
		return "null", 1, true
	}
	var m map[string]json.RawMessage
	if json.Unmarshal(line, &m) != nil {
		return "null", 1, false
	}
	_, byMethod := m["method"]
	if !byMethod && (m["result"] != nil || m["error"] != nil) {
		return "", 0, false
	}
	var method string
	named := byMethod && m["method"][0] == '"' && json.Unmarshal(m["method"], &method) == nil
	if raw := m["id"]; raw != nil {
		id = string(raw)
		if id[0] != '"' && !isIDNumber(id) || hasHalf(id) || !utf8.Valid(line) && (!byMethod || !utf8.Valid(raw)) {
			id = "null"
		}
		return id, 1, method == "subscriptions/listen"
	}
	if named && utf8.Valid(line) {
		return "", 0, method == "notifications/cancelled"
	}
	return "null", 1, false
}

// duplicates reports whether a name comes twice in an object.
func duplicates(object []byte) bool {
	seen := make(map[string]bool)
	d := json.NewDecoder(bytes.NewReader(object))
	d.Token()
	for d.More() {
		key, _ := d.Token()
		name := key.(string)
		if seen[name] {
			return true
		}
		seen[name] = true
		var val json.RawMessage
		d.Decode(&val)
	}
	return false
}

// Whatever a client sends, it receives lines of JSON: one response to each request.
func FuzzServe(f *testing.F) {
	legacy := written(`"i" initialize 2025-03-26 {"roots":{}}`)
	call := func(id, tool, args string) string { return written(id + " call " + tool + " " + args) }
	for i, seed := range []string{
		legacy + `{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n" + call("1", "echo", `{"text":"hi","n":"5","when":null}`) + call("2", "raw", `{"a" : [1, "x"]}`) + call("3", "slow", "{}") + `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3,"reason":"r"}}`,
		legacy + call("1", "roots", "{}") + `{"jsonrpc":"2.0","id":1,"result":{"roots":[{"uri":"file:///","name":null}]}}` + "\n" + call(`"p"`, "panic", "null") + call("4", "grow", `{"a":"b"}`) + call("5", "grow", `{"":1}`),
		legacy + `[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","method":"x"},{"jsonrpc":"2.0","id":"b","method":"nope"},7,{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"slow"}}]` + "\n[]\n[[]]\n[1,]",
		`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"echo","arguments":{"text":"` + `\ud83d\ude00\ud800","n":5.0},` + fuzzMeta + "}}\r\n" + `{"jsonrpc":"2.0","id":8,"method":"tools/list","params":{"cursor":"1",` + fuzzMeta + "}}",
		`{"jsonrpc":"2.0","id":"L","method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},` + fuzzMeta + "}}\n" + `{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"grow",` + fuzzMeta + "}}\n" + `{"jsonrpc":"2.0","id":"d","method":"server/discover","params":{` + fuzzMeta + "}}",
		"\ufeff" + `{"jsonrpc":"2.0","id":9007199254740993,"method":"ping"}` + "\n" + `{"jsonrpc":"2.0","id":null,"method":"ping"}` + "\n" + `{"jsonrpc":"2.0","id":1.5,"method":"ping"}` + "\n" + `{"jsonrpc":"2.0","id":5,"Method":"ping"}` + "\n" + `{"id":3,"method":"ping"}` + "\n" + `{"jsonrpc":"2.0","id":4,"method":7}`,
		`{"jsonrpc":"2.0","id":1,` + "\n" + `{"jsonrpc":"2.0","method":"tools/list"}` + "\n" + `{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}` + "\n" + `{"jsonrpc":"2.0","i\u0064":5.0,"method":"ping","error":null}` + "\n" + `{"result":{},"id":{}}` + "\n" + `{"id":"z","error":{"code":1,"message":"m"}}` + "\n\xff\n\n \t\r\n" + `{"jsonrpc":"2.0","id":"a","method":"tools/list","params":{"cursor":"bogus"}}`,
		`{"jsonrpc":"2.0","id":"` + "\xff" + `","method":"ping","params":{"long":"` + strings.Repeat("x", 200) + `"}}` + "\n" + `{"jsonrpc":"2.0","id":6,"method":"ping","params":{"long":"` + strings.Repeat("x", 200),
		`{"jsonrpc":"\u` + "\n" + `{"jsonrpc":"2.0","id":"\ud83d\ud` + "\n" + `{"jsonrpc":"2.0","id":1,"method":"\` + "\n" + `{"result":{},"id":"\u00`,
	} {
		for option := range byte(16) {
			if option%5 == byte(i%5) || option&7 == 0 || option == 12 {
				f.Add(option, []byte(seed))
			}
		}
	}
	f.Fuzz(func(t *testing.T, option byte, input []byte) {
		s := fuzzServer(option)
		var in io.Reader = bytes.NewReader(input)
		if option&4 != 0 {
			in = iotest.OneByteReader(in)
		}
		var out bytes.Buffer
		if err := serveTraced(context.Background(), s, in, &out); err != nil {
			t.Fatalf("Serve: %v", err)
		}
		may, lines, total, doubt := make(map[string]int), 0, 0, false
		opened := 0 // sessions of the older revisions, of which each ends the requests of the one before
		for _, line := range bytes.Split(input, []byte("\n")) {
			id, n, d := "null", 1, false
			if len(line) <= cmp.Or(s.MaxMessageBytes, 64<<20) {
				if line = bytes.TrimRight(bytes.TrimLeft(line, "\ufeff \t\r"), " \t\r\n"); len(line) == 0 {
					continue
				}
				id, n, d = expectResponse(line)
				var m struct{ Method string }
				if json.Unmarshal(line, &m); m.Method == "initialize" {
					opened++
				}
			}
			lines++
			may[string(idKey([]byte(id)))] += n // ids are compared by their values
			total += n
			doubt = doubt || d || opened > 1
		}
		got := make(map[string]int)
		responses := 0
		if out.Len() > 0 && out.Bytes()[out.Len()-1] != '\n' {
			t.Errorf("no newline at the end: %q", &out)
		}
		for line := range bytes.Lines(out.Bytes()) {
			line = line[:len(line)-1]
			if !utf8.Valid(line) || !json.Valid(line) {
				t.Errorf("not JSON: %q", line)
				continue
			}
			var m map[string]json.RawMessage
			if err := json.Unmarshal(line, &m); err != nil || string(m["jsonrpc"]) != `"2.0"` || duplicates(line) {
				t.Errorf("not a message: %s", line)
			}
			if m["method"] == nil {
				responses++
				got[string(idKey(m["id"]))]++
				if (m["result"] == nil) == (m["error"] == nil) || m["id"] == nil {
					t.Errorf("not a response: %s", line)
				}
			}
		}
		if !doubt {
			for id := range got {
				if may[id] == 0 && id != "null" {
					t.Errorf("response to no request, id %s", id)
				}
			}
			for id, n := range may { // the second of two with one id is refused with the id null
				if (got[id] > n || n == 1 && got[id] < n) && id != "null" {
					t.Errorf("%d responses to %d requests with the id %s", got[id], n, id)
				}
			}
			if responses != total {
				t.Errorf("%d responses, want %d:\n%s", responses, total, &out)
			}
		} else if !bytes.Contains(input, []byte("[")) && responses > lines {
			t.Errorf("%d responses to %d lines", responses, lines)
		}
	})
}

// ---- speed ----

// A load is a session, outside of a bubble, whose client counts the lines that it receives.
type load struct {
	t    *testing.T
	in   *io.PipeWriter
	came chan int // the numbers of lines of the server's Writes
	end  context.CancelFunc
	done chan error
}

func newLoad(t *testing.T, s *Server) *load {
	r, in := io.Pipe()
	ctx, end := context.WithCancel(context.Background())
	l := &load{t, in, make(chan int, 100), end, make(chan error, 1)}
	s.Name, s.Version, s.ErrorLog = "demo", "1.0.0", log.New(io.Discard, "", 0)
	go func() {
		err := s.Serve(ctx, r, l)
		r.Close() // as an exiting process would
		l.done <- err
	}()
	return l
}

func (l *load) Write(b []byte) (int, error) {
	l.came <- bytes.Count(b, []byte("\n"))
	return len(b), nil
}

// open opens a session of the older revisions.
func (l *load) open() *load {
	l.exchange([]byte(written(opening)), 1)
	return l
}

// exchange sends lines and receives n lines.
func (l *load) exchange(lines []byte, n int) {
	l.in.Write(lines)
	for n > 0 {
		n -= <-l.came
	}
}

// close closes the client's end and waits for the end of the session.
func (l *load) close() {
	l.in.Close()
	if err := <-l.done; err != nil {
		l.t.Errorf("Serve: %v", err)
	}
}

// quick is a server with the tools that are measured, and n more.
func quick(n int) *Server {
	s := new(Server)
	type textIn struct{ Text string }
	type sumIn struct{ A, B int }
	AddTool(s, Tool{Name: "echo"}, func(_ context.Context, in textIn) (string, error) { return in.Text, nil })
	AddTool(s, Tool{Name: "add"}, func(_ context.Context, in sumIn) (sumIn, error) { return sumIn{in.A + in.B, 0}, nil })
	AddTool(s, Tool{Name: "raw", InputSchema: json.RawMessage(`{"type":"object","properties":{}}`)},
		func(_ context.Context, in json.RawMessage) (string, error) { return "raw", nil })
	add(s, "sleep", func(ctx context.Context) (string, error) { <-ctx.Done(); return "", ctx.Err() })
	for i := range n {
		AddTool(s, Tool{Name: "tool_" + strconv.Itoa(i), Description: "One of many."}, func(_ context.Context, in textIn) (string, error) { return "", nil })
	}
	return s
}

// The budget is 13 allocations for a typed call, from its line to its response. The limits here are lower, because a
// response is built in the memory of an earlier one.
func TestAllocations(t *testing.T) {
	skipIfNotMeasurable(t)
	for _, tt := range []struct {
		name, line string
		max        float64
	}{
		{"ping", "1 ping", 2},
		{"raw tool", `1 call raw {"Text":"hello"}`, 10},
		{"typed tool", `1 call echo {"Text":"hello"}`, 8},
		{"structured output", `1 call add {"A":1,"B":2}`, 11},
		{"modern typed tool", `1+ call echo {"Text":"hello"}`, 9},
		{"list", "0 tools/list", 2},
	} {
		l := newLoad(t, quick(0)).open()
		lines := []byte(written(tt.line))
		if n := testing.AllocsPerRun(200, func() { l.exchange(lines, 1) }); n > tt.max {
			t.Errorf("%s: %v allocations, want %v at most", tt.name, n, tt.max)
		}
		l.close()
	}
}

// allocated is how many bytes f allocates.
func allocated(f func()) float64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return float64(after.TotalAlloc - before.TotalAlloc)
}

// The memory that a request costs grows with the bytes of a text and of a list. It depends
// neither on the number of tools nor on the length of the session.
func TestMemoryForARequest(t *testing.T) {
	skipIfNotMeasurable(t)
	const calls = 200
	cost := func(tools int, line string, n int) float64 {
		l := newLoad(t, quick(tools)).open()
		defer l.close()
		lines := []byte(written(line))
		l.exchange(lines, 1)
		return allocated(func() {
			for range n {
				l.exchange(lines, 1)
			}
		}) / float64(n)
	}
	say := `1 call echo {"Text":"hello"}`
	if few, many := cost(10, say, calls), cost(10_000, say, calls); many > 1.1*few {
		t.Errorf("a call costs %.0f bytes with ten tools, %.0f with 10,000", few, many)
	}
	// Collections and other Ps would take the memory that is used again.
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	for _, tools := range []int{1000, 10_000} { // each has 170 bytes of the list
		l := newLoad(t, quick(tools)).open()
		lines := []byte(written("0 tools/list"))
		if n := allocated(func() { l.exchange(lines, 1) }) / float64(tools); n > 250 {
			t.Errorf("in the first list of %d, each tool costs %.0f bytes", tools, n)
		}
		l.close()
		if n := cost(tools, "0 tools/list", 10) / float64(tools); n > 1 {
			t.Errorf("in a list of %d, each tool costs %.1f bytes", tools, n)
		}
	}
	text := func(n int) string { return `1 call echo {"Text":"` + strings.Repeat("x", n) + `"}` }
	// The line and its text are in new memory. The response and the input use memory again.
	for _, size := range []int{1 << 20, 3 << 20} {
		if n := cost(0, text(size), 10); n > 2.1*float64(size) {
			t.Errorf("%d bytes there and back cost %.1f times as many", size, n/float64(size))
		}
		l := newLoad(t, quick(0)).open()
		long, short := []byte(written(text(size))), []byte(written("2 none"))
		l.exchange(long, 1)
		if n := allocated(func() {
			for range 10 { // a short response does not take the place of a long one
				l.exchange(short, 1)
				l.exchange(long, 1)
			}
		}); n > 21*float64(size) {
			t.Errorf("%d bytes there and back, ten times after a short line, cost %.1f times as many", size, n/float64(size))
		}
		l.close()
	}
}

// A call that sleeps has a stack of 4 KB, and a longer one takes 8 KB: checking its arguments must not need more.
func TestStackOfACall(t *testing.T) {
	skipIfNotMeasurable(t)
	if os.Getenv("CI") == "" || runtime.GOOS+runtime.GOARCH != "linuxamd64" {
		t.Skip("other compilers may need more: .ci/run looks at those that it names, on linux/amd64")
	}
	stacks := func() uint64 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.StackInuse
	}
	const calls = 2000
	s, asleep := new(Server), make(chan bool, calls)
	type waitIn struct{ MS int }
	AddTool(s, Tool{Name: "wait"}, func(ctx context.Context, _ waitIn) (string, error) {
		asleep <- true
		<-ctx.Done()
		return "", ctx.Err()
	})
	l := newLoad(t, s).open()
	defer l.close()
	runtime.GC()
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // a collection would shrink the stacks
	before := stacks()
	for i := range calls {
		l.in.Write([]byte(written(fmt.Sprint(i, ` call wait {"MS":1}`))))
		<-asleep
	}
	if each := (stacks() - before) / calls; each > 6<<10 {
		t.Errorf("a call that sleeps has a stack of %d bytes", each)
	}
}

// A result may be nested more deeply than a message, also if it holds nil.
func TestDeepResult(t *testing.T) {
	const depth = maxDepth - 10 // encoding/json of Go 1.27 refuses more than 10,000
	raw := json.RawMessage(strings.Repeat("[", depth) + strings.Repeat("]", depth))
	got, err := marshal(map[string]any{"deep": []any{raw, nil}})
	if want := `{"deep":[` + string(raw) + `,null]}`; err != nil || string(got) != want {
		t.Errorf("got %.50s %v, want %.50s", got, err, want)
	}
	type link struct {
		L    []int
		Next *link
	}
	const links = 20 * maxNesting // not depth: each level of a struct is written anew
	last := &link{}
	for range links {
		last = &link{Next: last}
	}
	want := strings.Repeat(`{"L":[],"Next":`, links) + `{"L":[]}` + strings.Repeat("}", links)
	if got, err := marshal(last); err != nil || string(got) != want {
		t.Errorf("got %.50s %v, want %.50s", got, err, want)
	}
}

// A request that is refused costs little memory, however long its lists are.
func TestRefusedRequestsCostLittle(t *testing.T) {
	skipIfNotMeasurable(t)
	s := quick(0)
	s.AddPrompt(Prompt{Name: "p", Arguments: []PromptArgument{{Name: "a", Complete: func(context.Context, string, map[string]string) ([]string, error) { return nil, nil }}}},
		func(context.Context, map[string]string) ([]PromptMessage, error) { return nil, nil })
	var uris, known []byte
	for i := range 50_000 {
		uris = fmt.Appendf(uris, `,"x:%d"`, i)
		known = fmt.Appendf(known, `,"%d":""`, i)
	}
	for _, line := range []string{
		`1+ subscriptions/listen {"notifications":{"resourceSubscriptions":[` + string(uris[1:]) + `]}}`,
		`1+ completion/complete {"ref":{"type":"ref/prompt","name":"q"},"argument":{"name":"a","value":""},"context":{"arguments":{` + string(known[1:]) + `}}}`,
	} {
		l := newLoad(t, s).open()
		sent := []byte(written(line))
		if n := allocated(func() { l.exchange(sent, 1) }) / float64(len(line)); n > 16 {
			t.Errorf("%.100s costs %.1f times its bytes", line, n)
		}
		l.close()
	}
}

// ---- methods of extensions ----

// A method of an extension is served in both eras, with all that other requests have.
func TestAddMethod(t *testing.T) {
	s := &Server{Extensions: map[string]any{"com.example/skills": struct{}{}}}
	var seen []string
	s.AddMethod("skills/get", func(ctx context.Context, params json.RawMessage) (any, error) {
		seen = append(seen, RequestFrom(ctx).Method+" "+string(params))
		var p struct{ Name, Fail string }
		json.Unmarshal(params, &p)
		switch p.Fail {
		case "error":
			return nil, errors.New("no such skill")
		case "code":
			return nil, &Error{Code: 7, Message: "seven", Data: none{}}
		case "nil":
			return nil, nil
		case "ask":
			_, err := listRoots(ctx)
			return map[string]any{"asked": err == nil, "unsupported": errors.Is(err, errors.ErrUnsupported)}, nil
		case "reserved":
			return map[string]any{"resultType": "x", "a": 1, "_meta": map[string]any{"k": "v", keyServer: "me"}}, nil
		case "bad meta":
			return map[string]any{"_meta": 5, "a": 1}, nil
		case "null meta":
			return map[string]any{"_meta": nil}, nil
		case "panic":
			panic("oh")
		}
		Progress(ctx, 1, 2, "")
		return map[string]any{"skill": p.Name}, nil
	})
	inBubble(t, s, "", func(c *client) {
		if got := c.ask("1 skills/get {}"); len(got) != 1 || !strings.Contains(got[0], `"code":-32602`) {
			t.Errorf("before initialize: got %q", got)
		}
		c.initialize("2025-11-25", everyCap)
		c.play(`
			> 2 skills/get {"name":"go","_meta":{"progressToken":"t"}}
			< notifications/progress {"progressToken":"t","progress":1,"total":2}
			< 2 {"skill":"go"}
			> 3 skills/get
			< 3 {"skill":""}
			> 4+ skills/get {"name":"go"}
			< 4+ {"skill":"go"}
			> 5 skills/get {"fail":"ask"}
			< 1 roots/list {}
			> 1 {"roots":[]}
			< 5 {"asked":true,"unsupported":false}
			> 6 skills/list
			< 6! -32601 Method not found: skills/list`)
		for _, test := range []struct{ fail, legacy, modern string }{
			{"error", "! -32603 no such skill", "! -32603 no such skill"},
			{"code", "! 7 seven {}", "! 7 seven {}"},
			{"panic", "! -32603 Internal error", "! -32603 Internal error"},
			{"nil", " {}", "+ {}"},
			{"null meta", ` {"_meta":{}}`, "+ {}"},
			{"reserved", ` {"a":1,"_meta":{"k":"v"}}`,
				` {"resultType":"complete","a":1,"_meta":{"k":"v","io.modelcontextprotocol/serverInfo":{"name":"demo","version":"1.0.0"}}}`},
		} {
			c.play(`> 7 skills/get {"fail":"`+test.fail+`"}`, "< 7"+test.legacy)
			c.play(`> 8+ skills/get {"fail":"`+test.fail+`"}`, "< 8"+test.modern)
		}
		c.caps = everyCap
		c.play("> 9+ skills/get {\"fail\":\"ask\"}", "< 9+ {\"asked\":false,\"unsupported\":true}")
		c.play(`> {"jsonrpc":"2.0","id":10,"method":"skills/get","params":[]}`, "< 10! -32602 Invalid params: params must be an object")
	})
	if want := `skills/get {"name":"go","_meta":{"progressToken":"t"}}`; len(seen) < 2 || seen[0] != want || seen[1] != "skills/get " {
		t.Errorf("seen %q", seen)
	}
	for _, name := range []string{"", "tools/list", "ping", "initialize", "subscriptions/listen", "notifications/x", "roots/list", "elicitation/create", "sampling/createMessage"} {
		wantPanic(t, "mcp: method", func() {
			s.AddMethod(name, func(context.Context, json.RawMessage) (any, error) { return nil, nil })
		})
	}
}

// A writeFunc is a Writer that is a function.
type writeFunc func(b []byte) (int, error)

func (f writeFunc) Write(b []byte) (int, error) { return f(b) }

// ---- tasks ----
//
// The names TSK-01 to TSK-20 are those of the requirements of the extension.

const taskCaps = `{"elicitation":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`

// sureAsk is the question of Confirm(ctx, "Sure?"), and sureYes an answer.
const (
	sureAsk = `{"mode":"form","message":"Sure?","requestedSchema":{"type":"object","properties":{"confirm":{"type":"boolean",` +
		`"description":"tick to go ahead","default":false}}}}`
	sureYes = `{"action":"accept","content":{"confirm":true}}`
)

// tasker has a tool that may become a task after a second, and does what the test says.
func tasker(do func(ctx context.Context) (string, error)) *Server {
	s := &Server{}
	AddTool(s, Tool{Name: "do", TaskAfter: time.Second}, func(ctx context.Context, _ none) (string, error) { return do(ctx) })
	return s
}

// inTask returns a tool that becomes a task and then returns what f returns.
func inTask(f func(ctx context.Context) (string, error)) func(ctx context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		time.Sleep(2 * time.Second)
		return f(ctx)
	}
}

// state is a state of the task of a call that was sent at the beginning of the bubble, with the members after ttlMs.
func state(status, updated string, members ...string) string {
	return `"taskId":"$TASK","status":"` + status + `","createdAt":"2000-01-01T00:00:01Z","lastUpdatedAt":"2000-01-01T00:00:` + updated +
		`Z","ttlMs":null,"pollIntervalMs":1000` + strings.Join(append([]string{""}, members...), ",")
}

// taskResponse is the response to a call that has become a task.
func taskResponse(id, state string) string {
	return id + ` {"resultType":"task",` + state + "," + serverMeta + "}"
}

// outcomeOf is the outcome of a task, as a member.
func outcomeOf(response string) string {
	var m struct{ Result, Error json.RawMessage }
	json.Unmarshal([]byte(full("1"+response)), &m)
	if m.Error != nil {
		return `"error":` + string(m.Error)
	}
	return `"result":` + string(m.Result)
}

// What the client sees of a task: TSK-03 to TSK-07 and TSK-10 to TSK-13, and the ids that are used again.
func TestTask(t *testing.T) {
	working := taskResponse("1", state("working", "01"))
	const get = "\n> 2+ tasks/get {\"taskId\":\"$TASK\"}\n< 2+ "
	ask := func(ctx context.Context) (string, error) { return outcome("yes", Confirm(ctx, "Sure?")) }
	question := func(key string) string {
		return `"` + key + `":{"method":"elicitation/create","params":` + sureAsk + `}`
	}
	for name, test := range map[string]struct {
		do         func(ctx context.Context) (string, error)
		transcript string
	}{
		"result": {inTask(func(context.Context) (string, error) { return "done", nil }), `
			> 1+ call do
			~ 1s
			< ` + working + `
			# TSK-12
			> cancel 1` + get + `{` + state("working", "01") + `}
			~ 1001ms` + get + `{` + state("completed", "02", outcomeOf("+ said done")) + `}` + get +
			`{` + state("completed", "02", outcomeOf("+ said done")) + `}
			# TSK-11
			> 3+ tasks/cancel {"taskId":"$TASK"}
			< 3+ {}` + get + `{` + state("completed", "02", outcomeOf("+ said done")) + `}`},
		"error": {inTask(func(context.Context) (string, error) { return "", errors.New("oh") }), `
			> 1+ call do
			~ 1s
			< ` + working + `
			~ 1001ms` + get + `{` + state("completed", "02", outcomeOf("+ failed oh")) + `}`},
		"panic": {inTask(func(context.Context) (string, error) { panic("oh") }), `
			> 1+ call do
			~ 1s
			< ` + working + `
			~ 1001ms` + get + `{` + state("completed", "02", outcomeOf("+ failed Internal error in tool do")) + `}`},
		"protocol error": {inTask(func(context.Context) (string, error) { return "", &Error{Code: 7, Message: "oh"} }), `
			> 1+ call do
			~ 1s
			< ` + working + `
			~ 1001ms` + get + `{` + state("failed", "02", outcomeOf("! 7 oh")) + `}`},
		"status message": {func(ctx context.Context) (string, error) {
			Progress(ctx, 1, 0, "begun")
			time.Sleep(2 * time.Second)
			Progress(ctx, 2, 0, "half")
			Progress(ctx, 3, 0, "")
			slog.New((&Server{}).LogHandler("")).ErrorContext(ctx, "dropped")
			time.Sleep(2 * time.Second)
			return "done", nil
		}, `
			> 1+ tools/call {"name":"do","_meta":{"progressToken":7,"io.modelcontextprotocol/logLevel":"debug"}}
			< notifications/progress {"progressToken":7,"progress":1,"message":"begun"}
			~ 1003ms
			< ` + taskResponse("1", state("working", "01", `"statusMessage":"begun"`)) + `
			~ 2s` + get + `{` + state("working", "02", `"statusMessage":"half"`) + `}`},
		"cancel": {inTask(ask), `
			> 1+ call do
			~ 1s
			< ` + working + `
			~ 1001ms` + get + `{` + state("input_required", "02", `"inputRequests":{`+question("1")+`}`) + `}
			> 3+ tasks/cancel {"taskId":"$TASK"}
			< 3+ {}` + get + `{` + state("cancelled", "02") + `}`},
		"questions": {inTask(func(ctx context.Context) (string, error) {
			first, second := Confirm(ctx, "Sure?"), Confirm(ctx, "Sure?")
			return fmt.Sprint(first, ", ", second), nil
		}), `
			> 1+ call do
			~ 1s
			< ` + working + `
			~ 1001ms` + get + `{` + state("input_required", "02", `"inputRequests":{`+question("1")+`}`) + `}
			> 3+ tasks/update {"taskId":"$TASK","inputResponses":{"0":{},"2":{"action":"accept"},"1":` + sureYes + `}}
			< 3+ {}` + get + `{` + state("input_required", "02", `"inputRequests":{`+question("2")+`}`) + `}
			> 3+ tasks/update {"taskId":"$TASK","inputResponses":{"1":` + sureYes + `}}
			< 3+ {}` + get + `{` + state("input_required", "02", `"inputRequests":{`+question("2")+`}`) + `}
			> 3+ tasks/update {"taskId":"$TASK","inputResponses":{"2":{"action":"decline"}}}
			< 3+ {}` + get + `{` + state("completed", "02", outcomeOf("+ said <nil>, the user declined")) + `}`},
		"the id is used again": {inTask(func(context.Context) (string, error) { return "done", nil }), `
			> 1+ call do
			~ 1s
			< ` + working + `
			> 1+ call none
			< 1! -32602 Unknown tool: none (there is do)
			~ 1001ms` + get + `{` + state("completed", "02", outcomeOf("+ said done")) + `}`},
	} {
		t.Run(name, func(t *testing.T) {
			inBubbleWith(t, tasker(test.do), "", taskCaps, func(c *client) { c.play(test.transcript) })
		})
	}
}

// Calls that do not become tasks, and requests for tasks that do not exist or are not supported: TSK-01, TSK-02, TSK-07,
// TSK-08, TSK-14, TSK-16, TSK-18 and TSK-20.
func TestNoTask(t *testing.T) {
	const missing = `-32021 This request needs the extension io.modelcontextprotocol/tasks, which this client does not declare ` +
		`{"requiredCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}`
	done := inTask(func(context.Context) (string, error) { return "done", nil })
	inBubbleWith(t, tasker(done), legacyPV, taskCaps, func(c *client) {
		if got := c.ask("1 initialize 2025-11-25 "+taskCaps, "2+ server/discover"); strings.Contains(got[0], keyTasks) || !strings.Contains(got[1], `"extensions":{"io.modelcontextprotocol/tasks":{}}`) {
			t.Errorf("declared in %q", got)
		}
		c.play(`
			> 3 tools/call {"name":"do","task":{"ttl":1}}
			~ 2s
			< 3 said done
			> 4 tasks/get {"taskId":"t"}
			< 4! -32601 Method not found: tasks/get
			> 5+ tasks/get {"taskId":"t"}
			< 5! -32602 Invalid params: there is no such task, or its result was read and is not kept any more
			> 6+ tasks/update {"taskId":5,"inputResponses":{}}
			< 6! -32602 Invalid params: taskId is required
			> 7+ tasks/cancel
			< 7! -32602 Invalid params: taskId is required
			> 8+ subscriptions/listen {"notifications":{"taskIds":["t"]}}
			< notifications/subscriptions/acknowledged {"notifications":{},"_meta":{"io.modelcontextprotocol/subscriptionId":8}}
			> cancel 8`)
		c.caps = `{"extensions":{"io.modelcontextprotocol/tasks":true}}`
		c.play(`
			> 1+ call do
			~ 2s
			< 1+ said done
			> 2+ tasks/get {"taskId":"t"}
			< 2! ` + missing + `
			> 2+ tasks/update {"taskId":"t"}
			< 2! ` + missing + `
			> 2+ tasks/cancel {"taskId":"t"}
			< 2! ` + missing + `
			> 2+ subscriptions/listen {"notifications":{"taskIds":["t"]}}
			< 2! ` + missing)
	})
	inBubbleWith(t, demo(), "", taskCaps, func(c *client) {
		c.play("> 1+ tasks/get {\"taskId\":\"t\"}", "< 1! -32601 Method not found: tasks/get")
		if got := c.ask("2+ server/discover"); strings.Contains(got[0], keyTasks) {
			t.Errorf("declared in %q", got)
		}
	})
	inBubbleWith(t, tasker(func(ctx context.Context) (string, error) { // a question that is sent in a result
		err := Confirm(ctx, "Sure?")
		time.Sleep(3 * time.Second)
		return outcome("yes", err)
	}), "", taskCaps, func(c *client) {
		c.play(`
			> 1+ call do
			~ 3001ms
			< 1? {"$k":{"method":"elicitation/create","params":` + sureAsk + `}}
			> 2+ tools/call {"name":"do","inputResponses":{"$k":` + sureYes + `},"requestState":"$STATE"}
			~ 1s
			< ` + taskResponse("2", strings.ReplaceAll(state("working", "01"), "0:01Z", "0:04Z")) + `
			~ 2001ms
			> 3+ tasks/get {"taskId":"$TASK"}
			< 3+ {` + strings.ReplaceAll(state("completed", "06", outcomeOf("+ said yes")), "0:01Z", "0:04Z") + `}`)
	})
}

// becomeTask calls the tool do with this id, and waits until the call has become a task.
func (c *client) becomeTask(id string) (task string) {
	c.t.Helper()
	c.send(id + "+ call do")
	time.Sleep(time.Second + progressGap)
	for _, line := range c.recv() {
		if made := taskMade.FindStringSubmatch(line); made != nil {
			return made[1]
		}
	}
	return ""
}

// statusOf returns the status of a task, or "" if there is no such task.
func (c *client) statusOf(task string) string {
	c.t.Helper()
	got := c.ask(`"status"+ tasks/get {"taskId":"` + task + `"}`)
	var m struct{ Result struct{ Status string } }
	if len(got) != 1 || json.Unmarshal([]byte(got[0]), &m) != nil {
		c.t.Fatalf("got %q", got)
	}
	return m.Result.Status
}

// A task has an id that cannot be guessed (TSK-15).
func TestTaskIDs(t *testing.T) {
	inBubbleWith(t, tasker(inTask(noText)), "", taskCaps, func(c *client) {
		seen := make(map[string]bool)
		for i := range 50 {
			task := c.becomeTask(strconv.Itoa(i))
			if len(task) != 32 || seen[task] || seen[task[:16]] || seen[task[16:]] {
				t.Fatalf("id %q after %v", task, seen)
			}
			seen[task], seen[task[:16]], seen[task[16:]] = true, true, true
		}
	})
}

// The message of a task is at most 1 KiB, and whole characters.
func TestTaskMessage(t *testing.T) {
	s := tasker(func(ctx context.Context) (string, error) {
		time.Sleep(2 * time.Second)
		Progress(ctx, math.NaN(), 0, "a"+strings.Repeat("é", 1000))
		time.Sleep(time.Second)
		return "", nil
	})
	inBubbleWith(t, s, "", taskCaps, func(c *client) {
		c.play("> 1+ call do", "~ 1s", "< "+taskResponse("1", state("working", "01")), "~ 1001ms",
			`> 2+ tasks/get {"taskId":"$TASK"}`, "< 2+ {"+state("working", "02", `"statusMessage":"a`+strings.Repeat("é", 511)+`"`)+"}",
			"~ 1s", // a result has the message too
			`> 2+ tasks/get {"taskId":"$TASK"}`, "< 2+ {"+state("completed", "03", `"statusMessage":"a`+strings.Repeat("é", 511)+`"`, outcomeOf("+ said "))+"}")
	})
}

// Questions of several goroutines are open at the same time, and equal ones differ (TSK-06, TSK-09, TSK-10). One whose
// context ends is withdrawn.
func TestTaskAsksManyQuestions(t *testing.T) {
	var got [4]error
	s := tasker(inTask(func(ctx context.Context) (string, error) {
		var asking sync.WaitGroup
		for i := range got {
			asking.Go(func() {
				ctx := ctx
				if i == 3 {
					late, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), time.Minute, io.ErrNoProgress)
					defer cancel()
					ctx = late
				}
				time.Sleep(time.Duration(i)) // so the questions come in this order
				got[i] = Confirm(ctx, "Sure?")
			})
		}
		asking.Wait()
		return "", nil
	}))
	inBubbleWith(t, s, "", taskCaps, func(c *client) {
		c.task = c.becomeTask("1")
		time.Sleep(2 * time.Second)
		open := func(want ...string) {
			t.Helper()
			var questions []string
			for _, key := range want {
				questions = append(questions, `"`+key+`":{"method":"elicitation/create","params":`+sureAsk+`}`)
			}
			shown := `"status":"input_required","inputRequests":{` + strings.Join(questions, ",") + `}`
			if got := c.ask(`2+ tasks/get {"taskId":"$TASK"}`)[0]; !strings.Contains(got, shown) {
				t.Errorf("no %s in %s", shown, got)
			}
		}
		open("1", "2", "3", "4")
		c.play(`> 3+ tasks/update {"taskId":"$TASK","inputResponses":{"2":`+sureYes+`,"1":{"action":"decline"},"x":`+sureYes+`}}`, "< 3+ {}")
		open("3", "4")
		c.play(`> 3+ tasks/update {"taskId":"$TASK","inputResponses":{"3":5}}`, "< 3! -32602 Invalid params: inputResponses.3 must be an object",
			`> 3+ tasks/update {"taskId":"$TASK","inputResponses":{"3":{"action":"decline"},"3":`+sureYes+`}}`, "< 3! -32602 Invalid params: inputResponses.3 came twice",
			`> 3+ tasks/update {"taskId":"$TASK","inputResponses":[]}`, "< 3! -32602 Invalid params: inputResponses must be an object",
			`> 3+ tasks/update {"taskId":"$TASK"}`, "< 3+ {}")
		time.Sleep(time.Minute) // the context of the fourth ends
		open("3")
		c.play(`> 3+ tasks/update {"taskId":"$TASK","inputResponses":{"3":{"action":"cancel"},"4":`+sureYes+`}}`, "< 3+ {}")
		if status := c.statusOf(c.task); status != "completed" {
			t.Error(status)
		}
	})
	if want := [4]error{ErrDeclined, nil, ErrDismissed, io.ErrNoProgress}; got != want {
		t.Errorf("got %v", got)
	}
}

// An answer counts once, and from then on the question is not open, even if the handler has not received it yet.
func TestTaskAnswerCountsOnce(t *testing.T) {
	s := tasker(inTask(func(ctx context.Context) (string, error) { return outcome("yes", Confirm(ctx, "Sure?")) }))
	inBubbleWith(t, s, "", taskCaps, func(c *client) {
		c.task = c.becomeTask("1")
		time.Sleep(2 * time.Second)
		const update = `tasks/update {"taskId":"$TASK","inputResponses":{"1":`
		got := c.ask("2+ " + update + sureYes + "}}\n3+ " + update + `{"action":"decline"}}}` + "\n" + `4+ tasks/get {"taskId":"$TASK"}`)
		if len(got) != 3 || strings.Contains(got[2], "Sure?") {
			t.Errorf("got %q", got)
		}
		if got := c.ask(`5+ tasks/get {"taskId":"$TASK"}`); len(got) != 1 || !strings.Contains(got[0], outcomeOf("+ said yes")) {
			t.Errorf("got %q", got)
		}
	})
}

// A question with a context of its own ends with the task.
func TestTaskQuestionEndsWithTheTask(t *testing.T) {
	for name, end := range map[string]func(c *client){
		"tasks/cancel": func(c *client) { c.play(`> 2+ tasks/cancel {"taskId":"$TASK"}`, "< 2+ {}") },
		"return":       func(c *client) { time.Sleep(time.Minute) },
	} {
		t.Run(name, func(t *testing.T) {
			var got error
			s := tasker(inTask(func(ctx context.Context) (string, error) {
				asking, asked := make(chan error, 1), time.Now()
				go func() { asking <- Confirm(context.WithoutCancel(ctx), "Sure?") }()
				if name == "tasks/cancel" {
					got = <-asking
				} else { // the handler returns while the question is open
					time.Sleep(time.Minute)
					go func() { got = <-asking }()
				}
				if took := time.Since(asked); took > time.Minute {
					t.Errorf("asked for %v", took)
				}
				return "", nil
			}))
			inBubbleWith(t, s, "", taskCaps, func(c *client) {
				c.task = c.becomeTask("1")
				time.Sleep(2 * time.Second)
				end(c)
				synctest.Wait()
				if !errors.Is(got, context.Canceled) {
					t.Errorf("got %v", got)
				}
			})
		})
	}
}

// An answer that came before the end of the input counts: the client has been told that it was received.
func TestTaskAnswerBeforeTheEnd(t *testing.T) {
	var got [20]error
	s := tasker(inTask(func(ctx context.Context) (string, error) {
		var asking sync.WaitGroup
		for i := range got {
			asking.Go(func() { got[i] = Confirm(lateContext{ctx}, "Sure?") })
		}
		asking.Wait()
		return "", nil
	}))
	s.CancelDelay = time.Hour
	inBubbleWith(t, s, "", taskCaps, func(c *client) {
		c.task = c.becomeTask("1")
		time.Sleep(2 * time.Second)
		var answers []string
		for i := range got {
			answers = append(answers, fmt.Sprintf("%q:%s", strconv.Itoa(i+1), sureYes))
		}
		c.play(`> 2+ tasks/update {"taskId":"$TASK","inputResponses":{`+strings.Join(answers, ",")+"}}", "< 2+ {}")
		c.in.Close()
	})
	for _, err := range got {
		if err != nil {
			t.Fatalf("got %v", got)
		}
	}
}

// A lateContext is one of which a goroutine that waits for it learns the end late.
type lateContext struct{ context.Context }

func (c lateContext) Done() <-chan struct{} {
	time.Sleep(time.Minute)
	return c.Context.Done()
}

// No result is lost unread, and memory is bounded nevertheless (TSK-17).
func TestTaskResultsAreKept(t *testing.T) {
	for name, test := range map[string]struct {
		size, atOnce int
		becomeTasks  int // of further calls, if none is read
	}{
		"number":           {0, 10, maxTasks - 10},
		"more than number": {0, maxTasks + 5, 0},
		"bytes":            {1 << 20, 10, 6},
		"one that is long": {20 << 20, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			if raceBuild() && test.size > 0 {
				t.Skip("long texts take long with the race detector")
			}
			s := tasker(inTask(func(context.Context) (string, error) { return strings.Repeat("x", test.size), nil }))
			inBubbleWith(t, s, "", taskCaps, func(c *client) {
				for i := range test.atOnce {
					c.send(strconv.Itoa(i) + "+ call do")
				}
				time.Sleep(3 * time.Second)
				var unread []string
				for _, line := range c.recv() {
					unread = append(unread, taskMade.FindStringSubmatch(line)[1])
				}
				for i := range test.becomeTasks + 1 {
					task := c.becomeTask("1")
					time.Sleep(2 * time.Second)
					if (task == "") != (i == test.becomeTasks) {
						t.Fatalf("call %d: task %q", i, task)
					}
					if unread = append(unread, task); task == "" {
						c.want("1+ said " + strings.Repeat("x", test.size))
					}
				}
				for _, task := range unread[:len(unread)-1] {
					if status := c.statusOf(task); status != "completed" {
						t.Fatalf("a result was lost: %q", status)
					}
				}
				last := unread[len(unread)-2]
				if status := c.statusOf(last); status != "completed" {
					t.Errorf("the result that was read last is %q", status)
				}
				if task := c.becomeTask("1"); task == "" {
					t.Error("results that were read keep a call from becoming a task")
				}
			})
		})
	}
	// What was read, and what was cancelled, is dropped, the oldest first.
	s := tasker(inTask(func(ctx context.Context) (string, error) {
		if string(RequestFrom(ctx).ID) == "0" {
			<-ctx.Done()
		}
		return "", nil
	}))
	inBubbleWith(t, s, "", taskCaps, func(c *client) {
		var all []string
		for i := range maxTasks + 50 {
			id := strconv.Itoa(i % 2)
			all = append(all, c.becomeTask(id))
			time.Sleep(2 * time.Second)
			if c.task = all[i]; id == "0" {
				c.play(`> 2+ tasks/cancel {"taskId":"$TASK"}`, "< 2+ {}")
			} else if first, second := c.statusOf(c.task), c.statusOf(c.task); first != "completed" || second != "completed" {
				t.Fatal(first, second)
			}
		}
		var kept []int
		for i, task := range all {
			if c.statusOf(task) != "" {
				kept = append(kept, i)
			}
		}
		if kept[0] != 51 || len(kept) != maxTasks-1 { // so that there is room for another one
			t.Errorf("kept %v", kept)
		}
	})
}

// A cancel of a task that has ended says that its result is not wanted, also if it was not read.
func TestCancelOfATaskThatWasNotRead(t *testing.T) {
	inBubbleWith(t, tasker(inTask(func(context.Context) (string, error) { return "", nil })), "", taskCaps, func(c *client) {
		for i := range maxTasks + 50 {
			if c.task = c.becomeTask("1"); c.task == "" {
				t.Fatalf("call %d did not become a task", i)
			}
			time.Sleep(2 * time.Second)
			c.play(`> 2+ tasks/cancel {"taskId":"$TASK"}`, "< 2+ {}")
		}
		if status := c.statusOf(c.task); status != "completed" {
			t.Error(status)
		}
	})
}

// Members that belong to other requests are ignored, and a null is treated as absent.
func TestForeignMembersOfTaskRequests(t *testing.T) {
	inBubbleWith(t, tasker(inTask(func(context.Context) (string, error) { return "", nil })), "", taskCaps, func(c *client) {
		c.task = c.becomeTask("1")
		c.play(`
			> 2+ tasks/update {"taskId":"$TASK","requestState":"x","inputResponses":{}}
			< 2+ {}
			> 3+ tasks/cancel {"taskId":"$TASK","requestState":"x","inputResponses":5}
			< 3+ {}`)
		if status := c.statusOf(c.task); status != "cancelled" {
			t.Error(status)
		}
		c.caps = "{}"
		got := strings.Join(c.ask(`4+ subscriptions/listen {"notifications":{"taskIds":null,"toolsListChanged":true}}`), " ")
		if strings.Contains(got, "-32021") {
			t.Error(got)
		}
	})
}

// A client that never reads a result costs a bounded memory, and gets ordinary results in the end.
func TestTasksThatAreNotReadAreFew(t *testing.T) {
	s := tasker(inTask(func(context.Context) (string, error) { return strings.Repeat("x", 10<<10), nil }))
	inBubbleWith(t, s, "", taskCaps, func(c *client) {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		made, ordinary := 0, 0
		for wave := range 200 {
			for i := range 100 {
				c.send(strconv.Itoa(wave*100+i) + "+ call do")
			}
			time.Sleep(3 * time.Second)
			for _, line := range c.recv() {
				if taskMade.MatchString(line) {
					made++
				} else {
					ordinary++
				}
			}
		}
		if made != maxTasks || made+ordinary != 20_000 {
			t.Errorf("%d tasks, %d others", made, ordinary)
		}
		c.mu.Lock()
		c.writes = nil
		c.mu.Unlock()
		runtime.GC()
		runtime.ReadMemStats(&after)
		if kept := int64(after.HeapAlloc) - int64(before.HeapAlloc); kept > 16<<20 {
			t.Errorf("%d bytes are kept", kept)
		}
	})
}

// Tasks in every state when the session ends (TSK-19): each handler sees the cause, nothing is written for a task, and
// Serve waits for the handlers.
func TestSessionEndsWithTasks(t *testing.T) {
	const each = 200 // of six states
	for _, end := range []struct {
		name  string
		end   func(c *client)
		cause error
	}{
		{"EOF", func(c *client) { c.in.Close() }, ErrClosed},
		{"ctx", func(c *client) { c.cancel(io.ErrNoProgress) }, io.ErrNoProgress},
		{"closed pipe", func(c *client) {
			c.setFail(func([]byte) (int, error) { return 0, io.ErrClosedPipe })
			c.send("1 ping")
		}, ErrClosed},
	} {
		for _, delay := range []time.Duration{0, 10 * time.Second} {
			t.Run(fmt.Sprint(end.name, " ", delay), func(t *testing.T) {
				var mu sync.Mutex
				causes := make(map[string]int) // of those that ran, or asked, when the session ended
				count := func(what string, err error) {
					mu.Lock()
					causes[fmt.Sprint(what, " ", err)]++
					mu.Unlock()
				}
				s := tasker(func(ctx context.Context) (string, error) {
					n, _ := strconv.Atoi(string(RequestFrom(ctx).ID))
					time.Sleep(2 * time.Second)
					switch n % 6 {
					case 0: // works
						<-ctx.Done()
						count("works", context.Cause(ctx))
					case 1: // asks
						begun := time.Now()
						count("asks", Confirm(ctx, "Sure?"))
						if took := time.Since(begun); took != time.Second {
							t.Errorf("woken after %v", took)
						}
						<-ctx.Done()
					case 2: // is cancelled by the client
						<-ctx.Done()
						count("cancelled", context.Cause(ctx))
						<-time.After(1500 * time.Millisecond) // and returns late
					case 3:
						return "", &Error{Message: "failed"}
					}
					return "completed", nil
				})
				s.CancelDelay, s.WaitDelay = delay, 2*time.Second
				inBubbleWith(t, s, "", taskCaps, func(c *client) {
					for i := range 6 * each {
						c.send(strconv.Itoa(i) + "+ call do")
					}
					time.Sleep(2 * time.Second)
					for _, line := range c.recv() {
						var m struct{ ID int }
						json.Unmarshal([]byte(line), &m)
						if m.ID%6 == 2 {
							c.task = taskMade.FindStringSubmatch(line)[1]
							c.send(`"c"+ tasks/cancel {"taskId":"$TASK"}`)
						}
					}
					time.Sleep(time.Second)
					c.recv()
					begun := time.Now()
					end.end(c)
					if err := <-c.done; err != nil {
						t.Error(err)
					}
					c.done <- nil // for the end of the test
					took := time.Since(begun)
					if want := 500 * time.Millisecond; delay == 0 || end.name != "EOF" {
						if took != want {
							t.Errorf("Serve took %v", took)
						}
					} else if took != delay {
						t.Errorf("Serve took %v", took)
					}
					c.mu.Lock()
					tries := c.tries
					c.mu.Unlock()
					time.Sleep(time.Hour)
					c.want()
					if c.tries != tries {
						t.Error("written after the end")
					}
				})
				want := map[string]int{
					fmt.Sprint("works ", end.cause):             each,
					fmt.Sprint("asks ", end.cause):              each,
					fmt.Sprint("cancelled ", &CancelledError{}): each,
				}
				if !maps.Equal(causes, want) {
					t.Errorf("got %v", causes)
				}
			})
		}
	}
}

// Handlers that do not return in time are named, whether the client has cancelled the task or not. Nothing is written
// when they return.
func TestTasksOutliveWaitDelay(t *testing.T) {
	s := tasker(inTask(func(context.Context) (string, error) { time.Sleep(time.Minute); return "", nil }))
	synctest.Test(t, func(t *testing.T) {
		c := serve(t, s)
		c.caps = taskCaps
		c.task = c.becomeTask("1")
		c.becomeTask("2")
		c.play(`> 3+ tasks/cancel {"taskId":"$TASK"}`, "< 3+ {}")
		c.in.Close()
		err := <-c.done
		c.done <- nil
		if !errors.Is(err, ErrWaitDelay) || !strings.Contains(err.Error(), "tools/call do (id 2), a task") ||
			!strings.Contains(err.Error(), "tools/call do (id 1), cancelled") {
			t.Error(err)
		}
		time.Sleep(time.Hour)
		c.want()
	})
}

// An end that comes before the call becomes a task: the call stays an ordinary one, because the client could not ask for
// the state any more.
func TestNoTaskAfterTheEnd(t *testing.T) {
	s := tasker(inTask(func(context.Context) (string, error) { return "done", nil }))
	s.CancelDelay = time.Hour
	synctest.Test(t, func(t *testing.T) {
		c := serve(t, s)
		c.caps = taskCaps
		c.send("1+ call do")
		synctest.Wait()
		c.in.Close()
		time.Sleep(3 * time.Second)
		c.want("1+ said done")
	})
}

// A call that the client has cancelled before stays cancelled.
func TestNoTaskAfterACancel(t *testing.T) {
	inBubbleWith(t, tasker(inTask(noText)), "", taskCaps, func(c *client) {
		c.send("1+ call do")
		time.Sleep(time.Millisecond)
		c.send("cancel 1")
		time.Sleep(time.Minute)
		c.want()
	})
}

// The 2 ms after progress apply to the task as a response, and to no result of it (TSK-13).
func TestProgressBeforeATask(t *testing.T) {
	const call, progress = `> 1+ call do @7`, `< notifications/progress {"progressToken":7,"progress":`
	s := tasker(func(ctx context.Context) (string, error) {
		time.Sleep(time.Millisecond)
		for i := range 300 { // each 10 ms, and once when the call becomes a task
			Progress(ctx, float64(i), 0, strconv.Itoa(i))
			time.Sleep(10 * time.Millisecond)
		}
		return "done", nil
	})
	synctest.Test(t, func(t *testing.T) {
		c := serve(t, s)
		c.caps = taskCaps
		c.send(call[2:])
		time.Sleep(time.Second + progressGap - 1)
		if got := c.recv(); len(got) != 100 || !strings.Contains(got[99], `"progress":99,`) {
			t.Fatalf("%d notifications, %s", len(got), got[len(got)-1])
		}
		time.Sleep(1)
		got := c.recv()
		if len(got) != 1 || !strings.Contains(got[0], `"resultType":"task"`) || !strings.Contains(got[0], `"statusMessage":"100"`) {
			t.Fatalf("got %q", got)
		}
		c.task = taskMade.FindStringSubmatch(got[0])[1]
		time.Sleep(time.Minute)
		c.want()
		if status := c.statusOf(c.task); status != "completed" {
			t.Error(status)
		}
	})
	// A client that does not read: the call becomes a task when the progress was written.
	s = tasker(func(ctx context.Context) (string, error) {
		Progress(ctx, 1, 0, "")
		time.Sleep(10 * time.Minute)
		return "done", nil
	})
	synctest.Test(t, func(t *testing.T) {
		c := serveUnread(t, s)
		c.caps = taskCaps
		c.send(call[2:])
		time.Sleep(time.Minute)
		c.listen()
		c.want(progress[2:] + "1}")
		time.Sleep(progressGap)
		if got := c.recv(); len(got) != 1 || !strings.Contains(got[0], `"resultType":"task"`) {
			t.Errorf("got %q", got)
		}
		c.cancel(nil)
		time.Sleep(time.Hour)
	})
	// While there is no room, the progress of a call goes on, until its handler has returned.
	returnAfter := 2 * time.Second
	s = tasker(func(ctx context.Context) (string, error) {
		Progress(ctx, 1, 0, "")
		time.Sleep(returnAfter)
		go func() {
			time.Sleep(1500 * time.Microsecond)
			Progress(ctx, 3, 0, "")
		}()
		Progress(ctx, 2, 0, "")
		return "done", nil
	})
	inBubbleWith(t, s, "", taskCaps, func(c *client) {
		for range maxTasks {
			c.becomeTask("1")
			time.Sleep(2 * time.Second)
		}
		c.send(call[2:])
		c.want(progress[2:] + "1}")
		time.Sleep(2 * time.Second)
		c.want(progress[2:] + "2}")
		time.Sleep(progressGap)
		c.want("1+ said done")
		// The same in the moment in which the call would become a task.
		returnAfter = time.Second + progressGap/2
		c.send(call[2:])
		c.want(progress[2:] + "1}")
		time.Sleep(returnAfter)
		c.want(progress[2:] + "2}")
		time.Sleep(time.Minute)
		c.want("1+ said done")
	})
}

// What a handler and Server.Intercept see: one call, to its end.
func TestInterceptSeesATaskOnce(t *testing.T) {
	var seen []string
	s := tasker(inTask(func(ctx context.Context) (string, error) {
		select {
		case <-time.After(time.Minute):
			return "done", nil
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}))
	for _, test := range []struct {
		before, limit  time.Duration
		replace        error
		seen, response string
	}{
		{0, time.Hour, nil, "<nil>", "+ said done"},
		{time.Hour, 2 * time.Hour, nil, "<nil>", "+ said done"}, // it waits before next
		{0, 10 * time.Second, nil, "context deadline exceeded", "+ failed context deadline exceeded"},
		{0, time.Hour, errors.New("refused"), "<nil>", "+ failed refused"},
		{0, time.Hour, &Error{Code: 7, Message: "refused"}, "<nil>", "! 7 refused"},
	} {
		seen = nil
		s.Intercept = func(ctx context.Context, next func(context.Context) error) error {
			time.Sleep(test.before)
			ctx, cancel := context.WithTimeout(ctx, test.limit)
			defer cancel()
			err := next(ctx)
			seen = append(seen, fmt.Sprint(string(RequestFrom(ctx).ID), " ", RequestFrom(ctx).Name, " ", err))
			return cmp.Or(test.replace, err)
		}
		inBubbleWith(t, s, "", taskCaps, func(c *client) {
			c.play("> 1+ call do", "~ 1s", "< "+taskResponse("1", state("working", "01")))
			time.Sleep(2 * time.Hour)
			got := c.ask(`2+ tasks/get {"taskId":"` + c.task + `"}`)
			if want := outcomeOf(test.response); len(got) != 1 || !strings.Contains(got[0], want) {
				t.Errorf("got %q, want %s", got, want)
			}
		})
		if want := []string{"1 do " + test.seen}; !slices.Equal(seen, want) {
			t.Errorf("seen %q, want %q", seen, want)
		}
	}
}

// A task counts for MaxConcurrent until its handler returns, also when it was cancelled. Calls that wait are neither
// answered nor tasks until they begin.
func TestTasksCountForMaxConcurrent(t *testing.T) {
	s := tasker(func(context.Context) (string, error) { time.Sleep(10 * time.Second); return "done", nil })
	s.MaxConcurrent = 2
	inBubbleWith(t, s, "", taskCaps, func(c *client) {
		for i := range 100 {
			c.send(strconv.Itoa(i) + "+ call do")
		}
		for second := range 500 {
			time.Sleep(time.Second)
			got := c.recv()
			if want := second % 10; len(got) != 2 && want == 0 || len(got) != 0 && want != 0 {
				t.Fatalf("second %d: got %q", second, got)
			}
			for _, line := range got {
				c.task = taskMade.FindStringSubmatch(line)[1]
				if status := c.statusOf(c.task); status != "working" {
					t.Fatal(status)
				}
				if second == 0 { // its handler does not return before the others' do
					c.play(`> "c"+ tasks/cancel {"taskId":"$TASK"}`, `< "c"+ {}`)
				}
			}
		}
		time.Sleep(time.Minute)
	})
}

// Panics and Goexit in a task cost only the task.
func TestTaskThatDies(t *testing.T) {
	for _, die := range []func(){func() { panic("oh") }, runtime.Goexit} {
		s := tasker(inTask(func(context.Context) (string, error) { die(); return "", nil }))
		inBubbleWith(t, s, "", taskCaps, func(c *client) {
			c.task = c.becomeTask("1")
			time.Sleep(2 * time.Second)
			c.play(`> 2+ tasks/get {"taskId":"$TASK"}`, "< 2+ {"+state("completed", "02", outcomeOf("+ failed Internal error in tool do"))+"}",
				"> 3+ call none", "< 3! -32602 Unknown tool: none (there is do)")
		})
	}
}

// Enabled, log messages and RequestFrom, in and before a task.
func TestWhatATaskSees(t *testing.T) {
	s := &Server{}
	logger := slog.New(s.LogHandler(""))
	AddTool(s, Tool{
		Name: "do", TaskAfter: time.Second,
		Enabled: func(ctx context.Context) bool { return string(RequestFrom(ctx).ID) != "0" },
	}, func(ctx context.Context, _ none) (string, error) {
		logger.ErrorContext(ctx, "sent")
		time.Sleep(2 * time.Second)
		logger.ErrorContext(ctx, "dropped")
		r := RequestFrom(ctx)
		return fmt.Sprintf("%s %s %s %s", r.ID, r.Name, r.ProtocolVersion, r.Capabilities), nil
	})
	inBubbleWith(t, s, "", taskCaps, func(c *client) {
		c.play(`
			> 0+ call do
			< 0! -32602 Unknown tool: do (there is none)
			> 1+ tools/call {"name":"do","_meta":{"io.modelcontextprotocol/logLevel":"debug"}}
			< notifications/message {"level":"error","data":"sent"}
			~ 1s
			< `+taskResponse("1", state("working", "01")),
			"~ 1001ms", `> 2+ tasks/get {"taskId":"$TASK"}`,
			"< 2+ {"+state("completed", "02", outcomeOf("+ said 1 do 2026-07-28 "+taskCaps))+"}")
	})
}

// Both eras on one pipe: a second initialize ends the calls of the legacy session, and no task.
func TestInitializeKeepsTasks(t *testing.T) {
	s := tasker(inTask(func(context.Context) (string, error) { return "done", nil }))
	inBubbleWith(t, s, legacyPV, taskCaps, func(c *client) {
		c.send("1 call do", "2+ call do")
		time.Sleep(time.Second)
		c.play("< " + taskResponse("2", state("working", "01")))
		if got := c.ask(`"again" initialize ` + legacyPV + " " + taskCaps); len(got) != 2 || !strings.Contains(got[1], `"again"`) {
			t.Errorf("got %q", got)
		}
		time.Sleep(1001 * time.Millisecond)
		c.play(`> 3+ tasks/get {"taskId":"$TASK"}`, "< 3+ {"+state("completed", "02", outcomeOf("+ said done"))+"}")
	})
}

// ---- what tests check with ----

func wantPanic(t *testing.T, want string, f func()) {
	t.Helper()
	defer func() {
		if got := fmt.Sprint(recover()); !strings.Contains(got, want) {
			t.Errorf("panic %q, want %q", got, want)
		}
	}()
	f()
}

type none = struct{}

func ptr[T any](v T) *T { return &v }

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// diagnostics makes s write its diagnostics to a buffer.
func diagnostics(s *Server) *bytes.Buffer {
	var b bytes.Buffer
	s.ErrorLog = log.New(&b, "", 0)
	return &b
}

// reports returns what s reports about itself: a session prints it.
func reports(t *testing.T, s *Server) string {
	t.Helper()
	s.Name, s.Version = "demo", "1.0.0"
	said := diagnostics(s)
	feed(t, s, strings.NewReader(""))
	return said.String()
}

// heap returns how many bytes are in use.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// raceBuild reports whether the race detector is in this build: it is slow, and allows
// 8128 goroutines.
var raceBuild = sync.OnceValue(func() bool {
	info, _ := debug.ReadBuildInfo()
	return info != nil && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
})

// skipIfNotMeasurable skips a test that measures memory if the race detector or the
// traces of MCP_TEST_WIRE need memory too.
func skipIfNotMeasurable(t *testing.T) {
	t.Helper()
	if raceBuild() || wireFolder != "" {
		t.Skip("other parts of this test run need memory")
	}
}

// leftovers returns the stacks of other goroutines that are in this package.
func leftovers() string {
	buf := make([]byte, 1<<20)
	stacks := strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n")
	return strings.Join(slices.DeleteFunc(stacks[1:], func(s string) bool {
		return !strings.Contains(s, "example.com/mcp")
	}), "\n\n")
}

// ---- servers ----

// add adds a tool without arguments.
func add(s *Server, name string, h func(context.Context) (string, error)) {
	AddTool(s, Tool{Name: name}, func(ctx context.Context, _ struct{}) (string, error) { return h(ctx) })
}

func noText(context.Context) (string, error) { return "", nil }

func texts(s string) ReadFunc {
	return func(context.Context, string, map[string]string) ([]ResourceContents, error) {
		return []ResourceContents{{Text: s}}, nil
	}
}

func words(list ...string) CompleteFunc {
	return func(context.Context, string, map[string]string) ([]string, error) { return list, nil }
}

func promptOf(content ...Content) PromptFunc {
	return func(context.Context, map[string]string) (list []PromptMessage, _ error) {
		for _, c := range content {
			list = append(list, PromptMessage{Content: c})
		}
		return list, nil
	}
}

// doer adds a tool that does what the returned function is set to.
func doer(s *Server) (do *func(ctx context.Context)) {
	do = new(func(context.Context))
	AddTool(s, Tool{Name: "do"}, func(ctx context.Context, _ struct{}) (struct{}, error) {
		(*do)(ctx)
		return struct{}{}, nil
	})
	return do
}

// demo has a tool that returns its text, one that waits for its cancel, and one that asks.
func demo() *Server {
	s := &Server{}
	AddTool(s, Tool{Name: "echo"}, func(ctx context.Context, in struct {
		Text string `json:"text"`
	}) (string, error) {
		return in.Text, nil
	})
	add(s, "slow", func(ctx context.Context) (string, error) {
		<-ctx.Done()
		return "late", ctx.Err()
	})
	AddTool(s, Tool{Name: "ask"}, func(ctx context.Context, _ none) ([]root, error) { return listRoots(ctx) })
	return s
}

// A root is a directory of the client.
type root struct {
	URI  string `json:"uri"`
	Name string `json:"name,omitempty"`
}

// listRoots asks the client for its roots.
func listRoots(ctx context.Context) ([]root, error) {
	var answer struct{ Roots []root }
	raw, err := Ask(ctx, "roots/list", nil)
	if err == nil {
		err = json.Unmarshal(raw, &answer)
	}
	return answer.Roots, err
}

// ---- stages ----

// A stage is a server with tools that end in all ways. What their handlers saw
// is in causes, in order of their ends.
type stage struct {
	Server
	release chan struct{} // lets "deaf" return

	mu      sync.Mutex
	started []string // ids
	causes  []error
}

func newStage() *stage {
	s := &stage{release: make(chan struct{})}
	begin := func(ctx context.Context) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.started = append(s.started, string(RequestFrom(ctx).ID))
	}
	add(&s.Server, "hi", func(ctx context.Context) (string, error) { begin(ctx); return "hi", nil })
	add(&s.Server, "wait", func(ctx context.Context) (string, error) { // as long as it may
		begin(ctx)
		<-ctx.Done()
		s.end(context.Cause(ctx))
		return "", ctx.Err()
	})
	add(&s.Server, "deaf", func(ctx context.Context) (string, error) { // does not look at ctx
		begin(ctx)
		<-s.release
		s.end(context.Cause(ctx))
		Progress(ctx, 1, 0, "")
		return "late", nil
	})
	for _, n := range []int{1, 2, 3} {
		add(&s.Server, "sleep"+strconv.Itoa(n), func(ctx context.Context) (string, error) {
			begin(ctx)
			select {
			case <-ctx.Done():
				s.end(context.Cause(ctx))
				return "", ctx.Err()
			case <-time.After(time.Duration(n) * time.Second):
				s.end(context.Cause(ctx))
				Progress(ctx, 1, 0, "")
				return "slept", nil
			}
		})
	}
	add(&s.Server, "panic", func(context.Context) (string, error) { panic("secret") })
	add(&s.Server, "ask", func(ctx context.Context) (string, error) { // with a context of its own
		_, err := listRoots(context.WithoutCancel(ctx))
		s.end(err)
		return "asked", err
	})
	return s
}

// end notes what a handler saw.
func (s *stage) end(cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.causes = append(s.causes, cause)
}

// saw checks the causes that the handlers have seen since the last time.
func (s *stage) saw(t *testing.T, want ...error) {
	t.Helper()
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	same := func(got, want error) bool { return errors.Is(got, want) || reflect.DeepEqual(got, want) }
	if !slices.EqualFunc(s.causes, want, same) {
		t.Errorf("handlers saw %v, want %v", s.causes, want)
	}
	s.causes = nil
}

// ran checks which requests have reached their handlers since the last time.
func (s *stage) ran(t *testing.T, ids ...string) {
	t.Helper()
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Equal(s.started, ids) {
		t.Errorf("handlers started for %v, want %v", s.started, ids)
	}
	s.started = nil
}

// starts returns the number of handlers that have started since the last call of ran.
func (s *stage) starts() int {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.started)
}

// over waits for the end of the session, which must take exactly d.
func (c *client) over(d time.Duration) error {
	c.t.Helper()
	begin := time.Now()
	err := <-c.done
	if took := time.Since(begin); took != d {
		c.t.Errorf("Serve returned after %v, want %v", took, d)
	}
	return err
}

// ends is over for an error; nil wants nil.
func (c *client) ends(d time.Duration, want error) {
	c.t.Helper()
	if err := c.over(d); !errors.Is(err, want) {
		c.t.Errorf("Serve: %v, want %v", err, want)
	}
}

func bubble(t *testing.T, f func(t *testing.T, s *stage)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, newStage()) })
}

// ---- Server.Intercept ----

// interceptor returns a server with tools, and methods of an extension, whose calls pass through
// intercept.
func interceptor(intercept func(ctx context.Context, next func(context.Context) error) error) *Server {
	s := asker(func(context.Context) (string, error) { return "hi", nil })
	s.Intercept = intercept
	AddTool(s, Tool{Name: "typed"}, func(_ context.Context, in struct{ N int }) (string, error) { return "typed", nil })
	AddTool(s, Tool{Name: "hidden", Enabled: func(context.Context) bool { return false }}, func(context.Context, none) (string, error) { return "", nil })
	for name, h := range map[string]func(context.Context) (*Result, error){
		"fails":   func(context.Context) (*Result, error) { return nil, errors.New("no") },
		"refuses": func(context.Context) (*Result, error) { return nil, &Error{Code: 7, Message: "refused"} },
		"isError": func(context.Context) (*Result, error) {
			return &Result{IsError: true, Content: []Content{Text("a"), Text("b")}}, nil
		},
		"odd":    func(context.Context) (*Result, error) { return nil, oddError{"odd"} },
		"panics": func(context.Context) (*Result, error) { panic("no") },
		"exits":  func(context.Context) (*Result, error) { runtime.Goexit(); return nil, nil },
		"waits":  func(ctx context.Context) (*Result, error) { <-ctx.Done(); return nil, context.Cause(ctx) },
		"stops":  func(ctx context.Context) (*Result, error) { <-ctx.Done(); return nil, ctx.Err() },
	} {
		AddTool(s, Tool{Name: name}, func(ctx context.Context, _ none) (*Result, error) { return h(ctx) })
	}
	s.AddMethod("x/get", func(context.Context, json.RawMessage) (any, error) { return nil, errors.New("empty") })
	return s
}

// An oddError cannot be compared.
type oddError []string

func (e oddError) Error() string { return e[0] }

// Intercept is called around each call, also a wrong one, and next returns the error with which the
// call fails. What the client receives is the same as without it.
func TestInterceptSeesEachCall(t *testing.T) {
	var seen []string
	s := interceptor(func(ctx context.Context, next func(context.Context) error) error {
		r := RequestFrom(ctx)
		defer func() {
			if why := recover(); why != nil {
				seen = append(seen, fmt.Sprint(r.Method, " ", r.Name, " panicked: ", why))
				panic(why)
			}
		}()
		err := next(ctx)
		seen = append(seen, strings.TrimSpace(fmt.Sprint(r.Method, " ", r.Name, ": ", err)))
		return err
	})
	for _, era := range eras {
		for _, test := range []struct{ call, response, seen string }{
			{"call ask {}", "said hi", "tools/call ask: <nil>"},
			{`call typed {"N":"x"}`, `failed Invalid arguments: N must be an integer, got "x"`, `tools/call typed: Invalid arguments: N must be an integer, got "x"`},
			{"call fails", "failed no", "tools/call fails: no"},
			{"call refuses", "! 7 refused", "tools/call refuses: refused"},
			{"call isError", `{"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}],"isError":true}`, "tools/call isError: a\nb"},
			{"call odd", "failed odd", "tools/call odd: odd"},
			{"call panics", "failed Internal error in tool panics", "tools/call panics panicked: no"},
			{"call exits", "failed Internal error in tool exits", ""},
			{"prompts/get {\"name\":\"ask\"}", `{"messages":[{"role":"user","content":{"type":"text","text":"hi"}}]}`, "prompts/get ask: <nil>"},
			{`completion/complete {"ref":{"type":"ref/prompt","name":"ask"},"argument":{"name":"a","value":""}}`,
				`{"completion":{"values":["hi"],"total":1,"hasMore":false}}`, "completion/complete ask: <nil>"},
			{`completion/complete {"ref":{"type":"ref/prompt","name":"none"},"argument":{"name":"a","value":""}}`,
				"! -32602 Invalid params: no such prompt or template to complete", "completion/complete none: Invalid params: no such prompt or template to complete"},
			{"x/get", "! -32603 empty", "x/get : empty"},
			{"tools/list", "", ""},
			{"x/none", "", ""},
		} {
			seen = nil
			inBubble(t, s, era.version, func(c *client) {
				c.send("1" + era.plus + " " + test.call)
				got := c.recv()
				mark := era.plus
				if strings.HasPrefix(test.response, "!") {
					mark = ""
				}
				want := "1" + mark + " " + test.response
				if mark == "" && strings.HasPrefix(test.response, "!") {
					want = "1" + test.response
				}
				if len(got) != 1 || test.response != "" && !sameJSON(t, got[0], want) {
					t.Errorf("%s: got %s, want %s", test.call, got, full(want))
				}
			})
			if strings.Join(seen, "|") != test.seen {
				t.Errorf("%s: saw %q, want %q", test.call, seen, test.seen)
			}
		}
	}
}

// A tool that Enabled hides is like one that does not exist, whatever Intercept does, and Enabled is called once for a
// call, before Intercept.
func TestInterceptDoesNotTellHiddenTools(t *testing.T) {
	for name, intercept := range map[string]func(ctx context.Context, next func(context.Context) error) error{
		"the error of next": func(ctx context.Context, next func(context.Context) error) error { return next(ctx) },
		"its own error":     func(context.Context, func(context.Context) error) error { return errors.New("no") },
		"a panic":           func(context.Context, func(context.Context) error) error { panic("no") },
		"a question": func(ctx context.Context, _ func(context.Context) error) error {
			return Confirm(ctx, "Sure?")
		},
		"a context": func(ctx context.Context, next func(context.Context) error) error {
			return next(context.WithValue(ctx, oddKey{}, "shown"))
		},
	} {
		for _, era := range eras {
			enabled := 0
			s := interceptor(intercept)
			addEmpty(s, Tool{Name: "seen", Enabled: func(ctx context.Context) bool { enabled++; return ctx.Value(oddKey{}) != nil }})
			addEmpty(s, Tool{Name: "once", Enabled: func(context.Context) bool { enabled++; return enabled == 1 }})
			inBubble(t, s, era.version, func(c *client) {
				for _, call := range []string{`tools/call {"name":%q}`, `tools/call {"name":%q,"requestState":"x"}`, `tools/call {"name":%q,"arguments":5}`} {
					got := []string{}
					for _, tool := range []string{"none", "hidden", "seen"} {
						line := strings.Join(c.ask("1"+era.plus+" "+fmt.Sprintf(call, tool)), "")
						got = append(got, strings.ReplaceAll(line, tool, "T"))
					}
					if got[0] != got[1] || got[0] != got[2] {
						t.Errorf("%s, %s, %s: an unknown tool, and two that are hidden: %q", name, era.name, call, got)
					}
				}
				if enabled != 3 {
					t.Errorf("%s: Enabled was called %d times for 3 calls", name, enabled)
				}
				enabled = 0
				if got := c.ask("1" + era.plus + " call once"); enabled != 1 || strings.Contains(got[0], "Unknown") {
					t.Errorf("%s: Enabled was called %d times, and the response is %s", name, enabled, got)
				}
			})
		}
	}
}

type oddKey struct{}

// next returns the error of a ReadFunc as it is, and what Intercept returns is treated as if the ReadFunc had returned it.
func TestInterceptAndFilesThatDoNotExist(t *testing.T) {
	missing := fmt.Errorf("read: %w", &fs.PathError{Op: "open", Path: "/etc/secret", Err: fs.ErrNotExist})
	var seen error
	var returned error
	s := interceptor(func(ctx context.Context, next func(context.Context) error) error {
		seen = next(ctx)
		return cmp.Or(returned, seen)
	})
	read := func(_ context.Context, uri string, _ map[string]string) ([]ResourceContents, error) {
		if strings.HasSuffix(uri, "missing") {
			return nil, missing
		}
		return []ResourceContents{{Text: "T"}}, nil
	}
	s.AddResource(Resource{URI: "x:missing", Name: "m"}, read)
	s.AddResource(Resource{URI: "y:{name}", Name: "y"}, read)
	s.AddPrompt(Prompt{Name: "p"}, func(context.Context, map[string]string) ([]PromptMessage, error) { return nil, missing })
	for _, era := range eras {
		gone := func(uri string) string {
			return "1! " + map[string]string{"legacy": "-32002", "modern": "-32602"}[era.name] + ` Resource not found {"uri":"` + uri + `"}`
		}
		for _, test := range []struct {
			request  string
			returned error
			want     string
			seen     error
		}{
			{`resources/read {"uri":"x:missing"}`, nil, gone("x:missing"), missing},
			{`resources/read {"uri":"y:missing"}`, nil, gone("y:missing"), missing},
			{`resources/read {"uri":"y:there"}`, fs.ErrNotExist, gone("y:there"), nil},
			{`resources/read {"uri":"y:there"}`, errors.Join(errors.New("x"), missing), gone("y:there"), nil},
			{`resources/read {"uri":"x:missing"}`, fs.ErrExist, "1! -32603 file already exists", missing},
			{`resources/read {"uri":"x:missing"}`, &Error{Code: 7, Message: "no"}, "1! 7 no", missing},
			{`prompts/get {"name":"p"}`, nil, "1! -32603 " + missing.Error(), missing},
			{`call ask`, fs.ErrNotExist, "1" + era.plus + " failed file does not exist", nil},
		} {
			returned = test.returned
			inBubble(t, s, era.version, func(c *client) { c.play("> 1"+era.plus+" "+test.request, "< "+test.want) })
			if seen != test.seen {
				t.Errorf("%s: next returned %v, want %v", test.request, seen, test.seen)
			}
		}
	}
}

// What Intercept does with next decides what is sent.
// What Intercept does with next decides what is sent. A wrong use of next is reported.
func TestInterceptDecides(t *testing.T) {
	type handler = func(context.Context) error
	const failsTool, odd = "1 failed ", "1 failed odd"
	var second error
	for name, test := range map[string]struct {
		call, want string
		intercept  func(ctx context.Context, next handler) error
	}{
		"nil after next":          {"ask", "1 said hi", func(ctx context.Context, next handler) error { next(ctx); return nil }},
		"nil after an error":      {"fails", "1 failed no", func(ctx context.Context, next handler) error { next(ctx); return nil }},
		"another error":           {"ask", "1 failed late", func(ctx context.Context, next handler) error { next(ctx); return errors.New("late") }},
		"another protocol error":  {"isError", "1! 9 late", func(ctx context.Context, next handler) error { next(ctx); return &Error{Code: 9, Message: "late"} }},
		"refused":                 {"ask", "1 failed not allowed", func(ctx context.Context, next handler) error { return errors.New("not allowed") }},
		"neither":                 {"ask", "1! -32603 Server.Intercept returned nil, but no handler has returned", func(context.Context, handler) error { return nil }},
		"an error without equals": {"odd", odd, func(ctx context.Context, next handler) error { return next(ctx) }},
		"a panic of its own":      {"ask", "1 failed Internal error in tool ask", func(ctx context.Context, next handler) error { next(ctx); panic("own") }},
		"a recovered panic": {"panics", "1! -32603 Server.Intercept returned nil, but no handler has returned", func(ctx context.Context, next handler) error {
			defer func() { _ = recover() }()
			return next(ctx)
		}},
		"next twice": {"ask", "1 said hi", func(ctx context.Context, next handler) error { err := next(ctx); second = next(ctx); return err }},
		"another context": {"ask", "1 failed later", func(ctx context.Context, next handler) error {
			second = next(context.Background())
			return errors.New("later")
		}},
		"a time limit": {"waits", failsTool + "context deadline exceeded", func(ctx context.Context, next handler) error {
			ctx, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			return next(ctx)
		}},
		"a time limit with a cause": {"stops", failsTool + "too slow", func(ctx context.Context, next handler) error {
			ctx, cancel := context.WithTimeoutCause(ctx, time.Second, errors.New("too slow"))
			defer cancel()
			return next(ctx)
		}},
		"next on another goroutine": {"ask", "1 said hi", func(ctx context.Context, next handler) error { go next(ctx); time.Sleep(1); return nil }},
	} {
		t.Run(name, func(t *testing.T) {
			second = nil
			s := interceptor(test.intercept)
			said := diagnostics(s)
			inBubble(t, s, legacyPV, func(c *client) {
				c.send("1 call " + test.call)
				time.Sleep(2 * time.Second)
				c.want(test.want)
			})
			isReported := strings.Contains(said.String(), "mcp: tools/call "+test.call+" (id 1): next may be called once, before Intercept returns")
			if isReported != (second != nil) {
				t.Errorf("reported %q", said)
			}
			if (second != nil) != (name == "next twice" || name == "another context") {
				t.Errorf("the second next returned %v", second)
			}
		})
	}
}

// The library waits for a next that outlives Intercept, and a next that begins later runs nothing.
func TestInterceptIsWaitedFor(t *testing.T) {
	var again func(context.Context) error
	s := interceptor(func(ctx context.Context, next func(context.Context) error) error {
		go next(ctx)
		time.Sleep(1)
		if RequestFrom(ctx).Name == "ask" {
			again = func(context.Context) error { return next(ctx) }
		}
		return nil
	})
	inBubble(t, s, legacyPV, func(c *client) {
		c.send("1 call waits", "2 call ask")
		time.Sleep(time.Second)
		c.want("2 said hi") // the first call has no response, because its handler runs
		c.send("cancel 1")
		c.want()
		if err := again(context.Background()); err == nil {
			t.Error("a late next ran")
		}
	})
}

// A handler's context ends with its request, even if Intercept passes one that does not.
func TestInterceptCannotOutliveTheRequest(t *testing.T) {
	var err error
	s := interceptor(func(ctx context.Context, next func(context.Context) error) error {
		err = next(context.WithoutCancel(ctx))
		return err
	})
	inBubble(t, s, legacyPV, func(c *client) {
		c.send("1 call waits")
		c.want()
		c.send("cancel 1")
		c.want()
		if cancelled := (*CancelledError)(nil); !errors.As(err, &cancelled) {
			t.Errorf("next returned %v", err)
		}
	})
}

// A call in Intercept keeps its place in MaxConcurrent, and each round of a question is a call.
func TestInterceptAndQuestions(t *testing.T) {
	for i, transcript := range []string{`
		> 1 call ask
		< 1 elicitation/create ` + confirmAsk + `
		> 2 call other
		> 1 ` + confirmYes + `
		< 1 said true
		< 2 elicitation/create ` + confirmAsk + `
		> 2 ` + confirmYes + `
		< 2 said true`, `
		> 1+ call ask
		< 1? {"$k":{"method":"elicitation/create","params":` + confirmAsk + `}}
		> 2+ tools/call {"name":"ask","requestState":"$STATE","inputResponses":{"$k":` + confirmYes + `}}
		< 2+ said true`,
	} {
		var seen []string
		s := asker(askOnce)
		s.MaxConcurrent = 1
		s.Intercept = func(ctx context.Context, next func(context.Context) error) error {
			err := next(ctx)
			seen = append(seen, fmt.Sprint(RequestFrom(ctx).Name, " ", err))
			return nil
		}
		inBubbleWith(t, s, eras[i].version, `{"elicitation":{}}`, func(c *client) { c.play(transcript) })
		want := [][]string{{"ask <nil>", "other <nil>"}, {"ask " + ErrInputRequired.Error() + " (elicitation/create)", "ask <nil>"}}[i]
		if !slices.Equal(seen, want) {
			t.Errorf("%s: saw %q, want %q", eras[i].name, seen, want)
		}
	}
}

// What ElicitSchema returns belongs to the handler: an append to it does not write into the input.
func TestAnswerBelongsToTheHandler(t *testing.T) {
	s := asker(func(ctx context.Context) (string, error) {
		answer, err := ElicitSchema(ctx, "?", json.RawMessage(`{"type":"object","properties":{}}`))
		return string(append(answer, strings.Repeat(" ", 100)...)), err
	})
	inBubbleWith(t, s, legacyPV, `{"elicitation":{}}`, func(c *client) {
		c.send("1 call ask")
		c.recv()
		next := written("2 ping")
		io.WriteString(c.in, written("1 {\"action\":\"accept\",\"content\":{}}")+next[:20])
		c.recv()
		io.WriteString(c.in, next[20:])
		c.want("2 {}")
	})
}
