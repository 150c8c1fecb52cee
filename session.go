// SPDX-License-Identifier: MIT
// Version 4.2.2, 2026-11-29. The SHA-256 of each release of this file is in CHANGES.md of example.com/mcp.
// SPDX-FileCopyrightText: 2026 The mcp authors

package mcp

// One client.
//
//	r ─▶ lineReader ─▶ nextMessage ─▶ acceptLine
//	                                   ├─▶ acceptNotification: initialized, cancelled
//	                                   ├─▶ acceptResponse: to the handler that asked the client
//	                                   └─▶ acceptRequest ─▶ service.serve
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
// long), or waits for the client, the turn passes to a new goroutine. So input is
// read whatever a handler does, and no goroutine waits for the turn.
//
// These are all goroutines of a session, except those of timers and contexts that never block. wg, turn and out are
// fields of session, and the other names on the right are variables of Serve, waitForEnd and endWork.
//
//	goroutine              what it does                                  Serve waits for it by
//	readLines              reads; runs a handler if no other runs        turn.free, except during a Read; wg
//	startRequest's func    runs any other handler                        wg
//	both, before they end  write what is queued                          out.finish
//	lineWriter.flush       writes for a goroutine that must not block    out.finish
//	runUntilTask's timer   makes a task of a call                        the call, and so wg
//	waitForEnd's func      waits for turn.free and wg                    idle
//	endWork's func         cancels the handlers                          allEnded
//	printReports           writes to ErrorLog                            printed
//	lineReader.readAhead   one Read, while too much output is unsent     nothing
//
// Each wait ends when WaitDelay has passed, or a moment later. So Serve may return while these still run: a Read that
// cannot be interrupted, a write to ErrorLog that takes longer, and, after an ErrWaitDelay, the handlers, the
// goroutines that cancel them and wait for them, and the Write that did not end in time.
//
// No lock is held during a Read, a Write or a handler. A goroutine that needs
// session.mu and another lock acquires session.mu first. In comments, r and w are the reader and the
// writer of Serve. If a function has a receiver or parameter r of type *request, r is that request.

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
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"
)

// A session is one client: both ends of its connection and the work in progress.
type session struct {
	srv *Server

	// A session ends in two steps, and each of them ends a context, with the reason as its cause. open is a child
	// of ctx, so it ends first or with it:
	//
	//	event                          open ends   ctx ends
	//	r ends or fails                at once     at once or after CancelDelay
	//	w fails, or Serve's ctx ends   with ctx    at once
	//
	// When open has ended, nothing can be asked. In comments, "the session has ended" means this. When ctx has
	// ended, handlers are cancelled, and requests that were read before are answered with the reason. Once nothing is in
	// progress any more, or WaitDelay has passed, the writer is stopped and Serve returns.
	ctx     context.Context // parent of the contexts of all handlers
	endCtx  context.CancelCauseFunc
	open    context.Context // child of ctx
	endOpen context.CancelCauseFunc

	// wg counts the requests in running. Only waitForEnd waits for it, when it has taken the turn to read, without
	// which no request begins.
	wg sync.WaitGroup

	turn  turn
	in    lineReader // this and the next field: used by the goroutine that has the turn
	batch []byte     // of a line of several messages, all that follows the current one; nil if there is no such line
	out   lineWriter

	serverInfo, identity string // as JSON; identity is the part of it that modern results repeat
	extensions           []byte // of Server.Extensions, as JSON

	mu           sync.Mutex          // guards the fields below, except the channel; not held during I/O or user code
	failed       error               // the first failure of r or w
	requests     map[string]*request // requests that must be answered, by key, except streams
	waiting      list.List           // requests that wait until other requests end, in order
	lastKey      int64               // of a question: the id of a request of ours, or the key of a question of a task
	lastResponse int64               // position in the output after the last response
	streams      map[string]*stream  // by the key of the request, or legacyKey
	legacy       legacy
	tasks        taskList
	hasReports   chan struct{} // has an element if there are reports to print; closed when no more are printed

	// Requests whose handlers run, also cancelled ones: at most Server.MaxConcurrent, unless that is 0.
	running map[*request]struct{}

	// Requests to the client that have no response yet, by id. endConversation uses a copy of
	// this map.
	pending map[string]chan reply
}

// legacy is the state of a client of the older revisions: what initialize said, and
// which notifications the client receives. The goroutine that has the turn writes it,
// under mu. Other goroutines read it under mu.
type legacy struct {
	rev          revision // 0 before initialize
	client, caps []byte
	changes      [listCount]int // of the lists, before initialize
	offered      kindSet        // what was declared
	level        int            // lowest level of log messages that are sent, as an index of logLevels
}

// A request is one request of the client, from acceptRequest to respond. One that needs no handler is
// answered at once, or becomes a stream. Any other is in these maps and this list of the session, which
// session.mu guards:
//
//	                                             requests   waiting   running
//	it waits for other requests to end           yes        yes       no
//	it waited, and the client cancelled it       no         no        no
//	it runs                                      yes        no        yes
//	it runs, and the client cancelled it         no         no        yes
//	it runs, and has become a task               no         no        yes
//	it has been answered                         no         no        no
//
// A request that is in requests must be answered. A notification or a question that
// belongs to a request is sent only while the request is in requests.
type request struct {
	session *session
	ctx     context.Context // of the handler; its value for requestKey is this request
	cancel  context.CancelCauseFunc
	id      []byte   // the raw token, sent back byte for byte
	key     string   // idKey of it, for session.requests
	method  []byte   // unquoted
	service *service // how the method is served
	rev     revision

	// Members of params, as raw JSON. A service looks up any other member itself.
	params, meta, arguments, state, inputResponses []byte

	// Members of _meta. In the legacy era, client and caps are those of initialize.
	token, client, caps []byte
	level               int // of log messages, in the modern era: an index of logLevels, or their number

	name    string            // of the tool or prompt, or the URI of the resource
	item    *item             // nil if the method calls none, if there is none, and until the handler runs
	vars    map[string]string // the variables of a resource template
	changes int               // of the list in the response
	run     responder

	// The fields below are guarded by session.mu, once r is in session.requests.
	place         *list.Element // in session.waiting; nil if it never waited
	rounds        rounds        // guarded once the handler runs, and set before
	progress      float64       // the last value that was reported
	sentProgress  bool          // progress was reported
	progressText  string        // the last message, for the task that the call may become
	task          *task         // what the call has become, until that ends, or nil
	progressEnded bool          // no more progress is reported, because the response follows
}

// A stream receives notifications of changes: a request subscriptions/listen, or the legacy session.
type stream struct {
	meta     []byte          // the _meta of its notifications; nil in the legacy session
	response []byte          // sent when the session ends; nil in the legacy session
	watched  map[topic]int64 // with the position in the output after the last notification
	muted    bool            // nothing is sent: the legacy session before notifications/initialized
}

// legacyKey is the key of the legacy session in session.streams. No id has this key.
const legacyKey = "legacy"

// A topic is what a stream may watch: a list, by the name of the notification of its changes,
// such as "tools/list_changed", or a resource. One of the two fields is set.
type topic struct{ list, uri string }

// A question is what a handler asks the client: in a request of the older revisions, whose id is key, or in a member of
// inputRequests.
type question struct {
	key, method, params string
	answer              chan reply
}

// appendQuestions appends the member inputRequests of a result.
func appendQuestions(b []byte, questions []*question) []byte {
	b = join(b, `"inputRequests":{`)
	for _, q := range questions {
		b = join(appendString(b, q.key), `:{"method":"`, q.method, `","params":`, q.params, `},`)
	}
	return closeWith(b, `},`)
}

// A rounds holds the questions of a request of the modern era, and the client's answers. Its exported fields travel
// in the requestState. The handler runs again in each round, and gets the answers of all rounds so far. For example, it
// asks "Name?" twice, and 5x is the checksum of this question:
//
//	round  answers, by key      its first question gets  its second question gets  the result asks
//	1      none                 ErrInputRequired         (is not reached)          "Name?", key 5x-0
//	2      5x-0: Ann            Ann                      ErrInputRequired          "Name?", key 5x-1
//	3      5x-0: Ann, 5x-1: Bo  Ann                      Bo                        nothing, it is done
type rounds struct {
	// Of this round and of earlier ones. They are omitted, and not null, if there are none.
	Answers map[string]json.RawMessage `json:"answers,omitempty"`
	// Rounds in a row, including this one, that had answers of which none has matched.
	Idle int `json:"idle"`

	// These and Answers are nil if the client has sent no answers.
	fresh map[string]bool // the keys of the answers of this round
	used  map[string]int  // how many answers this run has used, by the checksum of the question

	questions []*question // to be sent with the result of this round
}

// A reply is the outcome of a question. A channel that receives it has room for one reply, so sending one never blocks.
type reply struct {
	result json.RawMessage
	err    error
}

// resolveCall sends the reply to a call. It does nothing if call already has a reply.
func resolveCall(call chan reply, a reply) {
	select {
	case call <- a:
	default:
	}
}

// Serve speaks MCP with one client. It reads messages from r, one per line, and writes
// messages to w, until r or ctx ends, or r or w fails. It then cancels the handlers,
// after [Server.CancelDelay] if r ended or failed, and waits for them, up to
// [Server.WaitDelay]. Each Write holds one or several whole lines, and no two Writes run
// at the same time.
//
// If handlers or writes did not end within WaitDelay, Serve returns an error that wraps
// [ErrWaitDelay]. Otherwise it returns nil if r or ctx has ended or w is a closed pipe, and the
// error of r or w after any other failure. It returns an error at once if Name or Version is not
// set, or if Icons or Extensions is invalid.
//
// Several sessions of one Server may run at the same time. Serve closes neither r nor
// w. If it returns before the end of r, a Read may still be in progress: close r to
// end it.
func (s *Server) Serve(ctx context.Context, r io.Reader, w io.Writer) error {
	if s.Name == "" || s.Version == "" {
		return errors.New("mcp: Server.Name and Server.Version must be set")
	}
	c := &session{
		srv:        s,
		requests:   make(map[string]*request),
		streams:    make(map[string]*stream),
		tasks:      taskList{byID: make(map[string]*task)},
		running:    make(map[*request]struct{}),
		pending:    make(map[string]chan reply),
		hasReports: make(chan struct{}, 1),
		turn:       turn{free: make(chan struct{}, 1)},
	}
	c.in.r, c.in.limit = r, cmp.Or(max(0, s.MaxMessageBytes), 64<<20)
	c.out.w = w
	c.out.onError = func(err error) { c.endCtx(c.recordEnd(err)) } // and so open
	err := checkIcons(s.Icons)
	if err != nil {
		return fmt.Errorf("mcp: Server.Icons: %w", err)
	}
	icons, _ := jsonOf(s.Icons) // they hold strings only
	info := string(stringMember(stringMember([]byte("{"), "name", s.Name), "version", s.Version))
	whole := optionalMember(optionalMember([]byte(info), "title", s.Title), "websiteUrl", s.WebsiteURL)
	c.serverInfo = string(closeWith(rawMember(whole, "icons", icons), "}"))
	c.identity = strings.TrimSuffix(info, ",") + "}"
	// This is done before the session begins, because it may call the user's MarshalJSON.
	if c.extensions, err = jsonOf(s.Extensions); err != nil {
		return fmt.Errorf("mcp: Server.Extensions: %w", err)
	}
	for name, val := range members(c.extensions) {
		if val[0] != '{' {
			return fmt.Errorf("mcp: Server.Extensions: the value of %q must be a JSON object, got %s", name, excerpt(string(val)))
		}
	}
	c.ctx, c.endCtx = context.WithCancelCause(ctx)
	c.open, c.endOpen = context.WithCancelCause(c.ctx)
	c.hasReports <- struct{}{} // there may be reports already
	s.addSession(c)
	printed := make(chan struct{})
	go c.printReports(printed)
	c.turn.readLines, c.turn.timer = c.readLines, time.AfterFunc(maxInline, c.turn.pass) // lend sets the time
	go c.readLines()
	return c.waitForEnd(printed)
}

// ---- what each revision knows ----

// A client ignores members that it does not know, so most messages are the same in all
// revisions of an era. This section holds what a client would refuse or misread. Besides,
// services name the revisions that have a method. To add a revision:
//
//	- add its constant and its date below, and add it to modernVersions;
//	- add a constant for each kind of question or content that is new in it;
//	- add the methods that it removes or adds to services;
//	- add the keys of its _meta.
//
// A new member of a request is read where its method is served, and a new member of a
// result is written where that kind of result is made. A new capability of the server is
// added to declared, and a new notification of the client to acceptNotification. Doc
// comments that name revisions may have to change.
//
// All other code asks rev.knows(feature), or rev.modern() where the two eras differ.

// A revision is a dated version of the protocol. Revisions before firstModern are the
// legacy era, and the others the modern era.
type revision uint8

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

// modernVersions is a JSON list of the revisions that a request may name.
const modernVersions = `["2026-07-28"]`

// What the revisions know: each feature with the first revision that has it.
const (
	featureAudio     = rev2025_03_26 // Content of type audio
	featureLinks     = rev2025_06_18 // Content of type resource_link
	featureForms     = rev2025_06_18 // Elicit
	featureURLs      = rev2025_11_25 // ElicitURL
	featureChoices   = rev2025_11_25 // a field of a form that takes several values of an enum
	featureAnyOutput = rev2026_07_28 // outputSchema and structuredContent that are not objects
)

// knows reports whether v has a feature, given by the first revision that has it.
func (v revision) knows(feature revision) bool { return v >= feature }

// batches reports whether one line may hold several messages.
func (v revision) batches() bool { return v == rev2025_03_26 }

// hasElicitationID reports whether ElicitURL sends an id.
func (v revision) hasElicitationID() bool { return v == rev2025_11_25 }

// appendContent appends c as a block, or a text in its place if v does not know the type of c, and
// a comma. It returns an error if c is invalid in any revision.
func (v revision) appendContent(b []byte, c Content) ([]byte, error) {
	block, err := c.appendBlock(b)
	switch {
	case err != nil:
		return nil, err
	case c.Type == "audio" && !v.knows(featureAudio):
		return Text("[audio, " + c.MIMEType + ", " + strconv.Itoa(len(c.Data)) + " bytes]").appendBlock(b)
	case c.Type == "resource_link" && !v.knows(featureLinks):
		return Text(c.Link.Name + ": " + c.Link.URI).appendBlock(b)
	}
	return block, nil
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

// ---- the turn to read ----

// maxInline is how long a turn is lent for a short line; a long one has as long again for each longText
// bytes, and at most five times as long in all. Queued responses wait for maxInline, too.
const maxInline, longText = time.Millisecond, 256 << 10

// A turn is the right to read and parse. One goroutine has it, or has lent it while it does work that may take long,
// which is to run a handler or to write. The first of these ends the loan, and says who has the turn then:
//
//	the work is done               its goroutine, which reads on
//	the work takes too long        a new goroutine: the timer calls pass
//	the work asks the client       a new goroutine: it calls pass itself
//	the work calls Goexit          a new goroutine
//
// No goroutine ever waits for the turn, nor for another one to run a handler: with a goroutine that only reads, a
// small call takes three times the CPU and the time. And a handler that returns at once has returned before the next line
// is read: with a goroutine for each request, EOF without a CancelDelay would cancel it.
//
// A Read may block for as long as the client is silent, so its goroutine puts the turn into free meanwhile. When the
// session has ended, waitForEnd takes it from there, and keeps it. So no message is being accepted then, and none is later.
type turn struct {
	readLines func()        // runs on a new goroutine that gets the turn
	timer     *time.Timer   // calls pass
	loan      atomic.Int64  // rises when a loan begins and when it ends, so it is odd while the turn is lent
	free      chan struct{} // has room for one element, which is in it during a Read
}

// lend runs work while the turn is lent, and reports whether the caller has the turn again. Only the goroutine that
// has it may call it. The line that the work is for has size bytes. If work calls runtime.Goexit, which ends this goroutine, a
// new one gets the turn.
func (t *turn) lend(size int, work func()) (hasTurn bool) {
	loan := t.loan.Add(1)
	// A long line takes time to parse, so its handler gets more time.
	t.timer.Reset(maxInline * time.Duration(1+min(size/longText, 4)))
	defer t.passLoan(loan) // if work calls runtime.Goexit; otherwise the loan has ended
	work()
	hasTurn = t.loan.CompareAndSwap(loan, loan+1)
	if hasTurn { // otherwise the timer may be that of a later loan
		t.timer.Stop()
	}
	return hasTurn
}

// release lets waitForEnd take the turn, until takeBack.
func (t *turn) release() { t.free <- struct{}{} }

// takeBack ends release, and reports whether the caller has the turn again. Otherwise waitForEnd has it for good.
func (t *turn) takeBack() (hasTurn bool) {
	select {
	case <-t.free:
		return true
	default:
		return false
	}
}

// pass ends the loan of the moment, if there is one, and gives the turn to a new goroutine. Any goroutine may call it at any
// time.
func (t *turn) pass() { t.passLoan(t.loan.Load()) }

// passLoan is pass for one loan. If this has ended, or if it is none, nothing happens.
func (t *turn) passLoan(loan int64) {
	hasTurn := loan%2 == 1 && t.loan.CompareAndSwap(loan, loan+1)
	if hasTurn {
		go t.readLines()
	}
}

// ---- read ----

// readLines reads and accepts messages. It runs on the goroutine that has the turn to read, and returns when it does not
// have the turn any more: another goroutine has it, or nothing more will be accepted.
//
// The responses to requests that this goroutine serves are not written one by one.
// They are written together before it waits for input, or before the next line if a
// millisecond has passed. So many requests at once cost few writes, and a client that
// waits for a response does not wait long. The write may block, so the turn is lent
// meanwhile: input is read even if the client does not read.
func (c *session) readLines() {
	defer c.out.flush() // if the turn has passed on, also after a handler has called runtime.Goexit
	began := time.Now()
	for hasTurn := true; hasTurn; {
		c.waitForRoom()
		m := c.nextMessage()
		switch {
		case m != nil:
			if time.Since(began) > maxInline { // queued responses have waited long enough
				c.out.start()
				began = time.Now()
			}
			if r := c.acceptLine(m); r != nil {
				hasTurn = c.turn.lend(len(m), func() { c.handleRequest(r) })
			}
		case c.out.needsWriter(): // before a Read that may block, and before the end
			hasTurn = c.turn.lend(0, c.out.flush)
		default:
			hasTurn = c.readInput()
			began = time.Now()
		}
	}
}

// outputBound is how many bytes of output may be unsent before no further line is accepted, and how
// many bytes of input may then be read ahead.
const outputBound = 16 << 20

// waitForRoom blocks while more than outputBound bytes of output are unsent. That
// limits the memory that a client can make us use by writing without reading. Meanwhile up
// to outputBound bytes of input are read ahead, so that the end of the input is seen
// as soon as Read returns it. When ctx has ended waitForRoom does not block,
// because requests must still be answered. The caller has the turn, which nobody needs meanwhile: nothing is accepted.
func (c *session) waitForRoom() {
	for c.ctx.Err() == nil {
		changed := c.out.unwritten(c.out.position() - outputBound)
		if changed == nil { // at most the last outputBound bytes are unsent
			return
		}
		c.out.start()
		c.in.readAhead()
		c.endInput()
		select {
		case <-changed:
		case <-c.ctx.Done():
		case more := <-c.in.ahead:
			c.in.add(more)
		}
	}
}

// nextMessage returns the next line, or the next message of a line that holds several. It returns nil if there is none,
// or if the writer was stopped, because nothing can be answered then.
func (c *session) nextMessage() []byte {
	if bytes.HasPrefix(c.batch, []byte("]")) {
		c.batch = nil
	}
	switch {
	case c.out.isStopped():
		return nil
	case c.batch == nil:
		return c.in.nextLine()
	}
	start := skipSpace(c.batch, 1) // after the bracket or a comma
	end := scan(c.batch, start)
	m := c.batch[start:end]
	c.batch = c.batch[skipSpace(c.batch, end):]
	return m
}

// readInput reads once, when no message is left, and reports whether the caller still has the turn to read, which is free
// during the Read. If nothing more will be accepted, the turn stays free, or waitForEnd has taken it:
//
//	r has ended                 readInput returns at once
//	the writer was stopped      the same
//	waitForEnd has the turn     what comes is discarded until one of these: a client that blocks in a write must be able
//	                            to read the last responses
func (c *session) readInput() (hasTurn bool) {
	c.endInput()
	c.turn.release()
	for !hasTurn && c.in.err == nil && !c.out.isStopped() {
		c.in.readMore()
		hasTurn = c.turn.takeBack()
		if !hasTurn {
			c.in.next(c.in.buf.Len())
		}
	}
	return hasTurn
}

// ---- accept ----

// An envelope holds the outer members of one message, as slices of the line. Names are matched
// exactly, and the last member of a name counts.
type envelope struct {
	jsonrpc, id, method, params, result, err []byte
	isUTF8                                   bool // the whole message is
}

// idKey returns a valid id as the key of the maps. All JSON forms of a value have one key: 5.0 and 0.5e1 have that
// of 5, and "\u0061" that of "a".
func idKey(id []byte) string {
	if text, isText := unquote(id); isText {
		return `"` + text // so that "5" is not 5
	}
	return string(plainNumber(id))
}

const notUTF8 = "Parse error: not UTF-8"

// acceptLine accepts one line, or one message of a batch. If the caller must handle a request, it returns this
// request. The first row that fits applies:
//
//	longer than limit                     refused, id null
//	blank                                 ignored
//	not JSON                              refused as a parse error, id null
//	a batch, unless it is in a batch      its messages are accepted, or it is refused, id null
//	a response, also an invalid one       accepted or ignored, but never answered
//	not UTF-8                             refused as a parse error, with the id if it is a request
//	an invalid id                         refused, id null
//	no method that is a string            refused, with the id if there is one
//	no id                                 accepted as a notification
//	any other message                     accepted as a request
func (c *session) acceptLine(line []byte) (inline *request) {
	if len(line) > c.in.limit {
		c.refuseMessage(nil, invalid("the message is longer than "+strconv.Itoa(c.in.limit)+" bytes"))
		return nil
	}
	line = bytes.Trim(line, "\ufeff \t\r\n") // some programs write a byte order mark first
	e := envelope{isUTF8: utf8.Valid(line)}
	isJSON := extract(line, untrusted, into{"jsonrpc", &e.jsonrpc}, into{"id", &e.id}, into{"method", &e.method},
		into{"params", &e.params}, into{"result", &e.result}, into{"error", &e.err})
	dropNulls(&e.method, &e.params) // some clients write them in a response
	isBatch := c.batch == nil && bytes.HasPrefix(line, []byte("["))
	isResponse, hasID := e.method == nil && (e.result != nil || e.err != nil), isJSON && isValidID(e.id)
	switch {
	case len(line) == 0:
	case !isJSON && !e.isUTF8:
		c.refuseMessage(nil, coded(codeParse, notUTF8))
	case !isJSON:
		c.refuseMessage(nil, coded(codeParse, "Parse error"))
	case isBatch && !c.legacy.rev.batches():
		c.refuseMessage(nil, invalid("batching is not supported"))
	case isBatch && line[skipSpace(line, 1)] == ']':
		c.refuseMessage(nil, invalid("empty batch"))
	case isBatch: // nextMessage returns its messages, as if each were a line; so no response waits for another
		c.batch = line
	case isResponse:
		c.acceptResponse(&e)
	case !e.isUTF8 && e.method != nil && hasID: // a request, whose caller would wait forever without the id
		c.refuseMessage(e.id, coded(codeParse, notUTF8))
	case !e.isUTF8:
		c.refuseMessage(nil, coded(codeParse, notUTF8))
	case e.id != nil && !hasID:
		c.refuseMessage(nil, invalid("id must be an integer, or a string without U+2028, U+2029 and escapes of half a character"))
	case len(e.method) == 0 || e.method[0] != '"':
		c.refuseMessage(e.id, invalid("a message must be an object whose method is a string"))
	case e.id == nil:
		c.acceptNotification(&e)
	default:
		return c.acceptRequest(&e)
	}
	return nil
}

// refuseMessage sends an error response to an invalid message. A nil id is sent as
// null, which JSON-RPC requires if the id could not be read. An id that is in use is
// also sent as null: otherwise the error would be taken for the response to the
// request that uses it. After the end of ctx a message without an id is not
// answered, because two bytes of input would cost a hundred of output.
func (c *session) refuseMessage(id []byte, err *Error) {
	c.logf("refused: %s", err.Message)
	_, inUse := c.holder(idKey(id)) // not for a nil id: its key is "", which no id has
	switch {
	case inUse:
		id = nil
	case id == nil && c.ctx.Err() != nil:
		return
	}
	r := &request{session: c, id: id} // the message may be invalid in any other member
	c.sendResponse(r.errorResponse(err), nil)
}

// holder reports whether an id is in use, and returns the request that uses it unless that is a
// stream.
func (c *session) holder(key string) (r *request, inUse bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r = c.requests[key]
	return r, r != nil || c.streams[key] != nil
}

// acceptNotification accepts a notification, which has no response.
func (c *session) acceptNotification(e *envelope) {
	switch method, _ := unquote(e.method); method {
	case "notifications/initialized":
		c.startNotifications()
	case "notifications/cancelled":
		if id := member(e.params, "requestId"); isValidID(id) {
			reason, _ := unquote(member(e.params, "reason"))
			c.cancelRequest(id, reason)
		}
	// This server never asks for progress, and does not store roots.
	case "notifications/progress", "notifications/roots/list_changed":
	default:
		c.logf("notification ignored: unknown method %q", excerpt(method))
	}
}

// startNotifications lets the legacy session receive notifications of changes, and sends
// those of the lists that have changed since initialize. A second call does nothing.
func (c *session) startNotifications() {
	c.mu.Lock()
	if st := c.streams[legacyKey]; st != nil && st.muted {
		st.muted = false
		for k := range listCount {
			if _, changes := c.srv.listInOrder(k); changes != c.legacy.changes[k] {
				c.sendChangeLocked(topic{list: k.changeNotification()})
			}
		}
	}
	c.mu.Unlock()
}

// acceptResponse accepts the client's response to one of our requests.
func (c *session) acceptResponse(e *envelope) {
	dropNulls(&e.err)
	id := strings.TrimPrefix(idKey(e.id), `"`) // some clients write "1" for 1, and the official SDKs accept it
	c.mu.Lock()
	call := c.pending[id]
	delete(c.pending, id)
	c.mu.Unlock()
	switch {
	case call == nil:
		c.logf("response ignored: no request of this server has the id %s", oneLine(cmp.Or(string(e.id), "(missing)")))
	case !e.isUTF8:
		resolveCall(call, reply{err: errors.New("mcp: the client's response is not UTF-8")})
	case e.err == nil && e.result != nil:
		resolveCall(call, reply{result: e.result})
	default:
		message, _ := unquote(member(e.err, "message"))
		resolveCall(call, reply{err: fmt.Errorf("mcp: the client responded with an error: %s (%.20s)",
			cmp.Or(excerpt(message), "no message"), cmp.Or(string(member(e.err, "code")), "no code"))})
	}
}

// ---- request ----

// A service describes how the requests of one method are served. request.check looks at the
// members that all requests have, the revision, and whether the server offers what the
// method needs, and at the params of initialize. serve makes all other checks.
type service struct {
	since, until revision // the revisions that have the method; 0: no bound
	early        bool     // it is served also before initialize
	opensSession bool     // it opens a session of the older revisions: initialize
	kind         kind     // what the server must offer for the method, or always
	isList       bool     // it returns a list; legacy clients may list what is not offered
	nameMember   string   // the member of params that names an item; required

	// serve returns the response, as a line, or what must run to make it, like a handler.
	// If both are nil, r has become a stream, which is answered when it ends.
	serve func(r *request) (line []byte, run responder)
}

// A responder runs a handler with ctx, and returns what to send for r, and what Server.Intercept sees:
//
//	line, nil   the response
//	nil, err    outcome makes the response of err
//	line, err   the response is a Result with IsError, and err has its text
type responder func(ctx context.Context, r *request) (line []byte, err error)

// services holds the methods of the protocol: those that open a conversation, lists,
// those that call handlers, and those that turn notifications on and off.
var services = map[string]*service{
	"initialize":      {until: newestLegacy, early: true, opensSession: true, kind: always, serve: (*request).initialize},
	"ping":            {until: newestLegacy, early: true, kind: always, serve: (*request).emptyResponse},
	"server/discover": {since: firstModern, kind: always, serve: (*request).discover},

	"tools/list":               {kind: tools, isList: true, serve: (*request).listItems},
	"prompts/list":             {kind: prompts, isList: true, serve: (*request).listItems},
	"resources/list":           {kind: resources, isList: true, serve: (*request).listItems},
	"resources/templates/list": {kind: templates, isList: true, serve: (*request).listItems},

	"tools/call":          {kind: tools, nameMember: "name", serve: (*request).callItem},
	"prompts/get":         {kind: prompts, nameMember: "name", serve: (*request).callItem},
	"resources/read":      {kind: resources, nameMember: "uri", serve: (*request).callItem},
	"completion/complete": {kind: completions, serve: (*request).complete},

	"logging/setLevel":      {until: newestLegacy, kind: logging, serve: (*request).setLevel},
	"resources/subscribe":   {until: newestLegacy, kind: resources, nameMember: "uri", serve: (*request).subscribe},
	"resources/unsubscribe": {until: newestLegacy, kind: resources, nameMember: "uri", serve: (*request).unsubscribe},
	"subscriptions/listen":  {since: firstModern, kind: always, serve: (*request).listen},

	"tasks/get":    {since: firstModern, kind: tasks, nameMember: "taskId", serve: (*request).serveTask},
	"tasks/update": {since: firstModern, kind: tasks, nameMember: "taskId", serve: (*request).serveTask},
	"tasks/cancel": {since: firstModern, kind: tasks, nameMember: "taskId", serve: (*request).serveTask},
}

// unknownMethod is the service of methods that no revision has.
var unknownMethod = &service{since: newest + 1, kind: always}

// existsIn reports whether revision v has the method.
func (s *service) existsIn(v revision) bool {
	return v >= s.since && (s.until == 0 || v <= s.until)
}

// acceptRequest accepts a request and returns what acceptLine returns. It checks r first, because only a valid
// initialize may use an id again; check changes nothing but r. After the end of
// ctx it answers only with the reason, because waitForRoom does not limit the output then.
func (c *session) acceptRequest(e *envelope) (inline *request) {
	r := &request{session: c, id: e.id, key: idKey(e.id), method: unquoteBytes(e.method), params: e.params}
	r.service = c.srv.findMethod(string(r.method))
	err := r.check()
	earlier, inUse := c.holder(r.key)
	// initialize ends the requests of the legacy session before, so its id may be that of one of these.
	endsEarlier := err == nil && r.service.opensSession && earlier != nil && !earlier.rev.modern()
	switch {
	case len(e.jsonrpc) == 0 || e.jsonrpc[0] != '"' || string(unquoteBytes(e.jsonrpc)) != "2.0":
		c.refuseMessage(e.id, invalid(`jsonrpc must be "2.0"`))
	case inUse && !endsEarlier:
		// The id is sent as null, even if the first request has been answered meanwhile: its response has this id.
		c.refuseMessage(nil, invalid("id "+oneLine(string(e.id))+" is in use"))
	case c.ctx.Err() != nil:
		c.refuseMessage(e.id, c.endError())
	case err != nil:
		c.sendResponse(r.errorResponse(err), nil)
	default:
		line, run := r.service.serve(r)
		if run == nil {
			c.sendResponse(line, r)
			return nil
		}
		r.run = run
		if c.srv.Intercept != nil && !r.service.isList { // a list is no call, even if Tool.Enabled makes it
			r.run = c.srv.intercepted(run)
		}
		return c.beginRequest(r)
	}
	return nil
}

// maxRepeated bounds the bytes of an id or a token that notifications repeat.
const maxRepeated = 1 << 10

// check returns an error if the request is invalid whatever its method is, if the server
// does not serve the method, or if it is an invalid initialize. It sets the revision, the
// client and the members of params and _meta that several methods have.
//
// A null is treated as absent if the member is optional. Each of the two objects is looked through
// once, because arguments may be long, and because many requests have a _meta.
func (r *request) check() *Error {
	var name, version, level []byte
	extract(r.params, trusted, into{"_meta", &r.meta}, into{r.service.nameMember, &name}, into{"arguments", &r.arguments},
		into{"requestState", &r.state}, into{"inputResponses", &r.inputResponses})
	dropNulls(&r.meta, &r.arguments, &r.state, &r.inputResponses)
	extract(r.meta, trusted, into{"progressToken", &r.token}, into{keyVersion, &version}, into{keyCaps, &r.caps},
		into{keyClient, &r.client}, into{keyLevel, &level})
	dropNulls(&r.token, &r.client, &level)
	switch {
	case r.params != nil && r.params[0] != '{':
		return badParams("params must be an object")
	case r.meta != nil && r.meta[0] != '{':
		return badParams("_meta must be an object")
	case r.token != nil && !isValidID(r.token):
		return badParams("progressToken must be an integer, or a string without U+2028, U+2029 and escapes of half a character")
	case len(r.token) > maxRepeated:
		return badParams("progressToken is too long")
	}
	if err := r.selectEra(version, level); err != nil {
		return err
	}
	s := r.service
	offered := s.kind == always || r.session.srv.offeredKinds()[declaredAs[s.kind]]
	// Hosts of the legacy era drop a server that refuses a list.
	if !offered && (!s.isList || r.rev.modern()) {
		return r.methodNotFound()
	}
	if s.nameMember != "" {
		var isText bool
		if r.name, isText = unquote(name); !isText {
			return badParams(s.nameMember + " is required")
		}
	}
	if s.opensSession {
		return r.checkInitialize()
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
func (r *request) selectEra(version, level []byte) *Error {
	if version != nil {
		return r.checkModern(version, level)
	}
	legacy := &r.session.legacy
	r.rev, r.client, r.caps = legacy.rev, legacy.client, legacy.caps
	switch {
	case r.service == unknownMethod || r.service.kind == tasks: // clients of 2025-11-25 try an earlier form of tasks
		return r.methodNotFound()
	case r.service.existsIn(r.rev) && (r.rev != 0 || r.service.early):
		return nil
	}
	return coded(codeParams, "Missing required _meta fields "+keyVersion+" and "+keyCaps+" (older revisions send initialize)")
}

// checkModern returns an error if the _meta of a modern request is invalid, and sets the revision and the level of log
// messages from it.
func (r *request) checkModern(rawVersion, rawLevel []byte) *Error {
	version, isText := unquote(rawVersion)
	r.rev = revisionOf(version)
	_, _, named := parseClientInfo(r.client)
	level, _ := unquote(rawLevel)
	r.level = len(logLevels)
	if rawLevel != nil {
		r.level = slices.Index(logLevels[:], level)
	}
	switch {
	case !isText:
		return badParams(keyVersion + " must be a string")
	case r.caps == nil:
		return coded(codeParams, "Missing required _meta field "+keyCaps)
	case r.caps[0] != '{':
		return badParams(keyCaps + " must be an object")
	case r.client != nil && !named:
		return badParams(keyClient + " must be an object with name and version")
	case !r.rev.modern():
		return &Error{Code: codeVersion, Message: "Unsupported protocol version",
			Data: json.RawMessage(join(appendString([]byte(`{"requested":`), version), `,"supported":`, modernVersions, `}`))}
	case r.level < 0:
		return coded(codeParams, "Invalid log level: "+excerpt(cmp.Or(level, string(rawLevel))))
	case r.session.batch != nil:
		return invalid("batching is not supported")
	case !r.service.existsIn(r.rev):
		return r.methodNotFound()
	}
	return nil
}

// parseClientInfo returns the name and the version in a clientInfo object, and
// reports whether it has both.
func parseClientInfo(raw []byte) (name, version string, ok bool) {
	name, isName := unquote(member(raw, "name"))
	version, isVersion := unquote(member(raw, "version"))
	return name, version, isName && isVersion
}

// methodNotFound is the error for a method that r's revision does not have, or that
// needs something that the server does not offer.
func (r *request) methodNotFound() *Error {
	err := coded(codeMethod, "Method not found: "+excerpt(string(r.method)))
	if r.service.opensSession { // a modern client: it may choose one of these
		err.Data = json.RawMessage(`{"supported":` + modernVersions + `}`)
	}
	return err
}

// checkInitialize returns an error if r, an initialize, is invalid. It sets the revision and the
// client of the session that r opens.
func (r *request) checkInitialize() *Error {
	version, isText := unquote(member(r.params, "protocolVersion"))
	r.caps, r.client = member(r.params, "capabilities"), member(r.params, "clientInfo")
	_, _, named := parseClientInfo(r.client)
	switch {
	case r.session.batch != nil:
		return invalid("initialize must not be part of a batch")
	case !isText:
		return badParams("protocolVersion is required")
	case r.caps == nil || r.caps[0] != '{':
		return badParams("capabilities is required")
	case !named:
		return badParams("clientInfo with name and version is required")
	}
	if r.rev = revisionOf(version); r.rev == 0 || r.rev.modern() {
		r.rev = newestLegacy
	}
	return nil
}

// initialize opens a legacy session, in place of an earlier one: hosts and proxies reconnect over
// one process, and start their ids again.
func (r *request) initialize() (line []byte, run responder) {
	c := r.session
	if c.legacy.rev != 0 {
		c.endLegacy(r.key)
	}
	next := legacy{
		rev:     r.rev,
		client:  bytes.Clone(r.client),
		caps:    bytes.Clone(r.caps),
		offered: c.srv.offeredKinds(),
		level:   len(logLevels),
	}
	watched := make(map[topic]int64)
	for k := range listCount {
		_, next.changes[k] = c.srv.listInOrder(k)
		if next.offered[k] { // templates are declared as resources
			watched[topic{list: k.changeNotification()}] = 0
		}
	}
	c.mu.Lock()
	c.legacy = next
	c.streams[legacyKey] = &stream{watched: watched, muted: true}
	c.mu.Unlock()
	b := join(r.beginResponse(), `"protocolVersion":"`, r.rev.String(), `","serverInfo":`, c.serverInfo, `,`)
	return r.endResponse(r.appendOffer(b, next.offered), nil), nil
}

// endLegacy ends the legacy session, because an initialize with the key newKey opens another one. Its requests are
// removed and cancelled, and its questions are withdrawn. Its requests are also
// answered, because another client may wait for them, and before the initialize is: later, the client could take a
// response for that to a new request with the same id.
func (c *session) endLegacy(newKey string) {
	cause := &CancelledError{"initialize opened a new session"}
	var cancelled []*request
	c.mu.Lock()
	for _, r := range c.requests {
		if !r.rev.modern() {
			cancelled = append(cancelled, r)
			c.removeLocked(r)
			if r.key != newKey { // otherwise this would be taken for the response to initialize
				c.sendResponseLocked(r.errorResponse(coded(codeInternal, cause.Reason)), nil)
			}
		}
	}
	for id := range c.pending { // the modern era has none
		c.withdrawLocked(id)
	}
	c.mu.Unlock()
	c.logf("initialize opens a new session: %d requests of the one before are cancelled", len(cancelled))
	for _, r := range cancelled {
		r.cancel(cause)
	}
}

// discover returns the revisions, the capabilities and the instructions of the server
// to a modern client.
func (r *request) discover() (line []byte, run responder) {
	c := r.session
	b := join(r.beginResponse(), `"supportedVersions":`, modernVersions, `,`)
	b = r.appendCaching(r.appendOffer(b, c.srv.offeredKinds()), true)
	return join(b, `"_meta":{"`+keyServer+`":`, c.serverInfo, `}}}`), nil // not with endResponse, which writes only the identity
}

// listItems returns a list, which has one page. If a tool has Tool.Enabled, a handler makes
// the list: Enabled is the user's code and must not run under a lock or delay the reader.
func (r *request) listItems() (line []byte, run responder) {
	items, changes := r.session.srv.listInOrder(r.service.kind)
	r.changes = changes
	if cursor := member(r.params, "cursor"); len(cursor) > 0 && string(cursor) != "null" && string(cursor) != `""` {
		return r.errorResponse(coded(codeParams, "Invalid cursor")), nil
	}
	if slices.ContainsFunc(items, func(it *item) bool { return it.tool.Enabled != nil }) {
		return nil, func(ctx context.Context, _ *request) ([]byte, error) {
			seen := slices.DeleteFunc(slices.Clone(items), func(it *item) bool { return !r.session.srv.isEnabled(ctx, it) })
			return r.listResponse(seen, false), nil // another client may see others, so it must not be cached
		}
	}
	return r.listResponse(items, true), nil
}

// listResponse returns the response with a list of items.
func (r *request) listResponse(items []*item, mayCache bool) []byte {
	k, size := r.service.kind, 1<<10
	for _, it := range items {
		size += len(it.encoded) + len(",")
	}
	b := join(slices.Grow(r.beginResponse(), size), `"`, kindNames[k], `":[`)
	for _, it := range items {
		encoded := it.encoded
		if it.output != nil && !it.needsObject && !r.rev.knows(featureAnyOutput) {
			encoded = closeWith(copyMembersExcept([]byte("{"), encoded, "outputSchema"), "}")
		}
		b = append(append(b, encoded...), ',')
	}
	return r.endResponse(r.appendCaching(closeWith(b, `],`), mayCache), nil)
}

// isEnabled reports whether the item exists for the client whose request has ctx. A panic in Tool.Enabled hides the
// tool, and the first one is reported.
func (s *Server) isEnabled(ctx context.Context, it *item) (isEnabled bool) {
	defer func() {
		if why := recover(); why != nil {
			it.reportPanic.Do(func() { s.report("mcp: tool %q: Enabled panicked: %v\n%s", it.name, why, debug.Stack()) })
		}
	}()
	return it.tool.Enabled == nil || it.tool.Enabled(ctx)
}

// callItem calls the handler of the item that a request names. runHandler has looked it up.
func (*request) callItem() (line []byte, run responder) {
	return nil, func(ctx context.Context, r *request) ([]byte, error) {
		if r.item == nil {
			return nil, r.unknownItem()
		}
		return r.item.run(ctx, r)
	}
}

// unknownItem is the error for a tool, prompt or resource that does not exist for the client. For a resource
// it names the URI, because the client may have sent several requests. Otherwise it names the items that
// exist for all clients, at most ten, so that a model finds the right one.
func (r *request) unknownItem() *Error {
	if r.service.kind == resources {
		code := codeNotFound
		if r.rev.modern() {
			code = codeParams
		}
		return &Error{Code: code, Message: "Resource not found", Data: map[string]string{"uri": r.name}}
	}
	var names []string
	items, _ := r.session.srv.listInOrder(r.service.kind)
	for _, it := range items {
		if it.tool.Enabled == nil {
			names = append(names, it.name)
		}
	}
	if more := len(names) - 10; more > 0 {
		names = append(names[:10], "and "+strconv.Itoa(more)+" more")
	}
	return coded(codeParams, "Unknown "+strings.TrimSuffix(kindNames[r.service.kind], "s")+": "+excerpt(r.name)+
		" (there is "+cmp.Or(strings.Join(names, ", "), "none")+")")
}

// complete suggests values for an argument of a prompt or a variable of a template. A handler
// decodes the other arguments, because there may be many.
func (r *request) complete() (line []byte, run responder) {
	ref := member(r.params, "ref")
	typ, _ := unquote(member(ref, "type"))
	k, key := prompts, "name"
	if typ == "ref/resource" {
		k, key = templates, "uri" // of a template, or a URI that matches one
	}
	r.name, _ = unquote(member(ref, key))
	return nil, func(ctx context.Context, _ *request) ([]byte, error) {
		it, _ := r.session.srv.findItem(k, r.name)
		argument, given := member(r.params, "argument"), member(r.params, "context")
		name, _ := unquote(member(argument, "name"))
		typed, isText := unquote(member(argument, "value"))
		known, arguments := make(map[string]string), member(given, "arguments")
		dropNulls(&given, &arguments)
		switch {
		case typ != "ref/prompt" && typ != "ref/resource":
			return nil, badParams("ref.type must be ref/prompt or ref/resource")
		case name == "" || !isText:
			return nil, badParams("argument.name and argument.value are required")
		case it == nil:
			return nil, badParams("no such prompt or template to complete")
		case given != nil && given[0] != '{':
			return nil, badParams("context must be an object")
		case arguments != nil && json.Unmarshal(arguments, &known) != nil:
			return nil, badParams("context.arguments must be an object whose members are strings")
		case it.complete[name] == nil:
			return r.completeResponse(nil), nil
		}
		values, err := it.complete[name](ctx, typed, known)
		if err != nil {
			return nil, err
		}
		return r.completeResponse(values), nil
	}
}

// setLevel sets the lowest level of log messages that the legacy session receives.
func (r *request) setLevel() (line []byte, run responder) {
	if !r.session.legacy.offered[logging] { // it was not declared to this session
		return r.errorResponse(r.methodNotFound()), nil
	}
	raw := member(r.params, "level")
	level, _ := unquote(raw)
	n := slices.Index(logLevels[:], level)
	if n < 0 {
		return r.errorResponse(coded(codeParams, "Invalid log level: "+excerpt(cmp.Or(level, string(raw), "it is missing")))), nil
	}
	r.session.mu.Lock()
	r.session.legacy.level = n
	r.session.mu.Unlock()
	return r.emptyResponse()
}

// logLevel returns the lowest level of log messages that the client wants for r, as
// an index of logLevels.
func (c *session) logLevel(r *request) int {
	if r.rev.modern() {
		return r.level
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.legacy.level
}

// subscribe lets the legacy session receive notifications when a resource changes.
func (r *request) subscribe() (line []byte, run responder) {
	c, what := r.session, topic{uri: r.name}
	c.mu.Lock()
	defer c.mu.Unlock()
	watched := c.streams[legacyKey].watched
	if _, isWatched := watched[what]; !isWatched {
		if len(r.name) > maxURI || c.watchedLocked() >= maxWatched {
			return r.errorResponse(errTooMany), nil
		}
		watched[what] = 0
	}
	return r.emptyResponse()
}

// unsubscribe undoes subscribe.
func (r *request) unsubscribe() (line []byte, run responder) {
	r.session.mu.Lock()
	delete(r.session.streams[legacyKey].watched, topic{uri: r.name})
	r.session.mu.Unlock()
	return r.emptyResponse()
}

// maxStreams bounds the streams of one session, including the legacy session. The client of go-sdk opens one for each
// resource.
const maxStreams = 1024

// listen begins a stream, which watches what the client asks for as far as the server
// offers it. The stream may last long, so it keeps no slices of the line, and only a copy of its response. It is answered when
// the session ends, unless the client has ended it or has closed the connection.
func (r *request) listen() (line []byte, run responder) {
	c := r.session
	meta := join(nil, `{"`+keySubscription+`":`, string(r.id), `}`)
	st := &stream{meta: meta, response: bytes.Clone(r.endResponse(r.beginResponse(), meta)), watched: make(map[topic]int64)}
	asked, offered := member(r.params, "notifications"), c.srv.offeredKinds()
	accepted, refusal := st.watchAsked(asked, offered)
	taskIDs := member(asked, "taskIds")
	dropNulls(&taskIDs)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case refusal != nil:
	case offered[tasks] && taskIDs != nil && !r.declaresTasks(): // otherwise they are left out
		refusal = errNeedsTasks
	case c.open.Err() != nil:
		refusal = c.endError()
	case len(r.id) > maxRepeated || len(c.streams) >= maxStreams || c.watchedLocked()+len(st.watched) > maxWatched:
		refusal = errTooMany
	default:
		c.streams[r.key] = st
		c.out.enqueue(join(nil, `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":`,
			string(accepted), `,"_meta":`, string(meta), `}}`))
		return nil, nil
	}
	return r.errorResponse(refusal), nil // its Data is JSON, so no code of the user runs under the lock
}

// watchAsked adds to what a new stream watches what the client asks for, the member notifications, as far as it is
// offered. It returns the object that says so, or an error.
func (st *stream) watchAsked(asked []byte, offered kindSet) (accepted []byte, refusal *Error) {
	malformed := badParams("notifications must be an object with lists and resourceSubscriptions")
	uris := member(asked, "resourceSubscriptions")
	dropNulls(&uris)
	if len(asked) == 0 || asked[0] != '{' || uris != nil && uris[0] != '[' {
		return nil, malformed
	}
	accepted = []byte(`{`)
	for _, k := range []kind{tools, prompts, resources} {
		name := kindNames[k] + "ListChanged"
		wanted := member(asked, name)
		dropNulls(&wanted)
		if wanted != nil && jsonTypeOf(wanted) != "boolean" {
			return nil, malformed
		}
		if string(wanted) == "true" && offered[k] {
			st.watched[topic{list: k.changeNotification()}] = 0
			accepted = rawMember(accepted, name, wanted)
		}
	}
	for _, val := range members(uris) {
		uri, isText := unquote(val)
		switch {
		case !isText:
			return nil, malformed
		case !offered[resources]:
		case len(uri) > maxURI || len(st.watched) > maxWatched: // listen counts what the other streams watch, too
			return nil, errTooMany
		default:
			st.watched[topic{uri: uri}] = 0
		}
	}
	if offered[resources] && uris != nil {
		subscribed, _ := compactJSON(uris) // the line is valid JSON
		accepted = rawMember(accepted, "resourceSubscriptions", subscribed)
	}
	return closeWith(accepted, `}`), nil
}

var errTooMany = coded(codeInternal, "Subscription limit reached: there are too many, or an id or a URI is too long")

// maxWatched bounds what all streams of a session watch, and maxURI the bytes of each URI.
const maxWatched, maxURI = 10_000, 8 << 10

// watchedLocked returns how much the streams of the session watch.
func (c *session) watchedLocked() (n int) {
	for _, st := range c.streams {
		n += len(st.watched)
	}
	return n
}

// ---- begin ----

// beginRequest begins r. From here on it can be cancelled. There are three ways to go on:
//
//	MaxConcurrent handlers run    r waits, until respond starts it
//	other handlers run            r is started on a new goroutine
//	no other handler runs         r is returned, and the caller must handle it
//
// If ctx has ended, r is refused instead. All of this happens under one lock. Otherwise the last request that runs
// could end in between, or ctx could end and cancelHandlers could answer the requests that wait. A request that was
// queued after that would never be started.
func (c *session) beginRequest(r *request) (inline *request) {
	ctx, cancel := context.WithCancelCause(c.ctx)
	r.ctx, r.cancel = context.WithValue(ctx, requestKey{}, r), cancel
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx.Err() != nil {
		c.sendResponseLocked(r.errorResponse(c.endError()), nil)
		return nil
	}
	c.requests[r.key] = r
	if limit := c.srv.MaxConcurrent; limit > 0 && len(c.running) >= limit {
		r.place = c.waiting.PushBack(r)
		return nil
	}
	c.running[r] = struct{}{}
	c.wg.Add(1) // the caller has the turn, so waitForEnd does not wait yet
	if isAlone := len(c.running) == 1; isAlone {
		return r
	}
	c.startRequest(r)
	return nil
}

// ---- handle ----

// startRequest starts a goroutine that handles r and writes the response.
func (c *session) startRequest(r *request) {
	go func() {
		defer c.out.flush() // also if the handler calls runtime.Goexit
		c.handleRequest(r)
	}()
}

// handleRequest runs the handler of r and answers r. If the handler panics or calls runtime.Goexit,
// only this request fails. The caller writes the response when handleRequest has ended, however it ends:
// by then the WaitGroup does not count the request any more, so a client that does not read does not look like a
// handler that does not return. lineWriter.finish waits for the write.
func (c *session) handleRequest(r *request) {
	var line []byte
	returned := false
	defer func() { // also after a panic or Goexit
		if !returned {
			what := "called runtime.Goexit"
			if why := recover(); why != nil {
				what = fmt.Sprint("panicked: ", why)
			}
			c.logf("%v %s\n%s", r, what, debug.Stack())
			// The reason is for the programmer, and is in the log.
			text := "Internal error"
			if r.isToolCall() {
				text += " in tool " + r.name
			}
			line = r.failure(text)
		}
		c.waitAfterProgress(r)
		c.respond(r, line)
		c.wg.Done()
	}()
	line = c.runHandler(r)
	returned = true
}

// runHandler looks up the item that r names, calls the handler of r and returns the response, or nil if there is
// none. If the client has sent invalid answers to questions, it returns an error response and does not call the
// handler.
func (c *session) runHandler(r *request) []byte {
	if r.service.nameMember != "" { // before Intercept: a tool that is hidden from the client does not exist
		it, vars := c.srv.findItem(r.service.kind, r.name)
		if it != nil && c.srv.isEnabled(r.ctx, it) {
			r.item, r.vars = it, vars
		}
	}
	c.mu.Lock()
	isCancelled := c.requests[r.key] != r
	c.mu.Unlock()
	if isCancelled {
		return nil
	}
	if r.item != nil && r.rev.modern() && (r.state != nil || r.inputResponses != nil) {
		if err := r.takeAnswers(); err != nil {
			return r.errorResponse(err)
		}
	}
	run := r.run
	if r.item != nil && r.item.tool.TaskAfter > 0 && r.declaresTasks() {
		run = runUntilTask
	}
	line, err := run(r.ctx, r)
	return r.outcome(line, err)
}

// intercepted returns a responder that calls run from inside of [Server.Intercept]. What Intercept
// returns decides on the response:
//
//	nil, or the error of next    what run has made: for a Result with IsError, a line and an error
//	any other error              that error
//	nil, without a next          -32603
//
// Intercept may call next on any goroutine, several times, and after it has returned. The right to call run lies in a
// channel, from which the first of these takes it:
//
//	a next                calls run, and then closes the channel
//	Intercept's return    run is not called
//
// Any other next is misused: it finds the channel empty or closed. If a next has the right, Intercept's return waits until the
// channel is closed.
func (s *Server) intercepted(run responder) responder {
	return func(ctx context.Context, r *request) (line []byte, err error) {
		right := make(chan struct{}, 1)
		right <- struct{}{}
		// The next that calls run sets these. Until run has returned, madeErr is what a nil of Intercept means.
		var made []byte
		var madeErr error = coded(codeInternal, "Server.Intercept returned nil, but no handler has returned")
		next := func(ctx context.Context) error {
			mayRun := false
			if requestOf(ctx) == r { // a foreign context takes nothing
				select {
				case _, mayRun = <-right: // false if it is closed
				default:
				}
			}
			if !mayRun {
				const why = "next may be called once, before Intercept returns, and with a context derived from its own"
				r.session.logf("%v: %s", r, why)
				return errors.New("mcp: " + why)
			}
			defer close(right) // also after a panic or Goexit
			made, madeErr = r.runWithin(ctx, run)
			return madeErr
		}
		defer func() { // also after a panic, when what is returned is not used
			<-right
			// If Intercept returns the error of a Result with IsError, the Result is sent. This library made that error, so ==
			// cannot panic. A handler's error has no line and is not compared: == panics for some types.
			if err == nil || made != nil && err == madeErr {
				line, err = made, madeErr
			}
		}()
		return nil, s.Intercept(ctx, next)
	}
}

// runWithin calls run with a context that ends with ctx and with r: the context of Intercept may outlive the request,
// as one of context.WithoutCancel does, and the handler's must not.
func (r *request) runWithin(ctx context.Context, run responder) (line []byte, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := context.AfterFunc(r.ctx, func() { cancel(context.Cause(r.ctx)) })
	defer stop()
	line, err = run(ctx, r)
	if err != nil && err == ctx.Err() {
		err = context.Cause(ctx) // which says more
	}
	return bytes.Clone(line), err // Intercept may continue for long, and the buffer may be large
}

// progressGap is the time between the last progress of a request and its response. A client of the TypeScript SDK
// loses progress that it reads together with the response,
// and some hosts then drop the server. After 1 ms it still lost some, after 2 ms none.
const progressGap = 2 * time.Millisecond

// waitAfterProgress blocks until the last progress of r has been written and progressGap has passed,
// unless r has reported none, or until r or the session ends. From now on r reports no more
// progress. Meanwhile input is read, and r keeps its place among those that run.
func (c *session) waitAfterProgress(r *request) {
	c.mu.Lock()
	r.progressEnded = true
	reported := r.sentProgress && r.task == nil // what a task reports is not sent
	c.mu.Unlock()
	if !reported {
		return
	}
	c.turn.pass() // this goroutine may have lent the turn to read
	c.waitForWrite(r, c.out.position())
	select {
	case <-time.After(progressGap):
	case <-r.ctx.Done():
	case <-c.open.Done():
	}
}

// ---- respond ----

// respond answers r, unless the client has cancelled it, and releases what r holds. It
// removes r from the map first, because the client may use the id again as soon as it
// reads the line. From then on notifications and questions of r are no longer sent.
//
// Under the same lock it starts the next request that waits. So if MaxConcurrent is
// 1, handlers start and respond in the order of the requests. After the end of ctx no handler
// starts: cancelHandlers answers the requests that wait.
//
// If r has become a task, the client reads the response with tasks/get.
func (c *session) respond(r *request, line []byte) {
	c.mu.Lock()
	if c.requests[r.key] == r {
		delete(c.requests, r.key)
		c.sendResponseLocked(line, r)
	}
	if r.task != nil {
		c.endTaskLocked(r.task, line)
	}
	delete(c.running, r)
	if c.ctx.Err() == nil && c.waiting.Len() > 0 {
		next := c.waiting.Remove(c.waiting.Front()).(*request)
		c.running[next] = struct{}{}
		c.wg.Add(1) // before r, which it counts too, is done
		c.startRequest(next)
	}
	c.mu.Unlock()
	r.cancel(nil)
}

// sendResponse queues a response without a handler. Only the reader calls it, which writes
// later.
func (c *session) sendResponse(line []byte, r *request) {
	c.mu.Lock()
	c.sendResponseLocked(line, r)
	c.mu.Unlock()
}

// sendResponseLocked queues a response; a nil line means that there is none. The parameter r is nil if the response
// ends a stream, or is an error and not what the method has returned. If it is a list that lacks a change, a
// notification of the change follows: the client may have been notified before, and would not ask again. The caller
// must hold c.mu.
func (c *session) sendResponseLocked(line []byte, r *request) {
	if line == nil {
		return
	}
	c.lastResponse = c.out.enqueue(line)
	if r != nil && r.service.isList {
		k := r.service.kind
		if _, changes := c.srv.listInOrder(k); changes != r.changes {
			c.sendChangeLocked(topic{list: k.changeNotification()})
		}
	}
}

// sendNotification sends a notification that belongs to r. It sends nothing if r has
// been answered, or if ok, which is called under c.mu, returns false. It blocks until
// the line is written or r ends, which slows a handler down to what the client reads.
func (c *session) sendNotification(r *request, line []byte, ok func() bool) {
	c.mu.Lock()
	if c.requests[r.key] != r || r.ctx.Err() != nil || !ok() {
		c.mu.Unlock()
		return
	}
	end := c.out.enqueue(line)
	c.mu.Unlock()
	c.waitForWrite(r, end)
}

// waitForWrite blocks until everything before the position end has been written, or r ends.
func (c *session) waitForWrite(r *request, end int64) {
	c.out.start()
	for unsent := c.out.unwritten(end); unsent != nil; unsent = c.out.unwritten(end) {
		select {
		case <-unsent:
		case <-r.ctx.Done():
			return
		}
	}
}

// String returns the method, the name and the id of r, for diagnostics and for
// ErrWaitDelay.
func (r *request) String() string {
	return strings.TrimSpace(excerpt(string(r.method))+" "+oneLine(r.name)) + " (id " + oneLine(string(r.id)) + ")"
}

// ---- responses ----
//
// The functions below return the response to a request, which is one line. Most results begin
// with request.beginResponse and end with request.endResponse, where the two eras differ.
// Each member and element between them is appended with a comma after it. If a result
// cannot be written as JSON, the response says so in place of the whole line.

// beginResponse begins a response with a result. The members of the result follow, each
// with a comma after it, and then endResponse.
func (r *request) beginResponse() []byte {
	b := join(r.session.out.takeBuffer(), `{"jsonrpc":"2.0","id":`, string(r.id), `,"result":{`)
	if r.rev.modern() {
		b = join(b, `"resultType":"complete",`)
	}
	return b
}

// endResponse completes a response that beginResponse began. The parameter meta is the _meta of the
// result, an object or nil. A serverInfo in it is dropped, because this library writes that member.
func (r *request) endResponse(b, meta []byte) []byte {
	if meta != nil || r.rev.modern() {
		b = copyMembersExcept(join(b, `"_meta":{`), meta, keyServer)
		if r.rev.modern() {
			b = join(b, `"`+keyServer+`":`, r.session.identity)
		}
		b = closeWith(b, `}`)
	}
	return closeWith(b, `}}`)
}

// emptyResponse returns a result without members of its own. Clients of the older revisions
// refuse any member in it.
func (r *request) emptyResponse() (line []byte, run responder) {
	return r.endResponse(r.beginResponse(), nil), nil
}

// errorResponse returns an error response to r. If r has no id, it is sent as null. If the Data of e cannot
// be encoded, it is left out.
func (r *request) errorResponse(e *Error) []byte {
	b := join(nil, `{"jsonrpc":"2.0","id":`, cmp.Or(string(r.id), "null"),
		`,"error":{"code":`, strconv.Itoa(cmp.Or(e.Code, codeInternal)), `,`)
	r.reportUnlessText(e.Message)
	b = stringMember(b, "message", cmp.Or(e.Message, noReason))
	if e.Data != nil {
		data, err := marshal(addressable(e.Data))
		if err != nil {
			r.session.logf("%v: the Data of the error cannot be sent: %v", r, err)
		}
		b = rawMember(b, "data", data)
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
)

// coded returns an error of the protocol.
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
func (r *request) toolResponse(out any, s *schema) ([]byte, error) {
	if value, isAny := out.(*any); isAny { // its type can differ from call to call, so it is not described
		out, s = addressable(*value), nil
	}
	// A tool with an output schema sends a string and bytes like any other value: the string that an Out of any holds as
	// it is, and bytes as base64.
	hasOutput := r.item.output != nil
	switch out := out.(type) {
	case *string:
		if !hasOutput {
			return r.textResponse(*out, nil, false), nil
		}
	case *[]byte:
		if !hasOutput && !utf8.Valid(*out) {
			return nil, errors.New("the bytes are not a text in UTF-8: return mcp.Image, mcp.Audio or mcp.EmbeddedResource")
		} else if !hasOutput {
			return r.textResponse(string(*out), nil, false), nil
		}
	case *struct{}:
		return r.resultResponse(&Result{})
	case *Content:
		return r.resultResponse(&Result{Content: []Content{*out}})
	case **Content:
		if *out != nil {
			return r.resultResponse(&Result{Content: []Content{**out}})
		}
	case *[]Content:
		return r.resultResponse(&Result{Content: *out})
	case *Result:
		return r.resultResponse(out)
	case **Result:
		return r.resultResponse(cmp.Or(*out, &Result{}))
	}
	raw, err := marshalOutput(out, s, r.item.output)
	switch {
	case err != nil:
		return nil, err
	case string(raw) == "null": // no output, which an output schema does not allow
		return r.resultResponse(&Result{})
	case raw[0] != '{' && r.item.needsObject:
		return nil, errNoOutput
	}
	return r.textResponse(string(raw), raw, false), nil
}

// textResponse returns the response to a call of a tool, with a text and, unless it is nil,
// structured output. Most calls end here, so it builds no Result.
func (r *request) textResponse(text string, structured []byte, isError bool) []byte {
	r.reportUnlessText(text)
	b := appendString(join(r.beginResponse(), `"content":[{"type":"text","text":`), text)
	return r.endResponse(appendStructured(join(b, `}],`), structured, isError, r.rev), nil)
}

// resultResponse returns the response to a call of a tool whose handler returned a Result. Many
// clients show only the content, so structured output without content is sent as a text too.
func (r *request) resultResponse(res *Result) ([]byte, error) {
	var structured []byte
	output := r.item.output
	if res.IsError {
		output = nil // which an error need not follow
	}
	meta, err := jsonOf(res.Meta)
	if err == nil && res.StructuredContent != nil {
		structured, err = marshalOutput(addressable(res.StructuredContent), nil, output)
	}
	if err != nil {
		return nil, err
	}
	dropNulls(&structured)
	// The official clients refuse such a result.
	if output != nil && (structured == nil || structured[0] != '{' && r.item.needsObject) {
		return nil, errNoOutput
	}
	content := res.Content
	switch {
	case len(content) == 0 && structured != nil:
		content = []Content{Text(string(structured))}
	case len(content) == 0 && res.IsError:
		content = []Content{Text(noReason)}
	}
	b := join(r.beginResponse(), `"content":[`)
	var text []byte // of the error that Server.Intercept sees
	for _, c := range content {
		if b, err = r.addContent(b, c); err != nil {
			return nil, err
		}
		if res.IsError {
			text = join(text, c.Text, "\n")
		}
	}
	line := r.endResponse(appendStructured(closeWith(b, `],`), structured, res.IsError, r.rev), meta)
	if res.IsError {
		return line, errors.New(strings.TrimSpace(string(text)))
	}
	return line, nil
}

var errNoOutput = errors.New("there is no structured output, or it is not an object, as the output schema promises")

// methodResponse returns the response to a request for a method of AddMethod. The handler's
// resultType is dropped, because that member belongs to the protocol.
func (r *request) methodResponse(result any) ([]byte, error) {
	raw, err := marshal(addressable(result))
	switch {
	case err != nil:
		return nil, err
	case string(raw) == "null":
		raw = []byte("{}")
	case raw[0] != '{':
		return nil, errors.New("the result of a method must be a JSON object")
	}
	return r.endResponse(copyMembersExcept(r.beginResponse(), raw, "_meta", "resultType"), member(raw, "_meta")), nil
}

// outcome returns the response to r after its handler has returned line or err. If the handler has asked, the first row that
// fits counts:
//
//	it has returned ErrInputRequired, and no *Error with it  the questions; also if r has ended, for the client may read on
//	r has ended                                              what it has returned
//	any other                                                the questions are lost: its error, with a hint for the author
func (r *request) outcome(line []byte, err error) []byte {
	r.session.mu.Lock()
	asked := r.rounds
	r.session.mu.Unlock()
	hasAsked := len(asked.questions) > 0
	switch {
	case hasAsked && errors.Is(err, ErrInputRequired) && !errors.As(err, new(*Error)):
		return r.inputRequired(asked)
	case hasAsked && r.ctx.Err() == nil:
		hint := "the question was not sent: the handler must return the error of " + askFunctions[asked.questions[0].method] +
			", or wrap it with %w, and return no *Error beside it"
		r.session.logf("%v: %s", r, hint)
		return r.failureOf(errors.Join(err, errors.New(hint)))
	case line != nil:
		return line
	}
	return r.failureOf(err)
}

// failureOf returns the response to r if its handler has returned err, which is not nil. The first row that fits counts:
//
//	err is ctx.Err()                            a failure with the text of the cause, which says more
//	a resource was read, and is fs.ErrNotExist  an error response that says so
//	it is an *Error, or joined with one         the *Error, as an error response
//	any other error                             a failure with the text of the error
func (r *request) failureOf(err error) []byte {
	var fault *Error
	switch {
	case err == r.ctx.Err():
		// Only the text, because an *Error that ended ctx is not meant for the host.
		return r.failure(context.Cause(r.ctx).Error())
	case r.service.kind == resources && errors.Is(err, fs.ErrNotExist):
		return r.errorResponse(r.unknownItem())
	// Older revisions have no code for a capability that the client lacks, so that is a failure like any other.
	case errors.As(err, &fault) && (fault.Code != codeCapability || r.rev.modern()):
		return r.errorResponse(fault)
	}
	return r.failure(err.Error())
}

// noReason is sent in place of an error without a text, which would tell a model nothing.
const noReason = "failed, with an error that has no text"

// failure returns the response to r if it failed for the reason in text. For a tool it is a
// result that the model reads.
func (r *request) failure(text string) []byte {
	if strings.TrimSpace(text) == "" {
		text = noReason
	}
	if r.isToolCall() {
		return r.textResponse(text, nil, true)
	}
	return r.errorResponse(coded(codeInternal, text))
}

// isToolCall reports whether r calls a tool, which exists.
func (r *request) isToolCall() bool { return r.item != nil && r.service.kind == tools }

// addContent appends a block of a result or a prompt, and a comma.
func (r *request) addContent(b []byte, c Content) ([]byte, error) {
	r.reportUnlessText(c.Text)
	if c.Resource != nil {
		r.reportUnlessText(c.Resource.Text)
	}
	return r.rev.appendContent(b, c)
}

// reportUnlessText reports it if a text is not UTF-8.
func (r *request) reportUnlessText(text string) {
	if !utf8.ValidString(text) {
		r.session.logf("%v: sent with U+FFFD in place of what is not UTF-8", r)
	}
}

// sendable returns what a responder returns for a handler's result. If there is no line, the result cannot be sent, because
// of err: this is reported, and is the error of the request.
func (r *request) sendable(line []byte, err error) ([]byte, error) {
	if line != nil {
		return line, err
	}
	r.session.logf("%v: the result cannot be sent: %v", r, err)
	return nil, errors.New("The result cannot be sent: " + err.Error())
}

// appendStructured appends the members after the content of a result. Structured output that is nil
// is left out. If the revision requires an object, any other value is wrapped as {"result": ...}. It is
// not left out, because Gemini CLI refuses a result whose text is JSON other than an object if there is no
// structured output.
func appendStructured(b, structured []byte, isError bool, rev revision) []byte {
	switch {
	case structured == nil:
	case structured[0] == '{' || rev.knows(featureAnyOutput):
		b = rawMember(b, "structuredContent", structured)
	default:
		b = append(append(join(b, `"structuredContent":{"result":`), structured...), "},"...)
	}
	if isError {
		b = join(b, `"isError":true,`)
	}
	return b
}

// promptResponse returns the response to prompts/get.
func (r *request) promptResponse(messages []PromptMessage, description string) (line []byte, err error) {
	b := join(optionalMember(r.beginResponse(), "description", description), `"messages":[`)
	for _, m := range messages {
		role := cmp.Or(m.Role, RoleUser)
		if err := checkRole(role); err != nil {
			return nil, err
		}
		b = join(stringMember(append(b, '{'), "role", string(role)), `"content":`)
		if b, err = r.addContent(b, m.Content); err != nil {
			return nil, err
		}
		b = closeWith(b, `},`)
	}
	return r.endResponse(closeWith(b, `],`), nil), nil
}

// readResponse returns the response to resources/read. Clients match the URIs with
// the list, so an empty URI becomes the one that was read, and an empty type that of
// the Resource.
func (r *request) readResponse(contents []ResourceContents, mimeType string) (line []byte, err error) {
	b := join(r.beginResponse(), `"contents":[`)
	for _, c := range contents {
		c.URI = cmp.Or(c.URI, r.name)
		// The client knows the URI that it has sent.
		if err := checkURI(c.URI); err != nil && c.URI != r.name {
			return nil, fmt.Errorf("contents %q: %w", excerpt(c.URI), err)
		}
		c.MIMEType = cmp.Or(c.MIMEType, mimeType)
		r.reportUnlessText(c.Text)
		if b, err = c.appendContents(b); err != nil {
			return nil, err
		}
	}
	return r.endResponse(r.appendCaching(closeWith(b, `],`), false), nil), nil
}

// completeResponse returns the response to completion/complete. The protocol allows 100
// values, and a total to show that there are more.
func (r *request) completeResponse(values []string) []byte {
	b := join(r.beginResponse(), `"completion":{"values":[`)
	for _, v := range values[:min(len(values), 100)] {
		r.reportUnlessText(v)
		b = append(appendString(b, v), ',')
	}
	b = closeWith(b, `],"total":`, strconv.Itoa(len(values)), `,"hasMore":`, strconv.FormatBool(len(values) > 100), `},`)
	return r.endResponse(b, nil)
}

// appendCaching appends the members of the modern era that say how long a response may be
// cached, and for whom. A response that the client must not cache has them too, with a time
// of 0.
func (r *request) appendCaching(b []byte, mayCache bool) []byte {
	if !r.rev.modern() {
		return b
	}
	ttl, scope := int64(0), "private"
	if mayCache {
		ttl = max(0, r.session.srv.CacheTTL.Milliseconds())
		if r.session.srv.CachePublic {
			scope = "public"
		}
	}
	return join(b, `"ttlMs":`, strconv.FormatInt(ttl, 10), `,"cacheScope":"`, scope, `",`)
}

// declared holds the member of the capabilities that declares a kind.
var declared = [...]string{
	tools:       `"tools":{"listChanged":true},`,
	prompts:     `"prompts":{"listChanged":true},`,
	resources:   `"resources":{"subscribe":true,"listChanged":true},`,
	completions: `"completions":{},`,
	logging:     `"logging":{},`,
}

// appendOffer appends what the results of initialize and server/discover have in common: the capabilities,
// with the kinds that are offered, and the instructions.
func (r *request) appendOffer(b []byte, offered kindSet) []byte {
	b = join(b, `"capabilities":{`)
	for k, text := range declared {
		if offered[k] {
			b = join(b, text)
		}
	}
	extensions := r.session.extensions // in the legacy era too: hosts read it there
	if offered[tasks] && r.rev.modern() {
		extensions = closeWith(join(copyMembersExcept([]byte("{"), extensions, keyTasks), `"`+keyTasks+`":{},`), `}`)
	}
	b = rawMember(b, "extensions", extensions)
	return optionalMember(closeWith(b, `},`), "instructions", r.session.srv.Instructions)
}

// ---- asking the client ----

// ask asks the client and returns a copy of its answer, which the caller may change. It fails at once if the
// client's revision is older than need, if the client lacks the capability, such as "elicitation.url" ("" means
// that none is needed), or if ctx or r has ended. Otherwise it blocks until the question has a reply, or until ctx or r
// ends, when it withdraws the question.
func (r *request) ask(ctx context.Context, need revision, capability, method, params string) (json.RawMessage, error) {
	if r == noRequest {
		return nil, fmt.Errorf("mcp: outside of a handler there is no client to ask: %w", errors.ErrUnsupported)
	}
	if !r.rev.knows(need) || capability != "" && !hasCapability(r.caps, capability) {
		required := "{}"
		for _, name := range slices.Backward(strings.Split(capability, ".")) {
			required = `{"` + name + `":` + required + `}`
		}
		// The text is for the people and models that see it.
		return nil, &Error{Code: codeCapability, Message: "This request needs the " + capability + " capability, which this client does not have",
			Data: json.RawMessage(`{"requiredCapabilities":` + required + `}`)}
	}
	if cause := cmp.Or(context.Cause(r.ctx), context.Cause(ctx)); cause != nil {
		return nil, cause
	}
	if r.rev.modern() && r.item == nil { // the result of such a method cannot hold questions
		return nil, fmt.Errorf("mcp: %s cannot ask the client: %w", r.method, errors.ErrUnsupported)
	}
	c, q := r.session, r.beginQuestion(method, params)
	var a reply
	select { // when the session ends, endConversation sends the reply, unless the client has answered before
	case a = <-q.answer:
	case <-ctx.Done():
		a.err = context.Cause(ctx)
	case <-r.ctx.Done(): // ctx need not be derived from it
		a.err = context.Cause(r.ctx)
	}
	c.mu.Lock()
	c.withdrawLocked(q.key) // unless the client has responded, or nothing was sent
	if t := r.task; t != nil {
		t.questions = slices.DeleteFunc(t.questions, func(o *question) bool { return o == q })
		t.updated = time.Now()
	}
	c.mu.Unlock()
	c.out.start()
	return bytes.Clone(a.result), a.err
}

// beginQuestion returns a question, for whose reply the caller must wait. The first row that fits applies:
//
//	the client has answered it, in this round or before   the reply is the answer
//	the session has ended                                 the reply is the reason
//	r has become a task                                   it is a question of the task: tasks/update brings the reply
//	r was answered or cancelled                           nothing is sent, and the context of r ends in a moment
//	r is modern                                           it is sent with the result of this round: the reply is ErrInputRequired
//	r is legacy                                           it is sent as a request
//
// A request to the client is in the map before it is sent, because the client may respond at once. It ends in one
// of these ways. The goroutine that removes it from the map notifies the client, unless it has responded:
//
//	the client responds            acceptResponse removes it, and sends the response to its channel
//	ctx or r ends                  ask removes it, and notifies the client that no response is needed
//	initialize opens a session     endLegacy does the same, and then cancels r
//	the session ends               endConversation sends the reason to each channel, and ask removes it
func (r *request) beginQuestion(method, params string) *question {
	c, sum := r.session, ""
	if r.rev.modern() {
		sum = r.checksum(method, params)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lastKey++
	q := &question{strconv.FormatInt(c.lastKey, 10), method, params, make(chan reply, 1)}
	now := &r.rounds // its maps are nil in the first round, and in the legacy era: nothing has an answer
	// The number makes the keys of equal questions differ, so that no answer is used for two of them.
	key := sum + "-" + strconv.Itoa(now.used[sum])
	answer, isAnswered := now.Answers[key]
	switch {
	case isAnswered:
		if now.fresh[key] {
			now.Idle = 0
		}
		if method != "roots/list" { // equal questions for roots have the same answer
			now.used[sum]++
		}
		resolveCall(q.answer, reply{result: answer})
	case c.open.Err() != nil:
		resolveCall(q.answer, reply{err: context.Cause(c.open)})
	case r.task != nil:
		r.task.questions, r.task.updated = append(r.task.questions, q), time.Now()
	case c.requests[r.key] != r:
	case r.rev.modern():
		q.key = key
		// Of equal questions without an answer one is sent. The next one is asked when the first has its answer.
		if !slices.ContainsFunc(now.questions, func(o *question) bool { return o.key == key }) {
			now.questions = append(now.questions, q)
		}
		resolveCall(q.answer, reply{err: fmt.Errorf("%w (%s)", ErrInputRequired, method)})
	default:
		c.turn.pass() // this goroutine may have lent the turn to read, and the response must be read
		c.pending[q.key] = q.answer
		line := stringMember(join(nil, `{"jsonrpc":"2.0","id":`, q.key, `,`), "method", method)
		c.out.enqueue(join(line, `"params":`, params, `}`))
		c.out.start()
	}
	return q
}

// withdrawLocked removes a call from the map, if it is there, and notifies the client that no response is
// needed, unless the session has ended. The goroutine that waits for the response is not notified, because
// its context has ended or is about to end. The caller must hold c.mu.
func (c *session) withdrawLocked(id string) {
	_, isPending := c.pending[id]
	delete(c.pending, id)
	if isPending && c.open.Err() == nil {
		c.out.enqueue([]byte(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `,"reason":"no longer needed"}}`))
	}
}

// askFunctions are the functions that ask, by the method of the question.
var askFunctions = map[string]string{"elicitation/create": "Elicit, ElicitURL or Confirm", "roots/list": "Ask", "sampling/createMessage": "Ask"}

// takeAnswers decodes the client's answers of this round (inputResponses), and those
// of earlier rounds, which the client sends back in the requestState. It returns an
// error if they are invalid.
func (r *request) takeAnswers() *Error {
	r.rounds = rounds{Answers: make(map[string]json.RawMessage), fresh: make(map[string]bool), used: make(map[string]int)}
	if r.state != nil && !r.decodeState() {
		return coded(codeParams, "Invalid requestState")
	}
	if r.inputResponses != nil && r.inputResponses[0] != '{' {
		return badParams("inputResponses must be an object")
	}
	for key, answer := range members(r.inputResponses) {
		switch where := "inputResponses." + excerpt(string(key)); {
		case answer[0] != '{':
			return badParams(where + " must be an object")
		case r.rounds.fresh[string(key)]:
			return badParams(where + " came twice")
		}
		r.rounds.Answers[string(key)], r.rounds.fresh[string(key)] = answer, true
	}
	if len(r.rounds.fresh) > 0 {
		r.rounds.Idle++ // beginQuestion sets it to 0 if one of them matches
	}
	return nil
}

// maxIdle is how many rounds in a row may have answers of which none matches a question.
const maxIdle = 3

// inputRequired returns the line that sends the client the questions of this round. If a
// question changes in each round it is never answered, so the call fails after some rounds.
func (r *request) inputRequired(now rounds) []byte {
	if now.Idle >= maxIdle {
		hint := "in " + strconv.Itoa(maxIdle) + " rounds none of the client's answers matched a question: " +
			"the handler must ask the same questions each time it runs, so leave times and random texts out of them"
		r.session.logf("%v: %s", r, hint)
		return r.failure(hint)
	}
	b := join(nil, `{"jsonrpc":"2.0","id":`, string(r.id), `,"result":{"resultType":"input_required",`)
	return r.endResponse(stringMember(appendQuestions(b, now.questions), "requestState", r.encodeState(now)), nil)
}

// encodeState returns a requestState: the rounds so far, and a checksum of them and of the call
// that they belong to.
//
// A requestState needs no secret against the client. It holds only answers that this client has
// sent, and the client could send these, or different ones, in the inputResponses of any round. The
// checksum finds mistakes: a state that was damaged, or that belongs to another call, is refused.
// But a model may write the text of a question. If it could find two questions with the same
// checksum, the answer to one would be used for the other. So checksums depend on a random seed of
// the Server or, if [Server.Checksum] is set, on the key that its author gives it.
func (r *request) encodeState(so rounds) string {
	raw, _ := json.Marshal(so) // the answers are valid JSON already
	encoded := base64.RawURLEncoding.EncodeToString(raw)
	return encoded + "." + r.checksum(encoded)
}

// decodeState sets the rounds from r's requestState, and reports whether encodeState made it for the same call.
func (r *request) decodeState() bool {
	state, _ := unquote(r.state)
	encoded, sum, _ := strings.Cut(state, ".")
	raw, err := base64.RawURLEncoding.DecodeString(encoded)
	return sum == r.checksum(encoded) && err == nil && json.Unmarshal(raw, &r.rounds) == nil
}

// checksum returns the checksum of texts and of the call that r belongs to, as characters that
// need no escape in JSON.
func (r *request) checksum(texts ...string) string {
	arguments := []byte("{}") // also if the client sent none
	if r.arguments != nil {
		arguments, _ = compactJSON(r.arguments)
	}
	var all []byte
	for _, text := range append(texts, string(r.method), r.name, string(arguments)) {
		all = join(all, strconv.Itoa(len(text)), ":", text) // the length separates the texts
	}
	if sum := r.session.srv.Checksum; sum != nil {
		return base64.RawURLEncoding.EncodeToString([]byte(sum(all))) // it may be the bytes of a hash
	}
	return strconv.FormatUint(maphash.Bytes(r.session.srv.seed, all), 36)
}

// ---- tasks ----

// A call of a tool with Tool.TaskAfter may become a task. It is then answered with the id of the task, and the
// client asks for the state of the task again and again. The handler does not notice that; its request stays in
// session.running until the handler returns. The status of a task:
//
//	the call runs ─▶ working ◀─▶ input_required     the handler runs ◀─▶ it waits for answers
//	                    └──────┬──────┘
//	                           ├─▶ completed        it has returned a result, also one with isError
//	                           ├─▶ failed           it has returned an *Error
//	                           └─▶ cancelled        tasks/cancel came; what it returns is discarded
//
// A task belongs to its session. When that ends, the handler is cancelled like any other, and nothing is sent.

// keyTasks is the name of the extension.
const keyTasks = "io.modelcontextprotocol/tasks"

var errNeedsTasks = &Error{Code: codeCapability, Message: "This request needs the extension " + keyTasks + ", which this client does not declare",
	Data: json.RawMessage(`{"requiredCapabilities":{"extensions":{"` + keyTasks + `":{}}}}`)}

// declaresTasks reports whether the client declares the extension with this request. What earlier requests
// declared does not count.
func (r *request) declaresTasks() bool {
	return r.rev.modern() && bytes.HasPrefix(member(member(r.caps, "extensions"), keyTasks), []byte("{"))
}

// A task is what a call has become. It is guarded by session.mu.
type task struct {
	id               string
	status           string      // input_required is not stored
	message          string      // of the last Progress
	created, updated time.Time   // updated when what the client sees has changed
	questions        []*question // those that have no answer
	outcome          []byte      // the member result or error of the response to the call, and a comma
	mayDrop          bool        // it has ended, and the client has read it or does not want it
	call             *request    // nil when the task has ended: it may be kept for long, and needs no arguments
}

// A taskList holds the tasks of a session that run, whose number has no bound, and those that have ended. One that has
// ended is dropped only after the client has read or cancelled it, so no result is lost unread.
type taskList struct {
	byID  map[string]*task
	ended []*task // in the order in which they ended
	size  int     // the bytes of their outcomes
}

// While maxTasks results, or maxTaskBytes of them, are unread, no call becomes a task. Tasks that run end in any case, so there may
// be more.
const maxTasks, maxTaskBytes = 100, 16 << 20

// makeRoom drops tasks that may be dropped, those that ended first, until the outcome of another task may be kept. It reports
// whether there is room for it. There is none if those that are left, which are unread, reach a bound.
func (l *taskList) makeRoom() bool {
	for len(l.ended) >= maxTasks || l.size >= maxTaskBytes {
		i := slices.IndexFunc(l.ended, func(t *task) bool { return t.mayDrop })
		if i < 0 {
			return false
		}
		delete(l.byID, l.ended[i].id)
		l.size -= len(l.ended[i].outcome)
		l.ended = slices.Delete(l.ended, i, i+1)
	}
	return true
}

// runUntilTask runs the handler of r, and makes a task of r if that takes longer than Tool.TaskAfter. It is a responder
// of its own because with a timer in runHandler the stack of every call would have to grow.
func runUntilTask(ctx context.Context, r *request) (line []byte, err error) {
	made := make(chan struct{})
	timer := time.AfterFunc(r.item.tool.TaskAfter, func() { r.session.makeTask(r); close(made) })
	defer func() { // also after a panic
		if isStopped := timer.Stop(); !isStopped {
			<-made // otherwise r could be answered, and Serve return, while r becomes a task
		}
	}()
	return r.run(ctx, r)
}

// makeTask answers r with a task. It does nothing if there is no room for another outcome, or if the session has ended,
// because the client could not ask for the state any more. Otherwise r reports no more progress, and becomes a task unless
// it is cancelled meanwhile, a question waits to be sent in its result, or the session ends. Once r is a task, it is not in
// session.requests: no notification belongs to it, and a cancel of its id has no effect. If the handler returns meanwhile,
// runUntilTask waits for makeTask.
//
// The id has 128 bits of the runtime's ChaCha8, which the system seeds. A task is looked up in its own session, so a
// client that guesses an id finds one of its own tasks.
func (c *session) makeTask(r *request) {
	c.mu.Lock()
	hasRoom := c.tasks.makeRoom()
	c.mu.Unlock()
	if !hasRoom || c.open.Err() != nil {
		return
	}
	c.waitAfterProgress(r) // the task is a response
	c.mu.Lock()
	if c.requests[r.key] == r && len(r.rounds.questions) == 0 && c.open.Err() == nil {
		delete(c.requests, r.key)
		id, now := fmt.Sprintf("%016x%016x", rand.Uint64(), rand.Uint64()), time.Now()
		t := &task{id: id, status: "working", message: r.progressText, created: now, updated: now, call: r}
		r.task, c.tasks.byID[id] = t, t
		b := join(nil, `{"jsonrpc":"2.0","id":`, string(r.id), `,"result":{"resultType":"task",`)
		c.sendResponseLocked(r.endResponse(t.appendState(b), nil), r)
	}
	c.mu.Unlock()
	c.out.start()
}

// appendState appends the members that describe t. The caller must hold session.mu.
func (t *task) appendState(b []byte) []byte {
	b = join(b, `"taskId":"`, t.id, `","createdAt":"`, t.created.UTC().Format(time.RFC3339), `","lastUpdatedAt":"`,
		t.updated.UTC().Format(time.RFC3339), `","ttlMs":null,"pollIntervalMs":1000,`)
	b = optionalMember(b, "statusMessage", t.message)
	if len(t.questions) == 0 {
		b = join(b, `"status":"`, t.status, `",`)
		return append(b, t.outcome...)
	}
	return appendQuestions(join(b, `"status":"input_required",`), t.questions)
}

// maxTaskMessage bounds the bytes of the message of a task, which is sent each time that the client asks for the state.
const maxTaskMessage = 1 << 10

// setTaskMessage sets the message of the task that r may become, or has become.
func (r *request) setTaskMessage(message string) {
	message = string(bytes.ToValidUTF8([]byte(message[:min(len(message), maxTaskMessage)]), nil))
	r.session.mu.Lock()
	r.progressText = message
	if t := r.task; t != nil {
		t.message, t.updated = message, time.Now()
	}
	r.session.mu.Unlock()
}

// endTaskLocked ends a task. The parameter line is the response to the call, or nil if the client has cancelled the
// task. The caller must hold c.mu.
func (c *session) endTaskLocked(t *task, line []byte) {
	result, fault := member(line, "result"), member(line, "error")
	t.outcome = rawMember(rawMember(nil, "result", result), "error", fault)
	switch {
	case line == nil:
		t.status = "cancelled"
	case fault != nil:
		t.status = "failed"
	default:
		t.status = "completed"
	}
	t.call.task = nil // a handler that still runs must not change t
	t.call, t.questions, t.updated = nil, nil, time.Now()
	c.tasks.ended = append(c.tasks.ended, t)
	c.tasks.size += len(t.outcome)
}

// serveTask serves tasks/get, tasks/update and tasks/cancel. Answers with other keys than those of the questions are
// ignored. A task that has ended is not cancelled.
func (r *request) serveTask() (line []byte, run responder) {
	c := r.session
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.tasks.byID[r.name]
	switch {
	case !r.declaresTasks():
		return r.errorResponse(errNeedsTasks), nil
	case t == nil:
		return r.errorResponse(badParams("there is no such task, or its result was read and is not kept any more")), nil
	}
	switch string(r.method) {
	case "tasks/get":
		c.tasks.makeRoom() // before t may be dropped: a client that loses the response can ask once more
		t.mayDrop = t.call == nil
		return r.endResponse(t.appendState(r.beginResponse()), nil), nil
	case "tasks/update":
		r.state = nil // which is a member of other requests
		if err := r.takeAnswers(); err != nil {
			return r.errorResponse(err), nil
		}
		var open []*question
		for _, q := range t.questions {
			if answer, isAnswered := r.rounds.Answers[q.key]; isAnswered {
				t.updated = time.Now()
				resolveCall(q.answer, reply{result: answer})
			} else {
				open = append(open, q)
			}
		}
		t.questions = open
	case "tasks/cancel":
		if call := t.call; call != nil {
			c.logf("%v, a task, was cancelled by the client", call)
			c.endTaskLocked(t, nil)
			call.cancel(&CancelledError{}) // it wakes others, and waits for none
		}
		t.mayDrop = true
	}
	return r.emptyResponse()
}

// ---- changes ----

// sendChange notifies the client that what has changed, if the client watches it.
func (c *session) sendChange(what topic) {
	c.mu.Lock()
	c.sendChangeLocked(what)
	c.mu.Unlock()
	c.out.start()
}

// sendChangeLocked queues a notification on each stream that watches what. If the last such
// notification is still queued, nothing is queued: a thousand changes in a row cost about
// one notification. But if a response was queued after it, another notification is queued,
// because the client could assume that the response already includes the change. The
// caller must hold c.mu.
func (c *session) sendChangeLocked(what topic) {
	for _, st := range c.streams {
		sent, isWatched := st.watched[what]
		isAnnounced := sent > c.lastResponse && c.out.isQueued(sent)
		if !isWatched || isAnnounced || st.muted {
			continue
		}
		b := join(nil, `{"jsonrpc":"2.0","method":"notifications/`, cmp.Or(what.list, "resources/updated"), `",`)
		params := rawMember(nil, "_meta", st.meta)       // nothing in the legacy session
		params = optionalMember(params, "uri", what.uri) // nothing for a list
		if len(params) > 0 {
			b = join(b, `"params":{`, string(closeWith(params, `},`)))
		}
		st.watched[what] = c.out.enqueue(closeWith(b, `}`))
	}
}

// ---- diagnostics ----

// logf reports to Server.ErrorLog, without blocking.
func (c *session) logf(format string, args ...any) {
	c.srv.report("mcp: %s", fmt.Sprintf(format, args...))
}

// excerpt returns as much of a client's text as may be repeated in a message. If it cuts the
// text, it removes bytes that are not UTF-8, such as half a character at the end.
func excerpt[T string | []byte](s T) string {
	if len(s) <= 100 {
		return string(s)
	}
	return fmt.Sprintf("%s...", bytes.ToValidUTF8([]byte(s[:100]), nil))
}

// oneLine returns an excerpt that cannot be mistaken for another line of a log.
func oneLine(s string) string {
	s = excerpt(s)
	if strings.IndexFunc(s, func(r rune) bool { return !strconv.IsPrint(r) }) >= 0 {
		s = strconv.Quote(s)
	}
	return s
}

// printReports prints the reports of the Server until the session is over, and then closes printed.
func (c *session) printReports(printed chan<- struct{}) {
	defer close(printed)
	logger := cmp.Or(c.srv.ErrorLog, log.Default())
	for range c.hasReports {
		for _, text := range c.srv.takeReports() {
			logger.Print(text)
		}
	}
}

// ---- the lines that were read ----

// minRead is the least number of bytes that a Read has room for. Buffers for input and output of up to keepBuffer
// bytes are kept, to be used again. Lines of 1 MiB may grow the one for input to more than 2 MiB, and it must not be
// made anew for each of them.
const minRead, keepBuffer = 4 << 10, 4 << 20

// A lineReader splits its input into lines. It returns each line once, in order. When r has ended and nextLine
// returns nil, all lines have been returned. The goroutine that has the turn to read calls its methods. Meanwhile
// one other goroutine may be reading ahead, into memory of its own.
//
// One buffer is read into again and again, and each line is copied out of it. So a request
// keeps no more memory than its line, however long it lasts.
type lineReader struct {
	r     io.Reader
	limit int // maximum bytes of a line

	buf      bytes.Buffer    // read and not yet returned
	searched int             // the first bytes of buf, which hold no newline
	err      error           // of the last Read
	ahead    chan readResult // receives the result of the Read ahead; nil if there is none
}

// A readResult is the result of one Read.
type readResult struct {
	data []byte
	err  error
}

// nextLine returns the next line without its newline, or nil if there is no whole line. If r has ended, what follows the
// last newline is a line too. A line that is longer than limit is returned without some of its bytes, but is still longer.
func (l *lineReader) nextLine() []byte {
	n := bytes.IndexByte(l.buf.Bytes()[l.searched:], '\n')
	switch {
	case n >= 0:
		return bytes.Clone(bytes.TrimSuffix(l.next(l.searched+n+1), []byte("\n")))
	case l.err != nil && l.buf.Len() > 0: // the last line
		return bytes.Clone(l.next(l.buf.Len()))
	case l.buf.Len() > l.limit: // it will be refused, so its memory must not grow
		l.buf.Truncate(l.limit + 1)
	}
	l.searched = l.buf.Len()
	return nil
}

// next removes n bytes from buf. They are valid until the next Read.
func (l *lineReader) next(n int) []byte {
	l.searched = 0
	return l.buf.Next(n)
}

// readMore reads once, or waits for the Read ahead. It blocks as long as Read does. It is called
// when all lines have been returned.
func (l *lineReader) readMore() {
	// The memory of long lines, and of what was read ahead, is freed. A buffer that is less empty may hold the
	// beginning of a long line, and would have to grow again.
	if l.buf.Cap() > keepBuffer && l.buf.Len() < l.buf.Cap()/8 {
		l.buf = *bytes.NewBuffer(bytes.Clone(l.buf.Bytes()))
	}
	if l.ahead != nil {
		l.add(<-l.ahead)
		return
	}
	l.buf.Grow(minRead)
	room := l.buf.AvailableBuffer()
	n, err := l.r.Read(room[:cap(room)])
	l.add(readResult{room[:n], err})
}

// readAhead starts a goroutine that reads once, unless one is reading, r has ended, or
// outputBound bytes were read ahead. The caller passes what it receives from l.ahead to add.
func (l *lineReader) readAhead() {
	if l.ahead == nil && l.err == nil && l.buf.Len() < outputBound {
		ahead := make(chan readResult, 1) // so that the goroutine ends even if no goroutine receives
		l.ahead = ahead
		go func() {
			data := make([]byte, minRead)
			n, err := l.r.Read(data)
			ahead <- readResult{data[:n], err}
		}()
	}
}

// add records the result of a Read. After readMore the data is already in the free memory of buf, and Write copies it
// onto itself.
func (l *lineReader) add(more readResult) {
	l.ahead, l.err = nil, more.err
	l.buf.Write(more.data)
}

// ---- the lines to write ----

// A lineWriter is a queue of lines, which one goroutine at a time writes: whole, in order, and many at once. Senders
// append whole lines and never block. A position counts the bytes that were ever queued, so a sender can later ask
// whether its line was written. After finish no Write begins, but one may still be in progress.
//
// There is no goroutine that only writes, because it would have to be woken for each response. There is one rule for
// who writes what is queued:
//
//	a goroutine that reads or handles requests   only queues responses; it calls flush before it waits for input and
//	                                             before it ends, and start if lines have waited long or are many
//	any other, and a handler that queues         calls start at once, which does not block
//
// A response needs no new memory, because a buffer is used again and again:
//
//	takeBuffer   spare becomes the line, which its caller builds
//	enqueue      the line becomes buf if that is empty; otherwise it is copied, and becomes spare
//	flush        buf is written, and becomes spare
type lineWriter struct {
	w       io.Writer
	onError func(error) // is called with an error of w

	mu      sync.Mutex // guards the fields below; not held during a Write
	buf     []byte     // the queue: whole lines; nil if it is empty
	spare   []byte     // an empty buffer for the next line; nil if there is none
	added   int64      // bytes that were ever queued
	writing int        // bytes of the Write in progress; 0 if there is none
	held    bool       // nothing is written for now
	stopped bool       // nothing is written any more

	changed chan struct{} // is closed after a Write, and when the writer stops; nil if no goroutine waits
}

// takeBuffer returns an empty buffer to build a line in. If the line is not queued soon, the caller must keep a copy
// instead, because the buffer may be large.
func (w *lineWriter) takeBuffer() []byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	b := slices.Grow(w.spare, 256)
	w.spare = nil
	return b
}

// enqueue appends line and a newline, and returns the position after them. It may
// keep line and the memory after it, so the caller must not use either again.
func (w *lineWriter) enqueue(line []byte) (end int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped {
		return w.added
	}
	if w.buf == nil {
		w.buf = line // without a copy
	} else {
		w.buf = append(w.buf, line...)
		if w.spare == nil && cap(line) <= keepBuffer {
			w.spare = line[:0]
		}
	}
	w.buf = append(w.buf, '\n')
	w.added += int64(len(line)) + 1
	return w.added
}

// start is flush on a new goroutine, so it does not block.
func (w *lineWriter) start() {
	if w.needsWriter() {
		go w.flush()
	}
}

// needsWriter reports whether lines are queued that no goroutine writes.
func (w *lineWriter) needsWriter() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.needsWriterLocked()
}

func (w *lineWriter) needsWriterLocked() bool { return w.writing == 0 && !w.held && len(w.buf) > 0 }

// flush writes until the queue is empty or held, unless another goroutine is writing. After an error nothing is
// written any more.
func (w *lineWriter) flush() {
	w.mu.Lock()
	for w.needsWriterLocked() {
		b := w.buf
		w.buf, w.writing = nil, len(b)
		w.mu.Unlock()
		n, err := w.w.Write(b)
		if err == nil && n < len(b) {
			err = io.ErrShortWrite
		}
		if err != nil {
			// Before the waiting goroutines wake and check whether the session has ended.
			w.onError(err)
		}
		w.mu.Lock()
		w.writing = 0
		if err != nil { // then w may still use b
			w.stopped, w.buf = true, nil
		} else if cap(b) > cap(w.spare) && cap(b) <= keepBuffer { // of two buffers, the larger is kept
			w.spare = b[:0]
		}
		w.wakeLocked()
	}
	w.mu.Unlock()
}

// hold stops writing, after the Write in progress, until finish is called.
func (w *lineWriter) hold() {
	w.mu.Lock()
	w.held = true
	w.mu.Unlock()
}

// isStopped reports whether nothing is written any more: finish has returned, or w has failed.
func (w *lineWriter) isStopped() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stopped
}

// wakeLocked wakes all goroutines that wait for a change. The caller must hold w.mu.
func (w *lineWriter) wakeLocked() {
	if w.changed != nil {
		close(w.changed)
		w.changed = nil
	}
}

// changeLocked returns the channel that the next wakeLocked closes. The caller must hold w.mu.
func (w *lineWriter) changeLocked() <-chan struct{} {
	if w.changed == nil {
		w.changed = make(chan struct{})
	}
	return w.changed
}

// unwritten returns nil if everything before the position end has been written, or
// never will be. Otherwise it returns a channel that is closed when the caller should
// call it again.
func (w *lineWriter) unwritten(end int64) <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if end <= w.added-int64(len(w.buf)+w.writing) || w.stopped {
		return nil
	}
	return w.changeLocked()
}

// finish writes what is queued. It blocks until the queue is empty and no goroutine writes,
// or until the deadline. It then discards the queue and stops the writer under the same
// lock, so that no line can be queued in between. It reports whether all of the queue was
// written or lost.
func (w *lineWriter) finish(deadline time.Time) bool {
	for {
		w.mu.Lock()
		w.held = false
		finished, changed := w.writing == 0 && len(w.buf) == 0, w.changeLocked()
		if finished || time.Until(deadline) <= 0 {
			w.stopped, w.buf = true, nil
			w.wakeLocked()
			w.mu.Unlock()
			return finished
		}
		w.mu.Unlock()
		w.start()
		waitFor(changed, time.Until(deadline))
	}
}

// position returns the position after the last line.
func (w *lineWriter) position() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.added
}

// isQueued reports whether the line that ends at the position end is still in the
// queue, and not in a Write.
func (w *lineWriter) isQueued(end int64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return end > w.added-int64(len(w.buf))
}
