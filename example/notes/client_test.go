// SPDX-License-Identifier: MIT
// Version 4.2.2, 2026-11-29. The SHA-256 of each release of this file is in CHANGES.md of example.com/mcp.
// SPDX-FileCopyrightText: 2026 The mcp authors

package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"testing"

	"example.com/mcp"
)

// A session is a host in a test. To test a server of your own, copy this file beside the
// tests and change the package and the import. It has no other name that could collide.
//
//	s := (&session{modern: true}).start(t, newServer()) // revision 2026-07-28; otherwise 2025-11-25
//	text, err := s.call("greet", map[string]any{"name": "Ann"})
//
// ctx, name and can are what the server knows of the client. To respond to questions, set answer:
//
//	s := (&session{answer: func(method string, params json.RawMessage) any {
//		return map[string]any{"action": "accept", "content": map[string]any{"confirm": true}}
//	}}).start(t, newServer())
//
// In a bubble of testing/synctest, a test that would hang fails at once.
type session struct {
	modern        bool
	ctx           context.Context                                 // of Serve; nil: context.Background. That of the test ends too early
	name          string                                          // of the client; "": test
	can           map[string]any                                  // the client's capabilities; nil: all that a server may ask for
	answer        func(method string, params json.RawMessage) any // nil: a question fails the test
	notifications []string                                        // the server's, in their order, as JSON

	t      *testing.T
	in     io.Writer
	out    *json.Decoder
	lastID int
}

// start connects s to a server until the test ends.
func (s *session) start(t *testing.T, server *mcp.Server) *session {
	r, in := io.Pipe()
	out, w := io.Pipe()
	served := make(chan error, 1)
	ctx := cmp.Or(s.ctx, context.Background())
	go func() {
		served <- errors.Join(server.Serve(ctx, r, w), w.Close(), r.Close())
	}()
	t.Cleanup(func() {
		closed := in.Close()
		_, read := io.Copy(io.Discard, out)
		if err := errors.Join(closed, read, <-served); err != nil {
			t.Error(err)
		}
	})
	s.t, s.in, s.out = t, in, json.NewDecoder(out)
	if !s.modern {
		_, err := s.request("initialize", map[string]any{"protocolVersion": "2025-11-25", "capabilities": s.capabilities(),
			"clientInfo": s.clientInfo()})
		if err != nil {
			t.Fatal(err)
		}
		s.send(map[string]any{"method": "notifications/initialized"})
		_, _ = s.request("logging/setLevel", map[string]any{"level": "debug"}) // an error if the server does not log to clients
	}
	return s
}

func (s *session) clientInfo() any {
	return map[string]any{"name": cmp.Or(s.name, "test"), "version": "1"}
}

func (s *session) capabilities() any {
	if s.can != nil {
		return s.can
	}
	return map[string]any{"elicitation": map[string]any{"form": map[string]any{}, "url": map[string]any{}}, "sampling": map[string]any{}, "roots": map[string]any{}}
}

// send sends one message.
func (s *session) send(message map[string]any) {
	message["jsonrpc"] = "2.0"
	if err := json.NewEncoder(s.in).Encode(message); err != nil {
		s.t.Fatal(err)
	}
}

// begin sends a request and returns its id. The response is read by end.
func (s *session) begin(method string, params map[string]any) (id int) {
	all := map[string]any{}
	for key, val := range params {
		all[key] = val
	}
	meta := map[string]any{"progressToken": 1}
	if s.modern {
		meta["io.modelcontextprotocol/protocolVersion"] = "2026-07-28"
		meta["io.modelcontextprotocol/clientInfo"] = s.clientInfo()
		meta["io.modelcontextprotocol/clientCapabilities"] = s.capabilities()
		meta["io.modelcontextprotocol/logLevel"] = "debug"
	}
	all["_meta"] = meta
	s.lastID++
	s.send(map[string]any{"id": s.lastID, "method": method, "params": all})
	return s.lastID
}

// cancel cancels a request that begin has sent. The server does not respond to it.
func (s *session) cancel(id int, reason string) {
	s.send(map[string]any{"method": "notifications/cancelled", "params": map[string]any{"requestId": id, "reason": reason}})
}

// end reads until the response to a request arrives, answers questions and keeps
// notifications. The error is an *mcp.Error.
func (s *session) end(id int) (json.RawMessage, error) {
	for {
		var m struct {
			ID             any
			Method         string
			Params, Result json.RawMessage
			Error          *mcp.Error
		}
		var raw json.RawMessage
		if err := s.out.Decode(&raw); err != nil {
			s.t.Fatal(err)
		}
		if err := json.Unmarshal(raw, &m); err != nil {
			s.t.Fatal(err)
		}
		switch {
		case m.Method != "" && m.ID != nil:
			s.send(map[string]any{"id": m.ID, "result": s.respond(m.Method, m.Params)})
		case m.Method != "":
			s.notifications = append(s.notifications, string(raw))
		case m.ID != float64(id):
			s.t.Fatalf("a response to another request: %s", raw)
		case m.Error != nil:
			return nil, m.Error
		default:
			return m.Result, nil
		}
	}
}

// respond returns the response to a question.
func (s *session) respond(method string, params json.RawMessage) any {
	if s.answer == nil {
		s.t.Errorf("the server asks: %s %s", method, params)
		return map[string]any{"action": "cancel"}
	}
	return s.answer(method, params)
}

// request sends a request and returns its result. In revision 2026-07-28 a result may ask
// questions; request then repeats the request with the answers, at most 20 times.
func (s *session) request(method string, params map[string]any) (json.RawMessage, error) {
	for range 20 {
		raw, err := s.end(s.begin(method, params))
		var asked struct {
			InputRequests map[string]struct {
				Method string
				Params json.RawMessage
			}
			RequestState string
		}
		if err != nil {
			return nil, err
		}
		if err := json.Unmarshal(raw, &asked); err != nil || asked.InputRequests == nil {
			return raw, err
		}
		answers := map[string]any{}
		for key, question := range asked.InputRequests {
			answers[key] = s.respond(question.Method, question.Params)
		}
		repeated := map[string]any{"inputResponses": answers, "requestState": asked.RequestState}
		for key, val := range params {
			if repeated[key] == nil {
				repeated[key] = val
			}
		}
		params = repeated
	}
	s.t.Fatalf("%s still asks after 20 rounds: does the handler accept the answer, and does it stop asking?", method)
	return nil, nil
}

// call calls a tool and returns its text, or its error.
func (s *session) call(tool string, arguments map[string]any) (text string, err error) {
	return s.callStructured(tool, arguments, new(any))
}

// callStructured is call for a tool with structured output, to which it sets *output.
func (s *session) callStructured(tool string, arguments map[string]any, output any) (text string, err error) {
	result := struct {
		Content           []struct{ Text string }
		StructuredContent any
		IsError           bool
		ResultType        string
	}{StructuredContent: output}
	raw, err := s.request("tools/call", map[string]any{"name": tool, "arguments": arguments})
	if err != nil {
		return "", err
	}
	if err := json.Unmarshal(raw, &result); err != nil {
		return "", err
	}
	for _, block := range result.Content {
		text += block.Text
	}
	if result.IsError {
		return "", errors.New(text)
	}
	if result.ResultType == "task" {
		return "", errors.New("the call became a task: make it with request, and ask for its state with tasks/get")
	}
	return text, nil
}
