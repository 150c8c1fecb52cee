// SPDX-License-Identifier: MIT

package mcp

// How work ends.
//
//	event                          cause the handler sees      its answer                  Serve returns
//	notifications/cancelled        *CancelledError             none                        goes on
//	EOF on r                       ErrClosed, after Linger     what the handler returns    nil
//	r fails otherwise              that error, after Linger    what the handler returns    that error
//	w is a closed pipe             ErrClosed                   none possible: swallowed    nil
//	w fails otherwise              that error                  none                        that error
//	ctx ends; SIGINT, SIGTERM      context.Cause(ctx)          what the handler returns    nil
//	handlers outlive Drain         as above                    none after Serve returned   an ErrDrain that names them
//
// EOF still lets answers out, because a client may close only its half of the
// connection, as a shell does in `printf ... | server`. Everybody who waits
// for the client is told at once in every row but the first.

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// ErrClosed is the cause of a handler's context, and the error of a question
// to the client, when the client has closed its end of the connection.
var ErrClosed = errors.New("mcp: the client has closed the connection")

// ErrDrain is returned, wrapped, by Serve when handlers went on after
// [Server.Drain] had passed, or the client did not read what was written for
// it. Their goroutines are still there, but nothing that they return is written
// any more.
var ErrDrain = errors.New("mcp: still at work when the time to drain was over")

// CancelledError is the cause of a handler's context when the client has
// cancelled the request. Nothing that the handler returns is sent.
type CancelledError struct {
	Reason string // the client's words, often empty
}

func (e *CancelledError) Error() string {
	if e.Reason == "" {
		return "mcp: cancelled by the client"
	}
	return "mcp: cancelled by the client: " + e.Reason
}

// An ending is what makes a request, which is the context of its handler, end. It
// is made when it is asked for: most handlers return before they look.
type ending struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
}

func newEnding(parent context.Context) *ending {
	ctx, cancel := context.WithCancelCause(parent)
	return &ending{ctx, cancel}
}

func (r *request) ending() *ending {
	if r.ends.Load() == nil {
		if e := newEnding(r.session.ctx); !r.ends.CompareAndSwap(nil, e) {
			e.cancel(nil) // somebody else was first
		}
	}
	return r.ends.Load()
}

func (r *request) cancel(cause error) { r.ending().cancel(cause) }

func (r *request) Deadline() (time.Time, bool) { return r.session.ctx.Deadline() }
func (r *request) Done() <-chan struct{}       { return r.ending().ctx.Done() }
func (r *request) Err() error                  { return r.ending().ctx.Err() }

func (r *request) Value(key any) any {
	if key == (requestKey{}) {
		return r
	}
	return r.ending().ctx.Value(key)
}

// forget is the client's cancel of the request with this id. The entry goes
// first, so that nothing is owed and nothing more is written for it; a request
// that is unknown, or answered already, is none of our business.
func (c *session) forget(id []byte, reason string) {
	c.mu.Lock()
	r := c.requests[string(id)]
	if r != nil {
		delete(c.requests, string(id))
		c.drop(r.stream)
		c.forgotten[r] = struct{}{}
		for i, w := range c.waiting {
			if w == r { // it never began to run
				c.waiting = append(c.waiting[:i], c.waiting[i+1:]...)
				delete(c.forgotten, r)
				c.wg.Done()
				break
			}
		}
		c.settle(r.batch, nil)
	}
	c.mu.Unlock()
	if r != nil {
		if why := (&CancelledError{oneLine(reason)}).Error(); r.stream == nil { // which ends in no other way
			c.logf("%v was %s", r, strings.TrimPrefix(why, "mcp: "))
		}
		r.cancel(&CancelledError{reason})
	}
}

// hangUp tells everybody who waits for the client that it is gone. The maps
// are copied and the copies are walked without the lock, because whoever is
// told comes straight back to delete its own entry. A question is told through
// the map and not through its context alone: a handler may ask with a context
// of its own, which nobody cancels.
func (c *session) hangUp(cause error) {
	c.mu.Lock()
	c.deaf = cause
	asked := make([]*question, 0, len(c.asked))
	for _, q := range c.asked {
		asked = append(asked, q)
	}
	streams := slices.Clone(c.streams)
	c.mu.Unlock()
	for _, q := range asked {
		q.tell(reply{err: cause})
	}
	for _, st := range streams {
		if st.request != nil {
			st.request.cancel(cause)
		}
	}
}

// closeDoor sees to it that no request is begun any more: from here on the
// WaitGroup does not rise from zero. The second time it does nothing.
func (c *session) closeDoor() {
	c.mu.Lock()
	if !c.closing {
		c.closing = true
		close(c.closed)
	}
	c.mu.Unlock()
}

// broken is called with the error of a write to the client.
func (c *session) broken(err error) {
	if closedPipe(err) {
		err = ErrClosed
	} else {
		c.fail(err)
	}
	c.cancel(err)
	c.closeDoor()
}

// fail notes what Serve is to return; the first failure is the one that counts.
func (c *session) fail(err error) {
	c.mu.Lock()
	if c.failure == nil {
		c.failure = err
	}
	c.mu.Unlock()
}

// wait returns when the session is over. It waits for the end to begin, brings
// the news to everybody, and gives them a bounded time.
func (c *session) wait() error {
	var cause error
	select {
	case <-c.eof:
		cause = ErrClosed
	case <-c.ctx.Done():
	}
	idle := make(chan struct{})
	go func() { // the drain waiter
		<-c.closed
		c.write() // what the reader still had to say
		c.wg.Wait()
		c.write()
		close(idle)
	}()

	if cause == nil {
		c.hangUp(context.Cause(c.ctx))
		c.closeDoor()
	} else {
		c.mu.Lock()
		if c.failure != nil {
			cause = c.failure
		}
		c.mu.Unlock()
		c.hangUp(cause)
		if c.srv.Linger > 0 {
			select {
			case <-idle:
			case <-c.ctx.Done():
			case <-time.After(c.srv.Linger):
			}
		}
		c.cancel(cause)
	}

	drain := c.srv.Drain
	if drain <= 0 {
		drain = time.Second
	}
	limit := time.NewTimer(drain)
	defer limit.Stop()
	var late error
	select {
	case <-idle:
	case <-limit.C:
		c.closeDoor()
		late = fmt.Errorf("%w: %s", ErrDrain, c.abandon())
	}
	c.out.stop()
	over := late != nil
	for _, side := range []*outlet{&c.notes, &c.trace} {
		for rest := side.end(); rest != nil && !over; rest = side.end() {
			select {
			case <-rest:
			case <-limit.C: // nobody reads our stderr: no reason to stay
				over = true
			}
		}
		side.stop()
	}
	c.mu.Lock()
	failure := c.failure
	c.mu.Unlock()
	return errors.Join(late, failure)
}

// abandon gives up on the work that is still under way, and names it.
func (c *session) abandon() string {
	c.mu.Lock()
	for _, r := range c.waiting { // they are not at work, and never will be
		if c.requests[string(r.id)] == r {
			delete(c.requests, string(r.id))
		}
		delete(c.forgotten, r)
		c.wg.Done()
	}
	c.waiting = nil
	var names []string
	for _, r := range c.requests {
		names = append(names, r.String())
	}
	for r := range c.forgotten {
		names = append(names, r.String()+", cancelled")
	}
	c.mu.Unlock()
	if len(names) == 0 {
		return "the client does not read what is written"
	}
	if more := len(names) - 10; more > 0 {
		names = append(names[:10], "and "+strconv.Itoa(more)+" more")
	}
	return strings.Join(names, "; ")
}

// closedPipe reports whether err means that the other end is gone, or that our
// own end was closed under us: neither is a failure.
func closedPipe(err error) bool {
	gone := []error{io.ErrClosedPipe, os.ErrClosed, syscall.EPIPE, syscall.ECONNRESET}
	if runtime.GOOS == "windows" {
		gone = append(gone, syscall.Errno(109), syscall.Errno(232)) // ERROR_BROKEN_PIPE, ERROR_NO_DATA
	}
	for _, e := range gone {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// stdioTaken guards what there is only one of: the process's stdin and stdout.
var stdioTaken atomic.Bool

// ServeStdio is [Server.Serve] on the process's standard input and output, the
// way in which MCP hosts start a server. It returns nil when the client closes
// the connection, when ctx ends, and on the first SIGINT or SIGTERM; a second
// signal has its usual effect. To exit with status 0 then, just return from main.
//
// While it serves, the wire is out of everybody's reach: os.Stdout is
// os.Stderr and os.Stdin is the null device, so that a stray fmt.Println, or a
// child process that was given them, cannot disturb the protocol. Code that
// runs at the same time must not assign to them. A closed stdout is an
// ordinary end and not a SIGPIPE. All this is undone when ServeStdio returns,
// with two exceptions: after an [ErrDrain] SIGPIPE stays harmless, and for one
// more second so does a first SIGINT or SIGTERM, so that main gets to its end.
//
// If [Server.Trace] is nil and the environment variable MCP_TRACE names a
// file, what would be traced is appended to that file.
//
// There is one stdin: ServeStdio returns an error at once if it is already
// serving. When ctx or a signal ended it, a read of stdin is still under way
// and takes what is typed next with it.
func (s *Server) ServeStdio(ctx context.Context) (err error) {
	if !stdioTaken.CompareAndSwap(false, true) {
		return errors.New("mcp: stdin and stdout are being served already")
	}
	defer stdioTaken.Store(false)

	in, out := os.Stdin, os.Stdout
	null, err := os.Open(os.DevNull)
	if err != nil && runtime.GOOS != "wasip1" { // which may have no devices
		return err
	}
	os.Stdin, os.Stdout = null, os.Stderr
	defer func() {
		os.Stdin, os.Stdout = in, out
		null.Close()
	}()

	// Notify and not Ignore: children inherit what is ignored.
	pipe := make(chan os.Signal, 1)
	signal.Notify(pipe, syscall.SIGPIPE)
	defer func() {
		if !errors.Is(err, ErrDrain) { // else a write may be under way, and fail while main cleans up
			signal.Stop(pipe)
		}
	}()
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	// Some hosts close stdin and send SIGTERM at once: main shall get to its end.
	defer time.AfterFunc(time.Second, stop)

	if terminal(in, null) {
		fmt.Fprintf(os.Stderr, "%s is an MCP server: it is meant to be started by an MCP host and speaks JSON-RPC on stdin and stdout. Ctrl-D or Ctrl-C ends it.\n", s.Name)
	}
	trace := s.Trace
	if name := os.Getenv("MCP_TRACE"); trace == nil && name != "" {
		f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			s.logf("mcp: MCP_TRACE: %v", err)
		} else {
			defer f.Close()
			trace = f
		}
	}
	return s.serve(ctx, in, out, trace)
}

// terminal reports whether f is a terminal: a character device, but not the
// null device.
func terminal(f, null *os.File) bool {
	fi, err := f.Stat()
	if err != nil || fi.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	device, err := null.Stat()
	return err != nil || !os.SameFile(fi, device)
}
