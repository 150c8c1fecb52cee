// SPDX-License-Identifier: MIT

package mcp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
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

// EOF is heard the moment that Read returns it, also when more output is unsent
// than there may be (F01).
func TestEOFIsHeardUnderTooMuchOutput(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) {
		add(&s.Server, "big", func(context.Context) (string, error) {
			<-s.release
			return strings.Repeat("x", outputBound/2), nil
		})
		c := serveDeaf(t, &s.Server)
		c.send(callNow("1", "wait"), callNow("2", "big"), callNow("3", "big"), callNow("4", "big"))
		synctest.Wait() // the reader is in Read
		close(s.release)
		synctest.Wait() // and nobody takes the output
		c.in.Close()
		synctest.Wait()
		s.saw(t, ErrClosed)
		c.ends(time.Second, ErrDrain)
	})
}

// A subscription that is begun after the others were told of the end is told of
// it too (F52).
func TestSubscriptionBegunAfterTheEnd(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) {
		s.Linger = time.Hour
		add(&s.Server, "big", func(context.Context) (string, error) { return strings.Repeat("x", outputBound), nil })
		c := serveDeaf(t, &s.Server)
		c.send(callNow("1", "big"))
		synctest.Wait()
		c.send(listenLine) // is read ahead
		c.in.Close()
		synctest.Wait()
		go c.listen()
		c.ends(0, nil)
	})
}

// A batch is answered whole or was not read, whenever ctx ends (F51).
func TestBatchIsNotLostWhenContextEnds(t *testing.T) {
	for range 20 {
		bubble(t, func(t *testing.T, s *stage) {
			var trace bytes.Buffer
			s.Trace = &trace
			c := serve(t, &s.Server)
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

// Answers of handlers that EOF has cancelled are held until the last handler has
// returned, or Drain is over; while Linger runs they flow (F37).
func TestAnswersAreHeldUntilTheLastHasReturned(t *testing.T) {
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
		c.send(callNow("1", "wait"))
		for i := range 20 {
			c.send(callNow(strconv.Itoa(i+2), "cleanup"))
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
		c.send(callNow("1", "wait"), callNow("2", "deaf"))
		c.in.Close()
		time.Sleep(time.Second - 1)
		c.want()
		c.ends(1, ErrDrain)
		c.want(failedNow("1", ErrClosed.Error()))
		close(s.release)
	})
	bubble(t, func(t *testing.T, s *stage) {
		s.Linger = 2 * time.Second
		c := serve(t, &s.Server)
		c.send(callNow("1", "sleep1"), callNow("2", "sleep3"))
		c.in.Close()
		time.Sleep(time.Second)
		c.want(saidNow("1", "slept"))
		c.ends(time.Second, nil)
		c.want(failedNow("2", ErrClosed.Error()))
	})
}

// What is held is given up when the client does not take it: soon after Drain.
func TestHeldAnswersDoNotHoldServe(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) {
		c := serveDeaf(t, &s.Server)
		c.send(callNow("1", "wait"), callNow("2", "deaf"))
		c.in.Close()
		c.ends(1100*time.Millisecond, ErrDrain)
		close(s.release)
	})
}

type emptyReader struct{}

func (emptyReader) Read([]byte) (int, error) { return 0, nil }

// A Reader that returns neither data nor an error for ever is given up (F33).
func TestReaderThatReturnsNothing(t *testing.T) {
	s := demo()
	s.Name, s.Version, s.ErrorLog = "demo", "1", log.New(io.Discard, "", 0)
	if err := s.Serve(t.Context(), emptyReader{}, io.Discard); !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("Serve: %v", err)
	}
}

// A change is not coalesced into an earlier one if an answer stands between
// them, which the client would take for the newer news (F06).
func TestChangeAfterAnAnswerIsTold(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) {
		s.AddResource(Resource{URI: "x:y", Name: "y"}, texts("z"))
		c := serveDeaf(t, &s.Server)
		c.send(strings.ReplaceAll(listenLine, `"toolsListChanged":true`, `"toolsListChanged":true,"resourceSubscriptions":["x:y"]`))
		c.send(pingLine) // somebody is writing now, and comes to no end
		synctest.Wait()
		change := func() { s.RemoveTools("sleep1"); add(&s.Server, "sleep1", nil2); s.ResourceUpdated("x:y") }
		change()
		change() // nothing between: once is enough
		c.send(pingLine)
		synctest.Wait()
		change()
		go c.listen()
		var order []string
		for _, line := range c.recv() {
			switch {
			case strings.Contains(line, "tools/list_changed"):
				order = append(order, "list")
			case strings.Contains(line, "resources/updated"):
				order = append(order, "updated")
			case strings.Contains(line, `"result"`):
				order = append(order, "pong")
			}
		}
		if want := []string{"pong", "list", "updated", "pong", "list", "updated"}; !slices.Equal(order, want) {
			t.Errorf("got %v, want %v", order, want)
		}
		c.end()
	})
}

func nil2(context.Context) (string, error) { return "", nil }

// What notifications repeat has a bound: the id of a subscription and the token
// of progress (F03).
func TestWhatIsRepeatedIsBounded(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) {
		c := serve(t, &s.Server)
		long := `"` + strings.Repeat("x", maxRepeated) + `"`
		c.send(strings.Replace(listenLine, `"sub"`, long, 1))
		c.want(wrong(long, -32600, "Invalid Request: the id of a subscription has at most 1024 bytes"))
		c.send(callNow("1", "hi", `"progressToken":`+long))
		c.want(wrong("1", -32602, "Invalid params: progressToken is too long"))
		c.end()
	})
}

// heap is how many bytes are in use.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// What served requests held is let go, also when others still wait (F07), and an
// open subscription keeps nothing of its line (F15).
func TestMemoryIsLetGo(t *testing.T) {
	const size = 1 << 20
	pad := strings.Repeat("x", size)
	bubble(t, func(t *testing.T, s *stage) {
		s.MaxConcurrent = 1
		AddTool(&s.Server, Tool{Name: "take"}, func(context.Context, struct{ Text string }) (string, error) { return "", nil })
		c := serve(t, &s.Server)
		c.send(callNow("0", "sleep1"))
		for i := range 32 {
			c.send(strings.Replace(callNow(strconv.Itoa(i+1), "take"), `"name":"take"`, `"name":"take","arguments":{"Text":"`+pad+`"}`, 1))
		}
		c.send(callNow("100", "sleep2"), callNow("101", "sleep1"))
		synctest.Wait()
		full := heap()
		time.Sleep(time.Second)
		c.recv()
		if kept := heap() - (full - 32*size); kept > 8*size {
			t.Errorf("%d MiB are kept of 32 that were served", kept>>20)
		}
		c.in.Close()
		<-c.done
	})
	bubble(t, func(t *testing.T, s *stage) {
		c := serve(t, &s.Server)
		before := heap()
		for i := range 16 {
			c.send(strings.Replace(strings.Replace(listenLine, `"sub"`, strconv.Itoa(i), 1),
				`"io.modelcontextprotocol/clientCapabilities":{}`, `"io.modelcontextprotocol/clientCapabilities":{"experimental":{"x":{"y":"`+pad+`"}}}`, 1))
		}
		if got := c.recv(); len(got) != 16 {
			t.Fatalf("%d acknowledgements: %.300q", len(got), got)
		}
		if kept := heap() - before; kept > 4*size {
			t.Errorf("%d MiB are kept by 16 subscriptions", kept>>20)
		}
		c.end()
	})
}

// To cancel what waits for its turn takes a time of its own, and not of all that
// wait (F14).
func TestCancelsOfWaitingRequestsAreLinear(t *testing.T) {
	took := func(n int) time.Duration {
		s := newStage(t)
		s.MaxConcurrent = 1
		c := serve(t, &s.Server)
		c.send(callNow("0", "wait"))
		for i := range n {
			c.send(callNow(strconv.Itoa(i+1), "hi"))
		}
		session := s.openSessions()[0]
		for queued := 0; queued < n; runtime.Gosched() {
			session.mu.Lock()
			queued = session.waiting.Len()
			session.mu.Unlock()
		}
		begun := time.Now()
		for i := range n {
			session.cancelRequest([]byte(strconv.Itoa(n-i)), "") // the last one first
		}
		d := time.Since(begun)
		c.in.Close()
		<-c.done
		return d
	}
	const n = 2000
	var few, many time.Duration
	for range 3 { // whoever else is at work may have been in the way
		if few, many = took(n), took(8*n); many < 24*max(few, time.Millisecond) {
			return
		}
	}
	t.Errorf("%d cancels took %v, %d took %v", n, few, 8*n, many)
}

// What a client writes cannot be taken for the next line of a log (F17), and
// each diagnostic is printed by itself (F31).
func TestDiagnosticsAreOneLineEach(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) {
		var prints slowPrints
		s.ErrorLog = log.New(&prints, "", 0)
		c := serve(t, &s.Server)
		c.send("{\"id\":[\r1,\"\u0085\u2028\"],\"result\":1}", `{"id":1,"error":{}}`, "x", "y")
		c.send(callNow("1", "panic"))
		c.recv()
		c.in.Close()
		<-c.done
		if len(prints.got) != 5 || strings.ContainsAny(strings.Join(prints.got[:4], ""), "\r\u0085\u2028") || strings.Count(prints.got[4], "\n") < 5 {
			t.Errorf("%d prints: %q", len(prints.got), prints.got)
		}
	})
}

type slowPrints struct{ got []string }

func (p *slowPrints) Write(b []byte) (int, error) {
	time.Sleep(time.Millisecond) // in a bubble
	p.got = append(p.got, string(b))
	return len(b), nil
}

// Two sessions of one Server write one trace, and can be told apart (F30).
func TestTraceOfTwoSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var trace bytes.Buffer // without a lock: there is one writer at a time
		s := &Server{Trace: &trace}
		a, b := serve(t, s), serve(t, s)
		var wg sync.WaitGroup
		for _, c := range []*client{a, b} {
			wg.Go(func() {
				for range 100 {
					c.send(pingLine)
				}
			})
		}
		wg.Wait()
		a.recv()
		b.recv()
		a.end()
		b.send(pingLine)
		b.recv()
		b.end()
		for prefix, want := range map[string]int{" in  {": 100, " out {": 100, " in#2 {": 101, " out#2 {": 101} {
			if got := strings.Count(trace.String(), prefix); got != want && strings.Count(trace.String(), prefix) != 201-want {
				t.Errorf("%d lines with %q, want %d", got, prefix, want)
			}
		}
	})
}

// A terminal whose other end is closed is at its end (F41). /proc/self/mem gives
// the same error as such a terminal does.
func TestTerminalThatGoesAwayIsAtItsEnd(t *testing.T) {
	f, err := os.Open("/proc/self/mem")
	if err != nil {
		t.Skip(err)
	}
	defer f.Close()
	if _, err := f.Read(make([]byte, 1)); !errors.Is(err, syscall.EIO) {
		t.Skip(err)
	}
	if _, err := (terminalReader{f}).Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("Read: %v", err)
	}
}

// A trace into a FIFO that nobody reads keeps the session neither from serving
// nor from ending (F18).
func TestProcTraceIntoAFIFO(t *testing.T) {
	onUnix(t)
	for _, how := range []string{"EOF", "SIGTERM"} {
		t.Run(how, func(t *testing.T) {
			fifo := filepath.Join(t.TempDir(), "fifo")
			if err := exec.Command("mkfifo", fifo).Run(); err != nil {
				t.Skip(err)
			}
			p := beginProc(t, "MCP_TRACE="+fifo, "MCP_TEST_DRAIN=100ms")
			p.send(callProc(1, "echo", `{"Text":"hi"}`))
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

// A standard logger that writes to stdout does not write to the wire (F04).
func TestProcLoggerOnStdout(t *testing.T) {
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

// SIGHUP ends a session as SIGTERM does, unless the process was started to
// ignore it, as under nohup (F39).
func TestProcHangup(t *testing.T) {
	onUnix(t)
	t.Run("ends", func(t *testing.T) {
		p := beginProc(t)
		p.send(callsProc(1, 5, "wait", "{}"))
		p.arrived(5)
		p.cmd.Process.Signal(syscall.SIGHUP)
		p.told(p.wait("exit status 0"), 5, "hangup signal received")
	})
	t.Run("nohup", func(t *testing.T) {
		p := newProc(t)
		p.cmd.Args = []string{"sh", "-c", `trap "" HUP; exec "$0"`, p.cmd.Path}
		sh, err := exec.LookPath("sh")
		if err != nil {
			t.Skip(err)
		}
		p.cmd.Path = sh
		p.start()
		p.send(opening)
		p.next(0)
		p.cmd.Process.Signal(syscall.SIGHUP)
		p.send(callProc(1, "echo", `{"Text":"hi"}`))
		p.next(1)
		p.in.Close()
		p.wait("exit status 0")
	})
}

// When ctx has ended first, the first signal still does not kill (F32).
func TestProcSignalAfterContextHasEnded(t *testing.T) {
	onUnix(t)
	p := beginProc(t)
	p.send(callProc(1, "slow", "{}") + callProc(2, "stop", "{}")) // slow signals its own process
	p.wait("exit status 0")
}

// ---- the three machines by themselves ----

// newTurn is a turn that counts how often it has passed to a new goroutine.
func newTurn() (t *turn, passed func() int) {
	var n atomic.Int64
	t = &turn{read: func() { n.Add(1) }}
	t.timer = time.AfterFunc(time.Hour, t.pass)
	t.timer.Stop()
	return t, func() int { synctest.Wait(); return int(n.Load()) }
}

// A turn passes only while it is lent, once, and then is not got back.
func TestTurnPasses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turn, passed := newTurn()
		if turn.pass(); passed() != 0 {
			t.Error("it passed, and was not lent")
		}
		if !turn.reclaim(turn.lend()) {
			t.Error("a loan that nobody wanted is not got back")
		}
		if turn.reclaim(0) {
			t.Error("what was never lent was got back")
		}
		loan := turn.lend()
		turn.pass()
		turn.pass()
		if passed() != 1 || turn.reclaim(loan) {
			t.Errorf("it passed %d times, or was got back all the same", passed())
		}
		next := turn.lend() // by the new holder
		if turn.reclaim(loan) || !turn.reclaim(next) {
			t.Error("a loan was taken for another")
		}
	})
}

// A turn that is lent for longer than maxInline passes by itself, and one that
// came back does not.
func TestTurnPassesInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turn, passed := newTurn()
		loan := turn.lend()
		time.Sleep(maxInline - 1)
		if passed() != 0 || !turn.reclaim(loan) {
			t.Error("it passed too early")
		}
		if time.Sleep(maxInline); passed() != 0 {
			t.Error("it passed when it was not lent")
		}
		turn.lend()
		if time.Sleep(maxInline); passed() != 1 {
			t.Error("it did not pass")
		}
	})
}

// Lines come out the same however the input is cut into Reads, and what is too
// long keeps its beginning and its end.
func TestLinesDoNotDependOnReads(t *testing.T) {
	long := strings.Repeat("y", 3*keepBuffer)
	input := "\ufeff one\r\n\n \t\ntwo\n" + long + "\n" + long + long + "END\nlast"
	want := []string{"one", "two", long, long[:keepBuffer] + "|" + long[:maxRepeated-4] + "END", "last"}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		r := &lineReader{r: &pieces{input, rng}, limit: 4 * keepBuffer}
		var got []string
		for done := false; !done; {
			line, tail := r.next()
			switch {
			case tail != nil:
				got = append(got, string(line)+"|"+string(tail))
			case line != nil:
				got = append(got, string(line))
			case r.err != nil:
				done = true
			case rng.IntN(3) == 0:
				r.add(<-r.readAhead())
			default:
				r.fill()
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("got %.60q, want %.60q", got, want)
		}
	}
}

// pieces is a Reader of pieces of random length, now and then with the end.
type pieces struct {
	s   string
	rng *rand.Rand
}

func (p *pieces) Read(b []byte) (n int, err error) {
	n = copy(b, p.s[:min(len(p.s), 1+p.rng.IntN([]int{2, 100, 1 << 20}[p.rng.IntN(3)]))])
	if p.s = p.s[n:]; p.s == "" && (n == 0 || p.rng.IntN(2) == 0) {
		err = io.EOF
	}
	return n, err
}

// Lines of many senders go out whole, each once, by one goroutine at a time.
func TestWriterWritesEachLineOnce(t *testing.T) {
	var out oneAtATime
	w := &lineWriter{w: &out}
	var wg sync.WaitGroup
	const senders, lines = 8, 500
	for i := range senders {
		wg.Go(func() {
			for j := range lines {
				w.enqueue(fmt.Appendf(nil, "%d:%d", i, j))
				if w.acquire() {
					if err := w.writeAll(); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
	next := make([]int, senders)
	for line := range strings.Lines(out.String()) {
		var i, j int
		if n, _ := fmt.Sscanf(line, "%d:%d\n", &i, &j); n != 2 || next[i] != j {
			t.Fatalf("line %q, want number %d", line, next[i])
		}
		next[i]++
	}
	if !slices.Equal(next, slices.Repeat([]int{lines}, senders)) || w.until(w.end()) != nil || w.unsent() != 0 {
		t.Errorf("written: %v", next)
	}
}

type oneAtATime struct {
	bytes.Buffer
	busy atomic.Bool
}

func (w *oneAtATime) Write(b []byte) (int, error) {
	if !w.busy.CompareAndSwap(false, true) {
		panic("two Writes at once")
	}
	defer w.busy.Store(false)
	return w.Buffer.Write(b)
}

// What is held is not written before release, and nothing after stop.
func TestWriterHoldsAndStops(t *testing.T) {
	var out bytes.Buffer
	w := &lineWriter{w: &out}
	write := func() string {
		if w.acquire() {
			w.writeAll()
		}
		defer out.Reset()
		return out.String()
	}
	first := w.enqueue([]byte("first"))
	w.hold()
	if got := write(); got != "" || !w.queued(first) {
		t.Errorf("written while it was held: %q", got)
	}
	wait := w.until(first)
	w.release()
	if got := write(); got != "first\n" || w.queued(first) || w.until(first) != nil {
		t.Errorf("written: %q", got)
	}
	<-wait
	second := w.enqueue([]byte("second"))
	wait = w.until(second)
	w.stop()
	w.enqueue([]byte("third"))
	if got := write(); got != "" || w.until(second) != nil {
		t.Errorf("written after stop: %q", got)
	}
	<-wait
}

// A Write that fails, or takes less than it was given, is the last one.
func TestWriterEndsWithAnError(t *testing.T) {
	for _, tt := range []struct {
		w    io.Writer
		want error
	}{{iotest.TruncateWriter(io.Discard, 0), nil}, {shortWriter{}, io.ErrShortWrite}, {failingWriter{}, io.ErrClosedPipe}} {
		w := &lineWriter{w: tt.w}
		w.enqueue([]byte("line"))
		if !w.acquire() {
			t.Fatal("nobody writes, and it was not got")
		}
		if err := w.writeAll(); err != tt.want {
			t.Errorf("writeAll: %v, want %v", err, tt.want)
		}
		if w.enqueue([]byte("line")); w.acquire() != (tt.want == nil) {
			t.Errorf("after %v there is another Write", tt.want)
		}
	}
}

type (
	shortWriter   struct{}
	failingWriter struct{}
)

func (shortWriter) Write(b []byte) (int, error)   { return len(b) - 1, nil }
func (failingWriter) Write(b []byte) (int, error) { return 0, io.ErrClosedPipe }
