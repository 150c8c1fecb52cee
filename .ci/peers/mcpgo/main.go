// Mcpgo serves the tools of the comparison with mark3labs/mcp-go, as its example
// structured_input_and_output shows. Its worker pool is raised from 5 to 64, the
// largest number of calls in flight. It does not validate arguments, which is its
// default.
package main

import (
	"context"
	"log"

	"example.com/mcp/peers/tools"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

func echo(ctx context.Context, req mcp.CallToolRequest, in tools.Echo) (*mcp.CallToolResult, error) {
	return mcp.NewToolResultText(in.Text), nil
}

func add(ctx context.Context, req mcp.CallToolRequest, in tools.Add) (tools.Sum, error) {
	return tools.Sum{Sum: in.A + in.B}, nil
}

func sleep(ctx context.Context, req mcp.CallToolRequest, in tools.Sleep) (*mcp.CallToolResult, error) {
	in.Wait(ctx)
	return mcp.NewToolResultText("awake"), nil
}

// serve serves over stdio, or, with the build tag http, over HTTP.
var serve = func(s *server.MCPServer) error { return server.ServeStdio(s, server.WithWorkerPoolSize(64)) }

func main() {
	s := server.NewMCPServer("mcpgo", "1.0.0", server.WithToolCapabilities(false))
	s.AddTool(mcp.NewTool("echo", mcp.WithDescription("Returns its text."), mcp.WithInputSchema[tools.Echo]()),
		mcp.NewTypedToolHandler(echo))
	s.AddTool(mcp.NewTool("add", mcp.WithDescription("Adds two numbers."), mcp.WithInputSchema[tools.Add](),
		mcp.WithOutputSchema[tools.Sum]()), mcp.NewStructuredToolHandler(add))
	s.AddTool(mcp.NewTool("sleep", mcp.WithDescription("Sleeps."), mcp.WithInputSchema[tools.Sleep]()),
		mcp.NewTypedToolHandler(sleep))
	for i := range tools.More() {
		s.AddTool(mcp.NewTool(tools.Name(i), mcp.WithDescription("Returns its text."), mcp.WithInputSchema[tools.Echo]()),
			mcp.NewTypedToolHandler(echo))
	}
	if err := serve(s); err != nil {
		log.Fatal(err)
	}
}
