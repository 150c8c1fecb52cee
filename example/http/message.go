// SPDX-License-Identifier: MIT
// Version 4.2.2, 2026-11-29. The SHA-256 of each release of this file is in CHANGES.md of example.com/mcp.
// SPDX-FileCopyrightText: 2026 The mcp authors

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
	keyVersion      = "io.modelcontextprotocol/protocolVersion"
	keyCapabilities = "io.modelcontextprotocol/clientCapabilities"
	keyTasks        = "io.modelcontextprotocol/tasks"
	codeMismatch    = -32020
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

// without returns an object without the member to which path leads. If there is none, it returns the object as it is.
func without(object json.RawMessage, path ...string) json.RawMessage {
	m := members(object)
	inner, exists := m[path[0]]
	if !exists {
		return object
	}
	if len(path) == 1 {
		delete(m, path[0])
	} else {
		m[path[0]] = without(inner, path[1:]...)
	}
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false) // so the arguments stay as they were sent
	encoder.Encode(m)
	return b.Bytes()
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

// errorObject returns the error of a response.
func errorObject(code int, text string) json.RawMessage {
	message, _ := json.Marshal(text)
	return fmt.Appendf(nil, `{"code":%d,"message":%s}`, code, message)
}

// errorResponse returns the line of a response. id is the raw id of the request, or nil.
func errorResponse(id, failure json.RawMessage) []byte {
	if len(id) == 0 || !strings.Contains(`"-0123456789`, string(id[:1])) {
		id = json.RawMessage("null")
	}
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"error":%s}`+"\n", id, failure)
}

// statusOf returns the HTTP status of a response of 2026-07-28. The code is that of its error, or nil.
func statusOf(code json.RawMessage) int {
	switch string(code) {
	case "-32601":
		return http.StatusNotFound
	case "-32700", "-32600", "-32602", "-32020", "-32021", "-32022":
		return http.StatusBadRequest
	}
	return http.StatusOK
}

// ---- headers that repeat parts of a body ----

// Proxies route and allow requests by these headers, whatever the revision. So a header that is
// there must not differ from what is served. Revision 2026-07-28 requires some.

func mismatch(header string) string {
	return "Header mismatch: " + header + " is missing, came twice, or does not repeat the body"
}

// wrongHeader returns the name of a header of a message that is wrong, or "". If required is true,
// headers that revision 2026-07-28 requires must be there. claim is the revision that the body names,
// or nil. The headers that repeat the arguments of a call are left to wrongArgument.
func wrongHeader(header http.Header, required bool, claim json.RawMessage, method string, params map[string]json.RawMessage) string {
	versions, methods, names := header.Values("MCP-Protocol-Version"), header.Values("Mcp-Method"), header.Values("Mcp-Name")
	name := params["name"]
	if strings.HasPrefix(method, "resources/") {
		name = params["uri"]
	}
	if strings.HasPrefix(method, "tasks/") {
		name = params["taskId"]
	}
	needsName := required && slices.Contains([]string{"tools/call", "prompts/get", "resources/read"}, method)
	switch {
	case len(versions) > 1 || claim != nil && !slices.Equal(versions, []string{text(claim)}):
		return "MCP-Protocol-Version"
	case (required || len(methods) > 0) && !slices.Equal(methods, []string{method}):
		return "Mcp-Method"
	case (needsName || len(names) > 0) && !repeats(names, name, "string"):
		return "Mcp-Name"
	}
	if params := paramHeaders(header); method != "tools/call" && len(params) > 0 {
		return params[0]
	}
	return ""
}

// paramHeaders returns the names of the headers that repeat arguments.
func paramHeaders(header http.Header) []string {
	names := slices.Sorted(maps.Keys(header))
	return slices.DeleteFunc(names, func(name string) bool { return !strings.HasPrefix(name, "Mcp-Param-") })
}

// listTools returns the line of a request for the tools and their schemas, which say what headers
// repeat arguments. It is made for the client of a call, whose _meta is meta: a tool may be hidden
// from other clients. A client of an older revision has none, and no capabilities without a session.
func listTools(meta map[string]json.RawMessage, modern bool) []byte {
	client := maps.Clone(meta)
	delete(client, "progressToken")
	delete(client, "io.modelcontextprotocol/logLevel")
	raw, _ := json.Marshal(client)
	if !modern {
		raw = []byte(`{"` + keyVersion + `":"2026-07-28","` + keyCapabilities + `":{}}`)
	}
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":0,"method":"tools/list","params":{"_meta":%s}}`+"\n", raw)
}

// A toolList is a response to tools/list.
type toolList struct {
	line      []byte
	failure   json.RawMessage       // its error, or nil
	arguments map[string][]argument // that headers repeat, of each tool
}

// An argument is one that a header repeats, because the schema of the property has x-mcp-header.
type argument struct {
	header string
	path   []string // the names of properties that lead to it
	typ    string   // its JSON type, or "" if it has several
}

// parseTools returns the toolList of a response, which may be changed afterwards.
func parseTools(line []byte) *toolList {
	var response struct {
		Error  json.RawMessage
		Result struct {
			Tools []struct {
				Name        string
				InputSchema json.RawMessage
			}
		}
	}
	json.Unmarshal(line, &response)
	list := &toolList{line: bytes.Clone(line), failure: response.Error, arguments: make(map[string][]argument)}
	for _, tool := range response.Result.Tools {
		list.arguments[tool.Name] = findArguments(tool.InputSchema, nil)
	}
	return list
}

// findArguments returns the arguments that headers repeat. path leads to the object that the schema describes.
func findArguments(schema json.RawMessage, path []string) (found []argument) {
	properties := members(members(schema)["properties"])
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		property, at := members(properties[name]), append(slices.Clone(path), name)
		if label := text(property["x-mcp-header"]); label != "" {
			found = append(found, argument{"Mcp-Param-" + label, at, text(property["type"])})
		}
		found = append(found, findArguments(properties[name], at)...)
	}
	return found
}

// wrongArgument returns the name of a header that is wrong, or "". values are the arguments of a
// call, and arguments those that headers must repeat if required is true.
func wrongArgument(header http.Header, required bool, arguments []argument, values json.RawMessage) string {
	unknown := paramHeaders(header)
	for _, a := range arguments {
		got := header.Values(a.header)
		if (required || len(got) > 0) && !repeats(got, a.find(values), a.typ) {
			return a.header
		}
		unknown = slices.DeleteFunc(unknown, func(name string) bool { return strings.EqualFold(name, a.header) })
	}
	if len(unknown) > 0 {
		return unknown[0]
	}
	return ""
}

// find returns the value of the argument, or nil.
func (a argument) find(values json.RawMessage) json.RawMessage {
	for _, name := range a.path {
		object := members(values)
		if object == nil && !isAbsent(values) {
			return json.RawMessage("[]") // a text, which the server converts: no header can repeat what is in it
		}
		values = object[name]
	}
	return values
}

// isAbsent reports whether a value of the body is treated as absent.
func isAbsent(value json.RawMessage) bool { return value == nil || string(value) == "null" }

// repeats reports whether the values of a header are exactly one, which is the same as value, of
// the JSON type typ. If value is absent, there must be none.
func repeats(values []string, value json.RawMessage, typ string) bool {
	if isAbsent(value) {
		return len(values) == 0
	}
	if len(values) != 1 || strings.ContainsFunc(values[0], func(r rune) bool { return r > '~' }) || value[0] == '[' || value[0] == '{' {
		return false
	}
	got, want := values[0], string(value)
	if strings.HasPrefix(got, "=?base64?") && strings.HasSuffix(got, "?=") {
		decoded, err := base64.StdEncoding.Strict().DecodeString(strings.TrimSuffix(strings.TrimPrefix(got, "=?base64?"), "?="))
		if err != nil {
			return false
		}
		got = string(decoded)
	}
	if value[0] == '"' { // the server converts "5" to a number, and 5 to a string, as the type demands
		want = text(value)
	}
	if got != want && (typ == "integer" || typ == "number") {
		a, errA := parseNumber(got)
		b, errB := parseNumber(want)
		return errA == nil && errB == nil && a == b && a < 1<<53 && a > -1<<53 // larger ones may only look equal
	}
	return got == want
}

// parseNumber returns the value of a number as JSON writes it, without space.
func parseNumber(s string) (float64, error) {
	var number json.Number
	err := json.Unmarshal([]byte(s), &number)
	if err == nil && string(number) != s {
		err = errors.New("not a number")
	}
	if err != nil {
		return 0, err
	}
	return number.Float64()
}
