// Gosdk has the handlers of the comparison, in the official SDK.
package main

import (
	"context"
	"log"

	"example.com/mcp/peers/cells/handlers"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func add(s *mcp.Server, name string, h func(context.Context) (string, error)) {
	mcp.AddTool(s, &mcp.Tool{Name: name}, func(ctx context.Context, _ *mcp.CallToolRequest, _ handlers.None) (*mcp.CallToolResult, any, error) {
		text, err := h(ctx)
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil, err
	})
}

func main() {
	s := mcp.NewServer(&mcp.Implementation{Name: "gosdk", Version: "1.0.0"}, nil)
	add(s, "aware", handlers.Aware)
	add(s, "deaf", handlers.Deaf)
	add(s, "panics", handlers.Panics)
	add(s, "prints", handlers.Prints)
	mcp.AddTool(s, &mcp.Tool{Name: "labels"}, func(context.Context, *mcp.CallToolRequest, handlers.None) (*mcp.CallToolResult, handlers.Labels, error) {
		return nil, handlers.Labels{}, nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: "search"}, func(context.Context, *mcp.CallToolRequest, handlers.Search) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "found"}}}, nil, nil
	})
	if err := s.Run(context.Background(), &mcp.StdioTransport{}); err != nil {
		log.Fatal(err)
	}
}
