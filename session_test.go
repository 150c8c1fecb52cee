// SPDX-License-Identifier: MIT

package mcp

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"log/slog"
	"maps"
	"math"
	"math/big"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/iotest"
	"testing/slogtest"
	"testing/synctest"
	"time"
	"unicode/utf8"
)

// The parts of this file: helpers; then what a server offers and says (mcp.go),
// one client (session.go) and how work ends (cancel.go); then what is true of
// all of it: properties, fuzzing, soak, speed.
//
// Each test is named after its promise. Nothing here sleeps in order to wait:
// sessions live in synctest bubbles, whose time is their own, and what needs a
// process waits for what that does. MCP_TEST_LONG=1 makes some tests do more.

// ==== helpers ====

// ---- the other end ----

// A client is the other end of a session. It lives in a synctest bubble: what
// it has received is complete whenever everybody else is blocked.
type client struct {
	t      *testing.T
	in     *io.PipeWriter // the server's r
	out    *io.PipeReader // the server's w
	cancel context.CancelCauseFunc
	done   chan error // what Serve returned

	mu  sync.Mutex
	got []string
}

// serve starts a session of s with a client that reads everything.
func serve(t *testing.T, s *Server) *client {
	c := serveUnread(t, s)
	go c.listen()
	return c
}

// serveUnread starts one with a client that reads nothing before listen.
func serveUnread(t *testing.T, s *Server) *client {
	t.Helper()
	if s.Name == "" {
		s.Name, s.Version = "demo", "1.0.0"
	}
	if s.ErrorLog == nil {
		s.ErrorLog = log.New(io.Discard, "", 0)
	}
	c := &client{t: t, done: make(chan error, 1)}
	r, in := io.Pipe()
	out, w := io.Pipe()
	c.in, c.out = in, out
	ctx, cancel := context.WithCancelCause(context.Background())
	c.cancel = cancel
	go func() {
		in, out := wired(r, w)
		err := s.Serve(ctx, in, out)
		r.CloseWithError(io.ErrClosedPipe) // as an exiting process would
		w.Close()
		cancel(nil)
		c.done <- err
	}()
	return c
}

// What goes over the wire is appended to the file that MCP_TEST_WIRE names, for
// .ci/schema to check: an object a line, with the session and "in" or "out".
var (
	wireLog, _ = os.OpenFile(os.Getenv("MCP_TEST_WIRE"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	wires      atomic.Int64
)

// A wire is one direction of a session, seen from the server, and records it.
type wire struct {
	r                  io.Reader
	w                  io.Writer
	session, direction string
	line               []byte
}

// wired returns the two ends of a session as they are, or such that they record.
func wired(r io.Reader, w io.Writer) (io.Reader, io.Writer) {
	if wireLog == nil {
		return r, w
	}
	session := fmt.Sprintf("%d.%d", os.Getpid(), wires.Add(1))
	return &wire{r: r, session: session, direction: "in"}, &wire{w: w, session: session, direction: "out"}
}

func (w *wire) Read(b []byte) (int, error) {
	n, err := w.r.Read(b)
	if w.record(b[:n]); err != nil && len(w.line) > 0 {
		w.record([]byte("\n")) // the last line has none
	}
	return n, err
}

func (w *wire) Write(b []byte) (int, error) {
	w.record(b)
	return w.w.Write(b)
}

func (w *wire) record(b []byte) {
	for {
		head, rest, whole := bytes.Cut(b, []byte("\n"))
		if w.line = append(w.line, head...); !whole {
			return
		}
		raw, _ := json.Marshal(map[string]string{"session": w.session, w.direction: string(w.line)})
		wireLog.Write(append(raw, '\n'))
		w.line, b = w.line[:0], rest
	}
}

// A tracer records what a process of its own hears and says, as its
// Server.Trace; of a flood only the beginning.
type tracer struct{ lines int }

func (tr *tracer) Write(b []byte) (int, error) {
	for line := range bytes.Lines(b) {
		stamped := strings.SplitN(strings.TrimSuffix(string(line), "\n"), " ", 4) // date, time, direction
		if tr.lines++; tr.lines <= 1000 && len(stamped) == 4 {
			raw, _ := json.Marshal(map[string]string{"session": strconv.Itoa(os.Getpid()), stamped[2]: strings.TrimSpace(stamped[3])})
			wireLog.Write(append(raw, '\n'))
		}
	}
	return len(b), nil
}

func (c *client) listen() {
	for lines := bufio.NewReader(c.out); ; {
		line, err := lines.ReadString('\n')
		if err != nil {
			return
		}
		c.mu.Lock()
		c.got = append(c.got, strings.TrimSuffix(line, "\n"))
		c.mu.Unlock()
	}
}

// send writes lines to the server.
func (c *client) send(lines ...string) {
	c.t.Helper()
	for _, line := range lines {
		if _, err := io.WriteString(c.in, line+"\n"); err != nil {
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
		case !sameJSON(c.t, got[i], lines[i]):
			c.t.Errorf("got  %s\nwant %s", got[i], lines[i])
		}
	}
}

// talk plays a transcript: lines that begin with > are sent, those with < are
// to be received before the next is sent, $META and $SRV are written out, and
// all others are comments.
func (c *client) talk(transcript string) {
	c.t.Helper()
	transcript = strings.NewReplacer(
		"$META", `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`,
		"$SRV", `"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"demo","version":"1.0.0"}}`,
	).Replace(transcript)
	var expected []string
	for line := range strings.Lines(transcript + "\n>") {
		line = strings.TrimSpace(line)
		if rest, ok := strings.CutPrefix(line, "<"); ok {
			expected = append(expected, strings.TrimSpace(rest))
		}
		if rest, ok := strings.CutPrefix(line, ">"); ok {
			c.want(expected...)
			if expected = nil; rest != "" {
				c.send(strings.TrimSpace(rest))
			}
		}
	}
}

// initialize opens a legacy session of the revision with these capabilities.
func (c *client) initialize(version, capabilities string) {
	c.t.Helper()
	c.send(`{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":"` + version + `","capabilities":` + capabilities + `,"clientInfo":{"name":"c","version":"1"}}}`)
	if got := c.recv(); len(got) != 1 || !strings.Contains(got[0], version) {
		c.t.Fatalf("initialize: got %q", got)
	}
	c.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
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

// sameJSON compares two values, and sees that no member comes twice in either.
func sameJSON(t *testing.T, a, b string) bool {
	t.Helper()
	value := func(s string) any {
		d := json.NewDecoder(strings.NewReader(s))
		d.UseNumber()
		var read func() any
		read = func() any {
			tok, err := d.Token()
			if err != nil {
				t.Fatalf("%s: %v", s, err)
			}
			switch tok {
			case json.Delim('{'):
				object := make(map[string]any)
				for d.More() {
					key := read().(string)
					if _, twice := object[key]; twice {
						t.Errorf("%q comes twice in %s", key, s)
					}
					object[key] = read()
				}
				d.Token()
				return object
			case json.Delim('['):
				list := []any{}
				for d.More() {
					list = append(list, read())
				}
				d.Token()
				return list
			}
			return tok
		}
		return read()
	}
	return reflect.DeepEqual(value(a), value(b))
}

// ---- lines and transcripts ----

const (
	pingLine = `{"jsonrpc":"2.0","id":"p","method":"ping"}`
	pongLine = `{"jsonrpc":"2.0","id":"p","result":{}}`
	ping     = "\n> " + pingLine + "\n< " + pongLine + "\n"
	legacyPV = "2025-11-25"
)

// play runs a transcript in a session of its own, after initialize if version
// is not "", and sees it end well.
func play(t *testing.T, s *Server, version, transcript string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := serve(t, s)
		if version != "" {
			c.initialize(version, `{"roots":{}}`)
		}
		c.talk(transcript)
		c.end()
	})
}

// feed serves what r holds and returns the lines that were answered.
func feed(t *testing.T, s *Server, r io.Reader) (lines []string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		if s.Name == "" {
			s.Name, s.Version, s.ErrorLog = "demo", "1.0.0", log.New(io.Discard, "", 0)
		}
		in, w := wired(r, &out)
		if err := s.Serve(context.Background(), in, w); err != nil {
			t.Error("Serve:", err)
		}
		lines = strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	})
	return lines
}

// call is a line that calls a tool, said a result of one text, failed the same
// with isError, and wrong an error of the protocol. Ids are raw.
func call(id any, tool, args string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%v,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, id, tool, args)
}

func said(id any, text string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%v,"result":{"content":[{"type":"text","text":%s}]}}`, id, quote(text))
}

func failed(id any, text string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%v,"result":{"content":[{"type":"text","text":%s}],"isError":true}}`, id, quote(text))
}

func wrong(id any, code int, message string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%v,"error":{"code":%d,"message":%s}}`, id, code, quote(message))
}

// quote is s as JSON, written as the library writes it: without escapes for HTML.
func quote(s string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.Encode(s)
	return strings.TrimSuffix(b.String(), "\n")
}

const modernMeta = `"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}`

// modernCall is a call of the modern era; meta is more members of its _meta.
func modernCall(id, tool string, meta ...string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"` + tool + `","_meta":{` + strings.Join(append(meta, modernMeta), ",") + `}}}`
}

// legacyCall is a call of the legacy era.
func legacyCall(id, tool string, meta ...string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"` + tool + `","_meta":{` + strings.Join(meta, ",") + `}}}`
}

func modernSaid(id any, text string) string   { return modernAnswered(id, text, "") }
func modernFailed(id any, text string) string { return modernAnswered(id, text, `"isError":true,`) }

func modernAnswered(id any, text, more string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%v,"result":{"resultType":"complete","content":[{"type":"text","text":%s}],%s"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"demo","version":"1.0.0"}}}}`,
		id, quote(text), more)
}

func progressLine(token, done string) string {
	return `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":` + token + `,"progress":` + done + `}}`
}

func cancelling(id string) string {
	return `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `,"reason":"user pressed stop"}}`
}

const listenLine = `{"jsonrpc":"2.0","id":"sub","method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},"_meta":{` + modernMeta + `}}}`

var stopped = &CancelledError{Reason: "user pressed stop"}

// script plays a transcript as talk does, whose lines are written short:
//
//	> 1 ping {...}        a request; {} may be left out
//	> 1+ tools/list {...} one of the modern era
//	> notifications/x {}  a notification
//	< 1 {...}             a result
//	< 1+ {...}            one of the modern era; 1* has the caching hints as well
//	< 1! -32602 text      an error; {...} behind it is its data
//	< notifications/x {}  a notification; {} may be left out
func (c *client) script(lines string) {
	c.t.Helper()
	c.talk(long(lines))
}

// ask sends one line of a script and returns what comes then.
func (c *client) ask(line string) []string {
	c.t.Helper()
	c.send(strings.TrimSpace(strings.TrimPrefix(long(line), ">")))
	return c.recv()
}

// modernParams is what makes a request one of the modern era, as a member of
// its params.
const modernParams = `"_meta":{` + modernMeta + `}`

// long writes a script out.
func long(lines string) string {
	var b strings.Builder
	for line := range strings.Lines(lines) {
		line = strings.TrimSpace(line)
		m := shortLine.FindStringSubmatch(line)
		if m == nil {
			if line != "" && line[0] != '#' {
				panic("bad line: " + line)
			}
			continue
		}
		dir, id, mark, method, text, object := m[1], m[2], m[3], m[4], m[5], m[6]
		into := func(first, last string) string { // more members for object
			inner := strings.TrimSuffix(strings.TrimPrefix(object, "{"), "}")
			return "{" + strings.Join(slices.DeleteFunc([]string{first, inner, last}, func(s string) bool { return s == "" }), ",") + "}"
		}
		fmt.Fprintf(&b, `%s {"jsonrpc":"2.0"`, dir)
		if id != "" {
			b.WriteString(`,"id":` + id)
		}
		switch {
		case mark == "!":
			fmt.Fprintf(&b, `,"error":{"code":%s,"message":%s`, method, appendString(nil, text))
			if object != "" {
				b.WriteString(`,"data":` + object)
			}
			b.WriteString("}")
		case mark == "+" && method != "":
			fmt.Fprintf(&b, `,"method":%q,"params":%s`, method, into("", modernParams))
		case method != "":
			fmt.Fprintf(&b, `,"method":%q`, method)
			if object != "" {
				b.WriteString(`,"params":` + object)
			}
		case mark == "+":
			b.WriteString(`,"result":` + into(`"resultType":"complete"`, "$SRV"))
		case mark == "*":
			b.WriteString(`,"result":` + into(`"resultType":"complete","ttlMs":0,"cacheScope":"private"`, "$SRV"))
		default:
			b.WriteString(`,"result":` + object)
		}
		b.WriteString("}\n")
	}
	return b.String()
}

var shortLine = regexp.MustCompile(`^([<>]) (?:(-?\d+|null|"[^"]*")([+*!]?) ?)?([a-z]+[a-zA-Z_/]*|-?\d+)? ?([^{]*?) ?(\{.*\})?$`)

// inBubble runs f with a client, of a legacy session if version is not "".
func inBubble(t *testing.T, s *Server, version string, f func(c *client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		t.Helper()
		c := serve(t, s)
		if version != "" {
			c.initialize(version, "{}")
		}
		f(c)
		c.end()
	})
}

// eras are both ways to speak: the version to initialize with, and the mark of
// a request.
var eras = []struct{ name, version, plus string }{{"legacy", "2025-11-25", ""}, {"modern", "", "+"}}

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

// mustPanic checks that every function panics, with its key in the message.
func mustPanic(t *testing.T, cases map[string]func()) {
	t.Helper()
	for want, f := range cases {
		wantPanic(t, want, f)
	}
}

type none = struct{}

func ptr[T any](v T) *T { return &v }

// diagnostics makes s write its diagnostics to a buffer.
func diagnostics(s *Server) *bytes.Buffer {
	var b bytes.Buffer
	s.ErrorLog = log.New(&b, "", 0)
	return &b
}

// heap is how many bytes are in use.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// longRun is whether the tests shall take their time.
func longRun() bool { return os.Getenv("MCP_TEST_LONG") != "" }

// raceBuild is whether the race detector is in: it is slow, and bears no more
// than 8128 goroutines.
var raceBuild = sync.OnceValue(func() bool {
	info, _ := debug.ReadBuildInfo()
	return info != nil && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
})

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
	return func(context.Context, map[string]string) (list []Message, _ error) {
		for _, c := range content {
			list = append(list, Message{Content: c})
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

// demo has a tool of each kind.
func demo() *Server {
	s := &Server{Instructions: "Demo server."}
	AddTool(s, Tool{Name: "echo", Title: "Echo", Description: "Returns its text", Annotations: ToolAnnotations{ReadOnlyHint: Yes}},
		func(ctx context.Context, in struct {
			Text string `json:"text"`
		}) (string, error) {
			Progress(ctx, 1, 1, "echoing")
			return in.Text, nil
		})
	AddTool(s, Tool{Name: "slow"}, func(ctx context.Context, _ none) (string, error) {
		<-ctx.Done()
		Progress(ctx, 1, 1, "too late")
		return "late", ctx.Err()
	})
	AddTool(s, Tool{Name: "count"}, func(ctx context.Context, in struct {
		To int `json:"to"`
	}) (string, error) {
		for i := range in.To {
			Progress(ctx, float64(i+1), float64(in.To), "")
			Progress(ctx, float64(i+1), float64(in.To), "not more than before")
			Progress(ctx, float64(i), float64(in.To), "less")
		}
		return fmt.Sprint(in.To), nil
	})
	AddTool(s, Tool{Name: "grow"}, func(context.Context, none) (string, error) {
		AddTool(s, Tool{Name: "extra"}, func(context.Context, none) (string, error) { return "", nil })
		return "added", nil
	})
	AddTool(s, Tool{Name: "list_things"}, func(context.Context, none) ([]string, error) { return []string{"a"}, nil })
	AddTool(s, Tool{Name: "ask"}, func(ctx context.Context, _ none) ([]Root, error) { return Roots(ctx, "roots") })
	return s
}

// emptied has the tools capability, and no tool.
func emptied() *Server {
	s := demo()
	s.RemoveTools("echo", "slow", "count", "grow", "list_things", "ask")
	s.Instructions = ""
	return s
}

// demoTools is what stands in the list of tools of demo.
const demoTools = `
	{"name":"echo","title":"Echo","description":"Returns its text","inputSchema":{"type":"object","properties":{"text":{"type":"string"}},"required":["text"],"additionalProperties":false},"annotations":{"readOnlyHint":true}},
	{"name":"slow","inputSchema":{"type":"object","properties":{},"additionalProperties":false}},
	{"name":"count","inputSchema":{"type":"object","properties":{"to":{"type":"integer"}},"required":["to"],"additionalProperties":false}},
	{"name":"grow","inputSchema":{"type":"object","properties":{},"additionalProperties":false}},
	{"name":"list_things","inputSchema":{"type":"object","properties":{},"additionalProperties":false}},
	{"name":"ask","inputSchema":{"type":"object","properties":{},"additionalProperties":false}}`

// fullDemo is the server of both transcripts.
func fullDemo() *Server {
	s := &Server{Name: "demo", Version: "1.0.0", Instructions: "Demo server.", Logging: true}
	log := func(name string) *slog.Logger { return slog.New(LogHandler(name)) }
	AddTool(s, Tool{Name: "echo", Title: "Echo", Description: "Returns its text", Annotations: ToolAnnotations{ReadOnlyHint: Yes}},
		func(ctx context.Context, in struct {
			Text string `json:"text"`
		}) (string, error) {
			log("echo").InfoContext(ctx, "called")
			Progress(ctx, 1, 1, "echoing")
			return in.Text, nil
		})
	AddTool(s, Tool{Name: "slow"}, func(ctx context.Context, _ struct{}) (string, error) {
		<-ctx.Done()
		return "", ctx.Err()
	})
	AddTool(s, Tool{Name: "ask_name"}, func(ctx context.Context, _ struct{}) (string, error) {
		log("ask_name").InfoContext(ctx, "asking")
		who, err := Elicit[struct {
			Name string `json:"name"`
		}](ctx, "who", "Your name?")
		return "Hello " + who.Name, err
	})
	AddTool(s, Tool{Name: "grow"}, func(ctx context.Context, _ struct{}) (string, error) {
		AddTool(s, Tool{Name: "grown"}, func(context.Context, struct{}) (string, error) { return "", nil })
		return "added", nil
	})
	s.AddResource(Resource{URI: "demo://a", Name: "a", MIMEType: "text/plain"},
		func(context.Context, string, map[string]string) ([]ResourceContents, error) {
			return []ResourceContents{{Text: "A"}}, nil
		})
	s.AddPrompt(Prompt{Name: "greet", Arguments: []Argument{{Name: "name", Required: true,
		Complete: func(context.Context, string, map[string]string) ([]string, error) { return []string{"Ann", "Abe"}, nil }}}},
		func(_ context.Context, args map[string]string) ([]Message, error) {
			return []Message{{Content: Text("Greet " + args["name"])}}, nil
		})
	return s
}

// fullDemoTools is what stands in the list of tools of fullDemo.
var fullDemoTools = strings.Join(strings.Fields(`
	{"name":"echo","title":"Echo","description":"Returns#its#text","inputSchema":{"type":"object","properties":{"text":{"type":"string"}},
		"required":["text"],"additionalProperties":false},"annotations":{"readOnlyHint":true}},
	{"name":"slow","inputSchema":{"type":"object","properties":{},"additionalProperties":false}},
	{"name":"ask_name","inputSchema":{"type":"object","properties":{},"additionalProperties":false}},
	{"name":"grow","inputSchema":{"type":"object","properties":{},"additionalProperties":false}}`), "")

// ---- one tool, called x ----

// toolOf adds a tool x that returns its arguments as encoding/json sees them.
func toolOf[In any](s *Server) { toolAs[In](s, "x") }

func toolAs[In any](s *Server, name string) {
	AddTool(s, Tool{Name: name}, func(_ context.Context, in In) (string, error) {
		raw, err := json.Marshal(in)
		return string(raw), err
	})
}

// out is a tool that returns v and err.
func out[T any](v T, err error) func(*Server) {
	return func(s *Server) {
		AddTool(s, Tool{Name: "x"}, func(context.Context, none) (T, error) { return v, err })
	}
}

// promised is out with an output schema.
func promised[T any](v T) func(*Server) {
	return func(s *Server) {
		AddTool(s, Tool{Name: "x", OutputSchema: json.RawMessage(`{"type":"object"}`)}, func(context.Context, none) (T, error) { return v, nil })
	}
}

// A toolResult is what a call gave, or the error that it gave.
type toolResult struct {
	Content []struct{ Text string }
	Output  any `json:"structuredContent"`
	IsError bool
	failed  string
}

// text is the one text of a result, behind an "! " if it is an error.
func (r toolResult) text() string {
	switch {
	case r.failed != "":
		return "!! " + r.failed
	case len(r.Content) != 1:
		return fmt.Sprintf("%d blocks", len(r.Content))
	case r.IsError:
		return "! " + r.Content[0].Text
	}
	return r.Content[0].Text
}

// callX lists the only tool of s, which is called x, and calls it with each of
// these arguments.
func callX(t *testing.T, s *Server, version string, args ...string) (tool struct{ InputSchema, OutputSchema json.RawMessage }, results []toolResult) {
	t.Helper()
	lines := fmt.Sprintf(`{"jsonrpc":"2.0","id":1000,"method":"initialize","params":{"protocolVersion":%q,"capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`, version) +
		"\n" + `{"jsonrpc":"2.0","id":1001,"method":"tools/list"}` + "\n"
	for i, a := range args {
		lines += call(strconv.Itoa(i), "x", a) + "\n"
	}
	results = make([]toolResult, len(args))
	for _, line := range feed(t, s, strings.NewReader(lines)) {
		var m struct {
			ID     int
			Result json.RawMessage
			Error  *struct{ Message string }
		}
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		switch {
		case m.ID == 1001:
			var list struct {
				Tools []struct{ InputSchema, OutputSchema json.RawMessage }
			}
			if json.Unmarshal(m.Result, &list); len(list.Tools) == 1 {
				tool = list.Tools[0]
			}
		case m.ID < len(args) && m.Error != nil:
			results[m.ID].failed = m.Error.Message
		case m.ID < len(args):
			json.Unmarshal(m.Result, &results[m.ID])
		}
	}
	return tool, results
}

// byHand adds a tool x with a schema written by hand that returns its arguments
// as encoding/json sees them.
func byHand[In any](s *Server, schema string) {
	AddTool(s, Tool{Name: "x", InputSchema: json.RawMessage(schema)}, func(_ context.Context, in In) (string, error) {
		raw, err := json.Marshal(in)
		return string(raw), err
	})
}

// A trial is arguments and the text that comes of them.
type trial struct{ args, want string }

// try calls the tool x of s, and compares the texts.
func try(t *testing.T, s *Server, trials ...trial) {
	t.Helper()
	var args []string
	for _, tr := range trials {
		args = append(args, tr.args)
	}
	_, results := callX(t, s, legacyPV, args...)
	for i, tr := range trials {
		want := strings.Replace(tr.want, "! ", "! Invalid arguments: ", 1)
		if got := results[i].text(); got != want {
			t.Errorf("%.200s: got %s, want %s", tr.args, got, want)
		}
	}
}

const invalidArgs = "! Invalid arguments: "

// ---- stages ----

// A stage is a server with tools that end in all ways. What their handlers saw
// is in causes, in order of their ends.
type stage struct {
	Server
	t       *testing.T
	release chan struct{} // lets "deaf" return

	mu      sync.Mutex
	started []string // ids
	causes  []error
}

func newStage(t *testing.T) *stage {
	s := &stage{t: t, release: make(chan struct{})}
	begin := func(ctx context.Context) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.started = append(s.started, string(RequestFrom(ctx).ID))
	}
	end := func(ctx context.Context) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.causes = append(s.causes, context.Cause(ctx))
	}
	add(&s.Server, "hi", func(ctx context.Context) (string, error) { begin(ctx); return "hi", nil })
	add(&s.Server, "wait", func(ctx context.Context) (string, error) { // as long as it may
		begin(ctx)
		<-ctx.Done()
		end(ctx)
		return "", ctx.Err()
	})
	add(&s.Server, "deaf", func(ctx context.Context) (string, error) { // does not look at ctx
		begin(ctx)
		<-s.release
		end(ctx)
		Progress(ctx, 1, 0, "")
		return "late", nil
	})
	for _, n := range []int{1, 2, 3} {
		add(&s.Server, "sleep"+strconv.Itoa(n), func(ctx context.Context) (string, error) {
			begin(ctx)
			select {
			case <-ctx.Done():
				end(ctx)
				return "", ctx.Err()
			case <-time.After(time.Duration(n) * time.Second):
				end(ctx)
				Progress(ctx, 1, 0, "")
				return "slept", nil
			}
		})
	}
	add(&s.Server, "panic", func(context.Context) (string, error) { panic("secret") })
	add(&s.Server, "nil", func(context.Context) (string, error) { var m map[int]int; m[0] = 1; return "", nil })
	add(&s.Server, "goexit", func(context.Context) (string, error) { runtime.Goexit(); return "", nil })
	add(&s.Server, "ask", func(ctx context.Context) (string, error) { // with a context of its own
		_, err := Roots(context.WithoutCancel(ctx), "k")
		s.mu.Lock()
		defer s.mu.Unlock()
		s.causes = append(s.causes, err)
		return "asked", err
	})
	return s
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

// A wireClient is a client whose w can be looked at write by write, and can
// fail.
type wireClient struct {
	client
	writes []string
	tries  int
	break_ func(b []byte) (int, error) // if set, is called for Write
}

func (w *wireClient) Write(b []byte) (int, error) {
	w.mu.Lock()
	w.tries++
	fail := w.break_
	w.mu.Unlock()
	if fail != nil {
		if n, err := fail(b); n < len(b) {
			return n, err
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writes = append(w.writes, string(b))
	w.got = append(w.got, strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")...)
	return len(b), nil
}

// serveWire starts a session whose other end is a wireClient.
func serveWire(t *testing.T, s *Server) *wireClient {
	t.Helper()
	w := new(wireClient)
	r, in := io.Pipe()
	ctx, cancel := context.WithCancelCause(context.Background())
	w.t, w.in, w.cancel, w.done = t, in, cancel, make(chan error, 1)
	s.Name, s.Version = "demo", "1.0.0"
	if s.ErrorLog == nil {
		s.ErrorLog = log.New(io.Discard, "", 0)
	}
	go func() {
		in, out := wired(r, w)
		err := s.Serve(ctx, in, out)
		r.CloseWithError(io.ErrClosedPipe)
		cancel(nil)
		w.done <- err
	}()
	return w
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
	synctest.Test(t, func(t *testing.T) { f(t, newStage(t)) })
}

// ---- processes ----

func TestMain(m *testing.M) {
	switch os.Getenv("MCP_TEST_CHILD") {
	case "server":
		os.Exit(childServer())
	case "reader": // what a handler may start: it reads its stdin and prints
		b, err := io.ReadAll(os.Stdin)
		fmt.Printf("reader got %d bytes, %v\n", len(b), err)
		os.Exit(0)
	case "host":
		os.Exit(childHost())
	}
	code := m.Run()
	left := leftovers()
	for end := time.Now().Add(5 * time.Second); left != "" && time.Now().Before(end); left = leftovers() {
		runtime.Gosched() // one may be at its last instructions
	}
	if code == 0 && left != "" {
		fmt.Fprintf(os.Stderr, "goroutines are left behind:\n\n%s\n", left)
		code = 1
	}
	os.Exit(code)
}

const patience = 60 * time.Second // with a process that should long have ended

// A report is what the child leaves behind. It is written by a deferred call
// of its main: if it is there, cleanup has run.
type report struct {
	Err      string         // of ServeStdio
	Drain    bool           // Err is an ErrDrain
	Ended    map[string]int // how many handlers were told to end, by what
	Restored bool           // os.Stdin and os.Stdout
	Again    string         // the error of serving once more
	Sys      uint64         // memory had from the system, which never shrinks
}

// childServer is the main of a server. Its manners are set in the environment.
func childServer() (code int) {
	var mu sync.Mutex
	rep := report{Ended: make(map[string]int)}
	defer func() {
		mu.Lock()
		defer mu.Unlock()
		b, _ := json.Marshal(rep)
		if err := os.WriteFile(os.Getenv("MCP_TEST_REPORT"), b, 0o600); err != nil {
			code = 3
		}
	}()

	duration := func(name string, preset time.Duration) time.Duration {
		d, _ := time.ParseDuration(os.Getenv(name))
		return cmp.Or(d, preset)
	}
	s := &Server{Name: "child", Version: "1",
		Drain: duration("MCP_TEST_DRAIN", 30*time.Second), Linger: duration("MCP_TEST_LINGER", 0)}
	if os.Getenv("MCP_TEST_OWNTRACE") != "" {
		s.Trace = os.Stderr
	}
	waiting, changed := 0, sync.NewCond(&mu)
	came := func() {
		mu.Lock()
		defer mu.Unlock()
		waiting++
		changed.Broadcast()
	}
	ended := func(cause error) {
		mu.Lock()
		defer mu.Unlock()
		rep.Ended[cause.Error()]++
	}
	type none struct{}
	AddTool(s, Tool{Name: "echo"}, func(ctx context.Context, in struct{ Text string }) (string, error) {
		return in.Text, nil
	})
	AddTool(s, Tool{Name: "big"}, func(ctx context.Context, in struct{ Size int }) (string, error) {
		return strings.Repeat("x", in.Size), nil
	})
	AddTool(s, Tool{Name: "wait"}, func(ctx context.Context, _ none) (string, error) {
		came()
		<-ctx.Done()
		ended(context.Cause(ctx))
		return "", ctx.Err()
	})
	AddTool(s, Tool{Name: "hang"}, func(ctx context.Context, _ none) (string, error) {
		came()
		select {}
	})
	AddTool(s, Tool{Name: "arrived"}, func(ctx context.Context, in struct{ N int }) (string, error) {
		mu.Lock()
		defer mu.Unlock()
		for waiting < in.N {
			changed.Wait()
		}
		return "yes", nil
	})
	AddTool(s, Tool{Name: "roots"}, func(ctx context.Context, in struct{ Detached bool }) (string, error) {
		if in.Detached {
			ctx = context.WithoutCancel(ctx)
		}
		_, err := Roots(ctx, "r")
		if err != nil {
			ended(err)
		}
		return "", err
	})
	AddTool(s, Tool{Name: "panic"}, func(ctx context.Context, _ none) (string, error) { panic("the secret") })
	AddTool(s, Tool{Name: "goexit"}, func(ctx context.Context, _ none) (string, error) {
		runtime.Goexit()
		return "", nil
	})
	AddTool(s, Tool{Name: "stray"}, func(ctx context.Context, _ none) (string, error) {
		fmt.Println("stray print")
		self, err := os.Executable()
		if err != nil {
			return "", err
		}
		cmd := exec.CommandContext(ctx, self)
		cmd.Env = append(os.Environ(), "MCP_TEST_CHILD=reader")
		cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
		return "ran", cmd.Run()
	})
	AddTool(s, Tool{Name: "second"}, func(ctx context.Context, _ none) (string, error) {
		return "", s.ServeStdio(ctx)
	})

	if wireLog != nil && os.Getenv("MCP_TRACE") == "" {
		s.Trace = new(tracer)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	AddTool(s, Tool{Name: "stop"}, func(context.Context, none) (string, error) {
		cancel()
		return "stopped", nil
	})
	AddTool(s, Tool{Name: "slow"}, func(ctx context.Context, _ none) (string, error) {
		<-ctx.Done()
		time.Sleep(50 * time.Millisecond) // cleans up
		self, err := os.FindProcess(os.Getpid())
		if err == nil {
			err = self.Signal(syscall.SIGTERM)
		}
		time.Sleep(50 * time.Millisecond) // and goes on with it
		return "", err
	})
	if os.Getenv("MCP_TEST_LOG") == "stdout" {
		log.SetOutput(os.Stdout)
		log.SetFlags(0)
	}
	stdin, stdout := os.Stdin, os.Stdout
	err := s.ServeStdio(ctx)
	if os.Getenv("MCP_TEST_AFTER") != "" { // stdin is at its end
		fmt.Println(`"after"`)
		if os.Getenv("MCP_TEST_LOG") != "" {
			log.Print("after, by log")
		}
		if err := s.ServeStdio(context.Background()); err != nil {
			rep.Again = err.Error()
		}
	}
	if os.Getenv("MCP_TEST_CLEANUP") != "" {
		fmt.Fprintln(os.Stderr, "cleaning up")
		io.Copy(io.Discard, os.NewFile(3, "cleanup")) // until the parent has it end
		for strings.Contains(leftovers(), "(*lineWriter).writeAll") {
			runtime.Gosched() // a write that was left behind has still to fail
		}
	}
	mu.Lock()
	defer mu.Unlock()
	rep.Restored = os.Stdin == stdin && os.Stdout == stdout
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	rep.Sys = m.Sys
	if err != nil {
		rep.Err, rep.Drain = err.Error(), errors.Is(err, ErrDrain)
		return 1
	}
	return 0
}

// childHost starts a server, has ten calls of it under way, tells its process
// id, and never ends.
func childHost() int {
	self, _ := os.Executable()
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), "MCP_TEST_CHILD=server")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return 2
	}
	out, err := cmd.StdoutPipe()
	if err != nil || cmd.Start() != nil {
		return 2
	}
	io.WriteString(in, opening+callLines(1, 10, "wait", "{}")+callLine(11, "arrived", `{"N":10}`))
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if strings.Contains(lines.Text(), `"id":11,`) {
			fmt.Println(cmd.Process.Pid)
		}
	}
	return 1
}

const opening = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"roots":{}},"clientInfo":{"name":"c","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
`

func callLine(id int, tool, arguments string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":%s}}`+"\n", id, tool, arguments)
}

func callLines(from, to int, tool, arguments string) string {
	var b strings.Builder
	for id := from; id <= to; id++ {
		b.WriteString(callLine(id, tool, arguments))
	}
	return b.String()
}

func pingLineOf(id int) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"ping"}`+"\n", id)
}

// A message is any line of the server.
type message struct {
	ID     int
	Method string
	Result *struct {
		Content []struct{ Text string }
		IsError bool
	}
	Error *struct{ Code int }
}

func (m message) text() string {
	if m.Result == nil || len(m.Result.Content) != 1 {
		return ""
	}
	return m.Result.Content[0].Text
}

// A proc is a child with its pipes.
type proc struct {
	t        *testing.T
	cmd      *exec.Cmd
	dir      string // where it runs
	file     string // its report
	in, out  *os.File
	lines    *bufio.Reader // of out
	errs     bytes.Buffer  // stderr, complete when it has ended
	ended    chan struct{}
	overtime func()
}

// newProc makes a child without starting it.
func newProc(t *testing.T, env ...string) *proc {
	t.Helper()
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	p := &proc{t: t, dir: t.TempDir(), ended: make(chan struct{}), overtime: cancel}
	p.file = filepath.Join(p.dir, "report")
	p.cmd = exec.CommandContext(ctx, self)
	p.cmd.Dir, p.cmd.WaitDelay, p.cmd.Stderr = p.dir, 10*time.Second, &p.errs
	p.cmd.Env = append(os.Environ(), "MCP_TEST_CHILD=server", "MCP_TEST_REPORT="+p.file, "MCP_TRACE=",
		"GORACE=atexit_sleep_ms=0", "GOCOVERDIR="+t.TempDir())
	p.cmd.Env = append(p.cmd.Env, env...)
	return p
}

// start starts it, with pipes where nothing else was set.
func (p *proc) start() *proc {
	p.t.Helper()
	var theirs []*os.File
	pipe := func() (r, w *os.File) {
		r, w, err := os.Pipe()
		if err != nil {
			p.t.Fatal(err)
		}
		p.t.Cleanup(func() { r.Close(); w.Close() })
		return r, w
	}
	if p.cmd.Stdin == nil {
		r, w := pipe()
		p.cmd.Stdin, p.in, theirs = r, w, append(theirs, r)
	}
	if p.cmd.Stdout == nil {
		r, w := pipe()
		p.cmd.Stdout, p.out, theirs = w, r, append(theirs, w)
		p.lines = bufio.NewReaderSize(r, 1<<16)
	}
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	for _, f := range theirs {
		f.Close()
	}
	go func() {
		p.cmd.Wait()
		close(p.ended)
	}()
	p.t.Cleanup(func() { p.overtime(); <-p.ended })
	return p
}

func beginProc(t *testing.T, env ...string) *proc {
	t.Helper()
	p := newProc(t, env...).start()
	p.send(opening)
	p.next(0)
	return p
}

// startCleaner starts a server with a cleanup behind it. Begun returns when that
// has begun, and it lasts until end is called.
func (p *proc) startCleaner() (begun, end func()) {
	p.t.Helper()
	errs, theirErrs, err1 := os.Pipe()
	theirs, cleanup, err2 := os.Pipe()
	if err := errors.Join(err1, err2); err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { errs.Close(); cleanup.Close() })
	p.cmd.Env = append(p.cmd.Env, "MCP_TEST_CLEANUP=fd 3")
	p.cmd.Stderr, p.cmd.ExtraFiles = theirErrs, []*os.File{theirs}
	p.start()
	theirErrs.Close()
	theirs.Close()
	begun = func() {
		p.t.Helper()
		if line, err := bufio.NewReader(errs).ReadString('\n'); line != "cleaning up\n" {
			p.t.Fatalf("got %q, %v", line, err)
		}
	}
	return begun, func() { cleanup.Close() }
}

// kill sends a signal until that has ended the process: the one before may not
// have been dealt with yet.
func (p *proc) kill(sig os.Signal) {
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for {
		p.cmd.Process.Signal(sig)
		select {
		case <-p.ended:
			return
		case <-again.C:
		}
	}
}

func (p *proc) send(s string) {
	p.t.Helper()
	if _, err := io.WriteString(p.in, s); err != nil {
		p.t.Fatalf("send: %v", err)
	}
}

// recv reads one line, and whatever it is, it is JSON-RPC.
func (p *proc) recv() message {
	p.t.Helper()
	line, err := p.lines.ReadString('\n')
	if err != nil {
		p.t.Fatalf("recv: %v after %q", err, line)
	}
	return parseMessage(p.t, line)
}

func parseMessage(t *testing.T, line string) (m message) {
	t.Helper()
	if err := json.Unmarshal([]byte(line), &m); err != nil || !strings.HasPrefix(line, `{"jsonrpc":"2.0",`) {
		t.Fatalf("not JSON-RPC: %.200q (%v)", line, err)
	}
	return m
}

// next reads the answer to id, which is the next line.
func (p *proc) next(id int) message {
	p.t.Helper()
	m := p.recv()
	if m.ID != id || m.Method != "" {
		p.t.Fatalf("got %+v, want the answer to %d", m, id)
	}
	return m
}

// arrived returns when n handlers wait.
func (p *proc) arrived(n int) {
	p.t.Helper()
	p.send(callLine(1e6, "arrived", fmt.Sprintf(`{"N":%d}`, n)))
	p.next(1e6)
}

// answers reads to the end: ids from to to, each once, in any order.
func (p *proc) answers(from, to int, check func(m message) bool) {
	p.t.Helper()
	rest, err := io.ReadAll(p.lines)
	if err != nil {
		p.t.Fatal(err)
	}
	wantAnswered(p.t, string(rest), from, to, check)
}

func wantAnswered(t *testing.T, out string, from, to int, check func(m message) bool) {
	t.Helper()
	seen := make(map[int]bool)
	for line := range strings.Lines(out) {
		m := parseMessage(t, line)
		if seen[m.ID] || m.ID < from || m.ID > to {
			t.Fatalf("unexpected, or twice: %.200s", line)
		}
		if seen[m.ID] = true; m.Error != nil || m.Result == nil || !check(m) {
			t.Fatalf("wrong answer: %.200s", line)
		}
	}
	if len(seen) != to-from+1 {
		t.Fatalf("%d of %d answers", len(seen), to-from+1)
	}
}

func anything(message) bool { return true }

// closed is the answer of a handler that returned the error of its context.
func toldClosed(m message) bool { return m.Result.IsError && m.text() == ErrClosed.Error() }

// wait waits for the end and checks how it came about.
func (p *proc) wait(state string) (rep report) {
	p.t.Helper()
	<-p.ended
	if got := p.cmd.ProcessState.String(); got != state {
		p.t.Fatalf("ended with %s, want %s; stderr: %.5000s", got, state, p.errs.String())
	}
	b, err := os.ReadFile(p.file)
	if strings.HasPrefix(state, "signal:") {
		if err == nil {
			p.t.Fatal("cleanup ran in a process that was killed")
		}
		return rep
	}
	if err == nil {
		err = json.Unmarshal(b, &rep)
	}
	if err != nil {
		p.t.Fatalf("cleanup did not run: %v", err)
	}
	if state == "exit status 0" && rep.Err != "" || !rep.Restored {
		p.t.Errorf("report: %+v", rep)
	}
	return rep
}

// told checks that n handlers were told to end, and all by this cause.
func (p *proc) told(rep report, n int, cause string) {
	p.t.Helper()
	if len(rep.Ended) != 1 || rep.Ended[cause] != n {
		p.t.Errorf("handlers were told %v, want %q %d times", rep.Ended, cause, n)
	}
}

func onUnix(t *testing.T) {
	t.Helper()
	if runtime.GOOS == "windows" || runtime.GOOS == "js" || runtime.GOOS == "wasip1" {
		t.Skip("needs Unix")
	}
}

// ==== what a server offers and says ====

// ---- whole sessions ----

// Each trap is a place where the protocol's wording misleads; the transcript
// shows what goes over the wire.
func TestEveryTrapOfTheProtocolIsAvoided(t *testing.T) {
	const missing = "Missing required _meta fields io.modelcontextprotocol/protocolVersion and io.modelcontextprotocol/clientCapabilities (or send initialize first)"
	initialize := func(version string) string {
		return `> {"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"` + version + `","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}` + "\n"
	}
	initialized := func(version string) string {
		return `< {"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"` + version + `","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"demo","version":"1.0.0"}}}` + "\n"
	}
	for _, tt := range []struct {
		name       string
		server     func() *Server
		version    string // of initialize; "": none
		transcript string
	}{
		{"ids are raw tokens", demo, "", `
			> {"jsonrpc":"2.0","id":9007199254740993,"method":"ping"}
			< {"jsonrpc":"2.0","id":9007199254740993,"result":{}}
			> {"jsonrpc":"2.0","id":"","method":"ping"}
			< {"jsonrpc":"2.0","id":"","result":{}}
			> {"jsonrpc":"2.0","id":0,"method":"ping"}
			< {"jsonrpc":"2.0","id":0,"result":{}}`},
		{"null id", demo, "", `
			> {"jsonrpc":"2.0","id":null,"method":"ping"}
			< ` + wrong("null", -32600, "Invalid Request: id must not be null")},
		{"fractional and boolean ids", demo, "", `
			> {"jsonrpc":"2.0","id":1.5,"method":"ping"}
			< ` + wrong("null", -32600, "Invalid Request: id must be a string or an integer") + `
			> {"jsonrpc":"2.0","id":true,"method":"ping"}
			< ` + wrong("null", -32600, "Invalid Request: id must be a string or an integer")},
		{"notifications are never answered", demo, "", `
			> {"jsonrpc":"2.0","method":"notifications/no_such_thing"}
			> {"jsonrpc":"2.0","method":"tools/list"}
			> {"jsonrpc":"2.0","method":"tools/call","params":7}
			> {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":{"x":1}}}
			> {"jsonrpc":"2.0","method":"notifications/cancelled"}` + ping},
		{"garbage", demo, "", `
			> {"jsonrpc":"2.0","id":1,
			< ` + wrong("null", -32700, "Parse error") + ping},
		{"invalid requests echo a usable id", demo, "", `
			> {"id":3,"method":"ping"}
			< ` + wrong("3", -32600, `Invalid Request: jsonrpc must be "2.0"`) + `
			> {"jsonrpc":"2.0","id":4,"method":7}
			< ` + wrong("4", -32600, "Invalid Request: method must be a string")},
		{"key case matters", demo, "", `
			> {"jsonrpc":"2.0","id":5,"Method":"ping"}
			< ` + wrong("5", -32600, "Invalid Request: method missing")},
		{"initialize never says 2026-07-28", emptied, "", initialize("2026-07-28") + initialized("2025-11-25")},
		{"no era", demo, "", `
			> ` + call("1", "echo", `{"text":"hi"}`) + `
			< ` + wrong("1", -32602, missing) + `
			> {"jsonrpc":"2.0","id":2,"method":"no/such"}
			< ` + wrong("2", -32601, "Method not found: no/such") + `
			> {"jsonrpc":"2.0","id":3,"method":"server/discover"}
			< ` + wrong("3", -32602, missing) + ping},
		{"no gate on initialized", emptied, "", initialize("2025-06-18") + initialized("2025-06-18") + `
			> {"jsonrpc":"2.0","id":2,"method":"prompts/list"}
			< {"jsonrpc":"2.0","id":2,"result":{"prompts":[]}}
			> {"jsonrpc":"2.0","id":3,"method":"tools/list"}
			< {"jsonrpc":"2.0","id":3,"result":{"tools":[]}}`},
		{"probe, then fall back", emptied, "", `
			> {"jsonrpc":"2.0","id":"p","method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2099-01-01","io.modelcontextprotocol/clientCapabilities":{}}}}
			< {"jsonrpc":"2.0","id":"p","error":{"code":-32022,"message":"Unsupported protocol version","data":{"supported":["2026-07-28"],"requested":"2099-01-01"}}}
			> {"jsonrpc":"2.0","id":"d","method":"server/discover","params":{$META}}
			< {"jsonrpc":"2.0","id":"d","result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{"listChanged":true}},"ttlMs":0,"cacheScope":"private",$SRV}}
			` + initialize("2025-06-18") + initialized("2025-06-18")},
		{"the shape follows the request", emptied, legacyPV, `
			> {"jsonrpc":"2.0","id":7,"method":"tools/list","params":{$META}}
			< {"jsonrpc":"2.0","id":7,"result":{"resultType":"complete","tools":[],"ttlMs":0,"cacheScope":"private",$SRV}}
			> {"jsonrpc":"2.0","id":8,"method":"tools/list"}
			< {"jsonrpc":"2.0","id":8,"result":{"tools":[]}}`},
		{"half an envelope", demo, legacyPV, `
			> {"jsonrpc":"2.0","id":9,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}
			< ` + wrong("9", -32602, "Missing required _meta field io.modelcontextprotocol/clientCapabilities") + `
			> {"jsonrpc":"2.0","id":10,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"1900-01-01"}}}
			< ` + wrong("10", -32602, "Missing required _meta field io.modelcontextprotocol/clientCapabilities") + `
			> {"jsonrpc":"2.0","id":11,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":20260728,"io.modelcontextprotocol/clientCapabilities":{}}}}
			< ` + wrong("11", -32602, "Invalid params: io.modelcontextprotocol/protocolVersion must be a string") + `
			> {"jsonrpc":"2.0","id":12,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":[]}}}
			< ` + wrong("12", -32602, "Invalid params: io.modelcontextprotocol/clientCapabilities must be an object") + `
			> {"jsonrpc":"2.0","id":13,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"c"}}}}
			< ` + wrong("13", -32602, "Invalid params: io.modelcontextprotocol/clientInfo must be an object with name and version")},
		{"a legacy date in the envelope", demo, legacyPV, `
			> {"jsonrpc":"2.0","id":10,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2025-11-25","io.modelcontextprotocol/clientCapabilities":{}}}}
			< {"jsonrpc":"2.0","id":10,"error":{"code":-32022,"message":"Unsupported protocol version","data":{"supported":["2026-07-28"],"requested":"2025-11-25"}}}`},
		{"removed methods", demo, legacyPV, `
			> {"jsonrpc":"2.0","id":11,"method":"ping","params":{$META}}
			< ` + wrong("11", -32601, "Method not found: ping") + `
			> {"jsonrpc":"2.0","id":12,"method":"logging/setLevel","params":{$META}}
			< ` + wrong("12", -32601, "Method not found: logging/setLevel") + `
			> {"jsonrpc":"2.0","id":13,"method":"resources/subscribe","params":{$META}}
			< ` + wrong("13", -32601, "Method not found: resources/subscribe") + `
			> {"jsonrpc":"2.0","id":14,"method":"tasks/get","params":{$META}}
			< ` + wrong("14", -32601, "Method not found: tasks/get") + `
			> {"jsonrpc":"2.0","id":15,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"},$META}}
			< {"jsonrpc":"2.0","id":15,"error":{"code":-32601,"message":"Method not found: initialize","data":{"supported":["2026-07-28"]}}}`},
		{"the log level is checked before the method", demo, "", `
			> {"jsonrpc":"2.0","id":12,"method":"prompts/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/logLevel":"loud"}}}
			< ` + wrong("12", -32602, "Invalid log level: loud")},
		{"tool failures", demo, legacyPV, `
			> {"jsonrpc":"2.0","id":13,"method":"tools/call","params":{"name":"nope"}}
			< ` + wrong("13", -32602, "Unknown tool: nope") + `
			> {"jsonrpc":"2.0","id":14,"method":"tools/call","params":{"arguments":{}}}
			< ` + wrong("14", -32602, "Invalid params: name is required") + `
			> ` + call("15", "echo", `{"text":5}`) + `
			< ` + failed("15", "Invalid arguments: text must be a string, got 5") + `
			> ` + call("16", "echo", `["text"]`) + `
			< ` + wrong("16", -32602, "Invalid params: arguments must be an object") + `
			> {"jsonrpc":"2.0","id":17,"method":"tools/call"}
			< ` + wrong("17", -32602, "Invalid params: name is required") + `
			> {"jsonrpc":"2.0","id":18,"method":"tools/call","params":["echo"]}
			< ` + wrong("18", -32602, "Invalid params: params must be an object") + `
			> {"jsonrpc":"2.0","id":19,"method":"tools/call","params":{"name":7}}
			< ` + wrong("19", -32602, "Invalid params: name is required")},
		{"cancelled requests are silent", demo, "", `
			> {"jsonrpc":"2.0","id":18,"method":"tools/call","params":{"name":"slow","arguments":{},"_meta":{"progressToken":1,"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}
			> {"jsonrpc":"2.0","id":"18","method":"tools/call","params":{"name":"slow","arguments":{},$META}}
			> {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":18,"reason":"user"}}
			> {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"never-seen"}}
			> {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"18","reason":"user"}}` + ping + `
			> {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"p"}}`},
		{"initialize cannot be cancelled", emptied, "", initialize("2025-11-25") + initialized("2025-11-25") + `
			> {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}` + ping},
		{"progress", demo, legacyPV, `
			> {"jsonrpc":"2.0","id":19,"method":"tools/call","params":{"name":"count","arguments":{"to":2},"_meta":{"progressToken":7,"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}
			< {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":7,"progress":1,"total":2}}
			< {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":7,"progress":2,"total":2}}
			< {"jsonrpc":"2.0","id":19,"result":{"resultType":"complete","content":[{"type":"text","text":"2"}],$SRV}}
			> {"jsonrpc":"2.0","id":20,"method":"tools/call","params":{"name":"count","arguments":{"to":1},"_meta":{"progressToken":"7"}}}
			< {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"7","progress":1,"total":1}}
			< ` + said("20", "1") + `
			> ` + call("21", "count", `{"to":1}`) + `
			< ` + said("21", "1") + `
			> {"jsonrpc":"2.0","id":22,"method":"tools/call","params":{"name":"count","arguments":{"to":1},"_meta":{"progressToken":1.5}}}
			< ` + wrong("22", -32602, "Invalid params: progressToken must be a string or an integer")},
		{"listen", demo, "", `
			> {"jsonrpc":"2.0","id":21,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true,"promptsListChanged":true,"resourceSubscriptions":["demo://a"]},$META}}
			< {"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":21},"notifications":{"toolsListChanged":true}}}
			> {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"grow",$META}}
			< {"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":21}}}
			< {"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","content":[{"type":"text","text":"added"}],$SRV}}
			> {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":21}}` + ping},
		{"listen without a filter", demo, "", `
			> {"jsonrpc":"2.0","id":22,"method":"subscriptions/listen","params":{$META}}
			< ` + wrong("22", -32602, "Invalid params: notifications is required") + `
			> {"jsonrpc":"2.0","id":23,"method":"subscriptions/listen","params":{"notifications":[],$META}}
			< ` + wrong("23", -32602, "Invalid params: notifications is required") + `
			> {"jsonrpc":"2.0","id":24,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":1},$META}}
			< ` + wrong("24", -32602, "Invalid params: toolsListChanged must be true or false")},
		{"nothing unsolicited to modern clients", demo, "", `
			> {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"grow",$META}}
			< {"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","content":[{"type":"text","text":"added"}],$SRV}}`},
		{"undeclared capability", demo, legacyPV, `
			> {"jsonrpc":"2.0","id":23,"method":"tools/call","params":{"name":"ask","arguments":{},$META}}
			< {"jsonrpc":"2.0","id":23,"error":{"code":-32021,"message":"This request needs the roots capability, which this client does not have","data":{"requiredCapabilities":{"roots":{}}}}}`},
		{"batches in 2025-03-26", demo, "2025-03-26", `
			> [{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","method":"notifications/x"},{"jsonrpc":"2.0","id":"b","method":"nope"}]
			< [{"jsonrpc":"2.0","id":1,"result":{}},{"jsonrpc":"2.0","id":"b","error":{"code":-32601,"message":"Method not found: nope"}}]
			> []
			< ` + wrong("null", -32600, "Invalid Request: empty batch")},
		{"batches in 2025-06-18", demo, "2025-06-18", `
			> [{"jsonrpc":"2.0","id":1,"method":"ping"}]
			< ` + wrong("null", -32600, "Invalid Request: batching is not supported")},
		{"output that is no object", demo, legacyPV, `
			> {"jsonrpc":"2.0","id":25,"method":"tools/call","params":{"name":"list_things"}}
			< {"jsonrpc":"2.0","id":25,"result":{"content":[{"type":"text","text":"[\"a\"]"}],"structuredContent":{"result":["a"]}}}
			> {"jsonrpc":"2.0","id":26,"method":"tools/call","params":{"name":"list_things",$META}}
			< {"jsonrpc":"2.0","id":26,"result":{"resultType":"complete","content":[{"type":"text","text":"[\"a\"]"}],"structuredContent":["a"],$SRV}}`},
		{"tasks", demo, legacyPV, `
			> {"jsonrpc":"2.0","id":27,"method":"tools/call","params":{"name":"echo","arguments":{"text":"x"},"task":{"ttl":60000}}}
			< ` + said("27", "x") + `
			> {"jsonrpc":"2.0","id":28,"method":"tasks/get","params":{"taskId":"t"}}
			< ` + wrong("28", -32601, "Method not found: tasks/get")},
		{"cursors", demo, legacyPV, `
			> {"jsonrpc":"2.0","id":29,"method":"tools/list","params":{"cursor":"bogus"}}
			< ` + wrong("29", -32602, "Invalid cursor") + `
			> {"jsonrpc":"2.0","id":30,"method":"tools/list","params":{"cursor":7}}
			< ` + wrong("30", -32602, "Invalid cursor")},
		{"our ids are another namespace", demo, legacyPV, `
			> ` + call("1", "ask", "{}") + `
			< {"jsonrpc":"2.0","id":1,"method":"roots/list","params":{}}
			> ` + call("2", "slow", "{}") + `
			> {"jsonrpc":"2.0","id":2,"result":{"roots":[]}}
			> {"jsonrpc":"2.0","id":1,"result":{"roots":[{"uri":"file:///a"}]}}
			< {"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"[{\"uri\":\"file:///a\"}]"}],"structuredContent":{"result":[{"uri":"file:///a"}]}}}
			> {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`},
		{"capability off", func() *Server { return &Server{} }, legacyPV, `
			> {"jsonrpc":"2.0","id":30,"method":"resources/list"}
			< {"jsonrpc":"2.0","id":30,"result":{"resources":[]}}
			> {"jsonrpc":"2.0","id":31,"method":"resources/templates/list"}
			< {"jsonrpc":"2.0","id":31,"result":{"resourceTemplates":[]}}
			> {"jsonrpc":"2.0","id":32,"method":"tools/list"}
			< {"jsonrpc":"2.0","id":32,"result":{"tools":[]}}
			> {"jsonrpc":"2.0","id":33,"method":"resources/read","params":{"uri":"demo://a"}}
			< ` + wrong("33", -32601, "Method not found: resources/read") + `
			> {"jsonrpc":"2.0","id":34,"method":"prompts/get","params":{"name":"x"}}
			< ` + wrong("34", -32601, "Method not found: prompts/get") + `
			> {"jsonrpc":"2.0","id":35,"method":"completion/complete","params":{}}
			< ` + wrong("35", -32601, "Method not found: completion/complete") + `
			> {"jsonrpc":"2.0","id":36,"method":"logging/setLevel","params":{"level":"info"}}
			< ` + wrong("36", -32601, "Method not found: logging/setLevel") + `
			> {"jsonrpc":"2.0","id":37,"method":"resources/list","params":{$META}}
			< ` + wrong("37", -32601, "Method not found: resources/list") + `
			> {"jsonrpc":"2.0","id":38,"method":"tools/list","params":{$META}}
			< ` + wrong("38", -32601, "Method not found: tools/list") + `
			> {"jsonrpc":"2.0","id":39,"method":"server/discover","params":{$META}}
			< {"jsonrpc":"2.0","id":39,"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{},"ttlMs":0,"cacheScope":"private",$SRV}}`},
		{"falsy ids", emptied, "", `
			> {"jsonrpc":"2.0","id":0,"method":"tools/list","params":{$META}}
			< {"jsonrpc":"2.0","id":0,"result":{"resultType":"complete","tools":[],"ttlMs":0,"cacheScope":"private",$SRV}}`},
	} {
		t.Run(tt.name, func(t *testing.T) { play(t, tt.server(), tt.version, tt.transcript) })
	}
}

// A session of the legacy era goes, line for line, as the protocol describes
// it.
func TestAWholeLegacySession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := fullDemo()
		s.Title = "Demo"
		c := serve(t, s)
		play := func(transcript string) {
			c.talk(strings.ReplaceAll(strings.ReplaceAll(transcript, "$TOOLS", fullDemoTools), "Returns#its#text", "Returns its text"))
		}
		play(`
			> {"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{"form":{}},"roots":{"listChanged":true}},"clientInfo":{"name":"c","version":"1"}}}
			< {"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{"completions":{},"logging":{},"prompts":{"listChanged":true},"resources":{"subscribe":true,"listChanged":true},"tools":{"listChanged":true}},"serverInfo":{"name":"demo","title":"Demo","version":"1.0.0"},"instructions":"Demo server."}}
			> {"jsonrpc":"2.0","method":"notifications/initialized"}
			> {"jsonrpc":"2.0","id":2,"method":"ping"}
			< {"jsonrpc":"2.0","id":2,"result":{}}
			> {"jsonrpc":"2.0","id":3,"method":"tools/list"}
			< {"jsonrpc":"2.0","id":3,"result":{"tools":[$TOOLS]}}
			> {"jsonrpc":"2.0","id":"call-1","method":"tools/call","params":{"name":"echo","arguments":{"text":"hi"},"_meta":{"progressToken":"t1"}}}
			< {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"t1","progress":1,"total":1,"message":"echoing"}}
			< {"jsonrpc":"2.0","id":"call-1","result":{"content":[{"type":"text","text":"hi"}]}}
			> {"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"echo","arguments":{}}}
			< {"jsonrpc":"2.0","id":5,"result":{"content":[{"type":"text","text":"Invalid arguments: text is required"}],"isError":true}}
			> {"jsonrpc":"2.0","id":6,"method":"resources/list"}
			< {"jsonrpc":"2.0","id":6,"result":{"resources":[{"uri":"demo://a","name":"a","mimeType":"text/plain"}]}}
			> {"jsonrpc":"2.0","id":7,"method":"resources/read","params":{"uri":"demo://a"}}
			< {"jsonrpc":"2.0","id":7,"result":{"contents":[{"uri":"demo://a","mimeType":"text/plain","text":"A"}]}}
			> {"jsonrpc":"2.0","id":8,"method":"resources/read","params":{"uri":"demo://none"}}
			< {"jsonrpc":"2.0","id":8,"error":{"code":-32002,"message":"Resource not found","data":{"uri":"demo://none"}}}
			> {"jsonrpc":"2.0","id":9,"method":"resources/templates/list"}
			< {"jsonrpc":"2.0","id":9,"result":{"resourceTemplates":[]}}
			> {"jsonrpc":"2.0","id":10,"method":"resources/subscribe","params":{"uri":"demo://a"}}
			< {"jsonrpc":"2.0","id":10,"result":{}}
		`)
		s.ResourceUpdated("demo://a")
		play(`
			< {"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"demo://a"}}
			> {"jsonrpc":"2.0","id":11,"method":"resources/unsubscribe","params":{"uri":"demo://a"}}
			< {"jsonrpc":"2.0","id":11,"result":{}}
			> {"jsonrpc":"2.0","id":12,"method":"prompts/list"}
			< {"jsonrpc":"2.0","id":12,"result":{"prompts":[{"name":"greet","arguments":[{"name":"name","required":true}]}]}}
			> {"jsonrpc":"2.0","id":13,"method":"prompts/get","params":{"name":"greet","arguments":{"name":"Ann"}}}
			< {"jsonrpc":"2.0","id":13,"result":{"messages":[{"role":"user","content":{"type":"text","text":"Greet Ann"}}]}}
			> {"jsonrpc":"2.0","id":14,"method":"prompts/get","params":{"name":"greet"}}
			< {"jsonrpc":"2.0","id":14,"error":{"code":-32602,"message":"Missing required argument: name"}}
			> {"jsonrpc":"2.0","id":15,"method":"completion/complete","params":{"ref":{"type":"ref/prompt","name":"greet"},"argument":{"name":"name","value":"A"}}}
			< {"jsonrpc":"2.0","id":15,"result":{"completion":{"values":["Ann","Abe"],"total":2,"hasMore":false}}}
			> {"jsonrpc":"2.0","id":16,"method":"logging/setLevel","params":{"level":"info"}}
			< {"jsonrpc":"2.0","id":16,"result":{}}
			> {"jsonrpc":"2.0","id":17,"method":"logging/setLevel","params":{"level":"loud"}}
			< {"jsonrpc":"2.0","id":17,"error":{"code":-32602,"message":"Invalid log level: loud"}}
			# a tool that asks the user: server request, then the client's answer, then the result; a log line on the way
			> {"jsonrpc":"2.0","id":18,"method":"tools/call","params":{"name":"ask_name","arguments":{}}}
			< {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","logger":"ask_name","data":"asking"}}
			< {"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{"mode":"form","message":"Your name?","requestedSchema":{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}}}
			> {"jsonrpc":"2.0","id":1,"result":{"action":"accept","content":{"name":"Bo"}}}
			< {"jsonrpc":"2.0","id":18,"result":{"content":[{"type":"text","text":"Hello Bo"}]}}
			# list change is unsolicited
			> {"jsonrpc":"2.0","id":19,"method":"tools/call","params":{"name":"grow","arguments":{}}}
			< {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}
			< {"jsonrpc":"2.0","id":19,"result":{"content":[{"type":"text","text":"added"}]}}
			# cancellation: no answer for 20
			> {"jsonrpc":"2.0","id":20,"method":"tools/call","params":{"name":"slow","arguments":{}}}
			> {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":20,"reason":"user"}}
			> {"jsonrpc":"2.0","id":21,"method":"no/such"}
			< {"jsonrpc":"2.0","id":21,"error":{"code":-32601,"message":"Method not found: no/such"}}
			# client closes stdin; server exits 0
		`)
		c.end()
	})
}

// A session of the modern era goes, line for line, as the protocol describes
// it.
func TestAWholeModernSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := fullDemo()
		c := serve(t, s)
		play := func(transcript string) {
			c.talk(strings.NewReplacer("$TOOLS", strings.ReplaceAll(fullDemoTools, "#", " "),
				"$STATE", callOf(s, "ask_name", "{}").seal([]byte("{}"))).Replace(transcript))
		}
		play(`
			> {"jsonrpc":"2.0","id":"d","method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}
			< {"jsonrpc":"2.0","id":"d","result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"completions":{},"logging":{},"prompts":{"listChanged":true},"resources":{"subscribe":true,"listChanged":true},"tools":{"listChanged":true}},"instructions":"Demo server.","ttlMs":0,"cacheScope":"private",$SRV}}
			> {"jsonrpc":"2.0","id":1,"method":"tools/list","params":{$META}}
			< {"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","tools":[$TOOLS],"ttlMs":0,"cacheScope":"private",$SRV}}
			> {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"echo","arguments":{"text":"hi"},"_meta":{"progressToken":1,"io.modelcontextprotocol/logLevel":"info","io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}
			< {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","logger":"echo","data":"called"}}
			< {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1,"total":1,"message":"echoing"}}
			< {"jsonrpc":"2.0","id":2,"result":{"resultType":"complete","content":[{"type":"text","text":"hi"}],$SRV}}
			> {"jsonrpc":"2.0","id":3,"method":"resources/read","params":{"uri":"demo://a",$META}}
			< {"jsonrpc":"2.0","id":3,"result":{"resultType":"complete","contents":[{"uri":"demo://a","mimeType":"text/plain","text":"A"}],"ttlMs":0,"cacheScope":"private",$SRV}}
			> {"jsonrpc":"2.0","id":4,"method":"resources/read","params":{"uri":"demo://none",$META}}
			< {"jsonrpc":"2.0","id":4,"error":{"code":-32602,"message":"Resource not found","data":{"uri":"demo://none"}}}
			> {"jsonrpc":"2.0","id":5,"method":"prompts/get","params":{"name":"greet","arguments":{"name":"Ann"},$META}}
			< {"jsonrpc":"2.0","id":5,"result":{"resultType":"complete","messages":[{"role":"user","content":{"type":"text","text":"Greet Ann"}}],$SRV}}
			> {"jsonrpc":"2.0","id":6,"method":"completion/complete","params":{"ref":{"type":"ref/prompt","name":"greet"},"argument":{"name":"name","value":"A"},$META}}
			< {"jsonrpc":"2.0","id":6,"result":{"resultType":"complete","completion":{"values":["Ann","Abe"],"total":2,"hasMore":false},$SRV}}
			# MRTR round 1, then the retry with a new id
			> {"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"ask_name","arguments":{},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{}}}}}}
			< {"jsonrpc":"2.0","id":7,"result":{"resultType":"input_required","inputRequests":{"who":{"method":"elicitation/create","params":{"mode":"form","message":"Your name?","requestedSchema":{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}}}},"requestState":"$STATE",$SRV}}
			> {"jsonrpc":"2.0","id":8,"method":"tools/call","params":{"name":"ask_name","arguments":{},"inputResponses":{"who":{"action":"accept","content":{"name":"Bo"}}},"requestState":"$STATE","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{}}}}}}
			< {"jsonrpc":"2.0","id":8,"result":{"resultType":"complete","content":[{"type":"text","text":"Hello Bo"}],$SRV}}
			# same tool, no elicitation capability on this request
			> {"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"ask_name","arguments":{},$META}}
			< {"jsonrpc":"2.0","id":9,"error":{"code":-32021,"message":"This request needs the elicitation capability, which this client does not have","data":{"requiredCapabilities":{"elicitation":{}}}}}
			# subscription; the change notification and the answer of call 10 may come in either order
			> {"jsonrpc":"2.0","id":"L","method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true,"resourceSubscriptions":["demo://a"]},$META}}
			< {"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":"L"},"notifications":{"toolsListChanged":true,"resourceSubscriptions":["demo://a"]}}}
			> {"jsonrpc":"2.0","id":10,"method":"tools/call","params":{"name":"grow","arguments":{},$META}}
			< {"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":"L"}}}
			< {"jsonrpc":"2.0","id":10,"result":{"resultType":"complete","content":[{"type":"text","text":"added"}],$SRV}}
		`)
		s.ResourceUpdated("demo://a")
		play(`
			< {"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":"L"},"uri":"demo://a"}}
			> {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"L"}}
			# errors of the modern era
			> {"jsonrpc":"2.0","id":11,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"1900-01-01","io.modelcontextprotocol/clientCapabilities":{}}}}
			< {"jsonrpc":"2.0","id":11,"error":{"code":-32022,"message":"Unsupported protocol version","data":{"supported":["2026-07-28"],"requested":"1900-01-01"}}}
			> {"jsonrpc":"2.0","id":12,"method":"tools/list"}
			< {"jsonrpc":"2.0","id":12,"error":{"code":-32602,"message":"Missing required _meta fields io.modelcontextprotocol/protocolVersion and io.modelcontextprotocol/clientCapabilities (or send initialize first)"}}
			> {"jsonrpc":"2.0","id":13,"method":"logging/setLevel","params":{"level":"info",$META}}
			< {"jsonrpc":"2.0","id":13,"error":{"code":-32601,"message":"Method not found: logging/setLevel"}}
			# second listen, then the operator sends SIGTERM: graceful end, then exit
			> {"jsonrpc":"2.0","id":14,"method":"subscriptions/listen","params":{"notifications":{"promptsListChanged":true},$META}}
			< {"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":14},"notifications":{"promptsListChanged":true}}}
		`)
		c.cancel(errors.New("SIGTERM")) // as ServeStdio does
		play(`
			< {"jsonrpc":"2.0","id":14,"result":{"resultType":"complete","_meta":{"io.modelcontextprotocol/subscriptionId":14,"io.modelcontextprotocol/serverInfo":{"name":"demo","version":"1.0.0"}}}}
		`)
		if err := <-c.done; err != nil {
			t.Error("Serve:", err)
		}
	})
}

// ---- what each revision knows ----

// initialize is answered with the revision that was asked for if it is known,
// else with the newest legacy one.
func TestInitializeAgreesOnARevision(t *testing.T) {
	const client = `"capabilities":{},"clientInfo":{"name":"c","version":"1"}`
	for _, tt := range []struct{ params, want string }{
		{`{"protocolVersion":"2024-11-05",` + client + `}`, "2024-11-05"},
		{`{"protocolVersion":"2025-03-26",` + client + `}`, "2025-03-26"},
		{`{"protocolVersion":"2025-06-18",` + client + `}`, "2025-06-18"},
		{`{"protocolVersion":"2025-11-25",` + client + `}`, "2025-11-25"},
		{`{"protocolVersion":"2025-11-25","unknown":null,` + client + `}`, "2025-11-25"},
		{`{"protocolVersion":"2026-07-28",` + client + `}`, "2025-11-25"},
		{`{"protocolVersion":"2099-01-01",` + client + `}`, "2025-11-25"},
		{`{"protocolVersion":"1.0",` + client + `}`, "2025-11-25"},
		{`{"protocolVersion":"",` + client + `}`, "2025-11-25"},
		{`{"protocolVersion":20251125,` + client + `}`, "protocolVersion is required"},
		{`{` + client + `}`, "protocolVersion is required"},
		{`{"protocolVersion":"2025-11-25","clientInfo":{"name":"c","version":"1"}}`, "capabilities is required"},
		{`{"protocolVersion":"2025-11-25","capabilities":[],"clientInfo":{"name":"c","version":"1"}}`, "capabilities is required"},
		{`{"protocolVersion":"2025-11-25","capabilities":{}}`, "clientInfo with name and version is required"},
		{`{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c"}}`, "clientInfo with name and version is required"},
		{`[]`, "params must be an object"},
	} {
		want := wrong("1", -32602, "Invalid params: "+tt.want)
		if strings.HasPrefix(tt.want, "20") {
			want = `{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"` + tt.want + `","capabilities":{},"serverInfo":{"name":"demo","version":"1.0.0"}}}`
		}
		play(t, &Server{}, "", `> {"jsonrpc":"2.0","id":1,"method":"initialize","params":`+tt.params+"}\n< "+want+ping)
	}
}

// A result cannot say who the server is; what else its Meta holds is sent.
func TestAResultDoesNotSayWhoTheServerIs(t *testing.T) {
	const own = `"` + keyServer + `":{"name":"demo","version":"1.0.0"}`
	for meta, sent := range map[string][2]string{ // in the legacy era, and in the modern one
		`{}`:                        {``, `,"_meta":{` + own + `}`},
		`{"` + keyServer + `":"x"}`: {``, `,"_meta":{` + own + `}`},
		`{"a":{},"` + keyServer + `":{"name":"x"},"z":2}`: {`,"_meta":{"a":{},"z":2}`, `,"_meta":{"a":{},"z":2,` + own + `}`},
	} {
		s := &Server{}
		AddTool(s, Tool{Name: "t"}, func(context.Context, none) (*Result, error) {
			res := new(Result)
			return res, json.Unmarshal([]byte(meta), &res.Meta)
		})
		synctest.Test(t, func(t *testing.T) {
			c := serve(t, s)
			c.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","_meta":{` + modernMeta + `}}}`)
			c.want(`{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","content":[]` + sent[1] + `}}`)
			c.initialize("2025-11-25", "{}")
			c.send(call(2, "t", "{}"))
			c.want(`{"jsonrpc":"2.0","id":2,"result":{"content":[]` + sent[0] + `}}`)
			c.end()
		})
	}
}

// One server, all revisions. What stands in «...» is sent in the revisions
// whose letters stand before the colon.
func TestEachRevisionIsSentWhatItKnows(t *testing.T) {
	icon := []Icon{{Src: "https://x/i.png", MIMEType: "image/png", Sizes: []string{"48x48"}, Theme: "dark"}}
	notes := &Annotations{Audience: []string{"user"}, Priority: ptr(0.5), LastModified: "2025-01-02T03:04:05Z"}
	meta := map[string]any{"k": 1}
	s := &Server{Name: "demo", Version: "1.0.0", Title: "Demo", WebsiteURL: "https://x", Icons: icon, Instructions: "Be kind.",
		CacheTTL: 90 * time.Second, CachePublic: true, Experimental: map[string]any{"e": none{}}, Extensions: map[string]any{"x/y": none{}}}
	AddTool(s, Tool{Name: "full", Title: "Full", Description: "Has it all.", Icons: icon, Meta: meta,
		Annotations:  ToolAnnotations{Title: "Other", ReadOnlyHint: Yes, DestructiveHint: No, IdempotentHint: No, OpenWorldHint: Yes},
		OutputSchema: json.RawMessage(`{"type":"object"}`)},
		func(ctx context.Context, _ none) (*Result, error) {
			Progress(ctx, 0, 0, "on it")
			return &Result{StructuredContent: map[string]int{"n": 1}, Meta: map[string]any{"k": 1, keyServer: "not me"}, Content: []Content{
				{Type: "text", Text: "<t>\u2028", Annotations: notes, Meta: meta},
				Image([]byte("i"), "image/png"),
				Audio([]byte("a"), "audio/wav"),
				ResourceLink(Resource{URI: "demo://a", Name: "a", Title: "A", Description: "d", MIMEType: "text/plain", Size: 3, Annotations: notes, Icons: icon, Meta: meta}),
				EmbeddedResource(ResourceContents{URI: "demo://t", MIMEType: "text/plain", Meta: meta}),
				EmbeddedResource(ResourceContents{URI: "demo://b", Blob: []byte{}}),
			}}, nil
		})
	AddTool(s, Tool{Name: "list", OutputSchema: SchemaOf[[]int](), Annotations: ToolAnnotations{ReadOnlyHint: No}},
		func(context.Context, none) ([]int, error) { return nil, nil })
	AddTool(s, Tool{Name: "ref", OutputSchema: json.RawMessage(`{"$ref":"#/$defs/x","$defs":{"x":{"type":"array"}}}`)},
		func(context.Context, none) ([]int, error) { return nil, nil })

	const (
		ICON  = `"icons":[{"src":"https://x/i.png","mimeType":"image/png","sizes":["48x48"],"theme":"dark"}]`
		NOTES = `"annotations":{"audience":["user"],"priority":0.5«CDM:,"lastModified":"2025-01-02T03:04:05Z"»}`
		ARGS  = `"inputSchema":{"type":"object","properties":{},"additionalProperties":false}`
	)
	transcript := strings.NewReplacer("$ICON", ICON, "$NOTES", NOTES, "$ARGS", ARGS, "\n\t\t\t", "").Replace(`
		«ABCD:> {"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"$VERSION","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}
		< {"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"$VERSION","capabilities":{"tools":{"listChanged":true},"experimental":{"e":{}},"extensions":{"x/y":{}}},"instructions":"Be kind.",
			"serverInfo":{"name":"demo","version":"1.0.0"«CD:,"title":"Demo"»«D:,"websiteUrl":"https://x",$ICON»}}}»
		«M:> {"jsonrpc":"2.0","id":0,"method":"server/discover","params":{$META}}
		< {"jsonrpc":"2.0","id":0,"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{"listChanged":true},"experimental":{"e":{}},"extensions":{"x/y":{}}},"instructions":"Be kind.",
			"ttlMs":90000,"cacheScope":"public","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"demo","version":"1.0.0","title":"Demo","websiteUrl":"https://x",$ICON}}}}»
		> {"jsonrpc":"2.0","id":1,"method":"tools/list","params":{«M:$META»}}
		< {"jsonrpc":"2.0","id":1,"result":{«M:"resultType":"complete",»"tools":[
			{"name":"full",«CDM:"title":"Full",»"description":"Has it all.",$ARGS«CDM:,"outputSchema":{"type":"object"}»
			«BCDM:,"annotations":{"title":"Other","readOnlyHint":true,"destructiveHint":false,"idempotentHint":false,"openWorldHint":true}»«DM:,$ICON»«CDM:,"_meta":{"k":1}»},
			{"name":"list",$ARGS«CD:,"outputSchema":{"type":"object","properties":{"result":{"type":"array","items":{"type":"integer"}}},"required":["result"]}»
			«M:,"outputSchema":{"type":"array","items":{"type":"integer"}}»«BCDM:,"annotations":{"readOnlyHint":false}»},
			{"name":"ref",$ARGS«M:,"outputSchema":{"$ref":"#/$defs/x","$defs":{"x":{"type":"array"}}}»}]
			«M:,"ttlMs":90000,"cacheScope":"public",$SRV»}}
		> {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"full","_meta":{"progressToken":0«M:,"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}»}}}
		< {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":0,"progress":0«BCDM:,"message":"on it"»}}
		< {"jsonrpc":"2.0","id":2,"result":{«M:"resultType":"complete",»"content":[
			{"type":"text","text":"<t>\u2028",$NOTES«CDM:,"_meta":{"k":1}»},
			{"type":"image","data":"aQ==","mimeType":"image/png"},
			«A:{"type":"text","text":"[audio, audio/wav, 1 bytes]"}»«BCDM:{"type":"audio","data":"YQ==","mimeType":"audio/wav"}»,
			«AB:{"type":"text","text":"a: demo://a"}»
			«CDM:{"type":"resource_link","uri":"demo://a","name":"a","title":"A","description":"d","mimeType":"text/plain","size":3,$NOTES«DM:,$ICON»,"_meta":{"k":1}}»,
			{"type":"resource","resource":{"uri":"demo://t","mimeType":"text/plain","text":""«CDM:,"_meta":{"k":1}»}},
			{"type":"resource","resource":{"uri":"demo://b","blob":""}}]
			«CDM:,"structuredContent":{"n":1}»
			,"_meta":{"k":1«M:,"io.modelcontextprotocol/serverInfo":{"name":"demo","version":"1.0.0"}»}}}
		> {"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"list"«M:,$META»}}
		< {"jsonrpc":"2.0","id":3,"result":{«M:"resultType":"complete",»"content":[{"type":"text","text":"[]"}]«CD:,"structuredContent":{"result":[]}»«M:,"structuredContent":[],$SRV»}}`)
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
			play(t, s, "", script)
		})
	}
}

// A new revision is added in one section: no other line names one of them.
func TestRevisionsAreToldApartInOneSection(t *testing.T) {
	src, err := os.ReadFile("mcp.go")
	if err != nil {
		t.Skip(err)
	}
	before, rest, _ := strings.Cut(string(src), "// ---- what each revision knows ----")
	_, after, _ := strings.Cut(rest, "\n// ---- ")
	for _, line := range regexp.MustCompile(`.*\brev2\w+.*`).FindAllString(before+after, -1) {
		t.Errorf("names a revision: %s", line)
	}
}

// Server.Extensions are declared in initialize as in server/discover.
func TestExtensionsAreDeclaredInBothEras(t *testing.T) {
	s := &Server{Extensions: map[string]any{"io.modelcontextprotocol/ui": map[string]any{"mimeTypes": []string{"text/html;profile=mcp-app"}}}}
	const declared = `"capabilities":{"extensions":{"io.modelcontextprotocol/ui":{"mimeTypes":["text/html;profile=mcp-app"]}}}`
	play(t, s, "", `
		> {"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}
		< {"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25",`+declared+`,"serverInfo":{"name":"demo","version":"1.0.0"}}}
		> {"jsonrpc":"2.0","id":2,"method":"server/discover","params":{$META}}
		< {"jsonrpc":"2.0","id":2,"result":{"resultType":"complete","supportedVersions":["2026-07-28"],`+declared+`,"ttlMs":0,"cacheScope":"private",$SRV}}`)
}

// ---- registration ----

type (
	selves  []selves
	selves2 []others
	others  []selves2
)

// Whatever cannot be served panics at registration, naming what is wrong.
func TestWrongRegistrationPanics(t *testing.T) {
	add := func(name string, tool Tool) func() {
		return func() {
			tool.Name = name
			AddTool(&Server{}, tool, func(context.Context, none) (string, error) { return "", nil })
		}
	}
	in := func(f func(*Server)) func() { return func() { f(&Server{}) } }
	for _, tt := range []struct {
		want string
		f    func()
	}{
		{`mcp: tool "": the name must have 1 to 128 bytes`, add("", Tool{})},
		{`: the name must have 1 to 128 bytes`, add(strings.Repeat("x", 129), Tool{})},
		{`mcp: tool "a b": the name must be made of A-Z, a-z, 0-9, _, - and .`, add("a b", Tool{})},
		{`mcp: tool "é": the name must`, add("é", Tool{})},
		{`mcp: tool "[x]": the name must`, add("[x]", Tool{})},
		{`a schema must be a JSON object`, add("x", Tool{InputSchema: json.RawMessage(`[]`)})},
		{`a schema must be a JSON object`, add("x", Tool{InputSchema: json.RawMessage(`{"type":"object"`)})},
		{`a schema must be a JSON object`, add("x", Tool{OutputSchema: json.RawMessage(`true`)})},
		{`"type": "object"`, add("x", Tool{InputSchema: json.RawMessage(`{"type":"string"}`)})},
		{`"type": "object"`, add("x", Tool{InputSchema: json.RawMessage(`{"type":["object"]}`)})},
		{`mcp: tool "x": Out: there is no structured output, which OutputSchema promises`, in(promised(""))},
		{`mcp: tool "x": Out: there is no structured output, which OutputSchema promises`, in(promised(none{}))},
		{`mcp: tool "x": Out: there is no structured output, which OutputSchema promises`, in(promised([]Content{}))},
		{`mcp: tool "x": In must be a struct or a map`, func() { byHand[string](&Server{}, `{"type":"object"}`) }},
		{`mcp: tool "x": In must be a struct or a map`, func() { byHand[[]int](&Server{}, `{"type":"object"}`) }},
		{`mcp: tool "x": Meta: `, add("x", Tool{Meta: map[string]any{"f": func() {}}})},
		{`mcp: tool "x": In must be a struct or a map`, in(toolOf[string])},
		{`mcp: tool "x": In must be a struct or a map`, in(toolOf[[]int])},
		{`mcp: tool "x": In: json.RawMessage has a JSON form of its own`, in(toolOf[json.RawMessage])},
		{`mcp: tool "x": In.F: func() cannot be described`, in(toolOf[struct{ F func() }])},
		{`mcp: tool "x": In.A.B[]: interface {} cannot be described`, in(toolOf[struct{ A struct{ B []any } }])},
		{`In.L: a list of itself cannot be described`, in(toolOf[struct{ L selves }])},
		{`In.L: a list of itself cannot be described`, in(toolOf[struct{ L selves2 }])},
		{`In.M: map[int]string cannot be described`, in(toolOf[struct{ M map[int]string }])},
		{`In.A: [2]int cannot be described`, in(toolOf[struct{ A [2]int }])},
		{`In.C: complex128 cannot be described`, in(toolOf[struct{ C complex128 }])},
		{`In.C: mcp.custom has a JSON form of its own`, in(toolOf[struct{ C custom }])},
		{`In.S: the json option string cannot be described`, in(toolOf[struct {
			S int `json:",string"`
		}])},
		{`In.point: an embedded pointer to an unexported type cannot be set`, in(toolOf[pointer])},
		{`In.A: enum must be on a string or a list of strings, without a form of its own`, in(toolOf[struct {
			A bool `enum:"true"`
		}])},
		{`In.A: enum must be on a string or a list of strings`, in(toolOf[struct {
			A int `enum:"1,2"` // for which one provider refuses every tool
		}])},
		{`In.A: minimum must be a number`, in(toolOf[struct {
			A int `minimum:"one"`
		}])},
		{`In.A: minimum must be a number`, in(toolOf[struct {
			A int `minimum:"\"5\""`
		}])},
		{`In.A: minimum must be a number`, in(toolOf[struct {
			A int `minimum:""`
		}])},
		{`In.A: minLength must be a number of characters`, in(toolOf[struct {
			A string `minLength:""`
		}])},
		{`In.A: format must be`, in(toolOf[struct {
			A string `format:""`
		}])},
		{`In.A: minimum must be an integer, got 0.5`, in(toolOf[struct {
			A int `minimum:"0.5"`
		}])},
		{`In.A: maximum must be in the range of int8, got 300`, in(toolOf[struct {
			A int8 `maximum:"300"`
		}])},
		{`In.A: minimum is above maximum`, in(toolOf[struct {
			A int `minimum:"5" maximum:"3"`
		}])},
		{`In.A: maximum must be a number`, in(toolOf[struct {
			A string `maximum:"1"`
		}])},
		{`In.A: minLength must be a number of characters`, in(toolOf[struct {
			A int `minLength:"1"`
		}])},
		{`In.A: maxLength must be a number of characters`, in(toolOf[struct {
			A string `maxLength:"-1"`
		}])},
		{`In.A: format must be`, in(toolOf[struct {
			A string `format:"zip"`
		}])},
		{`In.A: default must be an integer`, in(toolOf[struct {
			A int `default:"5.5"`
		}])},
		{`In.A: default must be JSON`, in(toolOf[struct {
			A int `default:"1 2"`
		}])},
		{`In.A: default must be one of a, b`, in(toolOf[struct {
			A string `default:"c" enum:"a,b"`
		}])},
		{`In.A: default must be at most 3`, in(toolOf[struct {
			A int `default:"4" maximum:"3"`
		}])},
		{`mcp: SchemaOf: chan int cannot be described`, func() { SchemaOf[chan int]() }},
	} {
		wantPanic(t, tt.want, tt.f)
	}
	var diary bytes.Buffer
	s := &Server{ErrorLog: log.New(&diary, "", 0)}
	for _, name := range []string{"a.b", strings.Repeat("x", 65), strings.Repeat("x", 64), "A-z_9"} {
		AddTool(s, Tool{Name: name}, func(context.Context, none) (string, error) { return "", nil })
	}
	if got := diary.String(); strings.Count(got, "\n") != 2 || !strings.Contains(got, `"a.b"`) {
		t.Errorf("log %q", got)
	}
}

// A server whose name, version or icons no client accepts is not served.
func TestAServerThatNoClientAcceptsIsNotServed(t *testing.T) {
	for want, s := range map[string]*Server{
		"Server.Version must be set":           {Name: "x"},
		"Server.Name and":                      {Version: "1"},
		"Server.Icons: the Src of an Icon":     {Name: "x", Version: "1", Icons: []Icon{{Src: "icon.png"}}},
		"Server.Icons: the Theme of an Icon":   {Name: "x", Version: "1", Icons: []Icon{{Src: "data:,x"}, {Src: "data:,x", Theme: "blue"}}},
		"Experimental or Extensions: json: un": {Name: "x", Version: "1", Extensions: map[string]any{"x": func() {}}},
	} {
		if err := s.Serve(context.Background(), strings.NewReader(""), io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// Annotations, sizes and icons that no client accepts panic at registration.
func TestWrongAnnotationsAndIconsPanic(t *testing.T) {
	resource := func(r Resource) func() {
		r.URI, r.Name = "x:a", "a"
		return func() { (&Server{}).AddResource(r, texts("")) }
	}
	wantPanic(t, "the Priority must be from 0 to 1", resource(Resource{Annotations: &Annotations{Priority: ptr(1.5)}}))
	wantPanic(t, "the Priority must be from 0 to 1", resource(Resource{Annotations: &Annotations{Priority: ptr(-0.1)}}))
	wantPanic(t, "the Audience must be", resource(Resource{Annotations: &Annotations{Audience: []string{"users"}}}))
	wantPanic(t, "LastModified must be a time", resource(Resource{Annotations: &Annotations{LastModified: "2026-01-02 03:04"}}))
	resource(Resource{Annotations: &Annotations{LastModified: "2026-01-02T03:04:00Z"}})()
	wantPanic(t, "Size is negative", resource(Resource{Size: -1}))
	wantPanic(t, "the Src of an Icon", resource(Resource{Icons: []Icon{{Src: "icon.png"}}}))
	wantPanic(t, "the Theme of an Icon", resource(Resource{Icons: []Icon{{Src: "https://x", Theme: "blue"}}}))
	wantPanic(t, "the Src of an Icon", func() {
		(&Server{}).AddPrompt(Prompt{Name: "p", Icons: []Icon{{}}}, func(context.Context, map[string]string) ([]Message, error) { return nil, nil })
	})
	wantPanic(t, "the Src of an Icon", func() {
		AddTool(&Server{}, Tool{Name: "t", Icons: []Icon{{Src: "file:///x"}}}, func(context.Context, none) (string, error) { return "", nil })
	})
}

// A tag whose value cannot hold panics at registration, naming the field.
func TestTagsThatCannotHoldPanic(t *testing.T) {
	in := func(f func(*Server)) func() { return func() { f(&Server{}) } }
	twice := reflect.StructOf([]reflect.StructField{{Name: "A", Type: reflect.TypeFor[int](), Tag: `json:"a"`}, {Name: "B", Type: reflect.TypeFor[int](), Tag: `json:"a,omitempty"`}})
	for _, tt := range []struct {
		want string
		f    func()
	}{
		{"In.A: enum must be on ", in(toolOf[struct {
			A []int `enum:"1,2"`
		}])},
		{"In.A: enum: ", in(toolOf[struct {
			A string `enum:"a, b"`
		}])},
		{"In.A: minLength is above maxLength", in(toolOf[struct {
			A string `minLength:"3" maxLength:"2"`
		}])},
		{"In.A: enum: a stands there twice", in(toolOf[struct {
			A string `enum:"a,b,a"`
		}])},
		{"In.A: enum must have at most 2 characters", in(toolOf[struct {
			A string `enum:"a,bcd" maxLength:"2"`
		}])},
		{"In.A: format must be", in(toolOf[struct {
			A time.Time `format:"date"`
		}])},
		{"In.A: format must be", in(toolOf[struct {
			A []byte `format:"email"`
		}])},
		{"In.A: default must be an integer", in(toolOf[struct {
			A int `default:"\"5\""`
		}])},
		{"In.A: default[1] must be an integer", in(toolOf[struct {
			A []int `default:"[1,\"2\"]"`
		}])},
		{"In.A: default must be an integer, got null", in(toolOf[struct {
			A *int `default:"null"`
		}])},
		{`In.A: the name a is also that of B`, func() { mustDerive(twice, "In", reading) }},
		{`Out.A: the name a is also that of B`, func() { derive(twice, "Out", writing|sent) }},
		{"Out.A: minLength is above maxLength", func() {
			out(struct {
				A string `minLength:"3" maxLength:"2"`
			}{}, nil)(&Server{})
		}},
		{"SchemaOf.A: enum: a stands there twice", func() {
			SchemaOf[struct {
				A string `enum:"a,a"`
			}]()
		}},
	} {
		if strings.Contains(tt.want, "uint8") {
			tt.want = strings.Replace(tt.want, "In.A", "In.C.A", 1)
		}
		wantPanic(t, tt.want, tt.f)
	}
	// A default with newlines is still one line.
	s := &Server{}
	toolOf[struct {
		A []int "default:\"[1,\\n 2]\" json:\"a\""
	}](s)
	if tool, _ := callX(t, s, legacyPV); !strings.Contains(string(tool.InputSchema), `"default":[1,2]`) {
		t.Errorf("got %s", tool.InputSchema)
	}
}

// A jsonschema tag in another library's dialect panics, lest models read it as
// a description.
func TestAnotherLibrarysTagPanics(t *testing.T) {
	for _, tag := range []string{"required", "the path,required", "description=the path", "title=a,description=b", "enum=a,enum=b", "the path,minLength=3", "required,description=x",
		"type=string", "WORD=x", "the path,default=3", "the path,example=joe,example=lucy"} {
		typ := reflect.StructOf([]reflect.StructField{{Name: "A", Type: reflect.TypeFor[string](), Tag: reflect.StructTag(`jsonschema:` + strconv.Quote(tag))}})
		wantPanic(t, "w.A: jsonschema:", func() { mustDerive(typ, "w", reading) })
		wantPanic(t, "is the description alone", func() { mustDerive(typ, "w", writing) })
	}
	for _, doc := range []string{"", "is it required?", "what is required, and what not", "an equation, such as a=b", "the path", "a, b, or c", "labels as key=value pairs", "one of a,b,c", "x == y", "Required."} {
		typ := reflect.StructOf([]reflect.StructField{{Name: "A", Type: reflect.TypeFor[string](), Tag: reflect.StructTag(`jsonschema:` + strconv.Quote(doc))}})
		if got := string(mustDerive(typ, "w", reading).render()); doc != "" && !strings.Contains(got, `"description":`+quote(doc)) {
			t.Errorf("%s: %s", doc, got)
		}
	}
}

// ---- schemas from types ----

type (
	point struct {
		X int `json:"x"`
		Y int `json:"y,omitempty"`
	}
	tree struct {
		Name string  `json:"name"`
		Kids []tree  `json:"kids,omitempty"`
		Up   *tree   `json:"up"`
		More treeMap `json:"more,omitzero"`
	}
	treeMap map[string]tree
	base    struct {
		ID     string `json:"id"`
		Hidden string `json:"-"`
		Dash   bool   `json:"-,"`
		secret int
	}
	left struct {
		X string `json:"X"` // counts, because the name is in the tag
		Y int    // two of one name at one depth: none
	}
	right   struct{ X, Y int }
	pointer struct{ *point }
	custom  struct{}
)

func (custom) MarshalJSON() ([]byte, error) { return []byte("1"), nil }

// schemaCases are types and what they look like to a model.
var schemaCases = []struct {
	name   string
	schema func() json.RawMessage
	want   string
}{
	{"nothing", SchemaOf[none], `{"type":"object","properties":{},"additionalProperties":false}`},
	{"scalars", SchemaOf[struct {
		S string  `json:"s"`
		B bool    `json:"b"`
		I int8    `json:"i"`
		U uint64  `json:"u"`
		F float32 `json:"f"`
	}], `{"type":"object","properties":{"s":{"type":"string"},"b":{"type":"boolean"},"i":{"type":"integer","minimum":-128,"maximum":127},"u":{"type":"integer","minimum":0},"f":{"type":"number"}},"required":["s","b","i","u","f"],"additionalProperties":false}`},
	{"what is optional", SchemaOf[struct {
		A int  `json:"a,omitempty"`
		B int  `json:"b,omitzero"`
		C *int `json:"c"`
		D int  `json:"d" default:"3"`
		E int  `json:"e"`
	}], `{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"integer"},"c":{"type":"integer"},"d":{"type":"integer","default":3},"e":{"type":"integer"}},"required":["e"],"additionalProperties":false}`},
	{"tags", SchemaOf[struct {
		S string   `json:"s" jsonschema:"one, or \"two\"" enum:"a,b" default:"a"`
		N int      `json:"n" minimum:"1" maximum:"2"`
		F float64  `json:"f" minimum:"-0.5" maximum:"1e3"`
		L []string `json:"l" enum:"x,y" minLength:"1" maxLength:"2" default:"[\"x\"]"`
		M string   `json:"m" minLength:"0" maxLength:"0" format:"email"`
		D []int    `json:"d,omitempty" jsonschema:"days"`
	}], `{"type":"object","properties":{"s":{"type":"string","description":"one, or \"two\"","default":"a","enum":["a","b"]},"n":{"type":"integer","minimum":1,"maximum":2},` +
		`"f":{"type":"number","minimum":-0.5,"maximum":1e3},"l":{"type":"array","default":["x"],"minItems":1,"maxItems":2,"items":{"type":"string","enum":["x","y"]}},` +
		`"m":{"type":"string","maxLength":0,"format":"email"},"d":{"type":"array","description":"days","items":{"type":"integer"}}},"required":["n","f","m"],"additionalProperties":false}`},
	{"text and bytes", SchemaOf[struct {
		T time.Time     `json:"t"`
		B []byte        `json:"b"`
		A netip.Addr    `json:"a"`
		D time.Duration `json:"d"`
	}], `{"type":"object","properties":{"t":{"type":"string","format":"date-time"},"b":{"type":"string","description":"base64","contentEncoding":"base64"},"a":{"type":"string"},"d":{"type":"integer"}},"required":["t","b","a","d"],"additionalProperties":false}`},
	{"lists and maps", SchemaOf[struct {
		P []*point         `json:"p"`
		M map[string][]int `json:"m"`
		Q point            `json:"q"` // a type for the second time is the same
	}], `{"type":"object","properties":{"p":{"type":"array","items":{"type":"object","properties":{"x":{"type":"integer"},"y":{"type":"integer"}},"required":["x"],"additionalProperties":false}},` +
		`"m":{"type":"object","properties":{},"additionalProperties":{"type":"array","items":{"type":"integer"}}},` +
		`"q":{"type":"object","properties":{"x":{"type":"integer"},"y":{"type":"integer"}},"required":["x"],"additionalProperties":false}},"required":["p","m","q"],"additionalProperties":false}`},
	{"embedding", SchemaOf[struct{ base }],
		`{"type":"object","properties":{"id":{"type":"string"},"-":{"type":"boolean"}},"required":["id","-"],"additionalProperties":false}`},
	{"names in conflict", SchemaOf[struct {
		base
		left
		right
		ID int `json:"id"` // the least deep one counts
	}], `{"type":"object","properties":{"-":{"type":"boolean"},"X":{"type":"string"},"id":{"type":"integer"}},"required":["-","X","id"],"additionalProperties":false}`},
	{"recursion", SchemaOf[tree], `{"type":"object","properties":{"name":{"type":"string"},"kids":{"type":"array","items":{"type":"object","properties":{}}},"up":{"type":"object","properties":{}},` +
		`"more":{"type":"object","properties":{},"additionalProperties":{"type":"object","properties":{}}}},"required":["name"],"additionalProperties":false}`},
	{"a map", SchemaOf[map[string]string], `{"type":"object","properties":{},"additionalProperties":{"type":"string"}}`},
	{"a pointer", SchemaOf[**point], `{"type":"object","properties":{"x":{"type":"integer"},"y":{"type":"integer"}},"required":["x"],"additionalProperties":false}`},
	{"a list", SchemaOf[[]string], `{"type":"array","items":{"type":"string"}}`},
}

// Each type has the schema of the table, to the byte, and every model provider
// accepts it.
func TestTypesHaveTheSchemasOfTheTable(t *testing.T) {
	for _, tt := range schemaCases {
		got := tt.schema()
		if string(got) != tt.want { // to the byte: the order of fields counts
			t.Errorf("%s: got  %s\nwant %s", tt.name, got, tt.want)
		}
		var v any
		if err := json.Unmarshal(got, &v); err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		acceptable(t, tt.name, v)
	}
}

// The range of a small integer type stands in the schema, and is enforced.
func TestSmallIntegersSayTheirRange(t *testing.T) {
	got := string(SchemaOf[struct {
		A int8   `json:"a"`
		B int16  `json:"b"`
		C int32  `json:"c"`
		D int64  `json:"d"`
		E uint8  `json:"e"`
		F uint16 `json:"f"`
		G uint32 `json:"g"`
		H uint64 `json:"h"`
		I int8   `json:"i" minimum:"0"`
		J []int8 `json:"j"`
	}]())
	for _, want := range []string{`"a":{"type":"integer","minimum":-128,"maximum":127}`, `"b":{"type":"integer","minimum":-32768,"maximum":32767}`,
		`"c":{"type":"integer","minimum":-2147483648,"maximum":2147483647}`, `"d":{"type":"integer"}`, `"e":{"type":"integer","minimum":0,"maximum":255}`,
		`"f":{"type":"integer","minimum":0,"maximum":65535}`, `"g":{"type":"integer","minimum":0,"maximum":4294967295}`, `"h":{"type":"integer","minimum":0}`,
		`"i":{"type":"integer","minimum":0,"maximum":127}`, `"j":{"type":"array","items":{"type":"integer","minimum":-128,"maximum":127}}`} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in %s", want, got)
		}
	}
}

// map[string]any is a free-form object wherever it stands, and costs its tool
// no other check.
func TestMapOfAnyIsFreeForm(t *testing.T) {
	type in struct {
		F map[string]any            `json:"f" jsonschema:"anything"`
		L []map[string]any          `json:"l,omitempty"`
		M map[string]map[string]any `json:"m,omitempty"`
	}
	s := &Server{}
	toolOf[in](s)
	tool, _ := callX(t, s, legacyPV)
	want := `{"type":"object","properties":{"f":{"type":"object","description":"anything"},"l":{"type":"array","items":{"type":"object"}},` +
		`"m":{"type":"object","properties":{},"additionalProperties":{"type":"object"}}},"required":["f"],"additionalProperties":false}`
	if string(tool.InputSchema) != want {
		t.Errorf("got  %s\nwant %s", tool.InputSchema, want)
	}
	try(t, s, trial{`{"f":{"a":[1,null,{"b":true}],"c":1.5},"l":[{}],"m":{"x":{"y":null}}}`, `{"f":{"a":[1,null,{"b":true}],"c":1.5},"l":[{}],"m":{"x":{"y":null}}}`},
		trial{`{"f":5}`, "! f must be an object, got 5"}, trial{`{"g":{}}`, "! g is unknown (there is f, l, m); f is required"}, trial{`{"f":{"a":1e400}}`, "! f is not valid: json: cannot unmarshal number 1e400 into Go value of type float64"})
	s = &Server{}
	toolOf[map[string]any](s)
	if tool, _ = callX(t, s, legacyPV); string(tool.InputSchema) != `{"type":"object"}` {
		t.Errorf("got %s", tool.InputSchema)
	}
	try(t, s, trial{`{"a":null}`, `{"a":null}`}, trial{`{}`, `{}`})
	for want, f := range map[string]func(*Server){
		`In.A: interface {} cannot be described: write a type, or map[string]any`:             toolOf[struct{ A any }],
		`In.A: json.RawMessage has a JSON form of its own, which cannot be described: write `: toolOf[struct{ A json.RawMessage }],
		`In.A: [2]int cannot be described: write a slice, []int`:                              toolOf[struct{ A [2]int }],
		`In.A: map[int]bool cannot be described: write a map with string keys`:                toolOf[struct{ A map[int]bool }],
		`In.A[]: fmt.Stringer cannot be described`:                                            toolOf[struct{ A map[string]fmt.Stringer }],
	} {
		wantPanic(t, want, func() { f(&Server{}) })
	}
}

// Bytes are base64 in a schema unless their type has a text form, as net.IP
// has.
func TestAListOfBytesWithATextFormIsNoBase64(t *testing.T) { // as net.IP is
	if got := string(SchemaOf[struct{ A, B []byte }]()); strings.Count(got, "base64") != 4 {
		t.Error(got)
	}
	if got := string(SchemaOf[struct{ A blob }]()); strings.Contains(got, "base64") {
		t.Error(got)
	}
}

// A []byte says base64 in its description if it has none.
func TestBytesSayBase64(t *testing.T) {
	got := string(SchemaOf[struct {
		A []byte   `json:"a"`
		B []byte   `json:"b" jsonschema:"the picture"`
		C [][]byte `json:"c"`
	}]())
	for _, want := range []string{`"a":{"type":"string","description":"base64","contentEncoding":"base64"}`, `"b":{"type":"string","description":"the picture","contentEncoding":"base64"}`, `"items":{"type":"string","description":"base64"`} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in %s", want, got)
		}
	}
}

type colour string

func (colour) String() string { return "painted" }

// An enum is of what is sent, and not of how a type prints.
func TestAnEnumIsOfWhatIsSent(t *testing.T) {
	type in struct {
		C colour   `enum:"red,blue"`
		L []colour `enum:"red,blue"`
	}
	for args, want := range map[string]string{
		`{"C":"red","L":["blue"]}`:      said("1", "ok"),
		`{"C":"painted","L":["green"]}`: failed("1", `Invalid arguments: C must be one of red, blue, got "painted"; L[0] must be one of red, blue, got "green"`),
	} {
		s := new(Server)
		AddTool(s, Tool{Name: "x"}, func(_ context.Context, in in) (string, error) { return "ok", nil })
		play(t, s, "2025-11-25", "> "+call("1", "x", args)+"\n< "+want)
	}
}

// The types m1 to m9 each contain all the others.
type (
	m1 struct {
		A *m2
		B *m3
		C *m4
		D *m5
		E *m6
		F *m7
		G *m8
		H *m9
	}
	m2 struct {
		A *m1
		B *m3
		C *m4
		D *m5
		E *m6
		F *m7
		G *m8
		H *m9
	}
	m3 struct {
		A *m2
		B *m1
		C *m4
		D *m5
		E *m6
		F *m7
		G *m8
		H *m9
	}
	m4 struct {
		A *m2
		B *m3
		C *m1
		D *m5
		E *m6
		F *m7
		G *m8
		H *m9
	}
	m5 struct {
		A *m2
		B *m3
		C *m4
		D *m1
		E *m6
		F *m7
		G *m8
		H *m9
	}
	m6 struct {
		A *m2
		B *m3
		C *m4
		D *m5
		E *m1
		F *m7
		G *m8
		H *m9
	}
	m7 struct {
		A *m2
		B *m3
		C *m4
		D *m5
		E *m6
		F *m1
		G *m8
		H *m9
	}
	m8 struct {
		A *m2
		B *m3
		C *m4
		D *m5
		E *m6
		F *m7
		G *m1
		H *m9
	}
	m9 struct {
		A *m2
		B *m3
		C *m4
		D *m5
		E *m6
		F *m7
		G *m8
		H *m1
	}
)

// The schema of types that contain each other has a bounded size.
func TestSchemaIsBounded(t *testing.T) {
	begin := time.Now()
	got := SchemaOf[m1]()
	var v any
	if err := json.Unmarshal(got, &v); err != nil || len(got) > 32<<10 || len(got) < 1<<10 || time.Since(begin) > time.Second {
		t.Errorf("%d bytes in %v, %v", len(got), time.Since(begin), err)
	}
	acceptable(t, "m1", v)
}

type chain struct {
	N    int    `json:"n"`
	Next *chain `json:"next,omitempty"`
}

// A list of thousands of linked nodes is written, and not taken for one that
// contains itself.
func TestLongChainsAreWritten(t *testing.T) {
	var list *chain
	for i := range 2000 {
		list = &chain{i, list}
	}
	s := &Server{}
	out(*list, nil)(s)
	_, results := callX(t, s, legacyPV, "{}")
	if got := results[0].text(); strings.Count(got, `"n"`) != 2000 {
		t.Errorf("got %.200s", got)
	}
}

// The tags of a type that contains itself are checked too.
func TestTagsOfWhatContainsItselfCount(t *testing.T) {
	type node struct {
		Kids []node           `json:"kids,omitempty" jsonschema:"what is below" maxLength:"2"`
		Up   *node            `json:"up,omitempty" jsonschema:"what is above"`
		More map[string]*node `json:"more,omitempty" jsonschema:"others"`
	}
	for _, got := range []string{string(SchemaOf[node]()), string(SchemaOf[[]node]())} {
		for _, want := range []string{"what is below", `"maxItems":2`, "what is above", "others"} {
			if !strings.Contains(got, want) {
				t.Errorf("no %s in %s", want, got)
			}
		}
	}
}

type (
	needsItself struct {
		Next *needsItself `json:"next" default:"{}"`
	}
	needsItselfTwice struct {
		L *needsItselfTwice `json:"l" default:"{}"`
		R *needsItselfTwice `json:"r" default:"{}"`
	}
	needsByAnother struct {
		A, B, C *needsBack `default:"{}"`
	}
	needsBack struct {
		D, E, F *needsByAnother `default:"{}"`
	}
	ownKids []ownKid
	ownKid  struct {
		Kids ownKids `json:"kids,omitempty" default:"[{}]"`
	}
	kidsEnum []kidEnum
	kidEnum  struct {
		Kids kidsEnum `enum:"a,b"`
	}
	needsLater struct {
		B *needsEarlier `json:"b,omitempty"`
		X int           `json:"x" default:"5"`
	}
	needsEarlier struct {
		A *needsLater `json:"a" default:"{}"`
	}
	boundLater struct {
		D *tooLow `json:"d"`
		X int     `json:"x" minimum:"3"`
	}
	tooLow struct {
		C *boundLater `json:"c" default:"{\"x\":1}"`
	}
	rows []struct {
		Name string `json:"name"`
		Kids []rows `json:"kids"`
	}
)

// A default is held against its type when all of that is known. One that is never
// whole, because it needs itself, panics.
func TestDefaultsOfWhatContainsItself(t *testing.T) {
	for _, f := range []func(*Server){toolOf[needsItself], toolOf[needsItselfTwice], toolOf[needsByAnother], toolOf[ownKid], func(*Server) { SchemaOf[ownKids]() }} {
		wantPanic(t, "is nested too deeply", func() { f(&Server{}) })
	}
	wantPanic(t, "enum must be on a string", func() { SchemaOf[kidsEnum]() })
	wantPanic(t, "In.D.C: default.x must be at least 3, got 1", func() { toolOf[boundLater](&Server{}) })
	s := &Server{}
	toolOf[needsLater](s)
	try(t, s, trial{`{"b":{}}`, `{"b":{"a":{"x":5}},"x":5}`})
	s = &Server{}
	byHand[needsItselfTwice](s, `{"type":"object"}`) // wrong tags count for nothing there
	try(t, s, trial{`{"l":{"r":{}}}`, `{"l":{"l":null,"r":{"l":null,"r":null}},"r":null}`})
	type tree struct {
		Kids []tree `json:"kids,omitempty" default:"[]"`
	}
	s = &Server{}
	toolOf[tree](s)
	try(t, s, trial{`{"kids":[{}]}`, `{"kids":[{}]}`})
}

// A list of structs may hold such lists again. Only a list of nothing but lists
// cannot be described.
func TestAListMayContainItselfInAStruct(t *testing.T) {
	type in struct {
		T rows `json:"t"`
	}
	s := &Server{}
	out(in{}, nil)(s)
	if tool, _ := callX(t, s, legacyPV, "{}"); tool.OutputSchema == nil {
		t.Error("no output schema was derived")
	}
	toolOf[in](s)
	try(t, s, trial{`{"t":[{"name":"a","kids":[[]]}]}`, `{"t":[{"name":"a","kids":[[]]}]}`})
	for _, schema := range []string{string(SchemaOf[in]()), string(SchemaOf[rows]())} {
		if !strings.Contains(schema, `"kids":{"type":"array","items":{"type":"array","items":{"type":"object"`) {
			t.Errorf("got %s", schema)
		}
	}
}

type embeddedBase struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// The fields of an embedded pointer are optional, as they are left out when it
// is nil.
func TestFieldsOfAnEmbeddedPointerAreOptional(t *testing.T) {
	type Inner struct {
		*embeddedBase     // of an unexported type: fine for a result
		X             int `json:"x"`
	}
	s := &Server{}
	out(Inner{X: 1}, nil)(s)
	tool, results := callX(t, s, legacyPV, "{}")
	if !strings.Contains(string(tool.OutputSchema), `"required":["x"]`) || results[0].text() != `{"x":1}` {
		t.Errorf("got %s, %s", tool.OutputSchema, results[0].text())
	}
	s = &Server{}
	toolOf[struct {
		*Deep
		Z int `json:"z"`
	}](s)
	if tool, _ = callX(t, s, legacyPV); !strings.Contains(string(tool.InputSchema), `"required":["z"]`) {
		t.Errorf("got %s", tool.InputSchema)
	}
	try(t, s, trial{`{"z":1}`, `{"z":1}`}, trial{`{"z":1,"X":2}`, `{"id":0,"Deep":"","X":2,"Y":0,"z":1}`})
}

type (
	onlyReads  int // UnmarshalText alone
	onlyReads2 []string
	byPointer  struct{ N int } // MarshalText of the pointer
)

func (r *onlyReads) UnmarshalText(b []byte) error { *r = onlyReads(len(b)); return nil }

func (r *onlyReads2) UnmarshalText(b []byte) error {
	*r = strings.Split(string(b), "+")
	return nil
}
func (p *byPointer) MarshalText() ([]byte, error) { return fmt.Appendf(nil, "#%d", p.N), nil }
func (p *byPointer) UnmarshalText(b []byte) (err error) {
	p.N, err = strconv.Atoi(strings.TrimPrefix(string(b), "#"))
	return err
}

// A type that has a text form is a string in the schema as in the output.
func TestTextIsAStringInSchemaAndOutput(t *testing.T) {
	type both struct {
		R onlyReads
		L onlyReads2
		P byPointer
		Q *byPointer
		C color
		S []byPointer
		M map[string]*byPointer
	}
	s := &Server{}
	AddTool(s, Tool{Name: "x", OutputSchema: SchemaOf[both]()}, func(context.Context, none) (both, error) {
		return both{R: 3, L: onlyReads2{"a"}, P: byPointer{4}, Q: &byPointer{5}, S: []byPointer{{6}}, M: map[string]*byPointer{"k": {7}}}, nil
	})
	tool, results := callX(t, s, legacyPV, "{}")
	var schema any
	json.Unmarshal(tool.OutputSchema, &schema)
	if err := misfit(schema, results[0].Output, false); err != "" {
		t.Errorf("%s does not fit %s: %s", results[0].text(), tool.OutputSchema, err)
	}
	if !strings.Contains(results[0].text(), `"P":"#4","Q":"#5"`) {
		t.Errorf("got %s", results[0].text())
	}
	s = &Server{}
	out(struct{ M map[string]byPointer }{map[string]byPointer{"k": {1}}}, nil)(s) // which encoding/json does not write as text
	if tool, _ := callX(t, s, legacyPV); tool.OutputSchema != nil {
		t.Errorf("got %s", tool.OutputSchema)
	}
	s = &Server{}
	toolOf[struct {
		R onlyReads
		P byPointer
	}](s)
	try(t, s, trial{`{"R":"abc","P":"#5"}`, `{"R":3,"P":{"N":5}}`}, trial{`{"R":5,"P":"#5"}`, "! R must be a string, got 5"})
}

// The output schema is derived from Out where that can be described, and none
// is sent elsewhere.
func TestOutputSchemaIsDerived(t *testing.T) {
	type reply struct {
		N int   `json:"n"`
		L []int `json:"l"`
	}
	const derived = `{"type":"object","properties":{"n":{"type":"integer"},"l":{"type":"array","items":{"type":"integer"}}},"required":["n","l"],"additionalProperties":false}`
	given := Tool{Name: "x", OutputSchema: json.RawMessage(`{"type":"object"}`)}
	for _, tt := range []struct {
		name         string
		add          func(*Server)
		schema, text string
	}{
		{"struct", out(reply{N: 1}, nil), derived, `{"n":1,"l":[]}`},
		{"map", out(map[string]int(nil), nil), `{"type":"object","properties":{},"additionalProperties":{"type":"integer"}}`, "{}"},
		{"free map", out(map[string]any(nil), nil), `{"type":"object"}`, "{}"},
		{"given", func(s *Server) {
			AddTool(s, given, func(context.Context, none) (reply, error) { return reply{}, nil })
		}, `{"type":"object"}`, `{"n":0,"l":[]}`},
		{"not to be described", out(struct{ A any }{}, nil), "", `{"A":null}`},
		{"list", out([]reply{}, nil), "", "[]"},
		{"pointer", out(&reply{}, nil), "", `{"n":0,"l":[]}`},
		{"nil pointer", out((*reply)(nil), nil), "", "0 blocks"},
		{"nothing", out(none{}, nil), "", "0 blocks"},
		{"text", out("a", nil), "", "a"},
		{"nil where something is promised", promised((*reply)(nil)), `{"type":"object"}`, "!! Internal error"},
		{"no result where something is promised", promised((*Result)(nil)), `{"type":"object"}`, "!! Internal error"},
		{"content alone where something is promised", promised(&Result{Content: []Content{Text("a")}}), `{"type":"object"}`, "!! Internal error"},
		{"nil in a result where something is promised", promised(&Result{StructuredContent: (*reply)(nil)}), `{"type":"object"}`, "!! Internal error"},
		{"nothing at all where something is promised", promised[any](nil), `{"type":"object"}`, "!! Internal error"},
		{"a text where something is promised", promised[any]("a"), `{"type":"object"}`, "!! Internal error"},
		{"an error where something is promised", promised(&Result{Content: []Content{Text("a")}, IsError: true}), `{"type":"object"}`, "! a"},
		{"what was promised", promised[any](reply{}), `{"type":"object"}`, `{"n":0,"l":[]}`},
		{"any result by value", out[any](Result{Content: []Content{Text("a")}}, nil), "", "a"},
	} {
		s := &Server{}
		tt.add(s)
		tool, results := callX(t, s, legacyPV, "{}")
		if string(tool.OutputSchema) != tt.schema || results[0].text() != tt.text {
			t.Errorf("%s: got %s, %s", tt.name, tool.OutputSchema, results[0].text())
		}
	}
	for want, f := range map[string]func(*Server){
		"Out: write *mcp.Result, mcp.Content or []mcp.Content instead of mcp.Result":     out(Result{}, nil),
		"Out: write *mcp.Result, mcp.Content or []mcp.Content instead of []*mcp.Content": out([]*Content{}, nil),
		"Out: write *mcp.Result, mcp.Content or []mcp.Content instead of *mcp.Content":   out(&Content{}, nil),
	} {
		wantPanic(t, want, func() { f(&Server{}) })
	}
}

// A client whose revision knows of no structured output misses none.
func TestAnOldClientIsPromisedNothing(t *testing.T) {
	for version, want := range map[string]string{"2024-11-05": "a", "2025-03-26": "a", "2025-06-18": "!! Internal error"} {
		s := &Server{}
		promised(&Result{Content: []Content{Text("a")}})(s)
		if _, results := callX(t, s, version, "{}"); results[0].text() != want {
			t.Errorf("%s: got %s, want %s", version, results[0].text(), want)
		}
	}
}

// ---- arguments by their schema ----

// Arguments reach the handler as encoding/json reads them, or one line tells
// the model every fault.
func TestArgumentsAreCheckedBeforeTheHandlerRuns(t *testing.T) {
	type text struct {
		Text string `json:"text"`
	}
	type several struct {
		Name  string   `json:"name"`
		Count int      `json:"count"`
		Unit  string   `json:"unit" enum:"mm,inch"`
		Tags  []string `json:"tags,omitempty" enum:"a,b" maxLength:"2"`
		At    *point   `json:"at,omitempty"`
	}
	type level int8 // a name of ours says nothing to a model
	type ratio float32
	type numbers struct {
		I int64   `json:"i,omitempty"`
		U uint64  `json:"u,omitempty"`
		B level   `json:"b,omitempty"`
		C uint8   `json:"c,omitempty"`
		F float64 `json:"f,omitempty"`
		G ratio   `json:"g,omitempty"`
		T bool    `json:"t,omitempty"`
		P *int    `json:"p,omitempty"`
	}
	type pause struct {
		P time.Duration `json:"p" minimum:"5"`
	}
	type one struct {
		L []int `json:"l" maxLength:"1"`
	}
	type keyed struct {
		M map[lang]int `json:"m"`
	}
	type bounds struct {
		N int64   `json:"n,omitempty" minimum:"-2" maximum:"9007199254740992"`
		U uint64  `json:"u,omitempty" minimum:"3" maximum:"9007199254740992"`
		F float64 `json:"f,omitempty" minimum:"0.5" maximum:"1.5"`
		S string  `json:"s,omitempty" minLength:"2" maxLength:"3"`
		L []int   `json:"l,omitempty" minLength:"1" maxLength:"2"`
		E string  `json:"e,omitempty" enum:"x,y"`
		M string  `json:"m,omitempty" format:"email"`
		R string  `json:"r,omitempty" format:"uri"`
		D string  `json:"d,omitempty" format:"date"`
		T string  `json:"t,omitempty" format:"date-time"`
	}
	type defaults struct {
		S string   `json:"s" default:"x"`
		N *int     `json:"n" default:"5"`
		L []string `json:"l" default:"[\"a\",\"b\"]"`
		B bool     `json:"b" default:"true"`
	}
	type forms struct {
		T *time.Time  `json:"t,omitempty"`
		B []byte      `json:"b,omitempty"`
		A *netip.Addr `json:"a,omitempty"`
	}
	type nested struct {
		A []struct {
			B map[string]point `json:"b"`
		} `json:"a"`
	}
	const bad = "Invalid arguments: "
	for _, tt := range []struct {
		add        func(s *Server, name string)
		args, want string
	}{
		// What is missing, unknown, or of a wrong type.
		{toolAs[text], `{"text":"hi"}`, `{"text":"hi"}`},
		{toolAs[text], `{"text":""}`, `{"text":""}`},
		{toolAs[*text], `{"text":"pointer"}`, `{"text":"pointer"}`},
		{toolAs[text], `{}`, bad + "text is required"},
		{toolAs[text], `null`, bad + "text is required"},
		{toolAs[text], `{"text":null}`, bad + "text must be a string, got null"},
		{toolAs[text], `{"text":5}`, bad + "text must be a string, got 5"},
		{toolAs[text], `{"text":true}`, bad + "text must be a string, got true"},
		{toolAs[text], `{"text":["a"]}`, bad + `text must be a string, got ["a"]`},
		{toolAs[text], `{"text":"a","text":"b"}`, bad + "text came twice"},
		{toolAs[text], `{"text":"a","t\u0065xt":"b"}`, bad + "text came twice"},
		{toolAs[defaults], `{"n":null,"n":1}`, bad + "n came twice"}, // others may take the null
		{toolAs[numbers], `{"p":null,"p":null}`, bad + "p came twice"},
		{toolAs[text], `{"text":"a","Text":"b"}`, bad + "Text is unknown (there is text)"},
		{toolAs[text], `{"text":"a","start_rfc3339":"x"}`, bad + "start_rfc3339 is unknown (there is text)"},
		{toolAs[none], `{"x":1}`, bad + "x is unknown, none is wanted"},
		{toolAs[struct {
			A string `json:"dryrain,omitempty"`
			B string `json:"d-R_y_R-u_n,omitempty"`
		}], `{"DryRun":1}`, bad + "DryRun is unknown (there is dryrain, d-R_y_R-u_n)"},
		{toolAs[several], `{"name":"n","count":1,"units":"mm"}`, bad + "units is unknown (there is name, count, unit, tags, at); unit is required"},
		{toolAs[several], `{"name":"n","count":1,"unit":"mm","TAG":"mm"}`, bad + "TAG is unknown (there is name, count, unit, tags, at)"},
		{toolAs[several], `{"name":1,"count":"x","unit":"cm","at":{"x":{}}}`, bad + `name must be a string, got 1; count must be an integer, got "x"; unit must be one of mm, inch, got "cm"; at.x must be an integer, got {}`},
		{toolAs[several], `{"name":"n","count":1,"unit":"mm","tags":["a","c"]}`, bad + `tags[1] must be one of a, b, got "c"`},
		{toolAs[several], `{"name":"n","count":1,"unit":"mm","tags":"a"}`, bad + `tags must be an array, got "a"`},
		{toolAs[several], `{"name":"n","count":1,"unit":"mm","tags":null,"at":null}`, `{"name":"n","count":1,"unit":"mm"}`},
		{toolAs[several], `{"unit":"mm","count":1,"name":"n","at":{"x":1}}`, `{"name":"n","count":1,"unit":"mm","at":{"x":1}}`},
		{toolAs[map[string]int], `{"a":1,"b":"2"}`, `{"a":1,"b":2}`},
		{toolAs[map[string]int], `{"a":1,"a":2}`, bad + "a came twice"},
		{toolAs[map[string]int], `{"a":"x"}`, bad + `a must be an integer, got "x"`},
		// Paths.
		{toolAs[nested], `{"a":[{"b":{"k":{"x":1}}}]}`, `{"a":[{"b":{"k":{"x":1}}}]}`},
		{toolAs[nested], `{"a":[{"b":{}},{"b":{"k":{"x":"?"}}}]}`, bad + `a[1].b.k.x must be an integer, got "?"`},
		{toolAs[nested], `{"a":[{"b":{"k":{}}}]}`, bad + "a[0].b.k.x is required"},
		{toolAs[nested], `{"a":[{"b":{"k":{"x":1,"z":1}}}]}`, bad + "a[0].b.k.z is unknown (there is x, y)"},
		{toolAs[nested], `{"a":[7]}`, bad + "a[0] must be an object, got 7"},
		{toolAs[nested], `{"a":"[\n[1,\n{\"b\": \"\u2028\"}\n]]"}`, bad + `a[0] must be an object, got [1,{"b":"\u2028"}]`},
		{toolAs[tree], `{"name":"a","kids":[{"name":"b","kids":[{"name":"c","up":{"name":"d"}}]}]}`, `{"name":"a","kids":[{"name":"b","kids":[{"name":"c","up":{"name":"d","up":null}}],"up":null}],"up":null}`},
		// Numbers are exact, and models may write them as strings.
		{toolAs[numbers], `{"i":9007199254740993,"u":18446744073709551615}`, `{"i":9007199254740993,"u":18446744073709551615}`},
		{toolAs[numbers], `{"i":-9223372036854775808,"b":-128,"c":255}`, `{"i":-9223372036854775808,"b":-128,"c":255}`},
		{toolAs[numbers], `{"i":9007199254740993.0,"u":1e3,"c":-0}`, `{"i":9007199254740993,"u":1000}`},
		{toolAs[numbers], `{"i":1e18,"u":12.5e1}`, `{"i":1000000000000000000,"u":125}`},
		{toolAs[numbers], `{"i":5.0,"p":null,"f":1}`, `{"i":5,"f":1}`},
		{toolAs[numbers], `{"i":"5","f":"-2.5e3","t":"true","p":"0"}`, `{"i":5,"f":-2500,"t":true,"p":0}`},
		{toolAs[numbers], `{"i":5.5}`, bad + "i must be an integer, got 5.5"},
		{toolAs[numbers], `{"i":"5.5","u":"0x10","f":"","b":" 5"}`, bad + `i must be an integer, got 5.5; u must be an integer, got "0x10"; f must be a number, got ""; b must be an integer, got " 5"`},
		{toolAs[numbers], `{"t":1}`, bad + "t must be a boolean, got 1"},
		{toolAs[numbers], `{"t":"True"}`, bad + `t must be a boolean, got "True"`},
		{toolAs[numbers], `{"i":true,"f":[]}`, bad + "i must be an integer, got true; f must be a number, got []"},
		{toolAs[numbers], `{"i":9223372036854775808,"b":128,"c":256,"u":18446744073709551616}`, bad + "i must be in the range of int64, got 9223372036854775808; b must be in the range of int8, got 128; c must be in the range of uint8, got 256; u must be in the range of uint64, got 18446744073709551616"},
		{toolAs[numbers], `{"u":-1}`, bad + "u must be at least 0, got -1"},
		{toolAs[numbers], `{"g":1e300}`, bad + "g must be a float32, got 1e300"},
		// What the tags say.
		{toolAs[bounds], `{"n":-2,"u":9007199254740992,"f":1.5,"s":"éé","l":[1,2],"e":"y","m":"a@b","r":"x:y","d":"2025-01-02","t":"2025-01-02T03:04:05.6+01:00"}`,
			`{"n":-2,"u":9007199254740992,"f":1.5,"s":"éé","l":[1,2],"e":"y","m":"a@b","r":"x:y","d":"2025-01-02","t":"2025-01-02T03:04:05.6+01:00"}`},
		{toolAs[bounds], `{"n":-3,"u":2,"f":0.25}`, bad + "n must be at least -2, got -3; u must be at least 3, got 2; f must be at least 0.5, got 0.25"},
		{toolAs[pause], `{"p":1}`, bad + "p must be at least 5, got 1"}, // and not 1ns
		{toolAs[bounds], `{"n":9007199254740993,"u":9007199254740993,"f":2}`, bad + "n must be at most 9007199254740992, got 9007199254740993; u must be at most 9007199254740992, got 9007199254740993; f must be at most 1.5, got 2"},
		{toolAs[bounds], `{"s":"é","l":[],"e":"z"}`, bad + `s must have at least 2 characters, got 1; l must have at least 1 element, got 0; e must be one of x, y, got "z"`},
		{toolAs[bounds], `{"s":"abcd","l":[1,2,3]}`, bad + "s must have at most 3 characters, got 4; l must have at most 2 elements, got 3"},
		{toolAs[keyed], `{"m":{"EN":1}}`, `{"m":{"en":1}}`}, // a key reads itself, too
		{toolAs[keyed], `{"m":{"ENGLISH":1}}`, bad + "m.ENGLISH is not valid: bad"},
		{toolAs[one], `{"l":[1,2]}`, bad + "l must have at most 1 element, got 2"},
		{toolAs[bounds], `{"m":"a","r":"b","d":"1.1.2025","t":"2025-01-02"}`, bad + `m must be of the format email, got "a"; r must be of the format uri, got "b"; d must be of the format date, got "1.1.2025"; t must be of the format date-time, got "2025-01-02"`},
		{toolAs[defaults], `{}`, `{"s":"x","n":5,"l":["a","b"],"b":true}`},
		{toolAs[defaults], `{"s":null,"n":null,"l":null,"b":null}`, `{"s":"x","n":5,"l":["a","b"],"b":true}`},
		{toolAs[defaults], `{"s":"","n":0,"l":[],"b":false}`, `{"s":"","n":0,"l":[],"b":false}`},
		{toolAs[forms], `{"t":"2025-01-02T03:04:05Z","b":"aGk=","a":"::1"}`, `{"t":"2025-01-02T03:04:05Z","b":"aGk=","a":"::1"}`},
		{toolAs[forms], `{"t":"today","b":"?","a":"x"}`, bad + `t is not valid: write a time as in 2026-01-31T09:30:00Z; b must be base64; a is not valid: ParseAddr("x"): unable to parse IP`},
		// It stays short, and one line.
		{toolAs[text], `{"text":[` + strings.Repeat("1,", 100) + `1]}`, bad + "text must be a string, got [" + strings.Repeat("1,", 49) + "1..."},
		{toolAs[map[string]int], `{` + strings.Repeat(`"k":"x",`, 100) + `"k":1}`, ""},
		{toolAs[text], `{"text":"a","b\nc":1}`, bad + `"b\nc" is unknown (there is text)`},
		{toolAs[text], `{"text":"a","":1}`, bad + `"" is unknown (there is text)`},
	} {
		t.Run(tt.args[:min(len(tt.args), 60)], func(t *testing.T) {
			s := &Server{}
			tt.add(s, "x")
			synctest.Test(t, func(t *testing.T) {
				c := serve(t, s)
				c.initialize(legacyPV, "{}")
				c.send(call("1", "x", tt.args))
				switch {
				case tt.want == "": // anything short
					if got := c.recv(); len(got) != 1 || len(got[0]) > 1000 || strings.Contains(got[0], `\n`) {
						t.Errorf("got %q", got)
					}
				case strings.HasPrefix(tt.want, bad):
					c.want(failed("1", tt.want))
				default:
					c.want(said("1", tt.want))
				}
				c.end()
			})
		})
	}
}

// Dates are what package time takes for dates: it knows no leap seconds.
func TestFormatsAreChecked(t *testing.T) {
	for _, tt := range []struct {
		format, good, bad string
	}{
		{"date", "2026-11-21 2024-02-29 2000-02-29 0001-01-31 2026-04-30 2026-12-31",
			"2026-11-31 2026-02-29 1900-02-29 2026-00-10 2026-13-01 2026-01-00 2026-01-32 2026-04-31 2026-1-1 2026-01-011 x 26-01-01 2026/01/01 ２026-01-01"},
		{"date-time", "2026-11-21T00:00:00Z 2026-11-21T23:59:59.123456789123+05:30 2026-11-21T12:00:00.5-11:00",
			"2026-11-21 2026-11-21T24:00:00Z 2026-11-21T12:60:00Z 2026-11-21T12:00:60Z 2026-11-21T12:00:00 2026-11-21T12:00:00.Z 2026-11-21t12:00:00Z 2026-11-21T12:00Z 2026-11-21T12:00:00Z0 2026-11-21T12:00:0000Z 2026-02-30T12:00:00Z T 2026-11-21T1:00:00Z 2026-11-21T12:00:00,5Z 2026-11-21T12:00:00"},
	} {
		for _, s := range strings.Fields(tt.good) {
			if !wellFormed(tt.format, s) {
				t.Errorf("%s is no %s", s, tt.format)
			}
		}
		for _, s := range strings.Fields(tt.bad) {
			if wellFormed(tt.format, s) {
				t.Errorf("%s is a %s", s, tt.format)
			}
		}
	}
	for day := time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC); day.Year() < 2005; day = day.AddDate(0, 0, 1) {
		if s := day.Format(time.DateOnly); !wellFormed("date", s) {
			t.Errorf("%s is no date", s)
		}
	}
}

// null is no element of a list or a map of pointers, neither in arguments nor
// in output.
func TestNullIsNoElement(t *testing.T) {
	type in struct {
		L []*int          `json:"l,omitempty"`
		M map[string]*int `json:"m,omitempty"`
	}
	s := &Server{}
	toolOf[in](s)
	try(t, s, trial{`{"l":[1,null]}`, "! l[1] must be an integer, got null"}, trial{`{"m":{"a":null}}`, "! m.a must be an integer, got null"},
		trial{`{"l":null,"m":null}`, "{}"}, trial{`{"l":[1],"m":{"a":2}}`, `{"l":[1],"m":{"a":2}}`})
	one := 1
	s = &Server{}
	out(in{L: []*int{nil, &one, nil}, M: map[string]*int{"a": nil, "b": &one}}, nil)(s)
	try(t, s, trial{"{}", `{"l":[1],"m":{"b":1}}`})
}

// Zero is an integer however it is written.
func TestZeroIsAnInteger(t *testing.T) {
	s := &Server{}
	toolOf[struct{ N int8 }](s)
	for _, zero := range []string{"0e-1", "0.0e-5", "-0.0e-7", "0.00", "0E+9", "-0", `"0e-1"`, "0e-99999999999999999999"} {
		try(t, s, trial{`{"N":` + zero + `}`, `{"N":0}`})
	}
	try(t, s, trial{`{"N":1e-1}`, "! N must be an integer, got 1e-1"}, trial{`{"N":10e-1}`, `{"N":1}`}, trial{`{"N":-1200.0e-2}`, `{"N":-12}`}, trial{`{"N":1e99999999999999999999}`, "! N must be in the range of int8, got 1e99999999999999999999"})
}

// A list or an object may come as a JSON string that holds it; a string stays
// what it is.
func TestListsAndObjectsMayComeAsStrings(t *testing.T) {
	s := &Server{}
	toolOf[struct {
		L []int          `json:"l,omitempty"`
		O *point         `json:"o,omitempty"`
		M map[string]int `json:"m,omitempty"`
		F map[string]any `json:"f,omitempty"`
		S string         `json:"s,omitempty"`
		N int            `json:"n,omitempty"`
		T []string       `json:"t,omitempty"`
	}](s)
	try(t, s,
		trial{`{"l":"[1, 2]"}`, `{"l":[1,2]}`}, trial{`{"l":" [] "}`, `{}`}, trial{`{"o":"{\"x\": 1}"}`, `{"o":{"x":1}}`}, trial{`{"m":"{\"a\":1}"}`, `{"m":{"a":1}}`}, trial{`{"f":"{\"a\":[null]}"}`, `{"f":{"a":[null]}}`},
		trial{`{"l":["1"]}`, `{"l":[1]}`}, trial{`{"t":"[\"[1]\"]"}`, `{"t":["[1]"]}`},
		trial{`{"s":"[1]"}`, `{"s":"[1]"}`}, trial{`{"s":"{}"}`, `{"s":"{}"}`}, trial{`{"s":[1]}`, "! s must be a string, got [1]"}, trial{`{"s":5}`, "! s must be a string, got 5"},
		trial{`{"l":"[1"}`, `! l must be an array, got "[1"`}, trial{`{"l":"{}"}`, `! l must be an array, got "{}"`}, trial{`{"o":"[]"}`, `! o must be an object, got "[]"`},
		trial{`{"l":"1"}`, `! l must be an array, got "1"`}, trial{`{"l":"[1] x"}`, `! l must be an array, got "[1] x"`}, trial{`{"o":"{\"z\":1}"}`, "! o.z is unknown (there is x, y); o.x is required"},
		trial{`{"n":"[1]"}`, `! n must be an integer, got "[1]"`}, trial{`{"n":"5"}`, `{"n":5}`})
}

// An argument that a host adds on its own to every tool is ignored.
func TestHostsOwnArgumentIsIgnored(t *testing.T) {
	for _, own := range []string{"true", "false", "null", `"yes"`, "5", `{"a":[]}`} {
		arg := `"wait_for_previous":` + own
		s := &Server{}
		toolOf[struct{ N int }](s)
		try(t, s, trial{`{"N":1,` + arg + `}`, `{"N":1}`}, trial{`{` + arg + `,` + arg + `,"N":1}`, `{"N":1}`}, trial{`{` + arg + `}`, "! N is required"})
		s = &Server{}
		toolOf[none](s)
		try(t, s, trial{`{` + arg + `}`, `{}`})
		s = &Server{}
		toolOf[map[string]int](s)
		try(t, s, trial{`{` + arg + `,"a":1}`, `{"a":1}`})
		s = &Server{}
		byHand[json.RawMessage](s, `{"type":"object","additionalProperties":false,"properties":{"a":{}}}`)
		try(t, s, trial{`{"a":[1],` + arg + `}`, `{"a":[1]}`})
		s = &Server{}
		byHand[json.RawMessage](s, `{"type":"object","properties":{"wait_for_previous":{}}}`)
		try(t, s, trial{`{` + arg + `}`, `{` + arg + `}`})
	}
	s := &Server{}
	toolOf[struct {
		W bool            `json:"wait_for_previous"`
		D struct{ N int } `json:"d,omitzero"`
	}](s)
	try(t, s, trial{`{"wait_for_previous":true}`, `{"wait_for_previous":true}`}, trial{`{"wait_for_previous":5}`, "! wait_for_previous must be a boolean, got 5"},
		trial{`{"wait_for_previous":true,"d":{"N":1,"wait_for_previous":true}}`, "! d.wait_for_previous is unknown (there is N)"})
}

// The valid names that an unknown argument is told stand in their order.
func TestManyNamesAreToldInOrder(t *testing.T) {
	s := &Server{}
	toolOf[struct {
		Zeta  int `json:"zeta"`
		Alpha int `json:"alpha"`
		Nm    int `json:"nm,omitempty"`
	}](s)
	try(t, s, trial{`{"nmae":1,"zeta":1,"alpha":1}`, "! nmae is unknown (there is zeta, alpha, nm)"})
}

// A text of the client that is quoted in an error is cut between characters.
func TestNoTextIsCutInsideOfACharacter(t *testing.T) {
	type in struct {
		N int
		S string `enum:"a"`
		D string `format:"date"`
	}
	for shift := range 4 {
		long := strings.Repeat("x", shift) + strings.Repeat("é€😀", 60)
		s := &Server{}
		toolOf[in](s)
		_, results := callX(t, s, legacyPV, `{"N":"`+long+`"}`, `{"N":["`+long+`"]}`, `{"N":1,"S":"`+long+`"}`, `{"N":1,"S":"a","D":"`+long+`"}`, `{"`+long+`":1}`)
		for _, r := range results {
			if got := r.text(); !r.IsError || strings.ContainsRune(got, utf8.RuneError) || strings.Contains(got, `\x`) || len(got) > 400 {
				t.Errorf("%q", got)
			}
		}
		if got := excerpt(long); !utf8.ValidString(got) || len(got) > 103 {
			t.Errorf("%q", got)
		}
	}
}

// A schema written by hand goes out as it stands, and the handler sees the
// arguments as they came.
func TestASchemaByHandGoesOutAsItStands(t *testing.T) {
	s := &Server{}
	AddTool(s, Tool{Name: "raw", InputSchema: json.RawMessage("{\n  \"type\": \"object\",\n  \"oneOf\": [ { \"required\": [\"a b\"] } ]\n}\n")},
		func(_ context.Context, args json.RawMessage) (string, error) { return string(args), nil })
	AddTool(s, Tool{Name: "any", InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(_ context.Context, args map[string]any) (string, error) { return fmt.Sprint(args), nil })
	AddTool(s, Tool{Name: "loose", InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(_ context.Context, in point) (string, error) { return fmt.Sprint(in), nil })
	play(t, s, legacyPV, `
		> {"jsonrpc":"2.0","id":1,"method":"tools/list"}
		< {"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"raw","inputSchema":{"type":"object","oneOf":[{"required":["a b"]}]}},{"name":"any","inputSchema":{"type":"object"}},{"name":"loose","inputSchema":{"type":"object"}}]}}
		> `+call("2", "raw", `{"n":1.0, "n":null,"N":"\u0041"}`)+`
		< `+said("2", `{"n":1.0, "n":null,"N":"\u0041"}`)+`
		> {"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"raw"}}
		< `+said("3", "{}")+`
		> `+call("4", "raw", "[]")+`
		< `+wrong("4", -32602, "Invalid params: arguments must be an object")+`
		> `+call("5", "any", `{"a":[1.5,{"b":null}],"c":"\n","d":true}`)+`
		< `+said("5", "map[a:[1.5 map[b:<nil>]] c:\n d:true]")+`
		> `+call("6", "loose", `{"y":2,"z":3}`)+`
		< `+said("6", "{0 2}"))
}

// With a schema written by hand, an In that cannot be described is decoded by
// encoding/json.
func TestSchemaByHandTakesAnything(t *testing.T) {
	type odd struct {
		A [2]float64      `json:"a"`
		M map[int]string  `json:"m"`
		R json.RawMessage `json:"r,omitempty"`
		V any             `json:"v,omitempty"`
		N json.Number     `json:"n,omitempty"`
		Q int             `json:"q,string"`
	}
	s := &Server{}
	byHand[odd](s, `{"type":"object"}`)
	try(t, s, trial{`{"a":[1,2.5],"m":{"3":"x"},"r":{"k":[ 1 ]},"v":[null],"n":1.50,"q":"7"}`, `{"a":[1,2.5],"m":{"3":"x"},"r":{"k":[1]},"v":[null],"n":1.50,"q":"7"}`},
		trial{`{}`, `{"a":[0,0],"m":null,"q":"0"}`})
	_, results := callX(t, s, legacyPV, `{"a":"x"}`, `{"m":{"y":"z"}}`, `{"q":"x"}`)
	for _, r := range results {
		if !r.IsError || !strings.HasPrefix(r.text(), invalidArgs) {
			t.Errorf("got %s", r.text())
		}
	}
}

// With a schema written by hand, an argument for which reflect cannot make room is told.
func TestAnEmbeddedPointerThatCannotBeSetIsRefused(t *testing.T) {
	s := &Server{}
	byHand[pointer](s, `{"type":"object"}`)
	try(t, s, trial{`{}`, `{}`}, trial{`{"x":1}`, "! x cannot be set"})
}

// A null in a string is a null for encoding/json, and nothing that bounds are for.
func TestANullInAStringHasNoBounds(t *testing.T) {
	type in struct {
		N *int    `json:"n,string" minimum:"1"`
		L *[]int  `json:"l,string" maxLength:"1"`
		S *string `json:"s,string" enum:"a" minLength:"1"`
	}
	s := &Server{}
	byHand[in](s, `{"type":"object"}`)
	try(t, s, trial{`{"n":"null","l":"null","s":"null"}`, `{"n":null,"l":null,"s":null}`}, trial{`{"n":"0"}`, "! n must be at least 1, got 0"})
}

// A greedy is a string that writes behind what it is given.
type greedy string

// A plainGreedy is one that stands for a key.
type plainGreedy string

func (g *greedy) UnmarshalJSON(raw []byte) error {
	_ = append(raw, strings.Repeat("#", 300)...)
	return json.Unmarshal(raw, (*string)(g))
}
func (g *plainGreedy) UnmarshalText(text []byte) error {
	*g = plainGreedy(text)
	_ = append(text, strings.Repeat("#", 300)...)
	return nil
}

// What a user's method does to the bytes that it is given harms no other message.
func TestUsersMethodsDoNotReachOtherMessages(t *testing.T) {
	type in struct {
		G greedy              `json:"g"`
		O struct{ G greedy }  `json:"o"`
		M map[plainGreedy]int `json:"m"`
	}
	s := &Server{}
	byHand[in](s, `{"type":"object"}`)
	const args = `{"g":"a","o":{"G":"b"},"m":{"c":1}}`
	try(t, s, trial{args, args}, trial{args, args}, trial{args, args})
}

// Of a schema written by hand, required and additionalProperties of the root
// are enforced.
func TestSchemaByHandIsHeldAtItsRoot(t *testing.T) {
	const schema = `{"type":"object","properties":{"n":{"type":"integer"},"s":{"type":"string"}},"required":["n"],"additionalProperties":false}`
	type in struct {
		N int8     `json:"n" maximum:"9"`
		S string   `json:"s" enum:"a,b"`
		L []string `json:"l"`
	}
	trials := []trial{{`{}`, "! n is required"}, {`{"n":1,"t":2}`, "! t is unknown (there is n, s)"}, {`{"t":1}`, "! t is unknown (there is n, s); n is required"},
		{`{"n":1,"wait_for_previous":true}`, ""}, {`{"n":1}`, ""}}
	adds := []func(*Server, string){byHand[in], byHand[json.RawMessage], byHand[map[string]any], byHand[any]}
	for _, add := range adds {
		s := &Server{}
		add(s, schema)
		for _, tr := range trials {
			_, results := callX(t, s, legacyPV, tr.args)
			if got, want := results[0].text(), strings.Replace(tr.want, "! ", invalidArgs, 1); got != want && (want != "" || results[0].IsError) {
				t.Errorf("%s: got %s, want %s", tr.args, got, want)
			}
		}
	}
	s := &Server{}
	byHand[in](s, schema)
	try(t, s, trial{`{"n":300,"s":"c"}`, `! n must be in the range of int8, got 300; s must be one of a, b, got "c"`}, trial{`{"n":10}`, "! n must be at most 9, got 10"}, trial{`{"n":1,"s":2}`, "! s must be a string, got 2"})
	s = &Server{}
	byHand[in](s, `{"type":"object","required":["l"],"additionalProperties":false,"patternProperties":{"^x":{}},"properties":{"l":{}}}`)
	try(t, s, trial{`{"l":[],"x1":1}`, `{"n":0,"s":"","l":[]}`}, trial{`{"l":null}`, `{"n":0,"s":"","l":null}`})
	s = &Server{}
	byHand[in](s, `{"type":"object","required":["n","n"]}`) // twice is once
	try(t, s, trial{`{"n":1}`, `{"n":1,"s":"","l":null}`})
	wantPanic(t, "required must be a list of names", func() { byHand[none](&Server{}, `{"type":"object","required":"n"}`) })
}

// What models and hosts may get wrong in arguments, clients may not in the
// protocol.
func TestProtocolMessagesAreReadExactly(t *testing.T) {
	type message struct {
		M map[string]string `json:"m"`
		L []string          `json:"l"`
		N *int              `json:"n"`
		B bool              `json:"b"`
	}
	for raw, good := range map[string]bool{`{"m":{"a":"b"},"l":["x"],"n":null,"b":true,"z":1}`: true, `{"M":5}`: true, `{"m":"{}"}`: false, `{"l":"[]"}`: false, `{"n":"5"}`: false, `{"b":"true"}`: false} {
		var m message
		if err := decode([]byte(raw), &m); (err == nil) != good {
			t.Errorf("%s: %v", raw, err)
		}
	}
}

// ---- results ----

// Each type that a handler may return becomes the content that its comment
// promises.
func TestEachResultHasItsShape(t *testing.T) {
	type reply struct {
		List []int          `json:"list"`
		Map  map[string]int `json:"map"`
		Ptr  *int           `json:"ptr"`
		Str  string         `json:"str"`
		Skip string         `json:"skip,omitempty"`
	}
	const empty = `{"list":[],"map":{},"str":"<&>"}`
	texts := func(texts ...string) string {
		for i := range texts {
			texts[i] = `{"type":"text","text":` + quote(texts[i]) + `}`
		}
		return `"content":[` + strings.Join(texts, ",") + `]`
	}
	isError := func(text string) string { return texts(text) + `,"isError":true` }
	r := reply{Str: "<&>"}
	var nilReply *reply
	var nilResult *Result
	for _, tt := range []struct {
		name   string
		add    func(*Server)
		result string // in 2025-11-25; or an error
		modern string // structuredContent, if it is another
	}{
		{"string", out("hi", nil), texts("hi"), ""},
		{"empty string", out("", nil), texts(""), ""},
		{"content", out(Text("hi"), nil), texts("hi"), ""},
		{"contents", out([]Content{Text("a"), {Text: "no type is text"}}, nil), texts("a", "no type is text"), ""},
		{"nil contents", out([]Content(nil), nil), texts(), ""},
		{"nothing", out(none{}, nil), texts(), ""},
		{"result", out(&Result{Content: []Content{Text("a")}, StructuredContent: 1, IsError: true}, nil), texts("a") + `,"structuredContent":{"result":1},"isError":true`, "1"},
		{"nil result", out(nilResult, nil), texts(), ""},
		{"struct", out(r, nil), texts(empty) + `,"structuredContent":` + empty, ""},
		{"pointer", out(&r, nil), texts(empty) + `,"structuredContent":` + empty, ""},
		{"nil pointer", out(nilReply, nil), texts(), ""},
		{"slice", out([]string{"a"}, nil), texts(`["a"]`) + `,"structuredContent":{"result":["a"]}`, `["a"]`},
		{"nil slice", out([]string(nil), nil), texts(`[]`) + `,"structuredContent":{"result":[]}`, `[]`},
		{"map", out(map[string]any{"b": nil, "a": []int(nil)}, nil), texts(`{"a":null,"b":null}`) + `,"structuredContent":{"a":null,"b":null}`, ""},
		{"nil map", out(map[string]int(nil), nil), texts(`{}`) + `,"structuredContent":{}`, ""},
		{"number", out(1.5, nil), texts(`1.5`) + `,"structuredContent":{"result":1.5}`, "1.5"},
		{"raw", out(json.RawMessage("{\n\"a\" : 1}"), nil), texts(`{"a":1}`) + `,"structuredContent":{"a":1}`, ""},
		{"any: nil", out[any](nil, nil), texts(), ""},
		{"any: string", out[any]("hi", nil), texts("hi"), ""},
		{"any: struct", out[any](r, nil), texts(empty) + `,"structuredContent":` + empty, ""},
		{"any: pointer", out[any](&r, nil), texts(empty) + `,"structuredContent":` + empty, ""},
		{"any: map", out[any](map[string]any{"a": 1}, nil), texts(`{"a":1}`) + `,"structuredContent":{"a":1}`, ""},
		{"any: slice", out[any]([]int{1}, nil), texts(`[1]`) + `,"structuredContent":{"result":[1]}`, "[1]"},
		{"error", out("not told", errors.New("disk full\n<now>")), isError("disk full\n<now>"), ""},
		{"empty error", out("", errors.New("")), isError(""), ""},
		{"protocol error", out("", error(&Error{Code: 7, Message: "no", Data: map[string]int{"a": 1}})), `{"code":7,"message":"no","data":{"a":1}}`, ""},
		{"wrapped protocol error", out("", fmt.Errorf("so: %w", &Error{Code: -32602, Message: "no"})), `{"code":-32602,"message":"no"}`, ""},
		{"protocol error without a code", out("", error(&Error{Message: "no"})), `{"code":-32603,"message":"no"}`, ""},
		{"joined errors", out("", errors.Join(errors.New("a"), errors.New("b"))), isError("a\nb"), ""},
		{"not JSON", out(math.NaN(), nil), `{"code":-32603,"message":"Internal error"}`, ""},
		{"content that lacks its data", out(Content{Type: "resource"}, nil), `{"code":-32603,"message":"Internal error"}`, ""},
		{"content of no known type", out(Content{Type: "video"}, nil), `{"code":-32603,"message":"Internal error"}`, ""},
		{"panic", func(s *Server) {
			AddTool(s, Tool{Name: "x"}, func(context.Context, none) (string, error) { panic("secret") })
		}, isError("Internal error"), ""},
		{"Goexit", func(s *Server) {
			AddTool(s, Tool{Name: "x"}, func(context.Context, none) (string, error) { runtime.Goexit(); return "", nil })
		}, isError("Internal error"), ""},
		{"deadline of its own", func(s *Server) {
			AddTool(s, Tool{Name: "x"}, func(ctx context.Context, _ none) (string, error) {
				ctx, cancel := context.WithTimeout(ctx, 0)
				defer cancel()
				<-ctx.Done()
				return "", ctx.Err()
			})
		}, isError("context deadline exceeded"), ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var diary bytes.Buffer
			s := &Server{ErrorLog: log.New(&diary, "", 0)}
			tt.add(s)
			answer, modern := `"result":{`+tt.result+`}`, `"result":{"resultType":"complete",`+tt.result+`,$SRV}`
			if tt.modern != "" {
				modern = regexp.MustCompile(`\{"result":([^{}]*)\}`).ReplaceAllString(modern, strings.ReplaceAll(tt.modern, "$", "$$"))
			}
			if tt.result[0] == '{' {
				answer = `"error":` + tt.result
				modern = answer
			}
			play(t, s, legacyPV, `
				> `+call("1", "x", "{}")+`
				< {"jsonrpc":"2.0","id":1,`+answer+`}
				> {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"x",$META}}
				< {"jsonrpc":"2.0","id":2,`+modern+`}`+ping)
			if stack := strings.Contains(diary.String(), "goroutine "); stack != (tt.name == "panic" || tt.name == "Goexit") {
				t.Errorf("log %q", diary.String())
			}
		})
	}
}

// The five constructors of content, as they are sent.
func TestEachConstructorMakesItsContent(t *testing.T) {
	for _, tt := range []struct {
		c    Content
		want string
	}{
		{Text(""), `{"type":"text","text":""}`},
		{Image(nil, "image/png"), `{"type":"image","data":"","mimeType":"image/png"}`},
		{Audio([]byte{255, 254}, "audio/wav"), `{"type":"audio","data":"//4=","mimeType":"audio/wav"}`},
		{ResourceLink(Resource{URI: "file:///a", Name: "a"}), `{"type":"resource_link","uri":"file:///a","name":"a"}`},
		{EmbeddedResource(ResourceContents{URI: "file:///a"}), `{"type":"resource","resource":{"uri":"file:///a","text":""}}`},
		{EmbeddedResource(ResourceContents{URI: "file:///a", MIMEType: "x/y", Blob: []byte("b"), Text: "not this"}), `{"type":"resource","resource":{"uri":"file:///a","mimeType":"x/y","blob":"Yg=="}}`},
		{Content{Type: "image", Data: []byte("b"), MIMEType: "x/y", Annotations: &Annotations{Audience: []string{"user"}}, Meta: map[string]any{"a": nil}},
			`{"type":"image","data":"Yg==","mimeType":"x/y","annotations":{"audience":["user"]},"_meta":{"a":null}}`},
	} {
		s := &Server{}
		out(tt.c, nil)(s)
		play(t, s, legacyPV, "> "+call("1", "x", "{}")+"\n"+`< {"jsonrpc":"2.0","id":1,"result":{"content":[`+tt.want+`]}}`)
	}
}

// The list and the call of a tool agree on whether its output is wrapped for
// the legacy era.
func TestOneRuleWrapsStructuredOutput(t *testing.T) {
	for schema, wrapped := range map[string]bool{
		`{"type":"object","properties":{}}`:           false,
		`{"properties":{"a":{"type":"integer"}}}`:     true,
		`{"anyOf":[{"type":"object"}]}`:               true,
		`{"type":["object"]}`:                         true,
		`{"type":"array","items":{}}`:                 true,
		`{"$ref":"#/$defs/a","$defs":{"a":{}}}`:       true, // and not listed at all
		`{"type":"object","oneOf":[{"required":[]}]}`: false,
	} {
		for _, out := range []func(context.Context, none) (any, error){
			func(context.Context, none) (any, error) { return map[string]int{"a": 1}, nil },
			func(context.Context, none) (any, error) {
				return &Result{StructuredContent: map[string]int{"a": 1}}, nil
			},
		} {
			s := &Server{}
			AddTool(s, Tool{Name: "x", OutputSchema: json.RawMessage(schema)}, out)
			tool, results := callX(t, s, "2025-06-18", "{}")
			if got := strings.HasPrefix(string(tool.OutputSchema), `{"type":"object","properties":{"result":`); got != (wrapped && !strings.Contains(schema, "$ref")) {
				t.Errorf("%s is listed as %s", schema, tool.OutputSchema)
			}
			object, _ := results[0].Output.(map[string]any)
			if got := object["result"] != nil; got != wrapped {
				t.Errorf("%s: the result is %v", schema, results[0].Output)
			}
		}
	}
}

// A list of itself can be returned: only its schema cannot be written.
func TestListOfItselfIsAnOutput(t *testing.T) {
	s := &Server{}
	AddTool(s, Tool{Name: "x"}, func(context.Context, struct{}) (selves, error) { return selves{nil, {}}, nil })
	if _, results := callX(t, s, "2025-06-18", "{}"); results[0].Content[0].Text != "[[],[]]" {
		t.Error(results[0])
	}
}

// What user methods return is one line of valid UTF-8 in the end.
func TestOutputIsOneValidLine(t *testing.T) {
	for _, v := range []any{json.RawMessage("{\"a\":\n\"\xff\u2028\u2029\"}"), map[string]any{"k": valJSON{1}}, color(3), []string{"\xc3(", "\u2028"}, struct{ E error }{}} {
		got, err := marshal(v)
		if err != nil || !utf8.Valid(got) || !json.Valid(got) || bytes.ContainsAny(got, "\n\r\u2028\u2029") {
			t.Errorf("%T: %q %v", v, got, err)
		}
		record := slog.NewRecord(time.Time{}, slog.LevelInfo, "", 0)
		record.Add("v", v)
		got, err = LogHandler("").(*logHandler).data(t.Context(), record)
		if err != nil || !utf8.Valid(got) || !json.Valid(got) || bytes.ContainsAny(got, "\n\r\u2028\u2029") {
			t.Errorf("logged %T: %q %v", v, got, err)
		}
	}
}

// Values behind an interface cost about what encoding/json needs for them.
func TestDynamicValuesAreCheap(t *testing.T) {
	if raceBuild() {
		t.Skip("the race detector allocates too")
	}
	list := make([]any, 1000)
	for i := range list {
		list[i] = point{X: i}
	}
	s := quick(0)
	AddTool(s, Tool{Name: "list"}, func(context.Context, none) ([]any, error) { return list, nil })
	l := loaded(t, s, false)
	defer l.end()
	line := []byte(callLine(1, "list", "{}"))
	if n := testing.AllocsPerRun(20, func() { l.play(line, 1) }); n > 100 {
		t.Errorf("%v allocations", n)
	}
}

// What ended the context is what the model reads.
func TestTheModelReadsWhatEndedTheContext(t *testing.T) {
	for _, tt := range []struct {
		name string
		end  func(*client)
		want string
	}{
		{"EOF", func(c *client) { c.in.Close() }, ErrClosed.Error()},
		{"Serve's context", func(c *client) { c.cancel(errors.New("power cut")) }, "power cut"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := serve(t, demo())
				c.initialize(legacyPV, "{}")
				c.send(call("1", "slow", "{}"))
				synctest.Wait()
				tt.end(c)
				if err := <-c.done; err != nil {
					t.Error("Serve:", err)
				}
				c.want(failed("1", tt.want))
			})
		})
	}
	synctest.Test(t, func(t *testing.T) { // and the client's cancel, what the handler sees
		causes := make(chan error, 1)
		s := &Server{}
		AddTool(s, Tool{Name: "x"}, func(ctx context.Context, _ none) (string, error) {
			<-ctx.Done()
			causes <- context.Cause(ctx)
			return "", nil
		})
		c := serve(t, s)
		c.initialize(legacyPV, "{}")
		c.send(call("1", "x", "{}"))
		c.want() // it has begun
		c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"reason":"user\u0021"}}`)
		var cancelled *CancelledError
		if err := <-causes; !errors.As(err, &cancelled) || cancelled.Reason != "user!" {
			t.Errorf("cause %v", err)
		}
		c.end()
	})
}

// A nil *Error that a handler returns is an error that says so.
func TestATypedNilErrorIsNoPanic(t *testing.T) {
	var none *Error
	if errors.Is(error(none), errors.ErrUnsupported) || error(none).Error() == "" {
		t.Error("a nil *Error says something else")
	}
	s := &Server{}
	add(s, "bare", func(context.Context) (string, error) { return "", none })
	add(s, "wrapped", func(context.Context) (string, error) { return "", fmt.Errorf("w: %w", none) })
	s.AddPrompt(Prompt{Name: "p"}, func(context.Context, map[string]string) ([]Message, error) { return nil, none })
	const said = "mcp: a nil *Error was returned as an error"
	play(t, s, legacyPV, `
		> `+call("1", "bare", "{}")+`
		< `+failed("1", said)+`
		> `+call("2", "wrapped", "{}")+`
		< `+failed("2", "w: "+said)+`
		> {"jsonrpc":"2.0","id":3,"method":"prompts/get","params":{"name":"p"}}
		< `+wrong("3", codeInternal, said))
}

// A code that the protocol reserves is replaced, and that is reported once. That a
// resource is not found has another number in 2026-07-28: there is nothing to report.
func TestReservedErrorCodesAreNotForHandlers(t *testing.T) {
	s := &Server{}
	said := diagnostics(s)
	var code int
	data := map[int]any{ // the schemas want it with these codes
		codeVersion: json.RawMessage(`{"supported":["2026-07-28"],"requested":"x"}`),
		codeURL:     json.RawMessage(`{"elicitations":[]}`),
	}
	fail := func(context.Context) (string, error) { return "", &Error{Code: code, Message: "m", Data: data[code]} }
	answer := func(id string, sent int) string {
		line := wrong(id, sent, "m")
		if d, ok := data[code].(json.RawMessage); ok {
			line = strings.TrimSuffix(line, "}}") + `,"data":` + string(d) + "}}"
		}
		return line
	}
	add(s, "t", fail)
	s.AddPrompt(Prompt{Name: "p"}, func(ctx context.Context, _ map[string]string) ([]Message, error) {
		_, err := fail(ctx)
		return nil, err
	})
	for _, test := range []struct{ code, legacy, modern int }{
		{-32050, codeInternal, codeInternal},
		{-32020, codeInternal, codeInternal},
		{-32099, codeInternal, codeInternal},
		{codeVersion, codeInternal, codeVersion},
		{codeURL, codeURL, codeInternal}, // the legacy revision is 2025-11-25
		{codeNotFound, codeNotFound, codeParams},
		{codeParams, codeParams, codeParams},
		{-32019, -32019, -32019},
		{-32100, -32100, -32100},
		{-1, -1, -1},
		{7, 7, 7},
	} {
		code = test.code
		for _, request := range []string{`"method":"tools/call","params":{"name":"t"`, `"method":"prompts/get","params":{"name":"p"`} {
			said.Reset()
			play(t, s, legacyPV, `
				> {"jsonrpc":"2.0","id":1,`+request+`}}
				< `+answer("1", test.legacy)+`
				> {"jsonrpc":"2.0","id":2,`+request+`,$META}}
				< `+answer("2", test.modern))
			want := 0
			for _, sent := range []int{test.legacy, test.modern} {
				if sent != test.code && test.code != codeNotFound {
					want++
				}
			}
			if got := strings.Count(said.String(), "reserves the error code "+strconv.Itoa(code)); got != want {
				t.Errorf("%d: reported %d times, want %d: %s", code, got, want, said)
			}
		}
	}
}

// ---- lists ----

func (c *client) tools(cursor, next string, names ...string) {
	c.t.Helper()
	c.send(`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{` + cursor + `}}`)
	var v struct {
		Result struct {
			Tools      []struct{ Name string }
			NextCursor *string
		}
	}
	got := c.recv()
	if len(got) != 1 || json.Unmarshal([]byte(got[0]), &v) != nil {
		c.t.Fatalf("got %q", got)
	}
	var list []string
	for _, tool := range v.Result.Tools {
		list = append(list, tool.Name)
	}
	if !slices.Equal(list, names) || (v.Result.NextCursor == nil) != (next == "") || next != "" && *v.Result.NextCursor != next {
		c.t.Errorf("got %s\nwant %q and %q", got[0], names, next)
	}
}

// lists are the four kinds of things that come in lists.
var lists = [kinds]struct {
	method, key, name string
	add               func(s *Server, name, description string)
	remove            func(s *Server, names ...string)
	change            string
}{
	{"tools/list", "tools", "name", func(s *Server, name, description string) {
		AddTool(s, Tool{Name: name, Description: description}, func(context.Context, struct{}) (string, error) { return "", nil })
	}, (*Server).RemoveTools, "tools"},
	{"prompts/list", "prompts", "name", func(s *Server, name, description string) {
		s.AddPrompt(Prompt{Name: name, Description: description}, promptOf())
	}, (*Server).RemovePrompts, "prompts"},
	{"resources/list", "resources", "uri", func(s *Server, name, description string) {
		s.AddResource(Resource{URI: "x:" + name, Name: name, Description: description}, texts(""))
	}, removeResources("x:"), "resources"},
	{"resources/templates/list", "resourceTemplates", "uriTemplate", func(s *Server, name, description string) {
		s.AddResource(Resource{URI: "x:{v}" + name, Name: name, Description: description}, texts(""))
	}, removeResources("x:{v}"), "resources"},
}

func removeResources(prefix string) func(*Server, ...string) {
	return func(s *Server, names ...string) {
		for i := range names {
			names[i] = prefix + names[i]
		}
		s.RemoveResources(names...)
	}
}

// page asks for a page of a list. It returns the names, with a description
// behind them if they have one, and the next cursor as raw JSON.
func (c *client) page(method, key, meta, cursor string) (names, next string) {
	c.t.Helper()
	params := strings.Trim(cursor+","+meta, ",")
	c.send(`{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{` + params + `}}`)
	got := c.recv()
	var answer struct{ Result map[string]json.RawMessage }
	if len(got) != 1 || json.Unmarshal([]byte(got[0]), &answer) != nil || answer.Result == nil {
		c.t.Fatalf("%s {%s}: got %q", method, params, got)
	}
	var items []struct{ Name, Description string }
	if err := json.Unmarshal(answer.Result[key], &items); err != nil {
		c.t.Fatal(err)
	}
	for _, it := range items {
		names += it.Name + it.Description
	}
	return names, string(answer.Result["nextCursor"])
}

// Tools, prompts, resources and templates are listed, paged, replaced and
// removed alike.
func TestFourListsAreOneKindOfThing(t *testing.T) {
	for _, list := range lists {
		for _, era := range eras {
			meta := ""
			if era.version == "" {
				meta = modernParams
			}
			s := &Server{PageSize: 2}
			for _, name := range "abcdefgh" {
				list.add(s, string(name), "")
			}
			synctest.Test(t, func(t *testing.T) {
				c := serve(t, s)
				if era.version != "" { // without initialized: nothing is told of changes
					c.send(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`)
					c.recv()
				}
				check := func(cursor, want string) (next string) {
					t.Helper()
					names, next := c.page(list.method, list.key, meta, cursor)
					if names != want {
						t.Errorf("%s %s: got %q after %s, want %q", era.name, list.method, names, cursor, want)
					}
					if next != "" {
						next = `"cursor":` + next
					}
					return next
				}
				first := check("", "ab")
				if again := check(`"cursor":""`, "ab"); again != first {
					t.Errorf("cursor %s, and then %s", first, again)
				}
				second := check(first, "cd")
				list.remove(s, "a", "d", "nobody")
				check(first, "ce")
				list.add(s, "i", "")
				list.add(s, "e", "!") // replaced, where it stands
				check(first, "ce!")
				third := check(second, "e!f")
				list.remove(s, "f") // where the cursor stands
				list.add(s, "b", "?")
				list.add(s, "d", "") // is new, and so the last
				check("", "b?c")
				last := check(third, "gh")
				if end := check(last, "id"); end != "" {
					t.Errorf("%s: the last page has a %s", list.method, end)
				}
				list.remove(s, "i", "d")
				if end := check(last, ""); end != "" {
					t.Errorf("%s: an empty page has a %s", list.method, end)
				}
				for _, bad := range []string{`"bogus"`, `"-1"`, `"1x"`, `"99999"`, `"99999999999999999999"`, `" "`, `5`, `["1"]`, `{}`} {
					c.script("> 2" + era.plus + " " + list.method + ` {"cursor":` + bad + "}\n< 2! -32602 Invalid cursor")
				}
				c.end()
			})
		}
	}
}

// Pages keep their place when tools come and go; the order is that in which
// they came.
func TestPagesKeepTheirPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Server{PageSize: 2}
		for _, name := range []string{"e", "d", "c", "b", "a"} {
			toolAs[none](s, name)
		}
		c := serve(t, s)
		c.initialize("2024-11-05", "{}")
		c.send(`{"jsonrpc":"2.0","id":0,"method":"ping"}`)
		c.recv()
		c.tools("", "2", "e", "d")
		c.tools(`"cursor":""`, "2", "e", "d")
		c.tools(`"cursor":"2"`, "4", "c", "b")
		c.tools(`"cursor":"4"`, "", "a")
		c.tools(`"cursor":"5"`, "")
		s.RemoveTools("d", "b", "none of that name")
		c.want(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
		c.tools(`"cursor":"2"`, "", "c", "a")
		c.tools("", "3", "e", "c")
		toolAs[none](s, "d") // again: comes last now
		toolAs[none](s, "c") // replaced: keeps its place
		c.recv()
		c.tools(`"cursor":"1"`, "5", "c", "a")
		c.tools(`"cursor":"5"`, "", "d")
		for _, cursor := range []string{`"7"`, `"-1"`, `"x"`, `"1.0"`, `2`, `{}`} {
			c.talk(`
				> {"jsonrpc":"2.0","id":2,"method":"tools/list","params":{"cursor":` + cursor + `}}
				< ` + wrong("2", -32602, "Invalid cursor"))
		}
		s.RemoveTools("d", "c")
		s.RemoveTools("d", "c") // nothing changes
		c.want(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
		c.end()
	})
}

// What is removed and added again in between stands at the end, and cursors hold.
func TestListsStayInOrderWhileTheyChange(t *testing.T) {
	s := &Server{PageSize: 2}
	more := func(names ...string) {
		for _, name := range names {
			add(s, name, func(context.Context) (string, error) { return "", nil })
		}
	}
	more("a", "b", "c", "d", "e", "f")
	synctest.Test(t, func(t *testing.T) {
		c := serve(t, s)
		page := func(cursor string) (names []string, next string) {
			c.send(`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":"` + cursor + `","_meta":{` + modernMeta + `}}}`)
			return listed(t, c.recv())
		}
		names, next := page("")
		check := func(want string) {
			t.Helper()
			if got := strings.Join(names, " "); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		}
		check("a b")
		s.RemoveTools("b", "c", "a", "nobody", "b")
		names, next = page(next)
		check("d e")
		more("a", "d")
		s.RemoveTools("e")
		names, next = page(next)
		check("f a")
		names, _ = page("")
		check("d f")
		c.end()
	})
}

// Two servers made alike give the same list, byte for byte.
func TestListsAreTheSameTwice(t *testing.T) {
	list := `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`
	server := func() *Server {
		s := demo()
		AddTool(s, Tool{Name: "meta", Meta: map[string]any{"c": 1, "a": 2, "b": map[string]int{"y": 1, "x": 2}}},
			func(context.Context, none) (string, error) { return "", nil })
		return s
	}
	first := feed(t, server(), strings.NewReader(list+"\n"+list))
	for range 5 {
		if again := feed(t, server(), strings.NewReader(list+"\n"+list)); first[0] != first[1] || !slices.Equal(first, again) {
			t.Errorf("got %q\nand %q", first, again)
		}
	}
}

// A tool of the same name replaces the one before, and one that was removed is
// unknown.
func TestAToolCanBeReplacedAndRemoved(t *testing.T) {
	s := &Server{}
	out("old", nil)(s)
	synctest.Test(t, func(t *testing.T) {
		c := serve(t, s)
		c.initialize(legacyPV, "{}")
		c.talk("> " + call("1", "x", "{}") + "\n< " + said("1", "old"))
		out("new", nil)(s)
		c.talk(`
			< {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}
			> ` + call("2", "x", "{}") + `
			< ` + said("2", "new"))
		c.tools("", "", "x")
		s.RemoveTools("x")
		c.talk(`
			< {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}
			> ` + call("3", "x", "{}") + `
			< ` + wrong("3", -32602, "Unknown tool: x"))
		c.tools("", "")
		c.end()
	})
}

// To remove or replace one of many takes a time that does not depend on how
// many there are.
func TestRemovingOneByOneTakesLinearTime(t *testing.T) {
	const n = 10_000
	s := &Server{}
	name := func(i int) string { return "x:" + strconv.Itoa(i) }
	start := time.Now()
	for i := range n {
		s.AddResource(Resource{URI: name(i), Name: "n"}, texts(""))
	}
	adding := time.Since(start)
	start = time.Now()
	for i := range n { // again: replaced
		s.AddResource(Resource{URI: name(i), Name: "m"}, texts(""))
	}
	replacing := time.Since(start)
	start = time.Now()
	for i := range n {
		s.RemoveResources(name(i))
	}
	removing := time.Since(start)
	if most := 5*adding + 100*time.Millisecond; removing > most || replacing > most {
		t.Errorf("adding %d took %v, replacing them %v, removing them %v", n, adding, replacing, removing)
	}
	if len(s.lists[resources]) > 0 || len(s.items[resources]) > 0 {
		t.Errorf("%d and %d are left", len(s.lists[resources]), len(s.items[resources]))
	}
}

// CacheTTL and CachePublic are sent in the modern era only, in whole
// milliseconds.
func TestListsSayHowLongTheyHold(t *testing.T) {
	for _, test := range []struct {
		ttl    time.Duration
		public bool
		want   string
	}{
		{0, false, `"ttlMs":0,"cacheScope":"private"`},
		{90 * time.Second, true, `"ttlMs":90000,"cacheScope":"public"`},
		{1500 * time.Microsecond, false, `"ttlMs":1,"cacheScope":"private"`},
		{-time.Second, true, `"ttlMs":0,"cacheScope":"public"`},
	} {
		s := &Server{CacheTTL: test.ttl, CachePublic: test.public, PageSize: 1}
		for _, list := range lists {
			list.add(s, "a", "")
			list.add(s, "b", "")
		}
		inBubble(t, s, "2025-11-25", func(c *client) {
			for _, asked := range []string{`tools/list`, `prompts/list`, `resources/list`, `resources/templates/list`, `server/discover`,
				`resources/read {"uri":"x:a"}`, `resources/read {"uri":"x:7a"}`} {
				if got := c.ask("> 1+ " + asked)[0]; !strings.Contains(got, test.want) {
					t.Errorf("%s: %s", asked, got)
				}
				if got := c.ask("> 1 " + asked)[0]; strings.Contains(got, "ttlMs") || strings.Contains(got, "cacheScope") {
					t.Errorf("legacy %s: %s", asked, got)
				}
			}
			for _, asked := range []string{`prompts/get {"name":"a"}`, `tools/call {"name":"a"}`, `resources/read {"uri":"x:nope"}`} {
				if got := c.ask("> 1+ " + asked)[0]; strings.Contains(got, "ttlMs") || strings.Contains(got, "cacheScope") {
					t.Errorf("%s: %s", asked, got)
				}
			}
		})
	}
}

// listed returns the names in the answer to tools/list, and the next cursor.
func listed(t *testing.T, lines []string) (names []string, next string) {
	t.Helper()
	var m struct {
		Result struct {
			Tools      []struct{ Name string }
			NextCursor string
		}
	}
	if len(lines) != 1 || json.Unmarshal([]byte(lines[0]), &m) != nil || m.Result.Tools == nil {
		t.Fatalf("no list: %q", lines)
	}
	for _, tool := range m.Result.Tools {
		names = append(names, tool.Name)
	}
	return names, m.Result.NextCursor
}

// A tool that is not shown is neither listed nor there, page by page, and what
// decides may do anything, since nobody waits for it.
func TestToolsForSomeClientsOnly(t *testing.T) {
	s := &Server{PageSize: 2}
	var seen []*Request
	apps := func(r *Request) bool {
		seen = append(seen, r)
		s.RemoveTools("nobody")       // takes Server.mu
		s.ResourceUpdated("x:nobody") // and that of every session
		return strings.Contains(string(r.Capabilities), `"apps"`)
	}
	plain := func(context.Context) (string, error) { return "hi", nil }
	for i := range 9 {
		var shown func(*Request) bool
		if i%3 != 0 {
			shown = apps
		}
		AddTool(s, Tool{Name: fmt.Sprint("t", i), Shown: shown}, func(ctx context.Context, _ none) (string, error) { return plain(ctx) })
	}
	AddTool(s, Tool{Name: "wrong", Shown: func(*Request) bool { panic("oh") }}, func(ctx context.Context, _ none) (string, error) { return plain(ctx) })
	names := func(c *client, capabilities string) (pages []string) {
		next := ""
		for {
			c.send(`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":"` + next + `","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":` + capabilities + `}}}`)
			var page []string
			page, next = listed(t, c.recv())
			if pages = append(pages, strings.Join(page, " ")); next == "" {
				return pages
			}
		}
	}
	synctest.Test(t, func(t *testing.T) {
		c := serve(t, s)
		c.send(`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":"9","_meta":{` + modernMeta + `}}}`)
		c.want(wrong("1", codeInternal, "Internal error")) // "wrong" costs this request only
		s.RemoveTools("wrong")
		if got, want := names(c, `{}`), []string{"t0 t3", "t6"}; !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		if got, want := names(c, `{"experimental":{"apps":{}}}`), []string{"t0 t1", "t2 t3", "t4 t5", "t6 t7", "t8"}; !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		seen = nil
		c.talk(`
			> ` + modernCall("2", "t1") + `
			< ` + wrong("2", codeParams, "Unknown tool: t1") + `
			> {"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"t1","arguments":[],$META}}
			< ` + wrong("3", codeParams, "Unknown tool: t1") + `
			> {"jsonrpc":"2.0","id":"4","method":"tools/call","params":{"name":"t1","arguments":[],"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"experimental":{"apps":{}}}}}}
			< ` + wrong(`"4"`, codeParams, "Invalid params: arguments must be an object") + `
			> {"jsonrpc":"2.0","id":"5","method":"tools/call","params":{"name":"t1","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"experimental":{"apps":{}}}}}}
			< ` + modernSaid(`"5"`, "hi"))
		if len(seen) != 4 || seen[3].Name != "t1" || seen[3].Method != "tools/call" || string(seen[3].ID) != `"5"` {
			t.Errorf("asked %d times, %+v", len(seen), seen)
		}
		c.initialize(legacyPV, `{"experimental":{"apps":{}}}`)
		c.send(call("6", "t2", "{}"))
		c.want(said("6", "hi"))
		c.end()
	})
}

// A list that another client may see otherwise is nobody's to share, nor is a page of it that
// all would see alike.
func TestAListWithHiddenToolsIsNotCached(t *testing.T) {
	s := &Server{CacheTTL: time.Minute, CachePublic: true}
	AddTool(s, Tool{Name: "t", Shown: func(*Request) bool { return false }}, func(context.Context, none) (string, error) { return "", nil })
	play(t, s, legacyPV, `
		> {"jsonrpc":"2.0","id":1,"method":"tools/list","params":{$META}}
		< {"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","tools":[],"ttlMs":0,"cacheScope":"private",$SRV}}
		> {"jsonrpc":"2.0","id":"1b","method":"tools/list","params":{"cursor":"1",$META}}
		< {"jsonrpc":"2.0","id":"1b","result":{"resultType":"complete","tools":[],"ttlMs":0,"cacheScope":"private",$SRV}}
		> {"jsonrpc":"2.0","id":2,"method":"tools/list"}
		< {"jsonrpc":"2.0","id":2,"result":{"tools":[]}}
		> {"jsonrpc":"2.0","id":3,"method":"prompts/list"}
		< {"jsonrpc":"2.0","id":3,"result":{"prompts":[]}}`)
}

// Whoever decides slowly who sees a tool holds up nobody else.
func TestShownIsNotWaitedFor(t *testing.T) {
	s := &Server{}
	release := make(chan struct{})
	AddTool(s, Tool{Name: "slow", Shown: func(*Request) bool { <-release; return true }}, func(context.Context, none) (string, error) { return "", nil })
	synctest.Test(t, func(t *testing.T) {
		release = make(chan struct{})
		c := serve(t, s)
		c.initialize(legacyPV, `{}`)
		c.send(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, call("2", "slow", "{}"), pingLine)
		time.Sleep(time.Second) // of the bubble's own time
		c.want(pongLine)
		close(release)
		got := c.recv()
		slices.Sort(got) // they may come in any order
		if len(got) != 2 || !strings.HasPrefix(got[0], `{"jsonrpc":"2.0","id":1,"result":{"tools":[`) || got[1] != said("2", "") {
			t.Errorf("got %q", got)
		}
		c.end()
	})
}

// ---- resources ----

// Resources and templates are listed with the fields that the revision knows.
func TestResourcesAreListedWithAllTheirFields(t *testing.T) {
	full := Resource{
		Name: "full", Title: "Full", Description: "All of it", MIMEType: "text/plain", Size: 3,
		Annotations: &Annotations{Audience: []string{"user", "assistant"}, Priority: ptr(0.5), LastModified: "2026-01-02T03:04:05Z"},
		Icons:       []Icon{{Src: "data:,x", MIMEType: "image/png", Sizes: []string{"any"}, Theme: "dark"}},
		Meta:        map[string]any{"example.com/a": 1},
	}
	s := &Server{}
	for _, uri := range []string{"demo://full", "demo://bare", "demo://{x}/full", "demo://{x}/bare"} {
		r := Resource{Name: "bare"}
		if strings.HasSuffix(uri, "full") {
			r = full
		}
		r.URI = uri
		s.AddResource(r, texts(""))
	}
	const common = `"name":"full","description":"All of it","mimeType":"text/plain","annotations":{"audience":["user","assistant"],"priority":0.5}`
	more := strings.Replace(common, `0.5`, `0.5,"lastModified":"2026-01-02T03:04:05Z"`, 1) + `,"title":"Full","_meta":{"example.com/a":1}`
	most := more + `,"icons":[{"src":"data:,x","mimeType":"image/png","sizes":["any"],"theme":"dark"}]`
	for version, members := range map[string]string{"2024-11-05": common, "2025-03-26": common, "2025-06-18": more, "2025-11-25": most, "": most} {
		members = strings.Join(strings.Fields(members), " ")
		ask, answer := "", ""
		if version == "" {
			ask, answer = "+", "*"
		}
		inBubble(t, s, version, func(c *client) {
			c.script(fmt.Sprintf(`
				> 1%[1]s resources/list
				< 1%[2]s {"resources":[{"uri":"demo://full","size":3,%[3]s},{"uri":"demo://bare","name":"bare"}]}
				> 2%[1]s resources/templates/list
				< 2%[2]s {"resourceTemplates":[{"uriTemplate":"demo://{x}/full",%[3]s},{"uriTemplate":"demo://{x}/bare","name":"bare"}]}`,
				ask, answer, members))
		})
	}
}

// A Priority of 0 is sent, and one that was not set is not.
func TestPriorityZeroIsSent(t *testing.T) {
	s := &Server{}
	s.AddResource(Resource{URI: "x:a", Name: "a", Annotations: &Annotations{Priority: ptr(0.0)}}, texts(""))
	s.AddResource(Resource{URI: "x:b", Name: "b", Annotations: &Annotations{Audience: []string{"user"}}}, texts(""))
	play(t, s, legacyPV, `
		> {"jsonrpc":"2.0","id":1,"method":"resources/list"}
		< {"jsonrpc":"2.0","id":1,"result":{"resources":[{"uri":"x:a","name":"a","annotations":{"priority":0}},{"uri":"x:b","name":"b","annotations":{"audience":["user"]}}]}}`)
}

// A resource is read as text or bytes, and what fails has the error of its era.
func TestResourcesAreRead(t *testing.T) {
	s := &Server{}
	add := func(name string, err error, contents ...ResourceContents) {
		s.AddResource(Resource{URI: "demo://" + name, Name: name, MIMEType: "text/x"},
			func(context.Context, string, map[string]string) ([]ResourceContents, error) { return contents, err })
	}
	add("text", nil, ResourceContents{Text: "A\n<b>"})
	add("blob", nil, ResourceContents{Blob: []byte{0, 255}, Text: "not this", MIMEType: "image/png"})
	add("empty", nil, ResourceContents{}, ResourceContents{Blob: []byte{}})
	add("many", nil, ResourceContents{URI: "demo://many/1", Text: "1"}, ResourceContents{URI: "demo://many/2", Meta: map[string]any{"k": "v"}})
	add("nothing", nil)
	add("gone", fmt.Errorf("open: %w", &fs.PathError{Op: "open", Path: "/etc/secret", Err: fs.ErrNotExist}))
	add("burns", errors.New("disk on fire"))
	add("refuses", fmt.Errorf("wrapped: %w", &Error{Code: 7, Message: "not you", Data: map[string]int{"n": 1}}))
	add("codeless", &Error{Message: "no code"})
	add("odd", nil, ResourceContents{Meta: map[string]any{"c": make(chan int)}})
	s.AddResource(Resource{URI: "demo://panics", Name: "p"}, func(context.Context, string, map[string]string) ([]ResourceContents, error) { panic("secret") })
	s.AddResource(Resource{URI: "demo://t/{x}/{+y}", Name: "t"}, func(_ context.Context, uri string, vars map[string]string) ([]ResourceContents, error) {
		return []ResourceContents{{Text: fmt.Sprint(uri, " ", vars)}}, nil
	})
	for _, test := range []struct{ uri, want string }{
		{"text", `{"contents":[{"uri":"demo://text","mimeType":"text/x","text":"A\n<b>"}]}`},
		{"blob", `{"contents":[{"uri":"demo://blob","mimeType":"image/png","blob":"AP8="}]}`},
		{"empty", `{"contents":[{"uri":"demo://empty","mimeType":"text/x","text":""},{"uri":"demo://empty","mimeType":"text/x","blob":""}]}`},
		{"many", `{"contents":[{"uri":"demo://many/1","mimeType":"text/x","text":"1"},{"uri":"demo://many/2","mimeType":"text/x","text":"","_meta":{"k":"v"}}]}`},
		{"nothing", `{"contents":[]}`},
		{"t/a%20b/c/d", `{"contents":[{"uri":"demo://t/a%20b/c/d","text":"demo://t/a%20b/c/d map[x:a b y:c/d]"}]}`},
		{"gone", `! NOTFOUND Resource not found {"uri":"demo://gone"}`},
		{"unknown", `! NOTFOUND Resource not found {"uri":"demo://unknown"}`},
		{"burns", `! -32603 disk on fire`},
		{"refuses", `! 7 not you {"n":1}`},
		{"codeless", `! -32603 no code`},
		{"odd", `! -32603 Internal error`},
		{"panics", `! -32603 Internal error`},
	} {
		for _, era := range eras {
			answer, code := " ", "-32002"
			if era.plus != "" {
				answer, code = "* ", "-32602"
			}
			if test.want[0] == '!' {
				answer = ""
			}
			inBubble(t, s, era.version, func(c *client) {
				c.script(fmt.Sprintf("> 1%s resources/read {\"uri\":\"demo://%s\"}\n< 1%s%s", era.plus, test.uri, answer, strings.Replace(test.want, "NOTFOUND", code, 1)))
			})
		}
	}
	inBubble(t, s, "2025-03-26", func(c *client) {
		c.script(`
			# contents have a _meta only from 2025-06-18 on
			> 1 resources/read {"uri":"demo://many"}
			< 1 {"contents":[{"uri":"demo://many/1","mimeType":"text/x","text":"1"},{"uri":"demo://many/2","mimeType":"text/x","text":""}]}
			> 2 resources/read {}
			< 2! -32602 Invalid params: uri is required
			> 3 resources/read {"uri":5}
			< 3! -32602 Invalid params: uri is required
			> 4 resources/read
			< 4! -32602 Invalid params: uri is required`)
		s.RemoveResources("demo://text", "demo://never")
		c.script(`< notifications/resources/list_changed`)
		s.RemoveResources("demo://t/{x}/{+y}")
		c.script(`
			< notifications/resources/list_changed
			> 5 resources/read {"uri":"demo://text"}
			< 5! -32002 Resource not found {"uri":"demo://text"}
			> 6 resources/read {"uri":"demo://t/a/b"}
			< 6! -32002 Resource not found {"uri":"demo://t/a/b"}`)
	})
}

// What was read with the user's answers is declared private and stale.
func TestWhatWasAskedForIsNotCached(t *testing.T) {
	s := &Server{CacheTTL: time.Minute, CachePublic: true}
	s.AddResource(Resource{URI: "x:a", Name: "a"}, texts("A"))
	asked := func(id, more string) string {
		return `> {"jsonrpc":"2.0","id":` + id + `,"method":"resources/read","params":{"uri":"x:a",` + more + `$META}}` + "\n"
	}
	got := func(id, hints string) string {
		return `< {"jsonrpc":"2.0","id":` + id + `,"result":{"resultType":"complete","contents":[{"uri":"x:a","text":"A"}],` + hints + `,$SRV}}` + "\n"
	}
	const fresh, private = `"ttlMs":60000,"cacheScope":"public"`, `"ttlMs":0,"cacheScope":"private"`
	play(t, s, "", asked("1", "")+got("1", fresh)+
		asked("2", `"inputResponses":{},`)+got("2", private)+
		asked("3", `"requestState":"x",`)+got("3", private)+
		asked("4", `"inputResponses":null,"requestState":null,`)+got("4", fresh))
}

// Resources, templates and prompts that cannot be served panic at registration,
// and nothing is added.
func TestWrongResourcesAndPromptsPanic(t *testing.T) {
	s := &Server{}
	add := func(r Resource) func() { return func() { s.AddResource(r, texts("")) } }
	for _, uri := range []string{"", "noscheme", "{scheme}://a", "x://{", "x://{a", "x://}", "x://a}b", "x://{}", "x://{+}", "x://{a}{b}",
		"x://{a}/{a}", "x://{a}/{+a}", "x://{a-b}", "x://{/a}", "x://{a*}", "x://{a,b}", "x://{{a}}", "x://{?q}"} {
		mustPanic(t, map[string]func(){fmt.Sprintf("%q", uri): add(Resource{URI: uri, Name: "n"})})
	}
	mustPanic(t, map[string]func(){
		`"x:y"`:                add(Resource{URI: "x:y"}),
		`no variable "b"`:      add(Resource{URI: "x://{a}", Name: "n", Complete: map[string]CompleteFunc{"b": words()}}),
		`no variable "c"`:      add(Resource{URI: "x://c", Name: "n", Complete: map[string]CompleteFunc{"c": words()}}),
		`"x:m": Meta`:          add(Resource{URI: "x:m", Name: "n", Meta: map[string]any{"f": math.NaN()}}),
		`"x:nil"`:              func() { s.AddResource(Resource{URI: "x:nil", Name: "n"}, nil) },
		`"nil"`:                func() { s.AddPrompt(Prompt{Name: "nil"}, nil) },
		`prompt needs a name`:  func() { s.AddPrompt(Prompt{}, promptOf()) },
		`prompt "p": an argum`: func() { s.AddPrompt(Prompt{Name: "p", Arguments: []Argument{{}}}, promptOf()) },
		`prompt "q": an argum`: func() { s.AddPrompt(Prompt{Name: "q", Arguments: []Argument{{Name: "a"}, {Name: "a"}}}, promptOf()) },
		`prompt "r": Meta`:     func() { s.AddPrompt(Prompt{Name: "r", Meta: map[string]any{"f": func() {}}}, promptOf()) },
	})
	for k, added := range s.items {
		if len(added) != 0 {
			t.Errorf("%d of the %s were added all the same", len(added), kindNames[k])
		}
	}
}

// A URI that no client may send panics at registration, and the message says
// how to write that of a file.
func TestResourceURIsAreLegal(t *testing.T) {
	const how = `write that of a file as (&url.URL{Scheme: "file", Path: path}).String()`
	for _, uri := range []string{"file:///my file.txt", "file:///a%zz", "file:///a%2", "file:///\u00e9", "file:///a|b", "file:///a\"b", "file:///<a>", `file:///a\b`, "file:///a\n", "file:///a^", "file:///a}b", "file:///{a}b}"} {
		wantPanic(t, how, func() { (&Server{}).AddResource(Resource{URI: uri, Name: "n"}, texts("")) })
	}
	for _, uri := range []string{"notes.txt", "/notes.txt", ":x", "1x:y", "x y:z", "{a}:b", ""} {
		wantPanic(t, "begins with a scheme", func() { (&Server{}).AddResource(Resource{URI: uri, Name: "n"}, texts("")) })
	}
	for _, uri := range []string{"x:../{a}", "x://h/./{a}", "x://h/{a}/..", "x://h/%2e/{a}"} {
		wantPanic(t, "nothing would fit it", func() { (&Server{}).AddResource(Resource{URI: uri, Name: "n"}, texts("")) })
	}
	for _, uri := range []string{"file:///my%20file%7B1%7D.txt", "urn:x:y", "git+ssh://u@h:1/p?q=[1]#f", "x:", "ui://a/b;v=1,2!$&'()*+~", "note://{id}", "x://h/{+p}?q={q}"} {
		(&Server{}).AddResource(Resource{URI: uri, Name: "n"}, texts(""))
	}
}

// ---- templates ----

// A template fits the URIs that its expansion can make, and its values never
// climb out of their place.
func TestTemplatesMatchWhatTheyExpandTo(t *testing.T) {
	for _, test := range []struct{ template, fits, refused string }{ // fits: URIs and their values, a blank written as _
		{"note://{id}", `note://7 id=7  note://{id} id={id}  note://a+b&c=d;e,f:g@h id=a+b&c=d;e,f:g@h  note://é id=é`,
			`note:// note:/7 Note://7 note://7/8 note://7/ note://7?q note://7#f xnote://7`},
		{"note://{id}/", `note://7/ id=7`, `note://7 note://7//`},
		{"note://{id}/x", ``, `note://7/xx note://7/`},
		{"db://{groesse}", `db://7 groesse=7`, ``},
		{"db://{table}/{row}", `db://t/r table=t,row=r`, `db:///r db://t/ db://t/r/s db://../r db://t/..`},
		{"db://{a}-{b}", `db://1-2-3 a=1,b=2-3  db://1--2 a=1,b=-2`, `db://12 db://-2 db://1-`},
		{"db://{a}.txt", `db://1.txt.txt a=1.txt`, `db://.txt`},

		{"file:///{+path}", `file:///a/b.txt path=a/b.txt  file:///a?b#c path=a?b#c`, `file:/// file://a file:///./a file:///a/.?b`},
		{"file:///{+path}/x", `file:///x/x/x path=x/x`, `file:///x`},
		{"file:///{+dir}/{name}.txt", `file:///a/b/c.txt dir=a/b,name=c  file:///a/b.txt/c.txt dir=a/b.txt,name=c`,
			`file:///a/.txt file:///c.txt file:///a/b/c.md file:///a/b.txt/c`},
		{"file:///{+a}/x/{+b}", `file:///1/x/2/x/3 a=1,b=2/x/3`, ``},
		{"file:///{+a}/x/{b}", `file:///1/x/2/x/3 a=1/x/2,b=3`, ``}, // the first try leads nowhere
		{"x:{+a}/{b}-{+c}!{d}", `x:1/2/3-4!5-6!7 a=1/2,b=3,c=4,d=5-6!7`, `x:1/2-3!4/5 x:1-2!3`},

		// Escapes are decoded once, and never taken apart.
		{"p://{x}", `p://%41%62%C3%a9 x=Abé  p://%25%32%46 x=%2F  p://%3F%23%20 x=?#_`, `p://% p://%4 p://a%4 p://%zz p://%+1 p://%ff p://%c3 p://a%00b`},
		{"p://{x}2{y}", `p://%202%20 x=_,y=_`, `p://%2F`},
		{"p://{x}F", ``, `p://%2F`},

		// No value leads out of its place.
		{"p://{x}", `p://... x=...  p://..a x=..a  p://a..b x=a..b`, `p://a%2Fb p://a%2fb p://a%5Cb p://a\b p://.. p://. p://%2e%2E p://%2e`},
		{"p://{+x}", `p://a/..b/c.. x=a/..b/c..  p://a%2Fb x=a/b`,
			`p://.. p://../a p://a/.. p://a/../b p://a/%2e%2e/b p://a%2F..%2Fb p://a\..\b p://a%5c.. p://a%00b`},
		{"p://{x}.{y}", `p://a..b x=a,y=.b`, `p://a.. p://...a`},
		{"file:///{+a}/{b}", ``, `file:///../x/y file:///x/..`},
	} {
		s := &Server{}
		s.AddResource(Resource{URI: test.template, Name: "n"}, texts(""))
		check := func(uri, want string) {
			got := "no"
			if it, vars := s.find(resources, uri); it != nil {
				got = ""
				for _, name := range it.args {
					got += "," + name + "=" + strings.ReplaceAll(vars[name], " ", "_")
				}
				if got = got[1:]; len(vars) != len(it.args) {
					t.Errorf("%s in %s: %v", uri, test.template, vars)
				}
			}
			if got != want {
				t.Errorf("%s in %s: got %s, want %s", uri, test.template, got, want)
			}
		}
		for pair := range slices.Chunk(strings.Fields(test.fits), 2) {
			check(pair[0], pair[1])
		}
		for _, uri := range strings.Fields(test.refused) {
			check(uri, "no")
		}
	}
}

// No value forms "." or ".." with what stands beside it in the template.
func TestNoValueMakesADotSegment(t *testing.T) {
	for _, test := range []struct{ template, fits, refused string }{
		{"file:///home/u/.{+path}", "file:///home/u/.bashrc file:///home/u/.config/x",
			"file:///home/u/../root/.ssh/id_rsa file:///home/u/.%2E/root file:///home/u/..%2froot file:///home/u/./x file:///home/u/.. file:///home/u/..?q file:///home/u/.%3fq"},
		{"x://h/{a}.{b}", "x://h/a.b x://h/a..b", "x://h/a.. x://h/..b/"},
		{"x://h/.{a}", "x://h/.a x://h/...a", "x://h/.. x://h/.%2e x://h/..."},
		{"x://h/%2e{a}/b", "x://h/%2ea/b", "x://h/%2e./b x://h/%2e%2e/b"},
		{"x:..{+a}", "x:..a", "x:../a x:..%5Ca"},
		{"x://h/{+a}.", "x://h/a.", "x://h/a/. x://h/a/.. x://h/.."},
		{"x://h/{+a}", "x://h/a/b x://h/a/.b/c. x://h/a/...", "x://h/. x://h/./a x://h/a/. x://h/a/./b x://h/a/../b"},
	} {
		s := &Server{}
		s.AddResource(Resource{URI: test.template, Name: "n"}, texts(""))
		for _, uri := range strings.Fields(test.fits) {
			if it, _ := s.find(resources, uri); it == nil {
				t.Errorf("%s does not fit %s", uri, test.template)
			}
		}
		for _, uri := range strings.Fields(test.refused) {
			if it, vars := s.find(resources, uri); it != nil {
				t.Errorf("%s fits %s: %v", uri, test.template, vars)
			}
		}
	}
}

// A resource that has the very URI goes before all templates, and these in the
// order in which they were added.
func TestTheFirstFittingTemplateReads(t *testing.T) {
	s := &Server{}
	for _, uri := range []string{"x://{+all}", "x://{a}/one", "x://1/one", "x://1/{b}", "y://{a}", "y://{+all}"} {
		s.AddResource(Resource{URI: uri, Name: "n"}, texts(uri))
	}
	inBubble(t, s, "2025-11-25", func(c *client) {
		check := func(uri, by string) {
			t.Helper()
			c.script(`
				> 1 resources/read {"uri":"` + uri + `"}
				< 1 {"contents":[{"uri":"` + uri + `","text":"` + by + `"}]}`)
		}
		check("x://1/one", "x://1/one")
		check("x://2/one", "x://{+all}")
		check("y://2", "y://{a}")
		check("y://2/3", "y://{+all}")
		s.RemoveResources("x://{+all}")
		c.script("< notifications/resources/list_changed")
		check("x://2/one", "x://{a}/one")
		check("x://1/two", "x://1/{b}")
		s.AddResource(Resource{URI: "x://{a}/one", Name: "again"}, texts("replaced"))
		c.script("< notifications/resources/list_changed")
		check("x://2/one", "replaced")
	})
}

// Input that would take a naive matcher years.
func TestTemplatesMatchInTimeWhateverIsSent(t *testing.T) {
	for template, uri := range map[string]string{
		"x:{+a}/{+b}/{+c}/{+d}/{+e}/{+f}/{+g}!":   "x:" + strings.Repeat("a/", 2000),
		"x:{+a}a{+b}a{+c}a{+d}a{+e}b":             "x:" + strings.Repeat("a", 4000),
		"x:{a}-{b}-{c}-{d}-{e}-{f}-{g}-{h}-{i}/j": "x:" + strings.Repeat("-", 4000),
		"x:{+a}/{+b}/{+c}":                        "x:%00" + strings.Repeat("/a", 2000),
		"x:{+a}":                                  "x:" + strings.Repeat("../", 20_000),
	} {
		s := &Server{}
		s.AddResource(Resource{URI: template, Name: "n"}, texts(""))
		start := time.Now()
		if it, vars := s.find(resources, uri); it != nil {
			t.Errorf("%s: a match: %.100v", template, vars)
		}
		t.Logf("%v %s", time.Since(start), template)
	}
}

// What is too long to be a URI is not held against every template.
func TestAVeryLongURIFitsNoTemplate(t *testing.T) {
	s := &Server{}
	s.AddResource(Resource{URI: "x:{+a}", Name: "n"}, texts(""))
	longest := "x:" + strings.Repeat("a", maxMatched-2)
	if it, _ := s.find(resources, longest); it == nil {
		t.Error("the longest is not found")
	}
	if it, _ := s.find(resources, longest+"a"); it != nil {
		t.Error("a longer one is found")
	}
	s.AddResource(Resource{URI: longest + "a", Name: "n"}, texts(""))
	if it, _ := s.find(resources, longest+"a"); it == nil || it.name != longest+"a" {
		t.Error("a longer one that is there is not found")
	}
}

// ---- prompts and completion ----

// Prompts are listed, their arguments checked, and their messages sent.
func TestPromptsAreListedAndGot(t *testing.T) {
	s := &Server{}
	s.AddPrompt(Prompt{
		Name: "greet", Title: "Greet", Description: "Greets",
		Arguments: []Argument{{Name: "name", Title: "Name", Description: "whom", Required: true}, {Name: "how"}},
		Icons:     []Icon{{Src: "data:,x"}}, Meta: map[string]any{"k": "v"},
	}, func(_ context.Context, args map[string]string) ([]Message, error) {
		return []Message{{Content: Text(fmt.Sprint(args))}, {"assistant", Text("hm")}}, nil
	})
	fails := func(name string, err error) {
		s.AddPrompt(Prompt{Name: name}, func(context.Context, map[string]string) ([]Message, error) { return nil, err })
	}
	fails("empty", nil)
	fails("burns", errors.New("disk on fire"))
	fails("refuses", errors.Join(errors.New("x"), &Error{Code: -32602, Message: "not so"}))
	s.AddPrompt(Prompt{Name: "panics"}, func(context.Context, map[string]string) ([]Message, error) { panic("secret") })
	s.AddPrompt(Prompt{Name: "lacks"}, promptOf(Content{Type: "image/png"}))
	s.AddPrompt(Prompt{Name: "commands"}, func(context.Context, map[string]string) ([]Message, error) {
		return []Message{{"system", Text("obey")}}, nil
	})
	const args = `"arguments":[{"name":"name","description":"whom","required":true},{"name":"how"}]`
	const titled = `"arguments":[{"name":"name","title":"Name","description":"whom","required":true},{"name":"how"}]`
	others := `,{"name":"empty"},{"name":"burns"},{"name":"refuses"},{"name":"panics"},{"name":"lacks"},{"name":"commands"}`
	for version, members := range map[string]string{
		"2024-11-05": args, "2025-03-26": args,
		"2025-06-18": titled + `,"title":"Greet","_meta":{"k":"v"}`,
		"2025-11-25": titled + `,"title":"Greet","_meta":{"k":"v"},"icons":[{"src":"data:,x"}]`,
	} {
		inBubble(t, s, version, func(c *client) {
			c.script(`
				> 1 prompts/list
				< 1 {"prompts":[{"name":"greet","description":"Greets",` + members + `}` + others + `]}`)
		})
	}
	greeted := func(args string) string {
		return ` {"description":"Greets","messages":[{"role":"user","content":{"type":"text","text":"` + args + `"}},{"role":"assistant","content":{"type":"text","text":"hm"}}]}`
	}
	for params, want := range map[string]string{
		`{"name":"greet","arguments":{"name":"Ann"}}`:         greeted("map[name:Ann]"),
		`{"name":"greet","arguments":{"name":"","how":"so"}}`: greeted("map[how:so name:]"),
		`{"name":"greet","arguments":{"\u006eame":"\u0041"}}`: greeted("map[name:A]"),
		`{"name":"greet"}`:                                      `! -32602 Missing required argument: name`,
		`{"name":"greet","arguments":null}`:                     `! -32602 Missing required argument: name`,
		`{"name":"greet","arguments":{}}`:                       `! -32602 Missing required argument: name`,
		`{"name":"greet","arguments":{"Name":"Ann"}}`:           `! -32602 Unknown argument: Name`,
		`{"name":"greet","arguments":{"name":"Ann","who":"x"}}`: `! -32602 Unknown argument: who`,
		`{"name":"greet","arguments":{"name":5}}`:               `! -32602 Invalid params: arguments.name must be a string, got 5`,
		`{"name":"greet","arguments":{"name":null}}`:            `! -32602 Invalid params: arguments.name must be a string, got null`,
		`{"name":"greet","arguments":["Ann"]}`:                  `! -32602 Invalid params: arguments must be an object, got ["Ann"]`,
		`{"name":"greet","arguments":"Ann"}`:                    `! -32602 Invalid params: arguments must be an object, got "Ann"`,
		`{"name":"greet","arguments":{"name":"A","name":"B"}}`:  `! -32602 Invalid params: arguments.name came twice`,
		`{"name":"nope"}`:                                       `! -32602 Unknown prompt: nope`,
		`{"name":7}`:                                            `! -32602 Invalid params: name is required`,
		`{}`:                                                    `! -32602 Invalid params: name is required`,
		`{"name":"empty"}`:                                      ` {"messages":[]}`,
		`{"name":"burns"}`:                                      `! -32603 disk on fire`,
		`{"name":"refuses"}`:                                    `! -32602 not so`,
		`{"name":"panics"}`:                                     `! -32603 Internal error`,
		`{"name":"lacks"}`:                                      `! -32603 Internal error`,
		`{"name":"commands"}`:                                   `! -32603 Internal error`,
	} {
		for _, era := range eras {
			plus := era.plus
			if want[0] == '!' {
				plus = ""
			}
			inBubble(t, s, era.version, func(c *client) {
				c.script("> 1" + era.plus + " prompts/get " + params + "\n< 1" + plus + want)
			})
		}
	}
}

// Content that a revision does not know becomes a text.
func TestUnknownContentBecomesAText(t *testing.T) {
	meta, notes := map[string]any{"k": 1}, &Annotations{Audience: []string{"user"}}
	s := &Server{}
	s.AddPrompt(Prompt{Name: "all"}, promptOf(
		Content{Text: "plain", Meta: meta, Annotations: notes},
		Image([]byte{1}, "image/png"),
		Audio([]byte{1, 2}, "audio/wav"),
		ResourceLink(Resource{URI: "demo://a", Name: "a", Title: "A", Size: 5, Meta: meta}),
		Content{Type: "resource_link", Link: &Resource{URI: "demo://a", Name: "a"}, Meta: meta, Annotations: notes},
		EmbeddedResource(ResourceContents{URI: "demo://b", MIMEType: "text/x", Text: "B", Meta: meta}),
		EmbeddedResource(ResourceContents{URI: "demo://c", Blob: []byte{3}}),
	))
	blocks := [...][2]string{ // as it is, and as it was
		{`"type":"text","text":"plain","annotations":{"audience":["user"]},"_meta":{"k":1}`, `"type":"text","text":"plain","annotations":{"audience":["user"]}`},
		{`"type":"image","data":"AQ==","mimeType":"image/png"`, ``},
		{`"type":"audio","data":"AQI=","mimeType":"audio/wav"`, `"type":"text","text":"[audio, audio/wav, 2 bytes]"`},
		{`"type":"resource_link","uri":"demo://a","name":"a","title":"A","size":5,"_meta":{"k":1}`, `"type":"text","text":"a: demo://a"`},
		{`"type":"resource_link","uri":"demo://a","name":"a","annotations":{"audience":["user"]},"_meta":{"k":1}`, `"type":"text","text":"a: demo://a","annotations":{"audience":["user"]}`},
		{`"type":"resource","resource":{"uri":"demo://b","mimeType":"text/x","text":"B","_meta":{"k":1}}`, `"type":"resource","resource":{"uri":"demo://b","mimeType":"text/x","text":"B"}`},
		{`"type":"resource","resource":{"uri":"demo://c","blob":"Aw=="}`, ``},
	}
	since := [...]string{"2025-06-18", "", "2025-03-26", "2025-06-18", "2025-06-18", "2025-06-18", ""}
	for _, version := range []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", ""} {
		var messages []string
		for i, b := range blocks {
			block := b[0]
			if version != "" && version < since[i] {
				block = b[1]
			}
			messages = append(messages, `{"role":"user","content":{`+block+`}}`)
		}
		plus := ""
		if version == "" {
			plus = "+"
		}
		inBubble(t, s, version, func(c *client) {
			c.script("> 1" + plus + ` prompts/get {"name":"all"}` + "\n< 1" + plus + ` {"messages":[` + strings.Join(messages, ",") + `]}`)
		})
	}
}

// An argument completes itself, knows the others that were typed, and sends a
// hundred values at most.
func TestCompletionBelongsToItsArgument(t *testing.T) {
	var many []string
	for i := range 150 {
		many = append(many, strconv.Itoa(i))
	}
	s := &Server{}
	s.AddPrompt(Prompt{Name: "p", Arguments: []Argument{
		{Name: "echo", Complete: func(_ context.Context, typed string, known map[string]string) ([]string, error) {
			return []string{typed, fmt.Sprint(known)}, nil
		}},
		{Name: "many", Complete: words(many...)},
		{Name: "full", Complete: words(many[:100]...)},
		{Name: "none", Complete: words()},
		{Name: "plain"},
		{Name: "burns", Complete: func(context.Context, string, map[string]string) ([]string, error) {
			return nil, errors.New("disk on fire")
		}},
		{Name: "refuses", Complete: func(context.Context, string, map[string]string) ([]string, error) {
			return nil, &Error{Code: 3, Message: "no"}
		}},
		{Name: "panics", Complete: func(context.Context, string, map[string]string) ([]string, error) { panic("secret") }},
	}}, promptOf())
	s.AddResource(Resource{URI: "db://{table}/{+row}", Name: "row", Complete: map[string]CompleteFunc{"row": words("r1", "r2")}}, texts(""))
	s.AddResource(Resource{URI: "db://fixed", Name: "fixed"}, texts(""))

	list := func(values []string, total int, more bool) string {
		quoted, _ := json.Marshal(values)
		return fmt.Sprintf(` {"completion":{"values":%s,"total":%d,"hasMore":%t}}`, quoted, total, more)
	}
	const unknown = "! -32602 Invalid params: there is no such argument to complete"
	prompt := func(arg string) string {
		return `{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"` + arg + `","value":"v"}}`
	}
	ref := func(ref string) string { return `{"ref":` + ref + `,"argument":{"name":"row","value":""}}` }
	for params, want := range map[string]string{
		prompt("echo"): list([]string{"v", "map[]"}, 2, false),
		`{"ref":{"type":"ref/prompt","name":"p","title":"x"},"argument":{"name":"echo","value":""},"context":{"arguments":{"many":"7","other":"x"}}}`: list([]string{"", "map[many:7 other:x]"}, 2, false),
		`{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"echo","value":""},"context":{}}`:                                                 list([]string{"", "map[]"}, 2, false),
		`{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"echo","value":""},"context":{"arguments":null}}`:                                 list([]string{"", "map[]"}, 2, false),
		`{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"echo","value":""},"context":{"arguments":{"many":7}}}`:                           "! -32602 Invalid params: context.arguments: many must be a string, got 7",
		`{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"echo","value":""},"context":{"arguments":{"a":"","a":""}}}`:                      "! -32602 Invalid params: context.arguments: a came twice",
		`{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"echo","value":"","value":""}}`:                                                   "! -32602 Invalid params: argument.value came twice",
		ref(`{"type":"ref/prompt","name":"p","name":"q"}`):                                                                                            "! -32602 Invalid params: ref.name came twice",

		prompt("many"):    list(many[:100], 150, true),
		prompt("full"):    list(many[:100], 100, false),
		prompt("none"):    list([]string{}, 0, false),
		prompt("plain"):   list([]string{}, 0, false),
		prompt("burns"):   "! -32603 disk on fire",
		prompt("refuses"): "! 3 no",
		prompt("panics"):  "! -32603 Internal error",
		prompt("nope"):    unknown,
		ref(`{"type":"ref/prompt","name":"nope"}`):                                                           unknown,
		ref(`{"type":"ref/resource","uri":"db://{table}/{+row}"}`):                                           list([]string{"r1", "r2"}, 2, false),
		ref(`{"type":"ref/resource","uri":"db://users/some/row"}`):                                           list([]string{"r1", "r2"}, 2, false),
		ref(`{"type":"ref/resource","uri":"db://fixed"}`):                                                    unknown,
		ref(`{"type":"ref/resource","uri":"nope://x"}`):                                                      unknown,
		ref(`{"type":"ref/resource","name":"db://{table}/{+row}"}`):                                          unknown,
		ref(`{"type":"ref/tool","name":"p"}`):                                                                "! -32602 Invalid params: ref.type must be ref/prompt or ref/resource",
		ref(`"p"`):                                                                                           `! -32602 Invalid params: ref must be an object, got "p"`,
		`{"ref":{"type":"ref/resource","uri":"db://{table}/{+row}"},"argument":{"name":"table","value":""}}`: list([]string{}, 0, false),
		`{"ref":{"type":"ref/resource","uri":"db://{table}/{+row}"},"argument":{"name":"+row","value":""}}`:  unknown,
		`{"ref":{"type":"ref/prompt","name":"p"}}`:                                                           "! -32602 Invalid params: argument.name and argument.value are required",
		`{"argument":{"name":"echo","value":""}}`:                                                            "! -32602 Invalid params: ref.type must be ref/prompt or ref/resource",
		`{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"echo"}}`:                                "! -32602 Invalid params: argument.name and argument.value are required",
		`{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"echo","value":1}}`:                      "! -32602 Invalid params: argument.value must be a string, got 1",
	} {
		for _, era := range eras {
			plus := era.plus
			if want[0] == '!' {
				plus = ""
			}
			inBubble(t, s, era.version, func(c *client) {
				c.script("> 1" + era.plus + " completion/complete " + params + "\n< 1" + plus + want)
			})
		}
	}
	// 2024-11-05 has the method, but not the capability.
	synctest.Test(t, func(t *testing.T) {
		for version, declared := range map[string]bool{"2024-11-05": false, "2025-03-26": true, "2025-11-25": true} {
			c := serve(t, s)
			c.send(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"` + version + `","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`)
			if got := c.recv(); strings.Contains(got[0], `"completions":{}`) != declared {
				t.Errorf("%s: %s", version, got)
			}
			c.script("> 2 completion/complete " + prompt("none") + "\n< 2" + list([]string{}, 0, false))
			c.end()
		}
	})
	// Without anything to complete there is neither.
	bare := &Server{}
	bare.AddPrompt(Prompt{Name: "p", Arguments: []Argument{{Name: "a"}}}, promptOf())
	bare.AddResource(Resource{URI: "db://{table}", Name: "t"}, texts(""))
	inBubble(t, bare, "2025-11-25", func(c *client) {
		c.script(`
			> 1+ server/discover
			< 1* {"supportedVersions":["2026-07-28"],"capabilities":{"prompts":{"listChanged":true},"resources":{"listChanged":true,"subscribe":true}}}
			> 2+ completion/complete ` + prompt("a") + `
			< 2! -32601 Method not found: completion/complete
			> 3 completion/complete ` + prompt("a") + `
			< 3! -32601 Method not found: completion/complete`)
	})
}

// A completion of the modern era cannot ask: its result has no place for
// questions.
func TestCompletionDoesNotAsk(t *testing.T) {
	s := &Server{}
	s.AddPrompt(Prompt{Name: "p", Arguments: []Argument{{Name: "a", Complete: func(ctx context.Context, _ string, _ map[string]string) ([]string, error) {
		_, err := Roots(ctx, "roots")
		if !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("got %v, want one that is ErrUnsupported", err)
		}
		return nil, err
	}}}}, promptOf())
	inBubble(t, s, "", func(c *client) {
		c.send(`{"jsonrpc":"2.0","id":1,"method":"completion/complete","params":{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"a","value":""},"_meta":{"` + keyVersion + `":"2026-07-28","` + keyCaps + `":{"roots":{}}}}}`)
		if got := c.recv(); len(got) != 1 || !strings.Contains(got[0], `"error":{"code":-32`) {
			t.Errorf("got %q, want an error", got)
		}
	})
}

// ---- what a handler knows of its request ----

func asText(r *Request) string { return fmt.Sprintf("%+q", *r) }

// RequestFrom tells every kind of handler its method, name, id, revision,
// client, capabilities and _meta.
func TestEveryHandlerKnowsItsRequest(t *testing.T) {
	if r := RequestFrom(context.Background()); r != nil {
		t.Errorf("outside: %+v", r)
	}
	s := &Server{}
	var got []*Request
	saw := func(ctx context.Context) { got = append(got, RequestFrom(context.WithoutCancel(ctx))) }
	*doer(s) = saw
	s.AddPrompt(Prompt{Name: "p", Arguments: []Argument{{Name: "a", Complete: func(ctx context.Context, _ string, _ map[string]string) ([]string, error) {
		saw(ctx)
		return nil, nil
	}}}}, func(ctx context.Context, _ map[string]string) ([]Message, error) { saw(ctx); return nil, nil })
	read := func(ctx context.Context, _ string, _ map[string]string) ([]ResourceContents, error) {
		saw(ctx)
		return nil, nil
	}
	s.AddResource(Resource{URI: "x:a", Name: "a"}, read)
	s.AddResource(Resource{URI: "x:{v}", Name: "b"}, read)
	const trace = `"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"`
	methods := []struct{ method, name, params string }{
		{"tools/call", "do", `"name":"do"`}, {"prompts/get", "p", `"name":"p"`}, {"resources/read", "x:a", `"uri":"x:a"`}, {"resources/read", "x:b", `"uri":"x:b"`},
		{"completion/complete", "p", `"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"a","value":""}`},
	}
	ids := []string{`1`, `0`, `-7`, `9007199254740993`, `2.0`, `"1"`, `""`, `"\u0061\"é"`}
	var want []*Request
	inBubble(t, s, "", func(c *client) {
		call := func(id, method, params, meta string) {
			if meta != "" {
				params += `,"_meta":` + meta
			}
			c.send(`{"jsonrpc":"2.0","id":` + id + `,"method":"` + method + `","params":{` + params + `}}`)
			synctest.Wait()
		}
		for _, m := range methods {
			for _, id := range ids {
				const meta = `{"` + keyVersion + `":"2026-07-28","` + keyCaps + `":{"roots":{}},` + trace + `}`
				call(id, m.method, m.params, meta)
				want = append(want, &Request{m.method, m.name, json.RawMessage(id), "2026-07-28", "", "", json.RawMessage(`{"roots":{}}`), json.RawMessage(meta)})
			}
			const meta = `{"` + keyClient + `":{"name":"mod\u0065rn","version":"2","title":"T"},"` + keyVersion + `":"2026-07-28","` + keyCaps + `":{}}`
			call("1", m.method, m.params, meta)
			want = append(want, &Request{m.method, m.name, json.RawMessage("1"), "2026-07-28", "modern", "2", json.RawMessage(`{}`), json.RawMessage(meta)})
		}
		c.recv()
		c.initialize("2025-06-18", `{"sampling":{}}`)
		for _, m := range methods {
			for _, meta := range []string{"", `{` + trace + `,"progressToken":1}`} {
				call("1", m.method, m.params, meta)
				want = append(want, &Request{m.method, m.name, json.RawMessage("1"), "2025-06-18", "c", "1", json.RawMessage(`{"sampling":{}}`), json.RawMessage(meta)})
			}
		}
		c.send(`{"jsonrpc":"2.0","id":2,"method":"ping","params":{"filler":"` + strings.Repeat("x", keepBuffer) + `"}}`) // so that buffers are used again
		c.recv()
	})
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) {
			t.Fatalf("%d requests, want %d", len(got), len(want))
		}
		if len(want[i].Meta) == 0 {
			want[i].Meta = nil
		}
		if !reflect.DeepEqual(got[i], want[i]) {
			t.Errorf("got  %s\nwant %s", asText(got[i]), asText(want[i]))
		}
	}
}

// Whatever a handler writes into its Request, the library's own is untouched.
func TestRequestFromIsACopy(t *testing.T) {
	s := &Server{}
	AddTool(s, Tool{Name: "t", InputSchema: json.RawMessage(`{"type":"object"}`)}, func(ctx context.Context, in json.RawMessage) (string, error) {
		for range 2 {
			r := RequestFrom(ctx)
			for _, b := range []*json.RawMessage{&r.ID, &r.Meta, &r.Capabilities} {
				_ = append(*b, "xxxxxxxx"...)
				for i := range *b {
					(*b)[i] = 'y'
				}
			}
		}
		Progress(ctx, 1, 0, "")
		r := RequestFrom(ctx)
		return fmt.Sprintf("%s %s %s", r.ID, r.Capabilities, requestOf(ctx).arguments), nil
	})
	synctest.Test(t, func(t *testing.T) {
		c := serve(t, s)
		c.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":{"progressToken":7,` + modernMeta + `},"name":"t","arguments":{"a":1}}}`)
		c.want(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":7,"progress":1}}`, modernSaid(1, `1 {} {"a":1}`))
		c.end()
	})
}

// ---- logging and progress ----

// doAt is a call of the tool with a level, which is raw JSON.
func doAt(level string) string {
	return `> {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"do","_meta":{"` + keyLevel + `":` + level + `,"` + keyVersion + `":"2026-07-28","` + keyCaps + `":{}}}}` + "\n"
}

const done = `< {"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","content":[],$SRV}}` + "\n"

func logged(params string) string {
	return `< {"jsonrpc":"2.0","method":"notifications/message","params":{` + params + `}}` + "\n"
}

// inRequest gives a slog.Handler the context of a request.
type inRequest struct {
	slog.Handler
	ctx context.Context
}

func (h inRequest) Enabled(_ context.Context, l slog.Level) bool { return h.Handler.Enabled(h.ctx, l) }
func (h inRequest) Handle(_ context.Context, r slog.Record) error {
	return h.Handler.Handle(h.ctx, r)
}
func (h inRequest) WithAttrs(a []slog.Attr) slog.Handler {
	return inRequest{h.Handler.WithAttrs(a), h.ctx}
}
func (h inRequest) WithGroup(name string) slog.Handler {
	return inRequest{h.Handler.WithGroup(name), h.ctx}
}

// The messages of the protocol have no time. So what slogtest finds amiss must
// be that, and nothing else.
func TestLogHandlerIsASlogHandler(t *testing.T) {
	s := &Server{Logging: true}
	do := doer(s)
	inBubble(t, s, "", func(c *client) {
		begun, release := make(chan context.Context), make(chan struct{})
		*do = func(ctx context.Context) { begun <- ctx; <-release }
		c.talk(doAt(`"debug"`))
		err := slogtest.TestHandler(inRequest{LogHandler("x"), <-begun}, func() (messages []map[string]any) {
			for _, line := range c.recv() {
				var m struct {
					Params struct {
						Level string
						Data  any
					}
				}
				if err := json.Unmarshal([]byte(line), &m); err != nil {
					t.Fatal(err)
				}
				data, ok := m.Params.Data.(map[string]any)
				if !ok { // without attributes it is just the message
					data = map[string]any{slog.MessageKey: m.Params.Data}
				}
				data[slog.LevelKey] = m.Params.Level
				messages = append(messages, data)
			}
			return messages
		})
		for problem := range strings.SplitSeq(fmt.Sprint(err), "\n") {
			if !strings.HasPrefix(problem, `missing key "time"`) {
				t.Error(problem)
			}
		}
		close(release)
		c.talk(done)
	})
}

// Levels of slog become those of the protocol, and only what the client asked
// for is sent.
func TestLogLevelsAreMappedAndHonoured(t *testing.T) {
	s := &Server{Logging: true}
	do := doer(s)
	of := map[slog.Level]string{-8: "debug", -4: "debug", -1: "debug", 0: "info", 1: "info", 2: "notice", 3: "notice", 4: "warning", 7: "warning",
		8: "error", 11: "error", 12: "critical", 15: "critical", 16: "alert", 19: "alert", 20: "emergency", 99: "emergency"}
	ordered := slices.Sorted(maps.Keys(of))
	*do = func(ctx context.Context) {
		l := slog.New(LogHandler(""))
		for _, level := range ordered {
			enabled := l.Enabled(ctx, level)
			before := requestOf(ctx).session.out.added
			if l.Log(ctx, level, "m"); enabled != (requestOf(ctx).session.out.added > before) {
				t.Errorf("%v: enabled: %t, but sent: %t", level, enabled, !enabled)
			}
		}
	}
	from := func(name string) (lines string) {
		for _, level := range ordered {
			if slices.Index(levels[:], of[level]) >= slices.Index(levels[:], name) {
				lines += logged(`"level":"` + of[level] + `","data":"m"`)
			}
		}
		return lines
	}
	inBubble(t, s, "", func(c *client) {
		for _, level := range levels {
			c.talk(doAt(`"`+level+`"`) + from(level) + done)
		}
		for _, bad := range []string{`"loud"`, `"INFO"`, `""`, `3`, `["info"]`, `"` + strings.Repeat("x", 1<<16) + `"`} {
			c.send(strings.TrimPrefix(strings.TrimSpace(doAt(bad)), "> "))
			if got := c.recv(); len(got) != 1 || len(got[0]) > 500 || !strings.Contains(got[0], `"code":-32602,"message":"Invalid log level: `) {
				t.Errorf("level %s: got %s", bad, got)
			}
		}
		c.script("> 1+ tools/call {\"name\":\"do\"}\n< 1+ {\"content\":[]}") // asks for none
	})
	inBubble(t, s, "2025-11-25", func(c *client) {
		const call = "> 1 tools/call {\"name\":\"do\"}\n"
		c.script(call + `< 1 {"content":[]}`)
		for _, level := range []string{"emergency", "warning", "debug"} {
			c.script(`> 2 logging/setLevel {"level":"` + level + `"}` + "\n< 2 {}\n" + call +
				strings.ReplaceAll(strings.ReplaceAll(from(level), `{"jsonrpc":"2.0","method":"notifications/message","params":`, "notifications/message "), "}}", "}") +
				`< 1 {"content":[]}`)
		}
		c.script(`
			> 3 logging/setLevel {"level":"error"}
			< 3 {}
			> 3 logging/setLevel {"level":"loud"}
			< 3! -32602 Invalid log level: loud
			> 3 logging/setLevel {"level":"Debug"}
			< 3! -32602 Invalid log level: Debug
			> 4+ logging/setLevel {"level":"debug"}
			< 4! -32601 Method not found: logging/setLevel`)
		for _, bad := range []string{`{}`, `{"level":3}`, `{"level":null}`, `{"level":["debug"]}`} {
			if got := c.ask("> 3 logging/setLevel " + bad); len(got) != 1 || !strings.Contains(got[0], `"code":-32602`) {
				t.Errorf("%s: got %s", bad, got)
			}
		}
		// None of these has changed it; and a modern request has a level of its own.
		*do = func(ctx context.Context) { slog.New(LogHandler("l")).WarnContext(ctx, "w") }
		c.script(call + `< 1 {"content":[]}`)
		c.talk(doAt(`"info"`) + logged(`"level":"warning","logger":"l","data":"w"`) + done)
	})
}

type valuer struct{ v slog.Value }

func (v valuer) LogValue() slog.Value { return v.v }

type nilError struct{ text string }

func (e *nilError) Error() string { return e.text }

type panicky struct{}

func (panicky) MarshalJSON() ([]byte, error) { panic("oh") }

// A message without attributes is a string, one with them an object, whatever
// its values do.
func TestLogDataIsJSON(t *testing.T) {
	s := &Server{Logging: true}
	do := doer(s)
	group := slog.Group
	for _, test := range []struct {
		name string
		log  func(ctx context.Context, l *slog.Logger)
		want string
	}{
		{"message", func(ctx context.Context, l *slog.Logger) { l.InfoContext(ctx, "a <b> \n") }, `"a <b> \n"`},
		{"empty", func(ctx context.Context, l *slog.Logger) { l.InfoContext(ctx, "") }, `""`},
		{"kinds", func(ctx context.Context, l *slog.Logger) {
			l.InfoContext(ctx, "m", "i", int64(math.MinInt64), "u", uint64(math.MaxUint64), "f", 1.5, "b", true, "s", "x", "n", nil,
				"t", time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC), "d", 1500*time.Millisecond)
		}, `{"msg":"m","i":-9223372036854775808,"u":18446744073709551615,"f":1.5,"b":true,"s":"x","n":null,"t":"2026-01-02T03:04:05.000000006Z","d":1500000000}`},
		{"values", func(ctx context.Context, l *slog.Logger) {
			l.InfoContext(ctx, "m", "struct", struct {
				A int `json:"a"`
			}{1}, "list", []int{1, 2}, "map", map[string]int{"k": 1}, "raw", json.RawMessage(`{"x": 1}`), "bytes", []byte("hi"))
		}, `{"msg":"m","struct":{"a":1},"list":[1,2],"map":{"k":1},"raw":{"x":1},"bytes":"aGk="}`},
		{"errors", func(ctx context.Context, l *slog.Logger) {
			l.InfoContext(ctx, "m", "err", fmt.Errorf("outer: %w", fs.ErrNotExist), "g", slog.GroupValue(slog.Any("err", errors.New("inner"))))
		}, `{"msg":"m","err":"outer: file does not exist","g":{"err":"inner"}}`},
		{"no JSON form", func(ctx context.Context, l *slog.Logger) {
			l.InfoContext(ctx, "m", "nan", math.NaN(), "complex", 1i, "fine", 1, "list", []any{math.Inf(-1)})
		}, `{"msg":"m","nan":"!ERROR:json: unsupported value: NaN","complex":"!ERROR:json: unsupported type: complex128","fine":1,"list":"!ERROR:json: unsupported value: -Inf"}`},
		{"panics", func(ctx context.Context, l *slog.Logger) {
			l.InfoContext(ctx, "m", "fine", 1, "err", (*nilError)(nil), "json", panicky{})
		}, `{"msg":"m","fine":1,"err":"<nil>","json":"!PANIC: oh"}`},
		{"groups", func(ctx context.Context, l *slog.Logger) {
			l.With("a", 1).WithGroup("g").With("b", 2).WithGroup("h").InfoContext(ctx, "m", "c", 3, group("i", "d", 4), group("", "e", 5), group("empty"))
		}, `{"msg":"m","a":1,"g":{"b":2,"h":{"c":3,"i":{"d":4},"e":5}}}`},
		{"empty groups", func(ctx context.Context, l *slog.Logger) {
			l.WithGroup("g").WithGroup("").InfoContext(ctx, "m", group("h", group("i")))
		}, `"m"`},
		{"siblings", func(ctx context.Context, l *slog.Logger) {
			base := l.With("a", 1)
			base.With("b", 2)
			base.With("c", 3).InfoContext(ctx, "m")
		}, `{"msg":"m","a":1,"c":3}`},
		{"LogValuer", func(ctx context.Context, l *slog.Logger) {
			l.With("w", valuer{slog.StringValue("with")}).InfoContext(ctx, "m",
				"v", valuer{slog.IntValue(1)}, "vv", valuer{slog.AnyValue(valuer{slog.DurationValue(time.Second)})},
				"g", valuer{slog.GroupValue(slog.Any("in", valuer{slog.BoolValue(true)}))}, "", valuer{slog.GroupValue(slog.Int("inline", 1))})
		}, `{"msg":"m","w":"with","v":1,"vv":1000000000,"g":{"in":true},"inline":1}`},
		{"nothing", func(ctx context.Context, l *slog.Logger) { l.InfoContext(ctx, "m", slog.Attr{}) }, `"m"`},
		{"names of slog's own", func(ctx context.Context, l *slog.Logger) {
			l.InfoContext(ctx, "m", "level", slog.LevelWarn, "time", "now", "source", "s")
		}, `{"msg":"m","level":"WARN","time":"now","source":"s"}`},
		{"a second message", func(ctx context.Context, l *slog.Logger) {
			l.With("msg", "").InfoContext(ctx, "m", "msg", "mine", group("g", "msg", "inside"))
		}, `{"msg":"m","g":{"msg":"inside"}}`},
	} {
		inBubble(t, s, "", func(c *client) {
			*do = func(ctx context.Context) { test.log(ctx, slog.New(LogHandler("lo\"g"))) }
			c.t.Log(test.name)
			c.talk(doAt(`"info"`) + logged(`"level":"info","logger":"lo\"g","data":`+test.want) + done)
		})
	}
}

// Where nobody listens, logging does nothing, and says so beforehand.
func TestLoggingToNobodyDoesNothing(t *testing.T) {
	l := slog.New(LogHandler("x"))
	silent := func(name string, ctx context.Context) {
		t.Helper()
		if l.Enabled(ctx, slog.LevelError+99) {
			t.Errorf("%s: enabled", name)
		}
		l.ErrorContext(ctx, name)
		if err := l.Handler().Handle(ctx, slog.Record{Level: slog.LevelError, Message: name}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	silent("no request", context.Background())
	off := &Server{}
	do := doer(off)
	*do = func(ctx context.Context) { silent("off", ctx) }
	inBubble(t, off, "2025-11-25", func(c *client) {
		c.talk(doAt(`"debug"`) + done)
		c.script(`
			> 1 tools/call {"name":"do"}
			< 1 {"content":[]}
			> 2 logging/setLevel {"level":"debug"}
			< 2! -32601 Method not found: logging/setLevel
			> 3+ server/discover
			< 3* {"supportedVersions":["2026-07-28"],"capabilities":{"tools":{"listChanged":true}}}`)
	})
	on := &Server{Logging: true}
	do = doer(on)
	inBubble(t, on, "", func(c *client) {
		c.script(`
			> 1+ server/discover
			< 1* {"supportedVersions":["2026-07-28"],"capabilities":{"logging":{},"tools":{"listChanged":true}}}`)
		var late context.Context
		*do = func(ctx context.Context) { late = context.WithoutCancel(ctx) }
		c.talk(doAt(`"debug"`) + done)
		l.ErrorContext(late, "after its end")
		*do = func(ctx context.Context) {
			<-ctx.Done()
			l.ErrorContext(context.WithoutCancel(ctx), "cancelled")
		}
		c.talk(doAt(`"debug"`) + `> {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
		*do = func(ctx context.Context) { l.ErrorContext(late, "of another that had the same id") }
		c.talk(doAt(`"debug"`) + done)
	})
}

// Progress that does not rise, is no number, has no token or comes late is not
// sent.
func TestProgressOnlyRises(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) {
		var kept context.Context
		add(&s.Server, "steps", func(ctx context.Context) (string, error) {
			for _, done := range []float64{-1, 0, 0, math.NaN(), math.Inf(1), math.Inf(-1), 0.5, 0.25, 2, 1e21} {
				Progress(ctx, done, math.NaN(), "")
			}
			kept = context.WithoutCancel(ctx)
			return "done", nil
		})
		c := serveWire(t, &s.Server)
		for _, token := range []string{`7`, `"7"`, `"\u0041 \\"`, `9007199254740993`, `-0`, `7.0`, `""`} {
			c.writes = nil
			c.send(modernCall("1", "steps", `"progressToken":`+token))
			c.recv()
			want := []string{}
			for _, done := range []string{"-1", "0", "0.5", "2", "1e+21"} {
				want = append(want, progressLine(token, done)+"\n") // each in a write of its own, the token verbatim
			}
			if want = append(want, modernSaid("1", "done")+"\n"); !slices.Equal(c.writes, want) {
				t.Errorf("writes: %q\nwant %q", c.writes, want)
			}
		}
		Progress(kept, 1e22, 0, "too late")
		c.send(modernCall("1", "steps")) // no token, no line
		c.want(modernSaid("1", "done"))
		Progress(kept, 1e22, 0, "too late")
		Progress(context.Background(), 1, 0, "not a handler's")
		for _, token := range []string{`1.5`, `true`, `{}`} {
			c.send(modernCall("1", "steps", `"progressToken":`+token))
			if got := c.recv(); len(got) != 1 || !strings.Contains(got[0], "-32602") {
				t.Errorf("token %s: %q", token, got)
			}
		}
		c.end()
	})
	bubble(t, func(t *testing.T, s *stage) { // concurrent callers, some of whom outlive the handler
		add(&s.Server, "crowd", func(ctx context.Context) (string, error) {
			var first sync.WaitGroup
			for i := range 40 {
				f := func() {
					for n := range 20 {
						Progress(ctx, float64(20*n+i), 0, "")
					}
				}
				if i%2 == 0 {
					first.Go(f)
				} else {
					go f()
				}
			}
			first.Wait()
			return "done", nil
		})
		c := serve(t, &s.Server)
		var wg sync.WaitGroup
		for id := range 5 {
			wg.Go(func() { c.send(modernCall(strconv.Itoa(id), "crowd", `"progressToken":`+strconv.Itoa(id))) })
		}
		wg.Wait()
		last, ended := [5]float64{}, [5]bool{}
		form := regexp.MustCompile(`"progressToken":(\d),"progress":(\d+)`)
		for _, line := range c.recv() {
			m := form.FindStringSubmatch(line)
			if m == nil {
				ended[line[len(`{"jsonrpc":"2.0","id":`)]-'0'] = true
				continue
			}
			done, _ := strconv.ParseFloat(m[2], 64)
			if id := m[1][0] - '0'; ended[id] || done <= last[id] && done > 0 {
				t.Errorf("%s after %v, answered: %v", line, last[id], ended[id])
			} else {
				last[id] = done
			}
		}
		if ended != [5]bool{true, true, true, true, true} {
			t.Errorf("answered: %v", ended)
		}
		c.end()
	})
}

// ---- asking ----

const everyCap = `{"elicitation":{"form":{},"url":{}},"sampling":{"tools":{},"context":{}},"roots":{}}`

// An askFunc is a handler that asks; see asker.
type askFunc func(context.Context) (string, error)

// asker returns a server whose tools "ask" and "other", prompts of these
// names, resources ask:a and ask:b, and completion of a prompt all do ask.
func asker(ask askFunc) *Server {
	s := &Server{}
	for _, name := range []string{"ask", "other"} {
		AddTool(s, Tool{Name: name, InputSchema: json.RawMessage(`{"type":"object"}`)}, func(ctx context.Context, _ json.RawMessage) (string, error) {
			return ask(ctx)
		})
		complete := func(ctx context.Context, _ string, _ map[string]string) ([]string, error) {
			text, err := ask(ctx)
			return []string{text}, err
		}
		s.AddPrompt(Prompt{Name: name, Arguments: []Argument{{Name: "a", Complete: complete}}}, func(ctx context.Context, _ map[string]string) ([]Message, error) {
			text, err := ask(ctx)
			return []Message{{Content: Text(text)}}, err
		})
		s.AddResource(Resource{URI: "ask:" + name[:1], Name: name}, func(ctx context.Context, _ string, _ map[string]string) ([]ResourceContents, error) {
			text, err := ask(ctx)
			return []ResourceContents{{Text: text}}, err
		})
	}
	return s
}

// told makes a text of what a verb returned, but leaves alone the errors that
// a handler is to return.
func told(v any, err error) (string, error) {
	var cancelled *CancelledError
	switch {
	case protocolError(err) != nil, errors.Is(err, ErrInputRequired), errors.Is(err, errors.ErrUnsupported):
		return "", err
	case errors.Is(err, ErrDeclined):
		return "declined", nil
	case errors.Is(err, ErrDismissed):
		return "dismissed", nil
	case err == ErrClosed:
		return "closed", nil
	case errors.As(err, &cancelled):
		return "cancelled " + cancelled.Reason, nil
	case err != nil:
		return "error: " + err.Error(), nil
	}
	switch v := v.(type) {
	case string:
		return v, nil
	case json.RawMessage:
		return string(v), nil
	case *SampleResult:
		text := fmt.Sprintf("%s/%s/%s", v.Role, v.Model, v.StopReason)
		for _, c := range v.Content {
			text += fmt.Sprintf(" %s:%s%s%s", c.Type, c.Text, c.MIMEType, c.Data)
			if c.ToolUse != nil {
				text += fmt.Sprintf("%s,%s,%s,%v", c.ToolUse.ID, c.ToolUse.Name, c.ToolUse.Input, c.Meta)
			}
		}
		return text, nil
	}
	return fmt.Sprintf("%+v", v), nil
}

func confirm(ctx context.Context, key string) (bool, error) {
	form, err := Elicit[struct {
		OK bool `json:"ok"`
	}](ctx, key, "Sure?")
	return form.OK, err
}

const (
	confirmForm = `{"type":"object","properties":{"ok":{"type":"boolean"}},"required":["ok"]}`
	confirmAsk  = `{"mode":"form","message":"Sure?","requestedSchema":` + confirmForm + `}`
	confirmYes  = `{"action":"accept","content":{"ok":true}}`
)

func askOnce(ctx context.Context) (string, error) { return told(confirm(ctx, "k")) }

func callTheAsker(id any) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%v,"method":"tools/call","params":{"name":"ask"}}`, id)
}

// modernRequest returns the line of a request of the modern era; more are
// members of its params, each with a comma before it.
func modernRequest(id any, method, params, caps string, more ...string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%v,"method":%q,"params":{%s%s,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":%s}}}`,
		id, method, params, strings.Join(more, ""), caps)
}

func questionLine(id any, method, params string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%v,"method":%q,"params":%s}`, id, method, params)
}

func answer(id any, result string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%v,"result":%s}`, id, result)
}

func withdrawn(id any) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%v,"reason":"no longer needed"}}`, id)
}

const badState = "Invalid or expired requestState"

// round checks that the one line which came answers id with these questions
// and nothing more than belongs to them, and returns the requestState.
func (c *client) round(id any, inputRequests string) string {
	c.t.Helper()
	var m struct {
		Result struct{ RequestState string }
	}
	got := c.recv()
	if len(got) != 1 || json.Unmarshal([]byte(got[0]), &m) != nil || m.Result.RequestState == "" {
		c.t.Fatalf("no questions: %q", got)
	}
	want := fmt.Sprintf(`{"jsonrpc":"2.0","id":%v,"result":{"resultType":"input_required","inputRequests":%s,"requestState":%q,"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"demo","version":"1.0.0"}}}}`,
		id, inputRequests, m.Result.RequestState)
	const each = `{"method":` // a key that comes twice would be hidden otherwise
	if !sameJSON(c.t, got[0], want) || strings.Count(got[0], each) != strings.Count(want, each) {
		c.t.Errorf("got  %s\nwant %s", got[0], want)
	}
	return m.Result.RequestState
}

func formOf[T any](rev revision) string {
	b, err := mustDerive(reflect.TypeFor[T](), "mcp: Elicit", reading).appendForm(nil, rev)
	if errors.Is(err, errors.ErrUnsupported) {
		return "unsupported"
	}
	return strings.TrimSuffix(strings.TrimPrefix(string(b), `{"type":"object","properties":`), "}")
}

// The schema of a form has what the revision allows of it.
func TestFormsAreWhatTheRevisionAllows(t *testing.T) {
	for _, test := range []struct {
		name             string
		form             func(revision) string
		want, in2025June string // the latter where it differs
	}{
		{"nothing", formOf[struct{}], `{}`, ""},
		{"string", formOf[struct {
			A string `json:"a" jsonschema:"who" minLength:"1" maxLength:"9"`
		}], `{"a":{"type":"string","description":"who","minLength":1,"maxLength":9}},"required":["a"]`, ""},
		{"formats", formOf[struct {
			A string    `format:"email"`
			B string    `format:"uri"`
			C string    `format:"date"`
			D time.Time `json:"D,omitzero"`
		}], `{"A":{"type":"string","format":"email"},"B":{"type":"string","format":"uri"},"C":{"type":"string","format":"date"},"D":{"type":"string","format":"date-time"}},"required":["A","B","C"]`, ""},
		{"numbers", formOf[struct {
			A int      `minimum:"-1" maximum:"9"`
			B *float64 `minimum:"0.5"`
			C uint8    `json:",omitempty"`
		}], `{"A":{"type":"integer","minimum":-1,"maximum":9},"B":{"type":"number","minimum":0.5},"C":{"type":"integer","minimum":0,"maximum":255}},"required":["A"]`, ""},
		{"boolean", formOf[struct {
			A bool
			B bool `default:"true"`
		}], `{"A":{"type":"boolean"},"B":{"type":"boolean","default":true}},"required":["A"]`, ""},
		{"choice", formOf[struct {
			A string `enum:"x,y"`
		}], `{"A":{"type":"string","enum":["x","y"]}},"required":["A"]`, ""},
		{"choice with titles", formOf[struct {
			A string `enum:"x,y" titles:"X,\"Y\""`
		}], `{"A":{"type":"string","oneOf":[{"const":"x","title":"X"},{"const":"y","title":"\"Y\""}]}},"required":["A"]`,
			`{"A":{"type":"string","enum":["x","y"],"enumNames":["X","\"Y\""]}},"required":["A"]`},
		{"several", formOf[struct {
			A []string `enum:"x,y" minLength:"1" maxLength:"2" jsonschema:"which"`
		}], `{"A":{"type":"array","description":"which","minItems":1,"maxItems":2,"items":{"type":"string","enum":["x","y"]}}},"required":["A"]`, "unsupported"},
		{"several with titles", formOf[struct {
			A []string `enum:"x,y" titles:"X,Y" default:"[\"x\"]"`
		}], `{"A":{"type":"array","default":["x"],"items":{"anyOf":[{"const":"x","title":"X"},{"const":"y","title":"Y"}]}}}`, "unsupported"},
		{"defaults", formOf[struct {
			A string  `default:"\"x\""`
			B int     `default:"7"`
			C float64 `default:"0.5"`
			D string  `enum:"x,y" default:"y"`
		}], `{"A":{"type":"string","default":"\"x\""},"B":{"type":"integer","default":7},"C":{"type":"number","default":0.5},"D":{"type":"string","default":"y","enum":["x","y"]}}`,
			`{"A":{"type":"string"},"B":{"type":"integer"},"C":{"type":"number"},"D":{"type":"string","enum":["x","y"]}}`},
	} {
		for rev := rev2025_06_18; rev <= newest; rev++ {
			want := test.want
			if rev == rev2025_06_18 && test.in2025June != "" {
				want = test.in2025June
			}
			if got := test.form(rev); got != want {
				t.Errorf("%s in %v:\ngot  %s\nwant %s", test.name, rev, got, want)
			}
		}
	}
}

func elicits[T any]() func() {
	return func() { Elicit[T](context.Background(), "k", "m") }
}

// A type that no form can show panics, naming the field.
func TestFormsThatCannotBeShownPanic(t *testing.T) {
	for _, test := range []struct {
		elicit func()
		names  string // what the panic says
	}{
		{elicits[struct{ Deep struct{ B int } }](), "Deep"},
		{elicits[struct{ Bytes []byte }](), "Bytes"},
		{elicits[struct{ Map map[string]string }](), "Map"},
		{elicits[struct{ Free []string }](), "Free"},
		{elicits[struct {
			Nums []int
		}](), "Nums"},
		{elicits[struct{ Any any }](), "Any"},
		{elicits[struct {
			Short string `enum:"x,y" titles:"X"`
		}](), "Short"},
		{elicits[struct {
			Odd string `format:"phone"`
		}](), "Odd"},
		{elicits[struct {
			Preset int `default:"x"`
		}](), "Preset"},
		{func() { // in a revision without choices of several, too
			formOf[struct {
				A    []string `enum:"x,y"`
				Deep struct{ B int }
			}](rev2025_06_18)
		}, "Deep"},
		{elicits[string](), "struct"},
		{elicits[[]string](), "struct"},
		{elicits[map[string]string](), "struct"},
		{elicits[time.Time](), "struct"},
		{elicits[struct{ Fine string }](), ""},
	} {
		func() {
			defer func() {
				r := recover()
				if (r != nil) != (test.names != "") || !strings.Contains(fmt.Sprint(r), test.names) {
					t.Errorf("want a panic that says %q, got %v", test.names, r)
				}
			}()
			test.elicit()
		}()
	}
}

// An asked is a question, as it is on the wire in both eras, and its answer.
type asked struct{ key, method, params, answer string }

type trip struct {
	City  string   `json:"city" minLength:"2"`
	Days  int      `json:"days,omitempty" minimum:"1"`
	Class string   `json:"class" enum:"a,b" default:"a"`
	Extra []string `json:"extra,omitempty" enum:"x,y"`
}

const tripAsk = `{"mode":"form","message":"Where \"to\"?\n","requestedSchema":{"type":"object","properties":{"city":{"type":"string","minLength":2},` +
	`"days":{"type":"integer","minimum":1},"class":{"type":"string","default":"a","enum":["a","b"]},"extra":{"type":"array","items":{"type":"string","enum":["x","y"]}}},"required":["city"]}}`

func askTrip(ctx context.Context) (string, error) {
	return told(Elicit[trip](ctx, "k", "Where \"to\"?\n"))
}

func askByHand(ctx context.Context) (string, error) {
	return told(ElicitSchema(ctx, "k", "?", json.RawMessage("{ \"type\":\"object\",\n\"properties\" : {} }")))
}

func askURL(ctx context.Context) (string, error) {
	return told("agreed", ElicitURL(ctx, "k", "Log in", "https://x/?a=1&b=2"))
}

func askRoots(ctx context.Context) (string, error) { return told(Roots(ctx, "k")) }

func askModel(req SampleRequest) askFunc {
	return func(ctx context.Context) (string, error) { return told(Sample(ctx, "k", req)) }
}

func sampleOf(c ...Content) SampleRequest {
	return SampleRequest{MaxTokens: 9, Messages: []SampleMessage{{Content: c}}}
}

const (
	byHandAsk = `{"mode":"form","message":"?","requestedSchema":{"type":"object","properties":{}}}`
	urlAsk    = `{"mode":"url","message":"Log in","url":"https://x/?a=1&b=2"}`
	hiAsk     = `{"messages":[{"role":"user","content":{"type":"text","text":"hi"}}],"maxTokens":9}`
	hiAnswer  = `{"role":"assistant","content":{"type":"text","text":"yo"},"model":"m","stopReason":"endTurn","_meta":{"x":1},"more":[]}`
)

var lookUpTool = Tool{Name: "look", Description: "Looks.", InputSchema: SchemaOf[struct{ Q string }]()}

const lookUpWire = `"tools":[{"name":"look","description":"Looks.","inputSchema":{"type":"object","properties":{"Q":{"type":"string"}},"required":["Q"],"additionalProperties":false}}]`

// One handler, both eras: what is asked, what is answered, what comes of it.
func TestAskingIsOneStraightLineInBothEras(t *testing.T) {
	const create, sample = "elicitation/create", "sampling/createMessage"
	temperature := 0.5
	one := func(ask askFunc, method, params, answer, want string) func() (askFunc, [][]asked, string) {
		return func() (askFunc, [][]asked, string) {
			return ask, [][]asked{{{"k", method, params, answer}}}, want
		}
	}
	form := func(answer, want string) func() (askFunc, [][]asked, string) {
		return one(askTrip, create, tripAsk, answer, want)
	}
	model := func(req SampleRequest, params, answer, want string) func() (askFunc, [][]asked, string) {
		return one(askModel(req), sample, params, answer, want)
	}
	yes := asked{"k", create, confirmAsk, confirmYes}
	keyed := func(a asked, key string) asked { a.key = key; return a }

	for name, test := range map[string]func() (askFunc, [][]asked, string){
		"no question": func() (askFunc, [][]asked, string) {
			return func(context.Context) (string, error) { return "x", nil }, nil, "x"
		},
		"accept":           form(`{"action":"accept","content":{"city":"Rome","days":2,"class":"b","extra":["y","x"]}}`, "{City:Rome Days:2 Class:b Extra:[y x]}"),
		"member unknown":   form(`{"action":"accept","content":{"city":"Rome","days":2,"class":"b","extra":["y","x"],"at":"noon"}}`, "{City:Rome Days:2 Class:b Extra:[y x]}"), // as the form allows
		"number as text":   form(`{"action":"accept","content":{"city":"Rome","days":"2"}}`, "{City:Rome Days:2 Class:a Extra:[]}"),
		"default":          form(`{"action":"accept","content":{"city":"Rome","days":null}}`, "{City:Rome Days:0 Class:a Extra:[]}"),
		"decline":          form(`{"action":"decline","content":{}}`, "declined"),
		"cancel":           form(`{"action":"cancel"}`, "dismissed"),
		"form too short":   form(`{"action":"accept","content":{"city":"R","days":0,"extra":["z"]}}`, `error: mcp: the user's answer: city must have at least 2 characters, got 1; days must be at least 1, got 0; extra[0] must be one of x, y, got "z"`),
		"form of no type":  form(`{"action":"accept","content":{"city":5}}`, "error: mcp: the user's answer: city must be a string, got 5"),
		"no content":       form(`{"action":"accept"}`, "error: mcp: the user's answer: city is required"),
		"content null":     form(`{"action":"accept","content":null}`, "error: mcp: the user's answer: city is required"),
		"content no form":  form(`{"action":"accept","content":"Rome"}`, "error: mcp: elicitation/create: the client's answer makes no sense: "+`content must be an object, got "Rome"`),
		"no such action":   form(`{"action":"Accept"}`, "error: mcp: elicitation/create: the client's answer makes no sense: "+`action must be accept, decline or cancel, got "Accept"`),
		"action no string": form(`{"action":5}`, "error: mcp: elicitation/create: the client's answer makes no sense: action must be a string, got 5"),
		"two actions":      form(`{"action":"decline","action":"cancel"}`, "error: mcp: elicitation/create: the client's answer makes no sense: action came twice"),
		"no action":        form(`{}`, "error: mcp: elicitation/create: the client's answer makes no sense: "+`action must be accept, decline or cancel, got ""`),

		"by hand":            one(askByHand, create, byHandAsk, `{"action":"accept","content":{"x":[1]}}`, `{"x":[1]}`),
		"by hand declined":   one(askByHand, create, byHandAsk, `{"action":"decline"}`, "declined"),
		"by hand no content": one(askByHand, create, byHandAsk, `{"action":"accept"}`, "{}"),
		"url":                one(askURL, create, urlAsk, `{"action":"accept"}`, "agreed"),
		"url declined":       one(askURL, create, urlAsk, `{"action":"decline"}`, "declined"),
		"url dismissed":      one(askURL, create, urlAsk, `{"action":"cancel"}`, "dismissed"),
		"bad schema": func() (askFunc, [][]asked, string) {
			return func(ctx context.Context) (string, error) {
				return told(ElicitSchema(ctx, "k", "?", json.RawMessage(`{"type":`)))
			}, nil, `error: mcp: ElicitSchema: not valid JSON: "{\"type\":"`
		},

		"roots":         one(askRoots, "roots/list", `{}`, `{"roots":[{"uri":"file:///a","name":"A","_meta":{}},{"uri":"file:///b"}],"_meta":{}}`, "[{URI:file:///a Name:A} {URI:file:///b Name:}]"),
		"no root":       one(askRoots, "roots/list", `{}`, `{"roots":[]}`, "[]"),
		"roots missing": one(askRoots, "roots/list", `{}`, `{}`, "error: mcp: roots/list: the client's answer makes no sense: it has no roots"),
		"roots no list": one(askRoots, "roots/list", `{}`, `{"roots":{}}`, "error: mcp: roots/list: the client's answer makes no sense: roots must be an array, got {}"),

		"text":  model(sampleOf(Text("hi")), hiAsk, hiAnswer, "assistant/m/endTurn text:yo"),
		"image": model(sampleOf(Image([]byte("abc"), "image/png")), `{"messages":[{"role":"user","content":{"type":"image","data":"YWJj","mimeType":"image/png"}}],"maxTokens":9}`, `{"role":"assistant","content":{"type":"image","data":"YWJj","mimeType":"image/gif"},"model":"m"}`, "assistant/m/ image:image/gifabc"),
		"audio": model(sampleOf(Audio([]byte("abc"), "audio/wav")), `{"messages":[{"role":"user","content":{"type":"audio","data":"YWJj","mimeType":"audio/wav"}}],"maxTokens":9}`, `{"role":"assistant","content":[{"type":"audio","data":"YWJj","mimeType":"audio/ogg"},{"type":"text","text":"!"}],"model":"m"}`, "assistant/m/ audio:audio/oggabc text:!"),
		"several blocks": model(sampleOf(Text("a"), Text("b")), `{"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}],"maxTokens":9}`,
			`{"role":"assistant","content":[],"model":"m"}`, "assistant/m/"),
		"everything": model(SampleRequest{Messages: []SampleMessage{{Content: []Content{Text("hi")}}, {Role: "assistant", Content: []Content{Text("yo")}}, {Content: []Content{Text("so")}}},
			MaxTokens: 9, SystemPrompt: "be <brief>", Temperature: &temperature, StopSequences: []string{"\n", "."}, IncludeContext: "thisServer",
			ModelPreferences: json.RawMessage(`{"hints":[{"name":"x"}], "costPriority":0.3}`)},
			`{"messages":[{"role":"user","content":{"type":"text","text":"hi"}},{"role":"assistant","content":{"type":"text","text":"yo"}},{"role":"user","content":{"type":"text","text":"so"}}],"maxTokens":9,"systemPrompt":"be <brief>","temperature":0.5,"stopSequences":["\n","."],"includeContext":"thisServer","modelPreferences":{"hints":[{"name":"x"}],"costPriority":0.3}}`,
			hiAnswer, "assistant/m/endTurn text:yo"),
		"tools": model(SampleRequest{Messages: sampleOf(Text("hi")).Messages, MaxTokens: 9, Tools: []Tool{lookUpTool}, ToolChoice: "required"},
			strings.TrimSuffix(hiAsk, "}")+`,`+lookUpWire+`,"toolChoice":{"mode":"required"}}`,
			`{"role":"assistant","content":[{"type":"text","text":"hm"},{"type":"tool_use","id":"1","name":"look","input":{"Q":"x"},"_meta":{"cache":"c"}}],"model":"m","stopReason":"toolUse"}`, `assistant/m/toolUse text:hm tool_use:1,look,{"Q":"x"},map[cache:c]`),
		"tool results": model(SampleRequest{MaxTokens: 9, Tools: []Tool{lookUpTool}, Messages: []SampleMessage{{Content: []Content{Text("hi")}},
			{Role: "assistant", Content: []Content{{Type: "tool_use", ToolUse: &ToolUse{ID: "1", Name: "look", Input: json.RawMessage(`{"Q":"x"}`)}, Meta: map[string]any{"cache": "c"}}}},
			{Content: []Content{{Type: "tool_result", ToolResult: &ToolResult{ID: "1", Result: Result{Content: []Content{Text("no")}, IsError: true, Meta: map[string]any{"k": 1}}}}}}}},
			`{"messages":[{"role":"user","content":{"type":"text","text":"hi"}},{"role":"assistant","content":{"type":"tool_use","id":"1","name":"look","input":{"Q":"x"},"_meta":{"cache":"c"}}},`+
				`{"role":"user","content":{"type":"tool_result","toolUseId":"1","content":[{"type":"text","text":"no"}],"isError":true,"_meta":{"k":1}}}],"maxTokens":9,`+lookUpWire+`}`, hiAnswer, "assistant/m/endTurn text:yo"),
		"model says nothing": model(sampleOf(Text("hi")), hiAsk, `{}`, "error: mcp: sampling/createMessage: the client's answer makes no sense: content is required"),
		"model says null":    model(sampleOf(Text("hi")), hiAsk, `{"role":"assistant","content":null,"model":"m"}`, "error: mcp: sampling/createMessage: the client's answer makes no sense: content is required"),
		"model says 5":       model(sampleOf(Text("hi")), hiAsk, `{"role":"assistant","content":[5],"model":"m"}`, "error: mcp: sampling/createMessage: the client's answer makes no sense: content: [0] must be an object, got 5"),
		"model is no string": model(sampleOf(Text("hi")), hiAsk, `{"role":"assistant","content":{"type":"text","text":"x"},"model":5}`, "error: mcp: sampling/createMessage: the client's answer makes no sense: model must be a string, got 5"),
		"model has no bytes": model(sampleOf(Text("hi")), hiAsk, `{"role":"assistant","content":{"type":"image","data":"?"},"model":"m"}`, "error: mcp: sampling/createMessage: the client's answer makes no sense: content: [0].data must be base64"),
		"bad preferences": func() (askFunc, [][]asked, string) {
			return askModel(SampleRequest{ModelPreferences: json.RawMessage(`{`)}), nil, `error: mcp: Sample: json: error calling MarshalJSON for type json.RawMessage: unexpected end of JSON input`
		},
		"bad content": func() (askFunc, [][]asked, string) {
			return askModel(sampleOf(Content{Type: "tool_use"})), nil, `error: mcp: Sample: content of type "tool_use" lacks what belongs to it`
		},
		"content that is none of a model's": func() (askFunc, [][]asked, string) {
			return askModel(sampleOf(ResourceLink(Resource{URI: "a:b", Name: "b"}))), nil, `error: mcp: Sample: content of type "resource_link" is not for a conversation`
		},

		"three rounds": func() (askFunc, [][]asked, string) {
			return func(ctx context.Context) (string, error) {
				n := 0
				for _, key := range []string{"a", "b", "c"} {
					ok, err := confirm(ctx, key)
					if err != nil && !errors.Is(err, ErrDeclined) {
						return "", err
					}
					if n *= 2; ok {
						n++
					}
				}
				return strconv.Itoa(n), nil
			}, [][]asked{{keyed(yes, "a")}, {{"b", create, confirmAsk, `{"action":"decline"}`}}, {keyed(yes, "c")}}, "5"
		},
		"several at once": func() (askFunc, [][]asked, string) {
			return func(ctx context.Context) (string, error) {
				ok, err := confirm(ctx, "a \"<>")
				roots, err2 := Roots(ctx, "b")
				said, err3 := Sample(ctx, "", sampleOf(Text("hi")))
				if err := errors.Join(err, err2, err3); err != nil {
					return "", fmt.Errorf("not yet: %w", err)
				}
				last, err := confirm(ctx, "last")
				return fmt.Sprintf("%v %v %v %v", ok, len(roots), said.Model, last), err
			}, [][]asked{{keyed(yes, "a \"<>"), {"b", "roots/list", `{}`, `{"roots":[]}`}, {"", sample, hiAsk, hiAnswer}}, {keyed(yes, "last")}}, "true 0 m true"
		},
	} {
		t.Run(name, func(t *testing.T) {
			ask, rounds, want := test()
			mint := regexp.MustCompile(`,"elicitationId":"[0-9a-z]{8,}"`)
			synctest.Test(t, func(t *testing.T) {
				c := serve(t, asker(ask))
				c.initialize("2025-11-25", everyCap)
				c.send(callTheAsker("1"))
				for i, q := range slices.Concat(rounds...) {
					got := c.recv()
					if len(got) != 1 {
						t.Fatalf("question %d: got %q", i, got)
					}
					url := strings.Contains(q.params, `"mode":"url"`)
					if bare := mint.ReplaceAllString(got[0], ""); (bare != got[0]) != url || !sameJSON(t, bare, questionLine(i+1, q.method, q.params)) {
						t.Errorf("got  %s\nwant %s", got[0], questionLine(i+1, q.method, q.params))
					}
					c.send(answer(i+1, q.answer))
				}
				c.want(said(1, want))
				c.end()
			})
			synctest.Test(t, func(t *testing.T) {
				c := serve(t, asker(ask))
				more := ""
				for i, round := range rounds {
					c.send(modernRequest(i, "tools/call", `"name":"ask","arguments":{}`, everyCap, more))
					inputs, answers := "", ""
					for _, q := range round {
						inputs += fmt.Sprintf(`,%q:{"method":%q,"params":%s}`, q.key, q.method, q.params)
						answers += fmt.Sprintf(`,%q:%s`, q.key, q.answer)
					}
					state := c.round(i, "{"+inputs[1:]+"}")
					more = fmt.Sprintf(`,"inputResponses":{%s},"requestState":%q`, answers[1:], state)
				}
				c.send(modernRequest(`"last"`, "tools/call", `"name":"ask","arguments":{}`, everyCap, more))
				c.want(modernSaid(`"last"`, want))
				c.end()
			})
		})
	}
}

// What a client has not declared is not asked for; what it is asked has the
// form of its revision.
func TestOnlyWhatTheClientDeclaredIsAsked(t *testing.T) {
	const (
		create, sample = "elicitation/create", "sampling/createMessage"
		formJune       = `{"message":"Sure?","requestedSchema":` + confirmForm + `}`
		noise          = `[audio, audio/wav, 3 bytes]`
	)
	with := func(f func(*SampleRequest)) askFunc {
		r := sampleOf(Text("hi"))
		f(&r)
		return askModel(r)
	}
	tools := with(func(r *SampleRequest) { r.Tools = []Tool{lookUpTool} })
	context_ := with(func(r *SampleRequest) { r.IncludeContext = "allServers" })
	both := with(func(r *SampleRequest) { r.Tools, r.IncludeContext = []Tool{lookUpTool}, "thisServer" })
	choice := with(func(r *SampleRequest) { r.ToolChoice = "none" })
	two := askModel(sampleOf(Text("a"), Text("b")))
	results := askModel(sampleOf(Content{Type: "tool_result", ToolResult: &ToolResult{ID: "1"}}))
	bodyOf := func(more string) string { return strings.TrimSuffix(hiAsk, "}") + more + "}" }

	for i, test := range []struct {
		version, caps string
		ask           askFunc
		method        string // "" if it is not asked
		params        string // what is asked, or what the error says is missing; "" is any
	}{
		{"2024-11-05", `{"elicitation":{}}`, askOnce, "", ""},
		{"2025-03-26", `{"elicitation":{"form":{},"url":{}}}`, askOnce, "", ""},
		{"2025-03-26", `{"elicitation":{"url":{}}}`, askURL, "", ""},
		{"2025-06-18", `{"elicitation":{}}`, askOnce, create, formJune},
		{"2025-06-18", `{"elicitation":{"url":{}}}`, askOnce, create, formJune},
		{"2025-06-18", `{"elicitation":{"form":{},"url":{}}}`, askURL, "", ""},
		{"2025-06-18", `{"elicitation":{}}`, askTrip, "", ""}, // has a choice of several
		{"2025-06-18", `{}`, askOnce, "", ""},
		{"2025-11-25", `{}`, askOnce, "", ""},
		{"2025-11-25", `{"elicitation":true}`, askOnce, "", ""},
		{"2025-11-25", `{"elicitation":{}}`, askOnce, create, confirmAsk},
		{"2025-11-25", `{"elicitation":{"form":{}}}`, askOnce, create, confirmAsk},
		{"2025-11-25", `{"elicitation":{"url":{}}}`, askOnce, "", ""},
		{"2025-11-25", `{"elicitation":{}}`, askURL, "", ""},
		{"2025-11-25", `{"elicitation":{"form":{}}}`, askURL, "", ""},
		{"2025-11-25", `{"elicitation":{"url":{}}}`, askURL, create, ""},
		{"2026-07-28", `{}`, askOnce, "", `{"elicitation":{}}`},
		{"2026-07-28", `{"elicitation":{}}`, askOnce, create, confirmAsk},
		{"2026-07-28", `{"elicitation":{"url":{}}}`, askOnce, "", `{"elicitation":{"form":{}}}`},
		{"2026-07-28", `{"elicitation":{"form":{}}}`, askURL, "", `{"elicitation":{"url":{}}}`},
		{"2026-07-28", `{"elicitation":{"url":{}}}`, askURL, create, urlAsk},

		{"2024-11-05", `{}`, askRoots, "", ""},
		{"2024-11-05", `{"roots":{"listChanged":true}}`, askRoots, "roots/list", `{}`},
		{"2026-07-28", `{}`, askRoots, "", `{"roots":{}}`},
		{"2026-07-28", `{"roots":{}}`, askRoots, "roots/list", `{}`},

		{"2024-11-05", `{"roots":{}}`, askModel(sampleOf(Text("hi"))), "", ""},
		{"2024-11-05", `{"sampling":{}}`, askModel(sampleOf(Text("hi"))), sample, hiAsk},
		{"2024-11-05", `{"sampling":{}}`, askModel(sampleOf(Audio([]byte("abc"), "audio/wav"))), sample, strings.Replace(hiAsk, "hi", noise, 1)},
		{"2024-11-05", `{"sampling":{}}`, context_, sample, bodyOf(`,"includeContext":"allServers"`)},
		{"2025-06-18", `{"sampling":{"tools":{}}}`, tools, "", ""},
		{"2025-06-18", `{"sampling":{"tools":{}}}`, two, "", ""},
		{"2025-06-18", `{"sampling":{"tools":{}}}`, results, "", ""},
		{"2025-11-25", `{"sampling":{}}`, two, sample, ""},
		{"2025-11-25", `{"sampling":{}}`, tools, "", ""},
		{"2025-11-25", `{"sampling":{}}`, choice, "", ""},
		{"2025-11-25", `{"sampling":{}}`, results, "", ""},
		{"2025-11-25", `{"sampling":{"tools":{}}}`, results, sample, ""},
		{"2025-11-25", `{"sampling":{"tools":{}}}`, tools, sample, bodyOf(`,` + lookUpWire)},
		{"2025-11-25", `{"sampling":{}}`, context_, "", ""},
		{"2025-11-25", `{"sampling":{}}`, with(func(r *SampleRequest) { r.IncludeContext = "none" }), sample, bodyOf(`,"includeContext":"none"`)},
		{"2025-11-25", `{"sampling":{"context":{}}}`, context_, sample, bodyOf(`,"includeContext":"allServers"`)},
		{"2025-11-25", `{"sampling":{"context":{}}}`, both, "", ""},
		{"2025-11-25", `{"sampling":{"tools":{}}}`, both, "", ""},
		{"2026-07-28", `{}`, askModel(sampleOf(Text("hi"))), "", `{"sampling":{}}`},
		{"2026-07-28", `{"sampling":{}}`, tools, "", `{"sampling":{"tools":{}}}`},
		{"2026-07-28", `{"sampling":{}}`, context_, "", `{"sampling":{"context":{}}}`},
		{"2026-07-28", `{"sampling":{"tools":{}}}`, both, "", `{"sampling":{"context":{}}}`},
		{"2026-07-28", `{"sampling":{"tools":{},"context":{}}}`, both, sample, ""},
	} {
		t.Run(fmt.Sprint(i, test.version, test.caps), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var got error
				c := serve(t, asker(func(ctx context.Context) (string, error) {
					text, err := test.ask(ctx)
					got = err
					return text, err
				}))
				eraLine := modernRequest(1, "tools/call", `"name":"ask"`, test.caps)
				if test.version != "2026-07-28" {
					c.initialize(test.version, test.caps)
					eraLine = callTheAsker(1)
				}
				c.send(eraLine)
				lines := c.recv()
				if len(lines) != 1 {
					t.Fatalf("got %q", lines)
				}
				var m struct {
					Method string
					Params json.RawMessage
					Error  struct {
						Code int
						Data struct{ RequiredCapabilities json.RawMessage }
					}
					Result struct {
						IsError       bool
						InputRequests map[string]struct {
							Method string
							Params json.RawMessage
						}
					}
				}
				json.Unmarshal([]byte(lines[0]), &m)
				params := m.Params
				switch k, modernly := m.Result.InputRequests["k"]; {
				case modernly:
					m.Method, params = k.Method, k.Params
				case test.method == "" && (!errors.Is(got, errors.ErrUnsupported) || m.Result.IsError == (m.Error.Code == codeCapability)):
					t.Errorf("want that to be unsupported, got %v: %s", got, lines[0])
				case m.Error.Code != 0:
					params = m.Error.Data.RequiredCapabilities
				}
				if m.Method != test.method || test.params != "" && !sameJSON(t, string(params), test.params) {
					t.Errorf("got  %s\nwant %s %s", lines[0], test.method, test.params)
				}
				if m.Method != "" && test.version != "2026-07-28" {
					c.send(`{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"no"}}`)
					c.want(said(1, "error: mcp: the client answered with an error: no (-1)"))
				}
				c.end()
			})
		})
	}
}

// Handlers of all kinds may ask, but a completion of the modern era has no way
// to; and codes of one era stay there.
func TestHandlersOfAllKindsMayAsk(t *testing.T) {
	const complete = `"ref":{"type":"ref/prompt","name":"ask"},"argument":{"name":"a","value":""}`
	const asks = `{"k":{"method":"elicitation/create","params":` + confirmAsk + `}}`
	results := map[string]string{
		"tools/call":          `"content":[{"type":"text","text":"true"}]`,
		"prompts/get":         `"messages":[{"role":"user","content":{"type":"text","text":"true"}}]`,
		"resources/read":      `"contents":[{"uri":"ask:a","text":"true"}]`,
		"completion/complete": `"completion":{"values":["true"],"total":1,"hasMore":false}`,
	}
	for method, params := range map[string]string{"tools/call": `"name":"ask"`, "prompts/get": `"name":"ask"`, "resources/read": `"uri":"ask:a"`, "completion/complete": complete} {
		t.Run(method, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := serve(t, asker(askOnce))
				c.send(modernRequest(1, method, params, everyCap))
				if method == "completion/complete" {
					c.want(wrong(1, codeInternal, "mcp: completion/complete cannot ask the client: unsupported operation"))
					c.send(modernRequest(2, method, params, everyCap, `,"inputResponses":{"k":`+confirmYes+`},"requestState":"x"`))
					c.want(wrong(2, codeInternal, "mcp: completion/complete cannot ask the client: unsupported operation"))
				} else {
					state := c.round(1, asks)
					c.send(modernRequest(2, method, params, everyCap, `,"inputResponses":{"k":`+confirmYes+`},"requestState":"`+state+`"`))
					cache := ""
					if method == "resources/read" {
						cache = `"ttlMs":0,"cacheScope":"private",`
					}
					c.talk(`< {"jsonrpc":"2.0","id":2,"result":{"resultType":"complete",` + results[method] + `,` + cache + `$SRV}}`)
					c.send(modernRequest(3, method, params, `{}`))
					c.want(`{"jsonrpc":"2.0","id":3,"error":{"code":-32021,"message":"This request needs the elicitation capability, which this client does not have","data":{"requiredCapabilities":{"elicitation":{}}}}}`)
				}
				c.initialize("2025-11-25", `{"elicitation":{}}`)
				c.send(`{"jsonrpc":"2.0","id":4,"method":"` + method + `","params":{` + params + `}}`)
				c.want(questionLine(1, "elicitation/create", confirmAsk))
				c.send(answer(1, confirmYes))
				c.want(answer(4, `{`+results[method]+`}`))
				c.end()
			})
			synctest.Test(t, func(t *testing.T) {
				c := serve(t, asker(askOnce))
				c.initialize("2025-11-25", `{}`)
				c.send(`{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{` + params + `}}`)
				if method == "tools/call" {
					c.want(answer(1, `{"content":[{"type":"text","text":"This request needs the elicitation capability, which this client does not have"}],"isError":true}`))
				} else {
					c.want(wrong(1, codeInternal, "This request needs the elicitation capability, which this client does not have"))
				}
				c.end()
			})
		})
	}
}

// {"action":"accept"} without content is a form without fields, and grants
// nothing that has a default of false.
func TestAcceptWithoutContentIsAFormWithoutFields(t *testing.T) {
	s := &Server{}
	add(s, "typed", func(ctx context.Context) (string, error) {
		_, err := Elicit[struct{}](ctx, "k", "m")
		return "accepted", err
	})
	add(s, "byhand", func(ctx context.Context) (string, error) {
		raw, err := ElicitSchema(ctx, "k", "m", json.RawMessage(`{"type":"object","properties":{}}`))
		return string(raw), err
	})
	add(s, "consent", func(ctx context.Context) (string, error) {
		form, err := Elicit[struct {
			Sure bool `json:"sure" default:"false"`
		}](ctx, "k", "m")
		return strconv.FormatBool(form.Sure), err
	})
	const caps = `{"elicitation":{}}`
	for tool, want := range map[string]string{"typed": "accepted", "byhand": "{}", "consent": "false"} {
		for _, answer := range []string{`{"action":"accept"}`, `{"action":"accept","content":null}`, `{"action":"accept","content":{}}`} {
			synctest.Test(t, func(t *testing.T) {
				c := serve(t, s)
				c.send(modernRequest(1, "tools/call", `"name":"`+tool+`"`, caps, `,"inputResponses":{"k":`+answer+`}`))
				c.want(modernSaid(1, want))
				c.initialize(legacyPV, caps)
				c.send(call("2", tool, "{}"))
				c.recv()
				c.send(`{"jsonrpc":"2.0","id":1,"result":` + answer + `}`)
				c.want(said("2", want))
				c.end()
			})
		}
	}
}

// Sample with a tool that has no schema returns an error, and does not panic.
func TestSampleWithAToolWithoutSchemaIsAnError(t *testing.T) {
	s := &Server{}
	var tool Tool
	add(s, "t", func(ctx context.Context) (string, error) {
		_, err := Sample(ctx, "k", SampleRequest{MaxTokens: 1, Tools: []Tool{tool}})
		return "", err
	})
	for _, bad := range []struct {
		tool Tool
		want string
	}{
		{Tool{Name: "x"}, `mcp: Sample: tool "x": InputSchema must be set, and a schema must be a JSON object`},
		{Tool{Name: "x", InputSchema: json.RawMessage(`[]`)}, `mcp: Sample: tool "x": InputSchema must be set, and a schema must be a JSON object`},
		{Tool{Name: "no name", InputSchema: json.RawMessage(`{`)}, `mcp: Sample: tool "no name": InputSchema must be set, and a schema must be a JSON object`},
	} {
		tool = bad.tool
		synctest.Test(t, func(t *testing.T) {
			c := serve(t, s)
			c.initialize(legacyPV, `{"sampling":{"tools":{}}}`)
			c.send(call("1", "t", "{}"))
			c.want(failed("1", bad.want))
			c.end()
		})
	}
}

// The model is told in plain words what this client lacks.
func TestAClientThatCannotAskIsSaidToBeSo(t *testing.T) {
	s := &Server{}
	add(s, "form", func(ctx context.Context) (string, error) {
		_, err := Elicit[struct{}](ctx, "k", "m")
		return "", err
	})
	add(s, "page", func(ctx context.Context) (string, error) { return "", ElicitURL(ctx, "k", "m", "https://x") })
	add(s, "model", func(ctx context.Context) (string, error) {
		_, err := Sample(ctx, "k", SampleRequest{MaxTokens: 1})
		return "", err
	})
	play(t, s, legacyPV, `
		> `+call("1", "form", "{}")+`
		< `+failed("1", "This request needs the elicitation capability, which this client does not have")+`
		> `+call("2", "page", "{}")+`
		< `+failed("2", "This request needs the elicitation.url capability, which this client does not have")+`
		> `+call("3", "model", "{}")+`
		< `+failed("3", "This request needs the sampling capability, which this client does not have"))
}

// A Root without a name marshals without one.
func TestRootWithoutANameHasNone(t *testing.T) {
	raw, err := json.Marshal([]Root{{URI: "file:///a"}, {URI: "file:///b", Name: "B"}})
	if want := `[{"uri":"file:///a"},{"uri":"file:///b","name":"B"}]`; err != nil || string(raw) != want {
		t.Errorf("got %s, %v", raw, err)
	}
}

// ---- rounds of the modern era ----

// callOf is a call of a tool, of which only a requestState knows.
func callOf(s *Server, tool, arguments string) *request {
	c := &session{srv: s}
	s.addSession(c) // the first one makes the seed
	s.removeSession(c)
	return &request{session: c, method: []byte("tools/call"), name: tool, params: params{arguments: []byte(arguments)}}
}

// Each round asks for what has no answer yet, and nothing is kept between
// rounds.
func TestRoundsAskForWhatIsMissing(t *testing.T) {
	ask := func(ctx context.Context) (string, error) {
		_, err := confirm(ctx, "a")
		_, err2 := confirm(ctx, "b")
		return told("done", errors.Join(err, err2))
	}
	entry := func(key string) string {
		return fmt.Sprintf(`%q:{"method":"elicitation/create","params":%s}`, key, confirmAsk)
	}
	const params, caps = `"name":"ask"`, `{"elicitation":{}}`
	responses := func(json string) string { return `,"inputResponses":` + json }
	synctest.Test(t, func(t *testing.T) {
		c := serve(t, asker(ask))
		c.send(modernRequest(1, "tools/call", params, caps))
		state := c.round(1, `{`+entry("a")+`,`+entry("b")+`}`)
		with := func(json string) string { return responses(json) + `,"requestState":"` + state + `"` }

		// What is missing is asked for again, and only that.
		for id, json := range []string{`{}`, `null`, `{"c":` + confirmYes + `}`} {
			c.send(modernRequest(id, "tools/call", params, caps, with(json)))
			c.round(id, `{`+entry("a")+`,`+entry("b")+`}`)
		}
		c.send(modernRequest(2, "tools/call", params, caps, with(`{"b":`+confirmYes+`,"c":{}}`)))
		state = c.round(2, `{`+entry("a")+`}`)
		c.send(modernRequest(3, "tools/call", params, caps, `,"requestState":"`+state+`"`))
		state = c.round(3, `{`+entry("a")+`}`)
		for _, none := range []string{`,"arguments":{}`, `,"arguments":null`} { // is what it was
			c.send(modernRequest(3, "tools/call", params+none, caps, `,"requestState":"`+state+`"`))
			state = c.round(3, `{`+entry("a")+`}`)
		}
		c.send(modernRequest(3, "tools/call", params, caps, with(`{"a":{"action":"decline"}}`)))
		c.want(modernSaid(3, "declined"))

		// Answers may come unasked, and nothing is remembered here.
		c.send(modernRequest(4, "tools/call", params, caps, responses(`{"a":`+confirmYes+`,"b":`+confirmYes+`}`)))
		c.want(modernSaid(4, "done"))
		c.send(modernRequest(5, "tools/call", params, caps, `,"inputResponses":null,"requestState":null`))
		c.round(5, `{`+entry("a")+`,`+entry("b")+`}`)

		for _, json := range []string{`[]`, `"x"`, `5`, `true`, `{"a":null}`, `{"a":[]}`, `{"b":"accept"}`, `{"a":` + confirmYes + `,"a":` + confirmYes + `}`, `{"a":` + confirmYes + `,"b":5}`, `{"c":5}`} {
			c.send(modernRequest(6, "tools/call", params, caps, with(json)))
			if got := c.recv(); len(got) != 1 || !strings.Contains(got[0], `"id":6,"error":{"code":-32602,"message":"Invalid params: inputResponses`) {
				t.Errorf("%s: got %q", json, got)
			}
		}
		for _, state := range []string{`""`, `"forged"`, `"."`, `".."`, `"..."`, `5`, `{}`, `["` + state + `"]`, `"` + state + `."`} {
			c.send(modernRequest(7, "tools/call", params, caps, responses(`{"a":`+confirmYes+`,"b":`+confirmYes+`}`), `,"requestState":`+state))
			c.want(wrong(7, codeParams, badState))
		}
		c.end()
	})

	// Who says what when a handler does not just return the error.
	broken := errors.New("broken")
	for name, test := range map[string]struct {
		ask  askFunc
		want string // "ask" is a round
	}{
		"swallowed":     {func(ctx context.Context) (string, error) { confirm(ctx, "k"); return "fine", nil }, modernSaid(1, "fine")},
		"another error": {func(ctx context.Context) (string, error) { confirm(ctx, "k"); return "", broken }, strings.Replace(modernSaid(1, "broken"), `"content"`, `"isError":true,"content"`, 1)},
		"both": {func(ctx context.Context) (string, error) {
			_, err := confirm(ctx, "k")
			return "", errors.Join(broken, err)
		}, "ask"},
		"same key twice": {func(ctx context.Context) (string, error) { confirm(ctx, "k"); return told(confirm(ctx, "k")) }, "ask"},
		"panic":          {func(ctx context.Context) (string, error) { confirm(ctx, "k"); panic(ErrInputRequired) }, strings.Replace(modernSaid(1, "Internal error"), `"content"`, `"isError":true,"content"`, 1)},
		"not asked": {func(ctx context.Context) (string, error) { return "", ErrInputRequired },
			strings.Replace(modernSaid(1, ErrInputRequired.Error()), `"content"`, `"isError":true,"content"`, 1)},
		"one that cannot be asked": {func(ctx context.Context) (string, error) {
			_, err := confirm(ctx, "k")
			_, err2 := Roots(ctx, "r")
			return "", errors.Join(err, err2)
		}, `{"jsonrpc":"2.0","id":1,"error":{"code":-32021,"message":"This request needs the roots capability, which this client does not have","data":{"requiredCapabilities":{"roots":{}}}}}`},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := serve(t, asker(test.ask))
				if c.send(modernRequest(1, "tools/call", params, caps)); test.want == "ask" {
					c.round(1, `{`+entry("k")+`}`)
				} else {
					c.want(test.want)
				}
				c.end()
			})
		})
	}
}

// A state is good for what it was made for, for an hour, on the Server that made it.
func TestARequestStateIsGoodForItsCallOnly(t *testing.T) {
	const caps = `{"elicitation":{}}`
	const asks = `{"k":{"method":"elicitation/create","params":` + confirmAsk + `}}`
	yes := func(state string) string {
		return `,"inputResponses":{"k":` + confirmYes + `},"requestState":"` + state + `"`
	}
	type place struct{ method, params string }
	ask := place{"tools/call", `"name":"ask","arguments":{"n":1,"s":" x\n"}`}
	for i, test := range []struct {
		made, used place
		elsewhere  bool // it is used on another Server
		after      time.Duration
		ok         bool
	}{
		{ask, ask, false, 0, true},
		{ask, ask, false, time.Hour - time.Second, true},
		{ask, ask, false, time.Hour, false},
		{ask, ask, false, 1000 * time.Hour, false},
		{ask, ask, true, 0, false},
		{ask, place{"tools/call", ` "arguments" : {"n" :	1 ,"s":" x\n"  } , "name":"\u0061sk" `}, false, 0, true},
		{ask, place{"tools/call", `"name":"ask","arguments":{"n":1,"s":" x\n"},"more":true`}, false, 0, true},
		{ask, place{"tools/call", `"name":"other","arguments":{"n":1,"s":" x\n"}`}, false, 0, false},
		{ask, place{"tools/call", `"name":"ask","arguments":{"n":2,"s":" x\n"}`}, false, 0, false},
		{ask, place{"tools/call", `"name":"ask","arguments":{"n":1,"s":"x\n"}`}, false, 0, false},
		{ask, place{"tools/call", `"name":"ask","arguments":{}`}, false, 0, false},
		{ask, place{"tools/call", `"name":"ask"`}, false, 0, false},
		{place{"tools/call", `"name":"ask"`}, place{"tools/call", `"name":"ask"`}, false, 0, true},
		{place{"tools/call", `"name":"ask"`}, place{"prompts/get", `"name":"ask"`}, false, 0, false},
		{place{"prompts/get", `"name":"ask","arguments":{"a":"1"}`}, place{"prompts/get", `"name":"ask","arguments":{"a":"1"}`}, false, 0, true},
		{place{"prompts/get", `"name":"ask","arguments":{"a":"1"}`}, place{"prompts/get", `"name":"other","arguments":{"a":"1"}`}, false, 0, false},
		{place{"prompts/get", `"name":"ask","arguments":{"a":"1"}`}, place{"prompts/get", `"name":"ask","arguments":{"a":"2"}`}, false, 0, false},
		{place{"prompts/get", `"name":"ask","arguments":{"a":"1"}`}, place{"tools/call", `"name":"ask","arguments":{"a":"1"}`}, false, 0, false},
		{place{"resources/read", `"uri":"ask:a"`}, place{"resources/read", `"uri":"ask:a"`}, false, 0, true},
		{place{"resources/read", `"uri":"ask:a"`}, place{"resources/read", `"uri":"ask:o"`}, false, 0, false},
	} {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := serve(t, asker(askOnce))
				c.send(modernRequest(1, test.made.method, test.made.params, caps))
				state := c.round(1, asks)
				if test.elsewhere {
					c.end()
					c = serve(t, asker(askOnce))
				}
				time.Sleep(test.after)
				if c.send(modernRequest(2, test.used.method, test.used.params, caps, yes(state))); !test.ok {
					c.want(wrong(2, codeParams, badState))
				} else if got := c.recv(); len(got) != 1 || !strings.Contains(got[0], `"true"`) {
					t.Errorf("got %q", got)
				}
				c.end()
			})
		})
	}

	t.Run("tampered", func(t *testing.T) {
		s := &Server{}
		good := callOf(s, "x", "").seal([]byte(`{"a":1}`))
		if answers, ok := callOf(s, "x", "").unseal(good); !ok || string(answers) != `{"a":1}` {
			t.Fatalf("%s: refused", good)
		}
		try := func(state string) {
			if _, ok := callOf(s, "x", "").unseal(state); ok && state != good {
				t.Errorf("accepted %q for %q", state, good)
			}
		}
		for i := range len(good) + 1 {
			try(good[:i])
			try(good[i:])
			for _, c := range "\x00\n\r =A.0" {
				try(good[:i] + string(c) + good[i:])
			}
			for bit := 0; bit < 8 && i < len(good); bit++ {
				try(good[:i] + string([]byte{good[i] ^ 1<<bit}) + good[i+1:])
			}
		}
		if _, ok := callOf(s, "y", "").unseal(good); ok {
			t.Error("accepted for something else")
		}
		if _, ok := callOf(&Server{}, "x", "").unseal(good); ok {
			t.Error("accepted by another Server")
		}
	})
	t.Run("tampered on the wire", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := serve(t, asker(askOnce))
			c.send(modernRequest(1, "tools/call", `"name":"ask"`, caps))
			good := c.round(1, asks)
			for i := range len(good) {
				c.send(modernRequest(2, "tools/call", `"name":"ask"`, caps, yes(good[:i]+string(good[i]^1)+good[i+1:])))
				c.want(wrong(2, codeParams, badState))
			}
			c.send(modernRequest(3, "tools/call", `"name":"ask"`, caps, yes(good)))
			c.want(modernSaid(3, "true"))
			c.end()
		})
	})
}

// A handler that asks and returns something else than the question is reported
// to ErrorLog.
func TestAQuestionThatAHandlerSwallowsIsReported(t *testing.T) {
	const lost = "asked, but the question was not returned"
	swallow := func(ctx context.Context) (string, error) { confirm(ctx, "k"); return "fine", nil }
	for name, test := range map[string]struct {
		ask  askFunc
		want int
	}{
		"swallowed":     {swallow, 1},
		"another error": {func(ctx context.Context) (string, error) { confirm(ctx, "k"); return "", errors.New("x") }, 1},
		"returned":      {askOnce, 0},
		"wrapped": {func(ctx context.Context) (string, error) {
			_, err := confirm(ctx, "k")
			return "", fmt.Errorf("w: %w", err)
		}, 0},
		"returned beside what no answer can change": {func(ctx context.Context) (string, error) {
			_, err := confirm(ctx, "k")
			return "", errors.Join(err, &Error{Code: 1, Message: "m"})
		}, 0},
		"not asked": {func(ctx context.Context) (string, error) { return "fine", nil }, 0},
	} {
		for _, params := range []struct{ method, params string }{{"tools/call", `"name":"ask"`}, {"prompts/get", `"name":"ask"`}, {"resources/read", `"uri":"ask:a"`}} {
			s := asker(test.ask)
			said := diagnostics(s)
			synctest.Test(t, func(t *testing.T) {
				c := serve(t, s)
				c.send(modernRequest(1, params.method, params.params, `{"elicitation":{}}`))
				c.recv()
				c.send(modernRequest(2, params.method, params.params, `{}`)) // cannot be asked
				c.recv()
				c.end()
			})
			if got := strings.Count(said.String(), lost); got != test.want {
				t.Errorf("%s, %s: reported %d times, want %d: %s", name, params.method, got, test.want, said)
			}
		}
	}
}

// ==== one client ====

// ---- lines ----

// CRLF, blanks, a byte order mark, empty lines and a last line without its end
// change nothing.
func TestLinesMayEndAndBeginAsTheyLike(t *testing.T) {
	const p1, p2 = `{"jsonrpc":"2.0","id":1,"method":"ping"}`, `{"jsonrpc":"2.0","id":2,"method":"ping"}`
	two := []string{`{"jsonrpc":"2.0","id":1,"result":{}}`, `{"jsonrpc":"2.0","id":2,"result":{}}`}
	for _, tt := range []struct {
		name  string
		input string
	}{
		{"plain", p1 + "\n" + p2 + "\n"},
		{"CRLF", p1 + "\r\n" + p2 + "\r\n"},
		{"byte order mark", "\ufeff" + p1 + "\n" + p2 + "\n"},
		{"byte order mark and blanks", "\ufeff \t" + p1 + "\n" + p2 + "\n"},
		{"blank lines", "\n\r\n  \n\t\n" + p1 + "\n\n \n" + p2 + "\n\n"},
		{"blanks around", "  " + p1 + " \n\t" + p2 + "\t \r\n"},
		{"no newline at the end", p1 + "\n" + p2},
		{"no newline, but a blank", p1 + "\n" + p2 + " "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for name, r := range map[string]io.Reader{
				"at once":       strings.NewReader(tt.input),
				"one by one":    iotest.OneByteReader(strings.NewReader(tt.input)),
				"data with EOF": iotest.DataErrReader(strings.NewReader(tt.input)),
				"by halves":     iotest.HalfReader(strings.NewReader(tt.input)),
			} {
				if got := feed(t, demo(), r); !slices.Equal(got, two) {
					t.Errorf("%s: got %q", name, got)
				}
			}
		})
	}
}

// Lines are not too long if only blanks in front make them so.
func TestBlanksInFrontDoNotCount(t *testing.T) {
	in := strings.Repeat(" ", 200) + `{"jsonrpc":"2.0","id":1,"method":"ping"}` + "\n" + strings.Repeat("\r", 140) + `{"jsonrpc":"2.0","id":2,"method":"ping"}` + "\n"
	in = "\ufeff" + strings.Repeat(" ", 300_000) + in
	for i, r := range []io.Reader{strings.NewReader(in), iotest.OneByteReader(strings.NewReader(in)), iotest.HalfReader(strings.NewReader(in))} {
		var out bytes.Buffer
		fuzzServer(8).Serve(t.Context(), r, &out)
		if bytes.Count(out.Bytes(), []byte("\n")) != 2 || bytes.Contains(out.Bytes(), []byte("Parse")) {
			t.Errorf("%d: %s", i, &out)
		}
	}
}

// What we write is one line each, whatever is in it, and ends with \n alone.
func TestWhatWeWriteIsOneLineEach(t *testing.T) {
	text := "a\r\nb\x00\x7f\u2028\u2029\xff\\\" \U0001f600"
	s := &Server{}
	AddTool(s, Tool{Name: "t", Description: text, Meta: map[string]any{text: text}, InputSchema: json.RawMessage("{\n\t\"type\": \"object\",\r\n\t\"x\": \"a b\\n\u2028\"\n}")},
		func(context.Context, json.RawMessage) (*Result, error) {
			return &Result{Content: []Content{Text(text)}, StructuredContent: json.RawMessage("{\n\"a\": 1\r\n}")}, nil
		})
	got := feed(t, s, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}
{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"t","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`))
	if len(got) != 2 {
		t.Fatalf("got %d lines: %q", len(got), got)
	}
	for _, line := range got {
		var v struct {
			Result struct {
				Tools   []struct{ Description string }
				Content []struct{ Text string }
			}
		}
		if err := json.Unmarshal([]byte(line), &v); err != nil || strings.ContainsAny(line, "\r\u2028\u2029") {
			t.Errorf("%v: %q", err, line)
		}
		want := strings.ToValidUTF8(text, "\ufffd")
		if r := v.Result; len(r.Tools) == 1 && r.Tools[0].Description != want || len(r.Content) == 1 && r.Content[0].Text != want {
			t.Errorf("got %q", line)
		}
	}
	if !strings.Contains(got[0], `"inputSchema":{"type":"object","x":"a b\n\u2028"}`) || !strings.Contains(got[1], `"structuredContent":{"a":1}`) {
		t.Errorf("got %q", got)
	}
}

// A text of 10 MiB comes whole in a request, and goes whole in an answer.
func TestTenMegabytesGoThereAndBack(t *testing.T) {
	size := 10 << 20
	if raceBuild() { // which is slow with bytes
		size = 1 << 20
	}
	long := strings.Repeat("x", size)
	s := &Server{}
	out(long, nil)(s)
	lines := feed(t, s, strings.NewReader(
		`{"jsonrpc":"2.0","id":0,"method":"ping","params":{"x":"`+long+`"}}`+"\n"+
			`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`))
	if len(lines) != 2 || lines[0] != `{"jsonrpc":"2.0","id":0,"result":{}}` || !strings.HasPrefix(lines[1], `{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","content":[{"type":"text","text":"`+long+`"}],`) {
		t.Errorf("got %d lines, %.100q", len(lines), lines)
	}
}

// A large result is one line, in one Write.
func TestALargeResultIsOneWrite(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) {
		text := strings.Repeat("x", 5<<20)
		add(&s.Server, "big", func(context.Context) (string, error) { return text, nil })
		c := serveWire(t, &s.Server)
		c.send(modernCall("1", "big"))
		c.want(modernSaid("1", text))
		if len(c.writes) != 1 {
			t.Errorf("it took %d writes", len(c.writes))
		}
		c.end()
	})
}

// A line above MaxMessage is refused under its id, wherever that stands, and
// the next line is served.
func TestATooLongLineCostsOneError(t *testing.T) {
	const max = 300
	refused := func(id string) string {
		return wrong(id, -32600, "Invalid Request: a message of more than 300 bytes")
	}
	x, blanks := strings.Repeat("x", max), strings.Repeat(" ", max)
	fit := `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":""}}`
	for _, tt := range []struct{ name, line, want string }{
		{"just fits", fit[:len(fit)-3] + x[:max-len(fit)] + `"}}`, `{"jsonrpc":"2.0","id":1,"result":{}}`},
		{"just fits, between blanks", blanks[:9] + fit[:len(fit)-3] + x[:max-len(fit)] + `"}}` + blanks[:9], `{"jsonrpc":"2.0","id":1,"result":{}}`},
		{"one more", fit[:len(fit)-3] + x[:max-len(fit)+1] + `"}}`, refused("1")},
		{"the id is seen", `{"jsonrpc":"2.0","id":"a","method":"ping","params":"` + x + `"}`, refused(`"a"`)},
		{"the id comes later", `{"jsonrpc":"2.0","method":"ping","params":"` + x + `","id":7}`, refused("7")},
		{"the id stands in the middle", `{"method":"ping","x":"` + x + `","id":7,"params":"` + strings.Repeat(x, 4) + `"}`, refused("null")},
		{"the id stands in the params", `{"method":"ping","x":1,"params":{"x":"` + x + `","id":7}}`, refused("null")},
		{"the id stands in a text", `{"method":"ping","params":"` + x + `,\"id\":7}","x":"id","y":1}`, refused("null")},
		{"the id comes later, as Python writes it", `{"method":"ping","params":{"x":"` + x + `","id":8},"jsonrpc":"2.0","id":"a\"id"}`, refused(`"a\"id"`)},
		{"the id is cut", `{"jsonrpc":"2.0","id":` + strings.Repeat("7", 5*max) + `,"method":"ping"}`, refused("null")},
		{"the id looks like where it is cut", `{"id":7,"method":"ping","params":"` + strings.Repeat("7", max) + `"}`, refused("7")},
		{"the id is none", `{"jsonrpc":"2.0","id":1.5,"method":"ping","params":"` + x + `"}`, refused("null")},
		{"the id comes twice", `{"jsonrpc":"2.0","id":1,"id":2,"method":"ping","params":"` + x + `"}`, refused("null")},
		{"rubbish", x + x, refused("null")},
		{"a batch", "[" + fit + "," + x + "]", refused("null")},
		{"an answer", `{"jsonrpc":"2.0","id":1,"result":"` + x + `"}`, ""},
		{"an error as an answer", `{"jsonrpc":"2.0","id":1,"error":{"message":"` + x + `"}}`, ""},
		{"in many pieces", `{"jsonrpc":"2.0","id":9,"method":"ping","params":"` + strings.Repeat(x, 200) + `"}`, refused("9")},
		{"blanks within", `{"jsonrpc":"2.0","id":9,"method":"ping","params":[` + blanks + `]}`, refused("9")},
		{"blanks before", blanks + fit, `{"jsonrpc":"2.0","id":1,"result":{}}`},
		{"blanks behind", fit + blanks, `{"jsonrpc":"2.0","id":1,"result":{}}`},
		{"nothing but blanks", blanks + blanks, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			want := []string{tt.want, pongLine}
			if tt.want == "" {
				want = want[1:]
			}
			in := tt.line + "\n" + pingLine + "\n"
			for name, r := range map[string]io.Reader{"at once": strings.NewReader(in), "one by one": iotest.OneByteReader(strings.NewReader(in))} {
				got := feed(t, &Server{MaxMessage: max}, r)
				if len(got) != len(want) || !sameJSON(t, "["+strings.Join(got, ",")+"]", "["+strings.Join(want, ",")+"]") {
					t.Errorf("%s: got  %q\nwant %q", name, got, want)
				}
			}
		})
	}
}

// A line that is too long is read past, and not kept.
func TestATooLongLineIsNotKept(t *testing.T) {
	s := &Server{Name: "demo", Version: "1.0.0", MaxMessage: 1 << 20, ErrorLog: log.New(io.Discard, "", 0)}
	part := strings.Repeat("x", 1<<20)
	var parts []io.Reader
	for range 64 {
		parts = append(parts, strings.NewReader(part))
	}
	in := &measured{Reader: io.MultiReader(append(parts, strings.NewReader("\n"+pingLine))...), before: heap()}
	var out bytes.Buffer
	if err := s.Serve(t.Context(), in, &out); err != nil || !strings.HasSuffix(out.String(), pongLine+"\n") {
		t.Errorf("Serve: %v, %.200q", err, out.String())
	}
	if in.most > 16<<20 {
		t.Errorf("%d MiB were kept", in.most>>20)
	}
}

// measured is a Reader that sees how much memory is in use meanwhile.
type measured struct {
	io.Reader
	reads        int
	before, most int64
}

func (m *measured) Read(b []byte) (int, error) {
	if m.reads++; m.reads%16 == 0 {
		m.most = max(m.most, heap()-m.before)
	}
	return m.Reader.Read(b)
}

// A question whose answer is too long is at an end all the same.
func TestATooLongAnswerEndsItsQuestion(t *testing.T) {
	s := demo()
	s.MaxMessage = 300
	play(t, s, legacyPV, `
		> `+call("1", "ask", "{}")+`
		< {"jsonrpc":"2.0","id":1,"method":"roots/list","params":{}}
		> {"jsonrpc":"2.0","id":1,"result":{"roots":[{"uri":"`+strings.Repeat("x", 300)+`"}]}}
		< `+failed("1", "mcp: the client's answer is longer than 300 bytes"))
}

// A bad line costs one answer at most, one line of the log, and nothing else.
func TestABadLineCostsOneAnswer(t *testing.T) {
	for _, tt := range []struct{ line, answer, log string }{
		{`not json`, wrong("null", -32700, "Parse error"), "Parse error"},
		{`5`, wrong("null", -32600, "Invalid Request: a message must be an object"), "must be an object"},
		{`null`, wrong("null", -32600, "Invalid Request: a message must be an object"), "must be an object"},
		{`"ping"`, wrong("null", -32600, "Invalid Request: a message must be an object"), "must be an object"},
		{`[]`, wrong("null", -32600, "Invalid Request: batching is not supported"), "batching"},
		{`{}`, wrong("null", -32600, "Invalid Request: method missing"), "method missing"},
		{`{"jsonrpc":"2.0","id":1}`, wrong("1", -32600, "Invalid Request: method missing"), "method missing"},
		{`{"jsonrpc":"1.0","id":1,"method":"ping"}`, wrong("1", -32600, `Invalid Request: jsonrpc must be "2.0"`), "jsonrpc must be"},
		{`{"jsonrpc":2.0,"id":1,"method":"ping"}`, wrong("1", -32600, `Invalid Request: jsonrpc must be "2.0"`), "jsonrpc must be"},
		{`{"method":"notifications/initialized"}`, "", "jsonrpc must be"},
		{`{"jsonrpc":"2.0","id":1,"method":"ping"} `, `{"jsonrpc":"2.0","id":1,"result":{}}`, ""},
		{"\ufeff" + `{"jsonrpc":"2.0","id":1,"method":"ping"}`, `{"jsonrpc":"2.0","id":1,"result":{}}`, ""},
		{`[{"jsonrpc":"2.0","id":1,"method":"ping"}]`, wrong("null", -32600, "Invalid Request: batching is not supported"), "batching"},
		{`{"jsonrpc":"2.0","id":1,"method":"ping"}{"jsonrpc":"2.0","id":2,"method":"ping"}`, wrong("null", -32700, "Parse error"), "Parse error"},
		{`{"jsonrpc":"2.0","id":1,"method":"ping","params":"` + strings.Repeat("x", 1000) + `"}`, wrong("1", -32600, "Invalid Request: a message of more than 1000 bytes"), "more than 1000 bytes"},
		{`{"jsonrpc":"2.0","id":1,"method":"pi` + "\xff" + `ng"}`, wrong("null", -32700, "Parse error: not UTF-8"), "not UTF-8"},
		{`{"jsonrpc":"2.0","id":1,"method":"pi` + "\x01" + `ng"}`, wrong("null", -32700, "Parse error"), "Parse error"},
		{`{"jsonrpc":"2.0","id":01,"method":"ping"}`, wrong("null", -32700, "Parse error"), "Parse error"},
		{`{"jsonrpc":"2.0","id":1,"method":"ping",}`, wrong("null", -32700, "Parse error"), "Parse error"},
		{`{"jsonrpc":"2.0","method":"notifications/none"}`, "", "unknown method \"notifications/none\""},
		// Shaped like answers: never answered.
		{`{"jsonrpc":"2.0","id":99,"result":{}}`, "", "nobody waits for 99"},
		{`{"jsonrpc":"2.0","id":99,"error":{"code":1,"message":"x"}}`, "", "nobody waits for 99"},
		{`{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"x"}}`, "", "nobody waits"},
		{`{"result":null}`, "", "nobody waits"},
		{`{"jsonrpc":"1.0","id":[],"result":1,"error":5}`, "", "nobody waits"},
		{`{"jsonrpc":"2.0","id":1,"id":2,"result":{},"result":{}}`, "", "nobody waits"},
		{`{"error":"x","id":1.5}`, "", "nobody waits"},
	} {
		t.Run(tt.line[:min(len(tt.line), 60)], func(t *testing.T) {
			var diary bytes.Buffer
			lines := feed(t, &Server{Name: "demo", Version: "1", MaxMessage: 1000, ErrorLog: log.New(&diary, "", 0)}, strings.NewReader(tt.line+"\n"+pingLine+"\n"))
			want := []string{tt.answer, pongLine}
			if tt.answer == "" {
				want = want[1:]
			}
			if len(lines) != len(want) || !sameJSON(t, lines[0], want[0]) || lines[len(lines)-1] != pongLine {
				t.Errorf("got %q, want %q", lines, want)
			}
			if said := strings.Count(diary.String(), "\n"); !strings.Contains(diary.String(), tt.log) || (said != 0) != (tt.log != "") || said > 1 {
				t.Errorf("log %q, want %q", diary.String(), tt.log)
			}
		})
	}
}

// A message may be broken off anywhere, also in the middle of an escape: that is a
// parse error, and the next line is served. If it is too long as well, only its id
// is looked for.
func TestAMessageMayBreakOffAnywhere(t *testing.T) {
	const value = `"\u0032\n\ud83d\ude00\\"`
	message := `{"jsonrpc":` + value + `,"\u0069d":` + value + `,"method":` + value + `,"result":` + value +
		`,"params":{"name":` + value + `,"_meta":{"` + keyVersion + `":` + value + `,"progressToken":` + value + `}}}`
	for _, limit := range []int{1000, len(pingLine)} {
		for end := 1; end < len(message); end++ {
			s := &Server{Name: "demo", Version: "1", MaxMessage: limit, ErrorLog: log.New(io.Discard, "", 0)}
			lines := feed(t, s, strings.NewReader(message[:end]+"\n"+pingLine+"\n"))
			if lines[len(lines)-1] != pongLine {
				t.Errorf("%s: got %q", message[:end], lines)
			}
			if end <= limit && (len(lines) != 2 || !sameJSON(t, lines[0], wrong("null", -32700, "Parse error"))) {
				t.Errorf("%s: got %q, want a parse error", message[:end], lines)
			}
		}
	}
}

// Numbers, reasons, names and batches that are made to hurt cost an error each.
func TestHostileInputDoesNoHarm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		s := &Server{ErrorLog: log.New(&out, "", 0), MaxConcurrent: 1}
		AddTool(s, Tool{Name: "n", Description: strings.Repeat("x", 1<<20)}, func(ctx context.Context, in struct{ N int }) (string, error) {
			<-ctx.Done()
			return "", ctx.Err()
		})
		s.AddResource(Resource{URI: "x:{a}b{b}", Name: "x"}, func(context.Context, string, map[string]string) ([]ResourceContents, error) { return nil, nil })
		c := serve(t, s)
		c.initialize("2025-03-26", "{}")

		// A number whose exponent is not one.
		c.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"n","arguments":{"N":1e-99999999999999999999}}}`)
		c.want(`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"Invalid arguments: N must be an integer, got 1e-99999999999999999999"}],"isError":true}}`)

		// A reason that would forge a line of the log, from a request before its turn.
		for _, id := range []string{"2", "3"} {
			c.send(`{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"n","arguments":{"N":1}}}`)
		}
		for _, id := range []string{"3", "2"} {
			c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `,"reason":"no\nmcp: forged"}}`)
		}
		c.want()
		if text := out.String(); strings.Contains(text, "\nmcp: forged") || strings.Count(text, "\n") != 2 {
			t.Errorf("log: %s", text)
		}

		// Something large to watch.
		c.send(`{"jsonrpc":"2.0","id":4,"method":"resources/subscribe","params":{"uri":"x:` + strings.Repeat("a", maxURI) + `"}}`)
		c.want(`{"jsonrpc":"2.0","id":4,"error":{"code":-32603,"message":"Subscription limit reached"}}`)

		// A small line that asks for a large one.
		c.send("[" + strings.TrimSuffix(strings.Repeat(`{"jsonrpc":"2.0","id":5,"method":"tools/list"},`, 100), ",") + "]")
		if got := c.recv(); len(got) != 1 || len(got[0]) > outputBound+2<<20 || strings.Count(got[0], "too long") != 84 {
			t.Errorf("%d bytes, %d errors", len(got[0]), strings.Count(got[0], "too long"))
		}

		// The same in batches that are not answered yet, each with less than is too much.
		for _, id := range []string{"6", "7"} {
			c.send(`[{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"n","arguments":{"N":1}}}` +
				strings.Repeat(`,{"jsonrpc":"2.0","id":5,"method":"tools/list"}`, 10) + `]`)
		}
		c.want()
		for i, id := range []string{"6", "7"} {
			c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `}}`)
			got := strings.Join(c.recv(), "\n")
			if n := strings.Count(got, "too long"); n != []int{0, 4}[i] {
				t.Errorf("batch %d: %d bytes, %d errors", i, len(got), n)
			}
		}
		c.end()
	})
}

type emptyReader struct{}

func (emptyReader) Read([]byte) (int, error) { return 0, nil }

// A Reader that returns neither data nor an error for ever is given up.
func TestAReaderThatReturnsNothingIsGivenUp(t *testing.T) {
	s := demo()
	s.Name, s.Version, s.ErrorLog = "demo", "1", log.New(io.Discard, "", 0)
	if err := s.Serve(t.Context(), emptyReader{}, io.Discard); !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("Serve: %v", err)
	}
}

// A client that sends nothing but rubbish fills the log at a bounded rate.
func TestErrorLogIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var diary bytes.Buffer
		c := serve(t, &Server{ErrorLog: log.New(&diary, "", 0)})
		for range 2 {
			for range 50 {
				c.send("rubbish")
			}
			if got := c.recv(); len(got) != 50 {
				t.Errorf("%d answers", len(got))
			}
			time.Sleep(time.Second) // for the clock of the bubble
		}
		c.end()
		if n := strings.Count(diary.String(), "\n"); n != 40 {
			t.Errorf("%d lines in two seconds, want 40", n)
		}
	})
}

type slowPrints struct{ got []string }

func (p *slowPrints) Write(b []byte) (int, error) {
	time.Sleep(time.Millisecond) // in a bubble
	p.got = append(p.got, string(b))
	return len(b), nil
}

// What a client writes cannot be taken for the next line of a log, and
// each diagnostic is printed by itself.
func TestDiagnosticsAreOneLineEach(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) {
		var prints slowPrints
		s.ErrorLog = log.New(&prints, "", 0)
		c := serve(t, &s.Server)
		c.send("{\"id\":[\r1,\"\u0085\u2028\"],\"result\":1}", `{"id":1,"error":{}}`, "x", "y")
		c.send(modernCall("1", "panic"))
		c.recv()
		c.in.Close()
		<-c.done
		if len(prints.got) != 5 || strings.ContainsAny(strings.Join(prints.got[:4], ""), "\r\u0085\u2028") || strings.Count(prints.got[4], "\n") < 5 {
			t.Errorf("%d prints: %q", len(prints.got), prints.got)
		}
	})
}

// ---- JSON-RPC ----

// A Server without a name or a version is not served.
func TestServeNeedsANameAndAVersion(t *testing.T) {
	for _, s := range []*Server{{}, {Name: "x"}, {Version: "1"}} {
		if err := s.Serve(t.Context(), strings.NewReader(pingLine), io.Discard); err == nil {
			t.Errorf("%q %q is served", s.Name, s.Version)
		}
	}
}

// Ids are echoed byte for byte.
func TestIDsAreEchoedByteForByte(t *testing.T) {
	for _, id := range []string{
		`0`, `-0`, `-1`, `7`, `1.0`, `-2.000`, `9007199254740993`, `18446744073709551616`, strings.Repeat("9", 100),
		`""`, `"0"`, `"null"`, `"a b"`, `"\u0061"`, `"\"\\\/\n"`, `"\ud83d\ude00"`, `"é"`, `"` + strings.Repeat("x", 5000) + `"`,
	} {
		got := feed(t, demo(), strings.NewReader(`{"jsonrpc":"2.0","id":`+id+`,"method":"ping"}`))
		if want := `{"jsonrpc":"2.0","id":` + id + `,"result":{}}`; len(got) != 1 || got[0] != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	for _, id := range []string{`null`, `1.5`, `1e3`, `true`, `[1]`, `{"id":1}`} {
		got := feed(t, demo(), strings.NewReader(`{"jsonrpc":"2.0","id":`+id+`,"method":"ping"}`))
		if len(got) != 1 || !strings.HasPrefix(got[0], `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,`) {
			t.Errorf("id %s: got %q", id, got)
		}
	}
}

// A request with the id of one in flight is refused as null, and does not
// disturb the first.
func TestAnIDInUseIsRefused(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) {
		c := serve(t, &s.Server)
		c.send(modernCall("1", "wait"))
		c.want()
		c.send(modernCall("1", "hi"))
		c.want(`{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Invalid Request: id 1 is in use"}}`)
		s.ran(t, "1")
		c.send(modernCall(`"1"`, "hi"))
		c.want(modernSaid(`"1"`, "hi"))
		c.in.Close()
		c.ends(0, nil)
		c.want(modernFailed("1", ErrClosed.Error()))
	})
}

// Names are matched exactly but for escapes, none may come twice, and what is
// unknown is ignored.
func TestJSONRPCIsReadStrictly(t *testing.T) {
	for _, tt := range []struct{ name, version, transcript string }{
		{"names may be escaped", "", `
			> {"jsonrpc":"\u0032.0","\u0069d":1,"meth\u006fd":"p\u0069ng"}
			< {"jsonrpc":"2.0","id":1,"result":{}}`},
		{"names in another case are unknown", legacyPV, `
			> {"jsonrpc":"2.0","id":1,"method":"ping","ID":2,"Method":"no/such","PARAMS":7,"Result":1}
			< {"jsonrpc":"2.0","id":1,"result":{}}
			> {"JSONRPC":"2.0","id":2,"method":"ping"}
			< ` + wrong("2", -32600, `Invalid Request: jsonrpc must be "2.0"`) + `
			> {"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"Name":"echo","name":"count","Arguments":{"text":"x"},"arguments":{"to":0}}}
			< ` + said("3", "0")},
		{"members that come twice", legacyPV, `
			> {"jsonrpc":"2.0","id":1,"method":"ping","method":"ping"}
			< ` + wrong("1", -32600, "Invalid Request: method came twice") + `
			> {"jsonrpc":"2.0","id":1,"id":1,"method":"ping"}
			< ` + wrong("null", -32600, "Invalid Request: id came twice") + `
			> {"jsonrpc":"2.0","id":1,"method":"ping","params":{},"\u0070arams":{}}
			< ` + wrong("1", -32600, "Invalid Request: params came twice") + `
			> {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"slow","name":"echo"}}
			< ` + wrong("1", -32602, "Invalid params: name came twice") + `
			> {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":{"progressToken":1,"progressToken":2}}}
			< ` + wrong("1", -32602, "Invalid params: progressToken came twice") + `
			> {"jsonrpc":"2.0","id":1,"method":"ping","x":1,"x":2}
			< {"jsonrpc":"2.0","id":1,"result":{}}`},
		{"null is as good as absent", legacyPV, `
			> {"jsonrpc":"2.0","id":1,"method":"ping","params":null}
			< {"jsonrpc":"2.0","id":1,"result":{}}
			> {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"list_things","arguments":null,"_meta":null}}
			< {"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"[\"a\"]"}],"structuredContent":{"result":["a"]}}}
			> {"jsonrpc":"2.0","id":3,"method":"prompts/list","params":{"cursor":null,"_meta":{"progressToken":null}}}
			< {"jsonrpc":"2.0","id":3,"result":{"prompts":[]}}
			> {"jsonrpc":"2.0","id":4,"method":"tools/list","params":{"cursor":null}}
			< {"jsonrpc":"2.0","id":4,"result":{"tools":[` + strings.ReplaceAll(demoTools, "\n", "") + `]}}`},
		{"an id in use", legacyPV, `
			> ` + call("7", "slow", "{}") + `
			> ` + call("7", "echo", `{"text":"x"}`) + `
			< ` + wrong("null", -32600, "Invalid Request: id 7 is in use") + `
			> {"jsonrpc":"2.0","id":7,"method":"ping"}
			< ` + wrong("null", -32600, "Invalid Request: id 7 is in use") + `
			# nor may a request that is wrong in itself be answered under it
			> {"id":7,"method":"ping"}
			< ` + wrong("null", -32600, `Invalid Request: jsonrpc must be "2.0"`) + `
			> {"jsonrpc":"2.0","id":7}
			< ` + wrong("null", -32600, "Invalid Request: method missing") + `
			> ` + call(`"7"`, "echo", `{"text":"another id"}`) + `
			< ` + said(`"7"`, "another id") + `
			> {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}
			> {"jsonrpc":"2.0","id":7,"method":"ping"}
			< {"jsonrpc":"2.0","id":7,"result":{}}
			> ` + call("7", "echo", `{"text":"once"}`) + `
			< ` + said("7", "once") + `
			> ` + call("7", "echo", `{"text":"again"}`) + `
			< ` + said("7", "again")},
		{"an open listen keeps its id", "", `
			> {"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{},$META}}
			< {"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":1},"notifications":{}}}
			> {"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{},$META}}
			< ` + wrong("null", -32600, "Invalid Request: id 1 is in use")},
	} {
		t.Run(tt.name, func(t *testing.T) { play(t, demo(), tt.version, tt.transcript) })
	}
}

// Batches are served in 2025-03-26, answered in one line when their last
// request is, and refused elsewhere.
func TestOneRevisionHasBatches(t *testing.T) {
	const b = "2025-03-26"
	refused := wrong("null", -32600, "Invalid Request: batching is not supported")
	one := `[{"jsonrpc":"2.0","id":1,"method":"ping"}]`
	for _, tt := range []struct{ name, version, transcript string }{
		{"mixed", b, `
			> [{"jsonrpc":"2.0","id":1,"method":"ping"},1,{"jsonrpc":"2.0","id":null,"method":"ping"},{"jsonrpc":"2.0","method":"notifications/x"},[],{"jsonrpc":"2.0","id":5,"result":{}}]
			< [{"jsonrpc":"2.0","id":1,"result":{}},` + wrong("null", -32600, "Invalid Request: a message must be an object") + `,` + wrong("null", -32600, "Invalid Request: id must not be null") + `,` + wrong("null", -32600, "Invalid Request: a message must be an object") + `]`},
		{"answered when the last is done", b, `
			> [` + call("1", "slow", "{}") + `,{"jsonrpc":"2.0","id":2,"method":"ping"},` + call("3", "slow", "{}") + `]` + ping + `
			> {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}
			> {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3}}
			< [{"jsonrpc":"2.0","id":2,"result":{}}]`},
		{"with a handler's answer", b, `
			> [` + call("1", "echo", `{"text":"x"}`) + `]
			< [` + said("1", "x") + `]`},
		{"all cancelled", b, `
			> [` + call("1", "slow", "{}") + `,{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}]` + ping},
		{"only notifications", b, `> [{"jsonrpc":"2.0","method":"notifications/x"},{"jsonrpc":"2.0","method":"notifications/y"}]` + ping},
		{"only answers", b, `> [{"jsonrpc":"2.0","id":1,"result":{}}]` + ping},
		{"an id twice", b, `
			> [` + call("1", "slow", "{}") + `,{"jsonrpc":"2.0","id":1,"method":"ping"}]
			> {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}
			< [` + wrong("null", -32600, "Invalid Request: id 1 is in use") + `]`},
		{"not JSON", b, `
			> [{"jsonrpc":"2.0","id":1,"method":"ping"},]
			< ` + wrong("null", -32700, "Parse error") + ping},
		{"too many", b, `
			> [` + strings.Repeat("1,", 10_000) + `1]
			< ` + wrong("null", -32600, "Invalid Request: more than 10000 messages in a batch") + ping},
		{"initialize inside", b, `
			> [{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}]
			< [` + wrong("1", -32600, "Invalid Request: initialize must not be part of a batch") + `]`},
		{"a modern claim inside", b, `
			> [{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{$META}}]
			< [` + wrong("1", -32600, "Invalid Request: batching is not supported") + `]`},
		{"the answer to a question inside", b, `
			> [` + call(`"a"`, "ask", "{}") + `]
			< {"jsonrpc":"2.0","id":1,"method":"roots/list","params":{}}
			> [{"jsonrpc":"2.0","id":1,"result":{"roots":[]}}]
			< [` + said(`"a"`, "[]") + `]`},
		{"before initialize", "", "> " + one + "\n< " + refused + ping},
		{"2025-06-18", "2025-06-18", "> " + one + "\n< " + refused + ping},
		{"2025-11-25", "2025-11-25", "> " + one + "\n< " + refused + ping},
	} {
		t.Run(tt.name, func(t *testing.T) { play(t, demo(), tt.version, tt.transcript) })
	}
}

// ---- who reads, and who serves ----

// goroutines counts those that are at work for a session.
func goroutines() (n int) {
	all := make([]byte, 1<<20)
	for one := range bytes.SplitSeq(all[:runtime.Stack(all, true)], []byte("\n\n")) {
		if bytes.Contains(one, []byte("example.com/mcp.(*session)")) {
			n++
		}
	}
	return n
}

// whose adds a tool by which it shows who serves a request.
func whose(s *stage) (counts func() []int) {
	var seen []int
	add(&s.Server, "count", func(context.Context) (string, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		seen = append(seen, goroutines())
		return "counted", nil
	})
	return func() []int {
		s.mu.Lock()
		defer s.mu.Unlock()
		defer func() { seen = nil }()
		return seen
	}
}

// A request that comes while no other runs costs no goroutine, and whatever
// became of those before it does not change that.
func TestTheReaderServesALoneRequest(t *testing.T) {
	for _, before := range []string{"", "hi", "wait", "panic", "goexit", "ask", "sleep1"} {
		bubble(t, func(t *testing.T, s *stage) {
			counts := whose(s)
			c := serveWire(t, &s.Server)
			if before != "" {
				c.send(modernCall("1", before))
				time.Sleep(maxInline)
				c.send(modernCall("2", "hi"), cancelling("1"))
				time.Sleep(2 * time.Second)
				c.recv()
			}
			synctest.Wait()
			idle := goroutines()
			for range 3 {
				c.send(modernCall("3", "count"))
				c.want(modernSaid("3", "counted"))
			}
			if got := counts(); !slices.Equal(got, []int{idle, idle, idle}) {
				t.Errorf("after %q: %d goroutines at rest, %d when at work", before, idle, got)
			}
			c.send(modernCall("4", "deaf")) // it is relieved, and the next has company
			time.Sleep(maxInline)
			c.send(modernCall("5", "count"))
			c.want(modernSaid("5", "counted"))
			if got := counts(); len(got) != 1 || got[0] < idle+2 { // or more, if one is just about to end
				t.Errorf("after %q: %d goroutines at rest, %d when two are at work", before, idle, got)
			}
			close(s.release)
			c.want(modernSaid("4", "late"))
			if n := goroutines(); n != idle {
				t.Errorf("after %q: %d goroutines at rest, and later %d", before, idle, n)
			}
			c.send(modernCall("6", "hi"))
			c.want(modernSaid("6", "hi"))
			for session := range s.sessions {
				if session.turn.timer.Stop() {
					t.Errorf("after %q: the watch ticks at rest", before)
				}
			}
			c.end()
		})
	}
}

// Answers of requests that were read together go out together, and do not wait
// for one that lasts.
func TestAnswersReadTogetherGoOutTogether(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) {
		c := serveWire(t, &s.Server)
		var lines, answers []string
		for i := range 100 {
			lines = append(lines, modernCall(strconv.Itoa(i), "hi"))
			answers = append(answers, modernSaid(strconv.Itoa(i), "hi"))
		}
		c.send(strings.Join(lines, "\n"))
		c.want(answers...)
		if len(c.writes) != 1 {
			t.Errorf("%d writes for 100 answers", len(c.writes))
		}
		c.send(modernCall("1", "hi") + "\n" + modernCall("2", "sleep1") + "\n" + modernCall("3", "hi") + "\n" + pingLine)
		c.want()
		time.Sleep(maxInline)
		got := c.recv()
		slices.Sort(got)
		c.got = got
		c.want(pongLine, modernSaid("1", "hi"), modernSaid("3", "hi"))
		time.Sleep(time.Second - maxInline)
		c.want(modernSaid("2", "slept"))
		c.end()
	})
}

// Whoever is at work longer than a millisecond is relieved, and not sooner, but for
// a long text, which takes a while; who asks is relieved at once.
func TestTheTurnPassesAfterAMillisecond(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) {
		c := serve(t, &s.Server)
		begin := time.Now()
		heard := func(after time.Duration) {
			t.Helper()
			c.send(pingLine)
			c.want(pongLine)
			if took := time.Since(begin); took != after {
				t.Errorf("heard after %v, want %v", took, after)
			}
		}
		c.send(modernCall("1", "sleep1"))
		heard(maxInline)
		time.Sleep(time.Second)
		c.want(modernSaid("1", "slept"))
		c.initialize("2025-11-25", `{"roots":{}}`)
		c.want()
		begin = time.Now()
		c.send(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"ask"}}`)
		c.want(`{"jsonrpc":"2.0","id":1,"method":"roots/list","params":{}}`)
		heard(0)
		c.send(`{"jsonrpc":"2.0","id":1,"result":{"roots":[]}}`)
		c.want(`{"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"asked"}]}}`)
		heard(0)
		begin = time.Now() // the decoding of a long text counts too
		c.send(`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"sleep1","text":"` + strings.Repeat("x", 2*longText) + `"}}`)
		heard(3 * maxInline)
		time.Sleep(time.Second)
		c.want(`{"jsonrpc":"2.0","id":3,"result":{"content":[{"type":"text","text":"slept"}]}}`)
		c.end()
	})
	bubble(t, func(t *testing.T, s *stage) { // a write that lasts
		c := serveUnread(t, &s.Server)
		begin := time.Now()
		c.send(pingLine, pingLine, pingLine) // the first fills the pipe
		if took := time.Since(begin); took != maxInline {
			t.Errorf("heard after %v, want %v", took, maxInline)
		}
		go c.listen()
		c.want(pongLine, pongLine, pongLine)
		c.end()
	})
	bubble(t, func(t *testing.T, s *stage) { // who waits for another request
		met := make(chan struct{})
		add(&s.Server, "meet", func(context.Context) (string, error) { met <- struct{}{}; return "met", nil })
		add(&s.Server, "met", func(context.Context) (string, error) { <-met; return "met", nil })
		c := serve(t, &s.Server)
		c.send(modernCall("1", "meet") + "\n" + modernCall("2", "met"))
		time.Sleep(maxInline)
		if got := c.recv(); len(got) != 2 {
			t.Errorf("got %q", got)
		}
		c.end()
	})
	bubble(t, func(t *testing.T, s *stage) { // the watch is on whoever works now
		add(&s.Server, "short", func(context.Context) (string, error) { time.Sleep(maxInline * 3 / 5); return "short", nil })
		c := serveWire(t, &s.Server)
		begin := time.Now()
		c.send(modernCall("1", "short") + "\n" + modernCall("2", "short") + "\n" + modernCall("3", "sleep2") + "\n" + modernCall("4", "hi"))
		time.Sleep(maxInline*11/5 - 1)
		c.want(modernSaid("1", "short"), modernSaid("2", "short"))
		time.Sleep(1)
		c.want(modernSaid("4", "hi"))
		c.send(modernCall("5", "deaf")) // its work ends while another has the turn, and is watched in turn
		c.send(modernCall("6", "hi"))
		c.want(modernSaid("6", "hi"))
		time.Sleep(time.Until(begin.Add(maxInline*6/5 + 2*time.Second)))
		c.want(modernSaid("3", "slept"))
		close(s.release)
		c.want(modernSaid("5", "late"))
		c.end()
	})
}

// One that was relieved comes back from its work while the next is at its own: it
// reads on at once, and the turn is not there twice.
func TestThereIsOneTurn(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) {
		c := serveUnread(t, &s.Server)
		begin := time.Now()
		c.send(modernCall("1", "deaf"))
		c.send(pingLine) // is answered by the next, whose write lasts
		if took := time.Since(begin); took != maxInline {
			t.Errorf("heard after %v, want %v", took, maxInline)
		}
		synctest.Wait()
		close(s.release)
		c.send(pingLine)
		if took := time.Since(begin); took != maxInline {
			t.Errorf("heard after %v, want %v", took, maxInline)
		}
		go c.listen()
		if got := c.recv(); len(got) != 3 {
			t.Errorf("got %q", got)
		}
		c.end()
	})
}

// An answer is not left to one who is at work while the session closes: it may
// be that he never comes back.
func TestAnswersAreWrittenWhileTheReaderIsAtWork(t *testing.T) {
	for range 300 {
		bubble(t, func(t *testing.T, s *stage) {
			var c *client
			add(&s.Server, "stop", func(ctx context.Context) (string, error) {
				c.cancel(errors.New("shut down"))
				<-s.release
				return "", nil
			})
			c = serve(t, &s.Server)
			c.send(listenLine)
			c.recv()
			c.send(modernCall("1", "stop"))
			c.ends(time.Second, ErrDrain)
			if got := c.recv(); len(got) != 1 || !strings.Contains(got[0], `"id":"sub"`) {
				t.Errorf("got %q, want the end of the subscription", got)
			}
			close(s.release)
		})
	}
}

// Many short calls that were read together do not hold back each other's
// answers for longer than one that lasts would.
func TestShortCallsDoNotHoldBackAnswers(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) {
		add(&s.Server, "short", func(context.Context) (string, error) { time.Sleep(maxInline / 2); return "short", nil })
		c := serve(t, &s.Server)
		var lines []string
		for i := range 100 {
			lines = append(lines, modernCall(strconv.Itoa(i), "short"))
		}
		c.send(strings.Join(lines, "\n"))
		for i := range 20 {
			time.Sleep(2 * maxInline)
			if got := len(c.recv()); got < 2 || got > 6 {
				t.Errorf("%d answers in the %dth two stints", got, i+1)
			}
		}
		time.Sleep(time.Second)
		c.recv()
		c.end()
	})
}

// The members of a batch are read together: none of them is waited for.
func TestMembersOfABatchAreServedAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) {
		c := serve(t, &s.Server)
		c.initialize("2025-03-26", "{}")
		old := func(id, tool string) string {
			return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"` + tool + `"}}`
		}
		begin := time.Now()
		c.send("[" + old("1", "sleep1") + "," + old("2", "sleep1") + "," + old("3", "sleep1") + "]")
		c.send(pingLine)
		c.want(pongLine)
		if took := time.Since(begin); took != 0 {
			t.Errorf("heard after %v", took)
		}
		time.Sleep(time.Second)
		if got := c.recv(); len(got) != 1 || strings.Count(got[0], "slept") != 3 {
			t.Errorf("got %q", got)
		}
		c.end()
	})
}

// Whatever handlers do, others are served at once, as soon as
// the first of them has given away the turn to read.
func TestSlowHandlersHoldUpNobody(t *testing.T) {
	sleepers := 10_000
	if raceBuild() {
		sleepers = 2000
	}
	for _, tt := range []struct{ n, max int }{{50, 0}, {sleepers, 0}, {50, 1}} {
		synctest.Test(t, func(t *testing.T) {
			s := &Server{MaxConcurrent: tt.max}
			asleep, most := 0, 0
			var mu sync.Mutex
			AddTool(s, Tool{Name: "slow"}, func(ctx context.Context, _ struct{}) (string, error) {
				mu.Lock()
				asleep++
				most = max(most, asleep)
				mu.Unlock()
				select {
				case <-ctx.Done():
				case <-time.After(time.Hour):
				}
				mu.Lock()
				asleep--
				mu.Unlock()
				return "", ctx.Err()
			})
			AddTool(s, Tool{Name: "fast"}, func(ctx context.Context, _ struct{}) (string, error) { return "fast", nil })
			c := serve(t, s)
			c.initialize("2025-11-25", "{}")
			c.send(strings.TrimSuffix(callLines(1, tt.n, "slow", "{}"), "\n"))
			begun := time.Now()
			fast := []string{`{"jsonrpc":"2.0","id":-1,"method":"ping"}`, `{"jsonrpc":"2.0","id":-2,"method":"tools/list"}`}
			if tt.max == 0 {
				fast = append(fast, strings.TrimSuffix(callLine(-3, "fast", "{}"), "\n"))
			}
			for i, line := range fast {
				c.send(line)
				if got := c.recv(); len(got) != 1 || !strings.HasPrefix(got[0], fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result"`, -1-i)) {
					t.Fatalf("%s: got %.200q", line, got)
				}
			}
			if want := cmp.Or(tt.max, tt.n); most != want || time.Since(begun) > maxInline {
				t.Errorf("%d were asleep at once, want %d; it took %v", most, want, time.Since(begun))
			}
			c.in.Close()
			if err := <-c.done; err != nil {
				t.Errorf("Serve: %v", err)
			}
			wantAnswered(t, strings.Join(c.recv(), "\n")+"\n", 1, tt.n, toldClosed)
			if time.Since(begun) > maxInline {
				t.Errorf("the end took %v", time.Since(begun))
			}
		})
	}
}

// ---- many ----

// With MaxConcurrent, calls wait in the order of their arrival, and nothing
// else waits.
func TestMaxConcurrentServesInOrderOfArrival(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) { // order of arrival; cancel of a queued one
		s.MaxConcurrent = 1
		c := serve(t, &s.Server)
		begun := time.Now()
		for _, id := range []string{"1", "2", "3", "4", "5"} {
			c.send(modernCall(id, "sleep1"))
		}
		time.Sleep(maxInline)
		s.ran(t, "1")
		c.send(pingLine, `{"jsonrpc":"2.0","id":"l","method":"tools/list","params":{"_meta":{`+modernMeta+`}}}`, cancelling("3"))
		if got := c.recv(); len(got) != 2 || !sameJSON(t, got[0], pongLine) || !strings.Contains(got[1], `"id":"l"`) {
			t.Errorf("while the queue is full: %.100q", got)
		}
		c.send(modernCall("3", "hi")) // its id is free, its place is not
		for i, id := range []string{"1", "2", "4", "5"} {
			time.Sleep(time.Until(begun.Add(time.Duration(i+1)*time.Second - 1)))
			c.want()
			time.Sleep(1)
			if id == "5" {
				c.want(modernSaid("5", "slept"), modernSaid("3", "hi"))
			} else {
				c.want(modernSaid(id, "slept"))
			}
		}
		s.ran(t, "2", "4", "5", "3")
		c.end()
	})
	bubble(t, func(t *testing.T, s *stage) { // never more than three
		s.MaxConcurrent = 3
		running, most := 0, 0
		var mu sync.Mutex
		add(&s.Server, "count", func(ctx context.Context) (string, error) {
			mu.Lock()
			running++
			most = max(most, running)
			mu.Unlock()
			time.Sleep(time.Second)
			mu.Lock()
			running--
			mu.Unlock()
			return "", nil
		})
		c := serve(t, &s.Server)
		c.send(listenLine) // which counts for nothing
		c.recv()
		for i := range 9 {
			c.send(modernCall(strconv.Itoa(i), "count"))
		}
		c.send(cancelling(`"sub"`)) // whose end lets nobody in
		for range 3 {
			if time.Sleep(time.Second); len(c.recv()) != 3 {
				t.Error("not three at a time")
			}
		}
		if most != 3 {
			t.Errorf("%d at once", most)
		}
		c.end()
	})
	for _, end := range []func(*client){func(c *client) { c.in.Close() }, func(c *client) { c.cancel(ErrClosed) }} {
		bubble(t, func(t *testing.T, s *stage) { // the queue at the end
			s.MaxConcurrent = 1
			c := serve(t, &s.Server)
			var want []string
			for i := range 10 {
				c.send(modernCall(strconv.Itoa(i), "wait"))
				want = append(want, modernFailed(strconv.Itoa(i), ErrClosed.Error()))
			}
			c.want()
			end(c)
			c.ends(0, nil)
			c.got = slices.Sorted(slices.Values(c.recv()))
			c.want(want...)
			s.saw(t, ErrClosed)
			s.ran(t, "0") // the others are answered, and not begun
		})
	}
	for _, dies := range []string{"panic", "nil", "goexit"} {
		bubble(t, func(t *testing.T, s *stage) {
			s.MaxConcurrent = 1
			c := serve(t, &s.Server)
			c.send(modernCall("1", dies), modernCall("2", dies), modernCall("3", "hi"))
			c.want(modernFailed("1", "Internal error"), modernFailed("2", "Internal error"), modernSaid("3", "hi"))
			c.end()
		})
	}
	bubble(t, func(t *testing.T, s *stage) { // ErrDrain with a queue
		s.MaxConcurrent = 1
		c := serveWire(t, &s.Server)
		c.send(modernCall("1", "deaf"))
		for i := range 50 {
			c.send(modernCall(strconv.Itoa(i+2), "hi"))
		}
		c.send(cancelling("5"), modernCall("5", "hi"))
		synctest.Wait()
		c.in.Close()
		if err := c.over(time.Second); !errors.Is(err, ErrDrain) || !strings.HasSuffix(err.Error(), ": tools/call deaf (id 1)") {
			t.Errorf("Serve: %v", err)
		}
		s.ran(t, "1")
		close(s.release)
		s.ran(t)
		if got := c.recv(); c.tries != 1 || len(got) != 50 || strings.Count(strings.Join(got, ""), ErrClosed.Error()) != 50 {
			t.Errorf("%d writes: %q", c.tries, c.writes)
		}
	})
}

// To cancel what waits for its turn takes a time of its own, and not of all that
// wait.
func TestCancelsOfWaitingRequestsAreLinear(t *testing.T) {
	took := func(n int) time.Duration {
		s := newStage(t)
		s.MaxConcurrent = 1
		c := serve(t, &s.Server)
		c.send(modernCall("0", "wait"))
		for i := range n {
			c.send(modernCall(strconv.Itoa(i+1), "hi"))
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
		c.in.Close()
		<-c.done
		return d
	}
	mustBeLinear(t, 2000, took)
}

// mustBeLinear fails if 8n of something take much more than eight times as long as
// n of it.
func mustBeLinear(t *testing.T, n int, took func(n int) time.Duration) {
	t.Helper()
	few, many := took(n), took(8*n)
	for range 10 { // whoever else is at work may have been in the way
		if many < 24*max(few, time.Millisecond) {
			return
		}
		few, many = min(few, took(n)), min(many, took(8*n))
	}
	t.Errorf("%d took %v, %d took %v", n, few, 8*n, many)
}

// A message of many blocks is written down in a time that grows as they do.
func TestManyBlocksAreLinear(t *testing.T) {
	took := func(n int) time.Duration {
		blocks := slices.Repeat([]Content{{Type: "tool_use", ToolUse: &ToolUse{ID: "a", Name: "b", Input: json.RawMessage(`{"a":"` + strings.Repeat("x", 100) + `"}`)}}}, n)
		begun := time.Now()
		if _, err := appendSampleBlocks(blocks, newest); err != nil {
			t.Error(err)
		}
		return time.Since(begun)
	}
	mustBeLinear(t, 1000, took)
}

// Ten servers at work at once have nothing in common.
func TestServersShareNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var wg sync.WaitGroup
		clients := make([]*client, 10)
		for n := range clients {
			s, name := &Server{}, "server"+strconv.Itoa(n)
			add(s, name, func(context.Context) (string, error) { return name, nil })
			clients[n] = serve(t, s)
			wg.Go(func() {
				for id := range 20 {
					clients[n].send(modernCall(strconv.Itoa(id), name), modernCall(strconv.Itoa(id+100), "server"+strconv.Itoa((n+1)%10)))
				}
				clients[n].in.Close()
			})
		}
		wg.Wait()
		for n, c := range clients {
			mine, unknown, all := 0, 0, c.recv()
			for _, line := range all {
				if strings.Contains(line, `"text":"server`+strconv.Itoa(n)+`"`) {
					mine++
				} else if strings.Contains(line, "Unknown tool") {
					unknown++
				}
			}
			if mine != 20 || unknown != 20 || len(all) != 40 {
				t.Errorf("server%d: %d of its own, %d unknown, %d", n, mine, unknown, len(all))
			}
			c.ends(0, nil)
		}
	})
}

// Sessions of one Server are told of its changes, and know nothing of each
// other's requests.
func TestSessionsOfOneServerShareOnlyItsLists(t *testing.T) {
	const changed = `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`
	bubble(t, func(t *testing.T, s *stage) {
		add(&s.Server, "who", func(ctx context.Context) (string, error) {
			_, err := Roots(ctx, "k")
			return "", err
		})
		cs := make([]*client, 5)
		for i := range cs {
			cs[i] = serve(t, &s.Server)
			cs[i].initialize("2025-11-25", `{"roots":{}}`)
			cs[i].send(legacyCall("1", "wait")) // the same id everywhere
			cs[i].send(legacyCall("2", "who"))
			cs[i].want(`{"jsonrpc":"2.0","id":1,"method":"roots/list","params":{}}`)
		}
		add(&s.Server, "new", func(context.Context) (string, error) { return "", nil })
		for _, c := range cs {
			c.want(changed)
		}
		cs[0].send(cancelling("1")) // its own alone
		s.saw(t, stopped)
		cs[1].send(`{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"no"}}`)
		cs[1].want(`{"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"mcp: the client answered with an error: no (1)"}],"isError":true}}`)
		cs[2].in.Close()
		cs[2].ends(0, nil)
		cs[2].recv()
		s.saw(t, ErrClosed)
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

// Tools may be added, removed, listed and called all at once.
func TestToolsMayComeAndGoWhileServing(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) {
		c := serve(t, &s.Server)
		c.initialize("2025-11-25", "{}")
		c.send(listenLine)
		var wg sync.WaitGroup
		for n := range 4 {
			wg.Go(func() {
				for i := range 50 {
					name := fmt.Sprintf("t%d%d", n, i%5)
					add(&s.Server, name, func(context.Context) (string, error) { return name, nil })
					s.RemoveTools(name)
				}
			})
		}
		wg.Go(func() {
			for i := range 100 {
				id := strconv.Itoa(2*i + 1)
				c.send(`{"jsonrpc":"2.0","id":`+id+`,"method":"tools/list"}`, legacyCall(strconv.Itoa(2*i+2), fmt.Sprintf("t1%d", i%5)))
			}
		})
		wg.Wait()
		answers := 0
		for _, line := range c.recv() {
			if strings.HasPrefix(line, `{"jsonrpc":"2.0","id":`) {
				answers++
			}
		}
		if answers != 200 {
			t.Errorf("%d answers, want 200", answers)
		}
		c.in.Close()
		c.ends(0, nil)
	})
}

// ---- the client that does not read ----

// Of a client that does not read no more is taken than the bound, and nothing
// is lost when it reads.
func TestAClientThatDoesNotReadIsWaitedFor(t *testing.T) {
	// fill sends for lists of a MiB until more is unsent than the bound, and a call.
	fill := func(s *stage) (c *client) {
		AddTool(&s.Server, Tool{Name: "big", Description: strings.Repeat("x", 1<<20)}, func(context.Context, struct{}) (string, error) { return "", nil })
		c = serveUnread(s.t, &s.Server)
		for i := range 15 {
			c.send(`{"jsonrpc":"2.0","id":` + strconv.Itoa(i) + `,"method":"tools/list","params":{"_meta":{` + modernMeta + `}}}`)
		}
		c.send(modernCall("0", "hi"))
		s.ran(s.t, "0")
		c.send(`{"jsonrpc":"2.0","id":15,"method":"tools/list","params":{"_meta":{` + modernMeta + `}}}`)
		c.send(modernCall("16", "hi"))
		s.ran(s.t)
		return c
	}
	bubble(t, func(t *testing.T, s *stage) { // is heard
		c := serveUnread(t, &s.Server)
		c.send(modernCall("0", "hi")) // from here on somebody is stuck in a Write
		for i := range 10 {
			c.send(modernCall(strconv.Itoa(i+1), "wait"))
		}
		synctest.Wait()
		for i := range 10 {
			c.send(cancelling(strconv.Itoa(i + 1)))
		}
		s.saw(t, slices.Repeat([]error{stopped}, 10)...)
		go c.listen()
		c.want(modernSaid("0", "hi"))
		c.end()
	})
	bubble(t, func(t *testing.T, s *stage) { // EOF above the bound
		c := fill(s)
		c.in.Close()
		err := c.over(1100 * time.Millisecond)
		if !errors.Is(err, ErrDrain) || !strings.HasSuffix(err.Error(), "the client did not read in time what was written") {
			t.Errorf("Serve: %v", err)
		}
		s.ran(t)
	})
	bubble(t, func(t *testing.T, s *stage) { // ctx above the bound
		c := fill(s)
		c.cancel(nil)
		c.ends(1100*time.Millisecond, ErrDrain)
		s.ran(t)
	})
	bubble(t, func(t *testing.T, s *stage) { // it goes away above the bound
		c := fill(s)
		c.out.Close()
		c.ends(0, nil)
		s.ran(t)
	})
	for _, eof := range []bool{false, true} {
		if eof && raceBuild() { // which is slow with bytes
			continue
		}
		bubble(t, func(t *testing.T, s *stage) { // it reads at last
			c := fill(s)
			if c.send(modernCall("17", "hi")); eof {
				c.in.Close()
				time.Sleep(time.Second / 2)
			}
			go func() {
				for lines := bufio.NewReaderSize(c.out, 1<<20); ; {
					line, err := lines.ReadString('\n')
					if err != nil {
						return
					}
					c.mu.Lock()
					c.got = append(c.got, line)
					c.mu.Unlock()
				}
			}()
			got := c.recv()
			var ids []string
			for _, line := range got {
				id, _, _ := strings.Cut(strings.TrimPrefix(line, `{"jsonrpc":"2.0","id":`), ",")
				ids = append(ids, id)
			}
			if len(ids) == 19 {
				slices.Sort(ids[17:]) // two that ran at once
			}
			if got := strings.Join(ids, " "); got != "0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 0 15 16 17" {
				t.Errorf("answered: %s", got)
			}
			c.end()
		})
	}
}

// A Progress that waits for the client to read is woken by all that ends it.
func TestABlockedProgressIsWokenByEveryEnd(t *testing.T) {
	boom := errors.New("boom")
	for _, row := range []struct {
		event func(*client)
		cause error
		lasts time.Duration // of Serve; the client never reads
		err   error
	}{
		{func(c *client) { c.send(cancelling("1")); synctest.Wait(); c.in.Close() }, stopped, 1100 * time.Millisecond, ErrDrain},
		{func(c *client) { c.in.Close() }, ErrClosed, 1100 * time.Millisecond, ErrDrain},
		{func(c *client) { c.cancel(boom) }, boom, 1100 * time.Millisecond, ErrDrain},
		{func(c *client) { c.out.Close() }, ErrClosed, 0, nil},
		{func(c *client) { c.out.CloseWithError(boom) }, boom, 0, boom},
	} {
		bubble(t, func(t *testing.T, s *stage) {
			add(&s.Server, "tell", func(ctx context.Context) (string, error) {
				Progress(context.WithoutCancel(ctx), 1, 0, "")
				<-ctx.Done() // a broken w is known to Progress a moment before
				s.causes = append(s.causes, context.Cause(ctx))
				return "told", nil
			})
			c := serveUnread(t, &s.Server)
			c.send(modernCall("1", "tell", `"progressToken":1`))
			time.Sleep(time.Hour)
			s.saw(t)
			row.event(c)
			s.saw(t, row.cause)
			c.ends(row.lasts, row.err)
		})
	}
	bubble(t, func(t *testing.T, s *stage) { // and by its being read
		c := serveUnread(t, &s.Server)
		c.send(modernCall("1", "sleep1", `"progressToken":1`))
		time.Sleep(time.Hour)
		go c.listen()
		c.want(progressLine("1", "1"), modernSaid("1", "slept"))
		c.end()
	})
}

// What the reader hears above the bound does not pile up where it was taken.
func TestInputReadAheadIsBounded(t *testing.T) {
	line := strings.Repeat("x", 999) + "\n"
	in := lineReader{r: endless(line), limit: 1 << 20}
	ahead(&in)
	for range 100_000 { // always a line ahead
		ahead(&in)
		if got, tail, err := in.next(); len(got) != 999 || tail != nil || err != nil {
			t.Fatalf("line of %d bytes, %v", len(got), err)
		}
	}
	if cap(in.buf) > aheadBound {
		t.Errorf("%d bytes are kept for %d", cap(in.buf), len(in.buf))
	}
}

// An endless Reader gives the same each time.
type endless string

func (e endless) Read(b []byte) (int, error) { return copy(b, e), nil }

// A client that writes and does not read costs bounded memory,
// and misses nothing when it reads at last.
func TestProcAFloodCostsBoundedMemory(t *testing.T) {
	pings, n, size, bound := 50_000, 40_000, 2000, uint64(220) // MiB; without the bound, calls need 350
	if longRun() {
		pings, n, bound = 100_000, 100_000, 220 // calls need 320 and more
	}
	if raceBuild() { // fewer, as all of them might be at work at once
		pings, n, size, bound = 20_000, 7000, 20_000, 220
	}
	for _, tt := range []struct {
		name string
		n    int
		line func(id int) string
	}{
		{"pings", pings, pingLineOf},
		{"calls", n, func(id int) string { return callLine(id, "big", fmt.Sprintf(`{"Size":%d}`, size)) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := beginProc(t)
			var sent atomic.Int64
			stuck := &stuckWriter{File: p.in, stuck: make(chan struct{})}
			go func() {
				w := bufio.NewWriterSize(stuck, 1<<12)
				for id := range tt.n {
					w.WriteString(tt.line(id + 1))
					sent.Add(1)
				}
				w.Flush()
				stuck.once.Do(func() { close(stuck.stuck) }) // or through
				p.in.Close()
			}()
			<-stuck.stuck
			last := sent.Load()
			seen, count := make([]bool, tt.n+1), 0
			for {
				line, err := p.lines.ReadSlice('\n')
				if err != nil {
					if err != io.EOF {
						t.Error(err)
					}
					break
				}
				digits, _, _ := strings.Cut(strings.TrimPrefix(string(line[:40]), `{"jsonrpc":"2.0","id":`), ",")
				id, err := strconv.Atoi(digits)
				if err != nil || id < 1 || id > tt.n || seen[id] {
					t.Fatalf("unexpected, or twice: %.200s", line)
				}
				seen[id] = true
				count++
			}
			if count != tt.n {
				t.Errorf("%d of %d answers", count, tt.n)
			}
			rep := p.wait("exit status 0")
			t.Logf("stuck after %d of %d; %d MiB", last, tt.n, rep.Sys>>20)
			if rep.Sys > bound<<20 {
				t.Errorf("the server took %d MiB", rep.Sys>>20)
			}
		})
	}
}

// A stuckWriter tells when a write has taken so long that nobody reads. (A write deadline would not
// do: pipes on Windows have none.)
type stuckWriter struct {
	*os.File
	once  sync.Once
	stuck chan struct{}
}

func (w *stuckWriter) Write(b []byte) (int, error) {
	timer := time.AfterFunc(300*time.Millisecond, func() { w.once.Do(func() { close(w.stuck) }) })
	defer timer.Stop()
	return w.File.Write(b)
}

// ---- asking the client ----

// What the client answers is a list of roots, its error, or said to make no
// sense.
func TestAnswersOfAllShapesEndTheirQuestion(t *testing.T) {
	const ask = `< {"jsonrpc":"2.0","id":1,"method":"roots/list","params":{}}` + "\n"
	none := said("1", "[]")
	for _, tt := range []struct{ name, answer, want string }{
		{"roots", `"result":{"roots":[{"uri":"file:///a","name":"A","_meta":{}},{"uri":"file:///b"}],"x":1}`, said("1", `[{file:///a A} {file:///b }]`)},
		{"no roots", `"result":{"roots":[]}`, none},
		{"an error", `"error":{"code":-32601,"message":"Method not found"}`, failed("1", "mcp: the client answered with an error: Method not found (-32601)")},
		{"an error of no shape", `"error":"x"`, failed("1", "mcp: the client answered with an error:  ()")},
		{"a null error", `"result":{"roots":[]},"error":null`, none},
		{"a null error first", `"error":null,"result":{"roots":[]}`, none},
		{"both", `"result":{"roots":[]},"error":{"code":1,"message":"m"}`, failed("1", "mcp: the client answered with an error: m (1)")},
		{"no object", `"result":5`, "makes no sense"},
		{"nothing", `"result":null`, "makes no sense"},
		{"no member", `"result":{}`, "makes no sense"},
		{"null", `"result":{"roots":null}`, "makes no sense"},
		{"no list", `"result":{"roots":{}}`, "makes no sense"},
		{"no root", `"result":{"roots":[7]}`, "makes no sense"},
		{"no URI", `"result":{"roots":[{"uri":7}]}`, "makes no sense"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := &Server{}
			AddTool(s, Tool{Name: "ask"}, func(ctx context.Context, _ struct{}) (string, error) {
				roots, err := Roots(ctx, "k")
				return fmt.Sprint(roots), err
			})
			synctest.Test(t, func(t *testing.T) {
				c := serve(t, s)
				c.initialize(legacyPV, `{"roots":{"listChanged":true}}`)
				c.talk("> " + call("1", "ask", "{}") + "\n" + ask)
				c.send(`{"jsonrpc":"2.0","id":"1","result":{"roots":[]}}`) // an id of another type: nobody's
				c.want()
				c.send(`{"jsonrpc":"2.0","id":1,` + tt.answer + `}`)
				if tt.want[0] == '{' {
					c.want(tt.want)
				} else if got := c.recv(); len(got) != 1 || !strings.Contains(got[0], `"isError":true`) || !strings.Contains(got[0], tt.want) {
					t.Errorf("got %q", got)
				}
				c.send(`{"jsonrpc":"2.0","id":1,"result":{"roots":[]}}`) // once more: nobody's
				c.end()
			})
		})
	}
}

// Who cannot be asked is not asked.
func TestWhoCannotBeAskedIsNotAsked(t *testing.T) {
	s := &Server{}
	AddTool(s, Tool{Name: "ask"}, func(ctx context.Context, _ none) (string, error) {
		_, err := Roots(ctx, "k")
		if _, outside := Roots(context.Background(), "k"); !errors.Is(outside, errors.ErrUnsupported) {
			t.Error("outside of a handler:", outside)
		}
		return fmt.Sprint(errors.Is(err, errors.ErrUnsupported)), nil
	})
	AddTool(s, Tool{Name: "fail"}, func(ctx context.Context, _ none) (string, error) {
		_, err := Roots(ctx, "k")
		return "", err
	})
	synctest.Test(t, func(t *testing.T) {
		c := serve(t, s)
		c.initialize(legacyPV, `{"Roots":{},"sampling":{"roots":{}}}`)
		c.talk(`
			> ` + call("1", "ask", "{}") + `
			< ` + said("1", "true") + `
			> ` + call("2", "fail", "{}") + `
			< ` + failed("2", "This request needs the roots capability, which this client does not have") + `
			> {"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"fail","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"sampling":{}}}}}
			< {"jsonrpc":"2.0","id":3,"error":{"code":-32021,"message":"This request needs the roots capability, which this client does not have","data":{"requiredCapabilities":{"roots":{}}}}}`)
		c.end()
	})
}

// Many handlers may ask at once, and each gets its own answer.
func TestEachQuestionGetsItsOwnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := serve(t, demo())
		c.initialize(legacyPV, `{"roots":{}}`)
		for i := range 10 {
			c.send(call(fmt.Sprint(100+i), "ask", "{}"))
			c.want(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"roots/list","params":{}}`, i+1))
		}
		for i := 9; i >= 0; i-- {
			c.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{"roots":[{"uri":"file:///%d"}]}}`, i+1, i))
			root := fmt.Sprintf(`[{"uri":"file:///%d"}]`, i)
			c.want(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":%s}],"structuredContent":{"result":%s}}}`, 100+i, quote(root), root))
		}
		c.end()
	})
}

// Our ids and the client's are two things, ours never come again, and answers
// find their question in any order.
func TestOurIDsAndTheClientsAreTwoThings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := serve(t, asker(func(ctx context.Context) (string, error) {
			var wg sync.WaitGroup
			said := make([]string, 3)
			for i := range said {
				wg.Go(func() {
					time.Sleep(time.Duration(i)) // so that the ids are in order
					roots, err := Roots(ctx, "same")
					said[i] = fmt.Sprint(len(roots), err)
				})
			}
			wg.Wait()
			return strings.Join(said, ";"), nil
		}))
		c.initialize("2025-11-25", everyCap)
		c.send(callTheAsker(2)) // as is one of ours
		time.Sleep(3)
		c.want(questionLine(1, "roots/list", "{}"), questionLine(2, "roots/list", "{}"), questionLine(3, "roots/list", "{}"))
		c.send(answer(2, `{"roots":[{"uri":"file:///x"}]}`))
		c.want()
		c.send(callTheAsker(3))
		time.Sleep(3)
		c.want(questionLine(4, "roots/list", "{}"), questionLine(5, "roots/list", "{}"), questionLine(6, "roots/list", "{}"))
		for _, id := range []int{5, 4, 3, 1, 6} {
			c.send(answer(id, `{"roots":[]}`))
		}
		if got := c.recv(); len(got) != 2 || !slices.Contains(got, said(2, "0 <nil>;1 <nil>;0 <nil>")) || !slices.Contains(got, said(3, "0 <nil>;0 <nil>;0 <nil>")) {
			t.Errorf("got %q", got)
		}
		c.send(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"ask"}}`)
		time.Sleep(3)
		c.want(questionLine(7, "roots/list", "{}"), questionLine(8, "roots/list", "{}"), questionLine(9, "roots/list", "{}"))
		c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":8}}`) // ours, so not theirs to cancel
		c.want()
		c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`)
		if got := c.recv(); len(got) != 3 || !slices.Contains(got, withdrawn(7)) || !slices.Contains(got, withdrawn(8)) || !slices.Contains(got, withdrawn(9)) {
			t.Errorf("got %q", got)
		}
		c.end()
	})
	seen := make(map[string]bool)
	synctest.Test(t, func(t *testing.T) {
		c := serve(t, asker(askURL))
		c.initialize("2025-11-25", everyCap)
		for id := 1; id <= 100; id++ {
			c.send(callTheAsker(id))
			var m struct {
				Params struct{ ElicitationID string }
			}
			got := c.recv()
			if err := json.Unmarshal([]byte(got[0]), &m); err != nil || m.Params.ElicitationID == "" || seen[m.Params.ElicitationID] {
				t.Fatalf("%q: no id of its own", got)
			}
			seen[m.Params.ElicitationID] = true
			c.send(answer(id, `{"action":"accept"}`))
			c.want(said(id, "agreed"))
		}
		c.end()
	})
}

// A question that is given up on is taken back: by its own context, and when
// the client cancels the request for which it was asked.
func TestQuestionsGivenUpAreTakenBack(t *testing.T) {
	s := &Server{}
	AddTool(s, Tool{Name: "impatient"}, func(ctx context.Context, _ none) (string, error) {
		ctx, cancel := context.WithTimeoutCause(ctx, time.Second, errors.New("no patience"))
		defer cancel()
		_, err := Roots(ctx, "k")
		return "", err
	})
	AddTool(s, Tool{Name: "patient"}, func(ctx context.Context, _ none) (string, error) {
		_, err := Roots(context.WithoutCancel(ctx), "k")
		return "", err
	})
	asked := func(id int) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"roots/list","params":{}}`, id)
	}
	takenBack := func(id int) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d,"reason":"no longer needed"}}`, id)
	}
	synctest.Test(t, func(t *testing.T) {
		c := serve(t, s)
		c.initialize(legacyPV, `{"roots":{}}`)
		c.send(call("7", "impatient", "{}"))
		c.want(asked(1))
		time.Sleep(time.Second) // by the clock of the bubble
		c.want(takenBack(1), failed("7", "no patience"))
		c.send(`{"jsonrpc":"2.0","id":1,"result":{"roots":[]}}`)
		c.want() // too late

		for i, tool := range []string{"impatient", "patient"} {
			c.send(call("8", tool, "{}"))
			c.want(asked(i + 2))
			c.forget("8")
			c.want(takenBack(i + 2))
		}

		// When the client is gone nothing is taken back.
		c.send(call("9", "patient", "{}"))
		c.want(asked(4))
		c.in.Close()
		if err := <-c.done; err != nil {
			t.Error("Serve:", err)
		}
		c.want(failed("9", ErrClosed.Error()))
	})
}

// How a question of the older revisions ends without an answer that counts.
func TestQuestionsEndWithoutAnAnswer(t *testing.T) {
	q := questionLine(1, "elicitation/create", confirmAsk)
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
			c.want(withdrawn(1), said(1, "error: context deadline exceeded"))
			c.send(answer(1, confirmYes)) // too late
		}},
		"own cause": {func(ctx context.Context) (string, error) {
			ctx, stop := context.WithTimeoutCause(ctx, time.Minute, errors.New("lunch"))
			defer stop()
			return askOnce(ctx)
		}, func(c *client) {
			time.Sleep(time.Minute)
			c.want(withdrawn(1), said(1, "error: lunch"))
		}},
		"cancelled": {askOnce, func(c *client) {
			c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"reason":"bored"}}`)
			c.want(withdrawn(1))
			c.send(answer(1, confirmYes))
		}},
		"cancelled, own context": {func(ctx context.Context) (string, error) { return askOnce(context.WithoutCancel(ctx)) }, func(c *client) {
			c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
			c.want(withdrawn(1))
		}},
		"asked after the cancel": {func(ctx context.Context) (string, error) {
			askOnce(ctx)
			askOnce(context.WithoutCancel(ctx))
			Progress(ctx, 1, 1, "")
			return "", nil
		}, func(c *client) {
			c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"reason":"bored"}}`)
			c.want(withdrawn(1))
		}},
		"answer before the cancel": {askOnce, func(c *client) {
			c.send(answer(1, confirmYes), `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
			if got := c.recv(); len(got) > 1 || len(got) == 1 && !sameJSON(c.t, got[0], said(1, "true")) {
				c.t.Errorf("got %q", got)
			}
		}},
		"error": {askOnce, func(c *client) {
			c.send(`{"jsonrpc":"2.0","id":1,"error":{"code":-32042,"message":"no \"thanks\"","data":[]}}`)
			c.want(said(1, `error: mcp: the client answered with an error: no "thanks" (-32042)`))
			c.send(answer(1, confirmYes))
		}},
		"error that is none": {askOnce, func(c *client) {
			c.send(`{"jsonrpc":"2.0","id":1,"error":"no"}`)
			c.want(said(1, `error: mcp: the client answered with an error:  ()`))
		}},
		"result null": {askOnce, badResult("null")},
		"result 5":    {askOnce, badResult("5")},
		"result []":   {askOnce, badResult("[]")},
		"result text": {askOnce, badResult(`"accept"`)},
		"roots null":  {askRoots, badResult("null")},
		"roots []":    {askRoots, badResult("[]")},
		"sample null": {askModel(sampleOf(Text("hi"))), badResult("null")},
		"sample text": {askModel(sampleOf(Text("hi"))), badResult(`"yo"`)},
		"strange ids": {askOnce, func(c *client) {
			for _, id := range []string{`"1"`, `1.0`, `2`, `0`, `-1`, `null`, `[1]`, `""`, `"init"`} {
				c.send(answer(id, confirmYes))
			}
			c.want()
			c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"1"}}`) // an id of neither side
			c.want()
			c.send(answer(1, confirmYes), answer(1, `{"action":"decline"}`))
			c.want(said(1, "true"))
		}},
		"EOF":              {askOnce, hangUp},
		"EOF, own context": {func(ctx context.Context) (string, error) { return askOnce(context.WithoutCancel(ctx)) }, hangUp},
		"asked after EOF": {func(ctx context.Context) (string, error) {
			askOnce(ctx)
			return askOnce(context.WithoutCancel(ctx))
		}, hangUp},
		"end of Serve's context": {askOnce, func(c *client) {
			c.cancel(errors.New("closing time"))
			got := c.recv() // it may say that it no longer asks
			if len(got) > 1 && got[0] == withdrawn(1) {
				got = got[1:]
			}
			if len(got) != 1 || !sameJSON(c.t, got[0], said(1, "error: closing time")) {
				c.t.Errorf("got %q", got)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := asker(test.ask)
				c := serve(t, s)
				c.initialize("2025-11-25", everyCap)
				c.send(callTheAsker(1))
				if got := c.recv(); len(got) != 1 || !strings.Contains(got[0], `"id":1,"method":`) || strings.Contains(got[0], "elicit") && !sameJSON(t, got[0], q) {
					t.Fatalf("got %q", got)
				}
				test.play(c)
				for _, open := range s.openSessions() {
					if synctest.Wait(); len(open.pending) > 0 {
						t.Errorf("%d questions are kept", len(open.pending))
					}
				}
				c.end()
			})
		})
	}
}

func badResult(result string) func(*client) {
	return func(c *client) {
		c.send(answer(1, result))
		if got := c.recv(); len(got) != 1 || !regexp.MustCompile(`"error: mcp: [a-z/A-Z]+: .*`+regexp.QuoteMeta(strings.ReplaceAll(result, `"`, `\"`))+`"`).MatchString(got[0]) {
			c.t.Errorf("got %q", got)
		}
	}
}

func hangUp(c *client) {
	before := time.Now()
	c.in.Close()
	c.want(said(1, "closed"))
	if time.Since(before) != 0 {
		c.t.Error("that took its time")
	}
}

// A question that cannot be answered in time is not asked, after EOF it fails
// at once also while handlers linger, and nobody is asked outside of a handler.
func TestAQuestionThatCannotBeAnsweredIsNotAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := asker(func(ctx context.Context) (string, error) {
			late, stop := context.WithCancelCause(ctx)
			stop(errors.New("too late"))
			text, _ := askOnce(late)
			time.Sleep(time.Second) // EOF comes here
			start := time.Now()
			text2, _ := askOnce(ctx)
			return fmt.Sprint(text, ", ", text2, ", ", ctx.Err(), time.Since(start)), nil
		})
		s.Linger = time.Hour
		c := serve(t, s)
		c.initialize("2025-11-25", everyCap)
		c.send(callTheAsker(1))
		c.want()
		c.in.Close()
		time.Sleep(time.Second)
		c.want(said(1, "error: too late, closed, <nil> 0s"))
		c.end()
		for _, ask := range []askFunc{askOnce, askURL, askRoots, askByHand, askModel(sampleOf(Text("hi")))} {
			if text, err := ask(t.Context()); text != "" || !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "outside of a handler") {
				t.Errorf("outside of a handler: %q, %v", text, err)
			}
		}
	})
}

// A question on a goroutine that outlives its request must not start a writer
// when the drain waiter may be through: "WaitGroup is reused before previous
// Wait has returned" would end the process.
func TestAStrayQuestionStartsNoWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &session{srv: &Server{}, pending: make(map[string]chan reply), closing: make(chan struct{})}
		c.out.w = io.Discard
		c.ctx = t.Context()
		r := &request{session: c, id: []byte("1")}
		r.ctx, r.cancel = context.WithCancelCause(c.ctx)
		c.requests = map[string]*request{"1": r}
		go c.ask(t.Context(), r, "roots/list", "{}")
		synctest.Wait()
		c.stopAccepting() // EOF, and wakeWaiters is still to come
		written := c.out.added
		r.cancel(nil) // its handler returns
		if synctest.Wait(); written == 0 || c.out.added != written {
			t.Errorf("%d bytes, and then %d", written, c.out.added-written)
		}
	})
}

// A handler's context that somebody keeps ends when the handler returns, whether
// or not it was looked at before.
func TestAKeptContextEndsWithItsRequest(t *testing.T) {
	for _, early := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			type key struct{}
			var kept context.Context
			s := &Server{Name: "demo", Version: "1.0.0"}
			AddTool(s, Tool{Name: "keep"}, func(ctx context.Context, _ struct{}) (string, error) {
				if kept = ctx; early && ctx.Err() != nil {
					t.Error(ctx.Err())
				}
				return "", nil
			})
			r, in := io.Pipe()
			out, w := io.Pipe()
			done := make(chan error, 1)
			deadline := time.Now().Add(time.Hour)
			ctx, cancel := context.WithDeadline(context.WithValue(t.Context(), key{}, "theirs"), deadline)
			defer cancel()
			go func() { done <- s.Serve(ctx, r, w) }()
			go io.Copy(io.Discard, out)
			io.WriteString(in, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"keep","arguments":{},"_meta":{`+modernMeta+`}}}`+"\n")
			synctest.Wait()
			child, cancel := context.WithCancel(kept)
			defer cancel()
			if kept.Err() != context.Canceled || context.Cause(child) != context.Canceled || kept.Value(key{}) != "theirs" || RequestFrom(child) == nil {
				t.Errorf("%v, %v, %v, %v", kept.Err(), context.Cause(child), kept.Value(key{}), RequestFrom(child))
			}
			if until, ok := kept.Deadline(); !ok || !until.Equal(deadline) {
				t.Errorf("deadline %v, %v", until, ok)
			}
			in.Close()
			if err := <-done; err != nil {
				t.Error(err)
			}
			w.Close()
		})
	}
}

// Fifty handlers ask without end, also with contexts and on goroutines that
// outlive their requests, until the client goes away in the middle.
func TestFiftyHandlersMayAskWithoutEnd(t *testing.T) {
	const handlers = 50
	var mu sync.Mutex
	var ends []error
	valid := func(t *testing.T, lines []string) {
		for _, line := range lines {
			if !json.Valid([]byte(line)) || !strings.HasPrefix(line, `{"jsonrpc":"2.0",`) {
				t.Errorf("not a message: %q", line)
			}
		}
	}
	check := func(t *testing.T) {
		if len(ends) != handlers || slices.ContainsFunc(ends, func(err error) bool { return err != ErrClosed }) {
			t.Errorf("%d handlers were told %v", len(ends), ends)
		}
		ends = nil
	}
	t.Run("legacy", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := serve(t, asker(func(ctx context.Context) (string, error) {
				own := context.WithoutCancel(ctx)
				for i := 0; ; i++ {
					if i%3 == 1 {
						go confirm(own, "stray")
					}
					_, err := Roots([]context.Context{ctx, own}[i%2], "k")
					if err != nil {
						mu.Lock()
						defer mu.Unlock()
						ends = append(ends, err)
						go confirm(own, "stray")
						return "over", nil
					}
				}
			}))
			c.initialize("2025-11-25", everyCap)
			for id := range handlers {
				c.send(callTheAsker(id))
			}
			asked, want := 0, handlers
			for round := range 20 {
				lines := c.recv()
				valid(t, lines)
				for i, line := range lines {
					var m struct {
						ID     int
						Method string
					}
					json.Unmarshal([]byte(line), &m)
					if asked++; m.Method == "roots/list" && (i+round)%5 != 0 {
						c.send(answer(m.ID, `{"roots":[]}`))
						want++
					}
				}
			}
			if asked < want {
				t.Errorf("%d questions for %d answers", asked, want)
			}
			go c.in.Close() // in the middle of answers
			for id := asked + 10; id > 0; id -= 7 {
				if _, err := io.WriteString(c.in, answer(id, `{"roots":[]}`)+"\n"); err != nil {
					break
				}
			}
			if err := <-c.done; err != nil {
				t.Error(err)
			}
			lines := c.recv()
			valid(t, lines)
			over := 0
			for _, line := range lines {
				if strings.Contains(line, `"over"`) {
					over++
				}
			}
			if over != handlers {
				t.Errorf("%d answers", over)
			}
			check(t)
		})
	})
	t.Run("modern", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := serve(t, asker(func(ctx context.Context) (string, error) {
				for i := range 3 {
					if _, err := Roots(ctx, strconv.Itoa(i)); err != nil {
						return "", err
					}
				}
				<-ctx.Done()
				mu.Lock()
				defer mu.Unlock()
				ends = append(ends, context.Cause(ctx))
				_, err := Roots(ctx, "one more")
				return "", err
			}))
			for id := range handlers {
				c.send(modernRequest(id, "tools/call", `"name":"ask"`, everyCap))
			}
			for round := range 3 {
				lines := c.recv()
				if valid(t, lines); len(lines) != handlers {
					t.Fatalf("got %d lines", len(lines))
				}
				for _, line := range lines {
					var m struct {
						ID     int
						Result struct{ RequestState string }
					}
					json.Unmarshal([]byte(line), &m)
					c.send(modernRequest(m.ID, "tools/call", `"name":"ask"`, everyCap, fmt.Sprintf(`,"inputResponses":{"%d":{"roots":[]}},"requestState":%q`, round, m.Result.RequestState)))
				}
			}
			c.want()
			c.in.Close()
			if err := <-c.done; err != nil {
				t.Error(err)
			}
			lines := c.recv()
			valid(t, lines)
			if len(lines) != handlers || slices.ContainsFunc(lines, func(line string) bool {
				return !strings.Contains(line, `"input_required"`) || strings.Contains(line, `"id":"`)
			}) {
				t.Errorf("got %q", lines)
			}
			check(t)
		})
	})
}

// ---- changes ----

const changed = `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`

func changedOn(id string) string {
	return `{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":` + id + `}}}`
}

// listen opens a stream and sees its acknowledgement.
func (c *client) listenTo(id, filter, honoured string) {
	c.t.Helper()
	c.talk(`
		> {"jsonrpc":"2.0","id":` + id + `,"method":"subscriptions/listen","params":{"notifications":` + filter + `,$META}}
		< {"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":` + id + `},"notifications":` + honoured + `}}`)
}

func (c *client) forget(id string) {
	c.t.Helper()
	c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `}}`)
}

// A change is told to a legacy session once initialized has come, and to each
// stream that has asked for it.
func TestChangesAreToldToWhoWantsThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := demo()
		n := 0
		grow := func() {
			t.Helper()
			n++
			toolAs[none](s, fmt.Sprint("t", n))
		}
		c := serve(t, s)
		grow()
		c.want() // nobody to tell
		c.listenTo("1", `{"toolsListChanged":true}`, `{"toolsListChanged":true}`)
		c.send(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`)
		if got := c.recv(); len(got) != 1 {
			t.Fatalf("got %q", got)
		}
		grow()
		c.want(changedOn("1"))
		grow()
		c.want(changedOn("1"))
		c.talk(`> {"jsonrpc":"2.0","method":"notifications/initialized"}
			< ` + changed + `
			> {"jsonrpc":"2.0","method":"notifications/initialized"}` + ping)
		c.listenTo(`"1"`, `{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true,"x":1}`, `{"toolsListChanged":true}`)
		c.listenTo("2", `{"toolsListChanged":false}`, `{}`)
		c.listenTo("3", `{"promptsListChanged":true}`, `{}`)
		grow()
		got := c.recv()
		slices.Sort(got)
		if want := []string{changedOn(`"1"`), changedOn("1"), changed}; !slices.Equal(got, want) {
			t.Errorf("got %q\nwant %q", got, want)
		}
		c.forget("1")
		c.forget("2")
		grow()
		c.want(changed, changedOn(`"1"`))
		c.end()
	})
}

// A server without tools does not promise to tell of them.
func TestAServerWithoutToolsDoesNotPromiseToTellOfThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Server{}
		c := serve(t, s)
		c.initialize(legacyPV, "{}")
		c.listenTo("1", `{"toolsListChanged":true}`, `{}`)
		toolAs[none](s, "x")
		c.want()
		c.listenTo("2", `{"toolsListChanged":true}`, `{"toolsListChanged":true}`)
		toolAs[none](s, "y")
		c.want(changedOn("2"))
		c.end()
	})
}

// Changes are told to a legacy session from initialized on, of the lists that
// it was promised.
func TestALegacySessionIsToldOfChangesUnasked(t *testing.T) {
	for _, list := range lists {
		told := "< notifications/" + list.change + "/list_changed"
		s := &Server{}
		list.add(s, "a", "")
		synctest.Test(t, func(t *testing.T) {
			c, early, modern := serve(t, s), serve(t, s), serve(t, s)
			modern.ask("> 1+ server/discover")
			early.send(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2024-11-05","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`)
			early.recv()
			c.initialize("2025-11-25", "{}")
			list.add(s, "b", "")
			c.script(told)
			list.add(s, "b", "replaced")
			c.script(told)
			list.remove(s, "nobody")
			c.script("")
			list.remove(s, "a", "nobody")
			c.script(told)
			early.script("> 1 ping\n< 1 {}\n> notifications/initialized\n" + told + "\n> notifications/initialized\n> 2 ping\n< 2 {}")
			list.add(s, "c", "")
			early.script(told)
			c.script(told)
			c.end()
			early.end()
			modern.end() // was told nothing
		})
	}
	// Of what was not declared, nothing is told.
	s := &Server{}
	lists[tools].add(s, "a", "")
	inBubble(t, s, "2025-11-25", func(c *client) {
		lists[prompts].add(s, "b", "")
		lists[templates].add(s, "c", "")
		s.ResourceUpdated("x:c")
		c.script("> 1 ping\n< 1 {}")
	})
}

// subscriptions/listen is acknowledged with what will be honoured, and told
// that and nothing else.
func TestAStreamIsToldWhatItAskedFor(t *testing.T) {
	s := &Server{}
	lists[tools].add(s, "a", "")
	lists[resources].add(s, "a", "")
	const tag = `"_meta":{"io.modelcontextprotocol/subscriptionId":`
	inBubble(t, s, "", func(c *client) {
		c.script(`
			> 1+ subscriptions/listen
			< 1! -32602 Invalid params: notifications is required
			> 1+ subscriptions/listen {"notifications":[]}
			< 1! -32602 Invalid params: notifications is required
			> 1+ subscriptions/listen {"notifications":{"toolsListChanged":"yes"}}
			< 1! -32602 Invalid params: toolsListChanged must be true or false
			> 1+ subscriptions/listen {"notifications":{"resourceSubscriptions":"x:a"}}
			< 1! -32602 Invalid params: resourceSubscriptions must be an array
			> 1+ subscriptions/listen {"notifications":{"resourceSubscriptions":["x:a",1]}}
			< 1! -32602 Invalid params: resourceSubscriptions must hold strings
			> 1 subscriptions/listen {"notifications":{}}
			< 1! -32602 Missing required _meta fields io.modelcontextprotocol/protocolVersion and io.modelcontextprotocol/clientCapabilities (or send initialize first)
			# the ack has what will be honoured, and the id as it came
			> 1+ subscriptions/listen {"notifications":{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":false,"resourceSubscriptions":["x:a","x:a"],"unknown":7}}
			< notifications/subscriptions/acknowledged {` + tag + `1},"notifications":{"toolsListChanged":true,"resourceSubscriptions":["x:a"]}}
			> "1"+ subscriptions/listen {"notifications":{"toolsListChanged":true,"promptsListChanged":null,"resourcesListChanged":true,"resourceSubscriptions":null}}
			< notifications/subscriptions/acknowledged {` + tag + `"1"},"notifications":{"toolsListChanged":true,"resourcesListChanged":true}}
			> 0+ subscriptions/listen {"notifications":{"promptsListChanged":true}}
			< notifications/subscriptions/acknowledged {` + tag + `0},"notifications":{}}
			> 1+ subscriptions/listen {"notifications":{}}
			< null! -32600 Invalid Request: id 1 is in use`)
		lists[tools].add(s, "b", "")
		c.script(`
			< notifications/tools/list_changed {` + tag + `1}}
			< notifications/tools/list_changed {` + tag + `"1"}}`)
		lists[templates].add(s, "b", "")
		c.script(`< notifications/resources/list_changed {` + tag + `"1"}}`)
		lists[prompts].add(s, "b", "") // was not there when it was asked for
		s.ResourceUpdated("x:b")
		s.ResourceUpdated("x:a")
		c.script(`
			< notifications/resources/updated {` + tag + `1},"uri":"x:a"}
			> notifications/cancelled {"requestId":1}`)
		lists[tools].remove(s, "b")
		s.ResourceUpdated("x:a")
		c.script(`
			< notifications/tools/list_changed {` + tag + `"1"}}
			# the id is free again, and the stream a new one
			> 1+ subscriptions/listen {"notifications":{"promptsListChanged":true}}
			< notifications/subscriptions/acknowledged {` + tag + `1},"notifications":{"promptsListChanged":true}}`)
		lists[prompts].remove(s, "b")
		c.script(`< notifications/prompts/list_changed {` + tag + `1}}`)
		// When we end it we say so, on each.
		c.cancel(errors.New("enough"))
		got := c.recv()
		slices.Sort(got)
		for i, id := range []string{`"1"`, `0`, `1`} {
			want := `{"jsonrpc":"2.0","id":` + id + `,"result":{"resultType":"complete",` + tag + id + `,"io.modelcontextprotocol/serverInfo":{"name":"demo","version":"1.0.0"}}}}`
			if len(got) != 3 || !sameJSON(t, got[i], want) {
				t.Errorf("got %q, want %s", got, want)
			}
		}
	})
}

// A server without resources has none to watch.
func TestAServerWithoutResourcesHasNoneToWatch(t *testing.T) {
	s := &Server{}
	lists[tools].add(s, "a", "")
	inBubble(t, s, "", func(c *client) {
		c.script(`
			> 1+ subscriptions/listen {"notifications":{"resourcesListChanged":true,"toolsListChanged":true,"resourceSubscriptions":["x:a"]}}
			< notifications/subscriptions/acknowledged {"_meta":{"io.modelcontextprotocol/subscriptionId":1},"notifications":{"toolsListChanged":true}}`)
		s.ResourceUpdated("x:a")
	})
}

// A session has 64 open streams at most, and one that is closed makes room.
func TestOpenStreamsAreBounded(t *testing.T) {
	s := &Server{}
	lists[tools].add(s, "a", "")
	for _, era := range eras {
		inBubble(t, s, era.version, func(c *client) {
			for i := range maxStreams {
				c.ask(fmt.Sprintf(`> %d+ subscriptions/listen {"notifications":{"toolsListChanged":true}}`, i))
			}
			c.script(`
				> 64+ subscriptions/listen {"notifications":{}}
				< 64! -32603 Subscription limit reached
				> notifications/cancelled {"requestId":7}
				> 64+ subscriptions/listen {"notifications":{}}
				< notifications/subscriptions/acknowledged {"_meta":{"io.modelcontextprotocol/subscriptionId":64},"notifications":{}}`)
			want := maxStreams - 1
			if era.version != "" { // the session itself is told too, and is no stream that counts
				want++
			}
			lists[tools].add(s, "b", "")
			if got := c.recv(); len(got) != want {
				t.Errorf("%s: %d were told", era.name, len(got))
			}
		})
	}
}

// Not a word goes to a stream from when its cancel was read, however late its
// goroutine gets to run.
func TestNothingIsToldToACancelledStream(t *testing.T) {
	s := &Server{}
	lists[tools].add(s, "a", "")
	inBubble(t, s, "", func(c *client) {
		for i := range maxStreams {
			c.ask(fmt.Sprintf(`> %d+ subscriptions/listen {"notifications":{"toolsListChanged":true}}`, i))
		}
		session := s.openSessions()[0]
		for i := range maxStreams {
			session.cancelRequest([]byte(strconv.Itoa(i)), "")
			session.mu.Lock()
			for _, st := range session.streams {
				if string(st.request.id) == strconv.Itoa(i) {
					t.Errorf("stream %d is still told", i)
				}
			}
			session.mu.Unlock()
		}
		lists[tools].add(s, "b", "")
		c.script("> 1 ping\n< 1 {}")
	})
}

// A legacy session is told of the resources that it has subscribed to, and of
// no others.
func TestSubscribersAreToldOfUpdates(t *testing.T) {
	s := &Server{}
	s.AddResource(Resource{URI: "demo://a", Name: "a"}, texts("A"))
	synctest.Test(t, func(t *testing.T) {
		c, other := serve(t, s), serve(t, s)
		c.script(`
			> 1 resources/subscribe {"uri":"demo://a"}
			< 1! -32602 Missing required _meta fields io.modelcontextprotocol/protocolVersion and io.modelcontextprotocol/clientCapabilities (or send initialize first)
			> 2+ resources/subscribe {"uri":"demo://a"}
			< 2! -32601 Method not found: resources/subscribe
			> 3+ resources/unsubscribe {"uri":"demo://a"}
			< 3! -32601 Method not found: resources/unsubscribe`)
		c.initialize("2025-11-25", "{}")
		other.initialize("2024-11-05", "{}")
		s.ResourceUpdated("demo://a")
		c.script(`
			# nobody has subscribed yet
			> 4 resources/subscribe {"uri":"demo://a"}
			< 4 {}
			> 5 resources/subscribe {"uri":"demo://a"}
			< 5 {}
			> 6 resources/subscribe {"uri":"demo://nobody/knows?%22it%22"}
			< 6 {}
			> 7 resources/subscribe {}
			< 7! -32602 Invalid params: uri is required
			> 8 resources/unsubscribe {"uri":["demo://a"]}
			< 8! -32602 Invalid params: uri is required`)
		s.ResourceUpdated("demo://a")
		s.ResourceUpdated("demo://b")
		c.script(`< notifications/resources/updated {"uri":"demo://a"}`)
		s.ResourceUpdated(`demo://nobody/knows?%22it%22`)
		c.script(`
			< notifications/resources/updated {"uri":"demo://nobody/knows?%22it%22"}
			> 9 resources/unsubscribe {"uri":"demo://a"}
			< 9 {}
			> 10 resources/unsubscribe {"uri":"demo://a"}
			< 10 {}
			> 11 resources/unsubscribe {"uri":"demo://never"}
			< 11 {}`)
		s.ResourceUpdated("demo://a")
		c.end()
		other.end()
		s.ResourceUpdated("demo://a") // to nobody
	})
	inBubble(t, &Server{}, "2025-11-25", func(c *client) {
		c.script(`
			> 1 resources/subscribe {"uri":"demo://a"}
			< 1! -32601 Method not found: resources/subscribe
			> 2 resources/templates/list
			< 2 {"resourceTemplates":[]}
			> 3+ resources/templates/list
			< 3! -32601 Method not found: resources/templates/list`)
	})
}

// What a client can have us remember is bounded, but what we remember already
// can be asked for again.
func TestSubscriptionsAreBounded(t *testing.T) {
	s := &Server{}
	s.AddResource(Resource{URI: "demo://a", Name: "a"}, texts("A"))
	inBubble(t, s, "2025-11-25", func(c *client) {
		var many []string
		st := s.openSessions()[0].legacy.stream
		for i := range maxWatched {
			uri := fmt.Sprintf("demo://%d", i)
			many = append(many, strconv.Quote(uri))
			if err := st.watch(uri); err != nil {
				t.Fatal(i, err)
			}
		}
		c.script(`
			> 1 resources/subscribe {"uri":"demo://one/more"}
			< 1! -32603 Subscription limit reached
			> 2 resources/subscribe {"uri":"demo://7"}
			< 2 {}
			> 3 resources/unsubscribe {"uri":"demo://7"}
			< 3 {}
			> 4 resources/subscribe {"uri":"demo://one/more"}
			< 4 {}
			> 5+ subscriptions/listen {"notifications":{"resourceSubscriptions":[` + strings.Join(many, ",") + `,"demo://one/more"]}}
			< 5! -32603 Subscription limit reached`)
	})
}

// A client that does not read is told of many changes once.
func TestManyUpdatesAreToldOnce(t *testing.T) {
	s := &Server{}
	s.AddResource(Resource{URI: "demo://a", Name: "a"}, texts("A"))
	for _, era := range eras {
		synctest.Test(t, func(t *testing.T) {
			c := serveUnread(t, s)
			expect := `
				< notifications/subscriptions/acknowledged {"_meta":{"io.modelcontextprotocol/subscriptionId":1},"notifications":{"resourcesListChanged":true,"resourceSubscriptions":["demo://a"]}}
				< notifications/subscriptions/acknowledged {"_meta":{"io.modelcontextprotocol/subscriptionId":"1"},"notifications":{"resourcesListChanged":true}}
				< notifications/resources/updated {"_meta":{"io.modelcontextprotocol/subscriptionId":1},"uri":"demo://a"}
				< notifications/resources/list_changed {"_meta":{"io.modelcontextprotocol/subscriptionId":1}}
				< notifications/resources/list_changed {"_meta":{"io.modelcontextprotocol/subscriptionId":"1"}}`
			if era.version == "" {
				c.send(`{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"resourcesListChanged":true,"resourceSubscriptions":["demo://a"]},`+modernParams+`}}`,
					`{"jsonrpc":"2.0","id":"1","method":"subscriptions/listen","params":{"notifications":{"resourcesListChanged":true},`+modernParams+`}}`)
			} else {
				c.send(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`,
					`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
					`{"jsonrpc":"2.0","id":2,"method":"resources/subscribe","params":{"uri":"demo://a"}}`)
				expect = `
				< 1 {"protocolVersion":"2025-11-25","capabilities":{"resources":{"listChanged":true,"subscribe":true}},"serverInfo":{"name":"demo","version":"1.0.0"}}
				< 2 {}
				< notifications/resources/updated {"uri":"demo://a"}
				< notifications/resources/list_changed`
			}
			synctest.Wait()
			for range 5 {
				s.ResourceUpdated("demo://a")
				s.AddResource(Resource{URI: "demo://a", Name: "a"}, texts("A"))
			}
			go c.listen()
			c.script(expect)
			s.ResourceUpdated("demo://a")
			if got := c.recv(); len(got) != 1 {
				t.Errorf("%s: what comes later was told %d times: %q", era.name, len(got), got)
			}
			c.end()
		})
	}
}

// A change is told again unless the client cannot have seen the last word of it.
func TestAnUpdateDuringAWriteIsToldAgain(t *testing.T) {
	s := &Server{}
	s.AddResource(Resource{URI: "demo://a", Name: "a"}, texts("A"))
	synctest.Test(t, func(t *testing.T) {
		c := serveUnread(t, s)
		c.send(`{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"resourceSubscriptions":["demo://a"]},` + modernParams + `}}`)
		c.out.Read(make([]byte, 4096)) // the ack
		for range 4 {
			s.ResourceUpdated("demo://a")
			synctest.Wait() // the first is being written now, and stays so
		}
		go c.listen()
		c.script(`
			< notifications/resources/updated {"_meta":{"io.modelcontextprotocol/subscriptionId":1},"uri":"demo://a"}
			< notifications/resources/updated {"_meta":{"io.modelcontextprotocol/subscriptionId":1},"uri":"demo://a"}`)
		c.end()
	})
}

// A change is not coalesced into an earlier one if an answer stands between
// them, which the client would take for the newer news.
func TestChangeAfterAnAnswerIsTold(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) {
		s.AddResource(Resource{URI: "x:y", Name: "y"}, texts("z"))
		c := serveUnread(t, &s.Server)
		c.send(strings.ReplaceAll(listenLine, `"toolsListChanged":true`, `"toolsListChanged":true,"resourceSubscriptions":["x:y"]`))
		c.send(pingLine) // somebody is writing now, and comes to no end
		synctest.Wait()
		change := func() { s.RemoveTools("sleep1"); add(&s.Server, "sleep1", noText); s.ResourceUpdated("x:y") }
		change()
		change() // nothing between: once is enough
		c.send(pingLine)
		synctest.Wait()
		change()
		go c.listen()
		var order []string
		for _, line := range c.recv() {
			switch {
			case strings.Contains(line, "tools/list_changed"):
				order = append(order, "list")
			case strings.Contains(line, "resources/updated"):
				order = append(order, "updated")
			case strings.Contains(line, `"result"`):
				order = append(order, "pong")
			}
		}
		if want := []string{"pong", "list", "updated", "pong", "list", "updated"}; !slices.Equal(order, want) {
			t.Errorf("got %v, want %v", order, want)
		}
		c.end()
	})
}

// What notifications repeat has a bound: the id of a subscription and the token
// of progress.
func TestWhatIsRepeatedIsBounded(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) {
		c := serve(t, &s.Server)
		long := `"` + strings.Repeat("x", maxRepeated) + `"`
		c.send(strings.Replace(listenLine, `"sub"`, long, 1))
		c.want(wrong(long, -32600, "Invalid Request: the id of a subscription has at most 1024 bytes"))
		c.send(modernCall("1", "hi", `"progressToken":`+long))
		c.want(wrong("1", -32602, "Invalid params: progressToken is too long"))
		c.end()
	})
}

// ---- memory and trace ----

// What served requests held is let go, also when others still wait, and an
// open subscription keeps nothing of its line.
func TestMemoryIsLetGo(t *testing.T) {
	const size = 1 << 20
	pad := strings.Repeat("x", size)
	bubble(t, func(t *testing.T, s *stage) {
		s.MaxConcurrent = 1
		AddTool(&s.Server, Tool{Name: "take"}, func(context.Context, struct{ Text string }) (string, error) { return "", nil })
		c := serve(t, &s.Server)
		c.send(modernCall("0", "sleep1"))
		for i := range 32 {
			c.send(strings.Replace(modernCall(strconv.Itoa(i+1), "take"), `"name":"take"`, `"name":"take","arguments":{"Text":"`+pad+`"}`, 1))
		}
		c.send(modernCall("100", "sleep2"), modernCall("101", "sleep1"))
		synctest.Wait()
		full := heap()
		time.Sleep(time.Second)
		c.recv()
		if kept := heap() - (full - 32*size); kept > 8*size {
			t.Errorf("%d MiB are kept of 32 that were served", kept>>20)
		}
		c.in.Close()
		<-c.done
	})
	bubble(t, func(t *testing.T, s *stage) {
		c := serve(t, &s.Server)
		before := heap()
		for i := range 16 {
			c.send(strings.Replace(strings.Replace(listenLine, `"sub"`, strconv.Itoa(i), 1),
				`"io.modelcontextprotocol/clientCapabilities":{}`, `"io.modelcontextprotocol/clientCapabilities":{"experimental":{"x":{"y":"`+pad+`"}}}`, 1))
		}
		if got := c.recv(); len(got) != 16 {
			t.Fatalf("%d acknowledgements: %.300q", len(got), got)
		}
		if kept := heap() - before; kept > 4*size {
			t.Errorf("%d MiB are kept by 16 subscriptions", kept>>20)
		}
		c.end()
	})
}

// The last session ends the Server's trace, also if that session has one of its own.
func TestTheLastSessionEndsTheTrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full, room := io.Pipe() // takes nothing until somebody reads
		s := &Server{Name: "demo", Version: "1", Trace: room, ErrorLog: log.New(io.Discard, "", 0)}
		input, end := io.Pipe()
		done := make(chan error)
		go func() { done <- s.serve(t.Context(), input, io.Discard, io.Discard) }()
		synctest.Wait()
		lines, send := io.Pipe()
		go func() { done <- s.Serve(t.Context(), lines, io.Discard) }()
		io.WriteString(send, pingLine+"\n")
		synctest.Wait()
		io.WriteString(send, pingLine+"\n")
		for _, w := range []*io.PipeWriter{send, end} {
			w.Close()
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		var late bytes.Buffer
		go io.Copy(&late, full)
		synctest.Wait()
		room.Close()
		synctest.Wait()
		if n := strings.Count(late.String(), pingLine); n != 1 { // the one that was on its way
			t.Errorf("written after the last session: %q", late.String())
		}
	})
}

// The trace has each line that came or went, with its time and direction; a
// trace that takes nothing costs no answer.
func TestTheTraceHasEveryLine(t *testing.T) {
	script := []string{pingLine, modernCall("1", "hi"), "", "rubbish", " " + modernCall("2", "panic") + "\r", `{"jsonrpc":"2.0","method":"x"}`, pingLine}
	play := func(t *testing.T, s *stage) (lines, wrote []string) {
		c := serveWire(t, &s.Server)
		for _, line := range script {
			if line = strings.TrimSpace(line); line != "" {
				lines = append(lines, "in   "+line)
			}
			c.send(line)
			for _, answer := range c.recv() {
				lines = append(lines, "out  "+answer)
			}
		}
		c.end()
		return lines, c.writes
	}
	var plain []string
	bubble(t, func(t *testing.T, s *stage) { _, plain = play(t, s) })
	bubble(t, func(t *testing.T, s *stage) {
		var out bytes.Buffer
		s.Trace = &out
		want, wrote := play(t, s)
		var got []string
		stamp := regexp.MustCompile(`^\d{4}/\d\d/\d\d \d\d:\d\d:\d\d\.\d{6} `)
		for line := range strings.Lines(out.String()) {
			if !stamp.MatchString(line) {
				t.Errorf("no time: %s", line)
			}
			got = append(got, strings.TrimSuffix(stamp.ReplaceAllString(line, ""), "\n"))
		}
		squeeze := func(lines []string) string {
			return regexp.MustCompile(`(?m)^(in|out) +`).ReplaceAllString(strings.Join(lines, "\n"), "$1 ")
		}
		if squeeze(got) != squeeze(want) {
			t.Errorf("trace:\n%s\nwant:\n%s", squeeze(got), squeeze(want))
		}
		if !slices.Equal(wrote, plain) {
			t.Errorf("with a trace: %q\nwithout: %q", wrote, plain)
		}
	})
	bubble(t, func(t *testing.T, s *stage) {
		s.Trace = jam{s.release}
		c := serve(t, &s.Server)
		for range 50 {
			c.send(modernCall("1", "hi"), pingLine)
			if got := c.recv(); len(got) != 2 {
				t.Errorf("got %q", got)
			}
		}
		c.in.Close()
		c.ends(time.Second, nil)
		close(s.release)
	})
}

// Two sessions of one Server write one trace, and can be told apart.
func TestTwoSessionsCanBeToldApartInTheTrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var trace bytes.Buffer // without a lock: there is one writer at a time
		s := &Server{Trace: &trace}
		a, b := serve(t, s), serve(t, s)
		var wg sync.WaitGroup
		for _, c := range []*client{a, b} {
			wg.Go(func() {
				for range 100 {
					c.send(pingLine)
				}
			})
		}
		wg.Wait()
		a.recv()
		b.recv()
		a.end()
		b.send(pingLine)
		b.recv()
		b.end()
		for prefix, want := range map[string]int{" in  {": 100, " out {": 100, " in#2 {": 101, " out#2 {": 101} {
			if got := strings.Count(trace.String(), prefix); got != want && strings.Count(trace.String(), prefix) != 201-want {
				t.Errorf("%d lines with %q, want %d", got, prefix, want)
			}
		}
	})
}

type slowWriter struct {
	b   bytes.Buffer
	nap time.Duration
}

func (w *slowWriter) Write(b []byte) (int, error) {
	time.Sleep(w.nap) // in a bubble
	return w.b.Write(b)
}

// What is still to be traced or told when the session is over
// is waited for, as long as there is time to drain.
func TestTheTraceIsWaitedForAtTheEnd(t *testing.T) {
	for _, nap := range []time.Duration{100 * time.Millisecond, 300 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			trace, notes := slowWriter{nap: nap}, slowWriter{nap: 50 * time.Millisecond}
			c := serve(t, &Server{Trace: &trace, ErrorLog: log.New(&notes, "", 0)})
			c.send(strings.Split(strings.Repeat("garbage\n", 9)+"garbage", "\n")...)
			c.in.Close()
			if err := <-c.done; err != nil {
				t.Errorf("Serve: %v", err)
			}
			for b, n := range map[*bytes.Buffer]int{&trace.b: 20, &notes.b: 10} {
				if got := strings.Count(b.String(), "\n"); got != n {
					t.Errorf("%d lines, want %d:\n%s", got, n, b)
				}
			}
		})
	}
}

// ---- the three machines by themselves ----

// newTurn is a turn that counts how often it has passed to a new goroutine.
func newTurn() (t *turn, passed func() int) {
	var n atomic.Int64
	t = &turn{read: func() { n.Add(1) }}
	t.timer = time.AfterFunc(time.Hour, t.pass)
	t.timer.Stop()
	return t, func() int { synctest.Wait(); return int(n.Load()) }
}

// A turn passes only while it is lent, once, and then is not got back.
func TestTurnPasses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turn, passed := newTurn()
		if turn.pass(); passed() != 0 {
			t.Error("it passed, and was not lent")
		}
		if turn.reclaim() {
			t.Error("what was never lent was got back")
		}
		if turn.lend(0); !turn.reclaim() {
			t.Error("a loan that nobody wanted is not got back")
		}
		turn.lend(0)
		turn.pass()
		turn.pass()
		if passed() != 1 || turn.reclaim() {
			t.Errorf("it passed %d times, or was got back all the same", passed())
		}
		turn.lend(0) // by the new holder
		if !turn.reclaim() || turn.reclaim() {
			t.Error("of two who have lent it, not one has it")
		}
	})
}

// A turn that is lent for longer than it may be passes by itself, and one that
// came back does not.
func TestTurnPassesInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turn, passed := newTurn()
		turn.lend(0)
		time.Sleep(maxInline - 1)
		if passed() != 0 || !turn.reclaim() {
			t.Error("it passed too early")
		}
		if time.Sleep(maxInline); passed() != 0 {
			t.Error("it passed when it was not lent")
		}
		turn.lend(longText - 1)
		if time.Sleep(maxInline); passed() != 1 {
			t.Error("it did not pass")
		}
		for i, size := range []int{longText, 4 * longText, 64 << 20} { // 2, 5 and 5 ms
			turn.lend(size)
			if time.Sleep(maxInline*time.Duration(min(2+3*i, 5)) - 1); passed() != 1+i {
				t.Errorf("it passed too early with %d bytes", size)
			}
			if time.Sleep(1); passed() != 2+i {
				t.Errorf("it did not pass with %d bytes", size)
			}
		}
	})
}

// Lines come out the same however the input is cut into Reads, and what is too
// long keeps its beginning and its end.
func TestLinesDoNotDependOnReads(t *testing.T) {
	long := strings.Repeat("y", 3*keepBuffer)
	other := strings.Repeat("z", 3*keepBuffer)
	input := "\ufeff one\r\n\n \t\ntwo\n" + long + "\n" + long + long + "END\n" + other + "\nthree\n" + other + "\nlast"
	want := []string{"one", "two", long, long[:keepHead] + "|" + long[:maxRepeated-4] + "END", other, "three", other, "last"}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		r := &lineReader{r: &pieces{input, rng}, limit: 4 * keepBuffer}
		var got [][]byte // and no copies: a line stays as it is
		for done := false; !done; {
			line, tail, err := r.next()
			switch {
			case tail != nil:
				got = append(got, slices.Concat(line, []byte("|"), tail))
			case line != nil:
				got = append(got, line)
			case err != nil:
				done = true
			case rng.IntN(3) == 0:
				for range 1 + rng.IntN(3) {
					ahead(r)
				}
			default:
				r.fill()
			}
		}
		if !slices.EqualFunc(got, want, func(line []byte, s string) bool { return string(line) == s }) {
			t.Fatalf("got %.60q, want %.60q", got, want)
		}
	}
}

// Lines are taken while a Read ahead is under way, and none is lost, changed or
// taken twice, whoever has read it.
func TestLinesAreTakenWhileReadingAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const lines = 20_000
		rng := rand.New(rand.NewPCG(3, 4))
		in, w := io.Pipe()
		go func() {
			var input []byte
			for n := range lines {
				input = fmt.Appendln(input, n)
			}
			for piece := range slices.Chunk(input, 7) {
				w.Write(piece)
			}
			w.Close()
		}()
		var busy atomic.Bool
		r := &lineReader{limit: keepBuffer, r: readFunc(func(b []byte) (int, error) {
			if !busy.CompareAndSwap(false, true) {
				panic("two Reads at once")
			}
			defer busy.Store(false)
			return in.Read(b)
		})}
		var got [][]byte
		for {
			line, tail, err := r.next()
			if err != nil {
				break
			}
			if line == nil {
				r.fill()
			} else if got = append(got, line); tail != nil {
				t.Fatalf("line %q is too long", line)
			}
			if rng.IntN(3) == 0 {
				r.readAhead()
			}
		}
		for n, line := range got {
			if string(line) != strconv.Itoa(n) {
				t.Fatalf("line %d is %q", n, line)
			}
		}
		if len(got) != lines {
			t.Errorf("%d lines of %d", len(got), lines)
		}
	})
}

// A line, or the end, that was read ahead since next looked is not waited for: there
// may be nothing behind it for an hour.
func TestWhatWasReadAheadIsNotWaitedFor(t *testing.T) {
	reads, in := 0, strings.NewReader("line\n")
	r := &lineReader{r: readFunc(func(b []byte) (int, error) { reads++; return in.Read(b) }), limit: 100}
	for n, want := range []struct {
		line string
		err  error
	}{{"line", nil}, {"", io.EOF}} {
		if line, _, err := r.next(); line != nil || err != nil {
			t.Fatalf("%q, %v before Read %d", line, err, n+1)
		}
		ahead(r)
		r.fill()
		if reads != n+1 {
			t.Errorf("%d Reads, want %d", reads, n+1)
		}
		if line, _, err := r.next(); string(line) != want.line || err != want.err {
			t.Errorf("%q, %v after Read %d", line, err, n+1)
		}
	}
}

// ahead reads ahead once.
func ahead(r *lineReader) {
	if done, _ := r.readAhead(); done != nil {
		<-done
	}
}

// readFunc is a Reader that is a function.
type readFunc func(b []byte) (int, error)

func (f readFunc) Read(b []byte) (int, error) { return f(b) }

// pieces is a Reader of pieces of random length, now and then with the end.
type pieces struct {
	s   string
	rng *rand.Rand
}

func (p *pieces) Read(b []byte) (n int, err error) {
	n = copy(b, p.s[:min(len(p.s), 1+p.rng.IntN([]int{2, 100, 1 << 20}[p.rng.IntN(3)]))])
	if p.s = p.s[n:]; p.s == "" && (n == 0 || p.rng.IntN(2) == 0) {
		err = io.EOF
	}
	return n, err
}

// Lines of many senders go out whole, each once, by one goroutine at a time.
func TestWriterWritesEachLineOnce(t *testing.T) {
	var out oneAtATime
	w := &lineWriter{w: &out}
	var wg sync.WaitGroup
	const senders, lines = 8, 500
	for i := range senders {
		wg.Go(func() {
			for j := range lines {
				w.enqueue(fmt.Appendf(nil, "%d:%d", i, j))
				if w.acquire() {
					if err := w.writeAll(); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
	next := make([]int, senders)
	for line := range strings.Lines(out.String()) {
		var i, j int
		if n, _ := fmt.Sscanf(line, "%d:%d\n", &i, &j); n != 2 || next[i] != j {
			t.Fatalf("line %q, want number %d", line, next[i])
		}
		next[i]++
	}
	if !slices.Equal(next, slices.Repeat([]int{lines}, senders)) || w.until(w.position()) != nil || w.unsent() != 0 {
		t.Errorf("written: %v", next)
	}
}

type oneAtATime struct {
	bytes.Buffer
	busy atomic.Bool
}

func (w *oneAtATime) Write(b []byte) (int, error) {
	if !w.busy.CompareAndSwap(false, true) {
		panic("two Writes at once")
	}
	defer w.busy.Store(false)
	return w.Buffer.Write(b)
}

// Memory that is used again held one long line and nothing else, and nobody has it
// any more: not a Write that failed, which may go on behind our back.
func TestOnlyWhatIsFreeIsUsedAgain(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // a sync.Pool gives what it was given on the same P
	text := strings.Repeat("x", 2*keepBuffer)
	w := &lineWriter{w: failingWriter{}}
	line := appendString(nil, text)
	w.enqueue(line)
	if w.acquire() {
		w.writeAll()
	}
	appendString(nil, strings.Repeat("y", len(text)))
	if string(line[1:len(line)-1]) != text {
		t.Error("what was being written has been written into")
	}
	in := &lineReader{r: strings.NewReader("short\n" + text + "\nnext\n"), limit: 1 << 20}
	var lines [][]byte
	for len(lines) < 3 {
		got, _, _ := in.next()
		for ; got == nil; got, _, _ = in.next() {
			in.fill()
		}
		if lines = append(lines, got); len(lines) == 2 {
			for range 4 { // whatever is free
				clear(readBuffers.Get().(*readBuffer)[:])
			}
		}
	}
	if got := string(bytes.Join(lines, []byte("\n"))); got != "short\n"+text+"\nnext" {
		t.Error("a line has been read into")
	}
	before := heap()
	var kept []any
	for range 20 {
		r := &lineReader{r: strings.NewReader(strings.Repeat("x", 2<<20) + "\n"), limit: 4 << 20}
		for got, _, _ := r.next(); got == nil; got, _, _ = r.next() {
			if r.size > 0 && len(r.buf) < 1<<20 {
				ahead(r)
				ahead(r) // which makes a buffer larger
			} else {
				r.fill()
			}
		}
		kept = append(kept, readBuffers.Get())
	}
	if more := heap() - before; more > 40*keepBuffer {
		t.Errorf("%d buffers hold %d KiB", len(kept), more>>10)
	}
	runtime.KeepAlive(kept)
}

// What is held is not written before release, and nothing after stop.
func TestWriterHoldsAndStops(t *testing.T) {
	var out bytes.Buffer
	w := &lineWriter{w: &out}
	write := func() string {
		if w.acquire() {
			w.writeAll()
		}
		defer out.Reset()
		return out.String()
	}
	first := w.enqueue([]byte("first"))
	w.hold(true)
	if got := write(); got != "" || !w.queued(first) {
		t.Errorf("written while it was held: %q", got)
	}
	wait := w.until(first)
	w.hold(false)
	if got := write(); got != "first\n" || w.queued(first) || w.until(first) != nil {
		t.Errorf("written: %q", got)
	}
	<-wait
	second := w.enqueue([]byte("second"))
	wait = w.until(second)
	w.stop()
	w.enqueue([]byte("third"))
	if got := write(); got != "" || w.until(second) != nil {
		t.Errorf("written after stop: %q", got)
	}
	<-wait
}

// A Write that fails, or takes less than it was given, is the last one.
func TestWriterEndsWithAnError(t *testing.T) {
	for _, tt := range []struct {
		w    io.Writer
		want error
	}{{iotest.TruncateWriter(io.Discard, 0), nil}, {shortWriter{}, io.ErrShortWrite}, {failingWriter{}, io.ErrClosedPipe}} {
		w := &lineWriter{w: tt.w}
		w.enqueue([]byte("line"))
		if !w.acquire() {
			t.Fatal("nobody writes, and it was not got")
		}
		if err := w.writeAll(); err != tt.want {
			t.Errorf("writeAll: %v, want %v", err, tt.want)
		}
		if w.enqueue([]byte("line")); w.acquire() != (tt.want == nil) {
			t.Errorf("after %v there is another Write", tt.want)
		}
	}
}

type (
	shortWriter   struct{}
	failingWriter struct{}
)

func (shortWriter) Write(b []byte) (int, error)   { return len(b) - 1, nil }
func (failingWriter) Write(b []byte) (int, error) { return 0, io.ErrClosedPipe }

// ==== how work ends ====

// ---- the five faults of python-sdk pull request 2306 ----

// 1. At EOF the server joined on its handlers, and crashed when they answered
// into a closed stream.
func TestFault1EOFCancelsAndDoesNotJoin(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) {
		c := serve(t, &s.Server)
		c.send(modernCall("1", "wait"), modernCall("2", "wait"))
		synctest.Wait()
		c.in.Close()
		c.ends(0, nil)
		s.saw(t, ErrClosed, ErrClosed)
		got := c.recv()
		slices.Sort(got)
		c.got = got
		c.want(modernFailed("1", ErrClosed.Error()), modernFailed("2", ErrClosed.Error()))
	})
	bubble(t, func(t *testing.T, s *stage) { // and both ends at once
		c := serve(t, &s.Server)
		c.send(modernCall("1", "wait"), modernCall("2", "wait"), modernCall("3", "sleep1"))
		synctest.Wait()
		c.out.Close()
		c.in.Close()
		c.ends(0, nil)
		s.saw(t, ErrClosed, ErrClosed, ErrClosed)
	})
}

// 2. Handlers that were woken deleted themselves from the map that was being
// iterated. With Linger they are woken through that map and nothing else.
func TestFault2IterateACopy(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) {
		const n = 200
		s.Linger = time.Hour
		c := serve(t, &s.Server)
		c.initialize("2025-11-25", `{"roots":{}}`)
		var ss *session
		add(&s.Server, "find", func(ctx context.Context) (string, error) { ss = requestOf(ctx).session; return "", nil })
		c.send(legacyCall("0", "find"))
		for i := range n {
			c.send(legacyCall(strconv.Itoa(i+1), "ask"))
		}
		if got := len(c.recv()); got < n {
			t.Fatalf("%d questions, want %d", got, n)
		}
		c.in.Close()
		c.ends(0, nil)
		s.saw(t, slices.Repeat([]error{ErrClosed}, n)...)
		if got := len(c.recv()); got != n {
			t.Errorf("%d answers, want %d", got, n)
		}
		if len(ss.pending)+len(ss.requests)+len(ss.running)+ss.waiting.Len() != 0 {
			t.Errorf("left behind: %v %v %v %v", ss.pending, ss.requests, ss.running, ss.waiting.Len())
		}
	})
}

// 3. A handler that was woken answered with the error "connection closed", and
// that was written to the closed stream.
func TestFault3NothingIntoAClosedStream(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) {
		c := serveWire(t, &s.Server)
		c.initialize("2025-11-25", `{"roots":{}}`)
		for i := range 20 {
			c.send(legacyCall(strconv.Itoa(i+1), "ask"))
		}
		c.send(listenLine)
		c.recv()
		c.mu.Lock()
		c.tries, c.break_ = 0, func([]byte) (int, error) { return 0, syscall.EPIPE }
		c.mu.Unlock()
		c.send(pingLine)
		c.ends(0, nil)
		s.saw(t, slices.Repeat([]error{ErrClosed}, 20)...)
		if c.tries != 1 {
			t.Errorf("%d writes to a closed stream, want that which found out", c.tries)
		}
	})
}

// 4. A request that the client has cancelled is never answered; one that ended
// because the client closed its end is.
func TestFault4TwoCancellations(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) {
		c := serve(t, &s.Server)
		c.send(modernCall("1", "wait"), modernCall("2", "wait"), modernCall("3", "deaf"))
		c.want()
		c.send(cancelling("1"), cancelling("3"))
		c.want()
		s.saw(t, stopped)
		c.in.Close()
		c.want() // held, until the last has returned
		s.saw(t, ErrClosed)
		close(s.release) // cancelled, then closed: still no answer
		c.ends(0, nil)
		c.want(modernFailed("2", ErrClosed.Error()))
		s.saw(t, stopped)
	})
}

// 5. Our end closed, or theirs, as an error may say it: both are ordinary ends,
// on w as on r.
func TestFault5BothShapesOfADeadPipe(t *testing.T) {
	path := func(err error) error { return &os.PathError{Op: "write", Path: "/dev/stdout", Err: err} }
	ends := []error{
		io.ErrClosedPipe, os.ErrClosed, path(os.ErrClosed),
		syscall.EPIPE, path(syscall.EPIPE), path(syscall.ECONNRESET),
		fmt.Errorf("tls: %w", path(os.NewSyscallError("write", syscall.EPIPE))),
		path(errors.New("use of closed network connection")),
	}
	if runtime.GOOS == "windows" {
		for _, n := range []syscall.Errno{109, 232, 233, 10054} {
			ends = append(ends, path(n))
		}
	}
	for _, dead := range ends {
		bubble(t, func(t *testing.T, s *stage) {
			c := serveWire(t, &s.Server)
			c.break_ = func([]byte) (int, error) { return 0, dead }
			c.send(modernCall("1", "wait"), modernCall("2", "wait"), pingLine)
			if err := c.over(0); err != nil {
				t.Errorf("w fails with %v: Serve: %v", dead, err)
			}
			s.saw(t, ErrClosed, ErrClosed)
		})
		bubble(t, func(t *testing.T, s *stage) {
			c := serveWire(t, &s.Server)
			c.send(modernCall("1", "wait"))
			c.want()
			c.in.CloseWithError(dead)
			if err := c.over(maxInline); err != nil {
				t.Errorf("r fails with %v: Serve: %v", dead, err)
			}
			s.saw(t, ErrClosed)
			c.want(modernFailed("1", ErrClosed.Error()))
		})
	}
}

// ---- the table of endings ----

// Each row of the table that opens cancel.go: what the handler sees, whether it
// is answered, and what Serve returns.
func TestEndingsAreThoseOfTheTable(t *testing.T) {
	boom := errors.New("boom")
	breakWith := func(n int, err error) func(*wireClient) {
		return func(c *wireClient) {
			c.mu.Lock()
			c.break_ = func(b []byte) (int, error) { return min(n, len(b)-1), err }
			c.mu.Unlock()
			c.send(pingLine)
		}
	}
	for _, row := range []struct {
		name     string
		event    func(c *wireClient)
		cause    error
		answered bool
		returns  error
	}{
		{"EOF", func(c *wireClient) { c.in.Close() }, ErrClosed, true, nil},
		{"r fails", func(c *wireClient) { c.in.CloseWithError(boom) }, boom, true, boom},
		{"r fails, wrapped", func(c *wireClient) { c.in.CloseWithError(fmt.Errorf("usb: %w", boom)) }, boom, true, boom},
		{"w is a closed pipe", breakWith(0, syscall.EPIPE), ErrClosed, false, nil},
		{"w fails", breakWith(0, boom), boom, false, boom},
		{"w fails half way", breakWith(7, boom), boom, false, boom},
		{"w fails, wrapped", breakWith(0, &os.PathError{Op: "write", Path: "f", Err: syscall.ENOSPC}), syscall.ENOSPC, false, syscall.ENOSPC},
		{"w writes short", breakWith(7, nil), io.ErrShortWrite, false, io.ErrShortWrite},
		{"ctx ends", func(c *wireClient) { c.cancel(nil) }, context.Canceled, true, nil},
		{"ctx ends with a cause", func(c *wireClient) { c.cancel(boom) }, boom, true, nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *stage) {
				c := serveWire(t, &s.Server)
				c.send(modernCall("1", "wait"))
				c.want()
				time.Sleep(time.Hour) // nothing ends by itself
				c.want()
				row.event(c)
				c.ends(0, row.returns)
				s.saw(t, row.cause)
				if got := c.recv(); !row.answered {
					if len(got) != 0 {
						t.Errorf("written: %q", got)
					}
				} else if len(got) != 1 || !strings.Contains(got[0], `"isError":true`) || !strings.Contains(got[0], row.cause.Error()) {
					t.Errorf("answer: %q", got)
				}
			})
		})
	}
}

// A client that closes its half right after its requests gets all answers.
func TestAHalfClosedClientGetsAllAnswers(t *testing.T) {
	for _, max := range []int{0, 1, 3} {
		bubble(t, func(t *testing.T, s *stage) {
			s.MaxConcurrent = max
			c := serve(t, &s.Server)
			var script, want []string
			for i := range 100 {
				id := strconv.Itoa(i)
				script = append(script, modernCall(id, "hi"), strings.Replace(pingLine, `"p"`, strconv.Itoa(1000+i), 1))
				want = append(want, id, strconv.Itoa(1000+i))
			}
			script = append(script, modernCall("100", "hi")) // without its newline
			io.WriteString(c.in, strings.Join(script, "\n"))
			c.in.Close()
			c.ends(0, nil)
			var got []string
			for _, line := range c.recv() {
				id, _, _ := strings.Cut(strings.TrimPrefix(line, `{"jsonrpc":"2.0","id":`), ",")
				got = append(got, id)
			}
			want = append(want, "100")
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("answered: %v", got)
			}
		})
	}
}

// EOF is heard the moment that Read returns it, also when more output is unsent
// than there may be.
func TestEOFIsHeardUnderTooMuchOutput(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) {
		add(&s.Server, "big", func(context.Context) (string, error) {
			<-s.release
			return strings.Repeat("x", outputBound/2), nil
		})
		c := serveUnread(t, &s.Server)
		c.send(modernCall("1", "wait"), modernCall("2", "big"), modernCall("3", "big"), modernCall("4", "big"))
		synctest.Wait() // the reader is in Read
		close(s.release)
		synctest.Wait() // and nobody takes the output
		c.in.Close()
		synctest.Wait()
		s.saw(t, ErrClosed)
		c.ends(1100*time.Millisecond, ErrDrain)
	})
}

// EOF is heard behind much input that no line is taken of, and what is answered
// after the end has the bound of all output.
func TestEOFIsHeardBehindMuchInput(t *testing.T) {
	for _, input := range []string{strings.Repeat(pingLine+"\n", 2<<20/len(pingLine)), strings.Repeat("x\n", 1<<19)} {
		if input[0] == '{' || !raceBuild() { // which would take long over the second
			eofBehind(t, input)
		}
	}
}

// eofBehind plays a client that does not read, sends requests and then input, and
// closes its end.
func eofBehind(t *testing.T, input string) {
	bubble(t, func(t *testing.T, s *stage) {
		s.AddResource(Resource{URI: "x:y", Name: "y", Description: strings.Repeat("x", 1<<20)}, texts("z"))
		add(&s.Server, "big", func(context.Context) (string, error) { return strings.Repeat("x", outputBound), nil })
		c := serveUnread(t, &s.Server)
		c.send(modernCall("1", "wait"), modernCall("2", "big"))
		list := strings.Replace(modernCall("9", "x"), `"tools/call"`, `"resources/list"`, 1)
		c.send(strings.Repeat(list+"\n", 100), input)
		c.in.Close()
		synctest.Wait()
		s.saw(t, ErrClosed)
		if n := s.openSessions()[0].out.unsent(); n > 3*outputBound {
			t.Errorf("%d MiB are unsent", n>>20)
		}
		c.ends(1100*time.Millisecond, ErrDrain)
	})
}

// What a client writes when no line is accepted any more costs no memory, however
// long its lines are.
func TestASessionThatClosesReadsOnForNothing(t *testing.T) {
	if raceBuild() {
		t.Skip("the race detector allocates too")
	}
	short := append(bytes.Repeat([]byte("x"), 99), '\n')
	for _, line := range [][]byte{short, bytes.Repeat([]byte("x"), keepBuffer)} {
		bubble(t, func(t *testing.T, s *stage) {
			s.Name, s.Version, s.ErrorLog = "demo", "1.0.0", log.New(io.Discard, "", 0)
			ctx, cancel := context.WithCancel(t.Context())
			in, client := io.Pipe()
			done := make(chan error)
			go func() { done <- s.Serve(ctx, in, io.Discard) }()
			io.WriteString(client, modernCall("1", "deaf")+"\n")
			time.Sleep(maxInline) // another reads now
			cancel()
			synctest.Wait()
			if cost := allocated(func() {
				for range 16 << 20 / len(line) {
					client.Write(line)
				}
			}); cost > 4<<20 {
				t.Errorf("16 MiB in Writes of %d bytes allocate %.0f KiB", len(line), cost/1024)
			}
			close(s.release)
			if err := <-done; err != nil {
				t.Error(err)
			}
			client.Close()
		})
	}
}

// Serve returns the very error of its Reader, and none that came from closing the
// Reader after ctx has ended, as Serve's comment says how to do.
func TestTheErrorOfTheReaderIsReturnedAsItIs(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) {
		c := serve(t, &s.Server)
		broken := errors.New("broken")
		c.in.CloseWithError(broken)
		if err := <-c.done; err != broken {
			t.Errorf("Serve: %#v", err)
		}
	})
	bubble(t, func(t *testing.T, s *stage) {
		c := serve(t, &s.Server)
		c.send(modernCall("1", "deaf"))
		time.Sleep(maxInline) // another reads now
		c.cancel(errors.New("shut down"))
		synctest.Wait()
		c.in.CloseWithError(errors.New("closed by the caller"))
		synctest.Wait()
		close(s.release)
		if err := <-c.done; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
}

// What is read ahead costs as much as there is of it, and not as often as is read.
func TestReadingAheadIsCheap(t *testing.T) {
	if raceBuild() {
		t.Skip("the race detector allocates too")
	}
	const n = 20_000
	r := &lineReader{r: iotest.OneByteReader(strings.NewReader(strings.Repeat("x", n))), limit: 1 << 20}
	if cost := allocated(func() {
		for range n {
			ahead(r)
		}
	}); cost > 500*n {
		t.Errorf("%d Reads of a byte allocate %.0f bytes each", n, cost/n)
	}
}

// Blanks behind the limit are looked at once, however slowly they come.
func TestSlowBlanksBehindTheLimitAreCheap(t *testing.T) {
	const limit = 1000
	mustBeLinear(t, keepHead/8-limit, func(n int) time.Duration {
		line := strings.Repeat("x", limit) + strings.Repeat(" ", n)
		r := &lineReader{r: iotest.OneByteReader(strings.NewReader(line + "\n")), limit: limit}
		begun := time.Now()
		got, tail, err := r.next()
		for ; got == nil && err == nil; got, tail, err = r.next() {
			r.fill()
		}
		if string(got) != line[:limit] || tail != nil {
			t.Errorf("%d blanks: %d bytes, %v", n, len(got), tail)
		}
		return time.Since(begun)
	})
}

// The end of the input is heard even when no line is taken any
// more because so much output is unsent.
func TestNoLineIsTakenUnderTooMuchOutput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Server{Drain: time.Minute}
		AddTool(s, Tool{Name: "big"}, func(ctx context.Context, _ struct{}) (string, error) {
			return strings.Repeat("x", outputBound), nil
		})
		AddTool(s, Tool{Name: "late"}, func(ctx context.Context, _ struct{}) (string, error) {
			t.Error("a line was taken")
			return "", nil
		})
		c := serveUnread(t, s)
		c.send(strings.TrimSuffix(opening+callLine(1, "big", "{}"), "\n"))
		synctest.Wait()
		c.send(strings.TrimSuffix(callLine(2, "late", "{}"), "\n"))
		begun := time.Now()
		c.in.Close()
		if err := <-c.done; !errors.Is(err, ErrDrain) || time.Since(begun) != time.Minute+100*time.Millisecond {
			t.Errorf("Serve: %v after %v", err, time.Since(begun))
		}
	})
}

// Answers of handlers that EOF has cancelled are held until the last handler has
// returned, or Drain is over; while Linger runs they flow.
func TestAnswersAreHeldUntilTheLastHasReturned(t *testing.T) {
	cleanup := func(s *stage) {
		add(&s.Server, "cleanup", func(ctx context.Context) (string, error) {
			<-ctx.Done()
			time.Sleep(50 * time.Millisecond)
			return "clean", nil
		})
	}
	bubble(t, func(t *testing.T, s *stage) {
		cleanup(s)
		c := serve(t, &s.Server)
		c.send(modernCall("1", "wait"))
		for i := range 20 {
			c.send(modernCall(strconv.Itoa(i+2), "cleanup"))
		}
		c.recv()
		c.in.Close()
		s.saw(t, ErrClosed)
		time.Sleep(49 * time.Millisecond)
		c.want()
		c.ends(time.Millisecond, nil)
		if got := c.recv(); len(got) != 21 {
			t.Errorf("%d answers", len(got))
		}
	})
	bubble(t, func(t *testing.T, s *stage) {
		c := serve(t, &s.Server)
		c.send(modernCall("1", "wait"), modernCall("2", "deaf"))
		c.in.Close()
		time.Sleep(time.Second - 1)
		c.want()
		c.ends(1, ErrDrain)
		c.want(modernFailed("1", ErrClosed.Error()))
		close(s.release)
	})
	bubble(t, func(t *testing.T, s *stage) {
		s.Linger = 2 * time.Second
		c := serve(t, &s.Server)
		c.send(modernCall("1", "sleep1"), modernCall("2", "sleep3"))
		c.in.Close()
		time.Sleep(time.Second)
		c.want(modernSaid("1", "slept"))
		c.ends(time.Second, nil)
		c.want(modernFailed("2", ErrClosed.Error()))
	})
}

// What is held is given up when the client does not take it: soon after Drain.
func TestHeldAnswersDoNotHoldServe(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) {
		c := serveUnread(t, &s.Server)
		c.send(modernCall("1", "wait"), modernCall("2", "deaf"))
		c.in.Close()
		c.ends(1100*time.Millisecond, ErrDrain)
		close(s.release)
	})
}

// A client that was slow when Drain was over is given the same moment as one that
// was not: what is held goes out behind the Write that was under way.
func TestHeldAnswersWaitForAWriteUnderWay(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) {
		c := serveUnread(t, &s.Server)
		c.send(modernCall("0", "hi")) // from here on somebody is stuck in a Write
		c.send(modernCall("1", "wait"), modernCall("2", "deaf"))
		c.in.Close()
		time.Sleep(1050 * time.Millisecond)
		go c.listen()
		c.ends(0, ErrDrain)
		c.want(modernSaid("0", "hi"), modernFailed("1", ErrClosed.Error()))
		close(s.release)
	})
}

// A batch is answered whole or was not read, whenever ctx ends.
func TestBatchIsNotLostWhenContextEnds(t *testing.T) {
	for range 20 {
		bubble(t, func(t *testing.T, s *stage) {
			var trace bytes.Buffer
			s.Trace = &trace
			c := serve(t, &s.Server)
			c.initialize("2025-03-26", "{}")
			c.recv()
			member := `{"jsonrpc":"2.0","id":%d,"method":"ping"},`
			var b strings.Builder
			for i := range 500 {
				fmt.Fprintf(&b, member, i+10)
			}
			c.send("[" + strings.TrimSuffix(b.String(), ",") + "]")
			c.cancel(errors.New("shut down"))
			c.ends(0, nil)
			if got := c.recv(); len(got) != strings.Count(trace.String(), "in  [") {
				t.Errorf("%d answers; the batch was read %d times", len(got), strings.Count(trace.String(), "in  ["))
			}
		})
	}
}

// After EOF handlers go on for as long as Linger says, unless w or ctx comes to
// its end too.
func TestHandlersLingerAsLongAsTheyMay(t *testing.T) {
	for _, row := range []struct {
		linger time.Duration
		tools  string
		lasts  time.Duration
		causes []error
		lines  []string
	}{
		{0, "sleep1", 0, []error{ErrClosed}, []string{modernFailed("0", ErrClosed.Error())}},
		{2500 * time.Millisecond, "sleep1", time.Second - maxInline, []error{nil}, []string{progressLine("0", "1"), modernSaid("0", "slept")}},
		{2500 * time.Millisecond, "sleep1 sleep2", 2*time.Second - maxInline, []error{nil, nil},
			[]string{progressLine("0", "1"), modernSaid("0", "slept"), progressLine("1", "1"), modernSaid("1", "slept")}},
		{2500 * time.Millisecond, "sleep3", 2500 * time.Millisecond, []error{ErrClosed}, []string{modernFailed("0", ErrClosed.Error())}},
		{2500 * time.Millisecond, "sleep1 wait", 2500 * time.Millisecond, []error{nil, ErrClosed},
			[]string{progressLine("0", "1"), modernSaid("0", "slept"), modernFailed("1", ErrClosed.Error())}},
	} {
		bubble(t, func(t *testing.T, s *stage) {
			s.Linger = row.linger
			c := serve(t, &s.Server)
			for i, tool := range strings.Fields(row.tools) {
				id := strconv.Itoa(i)
				c.send(modernCall(id, tool, `"progressToken":`+id))
			}
			time.Sleep(maxInline)
			c.in.Close()
			c.ends(row.lasts, nil)
			c.want(row.lines...)
			s.saw(t, row.causes...)
		})
	}
	bubble(t, func(t *testing.T, s *stage) { // what else may end it: w, and ctx
		s.Linger = time.Hour
		c := serveWire(t, &s.Server)
		c.send(modernCall("1", "sleep1"), modernCall("2", "wait"))
		synctest.Wait()
		c.break_ = func([]byte) (int, error) { return 0, syscall.EPIPE }
		c.in.Close()
		c.ends(time.Second-maxInline, nil)
		s.saw(t, nil, ErrClosed)
	})
	bubble(t, func(t *testing.T, s *stage) {
		s.Linger = time.Hour
		c := serveWire(t, &s.Server)
		c.send(modernCall("1", "wait"), modernCall("2", "deaf"))
		synctest.Wait()
		c.in.Close()
		synctest.Wait()
		c.cancel(io.ErrNoProgress)
		s.saw(t, io.ErrNoProgress)
		c.ends(time.Second, ErrDrain)
		close(s.release)
	})
}

// What changes while handlers linger is told before they answer.
func TestChangesAreToldWhileHandlersLinger(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) {
		s.Linger = time.Minute
		add(&s.Server, "change", func(context.Context) (string, error) {
			time.Sleep(time.Second)
			s.RemoveTools("nil")
			s.ResourceUpdated("test://x")
			return "changed", nil
		})
		s.AddResource(Resource{URI: "test://x", Name: "x"}, texts("x"))
		c := serve(t, &s.Server)
		c.initialize("2025-11-25", "{}")
		c.send(`{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"test://x"}}`)
		c.want(`{"jsonrpc":"2.0","id":1,"result":{}}`)
		c.send(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"change"}}`)
		c.in.Close()
		c.ends(time.Second, nil)
		c.want(changed, `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"test://x"}}`,
			`{"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"changed"}]}}`)
	})
}

// Whoever waits for the client is told at once, Linger or not, and of the same cause.
func TestQuestionsEndAtOnceAtTheEnd(t *testing.T) {
	boom := errors.New("boom")
	for _, row := range []struct {
		event func(c *wireClient)
		want  error
	}{
		{func(c *wireClient) { c.in.Close() }, ErrClosed},
		{func(c *wireClient) { c.in.CloseWithError(boom) }, boom},
		{func(c *wireClient) { c.cancel(boom) }, boom},
	} {
		bubble(t, func(t *testing.T, s *stage) {
			s.Linger = 5 * time.Second
			begin := time.Now()
			add(&s.Server, "again", func(ctx context.Context) (string, error) {
				_, first := Roots(context.WithoutCancel(ctx), "k")
				_, second := Roots(context.WithoutCancel(ctx), "k") // nobody to ask any more
				s.causes = append(s.causes, first)
				if second == nil || time.Since(begin) != 0 {
					t.Errorf("after the end, at %v: %v", time.Since(begin), second)
				}
				return "", nil
			})
			c := serveWire(t, &s.Server)
			c.initialize("2025-11-25", `{"roots":{}}`)
			c.send(legacyCall("1", "again"))
			if got := c.recv(); len(got) != 1 || !strings.Contains(got[0], "roots/list") {
				t.Fatalf("question: %q", got)
			}
			row.event(c)
			c.over(0)
			s.saw(t, row.want)
			got := slices.DeleteFunc(c.recv(), func(l string) bool { return strings.Contains(l, "notifications/cancelled") })
			if len(got) != 1 {
				t.Errorf("written: %q", got)
			}
		})
	}
}

// Fifty handlers ask in a loop while the client answers, and it goes away in
// the midst of that. The bubble itself finds goroutines that stay.
func TestFiftyHandlersMayAskUntilTheEnd(t *testing.T) {
	for _, end := range []func(*client){
		func(c *client) { c.in.Close() },
		func(c *client) { c.out.Close() },
		func(c *client) { c.cancel(nil) },
	} {
		bubble(t, func(t *testing.T, s *stage) {
			var asks atomic.Int32
			add(&s.Server, "loop", func(ctx context.Context) (string, error) {
				for {
					if _, err := Roots(ctx, "k"); err != nil {
						return "", err
					}
					asks.Add(1)
				}
			})
			c := serveUnread(t, &s.Server)
			c.send(`{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"roots":{}},"clientInfo":{"name":"c","version":"1"}}}`)
			for i := range 50 {
				c.send(legacyCall(strconv.Itoa(i), "loop"))
			}
			asked := regexp.MustCompile(`"id":(\d+),"method":"roots/list"`)
			go func() { // not before all calls are sent: it closes the pipe that they go through
				lines := bufio.NewScanner(c.out)
				for n := 0; lines.Scan(); {
					if m := asked.FindStringSubmatch(lines.Text()); m != nil {
						io.WriteString(c.in, `{"jsonrpc":"2.0","id":`+m[1]+`,"result":{"roots":[{"uri":"file:///"}]}}`+"\n")
						if n++; n == 1000 {
							end(c)
						}
					}
				}
			}()
			if c.ends(0, nil); asks.Load() < 500 {
				t.Errorf("%d questions were answered", asks.Load())
			}
		})
	}
}

// An open subscription holds up nothing. The client that has gone is not told
// of its end, everybody else is.
func TestOpenStreamsHoldUpNothing(t *testing.T) {
	const ack = `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":"sub"},"notifications":{"toolsListChanged":true}}}`
	const end = `{"jsonrpc":"2.0","id":"sub","result":{"resultType":"complete","_meta":{"io.modelcontextprotocol/subscriptionId":"sub","io.modelcontextprotocol/serverInfo":{"name":"demo","version":"1.0.0"}}}}`
	for _, row := range []struct {
		event func(c *client)
		lines []string
	}{
		{func(c *client) { c.in.Close() }, nil},
		{func(c *client) { c.in.CloseWithError(io.ErrClosedPipe) }, nil},
		{func(c *client) { c.cancel(nil) }, []string{end}},
		{func(c *client) { c.send(cancelling(`"sub"`)); c.recv(); c.in.Close() }, nil},
	} {
		bubble(t, func(t *testing.T, s *stage) {
			s.Linger = time.Hour
			c := serve(t, &s.Server)
			c.send(listenLine)
			c.want(ack)
			row.event(c)
			c.ends(0, nil)
			c.want(row.lines...)
		})
	}
}

// A subscription that is begun after the others were told of the end is told of
// it too.
func TestSubscriptionBegunAfterTheEnd(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) {
		s.Linger = time.Hour
		add(&s.Server, "big", func(context.Context) (string, error) { return strings.Repeat("x", outputBound), nil })
		c := serveUnread(t, &s.Server)
		c.send(modernCall("1", "big"))
		synctest.Wait()
		c.send(listenLine) // is read ahead
		c.in.Close()
		synctest.Wait()
		go c.listen()
		c.ends(0, nil)
	})
}

// Handlers that outlive Drain are named by an ErrDrain, and nothing starts a
// write after Serve returned.
func TestDrainBoundsTheWait(t *testing.T) {
	for _, row := range []struct{ drain, lasts time.Duration }{
		{0, time.Second}, {300 * time.Millisecond, 300 * time.Millisecond}, {time.Minute, time.Minute}, {-1, time.Second},
	} {
		for _, linger := range []time.Duration{0, 2 * time.Second} {
			bubble(t, func(t *testing.T, s *stage) {
				s.Drain, s.Linger = row.drain, linger
				c := serveWire(t, &s.Server)
				c.send(modernCall("7", "deaf"), modernCall(`"x"`, "deaf"), modernCall("8", "wait"))
				synctest.Wait()
				c.send(cancelling(`"x"`))
				synctest.Wait()
				c.in.Close()
				err := c.over(linger + row.lasts)
				if !errors.Is(err, ErrDrain) {
					t.Fatalf("Serve: %v", err)
				}
				names := strings.TrimPrefix(err.Error(), ErrDrain.Error()+": ")
				if names != `tools/call deaf (id 7); tools/call deaf (id "x"), cancelled` {
					t.Errorf("still at work: %s", names)
				}
				c.want(modernFailed("8", ErrClosed.Error()))
				synctest.Wait() // for a write that was under way
				before := c.tries
				close(s.release)
				synctest.Wait()
				if c.tries != before {
					t.Errorf("written after Serve returned: %q", c.writes)
				}
			})
		}
	}
	bubble(t, func(t *testing.T, s *stage) { // in time to the nanosecond
		add(&s.Server, "tidy", func(ctx context.Context) (string, error) {
			<-ctx.Done()
			time.Sleep(time.Second - 1)
			return "tidy", nil
		})
		c := serve(t, &s.Server)
		c.send(modernCall("1", "tidy"))
		time.Sleep(maxInline)
		c.in.Close()
		c.ends(time.Second-1, nil)
		c.want(modernSaid("1", "tidy"))
	})
	bubble(t, func(t *testing.T, s *stage) { // many names; a failure of w besides
		c := serveWire(t, &s.Server)
		for i := range 30 {
			c.send(modernCall(strconv.Itoa(i), "deaf"))
		}
		synctest.Wait()
		c.break_ = func([]byte) (int, error) { return 0, io.ErrNoProgress }
		c.send(pingLine)
		err := c.over(time.Second)
		if !errors.Is(err, ErrDrain) || !errors.Is(err, io.ErrNoProgress) || !strings.Contains(err.Error(), "and 20 more") {
			t.Errorf("Serve: %v", err)
		}
		close(s.release)
	})
}

// Nothing but the Read that is under way goes on when ctx has ended Serve.
func TestNothingIsReadAfterServe(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) {
		r, in := io.Pipe()
		ctx, cancel := context.WithCancel(context.Background())
		s.Name, s.Version, s.ErrorLog = "demo", "1", log.New(io.Discard, "", 0)
		go func() { synctest.Wait(); cancel() }()
		if err := s.Serve(ctx, r, io.Discard); err != nil {
			t.Errorf("Serve: %v", err)
		}
		io.WriteString(in, modernCall("1", "hi")+"\n") // taken, and of no effect
		synctest.Wait()
		taken := false
		go func() {
			_, err := io.WriteString(in, modernCall("2", "hi")+"\n")
			taken = err == nil
		}()
		synctest.Wait()
		if taken {
			t.Error("the reader goes on after Serve returned")
		}
		r.Close()
		s.ran(t)
	})
}

// ---- the client's cancel ----

// A cancel ends the request with that very id, is silent, and is ignored where
// nothing is to be cancelled.
func TestACancelReachesItsRequestOnly(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) {
		c := serveWire(t, &s.Server)
		both := func(lines ...string) { c.send(strings.Join(lines, "\n")) } // in one write

		c.send(modernCall("1", "wait"))
		c.want()
		c.send(cancelling("1"))
		c.want()
		s.saw(t, stopped) // which is the very *CancelledError, reason and all
		s.ran(t, "1")

		both(modernCall("2", "hi"), cancelling("2"), modernCall(`"2"`, "hi")) // with its request
		got := c.recv()
		got = slices.DeleteFunc(got, func(l string) bool { return sameJSON(t, l, modernSaid("2", "hi")) }) // it may be too late
		if len(got) != 1 || !sameJSON(t, got[0], modernSaid(`"2"`, "hi")) {
			t.Errorf("got %q", got)
		}
		s.started = nil

		both(modernCall("3", "wait"), cancelling("3")) // and never too late
		time.Sleep(maxInline)
		c.want()
		s.saw(t, stopped)
		s.started = nil

		c.send(modernCall("5", "wait"), modernCall(`"6"`, "wait"), modernCall("7", "wait"))
		c.want()
		for _, none := range []string{`"5"`, "6", "8", "1", "5.0", "-5", "null", "true", "5.5", "[5]", `{"id":5}`, `"init"`, `"ping"`} {
			c.send(cancelling(none))
		}
		for _, malformed := range []string{``, `,"params":null`, `,"params":5`, `,"params":[5]`, `,"params":{}`, `,"params":{"reason":"x"}`, `,"params":{"requestID":5}`, `,"params":{"id":5}`} {
			c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled"` + malformed + `}`)
		}
		c.send(`{"jsonrpc":"1.0","method":"notifications/cancelled","params":{"requestId":5}}`, pingLine)
		c.want(pongLine)
		s.saw(t)
		c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5}}`) // no reason, or none that is a text
		s.saw(t, &CancelledError{})
		c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7,"reason":["x"]}}`)
		s.saw(t, &CancelledError{})
		c.send(cancelling(`"6"`), cancelling(`"6"`))
		s.saw(t, stopped)
		c.end()
	})
	bubble(t, func(t *testing.T, s *stage) { // initialize cannot be cancelled
		c := serve(t, &s.Server)
		c.send(`{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}` + "\n" + cancelling(`"init"`))
		if got := c.recv(); len(got) != 1 || !strings.Contains(got[0], `"protocolVersion":"2025-11-25"`) {
			t.Errorf("initialize: %q", got)
		}
		c.end()
	})
}

// A request that is cancelled before its handler has started never starts:
// while another runs, it is for the scheduler to say when it does.
func TestACancelledRequestDoesNotStart(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // the reader goes on, most of the time, until it blocks
	bubble(t, func(t *testing.T, s *stage) {
		c := serve(t, &s.Server)
		c.send(modernCall("0", "wait"))
		time.Sleep(maxInline)
		s.ran(t, "0")
		for range 20 {
			c.send(modernCall("1", "wait") + "\n" + cancelling("1") + "\n" + pingLine)
			c.want(pongLine)
		}
		if len(s.started) > 10 {
			t.Errorf("%d of 20 handlers were started", len(s.started))
		}
		c.in.Close()
		c.ends(0, nil)
		c.want(modernFailed("0", ErrClosed.Error()))
	})
}

// Nothing is written for a cancelled request, whatever its handler does; its
// id is free at once; and it is not taken for the request that has the id now.
func TestACancelledRequestIsNeverAnswered(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) {
		act := make(chan func(context.Context) (string, error))
		add(&s.Server, "obey", func(ctx context.Context) (string, error) { return (<-act)(ctx) })
		c := serve(t, &s.Server)
		c.initialize("2025-11-25", `{"roots":{}}`)
		for _, f := range []func(context.Context) (string, error){
			func(context.Context) (string, error) { return "result", nil },
			func(ctx context.Context) (string, error) { return "", ctx.Err() },
			func(context.Context) (string, error) { return "", &Error{Code: 1, Message: "x"} },
			func(ctx context.Context) (string, error) { Progress(ctx, 1, 2, "x"); return "", nil },
			func(ctx context.Context) (string, error) {
				Progress(context.WithoutCancel(ctx), 1, 2, "x")
				_, err := Roots(context.WithoutCancel(ctx), "k")
				if !reflect.DeepEqual(err, stopped) {
					t.Errorf("Roots: %v", err)
				}
				return "", err
			},
			func(context.Context) (string, error) { panic("x") },
			func(context.Context) (string, error) { runtime.Goexit(); return "", nil },
		} {
			c.send(legacyCall("1", "obey", `"progressToken":"t"`))
			c.want()
			c.send(cancelling("1"))
			c.want()
			c.send(modernCall("1", "wait")) // the same id
			c.want()
			act <- f // the first one ends
			c.want()
			s.saw(t)
			c.send(cancelling("1"))
			s.saw(t, stopped) // the second
			c.send(modernCall("1", "hi"))
			c.want(modernSaid("1", "hi"))
		}
		c.end()
	})
	bubble(t, func(t *testing.T, s *stage) { // while it asks: the client need not answer any more
		c := serve(t, &s.Server)
		c.initialize("2025-11-25", `{"roots":{}}`)
		c.send(legacyCall("1", "ask"))
		c.want(`{"jsonrpc":"2.0","id":1,"method":"roots/list","params":{}}`)
		c.send(cancelling("1"))
		c.want(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"reason":"no longer needed"}}`)
		s.saw(t, stopped)
		c.send(`{"jsonrpc":"2.0","id":1,"result":{"roots":[]}}`, pingLine)
		c.want(pongLine)
		c.end()
	})
}

// A cancel of a subscription takes effect before what the next line brings.
func TestACancelledStreamIsSilentFromTheNextLineOn(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // the new handler runs before the woken one
	bubble(t, func(t *testing.T, s *stage) {
		add(&s.Server, "change", func(ctx context.Context) (string, error) {
			add(&s.Server, "new", func(context.Context) (string, error) { return "", nil })
			return "", nil
		})
		c := serve(t, &s.Server)
		for range 50 {
			c.send(listenLine)
			c.recv()
			c.send(cancelling(`"sub"`) + "\n" + modernCall("1", "change"))
			c.want(modernSaid("1", ""))
		}
		c.end()
	})
}

// ---- handlers that do not return ----

type explosive struct{}

func (explosive) MarshalJSON() ([]byte, error) { panic("secret") }
func (explosive) Error() string                { panic("secret") }

// A bomb explodes again while its explosion is told.
type bomb struct{}

func (b bomb) Error() string { panic(b) }

// A handler that panics costs its own request, and its words go to ErrorLog
// only.
func TestAPanicCostsItsOwnRequest(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) {
		var out bytes.Buffer
		s.ErrorLog = log.New(&out, "", 0)
		AddTool(&s.Server, Tool{Name: "result"}, func(context.Context, struct{}) (explosive, error) { return explosive{}, nil })
		add(&s.Server, "error", func(context.Context) (string, error) { return "", explosive{} })
		add(&s.Server, "value", func(context.Context) (string, error) { panic(explosive{}) })
		add(&s.Server, "bomb", func(context.Context) (string, error) { panic(bomb{}) })
		c := serve(t, &s.Server)
		for _, dies := range []string{"panic", "nil", "goexit", "result", "error", "value", "bomb"} {
			out.Reset()
			c.send(modernCall("1", "sleep1"))
			synctest.Wait()
			c.send(modernCall("2", dies))
			c.want(modernFailed("2", "Internal error"))
			if text := out.String(); !strings.Contains(text, dies+" (id 2) did not return") || !strings.Contains(text, "session_test.go:") {
				t.Errorf("%s: log: %s", dies, text)
			}
			time.Sleep(time.Second)
			c.want(modernSaid("1", "slept"))
		}
		c.end()
	})
}

// A jam is a writer that nobody empties.
type jam struct{ release chan struct{} }

func (j jam) Write(b []byte) (int, error) { <-j.release; return len(b), nil }

// An ErrorLog that takes nothing holds up neither answers nor the end, unless a
// handler waits for it itself.
func TestABlockedErrorLogHoldsUpNobody(t *testing.T) {
	for _, row := range []struct {
		own bool // the handler logs too
		err error
	}{{false, nil}, {true, ErrDrain}} {
		bubble(t, func(t *testing.T, s *stage) {
			s.ErrorLog = log.New(jam{s.release}, "", 0)
			add(&s.Server, "log", func(context.Context) (string, error) {
				jam{s.release}.Write(nil) // as by ErrorLog, but for its mutex, which no bubble sees through
				return "logged", nil
			})
			c := serve(t, &s.Server)
			c.send("rubbish", modernCall("1", "panic"), pingLine)
			if got := c.recv(); len(got) != 3 {
				t.Errorf("got %q", got)
			}
			if row.own {
				c.send(modernCall("2", "log"))
			}
			for i := range 100 {
				c.send(modernCall(strconv.Itoa(i+10), "nil"))
			}
			c.recv()
			c.send(pingLine)
			c.want(pongLine)
			c.in.Close()
			c.ends(time.Second, row.err)
			close(s.release)
		})
	}
}

// ---- EOF and broken pipes, as a process sees them ----

// No answer of `printf ... | server` is lost.
func TestProcNoAnswerIsLostAtEOF(t *testing.T) {
	few, many := 100, 10
	if longRun() {
		many = 100
	} else if raceBuild() { // which is run twenty times over
		few, many = 15, 2
	}
	for _, tt := range []struct {
		n, times  int
		tool, arg string
		check     func(message) bool
	}{
		{0, 10, "", "", anything}, // initialize and nothing else
		{1, few, "echo", `{"Text":"hi"}`, func(m message) bool { return m.text() == "hi" }},
		{50, few, "echo", `{"Text":"hi"}`, func(m message) bool { return m.text() == "hi" }},
		{1000, many, "echo", `{"Text":"hi"}`, func(m message) bool { return m.text() == "hi" }},
		{50, 10, "wait", `{}`, toldClosed},
		{1000, 3, "wait", `{}`, toldClosed},
	} {
		input := opening + callLines(1, tt.n, tt.tool, tt.arg)
		t.Run(fmt.Sprint(tt.n, tt.tool), func(t *testing.T) {
			t.Parallel()
			for i := range tt.times {
				t.Run("", func(t *testing.T) {
					p := newProc(t)
					var out bytes.Buffer
					p.cmd.Stdin, p.cmd.Stdout = strings.NewReader(input), &out
					if i%2 == 1 { // the last line is a line without its end, too
						p.cmd.Stdin = strings.NewReader(strings.TrimSuffix(input, "\n"))
					}
					p.start().wait("exit status 0")
					wantAnswered(t, out.String(), 0, tt.n, func(m message) bool { return m.ID == 0 || tt.check(m) })
					if errs := p.errs.String(); errs != "" {
						t.Errorf("stderr: %s", errs)
					}
				})
			}
		})
	}
}

// A stdin with nothing in it is an ordinary end.
func TestProcAnEmptyStdinIsAnOrdinaryEnd(t *testing.T) {
	p := newProc(t)
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	p.cmd.Stdin = null
	p.start()
	p.answers(1, 0, anything)
	p.wait("exit status 0")
	if errs := p.errs.String(); errs != "" {
		t.Errorf("stderr: %s", errs)
	}
}

// A thousand handlers are told of EOF, and what they return is written.
func TestProcAThousandHandlersHearOfEOF(t *testing.T) {
	p := beginProc(t)
	p.send(callLines(1, 1000, "wait", "{}"))
	p.arrived(1000)
	p.in.Close()
	p.answers(1, 1000, toldClosed)
	p.told(p.wait("exit status 0"), 1000, ErrClosed.Error())
}

// Those who wait for the client are told that it is
// gone, even if nothing can end their context, and even if handlers may linger.
func TestProcQuestionsEndAtEOF(t *testing.T) {
	for _, linger := range []string{"0s", "50s"} {
		t.Run(linger, func(t *testing.T) {
			p := beginProc(t, "MCP_TEST_LINGER="+linger)
			p.send(callLines(1, 50, "roots", `{"Detached":false}`) + callLines(51, 100, "roots", `{"Detached":true}`))
			for range 100 {
				if m := p.recv(); m.Method != "roots/list" {
					t.Fatalf("got %+v, want a question", m)
				}
			}
			begun := time.Now()
			p.in.Close()
			p.answers(1, 100, toldClosed)
			p.told(p.wait("exit status 0"), 100, ErrClosed.Error())
			if took := time.Since(begun); took > 25*time.Second {
				t.Errorf("it took %v", took) // the time to linger, or to drain
			}
		})
	}
}

// Handlers that do not end are left behind after Drain, and named; the others
// are answered.
func TestProcAHandlerThatHangsIsLeftBehind(t *testing.T) {
	p := beginProc(t, "MCP_TEST_DRAIN=200ms")
	p.send(callLines(1, 3, "hang", "{}") + callLines(4, 6, "wait", "{}"))
	p.arrived(6)
	begun := time.Now()
	p.in.Close()
	p.answers(4, 6, toldClosed)
	rep := p.wait("exit status 1")
	if !rep.Drain || strings.Count(rep.Err, "hang") != 3 || strings.Contains(rep.Err, "wait") {
		t.Errorf("%q: want an ErrDrain that names the three hanging calls and no other", rep.Err)
	}
	if took := time.Since(begun); took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
}

// The server ends when whoever holds the other ends dies without a word.
func TestProcTheServerEndsWithItsHost(t *testing.T) {
	p := newProc(t, "MCP_TEST_CHILD=host")
	r, w, err := os.Pipe() // stderr of both: it ends when both have ended
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	p.cmd.Stderr = w
	p.start()
	w.Close()
	var pid int
	if _, err := fmt.Fscanln(p.lines, &pid); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-p.ended
	r.SetReadDeadline(time.Now().Add(patience))
	if b, err := io.ReadAll(r); err != nil || len(b) > 0 {
		if server, err := os.FindProcess(pid); err == nil {
			server.Kill()
		}
		t.Fatalf("the server lives on, or complains: %v, %s", err, b)
	}
	var rep report
	b, err := os.ReadFile(p.file)
	if err == nil {
		err = json.Unmarshal(b, &rep)
	}
	if err != nil || rep.Err != "" {
		t.Fatalf("report: %v, %s", err, b)
	}
	p.told(rep, 10, ErrClosed.Error())
}

// When nobody reads stdout any more, handlers are cancelled and main cleans up,
// in spite of SIGPIPE.
func TestProcABrokenPipeEndsTheServer(t *testing.T) {
	onUnix(t)
	for _, both := range []bool{false, true} {
		t.Run(fmt.Sprint("both=", both), func(t *testing.T) {
			p := beginProc(t)
			p.send(callLines(1, 50, "wait", "{}"))
			p.arrived(50)
			p.out.Close()
			if both {
				p.in.Close()
			} else {
				p.send(callLine(51, "echo", `{"Text":"hi"}`)) // which is how it finds out
			}
			p.told(p.wait("exit status 0"), 50, ErrClosed.Error())
			if errs := p.errs.String(); errs != "" {
				t.Errorf("stderr: %s", errs)
			}
		})
	}
}

// Answers are due, more than the pipe holds, and the client
// does not take them.
func TestProcUnreadAnswersDoNotHoldTheEnd(t *testing.T) {
	onUnix(t)
	due := func(t *testing.T, env ...string) *proc {
		p := beginProc(t, env...)
		p.send(callLines(1, 8, "big", `{"Size":200000}`))
		if _, err := p.lines.ReadByte(); err != nil { // it has begun to write
			t.Fatal(err)
		}
		return p
	}
	t.Run("leaves", func(t *testing.T) {
		p := due(t)
		p.in.Close()
		p.out.Close()
		p.wait("exit status 0")
	})
	t.Run("stops reading", func(t *testing.T) {
		p := due(t)
		p.out.Close()
		p.wait("exit status 0")
	})
	t.Run("half leaves", func(t *testing.T) {
		p := due(t, "MCP_TEST_DRAIN=200ms")
		begun := time.Now()
		p.in.Close()
		if rep := p.wait("exit status 1"); !rep.Drain || !strings.Contains(rep.Err, "did not read") {
			t.Errorf("%q: want an ErrDrain that tells why", rep.Err)
		}
		if took := time.Since(begun); took > 10*time.Second {
			t.Errorf("it took %v", took)
		}
	})
	t.Run("leaves during cleanup", func(t *testing.T) {
		p := newProc(t, "MCP_TEST_DRAIN=200ms")
		begun, end := p.startCleaner()
		p.send(opening + callLines(1, 8, "big", `{"Size":200000}`))
		p.next(0)
		p.in.Close()
		begun()
		p.out.Close() // the write that ServeStdio left behind fails only now
		end()
		p.wait("exit status 1")
	})
}

// ---- signals ----

// SIGTERM and SIGINT cancel handlers with the signal as their cause, and
// ServeStdio returns nil.
func TestProcSIGTERMAndSIGINTEndCleanly(t *testing.T) {
	onUnix(t)
	for _, sig := range []os.Signal{syscall.SIGTERM, os.Interrupt} {
		for _, n := range []int{0, 20} {
			t.Run(fmt.Sprintf("%v with %d handlers", sig, n), func(t *testing.T) {
				p := beginProc(t)
				p.send(callLines(1, n, "wait", "{}"))
				p.arrived(n)
				if err := p.cmd.Process.Signal(sig); err != nil {
					t.Fatal(err)
				}
				// Newer releases of Go name the signal.
				cause := regexp.MustCompile(`^(context canceled|` + sig.String() + ` signal received)$`)
				p.answers(1, n, func(m message) bool { return m.Result.IsError && cause.MatchString(m.text()) })
				rep := p.wait("exit status 0")
				for told, count := range rep.Ended {
					if !cause.MatchString(told) || count != n {
						t.Errorf("handlers were told %v", rep.Ended)
					}
				}
				if n > 0 && len(rep.Ended) != 1 {
					t.Errorf("handlers were told %v", rep.Ended)
				}
			})
		}
		t.Run(fmt.Sprintf("%v twice", sig), func(t *testing.T) {
			p := beginProc(t)
			p.send(callLine(1, "hang", "{}") + callLine(2, "wait", "{}"))
			p.arrived(2)
			p.cmd.Process.Signal(sig)
			p.next(2) // the first was heard
			p.kill(sig)
			p.wait("signal: " + sig.String())
		})
	}
}

// A host closes stdin and does not wait. The program ends
// all the same as it should; a second signal is in earnest.
func TestProcSignalsAfterEOF(t *testing.T) {
	onUnix(t)
	for _, twice := range []bool{false, true} {
		t.Run(fmt.Sprint("twice=", twice), func(t *testing.T) {
			p := newProc(t)
			begun, end := p.startCleaner()
			p.send(opening)
			p.next(0)
			p.in.Close()
			begun()
			p.cmd.Process.Signal(syscall.SIGTERM)
			if !twice {
				end()
				p.wait("exit status 0")
				return
			}
			p.kill(syscall.SIGTERM)
			p.wait("signal: terminated")
		})
	}
}

// SIGHUP ends a session as SIGTERM does, unless the process was started to
// ignore it, as under nohup.
func TestProcHangup(t *testing.T) {
	onUnix(t)
	t.Run("ends", func(t *testing.T) {
		if signal.Ignored(syscall.SIGHUP) { // by nohup, and so by the servers that the test starts
			t.Skip("SIGHUP is ignored")
		}
		p := beginProc(t)
		p.send(callLines(1, 5, "wait", "{}"))
		p.arrived(5)
		p.cmd.Process.Signal(syscall.SIGHUP)
		p.told(p.wait("exit status 0"), 5, "hangup signal received")
	})
	t.Run("nohup", func(t *testing.T) {
		p := newProc(t)
		p.cmd.Args = []string{"sh", "-c", `trap "" HUP; exec "$0"`, p.cmd.Path}
		sh, err := exec.LookPath("sh")
		if err != nil {
			t.Skip(err)
		}
		p.cmd.Path = sh
		p.start()
		p.send(opening)
		p.next(0)
		p.cmd.Process.Signal(syscall.SIGHUP)
		p.send(callLine(1, "echo", `{"Text":"hi"}`))
		p.next(1)
		p.in.Close()
		p.wait("exit status 0")
	})
}

// When ctx has ended first, the first signal still does not kill.
func TestProcSignalAfterContextHasEnded(t *testing.T) {
	onUnix(t)
	p := beginProc(t)
	p.send(callLine(1, "slow", "{}") + callLine(2, "stop", "{}")) // slow signals its own process
	p.wait("exit status 0")
}

// ---- the process's stdin, stdout and stderr ----

// What handlers print goes to stderr, what they start reads nothing of ours,
// and stdio is served once at a time.
func TestProcHandlersCannotTouchTheWire(t *testing.T) {
	p := beginProc(t, "MCP_TEST_AFTER=1")
	p.send(callLine(1, "stray", "{}") + pingLineOf(2)) // what comes after is none of the reader's
	p.send(callLine(3, "second", "{}"))
	got := map[int]message{}
	for range 3 {
		m := p.recv()
		got[m.ID] = m
	}
	if got[1].text() != "ran" || got[2].Result == nil || !strings.Contains(got[3].text(), "already") {
		t.Errorf("got %+v", got)
	}
	p.send(callLine(4, "stray", "{}")) // the one that was refused has undone nothing
	p.next(4)
	p.in.Close()
	if rest, _ := io.ReadAll(p.lines); string(rest) != "\"after\"\n" {
		t.Errorf("stdout ends with %q", rest)
	}
	rep := p.wait("exit status 0")
	if rep.Again != "" {
		t.Errorf("serving again: %s", rep.Again)
	}
	errs := p.errs.String()
	if strings.Count(errs, "stray print\n") != 2 || strings.Count(errs, "reader got 0 bytes, <nil>\n") != 2 {
		t.Errorf("stderr: %s", errs)
	}
}

// A standard logger that writes to stdout does not write to the wire.
func TestProcLoggerOnStdout(t *testing.T) {
	p := newProc(t, "MCP_TEST_LOG=stdout", "MCP_TEST_AFTER=1").start()
	p.send(opening + "garbage\n")
	p.next(0)
	p.recv() // is JSON, or the test ends
	p.in.Close()
	if rest, _ := io.ReadAll(p.lines); string(rest) != "\"after\"\nafter, by log\n" {
		t.Errorf("stdout ends with %q", rest)
	}
	p.wait("exit status 0")
	if errs := p.errs.String(); !strings.Contains(errs, "Parse error") {
		t.Errorf("stderr: %s", errs)
	}
}

// A panic's words and stack go to stderr and not to the model.
func TestProcAPanicGoesToStderr(t *testing.T) {
	p := beginProc(t)
	for id, tool := range []string{1: "panic", 2: "goexit", 3: "panic"} {
		if id > 0 {
			p.send(callLine(id, tool, "{}"))
			if m := p.next(id); !m.Result.IsError || m.text() == "" || strings.Contains(m.text(), "secret") {
				t.Errorf("%s: got %q", tool, m.text())
			}
			p.send(pingLineOf(10 + id))
			p.next(10 + id)
		}
	}
	p.in.Close()
	p.answers(1, 0, anything)
	p.wait("exit status 0")
	if errs := p.errs.String(); strings.Count(errs, "the secret") != 2 || !strings.Contains(errs, "session_test.go:") {
		t.Errorf("stderr: %s", errs)
	}
}

// Nobody reads stderr, and it takes no more.
func TestProcAFullStderrHoldsUpNothing(t *testing.T) {
	onUnix(t)
	t.Run("", func(t *testing.T) { fullStderr(t) })
	t.Run("logger on stdout", func(t *testing.T) { fullStderr(t, "MCP_TEST_LOG=stdout") }) // which is to be turned back
}

func fullStderr(t *testing.T, env ...string) {
	t.Helper()
	p := newProc(t, append(env, "MCP_TEST_DRAIN=500ms")...)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	for _, chunk := range [][]byte{make([]byte, 4096), {0}} {
		w.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
		for err = nil; err == nil; {
			_, err = w.Write(chunk)
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal(err)
		}
	}
	p.cmd.Stderr = w
	p.start()
	p.send(opening)
	p.next(0)
	for id := 1; id <= 100; id++ {
		p.send("garbage\n" + callLine(id, "panic", "{}"))
		for range 2 {
			p.recv()
		}
		p.send(pingLineOf(1000 + id))
		p.next(1000 + id)
	}
	begun := time.Now()
	p.in.Close()
	p.answers(1, 0, anything)
	p.wait("exit status 0")
	if took := time.Since(begun); took > 20*time.Second {
		t.Errorf("it took %v", took)
	}
}

// MCP_TRACE names the file of the trace; a Trace of the program goes before,
// and a file that cannot be is reported.
func TestProcTraceGoesToItsFile(t *testing.T) {
	dialogue := func(p *proc) (in, out []string) {
		in = strings.Split(strings.TrimSuffix(opening+callLines(1, 20, "echo", `{"Text":"hi"}`), "\n"), "\n")
		p.send(strings.Join(in, "\n") + "\n")
		p.in.Close()
		rest, _ := io.ReadAll(p.lines)
		p.wait("exit status 0")
		return in, strings.Split(strings.TrimSuffix(string(rest), "\n"), "\n")
	}
	t.Run("file", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "trace")
		in, out := dialogue(newProc(t, "MCP_TRACE="+file).start())
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		shape := regexp.MustCompile(`^\d{4}/\d\d/\d\d \d\d:\d\d:\d\d\.\d{6} (in |out) ? ?(\{.*\})$`)
		var gotIn, gotOut []string
		asked := map[int]bool{}
		for line := range strings.Lines(string(b)) {
			m := shape.FindStringSubmatch(strings.TrimSuffix(line, "\n"))
			if m == nil {
				t.Fatalf("trace: %q", line)
			}
			msg := parseMessage(t, m[2])
			if m[1] == "in " {
				gotIn = append(gotIn, m[2])
				asked[msg.ID] = true
			} else if gotOut = append(gotOut, m[2]); !asked[msg.ID] {
				t.Errorf("answered before it was asked: %s", line)
			}
		}
		if !slices.Equal(gotIn, in) || !slices.Equal(gotOut, out) {
			t.Errorf("the trace is not what was said:\n%s", b)
		}
	})
	t.Run("off", func(t *testing.T) {
		p := newProc(t).start()
		dialogue(p)
		if files, _ := os.ReadDir(p.dir); len(files) != 1 || p.errs.Len() > 0 {
			t.Errorf("files %v, stderr %s", files, p.errs.String())
		}
	})
	t.Run("own", func(t *testing.T) { // goes before
		p := newProc(t, "MCP_TEST_OWNTRACE=1", "MCP_TRACE=trace").start()
		in, out := dialogue(p)
		if files, _ := os.ReadDir(p.dir); len(files) != 1 || strings.Count(p.errs.String(), "\n") != len(in)+len(out) {
			t.Errorf("files %v, stderr %s", files, p.errs.String())
		}
	})
	t.Run("impossible", func(t *testing.T) { // is told, and no reason not to serve
		p := newProc(t, "MCP_TRACE="+filepath.Join("no", "such", "place")).start()
		dialogue(p)
		if errs := p.errs.String(); strings.Count(errs, "\n") != 1 || !strings.Contains(errs, "MCP_TRACE") {
			t.Errorf("stderr: %s", errs)
		}
	})
}

// A trace into a FIFO that nobody reads keeps the session neither from serving
// nor from ending.
func TestProcTraceIntoAFIFO(t *testing.T) {
	onUnix(t)
	for _, how := range []string{"EOF", "SIGTERM"} {
		t.Run(how, func(t *testing.T) {
			fifo := filepath.Join(t.TempDir(), "fifo")
			if err := exec.Command("mkfifo", fifo).Run(); err != nil {
				t.Skip(err)
			}
			p := beginProc(t, "MCP_TRACE="+fifo, "MCP_TEST_DRAIN=100ms")
			p.send(callLine(1, "echo", `{"Text":"hi"}`))
			p.next(1)
			if how == "EOF" {
				p.in.Close()
			} else {
				p.cmd.Process.Signal(syscall.SIGTERM)
			}
			p.wait("exit status 0")
		})
	}
}

// A person gets a hint. The master of a pseudoterminal is as good a terminal as
// its slave here, and needs no ioctl.
func TestProcAPersonGetsAHint(t *testing.T) {
	pty, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if runtime.GOOS != "linux" || err != nil {
		t.Skip("no pseudoterminals: ", err)
	}
	defer pty.Close()
	p := newProc(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	p.cmd.Stdin, p.cmd.Stderr = pty, w
	p.start()
	w.Close()
	errs := bufio.NewReader(r)
	if line, err := errs.ReadString('\n'); !strings.Contains(line, "child is an MCP server") || !strings.Contains(line, "Ctrl-C") {
		t.Fatalf("got %q, %v", line, err)
	}
	p.cmd.Process.Signal(os.Interrupt) // Ctrl-C, once
	p.answers(1, 0, anything)
	p.wait("exit status 0")
	if more, _ := io.ReadAll(errs); len(more) > 0 {
		t.Errorf("more on stderr: %s", more)
	}
}

// Neither a pipe nor a file nor the null device is taken for a terminal.
func TestOnlyATerminalIsTakenForOne(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	again, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	for name, f := range map[string]*os.File{"pipe": r, "pipe's end": w, "null device": null, "file": file} {
		if terminal(f, again) {
			t.Errorf("a %s is taken for a terminal", name)
		}
		if f.Close(); terminal(f, again) {
			t.Errorf("a closed %s is taken for a terminal", name)
		}
	}
}

// A terminal whose other end is closed is at its end. /proc/self/mem gives
// the same error as such a terminal does.
func TestTerminalThatGoesAwayIsAtItsEnd(t *testing.T) {
	f, err := os.Open("/proc/self/mem")
	if err != nil {
		t.Skip(err)
	}
	defer f.Close()
	if _, err := f.Read(make([]byte, 1)); !errors.Is(err, syscall.EIO) {
		t.Skip(err)
	}
	if _, err := (terminalEnd{f}).Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("Read: %v", err)
	}
}

// ==== properties, fuzzing, soak, speed ====

// ---- what we emit we accept, and what we send fits what we emitted ----

// acceptable holds every node of a schema against what model providers accept.
func acceptable(t *testing.T, where string, v any) {
	node, ok := v.(map[string]any)
	if !ok {
		t.Errorf("%s: %v is no object", where, v)
		return
	}
	typ, _ := node["type"].(string)
	if !slices.Contains([]string{"string", "integer", "number", "boolean", "array", "object"}, typ) {
		t.Errorf("%s: type %v", where, node["type"])
	}
	for key, val := range node {
		switch key {
		case "type", "description", "default", "enum", "format", "contentEncoding", "required",
			"minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems":
			if val == nil {
				t.Errorf("%s: %s is null", where, key)
			}
		case "properties":
			for name, p := range val.(map[string]any) {
				acceptable(t, where+"."+name, p)
			}
		case "items":
			acceptable(t, where+"[]", val)
		case "additionalProperties":
			if val != false {
				acceptable(t, where+"[]", val)
			}
		default:
			t.Errorf("%s: %s is not known to everybody", where, key)
		}
	}
	if _, ok := node["properties"]; ok && typ != "object" || !ok && typ == "object" && node["additionalProperties"] != nil {
		t.Errorf("%s: a %s, properties: %v", where, typ, ok)
	}
	if _, ok := node["items"]; ok != (typ == "array") {
		t.Errorf("%s: a %s, items: %v", where, typ, ok)
	}
}

// misfit holds a value against a schema of ours and tells what is wrong. As
// arguments are, lenient values may be null where they are optional, and hold
// numbers, booleans, lists and objects as strings.
func misfit(schema, val any, lenient bool) string {
	s := schema.(map[string]any)
	typ := s["type"].(string)
	if str, isText := val.(string); isText && lenient && typ != "string" {
		var inside any
		if json.Unmarshal([]byte(str), &inside) == nil && strings.TrimSpace(str) == str {
			if _, again := inside.(string); !again {
				val = inside
			}
		}
	}
	if choice, ok := s["enum"].([]any); ok && !slices.Contains(choice, val) {
		return fmt.Sprint(val, " is not one of ", choice)
	}
	within := func(n float64, low, high string) string {
		if bound, ok := s[low].(float64); ok && n < bound {
			return fmt.Sprint(n, " is below ", low)
		}
		if bound, ok := s[high].(float64); ok && n > bound {
			return fmt.Sprint(n, " is above ", high)
		}
		return ""
	}
	switch v := val.(type) {
	case bool:
		if typ == "boolean" {
			return ""
		}
	case float64:
		if typ == "number" || typ == "integer" && v == math.Trunc(v) {
			return within(v, "minimum", "maximum")
		}
	case string:
		if typ == "string" {
			_, err := base64.StdEncoding.DecodeString(v)
			if s["contentEncoding"] == "base64" && err != nil {
				return "no base64"
			}
			if format, _ := s["format"].(string); !wellFormed(format, v) {
				return v + " is no " + format
			}
			return within(float64(utf8.RuneCountInString(v)), "minLength", "maxLength")
		}
	case []any:
		if typ == "array" {
			for i, e := range v {
				if why := misfit(s["items"], e, lenient); why != "" {
					return fmt.Sprintf("[%d] %s", i, why)
				}
			}
			return within(float64(len(v)), "minItems", "maxItems")
		}
	case map[string]any:
		if typ == "object" {
			return misfitObject(s, v, lenient)
		}
	}
	return fmt.Sprintf("%v is no %s", val, typ)
}

func misfitObject(s, v map[string]any, lenient bool) string {
	properties, _ := s["properties"].(map[string]any)
	required, _ := s["required"].([]any)
	for _, name := range required {
		if _, there := v[name.(string)]; !there {
			return fmt.Sprint(name, " is missing")
		}
	}
	for name, e := range v {
		inner, known := properties[name]
		if !known {
			inner, known = s["additionalProperties"].(map[string]any)
		}
		switch {
		case e == nil && lenient && properties[name] != nil && !slices.Contains(required, any(name)):
		case known:
			if why := misfit(inner, e, lenient); why != "" {
				return name + " " + why
			}
		case s["additionalProperties"] == false:
			return name + " is unknown"
		}
	}
	return ""
}

// A chance makes types and values at random.
type chance struct{ *rand.Rand }

func (c chance) of(n int) bool { return c.IntN(n) == 0 }

func (c chance) text() string {
	return string([]rune("aé€😀\"\\\n<0 \u2028zA")[c.IntN(5):][:c.IntN(6)])
}

// typ makes a type, and tags that say more of it if it is for arguments.
func (c chance) typ(depth int, tagged bool) (t reflect.Type, tags string) {
	tag := func(format string, args ...any) {
		if tagged && c.of(3) {
			tags = fmt.Sprintf(format, args...)
		}
	}
	n := 14
	if depth == 0 {
		n = 9
	}
	switch c.IntN(n) {
	case 0:
		return reflect.TypeFor[bool](), ""
	case 1:
		tag(`minimum:"%d" maximum:"%d"`, -c.IntN(100), c.IntN(100))
		return []reflect.Type{reflect.TypeFor[int](), reflect.TypeFor[int8](), reflect.TypeFor[int32](), reflect.TypeFor[time.Duration]()}[c.IntN(4)], tags
	case 2:
		tag(`maximum:"%d"`, c.IntN(200))
		return []reflect.Type{reflect.TypeFor[uint](), reflect.TypeFor[uint8](), reflect.TypeFor[uint16]()}[c.IntN(3)], tags
	case 3:
		tag(`minimum:"-%d.5"`, c.IntN(9))
		return []reflect.Type{reflect.TypeFor[float32](), reflect.TypeFor[float64]()}[c.IntN(2)], tags
	case 4:
		tag(`minLength:"%d" maxLength:"%d"`, c.IntN(3), 3+c.IntN(3))
		return reflect.TypeFor[string](), tags
	case 5:
		tag(`enum:"a,é,b c"`)
		return reflect.TypeFor[string](), tags
	case 6:
		tag(`enum:"1,-2,30"`)
		return reflect.TypeFor[[]string](), tags
	case 7:
		return reflect.TypeFor[[]byte](), ""
	case 8:
		return reflect.TypeFor[time.Time](), ""
	case 9:
		t, _ = c.typ(depth-1, tagged)
		tag(`minLength:"1" maxLength:"3"`)
		if t = reflect.SliceOf(t); t == reflect.TypeFor[[]byte]() {
			tags = ""
		}
		return t, tags
	case 10:
		t, _ = c.typ(depth-1, tagged)
		return reflect.MapOf(reflect.TypeFor[string](), t), ""
	case 11:
		t, tags = c.typ(depth-1, tagged)
		return reflect.PointerTo(t), tags
	case 12:
		return reflect.TypeFor[map[string]any](), ""
	}
	return c.structType(depth-1, tagged), ""
}

func (c chance) structType(depth int, tagged bool) reflect.Type {
	var fields []reflect.StructField
	for i := range c.IntN(5) {
		t, tags := c.typ(depth, tagged)
		name := "f" + strconv.Itoa(i)
		json := []string{"", name, name + ",omitempty", name + ",omitzero", "é " + name}[c.IntN(5)]
		fields = append(fields, reflect.StructField{Name: strings.ToUpper(name), Type: t, Tag: reflect.StructTag(`json:"` + json + `" ` + tags)})
	}
	return reflect.StructOf(fields)
}

// fill sets v to anything, nil included.
func (c chance) fill(v reflect.Value) {
	switch k := v.Kind(); {
	case v.Type() == reflect.TypeFor[time.Time]():
		v.Set(reflect.ValueOf(time.Unix(c.Int64N(1<<33), c.Int64N(1e9)).UTC()))
	case k == reflect.Bool:
		v.SetBool(c.of(2))
	case v.CanInt():
		v.SetInt(c.Int64() >> c.IntN(64))
	case v.CanUint():
		v.SetUint(c.Uint64() >> c.IntN(64))
	case v.CanFloat():
		v.SetFloat(float64(float32(c.NormFloat64())))
	case k == reflect.String:
		v.SetString([]string{c.text(), "null", "\xff"}[c.IntN(3)])
	case k == reflect.Struct:
		for i := range v.NumField() {
			c.fill(v.Field(i))
		}
	case c.of(3): // nil
	case k == reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		c.fill(v.Elem())
	case k == reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), c.IntN(3), 3))
		for i := range v.Len() {
			c.fill(v.Index(i))
		}
	case k == reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for range c.IntN(3) {
			e := reflect.New(v.Type().Elem()).Elem()
			c.fill(e)
			v.SetMapIndex(reflect.ValueOf(c.text()), e)
		}
	case k == reflect.Interface:
		v.Set(reflect.ValueOf([]any{1, nil, "x"}))
	}
}

// value makes a value that fits a schema.
func (c chance) value(schema any) any {
	s := schema.(map[string]any)
	bound := func(key string, without float64) float64 {
		if n, ok := s[key].(float64); ok {
			return n
		}
		return without
	}
	between := func(unit string) int {
		low := int(bound("min"+unit, 0))
		return low + c.IntN(int(bound("max"+unit, 4))-low+1)
	}
	if choice, ok := s["enum"].([]any); ok {
		return choice[c.IntN(len(choice))]
	}
	switch s["type"] {
	case "boolean":
		return c.of(2)
	case "integer":
		low, high := bound("minimum", -1<<30), bound("maximum", 1<<30)
		switch c.IntN(4) { // the bounds are in it
		case 0:
			return low
		case 1:
			return high
		}
		return math.Floor(low + c.Float64()*(high-low))
	case "number":
		return bound("minimum", -5) + float64(c.IntN(100))/4
	case "array":
		list := make([]any, between("Items"))
		for i := range list {
			list[i] = c.value(s["items"])
		}
		return list
	case "object":
		object := make(map[string]any)
		required, _ := s["required"].([]any)
		properties, _ := s["properties"].(map[string]any)
		for _, name := range sortedKeys(properties) {
			switch {
			case slices.Contains(required, any(name)) || c.of(2):
				object[name] = c.value(properties[name])
			case c.of(3):
				object[name] = nil
			}
		}
		if more := s["additionalProperties"]; more != false && c.of(2) {
			if object["k"] = any(1.0); more != nil {
				object["k"] = c.value(more)
			}
		}
		return object
	}
	switch {
	case s["format"] == "date-time":
		return time.Unix(c.Int64N(1<<33), 0).UTC().Format(time.RFC3339)
	case s["contentEncoding"] != nil:
		return base64.StdEncoding.EncodeToString([]byte(c.text()))
	}
	return strings.Repeat("é", between("Length"))
}

func sortedKeys(m map[string]any) (keys []string) {
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// spoil puts something else in the place of one of the values in val.
func (c chance) spoil(val any) any {
	switch v := val.(type) {
	case []any:
		if len(v) > 0 && !c.of(3) {
			v = slices.Clone(v)
			i := c.IntN(len(v))
			v[i] = c.spoil(v[i])
			return v
		}
	case map[string]any:
		keys := sortedKeys(v)
		switch {
		case c.of(5):
			v["unknown"] = 1.0
			return v
		case len(keys) > 0 && c.of(5):
			delete(v, keys[c.IntN(len(keys))])
			return v
		case len(keys) > 0:
			key := keys[c.IntN(len(keys))]
			v[key] = c.spoil(v[key])
			return v
		}
	case float64:
		if c.of(2) { // which may be just above a bound, or just below
			return v + float64(c.IntN(3)-1)
		}
	case string:
		if c.of(2) {
			return v + "é"
		}
	}
	return []any{nil, true, "true", 5.0, "5", -1.0, 0.5, 300.0, "", "A", "AA==", "x y", []any{}, "[]", []any{nil}, map[string]any{}, "{}", map[string]any{"k": nil}, 1e300}[c.IntN(19)]
}

// Of random types, what fits the schema that we sent is accepted, and what does
// not is refused.
func TestWhatFitsTheSchemaIsAccepted(t *testing.T) {
	refused := 0
	for seed := range uint64(3000) {
		c := chance{rand.New(rand.NewPCG(seed, 1))}
		typ := c.structType(3, true)
		s := mustDerive(typ, "In", reading)
		rendered := s.render()
		var schema any
		if err := json.Unmarshal(rendered, &schema); err != nil {
			t.Fatal(err)
		}
		val := c.value(schema)
		for range c.IntN(3) {
			val = c.spoil(val)
		}
		args, _ := json.Marshal(val)
		if args[0] != '{' {
			continue // not for a tool
		}
		why := misfit(schema, val, true)
		err := (&rules{schema: s}).unmarshal(args, nil, reflect.New(typ).Interface())
		if err != nil {
			refused++
		}
		if (err == nil) != (why == "") && !strings.Contains(string(args), "1e+300") { // which a float32 cannot hold
			t.Errorf("seed %d: %s\nfor %s\ngot  %v\nwant %s", seed, args, rendered, err, why)
		}
	}
	if refused < 300 || refused > 2000 {
		t.Errorf("%d were refused", refused)
	}
}

// Of random types, any value, nil included, fits the schema that we sent once
// it is JSON.
func TestWhatIsSentFitsTheSchema(t *testing.T) {
	for seed := range uint64(3000) {
		c := chance{rand.New(rand.NewPCG(seed, 2))}
		typ := c.structType(3, false)
		if c.of(4) {
			typ = reflect.MapOf(reflect.TypeFor[string](), typ)
		}
		s := mustDerive(typ, "Out", writing)
		rendered := s.render()
		v := reflect.New(typ)
		c.fill(v.Elem())
		raw, err := s.marshal(v.Interface())
		var schema, val any
		if json.Unmarshal(rendered, &schema); err != nil || json.Unmarshal(raw, &val) != nil {
			t.Fatalf("%v: %s %v", typ, raw, err)
		}
		if why := misfit(schema, val, false); why != "" {
			t.Errorf("seed %d: %s\ndoes not fit %s\n%s", seed, raw, rendered, why)
		}
	}
}

// ---- fuzzing: sessions ----

const fuzzMeta = `"_meta":{"progressToken":7,"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"roots":{}}}`

func fuzzServer(option byte) *Server {
	s := &Server{Name: "demo", Version: "1", ErrorLog: log.New(io.Discard, "", 0), Drain: 20 * time.Second}
	s.MaxConcurrent = int(option & 1)
	s.PageSize = int(option >> 1 & 1)
	if option&8 != 0 {
		s.MaxMessage = 150
	}
	AddTool(s, Tool{Name: "echo"}, func(ctx context.Context, in struct {
		Text string     `json:"text"`
		N    int        `json:"n,omitempty" minimum:"1" maximum:"9"`
		When *time.Time `json:"when"`
	}) (map[string]any, error) {
		Progress(ctx, 1, 2, in.Text)
		return map[string]any{in.Text: in}, nil
	})
	AddTool(s, Tool{Name: "raw", InputSchema: json.RawMessage(`{"type":"object"}`)}, func(_ context.Context, in json.RawMessage) (json.RawMessage, error) { return in, nil })
	AddTool(s, Tool{Name: "slow"}, func(ctx context.Context, _ struct{}) (string, error) {
		<-ctx.Done()
		return "late", ctx.Err()
	})
	AddTool(s, Tool{Name: "roots"}, func(ctx context.Context, _ struct{}) ([]Root, error) { return Roots(ctx, "r") })
	AddTool(s, Tool{Name: "panic"}, func(context.Context, struct{}) (string, error) { panic("!") })
	AddTool(s, Tool{Name: "grow"}, func(context.Context, map[string]string) (string, error) {
		AddTool(s, Tool{Name: "more"}, func(context.Context, struct{}) (struct{}, error) { return struct{}{}, nil })
		return "", &Error{Code: 1, Message: "\xff", Data: 1.5}
	})
	return s
}

// owed judges what a line of the client is owed: an answer, under which id. It
// reports doubt where that depends on what was said before.
func owed(line []byte) (id string, answers int, doubt bool) {
	if !utf8.Valid(line) || !json.Valid(line) {
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
	twice := duplicates(line, "jsonrpc", "id", "method", "params", "result", "error")
	var method string
	named := byMethod && m["method"][0] == '"' && json.Unmarshal(m["method"], &method) == nil
	if raw := m["id"]; raw != nil {
		id = string(raw)
		if id[0] != '"' && (!isWhole(id) || strings.ContainsAny(id, "eE")) {
			id = "null"
		}
		if duplicates(line, "id") {
			return "null", 1, duplicates(line, "jsonrpc", "method", "params", "result", "error")
		}
		return id, 1, method == "subscriptions/listen"
	}
	if named && !twice {
		return "", 0, method == "notifications/cancelled"
	}
	return "null", 1, false
}

// duplicates reports whether one of the names comes twice in an object.
func duplicates(object []byte, names ...string) bool {
	seen := make(map[string]bool)
	d := json.NewDecoder(bytes.NewReader(object))
	d.Token()
	for d.More() {
		key, _ := d.Token()
		name := key.(string)
		if seen[name] && (names == nil || slices.Contains(names, name)) {
			return true
		}
		seen[name] = true
		var val json.RawMessage
		d.Decode(&val)
	}
	return false
}

// Whatever is sent, what comes back is lines of JSON that are owed.
func FuzzServe(f *testing.F) {
	legacy := `{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{"roots":{}},"clientInfo":{"name":"c","version":"1"}}}` + "\n"
	call := func(id, tool, args string) string {
		return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"` + tool + `","arguments":` + args + `}}` + "\n"
	}
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
		r, w := wired(in, &out)
		if err := s.Serve(context.Background(), r, w); err != nil {
			t.Fatalf("Serve: %v", err)
		}
		may, lines, total, doubt := make(map[string]int), 0, 0, false
		for i, line := range bytes.Split(input, []byte("\n")) {
			if i == 0 {
				line = bytes.TrimPrefix(line, []byte("\ufeff"))
			}
			doubt = doubt || len(line) > cmp.Or(s.MaxMessage, 64<<20)
			if line = bytes.Trim(line, " \t\r"); len(line) == 0 {
				continue
			}
			lines++
			id, n, d := owed(line)
			may[id] += n
			total += n
			doubt = doubt || d
		}
		got := make(map[string]int)
		answers := 0
		if out.Len() > 0 && out.Bytes()[out.Len()-1] != '\n' {
			t.Errorf("no newline at the end: %q", &out)
		}
		for line := range bytes.Lines(out.Bytes()) {
			line = line[:len(line)-1]
			if !utf8.Valid(line) || !json.Valid(line) {
				t.Errorf("not JSON: %q", line)
				continue
			}
			list := []json.RawMessage{line}
			if line[0] == '[' {
				json.Unmarshal(line, &list)
			}
			for _, one := range list {
				var m map[string]json.RawMessage
				if err := json.Unmarshal(one, &m); err != nil || string(m["jsonrpc"]) != `"2.0"` || duplicates(one) {
					t.Errorf("no message: %s", one)
				}
				if m["method"] == nil {
					answers++
					got[string(m["id"])]++
					if (m["result"] == nil) == (m["error"] == nil) || m["id"] == nil {
						t.Errorf("no answer: %s", one)
					}
				}
			}
		}
		if !doubt {
			for id := range got {
				if may[id] == 0 && id != "null" {
					t.Errorf("answer to nobody, id %s", id)
				}
			}
			for id, n := range may { // the second of two at once is refused as null
				if (got[id] > n || n == 1 && got[id] < n) && id != "null" {
					t.Errorf("%d answers for id %s, asked %d times", got[id], id, n)
				}
			}
			if answers != total {
				t.Errorf("%d answers, %d owed:\n%s", answers, total, &out)
			}
		} else if !bytes.Contains(input, []byte("[")) && answers > lines {
			t.Errorf("%d answers to %d lines", answers, lines)
		}
	})
}

// A state is accepted only if it is, byte for byte, what seal makes.
func FuzzState(f *testing.F) {
	s := &Server{}
	good := callOf(s, "x", "").seal([]byte(`{"a":{}}`))
	for _, state := range []string{good, "", ".", "..", good + "\n", good[:len(good)-1], "zzzzzz.e30.AAAA", "-1.e30." + strings.Repeat("A", 13)} {
		f.Add(state, "x", []byte(`{}`))
	}
	f.Fuzz(func(t *testing.T, state, tool string, answers []byte) {
		call := callOf(s, tool, "")
		if _, ok := call.unseal(state); ok && state != good {
			t.Errorf("accepted %q", state)
		}
		sealed := call.seal(answers)
		if got, ok := call.unseal(sealed); !ok || !bytes.Equal(got, answers) {
			t.Errorf("refused %q", sealed)
		}
		if _, ok := callOf(s, tool+".", "").unseal(sealed); ok {
			t.Errorf("accepted %q for something else", sealed)
		}
		if _, ok := call.unseal(sealed + state); ok && state != "" {
			t.Errorf("accepted %q and more", sealed)
		}
	})
}

// ---- fuzzing: templates ----

// A template matches what it expands to, and its values never climb.
func FuzzTemplate(f *testing.F) {
	f.Add("file:///{+dir}/{name}.txt", "file:///a/b/c.txt", "a/b", "c")
	f.Add("x:{a}-{b}", "x:%2e%2E-%2F", "..", "%2F")
	f.Add("x:{+a}a{+b}", "x:aaaa", "/a//b\\c/./?#", "é\x00")
	f.Add("x:{", "x:%", "../..", "\xff")
	f.Fuzz(func(t *testing.T, template, uri, dir, name string) {
		match := func(template, uri string) (map[string]string, bool) {
			parts, _, err := parseTemplate(template)
			if err != nil {
				return nil, false
			}
			vars, ok := matchTemplate(parts, uri)
			if !ok {
				return nil, false
			}
			for i := 1; i < len(parts); i += 2 {
				varName, reserved := strings.CutPrefix(parts[i], "+")
				if value, ok := vars[varName]; !ok || !harmless(value, reserved) {
					t.Errorf("%q in %q: %s = %q, %t", uri, template, varName, value, ok)
				}
			}
			return vars, true
		}
		match(template, uri)
		uri = "file:///" + expanded(dir, true) + "/" + expanded(name, false) + ".txt"
		vars, ok := match("file:///{+dir}/{name}.txt", uri)
		if want := harmless(dir, true) && harmless(name, false); ok != want {
			t.Errorf("%q matched: %t, want %t", uri, ok, want)
		} else if ok && (vars["dir"] != dir || vars["name"] != name) {
			t.Errorf("%q gave %q, want %q and %q", uri, vars, dir, name)
		}
	})
}

// harmless says what a value may be, in other words than the library does.
func harmless(value string, reserved bool) bool {
	segments := strings.Split(strings.NewReplacer(`\`, "/", "?", "/", "#", "/").Replace(value), "/")
	return value != "" && utf8.ValidString(value) && !strings.Contains(value, "\x00") &&
		!slices.Contains(segments, "..") && !slices.Contains(segments, ".") && (reserved || !strings.ContainsAny(value, `/\`))
}

// expanded is the simple, or the reserved, expansion of RFC 6570.
func expanded(value string, reserved bool) string {
	var b strings.Builder
	for _, c := range []byte(value) {
		switch {
		case 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-._~", c) >= 0,
			reserved && strings.IndexByte(":/?#[]@!$&'()*+,;=", c) >= 0:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// ---- fuzzing: the scanner, against encoding/json ----

// The scanner takes and refuses what encoding/json does, and finds the same
// members.
func FuzzEnvelope(f *testing.F) {
	for _, seed := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":[1,2.5e-3,-0,"\u00e9"]},"result":null,"error":true}`,
		`{"i\u0064":1,"id":2}`, `{"ID":1,"":{},"id":[]}`, "[1,]", `{"a":1,}`, `{"a"}`, `{"a":}`, `{,}`, `[01]`, `[-]`, `[1.]`, `[1e]`, `[1e+5,0.1E-7]`,
		`"\x"`, `"\v"`, `"\u12"`, `"\u12g4"`, "\"\x1f\"", `"abc`, `tru`, `nul`, `falsey`, ` { "a" : [ ] , "b" : { } } `, `{"a":1}x`, `[[[{"a":[{}]}]]]`, `{"\"":"\\"}`, `[1 2]`, `{"a" 1}`, `{1:2}`, `-01`, `"\`, `[`, `{"id":`, `1.0e`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if !utf8.Valid(b) {
			return
		}
		i := skipSpace(b, 0)
		end := scan(b, i, 0, nil)
		valid := end >= 0 && skipSpace(b, end) == len(b)
		if want := json.Valid(b); valid != want {
			t.Fatalf("%.200q: valid: got %v, want %v", b, valid, want)
		}
		compact, err := appendCompact(nil, b)
		if (err == nil) != valid {
			t.Errorf("appendCompact: %v", err)
		}
		if i < len(b) { // as accept would, which never sees an empty line
			var e envelope
			e.parse(b[i:]) // must not panic
		}
		if !valid {
			return
		}
		var want bytes.Buffer
		if json.Compact(&want, b); !bytes.Equal(compact, want.Bytes()) {
			t.Errorf("appendCompact: got %q, want %q", compact, &want)
		}
		b = b[i:end]
		isID := b[0] == '"' || isWhole(string(b)) && !bytes.ContainsAny(b, "eE")
		if validID(b) != isID {
			t.Errorf("validID(%s) = %v", b, !isID)
		}
		var list []json.RawMessage
		if b[0] == '[' && json.Unmarshal(b, &list) == nil {
			for key, val := range members(b) {
				if key != nil || len(list) == 0 || string(val) != string(list[0]) {
					t.Fatalf("member %s: %s", key, val)
				}
				list = list[1:]
			}
			if len(list) > 0 {
				t.Errorf("not found: %s", list)
			}
		}
		if b[0] != '{' {
			return
		}
		var m map[string]json.RawMessage
		if err := json.Unmarshal(b, &m); err != nil {
			t.Fatal(err)
		}
		var e envelope
		e.parse(b)
		for name, got := range map[string][]byte{"jsonrpc": e.jsonrpc, "id": e.id, "method": e.method, "params": e.params.raw, "result": e.result, "error": e.err} {
			if (got == nil) != (m[name] == nil) || string(got) != string(m[name]) {
				t.Errorf("%s: got %s, want %s", name, got, m[name])
			}
		}
		if twice := duplicates(b, "jsonrpc", "id", "method", "params", "result", "error"); twice != (e.twice != "") {
			t.Errorf("twice: got %q, want %v", e.twice, twice)
		}
		for _, known := range [][]byte{nil, longestMember(b)} {
			all := make(map[string]string)
			for key, val := range membersKnowing(b, known) {
				all[string(key)] = string(val)
			}
			if !maps.EqualFunc(all, m, func(a string, b json.RawMessage) bool { return a == string(b) }) {
				t.Errorf("members, of which %q is known: got %q, want %q", known, all, m)
			}
		}
	})
}

// longestMember returns the longest value in an object.
func longestMember(obj []byte) (val []byte) {
	pick(obj, want{to: &val})
	return val
}

// The end of the longest argument is looked for once: when the line is scanned. So
// a long text costs no further pass, wherever it stands.
func TestTheLongestArgumentIsScannedOnce(t *testing.T) {
	type note struct{ To, Text string }
	s := &Server{}
	AddTool(s, Tool{Name: "map"}, func(_ context.Context, in map[string]string) (string, error) { return in["Text"], nil })
	read := func(_ context.Context, in note) (string, error) { return in.Text, nil }
	AddTool(s, Tool{Name: "struct"}, read)
	AddTool(s, Tool{Name: "byhand", InputSchema: json.RawMessage(`{"type":"object","required":["Text"]}`)}, read)
	// parse returns the params of a call. Behind its back a quote gets into the text:
	// whoever scans that again thinks that it ends there.
	parse := func(args string) params {
		line := []byte(`{"params":{"arguments":` + args + `,"name":""}}`)
		var e envelope
		if !e.parse(line) {
			t.Fatalf("not valid: %s", line)
		}
		line[bytes.IndexByte(line, '\'')] = '"'
		return e.params
	}
	for name, item := range s.items[tools] {
		for _, args := range []string{`{"To":"you","Text":"0123'5678"}`, `{"Text":"0123'5678","To":"you"}`} {
			got := string(item.handler(&request{session: &session{}, item: item, ctx: t.Context(), params: parse(args)}))
			if !strings.Contains(got, `"0123\"5678"`) {
				t.Errorf("%s with %s: got %s", name, args, got)
			}
		}
	}
	p := parse(`{"wait_for_previous":"whatever","Text":"0123'5678"}`)
	if got := string(without(p.arguments, p.longest, hostsOwn)); got != `{"Text":"0123"5678"}` {
		t.Errorf("without %s: got %s", hostsOwn, got)
	}
}

// Values may be nested as deeply as encoding/json allows, and no deeper.
func TestDepthIsBoundedAsInEncodingJSON(t *testing.T) {
	for _, nest := range [][3]string{{"[", "", "]"}, {`{"":`, "1", "}"}, {`[{"":`, "[]", "}]"}} {
		for _, n := range []int{4999, 5000, 5001, 9999, 10000, 10001} {
			b := []byte(strings.Repeat(nest[0], n) + nest[1] + strings.Repeat(nest[2], n))
			if got, want := scan(b, 0, 0, nil) == len(b), json.Valid(b); got != want {
				t.Errorf("%d of %s: got %v, want %v", n, nest[0], got, want)
			}
		}
	}
}

// Strings are read and written as encoding/json does.
func FuzzText(f *testing.F) {
	for _, seed := range []string{"", "plain", `\"\\\/\b\f\n\r\t`, `\u00e9\uD83D\uDE00`, `\ud800`, `\ud800\ud800\udc00`, `\udc00\ud800x`, `\ud800\u0041`, `\uFFFD\ud800\n`, "\x00\x1f\x7f", "<>&", "\u2028\u2029\ufffd", "\xff\xc3\x28\xed\xa0\x80", `a\`, `"`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var want bytes.Buffer
		enc := json.NewEncoder(&want)
		enc.SetEscapeHTML(false)
		enc.Encode(s)
		if got := appendString([]byte("x"), s); string(got) != "x"+strings.TrimSuffix(want.String(), "\n") {
			t.Errorf("appendString: got %s, want %s", got, &want)
		}
		for _, raw := range []string{`"` + s + `"`, s, want.String()[:want.Len()-1]} {
			if !json.Valid([]byte(raw)) || raw != strings.TrimSpace(raw) {
				continue
			}
			var plain string
			err := json.Unmarshal([]byte(raw), &plain)
			got, ok := unquote([]byte(raw))
			switch {
			case ok != (raw[0] == '"') || ok && err != nil:
				t.Errorf("text(%q): %v, want %v", raw, ok, err)
			case ok && utf8.ValidString(raw) && got != plain:
				t.Errorf("text(%q) = %q, want %q", raw, got, plain)
			}
		}
	})
}

// isWhole reports whether a JSON number has no fraction but zeros.
func isWhole(num string) bool {
	if num == "" || num[0] != '-' && (num[0] < '0' || num[0] > '9') {
		return false
	}
	mantissa, _, _ := strings.Cut(num, "e")
	_, fraction, _ := strings.Cut(mantissa, ".")
	return strings.Trim(fraction, "0") == ""
}

// ---- fuzzing: values to JSON, against encoding/json ----

type (
	color   uint8 // text, by methods of the value
	lang    string
	valJSON struct{ A int }
	ptrJSON struct {
		A int `json:"a"`
		B []string
	}
	ptrList []int          // text, by a method of the pointer
	ptrMap  map[string]int // JSON, by a method of the pointer
	inJSON  struct{ A, B int }
	inText  map[string]bool
	blob    []byte // text, and no base64
	seven   int
	three   struct{ A int }
	Deep    struct {
		ID   int8 `json:"id"`
		Deep string
		X, Y int
	}
	Left struct {
		*Deep
		X    float32 `json:",omitzero"`
		Same bool
		Tag  int `json:"tag"`
	}
	Right struct {
		Deep
		Y    string `json:"Y"`
		Same bool
		Tag  string
	}
	hidden struct {
		Shown, ID int
		private   int
	}
	Plain  string
	secret int
	Cycle  struct {
		*Cycle
		V int
	}
	conflicts struct {
		Left
		Right
		hidden
		Plain
		secret
		Named Deep `json:"named"`
		Tag2  bool `json:"tag"`
	}
	embeds struct {
		*Left
		*hidden
		Right `json:"right,omitempty"`
		*Cycle
		fmt.Stringer
	}
	tagged struct {
		hidden  `json:"hidden,omitzero"`
		Bad     int `json:"it's"`
		Worse   int `json:"☺,omitempty"`
		Space   int `json:"a b<>&"`
		Dash    int `json:"-,"`
		None    int `json:"-"`
		Comma   int `json:",omitempty,string"`
		Ümlaut  int
		Under_  int `json:"_\"_"`
		private int
	}
	numbers struct {
		B   bool    `json:"b,omitempty"`
		I   int     `json:"i,omitempty"`
		I8  int8    `json:"i8,omitempty"`
		I16 int16   `json:"i16,omitempty"`
		I32 int32   `json:"i32,omitempty"`
		I64 int64   `json:"i64,omitempty"`
		U   uint    `json:"u,omitempty"`
		U8  uint8   `json:"u8,omitempty"`
		U16 uint16  `json:"u16,omitempty"`
		U32 uint32  `json:"u32,omitempty"`
		U64 uint64  `json:"u64,omitempty"`
		Ptr uintptr `json:"ptr,omitempty"`
		F32 float32 `json:"f32,omitempty"`
		F64 float64 `json:"f64,omitempty"`
	}
	nested struct {
		S    string                       `json:"s,omitempty"`
		By   []byte                       `json:"by,omitempty"`
		L    []int                        `json:"l,omitempty"`
		LL   [][]string                   `json:"ll,omitempty"`
		LP   []*float32                   `json:"lp,omitempty"`
		M    map[string]float32           `json:"m,omitempty"`
		ML   map[lang]map[string][]uint16 `json:"ml,omitempty"`
		N    numbers                      `json:"n,omitzero"`
		P    *string                      `json:"p"`
		PP   **int8                       `json:"pp"`
		T    *time.Time                   `json:"t"`
		C    color                        `json:"c,omitempty"`
		CL   []color                      `json:"cl,omitempty"`
		Self *nested                      `json:"self"`
		List []nested                     `json:"list,omitempty"`
		Right
		*Left
	}
	required struct {
		A string    `json:"a"`
		B bool      `json:"b"`
		N int       `json:"n" minimum:"-1" maximum:"9"`
		F float64   `json:"f" minimum:"0.5"`
		E string    `json:"e" enum:"x,y"`
		L []int8    `json:"l" minLength:"1" maxLength:"2"`
		D uint8     `json:"d" default:"7" maximum:"8"`
		W string    `json:"w" default:"é" maxLength:"3"`
		T time.Time `json:"t"`
	}
	loose struct {
		numbers
		nested
		Any any         `json:"any"`
		Num json.Number `json:"num"`
		Out valJSON     `json:"out"`
		In  inJSON      `json:"in"`
	}
)

func (c color) MarshalText() ([]byte, error) { return fmt.Appendf(nil, "#%d<\xff", c), nil }
func (c *color) UnmarshalText(b []byte) error {
	n, err := fmt.Sscanf(string(b), "#%d", c)
	return errIf(n != 1 || err != nil)
}
func (l *lang) UnmarshalText(b []byte) error {
	*l = lang(strings.ToLower(string(b)))
	return errIf(len(b) > 5)
}
func (v valJSON) MarshalJSON() ([]byte, error) {
	return fmt.Appendf(nil, ` [ %d, "<\u2028 " ] `, v.A), nil
}
func (v *ptrJSON) MarshalJSON() ([]byte, error) { return fmt.Appendf(nil, `{"p" : %d}`, v.A), nil }
func (v *ptrList) MarshalText() ([]byte, error) { return fmt.Appendf(nil, "%v", *v), nil }
func (v *ptrMap) MarshalJSON() ([]byte, error) {
	if len(*v) > 2 {
		return []byte("{,}"), nil
	}
	return []byte("7"), nil
}
func (v *inJSON) UnmarshalJSON(b []byte) error { v.A = int(b[0]); return errIf(b[0] == 't') }
func (v *inText) UnmarshalText(b []byte) error { return nil }
func (b *blob) UnmarshalText(t []byte) error   { *b = append(*b, t...); return nil }
func (b blob) MarshalText() ([]byte, error)    { return b, nil }
func (s seven) IsZero() bool                   { return s == 7 }
func (t *three) IsZero() bool                  { return t.A == 3 }
func (s seven) String() string                 { return "seven" }

// structOf returns a struct with a field of each type. An interface is given
// as a nil pointer to it.
func structOf(tag string, vals ...any) reflect.Type {
	var fields []reflect.StructField
	for i, v := range vals {
		t := reflect.TypeOf(v)
		if t.Kind() == reflect.Pointer && t.Elem().Kind() == reflect.Interface {
			t = t.Elem()
		}
		fields = append(fields, reflect.StructField{Name: "F" + strconv.Itoa(i), Type: t, Tag: reflect.StructTag(tag)})
	}
	return reflect.StructOf(fields)
}

func errIf(bad bool) error {
	if bad {
		return fmt.Errorf("bad")
	}
	return nil
}

// A source makes values of the bytes of a fuzzer.
type source []byte

func (s *source) next(n int) int {
	if len(*s) == 0 {
		return 0
	}
	b := (*s)[0]
	*s = (*s)[1:]
	return int(b) % n
}

func (s *source) bits() uint64 {
	switch i := s.next(10); i {
	case 0, 1, 2, 3:
		return uint64(s.next(256))
	case 4:
		return -uint64(s.next(256))
	case 5:
		return math.Float64bits(math.Pow10(s.next(50) - 25))
	default:
		var b [8]byte
		for i := range b {
			b[i] = byte(s.next(256))
		}
		return binary.LittleEndian.Uint64(b[:]) >> (i % 5 * 8)
	}
}

func (s *source) text() string {
	n := min(s.next(12), len(*s))
	str := string((*s)[:n])
	*s = (*s)[n:]
	return str
}

// value sets v. Nil is only what encoding/json and we write in the same way.
func (s *source) value(v reflect.Value, depth int) {
	switch x := v.Addr().Interface().(type) {
	case *time.Time:
		*x = time.Unix(int64(s.bits()>>31), int64(s.bits()>>40)).UTC()
		if s.next(2) == 0 {
			*x = time.Time{}
		}
		return
	case *json.Number:
		*x = json.Number([]string{"", "0", "-1.5e+9", "007", "true", " 1", "12345678901234567890", "1 "}[s.next(8)])
		return
	case *json.RawMessage:
		*x = json.RawMessage([]string{"null", ` {"a" : "<\u2028" , "b":[ ] }`, "1.50", "[1,]", "", "\"\u2029\""}[s.next(6)])
		return
	case *fmt.Stringer:
		*x = []fmt.Stringer{nil, seven(7), seven(0), time.UTC}[s.next(3)]
		return
	}
	n := min(s.next(4), len(*s), 6-depth)
	switch k := v.Kind(); {
	case k == reflect.Bool:
		v.SetBool(s.next(2) == 1)
	case v.CanInt():
		v.SetInt(int64(s.bits()))
	case v.CanUint():
		v.SetUint(s.bits())
	case k == reflect.Float32:
		v.SetFloat([]float64{float64(math.Float32frombits(uint32(s.bits()))), float64(float32(math.Pow10(s.next(50) - 25)))}[s.next(2)])
	case k == reflect.Float64:
		v.SetFloat(math.Float64frombits(s.bits()))
	case k == reflect.String:
		v.SetString(s.text())
	case k == reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		s.value(v.Elem(), depth+1)
	case k == reflect.Interface:
		t := []reflect.Type{nil, reflect.TypeFor[bool](), reflect.TypeFor[string](), reflect.TypeFor[float32](), reflect.TypeFor[int64](), reflect.TypeFor[time.Time](), reflect.TypeFor[*ptrJSON](), reflect.TypeFor[ptrMap](), reflect.TypeFor[three](), reflect.TypeFor[*any](), reflect.TypeFor[inJSON](), reflect.TypeFor[func()](), reflect.TypeFor[[]any](), reflect.TypeFor[map[string]any](), reflect.TypeFor[Right]()}[s.next(15)]
		if t != nil && depth < 6 {
			p := reflect.New(t).Elem()
			s.value(p, depth+1)
			v.Set(p)
		}
	case k == reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), max(n, 0), max(n, 0)))
		fallthrough
	case k == reflect.Array:
		for i := range v.Len() {
			s.value(v.Index(i), depth+1)
		}
	case k == reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for range n {
			key, val := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			s.value(key, depth+1)
			s.value(val, depth+1)
			v.SetMapIndex(key, val)
		}
	case k == reflect.Struct:
		for i := range v.NumField() {
			f, tag := v.Type().Field(i), v.Type().Field(i).Tag.Get("json")
			null := strings.Contains(tag, ",omitempty") || f.Anonymous && tag == "" // and not just empty
			switch e := v.Field(i); {
			case null && (e.Kind() == reflect.Pointer || e.Kind() == reflect.Slice) && (depth > 4 || s.next(3) == 0):
			case f.Type == reflect.TypeFor[*Cycle](), depth > 4 && e.Kind() == reflect.Pointer && v.Type() == reflect.TypeFor[nested]():
			case f.IsExported():
				s.value(e, depth+1)
			case f.Anonymous && e.Kind() == reflect.Struct:
				s.value(reflect.NewAt(e.Type(), e.Addr().UnsafePointer()).Elem(), depth+1)
			case f.Anonymous && e.Kind() == reflect.Pointer:
				p := reflect.NewAt(e.Type(), e.Addr().UnsafePointer()).Elem()
				p.Set(reflect.New(e.Type().Elem()))
				s.value(p.Elem(), depth+1)
			}
		}
	}
}

// sameButNil compares what we make of a value with what encoding/json makes of
// it, which writes null where we may write something empty, or nothing.
func sameButNil(ours, theirs any) bool {
	switch theirs := theirs.(type) {
	case nil:
		list, isList := ours.([]any)
		object, isObject := ours.(map[string]any)
		return ours == nil || ours == "" || isList && len(list) == 0 || isObject && len(object) == 0
	case []any:
		list, ok := ours.([]any)
		for _, val := range theirs {
			if ok && len(list) > 0 && sameButNil(list[0], val) {
				list = list[1:]
			} else if val != nil {
				return false
			}
		}
		return ok && len(list) == 0
	case map[string]any:
		object, ok := ours.(map[string]any)
		for key, val := range theirs {
			if mine, there := object[key]; there && !sameButNil(mine, val) || !there && val != nil {
				return false
			}
		}
		return ok && len(object) <= len(theirs)
	}
	return reflect.DeepEqual(ours, theirs)
}

// judge is json.Marshal without escapes for HTML.
func judge(v any) (string, error) {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return strings.TrimSuffix(b.String(), "\n"), err
}

var (
	anyInput  = (*any)(nil)
	empties   = []any{true, 1.5, "", []int{}, map[string]int{}, new(int), anyInput, [0]int{}, [1]int{}, three{}, uint8(1), new(any), time.Time{}, color(1), json.Number("")}
	zeros     = []any{1, new(int), anyInput, time.Time{}, new(time.Time), seven(1), three{}, &three{}, [2]float32{}, []int{}, (*fmt.Stringer)(nil), map[int8]three{}, ptrList{}}
	quotables = []any{1, new(float32), "", color(1), []int{}, anyInput, json.Number(""), new(bool), Plain(""), valJSON{}, uint64(1), inText{}}
	methods_  = []any{valJSON{}, &valJSON{}, ptrJSON{}, &ptrJSON{}, ptrList{}, &ptrList{}, ptrMap{}, &ptrMap{}, inJSON{}, inText{}, []color{}, map[color]bool{}, map[lang]ptrList{},
		map[time.Month]time.Duration{}, map[uint16]*ptrMap{}, json.RawMessage{}, &json.RawMessage{}, time.Time{}, [2]ptrJSON{}, []any{}, []byte{}, [3]byte{}, new(*int), blob{}}
	encoded = []reflect.Type{
		reflect.TypeFor[conflicts](), reflect.TypeFor[embeds](), reflect.TypeFor[tagged](), reflect.TypeFor[numbers](), reflect.TypeFor[Left](),
		reflect.TypeFor[any](), reflect.TypeFor[[]float32](), reflect.TypeFor[map[string]float64](), reflect.TypeFor[ptrList](), reflect.TypeFor[ptrMap](),
		reflect.TypeFor[[][]byte](), reflect.TypeFor[map[int64]any](), reflect.TypeFor[[]json.Number](), reflect.TypeFor[Cycle](), reflect.TypeFor[time.Time](), reflect.TypeFor[struct{ F func() }](),
		structOf(`json:",omitempty"`, empties...), structOf(`json:",omitzero"`, zeros...), structOf(`json:",omitempty,omitzero"`, slices.Concat(empties, zeros)...),
		structOf(`json:",string"`, quotables...), structOf(`json:",string,omitempty"`, quotables...), structOf("", methods_...),
	}
)

// Values are written as encoding/json writes them, but for nil.
func FuzzEncode(f *testing.F) {
	for i := range encoded {
		f.Add(byte(i), []byte{})
		for seed := range 12 {
			b := make([]byte, 400)
			for j, x := 0, uint64(i*100+seed)*2654435761+1; j < len(b); j++ {
				x = x*6364136223846793005 + 1442695040888963407
				b[j] = byte(x >> 56)
			}
			f.Add(byte(i), b)
		}
	}
	f.Add(byte(8), []byte{3, 0, 19, 1, 0, 46, 1, 0, 47, 1})
	f.Fuzz(func(t *testing.T, which byte, data []byte) {
		v := reflect.New(encoded[int(which)%len(encoded)])
		src := source(data)
		src.value(v.Elem(), 0)
		for _, v := range []any{v.Elem().Interface(), v.Interface(), []any{v.Interface()}} {
			want, err := judge(v)
			want = strings.NewReplacer("\u2028", `\u2028`, "\u2029", `\u2029`).Replace(want)
			got, fault := marshal(v)
			same := string(got) == want
			if !same && strings.Contains(want, "null") {
				var x, y any
				json.Unmarshal(got, &x)
				json.Unmarshal([]byte(want), &y)
				same = y == nil || x != nil && sameButNil(x, y)
			}
			if (fault == nil) != (err == nil) || err == nil && !same {
				t.Errorf("%T:\ngot  %s %v\nwant %s %v", v, got, fault, want, err)
			}
		}
	})
}

// A nil slice or map is written as an empty one, and a nil pointer is left out;
// what no JSON can hold is an error, and no panic.
func TestNilIsWrittenAsEmpty(t *testing.T) {
	var self any
	self = &self
	loop := map[string]any{}
	loop["loop"] = []any{loop}
	node := &Cycle{}
	node.Cycle = node
	type list struct{ Next *list }
	round := &list{}
	round.Next = round
	type nils struct {
		L []int
		M map[string]int
		B []byte
		P *int
		I any
		J *ptrJSON
		E *[]int `json:",omitempty"`
		Q *int   `json:",string"`
	}
	for _, test := range []struct {
		v    any
		want string // "" for an error
	}{
		{nils{}, `{"L":[],"M":{},"B":"","I":null}`}, {&nils{}, `{"L":[],"M":{},"B":"","I":null}`}, {(*nils)(nil), "null"}, {nil, "null"},
		{[]*int{nil}, "[]"}, {[]*ptrJSON{nil, {A: 1}, nil}, `[null,{"p":1},null]`}, {[]map[int]int{nil, {1: 2}}, `[{},{"1":2}]`}, {[][]map[int]bool{nil, {nil}}, "[[],[{}]]"}, {[2]*int{}, "[null,null]"}, {map[string]*int{"a": nil}, "{}"}, {[][]int{nil}, "[[]]"}, {[]int(nil), "[]"}, {map[int]int(nil), "{}"},
		{json.RawMessage(nil), "null"}, {struct{ R json.RawMessage }{}, `{"R":null}`}, {(*time.Time)(nil), "null"}, {struct{ J json.Marshaler }{}, `{"J":null}`},
		{float32(1e-6), "0.000001"}, {1e-7, "1e-7"}, {1e21, "1e+21"}, {float32(1e21), "1e+21"}, {math.Copysign(0, -1), "-0"}, {"<&>\u2028\xff", `"<&>\u2028\ufffd"`},
		{map[time.Month]int{1: 1, 10: 2}, `{"1":1,"10":2}`}, {json.RawMessage("\"\xff\u2028\""), "\"\ufffd\\u2028\""},
		{math.NaN(), ""}, {float32(math.Inf(-1)), ""}, {[]float64{math.Inf(1)}, ""}, {make(chan int), ""}, {func() {}, ""}, {1i, ""},
		{self, ""}, {loop, ""}, {round, ""}, {[]any{&self}, ""}, {map[struct{}]int{{}: 1}, ""}, {node, `{"V":0}`},
	} {
		if got, err := marshal(test.v); string(got) != test.want || (err == nil) != (test.want != "") {
			t.Errorf("%T: got %s %v, want %s", test.v, got, err, test.want)
		}
	}
}

// Names of fields and their order are what encoding/json writes, also of types
// made up of what tags there are.
func TestFieldsAreThoseOfEncodingJSON(t *testing.T) {
	types := slices.Clone(encoded)
	names := []string{"", "a", "A", "b", "F1", "it's", "x y", "é", "-", `q\"`, "\u2028", "0", "string"}
	opts := []string{"", ",", ",omitempty", ",string", ",omitzero", ",nonsense,omitempty", ", omitempty"}
	for x := range 2000 {
		src := source(binary.LittleEndian.AppendUint64(nil, uint64(x+1)*0x9e3779b97f4a7c15))
		var fields []reflect.StructField
		for i := range 1 + src.next(4) {
			typ := []reflect.Type{reflect.TypeFor[int](), reflect.TypeFor[*string](), reflect.TypeFor[[]bool](), reflect.TypeFor[Deep]()}[src.next(4)]
			fields = append(fields, reflect.StructField{Name: "F" + strconv.Itoa(i), Type: typ, Tag: reflect.StructTag(`json:"` + names[src.next(len(names))] + opts[src.next(len(opts))] + `"`)})
		}
		types = append(types, reflect.StructOf(fields))
	}
	var toEmbed []reflect.Type
	for x := range 6000 {
		src := source(binary.LittleEndian.AppendUint64(nil, uint64(x+1)*0x9e3779b97f4a7c15))
		if x%6 == 0 {
			toEmbed = nil
		}
		var fields []reflect.StructField
		for i := range src.next(3) {
			fields = append(fields, reflect.StructField{Name: "F" + strconv.Itoa(i), Type: reflect.TypeFor[[]int](), Tag: reflect.StructTag([]string{"", `json:"F0"`, `json:"F1"`, `json:"a"`}[src.next(4)])})
		}
		if n := len(toEmbed); n > 0 {
			for i := range src.next(3) {
				fields = append(fields, reflect.StructField{Name: "E" + strconv.Itoa(i), Type: toEmbed[src.next(n)], Anonymous: src.next(8) > 0})
			}
		}
		toEmbed = append(toEmbed, reflect.StructOf(fields))
		types = append(types, toEmbed[len(toEmbed)-1])
	}
	for _, typ := range types {
		if _, own := reflect.New(typ).Interface().(encoding.TextMarshaler); own || typ.Kind() != reflect.Struct {
			continue
		}
		v := reflect.New(typ)
		src := source(bytes.Repeat([]byte{1}, 4000))
		src.value(v.Elem(), 0)
		line, err := judge(v.Interface())
		if err != nil {
			continue
		}
		var got, want []string
		d := json.NewDecoder(strings.NewReader(line))
		for d.Token(); d.More(); {
			key, _ := d.Token()
			want = append(want, key.(string))
			var val json.RawMessage
			d.Decode(&val)
		}
		s, _ := derive(typ, "", writing)
		for _, f := range s.fields {
			if slices.Contains(want, f.name) || !f.optional {
				got = append(got, f.name)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%v: got %q, want %q", typ, got, want)
		}
	}
}

// ---- fuzzing: arguments, against encoding/json ----

// plain writes arguments the way encoding/json wants them, where we know better,
// and reports whether they fit the schema.
func plain(s *schema, t reflect.Type, val any, strict bool, fits *bool) any {
	for ; t.Kind() == reflect.Pointer; t = t.Elem() {
		if val == nil {
			*fits = *fits && !strict
			return nil
		}
	}
	str, isText := val.(string)
	if isText && (s.kind == "array" || s.kind == "object") {
		var inside any
		if d := json.NewDecoder(strings.NewReader(str)); json.Valid([]byte(str)) {
			d.UseNumber()
			d.Decode(&inside)
			val = inside
		}
	}
	num, isNum := val.(json.Number)
	if isText && json.Valid([]byte(str)) && strings.Trim(str, "-+.eE0123456789") == "" {
		num, isNum = json.Number(str), true
	}
	ok := true
	switch p := reflect.New(t).Interface(); {
	case s.kind == "": // has a method, or is an interface
	case reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) || t == reflect.TypeFor[[]byte]():
		ok = isText
	case t == reflect.TypeFor[json.Number]() || t.Kind() == reflect.Float32 || t.Kind() == reflect.Float64:
		ok, val = isNum, num
	case t.Kind() == reflect.Bool:
		if _, ok = val.(bool); str == "true" || str == "false" {
			ok, val = true, str == "true"
		}
	case t.Kind() == reflect.String:
		ok = isText
	case reflect.Int <= t.Kind() && t.Kind() <= reflect.Uintptr:
		mantissa, _, _ := strings.Cut(strings.ToLower(string(num)), "e")
		if strings.Trim(mantissa, "-0.") == "" {
			num = "0"
		} else if f, err := num.Float64(); err == nil && f != 0 { // so its exponent is small enough for a Rat
			if r, ok := new(big.Rat).SetString(string(num)); ok && r.IsInt() {
				num = json.Number(r.Num().String())
			}
		}
		ok, val = isNum && json.Unmarshal([]byte(num), p) == nil, num
	case t.Kind() == reflect.Slice:
		var list []any
		list, ok = val.([]any)
		for i := range list {
			list[i] = plain(s.elem, t.Elem(), list[i], strict, fits)
		}
	case t.Kind() == reflect.Map:
		var m map[string]any
		m, ok = val.(map[string]any)
		for key := range m {
			m[key] = plain(s.elem, t.Elem(), m[key], strict, fits)
		}
	default:
		var m map[string]any
		m, ok = val.(map[string]any)
		for key, val := range m {
			i := slices.IndexFunc(s.fields, func(f *field) bool { return f.name == key })
			if i < 0 || val == nil && (s.fields[i].optional || !strict && s.fields[i].schema.kind != "") {
				*fits = *fits && (i >= 0 || !strict)
				delete(m, key)
			}
		}
		for _, f := range s.fields {
			if m[f.name] == nil && f.dflt != nil {
				json.Unmarshal(f.dflt, &val)
				m[f.name] = val
				if n, isNum := val.(float64); isNum {
					m[f.name] = json.Number(strconv.FormatFloat(n, 'f', -1, 64))
				}
			}
			if val, there := m[f.name]; there {
				m[f.name] = plain(f.schema, t.FieldByIndex(f.index).Type, val, strict, fits)
			} else if ok && strict && !f.optional {
				*fits = false
			}
		}
		val = m
	}
	*fits = *fits && ok
	return val
}

func anyTwice(raw json.RawMessage) bool {
	var m map[string]json.RawMessage
	var list []json.RawMessage
	if raw[0] == '{' && json.Unmarshal(raw, &m) == nil {
		list = slices.Collect(maps.Values(m))
		if duplicates(raw) {
			return true
		}
	} else {
		json.Unmarshal(raw, &list)
	}
	return slices.ContainsFunc(list, anyTwice)
}

// Arguments are read as encoding/json reads them, where it is right.
func FuzzArguments(f *testing.F) {
	types := []any{numbers{}, nested{}, required{}, numbers{}, nested{}, loose{}, Right{}, map[string]int8{}, &required{}}
	const lenient = 3
	slips := []string{`"5"`, `5.0`, `1e2`, `null`, `"true"`, `"false"`, `[]`, `{}`, `-1`, `300`, `1e400`, `""`, `"AA=="`, `"A"`, `[null]`, `-0.0`, `1.5`, `"1e1"`, `{"x":1,"x":2}`, `9007199254740993.0`, `18446744073709551615`, `"#5"`, `"x"`, `[1,2,3]`, `"2024-01-01T00:00:00Z"`, `3`, `"[1,2]"`, `"[null]"`, `"{}"`, `" {\"a\":\"b\"}"`}
	one := `{"a":"","b":"true","n":9,"f":"0.5","e":"y","l":[1,"3"],"d":8.0,"t":"2024-02-29T00:00:00.5+01:00"}`
	for i := range types {
		for j, seed := range []string{
			one, `{"i":5.0,"i8":"-128","u":-0,"u64":18446744073709551615,"i64":-9223372036854775808,"f32":1e39,"b":"true"}`, `{"i":1e2,"u8":256,"f64":"1.5e3","f32":1,"i16":null}`, `{"u":-1,"i32":1.50e1,"i8":1.5,"ptr":"0x1"}`,
			`{"by":"AA==","by":"A","l":null}`, `{"l":[1,2.0,"3"],"ll":[["a"],[]],"lp":[null,1e-1],"m":{"":1,"a":null},"ml":{"EN":{"x":[1]}}}`, `{"self":{"self":{"p":"x"},"list":[{"pp":1},{"pp":null}]},"id":3,"Y":"y"}`, `{"t":"2024-01-01T00:00:00Z","c":"#7","cl":["#1","#x"],"n":{"b":true}}`,
			`{"ml":{"toolong":{}},"by":"_-"}`, `{"any":{"a":[1,null,"x",1e400]},"raw":null,"num":"12","out":{"A":1},"in":true}`, `{"S":"x","s\u0000":1,"":2}`, `{"num":1.0,"any":null,"in":null,"raw":[ 1 ],"out":{"A":2}}`, `{"out":{"":0}}`, strings.Replace(one, "9", "-2", 1), strings.Replace(one, `[1,"3"]`, `[1,4]`, 1), strings.Replace(one, `8.0`, `null,"w":"éééé"`, 1), `{"a":1}`, strings.Replace(one, `:9`, `:10`, 1), strings.Replace(one, `"f"`, `"w":"ééé","f"`, 1),
			`{"i":0.1e17}`, `{"i":1e-400}`, `{"u64":1844674407370955161.5e1}`, `{"i":5.0}`, `{"i":5.5}`, `{"i":1.5e1}`, `{"i":15e-1}`, `{"i8":-128}`, `{"i8":300}`, `{"u":-0}`, `{"f32":1e39}`, `{"f32":0.1}`, `{"b":"true"}`, `{"by":"A"}`, `{"by":"AA=="}`, `{"i":1,"i":1}`, `{"num":null}`, `{"any":1e400}`, `{"any":null,"in":null}`,
		} {
			f.Add(byte(i), []byte(seed))
			f.Add(byte(i), []byte(seed)[1+j%4:])
		}
	}
	f.Fuzz(func(t *testing.T, which byte, data []byte) {
		n := int(which) % len(types)
		typ := reflect.TypeOf(types[n])
		if !json.Valid(data) || !utf8.Valid(data) || data[0] != '{' { // make it a fitting value, with a slip or two
			src := source(data)
			v := reflect.New(typ).Elem()
			src.value(v, 0)
			line, err := judge(v.Interface())
			if err != nil {
				return
			}
			data = []byte(line)
			for range src.next(3) {
				at := src.next(256)*256 + src.next(256)
				if at = at%len(data) + 1 + bytes.IndexByte(data[at%len(data):], ':'); at > 0 && at < len(data) {
					if end := scan(data, at, 0, nil); end > 0 {
						data = slices.Replace(data, at, end, []byte(slips[src.next(len(slips))])...)
					}
				}
			}
			if !json.Valid(data) || !utf8.Valid(data) || data[0] != '{' {
				return
			}
		}
		strict := n < lenient || n > 5
		s, _ := derive(typ, "fuzz", reading)
		in := &rules{schema: s}
		if !strict {
			in.byHand = &rootRules{}
		}
		got, want := reflect.New(typ), reflect.New(typ)
		fault := in.unmarshal(data, longestMember(data), got.Interface())
		if anyTwice(data) {
			if strict && fault == nil {
				t.Errorf("twice: %s", data)
			}
			return
		}
		var val any
		d := json.NewDecoder(bytes.NewReader(data))
		d.UseNumber()
		if err := d.Decode(&val); err != nil {
			t.Fatal(err)
		}
		fits := true
		norm, _ := json.Marshal(plain(s, typ, val, strict, &fits))
		err := json.Unmarshal(norm, want.Interface())
		if r, ok := reflect.Indirect(want.Elem()).Interface().(required); ok && err == nil && fits {
			fits = -1 <= r.N && r.N <= 9 && r.F >= 0.5 && (r.E == "x" || r.E == "y") && len(r.L) >= 1 && len(r.L) <= 2 && r.D <= 8 && utf8.RuneCountInString(r.W) <= 3
		}
		if (fault == nil) != (fits && err == nil) {
			t.Errorf("%s\ngot  %v\nwant %v %v of %s", data, fault, fits, err, norm)
		} else if fault == nil && !reflect.DeepEqual(got.Interface(), want.Interface()) {
			t.Errorf("%s\ngot  %+v\nwant %+v of %s", data, got.Elem(), want.Elem(), norm)
		}
	})
}

// ---- soak ----

// A soaker is a client that does anything at any time, and knows what it may be
// told in return. Positions count its lines.
type soaker struct {
	*client
	*rand.Rand
	unsent []string
	sent   int
	heard  int // the position up to which the server must have read
	calls  []*soaked
	asked  map[string]int // questions: the position of the answer; 0: none; -1: withdrawn
	over   bool
}

type soaked struct {
	id, what        string
	lasts           time.Duration
	deaf            bool
	sent, cancelled int // positions
	answers         int
	progress        float64
}

func (r *soaked) open() bool { return r.answers == 0 && r.cancelled == 0 }

// soakServer does what it is told, and takes as long as it is told.
func soakServer() *Server {
	s := &Server{Logging: true}
	logger := slog.New(LogHandler(""))
	AddTool(s, Tool{Name: "do"}, func(ctx context.Context, in struct {
		What  string        `json:"what"`
		Lasts time.Duration `json:"lasts"`
		Deaf  bool          `json:"deaf"`
	}) (text string, err error) {
		text = string(RequestFrom(ctx).ID)
		logger.InfoContext(ctx, text)
		Progress(ctx, 1, 0, "")
		work := ctx
		if in.Deaf {
			work = context.WithoutCancel(ctx)
		}
		select {
		case <-work.Done():
			return "", context.Cause(ctx)
		case <-time.After(in.Lasts):
		}
		Progress(ctx, 2, 0, "")
		switch in.What {
		case "panic":
			panic("as told")
		case "goexit":
			runtime.Goexit()
		case "change":
			AddTool(s, Tool{Name: "extra"}, func(context.Context, none) (string, error) { return "", nil })
		case "ask":
			_, err = Roots(work, "k")
		case "stray":
			time.AfterFunc(100*time.Microsecond, func() {
				Progress(ctx, 3, 0, "")
				logger.InfoContext(ctx, text)
			})
		}
		return text, err
	})
	return s
}

func (c *soaker) queue(line string) {
	c.sent++
	c.unsent = append(c.unsent, line)
}

// flush writes in one piece, which may fail at the end.
func (c *soaker) flush() {
	if c.unsent != nil {
		io.WriteString(c.in, strings.Join(append(c.unsent, ""), "\n"))
	}
	c.unsent = nil
}

func (c *soaker) request(what string) *soaked {
	r := &soaked{id: strconv.Itoa(len(c.calls)), what: what, lasts: c.time(), deaf: c.IntN(3) == 0, sent: c.sent + 1}
	if what == "endless" || what == "stuck" {
		r.lasts, r.deaf = time.Hour, what == "stuck"
	}
	c.calls = append(c.calls, r)
	meta := `"progressToken":` + r.id
	if c.IntN(2) == 0 {
		meta += `,"io.modelcontextprotocol/logLevel":"info",` + modernMeta
	}
	switch what {
	case "ping":
		c.queue(strings.Replace(pingLine, `"p"`, r.id, 1))
	case "listen":
		c.queue(strings.Replace(listenLine, `"sub"`, r.id, 1))
	default:
		c.queue(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":"do","arguments":{"what":%q,"lasts":%d,"deaf":%v},"_meta":{%s}}}`,
			r.id, what, r.lasts, r.deaf, meta))
	}
	return r
}

// time is about what matters to the turn to read.
func (c *soaker) time() time.Duration {
	return []time.Duration{0, 0, 1, time.Millisecond - 1, time.Millisecond, time.Millisecond + 1, time.Duration(c.IntN(3e6))}[c.IntN(7)]
}

func (c *soaker) forget(r *soaked) {
	if c.queue(cancelling(r.id)); r.open() {
		r.cancelled = c.sent
	}
}

// act does one thing, or a few.
func (c *soaker) act() {
	whats := []string{"", "", "", "", "ping", "panic", "goexit", "change", "ask", "ask", "ask", "stray", "endless", "listen"}
	r := c.request(whats[c.IntN(len(whats))])
	if c.IntN(4) == 0 {
		c.forget([]*soaked{r, c.calls[c.IntN(len(c.calls))]}[c.IntN(2)])
	}
	for _, id := range slices.Sorted(maps.Keys(c.asked)) {
		if c.asked[id] == 0 && c.IntN(3) == 0 || c.IntN(20) == 0 { // some twice, or too late
			c.queue(answer(id, []string{`{"roots":[]}`, `7`}[c.IntN(2)]))
			c.asked[id] = cmp.Or(c.asked[id], c.sent)
		}
	}
}

// take checks what was received since the last time.
func (c *soaker) take() {
	c.mu.Lock()
	got := c.got
	c.got = nil
	c.mu.Unlock()
	for _, line := range got {
		var m struct {
			ID     json.RawMessage
			Method string
			Result struct{ Content []struct{ Text string } }
			Params struct {
				ProgressToken, RequestID, Data json.RawMessage
				Progress                       float64
				Meta                           map[string]json.RawMessage `json:"_meta"`
			}
		}
		if err := json.Unmarshal([]byte(line), &m); err != nil || !strings.HasPrefix(line, `{"jsonrpc":"2.0",`) {
			c.t.Fatalf("not a message: %s", line)
		}
		p := &m.Params
		of := string(slices.Concat(m.ID, p.ProgressToken, bytes.Trim(p.Data, `"`), p.RequestID, p.Meta["io.modelcontextprotocol/subscriptionId"]))
		at, asked := c.asked[of]
		switch {
		case m.Method == "roots/list":
			if c.asked[of] = 0; asked {
				c.t.Errorf("asked twice: %s", line)
			}
			continue
		case m.Method == "notifications/cancelled":
			if c.asked[of] = -1; !asked || at < 0 || 0 < at && at <= c.heard {
				c.t.Errorf("not asked, or not any more: %s", line)
			}
			continue
		case m.Method == "notifications/tools/list_changed" && of == "":
			continue
		}
		n, err := strconv.Atoi(of)
		if err != nil || n >= len(c.calls) {
			c.t.Fatalf("for nobody: %s", line)
		}
		r := c.calls[n]
		switch content := m.Result.Content; {
		case r.answers > 0:
			c.t.Errorf("after the answer: %s", line)
		case r.cancelled > 0 && r.cancelled <= c.heard:
			c.t.Errorf("after the cancel: %s", line)
		case p.ProgressToken != nil && p.Progress <= r.progress:
			c.t.Errorf("no more than %v: %s", r.progress, line)
		case m.Method == "" && !c.over && (r.what == "listen" || r.what == "" && (len(content) != 1 || content[0].Text != r.id)):
			c.t.Errorf("wrong answer: %s", line)
		}
		if c.heard = max(c.heard, r.sent); m.Method == "" {
			r.answers++
		}
		r.progress = max(r.progress, p.Progress)
	}
}

// settle sees everything come to its end, and no goroutine left that was not
// there at the beginning, or two that are there once something was served.
func (c *soaker) settle(goroutines int) {
	for _, r := range c.calls {
		if r.open() && (r.what == "ask" || r.what == "endless" || r.what == "listen") {
			c.forget(r)
		}
	}
	c.flush()
	time.Sleep(time.Minute)
	c.take()
	for _, r := range c.calls {
		if r.open() {
			c.t.Errorf("%s (%s) was not answered", r.id, r.what)
		}
	}
	for id, at := range c.asked {
		if at == 0 {
			c.t.Errorf("question %s was not withdrawn", id)
		}
	}
	for try := 0; runtime.NumGoroutine() > goroutines+2; try++ { // it is not exact while others come and go
		if runtime.Gosched(); try == 1_000_000 {
			c.t.Fatalf("%d goroutines, and %d at the beginning", runtime.NumGoroutine(), goroutines)
		}
	}
}

// Clients do random things, about the same for the same seed, and each gets
// what it is owed. The bubble sees that no goroutine stays for good.
func TestSoak(t *testing.T) {
	sessions := 300
	if longRun() {
		sessions = 20_000
	} else if raceBuild() { // which is run twenty times over
		sessions = 50
	}
	for seed := range sessions {
		t.Run(strconv.Itoa(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { soak(t, rand.New(rand.NewPCG(uint64(seed), 0))) })
		})
	}
}

func soak(t *testing.T, rng *rand.Rand) {
	s := soakServer()
	s.MaxConcurrent = []int{0, 0, 1, 3}[rng.IntN(4)]
	s.Linger = []time.Duration{0, 0, time.Millisecond, 500 * time.Millisecond}[rng.IntN(4)]
	c := &soaker{client: serve(t, s), Rand: rng, asked: make(map[string]int)}
	c.initialize("2025-11-25", `{"roots":{}}`)
	synctest.Wait()
	goroutines := runtime.NumGoroutine()
	for range c.IntN(40) {
		if c.act(); c.IntN(2) == 0 {
			c.flush()
			time.Sleep(c.time())
			c.take()
		}
		if c.IntN(10) == 0 {
			c.settle(goroutines)
		}
	}

	stuck, how := c.IntN(6) == 0, c.IntN(6)
	if stuck { // but it may not have begun when the end comes
		c.request("stuck")
		for ping := c.request("ping"); how > 3 && ping.open(); c.take() {
			c.flush()
			time.Sleep(time.Millisecond)
		}
	}
	c.take()
	c.over = true
	read, begin, broken := c.sent, time.Now(), errors.New("broken")
	var want error
	switch how {
	default:
		c.flush()
		c.in.Close()
	case 3:
		want = broken
		c.flush()
		c.in.CloseWithError(broken)
	case 4:
		read = 0
		c.out.Close()
		c.request("ping") // it must write, to notice
		c.flush()
	case 5:
		read = c.heard
		c.cancel(nil)
	}
	err := <-c.done
	took, limit, linger := time.Since(begin), 5*time.Millisecond, time.Duration(0)
	begun := stuck && (errors.Is(err, ErrDrain) || s.MaxConcurrent == 0) // else its turn had not come
	for _, r := range c.calls {
		switch {
		case r.what == "stuck" && !begun:
		case r.what == "stuck":
			want, limit, linger = ErrDrain, limit+time.Second, s.Linger
		case r.deaf: // even if it was cancelled long ago
			limit += r.lasts
		case how < 4 && r.open():
			linger = min(linger+r.lasts, s.Linger)
			fallthrough
		default: // who serves a request does not read
			limit += min(r.lasts, time.Millisecond)
		}
	}
	if took > limit+linger || begun && took < time.Second || !errors.Is(err, want) {
		t.Errorf("ending %d: Serve took %v of %v: %v, want %v", how, took, limit+linger, err, want)
	}
	time.Sleep(2 * time.Hour) // until what is stuck has come back, in vain
	c.take()
	for _, r := range c.calls {
		owed := 1
		if r.what == "stuck" && begun || r.what == "listen" && how < 3 {
			owed = 0
		}
		if r.cancelled == 0 && r.sent <= read && r.answers != owed {
			t.Errorf("ending %d: %s (%s) was answered %d times", how, r.id, r.what, r.answers)
		}
	}
}

// ---- speed ----

// A load is a session as a client sees it that only counts the answers.
type load struct {
	tb    testing.TB
	lines chan []byte // to be sent
	out   io.ReadCloser
	buf   []byte
	done  chan error
}

// loaded starts a session of s over real pipes, or in memory.
func loaded(tb testing.TB, s *Server, real bool) *load {
	l := &load{tb: tb, lines: make(chan []byte), buf: make([]byte, 1<<18), done: make(chan error, 1)}
	var r, w, in = io.ReadCloser(nil), io.WriteCloser(nil), io.WriteCloser(nil)
	if r, in = io.Pipe(); real {
		r, in = osPipe(tb)
	}
	if l.out, w = io.Pipe(); real {
		l.out, w = osPipe(tb)
	}
	s.Name, s.Version = "demo", "1.0.0"
	go func() {
		defer in.Close()
		for lines := range l.lines {
			in.Write(lines)
		}
	}()
	go func() {
		l.done <- s.Serve(context.Background(), r, w)
		w.Close()
	}()
	l.play([]byte(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`+"\n"), 1)
	return l
}

func osPipe(tb testing.TB) (io.ReadCloser, io.WriteCloser) {
	r, w, err := os.Pipe()
	if err != nil {
		tb.Fatal(err)
	}
	return r, w
}

// play sends lines and waits for n in return.
func (l *load) play(lines []byte, n int) {
	l.lines <- lines
	for n > 0 {
		k, err := l.out.Read(l.buf)
		if err != nil {
			l.tb.Fatal(err)
		}
		n -= bytes.Count(l.buf[:k], []byte("\n"))
	}
}

// end closes the client's end and waits for the server's.
func (l *load) end() {
	close(l.lines)
	go io.Copy(io.Discard, l.out)
	if err := <-l.done; err != nil {
		l.tb.Errorf("Serve: %v", err)
	}
}

// quick is a server with the tools that are measured, and n more.
func quick(n int) *Server {
	s := new(Server)
	type textIn struct{ Text string }
	type sumIn struct{ A, B int }
	AddTool(s, Tool{Name: "echo"}, func(_ context.Context, in textIn) (string, error) { return in.Text, nil })
	AddTool(s, Tool{Name: "add"}, func(_ context.Context, in sumIn) (sumIn, error) { return sumIn{in.A + in.B, 0}, nil })
	AddTool(s, Tool{Name: "raw", InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(_ context.Context, in json.RawMessage) (string, error) { return "raw", nil })
	AddTool(s, Tool{Name: "sleep"}, func(ctx context.Context, _ struct{}) (string, error) { <-ctx.Done(); return "", ctx.Err() })
	for i := range n {
		AddTool(s, Tool{Name: "tool_" + strconv.Itoa(i), Description: "One of many."}, func(_ context.Context, in textIn) (string, error) { return "", nil })
	}
	return s
}

// TestAllocationsKeepTheBudget holds what a request costs, from its line to its answer's. The
// budget is 12 for a typed call; the other figures are what it is today, so
// that whoever adds one has to say so.
func TestAllocationsKeepTheBudget(t *testing.T) {
	if raceBuild() {
		t.Skip("the race detector allocates too")
	}
	for _, tt := range []struct {
		name, line string
		max        float64
	}{
		{"ping", `{"jsonrpc":"2.0","id":1,"method":"ping"}` + "\n", 3},
		{"raw tool", callLine(1, "raw", `{"Text":"hello"}`), 9},
		{"typed tool", callLine(1, "echo", `{"Text":"hello"}`), 9},
		{"structured output", callLine(1, "add", `{"A":1,"B":2}`), 11},
		{"modern typed tool", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"Text":"hello"},"_meta":{` + modernMeta + `}}}` + "\n", 10},
		{"list", listLine, 4},
	} {
		l := loaded(t, quick(0), false)
		lines := []byte(tt.line)
		if n := testing.AllocsPerRun(200, func() { l.play(lines, 1) }); n > tt.max {
			t.Errorf("%s: %v allocations, want %v at most", tt.name, n, tt.max)
		}
		l.end()
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

// What a request costs grows with the bytes of a text and of a list, and
// neither with the number of tools nor with the length of the session.
func TestCostGrowsAsItShould(t *testing.T) {
	if raceBuild() {
		t.Skip("the race detector allocates too")
	}
	const calls = 200
	cost := func(tools int, line string, n int) float64 {
		l := loaded(t, quick(tools), false)
		defer l.end()
		lines := []byte(line)
		l.play(lines, 1)
		return allocated(func() {
			for range n {
				l.play(lines, 1)
			}
		}) / float64(n)
	}
	say := callLine(1, "echo", `{"Text":"hello"}`)
	if few, many := cost(10, say, calls), cost(10_000, say, calls); many > 1.1*few {
		t.Errorf("a call costs %.0f bytes with ten tools, %.0f with 10,000", few, many)
	}
	// What is used again is lost to collections and to other Ps.
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	for _, tools := range []int{1000, 10_000} { // each has 170 bytes of the list
		if n := cost(tools, listLine, 10) / float64(tools); n > 100 {
			t.Errorf("in a list of %d, each tool costs %.0f bytes", tools, n)
		}
	}
	text := func(n int) string { return callLine(1, "echo", `{"Text":"`+strings.Repeat("x", n)+`"}`) }
	// A line and its text are new.
	for _, size := range []int{1 << 20, 3 << 20} {
		if n := cost(0, text(size), 10); n > 2.5*float64(size) {
			t.Errorf("%d bytes there and back cost %.1f times as many", size, n/float64(size))
		}
	}
}

// A text of escapes is read into one piece of memory.
func TestEscapesAreReadAtOnce(t *testing.T) {
	raw := []byte(`"` + strings.Repeat(`\u0041x\ud83d\ude00`, 1000) + `"`)
	if n := testing.AllocsPerRun(10, func() { unquote(raw) }); n > 1 {
		t.Errorf("a text of 2000 escapes is %v allocations", n)
	}
}

// What is deeper than a message may be is sent, and a nil in it as ever.
func TestTheDeepestResultIsSent(t *testing.T) {
	raw := json.RawMessage(strings.Repeat("[", maxDepth-1) + strings.Repeat("]", maxDepth-1))
	got, err := marshal(map[string]any{"deep": []any{raw, nil}})
	if want := `{"deep":[` + string(raw) + `,null]}`; err != nil || string(got) != want {
		t.Errorf("got %.50s %v, want %.50s", got, err, want)
	}
	type link struct {
		L    []int
		Next *link
	}
	last := &link{}
	for range maxDepth {
		last = &link{Next: last}
	}
	want := strings.Repeat(`{"L":[],"Next":`, maxDepth) + `{"L":[]}` + strings.Repeat("}", maxDepth)
	if got, err := marshal(last); err != nil || string(got) != want {
		t.Errorf("got %.50s %v, want %.50s", got, err, want)
	}
}

// What may be much is taken apart by a handler, and the reader goes on.
func TestTheReaderLeavesArgumentsToHandlers(t *testing.T) {
	s := &Server{}
	s.AddPrompt(Prompt{Name: "p", Arguments: []Argument{{Name: "a"}}}, promptOf(Text("")))
	r := &request{params: params{raw: []byte(`{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"a","value":""},"context":{"arguments":5}}`)}}
	if _, fault := (&session{srv: s}).findCompletion(r); fault != nil || r.handler == nil {
		t.Errorf("got %v", fault)
	}
}

// What is refused is not taken apart first.
func TestWhatIsRefusedIsNotTakenApart(t *testing.T) {
	if raceBuild() {
		t.Skip("the race detector allocates too")
	}
	s := quick(0)
	s.AddPrompt(Prompt{Name: "p", Arguments: []Argument{{Name: "a", Complete: func(context.Context, string, map[string]string) ([]string, error) { return nil, nil }}}},
		func(context.Context, map[string]string) ([]Message, error) { return nil, nil })
	var uris, known []byte
	for i := range 50_000 {
		uris = fmt.Appendf(uris, `,"x:%d"`, i)
		known = fmt.Appendf(known, `,"%d":""`, i)
	}
	for _, line := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"resourceSubscriptions":[` + string(uris[1:]) + `]},"_meta":{` + modernMeta + `}}}` + "\n",
		`{"jsonrpc":"2.0","id":1,"method":"completion/complete","params":{"ref":{"type":"ref/prompt","name":"q"},"argument":{"name":"a","value":""},"context":{"arguments":{` + string(known[1:]) + `}},"_meta":{` + modernMeta + `}}}` + "\n",
	} {
		l := loaded(t, s, false)
		if n := allocated(func() { l.play([]byte(line), 1) }) / float64(len(line)); n > 6 {
			t.Errorf("%.100s costs %.1f times its bytes", line, n)
		}
		l.end()
	}
}

// A long session leaves the memory where it was.
func TestALongSessionLeavesTheMemoryWhereItWas(t *testing.T) {
	n := 20_000
	if longRun() {
		n = 1_000_000
	}
	if raceBuild() {
		n = 2000
	}
	l := loaded(t, quick(0), true)
	defer l.end()
	lines := []byte(callLines(1, 45, "echo", `{"Text":"hello"}`) + callLines(46, 50, "nope", "{}"))
	use := func() (bytes uint64, goroutines int) {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc + m.StackInuse, runtime.NumGoroutine()
	}
	l.play(lines, 50)
	before, goroutines := use()
	for range n / 50 {
		l.play(lines, 50)
	}
	after, goroutines2 := use()
	if after > before+256<<10 || goroutines2 > goroutines+1 { // the watch comes and goes
		t.Errorf("%d bytes and %d goroutines before, %d and %d after %d calls", before, goroutines, after, goroutines2, n)
	}
}

func BenchmarkCall(b *testing.B) {
	for _, over := range []string{"pipe", "memory"} {
		for _, flight := range []int{1, 16, 64} {
			for tool, args := range map[string]string{"echo": `{"Text":"hello"}`, "add": `{"A":1,"B":2}`, "raw": `{"Text":"hello"}`} {
				b.Run(fmt.Sprintf("%s/%d/%s", over, flight, tool), func(b *testing.B) {
					l := loaded(b, quick(0), over == "pipe")
					defer l.end()
					lines := []byte(callLines(1, flight, tool, args))
					b.ReportAllocs()
					for b.Loop() {
						l.play(lines, flight)
					}
					b.ReportMetric(float64(flight)*float64(b.N)/b.Elapsed().Seconds(), "calls/s")
				})
			}
		}
	}
}

func BenchmarkText(b *testing.B) {
	for _, size := range []int{1 << 10, 64 << 10, 1 << 20, 16 << 20} {
		b.Run(strconv.Itoa(size>>10)+"KiB", func(b *testing.B) {
			l := loaded(b, quick(0), true)
			defer l.end()
			const said = `They said \"good morning\" to everybody whom they met on their way to the town.\n`
			line := []byte(callLine(1, "echo", `{"Text":"`+strings.Repeat(said, size/len(said))+`"}`))
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				l.play(line, 1)
			}
		})
	}
}

func BenchmarkList(b *testing.B) {
	for _, n := range []int{10, 1000, 10_000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			l := loaded(b, quick(n), true)
			defer l.end()
			b.ReportAllocs()
			for b.Loop() {
				l.play([]byte(listLine), 1)
			}
		})
	}
}

const listLine = `{"jsonrpc":"2.0","id":0,"method":"tools/list"}` + "\n"

func BenchmarkAddTool(b *testing.B) {
	type in struct {
		Path  string            `json:"path" jsonschema:"what to look at"`
		Depth int               `json:"depth" minimum:"0" maximum:"9" default:"1"`
		Sort  string            `json:"sort,omitempty" enum:"name,size,time"`
		Tags  []string          `json:"tags,omitempty"`
		More  map[string]string `json:"more,omitempty"`
	}
	b.ReportAllocs()
	for b.Loop() {
		AddTool(new(Server), Tool{Name: "x"}, func(context.Context, in) (string, error) { return "", nil })
	}
}

// BenchmarkStart is from nothing to the end of a session of two requests.
func BenchmarkStart(b *testing.B) {
	lines := opening + callLine(1, "add", `{"A":1,"B":2}`)
	b.ReportAllocs()
	for b.Loop() {
		s := quick(0)
		s.Name, s.Version = "demo", "1.0.0"
		if err := s.Serve(context.Background(), strings.NewReader(lines), io.Discard); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAsleep(b *testing.B) {
	const n = 10_000
	lines := []byte(callLines(1, n, "sleep", "{}") + listLine)
	b.ReportAllocs()
	var ending time.Duration
	for b.Loop() {
		var before, after runtime.MemStats
		b.StopTimer()
		runtime.GC()
		runtime.ReadMemStats(&before)
		b.StartTimer()
		l := loaded(b, quick(0), false)
		l.play(lines, 1)
		b.StopTimer()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapInuse+after.StackInuse-before.HeapInuse-before.StackInuse)/n, "B/handler")
		b.StartTimer()
		begun := time.Now()
		l.end() // EOF with all of them in flight
		ending += time.Since(begun)
	}
	b.ReportMetric(float64(ending.Nanoseconds())/float64(b.N), "ns/EOF")
}
