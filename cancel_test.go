// SPDX-License-Identifier: MIT
// SPDX-FileCopyrightText: 2026 The mcp authors

package mcp

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// ---- closed connections ----

// After a Write has failed, no response or error of a woken handler is written.
func TestNothingIsWrittenToAClosedPipe(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) {
		c := serve(t, &s.Server)
		c.initialize("2025-11-25", `{"roots":{}}`)
		for i := range 20 {
			c.send(fmt.Sprint(i+1, " call ask"))
		}
		c.send(listenLine)
		c.recv()
		before := c.tries
		c.setFail(func([]byte) (int, error) { return 0, syscall.EPIPE })
		c.send(pingLine)
		c.ends(0, nil)
		s.saw(t, slices.Repeat([]error{ErrClosed}, 20)...)
		if c.tries != before+1 {
			t.Errorf("%d writes to a closed stream, want one", c.tries-before)
		}
	})
}

// The error of an HTTP request that a cancelled handler made is context.Canceled, and so is
// the cause of the handler's context.
func TestCausesAreCanceled(t *testing.T) {
	for _, end := range []func(c *client){func(c *client) { c.send("cancel 1") }, func(c *client) { c.in.Close() }} {
		bubble(t, func(t *testing.T, s *stage) {
			web := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
				_, conn := net.Pipe() // which never responds
				return conn, nil
			}}
			var got, cause error
			add(&s.Server, "fetch", func(ctx context.Context) (string, error) {
				_, got = web.RoundTrip(must(http.NewRequestWithContext(ctx, "GET", "http://example.com/", nil)))
				cause = context.Cause(ctx)
				return "", got
			})
			c := serve(t, &s.Server)
			c.send("1+ call fetch")
			synctest.Wait()
			end(c)
			synctest.Wait()
			c.in.Close()
			<-c.done
			if !errors.Is(got, context.Canceled) || !errors.Is(cause, context.Canceled) || errors.Is(cause, context.DeadlineExceeded) {
				t.Errorf("got %v, cause %v", got, cause)
			}
		})
	}
}

// If a handler returns the error of its context, only the text of the cause is sent: a cause that is an *Error
// does not fail the request.
func TestCauseIsText(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) {
		add(&s.Server, "sleep", func(ctx context.Context) (string, error) { <-ctx.Done(); return "", ctx.Err() })
		c := serve(t, &s.Server)
		c.send("1+ call sleep")
		synctest.Wait()
		c.cancel(&Error{Code: 77, Message: "shutting down"})
		c.ends(0, nil)
		c.want("1+ failed shutting down")
	})
}

// ---- the table of endings ----

// Each row of the table at the top of cancel.go: the cause, the response, and what
// Serve returns. Each error that a closed pipe or connection causes is an ordinary end, for r
// and for w.
func TestEndings(t *testing.T) {
	boom := errors.New("boom")
	breakWith := func(n int, err error) func(*client) {
		return func(c *client) {
			c.setFail(func(b []byte) (int, error) { return min(n, len(b)-1), err })
			c.send(pingLine)
		}
	}
	type ending struct {
		name     string
		event    func(c *client)
		cause    error
		answered bool
		returns  error
	}
	endings := []ending{
		{"EOF", func(c *client) { c.in.Close() }, ErrClosed, true, nil},
		{"r fails", func(c *client) { c.in.CloseWithError(boom) }, boom, true, boom},
		{"r fails, wrapped", func(c *client) { c.in.CloseWithError(fmt.Errorf("usb: %w", boom)) }, boom, true, boom},
		{"w is a closed pipe", breakWith(0, syscall.EPIPE), ErrClosed, false, nil},
		{"w fails", breakWith(0, boom), boom, false, boom},
		{"w fails half way", breakWith(7, boom), boom, false, boom},
		{"w fails, wrapped", breakWith(0, &os.PathError{Op: "write", Path: "f", Err: syscall.ENOSPC}), syscall.ENOSPC, false, syscall.ENOSPC},
		{"w writes short", breakWith(7, nil), io.ErrShortWrite, false, io.ErrShortWrite},
		{"EOF, and w is a closed pipe", func(c *client) { breakWith(0, syscall.EPIPE)(c); c.in.Close() }, ErrClosed, false, nil},
		{"ctx ends", func(c *client) { c.cancel(nil) }, context.Canceled, true, nil},
		{"ctx ends with a cause", func(c *client) { c.cancel(boom) }, boom, true, nil},
	}
	path := func(err error) error { return &os.PathError{Op: "write", Path: "/dev/stdout", Err: err} }
	closed := []error{
		io.ErrClosedPipe, os.ErrClosed, path(os.ErrClosed),
		syscall.EPIPE, path(syscall.EPIPE), path(syscall.ECONNRESET),
		fmt.Errorf("tls: %w", path(os.NewSyscallError("write", syscall.EPIPE))),
		path(errors.New("use of closed network connection")),
	}
	if runtime.GOOS == "windows" {
		for _, n := range []syscall.Errno{109, 232, 233, 10054} {
			closed = append(closed, path(n))
		}
	}
	for _, err := range closed {
		endings = append(endings, ending{"w fails: " + err.Error(), breakWith(0, err), ErrClosed, false, nil},
			ending{"r fails: " + err.Error(), func(c *client) { c.in.CloseWithError(err) }, ErrClosed, true, nil})
	}
	for _, row := range endings {
		t.Run(row.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *stage) {
				c := serve(t, &s.Server)
				c.send("1+ call wait")
				c.want()
				time.Sleep(time.Hour) // nothing ends by itself
				c.want()
				row.event(c)
				c.ends(0, row.returns)
				s.saw(t, row.cause)
				if got := c.recv(); !row.answered {
					if len(got) != 0 {
						t.Errorf("written: %q", got)
					}
				} else if len(got) != 1 || !strings.Contains(got[0], `"isError":true`) || !strings.Contains(got[0], row.cause.Error()) {
					t.Errorf("response: %q", got)
				}
			})
		})
	}
}

// A client that closes its end right after its requests receives all responses.
func TestEOFAfterRequestsLosesNoResponse(t *testing.T) {
	for _, max := range []int{0, 1, 3} {
		s := newStage()
		s.MaxConcurrent = max
		var script, want []string
		for i := range 200 {
			script = append(script, full(fmt.Sprint(2*i, "+ call hi")), full(fmt.Sprint(2*i+1, " ping")))
			want = append(want, full(fmt.Sprint(2*i, "+ said hi")), full(fmt.Sprint(2*i+1, " {}")))
		}
		got := feed(t, &s.Server, strings.NewReader(strings.Join(script, "\n"))) // the last line has no newline
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("MaxConcurrent %d: got %d responses: %q", max, len(got), got)
		}
	}
}

// The end of the input is seen as soon as Read returns it, also if too much output is
// unsent, and if much input is before it. Responses after the end have the same bound
// as all output.
func TestEOFIsSeenWhileOutputIsUnsent(t *testing.T) {
	for name, input := range map[string]string{
		"nothing":      "",
		"requests":     strings.Repeat(pingLine+"\n", 2<<20/len(pingLine)),
		"invalid":      strings.Repeat("x\n", 1<<19),
		"large result": strings.Repeat(full("9+ resources/list")+"\n", 100),
	} {
		if raceBuild() && name == "invalid" { // which takes long
			continue
		}
		bubble(t, func(t *testing.T, s *stage) {
			s.AddResource(Resource{URI: "x:y", Name: "y", Description: strings.Repeat("x", 1<<20)}, texts("z"))
			add(&s.Server, "big", func(context.Context) (string, error) {
				<-s.release
				return strings.Repeat("x", outputBound), nil
			})
			c := serveUnread(t, &s.Server)
			c.send("1+ call wait", "2+ call big", "3+ call big")
			synctest.Wait() // the reader is in Read
			close(s.release)
			synctest.Wait() // too much output is unsent, and is not read
			io.WriteString(c.in, input)
			c.in.Close()
			synctest.Wait()
			s.saw(t, ErrClosed)
			if n := s.openSessions()[0].out.position(); n > 3*outputBound {
				t.Errorf("%s: %d MiB are unsent", name, n>>20)
			}
			c.ends(1100*time.Millisecond, ErrWaitDelay)
		})
	}
}

// Input after the end of the session is not kept, however long its lines are.
func TestInputAfterTheEndIsDiscarded(t *testing.T) {
	skipIfNotMeasurable(t)
	const total = 16 << 20
	for _, size := range []int{100, 64 << 10} {
		bubble(t, func(t *testing.T, s *stage) {
			c := serve(t, &s.Server)
			c.send("1+ call deaf")
			time.Sleep(maxInline) // another goroutine reads now
			c.cancel(nil)
			synctest.Wait()
			line, before := append(bytes.Repeat([]byte("x"), size-1), '\n'), heap()
			cost := allocated(func() {
				for range total / size {
					c.in.Write(line)
				}
			})
			if kept := heap() - before; cost > 2*total || kept > 256<<10 {
				t.Errorf("16 MiB in Writes of %d bytes allocate %.0f KiB and keep %d KiB", size, cost/1024, kept>>10)
			}
			close(s.release)
			c.ends(0, nil)
		})
	}
}

// Serve does not return the error of a Reader that is closed after ctx has ended.
func TestReaderClosedAfterContextEnds(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) {
		c := serve(t, &s.Server)
		c.send("1+ call deaf")
		time.Sleep(maxInline) // another goroutine reads now
		c.cancel(errors.New("shut down"))
		synctest.Wait()
		c.in.CloseWithError(errors.New("closed by the caller"))
		synctest.Wait()
		close(s.release)
		c.ends(0, nil)
	})
}

// Responses of handlers that EOF has cancelled are held until the last handler has
// returned or WaitDelay has passed. While CancelDelay lasts they are sent at once. A request that
// the client has cancelled gets no response, also if the input ends later.
func TestResponsesAreHeldUntilHandlersReturn(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) {
		c := serve(t, &s.Server)
		c.send("1+ call wait", "2+ call wait", "3+ call deaf")
		c.want()
		c.send("cancel 1", "cancel 3")
		c.want()
		s.saw(t, stopped)
		c.in.Close()
		c.want() // held, until the last handler has returned
		s.saw(t, ErrClosed)
		close(s.release)
		c.ends(0, nil)
		c.want("2+ failed " + ErrClosed.Error())
		s.saw(t, stopped)
	})
	bubble(t, func(t *testing.T, s *stage) {
		c := serve(t, &s.Server)
		c.send("1+ call wait", "2+ call deaf")
		c.in.Close()
		time.Sleep(time.Second - 1)
		c.want()
		c.ends(1, ErrWaitDelay)
		c.want("1+ failed " + ErrClosed.Error())
		close(s.release)
	})
	bubble(t, func(t *testing.T, s *stage) {
		s.CancelDelay = 2 * time.Second
		c := serve(t, &s.Server)
		c.send("1+ call sleep1", "2+ call sleep3")
		c.in.Close()
		time.Sleep(time.Second)
		c.want("1+ said slept")
		c.ends(time.Second, nil)
		c.want("2+ failed " + ErrClosed.Error())
	})
	bubble(t, func(t *testing.T, s *stage) { // what the client does not read is discarded soon after WaitDelay
		c := serveUnread(t, &s.Server)
		c.send("1+ call wait", "2+ call deaf")
		c.in.Close()
		c.ends(1100*time.Millisecond, ErrWaitDelay)
		close(s.release)
	})
	bubble(t, func(t *testing.T, s *stage) { // a Write in progress after WaitDelay may end within the same time
		c := serveUnread(t, &s.Server)
		c.send("0+ call hi") // a goroutine is blocked in a Write from here on
		c.send("1+ call wait", "2+ call deaf")
		c.in.Close()
		time.Sleep(1050 * time.Millisecond)
		c.listen()
		c.ends(0, ErrWaitDelay)
		c.want("0+ said hi", "1+ failed "+ErrClosed.Error())
		close(s.release)
	})
}

// After the end of the input, handlers go on for CancelDelay, unless w fails or ctx ends.
func TestCancelDelay(t *testing.T) {
	const linger = 2500 * time.Millisecond
	slept := func(id string) []string { return []string{progressLine(id, "1"), fmt.Sprint(id, "+ said slept")} }
	eof := func(c *client) { c.in.Close() }
	for _, row := range []struct {
		linger time.Duration
		tools  string
		event  func(*client)
		lasts  time.Duration
		err    error
		causes []error
		lines  []string
	}{
		{0, "sleep1", eof, 0, nil, []error{ErrClosed}, []string{"0+ failed " + ErrClosed.Error()}},
		{linger, "sleep1", eof, time.Second - maxInline, nil, []error{nil}, slept("0")},
		{linger, "sleep1 sleep2", eof, 2*time.Second - maxInline, nil, []error{nil, nil}, append(slept("0"), slept("1")...)},
		{linger, "sleep3", eof, linger, nil, []error{ErrClosed}, []string{"0+ failed " + ErrClosed.Error()}},
		{linger, "sleep1 wait", eof, linger, nil, []error{nil, ErrClosed}, append(slept("0"), "1+ failed "+ErrClosed.Error())},
		{time.Hour, "sleep1 wait", func(c *client) {
			c.setFail(func([]byte) (int, error) { return 0, syscall.EPIPE })
			c.in.Close()
		}, time.Second - 2*maxInline, nil, []error{nil, ErrClosed}, nil},
		{time.Hour, "wait deaf", func(c *client) {
			c.in.Close()
			synctest.Wait()
			c.cancel(io.ErrNoProgress)
		}, time.Second, ErrWaitDelay, []error{io.ErrNoProgress}, []string{"0+ failed " + io.ErrNoProgress.Error()}},
	} {
		bubble(t, func(t *testing.T, s *stage) {
			s.CancelDelay = row.linger
			c := serve(t, &s.Server)
			for i, tool := range strings.Fields(row.tools) {
				id := strconv.Itoa(i)
				c.send(fmt.Sprint(id, "+ call "+tool+" @"+id))
			}
			time.Sleep(maxInline)
			row.event(c)
			c.ends(row.lasts, row.err)
			c.want(row.lines...)
			s.saw(t, row.causes...)
			close(s.release)
		})
	}
	bubble(t, func(t *testing.T, s *stage) { // changes are sent before the responses of the handlers
		s.CancelDelay = time.Minute
		add(&s.Server, "change", func(context.Context) (string, error) {
			time.Sleep(time.Second)
			s.RemoveTools("panic")
			s.ResourceUpdated("test://x")
			return "changed", nil
		})
		s.AddResource(Resource{URI: "test://x", Name: "x"}, texts("x"))
		c := serve(t, &s.Server)
		c.initialize("2025-11-25", "{}")
		c.play(`
			> 1 resources/subscribe {"uri":"test://x"}
			< 1 {}`)
		c.send("2 call change")
		c.in.Close()
		c.ends(time.Second, nil)
		c.want(changed, `notifications/resources/updated {"uri":"test://x"}`, "2 said changed")
	})
}

// Questions to the client end at once when the session ends, with or without CancelDelay,
// and with its cause. A question after that fails at once.
func TestQuestionsEndWithTheSession(t *testing.T) {
	boom := errors.New("boom")
	for _, row := range []struct {
		event func(c *client)
		want  error
	}{
		{func(c *client) { c.in.Close() }, ErrClosed},
		{func(c *client) { c.in.CloseWithError(boom) }, boom},
		{func(c *client) { c.cancel(boom) }, boom},
	} {
		bubble(t, func(t *testing.T, s *stage) {
			const n = 20
			s.CancelDelay = 5 * time.Second
			begin := time.Now()
			add(&s.Server, "again", func(ctx context.Context) (string, error) {
				_, first := listRoots(context.WithoutCancel(ctx))
				_, second := listRoots(context.WithoutCancel(ctx)) // the session has ended
				if second == nil || time.Since(begin) != 0 {
					t.Errorf("after the end, at %v: %v", time.Since(begin), second)
				}
				s.end(first)
				return "", nil
			})
			c := serve(t, &s.Server)
			c.initialize("2025-11-25", `{"roots":{}}`)
			for i := range n {
				c.send(fmt.Sprint(i+1, " call again"))
			}
			if got := c.recv(); len(got) != n || !strings.Contains(got[0], "roots/list") {
				t.Fatalf("questions: %q", got)
			}
			row.event(c)
			c.over(0)
			s.saw(t, slices.Repeat([]error{row.want}, n)...)
			got := slices.DeleteFunc(c.recv(), func(l string) bool { return strings.Contains(l, "notifications/cancelled") })
			if len(got) != n {
				t.Errorf("written: %q", got)
			}
		})
	}
}

// An open subscription does not delay the end. It gets a response unless the client has
// closed the connection.
func TestOpenStreamsDoNotDelayTheEnd(t *testing.T) {
	const tag = `"_meta":{"io.modelcontextprotocol/subscriptionId":"sub"`
	const ack = `notifications/subscriptions/acknowledged {` + tag + `},"notifications":{"toolsListChanged":true}}`
	const end = `"sub" {"resultType":"complete",` + tag + `,"io.modelcontextprotocol/serverInfo":{"name":"demo","version":"1.0.0"}}}`
	for _, row := range []struct {
		event func(c *client)
		lines []string
	}{
		{func(c *client) { c.in.Close() }, nil},
		{func(c *client) { c.in.CloseWithError(io.ErrClosedPipe) }, nil},
		{func(c *client) { c.cancel(nil) }, []string{end}},
		{func(c *client) { c.send(`cancel "sub"`); c.recv(); c.in.Close() }, nil},
	} {
		bubble(t, func(t *testing.T, s *stage) {
			s.CancelDelay = time.Hour
			c := serve(t, &s.Server)
			c.play("> "+listenLine, "< "+ack)
			row.event(c)
			c.ends(0, nil)
			c.want(row.lines...)
		})
	}
}

// An ErrWaitDelay names the handlers that outlive WaitDelay, and no Write begins after Serve
// has returned.
func TestWaitDelay(t *testing.T) {
	for _, row := range []struct{ drain, lasts time.Duration }{
		{0, time.Second}, {300 * time.Millisecond, 300 * time.Millisecond}, {time.Minute, time.Minute}, {-1, time.Second},
	} {
		for _, linger := range []time.Duration{0, 2 * time.Second} {
			bubble(t, func(t *testing.T, s *stage) {
				s.WaitDelay, s.CancelDelay = row.drain, linger
				c := serve(t, &s.Server)
				c.send("7+ call deaf", `"x"+ call deaf`, "8+ call wait")
				synctest.Wait()
				c.send(`cancel "x"`)
				synctest.Wait()
				c.in.Close()
				err := c.over(linger + row.lasts)
				if !errors.Is(err, ErrWaitDelay) {
					t.Fatalf("Serve: %v", err)
				}
				names := strings.Split(strings.TrimPrefix(err.Error(), ErrWaitDelay.Error()+": "), "; ")
				slices.Sort(names)
				if !slices.Equal(names, []string{`tools/call deaf (id "x"), cancelled`, `tools/call deaf (id 7)`}) {
					t.Errorf("still at work: %s", names)
				}
				c.want("8+ failed " + ErrClosed.Error())
				synctest.Wait() // for a write that was under way
				before := c.tries
				close(s.release)
				synctest.Wait()
				if c.tries != before {
					t.Errorf("written after Serve returned: %q", c.writes)
				}
			})
		}
	}
	bubble(t, func(t *testing.T, s *stage) { // in time to the nanosecond
		add(&s.Server, "tidy", func(ctx context.Context) (string, error) {
			<-ctx.Done()
			time.Sleep(time.Second - 1)
			return "tidy", nil
		})
		c := serve(t, &s.Server)
		c.send("1+ call tidy")
		time.Sleep(maxInline)
		c.in.Close()
		c.ends(time.Second-1, nil)
		c.want("1+ said tidy")
	})
	bubble(t, func(t *testing.T, s *stage) { // many names; a failure of w besides
		c := serve(t, &s.Server)
		for i := range 30 {
			c.send(fmt.Sprint(i, "+ call deaf"))
		}
		synctest.Wait()
		c.setFail(func([]byte) (int, error) { return 0, io.ErrNoProgress })
		c.send(pingLine)
		err := c.over(time.Second)
		if !errors.Is(err, ErrWaitDelay) || !errors.Is(err, io.ErrNoProgress) || !strings.Contains(err.Error(), "and 20 more") {
			t.Errorf("Serve: %v", err)
		}
		close(s.release)
	})
}

// However short WaitDelay is, a session in which nothing is left ends without an ErrWaitDelay. On a busy machine a few of
// these 1,000 sessions are late; without graceTime nearly all are.
func TestNothingIsLeftAfterAShortWaitDelay(t *testing.T) {
	var late atomic.Int32
	for name, lines := range map[string][]string{
		"nothing": nil, "inline": {"1+ call hi"}, "listens": {listenLine},
		"two": {"1+ call hi", "2+ call hi"}, "own goroutine": {"1+ call deaf", pingLine},
	} {
		var sessions sync.WaitGroup
		for i := range 200 {
			if i%8 == 0 { // more at a time would delay each other past the time that WaitDelay allows
				sessions.Wait()
			}
			sessions.Go(func() {
				s := newStage()
				s.WaitDelay = 1
				l := newLoad(t, &s.Server)
				for i, line := range lines {
					if l.in.Write([]byte(line + "\n")); i == 1 {
						close(s.release)
					}
				}
				l.exchange(nil, len(lines))
				if i%2 == 0 {
					l.end()
				} else {
					l.in.Close()
				}
				if err := <-l.done; err != nil && late.Add(1) > 10 {
					t.Errorf("%s, by context %v: %v", name, i%2 == 0, err)
				}
			})
		}
		sessions.Wait()
	}
}

// If a message is still being read after WaitDelay, Serve returns an ErrWaitDelay, although no
// request is left. Here it is a batch that takes a second or more.
func TestWaitDelayDuringAMessage(t *testing.T) {
	r, in := io.Pipe()
	ctx, cancel := context.WithCancel(context.Background())
	w := writeFunc(func(b []byte) (int, error) {
		if bytes.Contains(b, []byte("a message must be an object")) { // the batch has begun
			cancel()
		}
		return len(b), nil
	})
	s := &Server{Name: "demo", Version: "1", ErrorLog: log.New(io.Discard, "", 0), WaitDelay: 1}
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, r, w) }()
	io.WriteString(in, written("0 initialize 2025-03-26", "notifications/initialized"))
	io.WriteString(in, "[1"+strings.Repeat(",1", 8<<20)+"]\n")
	if err := <-done; !errors.Is(err, ErrWaitDelay) || !strings.Contains(err.Error(), "a message was still being read") {
		t.Errorf("Serve: %v", err)
	}
	in.Close()
	for strings.Contains(leftovers(), "readLines") { // the goroutine ends after the batch
		runtime.Gosched()
	}
}

// The end takes no longer if cancelling takes long, as that of very many handlers does. Here the
// error response to a request that waits takes long.
func TestSlowCancelDoesNotDelayTheEnd(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) {
		s.MaxConcurrent = 1
		c := serve(t, &s.Server)
		c.send("1+ call deaf", "2+ call hi")
		synctest.Wait()
		cause := slowError(make(chan struct{}))
		c.cancel(cause)
		if err := c.over(time.Second); !errors.Is(err, ErrWaitDelay) {
			t.Errorf("Serve: %v", err)
		}
		close(cause)
		close(s.release)
	})
}

// A slowError has no text before it is closed.
type slowError chan struct{}

func (e slowError) Error() string { <-e; return "slow" }

// After ctx has ended Serve, only the Read that is in progress continues.
func TestNothingIsReadAfterServe(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) {
		r, in := io.Pipe()
		ctx, cancel := context.WithCancel(context.Background())
		s.Name, s.Version = "demo", "1"
		go func() { synctest.Wait(); cancel() }()
		if err := s.Serve(ctx, r, io.Discard); err != nil {
			t.Errorf("Serve: %v", err)
		}
		io.WriteString(in, full("1+ call hi")+"\n") // is read, and has no effect
		read := make(chan bool, 1)
		go func() {
			_, err := io.WriteString(in, full("2+ call hi")+"\n")
			read <- err == nil
		}()
		synctest.Wait()
		r.Close()
		if <-read {
			t.Error("the reader reads after Serve has returned")
		}
		s.ran(t)
	})
}

// ---- the client's cancel ----

// A cancel ends the request with that id, compared by its value, has no response, and is
// ignored if no request has that id.
func TestCancelEndsOneRequest(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) {
		c := serve(t, &s.Server)
		c.send("1+ call wait")
		c.want()
		c.send("cancel 1")
		c.want()
		s.saw(t, stopped) // a *CancelledError with the reason

		// A cancel in the same Write as its request may be too late for a short handler.
		c.send("2+ call hi\ncancel 2\n" + `"2"+ call hi`)
		got := slices.DeleteFunc(c.recv(), func(l string) bool { return sameJSON(t, l, "2+ said hi") })
		if len(got) != 1 || !sameJSON(t, got[0], `"2"+ said hi`) {
			t.Errorf("got %q", got)
		}
		c.send("3+ call wait\ncancel 3")
		time.Sleep(maxInline)
		c.want()
		s.saw(t, stopped)

		c.send("5+ call wait", `"6"+ call wait`, "7+ call wait")
		c.want()
		for _, none := range []string{`"5"`, `"5.0"`, `"5e0"`, "50e-2", "6", "8", "1", "-5", "null", "true", "5.5", "[5]", `{"id":5}`, `"init"`, `"ping"`} {
			c.send("cancel " + none)
		}
		for _, malformed := range []string{
			``, `,"params":null`, `,"params":5`, `,"params":[5]`, `,"params":{}`,
			`,"params":{"reason":"x"}`, `,"params":{"requestID":5}`, `,"params":{"id":5}`,
		} {
			c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled"` + malformed + `}`)
		}
		c.play("> "+pingLine, "< "+pongLine)
		s.saw(t)
		c.send(`notifications/cancelled {"requestId":5}`)
		s.saw(t, &CancelledError{})
		c.send(`notifications/cancelled {"requestId":7,"reason":["x"]}`)
		s.saw(t, &CancelledError{})
		c.send(`cancel "6"`, `cancel "6"`)
		s.saw(t, stopped)
		for _, id := range []struct{ request, others, cancel string }{
			{"5", "50", "5.0"},
			{"5.00", "50e0", "5"},
			{"100000", "1e6", "1e5"},
			{"0", "1", "-0"},
			{"-0.0", `"0"`, "0"},
			{"-7", "7", "-7.0"},
			{"9007199254740993", "9007199254740992", "9007199254740993.0"}, // not one float64
			{`"a"`, `"A"`, `"\u0061"`},
			{`"\/\u00e9\""`, `"\\/é"`, `"/é\u0022"`},
			{`"\ud83d\ude00"`, `"\ud83d"`, `"😀"`},
		} {
			c.send(fmt.Sprint(id.request, "+ call wait"), "cancel "+id.others)
			s.saw(t)
			c.send("cancel " + id.cancel)
			s.saw(t, stopped)
		}
	})
	bubble(t, func(t *testing.T, s *stage) { // initialize cannot be cancelled
		c := serve(t, &s.Server)
		c.send("0 initialize 2025-11-25\ncancel 0")
		if got := c.recv(); len(got) != 1 || !strings.Contains(got[0], `"protocolVersion":"2025-11-25"`) {
			t.Errorf("initialize: %q", got)
		}
	})
}

// The text of a cause says that the client has ended the work, and why if the client has said so.
func TestCausesHaveTexts(t *testing.T) {
	for want, cause := range map[string]error{
		"mcp: the client has closed the connection":       ErrClosed,
		"mcp: cancelled by the client":                    &CancelledError{},
		"mcp: cancelled by the client: " + stopped.Reason: stopped,
	} {
		if got := cause.Error(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// A request that is cancelled before its handler has started does not start. While
// another request runs, the scheduler decides which comes first.
func TestCancelledRequestDoesNotStart(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // so the reader usually continues until it blocks
	bubble(t, func(t *testing.T, s *stage) {
		c := serve(t, &s.Server)
		c.send("0+ call wait")
		time.Sleep(maxInline)
		s.ran(t, "0")
		for range 20 {
			c.send("1+ call wait\ncancel 1\n" + pingLine)
			c.want(pongLine)
		}
		if n := s.starts(); n > 10 {
			t.Errorf("%d of 20 handlers were started", n)
		}
		c.in.Close()
		c.ends(0, nil)
		c.want("0+ failed " + ErrClosed.Error())
	})
}

// Nothing is written for a cancelled request, whatever its handler does; its
// id is free at once; and it is not taken for the request that has the id now.
func TestCancelledRequestIsNotAnswered(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) {
		act := make(chan func(context.Context) (string, error))
		add(&s.Server, "obey", func(ctx context.Context) (string, error) { return (<-act)(ctx) })
		c := serve(t, &s.Server)
		c.initialize("2025-11-25", `{"roots":{}}`)
		for _, f := range []func(context.Context) (string, error){
			func(context.Context) (string, error) { return "result", nil },
			func(ctx context.Context) (string, error) { return "", ctx.Err() },
			func(context.Context) (string, error) { return "", &Error{Code: 1, Message: "x"} },
			func(ctx context.Context) (string, error) { Progress(ctx, 1, 2, "x"); return "", nil },
			func(ctx context.Context) (string, error) {
				Progress(context.WithoutCancel(ctx), 1, 2, "x")
				_, err := listRoots(context.WithoutCancel(ctx))
				if !reflect.DeepEqual(err, stopped) {
					t.Errorf("Ask: %v", err)
				}
				return "", err
			},
			func(context.Context) (string, error) { panic("x") },
			func(context.Context) (string, error) { runtime.Goexit(); return "", nil },
		} {
			c.send(`1 call obey @"t"`)
			c.want()
			c.send("cancel 1")
			c.want()
			c.send("1+ call wait") // the same id
			c.want()
			act <- f // the first one ends
			c.want()
			s.saw(t)
			c.send("cancel 1")
			s.saw(t, stopped) // the second
			c.play("> 1+ call hi", "< 1+ said hi")
		}
	})
}

// A cancel of a subscription takes effect before what the next line brings.
func TestCancelledStreamIsSilent(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // the new handler runs before the woken one
	bubble(t, func(t *testing.T, s *stage) {
		add(&s.Server, "change", func(ctx context.Context) (string, error) {
			add(&s.Server, "new", func(context.Context) (string, error) { return "", nil })
			return "", nil
		})
		c := serve(t, &s.Server)
		for range 50 {
			c.send(listenLine)
			c.recv()
			c.send(`cancel "sub"` + "\n1+ call change")
			c.want("1+ said")
		}
	})
}

// ---- handlers that do not return ----

// The methods of an explosive panic.
type explosive struct{}

func (explosive) MarshalJSON() ([]byte, error) { panic("secret") }

func (explosive) Error() string { panic("secret") }

// The methods of a quitter end the goroutine that calls them.
type quitter struct{}

func (quitter) Error() string { runtime.Goexit(); return "" }

func (quitter) Is(error) bool { runtime.Goexit(); return false }

// A handler that panics or calls runtime.Goexit fails its own request only, also if that
// happens while its panic, error or result is formatted. What it panicked with is written
// to ErrorLog and not sent.
func TestPanicFailsOneRequest(t *testing.T) {
	for name, test := range map[string]struct {
		h    func() (any, error)
		logs string
	}{
		"panic":                     {func() (any, error) { panic("secret") }, `panicked: secret`},
		"nil map":                   {func() (any, error) { var m map[int]int; m[0] = 1; return "", nil }, "panicked: assignment to entry in nil map"},
		"Goexit":                    {func() (any, error) { runtime.Goexit(); return "", nil }, "called runtime.Goexit"},
		"MarshalJSON panics":        {func() (any, error) { return explosive{}, nil }, "panicked: "},
		"Error panics":              {func() (any, error) { return "", explosive{} }, "panicked: "},
		"Error of the value panics": {func() (any, error) { panic(explosive{}) }, "panicked: "},
		"Error calls Goexit":        {func() (any, error) { return "", quitter{} }, "called runtime.Goexit"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *stage) {
				s.MaxConcurrent = 1
				log := diagnostics(&s.Server)
				AddTool(&s.Server, Tool{Name: "die"}, func(_ context.Context, in struct{ Late bool }) (any, error) {
					if in.Late {
						time.Sleep(time.Second)
					}
					return test.h()
				})
				c := serve(t, &s.Server)
				c.initialize("2025-11-25", "{}")
				c.play(`> 1 call die {"Late":false}`, "< 1 failed Internal error in tool die") // on the reader's goroutine
				c.send(`2 call die {"Late":true}`, "3 call hi", pingLine)
				c.want(pongLine)
				time.Sleep(time.Second)
				c.want("2 failed Internal error in tool die", "3 said hi")
				c.end()
				text := log.String()
				for _, want := range []string{"die (id 1) " + test.logs, "die (id 2) " + test.logs, "_test.go:"} {
					if !strings.Contains(text, want) {
						t.Errorf("log: %s\nwant %q", text, want)
					}
				}
			})
		})
	}
}

// ---- processes ----

func TestMain(m *testing.M) {
	switch os.Getenv("MCP_TEST_CHILD") {
	case "server":
		os.Exit(childServer())
	case "reader": // a process that a handler starts: it reads its stdin and prints
		b, err := io.ReadAll(os.Stdin)
		fmt.Printf("reader got %d bytes, %v\n", len(b), err)
		os.Exit(0)
	}
	code := m.Run()
	left := leftovers()
	for end := time.Now().Add(5 * time.Second); left != "" && time.Now().Before(end); left = leftovers() {
		runtime.Gosched() // a goroutine may be about to end
	}
	if code == 0 && left != "" {
		fmt.Fprintf(os.Stderr, "goroutines are left behind:\n\n%s\n", left)
		code = 1
	}
	os.Exit(code)
}

const patience = 60 * time.Second // how long a child process may take

// A report is what a child process writes in a deferred call of its main. If the report
// is there, main has cleaned up.
type report struct {
	Err       string         // of ServeStdio
	WaitDelay bool           // Err is an ErrWaitDelay
	Ended     map[string]int // how many handlers were cancelled, by cause
	Restored  bool           // os.Stdin and os.Stdout
	Again     string         // the error of serving once more
}

// earlyLogger is made before ServeStdio, as a package-level logger is.
var earlyLogger = slog.New(slog.NewTextHandler(os.Stdout, nil))

// childServer is the main of a server. The environment says how it differs from others.
func childServer() (code int) {
	var mu sync.Mutex
	rep := report{Ended: make(map[string]int)}
	defer func() {
		mu.Lock()
		defer mu.Unlock()
		b, _ := json.Marshal(rep)
		if err := os.WriteFile(os.Getenv("MCP_TEST_REPORT"), b, 0o600); err != nil {
			code = 3
		}
	}()
	drain, _ := time.ParseDuration(os.Getenv("MCP_TEST_DRAIN"))
	s := &Server{Name: "child", Version: "1", WaitDelay: cmp.Or(drain, 30*time.Second)}
	for _, name := range strings.Fields(os.Getenv("MCP_TEST_SIGNALS")) {
		s.Signals = append(s.Signals, map[string]os.Signal{"HUP": syscall.SIGHUP, "TERM": syscall.SIGTERM}[name])
	}
	if s.Signals != nil && !slices.Contains(s.Signals, os.Signal(syscall.SIGHUP)) {
		signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP) // as a program that reloads its configuration
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	waiting, changed := 0, sync.NewCond(&mu)
	arrive := func() {
		mu.Lock()
		defer mu.Unlock()
		waiting++
		changed.Broadcast()
	}
	AddTool(s, Tool{Name: "echo"}, func(ctx context.Context, in struct{ Text string }) (string, error) {
		return in.Text, nil
	})
	AddTool(s, Tool{Name: "big"}, func(ctx context.Context, in struct{ Size int }) (string, error) {
		return strings.Repeat("x", in.Size), nil
	})
	AddTool(s, Tool{Name: "arrived"}, func(ctx context.Context, in struct{ N int }) (string, error) {
		mu.Lock()
		defer mu.Unlock()
		for waiting < in.N {
			changed.Wait()
		}
		return "yes", nil
	})
	add(s, "wait", func(ctx context.Context) (string, error) {
		arrive()
		<-ctx.Done()
		mu.Lock()
		defer mu.Unlock()
		rep.Ended[context.Cause(ctx).Error()]++
		return "", ctx.Err()
	})
	add(s, "hang", func(ctx context.Context) (string, error) {
		arrive()
		select {}
	})
	add(s, "stray", func(ctx context.Context) (string, error) {
		fmt.Println("stray print")
		earlyLogger.Info("stray log")
		cmd := exec.CommandContext(ctx, must(os.Executable()))
		cmd.Env = append(os.Environ(), "MCP_TEST_CHILD=reader")
		cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
		return "ran", cmd.Run()
	})
	add(s, "second", func(ctx context.Context) (string, error) {
		return "", s.ServeStdio(ctx)
	})
	add(s, "stop", func(ctx context.Context) (string, error) { // and then gets a signal
		cancel()
		<-ctx.Done()
		err := must(os.FindProcess(os.Getpid())).Signal(syscall.SIGTERM)
		time.Sleep(50 * time.Millisecond) // cleans up while the signal arrives
		return "", err
	})

	if n, _ := strconv.Atoi(os.Getenv("MCP_TEST_REPORTS")); n > 0 {
		for i := range n {
			AddTool(s, Tool{Name: "reported" + strconv.Itoa(i), InputSchema: json.RawMessage(`{"type":"object","properties":{"a":{"type":"string","pattern":"x"}}}`)},
				func(context.Context, map[string]any) (string, error) { return "", nil })
		}
	}
	stdin, stdout, printAfter := *os.Stdin, *os.Stdout, os.Getenv("MCP_TEST_PRINT") != ""
	if printAfter {
		log.SetOutput(os.Stdout)
		log.SetFlags(0)
	}
	err := s.ServeStdio(ctx)
	if os.Getenv("MCP_TEST_CLEANUP") != "" {
		os.NewFile(4, "begun").Close()
		io.Copy(io.Discard, os.NewFile(3, "end")) // until the parent closes it
		for strings.Contains(leftovers(), "(*lineWriter).flush") {
			runtime.Gosched() // a write that was left behind has still to fail
		}
	}
	if printAfter {
		fmt.Println(`"after"`)
		log.Print("after, by log")
		if err := s.ServeStdio(context.Background()); err != nil { // stdin is at its end
			rep.Again = err.Error()
		}
	}
	mu.Lock()
	defer mu.Unlock()
	rep.Restored = *os.Stdin == stdin && *os.Stdout == stdout
	if err != nil {
		rep.Err, rep.WaitDelay = err.Error(), errors.Is(err, ErrWaitDelay)
		return 1
	}
	return 0
}

// A message is any line of the server.
type message struct {
	ID     int
	Method string
	Result *toolResult
	Error  *struct{ Code int }
}

// A proc is a child process with its pipes.
type proc struct {
	t        *testing.T
	cmd      *exec.Cmd
	file     string // its report
	in, out  *os.File
	lines    *bufio.Reader // of out
	errs     bytes.Buffer  // stderr, complete when it has ended
	ended    chan struct{}
	overtime func()
}

// newProc makes a child process without starting it.
func newProc(t *testing.T, env ...string) *proc {
	t.Helper()
	t.Parallel()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	p := &proc{t: t, file: filepath.Join(t.TempDir(), "report"), ended: make(chan struct{}), overtime: cancel}
	p.cmd = exec.CommandContext(ctx, must(os.Executable()))
	p.cmd.WaitDelay, p.cmd.Stderr = 10*time.Second, &p.errs
	trace := ""
	if wireFolder != "" {
		trace = filepath.Join(wireFolder, "process"+strconv.FormatUint(rand.Uint64(), 16))
	}
	p.cmd.Env = append(os.Environ(), "MCP_TEST_CHILD=server", "MCP_TEST_REPORT="+p.file, "MCP_TRACE="+trace,
		"GORACE=atexit_sleep_ms=0", "GOCOVERDIR="+t.TempDir())
	p.cmd.Env = append(p.cmd.Env, env...)
	return p
}

// start starts the process, with pipes for stdin and stdout unless they are set.
func (p *proc) start() *proc {
	p.t.Helper()
	var theirs []*os.File
	if p.cmd.Stdin == nil {
		r, w := pipe(p.t)
		p.cmd.Stdin, p.in, theirs = r, w, append(theirs, r)
	}
	if p.cmd.Stdout == nil {
		r, w := pipe(p.t)
		p.cmd.Stdout, p.out, theirs = w, r, append(theirs, w)
		p.lines = bufio.NewReaderSize(r, 1<<16)
	}
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	for _, f := range append(theirs, p.cmd.ExtraFiles...) {
		f.Close()
	}
	go func() {
		p.cmd.Wait()
		close(p.ended)
	}()
	p.t.Cleanup(func() { p.overtime(); <-p.ended })
	return p
}

// pipe returns a pipe that is closed at the end of the test.
func pipe(tb testing.TB) (r, w *os.File) {
	tb.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { r.Close(); w.Close() })
	return r, w
}

// open starts the process and a legacy session.
func (p *proc) open() *proc {
	p.t.Helper()
	p.start().send(opening)
	p.next(0)
	return p
}

// openCleaner is open for a server whose main cleans up after ServeStdio. Begun returns
// when the cleanup has begun. The cleanup lasts until end is called.
func (p *proc) openCleaner() (begun, end func()) {
	p.t.Helper()
	theirEnd, ourEnd := pipe(p.t)
	ourBegun, theirBegun := pipe(p.t)
	p.cmd.Env = append(p.cmd.Env, "MCP_TEST_CLEANUP=1")
	p.cmd.ExtraFiles = []*os.File{theirEnd, theirBegun} // are 3 and 4
	p.open()
	return func() { io.ReadAll(ourBegun) }, func() { ourEnd.Close() }
}

// kill sends a signal until it has ended the process, because the process may not have
// handled the one before yet.
func (p *proc) kill(sig os.Signal) {
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for {
		p.cmd.Process.Signal(sig)
		select {
		case <-p.ended:
			return
		case <-again.C:
		}
	}
}

// send writes lines to the process in one Write.
func (p *proc) send(lines ...string) {
	p.t.Helper()
	if _, err := io.WriteString(p.in, written(lines...)); err != nil {
		p.t.Fatalf("send: %v", err)
	}
}

// recv reads one line, which must be a JSON-RPC message.
func (p *proc) recv() message {
	p.t.Helper()
	line, err := p.lines.ReadString('\n')
	if err != nil {
		p.t.Fatalf("recv: %v after %q", err, line)
	}
	return parseMessage(p.t, line)
}

func parseMessage(t *testing.T, line string) (m message) {
	t.Helper()
	if err := json.Unmarshal([]byte(line), &m); err != nil || !strings.HasPrefix(line, `{"jsonrpc":"2.0",`) {
		t.Fatalf("not JSON-RPC: %.200q (%v)", line, err)
	}
	return m
}

// next reads one line, which must be the response to id.
func (p *proc) next(id int) message {
	p.t.Helper()
	m := p.recv()
	if m.ID != id || m.Method != "" {
		p.t.Fatalf("got %+v, want the response to %d", m, id)
	}
	return m
}

// arrived returns when n handlers wait.
func (p *proc) arrived(n int) {
	p.t.Helper()
	p.send(fmt.Sprintf(`1000000 call arrived {"N":%d}`, n))
	p.next(1e6)
}

// responses reads to the end of stdout: the responses to ids from to to, in any order.
func (p *proc) responses(from, to int, check func(m message) bool) {
	p.t.Helper()
	rest, err := io.ReadAll(p.lines)
	if err != nil {
		p.t.Fatal(err)
	}
	wantResponses(p.t, string(rest), from, to, check)
}

// wantResponses checks that out has one response to each id. A check of nil allows all.
func wantResponses(t *testing.T, out string, from, to int, check func(m message) bool) {
	t.Helper()
	seen := make(map[int]bool)
	for line := range strings.Lines(out) {
		m := parseMessage(t, line)
		if seen[m.ID] || m.ID < from || m.ID > to {
			t.Fatalf("unexpected, or twice: %.200s", line)
		}
		if seen[m.ID] = true; m.Error != nil || m.Result == nil || check != nil && !check(m) {
			t.Fatalf("wrong response: %.200s", line)
		}
	}
	if len(seen) != to-from+1 {
		t.Fatalf("%d of %d responses", len(seen), to-from+1)
	}
}

// isClosedError reports whether a handler returned the error of its context after EOF.
func isClosedError(m message) bool { return m.Result.text() == "! "+ErrClosed.Error() }

// wait waits for the end of the process and checks its state and its report.
func (p *proc) wait(state string) (rep report) {
	p.t.Helper()
	<-p.ended
	if got := p.cmd.ProcessState.String(); got != state {
		p.t.Fatalf("ended with %s, want %s; stderr: %.5000s", got, state, p.errs.String())
	}
	b, err := os.ReadFile(p.file)
	if strings.HasPrefix(state, "signal:") {
		if err == nil {
			p.t.Fatal("cleanup ran in a process that was killed")
		}
		return rep
	}
	if err != nil || json.Unmarshal(b, &rep) != nil {
		p.t.Fatalf("cleanup did not run: %v", err)
	}
	if state == "exit status 0" && rep.Err != "" || rep.Restored == rep.WaitDelay { // late handlers must not write into the protocol
		p.t.Errorf("report: %+v", rep)
	}
	return rep
}

// silent checks that nothing was written to stderr.
func (p *proc) silent() {
	p.t.Helper()
	if errs := p.errs.String(); errs != "" {
		p.t.Errorf("stderr: %s", errs)
	}
}

// sawCause checks that n handlers were cancelled, all with this cause.
func (p *proc) sawCause(rep report, n int, cause string) {
	p.t.Helper()
	if n > 0 && len(rep.Ended) != 1 || rep.Ended[cause] != n {
		p.t.Errorf("handlers saw %v, want %q %d times", rep.Ended, cause, n)
	}
}

func onUnix(t *testing.T) {
	t.Helper()
	if runtime.GOOS == "windows" || runtime.GOOS == "js" || runtime.GOOS == "wasip1" {
		t.Skip("needs Unix")
	}
}

// ---- EOF and broken pipes, as a process sees them ----

// No response of `printf ... | server` is lost.
func TestProcessLosesNoResponseAtEOF(t *testing.T) {
	few, many := 100, 10
	if raceBuild() { // which runs these tests many times
		few, many = 15, 2
	}
	hi := func(m message) bool { return m.ID == 0 || m.Result.text() == "hi" }
	cancelled := func(m message) bool { return m.ID == 0 || isClosedError(m) }
	for _, tt := range []struct {
		n, times int
		call     string
		check    func(message) bool
	}{
		{0, 10, "", nil}, // initialize and nothing else
		{1, few, `echo {"Text":"hi"}`, hi},
		{50, few, `echo {"Text":"hi"}`, hi},
		{1000, many, `echo {"Text":"hi"}`, hi},
		{50, 10, "wait", cancelled},
		{1000, 3, "wait", cancelled},
	} {
		input := written(opening) + written(calls(1, tt.n, tt.call)...)
		t.Run(fmt.Sprint(tt.n, tt.call[:min(4, len(tt.call))]), func(t *testing.T) {
			t.Parallel()
			for i := range tt.times {
				t.Run("", func(t *testing.T) {
					p := newProc(t)
					var out bytes.Buffer
					p.cmd.Stdin, p.cmd.Stdout = strings.NewReader(input), &out
					if i%2 == 1 { // the last line has no newline
						p.cmd.Stdin = strings.NewReader(strings.TrimSuffix(input, "\n"))
					}
					p.start().wait("exit status 0")
					wantResponses(t, out.String(), 0, tt.n, tt.check)
					p.silent()
				})
			}
		})
	}
	t.Run("null device", func(t *testing.T) {
		p := newProc(t)
		null := must(os.Open(os.DevNull))
		defer null.Close()
		p.cmd.Stdin = null
		p.start().responses(1, 0, nil)
		p.wait("exit status 0")
		p.silent()
	})
}

// ErrWaitDelay names the handlers that do not return, and main continues. The other handlers
// get a response.
func TestProcessLeavesHangingHandlers(t *testing.T) {
	p := newProc(t, "MCP_TEST_DRAIN=200ms").open()
	p.send(append(calls(1, 3, "hang"), calls(4, 6, "wait")...)...)
	p.arrived(6)
	p.in.Close()
	p.responses(4, 6, isClosedError)
	rep := p.wait("exit status 1")
	if !rep.WaitDelay || strings.Count(rep.Err, "hang") != 3 || strings.Contains(rep.Err, "wait") {
		t.Errorf("%q: want an ErrWaitDelay that names the three hanging calls and no other", rep.Err)
	}
}

// If stdout is closed, handlers are cancelled and main cleans up, in spite of SIGPIPE.
func TestProcessEndsAtABrokenPipe(t *testing.T) {
	onUnix(t)
	for _, both := range []bool{false, true} {
		t.Run(fmt.Sprint("both=", both), func(t *testing.T) {
			p := newProc(t).open()
			p.send(calls(1, 50, "wait")...)
			p.arrived(50)
			p.out.Close()
			if both {
				p.in.Close()
			} else {
				p.send(`51 call echo {"Text":"hi"}`) // the write of its response fails
			}
			p.sawCause(p.wait("exit status 0"), 50, ErrClosed.Error())
			p.silent()
		})
	}
}

// The server ends if the client does not read all responses, and more are due than the
// pipe holds.
func TestProcessEndsWithUnreadResponses(t *testing.T) {
	onUnix(t)
	for _, closesStdin := range []bool{true, false} {
		t.Run(fmt.Sprint("stdin is closed too=", closesStdin), func(t *testing.T) {
			p := newProc(t).open()
			p.send(calls(1, 8, `big {"Size":200000}`)...)
			if _, err := p.lines.ReadByte(); err != nil { // it has begun to write
				t.Fatal(err)
			}
			if closesStdin {
				p.in.Close()
			}
			p.out.Close()
			p.wait("exit status 0")
		})
	}
	t.Run("during cleanup", func(t *testing.T) {
		p := newProc(t, "MCP_TEST_DRAIN=200ms")
		begun, end := p.openCleaner()
		p.send(calls(1, 8, `big {"Size":200000}`)...)
		p.in.Close()
		begun()
		p.out.Close() // the write that ServeStdio left behind fails only now
		end()
		p.wait("exit status 1")
	})
}

// ---- signals ----

// A signal right after the end of stdin does not end the process while main cleans up.
// A second signal does.
func TestProcessSignalsAfterEOF(t *testing.T) {
	onUnix(t)
	for _, twice := range []bool{false, true} {
		t.Run(fmt.Sprint("twice=", twice), func(t *testing.T) {
			p := newProc(t)
			begun, end := p.openCleaner()
			p.in.Close()
			begun()
			p.cmd.Process.Signal(syscall.SIGTERM)
			if !twice {
				end()
				p.wait("exit status 0")
				return
			}
			p.kill(syscall.SIGTERM)
			p.wait("signal: terminated")
		})
	}
}

// Hosts, launchers and terminals send pairs of signals, which are one wish to end: handlers and main clean up.
func TestProcessPairsOfSignals(t *testing.T) {
	onUnix(t)
	for _, atEOF := range []bool{false, true} {
		for _, pair := range [][2]os.Signal{
			{os.Interrupt, syscall.SIGTERM}, // Claude Code
			{os.Interrupt, os.Interrupt},    // a launcher that forwards what the terminal has sent to both
			{syscall.SIGHUP, syscall.SIGHUP},
			{syscall.SIGTERM, syscall.SIGHUP},
		} {
			t.Run(fmt.Sprint(pair, " at EOF ", atEOF), func(t *testing.T) {
				if signal.Ignored(syscall.SIGHUP) { // child processes inherit this
					t.Skip("SIGHUP is ignored")
				}
				p := newProc(t)
				begun, end := p.openCleaner()
				if atEOF {
					p.in.Close()
					begun()
				}
				p.cmd.Process.Signal(pair[0])
				begun()
				p.cmd.Process.Signal(pair[1])
				end()
				p.wait("exit status 0")
			})
		}
	}
}

// The first of Server.Signals ends the session: handlers see the signal as their cause,
// and ServeStdio returns nil. Other signals do not end it. A signal that was ignored
// when the process started, as under nohup, stays ignored. With Go 1.25 the cause does not
// name the signal.
func TestProcessSignals(t *testing.T) {
	onUnix(t)
	hup, term := os.Signal(syscall.SIGHUP), os.Signal(syscall.SIGTERM)
	for _, tt := range []struct {
		name, signals string // the Signals of the server; "" is nil
		nohup         bool
		handlers      int
		send          []os.Signal
		cause         string
	}{
		{"SIGTERM", "", false, 20, []os.Signal{term}, "terminated signal received"},
		{"SIGINT", "", false, 20, []os.Signal{os.Interrupt}, "interrupt signal received"},
		{"SIGINT without handlers", "", false, 0, []os.Signal{os.Interrupt}, ""},
		{"SIGHUP", "", false, 5, []os.Signal{hup}, "hangup signal received"},
		{"SIGHUP under nohup", "", true, 5, []os.Signal{hup, term}, "terminated signal received"},
		{"SIGHUP in Signals under nohup", "HUP TERM", true, 5, []os.Signal{hup, term}, "terminated signal received"},
		{"SIGHUP not in Signals", "TERM", false, 5, []os.Signal{hup, term}, "terminated signal received"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if !tt.nohup && signal.Ignored(syscall.SIGHUP) { // child processes inherit this
				t.Skip("SIGHUP is ignored")
			}
			if tt.cause != "" && strings.HasPrefix(runtime.Version(), "go1.25") {
				tt.cause = context.Canceled.Error()
			}
			p := newProc(t, "MCP_TEST_SIGNALS="+tt.signals)
			if tt.nohup {
				sh := must(exec.LookPath("sh"))
				p.cmd.Path, p.cmd.Args = sh, []string{"sh", "-c", `trap "" HUP; exec "$0"`, p.cmd.Path}
			}
			p.open().send(calls(1, tt.handlers, "wait")...)
			p.arrived(tt.handlers)
			for _, sig := range tt.send { // SIGHUP is delivered before SIGTERM, also if both are pending
				p.cmd.Process.Signal(sig)
			}
			p.responses(1, tt.handlers, func(m message) bool { return m.Result.IsError })
			p.sawCause(p.wait("exit status 0"), tt.handlers, tt.cause)
		})
	}
	for _, sig := range []os.Signal{syscall.SIGTERM, os.Interrupt} {
		t.Run(sig.String()+" twice", func(t *testing.T) {
			p := newProc(t).open()
			p.send("1 call hang", "2 call wait")
			p.arrived(2)
			p.cmd.Process.Signal(sig)
			p.next(2) // the first has arrived
			p.kill(sig)
			p.wait("signal: " + sig.String())
		})
	}
	t.Run("after ctx has ended", func(t *testing.T) {
		p := newProc(t).open()
		p.send("1 call stop")
		p.wait("exit status 0")
	})
	t.Run("after ctx has ended, while a handler does not return", func(t *testing.T) {
		p := newProc(t).open()
		p.send("1 call hang")
		p.arrived(1)
		p.send("2 call stop")
		p.next(2)
		p.kill(term)
		p.wait("signal: terminated")
	})
}

// ---- the process's stdin, stdout and stderr ----

// A program that protects stdout itself, by os.Stdout = os.Stderr, would send the protocol to stderr.
func TestStdoutThatIsStderrIsRefused(t *testing.T) {
	stdout := os.Stdout
	defer func() { os.Stdout = stdout }()
	os.Stdout = os.Stderr
	if err := new(Server).ServeStdio(t.Context()); err == nil || !strings.Contains(err.Error(), "os.Stdout is os.Stderr") {
		t.Errorf("got %v", err)
	}
}

// While ServeStdio runs, what handlers and the standard logger print is written to
// stderr, child processes read nothing from stdin, and a second ServeStdio is refused.
// A logger that was made with os.Stdout before writes to stderr too. Afterwards all is as before.
func TestProcessStdoutIsStderr(t *testing.T) {
	p := newProc(t, "MCP_TEST_PRINT=1").open()
	p.send("1 call stray", "garbage") // the child process of 1 does not read what follows
	p.send("2 call second")
	got := map[int]message{}
	for range 3 {
		m := p.recv()
		got[m.ID] = m
	}
	if got[1].Result.text() != "ran" || got[0].Error == nil || !strings.Contains(got[2].Result.text(), "already") {
		t.Errorf("got %+v", got)
	}
	p.send("3 call stray") // the ServeStdio that was refused has restored nothing
	p.next(3)
	p.in.Close()
	if rest, _ := io.ReadAll(p.lines); string(rest) != "\"after\"\nafter, by log\n" {
		t.Errorf("stdout ends with %q", rest)
	}
	rep := p.wait("exit status 0")
	if rep.Again != "" {
		t.Errorf("serving again: %s", rep.Again)
	}
	for text, n := range map[string]int{"stray print\n": 2, "reader got 0 bytes, <nil>\n": 2, "Parse error": 1, `msg="stray log"`: 2} {
		if strings.Count(p.errs.String(), text) != n {
			t.Errorf("want %q on stderr %d times: %s", text, n, p.errs.String())
		}
	}
}

// A stderr that is full delays neither responses nor the end. A write to it that was in
// progress when ServeStdio returned fails while main cleans up, and does not end the process.
func TestProcessFullStderr(t *testing.T) {
	onUnix(t)
	p := newProc(t, "MCP_TEST_DRAIN=200ms")
	r, w := fullPipe(t)
	p.cmd.Stderr = w
	begun, end := p.openCleaner()
	w.Close()
	for range 2 * maxReports {
		p.send("garbage")
		p.recv() // the error response to garbage, which is reported to stderr too
	}
	p.in.Close()
	begun()
	r.Close()
	end()
	p.wait("exit status 0")
}

// What is reported at registration neither delays the start nor the end, even if no process
// reads stderr.
func TestProcessReportsDoNotBlock(t *testing.T) {
	onUnix(t)
	p := newProc(t, "MCP_TEST_REPORTS=540", "MCP_TEST_DRAIN=200ms")
	_, p.cmd.Stderr = fullPipe(t)
	p.open().send(`1 call echo {"Text":"hi"}`)
	p.next(1)
	p.in.Close()
	p.wait("exit status 0")
}

// fullPipe returns a pipe in which a further byte has no room.
func fullPipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w = pipe(t)
	for _, chunk := range [][]byte{make([]byte, 4096), {0}} {
		w.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
		for err := error(nil); err == nil; {
			_, err = w.Write(chunk)
		}
	}
	return r, w
}

// ServeStdio appends the trace to the file that MCP_TRACE names. A file that cannot be
// opened is reported.
func TestProcessTrace(t *testing.T) {
	t.Run("file", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "trace")
		os.WriteFile(file, []byte("kept\n"), 0o600)
		p := newProc(t, "MCP_TRACE="+file).start()
		lines := append([]string{opening}, calls(1, 20, `echo {"Text":"hi"}`)...)
		p.send(lines...)
		p.in.Close()
		out, _ := io.ReadAll(p.lines)
		p.wait("exit status 0")
		b, _ := os.ReadFile(file)
		got := map[string]string{} // by direction
		for _, m := range regexp.MustCompile(`(?m)^\S+ \S+ (in|out) +(\{.*\}\n)`).FindAllStringSubmatch(string(b), -1) {
			got[m[1]] += m[2]
		}
		if !bytes.HasPrefix(b, []byte("kept\n")) || got["in"] != written(lines...) || got["out"] != string(out) {
			t.Errorf("trace:\n%s", b)
		}
	})
	t.Run("endless line", func(t *testing.T) {
		file := must(os.Create(filepath.Join(t.TempDir(), "trace")))
		defer file.Close()
		tr := &tracer{file: file, prefix: "in  "}
		tr.Write(bytes.Repeat([]byte("x"), maxTraced/2))
		tr.Write(bytes.Repeat([]byte("x"), maxTraced))
		tr.Write([]byte("\nshort\n"))
		b, _ := os.ReadFile(file.Name())
		if lines := strings.Split(string(b), "\n"); len(lines) != 3 || len(lines[0]) != len(lines[1])-len("short")+maxTraced {
			t.Errorf("%d bytes in %d lines", len(b), len(lines))
		}
	})
	t.Run("cannot be opened", func(t *testing.T) {
		p := newProc(t, "MCP_TRACE="+filepath.Join("no", "such", "place")).start()
		p.in.Close()
		p.wait("exit status 0")
		if errs := p.errs.String(); strings.Count(errs, "\n") != 1 || !strings.Contains(errs, "MCP_TRACE") {
			t.Errorf("stderr: %s", errs)
		}
	})
}

// A last line without a newline is in the trace, whether stdin ends or fails after it.
func TestTraceEndsALastLine(t *testing.T) {
	for name, end := range map[string]func(r, w *os.File){
		"ends":  func(r, w *os.File) { w.Close() },
		"fails": func(r, w *os.File) { r.Close() },
	} {
		r, w := pipe(t)
		var trace bytes.Buffer
		in, b := &stdioFile{r, t.Context(), &trace}, make([]byte, 100)
		io.WriteString(w, "no newline")
		in.Read(b)
		end(r, w)
		if _, err := in.Read(b); err == nil || trace.String() != "no newline\n" {
			t.Errorf("%s: traced %q: %v", name, trace.String(), err)
		}
	}
}

// A trace that cannot be written delays neither responses nor the end.
func TestProcessTraceThatBlocks(t *testing.T) {
	onUnix(t)
	fifo := func(t *testing.T) string {
		name := filepath.Join(t.TempDir(), "fifo")
		if err := exec.Command("mkfifo", name).Run(); err != nil {
			t.Skip(err)
		}
		return name
	}
	for name, prepare := range map[string]func(t *testing.T, p *proc) (trace string){
		"FIFO that is not opened": func(t *testing.T, p *proc) string { return fifo(t) },
		"FIFO that is not read": func(t *testing.T, p *proc) string {
			name := fifo(t)
			f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
			if err != nil {
				t.Skip(err)
			}
			t.Cleanup(func() { f.Close() })
			return name
		},
		"/dev/stderr that is full": func(t *testing.T, p *proc) string {
			_, p.cmd.Stderr = fullPipe(t)
			return "/dev/stderr"
		},
		"/dev/full": func(t *testing.T, p *proc) string { return "/dev/full" },
	} {
		for _, signal := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", signal=", signal), func(t *testing.T) {
				p := newProc(t, "MCP_TEST_DRAIN=500ms")
				trace := prepare(t, p)
				if _, err := os.Stat(trace); err != nil {
					t.Skip(err)
				}
				p.cmd.Env = append(p.cmd.Env, "MCP_TRACE="+trace)
				p.open()
				begun := time.Now()
				p.send(calls(1, 200, `echo {"Text":"`+strings.Repeat("x", 1000)+`"}`)...) // more than a pipe holds
				for range 200 {
					p.recv()
				}
				if signal {
					p.cmd.Process.Signal(syscall.SIGTERM)
				} else {
					p.in.Close()
				}
				p.responses(1, 0, nil)
				p.wait("exit status 0")
				if took := time.Since(begun); took > patience/4 {
					t.Errorf("it took %v", took)
				}
			})
		}
	}
}

// ---- pipes that are not ready, and terminals ----

// helper returns a command that a test needs, and skips the test where the program is missing.
func helper(t *testing.T, name string, args ...string) *exec.Cmd {
	t.Helper()
	path, err := exec.LookPath(name)
	if runtime.GOOS != "linux" || err != nil && os.Getenv("CI") == "" {
		t.Skipf("%s on %s: %v", name, runtime.GOOS, err)
	}
	return exec.Command(path, args...)
}

// makeNonBlocking lets another process, which shares the files, make them non-blocking. It copies nothing.
func makeNonBlocking(t *testing.T, stdin, stdout *os.File) {
	t.Helper()
	dd := helper(t, "dd", "iflag=nonblock", "oflag=nonblock", "count=0", "status=none")
	if stdin != nil {
		dd.Stdin = stdin
	}
	dd.Stdout = stdout
	if err := dd.Run(); err != nil {
		t.Fatal(err)
	}
}

// Another process that shares stdin or stdout can make it non-blocking at any time, as Node does.
// Then a call in flight, a response that is larger than the pipe and later requests are served as
// before.
func TestProcessPipesBecomeNonBlocking(t *testing.T) {
	const size = 1 << 20
	p := newProc(t)
	stdin, in := pipe(t)
	out, stdout := pipe(t)
	p.cmd.Stdin, p.cmd.Stdout = stdin, stdout
	p.in, p.lines = in, bufio.NewReaderSize(out, 1<<16)
	p.open().send("1 call wait")
	makeNonBlocking(t, stdin, stdout)
	stdin.Close()
	stdout.Close()
	p.send(fmt.Sprintf(`2 call big {"Size":%d}`, size), `3 call arrived {"N":1}`)
	for range 2 {
		if m := p.recv(); len(m.Result.text()) != map[int]int{2: size, 3: len("yes")}[m.ID] {
			t.Errorf("%d: %d bytes", m.ID, len(m.Result.text()))
		}
	}
	p.in.Close()
	p.sawCause(p.wait("exit status 0"), 1, ErrClosed.Error())
}

// A process whose client leaves while it waits for a full, non-blocking stdout ends in time.
func TestProcessEndsWithAFullNonBlockingPipe(t *testing.T) {
	p := newProc(t, "MCP_TEST_DRAIN=200ms")
	stdin, in := pipe(t)
	out, stdout := pipe(t)
	p.cmd.Stdin, p.cmd.Stdout = stdin, stdout
	p.in, p.lines = in, bufio.NewReaderSize(out, 1<<16)
	p.open()
	makeNonBlocking(t, nil, stdout)
	stdin.Close()
	p.send(`1 call big {"Size":1048576}`)
	p.lines.Peek(1) // the response has begun
	p.in.Close()
	if rep := p.wait("exit status 1"); !rep.WaitDelay || strings.Contains(rep.Err, "unavailable") {
		t.Errorf("report: %+v", rep)
	}
}

// onTerminal runs its arguments with a terminal as stdin, and closes the terminal at the end of its own stdin.
const onTerminal = `
import os, subprocess, sys
ours, theirs = os.openpty()
child = subprocess.Popen(sys.argv[1:], stdin=theirs)
os.close(theirs)
for line in sys.stdin.buffer:
    os.write(ours, line)
os.close(ours)
sys.exit(child.wait())
`

// The end of a terminal, as of "docker run -t", is the end of the input and not a failure.
func TestProcessTerminalCloses(t *testing.T) {
	p := newProc(t)
	python := helper(t, "python3", "-c", onTerminal, p.cmd.Path)
	p.cmd.Path, p.cmd.Args = python.Path, python.Args
	p.open().send("1 call wait", `2 call arrived {"N":1}`)
	p.next(2)
	p.in.Close()
	p.sawCause(p.wait("exit status 0"), 1, ErrClosed.Error())
}

// The same error of a file is a failure.
func TestProcessErrorOfAFile(t *testing.T) {
	p := newProc(t)
	f, err := os.Open("/proc/self/mem") // its first page cannot be read
	if err != nil || runtime.GOOS != "linux" {
		t.Skipf("%s: %v", runtime.GOOS, err)
	}
	p.cmd.Stdin = f
	p.start()
	f.Close()
	if rep := p.wait("exit status 1"); !strings.Contains(rep.Err, "input/output error") {
		t.Errorf("report: %+v", rep)
	}
}

// What a Write has written before it failed is in the trace: the client may have read it.
func TestTraceHasWhatAFailedWriteHasWritten(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a Write to a pipe that nobody reads is not interrupted")
	}
	r, w := pipe(t)
	read := make(chan error)
	go func() {
		_, err := io.CopyN(io.Discard, r, 40_000)
		r.Close()
		read <- err
	}()
	var trace bytes.Buffer
	n, err := (&stdioFile{w, context.Background(), &trace}).Write(make([]byte, 1<<20))
	if err := <-read; err != nil {
		t.Fatal(err)
	}
	if !errors.Is(err, syscall.EPIPE) || n < 40_000 || trace.Len() != n {
		t.Errorf("wrote %d bytes and traced %d: %v", n, trace.Len(), err)
	}
}
