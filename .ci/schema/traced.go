// The step wire of .ci/run adds this file to package mcp when it builds the tests
// of the examples, and renames the library's Serve to serveUntraced.

package mcp

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"sync"
)

// Serve calls serveUntraced and writes all lines of both directions to a new file
// in the directory named by MCP_TRACES.
func (s *Server) Serve(ctx context.Context, r io.Reader, w io.Writer) error {
	f, err := os.CreateTemp(os.Getenv("MCP_TRACES"), "serve")
	if err != nil {
		panic(err)
	}
	defer f.Close()
	t := &bothWays{f: f}
	return s.serveUntraced(ctx, tracedReader{r, &tracedEnd{t: t, way: "in "}}, tracedWriter{w, &tracedEnd{t: t, way: "out"}})
}

type bothWays struct {
	mu sync.Mutex
	f  *os.File
}

// A tracedEnd buffers bytes until it has a line.
type tracedEnd struct {
	t    *bothWays
	way  string
	line []byte
}

func (e *tracedEnd) saw(b []byte) {
	e.t.mu.Lock()
	defer e.t.mu.Unlock()
	e.line = append(e.line, b...)
	for {
		line, rest, whole := bytes.Cut(e.line, []byte("\n"))
		if !whole {
			return
		}
		fmt.Fprintf(e.t.f, "2006/01/02 15:04:05 %s %s\n", e.way, line)
		e.line = rest
	}
}

type tracedReader struct {
	io.Reader
	end *tracedEnd
}

func (r tracedReader) Read(b []byte) (int, error) {
	n, err := r.Reader.Read(b)
	r.end.saw(b[:n])
	if err != nil && len(r.end.line) > 0 { // the last line has no newline
		r.end.saw([]byte("\n"))
	}
	return n, err
}

type tracedWriter struct {
	io.Writer
	end *tracedEnd
}

func (w tracedWriter) Write(b []byte) (int, error) {
	w.end.saw(b)
	return w.Writer.Write(b)
}
