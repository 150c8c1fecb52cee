// SPDX-License-Identifier: MIT
// Version 3.0.0, 2026-11-23

// Package mcp is a Model Context Protocol server over stdin and stdout. It consists of three
// files, which are copied into a program. It needs Go 1.25 and only the standard library.
//
// This is a complete server:
//
//	package main
//
//	import (
//		"context"
//		"log"
//
//		"yourmodule/internal/mcp"
//	)
//
//	type greetIn struct {
//		Name string `json:"name" jsonschema:"whom to greet"`
//	}
//
//	func greet(ctx context.Context, in greetIn) (string, error) {
//		return "Hello, " + in.Name + "!", nil
//	}
//
//	func main() {
//		s := &mcp.Server{Name: "greeter", Version: "1.0.0"}
//		mcp.AddTool(s, mcp.Tool{Name: "greet", Description: "Greets a person."}, greet)
//		if err := s.ServeStdio(context.Background()); err != nil {
//			log.Fatal(err)
//		}
//	}
//
// # Tools
//
// A tool is an ordinary function. [AddTool] derives the schema of its arguments from the type
// of its parameter, a struct or a map, and checks the arguments before it calls the function.
// Arguments that are missing, unknown, of a wrong type or out of range are reported to the
// model together, in one line.
//
// Because models mix up types, "5" is accepted for a number, "true" for a boolean, a string for
// a list of strings, and a JSON string for the list or object that it holds. No value is
// converted to a string. A null for an argument that is not required is treated as absent; the
// field then takes its default. The argument wait_for_previous, which Gemini CLI sends with
// every tool, is dropped unless the tool has an argument of that name.
//
// A [time.Duration] is a number of nanoseconds, which models get wrong. Take a number of
// seconds instead, or a string for [time.ParseDuration].
//
// If [Tool.InputSchema] is set, it is sent in place of a derived schema, and tags of the
// parameter's type do not count. The parameter may be any type that the schema fits, such as
// map[string]any, or a [json.RawMessage], which holds the checked and converted arguments;
// [RequestFrom] has them as the client sent them. These keywords are enforced:
//
//	type, enum, const, properties, required, additionalProperties, items, format,
//	minimum, maximum, minLength, maxLength, minItems, maxItems; default is filled in
//
// These are not enforced, and are reported to [Server.ErrorLog], like all others that restrict
// a value:
//
//	$ref, anyOf, oneOf, allOf, not, if, pattern, patternProperties, prefixItems and the items
//	beside it, uniqueItems, multipleOf, exclusiveMinimum, exclusiveMaximum
//
// Handlers run concurrently: guard what they share. With a single session, as under
// [Server.ServeStdio], you may set [Server.MaxConcurrent] to 1 instead. A handler that calls
// [runtime.LockOSThread] must unlock before it returns.
//
// Describe what a tool does with [ToolAnnotations]. If no user can be asked, hosts such as
// Codex refuse every tool that does not declare ReadOnlyHint Yes, or DestructiveHint No and
// OpenWorldHint No.
//
// Resources, added by [Server.AddResource], are what clients can read. Prompts, added by
// [Server.AddPrompt], are messages that users can start from.
//
// # Results
//
// The type that a tool's function returns decides how its result is sent:
//
//	string               a text
//	Content, []Content   blocks, such as texts and images
//	*Result              all parts of a result
//	struct{}             nothing
//	any                  the value that it holds decides, in each call
//	any other type       structured output, together with the same JSON as a text
//
// If [Tool.OutputSchema] is nil and the type is a struct or a map that can be described, the
// output schema is derived from it. A pointer has no derived schema: nil is sent as an empty
// result. If the client's revision requires an object, any other output is sent only as text.
//
// In structured output nil slices and maps are sent as empty ones, and a nil pointer in a
// struct is left out. A nil pointer in a list or a map fails the call.
//
// An error is a result that the model can read, with exactly the error's text. An [*Error], or
// an error that wraps one, is for the host: it fails the request. If a function returns the
// error of its context, the text is that of the context's cause.
//
// # In a handler
//
// These functions take the handler's context, or one that is derived from it. [Progress]
// reports progress, a logger with [Server.LogHandler] logs to the client, and [RequestFrom]
// returns the request, with the name and the capabilities of the client. [Confirm], [Elicit],
// [ElicitSchema] and [ElicitURL] ask the user, and [Ask] asks the client. A handler is written
// in the same way for all revisions of the protocol.
//
// Outside of a handler, as in a test that calls one, no progress and no log messages are sent,
// RequestFrom returns a zero [Request], and a question returns an error that is
// [errors.ErrUnsupported].
//
// # Asking the user
//
// A handler asks with one call. If the call returns an error, return that error:
//
//	if err := mcp.Confirm(ctx, "Delete a.txt?"); err != nil {
//		return "", err // or wrapped with %w
//	}
//
// If the client cannot be asked, the error is [errors.ErrUnsupported], and its text says what
// is missing. How a question is sent depends on the revision:
//
// A client of an older revision is sent a request, and the call blocks until the client has
// responded. It also returns when ctx, the request or the session ends; the error is then
// [context.Cause] or [ErrClosed].
//
// In revision 2026-07-28 a question travels in the result of the handler's own request. The
// call returns an error that is [ErrInputRequired], and the handler returns that error. The
// client asks its user and repeats the request together with the answer. The handler runs
// again from its top, and the same call now returns the answer at once. Code before a question
// therefore runs more than once: put side effects after the last question. The server keeps
// nothing between rounds. To ask several questions in one round, ask all of them and return
// [errors.Join] of the errors.
//
// Each answer is used once, for the question that the user saw. A changed message is a new
// question, so put no time and no random text into it. Each time the handler runs, it must ask
// the same questions again; if no answer matches a question in three rounds in a row, the call
// fails. If it does not return the error of a question, the question is lost; the call then
// fails and says so.
//
// # Cancellation
//
// A handler's context ends when the client cancels the request or goes away, and when the
// session ends. [context.Cause] returns the reason:
//
//   - a [*CancelledError] if the client cancelled the request;
//   - [ErrClosed] if the client closed the connection;
//   - the error of a Read or Write that failed;
//   - the cause of the context that was passed to [Server.Serve], if that ended;
//   - under [Server.ServeStdio], after a signal, an error that names the signal.
//
// For the first two, errors.Is(cause, [context.Canceled]) is true. A command that was killed
// because the context ended returns an [*exec.ExitError]: test ctx.Err() after it.
//
// When the session ends, handlers have [Server.Drain] to clean up and return.
//
// # Revisions
//
// Five revisions of the protocol are served. A client of 2024-11-05 to 2025-11-25 opens a
// session with initialize; the code calls these revisions the legacy era. In 2026-07-28, the
// modern era, there is no session, and each request names its revision. One connection may
// carry both.
package mcp

import (
	"bytes"
	"cmp"
	"context"
	"encoding"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"iter"
	"log"
	"log/slog"
	"maps"
	"math"
	"math/bits"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// A Server is what a program offers to clients. Set its fields before it serves, and do not
// change them afterwards. Tools, resources, prompts and methods may be added and removed at
// any time. A Server must not be copied.
type Server struct {
	Name    string // required: the name for programs
	Version string // required

	Title        string // the name for people
	Instructions string // for the model: how to use the tools together
	WebsiteURL   string
	Icons        []Icon

	// Linger is how long handlers may continue after the client has closed its end, before
	// they are cancelled. 0 means that they are cancelled at once: set it if work should
	// finish. Their questions to the client fail at once in any case.
	Linger time.Duration

	// Drain is how long Serve waits, after the handlers were cancelled, for them to return
	// and for the client to read what is written. 0 means one second, unlike in package
	// os/exec. If the client has not read everything by then, Serve waits up to 100 ms longer.
	Drain time.Duration

	// MaxConcurrent is how many handlers of one session run at the same time. Further
	// requests wait and start in the order of their arrival; their number is not bounded.
	// 0 means no limit.
	MaxConcurrent int

	// MaxMessage is the number of bytes that a line from the client may have. A line is one
	// message or a batch. A longer line is refused and not kept in memory. 0 means 64 MiB.
	MaxMessage int

	// CacheTTL is how long a client of revision 2026-07-28 may cache lists and the result of
	// server/discover. Set CachePublic if all users may share them. The contents of resources
	// are never cached.
	CacheTTL    time.Duration
	CachePublic bool

	// Extensions are declared to clients of every revision, by name. Each value must be a JSON
	// object, such as struct{}{}. [Server.AddMethod] serves the methods of an extension.
	Extensions map[string]any

	// Signals are the signals that end ServeStdio. nil means SIGINT, SIGTERM and SIGHUP. A
	// signal that was ignored when the process started stays ignored.
	Signals []os.Signal

	// ErrorLog receives the library's diagnostics: invalid messages, panics of handlers,
	// requests that the client has cancelled. nil means the standard logger of package log.
	// At most 100 diagnostics of one session wait to be logged; further ones are dropped.
	ErrorLog *log.Logger

	mu          sync.Mutex              // guards the fields below
	items       [kinds]map[string]*item // by name
	lists       [kinds][]*item          // the result of listInOrder; nil after a change
	lastChanges [kinds + 1]int          // the number of the last change of each list, and of any list
	offered     kindSet                 // the kinds of which an item was added, and logging if there is a LogHandler; never cleared
	sessions    map[*session]struct{}
	schemas     map[reflect.Type]*schema // of arguments
	methods     map[string]*service      // of AddMethod
	seed        maphash.Seed             // of the checksums of requestStates; made with the first session
}

// An Icon is a picture. Src is an https, http or data URI; Sizes holds values such as "48x48"
// or "any"; Theme is "light" or "dark".
type Icon struct {
	Src      string   `json:"src"`
	MIMEType string   `json:"mimeType,omitempty"`
	Sizes    []string `json:"sizes,omitempty"`
	Theme    string   `json:"theme,omitempty"`
}

// A Tool describes a tool to people and models.
//
// Names of at most 40 bytes are recommended: hosts put the name of the server
// in front, and the models' providers take 64 bytes in all. Put into the
// description what the model must know, defaults and bounds too: some hosts
// drop what the schema says of them.
type Tool struct {
	Name         string          `json:"name"`                   // required: 1 to 128 of A-Z a-z 0-9 _ - .
	Title        string          `json:"title,omitempty"`        // for people
	Description  string          `json:"description,omitempty"`  // for the model
	InputSchema  json.RawMessage `json:"inputSchema,omitempty"`  // nil: derived from the handler's parameter; else see AddTool
	OutputSchema json.RawMessage `json:"outputSchema,omitempty"` // nil: derived if the handler returns a struct or a map
	Annotations  ToolAnnotations `json:"annotations,omitzero"`
	Icons        []Icon          `json:"icons,omitempty"`
	Meta         map[string]any  `json:"_meta,omitempty"`

	// Shown reports whether the tool exists for the client whose request is served under ctx;
	// nil means that it exists for all. For other clients the tool is left out of lists, and
	// calls to it fail as unknown. [RequestFrom] and the values of Serve's context are
	// available from ctx. Shown is called for each list and each call, concurrently. If a tool
	// has Shown, listing tools counts as a call for [Server.MaxConcurrent], and lists of tools
	// are not cached. When the result of Shown changes, add the tool again, which notifies the
	// clients.
	Shown func(ctx context.Context) bool `json:"-"`
}

// ToolAnnotations are hints on what a tool does. Hosts use them, for example, to decide whether
// to ask the user first. If no user can be asked, Codex and some other hosts refuse a tool that
// has neither ReadOnlyHint Yes, nor DestructiveHint No with OpenWorldHint No.
type ToolAnnotations struct {
	Title           string `json:"title,omitempty"`
	ReadOnlyHint    Hint   `json:"readOnlyHint,omitempty"`    // changes nothing; hosts assume No
	DestructiveHint Hint   `json:"destructiveHint,omitempty"` // may undo or delete; hosts assume Yes
	IdempotentHint  Hint   `json:"idempotentHint,omitempty"`  // two calls have the effect of one; hosts assume No
	OpenWorldHint   Hint   `json:"openWorldHint,omitempty"`   // deals with the outside world; hosts assume Yes
}

// A Hint is Yes, No, or, if it is zero, not given.
type Hint uint8

const (
	Yes Hint = iota + 1
	No
)

// MarshalJSON returns true for Yes, and false otherwise.
func (h Hint) MarshalJSON() ([]byte, error) { return strconv.AppendBool(nil, h == Yes), nil }

// A Result is the complete result of a tool.
type Result struct {
	Content           []Content      `json:"content"`
	StructuredContent any            `json:"structuredContent,omitempty"` // marshalled as JSON; nil: none, which is an error if the tool has an OutputSchema
	IsError           bool           `json:"isError,omitempty"`           // the model sees that the call failed
	Meta              map[string]any `json:"_meta,omitempty"`
}

// A Content is one block of a result. [Text], [Image], [Audio], [ResourceLink] and
// [EmbeddedResource] make one. Type says which fields are sent:
//
//	"text" or ""       Text
//	"image", "audio"   Data and MIMEType, which are required
//	"resource_link"    Link
//	"resource"         Resource
//
// Annotations and Meta are sent with each Type. A client whose revision does not know audio or
// links receives a text in their place.
type Content struct {
	Type        string
	Text        string
	Data        []byte // the file's bytes
	MIMEType    string
	Link        *Resource
	Resource    *ResourceContents
	Annotations Annotations
	Meta        map[string]any
}

// MarshalJSON returns the block as the newest revision of the protocol has it.
func (c Content) MarshalJSON() ([]byte, error) {
	b, err := c.appendBlock(nil)
	return closeWith(b), err
}

// Text returns a block of text.
func Text(s string) Content { return Content{Type: "text", Text: s} }

// Image returns a picture. Data is the file's bytes.
func Image(data []byte, mimeType string) Content {
	return Content{Type: "image", Data: data, MIMEType: mimeType}
}

// Audio returns a recording. Data is the file's bytes.
func Audio(data []byte, mimeType string) Content {
	return Content{Type: "audio", Data: data, MIMEType: mimeType}
}

// ResourceLink returns a link to a resource that the client may read.
func ResourceLink(r Resource) Content { return Content{Type: "resource_link", Link: &r} }

// EmbeddedResource returns a block with the contents of a resource.
func EmbeddedResource(r ResourceContents) Content { return Content{Type: "resource", Resource: &r} }

// A Resource describes something that clients can read. If the URI has variables in braces,
// it is a template, which describes a family of resources.
type Resource struct {
	URI         string         `json:"uri,omitempty"` // required: "file:///notes.txt", "note://{id}", "file:///{+path}"; see AddResource
	Name        string         `json:"name"`          // required
	Title       string         `json:"title,omitempty"`
	Description string         `json:"description,omitempty"`
	MIMEType    string         `json:"mimeType,omitempty"`
	Size        int64          `json:"size,omitempty"` // in bytes
	Annotations Annotations    `json:"annotations,omitzero"`
	Icons       []Icon         `json:"icons,omitempty"`
	Meta        map[string]any `json:"_meta,omitempty"`

	// Complete suggests values for the variables of a template, by name.
	Complete map[string]CompleteFunc `json:"-"`
}

// A template is a Resource with variables, as it is listed.
type template struct {
	URITemplate string `json:"uriTemplate"`
	Resource           // without URI and Size
}

// ResourceContents is the result of reading a resource: Blob if that is not nil, and Text
// otherwise. An empty URI is replaced by the URI that was read, and an empty MIMEType by that
// of the [Resource].
type ResourceContents struct {
	URI      string
	MIMEType string
	Text     string
	Blob     []byte
	Meta     map[string]any
}

// MarshalJSON returns the contents as the newest revision of the protocol has them.
func (r ResourceContents) MarshalJSON() ([]byte, error) {
	b, err := r.appendContents(nil)
	return closeWith(b), err
}

// A ReadFunc reads a resource. Vars holds the values of a template's variables, percent-decoded
// and never empty. A value never contains a segment "." or "..", and that of {name} never a
// slash. The value of {+name} may begin with a slash: use [os.Root] to confine it to a
// directory. An error that is [fs.ErrNotExist] means that the resource does not exist. The text
// of any other error is sent to the client.
type ReadFunc func(ctx context.Context, uri string, vars map[string]string) ([]ResourceContents, error)

// A CompleteFunc suggests values that begin with, or resemble, what was typed so far, the best
// first. At most 100 are sent. The map known holds the other arguments that have a value
// already. Both parameters come from the client and are not checked: unlike the variables of a
// ReadFunc, they may hold slashes and "..". The text of an error is sent to the client.
type CompleteFunc func(ctx context.Context, typed string, known map[string]string) ([]string, error)

// A Prompt is one or more messages that a user may start from.
type Prompt struct {
	Name        string         `json:"name"` // required
	Title       string         `json:"title,omitempty"`
	Description string         `json:"description,omitempty"`
	Arguments   []Argument     `json:"arguments,omitempty"`
	Icons       []Icon         `json:"icons,omitempty"`
	Meta        map[string]any `json:"_meta,omitempty"`
}

// An Argument is a field of a Prompt that the user fills in.
type Argument struct {
	Name        string       `json:"name"` // required
	Title       string       `json:"title,omitempty"`
	Description string       `json:"description,omitempty"`
	Required    bool         `json:"required,omitempty"`
	Complete    CompleteFunc `json:"-"` // suggests values; may be nil
}

// A Message is one turn of a conversation.
type Message struct {
	Role    Role    `json:"role"` // "" is RoleUser
	Content Content `json:"content"`
}

// A Role is a side of a conversation.
type Role string

const (
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant" // the model
)

// A PromptFunc returns the messages of a prompt. Args holds all required arguments, and
// only arguments of the prompt. The text of an error is sent to the client.
type PromptFunc func(ctx context.Context, args map[string]string) ([]Message, error)

// Annotations say for whom something is meant and how important it is. What is zero is not sent.
type Annotations struct {
	Audience     []Role    `json:"audience,omitempty"`
	Priority     float64   `json:"priority,omitempty"` // up to 1, the most important; 0, the least, cannot be sent
	LastModified time.Time `json:"lastModified,omitzero"`
}

// An Error that a handler returns becomes an error response: the call itself was wrong. Any
// other error of a tool becomes a result, which the model reads and can act on.
type Error struct {
	Code    int    `json:"code"` // choose one outside of -32768 to -32000; 0 is sent as -32603
	Message string `json:"message"`
	Data    any    `json:"data,omitempty"` // marshalled as JSON; nil: none
}

func (e *Error) Error() string {
	if e == nil {
		return "mcp: a nil *Error was returned as an error"
	}
	return e.Message
}

// Is reports whether target is [errors.ErrUnsupported] and e says that the client cannot be
// asked.
func (e *Error) Is(target error) bool {
	return e != nil && e.Code == codeCapability && target == errors.ErrUnsupported
}

// ---- tools ----

// AddTool adds a tool, or replaces the tool of the same name. The arguments of a call are checked
// before h runs, and are set in an In; "Tools" and "Results" in the package comment describe
// arguments, results and errors. In is a struct, or a map with string keys, unless
// t.InputSchema is set.
//
// AddTool panics, before it changes anything, if h is nil, or if a name, a type, a tag or a
// field of t is one that clients or providers would refuse. The message says what to write
// instead. Names that some hosts refuse, of more than 64 bytes or with a dot, are reported to
// ErrorLog, and so is a second tool of one name before the first session. The caller may change
// t's slices and maps afterwards.
//
// AddTool may be called at any time, also by a handler, and notifies connected clients. A client
// that connected before the first tool was added is not notified, because the capability tools
// was not declared to it. The same holds for resources and prompts.
func AddTool[In, Out any](s *Server, t Tool, h func(context.Context, In) (Out, error)) {
	s.addTool(&t, reflect.TypeFor[In](), reflect.TypeFor[Out](), h != nil, func(r *request, in *rules, out *schema) []byte {
		var call struct { // one allocation for both, because their addresses are taken
			in  In
			out Out
		}
		err := in.unmarshal(r.arguments, &call.in)
		if err != nil {
			return r.textResponse("Invalid arguments: "+err.Error(), nil, true)
		}
		if call.out, err = h(r.ctx, call.in); err != nil {
			return r.failureResponse(err)
		}
		return r.toolResponse(&call.out, out)
	})
}

// addTool is the part of AddTool that does not depend on the types In and Out.
func (s *Server) addTool(t *Tool, from, to reflect.Type, hasHandler bool, call func(r *request, in *rules, out *schema) []byte) {
	where := fmt.Sprintf("mcp: tool %q", t.Name)
	panicUnless(hasHandler, where, "the handler is missing")
	checkTool(where, t)
	in := s.inputRules(t, from, where)
	out := outputSchema(t, to, where+": Out")
	s.addItem(tools, &item{
		name:    t.Name,
		encoded: encodeItem(where, t),
		shown:   t.Shown,
		handler: func(r *request) []byte {
			switch {
			case t.Shown != nil && !t.Shown(r.ctx):
				return r.errorResponse(r.unknownItem())
			case r.arguments != nil && r.arguments[0] != '{':
				return r.errorResponse(badParams("arguments must be an object"))
			}
			return call(r, in, out)
		},
		promises:  t.OutputSchema != nil,
		anyOutput: t.OutputSchema != nil && rootType(t.OutputSchema) != "object",
	})
	if len(t.Name) > 64 || strings.IndexByte(t.Name, '.') >= 0 {
		s.logf("%s: some hosts refuse names of more than 64 bytes, or with a dot", where)
	}
	if in.byHand != nil && (!in.byHand.listed || in.byHand.lacksItems()) {
		s.logf("%s: InputSchema should have properties, at least {}, no allOf, anyOf or oneOf, and items in each array: some providers refuse every request otherwise", where)
	}
}

// inputRules returns the rules for the arguments of a tool, and sets its InputSchema if
// there is none.
func (s *Server) inputRules(t *Tool, from reflect.Type, where string) *rules {
	in := &rules{}
	if t.InputSchema == nil {
		in.schema = s.inputSchema(from, where)
		t.InputSchema = in.schema.sentAs
		return in
	}
	var wrong problems
	in.schema, wrong = derive(from, where+": In", reading)
	panicIf(wrong.mistake)
	panicUnless(in.schema.kind == "object" || in.schema.kind == "", where, "In must be a struct or a map")
	in.byHand = handParser{where: where + ": InputSchema"}.parse(t.InputSchema).schema
	in.byHand.checkFit(in.schema, where+": InputSchema")
	in.byHand.checkNames(where)
	return in
}

// checkNames panics if providers would refuse the name of an argument.
func (s *schema) checkNames(where string) {
	for _, f := range s.fields {
		panicUnless(consistsOf(f.name, "_.-") && 0 < len(f.name) && len(f.name) <= 64, where,
			"the argument name %q must have 1 to 64 of A-Z a-z 0-9 _ . -, or some providers refuse the whole request", f.name)
	}
}

// inputSchema describes the arguments of a tool, once for each type.
func (s *Server) inputSchema(t reflect.Type, where string) *schema {
	s.mu.Lock()
	known := s.schemas[t]
	s.mu.Unlock()
	if known != nil {
		return known
	}
	known = mustDerive(t, where+": In", reading)
	panicUnless(known.kind == "object", where, "In must be a struct or a map")
	known.checkNames(where)
	known.sentAs = known.render()
	s.mu.Lock()
	if s.schemas == nil {
		s.schemas = make(map[reflect.Type]*schema)
	}
	s.schemas[t] = known
	s.mu.Unlock()
	return known
}

// outputSchema describes the results of a tool. It sets OutputSchema if that is nil and one
// can be derived.
func outputSchema(t *Tool, to reflect.Type, where string) *schema {
	switch to {
	case reflect.TypeFor[string](), reflect.TypeFor[Content](), reflect.TypeFor[[]Content](), reflect.TypeFor[*Result](), reflect.TypeFor[struct{}]():
		panicUnless(t.OutputSchema == nil || to == reflect.TypeFor[*Result](), where, "OutputSchema promises structured output, but this type has none")
		return nil
	}
	base := to
	for depth := 0; depth < 10 && (base.Kind() == reflect.Pointer || base.Kind() == reflect.Slice); depth++ { // it may be a list of itself
		base = base.Elem()
	}
	panicUnless(base != reflect.TypeFor[Result]() && base != reflect.TypeFor[Content](), where, "write *mcp.Result, mcp.Content or []mcp.Content instead of %v", to)
	s, wrong := derive(to, where, writing)
	panicIf(wrong.mistake)
	if t.OutputSchema == nil && (to.Kind() == reflect.Struct || to.Kind() == reflect.Map) {
		panicIf(wrong.badTag)
		if wrong.undescribed == nil && s.kind == "object" {
			t.OutputSchema = s.render()
		}
	}
	return s
}

// checkTool panics if the name or a schema of t is invalid.
func checkTool(where string, t *Tool) {
	panicUnless(consistsOf(t.Name, "_-."), where, "the name must be made of A-Z, a-z, 0-9, _, - and .")
	panicUnless(len(t.Name) > 0 && len(t.Name) <= 128, where, "the name must have 1 to 128 bytes")
	t.InputSchema = compactSchema(where+": InputSchema", t.InputSchema)
	t.OutputSchema = compactSchema(where+": OutputSchema", t.OutputSchema)
	panicUnless(t.InputSchema == nil || rootType(t.InputSchema) == "object", where, `InputSchema must have "type": "object"`)
}

// compactSchema returns a schema in one line. It panics if clients would refuse it.
func compactSchema(where string, schema json.RawMessage) json.RawMessage {
	if schema == nil {
		return nil
	}
	compact, err := appendCompact(nil, schema)
	if err != nil {
		panic(where + " is " + err.Error())
	}
	handParser{where: where}.parse(compact)
	return compact
}

// rootType returns the type in the root of a schema, or "" if there is none or more than one.
func rootType(schema []byte) string {
	typ, _ := unquote(member(schema, "type"))
	return typ
}

// RemoveTools removes the tools of these names and notifies connected clients. Names that do
// not exist are ignored. Calls in progress continue.
func (s *Server) RemoveTools(names ...string) { s.removeItems(tools, names) }

// ---- resources ----
//
// A URI comes from a client and often names a file. So a template is checked when it is
// added, and the values of its variables are checked before a ReadFunc receives them: no
// value forms a segment "..", and only that of {+name} may have slashes.

// AddResource adds a resource or a template, or replaces the one of the same URI, and notifies
// connected clients. The URI of a request is looked up among the resources, and then, if it has
// at most 64 KiB, matched with the templates in the order in which they were added.
//
// {name} matches one segment of a path, {+name} anything. A brace in the name of a file must
// be escaped, and so must blanks and any other character that RFC 3986 does not allow. This
// returns the URI of a file:
//
//	(&url.URL{Scheme: "file", Path: path}).String()
//
// AddResource panics, before it changes anything, if the URI is invalid or has no scheme, if
// the name or read is missing, or if another field is invalid.
func (s *Server) AddResource(r Resource, read ReadFunc) {
	where := fmt.Sprintf("mcp: resource %q", r.URI)
	parts, variables, err := parseTemplate(r.URI)
	panicAt(where, err)
	panicUnless(read != nil, where, "the ReadFunc is missing")
	panicUnless(r.Name != "", where, "the name is missing")
	panicUnless(r.Size >= 0, where, "Size is negative")
	for name := range r.Complete {
		panicUnless(slices.Contains(variables, name), where, "there is no variable %q to complete", name)
	}
	r.Complete = maps.Clone(r.Complete)
	k, name, public := resources, r.URI, any(r)
	if len(parts) > 1 {
		r.URI, r.Size = "", 0
		k, public = templates, template{name, r}
	}
	s.addItem(k, &item{
		name:    name,
		encoded: encodeItem(where, public),
		match:   func(uri string) (map[string]string, bool) { return matchTemplate(parts, uri) },
		handler: func(q *request) []byte {
			contents, err := read(q.ctx, q.name, q.vars)
			return q.readResponse(contents, err, r.MIMEType)
		},
		args:     variables,
		complete: r.Complete,
	})
}

// panicUnless panics unless ok is true.
func panicUnless(ok bool, where, format string, args ...any) {
	if !ok {
		panicAt(where, fmt.Errorf(format, args...))
	}
}

// panicIf panics if there is an error.
func panicIf(err error) {
	if err != nil {
		panic(err.Error())
	}
}

// panicAt panics if there is an error, and says where.
func panicAt(where string, err error) {
	if err != nil {
		panicIf(fmt.Errorf("%s: %w", where, err))
	}
}

// encodeItem returns a Tool, Resource, template or Prompt as JSON, as it is listed. It panics
// if the Meta cannot be encoded.
func encodeItem(where string, public any) []byte {
	raw, err := new(schema).marshal(public)
	panicAt(where+": Meta", err)
	return raw
}

// RemoveResources removes the resources and templates of these URIs and notifies connected
// clients. URIs that do not exist are ignored.
func (s *Server) RemoveResources(uris ...string) {
	s.removeItems(resources, uris)
	s.removeItems(templates, uris)
}

// ResourceUpdated notifies the clients that have subscribed to the resource that it has
// changed. It does not wait for them.
func (s *Server) ResourceUpdated(uri string) {
	for _, c := range s.openSessions() {
		c.sendUpdated(uri)
	}
}

// parseTemplate splits a URI template. The elements of parts are a literal, a variable,
// a literal and so on; a variable keeps its +. names holds the variables without the +.
func parseTemplate(uri string) (parts, names []string, err error) {
	literal, rest, more := strings.Cut(uri, "{")
	if scheme, _, ok := strings.Cut(literal, ":"); !ok || !isScheme(scheme) {
		return nil, nil, errors.New(`a URI must begin with a scheme, such as "file:"`)
	}
	for more {
		variable, after, closed := strings.Cut(rest, "}")
		name := strings.TrimPrefix(variable, "+")
		switch {
		case !closed || name == "" || !consistsOf(name, "_"):
			return nil, nil, errors.New("a variable is written {name} or {+name}")
		case slices.Contains(names, name):
			return nil, nil, errors.New("duplicate variable")
		case len(names) > 0 && literal == "":
			return nil, nil, errors.New("two variables need text between them")
		}
		parts, names = append(parts, literal, variable), append(names, name)
		literal, rest, more = strings.Cut(after, "{")
	}
	parts = append(parts, literal)
	return parts, names, checkLiterals(parts)
}

// checkLiterals returns an error if the literal parts of a template, or a URI without
// variables, are not valid in a URI.
func checkLiterals(parts []string) error {
	var literals []string
	for i := 0; i < len(parts); i += 2 {
		decoded, ok := unescape(parts[i])
		if !ok || !consistsOf(parts[i], "%-._~:/?#[]@!$&'()*+,;=") {
			return errors.New("a URI must not have blanks, a single }, or other characters that RFC 3986 does not allow: " +
				"for a file, write (&url.URL{Scheme: \"file\", Path: path}).String()")
		}
		literals = append(literals, decoded)
	}
	if len(parts) > 1 && hasDotSegment(strings.Join(literals, "x")) { // x stands for the value of a variable
		return errors.New(`a template must not have "." or ".." between slashes: no URI would match it`)
	}
	return nil
}

// alphanumeric holds the letters and digits of ASCII.
const alphanumeric = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

// consistsOf reports whether s has only ASCII letters, digits and the bytes of others.
func consistsOf(s, others string) bool {
	return strings.Trim(s, alphanumeric+others) == ""
}

// isScheme reports whether s is the scheme of a URI.
func isScheme(s string) bool {
	return s != "" && s[0] > '9' && consistsOf(s, "+-.")
}

// hasDotSegment reports whether a segment of a URI is "." or "..". Segments end at
// slashes and at other characters that a program may treat as a slash.
func hasDotSegment(uri string) bool {
	if scheme, rest, ok := strings.Cut(uri, ":"); ok && isScheme(scheme) {
		uri = rest
	}
	for segment := range strings.FieldsFuncSeq(uri, func(r rune) bool { return strings.ContainsRune(`/\?#`, r) }) {
		if segment == "." || segment == ".." {
			return true
		}
	}
	return false
}

// matchTemplate reports whether uri matches the parts of a template, and returns the values of
// the variables. The first variable takes the shortest value that lets the template match, then
// the second, and so on. If one of these values is not allowed, uri does not match, even if a
// longer value would be allowed.
func matchTemplate(parts []string, uri string) (map[string]string, bool) {
	ends := make([]int, len(parts)/2)
	if !matchRest(parts, uri, 0, ends) {
		return nil, false
	}
	vars, at := make(map[string]string, len(ends)), 0
	for i, end := range ends {
		at += len(parts[2*i])
		value, ok := unescape(uri[at:end])
		name, reserved := strings.CutPrefix(parts[2*i+1], "+")
		if !ok || !isConfined(value, reserved) {
			return nil, false
		}
		vars[name], at = value, end
	}
	// A value that is harmless by itself may form a ".." with the literal next to it, so
	// the whole URI is checked too.
	decoded, _ := unescape(uri)
	return vars, !hasDotSegment(decoded)
}

// matchRest reports whether parts match uri[at:], and sets ends[i] to the index after the value
// of variable i. In "x:/1/b2", {a} of "x:/{a}/b{b}" ends after "1", and {b} after "2".
//
// ends[i] also records how far variable i was tried. A retry never starts further to the
// left, so it resumes there. Each index is tried once for each variable, and matching takes
// linear time.
func matchRest(parts []string, uri string, at int, ends []int) bool {
	if !strings.HasPrefix(uri[at:], parts[0]) {
		return false
	}
	if at += len(parts[0]); len(parts) == 1 {
		return at == len(uri)
	}
	for end := max(at, ends[0]) + 1; end <= len(uri); end++ {
		if parts[1][0] != '+' && strings.IndexByte("/?#", uri[end-1]) >= 0 {
			return false
		}
		ends[0] = end
		if strings.IndexByte(uri[max(0, end-2):end], '%') < 0 && matchRest(parts[2:], uri, end, ends[1:]) { // not inside of an escape
			return true
		}
	}
	return false
}

// unescape decodes the escapes of a part of a URI.
func unescape(s string) (string, bool) {
	plain, rest, more := strings.Cut(s, "%")
	b := []byte(plain)
	for more {
		n, err := strconv.ParseUint(rest[:min(2, len(rest))], 16, 8)
		if err != nil || len(rest) < 2 {
			return "", false
		}
		plain, rest, more = strings.Cut(rest[2:], "%")
		b = append(append(b, byte(n)), plain...)
	}
	return string(b), true
}

// isConfined reports whether a handler can put the value of a variable into a path without
// leaving the directory. A backslash is a separator on Windows, and a zero byte
// ends a name in C.
func isConfined(value string, reserved bool) bool {
	return utf8.ValidString(value) && !strings.Contains(value, "\x00") &&
		(reserved || !strings.ContainsAny(value, `/\`)) && !hasDotSegment("/"+value)
}

// ---- prompts ----
//
// The arguments of a prompt are strings that a user has typed. They have names
// and no schema, so they are checked here and not by the section on arguments.

// AddPrompt adds a prompt, or replaces the prompt of the same name, and notifies connected
// clients. It panics, before it changes anything, if get or a name is missing, if two
// arguments have the same name, or if another field is invalid.
func (s *Server) AddPrompt(p Prompt, get PromptFunc) {
	where := fmt.Sprintf("mcp: prompt %q", p.Name)
	panicUnless(p.Name != "", where, "a prompt needs a name")
	panicUnless(get != nil, where, "the PromptFunc is missing")
	complete := make(map[string]CompleteFunc)
	var names []string
	for _, a := range p.Arguments {
		panicUnless(a.Name != "" && !slices.Contains(names, a.Name), where, "an argument needs a unique name")
		if names = append(names, a.Name); a.Complete != nil {
			complete[a.Name] = a.Complete
		}
	}
	p.Arguments = slices.Clone(p.Arguments) // the caller may change them
	s.addItem(prompts, &item{
		name:    p.Name,
		encoded: encodeItem(where, p),
		handler: func(r *request) []byte {
			args, fault := p.readArguments(r)
			if fault != nil {
				return r.errorResponse(fault)
			}
			messages, err := get(r.ctx, args)
			return r.promptResponse(messages, err, p.Description)
		},
		args:     names,
		complete: complete,
	})
}

// readArguments returns the arguments of a request, or an error if one is missing or unknown. An
// unknown argument is refused so that a PromptFunc need not check for it.
func (p *Prompt) readArguments(r *request) (map[string]string, *Error) {
	params := struct {
		Arguments map[string]string `json:"arguments"`
	}{make(map[string]string)}
	if err := decode(r.params, &params); err != nil {
		return nil, badParams(err.Error())
	}
	for name := range params.Arguments {
		if !slices.Contains(r.item.args, name) {
			return nil, coded(codeParams, "Unknown argument: "+excerpt(name))
		}
	}
	for _, a := range p.Arguments {
		if _, there := params.Arguments[a.Name]; a.Required && !there {
			return nil, coded(codeParams, "Missing required argument: "+a.Name)
		}
	}
	return params.Arguments, nil
}

// RemovePrompts removes the prompts of these names and notifies connected clients. Names that
// do not exist are ignored.
func (s *Server) RemovePrompts(names ...string) { s.removeItems(prompts, names) }

// ---- what a server offers ----
//
// Tools, prompts, resources and templates are items of four kinds. They are found
// by their names, and listed in the order in which they came. Adding and removing
// is cheap, however many there are; the order is made when a client asks for a list.
// Server.mu guards the items, their order and their encoded forms. It is not held
// while users' code runs.

// A kind is one of the kinds of items that a server offers and lists.
type kind int

const (
	tools kind = iota
	prompts
	resources
	templates // part of resources, with a list of their own
	kinds
	completions = kinds // this and logging are declared to clients, but have no list
	logging     = kinds + 1
	nothing     = kinds + 2 // the kind of methods that are always served
)

// A kindSet holds, for each kind, whether it is in the set.
type kindSet [nothing]bool

// kindNames holds, for each kind, the member of a list result that holds the list.
var kindNames = [kinds]string{"tools", "prompts", "resources", "resourceTemplates"}

// changed returns the name of the notification that the list of k has changed.
func (k kind) changed() string { return kindNames[k.capability()] + "/list_changed" }

// capability returns the kind under which k and its changes are declared.
func (k kind) capability() kind {
	if k == templates {
		return resources
	}
	return k
}

// An item is a tool, a prompt, a resource or a template of a server. It is found by its name,
// which for a resource is the URI.
type item struct {
	name    string
	encoded []byte                     // as an element of a list
	seq     int                        // its place in the list: the number of the change that added it
	shown   func(context.Context) bool // Tool.Shown

	match   func(uri string) (vars map[string]string, ok bool) // of a template
	handler func(*request) []byte                              // returns the response, as a line

	promises  bool     // of a tool: it has an output schema
	anyOutput bool     // of a tool: the output schema is not that of an object
	args      []string // the arguments of a prompt, the variables of a template
	complete  map[string]CompleteFunc
}

// jsonOf returns m as JSON, or nil if m is empty.
func jsonOf(m map[string]any) ([]byte, error) {
	if len(m) == 0 {
		return nil, nil
	}
	return marshal(m)
}

// addItem adds an item, or replaces the item of the same name, and notifies the clients. A kind
// stays declared once an item of it was added, because clients ask for the capabilities only
// once.
func (s *Server) addItem(k kind, it *item) {
	s.mu.Lock()
	it.seq = s.changeLocked(k)
	old := s.items[k][it.name]
	copied := old != nil && k == tools && s.sessions == nil // a likely mistake before the first session, and later a change
	if old != nil {
		it.seq = old.seq
	}
	if s.items[k] == nil {
		s.items[k] = make(map[string]*item)
	}
	s.items[k][it.name] = it
	s.offered[k.capability()] = true
	s.offered[completions] = s.offered[completions] || len(it.complete) > 0
	s.mu.Unlock()
	if copied {
		s.logf("mcp: tool %q was added twice: the second replaces the first", it.name)
	}
	s.notifyChanged(k)
}

// removeItems removes the items of these names, and notifies the clients if there were any.
func (s *Server) removeItems(k kind, names []string) {
	removed := false
	s.mu.Lock()
	for _, name := range names {
		if s.items[k][name] != nil {
			delete(s.items[k], name)
			s.changeLocked(k)
			removed = true
		}
	}
	s.mu.Unlock()
	if removed {
		s.notifyChanged(k)
	}
}

// changeLocked records a change of the list of a kind, and returns its number. The caller must
// hold s.mu.
func (s *Server) changeLocked(k kind) int {
	s.lastChanges[kinds]++
	s.lists[k], s.lastChanges[k] = nil, s.lastChanges[kinds]
	return s.lastChanges[k]
}

// lastChange returns a number that every change of the list of a kind increases, or, for kinds,
// every change. It is never 0.
func (s *Server) lastChange(k kind) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return 1 + s.lastChanges[k]
}

// findItem returns the item of a name, or nil. If no resource has the name, findItem returns the first
// template that matches it, and the values of its variables. Very long names are not matched,
// because there may be many templates.
func (s *Server) findItem(k kind, name string) (*item, map[string]string) {
	s.mu.Lock()
	it := s.items[k][name]
	s.mu.Unlock()
	if it == nil && k.capability() == resources && len(name) <= maxMatched {
		list, _ := s.listInOrder(templates)
		for _, template := range list {
			if vars, ok := template.match(name); ok {
				return template, vars
			}
		}
	}
	return it, nil
}

// listInOrder returns the items of a kind in the order in which they were added, and
// the number that lastChange returns. A list that it has returned never changes: after a
// change it makes a new one.
func (s *Server) listInOrder(k kind) (list []*item, lastChange int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lists[k] == nil {
		s.lists[k] = slices.SortedFunc(maps.Values(s.items[k]), func(a, b *item) int { return a.seq - b.seq })
	}
	return s.lists[k], 1 + s.lastChanges[k]
}

// offeredKinds returns the kinds that are declared.
func (s *Server) offeredKinds() kindSet {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.offered
}

// addSession adds c to the sessions that are notified of changes.
func (s *Server) addSession(c *session) {
	s.mu.Lock()
	if s.sessions == nil {
		s.sessions = make(map[*session]struct{})
		s.seed = maphash.MakeSeed()
	}
	s.sessions[c] = struct{}{}
	s.mu.Unlock()
}

// removeSession removes c from the sessions that are notified of changes.
func (s *Server) removeSession(c *session) {
	s.mu.Lock()
	delete(s.sessions, c)
	s.mu.Unlock()
}

// notifyChanged notifies every client that a list has changed.
func (s *Server) notifyChanged(k kind) {
	for _, c := range s.openSessions() {
		c.sendListChanged(k.capability())
	}
}

// openSessions returns a copy of the sessions, to be used without the lock.
func (s *Server) openSessions() (open []*session) {
	s.mu.Lock()
	for c := range s.sessions {
		open = append(open, c)
	}
	s.mu.Unlock()
	return open
}

// logf reports a diagnostic that belongs to no session to ErrorLog.
func (s *Server) logf(format string, args ...any) {
	cmp.Or(s.ErrorLog, log.Default()).Printf(format, args...)
}

// ---- methods of extensions ----

// AddMethod adds a method of an extension, or replaces the one of the same name. Declare the
// extension in [Server.Extensions]. Clients of every revision may call it, a client of a legacy
// revision only after initialize. The handler gets the params as the client sent them, an object
// or nil. Its result is sent as the JSON object that it marshals to, and nil as {}. In revision
// 2026-07-28, resultType is added.
//
// An error of h is sent as the error of the request: an [*Error] as it is, any other with the code
// -32603. Handlers may use [Progress] and log. They may ask a client of a legacy revision, as
// [Elicit] does; in 2026-07-28 the error is [errors.ErrUnsupported].
//
// AddMethod may be called at any time. It panics if h is nil, and if the name is one of the
// protocol's own or begins with "notifications/".
func (s *Server) AddMethod(name string, h func(ctx context.Context, params json.RawMessage) (any, error)) {
	where := fmt.Sprintf("mcp: method %q", name)
	panicUnless(h != nil, where, "the handler is missing")
	panicUnless(name != "" && services[name] == nil && askFunctions[name] == "" && !strings.HasPrefix(name, "notifications/"), where, "the name is empty, or is reserved for the protocol")
	handler := func(r *request) []byte {
		result, err := h(r.ctx, slices.Clip(r.params))
		if err != nil {
			return r.failureResponse(err)
		}
		return r.methodResponse(result)
	}
	s.mu.Lock()
	if s.methods == nil {
		s.methods = make(map[string]*service)
	}
	s.methods[name] = &service{kind: nothing, serve: func(r *request) []byte {
		r.handler = handler
		return nil
	}}
	s.mu.Unlock()
}

// findMethod returns the service of a method, or unknownMethod.
func (s *Server) findMethod(name string) *service {
	s.mu.Lock()
	defer s.mu.Unlock()
	return cmp.Or(services[name], s.methods[name], unknownMethod)
}

// ---- functions for handlers ----

// requestKey is the key of the request in a handler's context.
type requestKey struct{}

// outside stands for the request in a context that is not a handler's. It has no client.
var outside = &request{rev: newestLegacy}

// requestOf returns the request that is served under ctx, or outside.
func requestOf(ctx context.Context) *request {
	r, _ := ctx.Value(requestKey{}).(*request)
	return cmp.Or(r, outside)
}

// A Request describes the request that a handler serves.
type Request struct {
	Method          string          // "tools/call", for example
	Name            string          // of the tool or prompt; the URI of a resource
	ID              json.RawMessage // as the client wrote it
	ProtocolVersion string          // the revision by which it is served
	ClientName      string          // may be empty in 2026-07-28
	ClientVersion   string
	Capabilities    json.RawMessage // of the client: an object
	Arguments       json.RawMessage // of a tool or prompt, as the client sent them; nil if there are none
	Meta            json.RawMessage // the request's _meta, an object; nil if there is none
}

// RequestFrom returns the request that is served under a handler's context, also after the
// request has ended. For any other context, as in a test that calls a handler, it is the zero
// Request. Its bytes belong to the library: do not change them.
//
// A handler's context, and each context that is derived from it, keeps the whole message of
// the request in memory, including the arguments. If work continues after the handler has
// returned, give it a new context and only the values that it needs.
func RequestFrom(ctx context.Context) Request {
	r := requestOf(ctx)
	if r == outside {
		return Request{}
	}
	name, version, _ := parseClientInfo(r.client)
	return Request{
		Method: string(r.method), Name: r.name, ID: slices.Clip(r.id), ProtocolVersion: r.rev.String(),
		ClientName: name, ClientVersion: version,
		Capabilities: slices.Clip(r.caps), Arguments: slices.Clip(r.arguments), Meta: slices.Clip(r.meta),
	}
}

// Progress reports to the client how far a handler has come: done, in any unit, of total. A
// total of 0 means that it is not known. The message is for people and may be empty.
//
// Many hosts give up on a call after a minute, but wait longer if it reports progress every
// few seconds.
//
// Progress does nothing if the client did not ask for progress, if done is not more than the
// last time, if the request has ended, or if ctx is not a handler's. It blocks until the
// notification is written or the request ends. It may be called concurrently.
//
// See https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/progress.
func Progress(ctx context.Context, done, total float64, message string) {
	r := requestOf(ctx)
	if r.token == nil || math.IsNaN(done) || math.IsInf(done, 0) {
		return
	}
	b := join(nil, `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":`, string(r.token), `,`)
	b = rawMember(b, "progress", strconv.AppendFloat(nil, done, 'g', -1, 64))
	if total > 0 && !math.IsInf(total, 0) {
		b = rawMember(b, "total", strconv.AppendFloat(nil, total, 'g', -1, 64))
	}
	b = optionalMember(b, "message", message)
	r.session.sendNotification(r, closeWith(b, `}}`), func() bool {
		if r.reported && done <= r.progress {
			return false
		}
		r.reported, r.progress = true, done
		return true
	})
}

// LogHandler returns a handler for package log/slog that sends log messages to the client, and
// declares the capability logging. Name is the name of the logger, and may be empty:
//
//	logger := slog.New(s.LogHandler("db"))
//
// A record is sent only if it has the context of a request's handler, so call InfoContext and
// not Info, and only if the client has asked for its level: with logging/setLevel or, in
// revision 2026-07-28, with a logLevel in the _meta of the request. Any other record is dropped
// without a word, and so is one that is logged after the handler has returned. So do not pass a
// LogHandler alone to [slog.SetDefault]: that would also drop what package log and this library
// report. Combine it with a handler for stderr, as the example does.
//
// Call LogHandler before the Server serves. A session that began before the first LogHandler
// gets no log messages, because logging was not declared to it.
//
// The data of a message is an object, as [slog.JSONHandler] writes it without time and level:
// the message as "msg", and the attributes. The levels are slog's, and those of the protocol
// between and above them: Info+2 is notice, Error+4 critical, Error+8 alert, Error+12 emergency.
//
// Logging blocks until the message is written or the request ends, so do not log while holding
// a contended lock. A LogHandler may be used concurrently. Logging is deprecated since revision
// 2026-07-28.
//
// See https://modelcontextprotocol.io/specification/2025-11-25/server/utilities/logging.
func (s *Server) LogHandler(name string) slog.Handler {
	s.mu.Lock()
	s.offered[logging] = true
	s.mu.Unlock()
	return &logHandler{name, func(h slog.Handler) slog.Handler { return h }}
}

// A logHandler formats each record with a slog.JSONHandler.
type logHandler struct {
	name string
	with func(slog.Handler) slog.Handler // gives a handler the attributes and groups of this one
}

func (h *logHandler) Enabled(ctx context.Context, level slog.Level) bool {
	r := requestOf(ctx)
	return r != outside && levelOf(level) >= r.session.logLevel(r)
}

func (h *logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &logHandler{h.name, func(in slog.Handler) slog.Handler { return h.with(in).WithAttrs(attrs) }}
}

func (h *logHandler) WithGroup(name string) slog.Handler {
	return &logHandler{h.name, func(in slog.Handler) slog.Handler { return h.with(in).WithGroup(name) }}
}

func (h *logHandler) Handle(ctx context.Context, record slog.Record) error {
	if !h.Enabled(ctx, record.Level) {
		return nil
	}
	var data bytes.Buffer
	record.Time = time.Time{} // so it is not written
	if err := h.with(slog.NewJSONHandler(&data, nil)).Handle(ctx, record); err != nil {
		return err
	}
	_, rest, _ := bytes.Cut(bytes.TrimSpace(data.Bytes()), []byte(",")) // without the level, which is the first member
	b := join(nil, `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"`, levels[levelOf(record.Level)], `",`)
	b = join(optionalMember(b, "logger", h.name), `"data":{`, string(singleLine(rest)), `}}`)
	r := requestOf(ctx)
	r.session.sendNotification(r, b, func() bool { return true })
	return nil
}

// levels holds the levels of log messages, in order.
var levels = [...]string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

// levelOf returns the index in levels of a level of slog, where 0 is Info, 4 is Warn and
// 8 is Error.
func levelOf(level slog.Level) int {
	for i, above := range []slog.Level{0, 2, 4, 8, 12, 16, 20} {
		if level < above {
			return i
		}
	}
	return len(levels) - 1
}

// ---- asking the user ----

// ErrInputRequired is the error of a question that the client has not answered yet. Return it
// from the handler, alone, wrapped or joined with others; the question is then sent. You need
// not test for it, except in a function around handlers, to tell a question from a failure.
var ErrInputRequired = errors.New("mcp: the client has to answer a question first")

// ErrDeclined and ErrDismissed are errors of [Confirm], [Elicit], [ElicitSchema] and
// [ElicitURL]: the user declined, or closed the question without an answer. A model reads their
// texts.
var (
	ErrDeclined  = errors.New("the user declined")
	ErrDismissed = errors.New("the user dismissed the question")
)

// decode sets what v points to from raw, which a client has sent. It does nothing if raw is
// nil, and ignores members that v does not have.
func decode(raw []byte, v any) error {
	if raw == nil {
		return nil
	}
	s, _ := derive(reflect.TypeOf(v), "", reading)
	bad := faults{partial: true, exact: true}
	s.set(reflect.ValueOf(v).Elem(), raw, &bad)
	return bad.err()
}

// askClient asks the client, if it has the capability, such as "roots" or "elicitation.url", or
// none is needed. It returns the client's answer.
func askClient(ctx context.Context, capability, method, params string) (json.RawMessage, error) {
	r := requestOf(ctx)
	switch {
	case r == outside:
		return nil, fmt.Errorf("mcp: outside of a handler there is no client to ask: %w", errors.ErrUnsupported)
	case capability != "" && !hasCapability(r.caps, capability):
		return nil, missingCapability(capability)
	}
	return r.ask(ctx, method, params)
}

// invalidAnswer is the error of an answer to a form that the protocol does not allow.
func invalidAnswer(why string) error {
	return errors.New("mcp: elicitation/create: the client's answer is invalid: " + why)
}

// missingCapability returns the error for a capability that the client has not declared. Its
// text is for the people and models that see it.
func missingCapability(capability string) error {
	names := strings.Split(capability, ".")
	var required any = struct{}{}
	for _, name := range slices.Backward(names) {
		required = map[string]any{name: required}
	}
	return &Error{Code: codeCapability, Message: "This request needs the " + capability + " capability, which this client does not have",
		Data: map[string]any{"requiredCapabilities": required}}
}

// hasCapability reports whether a client has declared a capability.
func hasCapability(caps []byte, capability string) bool {
	for _, name := range strings.Split(capability, ".") {
		caps = member(caps, name) // nil if caps is not an object
	}
	return len(caps) > 0 && caps[0] == '{'
}

// Confirm asks the user to agree to message, as in "Delete a.txt?". It returns nil only if the
// user ticked a box and accepted. If it returns an error, return that error from the handler.
//
// The error is [ErrDeclined] if the user declined, or accepted without the tick, [ErrDismissed]
// if the user closed the question, and [errors.ErrUnsupported] if the client cannot ask. In
// revision 2026-07-28 the handler runs again when the user has answered, as "Asking the user" in
// the package comment says, so do what is to be confirmed after Confirm.
//
// The form has one boolean, confirm, which is false by default. A form without fields would not
// be consent, because some hosts accept it without asking, and some hosts preselect true.
func Confirm(ctx context.Context, message string) error {
	form, err := Elicit[struct {
		Confirm bool `json:"confirm" jsonschema:"tick to go ahead" default:"false"`
	}](ctx, message)
	if err == nil && !form.Confirm {
		return ErrDeclined
	}
	return err
}

// Elicit asks the user to fill in a form. If it returns an error, return that error from the
// handler. To ask for a yes, call [Confirm].
//
// The form is derived from T, a struct of strings, numbers, booleans, and lists of strings that
// have an enum. The rules and tags are those of [SchemaOf], and one more:
//
//	titles:"A,B"  the titles of the enum's values
//
// The message says what the form is for. It must not ask for secrets.
//
// Elicit returns what the user filled in, or an error that says what is wrong with it; to ask
// again, call Elicit again. The error is [ErrDeclined] or [ErrDismissed] if the user refused, and
// [errors.ErrUnsupported] if the client cannot be asked. Elicit panics if T cannot be a form: a
// test that calls the handler without a client finds that.
//
// "Asking the user" in the package comment says when Elicit blocks, and which answer belongs to
// which question.
//
// See https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation.
func Elicit[T any](ctx context.Context, message string) (T, error) {
	var form T
	s := mustDerive(reflect.TypeFor[T](), "mcp: Elicit", reading)
	schema, err := s.appendForm(nil, requestOf(ctx).rev)
	if err != nil {
		return form, err
	}
	content, err := ElicitSchema(ctx, message, schema)
	if err != nil {
		return form, err
	}
	bad := faults{open: true}
	s.set(reflect.ValueOf(&form).Elem(), content, &bad)
	if err := bad.err(); err != nil {
		return *new(T), fmt.Errorf("mcp: the user's answer: %w", err)
	}
	return form, nil
}

// ElicitSchema is [Elicit] with a form that is described by hand. If it returns an error, return
// that error from the handler. Otherwise it returns what the user filled in, unchecked: an
// object, which may be empty.
func ElicitSchema(ctx context.Context, message string, schema json.RawMessage) (json.RawMessage, error) {
	form, err := appendCompact(nil, schema)
	if err == nil && form[0] != '{' {
		err = errors.New("the schema must be a JSON object")
	}
	if err != nil {
		return nil, fmt.Errorf("mcp: ElicitSchema: %w", err)
	}
	b, capability := []byte("{"), "elicitation"
	if r := requestOf(ctx); r.rev.knows(formModes) {
		b = stringMember(b, "mode", "form")
		if hasCapability(r.caps, "elicitation.url") { // a client that names modes must name this one too
			capability = "elicitation.form"
		}
	}
	b = rawMember(stringMember(b, "message", message), "requestedSchema", form)
	return elicit(ctx, forms, capability, b)
}

// ElicitURL asks the user to visit a page, for example to log in. It returns nil when
// the user agrees, which does not mean that the user has visited the page yet. If it returns an
// error, return that error from the handler; it is one of those of [Elicit].
func ElicitURL(ctx context.Context, message, url string) error {
	b := stringMember(stringMember([]byte(`{"mode":"url",`), "message", message), "url", url)
	if requestOf(ctx).rev.hasElicitationID() {
		b = stringMember(b, "elicitationId", strconv.FormatUint(rand.Uint64(), 36))
	}
	_, err := elicit(ctx, pageVisits, "elicitation.url", b)
	return err
}

// elicit sends the question of ElicitSchema or ElicitURL and returns the content of an
// answer that accepts it.
func elicit(ctx context.Context, need revision, capability string, params []byte) (json.RawMessage, error) {
	var answer struct {
		Action  string          `json:"action"`
		Content json.RawMessage `json:"content"`
	}
	if !requestOf(ctx).rev.knows(need) {
		return nil, missingCapability(capability)
	}
	raw, err := askClient(ctx, capability, "elicitation/create", string(closeWith(params, "}")))
	if err != nil {
		return nil, err
	}
	if err := decode(raw, &answer); err != nil {
		return nil, invalidAnswer(err.Error())
	}
	switch answer.Action {
	case "accept":
		switch content := answer.Content; {
		case len(content) == 0 || string(content) == "null": // a form without fields was accepted
			return json.RawMessage("{}"), nil
		case content[0] == '{' || capability == "elicitation.url":
			return content, nil
		}
		return nil, invalidAnswer("content " + wrongKind("object", answer.Content).Error())
	case "decline":
		return nil, ErrDeclined
	case "cancel":
		return nil, ErrDismissed
	}
	return nil, invalidAnswer("action must be accept, decline or cancel, got " + strconv.Quote(excerpt(answer.Action)))
}

// Ask sends a request to the client and returns its result, which is not checked. The params are
// a value that is written as a JSON object, or nil, which is {}. If Ask returns an error, return
// that error from the handler. To ask the user, call [Elicit] instead.
//
//	sampling/createMessage  asks the client's model: the client must have declared sampling,
//	                        and sampling.tools if the params have tools
//	roots/list              asks for the directories that the client works on: the client
//	                        must have declared roots
//	any other method        only clients of the older revisions can be asked: check what the
//	                        method needs in RequestFrom(ctx).Capabilities
//
// If the client cannot be asked, the error is [errors.ErrUnsupported], and its text says what is
// missing. In revision 2026-07-28 equal questions for roots in one call share one answer; each
// other question needs its own. Sampling and roots are deprecated since that revision.
//
// "Asking the user" in the package comment says when Ask blocks, and what holds in revision
// 2026-07-28: all of it applies to Ask too.
func Ask(ctx context.Context, method string, params any) (json.RawMessage, error) {
	raw, err := marshal(addressable(params))
	switch {
	case params == nil:
		raw = []byte("{}")
	case err != nil:
		return nil, fmt.Errorf("mcp: Ask: %w", err)
	case raw[0] != '{':
		return nil, fmt.Errorf("mcp: Ask: params must be a JSON object, got %s", excerpt(string(raw)))
	}
	capability, err := requestOf(ctx).rev.capabilityFor(method, raw)
	if err != nil {
		return nil, err
	}
	answer, err := askClient(ctx, capability, method, string(raw))
	return bytes.Clone(answer), err
}

// capabilityFor returns the capability that a client needs for a question of Ask, or "" for the
// questions of extensions, whose capabilities are not known here.
func (v revision) capabilityFor(method string, params []byte) (string, error) {
	withTools := member(params, "tools")
	switch {
	case method == "elicitation/create":
		return "", fmt.Errorf("mcp: Ask cannot send %q, use Elicit: %w", method, errors.ErrUnsupported)
	case method == "roots/list":
		return "roots", nil
	case method == "sampling/createMessage" && withTools != nil:
		return "sampling.tools", nil
	case method == "sampling/createMessage":
		return "sampling", nil
	case v.modern():
		return "", fmt.Errorf("mcp: %q cannot be asked in revision %v: %w", method, v, errors.ErrUnsupported)
	}
	return "", nil
}

// ---- schemas from types ----
//
// A type is described once. derive walks over the type and makes a schema, whose fields
// hold what their tags say. Everything else follows this description: render writes it as
// JSON Schema, set reads arguments by it, and marshal uses it to correct the output of
// encoding/json. A part that cannot be described has a schema without a kind, and is left to
// encoding/json.

// SchemaOf returns the JSON Schema that [AddTool] derives from T for a result. Use it for
// [Tool.OutputSchema], or to look at a schema in a test. The schema for arguments is the
// same, except for a type that has UnmarshalText but not MarshalText: as an argument it is
// a string.
//
// Fields are named and embedded structs are flattened as encoding/json does. A field is
// required unless it is a pointer, has omitempty, omitzero or a default, or belongs to an
// embedded pointer. Tags say more about a field:
//
//	jsonschema:"text"            its description, and nothing else
//	enum:"a,b"                   the strings that it, or each of its elements, may be
//	default:"x"                  its value if a call leaves it out: a string as it is, other values as JSON
//	minimum:"0" maximum:"9"      the range of a number, within that of its Go type
//	minLength:"1" maxLength:"9"  the number of characters of a string, or of elements of a list
//	format:"email"               the format of a string: email, uri, date or date-time
//
// Other tags, such as min or description, are ignored. Some hosts show a model the type and
// the description and drop the rest, so repeat defaults and bounds in the description, as in
// "how many, 1 to 100, default 10".
//
// A time.Time is a string as in RFC 3339, a []byte is a string in base64, and a type that
// has UnmarshalText is a string, in results only if it has MarshalText as well. A
// map[string]any is an object that is not checked. A time.Duration is an integer, the number
// of nanoseconds: say so in its description. Defaults apply only inside objects that are
// present. Hosts validate results, and this library does not. So do not put an enum on a field
// of a result whose values come from another API.
//
// Where a type contains itself, and deep inside of a very large type, the schema is a plain
// object. SchemaOf panics if T cannot be described, as is the case with arrays, with types that
// have a JSON form of their own, and with interfaces except in a map[string]any.
func SchemaOf[T any]() json.RawMessage {
	return mustDerive(reflect.TypeFor[T](), "mcp: SchemaOf", writing).render()
}

// A schema describes the JSON form of a type, or holds a schema that was written by hand. It is
// never changed once it is complete. The schema of a type that contains itself contains itself
// too.
type schema struct {
	typ      reflect.Type
	kind     string   // the JSON type; "" if it cannot be described
	fields   []*field // of a struct
	elem     *field   // of a list or a map: each element
	listed   bool     // by hand: an object has properties, and no allOf, anyOf or oneOf; an array has items
	open     bool     // by hand: members that are not in fields are allowed
	free     bool     // a map[string]any
	text     bool     // the type has UnmarshalText or MarshalText
	encoding string   // of bytes: base64
	format   string
	low      string // of an integer: the least that it may be
	high     string
	dynamic  bool            // of the root: an interface is somewhere inside
	sentAs   json.RawMessage // of arguments: the schema as it is sent
}

// A field is a member of an object, or an element of a list or map, with what its tags say.
type field struct {
	name   string
	named  bool  // by its tag
	index  []int // as for reflect.Value.FieldByIndex
	typ    reflect.Type
	tag    reflect.StructTag
	where  string // names it in a panic
	schema *schema

	optional   bool
	unexported bool // an embedded struct of an unexported type

	doc, format  string
	enum, titles []string
	dflt         []byte        // the default, as JSON
	min, max     reflect.Value // of a number; the zero Value: no limit
	minLen       int
	maxLen       int // -1: no limit
}

// A purpose is what a schema is derived for: arguments are read, results are written.
type purpose bool

const (
	reading purpose = false
	writing purpose = true
)

// derive describes t and returns the problems that it found. The errors begin with where.
func derive(t reflect.Type, where string, why purpose) (*schema, problems) {
	d := deriver{why: why, known: make(map[knownType]*schema)}
	s := d.schema(t, where, false)
	s.dynamic = d.dynamic
	for _, read := range []func(*field) error{(*field).readTags, (*field).readDefault} {
		for _, f := range d.tagged {
			if err := read(f); err != nil {
				note(&d.badTag, f.where, err.Error())
			}
		}
	}
	return s, d.problems
}

// mustDerive is derive for a schema that must describe all of t. It panics if there is a
// problem.
func mustDerive(t reflect.Type, where string, why purpose) *schema {
	s, wrong := derive(t, where, why)
	panicIf(cmp.Or(wrong.mistake, wrong.badTag, wrong.undescribed))
	return s
}

// problems holds the first problem of each kind with a type, or nil.
type problems struct {
	mistake     error // refused even if the schema is set by hand: for example, a field that JSON cannot write
	badTag      error // refused if the schema is derived
	undescribed error // a part that has no schema, and is left to encoding/json
}

// note sets *problem if it is nil.
func note(problem *error, where, what string) {
	if *problem == nil {
		*problem = fmt.Errorf("%s: %s", where, what)
	}
}

// A deriver describes one type and all types inside it.
type deriver struct {
	why     purpose
	known   map[knownType]*schema // ends the recursion
	tagged  []*field              // their tags are read after all types are described
	dynamic bool                  // an interface was found
	problems
}

// A knownType is a type that was visited. copied is set if its values are not addressable:
// encoding/json then does not call methods with a pointer receiver.
type knownType struct {
	reflect.Type
	copied bool
}

// refuse notes what cannot be described.
func (d *deriver) refuse(where, what string) { note(&d.undescribed, where, what) }

// reject notes a mistake.
func (d *deriver) reject(where, what string) { note(&d.mistake, where, what) }

// schema describes t. The methods of t come first, because they decide what encoding/json
// reads and writes. copied is set if the values of t are not addressable.
func (d *deriver) schema(t reflect.Type, where string, copied bool) *schema {
	for hops := 0; t.Kind() == reflect.Pointer; hops++ {
		if hops > 100 {
			d.reject(where, "a pointer to itself has no JSON form")
			return &schema{typ: t}
		}
		t, copied = t.Elem(), false
	}
	key := knownType{t, copied}
	if s := d.known[key]; s != nil {
		return s
	}
	s := &schema{typ: t}
	d.known[key] = s
	has := reflect.PointerTo(t).Implements
	marshals := has(reflect.TypeFor[encoding.TextMarshaler]())
	unmarshals := has(reflect.TypeFor[encoding.TextUnmarshaler]())
	ownForm := has(reflect.TypeFor[json.Marshaler]()) || has(reflect.TypeFor[json.Unmarshaler]()) || t == reflect.TypeFor[json.Number]()
	switch {
	case t == reflect.TypeFor[time.Time]():
		s.kind, s.format, s.text = "string", "date-time", true
	case ownForm || marshals && !unmarshals:
		d.refuse(where, typeName(t)+" has a JSON form of its own, which cannot be described: write a string, a struct or a map[string]any, or set the schema by hand")
	case d.why == writing && copied && marshals && !t.Implements(reflect.TypeFor[encoding.TextMarshaler]()):
		d.refuse(where, typeName(t)+" cannot be described: give MarshalText a value receiver, or write a pointer")
	case d.why == reading && unmarshals || marshals:
		s.kind, s.text = "string", true
	default:
		d.describe(s, where, copied)
	}
	return s
}

// describe sets the rest of s for a type whose methods encoding/json does not call.
func (d *deriver) describe(s *schema, where string, copied bool) {
	t := s.typ
	switch k := t.Kind(); {
	case k == reflect.String:
		s.kind = "string"
	case k == reflect.Bool:
		s.kind = "boolean"
	case reflect.Int <= k && k <= reflect.Int64:
		s.kind, s.low, s.high = "integer", strconv.FormatInt(math.MinInt64>>(64-t.Bits()), 10), strconv.FormatInt(math.MaxInt64>>(64-t.Bits()), 10)
	case reflect.Uint <= k && k <= reflect.Uintptr:
		s.kind, s.low, s.high = "integer", "0", strconv.FormatUint(math.MaxUint64>>(64-t.Bits()), 10)
	case k == reflect.Float32 || k == reflect.Float64:
		s.kind = "number"
	case k == reflect.Struct:
		s.kind = "object" // before it is visited again inside of itself
		s.fields = d.fields(t, where, copied)
	case k == reflect.Slice && isBytes(t):
		s.kind, s.encoding = "string", "base64"
	case k == reflect.Slice:
		s.kind = "array"
		s.elem = &field{schema: d.schema(t.Elem(), where+"[]", false), maxLen: -1}
		d.refuseNilElements(s, where)
		if s.listsItself() {
			d.refuse(where, "a list of itself cannot be described: write a struct with a list in it")
		}
	case k == reflect.Map && t.Key().Kind() == reflect.String && isAny(t.Elem()):
		s.kind, s.free, d.dynamic = "object", true, true
	case k == reflect.Map:
		if t.Key().Kind() == reflect.String {
			s.kind = "object"
		} else {
			d.refuse(where, typeName(t)+" cannot be described: write a map with string keys")
		}
		if d.why == writing && !isMapKey(t.Key()) {
			d.reject(where, typeName(t)+" has no JSON form: write a map with string keys")
		}
		s.elem = &field{schema: d.schema(t.Elem(), where+"[]", true), maxLen: -1}
		d.refuseNilElements(s, where)
	case k == reflect.Array:
		d.refuse(where, typeName(t)+" cannot be described: write a slice, []"+typeName(t.Elem()))
		d.schema(t.Elem(), where+"[]", copied) // finds mistakes in it
	case k == reflect.Interface:
		d.dynamic = true
		d.refuse(where, typeName(t)+" cannot be described: write a concrete type, or map[string]any for any object")
		if d.why == writing && hidesValue(t) {
			d.reject(where, typeName(t)+" has no JSON form: return a string or a struct instead")
		}
	default:
		d.refuse(where, typeName(t)+" cannot be described: set the schema by hand")
		if d.why == writing {
			d.reject(where, typeName(t)+` has no JSON form: leave it out, as with the tag json:"-"`)
		}
	}
}

// isMapKey reports whether encoding/json can write a map with keys of the type t.
func isMapKey(t reflect.Type) bool {
	k := t.Kind()
	return k == reflect.String || reflect.Int <= k && k <= reflect.Uintptr || t.Implements(reflect.TypeFor[encoding.TextMarshaler]())
}

// refuseNilElements refuses, in results, a list or map whose elements are pointers to anything
// but objects: a nil among them is sent as null, which no derived schema allows.
func (d *deriver) refuseNilElements(s *schema, where string) {
	if elem := s.typ.Elem(); d.why == writing && elem.Kind() == reflect.Pointer && s.elem.schema.kind != "object" {
		d.refuse(where, typeName(s.typ)+" cannot be described, because an element may be nil: write elements of type "+typeName(elem.Elem())+", or of a struct with a pointer in it")
	}
}

// hidesValue reports whether t is an interface whose values encoding/json usually writes
// as {}: an error, a reader or a writer.
func hidesValue(t reflect.Type) bool {
	return t.Implements(reflect.TypeFor[error]()) || t.Implements(reflect.TypeFor[io.Reader]()) || t.Implements(reflect.TypeFor[io.Writer]())
}

// typeName returns the name of t as programmers write it.
func typeName(t reflect.Type) string {
	if t == reflect.TypeFor[json.RawMessage]() { // jsontext.Value since Go 1.27
		return "json.RawMessage"
	}
	return strings.Join(strings.Split(t.String(), "interface {}"), "any")
}

// isBytes reports whether encoding/json writes t, a slice, as base64. It does not if the
// elements have a JSON or text form of their own.
func isBytes(t reflect.Type) bool {
	elem := reflect.PointerTo(t.Elem())
	return t.Elem().Kind() == reflect.Uint8 &&
		!elem.Implements(reflect.TypeFor[json.Marshaler]()) && !elem.Implements(reflect.TypeFor[encoding.TextMarshaler]())
}

// isAny reports whether t is an interface without methods.
func isAny(t reflect.Type) bool { return t.Kind() == reflect.Interface && t.NumMethod() == 0 }

// listsItself reports whether s is a list of lists without end, which has no schema. A
// hundred nested lists are treated as endless.
func (s *schema) listsItself() bool {
	for range 100 {
		if s.kind != "array" || s.elem == nil { // nil: s is being described
			return false
		}
		s = s.elem.schema
	}
	return true
}

// fields returns the fields of a struct by the rules of encoding/json. If several have the
// same name, the one that is embedded least deeply counts; among those, the one that is
// named by a tag; if more than one is left, none counts, and that is a mistake.
func (d *deriver) fields(t reflect.Type, where string, copied bool) (fields []*field) {
	all := d.collect(nil, &field{typ: t, where: where}, make(map[reflect.Type]int))
	for _, f := range all {
		if slices.ContainsFunc(all, f.isHidden) {
			continue
		}
		if i := slices.IndexFunc(all, f.clashes); i >= 0 {
			d.reject(f.where, "encoding/json leaves the field out, because "+strings.TrimPrefix(all[i].where, where+".")+" has the same JSON name, "+f.name)
			continue
		}
		f.schema = d.schema(f.typ, f.where, copied)
		if f.unexported && f.schema.kind != "object" { // reflection cannot call its methods
			d.reject(f.where, "an embedded struct that is unexported, and has a JSON form of its own, cannot have a JSON name: do not embed it")
		}
		if f.schema.kind != "" {
			d.tagged = append(d.tagged, f)
		}
		fields = append(fields, f)
	}
	return fields
}

// isHidden reports whether o hides f, by the rules of encoding/json.
func (f *field) isHidden(o *field) bool {
	return o.name == f.name && (len(o.index) < len(f.index) || len(o.index) == len(f.index) && o.named && !f.named)
}

// clashes reports whether f and o have the same name and neither hides the other.
func (f *field) clashes(o *field) bool {
	return o != f && o.name == f.name && len(o.index) == len(f.index) && o.named == f.named
}

// collect appends the fields of a struct and of the structs that it embeds. Fields of an
// embedded pointer are optional, because encoding/json leaves them out if it is nil. met
// records the depth at which each struct was found. The fields of a struct that is embedded
// twice at one depth clash; structs embedded in it are collected only once.
func (d *deriver) collect(all []*field, outer *field, met map[reflect.Type]int) []*field {
	depth, again := met[outer.typ]
	if again && depth < len(outer.index) {
		return all // fields that are less deep hide these; the struct may embed itself
	}
	again = again && depth == len(outer.index)
	met[outer.typ] = len(outer.index)
	for i := range outer.typ.NumField() {
		in := outer.typ.Field(i)
		pointer, elem := in.Type.Kind() == reflect.Pointer, in.Type
		if pointer {
			elem = elem.Elem()
		}
		embedded := in.Anonymous && elem.Kind() == reflect.Struct
		tag, tagged := in.Tag.Lookup("json")
		if tag == "-" {
			continue
		}
		f := newField(in, i, tag, outer)
		if !in.IsExported() && !embedded {
			if tagged {
				d.reject(f.where, "an unexported field has no JSON form: export it, or remove its json tag")
			}
			continue
		}
		d.checkTag(f.where, tag)
		if pointer && !in.IsExported() && d.why == reading {
			d.refuse(f.where, "an embedded pointer to an unexported type cannot be set: embed the struct itself")
		}
		if embedded && !f.named {
			f.typ = elem
			f.optional = outer.optional || pointer
			if !again {
				all = d.collect(all, f, met)
			}
			continue
		}
		if slices.Contains(strings.Split(tag, ",")[1:], "string") {
			d.refuse(f.where, "the json option string cannot be described: leave it out")
		}
		f.optional = f.optional || outer.optional || pointer
		f.name = cmp.Or(f.name, in.Name)
		all = append(all, f)
	}
	return all
}

// newField returns field i of the struct outer with what its json tag says. Its other tags
// are read after all types are described.
func newField(in reflect.StructField, i int, tag string, outer *field) *field {
	options := strings.Split(tag, ",")
	return &field{
		name:       options[0],
		named:      options[0] != "",
		index:      append(slices.Clip(outer.index), i),
		typ:        in.Type,
		tag:        in.Tag,
		where:      outer.where + "." + in.Name,
		unexported: !in.IsExported(),
		optional:   slices.Contains(options[1:], "omitempty") || slices.Contains(options[1:], "omitzero"),
		maxLen:     -1,
	}
}

// checkTag rejects a json tag that two versions of Go read differently. Since Go 1.27
// encoding/json has more options and accepts more names.
func (d *deriver) checkTag(where, tag string) {
	name, options, _ := strings.Cut(tag, ",")
	if odd := strings.IndexFunc(name, isOddInName); odd >= 0 {
		d.reject(where, fmt.Sprintf("Go versions differ on the JSON name %q: leave out %q", name, name[odd:]))
	}
	for _, option := range strings.Split(options, ",") {
		option, _, _ = strings.Cut(option, ":")
		if slices.Contains([]string{"embed", "inline", "unknown", "case", "format"}, option) {
			d.reject(where, "Go versions differ on the json option "+option+": leave it out")
		}
	}
}

// isOddInName reports whether some version of encoding/json refuses r in a name.
func isOddInName(r rune) bool {
	return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("!#$%&()*+-./:;<=>?@[]^_{|}~ ", r)
}

// readTags reads the tags of a field except default, and returns the first error. Tags
// that are invalid have no effect. A default is read after the tags of all fields, because it
// is checked against them and may be the value of a struct.
func (f *field) readTags() error {
	if _, ok := f.tag.Lookup("default"); ok {
		f.optional = true
	}
	return cmp.Or(f.readDoc(), f.readBounds(), f.readLengths(), f.readFormat(), f.readEnum())
}

// readDoc reads the description. It returns an error if the tag is written in the syntax of
// another library, which the model would otherwise see.
func (f *field) readDoc() error {
	doc := f.tag.Get("jsonschema")
	for i, part := range strings.Split(doc, ",") {
		key, _, keyed := strings.Cut(part, "=")
		if !keyed && part == "required" || keyed && (i == 0 && key != "" && consistsOf(key, "_") || slices.Contains(foreign, key)) {
			return fmt.Errorf("jsonschema:%q is another library's dialect: here the tag is the description alone. "+
				"A field is required unless it is a pointer or has omitempty, omitzero or a default; bounds have tags of their own, such as enum:\"a,b\" and minimum:\"1\"", doc)
		}
	}
	f.doc = doc
	return nil
}

// foreign lists the words that other libraries use in a jsonschema tag. After a comma only
// these words count, because "labels, as key=value" is a description.
var foreign = strings.Fields("required description title enum default example examples format pattern type minimum maximum " +
	"exclusiveMinimum exclusiveMaximum multipleOf minLength maxLength minItems maxItems uniqueItems minProperties maxProperties " +
	"nullable readOnly writeOnly deprecated const anyof oneof oneof_type oneof_required anyof_type anyof_required anchor ref")

// readBounds reads the range of a number. The bounds have the type of the field, so that
// comparisons are exact.
func (f *field) readBounds() (err error) {
	if f.min, err = f.readBound("minimum"); err == nil {
		f.max, err = f.readBound("maximum")
	}
	if err == nil && f.min.IsValid() && f.max.IsValid() && compareValues(f.min, f.max) > 0 {
		err = errors.New("minimum is above maximum")
	}
	if f.schema.kind == "integer" { // so that a number too large for the Go type is reported with the bound of the tag
		own := *f.schema
		own.low, own.high = cmp.Or(f.tag.Get("minimum"), own.low), cmp.Or(f.tag.Get("maximum"), own.high)
		f.schema = &own
	}
	return err
}

// readBound returns the number in a tag, or no value if there is no tag. A number that the type
// cannot hold is an error, because the bound would allow everything or nothing.
func (f *field) readBound(key string) (bound reflect.Value, err error) {
	text, ok := f.tag.Lookup(key)
	if !ok {
		return bound, nil
	}
	if f.schema.kind != "integer" && f.schema.kind != "number" || !isNumber([]byte(text)) {
		return bound, errors.New(key + " must be a number, on a field that is a number")
	}
	return valueOf(key, []byte(text), f.schema.typ, f.schema.set)
}

// readLengths reads the length of a string or a list. Both have the same tags; their schemas
// have different keywords.
func (f *field) readLengths() (err error) {
	if f.minLen, err = f.readLength("minLength", 0); err == nil {
		f.maxLen, err = f.readLength("maxLength", -1)
	}
	if err == nil && f.maxLen >= 0 && f.minLen > f.maxLen {
		err = errors.New("minLength is above maxLength")
	}
	return err
}

// readLength returns the number of characters or elements in a tag, or the value of without if
// there is no tag.
func (f *field) readLength(key string, without int) (int, error) {
	text, ok := f.tag.Lookup(key)
	if !ok {
		return without, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || f.schema.kind != "string" && f.schema.kind != "array" {
		return without, errors.New(key + " must be a number of characters or elements, on a string or a list")
	}
	return n, nil
}

// readFormat reads the format of a string. Types such as time.Time have a format of their own.
func (f *field) readFormat() error {
	format, ok := f.tag.Lookup("format")
	if !ok {
		return nil
	}
	if !f.schema.isPlainText() || !slices.Contains(formats, format) {
		return errors.New(`format must be "email", "uri", "date" or "date-time", on a plain string`)
	}
	f.format = format
	return nil
}

// formats lists the formats that isWellFormed checks and that a form may have.
var formats = []string{"email", "uri", "date", "date-time"}

// isPlainText reports whether s is a string that has no text form or encoding of its own.
func (s *schema) isPlainText() bool { return s.kind == "string" && !s.text && s.encoding == "" }

// readEnum reads the values that a field, or each of its elements, may have, and their
// titles in a form.
func (f *field) readEnum() error {
	text, ok := f.tag.Lookup("enum")
	titles, titled := f.tag.Lookup("titles")
	switch {
	case !ok && !titled:
		return nil
	case strings.Count(text, ",") != strings.Count(titles, ",") && titled || !ok:
		return errors.New("titles must belong to an enum and be as many as its values")
	}
	of := f
	if f.schema.kind == "array" { // the schema is shared by all lists of this type, and the enum is not
		list := *f.schema
		of = &field{schema: list.elem.schema, maxLen: -1}
		list.elem, f.schema = of, &list
	}
	if !of.schema.isPlainText() {
		return errors.New("enum must be on a plain string or a list of them: some models refuse it for numbers")
	}
	var enum []string
	for _, val := range strings.Split(text, ",") {
		raw := appendString(nil, val)
		switch _, err := valueOf("enum", raw, of.schema.typ, of.checkValue); {
		case err != nil:
			return err
		case val == "" || strings.TrimSpace(val) != val:
			return fmt.Errorf("enum: %q is empty, or has a blank at an end: write only commas between the values", val)
		case slices.Contains(enum, string(raw)):
			return fmt.Errorf("enum: duplicate value %s", val)
		}
		enum = append(enum, string(raw))
	}
	if of.enum = enum; titled {
		of.titles = strings.Split(titles, ",")
	}
	return nil
}

// readDefault reads the default of a field. The schema has it as it was read, in one line.
func (f *field) readDefault() error {
	text, ok := f.tag.Lookup("default")
	if !ok {
		return nil
	}
	raw, err := appendCompact(nil, []byte(text))
	if f.schema.kind == "string" {
		raw, err = appendString(nil, text), nil
	}
	if err != nil {
		return errors.New("default must be JSON, unless the field is a string")
	}
	f.dflt = raw // set before the check, so that a default that contains itself is found to be nested too deeply
	_, err = valueOf("default", raw, f.schema.typ, f.checkValue)
	if err != nil {
		f.dflt = nil
	}
	return err
}

// valueOf sets a new value of type t to the JSON value of a tag, and returns it. The error is
// worded like one about an argument.
func valueOf(key string, raw []byte, t reflect.Type, set func(reflect.Value, []byte, *faults)) (reflect.Value, error) {
	v, bad := reflect.New(t).Elem(), faults{exact: true}
	set(v, raw, &bad)
	bad.prefixMember(0, key)
	return v, bad.err()
}

// maxSchema bounds the bytes of a schema, which a model has to read. A larger one is written
// again with fewer levels.
const maxSchema = 32 << 10

// render returns s as JSON Schema. Every node has one type, and there are no references,
// because many hosts and providers refuse anything else. A type is therefore written out at
// each place where it is used. Types that contain each other would take megabytes, so objects
// below a certain depth are written as plain objects.
func (s *schema) render() json.RawMessage {
	if s.free { // some providers refuse every tool if one has no properties
		return json.RawMessage(`{"type":"object","properties":{}}`)
	}
	for depth := 16; ; depth-- {
		if b := (&printer{depth: depth}).appendSchema(nil, s, untagged); len(b) <= maxSchema || depth == 1 {
			return b
		}
	}
}

// A printer writes a schema as JSON.
type printer struct {
	depth     int            // objects nested more deeply are plain
	ancestors []reflect.Type // the objects around the current one
	form      revision       // of the form that it writes; 0 if it does not write a form
}

// untagged is a field without tags, for the root of a schema. It is never changed.
var untagged = &field{maxLen: -1}

// appendSchema appends s and what the tags of its field say.
func (p *printer) appendSchema(b []byte, s *schema, f *field) []byte {
	b = stringMember(append(b, '{'), "type", s.kind)
	b = optionalMember(b, "description", cmp.Or(f.doc, s.encoding)) // some hosts drop contentEncoding
	if p.form == 0 || p.form.knows(formDefaults) || s.kind == "boolean" {
		b = rawMember(b, "default", f.dflt)
	}
	if len(f.enum) > 0 {
		b = p.appendChoice(b, f, "oneOf")
	}
	b = s.appendBounds(b, f)
	b = optionalMember(b, "format", s.format+f.format)
	b = optionalMember(b, "contentEncoding", s.encoding)
	switch {
	case s.kind == "array" && p.hasTitles(s.elem): // the protocol's schema allows no type here
		b = closeWith(p.appendChoice(join(b, `"items":{`), s.elem, "anyOf"), "}")
	case s.kind == "array":
		b = p.appendSchema(join(b, `"items":`), s.elem.schema, s.elem)
	case s.kind == "object" && !s.free:
		b = p.appendObject(b, s)
	}
	return closeWith(b, "}")
}

// appendBounds appends the bounds of a length or a number. A bound in a tag takes the place
// of that of the Go type.
func (s *schema) appendBounds(b []byte, f *field) []byte {
	unit := "Length"
	if s.kind == "array" {
		unit = "Items"
	}
	if f.minLen > 0 {
		b = fmt.Appendf(b, `"min%s":%d,`, unit, f.minLen)
	}
	if f.maxLen >= 0 {
		b = fmt.Appendf(b, `"max%s":%d,`, unit, f.maxLen)
	}
	low, high := f.tag.Get("minimum"), f.tag.Get("maximum")
	if s.kind == "integer" {
		k := s.typ.Kind() // the range of an int differs between machines, and many readers cannot hold that of an int64
		narrow := s.typ.Bits() <= 32 && k != reflect.Int && k != reflect.Uint && k != reflect.Uintptr
		if narrow || k >= reflect.Uint {
			low = cmp.Or(low, s.low)
		}
		if narrow {
			high = cmp.Or(high, s.high)
		}
	}
	b = rawMember(b, "minimum", []byte(low))
	return rawMember(b, "maximum", []byte(high))
}

// appendObject appends the properties of an object. If too much has been written it appends
// none, and render tries again with fewer levels.
func (p *printer) appendObject(b []byte, s *schema) []byte {
	if slices.Contains(p.ancestors, s.typ) || len(p.ancestors) >= p.depth || len(b) > maxSchema {
		return join(b, `"properties":{}`)
	}
	p.ancestors = append(p.ancestors, s.typ)
	b = join(p.appendFields(b, s.fields), `"additionalProperties":`)
	if s.elem != nil {
		b = p.appendSchema(b, s.elem.schema, s.elem)
	} else {
		b = join(b, "false")
	}
	p.ancestors = p.ancestors[:len(p.ancestors)-1]
	return b
}

// appendFields appends the properties of an object and the names of the required ones. An
// empty list of names is left out, because the oldest drafts of JSON Schema refuse it.
func (p *printer) appendFields(b []byte, fields []*field) []byte {
	b = join(b, `"properties":{`)
	var required []byte
	for _, f := range fields {
		b = append(p.appendSchema(append(appendString(b, f.name), ':'), f.schema, f), ',')
		if !f.optional {
			required = append(appendString(required, f.name), ',')
		}
	}
	if b = closeWith(b, "},"); required != nil {
		b = join(b, `"required":[`, string(closeWith(required, "],")))
	}
	return b
}

// hasTitles reports whether each value of an enum is written together with its title.
func (p *printer) hasTitles(f *field) bool { return f.titles != nil && p.form.knows(choiceTitles) }

// appendChoice appends the values of an enum. In a form they are appended with their titles, as
// the member whose name is key. Revisions differ in how titles are written; the oldest have
// none.
func (p *printer) appendChoice(b []byte, f *field, key string) []byte {
	titled := p.hasTitles(f)
	if !titled {
		key = "enum"
	}
	b = join(b, `"`, key, `":[`)
	for i, v := range f.enum {
		if titled {
			v = `{"const":` + v + `,"title":` + string(appendString(nil, f.titles[i])) + `}`
		}
		b = join(b, v, `,`)
	}
	if b = closeWith(b, "],"); f.titles != nil && p.form.hasEnumNames() {
		raw, _ := marshal(f.titles)
		b = rawMember(b, "enumNames", raw)
	}
	return b
}

// appendForm appends s as a form of a revision. It returns an error if the revision does not
// know such a form, and panics if no revision does, whatever the client is. A form must not
// say whether there are other properties, so an answer may have some.
func (s *schema) appendForm(b []byte, rev revision) (_ []byte, err error) {
	if s.kind != "object" || s.elem != nil || s.free {
		panic("mcp: Elicit: a form is a struct, not a " + s.typ.String())
	}
	for _, f := range s.fields {
		list := f.schema.kind == "array" && f.schema.elem.enum != nil
		switch {
		case list && !rev.knows(choiceLists):
			err = fmt.Errorf("mcp: Elicit: %s: a choice of several: %w in revision %v", f.name, errors.ErrUnsupported, rev)
		case f.enum != nil && (f.minLen > 0 || f.maxLen >= 0) && !list:
			panic("mcp: Elicit: " + f.name + ": a field with an enum has no minLength or maxLength")
		case !list && (f.schema.kind == "array" || f.schema.kind == "object" || f.schema.encoding != ""):
			panic("mcp: Elicit: " + f.name + ": a form has strings, numbers, booleans and choices")
		}
	}
	p := &printer{form: rev}
	return closeWith(p.appendFields(join(b, `{"type":"object",`), s.fields), "}"), err
}

// ---- schemas by hand ----
//
// Of a schema that was written by hand, these keywords are enforced: those that SchemaOf
// writes, const, an enum of any values, and a schema as additionalProperties. The schema is
// parsed into the same description that a type has, so the same functions check the
// arguments. Other keywords are ignored.

// A handParser parses one schema. Its methods panic if clients or providers would refuse the
// schema, and with it the whole list of tools.
type handParser struct {
	where string // names the tool, the schema and the value in it
	inner bool   // the value is not the root
}

// at returns the parser for a value inside. The path leads to it, as in ".name" and "[]".
func (p handParser) at(path string) handParser { return handParser{p.where + path, true} }

// parse returns the description of raw, a schema that is valid JSON.
func (p handParser) parse(raw []byte) *field {
	f := &field{maxLen: -1, schema: &schema{}}
	if raw[0] != '{' { // true or false
		panicUnless(p.inner && (raw[0] == 't' || raw[0] == 'f'), p.where, "a schema must be a JSON object")
		return f
	}
	node := make(map[string][]byte)
	for keyword, val := range members(raw) {
		node[string(keyword)] = val
	}
	for _, name := range strings.Split(strings.Trim(string(node["type"]), "[]"), ",") { // one or several in quotes; "" if there is no type
		panicUnless(strings.Contains(`"object" "array" "string" "number" "integer" "boolean" "null"`, name), p.where, "JSON Schema has no type %s", name)
	}
	kind, _ := unquote(node["type"])
	if node["type"] == nil && (node["properties"] != nil || node["required"] != nil) {
		kind = "object"
	}
	closed := node["patternProperties"] == nil
	switch s := f.schema; kind {
	case "string":
		s.kind = kind
		if format, _ := unquote(node["format"]); string(node["contentEncoding"]) == `"base64"` {
			s.typ, s.encoding = reflect.TypeFor[[]byte](), "base64"
		} else if slices.Contains(formats, format) {
			f.format = format
		}
		p.addTags(f, node, "minLength", "maxLength")
	case "boolean":
		s.kind, s.typ = kind, reflect.TypeFor[bool]()
	case "number":
		s.kind, s.typ = kind, reflect.TypeFor[float64]()
		p.addTags(f, node, "minimum", "maximum")
	case "integer":
		s.kind, s.typ, s.low, s.high = kind, reflect.TypeFor[int64](), strconv.FormatInt(math.MinInt64, 10), strconv.FormatInt(math.MaxInt64, 10)
		if low := node["minimum"]; low != nil && low[0] != '-' {
			s.typ, s.low, s.high = reflect.TypeFor[uint64](), "0", strconv.FormatUint(math.MaxUint64, 10)
		}
		p.addTags(f, node, "minimum", "maximum")
	case "array":
		s.kind, s.elem = kind, &field{maxLen: -1, schema: &schema{}}
		if s.listed = node["items"] != nil; s.listed && node["items"][0] == '{' {
			s.elem = p.at("[]").parse(node["items"])
		}
		p.addTags(f, node, "minItems", "maxItems")
	case "object":
		additional := node["additionalProperties"]
		s.kind, s.open = kind, !closed || string(additional) != "false"
		if closed && additional != nil && additional[0] == '{' {
			s.elem = p.at("[]").parse(additional)
		}
		p.addProperties(s, node["properties"], node["required"])
		s.listed = s.listed && node["allOf"] == nil && node["anyOf"] == nil && node["oneOf"] == nil
	}
	p.addEnum(f, node["enum"], node["const"])
	return f
}

// addTags copies the bounds of a value into tags of f and reads them as those of a struct's
// field are read.
func (p handParser) addTags(f *field, node map[string][]byte, keywords ...string) {
	for _, keyword := range keywords {
		if bound := node[keyword]; bound != nil {
			panicUnless(isNumber(bound), p.where, "%s must be a number", keyword)
			if s := f.schema; s.kind == "integer" || s.kind == "number" {
				if _, err := valueOf(keyword, bound, s.typ, s.set); err != nil {
					continue // the Go type cannot hold the bound, for example 0.5
				}
			}
			if f.schema.kind == "array" { // lists have the same tags as strings
				keyword = keyword[:len("min")] + "Length"
			}
			f.tag += reflect.StructTag(keyword + `:"` + string(bound) + `" `)
		}
	}
	panicAt(p.where, cmp.Or(f.readBounds(), f.readLengths()))
}

// addEnum sets the values that are allowed, if the schema lists them.
func (p handParser) addEnum(f *field, enum, constant []byte) {
	if enum != nil {
		panicUnless(enum[0] == '[', p.where, "enum must be a list")
		for _, val := range members(enum) {
			panicUnless(string(val) != `""`, p.where, "enum must not have an empty string, for which a provider refuses every tool")
			f.enum = append(f.enum, canonical(val))
		}
		panicUnless(len(f.enum) > 0, p.where, "enum must not be empty")
	}
	if constant != nil {
		f.enum = []string{canonical(constant)}
	}
}

// addProperties sets the members of an object.
func (p handParser) addProperties(s *schema, properties, required []byte) {
	if s.listed = properties != nil; s.listed {
		panicUnless(properties[0] == '{', p.where, "properties must be an object")
		for name, raw := range members(properties) {
			property := p.at("." + string(name))
			f := property.parse(raw)
			panicUnless(p.inner || raw[0] == '{', property.where, "a property must be described by an object, as in {}")
			f.name, f.optional = string(name), true
			s.fields = append(s.fields, f)
		}
	}
	if required == nil {
		return
	}
	panicUnless(required[0] == '[', p.where, "required must be a list of names")
	for _, raw := range members(required) {
		name, isText := unquote(raw)
		panicUnless(isText, p.where, "required must be a list of names")
		f := s.property(name)
		panicUnless(f == nil || f.optional, p.where, "required names %q twice", name)
		if f == nil {
			panicUnless(s.open || s.elem != nil, p.where, "required names %q, which is not a property, and additionalProperties is false", name)
			own := *cmp.Or(s.elem, &field{maxLen: -1, schema: &schema{}})
			f, own.name = &own, name
			s.fields = append(s.fields, f)
		}
		f.optional = false
	}
}

// lacksItems reports whether an array in s has no items.
func (s *schema) lacksItems() bool {
	return s.kind == "array" && !s.listed || s.elem != nil && s.elem.schema.lacksItems() ||
		slices.ContainsFunc(s.fields, func(f *field) bool { return f.schema.lacksItems() })
}

// property returns the member of a name, or nil.
func (s *schema) property(name string) *field {
	if i := slices.IndexFunc(s.fields, func(f *field) bool { return f.name == name }); i >= 0 {
		return s.fields[i]
	}
	return nil
}

// checkFit panics if the values of s cannot be set in a Go type, which own describes.
func (s *schema) checkFit(own *schema, where string) {
	switch {
	case s.kind == "" || own.kind == "" || own.free:
		return
	case s.kind != own.kind:
		numbers := own.kind == "number" && s.kind == "integer" || own.kind == "integer" && s.kind == "number"
		panicUnless(numbers, where, "the schema has the type %s, but the Go type has the type %s", s.kind, own.kind)
	case s.kind == "array":
		s.elem.schema.checkFit(own.elem.schema, where+"[]")
	case own.elem != nil: // a map
		for _, f := range s.fields {
			f.schema.checkFit(own.elem.schema, where+"."+f.name)
		}
	case s.kind == "object" && (len(s.fields) > 0 || !s.open):
		s.checkFields(own, where)
	}
}

// checkFields is checkFit for the members of an object and the fields of a struct.
func (s *schema) checkFields(own *schema, where string) {
	for _, f := range s.fields {
		if mine := own.property(f.name); mine != nil {
			f.schema.checkFit(mine.schema, where+"."+f.name)
			continue
		}
		for _, other := range own.fields {
			panicUnless(!strings.EqualFold(other.name, f.name), where, "the property %q and the field %q differ only in case: names are matched exactly", f.name, other.name)
		}
		panicUnless(f.optional, where, "the schema requires %q, which is not a field of %v", f.name, own.typ)
	}
	for _, f := range own.fields {
		panicUnless(f.optional || !s.listed || s.property(f.name) != nil, where, "the field %q is required, but the schema has no such property", f.name)
	}
}

// appendConverted appends raw, which is valid for s, and replaces the values that coerce
// converts.
func (s *schema) appendConverted(b, raw []byte) []byte {
	raw = s.coerce(raw, &faults{})
	switch {
	case s.kind == "integer":
		return join(b, integer(string(raw)))
	case s.kind == "array":
		b = append(b, '[')
		for _, val := range members(raw) {
			b = append(s.elem.schema.appendConverted(b, val), ',')
		}
		return closeWith(b, "]")
	case s.kind == "object" && raw[0] == '{':
		b = append(b, '{')
		for key, val := range members(raw) {
			b = append(appendString(b, string(key)), ':')
			if f := cmp.Or(s.property(string(key)), s.elem); f != nil && string(val) != "null" {
				val = f.schema.appendConverted(nil, val)
			}
			b = append(append(b, val...), ',')
		}
		return closeWith(b, "}")
	}
	return append(b, raw...)
}

// ---- arguments by their schema ----
//
// Arguments are read in one pass over the raw JSON, which checks and sets at once. The pass
// continues after a fault, so that the model sees all faults of a call, each with its place.
//
// The calls are rules.unmarshal, then schema.set for each value, then setStruct, setList or
// setMap for the values inside. field.checkValue adds the checks of tags. The same functions
// read the values of tags, and the client's answers to questions; the members of faults say how
// strict they are.

// waitForPrevious is an argument that Gemini CLI adds to those of every tool, for its own use.
// A tool whose schema does not describe it does not receive it.
const waitForPrevious = "wait_for_previous"

// rules hold the schemas by which the arguments of a tool are checked.
type rules struct {
	schema *schema // of In
	byHand *schema // of Tool.InputSchema; nil if that is derived from In
}

// unmarshal sets what v points to from the arguments of a call; nil means no arguments.
func (in *rules) unmarshal(args []byte, v any) error {
	var bad faults
	if args == nil {
		args = []byte("{}")
	}
	if in.schema.fields == nil && bytes.Contains(args, []byte(waitForPrevious)) && !in.describes(waitForPrevious) {
		args = removeMember(args, waitForPrevious) // setStruct skips it, but v is not a struct here
	}
	if in.byHand != nil {
		in.byHand.set(reflect.Value{}, args, &bad)
		if err := bad.err(); err != nil {
			return err
		}
		if bad.converted {
			args = in.byHand.appendConverted(nil, args)
		}
		bad.partial = true
	}
	in.schema.set(reflect.ValueOf(v).Elem(), args, &bad)
	return bad.err()
}

// describes reports whether the tool has an argument of this name.
func (in *rules) describes(name string) bool {
	return in.byHand != nil && in.byHand.property(name) != nil || in.schema.property(name) != nil
}

// removeMember returns a copy of an object without the members of one name.
func removeMember(object []byte, name string) []byte {
	b := []byte("{")
	for key, val := range members(object) {
		if string(key) != name {
			b = append(append(appendString(b, string(key)), ':'), val...)
			b = append(b, ',')
		}
	}
	return closeWith(b, "}")
}

// faults collects the faults of the arguments of one call, and holds how strictly they are
// read.
type faults struct {
	list      []fault
	depth     int  // of the current value
	converted bool // a value was accepted in place of another; see coerce
	open      bool // unknown names are allowed: it is the answer to a form
	partial   bool // unknown and missing names are allowed, and a null for a field or pointer is treated as absent
	exact     bool // coerce converts nothing
}

// A fault is one thing that is wrong, and its place. The function that finds a fault does not
// know its place: each of its callers adds a name or an index in front. So a call without
// faults costs nothing extra.
type fault struct{ place, what string }

func (f *faults) Error() string {
	var lines []string
	for _, one := range f.list {
		place := strings.TrimPrefix(one.place, ".")
		lines = append(lines, strings.TrimPrefix(place+" "+one.what, " "))
	}
	return strings.Join(lines, "; ")
}

// err returns f as an error, or nil if there are no faults. It returns a copy, so that f can
// stay on the stack.
func (f *faults) err() error {
	if len(f.list) == 0 {
		return nil
	}
	return &faults{list: f.list}
}

// maxArgsDepth bounds the nesting of arguments for a type that contains itself. A
// json.RawMessage or a map[string]any may be nested more deeply.
const maxArgsDepth = 100

// isFull reports whether there are so many faults that checking stops. A call
// with many faults must not cost more than a correct one.
func (f *faults) isFull() bool { return len(f.list) >= 10 }

// addError adds err, unless it is nil, as a fault of the current value.
func (f *faults) addError(err error) {
	if err != nil {
		f.list = append(f.list, fault{what: err.Error()})
	}
}

// addMember adds err as a fault of a member of the current value.
func (f *faults) addMember(name string, err error) {
	f.addError(err)
	f.prefixMember(len(f.list)-1, name)
}

// prefixMember adds the name of a member to the places of the faults in list[from:].
func (f *faults) prefixMember(from int, name string) {
	for i := from; i < len(f.list); i++ {
		f.list[i].place = "." + cmp.Or(oneLine(name), `""`) + f.list[i].place
	}
}

// prefixElement adds the index of an element to the places of the faults in list[from:].
func (f *faults) prefixElement(from, index int) {
	for i := from; i < len(f.list); i++ {
		f.list[i].place = "[" + strconv.Itoa(index) + "]" + f.list[i].place
	}
}

// addUnknown notes that there is no argument of this name. It lists the names that exist, so
// that a model finds the right one.
func (f *faults) addUnknown(name string, fields []*field) {
	const most = 30
	var names []string
	for _, known := range fields[:min(len(fields), most)] {
		names = append(names, known.name)
	}
	if len(fields) > most {
		names = append(names, "...")
	}
	if len(names) == 0 {
		f.addMember(name, errors.New("is unknown: this tool takes no arguments"))
	} else {
		f.addMember(name, errors.New("is unknown (there is "+strings.Join(names, ", ")+")"))
	}
}

// set sets v, or what v points to, from raw. s describes the type of v; raw is valid JSON. It
// only checks raw if v is the zero Value. Values that do not fit are faults. A null is a fault
// unless s has no kind, or v is a pointer and bad.partial is set; setIn has already handled
// nulls of optional fields.
func (s *schema) set(v reflect.Value, raw []byte, bad *faults) {
	for v.Kind() == reflect.Pointer {
		if bad.partial && string(raw) == "null" {
			v.SetZero()
			return
		}
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		v = v.Elem()
	}
	if bad.depth++; bad.depth > maxArgsDepth { // each level walks over everything below it
		bad.addError(errors.New("is nested too deeply"))
	} else {
		s.setValue(v, raw, bad)
	}
	bad.depth--
}

// setValue is set for a value that is not a pointer.
func (s *schema) setValue(v reflect.Value, raw []byte, bad *faults) {
	given := raw
	raw = s.coerce(raw, bad)
	var err error
	switch {
	case s.kind == "", s.free && raw[0] == '{':
		if v.IsValid() {
			err = setOwn(v, raw)
		}
	case s.kind == "string" && raw[0] == '"':
		err = s.setText(v, raw)
	case s.kind == "boolean" && (string(raw) == "true" || string(raw) == "false"):
		v.SetBool(raw[0] == 't')
	case s.kind == "integer" && isNumber(raw):
		err = s.setInteger(v, raw)
		bad.converted = bad.converted || strings.ContainsAny(string(raw), ".eE") // 5.0 becomes 5
	case s.kind == "number" && isNumber(raw):
		err = s.setNumber(v, raw)
	case s.kind == "array" && raw[0] == '[':
		s.setList(v, raw, bad)
	case s.kind == "object" && raw[0] == '{' && v.Kind() == reflect.Map:
		s.setMap(v, raw, bad)
	case s.kind == "object" && raw[0] == '{':
		s.setStruct(v, raw, bad)
	default:
		err = wrongKind(s.kind, given)
	}
	bad.addError(err)
}

// coerce returns raw, or the value that a model means by it. Models send numbers, booleans,
// lists and objects as JSON inside a string, and one string for a list of strings. No value
// is converted to a string.
func (s *schema) coerce(raw []byte, bad *faults) []byte {
	if raw[0] != '"' || s.kind == "string" || s.kind == "" || bad.exact {
		return raw
	}
	inside := unquoteBytes(raw)
	if s.kind == "array" || s.kind == "object" {
		inside = trimEnd(inside[skipSpace(inside, 0):])
	}
	bad.converted = true
	switch isJSON := scan(inside, 0, 0) == len(inside); {
	case s.kind == "array" && s.elem.schema.kind == "string" && (!isJSON || inside[0] != '['):
		return join(nil, "[", string(raw), "]")
	case isJSON:
		return inside
	}
	return raw
}

// wrongKind returns the error for a value of another kind. It repeats the beginning of the
// value, so that a model sees what it sent.
func wrongKind(kind string, raw []byte) error {
	article := "a "
	if strings.IndexByte("aio", kind[0]) >= 0 {
		article = "an "
	}
	str, isText := unquote(raw)
	got := appendString(nil, excerpt(str))
	if !isText {
		compact, _ := appendCompact(nil, raw) // JSON that came in a string may have newlines
		got = []byte(excerpt(string(compact)))
	}
	return fmt.Errorf("must be %s%s, got %s", article, kind, got)
}

// setOwn sets a value that no schema describes, with encoding/json. raw is clipped, so that a
// user's method cannot reach the bytes after it, which are the client's next messages.
func setOwn(v reflect.Value, raw []byte) error {
	raw = slices.Clip(raw)
	if u, ok := v.Addr().Interface().(json.Unmarshaler); ok { // without json.Unmarshal, which would validate a long json.RawMessage again
		return notValid(u.UnmarshalJSON(raw))
	}
	return notValid(json.Unmarshal(raw, v.Addr().Interface()))
}

// notValid formats an error of a type's own method, in one line. It returns nil if err is nil.
func notValid(err error) error {
	if err != nil {
		err = errors.New("is not valid: " + oneLine(err.Error()))
	}
	return err
}

// setText sets a value that is a string in JSON.
func (s *schema) setText(v reflect.Value, raw []byte) error {
	str, _ := unquote(raw)
	switch {
	case s.text:
		err := v.Addr().Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(str))
		if err != nil && s.format == "date-time" {
			return wrongFormat(s.format, str)
		}
		return notValid(err)
	case s.encoding != "":
		b, err := base64.StdEncoding.DecodeString(str)
		if err != nil {
			return errors.New("must be base64")
		}
		v.SetBytes(b)
	case v.IsValid():
		v.SetString(str)
	}
	return nil
}

// setNumber sets a float. A number that is too large is an error and does not become infinite.
func (s *schema) setNumber(v reflect.Value, raw []byte) error {
	f, err := strconv.ParseFloat(string(raw), s.typ.Bits())
	if err != nil {
		return fmt.Errorf("must be a %v, got %s", s.typ.Kind(), excerpt(string(raw)))
	}
	v.SetFloat(f)
	return nil
}

// setInteger sets an integer. It accepts a fraction or an exponent if the number is whole, and
// refuses numbers that v cannot hold.
func (s *schema) setInteger(v reflect.Value, raw []byte) (err error) {
	num := string(raw) // the error uses raw instead, so that num is not allocated in each call
	if strings.ContainsAny(num, ".eE") || num == "-0" {
		num = integer(num)
	}
	if v.CanInt() {
		var n int64
		n, err = strconv.ParseInt(num, 10, s.typ.Bits())
		v.SetInt(n)
	} else {
		var n uint64
		n, err = strconv.ParseUint(num, 10, s.typ.Bits())
		v.SetUint(n)
	}
	switch {
	case err == nil:
		return nil
	case strings.ContainsAny(num, ".eE"):
		return wrongKind("integer", raw)
	case num[0] == '-':
		return fmt.Errorf("must be at least %s, got %s", s.low, excerpt(string(raw)))
	}
	return fmt.Errorf("must be at most %s, got %s", s.high, excerpt(string(raw)))
}

// integer returns a whole number without its fraction and exponent, and any other number as it
// is. If the number needs more than 64 bits, so does the result, but the value may differ.
func integer(num string) string {
	mantissa, exponent := num, 0
	if i := strings.IndexAny(num, "eE"); i >= 0 {
		mantissa = num[:i]
		exponent, _ = strconv.Atoi(num[i+1:]) // if out of range, the largest int
		exponent = max(exponent, -1<<30)      // so that it can be negated
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	figures := strings.TrimLeft(whole+fraction, "-0")
	sign := num[:len(num)-len(strings.TrimPrefix(num, "-"))]
	decimals := len(fraction) - exponent // digits after the point
	zeros := len(figures) - len(strings.TrimRight(figures, "0"))
	switch {
	case figures == "":
		return "0"
	case decimals > zeros:
		return num
	case decimals >= 0:
		return sign + figures[:len(figures)-decimals]
	}
	const more = "000000000000000000000000000000"
	return sign + figures + more[:min(-decimals, len(more))]
}

// isNumber reports whether raw is a JSON number. raw need not be JSON: it may come from a tag.
func isNumber(raw []byte) bool {
	return len(raw) > 0 && scanNumber(raw, 0) == len(raw)
}

// setList sets a slice element by element, because the number of elements is not known.
func (s *schema) setList(v reflect.Value, raw []byte, bad *faults) {
	if v.IsValid() {
		v.Set(reflect.MakeSlice(s.typ, 0, 0))
	}
	n := 0
	for _, val := range members(raw) {
		var elem reflect.Value
		if v.IsValid() {
			v.Grow(1)
			v.SetLen(n + 1)
			elem = v.Index(n)
			elem.SetZero()
		}
		before := len(bad.list)
		s.elem.checkValue(elem, val, bad)
		bad.prefixElement(before, n)
		if bad.isFull() {
			break
		}
		n++
	}
}

// setMap sets a map. Its keys are strings and may have UnmarshalText. Two keys of the JSON may
// become one key of the map, which is a duplicate.
func (s *schema) setMap(v reflect.Value, raw []byte, bad *faults) {
	v.Set(reflect.MakeMap(s.typ))
	for key, val := range members(raw) {
		k, e := reflect.New(s.typ.Key()), reflect.New(s.typ.Elem()).Elem()
		before := len(bad.list)
		if u, ok := k.Interface().(encoding.TextUnmarshaler); !ok {
			k.Elem().SetString(string(key))
		} else {
			bad.addError(notValid(u.UnmarshalText(slices.Clip(key))))
		}
		if v.MapIndex(k.Elem()).IsValid() {
			bad.addError(errDuplicate)
		} else {
			s.elem.checkValue(e, val, bad)
			v.SetMapIndex(k.Elem(), e)
		}
		bad.prefixMember(before, string(key))
		if bad.isFull() {
			break
		}
	}
}

// errDuplicate is the fault of a member whose name another member of the object has.
var errDuplicate = errors.New("came twice")

// setStruct sets the fields of a struct, and then the defaults of the fields that are absent.
// Names are matched exactly, unlike in encoding/json. A duplicate is a fault, because the
// client and the server could use different ones.
func (s *schema) setStruct(v reflect.Value, raw []byte, bad *faults) {
	seen := make([]bool, len(s.fields))
	others := make(map[string]bool) // names in raw that are not fields
	for key, val := range members(raw) {
		before := len(bad.list)
		i := slices.IndexFunc(s.fields, func(f *field) bool { return f.name == string(key) })
		switch {
		case i < 0 && bad.depth == 1 && string(key) == waitForPrevious:
			// See waitForPrevious.
		case i >= 0 && seen[i] || i < 0 && others[string(key)]:
			bad.addMember(string(key), errDuplicate)
		case i >= 0:
			seen[i] = true
			s.fields[i].setIn(v, val, bad)
		case s.elem != nil:
			others[string(key)] = true
			s.elem.checkValue(reflect.Value{}, val, bad)
			bad.prefixMember(before, string(key))
		case !s.open && !bad.open && !bad.partial:
			bad.addUnknown(string(key), s.fields)
		}
		if bad.isFull() {
			return
		}
	}
	for i, f := range s.fields {
		switch {
		case seen[i]:
		case f.dflt != nil && !bad.isFull():
			f.setIn(v, f.dflt, bad)
		case !f.optional && !bad.partial:
			bad.addMember(f.name, errors.New("is required"))
		}
	}
}

// setIn sets the field in the struct v and adds the name of the field to the places of its
// faults. A null for an optional field is treated as absent.
func (f *field) setIn(v reflect.Value, raw []byte, bad *faults) {
	if string(raw) == "null" && (f.optional || bad.partial && f.schema.kind != "") {
		raw = f.dflt
	}
	if raw == nil {
		return
	}
	before := len(bad.list)
	if v.IsValid() {
		if v = fieldOf(v, f.index); !v.IsValid() {
			bad.addMember(f.name, errors.New("cannot be set"))
			return
		}
	}
	f.checkValue(v, raw, bad)
	bad.prefixMember(before, f.name)
}

// fieldOf is reflect.Value.FieldByIndex, except that it allocates embedded pointers that are
// nil. It returns the zero Value if it cannot.
func fieldOf(v reflect.Value, index []int) reflect.Value {
	for _, i := range index {
		if v.Kind() == reflect.Pointer {
			if v.IsNil() {
				if !v.CanSet() {
					return reflect.Value{}
				}
				v.Set(reflect.New(v.Type().Elem()))
			}
			v = v.Elem()
		}
		v = v.Field(i)
	}
	return v
}

// checkValue sets v from raw and checks the bounds, the enum and the format of the field. They
// apply to the value after conversion. If v is the zero Value, raw is only checked.
func (f *field) checkValue(v reflect.Value, raw []byte, bad *faults) {
	if !v.IsValid() && f.schema.typ != nil {
		v = reflect.New(f.schema.typ).Elem()
	}
	before := len(bad.list)
	if f.schema.set(v, raw, bad); len(bad.list) > before {
		return
	}
	v = pointee(v)
	if v.Kind() == reflect.Pointer {
		return // v was set to null
	}
	raw = f.schema.coerce(raw, bad)
	bad.addError(f.checkEnum(raw))
	switch f.schema.kind {
	case "integer", "number":
		bad.addError(f.checkNumber(v, raw))
	case "string":
		f.checkString(raw, bad)
	case "array":
		n := 0
		for range members(raw) {
			n++
		}
		bad.addError(f.checkLength(n, "elements"))
	}
}

// checkNumber checks the bounds of a number. The message has the bounds and the number as they
// were written, because a float may print differently, and a type may have a String method.
func (f *field) checkNumber(v reflect.Value, raw []byte) error {
	switch {
	case f.min.IsValid() && compareValues(v, f.min) < 0:
		return fmt.Errorf("must be at least %s, got %s", f.tag.Get("minimum"), excerpt(string(raw)))
	case f.max.IsValid() && compareValues(v, f.max) > 0:
		return fmt.Errorf("must be at most %s, got %s", f.tag.Get("maximum"), excerpt(string(raw)))
	}
	return nil
}

// checkString checks the length and the format of a string. It does not decode a string that
// has neither.
func (f *field) checkString(raw []byte, bad *faults) {
	if f.minLen <= 0 && f.maxLen < 0 && f.format == "" {
		return
	}
	str, _ := unquote(raw)
	bad.addError(f.checkLength(utf8.RuneCountInString(str), "characters"))
	if !isWellFormed(f.format, str) {
		bad.addError(wrongFormat(f.format, str))
	}
}

// pointee returns what v points to, through any number of pointers, up to a nil pointer.
func pointee(v reflect.Value) reflect.Value {
	for v.Kind() == reflect.Pointer && !v.IsNil() {
		v = v.Elem()
	}
	return v
}

// checkLength checks the length of a string or a list, which is n units.
func (f *field) checkLength(n int, units string) error {
	which, bound := "least", f.minLen
	switch {
	case n < f.minLen:
	case f.maxLen >= 0 && n > f.maxLen:
		which, bound = "most", f.maxLen
	default:
		return nil
	}
	if bound == 1 {
		units = strings.TrimSuffix(units, "s")
	}
	return fmt.Errorf("must have at %s %d %s, got %d", which, bound, units, n)
}

// checkEnum checks that a value is one of the enum, if there is one.
func (f *field) checkEnum(raw []byte) error {
	if f.enum == nil || slices.Contains(f.enum, canonical(raw)) {
		return nil
	}
	return fmt.Errorf("must be one of %s, got %s", strings.Join(f.choices(), ", "), excerpt(canonical(raw)))
}

// choices returns the values of an enum for a message: strings without quotes.
func (f *field) choices() (list []string) {
	for _, val := range f.enum {
		text, isText := unquote([]byte(val))
		if !isText {
			text = val
		}
		list = append(list, text)
	}
	return list
}

// canonical returns one text for all JSON forms of a value, such as 1.0 and 1e0, except for
// numbers of more than 15 bytes.
func canonical(raw []byte) string {
	if text, isText := unquote(raw); isText {
		return string(appendString(nil, text))
	}
	var v any
	if isNumber(raw) {
		raw = []byte(integer(string(raw)))
	}
	if len(raw) > 15 && isNumber(raw) || json.Unmarshal(raw, &v) != nil { // a float64 may not hold the number
		return string(raw)
	}
	b, _ := marshal(v)
	return string(b)
}

// wrongFormat returns the error for a string that does not have a format.
func wrongFormat(format, got string) error {
	if format == "date-time" {
		format += ", as in 2026-01-31T09:30:00Z"
	}
	return fmt.Errorf("must be of the format %s, got %q", format, excerpt(got))
}

// compareValues compares two numbers of one kind. It does not convert an int64 to a float, which
// cannot hold all of them.
func compareValues(v, w reflect.Value) int {
	switch {
	case v.CanInt():
		return cmp.Compare(v.Int(), w.Int())
	case v.CanUint():
		return cmp.Compare(v.Uint(), w.Uint())
	}
	return cmp.Compare(v.Float(), w.Float())
}

// isWellFormed reports whether a string has a format. It finds only the likely mistakes, and
// does not check whether an address or a page exists.
func isWellFormed(format, s string) bool {
	switch format {
	case "email":
		name, host, _ := strings.Cut(s, "@")
		return name != "" && host != "" && strings.IndexFunc(s, unicode.IsSpace) < 0 && strings.IndexByte(host, '@') < 0
	case "uri":
		scheme, rest, _ := strings.Cut(s, ":")
		return scheme != "" && rest != "" && strings.IndexFunc(s, unicode.IsSpace) < 0
	case "date":
		s += "T00:00:00Z"
		fallthrough
	case "date-time": // package time also accepts hours of one digit, and commas
		return len(s) > 19 && s[13] == ':' && s[19] != ',' && new(time.Time).UnmarshalText([]byte(s)) == nil
	}
	return true
}

// excerpt returns as much of a client's text as may be repeated in a message. If it cuts the
// text, it removes bytes that are not UTF-8, such as half a character at the end.
func excerpt(s string) string {
	if len(s) <= 100 {
		return s
	}
	return strings.ToValidUTF8(s[:100], "") + "..."
}

// oneLine returns an excerpt that cannot be mistaken for another line of a log.
func oneLine(s string) string {
	s = excerpt(s)
	if strings.IndexFunc(s, func(r rune) bool { return !strconv.IsPrint(r) }) >= 0 {
		s = strconv.Quote(s)
	}
	return s
}

// ---- values to JSON ----
//
// encoding/json writes values. This section then replaces each null that the schema of the
// type does not allow. The values in an interface or an array, and those with a MarshalJSON,
// stay as encoding/json writes them.

// marshal is json.Marshal without escapes for HTML. As far as the type shows, nil slices and
// maps are written as empty ones, and nil pointers in structs are left out. The result is one
// line of valid UTF-8, whatever methods of the user write.
func marshal(v any) ([]byte, error) { return (*schema)(nil).marshal(v) }

// marshal is the function marshal for a value that s describes. If s is nil, the type of v is
// described first, but only if the JSON has a null.
func (s *schema) marshal(v any) ([]byte, error) {
	if s == nil || s.dynamic {
		if err := checkCycles(reflect.ValueOf(v), 0, 0); err != nil {
			return nil, err
		}
	}
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	raw := bytes.TrimSuffix(buf.Bytes(), []byte("\n"))
	if v != nil && bytes.Contains(raw, []byte("null")) {
		if s == nil {
			s, _ = derive(reflect.TypeOf(v), "", writing)
		}
		var err error
		if raw, err = s.fillEmpty(raw, reflect.ValueOf(v)); err != nil {
			return nil, err
		}
	}
	return singleLine(raw), nil
}

// addressable returns a pointer to a copy of v, so that encoding/json calls the methods of
// the pointer too. It returns nil if v is nil.
func addressable(v any) any {
	if v == nil {
		return nil
	}
	p := reflect.New(reflect.TypeOf(v))
	p.Elem().Set(reflect.ValueOf(v))
	return p.Interface()
}

// checkCycles returns an error if v contains itself. encoding/json detects a cycle that passes
// through a list, a map or a struct. A cycle of pointers and interfaces only, as in "var x any;
// x = &x", overflows the stack in Go 1.27, which ends the process. Depth counts the lists, maps
// and structs around v; hops counts the pointers and interfaces since the innermost of them.
func checkCycles(v reflect.Value, depth, hops int) (err error) {
	if depth > 2*maxDepth || hops > 1000 {
		return errors.New("the value contains itself, or is nested too deeply")
	}
	switch k := v.Kind(); {
	case k < reflect.Array || k == reflect.String || writesItself(v):
		// There is nothing inside that encoding/json would visit.
	case k == reflect.Pointer || k == reflect.Interface:
		err = checkCycles(v.Elem(), depth, hops+1)
	case k == reflect.Struct:
		for i := 0; i < v.NumField() && err == nil; i++ {
			if in := v.Field(i); in.Kind() >= reflect.Array && in.Kind() != reflect.String && isWritten(v.Type(), i) {
				err = checkCycles(in, depth+1, 0)
			}
		}
	case k == reflect.Map:
		for entry := v.MapRange(); err == nil && entry.Next(); {
			err = checkCycles(entry.Value(), depth+1, 0)
		}
	case k == reflect.Slice || k == reflect.Array:
		for i := 0; i < v.Len() && err == nil && v.Type().Elem().Kind() >= reflect.Array; i++ {
			err = checkCycles(v.Index(i), depth+1, 0)
		}
	}
	return err
}

// isWritten reports whether encoding/json looks at field i of the struct t. It does not
// if t embeds itself, because the fields of t hide those of the embedded one.
func isWritten(t reflect.Type, i int) bool {
	f := t.Field(i)
	return (f.IsExported() || f.Anonymous) && f.Tag.Get("json") != "-" && (!f.Anonymous || f.Type != reflect.PointerTo(t))
}

// writesItself reports whether encoding/json calls a method of v instead of looking at
// what is inside.
func writesItself(v reflect.Value) bool {
	t := v.Type()
	if v.CanAddr() {
		t = reflect.PointerTo(t)
	}
	return t.Implements(reflect.TypeFor[json.Marshaler]()) || t.Implements(reflect.TypeFor[encoding.TextMarshaler]())
}

// appendBlock appends a block of content, and a comma.
func (c Content) appendBlock(b []byte) (_ []byte, err error) {
	switch {
	case c.Type == "text" || c.Type == "":
		b = stringMember(join(b, `{"type":"text",`), "text", c.Text)
	case (c.Type == "image" || c.Type == "audio") && len(c.Data) > 0 && c.MIMEType != "":
		b = base64.StdEncoding.AppendEncode(join(b, `{"type":"`, c.Type, `","data":"`), c.Data)
		b = stringMember(join(b, `",`), "mimeType", c.MIMEType)
	case c.Type == "image" || c.Type == "audio": // the model's provider would refuse the rest of the conversation
		return nil, fmt.Errorf("content of type %q needs data and a MIME type", c.Type)
	case c.Type == "resource_link" && c.Link != nil:
		link := *c.Link // its annotations and _meta would be in the place of the block's
		if c.Meta == nil {
			c.Meta = link.Meta
		}
		if reflect.ValueOf(c.Annotations).IsZero() {
			c.Annotations = link.Annotations
		}
		link.Annotations, link.Meta = Annotations{}, nil
		raw, err := marshal(link)
		if err != nil {
			return nil, err
		}
		b = join(b, `{"type":"resource_link",`, string(raw[1:len(raw)-1]), ",")
	case c.Type == "resource" && c.Resource != nil:
		if b, err = c.Resource.appendContents(join(b, `{"type":"resource","resource":`)); err != nil {
			return nil, err
		}
	default:
		return nil, fmt.Errorf("content of type %q is unknown or incomplete", c.Type)
	}
	if !reflect.ValueOf(c.Annotations).IsZero() {
		annotations, err := marshal(c.Annotations)
		if err != nil {
			return nil, err
		}
		b = rawMember(b, "annotations", annotations)
	}
	meta, err := jsonOf(c.Meta)
	return closeWith(rawMember(b, "_meta", meta), "},"), err
}

// appendContents appends the contents of a resource, and a comma.
func (r *ResourceContents) appendContents(b []byte) ([]byte, error) {
	b = optionalMember(stringMember(append(b, '{'), "uri", r.URI), "mimeType", r.MIMEType)
	if r.Blob != nil {
		b = join(base64.StdEncoding.AppendEncode(join(b, `"blob":"`), r.Blob), `",`)
	} else {
		b = stringMember(b, "text", r.Text)
	}
	meta, err := jsonOf(r.Meta)
	return closeWith(rawMember(b, "_meta", meta), "},"), err
}

// singleLine replaces what a MarshalJSON may have written: invalid UTF-8, and characters that
// some programs take for the end of a line.
func singleLine(raw []byte) []byte {
	if !utf8.Valid(raw) {
		raw = bytes.ToValidUTF8(raw, []byte("\ufffd"))
	}
	for _, end := range [][2]string{{"\u2028", `\u2028`}, {"\u2029", `\u2029`}} {
		if bytes.Contains(raw, []byte(end[0])) {
			raw = bytes.ReplaceAll(raw, []byte(end[0]), []byte(end[1]))
		}
	}
	return raw
}

// fillEmpty returns raw, which encoding/json has written for v, with its nulls replaced. If v
// itself is a nil pointer, raw stays null.
func (s *schema) fillEmpty(raw []byte, v reflect.Value) (filled []byte, err error) {
	if v = pointee(v); string(raw) == "null" {
		return []byte(s.emptyValue(v.Type())), nil
	}
	filled, _, err = s.appendFilled(make([]byte, 0, len(raw)), raw, 0, v)
	return filled, err
}

// emptyValue returns what is sent for a null that encoding/json has written for a value of type
// t, which s describes.
func (s *schema) emptyValue(t reflect.Type) string {
	switch {
	case t.Kind() == reflect.Pointer: // nil as a whole
	case s.encoding != "":
		return `""`
	case t.Kind() == reflect.Slice && s.elem != nil:
		return "[]"
	case t.Kind() == reflect.Map && (s.elem != nil || s.free):
		return "{}"
	}
	return "null"
}

// appendFilled appends the value that begins at raw[i] and that encoding/json has written
// for v, and returns its end. A value that writes itself, or that an interface holds, is
// appended unchanged. The text does not tell a nil pointer from a pointer to a value that
// is written as null, but v does.
func (s *schema) appendFilled(b, raw []byte, i int, v reflect.Value) (_ []byte, end int, err error) {
	if raw[i] != '{' && raw[i] != '[' || s.elem == nil && s.fields == nil {
		end := scan(raw, i, 0)
		return append(b, raw[i:end]...), end, nil
	}
	if v = pointee(v); v.Kind() == reflect.Pointer { // the value was not found
		v = reflect.Zero(s.typ)
	}
	object, closer := raw[i] == '{', raw[i]+2 // '{'+2 is '}', and '['+2 is ']'
	b = append(b, raw[i])
	i++
	for n := 0; raw[i] != closer && err == nil; n++ {
		start, name := len(b), []byte(nil)
		if object {
			end := scan(raw, i, 0)
			name = raw[i:end]
			b = append(b, raw[i:end+1]...) // with its colon
			i = end + 1
		}
		inner, in := s.innerValue(v, name, n)
		if raw[i] != 'n' {
			b, i, err = inner.appendFilled(b, raw, i, in)
			b = append(b, ',')
		} else if i, in = i+len("null"), pointee(in); in.Kind() != reflect.Pointer {
			b = join(b, inner.emptyValue(in.Type()), ",")
		} else if s.elem == nil {
			b = b[:start] // a nil pointer in a struct is left out
		} else if b = join(b, "null,"); inner.kind == "object" {
			err = fmt.Errorf("%s has a nil element, where the schema has an object", typeName(s.typ))
		}
		if raw[i] == ',' {
			i++
		}
	}
	return append(closeWith(b), closer), i + 1, err
}

// innerValue returns element n of v, which s describes, or the member of v that is called name,
// and its schema. If there is none, the value is zero.
func (s *schema) innerValue(v reflect.Value, name []byte, n int) (*schema, reflect.Value) {
	text, _ := unquote(name)
	if s.elem != nil {
		if v.Kind() != reflect.Map && n < v.Len() {
			return s.elem.schema, v.Index(n)
		} else if v.Kind() == reflect.Map {
			if in := v.MapIndex(s.mapKey(name, text)); in.IsValid() {
				return s.elem.schema, in
			}
		}
		return s.elem.schema, reflect.Zero(s.typ.Elem())
	}
	i := slices.IndexFunc(s.fields, func(f *field) bool { return f.name == text })
	if i < 0 { // encoding/json of another version of Go may read an unusual tag differently
		return &schema{}, reflect.Zero(reflect.TypeFor[any]())
	}
	in := fieldOf(v, s.fields[i].index) // allocates nothing: no pointer on the way is nil, because the field was written
	if !in.IsValid() {
		in = reflect.Zero(s.fields[i].typ)
	}
	return s.fields[i].schema, in
}

// mapKey returns the map key that encoding/json has written as name. The parameter text is name
// without quotes.
func (s *schema) mapKey(name []byte, text string) reflect.Value {
	key := reflect.New(s.typ.Key())
	if key.Elem().Kind() == reflect.String {
		key.Elem().SetString(text)
	} else if json.Unmarshal(name, key.Interface()) != nil { // without an UnmarshalText, the key is a number
		json.Unmarshal([]byte(text), key.Interface())
	}
	return key.Elem()
}

// ---- JSON ----

// Lines from the client are parsed by a scanner of this package, because encoding/json
// matches names without regard to case and does not keep ids as they were written. The
// scanner matches names byte for byte. Otherwise it is as strict as encoding/json, against
// which it is fuzzed. When Go 1.27 is the oldest supported release, encoding/json/jsontext
// can replace it.
//
// walk validates a value and visits its members. scan, members, member and extract are
// all made of it.

// scan returns the index after the value that begins at b[i], or -1 if it is not
// valid JSON. It does not check UTF-8. The argument depth is the number of containers
// around the value.
func scan(b []byte, i, depth int) int { return walk(b, i, depth, nil) }

// walk is scan, and calls visit, unless it is nil, with each member of an object, or with
// each element of an array and a nil name. If visit returns false, walk returns -1.
func walk(b []byte, i, depth int, visit func(name, val []byte) bool) int {
	if i >= len(b) {
		return -1
	}
	switch b[i] {
	case '{', '[':
		return walkContainer(b, i, depth+1, visit)
	case '"':
		return scanString(b, i)
	case 't':
		return scanWord(b, i, "true")
	case 'f':
		return scanWord(b, i, "false")
	case 'n':
		return scanWord(b, i, "null")
	}
	return scanNumber(b, i)
}

// walkContainer is walk for an object or an array.
func walkContainer(b []byte, i, depth int, visit func(name, val []byte) bool) int {
	object, closer := b[i] == '{', b[i]+2 // '{'+2 is '}', and '['+2 is ']'
	if depth > maxDepth {
		return -1
	}
	if i = skipSpace(b, i+1); i < len(b) && b[i] == closer {
		return i + 1
	}
	for i < len(b) {
		var key []byte
		if object {
			if key, i = scanKey(b, i); i < 0 {
				return -1
			}
		}
		end := scan(b, i, depth)
		if end < 0 || visit != nil && !visit(unquoteBytes(key), b[i:end]) {
			return -1
		}
		if i = skipSpace(b, end); i == len(b) || b[i] != ',' {
			break
		}
		i = skipSpace(b, i+1)
	}
	if i < len(b) && b[i] == closer {
		return i + 1
	}
	return -1
}

// scanKey returns a key with its quotes, and the index of its value, or -1.
func scanKey(b []byte, i int) (key []byte, value int) {
	end := scanString(b, i)
	if end < 0 {
		return nil, -1
	}
	key = b[i:end]
	if i = skipSpace(b, end); i == len(b) || b[i] != ':' {
		return nil, -1
	}
	return key, skipSpace(b, i+1)
}

// unquoteBytes returns the text of a valid JSON string, given with its quotes, or nil for
// nil. It copies the text only if it holds escapes.
func unquoteBytes(quoted []byte) []byte {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return bytes.Trim(quoted, `"`)
	}
	text, _ := unquote(quoted)
	return []byte(text)
}

// members returns an iterator over the members of an object, or over the elements of an
// array, whose names are nil. It ends where b is not valid JSON.
func members(b []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(name, val []byte) bool) { walk(b, 0, 0, yield) }
}

// A want names a member to extract, and where to store its value.
type want struct {
	name string
	to   *[]byte
}

// extract stores the wanted members of an object, and reports whether b is valid JSON. If
// there are several of one name, the last one counts, as in encoding/json.
func extract(b []byte, wanted ...want) (valid bool) {
	return len(b) > 0 && len(b) == walk(b, 0, 0, func(name, val []byte) bool {
		for _, w := range wanted {
			if w.name == string(name) {
				*w.to = val
			}
		}
		return true
	})
}

// member returns a member of an object, or nil if there is none.
func member(object []byte, name string) (val []byte) {
	extract(object, want{name, &val})
	return val
}

// skipSpace returns the index of the first byte of b[i:] that is not a blank.
func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\t' || b[i] == '\r' || b[i] == '\n') {
		i++
	}
	return i
}

// trimEnd removes blanks from the end.
func trimEnd(b []byte) []byte {
	return bytes.TrimRight(b, " \t\r\n")
}

// scanWord is scan for true, false and null.
func scanWord(b []byte, i int, word string) int {
	if end := i + len(word); end <= len(b) && string(b[i:end]) == word {
		return end
	}
	return -1
}

// scanString is scan for a string, in which control characters and unknown escapes
// are invalid.
func scanString(b []byte, i int) int {
	if b[i] != '"' {
		return -1
	}
	for i++; ; i++ {
		i = skipPlain(b, i)
		switch {
		case i == len(b) || b[i] < ' ':
			return -1
		case b[i] == '"':
			return i + 1
		}
		if i++; i == len(b) { // the byte after a backslash
			return -1
		}
		if b[i] == 'u' {
			if i += 4; i >= len(b) || !isHex(b[i-3:i+1]) {
				return -1
			}
		} else if meaningOf[b[i]] == 0 {
			return -1
		}
	}
}

// isHex reports whether all bytes of b are hexadecimal digits.
func isHex(b []byte) bool {
	for _, c := range b {
		if !('0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'f') {
			return false
		}
	}
	return true
}

// skipPlain returns the index of the first quote, backslash or control character in
// s[i:], or len(s). It examines eight bytes at a time, because texts may be long.
func skipPlain[T string | []byte](s T, i int) int {
	const each = 0x0101010101010101
	for ; i < len(s)-7; i += 8 {
		w := uint64(s[i]) | uint64(s[i+1])<<8 | uint64(s[i+2])<<16 | uint64(s[i+3])<<24 |
			uint64(s[i+4])<<32 | uint64(s[i+5])<<40 | uint64(s[i+6])<<48 | uint64(s[i+7])<<56
		low, backslash := w^each*2, w^each*'\\' // in low, '"' becomes ' ', which is just above the control characters
		// In (x-each*n) &^ x, the highest bit of a byte is set if the byte is below n.
		// Matches above the lowest one may be false, so only the lowest is used.
		if below := ((low-each*('"'^2+1))&^low | (backslash-each)&^backslash) & (each << 7); below != 0 {
			return i + bits.TrailingZeros64(below)/8
		}
	}
	for i < len(s) && s[i] >= ' ' && s[i] != '"' && s[i] != '\\' {
		i++
	}
	return i
}

// scanNumber is scan for a number. A number has digits on both sides of its point, and
// no leading zeros.
func scanNumber(b []byte, i int) int {
	if b[i] == '-' {
		i++
	}
	start := i
	if i = skipDigits(b, i); i == start || b[start] == '0' && i > start+1 {
		return -1
	}
	if i < len(b) && b[i] == '.' {
		start = i + 1
		if i = skipDigits(b, start); i == start {
			return -1
		}
	}
	if i < len(b) && (b[i] == 'e' || b[i] == 'E') {
		if i++; i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		start = i
		if i = skipDigits(b, start); i == start {
			return -1
		}
	}
	return i
}

// skipDigits returns the index after the decimal digits that begin at b[i].
func skipDigits(b []byte, i int) int {
	for i < len(b) && '0' <= b[i] && b[i] <= '9' {
		i++
	}
	return i
}

// isValidID reports whether raw, which is valid JSON, is a string or an integer.
func isValidID(raw []byte) bool {
	if len(raw) == 0 || raw[0] == '"' {
		return len(raw) > 0
	}
	raw = bytes.TrimPrefix(raw, []byte("-"))
	fraction := raw[skipDigits(raw, 0):]
	return len(fraction) == 0 || string(bytes.TrimRight(fraction, "0")) == "." // 5.0 is an integer
}

// unquote returns the text of raw, which is valid JSON or nil, and reports whether
// raw is a string.
func unquote(raw []byte) (s string, ok bool) {
	if len(raw) < 2 || raw[0] != '"' {
		return "", false
	}
	raw = raw[1 : len(raw)-1]
	i := bytes.IndexByte(raw, '\\')
	if i < 0 {
		return string(raw), true
	}
	var b strings.Builder
	b.Grow(len(raw))
	for ; i >= 0; i = bytes.IndexByte(raw, '\\') {
		b.Write(raw[:i])
		if raw = raw[i:]; raw[1] == 'u' {
			raw = writeCodePoint(&b, raw)
		} else {
			b.WriteByte(meaningOf[raw[1]])
			raw = raw[2:]
		}
	}
	b.Write(raw)
	return b.String(), true
}

// meaningOf maps the letter after a backslash to the byte that the escape stands for.
// letterOf maps a byte to the letter of the escape that is written for it. 0 means
// that there is none.
var (
	meaningOf = [256]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}
	letterOf  = [256]byte{'"': '"', '\\': '\\', '\b': 'b', '\f': 'f', '\n': 'n', '\r': 'r', '\t': 't'}
)

// writeCodePoint writes the character of the escape \u... with which raw begins, and
// returns the text after it. Two escapes that form a surrogate pair are one character. A
// surrogate without its pair becomes U+FFFD.
func writeCodePoint(b *strings.Builder, raw []byte) (rest []byte) {
	r := parseCodeUnit(raw)
	raw = raw[len(`\u0000`):]
	if utf16.IsSurrogate(r) && bytes.HasPrefix(raw, []byte(`\u`)) {
		if whole := utf16.DecodeRune(r, parseCodeUnit(raw)); whole != utf8.RuneError {
			r, raw = whole, raw[len(`\u0000`):]
		}
	}
	b.WriteRune(r)
	return raw
}

// parseCodeUnit returns the number in the valid escape \u... with which b begins.
func parseCodeUnit(b []byte) (unit rune) {
	for _, digit := range b[2:6] {
		value := digit - '0'
		if digit > '9' {
			value = digit | 0x20 - 'a' + 10 // 'A' | 0x20 is 'a'
		}
		unit = unit<<4 + rune(value)
	}
	return unit
}

// reserve returns b with room for n more bytes. For a long line it uses the memory of
// an earlier one if it can.
func reserve(b []byte, n int) []byte {
	if cap(b)-len(b) < n && len(b)+n > keepBuffer {
		used, _ := longLines.Get().(*[]byte)
		if used != nil && cap(*used)-len(b) >= n {
			return append((*used)[:0], b...)
		}
	}
	return slices.Grow(b, n)
}

// appendString appends s as a JSON string, byte for byte as encoding/json does
// without HTML escapes. It leaves text that is not UTF-8, and U+2028 and U+2029, to
// encoding/json.
func appendString(b []byte, s string) []byte {
	if !utf8.ValidString(s) || strings.Contains(s, "\u2028") || strings.Contains(s, "\u2029") {
		raw, _ := marshal(s) // a string cannot fail
		return append(b, raw...)
	}
	b = append(reserve(b, len(s)+len(s)/16+2), '"') // reserved once, with room for some escapes
	for at := 0; ; at++ {
		end := skipPlain(s, at)
		b = append(b, s[at:end]...)
		if end == len(s) {
			return append(b, '"')
		}
		at = end
		if letter := letterOf[s[at]]; letter != 0 {
			b = append(b, '\\', letter)
		} else {
			b = fmt.Appendf(b, `\u%04x`, s[at])
		}
	}
}

// appendCompact appends JSON of the user or the client, in one line and without
// blanks.
func appendCompact(b, raw []byte) ([]byte, error) {
	var buf bytes.Buffer
	if err := json.Compact(&buf, raw); err != nil {
		return nil, fmt.Errorf("not valid JSON: %w", err)
	} else if !utf8.Valid(raw) {
		return nil, errors.New("not valid JSON: not UTF-8")
	}
	return append(b, singleLine(buf.Bytes())...), nil
}

// closeWith removes the comma after the last member, and appends parts.
func closeWith(b []byte, parts ...string) []byte {
	return join(bytes.TrimSuffix(b, []byte(",")), parts...)
}

// join appends all parts to b. It must not be inlined: that makes a program 37 KB
// larger.
//
//go:noinline
func join(b []byte, parts ...string) []byte {
	for _, p := range parts {
		b = append(b, p...)
	}
	return b
}

// stringMember appends a string member and a comma. closeWith removes the comma after
// the last member.
func stringMember(b []byte, name, val string) []byte {
	return append(appendString(join(b, `"`, name, `":`), val), ',')
}

// optionalMember is stringMember for a member that is left out if val is empty.
func optionalMember(b []byte, name, val string) []byte {
	if val == "" {
		return b
	}
	return stringMember(b, name, val)
}

// rawMember appends a member whose value is JSON, and a comma. It appends nothing if
// val is empty.
func rawMember(b []byte, name string, val []byte) []byte {
	if len(val) == 0 {
		return b
	}
	b = slices.Grow(b, len(name)+len(val)+8) // at once, because val may be large
	return append(append(join(b, `"`, name, `":`), val...), ',')
}
