// SPDX-License-Identifier: MIT

package mcp

import (
	"context"
	"encoding/json"
	"io"
	"log"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
)

// ---- the other end ----

// A client is the other end of a session. It lives in a synctest bubble: what
// it has received is complete whenever everybody else is blocked.
type client struct {
	t      *testing.T
	in     *io.PipeWriter // the server's r
	out    *io.PipeReader // the server's w
	cancel context.CancelCauseFunc
	done   chan error // what Serve returned

	mu  sync.Mutex
	got []string
}

// serve starts a session of s with a client that reads everything.
func serve(t *testing.T, s *Server) *client {
	c := serveDeaf(t, s)
	go c.listen()
	return c
}

// serveDeaf starts one with a client that reads nothing before listen.
func serveDeaf(t *testing.T, s *Server) *client {
	t.Helper()
	if s.Name == "" {
		s.Name, s.Version = "demo", "1.0.0"
	}
	if s.ErrorLog == nil {
		s.ErrorLog = log.New(io.Discard, "", 0)
	}
	c := &client{t: t, done: make(chan error, 1)}
	r, in := io.Pipe()
	out, w := io.Pipe()
	c.in, c.out = in, out
	ctx, cancel := context.WithCancelCause(context.Background())
	c.cancel = cancel
	go func() {
		err := s.Serve(ctx, r, w)
		r.CloseWithError(io.ErrClosedPipe) // as an exiting process would
		w.Close()
		cancel(nil)
		c.done <- err
	}()
	return c
}

func (c *client) listen() {
	b, buf := []byte(nil), make([]byte, 4096)
	for {
		n, err := c.out.Read(buf)
		for b = append(b, buf[:n]...); ; {
			line, rest, whole := strings.Cut(string(b), "\n")
			if !whole {
				break
			}
			b = []byte(rest)
			c.mu.Lock()
			c.got = append(c.got, line)
			c.mu.Unlock()
		}
		if err != nil {
			return
		}
	}
}

// send writes lines to the server.
func (c *client) send(lines ...string) {
	c.t.Helper()
	for _, line := range lines {
		if _, err := io.WriteString(c.in, line+"\n"); err != nil {
			c.t.Errorf("send %.200s: %v", line, err)
		}
	}
}

// recv returns the lines that came since the last time, when no more will
// without the passing of time.
func (c *client) recv() []string {
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	got := c.got
	c.got = nil
	return got
}

// want checks what came, as JSON values, in order.
func (c *client) want(lines ...string) {
	c.t.Helper()
	got := c.recv()
	for i := range max(len(got), len(lines)) {
		switch {
		case i >= len(lines):
			c.t.Errorf("unexpected: %s", got[i])
		case i >= len(got):
			c.t.Errorf("missing: %s", lines[i])
		case !sameJSON(c.t, got[i], lines[i]):
			c.t.Errorf("got  %s\nwant %s", got[i], lines[i])
		}
	}
}

// talk plays a transcript: lines that begin with > are sent, those with < are
// to be received before the next is sent, $META and $SRV are written out, and
// all others are comments.
func (c *client) talk(transcript string) {
	c.t.Helper()
	transcript = strings.NewReplacer(
		"$META", `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`,
		"$SRV", `"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"demo","version":"1.0.0"}}`,
	).Replace(transcript)
	var expected []string
	for line := range strings.Lines(transcript + "\n>") {
		line = strings.TrimSpace(line)
		if rest, ok := strings.CutPrefix(line, "<"); ok {
			expected = append(expected, strings.TrimSpace(rest))
		}
		if rest, ok := strings.CutPrefix(line, ">"); ok {
			c.want(expected...)
			if expected = nil; rest != "" {
				c.send(strings.TrimSpace(rest))
			}
		}
	}
}

// initialize opens a legacy session of the revision with these capabilities.
func (c *client) initialize(version, capabilities string) {
	c.t.Helper()
	c.send(`{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":"` + version + `","capabilities":` + capabilities + `,"clientInfo":{"name":"c","version":"1"}}}`)
	if got := c.recv(); len(got) != 1 || !strings.Contains(got[0], version) {
		c.t.Fatalf("initialize: got %q", got)
	}
	c.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
}

// end closes the client's end, and checks that Serve returns nil and nothing
// is left to be said.
func (c *client) end() {
	c.t.Helper()
	c.in.Close()
	if err := <-c.done; err != nil {
		c.t.Errorf("Serve: %v", err)
	}
	c.want()
}

func sameJSON(t *testing.T, a, b string) bool {
	t.Helper()
	value := func(s string) (v any) {
		d := json.NewDecoder(strings.NewReader(s))
		d.UseNumber()
		if err := d.Decode(&v); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
		return v
	}
	return reflect.DeepEqual(value(a), value(b))
}

// ---- sample ----

func TestSample(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Server{}
		AddTool(s, Tool{Name: "echo"}, func(ctx context.Context, in struct {
			Text string `json:"text"`
		}) (string, error) {
			Progress(ctx, 1, 2, "half")
			return in.Text, nil
		})
		c := serve(t, s)
		c.talk(`
			> {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"hi"},$META}}
			< {"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","content":[{"type":"text","text":"hi"}],$SRV}}
			> {"jsonrpc":"2.0","id":1.5,"method":"ping"}
			< {"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Invalid Request: id must be a string or an integer"}}
		`)
		c.initialize("2025-11-25", "{}")
		c.talk(`
			> {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"echo","arguments":{"text":"hi"},"_meta":{"progressToken":7}}}
			< {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":7,"progress":1,"total":2,"message":"half"}}
			< {"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"hi"}]}}
		`)
		c.end()
	})
}
