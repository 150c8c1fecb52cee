// SPDX-License-Identifier: MIT
// SPDX-FileCopyrightText: 2026 The mcp authors

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"example.com/mcp"
)

// A site is a server with a Handler, in a synctest bubble.
type site struct {
	t      *testing.T
	h      *Handler
	server *mcp.Server
	client *http.Client
	causes chan error // of the handlers of slow and flood that were cancelled
}

type listener struct{ conns chan net.Conn }

func (l listener) Accept() (net.Conn, error) {
	conn, ok := <-l.conns
	if !ok {
		return nil, net.ErrClosed
	}
	return conn, nil
}
func (l listener) Close() error   { return nil }
func (l listener) Addr() net.Addr { return &net.TCPAddr{} }

// run starts a site and calls test in a bubble, whose clock is not real.
func run(t *testing.T, test func(t *testing.T, s *site)) {
	synctest.Test(t, func(t *testing.T) {
		s := &site{t: t, server: &mcp.Server{Name: "test", Version: "1"}, causes: make(chan error, 10)}
		tool := func(name string, f func(ctx context.Context) (string, error)) {
			mcp.AddTool(s.server, mcp.Tool{Name: name}, func(ctx context.Context, _ struct{}) (string, error) { return f(ctx) })
		}
		tool("echo", func(context.Context) (string, error) { return "done", nil })
		tool("progress", func(ctx context.Context) (string, error) { mcp.Progress(ctx, 1, 2, ""); return "done", nil })
		logger := slog.New(s.server.LogHandler("test"))
		tool("log", func(ctx context.Context) (string, error) { logger.InfoContext(ctx, "half"); return "done", nil })
		tool("ask", func(ctx context.Context) (string, error) { return "agreed", mcp.Confirm(ctx, "Really?") })
		tool("quote", func(context.Context) (string, error) { return "a capability, which this client does not have", nil })
		tool("slow", func(ctx context.Context) (string, error) {
			mcp.Progress(ctx, 1, 2, "begun")
			<-ctx.Done()
			s.causes <- context.Cause(ctx)
			return "", ctx.Err()
		})
		tool("quiet", func(ctx context.Context) (string, error) {
			select {
			case <-time.After(time.Minute):
				return "late", nil
			case <-ctx.Done():
				return "", context.Cause(ctx)
			}
		})
		tool("short", func(context.Context) (string, error) { time.Sleep(time.Second); return "short", nil })
		tool("deaf", func(context.Context) (string, error) { time.Sleep(time.Minute); return "", nil })
		tool("deafer", func(ctx context.Context) (string, error) {
			mcp.Progress(ctx, 1, 2, "")
			time.Sleep(time.Minute)
			return "", nil
		})
		tool("change", func(ctx context.Context) (string, error) {
			s.server.RemoveTools("absent")
			s.server.ResourceUpdated("x://a")
			return "changed", nil
		})
		tool("flood", func(ctx context.Context) (string, error) {
			for i := range 100_000 {
				mcp.Progress(ctx, float64(i), 0, strings.Repeat("x", 1000))
				if ctx.Err() != nil {
					s.causes <- context.Cause(ctx)
					return "", ctx.Err()
				}
			}
			return "flooded", nil
		})
		mcp.AddTool(s.server, mcp.Tool{Name: "query", InputSchema: json.RawMessage(`{"type":"object","properties":{
			"region":{"type":"string","x-mcp-header":"Region"},
			"limit":{"type":"integer","x-mcp-header":"Limit"},
			"dry":{"type":"boolean","x-mcp-header":"Dry"},
			"db":{"type":"object","properties":{"name":{"type":"string","x-mcp-header":"DB"}}},
			"x-mcp-header":{"type":"string"}}}`),
			Enabled: func(ctx context.Context) bool {
				mcp.Progress(ctx, 1, 1, "")
				logger.InfoContext(ctx, "listed")
				return true
			},
		}, func(_ context.Context, args json.RawMessage) (string, error) { return "ran " + string(args), nil })
		s.server.AddResource(mcp.Resource{URI: "x://a", Name: "a"}, func(context.Context, string, map[string]string) ([]mcp.ResourceContents, error) {
			return nil, nil
		})
		s.h = NewHandler(s.server.Serve)
		s.server.ErrorLog = log.New(io.Discard, "", 0)
		conns := make(chan net.Conn)
		server := &http.Server{Handler: s.h, ReadTimeout: 5 * time.Second, WriteTimeout: 5 * time.Second} // shorter than those of the Handler
		go server.Serve(listener{conns})
		s.client = &http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
			a, b := net.Pipe()
			conns <- b
			return a, nil
		}}}
		test(t, s)
		s.h.Close()
		s.client.CloseIdleConnections()
		close(conns)
		server.Shutdown(t.Context())
		time.Sleep(time.Second) // net/http waits half a second before it closes some connections
	})
}

// An answer is a response, of which events are read one by one.
type answer struct {
	*http.Response
	t    *testing.T
	r    *bufio.Reader
	stop func()
}

// send sends a request with headers, each as "Name: value".
func (s *site) send(method, body string, headers ...string) *answer {
	s.t.Helper()
	return s.sendBody(method, strings.NewReader(body), headers...)
}

func (s *site) sendBody(method string, body io.Reader, headers ...string) *answer {
	s.t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	r, _ := http.NewRequestWithContext(ctx, method, "http://localhost:80/mcp", body)
	r.Header.Set("Content-Type", "application/json")
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		switch name {
		case "Host":
			r.Host = value
		case "Content-Type":
			r.Header.Set(name, value)
		default:
			r.Header[name] = append(r.Header[name], value)
		}
	}
	res, err := s.client.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	return &answer{res, s.t, bufio.NewReader(res.Body), stop}
}

const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{}},"io.modelcontextprotocol/logLevel":"info","progressToken":"p"}`

// modern sends a request of 2026-07-28. The params have no _meta.
func (s *site) modern(method, params string) *answer {
	s.t.Helper()
	var p struct{ Name, URI string }
	json.Unmarshal([]byte("{"+params+"}"), &p)
	if params != "" {
		params += ","
	}
	headers := []string{"MCP-Protocol-Version: 2026-07-28", "Mcp-Method: " + method}
	if p.Name+p.URI != "" {
		headers = append(headers, "Mcp-Name: "+p.Name+p.URI)
	}
	return s.send("POST", fmt.Sprintf(`{"jsonrpc":"2.0","id":7,"method":%q,"params":{%s%s}}`, method, params, meta),
		headers...)
}

// is checks the status and the whole body.
func (a *answer) is(status int, part string) string {
	a.t.Helper()
	body, _ := io.ReadAll(a.r)
	a.Body.Close()
	if a.StatusCode != status || !strings.Contains(string(body), part) {
		a.t.Errorf("got %d %s\nwant %d ... %s", a.StatusCode, body, status, part)
	}
	return string(body)
}

// event checks that the next event has a part.
func (a *answer) event(part string) string {
	a.t.Helper()
	for {
		line, err := a.r.ReadString('\n')
		if err != nil {
			a.t.Errorf("%v, want %s", err, part)
			return ""
		}
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			if !strings.Contains(data, part) {
				a.t.Errorf("got %swant %s", data, part)
			}
			return data
		}
	}
}

// ends checks that no event follows.
func (a *answer) ends() {
	a.t.Helper()
	if rest, err := io.ReadAll(a.r); err != nil || strings.Trim(string(rest), ":\n") != "" {
		a.t.Errorf("got %s, %v", rest, err)
	}
	a.Body.Close()
}

func TestModern(t *testing.T) {
	run(t, func(t *testing.T, s *site) {
		res := s.modern("tools/call", `"name":"echo"`)
		if res.is(200, `"text":"done"`); res.Header.Get("Content-Type") != "application/json" {
			t.Error(res.Header)
		}
		res = s.modern("tools/call", `"name":"progress"`)
		res.event(`"progressToken":"p","progress":1`)
		res.event(`"text":"done"`)
		if res.ends(); res.Header.Get("Content-Type") != "text/event-stream" || res.Header.Get("Mcp-Session-Id") != "" {
			t.Error(res.Header)
		}
		res = s.modern("tools/call", `"name":"log"`)
		res.event(`"level":"info","logger":"test","data":"half"`)
		res.event(`"text":"done"`)
		res.ends()
		s.modern("no/such", "").is(404, `"code":-32601`)
		s.modern("tools/call", `"name":"absent"`).is(400, `"code":-32602`)
		s.modern("resources/read", `"uri":"x://absent"`).is(400, `"uri":"x://absent"`)

		var asked struct {
			Result struct {
				InputRequests map[string]any
				RequestState  json.RawMessage
			}
		}
		json.Unmarshal([]byte(s.modern("tools/call", `"name":"ask"`).is(200, `"input_required"`)), &asked)
		for key := range asked.Result.InputRequests {
			s.modern("tools/call", fmt.Sprintf(`"name":"ask","requestState":%s,"inputResponses":{%q:{"action":"accept","content":{"confirm":true}}}`,
				asked.Result.RequestState, key)).is(200, "agreed")
		}
	})
}

// One server has tasks over stdio, and none over HTTP: for a client that declares the extension, too.
func TestNoTasks(t *testing.T) {
	run(t, func(t *testing.T, s *site) {
		s.server.Extensions = map[string]any{"com.example/other": map[string]any{}}
		mcp.AddTool(s.server, mcp.Tool{Name: "long", TaskAfter: time.Second, InputSchema: json.RawMessage(`{"type":"object"}`)}, func(ctx context.Context, in json.RawMessage) (string, error) {
			time.Sleep(time.Minute)
			return fmt.Sprintf("%s %s", in, mcp.RequestFrom(ctx).Capabilities), nil
		})
		const extension = `"io.modelcontextprotocol/tasks":{}`
		call := func(id, method, params string) string {
			return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":{%s%s}}`, id, method, params,
				strings.Replace(meta, `"elicitation":{}`, `"elicitation":{},"extensions":{"com.example/other":{},`+extension+`}`, 1))
		}
		send := func(method, params string) *answer {
			return s.send("POST", call("7", method, params), "MCP-Protocol-Version: 2026-07-28", "Mcp-Method: "+method)
		}
		for _, method := range []string{"tasks/get", "tasks/update", "tasks/cancel"} {
			send(method, `"taskId":"x",`).is(404, `"code":-32601`)
		}
		if got := send("server/discover", "").is(200, `"extensions":{"com.example/other":{}}`); strings.Contains(got, extension) {
			t.Errorf("declared: %s", got)
		}
		s.send("POST", call("7", "tools/call", `"name":"long","arguments":{"a":1.0,"b":"<&>"},`), "MCP-Protocol-Version: 2026-07-28",
			"Mcp-Method: tools/call", "Mcp-Name: long").is(200, `{\"a\":1.0,\"b\":\"<&>\"} {\"elicitation\":{},\"extensions\":{\"com.example/other\":{}}}`)

		r, w := io.Pipe()
		var out strings.Builder
		served := make(chan error)
		go func() { served <- s.server.Serve(t.Context(), r, &out) }()
		fmt.Fprintln(w, call("1", "server/discover", ""))
		fmt.Fprintln(w, call("2", "tools/call", `"name":"long","arguments":{},`))
		time.Sleep(2 * time.Minute)
		w.Close()
		<-served
		if got := out.String(); !strings.Contains(got, extension) || !strings.Contains(got, `"resultType":"task"`) {
			t.Errorf("over stdio: %s", got)
		}
	})
}

// In every revision, each header that is there must repeat the body. In 2026-07-28 some are required.
func TestHeaders(t *testing.T) {
	const list = `{"jsonrpc":"2.0","id":7,"method":"tools/list","params":{` + meta + `}}`
	const call = `{"jsonrpc":"2.0","id":"7","method":"tools/call","params":{"name":"echo",` + meta + `}}`
	const version, tools = "MCP-Protocol-Version: 2026-07-28", "Mcp-Method: tools/call"
	const olderCall = `{"jsonrpc":"2.0","id":"7","method":"tools/call","params":{"name":"echo"}}`
	const olderRead = `{"jsonrpc":"2.0","id":7,"method":"resources/read","params":{"uri":"x://a","name":"x://b"}}`
	const opening = `{"jsonrpc":"2.0","id":7,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`
	const ping = `{"jsonrpc":"2.0","id":7,"method":"ping"}`
	const initialized = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
	const task = `{"jsonrpc":"2.0","id":7,"method":"tasks/get","params":{"taskId":"t","name":"n",` + meta + `}}`
	const older = "MCP-Protocol-Version: 2025-11-25"
	mismatched := func(id, header string) string {
		return `"id":` + id + `,"error":{"code":-32020,"message":"Header mismatch: ` + header + " is missing"
	}
	for _, test := range []struct {
		body    string
		headers []string
		status  int
		part    string
	}{
		{list, nil, 400, mismatched("7", "MCP-Protocol-Version")},
		{list, []string{"MCP-Protocol-Version: 2025-11-25"}, 400, mismatched("7", "MCP-Protocol-Version")},
		{list, []string{version, version}, 400, mismatched("7", "MCP-Protocol-Version")},
		{list, []string{version}, 400, mismatched("7", "Mcp-Method")},
		{list, []string{version, "Mcp-Method: TOOLS/LIST"}, 400, mismatched("7", "Mcp-Method")},
		{list, []string{version, "Mcp-Method: =?base64?dG9vbHMvbGlzdA==?="}, 400, mismatched("7", "Mcp-Method")},
		{list, []string{version, "Mcp-Method: tools/list"}, 200, "echo"},
		{list, []string{"mcp-protocol-version: 2026-07-28", "MCP-METHOD: tools/list"}, 200, "echo"},
		{call, []string{version, tools}, 400, mismatched(`"7"`, "Mcp-Name")},
		{call, []string{version, tools, "Mcp-Name: Echo"}, 400, mismatched(`"7"`, "Mcp-Name")},
		{call, []string{version, tools, "Mcp-Name: echo", "Mcp-Name: slow"}, 400, mismatched(`"7"`, "Mcp-Name")},
		{call, []string{version, tools, "Mcp-Name: =?base64?!?="}, 400, mismatched(`"7"`, "Mcp-Name")},
		{call, []string{version, tools, "Mcp-Name: =?base64?ZWNobw?="}, 400, mismatched(`"7"`, "Mcp-Name")},
		{call, []string{version, tools, "Mcp-Name: =?base64?ZWNobx==?="}, 400, mismatched(`"7"`, "Mcp-Name")}, // bits that no encoder sets
		{call, []string{version, tools, "Mcp-Name: =?base64?ZWNobw==?="}, 200, "done"},
		{call, []string{version, tools, "Mcp-Name:  echo "}, 200, "done"},
		{strings.ReplaceAll(call, "echo", "é"), []string{version, tools, "Mcp-Name: é"}, 400, mismatched(`"7"`, "Mcp-Name")},
		{strings.ReplaceAll(call, "echo", "é"), []string{version, tools, "Mcp-Name: =?base64?w6k=?="}, 400, "Unknown tool: é"},
		{strings.Replace(call, `"name":"echo",`, "", 1), []string{version, tools}, 400, "name is required"},
		{strings.Replace(call, `"name":"echo",`, "", 1), []string{version, tools, "Mcp-Name: echo"}, 400, mismatched(`"7"`, "Mcp-Name")},
		// Names of members are exact, and the last of one name counts, as in the server.
		{strings.Replace(list, `"method"`, `"Method":"tools/call","method"`, 1), []string{version, "Mcp-Method: tools/list"}, 200, "echo"},
		{strings.Replace(call, `"params"`, `"Method":"tools/list","params"`, 1), []string{version, "Mcp-Method: tools/list"}, 400, mismatched(`"7"`, "Mcp-Method")},
		{strings.Replace(call, `"params"`, `"m\u0065thod":"tools/list","params"`, 1), []string{version, "Mcp-Method: tools/list"}, 200, "echo"},
		{strings.Replace(call, `"name"`, `"Name":"slow","name"`, 1), []string{version, tools, "Mcp-Name: slow"}, 400, mismatched(`"7"`, "Mcp-Name")},
		{strings.Replace(call, `"_meta"`, `"NAME":"slow","_meta"`, 1), []string{version, tools, "Mcp-Name: echo"}, 200, "done"},
		{strings.ReplaceAll(list, ",", ",\n\t"), []string{version, "Mcp-Method: tools/list"}, 200, "echo"},
		{strings.ReplaceAll(list, "2026-07-28", "2099-01-01"), []string{"MCP-Protocol-Version: 2099-01-01", "Mcp-Method: tools/list"}, 400, "-32022"},
		{strings.Replace(list, `"id":7`, `"id":{"a":7}`, 1), []string{version}, 400, mismatched("null", "Mcp-Method")},
		{`{"jsonrpc":"2.0","id":7,"method":"tools/list"}`, []string{version, "Mcp-Method: tools/list"}, 400, "-32602"},
		{`{"jsonrpc":"2.0","id":7,"method":"tools/list"}`, []string{"MCP-Protocol-Version: 1900-01-01"}, 400, mismatched("7", "Mcp-Method")},
		{`{"jsonrpc":"2.0","method":"notifications/cancelled"}`, []string{version}, 202, ""},
		{list, []string{version, "Mcp-Method: tools/list", "Mcp-Name: echo"}, 400, mismatched("7", "Mcp-Name")},
		{list, []string{version, "Mcp-Method: tools/list", "Mcp-Param-Region: eu"}, 400, mismatched("7", "Mcp-Param-Region")},
		{task, []string{version, "Mcp-Method: tasks/get"}, 404, "-32601"},
		{task, []string{version, "Mcp-Method: tasks/get", "Mcp-Name: t"}, 404, "-32601"},
		{task, []string{version, "Mcp-Method: tasks/get", "Mcp-Name: n"}, 400, mismatched("7", "Mcp-Name")},
		{strings.ReplaceAll(call, "2026-07-28", "2099-01-01"), []string{"MCP-Protocol-Version: 2099-01-01", tools, "Mcp-Name: echo"}, 400, "-32022"},

		{olderCall, nil, 200, "done"},
		{olderCall, []string{older, tools, "Mcp-Name: echo"}, 200, "done"},
		{olderCall, []string{older, "Mcp-Name: slow"}, 400, mismatched(`"7"`, "Mcp-Name")},
		{olderCall, []string{"Mcp-Name: slow"}, 400, mismatched(`"7"`, "Mcp-Name")},
		{olderCall, []string{older, "MCP-NAME: slow"}, 400, mismatched(`"7"`, "Mcp-Name")},
		{olderCall, []string{older, "Mcp-Name: "}, 400, mismatched(`"7"`, "Mcp-Name")},
		{olderCall, []string{older, "Mcp-Name: echo", "Mcp-Name: echo"}, 400, mismatched(`"7"`, "Mcp-Name")},
		{olderCall, []string{older, "Mcp-Name: echo, echo"}, 400, mismatched(`"7"`, "Mcp-Name")},
		{olderCall, []string{older, "Mcp-Name: =?base64?ZWNobw==?="}, 200, "done"},
		{olderCall, []string{older, "Mcp-Name: =?base64?c2xvdw==?="}, 400, mismatched(`"7"`, "Mcp-Name")},
		{olderCall, []string{older, "Mcp-Method: tools/list"}, 400, mismatched(`"7"`, "Mcp-Method")},
		{olderCall, []string{older, "Mcp-Method: "}, 400, mismatched(`"7"`, "Mcp-Method")},
		{olderCall, []string{older, older}, 400, mismatched(`"7"`, "MCP-Protocol-Version")},
		{olderCall, []string{older, version}, 400, mismatched(`"7"`, "MCP-Protocol-Version")},
		{olderCall, []string{older, "mcp-protocol-version: 2026-07-28"}, 400, mismatched(`"7"`, "MCP-Protocol-Version")},
		{olderCall, []string{older, "Mcp-Param-Region: eu"}, 400, mismatched(`"7"`, "Mcp-Param-Region")},
		{olderRead, []string{older, "Mcp-Name: x://a"}, 200, "contents"},
		{olderRead, []string{older, "Mcp-Name: x://b"}, 400, mismatched("7", "Mcp-Name")},
		{opening, []string{"Mcp-Method: initialize"}, 200, "serverInfo"},
		{opening, []string{"Mcp-Method: tools/list"}, 400, mismatched("7", "Mcp-Method")},
		{opening, []string{"Mcp-Name: echo"}, 400, mismatched("7", "Mcp-Name")},
		{ping, []string{"Mcp-Param-: eu"}, 400, mismatched("7", "Mcp-Param-")},
		{initialized, []string{older, "Mcp-Method: notifications/initialized"}, 202, ""},
		{initialized, []string{older, "Mcp-Method: tools/call"}, 400, mismatched("null", "Mcp-Method")},
		{initialized, []string{older, older}, 400, mismatched("null", "MCP-Protocol-Version")},
		{"[" + olderCall + "]", []string{older, "Mcp-Name: slow"}, 400, "batches are not served"},
	} {
		run(t, func(t *testing.T, s *site) {
			s.send("POST", test.body, test.headers...).is(test.status, test.part)
		})
	}
}

// Headers repeat the arguments that a tool's schema names.
func TestArgumentHeaders(t *testing.T) {
	for _, test := range []struct {
		arguments, headers string
		wrong              string // the header that is refused, or ""
	}{
		{`{}`, "", ""},
		{`null`, "", ""},
		{`{"region":"eu"}`, "Region: eu", ""},
		{`{"region":"eu"}`, "region: eu", ""},
		{`{"region":"eu"}`, "", "Region"},
		{`{"region":"eu"}`, "Region: us", "Region"},
		{`{"region":"eu"}`, "Region: EU", "Region"},
		{`{"region":"eu"}`, "Region: us\nRegion: eu", "Region"},
		{`{"region":"é"}`, "Region: =?base64?w6k=?=", ""},
		{`{"region":"é"}`, "Region: é", "Region"},
		{`{"region":"=?base64?w6k=?="}`, "Region: =?base64?w6k=?=", "Region"},
		{`{"region":"=?base64?w6k="}`, "Region: =?base64?w6k=", ""},
		{`{"region":""}`, "Region: ", ""},
		{`{"region":null}`, "", ""},
		{`{"region":null}`, "Region: null", "Region"},
		{`{}`, "Region: eu", "Region"},
		{`{"Region":"eu"}`, "Region: eu", "Region"},
		{`{"limit":42}`, "Limit: 42", ""},
		{`{"limit":42}`, "Limit: 42.0", ""},
		{`{"limit":4.2e1}`, "Limit: 42", ""},
		{`{"limit":"42"}`, "Limit: 42", ""},
		{`{"limit":42}`, "Limit: 43", "Limit"},
		{`{"limit":0}`, "Limit: null", "Limit"},
		{`{"limit":0}`, "Limit: false", "Limit"},
		{`{"limit":0}`, "Limit: ", "Limit"},
		{`{"limit":0}`, `Limit: "0"`, "Limit"},
		{`{"limit":5}`, "Limit: 5e0", ""},
		{`{"limit":"5"}`, "Limit: 5.0", ""},
		{`{"limit":5,"limit":6}`, "Limit: 5", "Limit"},
		{`{"limit":"five"}`, "Limit: five", ""},             // the model reads what is wrong with it
		{`{"limit":42}`, "Limit: =?base64?NDIK?=", "Limit"}, // with a newline
		{`{"region":5}`, "Region: 5", ""},
		{`{"region":5}`, "Region: 5e0", "Region"}, // the handler receives "5"
		{`{"region":5}`, "Region: 5.0", "Region"},
		{`{"region":"5"}`, "Region: 5e0", "Region"},
		{`{"region":"null"}`, "Region: null", ""},
		{`{"dry":"true"}`, "Dry: true", ""},
		{`{"dry":true}`, "Dry: True", "Dry"},
		{`{"limit":42}`, "Limit: 0x2A", "Limit"},
		{`{"limit":42}`, "Limit: =?base64?NDI=?=", ""},
		{`{"limit":9007199254740993}`, "Limit: 9007199254740992", "Limit"},
		{`{"limit":9007199254740993}`, "Limit: 9007199254740993", ""},
		{`{"dry":true}`, "Dry: true", ""},
		{`{"dry":true}`, "Dry: false", "Dry"},
		{`{"dry":true}`, "Dry: 1", "Dry"},
		{`{"db":{"name":"a"}}`, "DB: a", ""},
		{`{"db":{"name":"a"}}`, "DB: b", "DB"},
		{`{"db":{"name":"a"}}`, "", "DB"},
		{`{"db":null}`, "", ""},
		{`{"db":"{\"name\":\"a\"}"}`, "", "DB"}, // the server converts such texts
		{`{"db":"{\"name\":\"a\"}"}`, "DB: a", "DB"},
		{`{"db":"{\"name\":\"a\"}"}`, `DB: {"name":"a"}`, "DB"},
		{`"{\"region\":\"eu\"}"`, "", "DB"},
		{`"{\"region\":\"eu\"}"`, "Region: eu", "DB"},
		{`{"x-mcp-header":"a"}`, "", ""},
		{`{"other":"a"}`, "Other: b", "Other"}, // the schema does not name it, so it repeats nothing
	} {
		run(t, func(t *testing.T, s *site) {
			var headers []string
			for line := range strings.Lines(test.headers) {
				headers = append(headers, "Mcp-Param-"+strings.TrimSuffix(line, "\n"))
			}
			const mismatch = `"id":7,"error":{"code":-32020,"message":"Header mismatch: Mcp-Param-`
			body := `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"query","arguments":` + test.arguments
			modern := []string{"MCP-Protocol-Version: 2026-07-28", "Mcp-Method: tools/call", "Mcp-Name: query"}
			res := s.send("POST", body+`,`+meta+`}}`, append(modern, headers...)...)
			if test.wrong != "" {
				res.is(400, mismatch+test.wrong)
			} else {
				res.is(200, `"id":7,"result"`)
			}
			// Older revisions require no header.
			res = s.send("POST", body+`}}`, append(headers, "MCP-Protocol-Version: 2025-11-25")...)
			if test.wrong != "" && test.headers != "" {
				res.is(400, mismatch)
			} else {
				res.is(200, `"id":7,"result"`)
			}
		})
	}
}

// A sound is a Writer whose writes must not fail.
type sound struct {
	t *testing.T
	io.Writer
}

func (s sound) Write(b []byte) (int, error) {
	n, err := s.Writer.Write(b)
	if err != nil {
		s.t.Errorf("%v: %s", err, b)
	}
	return n, err
}

// A tool that is left out of lists is not called, because its schema could name headers. A list is not
// kept when it has changed.
func TestUnlisted(t *testing.T) {
	run(t, func(t *testing.T, s *site) {
		s.h.Serve = func(ctx context.Context, r io.Reader, w io.Writer) error {
			err := s.server.Serve(ctx, r, sound{t, w})
			if err != nil {
				t.Error(err)
			}
			return err
		}
		s.modern("tools/call", `"name":"echo"`).is(200, "done")
		schema := json.RawMessage(`{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}}}`)
		where := func(_ context.Context, in struct {
			Region string `json:"region"`
		}) (string, error) {
			return "ran in " + in.Region, nil
		}
		mcp.AddTool(s.server, mcp.Tool{Name: "icon", InputSchema: schema, Icons: []mcp.Icon{{Src: "https://example.com/i.png", Theme: "neon"}}}, where)
		asked := 0
		mcp.AddTool(s.server, mcp.Tool{Name: "flip", InputSchema: schema, Enabled: func(context.Context) bool {
			asked++
			return asked%2 == 0 // not for the list, but for the call
		}}, where)
		for _, name := range []string{"icon", "flip"} {
			call := `"name":"` + name + `","arguments":{"region":"eu"}`
			s.modern("tools/call", call).is(400, `"id":7,"error":{"code":-32602,"message":"Unknown tool: `+name)
			asked = 0
			s.send("POST", `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{`+call+`}}`, "Mcp-Param-Region: us").is(400, "Header mismatch: Mcp-Param-Region")
			asked = 0
		}
		line := []byte(`{"result":{"tools":[{"name":"echo"}]}}`)
		parsed := parseTools(line)
		clear(line)
		if !json.Valid(parsed.line) {
			t.Error("a list is kept in the memory of its caller")
		}
		mcp.AddTool(s.server, mcp.Tool{Name: "echo", InputSchema: schema}, where) // in place of the tool that was listed above
		s.modern("tools/call", `"name":"echo","arguments":{"region":"eu"}`).is(400, "Header mismatch: Mcp-Param-Region")
	})
}

// An Enabled that takes longer than keepAlive makes the refusal an event.
func TestSlowList(t *testing.T) {
	run(t, func(t *testing.T, s *site) {
		mcp.AddTool(s.server, mcp.Tool{Name: "late", Enabled: func(context.Context) bool { time.Sleep(keepAlive + time.Second); return true }},
			func(context.Context, struct{}) (string, error) { return "done", nil })
		res := s.send("POST", `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"query","arguments":{"limit":1},`+meta+`}}`,
			"MCP-Protocol-Version: 2026-07-28", "Mcp-Method: tools/call", "Mcp-Name: query")
		res.event(`"id":7,"error":{"code":-32020`)
		res.ends()
	})
}

// A stream of subscriptions gets changes, and a last result when the Handler closes.
func TestListen(t *testing.T) {
	run(t, func(t *testing.T, s *site) {
		res := s.modern("subscriptions/listen", `"notifications":{"resourceSubscriptions":["x://a"],"toolsListChanged":true}`)
		res.event("acknowledged")
		s.modern("tools/call", `"name":"change"`).is(200, "changed")
		res.event("resources/updated")
		mcp.AddTool(s.server, mcp.Tool{Name: "late"}, func(context.Context, struct{}) (string, error) { return "", nil })
		res.event("tools/list_changed")
		s.h.Close()
		res.event(`"resultType":"complete"`)
		res.ends()
		s.modern("tools/call", `"name":"echo"`).is(503, "the server is closing")
	})
}

// Clients of older revisions have no session.
func TestOlder(t *testing.T) {
	run(t, func(t *testing.T, s *site) {
		const open = `{"jsonrpc":"2.0","id":12345678901234567890,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{"elicitation":{}},"clientInfo":{"name":"c","version":"1"}}}`
		declared := `"id":12345678901234567890,"jsonrpc":"2.0","result":{"capabilities":{"resources":{},"tools":{}}`
		s.send("POST", open).is(200, declared)
		s.send("POST", open, "MCP-Protocol-Version: 2026-07-28").is(200, declared)
		s.send("POST", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`).is(200, "-32602")
		s.send("POST", `{"jsonrpc":"2.0","method":"notifications/initialized"}`).is(202, "")
		const version = "MCP-Protocol-Version: 2025-06-18"
		call := func(tool string) *answer {
			return s.send("POST", `{"jsonrpc":"2.0","id":0,"method":"tools/call","params":{"name":"`+tool+`","_meta":{"progressToken":"p"}}}`, version)
		}
		call("echo").is(200, `"id":0,"result":{"content":[{"type":"text","text":"done"`)
		call("absent").is(200, "-32602")
		call("quote").is(200, "a capability, which this client does not have")
		call("log").is(200, "done")
		res := call("progress")
		res.event(`"progress":1`)
		res.event("done")
		res.ends()
		call("ask").is(200, `"text":"This request needs the elicitation capability, which needs a session or revision 2026-07-28, and this server has no sessions"}],"isError":true`)
		for _, method := range []string{"logging/setLevel", "resources/subscribe", "resources/unsubscribe"} {
			s.send("POST", `{"jsonrpc":"2.0","id":"i","method":"`+method+`","params":{"uri":"x://a","level":"info"}}`, version).
				is(200, `"id":"i","error":{"code":-32601,"message":"Method not found: `+method+` needs a session`)
		}
		s.send("POST", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, "Mcp-Session-Id: x", "Last-Event-ID: 1").is(200, `{"jsonrpc":"2.0","id":1,"result":{}}`)
		s.send("POST", `{"jsonrpc":"2.0","id":1,"method":"no/such"}`, version).is(200, "-32601")
		s.send("POST", `{"jsonrpc":"2.0","id":1,"result":{}}`, version).is(400, "no client is asked")
		s.send("GET", "", "Accept: text/event-stream").is(405, "GET needs a session")
		s.send("DELETE", "", "Mcp-Session-Id: x").is(405, "DELETE needs a session")
	})
}

// A client that goes away cancels its request, and so does Close.
func TestCancel(t *testing.T) {
	run(t, func(t *testing.T, s *site) {
		res := s.modern("tools/call", `"name":"slow"`)
		res.stop()
		if err := <-s.causes; err != context.Canceled {
			t.Error(err)
		}
		stream := s.modern("subscriptions/listen", `"notifications":{"toolsListChanged":true}`)
		stream.stop()
		synctest.Wait()
		if n := s.h.requests.Load(); n != 0 {
			t.Errorf("%d requests are open", n)
		}
		c := make(chan *answer)
		go func() { c <- s.modern("tools/call", `"name":"quiet"`) }()
		synctest.Wait()
		s.h.Close()
		(<-c).is(200, http.ErrServerClosed.Error())
	})
}

// What is not a request of this protocol gets a status and a text, and harms no other request.
func TestRefused(t *testing.T) {
	const ping = `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	const version = "MCP-Protocol-Version: 2026-07-28"
	for _, test := range []struct {
		method, body string
		headers      []string
		status       int
		part         string
	}{
		{"POST", ping, nil, 200, "{}"},
		{"POST", ping, []string{"Host: evil.example"}, 403, "Host"},
		{"POST", ping, []string{"Host: localhost.evil.example:80"}, 403, "Host"},
		{"POST", ping, []string{"Host: localhost."}, 403, "Host"},
		{"POST", ping, []string{"Host: 127.0.0.2"}, 403, "Host"},
		{"POST", ping, []string{"Host: LocalHost:1"}, 200, "{}"},
		{"POST", ping, []string{"Origin: http://evil.example"}, 403, "Origin"},
		{"POST", ping, []string{"Origin: http://localhost.evil.example"}, 403, "Origin"},
		{"POST", ping, []string{"Origin: null"}, 403, "Origin"},
		{"POST", ping, []string{"Origin: %"}, 403, "Origin"},
		{"GET", "", []string{"Origin: http://evil.example"}, 403, "Origin"},
		{"POST", ping, []string{"Host: [::1]:80", "Origin: http://127.0.0.1:6274"}, 200, "{}"},
		{"POST", ping, []string{"Content-Type: text/plain"}, 415, "application/json"},
		{"POST", ping, []string{"Content-Type: "}, 415, "application/json"},
		{"POST", ping, []string{"Content-Type: application/jsonp"}, 415, "application/json"},
		{"POST", ping, []string{"Content-Type: application/json; charset=utf-8"}, 200, "{}"},
		{"PUT", ping, nil, 405, "PUT"},
		{"GET", "", []string{"Mcp-Method: tools/call", "Mcp-Name: echo"}, 405, "GET"},
		{"DELETE", "", []string{version, version}, 405, "DELETE"},
		{"OPTIONS", "", nil, 405, "OPTIONS"},
		{"POST", "", nil, 400, "-32700"},
		{"POST", "x", nil, 400, "-32700"},
		{"POST", ping + ping, nil, 400, "-32700"},
		{"POST", ping + "\n" + ping, nil, 400, "-32700"},
		{"POST", strings.Replace(ping, "1", "\"\xff\"", 1), nil, 400, "-32700"},
		{"POST", "\ufeff" + ping, nil, 400, "-32700"},
		{"POST", "[" + ping + "]", nil, 400, "batches are not served"},
		{"POST", "[]", []string{version}, 400, "batches are not served"},
		{"POST", "null", nil, 400, "must be one request"},
		{"POST", `{"jsonrpc":"2.0","id":1}`, []string{version}, 400, "must be one request"},
		{"POST", `{"jsonrpc":"2.0","id":1,"Method":"ping"}`, nil, 400, "must be one request"},
		{"POST", `{"jsonrpc":"2.0","id":1,"method":5}`, nil, 200, "-32600"},
		{"POST", `{"jsonrpc":"2.0","id":null,"method":"ping"}`, nil, 200, "-32600"},
		{"POST", `{"jsonrpc":"2.0","id":[],"method":"ping"}`, []string{version, "Mcp-Method: ping"}, 400, "-32600"},
		{"POST", `{"id":1,"method":"ping"}`, []string{version, "Mcp-Method: ping"}, 400, "-32600"},
		{"POST", `{"x":"` + strings.Repeat("x", 5<<20) + `"}`, nil, 413, "longer than 4194304 bytes"},
	} {
		run(t, func(t *testing.T, s *site) {
			s.send(test.method, test.body, test.headers...).is(test.status, test.part)
			s.send("POST", ping).is(200, `{"jsonrpc":"2.0","id":1,"result":{}}`)
		})
	}
	run(t, func(t *testing.T, s *site) {
		s.h.Hosts = []string{"mcp.example.com"}
		s.send("POST", ping).is(403, "Host")
		s.send("POST", ping, "Host: mcp.example.com").is(200, "{}")
		s.send("POST", ping, "Host: mcp.example.com", "Origin: http://localhost").is(403, "Origin")
	})
}

// A response that takes time is a stream, which is kept open in spite of the limits of http.Server.
func TestKeepAlive(t *testing.T) {
	run(t, func(t *testing.T, s *site) {
		began := time.Now()
		res := s.modern("tools/call", `"name":"quiet"`)
		for i := range 3 {
			if line, _ := res.r.ReadString('\n'); line != ":\n" || time.Since(began) != time.Duration(i+1)*keepAlive {
				t.Errorf("%q after %v", line, time.Since(began))
			}
			res.r.ReadString('\n')
		}
		res.event("late")
		res.ends()
		if time.Since(began) != time.Minute {
			t.Error(time.Since(began))
		}
	})
}

// A client that does not read its response, or does not send its body, is disconnected, and meanwhile
// costs other clients nothing.
func TestSlowClients(t *testing.T) {
	run(t, func(t *testing.T, s *site) {
		began := time.Now()
		res := s.modern("tools/call", `"name":"flood"`)
		s.modern("tools/call", `"name":"echo"`).is(200, "done")
		if cause := <-s.causes; cause == nil || time.Since(began) != sendTime {
			t.Errorf("%v after %v", cause, time.Since(began))
		}
		res.stop()
	})
	run(t, func(t *testing.T, s *site) {
		stream := s.modern("subscriptions/listen", `"notifications":{"resourceSubscriptions":["x://a"]}`)
		stream.event("acknowledged")
		began := time.Now()
		for range 100 { // each changes the resource
			s.modern("tools/call", `"name":"change"`).is(200, "changed")
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("the calls of another client took %v", took)
		}
		time.Sleep(sendTime)
		synctest.Wait()
		if n := s.h.requests.Load(); n != 0 {
			t.Errorf("%d requests are open", n)
		}
		stream.stop()
	})
	run(t, func(t *testing.T, s *site) {
		for _, headers := range [][]string{nil, {"Content-Type: text/plain"}} {
			began := time.Now()
			body, rest := io.Pipe()
			go io.WriteString(rest, `{"jsonrpc":"2.0",`)
			res := s.sendBody("POST", body, headers...)
			if headers == nil {
				res.is(408, "the body did not arrive within 30s")
				if time.Since(began) != readTime {
					t.Error(time.Since(began))
				}
			}
			synctest.Wait()
			if time.Since(began) > readTime {
				t.Error(time.Since(began))
			}
			rest.Close()
			res.stop()
			s.modern("tools/call", `"name":"echo"`).is(200, "done")
		}
		time.Sleep(readTime)
		if n := s.h.requests.Load(); n != 0 {
			t.Errorf("%d requests are open", n)
		}
	})
}

// Of a thousand requests at once, those above the limit are refused, and the others are served.
func TestManyRequests(t *testing.T) {
	run(t, func(t *testing.T, s *site) {
		statuses := make(chan int, 1000)
		for range 1000 {
			go func() {
				res := s.modern("tools/call", `"name":"short"`)
				switch body, _ := io.ReadAll(res.r); {
				case res.StatusCode == 200 && strings.Contains(string(body), "short"):
				case res.StatusCode == 503 && strings.Contains(string(body), "too many requests at once") && res.Header.Get("Retry-After") != "":
				default:
					t.Errorf("%d %s", res.StatusCode, body)
				}
				statuses <- res.StatusCode
			}()
		}
		count := make(map[int]int)
		for range 1000 {
			count[<-statuses]++
		}
		if count[200] != 256 || count[503] != 744 {
			t.Error(count)
		}
		s.modern("tools/call", `"name":"echo"`).is(200, "done")
	})
}

// A handler that does not return when it is cancelled does not keep the HTTP response open.
func TestUnfinished(t *testing.T) {
	run(t, func(t *testing.T, s *site) {
		c := make(chan *answer)
		go func() { c <- s.modern("tools/call", `"name":"deaf"`) }()
		synctest.Wait()
		began := time.Now()
		s.h.Close()
		(<-c).is(500, `"id":7,"error":{"code":-32603,"message":"the request has ended without a response"}`)
		if time.Since(began) > 2*time.Second {
			t.Error(time.Since(began))
		}
		time.Sleep(time.Minute)
	})
	run(t, func(t *testing.T, s *site) {
		res := s.modern("tools/call", `"name":"deafer"`)
		res.event("progress")
		s.h.Close()
		res.ends()
		time.Sleep(time.Minute)
	})
}
