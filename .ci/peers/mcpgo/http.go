//go:build http

package main

import (
	"example.com/mcp/peers/tools/web"
	"github.com/mark3labs/mcp-go/server"
)

func init() {
	serve = func(s *server.MCPServer) error {
		return web.Serve(server.NewStreamableHTTPServer(s, server.WithStateLess(true)))
	}
}
