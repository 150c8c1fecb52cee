// SPDX-License-Identifier: MIT

package main

// What the Handler of http.go knows of messages: their members, the revisions, and the headers
// that repeat parts of a body.

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
)

const (
	keyVersion   = "io.modelcontextprotocol/protocolVersion"
	codeMismatch = -32020
)

var (
	// olderRevisions begin with initialize.
	olderRevisions = []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"}

	// sessionMethods are the methods of older revisions that have no effect without a session.
	sessionMethods = []string{"logging/setLevel", "resources/subscribe", "resources/unsubscribe"}
)

// members returns the members of a JSON object, or nil if it is none. Their names are matched
// exactly, as the server does it: with a struct, encoding/json would also take "Method" for
// "method".
func members(object []byte) (m map[string]json.RawMessage) {
	json.Unmarshal(object, &m)
	return m
}

// text returns the value of a JSON string, or "".
func text(raw []byte) (s string) {
	json.Unmarshal(raw, &s)
	return s
}

// initialize returns the line of a request that makes Serve accept one of an older revision.
func initialize(revision string) []byte {
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":%q,`+
		`"capabilities":{},"clientInfo":{"name":"unknown","version":"0"}}}`+"\n", revision)
}

// withoutSession returns the response to a client of an older revision, with the members m, as it
// is without a session.
func withoutSession(method string, line []byte, m map[string]json.RawMessage) []byte {
	if method == "initialize" && m["result"] != nil {
		return declareLess(m)
	}
	// A tool could not ask. That is what Serve says of each client, because initialize above
	// declares no capability.
	lacks := []byte(" capability, which this client does not have")
	if bytes.Contains(line, lacks) && (m["error"] != nil || string(members(m["result"])["isError"]) == "true") {
		return bytes.Replace(line, lacks, []byte(" capability, which needs a session or revision 2026-07-28, and this server has no sessions"), 1)
	}
	return line
}

// declareLess returns the response to initialize without what needs a session: log messages, and
// notifications of changes.
func declareLess(m map[string]json.RawMessage) []byte {
	result := members(m["result"])
	capabilities := members(result["capabilities"])
	delete(capabilities, "logging")
	for _, name := range []string{"tools", "prompts", "resources"} {
		if capabilities[name] != nil {
			capabilities[name] = json.RawMessage("{}") // neither listChanged nor subscribe
		}
	}
	result["capabilities"], _ = json.Marshal(capabilities)
	m["result"], _ = json.Marshal(result)
	line, _ := json.Marshal(m)
	return append(line, '\n')
}

// statusOf returns the HTTP status of a response of 2026-07-28. The code is that of its error, or nil.
func statusOf(code json.RawMessage) int {
	switch string(code) {
	case "-32601":
		return http.StatusNotFound
	case "-32700", "-32600", "-32602", "-32021", "-32022":
		return http.StatusBadRequest
	}
	return http.StatusOK
}

// ---- headers that repeat parts of a body, in revision 2026-07-28 ----

// Proxies route and allow requests by these headers, so they must not differ from what is served.

// listTools returns the line of a request for the tools and their schemas, which say what headers
// repeat arguments. It is made for the client of a call, whose _meta is meta: a tool may be hidden
// from other clients.
func listTools(meta map[string]json.RawMessage) []byte {
	client := maps.Clone(meta)
	delete(client, "progressToken")
	delete(client, "io.modelcontextprotocol/logLevel")
	raw, _ := json.Marshal(client)
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":0,"method":"tools/list","params":{"_meta":%s}}`+"\n", raw)
}

func mismatch(header string) string {
	return "Header mismatch: " + header + " is missing, came twice, or differs from the body"
}

// wrongHeader returns what is wrong with the headers of a request, or "". claim is the revision
// that the body names.
func wrongHeader(header http.Header, claim json.RawMessage, method string, params map[string]json.RawMessage) string {
	named := map[string]string{"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}[method]
	switch {
	case claim != nil && !slices.Equal(header.Values("MCP-Protocol-Version"), []string{text(claim)}):
		return mismatch("MCP-Protocol-Version")
	case !slices.Equal(header.Values("Mcp-Method"), []string{method}):
		return mismatch("Mcp-Method")
	case named != "" && !repeats(header.Values("Mcp-Name"), params[named]):
		return mismatch("Mcp-Name")
	}
	return ""
}

// wrongArgument returns what is wrong with the headers that repeat arguments of a tool, or "".
// list is the response to tools/list.
func wrongArgument(header http.Header, list []byte, params map[string]json.RawMessage) string {
	var tools []json.RawMessage
	if bytes.Contains(list, []byte("x-mcp-header")) { // decoding a long list takes time
		json.Unmarshal(members(members(list)["result"])["tools"], &tools)
	}
	for _, tool := range tools {
		if t := members(tool); text(t["name"]) == text(params["name"]) {
			return wrongProperty(header, t["inputSchema"], params["arguments"])
		}
	}
	return ""
}

// wrongProperty is wrongArgument for the properties of one object.
func wrongProperty(header http.Header, schema, object json.RawMessage) string {
	values, properties := members(object), members(members(schema)["properties"])
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		property, value := properties[name], values[name]
		if values == nil && !isAbsent(object) {
			value = json.RawMessage("[]") // the object is a text, which the server converts: no header can repeat what is in it
		}
		label := text(members(property)["x-mcp-header"])
		if label != "" && !repeats(header.Values("Mcp-Param-"+label), value) {
			return mismatch("Mcp-Param-" + label)
		}
		if wrong := wrongProperty(header, property, value); wrong != "" {
			return wrong
		}
	}
	return ""
}

// isAbsent reports whether a value of the body is treated as absent.
func isAbsent(value json.RawMessage) bool { return value == nil || string(value) == "null" }

// repeats reports whether the values of a header are exactly one that is the same text, number or
// boolean as value. If value is absent, there must be none.
func repeats(values []string, value json.RawMessage) bool {
	if isAbsent(value) {
		return len(values) == 0
	}
	if len(values) != 1 || strings.ContainsFunc(values[0], func(r rune) bool { return r > '~' }) || value[0] == '[' || value[0] == '{' {
		return false
	}
	got := values[0]
	if strings.HasPrefix(got, "=?base64?") && strings.HasSuffix(got, "?=") {
		decoded, err := base64.StdEncoding.Strict().DecodeString(strings.TrimSuffix(strings.TrimPrefix(got, "=?base64?"), "?="))
		if err != nil {
			return false
		}
		got = string(decoded)
	}
	if value[0] == '"' {
		return got == text(value)
	}
	var a, b float64
	err := errors.Join(json.Unmarshal([]byte(got), &a), json.Unmarshal(value, &b))
	return got == string(value) || err == nil && a == b && a < 1<<53 && a > -1<<53 // larger ones may only look equal
}
