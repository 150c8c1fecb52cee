// SPDX-License-Identifier: MIT
// Version 3.0.0, 2026-11-23

package mcp

// One client.
//
//	r ─▶ lineReader ─▶ acceptLine ─▶ acceptMessage
//	                                   ├─▶ acceptNotification: initialized, cancelled
//	                                   ├─▶ acceptResponse: to the handler that asked the client
//	                                   └─▶ acceptRequest ─▶ dispatchRequest
//	                                                          ├─▶ sendResponse ─────────────────────────────┐
//	                                                          └─▶ beginRequest ─▶ handleRequest ─▶ respond ─┴─▶ lineWriter ─▶ w
//
// The end of the input, and of the session, is in cancel.go.
//
// Everything up to beginRequest runs on one goroutine at a time, which has the turn
// to read. So a line has taken effect before the next line is parsed: a cancel never
// overtakes its request. While no other request runs, the goroutine that has the turn
// also runs the handler, which saves waking another thread. Meanwhile the turn is on
// loan: if the handler runs for more than a millisecond (up to five if the line is
// long), or asks the client something, the turn passes to a new goroutine. So input
// is read whatever a handler does, and no goroutine waits for the turn.
//
// This is a list of all goroutines of a session, except those of timers, which never
// block. Each line says what the goroutine does, and after the colon what waits for
// it.
//
//	readLines            has the turn to read: the WaitGroup, for its line and its writes
//	handleRequest        runs a handler that the reader does not run: the WaitGroup
//	lineWriter.writeAll  writes to w for a goroutine that must not block: the WaitGroup
//	lineReader.readOnce  one Read ahead, begun while too much output is unsent: the next
//	                     goroutine that reads
//	lineWriter.writeAll  writes the trace or the diagnostics: waitForEnd, within Drain
//	waitUntilIdle        the drain waiter, which waits for the WaitGroup: waitForEnd,
//	                     within Drain
//	doWithin             after Drain, writes the responses that were held: waitForEnd, up
//	                     to graceTime; restores a logger: ServeStdio, up to graceTime
//	formatPanic          calls the methods of a panic's value: handleRequest
//	endOnSignal          waits for the first signal: ServeStdio
//
// Serve may return while these still run: a Read that cannot be interrupted, a Write
// of the trace or the diagnostics that takes longer than Drain, and after an ErrDrain
// the handlers and the Write that did not end in time.
//
// No lock is held during a Read, a Write or a handler. A goroutine that needs
// session.mu and another lock acquires session.mu first.

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
	outputBound = 16 << 20        // unsent bytes above which no further line is accepted
	aheadBound  = 16 << 20        // most bytes that are read ahead meanwhile
	notesBound  = 64 << 10        // unsent bytes above which diagnostics are dropped
	traceBound  = 64 << 20        // unsent bytes above which lines of the trace are dropped
	keepBuffer  = 64 << 10        // bytes of a read buffer; larger write buffers are not kept
	keepHead    = 64 << 10        // bytes kept of the start of a line that is too long; also the most blanks that isTooLongLocked ignores
	minRead     = keepBuffer / 16 // if a buffer has less room, a Read gets a new one
	maxReused   = 4 << 20         // bytes; the memory of a longer line is not used again
	maxBatch    = 10_000          // messages in one batch
	maxStreams  = 64              // open subscriptions/listen requests
	maxWatched  = 10_000          // resources that one stream watches
	maxURI      = 8 << 10         // bytes in the URI of a resource that is watched
	maxMatched  = 64 << 10        // bytes in a URI that is matched against templates
	maxRepeated = 1 << 10         // bytes in an id or token that notifications repeat; also the bytes kept of the end of a line that is too long
	maxDepth    = 10_000          // levels of nesting, as in encoding/json
	maxEmpty    = 100             // Reads in a row without data or an error, as in bufio
	maxRemakes  = 10              // times that a handler makes a list again because it has changed

	maxInline = time.Millisecond // after which a lent turn passes on, and queued responses are written
	longText  = 256 << 10        // bytes; a loan lasts maxInline longer for each longText bytes of the line, at most four times
)

// A session is one client: both ends of its connection and the work in progress.
type session struct {
	srv    *Server
	ctx    context.Context // parent of the contexts of all handlers; cancelled when the session ends
	cancel context.CancelCauseFunc

	turn  turn
	in    lineReader // used by the goroutine that has the turn
	out   lineWriter
	trace *lineWriter // to the file of MCP_TRACE; nil if there is none
	notes lineWriter  // to Server.ErrorLog

	identity                 string // serverInfo of modern results: name and version only
	experimental, extensions []byte // capabilities, as JSON

	// A session ends in these steps. First, r ends or fails, w fails, or the context
	// of Serve ends. From then on no further line is accepted, except lines that were
	// read before the end of r. Then the handlers end, and Serve returns.
	inputOver chan struct{}  // closed when r has ended or failed
	closing   chan struct{}  // closed when no further line is accepted
	wg        sync.WaitGroup // counts lines being accepted, requests that were begun, and writes
	returned  chan struct{}  // closed when Serve returns

	failed context.Context         // cancelled by the first failure of r or w; Serve returns its cause
	fail   context.CancelCauseFunc // called with an error, never with nil

	mu           sync.Mutex            // guards the fields below; held for a few lines of code only
	askErr       error                 // if set, the client can no longer be asked, and why
	requests     map[string]*request   // requests that must be answered, by raw id
	running      map[*request]struct{} // requests whose handlers run, also cancelled ones; at most Server.MaxConcurrent until the session ends
	waiting      list.List             // requests that wait until other requests end, as *request
	pending      map[string]chan reply // our requests that wait for the client's response, by our id
	lastCall     int64
	lastResponse int64     // position in the output after the last response
	batched      int       // bytes of responses that wait for the other responses of their batches
	streams      []*stream // streams that receive changes, oldest first
	legacy       legacy    // written with mu by the goroutine that has the turn, which reads it without mu; other goroutines need mu
	notesNow     int       // number of diagnostics during the second that notesTime holds
	notesTime    int64
}

// legacy is the state of a client of the older revisions: what initialize said, and
// which notifications the client receives.
type legacy struct {
	rev          revision // 0 before initialize
	client, caps []byte
	stream       *stream
	level        int // lowest level of log messages that are sent, as an index of levels
}

// A request is one request of the client, from acceptRequest to respond. A request
// that needs no handler is answered at once and is in none of the maps. Any other
// request is in these, which session.mu guards:
//
//	                                        requests   waiting   running
//	it waits for other requests to end      yes        yes       no
//	it runs                                 yes        no        yes
//	it runs, and the client cancelled it     no         no        yes
//	it has been answered                    no         no        no
//	it is a stream                          yes        no        no
//
// A request that is in requests must be answered. A notification or a question that
// belongs to a request is sent only while the request is in requests.
type request struct {
	session *session
	ctx     context.Context // of the handler; its value for requestKey is this request
	cancel  context.CancelCauseFunc
	id      []byte   // the raw token, sent back byte for byte
	method  []byte   // unquoted
	service *service // how the method is served
	name    string   // of the tool or prompt, or the URI of the resource
	rev     revision
	params
	batch   *batch
	stream  *stream           // of subscriptions/listen
	element *list.Element     // in session.waiting
	item    *item             // the tool, prompt, resource or template; nil for other methods
	vars    map[string]string // the variables of a resource template

	listed     bool // the response is a page of a list
	remakes    int  // how often the page was made again, because the list had changed
	after      int  // position of the item before the page
	generation int  // of the list

	handler func(*request) []byte // returns the response, as a line

	client, caps []byte // clientInfo and capabilities, from initialize or, in the modern era, from _meta

	answers map[string]json.RawMessage // the client's responses to questions, of this round and of earlier ones

	taken     map[string]int  // guarded by session.mu, like the fields below: how many answers this run has taken, by the checksum of the question
	untaken   map[string]bool // the answers of this round that the handler has not taken
	reported  bool
	progress  float64        // the last value that was reported
	questions []inputRequest // to be sent with the result of this round
}

// params holds the members of a request's or a notification's params that this
// package reads, as raw JSON. The last five fields are members of its _meta. The
// service of a method checks which members the method has, and their values.
type params struct {
	raw                                          []byte // the whole object
	duplicate                                    string // names a member that came twice; "" if none did
	meta, rawName, arguments, uri, cursor        []byte
	notifications, level, state, inputResponses  []byte
	protocolVersion, capabilities, clientInfo    []byte
	requestID, reason                            []byte
	metaVersion, metaCaps, metaClient, metaLevel []byte
	token                                        []byte
}

// An inputRequest is a question of the modern era, which is sent in a result.
type inputRequest struct{ key, method, params string }

// A batch collects the responses to one line of several messages. They are sent
// together. If a handler outlives Drain, none of the responses is sent.
type batch struct {
	missing   int // responses still to come, plus one while the line is being accepted
	responses []byte
}

// A reply is the outcome of a request that the server sent to the client. The channel that
// receives it has room for one reply, so sending one never blocks.
type reply struct {
	result json.RawMessage
	err    error
}

// resolveCall sends the reply to a call. It does nothing if call already has a reply,
// or is nil.
func resolveCall(call chan reply, a reply) {
	select {
	case call <- a:
	default:
	}
}

// Serve speaks MCP with one client. It reads messages from r, one per line, and
// writes messages to w, until r ends, ctx ends, or r or w fails. It then cancels the
// handlers, after [Server.Linger] if r has ended, and waits up to [Server.Drain] for
// them to return.
//
// If handlers or writes did not end within Drain, Serve returns an error that wraps
// [ErrDrain]. Otherwise it returns nil if r or ctx has ended or the client has closed
// the connection, and the error of r or w if one of them failed. If r returns neither
// data nor an error a hundred times in a row, the error is [io.ErrNoProgress].
//
// Several sessions of one Server may run at the same time. Serve closes neither r nor
// w. If it returns before the end of r, a Read may still be in progress: close r to
// end it.
func (s *Server) Serve(ctx context.Context, r io.Reader, w io.Writer) error {
	_, err := s.serveSession(ctx, r, w, nil)
	return err
}

// serveSession is Serve with a trace, unless trace is nil. It also reports whether a
// write of the session may still be in progress.
func (s *Server) serveSession(ctx context.Context, r io.Reader, w io.Writer, trace io.Writer) (writing bool, err error) {
	if s.Name == "" || s.Version == "" {
		return false, errors.New("mcp: Server.Name and Server.Version must be set")
	}
	if err := checkIcons(s.Icons); err != nil {
		return false, fmt.Errorf("mcp: Server.Icons: %w", err)
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
	c.out.w, c.out.failed, c.notes.w = w, c.failWrite, logWriter{s.ErrorLog}
	defer func() { // after notes and trace were stopped
		writing = errors.Is(err, ErrDrain) || c.notes.isWriting() || c.trace != nil && c.trace.isWriting()
	}()
	if trace != nil {
		c.trace, c.out.w = &lineWriter{w: trace}, traceWriter{w, c}
		defer c.trace.stop()
	}
	c.identity = s.identity(0)
	var err1, err2 error
	c.experimental, err1 = encodeCapabilities(s.Experimental) // before the session begins, because this may call the user's MarshalJSON
	c.extensions, err2 = encodeCapabilities(s.Extensions)
	if err := cmp.Or(err1, err2); err != nil {
		return false, fmt.Errorf("mcp: Server.Experimental or Extensions: %w", err)
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
	return false, c.waitForEnd() // a deferred function sets writing
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

// The differences between the revisions of the protocol are in this section, in the fields
// since and until of services, and in the since tags of public types. To add a revision:
//
//	- add its constant and its date below, and add it to modernVersions;
//	- add a constant for each feature that is new in it;
//	- add the features that it removes or renames to the functions from hasEnumNames on;
//	  errorCode holds the error codes that a revision reserves;
//	- add the keys of its _meta.
//
// New members of a request are read in envelope.parseMessage. New members of a result
// are written where that kind of result is made. A new capability of the server is
// added to declared, and a new notification of the client to notifications. Doc
// comments that name revisions may have to change.
//
// All other code asks rev.knows(feature), or rev.modern() where the two eras differ.

// A revision is a dated version of the protocol. Revisions before firstModern are the
// legacy era.
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

// modern reports whether v belongs to the modern era, in which each request names its
// revision and the client.
func (v revision) modern() bool { return v >= firstModern }

// revisionOf returns the revision named version, or 0 if it is unknown.
func revisionOf(version string) revision {
	return revision(max(0, slices.Index(revisions[:], version)))
}

// negotiate returns the revision of a session whose client asks for version.
func negotiate(version string) revision {
	if v := revisionOf(version); v != 0 && !v.modern() {
		return v
	}
	return newestLegacy
}

// modernVersions is a JSON list of the revisions that a request may name.
const modernVersions = `["2026-07-28"]`

// What the revisions know: each feature with the first revision that has it. The
// fields of the public types have a tag such as `since:"2025-06-18"` instead.
const (
	rootsAndSampling = rev2024_11_05

	audioBlocks          = rev2025_03_26 // Content of type audio
	progressMessages     = rev2025_03_26 // the message of Progress
	completionCapability = rev2025_03_26 // is declared; the method itself is older

	resourceLinks    = rev2025_06_18 // Content of type resource_link
	structuredOutput = rev2025_06_18 // outputSchema and structuredContent, which must be objects
	metaInside       = rev2025_06_18 // the _meta of tools, content and other parts of a result
	forms            = rev2025_06_18 // Elicit

	formModes       = rev2025_11_25 // the mode of Elicit and its capability
	pageVisits      = rev2025_11_25 // ElicitURL
	choiceTitles    = rev2025_11_25 // titles of an enum in a form, each with its value
	choiceLists     = rev2025_11_25 // a field of a form that takes several values of an enum
	formDefaults    = rev2025_11_25 // in a form; the default of a boolean is older
	samplingContext = rev2025_11_25 // has a capability of its own
	blockLists      = rev2025_11_25 // several blocks in a message of Sample

	anyOutput = rev2026_07_28 // outputSchema and structuredContent need not be objects
)

// knows reports whether v has a feature that came with the revision since.
func (v revision) knows(since revision) bool { return v >= since }

// hasEnumNames reports whether the titles of an enum in a form are a separate list.
func (v revision) hasEnumNames() bool { return v == rev2025_06_18 }

// batches reports whether one line may hold several messages.
func (v revision) batches() bool { return v == rev2025_03_26 }

// hasElicitationID reports whether ElicitURL sends an id.
func (v revision) hasElicitationID() bool { return v == rev2025_11_25 }

// errorCode returns the code that is sent for a handler's error code. A reserved code
// is sent only if the revision lets servers use it.
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

// block returns c, or a text in its place if v does not know the type of c.
func (v revision) block(c Content) Content {
	switch {
	case c.Type == "audio" && !v.knows(audioBlocks):
		c.Type, c.Text = "text", "[audio, "+c.MIMEType+", "+strconv.Itoa(len(c.Data))+" bytes]"
	case c.Type == "resource_link" && c.Link != nil && !v.knows(resourceLinks):
		c.Type, c.Text = "text", c.Link.Name+": "+c.Link.URI
	}
	return c
}

// encodePublic returns val, a struct with since tags, as JSON, with only the members
// that v knows. All of val must be encodable.
func (v revision) encodePublic(val any) []byte {
	p := reflect.New(reflect.TypeOf(val))
	p.Elem().Set(reflect.ValueOf(val))
	v.restrict(p.Elem())
	raw, _ := new(schema).marshal(p.Interface())
	return raw
}

// restrict zeroes the fields of val that v does not know. First it copies the
// pointers and slices in val, except bytes, so that no other value changes.
func (v revision) restrict(val reflect.Value) {
	switch k := val.Kind(); {
	case val.IsZero():
	case k == reflect.Struct:
		for i := range val.NumField() {
			if f := val.Field(i); f.IsZero() {
				continue
			} else if v.knows(revisionOf(val.Type().Field(i).Tag.Get("since"))) {
				v.restrict(f)
			} else {
				f.SetZero()
			}
		}
	case k == reflect.Pointer:
		p := reflect.New(val.Type().Elem())
		p.Elem().Set(val.Elem())
		val.Set(p)
		v.restrict(p.Elem())
	case k == reflect.Slice && val.Type().Elem().Kind() != reflect.Uint8:
		list := reflect.MakeSlice(val.Type(), val.Len(), val.Len())
		for i := range val.Len() {
			list.Index(i).Set(val.Index(i))
			v.restrict(list.Index(i))
		}
		val.Set(list)
	}
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

// readLines reads and accepts lines. It runs on the goroutine that has the turn to
// read, and returns when the turn has passed to another goroutine, r has ended or
// Serve has returned. When no further line is accepted it still reads, and discards
// input that it reads: a client that blocks in a write can then read the last responses.
//
// The responses to requests that this goroutine serves are not written one by one.
// They are written together before it waits for input, or before the next line if a
// millisecond has passed. So many requests at once cost few writes, and a client that
// waits for a response does not wait long.
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
		if time.Since(began) > maxInline { // queued responses have waited long enough
			c.startWriter()
			began = time.Now()
		}
		if c.startLine() && !c.takeLine(line, tail) {
			return
		}
	}
}

// isFlooded reports whether too much output is unsent although the session has ended.
// The reader no longer waits for room then, and much input may have been read ahead.
// So requests get a short error, and invalid messages without a valid id get no
// response.
func (c *session) isFlooded() bool {
	return c.ctx.Err() != nil && c.out.unsentBytes() > outputBound
}

// isClosed reports whether a channel is closed. Nothing may ever be sent on it.
func isClosed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

// startLine counts a line in the WaitGroup, unless the session is closing, and
// reports whether it did. So the WaitGroup does not rise from zero once the
// session is closing.
func (c *session) startLine() bool {
	c.mu.Lock()
	open := !isClosed(c.closing)
	if open {
		c.wg.Add(1)
	}
	c.mu.Unlock()
	return open
}

// takeLine accepts one line and, if the request in it is for this goroutine, runs its
// handler. It reports whether the goroutine still has the turn. The caller must have
// called startLine. If the handler calls runtime.Goexit, takeLine does not return.
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

// endLine undoes startLine. If the session is closing, no goroutine flushes any more,
// and the drain waiter writes again only when the WaitGroup reaches zero. So endLine
// starts a writer for the response to this line before it calls wg.Done.
func (c *session) endLine() {
	c.mu.Lock()
	if isClosed(c.closing) {
		c.startWriterLocked()
	}
	c.mu.Unlock()
	c.wg.Done()
}

// flushOutput writes the responses that are queued, before its caller waits for
// input. The write may block, so the turn is lent meanwhile: input is read even if
// the client does not read. It reports whether the caller still has the turn. While
// the session is closing it does nothing, because the drain waiter writes.
func (c *session) flushOutput() (mine bool) {
	if !c.startLine() {
		return true
	}
	defer c.wg.Done()
	if !c.out.acquire() {
		return true
	}
	c.turn.lend(0)
	c.out.writeAll()
	return c.turn.reclaim()
}

// roomChannel returns nil if at most outputBound bytes of output are unsent, and otherwise
// a channel that is closed when the caller should look again.
func (c *session) roomChannel() <-chan struct{} {
	return c.out.waitChannel(c.out.position() - outputBound)
}

// waitForRoom blocks while more than outputBound bytes of output are unsent. That
// limits the memory that a client can cost by writing without reading. Meanwhile up
// to aheadBound bytes of input are read ahead, so that the end of the input is seen
// as soon as Read returns it. When the session has ended waitForRoom does not block,
// because requests must still be answered; see isFlooded.
func (c *session) waitForRoom() {
	for {
		full := c.roomChannel()
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

// An envelope holds the outer members of one message, and its params, as slices of
// the line.
type envelope struct {
	jsonrpc, id, method, result, err []byte
	params                           params
	duplicate                        string // names a member that came twice; "" if none did
	duplicateID                      bool
}

// parseMessage splits a message into its members, and reports whether it is valid
// JSON. Names are matched exactly. If the message ends early, the members before that
// are set, and the last value as far as it goes.
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
	dropNulls(&e.method)                 // some clients write it in a response
	e.duplicateID = message[0].duplicate // the first is "id"
	e.duplicate, p.duplicate = findDuplicate(message), cmp.Or(findDuplicate(params), findDuplicate(meta))
	return valid
}

// isResponse reports whether the message looks like a response to one of our
// requests. A response is never answered, even if it is invalid.
func (e *envelope) isResponse() bool {
	return e.method == nil && (e.result != nil || e.err != nil)
}

// acceptLine accepts one line. It returns the request in it if the caller is to run
// the handler. A batch is validated as a whole before any of its messages takes
// effect. acceptMessage validates any other line, and refuses a batch that is not
// valid JSON.
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

// acceptBatch accepts a line of several messages, which one revision allows. The
// messages are accepted in order, like lines, but their responses are sent as one
// line: the batch counts the responses that are still to come, and the last one sends
// all of them. The line itself counts as one, so that nothing is sent before the last
// message was accepted.
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
		b := &batch{missing: 1}
		for _, m := range members(line) {
			c.acceptMessage(m, b)
		}
		c.mu.Lock()
		c.sendResponseLocked(b, nil)
		c.mu.Unlock()
	}
}

// acceptMessage accepts one message and returns what acceptLine returns. The order of
// the cases matters: an invalid response is not answered, and an id is sent back only
// if it is valid and came once.
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
		c.refuseMessage(b, id, invalid("method is missing"))
	case e.method[0] != '"':
		c.refuseMessage(b, id, invalid("method must be a string"))
	case version != "2.0" && id != nil:
		c.refuseMessage(b, id, invalid(`jsonrpc must be "2.0"`))
	case version != "2.0":
		c.logf("notification ignored: jsonrpc must be \"2.0\"") // a notification has no response
	case id == nil:
		c.acceptNotification(&e)
	default:
		return c.acceptRequest(&e, b)
	}
	return nil
}

// refuseLongLine refuses a line of more than Server.MaxMessage bytes, of which only
// the start and the end were kept. The id may be in either.
func (c *session) refuseLongLine(head, tail []byte) {
	c.recordLine("in", join(nil, string(head[:min(len(head), 1000)]), "... (cut: too long)"))
	err := invalid("the message is longer than " + strconv.Itoa(c.in.limit) + " bytes")
	var e envelope
	e.parseMessage(slices.Clip(head))
	id := e.id
	if len(id) == cap(id) { // it is missing, or it reaches the end of head, so a part of it may be missing
		id = findIDAtEnd(tail)
	}
	if !isValidID(id) || !utf8.Valid(id) || e.duplicateID {
		id = nil
	}
	if e.isResponse() {
		resolveCall(c.removeCall(id), reply{err: fmt.Errorf("mcp: the client's response is longer than %d bytes", c.in.limit)})
		c.logf("response ignored: %v", err)
		return
	}
	if id == nil && bytes.HasPrefix(e.method, []byte(`"notifications/`)) {
		c.logf("notification ignored: %v", err)
		return
	}
	c.refuseMessage(nil, id, err)
}

// findIDAtEnd returns the id of an object of which only the end was kept, because
// some clients write the id last. It looks for a member named id with which a valid
// end of the object begins. Quotes inside of strings are escaped, so such a member is
// never a part of a string.
func findIDAtEnd(tail []byte) (id []byte) {
	for at := 0; id == nil; at++ {
		next := bytes.Index(tail[at:], []byte(`"id"`))
		if next < 0 {
			return nil
		}
		at += next
		rest := join(nil, "{", string(tail[at:]))
		if scan(rest, 0, 0, nil) == len(rest) && bytes.HasSuffix(trimEnd(tail[:at]), []byte(",")) {
			scanMembers(rest, want{name: "id", to: &id})
		}
	}
	return id
}

// notifications holds the notifications that a client may send. Two of them have no
// effect, but are not reported as unknown: this server never asks for progress, and
// does not store roots.
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

// acceptNotification accepts a notification, which has no response.
func (c *session) acceptNotification(e *envelope) {
	method, _ := unquote(e.method)
	switch act := notifications[method]; {
	case act == nil:
		c.logf("notification ignored: unknown method %q", excerpt(method))
	case e.params.duplicate != "":
		c.logf("notification ignored: %s", e.params.duplicate)
	default:
		act(c, e.params)
	}
}

// startNotifications sends the notifications of the lists that have changed since
// initialize.
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

// acceptResponse accepts the client's response to one of our requests.
func (c *session) acceptResponse(e *envelope) {
	dropNulls(&e.err)
	call := c.removeCall(e.id)
	switch {
	case call == nil:
		c.logf("response ignored: no request of this server has the id %s", oneLine(cmp.Or(string(e.id), "(missing)")))
	case e.duplicate != "":
		resolveCall(call, reply{err: fmt.Errorf("mcp: the client's response is invalid: %s", e.duplicate)})
	case e.err == nil:
		resolveCall(call, reply{result: e.result})
	default:
		var code, message []byte
		scanMembers(e.err, want{name: "code", to: &code}, want{name: "message", to: &message})
		why, _ := unquote(message)
		resolveCall(call, reply{err: fmt.Errorf("mcp: the client responded with an error: %s (%.20s)", cmp.Or(excerpt(why), "no message"), cmp.Or(string(code), "no code"))})
	}
}

// removeCall removes the call with this id from the map and returns it. It returns
// nil if there is none.
func (c *session) removeCall(id []byte) chan reply {
	key := integer(string(id)) // some clients write 1.0 for 1
	c.mu.Lock()
	call := c.pending[key]
	delete(c.pending, key)
	c.mu.Unlock()
	return call
}

// ---- request ----

// A service describes how the requests of one method are served. dispatchRequest
// checks the members that all requests have, the revision, and whether the server
// offers what the method needs. serve makes all other checks.
type service struct {
	since, until revision // the revisions that have the method; 0: no bound
	early        bool     // it is served also before initialize
	kind         kind     // what the server must offer; nothing: the method is always served
	list         bool     // legacy clients may list what is not offered
	asks         bool     // in the modern era, its result may hold questions
	forModel     bool     // an error of the handler is sent as a result, which the model reads
	absentData   any      // data of the error in revisions that do not have the method

	// serve returns an error or a response. If it returns neither, it has set
	// r.handler.
	serve func(*session, *request) ([]byte, *Error)
}

// services holds the methods of the protocol: those that open a conversation, lists,
// those that call handlers, and those that turn notifications on and off.
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

// existsIn reports whether revision v has the method.
func (s *service) existsIn(v revision) bool {
	return v >= s.since && (s.until == 0 || v <= s.until)
}

// acceptRequest accepts a request and returns what acceptLine returns. It refuses an
// id that is in use, and refuses the request if too many bytes of responses are
// unsent. That happens in a batch, whose responses are kept until the last one is
// made, and after the end of the session, when a client may have stopped reading.
func (c *session) acceptRequest(e *envelope, b *batch) (inline *request) {
	c.mu.Lock()
	_, dup := c.requests[string(e.id)]
	full := b != nil && c.batched > outputBound || c.isFlooded()
	c.mu.Unlock()
	switch {
	case dup: // with its id, the response would be taken for that of the first request
		c.refuseMessage(b, nil, invalid("id "+oneLine(string(e.id))+" is in use"))
		return nil
	case full:
		c.refuseMessage(b, e.id, coded(codeInternal, "Too many bytes of responses are unsent"))
		return nil
	}
	r := &request{session: c, id: e.id, batch: b, params: e.params}
	r.method = unquoteBytes(e.method)
	r.service = c.srv.findMethod(string(r.method))
	line, err := c.dispatchRequest(r)
	for err == nil && line != nil && !c.sendResponse(b, line, r) {
		line, err = r.service.serve(c, r)
	}
	switch {
	case err != nil:
		c.sendResponse(b, errorLine(r.id, err), nil)
	case line == nil && c.beginRequest(r):
		return r
	}
	return nil
}

// dispatchRequest returns the response or the error of a request that needs no
// handler. If it returns neither, the caller passes r to beginRequest.
func (c *session) dispatchRequest(r *request) ([]byte, *Error) {
	if err := r.params.checkParams(); err != nil {
		return nil, err
	}
	if err := c.selectEra(r); err != nil {
		return nil, err
	}
	s := r.service
	offered := s.kind == nothing || c.srv.offeredKinds()[s.kind.capability()]
	if !offered && (!s.list || r.rev.modern()) { // hosts of the legacy era drop a server that refuses a list
		return nil, r.methodNotFound()
	}
	return s.serve(c, r)
}

// checkParams checks what all methods have in common. A null is treated as absent if
// the member is optional.
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

// dropNulls treats null as absent.
func dropNulls(optional ...*[]byte) {
	for _, val := range optional {
		if string(*val) == "null" {
			*val = nil
		}
	}
}

// selectEra sets the revision of r. A request that names its version in _meta is
// modern. Any other request is legacy, and is refused before initialize unless it is
// initialize or ping.
func (c *session) selectEra(r *request) *Error {
	if r.metaVersion != nil {
		return r.takeClaim()
	}
	r.rev, r.client, r.caps = c.legacy.rev, c.legacy.client, c.legacy.caps
	switch {
	case r.service.since > newest: // no revision has it
		return r.methodNotFound()
	case r.service.existsIn(r.rev) && (r.rev != 0 || r.service.early):
		return nil
	}
	return coded(codeParams, "Missing required _meta fields "+keyVersion+" and "+keyCaps+" (older revisions send initialize)")
}

// takeClaim checks the _meta of a modern request, and sets the revision, the client
// and its capabilities from it.
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
	case r.metaLevel != nil && !slices.Contains(levels[:], level): // level is "" if it is not a string
		return coded(codeParams, "Invalid log level: "+excerpt(cmp.Or(level, string(r.metaLevel))))
	case r.batch != nil:
		return invalid("batching is not supported")
	}
	r.rev, r.caps, r.client = rev, r.metaCaps, r.metaClient
	if !r.service.existsIn(r.rev) {
		return r.methodNotFound()
	}
	return nil
}

// parseClientInfo returns the name and the version in a clientInfo object, and
// reports whether it has both.
func parseClientInfo(raw []byte) (name, version string, ok bool) {
	var rawName, rawVersion []byte
	scanMembers(raw, want{name: "name", to: &rawName}, want{name: "version", to: &rawVersion})
	name, named := unquote(rawName)
	version, versioned := unquote(rawVersion)
	return name, version, named && versioned
}

// methodNotFound is the error for a method that r's revision does not have, or that
// needs something that the server does not offer.
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
	offered := c.srv.offeredKinds()
	st := &stream{watched: offered, silent: true}
	c.mu.Lock()
	c.legacy = legacy{rev: r.rev, level: len(levels), client: bytes.Clone(r.clientInfo), caps: bytes.Clone(r.capabilities), stream: st}
	c.streams = append(c.streams, st)
	c.mu.Unlock()
	b := join(r.beginResponse(), `"protocolVersion":"`, r.rev.String(), `","serverInfo":`, c.srv.identity(r.rev), `,`)
	return r.endResponse(join(b, c.describeCapabilities(r.rev, offered))), nil
}

// discover returns the revisions, the capabilities and the instructions of the server
// to a modern client.
func (c *session) discover(r *request) ([]byte, *Error) {
	b := join(r.beginResponse(), `"supportedVersions":`, modernVersions, `,`)
	b = r.appendCaching(join(b, c.describeCapabilities(r.rev, c.srv.offeredKinds())), true)
	return r.endResponseAs(c.srv.identity(r.rev), b), nil
}

// ping returns an empty result. A client may ping before initialize.
func (c *session) ping(r *request) ([]byte, *Error) {
	return r.emptyResponse(), nil
}

// listItems returns one page of a list. A cursor is the seq of the last item before
// the page, so it stays valid when items are added or removed.
//
// If the server has tools with Tool.Shown, a handler makes the page: Shown is the
// user's code and must not run under a lock or delay the reader.
func (c *session) listItems(r *request) ([]byte, *Error) {
	cursor, isText := unquote(r.cursor)
	after, err := strconv.Atoi(cmp.Or(cursor, "0"))
	c.srv.mu.Lock()
	last, hides := c.srv.lastSeq, c.srv.hides
	c.srv.mu.Unlock()
	if r.cursor != nil && !isText || err != nil || after < 0 || after > last {
		return nil, coded(codeParams, "Invalid cursor")
	}
	r.after = after
	if hides && r.service.kind == tools {
		r.handler = (*request).listPage
		return nil, nil
	}
	return r.listPage(), nil
}

// listPage returns the response to a request for a page of a list. In a handler, it leaves
// out the tools that the client may not see; such a list must not be cached.
func (r *request) listPage() []byte {
	var items []*item
	items, r.generation = r.session.srv.listInOrder(r.service.kind)
	r.listed = true
	first, _ := slices.BinarySearchFunc(items, r.after+1, func(it *item, seq int) int { return it.seq - seq })
	items = items[first:]
	if r.ctx != nil {
		items = slices.DeleteFunc(slices.Clone(items), func(it *item) bool { return it.shown != nil && !it.shown(r.ctx) })
	}
	return r.pageResponse(items, r.ctx == nil)
}

// isStaleLocked reports whether the list in the response of r lacks a change. The client may have
// been notified of that change already, and would not ask again. The caller must hold c.mu,
// under which both the response and the notification are queued.
func (r *request) isStaleLocked() bool {
	s := r.session.srv
	s.mu.Lock()
	defer s.mu.Unlock()
	return r.listed && r.generation != s.generations[r.service.kind]
}

// findItem finds the item that a request names. The item's handler answers the
// request.
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
	r.item, r.vars = c.srv.findItem(k, name)
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
		URI  string `json:"uri"`  // of a template, or a URI that matches one
	} `json:"ref"`
	Argument struct {
		Name  string  `json:"name"`
		Value *string `json:"value"`
	} `json:"argument"`
	Context struct {
		Arguments json.RawMessage `json:"arguments,omitempty"`
	} `json:"context"`
}

// findCompletion finds the argument for which the client wants suggestions. The
// handler decodes the other arguments, because there may be many.
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
	it, _ := c.srv.findItem(k, r.name)
	name := p.Argument.Name
	switch {
	case name == "" || p.Argument.Value == nil:
		return nil, badParams("argument.name and argument.value are required")
	case it == nil || !slices.Contains(it.args, name):
		return nil, badParams("no such prompt, template or argument to complete")
	}
	r.handler = func(r *request) []byte {
		known := make(map[string]string)
		if err := decode(p.Context.Arguments, &known); err != nil {
			return errorLine(r.id, badParams("context.arguments: "+err.Error()))
		}
		if it.complete[name] == nil {
			return r.completeResponse(nil, nil)
		}
		return r.completeResponse(it.complete[name](r.ctx, *p.Argument.Value, known))
	}
	return nil, nil
}

// setLevel sets the lowest level of log messages that the legacy session receives.
func (c *session) setLevel(r *request) ([]byte, *Error) {
	level, _ := unquote(r.params.level)
	n := slices.Index(levels[:], level)
	if n < 0 {
		return nil, coded(codeParams, "Invalid log level: "+excerpt(cmp.Or(level, string(r.params.level), "it is missing")))
	}
	c.mu.Lock()
	c.legacy.level = n
	c.mu.Unlock()
	return r.emptyResponse(), nil
}

// logLevel returns the lowest level of log messages that the client wants for r, as
// an index of levels.
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

// subscribe lets the legacy session receive notifications when a resource changes.
func (c *session) subscribe(r *request) ([]byte, *Error) {
	uri, isText := unquote(r.uri)
	if !isText {
		return nil, badParams("uri is required")
	}
	c.mu.Lock()
	err := c.legacy.stream.watchURI(uri)
	c.mu.Unlock()
	return r.emptyResponse(), err
}

// unsubscribe undoes subscribe.
func (c *session) unsubscribe(r *request) ([]byte, *Error) {
	uri, isText := unquote(r.uri)
	if !isText {
		return nil, badParams("uri is required")
	}
	c.mu.Lock()
	delete(c.legacy.stream.uris, uri)
	c.mu.Unlock()
	return r.emptyResponse(), nil
}

// A stream receives notifications of changes: the legacy session is one, and in the
// modern era each subscriptions/listen request is one.
type stream struct {
	request *request         // the subscriptions/listen request; nil for the legacy session
	watched kindSet          // the kinds whose lists are watched
	sent    [kinds]int64     // position in the output after the last notification of each kind
	uris    map[string]int64 // the resources that are watched, each with its position as in sent
	silent  bool             // set until notifications/initialized arrives
	missed  kindSet          // what has changed while silent was set
}

// listen begins a subscriptions/listen request. The request may last long, so it
// keeps no slices of its line.
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

// parseFilter returns a stream for what a subscriptions/listen request asks for, as
// far as the server offers it.
func (c *session) parseFilter(notifications []byte) (*stream, *Error) {
	if notifications == nil || notifications[0] != '{' {
		return nil, badParams("notifications is required")
	}
	var lists [templates][]byte
	var uris []byte
	wanted := []want{{name: "toolsListChanged", to: &lists[tools]}, {name: "promptsListChanged", to: &lists[prompts]},
		{name: "resourcesListChanged", to: &lists[resources]}, {name: "resourceSubscriptions", to: &uris}}
	scanMembers(notifications, wanted...)
	if duplicate := findDuplicate(wanted); duplicate != "" {
		return nil, badParams(duplicate)
	}
	dropNulls(&lists[tools], &lists[prompts], &lists[resources], &uris)
	st, offered := &stream{}, c.srv.offeredKinds()
	for k, wanted := range lists {
		switch string(wanted) {
		case "true":
			st.watched[k] = offered[k]
		case "false", "": // treated as absent
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

// watchURIs adds the resources of a list to those that are watched. A nil list is
// empty.
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

// watchURI adds a resource to those that are watched.
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

// removeStreamLocked removes a stream, unless gone is nil. The caller must hold c.mu.
func (c *session) removeStreamLocked(gone *stream) {
	c.streams = slices.DeleteFunc(c.streams, func(st *stream) bool { return st == gone })
}

// ---- begin ----

// beginRequest starts the handler of r on a new goroutine, or queues r if
// MaxConcurrent handlers run. If it returns true, it did neither, and the caller must
// run the handler. From here on r can be cancelled, and is counted in the WaitGroup. If
// the session has ended, refuseNotStarted replaces the handler, unless r is a stream,
// which then ends by itself.
//
// All of this happens under one lock. Otherwise the session, or the last request that
// runs, could end in between, and a request that was queued after that would never be
// started.
func (c *session) beginRequest(r *request) (inline bool) {
	ctx, cancel := context.WithCancelCause(c.ctx)
	r.ctx, r.cancel = context.WithValue(ctx, requestKey{}, r), cancel
	c.wg.Add(1) // the line is counted too, so this does not rise from zero
	c.mu.Lock()
	c.requests[string(r.id)] = r
	if r.batch != nil {
		r.batch.missing++
	}
	over, limit := c.ctx.Err() != nil, c.srv.MaxConcurrent
	switch {
	case r.stream != nil: // a stream waits, and takes no place among those that run
		c.streams = append(c.streams, r.stream)
		c.out.enqueue(r.acknowledgedLine())
		go c.handleRequest(r, false)
	case limit > 0 && len(c.running) >= limit && !over:
		r.element = c.waiting.PushBack(r)
	default:
		if over {
			r.handler = (*request).refuseNotStarted
		}
		c.running[r] = struct{}{}
		inline = (over || len(c.running) == 1) && r.batch == nil // in a batch, the caller goes on with the next message
		if !inline {
			go c.handleRequest(r, false)
		}
	}
	c.mu.Unlock()
	return inline
}

// startNextLocked starts the handler of the first request that waits, if there is
// one. The caller must hold c.mu, and fewer than MaxConcurrent handlers must be
// running. After the session has ended no handler starts: cancelHandlers answers the
// requests that wait.
func (c *session) startNextLocked() {
	if c.ctx.Err() != nil {
		return
	}
	if r := c.takeWaitingLocked(); r != nil {
		c.running[r] = struct{}{}
		go c.handleRequest(r, false)
	}
}

// takeWaitingLocked removes the first request that waits and returns it, or nil if
// there is none. The caller must hold c.mu.
func (c *session) takeWaitingLocked() *request {
	first := c.waiting.Front()
	if first == nil {
		return nil
	}
	r := c.waiting.Remove(first).(*request)
	r.element = nil
	return r
}

// ---- handle ----

// handleRequest runs the handler of r and answers r. If the handler panics or calls
// runtime.Goexit, only this request fails. The argument lent is true if the caller
// has lent the turn. handleRequest reports whether the caller has the turn again. If
// it has, flushOutput writes the response; otherwise handleRequest does.
//
// The deferred function runs however the handler ends. If the handler calls Goexit,
// the caller's goroutine ends too, so a lent turn must pass to another goroutine. The
// order matters: the response is queued, then written unless the caller flushes, and
// only then is wg.Done called, which may end the session.
func (c *session) handleRequest(r *request, lent bool) (mine bool) {
	returned := false
	defer func() {
		if !returned {
			if lent {
				c.turn.pass()
				lent = false // the goroutine ends after Goexit; after a panic the caller sees that mine is false
			}
			what := "called runtime.Goexit"
			if why := recover(); why != nil {
				what = "panicked: " + formatPanic(why)
			}
			c.logf("%v %s\n%s", r, what, debug.Stack())
			r.listed = false
			c.respond(r, r.failureResponse(errors.New(internalError.Message))) // for a tool, a result that the model reads
		}
		if mine = lent && c.turn.reclaim(); !mine { // otherwise flushOutput writes
			c.writeOutput()
		}
		c.wg.Done()
	}()
	for !c.respond(r, c.runHandler(r)) {
		// The list in the response has changed meanwhile.
	}
	returned = true
	return false // the deferred function sets it
}

// formatPanic formats the value of a panic. The methods of the value are the user's
// code, which may panic again or call runtime.Goexit, so they run on a goroutine of
// their own.
func formatPanic(why any) string {
	text := fmt.Sprintf("a %T", why) // the result if the methods panic or exit
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() { recover() }()
		text = fmt.Sprint(why)
	}()
	<-done
	return text
}

// runHandler calls the handler of r and returns the response, or nil if there is
// none. If the client has sent invalid answers to questions, it returns an error
// response and does not call the handler. It reports a question that was asked but not
// sent: in the modern era a question is sent only if the handler returns the error of
// asking it.
func (c *session) runHandler(r *request) []byte {
	c.mu.Lock()
	open := c.requests[string(r.id)] == r
	c.mu.Unlock()
	if !open { // it was cancelled before it started
		return nil
	}
	if r.service.asks && r.rev.modern() && (r.state != nil || r.inputResponses != nil) {
		if err := r.takeAnswers(); err != nil {
			return errorLine(r.id, err)
		}
	}
	line := r.handler(r)
	if lost := c.takeInputRequests(r); len(lost) > 0 && r.ctx.Err() == nil {
		c.logf("%v: the handler dropped the error of %s; return it", r, askFunctions[lost[0].method])
	}
	return line
}

// waitForEndOfStream is the handler of subscriptions/listen. It blocks until the
// stream ends. It returns a response unless the client has closed the connection.
func (r *request) waitForEndOfStream() []byte {
	select {
	case <-r.session.inputOver: // while handlers linger, r.ctx has not ended
	case <-r.ctx.Done():
	}
	if r.session.cause() == ErrClosed { // or only r was cancelled; its response is not sent
		return nil
	}
	return r.endResponse(r.beginResponse(), r.subscriptionMember())
}

// ---- respond ----

// respond answers r, unless the client has cancelled it, and releases what r holds. It
// removes r from the map first, because the client may use the id again as soon as it
// reads the line. From then on notifications and questions of r are no longer sent.
//
// Under the same lock it starts the next request that waits. So if MaxConcurrent is
// 1, handlers start and respond in the order of the requests.
//
// respond does nothing and returns false if line is a list that has become stale. The
// caller then makes the list again. After maxRemakes times the list is sent as it is,
// followed by a notification of the change.
func (c *session) respond(r *request, line []byte) bool {
	c.mu.Lock()
	if c.requests[string(r.id)] == r {
		stale := r.isStaleLocked()
		if stale && r.remakes < maxRemakes && r.ctx.Err() == nil {
			r.remakes++
			c.mu.Unlock()
			return false
		}
		delete(c.requests, string(r.id))
		c.sendResponseLocked(r.batch, line)
		if stale { // the client must ask again
			for _, st := range c.streams {
				c.sendListChangedLocked(st, r.service.kind.capability())
			}
		}
	}
	c.removeStreamLocked(r.stream)
	if r.stream == nil { // a stream takes no place
		delete(c.running, r)
		c.startNextLocked()
	}
	c.mu.Unlock()
	r.cancel(nil)
	return true
}

// sendResponse sends the response to a request that has no handler. Only the reader,
// which flushes later, calls it. If r is not nil and line is a list that has become
// stale, sendResponse sends nothing and returns false.
func (c *session) sendResponse(b *batch, line []byte, r *request) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r != nil && r.isStaleLocked() {
		return false
	}
	if b != nil {
		b.missing++
	}
	c.sendResponseLocked(b, line)
	return true
}

// refuseMessage sends an error response to an invalid message. A nil id is sent as
// null, which JSON-RPC requires if the id could not be read. An id that is in use is
// also sent as null: otherwise the error would be taken for the response to the
// request that uses it.
func (c *session) refuseMessage(b *batch, id []byte, err *Error) {
	c.logf("refused: %s", err.Message)
	c.mu.Lock()
	if c.requests[string(id)] != nil {
		id = nil
	}
	c.mu.Unlock()
	if id != nil || !c.isFlooded() { // otherwise two bytes of input would cost a hundred of output
		c.sendResponse(b, errorLine(id, err), nil)
	}
}

// sendResponseLocked queues line, or adds it to the other responses of its batch,
// which are queued when the last one arrives. A nil line means that there is no
// response. The caller must hold c.mu.
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
	if b.missing--; b.missing == 0 && len(b.responses) > 0 {
		c.batched -= len(b.responses)
		b.responses[0] = '[' // replaces the first comma
		c.lastResponse = c.out.enqueue(append(b.responses, ']'))
	}
}

// sendNotification sends a notification that belongs to r. It sends nothing if r has
// been answered, or if ok, which is called under c.mu, returns false. It blocks until
// the line is written or r ends, so that the response to r is in a later Write: some
// clients drop progress that they read together with the response.
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

// String returns the method, the name and the id of r, for diagnostics and for
// ErrDrain.
func (r *request) String() string {
	name := ""
	if r.name != "" {
		name = " " + oneLine(r.name)
	}
	return excerpt(string(r.method)) + name + " (id " + oneLine(string(r.id)) + ")"
}

// ---- responses ----
//
// The functions below return the response to a request, which is one line. A result begins
// with request.beginResponse and ends with request.endResponse, where the two eras differ.
// Each member and element between them is appended with a comma after it. If a result
// cannot be written as JSON, an error response is sent in place of the whole line.

// beginResponse begins a response with a result. The members of the result follow, each
// with a comma after it, and then endResponse.
func (r *request) beginResponse() []byte {
	b := join(make([]byte, 0, 256), `{"jsonrpc":"2.0","id":`, string(r.id), `,"result":{`)
	if r.rev.modern() {
		b = join(b, `"resultType":"complete",`)
	}
	return b
}

// endResponse completes a response that beginResponse began. The parameter meta holds
// members of the result's _meta, with a comma after each; it may be empty.
func (r *request) endResponse(b []byte, meta ...string) []byte {
	return r.endResponseAs(r.session.identity, b, meta...)
}

// emptyResponse returns a result without members of its own. Clients of the older revisions
// refuse any member in it.
func (r *request) emptyResponse() []byte { return r.endResponse(r.beginResponse()) }

// endResponseAs is endResponse with a given serverInfo: server/discover sends all of it.
func (r *request) endResponseAs(identity string, b []byte, meta ...string) []byte {
	switch {
	case r.rev.modern():
		b = join(join(join(b, `"_meta":{`), meta...), `"`+keyServer+`":`, identity, `}`)
	case len(meta) > 0:
		b = closeWith(join(join(b, `"_meta":{`), meta...), `}`)
	}
	return closeWith(b, `}}`)
}

// errorLine returns an error response. A nil id is sent as null.
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

// internalError is sent for a fault that only the programmer can fix.
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

// toolResponse returns the response to a call of a tool. The parameter out points to
// the handler's result, whose type s describes if it is not one of those below.
func (r *request) toolResponse(out any, s *schema) []byte {
	switch out := out.(type) {
	case *any: // the type of the value can differ from call to call
		return r.toolResponse(cmp.Or(addressable(*out), any(&struct{}{})), nil)
	case *struct{}:
		return r.resultResponse(&Result{})
	case *string:
		if !r.item.promises { // otherwise Out is any, and the string is structured output
			return r.textResponse(*out, nil, false)
		}
	case *Content:
		return r.resultResponse(&Result{Content: []Content{*out}})
	case *[]Content:
		return r.resultResponse(&Result{Content: *out})
	case *Result:
		return r.resultResponse(out)
	case **Result:
		return r.resultResponse(cmp.Or(*out, &Result{}))
	}
	raw, err := s.marshal(out)
	switch {
	case err != nil:
		return r.unsendableResponse(err)
	case string(raw) == "null" || raw[0] != '{' && r.item.promises && !r.item.wraps: // no output, or none that fits the output schema
		return r.resultResponse(&Result{})
	}
	return r.textResponse(string(raw), raw, false)
}

// textResponse returns the response to a call of a tool, with a text and, unless it is nil,
// structured output. Most calls end here, so it builds no Result.
func (r *request) textResponse(text string, structured []byte, isError bool) []byte {
	b := appendString(join(r.beginResponse(), `"content":[{"type":"text","text":`), text)
	return r.endResponse(appendOutcome(join(b, `}],`), structured, isError, r.rev, r.item.wraps))
}

// resultResponse returns the response to a call of a tool whose handler returned a Result.
func (r *request) resultResponse(res *Result) []byte {
	b, err := res.appendResult(r.beginResponse(), r.rev, r.item)
	meta, err2 := jsonOf(res.Meta)
	if err := cmp.Or(err, err2); err != nil {
		return r.unsendableResponse(err)
	}
	return r.endResponseWithMeta(b, meta)
}

// endResponseWithMeta is endResponse with the handler's meta, an object or nil. Its serverInfo
// is dropped, because this library writes that member.
func (r *request) endResponseWithMeta(b, meta []byte) []byte {
	if meta != nil {
		meta = removeMember(meta, keyServer)
	}
	if len(meta) <= len("{}") {
		return r.endResponse(b)
	}
	return r.endResponse(b, string(meta[1:len(meta)-1]), ",")
}

// methodResponse returns the response to a request for a method of AddMethod. The handler's
// resultType is dropped if this library writes that member.
func (r *request) methodResponse(result any) []byte {
	raw, err := marshal(addressable(result))
	switch {
	case err != nil:
		return r.unsendableResponse(err)
	case result == nil:
		raw = []byte("{}")
	case raw[0] != '{':
		return r.unsendableResponse(errors.New("the result of a method must be a JSON object"))
	}
	var meta []byte
	b := r.beginResponse()
	for name, val := range members(raw) {
		switch {
		case string(name) == "_meta" && string(val) == "null": // treated as absent
		case string(name) == "_meta" && val[0] != '{':
			return r.unsendableResponse(errors.New("the _meta of a result must be a JSON object"))
		case string(name) == "_meta":
			meta = val
		case string(name) != "resultType" || !r.rev.modern():
			b = append(append(append(appendString(b, string(name)), ':'), val...), ',')
		}
	}
	return r.endResponseWithMeta(b, meta)
}

// protocolError returns the *Error in the tree of err, or nil.
func protocolError(err error) (e *Error) {
	errors.As(err, &e)
	return e
}

// failureResponse returns the response to r if its handler returned err. For a tool
// it is a result that the model reads, unless err holds an [*Error]. A missing
// capability is such a result too for a legacy client, whose revision has no code for
// it. If the handler returned the error of a question, the question is sent, unless
// err also holds an [*Error], because an answer would not change that.
func (r *request) failureResponse(err error) []byte {
	if errors.Is(err, ErrInputRequired) {
		questions := r.session.takeInputRequests(r)
		if len(questions) > 0 && protocolError(err) == nil {
			return r.inputRequired(questions)
		}
	}
	if err == r.ctx.Err() { // its cause says more
		err = context.Cause(r.ctx)
	}
	switch fault := protocolError(err); {
	case fault != nil && (fault.Code != codeCapability || r.rev.modern()):
		return errorLine(r.id, r.restrictError(fault))
	case r.service.forModel:
		return r.textResponse(err.Error(), nil, true)
	}
	return errorLine(r.id, coded(codeInternal, err.Error()))
}

// restrictError returns a handler's error as it can be sent: with Data as JSON, and
// with a Code that r's revision lets handlers use. A client that receives a reserved
// code takes the error for one of the protocol's own.
func (r *request) restrictError(e *Error) *Error {
	sent := coded(r.rev.errorCode(e.Code), e.Message)
	if sent.Code != e.Code && sent.Code == codeInternal { // the code was refused, and not only renumbered
		r.session.logf("%v: the protocol reserves the error code %d: sent as %d", r, e.Code, sent.Code)
	}
	if e.Data != nil {
		data, err := marshal(addressable(e.Data))
		if err != nil {
			r.session.logf("%v: the Data of the error cannot be sent: %v", r, err)
			return sent
		}
		sent.Data = json.RawMessage(data)
	}
	return sent
}

// unsendableResponse returns the response to r if the handler's result cannot be sent. The
// reason is reported to ErrorLog and not sent to the client.
func (r *request) unsendableResponse(err error) []byte {
	r.session.logf("%v: the result cannot be sent: %v", r, err)
	return errorLine(r.id, internalError)
}

// appendResult appends the members of the result of a call of a tool.
func (res *Result) appendResult(b []byte, rev revision, tool *item) (_ []byte, err error) {
	b = join(b, `"content":[`)
	for _, c := range res.Content {
		if b, err = c.appendBlock(b, rev); err != nil {
			return nil, err
		}
	}
	b = closeWith(b, `],`)
	var structured []byte
	if res.StructuredContent != nil {
		if structured, err = marshal(addressable(res.StructuredContent)); err != nil {
			return nil, err
		}
	}
	if tool.promises && rev.knows(structuredOutput) && !res.IsError && (structured == nil || string(structured) == "null") { // clients refuse it
		return nil, errors.New("the output schema promises structured output, but there is none")
	}
	return appendOutcome(b, structured, res.IsError, rev, tool.wraps), nil
}

// appendOutcome appends the members after the content of a result. Structured output
// that is nil or null is left out. The parameter wraps is the result of [Tool.wraps];
// if the revision requires an object, any other value is wrapped even if wraps is
// false.
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

// pageResponse returns the response to a request for a list: the first page of items.
// The client may cache the page if keep is true. An item is encoded once for each
// revision, when it is first listed.
func (r *request) pageResponse(items []*item, keep bool) []byte {
	s := r.session.srv
	size := cmp.Or(max(0, s.PageSize), len(items))
	page := items[:min(size, len(items))]
	s.mu.Lock() // guards the encoded forms of the items
	room := 256
	for _, it := range page {
		if it.encoded[r.rev] == nil {
			it.encoded[r.rev] = it.encodeItem(r.rev)
		}
		room += len(it.encoded[r.rev]) + 1
	}
	b := join(reserve(r.beginResponse(), room), `"`, kindNames[r.service.kind], `":[`)
	for _, it := range page {
		b = append(append(b, it.encoded[r.rev]...), ',')
	}
	s.mu.Unlock()
	if b = closeWith(b, `],`); len(page) < len(items) {
		b = stringMember(b, "nextCursor", strconv.Itoa(page[len(page)-1].seq))
	}
	return r.endResponse(r.appendCaching(b, keep))
}

// encodeItem returns an element of a list, with only the members that the revision
// knows. If the revision requires structured output to be an object, other output
// schemas are wrapped. A schema with a $ref, which would then point elsewhere, is
// left out.
func (it *item) encodeItem(rev revision) []byte {
	val := it.public
	if t, ok := val.(Tool); ok && it.wraps && !rev.knows(anyOutput) {
		if schema := t.OutputSchema; bytes.Contains(schema, []byte(`"$ref"`)) {
			t.OutputSchema = nil
		} else {
			t.OutputSchema = join(nil, `{"type":"object","properties":{"result":`, string(schema), `},"required":["result"]}`)
		}
		val = t
	}
	return rev.encodePublic(val)
}

// promptResponse returns the response to prompts/get. Clients refuse the whole response if
// the role of a message is neither user nor assistant.
func (r *request) promptResponse(messages []Message, err error, description string) []byte {
	if err != nil {
		return r.failureResponse(err)
	}
	b := join(optionalMember(r.beginResponse(), "description", description), `"messages":[`)
	for _, m := range messages {
		role := cmp.Or(m.Role, "user")
		if role != "user" && role != "assistant" {
			return r.unsendableResponse(fmt.Errorf("a message has the role %q", role))
		}
		b = join(stringMember(append(b, '{'), "role", role), `"content":`)
		if b, err = m.Content.appendBlock(b, r.rev); err != nil {
			return r.unsendableResponse(err)
		}
		b = closeWith(b, `},`)
	}
	return r.endResponse(closeWith(b, `],`))
}

// notFound returns the error for a resource that does not exist. It names the URI, because
// the client may have sent several requests.
func (r *request) notFound() *Error {
	return &Error{Code: r.rev.errorCode(codeNotFound), Message: "Resource not found", Data: map[string]string{"uri": r.name}}
}

// readResponse returns the response to resources/read. Clients match the URIs with
// the list, so an empty URI becomes the one that was read, and an empty type that of
// the Resource.
func (r *request) readResponse(contents []ResourceContents, err error, mimeType string) []byte {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return errorLine(r.id, r.notFound())
	case err != nil:
		return r.failureResponse(err)
	}
	b := join(r.beginResponse(), `"contents":[`)
	for _, c := range contents {
		c.URI = cmp.Or(c.URI, r.name)
		c.MIMEType = cmp.Or(c.MIMEType, mimeType)
		if b, err = c.appendContents(b, r.rev); err != nil {
			return r.unsendableResponse(err)
		}
	}
	keep := r.inputResponses == nil && r.state == nil // a response that depends on answers is not cached
	return r.endResponse(r.appendCaching(closeWith(b, `],`), keep))
}

// completeResponse returns the response to completion/complete. The protocol allows 100
// values, and a total to show that there are more.
func (r *request) completeResponse(values []string, err error) []byte {
	if err != nil {
		return r.failureResponse(err)
	}
	b := join(r.beginResponse(), `"completion":{"values":[`)
	for _, v := range values[:min(len(values), 100)] {
		b = append(appendString(b, v), ',')
	}
	b = closeWith(b, `],"total":`, strconv.Itoa(len(values)), `,"hasMore":`, strconv.FormatBool(len(values) > 100), `},`)
	return r.endResponse(b)
}

// identity returns the serverInfo of a revision.
func (s *Server) identity(rev revision) string {
	return string(rev.encodePublic(struct {
		Name       string `json:"name"`
		Version    string `json:"version"`
		Title      string `json:"title,omitempty" since:"2025-06-18"`
		WebsiteURL string `json:"websiteUrl,omitempty" since:"2025-11-25"`
		Icons      []Icon `json:"icons,omitempty" since:"2025-11-25"`
	}{s.Name, s.Version, s.Title, s.WebsiteURL, s.Icons}))
}

// appendCaching appends the members of the modern era that say how long a response may be
// cached, and for whom. A response that the client must not cache has them too, with a time
// of 0.
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

// declared holds the member of the capabilities that declares a kind.
var declared = [...]string{
	tools:       `"tools":{"listChanged":true},`,
	prompts:     `"prompts":{"listChanged":true},`,
	resources:   `"resources":{"subscribe":true,"listChanged":true},`,
	completions: `"completions":{},`,
	logging:     `"logging":{},`,
}

// describeCapabilities returns the capabilities, with the kinds that are offered, and the instructions.
func (c *session) describeCapabilities(rev revision, offered kindSet) string {
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

// subscriptionMember returns the member of _meta that names r's stream.
func (r *request) subscriptionMember() string {
	return `"` + keySubscription + `":` + string(r.id) + `,`
}

// acknowledgedLine returns the notification with which a stream begins. It lists the
// notifications that the stream will have.
func (r *request) acknowledgedLine() []byte {
	b := join(nil, `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{`, r.subscriptionMember())
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

// appendBlock appends a block of content in the form that the revision knows, and a comma.
func (c Content) appendBlock(b []byte, rev revision) (_ []byte, err error) {
	if err = checkAnnotations(c.Annotations); err == nil && c.Link != nil {
		err = cmp.Or(checkAnnotations(c.Link.Annotations), checkIcons(c.Link.Icons))
	}
	if err != nil {
		return nil, err
	}
	switch c = rev.block(c); {
	case c.Type == "text" || c.Type == "":
		b = stringMember(join(b, `{"type":"text",`), "text", c.Text)
	case c.Type == "image" || c.Type == "audio":
		b = base64.StdEncoding.AppendEncode(join(b, `{"type":"`, c.Type, `","data":"`), c.Data)
		b = stringMember(join(b, `",`), "mimeType", c.MIMEType)
	case c.Type == "resource_link" && c.Link != nil:
		link := *c.Link // its annotations and _meta would be in the place of the block's
		if c.Meta == nil {
			c.Meta = link.Meta
		}
		link.Annotations, c.Annotations, link.Meta = cmp.Or(c.Annotations, link.Annotations), nil, nil
		raw := rev.encodePublic(link)
		b = join(b, `{"type":"resource_link",`, string(raw[1:len(raw)-1]), ",")
	case c.Type == "resource" && c.Resource != nil:
		if b, err = c.Resource.appendContents(join(b, `{"type":"resource","resource":`), rev); err != nil {
			return nil, err
		}
	default:
		return nil, fmt.Errorf("content of type %q is unknown or incomplete", c.Type)
	}
	if c.Annotations != nil {
		b = rawMember(b, "annotations", rev.encodePublic(*c.Annotations))
	}
	b, err = appendMeta(b, c.Meta, rev)
	return closeWith(b, "},"), err
}

// appendContents appends the contents in the form that the revision knows, and a comma.
func (r *ResourceContents) appendContents(b []byte, rev revision) (_ []byte, err error) {
	b = optionalMember(stringMember(append(b, '{'), "uri", r.URI), "mimeType", r.MIMEType)
	if r.Blob != nil {
		b = join(base64.StdEncoding.AppendEncode(join(b, `"blob":"`), r.Blob), `",`)
	} else {
		b = stringMember(b, "text", r.Text)
	}
	b, err = appendMeta(b, r.Meta, rev)
	return closeWith(b, "},"), err
}

// appendMeta appends the _meta of a part of a result, if the revision knows it.
func appendMeta(b []byte, meta map[string]any, rev revision) ([]byte, error) {
	raw, err := jsonOf(meta)
	if rev.knows(metaInside) {
		b = rawMember(b, "_meta", raw)
	}
	return b, err
}

// ---- asking the client ----

// ask returns the client's response to a question. It fails at once if ctx or r has
// ended. In the modern era a question that the client has not answered yet is sent with
// the result of this round, and ask returns ErrInputRequired.
func (r *request) ask(ctx context.Context, method, params string) (json.RawMessage, error) {
	for _, ended := range []context.Context{r.ctx, ctx} {
		if ended.Err() != nil {
			return nil, context.Cause(ended)
		}
	}
	switch {
	case !r.rev.modern():
		return r.session.callClient(ctx, r, method, params)
	case !r.service.asks: // the result of such a method cannot hold questions
		return nil, fmt.Errorf("mcp: %s cannot ask the client: %w", r.method, errors.ErrUnsupported)
	}
	return r.takeAnswer(inputRequest{method: method, params: params})
}

// takeAnswer returns the client's response to a question. If the client has not sent one
// it adds the question to those of this round. The key consists of a checksum of the
// question and the number of responses that this run of the handler has taken for equal
// questions, so a response is never used for two questions. The list of roots is the
// exception: every question for it takes the same response.
func (r *request) takeAnswer(q inputRequest) (json.RawMessage, error) {
	sum, c := r.checksum(q.method, q.params), r.session
	c.mu.Lock()
	defer c.mu.Unlock()
	q.key = sum + "-" + strconv.Itoa(r.taken[sum])
	if answer, ok := r.answers[q.key]; ok {
		delete(r.untaken, q.key)
		if q.method != "roots/list" {
			r.taken[sum]++
		}
		return answer, nil
	}
	if c.askErr != nil {
		return nil, c.askErr
	}
	if !slices.ContainsFunc(r.questions, func(o inputRequest) bool { return o.key == q.key }) {
		r.questions = append(r.questions, q)
	}
	return nil, fmt.Errorf("%w (%s)", ErrInputRequired, q.method)
}

// callClient sends the client a request on behalf of r. It blocks until the client
// responds, or until ctx, r or the session ends.
func (c *session) callClient(ctx context.Context, r *request, method, params string) (json.RawMessage, error) {
	c.turn.pass() // this goroutine may have the turn to read, and the response must be read
	// A client that does not read must not make the output grow without bound.
	for full := c.roomChannel(); full != nil; full = c.roomChannel() {
		c.startWriter()
		select {
		case <-full:
			continue
		case <-c.inputOver: // addCall returns the reason
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-r.ctx.Done():
			return nil, context.Cause(r.ctx)
		}
		break
	}
	id, call := c.addCall(r, method, params)
	var a reply
	select {
	case a = <-call:
	case <-ctx.Done():
		a.err = context.Cause(ctx)
	case <-r.ctx.Done(): // ctx need not be derived from it
		a.err = context.Cause(r.ctx)
	}
	c.withdraw(id)
	return a.result, a.err
}

// addCall adds a call to the map of pending calls and queues its request. The call is in
// the map before the request is sent, because the client may respond at once. The
// goroutine that removes a call from the map ends it: acceptResponse sends it the response,
// and withdraw cancels it. When the session ends, all calls in the map receive the reason.
//
// If r has already been answered or cancelled, addCall adds nothing. The context of r
// ends in a moment, and callClient waits for that.
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

// withdraw ends a call if it is still in the map, and notifies the client unless the
// session is closing.
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

// takeInputRequests returns the questions that were added since the last call.
func (c *session) takeInputRequests(r *request) []inputRequest {
	c.mu.Lock()
	defer c.mu.Unlock()
	questions := r.questions
	r.questions = nil
	return questions
}

// askFunctions are the functions that ask, by the method of the question.
var askFunctions = map[string]string{"elicitation/create": "Elicit", "roots/list": "Roots", "sampling/createMessage": "Sample"}

// stateLife is how long a user may take to answer.
const stateLife = time.Hour

// takeAnswers decodes the client's responses of this round (inputResponses), and those
// of earlier rounds, which the client sends back in the requestState. It returns an
// error if they are invalid.
func (r *request) takeAnswers() *Error {
	r.answers, r.taken, r.untaken = make(map[string]json.RawMessage), make(map[string]int), make(map[string]bool)
	if r.state != nil {
		state, _ := unquote(r.state)
		earlier, ok := r.unseal(state)
		if !ok {
			return coded(codeParams, "Invalid or expired requestState")
		}
		decode(earlier, &r.answers) // valid: inputRequired wrote it
	}
	var now map[string]json.RawMessage
	if err := decode(r.inputResponses, &now); err != nil {
		return badParams("inputResponses: " + err.Error())
	}
	for key, answer := range now {
		r.untaken[key] = true
		if r.answers[key] = answer; answer[0] != '{' {
			return badParams("inputResponses." + excerpt(key) + " must be an object")
		}
	}
	return nil
}

// inputRequired returns the line that sends the client the questions of this round.
func (r *request) inputRequired(questions []inputRequest) []byte {
	r.session.mu.Lock()
	untaken := len(r.untaken)
	r.session.mu.Unlock()
	if untaken > 0 {
		r.session.logf("%v: %d of the client's responses match no question of the handler, which must ask the same questions each time it runs", r, untaken)
	}
	b := join(nil, `{"jsonrpc":"2.0","id":`, string(r.id), `,"result":{"resultType":"input_required","inputRequests":{`)
	for _, q := range questions {
		b = join(appendString(b, q.key), `:{"method":"`, q.method, `","params":`, q.params, `},`)
	}
	answers, _ := marshal(r.answers) // valid JSON already
	b = stringMember(closeWith(b, `},`), "requestState", r.seal(answers))
	return r.endResponse(b)
}

// seal returns a requestState: the responses so far, when they expire, and a checksum of
// both and of the call that they belong to.
//
// A requestState needs no secret. It holds only responses that this client has sent, and
// the client could send these, or different ones, in the inputResponses of any round. So
// a forged state gains nothing. The checksum finds mistakes: a state that was damaged,
// that has expired, or that belongs to another call is refused. The checksum depends on
// the Server's random seed, so other Servers refuse the state too.
func (r *request) seal(answers []byte) string {
	expiry := strconv.FormatInt(time.Now().Add(stateLife).Unix(), 36)
	encoded := base64.RawURLEncoding.EncodeToString(answers)
	return expiry + "." + encoded + "." + r.checksum(expiry, encoded)
}

// unseal returns the responses in a state if seal made it for the same call, and it has
// not expired.
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

// checksum returns a checksum of texts and of the call that r belongs to. It depends on
// the Server's random seed.
func (r *request) checksum(texts ...string) string {
	arguments := []byte("{}") // also if the client sent none
	if r.arguments != nil {
		arguments, _ = appendCompact(nil, r.arguments)
	}
	var all []byte
	for _, text := range append(texts, string(r.method), r.name, string(arguments)) {
		all = join(all, strconv.Itoa(len(text)), ":", text) // the length separates the texts
	}
	return strconv.FormatUint(maphash.Bytes(r.session.srv.seed, all), 36)
}

// ---- changes ----

// sendListChanged notifies the client that the list of a kind has changed.
func (c *session) sendListChanged(k kind) {
	c.mu.Lock()
	for _, st := range c.streams {
		c.sendListChangedLocked(st, k)
	}
	c.mu.Unlock()
	c.startWriter()
}

// sendListChangedLocked notifies one stream. The caller must hold c.mu.
func (c *session) sendListChangedLocked(st *stream, k kind) {
	switch {
	case !st.watched[k]:
	case st.silent:
		st.missed[k] = true
	default:
		st.sent[k] = c.queueChangeLocked(st, st.sent[k], kindNames[k]+"/list_changed", "")
	}
}

// sendUpdated notifies the client that a resource has changed, if the client watches
// it.
func (c *session) sendUpdated(uri string) {
	c.mu.Lock()
	for _, st := range c.streams {
		if sent, watched := st.uris[uri]; watched {
			st.uris[uri] = c.queueChangeLocked(st, sent, "resources/updated", `"uri":`+string(appendString(nil, uri)))
		}
	}
	c.mu.Unlock()
	c.startWriter()
}

// queueChangeLocked queues a notification on a stream and returns the position in the
// output after it. The parameter sent is the position after the last such
// notification. If that one is still queued, nothing is queued: a thousand changes in
// a row cost about one notification. But if a response was queued after it, another
// notification is queued, because the client could assume that the response already
// includes the change. The caller must hold c.mu.
func (c *session) queueChangeLocked(st *stream, sent int64, method, params string) int64 {
	if sent > c.lastResponse && c.out.isQueued(sent) {
		return sent
	}
	if st.request != nil {
		params = string(closeWith(join(nil, `"_meta":{`, st.request.subscriptionMember()), `},`, params))
	}
	b := join(nil, `{"jsonrpc":"2.0","method":"notifications/`, method, `",`)
	if params != "" {
		b = closeWith(join(b, `"params":{`, params), `},`)
	}
	return c.out.enqueue(closeWith(b, "}"))
}

// ---- write ----
//
// Any goroutine that queues a line also makes sure that it is written: if no
// goroutine is writing, it writes or starts a writer. These do so:
//
//	flushOutput          the reader, before it waits for input
//	startWriter          the reader, when it goes on reading or waits for room; any
//	                     goroutine that sends a change
//	handleRequest        after a response, unless the reader has the turn again
//	startWriterLocked    for notifications and questions of handlers, and for a
//	                     response of the reader while the session is closing
//	waitUntilIdle        when the session is closing, and when all work has ended
//	waitForEnd           when Drain has passed before that

// writeOutput writes what is queued, unless another goroutine is writing.
func (c *session) writeOutput() {
	if c.out.acquire() {
		c.out.writeAll()
	}
}

// startWriter starts a goroutine that writes what is queued, unless another one is
// writing. While the session is closing it does nothing: the next goroutine that
// answers, or the drain waiter, writes.
func (c *session) startWriter() {
	c.mu.Lock()
	if !isClosed(c.closing) {
		c.startWriterLocked()
	}
	c.mu.Unlock()
}

// startWriterLocked starts a goroutine that writes what is queued, unless another one
// is writing. The caller must hold c.mu. The session must not be closing, or the
// WaitGroup must count a line or a request, so that the drain waiter waits for the
// writer.
func (c *session) startWriterLocked() {
	if c.out.acquire() {
		c.wg.Go(c.out.writeAll)
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
		if whole, ok := bytes.CutSuffix(line, []byte("\n")); ok { // a failed Write may end inside of a line
			w.session.recordLine("out", whole)
		}
	}
	return n, err
}

// recordLine adds one line to the trace. It never blocks: if more than traceBound
// bytes are unwritten, the line is dropped.
func (c *session) recordLine(direction string, line []byte) {
	if c.trace == nil || c.trace.unsentBytes() > traceBound {
		return
	}
	b := time.Now().AppendFormat(nil, "2006/01/02 15:04:05.000000 ")
	c.trace.enqueue(append(fmt.Appendf(b, "%-3s ", direction), line...))
	if c.trace.acquire() {
		go c.trace.writeAll() // waitForEnd waits for it
	}
}

// logf reports to Server.ErrorLog. It never blocks: if stderr is not read, or a
// client sends invalid messages without end, diagnostics are dropped.
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
		go c.notes.writeAll() // waitForEnd waits for it
	}
}

// A logWriter prints the notes that are written to it to a log.Logger. A note ends
// with endOfNote, because it may have several lines.
type logWriter struct{ *log.Logger }

// endOfNote is the NUL that logf appends and the newline that lineWriter appends.
const endOfNote = "\x00\n"

// Write prints each note separately, so that programs that read the log see one entry
// for each.
func (w logWriter) Write(b []byte) (int, error) {
	if w.Logger == nil {
		w.Logger = log.Default()
	}
	for _, note := range strings.Split(strings.TrimSuffix(string(b), endOfNote), endOfNote) {
		w.Print(note)
	}
	return len(b), nil
}

// ---- the turn to read ----

// A turn is the right to read and parse, which one goroutine has at a time. Before
// work that may last, its holder lends it: then no goroutine has it, and the holder
// reclaims it after the work. If pass is called in between, or if the work takes
// longer than maxInline (more for a long line), a new goroutine gets the turn. After
// that, the lender can reclaim the turn only while the new holder is itself lending.
// The first to reclaim it becomes the reader, and the other goroutine exits. No
// goroutine ever waits for the turn.
type turn struct {
	readLines func()      // runs on the goroutine that gets the turn
	timer     *time.Timer // calls pass

	mu   sync.Mutex // guards lent, and the order in which the timer is started and stopped
	lent bool
}

// lend begins a loan for work on a line of size bytes. Only the holder may call it.
func (t *turn) lend(size int) {
	t.mu.Lock()
	t.lent = true
	t.timer.Reset(maxInline * time.Duration(1+min(size/longText, 4))) // a long line takes time to parse, so its handler gets more time
	t.mu.Unlock()
}

// reclaim takes the turn if it is lent, and reports whether the caller has it now.
// Only a goroutine that has lent the turn may call it, once for each loan.
func (t *turn) reclaim() (mine bool) {
	t.mu.Lock()
	if t.lent {
		t.lent, mine = false, true
		t.timer.Stop()
	}
	t.mu.Unlock()
	return mine
}

// pass gives the turn to a new goroutine if it is lent. Any goroutine may call it at
// any time. The timer may call it late, during the next loan.
func (t *turn) pass() {
	t.mu.Lock()
	if t.lent {
		t.lent = false
		go t.readLines()
	}
	t.mu.Unlock()
}

// ---- the lines that were read ----

// Allocating memory is a large part of what a long text costs. So the memory that it
// was read into, and that it was written from, is used again, until the garbage
// collector frees it.
var (
	readBuffers = sync.Pool{New: func() any { return new(readBuffer) }}
	longLines   sync.Pool // holds *[]byte
)

type readBuffer [keepBuffer]byte

// A lineReader splits its input into lines. It returns each line once, in order, and
// then the error of r. Of a line that is longer than limit it keeps only both ends.
// The goroutine that has the turn to read calls its methods. Meanwhile one other
// goroutine may be in readOnce, reading ahead.
//
// Lines are slices of the buffer that they were read into, and that memory is not
// read into again. So a line that is kept need not be copied, and a buffer is freed
// when the last request in it has ended. A line that does not fit into one buffer is
// collected in parts and joined once. Buffers that held only such parts are used again.
type lineReader struct {
	r     io.Reader
	limit int // maximum bytes of a line

	mu       sync.Mutex    // guards the fields below; not held during a Read
	buf      []byte        // read and not yet returned; Read fills the room after it
	grown    bool          // buf may be large, because it was read ahead
	seen     int           // buf[:seen] holds no newline
	parts    [][]byte      // the start of a line whose rest is in buf
	size     int           // bytes in parts
	head     []byte        // the first bytes of a line that is longer than limit; otherwise nil
	tail     []byte        // its last bytes so far
	pastMark bool          // set when a byte order mark is no longer possible
	err      error         // of the last Read
	ahead    chan struct{} // closed when the Read ahead that is in progress ends; nil if there is none
}

// readMore reads once, or waits for the Read ahead. It blocks as long as Read does.
// It is called after nextLine has returned nil, and returns at once if there is new
// data by now: while the turn was lent, another goroutine may have read.
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

// startReadAhead starts a goroutine that reads once, unless one is reading, r has
// ended, or aheadBound bytes were read ahead. It returns a channel that is closed
// when the Read ends, or nil if none is in progress, and the error of the last Read.
func (l *lineReader) startReadAhead() (<-chan struct{}, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ahead == nil && l.err == nil && len(l.buf) < aheadBound {
		l.ahead = make(chan struct{})
		go l.readOnce()
	}
	return l.ahead, l.err
}

// readOnce reads once. Only one goroutine at a time may call it. Another goroutine
// may take lines while readOnce reads ahead. A Read ahead may block for long, so it
// has a buffer of its own, and the memory of these lines can be freed meanwhile.
func (l *lineReader) readOnce() {
	l.mu.Lock()
	ahead := l.ahead != nil
	var own *readBuffer
	var room []byte
	if ahead {
		own = readBuffers.Get().(*readBuffer)
		room = own[:]
	} else {
		room = l.makeRoomLocked()
	}
	l.mu.Unlock()
	n, err := readSome(l.r, room)
	l.mu.Lock()
	l.err = err
	if ahead {
		l.buf, l.grown = append(l.buf, room[:n]...), true
		readBuffers.Put(own)
		close(l.ahead)
		l.ahead = nil
	} else {
		l.buf = l.buf[:len(l.buf)+n]
	}
	l.mu.Unlock()
}

// discard drops the input that was read and not returned. If a Read ahead is
// in progress, discard must be called again after it.
func (l *lineReader) discard() {
	l.mu.Lock()
	l.buf, l.seen = l.buf[:0], 0
	l.mu.Unlock()
}

// readSome reads once. If r returns neither data nor an error, it reads again, up to
// maxEmpty times.
func readSome(r io.Reader, b []byte) (n int, err error) {
	for range maxEmpty {
		if n, err = r.Read(b); n != 0 || err != nil {
			return n, err
		}
	}
	return 0, io.ErrNoProgress
}

// makeRoomLocked returns the memory to read into after all whole lines were returned.
// If the buffer is full it begins another one. If the full buffer holds little of a
// line, that is copied; if it holds much, it becomes a part of the line. The caller
// must hold l.mu.
func (l *lineReader) makeRoomLocked() []byte {
	if begun := l.buf; cap(begun)-len(begun) < minRead {
		if l.buf = readBuffers.Get().(*readBuffer)[:0]; len(begun) < minRead {
			l.buf = append(l.buf, begun...)
		} else {
			l.parts, l.size, l.seen = append(l.parts, begun), l.size+len(begun), 0
		}
	}
	return l.buf[len(l.buf):cap(l.buf)]
}

// nextLine returns the next line without its newline, or nil if there is no whole
// line. If r has ended, what follows the last newline is a line too. When all lines
// have been returned, err is the error of r. If a line is too long, nextLine returns
// its first bytes as line and its last bytes as tail; otherwise tail is nil. The
// memory of a line is not written to again.
func (l *lineReader) nextLine() (line, tail []byte, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.size == 0 && l.head == nil { // blanks before a message, and so blank lines, are ignored
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
		if l.grown { // what remains is copied, and the memory of the lines is released
			l.buf, l.grown = bytes.Clone(l.buf), false
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

// skipBlankLocked skips blanks, and a byte order mark at the start of the input. The
// caller must hold l.mu.
func (l *lineReader) skipBlankLocked() {
	const mark = "\ufeff"
	blanks := skipSpace(l.buf, 0)
	if !l.pastMark && bytes.HasPrefix(l.buf[blanks:], []byte(mark)) {
		blanks, l.pastMark = skipSpace(l.buf, blanks+len(mark)), true
	}
	l.seen, l.buf = max(0, l.seen-blanks), l.buf[blanks:]
}

// joinPartsLocked returns the line that ends with chunk. bytes.Join would make the
// garbage collector wait while it clears a megabyte of new memory; make clears in
// steps. The caller must hold l.mu.
func (l *lineReader) joinPartsLocked(chunk []byte) []byte {
	if l.size > 0 {
		line := make([]byte, 0, l.size+len(chunk))
		for _, part := range l.parts {
			line = append(line, part...)
			// Only a read buffer has this capacity, or by chance memory that append
			// has allocated.
			if l.size <= maxReused && cap(part) == keepBuffer {
				readBuffers.Put((*readBuffer)(part[:keepBuffer]))
			}
		}
		chunk = append(line, chunk...)
		l.parts, l.size = nil, 0
	}
	return trimEnd(chunk)
}

// isTooLongLocked reports whether a line that continues with chunk is longer than
// limit. Up to 64 KiB of blanks after limit are ignored. Bytes before seen were
// examined by an earlier call. The caller must hold l.mu.
func (l *lineReader) isTooLongLocked(chunk []byte) bool {
	over := l.size + len(chunk) - l.limit
	return over > keepHead || over > 0 && len(trimEnd(chunk[max(l.seen, len(chunk)-over):])) > 0
}

// keepEndsLocked discards a line that is too long, except its first 64 KiB and its
// last 1 KiB. It is called again for each further chunk of the line. The caller must
// hold l.mu.
func (l *lineReader) keepEndsLocked(chunk []byte) {
	for _, part := range append(l.parts, chunk) {
		room := min(keepHead, l.limit) - len(l.head)
		l.head = append(l.head, part[:min(len(part), room)]...)
		l.tail = append(l.tail, part[max(0, len(part)-maxRepeated):]...)
		l.tail = l.tail[max(0, len(l.tail)-maxRepeated):]
	}
	l.parts, l.size = nil, 0
}

// ---- the lines to write ----

// A lineWriter is a queue of lines, and the turn to write them. Senders append whole
// lines and never block. A sender that finds no goroutine writing acquires the turn
// and writes, many lines at once, until the queue is empty. There is no goroutine
// that only writes, because it would have to be woken for each response. A position
// counts the bytes that were ever queued, so a sender can later ask whether its line
// was written. Lines are written whole, in order, and by one goroutine at a time.
// After stop no Write begins, but one may still be in progress.
type lineWriter struct {
	w      io.Writer
	failed func(error) // is called with an error of w; may be nil

	mu       sync.Mutex    // guards the fields below; not held during a Write
	buf      []byte        // whole lines
	spare    []byte        // the buffer of the last Write, used again
	added    int64         // bytes that were ever queued
	written  int64         // of these, bytes that were written, or lost to an error
	writing  bool          // a goroutine has the turn to write
	held     bool          // nothing is written for now
	stopped  bool          // nothing is written any more
	advanced chan struct{} // closed when written or stopped changes; nil if no goroutine waits
}

// enqueue appends line and a newline, and returns the position after them. It may
// keep line and the memory after it, so the caller must not use either again.
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

// acquire reports whether the caller has the turn to write now. If so, it must call
// writeAll.
func (w *lineWriter) acquire() bool {
	w.mu.Lock()
	mine := !w.writing && !w.held && len(w.buf) > 0
	if mine {
		w.writing = true
	}
	w.mu.Unlock()
	return mine
}

// writeAll writes until the queue is empty or held, and gives back the turn. After an
// error nothing is written any more.
func (w *lineWriter) writeAll() {
	w.mu.Lock()
	for len(w.buf) > 0 && !w.held {
		b := w.buf
		w.buf, w.spare = w.spare[:0], nil
		w.mu.Unlock()
		n, err := w.w.Write(b)
		if err == nil && n < len(b) {
			err = io.ErrShortWrite
		}
		if err != nil && w.failed != nil {
			w.failed(err) // before the waiting goroutines wake and check whether the session has ended
		}
		w.mu.Lock()
		if cap(b) <= keepBuffer {
			w.spare = b[:0]
		} else if cap(b) <= maxReused && err == nil { // after an error, w may still use b
			long := b // a copy: with &b, each b would be allocated on the heap
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
}

// setHeld(true) stops writing after the Write in progress. After setHeld(false) the
// caller must make sure that the queue is written.
func (w *lineWriter) setHeld(held bool) {
	w.mu.Lock()
	w.held = held
	w.mu.Unlock()
}

// stop discards the queue. No Write begins after it.
func (w *lineWriter) stop() {
	w.mu.Lock()
	w.stopped, w.buf = true, nil
	w.wakeLocked()
	w.mu.Unlock()
}

// wakeLocked wakes all goroutines that wait for a position. The caller must hold
// w.mu.
func (w *lineWriter) wakeLocked() {
	if w.advanced != nil {
		close(w.advanced)
		w.advanced = nil
	}
}

// waitChannel returns nil if everything before the position end has been written, or
// never will be. Otherwise it returns a channel that is closed when the caller should
// call it again.
func (w *lineWriter) waitChannel(end int64) <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.written >= end || w.stopped {
		return nil
	}
	if w.advanced == nil {
		w.advanced = make(chan struct{})
	}
	return w.advanced
}

// waitUntilWritten blocks until everything before the position end is written or
// lost, or until over is closed.
func (w *lineWriter) waitUntilWritten(end int64, over <-chan struct{}) {
	for unsent := w.waitChannel(end); unsent != nil; unsent = w.waitChannel(end) {
		select {
		case <-unsent:
		case <-over:
			return
		}
	}
}

// position returns the position after the last line.
func (w *lineWriter) position() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.added
}

// unsentBytes returns the number of bytes that were queued and not written.
func (w *lineWriter) unsentBytes() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.added - w.written
}

// isWriting reports whether a goroutine has the turn to write. After stop, it reports
// whether a Write is still in progress.
func (w *lineWriter) isWriting() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.writing
}

// isQueued reports whether the line that ends at the position end is still in the
// queue, and not in a Write.
func (w *lineWriter) isQueued(end int64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return end > w.added-int64(len(w.buf))
}
