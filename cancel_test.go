// SPDX-License-Identifier: MIT

package mcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
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
	"testing/iotest"
	"testing/synctest"
	"time"
)

// ---- the five faults of python-sdk pull request 2306 ----

// At the end of the input, and if both ends are closed, Serve cancels handlers and
// does not wait for them to finish by themselves.
func TestEOFCancelsHandlers(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) {
		c := serve(t, &s.Server)
		c.send(modernCall("1", "wait"), modernCall("2", "wait"))
		synctest.Wait()
		c.in.Close()
		c.ends(0, nil)
		s.saw(t, ErrClosed, ErrClosed)
		got := c.recv()
		slices.Sort(got)
		c.got = got
		c.want(modernFailed("1", ErrClosed.Error()), modernFailed("2", ErrClosed.Error()))
	})
	bubble(t, func(t *testing.T, s *stage) { // and both ends at once
		c := serve(t, &s.Server)
		c.send(modernCall("1", "wait"), modernCall("2", "wait"), modernCall("3", "sleep1"))
		synctest.Wait()
		c.out.Close()
		c.in.Close()
		c.ends(0, nil)
		s.saw(t, ErrClosed, ErrClosed, ErrClosed)
	})
}

// Handlers that the end wakes remove their own questions from the map while the
// session wakes the other handlers. With Linger nothing else wakes them. The test uses
// the fields of the session to see that the maps are empty.
func TestWokenHandlersRemoveTheirQuestions(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) {
		const n = 200
		s.Linger = time.Hour
		c := serve(t, &s.Server)
		c.initialize("2025-11-25", `{"roots":{}}`)
		var ss *session
		add(&s.Server, "find", func(ctx context.Context) (string, error) { ss = requestOf(ctx).session; return "", nil })
		c.send(legacyCall("0", "find"))
		for i := range n {
			c.send(legacyCall(strconv.Itoa(i+1), "ask"))
		}
		if got := len(c.recv()); got < n {
			t.Fatalf("%d questions, want %d", got, n)
		}
		c.in.Close()
		c.ends(0, nil)
		s.saw(t, slices.Repeat([]error{ErrClosed}, n)...)
		if got := len(c.recv()); got != n {
			t.Errorf("%d answers, want %d", got, n)
		}
		if len(ss.pending)+len(ss.requests)+len(ss.running)+ss.waiting.Len() != 0 {
			t.Errorf("left behind: %v %v %v %v", ss.pending, ss.requests, ss.running, ss.waiting.Len())
		}
	})
}

// After a Write has failed, no response or error of a woken handler is written.
func TestNothingIsWrittenToAClosedPipe(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) {
		c := serveWire(t, &s.Server)
		c.initialize("2025-11-25", `{"roots":{}}`)
		for i := range 20 {
			c.send(legacyCall(strconv.Itoa(i+1), "ask"))
		}
		c.send(listenLine)
		c.recv()
		c.mu.Lock()
		c.tries, c.break_ = 0, func([]byte) (int, error) { return 0, syscall.EPIPE }
		c.mu.Unlock()
		c.send(pingLine)
		c.ends(0, nil)
		s.saw(t, slices.Repeat([]error{ErrClosed}, 20)...)
		if c.tries != 1 {
			t.Errorf("%d writes to a closed stream, want that which found out", c.tries)
		}
	})
}

// A request that the client has cancelled is not answered, also if the input ends
// later. A request that the end has cancelled is answered.
func TestCancelledRequestsAreNotAnsweredAtEOF(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) {
		c := serve(t, &s.Server)
		c.send(modernCall("1", "wait"), modernCall("2", "wait"), modernCall("3", "deaf"))
		c.want()
		c.send(cancelling("1"), cancelling("3"))
		c.want()
		s.saw(t, stopped)
		c.in.Close()
		c.want() // held, until the last has returned
		s.saw(t, ErrClosed)
		close(s.release) // cancelled, then closed: still no answer
		c.ends(0, nil)
		c.want(modernFailed("2", ErrClosed.Error()))
		s.saw(t, stopped)
	})
}

// Each error that a closed pipe or connection causes is an ordinary end, for r and for
// w.
func TestErrorsOfAClosedPipeAreNotFailures(t *testing.T) {
	path := func(err error) error { return &os.PathError{Op: "write", Path: "/dev/stdout", Err: err} }
	ends := []error{
		io.ErrClosedPipe, os.ErrClosed, path(os.ErrClosed),
		syscall.EPIPE, path(syscall.EPIPE), path(syscall.ECONNRESET),
		fmt.Errorf("tls: %w", path(os.NewSyscallError("write", syscall.EPIPE))),
		path(errors.New("use of closed network connection")),
	}
	if runtime.GOOS == "windows" {
		for _, n := range []syscall.Errno{109, 232, 233, 10054} {
			ends = append(ends, path(n))
		}
	}
	for _, dead := range ends {
		bubble(t, func(t *testing.T, s *stage) {
			c := serveWire(t, &s.Server)
			c.break_ = func([]byte) (int, error) { return 0, dead }
			c.send(modernCall("1", "wait"), modernCall("2", "wait"), pingLine)
			if err := c.over(0); err != nil {
				t.Errorf("w fails with %v: Serve: %v", dead, err)
			}
			s.saw(t, ErrClosed, ErrClosed)
		})
		bubble(t, func(t *testing.T, s *stage) {
			c := serveWire(t, &s.Server)
			c.send(modernCall("1", "wait"))
			c.want()
			c.in.CloseWithError(dead)
			if err := c.over(maxInline); err != nil {
				t.Errorf("r fails with %v: Serve: %v", dead, err)
			}
			s.saw(t, ErrClosed)
			c.want(modernFailed("1", ErrClosed.Error()))
		})
	}
}

// ---- the table of endings ----

// Each row of the table at the top of cancel.go: the cause, the response, and what
// Serve returns.
func TestEndings(t *testing.T) {
	boom := errors.New("boom")
	breakWith := func(n int, err error) func(*wireClient) {
		return func(c *wireClient) {
			c.mu.Lock()
			c.break_ = func(b []byte) (int, error) { return min(n, len(b)-1), err }
			c.mu.Unlock()
			c.send(pingLine)
		}
	}
	for _, row := range []struct {
		name     string
		event    func(c *wireClient)
		cause    error
		answered bool
		returns  error
	}{
		{"EOF", func(c *wireClient) { c.in.Close() }, ErrClosed, true, nil},
		{"r fails", func(c *wireClient) { c.in.CloseWithError(boom) }, boom, true, boom},
		{"r fails, wrapped", func(c *wireClient) { c.in.CloseWithError(fmt.Errorf("usb: %w", boom)) }, boom, true, boom},
		{"w is a closed pipe", breakWith(0, syscall.EPIPE), ErrClosed, false, nil},
		{"w fails", breakWith(0, boom), boom, false, boom},
		{"w fails half way", breakWith(7, boom), boom, false, boom},
		{"w fails, wrapped", breakWith(0, &os.PathError{Op: "write", Path: "f", Err: syscall.ENOSPC}), syscall.ENOSPC, false, syscall.ENOSPC},
		{"w writes short", breakWith(7, nil), io.ErrShortWrite, false, io.ErrShortWrite},
		{"ctx ends", func(c *wireClient) { c.cancel(nil) }, context.Canceled, true, nil},
		{"ctx ends with a cause", func(c *wireClient) { c.cancel(boom) }, boom, true, nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *stage) {
				c := serveWire(t, &s.Server)
				c.send(modernCall("1", "wait"))
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
					t.Errorf("answer: %q", got)
				}
			})
		})
	}
}

// A client that closes its end right after its requests receives all responses.
func TestEOFAfterRequestsLosesNoResponse(t *testing.T) {
	for _, max := range []int{0, 1, 3} {
		bubble(t, func(t *testing.T, s *stage) {
			s.MaxConcurrent = max
			c := serve(t, &s.Server)
			var script, want []string
			for i := range 100 {
				id := strconv.Itoa(i)
				script = append(script, modernCall(id, "hi"), strings.Replace(pingLine, `"p"`, strconv.Itoa(1000+i), 1))
				want = append(want, id, strconv.Itoa(1000+i))
			}
			script = append(script, modernCall("100", "hi")) // without its newline
			io.WriteString(c.in, strings.Join(script, "\n"))
			c.in.Close()
			c.ends(0, nil)
			var got []string
			for _, line := range c.recv() {
				id, _, _ := strings.Cut(strings.TrimPrefix(line, `{"jsonrpc":"2.0","id":`), ",")
				got = append(got, id)
			}
			want = append(want, "100")
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("answered: %v", got)
			}
		})
	}
}

// The end of the input is seen as soon as Read returns it, also if too much output is
// unsent.
func TestEOFIsSeenWhileOutputIsUnsent(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) {
		add(&s.Server, "big", func(context.Context) (string, error) {
			<-s.release
			return strings.Repeat("x", outputBound/2), nil
		})
		c := serveUnread(t, &s.Server)
		c.send(modernCall("1", "wait"), modernCall("2", "big"), modernCall("3", "big"), modernCall("4", "big"))
		synctest.Wait() // the reader is in Read
		close(s.release)
		synctest.Wait() // and the output is not read
		c.in.Close()
		synctest.Wait()
		s.saw(t, ErrClosed)
		c.ends(1100*time.Millisecond, ErrDrain)
	})
}

// The end of the input is seen after much input of which no line is accepted.
// Responses after the end have the same bound as all output.
func TestEOFIsSeenAfterMuchInput(t *testing.T) {
	for _, input := range []string{strings.Repeat(pingLine+"\n", 2<<20/len(pingLine)), strings.Repeat("x\n", 1<<19)} {
		if input[0] == '{' || !raceBuild() { // which would take long over the second
			eofBehind(t, input)
		}
	}
}

// eofBehind plays a client that does not read, sends requests and then input, and
// closes its end.
func eofBehind(t *testing.T, input string) {
	bubble(t, func(t *testing.T, s *stage) {
		s.AddResource(Resource{URI: "x:y", Name: "y", Description: strings.Repeat("x", 1<<20)}, texts("z"))
		add(&s.Server, "big", func(context.Context) (string, error) { return strings.Repeat("x", outputBound), nil })
		c := serveUnread(t, &s.Server)
		c.send(modernCall("1", "wait"), modernCall("2", "big"))
		list := strings.Replace(modernCall("9", "x"), `"tools/call"`, `"resources/list"`, 1)
		c.send(strings.Repeat(list+"\n", 100), input)
		c.in.Close()
		synctest.Wait()
		s.saw(t, ErrClosed)
		if n := s.openSessions()[0].out.unsentBytes(); n > 3*outputBound {
			t.Errorf("%d MiB are unsent", n>>20)
		}
		c.ends(1100*time.Millisecond, ErrDrain)
	})
}

// Input after the end of the session needs no memory, however long its lines are.
func TestInputAfterTheEndIsDiscarded(t *testing.T) {
	if raceBuild() {
		t.Skip("the race detector allocates too")
	}
	short := append(bytes.Repeat([]byte("x"), 99), '\n')
	for _, line := range [][]byte{short, bytes.Repeat([]byte("x"), keepBuffer)} {
		bubble(t, func(t *testing.T, s *stage) {
			s.Name, s.Version, s.ErrorLog = "demo", "1.0.0", log.New(io.Discard, "", 0)
			ctx, cancel := context.WithCancel(t.Context())
			in, client := io.Pipe()
			done := make(chan error)
			go func() { done <- s.Serve(ctx, in, io.Discard) }()
			io.WriteString(client, modernCall("1", "deaf")+"\n")
			time.Sleep(maxInline) // another reads now
			cancel()
			synctest.Wait()
			if cost := allocated(func() {
				for range 16 << 20 / len(line) {
					client.Write(line)
				}
			}); cost > 4<<20 {
				t.Errorf("16 MiB in Writes of %d bytes allocate %.0f KiB", len(line), cost/1024)
			}
			close(s.release)
			if err := <-done; err != nil {
				t.Error(err)
			}
			client.Close()
		})
	}
}

// Serve returns the error of its Reader unchanged. It does not return an error that
// comes from closing the Reader after ctx has ended.
func TestServeReturnsTheErrorOfTheReader(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) {
		c := serve(t, &s.Server)
		broken := errors.New("broken")
		c.in.CloseWithError(broken)
		if err := <-c.done; err != broken {
			t.Errorf("Serve: %#v", err)
		}
	})
	bubble(t, func(t *testing.T, s *stage) {
		c := serve(t, &s.Server)
		c.send(modernCall("1", "deaf"))
		time.Sleep(maxInline) // another reads now
		c.cancel(errors.New("shut down"))
		synctest.Wait()
		c.in.CloseWithError(errors.New("closed by the caller"))
		synctest.Wait()
		close(s.release)
		if err := <-c.done; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
}

// What is read ahead costs as much as there is of it, and not as often as is read.
func TestReadAheadMemory(t *testing.T) {
	if raceBuild() {
		t.Skip("the race detector allocates too")
	}
	const n = 20_000
	r := &lineReader{r: iotest.OneByteReader(strings.NewReader(strings.Repeat("x", n))), limit: 1 << 20}
	if cost := allocated(func() {
		for range n {
			ahead(r)
		}
	}); cost > 500*n {
		t.Errorf("%d Reads of a byte allocate %.0f bytes each", n, cost/n)
	}
}

// Blanks behind the limit are looked at once, however slowly they come.
func TestSlowBlanksAfterTheLimitAreLinear(t *testing.T) {
	const limit = 1000
	mustBeLinear(t, keepHead/8-limit, func(n int) time.Duration {
		line := strings.Repeat("x", limit) + strings.Repeat(" ", n)
		r := &lineReader{r: iotest.OneByteReader(strings.NewReader(line + "\n")), limit: limit}
		begun := time.Now()
		got, tail, err := r.nextLine()
		for ; got == nil && err == nil; got, tail, err = r.nextLine() {
			r.readMore()
		}
		if string(got) != line[:limit] || tail != nil {
			t.Errorf("%d blanks: %d bytes, %v", n, len(got), tail)
		}
		return time.Since(begun)
	})
}

// Answers of handlers that EOF has cancelled are held until the last handler has
// returned, or Drain is over; while Linger runs they flow.
func TestResponsesAreHeldUntilHandlersReturn(t *testing.T) {
	cleanup := func(s *stage) {
		add(&s.Server, "cleanup", func(ctx context.Context) (string, error) {
			<-ctx.Done()
			time.Sleep(50 * time.Millisecond)
			return "clean", nil
		})
	}
	bubble(t, func(t *testing.T, s *stage) {
		cleanup(s)
		c := serve(t, &s.Server)
		c.send(modernCall("1", "wait"))
		for i := range 20 {
			c.send(modernCall(strconv.Itoa(i+2), "cleanup"))
		}
		c.recv()
		c.in.Close()
		s.saw(t, ErrClosed)
		time.Sleep(49 * time.Millisecond)
		c.want()
		c.ends(time.Millisecond, nil)
		if got := c.recv(); len(got) != 21 {
			t.Errorf("%d answers", len(got))
		}
	})
	bubble(t, func(t *testing.T, s *stage) {
		c := serve(t, &s.Server)
		c.send(modernCall("1", "wait"), modernCall("2", "deaf"))
		c.in.Close()
		time.Sleep(time.Second - 1)
		c.want()
		c.ends(1, ErrDrain)
		c.want(modernFailed("1", ErrClosed.Error()))
		close(s.release)
	})
	bubble(t, func(t *testing.T, s *stage) {
		s.Linger = 2 * time.Second
		c := serve(t, &s.Server)
		c.send(modernCall("1", "sleep1"), modernCall("2", "sleep3"))
		c.in.Close()
		time.Sleep(time.Second)
		c.want(modernSaid("1", "slept"))
		c.ends(time.Second, nil)
		c.want(modernFailed("2", ErrClosed.Error()))
	})
}

// Held responses that the client does not read are discarded soon after Drain.
func TestHeldResponsesDoNotBlockServe(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) {
		c := serveUnread(t, &s.Server)
		c.send(modernCall("1", "wait"), modernCall("2", "deaf"))
		c.in.Close()
		c.ends(1100*time.Millisecond, ErrDrain)
		close(s.release)
	})
}

// After Drain, held responses are sent after a Write in progress, within the same
// short time.
func TestHeldResponsesWaitForAWriteInProgress(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) {
		c := serveUnread(t, &s.Server)
		c.send(modernCall("0", "hi")) // a goroutine is blocked in a Write from here on
		c.send(modernCall("1", "wait"), modernCall("2", "deaf"))
		c.in.Close()
		time.Sleep(1050 * time.Millisecond)
		go c.listen()
		c.ends(0, ErrDrain)
		c.want(modernSaid("0", "hi"), modernFailed("1", ErrClosed.Error()))
		close(s.release)
	})
}

// A batch is answered whole or was not read, whenever ctx ends.
func TestBatchIsNotLostWhenContextEnds(t *testing.T) {
	for range 20 {
		bubble(t, func(t *testing.T, s *stage) {
			var trace bytes.Buffer
			c := serve(t, &s.Server, &trace)
			c.initialize("2025-03-26", "{}")
			c.recv()
			member := `{"jsonrpc":"2.0","id":%d,"method":"ping"},`
			var b strings.Builder
			for i := range 500 {
				fmt.Fprintf(&b, member, i+10)
			}
			c.send("[" + strings.TrimSuffix(b.String(), ",") + "]")
			c.cancel(errors.New("shut down"))
			c.ends(0, nil)
			if got := c.recv(); len(got) != strings.Count(trace.String(), "in  [") {
				t.Errorf("%d answers; the batch was read %d times", len(got), strings.Count(trace.String(), "in  ["))
			}
		})
	}
}

// After the end of the input, handlers go on for Linger, unless w fails or ctx ends.
func TestLinger(t *testing.T) {
	for _, row := range []struct {
		linger time.Duration
		tools  string
		lasts  time.Duration
		causes []error
		lines  []string
	}{
		{0, "sleep1", 0, []error{ErrClosed}, []string{modernFailed("0", ErrClosed.Error())}},
		{2500 * time.Millisecond, "sleep1", time.Second - maxInline, []error{nil}, []string{progressLine("0", "1"), modernSaid("0", "slept")}},
		{2500 * time.Millisecond, "sleep1 sleep2", 2*time.Second - maxInline, []error{nil, nil},
			[]string{progressLine("0", "1"), modernSaid("0", "slept"), progressLine("1", "1"), modernSaid("1", "slept")}},
		{2500 * time.Millisecond, "sleep3", 2500 * time.Millisecond, []error{ErrClosed}, []string{modernFailed("0", ErrClosed.Error())}},
		{2500 * time.Millisecond, "sleep1 wait", 2500 * time.Millisecond, []error{nil, ErrClosed},
			[]string{progressLine("0", "1"), modernSaid("0", "slept"), modernFailed("1", ErrClosed.Error())}},
	} {
		bubble(t, func(t *testing.T, s *stage) {
			s.Linger = row.linger
			c := serve(t, &s.Server)
			for i, tool := range strings.Fields(row.tools) {
				id := strconv.Itoa(i)
				c.send(modernCall(id, tool, `"progressToken":`+id))
			}
			time.Sleep(maxInline)
			c.in.Close()
			c.ends(row.lasts, nil)
			c.want(row.lines...)
			s.saw(t, row.causes...)
		})
	}
	bubble(t, func(t *testing.T, s *stage) { // what else may end it: w, and ctx
		s.Linger = time.Hour
		c := serveWire(t, &s.Server)
		c.send(modernCall("1", "sleep1"), modernCall("2", "wait"))
		synctest.Wait()
		c.break_ = func([]byte) (int, error) { return 0, syscall.EPIPE }
		c.in.Close()
		c.ends(time.Second-maxInline, nil)
		s.saw(t, nil, ErrClosed)
	})
	bubble(t, func(t *testing.T, s *stage) {
		s.Linger = time.Hour
		c := serveWire(t, &s.Server)
		c.send(modernCall("1", "wait"), modernCall("2", "deaf"))
		synctest.Wait()
		c.in.Close()
		synctest.Wait()
		c.cancel(io.ErrNoProgress)
		s.saw(t, io.ErrNoProgress)
		c.ends(time.Second, ErrDrain)
		close(s.release)
	})
}

// Changes that happen while handlers linger are sent before the responses of these
// handlers.
func TestChangesAreSentDuringLinger(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) {
		s.Linger = time.Minute
		add(&s.Server, "change", func(context.Context) (string, error) {
			time.Sleep(time.Second)
			s.RemoveTools("nil")
			s.ResourceUpdated("test://x")
			return "changed", nil
		})
		s.AddResource(Resource{URI: "test://x", Name: "x"}, texts("x"))
		c := serve(t, &s.Server)
		c.initialize("2025-11-25", "{}")
		c.send(`{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"test://x"}}`)
		c.want(`{"jsonrpc":"2.0","id":1,"result":{}}`)
		c.send(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"change"}}`)
		c.in.Close()
		c.ends(time.Second, nil)
		c.want(changed, `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"test://x"}}`,
			`{"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"changed"}]}}`)
	})
}

// Questions to the client end at once when the session ends, with or without Linger,
// and with its cause.
func TestQuestionsEndWithTheSession(t *testing.T) {
	boom := errors.New("boom")
	for _, row := range []struct {
		event func(c *wireClient)
		want  error
	}{
		{func(c *wireClient) { c.in.Close() }, ErrClosed},
		{func(c *wireClient) { c.in.CloseWithError(boom) }, boom},
		{func(c *wireClient) { c.cancel(boom) }, boom},
	} {
		bubble(t, func(t *testing.T, s *stage) {
			s.Linger = 5 * time.Second
			begin := time.Now()
			add(&s.Server, "again", func(ctx context.Context) (string, error) {
				_, first := Roots(context.WithoutCancel(ctx))
				_, second := Roots(context.WithoutCancel(ctx)) // the session has ended
				s.causes = append(s.causes, first)
				if second == nil || time.Since(begin) != 0 {
					t.Errorf("after the end, at %v: %v", time.Since(begin), second)
				}
				return "", nil
			})
			c := serveWire(t, &s.Server)
			c.initialize("2025-11-25", `{"roots":{}}`)
			c.send(legacyCall("1", "again"))
			if got := c.recv(); len(got) != 1 || !strings.Contains(got[0], "roots/list") {
				t.Fatalf("question: %q", got)
			}
			row.event(c)
			c.over(0)
			s.saw(t, row.want)
			got := slices.DeleteFunc(c.recv(), func(l string) bool { return strings.Contains(l, "notifications/cancelled") })
			if len(got) != 1 {
				t.Errorf("written: %q", got)
			}
		})
	}
}

// Fifty handlers ask in a loop until the session ends while the client responds.
func TestFiftyHandlersAskUntilTheEnd(t *testing.T) {
	for _, end := range []func(*client){
		func(c *client) { c.in.Close() },
		func(c *client) { c.out.Close() },
		func(c *client) { c.cancel(nil) },
	} {
		bubble(t, func(t *testing.T, s *stage) {
			var asks atomic.Int32
			add(&s.Server, "loop", func(ctx context.Context) (string, error) {
				for {
					if _, err := Roots(ctx); err != nil {
						return "", err
					}
					asks.Add(1)
				}
			})
			c := serveUnread(t, &s.Server)
			c.send(`{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"roots":{}},"clientInfo":{"name":"c","version":"1"}}}`)
			for i := range 50 {
				c.send(legacyCall(strconv.Itoa(i), "loop"))
			}
			asked := regexp.MustCompile(`"id":(\d+),"method":"roots/list"`)
			go func() { // not before all calls are sent: it closes the pipe that they go through
				lines := bufio.NewScanner(c.out)
				for n := 0; lines.Scan(); {
					if m := asked.FindStringSubmatch(lines.Text()); m != nil {
						io.WriteString(c.in, `{"jsonrpc":"2.0","id":`+m[1]+`,"result":{"roots":[{"uri":"file:///"}]}}`+"\n")
						if n++; n == 1000 {
							end(c)
						}
					}
				}
			}()
			if c.ends(0, nil); asks.Load() < 500 {
				t.Errorf("%d questions were answered", asks.Load())
			}
		})
	}
}

// An open subscription does not delay the end. It is answered unless the client has
// closed the connection.
func TestOpenStreamsDoNotDelayTheEnd(t *testing.T) {
	const ack = `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":"sub"},"notifications":{"toolsListChanged":true}}}`
	const end = `{"jsonrpc":"2.0","id":"sub","result":{"resultType":"complete","_meta":{"io.modelcontextprotocol/subscriptionId":"sub","io.modelcontextprotocol/serverInfo":{"name":"demo","version":"1.0.0"}}}}`
	for _, row := range []struct {
		event func(c *client)
		lines []string
	}{
		{func(c *client) { c.in.Close() }, nil},
		{func(c *client) { c.in.CloseWithError(io.ErrClosedPipe) }, nil},
		{func(c *client) { c.cancel(nil) }, []string{end}},
		{func(c *client) { c.send(cancelling(`"sub"`)); c.recv(); c.in.Close() }, nil},
	} {
		bubble(t, func(t *testing.T, s *stage) {
			s.Linger = time.Hour
			c := serve(t, &s.Server)
			c.send(listenLine)
			c.want(ack)
			row.event(c)
			c.ends(0, nil)
			c.want(row.lines...)
		})
	}
}

// A subscription that is read ahead, and begins after the end of the input, ends as
// well.
func TestStreamBegunAfterEOF(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) {
		s.Linger = time.Hour
		add(&s.Server, "big", func(context.Context) (string, error) { return strings.Repeat("x", outputBound), nil })
		c := serveUnread(t, &s.Server)
		c.send(modernCall("1", "big"))
		synctest.Wait()
		c.send(listenLine) // is read ahead
		c.in.Close()
		synctest.Wait()
		go c.listen()
		c.ends(0, nil)
	})
}

// An ErrDrain names the handlers that outlive Drain, and no Write begins after Serve
// has returned.
func TestDrain(t *testing.T) {
	for _, row := range []struct{ drain, lasts time.Duration }{
		{0, time.Second}, {300 * time.Millisecond, 300 * time.Millisecond}, {time.Minute, time.Minute}, {-1, time.Second},
	} {
		for _, linger := range []time.Duration{0, 2 * time.Second} {
			bubble(t, func(t *testing.T, s *stage) {
				s.Drain, s.Linger = row.drain, linger
				c := serveWire(t, &s.Server)
				c.send(modernCall("7", "deaf"), modernCall(`"x"`, "deaf"), modernCall("8", "wait"))
				synctest.Wait()
				c.send(cancelling(`"x"`))
				synctest.Wait()
				c.in.Close()
				err := c.over(linger + row.lasts)
				if !errors.Is(err, ErrDrain) {
					t.Fatalf("Serve: %v", err)
				}
				names := strings.TrimPrefix(err.Error(), ErrDrain.Error()+": ")
				if names != `tools/call deaf (id 7); tools/call deaf (id "x"), cancelled` {
					t.Errorf("still at work: %s", names)
				}
				c.want(modernFailed("8", ErrClosed.Error()))
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
		c.send(modernCall("1", "tidy"))
		time.Sleep(maxInline)
		c.in.Close()
		c.ends(time.Second-1, nil)
		c.want(modernSaid("1", "tidy"))
	})
	bubble(t, func(t *testing.T, s *stage) { // many names; a failure of w besides
		c := serveWire(t, &s.Server)
		for i := range 30 {
			c.send(modernCall(strconv.Itoa(i), "deaf"))
		}
		synctest.Wait()
		c.break_ = func([]byte) (int, error) { return 0, io.ErrNoProgress }
		c.send(pingLine)
		err := c.over(time.Second)
		if !errors.Is(err, ErrDrain) || !errors.Is(err, io.ErrNoProgress) || !strings.Contains(err.Error(), "and 20 more") {
			t.Errorf("Serve: %v", err)
		}
		close(s.release)
	})
}

// However short Drain is, a session in which nothing is left ends without an ErrDrain.
func TestNothingIsLeftAfterAShortDrain(t *testing.T) {
	lines := map[string]string{"nothing": "", "inline": modernCall("1", "hi"), "listens": listenLine,
		"own goroutine": modernCall("1", "wait") + "\n" + pingLine, "two": modernCall("1", "hi") + "\n" + modernCall("2", "hi")}
	for name, line := range lines {
		for _, byContext := range []bool{false, true} {
			var sessions sync.WaitGroup
			for range 100 {
				sessions.Go(func() {
					s := &Server{Name: "short", Version: "1", Drain: 1, ErrorLog: log.New(io.Discard, "", 0)}
					add(s, "hi", func(context.Context) (string, error) { return "hi", nil })
					release := make(chan struct{})
					add(s, "wait", func(context.Context) (string, error) { <-release; return "hi", nil })
					ctx, cancel := context.WithCancel(context.Background())
					defer cancel()
					r, in := io.Pipe()
					out, w := io.Pipe()
					done := make(chan error, 1)
					go func() { done <- s.Serve(ctx, r, w) }()
					answers := bufio.NewReader(out)
					if line != "" {
						io.WriteString(in, line+"\n")
						for i := range strings.Count(line, "\n") + 1 {
							if i == 1 {
								close(release)
							}
							if _, err := answers.ReadString('\n'); err != nil {
								t.Error(err)
							}
						}
					}
					go io.Copy(io.Discard, answers)
					if byContext {
						cancel()
					} else {
						in.Close()
					}
					if err := <-done; err != nil {
						t.Errorf("%s, by context %v: %v", name, byContext, err)
					}
					in.Close()
					w.Close()
				})
			}
			sessions.Wait()
		}
	}
}

// Nothing but the Read that is under way goes on when ctx has ended Serve.
func TestNothingIsReadAfterServe(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) {
		r, in := io.Pipe()
		ctx, cancel := context.WithCancel(context.Background())
		s.Name, s.Version, s.ErrorLog = "demo", "1", log.New(io.Discard, "", 0)
		go func() { synctest.Wait(); cancel() }()
		if err := s.Serve(ctx, r, io.Discard); err != nil {
			t.Errorf("Serve: %v", err)
		}
		io.WriteString(in, modernCall("1", "hi")+"\n") // taken, and of no effect
		synctest.Wait()
		taken := false
		go func() {
			_, err := io.WriteString(in, modernCall("2", "hi")+"\n")
			taken = err == nil
		}()
		synctest.Wait()
		if taken {
			t.Error("the reader goes on after Serve returned")
		}
		r.Close()
		s.ran(t)
	})
}

// ---- the client's cancel ----

// A cancel ends the request with that very id, is silent, and is ignored where
// nothing is to be cancelled.
func TestCancelEndsOneRequest(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) {
		c := serveWire(t, &s.Server)
		both := func(lines ...string) { c.send(strings.Join(lines, "\n")) } // in one write

		c.send(modernCall("1", "wait"))
		c.want()
		c.send(cancelling("1"))
		c.want()
		s.saw(t, stopped) // which is the very *CancelledError, reason and all
		s.ran(t, "1")

		both(modernCall("2", "hi"), cancelling("2"), modernCall(`"2"`, "hi")) // with its request
		got := c.recv()
		got = slices.DeleteFunc(got, func(l string) bool { return sameJSON(t, l, modernSaid("2", "hi")) }) // it may be too late
		if len(got) != 1 || !sameJSON(t, got[0], modernSaid(`"2"`, "hi")) {
			t.Errorf("got %q", got)
		}
		s.started = nil

		both(modernCall("3", "wait"), cancelling("3")) // and never too late
		time.Sleep(maxInline)
		c.want()
		s.saw(t, stopped)
		s.started = nil

		c.send(modernCall("5", "wait"), modernCall(`"6"`, "wait"), modernCall("7", "wait"))
		c.want()
		for _, none := range []string{`"5"`, "6", "8", "1", "5.0", "-5", "null", "true", "5.5", "[5]", `{"id":5}`, `"init"`, `"ping"`} {
			c.send(cancelling(none))
		}
		for _, malformed := range []string{``, `,"params":null`, `,"params":5`, `,"params":[5]`, `,"params":{}`, `,"params":{"reason":"x"}`, `,"params":{"requestID":5}`, `,"params":{"id":5}`} {
			c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled"` + malformed + `}`)
		}
		c.send(`{"jsonrpc":"1.0","method":"notifications/cancelled","params":{"requestId":5}}`, pingLine)
		c.want(pongLine)
		s.saw(t)
		c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5}}`) // no reason, or none that is a text
		s.saw(t, &CancelledError{})
		c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7,"reason":["x"]}}`)
		s.saw(t, &CancelledError{})
		c.send(cancelling(`"6"`), cancelling(`"6"`))
		s.saw(t, stopped)
		c.end()
	})
	bubble(t, func(t *testing.T, s *stage) { // initialize cannot be cancelled
		c := serve(t, &s.Server)
		c.send(`{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}` + "\n" + cancelling(`"init"`))
		if got := c.recv(); len(got) != 1 || !strings.Contains(got[0], `"protocolVersion":"2025-11-25"`) {
			t.Errorf("initialize: %q", got)
		}
		c.end()
	})
}

// A request that is cancelled before its handler has started never starts:
// while another runs, it is for the scheduler to say when it does.
func TestCancelledRequestDoesNotStart(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // the reader goes on, most of the time, until it blocks
	bubble(t, func(t *testing.T, s *stage) {
		c := serve(t, &s.Server)
		c.send(modernCall("0", "wait"))
		time.Sleep(maxInline)
		s.ran(t, "0")
		for range 20 {
			c.send(modernCall("1", "wait") + "\n" + cancelling("1") + "\n" + pingLine)
			c.want(pongLine)
		}
		if len(s.started) > 10 {
			t.Errorf("%d of 20 handlers were started", len(s.started))
		}
		c.in.Close()
		c.ends(0, nil)
		c.want(modernFailed("0", ErrClosed.Error()))
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
				_, err := Roots(context.WithoutCancel(ctx))
				if !reflect.DeepEqual(err, stopped) {
					t.Errorf("Roots: %v", err)
				}
				return "", err
			},
			func(context.Context) (string, error) { panic("x") },
			func(context.Context) (string, error) { runtime.Goexit(); return "", nil },
		} {
			c.send(legacyCall("1", "obey", `"progressToken":"t"`))
			c.want()
			c.send(cancelling("1"))
			c.want()
			c.send(modernCall("1", "wait")) // the same id
			c.want()
			act <- f // the first one ends
			c.want()
			s.saw(t)
			c.send(cancelling("1"))
			s.saw(t, stopped) // the second
			c.send(modernCall("1", "hi"))
			c.want(modernSaid("1", "hi"))
		}
		c.end()
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
			c.send(cancelling(`"sub"`) + "\n" + modernCall("1", "change"))
			c.want(modernSaid("1", ""))
		}
		c.end()
	})
}

// ---- handlers that do not return ----

type explosive struct{}

func (explosive) MarshalJSON() ([]byte, error) { panic("secret") }

func (explosive) Error() string { panic("secret") }

// A bomb panics again while its panic is formatted.
type bomb struct{}

func (b bomb) Error() string { panic(b) }

// The methods of a quitter end the goroutine that calls them.
type quitter struct{}

func (quitter) Error() string { runtime.Goexit(); return "" }

func (quitter) Is(error) bool { runtime.Goexit(); return false }

type quietQuitter struct{}

func (quietQuitter) String() string { runtime.Goexit(); return "" }

// If the value of a panic, or the error of a handler, calls runtime.Goexit when it is
// formatted, only its request fails.
func TestFormattingMayCallGoexit(t *testing.T) {
	ends := map[string]func() error{
		"error value":    func() error { panic(quitter{}) },
		"stringer value": func() error { panic(quietQuitter{}) },
		"error":          func() error { return quitter{} },
	}
	for name, end := range ends {
		bubble(t, func(t *testing.T, s *stage) {
			s.MaxConcurrent = 1
			log := diagnostics(&s.Server)
			add(&s.Server, "slow", func(context.Context) (string, error) { time.Sleep(time.Second); return "", end() })
			add(&s.Server, "fast", func(context.Context) (string, error) { return "", end() })
			c := serve(t, &s.Server)
			c.send(modernCall("1", "fast")) // on the reader's goroutine
			c.want(modernFailed("1", "Internal error"))
			c.send(modernCall("2", "slow"), modernCall("3", "hi"), pingLine)
			c.want(pongLine)
			time.Sleep(time.Second)
			c.want(modernFailed("2", "Internal error"), modernSaid("3", "hi"))
			c.in.Close()
			c.ends(0, nil)
			if text := log.String(); !strings.Contains(text, "fast (id 1) ") || strings.Contains(name, "value") && !strings.Contains(text, "panicked: a mcp.qui") {
				t.Errorf("%s: log: %s", name, text)
			}
		})
	}
}

// A handler that panics costs its own request, and its words go to ErrorLog
// only.
func TestPanicFailsOneRequest(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) {
		var out bytes.Buffer
		s.ErrorLog = log.New(&out, "", 0)
		AddTool(&s.Server, Tool{Name: "result"}, func(context.Context, struct{}) (explosive, error) { return explosive{}, nil })
		add(&s.Server, "error", func(context.Context) (string, error) { return "", explosive{} })
		add(&s.Server, "value", func(context.Context) (string, error) { panic(explosive{}) })
		add(&s.Server, "bomb", func(context.Context) (string, error) { panic(bomb{}) })
		c := serve(t, &s.Server)
		for _, dies := range []string{"panic", "nil", "goexit", "result", "error", "value", "bomb"} {
			out.Reset()
			c.send(modernCall("1", "sleep1"))
			synctest.Wait()
			c.send(modernCall("2", dies))
			c.want(modernFailed("2", "Internal error"))
			what := "panicked: "
			if dies == "goexit" {
				what = "called runtime.Goexit\n"
			}
			if text := out.String(); !strings.Contains(text, dies+" (id 2) "+what) || !strings.Contains(text, "_test.go:") {
				t.Errorf("%s: log: %s", dies, text)
			}
			time.Sleep(time.Second)
			c.want(modernSaid("1", "slept"))
		}
		c.end()
	})
}

// A jam is a writer that blocks until release is closed.
type jam struct{ release chan struct{} }

func (j jam) Write(b []byte) (int, error) { <-j.release; return len(b), nil }

// An ErrorLog that takes nothing holds up neither answers nor the end, unless a
// handler waits for it itself.
func TestBlockedErrorLog(t *testing.T) {
	for _, row := range []struct {
		own bool // the handler logs too
		err error
	}{{false, nil}, {true, ErrDrain}} {
		bubble(t, func(t *testing.T, s *stage) {
			s.ErrorLog = log.New(jam{s.release}, "", 0)
			add(&s.Server, "log", func(context.Context) (string, error) {
				jam{s.release}.Write(nil) // as by ErrorLog, but for its mutex, which no bubble sees through
				return "logged", nil
			})
			c := serve(t, &s.Server)
			c.send("rubbish", modernCall("1", "panic"), pingLine)
			if got := c.recv(); len(got) != 3 {
				t.Errorf("got %q", got)
			}
			if row.own {
				c.send(modernCall("2", "log"))
			}
			for i := range 100 {
				c.send(modernCall(strconv.Itoa(i+10), "nil"))
			}
			c.recv()
			c.send(pingLine)
			c.want(pongLine)
			c.in.Close()
			c.ends(time.Second, row.err)
			close(s.release)
		})
	}
}

// ---- EOF and broken pipes, as a process sees them ----

// No answer of `printf ... | server` is lost.
func TestProcessLosesNoResponseAtEOF(t *testing.T) {
	few, many := 100, 10
	if raceBuild() { // which is run twenty times over
		few, many = 15, 2
	}
	for _, tt := range []struct {
		n, times  int
		tool, arg string
		check     func(message) bool
	}{
		{0, 10, "", "", anything}, // initialize and nothing else
		{1, few, "echo", `{"Text":"hi"}`, func(m message) bool { return m.text() == "hi" }},
		{50, few, "echo", `{"Text":"hi"}`, func(m message) bool { return m.text() == "hi" }},
		{1000, many, "echo", `{"Text":"hi"}`, func(m message) bool { return m.text() == "hi" }},
		{50, 10, "wait", `{}`, toldClosed},
		{1000, 3, "wait", `{}`, toldClosed},
	} {
		input := opening + callLines(1, tt.n, tt.tool, tt.arg)
		t.Run(fmt.Sprint(tt.n, tt.tool), func(t *testing.T) {
			t.Parallel()
			for i := range tt.times {
				t.Run("", func(t *testing.T) {
					p := newProc(t)
					var out bytes.Buffer
					p.cmd.Stdin, p.cmd.Stdout = strings.NewReader(input), &out
					if i%2 == 1 { // the last line is a line without its end, too
						p.cmd.Stdin = strings.NewReader(strings.TrimSuffix(input, "\n"))
					}
					p.start().wait("exit status 0")
					wantAnswered(t, out.String(), 0, tt.n, func(m message) bool { return m.ID == 0 || tt.check(m) })
					if errs := p.errs.String(); errs != "" {
						t.Errorf("stderr: %s", errs)
					}
				})
			}
		})
	}
}

// A stdin with nothing in it is an ordinary end.
func TestProcessEmptyStdin(t *testing.T) {
	p := newProc(t)
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	p.cmd.Stdin = null
	p.start()
	p.answers(1, 0, anything)
	p.wait("exit status 0")
	if errs := p.errs.String(); errs != "" {
		t.Errorf("stderr: %s", errs)
	}
}

// Handlers that do not return are named in ErrDrain, and main goes on. The other
// handlers are answered.
func TestProcessLeavesHangingHandlers(t *testing.T) {
	p := beginProc(t, "MCP_TEST_DRAIN=200ms")
	p.send(callLines(1, 3, "hang", "{}") + callLines(4, 6, "wait", "{}"))
	p.arrived(6)
	begun := time.Now()
	p.in.Close()
	p.answers(4, 6, toldClosed)
	rep := p.wait("exit status 1")
	if !rep.Drain || strings.Count(rep.Err, "hang") != 3 || strings.Contains(rep.Err, "wait") {
		t.Errorf("%q: want an ErrDrain that names the three hanging calls and no other", rep.Err)
	}
	if took := time.Since(begun); took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
}

// The server ends if the process that holds the other ends of its pipes is killed.
func TestProcessEndsWithItsHost(t *testing.T) {
	p := newProc(t, "MCP_TEST_CHILD=host")
	r, w, err := os.Pipe() // stderr of both: it ends when both have ended
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	p.cmd.Stderr = w
	p.start()
	w.Close()
	var pid int
	if _, err := fmt.Fscanln(p.lines, &pid); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-p.ended
	r.SetReadDeadline(time.Now().Add(patience))
	if b, err := io.ReadAll(r); err != nil || len(b) > 0 {
		if server, err := os.FindProcess(pid); err == nil {
			server.Kill()
		}
		t.Fatalf("the server lives on, or complains: %v, %s", err, b)
	}
	var rep report
	b, err := os.ReadFile(p.file)
	if err == nil {
		err = json.Unmarshal(b, &rep)
	}
	if err != nil || rep.Err != "" {
		t.Fatalf("report: %v, %s", err, b)
	}
	p.told(rep, 10, ErrClosed.Error())
}

// If stdout is closed, handlers are cancelled and main cleans up, in spite of SIGPIPE.
func TestProcessEndsAtABrokenPipe(t *testing.T) {
	onUnix(t)
	for _, both := range []bool{false, true} {
		t.Run(fmt.Sprint("both=", both), func(t *testing.T) {
			p := beginProc(t)
			p.send(callLines(1, 50, "wait", "{}"))
			p.arrived(50)
			p.out.Close()
			if both {
				p.in.Close()
			} else {
				p.send(callLine(51, "echo", `{"Text":"hi"}`)) // which is how it finds out
			}
			p.told(p.wait("exit status 0"), 50, ErrClosed.Error())
			if errs := p.errs.String(); errs != "" {
				t.Errorf("stderr: %s", errs)
			}
		})
	}
}

// More responses are due than the pipe holds, and the client does not read them.
func TestProcessEndsWithUnreadResponses(t *testing.T) {
	onUnix(t)
	due := func(t *testing.T, env ...string) *proc {
		p := beginProc(t, env...)
		p.send(callLines(1, 8, "big", `{"Size":200000}`))
		if _, err := p.lines.ReadByte(); err != nil { // it has begun to write
			t.Fatal(err)
		}
		return p
	}
	t.Run("leaves", func(t *testing.T) {
		p := due(t)
		p.in.Close()
		p.out.Close()
		p.wait("exit status 0")
	})
	t.Run("stops reading", func(t *testing.T) {
		p := due(t)
		p.out.Close()
		p.wait("exit status 0")
	})
	t.Run("leaves during cleanup", func(t *testing.T) {
		p := newProc(t, "MCP_TEST_DRAIN=200ms")
		begun, end := p.startCleaner()
		p.send(opening + callLines(1, 8, "big", `{"Size":200000}`))
		p.next(0)
		p.in.Close()
		begun()
		p.out.Close() // the write that ServeStdio left behind fails only now
		end()
		p.wait("exit status 1")
	})
}

// ---- signals ----

// SIGTERM and SIGINT cancel handlers with the signal as their cause, and
// ServeStdio returns nil.
func TestProcessSIGTERMAndSIGINT(t *testing.T) {
	onUnix(t)
	for _, sig := range []os.Signal{syscall.SIGTERM, os.Interrupt} {
		for _, n := range []int{0, 20} {
			t.Run(fmt.Sprintf("%v with %d handlers", sig, n), func(t *testing.T) {
				p := beginProc(t)
				p.send(callLines(1, n, "wait", "{}"))
				p.arrived(n)
				if err := p.cmd.Process.Signal(sig); err != nil {
					t.Fatal(err)
				}
				// Newer releases of Go name the signal.
				cause := regexp.MustCompile(`^(context canceled|` + sig.String() + ` signal received)$`)
				p.answers(1, n, func(m message) bool { return m.Result.IsError && cause.MatchString(m.text()) })
				rep := p.wait("exit status 0")
				for told, count := range rep.Ended {
					if !cause.MatchString(told) || count != n {
						t.Errorf("handlers were told %v", rep.Ended)
					}
				}
				if n > 0 && len(rep.Ended) != 1 {
					t.Errorf("handlers were told %v", rep.Ended)
				}
			})
		}
		t.Run(fmt.Sprintf("%v twice", sig), func(t *testing.T) {
			p := beginProc(t)
			p.send(callLine(1, "hang", "{}") + callLine(2, "wait", "{}"))
			p.arrived(2)
			p.cmd.Process.Signal(sig)
			p.next(2) // the first has arrived
			p.kill(sig)
			p.wait("signal: " + sig.String())
		})
	}
}

// A signal right after the end of stdin does not end the process while main cleans up.
// A second signal does.
func TestProcessSignalsAfterEOF(t *testing.T) {
	onUnix(t)
	for _, twice := range []bool{false, true} {
		t.Run(fmt.Sprint("twice=", twice), func(t *testing.T) {
			p := newProc(t)
			begun, end := p.startCleaner()
			p.send(opening)
			p.next(0)
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

// The first of Server.Signals ends the session, and other signals do not. A signal that
// was ignored when the process started, as under nohup, stays ignored.
func TestProcessServerSignals(t *testing.T) {
	onUnix(t)
	for _, tt := range []struct {
		name, signals string // the Signals of the server; "" is nil
		nohup         bool
		send          []os.Signal
		cause         string
	}{
		{"SIGHUP by default", "", false, []os.Signal{syscall.SIGHUP}, "hangup signal received"},
		{"SIGHUP under nohup", "", true, []os.Signal{syscall.SIGHUP, syscall.SIGTERM}, "terminated signal received"},
		{"SIGHUP in Signals under nohup", "HUP TERM", true, []os.Signal{syscall.SIGHUP, syscall.SIGTERM}, "terminated signal received"},
		{"SIGHUP not in Signals", "TERM", false, []os.Signal{syscall.SIGHUP, syscall.SIGTERM}, "terminated signal received"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if !tt.nohup && signal.Ignored(syscall.SIGHUP) { // child processes inherit this
				t.Skip("SIGHUP is ignored")
			}
			p := newProc(t, "MCP_TEST_SIGNALS="+tt.signals)
			if tt.nohup {
				sh, err := exec.LookPath("sh")
				if err != nil {
					t.Skip(err)
				}
				p.cmd.Path, p.cmd.Args = sh, []string{"sh", "-c", `trap "" HUP; exec "$0"`, p.cmd.Path}
			}
			p.start()
			p.send(opening)
			p.next(0)
			p.send(callLines(1, 5, "wait", "{}"))
			p.arrived(5)
			for _, sig := range tt.send { // SIGHUP is delivered before SIGTERM, also if both are pending
				p.cmd.Process.Signal(sig)
			}
			p.told(p.wait("exit status 0"), 5, tt.cause)
		})
	}
}

// The first signal does not end the process if ctx has ended before.
func TestProcessSignalAfterContextEnds(t *testing.T) {
	onUnix(t)
	p := beginProc(t)
	p.send(callLine(1, "slow", "{}") + callLine(2, "stop", "{}")) // slow signals its own process
	p.wait("exit status 0")
}

// ---- the process's stdin, stdout and stderr ----

// What handlers print is written to stderr, child processes read nothing of stdin, and
// a second ServeStdio is refused.
func TestProcessStdoutIsStderr(t *testing.T) {
	p := beginProc(t, "MCP_TEST_AFTER=1")
	p.send(callLine(1, "stray", "{}") + pingLineOf(2)) // what comes after is none of the reader's
	p.send(callLine(3, "second", "{}"))
	got := map[int]message{}
	for range 3 {
		m := p.recv()
		got[m.ID] = m
	}
	if got[1].text() != "ran" || got[2].Result == nil || !strings.Contains(got[3].text(), "already") {
		t.Errorf("got %+v", got)
	}
	p.send(callLine(4, "stray", "{}")) // the one that was refused has undone nothing
	p.next(4)
	p.in.Close()
	if rest, _ := io.ReadAll(p.lines); string(rest) != "\"after\"\n" {
		t.Errorf("stdout ends with %q", rest)
	}
	rep := p.wait("exit status 0")
	if rep.Again != "" {
		t.Errorf("serving again: %s", rep.Again)
	}
	errs := p.errs.String()
	if strings.Count(errs, "stray print\n") != 2 || strings.Count(errs, "reader got 0 bytes, <nil>\n") != 2 {
		t.Errorf("stderr: %s", errs)
	}
}

// A standard logger that writes to stdout does not write to the wire.
func TestProcessLoggerOnStdout(t *testing.T) {
	p := newProc(t, "MCP_TEST_LOG=stdout", "MCP_TEST_AFTER=1").start()
	p.send(opening + "garbage\n")
	p.next(0)
	p.recv() // is JSON, or the test ends
	p.in.Close()
	if rest, _ := io.ReadAll(p.lines); string(rest) != "\"after\"\nafter, by log\n" {
		t.Errorf("stdout ends with %q", rest)
	}
	p.wait("exit status 0")
	if errs := p.errs.String(); !strings.Contains(errs, "Parse error") {
		t.Errorf("stderr: %s", errs)
	}
}

// The value and the stack of a panic are written to stderr and not sent to the model.
func TestProcessPanicGoesToStderr(t *testing.T) {
	p := beginProc(t)
	for id, tool := range []string{1: "panic", 2: "goexit", 3: "panic"} {
		if id > 0 {
			p.send(callLine(id, tool, "{}"))
			if m := p.next(id); !m.Result.IsError || m.text() == "" || strings.Contains(m.text(), "secret") {
				t.Errorf("%s: got %q", tool, m.text())
			}
			p.send(pingLineOf(10 + id))
			p.next(10 + id)
		}
	}
	p.in.Close()
	p.answers(1, 0, anything)
	p.wait("exit status 0")
	if errs := p.errs.String(); strings.Count(errs, "the secret") != 2 || !strings.Contains(errs, "_test.go:") {
		t.Errorf("stderr: %s", errs)
	}
}

// A stderr that is full and not read delays nothing.
func TestProcessFullStderr(t *testing.T) {
	onUnix(t)
	t.Run("", func(t *testing.T) { fullStderr(t) })
	t.Run("logger on stdout", func(t *testing.T) { fullStderr(t, "MCP_TEST_LOG=stdout") }) // which is to be turned back
}

func fullStderr(t *testing.T, env ...string) {
	t.Helper()
	p := newProc(t, append(env, "MCP_TEST_DRAIN=500ms")...)
	_, p.cmd.Stderr = fullPipe(t)
	p.start()
	p.send(opening)
	p.next(0)
	for id := 1; id <= 100; id++ {
		p.send("garbage\n" + callLine(id, "panic", "{}"))
		for range 2 {
			p.recv()
		}
		p.send(pingLineOf(1000 + id))
		p.next(1000 + id)
	}
	begun := time.Now()
	p.in.Close()
	p.answers(1, 0, anything)
	p.wait("exit status 0")
	if took := time.Since(begun); took > 20*time.Second {
		t.Errorf("it took %v", took)
	}
}

// fullPipe returns both ends of a pipe that takes no more.
func fullPipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	for _, chunk := range [][]byte{make([]byte, 4096), {0}} {
		w.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
		for err = nil; err == nil; {
			_, err = w.Write(chunk)
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal(err)
		}
	}
	return r, w
}

// A write of diagnostics that was in progress when ServeStdio returned fails while main
// cleans up. It does not end the process.
func TestProcLateDiagnosticsDoNotEndMain(t *testing.T) {
	onUnix(t)
	p := newProc(t, "MCP_TEST_DRAIN=200ms", "MCP_TEST_CLEANUP=stdout")
	r, w := fullPipe(t)
	theirs, cleanup, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer cleanup.Close()
	p.cmd.Stderr, p.cmd.ExtraFiles = w, []*os.File{theirs}
	p.start()
	theirs.Close()
	w.Close()
	p.send(opening + "garbage\n")
	p.next(0)
	p.recv() // the error response to garbage, which is reported to stderr too
	p.in.Close()
	if line, err := p.lines.ReadString('\n'); line != "cleaning up\n" {
		t.Fatalf("got %q, %v", line, err)
	}
	r.Close()
	cleanup.Close()
	p.wait("exit status 0")
}

// MCP_TRACE names the file of the trace. A file that cannot be opened is reported.
func TestProcessTrace(t *testing.T) {
	dialogue := func(p *proc) (in, out []string) {
		in = strings.Split(strings.TrimSuffix(opening+callLines(1, 20, "echo", `{"Text":"hi"}`), "\n"), "\n")
		p.send(strings.Join(in, "\n") + "\n")
		p.in.Close()
		rest, _ := io.ReadAll(p.lines)
		p.wait("exit status 0")
		return in, strings.Split(strings.TrimSuffix(string(rest), "\n"), "\n")
	}
	t.Run("file", func(t *testing.T) {
		const earlier = "kept\n"
		file := filepath.Join(t.TempDir(), "trace")
		if err := os.WriteFile(file, []byte(earlier), 0o600); err != nil {
			t.Fatal(err)
		}
		in, out := dialogue(newProc(t, "MCP_TRACE="+file).start())
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		shape := regexp.MustCompile(`^\d{4}/\d\d/\d\d \d\d:\d\d:\d\d\.\d{6} (in |out) ? ?(\{.*\})$`)
		var gotIn, gotOut []string
		asked := map[int]bool{}
		added, appended := strings.CutPrefix(string(b), earlier)
		if !appended {
			t.Error("the trace has replaced the file")
		}
		for line := range strings.Lines(added) {
			m := shape.FindStringSubmatch(strings.TrimSuffix(line, "\n"))
			if m == nil {
				t.Fatalf("trace: %q", line)
			}
			msg := parseMessage(t, m[2])
			if m[1] == "in " {
				gotIn = append(gotIn, m[2])
				asked[msg.ID] = true
			} else if gotOut = append(gotOut, m[2]); !asked[msg.ID] {
				t.Errorf("answered before it was asked: %s", line)
			}
		}
		if !slices.Equal(gotIn, in) || !slices.Equal(gotOut, out) {
			t.Errorf("the trace is not what was said:\n%s", b)
		}
	})
	t.Run("off", func(t *testing.T) {
		p := newProc(t).start()
		dialogue(p)
		if files, _ := os.ReadDir(p.dir); len(files) != 1 || p.errs.Len() > 0 {
			t.Errorf("files %v, stderr %s", files, p.errs.String())
		}
	})
	t.Run("impossible", func(t *testing.T) { // is reported, and the session is served
		p := newProc(t, "MCP_TRACE="+filepath.Join("no", "such", "place")).start()
		dialogue(p)
		if errs := p.errs.String(); strings.Count(errs, "\n") != 1 || !strings.Contains(errs, "MCP_TRACE") {
			t.Errorf("stderr: %s", errs)
		}
	})
}

// A FIFO without a reader as MCP_TRACE delays neither the session nor its end.
func TestProcessTraceIntoAFIFO(t *testing.T) {
	onUnix(t)
	for _, how := range []string{"EOF", "SIGTERM"} {
		t.Run(how, func(t *testing.T) {
			fifo := filepath.Join(t.TempDir(), "fifo")
			if err := exec.Command("mkfifo", fifo).Run(); err != nil {
				t.Skip(err)
			}
			p := beginProc(t, "MCP_TRACE="+fifo, "MCP_TEST_DRAIN=100ms")
			p.send(callLine(1, "echo", `{"Text":"hi"}`))
			p.next(1)
			if how == "EOF" {
				p.in.Close()
			} else {
				p.cmd.Process.Signal(syscall.SIGTERM)
			}
			p.wait("exit status 0")
		})
	}
}

// A person who starts the server in a terminal gets a hint. The master of a
// pseudoterminal is used as the terminal, because it needs no ioctl.
func TestProcessHintOnATerminal(t *testing.T) {
	pty, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if runtime.GOOS != "linux" || err != nil {
		t.Skip("no pseudoterminals: ", err)
	}
	defer pty.Close()
	p := newProc(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	p.cmd.Stdin, p.cmd.Stderr = pty, w
	p.start()
	w.Close()
	errs := bufio.NewReader(r)
	if line, err := errs.ReadString('\n'); !strings.Contains(line, "child is an MCP server") || !strings.Contains(line, "Ctrl-C") {
		t.Fatalf("got %q, %v", line, err)
	}
	p.cmd.Process.Signal(os.Interrupt) // Ctrl-C, once
	p.answers(1, 0, anything)
	p.wait("exit status 0")
	if more, _ := io.ReadAll(errs); len(more) > 0 {
		t.Errorf("more on stderr: %s", more)
	}
}

// Neither a pipe nor a file nor the null device is taken for a terminal.
func TestIsTerminal(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	again, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	for name, f := range map[string]*os.File{"pipe": r, "pipe's end": w, "null device": null, "file": file} {
		if isTerminal(f, again) {
			t.Errorf("a %s is taken for a terminal", name)
		}
		if f.Close(); isTerminal(f, again) {
			t.Errorf("a closed %s is taken for a terminal", name)
		}
	}
}

// A terminal whose other end is closed is at its end. /proc/self/mem gives
// the same error as such a terminal does.
func TestTerminalEIOIsEOF(t *testing.T) {
	f, err := os.Open("/proc/self/mem")
	if err != nil {
		t.Skip(err)
	}
	defer f.Close()
	if _, err := f.Read(make([]byte, 1)); !errors.Is(err, syscall.EIO) {
		t.Skip(err)
	}
	if _, err := (terminalFile{f}).Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("Read: %v", err)
	}
}
