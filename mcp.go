// SPDX-License-Identifier: MIT
// Version 2.4.0, 2026-11-23

// Package mcp is a Model Context Protocol server over stdin and stdout, in
// three files that are made to be copied into a program. It needs Go 1.25, and
// nothing but the standard library.
//
// This is a whole server:
//
//	package main
//
//	import (
//		"context"
//		"log"
//
//		"example.com/mcp"
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
//		mcp.AddTool(s, mcp.Tool{Name: "greet", Description: "Greets somebody."}, greet)
//		if err := s.ServeStdio(context.Background()); err != nil {
//			log.Fatal(err)
//		}
//	}
//
// # Tools
//
// A tool is an ordinary function. [AddTool] derives the schema of its arguments
// from its parameter, and checks them before it calls the function. Handlers
// run concurrently: guard what they share, or, where there is one client, as under
// [Server.ServeStdio], set [Server.MaxConcurrent] to 1.
// A handler may run on a goroutine on which others ran before. What it does to
// its goroutine, as with [runtime.LockOSThread], it must undo.
//
// Say what a tool does with [ToolAnnotations]. When nobody is there to be asked,
// hosts such as Codex refuse every tool that does not declare ReadOnlyHint Yes,
// or DestructiveHint No and OpenWorldHint No.
//
// Resources, with [Server.AddResource], are what clients can read. Prompts, with
// [Server.AddPrompt], are what their users can start from.
//
// # In a handler
//
// [Progress] tells how far it has come, [LogHandler] logs to the client, and
// [RequestFrom] knows who is asking. [Elicit], [ElicitURL], [Sample] and [Roots]
// ask back. How that is done differs by revision of the protocol; the handler is
// the same. Outside of a handler, as in a test that calls one by itself, these
// functions do nothing, or return an error that is [errors.ErrUnsupported].
//
// A handler that deletes or sends something asks for consent with a boolean
// that has the tag default:"false": some hosts preselect true otherwise. See
// [Elicit].
//
// # Cancellation
//
// A handler's context ends when the client cancels the request or goes away.
// [context.Cause] tells why: a [*CancelledError]; [ErrClosed]; the error of a Read
// or Write that failed; what ended the context that was given to [Server.Serve];
// under [Server.ServeStdio], after a signal, an error that names the signal. When
// the session ends, the handler has [Server.Drain] to clean up and return.
//
// # Protocol
//
// Five revisions are served. Those from 2024-11-05 to 2025-11-25 open a session
// with initialize; the code calls them the legacy era. In 2026-07-28, the modern
// era, each request speaks for itself. One connection may carry both: a session,
// and modern requests besides.
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
	"iter"
	"log"
	"log/slog"
	"maps"
	"math"
	"math/bits"
	"math/rand/v2"
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

// A Server is what is offered to clients. Set its fields before it serves and
// leave them alone from then on; what it offers may come and go at any time. A
// Server must not be copied.
type Server struct {
	Name    string // required: for programs
	Version string // required

	Title        string // for people
	Instructions string // for the model: how the tools go together
	WebsiteURL   string
	Icons        []Icon

	// Drain bounds how long Serve waits for handlers, and for the client to
	// take what is written, after the handlers were cancelled. 0 means one
	// second. A client that has not taken everything by then is given a tenth of it
	// more, 100 ms at most.
	Drain time.Duration

	// Linger is how long handlers may go on after the client has closed its
	// end, before they are cancelled. 0 means not at all. Their questions to the
	// client are at an end in any case.
	Linger time.Duration

	// MaxConcurrent is how many handlers of one session run at once; further
	// requests wait, without bound, and are served in the order of their arrival. 0
	// means no limit.
	MaxConcurrent int

	// MaxMessage is how many bytes one line of the client may have: a message, or
	// a batch of them. A longer one is refused without being kept. 0 means 64 MiB.
	MaxMessage int

	// PageSize is how many items are sent in one page of a list. 0 means all.
	PageSize int

	// CacheTTL is how long a client of revision 2026-07-28 may keep lists, the
	// contents of resources, and what the server says of itself; CachePublic is set
	// if all users may share all of these.
	CacheTTL    time.Duration
	CachePublic bool

	// Logging is set if handlers log to the client, with [LogHandler].
	Logging bool

	// Extensions and Experimental are capabilities to declare, by their names, to
	// clients of every revision.
	Extensions, Experimental map[string]any

	// ErrorLog takes the library's own diagnostics: bad messages, panics of
	// handlers, requests that the client has cancelled. nil means the standard
	// logger of package log. More than 20 a second of one session are dropped, and
	// so are all when 64 KiB of them are waiting for an earlier one to be written.
	ErrorLog *log.Logger

	mu       sync.Mutex              // guards what follows
	items    [kinds]map[string]*item // by name
	lists    [kinds][]*item          // what inOrder has returned; nil: it is to be made anew
	lastSeq  int
	hides    bool    // there ever was a tool with Shown
	offered  kindSet // what add was called with; a kind is never taken out
	sessions map[*session]struct{}
	schemas  map[reflect.Type]*schema // of arguments
	seed     maphash.Seed             // of the checksums of requestStates; made with the first session
}

// An Icon is a picture for people to recognise something by. Src is an https,
// http or data URI; Sizes holds values such as "48x48" or "any"; Theme is "light"
// or "dark".
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
	Name         string          // required: 1 to 128 of A-Z a-z 0-9 _ - .
	Title        string          // for people
	Description  string          // for the model
	InputSchema  json.RawMessage // nil: derived from the handler's parameter; else see AddTool
	OutputSchema json.RawMessage // nil: derived if the handler returns a struct or a map
	Annotations  ToolAnnotations
	Icons        []Icon
	Meta         map[string]any

	// Shown reports whether the client that sent a request may know the tool; nil
	// means everybody. To others the tool is not listed, and not known when they
	// call it. It is called for each list and each call, from several goroutines at
	// once. So a list of tools is no longer cached, and waits for its turn under
	// [Server.MaxConcurrent] as a call does. When what Shown says has changed, add the
	// tool again: that tells the clients.
	Shown func(*Request) bool
}

// ToolAnnotations are hints on what a tool does. Hosts use them, say, to
// decide whether to ask the user first. When nobody can be asked, Codex and
// others refuse a tool that has neither ReadOnlyHint Yes, nor DestructiveHint No
// with OpenWorldHint No.
type ToolAnnotations struct {
	Title           string `json:"title,omitempty"`
	ReadOnlyHint    Hint   `json:"readOnlyHint,omitempty"`    // changes nothing; hosts assume No
	DestructiveHint Hint   `json:"destructiveHint,omitempty"` // may undo or delete; hosts assume Yes
	IdempotentHint  Hint   `json:"idempotentHint,omitempty"`  // twice is the same as once; hosts assume No
	OpenWorldHint   Hint   `json:"openWorldHint,omitempty"`   // deals with the outside world; hosts assume Yes
}

// A Hint is Yes, No, or, by default, not given.
type Hint uint8

const (
	Yes Hint = iota + 1
	No
)

// MarshalJSON returns true for Yes, and false otherwise.
func (h Hint) MarshalJSON() ([]byte, error) { return strconv.AppendBool(nil, h == Yes), nil }

// A Result is everything that a tool can return.
type Result struct {
	Content           []Content
	StructuredContent any  // marshalled as JSON; nil: none, which is an error if the tool has an OutputSchema
	IsError           bool // the model is told that the call failed
	Meta              map[string]any
}

// A Content is one block of what a tool returns: use [Text], [Image], [Audio],
// [ResourceLink] or [EmbeddedResource]. Clients whose protocol revision does
// not know the type are sent a text in its place.
type Content struct {
	Type        string // "text", "image", "audio", "resource_link" or "resource"; "" is text
	Text        string
	Data        []byte // of an image or audio
	MIMEType    string // of Data
	Link        *Resource
	Resource    *ResourceContents
	ToolUse     *ToolUse    // of a "tool_use", in conversations with a model
	ToolResult  *ToolResult // of a "tool_result", likewise
	Annotations *Annotations
	Meta        map[string]any
}

// A ToolUse is a model's wish to call a tool.
type ToolUse struct {
	ID    string
	Name  string
	Input json.RawMessage // an object
}

// A ToolResult is the answer to a [ToolUse].
type ToolResult struct {
	ID     string // of the ToolUse
	Result Result
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

// ResourceLink returns a pointer to a resource that the client may read.
func ResourceLink(r Resource) Content { return Content{Type: "resource_link", Link: &r} }

// EmbeddedResource returns the contents of a resource themselves.
func EmbeddedResource(r ResourceContents) Content { return Content{Type: "resource", Resource: &r} }

// A Resource describes something that can be read, or a whole family of it:
// if the URI has variables in braces it is a template.
type Resource struct {
	URI         string // required: "file:///notes.txt", "note://{id}", "file:///{+path}"; see AddResource
	Name        string // required
	Title       string
	Description string
	MIMEType    string
	Size        int64 // in bytes
	Annotations *Annotations
	Icons       []Icon
	Meta        map[string]any

	// Complete suggests values for the variables of a template, by name.
	Complete map[string]CompleteFunc
}

// ResourceContents is what reading a resource gives: a Blob if that is not
// nil, and Text otherwise. Where they are empty, a [ReadFunc]'s URI is the one
// that is read and its MIMEType that of the [Resource].
type ResourceContents struct {
	URI      string
	MIMEType string
	Text     string
	Blob     []byte
	Meta     map[string]any
}

// A ReadFunc reads a resource. Vars holds the values of the variables of a
// template: percent-decoded, never empty, and such that they cannot lead out of
// where they stand. {name} has no slash, and no value makes a "." or ".."
// between slashes, neither by itself nor with what stands beside it in the URI.
// The value of {+name} may begin with a slash, though: [os.Root] is how to keep
// to a directory. An error that is [fs.ErrNotExist] says that there is no such
// resource; any other is told to the client as it stands.
type ReadFunc func(ctx context.Context, uri string, vars map[string]string) ([]ResourceContents, error)

// A CompleteFunc suggests values that begin with, or are like, what was typed
// so far, the best first; no more than 100 are sent. Known holds the other
// arguments that have a value already. Typed and known are what the client says,
// unchecked: unlike the variables of a ReadFunc, they may hold slashes and "..". An
// error is told to the client as it stands.
type CompleteFunc func(ctx context.Context, typed string, known map[string]string) ([]string, error)

// A Prompt is a message, or several, that a user may start from.
type Prompt struct {
	Name        string // required
	Title       string
	Description string
	Arguments   []Argument
	Icons       []Icon
	Meta        map[string]any
}

// An Argument is what a user fills in.
type Argument struct {
	Name        string // required
	Title       string
	Description string
	Required    bool
	Complete    CompleteFunc // suggests values; may be nil
}

// A Message is one turn of a conversation.
type Message struct {
	Role    string // "user" or "assistant"; "" is user
	Content Content
}

// A PromptFunc makes the messages of a prompt. The required arguments are
// there, and no others than the prompt has. Its error is told to the client as
// it stands.
type PromptFunc func(ctx context.Context, args map[string]string) ([]Message, error)

// Annotations say for whom something is and how much it matters.
type Annotations struct {
	Audience     []string `json:"audience,omitempty"`     // "user", "assistant"
	Priority     *float64 `json:"priority,omitempty"`     // from 0 to 1, most important; nil: not given
	LastModified string   `json:"lastModified,omitempty"` // as in RFC 3339
}

// An Error, returned by a handler, becomes an error of the protocol: the call
// as such was wrong. Any other error of a tool is shown to the model, which
// can do something about it.
type Error struct {
	// Code says what kind of error it is. Your own codes are outside of -32768
	// to -32000; 0 is sent as -32603. So is a code from -32099 to -32020, which
	// the protocol reserves, unless the client's revision has it for servers;
	// that is reported to ErrorLog. -32002, not found, is -32602 in 2026-07-28.
	Code    int
	Message string
	Data    any // marshalled as JSON; nil: none
}

func (e *Error) Error() string {
	if e == nil {
		return "mcp: a nil *Error was returned as an error"
	}
	return e.Message
}

// Is reports whether e says that the client cannot be asked, which is
// [errors.ErrUnsupported] in Go's words.
func (e *Error) Is(target error) bool {
	return e != nil && e.Code == codeCapability && target == errors.ErrUnsupported
}

// ---- tools ----

// AddTool adds a tool, or replaces the one of the same name, and tells the
// clients that are connected. It may be called at any time, also by a handler. A
// client that connected before there ever was a tool is not told, since none were
// declared to it; so it is with resources and prompts.
//
// In is a struct, or a map with string keys, and the schema of the arguments
// is derived from it; see [SchemaOf]. The arguments are checked before h is
// called: what is missing, unknown, of a wrong type or out of range is told to
// the model in one line. "5" is accepted for a number, "true" for a boolean, and
// an array or object sent as a JSON string, because models send them; a string
// is never made of anything else. The argument wait_for_previous, which Gemini
// CLI sends with every tool, is dropped unless it is described.
//
// If t.InputSchema is set it is sent as it stands. Of it, "required" and
// "additionalProperties":false at its root are enforced, and beside that the
// types and bounds of In, as far as In can be described; what cannot be
// described, such as a json.RawMessage, is read by encoding/json. A null for a field that
// can be described counts as given, whatever the schema says, and sets it to its default
// if it has one.
//
// Out decides what becomes of the result: a string is a text; [Content] and
// []Content are blocks; [*Result] is everything by hand; struct{} is nothing;
// any other type is structured output and the same JSON as a text. Where the
// revision wants an object, {"result":...} stands around what is none. Of such a
// value, nil slices and maps are sent as empty ones, and nil pointers not at all; what
// an interface holds is written as encoding/json does. If Out is a struct or a map that
// can be described, and t.OutputSchema is nil, the output schema is derived from it
// too; a pointer may be nil, which is no result, so from one nothing is derived. If Out
// is any, what it holds decides, from call to call.
//
// An error of h is a result that the model can read, with exactly the error's
// text, unless it is an [*Error]. If h returns the error of its context, the
// text is that of the context's cause.
//
// AddTool panics if h is nil, if the name breaks the protocol's rule, if a schema, a
// tag or another field makes no sense, if Out has no structured output but
// t.OutputSchema is set, if the JSON of In is a string, a number, a boolean or a list,
// and if In cannot be described, unless t.InputSchema is set. Names that some hosts
// refuse, over 64 bytes or with a dot, are reported to ErrorLog.
func AddTool[In, Out any](s *Server, t Tool, h func(context.Context, In) (Out, error)) {
	s.addTool(&t, reflect.TypeFor[In](), reflect.TypeFor[Out](), h != nil, func(r *request, in *rules, out *schema) []byte {
		var call struct { // both are pointed to: one piece of memory holds them
			in  In
			out Out
		}
		err := in.unmarshal(r.arguments, &call.in)
		if err != nil {
			return r.textAnswer("Invalid arguments: "+err.Error(), nil, true)
		}
		if call.out, err = h(r.ctx, call.in); err != nil {
			return r.failureAnswer(err)
		}
		return r.toolAnswer(&call.out, out)
	})
}

// addTool is the part of AddTool that does not depend on the types.
func (s *Server) addTool(t *Tool, from, to reflect.Type, hasHandler bool, call func(r *request, in *rules, out *schema) []byte) {
	where := fmt.Sprintf("mcp: tool %q", t.Name)
	panicUnless(hasHandler, where, "the handler is missing")
	checkTool(s, where, t)
	in := &rules{}
	if t.InputSchema != nil {
		in.byHand = rootRulesOf(t.InputSchema, where)
		in.schema, _ = derive(from, where, reading)
	} else {
		in.schema = s.inputSchema(from, where+": In")
		t.InputSchema = in.schema.sentAs
	}
	panicUnless(in.schema.kind == "object" || in.schema.kind == "", where, "In must be a struct or a map")
	out := outputSchema(t, to, where+": Out")
	s.add(tools, where, t.Icons, t.Meta, &item{
		name:   t.Name,
		encode: t.encode,
		shown:  t.Shown,
		handler: func(r *request) []byte {
			if r.arguments == nil {
				r.arguments = []byte("{}")
			}
			switch {
			case t.Shown != nil && !t.Shown(r.public()):
				return errorLine(r.id, coded(codeParams, "Unknown tool: "+excerpt(r.name)))
			case r.arguments[0] != '{':
				return errorLine(r.id, badParams("arguments must be an object"))
			}
			return call(r, in, out)
		},
		wraps:    t.wraps(),
		promises: t.OutputSchema != nil,
	})
}

// inputSchema describes the arguments of a tool, once for each type.
func (s *Server) inputSchema(t reflect.Type, where string) *schema {
	s.mu.Lock()
	known := s.schemas[t]
	s.mu.Unlock()
	if known != nil {
		return known
	}
	known = mustDerive(t, where, reading)
	known.sentAs = known.render()
	s.mu.Lock()
	if s.schemas == nil {
		s.schemas = make(map[reflect.Type]*schema)
	}
	s.schemas[t] = known
	s.mu.Unlock()
	return known
}

// outputSchema describes the results of a tool, and sets its OutputSchema if
// there is none and one can be derived.
func outputSchema(t *Tool, to reflect.Type, where string) *schema {
	switch to {
	case reflect.TypeFor[string](), reflect.TypeFor[Content](), reflect.TypeFor[[]Content](), reflect.TypeFor[*Result](), reflect.TypeFor[struct{}]():
		panicUnless(t.OutputSchema == nil || to == reflect.TypeFor[*Result](), where, "there is no structured output, which OutputSchema promises")
		return nil
	}
	base := to
	for depth := 0; depth < 10 && (base.Kind() == reflect.Pointer || base.Kind() == reflect.Slice); depth++ { // it may be a list of itself
		base = base.Elem()
	}
	panicUnless(base != reflect.TypeFor[Result]() && base != reflect.TypeFor[Content](), where, "write *mcp.Result, mcp.Content or []mcp.Content instead of "+to.String())
	if t.OutputSchema != nil || to.Kind() != reflect.Struct && to.Kind() != reflect.Map {
		s, _ := derive(to, where, writing)
		return s
	}
	s, err := derive(to, where, writing|sent)
	if err == nil && s.kind == "object" {
		t.OutputSchema = s.render()
	}
	return s
}

// checkTool panics if there is something wrong with t.
func checkTool(s *Server, where string, t *Tool) {
	panicUnless(madeOf(t.Name, "_-."), where, "the name must be made of A-Z, a-z, 0-9, _, - and .")
	panicUnless(len(t.Name) > 0 && len(t.Name) <= 128, where, "the name must have 1 to 128 bytes")
	if len(t.Name) > 64 || strings.IndexByte(t.Name, '.') >= 0 {
		s.logf("%s: some hosts refuse names of more than 64 bytes, or with a dot", where)
	}
	panicUnless(t.compactSchemas(), where, "a schema must be a JSON object")
	panicUnless(t.InputSchema == nil || rootType(t.InputSchema) == "object", where, `InputSchema must have "type": "object"`)
}

// compactSchemas makes one line of each schema that t has, and reports whether
// they are objects.
func (t *Tool) compactSchemas() bool {
	for _, schema := range []*json.RawMessage{&t.InputSchema, &t.OutputSchema} {
		if *schema != nil {
			compact, err := appendCompact(nil, *schema)
			if err != nil || compact[0] != '{' {
				return false
			}
			*schema = compact
		}
	}
	return true
}

// rootType returns the type that a schema gives to the whole value, and "" if
// it gives none, or several.
func rootType(schema []byte) string {
	var raw []byte
	pick(schema, want{name: "type", to: &raw})
	typ, _ := unquote(raw)
	return typ
}

// wraps reports whether the older revisions, for which structured output is an
// object, are told {"result":...} instead of the output itself. That holds for
// the schema and for every result alike.
func (t *Tool) wraps() bool { return t.OutputSchema != nil && rootType(t.OutputSchema) != "object" }

// encode returns t as a revision knows it.
func (t *Tool) encode(rev revision, meta []byte) []byte {
	b := nameMembers(append(make([]byte, 0, 256), '{'), rev, t.Name, t.Title, t.Description)
	b = rawMember(b, "inputSchema", t.InputSchema)
	switch {
	case t.OutputSchema == nil || !rev.knows(structuredOutput):
	case rev.knows(anyOutput) || !t.wraps():
		b = rawMember(b, "outputSchema", t.OutputSchema)
	case !bytes.Contains(t.OutputSchema, []byte(`"$ref"`)): // which would no longer point where it should
		b = join(b, `"outputSchema":{"type":"object","properties":{"result":`, string(t.OutputSchema), `},"required":["result"]},`)
	}
	if a := t.Annotations; a != (ToolAnnotations{}) && rev.knows(toolHints) {
		raw, _ := marshal(a) // strings and hints cannot fail
		b = rawMember(b, "annotations", raw)
	}
	return closeWith(appendIconsAndMeta(b, rev, t.Icons, meta), "}")
}

// RemoveTools removes the tools of these names, as far as there are any, and
// tells the clients that are connected. Calls under way go on.
func (s *Server) RemoveTools(names ...string) { s.remove(tools, names) }

// ---- resources ----
//
// A URI comes from a client, and what it names is often a file. So templates are
// strict where they are added, and what their variables may hold is checked
// before a ReadFunc sees it: a value never leads out of the place that it has.

// AddResource adds a resource or a template, or replaces the one of the same
// URI, and tells the clients that are connected. A URI that is read is looked
// up as it is, and then, if it has no more than 64 KiB, matched with the templates in
// the order in which they were added.
//
// {name} stands for one segment of a path, {+name} for anything. So a brace
// that belongs to the name of a file must be escaped, and so must blanks and
// whatever else RFC 3986 does not allow in a URI. This makes the URI of a file:
//
//	(&url.URL{Scheme: "file", Path: path}).String()
//
// AddResource panics if the URI is not a legal one with a scheme, if the name is
// missing, or if the braces or another field make no sense.
func (s *Server) AddResource(r Resource, read ReadFunc) {
	where := fmt.Sprintf("mcp: resource %q", r.URI)
	parts, variables, err := parseTemplate(r.URI)
	panicUnless(err == nil, where, fmt.Sprint(err))
	panicUnless(read != nil, where, "the ReadFunc is missing")
	panicUnless(r.Name != "", where, "the name is missing")
	panicUnless(r.Size >= 0, where, "Size is negative")
	checkAnnotations(where, r.Annotations)
	for name := range r.Complete {
		panicUnless(slices.Contains(variables, name), where, fmt.Sprintf("there is no variable %q to complete", name))
	}
	k, key := resources, "uri"
	if len(parts) > 1 {
		k, key = templates, "uriTemplate"
	}
	s.add(k, where, r.Icons, r.Meta, &item{
		name: r.URI,
		encode: func(rev revision, meta []byte) []byte {
			return closeWith(r.append([]byte("{"), key, rev, meta), "}")
		},
		match: func(uri string) (map[string]string, bool) { return matchTemplate(parts, uri) },
		handler: func(q *request) []byte {
			contents, err := read(q.ctx, q.name, q.vars)
			return q.readAnswer(contents, err, r.MIMEType)
		},
		args:     variables,
		complete: r.Complete,
	})
}

// panicUnless panics if something that is added is not as it must be.
func panicUnless(ok bool, where, what string) {
	if !ok {
		panic(where + ": " + what)
	}
}

// checkIcons returns an error if there is an icon that no client would show.
func checkIcons(icons []Icon) error {
	for _, icon := range icons {
		switch scheme, _, _ := strings.Cut(icon.Src, ":"); {
		case !slices.Contains([]string{"https", "http", "data"}, scheme):
			return errors.New("the Src of an Icon must be an https, http or data URI")
		case !slices.Contains([]string{"", "light", "dark"}, icon.Theme):
			return errors.New(`the Theme of an Icon must be "light" or "dark"`)
		}
	}
	return nil
}

// checkAnnotations panics if they say what the protocol has no place for.
func checkAnnotations(where string, a *Annotations) {
	a = cmp.Or(a, &Annotations{})
	for _, who := range a.Audience {
		panicUnless(who == "user" || who == "assistant", where, `the Audience must be "user" or "assistant"`)
	}
	panicUnless(a.Priority == nil || *a.Priority >= 0 && *a.Priority <= 1, where, "the Priority must be from 0 to 1")
	panicUnless(a.LastModified == "" || wellFormed("date-time", a.LastModified), where, "LastModified must be a time as in 2026-01-31T09:30:00Z")
}

// RemoveResources removes the resources and templates of these URIs, as far as
// there are any, and tells the clients that are connected.
func (s *Server) RemoveResources(uris ...string) {
	s.remove(resources, uris)
	s.remove(templates, uris)
}

// ResourceUpdated tells the clients that have subscribed to the resource that
// it has changed. It does not wait for them.
func (s *Server) ResourceUpdated(uri string) {
	for _, c := range s.openSessions() {
		c.sendUpdated(uri)
	}
}

// parseTemplate splits a URI template: what is at odd places is a variable,
// with the + in front if it has one, the rest is literal. Names are those of the
// variables, without the +.
func parseTemplate(uri string) (parts, names []string, err error) {
	literal, rest, more := strings.Cut(uri, "{")
	if scheme, _, ok := strings.Cut(literal, ":"); !ok || !legalScheme(scheme) {
		return nil, nil, errors.New(`a URI begins with a scheme, as "file:"`)
	}
	for more {
		variable, after, closed := strings.Cut(rest, "}")
		name := strings.TrimPrefix(variable, "+")
		switch {
		case !closed || name == "" || !madeOf(name, "_"):
			return nil, nil, errors.New("a variable is written {name} or {+name}")
		case slices.Contains(names, name):
			return nil, nil, errors.New("a variable stands there twice")
		case len(names) > 0 && literal == "":
			return nil, nil, errors.New("there must be something between two variables")
		}
		parts, names = append(parts, literal, variable), append(names, name)
		literal, rest, more = strings.Cut(after, "{")
	}
	parts = append(parts, literal)
	return parts, names, checkLiterals(parts)
}

// checkLiterals returns an error if the literal parts of a template, or of a URI
// without variables, cannot stand in a URI.
func checkLiterals(parts []string) error {
	var literals []string
	for i := 0; i < len(parts); i += 2 {
		decoded, ok := unescape(parts[i])
		if !ok || !madeOf(parts[i], "%-._~:/?#[]@!$&'()*+,;=") {
			return errors.New("a URI has no blanks, no } of its own, and nothing else that RFC 3986 does not allow: " +
				"write that of a file as (&url.URL{Scheme: \"file\", Path: path}).String()")
		}
		literals = append(literals, decoded)
	}
	if len(parts) > 1 && hasDotSegment(strings.Join(literals, "x")) { // a URI that fits the template
		return errors.New(`a template has no "." or ".." between slashes: nothing would fit it`)
	}
	return nil
}

// alphanumeric holds the letters and digits of ASCII.
const alphanumeric = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

// madeOf reports whether s holds letters and digits of ASCII, and others, alone.
func madeOf(s, others string) bool {
	return strings.Trim(s, alphanumeric+others) == ""
}

// legalScheme reports whether s is the scheme of a URI.
func legalScheme(s string) bool {
	return s != "" && s[0] > '9' && madeOf(s, "+-.")
}

// hasDotSegment reports whether there is a "." or ".." between the slashes of a
// URI, or between whatever else somebody may take for a slash.
func hasDotSegment(uri string) bool {
	if scheme, rest, ok := strings.Cut(uri, ":"); ok && legalScheme(scheme) {
		uri = rest
	}
	for segment := range strings.FieldsFuncSeq(uri, func(r rune) bool { return strings.ContainsRune(`/\?#`, r) }) {
		if segment == "." || segment == ".." {
			return true
		}
	}
	return false
}

// matchTemplate reports whether uri fits the parts of a template, and returns
// the values of the variables: the shortest that the first can have, then the
// second. If one of these is refused there is no looking for others.
func matchTemplate(parts []string, uri string) (map[string]string, bool) {
	ends := make([]int, len(parts)/2)
	if !fit(parts, uri, 0, ends) {
		return nil, false
	}
	vars, at := make(map[string]string, len(ends)), 0
	for i, end := range ends {
		at += len(parts[2*i])
		value, ok := unescape(uri[at:end])
		name, reserved := strings.CutPrefix(parts[2*i+1], "+")
		if !ok || !confined(value, reserved) {
			return nil, false
		}
		vars[name], at = value, end
	}
	// A value that is harmless by itself may make a ".." with the literal beside
	// it, so the whole is looked at too.
	decoded, _ := unescape(uri)
	return vars, !hasDotSegment(decoded)
}

// fit finds where in uri the variables end, if parts are to fit what is from the
// index at on. ends[i] is the last end that was tried for variable i: what follows
// did not match there. A later try for variable i never starts further left, so it
// goes on behind ends[i]. Each position is tried once for each variable, and the
// time is linear.
// In "x:/1/b2", {a} of "x:/{a}/b{b}" ends behind "1", and {b} behind "2".
func fit(parts []string, uri string, at int, ends []int) bool {
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
		if strings.IndexByte(uri[max(0, end-2):end], '%') < 0 && fit(parts[2:], uri, end, ends[1:]) { // not inside of an escape
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

// confined reports whether the value of a variable may be made part of a path
// without leading somewhere else. A backslash is a slash on Windows, and a zero
// byte ends a name in C.
func confined(value string, reserved bool) bool {
	return utf8.ValidString(value) && !strings.Contains(value, "\x00") &&
		(reserved || !strings.ContainsAny(value, `/\`)) && !hasDotSegment("/"+value)
}

// ---- prompts ----
//
// The arguments of a prompt are strings that a user has typed. They have names
// and no schema, so they are checked here and not by the section on arguments.

// AddPrompt adds a prompt, or replaces the one of the same name, and tells the
// clients that are connected. It panics if get or a name is missing, if two arguments
// have one name, and if another field makes no sense.
func (s *Server) AddPrompt(p Prompt, get PromptFunc) {
	where := fmt.Sprintf("mcp: prompt %q", p.Name)
	panicUnless(p.Name != "", where, "a prompt needs a name")
	panicUnless(get != nil, where, "the PromptFunc is missing")
	complete := make(map[string]CompleteFunc)
	var names []string
	for _, a := range p.Arguments {
		panicUnless(a.Name != "" && !slices.Contains(names, a.Name), where, "an argument needs a name of its own")
		if names = append(names, a.Name); a.Complete != nil {
			complete[a.Name] = a.Complete
		}
	}
	s.add(prompts, where, p.Icons, p.Meta, &item{
		name:   p.Name,
		encode: p.encode,
		handler: func(r *request) []byte {
			args, fault := p.arguments(r)
			if fault != nil {
				return errorLine(r.id, fault)
			}
			messages, err := get(r.ctx, args)
			return r.promptAnswer(messages, err, p.Description)
		},
		args:     names,
		complete: complete,
	})
}

// arguments takes the arguments of a request and holds them against the prompt.
// One that is unknown is refused: the client has misunderstood something, and a
// PromptFunc need not look for it.
func (p *Prompt) arguments(r *request) (map[string]string, *Error) {
	params := struct {
		Arguments map[string]string `json:"arguments"`
	}{make(map[string]string)}
	if err := decode(r.raw, &params); err != nil {
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

// RemovePrompts removes the prompts of these names, as far as there are any,
// and tells the clients that are connected.
func (s *Server) RemovePrompts(names ...string) { s.remove(prompts, names) }

// encode returns p as a revision knows it. An argument that is not required says
// nothing about it: that is what clients take for granted.
func (p *Prompt) encode(rev revision, meta []byte) []byte {
	b := nameMembers([]byte("{"), rev, p.Name, p.Title, p.Description)
	if len(p.Arguments) > 0 {
		b = join(b, `"arguments":[`)
		for _, a := range p.Arguments {
			if b = nameMembers(append(b, '{'), rev, a.Name, a.Title, a.Description); a.Required {
				b = join(b, `"required":true,`)
			}
			b = closeWith(b, `},`)
		}
		b = closeWith(b, "],")
	}
	return closeWith(appendIconsAndMeta(b, rev, p.Icons, meta), "}")
}

// ---- what a server offers ----
//
// Tools, prompts, resources and templates are items of four kinds. They are found
// by their names, and listed in the order in which they came. Adding and removing
// is cheap, whatever is there; the order is made when somebody asks for a list.
// Server.mu guards the items, their order, and what encode has returned. It is not
// held while users' code runs.

// A kind is a kind of thing that a server offers, and has a list of.
type kind int

const (
	tools kind = iota
	prompts
	resources
	templates // belong to resources, but for the list
	kinds
	completions = kinds // these have no list, but are declared too
	logging     = kinds + 1
	nothing     = kinds + 2 // what is served whatever is offered
)

// A kindSet holds, for each kind, whether it is in the set.
type kindSet [nothing]bool

// kindNames are what the lists are called, in their results and elsewhere.
var kindNames = [kinds]string{"tools", "prompts", "resources", "resourceTemplates"}

// capability is the kind under which k is declared and its changes are told.
func (k kind) capability() kind {
	if k == templates {
		return resources
	}
	return k
}

// An item is one thing that a server offers: it stands in the list of its kind
// and is found by its name, which for a resource is the URI.
type item struct {
	name    string
	encode  func(rev revision, meta []byte) []byte // as an element of the list
	meta    []byte                                 // its Meta as JSON
	encoded [len(revisions)][]byte                 // what encode returned, when it was asked for
	seq     int                                    // its place in the list; cursors hold it
	shown   func(*Request) bool                    // to whom; nil: to everybody

	match   func(uri string) (vars map[string]string, ok bool) // of a template
	handler func(*request) []byte                              // returns the line that answers the request

	wraps    bool     // of a tool: see Tool.wraps
	promises bool     // of a tool: it has an output schema
	args     []string // the arguments of a prompt, the variables of a template
	complete map[string]CompleteFunc
}

// jsonOf is an object that the user has given, as JSON; nil if it is empty.
func jsonOf(m map[string]any) ([]byte, error) {
	if len(m) == 0 {
		return nil, nil
	}
	return marshal(m)
}

// add adds an item, or puts it in the place of the one that has its name, and
// tells the clients. What there ever was something of stays declared: a client
// asks for what a server can do only once.
//
// It panics if icons or meta have no form in which they can be sent. The meta is
// written as JSON here and not when the item is listed: that may run the user's code.
func (s *Server) add(k kind, where string, icons []Icon, meta map[string]any, it *item) {
	raw, err := jsonOf(meta)
	panicUnless(err == nil, where, fmt.Sprint("Meta: ", err))
	err = checkIcons(icons)
	panicUnless(err == nil, where, fmt.Sprint(err))
	it.meta = raw
	s.mu.Lock()
	if old := s.items[k][it.name]; old != nil {
		it.seq = old.seq
	} else {
		s.lastSeq++
		it.seq = s.lastSeq
	}
	if s.items[k] == nil {
		s.items[k] = make(map[string]*item)
	}
	s.items[k][it.name], s.lists[k] = it, nil
	s.hides = s.hides || it.shown != nil
	s.offered[k.capability()] = true
	s.offered[completions] = s.offered[completions] || len(it.complete) > 0
	s.mu.Unlock()
	s.changed(k)
}

// remove removes the items of these names, and tells the clients if there were
// any.
func (s *Server) remove(k kind, names []string) {
	removed := false
	s.mu.Lock()
	for _, name := range names {
		if s.items[k][name] != nil {
			delete(s.items[k], name)
			s.lists[k], removed = nil, true
		}
	}
	s.mu.Unlock()
	if removed {
		s.changed(k)
	}
}

// find returns the item of a name, or nil. A URI that is nothing's name may fit a
// template: then find returns that, and the values of its variables. A very long
// one fits none: there may be many templates.
func (s *Server) find(k kind, name string) (*item, map[string]string) {
	s.mu.Lock()
	it := s.items[k][name]
	s.mu.Unlock()
	if it == nil && k.capability() == resources && len(name) <= maxMatched {
		for _, template := range s.inOrder(templates) {
			if vars, ok := template.match(name); ok {
				return template, vars
			}
		}
	}
	return it, nil
}

// inOrder returns the items of a kind in the order in which they came. Nobody
// changes a list that it has returned: after a change it makes another one.
func (s *Server) inOrder(k kind) []*item {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lists[k] == nil {
		s.lists[k] = slices.SortedFunc(maps.Values(s.items[k]), func(a, b *item) int { return a.seq - b.seq })
	}
	return s.lists[k]
}

// offers returns the kinds that are declared.
func (s *Server) offers() kindSet {
	s.mu.Lock()
	offered := s.offered
	s.mu.Unlock()
	offered[logging] = s.Logging
	return offered
}

// addSession makes c one of those that are told of changes.
func (s *Server) addSession(c *session) {
	s.mu.Lock()
	if s.sessions == nil {
		s.sessions = make(map[*session]struct{})
		s.seed = maphash.MakeSeed()
	}
	s.sessions[c] = struct{}{}
	s.mu.Unlock()
}

// removeSession takes c out of those that are told of changes.
func (s *Server) removeSession(c *session) {
	s.mu.Lock()
	delete(s.sessions, c)
	s.mu.Unlock()
}

// changed tells every client that a list is another one now.
func (s *Server) changed(k kind) {
	for _, c := range s.openSessions() {
		c.sendListChanged(k.capability())
	}
}

// openSessions returns a copy of the sessions, to talk to without the lock.
func (s *Server) openSessions() (open []*session) {
	s.mu.Lock()
	for c := range s.sessions {
		open = append(open, c)
	}
	s.mu.Unlock()
	return open
}

// logf tells ErrorLog what belongs to no session.
func (s *Server) logf(format string, args ...any) {
	logWriter{s.ErrorLog}.Write(fmt.Appendf(nil, format, args...))
}

// ---- verbs ----

// requestKey finds the request in a handler's context.
type requestKey struct{}

// outside stands for the request where there is none: outside of a handler. Nobody
// is there to be told or asked.
var outside = &request{rev: newestLegacy}

// requestOf returns the request that is served under ctx, or outside.
func requestOf(ctx context.Context) *request {
	r, _ := ctx.Value(requestKey{}).(*request)
	return cmp.Or(r, outside)
}

// A Request is what a handler may want to know of the request it serves.
type Request struct {
	Method          string          // "tools/call"
	Name            string          // of the tool or prompt; of a resource, the URI
	ID              json.RawMessage // as the client wrote it
	ProtocolVersion string          // the revision it is served by
	ClientName      string          // may be empty in 2026-07-28
	ClientVersion   string
	Capabilities    json.RawMessage // what the client can do: an object
	Meta            json.RawMessage // the request's _meta, an object; nil if there is none
}

// RequestFrom returns the request that is served under a handler's context,
// and nil for any other context. It is a copy, which may be kept and changed.
func RequestFrom(ctx context.Context) *Request {
	if r := requestOf(ctx); r != outside {
		return r.public()
	}
	return nil
}

// public is what the user may know of r, in copies.
func (r *request) public() *Request {
	name, version, _ := parseClientInfo(r.client)
	return &Request{
		Method: string(r.method), Name: r.name, ID: bytes.Clone(r.id), ProtocolVersion: r.rev.String(),
		ClientName: name, ClientVersion: version,
		Capabilities: bytes.Clone(r.caps), Meta: bytes.Clone(r.meta),
	}
}

// Progress tells the client how far a handler has come: done, in any unit, of
// total, if that is known and not 0. The message, which may be empty, is for
// people.
//
// Many hosts give up on a call after a minute, and wait longer for one that reports
// progress: a handler that takes longer reports every few seconds.
//
// It does nothing if the client did not ask for progress, if done is not more
// than the last time, or if ctx is not a handler's. It returns when the client
// was told, and at the latest when the request is over; after that it does
// nothing either. It may be called concurrently.
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
	if r.rev.knows(progressMessages) {
		b = optionalMember(b, "message", message)
	}
	r.session.sendNotification(r, closeWith(b, `}}`), func() bool {
		if r.reported && done <= r.progress {
			return false
		}
		r.reported, r.progress = true, done
		return true
	})
}

// LogHandler returns a handler for package log/slog that logs to the client,
// under the name of a logger, which may be empty:
//
//	logger := slog.New(mcp.LogHandler("db"))
//
// It needs the context of the request: use slog's functions that take one. A
// message is sent as a string, or if there are attributes, as an object of them
// with the message as "msg". Attributes are written as [slog.JSONHandler] does.
//
// What is below the level that the client has asked for is dropped. So is
// everything outside of a request, after its end, to clients that asked for
// none, or if [Server.Logging] is not set. Clients ask with logging/setLevel, and
// in revision 2026-07-28 with a logLevel in the _meta of each request. The
// levels are slog's and those of the protocol between and above them: Info+2 is
// notice, Error+4 critical, Error+8 alert, Error+12 emergency.
//
// As with [Progress], a message that is sent keeps its caller until it is written, or
// the request is over: hold no lock that others need. It may be used concurrently.
//
// See https://modelcontextprotocol.io/specification/2025-11-25/server/utilities/logging.
func LogHandler(name string) slog.Handler {
	return &logHandler{name, func(h slog.Handler) slog.Handler { return h }}
}

// A logHandler has slog's own handler write the attributes of each message.
type logHandler struct {
	name string
	with func(slog.Handler) slog.Handler // gives a handler the attributes and groups of this one
}

func (h *logHandler) Enabled(ctx context.Context, level slog.Level) bool {
	r := requestOf(ctx)
	return r != outside && r.session.srv.Logging && levelOf(level) >= r.session.logLevel(r)
}

func (h *logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &logHandler{h.name, func(in slog.Handler) slog.Handler { return h.with(in).WithAttrs(attrs) }}
}

func (h *logHandler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	return &logHandler{h.name, func(in slog.Handler) slog.Handler { return h.with(in).WithGroup(name) }}
}

func (h *logHandler) Handle(ctx context.Context, record slog.Record) error {
	if !h.Enabled(ctx, record.Level) {
		return nil
	}
	data, err := h.data(ctx, record)
	if err != nil {
		return err
	}
	b := join(nil, `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"`, levels[levelOf(record.Level)], `",`)
	b = rawMember(optionalMember(b, "logger", h.name), "data", data)
	r := requestOf(ctx)
	r.session.sendNotification(r, closeWith(b, `}}`), func() bool { return true })
	return nil
}

// data returns what is sent of a record: its message, or, if there are attributes,
// an object that slog's own handler has written, without what is sent elsewhere. An
// attribute that would be a second message is left out.
func (h *logHandler) data(ctx context.Context, record slog.Record) ([]byte, error) {
	var b bytes.Buffer
	builtIn, attributes := 0, false // slog writes the level and the message first
	inner := h.with(slog.NewJSONHandler(&b, &slog.HandlerOptions{ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
		builtIn--
		if builtIn == 1 || builtIn < 0 && len(groups) == 0 && a.Key == slog.MessageKey {
			return slog.Attr{}
		}
		attributes = attributes || builtIn < 0 && !a.Equal(slog.Attr{})
		return a
	}}))
	builtIn = 2
	record.Time = time.Time{} // slog leaves out a time that is zero
	if err := inner.Handle(ctx, record); err != nil {
		return nil, err
	}
	if !attributes {
		return appendString(nil, record.Message), nil
	}
	return singleLine(bytes.TrimSpace(b.Bytes())), nil
}

// levels are those of log messages, in order.
var levels = [...]string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

// levelOf returns the index in levels of a level of slog: 0 is its Info there, 4
// its Warn, 8 its Error.
func levelOf(level slog.Level) int {
	for i, above := range []slog.Level{0, 2, 4, 8, 12, 16, 20} {
		if level < above {
			return i
		}
	}
	return len(levels) - 1
}

// ---- asking ----

// ErrInputRequired says that the client has to answer a question first. A
// handler returns it, or an error that wraps it: then the question is asked.
var ErrInputRequired = errors.New("mcp: the client has to answer a question first")

// ErrDeclined and ErrDismissed are errors of [Elicit], [ElicitSchema] and
// [ElicitURL]: the user said no, or went away without a word.
var (
	ErrDeclined  = errors.New("mcp: the user declined")
	ErrDismissed = errors.New("mcp: the user dismissed the question")
)

// A Root is a place in the file system that the client works on.
type Root struct {
	URI  string `json:"uri"`            // begins with file://
	Name string `json:"name,omitempty"` // for people; may be empty
}

// Roots asks the client for its roots. See [Elicit] on asking.
//
// See https://modelcontextprotocol.io/specification/2025-11-25/client/roots.
func Roots(ctx context.Context, key string) ([]Root, error) {
	var answer struct {
		Roots []Root `json:"roots"`
	}
	if err := askClient(ctx, key, rootsAndSampling, "roots", "roots/list", "{}", &answer); err != nil {
		return nil, err
	}
	if answer.Roots == nil {
		return nil, badAnswer("roots/list", "it has no roots")
	}
	return answer.Roots, nil
}

// decode sets what v points to from what a client has sent, if it has, and does
// not mind members that it does not know.
func decode(raw []byte, v any) error {
	if raw == nil {
		return nil
	}
	s, _ := derive(reflect.TypeOf(v), "", reading)
	bad := faults{partial: true, exact: true}
	s.set(reflect.ValueOf(v).Elem(), raw, &bad)
	return bad.err()
}

// askClient asks the client, if its revision knows the question and it has the
// capability, such as "roots" or "sampling.tools". It sets what answer points to
// from the client's answer.
func askClient(ctx context.Context, key string, need revision, capability, method, params string, answer any) error {
	r := requestOf(ctx)
	switch {
	case r == outside:
		return fmt.Errorf("mcp: outside of a handler there is no client to ask: %w", errors.ErrUnsupported)
	case !r.rev.knows(need) || !hasCapability(r.caps, capability):
		return missingCapability(capability)
	}
	raw, err := r.answerTo(ctx, inputRequest{key, method, params})
	if err != nil {
		return err
	}
	if err := decode(raw, answer); err != nil {
		return badAnswer(method, err.Error())
	}
	return nil
}

// badAnswer says that an answer is not what it has to be.
func badAnswer(method, why string) error {
	return fmt.Errorf("mcp: %s: the client's answer makes no sense: %s", method, why)
}

// missingCapability says that a client has not declared a capability, in words
// for the people and models that see the error.
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
		var in []byte // stays nil if caps is no object
		pick(caps, want{name: name, to: &in})
		caps = in
	}
	return len(caps) > 0 && caps[0] == '{'
}

// Elicit asks the user to fill in a form, which is derived from T, a struct of
// strings, numbers, booleans and lists of strings with an enum, by the rules
// and tags of [SchemaOf] and one more:
//
//	titles:"A,B"  what the values of the enum are called
//
// Message says what the form is for. It must not ask for secrets.
//
// If the user fills it in, Elicit returns the form, or an error that tells what
// is wrong with it, after which another key asks again. If not, the error is
// [ErrDeclined] or [ErrDismissed]. Elicit panics if T cannot be a form.
//
// A form without fields is not consent: a host that was told never to ask
// accepts it by itself. Whoever deletes or sends something asks for a boolean
// with the tag default:"false", and goes on only if it is true. Without that
// tag some hosts preselect true.
//
// The rest is the same for everything that asks the client.
//
// Clients of the legacy revisions are sent a request, and the call returns when
// they have answered. In revision 2026-07-28 a question travels in the result
// of the handler's own request. There the call returns an error that is
// [ErrInputRequired]. The handler returns this error. The client asks its user
// and repeats its request with the answer. The handler runs again from its top,
// and now the same call returns the answer at once. So what stands above a
// question runs again: keep side effects below the last question. Questions go
// out together if all are asked, one after the other or concurrently, and errors.Join
// of their errors is returned. A handler that does not return the error is reported to
// ErrorLog. Between two rounds the client keeps the answers so far, for an hour at
// most, and for this call of this process alone.
//
// The key tells the questions of a handler apart: an answer belongs to the key
// under which it was asked. Put into the key what the question is about, as in
// "delete "+path. Otherwise, when the handler runs again and something else is
// to be deleted, it takes the old answer for the new question.
//
// The call ends with ctx, with the request, and when the client is gone. The
// error then is [context.Cause] or [ErrClosed]. It is [errors.ErrUnsupported]
// when the client cannot be asked; a handler returns it like any other, and its
// text says so. It is the same outside of a handler, in a test that calls one.
//
// See https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation.
func Elicit[T any](ctx context.Context, key, message string) (T, error) {
	var form T
	s := mustDerive(reflect.TypeFor[T](), "mcp: Elicit", reading)
	schema, err := s.appendForm(nil, requestOf(ctx).rev)
	if err != nil {
		return form, err
	}
	content, err := ElicitSchema(ctx, key, message, schema)
	if err != nil {
		return form, err
	}
	bad := faults{open: true}
	s.set(reflect.ValueOf(&form).Elem(), content, &bad)
	if err := bad.err(); err != nil {
		return form, fmt.Errorf("mcp: the user's answer: %w", err)
	}
	return form, nil
}

// ElicitSchema is [Elicit] with a form that is described by hand. It returns
// what the user filled in, unchecked: an object, which may be empty.
func ElicitSchema(ctx context.Context, key, message string, schema json.RawMessage) (json.RawMessage, error) {
	form, err := appendCompact(nil, schema)
	if err != nil {
		return nil, fmt.Errorf("mcp: ElicitSchema: %w", err)
	}
	b, capability := []byte("{"), "elicitation"
	if r := requestOf(ctx); r.rev.knows(formModes) {
		b = stringMember(b, "mode", "form")
		if hasCapability(r.caps, "elicitation.url") { // if modes are named, so must this be
			capability = "elicitation.form"
		}
	}
	b = rawMember(stringMember(b, "message", message), "requestedSchema", form)
	return elicit(ctx, key, forms, capability, b)
}

// ElicitURL asks the user to go to a page, say to log in. It returns nil when
// the user agrees, which does not mean that they have been there yet. See [Elicit]
// on asking.
func ElicitURL(ctx context.Context, key, message, url string) error {
	b := stringMember(stringMember([]byte(`{"mode":"url",`), "message", message), "url", url)
	if requestOf(ctx).rev.hasElicitationID() {
		b = stringMember(b, "elicitationId", strconv.FormatUint(rand.Uint64(), 36))
	}
	_, err := elicit(ctx, key, pageVisits, "elicitation.url", b)
	return err
}

func elicit(ctx context.Context, key string, need revision, capability string, params []byte) (json.RawMessage, error) {
	var answer struct {
		Action  string          `json:"action"`
		Content json.RawMessage `json:"content"`
	}
	if err := askClient(ctx, key, need, capability, "elicitation/create", string(closeWith(params, "}")), &answer); err != nil {
		return nil, err
	}
	switch answer.Action {
	case "accept":
		switch content := answer.Content; {
		case len(content) == 0 || string(content) == "null": // which is how to fill in a form without fields
			return json.RawMessage("{}"), nil
		case content[0] == '{' || capability == "elicitation.url":
			return content, nil
		}
		return nil, badAnswer("elicitation/create", "content "+wrongKind("object", answer.Content).Error())
	case "decline":
		return nil, ErrDeclined
	case "cancel":
		return nil, ErrDismissed
	}
	return nil, badAnswer("elicitation/create", "action must be accept, decline or cancel, got "+strconv.Quote(excerpt(answer.Action)))
}

// A SampleRequest asks the client's model to go on with a conversation.
type SampleRequest struct {
	Messages         []SampleMessage `json:"-"`
	MaxTokens        int             `json:"maxTokens"` // required
	SystemPrompt     string          `json:"systemPrompt,omitempty"`
	Temperature      *float64        `json:"temperature,omitempty"`
	StopSequences    []string        `json:"stopSequences,omitempty"`
	ModelPreferences json.RawMessage `json:"modelPreferences,omitempty"` // an object, as in the protocol
	IncludeContext   string          `json:"includeContext,omitempty"`   // "none", "thisServer" or "allServers"; "" is none
	Tools            []Tool          `json:"-"`                          // that the model may call
	ToolChoice       string          `json:"-"`                          // "auto", "required" or "none"; "" leaves it to the client
}

// A SampleMessage is one turn of a conversation with a model.
type SampleMessage struct {
	Role    string // "user" or "assistant"; "" is user
	Content []Content
}

// A SampleResult is what the model said.
type SampleResult struct {
	SampleMessage
	Model      string
	StopReason string // "endTurn", "stopSequence", "maxTokens", "toolUse", or the client's own
}

// Sample asks the client's model. See [Elicit] on asking. A request with tools
// needs a client that has declared sampling.tools.
//
// See https://modelcontextprotocol.io/specification/2025-11-25/client/sampling.
func Sample(ctx context.Context, key string, req SampleRequest) (*SampleResult, error) {
	r := requestOf(ctx)
	need, capability := rootsAndSampling, "sampling"
	if req.usesTools() {
		need, capability = samplingTools, "sampling.tools"
	}
	if c := req.IncludeContext; c != "" && c != "none" && r.rev.knows(samplingContext) && !hasCapability(r.caps, "sampling.context") {
		return nil, missingCapability("sampling.context")
	}
	params, err := req.encode(r.rev)
	if err != nil {
		return nil, fmt.Errorf("mcp: Sample: %w", err)
	}
	var answer struct {
		Role       string          `json:"role"`
		Content    json.RawMessage `json:"content"`
		Model      string          `json:"model"`
		StopReason string          `json:"stopReason"`
	}
	if err := askClient(ctx, key, need, capability, "sampling/createMessage", string(params), &answer); err != nil {
		return nil, err
	}
	content, err := blocksOf(answer.Content)
	if err != nil {
		return nil, badAnswer("sampling/createMessage", err.Error())
	}
	return &SampleResult{SampleMessage{answer.Role, content}, answer.Model, answer.StopReason}, nil
}

// usesTools reports whether only a client that knows tools can take the request.
func (req *SampleRequest) usesTools() bool {
	return len(req.Tools) > 0 || req.ToolChoice != "" || slices.ContainsFunc(req.Messages, func(m SampleMessage) bool {
		return slices.ContainsFunc(m.Content, func(c Content) bool { return strings.HasPrefix(c.Type, "tool_") })
	})
}

// encode returns the params of the request as a revision knows them.
func (req *SampleRequest) encode(rev revision) ([]byte, error) {
	type message struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
	}
	params := struct {
		Messages []message `json:"messages"`
		*SampleRequest
		Tools      []json.RawMessage `json:"tools,omitzero"`
		ToolChoice map[string]string `json:"toolChoice,omitempty"`
	}{Messages: []message{}, SampleRequest: req}
	for _, m := range req.Messages {
		content, err := appendSampleBlocks(m.Content, rev)
		if err != nil {
			return nil, err
		}
		params.Messages = append(params.Messages, message{cmp.Or(m.Role, "user"), content})
	}
	if len(req.Tools) > 0 || req.ToolChoice != "" {
		params.Tools = []json.RawMessage{} // a choice needs a list, be it empty
	}
	for _, t := range req.Tools {
		tool, err := t.encodeSample(rev)
		if err != nil {
			return nil, fmt.Errorf("tool %q: %w", t.Name, err)
		}
		params.Tools = append(params.Tools, tool)
	}
	if req.ToolChoice != "" {
		params.ToolChoice = map[string]string{"mode": req.ToolChoice}
	}
	return marshal(params)
}

// encodeSample returns t as it is offered to a model. Its schemas are those that
// it has: there is no handler to derive them from.
func (t *Tool) encodeSample(rev revision) ([]byte, error) {
	own := *t
	if own.InputSchema == nil || !own.compactSchemas() {
		return nil, errors.New("InputSchema must be set, and a schema must be a JSON object")
	}
	meta, err := jsonOf(t.Meta)
	return own.encode(rev, meta), err
}

// appendSampleBlocks returns the content of a message: a block by itself, or a list.
func appendSampleBlocks(blocks []Content, rev revision) (_ []byte, err error) {
	if len(blocks) != 1 && !rev.knows(blockLists) {
		return nil, fmt.Errorf("a message of %d blocks: %w in revision %v", len(blocks), errors.ErrUnsupported, rev)
	}
	b := []byte("[")
	for _, block := range blocks {
		if b, err = block.appendSample(b, rev); err != nil {
			return nil, err
		}
	}
	if b = closeWith(b, "]"); len(blocks) == 1 {
		b = b[1 : len(b)-1]
	}
	return b, nil
}

// blocksOf reads what a model has said: a block, or a list of them.
func blocksOf(raw []byte) (content []Content, err error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, errors.New("content is required")
	}
	if raw[0] != '[' {
		raw = join(nil, "[", string(raw), "]")
	}
	var blocks []struct {
		Type     string          `json:"type"`
		Text     string          `json:"text"`
		Data     []byte          `json:"data"`
		MIMEType string          `json:"mimeType"`
		ID       string          `json:"id"`
		Name     string          `json:"name"`
		Input    json.RawMessage `json:"input"`
		Meta     map[string]any  `json:"_meta"`
	}
	if err := decode(raw, &blocks); err != nil {
		return nil, fmt.Errorf("content: %w", err)
	}
	for _, b := range blocks {
		block := Content{Type: b.Type, Text: b.Text, Data: b.Data, MIMEType: b.MIMEType, Meta: b.Meta}
		if b.Type == "tool_use" {
			block.ToolUse = &ToolUse{ID: b.ID, Name: b.Name, Input: b.Input}
		}
		content = append(content, block)
	}
	return content, nil
}

// appendSample is append for a conversation with a model, which has types of
// its own, and lacks some.
func (c Content) appendSample(b []byte, rev revision) (_ []byte, err error) {
	switch {
	case c.Type == "tool_use" && c.ToolUse != nil:
		b = stringMember(stringMember(join(b, `{"type":"tool_use",`), "id", c.ToolUse.ID), "name", c.ToolUse.Name)
		b, err = appendCompact(join(b, `"input":`), c.ToolUse.Input)
		b = append(b, ',')
	case c.Type == "tool_result" && c.ToolResult != nil:
		b = stringMember(join(b, `{"type":"tool_result",`), "toolUseId", c.ToolResult.ID)
		b, err = c.ToolResult.Result.append(b, rev, &item{})
		if c.Meta == nil {
			c.Meta = c.ToolResult.Result.Meta
		}
	case c.Type == "resource" || c.Type == "resource_link":
		err = fmt.Errorf("content of type %q is not for a conversation", c.Type)
	default:
		return c.append(b, rev)
	}
	if err != nil {
		return nil, err
	}
	b, err = appendMeta(b, c.Meta, rev)
	return closeWith(b, "},"), err
}

// ---- schemas from types ----
//
// A type is described once: derive walks over it and makes a schema, whose
// fields hold what their tags say. Everything else follows that description:
// render writes it down for the client, set reads arguments by it, and marshal
// mends by it what encoding/json has written. What cannot be described keeps a
// place in the description, without a kind, and is left to encoding/json.

// SchemaOf returns the JSON Schema that [AddTool] derives from T for a result: for
// [Tool.OutputSchema], or for a look at it in a test. For arguments it is the same,
// but for a type that only unmarshals itself from text: such an argument is a
// string.
//
// Fields are named and embedded structs are flattened as encoding/json does. A
// pointer, omitempty, omitzero or a default makes a field optional, and so does
// standing in an embedded pointer. An argument that is no field is refused. Tags
// say more of a field:
//
//	jsonschema:"text"            its description, and nothing else
//	enum:"a,b"                   the strings that it may be, or its elements may
//	default:"x"                  what it is when a call leaves it out: text, or JSON if it is no string
//	minimum:"0" maximum:"9"      of a number, which its type can hold
//	minLength:"1" maxLength:"9"  of a string, in characters, or of a list
//	format:"email"               of a string: email, uri, date or date-time
//
// Some hosts show a model the type and the description and drop the rest: let
// the description repeat defaults and bounds, as in "how many, 1 to 100, by
// default 10".
//
// A time.Time is a string in RFC 3339, a []byte one in base64, and a type that
// has UnmarshalText is a string too, among results only if it has MarshalText as well.
// A map[string]any is an object of any kind, unchecked. A time.Duration is an integer,
// of nanoseconds: let its description say so. A null for an optional field is as good
// as nothing. A default counts where the object that it stands in is there. Other tags,
// such as min or description, say nothing here, and a pattern is the handler's to check.
// Results are not checked by their schema, but hosts do so: give no enum to what
// others send. Where a type contains itself, or its schema would be too large, there
// stands a plain object. SchemaOf panics if T cannot be described: with other
// interfaces, say, with arrays, or with types that have a JSON form of their own.
func SchemaOf[T any]() json.RawMessage {
	return mustDerive(reflect.TypeFor[T](), "mcp: SchemaOf", writing).render()
}

// A schema is what we know about the JSON form of a type. It never changes once
// it is derived, and a type that contains itself has a schema that does.
type schema struct {
	typ      reflect.Type
	kind     string   // the JSON type, or "" if it cannot be described
	fields   []*field // of a struct
	elem     *schema  // of a list or a map
	free     bool     // a map[string]any
	text     bool     // a form as text
	encoding string   // of bytes: base64
	format   string
	sentAs   json.RawMessage // of the arguments of a tool: as it is sent
}

// A field is a member of an object and what its tags say.
type field struct {
	name   string
	named  bool   // by its tag
	outer  *field // what it is embedded in
	index  []int  // as for reflect.Value.FieldByIndex
	typ    reflect.Type
	tag    reflect.StructTag
	where  string // to name it in a panic
	schema *schema

	optional bool
	quoted   bool // by the json option string

	doc, format  string
	enum, titles []string
	dflt         []byte        // the default, as JSON
	min, max     reflect.Value // of a number; not valid: no limit
	minLen       int
	maxLen       int // -1: no limit
}

// A purpose is what a schema is derived for.
type purpose uint8

const (
	reading purpose = 1 << iota // arguments
	writing                     // results
	sent                        // to the client, so that wrong tags matter
)

// derive describes t. What cannot be described is left to encoding/json, and
// the first such thing is the error, which says where it is. If the schema is to
// be sent, a tag that makes no sense panics.
func derive(t reflect.Type, where string, why purpose) (*schema, error) {
	d := deriver{why: why, known: make(map[knownType]*schema)}
	s := d.schema(t, where, false)
	for _, read := range []func(*field) error{(*field).readTags, (*field).readDefault} {
		for _, f := range d.tagged {
			if err := read(f); err != nil && why&sent != 0 {
				panic(f.where + ": " + err.Error())
			}
		}
	}
	return s, d.err
}

// mustDerive derives a schema that is to be sent, and panics if it cannot.
func mustDerive(t reflect.Type, where string, why purpose) *schema {
	s, err := derive(t, where, why|sent)
	if err != nil {
		panic(err.Error())
	}
	return s
}

// A deriver describes one type and all that is in it.
type deriver struct {
	why    purpose
	known  map[knownType]*schema // by which recursion ends
	tagged []*field              // whose tags are to be read when all types are described
	err    error                 // the first thing that cannot be described
}

// A knownType is a type that was met, and whether its values have no address:
// encoding/json calls methods of a pointer only where it can make one.
type knownType struct {
	reflect.Type
	copied bool
}

// refuse notes what cannot be described.
func (d *deriver) refuse(where, what string) {
	if d.err == nil {
		d.err = fmt.Errorf("%s: %s", where, what)
	}
}

// schema describes t, whose methods come before its kind: they decide what
// encoding/json reads and writes. Copied says that values have no address.
func (d *deriver) schema(t reflect.Type, where string, copied bool) *schema {
	for t.Kind() == reflect.Pointer {
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
		d.refuse(where, t.String()+" has a JSON form of its own, which cannot be described: write a string, a struct or a map[string]any, or set the schema by hand")
	case d.why&writing != 0 && copied && marshals && !t.Implements(reflect.TypeFor[encoding.TextMarshaler]()):
		d.refuse(where, t.String()+" cannot be described: MarshalText must have a value receiver, or this be a pointer")
	case d.why&reading != 0 && unmarshals || marshals:
		s.kind, s.text = "string", true
	default:
		d.describe(s, where, copied)
	}
	return s
}

// describe is schema for a type without methods that matter.
func (d *deriver) describe(s *schema, where string, copied bool) {
	t := s.typ
	switch k := t.Kind(); {
	case k == reflect.String:
		s.kind = "string"
	case k == reflect.Bool:
		s.kind = "boolean"
	case reflect.Int <= k && k <= reflect.Uintptr:
		s.kind = "integer"
	case k == reflect.Float32 || k == reflect.Float64:
		s.kind = "number"
	case k == reflect.Struct:
		s.kind = "object" // before it is met again inside of itself
		s.fields = d.fields(t, where, copied)
	case k == reflect.Slice && isBytes(t):
		s.kind, s.encoding = "string", "base64"
	case k == reflect.Slice:
		s.kind = "array"
		s.elem = d.schema(t.Elem(), where+"[]", false)
		if s.listsItself() {
			d.refuse(where, "a list of itself cannot be described: write a struct with a list in it")
		}
	case k == reflect.Map && t.Key().Kind() == reflect.String && isAny(t.Elem()):
		s.kind, s.free = "object", true
	case k == reflect.Map:
		if t.Key().Kind() == reflect.String {
			s.kind = "object"
		} else {
			d.refuse(where, t.String()+" cannot be described: write a map with string keys")
		}
		s.elem = d.schema(t.Elem(), where+"[]", true)
	case k == reflect.Array:
		d.refuse(where, t.String()+" cannot be described: write a slice, []"+t.Elem().String())
	case k == reflect.Interface:
		d.refuse(where, t.String()+" cannot be described: write a type, or map[string]any for an object of any kind")
	default:
		d.refuse(where, t.String()+" cannot be described: set the schema by hand")
	}
}

// isBytes reports whether encoding/json writes t, a slice, in base64. It does not
// if the elements have a form of their own.
func isBytes(t reflect.Type) bool {
	elem := reflect.PointerTo(t.Elem())
	return t.Elem().Kind() == reflect.Uint8 &&
		!elem.Implements(reflect.TypeFor[json.Marshaler]()) && !elem.Implements(reflect.TypeFor[encoding.TextMarshaler]())
}

// isAny reports whether t is an interface that anything implements.
func isAny(t reflect.Type) bool { return t.Kind() == reflect.Interface && t.NumMethod() == 0 }

// listsItself reports whether s is a list of lists without an end, for which there
// is no schema. Nobody writes a hundred lists in a row.
func (s *schema) listsItself() bool {
	elem := s.elem
	for range 100 {
		if elem == nil || elem.kind != "array" {
			return false
		}
		elem = elem.elem
	}
	return true
}

// fields returns the fields of a struct by the rules of encoding/json: of
// several with one name the least deep one counts, then the one whose name was
// given in a tag, and then none.
func (d *deriver) fields(t reflect.Type, where string, copied bool) (fields []*field) {
	all := d.collect(nil, &field{typ: t, where: where}, make(map[reflect.Type]int))
	for _, f := range all {
		if i := slices.IndexFunc(all, f.clashes); i >= 0 && d.why&sent != 0 {
			panic(f.where + ": the name " + f.name + " is also that of " + strings.TrimPrefix(all[i].where, f.outer.where+"."))
		}
		if slices.ContainsFunc(all, f.hidden) {
			continue
		}
		f.schema = d.schema(f.typ, f.where, copied)
		if f.schema.kind != "" {
			d.tagged = append(d.tagged, f)
		}
		fields = append(fields, f)
	}
	return fields
}

// hidden reports whether o takes the place of f, by the rules of encoding/json.
func (f *field) hidden(o *field) bool {
	if o == f || o.name != f.name {
		return false
	}
	return len(o.index) < len(f.index) || len(o.index) == len(f.index) && (o.named || !f.named)
}

// clashes reports whether f and o are of one struct and neither would count. That
// is a slip: whoever wrote them wants both.
func (f *field) clashes(o *field) bool {
	return o != f && o.name == f.name && o.outer == f.outer && o.named == f.named
}

// collect appends the fields of a struct, and of those that it embeds. What is
// in an embedded pointer is optional: encoding/json leaves it out when it is nil.
// Met holds how deep the structs are that were met before. The fields of one that is
// embedded twice at one depth hide each other; but what is embedded in it counts once.
func (d *deriver) collect(all []*field, outer *field, met map[reflect.Type]int) []*field {
	depth, again := met[outer.typ]
	if again && depth < len(outer.index) {
		return all // hidden by what is less deep; it may embed itself
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
		tag := in.Tag.Get("json")
		if tag == "-" || !in.IsExported() && !embedded {
			continue
		}
		f := newField(in, i, tag, outer)
		if pointer && !in.IsExported() && d.why&reading != 0 {
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
		if f.quoted {
			d.refuse(f.where, "the json option string cannot be described: leave it out")
		}
		f.optional = f.optional || outer.optional || pointer
		f.name = cmp.Or(f.name, in.Name)
		all = append(all, f)
	}
	return all
}

// newField is the field number i of the struct outer, as its json tag has it. The
// other tags are read later, when it is known that the field counts.
func newField(in reflect.StructField, i int, tag string, outer *field) *field {
	name, options, _ := strings.Cut(tag, ",")
	if strings.IndexFunc(name, oddInName) >= 0 {
		name = "" // as encoding/json reads it
	}
	options = "," + options + ","
	return &field{
		name:     name,
		named:    name != "",
		outer:    outer,
		index:    append(slices.Clip(outer.index), i),
		typ:      in.Type,
		tag:      in.Tag,
		where:    outer.where + "." + in.Name,
		optional: strings.Contains(options, ",omitempty,") || strings.Contains(options, ",omitzero,"),
		quoted:   strings.Contains(options, ",string,"),
		maxLen:   -1,
	}
}

// oddInName reports whether encoding/json refuses a name because of r.
func oddInName(r rune) bool {
	return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("!#$%&()*+-./:;<=>?@[]^_{|}~ ", r)
}

// readTags reads what the tags of a field say, without those that make no
// sense, of which the first is the error. The value of a default comes later: it
// is compared with all others, and it may be one of a struct.
func (f *field) readTags() error {
	if _, ok := f.tag.Lookup("default"); ok {
		f.optional = true
	}
	return cmp.Or(f.readDoc(), f.readBounds(), f.readLengths(), f.readFormat(), f.readEnum())
}

// readDoc reads the description. What other libraries would take for options is
// not one, and must not be told to the model.
func (f *field) readDoc() error {
	doc := f.tag.Get("jsonschema")
	for i, part := range strings.Split(doc, ",") {
		key, _, keyed := strings.Cut(part, "=")
		if !keyed && part == "required" || keyed && (i == 0 && key != "" && madeOf(key, "_") || slices.Contains(foreign, key)) {
			return fmt.Errorf("jsonschema:%q is another library's dialect: here the tag is the description alone. "+
				"A field is required unless it is a pointer or has omitempty, omitzero or a default; bounds have tags of their own, such as enum:\"a,b\" and minimum:\"1\"", doc)
		}
	}
	f.doc = doc
	return nil
}

// foreign are the words that other libraries have in a jsonschema tag. Behind a
// comma only these count: "labels, as key=value" is a description.
var foreign = strings.Fields("required description title enum default example examples format pattern type minimum maximum " +

	"exclusiveMinimum exclusiveMaximum multipleOf minLength maxLength minItems maxItems uniqueItems minProperties maxProperties " +
	"nullable readOnly writeOnly deprecated const anyof oneof oneof_type oneof_required anyof_type anyof_required anchor ref")

// readBounds reads between which numbers a field must be. Both are of the type of
// the field, so that comparing is exact.
func (f *field) readBounds() (err error) {
	if f.min, err = f.bound("minimum"); err == nil {
		f.max, err = f.bound("maximum")
	}
	if err == nil && f.min.IsValid() && f.max.IsValid() && compare(f.min, f.max) > 0 {
		err = errors.New("minimum is above maximum")
	}
	return err
}

// bound returns the number in a tag, and no value if there is none. One that the
// type cannot hold is an error: nothing would fit it, or everything.
func (f *field) bound(key string) (bound reflect.Value, err error) {
	text, ok := f.tag.Lookup(key)
	if !ok {
		return bound, nil
	}
	if f.schema.kind != "integer" && f.schema.kind != "number" || !isNumber([]byte(text)) {
		return bound, errors.New(key + " must be a number, on a field that is a number")
	}
	return valueOf(key, []byte(text), f.schema.typ, f.schema.set)
}

// readLengths reads how long a string or a list may be. The tags are the same for
// both; the schema has other words for lists.
func (f *field) readLengths() (err error) {
	if f.minLen, err = f.length("minLength", 0); err == nil {
		f.maxLen, err = f.length("maxLength", -1)
	}
	if err == nil && f.maxLen >= 0 && f.minLen > f.maxLen {
		err = errors.New("minLength is above maxLength")
	}
	return err
}

// length returns the number of characters or elements in a tag, or what it is
// without one.
func (f *field) length(key string, without int) (int, error) {
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

// readFormat reads the format of a string. A time.Time and the like have theirs.
// These four are all that wellFormed knows, and all that a form may have.
func (f *field) readFormat() error {
	format, ok := f.tag.Lookup("format")
	if !ok {
		return nil
	}
	if !f.schema.plain() || !slices.Contains([]string{"email", "uri", "date", "date-time"}, format) {
		return errors.New(`format must be "email", "uri", "date" or "date-time", on a string without a form of its own`)
	}
	f.format = format
	return nil
}

// plain reports whether s is of strings that mean nothing but themselves.
func (s *schema) plain() bool { return s.kind == "string" && !s.text && s.encoding == "" }

// readEnum reads the values that a field, or each of its elements, may have, and
// what they are called in a form.
func (f *field) readEnum() error {
	var enum, titles []string
	if text, ok := f.tag.Lookup("enum"); ok {
		enum = strings.Split(text, ",")
	}
	if text, ok := f.tag.Lookup("titles"); ok {
		titles = strings.Split(text, ",")
	}
	of := f.schema
	if of.kind == "array" {
		of = of.elem
	}
	if enum != nil && !of.plain() {
		return errors.New("enum must be on a string or a list of strings, without a form of its own: of numbers some models accept none")
	}
	for i, val := range enum {
		if err := f.checkChoice(of, val); err != nil {
			return err
		}
		if slices.Contains(enum[:i], val) {
			return fmt.Errorf("enum: %s stands there twice", val)
		}
	}
	if titles != nil && len(titles) != len(enum) {
		return errors.New("titles must go with an enum, as many as that has values")
	}
	f.enum, f.titles = enum, titles
	return nil
}

// checkChoice holds one value of an enum against what it is of.
func (f *field) checkChoice(of *schema, val string) error {
	if strings.TrimSpace(val) != val {
		return fmt.Errorf("enum: %q has blanks: write the values with commas alone between them", val)
	}
	set := of.set
	if of == f.schema {
		set = f.check
	}
	_, err := valueOf("enum", appendString(nil, val), of.typ, set)
	return err
}

// readDefault reads what stands for a field that is left out. It is sent as it
// was read: in one line, and not with a string where a number belongs.
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
	f.dflt = raw // already: a default that needs itself is nested too deeply
	_, err = valueOf("default", raw, f.schema.typ, f.check)
	if err != nil {
		f.dflt = nil
	}
	return err
}

// valueOf returns what a tag says in JSON, if set takes it for a value of type t.
// What is wrong with a tag is so told in the words that a model would read.
func valueOf(key string, raw []byte, t reflect.Type, set func(reflect.Value, []byte, *faults)) (reflect.Value, error) {
	v, bad := reflect.New(t).Elem(), faults{exact: true}
	set(v, raw, &bad)
	bad.inMember(0, key)
	return v, bad.err()
}

// maxSchema is how many bytes a schema may have: a larger one is cut at a smaller
// depth. It would be a large part of what a model can read.
const maxSchema = 32 << 10

// render returns s as JSON Schema. Every node has one type, and nothing refers to
// anything, because many hosts and providers refuse the rest. So a type is written
// out wherever it stands, and types that contain each other would fill megabytes:
// if the schema would be too large, objects that are nested deeply are plain.
func (s *schema) render() json.RawMessage {
	for depth := 16; ; depth-- {
		if b := (&printer{depth: depth}).append(nil, s, untagged); len(b) <= maxSchema || depth == 1 {
			return b
		}
	}
}

// A printer writes a schema down.
type printer struct {
	depth     int            // to which objects are described
	ancestors []reflect.Type // the objects that the current one stands in
	form      revision       // that the form is for which it writes; 0: it writes no form
}

// untagged stands for the field where a schema is of no field: it has no tags. Nobody
// writes to it.
var untagged = &field{maxLen: -1}

// append appends s with what the tags of its field say. In the schema of a list, the
// enum of the field stands with the elements.
func (p *printer) append(b []byte, s *schema, f *field) []byte {
	b = stringMember(append(b, '{'), "type", s.kind)
	b = optionalMember(b, "description", cmp.Or(f.doc, s.encoding)) // some hosts drop contentEncoding
	if p.form == 0 || p.form.knows(formDefaults) || s.kind == "boolean" {
		b = rawMember(b, "default", f.dflt)
	}
	if len(f.enum) > 0 && s.kind != "array" {
		b = p.appendChoice(b, f, "oneOf")
	}
	b = s.appendBounds(b, f)
	b = optionalMember(b, "format", s.format+f.format)
	b = optionalMember(b, "contentEncoding", s.encoding)
	switch {
	case s.kind == "array" && p.titled(f): // the elements have no type, by the protocol's schema
		b = closeWith(p.appendChoice(join(b, `"items":{`), f, "anyOf"), "}")
	case s.kind == "array":
		b = p.append(join(b, `"items":`), s.elem, &field{enum: f.enum, maxLen: -1})
	case s.kind == "object" && !s.free:
		b = p.appendObject(b, s)
	}
	return closeWith(b, "}")
}

// appendBounds appends the lengths and numbers between which a value must be. A
// tag counts before the range of the type, which it cannot exceed.
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
	low, high := s.typeRange()
	b = rawMember(b, "minimum", []byte(cmp.Or(f.tag.Get("minimum"), low)))
	return rawMember(b, "maximum", []byte(cmp.Or(f.tag.Get("maximum"), high)))
}

// typeRange returns the range of an integer type that is small, and smaller on
// no machine than on another.
func (s *schema) typeRange() (low, high string) {
	switch k := s.typ.Kind(); {
	case s.kind != "integer":
		return "", ""
	case reflect.Int8 <= k && k <= reflect.Int32:
		limit := int64(1) << (s.typ.Bits() - 1)
		return strconv.FormatInt(-limit, 10), strconv.FormatInt(limit-1, 10)
	case reflect.Uint8 <= k && k <= reflect.Uint32:
		return "0", strconv.FormatInt(int64(1)<<s.typ.Bits()-1, 10)
	case k >= reflect.Uint:
		return "0", ""
	}
	return "", ""
}

// appendObject appends what the schema of an object says of what is in it. It
// stops describing once too much is written: render then tries again, less deep.
func (p *printer) appendObject(b []byte, s *schema) []byte {
	if slices.Contains(p.ancestors, s.typ) || len(p.ancestors) >= p.depth || len(b) > maxSchema {
		return join(b, `"properties":{}`)
	}
	p.ancestors = append(p.ancestors, s.typ)
	b = join(p.appendFields(b, s.fields), `"additionalProperties":`)
	if s.elem != nil {
		b = p.append(b, s.elem, untagged)
	} else {
		b = join(b, "false")
	}
	p.ancestors = p.ancestors[:len(p.ancestors)-1]
	return b
}

// appendFields appends what the schema of an object says of its fields. An empty
// list of required ones is left out: the oldest drafts of JSON Schema refuse it.
func (p *printer) appendFields(b []byte, fields []*field) []byte {
	b = join(b, `"properties":{`)
	var required []byte
	for _, f := range fields {
		b = append(p.append(append(appendString(b, f.name), ':'), f.schema, f), ',')
		if !f.optional {
			required = append(appendString(required, f.name), ',')
		}
	}
	if b = closeWith(b, "},"); required != nil {
		b = join(b, `"required":[`, string(closeWith(required, "],")))
	}
	return b
}

// titled reports whether the values of an enum have their titles beside them.
func (p *printer) titled(f *field) bool { return f.titles != nil && p.form.knows(choiceTitles) }

// appendChoice appends the values of an enum; in a form, with their titles, and
// then as the member key. Each revision has another place for titles, and the
// oldest have none.
func (p *printer) appendChoice(b []byte, f *field, key string) []byte {
	titled := p.titled(f)
	if !titled {
		key = "enum"
	}
	b = join(b, `"`, key, `":[`)
	for i, v := range f.enum {
		v = string(appendString(nil, v))
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

// appendForm appends s as a form that a revision knows, or returns an error if
// it does not. What no revision knows panics, whoever the client is: the programmer can
// mend it. A form says nothing of further properties, which the protocol does not allow
// it to: then they are not refused either.
func (s *schema) appendForm(b []byte, rev revision) (_ []byte, err error) {
	if s.kind != "object" || s.elem != nil || s.free {
		panic("mcp: Elicit: a form is a struct, not a " + s.typ.String())
	}
	for _, f := range s.fields {
		list := f.schema.kind == "array" && f.enum != nil
		switch {
		case list && !rev.knows(choiceLists):
			err = fmt.Errorf("mcp: Elicit: %s: a choice of several: %w in revision %v", f.name, errors.ErrUnsupported, rev)
		case f.enum != nil && (f.minLen > 0 || f.maxLen >= 0) && !list:
			panic("mcp: Elicit: " + f.name + ": a choice has no bounds")
		case !list && (f.schema.kind == "array" || f.schema.kind == "object" || f.schema.encoding != ""):
			panic("mcp: Elicit: " + f.name + ": a form has strings, numbers, booleans and choices")
		}
	}
	p := &printer{form: rev}
	return closeWith(p.appendFields(join(b, `{"type":"object",`), s.fields), "}"), err
}

// ---- schemas by hand ----

// The rules are what the arguments of a tool are checked by.
type rules struct {
	schema *schema
	byHand *rootRules // of an InputSchema that was given; nil: the schema that was sent is derived from In
}

// The rootRules are what is enforced of a schema that was written by hand.
type rootRules struct {
	names    []string // the properties
	required []string
	closed   bool // it has no other properties
}

// rootRulesOf reads the root of a schema, and panics if it makes no sense. Deeper down
// a schema may say anything: it is for the model, and the handler checks.
func rootRulesOf(schema []byte, where string) *rootRules {
	var properties, required, additional, patterns []byte
	pick(schema, want{name: "properties", to: &properties}, want{name: "required", to: &required}, want{name: "additionalProperties", to: &additional}, want{name: "patternProperties", to: &patterns})
	r := &rootRules{closed: string(additional) == "false" && patterns == nil}
	panicUnless(required == nil || json.Unmarshal(required, &r.required) == nil, where, "required must be a list of names in InputSchema")
	if properties != nil {
		panicUnless(properties[0] == '{', where, "properties must be an object in InputSchema")
		for name := range members(properties) {
			r.names = append(r.names, string(name))
		}
	}
	return r
}

// describes reports whether there is an argument of this name.
func (in *rules) describes(name string) bool {
	return in.byHand != nil && slices.Contains(in.byHand.names, name) ||
		slices.ContainsFunc(in.schema.fields, func(f *field) bool { return f.name == name })
}

// check notes which arguments are missing, and which there should not be. It looks
// at names alone: what the values are is for the types of In.
func (r *rootRules) check(args []byte, bad *faults) {
	if !r.closed && len(r.required) == 0 {
		return
	}
	missing := slices.Clone(r.required)
	for key := range members(args) {
		name := string(key)
		missing = slices.DeleteFunc(missing, func(required string) bool { return required == name })
		if r.closed && !bad.enough() && name != hostsOwn && !slices.Contains(r.names, name) {
			bad.unknown(name, r.names)
		}
	}
	for _, name := range missing {
		bad.addMember(name, "is required")
	}
}

// ---- arguments by their schema ----
//
// Arguments are read in one pass over the raw JSON, which checks and sets at
// once. It goes on after a fault, so that the model is told all of them, each
// with its place, and can mend them in one go.
//
// The way down is rules.unmarshal, then schema.set for each value, then setStruct,
// setList or setMap for what is in it. A field adds what its tags say, in
// field.check. The same functions read what tags say of a default or a bound, and
// what the client answers us: the flags of faults tell them apart.

// hostsOwn is an argument that Gemini CLI adds to those of every tool, for
// itself, and sends along. A tool that has no such argument never sees it.
const hostsOwn = "wait_for_previous"

// unmarshal sets what v points to from the arguments of a call.
func (in *rules) unmarshal(args []byte, v any) error {
	bad := faults{partial: in.byHand != nil} // on the stack: mostly there are none
	if in.schema.fields == nil && bytes.Contains(args, []byte(hostsOwn)) && !in.describes(hostsOwn) {
		args = without(args, hostsOwn) // setStruct skips it, but v is not a struct
	}
	if in.byHand != nil {
		in.byHand.check(args, &bad)
	}
	in.schema.set(reflect.ValueOf(v).Elem(), args, &bad)
	return bad.err()
}

// without returns a copy of an object without the members of a name.
func without(object []byte, name string) []byte {
	b := []byte("{")
	for key, val := range members(object) {
		if string(key) != name {
			b = append(append(appendString(b, string(key)), ':'), val...)
			b = append(b, ',')
		}
	}
	return closeWith(b, "}")
}

// faults is what is wrong with the arguments of one call, and how strictly they
// are read.
type faults struct {
	list    []fault
	depth   int  // of the value that is looked at
	open    bool // names may be unknown: it is a form
	partial bool // names may also be missing, and a null for a field or a pointer is nothing: the schema is not ours
	exact   bool // nothing is accepted in place of something else
}

// A fault is one thing that is wrong, and where. Whoever finds it does not know
// the way there: each level above puts its own step in front. So a call without
// faults has nothing to pay for their places.
type fault struct{ place, what string }

func (f *faults) Error() string {
	var lines []string
	for _, one := range f.list {
		place := strings.TrimPrefix(one.place, ".")
		lines = append(lines, strings.TrimPrefix(place+" "+one.what, " "))
	}
	return strings.Join(lines, "; ")
}

// err returns nil if there are none. An error outlives the call that it is about,
// so it is a copy.
func (f *faults) err() error {
	if len(f.list) == 0 {
		return nil
	}
	return &faults{list: f.list} // f itself stays on the stack
}

// maxArgsDepth is how deep arguments may be nested that go into a type which
// contains itself. A json.RawMessage or a map[string]any takes more.
const maxArgsDepth = 100

// enough keeps a call that is wrong all over from costing more than a right one.
func (f *faults) enough() bool { return len(f.list) >= 10 }

// add notes what is wrong with the value that is looked at, if something is.
func (f *faults) add(err error) {
	if err != nil {
		f.list = append(f.list, fault{what: err.Error()})
	}
}

// addMember notes what is wrong with a member of the value that is looked at.
func (f *faults) addMember(name, what string) {
	f.add(errors.New(what))
	f.inMember(len(f.list)-1, name)
}

// inMember says that the faults from a number on are in the member of a name.
func (f *faults) inMember(from int, name string) {
	for i := from; i < len(f.list); i++ {
		f.list[i].place = "." + cmp.Or(oneLine(name), `""`) + f.list[i].place
	}
}

// inElement says that the faults from a number on are in an element of a list.
func (f *faults) inElement(from, index int) {
	for i := from; i < len(f.list); i++ {
		f.list[i].place = "[" + strconv.Itoa(index) + "]" + f.list[i].place
	}
}

// unknown notes a name that is not among those that there are. It lists them,
// because a model that has guessed a name then finds the right one.
func (f *faults) unknown(name string, names []string) {
	const most = 30
	if len(names) > most {
		names = append(slices.Clone(names[:most]), "...")
	}
	if len(names) == 0 {
		f.addMember(name, "is unknown, none is wanted")
	} else {
		f.addMember(name, "is unknown (there is "+strings.Join(names, ", ")+")")
	}
}

// set sets v, which is of the type that s describes or points to one, from
// raw, which is valid JSON. What does not fit is a fault. A null is a fault too, but for
// what cannot be described, and for a pointer if the schema is not ours: a field that
// may be left out never comes here with one.
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
	if bad.depth++; bad.depth > maxArgsDepth { // every level looks at all that is below it
		bad.add(errors.New("is nested too deeply"))
	} else {
		s.setValue(v, raw, bad)
	}
	bad.depth--
}

// setValue is set for a value that v itself is to hold. What is in a list or an
// object notes its own faults; any other value has one at most.
func (s *schema) setValue(v reflect.Value, raw []byte, bad *faults) {
	given := raw
	if raw[0] == '"' && s.kind != "string" && s.kind != "" && !bad.exact {
		raw = s.unwrap(raw)
	}
	var err error
	switch {
	case s.kind == "", s.free && raw[0] == '{':
		err = setOwn(v, raw)
	case s.kind == "string" && raw[0] == '"':
		err = s.setText(v, raw)
	case s.kind == "boolean" && (string(raw) == "true" || string(raw) == "false"):
		v.SetBool(raw[0] == 't')
	case s.kind == "integer" && isNumber(raw):
		err = s.setInteger(v, raw)
	case s.kind == "number" && isNumber(raw):
		err = s.setNumber(v, raw)
	case s.kind == "array" && raw[0] == '[':
		s.setList(v, raw, bad)
	case s.kind == "object" && raw[0] == '{' && s.elem != nil:
		s.setMap(v, raw, bad)
	case s.kind == "object" && raw[0] == '{':
		s.setStruct(v, raw, bad)
	default:
		err = wrongKind(s.kind, given)
	}
	bad.add(err)
}

// unwrap returns the JSON in a JSON string, of whatever kind it is: models write
// numbers and booleans as strings now and then, and hosts send lists and objects
// so. If there is none, it returns the string.
func (s *schema) unwrap(raw []byte) []byte {
	inside := unquoteBytes(raw)
	if s.kind == "array" || s.kind == "object" {
		inside = trimEnd(inside[skipSpace(inside, 0):])
	}
	if scan(inside, 0, 0, nil) != len(inside) {
		return raw
	}
	return inside
}

// wrongKind says that a value is not of the kind that is wanted. It repeats what
// came, so that a model sees what it did, but no long text.
func wrongKind(kind string, raw []byte) error {
	article := "a "
	if strings.IndexByte("aio", kind[0]) >= 0 {
		article = "an "
	}
	str, isText := unquote(raw)
	got := appendString(nil, excerpt(str))
	if !isText {
		compact, _ := appendCompact(nil, raw) // what came in a string may have newlines
		got = []byte(excerpt(string(compact)))
	}
	return fmt.Errorf("must be %s%s, got %s", article, kind, got)
}

// setOwn sets a value that has a form of its own, which encoding/json reads. The
// user's method must not get at what stands behind raw, where the client's next
// messages are.
func setOwn(v reflect.Value, raw []byte) error {
	raw = slices.Clip(raw)
	if u, ok := v.Addr().Interface().(json.Unmarshaler); ok { // a json.RawMessage may be long
		return notValid(u.UnmarshalJSON(raw))
	}
	return notValid(json.Unmarshal(raw, v.Addr().Interface()))
}

// notValid says in the words of a type's own method, if it failed, that a value
// is not valid. The words are of one line: nobody knows what they hold.
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
			err = errors.New("write a time as in 2026-01-31T09:30:00Z")
		}
		return notValid(err)
	case s.encoding != "":
		b, err := base64.StdEncoding.DecodeString(str)
		if err != nil {
			return errors.New("must be base64")
		}
		v.SetBytes(b)
	default:
		v.SetString(str)
	}
	return nil
}

// setNumber sets a float. A number that is too large for it is not made infinite.
func (s *schema) setNumber(v reflect.Value, raw []byte) error {
	f, err := strconv.ParseFloat(string(raw), s.typ.Bits())
	if err != nil {
		return fmt.Errorf("must be a %v, got %s", s.typ.Kind(), excerpt(string(raw)))
	}
	v.SetFloat(f)
	return nil
}

// setInteger takes a number with a fraction or an exponent for an integer if it
// is one, and refuses what v cannot hold.
func (s *schema) setInteger(v reflect.Value, raw []byte) (err error) {
	num := string(raw) // not for an error's text: then it would be allocated in each call
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
	wanted := "an integer"
	switch {
	case err == nil:
		return nil
	case errors.Is(err, strconv.ErrRange):
		wanted = "in the range of " + s.typ.Kind().String()
	case num[0] == '-' && !strings.ContainsAny(num, ".eE"):
		wanted = "at least 0"
	}
	return errors.New("must be " + wanted + ", got " + excerpt(string(raw)))
}

// integer writes a number without its fraction and exponent, if it is an integer.
// If the number does not fit into 64 bits, the result does not either; its value
// does not matter then.
func integer(num string) string {
	mantissa, exponent := num, 0
	if i := strings.IndexAny(num, "eE"); i >= 0 {
		mantissa = num[:i]
		exponent, _ = strconv.Atoi(num[i+1:]) // out of range it is the largest there is
		exponent = max(exponent, -1<<30)      // less could not be negated
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	figures := whole + fraction
	behind := len(fraction) - exponent // digits behind the point
	zeros := len(figures) - len(strings.TrimRight(figures, "0"))
	switch {
	case strings.Trim(figures, "-0") == "":
		return "0"
	case behind > zeros:
		return num
	case behind >= 0:
		return figures[:len(figures)-behind]
	}
	const more = "000000000000000000000000000000"
	return figures + more[:min(-behind, len(more))]
}

// isNumber reports whether raw is a number in JSON. It may come out of a tag, and
// so need not be JSON at all.
func isNumber(raw []byte) bool {
	return len(raw) > 0 && scanNumber(raw, 0) == len(raw)
}

// setList sets a slice, element by element: how many come is not known before.
func (s *schema) setList(v reflect.Value, raw []byte, bad *faults) {
	v.Set(reflect.MakeSlice(s.typ, 0, 0))
	for _, val := range members(raw) {
		n := v.Len()
		v.Grow(1)
		v.SetLen(n + 1)
		v.Index(n).SetZero()
		before := len(bad.list)
		s.elem.set(v.Index(n), val, bad)
		bad.inElement(before, n)
		if bad.enough() {
			break
		}
	}
}

// setMap sets a map. Its keys are strings, which may have UnmarshalText. Two keys
// of the JSON may so become one of the map, which counts as coming twice.
func (s *schema) setMap(v reflect.Value, raw []byte, bad *faults) {
	v.Set(reflect.MakeMap(s.typ))
	for key, val := range members(raw) {
		k, e := reflect.New(s.typ.Key()), reflect.New(s.typ.Elem()).Elem()
		before, size := len(bad.list), v.Len()
		if u, ok := k.Interface().(encoding.TextUnmarshaler); !ok {
			k.Elem().SetString(string(key))
		} else {
			bad.add(notValid(u.UnmarshalText(slices.Clip(key))))
		}
		s.elem.set(e, val, bad)
		if v.SetMapIndex(k.Elem(), e); v.Len() == size {
			bad.add(errors.New("came twice"))
		}
		bad.inMember(before, string(key))
		if bad.enough() {
			break
		}
	}
}

// setStruct sets a struct: first what is there, then defaults for what is not.
// Names are matched exactly, unlike in encoding/json, and none may come twice:
// the client and we would take different ones.
func (s *schema) setStruct(v reflect.Value, raw []byte, bad *faults) {
	seen := make([]bool, len(s.fields))
	for key, val := range members(raw) {
		i := slices.IndexFunc(s.fields, func(f *field) bool { return f.name == string(key) })
		switch {
		case i < 0 && (bad.open || bad.partial || bad.depth == 1 && string(key) == hostsOwn):
			// Not for us.
		case i < 0:
			bad.unknown(string(key), s.names())
		case seen[i]:
			bad.addMember(string(key), "came twice")
		default:
			seen[i] = true
			s.fields[i].setIn(v, val, bad)
		}
		if bad.enough() {
			return
		}
	}
	for i, f := range s.fields {
		switch {
		case seen[i]:
		case f.dflt != nil && !bad.enough():
			f.setIn(v, f.dflt, bad)
		case !f.optional && !bad.partial:
			bad.addMember(f.name, "is required")
		}
	}
}

// names returns the names of the fields, in their order.
func (s *schema) names() (names []string) {
	for _, f := range s.fields {
		names = append(names, f.name)
	}
	return names
}

// setIn sets the field in the struct v, and says of what is wrong with it that it
// is in the field. A null for an optional field is as good as nothing. With the json
// option string, the value is inside of a string.
func (f *field) setIn(v reflect.Value, raw []byte, bad *faults) {
	if string(raw) == "null" && (f.optional || bad.partial && f.schema.kind != "") {
		raw = f.dflt
	}
	if raw == nil {
		return
	}
	before := len(bad.list)
	if v = fieldOf(v, f.index); !v.IsValid() {
		bad.addMember(f.name, "cannot be set")
		return
	}
	if f.quoted && raw[0] == '"' {
		raw = f.schema.unwrap(raw)
	}
	f.check(v, raw, bad)
	bad.inMember(before, f.name)
}

// fieldOf is reflect.Value.FieldByIndex that makes the embedded structs that
// it finds missing on the way. It returns no value if it cannot.
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

// check sets v from raw and holds it against what the tags say, if it could be
// set. Bounds are for the value and not for what was sent: a "5" for
// a number has been accepted by then.
func (f *field) check(v reflect.Value, raw []byte, bad *faults) {
	before := len(bad.list)
	if f.schema.set(v, raw, bad); len(bad.list) > before {
		return
	}
	if v = pointee(v); v.Kind() == reflect.Pointer {
		return // a null
	}
	if f.schema.kind != "array" {
		bad.add(f.checkEnum(v))
		bad.add(f.checkNumber(v, raw))
		f.checkString(raw, bad)
		return
	}
	bad.add(f.checkLength(v.Len(), "elements"))
	for i := 0; f.enum != nil && i < v.Len() && !bad.enough(); i++ {
		before = len(bad.list)
		bad.add(f.checkEnum(v.Index(i)))
		bad.inElement(before, i)
	}
}

// checkNumber holds a number against its bounds. It tells all as it was written,
// since a float need not print that way, and a type may have a String of its own.
func (f *field) checkNumber(v reflect.Value, raw []byte) error {
	switch {
	case f.min.IsValid() && compare(v, f.min) < 0:
		return fmt.Errorf("must be at least %s, got %s", f.tag.Get("minimum"), excerpt(string(raw)))
	case f.max.IsValid() && compare(v, f.max) > 0:
		return fmt.Errorf("must be at most %s, got %s", f.tag.Get("maximum"), excerpt(string(raw)))
	}
	return nil
}

// checkString holds a string against its length and format. A long text without
// these is not decoded for nothing.
func (f *field) checkString(raw []byte, bad *faults) {
	if f.minLen <= 0 && f.maxLen < 0 && f.format == "" {
		return
	}
	str, _ := unquote(raw)
	bad.add(f.checkLength(utf8.RuneCountInString(str), "characters"))
	if !wellFormed(f.format, str) {
		bad.add(fmt.Errorf("must be of the format %s, got %q", f.format, excerpt(str)))
	}
}

// pointee is what v points to, as far as it does.
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

// checkEnum holds a value against those that are allowed, if not all are. A nil
// pointer is no value.
func (f *field) checkEnum(v reflect.Value) error {
	v = pointee(v)
	if f.enum == nil || v.Kind() == reflect.Pointer {
		return nil
	}
	got := v.String() // and not how it prints: the type may have a String of its own
	if slices.Contains(f.enum, got) {
		return nil
	}
	return fmt.Errorf("must be one of %s, got %q", strings.Join(f.enum, ", "), excerpt(got))
}

// compare compares two numbers of one type. An int64 is not made a float, which
// cannot hold them all.
func compare(v, w reflect.Value) int {
	switch {
	case v.CanInt():
		return cmp.Compare(v.Int(), w.Int())
	case v.CanUint():
		return cmp.Compare(v.Uint(), w.Uint())
	}
	return cmp.Compare(v.Float(), w.Float())
}

// wellFormed holds a string against a format, as far as a slip is likely. Whether
// there is such an address or page, only the handler can find out.
func wellFormed(format, s string) bool {
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
	case "date-time": // package time also takes hours of one digit, and commas
		return len(s) > 19 && s[13] == ':' && s[19] != ',' && new(time.Time).UnmarshalText([]byte(s)) == nil
	}
	return true
}

// excerpt is as much of the client's words as may be repeated in a message. If it
// is cut, it lacks what is no UTF-8, such as half a character at its end.
func excerpt(s string) string {
	if len(s) <= 100 {
		return s
	}
	return strings.ToValidUTF8(s[:100], "") + "..."
}

// oneLine is an excerpt that cannot be taken for the next line of a log.
func oneLine(s string) string {
	s = excerpt(s)
	if strings.IndexFunc(s, func(r rune) bool { return !strconv.IsPrint(r) }) >= 0 {
		s = strconv.Quote(s)
	}
	return s
}

// ---- values to JSON ----
//
// encoding/json writes values. What is left to do is what keeps them in line
// with the schema that was sent: there is no null but in what cannot be
// described. That stays as encoding/json writes it: what an interface or an
// array holds, and what has a MarshalJSON.

// marshal is json.Marshal without escapes for HTML, and with nil slices and
// maps, as far as the types tell, as empty ones and without nil pointers. What
// it returns is valid UTF-8 and one line, whatever methods of the user's write.
func marshal(v any) ([]byte, error) { return (*schema)(nil).marshal(v) }

// marshal does so for what s describes. If s is nil the type of v is described
// first, but only when there is a null to be mended.
func (s *schema) marshal(v any) ([]byte, error) {
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
		raw = s.fill(raw, reflect.ValueOf(v))
	}
	return singleLine(raw), nil
}

// singleLine mends what a MarshalJSON, or whoever else writes JSON, may have
// written: bytes that are no UTF-8, and characters that some take for the end of a
// line.
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

// fill returns what encoding/json has written for v the way it is to be sent. A v
// that is nil as a whole has no member to be left out: a pointer stays null.
func (s *schema) fill(raw []byte, v reflect.Value) []byte {
	if string(raw) == "null" {
		v = pointee(v)
		return []byte(cmp.Or(s.empty(v.Type()), "null"))
	}
	raw, _ = s.appendFilled(make([]byte, 0, len(raw)), raw, 0)
	return raw
}

// empty returns what is sent for a nil of type t, which s describes, and
// nothing if it is left out.
func (s *schema) empty(t reflect.Type) string {
	switch {
	case t.Kind() == reflect.Pointer:
		return ""
	case s.encoding != "":
		return `""`
	case t.Kind() == reflect.Slice && s.elem != nil:
		return "[]"
	case t.Kind() == reflect.Map && (s.elem != nil || s.free):
		return "{}"
	}
	return "null"
}

// appendFilled appends the value that begins at raw[i], and returns where it
// ends. It follows the types as far as encoding/json has: what writes itself, or
// an interface holds, stays as it is.
func (s *schema) appendFilled(b, raw []byte, i int) ([]byte, int) {
	if raw[i] != '{' && raw[i] != '[' || s.elem == nil && s.fields == nil {
		end := skip(raw, i)
		return append(b, raw[i:end]...), end
	}
	object, closer := raw[i] == '{', raw[i]+2 // '{'+2 is '}', and '['+2 is ']'
	b = append(b, raw[i])
	for i++; raw[i] != closer; {
		start, name := len(b), []byte(nil)
		if object {
			end := skip(raw, i)
			name = raw[i:end]
			b = append(b, raw[i:end+1]...) // with its colon
			i = end + 1
		}
		inner, t := s.inside(name)
		if raw[i] != 'n' {
			b, i = inner.appendFilled(b, raw, i)
			b = append(b, ',')
		} else if i += len("null"); !object && inner.kind == "" && t.Kind() == reflect.Pointer { // what writes itself keeps its place
			b = join(b, "null,")
		} else if empty := inner.empty(t); empty != "" {
			b = join(b, empty, ",")
		} else {
			b = b[:start]
		}
		if raw[i] == ',' {
			i++
		}
	}
	return append(closeWith(b), closer), i + 1
}

// inside returns what the values in a list or map are, or the field of a name.
func (s *schema) inside(name []byte) (*schema, reflect.Type) {
	if s.elem != nil {
		return s.elem, s.typ.Elem()
	}
	known, _ := unquote(name)
	f := s.fields[slices.IndexFunc(s.fields, func(f *field) bool { return f.name == known })]
	return f.schema, f.typ
}

// ---- JSON ----

// Lines of the client are parsed by a scanner of this package, because encoding/json
// matches names without regard to case, keeps the last of two equal names, and does
// not keep ids as they were written. The scanner matches names byte for byte and
// reports duplicates. Otherwise it is as strict as encoding/json, against which it is
// fuzzed. When Go 1.27 is the oldest supported release, encoding/json/jsontext can
// replace it.
//
// scan validates a message and extracts members from it in one pass. It does not look
// into arguments: their schema says what they may hold. The functions that run later,
// such as skip, members and unquote, require valid JSON and do not check it again.

// A want names a member to extract, where to store its value, and which members of
// that value to extract.
type want struct {
	name      string
	to        *[]byte
	inside    []want
	duplicate bool // set if the member came more than once
}

// scan returns the index after the value that begins at b[i], or -1 if it is not
// valid JSON. It does not check UTF-8. The argument depth is the number of containers
// around the value. If the value is an object, scan extracts the wanted members.
func scan(b []byte, i, depth int, wanted []want) int {
	if i >= len(b) {
		return -1
	}
	switch b[i] {
	case '{', '[':
		return scanContainer(b, i, depth+1, wanted)
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

// scanContainer is scan for an object or an array.
func scanContainer(b []byte, i, depth int, wanted []want) int {
	object, closer := b[i] == '{', b[i]+2 // '{'+2 is '}', and '['+2 is ']'
	if depth > maxDepth {
		return -1
	}
	if i = skipSpace(b, i+1); i < len(b) && b[i] == closer {
		return i + 1
	}
	for i < len(b) {
		var w *want
		if object {
			var key []byte
			if key, i = scanKey(b, i); i < 0 {
				return -1
			}
			w = findWant(wanted, key)
		}
		if i = w.scanMember(b, i, depth); i < 0 {
			return -1
		}
		if i = skipSpace(b, i); i == len(b) || b[i] != ',' {
			break
		}
		i = skipSpace(b, i+1)
	}
	if i < len(b) && b[i] == closer {
		return i + 1
	}
	return -1
}

// scanKey returns a key with its quotes, and the index of the value after it and the
// colon, or -1.
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

// findWant returns the element of wanted whose name is key, or nil.
func findWant(wanted []want, key []byte) *want {
	if len(wanted) == 0 {
		return nil
	}
	name := unquoteBytes(key)
	for i := range wanted {
		if wanted[i].name == string(name) {
			return &wanted[i]
		}
	}
	return nil
}

// unquoteBytes returns the text of a valid JSON string, given with its quotes. It
// copies the text only if it holds escapes.
func unquoteBytes(quoted []byte) []byte {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return quoted[1 : len(quoted)-1]
	}
	text, _ := unquote(quoted)
	return []byte(text)
}

// scanMember is scan for the value of a member. It stores the value unless w is nil.
func (w *want) scanMember(b []byte, i, depth int) int {
	if w == nil {
		return scan(b, i, depth, nil)
	}
	w.duplicate = *w.to != nil
	*w.to = b[i:] // if the value is cut off, this is what is left of it
	end := scan(b, i, depth, w.inside)
	if end >= 0 {
		*w.to = b[i:end]
	}
	return end
}

// findDuplicate returns a text that names the first wanted member that came twice, or
// "".
func findDuplicate(wanted []want) string {
	for _, w := range wanted {
		if w.duplicate {
			return w.name + " came twice"
		}
	}
	return ""
}

// pick extracts members from an object. It does nothing if obj is another value.
func pick(obj []byte, wanted ...want) { scan(obj, 0, 0, wanted) }

// members returns an iterator over the members of a valid object, or over the
// elements of a valid array, whose names are nil.
func members(b []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(name, val []byte) bool) {
		for i := skipSpace(b, 1); b[i] != '}' && b[i] != ']'; {
			var name []byte
			if b[0] == '{' {
				name, i = scanKey(b, i)
				name = unquoteBytes(name)
			}
			end := skip(b, i)
			if !yield(name, b[i:end]) {
				return
			}
			if i = skipSpace(b, end); b[i] == ',' {
				i = skipSpace(b, i+1)
			}
		}
	}
}

// skip returns the index after the valid value that begins at b[i].
func skip(b []byte, i int) int {
	depth := 0
	for {
		switch b[i] {
		case '{', '[':
			depth++
			i++
		case '}', ']':
			depth--
			i++
		case '"':
			i = skipString(b, i)
		case ',', ':', ' ', '\t', '\r', '\n':
			i++
		default:
			for i < len(b) && strings.IndexByte(",:]} \t\r\n", b[i]) < 0 {
				i++
			}
		}
		if depth == 0 {
			return i
		}
	}
}

// skipString is skip for a string. A quote after an odd number of backslashes is part
// of the string. Such quotes are often close to each other, for example if the string
// holds JSON. So after one of them the next bytes are examined one by one, which is
// faster there than bytes.IndexByte.
func skipString(b []byte, i int) int {
	for i++; ; {
		i += bytes.IndexByte(b[i:], '"')
		start := i
		for b[start-1] == '\\' {
			start--
		}
		if (i-start)%2 == 0 {
			return i + 1
		}
		for near := i + 16; i < near; {
			if i++; b[i] == '"' {
				return i + 1
			} else if b[i] == '\\' {
				i++
			}
		}
	}
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
		// In x-each*n &^ x, the highest bit of a byte is set if the byte is below n.
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

// scanNumber is scan for a number. A number has no leading zeros, and digits on both
// sides of its point.
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
// returns what follows. Two escapes that form a surrogate pair are one character. A
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
	if err := json.Compact(&buf, raw); err != nil || !utf8.Valid(raw) {
		return nil, fmt.Errorf("not valid JSON: %q", excerpt(string(raw)))
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

// nameMembers appends the members name, title and description.
func nameMembers(b []byte, rev revision, name, title, description string) []byte {
	b = stringMember(b, "name", name)
	if rev.knows(titles) {
		b = optionalMember(b, "title", title)
	}
	return optionalMember(b, "description", description)
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
