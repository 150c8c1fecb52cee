// SPDX-License-Identifier: MIT
// Version 4.2.2, 2026-11-29. The SHA-256 of each release of this file is in CHANGES.md of example.com/mcp.
// SPDX-FileCopyrightText: 2026 The mcp authors

package mcp

// How work ends.
//
//	event                        cause the handler sees          its response               Serve returns
//	notifications/cancelled      *CancelledError                 none                       continues
//	tasks/cancel                 *CancelledError                 none                       continues
//	initialize, again            *CancelledError                 -32603                     continues
//	EOF on r, or r is closed     ErrClosed, after CancelDelay    what the handler returns   nil
//	r fails otherwise            that error, after CancelDelay   what the handler returns   that error
//	w is a closed pipe           ErrClosed                       none can be written        nil
//	w fails otherwise            that error                      none                       that error
//	ctx ends, or a signal        context.Cause(ctx)              what the handler returns   nil, if w does not fail afterwards
//	handlers outlive WaitDelay   as above                        none after Serve's return   an ErrWaitDelay that names them
//
// Responses are still written after EOF, because a client may close only its half of
// the connection, as a shell does in `printf ... | server`. But responses of handlers
// that EOF has cancelled are held until the last of these handlers has returned. Some
// clients fail when they read a response after they have closed stdin, and then kill
// the server process, so the other handlers could not clean up.
//
// In the first two rows, only the questions of that request end. In the third, the requests of the older
// revisions end, and their questions. In all other rows, all questions to the client end at once. When
// handlers are cancelled, a request that waits for other requests or that was read ahead is not started,
// and gets the cause as its error.

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// ErrClosed is the cause of a handler's context, and the error of a question to the
// client, if the client has closed the connection. errors.Is(ErrClosed,
// [context.Canceled]) is true.
var ErrClosed error = &closedError{}

type closedError struct{}

func (*closedError) Error() string { return "mcp: the client has closed the connection" }

func (*closedError) Is(target error) bool { return target == context.Canceled }

// CancelledError is the cause of a handler's context if the client has cancelled the request or its
// task, or, in the older revisions, has sent initialize again, which ends all earlier requests. The
// result of the handler is discarded.
type CancelledError struct {
	Reason string // as the client gave it, often empty, or that initialize came again
}

func (e *CancelledError) Error() string {
	if e.Reason == "" {
		return "mcp: cancelled by the client"
	}
	return "mcp: cancelled by the client: " + e.Reason
}

// Is reports whether target is [context.Canceled], so that a program that retries an HTTP
// request sees that it was cancelled: package net/http returns the cause of a context.
func (e *CancelledError) Is(target error) bool { return target == context.Canceled }

// ErrWaitDelay is wrapped by the error of Serve if handlers did not return within
// [Server.WaitDelay], or if the client did not read all responses by then. The goroutines
// of these handlers keep running, but their results are discarded. A write that is
// already in progress may still finish.
var ErrWaitDelay = errors.New("mcp: work was unfinished when Server.WaitDelay had passed")

// ---- the client's cancel ----

// cancelRequest handles the client's cancel of the request with this id. It removes
// the request from the map first, so nothing more is sent for it. It does nothing if
// the id is unknown or the request has been answered.
func (c *session) cancelRequest(id []byte, reason string) {
	c.mu.Lock()
	r := c.requests[idKey(id)]
	if r != nil {
		c.removeLocked(r)
	}
	delete(c.streams, idKey(id)) // which is the usual end of a stream, and is not logged
	c.mu.Unlock()
	if r != nil {
		c.logf("%v was cancelled by the client: %s", r, cmp.Or(oneLine(reason), "no reason was given"))
		r.cancel(&CancelledError{reason})
	}
}

// removeLocked removes a request that its handler must not answer. If it waits for other requests, it never
// runs. The caller must hold c.mu, and cancels the request afterwards, unless ctx has ended.
func (c *session) removeLocked(r *request) {
	delete(c.requests, r.key)
	if r.place != nil {
		c.waiting.Remove(r.place) // which does nothing if r does not wait any more
	}
}

// ---- the end of a session ----

// graceTime is how long responses may be written after WaitDelay has passed. It is needed because they are
// held while one handler takes all of WaitDelay. 100 ms is enough to fill a pipe, and hardly delays the
// end. A write to the trace may take as long, too.
const graceTime = 100 * time.Millisecond

// endInput ends open if r has ended or failed. After the end of the session it does nothing: r may
// then be closed. Only the goroutine that has the turn to read may call it.
func (c *session) endInput() {
	if err := c.in.err; err != nil && c.open.Err() == nil {
		c.endOpen(c.recordEnd(err))
	}
}

// recordEnd returns the cause of the end for an error of r or w. If the error is a failure, and does not
// mean that the connection was closed, recordEnd records it: Serve returns the first one.
func (c *session) recordEnd(err error) error {
	if err == io.EOF || isClosedPipe(err) {
		return ErrClosed
	}
	c.mu.Lock()
	c.failed = cmp.Or(c.failed, err)
	c.mu.Unlock()
	return err
}

// endConversation ends all questions to the client with cause, and the subscriptions/listen requests,
// which are answered unless the client has closed the connection. It is needed because the contexts of
// the requests do not end before CancelDelay has passed. It sends to a copy of the calls without the
// lock, so that the waiters, which remove their entries from the map, need not wait for it.
func (c *session) endConversation(cause error) {
	c.mu.Lock()
	calls := slices.Collect(maps.Values(c.pending))
	for _, t := range c.tasks.byID {
		for _, q := range t.questions {
			calls = append(calls, q.answer)
		}
	}
	for key, st := range c.streams {
		if st.response != nil {
			delete(c.streams, key)
			if cause != ErrClosed {
				c.sendResponseLocked(st.response, nil)
			}
		}
	}
	c.mu.Unlock()
	for _, call := range calls {
		resolveCall(call, reply{err: cause})
	}
	c.out.start()
}

// cancelHandlers cancels every handler, and answers the requests that still wait. Since
// c.ctx has ended, no request is added to these meanwhile, and none of them starts.
func (c *session) cancelHandlers(cause error) {
	c.endCtx(cause)
	refusal := c.endError() // calls the user's code
	c.mu.Lock()
	for c.waiting.Len() > 0 {
		r := c.waiting.Front().Value.(*request)
		c.removeLocked(r)
		c.sendResponseLocked(r.errorResponse(refusal), nil)
	}
	c.mu.Unlock()
	c.out.start()
}

// endError is the error for a request that comes after the end of the session, or that was not started before ctx
// ended. If ctx ends first, open, which is below it, has no cause for a moment.
func (c *session) endError() *Error {
	return coded(codeInternal, cmp.Or(context.Cause(c.open), context.Cause(c.ctx)).Error())
}

// waitForEnd blocks until Serve may return, and returns its error. It waits for the end of the input or of
// ctx, and up to CancelDelay for the handlers. It then ends the work by the deadline, or up to graceTime later, and
// waits for the reports: printed is closed when the last of them has been printed.
//
//	open ends ─▶ up to CancelDelay ─▶ endWork, up to WaitDelay ─▶ deadline ─▶ graceTime ─▶ lastMoment
func (c *session) waitForEnd(printed <-chan struct{}) error {
	<-c.open.Done()
	cause := context.Cause(c.open)
	c.endConversation(cause)
	idle := make(chan struct{}) // closed when no message is accepted any more and the WaitGroup counts nothing
	go func() {
		<-c.turn.free // for good: now no request begins
		c.wg.Wait()
		close(idle)
	}()
	// Not a context below c.ctx with CancelDelay as its timeout: if c.ctx ends, it ends its children one by one,
	// so among very many handlers that one could end late, and the end would take longer than WaitDelay.
	//
	// Without a CancelDelay no timer is made: one that is over at once can crash the race detector of Go 1.26 in
	// a synctest bubble.
	if c.srv.CancelDelay > 0 {
		select {
		case <-idle:
		case <-c.ctx.Done():
		case <-time.After(c.srv.CancelDelay):
		}
	}
	deadline := time.Now().Add(cmp.Or(max(0, c.srv.WaitDelay), time.Second))
	unfinished := c.endWork(cause, idle, deadline)
	c.srv.removeSession(c) // so that nothing is sent on the channel when it has been closed
	close(c.hasReports)
	waitFor(printed, time.Until(deadline)) // not longer, because a log that is not read may block forever
	c.mu.Lock()
	failed := c.failed
	c.mu.Unlock()
	if len(unfinished) > 0 {
		return errors.Join(fmt.Errorf("%w: %s", ErrWaitDelay, strings.Join(unfinished, "; ")), failed)
	}
	return failed
}

// endWork ends what is left of a session, in three steps, and returns a text for each thing that was unfinished:
//
//	the handlers are cancelled         they have until the deadline; those that have not returned are listed
//	idle is closed                     if no handler is listed: a reader, and what is about to end, has until lastMoment
//	what is queued is written          until lastMoment, and then the writer is stopped
func (c *session) endWork(cause error, idle <-chan struct{}, deadline time.Time) (unfinished []string) {
	if cause == ErrClosed { // the client has closed its end; what has ended ctx since does not count
		c.out.hold() // until finish
	}
	allEnded := make(chan struct{}) // closed when cancelHandlers has returned and idle is closed
	// Not on this goroutine, because cancelHandlers takes long if there are many.
	go func() {
		c.cancelHandlers(cause)
		<-idle
		close(allEnded)
	}()
	waitFor(allEnded, time.Until(deadline))
	unfinished = c.listUnfinished()
	// Not deadline.Add(graceTime), because the deadline may be long ago: a busy machine has not run this
	// goroutine.
	lastMoment := time.Now().Add(max(0, time.Until(deadline)) + graceTime)
	if len(unfinished) == 0 {
		if hasEnded := waitFor(allEnded, time.Until(lastMoment)); !hasEnded {
			unfinished = append(unfinished, "a message was still being read")
		}
	}
	isWritten := c.out.finish(lastMoment)
	if !isWritten && len(unfinished) == 0 {
		unfinished = append(unfinished, "the client did not read all responses in time")
	}
	return unfinished
}

// waitFor blocks until done is closed or d has passed, and reports whether done is closed.
func waitFor(done <-chan struct{}, d time.Duration) bool {
	select {
	case <-done:
	case <-time.After(d):
	}
	select { // also if d was over from the beginning
	case <-done:
		return true
	default:
		return false
	}
}

// listUnfinished describes the requests whose handlers still run, for an ErrWaitDelay. It names ten, because
// there may be very many.
func (c *session) listUnfinished() (unfinished []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for r := range c.running {
		text := r.String()
		switch {
		case r.task != nil:
			text += ", a task"
		case c.requests[r.key] != r:
			text += ", cancelled"
		}
		unfinished = append(unfinished, text)
	}
	if more := len(unfinished) - 10; more > 0 {
		unfinished = append(unfinished[:10], fmt.Sprintf("and %d more", more))
	}
	return unfinished
}

// isClosedPipe reports whether err means that either end of the connection was
// closed. That is the usual end of a session and not a failure.
func isClosedPipe(err error) bool {
	ends := []error{io.ErrClosedPipe, os.ErrClosed, syscall.EPIPE, syscall.ECONNRESET}
	// ERROR_BROKEN_PIPE, ERROR_NO_DATA, ERROR_PIPE_NOT_CONNECTED, WSAECONNRESET
	if runtime.GOOS == "windows" {
		ends = append(ends, syscall.Errno(109), syscall.Errno(232), syscall.Errno(233), syscall.Errno(10054))
	}
	return slices.ContainsFunc(ends, func(end error) bool { return errors.Is(err, end) }) ||
		strings.HasSuffix(err.Error(), "use of closed network connection") // net.ErrClosed, without importing package net
}

// ---- the process ----

// Package syscall does not define these signals on every system.
const sighup, sigpipe = syscall.Signal(1), syscall.Signal(13)

// stdioTaken is set while a ServeStdio runs, and after an ErrWaitDelay: a process has one stdin and one
// stdout.
var stdioTaken atomic.Bool

// ServeStdio is [Server.Serve] on the process's standard input and output, which is how
// MCP hosts run a server. It also ends after the first signal that is one of
// [Server.Signals], and then returns nil if all work was finished. Signals within a second after the
// first have no effect, also while main finishes, because hosts and terminals send pairs. A later one has its
// default effect. Claude Code kills the process half a second after its first signal, so handlers
// and main have that long to clean up. A signal that was ignored when the process started, as under
// nohup, stays ignored. To exit with status 0, return from main.
//
// While ServeStdio runs, os.Stdout writes to stderr and os.Stdin reads the null device, also through
// copies of these variables. So a stray fmt.Println, a logger that was made with os.Stdout, and a
// child process that inherits them do not disturb the protocol. If ServeStdio returns an error that
// is [ErrWaitDelay], both stay diverted, because handlers still run, and ServeStdio cannot be called
// again. File descriptor 1 is still the protocol stream. A program must not close or assign os.Stdout
// and os.Stdin while ServeStdio runs, nor use them on another goroutine while it starts or returns.
//
// Some effects remain after ServeStdio. SIGPIPE, which a closed stdout raises, is caught. If neither a
// signal nor ctx has ended the session, Server.Signals have no effect for a second after ServeStdio has
// returned, because some hosts close stdin and send SIGTERM at the same time, and main must be able to
// finish.
//
// If the environment variable MCP_TRACE names a file, ServeStdio appends to it each line
// that it has read or written, unless the line is blank, with the time and "in" or "out". A line is cut
// after 64 MiB. The trace ends after a write to the file that fails or takes 100 ms.
//
// If another ServeStdio is running, or if os.Stdout is the same pointer as os.Stderr, ServeStdio returns an
// error at once. If it returns before the end of stdin, a read is still in progress, and the next input is
// lost.
func (s *Server) ServeStdio(ctx context.Context) error {
	if os.Stdout == os.Stderr { // the protocol would be written to stderr
		return errors.New("mcp: os.Stdout is os.Stderr: leave os.Stdout as it is, because ServeStdio diverts it")
	}
	if !stdioTaken.CompareAndSwap(false, true) {
		return errors.New("mcp: ServeStdio is already serving stdin and stdout")
	}
	stdin, stdout, restore := divertStdio()
	// Child processes inherit ignored signals, so SIGPIPE is caught and not ignored.
	signal.Notify(make(chan os.Signal, 1), sigpipe)
	ctx, stop := endOnSignal(ctx, s.Signals)
	defer stop()
	serving, stopServing := context.WithCancel(context.Background())
	defer stopServing()
	in, out := &stdioFile{stdin, serving, io.Discard}, &stdioFile{stdout, serving, io.Discard}
	if name := os.Getenv("MCP_TRACE"); name != "" {
		// With O_RDWR, opening a FIFO does not wait until another process reads from it.
		file, err := os.OpenFile(name, os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o600)
		if err != nil {
			s.report("mcp: MCP_TRACE: %v", err)
		} else {
			defer func() { _ = file.Close() }()
			in.trace, out.trace = &tracer{file: file, prefix: "in  "}, &tracer{file: file, prefix: "out "}
		}
	}
	err := s.Serve(ctx, in, out)
	if !errors.Is(err, ErrWaitDelay) { // otherwise handlers still run
		restore()
		stdioTaken.Store(false)
	}
	return err
}

// divertStdio makes os.Stdin the null device and os.Stdout stderr. It returns the files that they were, and a function that
// undoes this. The structs behind the two pointers are overwritten, so that every copy of the pointers is diverted. A File
// struct only points to its file, so the copies of the structs are the same files.
func divertStdio() (stdin, stdout *os.File, restore func()) {
	null, err := os.Open(os.DevNull)
	if err != nil { // as in an empty root directory
		null = os.NewFile(^uintptr(0)>>1, os.DevNull) // no file has this number, so each Read fails
	}
	in, out := *os.Stdin, *os.Stdout
	*os.Stdin, *os.Stdout = *null, *os.Stderr
	return &in, &out, func() {
		*os.Stdin, *os.Stdout = in, out
		_ = null.Close()
	}
}

// A stdioFile is stdin or stdout.
type stdioFile struct {
	*os.File
	serving context.Context // ends when ServeStdio returns
	trace   io.Writer
}

func (f *stdioFile) Read(b []byte) (int, error) {
	n, err := f.transfer(f.File.Read, b)
	if err != nil {
		_, _ = f.trace.Write([]byte("\n")) // ends a line without a newline
	}
	return n, err
}

func (f *stdioFile) Write(b []byte) (int, error) { return f.transfer(f.File.Write, b) }

// transfer calls do, which is Read or Write of the file, with b, and again with the rest of b while it fails
// with EAGAIN, until ServeStdio returns. It records in the trace what was read or written, also if do fails.
func (f *stdioFile) transfer(do func([]byte) (int, error), b []byte) (n int, err error) {
	n, err = do(b)
	// EAGAIN does not end the session: another process, which shares the pipe, may have made it non-blocking.
	for errors.Is(err, syscall.EAGAIN) && f.serving.Err() == nil {
		waitFor(f.serving.Done(), 10*time.Millisecond)
		more, retryErr := do(b[n:])
		n, err = n+more, retryErr
	}
	_, _ = f.trace.Write(b[:n])
	if errors.Is(err, syscall.EIO) {
		// A terminal is gone, as after the end of "docker run -t". The same error of another file is a failure.
		if info, statErr := f.Stat(); statErr == nil && info.Mode()&os.ModeCharDevice != 0 {
			err = io.ErrClosedPipe
		}
	}
	return n, err
}

// maxTraced bounds the memory of a line that is traced: what follows is left out.
const maxTraced = 64 << 20

// A tracer records in a file each line of what is written to it, unless it is blank. A write to the
// file must not keep the session from answering: a FIFO may be full because no process reads from it.
// A regular file has no deadlines and is fast.
type tracer struct {
	file   *os.File
	prefix string
	line   []byte // the beginning of a line
}

func (t *tracer) Write(b []byte) (int, error) {
	for part := range bytes.Lines(b) {
		t.line = append(t.line, part[:min(len(part), maxTraced-len(t.line))]...)
		if !bytes.HasSuffix(part, []byte("\n")) {
			break
		}
		t.line = bytes.TrimSuffix(t.line, []byte("\n"))
		if len(bytes.TrimSpace(t.line)) > 0 {
			_ = t.file.SetWriteDeadline(time.Now().Add(graceTime))
			if _, err := fmt.Fprintf(t.file, "%s %s%s\n", time.Now().Format("2006/01/02 15:04:05.000000"), t.prefix, t.line); err != nil {
				_ = t.file.Close()
			}
		}
		t.line = nil
	}
	return len(b), nil
}

// endOnSignal returns a context that ends with parent or with the first signal, and then has a cause that
// names the signal since Go 1.26. The caller must call stop when the session has ended. The effect of a signal:
//
//	before ctx has ended or stop was called         it ends ctx
//	in the second after the first of these events   none
//	later                                           its default
//
// Hosts, launchers and terminals send pairs of signals within this second, and mean one end.
func endOnSignal(parent context.Context, which []os.Signal) (ctx context.Context, stop func()) {
	if which == nil {
		which = []os.Signal{os.Interrupt, syscall.SIGTERM, sighup}
	}
	which = slices.DeleteFunc(slices.Clone(which), func(sig os.Signal) bool {
		return runtime.GOARCH != "wasm" && signal.Ignored(sig) // wasm has no signals, and Ignored panics
	})
	if len(which) == 0 { // NotifyContext would take it for all signals
		return parent, func() {}
	}
	// Until release is called, signals are caught. The first of them ends ctx, and the others have no effect.
	ctx, release := signal.NotifyContext(parent, which...)
	releaseLater := func() { time.AfterFunc(time.Second, release) } // a second call does no harm
	context.AfterFunc(ctx, releaseLater)
	return ctx, releaseLater
}
