//go:build http

package main

import (
	"net/http"

	"example.com/mcp/peers/tools/web"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Without sessions, and with responses as JSON: this costs less than streams, the default.
func init() {
	serve = func(s *mcp.Server) error {
		return web.Serve(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s },
			&mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true}))
	}
}
