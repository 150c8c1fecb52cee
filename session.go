// SPDX-License-Identifier: MIT
// Version 2.4.0, 2026-11-23

package mcp

// One client.
//
//	r ─▶ lineReader ─▶ accept ─▶ message ─▶ request ─▶ begin ─▶ handle ─▶ respond ─▶ lineWriter ─▶ w
//	          │                     │          │                   │                     ▲
//	          │                     │          └─ dispatch: what needs no handler ────────┤
//	          │                     │                              │                     │
//	          │                     ├─ notice: initialized, cancelled                    │
//	          │                     └─ deliver: the client's answer ─▶ ask ──────────────┘
//	          └─ the end of the input: see cancel.go
//
// Everything up to begin runs on one goroutine at a time, which has the turn to
// read. So line N has taken effect before line N+1 is looked at: a cancel never
// overtakes its request. While no other request runs, this goroutine serves the
// request itself, which saves waking another thread. It lends the turn
// meanwhile: when that lasts a millisecond, or up to five with a long text, or when
// the handler asks the client, the turn passes to a new goroutine. So the client is
// heard whatever a handler does, and nobody waits for the turn.
//
// These are all the goroutines of a session, but for those of timers, which never
// wait: what each does, and, behind the colon, who waits for it.
//
//	read                 has the turn to read: the WaitGroup, for its line and its writes
//	handle               serves one request that the reader does not serve: the WaitGroup
//	writeAll             was handed the turn to write: the WaitGroup
//	lineReader.read      one Read, begun while too much output is unsent: whoever reads next
//	lineWriter.writeAll  writes the trace or the diagnostics: wait, until Drain is over;
//	                     after that, or after an ErrDrain, nobody
//	drain                the drain waiter, which waits for the WaitGroup: wait, until Drain is over
//	within               writes what was held when Drain was over: wait, for a moment;
//	                     turns a logger back: ServeStdio, for a moment
//	endOnSignal          waits for the first signal: ServeStdio
//
// Only a Read that cannot be interrupted, of either read, may outlive Serve, a Write
// of trace or diagnostics that is longer than Drain, and after an ErrDrain what would
// not come to its end.
//
// No lock is held while r or w is used or a handler runs. Where two are needed,
// session.mu is taken first.

import (
	"bytes"
	"cmp"
	"container/list"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"io/fs"
	"log"
	"reflect"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

const (
	outputBound = 16 << 20        // unsent bytes above which no further line is taken
	aheadBound  = 16 << 20        // bytes above which nothing more is read ahead meanwhile
	notesBound  = 64 << 10        // unsent diagnostics above which they are dropped
	traceBound  = 64 << 20        // the same for the trace
	keepBuffer  = 64 << 10        // bytes of a buffer to read into, and of one to write from that is kept
	keepHead    = 64 << 10        // bytes that are kept of the beginning of a line that is too long; and so many blanks may stand behind a line
	minRead     = keepBuffer / 16 // room below which a Read gets a new buffer
	maxReused   = 4 << 20         // bytes above which a line's memory is not used again
	maxBatch    = 10_000          // members of one batch
	maxStreams  = 64              // open subscriptions/listen requests
	maxWatched  = 10_000          // resources that one of them, or a legacy session, watches
	maxURI      = 8 << 10         // bytes in the URI of a resource that is watched
	maxMatched  = 64 << 10        // bytes in a URI that may fit a template
	maxRepeated = 1 << 10         // bytes in an id or a token that notifications repeat, and of the end of a line that is too long
	maxDepth    = 10_000          // of nesting, as in encoding/json
	maxEmpty    = 100             // Reads in a row that give nothing, as in bufio

	maxInline = time.Millisecond // of work, after which a lent turn is passed on, or answers have waited long enough
	longText  = 256 << 10        // bytes of a line: for each so many, up to four times, a loan lasts maxInline longer
)

// A session is one client: the two ends of a connection and what is going on
// between them.
type session struct {
	srv    *Server
	ctx    context.Context // parent of every handler's; ends when the session does
	cancel context.CancelCauseFunc

	turn  turn
	in    lineReader // for whoever has the turn
	out   lineWriter
	trace *lineWriter // to the file of MCP_TRACE; nil: none
	notes lineWriter  // to Server.ErrorLog

	identity                 string // for modern results: name and version alone
	experimental, extensions []byte // capabilities, as JSON

	// A session ends in this order. The end begins: r ends or fails, w fails, or the ctx
	// of Serve ends. No further line is accepted, except that lines which were read before
	// the end of r still are. The handlers end. Serve returns.
	inputOver chan struct{}  // closed when r has ended or failed
	closing   chan struct{}  // closed when no further line is accepted
	wg        sync.WaitGroup // lines being accepted, requests that were begun, and writes
	returned  chan struct{}  // closed when Serve returns

	failed context.Context         // ends with the first failure of r or w; Serve returns its cause
	fail   context.CancelCauseFunc // with an error, never nil

	mu           sync.Mutex            // guards what follows, for a few lines at a time
	askErr       error                 // why the client is not asked any more
	requests     map[string]*request   // owed an answer, by raw id
	running      map[*request]struct{} // whose handlers run, also if cancelled; at most Server.MaxConcurrent, until the end
	waiting      list.List             // of *request: for their turn to run
	pending      map[string]chan reply // our requests that await the client's answer, by our id
	lastCall     int64
	lastResponse int64     // where in the output the last answer ends
	batched      int       // bytes of answers that wait for the others of their batches
	streams      []*stream // where changes are told, oldest first
	legacy       legacy    // whoever has the turn to read writes it with mu, and reads it without; others need mu
	notesNow     int       // diagnostics of the current second
	notesTime    int64
}

// legacy is what is known of a client of the older revisions: what it said in
// initialize, and what it wants to be told.
type legacy struct {
	rev          revision // 0 before initialize
	client, caps []byte
	stream       *stream
	level        int // from which on log messages are sent: an index of levels
}

// A request is one request of the client, from accept to respond. One that no
// handler serves is answered on the spot and stands in none of the maps. Any other
// stands in these, as session.mu guards them:
//
//	                              requests   waiting   running
//	it waits for others to end    yes        yes       no
//	it runs                       yes        no        yes
//	the client has cancelled it   no         no        as long as it runs
//	it is answered                no         no        no
//	it is a stream                yes        no        no
//
// As long as it stands in requests it is owed an answer: what is sent on its behalf
// looks there first.
type request struct {
	session *session
	ctx     context.Context // of the handler; its value for requestKey is the request
	cancel  context.CancelCauseFunc
	id      []byte   // the raw token, echoed byte for byte
	method  []byte   // its name
	service *service // how the method is served
	name    string   // of the tool, prompt or resource
	rev     revision
	params
	batch   *batch
	stream  *stream               // of subscriptions/listen
	element *list.Element         // of session.waiting
	item    *item                 // what it is about, if that is one thing
	vars    map[string]string     // the variables of a resource template
	handler func(*request) []byte // makes the line that answers it

	client, caps []byte // of the client, from initialize or, in the modern era, from _meta

	once       sync.Once                  // sets what follows
	answers    map[string]json.RawMessage // the client's, of this and earlier rounds
	badAnswers *Error                     // what is wrong with them

	// session.mu guards what follows.
	taken     map[string]int  // how many answers this run has taken, by the checksum of the question
	untaken   map[string]bool // the answers of this round that the handler has not taken
	reported  bool            // guarded by session.mu, like all that follows
	progress  float64         // the last that was reported
	questions []inputRequest  // to be asked with the result of this round
}

// params holds the members of the params of a request or a notification that we
// know, as raw JSON. The line of metaVersion and token are members of its _meta. Which
// of them a method has, and what they may be, is for that method's service to check.
type params struct {
	raw                                          []byte // all of them
	duplicate                                    string // says that one came twice
	meta, rawName, arguments, uri, cursor        []byte
	notifications, level, state, inputResponses  []byte
	protocolVersion, capabilities, clientInfo    []byte
	requestID, reason                            []byte
	metaVersion, metaCaps, metaClient, metaLevel []byte
	token                                        []byte
}

// An inputRequest is a question of the modern era, which travels in a result.
type inputRequest struct{ key, method, params string }

// A batch collects the answers to one line of several messages. They go out
// together, or, if one of the handlers outlives Drain, not at all.
type batch struct {
	owed      int // answers still to come, and one while the line is being read
	responses []byte
}

// A reply is what becomes of a request of ours to the client. The channel on which
// somebody waits for it has room for one: whoever tells it never waits.
type reply struct {
	result json.RawMessage
	err    error
}

// tell gives the call its reply. The second time it does nothing, nor if call is nil.
func resolveCall(call chan reply, a reply) {
	select {
	case call <- a:
	default:
	}
}

// Serve speaks MCP with one client, reading messages from r, one to a line,
// and writing to w, until the client closes its end, ctx ends, or r or w fails. It
// then cancels the handlers, after [Server.Linger] if r has ended, and waits up to
// [Server.Drain] for them.
//
// It returns nil when the session came to an ordinary end, the end of ctx
// being one; an error that is [ErrDrain] when something outlived the drain; and
// otherwise the error of r or w. A Reader that returns neither data nor an error
// a hundred times in a row is at fault: the error is [io.ErrNoProgress].
//
// Many sessions of one Server may run at once. Serve closes neither r nor w.
// When it returns before the end of r, a Read may still be under way: close r to
// end it.
func (s *Server) Serve(ctx context.Context, r io.Reader, w io.Writer) error {
	return s.serveSession(ctx, r, w, nil)
}

// serve is Serve with a trace, unless trace is nil.
func (s *Server) serveSession(ctx context.Context, r io.Reader, w io.Writer, trace io.Writer) error {
	if s.Name == "" || s.Version == "" {
		return errors.New("mcp: Server.Name and Server.Version must be set")
	}
	if err := checkIcons(s.Icons); err != nil {
		return fmt.Errorf("mcp: Server.Icons: %w", err)
	}
	c := &session{
		srv:       s,
		inputOver: make(chan struct{}),
		closing:   make(chan struct{}),
		returned:  make(chan struct{}),
		requests:  make(map[string]*request),
		running:   make(map[*request]struct{}),
		pending:   make(map[string]chan reply),
	}
	c.in.r, c.in.limit = r, cmp.Or(max(0, s.MaxMessage), 64<<20)
	c.out.w, c.notes.w = w, logWriter{s.ErrorLog}
	if trace != nil {
		c.trace, c.out.w = &lineWriter{w: trace}, traceWriter{w, c}
		defer c.trace.stop()
	}
	c.identity = s.identity(0)
	var err1, err2 error
	c.experimental, err1 = encodeCapabilities(s.Experimental) // now, because it may run code of the user's
	c.extensions, err2 = encodeCapabilities(s.Extensions)
	if err := cmp.Or(err1, err2); err != nil {
		return fmt.Errorf("mcp: Server.Experimental or Extensions: %w", err)
	}
	c.ctx, c.cancel = context.WithCancelCause(ctx)
	defer c.cancel(nil)
	c.failed, c.fail = context.WithCancelCause(context.Background())
	s.addSession(c)
	defer s.removeSession(c)
	if n := utf8.RuneCountInString(s.Instructions); n > 2048 {
		c.logf("Server.Instructions has %d characters: Claude Code shows the model the first 2,048", n)
	}
	defer close(c.returned)
	defer c.notes.stop()
	c.turn.readLines = c.readLines
	c.turn.timer = time.AfterFunc(maxInline, c.turn.pass)
	defer c.turn.timer.Stop()
	go c.readLines()
	return c.waitForEnd()
}

// encodeCapabilities returns capabilities as JSON, or an error if a client would refuse them.
func encodeCapabilities(caps map[string]any) ([]byte, error) {
	raw, err := jsonOf(caps)
	if err != nil || raw == nil {
		return nil, err
	}
	for name, val := range members(raw) {
		if val[0] != '{' {
			return nil, fmt.Errorf("%q must be a JSON object, such as struct{}{}", name)
		}
	}
	return raw, nil
}

// ---- what each revision knows ----

// This section tells the revisions of the protocol apart, and services, in
// session.go, does so for methods, with a since or an until. A new revision is
// added here:
//
//   - its constant and its date, below, and modernVersions;
//   - what it is the first to know: a line in the list of these;
//   - what it no longer knows, or knows by another name: one of the functions
//     from hasEnumNames on, of which errorCode has the codes that it reserves;
//   - the keys of its _meta.
//
// New members of a request are read in envelope.parse, and new ones of an answer
// written where that kind of answer is made; a new capability of ours is added to
// declared, and a new notification of the client's to notifications. The doc comments
// that name revisions want a look.
//
// Elsewhere, rev.knows(something) is the question, and rev.modern() where the
// two eras differ.

// A revision is a dated version of the protocol. Those before firstModern are
// the legacy era.
type revision int

const (
	rev2024_11_05 revision = iota + 1
	rev2025_03_26
	rev2025_06_18
	rev2025_11_25
	rev2026_07_28

	newestLegacy = rev2025_11_25
	firstModern  = rev2026_07_28
	newest       = revision(len(revisions) - 1)
)

var revisions = [...]string{"", "2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"}

func (v revision) String() string { return revisions[v] }

// modern reports whether v belongs to the modern era, whose requests each speak
// for themselves.
func (v revision) modern() bool { return v >= firstModern }

// revisionOf returns the revision of a date, or 0 if we know none.
func revisionOf(version string) revision {
	return revision(max(0, slices.Index(revisions[:], version)))
}

// negotiate returns the revision of a session whose client wishes for a version.
func negotiate(version string) revision {
	if v := revisionOf(version); v != 0 && !v.modern() {
		return v
	}
	return newestLegacy
}

// modernVersions are those that a request may name, as JSON.
const modernVersions = `["2026-07-28"]`

// What the revisions know, each by the first that does.
const (
	rootsAndSampling = rev2024_11_05

	toolHints            = rev2025_03_26 // ToolAnnotations
	audioBlocks          = rev2025_03_26 // Content of type audio
	progressMessages     = rev2025_03_26 // the message of Progress
	completionCapability = rev2025_03_26 // is declared; the method is older

	titles           = rev2025_06_18 // of everything that has a name
	resourceLinks    = rev2025_06_18 // Content of type resource_link
	structuredOutput = rev2025_06_18 // outputSchema and structuredContent, which are objects
	metaInside       = rev2025_06_18 // the _meta of tools, blocks and the like
	lastModified     = rev2025_06_18 // in Annotations
	forms            = rev2025_06_18 // Elicit

	iconPictures    = rev2025_11_25 // of everything that has a name
	websiteURL      = rev2025_11_25 // of the server
	formModes       = rev2025_11_25 // the mode of Elicit and its capability
	pageVisits      = rev2025_11_25 // ElicitURL
	choiceTitles    = rev2025_11_25 // titles of an enum in a form, each beside its value
	choiceLists     = rev2025_11_25 // a choice of several in a form
	formDefaults    = rev2025_11_25 // in a form; a boolean's is older
	samplingContext = rev2025_11_25 // has a capability of its own
	blockLists      = rev2025_11_25 // several blocks in a message of Sample

	anyOutput = rev2026_07_28 // outputSchema and structuredContent need not be objects
)

// knows reports whether v knows what came with an earlier revision, or with v.
func (v revision) knows(since revision) bool { return v >= since }

// hasEnumNames reports whether titles of an enum in a form are a list beside it.
func (v revision) hasEnumNames() bool { return v == rev2025_06_18 }

// batches reports whether one line may hold several messages.
func (v revision) batches() bool { return v == rev2025_03_26 }

// hasElicitationID reports whether an ElicitURL needs an id.
func (v revision) hasElicitationID() bool { return v == rev2025_11_25 }

// errorCode returns the code with which a handler's error is sent. A reserved
// code goes out only where the revision has it for servers.
func (v revision) errorCode(code int) int {
	switch {
	case code == codeNotFound && v.modern():
		return codeParams
	case code > -32020 || code < -32099: // not reserved
		return code
	case code == codeURL && v == rev2025_11_25, (code == codeCapability || code == codeVersion) && v.modern():
		return code
	}
	return codeInternal
}

// block returns c, or a text in its place if v does not know the type.
func (v revision) block(c Content) Content {
	switch {
	case c.Type == "audio" && !v.knows(audioBlocks):
		c.Type, c.Text = "text", "[audio, "+c.MIMEType+", "+strconv.Itoa(len(c.Data))+" bytes]"
	case c.Type == "resource_link" && c.Link != nil && !v.knows(resourceLinks):
		c.Type, c.Text = "text", c.Link.Name+": "+c.Link.URI
	}
	return c
}

// annotations returns what v knows of a.
func (v revision) annotations(a Annotations) Annotations {
	if !v.knows(lastModified) {
		a.LastModified = ""
	}
	return a
}

// Keys of _meta.
const (
	keyVersion      = "io.modelcontextprotocol/protocolVersion"
	keyCaps         = "io.modelcontextprotocol/clientCapabilities"
	keyClient       = "io.modelcontextprotocol/clientInfo"
	keyLevel        = "io.modelcontextprotocol/logLevel"
	keyServer       = "io.modelcontextprotocol/serverInfo"
	keySubscription = "io.modelcontextprotocol/subscriptionId"
)

// ---- read ----

// read is what the goroutine does that has the turn to read: until the turn has
// passed to another, r has come to its end, or Serve has returned. When no line is
// accepted any more it reads on and drops what it reads: a client that is still
// writing reads our last answers only when it has got rid of that.
//
// Answers of requests that it serves itself are not written one by one. They go
// out together, before it waits for input, or before the next line when it has gone
// on for a millisecond: a client that sends many requests at once costs few writes,
// and one that sends one and waits is not kept waiting.
func (c *session) readLines() {
	began := time.Now()
	for !isClosed(c.returned) {
		if isClosed(c.closing) {
			c.in.discard()
		}
		c.waitForRoom()
		line, tail, err := c.in.nextLine()
		if line == nil {
			if !c.flushOutput() {
				return
			}
			if err != nil {
				c.endInput(err)
				c.stopAccepting()
				return
			}
			c.in.readMore()
			began = time.Now()
			continue
		}
		if time.Since(began) > maxInline { // the answers have waited long enough
			c.startWriter()
			began = time.Now()
		}
		if c.startLine() && !c.takeLine(line, tail) {
			return
		}
	}
}

// flooded reports whether too much output is unsent and nobody waits for room any
// more, since the session has ended. What was read ahead may be much then: requests
// are refused in few words, and what is no request is not answered.
func (c *session) isFlooded() bool {
	return c.ctx.Err() != nil && c.out.unsentBytes() > outputBound
}

// isClosed reports whether a channel is closed on which nothing is ever sent.
func isClosed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

// enter adds one to what the drain waiter waits for, and reports whether it has:
// it does not once the session is closing. So the WaitGroup does not rise from
// zero from then on.
func (c *session) startLine() bool {
	c.mu.Lock()
	open := !isClosed(c.closing)
	if open {
		c.wg.Add(1)
	}
	c.mu.Unlock()
	return open
}

// take accepts one line, and serves the request in it if that is for this
// goroutine. It reports whether the goroutine still has the turn. The caller has
// entered; a handler that calls runtime.Goexit does not come back.
func (c *session) takeLine(line, tail []byte) (mine bool) {
	defer c.endLine()
	if tail != nil {
		c.refuseLongLine(line, tail)
		return true
	}
	if r := c.acceptLine(line); r != nil {
		c.turn.lend(len(line))
		return c.handleRequest(r, true)
	}
	return true
}

// leave ends what enter began, behind a line. If the session is closing meanwhile,
// nobody flushes any more, and the drain waiter writes again only when all that is
// counted is through. So the answer to this line gets a writer here, before wg.Done,
// which may let the drain waiter go on.
func (c *session) endLine() {
	c.mu.Lock()
	if isClosed(c.closing) {
		c.startWriterLocked()
	}
	c.mu.Unlock()
	c.wg.Done()
}

// flush writes the answers that are ready, before its caller waits for input. A
// write may block, so the turn is lent meanwhile: a client that does not read is
// still heard. It reports whether the caller still has the turn, as it has if there is
// nothing for it to write. When the session is closing the drain waiter writes.
func (c *session) flushOutput() (mine bool) {
	if !c.startLine() {
		return true
	}
	defer c.wg.Done()
	if !c.out.acquire() {
		return true
	}
	c.turn.lend(0)
	c.writeAcquired()
	return c.turn.reclaim()
}

// waitForRoom waits while too much output is unsent. That bounds what a client
// can cost that writes and does not read. The input is read ahead meanwhile, so
// that its end is heard the moment that Read returns it, as long as no more than
// aheadBound bytes stand before it. When the session has ended it does not wait,
// because a slow client is still owed answers: see flooded.
func (c *session) waitForRoom() {
	for {
		full := c.out.waitChannel(c.out.position() - outputBound)
		if full == nil || c.ctx.Err() != nil {
			return
		}
		c.startWriter()
		ahead, err := c.in.startReadAhead()
		if err != nil {
			c.endInput(err)
		}
		select {
		case <-full:
		case <-c.ctx.Done():
		case <-ahead:
		}
	}
}

// ---- accept ----

// An envelope is the outside of one message and its params, in slices of its line.
type envelope struct {
	jsonrpc, id, method, result, err []byte
	params                           params
	duplicate                        string // says that a member came twice
	duplicateID                      bool
}

// parse takes a message apart, and reports whether it is valid JSON. Names are
// matched exactly. Of a message that is broken off, there is what stands before,
// and the last value as far as it goes.
func (e *envelope) parseMessage(m []byte) (valid bool) {
	p := &e.params
	meta := []want{
		{name: "progressToken", to: &p.token},
		{name: keyVersion, to: &p.metaVersion},
		{name: keyCaps, to: &p.metaCaps},
		{name: keyClient, to: &p.metaClient},
		{name: keyLevel, to: &p.metaLevel},
	}
	params := []want{
		{name: "_meta", to: &p.meta, inside: meta},
		{name: "name", to: &p.rawName},
		{name: "arguments", to: &p.arguments},
		{name: "uri", to: &p.uri},
		{name: "cursor", to: &p.cursor},
		{name: "notifications", to: &p.notifications},
		{name: "level", to: &p.level},
		{name: "requestState", to: &p.state},
		{name: "inputResponses", to: &p.inputResponses},
		{name: "protocolVersion", to: &p.protocolVersion},
		{name: "capabilities", to: &p.capabilities},
		{name: "clientInfo", to: &p.clientInfo},
		{name: "requestId", to: &p.requestID},
		{name: "reason", to: &p.reason},
	}
	message := []want{
		{name: "id", to: &e.id},
		{name: "jsonrpc", to: &e.jsonrpc},
		{name: "method", to: &e.method},
		{name: "params", to: &p.raw, inside: params},
		{name: "result", to: &e.result},
		{name: "error", to: &e.err},
	}
	valid = scan(m, 0, 0, message) == len(m)
	e.duplicateID = message[0].duplicate // the first is "id"
	e.duplicate, p.duplicate = findDuplicate(message), cmp.Or(findDuplicate(params), findDuplicate(meta))
	return valid
}

// isAnswer reports whether the message has the shape of an answer to us. Such a
// message is never answered, whatever is wrong with it.
func (e *envelope) isResponse() bool {
	return e.method == nil && (e.result != nil || e.err != nil)
}

// accept takes one line. It returns the request in it if that is for its caller
// to serve. A batch is scanned as a whole before any of it has an effect; message
// scans every other line, and a batch that is not valid.
func (c *session) acceptLine(line []byte) (inline *request) {
	c.recordLine("in", line)
	switch {
	case !utf8.Valid(line):
		c.refuseMessage(nil, nil, coded(codeParse, "Parse error: not UTF-8"))
	case line[0] == '[' && scan(line, 0, 0, nil) == len(line):
		c.acceptBatch(line)
	default:
		inline = c.acceptMessage(line, nil)
	}
	return inline
}

// batch takes a line of several messages, which one revision knows. They are
// accepted one after the other like lines, but their answers go out as one: the
// batch counts how many are owed, and the last to come sends all of them. The line
// itself counts as one, so that the answers to its first messages do not go out
// before its last message was looked at.
func (c *session) acceptBatch(line []byte) {
	count := 0
	for range members(line) {
		count++
	}
	switch {
	case !c.legacy.rev.batches():
		c.refuseMessage(nil, nil, invalid("batching is not supported"))
	case count == 0:
		c.refuseMessage(nil, nil, invalid("empty batch"))
	case count > maxBatch:
		c.refuseMessage(nil, nil, invalid("more than "+strconv.Itoa(maxBatch)+" messages in a batch"))
	default:
		b := &batch{owed: 1}
		for _, m := range members(line) {
			c.acceptMessage(m, b)
		}
		c.mu.Lock()
		c.sendResponseLocked(b, nil)
		c.mu.Unlock()
	}
}

// message takes one message, finds out which of the three kinds it is, and
// returns what accept does. The order of the cases matters: what looks like an
// answer is not answered, even if something is wrong with it, and an id is only
// repeated if it is one, and came once.
func (c *session) acceptMessage(m []byte, b *batch) (inline *request) {
	var e envelope
	if !e.parseMessage(m) {
		c.refuseMessage(nil, nil, coded(codeParse, "Parse error"))
		return nil
	}
	id := e.id
	if !isValidID(id) || e.duplicateID {
		id = nil
	}
	version, _ := unquote(e.jsonrpc)
	switch {
	case m[0] != '{':
		c.refuseMessage(b, nil, invalid("a message must be an object"))
	case e.isResponse():
		c.acceptResponse(&e)
	case e.duplicate != "":
		c.refuseMessage(b, id, invalid(e.duplicate))
	case string(e.id) == "null":
		c.refuseMessage(b, nil, invalid("id must not be null"))
	case e.id != nil && id == nil:
		c.refuseMessage(b, nil, invalid("id must be a string or an integer"))
	case e.method == nil:
		c.refuseMessage(b, id, invalid("method missing"))
	case e.method[0] != '"':
		c.refuseMessage(b, id, invalid("method must be a string"))
	case version != "2.0" && id != nil:
		c.refuseMessage(b, id, invalid(`jsonrpc must be "2.0"`))
	case version != "2.0":
		c.logf("notification ignored: jsonrpc must be \"2.0\"") // notifications have no answers
	case id == nil:
		c.acceptNotification(&e)
	default:
		return c.acceptRequest(&e, b)
	}
	return nil
}

// tooLong takes a line of more than Server.MaxMessage bytes, of which only the
// beginning and the end are there. The id may stand in either.
func (c *session) refuseLongLine(head, tail []byte) {
	c.recordLine("in", join(nil, string(head[:min(len(head), 1000)]), "... (cut: too long)"))
	err := invalid("a message of more than " + strconv.Itoa(c.in.limit) + " bytes")
	var e envelope
	e.parseMessage(slices.Clip(head))
	id := e.id
	if len(id) == cap(id) { // it is not there, or reaches the end of head, and so may not be whole
		id = findIDAtEnd(tail)
	}
	if !isValidID(id) || !utf8.Valid(id) || e.duplicateID {
		id = nil
	}
	if e.isResponse() {
		resolveCall(c.removeCall(id), reply{err: fmt.Errorf("mcp: the client's answer is longer than %d bytes", c.in.limit)})
		c.logf("answer ignored: %v", err)
		return
	}
	if id == nil && bytes.HasPrefix(e.method, []byte(`"notifications/`)) {
		c.logf("notification ignored: %v", err)
		return
	}
	c.refuseMessage(nil, id, err)
}

// idAtEnd finds the id of an object of which only the end is there: some clients
// write the id last. The id that counts is a member from which on the rest is valid.
// Quotes inside of a text are escaped, and so are never taken for those of a member.
func findIDAtEnd(tail []byte) (id []byte) {
	for at := 0; id == nil; at++ {
		next := bytes.Index(tail[at:], []byte(`"id"`))
		if next < 0 {
			return nil
		}
		at += next
		rest := join(nil, "{", string(tail[at:]))
		if scan(rest, 0, 0, nil) == len(rest) && bytes.HasSuffix(trimEnd(tail[:at]), []byte(",")) {
			pick(rest, want{name: "id", to: &id})
		}
	}
	return id
}

// notifications are those that a client may send. Two of them change nothing here:
// we ask for no progress, and keep no roots. They are not logged as unknown.
var notifications = map[string]func(*session, params){
	"notifications/cancelled": func(c *session, p params) {
		if isValidID(p.requestID) {
			reason, _ := unquote(p.reason)
			c.cancelRequest(p.requestID, reason)
		}
	},
	"notifications/initialized":        func(c *session, _ params) { c.startNotifications() },
	"notifications/progress":           func(*session, params) {},
	"notifications/roots/list_changed": func(*session, params) {},
}

// notice takes a notification, which has no answer.
func (c *session) acceptNotification(e *envelope) {
	method, _ := unquote(e.method)
	act := notifications[method]
	if act == nil {
		c.logf("notification ignored: unknown method %q", excerpt(method))
		return
	}
	act(c, e.params)
}

// initialized tells the legacy session what has changed since initialize.
func (c *session) startNotifications() {
	c.mu.Lock()
	if st := c.legacy.stream; st != nil && st.silent {
		st.silent = false
		for k := range kinds {
			if st.missed[k] {
				c.sendListChangedLocked(st, k)
			}
		}
	}
	c.mu.Unlock()
}

// deliver takes the client's answer to a request of ours.
func (c *session) acceptResponse(e *envelope) {
	dropNulls(&e.err)
	call := c.removeCall(e.id)
	switch {
	case call == nil:
		c.logf("answer ignored: nobody waits for %s", oneLine(string(e.id)))
	case e.err == nil:
		resolveCall(call, reply{result: e.result})
	default:
		var code, message []byte
		pick(e.err, want{name: "code", to: &code}, want{name: "message", to: &message})
		why, _ := unquote(message)
		resolveCall(call, reply{err: fmt.Errorf("mcp: the client answered with an error: %s (%.20s)", excerpt(why), code)})
	}
}

// removeCall takes the call with this id out of the map.
func (c *session) removeCall(id []byte) chan reply {
	c.mu.Lock()
	call := c.pending[string(id)]
	delete(c.pending, string(id))
	c.mu.Unlock()
	return call
}

// ---- request ----

// A service is how the requests of one method are served. Which revisions have
// the method, and what has to be there before it is, is checked in one place for
// all of them; what is left is for serve.
type service struct {
	since, until revision // that have the method; 0: no bound
	early        bool     // it is served before initialize too
	kind         kind     // what must be offered; nothing: it is always served
	list         bool     // legacy clients may list what is not offered
	asks         bool     // its result may ask the client, in the modern era
	forModel     bool     // what its handler fails with is a result, for the model to read
	absentData   any      // data of the error where the method does not exist

	// serve returns an error, or else the answer, or else nil: then a handler makes it.
	serve func(*session, *request) ([]byte, *Error)
}

// services are the methods of the protocol: what opens a conversation, then lists,
// what handlers answer, and what a client wants to be told from now on.
var services = map[string]*service{
	"initialize":      {until: newestLegacy, early: true, kind: nothing, absentData: json.RawMessage(`{"supported":` + modernVersions + `}`), serve: (*session).initialize},
	"ping":            {until: newestLegacy, early: true, kind: nothing, serve: (*session).ping},
	"server/discover": {since: firstModern, kind: nothing, serve: (*session).discover},

	"tools/list":               {kind: tools, list: true, serve: (*session).listItems},
	"prompts/list":             {kind: prompts, list: true, serve: (*session).listItems},
	"resources/list":           {kind: resources, list: true, serve: (*session).listItems},
	"resources/templates/list": {kind: templates, list: true, serve: (*session).listItems},

	"tools/call":          {kind: tools, asks: true, forModel: true, serve: (*session).findItem},
	"prompts/get":         {kind: prompts, asks: true, serve: (*session).findItem},
	"resources/read":      {kind: resources, asks: true, serve: (*session).findItem},
	"completion/complete": {kind: completions, serve: (*session).findCompletion},

	"logging/setLevel":      {until: newestLegacy, kind: logging, serve: (*session).setLevel},
	"resources/subscribe":   {until: newestLegacy, kind: resources, serve: (*session).subscribe},
	"resources/unsubscribe": {until: newestLegacy, kind: resources, serve: (*session).unsubscribe},
	"subscriptions/listen":  {since: firstModern, kind: nothing, serve: (*session).listen},
}

// unknownMethod is the service of methods that no revision has.
var unknownMethod = &service{since: newest + 1, kind: nothing}

// in reports whether revision v has the method.
func (s *service) existsIn(v revision) bool {
	return v >= s.since && (s.until == 0 || v <= s.until)
}

// request takes a request. It makes sure that the id is free, and that there is room
// for an answer, since those of a batch are kept until all are there, and a client may
// have stopped reading after the end. It finds the era, refuses what cannot be served,
// and either answers on the spot or begins a handler. It returns what accept does.
func (c *session) acceptRequest(e *envelope, b *batch) (inline *request) {
	c.mu.Lock()
	_, dup := c.requests[string(e.id)]
	full := b != nil && c.batched > outputBound || c.isFlooded()
	c.mu.Unlock()
	switch {
	case dup: // under its own id, the answer would mislead the owner of the first
		c.refuseMessage(b, nil, invalid("id "+oneLine(string(e.id))+" is in use"))
		return nil
	case full:
		c.refuseMessage(b, e.id, coded(codeInternal, "The unsent answers are too long"))
		return nil
	}
	r := &request{session: c, id: e.id, batch: b, params: e.params}
	r.method = unquoteBytes(e.method)
	r.service = c.srv.method(string(r.method))
	line, err := c.dispatchRequest(r)
	switch {
	case err != nil:
		c.sendResponse(b, errorLine(r.id, err))
	case line != nil:
		c.sendResponse(b, line)
	case c.beginRequest(r):
		return r
	}
	return nil
}

// dispatch answers what needs no code of the user's. When it returns neither an
// answer nor an error, r is to be given to a handler.
func (c *session) dispatchRequest(r *request) ([]byte, *Error) {
	if err := r.params.checkParams(); err != nil {
		return nil, err
	}
	if err := c.selectEra(r); err != nil {
		return nil, err
	}
	s := r.service
	offered := s.kind == nothing || c.srv.offers()[s.kind.capability()]
	if !offered && (!s.list || r.rev.modern()) { // hosts of the legacy era drop a server that does not know a list
		return nil, r.methodNotFound()
	}
	return s.serve(c, r)
}

// check returns what is wrong with params whatever the method is. A null is as good
// as nothing where a member may be left out.
func (p *params) checkParams() *Error {
	dropNulls(&p.raw, &p.meta, &p.arguments, &p.cursor, &p.state, &p.inputResponses, &p.token, &p.metaClient, &p.metaLevel)
	switch {
	case p.raw != nil && p.raw[0] != '{':
		return badParams("params must be an object")
	case p.duplicate != "":
		return badParams(p.duplicate)
	case p.meta != nil && p.meta[0] != '{':
		return badParams("_meta must be an object")
	case p.token != nil && !isValidID(p.token):
		return badParams("progressToken must be a string or an integer")
	case len(p.token) > maxRepeated:
		return badParams("progressToken is too long")
	}
	return nil
}

// dropNulls makes null as good as absent.
func dropNulls(optional ...*[]byte) {
	for _, val := range optional {
		if string(*val) == "null" {
			*val = nil
		}
	}
}

// selectEra finds the revision by which r is served. A request that names its
// version in _meta is modern. Every other request is legacy: it needs initialize
// first, but for initialize and ping.
func (c *session) selectEra(r *request) *Error {
	if r.metaVersion != nil {
		return r.takeClaim()
	}
	r.rev, r.client, r.caps = c.legacy.rev, c.legacy.client, c.legacy.caps
	switch {
	case r.service.since > newest: // nobody knows it
		return r.methodNotFound()
	case r.service.existsIn(r.rev) && (r.rev != 0 || r.service.early):
		return nil
	}
	return coded(codeParams, "Missing required _meta fields "+keyVersion+" and "+keyCaps+" (or send initialize first)")
}

// claim takes what a modern request says of itself in its _meta, if that is right.
func (r *request) takeClaim() *Error {
	version, isText := unquote(r.metaVersion)
	rev := revisionOf(version)
	_, _, named := parseClientInfo(r.metaClient)
	switch level, _ := unquote(r.metaLevel); {
	case !isText:
		return badParams(keyVersion + " must be a string")
	case r.metaCaps == nil:
		return coded(codeParams, "Missing required _meta field "+keyCaps)
	case r.metaCaps[0] != '{':
		return badParams(keyCaps + " must be an object")
	case r.metaClient != nil && !named:
		return badParams(keyClient + " must be an object with name and version")
	case !rev.modern():
		return &Error{Code: codeVersion, Message: "Unsupported protocol version",
			Data: json.RawMessage(join(appendString([]byte(`{"requested":`), version), `,"supported":`, modernVersions, `}`))}
	case r.metaLevel != nil && !slices.Contains(levels[:], level): // what is no text is "" here
		return coded(codeParams, "Invalid log level: "+excerpt(level))
	case r.batch != nil:
		return invalid("batching is not supported")
	}
	r.rev, r.caps, r.client = rev, r.metaCaps, r.metaClient
	if !r.service.existsIn(r.rev) {
		return r.methodNotFound()
	}
	return nil
}

// nameAndVersion returns what a client says of itself, and whether it is an
// object with a name and a version.
func parseClientInfo(raw []byte) (name, version string, ok bool) {
	var rawName, rawVersion []byte
	pick(raw, want{name: "name", to: &rawName}, want{name: "version", to: &rawVersion})
	name, named := unquote(rawName)
	version, versioned := unquote(rawVersion)
	return name, version, named && versioned
}

// noMethod is the error for a method that the revision of r does not have, or that
// belongs to what the server does not offer.
func (r *request) methodNotFound() *Error {
	return &Error{Code: codeMethod, Message: "Method not found: " + excerpt(string(r.method)), Data: r.service.absentData}
}

// initialize opens the legacy session.
func (c *session) initialize(r *request) ([]byte, *Error) {
	version, isText := unquote(r.protocolVersion)
	_, _, named := parseClientInfo(r.clientInfo)
	switch {
	case r.batch != nil:
		return nil, invalid("initialize must not be part of a batch")
	case c.legacy.rev != 0:
		return nil, invalid("initialize came twice")
	case !isText:
		return nil, badParams("protocolVersion is required")
	case r.capabilities == nil || r.capabilities[0] != '{':
		return nil, badParams("capabilities is required")
	case !named:
		return nil, badParams("clientInfo with name and version is required")
	}
	r.rev = negotiate(version)
	offered := c.srv.offers()
	st := &stream{watched: offered, silent: true}
	c.mu.Lock()
	c.legacy = legacy{rev: r.rev, level: len(levels), client: bytes.Clone(r.clientInfo), caps: bytes.Clone(r.capabilities), stream: st}
	c.streams = append(c.streams, st)
	c.mu.Unlock()
	b := join(r.beginAnswer(), `"protocolVersion":"`, r.rev.String(), `","serverInfo":`, c.srv.identity(r.rev), `,`)
	return r.endAnswer(join(b, c.abilities(r.rev, offered))), nil
}

// discover tells a modern client what there is.
func (c *session) discover(r *request) ([]byte, *Error) {
	b := join(r.beginAnswer(), `"supportedVersions":`, modernVersions, `,`)
	b = r.appendCaching(join(b, c.abilities(r.rev, c.srv.offers())), true)
	return r.endAnswerAs(c.srv.identity(r.rev), b), nil
}

// ping answers at once. A client may ping before initialize.
func (c *session) ping(r *request) ([]byte, *Error) {
	return r.emptyAnswer(), nil
}

// listItems answers a request for one page of a list. A cursor is the place in the
// list after which the page begins, so it stays good when items come and go.
//
// Where tools may be hidden it leaves the answer to a handler: Tool.Shown is the
// user's code, for which neither a lock nor the reader may wait.
func (c *session) listItems(r *request) ([]byte, *Error) {
	cursor, isText := unquote(r.cursor)
	after, err := strconv.Atoi(cmp.Or(cursor, "0"))
	rest := c.srv.inOrder(r.service.kind)
	c.srv.mu.Lock()
	last, hides := c.srv.lastSeq, c.srv.hides
	c.srv.mu.Unlock()
	if r.cursor != nil && !isText || err != nil || after < 0 || after > last {
		return nil, coded(codeParams, "Invalid cursor")
	}
	first, _ := slices.BinarySearchFunc(rest, after+1, func(it *item, seq int) int { return it.seq - seq })
	rest = rest[first:]
	if !hides || r.service.kind != tools {
		return r.pageAnswer(rest, true), nil
	}
	r.handler = func(r *request) []byte {
		seen := slices.DeleteFunc(slices.Clone(rest), func(it *item) bool { return it.shown != nil && !it.shown(r.ctx) })
		return r.pageAnswer(seen, false) // another client may see another list
	}
	return nil, nil
}

// findItem finds what a request is about by the name that it gives. The item's
// handler, which is the user's, answers.
func (c *session) findItem(r *request) ([]byte, *Error) {
	k, raw, member := r.service.kind, r.rawName, "name"
	if k == resources {
		raw, member = r.uri, "uri"
	}
	name, isText := unquote(raw)
	if !isText {
		return nil, badParams(member + " is required")
	}
	r.name = name
	r.item, r.vars = c.srv.find(k, name)
	switch {
	case r.item != nil:
		r.handler = r.item.handler
		return nil, nil
	case k == resources:
		return nil, r.notFound()
	}
	return nil, coded(codeParams, "Unknown "+strings.TrimSuffix(kindNames[k], "s")+": "+excerpt(name))
}

// completeParams are the params of completion/complete.
type completeParams struct {
	Ref struct {
		Type string `json:"type"`
		Name string `json:"name"` // of a prompt
		URI  string `json:"uri"`  // of a template, or one that fits it
	} `json:"ref"`
	Argument struct {
		Name  string  `json:"name"`
		Value *string `json:"value"`
	} `json:"argument"`
	Context struct {
		Arguments json.RawMessage `json:"arguments,omitempty"`
	} `json:"context"`
}

// findCompletion has a handler suggest values for the argument that r is about. The
// other arguments may be many: they are taken apart when all else is right.
func (c *session) findCompletion(r *request) ([]byte, *Error) {
	var p completeParams
	if err := decode(r.raw, &p); err != nil {
		return nil, badParams(err.Error())
	}
	var k kind
	switch p.Ref.Type {
	case "ref/prompt":
		k, r.name = prompts, p.Ref.Name
	case "ref/resource":
		k, r.name = templates, p.Ref.URI
	default:
		return nil, badParams("ref.type must be ref/prompt or ref/resource")
	}
	it, _ := c.srv.find(k, r.name)
	name := p.Argument.Name
	switch {
	case name == "" || p.Argument.Value == nil:
		return nil, badParams("argument.name and argument.value are required")
	case it == nil || !slices.Contains(it.args, name):
		return nil, badParams("there is no such argument to complete")
	}
	r.handler = func(r *request) []byte {
		known := make(map[string]string)
		if err := decode(p.Context.Arguments, &known); err != nil {
			return errorLine(r.id, badParams("context.arguments: "+err.Error()))
		}
		if it.complete[name] == nil {
			return r.completeAnswer(nil, nil)
		}
		return r.completeAnswer(it.complete[name](r.ctx, *p.Argument.Value, known))
	}
	return nil, nil
}

// setLevel sets from which level on the legacy session wants log messages.
func (c *session) setLevel(r *request) ([]byte, *Error) {
	level, _ := unquote(r.params.level)
	n := slices.Index(levels[:], level)
	if n < 0 {
		return nil, coded(codeParams, "Invalid log level: "+excerpt(level))
	}
	c.mu.Lock()
	c.legacy.level = n
	c.mu.Unlock()
	return r.emptyAnswer(), nil
}

// logLevel returns from which level on a request wants log messages.
func (c *session) logLevel(r *request) int {
	if r.rev.modern() {
		if level, ok := unquote(r.metaLevel); ok {
			return slices.Index(levels[:], level)
		}
		return len(levels)
	}
	c.mu.Lock()
	level := c.legacy.level
	c.mu.Unlock()
	return level
}

// subscribe has the legacy session told when a resource changes.
func (c *session) subscribe(r *request) ([]byte, *Error) {
	uri, isText := unquote(r.uri)
	if !isText {
		return nil, badParams("uri is required")
	}
	c.mu.Lock()
	err := c.legacy.stream.watchURI(uri)
	c.mu.Unlock()
	return r.emptyAnswer(), err
}

// unsubscribe ends what subscribe began.
func (c *session) unsubscribe(r *request) ([]byte, *Error) {
	uri, isText := unquote(r.uri)
	if !isText {
		return nil, badParams("uri is required")
	}
	c.mu.Lock()
	delete(c.legacy.stream.uris, uri)
	c.mu.Unlock()
	return r.emptyAnswer(), nil
}

// A stream is where changes are told: to the legacy session as such, to a
// modern client on each subscriptions/listen request of its own.
type stream struct {
	request *request         // of subscriptions/listen; nil for the legacy session
	watched kindSet          // the kinds whose lists are watched
	sent    [kinds]int64     // where in the output a change was told last
	uris    map[string]int64 // the same for the resources that are watched
	silent  bool             // notifications/initialized has not come yet
	missed  kindSet          // what has changed before that
}

// listen takes a subscriptions/listen request. It may be open for long, so it
// keeps nothing of its line.
func (c *session) listen(r *request) ([]byte, *Error) {
	if len(r.id) > maxRepeated {
		return nil, invalid("the id of a subscription has at most " + strconv.Itoa(maxRepeated) + " bytes")
	}
	st, err := c.parseFilter(r.notifications)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	open := len(c.streams)
	if c.legacy.stream != nil {
		open--
	}
	c.mu.Unlock()
	if open >= maxStreams {
		return nil, coded(codeInternal, "Subscription limit reached")
	}
	st.request, r.stream, r.handler = r, st, (*request).waitForEndOfStream
	r.id, r.method, r.params, r.caps, r.client = bytes.Clone(r.id), bytes.Clone(r.method), params{}, nil, nil
	return nil, nil
}

// filter reads what a subscriptions/listen request asks for, and keeps what we
// can promise.
func (c *session) parseFilter(notifications []byte) (*stream, *Error) {
	if notifications == nil || notifications[0] != '{' {
		return nil, badParams("notifications is required")
	}
	var lists [templates][]byte
	var uris []byte
	pick(notifications, want{name: "toolsListChanged", to: &lists[tools]}, want{name: "promptsListChanged", to: &lists[prompts]},
		want{name: "resourcesListChanged", to: &lists[resources]}, want{name: "resourceSubscriptions", to: &uris})
	dropNulls(&lists[tools], &lists[prompts], &lists[resources], &uris)
	st, offered := &stream{}, c.srv.offers()
	for k, wanted := range lists {
		switch string(wanted) {
		case "true":
			st.watched[k] = offered[k]
		case "false", "": // as good as not there
		default:
			return nil, badParams(kindNames[k] + "ListChanged must be true or false")
		}
	}
	err := st.watchURIs(uris)
	if !offered[resources] {
		st.uris = nil
	}
	return st, err
}

// watchAll adds the resources in a list, if there is one.
func (st *stream) watchURIs(list []byte) *Error {
	if list == nil {
		return nil
	}
	if list[0] != '[' {
		return badParams("resourceSubscriptions must be an array")
	}
	for _, raw := range members(list) {
		uri, isText := unquote(raw)
		if !isText {
			return badParams("resourceSubscriptions must hold strings")
		}
		if err := st.watchURI(uri); err != nil {
			return err
		}
	}
	return nil
}

// watch adds a resource to those whose changes are told.
func (st *stream) watchURI(uri string) *Error {
	if _, again := st.uris[uri]; again {
		return nil
	}
	if len(st.uris) >= maxWatched || len(uri) > maxURI {
		return coded(codeInternal, "Subscription limit reached")
	}
	if st.uris == nil {
		st.uris = make(map[string]int64)
	}
	st.uris[uri] = 0
	return nil
}

// removeStream ends a stream, if there is one. The caller must hold c.mu.
func (c *session) removeStreamLocked(gone *stream) {
	c.streams = slices.DeleteFunc(c.streams, func(st *stream) bool { return st == gone })
}

// ---- begin ----

// begin sees to it that r is given to a handler: at once on a goroutine of its
// own, or when others are through, or, if it reports true, on its caller's. From
// here on r can be cancelled and will be waited for. When the session has ended,
// notBegun takes the place of the handler; a stream ends by itself.
//
// All is decided under one lock. Otherwise the end of the session, or of the last
// request that runs, could come in between, and r would then be put into a queue
// from which nobody lets it in.
func (c *session) beginRequest(r *request) (inline bool) {
	ctx, cancel := context.WithCancelCause(c.ctx)
	r.ctx, r.cancel = context.WithValue(ctx, requestKey{}, r), cancel
	c.wg.Add(1) // the line that it came in is counted: this does not rise from zero
	c.mu.Lock()
	c.requests[string(r.id)] = r
	if r.batch != nil {
		r.batch.owed++
	}
	over, limit := c.ctx.Err() != nil, c.srv.MaxConcurrent
	switch {
	case r.stream != nil: // it waits, and does not work
		c.streams = append(c.streams, r.stream)
		c.out.enqueue(r.acknowledgement())
		go c.handleRequest(r, false)
	case limit > 0 && len(c.running) >= limit && !over:
		r.element = c.waiting.PushBack(r)
	default:
		if over {
			r.handler = (*request).refuseNotStarted
		}
		c.running[r] = struct{}{}
		inline = (over || len(c.running) == 1) && r.batch == nil // of a batch, the caller goes on with the next member
		if !inline {
			go c.handleRequest(r, false)
		}
	}
	c.mu.Unlock()
	return inline
}

// letIn gives the first of the requests that wait to its handler, if there is one.
// The caller must hold c.mu, and have a place for the request among those that run
// unless the session has ended.
func (c *session) startNextLocked() {
	first := c.waiting.Front()
	if first == nil {
		return
	}
	r := c.waiting.Remove(first).(*request)
	r.element = nil
	if c.ctx.Err() != nil {
		r.handler = (*request).refuseNotStarted
	}
	c.running[r] = struct{}{}
	go c.handleRequest(r, false)
}

// ---- handle ----

// handle runs the handler of r and answers. A panic, or a call of
// runtime.Goexit, costs this one request and nothing else. Lent says that the caller
// has lent the turn. Handle reports whether the caller has the turn again: then flush
// writes the answer, and otherwise handle does.
//
// The deferred function does all that has to be done however the handler ends. A
// handler that calls Goexit ends the goroutine of its caller too, so if that was
// the reader's, the turn must go to another one. The order matters: the answer is
// queued; what nobody will flush is written; only then may the drain waiter go on.
func (c *session) handleRequest(r *request, lent bool) (mine bool) {
	var line []byte
	returned := false
	defer func() {
		if !returned {
			if lent {
				c.turn.pass()
				lent = false // the goroutine ends with Goexit, and after a panic because mine is false
			}
			why := recover()
			if why == nil {
				why = "it called runtime.Goexit"
			}
			c.logf("%v did not return: %s\n%s", r, formatPanic(why), debug.Stack())
			line = r.failureAnswer(errors.New(internalError.Message)) // where a model reads it, it is a result
		}
		c.respond(r, line)
		if mine = lent && c.turn.reclaim(); !mine { // else flush writes
			c.writeOutput()
		}
		c.wg.Done()
	}()
	line = c.runHandler(r)
	returned = true
	return false // the deferred function tells
}

// panicText is how the value of a panic prints. That is up to the user's code, which
// may panic again.
func formatPanic(why any) (text string) {
	text = fmt.Sprintf("a %T", why) // if the next line panics
	defer func() { recover() }()
	return fmt.Sprint(why)
}

// run calls the handler of r and returns the line that answers r, or nil for none.
// It reports a question that was asked and then lost: in the modern era a question
// is only sent if the handler returns its error.
func (c *session) runHandler(r *request) []byte {
	c.mu.Lock()
	owed := c.requests[string(r.id)] == r
	c.mu.Unlock()
	if !owed { // it was cancelled before it began
		return nil
	}
	line := r.handler(r)
	if lost := c.takeInputRequests(r); len(lost) > 0 && r.ctx.Err() == nil {
		c.logf("%v: the handler dropped the error of %s; return it", r, askFunctions[lost[0].method])
	}
	return line
}

// waitForEndOfStream is the handler of subscriptions/listen: it waits for the end,
// and says so if there is somebody to be told.
func (r *request) waitForEndOfStream() []byte {
	select {
	case <-r.session.inputOver: // which does not end r.ctx while handlers linger
	case <-r.ctx.Done():
	}
	if r.session.cause() == ErrClosed { // also if the client has cancelled r, which is not answered
		return nil
	}
	return r.endAnswer(r.beginAnswer(), r.tag())
}

// ---- respond ----

// respond answers r, unless the client has cancelled it, and lets go of what r has
// used. The entry goes first: the client may use the id again as soon as it has
// read the line, and whatever else belongs to r comes too late from here on.
//
// The next request takes over the place of r among those that run, in the same
// step. So no later handler answers first when MaxConcurrent is 1, and no request
// that arrives at that moment can slip in before it.
func (c *session) respond(r *request, line []byte) {
	c.mu.Lock()
	if c.requests[string(r.id)] == r {
		delete(c.requests, string(r.id))
		c.sendResponseLocked(r.batch, line)
	}
	c.removeStreamLocked(r.stream)
	if r.stream == nil { // a stream has no place
		delete(c.running, r)
		c.startNextLocked()
	}
	c.mu.Unlock()
	r.cancel(nil)
}

// answer answers what never became a handler's. Only the reader calls it: the
// line goes out when it flushes.
func (c *session) sendResponse(b *batch, line []byte) {
	c.mu.Lock()
	if b != nil {
		b.owed++
	}
	c.sendResponseLocked(b, line)
	c.mu.Unlock()
}

// refuse answers a message that is not a proper request. A nil id is sent as
// null, which is how JSON-RPC speaks of an id that could not be read. An id still
// in flight is also sent as null; otherwise its owner would take this error for
// its answer.
func (c *session) refuseMessage(b *batch, id []byte, err *Error) {
	c.logf("refused: %s", err.Message)
	c.mu.Lock()
	if c.requests[string(id)] != nil {
		id = nil
	}
	c.mu.Unlock()
	if id != nil || !c.isFlooded() { // two bytes would be answered with a hundred
		c.sendResponse(b, errorLine(id, err))
	}
}

// sendAnswer sends line, or puts it with the other answers of its batch, which
// go out when the last one is there. A nil line is an answer that will not come.
// The caller must hold c.mu.
func (c *session) sendResponseLocked(b *batch, line []byte) {
	if b == nil {
		if line != nil {
			c.lastResponse = c.out.enqueue(line)
		}
		return
	}
	if line != nil {
		b.responses = append(append(b.responses, ','), line...)
		c.batched += len(line) + 1
	}
	if b.owed--; b.owed == 0 && len(b.responses) > 0 {
		c.batched -= len(b.responses)
		b.responses[0] = '[' // in place of the first comma
		c.lastResponse = c.out.enqueue(append(b.responses, ']'))
	}
}

// notify sends a notification that belongs to r, before the answer of r or not
// at all, if ok, which is called under c.mu, agrees. It returns when the line
// is written, so that the answer of r comes in a later Write: there are clients that
// drop progress which they read together with it. It waits no longer than r lasts.
func (c *session) sendNotification(r *request, line []byte, ok func() bool) {
	c.mu.Lock()
	if c.requests[string(r.id)] != r || r.ctx.Err() != nil || !ok() {
		c.mu.Unlock()
		return
	}
	end := c.out.enqueue(line)
	c.startWriterLocked()
	c.mu.Unlock()
	c.out.waitUntilWritten(end, r.ctx.Done())
}

// String names r for people: in diagnostics, and in an ErrDrain.
func (r *request) String() string {
	name := ""
	if r.name != "" {
		name = " " + oneLine(r.name)
	}
	return excerpt(string(r.method)) + name + " (id " + oneLine(string(r.id)) + ")"
}

// ---- answers ----
//
// The answer to a request is one line, and this section makes those that tell
// what a handler has returned. A line begins with request.beginAnswer and ends with
// request.endAnswer, which know the eras apart. In between each member and each element
// is appended with a comma behind it. A result that cannot be written as JSON is an
// error in place of the whole line, so nothing that is broken goes out.

// beginAnswer begins the line that answers r with a result. Members of the result
// are to follow, each with a comma behind it, and then endAnswer.
func (r *request) beginAnswer() []byte {
	b := join(make([]byte, 0, 256), `{"jsonrpc":"2.0","id":`, string(r.id), `,"result":{`)
	if r.rev.modern() {
		b = join(b, `"resultType":"complete",`)
	}
	return b
}

// endAnswer completes what beginAnswer began. Meta holds members of the result's
// _meta, with a comma behind each; there may be none.
func (r *request) endAnswer(b []byte, meta ...string) []byte {
	return r.endAnswerAs(r.session.identity, b, meta...)
}

// emptyAnswer is a result with no members of its own. Clients of the older
// revisions refuse any member in it.
func (r *request) emptyAnswer() []byte { return r.endAnswer(r.beginAnswer()) }

// endAnswerAs is endAnswer with a given serverInfo: server/discover sends the full one.
func (r *request) endAnswerAs(identity string, b []byte, meta ...string) []byte {
	switch {
	case r.rev.modern():
		b = join(join(join(b, `"_meta":{`), meta...), `"`+keyServer+`":`, identity, `}`)
	case len(meta) > 0:
		b = closeWith(join(join(b, `"_meta":{`), meta...), `}`)
	}
	return closeWith(b, `}}`)
}

// errorLine is the line that answers with an error. A nil id is sent as null.
func errorLine(id []byte, e *Error) []byte {
	b := join(nil, `{"jsonrpc":"2.0","id":`, cmp.Or(string(id), "null"), `,"error":{"code":`, strconv.Itoa(cmp.Or(e.Code, codeInternal)), `,`)
	b = stringMember(b, "message", e.Message)
	if e.Data != nil {
		if data, err := marshal(e.Data); err == nil {
			b = rawMember(b, "data", data)
		}
	}
	return closeWith(b, `}}`)
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
	codeURL        = -32042 // the user has to go to a page first, in 2025-11-25
)

// internalError is what the client is told of a fault that only the programmer can
// mend.
var internalError = coded(codeInternal, "Internal error")

func coded(code int, message string) *Error {
	return &Error{Code: code, Message: message}
}

func invalid(what string) *Error {
	return coded(codeInvalid, "Invalid Request: "+what)
}

func badParams(what string) *Error {
	return coded(codeParams, "Invalid params: "+what)
}

// toolAnswer is the line that answers the call of a tool with what its handler
// returned, to which out points. If it is none of the types that we know, s
// describes it.
func (r *request) toolAnswer(out any, s *schema) []byte {
	switch out := out.(type) {
	case *any: // the handler decides from call to call: what it holds counts
		if *out == nil {
			return r.resultAnswer(&Result{})
		}
		p := reflect.New(reflect.TypeOf(*out))
		p.Elem().Set(reflect.ValueOf(*out))
		return r.toolAnswer(p.Interface(), nil)
	case *struct{}:
		return r.resultAnswer(&Result{})
	case *string:
		if r.item.promises { // Out is any
			return r.resultAnswer(&Result{})
		}
		return r.textAnswer(*out, nil, false)
	case *Content:
		return r.resultAnswer(&Result{Content: []Content{*out}})
	case *[]Content:
		return r.resultAnswer(&Result{Content: *out})
	case *Result:
		return r.resultAnswer(out)
	case **Result:
		return r.resultAnswer(cmp.Or(*out, &Result{}))
	}
	raw, err := s.marshal(out)
	switch {
	case err != nil:
		return r.notEncodable(err)
	case string(raw) == "null":
		return r.resultAnswer(&Result{})
	}
	return r.textAnswer(string(raw), raw, false)
}

// textAnswer is the line that answers the call of a tool with a text, and with
// structured output unless that is nil. Most calls end here: nothing is built
// that is then written down.
func (r *request) textAnswer(text string, structured []byte, isError bool) []byte {
	b := appendString(join(r.beginAnswer(), `"content":[{"type":"text","text":`), text)
	return r.endAnswer(appendOutcome(join(b, `}],`), structured, isError, r.rev, r.item.wraps))
}

// resultAnswer is the line that answers the call of a tool with a Result. Its Meta
// cannot say who the server is: that member is ours, and no name comes twice.
func (r *request) resultAnswer(res *Result) []byte {
	b, err := res.append(r.beginAnswer(), r.rev, r.item)
	meta, err2 := jsonOf(res.Meta)
	if err := cmp.Or(err, err2); err != nil {
		return r.notEncodable(err)
	}
	if _, claimed := res.Meta[keyServer]; claimed {
		meta = without(meta, keyServer)
	}
	if len(meta) <= len("{}") {
		return r.endAnswer(b)
	}
	return r.endAnswer(b, string(meta[1:len(meta)-1]), ",")
}

// methodAnswer is the line that answers a request for a method of AddMethod. No name may
// come twice in it: the members that every result has are ours.
func (r *request) methodAnswer(result any) []byte {
	raw, err := marshal(result)
	switch {
	case err != nil:
		return r.notEncodable(err)
	case result == nil:
		raw = []byte("{}")
	case raw[0] != '{':
		return r.notEncodable(errors.New("the result of a method must be a JSON object"))
	}
	var meta []byte
	b := r.beginAnswer()
	for name, val := range members(raw) {
		switch {
		case string(name) == "_meta" && val[0] == '{':
			meta = without(val, keyServer)
		case string(name) != "resultType" || !r.rev.modern():
			b = append(append(append(appendString(b, string(name)), ':'), val...), ',')
		}
	}
	if len(meta) <= len("{}") {
		return r.endAnswer(b)
	}
	return r.endAnswer(b, string(meta[1:len(meta)-1]), ",")
}

// protocolError returns the *Error in the tree of err, or nil. It may be wrapped,
// or joined with others.
func protocolError(err error) (e *Error) {
	errors.As(err, &e)
	return e
}

// failureAnswer is the line that answers r if its handler failed. Whoever calls a tool
// is told as its result, unless the call as such was wrong. That a legacy client
// lacks a capability is such a result too: its revision has no code for it. The
// client is asked what the handler wants to know, unless err also holds an [*Error],
// which no answer can change.
func (r *request) failureAnswer(err error) []byte {
	if errors.Is(err, ErrInputRequired) {
		questions := r.session.takeInputRequests(r)
		if len(questions) > 0 && protocolError(err) == nil {
			return r.inputRequired(questions)
		}
	}
	if err == r.ctx.Err() { // its cause tells more
		err = context.Cause(r.ctx)
	}
	switch fault := protocolError(err); {
	case fault != nil && (fault.Code != codeCapability || r.rev.modern()):
		return errorLine(r.id, r.permitted(fault))
	case r.service.forModel:
		return r.textAnswer(err.Error(), nil, true)
	}
	return errorLine(r.id, coded(codeInternal, err.Error()))
}

// permitted returns a handler's error with a code that r's revision lets
// handlers use. A client acts on a reserved code: it would take the error for one
// of the protocol's own.
func (r *request) permitted(e *Error) *Error {
	code := r.rev.errorCode(e.Code)
	if code == e.Code {
		return e
	}
	if code == codeInternal { // and not the new number of an old code
		r.session.logf("%v: the protocol reserves the error code %d: sent as %d", r, e.Code, code)
	}
	return &Error{Code: code, Message: e.Message, Data: e.Data}
}

// notEncodable is the line that answers r if what its handler returned cannot be
// sent. What err says is for the programmer, and not for the client.
func (r *request) notEncodable(err error) []byte {
	r.session.logf("%v: the result cannot be sent: %v", r, err)
	return errorLine(r.id, internalError)
}

// append appends the members of the result of a call of a tool.
func (res *Result) append(b []byte, rev revision, tool *item) (_ []byte, err error) {
	b = join(b, `"content":[`)
	for _, c := range res.Content {
		if b, err = c.append(b, rev); err != nil {
			return nil, err
		}
	}
	b = closeWith(b, `],`)
	var structured []byte
	if res.StructuredContent != nil {
		if structured, err = marshal(res.StructuredContent); err != nil {
			return nil, err
		}
	}
	if tool.promises && rev.knows(structuredOutput) && !res.IsError && (structured == nil || string(structured) == "null") { // clients refuse it
		return nil, errors.New("there is no structured output, which the output schema promises")
	}
	return appendOutcome(b, structured, res.IsError, rev, tool.wraps), nil
}

// appendOutcome appends what follows the content of a result. Wraps is what
// [Tool.wraps] says; without a schema the value itself decides. A null
// is no output.
func appendOutcome(b, structured []byte, isError bool, rev revision, wraps bool) []byte {
	switch {
	case structured == nil || string(structured) == "null" || !rev.knows(structuredOutput):
	case rev.knows(anyOutput) || structured[0] == '{' && !wraps:
		b = rawMember(b, "structuredContent", structured)
	default:
		b = append(append(join(b, `"structuredContent":{"result":`), structured...), "},"...)
	}
	if isError {
		b = join(b, `"isError":true,`)
	}
	return b
}

// pageAnswer is the line that answers a request for a list with the first page of
// items. Keep says whether the client may keep it. An item is encoded once for each
// revision, when it is first listed.
func (r *request) pageAnswer(items []*item, keep bool) []byte {
	s := r.session.srv
	size := cmp.Or(max(0, s.PageSize), len(items))
	page := items[:min(size, len(items))]
	s.mu.Lock() // guards what was encoded before
	room := 256
	for _, it := range page {
		if it.encoded[r.rev] == nil {
			it.encoded[r.rev] = it.encode(r.rev, it.meta)
		}
		room += len(it.encoded[r.rev]) + 1
	}
	b := join(reserve(r.beginAnswer(), room), `"`, kindNames[r.service.kind], `":[`)
	for _, it := range page {
		b = append(append(b, it.encoded[r.rev]...), ',')
	}
	s.mu.Unlock()
	if b = closeWith(b, `],`); len(page) < len(items) {
		b = stringMember(b, "nextCursor", strconv.Itoa(page[len(page)-1].seq))
	}
	return r.endAnswer(r.appendCaching(b, keep))
}

// promptAnswer is the line that answers prompts/get, with messages or the error
// of a PromptFunc. Clients refuse the whole answer if the role of one message is neither
// user nor assistant.
func (r *request) promptAnswer(messages []Message, err error, description string) []byte {
	if err != nil {
		return r.failureAnswer(err)
	}
	b := join(optionalMember(r.beginAnswer(), "description", description), `"messages":[`)
	for _, m := range messages {
		role := cmp.Or(m.Role, "user")
		if role != "user" && role != "assistant" {
			return r.notEncodable(fmt.Errorf("a message has the role %q", role))
		}
		b = join(stringMember(append(b, '{'), "role", role), `"content":`)
		if b, err = m.Content.append(b, r.rev); err != nil {
			return r.notEncodable(err)
		}
		b = closeWith(b, `},`)
	}
	return r.endAnswer(closeWith(b, `],`))
}

// notFound is the error for a resource that is not there. A client is told which:
// it may have asked for several.
func (r *request) notFound() *Error {
	return &Error{Code: r.rev.errorCode(codeNotFound), Message: "Resource not found", Data: map[string]string{"uri": r.name}}
}

// readAnswer is the line that answers resources/read. Clients put what they read
// beside what was listed, so a URI that a ReadFunc leaves out is the one that was read,
// and a type that it leaves out is the Resource's.
func (r *request) readAnswer(contents []ResourceContents, err error, mimeType string) []byte {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return errorLine(r.id, r.notFound())
	case err != nil:
		return r.failureAnswer(err)
	}
	b := join(r.beginAnswer(), `"contents":[`)
	for _, c := range contents {
		c.URI = cmp.Or(c.URI, r.name)
		c.MIMEType = cmp.Or(c.MIMEType, mimeType)
		if b, err = c.append(b, r.rev); err != nil {
			return r.notEncodable(err)
		}
	}
	keep := r.inputResponses == nil && r.state == nil // else it may depend on them
	return r.endAnswer(r.appendCaching(closeWith(b, `],`), keep))
}

// completeAnswer is the line that answers completion/complete. The protocol allows
// a hundred values, and a total to say that there are more.
func (r *request) completeAnswer(values []string, err error) []byte {
	if err != nil {
		return r.failureAnswer(err)
	}
	b := join(r.beginAnswer(), `"completion":{"values":[`)
	for _, v := range values[:min(len(values), 100)] {
		b = append(appendString(b, v), ',')
	}
	b = closeWith(b, `],"total":`, strconv.Itoa(len(values)), `,"hasMore":`, strconv.FormatBool(len(values) > 100), `},`)
	return r.endAnswer(b)
}

// identity is who the server is, as a revision knows it.
func (s *Server) identity(rev revision) string {
	b := stringMember(stringMember([]byte("{"), "name", s.Name), "version", s.Version)
	if rev.knows(titles) {
		b = optionalMember(b, "title", s.Title)
	}
	if rev.knows(websiteURL) {
		b = optionalMember(b, "websiteUrl", s.WebsiteURL)
	}
	return string(closeWith(appendIconsAndMeta(b, rev, s.Icons, nil), "}"))
}

// appendCaching appends the hints of the modern era on how long an answer may be
// kept, and by whom. They are on every answer that a client might keep. If keep is
// false it must not.
func (r *request) appendCaching(b []byte, keep bool) []byte {
	s, ttl, scope := r.session.srv, int64(0), "private"
	if !r.rev.modern() {
		return b
	}
	if keep {
		ttl = max(0, s.CacheTTL.Milliseconds())
	}
	if keep && s.CachePublic {
		scope = "public"
	}
	b = strconv.AppendInt(join(b, `"ttlMs":`), ttl, 10)
	return join(b, `,"cacheScope":"`, scope, `",`)
}

// declared holds the member of the capabilities by which a kind is declared.
var declared = [...]string{
	tools:       `"tools":{"listChanged":true},`,
	prompts:     `"prompts":{"listChanged":true},`,
	resources:   `"resources":{"subscribe":true,"listChanged":true},`,
	completions: `"completions":{},`,
	logging:     `"logging":{},`,
}

// abilities returns the members that tell what the server can do: the capabilities,
// of which it declares what is offered, and the instructions.
func (c *session) abilities(rev revision, offered kindSet) string {
	b := []byte(`"capabilities":{`)
	for k, member := range declared {
		if offered[k] && (kind(k) != completions || rev.knows(completionCapability)) {
			b = join(b, member)
		}
	}
	b = rawMember(b, "experimental", c.experimental)
	b = rawMember(b, "extensions", c.extensions) // in the legacy era too: hosts read it there
	return string(optionalMember(closeWith(b, `},`), "instructions", c.srv.Instructions))
}

// tag is the member of _meta that names r's stream.
func (r *request) tag() string { return `"` + keySubscription + `":` + string(r.id) + `,` }

// acknowledgement is the notification with which a stream begins: what we will
// tell of what was asked for.
func (r *request) acknowledgement() []byte {
	b := join(nil, `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{`, r.tag())
	b = closeWith(b, `},"notifications":{`)
	for k, name := range kindNames[:templates] {
		if r.stream.watched[k] {
			b = join(b, `"`, name, `ListChanged":true,`)
		}
	}
	if len(r.stream.uris) > 0 {
		b = join(b, `"resourceSubscriptions":[`)
		for uri := range r.stream.uris {
			b = append(appendString(b, uri), ',')
		}
		b = closeWith(b, "]")
	}
	return closeWith(b, `}}}`)
}

// append appends one block of content as a revision knows it, and a comma.
func (c Content) append(b []byte, rev revision) (_ []byte, err error) {
	switch c = rev.block(c); {
	case c.Type == "text" || c.Type == "":
		b = stringMember(join(b, `{"type":"text",`), "text", c.Text)
	case c.Type == "image" || c.Type == "audio":
		b = base64.StdEncoding.AppendEncode(join(b, `{"type":"`, c.Type, `","data":"`), c.Data)
		b = stringMember(join(b, `",`), "mimeType", c.MIMEType)
	case c.Type == "resource_link" && c.Link != nil:
		link := *c.Link // which has annotations and a _meta in the same place as the block
		link.Annotations = cmp.Or(c.Annotations, link.Annotations)
		if c.Meta == nil {
			c.Meta = link.Meta
		}
		c.Annotations = nil
		b = link.append(join(b, `{"type":"resource_link",`), "uri", rev, nil)
	case c.Type == "resource" && c.Resource != nil:
		if b, err = c.Resource.append(join(b, `{"type":"resource","resource":`), rev); err != nil {
			return nil, err
		}
	default:
		return nil, fmt.Errorf("content of type %q lacks what belongs to it", c.Type)
	}
	b, err = appendMeta(appendAnnotations(b, c.Annotations, rev), c.Meta, rev)
	return closeWith(b, "},"), err
}

// append appends the members of r, whose URI goes by the name of key, as a
// revision knows them.
func (r *Resource) append(b []byte, key string, rev revision, meta []byte) []byte {
	b = nameMembers(stringMember(b, key, r.URI), rev, r.Name, r.Title, r.Description)
	b = optionalMember(b, "mimeType", r.MIMEType)
	if r.Size > 0 && key == "uri" {
		b = fmt.Appendf(b, `"size":%d,`, r.Size)
	}
	return appendIconsAndMeta(appendAnnotations(b, r.Annotations, rev), rev, r.Icons, meta)
}

// appendIconsAndMeta appends the members that come last, if the revision knows
// them.
func appendIconsAndMeta(b []byte, rev revision, icons []Icon, meta []byte) []byte {
	if len(icons) > 0 && rev.knows(iconPictures) {
		raw, _ := marshal(icons) // strings cannot fail
		b = rawMember(b, "icons", raw)
	}
	if rev.knows(metaInside) {
		b = rawMember(b, "_meta", meta)
	}
	return b
}

// appendAnnotations appends them, if there are any, as a revision knows them.
func appendAnnotations(b []byte, a *Annotations, rev revision) []byte {
	if a == nil {
		return b
	}
	raw, _ := marshal(rev.annotations(*a)) // fails if the priority is no number: then they are left out
	return rawMember(b, "annotations", raw)
}

// append appends the contents as a revision knows them, and a comma.
func (r *ResourceContents) append(b []byte, rev revision) (_ []byte, err error) {
	b = optionalMember(stringMember(append(b, '{'), "uri", r.URI), "mimeType", r.MIMEType)
	if r.Blob != nil {
		b = join(base64.StdEncoding.AppendEncode(join(b, `"blob":"`), r.Blob), `",`)
	} else {
		b = stringMember(b, "text", r.Text)
	}
	b, err = appendMeta(b, r.Meta, rev)
	return closeWith(b, "},"), err
}

// appendMeta appends the _meta of something inside of a result.
func appendMeta(b []byte, meta map[string]any, rev revision) ([]byte, error) {
	raw, err := jsonOf(meta)
	return appendIconsAndMeta(b, rev, nil, raw), err
}

// ---- asking the client ----

// ask returns the client's answer to a question. In the modern era the question may
// have to wait for the end of this round.
func (r *request) ask(ctx context.Context, method, params string) (json.RawMessage, error) {
	switch {
	case !r.rev.modern():
		return r.session.ask(ctx, r, method, params)
	case !r.service.asks: // its result has no member for questions
		return nil, fmt.Errorf("mcp: %s cannot ask the client: %w", r.method, errors.ErrUnsupported)
	}
	r.once.Do(r.takeAnswers)
	if r.badAnswers != nil {
		return nil, r.badAnswers
	}
	if answer, ok := r.takeAnswer(inputRequest{method: method, params: params}); ok {
		return answer, nil
	}
	return nil, fmt.Errorf("%w (%s)", ErrInputRequired, method)
}

// takeAnswer returns the client's answer to a question. If there is none it adds the
// question to those of this round. The key is a checksum of what is asked, and the number
// of answers that this run of the handler has taken for equal questions: one answer never
// serves two questions. The roots are the same however often they are asked for.
func (r *request) takeAnswer(q inputRequest) (answer json.RawMessage, ok bool) {
	sum := r.checksum(q.method, q.params)
	r.session.mu.Lock()
	defer r.session.mu.Unlock()
	q.key = sum + "-" + strconv.Itoa(r.taken[sum])
	if answer, ok = r.answers[q.key]; ok {
		delete(r.untaken, q.key)
		if q.method != "roots/list" {
			r.taken[sum]++
		}
	} else if !slices.ContainsFunc(r.questions, func(o inputRequest) bool { return o.key == q.key }) {
		r.questions = append(r.questions, q)
	}
	return answer, ok
}

// ask sends the client a request on behalf of r and waits for the answer, but no
// longer than ctx, r and the client last. The call stands in the map before it is
// sent, or the answer could come before anybody waits for it. Whoever takes it
// out of the map owns what follows: deliver tells it, and otherwise withdraw ends it.
// The end of the session tells all that are in the map; a call that was told
// already does not mind.
func (c *session) ask(ctx context.Context, r *request, method, params string) (json.RawMessage, error) {
	c.turn.pass() // else nobody would read the answer
	for _, over := range []context.Context{r.ctx, ctx} {
		if over.Err() != nil {
			return nil, context.Cause(over)
		}
	}
	id, call := c.addCall(r, method, params)
	var a reply
	select {
	case a = <-call:
	case <-ctx.Done():
		a.err = context.Cause(ctx)
	case <-r.ctx.Done(): // the handler asks with a context of its own
		a.err = context.Cause(r.ctx)
	}
	c.withdraw(id)
	return a.result, a.err
}

// addCall puts a call into the map and sends it, on behalf of r. If r is owed no answer
// any more it does neither: r was answered or cancelled this moment, and its context
// is about to end, for which ask waits.
func (c *session) addCall(r *request, method, params string) (id string, call chan reply) {
	call = make(chan reply, 1)
	c.mu.Lock()
	switch {
	case c.askErr != nil:
		resolveCall(call, reply{err: c.askErr})
	case c.requests[string(r.id)] == r:
		c.lastCall++
		id = strconv.FormatInt(c.lastCall, 10)
		c.pending[id] = call
		c.out.enqueue([]byte(`{"jsonrpc":"2.0","id":` + id + `,"method":"` + method + `","params":` + params + `}`))
		c.startWriterLocked()
	}
	c.mu.Unlock()
	return id, call
}

// withdraw ends a call if it is still in the map. A client that may yet hear of
// it is told not to bother.
func (c *session) withdraw(id string) {
	c.mu.Lock()
	_, open := c.pending[id]
	delete(c.pending, id)
	if open && c.askErr == nil && !isClosed(c.closing) {
		c.out.enqueue([]byte(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `,"reason":"no longer needed"}}`))
		c.startWriterLocked()
	}
	c.mu.Unlock()
}

// takeInputRequests returns the questions that were added since the last time.
func (c *session) takeInputRequests(r *request) []inputRequest {
	c.mu.Lock()
	defer c.mu.Unlock()
	questions := r.questions
	r.questions = nil
	return questions
}

// askFunctions are the functions that ask, by the method of the question.
var askFunctions = map[string]string{"elicitation/create": "Elicit", "roots/list": "Roots", "sampling/createMessage": "Sample"}

// stateLife is how long a user may take over a question.
const stateLife = time.Hour

// takeAnswers takes the client's answers of this round, and those of earlier
// rounds, which come back to us in the requestState.
func (r *request) takeAnswers() {
	r.answers, r.taken, r.untaken = make(map[string]json.RawMessage), make(map[string]int), make(map[string]bool)
	if r.state != nil {
		state, _ := unquote(r.state)
		earlier, ok := r.unseal(state)
		if !ok {
			r.badAnswers = coded(codeParams, "Invalid or expired requestState")
			return
		}
		decode(earlier, &r.answers) // valid: inputRequired wrote it
	}
	var now map[string]json.RawMessage
	if err := decode(r.inputResponses, &now); err != nil {
		r.badAnswers = badParams("inputResponses: " + err.Error())
	}
	for key, answer := range now {
		r.untaken[key] = true
		if r.answers[key] = answer; answer[0] != '{' {
			r.badAnswers = badParams("inputResponses." + excerpt(key) + " must be an object")
		}
	}
}

// inputRequired is the line that asks the client the questions of this round.
func (r *request) inputRequired(questions []inputRequest) []byte {
	r.session.mu.Lock()
	untaken := len(r.untaken)
	r.session.mu.Unlock()
	if untaken > 0 {
		r.session.logf("%v: %d of the client's answers match no question of the handler: it must ask the same questions each time it runs", r, untaken)
	}
	b := join(nil, `{"jsonrpc":"2.0","id":`, string(r.id), `,"result":{"resultType":"input_required","inputRequests":{`)
	for _, q := range questions {
		b = join(appendString(b, q.key), `:{"method":"`, q.method, `","params":`, q.params, `},`)
	}
	answers, _ := marshal(r.answers) // valid JSON already
	b = stringMember(closeWith(b, `},`), "requestState", r.seal(answers))
	return r.endAnswer(b)
}

// seal makes a requestState: the answers so far, when they expire, and a
// checksum over both and over the call that they belong to.
//
// A requestState needs no secret. It holds the client's own earlier answers and
// nothing else, and the client may send those answers, or others, in any
// inputResponses. So whoever forges a state gains nothing. The checksum is
// there for mistakes: it refuses a state that was mangled, that is too old, or
// that belongs to another call. It is keyed with the Server's random seed, so a
// state is good for one Server only, and ends with it.
func (r *request) seal(answers []byte) string {
	expiry := strconv.FormatInt(time.Now().Add(stateLife).Unix(), 36)
	encoded := base64.RawURLEncoding.EncodeToString(answers)
	return expiry + "." + encoded + "." + r.checksum(expiry, encoded)
}

// unseal returns the answers in a state that seal has made for the same call.
func (r *request) unseal(state string) (answers []byte, ok bool) {
	expiry, rest, _ := strings.Cut(state, ".")
	encoded, sum, _ := strings.Cut(rest, ".")
	until, err := strconv.ParseInt(expiry, 36, 64)
	if sum != r.checksum(expiry, encoded) || err != nil || time.Now().Unix() >= until {
		return nil, false
	}
	answers, err = base64.RawURLEncoding.DecodeString(encoded)
	return answers, err == nil
}

// checksum returns the checksum, under the Server's random seed, of some texts and of
// the call that r is about.
func (r *request) checksum(texts ...string) string {
	arguments := []byte("{}") // also if the client sent none
	if r.arguments != nil {
		arguments, _ = appendCompact(nil, r.arguments)
	}
	var sum maphash.Hash
	sum.SetSeed(r.session.srv.seed)
	for _, text := range append(texts, string(r.method), r.name, string(arguments)) {
		maphash.WriteComparable(&sum, text)
	}
	return strconv.FormatUint(sum.Sum64(), 36)
}

// ---- changes ----

// changed tells the client that the list of this kind is another one now.
func (c *session) sendListChanged(k kind) {
	c.mu.Lock()
	for _, st := range c.streams {
		c.sendListChangedLocked(st, k)
	}
	c.mu.Unlock()
	c.startWriter()
}

// change tells one stream. The caller must hold c.mu.
func (c *session) sendListChangedLocked(st *stream, k kind) {
	switch {
	case !st.watched[k]:
	case st.silent:
		st.missed[k] = true
	default:
		st.sent[k] = c.queueChangeLocked(st, st.sent[k], kindNames[k]+"/list_changed", "")
	}
}

// updated tells the client that a resource that it watches has changed.
func (c *session) sendUpdated(uri string) {
	c.mu.Lock()
	for _, st := range c.streams {
		if told, watched := st.uris[uri]; watched {
			st.uris[uri] = c.queueChangeLocked(st, told, "resources/updated", `"uri":`+string(appendString(nil, uri)))
		}
	}
	c.mu.Unlock()
	c.startWriter()
}

// tellChange sends a notification on a stream and returns where in the output it
// ends. It sends none if the last one of its sort, which ends at told, is still
// queued and no answer was queued behind it, which the client could take for newer
// news: so a thousand changes in a row are told once, or nearly so. The caller must
// hold c.mu.
func (c *session) queueChangeLocked(st *stream, told int64, method, params string) int64 {
	if told > c.lastResponse && c.out.isQueued(told) {
		return told
	}
	if st.request != nil {
		params = string(closeWith(join(nil, `"_meta":{`, st.request.tag()), `},`, params))
	}
	b := join(nil, `{"jsonrpc":"2.0","method":"notifications/`, method, `",`)
	if params != "" {
		b = closeWith(join(b, `"params":{`, params), `},`)
	}
	return c.out.enqueue(closeWith(b, "}"))
}

// ---- write ----
//
// A line that is in the output is written by whoever finds nobody writing. These
// look:
//
//	flush        the reader, before it waits for input
//	handOff      for the reader when it goes on instead, or waits for room; for news
//	             of a change
//	handle       after an answer, unless the reader has the turn again
//	startWriter  for what a handler tells or asks the client, and for a line that
//	             the reader ends while the session is closing
//	drain        when the session is closing, and when all its work has ended
//	wait         when Drain is over before that

// write writes what there is to write, unless somebody else is at it.
func (c *session) writeOutput() {
	if c.out.acquire() {
		c.writeAcquired()
	}
}

// writeAll writes until there is nothing left. The caller has acquired the turn to
// write. An error of the write ends the session.
func (c *session) writeAcquired() {
	if err := c.out.writeAll(); err != nil {
		c.failWrite(err)
	}
}

// handOff is write for those who must not wait: a goroutine does it. When the
// session is closing, it is left to whoever answers next, or to the drain waiter.
func (c *session) startWriter() {
	c.mu.Lock()
	if !isClosed(c.closing) {
		c.startWriterLocked()
	}
	c.mu.Unlock()
}

// startWriter has a goroutine write what there is to write, unless somebody else is
// at it. The caller must hold c.mu, and the drain waiter must have something to wait
// for still: the session is not closing, or a line or a request is counted.
func (c *session) startWriterLocked() {
	if c.out.acquire() {
		c.wg.Go(c.writeAcquired)
	}
}

// ---- diagnostics ----

// A traceWriter writes to the client, and records each line that it has written.
type traceWriter struct {
	io.Writer
	session *session
}

func (w traceWriter) Write(b []byte) (n int, err error) {
	n, err = w.Writer.Write(b)
	for line := range bytes.Lines(b[:n]) {
		w.session.recordLine("out", bytes.TrimSuffix(line, []byte("\n")))
	}
	return n, err
}

// record adds one line to the trace. It never waits: a line that comes when too much
// is unwritten is left out.
func (c *session) recordLine(direction string, line []byte) {
	if c.trace == nil || c.trace.unsentBytes() > traceBound {
		return
	}
	b := time.Now().AppendFormat(nil, "2006/01/02 15:04:05.000000 ")
	c.trace.enqueue(append(fmt.Appendf(b, "%-3s ", direction), line...))
	if c.trace.acquire() {
		go c.trace.writeAll() // wait waits for it
	}
}

// logf tells Server.ErrorLog. It never waits: a host that does not read our
// stderr, or a client that talks rubbish without end, costs only the lines
// that are dropped.
func (c *session) logf(format string, args ...any) {
	c.mu.Lock()
	if now := time.Now().Unix(); now != c.notesTime {
		c.notesNow, c.notesTime = 0, now
	}
	c.notesNow++
	drop := c.notesNow > 20 || c.notes.unsentBytes() > notesBound
	c.mu.Unlock()
	if drop {
		return
	}
	c.notes.enqueue(fmt.Appendf(nil, "mcp: "+format+"\x00", args...))
	if c.notes.acquire() {
		go c.notes.writeAll() // wait waits for it
	}
}

// A logWriter prints the notes that are written to it to a log.Logger. A note may have
// several lines, so endOfNote is what ends it.
type logWriter struct{ *log.Logger }

// endOfNote is the NUL that logf appends, and the newline of the lineWriter.
const endOfNote = "\x00\n"

// Write prints each note by itself: a log that is read by programs has one entry a
// note.
func (w logWriter) Write(b []byte) (int, error) {
	if w.Logger == nil {
		w.Logger = log.Default()
	}
	for note := range strings.SplitSeq(strings.TrimSuffix(string(b), endOfNote), endOfNote) {
		w.Print(note)
	}
	return len(b), nil
}

// ---- who reads ----

// A turn is the right to read and decode, which one goroutine has at a time. Its
// holder lends it for work that may last: nobody has it then, and the holder takes it
// back after the work. But it passes to a new goroutine if somebody wants it to, or
// if the work lasts for maxInline, or longer with a long text. The one who lent it
// gets it back then only if the new holder has lent it in turn: whoever comes back
// first reads on, and the other ends. Nobody ever waits for the turn.
type turn struct {
	readLines func()      // what the goroutine does that gets the turn
	timer     *time.Timer // calls pass

	mu   sync.Mutex // guards what follows, and the order of the timer's starts and stops
	lent bool
}

// lend begins a loan, for work on a line of that size. Only the holder may call it.
func (t *turn) lend(size int) {
	t.mu.Lock()
	t.lent = true
	t.timer.Reset(maxInline * time.Duration(1+min(size/longText, 4))) // a long text takes us long, and not the handler
	t.mu.Unlock()
}

// reclaim takes the turn if it is lent, and reports whether it is the caller's now.
// Only who has lent it may call it, and once.
func (t *turn) reclaim() (mine bool) {
	t.mu.Lock()
	if t.lent {
		t.lent, mine = false, true
		t.timer.Stop()
	}
	t.mu.Unlock()
	return mine
}

// pass gives the turn to a new goroutine, if it is lent. Anybody may call it at
// any time. The timer may call it late, for a loan that has just begun.
func (t *turn) pass() {
	t.mu.Lock()
	if t.lent {
		t.lent = false
		go t.readLines()
	}
	t.mu.Unlock()
}

// ---- what was read ----

// Fresh memory is much of what a long text costs. So the memory that it was read
// into, and that it was written from, is used again, until the garbage collector
// takes it.
var (
	readBuffers = sync.Pool{New: func() any { return new(readBuffer) }}
	longLines   sync.Pool // of *[]byte
)

type readBuffer [keepBuffer]byte

// A lineReader cuts what it reads into lines. It promises each line once, in its
// order, a bounded memory for what is longer than a line may be, and the end of
// the input behind the last line. Whoever has the turn to read calls its methods;
// meanwhile one goroutine may be in read, ahead.
//
// Lines are slices of the buffer that they were read into, and that memory is not
// read into a second time. So nobody has to copy a line that outlives the next
// one, and a buffer is let go with the last request that came in it. A line that
// does not fit into one buffer is collected in parts, and put together once; the
// buffers that held nothing else are used again.
type lineReader struct {
	r     io.Reader
	limit int // bytes that a line may have

	mu       sync.Mutex    // guards what follows; it is not held while r is read
	buf      []byte        // was read and is not taken yet; the room behind it is read into
	seen     int           // buf[:seen] holds no newline
	parts    [][]byte      // the beginning of a line of which the rest is in buf
	size     int           // bytes in parts
	head     []byte        // the beginning of a line that is longer than limit; nil otherwise
	tail     []byte        // the end of it, as far as it was read
	pastMark bool          // there can be no byte order mark any more
	err      error         // of the last Read
	ahead    chan struct{} // closed when the Read ahead that is under way has ended; nil: there is none
}

// fill reads once, or waits for the Read ahead; it blocks as long as Read does. It is
// called when next has found nothing, and does nothing if there is more by now: the
// turn may have been lent in between.
func (l *lineReader) readMore() {
	l.mu.Lock()
	ahead, more := l.ahead, l.seen < len(l.buf) || l.err != nil
	l.mu.Unlock()
	switch {
	case more:
	case ahead != nil:
		<-ahead
	default:
		l.readOnce()
	}
}

// readAhead has a goroutine read once, unless one does already, r has come to its
// end, or enough was read ahead. It returns a channel that is closed when that Read
// has ended, or nil, and the error of the last Read.
func (l *lineReader) startReadAhead() (<-chan struct{}, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ahead == nil && l.err == nil && len(l.buf) < aheadBound {
		l.ahead = make(chan struct{})
		go l.readOnce()
	}
	return l.ahead, l.err
}

// read reads once. One goroutine at a time may call it; another may take lines
// meanwhile.
func (l *lineReader) readOnce() {
	l.mu.Lock()
	room := l.makeRoomLocked()
	l.mu.Unlock()
	n, err := readSome(l.r, room)
	l.mu.Lock()
	l.buf, l.err = l.buf[:len(l.buf)+n], err
	if l.ahead != nil {
		close(l.ahead)
		l.ahead = nil
	}
	l.mu.Unlock()
}

// drop makes room by forgetting what was read and not taken. What comes of a Read ahead
// that is under way must be dropped too: it stands elsewhere in the buffer.
func (l *lineReader) discard() {
	l.mu.Lock()
	l.buf, l.seen = l.buf[:0], 0
	l.mu.Unlock()
}

// readSome reads once, or again while r gives neither data nor an error.
func readSome(r io.Reader, b []byte) (n int, err error) {
	for range maxEmpty {
		if n, err = r.Read(b); n != 0 || err != nil {
			return n, err
		}
	}
	return 0, io.ErrNoProgress
}

// room returns where to read into. When the buffer is full it begins another one: the
// little that a line has in the old one is copied, and much of it stays where it is,
// as a part. A buffer in which there may be whole lines, read ahead, grows instead.
// The caller must hold the lock.
func (l *lineReader) makeRoomLocked() []byte {
	if begun := l.buf; cap(begun)-len(begun) < minRead {
		if l.seen < len(begun) {
			l.buf = slices.Grow(begun, keepBuffer)
		} else if l.buf = readBuffers.Get().(*readBuffer)[:0]; len(begun) < minRead {
			l.buf = append(l.buf, begun...)
		} else {
			l.parts, l.size, l.seen = append(l.parts, begun), l.size+len(begun), 0
		}
	}
	return l.buf[len(l.buf):cap(l.buf)]
}

// next returns the next line without its end, or nil if there is no whole one; err is
// the error of r, when all lines before it have been taken. What comes after the last
// newline is a line too, if it is the last there is. Of a line that is too long it
// returns the beginning and, as tail, which is nil for any other line, the end. A line
// stays as it is for good: nobody reads into its memory again.
func (l *lineReader) nextLine() (line, tail []byte, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.size == 0 && l.head == nil { // blanks before a message do not count, and so do not blank lines
		l.skipBlankLocked()
	}
	chunk, whole := l.buf, false
	if end := bytes.IndexByte(l.buf[l.seen:], '\n'); end >= 0 {
		chunk, whole = l.buf[:l.seen+end+1], true
	}
	if !whole && l.err == nil {
		long := l.head != nil || l.isTooLongLocked(chunk)
		l.seen = len(l.buf)
		if long {
			l.keepEndsLocked(chunk)
			l.seen, l.buf = 0, l.buf[len(chunk):]
		}
		return nil, nil, nil
	}
	l.seen, l.buf = 0, l.buf[len(chunk):]
	if l.size == 0 && l.head == nil && len(chunk) == 0 {
		return nil, nil, l.err
	}
	l.pastMark = true
	if l.head == nil && !l.isTooLongLocked(chunk) {
		return l.joinPartsLocked(chunk), nil, nil
	}
	l.keepEndsLocked(chunk)
	line, tail = l.head, trimEnd(l.tail)
	l.head, l.tail = nil, nil
	return line, tail, nil
}

// skipBlank steps over blanks, and over a byte order mark that is the first of
// all.
func (l *lineReader) skipBlankLocked() {
	const mark = "\ufeff"
	blanks := skipSpace(l.buf, 0)
	if !l.pastMark && bytes.HasPrefix(l.buf[blanks:], []byte(mark)) {
		blanks, l.pastMark = skipSpace(l.buf, blanks+len(mark)), true
	}
	l.seen, l.buf = max(0, l.seen-blanks), l.buf[blanks:]
}

// whole returns a line that ends with chunk. It does not call bytes.Join, because the
// garbage collector would have to wait while that fills a megabyte of fresh memory. It
// can interrupt make, which clears such memory piece by piece.
func (l *lineReader) joinPartsLocked(chunk []byte) []byte {
	if l.size > 0 {
		line := make([]byte, 0, l.size+len(chunk))
		for _, part := range l.parts {
			line = append(line, part...)
			// Only a whole buffer has this room, or by chance the end of one that grew.
			if l.size <= maxReused && cap(part) == keepBuffer {
				readBuffers.Put((*readBuffer)(part[:keepBuffer]))
			}
		}
		chunk = append(line, chunk...)
		l.parts, l.size = nil, 0
	}
	return trimEnd(chunk)
}

// tooMuch reports whether a line that chunk goes on with is longer than a line
// may be. Blanks behind the limit do not count, up to 64 KiB of them. What stands
// before seen was looked at already.
func (l *lineReader) isTooLongLocked(chunk []byte) bool {
	over := l.size + len(chunk) - l.limit
	return over > keepHead || over > 0 && len(trimEnd(chunk[max(l.seen, len(chunk)-over):])) > 0
}

// keepEnds lets go of a line that is too long, but for its first 64 KiB and its last
// 1 KiB. It is called again for whatever more there is of the line.
func (l *lineReader) keepEndsLocked(chunk []byte) {
	for _, part := range append(l.parts, chunk) {
		room := min(keepHead, l.limit) - len(l.head)
		l.head = append(l.head, part[:min(len(part), room)]...)
		l.tail = append(l.tail, part[max(0, len(part)-maxRepeated):]...)
		l.tail = l.tail[max(0, len(l.tail)-maxRepeated):]
	}
	l.parts, l.size = nil, 0
}

// ---- what is to be written ----

// A lineWriter is a queue of lines, and the turn to write them. Senders append
// whole lines and never wait; whoever finds nobody writing writes until nothing
// is left, many lines at once. There is no goroutine that only writes: it would
// have to be woken for each answer. Positions are counted in bytes since the
// beginning, so that whoever remembers where a line ends can ask whether it is
// written. It promises that lines go out whole, in their order, by one goroutine at a
// time, and that no Write begins after stop, but for one that was on its way.
type lineWriter struct {
	w io.Writer

	mu       sync.Mutex    // guards what follows; it is not held while w is written to
	buf      []byte        // whole lines
	spare    []byte        // was written last; used again
	added    int64         // bytes, ever
	written  int64         // of these, taken by w, or lost with an error
	writing  bool          // a goroutine is in writeAll
	held     bool          // lines are kept back
	stopped  bool          // nothing is written any more
	progress chan struct{} // closed when written or stopped changes; nil: nobody waits
}

// enqueue appends line and returns where it ends, in bytes since the beginning.
// It may keep line and the room behind it: the caller must not touch either
// again.
func (w *lineWriter) enqueue(line []byte) (end int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.stopped {
		w.added += int64(len(line)) + 1
		if len(w.buf) > 0 || len(line) <= keepBuffer {
			line = append(w.buf, line...)
		}
		w.buf = append(line, '\n')
	}
	return w.added
}

// acquire reports whether the caller has got the turn to write. Then it must
// call writeAll.
func (w *lineWriter) acquire() bool {
	w.mu.Lock()
	mine := !w.writing && !w.held && len(w.buf) > 0
	if mine {
		w.writing = true
	}
	w.mu.Unlock()
	return mine
}

// writeAll writes until there is nothing left, or lines are held. After an error
// nothing is written any more.
func (w *lineWriter) writeAll() (err error) {
	w.mu.Lock()
	for len(w.buf) > 0 && !w.held {
		b := w.buf
		w.buf, w.spare = w.spare[:0], nil
		w.mu.Unlock()
		var n int
		if n, err = w.w.Write(b); err == nil && n < len(b) {
			err = io.ErrShortWrite
		}
		w.mu.Lock()
		if cap(b) <= keepBuffer {
			w.spare = b[:0]
		} else if cap(b) <= maxReused && err == nil { // a w that failed may not have let go of b
			long := b // a copy: with &b, every b would be allocated
			longLines.Put(&long)
		}
		w.written += int64(len(b))
		if err != nil {
			w.stopped, w.buf = true, nil
		}
		w.wakeLocked()
	}
	w.writing = false
	w.mu.Unlock()
	return err
}

// hold(true) keeps back what is not handed to w yet. After hold(false), somebody has
// to write it.
func (w *lineWriter) setHeld(held bool) {
	w.mu.Lock()
	w.held = held
	w.mu.Unlock()
}

// stop sees to it that nothing more is handed to w.
func (w *lineWriter) stop() {
	w.mu.Lock()
	w.stopped, w.buf = true, nil
	w.wakeLocked()
	w.mu.Unlock()
}

// wake has everybody who waits look again. The caller must hold the lock.
func (w *lineWriter) wakeLocked() {
	if w.progress != nil {
		close(w.progress)
		w.progress = nil
	}
}

// until returns nil when all before the position end has been written, or never
// will be; otherwise a channel that is closed when it is worth another look.
func (w *lineWriter) waitChannel(end int64) <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.written >= end || w.stopped {
		return nil
	}
	if w.progress == nil {
		w.progress = make(chan struct{})
	}
	return w.progress
}

// await waits until all before the position end has been written, or never will
// be, or until over is closed.
func (w *lineWriter) waitUntilWritten(end int64, over <-chan struct{}) {
	for unsent := w.waitChannel(end); unsent != nil; unsent = w.waitChannel(end) {
		select {
		case <-unsent:
		case <-over:
			return
		}
	}
}

// position returns where the last line ends.
func (w *lineWriter) position() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.added
}

// unsent returns how many bytes w has not taken yet.
func (w *lineWriter) unsentBytes() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.added - w.written
}

// queued reports whether the line that ends there has not been handed to w yet.
func (w *lineWriter) isQueued(end int64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return end > w.added-int64(len(w.buf))
}
