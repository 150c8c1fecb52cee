// SPDX-License-Identifier: MIT
// SPDX-FileCopyrightText: 2026 The mcp authors

// Hello is a whole MCP server with two tools.
//
// Try it without a host:
//
//	go run ./example/hello < example/hello/session.jsonl
//
// The file session.jsonl plays the host. It holds a session in the style of the older revisions,
// then, from the id "discover" on, requests in the style of 2026-07-28. Three requests are wrong
// on purpose: 5 has a typo in an argument, 6 calls an unknown tool, and "old" names a revision
// that does not exist.
//
// A tool that takes longer is cancelled when the input ends, so keep the input open, as in
// `(cat session.jsonl; sleep 1) | ./hello`.
package main

import (
	"context"
	"log"

	"example.com/mcp"
)

type greetIn struct {
	Name string `json:"name" jsonschema:"whom to greet"`
}

func greet(ctx context.Context, in greetIn) (string, error) {
	return "Hello, " + in.Name + "!", nil
}

type addIn struct {
	A int `json:"a"`
	B int `json:"b"`
}

type sum struct {
	Sum int `json:"sum"`
}

func add(ctx context.Context, in addIn) (sum, error) {
	return sum{in.A + in.B}, nil
}

func main() {
	s := &mcp.Server{Name: "hello", Version: "1.0.0"}
	// Some hosts require these hints before they call a tool without asking.
	harmless := mcp.ToolAnnotations{ReadOnlyHint: mcp.Yes, OpenWorldHint: mcp.No}
	mcp.AddTool(s, mcp.Tool{Name: "greet", Description: "Greets a person.", Annotations: harmless}, greet)
	mcp.AddTool(s, mcp.Tool{Name: "add", Description: "Adds two numbers.", Annotations: harmless}, add)
	if err := s.ServeStdio(context.Background()); err != nil {
		log.Fatal(err)
	}
}
