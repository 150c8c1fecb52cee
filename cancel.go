// SPDX-License-Identifier: MIT
// Version 3.0.0, 2026-11-23

package mcp

// How work ends.
//
//	event                           cause the handler sees      its response                Serve returns
//	notifications/cancelled         *CancelledError             none                        continues
//	EOF on r, or r is closed        ErrClosed, after Linger     what the handler returns    nil
//	r fails otherwise               that error, after Linger    what the handler returns    that error
//	w is a closed pipe              ErrClosed                   none can be written         nil
//	w fails otherwise               that error                  none                        that error
//	ctx ends, or a signal ends      context.Cause(ctx)          what the handler returns    nil
//	ServeStdio
//	handlers outlive Drain          as above                    none after Serve returned   an ErrDrain that names them
//
// Responses are still written after EOF, because a client may close only its half of
// the connection, as a shell does in `printf ... | server`. But responses of handlers
// that EOF has cancelled are held until the last of these handlers has returned. Some
// clients fail when they read a response after they have closed stdin, and then kill
// the server process, so the other handlers could not clean up.
//
// In the first row, only the questions of that request end. In all other rows, all
// questions to the client end at once. A request that still waits for other requests
// when handlers are cancelled is not started, and gets the cause as its error.

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

// ErrClosed is the cause of a handler's context, and the error of a question to the
// client, if the client has closed the connection.
var ErrClosed = errors.New("mcp: the client has closed the connection")

// ErrDrain is wrapped by the error of Serve if handlers did not return within
// [Server.Drain], or if the client did not read all responses by then. The goroutines
// of these handlers keep running, but their results are discarded. A write that is
// already in progress may still finish.
var ErrDrain = errors.New("mcp: work was unfinished when Server.Drain had passed")

// CancelledError is the cause of a handler's context if the client has cancelled the
// request. The result of the handler is discarded.
type CancelledError struct {
	Reason string // as the client gave it; often empty
}

func (e *CancelledError) Error() string {
	if e.Reason == "" {
		return "mcp: cancelled by the client"
	}
	return "mcp: cancelled by the client: " + e.Reason
}

// ---- the client's cancel ----

// cancelRequest handles the client's cancel of the request with this id. It removes
// the request from the map first, so nothing more is sent for it. It does nothing if
// the id is unknown or the request has been answered.
func (c *session) cancelRequest(id []byte, reason string) {
	c.mu.Lock()
	r := c.requests[string(id)]
	if r != nil {
		delete(c.requests, string(id))
		c.removeStreamLocked(r.stream)
		if r.element != nil { // it was not started
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
	if r.stream == nil { // a cancel is the usual end of a stream, and is not logged
		why := (&CancelledError{oneLine(reason)}).Error()
		c.logf("%v was %s", r, strings.TrimPrefix(why, "mcp: "))
	}
	r.cancel(&CancelledError{reason})
}

// ---- the end of a session ----

// graceTime bounds a last write, and the wait for a logger to be restored.
const graceTime = 100 * time.Millisecond

// endInput is called with the error of r when r has ended or failed. A second call
// does nothing. Only the goroutine that has the turn to read may call it. After the
// session has ended, the user may close r; the error that follows is not reported.
func (c *session) endInput(err error) {
	if isClosed(c.inputOver) {
		return
	}
	if err != io.EOF && !isClosedPipe(err) && c.ctx.Err() == nil {
		c.fail(err)
	}
	close(c.inputOver)
}

// failWrite ends the session after an error of w.
func (c *session) failWrite(err error) {
	if isClosedPipe(err) {
		err = ErrClosed
	} else {
		c.fail(err)
	}
	c.cancel(err)
	c.stopAccepting()
}

// stopAccepting makes sure that no further line is accepted. From then on the
// WaitGroup does not rise from zero. A second call does nothing.
func (c *session) stopAccepting() {
	c.mu.Lock()
	if !isClosed(c.closing) {
		close(c.closing)
	}
	c.mu.Unlock()
}

// wakeWaiters ends all questions to the client with cause. It uses a copy of the map
// and sends without the lock, because each waiter that it wakes needs the lock to
// remove its own entry. The contexts of the requests are not enough to wake the
// waiters: while handlers linger, these contexts do not end.
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

// cancelHandlers cancels every handler, and answers the requests that still wait. Since
// c.ctx has ended, no request is added to these meanwhile, and none of them starts.
func (c *session) cancelHandlers(cause error) {
	c.cancel(cause)
	refused := 0
	c.mu.Lock()
	for r := c.takeWaitingLocked(); r != nil; r = c.takeWaitingLocked() {
		c.mu.Unlock()
		c.respond(r, r.refuseNotStarted())
		refused++
		c.mu.Lock()
	}
	if refused > 0 {
		c.startWriterLocked() // while the WaitGroup still counts these requests
		c.wg.Add(-refused)
	}
	c.mu.Unlock()
}

// refuseNotStarted returns the response to a request that was not started before the
// session ended.
func (r *request) refuseNotStarted() []byte {
	return r.failureResponse(r.session.cause())
}

// cause returns why the session ends: the cause of ctx, which may be an error of w,
// or else the error of r. If there is none, it is ErrClosed.
func (c *session) cause() error {
	return cmp.Or(context.Cause(c.ctx), context.Cause(c.failed), ErrClosed)
}

// waitForEnd blocks until the session has ended, and returns the error of Serve. It
// waits for the end of the input or of ctx, cancels the handlers, and waits up to
// Drain for them.
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
	defer time.AfterFunc(cmp.Or(max(0, c.srv.Drain), time.Second), func() { close(limit) }).Stop()
	unfinished := ""
	select {
	case <-idle:
	case <-limit:
		if unfinished = c.listUnfinished(); unfinished != "" {
			c.stopAccepting()
			c.out.setHeld(false)
			doWithin(graceTime, c.writeHeld)
		} else if doWithin(graceTime, func() { <-idle }); !isClosed(idle) {
			c.stopAccepting()
			unfinished = "the client did not read all responses in time"
		}
	}
	c.out.stop()
	if unfinished != "" {
		return errors.Join(fmt.Errorf("%w: %s", ErrDrain, unfinished), context.Cause(c.failed))
	}
	c.waitForDiagnostics(limit)
	return context.Cause(c.failed)
}

// writeHeld writes the responses that were held, after a Write that may be in
// progress. It returns when they are written, or when lineWriter.stop is called.
func (c *session) writeHeld() {
	c.writeOutput()
	c.out.waitUntilWritten(c.out.position(), nil)
}

// waitUntilIdle closes idle when the session is closing, the WaitGroup has reached
// zero, and everything is written.
func (c *session) waitUntilIdle(idle chan<- struct{}) {
	<-c.closing
	c.writeOutput() // responses that were queued before the end
	c.wg.Wait()
	c.out.setHeld(false)
	c.writeOutput()
	close(idle)
}

// waitForLinger blocks for Server.Linger, or until no handler runs or c.ctx ends.
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

// waitForDiagnostics blocks until the trace and the diagnostics are written, or limit
// is closed.
func (c *session) waitForDiagnostics(limit <-chan struct{}) {
	for _, side := range []*lineWriter{&c.notes, c.trace} {
		if side != nil {
			side.waitUntilWritten(side.position(), limit)
		}
	}
}

// listUnfinished returns the requests that are still in progress, for an ErrDrain, or
// "" if there are none. Streams are left out, because they end without delay.
func (c *session) listUnfinished() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var names []string
	for _, r := range c.requests {
		if r.stream == nil {
			names = append(names, r.String())
		}
	}
	for r := range c.running {
		if c.requests[string(r.id)] != r {
			names = append(names, r.String()+", cancelled")
		}
	}
	if more := len(names) - 10; more > 0 {
		names = append(names[:10], "and "+strconv.Itoa(more)+" more")
	}
	return strings.Join(names, "; ")
}

// doWithin calls do on a new goroutine, and waits until it returns, but no longer
// than d.
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

// isClosedPipe reports whether err means that either end of the connection was
// closed. That is the usual end of a session and not a failure.
func isClosedPipe(err error) bool {
	ends := []error{io.ErrClosedPipe, os.ErrClosed, syscall.EPIPE, syscall.ECONNRESET}
	if runtime.GOOS == "windows" { // ERROR_BROKEN_PIPE, ERROR_NO_DATA, ERROR_PIPE_NOT_CONNECTED, WSAECONNRESET
		ends = append(ends, syscall.Errno(109), syscall.Errno(232), syscall.Errno(233), syscall.Errno(10054))
	}
	return slices.ContainsFunc(ends, func(end error) bool { return errors.Is(err, end) }) ||
		strings.HasSuffix(err.Error(), "use of closed network connection") // net.ErrClosed, without importing package net
}

// ---- the process ----

// Package syscall does not define these signals on every system.
const (
	sighup  = syscall.Signal(1)
	sigpipe = syscall.Signal(13)
)

// stdioTaken is set while a ServeStdio runs: a process has one stdin and one stdout.
var stdioTaken atomic.Bool

// ServeStdio is [Server.Serve] on the process's standard input and output, which is
// how MCP hosts run a server. It returns nil when the client closes the connection,
// when ctx ends, and after the first signal that is one of [Server.Signals]. A second
// signal has its default effect. A signal that was ignored when the process started,
// as under nohup, stays ignored. To exit with status 0, return from main.
//
// While ServeStdio runs, os.Stdout is os.Stderr and os.Stdin is the null device, so
// that a stray fmt.Println, or a child process that inherits them, does not disturb
// the protocol. Do not assign to them while it runs, and do not use them on another
// goroutine while it starts or returns. The standard logger and [Server.ErrorLog]
// write to stderr meanwhile if they wrote to stdout. Anything that captured os.Stdout
// earlier, such as a package-level slog handler, still writes to the protocol stream.
// Give it os.Stderr. SIGPIPE, which a closed stdout raises, is caught.
//
// When ServeStdio returns it restores all of this. But after an [ErrDrain], or if a
// write of diagnostics or of the trace is still in progress, SIGPIPE stays caught. And
// if no signal has ended the session, Server.Signals are ignored for another second,
// because some hosts close stdin and send SIGTERM at the same time, and main must be
// able to finish.
//
// If the environment variable MCP_TRACE names a file, ServeStdio appends to it each
// line that it has read or written, with the time and "in" or "out". Messages do not
// wait for the file. While more than 64 MiB of the trace are unwritten, lines are
// dropped.
//
// If another ServeStdio is running, ServeStdio returns an error at once. If it
// returns before the end of stdin, a read is still in progress, and the next input is
// lost.
func (s *Server) ServeStdio(ctx context.Context) error {
	if !stdioTaken.CompareAndSwap(false, true) {
		return errors.New("mcp: ServeStdio is already serving stdin and stdout")
	}
	defer stdioTaken.Store(false)
	in, out := os.Stdin, os.Stdout
	null, _ := os.Open(os.DevNull) // if that fails, null is nil, and reading from it fails
	defer null.Close()
	os.Stdin, os.Stdout = null, os.Stderr
	defer func() { os.Stdin, os.Stdout = in, out }()
	defer redirectToStderr(log.Default(), out, graceTime)()
	defer redirectToStderr(s.ErrorLog, out, graceTime)()

	// Child processes inherit ignored signals, so SIGPIPE is caught and not ignored.
	pipe, writing := make(chan os.Signal, 1), false
	signal.Notify(pipe, sigpipe)
	defer func() {
		if !writing { // otherwise the write could raise SIGPIPE while main cleans up
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
		// With O_RDWR, opening a FIFO does not wait until another process reads from
		// it.
		file, err := os.OpenFile(name, os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o600)
		if err != nil {
			s.logf("mcp: MCP_TRACE: %v", err)
		} else {
			defer file.Close()
			trace = file
		}
	}
	var err error
	writing, err = s.serveSession(ctx, r, w, trace)
	return err
}

// If l writes to out, redirectToStderr makes it write to stderr. It returns a
// function that restores the logger, or gives up after d: a logger is locked during a
// write, which may block.
func redirectToStderr(l *log.Logger, out *os.File, d time.Duration) (back func()) {
	if l == nil || l.Writer() != io.Writer(out) {
		return func() {}
	}
	stderr := io.Writer(os.Stderr)
	l.SetOutput(stderr)
	return func() {
		doWithin(d, func() {
			if l.Writer() == stderr { // unless other code has called SetOutput since
				l.SetOutput(out)
			}
		})
	}
}

// endOnSignal returns a context that the first signal ends, with a cause that names
// the signal. The second signal has its default effect. The caller must call stop
// when the session has ended.
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
	go func() {
		defer close(waited)
		select {
		case sig := <-signals:
			signal.Stop(signals)
			cancel(errors.New(sig.String() + " signal received"))
		case <-over:
			// Some hosts close stdin and send SIGTERM at the same time; main must be
			// able to finish.
			time.AfterFunc(time.Second, func() { signal.Stop(signals) })
		}
	}()
	return ctx, func() {
		close(over)
		<-waited
		cancel(nil)
	}
}

// isTerminal reports whether f is a terminal: a character device other than the null
// device.
func isTerminal(f, null *os.File) bool {
	fi, err := f.Stat()
	if err != nil || fi.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	device, err := null.Stat()
	return err != nil || !os.SameFile(fi, device)
}

// A terminalFile is a terminal. If its other end is closed, Read returns io.EOF and
// Write io.ErrClosedPipe instead of EIO.
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
