package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"example.com/mcp"
)

// A handler is an ordinary function, and tested like one.
func TestHandlers(t *testing.T) {
	ctx := t.Context()
	v := service{twoNotes(t), new(mcp.Server)}
	n, err := v.addTool(ctx, addIn{Text: "Buy bread"})
	if err != nil || n.Text != "Buy bread" {
		t.Errorf("add: %v, %v", n, err)
	}
	if out, err := v.searchTool(ctx, searchIn{Text: "buy"}); err != nil || len(out.Notes) != 2 {
		t.Errorf("search: %v, %v", out, err)
	}
	if out, err := v.listTool(ctx, listIn{Limit: 1}); err != nil || len(out.Notes) != 1 || out.Notes[0].ID != n.ID {
		t.Errorf("list: %v, %v", out, err)
	}
	if ids, err := v.completeID(ctx, n.ID[:4], nil); err != nil || !slices.Equal(ids, []string{n.ID}) {
		t.Errorf("complete: %q, %v", ids, err)
	}
	if words, err := v.completeWord(ctx, "B", nil); err != nil || !slices.Equal(words, []string{"bob", "bread", "buy"}) {
		t.Errorf("complete: %q, %v", words, err)
	}
	if _, err := v.readNote(ctx, "", map[string]string{"id": "none"}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("read: %v", err)
	}
	// Outside of a session there is nobody to ask.
	if out, err := v.deleteTool(ctx, deleteIn{ID: n.ID}); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("delete: %v, %v", out, err)
	}
	wantNotes(t, v.store, "Buy milk", "Call Bob", "Buy bread")
}

// What a host sees of it is tested by playing one.
func TestSession(t *testing.T) {
	play(t, newServer(twoNotes(t)), initialize+`
> {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"search_notes","arguments":{"text":""}}}
< {"jsonrpc":"2.0","id":2,"result":{"isError":true,"content":[{"type":"text","text":"Invalid arguments: text must have at least 1 character, got 0"}]}}
> {"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"list_notes","arguments":{"limit":1}}}
< {"jsonrpc":"2.0","id":3,"result":{"structuredContent":{"notes":[{"id":"bbbb2222","time":"2026-01-03T15:04:05Z","text":"Call Bob"}]},
  "content":[{"type":"text","text":"{\"notes\":[{\"id\":\"bbbb2222\",\"time\":\"2026-01-03T15:04:05Z\",\"text\":\"Call Bob\"}]}"}]}}
> {"jsonrpc":"2.0","id":4,"method":"completion/complete","params":{"ref":{"type":"ref/resource","uri":"note://{id}"},"argument":{"name":"id","value":""}}}
< {"jsonrpc":"2.0","id":4,"result":{"completion":{"values":["bbbb2222","aaaa1111"],"total":2,"hasMore":false}}}
> {"jsonrpc":"2.0","id":5,"method":"resources/read","params":{"uri":"note://aaaa1111"}}
< {"jsonrpc":"2.0","id":5,"result":{"contents":[{"uri":"note://aaaa1111","mimeType":"text/plain","text":"Buy milk"}]}}
> {"jsonrpc":"2.0","id":6,"method":"resources/read","params":{"uri":"notes://all"}}
< {"jsonrpc":"2.0","id":6,"result":{"contents":[{"uri":"notes://all","mimeType":"text/plain","text":"aaaa1111 2026-01-02 Buy milk\nbbbb2222 2026-01-03 Call Bob\n"}]}}
> {"jsonrpc":"2.0","id":7,"method":"prompts/get","params":{"name":"summarise","arguments":{"topic":"tea"}}}
< {"jsonrpc":"2.0","id":7,"error":{"code":-32603,"message":"there is no note on \"tea\""}}
> {"jsonrpc":"2.0","id":8,"method":"prompts/get","params":{"name":"summarise","arguments":{"topic":"milk"}}}
< {"jsonrpc":"2.0","id":8,"result":{"description":"Sums up the notes on a topic.","messages":[
  {"role":"user","content":{"type":"text","text":"Please sum up my notes on milk."}},
  {"role":"user","content":{"type":"resource","resource":{"uri":"note://aaaa1111","mimeType":"text/plain","text":"Buy milk"}}}]}}
`)
}

// The question is asked in two ways: older clients are sent a request in the
// middle of the call, those of revision 2026-07-28 call twice.
func TestDelete(t *testing.T) {
	const (
		form = `{"mode":"form","message":"Delete the note \"Buy milk\"?","requestedSchema":{
  "type":"object","properties":{"sure":{"type":"boolean","description":"tick to delete it for good"}},"required":["sure"]}}`
		legacy = initialize + `
> {"jsonrpc":"2.0","id":2,"method":"resources/subscribe","params":{"uri":"notes://all"}}
< {"jsonrpc":"2.0","id":2,"result":{}}
> {"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"delete_note","arguments":{"id":"aaaa1111"}}}
< {"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":` + form + `}
> {"jsonrpc":"2.0","id":1,"result":%s}%s
< {"jsonrpc":"2.0","id":3,"result":{%s}}`
		modern = `
> {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"delete_note","arguments":{"id":"aaaa1111"},` + client + `}}
< {"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required","requestState":"$state",
  "inputRequests":{"confirm":{"method":"elicitation/create","params":` + form + `}},` + server + `}}
> {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"delete_note","arguments":{"id":"aaaa1111"},
  "requestState":"$state","inputResponses":{"confirm":%s},` + client + `}}
< {"jsonrpc":"2.0","id":2,"result":{"resultType":"complete",%s,` + server + `}}`
	)
	for _, test := range []struct {
		answer, told, result string
		left                 []string
	}{{
		answer: `{"action":"accept","content":{"sure":true}}`,
		told:   "\n" + `< {"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"notes://all"}}`,
		result: `"content":[{"type":"text","text":"Deleted."}]`,
		left:   []string{"Call Bob"},
	}, {
		answer: `{"action":"accept","content":{"sure":false}}`,
		result: `"isError":true,"content":[{"type":"text","text":"mcp: the user declined"}]`,
		left:   []string{"Buy milk", "Call Bob"},
	}, {
		answer: `{"action":"decline"}`,
		result: `"isError":true,"content":[{"type":"text","text":"mcp: the user declined"}]`,
		left:   []string{"Buy milk", "Call Bob"},
	}, {
		answer: `{"action":"cancel"}`,
		result: `"isError":true,"content":[{"type":"text","text":"mcp: the user dismissed the question"}]`,
		left:   []string{"Buy milk", "Call Bob"},
	}} {
		s := twoNotes(t)
		play(t, newServer(s), fmt.Sprintf(legacy, test.answer, test.told, test.result))
		wantNotes(t, s, test.left...)

		s = twoNotes(t)
		play(t, newServer(s), fmt.Sprintf(modern, test.answer, test.result))
		wantNotes(t, s, test.left...)
	}
}

const (
	initialize = `
> {"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{}},"clientInfo":{"name":"host","version":"1"}}}
< {"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","serverInfo":{"name":"notes","version":"1.0.0","title":"Notes"},
  "capabilities":{"tools":{"listChanged":true},"resources":{"subscribe":true,"listChanged":true},"prompts":{"listChanged":true},"completions":{}},
  "instructions":"The user's own notes. Search them before you add one."}}
> {"jsonrpc":"2.0","method":"notifications/initialized"}
`
	// In revision 2026-07-28 there is no initialize, and everything says this:
	client = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}`
	server = `"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"notes","version":"1.0.0"}}`
)

// play has a client say what follows a ">", and sees that it hears what
// follows a "<", as JSON, and nothing else. $state is the requestState that
// the server has made up.
func play(t *testing.T, s *mcp.Server, transcript string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { // if an answer never comes, the bubble tells
		r, in := io.Pipe()
		out, w := io.Pipe()
		defer out.Close()
		defer in.Close()
		ended := make(chan error, 1)
		go func() {
			ended <- s.Serve(t.Context(), r, w)
			w.Close()
		}()

		answers, state := bufio.NewReader(out), ""
		transcript = strings.ReplaceAll(transcript, "\n  ", "")
		for line := range strings.SplitSeq(strings.TrimSpace(transcript), "\n") {
			if question, ok := strings.CutPrefix(line, "> "); ok {
				io.WriteString(in, strings.ReplaceAll(question, "$state", state)+"\n")
			}
			if want, ok := strings.CutPrefix(line, "< "); ok {
				got, err := answers.ReadString('\n')
				if err != nil {
					t.Fatalf("%v instead of %s", err, want)
				}
				if _, rest, ok := strings.Cut(got, `"requestState":"`); ok {
					state, _, _ = strings.Cut(rest, `"`)
				}
				wantJSON(t, got, strings.ReplaceAll(want, "$state", state))
			}
		}
		in.Close()
		if rest, _ := io.ReadAll(answers); len(rest) > 0 {
			t.Errorf("nobody waits for %s", rest)
		}
		if err := <-ended; err != nil {
			t.Error("Serve:", err)
		}
	})
}

func wantJSON(t *testing.T, got, want string) {
	t.Helper()
	var a, b any
	if err := errors.Join(json.Unmarshal([]byte(got), &a), json.Unmarshal([]byte(want), &b)); err != nil || !reflect.DeepEqual(a, b) {
		t.Errorf("got  %swant %s\n%v", got, want, err)
	}
}

// Wherever a crash cuts off the last entry, those before it are there, and what
// is added next is too.
func TestCrash(t *testing.T) {
	s := twoNotes(t)
	before, _ := os.ReadFile(s.path)
	if _, err := s.add("lost"); err != nil {
		t.Fatal(err)
	}
	after, _ := os.ReadFile(s.path)
	for n := len(before); n < len(after)-1; n++ {
		if err := os.WriteFile(s.path, after[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		wantNotes(t, s, "Buy milk", "Call Bob")
		if n%8 > 0 {
			continue // a disk takes its time to sync
		}
		if _, err := s.add("Water the flowers"); err != nil {
			t.Fatal(err)
		}
		wantNotes(t, s, "Buy milk", "Call Bob", "Water the flowers")
	}
}

// The command line can be used while a server runs, and neither loses what the
// other one writes.
func TestTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := twoNotes(t)
		v := service{s, new(mcp.Server)}
		var wg sync.WaitGroup
		for i := range 10 {
			wg.Go(func() { run(s, io.Discard, "add", "typed", strconv.Itoa(i)) })
			wg.Go(func() { v.addTool(t.Context(), addIn{"called " + strconv.Itoa(i)}) })
		}
		wg.Wait()
		for _, by := range []string{"typed", "called"} {
			if notes, err := s.search(by); err != nil || len(notes) != 10 {
				t.Errorf("%d of 10 notes %s, %v", len(notes), by, err)
			}
		}
	})
}

func TestCommands(t *testing.T) {
	s := twoNotes(t)
	for _, test := range []struct{ command, out, err string }{
		{"list", "aaaa1111 2026-01-02 Buy milk\nbbbb2222 2026-01-03 Call Bob\n", "<nil>"},
		{"search CALL bob", "bbbb2222 2026-01-03 Call Bob\n", "<nil>"},
		{"delete aaaa1111", "", "<nil>"},
		{"delete aaaa1111", "", `note "aaaa1111": file does not exist`},
		{"search milk", "", "<nil>"},
		{"add", "", "a note needs a text"},
		{"drop", "", errUsage.Error()},
		{"", "", errUsage.Error()},
	} {
		var out strings.Builder
		err := run(s, &out, strings.Fields(test.command)...)
		if out.String() != test.out || fmt.Sprint(err) != test.err {
			t.Errorf("%s: %q, %v; want %q, %s", test.command, out.String(), err, test.out, test.err)
		}
	}
}

// twoNotes returns a store as it has been written before.
func twoNotes(t *testing.T) store {
	s := store{filepath.Join(t.TempDir(), "notes.jsonl")}
	if err := os.WriteFile(s.path, []byte(`
{"add":{"id":"aaaa1111","time":"2026-01-02T15:04:05Z","text":"Buy milk"}}

{"add":{"id":"bbbb2222","time":"2026-01-03T15:04:05Z","text":"Call Bob"}}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	return s
}

func wantNotes(t *testing.T, s store, want ...string) {
	t.Helper()
	notes, err := s.all()
	if err != nil {
		t.Error(err)
	}
	var got []string
	for _, n := range notes {
		got = append(got, n.Text)
	}
	if !slices.Equal(got, want) {
		t.Errorf("the notes are %q, want %q", got, want)
	}
}
