// SPDX-License-Identifier: MIT
// Version 2.4.0, 2026-11-23

package mcp

// How work ends.
//
//	event                           cause the handler sees      its answer                  Serve returns
//	notifications/cancelled         *CancelledError             none                        goes on
//	EOF on r, or r is closed        ErrClosed, after Linger     what the handler returns    nil
//	r fails otherwise               that error, after Linger    what the handler returns    that error
//	w is a closed pipe              ErrClosed                   none: nobody reads it       nil
//	w fails otherwise               that error                  none                        that error
//	ctx ends; SIGINT, SIGTERM or    context.Cause(ctx); under   what the handler returns    nil
//	SIGHUP under ServeStdio         ServeStdio, the signal
//	handlers outlive Drain          as above                    none after Serve returned   an ErrDrain that names them
//
// EOF still lets answers out, because a client may close only its half of the
// connection, as a shell does in `printf ... | server`. But what handlers answer
// that EOF has cancelled is held until the last of them has returned. Some clients
// fail when they read an answer after they have closed stdin, and then kill the
// server process: the other handlers could not clean up.
// In the first row only that request's questions to the client end; in all others
// everybody who waits for the client is told at once. A request that still waits for
// others to end when handlers are cancelled is not begun, and is answered with the cause.

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
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
// [Server.Drain] had passed, or the client had not read by then what was written for
// it. Their goroutines are still there, but nothing that they return is written
// any more. One write that was on its way then may still come to its end.
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

// ---- the client's cancel ----

// cancelRequest is the client's cancel of the request with this id. The entry
// goes first, so that nothing is owed and nothing more is written for it. A
// request that is unknown, or answered already, is not looked for any further.
func (c *session) cancelRequest(id []byte, reason string) {
	c.mu.Lock()
	r := c.requests[string(id)]
	if r != nil {
		delete(c.requests, string(id))
		c.removeStreamLocked(r.stream)
		if r.element != nil { // it never began to run
			c.waiting.Remove(r.element)
			r.element = nil
			c.wg.Done()
		}
		c.sendResponseLocked(r.batch, nil)
	}
	c.mu.Unlock()
	if r == nil {
		return
	}
	if r.stream == nil { // a stream is meant to be ended like this
		why := (&CancelledError{oneLine(reason)}).Error()
		c.logf("%v was %s", r, strings.TrimPrefix(why, "mcp: "))
	}
	r.cancel(&CancelledError{reason})
}

// ---- the end of a session ----

// inputEnded is called with the error of r, when that has ended or failed. The second
// time it does nothing. Only whoever has the turn to read may call it. After the
// session has ended the user may close r; the error that follows is not reported.
func (c *session) endInput(err error) {
	if isClosed(c.inputOver) {
		return
	}
	if err != io.EOF && !isClosedPipe(err) && c.ctx.Err() == nil {
		c.fail(err)
	}
	close(c.inputOver)
}

// writeFailed is called with the error of a write to the client.
func (c *session) failWrite(err error) {
	if isClosedPipe(err) {
		err = ErrClosed
	} else {
		c.fail(err)
	}
	c.cancel(err)
	c.stopAccepting()
}

// stopAccepting sees to it that no further line is accepted. From here on the
// WaitGroup does not rise from zero. The second time it does nothing.
func (c *session) stopAccepting() {
	c.mu.Lock()
	if !isClosed(c.closing) {
		close(c.closing)
	}
	c.mu.Unlock()
}

// wakeWaiters tells everybody who asks the client that it is gone. It walks a copy
// of the map, and without the lock: whoever is told comes straight back to take its
// own entry out, for which it needs the lock. A call is told through the map and not
// through the context of its request alone: that context lasts while handlers linger.
func (c *session) wakeWaiters(cause error) {
	c.mu.Lock()
	c.askErr = cause
	calls := make([]chan reply, 0, len(c.pending))
	for _, call := range c.pending {
		calls = append(calls, call)
	}
	c.mu.Unlock()
	for _, call := range calls {
		resolveCall(call, reply{err: cause})
	}
}

// cancelAll cancels every handler, and lets in the first of the requests whose turn
// has not come. Each of them is answered by notBegun, and lets the next one in.
func (c *session) cancelHandlers(cause error) {
	c.cancel(cause)
	c.mu.Lock()
	c.startNextLocked()
	c.mu.Unlock()
}

// notBegun is the handler of a request that is let in when the session has ended.
func (r *request) refuseNotStarted() []byte {
	return r.failureAnswer(r.session.cause())
}

// cause returns why the session ends: because of ctx or w, or else because of r. As
// long as it has not ended, that is ErrClosed.
func (c *session) cause() error {
	return cmp.Or(context.Cause(c.ctx), context.Cause(c.failed), ErrClosed)
}

// wait returns when the session is over. It waits for the end to begin, brings
// the news to everybody, and gives them a bounded time.
func (c *session) waitForEnd() error {
	select {
	case <-c.inputOver:
	case <-c.ctx.Done():
		c.stopAccepting()
	}
	idle := make(chan struct{})
	go c.waitUntilIdle(idle)
	cause := c.cause()
	c.wakeWaiters(cause)
	if c.ctx.Err() == nil {
		c.waitForLinger(idle)
		c.out.setHeld(true)
	}
	c.cancelHandlers(cause)
	limit := make(chan struct{})
	defer time.AfterFunc(c.srv.drainTime(), func() { close(limit) }).Stop()
	select {
	case <-idle:
		c.out.stop()
		c.waitForDiagnostics(limit)
		return context.Cause(c.failed)
	case <-limit:
		c.stopAccepting()
		late := fmt.Errorf("%w: %s", ErrDrain, c.listUnfinished())
		c.out.setHeld(false)
		doWithin(c.srv.graceTime(), c.writeHeld)
		c.out.stop()
		return errors.Join(late, context.Cause(c.failed))
	}
}

// writeHeld writes what was held, if the client takes it, also behind a Write that is
// under way. It ends when lineWriter.stop is called, at the latest.
func (c *session) writeHeld() {
	c.writeOutput()
	c.out.waitUntilWritten(c.out.position(), nil)
}

// drain closes idle when all that was begun is through, and written.
func (c *session) waitUntilIdle(idle chan<- struct{}) {
	<-c.closing
	c.writeOutput() // answers that were ready before the end
	c.wg.Wait()
	c.out.setHeld(false)
	c.writeOutput()
	close(idle)
}

// linger lets handlers go on for a while after the end of the input.
func (c *session) waitForLinger(idle <-chan struct{}) {
	if c.srv.Linger <= 0 {
		return
	}
	select {
	case <-idle:
	case <-c.ctx.Done():
	case <-time.After(c.srv.Linger):
	}
}

// awaitDiagnostics waits until the trace and the diagnostics of this session are
// written, or Drain is over: that nobody reads our stderr is no reason to stay.
func (c *session) waitForDiagnostics(limit <-chan struct{}) {
	for _, side := range []*lineWriter{&c.notes, c.trace} {
		if side != nil {
			side.waitUntilWritten(side.position(), limit)
		}
	}
}

// unfinished names the work that is still under way.
func (c *session) listUnfinished() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var names []string
	for _, r := range c.requests {
		names = append(names, r.String())
	}
	for r := range c.running {
		if c.requests[string(r.id)] != r {
			names = append(names, r.String()+", cancelled")
		}
	}
	if len(names) == 0 {
		return "the client did not read in time what was written"
	}
	if more := len(names) - 10; more > 0 {
		names = append(names[:10], "and "+strconv.Itoa(more)+" more")
	}
	return strings.Join(names, "; ")
}

// maxDrain is Server.Drain, or its default.
func (s *Server) drainTime() time.Duration {
	return cmp.Or(max(0, s.Drain), time.Second)
}

// moment is how long what ought to be quick may still take when Drain is over.
func (s *Server) graceTime() time.Duration {
	return min(s.drainTime()/10, 100*time.Millisecond)
}

// within has another goroutine do something, and waits until it is done, but no
// longer than d.
func doWithin(d time.Duration, do func()) {
	done := make(chan struct{})
	go func() {
		do()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(d):
	}
}

// closedPipe reports whether err means that the other end is gone, or that our
// own end was closed under us: neither is a failure.
func isClosedPipe(err error) bool {
	ends := []error{io.ErrClosedPipe, os.ErrClosed, syscall.EPIPE, syscall.ECONNRESET}
	if runtime.GOOS == "windows" { // ERROR_BROKEN_PIPE, ERROR_NO_DATA, ERROR_PIPE_NOT_CONNECTED, WSAECONNRESET
		ends = append(ends, syscall.Errno(109), syscall.Errno(232), syscall.Errno(233), syscall.Errno(10054))
	}
	return slices.ContainsFunc(ends, func(end error) bool { return errors.Is(err, end) }) ||
		strings.HasSuffix(err.Error(), "use of closed network connection") // net.ErrClosed, without package net
}

// ---- the process ----

// Signals by their numbers: package syscall does not name them on every system.
const (
	sighup  = syscall.Signal(1)
	sigpipe = syscall.Signal(13)
)

// stdioTaken guards what there is only one of: the process's stdin and stdout.
var stdioTaken atomic.Bool

// ServeStdio is [Server.Serve] on the process's standard input and output, the
// way in which MCP hosts start a server. It returns nil when the client closes
// the connection, when ctx ends, and on the first SIGINT, SIGTERM or SIGHUP; a
// second signal has its usual effect. To exit with status 0 then, just return
// from main. A signal that was ignored when the process started stays ignored,
// as under nohup.
//
// While it serves, os.Stdout is os.Stderr and os.Stdin is the null device, so
// that a stray fmt.Println, or a child process that was given them, cannot
// disturb the protocol. Code that runs while ServeStdio begins or returns must not use
// them, and no code may assign to them while it serves.
// The standard logger and [Server.ErrorLog] are turned to stderr if they write to
// stdout. What else took os.Stdout before, such as a slog handler made at the
// start, still writes to the wire: give it os.Stderr. A closed stdout is an
// ordinary end and not a SIGPIPE. All this is undone when ServeStdio returns.
// There are two exceptions. After an [ErrDrain], SIGPIPE stays harmless. After an
// end that no signal has caused, SIGINT, SIGTERM and SIGHUP are ignored for one
// more second, so that main gets to its end.
//
// If the environment variable MCP_TRACE names a file, every line that is taken from the
// client or was written to it is appended to that file, after the time and "in" or "out".
// No message waits for that: while 64 MiB of it are unwritten, lines are left out.
//
// There is one stdin: ServeStdio returns an error at once if it is already
// serving. When it returns before the end of stdin, a read is still under way and
// takes what is typed next with it.
func (s *Server) ServeStdio(ctx context.Context) (err error) {
	if !stdioTaken.CompareAndSwap(false, true) {
		return errors.New("mcp: stdin and stdout are being served already")
	}
	defer stdioTaken.Store(false)
	in, out := os.Stdin, os.Stdout
	null, _ := os.Open(os.DevNull) // without one, nil is as good: all that it does fails
	defer null.Close()
	os.Stdin, os.Stdout = null, os.Stderr
	defer func() { os.Stdin, os.Stdout = in, out }()
	defer redirectToStderr(log.Default(), out, s.graceTime())()
	defer redirectToStderr(s.ErrorLog, out, s.graceTime())()

	// Notify and not Ignore: children inherit what is ignored.
	pipe := make(chan os.Signal, 1)
	signal.Notify(pipe, sigpipe)
	defer func() {
		if !errors.Is(err, ErrDrain) { // else a write may be under way, and fail while main cleans up
			signal.Stop(pipe)
		}
	}()
	ctx, stop := endOnSignal(ctx, s.Signals)
	defer stop()

	r, w := io.Reader(in), io.Writer(out)
	if isTerminal(out, null) {
		w = terminalFile{out}
	}
	if isTerminal(in, null) {
		r = terminalFile{in}
		fmt.Fprintf(os.Stderr, "%s is an MCP server: it is meant to be started by an MCP host and speaks JSON-RPC on stdin and stdout. Ctrl-D or Ctrl-C ends it.\n", s.Name)
	}
	var trace io.Writer
	if name := os.Getenv("MCP_TRACE"); name != "" {
		// With O_RDWR, opening a FIFO does not wait until another process reads from it.
		file, err := os.OpenFile(name, os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o600)
		if err != nil {
			s.logf("mcp: MCP_TRACE: %v", err)
		} else {
			defer file.Close()
			trace = file
		}
	}
	return s.serveSession(ctx, r, w, trace)
}

// turnToStderr turns a logger away from out, and returns what turns it back. That
// waits no longer than d: a logger is locked while a line is being written, which
// nobody may read.
func redirectToStderr(l *log.Logger, out *os.File, d time.Duration) (back func()) {
	if l == nil || l.Writer() != io.Writer(out) {
		return func() {}
	}
	stderr := io.Writer(os.Stderr)
	l.SetOutput(stderr)
	return func() {
		doWithin(d, func() {
			if l.Writer() == stderr { // nobody has turned it elsewhere since
				l.SetOutput(out)
			}
		})
	}
}

// endOnSignal returns a context that the first signal ends, with a cause that
// names it; the second has its usual effect. stop is to be called when the
// session is over.
func endOnSignal(parent context.Context, which []os.Signal) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 1)
	if which == nil {
		which = []os.Signal{os.Interrupt, syscall.SIGTERM, sighup}
	}
	for _, sig := range which {
		if runtime.GOARCH == "wasm" || !signal.Ignored(sig) { // wasm has no signals, and Ignored panics
			signal.Notify(signals, sig)
		}
	}
	over, waited := make(chan struct{}), make(chan struct{})
	go func() { // the signal waiter
		defer close(waited)
		select {
		case sig := <-signals:
			signal.Stop(signals)
			cancel(errors.New(sig.String() + " signal received"))
		case <-over:
			// Some hosts close stdin and send SIGTERM at once: main shall get to its end.
			time.AfterFunc(time.Second, func() { signal.Stop(signals) })
		}
	}()
	return ctx, func() {
		close(over)
		<-waited
		cancel(nil)
	}
}

// terminal reports whether f is a terminal: a character device, but not the
// null device.
func isTerminal(f, null *os.File) bool {
	fi, err := f.Stat()
	if err != nil || fi.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	device, err := null.Stat()
	return err != nil || !os.SameFile(fi, device)
}

// A terminalEnd is a terminal. When its other end is closed, a Read or a Write
// fails with EIO: an ordinary end.
type terminalFile struct{ *os.File }

func (t terminalFile) Read(b []byte) (int, error) {
	n, err := t.File.Read(b)
	if errors.Is(err, syscall.EIO) {
		err = io.EOF
	}
	return n, err
}

func (t terminalFile) Write(b []byte) (int, error) {
	n, err := t.File.Write(b)
	if errors.Is(err, syscall.EIO) {
		err = io.ErrClosedPipe
	}
	return n, err
}
