// SPDX-License-Identifier: MIT

package mcp

// One client.
//
//	r ──▶ read ──▶ accept ──▶ request ──▶ begin ──▶ handle ──▶ respond ──▶ write ──▶ w
//	        │         │           │                   │           ▲          ▲
//	        │         │           └── serve: what needs no user code, ───────┤
//	        │         │               is answered on the spot     │          │
//	        │         └── notice: initialized, cancelled          │          │
//	        │         └── deliver: the answer to a question ──▶ ask ─────────┘
//	        └── EOF: see cancel.go
//
// Everything up to begin runs on one goroutine at a time, the one that has the
// turn to read, so that line N has taken effect before line N+1 is looked at: a
// cancel cannot overtake its request. A request that comes while no other runs
// it serves itself, which saves waking another thread; the rest get goroutines
// of their own. It also writes the answers that are ready, before it reads on.
//
// While it serves or writes it can be relieved: when that lasts a millisecond,
// or the handler asks the client something, a new goroutine gets the turn, and
// the old one ends with its work. So whatever handlers and the client do, the
// client is heard. Nobody ever waits for the turn, and no lock is held while a
// handler runs or w is written to.

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"log"
	"math"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf16"
	"unicode/utf8"
)

const (
	outputBound = 16 << 20 // unsent bytes above which the reader takes no further line
	aheadBound  = 1 << 20  // bytes that it goes on listening all the same
	noteBound   = 64 << 10 // unsent diagnostics above which they are dropped
	traceBound  = 64 << 20 // the same for the trace
	keepBuffer  = 64 << 10 // larger buffers are let go after use
	maxBatch    = 10_000   // members of one batch
	maxStreams  = 64       // open subscriptions/listen requests
	maxWatched  = 10_000   // resources that one of them, or a legacy session, watches
	maxURI      = 8 << 10  // bytes in the URI of one that is watched
	maxDepth    = 10_000   // of nesting, as in encoding/json

	stint = time.Millisecond // of work, after which whoever has the turn to read is relieved
)

// A session is one client: the two ends of a connection and what is going on
// between them.
type session struct {
	srv    *Server
	r      io.Reader
	ctx    context.Context // parent of every handler's; ends when the session does
	cancel context.CancelCauseFunc
	over   *ending // of the requests that were over before anybody looked
	out    outlet  // to the client
	trace  outlet  // to Server.Trace
	notes  outlet  // to Server.ErrorLog

	identity, caching        string // as the modern era wants them on its answers
	experimental, extensions string // capabilities, as JSON

	in    input       // of whoever has the turn to read
	lone  *request    // begun, and to be served by that one itself
	watch *time.Timer // calls relieve after a stint of work

	wg     sync.WaitGroup // requests that were begun, and writes
	eof    chan struct{}  // closed when the client is heard to have closed its end
	closed chan struct{}  // closed when closing is set

	mu        sync.Mutex            // guards what follows, for a few lines at a time
	turn      int                   // to read: each goroutine that gets it has a number of its own
	busy      bool                  // whoever has it serves or writes, and can be relieved
	closing   bool                  // no request is begun any more
	deaf      error                 // why no question is asked any more
	failure   error                 // what Serve returns
	requests  map[string]*request   // owed an answer, by raw id
	forgotten map[*request]struct{} // cancelled by the client, and still running
	running   int                   // handlers, where Server.MaxConcurrent counts them
	waiting   []*request            // for their turn to run
	asked     map[string]*question  // awaiting the client's answer, by our id
	lastAsked int64
	streams   []*stream // where changes are told, oldest first
	legacy    legacy    // written only with the turn to read, which so is enough to read it
	notesNow  int       // diagnostics of the current second
	noteTime  int64
}

// legacy is what a client of the older revisions has told once and for all.
type legacy struct {
	rev          revision // 0 before initialize
	client, caps []byte
	stream       *stream
	level        int // from which on log messages are sent: an index of levels
}

// A request is one request of the client, from accept to respond.
type request struct {
	session *session
	id      []byte // the raw token, echoed byte for byte
	method  string
	name    string // of the tool, prompt or resource, for people
	rev     revision
	params
	batch  *batch
	stream *stream           // of subscriptions/listen
	item   *item             // what it is about, if that is one thing
	vars   map[string]string // arguments of a prompt, variables of a template
	ends   atomic.Pointer[ending]
	space  [304]byte // for its answer, if that is short

	client, caps []byte // of the client, by the era

	once     sync.Once                  // fills in the next two
	answers  map[string]json.RawMessage // the client's, of this and earlier rounds
	badState *Error

	reported  bool           // guarded by session.mu, like all that follows
	progress  float64        // the last that was reported
	questions []inputRequest // to be answered before the next round
}

// params holds the members of a request's params that we know, as raw JSON.
type params struct {
	raw                                             []byte // all of them
	meta, name, arguments, uri, cursor              []byte
	notifications, setLevel, state, inputResponses  []byte
	protocolVersion, capabilities, clientInfo       []byte
	metaVersion, metaCaps, metaClient, level, token []byte
	requestID, reason                               []byte
}

// An inputRequest is a question of the modern era, which travels in a result.
type inputRequest struct{ key, method, params string }

// A batch collects the answers to one line of several messages.
type batch struct {
	owed    int // answers still to come, and one while the line is being read
	answers []byte
}

// A question is a request to the client that awaits its answer. The channel
// has room for one reply: whoever delivers never waits.
type question struct{ answer chan reply }

type reply struct {
	result json.RawMessage
	err    error
}

func (q *question) tell(a reply) {
	select {
	case q.answer <- a:
	default: // told already
	}
}

// Serve speaks MCP with one client, reading messages from r, one to a line,
// and writing to w, until the client closes its end, ctx ends, or w fails. It
// then cancels the handlers and waits up to [Server.Drain] for them.
//
// It returns nil when the session came to an ordinary end, the end of ctx
// being one; an error that is [ErrDrain] when something outlived the drain; and
// otherwise the error of r or w.
//
// Many sessions of one Server may run at once. Serve closes neither r nor w.
// When it returns because ctx has ended, a Read of r may still be under way:
// close r to end it.
func (s *Server) Serve(ctx context.Context, r io.Reader, w io.Writer) error {
	return s.serve(ctx, r, w, s.Trace)
}

func (s *Server) serve(ctx context.Context, r io.Reader, w io.Writer, trace io.Writer) error {
	if s.Name == "" || s.Version == "" {
		return errors.New("mcp: Server.Name and Server.Version must be set")
	}
	c := &session{
		srv: s, r: r,
		eof:       make(chan struct{}),
		closed:    make(chan struct{}),
		requests:  make(map[string]*request),
		forgotten: make(map[*request]struct{}),
		asked:     make(map[string]*question),
	}
	c.out.w, c.trace.w, c.notes.w = w, trace, logWriter{s.ErrorLog}
	c.identity, c.caching = s.identity(0), s.caching()
	var err1, err2 error // here and not later: it may run code of the user's
	c.experimental, err1 = jsonOf(s.Experimental)
	c.extensions, err2 = jsonOf(s.Extensions)
	if err := cmp.Or(err1, err2); err != nil {
		return fmt.Errorf("mcp: Server.Experimental or Extensions: %w", err)
	}
	c.ctx, c.cancel = context.WithCancelCause(ctx)
	defer c.cancel(nil)
	c.over = newEnding(c.ctx)
	c.over.cancel(nil)
	s.addSession(c)
	defer s.removeSession(c)
	c.watch = time.AfterFunc(stint, c.relieve)
	defer c.watch.Stop()
	c.work() // the first reader starts as every other does: as if it relieved somebody
	c.relieve()
	return c.wait()
}

// ---- read ----

// An input is the bytes that were read and not yet taken.
type input struct {
	long  [][]byte // the beginning of a line that is longer than the buffer
	held  int      // bytes in long
	buf   []byte   // buf[:start] is taken
	start int
	seen  int        // buf[start:seen] holds no newline
	any   bool       // a line has begun: there can be no byte order mark any more
	skip  bool       // inside of a line that is too long
	err   error      // of the last Read
	ear   chan heard // of a Read that is under way; nil if there is none
}

type heard struct {
	b   []byte
	err error
}

// read is what the goroutine does that has the turn to read, until it is
// relieved, r has nothing more to give and all of it was taken, or the session
// is over.
func (c *session) read(turn int) {
	in, began := &c.in, time.Now()
	for c.room(in) {
		line, whole := in.line(c.srv.maxMessage())
		switch {
		case whole:
			c.accept(line, len(line) > keepBuffer)
			if r := c.lone; r != nil {
				c.lone = nil
				c.work()
				c.handle(r)
				if !c.resume(turn) {
					return
				}
				if in.start < len(in.buf) && time.Since(began) > stint { // answers have waited long enough
					c.handOff()
					began = time.Now()
				}
			}
		case line != nil:
			c.tooLong(line)
		default:
			if !c.flush(turn) {
				return
			}
			if in.err != nil {
				c.hear(in)
				c.closeDoor()
				return
			}
			in.fill(c.r)
			began = time.Now()
		}
	}
	c.closeDoor()
	// The session ends, but a client that is still writing must come to reading.
	for in.err == nil && !c.out.over() {
		in.start = len(in.buf)
		in.fill(c.r)
	}
}

// relieve gives the turn to read to a new goroutine, if the one that has it is
// at work. It may come late, and relieve somebody who has just begun.
func (c *session) relieve() {
	c.mu.Lock()
	if c.busy {
		c.busy = false
		c.turn++
		go c.read(c.turn)
	}
	c.mu.Unlock()
}

// work begins what may last, on the goroutine that has the turn to read.
func (c *session) work() {
	c.mu.Lock()
	c.busy = true
	c.watch.Reset(stint)
	c.mu.Unlock()
}

// resume ends that, and reports whether the goroutine still has the turn.
func (c *session) resume(turn int) bool {
	c.mu.Lock()
	still := c.turn == turn // else the watch is on another now
	if still {
		c.watch.Stop()
		c.busy = false
	}
	c.mu.Unlock()
	return still
}

// flush writes what there is to write, and reports what resume does. While busy
// is set, others leave their answers to this goroutine: one may have come after
// the last write, so it looks again when that is over. When the session is
// closing, the drain waiter writes.
func (c *session) flush(turn int) bool {
	for {
		c.mu.Lock()
		if c.closing || !c.out.turn() {
			c.mu.Unlock()
			return true
		}
		c.wg.Add(1)
		c.mu.Unlock()
		c.work()
		c.writeOn()
		c.wg.Done()
		if !c.resume(turn) {
			return false
		}
	}
}

// room waits while too much output is unsent, and reports whether the session
// is still on. That bounds the memory that a client can use up which writes
// and does not read. It keeps an ear on the input meanwhile, so that the end
// of it is heard in any case: then the read is left to a goroutine of its own,
// which ends with it.
func (c *session) room(in *input) bool {
	for {
		select {
		case <-c.closed:
			return false
		default:
		}
		full := c.out.more(outputBound)
		if full == nil {
			return !c.out.over()
		}
		c.handOff()
		if in.err != nil {
			c.hear(in)
		}
		var ear chan heard
		if len(in.buf)-in.start < aheadBound && in.err == nil {
			if in.ear == nil {
				in.ear = make(chan heard, 1)
				go func(ear chan heard) {
					b := make([]byte, keepBuffer)
					n, err := c.r.Read(b)
					ear <- heard{b[:n], err}
				}(in.ear)
			}
			ear = in.ear
		}
		select {
		case <-full:
		case <-c.closed:
			return false
		case h := <-ear:
			in.take(h)
		}
	}
}

// hear is called when r has come to its end. A second call does nothing.
func (c *session) hear(in *input) {
	select {
	case <-c.eof:
		return
	default:
	}
	if in.err != io.EOF && !closedPipe(in.err) {
		c.fail(in.err)
	}
	close(c.eof)
}

// fill reads once.
func (in *input) fill(r io.Reader) {
	if in.ear != nil {
		in.take(<-in.ear)
		return
	}
	n := copy(in.buf, in.buf[in.start:])
	in.seen -= in.start
	in.start, in.buf = 0, in.buf[:n]
	if n == cap(in.buf) && n > 0 {
		in.long, in.held = append(in.long, in.buf), in.held+n
	}
	if n == cap(in.buf) || n == 0 && cap(in.buf) > keepBuffer {
		in.seen, in.buf = 0, make([]byte, 0, keepBuffer)
	}
	n, in.err = r.Read(in.buf[len(in.buf):cap(in.buf)])
	in.buf = in.buf[:len(in.buf)+n]
}

// take adds what was heard while there was no room.
func (in *input) take(h heard) {
	n := copy(in.buf, in.buf[in.start:])
	in.seen -= in.start
	in.start, in.ear = 0, nil
	in.buf, in.err = append(in.buf[:n], h.b...), h.err
}

// line returns the next line without its end, or nil if there is no whole one.
// What comes after the last newline is a line too, if it is the last there is.
// A line of more than limit bytes is cut there, and not whole; the rest of it
// is skipped as it comes. The line is valid until the next fill or take, or for
// good if it is longer than keepBuffer.
func (in *input) line(limit int) (line []byte, whole bool) {
	for {
		if !in.skip && in.held == 0 { // blanks before a message do not count, and so do not blank lines
			in.start = skipSpace(in.buf, in.start)
			if !in.any && bytes.HasPrefix(in.buf[in.start:], []byte("\ufeff")) {
				in.start, in.any = skipSpace(in.buf, in.start+len("\ufeff")), true
			}
			in.seen = max(in.seen, in.start)
		}
		if in.start == len(in.buf) && (in.held == 0 || in.err == nil) {
			return nil, false
		}
		end := bytes.IndexByte(in.buf[in.seen:], '\n')
		next := in.seen + end + 1
		cut := end < 0 && in.err == nil
		if end < 0 {
			next = len(in.buf)
		}
		if cut && (in.skip || !in.tooMuch(limit)) {
			if in.seen = next; in.skip {
				in.start = next
			}
			return nil, false
		}
		line, skipped := in.buf[in.start:next], in.skip
		in.start, in.seen, in.skip = next, next, end < 0
		if skipped {
			continue // its beginning was told already
		}
		if in.held > 0 || len(line) > keepBuffer {
			line = slices.Concat(append(in.long, line)...)
			in.long, in.held = nil, 0
		}
		in.any = true
		if line = trimSpace(line); cut || len(line) > limit {
			n := min(len(line), limit)
			return line[:n:n], false
		}
		return line, true
	}
}

// tooMuch reports whether the beginning of a line is longer than a message may
// be. Blanks at its end may be behind the message, up to a point.
func (in *input) tooMuch(limit int) bool {
	b := in.buf[in.start:]
	over := in.held + len(b) - limit
	return over > keepBuffer || over > 0 && len(trimSpace(b[max(0, len(b)-over):])) > 0
}

// ---- accept ----

// An envelope is the outside of one message, in slices of its line.
type envelope struct {
	jsonrpc, id, method, params, result, err []byte
	twice                                    string // a member that came twice
}

// open takes a message apart and returns how far it is valid JSON: len(m), or
// -1. Names are matched exactly. What it found before a fault stays found.
func (e *envelope) open(m []byte) (end int) {
	if m[0] != '{' {
		return skipValue(m, 0, 0)
	}
	end, e.twice = pick(m, want{"jsonrpc", &e.jsonrpc}, want{"id", &e.id}, want{"method", &e.method},
		want{"params", &e.params}, want{"result", &e.result}, want{"error", &e.err})
	return end
}

// accept takes one line. It may keep the line if keep is set.
func (c *session) accept(line []byte, keep bool) {
	c.record("in  ", line)
	switch {
	case !utf8.Valid(line):
		c.refuse(nil, nil, coded(codeParse, "Parse error: not UTF-8"))
	case line[0] == '[':
		c.batch(line, keep)
	default:
		c.message(line, keep, nil)
	}
}

// batch takes a line of several messages, which one revision knows.
func (c *session) batch(line []byte, keep bool) {
	count := 0
	end := walk(line, 0, 0, func(_, _ []byte) bool { count++; return true })
	switch {
	case end != len(line):
		c.refuse(nil, nil, coded(codeParse, "Parse error"))
	case !c.legacy.rev.batches():
		c.refuse(nil, nil, invalid("batching is not supported"))
	case count == 0:
		c.refuse(nil, nil, invalid("empty batch"))
	case count > maxBatch:
		c.refuse(nil, nil, invalid("more than "+strconv.Itoa(maxBatch)+" messages in a batch"))
	default:
		b := &batch{owed: 1}
		for _, m := range members(line) {
			c.message(m, keep, b)
		}
		c.mu.Lock()
		c.settle(b, nil)
		c.mu.Unlock()
	}
}

// message takes one message and finds out which of the three kinds it is.
func (c *session) message(m []byte, keep bool, b *batch) {
	var e envelope
	if e.open(m) != len(m) {
		c.refuse(b, nil, coded(codeParse, "Parse error"))
		return
	}
	id := e.id
	if !validID(id) || e.twice == "id" {
		id = nil
	}
	version := string(e.jsonrpc) == `"2.0"`
	if !version { // it may be written with escapes
		str, _ := unquote(e.jsonrpc)
		version = str == "2.0"
	}
	switch {
	case m[0] != '{':
		c.refuse(b, nil, invalid("a message must be an object"))
	case e.method == nil && (e.result != nil || e.err != nil):
		c.deliver(&e) // and never answer it, whatever is wrong with it
	case e.twice != "":
		c.refuse(b, id, invalid(e.twice+" came twice"))
	case string(e.id) == "null":
		c.refuse(b, nil, invalid("id must not be null"))
	case e.id != nil && id == nil:
		c.refuse(b, nil, invalid("id must be a string or an integer"))
	case e.method == nil:
		c.refuse(b, id, invalid("method missing"))
	case e.method[0] != '"':
		c.refuse(b, id, invalid("method must be a string"))
	case !version && id != nil:
		c.refuse(b, id, invalid(`jsonrpc must be "2.0"`))
	case !version:
		c.logf("notification ignored: jsonrpc must be \"2.0\"") // notifications have no answers
	case id == nil:
		c.notice(&e)
	default:
		c.request(&e, keep, b)
	}
}

// tooLong takes the beginning of a line of more than Server.MaxMessage bytes.
func (c *session) tooLong(line []byte) {
	c.record("in  ", append(line[:min(len(line), 1000):min(len(line), 1000)], "... (cut: too long)"...))
	err := invalid("a message of more than " + strconv.Itoa(c.srv.maxMessage()) + " bytes")
	var e envelope
	e.open(line)
	switch {
	case e.method == nil && (e.result != nil || e.err != nil):
		if q := c.answered(e.id); q != nil {
			q.tell(reply{err: fmt.Errorf("mcp: the client's answer is longer than %d bytes", c.srv.maxMessage())})
		}
		c.logf("answer ignored: %v", err)
	case validID(e.id) && utf8.Valid(e.id) && e.twice != "id" && len(e.id) < cap(e.id): // at the end it may be cut
		c.refuse(nil, e.id, err)
	default:
		c.refuse(nil, nil, err)
	}
}

// notice takes a notification. There is no answer, whatever is wrong with it.
func (c *session) notice(e *envelope) {
	switch method, _ := unquote(e.method); method {
	case "notifications/cancelled":
		var p params
		p.read(e.params)
		if validID(p.requestID) {
			reason, _ := unquote(p.reason)
			c.forget(p.requestID, reason)
		}
	case "notifications/initialized":
		c.mu.Lock()
		if st := c.legacy.stream; st != nil && st.held {
			st.held = false
			for k := range kinds {
				if st.missed&(1<<k) != 0 {
					c.change(st, k)
				}
			}
		}
		c.mu.Unlock()
	case "notifications/progress", "notifications/roots/list_changed":
		// Nobody remembers what these would change.
	default:
		c.logf("notification ignored: unknown method %.100q", method)
	}
}

// deliver takes the client's answer to a question of ours.
func (c *session) deliver(e *envelope) {
	q := c.answered(e.id)
	absent(&e.err)
	switch {
	case q == nil:
		c.logf("answer ignored: nobody waits for %.100s", e.id)
	case e.err == nil:
		q.tell(reply{result: bytes.Clone(e.result)})
	default:
		var code, message []byte
		if e.err[0] == '{' {
			pick(e.err, want{"code", &code}, want{"message", &message})
		}
		why, _ := unquote(message)
		q.tell(reply{err: fmt.Errorf("mcp: the client answered with an error: %s (%.20s)", excerpt(why), code)})
	}
}

// answered takes the question with this id out of the map.
func (c *session) answered(id []byte) *question {
	c.mu.Lock()
	q := c.asked[string(id)]
	delete(c.asked, string(id))
	c.mu.Unlock()
	return q
}

// ---- request ----

// request takes a request: it finds the era, refuses what cannot be served,
// and either answers on the spot or begins a handler.
func (c *session) request(e *envelope, keep bool, b *batch) {
	m := lookup(string(e.method[1 : len(e.method)-1]))
	if m.name == "" { // it may be written with escapes
		name, _ := unquote(e.method)
		m = lookup(name)
		m.name = name
	}
	c.mu.Lock()
	_, dup := c.requests[string(e.id)]
	full := b != nil && len(b.answers) > outputBound
	c.mu.Unlock()
	switch {
	case dup: // under its own id, the answer would mislead the owner of the first
		c.refuse(b, nil, invalid("id "+excerpt(string(e.id))+" is in use"))
		return
	case full:
		c.refuse(b, e.id, coded(codeInternal, "The answers to one batch are too long"))
		return
	}
	r := &request{session: c, id: e.id, method: m.name, batch: b}
	if m.lasting && !keep { // the line will be overwritten while a handler runs
		n := len(e.id)
		own := append(append(make([]byte, 0, n+len(e.params)), e.id...), e.params...)
		r.id, e.params = own[:n:n], own[n:]
		if len(own) == n {
			e.params = nil
		}
	}
	err := r.params.read(e.params)
	if err == nil {
		err = c.era(r, m)
	}
	var line []byte
	if err == nil {
		line, err = c.serve(r, m)
	}
	switch {
	case err != nil:
		c.reply(b, appendError(nil, r.id, err))
	case line != nil:
		c.reply(b, line)
	default:
		c.begin(r)
	}
}

// read takes params apart. The values stay raw.
func (p *params) read(raw []byte) *Error {
	if raw == nil || string(raw) == "null" {
		return nil
	}
	if raw[0] != '{' {
		return badParams("params must be an object")
	}
	p.raw = raw
	_, twice := pick(raw, want{"_meta", &p.meta}, want{"name", &p.name}, want{"arguments", &p.arguments},
		want{"uri", &p.uri}, want{"cursor", &p.cursor}, want{"notifications", &p.notifications},
		want{"level", &p.setLevel}, want{"requestState", &p.state}, want{"inputResponses", &p.inputResponses},
		want{"protocolVersion", &p.protocolVersion}, want{"capabilities", &p.capabilities},
		want{"clientInfo", &p.clientInfo}, want{"requestId", &p.requestID}, want{"reason", &p.reason})
	absent(&p.meta, &p.cursor, &p.state, &p.inputResponses)
	if twice == "" && p.meta != nil {
		if p.meta[0] != '{' {
			return badParams("_meta must be an object")
		}
		_, twice = pick(p.meta, want{"progressToken", &p.token}, want{keyVersion, &p.metaVersion},
			want{keyCaps, &p.metaCaps}, want{keyClient, &p.metaClient}, want{keyLevel, &p.level})
		absent(&p.token, &p.metaClient, &p.level)
	}
	if twice != "" {
		return badParams(twice + " came twice")
	}
	if p.token != nil && !validID(p.token) {
		return badParams("progressToken must be a string or an integer")
	}
	return nil
}

// absent makes null as good as absent.
func absent(optional ...*[]byte) {
	for _, val := range optional {
		if string(*val) == "null" {
			*val = nil
		}
	}
}

// era finds the revision by which r is served. A claim in its own _meta makes
// a request modern; any other belongs to the session that initialize opened.
func (c *session) era(r *request, m method) *Error {
	if r.metaVersion != nil {
		version, isText := unquote(r.metaVersion)
		_, _, named := nameAndVersion(r.metaClient)
		switch level, levelText := unquote(r.level); {
		case !isText:
			return badParams(keyVersion + " must be a string")
		case r.metaCaps == nil:
			return coded(codeParams, "Missing required _meta field "+keyCaps)
		case r.metaCaps[0] != '{':
			return badParams(keyCaps + " must be an object")
		case r.metaClient != nil && !named:
			return badParams(keyClient + " must be an object with name and version")
		case version != revModern.String():
			return &Error{Code: codeVersion, Message: "Unsupported protocol version",
				Data: json.RawMessage(join(appendString([]byte(`{"requested":`), version), `,`, supported, `}`))}
		case r.level != nil && (!levelText || !slices.Contains(levels[:], level)):
			return coded(codeParams, "Invalid log level: "+excerpt(level))
		case r.batch != nil:
			return invalid("batching is not supported")
		}
		r.rev = revModern
		r.caps, r.client = r.metaCaps, r.metaClient
		if !m.modern {
			err := noMethod(r)
			if r.method == "initialize" {
				err.Data = json.RawMessage(`{` + supported + `}`)
			}
			return err
		}
		return nil
	}
	r.rev, r.client, r.caps = c.legacy.rev, c.legacy.client, c.legacy.caps
	switch {
	case !m.legacy && !m.modern:
		return noMethod(r)
	case m.legacy && (r.rev != 0 || r.method == "ping" || r.method == "initialize"):
		return nil
	}
	return coded(codeParams, "Missing required _meta fields "+keyVersion+" and "+keyCaps+" (or send initialize first)")
}

// serve answers what needs no code of the user's. When it returns neither an
// answer nor an error, r is to be given to a handler.
func (c *session) serve(r *request, m method) ([]byte, *Error) {
	switch r.method {
	case "initialize":
		return c.initialize(r)
	case "ping":
		return r.end(r.open(), "", false), nil
	case "server/discover":
		return c.discover(r), nil
	case "subscriptions/listen":
		return nil, c.filter(r)
	}
	offered := c.srv.offers() & (1 << m.kind.capability())
	// Hosts of the legacy era drop a server that does not know a list.
	if offered == 0 && (!m.list || r.rev == revModern) {
		return nil, noMethod(r)
	}
	if m.list {
		return c.srv.list(r, m.kind)
	}
	return c.lookUp(r)
}

// lookUp finds what a request is about, and checks what it says of it.
func (c *session) lookUp(r *request) ([]byte, *Error) {
	k, raw, required := tools, r.params.name, "name is required"
	switch r.method {
	case "prompts/get":
		k = prompts
	case "resources/read", "resources/subscribe", "resources/unsubscribe":
		k, raw, required = resources, r.uri, "uri is required"
	case "completion/complete":
		return nil, c.srv.completion(r)
	case "logging/setLevel":
		return c.setLevel(r)
	}
	name, isText := unquote(raw)
	if !isText {
		return nil, badParams(required)
	}
	r.name = name
	switch r.method {
	case "resources/subscribe", "resources/unsubscribe":
		return c.subscribe(r)
	}
	if r.item = c.srv.find(k, name); r.item == nil && k == resources {
		r.item, r.vars = c.srv.match(name)
	}
	switch {
	case r.item == nil && k == resources:
		return nil, r.notFound()
	case r.item == nil:
		return nil, coded(codeParams, "Unknown "+strings.TrimSuffix(kindNames[k], "s")+": "+excerpt(name))
	case r.item.check != nil:
		return nil, r.item.check(r)
	}
	return nil, nil
}

// setLevel sets from which level on the legacy session wants log messages.
func (c *session) setLevel(r *request) ([]byte, *Error) {
	level, _ := unquote(r.params.setLevel)
	n := slices.Index(levels[:], level)
	if n < 0 {
		return nil, coded(codeParams, "Invalid log level: "+excerpt(level))
	}
	c.mu.Lock()
	c.legacy.level = n
	c.mu.Unlock()
	return r.end(r.open(), "", false), nil
}

// subscribe has the legacy session told, or no longer, when a resource changes.
func (c *session) subscribe(r *request) ([]byte, *Error) {
	var err *Error
	c.mu.Lock()
	if st := c.legacy.stream; r.method == "resources/subscribe" {
		err = st.watch(r.name)
	} else {
		delete(st.uris, r.name)
	}
	c.mu.Unlock()
	return r.end(r.open(), "", false), err
}

// initialize opens the legacy session.
func (c *session) initialize(r *request) ([]byte, *Error) {
	version, isText := unquote(r.protocolVersion)
	_, _, named := nameAndVersion(r.clientInfo)
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
	rev := negotiate(version)
	offered := c.srv.offers()
	st := &stream{kinds: offered, held: true}
	c.mu.Lock()
	c.legacy = legacy{rev: rev, level: len(levels), client: bytes.Clone(r.clientInfo), caps: bytes.Clone(r.capabilities), stream: st}
	c.streams = append(c.streams, st)
	c.mu.Unlock()
	r.rev = rev
	b := join(r.open(), `"protocolVersion":"`, rev.String(), `","serverInfo":`, c.srv.identity(rev), `,`)
	return r.end(join(b, c.abilities(rev, offered)), "", false), nil
}

// discover tells a modern client what there is.
func (c *session) discover(r *request) []byte {
	b := join(r.open(), `"supportedVersions":["`, revModern.String(), `"],`)
	return r.end(join(b, c.abilities(revModern, c.srv.offers())), "", true)
}

// A stream is where changes are told: to the legacy session as such, to a
// modern client on each subscriptions/listen request of its own.
type stream struct {
	request *request         // of subscriptions/listen; nil for the legacy session
	kinds   uint8            // whose lists are watched, a bit for each
	told    [kinds]int64     // where in the output a change was told last
	uris    map[string]int64 // the same for the resources that are watched
	held    bool             // notifications/initialized has not come yet
	missed  uint8            // the changes before that
}

// filter reads what a subscriptions/listen request asks for, and keeps what we
// can promise.
func (c *session) filter(r *request) *Error {
	if r.notifications == nil || r.notifications[0] != '{' {
		return badParams("notifications is required")
	}
	st := &stream{request: r}
	offered := c.srv.offers()
	for key, val := range members(r.notifications) {
		for k, name := range kindNames[:templates] {
			if string(key) == name+"ListChanged" {
				switch string(val) {
				case "true":
					st.kinds |= 1 << k & offered
				case "false":
				default:
					return badParams(string(key) + " must be true or false")
				}
			}
		}
		if string(key) == "resourceSubscriptions" {
			if val[0] != '[' {
				return badParams("resourceSubscriptions must be an array")
			}
			for _, raw := range members(val) {
				uri, isText := unquote(raw)
				if !isText {
					return badParams("resourceSubscriptions must hold strings")
				}
				if err := st.watch(uri); err != nil {
					return err
				}
			}
			if offered&(1<<resources) == 0 {
				st.uris = nil
			}
		}
	}
	c.mu.Lock()
	open := len(c.streams)
	if c.legacy.stream != nil {
		open--
	}
	c.mu.Unlock()
	if open >= maxStreams {
		return coded(codeInternal, "Subscription limit reached")
	}
	r.stream = st
	r.id, r.params = bytes.Clone(r.id), params{} // it may be open for long
	return nil
}

// watch adds a resource to those whose changes are told.
func (st *stream) watch(uri string) *Error {
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

// drop ends a stream, if there is one. The caller must hold c.mu.
func (c *session) drop(gone *stream) {
	c.streams = slices.DeleteFunc(c.streams, func(st *stream) bool { return st == gone })
}

// ---- begin ----

// begin sees to it that r is given to a handler: at once on this goroutine or
// another, or when others are through. From here on it can be cancelled and
// will be waited for.
func (c *session) begin(r *request) {
	c.mu.Lock()
	if c.closing { // nobody would wait for it
		c.mu.Unlock()
		return
	}
	c.requests[string(r.id)] = r
	if r.batch != nil {
		r.batch.owed++
	}
	c.wg.Add(1)
	switch max := c.srv.MaxConcurrent; {
	case r.stream != nil: // waits, and does not work
		c.streams = append(c.streams, r.stream)
		c.emit(r.ack())
		go c.handle(r)
	case max > 0 && c.running >= max:
		c.waiting = append(c.waiting, r)
	default:
		c.running++
		if c.running == 1 && r.batch == nil { // the members of a batch are taken one after the other
			c.lone = r
		} else {
			go c.handle(r)
		}
	}
	c.mu.Unlock()
}

// ---- handle ----

// handle runs the handler of r and answers. A panic, or a call of
// runtime.Goexit, costs this one request and nothing else.
func (c *session) handle(r *request) {
	var line []byte
	returned := false
	defer func() {
		if !returned {
			c.relieve() // Goexit takes this goroutine with it
			c.logf("%v did not return: %v\n%s", r, recover(), debug.Stack())
			line = r.failed()
		}
		c.respond(r, line)
		c.finish(r)
	}()
	line = r.run()
	returned = true
}

// run calls the handler and returns the line that answers r, or nil for none.
func (r *request) run() []byte {
	if r.stream != nil {
		<-r.Done()
		if context.Cause(r) == ErrClosed {
			return nil
		}
		return r.end(r.open(), r.tag(), false) // we end it, and say so
	}
	if e := r.ends.Load(); e != nil {
		if _, gone := context.Cause(e.ctx).(*CancelledError); gone {
			return nil // before its turn came
		}
	}
	return r.callHandler()
}

// ---- respond ----

// respond writes the answer of r, unless the client has cancelled it. The
// entry goes first: the client may use the id again as soon as it has read the
// line, and whatever else belongs to r comes too late from here on.
func (c *session) respond(r *request, line []byte) {
	c.mu.Lock()
	if c.requests[string(r.id)] == r {
		delete(c.requests, string(r.id))
		c.settle(r.batch, line)
	}
	c.drop(r.stream)
	later := c.busy && !c.closing // whoever has the turn to read flushes before it reads on
	c.mu.Unlock()
	if !later {
		c.write()
	}
}

// finish lets go of r when its handler is through, and lets the next one in.
func (c *session) finish(r *request) {
	if !r.ends.CompareAndSwap(nil, c.over) { // somebody has looked
		r.cancel(nil)
	}
	c.mu.Lock()
	delete(c.forgotten, r)
	if r.stream == nil {
		if len(c.waiting) > 0 {
			go c.handle(c.waiting[0])
			c.waiting = c.waiting[1:]
		} else {
			c.running--
		}
	}
	c.mu.Unlock()
	c.wg.Done()
}

// reply answers what never became a handler's. Only the reader calls it: the
// line goes out when it flushes.
func (c *session) reply(b *batch, line []byte) {
	c.mu.Lock()
	if b != nil {
		b.owed++
	}
	c.settle(b, line)
	c.mu.Unlock()
}

// refuse answers a message that is not a proper request. A nil id is sent as
// null, which is how JSON-RPC speaks of an id that could not be read; so is one
// in use, whose owner would take this for the answer.
func (c *session) refuse(b *batch, id []byte, err *Error) {
	c.logf("refused: %s", err.Message)
	c.mu.Lock()
	if c.requests[string(id)] != nil {
		id = nil
	}
	c.mu.Unlock()
	c.reply(b, appendError(nil, id, err))
}

// settle sends line, or puts it with the other answers of its batch, which go
// out when the last one is there. A nil line is an answer that will not come.
// The caller must hold c.mu.
func (c *session) settle(b *batch, line []byte) {
	if b == nil {
		if line != nil {
			c.emit(line)
		}
		return
	}
	if line != nil {
		b.answers = append(append(b.answers, ','), line...)
	}
	if b.owed--; b.owed == 0 && len(b.answers) > 0 {
		b.answers[0] = '['
		c.emit(append(b.answers, ']'))
	}
}

// notify sends a notification that belongs to r, before the answer of r or not
// at all, if ok, which is called under c.mu, agrees. It returns when the line
// is written, so that it stands alone: there are clients that drop progress
// which they read together with the answer. It waits no longer than r lasts.
func (c *session) notify(r *request, line []byte, ok func() bool) {
	c.mu.Lock()
	if c.requests[string(r.id)] != r || r.Err() != nil || !ok() {
		c.mu.Unlock()
		return
	}
	mark := c.emit(line)
	c.handOffLocked()
	c.mu.Unlock()
	for written := c.out.until(mark); written != nil; written = c.out.until(mark) {
		select {
		case <-written:
		case <-r.Done():
			return
		}
	}
}

// ask sends the client a request on behalf of r and waits for the answer, but
// no longer than ctx, r and the client last.
func (c *session) ask(ctx context.Context, r *request, method, params string) (json.RawMessage, error) {
	q := &question{make(chan reply, 1)}
	c.relieve() // else nobody would hear the answer
	for _, over := range []context.Context{r, ctx} {
		if over.Err() != nil {
			return nil, context.Cause(over)
		}
	}
	c.mu.Lock()
	if c.requests[string(r.id)] != r { // cancelled, or answered long ago
		c.mu.Unlock()
		<-r.Done()
		return nil, context.Cause(r)
	}
	if deaf := c.deaf; deaf != nil {
		c.mu.Unlock()
		return nil, deaf
	}
	c.lastAsked++
	id := strconv.FormatInt(c.lastAsked, 10)
	c.asked[id] = q
	c.emit([]byte(`{"jsonrpc":"2.0","id":` + id + `,"method":"` + method + `","params":` + params + `}`))
	c.handOffLocked()
	c.mu.Unlock()

	var cause error
	select {
	case a := <-q.answer:
		c.answered([]byte(id))
		return a.result, a.err
	case <-ctx.Done():
		cause = context.Cause(ctx)
	case <-r.Done(): // the handler asks with a context of its own
		cause = context.Cause(r)
	}
	c.mu.Lock()
	if _, open := c.asked[id]; open && c.deaf == nil && !c.closing { // tell the client not to bother
		delete(c.asked, id)
		c.emit([]byte(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `,"reason":"no longer needed"}}`))
		c.handOffLocked()
	}
	c.mu.Unlock()
	return nil, cause
}

// addInputRequest keeps a question of the modern era for the result of this round.
func (c *session) addInputRequest(r *request, q inputRequest) {
	c.mu.Lock()
	if !slices.ContainsFunc(r.questions, func(o inputRequest) bool { return o.key == q.key }) {
		r.questions = append(r.questions, q)
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

// logLevel returns from which level on a request wants log messages.
func (c *session) logLevel(r *request) int {
	if r.rev == revModern {
		if level, ok := unquote(r.level); ok {
			return slices.Index(levels[:], level)
		}
		return len(levels)
	}
	c.mu.Lock()
	level := c.legacy.level
	c.mu.Unlock()
	return level
}

// changed tells the client that the list of this kind is another one now.
func (c *session) changed(k kind) {
	c.mu.Lock()
	for _, st := range c.streams {
		c.change(st, k)
	}
	c.mu.Unlock()
	c.handOff()
}

// change tells one stream. The caller must hold c.mu.
func (c *session) change(st *stream, k kind) {
	switch {
	case st.kinds&(1<<k) == 0:
	case st.held:
		st.missed |= 1 << k
	default:
		st.told[k] = c.tell(st, st.told[k], kindNames[k]+"/list_changed", "")
	}
}

// updated tells the client that a resource that it watches has changed.
func (c *session) updated(uri string) {
	c.mu.Lock()
	for _, st := range c.streams {
		if told, watched := st.uris[uri]; watched {
			st.uris[uri] = c.tell(st, told, "resources/updated", `"uri":`+string(appendString(nil, uri)))
		}
	}
	c.mu.Unlock()
	c.handOff()
}

// tell sends a notification on a stream and returns the position behind it,
// unless the last one of its sort, at told, has not even been handed to the
// writer yet: then that one will do. The caller must hold c.mu.
func (c *session) tell(st *stream, told int64, method, params string) int64 {
	if c.out.holds(told) {
		return told
	}
	if st.request != nil {
		params = string(closeWith(join(nil, `"_meta":{`, st.request.tag()), `},`, params))
	}
	b := join(nil, `{"jsonrpc":"2.0","method":"notifications/`, method, `",`)
	if params != "" {
		b = closeWith(join(b, `"params":{`, params), `},`)
	}
	return c.emit(closeWith(b, "}"))
}

// ---- write ----

// emit appends a line to the output and returns the position behind it. The
// caller must hold c.mu, and see to it that the line is written afterwards.
func (c *session) emit(line []byte) int64 {
	c.record("out ", line)
	return c.out.add(line)
}

// write writes what there is to write, unless somebody else is at it.
func (c *session) write() {
	if c.out.turn() {
		c.writeOn()
	}
}

func (c *session) writeOn() {
	if err := c.out.run(); err != nil {
		c.broken(err)
	}
}

// handOff is write for those who must not wait: a goroutine does it, or, when
// the session is closing, whoever answers next or the drain waiter.
func (c *session) handOff() {
	c.mu.Lock()
	if !c.closing {
		c.handOffLocked()
	}
	c.mu.Unlock()
}

// handOffLocked is handOff for those who hold c.mu and know that the drain
// waiter is not through: the session is not closing, or a request is running.
func (c *session) handOffLocked() {
	if c.out.turn() {
		c.wg.Go(c.writeOn)
	}
}

// An outlet is the turn to write: senders append whole lines to a buffer, and
// whoever finds nobody writing writes until it is empty. Its lock is never
// held while w is written to.
type outlet struct {
	w io.Writer

	mu      sync.Mutex
	buf     []byte // whole lines
	spare   []byte // was written last; used again
	added   int64  // bytes, ever
	taken   int64  // of these, handed to w
	written int64  // of these, accepted by w
	writing bool
	stopped bool          // nothing is handed to w any more
	change  chan struct{} // closed when written, or stopped, changes; nil if nobody waits
}

// add appends line and returns the position behind it. It may keep line and the
// room behind it: the caller must not touch either again.
func (o *outlet) add(line []byte) int64 {
	o.mu.Lock()
	if !o.stopped {
		o.added += int64(len(line)) + 1
		if len(o.buf) > 0 || len(line) <= keepBuffer {
			line = append(o.buf, line...)
		}
		o.buf = append(line, '\n')
	}
	mark := o.added
	o.mu.Unlock()
	return mark
}

// Write is add for those who need an io.Writer.
func (o *outlet) Write(line []byte) (int, error) {
	o.add(bytes.Clone(bytes.TrimSuffix(line, []byte("\n"))))
	return len(line), nil
}

// turn reports whether the caller has got the turn to write: it must call run.
func (o *outlet) turn() bool {
	o.mu.Lock()
	mine := !o.writing && len(o.buf) > 0
	if mine {
		o.writing = true
	}
	o.mu.Unlock()
	return mine
}

// run writes until there is nothing left.
func (o *outlet) run() (err error) {
	o.mu.Lock()
	for len(o.buf) > 0 && err == nil {
		b := o.buf
		o.buf, o.spare = o.spare[:0], nil
		o.taken += int64(len(b))
		o.mu.Unlock()
		var n int
		if n, err = o.w.Write(b); err == nil && n < len(b) {
			err = io.ErrShortWrite
		}
		o.mu.Lock()
		if cap(b) <= keepBuffer {
			o.spare = b[:0]
		}
		o.written += int64(len(b))
		o.wake()
	}
	o.writing = false
	if err != nil {
		o.stopLocked()
	}
	o.mu.Unlock()
	return err
}

// end stops o if all has been written; otherwise it is more(0).
func (o *outlet) end() <-chan struct{} {
	o.mu.Lock()
	rest := o.untilLocked(o.added)
	if rest == nil {
		o.stopLocked()
	}
	o.mu.Unlock()
	return rest
}

// stop sees to it that nothing more is handed to w.
func (o *outlet) stop() {
	o.mu.Lock()
	o.stopLocked()
	o.mu.Unlock()
}

// over reports whether that was so.
func (o *outlet) over() bool {
	o.mu.Lock()
	over := o.stopped
	o.mu.Unlock()
	return over
}

func (o *outlet) stopLocked() {
	o.stopped, o.buf = true, nil
	o.wake()
}

func (o *outlet) wake() {
	if o.change != nil {
		close(o.change)
		o.change = nil
	}
}

// until returns nil when all before the position mark has been written, or
// never will be; otherwise a channel that is closed when it is worth another
// look.
func (o *outlet) until(mark int64) <-chan struct{} {
	o.mu.Lock()
	rest := o.untilLocked(mark)
	o.mu.Unlock()
	return rest
}

func (o *outlet) untilLocked(mark int64) <-chan struct{} {
	if o.written >= mark || o.stopped {
		return nil
	}
	if o.change == nil {
		o.change = make(chan struct{})
	}
	return o.change
}

// more is until for when no more than n bytes are unsent.
func (o *outlet) more(n int64) <-chan struct{} {
	o.mu.Lock()
	rest := o.untilLocked(o.added - n)
	o.mu.Unlock()
	return rest
}

// holds reports whether the line before the position mark has not been handed
// to w yet.
func (o *outlet) holds(mark int64) bool {
	o.mu.Lock()
	held := mark > o.taken
	o.mu.Unlock()
	return held
}

// ---- diagnostics ----

// record adds one line to the trace.
func (c *session) record(direction string, line []byte) {
	if c.trace.w == nil || c.trace.more(traceBound) != nil {
		return
	}
	log.New(&c.trace, direction, log.LstdFlags|log.Lmicroseconds|log.Lmsgprefix).Print(string(line))
	if c.trace.turn() {
		go c.trace.run() // wait waits for it
	}
}

// logf tells Server.ErrorLog. It never waits: a host that does not read our
// stderr, or a client that talks rubbish without end, costs only the lines
// that are dropped.
func (c *session) logf(format string, args ...any) {
	c.mu.Lock()
	if now := time.Now().Unix(); now != c.noteTime {
		c.notesNow, c.noteTime = 0, now
	}
	c.notesNow++
	drop := c.notesNow > 20 || c.notes.more(noteBound) != nil
	c.mu.Unlock()
	if drop {
		return
	}
	c.notes.add(fmt.Appendf(nil, "mcp: "+format, args...))
	if c.notes.turn() {
		go c.notes.run() // wait waits for it
	}
}

// A logWriter is a log.Logger as an io.Writer.
type logWriter struct{ *log.Logger }

func (w logWriter) Write(b []byte) (int, error) {
	if w.Logger == nil {
		w.Logger = log.Default()
	}
	w.Print(string(b))
	return len(b), nil
}

// ---- JSON ----

// walk steps over the object or array that begins at b[i] and returns the
// index behind it, or -1 if it is not valid JSON. It calls each, which may be
// nil, with every value and its key, until that returns false; a value that is
// broken off is passed as far as it goes. It is as strict as encoding/json,
// and leaves UTF-8 to others.
func walk(b []byte, i, depth int, each func(key, val []byte) bool) int {
	if depth++; depth > maxDepth {
		return -1
	}
	object, closer := b[i] == '{', byte(']')
	if object {
		closer = '}'
	}
	if i = skipSpace(b, i+1); i < len(b) && b[i] == closer {
		return i + 1
	}
	for i < len(b) {
		var key []byte
		if object {
			start := i
			if i = skipString(b, i); i < 0 {
				return -1
			}
			key = b[start+1 : i-1]
			if i = skipSpace(b, i); i == len(b) || b[i] != ':' {
				return -1
			}
			i = skipSpace(b, i+1)
		}
		start := i
		i = skipValue(b, i, depth)
		if each != nil {
			end := i
			if end < 0 {
				end = len(b)
			}
			if bytes.IndexByte(key, '\\') >= 0 {
				key = appendText(nil, key)
			}
			if !each(key, b[start:end]) {
				return -1
			}
		}
		if i < 0 {
			return -1
		}
		if i = skipSpace(b, i); i == len(b) {
			return -1
		}
		switch b[i] {
		case ',':
			i = skipSpace(b, i+1)
		case closer:
			return i + 1
		default:
			return -1
		}
	}
	return -1
}

// skipValue returns the index behind the value that begins at b[i], or -1.
func skipValue(b []byte, i, depth int) int {
	if i >= len(b) {
		return -1
	}
	switch b[i] {
	case '{', '[':
		return walk(b, i, depth, nil)
	case '"':
		return skipString(b, i)
	case 't':
		return skipWord(b, i, "true")
	case 'f':
		return skipWord(b, i, "false")
	case 'n':
		return skipWord(b, i, "null")
	}
	return skipNumber(b, i)
}

func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\t' || b[i] == '\r' || b[i] == '\n') {
		i++
	}
	return i
}

// trimSpace takes the blanks away from the end.
func trimSpace(b []byte) []byte {
	for len(b) > 0 && skipSpace(b[len(b)-1:], 0) > 0 {
		b = b[:len(b)-1]
	}
	return b
}

func skipWord(b []byte, i int, word string) int {
	if end := i + len(word); end <= len(b) && string(b[i:end]) == word {
		return end
	}
	return -1
}

func skipString(b []byte, i int) int {
	if b[i] != '"' {
		return -1
	}
	for i++; ; i++ {
		i = plainPrefix(b, i, 0)
		switch {
		case i == len(b) || b[i] < ' ':
			return -1
		case b[i] == '"':
			return i + 1
		}
		if i++; i == len(b) { // behind a backslash
			return -1
		}
		if b[i] == 'u' {
			if _, ok := hex4(b[i+1:]); !ok {
				return -1
			}
			i += 4
		} else if strings.IndexByte(escapes, b[i]) < 0 {
			return -1
		}
	}
}

// plainPrefix returns the index of the first byte in s[i:] that does not stand for
// itself in a JSON string. If all bits of high are set, ASCII alone does. It
// looks at eight bytes at a time, because a text may be long.
func plainPrefix[T string | []byte](s T, i int, high uint64) int {
	const each = 0x0101010101010101
	for ; i+8 <= len(s); i += 8 {
		w := uint64(s[i]) | uint64(s[i+1])<<8 | uint64(s[i+2])<<16 | uint64(s[i+3])<<24 |
			uint64(s[i+4])<<32 | uint64(s[i+5])<<40 | uint64(s[i+6])<<48 | uint64(s[i+7])<<56
		quote, backslash := w^each*'"', w^each*'\\'
		// The highest bit of a byte in x-each*n &^ x tells that it is below n.
		if ((w-each*' ')&^w|(quote-each)&^quote|(backslash-each)&^backslash|w&high)&(each<<7) != 0 {
			break
		}
	}
	for i < len(s) && s[i] >= ' ' && s[i] != '"' && s[i] != '\\' && uint64(s[i])&high&0x80 == 0 {
		i++
	}
	return i
}

func skipNumber(b []byte, i int) int {
	if b[i] == '-' {
		i++
	}
	start := i
	if i = digits(b, i); i == start || b[start] == '0' && i > start+1 {
		return -1
	}
	if i < len(b) && b[i] == '.' {
		start = i + 1
		if i = digits(b, start); i == start {
			return -1
		}
	}
	if i < len(b) && (b[i] == 'e' || b[i] == 'E') {
		if i++; i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		start = i
		if i = digits(b, start); i == start {
			return -1
		}
	}
	return i
}

func digits(b []byte, i int) int {
	for i < len(b) && '0' <= b[i] && b[i] <= '9' {
		i++
	}
	return i
}

func hex4(b []byte) (r rune, ok bool) {
	if len(b) < 4 {
		return 0, false
	}
	for _, c := range b[:4] {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c|0x20 && c|0x20 <= 'f':
			c = c | 0x20 - 'a' + 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}

// members yields the members of a valid object, or the elements of a valid
// array, which have no key.
func members(b []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(key, val []byte) bool) { walk(b, 0, 0, yield) }
}

// A want is a member that is looked for, and where its value is to go.
type want struct {
	name string
	to   *[]byte
}

// pick walks over an object and takes out what is wanted. It returns where the
// object ends, as walk does, and the name of a wanted member that came twice.
func pick(obj []byte, wanted ...want) (end int, twice string) {
	end = walk(obj, 0, 0, func(key, val []byte) bool {
		for _, w := range wanted {
			if w.name == string(key) {
				if *w.to != nil && twice != "id" { // which matters most
					twice = string(key)
				}
				*w.to = val
				break
			}
		}
		return true
	})
	return end, twice
}

// validID reports whether raw, which is valid JSON, is a string or an integer.
func validID(raw []byte) bool {
	if len(raw) == 0 || raw[0] == '"' {
		return len(raw) > 0
	}
	if raw[0] == '-' {
		raw = raw[1:]
	}
	end := digits(raw, 0)
	if end < len(raw) && raw[end] == '.' { // 5.0 is an integer
		for end++; end < len(raw) && raw[end] == '0'; end++ {
		}
	}
	return end == len(raw)
}

// unquote returns the string that raw, which is valid JSON or nil, stands for,
// and whether it is a string at all.
func unquote(raw []byte) (s string, ok bool) {
	if len(raw) < 2 || raw[0] != '"' {
		return "", false
	}
	raw = raw[1 : len(raw)-1]
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw), true
	}
	return string(appendText(make([]byte, 0, len(raw)), raw)), true
}

// escapes are the letters of the short escapes, and escaped what they mean.
const escapes, escaped = `"\/bfnrt`, "\"\\/\b\f\n\r\t"

// appendText appends the text of a valid JSON string, given without quotes.
func appendText(b, raw []byte) []byte {
	for {
		i := bytes.IndexByte(raw, '\\')
		if i < 0 {
			return append(b, raw...)
		}
		b = append(b, raw[:i]...)
		c := raw[i+1]
		raw = raw[i+2:]
		if c != 'u' {
			b = append(b, escaped[strings.IndexByte(escapes, c)])
			continue
		}
		r, _ := hex4(raw)
		raw = raw[4:]
		if utf16.IsSurrogate(r) {
			low := rune(-1)
			if len(raw) >= 6 && raw[0] == '\\' && raw[1] == 'u' {
				low, _ = hex4(raw[2:])
			}
			if r = utf16.DecodeRune(r, low); r != utf8.RuneError {
				raw = raw[6:]
			}
		}
		b = utf8.AppendRune(b, r)
	}
}

// roomFor sees to it that n bytes can be appended to b, and something more, if
// they are many: to append them bit by bit would copy them several times.
func roomFor(b []byte, n int) []byte {
	if n > keepBuffer {
		b = slices.Grow(b, n+n/64+keepBuffer)
	}
	return b
}

// appendString appends s as a JSON string, byte for byte as encoding/json
// would without its escapes for HTML.
func appendString(b []byte, s string) []byte {
	b = append(roomFor(b, len(s)), '"')
	start := 0
	for i := plainPrefix(s, 0, math.MaxUint64); i < len(s); i = plainPrefix(s, i, math.MaxUint64) {
		c := s[i]
		size, escape := 1, ""
		if c >= utf8.RuneSelf {
			var r rune
			switch r, size = utf8.DecodeRuneInString(s[i:]); {
			case r == utf8.RuneError && size == 1:
				escape = `\ufffd`
			case r == '\u2028':
				escape = `\u2028`
			case r == '\u2029':
				escape = `\u2029`
			}
		} else if short := strings.IndexByte(escaped, c); short >= 0 {
			escape = `\"\\\/\b\f\n\r\t`[2*short:][:2]
		} else {
			escape = `\u00` + "0123456789abcdef"[c>>4:][:1] + "0123456789abcdef"[c&15:][:1]
		}
		if escape != "" {
			b = append(append(b, s[start:i]...), escape...)
			start = i + size
		}
		i += size
	}
	return append(append(b, s[start:]...), '"')
}
