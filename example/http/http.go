// SPDX-License-Identifier: MIT

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

	requests atomic.Int64    // that are served now
	open     context.Context // ends when Close is called
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
	if len(id) == 0 || !strings.Contains(`"-0123456789`, string(id[:1])) {
		id = json.RawMessage("null")
	}
	message, _ := json.Marshal(text)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%s}}`+"\n", id, code, message)
}

// servePost serves a POST, which holds one message.
func (h *Handler) servePost(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	m := members(body)
	id, method, params := m["id"], text(m["method"]), members(m["params"])
	meta := members(params["_meta"])
	revision := cmp.Or(r.Header.Get("MCP-Protocol-Version"), "2025-03-26")
	modern := meta[keyVersion] != nil || method != "initialize" && !slices.Contains(olderRevisions, revision)
	wrong := wrongHeader(r.Header, meta[keyVersion], method, params)
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
	case id == nil: // without a session no notification has an effect
		w.WriteHeader(http.StatusAccepted)
	case modern && wrong != "":
		refuse(w, http.StatusBadRequest, id, codeMismatch, wrong)
	case !modern && slices.Contains(sessionMethods, method):
		refuse(w, http.StatusOK, id, -32601, "Method not found: "+method+" needs a session, which this server does not have; revision 2026-07-28 needs none")
	default:
		x := &exchange{w: w, id: id, method: method, modern: modern}
		line := append(bytes.ReplaceAll(body, []byte("\n"), []byte(" ")), '\n') // in JSON, a newline is only space
		switch {
		case modern && method == "tools/call":
			h.serve(r.Context(), x, listTools(meta), line, func(list []byte) string { return wrongArgument(r.Header, list, params) })
		case !modern && method != "initialize":
			h.serve(r.Context(), x, initialize(revision), line, func([]byte) string { return "" })
		default:
			h.serve(r.Context(), x, nil, line, nil)
		}
	}
}

// serve runs Serve with a request as its input, and sends its output. If check is not nil, opening
// is served first: check takes the response to it, and returns "" or why the request is refused.
func (h *Handler) serve(ctx context.Context, x *exchange, opening, request []byte, check func(response []byte) string) {
	control := http.NewResponseController(x.w)
	control.SetReadDeadline(time.Time{})
	control.SetWriteDeadline(time.Time{})
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := context.AfterFunc(h.open, func() { cancel(context.Cause(h.open)) })
	defer stop()
	opened, open := context.WithCancel(context.Background())
	answered, answer := context.WithCancel(context.Background())
	x.check, x.open, x.answer = check, open, answer
	if check == nil {
		open()
	}
	go x.keepOpen(answered)
	err := h.Serve(ctx, io.MultiReader(bytes.NewReader(opening), gate{opened}, bytes.NewReader(request), gate{answered}), x)
	if err != nil {
		log.Print(err)
	}
	x.end()
	open()
	answer()
}

// A gate is a part of Serve's input that holds nothing, and ends when its context ends.
type gate struct{ context.Context }

func (g gate) Read([]byte) (int, error) {
	<-g.Done()
	return 0, io.EOF
}

// An exchange sends what Serve writes during one POST: the response as JSON, or a stream of events
// if other messages come before the response.
type exchange struct {
	id           json.RawMessage
	method       string
	modern       bool   // the client is one of 2026-07-28
	open, answer func() // end the gates in the input of Serve

	mu    sync.Mutex                   // guards the fields below; held while a message is sent
	check func(response []byte) string // takes the response to the opening; nil after it
	w     http.ResponseWriter          // nil after the response
	begun bool                         // a stream of events was begun
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
	if x.check != nil { // a list of tools is long, so it is not taken apart below
		wrong := x.check(line)
		x.check = nil
		if wrong == "" {
			x.open()
			return nil
		}
		refuse(x.w, http.StatusBadRequest, x.id, codeMismatch, wrong)
		x.w = nil
		return io.ErrClosedPipe // so Serve ends, and does not read the request
	}
	m := members(line)
	if m["method"] != nil {
		return x.sendEvent("event: message\ndata: " + string(line) + "\n")
	}
	err := x.sendResponse(line, m)
	x.w = nil
	x.answer()
	return err
}

// sendResponse sends the last message. The caller must hold x.mu.
func (x *exchange) sendResponse(line []byte, m map[string]json.RawMessage) error {
	if !x.modern {
		line = withoutSession(x.method, line, m)
	}
	if x.begun {
		return x.sendEvent("event: message\ndata: " + string(line) + "\n")
	}
	x.w.Header().Set("Content-Type", "application/json")
	x.w.Header().Set("Content-Length", strconv.Itoa(len(line)))
	if x.modern {
		x.w.WriteHeader(statusOf(members(m["error"])["code"]))
	}
	return x.write(line)
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
