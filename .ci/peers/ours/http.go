//go:build http

// With this tag the files of example/http are a part of this program: see ../main.go.

package main

import (
	"example.com/mcp"
	"example.com/mcp/peers/tools/web"
)

func init() {
	serve = func(s *mcp.Server) error { return web.Serve(NewHandler(s.Serve)) }
}
