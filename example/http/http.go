// SPDX-License-Identifier: MIT
// Version 4.2.2, 2026-11-29. The SHA-256 of each release of this file is in CHANGES.md of example.com/mcp.
// SPDX-FileCopyrightText: 2026 The mcp authors

package main

// MCP over HTTP: the transport Streamable HTTP, without sessions. Copy this file and
// message.go, and change their package. They import only the standard library.
//
//	POST ─▶ ServeHTTP ─▶ servePost ─▶ Handler.Serve ─▶ exchange.Write ─▶ response to the POST
//
// Each POST is one request and one run of Serve, so any number of processes can serve the
// same clients. Clients of revision 2026-07-28 can use all of the protocol. Clients of older
// revisions have no session here: they can call tools, read resources, get prompts and
// completions, and receive progress. They cannot be asked, receive no log messages and no
// notifications of changes, and cancel a request only by closing its connection.
//
// What these files do not do:
//
//   - TLS and authentication. Put them in front: in a reverse proxy, or in your program with
//     mux.Handle("/mcp", authenticate(handler)) and Server.ListenAndServeTLS. Handlers of tools
//     see the values that authenticate puts into the context of the HTTP request.
//   - CORS: a web page of another origin cannot use the server.
//   - Tasks (mcp.Tool.TaskAfter). A task would end with its POST, so a call is an ordinary one.
//   - Sessions, resumed streams (Last-Event-ID), batches of 2025-03-26, and HTTP+SSE of
//     2024-11-05.

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"
)

const (
	maxBody   = 4 << 20          // bytes of a POST
	readTime  = 30 * time.Second // in which a client must send a POST
	sendTime  = 30 * time.Second // in which a client must read a message
	keepAlive = 15 * time.Second // between comments while a client waits
)

// A Handler serves MCP over HTTP. NewHandler makes one. Set its fields before the first request,
// and do not change them afterwards.
type Handler struct {
	// Serve speaks MCP with one client. It is mcp.Server.Serve, or calls it. It is called for
	// each POST, with a context that is derived from that of the HTTP request.
	Serve func(ctx context.Context, r io.Reader, w io.Writer) error

	// Hosts are the names, without port, under which clients reach this server, and those of
	// web pages that may call it. A request with any other name in its header Host or Origin
	// is refused, because a web page could have sent it (DNS rebinding). NewHandler sets
	// localhost, 127.0.0.1 and ::1.
	Hosts []string

	// MaxRequests is how many requests of all clients are served at the same time, streams of
	// subscriptions included. Further ones are refused. Each may hold a body of 4 MiB.
	// NewHandler sets 256.
	MaxRequests int

	requests atomic.Int64             // that are served now
	tools    atomic.Pointer[toolList] // of the last tools/list
	open     context.Context          // ends when Close is called
	close    context.CancelCauseFunc
}

// NewHandler returns a Handler that calls serve.
func NewHandler(serve func(ctx context.Context, r io.Reader, w io.Writer) error) *Handler {
	h := &Handler{Serve: serve, Hosts: []string{"localhost", "127.0.0.1", "::1"}, MaxRequests: 256}
	h.open, h.close = context.WithCancelCause(context.Background())
	return h
}

// Close cancels all requests and refuses later ones. It does not wait. Call http.Server.Shutdown
// after it, which returns when the last responses were sent.
func (h *Handler) Close() { h.close(http.ErrServerClosed) }

// ServeHTTP serves one HTTP request. If the client closes the connection before the response,
// the request is cancelled. w must support what http.ResponseController does: if a middleware
// wraps it, the wrapper must have a method Unwrap.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	control := http.NewResponseController(w)
	control.SetReadDeadline(time.Now().Add(readTime)) // net/http reads the body of a refused request too
	control.SetWriteDeadline(time.Now().Add(readTime + sendTime))
	requests := h.requests.Add(1)
	defer h.requests.Add(-1)
	origin, err := url.Parse(r.Header.Get("Origin"))
	typ, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	switch {
	case !h.isAllowed(r.Host):
		refuse(w, http.StatusForbidden, nil, -32600, "the name in the header Host is not allowed by Handler.Hosts")
	case r.Header.Get("Origin") != "" && (err != nil || !h.isAllowed(origin.Host)):
		refuse(w, http.StatusForbidden, nil, -32600, "the name in the header Origin is not allowed by Handler.Hosts")
	case r.Method != http.MethodPost:
		w.Header().Set("Allow", http.MethodPost)
		refuse(w, http.StatusMethodNotAllowed, nil, -32600, r.Method+" needs a session, which this server does not have: use POST")
	case typ != "application/json": // a form on any web page can send other types
		refuse(w, http.StatusUnsupportedMediaType, nil, -32600, "Content-Type must be application/json")
	case h.open.Err() != nil:
		refuse(w, http.StatusServiceUnavailable, nil, -32603, "the server is closing")
	case requests > int64(h.MaxRequests):
		w.Header().Set("Retry-After", "1")
		refuse(w, http.StatusServiceUnavailable, nil, -32603, "too many requests at once")
	default:
		h.servePost(w, r)
	}
}

// isAllowed reports whether host, which may have a port, is one of h.Hosts.
func (h *Handler) isAllowed(host string) bool {
	name := (&url.URL{Host: host}).Hostname()
	return slices.ContainsFunc(h.Hosts, func(allowed string) bool { return strings.EqualFold(allowed, name) })
}

// refuse sends an error response of the handler's own. id is the raw id of the message, or nil.
func refuse(w http.ResponseWriter, status int, id json.RawMessage, code int, text string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(errorResponse(id, errorObject(code, text)))
}

// servePost serves a POST, which holds one message.
func (h *Handler) servePost(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	m := members(body)
	id, method, params := m["id"], text(m["method"]), members(m["params"])
	meta := members(params["_meta"])
	revision := cmp.Or(r.Header.Get("MCP-Protocol-Version"), "2025-03-26")
	modern := meta[keyVersion] != nil || method != "initialize" && !slices.Contains(olderRevisions, revision)
	wrong := wrongHeader(r.Header, modern && id != nil, meta[keyVersion], method, params)
	switch {
	case errors.As(err, new(*http.MaxBytesError)):
		refuse(w, http.StatusRequestEntityTooLarge, nil, -32600, "the body is longer than "+strconv.Itoa(maxBody)+" bytes")
	case err != nil:
		refuse(w, http.StatusRequestTimeout, nil, -32600, "the body did not arrive within "+readTime.String()+": "+err.Error())
	case !json.Valid(body) || !utf8.Valid(body):
		refuse(w, http.StatusBadRequest, nil, -32700, "Parse error: the body must be one message, as JSON in UTF-8")
	case m["method"] == nil:
		refuse(w, http.StatusBadRequest, nil, -32600, "the body must be one request or notification: "+
			"batches are not served, and there are no sessions, so no client is asked or may respond")
	case wrong != "":
		refuse(w, http.StatusBadRequest, id, codeMismatch, mismatch(wrong))
	case id == nil: // without a session no notification has an effect
		w.WriteHeader(http.StatusAccepted)
	case !modern && slices.Contains(sessionMethods, method):
		refuse(w, http.StatusOK, id, -32601, "Method not found: "+method+" needs a session, which this server does not have; revision 2026-07-28 needs none")
	case modern && strings.HasPrefix(method, "tasks/"):
		refuse(w, http.StatusNotFound, id, -32601, "Method not found: "+method+" needs a session, which this server does not have")
	default:
		body = without(body, "params", "_meta", keyCapabilities, "extensions", keyTasks) // a task would end with its POST
		meta = members(members(members(body)["params"])["_meta"])
		x := &exchange{w: w, id: id, method: method, modern: modern}
		if method == "tools/call" && (modern || len(paramHeaders(r.Header)) > 0) {
			x.steps = append(x.steps, step{request: listTools(meta, modern), check: func(list []byte) json.RawMessage {
				return h.checkCall(list, r.Header, modern, params)
			}})
		}
		if !modern && method != "initialize" {
			x.steps = append(x.steps, step{request: initialize(revision)})
		}
		line := append(bytes.ReplaceAll(body, []byte("\n"), []byte(" ")), '\n') // in JSON, a newline is only space
		h.serve(r.Context(), x, line)
	}
}

// checkCall returns the error of a call that is refused, or nil. list is the response to tools/list.
func (h *Handler) checkCall(list []byte, header http.Header, modern bool, params map[string]json.RawMessage) json.RawMessage {
	tools := h.tools.Load()
	if tools == nil || !bytes.Equal(tools.line, list) { // decoding a long list takes time
		tools = parseTools(list)
		h.tools.Store(tools)
	}
	name := text(params["name"])
	arguments, isListed := tools.arguments[name]
	switch wrong := wrongArgument(header, modern, arguments, params["arguments"]); {
	case modern && tools.failure != nil:
		return tools.failure
	case modern && !isListed && name != "": // the headers that it needs are not known
		return errorObject(-32602, fmt.Sprintf("Unknown tool: %.100s (tools/list does not name it)", name))
	case wrong != "":
		return errorObject(codeMismatch, mismatch(wrong))
	}
	return nil
}

// serve runs Serve with the requests of x.steps and then the client's as its input, and sends its output.
func (h *Handler) serve(ctx context.Context, x *exchange, request []byte) {
	control := http.NewResponseController(x.w)
	control.SetReadDeadline(time.Time{})
	control.SetWriteDeadline(time.Time{})
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := context.AfterFunc(h.open, func() { cancel(context.Cause(h.open)) })
	defer stop()
	served, end := context.WithCancel(context.Background())
	var input []io.Reader
	for i := range x.steps {
		taken, take := context.WithCancelCause(served)
		x.steps[i].take = take
		input = append(input, bytes.NewReader(x.steps[i].request), gate{taken})
	}
	answered, answer := context.WithCancel(served)
	x.answer = answer
	input = append(input, bytes.NewReader(request), gate{answered})
	go x.keepOpen(answered)
	err := h.Serve(ctx, io.MultiReader(input...), x)
	if err != nil {
		log.Print(err)
	}
	x.end()
	end()
}

// A step is a request that the Handler makes before that of the client, on whose response the
// client's may depend.
type step struct {
	request []byte
	check   func(response []byte) json.RawMessage // returns the error of the client's request, or nil; may be nil
	take    context.CancelCauseFunc               // ends the gate that follows request in the input of Serve
}

// A gate is a part of Serve's input that holds nothing, and ends when its context ends. If that has
// a cause, the whole input ends.
type gate struct{ context.Context }

func (g gate) Read([]byte) (int, error) {
	<-g.Done()
	if cause := context.Cause(g); cause != context.Canceled {
		return 0, cause
	}
	return 0, io.EOF
}

// An exchange sends what Serve writes during one POST: the response as JSON, or a stream of events
// if other messages come before the response.
type exchange struct {
	id     json.RawMessage
	method string
	modern bool   // the client is one of 2026-07-28
	answer func() // ends the last gate in the input of Serve

	mu    sync.Mutex          // guards the fields below; held while a message is sent
	steps []step              // whose responses have not come
	w     http.ResponseWriter // nil after the response
	begun bool                // a stream of events was begun
}

// keepOpen sends a comment after each keepAlive in which no message is being sent, so that the
// client, and proxies, keep the connection. It returns when answered ends.
func (x *exchange) keepOpen(answered context.Context) {
	tick := time.NewTicker(keepAlive)
	defer tick.Stop()
	for {
		select {
		case <-answered.Done():
			return
		case <-tick.C:
		}
		idle := x.mu.TryLock()
		if idle && x.w != nil {
			x.sendEvent(":\n\n")
		}
		if idle {
			x.mu.Unlock()
		}
	}
}

// end is called when Serve has returned. It waits for a message that is being sent.
func (x *exchange) end() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.w != nil && !x.begun {
		refuse(x.w, http.StatusInternalServerError, x.id, -32603, "the request has ended without a response")
	}
	x.w = nil
}

// Write sends messages of Serve, which are whole lines.
func (x *exchange) Write(b []byte) (int, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for line := range bytes.Lines(b) {
		err := x.send(line)
		if err != nil {
			return 0, err
		}
	}
	return len(b), nil
}

// send sends one message. The caller must hold x.mu.
func (x *exchange) send(line []byte) error {
	if x.w == nil {
		return io.ErrClosedPipe
	}
	if len(x.steps) > 0 { // a list of tools is long, so it is not taken apart below
		return x.takeStep(line)
	}
	m := members(line)
	if m["method"] != nil {
		return x.sendEvent("event: message\ndata: " + string(line) + "\n")
	}
	status := http.StatusOK
	if x.modern {
		status = statusOf(members(m["error"])["code"])
		if x.method == "server/discover" {
			line = without(line, "result", "capabilities", "extensions", keyTasks)
		}
	} else {
		line = withoutSession(x.method, line, m)
	}
	err := x.sendResponse(line, status)
	x.answer()
	return err
}

// takeStep takes the response to the first of x.steps. The caller must hold x.mu.
func (x *exchange) takeStep(response []byte) error {
	first := x.steps[0]
	x.steps = x.steps[1:]
	var failure json.RawMessage
	if first.check != nil {
		failure = first.check(response)
	}
	if failure == nil {
		first.take(nil)
		return nil
	}
	first.take(io.ErrClosedPipe) // so Serve ends, and does not read the request
	return x.sendResponse(errorResponse(x.id, failure), statusOf(members(failure)["code"]))
}

// sendResponse sends the last message. status has no effect in a stream of events, which has sent
// one. The caller must hold x.mu.
func (x *exchange) sendResponse(line []byte, status int) (err error) {
	if x.begun {
		err = x.sendEvent("event: message\ndata: " + string(line) + "\n")
	} else {
		x.w.Header().Set("Content-Type", "application/json")
		x.w.Header().Set("Content-Length", strconv.Itoa(len(line)))
		x.w.WriteHeader(status)
		err = x.write(line)
	}
	x.w = nil
	return err
}

// sendEvent sends one event of a stream. The caller must hold x.mu.
func (x *exchange) sendEvent(event string) error {
	if !x.begun {
		x.begun = true
		x.w.Header().Set("Content-Type", "text/event-stream")
		x.w.Header().Set("Cache-Control", "no-cache")
		x.w.Header().Set("X-Accel-Buffering", "no") // otherwise proxies such as nginx wait for more
	}
	return x.write([]byte(event))
}

// write sends b at once. If the client does not read it within sendTime, it fails.
func (x *exchange) write(b []byte) error {
	control := http.NewResponseController(x.w)
	control.SetWriteDeadline(time.Now().Add(sendTime))
	_, err := x.w.Write(b)
	if err == nil {
		err = control.Flush()
	}
	control.SetWriteDeadline(time.Time{}) // at the deadline HTTP/2 would end the stream
	return err
}
