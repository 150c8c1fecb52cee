// SPDX-License-Identifier: MIT
// SPDX-FileCopyrightText: 2026 The mcp authors

package mcp_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"log"
	"log/slog"
	"math"
	"net"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"example.com/mcp"
)

// This is a whole server and a whole session. A program calls ServeStdio; here the
// host's messages are a string.
func Example() {
	type greetIn struct {
		Name string `json:"name" jsonschema:"the name of a person"`
	}
	greet := func(ctx context.Context, in greetIn) (string, error) {
		return "Hello, " + in.Name + "!", nil
	}

	s := &mcp.Server{Name: "greeter", Version: "1.0.0"}
	mcp.AddTool(s, mcp.Tool{Name: "greet", Description: "Returns a greeting."}, greet)

	host := strings.NewReader(`
{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"host","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"greet","arguments":{"name":"Ann"}}}
`)
	if err := s.Serve(context.Background(), host, os.Stdout); err != nil {
		fmt.Println(err)
	}
	// Output:
	// {"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","serverInfo":{"name":"greeter","version":"1.0.0"},"capabilities":{"tools":{"listChanged":true}}}}
	// {"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"Hello, Ann!"}]}}
}

// Struct tags describe the arguments, which are checked before the handler runs. A
// struct that the handler returns is sent as structured output. The model can read an
// error.
func ExampleAddTool() {
	type rootIn struct {
		X     float64 `json:"x" jsonschema:"the number"`
		Scale string  `json:"scale" enum:"linear,decibel" default:"linear"`
		Round int     `json:"round" minimum:"0" maximum:"9" default:"2"`
	}
	type rootOut struct {
		Root float64 `json:"root"`
	}
	root := func(ctx context.Context, in rootIn) (rootOut, error) {
		if in.X < 0 {
			return rootOut{}, fmt.Errorf("%v has no real root", in.X)
		}
		y, unit := math.Sqrt(in.X), math.Pow10(in.Round)
		if in.Scale == "decibel" {
			y = 20 * math.Log10(y)
		}
		return rootOut{math.Round(y*unit) / unit}, nil
	}

	s := &mcp.Server{Name: "maths", Version: "1.0.0"}
	mcp.AddTool(s, mcp.Tool{Name: "root", Description: "The square root."}, root)

	request(s, "tools/call", `{"name":"root","arguments":{"x":2}}`)
	request(s, "tools/call", `{"name":"root","arguments":{"x":-1}}`)
	request(s, "tools/call", `{"name":"root","arguments":{"scale":"log","rounds":3}}`)
	// Output:
	// {"content":[{"type":"text","text":"{\"root\":1.41}"}],"structuredContent":{"root":1.41}}
	// {"content":[{"type":"text","text":"-1 has no real root"}],"isError":true}
	// {"content":[{"type":"text","text":"Invalid arguments: scale must be one of \"linear\", \"decibel\", got \"log\"; rounds is unknown (there is x, scale, round); x is required"}],"isError":true}
}

// A schema can be made when the program runs, here from the definition of a table. The
// arguments are checked against it, so that the handler gets only rows that fit.
func ExampleAddTool_table() {
	type column struct {
		name, kind string
		required   bool
	}
	table := []column{{"title", "string", true}, {"pages", "integer", true}, {"price", "number", false}}

	properties, required := make(map[string]any), []string{}
	for _, c := range table {
		properties[c.name] = map[string]any{"type": c.kind, "description": "the column " + c.name}
		if c.required {
			required = append(required, c.name)
		}
	}
	schema, err := json.Marshal(map[string]any{
		"type": "object", "properties": properties, "required": required, "additionalProperties": false,
	})
	if err != nil {
		log.Fatal(err)
	}
	s := &mcp.Server{Name: "library", Version: "1.0.0"}
	mcp.AddTool(s, mcp.Tool{Name: "insert_book", InputSchema: schema}, func(ctx context.Context, row map[string]any) (string, error) {
		var columns []string
		for _, c := range table {
			if value, ok := row[c.name]; ok {
				columns = append(columns, fmt.Sprintf("%s=%v", c.name, value))
			}
		}
		return "inserted " + strings.Join(columns, ", "), nil
	})

	request(s, "tools/call", `{"name":"insert_book","arguments":{"title":"Emma","pages":"474"}}`)
	request(s, "tools/call", `{"name":"insert_book","arguments":{"title":"Emma","pages":"many"}}`)
	// Output:
	// {"content":[{"type":"text","text":"inserted title=Emma, pages=474"}]}
	// {"content":[{"type":"text","text":"Invalid arguments: pages must be an integer, got \"many\""}],"isError":true}
}

// A Result sets all parts of a result. A handler that returns only content can return
// a Content or a []Content instead.
func ExampleResult() {
	s := &mcp.Server{Name: "camera", Version: "1.0.0"}
	mcp.AddTool(s, mcp.Tool{Name: "shoot"}, func(ctx context.Context, _ struct{}) (*mcp.Result, error) {
		return &mcp.Result{
			Content: []mcp.Content{
				mcp.Text("A dark room."),
				mcp.Image([]byte("GIF89a"), "image/gif"),
				mcp.ResourceLink(mcp.Resource{URI: "file:///tmp/1.gif", Name: "1.gif"}),
				mcp.EmbeddedResource(mcp.ResourceContents{URI: "file:///tmp/1.txt", Text: "f/2.8"}),
			},
			Meta: map[string]any{"example.com/shot": 1},
		}, nil
	})

	request(s, "tools/call", `{"name":"shoot","arguments":{}}`)
	// Output:
	// {"content":[{"type":"text","text":"A dark room."},{"type":"image","data":"R0lGODlh","mimeType":"image/gif"},{"type":"resource_link","uri":"file:///tmp/1.gif","name":"1.gif"},{"type":"resource","resource":{"uri":"file:///tmp/1.txt","text":"f/2.8"}}],"_meta":{"example.com/shot":1}}
}

// The model reads the text of most errors. An Error is a protocol error instead, which
// the host handles.
func ExampleError() {
	s := &mcp.Server{Name: "bank", Version: "1.0.0"}
	mcp.AddTool(s, mcp.Tool{Name: "pay"}, func(ctx context.Context, in struct {
		Amount int `json:"amount"`
	}) (string, error) {
		if in.Amount > 1000 {
			return "", errors.New("no more than 1000 at a time")
		}
		return "", &mcp.Error{Code: 1, Message: "not signed in"}
	})

	request(s, "tools/call", `{"name":"pay","arguments":{"amount":5000}}`)
	request(s, "tools/call", `{"name":"pay","arguments":{"amount":5}}`)
	// Output:
	// {"content":[{"type":"text","text":"no more than 1000 at a time"}],"isError":true}
	// {"code":1,"message":"not signed in"}
}

// Progress does nothing if the client has not asked for progress.
func ExampleProgress() {
	s := &mcp.Server{Name: "zip", Version: "1.0.0"}
	mcp.AddTool(s, mcp.Tool{Name: "unpack"}, func(ctx context.Context, in struct {
		Files []string `json:"files"`
	}) (string, error) {
		for i, name := range in.Files {
			if err := ctx.Err(); err != nil {
				return "", err
			}
			mcp.Progress(ctx, float64(i+1), float64(len(in.Files)), name)
		}
		return "unpacked", nil
	})

	request(s, "tools/call", `{"name":"unpack","arguments":{"files":["a.txt","b.txt"]}}`)
	// Output:
	// notifications/progress {"progressToken":"p","progress":1,"total":2,"message":"a.txt"}
	// notifications/progress {"progressToken":"p","progress":2,"total":2,"message":"b.txt"}
	// {"content":[{"type":"text","text":"unpacked"}]}
}

// The cause of the context says why a handler should stop.
func ExampleCancelledError() {
	s := &mcp.Server{Name: "cook", Version: "1.0.0"}
	mcp.AddTool(s, mcp.Tool{Name: "boil"}, func(ctx context.Context, _ struct{}) (string, error) {
		<-ctx.Done()
		var cancelled *mcp.CancelledError
		switch cause := context.Cause(ctx); {
		case errors.As(cause, &cancelled):
			fmt.Println("cancelled by the client:", cancelled.Reason)
		case cause == mcp.ErrClosed:
			fmt.Println("the client has closed the connection")
		}
		return "", ctx.Err() // not sent if the client has cancelled the request
	})

	host := strings.NewReader(`
{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"boil","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}
{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"reason":"tea instead"}}
`)
	if err := s.Serve(context.Background(), host, os.Stdout); err != nil {
		fmt.Println(err)
	}
	// Output:
	// cancelled by the client: tea instead
}

// The roots of a client are the directories that the user works in. Not every client has
// them, and the result is not checked, so a list that is missing must be noticed here.
func ExampleAsk() {
	type root struct {
		URI  string `json:"uri"`
		Name string `json:"name"`
	}
	listRoots := func(ctx context.Context) ([]root, error) {
		result, err := mcp.Ask(ctx, "roots/list", nil)
		if err != nil {
			return nil, err
		}
		var list struct {
			Roots []root `json:"roots"`
		}
		if err := json.Unmarshal(result, &list); err != nil {
			return nil, fmt.Errorf("roots/list: %w", err)
		}
		if list.Roots == nil {
			return nil, errors.New("roots/list: the result has no roots")
		}
		return list.Roots, nil
	}

	s := &mcp.Server{Name: "tidy", Version: "1.0.0"}
	mcp.AddTool(s, mcp.Tool{Name: "where"}, func(ctx context.Context, _ struct{}) (string, error) {
		roots, err := listRoots(ctx)
		if errors.Is(err, errors.ErrUnsupported) {
			return "This client does not say.", nil
		}
		if err != nil {
			return "", err
		}
		var names []string
		for _, r := range roots {
			names = append(names, path.Base(r.URI))
		}
		return "In " + strings.Join(names, " and ") + ".", nil
	})

	request(s, "tools/call", `{"name":"where","arguments":{}}`)
	// Output:
	// {"content":[{"type":"text","text":"In website and api."}]}
}

// The client's model may call tools, which the handler runs itself. Each round of the
// conversation is one Ask. In revision 2026-07-28 the handler runs again from its top for
// each round, so it must send the same messages each time.
func ExampleAsk_sampling() {
	type block struct {
		Type      string          `json:"type"` // "text", "tool_use" or "tool_result"
		Text      string          `json:"text,omitempty"`
		ID        string          `json:"id,omitempty"`
		Name      string          `json:"name,omitempty"`
		Input     json.RawMessage `json:"input,omitempty"`
		ToolUseID string          `json:"toolUseId,omitempty"`
		Content   []block         `json:"content,omitempty"`
	}
	type message struct {
		Role    string  `json:"role"`
		Content []block `json:"content"`
	}
	tools := []mcp.Tool{{Name: "population", Description: "Returns the population of a city.",
		InputSchema: json.RawMessage(`{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}`)}}
	population := func(input json.RawMessage) string {
		var in struct{ City string }
		if json.Unmarshal(input, &in) != nil || in.City != "Bern" {
			return "unknown"
		}
		return "137,000"
	}
	sample := func(ctx context.Context, messages []message) (said message, err error) {
		result, err := mcp.Ask(ctx, "sampling/createMessage", map[string]any{"maxTokens": 500, "tools": tools, "messages": messages})
		if err != nil {
			return said, err
		}
		var answer struct{ Content json.RawMessage }
		if err := json.Unmarshal(result, &answer); err != nil {
			return said, fmt.Errorf("sampling/createMessage: %w", err)
		}
		if bytes.HasPrefix(answer.Content, []byte("{")) { // one block need not be in a list
			answer.Content = slices.Concat([]byte("["), answer.Content, []byte("]"))
		}
		said.Role = "assistant"
		err = json.Unmarshal(answer.Content, &said.Content)
		return said, err
	}

	s := &mcp.Server{Name: "cities", Version: "1.0.0"}
	mcp.AddTool(s, mcp.Tool{Name: "describe"}, func(ctx context.Context, in struct {
		City string `json:"city"`
	}) (string, error) {
		messages := []message{{"user", []block{{Type: "text", Text: "Describe " + in.City + " in one sentence."}}}}
		for range 5 { // a model may call tools without end
			said, err := sample(ctx, messages)
			if err != nil {
				return "", err
			}
			text, results := "", []block(nil)
			for _, b := range said.Content {
				switch b.Type {
				case "text":
					text += b.Text
				case "tool_use": // each one needs a result in the next message, which has nothing else
					results = append(results, block{Type: "tool_result", ToolUseID: b.ID, Content: []block{{Type: "text", Text: population(b.Input)}}})
				}
			}
			if results == nil {
				return text, nil
			}
			messages = append(messages, said, message{"user", results})
		}
		return "", errors.New("the model did not come to an end")
	})

	request(s, "tools/call", `{"name":"describe","arguments":{"city":"Bern"}}`)
	// Output:
	// the model is asked after 1 messages
	// the model is asked after 3 messages
	// {"content":[{"type":"text","text":"Bern has 137,000 people."}]}
}

// RequestFrom returns what is known about the client and its request.
func ExampleRequestFrom() {
	s := &mcp.Server{Name: "mirror", Version: "1.0.0"}
	mcp.AddTool(s, mcp.Tool{Name: "who"}, func(ctx context.Context, _ struct{}) (string, error) {
		r := mcp.RequestFrom(ctx)
		return fmt.Sprintf("%s %s, revision %s, request %s", r.ClientName, r.ClientVersion, r.ProtocolVersion, r.ID), nil
	})

	request(s, "tools/call", `{"name":"who","arguments":{}}`)
	// Output:
	// {"content":[{"type":"text","text":"host 1, revision 2025-11-25, request \"call\""}]}
}

// AddTool derives the schemas of a tool from the types of its handler. If the handler returns
// a *Result that has StructuredContent, set OutputSchema to describe that.
func ExampleSchemaOf() {
	type weather struct {
		Sky     string  `json:"sky" enum:"clear,cloudy"`
		Celsius float64 `json:"celsius" jsonschema:"in the shade"`
		Wind    *int    `json:"wind"` // a pointer: optional
	}
	tool := mcp.Tool{Name: "weather", OutputSchema: mcp.SchemaOf[weather]()}

	fmt.Println(string(tool.OutputSchema))
	// Output:
	// {"type":"object","properties":{"sky":{"type":"string","enum":["clear","cloudy"]},"celsius":{"type":"number","description":"in the shade"},"wind":{"type":"integer"}},"required":["sky","celsius"],"additionalProperties":false}
}

// Serve reads from any reader and writes to any writer, so it can be used in a test or
// with a socket. It returns nil when the client closes the connection.
func ExampleServer_Serve() {
	s := &mcp.Server{Name: "echo", Version: "1.0.0"}

	var out strings.Builder
	err := s.Serve(context.Background(), strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"ping"}`), &out)
	fmt.Print(out.String())
	fmt.Println(err)
	// Output:
	// {"jsonrpc":"2.0","id":1,"result":{}}
	// <nil>
}

// Several processes serve the same clients, each of which may reach any process. A secret key that
// all processes share lets each of them accept the answer to a question of another one. Here
// two Servers are the processes.
func ExampleServer_checksum() {
	newServer := func() *mcp.Server {
		s := &mcp.Server{Name: "files", Version: "1.0.0"}
		key := []byte("from a secret store, at least 32 random bytes")
		s.Checksum = func(data []byte) string {
			mac := hmac.New(sha256.New, key)
			mac.Write(data)
			return string(mac.Sum(nil))
		}
		mcp.AddTool(s, mcp.Tool{Name: "remove"}, func(ctx context.Context, in struct {
			Path string `json:"path"`
		}) (string, error) {
			if err := mcp.Confirm(ctx, "Delete "+in.Path+"?"); err != nil {
				return "", err
			}
			return "deleted " + in.Path, nil
		})
		return s
	}

	// A client of 2026-07-28 calls the tool and is asked, and calls again with the answer.
	call := func(s *mcp.Server, more string) (result struct {
		InputRequests map[string]any
		RequestState  string
		Content       []mcp.Content
	}) {
		host, conn := net.Pipe()
		defer host.Close()
		go s.Serve(context.Background(), conn, conn)
		fmt.Fprintln(host, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"remove","arguments":{"path":"a.txt"}`+more+
			`,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}}}`)
		json.NewDecoder(host).Decode(&struct{ Result any }{&result})
		return result
	}
	asked := call(newServer(), "")
	for key := range asked.InputRequests {
		done := call(newServer(), fmt.Sprintf(`,"requestState":%q,"inputResponses":{%q:{"action":"accept","content":{"confirm":true}}}`, asked.RequestState, key))
		fmt.Println(done.Content[0].Text)
	}
	// Output:
	// deleted a.txt
}

// Before it deletes or sends something, a handler asks the user to confirm it, and returns the
// error if there is one.
func ExampleConfirm() {
	s := &mcp.Server{Name: "files", Version: "1.0.0"}
	mcp.AddTool(s, mcp.Tool{Name: "remove"}, func(ctx context.Context, in struct {
		Path string `json:"path"`
	}) (string, error) {
		if err := mcp.Confirm(ctx, "Delete "+in.Path+"?"); err != nil {
			return "", err // not answered yet, declined or dismissed
		}
		return "deleted " + in.Path, nil
	})

	request(s, "tools/call", `{"name":"remove","arguments":{"path":"a.txt"}}`, `{"confirm":true}`)
	request(s, "tools/call", `{"name":"remove","arguments":{"path":"a.txt"}}`, `{"confirm":false}`)
	// Output:
	// the user is asked: Delete a.txt?
	// {"content":[{"type":"text","text":"deleted a.txt"}]}
	// the user is asked: Delete a.txt?
	// {"content":[{"type":"text","text":"the user declined"}],"isError":true}
}

// Elicit blocks until the user has answered, or returns an error after which the handler
// runs again; the handler returns that error in either case.
func ExampleElicit() {
	type size struct {
		Width  int    `json:"width" minimum:"1"`
		Height int    `json:"height" minimum:"1"`
		Unit   string `json:"unit" enum:"mm,inch" default:"mm"`
	}
	s := &mcp.Server{Name: "printer", Version: "1.0.0"}
	mcp.AddTool(s, mcp.Tool{Name: "print"}, func(ctx context.Context, in struct {
		File string `json:"file"`
	}) (string, error) {
		paper, err := mcp.Elicit[size](ctx, "The paper for "+in.File)
		if err != nil {
			return "", err // not answered yet, invalid, declined or dismissed
		}
		return fmt.Sprintf("printed on %d by %d %s", paper.Width, paper.Height, paper.Unit), nil
	})

	request(s, "tools/call", `{"name":"print","arguments":{"file":"a.pdf"}}`, `{"width":210,"height":297}`)
	// Output:
	// the user is asked: The paper for a.pdf
	// {"content":[{"type":"text","text":"printed on 210 by 297 mm"}]}
}

// Three functions around each call: log it with its duration and outcome, refuse all tools but
// two, and limit its time.
func ExampleServer_intercept() {
	s := &mcp.Server{Name: "clock", Version: "1.0.0"}
	s.Intercept = func(ctx context.Context, next func(context.Context) error) error {
		return logCall(ctx, func(ctx context.Context) error {
			return allowTools(ctx, func(ctx context.Context) error {
				return limitTime(ctx, next)
			})
		})
	}
	mcp.AddTool(s, mcp.Tool{Name: "now"}, func(ctx context.Context, _ struct{}) (string, error) {
		return "noon", nil
	})
	mcp.AddTool(s, mcp.Tool{Name: "wait"}, func(ctx context.Context, _ struct{}) (string, error) {
		<-ctx.Done()
		return "", ctx.Err()
	})
	mcp.AddTool(s, mcp.Tool{Name: "reset"}, func(ctx context.Context, _ struct{}) (string, error) {
		return "reset", nil
	})

	request(s, "tools/call", `{"name":"now","arguments":{}}`)
	request(s, "tools/call", `{"name":"now","arguments":{"zone":"CET"}}`)
	request(s, "tools/call", `{"name":"wait","arguments":{}}`)
	request(s, "tools/call", `{"name":"reset","arguments":{}}`)
	// Output:
	// tools/call now succeeded, in less than a minute: true
	// {"content":[{"type":"text","text":"noon"}]}
	// tools/call now failed (Invalid arguments: zone is unknown (there is no argument here)), in less than a minute: true
	// {"content":[{"type":"text","text":"Invalid arguments: zone is unknown (there is no argument here)"}],"isError":true}
	// tools/call wait failed (context deadline exceeded), in less than a minute: true
	// {"content":[{"type":"text","text":"context deadline exceeded"}],"isError":true}
	// tools/call reset failed (the tool reset is not allowed here), in less than a minute: true
	// {"content":[{"type":"text","text":"the tool reset is not allowed here"}],"isError":true}
}

func logCall(ctx context.Context, next func(context.Context) error) error {
	r, start, outcome := mcp.RequestFrom(ctx), time.Now(), "panicked"
	defer func() {
		fmt.Printf("%s %s %s, in less than a minute: %v\n", r.Method, r.Name, outcome, time.Since(start) < time.Minute)
	}()
	err := next(ctx)
	switch {
	case errors.Is(err, mcp.ErrInputRequired): // a question in 2026-07-28, not a failure
		outcome = "asks"
	case err != nil:
		outcome = "failed (" + err.Error() + ")"
	default:
		outcome = "succeeded"
	}
	return err
}

func allowTools(ctx context.Context, next func(context.Context) error) error {
	switch r := mcp.RequestFrom(ctx); {
	case r.Method != "tools/call", r.Name == "now", r.Name == "wait":
		return next(ctx)
	default:
		return fmt.Errorf("the tool %s is not allowed here", r.Name)
	}
}

func limitTime(ctx context.Context, next func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
	defer cancel()
	return next(ctx)
}

// An MCP App is a page that a host shows with the result of a tool. The page is a
// resource, and the tool's _meta has its URI. Hosts that can show pages declare the
// extension; for other hosts, Enabled hides the tool.
func Example_app() {
	const (
		extension = "io.modelcontextprotocol/ui"
		uri       = "ui://weather/today"
	)
	s := &mcp.Server{Name: "weather", Version: "1.0.0", Extensions: map[string]any{extension: struct{}{}}}
	s.AddResource(mcp.Resource{URI: uri, Name: "page", MIMEType: "text/html;profile=mcp-app"},
		func(context.Context, string, map[string]string) ([]mcp.ResourceContents, error) {
			return []mcp.ResourceContents{{Text: page}}, nil // a program embeds a file
		})
	type weather struct {
		Sky string `json:"sky"`
	}
	showsPages := func(ctx context.Context) bool {
		var client struct{ Extensions map[string]json.RawMessage }
		err := json.Unmarshal(mcp.RequestFrom(ctx).Capabilities, &client)
		return err == nil && client.Extensions[extension] != nil
	}
	mcp.AddTool(s, mcp.Tool{
		Name:    "show_weather",
		Meta:    map[string]any{"ui": map[string]any{"resourceUri": uri}},
		Enabled: showsPages,
	}, func(context.Context, struct{}) (weather, error) {
		return weather{Sky: "clear"}, nil
	})

	request(s, "tools/list", `{}`)
	// Output:
	// {"tools":[{"name":"show_weather","inputSchema":{"type":"object","properties":{},"additionalProperties":false},"outputSchema":{"type":"object","properties":{"sky":{"type":"string"}},"required":["sky"],"additionalProperties":false},"_meta":{"ui":{"resourceUri":"ui://weather/today"}}}]}
}

// After the page has initialized itself, the host sends it the result of the tool.
const page = `<!doctype html><title>Weather</title><p id="sky"></p><script>
const send = m => parent.postMessage({jsonrpc: "2.0", ...m}, "*")
addEventListener("message", ({data}) => {
	if (data.id === 1) send({method: "ui/notifications/initialized"})
	if (data.method === "ui/notifications/tool-result") sky.textContent = data.params.structuredContent.sky
})
send({id: 1, method: "ui/initialize", params: {protocolVersion: "2026-01-26", appInfo: {name: "weather", version: "1.0.0"}, appCapabilities: {}}})
</script>`

// A URI with a variable is a template for many resources. The error fs.ErrNotExist is
// sent as "Resource not found".
func ExampleServer_AddResource() {
	notes := map[string]string{"1": "Buy milk."}
	s := &mcp.Server{Name: "notes", Version: "1.0.0"}
	s.AddResource(mcp.Resource{URI: "note://{id}", Name: "note", MIMEType: "text/plain"},
		func(ctx context.Context, uri string, vars map[string]string) ([]mcp.ResourceContents, error) {
			text, ok := notes[vars["id"]]
			if !ok {
				return nil, fs.ErrNotExist
			}
			return []mcp.ResourceContents{{Text: text}}, nil
		})

	request(s, "resources/read", `{"uri":"note://1"}`)
	request(s, "resources/read", `{"uri":"note://2"}`)
	// Output:
	// {"contents":[{"uri":"note://1","mimeType":"text/plain","text":"Buy milk."}]}
	// {"code":-32002,"message":"Resource not found","data":{"uri":"note://2"}}
}

// Complete suggests values of an argument while the user types.
func ExampleServer_AddPrompt() {
	s := &mcp.Server{Name: "reviews", Version: "1.0.0"}
	s.AddPrompt(mcp.Prompt{
		Name: "review",
		Arguments: []mcp.PromptArgument{{Name: "language", Required: true,
			Complete: func(ctx context.Context, typed string, known map[string]string) ([]string, error) {
				return slices.DeleteFunc([]string{"Go", "Groovy", "Rust"}, func(name string) bool {
					return !strings.HasPrefix(name, typed)
				}), nil
			}}},
	}, func(ctx context.Context, args map[string]string) ([]mcp.PromptMessage, error) {
		return []mcp.PromptMessage{{Content: mcp.Text("Please review my " + args["language"] + " code.")}}, nil
	})

	request(s, "completion/complete", `{"ref":{"type":"ref/prompt","name":"review"},"argument":{"name":"language","value":"G"}}`)
	request(s, "prompts/get", `{"name":"review","arguments":{"language":"Go"}}`)
	// Output:
	// {"completion":{"values":["Go","Groovy"],"total":2,"hasMore":false}}
	// {"messages":[{"role":"user","content":{"type":"text","text":"Please review my Go code."}}]}
}

// A LogHandler drops each record that does not have the context of a request, so it is
// combined here with a handler for stderr, which receives all records. Since Go 1.26,
// slog.NewMultiHandler can be used in place of the type handlers.
func ExampleServer_LogHandler() {
	s := &mcp.Server{Name: "web", Version: "1.0.0"}
	local := slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{ReplaceAttr: withoutTime}) // a program writes to os.Stderr
	logger := slog.New(handlers{local, s.LogHandler("fetcher")})
	mcp.AddTool(s, mcp.Tool{Name: "fetch"}, func(ctx context.Context, in struct {
		URL string `json:"url"`
	}) (string, error) {
		logger.InfoContext(ctx, "fetching", "url", in.URL)
		return "fetched", nil
	})
	logger.Info("starting")

	request(s, "tools/call", `{"name":"fetch","arguments":{"url":"https://example.com"}}`)
	// Output:
	// level=INFO msg=starting
	// level=INFO msg=fetching url=https://example.com
	// notifications/message {"level":"info","logger":"fetcher","data":{"msg":"fetching","url":"https://example.com"}}
	// {"content":[{"type":"text","text":"fetched"}]}
}

// handlers is a slog.Handler that passes each record to all of its elements.
type handlers []slog.Handler

func (h handlers) Enabled(ctx context.Context, level slog.Level) bool {
	return slices.ContainsFunc(h, func(one slog.Handler) bool { return one.Enabled(ctx, level) })
}

func (h handlers) Handle(ctx context.Context, record slog.Record) (err error) {
	for _, one := range h {
		if one.Enabled(ctx, record.Level) {
			err = errors.Join(err, one.Handle(ctx, record.Clone()))
		}
	}
	return err
}

func (h handlers) WithAttrs(attrs []slog.Attr) slog.Handler {
	return h.each(func(one slog.Handler) slog.Handler { return one.WithAttrs(attrs) })
}

func (h handlers) WithGroup(name string) slog.Handler {
	return h.each(func(one slog.Handler) slog.Handler { return one.WithGroup(name) })
}

func (h handlers) each(change func(slog.Handler) slog.Handler) (changed handlers) {
	for _, one := range h {
		changed = append(changed, change(one))
	}
	return changed
}

func withoutTime(_ []string, a slog.Attr) slog.Attr {
	if a.Key == slog.TimeKey {
		return slog.Attr{}
	}
	return a
}

//go:embed example/skills
var skillFiles embed.FS

// An extension may have methods of its own. The server declares the extension, so that
// clients know that they can call them. This is the extension for skills (SEP-2640). Each
// file of a skill is a resource. Two methods return the entries of skills, with which a host
// chooses a skill and verifies its files. //go:embed includes the files in the program.
func ExampleServer_AddMethod() {
	s := &mcp.Server{Name: "skills", Version: "1.0.0", Extensions: map[string]any{"io.modelcontextprotocol/skills": struct{}{}}}
	dirs, err := fs.Glob(skillFiles, "example/skills/*")
	if err != nil {
		log.Fatal(err)
	}
	var skills []skill
	for _, dir := range dirs {
		added, err := addSkill(s, skillFiles, dir)
		if err != nil {
			log.Fatal(err)
		}
		skills = append(skills, added)
	}
	// Revision 2026-07-28 requires ttlMs and cacheScope. With these values, hosts do not cache the result.
	s.AddMethod("skills/list", func(context.Context, json.RawMessage) (any, error) {
		return map[string]any{"skills": skills, "ttlMs": 0, "cacheScope": "private"}, nil
	})
	s.AddMethod("skills/get", func(_ context.Context, params json.RawMessage) (any, error) {
		var p struct{ URI string }
		err := json.Unmarshal(params, &p)
		i := slices.IndexFunc(skills, func(one skill) bool { return one.URI == p.URI })
		if err != nil || i < 0 {
			return nil, &mcp.Error{Code: -32602, Message: "There is no skill " + p.URI}
		}
		return map[string]any{"skill": skills[i], "ttlMs": 0, "cacheScope": "private"}, nil
	})

	request(s, "skills/list", `{}`)
	request(s, "skills/get", `{"uri":"skill://release/SKILL.md"}`)
	request(s, "resources/read", `{"uri":"skill://review/references/errors.md"}`)
	// Output:
	// {"cacheScope":"private","skills":[{"uri":"skill://review/SKILL.md","frontmatter":{"description":"Reviews Go code. Use this skill when the user asks for a review.","name":"review"},"resources":[{"uri":"skill://review/SKILL.md","digest":"sha256:a32c404efd885114a06ba8fa345a2352e46d4e11de642593f0659ff63d6f761e","size":187},{"uri":"skill://review/references/errors.md","digest":"sha256:a3b1fb724962e696444fdd917ab9c68af56479bf2ff21b419b417de1c2765714","size":56}]}],"ttlMs":0}
	// {"code":-32602,"message":"There is no skill skill://release/SKILL.md"}
	// {"contents":[{"uri":"skill://review/references/errors.md","text":"An error says what failed, and wraps its cause with %w.\n"}]}
}

type skill struct {
	URI         string            `json:"uri"`
	Frontmatter map[string]string `json:"frontmatter"`
	Resources   []skillFile       `json:"resources"` // all files, SKILL.md included
}

type skillFile struct {
	URI    string `json:"uri"`
	Digest string `json:"digest"`
	Size   int    `json:"size"`
}

// frontmatter matches the frontmatter of a SKILL.md. It is YAML, of which this accepts only a
// name and a description in plain text. Use a YAML package for anything more: an entry must
// have all fields, because hosts refuse a skill whose frontmatter differs from its entry.
var frontmatter = regexp.MustCompile(`^---\r?\nname: ([a-z][a-z0-9-]*)\r?\ndescription: ([A-Za-z][^:#\r\n]*[^:#\s])\r?\n---\r?\n`)

// addSkill adds all files in dir as resources, and returns the entry of the skill.
func addSkill(s *mcp.Server, files fs.FS, dir string) (skill, error) {
	text, err := fs.ReadFile(files, dir+"/SKILL.md")
	if err != nil {
		return skill{}, err
	}
	match := frontmatter.FindStringSubmatch(string(text))
	if match == nil || match[1] != path.Base(dir) {
		return skill{}, fmt.Errorf("%s/SKILL.md: the frontmatter must be the directory's name and a description, which begins with a letter and has no colon and no #", dir)
	}
	name, description := match[1], match[2]
	added := skill{URI: "skill://" + name + "/SKILL.md", Frontmatter: map[string]string{"name": name, "description": description}}
	err = fs.WalkDir(files, dir, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := fs.ReadFile(files, file)
		if err != nil {
			return err
		}
		resource := mcp.Resource{URI: "skill://" + name + strings.TrimPrefix(file, dir), Name: path.Base(file)}
		if resource.URI == added.URI {
			resource.Name, resource.Description, resource.MIMEType = name, description, "text/markdown"
		}
		contents := mcp.ResourceContents{Text: string(data)}
		if !utf8.Valid(data) {
			contents.Blob = data
		}
		s.AddResource(resource, func(context.Context, string, map[string]string) ([]mcp.ResourceContents, error) {
			return []mcp.ResourceContents{contents}, nil
		})
		added.Resources = append(added.Resources, skillFile{resource.URI, fmt.Sprintf("sha256:%x", sha256.Sum256(data)), len(data)})
		return nil
	})
	return added, err
}

// request is the host of these examples. In a new session it sends one request, and
// prints the result or the error, and the notifications before it. It answers questions
// for roots and for a model, and each question to the user with the next of answers.
func request(s *mcp.Server, method, params string, answers ...string) {
	host, conn := net.Pipe()
	served := make(chan error)
	go func() { served <- s.Serve(context.Background(), conn, conn) }()

	fmt.Fprintln(host, `{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":"2025-11-25","clientInfo":{"name":"host","version":"1"},`+
		`"capabilities":{"roots":{},"sampling":{"tools":{}},"elicitation":{},"extensions":{"io.modelcontextprotocol/ui":{"mimeTypes":["text/html;profile=mcp-app"]}}}}}`)
	fmt.Fprintln(host, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	fmt.Fprintln(host, `{"jsonrpc":"2.0","id":"level","method":"logging/setLevel","params":{"level":"info"}}`)
	members := ""
	if params != "{}" {
		members = "," + params[1:len(params)-1]
	}
	fmt.Fprintf(host, `{"jsonrpc":"2.0","id":"call","method":%q,"params":{"_meta":{"progressToken":"p"}%s}}`+"\n", method, members)

	messages := json.NewDecoder(host)
	for answered := false; !answered; {
		var m struct {
			ID                    any
			Method                string
			Params, Result, Error json.RawMessage
		}
		if err := messages.Decode(&m); err != nil {
			fmt.Println(err)
			break
		}
		switch {
		case m.Method == "roots/list":
			fmt.Fprintf(host, `{"jsonrpc":"2.0","id":%v,"result":{"roots":[{"uri":"file:///home/ann/website"},{"uri":"file:///home/ann/api"}]}}`+"\n", m.ID)
		case m.Method == "sampling/createMessage":
			var question struct {
				Messages []struct{ Content []json.RawMessage }
			}
			json.Unmarshal(m.Params, &question)
			fmt.Println("the model is asked after", len(question.Messages), "messages")
			said := `{"type":"tool_use","id":"1","name":"population","input":{"city":"Bern"}}`
			if len(question.Messages) > 1 {
				said = `{"type":"text","text":"Bern has 137,000 people."}`
			}
			fmt.Fprintf(host, `{"jsonrpc":"2.0","id":%v,"result":{"role":"assistant","model":"m","content":%s}}`+"\n", m.ID, said)
		case m.Method == "elicitation/create":
			var question struct{ Message string }
			json.Unmarshal(m.Params, &question)
			fmt.Println("the user is asked:", question.Message)
			fmt.Fprintf(host, `{"jsonrpc":"2.0","id":%v,"result":{"action":"accept","content":%s}}`+"\n", m.ID, answers[0])
			answers = answers[1:]
		case m.Method != "":
			fmt.Println(m.Method, string(m.Params))
		case m.ID == "call":
			fmt.Println(string(m.Result) + string(m.Error))
			answered = true
		}
	}
	host.Close()
	if err := <-served; err != nil {
		fmt.Println(err)
	}
}

// ---- the exported API ----

// The exported API is that of 4.0.0, which is in testdata, and these additions.
func TestExportedAPI(t *testing.T) {
	additions := []string{
		"field Server.Checksum func(data []byte) string",
		"field Server.Intercept func(ctx context.Context, next func(context.Context) error) error",
		"func *Server.Tools() []Tool",
		"const Version",
		"field Tool.TaskAfter time.Duration",
	}
	data, err := os.ReadFile("testdata/api-4.0.0.txt")
	if err != nil {
		t.Fatal(err)
	}
	before := strings.Split(strings.TrimSpace(string(data)), "\n")
	var now []string
	for _, name := range []string{"mcp.go", "session.go", "cancel.go"} {
		now = append(now, exportedOf(t, name)...)
	}
	for _, line := range slices.Concat(before, additions) {
		if !slices.Contains(now, line) {
			t.Errorf("missing: %s", line)
		}
	}
	for _, line := range now {
		if !slices.Contains(before, line) && !slices.Contains(additions, line) {
			t.Errorf("new: %s", line)
		}
	}
}

// exportedOf returns a line for each exported name of a file.
func exportedOf(t *testing.T, name string) (lines []string) {
	file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	fieldsOf := func(list *ast.FieldList) (all []string) {
		for _, f := range list.List {
			for _, name := range f.Names {
				all = append(all, name.Name+" "+types.ExprString(f.Type))
			}
			if f.Names == nil {
				all = append(all, types.ExprString(f.Type))
			}
		}
		return all
	}
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			of := ""
			if d.Recv != nil {
				of = types.ExprString(d.Recv.List[0].Type) + "."
			}
			if d.Name.IsExported() && (of == "" || ast.IsExported(strings.TrimPrefix(of, "*"))) {
				params := ""
				if d.Type.TypeParams != nil {
					params = "[" + strings.Join(fieldsOf(d.Type.TypeParams), ", ") + "]"
				}
				lines = append(lines, "func "+of+d.Name.Name+params+strings.TrimPrefix(types.ExprString(d.Type), "func"))
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch spec := spec.(type) {
				case *ast.ValueSpec:
					for _, name := range spec.Names {
						if name.IsExported() {
							lines = append(lines, d.Tok.String()+" "+name.Name)
						}
					}
				case *ast.TypeSpec:
					if !spec.Name.IsExported() {
						continue
					}
					fields, isStruct := spec.Type.(*ast.StructType)
					if !isStruct {
						lines = append(lines, "type "+spec.Name.Name+" "+types.ExprString(spec.Type))
						continue
					}
					lines = append(lines, "type "+spec.Name.Name+" struct")
					for _, field := range fieldsOf(fields.Fields) {
						if ast.IsExported(field) {
							lines = append(lines, "field "+spec.Name.Name+"."+field)
						}
					}
				}
			}
		}
	}
	return lines
}
