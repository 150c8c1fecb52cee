// Gosdk serves the tools of the comparison with the official SDK, as its README
// shows. Two of its limits are raised, because it would otherwise refuse 16 MiB of
// text and send the tools in pages.
package main

import (
	"context"
	"log"

	"example.com/mcp/peers/tools"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func text(s string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: s}}}
}

func echo(ctx context.Context, req *mcp.CallToolRequest, in tools.Echo) (*mcp.CallToolResult, any, error) {
	return text(in.Text), nil, nil
}

func add(ctx context.Context, req *mcp.CallToolRequest, in tools.Add) (*mcp.CallToolResult, tools.Sum, error) {
	return nil, tools.Sum{Sum: in.A + in.B}, nil
}

func sleep(ctx context.Context, req *mcp.CallToolRequest, in tools.Sleep) (*mcp.CallToolResult, any, error) {
	in.Wait(ctx)
	return text("awake"), nil, nil
}

// serve serves over stdio, or, with the build tag http, over HTTP.
var serve = func(s *mcp.Server) error {
	return s.Run(context.Background(), &mcp.StdioTransport{MaxLineLength: 64 << 20})
}

func main() {
	s := mcp.NewServer(&mcp.Implementation{Name: "gosdk", Version: "1.0.0"}, &mcp.ServerOptions{PageSize: 2 * tools.Many})
	mcp.AddTool(s, &mcp.Tool{Name: "echo", Description: "Returns its text."}, echo)
	mcp.AddTool(s, &mcp.Tool{Name: "add", Description: "Adds two numbers."}, add)
	mcp.AddTool(s, &mcp.Tool{Name: "sleep", Description: "Sleeps."}, sleep)
	for i := range tools.More() {
		mcp.AddTool(s, &mcp.Tool{Name: tools.Name(i), Description: "Returns its text."}, echo)
	}
	if err := serve(s); err != nil {
		log.Fatal(err)
	}
}
