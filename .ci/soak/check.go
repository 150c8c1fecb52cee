package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"unicode/utf8"
)

// A checks records what the client knows about a session, and the violations that it
// found. A position is the number of a line of the client, counted from 1.
type checks struct {
	react    *rand.Rand // for decisions that depend on the server's lines
	over     bool       // the session is ending, so handlers may be cancelled
	finished bool       // the server's output has ended
	rest     string     // the bytes after the last newline
	wire     []string
	faults   []string
	sent     int // lines of the client
	got      int // lines of the server

	readUpTo  int // the position up to which the server must have read
	calls     map[string]*call
	tokens    map[string]*call // by progress token, and by text
	order     []*call
	nulls     int // responses with a null id
	nullsDue  int // lines that must get such a response
	questions map[string]*question
	answers   []answer // responses of the client that are still to be sent
	logging   bool     // the legacy session has set a log level
	watching  int      // the position of the resources/subscribe that got a response, or 0
	unwatched int      // the position of the last resources/unsubscribe
	retries   int
}

// A call is one request of the client.
type call struct {
	id, kind     string
	text, token  string
	args         arguments
	modern       bool
	logs         bool // the client asked for its log messages
	batch        bool
	sentAt       int // position
	cancelled    int // position of its cancel, or 0
	sends        int // number of requests with its id
	answers      int // number of responses
	progress     float64
	steps        int // number of progress notifications
	logged       int // number of log messages
	acknowledged bool
	mustNotify   map[string]int // streams that must be notified of this change, with the positions from which they watch
	said         string         // the result of stats
}

func (c *call) open() bool { return c.answers == 0 && c.cancelled == 0 }

// line returns the request of the call. Params are members without braces.
func (c *call) line(method, params string) string {
	if params != "" {
		params += ","
	}
	meta := `"progressToken":` + c.token
	if c.modern {
		meta += `,"io.modelcontextprotocol/logLevel":"info","io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":` + caps
	}
	return `{"jsonrpc":"2.0","id":` + c.id + `,"method":"` + method + `","params":{` + params + `"_meta":{` + meta + `}}}`
}

// params returns the params of a call of a tool.
func (c *call) params() string {
	raw, _ := json.Marshal(c.args)
	return `"name":"` + c.kind + `","arguments":` + string(raw)
}

// A question is a request of the server.
type question struct {
	method    string
	of        *call // the call whose handler asked, or nil if that is unknown
	answered  int   // position of the client's response, or 0
	withdrawn bool
}

// An answer is a response that the client sends later.
type answer struct {
	after int // the number of actions of the client to send it after
	line  string
	of    *question
	call  *call // the call that the line makes, in the modern era
}

func (s *checks) wrong(format string, args ...any) {
	if len(s.faults) < 20 {
		s.faults = append(s.faults, fmt.Sprintf(format, args...))
		s.record("! ", fmt.Sprintf(format, args...))
	}
}

func (s *checks) record(direction, line string) {
	if len(line) > 400 {
		line = line[:400] + fmt.Sprintf("... (%d bytes)", len(line))
	}
	s.wire = append(s.wire, direction+line)
}

// register records a call that is about to be sent.
func (s *checks) register(c *call) {
	c.sentAt, c.sends = s.sent, 1
	s.calls[c.id], s.tokens[c.token], s.tokens[c.text] = c, c, c
	s.order = append(s.order, c)
	if c.kind == "resources/unsubscribe" {
		s.watching, s.unwatched = 0, c.sentAt
	}
	if c.kind != "change" {
		return
	}
	c.mustNotify = make(map[string]int)
	for _, w := range s.order {
		switch {
		case w.kind == "initialize" && c.args.What != "updates":
			c.mustNotify[""] = w.sentAt
		case w.kind == "subscriptions/listen" && w.open() && w.acknowledged:
			c.mustNotify[w.id] = w.sentAt
		}
	}
	if s.watching > 0 && c.args.What == "updates" {
		c.mustNotify[""] = s.watching
	}
}

// A message holds the members of a line of the server that are checked.
type message struct {
	JSONRPC string
	ID      json.RawMessage
	Result  json.RawMessage
	Error   *struct {
		Code    int
		Message string
	}
	Method string
	Params struct {
		ProgressToken json.RawMessage
		Progress      float64
		Data          string
		RequestID     json.RawMessage
		URI           string
		Message       string
		SystemPrompt  string
		Meta          struct {
			Stream json.RawMessage `json:"io.modelcontextprotocol/subscriptionId"`
		} `json:"_meta"`
	}
}

// take checks one line of the server.
func (s *checks) take(line []byte) {
	s.got++
	s.record("< ", string(line))
	if !utf8.Valid(line) || !json.Valid(line) {
		s.wrong("not JSON: %.200q", line)
		return
	}
	lines := []json.RawMessage{line}
	if line[0] == '[' && slices.ContainsFunc(s.order, func(c *call) bool { return c.batch }) {
		json.Unmarshal(line, &lines)
	}
	for _, raw := range lines {
		var m message
		if raw[0] != '{' {
			s.wrong("not an object: %.200q", raw)
		} else if err := json.Unmarshal(raw, &m); err != nil || m.JSONRPC != "2.0" {
			s.wrong("not a message: %v: %.200q", err, raw)
		} else if m.Method == "" {
			s.answered(&m, raw)
		} else if m.ID != nil {
			s.asked(&m)
		} else {
			s.notified(&m)
		}
	}
}

// alive checks that the server may still send notifications and questions for c.
func (s *checks) alive(c *call, what string) {
	switch {
	case c == nil:
		s.wrong("%s of no request", what)
	case c.sends > 1:
	case c.answers > 0:
		s.wrong("%s for %s after its response", what, c.id)
	case c.cancelled > 0 && c.cancelled <= s.readUpTo:
		s.wrong("%s for %s after its cancel was read", what, c.id)
	default:
		s.readUpTo = max(s.readUpTo, c.sentAt)
	}
}

func (s *checks) answered(m *message, raw []byte) {
	if (m.Result == nil) == (m.Error == nil) {
		s.wrong("neither result nor error, or both: %.200q", raw)
		return
	}
	if string(m.ID) == "null" || m.ID == nil {
		if s.nulls++; m.Error == nil {
			s.wrong("a result with the id null")
		}
		return
	}
	c := s.calls[string(m.ID)]
	if c == nil {
		s.wrong("a response with the unknown id %s", m.ID)
		return
	}
	c.answers++
	switch {
	case c.answers > c.sends:
		s.wrong("%s has %d responses", c.id, c.answers)
	case c.sends > 1 || c.batch: // a response in a batch is delayed until the last one of the batch
		return
	case c.cancelled > 0 && c.cancelled <= s.readUpTo:
		s.wrong("a response to %s after its cancel was read", c.id)
	default:
		s.readUpTo = max(s.readUpTo, c.sentAt)
		s.judge(c, m)
	}
}

// judge checks the contents of a response.
func (s *checks) judge(c *call, m *message) {
	var res struct {
		ResultType   string
		IsError      bool
		Content      []struct{ Text string }
		RequestState string
		Contents     []struct{ Text string }
		Messages     []struct{ Content struct{ Text string } }
		Completion   struct{ Values []string }
		Requests     map[string]struct{ Method string } `json:"inputRequests"`
	}
	if err := json.Unmarshal(m.Result, &res); m.Result != nil && err != nil {
		s.wrong("%s: %v", c.id, err)
	}
	if m.Error == nil && c.modern != (res.ResultType != "") {
		s.wrong("the response to %s has the form of the wrong era", c.id)
	}
	if s.over && m.Error != nil && m.Error.Code == -32603 { // it was not started before the end
		return
	}
	text := ""
	for _, b := range res.Content {
		text += b.Text
	}
	want := c.id + "|" + c.id + "|"
	switch c.kind {
	case "initialize", "logging/setLevel", "ping", "tools/list", "resources/list", "prompts/list":
		if m.Error != nil {
			s.wrong("%s for %s: %s", c.kind, c.id, m.Error.Message)
		}
		return
	case "resources/subscribe":
		if s.unwatched < c.sentAt {
			s.watching = c.sentAt
		}
		return
	case "resources/unsubscribe":
		return
	case "resources/read", "prompts/get", "completion/complete":
		if n := len(res.Contents) + len(res.Messages) + len(res.Completion.Values); n != 1 && !s.over {
			s.wrong("%s for %s: %d parts", c.kind, c.id, n)
		}
		return
	case "subscriptions/listen":
		if !s.over {
			s.wrong("the stream %s has ended", c.id)
		}
		return
	case "refused":
		if m.Error == nil {
			s.wrong("%s was not refused", c.id)
		}
		return
	case "stats":
		c.said, _ = strings.CutPrefix(text, want)
		return
	case "ask":
		if res.ResultType == "input_required" {
			if !c.modern {
				s.wrong("input_required for %s", c.id)
			}
			for key, q := range res.Requests { // it has one element
				s.retry(c, res.RequestState, key, s.result(q.Method))
			}
			return
		}
		if res.IsError || m.Error != nil { // the client sent an error or an invalid answer
			return
		}
		want += c.text
	case "panic", "goexit":
		want = "Internal error in tool " + c.kind
	case "fail":
		want = c.text
	case "big":
		want += strings.Repeat("x", c.args.N)
	default:
		want += c.args.Text
	}
	failed := c.kind == "panic" || c.kind == "goexit" || c.kind == "fail"
	if s.over && res.IsError && text != want {
		return
	}
	if text != want || res.IsError != failed {
		s.wrong("%s for %s: got %.100q, want %.100q", c.kind, c.id, text, want)
	}
	if n := c.args.N; c.kind == "burst" && (c.steps != n || c.logs && c.logged != n || !c.logs && c.logged > 0) {
		s.wrong("burst for %s: %d steps and %d log messages of %d", c.id, c.steps, c.logged, n)
	}
	for stream := range c.mustNotify {
		if w := s.calls[stream]; !s.over && (stream == "" || w.open()) {
			if stream == "" && c.args.What == "updates" && s.watching != c.mustNotify[""] {
				continue
			}
			s.wrong("the stream %q was not notified of the change of %s by %s", stream, c.args.What, c.id)
		}
	}
}

// retry repeats a call with the answer to a question of the modern era. Sometimes the
// answer and its state are invalid, and sometimes it does not repeat the call.
func (s *checks) retry(c *call, state, key, result string) {
	switch s.react.IntN(6) {
	case 0:
		return
	case 1:
		result, state = "7", state[1:]
	}
	s.retries++
	id := fmt.Sprintf(`"r%d"`, s.retries)
	again := &call{id: id, token: id, kind: c.kind, text: c.text, args: c.args, modern: true, logs: true}
	line := again.line("tools/call", again.params()+`,"inputResponses":{"`+key+`":`+result+`},"requestState":"`+state+`"`)
	s.answers = append(s.answers, answer{after: s.react.IntN(3), line: line, call: again})
}

// asked records a question of the server.
func (s *checks) asked(m *message) {
	id := string(m.ID)
	if s.questions[id] != nil {
		s.wrong("the question %s was asked twice", id)
	}
	q := &question{method: m.Method}
	s.questions[id] = q
	if text := m.Params.Message + m.Params.SystemPrompt; text != "" {
		q.of = s.tokens[text]
		s.alive(q.of, "a question")
	}
	s.plan(id, q)
}

// plan decides how the client responds to a question: often correctly and at once, but
// also late, twice, incorrectly or never.
func (s *checks) plan(id string, q *question) {
	line := `{"jsonrpc":"2.0","id":` + id + `,"result":` + s.result(q.method) + `}`
	after := 0
	switch s.react.IntN(10) {
	case 0:
		return // never
	case 1, 2:
		after = s.react.IntN(20)
	case 3:
		s.answers = append(s.answers, answer{after: after, line: line, of: q})
	case 4:
		line = `{"jsonrpc":"2.0","id":` + id + `,"result":7}`
	case 5:
		line = `{"jsonrpc":"2.0","id":` + id + `,"error":{"code":-1,"message":"no"}}`
	case 6:
		s.answers = append(s.answers, answer{line: `{"jsonrpc":"2.0","id":"` + id + `","result":{}}`}) // a string is another id
	}
	s.answers = append(s.answers, answer{after: after, line: line, of: q})
}

// result returns a valid answer to a question.
func (s *checks) result(method string) string {
	return map[string]string{
		"roots/list":             `{"roots":[{"uri":"file:///soak"}]}`,
		"sampling/createMessage": `{"role":"assistant","content":{"type":"text","text":"hm"},"model":"m"}`,
		"elicitation/create":     []string{`{"action":"accept","content":{"name":"x"}}`, `{"action":"decline"}`}[s.react.IntN(2)],
	}[method]
}

// answerAll plans responses to the questions that are still open, and returns their
// number. It leaves out questions that the server must withdraw.
func (s *checks) answerAll() (n int) {
	for _, id := range slices.Sorted(maps.Keys(s.questions)) {
		q := s.questions[id]
		if q.answered > 0 || q.withdrawn {
			continue
		}
		if n++; q.of == nil || q.of.open() {
			s.answers = append(s.answers, answer{line: `{"jsonrpc":"2.0","id":` + id + `,"error":{"code":-1,"message":"no more"}}`, of: q})
		}
	}
	return n
}

var changes = map[string]string{
	"notifications/tools/list_changed":     "tools",
	"notifications/resources/list_changed": "resources",
	"notifications/prompts/list_changed":   "prompts",
	"notifications/resources/updated":      "updates",
}

// notified checks a notification.
func (s *checks) notified(m *message) {
	p := &m.Params
	stream := string(p.Meta.Stream)
	if stream != "" {
		s.alive(s.calls[stream], m.Method)
	}
	what := changes[m.Method]
	switch {
	case m.Method == "notifications/progress":
		c := s.tokens[string(p.ProgressToken)]
		if string(p.ProgressToken) == `"again"` {
			return
		}
		if s.alive(c, "progress"); c != nil {
			if c.steps++; p.Progress <= c.progress && c.steps > 1 {
				s.wrong("the progress of %s went from %v to %v", c.id, c.progress, p.Progress)
			}
			c.progress = p.Progress
		}
	case m.Method == "notifications/message":
		c := s.tokens[p.Data]
		if s.alive(c, "a log message"); c != nil {
			c.logged++
		}
	case m.Method == "notifications/cancelled":
		q := s.questions[string(p.RequestID)]
		switch {
		case q == nil:
			s.wrong("the question %s was withdrawn, but was never asked", p.RequestID)
		case q.withdrawn:
			s.wrong("the question %s was withdrawn twice", p.RequestID)
		case q.answered > 0 && q.answered <= s.readUpTo:
			s.wrong("the question %s was withdrawn after its response was read", p.RequestID)
		default:
			q.withdrawn = true
		}
	case m.Method == "notifications/subscriptions/acknowledged":
		if c := s.calls[stream]; c != nil {
			if c.acknowledged {
				s.wrong("%s was acknowledged twice", stream)
			}
			c.acknowledged = true
		}
	case what == "":
		s.wrong("an unknown notification: %s", m.Method)
	default:
		if c := s.calls[stream]; stream != "" && c != nil && !c.acknowledged {
			s.wrong("%s was notified before it was acknowledged", stream)
		}
		for _, c := range s.order {
			if c.args.What == what {
				delete(c.mustNotify, stream)
			}
		}
	}
}

// balance checks, after all lines were read, that every request that must get a response
// has one. If signalled, the server may have ignored the lines after the position readUpTo.
func (s *checks) balance(signalled bool, readUpTo int) {
	if s.rest != "" {
		s.wrong("the last line has no newline: %.200q", s.rest)
	}
	refused, doubtful := s.nullsDue, 0
	for _, c := range s.order {
		stream := c.kind == "subscriptions/listen"
		switch {
		case signalled && (c.sentAt > readUpTo || c.batch):
		case c.sends > 1 && c.cancelled > 0:
			doubtful += c.sends - c.answers
		case c.sends > 1: // the server refused all but one
			if refused += c.sends - c.answers; c.answers == 0 {
				s.wrong("%s was sent %d times and has no response", c.id, c.sends)
			}
		case c.cancelled > 0 || stream && !signalled:
		case c.answers != 1:
			s.wrong("%s for %s has %d responses", c.kind, c.id, c.answers)
		}
	}
	if !signalled && (s.nulls < refused || s.nulls > refused+doubtful) {
		s.wrong("%d responses with the id null, want %d to %d", s.nulls, refused, refused+doubtful)
	}
}
