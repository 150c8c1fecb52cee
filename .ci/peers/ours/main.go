// Ours serves the tools of the comparison with this library.
package main

import (
	"context"
	"log"

	"example.com/mcp"
	"example.com/mcp/peers/tools"
)

func echo(ctx context.Context, in tools.Echo) (string, error) { return in.Text, nil }

func add(ctx context.Context, in tools.Add) (tools.Sum, error) {
	return tools.Sum{Sum: in.A + in.B}, nil
}

func sleep(ctx context.Context, in tools.Sleep) (string, error) {
	in.Wait(ctx)
	return "awake", nil
}

// serve serves over stdio, or, with the build tag http, over HTTP.
var serve = func(s *mcp.Server) error { return s.ServeStdio(context.Background()) }

func main() {
	s := &mcp.Server{Name: "ours", Version: "1.0.0"}
	mcp.AddTool(s, mcp.Tool{Name: "echo", Description: "Returns its text."}, echo)
	mcp.AddTool(s, mcp.Tool{Name: "add", Description: "Adds two numbers.", OutputSchema: mcp.SchemaOf[tools.Sum]()}, add)
	mcp.AddTool(s, mcp.Tool{Name: "sleep", Description: "Sleeps."}, sleep)
	for i := range tools.More() {
		mcp.AddTool(s, mcp.Tool{Name: tools.Name(i), Description: "Returns its text."}, echo)
	}
	if err := serve(s); err != nil {
		log.Fatal(err)
	}
}
