// Ours has the handlers of the comparison, in this library.
package main

import (
	"context"
	"log"

	"example.com/mcp"
	"example.com/mcp/peers/cells/handlers"
)

func add(s *mcp.Server, name string, h func(context.Context) (string, error)) {
	mcp.AddTool(s, mcp.Tool{Name: name}, func(ctx context.Context, _ handlers.None) (string, error) { return h(ctx) })
}

func main() {
	s := &mcp.Server{Name: "ours", Version: "1.0.0"}
	add(s, "aware", handlers.Aware)
	add(s, "deaf", handlers.Deaf)
	add(s, "panics", handlers.Panics)
	add(s, "prints", handlers.Prints)
	mcp.AddTool(s, mcp.Tool{Name: "labels"}, func(context.Context, handlers.None) (out handlers.Labels, err error) { return out, nil })
	mcp.AddTool(s, mcp.Tool{Name: "search"}, func(context.Context, handlers.Search) (string, error) { return "found", nil })
	if err := s.ServeStdio(context.Background()); err != nil {
		log.Fatal(err)
	}
}
