// SPDX-License-Identifier: MIT

// Package mcp is a Model Context Protocol server over stdin and stdout, in
// three files that are made to be copied into a program. It needs nothing but
// the standard library.
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
// A tool is an ordinary function; [AddTool] derives the schema of its
// arguments from its parameter and checks them before it is called. Handlers
// run concurrently: guard what they share, or set [Server.MaxConcurrent] to 1.
// One may run where another ran before: what it does to its goroutine, as with
// [runtime.LockOSThread], it must undo.
//
// Resources, with [Server.AddResource], are what clients can read, and prompts,
// with [Server.AddPrompt], what their users can start from.
//
// # In a handler
//
// [Progress] tells how far it has come, [LogHandler] logs to the client, and
// [RequestFrom] knows who is asking. [Elicit], [ElicitURL], [Sample] and [Roots]
// ask back: the protocol does this differently by revision, the handler is the
// same. All of them do nothing, or say that they cannot, in a test that calls
// a handler by itself.
//
// # Cancellation
//
// A handler's context ends when the client cancels the request or goes away,
// and [context.Cause] tells why: a [*CancelledError], [ErrClosed], or what
// ended the context that was given to [Server.Serve], or the signal that ended
// [Server.ServeStdio]. A handler has [Server.Drain] to clean up and return.
//
// # Protocol
//
// All revisions are served, 2024-11-05 to 2025-11-25, which open a session
// with initialize, and 2026-07-28, whose requests each speak for themselves,
// in any mixture on one connection.
package mcp

import (
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
	// second.
	Drain time.Duration

	// Linger is how long handlers may go on after the client has closed its
	// end, before they are cancelled. 0 means not at all. Their questions to the
	// client are at an end in any case.
	Linger time.Duration

	// MaxConcurrent is how many handlers run at once; further requests wait,
	// without bound, and are served in the order of their arrival. 0 means no
	// limit.
	MaxConcurrent int

	// MaxMessage is how many bytes one message of the client may have. A
	// longer one is refused without being kept. 0 means 64 MiB.
	MaxMessage int

	// PageSize is how many items are sent in one page of a list. 0 means all.
	PageSize int

	// CacheTTL is how long a client of revision 2026-07-28 may keep lists and
	// the like; CachePublic is set if all users may share them.
	CacheTTL    time.Duration
	CachePublic bool

	// StateKey seals what a client of revision 2026-07-28 carries for us while
	// it answers a question. None means a random one, so that questions do not
	// survive a restart.
	StateKey []byte

	// Logging is set if handlers log to the client, with [LogHandler].
	Logging bool

	// Extensions and Experimental are capabilities to declare, by their names.
	Extensions, Experimental map[string]any

	// ErrorLog takes the library's own diagnostics: bad messages, panics of
	// handlers, requests that the client has cancelled. nil means the standard
	// logger of package log. More than 20 a second are dropped, and so are all
	// when 64 KiB of them are waiting for an earlier one to be written.
	ErrorLog *log.Logger

	// Trace takes every line read and written, after the time and "in" or
	// "out". nil means none. Nobody waits for it: when 64 MiB are unwritten,
	// lines are left out.
	Trace io.Writer

	mu          sync.Mutex     // guards what follows
	lists       [kinds][]*item // in the order in which they came
	items       map[itemName]*item
	lastSeq     int
	offered     uint8 // the kinds that there ever was something of, a bit for each
	sessions    map[*session]struct{}
	lastSession int
	trace       *lineWriter                    // to Trace, while there are sessions
	schemas     map[reflect.Type]*schema       // of arguments
	random      []byte                         // in place of StateKey
	complete    func(*Server, *request) *Error // what an item with arguments knows
}

// An Icon is a picture for people to recognise something by. Src is an https
// or a data URI; Sizes holds values such as "48x48" or "any"; Theme is "light"
// or "dark".
type Icon struct {
	Src      string   `json:"src"`
	MIMEType string   `json:"mimeType,omitempty"`
	Sizes    []string `json:"sizes,omitempty"`
	Theme    string   `json:"theme,omitempty"`
}

// A Tool describes a tool to people and models.
type Tool struct {
	Name         string          // required: 1 to 128 of A-Z a-z 0-9 _ - .
	Title        string          // for people
	Description  string          // for the model
	InputSchema  json.RawMessage // nil: derived from the handler's parameter
	OutputSchema json.RawMessage // nil: none; see SchemaOf
	Annotations  ToolAnnotations
	Icons        []Icon
	Meta         map[string]any
}

// ToolAnnotations are hints on what a tool does. Hosts use them, say, to
// decide whether to ask the user first.
type ToolAnnotations struct {
	Title           string
	ReadOnlyHint    Hint // changes nothing; hosts assume No
	DestructiveHint Hint // may undo or delete; hosts assume Yes
	IdempotentHint  Hint // twice is the same as once; hosts assume No
	OpenWorldHint   Hint // deals with the outside world; hosts assume Yes
}

// A Hint is Yes, No, or, by default, not given.
type Hint uint8

const (
	Yes Hint = iota + 1
	No
)

// A Result is everything that a tool can return.
type Result struct {
	Content           []Content
	StructuredContent any  // marshalled as JSON; nil: none
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
	URI         string // required: "file:///notes.txt", "note://{id}", "file:///{+path}"
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

// Annotations say for whom something is and how much it matters.
type Annotations struct {
	Audience     []string `json:"audience,omitempty"`     // "user", "assistant"
	Priority     float64  `json:"priority,omitempty"`     // up to 1, most important
	LastModified string   `json:"lastModified,omitempty"` // as in RFC 3339
}

// An Error, returned by a handler, becomes an error of the protocol: the call
// as such was wrong. Any other error of a tool is shown to the model, which
// can do something about it.
type Error struct {
	Code    int // your own are outside of -32768 to -32000
	Message string
	Data    any // marshalled as JSON; nil: none
}

func (e *Error) Error() string { return e.Message }

// Is reports whether e says that the client cannot be asked, which is
// [errors.ErrUnsupported] in Go's words.
func (e *Error) Is(target error) bool {
	return e.Code == codeCapability && target == errors.ErrUnsupported
}

// The codes of the protocol.
const (
	codeParse      = -32700
	codeInvalid    = -32600
	codeMethod     = -32601
	codeParams     = -32602
	codeInternal   = -32603
	codeNotFound   = -32002 // of a resource, in the legacy era
	codeCapability = -32021
	codeVersion    = -32022
)

// What is short, called often and never in haste is not to be inlined: that
// makes a program smaller by 8 KB.

//go:noinline
func coded(code int, message string) *Error {
	return &Error{Code: code, Message: message}
}

//go:noinline
func invalid(what string) *Error {
	return coded(codeInvalid, "Invalid Request: "+what)
}

//go:noinline
func badParams(what string) *Error {
	return coded(codeParams, "Invalid params: "+what)
}

// excerpt is as much of the client's words as may be repeated in a message.
//
//go:noinline
func excerpt(s string) string {
	if len(s) > 100 {
		s = s[:100] + "..."
	}
	return s
}

// commas splits a list.
func commas(s string) (list []string) {
	for more := true; more; {
		var one string
		one, s, more = strings.Cut(s, ",")
		list = append(list, one)
	}
	return list
}

// oneLine is an excerpt that cannot be taken for the next line of a log.
func oneLine(s string) string {
	s = excerpt(s)
	if strings.IndexFunc(s, func(r rune) bool { return !strconv.IsPrint(r) }) >= 0 {
		s = strconv.Quote(s)
	}
	return s
}

// ---- tools ----

// AddTool adds a tool, or replaces the one of the same name, and tells the
// clients that are connected. It may be called at any time, also by a handler.
//
// In is a struct, or a map with string keys, and the schema of the arguments
// is derived from it; see [SchemaOf]. The arguments are checked before h is
// called. If t.InputSchema is set it is sent as it stands, the checks are h's
// business, and In may be anything, such as json.RawMessage.
//
// Out decides what becomes of the result: a string is a text; [Content] and
// []Content are blocks; [*Result] is everything by hand; struct{} is nothing;
// any other type is structured output and the same JSON as a text. There, nil
// slices and maps are sent as empty ones, and nil pointers not at all.
//
// An error of h is a result that the model can read, with exactly the error's
// text, unless it is an [*Error]. If h returns the error of its context, the
// text is that of the context's cause.
//
// AddTool panics if the name breaks the protocol's rule or a type cannot be
// described. Names that some hosts refuse, over 64 bytes or with a dot, are
// reported to ErrorLog.
func AddTool[In, Out any](s *Server, t Tool, h func(context.Context, In) (Out, error)) {
	s.addTool(&t, reflect.TypeFor[In](), reflect.TypeFor[Out](), h != nil, func(r *request, in, out *schema) []byte {
		var v In
		if err := in.unmarshal(r.arguments, &v); err != nil {
			return r.textAnswer("Invalid arguments: "+err.Error(), nil, true)
		}
		res, err := h(r.ctx, v)
		if err != nil {
			return r.failure(err)
		}
		return r.toolAnswer(res, out)
	})
}

// addTool is what of AddTool does not have to be compiled for each tool.
func (s *Server) addTool(t *Tool, from, to reflect.Type, handled bool, run func(r *request, in, out *schema) []byte) {
	where := fmt.Sprintf("mcp: tool %q", t.Name)
	panicUnless(handled, where, "the handler is missing")
	in, out := s.schemaOf(from, where+": In", t.InputSchema == nil), derive(to, "", false)
	checkTool(s, where, t, in.kind)
	meta := frozen(where, t.Meta)
	s.add(tools, &item{
		name:   t.Name,
		encode: func(rev revision) []byte { return t.encode(rev, in, meta) },
		check:  checkCall,
		run:    func(r *request) []byte { return run(r, in, out) },
	})
}

// schemaOf is derive, once for each type whose schema we send.
func (s *Server) schemaOf(t reflect.Type, where string, must bool) *schema {
	s.mu.Lock()
	known := s.schemas[t]
	s.mu.Unlock()
	if known == nil || !must {
		known = derive(t, where, must)
	}
	if must {
		s.mu.Lock()
		if s.schemas == nil {
			s.schemas = make(map[reflect.Type]*schema)
		}
		s.schemas[t] = known
		s.mu.Unlock()
	}
	return known
}

// checkCall checks what can be known of the arguments before the handler runs.
func checkCall(r *request) *Error {
	if r.arguments != nil && r.arguments[0] != '{' && string(r.arguments) != "null" {
		return badParams("arguments must be an object")
	}
	return nil
}

// checkTool panics if there is something wrong with t. Kind is the type of its
// arguments in JSON, unless it has an InputSchema that tells.
func checkTool(s *Server, where string, t *Tool, kind string) {
	for _, c := range []byte(t.Name) {
		if !('a' <= c|0x20 && c|0x20 <= 'z' || '0' <= c && c <= '9' || strings.IndexByte("_-.", c) >= 0) {
			panic(where + ": the name must be made of A-Z, a-z, 0-9, _, - and .")
		}
	}
	panicUnless(len(t.Name) > 0 && len(t.Name) <= 128, where, "the name must have 1 to 128 bytes")
	if s != nil && (len(t.Name) > 64 || strings.IndexByte(t.Name, '.') >= 0) {
		s.logf("%s: some hosts refuse names of more than 64 bytes, or with a dot", where)
	}
	for _, schema := range []*json.RawMessage{&t.InputSchema, &t.OutputSchema} {
		if *schema != nil {
			compact, err := appendCompact(nil, *schema) // a line holds no newlines
			if err != nil || compact[0] != '{' {
				panic(where + ": a schema must be a JSON object")
			}
			*schema = compact
		}
	}
	if t.InputSchema != nil {
		kind = rootType(t.InputSchema)
	}
	panicUnless(kind == "object", where, `In must be a struct or a map, and InputSchema have "type": "object"`)
}

// rootType returns the type that a schema gives to the whole value.
func rootType(schema []byte) string {
	var raw []byte
	pick(schema, want{"type", &raw})
	typ, _ := unquote(raw)
	return typ
}

// encode returns t as a revision knows it. In describes the arguments if there
// is no InputSchema.
func (t *Tool) encode(rev revision, in *schema, meta string) []byte {
	b := named(append(make([]byte, 0, 256), '{'), rev, t.Name, t.Title, t.Description)
	if b = rawMember(b, "inputSchema", t.InputSchema); t.InputSchema == nil {
		b = append(in.append(join(b, `"inputSchema":`), nil, nil), ',')
	}
	switch {
	case t.OutputSchema == nil || rev < rev2025_06_18:
	case rev == revModern || rootType(t.OutputSchema) == "object":
		b = rawMember(b, "outputSchema", t.OutputSchema)
	case !refers(string(t.OutputSchema)): // which would no longer point where it should
		b = join(b, `"outputSchema":{"type":"object","properties":{"result":`, string(t.OutputSchema), `},"required":["result"]},`)
	}
	if a := t.Annotations; a != (ToolAnnotations{}) && rev >= rev2025_03_26 {
		b = member(join(b, `"annotations":{`), "title", a.Title)
		for i, hint := range []Hint{a.ReadOnlyHint, a.DestructiveHint, a.IdempotentHint, a.OpenWorldHint} {
			if hint != 0 {
				b = join(b, `"`, []string{"readOnly", "destructive", "idempotent", "openWorld"}[i], `Hint":`)
				b = append(strconv.AppendBool(b, hint == Yes), ',')
			}
		}
		b = closeWith(b, "},")
	}
	return closeWith(appendIconsAndMeta(b, rev, t.Icons, meta), "}")
}

// refers reports whether there is a $ref in a schema.
func refers(schema string) (found bool) {
	for more := true; more && !found; {
		_, schema, more = strings.Cut(schema, `"`)
		found = strings.HasPrefix(schema, `$ref"`)
	}
	return found
}

// named appends what there is to be told of everything.
func named(b []byte, rev revision, name, title, description string) []byte {
	b = quoted(b, "name", name)
	if rev >= rev2025_06_18 {
		b = member(b, "title", title)
	}
	return member(b, "description", description)
}

// quoted appends a member, with the comma behind it that chop takes away.
func quoted(b []byte, name, val string) []byte {
	return append(appendString(join(b, `"`, name, `":`), val), ',')
}

// member is quoted for what is left out when it is empty.
func member(b []byte, name, val string) []byte {
	if val == "" {
		return b
	}
	return quoted(b, name, val)
}

// rawMember is member for a value that is JSON already.
//
//go:noinline
func rawMember[T string | []byte | json.RawMessage](b []byte, name string, val T) []byte {
	if len(val) == 0 {
		return b
	}
	return join(b, `"`, name, `":`, string(val), `,`)
}

// RemoveTools removes the tools of these names, as far as there are any, and
// tells the clients that are connected. Calls under way go on.
func (s *Server) RemoveTools(names ...string) { s.remove(tools, names) }

// ---- what a server offers ----

// An item is one thing that a server offers: it stands in the list of its kind
// and is found by its name, which for a resource is the URI.
type item struct {
	name    string
	encode  func(revision) []byte // as an element of the list
	encoded [revModern + 1][]byte // what encode returned, when it was asked for
	seq     int                   // its place in the list; cursors hold it

	match func(uri string) (vars map[string]string, ok bool) // of a template
	check func(*request) *Error                              // on the reader, before run; nil: all is well
	run   func(*request) []byte                              // returns the line that answers the request

	args     []string // the arguments of a prompt, the variables of a template
	complete map[string]CompleteFunc
	find     func(*Server, *request) *Error // finds the one of these that a request is about
}

type itemName struct {
	kind kind
	name string
}

// jsonOf is an object that the user has given, as JSON; "" if it is empty.
//
//go:noinline
func jsonOf(m map[string]any) (string, error) {
	if len(m) == 0 {
		return "", nil
	}
	raw, err := marshal(m)
	return string(raw), err
}

// frozen is a Meta as JSON: made at once and not when a list is asked for,
// because it may run code of the user's.
func frozen(where string, meta map[string]any) string {
	raw, err := jsonOf(meta)
	if err != nil {
		panic(where + ": Meta: " + err.Error())
	}
	return raw
}

func (s *Server) add(k kind, it *item) {
	s.mu.Lock()
	key := itemName{k, it.name}
	if old := s.items[key]; old != nil {
		it.seq = old.seq
		s.lists[k][slices.Index(s.lists[k], old)] = it
	} else {
		s.lastSeq++
		it.seq = s.lastSeq
		s.lists[k] = append(s.lists[k], it)
	}
	if s.items == nil {
		s.items = make(map[itemName]*item)
	}
	s.items[key] = it
	s.offered |= 1 << k.capability()
	if len(it.complete) > 0 {
		s.offered |= 1 << completions
		s.complete = it.find
	}
	s.mu.Unlock()
	s.changed(k)
}

func (s *Server) remove(k kind, names []string) {
	s.mu.Lock()
	before := len(s.lists[k])
	s.lists[k] = slices.DeleteFunc(s.lists[k], func(it *item) bool { return slices.Contains(names, it.name) })
	for _, name := range names {
		delete(s.items, itemName{k, name})
	}
	after := len(s.lists[k])
	s.mu.Unlock()
	if after != before {
		s.changed(k)
	}
}

func (s *Server) completer() func(*Server, *request) *Error {
	s.mu.Lock()
	complete := s.complete
	s.mu.Unlock()
	return complete
}

func (s *Server) find(k kind, name string) *item {
	s.mu.Lock()
	it := s.items[itemName{k, name}]
	s.mu.Unlock()
	return it
}

// appendList appends one page of a list. A cursor is the place in the list
// after which the page begins, so it stays good when items come and go.
func (s *Server) appendList(b []byte, k kind, rev revision, cursor []byte) ([]byte, *Error) {
	after, err := 0, error(nil)
	if cursor != nil && string(cursor) != `""` {
		position, _ := unquote(cursor)
		after, err = strconv.Atoi(position)
	}
	s.mu.Lock()
	if err != nil || after < 0 || after > s.lastSeq {
		s.mu.Unlock()
		return nil, coded(codeParams, "Invalid cursor")
	}
	from, _ := slices.BinarySearchFunc(s.lists[k], after+1, func(it *item, seq int) int { return it.seq - seq })
	page := s.lists[k][from:]
	if s.PageSize > 0 && len(page) > s.PageSize {
		page = page[:s.PageSize]
	}
	size := 0
	for _, it := range page {
		if it.encoded[rev] == nil {
			it.encoded[rev] = it.encode(rev)
		}
		size += len(it.encoded[rev]) + 1
	}
	b = join(slices.Grow(b, size+256), `"`, kindNames[k], `":[`)
	for _, it := range page {
		b = append(append(b, it.encoded[rev]...), ',')
	}
	b = closeWith(b, `],`)
	if from+len(page) < len(s.lists[k]) {
		b = quoted(b, "nextCursor", strconv.Itoa(page[len(page)-1].seq))
	}
	s.mu.Unlock()
	return b, nil
}

// toolAnswer is the line that answers the call of a tool with what its handler
// returned, which s describes if it is none of the types that we know.
func (r *request) toolAnswer(out any, s *schema) []byte {
	switch out := out.(type) {
	case nil, struct{}:
		return r.resultAnswer(&Result{})
	case string:
		return r.textAnswer(out, nil, false)
	case Content:
		return r.resultAnswer(&Result{Content: []Content{out}})
	case []Content:
		return r.resultAnswer(&Result{Content: out})
	case *Result:
		if out == nil {
			out = &Result{}
		}
		return r.resultAnswer(out)
	}
	raw, err := s.encode(make([]byte, 0, 64), reflect.ValueOf(out), 0)
	switch {
	case err != nil:
		return r.notEncodable(err)
	case string(raw) == "null":
		return r.resultAnswer(&Result{})
	}
	return r.textAnswer(string(raw), raw, false)
}

// textAnswer is the same for a text, and perhaps structured output.
func (r *request) textAnswer(text string, structured []byte, isError bool) []byte {
	b := appendString(join(r.open(), `"content":[{"type":"text","text":`), text)
	return r.end(outcome(join(b, `}],`), structured, isError, r.rev), "", false)
}

// resultAnswer is the same for everything.
func (r *request) resultAnswer(res *Result) []byte {
	b, err := res.append(r.open(), r.rev)
	theirs := make(map[string]any)
	for key, val := range res.Meta {
		if key != keyServer { // which end appends
			theirs[key] = val
		}
	}
	meta, err2 := jsonOf(theirs)
	if err := cmp.Or(err, err2); err != nil {
		return r.notEncodable(err)
	}
	if meta != "" {
		meta = meta[1:len(meta)-1] + ","
	}
	return r.end(b, meta, false)
}

// asError is errors.As for an *Error, without its 24 KB.
func asError(err error) (e *Error, ok bool) {
	switch err := err.(type) {
	case *Error:
		return err, err != nil
	case interface{ Unwrap() error }:
		return asError(err.Unwrap())
	case interface{ Unwrap() []error }:
		for _, err := range err.Unwrap() {
			if e, ok = asError(err); ok {
				return e, ok
			}
		}
	}
	return nil, false
}

// question is the line that asks the client, if that is why a handler returned,
// and not also for a reason that no answer can change.
func (r *request) question(err error) []byte {
	if _, hopeless := asError(err); hopeless {
		return nil
	}
	if round := r.session.round(r); round != nil && errors.Is(err, ErrInputRequired) {
		return round()
	}
	return nil
}

// failure is the line that answers r if its handler failed. Whoever calls a tool
// is told as its result, unless the call as such was wrong.
func (r *request) failure(err error) []byte {
	if line := r.question(err); line != nil {
		return line
	}
	if err == r.ctx.Err() { // its cause tells more
		err = context.Cause(r.ctx)
	}
	fault, ok := asError(err)
	switch {
	case ok && (r.rev == revModern || fault.Code != codeCapability):
	case r.service.forModel:
		return r.textAnswer(err.Error(), nil, true)
	default:
		fault = coded(codeInternal, err.Error())
	}
	return appendError(nil, r.id, fault)
}

// notEncodable is the line that answers r if what its handler returned cannot be sent.
func (r *request) notEncodable(err error) []byte {
	r.session.logf("%v: the result has no JSON form: %v", r, err)
	return appendError(nil, r.id, coded(codeInternal, "Internal error"))
}

// promptAnswer is the line that answers prompts/get.
func (r *request) promptAnswer(messages []Message, err error, description string) []byte {
	if err != nil {
		return r.failure(err)
	}
	b := join(member(r.open(), "description", description), `"messages":[`)
	for _, m := range messages {
		b = join(quoted(append(b, '{'), "role", cmp.Or(m.Role, "user")), `"content":`)
		if b, err = m.Content.append(b, r.rev); err != nil {
			return r.notEncodable(err)
		}
		b = join(b, `},`)
	}
	return r.end(closeWith(b, `],`), "", false)
}

// notFound is the error for a resource that is not there.
func (r *request) notFound() *Error {
	e := &Error{Code: codeNotFound, Message: "Resource not found", Data: map[string]string{"uri": r.name}}
	if r.rev == revModern {
		e.Code = codeParams
	}
	return e
}

// readAnswer is the line that answers resources/read.
func (r *request) readAnswer(contents []ResourceContents, err error, mimeType string) []byte {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return appendError(nil, r.id, r.notFound())
	case err != nil:
		return r.failure(err)
	}
	b := join(r.open(), `"contents":[`)
	for _, c := range contents {
		if c.URI == "" {
			c.URI = r.name
		}
		if c.MIMEType == "" {
			c.MIMEType = mimeType
		}
		if b, err = c.append(b, r.rev); err != nil {
			return r.notEncodable(err)
		}
		b = append(b, ',')
	}
	return r.end(closeWith(b, `],`), "", true)
}

// completion finds who completes an argument. Only items that have arguments
// know it, so that a server without them does without it.
func (s *Server) completion(r *request) *Error {
	var p struct {
		Ref struct {
			Type string `json:"type"`
			Name string `json:"name"`
			URI  string `json:"uri"`
		} `json:"ref"`
		Argument struct {
			Name  string  `json:"name"`
			Value *string `json:"value"`
		} `json:"argument"`
		Context struct {
			Arguments json.RawMessage `json:"arguments"`
		} `json:"context"`
	}
	if err := decode(r.raw, &p); err != nil {
		return badParams(err.Error())
	}
	if p.Argument.Name == "" || p.Argument.Value == nil {
		return badParams("argument.name and argument.value are required")
	}
	var it *item
	switch p.Ref.Type {
	case "ref/prompt":
		r.name = p.Ref.Name
		it = s.find(prompts, r.name)
	case "ref/resource":
		r.name = p.Ref.URI
		if it = s.find(templates, r.name); it == nil {
			it, _ = s.match(r.name)
		}
	default:
		return badParams("ref.type must be ref/prompt or ref/resource")
	}
	if it == nil || !slices.Contains(it.args, p.Argument.Name) {
		return badParams("there is no such argument to complete")
	}
	known := make(map[string]string)
	if raw := p.Context.Arguments; string(raw) != "null" {
		if err := decode(raw, &known); err != nil {
			return badParams("context.arguments: " + err.Error())
		}
	}
	complete := it.complete[p.Argument.Name]
	r.item = &item{run: func(r *request) []byte {
		if complete == nil {
			return r.completeAnswer(nil, nil)
		}
		return r.completeAnswer(complete(r.ctx, *p.Argument.Value, known))
	}}
	return nil
}

// completeAnswer is the line that answers completion/complete.
func (r *request) completeAnswer(values []string, err error) []byte {
	if err != nil {
		return r.failure(err)
	}
	b := join(r.open(), `"completion":{"values":[`)
	for _, v := range values[:min(len(values), 100)] {
		b = append(appendString(b, v), ',')
	}
	b = closeWith(b, `],"total":`, strconv.Itoa(len(values)), `,"hasMore":`, strconv.FormatBool(len(values) > 100), `},`)
	return r.end(b, "", false)
}

// append appends the members of the result of a call.
func (res *Result) append(b []byte, rev revision) (_ []byte, err error) {
	b = join(b, `"content":[`)
	for _, c := range res.Content {
		if b, err = c.append(b, rev); err != nil {
			return nil, err
		}
		b = append(b, ',')
	}
	b = closeWith(b, `],`)
	var structured []byte
	if res.StructuredContent != nil {
		if structured, err = marshal(res.StructuredContent); err != nil {
			return nil, err
		}
	}
	return outcome(b, structured, res.IsError, rev), nil
}

// outcome appends what follows the content of a result.
func outcome(b, structured []byte, isError bool, rev revision) []byte {
	switch {
	case structured == nil || string(structured) == "null" || rev < rev2025_06_18:
	case structured[0] == '{' || rev == revModern:
		b = rawMember(b, "structuredContent", structured)
	default:
		b = append(append(join(b, `"structuredContent":{"result":`), structured...), "},"...)
	}
	if isError {
		b = join(b, `"isError":true,`)
	}
	return b
}

// append appends one block of content as a revision knows it.
func (c Content) append(b []byte, rev revision) (_ []byte, err error) {
	switch {
	case c.Type == "audio" && rev < rev2025_03_26:
		c.Type, c.Text = "text", "[audio, "+c.MIMEType+", "+strconv.Itoa(len(c.Data))+" bytes]"
	case c.Type == "resource_link" && c.Link != nil && rev < rev2025_06_18:
		c.Type, c.Text = "text", c.Link.Name+": "+c.Link.URI
	}
	switch {
	case c.Type == "text" || c.Type == "":
		b = quoted(join(b, `{"type":"text",`), "text", c.Text)
	case c.Type == "image" || c.Type == "audio":
		b = base64.StdEncoding.AppendEncode(join(b, `{"type":"`, c.Type, `","data":"`), c.Data)
		b = quoted(join(b, `",`), "mimeType", c.MIMEType)
	case c.Type == "resource_link" && c.Link != nil:
		link := *c.Link // which has annotations and a _meta in the same place as the block
		if c.Annotations != nil {
			link.Annotations = c.Annotations
		}
		if c.Meta == nil {
			c.Meta = link.Meta
		}
		c.Annotations = nil
		b = link.append(join(b, `{"type":"resource_link",`), "uri", rev, "")
	case c.Type == "resource" && c.Resource != nil:
		if b, err = c.Resource.append(join(b, `{"type":"resource","resource":`), rev); err != nil {
			return nil, err
		}
		b = append(b, ',')
	default:
		return nil, errors.New("content of type " + oneLine(c.Type) + " lacks what belongs to it")
	}
	b, err = appendMeta(appendAnnotations(b, c.Annotations, rev), c.Meta, rev)
	return closeWith(b, "}"), err
}

// append appends the members of r, whose URI goes by the name of key, as a
// revision knows them.
func (r *Resource) append(b []byte, key string, rev revision, meta string) []byte {
	b = named(quoted(b, key, r.URI), rev, r.Name, r.Title, r.Description)
	b = member(b, "mimeType", r.MIMEType)
	if r.Size > 0 && key == "uri" {
		b = rawMember(b, "size", strconv.FormatInt(r.Size, 10))
	}
	return appendIconsAndMeta(appendAnnotations(b, r.Annotations, rev), rev, r.Icons, meta)
}

func appendAnnotations(b []byte, a *Annotations, rev revision) []byte {
	if a == nil {
		return b
	}
	known := *a
	if rev < rev2025_06_18 {
		known.LastModified = ""
	}
	raw, _ := marshal(known) // strings and a number
	return rawMember(b, "annotations", raw)
}

// append appends the contents as a revision knows them.
func (r *ResourceContents) append(b []byte, rev revision) (_ []byte, err error) {
	b = member(quoted(append(b, '{'), "uri", r.URI), "mimeType", r.MIMEType)
	if r.Blob != nil {
		b = join(base64.StdEncoding.AppendEncode(join(b, `"blob":"`), r.Blob), `",`)
	} else {
		b = quoted(b, "text", r.Text)
	}
	b, err = appendMeta(b, r.Meta, rev)
	return closeWith(b, "}"), err
}

// appendMeta appends the _meta of something inside of a result.
func appendMeta(b []byte, meta map[string]any, rev revision) ([]byte, error) {
	raw, err := jsonOf(meta)
	return appendIconsAndMeta(b, rev, nil, raw), err
}

// ---- resources ----

// A ReadFunc reads a resource. Vars holds the values of the variables of a
// template: percent-decoded, never empty, and such that they cannot lead out of
// where they stand: without a slash in {name}, without a ".." between slashes
// in {+name}, which may begin with one, though: [os.Root] is how to keep to a
// directory. An error that is [fs.ErrNotExist] says that there is no such
// resource; any other is told to the client as it stands.
type ReadFunc func(ctx context.Context, uri string, vars map[string]string) ([]ResourceContents, error)

// A CompleteFunc suggests values that begin with, or are like, what was typed
// so far, the best first; no more than 100 are sent. Known holds the other
// arguments that have a value already.
type CompleteFunc func(ctx context.Context, typed string, known map[string]string) ([]string, error)

// AddResource adds a resource or a template, or replaces the one of the same
// URI, and tells the clients that are connected. A URI that is read is looked
// up as it is, and then matched with the templates in the order in which they
// were added.
//
// {name} stands for one segment of a path, {+name} for anything. AddResource
// panics if the URI or the name is missing or the braces make no sense.
func (s *Server) AddResource(r Resource, read ReadFunc) {
	where := fmt.Sprintf("mcp: resource %q", r.URI)
	parts, err := parseTemplate(r.URI)
	if err != nil {
		panic(where + ": " + err.Error())
	}
	panicUnless(read != nil, where, "the ReadFunc is missing")
	panicUnless(r.Name != "" && strings.Contains(parts[0], ":"), where, "a resource has a name, and a URI with a scheme")
	var names []string
	for i := 1; i < len(parts); i += 2 {
		names = append(names, strings.TrimPrefix(parts[i], "+"))
	}
	for name := range r.Complete {
		panicUnless(slices.Contains(names, name), where, fmt.Sprintf("there is no variable %q to complete", name))
	}
	k, key := resources, "uri"
	if len(parts) > 1 {
		k, key = templates, "uriTemplate"
	}
	meta := frozen(where, r.Meta)
	s.add(k, &item{
		name:   r.URI,
		encode: func(rev revision) []byte { return closeWith(r.append([]byte("{"), key, rev, meta), "}") },
		match:  func(uri string) (map[string]string, bool) { return matchTemplate(parts, uri) },
		run: func(q *request) []byte {
			contents, err := read(q.ctx, q.name, q.vars)
			return q.readAnswer(contents, err, r.MIMEType)
		},
		args:     names,
		complete: r.Complete,
		find:     (*Server).completion,
	})
}

// panicUnless panics if what is added is not as it must be.
func panicUnless(ok bool, where, what string) {
	if !ok {
		panic(where + ": " + what)
	}
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
		c.updated(uri)
	}
}

// match finds the template that a URI fits, and the values of the variables.
func (s *Server) match(uri string) (*item, map[string]string) {
	s.mu.Lock()
	list := slices.Clone(s.lists[templates])
	s.mu.Unlock()
	for _, it := range list {
		if vars, ok := it.match(uri); ok {
			return it, vars
		}
	}
	return nil, nil
}

// parseTemplate splits a URI template: what is at odd places is a variable,
// with the + in front if it has one, the rest is literal.
func parseTemplate(uri string) (parts []string, err error) {
	var names []string
	literal, rest, more := strings.Cut(uri, "{")
	for more {
		variable, after, closed := strings.Cut(rest, "}")
		name := strings.TrimPrefix(variable, "+")
		bad := strings.IndexFunc(name, func(r rune) bool {
			return r != '_' && (r|0x20 < 'a' || 'z' < r|0x20) && (r < '0' || '9' < r)
		})
		switch {
		case !closed || name == "" || bad >= 0:
			return nil, errors.New("a variable is written {name} or {+name}")
		case slices.Contains(names, name):
			return nil, errors.New("a variable stands there twice")
		case len(names) > 0 && literal == "":
			return nil, errors.New("there must be something between two variables")
		}
		parts, names = append(parts, literal, variable), append(names, name)
		literal, rest, more = strings.Cut(after, "{")
	}
	if strings.Count(uri, "}") > len(names) {
		return nil, errors.New("there is a } without its {")
	}
	return append(parts, literal), nil
}

// matchTemplate reports whether uri fits the parts of a template, and returns
// the values of the variables: the shortest that the first can have, then the
// second. If one of these is refused there is no looking for others.
func matchTemplate(parts []string, uri string) (map[string]string, bool) {
	ends := make([]int, len(parts)/2)
	if !fit(parts, uri, 0, ends) {
		return nil, false
	}
	vars := make(map[string]string, len(ends))
	at := 0
	for i, end := range ends {
		at += len(parts[2*i])
		name, reserved := strings.CutPrefix(parts[2*i+1], "+")
		value, ok := unescape(uri[at:end], reserved)
		if !ok {
			return nil, false
		}
		vars[name], at = value, end
	}
	return vars, true
}

// fit finds where in uri the variables end, if parts are to fit what is from
// the index at on. Whether one can end somewhere does not depend on where it
// began, and no beginning is before an earlier one: what is in ends already was
// tried in vain, and so is what lies before it. That makes the time linear.
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

// unescape decodes the value of a variable, and refuses one that would lead
// somewhere else when it is made part of a path.
func unescape(s string, reserved bool) (string, bool) {
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c == '%' {
			n, err := strconv.ParseUint(s[i+1:min(i+3, len(s))], 16, 8)
			if err != nil || i+2 >= len(s) {
				return "", false
			}
			c = byte(n)
			i += 2
		}
		b = append(b, c)
	}
	value := string(b)
	if !utf8.ValidString(value) || strings.Contains(value, "\x00") || !reserved && strings.ContainsAny(value, `/\`) {
		return "", false
	}
	for segment := range strings.FieldsFuncSeq(value, func(r rune) bool { return r == '/' || r == '\\' }) {
		if segment == ".." || segment == "." && !reserved {
			return "", false
		}
	}
	return value, true
}

// ---- prompts ----

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

// AddPrompt adds a prompt, or replaces the one of the same name, and tells the
// clients that are connected. It panics if a name is missing or comes twice.
func (s *Server) AddPrompt(p Prompt, get PromptFunc) {
	where := fmt.Sprintf("mcp: prompt %q", p.Name)
	panicUnless(p.Name != "", where, "a prompt needs a name")
	panicUnless(get != nil, where, "the PromptFunc is missing")
	complete := make(map[string]CompleteFunc)
	var args []string
	for _, a := range p.Arguments {
		panicUnless(a.Name != "" && !slices.Contains(args, a.Name), where, "an argument needs a name of its own")
		if args = append(args, a.Name); a.Complete != nil {
			complete[a.Name] = a.Complete
		}
	}
	meta := frozen(where, p.Meta)
	s.add(prompts, &item{
		name:   p.Name,
		encode: func(rev revision) []byte { return p.encode(rev, meta) },
		check:  p.check,
		run: func(r *request) []byte {
			messages, err := get(r.ctx, r.vars)
			return r.promptAnswer(messages, err, p.Description)
		},
		args:     args,
		complete: complete,
		find:     (*Server).completion,
	})
}

// check takes the arguments of a request and holds them against the prompt.
func (p *Prompt) check(r *request) *Error {
	params := struct {
		Arguments map[string]string `json:"arguments"`
	}{make(map[string]string)}
	if err := decode(r.raw, &params); err != nil {
		return badParams(err.Error())
	}
	r.vars = params.Arguments
	for name := range r.vars {
		if !slices.Contains(r.item.args, name) {
			return coded(codeParams, "Unknown argument: "+excerpt(name))
		}
	}
	for _, a := range p.Arguments {
		if _, there := r.vars[a.Name]; a.Required && !there {
			return coded(codeParams, "Missing required argument: "+a.Name)
		}
	}
	return nil
}

// RemovePrompts removes the prompts of these names, as far as there are any,
// and tells the clients that are connected.
func (s *Server) RemovePrompts(names ...string) { s.remove(prompts, names) }

// encode returns p as a revision knows it.
func (p *Prompt) encode(rev revision, meta string) []byte {
	b := named([]byte("{"), rev, p.Name, p.Title, p.Description)
	if len(p.Arguments) > 0 {
		b = join(b, `"arguments":[`)
		for _, a := range p.Arguments {
			if b = named(append(b, '{'), rev, a.Name, a.Title, a.Description); a.Required {
				b = join(b, `"required":true,`)
			}
			b = closeWith(b, `},`)
		}
		b = closeWith(b, "],")
	}
	return closeWith(appendIconsAndMeta(b, rev, p.Icons, meta), "}")
}

// appendIconsAndMeta appends what newer revisions know of everything.
func appendIconsAndMeta(b []byte, rev revision, icons []Icon, meta string) []byte {
	if len(icons) > 0 && rev >= rev2025_11_25 {
		raw, _ := marshal(icons) // strings cannot fail
		b = rawMember(b, "icons", raw)
	}
	if rev >= rev2025_06_18 {
		b = rawMember(b, "_meta", meta)
	}
	return b
}

// ---- verbs ----

// requestKey finds the request in a handler's context.
type requestKey struct{}

func requestOf(ctx context.Context) *request {
	r, _ := ctx.Value(requestKey{}).(*request)
	return r
}

// A Request is what a handler may want to know of the request it serves.
type Request struct {
	Method          string          // "tools/call"
	ID              json.RawMessage // as the client wrote it
	ProtocolVersion string          // the revision it is served by
	ClientName      string          // may be empty in 2026-07-28
	ClientVersion   string
	Capabilities    json.RawMessage // what the client can do: an object
	Meta            json.RawMessage // the request's _meta, an object; nil if there is none
}

// RequestFrom returns the request that is served under a handler's context,
// and nil for any other context. It may be kept.
func RequestFrom(ctx context.Context) *Request {
	r := requestOf(ctx)
	if r == nil {
		return nil
	}
	name, version, _ := nameAndVersion(r.client)
	return &Request{
		Method: r.method, ID: r.id, ProtocolVersion: r.rev.String(),
		ClientName: name, ClientVersion: version,
		Capabilities: r.caps, Meta: r.meta,
	}
}

// Progress tells the client how far a handler has come: done, in any unit, of
// total, if that is known and not 0. The message, which may be empty, is for
// people.
//
// It does nothing if the client did not ask for progress, if done is not more
// than the last time, or if ctx is not a handler's. It returns when the client
// was told, and at the latest when the request is over; after that it does
// nothing either. It may be called concurrently.
//
// See https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/progress.
func Progress(ctx context.Context, done, total float64, message string) {
	r := requestOf(ctx)
	if r == nil || r.token == nil || math.IsNaN(done) || math.IsInf(done, 0) {
		return
	}
	b := join(nil, `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":`, string(r.token), `,`)
	b = rawMember(b, "progress", strconv.FormatFloat(done, 'g', -1, 64))
	if total > 0 && !math.IsInf(total, 0) {
		b = rawMember(b, "total", strconv.FormatFloat(total, 'g', -1, 64))
	}
	if r.rev >= rev2025_03_26 {
		b = member(b, "message", message)
	}
	r.session.notify(r, closeWith(b, `}}`), func() bool {
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
//	logger := slog.New(mcp.LogHandler[slog.Handler]("db"))
//
// It is generic so that only who logs links package log/slog: H is slog.Handler,
// and the rest follows from that.
//
// It needs the context of the request: use slog's functions that take one. A
// message is sent as a string, or if there are attributes, as an object with
// the message as "msg".
//
// What is below the level that the client has asked for is dropped, and so is
// everything outside of a request, after its end, from clients that asked for
// none, or if [Server.Logging] is not set. Clients ask with logging/setLevel, and
// in revision 2026-07-28 with a logLevel in the _meta of each request. The
// levels are slog's and those of the protocol between and above them: Info+2 is
// notice, Error+4 critical, Error+8 alert, Error+12 emergency.
//
// See https://modelcontextprotocol.io/specification/2025-11-25/server/utilities/logging.
func LogHandler[H slogHandler[H, L, R, A], L ~int, R slogRecord[A], A slogAttr[V], V slogValue[V]](name string) H {
	return any(&logHandler[H, L, R, A, V]{name, func(own map[string]any) map[string]any { return own }}).(H)
}

// The types of package log/slog, by what is needed of them. Whoever imports it
// links 30 KB, also if nothing logs.
type (
	slogHandler[H, L, R, A any] interface {
		Enabled(context.Context, L) bool
		Handle(context.Context, R) error
		WithAttrs([]A) H
		WithGroup(string) H
	}
	slogRecord[A any] interface {
		Attrs(func(A) bool)
	}
	slogAttr[V any] interface {
		~struct {
			Key   string
			Value V
		}
	}
	slogValue[V any] interface {
		Resolve() V
		Any() any
	}
)

// A logHandler knows what is to be around the attributes of a message itself:
// other attributes, and groups that are open.
type logHandler[H slogHandler[H, L, R, A], L ~int, R slogRecord[A], A slogAttr[V], V slogValue[V]] struct {
	name string
	wrap func(own map[string]any) map[string]any
}

func (h *logHandler[H, L, R, A, V]) Enabled(ctx context.Context, level L) bool {
	return logs(ctx, int(level))
}

func (h *logHandler[H, L, R, A, V]) WithAttrs(attrs []A) H {
	return any(&logHandler[H, L, R, A, V]{h.name, func(own map[string]any) map[string]any {
		all := make(map[string]any)
		addAttrs(all, attrs)
		maps.Copy(all, own)
		return h.wrap(all)
	}}).(H)
}

func (h *logHandler[H, L, R, A, V]) WithGroup(name string) H {
	return any(&logHandler[H, L, R, A, V]{h.name, func(own map[string]any) map[string]any {
		if name != "" && len(own) > 0 {
			own = map[string]any{name: own}
		}
		return h.wrap(own)
	}}).(H)
}

func (h *logHandler[H, L, R, A, V]) Handle(ctx context.Context, record R) error {
	fields := reflect.ValueOf(record)
	level := int(fields.FieldByName("Level").Int())
	if !logs(ctx, level) {
		return nil
	}
	own := make(map[string]any)
	record.Attrs(func(a A) bool {
		addAttrs(own, []A{a})
		return true
	})
	return logMessage(requestOf(ctx), h.name, level, fields.FieldByName("Message").String(), h.wrap(own))
}

// addAttrs adds attributes to an object, by the rules of slog.Handler.
func addAttrs[A slogAttr[V], V slogValue[V]](data map[string]any, attrs []A) {
	for _, attr := range attrs {
		a := struct {
			Key   string
			Value V
		}(attr)
		switch val := a.Value.Resolve().Any().(type) {
		case []A: // a group
			inner := data
			if a.Key != "" {
				inner = make(map[string]any)
			}
			if addAttrs(inner, val); a.Key != "" && len(inner) > 0 {
				data[a.Key] = inner
			}
		case nil:
			if a.Key != "" {
				data[a.Key] = nil
			}
		case time.Duration:
			data[a.Key] = val.String()
		default:
			data[a.Key] = jsonOrError(val)
		}
	}
}

// logs reports whether what has this level of slog is sent to the client.
func logs(ctx context.Context, level int) bool {
	r := requestOf(ctx)
	return r != nil && r.session.srv.Logging && levelOf(level) >= r.session.logLevel(r)
}

// levelOf returns the index in levels of a level of slog: 0 is its Info there, 4
// its Warn, 8 its Error.
func levelOf(level int) int {
	for i, above := range []int{0, 2, 4, 8, 12, 16, 20} {
		if level < above {
			return i
		}
	}
	return len(levels) - 1
}

// logMessage sends a message to the client.
func logMessage(r *request, name string, level int, message string, attrs map[string]any) error {
	var data any = message
	if len(attrs) > 0 {
		attrs["msg"] = message
		data = attrs
	}
	raw, err := marshal(data)
	if err != nil {
		return err
	}
	b := join(nil, `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"`, levels[levelOf(level)], `",`)
	b = rawMember(member(b, "logger", name), "data", raw)
	r.session.notify(r, closeWith(b, `}}`), func() bool { return true })
	return nil
}

// jsonOrError is the JSON form of a value. One that has none, or whose methods
// panic, costs no more than itself: that is how package slog does it.
func jsonOrError(val any) (raw json.RawMessage) {
	defer func() {
		if p := recover(); p != nil {
			raw = appendString(nil, fmt.Sprintf("!PANIC: %v", p))
		}
	}()
	if err, ok := val.(error); ok {
		val = fmt.Sprint(err) // Sprint can bear a nil that Error cannot
	}
	raw, err := marshal(val)
	if err != nil {
		return appendString(nil, "!ERROR: "+err.Error())
	}
	return raw
}

// ---- asking ----

// ErrInputRequired says that a question has been noted and will be asked when
// the handler has returned this error.
var ErrInputRequired = errors.New("mcp: the client has to answer a question first")

// ErrDeclined and ErrDismissed are errors of [Elicit], [ElicitSchema] and
// [ElicitURL]: the user said no, or went away without a word.
var (
	ErrDeclined  = errors.New("mcp: the user declined")
	ErrDismissed = errors.New("mcp: the user dismissed the question")
)

// A Root is a place in the file system that the client works on.
type Root struct {
	URI  string `json:"uri"` // begins with file://
	Name string `json:"name"`
}

// Roots asks the client for its roots. See [Elicit] on asking.
//
// See https://modelcontextprotocol.io/specification/2025-11-25/client/roots.
func Roots(ctx context.Context, key string) ([]Root, error) {
	var answer struct {
		Roots []Root `json:"roots"`
	}
	if _, err := ask(ctx, key, 0, "roots", "roots/list", "{}", &answer); err != nil {
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
	var bad faults
	derive(reflect.TypeOf(v), "", false).set(reflect.ValueOf(v).Elem(), raw, nil, &bad)
	if len(bad.lines) > 0 {
		return &bad
	}
	return nil
}

// asking returns the request whose client is to be asked. Outside of a handler
// there is none, and the client of the one that is returned can do nothing.
func asking(ctx context.Context) *request {
	if r := requestOf(ctx); r != nil {
		return r
	}
	return &request{rev: rev2025_11_25}
}

// ask asks the client, if its revision knows the question and it has the
// capability, such as "roots" or "sampling.tools". It returns the result and
// sets what answer points to from it.
func ask(ctx context.Context, key string, since revision, capability, method, params string, answer any) (json.RawMessage, error) {
	r := asking(ctx)
	if r.rev < since || !hasCapability(r.caps, capability) {
		return nil, missingCapability(capability)
	}
	raw, err := r.answer(ctx, inputRequest{key, method, params})
	if err != nil {
		return nil, err
	}
	if err := decode(raw, answer); err != nil {
		return nil, badAnswer(method, err.Error())
	}
	return raw, nil
}

// answer returns the client's answer to a question, which in the modern era may
// have to wait for the next round.
func (r *request) answer(ctx context.Context, n inputRequest) (json.RawMessage, error) {
	if r.rev != revModern {
		return r.session.ask(ctx, r, n.method, n.params)
	}
	if !r.service.asks { // its result has no room for questions
		return nil, fmt.Errorf("mcp: %s cannot ask the client: %w", r.method, errors.ErrUnsupported)
	}
	r.once.Do(r.takeAnswers)
	if r.badState != nil {
		return nil, r.badState
	}
	if answer, ok := r.given[n.key]; ok {
		return answer, nil
	}
	r.session.note(r, n)
	return nil, fmt.Errorf("%w: %s", ErrInputRequired, n.key)
}

// badAnswer says that an answer is not what it has to be.
func badAnswer(method, why string) error {
	return fmt.Errorf("mcp: %s: the client's answer makes no sense: %s", method, why)
}

// missingCapability says that a client has not declared a capability.
func missingCapability(capability string) error {
	var needs any = struct{}{}
	for _, name := range slices.Backward(strings.Split(capability, ".")) {
		needs = map[string]any{name: needs}
	}
	return &Error{Code: codeCapability, Message: "This request needs the " + capability + " capability",
		Data: map[string]any{"requiredCapabilities": needs}}
}

// hasCapability reports whether a client has declared a capability.
func hasCapability(caps []byte, capability string) bool {
	for _, name := range strings.Split(capability, ".") {
		if len(caps) == 0 || caps[0] != '{' {
			return false
		}
		var in []byte
		pick(caps, want{name, &in})
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
// Message says what it is for. It must not ask for secrets.
//
// If the user fills it in, Elicit returns the form, or an error that tells what
// is wrong with it, after which another key asks again; if not, the error is
// [ErrDeclined] or [ErrDismissed]. Elicit panics if T cannot be a form. What else
// can happen is the same for everything that asks the client:
//
// Clients of the older revisions are sent a request, and the call returns when
// they have answered. In revision 2026-07-28 a question travels in the result
// of the handler's own request: the call returns an error that is
// [ErrInputRequired], the handler returns it, like any error, the client asks,
// repeats its request with the answer, and the handler runs again from its
// top, where the same call now returns the answer at once. So what stands
// above a question runs again: keep side effects below the last one. Questions
// go out together if all are asked and errors.Join of their errors is returned.
//
// The key tells the questions of a handler apart. The call ends with ctx, with
// the request, and when the client is gone; the error then is [context.Cause]
// or [ErrClosed]. It is [errors.ErrUnsupported] when the client cannot be
// asked, and returning it is right; so it is outside of a handler, in a test
// that calls one.
//
// See https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation.
func Elicit[T any](ctx context.Context, key, message string) (T, error) {
	var form T
	s := derive(reflect.TypeFor[T](), "mcp: Elicit", true)
	schema, err := s.appendForm(nil, asking(ctx).rev)
	if err != nil {
		return form, err
	}
	content, err := ElicitSchema(ctx, key, message, schema)
	if err != nil {
		return form, err
	}
	if err := s.unmarshal(content, &form); err != nil {
		return form, fmt.Errorf("mcp: the user's answer: %w", err)
	}
	return form, nil
}

// ElicitSchema is [Elicit] with a form that is described by hand. It returns
// what the user filled in, an object, unchecked.
func ElicitSchema(ctx context.Context, key, message string, schema json.RawMessage) (json.RawMessage, error) {
	form, err := appendCompact(nil, schema)
	if err != nil {
		return nil, err
	}
	b, capability := []byte("{"), "elicitation"
	if r := asking(ctx); r.rev >= rev2025_11_25 {
		b = quoted(b, "mode", "form")
		if hasCapability(r.caps, "elicitation.url") { // if modes are named, so must this be
			capability = "elicitation.form"
		}
	}
	b = rawMember(quoted(b, "message", message), "requestedSchema", form)
	return elicit(ctx, key, rev2025_06_18, capability, b)
}

// ElicitURL asks the user to go to a page, say to log in. It returns nil when
// the user agrees, which does not mean that they have been there yet.
func ElicitURL(ctx context.Context, key, message, url string) error {
	b := quoted(quoted([]byte(`{"mode":"url",`), "message", message), "url", url)
	if asking(ctx).rev != revModern {
		b = quoted(b, "elicitationId", strconv.FormatUint(rand.Uint64(), 36))
	}
	_, err := elicit(ctx, key, rev2025_11_25, "elicitation.url", b)
	return err
}

func elicit(ctx context.Context, key string, since revision, capability string, params []byte) (json.RawMessage, error) {
	var answer struct {
		Action  string          `json:"action"`
		Content json.RawMessage `json:"content"`
	}
	raw, err := ask(ctx, key, since, capability, "elicitation/create", string(closeWith(params, "}")), &answer)
	if err != nil {
		return nil, err
	}
	switch answer.Action {
	case "accept":
		if capability == "elicitation.url" || len(answer.Content) > 0 && answer.Content[0] == '{' {
			return answer.Content, nil
		}
	case "decline":
		return nil, ErrDeclined
	case "cancel":
		return nil, ErrDismissed
	}
	return nil, badAnswer("elicitation/create", excerpt(string(raw)))
}

// A SampleRequest asks the client's model to go on with a conversation.
type SampleRequest struct {
	Messages         []SampleMessage
	MaxTokens        int // required
	SystemPrompt     string
	Temperature      *float64
	StopSequences    []string
	IncludeContext   string          // "none", "thisServer" or "allServers"; "" is none
	ModelPreferences json.RawMessage // an object, as in the protocol
	Tools            []Tool          // that the model may call
	ToolChoice       string          // "auto", "required" or "none"; "" leaves it to the client
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
	type message struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
	}
	params := struct {
		Messages         []message         `json:"messages"`
		MaxTokens        int               `json:"maxTokens"`
		SystemPrompt     string            `json:"systemPrompt,omitempty"`
		Temperature      *float64          `json:"temperature"`
		StopSequences    []string          `json:"stopSequences,omitempty"`
		ModelPreferences json.RawMessage   `json:"modelPreferences,omitempty"`
		IncludeContext   string            `json:"includeContext,omitempty"`
		Tools            []json.RawMessage `json:"tools,omitzero"`
		ToolChoice       map[string]string `json:"toolChoice,omitempty"`
	}{
		MaxTokens: req.MaxTokens, SystemPrompt: req.SystemPrompt, Temperature: req.Temperature, StopSequences: req.StopSequences,
		ModelPreferences: req.ModelPreferences, IncludeContext: req.IncludeContext,
	}
	r, since, capability := asking(ctx), revision(0), "sampling"
	for _, m := range req.Messages {
		if len(m.Content) != 1 && r.rev < rev2025_11_25 {
			return nil, fmt.Errorf("mcp: Sample: several blocks in a message: %w in revision %v", errors.ErrUnsupported, r.rev)
		}
		b := []byte("[")
		for _, block := range m.Content {
			var err error
			if b, err = block.appendSample(b, r.rev); err != nil {
				return nil, err
			}
			if b = append(b, ','); strings.HasPrefix(block.Type, "tool_") {
				since, capability = rev2025_11_25, "sampling.tools"
			}
		}
		if b = closeWith(b, "]"); len(m.Content) == 1 {
			b = b[1 : len(b)-1]
		}
		params.Messages = append(params.Messages, message{cmp.Or(m.Role, "user"), b})
	}
	if c := req.IncludeContext; c != "" && c != "none" && r.rev >= rev2025_11_25 && !hasCapability(r.caps, "sampling.context") {
		return nil, missingCapability("sampling.context")
	}
	if len(req.Tools) > 0 || req.ToolChoice != "" {
		since, capability, params.Tools = rev2025_11_25, "sampling.tools", []json.RawMessage{}
	}
	for _, t := range req.Tools {
		checkTool(nil, "mcp: Sample: tool "+t.Name, &t, "")
		params.Tools = append(params.Tools, t.encode(r.rev, nil, frozen("mcp: Sample", t.Meta)))
	}
	if req.ToolChoice != "" {
		params.ToolChoice = map[string]string{"mode": req.ToolChoice}
	}
	raw, err := marshal(params)
	if err != nil {
		return nil, err
	}
	var answer struct {
		Role       string          `json:"role"`
		Content    json.RawMessage `json:"content"`
		Model      string          `json:"model"`
		StopReason string          `json:"stopReason"`
	}
	if _, err := ask(ctx, key, since, capability, "sampling/createMessage", string(raw), &answer); err != nil {
		return nil, err
	}
	content, err := blocksOf(answer.Content)
	if err != nil {
		return nil, badAnswer("sampling/createMessage", err.Error())
	}
	return &SampleResult{SampleMessage{answer.Role, content}, answer.Model, answer.StopReason}, nil
}

// blocksOf reads what a model has said: a block, or a list of them.
func blocksOf(raw []byte) (content []Content, err error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, errors.New("content is required")
	}
	if raw[0] != '[' {
		raw = slices.Concat([]byte("["), raw, []byte("]"))
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
		b = quoted(quoted(join(b, `{"type":"tool_use",`), "id", c.ToolUse.ID), "name", c.ToolUse.Name)
		b, err = appendCompact(join(b, `"input":`), c.ToolUse.Input)
		b = append(b, ',')
	case c.Type == "tool_result" && c.ToolResult != nil:
		b = quoted(join(b, `{"type":"tool_result",`), "toolUseId", c.ToolResult.ID)
		b, err = c.ToolResult.Result.append(b, rev)
	case c.Type == "tool_use" || c.Type == "tool_result":
		err = fmt.Errorf("mcp: Sample: content of type %q lacks what belongs to it", c.Type)
	case c.Type == "resource" || c.Type == "resource_link":
		err = fmt.Errorf("mcp: Sample: content of type %q", c.Type)
	default:
		return c.append(b, rev)
	}
	if err != nil {
		return nil, err
	}
	b, err = appendMeta(b, c.Meta, rev)
	return closeWith(b, "}"), err
}

// ---- rounds of the modern era ----

// stateLife is how long a user may take over a question.
const stateLife = time.Hour

// takeAnswers takes the answers of this and earlier rounds from a request of
// the modern era. The state comes back from the client, who may have changed
// it or taken it from elsewhere: it counts only with our seal, which covers
// what it was made for.
func (r *request) takeAnswers() {
	arguments, _ := appendCompact(nil, r.arguments)
	r.sealed = strings.Join([]string{r.method, r.name, string(arguments)}, "\x00")
	r.given = make(map[string]json.RawMessage)
	if r.state != nil && string(r.state) != "null" {
		state, _ := unquote(r.state)
		payload, ok := r.session.srv.unseal(state, r.sealed)
		if !ok {
			r.badState = coded(codeParams, "Invalid or expired requestState")
			return
		}
		decode(payload, &r.given) // which ask has made
	}
	var now struct {
		Answers map[string]json.RawMessage `json:"inputResponses"`
	}
	if err := decode(r.raw, &now); err != nil {
		r.badState = badParams(err.Error())
	}
	for key, answer := range now.Answers {
		if r.given[key] = answer; answer[0] != '{' {
			r.badState = badParams("inputResponses." + excerpt(key) + " must be an object")
		}
	}
}

// ask is the line that asks the client the questions of this round.
func (r *request) ask(needs []inputRequest) []byte {
	b := join(nil, `{"jsonrpc":"2.0","id":`, string(r.id), `,"result":{"resultType":"input_required","inputRequests":{`)
	for _, n := range needs {
		b = join(appendString(b, n.key), `:{"method":"`, n.method, `","params":`, n.params, `},`)
	}
	given, _ := marshal(r.given) // valid JSON already
	b = quoted(closeWith(b, `},`), "requestState", r.session.srv.seal(given, r.sealed))
	return r.end(b, "", false)
}

// seal makes a requestState of the answers so far: when it expires, what it
// says, and a code that only we can make of both and of what it is for.
func (s *Server) seal(payload []byte, what string) string {
	return s.stamp(strconv.FormatInt(time.Now().Add(stateLife).Unix(), 36), payload, what)
}

func (s *Server) stamp(expiry string, payload []byte, what string) string {
	code := s.code(expiry, payload, what)
	return expiry + "." + base64.RawURLEncoding.EncodeToString(payload) + "." + base64.RawURLEncoding.EncodeToString(code[:])
}

// unseal accepts what seal has made, to the byte: base64 is lax about its last
// character and about newlines.
func (s *Server) unseal(state, what string) (payload []byte, ok bool) {
	expiry, rest, _ := strings.Cut(state, ".")
	body, _, _ := strings.Cut(rest, ".")
	payload, err := base64.RawURLEncoding.DecodeString(body)
	until, err2 := strconv.ParseInt(expiry, 36, 64)
	want := s.stamp(expiry, payload, what)
	differ := byte(0)
	for i := range min(len(state), len(want)) { // takes as long, wherever the first difference is
		differ |= state[i] ^ want[i]
	}
	return payload, cmp.Or(err, err2) == nil && len(state) == len(want) && differ == 0 && time.Now().Unix() < until
}

// code is the HMAC-SHA256 of a state under the Server's key.
func (s *Server) code(expiry string, payload []byte, what string) [32]byte {
	s.mu.Lock()
	key := s.StateKey
	if len(key) == 0 { // also when it was taken from a variable that is not set
		for len(s.random) < 32 { // a ChaCha8 that the runtime has seeded from the system
			s.random = binary.BigEndian.AppendUint64(s.random, rand.Uint64())
		}
		key = s.random
	}
	s.mu.Unlock()
	of := sha256([]byte(what))
	return hmac(key, slices.Concat([]byte(expiry), []byte{0}, of[:], payload))
}

// hmac and sha256 are RFC 2104 and FIPS 180-4. Package crypto has them too, but
// whoever imports it pays for its self-tests: 160 KB, and as much time as the
// rest of the start, in every program, also those that never ask.
func hmac(key, message []byte) [32]byte {
	if len(key) > 64 {
		sum := sha256(key)
		key = sum[:]
	}
	inner, outer := bytes.Repeat([]byte{0x36}, 64), bytes.Repeat([]byte{0x5c}, 64)
	for i, k := range key {
		inner[i] ^= k
		outer[i] ^= k
	}
	sum := sha256(append(inner, message...))
	return sha256(append(outer, sum[:]...))
}

func sha256(message []byte) (sum [32]byte) {
	h := [8]uint32{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19}
	b := append(bytes.Clone(message), 0x80)
	b = append(b, make([]byte, (120-len(b)%64)%64)...)
	b = binary.BigEndian.AppendUint64(b, uint64(len(message))*8)
	for ; len(b) > 0; b = b[64:] {
		var w [64]uint32
		for i := range w {
			if i < 16 {
				w[i] = binary.BigEndian.Uint32(b[4*i:])
				continue
			}
			x, y := w[i-15], w[i-2]
			w[i] = w[i-16] + w[i-7] + (bits.RotateLeft32(x, -7) ^ bits.RotateLeft32(x, -18) ^ x>>3) +
				(bits.RotateLeft32(y, -17) ^ bits.RotateLeft32(y, -19) ^ y>>10)
		}
		v := h
		for i := range w {
			a, e := v[0], v[4]
			t1 := v[7] + (bits.RotateLeft32(e, -6) ^ bits.RotateLeft32(e, -11) ^ bits.RotateLeft32(e, -25)) + (e&v[5] ^ ^e&v[6]) + sha256K[i] + w[i]
			t2 := (bits.RotateLeft32(a, -2) ^ bits.RotateLeft32(a, -13) ^ bits.RotateLeft32(a, -22)) + (a&v[1] ^ a&v[2] ^ v[1]&v[2])
			v = [8]uint32{t1 + t2, a, v[1], v[2], v[3] + t1, e, v[5], v[6]}
		}
		for i := range h {
			h[i] += v[i]
		}
	}
	for i, x := range h {
		binary.BigEndian.PutUint32(sum[4*i:], x)
	}
	return sum
}

var sha256K = [64]uint32{
	0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
	0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
	0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
	0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
	0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
	0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
	0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
	0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
}

// ---- what a server says of itself ----

// A revision is a dated version of the protocol. Those before revModern are
// the legacy era.
type revision int

const (
	rev2024_11_05 revision = iota + 1
	rev2025_03_26
	rev2025_06_18
	rev2025_11_25
	revModern
)

var revisions = [...]string{"", "2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"}

func (v revision) String() string { return revisions[v] }

// batches reports whether several messages may stand in one line.
func (v revision) batches() bool { return v == rev2025_03_26 }

// negotiate returns the revision that is spoken with a client of the legacy era
// that proposes one.
func negotiate(version string) revision {
	for v := rev2024_11_05; v < revModern; v++ {
		if version == v.String() {
			return v
		}
	}
	return rev2025_11_25
}

// supported is the member of an error that names what a request may claim.
const supported = `"supported":["2026-07-28"]`

// Keys of _meta.
const (
	keyVersion      = "io.modelcontextprotocol/protocolVersion"
	keyCaps         = "io.modelcontextprotocol/clientCapabilities"
	keyClient       = "io.modelcontextprotocol/clientInfo"
	keyLevel        = "io.modelcontextprotocol/logLevel"
	keyServer       = "io.modelcontextprotocol/serverInfo"
	keySubscription = "io.modelcontextprotocol/subscriptionId"
)

// levels are those of log messages, in order.
var levels = [...]string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

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

// kindNames are what a list is called in its result.
var kindNames = [kinds]string{"tools", "prompts", "resources", "resourceTemplates"}

// capability is the kind under which k is declared and its changes are told.
func (k kind) capability() kind {
	if k == templates {
		return resources
	}
	return k
}

// closeWith takes away the comma behind the last member and appends what follows.
func closeWith(b []byte, parts ...string) []byte {
	return join(bytes.TrimSuffix(b, []byte(",")), parts...)
}

// join appends all parts to b. Being called, and not copied to where it is
// called, makes a program smaller by 20 KB.
//
//go:noinline
func join(b []byte, parts ...string) []byte {
	for _, p := range parts {
		b = append(b, p...)
	}
	return b
}

// nameAndVersion returns what a client says of itself, and whether it is an
// object with a name and a version.
func nameAndVersion(raw []byte) (name, version string, ok bool) {
	if len(raw) == 0 || raw[0] != '{' {
		return "", "", false
	}
	var rawName, rawVersion []byte
	pick(raw, want{"name", &rawName}, want{"version", &rawVersion})
	name, named := unquote(rawName)
	version, versioned := unquote(rawVersion)
	return name, version, named && versioned
}

// identity is who the server is, as a revision knows it.
func (s *Server) identity(rev revision) string {
	b := quoted(quoted([]byte("{"), "name", s.Name), "version", s.Version)
	if rev >= rev2025_06_18 {
		b = member(b, "title", s.Title)
	}
	if rev >= rev2025_11_25 {
		b = member(b, "websiteUrl", s.WebsiteURL)
	}
	return string(closeWith(appendIconsAndMeta(b, rev, s.Icons, ""), "}"))
}

// caching is the hints of the modern era on what may be kept, and by whom.
func (s *Server) caching() string {
	scope := "private"
	if s.CachePublic {
		scope = "public"
	}
	return `"ttlMs":` + strconv.FormatInt(max(0, s.CacheTTL.Milliseconds()), 10) + `,"cacheScope":"` + scope + `",`
}

// abilities is the capabilities, no more than there are, and the instructions.
func (c *session) abilities(rev revision, offered uint8) string {
	b := []byte(`"capabilities":{`)
	for k, name := range kindNames[:resources] {
		if offered&(1<<k) != 0 {
			b = join(b, `"`, name, `":{"listChanged":true},`)
		}
	}
	if offered&(1<<resources) != 0 {
		b = join(b, `"resources":{"subscribe":true,"listChanged":true},`)
	}
	if offered&(1<<completions) != 0 && rev >= rev2025_03_26 {
		b = join(b, `"completions":{},`)
	}
	if offered&(1<<logging) != 0 {
		b = join(b, `"logging":{},`)
	}
	if b = rawMember(b, "experimental", c.experimental); rev == revModern {
		b = rawMember(b, "extensions", c.extensions)
	}
	return string(member(closeWith(b, `},`), "instructions", c.srv.Instructions))
}

func (s *Server) offers() uint8 {
	s.mu.Lock()
	offered := s.offered
	s.mu.Unlock()
	if s.Logging {
		offered |= 1 << logging
	}
	return offered
}

func (s *Server) maxMessage() int {
	if s.MaxMessage > 0 {
		return s.MaxMessage
	}
	return 64 << 20
}

func (s *Server) addSession(c *session) {
	s.mu.Lock()
	if s.sessions == nil {
		s.sessions = make(map[*session]struct{})
	}
	s.sessions[c] = struct{}{}
	s.lastSession++
	c.number = s.lastSession
	if c.trace == nil && s.Trace != nil {
		if s.trace == nil {
			s.trace = &lineWriter{w: s.Trace}
		}
		c.trace = s.trace
	}
	s.mu.Unlock()
}

func (s *Server) removeSession(c *session) {
	s.mu.Lock()
	delete(s.sessions, c)
	last := c.trace
	if last == s.trace && len(s.sessions) > 0 {
		last = nil // others go on with it
	} else if last == s.trace {
		s.trace = nil
	}
	s.mu.Unlock()
	if last != nil {
		last.stop()
	}
}

// changed tells every client that a list is another one now.
func (s *Server) changed(k kind) {
	for _, c := range s.openSessions() {
		c.changed(k.capability())
	}
}

// openSessions returns a copy of the sessions, to talk to without the lock.
func (s *Server) openSessions() []*session {
	s.mu.Lock()
	sessions := make([]*session, 0, len(s.sessions))
	for c := range s.sessions {
		sessions = append(sessions, c)
	}
	s.mu.Unlock()
	return sessions
}

func (s *Server) logf(format string, args ...any) {
	logWriter{s.ErrorLog}.Write(fmt.Appendf(nil, format, args...))
}

// ---- schemas from types ----

// SchemaOf returns the JSON Schema that [AddTool] derives from T, for
// [Tool.OutputSchema] or for a look at it in a test.
//
// Fields are named and embedded structs are flattened as encoding/json does. A
// pointer, omitempty, omitzero or a default makes a field optional. An argument
// that is no field is refused. Tags say more of a field:
//
//	jsonschema:"text"            its description
//	enum:"a,b"                   the values it may have, or its elements may
//	default:"x"                  what it is when a call leaves it out: text, or JSON if it is no string
//	minimum:"0" maximum:"9"      of a number, which its type can hold
//	minLength:"1" maxLength:"9"  of a string, in characters, or of a list
//	format:"email"               of a string: email, uri, date or date-time
//
// A time.Time is a string in RFC 3339, a []byte one in base64, and a type that
// unmarshals itself from text is a string too. A null for an optional field is as
// good as nothing. Where a type contains itself the schema ends with a plain
// object. SchemaOf panics if T cannot be described: with interfaces, say, or
// types with a JSON form of their own.
func SchemaOf[T any]() json.RawMessage {
	return derive(reflect.TypeFor[T](), "mcp: SchemaOf", true).append(nil, nil, nil)
}

// A schema is what we know about the JSON form of a type.
type schema struct {
	typ    reflect.Type
	kind   string   // the JSON type, or "" if we cannot tell
	fields []*field // of a struct
	elem   *schema  // of a list or a map
	format string
	strict bool // it was told to the client, and is enforced
	custom bool // has methods that marshal it
	text   bool // has a method that unmarshals it from text
	base64 bool
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

	optional                    bool
	omitEmpty, omitZero, quoted bool // json options

	doc, format  string
	enum, titles []string
	form         revision      // of a form, which may have titles
	list         bool          // it stands for the elements of a list in a form
	dflt         []byte        // the default, as JSON
	min, max     reflect.Value // of a number; not valid: no limit
	minLen       int
	maxLen       int // -1: no limit
}

// derive describes t. If it cannot it panics, if it must, saying where.
//
//go:noinline
func derive(t reflect.Type, where string, must bool) *schema {
	return deriver{must: must, known: make(map[reflect.Type]*schema)}.schema(t, where)
}

type deriver struct {
	must  bool
	known map[reflect.Type]*schema // by which recursion ends
}

// refuse panics if something is wrong, unless there is no need to describe it.
//
//go:noinline
func (d deriver) refuse(wrong bool, where, what string) {
	panicUnless(!wrong || !d.must, where, what)
}

func (d deriver) schema(t reflect.Type, where string) *schema {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if s := d.known[t]; s != nil {
		return s
	}
	s := &schema{typ: t, strict: d.must}
	d.known[t] = s
	has := reflect.PointerTo(t).Implements
	s.custom = marshals(t)
	s.base64 = t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8 && !marshals(t.Elem())
	s.text = has(reflect.TypeFor[encoding.TextUnmarshaler]())
	number := t == reflect.TypeFor[json.Number]()
	switch k := t.Kind(); {
	case t == reflect.TypeFor[time.Time]():
		s.kind, s.format = "string", "date-time"
	case has(reflect.TypeFor[json.Unmarshaler]()) || d.must && (s.custom && !s.text || number):
		d.refuse(true, where, t.String()+" has a JSON form of its own, which cannot be described: set the schema by hand")
	case s.text || s.base64 || k == reflect.String && !number:
		s.kind = "string"
	case k == reflect.Bool:
		s.kind = "boolean"
	case reflect.Int <= k && k <= reflect.Uintptr:
		s.kind = "integer"
	case k == reflect.Float32 || k == reflect.Float64 || number:
		s.kind = "number"
	case k == reflect.Slice:
		s.kind = "array"
	case k == reflect.Map && t.Key().Kind() == reflect.String, k == reflect.Struct:
		s.kind = "object"
	default:
		d.refuse(true, where, t.String()+" cannot be described: set the schema by hand")
	}
	// encode looks inside, whatever the kind, when the methods are not for it or
	// out of its reach.
	switch k := t.Kind(); {
	case d.must && s.kind != "array" && s.kind != "object":
	case k == reflect.Slice || k == reflect.Array || k == reflect.Map:
		s.elem = d.schema(t.Elem(), where+"[]")
		for e := s.elem; e != nil && e.kind == "array"; e = e.elem {
			d.refuse(e == s, where, "a list of itself cannot be described: set the schema by hand")
			if e == s {
				break
			}
		}
	case k == reflect.Struct:
		s.fields = d.fields(t, where)
	}
	return s
}

// marshals reports whether t, or a pointer to it, has methods that marshal it.
func marshals(t reflect.Type) bool {
	has := reflect.PointerTo(t).Implements
	return has(reflect.TypeFor[json.Marshaler]()) || has(reflect.TypeFor[encoding.TextMarshaler]())
}

// fields returns the fields of a struct by the rules of encoding/json: of
// several with one name the least deep one counts, then the one whose name was
// given in a tag, and then none.
func (d deriver) fields(t reflect.Type, where string) (fields []*field) {
	all := d.collect(nil, &field{typ: t, where: where})
	for _, f := range all {
		if !slices.ContainsFunc(all, f.hidden) {
			f.schema = d.schema(f.typ, f.where)
			if d.must {
				d.tags(f)
			}
			fields = append(fields, f)
		}
	}
	return fields
}

// hidden reports whether o takes the place of f.
func (f *field) hidden(o *field) bool {
	if o == f || o.name != f.name {
		return false
	}
	return len(o.index) < len(f.index) || len(o.index) == len(f.index) && (o.named || !f.named)
}

// collect appends the fields of a struct, and of those that it embeds.
func (d deriver) collect(all []*field, outer *field) []*field {
	for above := outer.outer; above != nil; above = above.outer {
		if above.typ == outer.typ {
			return all // embeds itself: what is further down is hidden anyway
		}
	}
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
		name, options, _ := strings.Cut(tag, ",")
		has := func(option string) bool { return slices.Contains(commas(options), option) }
		f := &field{
			name:      name,
			outer:     outer,
			index:     append(slices.Clip(outer.index), i),
			typ:       in.Type,
			tag:       in.Tag,
			where:     outer.where + "." + in.Name,
			omitEmpty: has("omitempty"),
			omitZero:  has("omitzero"),
			quoted:    has("string"),
		}
		if strings.IndexFunc(f.name, oddInName) >= 0 {
			f.name = "" // as encoding/json reads it
		}
		d.refuse(pointer && !in.IsExported(), f.where, "an embedded pointer to an unexported type cannot be set")
		if f.named = f.name != ""; embedded && !f.named {
			f.typ = elem
			all = d.collect(all, f)
			continue
		}
		d.refuse(f.quoted, f.where, "the json option string cannot be described")
		f.optional = pointer || f.omitEmpty || f.omitZero
		f.name = cmp.Or(f.name, in.Name)
		all = append(all, f)
	}
	return all
}

// oddInName reports whether encoding/json refuses a name because of r.
func oddInName(r rune) bool {
	return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("!#$%&()*+-./:;<=>?@[]^_{|}~ ", r)
}

// tags reads what the tags of a field say, and panics if it makes no sense.
func (d deriver) tags(f *field) {
	s, elem := f.schema, f.schema
	if s.kind == "array" {
		elem = s.elem
	}
	f.min, f.max = d.bound(f, "minimum"), d.bound(f, "maximum")
	d.refuse(f.min.IsValid() && f.max.IsValid() && compare(f.min, f.max) > 0, f.where, "minimum is above maximum")
	f.minLen, f.maxLen = d.length(f, "minLength", 0), d.length(f, "maxLength", -1)
	f.doc = f.tag.Get("jsonschema")
	if v, ok := f.tag.Lookup("enum"); ok {
		f.enum = commas(v)
	}
	if v, ok := f.tag.Lookup("titles"); ok {
		f.titles = commas(v)
	}
	if v, ok := f.tag.Lookup("format"); ok {
		f.format = v
		d.refuse(s.kind != "string" || !slices.Contains([]string{"email", "uri", "date", "date-time"}, v),
			f.where, `format is for strings, and "email", "uri", "date" or "date-time"`)
	}
	d.refuse(f.enum != nil && (elem.kind != "string" && elem.kind != "integer" || elem.text || elem.base64), f.where, "enum is for strings and integers")
	d.refuse(f.titles != nil && len(f.titles) != len(f.enum), f.where, "titles is for an enum, as many as that has values")
	for _, v := range f.enum {
		d.refuse(s.kind == "integer" && !isNumber([]byte(v)), f.where, "enum: "+v+" is no number")
	}
	if v, ok := f.tag.Lookup("default"); ok {
		f.optional, f.dflt = true, []byte(v)
		if s.kind == "string" {
			f.dflt = appendString(nil, v)
		}
		d.value(f, "default", f.dflt)
	}
}

// bound returns the number in a tag, and no value if there is none.
func (d deriver) bound(f *field, key string) (bound reflect.Value) {
	if v, ok := f.tag.Lookup(key); ok {
		d.refuse(f.schema.kind != "integer" && f.schema.kind != "number" || !isNumber([]byte(v)), f.where, key+" is for numbers, and a number")
		bound = d.value(f, key, []byte(v))
	}
	return bound
}

// length returns the number of characters or elements in a tag, or what it is
// without one.
func (d deriver) length(f *field, key string, without int) int {
	v, ok := f.tag.Lookup(key)
	if !ok {
		return without
	}
	n, err := strconv.Atoi(v)
	d.refuse(err != nil || n < 0 || f.schema.kind != "string" && f.schema.kind != "array",
		f.where, key+" is for strings and lists, and a number of characters or elements")
	return n
}

// value returns what a tag says in JSON, which must be a value of the field.
func (d deriver) value(f *field, key string, raw []byte) reflect.Value {
	v := reflect.New(f.schema.typ).Elem()
	at, bad := &place{name: key}, faults{}
	if skipValue(raw, 0, 0) != len(raw) {
		bad.add(at, "is no JSON")
	} else {
		f.check(v, raw, at, &bad)
	}
	d.refuse(len(bad.lines) > 0, f.where, bad.Error())
	return v
}

// append appends s as JSON Schema, with what the tags of its field say, if it
// is of one. Every node has one type, and nothing refers to anything.
func (s *schema) append(b []byte, f *field, above []*schema) []byte {
	if f == nil {
		f = &field{maxLen: -1}
	}
	if f.list && f.titles != nil && f.form >= rev2025_11_25 {
		return closeWith(f.appendChoice(append(b, '{'), true), "}") // has no type, by the protocol's schema
	}
	b = quoted(append(b, '{'), "type", s.kind)
	b = member(b, "description", f.doc)
	b = rawMember(b, "default", f.dflt)
	if len(f.enum) > 0 && s.kind != "array" {
		b = f.appendChoice(b, s.kind == "string")
	}
	unit := "Length"
	if s.kind == "array" {
		unit = "Items"
	}
	if f.minLen > 0 {
		b = rawMember(b, "min"+unit, strconv.Itoa(f.minLen))
	}
	if f.maxLen >= 0 {
		b = rawMember(b, "max"+unit, strconv.Itoa(f.maxLen))
	}
	minimum := f.tag.Get("minimum")
	if minimum == "" && s.kind == "integer" && s.typ.Kind() >= reflect.Uint {
		minimum = "0"
	}
	b = rawMember(b, "minimum", minimum)
	b = rawMember(b, "maximum", f.tag.Get("maximum"))
	b = member(b, "format", s.format+f.format)
	if s.base64 && !s.text {
		b = member(b, "contentEncoding", "base64")
	}
	switch {
	case s.kind == "array":
		b = s.elem.append(join(b, `"items":`), &field{enum: f.enum, titles: f.titles, form: f.form, list: true, maxLen: -1}, above)
	case s.kind == "object" && slices.Contains(above, s):
		b = join(b, `"properties":{}`)
	case s.kind == "object":
		above = append(slices.Clip(above), s)
		b = join(appendFields(b, s.fields, above), `"additionalProperties":`)
		if s.elem != nil {
			b = s.elem.append(b, nil, above)
		} else {
			b = join(b, "false")
		}
	}
	return closeWith(b, "}")
}

// appendFields appends what the schema of an object says of its fields.
func appendFields(b []byte, fields []*field, above []*schema) []byte {
	b = join(b, `"properties":{`)
	var required []byte
	for _, f := range fields {
		b = append(f.schema.append(append(appendString(b, f.name), ':'), f, above), ',')
		if !f.optional {
			required = append(appendString(required, f.name), ',')
		}
	}
	if b = closeWith(b, "},"); required != nil {
		b = join(b, `"required":[`, string(closeWith(required, "],")))
	}
	return b
}

// appendChoice appends the values of an enum; in a form, with their titles.
func (f *field) appendChoice(b []byte, quoted bool) []byte {
	titled, key := f.titles != nil && f.form >= rev2025_11_25, "enum"
	switch {
	case titled && f.list:
		key = "anyOf"
	case titled:
		key = "oneOf"
	}
	b = join(b, `"`, key, `":[`)
	for i, v := range f.enum {
		if quoted {
			v = string(appendString(nil, v))
		}
		if titled {
			v = `{"const":` + v + `,"title":` + string(appendString(nil, f.titles[i])) + `}`
		}
		b = join(b, v, `,`)
	}
	if b = closeWith(b, "],"); f.titles != nil && f.form == rev2025_06_18 {
		raw, _ := marshal(f.titles)
		b = rawMember(b, "enumNames", raw)
	}
	return b
}

// appendForm appends s as a form that a revision knows, or returns an error if
// it does not.
func (s *schema) appendForm(b []byte, rev revision) ([]byte, error) {
	if s.kind != "object" || s.elem != nil {
		panic("mcp: Elicit: a form is a struct, not a " + s.typ.String())
	}
	var fields []*field
	for _, known := range s.fields {
		f := *known
		list := f.schema.kind == "array" && f.schema.elem.kind == "string" && f.enum != nil
		switch {
		case list && rev < rev2025_11_25:
			return nil, fmt.Errorf("mcp: Elicit: %s: a choice of several: %w in revision %v", f.name, errors.ErrUnsupported, rev)
		case f.enum != nil && (f.schema.kind == "integer" || f.minLen > 0 || f.maxLen >= 0) && !list:
			panic("mcp: Elicit: " + f.name + ": a choice is of strings, and has no bounds")
		case !list && (f.schema.kind == "array" || f.schema.kind == "object" || f.schema.base64):
			panic("mcp: Elicit: " + f.name + ": a form has strings, numbers, booleans and choices")
		case rev < rev2025_11_25 && f.schema.kind != "boolean":
			f.dflt = nil
		}
		f.form = rev
		fields = append(fields, &f)
	}
	return closeWith(appendFields(join(b, `{"type":"object",`), fields, nil), "}"), nil
}

// ---- arguments by their schema ----

// faults is what is wrong with the arguments of one call, all told at once.
type faults struct {
	lines []string
	depth int // of the value that is looked at
}

func (f *faults) Error() string { return strings.Join(f.lines, "; ") }

// maxArgsDepth is how deep arguments may be nested that go into a type which
// contains itself. A json.RawMessage or an any takes more.
const maxArgsDepth = 100

// enough keeps a call that is wrong all over from costing more than a right one.
func (f *faults) enough() bool { return len(f.lines) >= 10 }

func (f *faults) add(at *place, format string, args ...any) {
	f.lines = append(f.lines, at.String()+fmt.Sprintf(format, args...))
}

// A place is where in the arguments we are, made up only when it is told.
type place struct {
	in    *place
	name  string
	index int
}

func (p *place) String() string {
	switch {
	case p == nil:
		return ""
	case p.name == "":
		return strings.TrimSuffix(p.in.String(), " ") + "[" + strconv.Itoa(p.index) + "] "
	}
	name := oneLine(p.name)
	if p.in == nil {
		return name + " "
	}
	return strings.TrimSuffix(p.in.String(), " ") + "." + name + " "
}

// member is the place of a member of the object at p.
//
//go:noinline
func (p *place) member(name string) *place {
	if name == "" {
		name = `""`
	}
	return &place{in: p, name: name}
}

// unmarshal sets what v points to from the arguments of a call.
func (s *schema) unmarshal(args []byte, v any) error {
	if args == nil || string(args) == "null" {
		args = []byte("{}")
	}
	var bad faults // on the stack: mostly there are none
	s.set(reflect.ValueOf(v).Elem(), args, nil, &bad)
	if len(bad.lines) > 0 {
		return &faults{lines: bad.lines}
	}
	return nil
}

// set sets v, which is of the type that s describes or points to one, from
// raw, which is valid JSON. What does not fit is a fault.
func (s *schema) set(v reflect.Value, raw []byte, at *place, bad *faults) {
	for v.Kind() == reflect.Pointer {
		if string(raw) == "null" {
			v.SetZero()
			return
		}
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		v = v.Elem()
	}
	if bad.depth++; bad.depth > maxArgsDepth { // every level looks at all that is below it
		bad.add(at, "is nested too deeply")
	} else {
		s.setKind(v, raw, at, bad)
	}
	bad.depth--
}

// setKind is set for a value that v itself is to hold.
func (s *schema) setKind(v reflect.Value, raw []byte, at *place, bad *faults) {
	str, isText := unquote(raw)
	scalar := raw
	if isText && s.kind != "string" { // models write numbers and booleans as strings now and then
		scalar = []byte(str)
	}
	ok := false
	switch s.kind {
	case "":
		s.setCustom(v, raw, at, bad)
		return
	case "string":
		if ok = isText; ok {
			s.setText(v, str, at, bad)
		}
	case "boolean":
		if ok = string(scalar) == "true" || string(scalar) == "false"; ok {
			v.SetBool(scalar[0] == 't')
		}
	case "integer", "number":
		if ok = isNumber(scalar); ok {
			s.setNumber(v, scalar, at, bad)
		}
	case "array":
		if ok = raw[0] == '['; ok {
			s.setList(v, raw, at, bad)
		}
	case "object":
		if ok = raw[0] == '{'; ok && s.elem != nil {
			s.setMap(v, raw, at, bad)
		} else if ok {
			s.setStruct(v, raw, at, bad)
		}
	}
	if !ok {
		article := "a "
		if strings.IndexByte("aio", s.kind[0]) >= 0 {
			article = "an "
		}
		got := string(raw[:min(len(raw), 40)])
		if isText {
			got = string(appendString(nil, str[:min(len(str), 40)]))
		}
		bad.add(at, "must be %s%s, got %s", article, s.kind, got)
	}
}

// setCustom sets a value of which we do not know what it looks like in JSON.
func (s *schema) setCustom(v reflect.Value, raw []byte, at *place, bad *faults) {
	if u, custom := v.Addr().Interface().(json.Unmarshaler); custom {
		if err := u.UnmarshalJSON(raw); err != nil {
			bad.add(at, "is not valid: %v", err)
		}
	} else if v.Kind() == reflect.Interface && v.NumMethod() == 0 {
		if val, _ := dynamic(raw, 0, at, bad); val != nil {
			v.Set(reflect.ValueOf(val))
		}
	} else {
		bad.add(at, "cannot be made a %v", s.typ)
	}
}

func (s *schema) setText(v reflect.Value, str string, at *place, bad *faults) {
	switch {
	case s.text:
		if err := v.Addr().Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(str)); err != nil {
			if s.format == "date-time" {
				err = errors.New("not a time as in RFC 3339")
			}
			bad.add(at, "is not valid: %v", err)
		}
	case s.base64:
		b, err := base64.StdEncoding.DecodeString(str)
		if err != nil {
			bad.add(at, "must be base64")
		}
		v.SetBytes(b)
	default:
		v.SetString(str)
	}
}

// setNumber takes a number with a fraction or an exponent for an integer if it
// is one, and refuses what v cannot hold.
func (s *schema) setNumber(v reflect.Value, raw []byte, at *place, bad *faults) {
	num := string(raw)              // on the stack if it is short, and so not to be told
	if v.Kind() == reflect.String { // a json.Number
		v.SetString(string(raw))
		return
	}
	if s.kind == "number" {
		f, err := strconv.ParseFloat(num, s.typ.Bits())
		if err != nil {
			bad.add(at, "must be a %v, got %s", s.typ, excerpt(string(raw)))
		}
		v.SetFloat(f)
		return
	}
	if digits(raw, 0) < len(raw) {
		num = integer(num)
	}
	var err error
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
	case errors.Is(err, strconv.ErrRange):
		bad.add(at, "must be in the range of %v, got %s", s.typ, excerpt(string(raw)))
	case err != nil && num[0] == '-' && digits([]byte(num), 1) == len(num):
		bad.add(at, "must be at least 0, got %s", excerpt(string(raw)))
	case err != nil:
		bad.add(at, "must be an integer, got %s", excerpt(string(raw)))
	}
}

// integer writes a number without its fraction and exponent, if it is an
// integer; one that nothing can hold may come out a smaller one that nothing
// can hold either.
func integer(num string) string {
	mantissa, power, found := strings.Cut(num, "e")
	if !found {
		mantissa, power, _ = strings.Cut(num, "E")
	}
	exponent, _ := strconv.Atoi(power)
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits, behind := whole+fraction, len(fraction)-max(exponent, -1<<30) // less could not be negated
	for ; behind > 0 && len(digits) > 1 && digits != "-0" && digits[len(digits)-1] == '0'; behind-- {
		digits = digits[:len(digits)-1]
	}
	switch {
	case behind > 0:
		return num
	case digits == "-0":
		return "0"
	}
	return digits + "000000000000000000000000000000"[:min(-behind, 30)]
}

func isNumber(raw []byte) bool { return len(raw) > 0 && skipNumber(raw, 0) == len(raw) }

func (s *schema) setList(v reflect.Value, raw []byte, at *place, bad *faults) {
	v.Set(reflect.MakeSlice(s.typ, 0, 0))
	walk(raw, 0, 0, func(_, val []byte) bool {
		n := v.Len()
		v.Grow(1)
		v.SetLen(n + 1)
		v.Index(n).SetZero()
		s.elem.set(v.Index(n), val, &place{in: at, index: n}, bad)
		return !bad.enough()
	})
}

func (s *schema) setMap(v reflect.Value, raw []byte, at *place, bad *faults) {
	v.Set(reflect.MakeMap(s.typ))
	walk(raw, 0, 0, func(key, val []byte) bool {
		k, e := reflect.New(s.typ.Key()), reflect.New(s.typ.Elem()).Elem()
		inside := at.member(string(key))
		if u, ok := k.Interface().(encoding.TextUnmarshaler); !ok {
			k.Elem().SetString(string(key))
		} else if err := u.UnmarshalText(key); err != nil {
			bad.add(inside, "is not valid: %v", err)
		}
		before := v.Len()
		s.elem.set(e, val, inside, bad)
		if v.SetMapIndex(k.Elem(), e); v.Len() == before {
			bad.add(inside, "came twice")
		}
		return !bad.enough()
	})
}

func (s *schema) setStruct(v reflect.Value, raw []byte, at *place, bad *faults) {
	seen := make([]bool, len(s.fields))
	walk(raw, 0, 0, func(key, val []byte) bool {
		i := slices.IndexFunc(s.fields, func(f *field) bool { return f.name == string(key) })
		switch {
		case i < 0 && s.strict:
			bad.add(at.member(string(key)), "is unknown%s", s.nearest(string(key)))
		case i < 0:
		case seen[i]:
			bad.add(at.member(string(key)), "came twice")
		case string(val) == "null" && (s.fields[i].optional || !s.strict && s.fields[i].schema.kind != ""):
			// As good as absent.
		default:
			seen[i] = true
			s.fields[i].setIn(v, val, at, bad)
		}
		return !bad.enough()
	})
	if bad.enough() {
		return
	}
	for i, f := range s.fields {
		switch {
		case seen[i]:
		case f.dflt != nil:
			f.setIn(v, f.dflt, at, bad)
		case !f.optional && s.strict:
			bad.add(at.member(f.name), "is required")
		}
	}
}

// setIn sets the field in the struct v, which is at a place.
func (f *field) setIn(v reflect.Value, raw []byte, at *place, bad *faults) {
	f.check(fieldOf(v, f.index, true), raw, at.member(f.name), bad)
}

// fieldOf is reflect.Value.FieldByIndex that makes the embedded structs that
// it finds missing on the way, or else returns no value.
func fieldOf(v reflect.Value, index []int, add bool) reflect.Value {
	for _, i := range index {
		if v.Kind() == reflect.Pointer {
			if v.IsNil() {
				if !add {
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

// check sets v from raw and holds it against what the tags say.
func (f *field) check(v reflect.Value, raw []byte, at *place, bad *faults) {
	before := len(bad.lines)
	if f.schema.set(v, raw, at, bad); len(bad.lines) > before || !f.schema.strict {
		return
	}
	v = pointee(v)
	if f.schema.kind == "array" {
		f.checkLength(v.Len(), "elements", at, bad)
		for i := range v.Len() {
			f.checkEnum(v.Index(i), &place{in: at, index: i}, bad)
		}
		return
	}
	f.checkEnum(v, at, bad)
	switch f.schema.kind {
	case "string":
		if f.minLen <= 0 && f.maxLen < 0 && f.format == "" {
			return // a long text is not decoded for nothing
		}
		str, _ := unquote(raw)
		f.checkLength(utf8.RuneCountInString(str), "characters", at, bad)
		if !wellFormed(f.format, str) {
			bad.add(at, "must be of the format %s, got %q", f.format, excerpt(str))
		}
	case "integer", "number":
		if f.min.IsValid() && compare(v, f.min) < 0 {
			bad.add(at, "must be at least %s, got %v", f.tag.Get("minimum"), v)
		}
		if f.max.IsValid() && compare(v, f.max) > 0 {
			bad.add(at, "must be at most %s, got %v", f.tag.Get("maximum"), v)
		}
	}
}

// pointee is what v points to, as far as it does.
func pointee(v reflect.Value) reflect.Value {
	for v.Kind() == reflect.Pointer && !v.IsNil() {
		v = v.Elem()
	}
	return v
}

func (f *field) checkLength(n int, unit string, at *place, bad *faults) {
	if n < f.minLen {
		if f.minLen == 1 {
			unit = unit[:len(unit)-1]
		}
		bad.add(at, "must have at least %d %s, got %d", f.minLen, unit, n)
	}
	if f.maxLen >= 0 && n > f.maxLen {
		bad.add(at, "must have at most %d %s, got %d", f.maxLen, unit, n)
	}
}

func (f *field) checkEnum(v reflect.Value, at *place, bad *faults) {
	if f.enum == nil || bad.enough() {
		return
	}
	if v = pointee(v); v.Kind() == reflect.Pointer {
		return
	}
	got := v.String() // and not how it prints: the type may have a String of its own
	if v.CanInt() {
		got = strconv.FormatInt(v.Int(), 10)
	} else if v.CanUint() {
		got = strconv.FormatUint(v.Uint(), 10)
	}
	if !slices.Contains(f.enum, got) {
		bad.add(at, "must be one of %s, got %q", strings.Join(f.enum, ", "), excerpt(got))
	}
}

// compare compares two numbers of one type.
func compare(v, w reflect.Value) int {
	switch {
	case v.CanInt():
		return cmp.Compare(v.Int(), w.Int())
	case v.CanUint():
		return cmp.Compare(v.Uint(), w.Uint())
	}
	return cmp.Compare(v.Float(), w.Float())
}

// wellFormed holds a string against a format, as far as a slip is likely.
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

// nearest tells which names there are, the one most like name first.
func (s *schema) nearest(name string) string {
	if len(s.fields) == 0 {
		return ", none is wanted"
	}
	names := make([]string, len(s.fields))
	for i, f := range s.fields {
		names[i] = f.name
	}
	best := 0
	for i := range names {
		if distance(names[i], name) < distance(names[best], name) {
			best = i
		}
	}
	names[0], names[best] = names[best], names[0]
	more := ""
	if len(names) > 8 {
		names, more = names[:8], ", ..."
	}
	return " (there is " + strings.Join(names, ", ") + more + ")"
}

// distance counts the edits that make one name of the other, where case and _
// and - do not matter.
func distance(a, b string) int {
	plain := func(s string) (b []byte) {
		for _, c := range []byte(s) {
			if c != '_' && c != '-' {
				b = append(b, c|0x20)
			}
		}
		return b
	}
	from, to := plain(a), plain(excerpt(b))
	row := make([]int, len(to)+1)
	for j := range row {
		row[j] = j
	}
	for i, c := range from {
		diagonal := row[0]
		row[0] = i + 1
		for j := range to {
			if c != to[j] {
				diagonal++
			}
			diagonal, row[j+1] = row[j+1], min(diagonal, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(to)]
}

// dynamic returns the value at b[i], in the types of encoding/json, and the
// index behind it. It goes over valid JSON once, however deep that is nested.
func dynamic(b []byte, i int, at *place, bad *faults) (any, int) {
	if b[i] == '{' || b[i] == '[' {
		var object map[string]any
		list := []any{}
		if b[i] == '{' {
			object = make(map[string]any)
		}
		for i = skipSpace(b, i+1); b[i] != '}' && b[i] != ']'; {
			var key string
			if object != nil {
				end := skipString(b, i)
				key, _ = unquote(b[i:end])
				i = skipSpace(b, skipSpace(b, end)+1)
			}
			var val any
			if val, i = dynamic(b, i, at, bad); object != nil {
				object[key] = val
			} else {
				list = append(list, val)
			}
			if i = skipSpace(b, i); b[i] == ',' {
				i = skipSpace(b, i+1)
			}
		}
		if object != nil {
			return object, i + 1
		}
		return list, i + 1
	}
	end := skipValue(b, i, 0)
	switch raw := b[i:end]; raw[0] {
	case '"':
		str, _ := unquote(raw)
		return str, end
	case 't', 'f':
		return raw[0] == 't', end
	case 'n':
		return nil, end
	default:
		f, err := strconv.ParseFloat(string(raw), 64)
		if err != nil && !bad.enough() {
			bad.add(at, "must be in the range of float64, got %s", excerpt(string(raw)))
		}
		return f, end
	}
}

// ---- values to JSON ----

// marshal is json.Marshal with the differences that encode has.
func marshal(v any) ([]byte, error) {
	if v == nil {
		return []byte("null"), nil
	}
	return derive(reflect.TypeOf(v), "", false).encode(nil, reflect.ValueOf(v), 0)
}

// encode appends the JSON form of v, which is of the type that s describes, or
// points to one. It is that of encoding/json, which it saves the binary, but
// nil slices and maps are empty, nil pointers in structs are left out, and
// there are no escapes for HTML.
func (s *schema) encode(b []byte, v reflect.Value, depth int) (_ []byte, err error) {
	if depth++; depth > 1000 {
		return nil, errors.New("a value contains itself")
	}
	for hops := 0; v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface; hops++ {
		switch {
		case v.IsNil():
			return join(b, "null"), nil
		case hops > 1000:
			return nil, errors.New("a value points to itself")
		}
		v = v.Elem()
	}
	if v.Type() != s.typ {
		s = derive(v.Type(), "", false) // what an interface holds
	}
	if s.custom {
		method := v
		if v.CanAddr() {
			method = v.Addr()
		}
		switch m := method.Interface().(type) {
		case json.Marshaler:
			raw, err := m.MarshalJSON()
			if err != nil {
				return nil, err
			}
			return appendCompact(b, raw)
		case encoding.TextMarshaler:
			txt, err := m.MarshalText()
			return appendString(b, string(txt)), err
		}
	}
	switch k := v.Kind(); {
	case k == reflect.Bool:
		return strconv.AppendBool(b, v.Bool()), nil
	case v.CanInt():
		return strconv.AppendInt(b, v.Int(), 10), nil
	case v.CanUint():
		return strconv.AppendUint(b, v.Uint(), 10), nil
	case v.CanFloat():
		return appendFloat(b, v.Float(), s.typ.Bits())
	case k == reflect.String && s.kind == "number":
		num := cmp.Or(v.String(), "0")
		if !isNumber([]byte(num)) {
			return nil, fmt.Errorf("not a number: %.100q", num)
		}
		return join(b, num), nil
	case k == reflect.String:
		return appendString(b, v.String()), nil
	case s.base64:
		b = base64.StdEncoding.AppendEncode(append(b, '"'), v.Bytes())
		return append(b, '"'), nil
	case k == reflect.Slice || k == reflect.Array:
		b = append(b, '[')
		for i := range v.Len() {
			if b, err = s.elem.encode(b, v.Index(i), depth); err != nil {
				return nil, err
			}
			b = append(b, ',')
		}
		return closeWith(b, "]"), nil
	case k == reflect.Map:
		return s.encodeMap(b, v, depth)
	case k == reflect.Struct:
		return s.encodeStruct(b, v, depth)
	}
	return nil, fmt.Errorf("a %v has no JSON form", s.typ)
}

func (s *schema) encodeMap(b []byte, v reflect.Value, depth int) (_ []byte, err error) {
	type entry struct{ Key, Value reflect.Value } // as package fmt has it, so that one sort serves both
	entries := make([]entry, 0, v.Len())
	for it := v.MapRange(); it.Next(); {
		key := it.Key()
		if key.Kind() != reflect.String {
			name, err := s.encodeKey(key)
			if err != nil {
				return nil, err
			}
			key = reflect.ValueOf(name)
		}
		entries = append(entries, entry{key, it.Value()})
	}
	slices.SortStableFunc(entries, func(x, y entry) int { return strings.Compare(x.Key.String(), y.Key.String()) })
	b = append(b, '{')
	for _, e := range entries {
		b = append(appendString(b, e.Key.String()), ':')
		if b, err = s.elem.encode(b, e.Value, depth); err != nil {
			return nil, err
		}
		b = append(b, ',')
	}
	return closeWith(b, "}"), nil
}

// encodeKey returns what a key that is no string is called in JSON.
func (s *schema) encodeKey(k reflect.Value) (string, error) {
	m, ok := k.Interface().(encoding.TextMarshaler)
	switch {
	case ok:
		name, err := m.MarshalText()
		return string(name), err
	case k.CanInt():
		return strconv.FormatInt(k.Int(), 10), nil
	case k.CanUint():
		return strconv.FormatUint(k.Uint(), 10), nil
	}
	return "", fmt.Errorf("a %v has no JSON form", s.typ)
}

func (s *schema) encodeStruct(b []byte, v reflect.Value, depth int) (_ []byte, err error) {
	b = append(b, '{')
	for _, f := range s.fields {
		val := fieldOf(v, f.index, false)
		if !val.IsValid() || f.omitted(val) {
			continue
		}
		b = append(appendString(b, f.name), ':')
		n := len(b)
		if b, err = f.schema.encode(b, val, depth); err != nil {
			return nil, err
		}
		if k := f.schema.typ.Kind(); f.quoted && !f.schema.custom && (k <= reflect.Float64 || k == reflect.String) {
			b = appendString(b[:n], string(b[n:]))
		}
		b = append(b, ',')
	}
	return closeWith(b, "}"), nil
}

// omitted reports whether a field is left out because of its value.
func (f *field) omitted(v reflect.Value) bool {
	switch k := v.Kind(); {
	case k == reflect.Pointer && v.IsNil():
		return true
	case f.omitEmpty && (k == reflect.Map || k == reflect.Slice || k == reflect.String || k == reflect.Array) && v.Len() == 0:
		return true
	case f.omitEmpty && k != reflect.Struct && k != reflect.Array && v.IsZero():
		return true
	case !f.omitZero || k == reflect.Interface && v.IsNil():
		return f.omitZero
	case !v.CanInterface(): // an unexported struct is embedded
	case k != reflect.Pointer && k != reflect.Interface:
		p := reflect.New(v.Type()) // the method may be of the pointer
		p.Elem().Set(v)
		if z, ok := p.Interface().(interface{ IsZero() bool }); ok {
			return z.IsZero()
		}
	case v.Type().Implements(reflect.TypeFor[interface{ IsZero() bool }]()):
		return v.Interface().(interface{ IsZero() bool }).IsZero()
	}
	return v.IsZero()
}

// appendFloat appends f as encoding/json does, which is as ECMAScript does.
func appendFloat(b []byte, f float64, bits int) ([]byte, error) {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return nil, fmt.Errorf("%v has no JSON form", f)
	}
	format, size := byte('f'), math.Abs(f)
	low, high := 1e-6, 1e21
	if bits == 32 {
		low, high = float64(float32(low)), float64(float32(high))
	}
	if size != 0 && (size < low || size >= high) {
		format = 'e'
	}
	b = strconv.AppendFloat(b, f, format, -1, bits)
	if n := len(b); format == 'e' && n >= 4 && b[n-4] == 'e' && b[n-2] == '0' { // e-09 is e-9
		b = append(b[:n-2], b[n-1])
	}
	return b, nil
}

// appendCompact appends JSON that somebody else has made, without blanks.
func appendCompact(b, raw []byte) ([]byte, error) {
	i := skipSpace(raw, 0)
	end := skipValue(raw, i, 0)
	if end < 0 || skipSpace(raw, end) < len(raw) || !utf8.Valid(raw) {
		return nil, fmt.Errorf("not valid JSON: %.100q", raw)
	}
	for i < end {
		next := i + 1
		if raw[i] == '"' {
			next = skipString(raw, i)
		}
		b = append(b, raw[i:next]...)
		i = skipSpace(raw, next)
	}
	return b, nil
}
