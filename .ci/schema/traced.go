// The step wire of .ci/run adds this file to package mcp when it builds the tests
// of the examples, and renames the library's Serve to serveUntraced.

package mcp

import (
	"context"
	"io"
	"os"
	"strings"
)

// Serve calls serveUntraced and writes all lines of both directions to a new file
// in the directory named by MCP_TRACES.
func (s *Server) Serve(ctx context.Context, r io.Reader, w io.Writer) error {
	f, err := os.CreateTemp(os.Getenv("MCP_TRACES"), "*.trace")
	if err != nil {
		panic(err)
	}
	defer f.Close()
	r = io.MultiReader(r, strings.NewReader("\n")) // ends a last line
	return s.serveUntraced(ctx, io.TeeReader(r, &tracer{file: f, prefix: "in  "}), io.MultiWriter(w, &tracer{file: f, prefix: "out "}))
}
