// SPDX-License-Identifier: MIT
// Version 4.2.2, 2026-11-29. The SHA-256 of each release of this file is in CHANGES.md of example.com/mcp.
// SPDX-FileCopyrightText: 2026 The mcp authors

// Package mcp implements a Model Context Protocol server over stdin and stdout. It is three files
// that are copied into a program, needs Go 1.25 and uses only the standard library.
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
// A tool is an ordinary function, its handler. [AddTool] derives the schema of the arguments from
// the type of its parameter, a struct or a map. Arguments are checked before the handler runs:
// the model reads one line about those that are missing, unknown, of a wrong type or out of range.
//
// Because models mix up types, "5" is accepted for a number, "true" for a boolean, a string for a
// list of strings, a JSON string for the list or object that it holds, [] for an object without
// members, and a whole number of at most 15 digits for a string. A string for a list that begins with [ or { must
// be JSON. If an argument is optional, a null
// that the schema does not allow is treated as absent, so the argument takes its default. In a map, a null
// is an element: it is delivered if the elements of the Go type can be nil, and is a mistake otherwise. The
// argument wait_for_previous, which Gemini CLI sends with every tool, is dropped unless the tool has
// an argument of that name. [SchemaOf] lists the tags for bounds, defaults and descriptions.
//
// A [time.Duration] is a number of nanoseconds, which models get wrong. Take a number of
// seconds instead, or a string for [time.ParseDuration].
//
// If [Tool.InputSchema] is set, it is sent in place of a derived schema, and tags of the
// parameter's type are ignored. The parameter may be of any type that fits the schema, such as
// map[string]any, in which numbers are float64. A [json.RawMessage] holds the arguments after
// checks and conversions; [RequestFrom] has them as the client sent them. These keywords are
// enforced:
//
//	type, enum, const, properties, required, additionalProperties, items, minimum, maximum,
//	minLength, maxLength, minItems, maxItems, contentEncoding if it is base64, and format
//	if it is date or date-time;
//	default is filled in unless it is null
//
// No other keyword that restricts a value is enforced. If a tool has any, one line in
// [Server.ErrorLog] names the first and says how many there are. Such keywords are
//
//	$ref, anyOf, oneOf, allOf, not, if, pattern, patternProperties, prefixItems and the items
//	beside it, uniqueItems, multipleOf, exclusiveMinimum, exclusiveMaximum
//
// Also reported is what makes some model providers refuse the tool, and often the whole request: a
// list of types, a property without a type, an enum of numbers, const, a list without items, more
// than ten levels, and others. To let an argument be null, leave it out of required.
//
// Handlers run concurrently: guard what they share. With a single session, as under
// [Server.ServeStdio], you may set [Server.MaxConcurrent] to 1 instead. A handler may run on the
// goroutine that reads, so after [runtime.LockOSThread] it must unlock before it returns.
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
//	string, []byte                  a text
//	Content, *Content, []Content    blocks, such as texts and images
//	*Result                         all parts of a result
//	struct{}                        nothing
//	any                             the type of its value decides, in each call
//	any other type                  structured output, together with the same JSON as a text
//
// Bytes that are not UTF-8 fail the call: return them with [Image], [Audio] or [EmbeddedResource].
// If the tool has a [Tool.OutputSchema], bytes are structured output, in base64.
//
// If [Tool.OutputSchema] is nil and the type is a struct or a map that can be described, the
// output schema is derived from it. None is derived from a pointer, because nil is sent as an empty
// result. To a client of an older revision, output that is not an object is sent as
// {"result": ...}, and its schema is not sent.
//
// In structured output nil slices, maps and bytes are sent as empty ones, and nil pointers in
// structs are left out. In an interface, and in the JSON of a MarshalJSON, the Go type does not show what
// a null stands for: if the output schema does not describe the value, such a null is sent as it is.
// If a null remains that the output schema does not allow, such as a nil pointer in a list, the call fails.
// Nothing else is checked against the output schema.
//
// In a text that is not UTF-8, each invalid byte is sent as U+FFFD, and the text is reported to [Server.ErrorLog]. Send
// the bytes of a file with [Image], [Audio] or [ResourceContents.Blob].
//
// If a function returns an error, the model reads the error's text. If the error is that of the
// function's context, the text is that of the context's cause. But an [*Error], or an error that
// wraps one, is for the host: it fails the request.
//
// # In a handler
//
// These functions take the handler's context, or one that is derived from it. [Progress]
// reports progress, a logger with [Server.LogHandler] logs to the client, and [RequestFrom]
// returns the request, with the name and the capabilities of the client. [Confirm], [Elicit],
// [ElicitSchema] and [ElicitURL] ask the user, and [Ask] asks the client. A handler is written
// in the same way for all revisions of the protocol, and may call these from several goroutines.
//
// Outside of a handler, as in a test that calls one, no progress and no log messages are sent,
// RequestFrom returns a zero [Request], and a question returns an error that is
// [errors.ErrUnsupported]. A handler that a test calls gets its arguments unchecked, and without
// defaults. To test a handler that asks, call [Server.Serve] with lines of a client of revision
// 2026-07-28, as client_test.go in the library's example/notes does.
//
// # Asking the user
//
// A handler asks with one call. Put side effects after the last question, and if the call
// returns an error, return that error:
//
//	if err := mcp.Confirm(ctx, "Delete a.txt?"); err != nil {
//		return "", err // or wrapped with %w
//	}
//
// If the client cannot be asked, the error is [errors.ErrUnsupported], and its text says what
// is missing. If a tool returns it, a model of an older revision reads the text, and the host of a
// client of 2026-07-28 gets it as an error response. How a question is sent depends on the revision:
//
// A client of an older revision is sent a request, and the call blocks until the client has
// responded. It also returns when ctx, the request or the session ends; the error is then the
// cause of that end.
//
// In revision 2026-07-28, except in a task ([Tool.TaskAfter]), a question travels in the result of the handler's own
// request, and the handler runs again when the question has been answered. A handler that asks two questions runs
// three times:
//
//	request                     the handler
//	tools/call                  asks A: ErrInputRequired, which it returns; the result has A
//	tools/call, answer to A     asks A: the answer; asks B: ErrInputRequired; the result has B
//	tools/call, answer to B     asks A: the answer, which the client sent back; asks B: the answer; returns
//
// So code before a question runs more than once. To ask several questions in one round, ask all of them and
// return [errors.Join] of the errors. In this revision only the handlers of tools, prompts and resources
// can ask.
//
// An answer serves one question, whose message is exactly what the user saw. So put no time and no random
// text into a message, and ask the same questions again each time; later ones may depend on the answers to
// earlier ones. The server keeps nothing between rounds, so a client can replay an answer in an equal call. An answer
// counts only in the process that asked, unless [Server.Checksum] is set. The call fails if the handler does
// not return the error of a question, which would be lost, and if the client's answers match no question in three
// rounds in a row.
//
// # Cancellation
//
// A handler's context ends when the client cancels the request or goes away, and when the
// session ends. [context.Cause] returns the reason:
//
//   - a [*CancelledError] if the client cancelled the request or its task, or sent initialize again;
//   - [ErrClosed] if the client closed the connection;
//   - the error of a Read or Write that failed;
//   - the cause of the context that was passed to [Server.Serve], if that ended;
//   - under [Server.ServeStdio], after a signal, an error that names the signal, or
//     [context.Canceled] before Go 1.26.
//
// The first two are [context.Canceled] too, as [errors.Is] reports. A command that was killed because
// the context ended returns an [*exec.ExitError]: test ctx.Err() after it.
//
// When the session ends, handlers have [Server.WaitDelay] to clean up and return.
//
// # Revisions
//
// Five revisions of the protocol are served. A client of an older revision, 2024-11-05 to
// 2025-11-25, begins with initialize. In 2026-07-28 each request names its revision instead. One
// connection may carry requests of both kinds.
package mcp

// This file has two parts.
//
// Part 1 is what a program says: Server and the public types; tools; resources; prompts; what
// clients check; what a server offers; methods of extensions; functions for handlers; asking the
// user.
//
// Part 2 is JSON and Go: schemas from types; schemas by hand; arguments by their schema; values
// to JSON; JSON. It is on both paths of a call:
//
//	arguments ─▶ rules.unmarshal: read by the listed schema, and perhaps by that of the Go type; then set ─▶ In ─▶ handler
//	handler ─▶ Out ─▶ marshalOutput: encoding/json, and nulls replaced as the schema shows ─▶ toolResponse, in session.go
//
// A function that appends a member or an element to JSON, or a node of a schema, also appends a comma.
// closeWith removes the last one.

import (
	"bytes"
	"cmp"
	"container/list"
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
	"os"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Version is the version of this copy of the library. Between two releases it ends in "-dev".
const Version = "4.2.2"

// A Server is what a program offers to clients. Set its fields before it serves, and do not
// change them afterwards. Tools, resources, prompts and methods may be added and removed at
// any time, also concurrently. A Server must not be copied.
type Server struct {
	Name    string // required: the name for programs
	Version string // required

	Title        string // the name for people
	Instructions string // for the model: how to use the tools together
	WebsiteURL   string
	Icons        []Icon

	// CancelDelay is how long handlers may continue after the client has closed its end. The
	// default, 0, cancels them at once: set it if they should finish their work. Their questions
	// to the client fail at once in any case. A signal, and the end of Serve's context, cancel
	// handlers at once.
	CancelDelay time.Duration

	// WaitDelay is how long Serve waits, after the handlers were cancelled, for them to return
	// and for the client to read the output. 0 means one second; in package os/exec it means no
	// limit. If the client has not read everything by then, Serve waits up to 100 ms longer.
	WaitDelay time.Duration

	// MaxConcurrent is how many handlers of one session, of all kinds, run at the same time. One
	// that waits for the client counts too. Further requests wait and start in the order of their
	// arrival; their number is not bounded. Each call of Serve is a session. 0 means no limit.
	MaxConcurrent int

	// MaxMessageBytes is the maximum length of a line from the client, in bytes. A line is one
	// message or a batch. A longer line gets an error response, and what comes after these bytes is not kept in
	// memory. 0 means 64 MiB.
	MaxMessageBytes int

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

	// ErrorLog receives what the library reports: invalid messages, panics of handlers, requests
	// that the client has cancelled, and mistakes in what was added, such as a tag without effect.
	// nil means the standard logger of package log. Reports are kept until a session prints them,
	// so neither registration nor a handler waits for a log that is not read, and a program that
	// never serves prints none. At most 1,000 wait; of further ones only the number is printed.
	ErrorLog *log.Logger

	// Intercept is called around each call of a tool, prompt or resource, each completion, and each
	// method of AddMethod, also if the name is unknown or the arguments are wrong. It is for logs,
	// metrics, time limits and refusals:
	//
	//	func(ctx context.Context, next func(context.Context) error) error {
	//		ctx, cancel := context.WithTimeout(ctx, time.Minute)
	//		defer cancel()
	//		return next(ctx) // calls the handler
	//	}
	//
	// It may call next once, with ctx or a context derived from it. next returns nil if the call succeeds,
	// and otherwise the error of the handler, or one with the text that the model reads, as for wrong
	// arguments and for a Result with IsError. Then
	//
	//   - if Intercept returns nil, or the error of next, the outcome of next is sent;
	//   - if it returns another error, that is sent as if the handler had returned it;
	//   - if it returns nil and has not called next, the call fails with -32603.
	//
	// A second call of next, a call after Intercept has returned, and a call with any other context return an error,
	// call no handler, and are reported to ErrorLog. If next still runs when Intercept returns, the library waits for it.
	//
	// Intercept runs like a handler, and may ask the client if the handler may. In revision 2026-07-28 it runs
	// in each round of questions, and next returns [ErrInputRequired] if the handler asks. A panic in it, or in
	// the handler, which passes through it, costs only the call; a panic on another goroutine ends the
	// program. To hide a tool, use [Tool.Enabled]: Intercept only refuses it, and does not see results.
	Intercept func(ctx context.Context, next func(context.Context) error) error

	// Checksum returns a checksum of data; the string may hold any bytes. The library uses it to
	// match an answer of a client of revision 2026-07-28 to its question and its call. nil means a
	// hash with a random seed, so an answer counts only in the process that asked. If several
	// processes serve the same clients, or if an answer must outlast a restart, set Checksum to a
	// keyed hash that is hard to forge, such as HMAC-SHA256, with one secret key for all of them. It
	// must return the same bytes for the same data. It may be called concurrently.
	Checksum func(data []byte) string

	mu       sync.Mutex // guards the fields below; seed only until the first session has begun
	lists    [listCount]itemList
	offered  kindSet               // the kinds of which an item was added, and logging if there is a LogHandler; never cleared
	sessions map[*session]struct{} // nil until the first session begins, and never nil again
	methods  map[string]*service   // of AddMethod
	reports  []string              // that wait to be printed by a session
	dropped  int                   // reports above maxReports
	seed     maphash.Seed          // of checksums if Checksum is nil; made with the first session
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
// Keep names within 40 bytes: hosts put the name of the server in front, and model providers
// accept 64 bytes in all. Put all that the model must know into the description. Repeat defaults and
// bounds there: some hosts drop them from the schema.
type Tool struct {
	Name         string          `json:"name"`                   // required: 1 to 128 of A-Z a-z 0-9 _ - .
	Title        string          `json:"title,omitempty"`        // for people
	Description  string          `json:"description,omitempty"`  // for the model
	InputSchema  json.RawMessage `json:"inputSchema,omitempty"`  // nil: derived from the handler's parameter
	OutputSchema json.RawMessage `json:"outputSchema,omitempty"` // nil: derived if the handler returns a struct or a map
	Annotations  ToolAnnotations `json:"annotations,omitzero"`
	Icons        []Icon          `json:"icons,omitempty"`
	Meta         map[string]any  `json:"_meta,omitempty"`

	// Enabled reports whether the tool exists for the client whose request is served under ctx;
	// nil means that it exists for all. For other clients the tool is left out of lists, and
	// calls to it fail as unknown. A panic in Enabled hides the tool, and the first panic is reported.
	// [RequestFrom] and the values of Serve's context are available from ctx. Enabled is called for
	// each list and, before Intercept, for each call, concurrently. If a tool has Enabled, listing
	// tools counts as a call for [Server.MaxConcurrent], and lists of tools are not cached. When the result
	// of Enabled changes, add the tool again: this always notifies the clients.
	Enabled func(ctx context.Context) bool `json:"-"`

	// TaskAfter is how long a call may run before it becomes a task, if the client supports tasks, an
	// extension of revision 2026-07-28. The client then receives the id of the task in place of the
	// result, and asks for the state of the task, so that the model need not wait. 0 means that no
	// call becomes a task. For any other client, a call is always an ordinary one.
	//
	// The handler does not change, and keeps running with the same context. In a task, the message of
	// [Progress] is the status that the client shows, log messages are discarded, and a question such as
	// [Confirm] blocks until the client has answered it. A task counts for [Server.MaxConcurrent] until
	// its handler returns: if MaxConcurrent is 1, the other calls wait. It is the only bound on the tasks
	// that run. The handler is cancelled if the client cancels the task, with a [*CancelledError], and when
	// the session ends. The result is kept until the client has read it, or the session ends. While 100
	// results, or 16 MiB of results, have not been read, no further call becomes a task.
	TaskAfter time.Duration `json:"-"`
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

// A Hint is Yes or No. A zero Hint is not sent.
type Hint uint8

const (
	Yes Hint = iota + 1
	No
)

// MarshalJSON returns true for Yes, and false otherwise.
func (h Hint) MarshalJSON() ([]byte, error) { return strconv.AppendBool(nil, h == Yes), nil }

// A Result is the complete result of a tool. StructuredContent is marshalled as JSON, and sent as a
// text too if Content is empty. If the tool has an OutputSchema, StructuredContent must not be nil
// unless IsError is true.
type Result struct {
	Content           []Content      `json:"content"`
	StructuredContent any            `json:"structuredContent,omitempty"`
	IsError           bool           `json:"isError,omitempty"` // the model sees that the call failed
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
// links receives a text in their place. A block that clients would refuse fails the call: a link
// needs a URI and a name, and an embedded resource a URI.
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
	b, err := newest.appendContent(nil, c)
	return closeWith(b), err
}

// Text returns a block of text.
func Text(s string) Content { return Content{Type: "text", Text: s} }

// Image returns a picture. Data is the file's bytes, not in base64. If they begin as PNG, JPEG, GIF or WebP, the
// picture is sent as that, whatever mimeType is. If mimeType is one of these and they do not, the call fails.
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
	URI         string         `json:"uri,omitempty"` // required, such as "note://{id}"; see AddResource
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

// A ReadFunc reads a resource. The map vars holds the values of a template's variables,
// percent-decoded and never empty. No value has a segment "." or "..", and that of {name} has no
// slash. The value of {+name} may begin with a slash: use [os.Root] to confine it to a directory.
// An error that is [fs.ErrNotExist] means that the resource does not exist. The text of any other
// error is sent to the client.
type ReadFunc func(ctx context.Context, uri string, vars map[string]string) ([]ResourceContents, error)

// A CompleteFunc suggests values that begin with, or resemble, what was typed so far, the best
// first. At most 100 are sent. The map known holds the other arguments that have a value
// already. Both parameters come from the client and are not checked: unlike the variables of a
// ReadFunc, they may hold slashes and "..". The text of an error is sent to the client.
type CompleteFunc func(ctx context.Context, typed string, known map[string]string) ([]string, error)

// A Prompt is one or more messages that a user may start from.
type Prompt struct {
	Name        string           `json:"name"` // required
	Title       string           `json:"title,omitempty"`
	Description string           `json:"description,omitempty"`
	Arguments   []PromptArgument `json:"arguments,omitempty"`
	Icons       []Icon           `json:"icons,omitempty"`
	Meta        map[string]any   `json:"_meta,omitempty"`
}

// A PromptArgument is a field of a Prompt that the user fills in.
type PromptArgument struct {
	Name        string       `json:"name"` // required
	Title       string       `json:"title,omitempty"`
	Description string       `json:"description,omitempty"`
	Required    bool         `json:"required,omitempty"`
	Complete    CompleteFunc `json:"-"` // suggests values; may be nil
}

// A PromptMessage is one turn of a conversation. A Role that the protocol does not have fails the
// request.
type PromptMessage struct {
	Role    Role    `json:"role"` // "" is RoleUser
	Content Content `json:"content"`
}

// A Role is a side of a conversation.
type Role string

const RoleUser, RoleAssistant Role = "user", "assistant" // the assistant is the model

// A PromptFunc returns the messages of a prompt. The map args holds all required arguments, and
// no unknown ones. The text of an error is sent to the client.
type PromptFunc func(ctx context.Context, args map[string]string) ([]PromptMessage, error)

// Annotations say for whom something is meant and how important it is. Zero fields are not sent.
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

func (e *Error) Error() string { return e.Message }

// Is reports whether target is [errors.ErrUnsupported] and e says that the client cannot be
// asked.
func (e *Error) Is(target error) bool {
	return e.Code == codeCapability && target == errors.ErrUnsupported
}

// ---- tools ----

// AddTool adds a tool, or replaces the tool of the same name. The arguments of a call are checked
// and stored in an In before h runs; "Tools" and "Results" in the package comment describe
// arguments, results and errors. In is a struct, or a map with string keys, unless t.InputSchema
// is set.
//
// AddTool panics, before it changes anything, if h is nil, if a field of t, a schema, a type or a tag is
// invalid, if no value satisfies bounds or an enum, or if In cannot hold a default. The message
// says what to write instead. The name of an argument must have 1 to 64 of A-Z a-z 0-9 _ . -. Once the
// Server has served, an invalid tool does not panic, unless h is nil: it is reported to ErrorLog, and there is no
// tool of this name then. So a program that passes on the tools of others does not end by one of them.
//
// AddTool reports to ErrorLog a name or a schema that some providers refuse; tags without effect; fields of In that
// cannot be set; keywords of a schema by hand that are not enforced; a description of more than 2,048 characters; a
// name that differs from that of another tool only in case, - . and _; and a tool that replaces another before the
// first session. The report has one line for each tool: the first of these, and the number of the others.
//
// The caller may change t's slices and maps afterwards.
//
// AddTool may be called at any time, also by a handler, and notifies connected clients, unless the
// new tool has the same list entry as the one it replaces, and neither has Enabled. A session of an
// older revision, or a subscription, that began before the first tool was added gets no notifications of
// tools, because tools were not declared to it. The same holds for resources and prompts.
func AddTool[In, Out any](s *Server, t Tool, h func(context.Context, In) (Out, error)) {
	panicUnless(h != nil, "mcp: tool "+strconv.Quote(t.Name), "the handler is nil")
	s.addTool(&t, reflect.TypeFor[In](), reflect.TypeFor[Out](), func(ctx context.Context, r *request) ([]byte, error) {
		var call struct { // one allocation for both, because their addresses are taken
			in  In
			out Out
		}
		err := r.item.in.unmarshal(r.arguments, &call.in, fromCall)
		if err != nil {
			return nil, errors.New("Invalid arguments: " + err.Error())
		}
		if call.out, err = h(ctx, call.in); err != nil {
			return nil, err
		}
		return r.sendable(r.toolResponse(&call.out, r.item.out))
	})
}

// RemoveTools removes the tools of these names and notifies connected clients. Names that do
// not exist are ignored. Calls in progress continue.
func (s *Server) RemoveTools(names ...string) { s.removeItems(tools, names) }

// Tools returns the tools as they are listed, in the order in which they were added: each has its
// schemas, also those that were derived. A tool that has replaced another has its place. Tools with
// Enabled are among them, whether or not it hides them.
//
// The result is a copy, which the caller may change. Meta is read from its JSON, so a number in it is a
// float64. Tools may be called at any time, also concurrently.
func (s *Server) Tools() []Tool {
	items, _ := s.listInOrder(tools)
	all := make([]Tool, 0, len(items))
	for _, it := range items {
		t := Tool{Annotations: it.tool.Annotations, Enabled: it.tool.Enabled, TaskAfter: it.tool.TaskAfter}
		listed := closeWith(copyMembersExcept([]byte("{"), it.encoded, "annotations"), "}") // no method reads a Hint
		_ = json.Unmarshal(listed, &t)                                                      // it is the library's own JSON
		all = append(all, t)
	}
	return all
}

// addTool is the part of AddTool that does not depend on the types In and Out.
func (s *Server) addTool(t *Tool, from, to reflect.Type, run responder) {
	where := fmt.Sprintf("mcp: tool %q", t.Name)
	defer s.leaveOut(where, s.RemoveTools, t.Name)
	panicUnless(consistsOf(t.Name, alphanumeric+"_-.") && len(t.Name) <= 128, where, "the name must have 1 to 128 of A-Z a-z 0-9 _ - .")
	var warnings []string
	if len(t.Name) > 64 || strings.Contains(t.Name, ".") || strings.Contains("-0123456789", t.Name[:1]) {
		warnings = append(warnings, where+": its name should have at most 64 of A-Z a-z 0-9 _ -, and begin with a letter or _: some providers refuse any other")
	}
	if n := utf8.RuneCountInString(t.Description); n > maxShown {
		warnings = append(warnings, fmt.Sprintf("%s: its description has %d characters: Claude Code shows the model the first 2,048", where, n))
	}
	in := t.describeIn(from, where, &warnings)
	out, listedOut := t.describeOut(to, where, &warnings)
	s.addItem(tools, where, warnings, &item{
		name:        t.Name,
		encoded:     encodeItem(where, t, checkIcons(t.Icons)),
		tool:        *t,
		run:         run,
		in:          in,
		out:         out,
		output:      listedOut,
		needsObject: string(member(t.OutputSchema, "type")) == `"object"`,
	})
}

// describeIn sets t.InputSchema if it is nil, and returns the rules for arguments of the type in: typed says what
// encoding/json reads into it, and listed what clients are shown.
func (t *Tool) describeIn(in reflect.Type, where string, warnings *[]string) *rules {
	typed, d := derive(in, where+": In", forArguments)
	byHand := t.InputSchema != nil
	source, ofTags := "In", d.misspelled
	if byHand {
		t.InputSchema = compactSchema(t.InputSchema, where+": InputSchema")
		for _, s := range d.known {
			s.refusesNull = false // the schema says where null is allowed
		}
		source, ofTags = "InputSchema", t.unusedTags(typed)
	} else {
		t.InputSchema = d.render(typed, ", or set InputSchema")
	}
	// A type without a JSON type has a method that reads it, or is an interface, so it may take an object.
	panicUnless(typed.jsonType == "object" || typed.jsonType == "", where, "In must be a struct or a map, because no object can be stored in %v", in)
	// A derived schema is parsed too: arguments are checked by what the model sees. The bounds of the Go type count as well,
	// and it must take each default.
	p := schemaParser{why: forArguments, isDerived: !byHand}
	listed := p.parse(t.InputSchema, where+": "+source, typed)
	*warnings = slices.Concat(*warnings, d.leftOut, ofTags, p.warnings)
	panicUnless(string(member(t.InputSchema, "type")) == `"object"`, where, `%s: the schema must have "type": "object"`, source)
	for _, f := range listed.fields {
		if !consistsOf(f.name, alphanumeric+"_.-") || len(f.name) > 64 {
			panic(fmt.Sprintf("%s: the argument name %q must have 1 to 64 of A-Z a-z 0-9 _ . -, or some providers refuse the whole request", where, f.name))
		} else if typed.isStruct() && typed.property(f.name) == nil {
			panic(fmt.Sprintf("%s: no field of %v takes the property %q: names are matched exactly", where, typed.typ, f.name))
		}
	}
	listed.ignored = ignoredArgument
	if byHand || !d.showsAll() {
		return &rules{readBy: []*schema{listed, typed}, setBy: typed}
	}
	return &rules{readBy: []*schema{listed}, setBy: typed}
}

// unusedTags says which tags of In have no effect, because InputSchema, which was written by hand, lacks their keywords. A
// schema that SchemaOf made of the type has them, an enum perhaps in items.
func (t *Tool) unusedTags(in *schema) (texts []string) {
	for _, f := range in.fields {
		property := member(member(t.InputSchema, "properties"), f.name)
		for _, tag := range append([]string{"jsonschema", "enum", "default", "format"}, boundTags...) {
			_, isThere := f.tag.Lookup(tag)
			keyword := strings.Replace(tag, "jsonschema", "description", 1)
			if isThere && !bytes.Contains(property, []byte(`"`+keyword+`":`)) {
				texts = append(texts, f.where+": the tag "+tag+" has no effect beside InputSchema, which lacks "+keyword)
			}
		}
	}
	return texts
}

// describeOut sets t.OutputSchema if it is nil and one can be derived from the type out. It returns the schema of
// that type, and the listed one, which is nil if there is none.
func (t *Tool) describeOut(out reflect.Type, where string, warnings *[]string) (typed, listed *schema) {
	typed, d := derive(out, where+": Out", forResults)
	source := "OutputSchema"
	// Of these types, no value has structured output.
	content := []reflect.Type{reflect.TypeFor[string](), reflect.TypeFor[Content](), reflect.TypeFor[*Content](), reflect.TypeFor[[]Content](), reflect.TypeFor[struct{}]()}
	isContent := slices.Contains(content, out)
	panicUnless(!isContent || t.OutputSchema == nil, where, "OutputSchema promises structured output, but the type %v has none", out)
	isObject := typed.jsonType == "object" || string(member(typed.fromMethod, "type")) == `"object"`
	switch {
	case t.OutputSchema != nil:
		t.OutputSchema = compactSchema(t.OutputSchema, where+": OutputSchema")
	// A pointer has none, because nil is sent as an empty result. A Result has none, because it cannot be described.
	case !isObject || isContent || out.Kind() == reflect.Pointer || d.undescribed != "":
		return typed, nil
	default:
		t.OutputSchema, source = d.render(typed, ""), "Out"
	}
	p := schemaParser{why: forResults}
	listed = p.parse(t.OutputSchema, where+": "+source, anything)
	*warnings = append(*warnings, p.warnings...)
	return typed, listed
}

// ---- resources ----
//
// A URI comes from a client and often names a file. So the values of a template's variables are
// checked before a ReadFunc receives them: no value forms a segment "." or "..", and only that
// of {+name} may have slashes.

// AddResource adds a resource or a template, or replaces the one of the same URI, and notifies
// connected clients. The URI of a request is looked up among the resources, and then, if it has
// at most 64 KiB, matched with the templates in the order in which they were added.
//
// {name} matches one segment of a path, or a part of it, and {+name} anything. {name} takes the
// shortest value that the text after it allows; {+name}, and the last variable, take the
// longest. No other value is tried: {+a}/{b}/x does not match 1/2/x, because a takes "1/2". If a
// value would be empty, the template does not match.
//
// In a URI, other braces must be escaped, and so must blanks and any other character that RFC
// 3986 does not allow. Letters that are not ASCII are only reported to ErrorLog, because some clients
// can read them. This returns the URI of a file:
//
//	(&url.URL{Scheme: "file", Path: path}).String()
//
// After "//" a URI has a host, in which a colon begins a port: write log:2026-01-31T09:30:00,
// without slashes.
//
// AddResource panics, before it changes anything, if a variable or the name is invalid, if Meta
// cannot be marshalled, if read is nil, if the URI, the annotations or an icon is invalid, or if no URI can match the
// template. Once the Server has served, an invalid resource does not panic: it is reported to ErrorLog, and there is
// no resource of this URI then. A name in Complete that is not a variable is
// reported too, and before the first session a resource that replaces another.
func (s *Server) AddResource(r Resource, read ReadFunc) {
	where := fmt.Sprintf("mcp: resource %q", r.URI)
	defer s.leaveOut(where, s.RemoveResources, r.URI)
	prefix, vars, err := parseTemplate(r.URI)
	panicUnless(err == nil, where, "%v", err)
	panicUnless(r.Name != "", where, "the name is missing")
	panicUnless(read != nil, where, "the ReadFunc is nil")
	invalid := cmp.Or(checkTemplate(prefix, vars), checkAnnotations(r.Annotations), checkIcons(r.Icons))
	var warnings []string
	var escaped []byte
	for _, c := range []byte(r.URI) {
		if c < utf8.RuneSelf {
			escaped = append(escaped, c)
		} else {
			escaped = fmt.Appendf(escaped, "%%%X", c)
		}
	}
	if len(escaped) > len(r.URI) {
		warnings = append(warnings, "mcp: resource "+string(escaped)+": write its URI so, because some clients escape it and then cannot read it")
	}
	for _, name := range slices.Sorted(maps.Keys(r.Complete)) {
		if !slices.ContainsFunc(vars, func(v variable) bool { return v.name == name }) {
			warnings = append(warnings, where+": Complete has "+strconv.Quote(name)+", which is not a variable of the URI")
		}
	}
	k, name, public := resources, r.URI, any(r)
	if len(vars) > 0 {
		r.URI, r.Size = "", 0
		k, public = templates, template{name, r}
	}
	s.addItem(k, where, warnings, &item{
		name:    name,
		encoded: encodeItem(where, public, invalid),
		match:   func(uri string) (map[string]string, bool) { return matchTemplate(prefix, vars, uri) },
		run: func(ctx context.Context, q *request) ([]byte, error) {
			contents, err := read(ctx, q.name, q.vars)
			if err != nil {
				return nil, err
			}
			return q.sendable(q.readResponse(contents, r.MIMEType))
		},
		complete: maps.Clone(r.Complete),
	})
}

// RemoveResources removes the resources and templates of these URIs and notifies connected
// clients. URIs that do not exist are ignored.
func (s *Server) RemoveResources(uris ...string) {
	s.removeItems(resources, uris)
	s.removeItems(templates, uris)
}

// ResourceUpdated notifies the clients that have subscribed to the resource that it has
// changed. It does not wait for them.
func (s *Server) ResourceUpdated(uri string) { s.notify(topic{uri: uri}) }

// panicUnless panics unless ok is true.
func panicUnless(ok bool, where, format string, args ...any) {
	if !ok {
		panic(fmt.Sprintf("%s: %s", where, fmt.Sprintf(format, args...)))
	}
}

// leaveOut is deferred by what adds an item, and panics if that is invalid. Once the Server has served, a panic would end a
// program that runs, and in which only this item is wrong: then leaveOut reports it, and removes what had its name.
func (s *Server) leaveOut(where string, remove func(names ...string), name string) {
	s.mu.Lock()
	hasServed := s.sessions != nil
	s.mu.Unlock()
	if !hasServed {
		return
	}
	if why := recover(); why != nil {
		remove(name)
		text := fmt.Sprint(why)
		if !strings.HasPrefix(text, where) { // it is of the user's code
			text = where + ": " + text
		}
		s.report("%.1000s: it is left out", text)
	}
}

// encodeItem returns a Tool, Resource, template or Prompt as JSON, as it is listed. It panics if it is invalid, so that
// clients would drop the list, or if its Meta cannot be encoded.
func encodeItem(where string, public any, invalid error) []byte {
	panicUnless(invalid == nil, where, "%v", invalid)
	raw, err := marshal(public)
	panicUnless(err == nil, where, "Meta: %v", err)
	return raw
}

// A variable is a variable of a URI template and the text that follows it.
type variable struct {
	name     string
	reserved bool // {+name}, which may have slashes
	after    string
}

// parseTemplate splits a URI template into the text before the first variable and the
// variables. A URI without variables is all text.
func parseTemplate(uri string) (prefix string, vars []variable, err error) {
	parts := strings.Split(uri, "{")
	for _, part := range parts[1:] { // a variable, and what follows it
		inside, after, closed := strings.Cut(part, "}")
		name, reserved := strings.CutPrefix(inside, "+")
		if !closed || !consistsOf(name, alphanumeric+"_") {
			return "", nil, errors.New("a variable is written {name} or {+name}")
		}
		vars = append(vars, variable{name, reserved, after})
	}
	return parts[0], vars, nil
}

// alphanumeric holds the letters and digits of ASCII.
const alphanumeric = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

// consistsOf reports whether s is not empty, and has only characters of allowed.
func consistsOf(s, allowed string) bool {
	return s != "" && strings.Trim(s, allowed) == ""
}

// hasDotSegment reports whether a segment of a URI, or of a part of one, is "." or "..". Segments end
// at slashes, at other characters that a program may treat as a slash, and at colons: one follows a
// scheme, and on Windows the letter of a drive.
func hasDotSegment(uri string) bool {
	segments := strings.FieldsFunc(uri, func(r rune) bool { return strings.ContainsRune(`:/\?#`, r) })
	return slices.Contains(segments, ".") || slices.Contains(segments, "..")
}

// matchTemplate reports whether uri matches a template, and returns the values of the
// variables. From left to right, {name} takes the shortest value that the text after it
// allows, and {+name} and the last variable take the longest.
func matchTemplate(prefix string, vars []variable, uri string) (map[string]string, bool) {
	rest, ok := strings.CutPrefix(uri, prefix)
	if !ok {
		return nil, false
	}
	values := make(map[string]string, len(vars))
	for i, v := range vars {
		find := strings.Index // the end of the shortest value
		if i == len(vars)-1 || v.reserved {
			find = strings.LastIndex // of the longest
		}
		end := find(rest, v.after)
		if end <= 0 || !v.reserved && strings.ContainsAny(rest[:end], "/?#") {
			return nil, false
		}
		value, ok := unescape(rest[:end])
		// A handler may put the value into a path, which must not leave the directory. A backslash is
		// a separator on Windows, and a zero byte ends a name in C.
		isConfined := utf8.ValidString(value) && !strings.Contains(value, "\x00") &&
			(v.reserved || !strings.ContainsAny(value, `/\`)) && !hasDotSegment(value)
		if earlier, twice := values[v.name]; !ok || !isConfined || twice && value != earlier {
			return nil, false
		}
		values[v.name] = value
		rest = rest[end+len(v.after):]
	}
	// A value that is harmless by itself may form a ".." with the text next to it, so the
	// whole URI is checked too.
	decoded, ok := unescape(uri)
	return values, ok && rest == "" && !hasDotSegment(decoded)
}

// unescape decodes the escapes of a part of a URI. It reports false if an escape is incomplete.
func unescape(s string) (string, bool) {
	parts := strings.Split(s, "%")
	decoded := []byte(parts[0])
	for _, part := range parts[1:] { // two digits, and what follows them
		code, err := strconv.ParseUint(part[:min(2, len(part))], 16, 8)
		if err != nil || len(part) < 2 {
			return "", false
		}
		decoded = append(append(decoded, byte(code)), part[2:]...)
	}
	return string(decoded), true
}

// ---- prompts ----
//
// The arguments of a prompt are strings that a user has typed. They have no schema that is sent,
// but are checked like those of a tool.

// AddPrompt adds a prompt, or replaces the prompt of the same name, and notifies connected
// clients. It panics, before it changes anything, if a name is missing, if two
// arguments have the same name, if another field is invalid, or if get is nil. Once the Server has served, an invalid
// prompt is treated as AddResource treats a resource, and before, so is a prompt that replaces another.
func (s *Server) AddPrompt(p Prompt, get PromptFunc) {
	where := fmt.Sprintf("mcp: prompt %q", p.Name)
	defer s.leaveOut(where, s.RemovePrompts, p.Name)
	panicUnless(p.Name != "", where, "a prompt needs a name")
	panicUnless(get != nil, where, "the PromptFunc is nil")
	complete := make(map[string]CompleteFunc)
	// An unknown argument is refused, so that a PromptFunc need not look for it.
	listed := &schema{types: []string{"object"}, jsonType: "object", ignored: ignoredArgument}
	in := &rules{readBy: []*schema{listed}, setBy: anything} // a map[string]string takes what listed allows
	for _, a := range p.Arguments {
		panicUnless(a.Name != "" && listed.property(a.Name) == nil, where, "an argument needs a unique name")
		listed.fields = append(listed.fields, &field{name: a.Name, optional: !a.Required, schema: &schema{types: []string{"string"}, jsonType: "string"}})
		if a.Complete != nil {
			complete[a.Name] = a.Complete
		}
	}
	s.addItem(prompts, where, nil, &item{
		name:    p.Name,
		encoded: encodeItem(where, p, checkIcons(p.Icons)),
		run: func(ctx context.Context, r *request) ([]byte, error) {
			var args map[string]string
			if err := in.unmarshal(r.arguments, &args, fromCall); err != nil {
				return nil, coded(codeParams, "Invalid arguments: "+err.Error())
			}
			messages, err := get(ctx, args)
			if err != nil {
				return nil, err
			}
			return r.sendable(r.promptResponse(messages, p.Description))
		},
		complete: complete,
	})
}

// RemovePrompts removes the prompts of these names and notifies connected clients. Names that
// do not exist are ignored.
func (s *Server) RemovePrompts(names ...string) { s.removeItems(prompts, names) }

// ---- what clients check ----
//
// Clients drop a whole list or a whole result if a part of it is not as the schema of the protocol
// says: a role, a theme, a URI. These functions check such parts, when something is added and in
// each result. What clients take as any text, such as the Src of an icon, is not checked.

// checkRole returns an error unless the protocol has each of the roles.
func checkRole(roles ...Role) error {
	for _, r := range roles {
		if r != RoleUser && r != RoleAssistant {
			return fmt.Errorf("a role, or an audience, must be user or assistant, got %q", r)
		}
	}
	return nil
}

func checkAnnotations(a Annotations) error {
	if !(0 <= a.Priority && a.Priority <= 1) { // NaN is neither
		return fmt.Errorf("annotations.priority must be from 0 to 1, got %v", a.Priority)
	}
	if year := a.LastModified.Year(); year < 0 || year > 9999 {
		return fmt.Errorf("annotations.lastModified must have a year of four digits, got %d", year)
	}
	return checkRole(a.Audience...)
}

func checkIcons(icons []Icon) error {
	for _, icon := range icons {
		if icon.Theme != "" && icon.Theme != "light" && icon.Theme != "dark" {
			return fmt.Errorf("icons: theme must be light or dark, got %q", icon.Theme)
		}
	}
	return nil
}

// checkTemplate is checkURI for a template as parseTemplate returns it. It also returns an error
// if no URI can match it.
func checkTemplate(prefix string, vars []variable) error {
	sample := prefix
	for i, v := range vars {
		if v.after == "" && i < len(vars)-1 {
			return errors.New("no URI matches {" + v.name + "}, because the next variable follows it without a text between them")
		}
		sample += "0" + v.after // a digit may be in each part of a URI, also in a port
	}
	if decoded, _ := unescape(sample); len(vars) > 0 && hasDotSegment(decoded) {
		return errors.New(`no URI matches, because a segment is "." or ".."`)
	}
	return checkURI(sample)
}

// checkURI returns an error that says what is wrong with uri, unless it is a URI by RFC 3986. Clients
// in Python drop a list or a result if one URI in it has an invalid host or port.
func checkURI(uri string) error {
	scheme, rest, found := strings.Cut(uri, ":")
	authority := ""
	if after, ok := strings.CutPrefix(rest, "//"); ok {
		authority = after[:strings.IndexAny(after+"/", "/?#")]
	}
	// The first character that must be escaped, and what follows it.
	outside := strings.TrimLeftFunc(uri, func(r rune) bool {
		// RFC 3986 has letters of ASCII only, and brackets in a host only, but no client refuses
		// others. AddResource reports such letters.
		return r >= utf8.RuneSelf && r != utf8.RuneError || strings.ContainsRune(alphanumeric+"-._~:/?#[]@!$&'()*+,;=%", r)
	})
	_, escaped := unescape(uri)
	switch {
	case !found || !consistsOf(scheme, alphanumeric+"+-.") || scheme[0] <= '9': // it begins with a letter, and only those are above '9'
		return errors.New(`a URI must begin with a scheme, such as "file:"`)
	case outside != "":
		return fmt.Errorf("a URI must not have %.1q: escape it, as package net/url does", outside)
	case !escaped:
		return errors.New("in a URI, two hexadecimal digits must follow each %")
	case !isAuthority(authority):
		return fmt.Errorf(`%q is not a host with or without a port, which a URI has after "//"`, excerpt(authority))
	}
	return nil
}

// isAuthority reports whether s is empty, or a host, perhaps after a user and an @, and before a
// colon and a port: "me@host:80", "[::1]:80". "me@" and "a:b:80" are none.
func isAuthority(s string) bool {
	host, port := s[strings.LastIndex(s, "@")+1:], ""
	// The address of IPv6 in brackets has colons, too.
	if colon := strings.LastIndex(host, ":"); colon > strings.LastIndex(host, "]") {
		host, port = host[:colon], host[colon+1:]
	}
	if _, err := strconv.ParseUint(cmp.Or(port, "0"), 10, 16); err != nil {
		return false
	}
	if address, ok := strings.CutPrefix(host, "["); ok {
		address, closed := strings.CutSuffix(address, "]")
		return closed && strings.Contains(address, ":") && strings.Trim(address, "0123456789abcdefABCDEF:.") == ""
	}
	return !strings.ContainsAny(s, "[]") && !strings.Contains(host, ":") && (host != "" || s == "")
}

// ---- what a server offers ----
//
// Tools, prompts, resources and templates are items of four kinds. They are found
// by their names, and listed in the order in which they were added. Server.mu guards
// the lists and the order. It is not held while users' code runs.

// A kind is one of the kinds of items that a server offers and lists, or what else it may declare.
type kind uint8

const (
	tools kind = iota
	prompts
	resources
	templates   // part of resources, with a list of their own
	completions // this and the next two have no items
	logging
	tasks  // an extension
	always // not declared: the kind of methods that every server serves
)

// listCount is the number of kinds that have a list: those before it.
const listCount = templates + 1

// A kindSet holds, for each kind but always, whether it is in the set.
type kindSet [always]bool

// kindNames holds, for each kind, the member of a list result that holds the list.
var kindNames = [listCount]string{"tools", "prompts", "resources", "resourceTemplates"}

// declaredAs holds, for each kind but always, the kind under which it and its changes are declared.
var declaredAs = [always]kind{tools, prompts, resources, resources, completions, logging, tasks}

// changeNotification returns the name of the notification that the list of k has changed, without
// "notifications/".
func (k kind) changeNotification() string { return kindNames[declaredAs[k]] + "/list_changed" }

// An item is a tool, a prompt, a resource or a template of a server. It is found by its name,
// which for a resource is the URI.
type item struct {
	name    string
	encoded []byte        // as an element of a list
	place   *list.Element // in itemList.inOrder

	match func(uri string) (vars map[string]string, ok bool) // is called for templates
	run   responder

	tool        Tool                    // of a tool: as it was added, with its schemas; zero for other items
	reportPanic sync.Once               // of a tool: of its Enabled
	in          *rules                  // of a tool: for its arguments
	out         *schema                 // of a tool: of the Go type of its results
	output      *schema                 // of a tool: the output schema, or nil
	needsObject bool                    // of a tool: it has an output schema, which is that of an object
	complete    map[string]CompleteFunc // of the arguments of a prompt, and the variables of a template
}

// An itemList holds the items of one kind. Adding, replacing and removing an item is cheap,
// however many there are.
type itemList struct {
	byName  map[string]*item
	similar map[string]string // the name that was added last, by foldName
	inOrder list.List         // an item that replaces another takes its place
	copied  []*item           // inOrder as a slice; nil after an item was added, replaced or removed
	changes int               // how often the list that clients see has changed
}

// jsonOf returns v as JSON, or nil if v is zero.
func jsonOf(v any) ([]byte, error) {
	if reflect.ValueOf(v).IsZero() {
		return nil, nil
	}
	return marshal(v)
}

// foldName returns the name of a tool without what differs between names that some hosts do not tell apart: case, and
// the signs - . and _.
func foldName(name string) string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune("-._", r) {
			return -1
		}
		return r | ('a' - 'A') // the bit by which small letters differ from capital ones, and which digits have
	}, name)
}

// addItem adds an item, or replaces the item of the same name. In one line it reports the first of the warnings about it,
// the given ones and its own, and how many more there are. The parameter where names the item.
//
// It notifies the clients only if the list has changed. Otherwise a program that adds its tools again each time that a
// client lists them, and a client that lists them each time that it is notified, would go on forever. Whether a tool
// with Enabled has changed is not known here. A kind stays declared once an item of it was
// added, because clients ask for the capabilities only once.
func (s *Server) addItem(k kind, where string, warnings []string, it *item) {
	s.mu.Lock()
	l := &s.lists[k]
	if l.byName == nil {
		l.byName, l.similar = make(map[string]*item), make(map[string]string)
	}
	old, replaces := l.byName[it.name]
	if replaces {
		it.place = old.place
		it.place.Value = it
	} else {
		old = new(item) // no earlier item: this one has no list entry
		it.place = l.inOrder.PushBack(it)
	}
	l.byName[it.name], l.copied = it, nil
	folded := foldName(it.name)
	if other := l.similar[folded]; k == tools && other != it.name && l.byName[other] != nil {
		warnings = append(warnings, fmt.Sprintf("%s: some hosts do not tell its name from %q", where, other))
	}
	l.similar[folded] = it.name
	changed := !bytes.Equal(it.encoded, old.encoded) || it.tool.Enabled != nil || old.tool.Enabled != nil
	if changed {
		l.changes++
	}
	s.offered[declaredAs[k]] = true
	s.offered[completions] = s.offered[completions] || len(it.complete) > 0
	s.offered[tasks] = s.offered[tasks] || it.tool.TaskAfter > 0
	if replaces && s.sessions == nil { // later it is a change, and no mistake
		warnings = append(warnings, where+" was added twice: the second replaces the first")
	}
	s.mu.Unlock()
	if n := len(warnings); n > 0 { // in one line of at most 200 bytes, because a server may have many tools
		line := bytes.ToValidUTF8([]byte(warnings[0][:min(len(warnings[0]), 180)]), nil)
		if n > 1 {
			line = fmt.Appendf(line, " (and %d more)", n-1)
		}
		s.report("%s", line)
	}
	if changed {
		s.notify(topic{list: k.changeNotification()})
	}
}

// removeItems removes the items of these names, and notifies the clients if a list has changed.
func (s *Server) removeItems(k kind, names []string) {
	changed := false
	s.mu.Lock()
	l := &s.lists[k]
	for _, name := range names {
		if it := l.byName[name]; it != nil {
			delete(l.byName, name)
			if folded := foldName(name); l.similar[folded] == name {
				delete(l.similar, folded)
			}
			l.inOrder.Remove(it.place)
			l.copied = nil
			changed = true
		}
	}
	if changed {
		l.changes++
	}
	s.mu.Unlock()
	if changed {
		s.notify(topic{list: k.changeNotification()})
	}
}

// maxMatched bounds the bytes of a URI that is matched with templates, because that costs its length
// for each template.
const maxMatched = 64 << 10

// findItem returns the item of a name, or nil. If no resource has the name, findItem returns the first
// template that matches it, and the values of its variables.
func (s *Server) findItem(k kind, name string) (*item, map[string]string) {
	s.mu.Lock()
	it := s.lists[k].byName[name]
	s.mu.Unlock()
	if it == nil && declaredAs[k] == resources && len(name) <= maxMatched {
		all, _ := s.listInOrder(templates)
		for _, it := range all {
			if vars, ok := it.match(name); ok {
				return it, vars
			}
		}
	}
	return it, nil
}

// listInOrder returns the items of a kind in the order in which they were added, and how often
// the list that clients see has changed. A list that it has returned never changes: after a
// change it makes a new one.
func (s *Server) listInOrder(k kind) (items []*item, changes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := &s.lists[k]
	if l.copied == nil {
		for e := l.inOrder.Front(); e != nil; e = e.Next() {
			l.copied = append(l.copied, e.Value.(*item))
		}
	}
	return l.copied, l.changes
}

// offeredKinds returns the kinds that are declared.
func (s *Server) offeredKinds() kindSet {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.offered
}

// maxShown is how many characters of a description, or of Server.Instructions, Claude Code shows a model.
const maxShown = 2048

// addSession adds c to the sessions that are notified of changes.
func (s *Server) addSession(c *session) {
	s.mu.Lock()
	isFirst := s.sessions == nil
	if isFirst {
		s.sessions, s.seed = make(map[*session]struct{}), maphash.MakeSeed()
	}
	s.sessions[c] = struct{}{}
	s.mu.Unlock()
	if n := utf8.RuneCountInString(s.Instructions); isFirst && n > maxShown {
		s.report("mcp: Server.Instructions has %d characters: Claude Code shows the model the first 2,048", n)
	}
}

// removeSession removes c from the sessions that are notified of changes.
func (s *Server) removeSession(c *session) {
	s.mu.Lock()
	delete(s.sessions, c)
	s.mu.Unlock()
}

// notify notifies the clients that watch it of a change. It uses a copy of the sessions without the
// lock, because session.mu is acquired before Server.mu.
func (s *Server) notify(what topic) {
	s.mu.Lock()
	sessions := slices.Collect(maps.Keys(s.sessions))
	s.mu.Unlock()
	for _, c := range sessions {
		c.sendChange(what)
	}
}

// maxReports is how many reports wait until a session prints them.
const maxReports = 1000

// report reports to ErrorLog. It does not block: if ErrorLog is not as fast as the reports, because
// stderr is not read, or because a client sends invalid messages without end, reports are dropped.
func (s *Server) report(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.reports) >= maxReports {
		s.dropped++
		s.reports = s.reports[:maxReports] // without the number of those that were dropped before
		text = fmt.Sprintf("mcp: %d more reports were dropped", s.dropped)
	}
	s.reports = append(s.reports, text)
	for c := range s.sessions {
		select {
		case c.hasReports <- struct{}{}:
		default: // the session has not looked since the last report
		}
	}
}

// takeReports returns the reports that wait, and removes them.
func (s *Server) takeReports() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	taken := s.reports
	s.reports, s.dropped = nil, 0
	return taken
}

// ---- methods of extensions ----

// AddMethod adds a method of an extension, or replaces the one of the same name. Declare the
// extension in [Server.Extensions]. Clients of every revision may call it, a client of an older
// revision only after initialize. The handler gets the params as the client sent them, an object
// or nil. Its result is sent as the JSON object that it marshals to, and nil as {}. A resultType
// in it is dropped: that member belongs to the protocol, and is added in revision 2026-07-28.
//
// An error of h is sent as an error response: an [*Error] as it is, any other with the code
// -32603. Handlers may use [Progress] and log. They may ask a client of an older revision, as
// [Elicit] does; in 2026-07-28 the error is [errors.ErrUnsupported].
//
// AddMethod may be called at any time. It panics if the name is empty, is one of the protocol's own or
// begins with "notifications/", or if h is nil. The methods of the extension for tasks count as the
// protocol's. Before the first session it reports a method that replaces another.
func (s *Server) AddMethod(name string, h func(ctx context.Context, params json.RawMessage) (any, error)) {
	where := fmt.Sprintf("mcp: method %q", name)
	panicUnless(name != "" && services[name] == nil && askFunctions[name] == "" && !strings.HasPrefix(name, "notifications/"),
		where, "the name is empty, or is reserved for the protocol")
	panicUnless(h != nil, where, "the handler is nil")
	run := func(ctx context.Context, r *request) ([]byte, error) {
		result, err := h(ctx, slices.Clip(r.params)) // which h may append to
		if err != nil {
			return nil, err
		}
		return r.sendable(r.methodResponse(result))
	}
	s.mu.Lock()
	if s.methods == nil {
		s.methods = make(map[string]*service)
	}
	isMistake := s.methods[name] != nil && s.sessions == nil
	s.methods[name] = &service{kind: always, serve: func(*request) ([]byte, responder) { return nil, run }}
	s.mu.Unlock()
	if isMistake {
		s.report("%s was added twice: the second replaces the first", where)
	}
}

// findMethod returns the service of a method, or unknownMethod.
func (s *Server) findMethod(name string) *service {
	s.mu.Lock()
	defer s.mu.Unlock()
	return cmp.Or(services[name], s.methods[name], unknownMethod)
}

// ---- functions for handlers ----

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
	name, version, _ := parseClientInfo(r.client)
	return Request{
		Method: string(r.method), Name: r.name, ID: slices.Clip(r.id), ProtocolVersion: r.rev.String(),
		ClientName: name, ClientVersion: version,
		Capabilities: slices.Clip(r.caps), Arguments: slices.Clip(r.arguments), Meta: slices.Clip(r.meta),
	}
}

// requestKey is the key of the request in a handler's context.
type requestKey struct{}

// noRequest stands for the request in a context that is not a handler's. It has no client, and its
// revision is 0.
var noRequest = new(request)

// requestOf returns the request that is served under ctx, or noRequest.
func requestOf(ctx context.Context) *request {
	r, _ := ctx.Value(requestKey{}).(*request)
	return cmp.Or(r, noRequest)
}

// Progress reports to the client how far a handler has come: done, in any unit, of total. A
// total of 0 means that it is not known. The message is for people and may be empty.
//
// Some hosts give up on a call after a minute, and some of these wait longer if it reports progress
// every few seconds.
//
// If the call has become a task, as [Tool.TaskAfter] says, the message is the status of the task, of which
// the client reads the last one, at most 1 KiB of it. An empty message does not change it, and Progress does
// not block.
//
// Otherwise Progress does nothing if the client did not ask for progress, if done is not more than the
// last time, if the handler has returned, if the request has ended, or if ctx is not a handler's.
// It blocks until the notification is written or the request ends. It may be called concurrently.
// The response to a request that has reported progress is sent 2 ms after the handler has
// returned, because some clients lose progress that they read together with the response.
//
// See https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/progress.
func Progress(ctx context.Context, done, total float64, message string) {
	r := requestOf(ctx)
	if message != "" && r != noRequest {
		r.setTaskMessage(message)
	}
	if r.token == nil || math.IsNaN(done) || math.IsInf(done, 0) {
		return
	}
	b := join(nil, `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":`, string(r.token), `,`)
	b = rawMember(b, "progress", strconv.AppendFloat(nil, done, 'f', -1, 64))
	if total > 0 && !math.IsInf(total, 0) {
		b = rawMember(b, "total", strconv.AppendFloat(nil, total, 'f', -1, 64))
	}
	b = optionalMember(b, "message", message)
	r.session.sendNotification(r, closeWith(b, `}}`), func() bool {
		if r.progressEnded || r.sentProgress && done <= r.progress {
			return false
		}
		r.sentProgress, r.progress = true, done
		return true
	})
}

// LogHandler returns a handler for package log/slog that sends log messages to the client, and
// declares the capability logging. The name is that of the logger, and may be empty:
//
//	logger := slog.New(s.LogHandler("db"))
//
// A record is sent only if it has the context of a request's handler, so call InfoContext and not
// Info, and only if the client has asked for its level: with logging/setLevel or, in revision
// 2026-07-28, with a logLevel in the _meta of the request. Any other record is silently dropped,
// and so is one that is logged after the handler has returned or its context has ended. So do not
// pass a LogHandler alone to [slog.SetDefault]: that would also drop what package log and this
// library report. Combine it with a handler for stderr, as [slog.NewMultiHandler] of Go 1.26
// does.
//
// Call LogHandler before the Server serves. If a session of an older revision began before the first
// LogHandler, its client gets no log messages, because logging was not declared to it.
//
// A message without attributes is sent as a string, because some clients accept no other data.
// Any other is an object, as [slog.JSONHandler] writes it without time and level: the message as
// "msg", and the attributes. The levels are slog's, and those of the protocol
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
	return r != noRequest && levelOf(level) >= r.session.logLevel(r)
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
	var text bytes.Buffer
	record.Time = time.Time{} // so it is not written
	// It returns only the error of a Write, and a Buffer has none.
	_ = h.with(slog.NewJSONHandler(&text, nil)).Handle(ctx, record)
	// The level, the first member, is cut off.
	_, rest, _ := bytes.Cut(bytes.TrimSpace(text.Bytes()), []byte(","))
	data := join(nil, "{", string(rest))
	// A message alone is sent as a string: clients of the Java SDK accept no other data. So is a
	// message with attributes that are not JSON, as slog writes the year 10000 before Go 1.27.
	if !json.Valid(data) || len(data) == len(`{"msg":}`)+len(member(data, slog.MessageKey)) {
		data = appendString(nil, record.Message)
	}
	b := join(nil, `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"`, logLevels[levelOf(record.Level)], `",`)
	b = rawMember(optionalMember(b, "logger", h.name), "data", cleanJSON(data))
	r := requestOf(ctx)
	r.session.sendNotification(r, closeWith(b, `}}`), func() bool { return true })
	return nil
}

// logLevels holds the levels of log messages, in order.
var logLevels = [...]string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

// levelOf returns the index in logLevels of a level of slog.
func levelOf(level slog.Level) int {
	ends := []slog.Level{slog.LevelInfo, 2, slog.LevelWarn, slog.LevelError, 12, 16, 20} // of each but the last
	n := 0
	for n < len(ends) && level >= ends[n] {
		n++
	}
	return n
}

// ---- asking the user ----

// ErrInputRequired is the error of a question that the client has not answered yet. Return it
// from the handler, alone, wrapped or joined with others; the question is then sent. Only code
// around a handler needs to test for it, to distinguish a question from a failure.
var ErrInputRequired = errors.New("mcp: the client has to answer a question first")

// ErrDeclined is an error of [Confirm], [Elicit], [ElicitSchema] and [ElicitURL]: the user declined.
// A model reads its text.
var ErrDeclined = errors.New("the user declined")

// ErrDismissed is an error of [Confirm], [Elicit], [ElicitSchema] and [ElicitURL]: the user closed the
// question without an answer. A model reads its text.
var ErrDismissed = errors.New("the user dismissed the question")

// Confirm asks the user to agree to message, as in "Delete a.txt?". It returns nil only if the
// user ticked a box and accepted. If it returns an error, return that error from the handler.
//
// The error is [ErrDeclined] if the user declined, or accepted without the tick, [ErrDismissed]
// if the user closed the question, and [errors.ErrUnsupported] if the client cannot ask. In
// revision 2026-07-28 the handler runs again when the user has answered, as "Asking the user" in
// the package comment says, so do what is to be confirmed after Confirm.
//
// The form has one boolean, confirm. A form without fields would not be consent, because some hosts
// accept it without asking. The default is false, because some hosts preselect true.
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
// have an enum. The rules and tags are those of [SchemaOf]. For titles of the values of an enum,
// write the form by hand and use [ElicitSchema].
//
// The message says what the form is for. It must not ask for secrets.
//
// Elicit returns what the user filled in. If that is invalid, the error says why: return it, or call
// Elicit again. The error is [ErrDeclined] or [ErrDismissed] if the user refused, and
// [errors.ErrUnsupported] if the client cannot be asked. Elicit panics if T cannot be a form: a
// test that calls the handler without a client finds that.
//
// "Asking the user" in the package comment says when Elicit blocks, and which answer belongs to
// which question.
//
// See https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation.
func Elicit[T any](ctx context.Context, message string) (T, error) {
	var form T
	typed, d := derive(reflect.TypeFor[T](), "mcp: Elicit", forArguments)
	panicUnless(typed.isStruct(), "mcp: Elicit", "a form is a struct, not a %v", typed.typ)
	// The schema of a form has no keyword additionalProperties. What the client adds is ignored when fields are
	// set, but a name that differs from that of a field only in case is refused.
	text := d.render(typed, ", or use ElicitSchema")
	text = closeWith(copyMembersExcept([]byte("{"), text, "additionalProperties"), "}")
	p := schemaParser{why: forArguments, isDerived: true}
	listed := p.parse(text, "mcp: Elicit", typed)
	rev := requestOf(ctx).rev
	for _, f := range typed.fields {
		s := listed.part([]byte(f.name)) // anything if a list is nested so deeply that the form was cut
		isChoice := s.jsonType == "array" && s.items != nil && s.items.jsonType == "string" && s.items.enum != nil
		isScalar := s.jsonType != "" && s.jsonType != "array" && s.jsonType != "object" && s.encoding == ""
		panicUnless(isChoice || isScalar, "mcp: Elicit: "+f.name, "a form has strings, numbers, booleans and choices")
		if isChoice && rev.knows(featureForms) && !rev.knows(featureChoices) { // without forms, request.ask says so
			return form, fmt.Errorf("mcp: Elicit: a choice of several: %w in revision %v", errors.ErrUnsupported, rev)
		}
	}
	content, err := ElicitSchema(ctx, message, text)
	if err != nil {
		return form, err
	}
	if err := (&rules{readBy: []*schema{listed, typed}, setBy: typed}).unmarshal(content, &form, fromForm); err != nil {
		return *new(T), fmt.Errorf("mcp: the user's answer: %w", err)
	}
	return form, nil
}

// ElicitSchema is [Elicit] with a form that is described by hand. If it returns an error, return
// that error from the handler. Otherwise it returns what the user filled in, unchecked: an
// object, which may be empty.
func ElicitSchema(ctx context.Context, message string, schema json.RawMessage) (json.RawMessage, error) {
	form, err := compactJSON(schema)
	if err == nil && form[0] != '{' {
		err = errors.New("the schema must be a JSON object")
	}
	if err != nil {
		return nil, fmt.Errorf("mcp: ElicitSchema: %w", err)
	}
	capability := "elicitation"
	// "elicitation":{} means forms. A client that names modes must name this one too: {"url":{}} means no forms.
	if hasCapability(requestOf(ctx).caps, "elicitation.url") {
		capability = "elicitation.form"
	}
	b := stringMember([]byte(`{"mode":"form",`), "message", message)
	return elicit(ctx, featureForms, capability, rawMember(b, "requestedSchema", form))
}

// ElicitURL asks the user to visit a page, for example to log in. It returns nil when
// the user agrees, which does not mean that the user has visited the page yet. If it returns an
// error, return that error from the handler; it is one of those of [Elicit], or says that the URL
// is invalid.
func ElicitURL(ctx context.Context, message, url string) error {
	if err := checkURI(url); err != nil {
		return fmt.Errorf("mcp: ElicitURL: %q: %w", excerpt(url), err)
	}
	b := stringMember(stringMember([]byte(`{"mode":"url",`), "message", message), "url", url)
	if requestOf(ctx).rev.hasElicitationID() {
		b = stringMember(b, "elicitationId", strconv.FormatUint(rand.Uint64(), 36))
	}
	_, err := elicit(ctx, featureURLs, "elicitation.url", b)
	return err
}

// Ask sends a request to the client and returns its result, which is not checked. The params are
// nil, sent as {}, or a value that marshals to a JSON object. If Ask returns an error, return
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
	capability := "" // that of an extension is not known here
	switch v := requestOf(ctx).rev; {
	case method == "elicitation/create":
		return nil, fmt.Errorf("mcp: Ask cannot send %q, use Elicit: %w", method, errors.ErrUnsupported)
	case method == "roots/list":
		capability = "roots"
	case method == "sampling/createMessage" && member(raw, "tools") != nil:
		capability = "sampling.tools"
	case method == "sampling/createMessage":
		capability = "sampling"
	case v.modern():
		return nil, fmt.Errorf("mcp: %q cannot be asked in revision %v: %w", method, v, errors.ErrUnsupported)
	}
	return requestOf(ctx).ask(ctx, rev2024_11_05, capability, method, string(raw))
}

// elicit sends the question of ElicitSchema or ElicitURL and returns the content of an
// answer that accepts it.
func elicit(ctx context.Context, need revision, capability string, params []byte) (json.RawMessage, error) {
	answer, err := requestOf(ctx).ask(ctx, need, capability, "elicitation/create", string(closeWith(params, "}")))
	if err != nil {
		return nil, err
	}
	// Not json.Unmarshal, for which "Action" is "action": a decline must not become consent.
	rawAction, content := member(answer, "action"), member(answer, "content")
	times := make(map[string]int) // that each name comes
	for name := range members(answer) {
		times[string(name)]++
	}
	switch action, _ := unquote(rawAction); {
	case max(times["action"], times["content"]) > 1:
		err = errors.New("action or content came twice")
	case action == "decline":
		return nil, ErrDeclined
	case action == "cancel":
		return nil, ErrDismissed
	case action != "accept":
		err = errors.New("action must be accept, decline or cancel, got " + excerpt(cmp.Or(string(rawAction), "none")))
	case len(content) == 0 || string(content) == "null": // a form without fields
		content = []byte("{}")
	case content[0] != '{' && capability != "elicitation.url":
		err = errors.New("content must be an object, got " + excerpt(string(content)))
	}
	if err != nil {
		return nil, fmt.Errorf("mcp: elicitation/create: the client's answer is invalid: %w", err)
	}
	return content, nil
}

// hasCapability reports whether a client has declared a capability.
func hasCapability(caps []byte, capability string) bool {
	for _, name := range strings.Split(capability, ".") {
		caps = member(caps, name) // nil if caps is not an object
	}
	return len(caps) > 0 && caps[0] == '{'
}

// ---- schemas from types ----
//
// derive walks over a type and describes it by a schema, which holds what the tags say too. Its
// JSON form is rendered from that, arguments are checked and set as it says, and marshal uses it to replace
// the nulls that encoding/json writes. A part that cannot be described has a schema without a JSON type, and
// is left to encoding/json.

// SchemaOf returns the JSON Schema that [AddTool] derives from T for a result. Use it for
// [Tool.OutputSchema], or to look at a schema in a test. The schema for arguments is the same, unless
// a type has a method for JSON or text in one direction only, or a field cannot be set.
//
// Fields are named and embedded structs are flattened as encoding/json does. A field is
// required unless it is a pointer, has omitempty, omitzero or a default, or belongs to an
// embedded pointer. Tags say more about a field:
//
//	jsonschema:"text"            its description, and nothing else: "required, ..." or "word=..." panics
//	enum:"a,b"                   the strings that it, or each of its elements, may be
//	default:"x"                  its value if a call leaves it out: a string as it is, other values as JSON
//	minimum:"0" maximum:"9"      the range of a number, within that of its Go type
//	minLength:"1" maxLength:"9"  the number of characters of a string
//	minItems:"1" maxItems:"9"    the number of elements of a list
//	format:"date"                the format of a string: date or date-time, which are checked, or
//	                             email or uri, which only tell the model
//
// Tags with the names of other keywords, such as pattern, or in another spelling, such as minlength,
// have no effect; [AddTool] reports them to [Server.ErrorLog]. Some hosts show a model the type and
// the description and drop the rest, so repeat defaults and bounds in the description, as in "how
// many, 1 to 100, default 10".
//
// A time.Time is a string as in RFC 3339, and a []byte is a string in base64, as its description
// says. An argument whose type has UnmarshalText, and a result whose type has MarshalText, is a
// string. A map[string]any is an object that is not checked. A time.Duration is an integer, the
// number of nanoseconds: models mistake it for seconds, so write a string or an int with the unit
// in its name. Hosts check structured output against enums and bounds, and this library does not. So do
// not put an enum on a field of a result whose values come from another API.
//
// Defaults apply only inside objects that are present. An optional struct with default:"{}" is present if
// a call leaves it out, so its fields have their defaults; with omitempty alone they are zero.
//
// A nested object has the schema of a map[string]any if its type contains itself, if the whole would
// exceed ten levels, which some providers refuse, or after 32 KiB of schema. Inside it only the Go
// types are checked. Tags have no effect there, so defaults are not filled in. A null
// becomes the zero value there, except in a map, where it is refused unless the Go value can hold it.
//
// A type whose JSON form is its own, because it has UnmarshalJSON for arguments or MarshalJSON for
// results, describes that form with a method JSONSchema() json.RawMessage. It returns a schema by
// hand without $ref, and is called with a zero value when the type is described. UnmarshalJSON then
// receives what the schema allows, after conversions, and may be called several times for one value. Of
// the tags, such a type takes jsonschema and default. A type without these methods may have JSONSchema too,
// unless it embeds a type that has it; arguments of that type are checked by the Go type as well. In a result, an
// element of a map has no address, so methods of the pointer do not count there: use a map of pointers.
//
// SchemaOf panics if T cannot be described, as is the case with arrays, with lists of nothing but
// themselves, with types that have a JSON form of their own without JSONSchema, and with interfaces
// except in a map[string]any.
func SchemaOf[T any]() json.RawMessage {
	s, d := derive(reflect.TypeFor[T](), "mcp: SchemaOf", forResults)
	text := d.render(s, "")
	(&schemaParser{why: forResults}).parse(text, "mcp: SchemaOf", anything)
	return text
}

// A schema says what a JSON value must be. Values are read in one way by two kinds of it:
//
//	listed   what clients see, parsed: of arguments, of answers to forms, and of results; and schemaOfSchemas
//	typed    made by derive: what encoding/json reads into a Go type, or writes; it has a goType
//
// None changes once its tool has been added or its form sent. The schema of a Go type that contains itself contains
// itself too.
type schema struct {
	types        []string  // the JSON types that are allowed; nil: all
	jsonType     string    // the one besides null, to which values of other types are converted; "" if there is none, or several
	fields       []*field  // of an object
	items        *schema   // of a list: each element; nil: anything
	others       *schema   // of an object: each member that is not in fields; nil: anything
	allowsOthers bool      // of an object: members that are not in fields are allowed, as they are by each Go type
	format       string    // of a string: date or date-time, which are checked
	encoding     string    // of a string: base64
	bounds       [2]*bound // the least and the greatest number, length or number of elements; nil: none

	// Only in a listed schema:
	mayBeNil   bool     // of an element of a Go map that can be nil: null is allowed too, which no keyword says
	enum       [][]byte // the values that are allowed; nil: all
	dflt       []byte   // the default, as the Go type takes it
	convertsTo *schema  // of the Go type, which says what values are converted to; nil if there is a jsonType or an enum
	ignored    string   // the name of a member that is treated as absent, unless fields has it; "" if there is none

	// Only in a typed schema:
	refusesNull bool // of a Go map: no element may be null, because the Go value cannot hold it
	mayRefuse   bool // the Go type has a method that may refuse what the schema allows
	*goType          // nil if s is listed
}

// A use is a type, and whether its values have an address.
type use struct {
	typ        reflect.Type
	hasAddress bool
}

// has reports whether encoding/json calls the method of an interface type for the values.
func (u use) has(method reflect.Type) bool {
	return u.typ.Implements(method) || u.hasAddress && reflect.PointerTo(u.typ).Implements(method)
}

// skips reports whether the type has the method of an interface type, but encoding/json does not call it for the values,
// because only the pointer has it.
func (u use) skips(method reflect.Type) bool {
	return reflect.PointerTo(u.typ).Implements(method) && !u.has(method)
}

// A goType is what a typed schema has besides.
type goType struct {
	use
	fromMethod []byte // what the method JSONSchema of typ returns, which is listed in place of the schema
	isCut      bool   // it was listed as a plain object, at least once
}

// isListed reports whether s is a listed schema.
func (s *schema) isListed() bool { return s.goType == nil }

// A field is a member of an object.
type field struct {
	name     string
	optional bool
	schema   *schema

	*structField // nil if the schema is listed
}

// A structField is what a field of a Go struct has besides.
type structField struct {
	use
	index           []int // as for reflect.Value.FieldByIndex
	tag             reflect.StructTag
	where           string // names it in a panic
	unsettable      bool   // it is in an embedded pointer that encoding/json cannot set
	hasStringOption bool   // the json option string, by which the JSON of some types is inside of a text
	rank            int    // see deriver.fields
}

// isStruct reports whether s describes a struct by its fields.
func (s *schema) isStruct() bool {
	return !s.isListed() && s.typ.Kind() == reflect.Struct && s.jsonType == "object"
}

// hasNilElements reports whether s describes a Go map that can hold a null as such.
func (s *schema) hasNilElements() bool {
	nilable := []reflect.Kind{reflect.Pointer, reflect.Slice, reflect.Map, reflect.Interface}
	return !s.isListed() && s.others != nil && slices.Contains(nilable, s.typ.Elem().Kind())
}

// property returns the member of a name, or nil.
func (s *schema) property(name string) *field {
	for _, f := range s.fields {
		if f.name == name {
			return f
		}
	}
	return nil
}

// part returns the schema of a member of an object, or of an element of a list if name is nil. What s does
// not describe may be anything.
func (s *schema) part(name []byte) *schema {
	if name == nil {
		return cmp.Or(s.items, anything)
	}
	if f := s.property(string(name)); f != nil {
		return f.schema
	}
	return cmp.Or(s.others, anything)
}

// anything is the schema that allows every value, for what is not described.
var anything = &schema{allowsOthers: true}

// A purpose is what a schema is derived for, with the methods of a type that encoding/json calls then.
type purpose struct {
	wanted         string       // the name of the JSON method
	ofJSON, ofText reflect.Type // have the JSON method and the text method
	opposite       reflect.Type // has the JSON method of the other direction
}

var (
	forArguments = &purpose{"UnmarshalJSON", reflect.TypeFor[json.Unmarshaler](), reflect.TypeFor[encoding.TextUnmarshaler](), reflect.TypeFor[json.Marshaler]()}
	forResults   = &purpose{"MarshalJSON", reflect.TypeFor[json.Marshaler](), reflect.TypeFor[encoding.TextMarshaler](), reflect.TypeFor[json.Unmarshaler]()}
)

// forNulls is forResults, while a request is served: without a call of JSONSchema, which may be slow.
var forNulls = &purpose{"MarshalJSON", forResults.ofJSON, forResults.ofText, forResults.opposite}

// derive describes t. The texts of the problems in the deriver begin with where.
func derive(t reflect.Type, where string, why *purpose) (*schema, *deriver) {
	d := &deriver{why: why, known: make(map[use]*schema)}
	return d.schema(use{t, true}, where), d
}

// A deriver describes one type and all types inside it.
type deriver struct {
	why      *purpose
	known    map[use]*schema // ends the recursion
	isHidden bool            // clients are shown what a method JSONSchema returns, which says where null is allowed

	undescribed   string   // names the first part that has no schema, and is left to encoding/json; "" if there is none
	contradiction string   // names the first method JSONSchema that cannot be right; "" if there is none
	leftOut       []string // of arguments: says which fields are left out
	misspelled    []string // of arguments: says which tags have no effect
}

// cannotDescribe records that t has no schema.
func (d *deriver) cannotDescribe(where string, t reflect.Type, instead string) {
	d.undescribed = cmp.Or(d.undescribed, fmt.Sprintf("%s: %v cannot be described: %s", where, t, instead))
}

// schema describes the type t of u. encoding/json calls a method before it looks at the kind of a type. For arguments the
// JSON method is UnmarshalJSON, the opposite one MarshalJSON, and the text method UnmarshalText; for results it is the
// other way round. A method of the pointer is skipped for a value without an address: if (*T).MarshalJSON exists, an
// element of a map[string]T is written by its fields nevertheless. The first row that fits counts:
//
//	t                                its JSON                     clients are shown
//	is a time.Time                   a string                     a string
//	has the JSON method              of any type                  what JSONSchema returns, or nothing, as of a json.Number
//	has a method that is skipped     by its text method or kind   its JSON
//	has the opposite JSON method     by its text method or kind   nothing: it has a form of its own in one direction
//	is any other type                by its text method or kind   what JSONSchema returns, or its JSON
//
// For example, a struct with MarshalJSON alone is read by its fields, and cannot be shown as an argument. Where a method is
// skipped, JSONSchema does not count, because it describes what the method writes.
//
// The returned schema describes the second column. If a part is shown as nothing, render panics for arguments, and
// a result has no output schema: the author must write the schema of the whole by hand.
func (d *deriver) schema(u use, where string) *schema {
	for n := 0; u.typ.Kind() == reflect.Pointer && n < maxNesting; n++ { // it may point to itself
		u = use{u.typ.Elem(), true}
	}
	if s := d.known[u]; s != nil {
		return s
	}
	s := &schema{allowsOthers: true, goType: &goType{use: u}}
	d.known[u] = s // before its parts are described, which may contain it
	cannotShow := func() {
		d.cannotDescribe(where, u.typ, "it has a JSON form of its own: give it "+d.why.wanted+" and JSONSchema() json.RawMessage, or write a plain type, such as string or int")
	}
	switch t := u.typ; {
	case t == reflect.TypeFor[time.Time]():
		s.setType("string")
		s.format = "date-time"
	case u.has(d.why.ofJSON) || t == reflect.TypeFor[json.Number]():
		if s.fromMethod = d.ownSchema(t, where, true); s.fromMethod == nil {
			cannotShow()
		}
		s.mayRefuse = s.fromMethod != nil // otherwise it is usually a json.RawMessage, which takes everything, and would copy a long value
	case u.skips(d.why.ofJSON) || u.skips(d.why.ofText):
		d.describeForm(s, where)
	case reflect.PointerTo(t).Implements(d.why.opposite):
		cannotShow() // which counts, and not what is inside
		d.describeForm(s, where)
	default:
		s.fromMethod = d.ownSchema(t, where, false)
		if s.fromMethod == nil {
			d.describeForm(s, where)
		} else {
			d.describeHidden(s, where)
		}
	}
	return s
}

// describeHidden is describeForm for a type of which clients are shown what its method JSONSchema returns. What is inside is not
// shown, so it need not be described here; elsewhere it may be shown.
func (d *deriver) describeHidden(s *schema, where string) {
	hidden := &deriver{why: d.why, known: maps.Clone(d.known), isHidden: true}
	hidden.describeForm(s, where)
	if shown := string(member(s.fromMethod, "type")); shown != "" && !s.mayRefuse && !d.mayBe(s, shown) {
		d.contradiction = cmp.Or(d.contradiction, fmt.Sprintf("%s: the method JSONSchema of %v returns the type %s, but its JSON is of type %s: give it %s",
			where, s.typ, shown, s.jsonType, d.why.wanted))
	}
}

// mayBe reports whether a value of the type that s describes can be of a type, or of one in a list of types, that is shown
// for it, as JSON. A text may hold an argument of any type: beside a struct, {"type": "string"} takes the JSON of an object.
func (d *deriver) mayBe(s *schema, shown string) bool {
	isNumber := s.jsonType == "integer" || s.jsonType == "number"
	return s.jsonType == "" || strings.Contains(shown, strconv.Quote(s.jsonType)) ||
		isNumber && (strings.Contains(shown, `"integer"`) || strings.Contains(shown, `"number"`)) ||
		d.why == forArguments && (strings.Contains(shown, `"string"`) || s.encoding != "" && strings.Contains(shown, `"array"`))
}

// setType makes typ the only JSON type that s allows.
func (s *schema) setType(typ string) { s.types, s.jsonType = []string{typ}, typ }

// setBounds sets the least and the greatest value.
func (s *schema) setBounds(low, high string) { s.bounds = [2]*bound{boundOf(low), boundOf(high)} }

// describeForm describes what encoding/json does with a type by its text method or, if it has none, its kind.
func (d *deriver) describeForm(s *schema, where string) {
	t := s.typ
	switch k := t.Kind(); {
	case s.has(d.why.ofText):
		s.setType("string")
		s.mayRefuse = true
	case k == reflect.String:
		s.setType("string")
	case k == reflect.Bool:
		s.setType("boolean")
	case reflect.Int <= k && k <= reflect.Int64:
		s.setType("integer")
		most := int64(1<<(t.Bits()-1) - 1)
		s.setBounds(strconv.FormatInt(-most-1, 10), strconv.FormatInt(most, 10))
	case reflect.Uint <= k && k <= reflect.Uintptr:
		s.setType("integer")
		s.setBounds("0", strconv.FormatUint(math.MaxUint64>>(64-t.Bits()), 10))
	case k == reflect.Float32 || k == reflect.Float64:
		s.setType("number")
		most := map[reflect.Kind]string{reflect.Float32: "3.4028235e38", reflect.Float64: "1.7976931348623157e308"}[k]
		s.setBounds("-"+most, most)
	case k == reflect.Struct:
		s.setType("object")
		s.fields = d.fields(s, where)
	case k == reflect.Slice || k == reflect.Array:
		s.setType("array")
		s.items = d.schema(use{t.Elem(), k == reflect.Slice || s.hasAddress}, where+"[]")
		if k == reflect.Slice && t.Elem().Kind() == reflect.Uint8 && s.items.jsonType == "integer" {
			s.setType("string")
			s.encoding, s.items = "base64", nil
		}
		if k == reflect.Array { // not listed, but described, so that what encoding/json sets in it is checked
			d.cannotDescribe(where, t, "write a slice")
			s.bounds[1] = boundOf(strconv.Itoa(t.Len())) // encoding/json would drop the rest
		}
		for inner := s.items; inner != nil && inner.jsonType == "array"; inner = inner.items { // type T []T
			if inner == s {
				d.cannotDescribe(where, t, "it is a list of nothing but itself; write a list of structs")
				s.types, s.jsonType, s.items = nil, "", nil
			}
		}
	case k == reflect.Map && t.Key().Kind() == reflect.String && t.Elem().Kind() == reflect.Interface && t.Elem().NumMethod() == 0:
		s.setType("object")
	case k == reflect.Map:
		if t.Key().Kind() != reflect.String {
			d.cannotDescribe(where, t, "write a map with string keys")
		}
		s.setType("object")
		s.others = d.schema(use{t.Elem(), d.why == forArguments}, where+"[]")
		s.refusesNull = !d.isHidden && !s.hasNilElements()
	default: // an interface, or a kind that does not exist in JSON
		d.cannotDescribe(where, t, `write a concrete type that JSON has, or map[string]any, or leave it out by the tag json:"-"`)
	}
}

// A describer is a type that describes its JSON form.
type describer interface{ JSONSchema() json.RawMessage }

// ownSchema returns what the method JSONSchema of t returns for a zero value, or nil if there is none. It panics if the
// schema is invalid or the method panics. If hasJSON is true, t has the JSON method, its own or a promoted one, and a promoted JSONSchema
// counts with it: of type T struct{ netip.Prefix } both would be those of Prefix. Otherwise JSONSchema does not count if
// an embedded field has it, because package reflect does not tell a promoted method from one of t.
func (d *deriver) ownSchema(t reflect.Type, where string, hasJSON bool) json.RawMessage {
	if d.why == forNulls || !reflect.PointerTo(t).Implements(reflect.TypeFor[describer]()) || !hasJSON && embedsDescriber(t) {
		return nil
	}
	const theMethod = "the method JSONSchema of"
	where = fmt.Sprintf("%s: %s %v", where, theMethod, t)
	defer func() {
		if r := recover(); r != nil && strings.Contains(fmt.Sprint(r), theMethod) {
			panic(r) // it names t already, or another type, of which this method calls SchemaOf
		} else if r != nil {
			panic(fmt.Sprintf("%s panicked: %v", where, r))
		}
	}()
	panicUnless(runtime.Callers(maxFrames, make([]uintptr, 1)) == 0, where, "it comes back to itself")
	own := reflect.New(t).Interface().(describer).JSONSchema()
	if own == nil {
		return nil
	}
	own = compactSchema(own, where)
	panicUnless(!bytes.Contains(own, []byte(`"$ref"`)), where, "$ref would point to another root: write the schema out")
	return own // it is checked as a part of the whole
}

// maxFrames bounds how deep the stack is when a method JSONSchema is called. Without it, one that calls SchemaOf of its own
// type would end the program by a stack overflow, which no recover stops.
const maxFrames = 3000

// embedsDescriber reports whether t is a struct with an embedded field that has a method JSONSchema.
func embedsDescriber(t reflect.Type) bool {
	isDescriber := reflect.TypeFor[describer]()
	for i := 0; t.Kind() == reflect.Struct && i < t.NumField(); i++ {
		f := t.Field(i)
		if f.Anonymous && (f.Type.Implements(isDescriber) || reflect.PointerTo(f.Type).Implements(isDescriber)) {
			return true
		}
	}
	return false
}

// fields returns the fields of a struct by the rules of encoding/json. Of the fields of one name the
// least deeply embedded counts, and among equally deep ones the one whose tag has the name; if
// several remain, none of them counts. The rank of a field is twice its depth, and one more if its tag has no name. So a
// field counts if no other of its name has a rank as low:
//
//	type Base struct {
//		ID   int    // rank 3, hidden by the other ID
//		Name string `json:"name"` // rank 2
//	}
//	type T struct {
//		Base
//		ID string // rank 1
//	}
func (d *deriver) fields(s *schema, where string) (fields []*field) {
	all := collect(nil, &field{structField: &structField{use: s.use, where: where}}, nil)
	for _, f := range all {
		if slices.ContainsFunc(all, func(o *field) bool { return o != f && o.name == f.name && o.rank <= f.rank }) {
			continue
		}
		// encoding/json writes such a field, so it is in the schema of a result.
		if f.unsettable && d.why == forArguments {
			d.leftOut = append(d.leftOut,
				f.where+" is left out, because encoding/json cannot set it: embed the unexported struct itself, not a pointer to it")
			continue
		}
		f.schema = d.schema(f.use, f.where)
		if f.hasStringOption {
			d.cannotDescribe(f.where, f.typ, "leave out the json option string")
			f.schema = &schema{allowsOthers: true, goType: &goType{use: f.use}}
		}
		if strings.ContainsFunc(f.name, isUnusable) {
			d.cannotDescribe(f.where, f.typ, "encoding/json does not use its name "+strconv.Quote(f.name))
		}
		dflt := member(f.schema.fromMethod, "default")
		f.optional = f.optional || dflt != nil && !isNull(dflt)
		for pair := range strings.FieldsSeq(string(f.tag)) { // json:"a", or a word of a value that has blanks
			key, _, _ := strings.Cut(pair, `:"`)
			write := misspelledTags[strings.ToLower(key)]
			if _, isTag := f.tag.Lookup(key); isTag && write != "" && write != key {
				d.misspelled = append(d.misspelled, f.where+": the tag "+key+" has no effect: write "+write)
			}
		}
		fields = append(fields, f)
	}
	return fields
}

// collect appends the fields of the struct outer.typ. In place of a struct that it embeds, the fields of that are appended:
// of the struct T in the comment of deriver.fields, ID with the index 0, 0; Name with 0, 1; and the other ID with 1. Fields
// in an embedded pointer are optional, because encoding/json leaves them out if it is nil.
//
// The types in around embed this struct. If it is one of them, nothing is appended: its fields are there
// already, less deep. A struct that is embedded twice at one depth is collected twice, so its fields hide
// each other. There is one difference from encoding/json: if T embeds A and B, both embed C, and C embeds
// D, the fields of D are missing here. No program was found that has such a type.
func collect(all []*field, outer *field, around []reflect.Type) []*field {
	if slices.Contains(around, outer.typ) {
		return all
	}
	around = append(around, outer.typ)
	for i := range outer.typ.NumField() {
		sf := outer.typ.Field(i)
		elem, isPointer := sf.Type, sf.Type.Kind() == reflect.Pointer
		if isPointer {
			elem = elem.Elem()
		}
		name, rest, _ := strings.Cut(sf.Tag.Get("json"), ",")
		isEmbedded := sf.Anonymous && elem.Kind() == reflect.Struct
		if sf.Tag.Get("json") == "-" || !sf.IsExported() && !isEmbedded {
			continue
		}
		f := &field{name: cmp.Or(name, sf.Name), optional: outer.optional || isPointer, structField: &structField{
			use:        use{sf.Type, outer.hasAddress || isPointer},
			index:      append(slices.Clip(outer.index), i),
			tag:        sf.Tag,
			where:      outer.where + "." + sf.Name,
			unsettable: outer.unsettable || isPointer && !sf.IsExported(),
			rank:       2 * len(outer.index),
		}}
		if isEmbedded && name == "" { // the fields of elem are appended; the tag has no effect
			f.typ = elem
			all = collect(all, f, around)
			continue
		}
		if name == "" {
			f.rank++
		}
		options := strings.Split(rest, ",")
		_, hasDefault := sf.Tag.Lookup("default")
		f.optional = f.optional || hasDefault || slices.Contains(options, "omitempty") || slices.Contains(options, "omitzero")
		f.hasStringOption = slices.Contains(options, "string")
		all = append(all, f)
	}
	return all
}

// isUnusable reports whether encoding/json of Go 1.25 ignores a name in a tag because of r. That of Go 1.27
// may use a part of the name.
func isUnusable(r rune) bool {
	return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("!#$%&()*+-./:;<=>?@[]^_{|}~ ", r)
}

// isForeign reports whether a tag jsonschema has the syntax of another library, which the model would see.
func (f *field) isForeign() bool {
	doc := f.tag.Get("jsonschema")
	first, _, _ := strings.Cut(doc, ",")
	word, _, keyed := strings.Cut(doc, "=")
	return doc == "-" || first == "required" || keyed && consistsOf(word, alphanumeric+"_")
}

// checkTags panics if a tag of a field is one of another library, or is ours and would have no effect, or would mislead
// models. What the tags say is written by appendNode, and checked when the schema is parsed.
func (s *schema) checkTags() {
	where := "" // of the first field with a foreign tag, and the names of the others
	for _, f := range s.fields {
		if f.isForeign() && where == "" {
			where = f.where
		} else if f.isForeign() {
			where += ", " + f.where[strings.LastIndex(f.where, ".")+1:]
		}
	}
	panicUnless(where == "", where, "jsonschema is a tag of another library's form: here it is the description alone. "+
		"Cut the rest: a field is required unless it is a pointer or has omitempty, omitzero or a default, and other keywords have tags such as enum:\"a,b\"")
	for _, f := range s.fields {
		of := f.schema
		if of.fromMethod != nil {
			of = anything // its method says what the tags below would, so each of them is an error
		}
		format, hasFormat := f.tag.Lookup("format")
		panicUnless(!hasFormat || of.isPlainText() && slices.Contains([]string{"email", "uri", "date", "date-time"}, format), f.where,
			`format must be "email", "uri", "date" or "date-time", on a plain string`)
		enum, hasEnum := f.tag.Lookup("enum")
		takesEnum := of.isPlainText() || of.jsonType == "array" && of.items.fromMethod == nil
		panicUnless(!hasEnum || takesEnum && !strings.Contains(enum, ", "), f.where,
			"enum must be on a plain string or a list of them, without a blank after a comma")
		for _, word := range boundTags {
			if _, hasBound := f.tag.Lookup(word); hasBound && !slices.Contains(boundWords[of.jsonType], word) {
				panic(f.where + ": " + word + " has no effect here: minimum is for numbers, minLength for strings, minItems for lists")
			}
		}
	}
}

// misspelledTags holds what to write for a tag, here in lower case, if it is not written exactly so: for one in
// another spelling, of another library, or with the name of a keyword that has no tag.
var misspelledTags = map[string]string{
	"json": "json", "enum": "enum", "default": "default", "format": "format", "minimum": "minimum", "maximum": "maximum",
	"minlength": "minLength", "maxlength": "maxLength", "minitems": "minItems", "maxitems": "maxItems",
	"jsonschema": "jsonschema", "jsonschema_description": "jsonschema", "description": "jsonschema", "desc": "jsonschema",
	"doc": "jsonschema", "mcp": "jsonschema", "const": "enum", "exclusiveminimum": "minimum", "exclusivemaximum": "maximum",
	"title": inWords, "pattern": inWords, "examples": inWords, "multipleof": inWords, "required": orOmitempty, "nullable": orOmitempty,
	"min": "minimum, minLength or minItems", "max": "maximum, maxLength or maxItems",
}

const inWords, orOmitempty = "it in jsonschema, in words", "omitempty in the json tag if it is optional"

// boundTags are the keywords of all bounds, and boundWords those of each JSON type that has bounds.
var (
	boundTags  = []string{"minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems"}
	boundWords = map[string][]string{"integer": boundTags[:2], "number": boundTags[:2], "string": boundTags[2:4], "array": boundTags[4:]}
)

// isPlainText reports whether s is a string without a form of its own, which a time.Time and a type with UnmarshalText have.
func (s *schema) isPlainText() bool {
	return s.jsonType == "string" && s.encoding == "" && !s.mayRefuse && (s.isListed() || s.typ.Kind() == reflect.String)
}

// maxSchema bounds the bytes of a schema, which a model has to read, and maxLevels its nested
// nodes: some providers refuse more.
const maxSchema, maxLevels = 32 << 10, 10

// render returns s, which d has made, as JSON Schema. It panics if a part has no schema, or one that cannot be right. The
// message ends with what the caller of the library can do instead.
//
// Every node has one type, and there are no references, because many hosts and providers refuse
// anything else. A type is therefore written out at each place where it is used. An object is cut,
// which means that it is free-form, if it would contain itself, have a part that does not fit into
// maxLevels, or begin after maxSchema bytes.
func (d *deriver) render(s *schema, instead string) json.RawMessage {
	if d.undescribed != "" {
		panic(d.undescribed + instead)
	} else if d.contradiction != "" {
		panic(d.contradiction)
	}
	return closeWith(s.appendNode(nil, "", nil))
}

// showsAll reports whether what render has returned says all that the Go type requires, which is usual. It does not if an
// object was cut, or if a type has a method, which may refuse what a schema allows.
func (d *deriver) showsAll() bool {
	for _, s := range d.known {
		if s.isCut || s.mayRefuse || s.fromMethod != nil {
			return false
		}
	}
	return true
}

// fitsInto reports whether s can be listed in so many levels. An object needs one, because it can be cut.
func (s *schema) fitsInto(levels int) bool {
	if s.jsonType == "array" && s.fromMethod == nil {
		return s.items.fitsInto(levels - 1)
	}
	return levels > 0
}

// appendNode appends s, as it is listed inside nodes of the types in around, with what the tag of a field says about it,
// and a comma.
func (s *schema) appendNode(b []byte, tag reflect.StructTag, around []reflect.Type) []byte {
	if s.fromMethod != nil {
		return s.appendFromMethod(b, tag)
	}
	b = stringMember(append(b, '{'), "type", s.jsonType)
	doc := tag.Get("jsonschema")
	switch { // the encoding is described in words, because some providers refuse contentEncoding
	case s.encoding == "" || strings.Contains(doc, s.encoding):
	case doc == "":
		doc = s.encoding
	default:
		doc += " (" + s.encoding + ")"
	}
	b = optionalMember(b, "description", doc)
	b = rawMember(b, "default", tagValue(tag, "default", s.jsonType))
	enum, hasEnum := tag.Lookup("enum")
	if hasEnum && s.jsonType != "array" {
		var values []string // each once, because some hosts refuse a value that is twice
		for value := range strings.SplitSeq(enum, ",") {
			if !slices.Contains(values, value) {
				values = append(values, value)
			}
		}
		choices, _ := marshal(values) // strings cannot fail
		b = rawMember(b, "enum", choices)
	}
	for i, word := range boundWords[s.jsonType] {
		bound := tagValue(tag, word, "number")
		// The range of an int or a uint differs between machines, and many readers cannot hold that of an int64.
		ofType := s.bounds[i]
		isSized := s.typ.Kind() != reflect.Int && s.typ.Kind() != reflect.Uint && s.typ.Kind() != reflect.Uintptr
		if bound == nil && ofType != nil && (ofType.text == "0" || isSized && !ofType.isLong()) {
			bound = []byte(ofType.text)
		}
		b = rawMember(b, word, bound)
	}
	b = optionalMember(b, "format", cmp.Or(s.format, tag.Get("format")))
	switch s.jsonType {
	case "array":
		var ofElements reflect.StructTag
		if hasEnum { // on a list, it is about the elements
			ofElements = reflect.StructTag("enum:" + strconv.Quote(enum))
		}
		b = s.items.appendNode(join(b, `"items":`), ofElements, append(around, s.typ))
	case "object":
		below := maxLevels - len(around) - 1 // levels, for the parts; an object on the last level is cut, also if it has none
		isDeep := func(f *field) bool { return !f.schema.fitsInto(below) }
		hasDeepPart := !cmp.Or(s.others, anything).fitsInto(below) || slices.ContainsFunc(s.fields, isDeep)
		if isInsideItself := slices.Contains(around, s.typ); isInsideItself || hasDeepPart || len(b) > maxSchema {
			s.isCut = true
			b = join(b, `"properties":{}`)
		} else {
			b = s.appendMembers(b, append(around, s.typ))
		}
	}
	return closeWith(b, "},")
}

// appendMembers appends what an object, the last of the types in around, says about its members.
func (s *schema) appendMembers(b []byte, around []reflect.Type) []byte {
	b = join(b, `"properties":{`)
	var required []string
	s.checkTags()
	for _, f := range s.fields {
		b = f.schema.appendNode(append(appendString(b, f.name), ':'), f.tag, around)
		if !f.optional {
			required = append(required, f.name)
		}
	}
	list, _ := jsonOf(required) // nil if there are none, because the oldest drafts of JSON Schema refuse an empty list
	b = rawMember(closeWith(b, "},"), "required", list)
	if s.others != nil {
		return s.others.appendNode(join(b, `"additionalProperties":`), "", around)
	} else if s.isStruct() {
		b = join(b, `"additionalProperties":false`)
	}
	return b
}

// appendFromMethod is appendNode for a type with a method JSONSchema. Tags take precedence over what it says.
func (s *schema) appendFromMethod(b []byte, tag reflect.StructTag) []byte {
	typ, _ := unquote(member(s.fromMethod, "type"))
	description, _ := unquote(member(s.fromMethod, "description"))
	b = optionalMember(append(b, '{'), "description", cmp.Or(tag.Get("jsonschema"), description))
	dflt := tagValue(tag, "default", typ)
	if dflt == nil {
		dflt = member(s.fromMethod, "default")
	}
	return closeWith(copyMembersExcept(rawMember(b, "default", dflt), s.fromMethod, "description", "default"), "},")
}

// tagValue returns the value of a tag as JSON of a type, or nil if there is no tag. The tag of a string is its
// text. If that of another type is not JSON, it is a string too, so that the parser says what it must be. So is null,
// because the parser takes "default": null for none.
func tagValue(tag reflect.StructTag, key, jsonType string) []byte {
	text, ok := tag.Lookup(key)
	if !ok {
		return nil
	}
	raw, err := compactJSON([]byte(text))
	if jsonType == "string" || err != nil || text == "null" {
		return appendString(nil, text)
	}
	return raw
}

// ---- schemas by hand ----
//
// What clients see is parsed, whether it was written by hand or rendered from a type, so the same
// functions check the arguments. First the schema itself is read as a value, by the schema of schemas, so that the value
// of each keyword has its type. Then parseNode makes the tree of nodes, and reports what is not enforced and what some
// providers refuse. When a node is complete, with all that is inside it, the values in it, an enum and a default, are
// read by it.

// A schemaParser parses one schema.
type schemaParser struct {
	why       *purpose
	isDerived bool     // from the Go type, and not written by hand
	root      []byte   // the whole
	where     string   // names the tool and the schema
	warnings  []string // what is to be reported
}

// parse returns what a schema, which is in one line, says about values that a Go type takes. It panics if a keyword has a
// value that JSON Schema does not allow, because some clients and providers refuse every tool then, or if a value in
// the schema cannot be right.
func (p *schemaParser) parse(raw json.RawMessage, where string, typed *schema) *schema {
	p.root, p.where = raw, where
	c := checker{from: fromSchema, parser: p}
	c.readValue(p.root, schemaOfSchemas, &path{})
	err := c.err()
	panicUnless(err == nil, where, "%v", err)
	return p.parseNode(p.root, where, 1, typed)
}

// compactSchema returns a schema in one line. It panics unless that is a JSON object.
func compactSchema(raw json.RawMessage, where string) json.RawMessage {
	compact, err := compactJSON(raw)
	panicUnless(err == nil, where, "it is %v", err)
	panicUnless(compact[0] == '{', where, "a schema must be a JSON object")
	return compact
}

// schemaOfSchemas says which type the value of each keyword has, as JSON Schema 2020-12 does. A value of any other keyword may
// be anything.
var schemaOfSchemas = &schema{types: []string{"object", "boolean"}, allowsOthers: true}

func init() { // because schemaOfSchemas has itself inside
	text, boolean := &schema{types: []string{"string"}}, &schema{types: []string{"boolean"}}
	names := &schema{types: []string{"array"}, items: text}
	notNegative, notEmpty := [2]*bound{boundOf("0")}, [2]*bound{boundOf("1")}
	for _, row := range []struct {
		value *schema
		words string
	}{
		{&schema{types: []string{"string", "array"}, items: text}, "type"},
		{text, "$ref $schema $id $anchor $dynamicAnchor $dynamicRef $comment title description format pattern contentEncoding contentMediaType"},
		{boolean, "deprecated readOnly writeOnly uniqueItems"},
		{&schema{types: []string{"number"}}, "minimum maximum exclusiveMinimum exclusiveMaximum multipleOf"},
		{&schema{types: []string{"integer"}, bounds: notNegative}, "minLength maxLength minItems maxItems"},
		{&schema{types: []string{"integer"}, bounds: notNegative}, "minContains maxContains minProperties maxProperties"},
		{names, "required"},
		{&schema{types: []string{"array"}}, "examples"},
		{&schema{types: []string{"array"}, bounds: notEmpty}, "enum"},
		{&schema{types: []string{"array"}, bounds: notEmpty, items: schemaOfSchemas}, "allOf anyOf oneOf prefixItems"},
		{schemaOfSchemas, "items additionalProperties contains propertyNames not if then else"},
		{schemaOfSchemas, "unevaluatedItems unevaluatedProperties contentSchema"},
		{&schema{types: []string{"object"}, allowsOthers: true, others: schemaOfSchemas}, "properties $defs definitions patternProperties dependentSchemas"},
		{&schema{types: []string{"object"}, allowsOthers: true, others: names}, "dependentRequired"},
		{&schema{types: []string{"object"}, allowsOthers: true, others: boolean}, "$vocabulary"},
	} {
		for _, word := range strings.Fields(row.words) {
			schemaOfSchemas.fields = append(schemaOfSchemas.fields, &field{name: word, optional: true, schema: row.value})
		}
	}
}

// checkKeyword checks what the type of a keyword's value does not say.
func (c *checker) checkKeyword(keyword string, raw []byte, at *path) {
	p := c.parser
	switch keyword {
	case "type", "required":
		names := textsOf(raw)
		for i, name := range names {
			if slices.Contains(names[:i], name) {
				c.addFault(fmt.Errorf("names %q twice", name), at)
			}
		}
		isUnknown := func(name string) bool { return !slices.Contains(typeNames[:], name) }
		if keyword == "type" && (names == nil || slices.ContainsFunc(names, isUnknown)) {
			c.addMismatch("name", "types of JSON Schema", raw, at)
		}
	case "dependentRequired":
		inner := &path{outer: at}
		for name, names := range members(raw) {
			inner.name = name
			c.checkKeyword("required", names, inner)
		}
	case "$ref":
		text, _ := unquote(raw)
		isPointer := strings.HasPrefix(text, "#/")
		switch leads := text == "#" || isPointer && leadsSomewhere(p.root, text); {
		case leads:
		case isPointer && !bytes.Contains(copyMembersExcept(nil, p.root, "$id"), []byte(`"$id"`)): // or it may begin below that
			c.addFault(errors.New("leads nowhere in this schema, got "+excerpt(raw)), at)
		default:
			p.warnings = append(p.warnings, p.where+": "+at.String()+" is not a pointer into this schema: some clients cannot read it, and lose every tool")
		}
	case "multipleOf":
		if !decimalOf("0").isLess(decimalOf(string(raw))) {
			c.addMismatch("be", "above 0", raw, at)
		}
	case "pattern":
		if text, _ := unquote(raw); isForeignPattern(text) {
			p.warnings = append(p.warnings, p.where+": "+at.String()+" cannot be read by JavaScript: some clients cannot call the tool, or lose every tool")
		}
	}
}

// textsOf returns the strings in a list, or the one that raw is. It returns nil if raw is empty.
func textsOf(raw []byte) (texts []string) {
	if text, isOne := unquote(raw); isOne {
		return []string{text}
	}
	for _, quoted := range members(raw) {
		text, _ := unquote(quoted)
		texts = append(texts, text)
	}
	return texts
}

// isForeignPattern reports whether a pattern has what JavaScript does not read, or not as Go and Python do: another group
// than (?: (?= (?! and (?<, a class such as [:alpha:], a range such as [\w-.], \pL without braces, or an escape that it does
// not have, as \- outside of brackets.
func isForeignPattern(pattern string) bool {
	const letters, classes = `^$\.*+?()[]{}|/dDwWsSbBnrtvfcxukpP0123456789`, "dDwWsS" // after a backslash
	isInBrackets := false
	for rest := pattern; rest != ""; rest = rest[1:] {
		if after, isEscape := strings.CutPrefix(rest, `\`); isEscape { // it never begins or ends brackets
			letter := after[:min(1, len(after))]
			next := after[len(letter):]
			isKnown := letter != "" && strings.Contains(letters, letter) || isInBrackets && letter == "-"
			isProperty := letter == "p" || letter == "P"
			isRange := isInBrackets && strings.HasPrefix(next, "-") && !strings.HasPrefix(next, "-]")
			if !isKnown || isProperty && !strings.HasPrefix(next, "{") || isRange && strings.Contains(classes, letter) {
				return true
			}
			rest = after // which begins with the letter
			continue
		}
		switch {
		case isInBrackets && strings.HasPrefix(rest, "[:") && strings.Contains(rest[2:], ":]"):
			return true
		case !isInBrackets && strings.HasPrefix(rest, "(?") && (len(rest) == 2 || strings.IndexByte(":=!<", rest[2]) < 0):
			return true
		case rest[0] == '[':
			isInBrackets = true
		case rest[0] == ']':
			isInBrackets = false
		}
	}
	return false
}

// leadsSomewhere reports whether a pointer such as #/$defs/a leads to a part of a schema.
func leadsSomewhere(root []byte, pointer string) bool {
	decoded, ok := unescape(strings.TrimPrefix(pointer, "#/"))
	at := root
	for _, step := range strings.Split(decoded, "/") {
		step = strings.ReplaceAll(strings.ReplaceAll(step, "~1", "/"), "~0", "~")
		if at[0] == '[' {
			index, err := strconv.Atoi(step)
			parts := partsOf(at)
			if err != nil || index < 0 || index >= len(parts) {
				return false
			}
			at = parts[index]
		} else if at = member(at, step); at == nil {
			return false
		}
	}
	return ok
}

// parseNode returns what raw, an object, says as a schema: where names the tool, the schema and the node in it, level counts
// the nodes around it and itself, and typed describes the Go type that takes the values, or is anything.
func (p *schemaParser) parseNode(raw []byte, where string, level int, typed *schema) *schema {
	s, node := &schema{allowsOthers: true}, make(map[string][]byte)
	for name, val := range members(raw) { // val has the type that schemaOfSchemas says
		node[string(name)] = val
	}
	s.types = textsOf(node["type"])
	besidesNull := slices.DeleteFunc(slices.Clone(s.types), func(name string) bool { return name == "null" })
	if len(besidesNull) == 1 {
		s.jsonType = besidesNull[0]
	}
	if s.jsonType == typed.jsonType { // what the JSON of a schema might not say
		s.bounds, s.encoding = typed.bounds, typed.encoding
	}
	for i, word := range boundWords[s.jsonType] {
		num, ofType := node[word], s.bounds[i]
		if num == nil {
			continue
		}
		given := boundOf(string(num))
		isWider := ofType != nil && (i == 0 && given.isLess(ofType.decimal) || i == 1 && ofType.isLess(given.decimal))
		if !isWider { // otherwise the Go type still cannot hold more
			s.bounds[i] = given
		}
	}
	if string(node["contentEncoding"]) == `"base64"` {
		s.encoding = "base64"
	}
	if format, _ := unquote(node["format"]); dateExamples[format] != "" { // others are not checked
		s.format = format
	}
	s.enum = partsOf(node["enum"])
	if constant := node["const"]; constant != nil {
		s.enum = [][]byte{constant}
	}
	if s.jsonType == "" && s.enum == nil { // what an enum has is valid as it came
		s.convertsTo = typed
	}
	if p.why == forArguments { // providers do not see other schemas
		isEmpty := func(val []byte) bool { return string(val) == `""` }
		panicUnless(!slices.ContainsFunc(s.enum, isEmpty), where, "enum must not have an empty string, for which a provider refuses every tool")
		for _, shape := range s.reported(raw, node, level) {
			p.warnings = append(p.warnings, where+": "+shape)
		}
	}
	// Of the nodes inside, one is not enforced if another keyword beside it changes what it says.
	if items := node["items"]; node["prefixItems"] == nil && isObject(items) {
		s.items = p.parseNode(items, where+"[]", level+1, typed.part(nil))
	}
	if others := node["additionalProperties"]; node["patternProperties"] == nil {
		s.allowsOthers = string(others) != "false"
		if isObject(others) {
			s.others = p.parseNode(others, where+"[]", level+1, cmp.Or(typed.others, anything))
			s.others.mayBeNil = p.isDerived && typed.hasNilElements()
		}
	}
	for name, property := range members(node["properties"]) {
		shown := oneLine(string(name))
		if !isObject(property) {
			panic(fmt.Sprintf("%s: properties.%s must be an object, got %s: hosts do not take it", where, shown, property))
		}
		inner := p.parseNode(property, where+"."+shown, level+1, typed.part(name))
		s.fields = append(s.fields, &field{name: string(name), optional: true, schema: inner})
	}
	for _, name := range textsOf(node["required"]) {
		if s.property(name) == nil {
			s.fields = append(s.fields, &field{name: name, schema: cmp.Or(s.others, anything)})
		}
		s.property(name).optional = false
	}
	err := s.readValues(node["default"], typed)
	panicUnless(err == nil, where, "%v", err)
	return s
}

// readValues reads the values in s, a complete node, by it: its enum, and dflt, which is nil or becomes its default, and must
// be valid as it is written. The Go type must take it too, as it takes an argument: otherwise each call without this argument
// would fail. It returns an error if the default is invalid, or if no value satisfies the bounds or the enum.
func (s *schema) readValues(dflt []byte, typed *schema) error {
	isValid := func(val []byte) bool {
		_, err := read(val, fromSchema, []*schema{s})
		return err == nil
	}
	switch low, high := s.bounds[0], s.bounds[1]; {
	case low != nil && high != nil && high.isLess(low.decimal):
		return fmt.Errorf("nothing can be at least %s and at most %s", low.text, high.text)
	case s.enum != nil && !slices.ContainsFunc(s.enum, isValid):
		return fmt.Errorf("no value of enum is a valid %s: %s", cmp.Or(s.jsonType, "value"), excerpt(bytes.Join(s.enum, []byte(", "))))
	case dflt == nil || isNull(dflt): // some libraries write null for an argument without a default
		return nil
	}
	_, err := read(dflt, fromSchema, []*schema{s})
	converted, misfit := read(dflt, fromCall, []*schema{s, typed})
	if err = cmp.Or(err, misfit); err != nil {
		return fmt.Errorf("default: %w", err)
	}
	s.dflt = converted
	return nil
}

// notReported are the keywords that parseNode reads, besides those of boundWords, and those that
// do not restrict a value. Unknown values of format and contentEncoding do not either.
var notReported = strings.Fields("type enum const properties required additionalProperties items " +
	"$schema $id $anchor $comment $defs definitions title description default example examples " +
	"deprecated readOnly writeOnly format contentEncoding contentMediaType contentSchema")

// reported returns what is to be reported about a node with the keywords in raw, and in a map: those that are not enforced,
// and the shapes for which some providers refuse the tool, or every request that has it.
func (s *schema) reported(raw []byte, node map[string][]byte, level int) (texts []string) {
	words, isTyped := boundWords[s.jsonType], node["type"] != nil
	isTwice, seen := false, make(map[string]bool) // values of the enum
	for _, val := range s.enum {
		isTwice = isTwice || seen[string(val)]
		seen[string(val)] = true
	}
	isNotText := func(val []byte) bool { return val[0] != '"' }
	isLong := func(word string) bool { return node[word] != nil && decimalOf(string(node[word])).isLong() }
	hasCombinator := node["allOf"] != nil || node["anyOf"] != nil || node["oneOf"] != nil
	for _, shape := range []struct {
		isThere bool
		text    string
	}{
		{slices.ContainsFunc(words, isLong), "a bound is above 2^53"},
		{level == 1 && hasCombinator, "allOf, anyOf or oneOf is at the top"},
		{level == 1 && node["properties"] == nil, "properties is missing"},
		{!isTyped && node["$ref"] == nil && !hasCombinator, "type is missing"}, // those may name the type
		{isTyped && node["type"][0] == '[', "type is a list"},
		{s.jsonType == "array" && !isObject(node["items"]), "items is missing"},
		{s.jsonType != "object" && s.jsonType != "" && node["properties"] != nil, "properties is beside the type " + s.jsonType},
		{node["const"] != nil, "const is used"},
		{node["const"] == nil && slices.ContainsFunc(s.enum, isNotText), "enum has values that are not strings"},
		{isTwice, "enum has a value twice"},
		{node["contentEncoding"] != nil, "contentEncoding is used"},
		{level == maxLevels+1, "there are more than 10 levels"},
	} {
		if shape.isThere {
			texts = append(texts, shape.text+": some providers refuse that")
		}
	}
	for _, name := range textsOf(node["required"]) {
		if member(node["properties"], name) == nil {
			texts = append(texts, "required names "+oneLine(name)+", which properties lacks: some providers refuse that")
		}
	}
	if len(s.enum) == 1 && node["const"] == nil && bytes.ContainsAny(s.enum[0], "| ") {
		texts = append(texts, "enum has one value, "+excerpt(s.enum[0])+": values are separated by commas")
	}
	for key := range members(raw) {
		word := string(key)
		isKnown := slices.Contains(notReported, word) || slices.Contains(words, word) || strings.HasPrefix(word, "x-")
		if !isKnown || word == "items" && node["prefixItems"] != nil {
			texts = append(texts, oneLine(word)+" is not enforced")
		}
	}
	return texts
}

// typeNames lists the types of JSON Schema.
var typeNames = [...]string{"number", "object", "array", "string", "boolean", "null", "integer"}

// ---- arguments by their schema ----
//
// Arguments are read as text, and then set.
//
// checker.readValue reads a value by a schema. It returns the text that is meant: with values converted, with
// defaults, and without what is treated as absent. What needs no change is returned as it is, without a
// copy. It continues after a fault, so that the model sees all of them, each with its place.
//
// Arguments are read by the schema that is listed, which the model has seen. If there is no fault, they are
// read again, in the same way, by the schema of the Go type, unless the listed one says all that the type
// requires. It says less about an object that was cut and about types with methods, and it may say less
// about everything if it was written by hand.
//
// rules.unmarshal then sets the Go value. It sets the strings, numbers and booleans of a struct
// itself, because encoding/json takes four times as long for a long text, and a call with two numbers
// 1.27 times, and leaves the rest to encoding/json.

// ignoredArgument is treated as absent by each tool and prompt that does not have it. Gemini CLI adds it to the arguments
// of every tool, for its own use.
const ignoredArgument = "wait_for_previous"

// rules are the schemas for the arguments of a tool or a prompt, or for a form.
type rules struct {
	readBy []*schema // one after the other
	setBy  *schema   // of the Go type that takes the value
}

// An origin says where a value comes from, which decides what is converted.
type origin int

const (
	fromSchema origin = iota // a schema, or a value in it: nothing is converted, and no null is treated as absent
	fromForm                 // what a user has filled in: texts that hold JSON of another type are converted
	fromCall                 // arguments: whole numbers are converted too where a string is needed
)

// unmarshal sets what v points to from raw; nil means an object without members. It returns the
// faults as one error.
func (r *rules) unmarshal(raw []byte, v any, from origin) error {
	if raw == nil {
		raw = []byte("{}")
	}
	raw, err := read(raw, from, r.readBy)
	if err != nil {
		return err
	}
	to := target(reflect.ValueOf(v).Elem())
	if !r.setBy.isStruct() {
		return setAny(to, raw)
	}
	return r.setBy.setFields(to, raw)
}

// read returns the value that is meant by raw, after it was read by one schema after the other, or the faults
// by the first schema that finds any, as one error.
func read(raw []byte, from origin, schemas []*schema) ([]byte, error) {
	var whole path
	c := checker{from: from}
	for _, s := range schemas {
		if c.faults == nil {
			raw = c.readValue(raw, s, &whole)
		}
	}
	return raw, c.err()
}

// A path leads to a value: from the value around it by a name or, if name is nil, by an index. The zero path
// is that of the whole. Each object or list has one path for all of its parts, made outside of the loop over
// them, so that it stays on the stack.
type path struct {
	outer *path // of the value around it; nil for the whole
	name  []byte
	index int
	depth int // the number of values around it
}

// String returns a path in the form list[2].name.
func (p *path) String() string {
	switch {
	case p.outer == nil:
		return ""
	case p.name == nil:
		return p.outer.String() + "[" + strconv.Itoa(p.index) + "]"
	}
	return strings.TrimPrefix(p.outer.String()+"."+cmp.Or(oneLine(string(p.name)), `""`), ".")
}

// A checker collects the faults of a value and of what is inside it.
type checker struct {
	from   origin
	faults []string
	parser *schemaParser // if the value is a schema
}

// maxFaults is how many faults the error of one call names. A call with many faults must not
// cost more than a correct one.
const maxFaults = 10

// isFull reports whether there are so many faults that checking stops.
func (c *checker) isFull() bool { return len(c.faults) >= maxFaults }

// addFault adds err, unless it is nil, as a fault of the value at a path.
func (c *checker) addFault(err error, at *path) {
	if err != nil && !c.isFull() {
		c.faults = append(c.faults, strings.TrimPrefix(at.String()+" "+err.Error(), " "))
	}
}

// addMismatch adds a fault that says what a value must be or have, and repeats the beginning of what came, so that a model
// sees what it sent. Its text is "must", verb, what, and what came.
func (c *checker) addMismatch(verb, what string, got []byte, at *path) {
	c.addFault(errors.New("must "+verb+" "+what+", got "+excerpt(got)), at)
}

// err returns the faults as one error, or nil if there are none.
func (c *checker) err() error {
	switch {
	case c.faults == nil:
		return nil
	case c.isFull():
		c.faults = append(c.faults, "there may be more")
	}
	return errors.New(strings.Join(c.faults, "; "))
}

// maxNesting bounds the nesting of arguments and schemas, because each level walks over everything below
// it. What neither a schema nor a Go type describes may be nested more deeply.
const maxNesting = 100

// readValue returns the value that is meant by given, which is valid JSON: val is what given is converted to, and faults
// quote given, which the client knows. The first row that fits says what is done:
//
//	s describes nothing, or allows this null    nothing; such a value may be nested without a limit
//	s does not allow the type of val            a fault
//	val is nested too deeply                    a fault
//	the enum of s does not have val             a fault
//	val is a text, a number                     its form and its bounds are checked; it is written as it can be set
//	val is an object, a list                    its parts are read
//
// If there is no fault, a method of the Go type is called, and again when the value is set, so that a fault that it finds
// has a place.
func (c *checker) readValue(given []byte, s *schema, at *path) []byte {
	val, before := s.converted(given, c.from), len(c.faults)
	switch typ := jsonTypeOf(val); {
	case s == anything, typ == "null" && s.allowsNull():
	case !s.allowsType(val):
		c.addMismatch("be", s.allowedTypes(), given, at)
	case at.depth >= maxNesting:
		c.addFault(errors.New("is nested too deeply"), at)
	case s.enum != nil && !s.enumHas(val):
		c.addMismatch("be one of", string(bytes.Join(s.enum, []byte(", "))), given, at)
	case typ == "string":
		c.checkText(s, val, given, at)
		// time.Time does not decode escapes, and neither do types that pass their text on to it: go.dev/issue/47353.
		if (s.format != "" || s.mayRefuse) && bytes.IndexByte(val, '\\') >= 0 {
			val = appendString(nil, string(unquoteBytes(val)))
		}
	case typ == "number":
		if bound := s.beyond(val); bound != "" {
			c.addMismatch("be", bound, given, at)
		}
		if s.jsonType == "integer" {
			val = plainNumber(val)
		}
	case typ == "object":
		val = c.readMembers(val, s, at)
	case typ == "array":
		val = c.readElements(val, s, at)
	}
	// The method is not called for a null, which a pointer takes without it. It gets a copy, because it may write to
	// it, and val may be a default in a schema.
	if s.mayRefuse && len(c.faults) == before && !isNull(val) {
		c.addFault(setAny(reflect.New(s.typ).Elem(), bytes.Clone(val)), at)
	}
	return val
}

// readMembers is readValue for the members of an object. After those that came, it adds the defaults of those that did
// not. Of a member, the first row that fits counts:
//
//	it has the name ignored             it is left out, as often as it comes
//	its name is unknown, and refused    a fault
//	its name came before                a fault, because the client and the server could use different values
//	it is optional, and a null          it has its default, or is left out
//	it is a null that s refuses         a fault
//	any other                           it is read
func (c *checker) readMembers(raw []byte, s *schema, outer *path) []byte {
	came := make(map[string]bool) // the names
	at := &path{outer: outer, depth: outer.depth + 1}
	raw = c.rewriteParts(raw, at, func(key, given []byte) (val []byte, keep bool) {
		f := s.property(string(key))
		var name string
		var part *schema
		if f != nil {
			name, part = f.name, f.schema
		} else { // the key of a map is data, and never absent, also if its value is null
			name, part = string(key), cmp.Or(s.others, anything)
		}
		isAbsent := f != nil && f.optional && c.from != fromSchema && !part.allowsNull() && part.isNullFor(given)
		val, keep = given, true
		switch {
		case f == nil && s.ignored != "" && name == s.ignored:
			return nil, false
		case f == nil && s.refusesName(name):
			c.addFault(s.unknownName(), at)
		case came[name]:
			c.addFault(errors.New("came twice"), at)
		case isAbsent:
			val, keep = part.dflt, part.dflt != nil
		case f == nil && s.refusesNull && isNull(given):
			c.addMismatch("be", part.allowedTypes(), given, at)
		default:
			before := len(c.faults)
			val = c.readValue(given, part, at)
			if s == schemaOfSchemas && len(c.faults) == before {
				c.checkKeyword(name, val, at)
			}
		}
		came[name] = true
		return val, keep
	})
	return c.addDefaults(raw, s, came, at)
}

// addDefaults returns an object with the defaults of the fields that did not come, and adds a fault for each of these that
// is required.
func (c *checker) addDefaults(raw []byte, s *schema, came map[string]bool, at *path) []byte {
	var defaults []byte
	for _, f := range s.fields {
		isRequired := !f.optional && s.isListed() // a Go type requires no member
		switch {
		case isRequired && !came[f.name]:
			at.name = []byte(f.name)
			c.addFault(errors.New("is required"), at)
		case f.schema.dflt != nil && !came[f.name]:
			defaults = appendMember(defaults, []byte(f.name), f.schema.dflt)
		}
	}
	if defaults == nil {
		return raw
	}
	return closeWith(append(copyMembersExcept([]byte("{"), raw), defaults...), "}")
}

// readElements is readValue for the elements of a list.
func (c *checker) readElements(raw []byte, s *schema, outer *path) []byte {
	at := &path{outer: outer, depth: outer.depth + 1}
	raw = c.rewriteParts(raw, at, func(_, given []byte) (val []byte, keep bool) {
		return c.readValue(given, s.part(nil), at), true
	})
	c.checkLength(s, at.index, outer)
	return raw
}

// rewriteParts returns an object or a list with what change returns in place of each part, and without
// the parts that change does not keep. If nothing changes, it returns raw itself. While change runs, at is the path
// of the part; afterwards its index is the number of parts. If there are maxFaults, the result is of no use, and rewriteParts
// stops.
func (c *checker) rewriteParts(raw []byte, at *path, change func(name, given []byte) (val []byte, keep bool)) []byte {
	var b []byte // the container written anew, from the first change on
	for name, given := range members(raw) {
		at.name = name
		val, keep := change(name, given)
		if b == nil && (!keep || !bytes.Equal(val, given)) {
			b = beginning(raw, at.index)
		}
		if b != nil && keep {
			b = appendMember(b, name, val)
		}
		at.index++
		if c.isFull() {
			break
		}
	}
	if b == nil {
		return raw
	}
	return append(bytes.TrimSuffix(b, []byte(",")), raw[len(raw)-1])
}

// beginning returns a copy of an object or a list up to its first n parts, with a comma after each.
func beginning(raw []byte, n int) []byte {
	b := []byte{raw[0]}
	for name, val := range members(raw) {
		if n == 0 {
			break
		}
		b = appendMember(b, name, val)
		n--
	}
	return b
}

// refusesName reports whether a name that s does not describe is refused. A Go type refuses only one that differs
// from that of a field in nothing but case: encoding/json would store the member in that field.
func (s *schema) refusesName(name string) bool {
	if s.isListed() {
		return !s.allowsOthers
	}
	return slices.ContainsFunc(s.fields, func(f *field) bool { return strings.EqualFold(f.name, name) })
}

// converted returns raw, or the value that is meant by it. If s allows several types, the Go type says which of them is
// needed: beside a struct, the text {"n":1} becomes an object, so its n is checked.
func (s *schema) converted(raw []byte, from origin) []byte {
	if s.convertsTo == nil {
		return s.convertedToType(raw, from)
	}
	val := s.convertsTo.convertedToType(raw, from)
	if raw[0] == '"' && isNull(val) && !s.allowsNull() { // clients may send any text, so "" and "null" are texts like others
		val = join(nil, "[", string(raw), "]")
	}
	if s.allowsType(raw) && s.allowsType(val) {
		return val
	}
	return raw
}

// convertedToType returns raw, or the value that is meant by it if s needs another type. The first row that fits counts:
//
//	raw                    s needs           converted
//	"", "null"             a list of texts   null, which is valid if the list is optional
//	5                      a text            "5", of arguments only
//	"5", "true", "[1,2]"   what is inside    5, true, [1,2]
//	[], "[]"               an object         {}, as PHP does not distinguish them
//	"a"                    a list of texts   ["a"]
func (s *schema) convertedToType(raw []byte, from origin) []byte {
	if s.allowsType(raw) || s.jsonType == "" || from == fromSchema {
		return raw
	}
	isText, inside := raw[0] == '"', raw
	if isText {
		inside = bytes.TrimSpace(unquoteBytes(raw))
	}
	value, err := compactJSON(inside) // raw itself if it is not a text
	isJSON := err == nil
	switch {
	case s.isNullFor(raw):
		return []byte("null")
	case s.isPlainText() && from == fromCall && isShortInteger(raw):
		return join(nil, `"`, string(raw), `"`)
	case isJSON && s.allowsType(value):
		return value
	case isJSON && s.jsonType == "object" && string(value) == "[]":
		return []byte("{}")
	case s.isListOfTexts() && isText && !bytes.HasPrefix(inside, []byte("[")) && !bytes.HasPrefix(inside, []byte("{")): // or a mistake is in the JSON
		return join(nil, "[", string(raw), "]")
	}
	return raw
}

// isNullFor reports whether raw stands for null: for a list of texts, models write "" and "null" too.
func (s *schema) isNullFor(raw []byte) bool {
	return isNull(raw) || s.isListOfTexts() && raw[0] == '"' && (string(raw) == `""` || string(bytes.TrimSpace(unquoteBytes(raw))) == "null")
}

// isListOfTexts reports whether s describes a list of strings.
func (s *schema) isListOfTexts() bool {
	return s.jsonType == "array" && s.items != nil && s.items.jsonType == "string"
}

// isShortInteger reports whether raw is a whole number in plain digits. A JavaScript client may have rounded one of more
// than 15 digits.
func isShortInteger(raw []byte) bool {
	return jsonTypeOf(raw) == "number" && isPlainInteger(raw) && len(bytes.TrimPrefix(raw, []byte("-"))) <= 15 && string(raw) != "-0"
}

// allowsType reports whether a value has a JSON type that s allows. encoding/json stores a list of numbers in a
// []byte too.
func (s *schema) allowsType(raw []byte) bool {
	typ := jsonTypeOf(raw)
	return s.types == nil || slices.Contains(s.types, typ) ||
		typ == "number" && slices.Contains(s.types, "integer") && (isPlainInteger(raw) || decimalOf(string(raw)).isInteger()) ||
		typ == "array" && s.encoding != "" && !s.isListed()
}

// allowsNull reports whether null is a valid value. encoding/json stores it in every Go type.
func (s *schema) allowsNull() bool {
	return !s.isListed() || s.mayBeNil ||
		(s.types == nil || slices.Contains(s.types, "null")) && (s.enum == nil || slices.ContainsFunc(s.enum, isNull))
}

// jsonTypeOf returns the JSON type of a value.
func jsonTypeOf(raw []byte) string { return typeNames[typeByFirst[raw[0]&127]] }

// typeByFirst holds the index in typeNames of the type of a value, by its first byte. 0 is a number.
var typeByFirst = [128]uint8{'{': 1, '[': 2, '"': 3, 't': 4, 'f': 4, 'n': 5}

// isObject reports whether raw, which is JSON or empty, is an object.
func isObject(raw []byte) bool { return len(raw) > 0 && raw[0] == '{' }

// isNull reports whether raw is the JSON value null.
func isNull(raw []byte) bool { return string(raw) == "null" }

// allowedTypes returns the types that s allows, in words.
func (s *schema) allowedTypes() string {
	var allowed []string
	for _, typ := range s.types {
		switch {
		case strings.IndexByte("aio", typ[0]) >= 0:
			typ = "an " + typ
		case typ != "null":
			typ = "a " + typ
		}
		allowed = append(allowed, typ)
	}
	return strings.Join(allowed, " or ")
}

// unknownName returns the error for a member that is unknown. It lists the names that exist, so
// that a model finds the right one.
func (s *schema) unknownName() error {
	var names []string
	for _, f := range s.fields {
		names = append(names, f.name)
	}
	return errors.New("is unknown (there is " + cmp.Or(strings.Join(names, ", "), "no argument here") + ")")
}

// enumHas reports whether the enum of s has a value, which may be written in another way.
func (s *schema) enumHas(raw []byte) bool {
	if raw[0] == '"' && bytes.IndexByte(raw, '\\') >= 0 { // its escapes are decoded once, and not for each value
		raw = appendString(nil, string(unquoteBytes(raw)))
	}
	return slices.ContainsFunc(s.enum, func(val []byte) bool { return isSame(val, raw) })
}

// isSame reports whether two texts are the same JSON value, such as 1.0 and 1, or {"a":1,"b":2} and {"b":2,"a":1}. It
// may search other for each part of val, so val is the one in a schema.
func isSame(val, other []byte) bool {
	typ := jsonTypeOf(val)
	switch {
	case typ != jsonTypeOf(other):
		return false
	case bytes.Equal(val, other):
		return true
	case typ == "string":
		return bytes.Equal(unquoteBytes(val), unquoteBytes(other))
	case typ == "number":
		return decimalOf(string(val)) == decimalOf(string(other))
	case typ == "array":
		parts, n := partsOf(val), 0
		for _, part := range members(other) {
			if n == len(parts) || !isSame(parts[n], part) {
				return false
			}
			n++
		}
		return n == len(parts)
	case typ != "object": // true and false
		return false
	}
	for name, part := range members(val) {
		if counterpart := member(other, string(name)); counterpart == nil || !isSame(part, counterpart) {
			return false
		}
	}
	return len(partsOf(val)) == len(partsOf(other))
}

// partsOf returns the elements of a list, or the values of the members of an object.
func partsOf(raw []byte) (parts [][]byte) {
	for _, part := range members(raw) {
		parts = append(parts, part)
	}
	return parts
}

// checkText adds the faults of a string that does not have the length or the form that s requires. They quote given.
func (c *checker) checkText(s *schema, raw, given []byte, at *path) {
	if s.bounds == [2]*bound{} && s.format == "" && s.encoding == "" {
		return // without decoding the string, which may be long
	}
	text, _ := unquote(raw)
	c.checkLength(s, utf8.RuneCountInString(text), at)
	if !isWellFormed(s.format, text) {
		c.addMismatch("be of the format", s.format+", as in "+dateExamples[s.format], given, at)
	}
	if s.encoding != "" {
		if _, err := base64.StdEncoding.DecodeString(text); err != nil {
			c.addMismatch("be", "base64", given, at)
		}
	}
}

// dateExamples holds an example of each format that is checked.
var dateExamples = map[string]string{"date": "2026-01-31", "date-time": "2026-01-31T09:30:00Z"}

// isWellFormed reports whether a string has a format, if that is one of a date. Unlike package time
// it refuses hours of one digit and commas, which RFC 3339 does not have.
func isWellFormed(format, s string) bool {
	if format == "date" {
		s += "T00:00:00Z"
	} else if format != "date-time" {
		return true
	}
	return len(s) > 19 && s[13] == ':' && s[19] != ',' && new(time.Time).UnmarshalText([]byte(s)) == nil
}

// beyond returns "at least" or "at most" and the bound that a number, or the length of a string or a list, is beyond, or ""
// if there is none.
func (s *schema) beyond(num []byte) string {
	low, high := s.bounds[0], s.bounds[1]
	if low == nil && high == nil {
		return ""
	}
	switch d := decimalOf(string(num)); {
	case low != nil && d.isLess(low.decimal):
		return "at least " + low.text
	case high != nil && high.isLess(d):
		return "at most " + high.text
	}
	return ""
}

// checkLength adds a fault for a string or a list that is too short or too long.
func (c *checker) checkLength(s *schema, length int, at *path) {
	num := strconv.AppendInt(nil, int64(length), 10)
	if bound := s.beyond(num); bound != "" {
		c.addMismatch("have a length of", bound, num, at)
	}
}

// A bound is a number in a schema: its value, and how it is written.
type bound struct {
	decimal
	text string
}

func boundOf(num string) *bound { return &bound{decimalOf(num), num} }

// A decimal is the exact value of a JSON number: 0.digits times ten to the power of point. The digits neither begin
// nor end with a zero, and 0 has none. So -1.20e3 has the digits 12, and its point is 4.
type decimal struct {
	isNegative bool
	digits     string
	point      int
}

// decimalOf returns the value of a JSON number. An exponent beyond 2^30 counts as 2^30.
func decimalOf(num string) decimal {
	mantissa, isNegative := strings.CutPrefix(num, "-")
	exponent := 0
	if e := max(strings.IndexByte(mantissa, 'e'), strings.IndexByte(mantissa, 'E')); e >= 0 {
		exponent, _ = strconv.Atoi(mantissa[e+1:]) // the greatest or the least int if it is too large
		mantissa = mantissa[:e]
	}
	digits, fraction, hasFraction := strings.Cut(mantissa, ".")
	if hasFraction {
		digits += fraction
	}
	digits = strings.TrimLeft(digits, "0")
	point := len(digits) - len(fraction) + max(-1<<30, min(exponent, 1<<30)) // of 0.05: 1 - 2 + 0
	digits = strings.TrimRight(digits, "0")
	if digits == "" {
		return decimal{point: math.MinInt} // less than each positive number, also for -0
	}
	return decimal{isNegative, digits, point}
}

// isLess reports whether d is less than e.
func (d decimal) isLess(e decimal) bool {
	switch {
	case d.isNegative != e.isNegative:
		return d.isNegative
	case d.isNegative:
		d, e = e, d // -2 is less than -1, because 1 is less than 2
	}
	if d.point != e.point {
		return d.point < e.point
	}
	return d.digits < e.digits // in the order of texts, because 0.12 is less than 0.2
}

// isInteger reports whether d is an integer.
func (d decimal) isInteger() bool { return len(d.digits) <= max(0, d.point) }

// isLong reports whether the magnitude of d is above 2^53, so that a float64 may not hold it exactly.
func (d decimal) isLong() bool {
	d.isNegative = false
	return decimalOf("9007199254740992").isLess(d)
}

// plainNumber returns a whole number of at most 20 digits, as each Go integer has, in plain digits: 5 for 5.0, 1200 for
// 1.2e3, and 0 for -0. Any other number is returned as it is written.
func plainNumber(num []byte) []byte {
	if isPlainInteger(num) && string(num) != "-0" {
		return num
	}
	d := decimalOf(string(num))
	if !d.isInteger() || d.point > 20 {
		return num
	}
	plain := cmp.Or(d.digits, "0")
	for len(plain) < d.point {
		plain += "0"
	}
	if d.isNegative {
		plain = "-" + plain
	}
	return []byte(plain)
}

// isPlainInteger reports whether a number is written with neither a fraction nor an exponent: 5 and -5 are,
// 5.0 and 5e0 are not.
func isPlainInteger(num []byte) bool {
	return bytes.IndexByte(num, '.') < 0 && bytes.IndexByte(num, 'e') < 0 && bytes.IndexByte(num, 'E') < 0
}

// setFields sets the fields of a struct from raw, an object, and returns the faults as one error.
func (s *schema) setFields(v reflect.Value, raw []byte) error {
	var c checker
	for name, val := range members(raw) {
		if f := s.property(string(name)); f != nil { // a schema by hand may allow members that the type does not take
			c.addFault(f.set(v, val), &path{outer: &path{}, name: name})
		}
	}
	return c.err()
}

// set sets the field f of a struct v from raw, which read has returned.
func (f *field) set(v reflect.Value, raw []byte) error {
	if f.hasStringOption { // which encoding/json knows
		object := closeWith(appendMember([]byte("{"), []byte(f.name), raw), "}")
		return setAny(v, object)
	}
	for _, i := range f.index {
		v = target(v).Field(i)
	}
	switch typ := jsonTypeOf(raw); {
	case typ == "string" && f.schema.isPlainText():
		text, _ := unquote(raw)
		target(v).SetString(text)
	case typ == "boolean" && f.schema.jsonType == "boolean":
		target(v).SetBool(raw[0] == 't')
	case typ == "number" && (f.schema.jsonType == "number" || f.schema.jsonType == "integer"):
		return setNumber(target(v), string(raw))
	default:
		return setAny(v, raw)
	}
	return nil
}

// setNumber sets an integer or a float. The bounds of its type were checked, so an error shows that a check is missing.
func setNumber(v reflect.Value, num string) error {
	bits := v.Type().Bits()
	if v.CanInt() {
		n, err := strconv.ParseInt(num, 10, bits)
		v.SetInt(n)
		return err
	} else if v.CanUint() {
		n, err := strconv.ParseUint(num, 10, bits)
		v.SetUint(n)
		return err
	}
	n, err := strconv.ParseFloat(num, bits)
	v.SetFloat(n)
	return err
}

// target returns what v points to, through any number of pointers. It sets those that are nil.
func target(v reflect.Value) reflect.Value {
	for v.Kind() == reflect.Pointer {
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		v = v.Elem()
	}
	return v
}

// setAny sets a value with encoding/json. It returns an error of encoding/json, or of a method of the type, in one line and in
// words of JSON.
func setAny(v reflect.Value, raw []byte) (err error) {
	p := reflect.NewAt(v.Type(), v.Addr().UnsafePointer()).Interface() // v.Addr().Interface() panics for an unexported struct that is embedded
	// A method UnmarshalJSON may append to what it is given, behind which are other arguments.
	raw = slices.Clip(raw)
	// Without json.Unmarshal, which would validate a long json.RawMessage again.
	if u, ok := p.(json.Unmarshaler); ok {
		err = u.UnmarshalJSON(raw)
	} else {
		err = json.Unmarshal(raw, p)
	}
	if err == nil {
		return nil
	}
	text := err.Error()
	if wrong := (*json.UnmarshalTypeError)(nil); errors.As(err, &wrong) {
		text = cmp.Or(wrong.Field, "the value") + " must not be a JSON " + wrong.Value
	} else if strings.HasPrefix(text, "json: ") { // what follows is about Go
		return errors.New("is not valid")
	}
	return errors.New("is not valid: " + oneLine(text))
}

// ---- values to JSON ----
//
// encoding/json writes values. This section then replaces each null as the Go type shows. The values in an
// interface, and those with a MarshalJSON, stay as encoding/json writes them unless the output schema
// describes them.

// marshal is json.Marshal without escapes for HTML, for values of users. As far as the type shows, nil
// slices and maps are written as empty ones, and nil pointers in structs are left out. The result
// is one line that every client can read, whatever methods of the user write.
func marshal(v any) ([]byte, error) { return marshalOutput(v, nil, nil) }

// marshalOutput is marshal for the output of a tool. The parameter s describes the type of v; it
// may be nil, and is then derived if the JSON has a null. The output schema may be nil too. If it is
// not, a null that it does not allow is replaced as it shows, or is an error.
func marshalOutput(v any, s, output *schema) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil { // a model may read the text, so it must not name the package
		return nil, errors.New(strings.TrimPrefix(err.Error(), "json: "))
	}
	raw := bytes.TrimSuffix(buf.Bytes(), []byte("\n"))
	out := reflect.Indirect(reflect.ValueOf(v)) // v may point to it
	// A nil pointer is no value, also if the type that it could point to is a map.
	if v == nil || out.Kind() == reflect.Pointer && out.IsNil() || !bytes.Contains(raw, []byte("null")) {
		return cleanJSON(raw), nil
	}
	if s == nil {
		s, _ = derive(reflect.TypeOf(v), "", forNulls)
	}
	if isNull(raw) { // which is no output, and not a fault
		return []byte(cmp.Or(s.inPlaceOfNull(), "null")), nil
	}
	var c checker
	raw = c.filled(raw, s, cmp.Or(output, anything), &path{})
	return cleanJSON(raw), c.err()
}

// filled returns raw, in which each null inside is replaced. The parameter typed shows what they stand for: it is the
// schema of the Go type, but the output schema in place of an interface or a type with a method. The first row that fits
// counts:
//
//	what a null stands for                          is sent as
//	a member with a pointer type, if not required   nothing
//	what inPlaceOfNull shows                        its text
//	what may be null by the output schema           null
//	a member that is optional in the output schema  nothing
//	anything else                                   null, and is a fault
func (c *checker) filled(raw []byte, typed, output *schema, outer *path) []byte {
	if typed == anything { // and so is all that is inside
		return raw
	}
	at := &path{outer: outer}
	return c.rewriteParts(raw, at, func(name, given []byte) (val []byte, keep bool) {
		shown, inner := typed.part(name), output.part(name)
		if shown.types == nil {
			shown = inner
		}
		if !isNull(given) {
			return c.filled(given, shown, inner, at), true
		}
		f, listed := typed.property(string(name)), output.property(string(name))
		isPointer := f != nil && f.structField != nil && f.typ.Kind() == reflect.Pointer
		isRequired := listed != nil && !listed.optional
		switch text := shown.inPlaceOfNull(); {
		case isPointer && !isRequired:
			return nil, false
		case text != "":
			return []byte(text), true
		case inner.allowsNull():
		case listed != nil && listed.optional:
			return nil, false
		default:
			c.addFault(errors.New("is null, which the output schema does not allow"), at)
		}
		return given, true
	})
}

// inPlaceOfNull returns what is sent for a null that s describes: null if s is listed and allows it, or an empty list, map or
// text of base64, or "" if a null is none of these, such as a nil pointer to a struct.
func (s *schema) inPlaceOfNull() string {
	switch {
	case s.isListed() && s.allowsNull():
		return "null"
	case s.jsonType == "array":
		return "[]"
	case s.jsonType == "object" && !s.isStruct() && s.fields == nil && (s.others != nil || s.allowsOthers):
		return "{}"
	case s.encoding != "" && s.jsonType == "string":
		return `""`
	}
	return ""
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

// appendBlock appends c as a block, and a comma. It returns an error if a client, or a model's provider, would
// refuse the block, or if it cannot be encoded. The first bytes of a picture decide on its type, because a provider refuses
// the rest of the conversation if the type is another.
func (c Content) appendBlock(b []byte) (_ []byte, err error) {
	detected := pictureType(c.Data)
	if c.Type == "image" && detected != "" {
		c.MIMEType = detected
	}
	switch {
	case c.Type == "text" || c.Type == "":
		b = stringMember(join(b, `{"type":"text",`), "text", c.Text)
	case c.Type == "image" && len(c.Data) > 0 && detected == "" && isPictureType(c.MIMEType):
		err = fmt.Errorf("the data begins with %q and is not a file of type %s: Image takes the bytes of such a file, not base64",
			c.Data[:min(len(c.Data), 16)], c.MIMEType)
	case (c.Type == "image" || c.Type == "audio") && len(c.Data) > 0 && c.MIMEType != "":
		b = base64.StdEncoding.AppendEncode(join(b, `{"type":"`, c.Type, `","data":"`), c.Data)
		b = stringMember(join(b, `",`), "mimeType", c.MIMEType)
	case c.Type == "resource_link" && c.Link != nil && c.Link.Name == "":
		err = errors.New("the name is missing")
	case c.Type == "resource_link" && c.Link != nil:
		raw, err1 := marshal(c.Link)
		err = cmp.Or(checkURI(c.Link.URI), checkIcons(c.Link.Icons), err1)
		b = copyMembersExcept(join(b, `{"type":"resource_link",`), raw, "annotations", "_meta")
		// The block has one of each: its own, or that of the link.
		if reflect.ValueOf(c.Annotations).IsZero() {
			c.Annotations = c.Link.Annotations
		}
		if c.Meta == nil {
			c.Meta = c.Link.Meta
		}
	case c.Type == "resource" && c.Resource != nil:
		b, err = c.Resource.appendContents(join(b, `{"type":"resource","resource":`))
		err = cmp.Or(checkURI(c.Resource.URI), err)
	default:
		// A model's provider would refuse the rest of the conversation.
		return nil, fmt.Errorf("content of type %q is unknown, or lacks its data, MIME type, link or resource", c.Type)
	}
	annotations, err2 := jsonOf(c.Annotations)
	meta, err3 := jsonOf(c.Meta)
	if err = cmp.Or(checkAnnotations(c.Annotations), err, err2, err3); err != nil {
		return nil, fmt.Errorf("content of type %q: %w", cmp.Or(c.Type, "text"), err)
	}
	return closeWith(rawMember(rawMember(b, "annotations", annotations), "_meta", meta), "},"), nil
}

// pictureType returns the MIME type of a file if it begins as PNG, JPEG, GIF or WebP, and otherwise "".
func pictureType(file []byte) string {
	for _, picture := range []struct {
		mimeType, has string
		at            int // the index of what it has
	}{
		{"image/png", "\x89PNG", 0},
		{"image/jpeg", "\xff\xd8\xff", 0},
		{"image/gif", "GIF8", 0},
		{"image/webp", "WEBP", 8}, // behind RIFF and a size
	} {
		if bytes.HasPrefix(file[min(len(file), picture.at):], []byte(picture.has)) {
			return picture.mimeType
		}
	}
	return ""
}

// isPictureType reports whether a MIME type, which may have parameters, is one that pictureType returns, or image/jpg.
func isPictureType(mimeType string) bool {
	name, _, _ := strings.Cut(strings.ToLower(mimeType), ";")
	return slices.Contains([]string{"image/png", "image/jpeg", "image/jpg", "image/gif", "image/webp"}, strings.TrimSpace(name))
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

// cleanJSON replaces what a user's JSON or MarshalJSON may hold and some clients cannot read:
// invalid UTF-8, characters that some programs take for the end of a line, and escapes of half a
// character. Apart from that, raw is valid JSON. It may be changed. All JSON that is sent and was not written
// by this library passes through here, except ids and progress tokens, which isValidID checks.
func cleanJSON(raw []byte) []byte {
	if !utf8.Valid(raw) {
		raw = bytes.ToValidUTF8(raw, []byte("\ufffd"))
	}
	for _, end := range [][2]string{{"\u2028", `\u2028`}, {"\u2029", `\u2029`}} {
		if bytes.Contains(raw, []byte(end[0])) {
			raw = bytes.ReplaceAll(raw, []byte(end[0]), []byte(end[1]))
		}
	}
	// Parsers in Python and Rust refuse a line with an escape of half a character.
	rest := raw
	for i := bytes.IndexByte(rest, '\\'); i >= 0; i = bytes.IndexByte(rest, '\\') {
		if rest[i+1] != 'u' {
			rest = rest[i+2:]
			continue
		}
		char, size := decodeUnicode(rest[i:])
		if utf16.IsSurrogate(char) {
			copy(rest[i:], `\ufffd`) // of the same length
		}
		rest = rest[i+size:]
	}
	return raw
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

// A trust says whether JSON is known to be valid. A line is validated once, as a whole. When its
// parts are walked again, strings are only skipped, because they may be long.
type trust bool

const untrusted, trusted trust = false, true

// scan returns the index after the value that begins at b[i], or -1 if it is not
// valid JSON. It does not check UTF-8.
func scan(b []byte, i int) int { return walk(b, i, 0, untrusted, nil) }

// maxDepth bounds the levels of nesting, as in encoding/json.
const maxDepth = 10_000

// walk is scan, and calls visit, unless it is nil, with each member of an object, or with
// each element of an array and a nil name. If visit returns false, walk returns -1. The argument
// depth is the number of containers around the value.
func walk(b []byte, i, depth int, t trust, visit func(name, val []byte) bool) int {
	switch {
	case i >= len(b):
		return -1
	case b[i] == '"':
		return scanString(b, i, t)
	case b[i] != '{' && b[i] != '[':
		return scanWord(b, i, t)
	case depth == maxDepth:
		return -1
	}
	object, closer := b[i] == '{', b[i]+2 // '{'+2 is '}', and '['+2 is ']'
	if i = skipSpace(b, i+1); i < len(b) && b[i] == closer {
		return i + 1
	}
	for i < len(b) {
		var key []byte
		if object {
			keyEnd := scanString(b, i, t)
			if keyEnd < 0 {
				return -1
			}
			key = b[i:keyEnd] // with its quotes
			if i = skipSpace(b, keyEnd); i == len(b) || b[i] != ':' {
				return -1
			}
			i = skipSpace(b, i+1)
		}
		end := walk(b, i, depth+1, t, nil)
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

// unquoteBytes returns the text of a valid JSON string, given with its quotes, or nil for
// nil. It copies the text only if it holds escapes.
func unquoteBytes(quoted []byte) []byte {
	switch {
	case quoted == nil:
		return nil
	case bytes.IndexByte(quoted, '\\') < 0:
		return quoted[1 : len(quoted)-1]
	}
	text, _ := unquote(quoted)
	return []byte(text)
}

// members returns an iterator over the members of an object, or over the elements of an
// array, whose names are nil. b is valid JSON or empty.
func members(b []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(name, val []byte) bool) { walk(b, 0, 0, trusted, yield) }
}

// An into is the name of a member to extract, and where its value is stored.
type into struct {
	name string
	to   *[]byte
}

// extract stores the wanted members of an object, and reports whether b is valid JSON. If
// there are several of one name, the last one counts, as in encoding/json.
func extract(b []byte, t trust, wanted ...into) (valid bool) {
	return len(b) == walk(b, 0, 0, t, func(name, val []byte) bool {
		for _, w := range wanted {
			if w.name == string(name) {
				*w.to = val
			}
		}
		return true
	})
}

// member returns a member of an object, or nil if there is none. If there are several of the name, the last one counts.
func member(object []byte, name string) (val []byte) {
	for key, part := range members(object) {
		if string(key) == name {
			val = part
		}
	}
	return val
}

// skipSpace returns the index of the first byte of b[i:] that is not a blank.
func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\t' || b[i] == '\r' || b[i] == '\n') {
		i++
	}
	return i
}

// scanString is scan for a string, in which control characters and unknown escapes
// are invalid.
func scanString(b []byte, i int, t trust) int {
	if b[i] != '"' {
		return -1
	} else if t == trusted {
		return skipString(b, i)
	}
	for i++; ; {
		i = skipPlain(b, i)
		switch {
		case i == len(b) || b[i] < ' ':
			return -1
		case b[i] == '"':
			return i + 1
		case i+1 < len(b) && meaningOf[b[i+1]] != 0: // b[i] is a backslash
			i += 2
		case escapedUnit(b[i:]) >= 0:
			i += len(`\ud83d`)
		default:
			return -1
		}
	}
}

// skipString is scanString for a string that is known to be valid. For any other it could panic or
// loop forever.
func skipString(b []byte, i int) int {
	for {
		i += 1 + bytes.IndexByte(b[i+1:], '"')
		first := i // of the backslashes before the quote
		for b[first-1] == '\\' {
			first--
		}
		if (i-first)%2 == 0 {
			return i + 1
		}
	}
}

// skipPlain returns the index of the first quote, backslash or control character in s[i:], or len(s). Its last loop
// would do. The first one examines eight bytes at a time, because texts may be long: the lowest byte of w is s[i], and
// the highest s[i+7]. Quotes and control characters are found together: the bit of 2 is flipped, which makes 0x20 of
// a quote, 0x22 of a blank, and leaves control characters below 0x20. So these are the bytes below 0x21.
func skipPlain[T string | []byte](s T, i int) int {
	for ; i < len(s)-7; i += 8 {
		w := uint64(s[i]) | uint64(s[i+1])<<8 | uint64(s[i+2])<<16 | uint64(s[i+3])<<24 |
			uint64(s[i+4])<<32 | uint64(s[i+5])<<40 | uint64(s[i+6])<<48 | uint64(s[i+7])<<56
		below := bytesBelow(w^(eachByte*2), 0x21) | bytesBelow(w^(eachByte*'\\'), 1)
		if found := below &^ w & (eachByte * 0x80); found != 0 { // &^ w, because bytes from 0x80 on are plain
			return i + bits.TrailingZeros64(found)/8
		}
	}
	for i < len(s) && s[i] >= ' ' && s[i] != '"' && s[i] != '\\' {
		i++
	}
	return i
}

// eachByte times a byte is a word that has it eight times.
const eachByte = 0x0101010101010101

// bytesBelow finds the lowest byte of w that is less than n, if all bytes are less than 0x80: in the result it is the lowest one
// that has the bit 0x80, because the subtraction went below 0. It borrows from the bytes above it, which may then be found
// too. With n = 0x21, a byte 0x20 becomes 0xff, and 0x22 becomes 0x01.
func bytesBelow(w uint64, n byte) uint64 { return w - eachByte*uint64(n) }

// scanWord is scan for a number, true, false or null. It takes all letters, digits, +, - and . that follow, and
// json.Valid says whether they are one of these.
func scanWord(b []byte, i int, t trust) int {
	end := i
	// Digits first, because that is faster, and most characters are digits.
	for end < len(b) && ('0' <= b[end] && b[end] <= '9' || strings.IndexByte(alphanumeric+"+-.", b[end]) >= 0) {
		end++
	}
	if t == untrusted && !json.Valid(b[i:end]) {
		return -1
	}
	return end
}

// isValidID reports whether raw, which is valid JSON or nil, is a string or a whole number, such as 5, 5.0 or 1e5. An id
// is sent back as it came, so a string must be what cleanJSON leaves as it is.
func isValidID(raw []byte) bool {
	if len(raw) > 0 && jsonTypeOf(raw) == "number" {
		return isPlainInteger(plainNumber(raw))
	}
	return len(raw) > 0 && raw[0] == '"' && bytes.Equal(raw, cleanJSON(bytes.Clone(raw)))
}

// unquote returns the text of quoted, which is valid JSON or nil, and reports whether it is a
// string.
func unquote(quoted []byte) (s string, ok bool) {
	if len(quoted) < 2 || quoted[0] != '"' {
		return "", false
	}
	raw := quoted[1 : len(quoted)-1]
	var b strings.Builder
	b.Grow(len(raw))
	for i := bytes.IndexByte(raw, '\\'); i >= 0; i = bytes.IndexByte(raw, '\\') {
		b.Write(raw[:i])
		if letter := raw[i+1]; letter != 'u' {
			b.WriteByte(meaningOf[letter])
			raw = raw[i+2:]
			continue
		}
		char, size := decodeUnicode(raw[i:])
		b.WriteRune(char) // half a character becomes U+FFFD
		raw = raw[i+size:]
	}
	b.Write(raw)
	return b.String(), true
}

// decodeUnicode returns the character that the valid \u escape at the beginning of raw stands for, and the length of
// the escape. A character above U+FFFF is written as two escapes, as in \ud83d\ude00, and size is that of both. If
// only one of them is there, its half of the character is returned.
func decodeUnicode(raw []byte) (char rune, size int) {
	char, size = escapedUnit(raw), len(`\ud83d`)
	if utf16.IsSurrogate(char) {
		if whole := utf16.DecodeRune(char, escapedUnit(raw[size:])); whole != utf8.RuneError {
			return whole, 2 * size
		}
	}
	return char, size
}

// escapedUnit returns the unit of UTF-16 in the \u escape at the beginning of raw, or -1 if there is no valid one.
func escapedUnit(raw []byte) rune {
	if len(raw) < len(`\ud83d`) || raw[0] != '\\' || raw[1] != 'u' {
		return -1
	}
	n, err := strconv.ParseUint(string(raw[len(`\u`):len(`\ud83d`)]), 16, 16) // which accepts no sign and no _
	if err != nil {
		return -1
	}
	return rune(n)
}

// meaningOf maps the letter after a backslash to the byte that the escape stands for, or 0.
var meaningOf = [256]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// letterOf maps a byte to the letter of the escape that is written for it, or 0.
var letterOf = [256]byte{'"': '"', '\\': '\\', '\b': 'b', '\f': 'f', '\n': 'n', '\r': 'r', '\t': 't'}

// appendString appends s as a JSON string, byte for byte as encoding/json does
// without HTML escapes. It leaves text that is not UTF-8, and U+2028 and U+2029, to
// encoding/json.
func appendString(b []byte, s string) []byte {
	if !utf8.ValidString(s) || strings.Contains(s, "\u2028") || strings.Contains(s, "\u2029") {
		raw, _ := marshal(s) // a string cannot fail
		return append(b, raw...)
	}
	b = append(slices.Grow(b, len(s)+len(s)/16+2), '"') // with room for some escapes
	for at, end := 0, 0; ; at = end + 1 {
		end = skipPlain(s, at)
		b = append(b, s[at:end]...)
		if end == len(s) {
			return append(b, '"')
		}
		if letter := letterOf[s[end]]; letter != 0 {
			b = append(b, '\\', letter)
		} else {
			b = fmt.Appendf(b, `\u%04x`, s[end])
		}
	}
}

// compactJSON returns JSON of the user or the client in one line, without blanks.
func compactJSON(raw []byte) ([]byte, error) {
	var buf bytes.Buffer
	if err := json.Compact(&buf, raw); err != nil {
		return nil, fmt.Errorf("not valid JSON: %w", err)
	} else if !utf8.Valid(raw) {
		return nil, errors.New("not valid JSON: not UTF-8")
	}
	return cleanJSON(buf.Bytes()), nil
}

// closeWith removes the comma after the last member, and appends parts.
func closeWith(b []byte, parts ...string) []byte {
	return join(bytes.TrimSuffix(b, []byte(",")), parts...)
}

// join appends all parts to b. It must not be inlined: with Go 1.26 that makes the example hello 48 KB
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

// appendMember appends a member of an object, or an element of an array if name is nil, and a comma.
func appendMember(b, name, val []byte) []byte {
	if name != nil {
		b = append(appendString(b, string(name)), ':')
	}
	return append(append(b, val...), ',')
}

// rawMember appends a member whose value is JSON, and a comma. It appends nothing if
// val is empty.
func rawMember(b []byte, name string, val []byte) []byte {
	if len(val) == 0 {
		return b
	}
	return join(append(join(b, `"`, name, `":`), val...), ",")
}

// copyMembersExcept appends the members of an object, except those of these names, with a comma after each.
func copyMembersExcept(b, object []byte, names ...string) []byte {
	for name, val := range members(object) {
		if !slices.Contains(names, string(name)) {
			b = appendMember(b, name, val)
		}
	}
	return b
}
