// SPDX-License-Identifier: MIT

package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math"
	"net"
	"os"
	"path"
	"strings"
	"time"

	"example.com/mcp"
)

// A whole server and a whole session. In a program it is ServeStdio that
// speaks with the host; here the host's lines come from a string.
func Example() {
	type greetIn struct {
		Name string `json:"name" jsonschema:"whom to greet"`
	}
	greet := func(ctx context.Context, in greetIn) (string, error) {
		return "Hello, " + in.Name + "!", nil
	}

	s := &mcp.Server{Name: "greeter", Version: "1.0.0"}
	mcp.AddTool(s, mcp.Tool{Name: "greet", Description: "Greets somebody."}, greet)

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

// Tags say what an argument must be like. Arguments are checked before the
// handler is called, a result that is a struct is structured output, and the
// model can read an error.
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

	call(s, "root", `{"x":2}`)
	call(s, "root", `{"x":-1}`)
	call(s, "root", `{"scale":"log","rounds":3}`)
	// Output:
	// {"content":[{"type":"text","text":"{\"root\":1.41}"}],"structuredContent":{"root":1.41}}
	// {"content":[{"type":"text","text":"-1 has no real root"}],"isError":true}
	// {"content":[{"type":"text","text":"Invalid arguments: scale must be one of linear, decibel, got \"log\"; rounds is unknown (there is x, scale, round); x is required"}],"isError":true}
}

// With a schema written by hand the arguments come as they are, to be checked
// by the handler.
func ExampleAddTool_raw() {
	s := &mcp.Server{Name: "raw", Version: "1.0.0"}
	mcp.AddTool(s, mcp.Tool{
		Name:        "count",
		Description: "Counts the arguments.",
		InputSchema: json.RawMessage(`{"type":"object","additionalProperties":{"type":"number"}}`),
	}, func(ctx context.Context, arguments json.RawMessage) (string, error) {
		var m map[string]float64
		if err := json.Unmarshal(arguments, &m); err != nil {
			return "", err
		}
		return fmt.Sprintf("%d numbers", len(m)), nil
	})

	call(s, "count", `{"a":1,"b":2.5}`)
	// Output:
	// {"content":[{"type":"text","text":"2 numbers"}]}
}

// A Result is everything by hand. Handlers that have nothing but blocks to
// return can return a Content or a []Content instead.
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

	call(s, "shoot", `{}`)
	// Output:
	// {"content":[{"type":"text","text":"A dark room."},{"type":"image","data":"R0lGODlh","mimeType":"image/gif"},{"type":"resource_link","uri":"file:///tmp/1.gif","name":"1.gif"},{"type":"resource","resource":{"uri":"file:///tmp/1.txt","text":"f/2.8"}}],"_meta":{"example.com/shot":1}}
}

// Most errors are for the model. An Error is for the host: it refuses the call
// as such.
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

	call(s, "pay", `{"amount":5000}`)
	call(s, "pay", `{"amount":5}`)
	// Output:
	// {"content":[{"type":"text","text":"no more than 1000 at a time"}],"isError":true}
	// {"code":1,"message":"not signed in"}
}

// Progress is for clients that ask for it; for others it does nothing.
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

	call(s, "unpack", `{"files":["a.txt","b.txt"]}`)
	// Output:
	// notifications/progress {"progressToken":"p","progress":1,"total":2,"message":"a.txt"}
	// notifications/progress {"progressToken":"p","progress":2,"total":2,"message":"b.txt"}
	// {"content":[{"type":"text","text":"unpacked"}]}
}

// The cause of a handler's context tells why it should stop.
func ExampleCancelledError() {
	working := make(chan struct{})
	s := &mcp.Server{Name: "cook", Version: "1.0.0"}
	mcp.AddTool(s, mcp.Tool{Name: "boil"}, func(ctx context.Context, _ struct{}) (string, error) {
		close(working)
		<-ctx.Done()
		var cancelled *mcp.CancelledError
		switch cause := context.Cause(ctx); {
		case errors.As(cause, &cancelled):
			fmt.Println("the user has changed their mind:", cancelled.Reason)
		case cause == mcp.ErrClosed:
			fmt.Println("the host has gone away")
		}
		return "", ctx.Err() // nobody is sent this
	})

	r, host := io.Pipe()
	go func() {
		fmt.Fprintln(host, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"boil","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`)
		<-working
		fmt.Fprintln(host, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"reason":"tea instead"}}`)
		host.Close()
	}()
	if err := s.Serve(context.Background(), r, os.Stdout); err != nil {
		fmt.Println(err)
	}
	// Output:
	// the user has changed their mind: tea instead
}

// A handler may ask the client what the user is working on. Not every client
// can be asked.
func ExampleRoots() {
	s := &mcp.Server{Name: "tidy", Version: "1.0.0"}
	mcp.AddTool(s, mcp.Tool{Name: "where"}, func(ctx context.Context, _ struct{}) (string, error) {
		roots, err := mcp.Roots(ctx)
		if errors.Is(err, errors.ErrUnsupported) {
			return "I cannot tell.", nil
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

	call(s, "where", `{}`)
	// Output:
	// {"content":[{"type":"text","text":"In website and api."}]}
}

// Who is it that calls?
func ExampleRequestFrom() {
	s := &mcp.Server{Name: "mirror", Version: "1.0.0"}
	mcp.AddTool(s, mcp.Tool{Name: "who"}, func(ctx context.Context, _ struct{}) (string, error) {
		r := mcp.RequestFrom(ctx)
		return fmt.Sprintf("%s %s, revision %s, request %s", r.ClientName, r.ClientVersion, r.ProtocolVersion, r.ID), nil
	})

	call(s, "who", `{}`)
	// Output:
	// {"content":[{"type":"text","text":"host 1, revision 2025-11-25, request \"call\""}]}
}

// AddTool describes what a handler takes and what it returns by their types. A
// handler that returns a *Result has to say what that holds.
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

// Serve takes any pair of a reader and a writer, so a server can be tested, or
// served on a socket. It returns nil when the client has closed its end.
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

// A question stops the handler until the user has answered, or makes it run
// again: it need not care which. Before something is lost, ask for a deed: a
// boolean that is false until the user turns it. Without the default some hosts
// show it ticked, and a form without fields some accept unasked.
func ExampleElicit() {
	type confirm struct {
		Sure bool `json:"sure" jsonschema:"tick to go ahead" default:"false"`
	}
	s := &mcp.Server{Name: "files", Version: "1.0.0"}
	mcp.AddTool(s, mcp.Tool{Name: "remove"}, func(ctx context.Context, in struct {
		Path string `json:"path"`
	}) (string, error) {
		c, err := mcp.Elicit[confirm](ctx, "Delete "+in.Path+"?")
		if err != nil {
			return "", err // not answered yet, declined or dismissed
		}
		if !c.Sure {
			return "kept " + in.Path, nil
		}
		return "deleted " + in.Path, nil
	})

	call(s, "remove", `{"path":"a.txt"}`)
	// Output:
	// the user is asked: Delete a.txt?
	// {"content":[{"type":"text","text":"deleted a.txt"}]}
}

// What other libraries call middleware is a function around a handler. This one
// stands in the place of AddTool: it bounds each call, and logs its name, its time
// and its outcome.
func Example_middleware() {
	s := &mcp.Server{Name: "clock", Version: "1.0.0"}
	addTool(s, mcp.Tool{Name: "now"}, func(ctx context.Context, _ struct{}) (string, error) {
		return "noon", nil
	})
	addTool(s, mcp.Tool{Name: "wait"}, func(ctx context.Context, _ struct{}) (string, error) {
		<-ctx.Done()
		return "", ctx.Err()
	})

	call(s, "now", `{}`)
	call(s, "wait", `{}`)
	// Output:
	// now took 0s: ok
	// {"content":[{"type":"text","text":"noon"}]}
	// wait took 0s: it took more than 10ms
	// {"content":[{"type":"text","text":"it took more than 10ms"}],"isError":true}
}

func addTool[In, Out any](s *mcp.Server, t mcp.Tool, h func(context.Context, In) (Out, error)) {
	const limit = 10 * time.Millisecond // in older revisions a tool that asks waits for the user in it
	mcp.AddTool(s, t, func(ctx context.Context, in In) (Out, error) {
		ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("it took more than %v", limit))
		defer cancel()
		began := time.Now()
		out, err := h(ctx, in)
		outcome := "ok"
		switch {
		case errors.Is(err, mcp.ErrInputRequired):
			outcome = "asks the user" // and runs again
		case err != nil && ctx.Err() != nil:
			err = context.Cause(ctx) // in place of "context deadline exceeded"
			outcome = err.Error()
		case err != nil:
			outcome = err.Error()
		}
		fmt.Printf("%s took %v: %v\n", t.Name, time.Since(began).Round(time.Second), outcome) // in a program: log.Printf, and without Round
		return out, err
	})
}

// An MCP App is a page that a host shows beside the result of a tool: a resource,
// to which the tool's _meta points. Hosts that can show it declare the extension.
func Example_app() {
	const (
		extension = "io.modelcontextprotocol/ui"
		uri       = "ui://weather/today"
	)
	s := &mcp.Server{Name: "weather", Version: "1.0.0", Extensions: map[string]any{extension: struct{}{}}}
	s.AddResource(mcp.Resource{URI: uri, Name: "page", MIMEType: "text/html;profile=mcp-app"},
		func(context.Context, string, map[string]string) ([]mcp.ResourceContents, error) {
			return []mcp.ResourceContents{{Text: page}}, nil // embed it, in a program
		})
	type weather struct {
		Sky string `json:"sky"`
	}
	showsPages := func(ctx context.Context) bool {
		var can struct{ Extensions map[string]json.RawMessage }
		json.Unmarshal(mcp.RequestFrom(ctx).Capabilities, &can)
		return can.Extensions[extension] != nil
	}
	mcp.AddTool(s, mcp.Tool{
		Name:  "show_weather",
		Meta:  map[string]any{"ui": map[string]any{"resourceUri": uri}},
		Shown: showsPages,
	}, func(context.Context, struct{}) (weather, error) {
		return weather{Sky: "clear"}, nil
	})

	sendAs(s, `{"extensions":{"io.modelcontextprotocol/ui":{"mimeTypes":["text/html;profile=mcp-app"]}}}`, "tools/list", "")
	sendAs(s, `{}`, "tools/list", "")
	// Output:
	// {"tools":[{"name":"show_weather","inputSchema":{"type":"object","properties":{},"additionalProperties":false},"outputSchema":{"type":"object","properties":{"sky":{"type":"string"}},"required":["sky"],"additionalProperties":false},"_meta":{"ui":{"resourceUri":"ui://weather/today"}}}]}
	// {"tools":[]}
}

// page is told the result of the tool, once it has introduced itself to the host.
const page = `<!doctype html><title>Weather</title><p id="sky"></p><script>
const tell = m => parent.postMessage({jsonrpc: "2.0", ...m}, "*")
addEventListener("message", ({data}) => {
	if (data.id === 1) tell({method: "ui/notifications/initialized"})
	if (data.method === "ui/notifications/tool-result") sky.textContent = data.params.structuredContent.sky
})
tell({id: 1, method: "ui/initialize", params: {protocolVersion: "2026-01-26", appInfo: {name: "weather", version: "1.0.0"}, appCapabilities: {}}})
</script>`

// A URI with a variable is a template for many resources.
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

	send(s, "resources/read", `,"uri":"note://1"`)
	send(s, "resources/read", `,"uri":"note://2"`)
	// Output:
	// {"contents":[{"uri":"note://1","mimeType":"text/plain","text":"Buy milk."}]}
	// {"code":-32002,"message":"Resource not found","data":{"uri":"note://2"}}
}

// An argument can suggest its values while the user types.
func ExampleServer_AddPrompt() {
	s := &mcp.Server{Name: "reviews", Version: "1.0.0"}
	s.AddPrompt(mcp.Prompt{
		Name: "review",
		Arguments: []mcp.Argument{{Name: "language", Required: true,
			Complete: func(ctx context.Context, typed string, known map[string]string) ([]string, error) {
				var fit []string
				for _, name := range []string{"Go", "Groovy", "Rust"} {
					if strings.HasPrefix(name, typed) {
						fit = append(fit, name)
					}
				}
				return fit, nil
			}}},
	}, func(ctx context.Context, args map[string]string) ([]mcp.Message, error) {
		return []mcp.Message{{Content: mcp.Text("Please review my " + args["language"] + " code.")}}, nil
	})

	send(s, "completion/complete", `,"ref":{"type":"ref/prompt","name":"review"},"argument":{"name":"language","value":"G"}`)
	send(s, "prompts/get", `,"name":"review","arguments":{"language":"Go"}`)
	// Output:
	// {"completion":{"values":["Go","Groovy"],"total":2,"hasMore":false}}
	// {"messages":[{"role":"user","content":{"type":"text","text":"Please review my Go code."}}]}
}

// The context ties a log message to the request of the client that is to see it.
func ExampleLogHandler() {
	logger := slog.New(mcp.LogHandler("fetcher"))
	s := &mcp.Server{Name: "web", Version: "1.0.0", Logging: true}
	mcp.AddTool(s, mcp.Tool{Name: "fetch"}, func(ctx context.Context, in struct {
		URL string `json:"url"`
	}) (string, error) {
		logger.InfoContext(ctx, "fetching", "url", in.URL)
		return "fetched", nil
	})

	call(s, "fetch", `{"url":"https://example.com"}`)
	// Output:
	// notifications/message {"level":"info","logger":"fetcher","data":{"msg":"fetching","url":"https://example.com"}}
	// {"content":[{"type":"text","text":"fetched"}]}
}

// call is the host of these examples: it calls one tool in a session of its
// own, answers what it is asked, and prints what the server has to say of the
// call.
func call(s *mcp.Server, tool, arguments string) {
	send(s, "tools/call", fmt.Sprintf(`,"name":%q,"arguments":%s`, tool, arguments))
}

// send is call for any method.
func send(s *mcp.Server, method, params string) {
	sendAs(s, `{"roots":{},"elicitation":{}}`, method, params)
}

// sendAs is send for a host of these capabilities.
func sendAs(s *mcp.Server, capabilities, method, params string) {
	host, conn := net.Pipe()
	done := make(chan error)
	go func() { done <- s.Serve(context.Background(), conn, conn) }()

	fmt.Fprintln(host, `{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":`+capabilities+`,"clientInfo":{"name":"host","version":"1"}}}`)
	fmt.Fprintln(host, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	if s.Logging {
		fmt.Fprintln(host, `{"jsonrpc":"2.0","id":"level","method":"logging/setLevel","params":{"level":"info"}}`)
	}
	fmt.Fprintf(host, `{"jsonrpc":"2.0","id":"call","method":%q,"params":{"_meta":{"progressToken":"p"}%s}}`+"\n", method, params)

	lines := json.NewDecoder(host)
	for over := false; !over; {
		var m struct {
			ID                    any
			Method                string
			Params, Result, Error json.RawMessage
		}
		if err := lines.Decode(&m); err != nil {
			fmt.Println(err)
			break
		}
		switch {
		case m.Method == "roots/list":
			fmt.Fprintf(host, `{"jsonrpc":"2.0","id":%v,"result":{"roots":[{"uri":"file:///home/ann/website"},{"uri":"file:///home/ann/api"}]}}`+"\n", m.ID)
		case m.Method == "elicitation/create":
			var question struct{ Message string }
			json.Unmarshal(m.Params, &question)
			fmt.Println("the user is asked:", question.Message)
			fmt.Fprintf(host, `{"jsonrpc":"2.0","id":%v,"result":{"action":"accept","content":{"sure":true}}}`+"\n", m.ID)
		case m.Method != "":
			fmt.Println(m.Method, string(m.Params))
		case m.ID == "call":
			fmt.Println(string(m.Result) + string(m.Error))
			over = true
		}
	}
	host.Close()
	if err := <-done; err != nil {
		fmt.Println(err)
	}
}
