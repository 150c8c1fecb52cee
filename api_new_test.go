// SPDX-License-Identifier: MIT

package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// diagnostics makes s write its diagnostics to a buffer.
func diagnostics(s *Server) *bytes.Buffer {
	var b bytes.Buffer
	s.ErrorLog = log.New(&b, "", 0)
	return &b
}

// F10
func TestAcceptWithoutContentIsAFormWithoutFields(t *testing.T) {
	s := &Server{}
	add(s, "typed", func(ctx context.Context) (string, error) {
		_, err := Elicit[struct{}](ctx, "k", "m")
		return "accepted", err
	})
	add(s, "byhand", func(ctx context.Context) (string, error) {
		raw, err := ElicitSchema(ctx, "k", "m", json.RawMessage(`{"type":"object","properties":{}}`))
		return string(raw), err
	})
	add(s, "consent", func(ctx context.Context) (string, error) {
		form, err := Elicit[struct {
			Sure bool `json:"sure" default:"false"`
		}](ctx, "k", "m")
		return strconv.FormatBool(form.Sure), err
	})
	const caps = `{"elicitation":{}}`
	for tool, want := range map[string]string{"typed": "accepted", "byhand": "{}", "consent": "false"} {
		for _, answer := range []string{`{"action":"accept"}`, `{"action":"accept","content":null}`, `{"action":"accept","content":{}}`} {
			synctest.Test(t, func(t *testing.T) {
				c := serve(t, s)
				c.send(modernAsk(1, "tools/call", `"name":"`+tool+`"`, caps, `,"inputResponses":{"k":`+answer+`}`))
				c.want(saidNow(1, want))
				c.initialize(legacyPV, caps)
				c.send(call("2", tool, "{}"))
				c.recv()
				c.send(`{"jsonrpc":"2.0","id":1,"result":` + answer + `}`)
				c.want(said("2", want))
				c.end()
			})
		}
	}
}

// F11
func TestNoValueMakesADotSegment(t *testing.T) {
	for _, test := range []struct{ template, fits, refused string }{
		{"file:///home/u/.{+path}", "file:///home/u/.bashrc file:///home/u/.config/x",
			"file:///home/u/../root/.ssh/id_rsa file:///home/u/.%2E/root file:///home/u/..%2froot file:///home/u/./x file:///home/u/.. file:///home/u/..?q file:///home/u/.%3fq"},
		{"x://h/{a}.{b}", "x://h/a.b x://h/a..b", "x://h/a.. x://h/..b/"},
		{"x://h/.{a}", "x://h/.a x://h/...a", "x://h/.. x://h/.%2e x://h/..."},
		{"x://h/%2e{a}/b", "x://h/%2ea/b", "x://h/%2e./b x://h/%2e%2e/b"},
		{"x:..{+a}", "x:..a", "x:../a x:..%5Ca"},
		{"x://h/{+a}.", "x://h/a.", "x://h/a/. x://h/a/.. x://h/.."},
		{"x://h/{+a}", "x://h/a/b x://h/a/.b/c. x://h/a/...", "x://h/. x://h/./a x://h/a/. x://h/a/./b x://h/a/../b"},
	} {
		s := &Server{}
		s.AddResource(Resource{URI: test.template, Name: "n"}, texts(""))
		for _, uri := range strings.Fields(test.fits) {
			if it, _ := s.match(uri); it == nil {
				t.Errorf("%s does not fit %s", uri, test.template)
			}
		}
		for _, uri := range strings.Fields(test.refused) {
			if it, vars := s.match(uri); it != nil {
				t.Errorf("%s fits %s: %v", uri, test.template, vars)
			}
		}
	}
}

// F16
func TestRequestFromIsACopy(t *testing.T) {
	s := &Server{}
	AddTool(s, Tool{Name: "t", InputSchema: json.RawMessage(`{"type":"object"}`)}, func(ctx context.Context, in json.RawMessage) (string, error) {
		for range 2 {
			r := RequestFrom(ctx)
			for _, b := range []*json.RawMessage{&r.ID, &r.Meta, &r.Capabilities} {
				_ = append(*b, "xxxxxxxx"...)
				for i := range *b {
					(*b)[i] = 'y'
				}
			}
		}
		Progress(ctx, 1, 0, "")
		r := RequestFrom(ctx)
		return fmt.Sprintf("%s %s %s", r.ID, r.Capabilities, requestOf(ctx).arguments), nil
	})
	synctest.Test(t, func(t *testing.T) {
		c := serve(t, s)
		c.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":{"progressToken":7,` + modernMeta + `},"name":"t","arguments":{"a":1}}}`)
		c.want(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":7,"progress":1}}`, saidNow(1, `1 {} {"a":1}`))
		c.end()
	})
}

// F28
func TestSampleWithAToolWithoutSchemaIsAnError(t *testing.T) {
	s := &Server{}
	var tool Tool
	add(s, "t", func(ctx context.Context) (string, error) {
		_, err := Sample(ctx, "k", SampleRequest{MaxTokens: 1, Tools: []Tool{tool}})
		return "", err
	})
	for _, bad := range []struct {
		tool Tool
		want string
	}{
		{Tool{Name: "x"}, `mcp: Sample: tool "x": InputSchema must be set, and a schema must be a JSON object`},
		{Tool{Name: "x", InputSchema: json.RawMessage(`[]`)}, `mcp: Sample: tool "x": InputSchema must be set, and a schema must be a JSON object`},
		{Tool{Name: "no name", InputSchema: json.RawMessage(`{`)}, `mcp: Sample: tool "no name": InputSchema must be set, and a schema must be a JSON object`},
	} {
		tool = bad.tool
		synctest.Test(t, func(t *testing.T) {
			c := serve(t, s)
			c.initialize(legacyPV, `{"sampling":{"tools":{}}}`)
			c.send(call("1", "t", "{}"))
			c.want(failed("1", bad.want))
			c.end()
		})
	}
}

// F35
func TestPriorityZeroIsSent(t *testing.T) {
	s := &Server{}
	s.AddResource(Resource{URI: "x:a", Name: "a", Annotations: &Annotations{Priority: ptr(0.0)}}, texts(""))
	s.AddResource(Resource{URI: "x:b", Name: "b", Annotations: &Annotations{Audience: []string{"user"}}}, texts(""))
	play(t, s, legacyPV, `
		> {"jsonrpc":"2.0","id":1,"method":"resources/list"}
		< {"jsonrpc":"2.0","id":1,"result":{"resources":[{"uri":"x:a","name":"a","annotations":{"priority":0}},{"uri":"x:b","name":"b","annotations":{"audience":["user"]}}]}}`)
}

// F42
func TestRootWithoutANameHasNone(t *testing.T) {
	raw, err := json.Marshal([]Root{{URI: "file:///a"}, {URI: "file:///b", Name: "B"}})
	if want := `[{"uri":"file:///a"},{"uri":"file:///b","name":"B"}]`; err != nil || string(raw) != want {
		t.Errorf("got %s, %v", raw, err)
	}
}

// F44
func TestExtensionsAreDeclaredInBothEras(t *testing.T) {
	s := &Server{Extensions: map[string]any{"io.modelcontextprotocol/ui": map[string]any{"mimeTypes": []string{"text/html;profile=mcp-app"}}}}
	const declared = `"capabilities":{"extensions":{"io.modelcontextprotocol/ui":{"mimeTypes":["text/html;profile=mcp-app"]}}}`
	play(t, s, "", `
		> {"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}
		< {"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25",`+declared+`,"serverInfo":{"name":"demo","version":"1.0.0"}}}
		> {"jsonrpc":"2.0","id":2,"method":"server/discover","params":{$META}}
		< {"jsonrpc":"2.0","id":2,"result":{"resultType":"complete","supportedVersions":["2026-07-28"],`+declared+`,"ttlMs":0,"cacheScope":"private",$SRV}}`)
}

// F49
func TestAClientThatCannotAskIsSaidToBeSo(t *testing.T) {
	s := &Server{}
	add(s, "form", func(ctx context.Context) (string, error) {
		_, err := Elicit[struct{}](ctx, "k", "m")
		return "", err
	})
	add(s, "page", func(ctx context.Context) (string, error) { return "", ElicitURL(ctx, "k", "m", "https://x") })
	add(s, "model", func(ctx context.Context) (string, error) {
		_, err := Sample(ctx, "k", SampleRequest{MaxTokens: 1})
		return "", err
	})
	play(t, s, legacyPV, `
		> `+call("1", "form", "{}")+`
		< `+failed("1", "This client cannot ask its user: it lacks the elicitation capability")+`
		> `+call("2", "page", "{}")+`
		< `+failed("2", "This client cannot ask its user: it lacks the elicitation.url capability")+`
		> `+call("3", "model", "{}")+`
		< `+failed("3", "This client cannot ask its model: it lacks the sampling capability"))
}

// F54
func TestATypedNilErrorIsNoPanic(t *testing.T) {
	var none *Error
	if errors.Is(error(none), errors.ErrUnsupported) || error(none).Error() == "" {
		t.Error("a nil *Error says something else")
	}
	s := &Server{}
	add(s, "bare", func(context.Context) (string, error) { return "", none })
	add(s, "wrapped", func(context.Context) (string, error) { return "", fmt.Errorf("w: %w", none) })
	s.AddPrompt(Prompt{Name: "p"}, func(context.Context, map[string]string) ([]Message, error) { return nil, none })
	const said = "mcp: a nil *Error was returned as an error"
	play(t, s, legacyPV, `
		> `+call("1", "bare", "{}")+`
		< `+failed("1", said)+`
		> `+call("2", "wrapped", "{}")+`
		< `+failed("2", "w: "+said)+`
		> {"jsonrpc":"2.0","id":3,"method":"prompts/get","params":{"name":"p"}}
		< `+wrong("3", codeInternal, said))
}

// F55
func TestWhatWasAskedForIsNotCached(t *testing.T) {
	s := &Server{CacheTTL: time.Minute, CachePublic: true}
	s.AddResource(Resource{URI: "x:a", Name: "a"}, texts("A"))
	asked := func(id, more string) string {
		return `> {"jsonrpc":"2.0","id":` + id + `,"method":"resources/read","params":{"uri":"x:a",` + more + `$META}}` + "\n"
	}
	got := func(id, hints string) string {
		return `< {"jsonrpc":"2.0","id":` + id + `,"result":{"resultType":"complete","contents":[{"uri":"x:a","text":"A"}],` + hints + `,$SRV}}` + "\n"
	}
	const fresh, private = `"ttlMs":60000,"cacheScope":"public"`, `"ttlMs":0,"cacheScope":"private"`
	play(t, s, "", asked("1", "")+got("1", fresh)+
		asked("2", `"inputResponses":{},`)+got("2", private)+
		asked("3", `"requestState":"x",`)+got("3", private)+
		asked("4", `"inputResponses":null,"requestState":null,`)+got("4", fresh))
}

// F58
func TestReservedErrorCodesAreNotForHandlers(t *testing.T) {
	s := &Server{}
	said := diagnostics(s)
	var code int
	fail := func(context.Context) (string, error) { return "", &Error{Code: code, Message: "m"} }
	add(s, "t", fail)
	s.AddPrompt(Prompt{Name: "p"}, func(ctx context.Context, _ map[string]string) ([]Message, error) {
		_, err := fail(ctx)
		return nil, err
	})
	for _, test := range []struct{ code, legacy, modern int }{
		{-32050, codeInternal, codeInternal},
		{-32020, codeInternal, codeInternal},
		{-32099, codeInternal, codeInternal},
		{codeVersion, codeInternal, codeVersion},
		{codeURL, codeURL, codeInternal}, // the legacy revision is 2025-11-25
		{codeNotFound, codeNotFound, codeParams},
		{codeParams, codeParams, codeParams},
		{-32019, -32019, -32019},
		{-32100, -32100, -32100},
		{-1, -1, -1},
		{7, 7, 7},
	} {
		code = test.code
		for _, request := range []string{`"method":"tools/call","params":{"name":"t"`, `"method":"prompts/get","params":{"name":"p"`} {
			said.Reset()
			play(t, s, legacyPV, `
				> {"jsonrpc":"2.0","id":1,`+request+`}}
				< `+wrong("1", test.legacy, "m")+`
				> {"jsonrpc":"2.0","id":2,`+request+`,$META}}
				< `+wrong("2", test.modern, "m"))
			want := 0
			for _, sent := range []int{test.legacy, test.modern} {
				if sent != test.code {
					want++
				}
			}
			if got := strings.Count(said.String(), "reserves the error code "+strconv.Itoa(code)); got != want {
				t.Errorf("%d: reported %d times, want %d: %s", code, got, want, said)
			}
		}
	}
}

// F14
func TestRemovingOneByOneTakesLinearTime(t *testing.T) {
	const n = 10_000
	s := &Server{}
	name := func(i int) string { return "x:" + strconv.Itoa(i) }
	start := time.Now()
	for i := range n {
		s.AddResource(Resource{URI: name(i), Name: "n"}, texts(""))
	}
	adding := time.Since(start)
	start = time.Now()
	for i := range n { // again: replaced
		s.AddResource(Resource{URI: name(i), Name: "m"}, texts(""))
	}
	replacing := time.Since(start)
	start = time.Now()
	for i := range n {
		s.RemoveResources(name(i))
	}
	removing := time.Since(start)
	if most := 5*adding + 100*time.Millisecond; removing > most || replacing > most {
		t.Errorf("adding %d took %v, replacing them %v, removing them %v", n, adding, replacing, removing)
	}
	if len(s.lists[resources].items) > 1 || len(s.items) > 0 {
		t.Errorf("%d and %d are left", len(s.lists[resources].items), len(s.items))
	}
}

// What is removed and added again in between stands at the end, and cursors hold.
func TestListsStayInOrderWhileTheyChange(t *testing.T) {
	s := &Server{PageSize: 2}
	more := func(names ...string) {
		for _, name := range names {
			add(s, name, func(context.Context) (string, error) { return "", nil })
		}
	}
	more("a", "b", "c", "d", "e", "f")
	synctest.Test(t, func(t *testing.T) {
		c := serve(t, s)
		page := func(cursor string) (names []string, next string) {
			c.send(`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":"` + cursor + `","_meta":{` + modernMeta + `}}}`)
			return listed(t, c.recv())
		}
		names, next := page("")
		check := func(want string) {
			t.Helper()
			if got := strings.Join(names, " "); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		}
		check("a b")
		s.RemoveTools("b", "c", "a", "nobody", "b")
		names, next = page(next)
		check("d e")
		more("a", "d")
		s.RemoveTools("e")
		names, next = page(next)
		check("f a")
		names, _ = page("")
		check("d f")
		c.end()
	})
}

// listed returns the names in the answer to tools/list, and the next cursor.
func listed(t *testing.T, lines []string) (names []string, next string) {
	t.Helper()
	var m struct {
		Result struct {
			Tools      []struct{ Name string }
			NextCursor string
		}
	}
	if len(lines) != 1 || json.Unmarshal([]byte(lines[0]), &m) != nil || m.Result.Tools == nil {
		t.Fatalf("no list: %q", lines)
	}
	for _, tool := range m.Result.Tools {
		names = append(names, tool.Name)
	}
	return names, m.Result.NextCursor
}

func TestAQuestionThatAHandlerSwallowsIsReported(t *testing.T) {
	const lost = "asked, but the question was not returned"
	swallow := func(ctx context.Context) (string, error) { confirm(ctx, "k"); return "fine", nil }
	for name, test := range map[string]struct {
		ask  askFunc
		want int
	}{
		"swallowed":     {swallow, 1},
		"another error": {func(ctx context.Context) (string, error) { confirm(ctx, "k"); return "", errors.New("x") }, 1},
		"returned":      {askOnce, 0},
		"wrapped": {func(ctx context.Context) (string, error) {
			_, err := confirm(ctx, "k")
			return "", fmt.Errorf("w: %w", err)
		}, 0},
		"returned beside what no answer can change": {func(ctx context.Context) (string, error) {
			_, err := confirm(ctx, "k")
			return "", errors.Join(err, &Error{Code: 1, Message: "m"})
		}, 0},
		"not asked": {func(ctx context.Context) (string, error) { return "fine", nil }, 0},
	} {
		for _, params := range []struct{ method, params string }{{"tools/call", `"name":"ask"`}, {"prompts/get", `"name":"ask"`}, {"resources/read", `"uri":"ask:a"`}} {
			s := asker(test.ask)
			said := diagnostics(s)
			synctest.Test(t, func(t *testing.T) {
				c := serve(t, s)
				c.send(modernAsk(1, params.method, params.params, `{"elicitation":{}}`))
				c.recv()
				c.send(modernAsk(2, params.method, params.params, `{}`)) // cannot be asked
				c.recv()
				c.end()
			})
			if got := strings.Count(said.String(), lost); got != test.want {
				t.Errorf("%s, %s: reported %d times, want %d: %s", name, params.method, got, test.want, said)
			}
		}
	}
}

// A tool that is not shown is neither listed nor there, page by page, and what
// decides may do anything, since nobody waits for it.
func TestToolsForSomeClientsOnly(t *testing.T) {
	s := &Server{PageSize: 2}
	var seen []*Request
	apps := func(r *Request) bool {
		seen = append(seen, r)
		s.RemoveTools("nobody")       // takes Server.mu
		s.ResourceUpdated("x:nobody") // and that of every session
		return strings.Contains(string(r.Capabilities), `"apps"`)
	}
	plain := func(context.Context) (string, error) { return "hi", nil }
	for i := range 9 {
		var shown func(*Request) bool
		if i%3 != 0 {
			shown = apps
		}
		AddTool(s, Tool{Name: fmt.Sprint("t", i), Shown: shown}, func(ctx context.Context, _ none) (string, error) { return plain(ctx) })
	}
	AddTool(s, Tool{Name: "wrong", Shown: func(*Request) bool { panic("oh") }}, func(ctx context.Context, _ none) (string, error) { return plain(ctx) })
	names := func(c *client, capabilities string) (pages []string) {
		next := ""
		for {
			c.send(`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":"` + next + `","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":` + capabilities + `}}}`)
			var page []string
			page, next = listed(t, c.recv())
			if pages = append(pages, strings.Join(page, " ")); next == "" {
				return pages
			}
		}
	}
	synctest.Test(t, func(t *testing.T) {
		c := serve(t, s)
		c.send(`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":"9","_meta":{` + modernMeta + `}}}`)
		c.want(wrong("1", codeInternal, "Internal error")) // "wrong" costs this request only
		s.RemoveTools("wrong")
		if got, want := names(c, `{}`), []string{"t0 t3", "t6"}; !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		if got, want := names(c, `{"experimental":{"apps":{}}}`), []string{"t0 t1", "t2 t3", "t4 t5", "t6 t7", "t8"}; !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		seen = nil
		c.talk(`
			> ` + callNow("2", "t1") + `
			< ` + wrong("2", codeParams, "Unknown tool: t1") + `
			> {"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"t1","arguments":[],$META}}
			< ` + wrong("3", codeParams, "Unknown tool: t1") + `
			> {"jsonrpc":"2.0","id":"4","method":"tools/call","params":{"name":"t1","arguments":[],"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"experimental":{"apps":{}}}}}}
			< ` + wrong(`"4"`, codeParams, "Invalid params: arguments must be an object") + `
			> {"jsonrpc":"2.0","id":"5","method":"tools/call","params":{"name":"t1","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"experimental":{"apps":{}}}}}}
			< ` + saidNow(`"5"`, "hi"))
		if len(seen) != 4 || seen[3].Name != "t1" || seen[3].Method != "tools/call" || string(seen[3].ID) != `"5"` {
			t.Errorf("asked %d times, %+v", len(seen), seen)
		}
		c.initialize(legacyPV, `{"experimental":{"apps":{}}}`)
		c.send(call("6", "t2", "{}"))
		c.want(said("6", "hi"))
		c.end()
	})
}

// A list that another client may see otherwise is nobody's to share.
func TestAListWithHiddenToolsIsNotCached(t *testing.T) {
	s := &Server{CacheTTL: time.Minute, CachePublic: true}
	AddTool(s, Tool{Name: "t", Shown: func(*Request) bool { return false }}, func(context.Context, none) (string, error) { return "", nil })
	play(t, s, legacyPV, `
		> {"jsonrpc":"2.0","id":1,"method":"tools/list","params":{$META}}
		< {"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","tools":[],"ttlMs":0,"cacheScope":"private",$SRV}}
		> {"jsonrpc":"2.0","id":2,"method":"tools/list"}
		< {"jsonrpc":"2.0","id":2,"result":{"tools":[]}}
		> {"jsonrpc":"2.0","id":3,"method":"prompts/list"}
		< {"jsonrpc":"2.0","id":3,"result":{"prompts":[]}}`)
}

// Whoever decides slowly who sees a tool holds up nobody else.
func TestShownIsNotWaitedFor(t *testing.T) {
	s := &Server{}
	release := make(chan struct{})
	AddTool(s, Tool{Name: "slow", Shown: func(*Request) bool { <-release; return true }}, func(context.Context, none) (string, error) { return "", nil })
	synctest.Test(t, func(t *testing.T) {
		release = make(chan struct{})
		c := serve(t, s)
		c.initialize(legacyPV, `{}`)
		c.send(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, call("2", "slow", "{}"), pingLine)
		time.Sleep(time.Second) // of the bubble's own time
		c.want(pongLine)
		close(release)
		got := c.recv()
		slices.Sort(got) // they may come in any order
		if len(got) != 2 || !strings.HasPrefix(got[0], `{"jsonrpc":"2.0","id":1,"result":{"tools":[`) || got[1] != said("2", "") {
			t.Errorf("got %q", got)
		}
		c.end()
	})
}

func TestAToolMarshalsAsItIsListed(t *testing.T) {
	schema := json.RawMessage(`{ "type": "object" }`)
	tool := Tool{Name: "t", Title: "T", Description: "<d>", InputSchema: schema, OutputSchema: schema, Meta: map[string]any{"m": 1},
		Annotations: ToolAnnotations{ReadOnlyHint: Yes, OpenWorldHint: No}, Icons: []Icon{{Src: "https://x/i.png"}}, Shown: func(*Request) bool { return true }}
	s := &Server{}
	AddTool(s, tool, func(context.Context, json.RawMessage) (*Result, error) { return nil, nil })
	synctest.Test(t, func(t *testing.T) {
		c := serve(t, s)
		c.send(`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{` + modernMeta + `}}}`)
		var m struct {
			Result struct{ Tools []json.RawMessage }
		}
		got := c.recv()
		json.Unmarshal([]byte(got[0]), &m)
		for _, v := range []any{tool, &tool} {
			if raw, err := json.Marshal(v); err != nil || !sameJSON(t, string(raw), string(m.Result.Tools[0])) {
				t.Errorf("got  %s, %v\nwant %s", raw, err, m.Result.Tools[0])
			}
		}
		c.end()
	})
	if raw, err := json.Marshal(Tool{Name: "bare"}); err != nil || string(raw) != `{"name":"bare"}` {
		t.Errorf("got %s, %v", raw, err)
	}
	if _, err := json.Marshal(Tool{Meta: map[string]any{"x": func() {}}}); err == nil {
		t.Error("marshalled a function")
	}
}

func TestResourceURIsAreLegal(t *testing.T) {
	const how = `write that of a file as (&url.URL{Scheme: "file", Path: path}).String()`
	for _, uri := range []string{"file:///my file.txt", "file:///a%zz", "file:///a%2", "file:///\u00e9", "file:///a|b", "file:///a\"b", "file:///<a>", `file:///a\b`, "file:///a\n", "file:///a^", "file:///a}b", "file:///{a}b}"} {
		wantPanic(t, how, func() { (&Server{}).AddResource(Resource{URI: uri, Name: "n"}, texts("")) })
	}
	for _, uri := range []string{"notes.txt", "/notes.txt", ":x", "1x:y", "x y:z", "{a}:b", ""} {
		wantPanic(t, "begins with a scheme", func() { (&Server{}).AddResource(Resource{URI: uri, Name: "n"}, texts("")) })
	}
	for _, uri := range []string{"x:../{a}", "x://h/./{a}", "x://h/{a}/..", "x://h/%2e/{a}"} {
		wantPanic(t, "nothing would fit it", func() { (&Server{}).AddResource(Resource{URI: uri, Name: "n"}, texts("")) })
	}
	for _, uri := range []string{"file:///my%20file%7B1%7D.txt", "urn:x:y", "git+ssh://u@h:1/p?q=[1]#f", "x:", "ui://a/b;v=1,2!$&'()*+~", "note://{id}", "x://h/{+p}?q={q}"} {
		(&Server{}).AddResource(Resource{URI: uri, Name: "n"}, texts(""))
	}
}

func TestRegistrationRefusesWhatCannotHold(t *testing.T) {
	resource := func(r Resource) func() {
		r.URI, r.Name = "x:a", "a"
		return func() { (&Server{}).AddResource(r, texts("")) }
	}
	wantPanic(t, "the Priority must be from 0 to 1", resource(Resource{Annotations: &Annotations{Priority: ptr(1.5)}}))
	wantPanic(t, "the Priority must be from 0 to 1", resource(Resource{Annotations: &Annotations{Priority: ptr(-0.1)}}))
	wantPanic(t, "the Audience must be", resource(Resource{Annotations: &Annotations{Audience: []string{"users"}}}))
	wantPanic(t, "Size is negative", resource(Resource{Size: -1}))
	wantPanic(t, "the Src of an Icon", resource(Resource{Icons: []Icon{{Src: "icon.png"}}}))
	wantPanic(t, "the Theme of an Icon", resource(Resource{Icons: []Icon{{Src: "https://x", Theme: "blue"}}}))
	wantPanic(t, "the Src of an Icon", func() {
		(&Server{}).AddPrompt(Prompt{Name: "p", Icons: []Icon{{}}}, func(context.Context, map[string]string) ([]Message, error) { return nil, nil })
	})
	wantPanic(t, "the Src of an Icon", func() {
		AddTool(&Server{}, Tool{Name: "t", Icons: []Icon{{Src: "file:///x"}}}, func(context.Context, none) (string, error) { return "", nil })
	})
}

// A new revision is added in one section: no other line names one of them.
func TestRevisionsAreToldApartInOneSection(t *testing.T) {
	src, err := os.ReadFile("mcp.go")
	if err != nil {
		t.Skip(err)
	}
	before, rest, _ := strings.Cut(string(src), "// ---- what each revision knows ----")
	_, after, _ := strings.Cut(rest, "\n// ---- ")
	for _, line := range regexp.MustCompile(`.*\brev2\w+.*`).FindAllString(before+after, -1) {
		t.Errorf("names a revision: %s", line)
	}
}
