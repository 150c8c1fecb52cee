// Mcpgo has the handlers of the comparison, in mark3labs/mcp-go.
package main

import (
	"context"
	"log"

	"example.com/mcp/peers/cells/handlers"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

func add(s *server.MCPServer, name string, h func(context.Context) (string, error)) {
	s.AddTool(mcp.NewTool(name), func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		text, err := h(ctx)
		if err != nil {
			return mcp.NewToolResultError(err.Error()), nil
		}
		return mcp.NewToolResultText(text), nil
	})
}

func main() {
	s := server.NewMCPServer("mcpgo", "1.0.0", server.WithToolCapabilities(false))
	add(s, "aware", handlers.Aware)
	add(s, "deaf", handlers.Deaf)
	add(s, "panics", handlers.Panics)
	add(s, "prints", handlers.Prints)
	s.AddTool(mcp.NewTool("labels", mcp.WithInputSchema[handlers.None](), mcp.WithOutputSchema[handlers.Labels]()),
		mcp.NewStructuredToolHandler(func(context.Context, mcp.CallToolRequest, handlers.None) (out handlers.Labels, err error) {
			return out, nil
		}))
	s.AddTool(mcp.NewTool("search", mcp.WithInputSchema[handlers.Search]()),
		mcp.NewTypedToolHandler(func(context.Context, mcp.CallToolRequest, handlers.Search) (*mcp.CallToolResult, error) {
			return mcp.NewToolResultText("found"), nil
		}))
	if err := server.ServeStdio(s); err != nil {
		log.Fatal(err)
	}
}
