// SPDX-License-Identifier: MIT
// SPDX-FileCopyrightText: 2026 The mcp authors

package main

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A handler is tested like any function.
func TestAdd(t *testing.T) {
	if got, err := add(t.Context(), addIn{A: 2, B: 40}); got.Sum != 42 || err != nil {
		t.Errorf("2 + 40 = %v, %v", got, err)
	}
}

// The program responds to each request of a host. It serves them concurrently, so the
// order of the responses is not known.
func TestSession(t *testing.T) {
	in, err1 := os.Open("session.jsonl")
	out, err2 := os.Create(filepath.Join(t.TempDir(), "answers.jsonl"))
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	defer out.Close()
	defer func(in, out *os.File) { os.Stdin, os.Stdout = in, out }(os.Stdin, os.Stdout)
	os.Stdin, os.Stdout = in, out
	main()
	got, err := os.ReadFile(out.Name())
	if err != nil {
		t.Fatal(err)
	}
	lines := slices.Sorted(strings.Lines(string(got)))
	if !slices.Equal(lines, slices.Sorted(strings.Lines(answers))) {
		t.Errorf("got\n%swant, in any order,\n%s", got, answers)
	}
}

const answers = `{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","serverInfo":{"name":"hello","version":"1.0.0"},"capabilities":{"tools":{"listChanged":true}}}}
{"jsonrpc":"2.0","id":2,"result":{"tools":[{"name":"greet","description":"Greets a person.","inputSchema":{"type":"object","properties":{"name":{"type":"string","description":"whom to greet"}},"required":["name"],"additionalProperties":false},"annotations":{"readOnlyHint":true,"openWorldHint":false}},{"name":"add","description":"Adds two numbers.","inputSchema":{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"integer"}},"required":["a","b"],"additionalProperties":false},"outputSchema":{"type":"object","properties":{"sum":{"type":"integer"}},"required":["sum"],"additionalProperties":false},"annotations":{"readOnlyHint":true,"openWorldHint":false}}]}}
{"jsonrpc":"2.0","id":6,"error":{"code":-32602,"message":"Unknown tool: nope (there is greet, add)"}}
{"jsonrpc":"2.0","id":"discover","result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{"listChanged":true}},"ttlMs":0,"cacheScope":"private","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"hello","version":"1.0.0"}}}}
{"jsonrpc":"2.0","id":"list","result":{"resultType":"complete","tools":[{"name":"greet","description":"Greets a person.","inputSchema":{"type":"object","properties":{"name":{"type":"string","description":"whom to greet"}},"required":["name"],"additionalProperties":false},"annotations":{"readOnlyHint":true,"openWorldHint":false}},{"name":"add","description":"Adds two numbers.","inputSchema":{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"integer"}},"required":["a","b"],"additionalProperties":false},"outputSchema":{"type":"object","properties":{"sum":{"type":"integer"}},"required":["sum"],"additionalProperties":false},"annotations":{"readOnlyHint":true,"openWorldHint":false}}],"ttlMs":0,"cacheScope":"private","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"hello","version":"1.0.0"}}}}
{"jsonrpc":"2.0","id":"old","error":{"code":-32022,"message":"Unsupported protocol version","data":{"requested":"1999-12-31","supported":["2026-07-28"]}}}
{"jsonrpc":"2.0","id":3,"result":{"content":[{"type":"text","text":"Hello, Ann!"}]}}
{"jsonrpc":"2.0","id":4,"result":{"content":[{"type":"text","text":"{\"sum\":42}"}],"structuredContent":{"sum":42}}}
{"jsonrpc":"2.0","id":5,"result":{"content":[{"type":"text","text":"Invalid arguments: nmae is unknown (there is name); name is required"}],"isError":true}}
{"jsonrpc":"2.0","id":"call","result":{"resultType":"complete","content":[{"type":"text","text":"Hello, Bo!"}],"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"hello","version":"1.0.0"}}}}
`
