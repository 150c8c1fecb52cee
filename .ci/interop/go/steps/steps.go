// Package steps uses a server through any client library. The libraries differ
// in their Go types, so this package exchanges the protocol's JSON with them.
package steps

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// A Client is a connected client of a library.
type Client struct {
	Version, Wanted string // of the protocol
	// Do sends a request and returns the library's result.
	Do func(ctx context.Context, method string, params any) (any, error)
	// Listen opens a subscription to changes. It is nil if the library needs none.
	Listen func(filter any) (stop func())
	// RootsChanged notifies the server that the roots have changed. It is called only in the legacy era.
	RootsChanged func() error
	Close        func() error
	// Lacks holds the steps that the library does not support, and the reasons.
	Lacks map[string]string
}

func (c *Client) modern() bool { return c.Version >= "2026" }

// Values is a JSON object.
type Values = map[string]any

// As converts a value to a T with the same JSON.
func As[T any](v any) (t T, err error) {
	data, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(data, &t)
	}
	return t, err
}

// Send calls a method of a library with parameters of its type.
func Send[P, R any](ctx context.Context, params any, f func(context.Context, P) (R, error)) (any, error) {
	p, err := As[P](params)
	if err != nil {
		return nil, err
	}
	return f(ctx, p)
}

// NoResult adapts f to [Send].
func NoResult[P any](f func(context.Context, P) error) func(context.Context, P) (any, error) {
	return func(ctx context.Context, p P) (any, error) { return Values{}, f(ctx, p) }
}

// A content has the fields that the steps check.
type content struct {
	Type, Text string
}

// A result has the fields of all results that the steps check.
type result struct {
	Tools []struct {
		Name         string
		OutputSchema struct {
			Properties map[string]struct{ Type string }
		}
	}
	Resources         []struct{ URI string }
	ResourceTemplates []struct{ URITemplate string }
	Prompts           []struct{ Name string }
	Content           []content
	StructuredContent json.RawMessage
	IsError           bool
	Contents          []struct{ Text, Blob string }
	Messages          []struct{ Content content }
	Completion        struct{ Values []string }
}

// A notification has the fields of all notifications that the steps check.
type notification struct {
	URI, Level, Logger string
	Progress           float64
}

type question struct {
	Mode, Message, URL string
	RequestedSchema    struct{ Properties Values }
}

var (
	mu       sync.Mutex
	action   = "accept" // the user's answer to a question
	asked    question   // the last question
	received = make(map[string]chan notification)
)

// Answer returns the response to a request of the server, in JSON.
func Answer(method string, params any) (any, error) {
	mu.Lock()
	defer mu.Unlock()
	switch method {
	case "elicitation/create":
		var err error
		asked, err = As[question](params)
		if action != "accept" || asked.Mode == "url" {
			return Values{"action": action}, err
		}
		answers := Values{"username": "ann", "email": "ann@example.com", "name": "Ann", "color": "blue", "context": "home", "ok": true}
		form := Values{}
		for name := range asked.RequestedSchema.Properties {
			form[name] = answers[name]
		}
		return Values{"action": action, "content": form}, err
	case "sampling/createMessage":
		p, err := As[struct{ Messages []struct{ Content any } }](params)
		if err != nil {
			return nil, err
		}
		said := p.Messages[0].Content
		if blocks, ok := said.([]any); ok { // some revisions have a list here
			said = blocks[0]
		}
		text := fmt.Sprint(said.(Values)["text"], " indeed")
		return Values{"role": "assistant", "model": "parrot", "content": Values{"type": "text", "text": text}}, nil
	case "roots/list":
		return Values{"roots": []any{Values{"uri": "file:///srv/ann", "name": "ann"}}}, nil
	}
	return nil, errors.ErrUnsupported
}

// AnswerAs returns the result of Answer as an R.
func AnswerAs[R any](method string, params any) (r R, err error) {
	answer, err := Answer(method, params)
	if err != nil {
		return r, err
	}
	return As[R](answer)
}

// Notify records a notification of the server.
func Notify(method string, params any) {
	n, err := As[notification](params)
	if err != nil {
		panic(err)
	}
	channel(method) <- n
}

func channel(method string) chan notification {
	mu.Lock()
	defer mu.Unlock()
	if received[method] == nil {
		received[method] = make(chan notification, 1000)
	}
	return received[method]
}

// Await returns the next notification of a method.
func Await(method string) notification {
	select {
	case n := <-channel(method):
		return n
	case <-time.After(20 * time.Second):
		panic("no " + method + " in 20 s")
	}
}

func check(ok bool, format string, args ...any) {
	if !ok {
		panic(fmt.Sprintf(format, args...))
	}
}

func equal(got, want any) {
	check(fmt.Sprint(got) == fmt.Sprint(want), "%v, not %v", got, want)
}

var background = context.Background()

func (c *Client) try(ctx context.Context, method string, params any) (result, error) {
	r, err := c.Do(ctx, method, params)
	if err != nil {
		return result{}, err
	}
	return As[result](r)
}

func (c *Client) do(method string, params any) result {
	r, err := c.try(background, method, params)
	check(err == nil, "%s: %v", method, err)
	return r
}

func (c *Client) fails(method string, params any, want string) {
	_, err := c.try(background, method, params)
	check(err != nil && strings.Contains(err.Error(), want), "%s: %v", method, err)
}

func (c *Client) call(name string, args Values) result {
	return c.do("tools/call", Values{"name": name, "arguments": args})
}

func (c *Client) text(name string, args Values) string { return c.call(name, args).Content[0].Text }

// withProgress makes a call with a progress token.
func (c *Client) withProgress(ctx context.Context, name string) (result, error) {
	return c.try(ctx, "tools/call", Values{"name": name, "arguments": Values{}, "_meta": Values{"progressToken": name}})
}

// begin starts a long call and waits until its handler has started. The channel receives
// the error of the call.
func (c *Client) begin(ctx context.Context) <-chan error {
	done := make(chan error, 1)
	go func() {
		_, err := c.withProgress(ctx, "slow")
		done <- err
	}()
	Await("notifications/progress")
	return done
}

// Run connects a client, runs all steps with it, and prints a line for each.
func Run(connect func() (*Client, error)) {
	c, err := connect()
	if err != nil {
		fmt.Println("FAILED connect:", err)
		return
	}
	for _, step := range []struct {
		name string
		run  func()
	}{
		{"connect", c.connect}, {"lists", c.lists}, {"call", c.calls}, {"errors", c.errors}, {"structured", c.structured},
		{"progress", c.progress}, {"cancel", c.cancel}, {"timeout", c.timeout}, {"resources", c.resources},
		{"subscribe", c.subscribe}, {"prompts", c.prompts}, {"completion", c.completion}, {"logging", c.logging},
		{"elicitation", c.elicitation}, {"sampling", c.sampling}, {"roots", c.roots}, {"changes", c.changes},
		{"together", c.together}, {"close at work", c.closeAtWork}, {"close", c.close},
	} {
		why := c.Lacks[step.name]
		if slices.Contains(strings.Fields(os.Getenv("LEFT_OUT")), step.name) {
			why = os.Getenv("WHY")
		}
		if why != "" {
			fmt.Printf("not %s: %s\n", step.name, why)
			continue
		}
		func() {
			defer func() {
				if r := recover(); r != nil {
					fmt.Printf("FAILED %s: %s\n", step.name, strings.ReplaceAll(fmt.Sprint(r), "\n", " "))
				} else {
					fmt.Println("ok", step.name)
				}
			}()
			step.run()
		}()
	}
}

func (c *Client) connect() { equal(c.Version, c.Wanted) }

func (c *Client) lists() {
	sums := map[string]string{}
	for _, tool := range c.do("tools/list", Values{}).Tools {
		sums[tool.Name] = tool.OutputSchema.Properties["sum"].Type
	}
	equal(sums["add"], "integer")
	equal(c.do("resources/list", Values{}).Resources[0].URI, "test://static-text")
	equal(c.do("resources/templates/list", Values{}).ResourceTemplates[0].URITemplate, "test://template/{id}/data")
	equal(len(c.do("prompts/list", Values{}).Prompts), 5)
}

func (c *Client) calls() {
	equal(c.text("test_simple_text", nil), "This is a simple text response for testing.")
	equal(c.call("test_image_content", nil).Content[0].Type, "image")
	equal(c.call("test_audio_content", nil).Content[0].Type, "audio")
	equal(c.call("test_embedded_resource", nil).Content[0].Type, "resource")
	equal(len(c.call("test_multiple_content_types", nil).Content), 3)
}

func (c *Client) errors() {
	check(c.call("test_error_handling", nil).IsError, "no error")
	check(c.call("slow", Values{"seconds": "many"}).IsError, "no error")
	c.fails("tools/call", Values{"name": "no_such_tool"}, "no_such_tool")
	c.fails("resources/read", Values{"uri": "test://nothing"}, "not found")
}

func (c *Client) structured() {
	equal(string(c.call("add", Values{"a": 2, "b": 3}).StructuredContent), `{"sum":5}`)
}

func (c *Client) progress() {
	_, err := c.withProgress(background, "test_tool_with_progress")
	check(err == nil, "%v", err)
	for _, want := range []float64{0, 50, 100} {
		equal(Await("notifications/progress").Progress, want)
	}
}

func (c *Client) cancel() {
	ctx, cancel := context.WithCancel(background)
	done := c.begin(ctx)
	cancel()
	check(errors.Is(<-done, context.Canceled), "not cancelled")
	c.call("test_simple_text", nil)
}

func (c *Client) timeout() {
	ctx, cancel := context.WithTimeout(background, 100*time.Millisecond)
	defer cancel()
	_, err := c.try(ctx, "tools/call", Values{"name": "slow"})
	check(errors.Is(err, context.DeadlineExceeded), "%v", err)
}

func (c *Client) resources() {
	read := func(uri string) (string, string) {
		r := c.do("resources/read", Values{"uri": uri})
		return r.Contents[0].Text, r.Contents[0].Blob
	}
	text, _ := read("test://static-text")
	equal(text, "This is the content of the static text resource.")
	_, blob := read("test://static-binary")
	check(strings.HasPrefix(blob, "iVBORw0KGgo"), "%s", blob)
	text, _ = read("test://template/42/data")
	check(strings.Contains(text, `"id":"42"`), "%s", text)
}

const watched = "test://watched-resource"

func (c *Client) subscribe() {
	stop := func() { c.do("resources/unsubscribe", Values{"uri": watched}) }
	if c.Listen != nil {
		stop = c.Listen(Values{"resourceSubscriptions": []string{watched}})
	} else {
		c.do("resources/subscribe", Values{"uri": watched})
	}
	c.call("touch_watched_resource", nil)
	equal(Await("notifications/resources/updated").URI, watched)
	stop()
}

func (c *Client) prompts() {
	get := func(name string, args map[string]string) content {
		return c.do("prompts/get", Values{"name": name, "arguments": args}).Messages[0].Content
	}
	equal(get("test_prompt_with_arguments", map[string]string{"arg1": "x", "arg2": "y"}).Text,
		"Prompt with arguments: arg1='x', arg2='y'")
	equal(get("test_prompt_with_image", nil).Type, "image")
	c.fails("prompts/get", Values{"name": "test_prompt_with_arguments", "arguments": Values{"arg1": "x"}}, "arg2")
}

func (c *Client) completion() {
	complete := func(ref Values, name string) []string {
		return c.do("completion/complete", Values{"ref": ref, "argument": Values{"name": name, "value": "v"}}).Completion.Values
	}
	equal(complete(Values{"type": "ref/prompt", "name": "test_prompt_with_arguments"}, "arg1"), []string{"v1", "v2"})
	equal(complete(Values{"type": "ref/resource", "uri": "test://template/{id}/data"}, "id"), []string{"v1", "v2", "v3"})
}

func (c *Client) logging() {
	params := Values{"name": "test_tool_with_logging", "arguments": Values{}}
	if c.modern() {
		params["_meta"] = Values{"io.modelcontextprotocol/logLevel": "info"}
	} else {
		c.do("logging/setLevel", Values{"level": "info"})
	}
	c.do("tools/call", params)
	for range 3 {
		n := Await("notifications/message")
		equal(n.Level+" "+n.Logger, "info everything")
	}
}

func (c *Client) elicitation() {
	answer := c.text("test_elicitation", Values{"message": "Who?"})
	check(strings.Contains(answer, "ann@example.com"), "%s", answer)
	equal(asked.Message, "Who?")
	equal(c.text("test_url_elicitation", nil), "on the way")
	equal(asked.URL, "https://example.com/login")
	equal(c.text("test_input_required_result_multi_round", nil), "Ann likes blue")
	equal(c.do("prompts/get", Values{"name": "test_input_required_result_prompt"}).Messages[0].Content.Text, "Prompt with context: home")
	action = "decline"
	answer = c.text("test_elicitation", Values{"message": "Who?"})
	check(strings.Contains(answer, "action=decline"), "%s", answer)
	action = "accept"
}

func (c *Client) sampling() {
	equal(c.text("test_sampling", Values{"prompt": "Fine"}), "LLM response: Fine indeed")
}

func (c *Client) roots() {
	answer := c.text("roots", nil)
	check(strings.Contains(answer, "file:///srv/ann"), "%s", answer)
	answer = c.text("test_input_required_result_multiple_inputs", nil)
	check(strings.HasSuffix(answer, "Ann, 1 roots"), "%s", answer)
	if !c.modern() {
		check(c.RootsChanged() == nil, "roots changed")
	}
}

func (c *Client) changes() {
	if c.Listen != nil {
		defer c.Listen(Values{"toolsListChanged": true, "promptsListChanged": true})()
	}
	c.call("test_trigger_tool_change", nil)
	Await("notifications/tools/list_changed")
	c.call("test_trigger_prompt_change", nil)
	Await("notifications/prompts/list_changed")
}

func (c *Client) together() {
	var wg sync.WaitGroup
	wrong := make(chan error, 100)
	for i := range 100 {
		wg.Go(func() {
			r, err := c.try(background, "tools/call", Values{"name": "add", "arguments": Values{"a": i, "b": 1}})
			if err != nil || string(r.StructuredContent) != fmt.Sprintf(`{"sum":%d}`, i+1) {
				wrong <- fmt.Errorf("%v, %v", r, err)
			}
		})
	}
	wg.Wait()
	close(wrong)
	err := <-wrong
	check(err == nil, "%v", err)
}

func (c *Client) closeAtWork() {
	done := c.begin(background)
	c.close()
	<-done
}

func (c *Client) close() {
	err := c.Close()
	check(err == nil, "%v", err)
}
