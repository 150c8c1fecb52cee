// SPDX-License-Identifier: MIT
// SPDX-FileCopyrightText: 2026 The mcp authors

package main

import (
	"errors"
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// The server has all tools, resources and prompts that the conformance suite uses.
func TestFixtures(t *testing.T) {
	listed := answers(t, initialize+`
{"jsonrpc":"2.0","id":1,"method":"tools/list"}
{"jsonrpc":"2.0","id":2,"method":"prompts/list"}
{"jsonrpc":"2.0","id":3,"method":"resources/list"}
{"jsonrpc":"2.0","id":4,"method":"resources/templates/list"}
`)
	fixtures, err := os.ReadFile("../../.ci/conformance/FIXTURES.md")
	if err != nil {
		t.Fatal(err)
	}
	needed, _, _ := strings.Cut(string(fixtures), "## Optional extensions")
	names := regexp.MustCompile("`test_[a-z0-9_]+`").FindAllString(needed, -1)
	names = append(names, "add", "json_schema_2020_12_tool", "test://static-text", "test://static-binary", "test://watched-resource", "test://template/{id}/data")
	for _, name := range names {
		if !strings.Contains(listed, `":"`+strings.Trim(name, "`")+`"`) {
			t.Errorf("%s is not listed", name)
		}
	}
	if len(names) < 30 {
		t.Errorf("only %d names were found", len(names))
	}
}

// A handler that asks a question can be called without a client: Elicit returns an error.
func TestConfirm(t *testing.T) {
	if sure, err := confirm(t.Context()); sure || !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("%v, %v", sure, err)
	}
}

// Clients of both eras receive responses.
func TestCalls(t *testing.T) {
	const modern = `"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}`
	for _, test := range []struct{ name, lines, want string }{
		{"legacy", initialize + `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"test_simple_text"}}`,
			`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"This is a simple text response for testing."}]}}`},
		{"legacy progress", initialize + `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"test_tool_with_progress","_meta":{"progressToken":"p"}}}`,
			`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"p","progress":50,"total":100,"message":"50 %"}}`},
		{"modern error", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"test_missing_capability","_meta":{` + modern + `}}}`,
			`{"jsonrpc":"2.0","id":1,"error":{"code":-32021,"message":"This request needs the sampling capability, which this client does not have","data":{"requiredCapabilities":{"sampling":{}}}}}`},
		{"modern question", `{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"test_input_required_result_prompt","_meta":{` + modern + `}}}`,
			`{"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required","inputRequests":{"`},
	} {
		if got := answers(t, test.lines); !strings.Contains(got, "\n"+test.want) {
			t.Errorf("%s:%s\nwant %s", test.name, got, test.want)
		}
	}
}

const initialize = `
{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"host","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
`

// answers returns the lines that the server sends in response to a client's lines.
func answers(t *testing.T, lines string) string {
	t.Helper()
	var out strings.Builder
	synctest.Test(t, func(t *testing.T) {
		s := server()
		s.CancelDelay = time.Minute // handlers finish after the client's last line
		if err := s.Serve(t.Context(), strings.NewReader(lines), &out); err != nil {
			t.Error("Serve:", err)
		}
	})
	return "\n" + out.String()
}
