package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"testing"

	"example.com/mcp"
)

// A client is the host of a test: copy this file into the tests of your own
// server. In a bubble of testing/synctest a test that hangs fails at once.
type client struct {
	t      *testing.T
	modern bool                // speaks revision 2026-07-28, or else 2025-11-25
	answer func(q message) any // the result of what the server asks
	in     io.Writer
	out    *json.Decoder
	lastID int
	told   []message // the notifications that came
}

type object = map[string]any

type message struct {
	ID             any
	Method         string
	Params, Result json.RawMessage
	Error          *mcp.Error
}

var abilities = object{"elicitation": object{}, "sampling": object{}, "roots": object{}}

// start has s serve a client until the test ends. For a process, in and out are
// its StdinPipe and StdoutPipe, and in the end its Wait gives the error.
func start(t *testing.T, s *mcp.Server, modern bool, answer func(q message) any) *client {
	r, in := io.Pipe()
	out, w := io.Pipe()
	served := make(chan error, 1)
	go func() { served <- s.Serve(context.Background(), r, w); w.Close(); r.Close() }()
	t.Cleanup(func() {
		in.Close()
		io.Copy(io.Discard, out)
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	if answer == nil {
		answer = func(q message) any {
			t.Errorf("the server asks: %s %s", q.Method, q.Params)
			return object{"action": "cancel"}
		}
	}
	c := &client{t: t, modern: modern, answer: answer, in: in, out: json.NewDecoder(out)}
	if !modern {
		c.request("initialize", object{"protocolVersion": "2025-11-25", "capabilities": abilities,
			"clientInfo": object{"name": "test", "version": "1"}})
		c.send(object{"method": "notifications/initialized"})
	}
	return c
}

func (c *client) send(m object) {
	m["jsonrpc"] = "2.0"
	json.NewEncoder(c.in).Encode(m)
}

// request returns a result, or an *mcp.Error. A modern server asks in its result,
// and is told the answers by the same request, sent again. To cancel a call, send
// it by hand, and then notifications/cancelled: there is no answer.
func (c *client) request(method string, params object) (json.RawMessage, error) {
	if params == nil {
		params = object{}
	}
	params["_meta"] = object{"progressToken": 1}
	if c.modern {
		params["_meta"] = object{"progressToken": 1, "io.modelcontextprotocol/protocolVersion": "2026-07-28",
			"io.modelcontextprotocol/clientCapabilities": abilities, "io.modelcontextprotocol/logLevel": "debug"}
	}
	c.lastID++
	c.send(object{"id": c.lastID, "method": method, "params": params})
	for {
		var m message
		if err := c.out.Decode(&m); err != nil {
			c.t.Fatal(err)
		}
		switch {
		case m.Method != "" && m.ID != nil:
			c.send(object{"id": m.ID, "result": c.answer(m)})
			continue
		case m.Method != "":
			c.told = append(c.told, m)
			continue
		case m.Error != nil:
			return nil, m.Error
		}
		var asked struct {
			InputRequests map[string]message
			RequestState  string
		}
		if json.Unmarshal(m.Result, &asked); asked.InputRequests == nil {
			return m.Result, nil
		}
		answers := object{}
		for key, q := range asked.InputRequests {
			answers[key] = c.answer(q)
		}
		params["inputResponses"], params["requestState"] = answers, asked.RequestState
		return c.request(method, params)
	}
}

// call returns the text of what a tool returns, as an error if it is one.
func (c *client) call(tool string, arguments object) (text string, err error) {
	var result mcp.Result
	raw, err := c.request("tools/call", object{"name": tool, "arguments": arguments})
	json.Unmarshal(raw, &result)
	for _, block := range result.Content {
		text += block.Text
	}
	if result.IsError {
		return "", errors.New(text)
	}
	return text, err
}
