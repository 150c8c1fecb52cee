// SPDX-License-Identifier: MIT
// SPDX-FileCopyrightText: 2026 The mcp authors

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"example.com/mcp"
)

// A handler is tested like any function.
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
	// Outside of a session, Confirm returns an error.
	if out, err := v.deleteTool(ctx, deleteIn{ID: n.ID}); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("delete: %v, %v", out, err)
	}
	wantNotes(t, v.store, "Buy milk", "Call Bob", "Buy bread")
}

// The test is a host, in both eras of the protocol.
func TestSession(t *testing.T) {
	eras(t, func(t *testing.T, modern bool) {
		c := (&session{modern: modern}).start(t, newServer(twoNotes(t)))
		_, err := c.call("search_notes", map[string]any{"text": ""})
		want(t, fmt.Sprint(err), "Invalid arguments: text must have a length of at least 1, got 0")
		var list struct{ Notes []struct{ Text string } }
		text, _ := c.callStructured("list_notes", map[string]any{"limit": 1}, &list)
		want(t, fmt.Sprint(list), "{[{Call Bob}]}")
		want(t, text, `{"notes":[{"id":"bbbb2222","time":"2026-01-03T15:04:05Z","text":"Call Bob"}]}`)

		read := func(uri string) string {
			var got struct{ Contents []mcp.ResourceContents }
			raw, _ := c.request("resources/read", map[string]any{"uri": uri})
			json.Unmarshal(raw, &got)
			return fmt.Sprint(got.Contents)
		}
		want(t, read("note://aaaa1111"), "[{note://aaaa1111 text/plain Buy milk [] map[]}]")
		want(t, read("notes://all"), "[{notes://all text/plain aaaa1111 2026-01-02 Buy milk\nbbbb2222 2026-01-03 Call Bob\n [] map[]}]")
		want(t, read("note://none"), "[]")

		raw, _ := c.request("completion/complete", map[string]any{
			"ref":      map[string]any{"type": "ref/resource", "uri": "note://{id}"},
			"argument": map[string]any{"name": "id", "value": ""},
		})
		var ids struct{ Completion struct{ Values []string } }
		json.Unmarshal(raw, &ids)
		want(t, fmt.Sprint(ids), "{{[bbbb2222 aaaa1111]}}")

		var prompt struct{ Messages []mcp.PromptMessage }
		raw, _ = c.request("prompts/get", map[string]any{"name": "summarise", "arguments": map[string]any{"topic": "milk"}})
		json.Unmarshal(raw, &prompt)
		if m := prompt.Messages; len(m) != 2 || m[0].Content.Text != "Please sum up my notes on milk." || m[1].Content.Resource.Text != "Buy milk" {
			t.Errorf("the prompt is %s", raw)
		}
		_, err = c.request("prompts/get", map[string]any{"name": "summarise", "arguments": map[string]any{"topic": "tea"}})
		want(t, fmt.Sprint(err), `there is no note on "tea"`)
	})
}

// A note is deleted only if the user changes the default. Some hosts accept an empty form,
// or the defaults, without asking.
func TestDelete(t *testing.T) {
	form := `{"mode":"form","message":"Delete the note \"Buy milk\"?","requestedSchema":{"type":"object","properties":` +
		`{"confirm":{"type":"boolean","description":"tick to go ahead","default":false}}}}`
	for _, test := range []struct {
		answer, err string
		left        []string
	}{
		{`{"action":"accept","content":{"confirm":true}}`, "", []string{"Call Bob"}},
		{`{"action":"accept","content":{"confirm":false}}`, "the user declined", []string{"Buy milk", "Call Bob"}},
		{`{"action":"accept","content":{}}`, "the user declined", []string{"Buy milk", "Call Bob"}},
		{`{"action":"accept"}`, "the user declined", []string{"Buy milk", "Call Bob"}},
		{`{"action":"decline"}`, "the user declined", []string{"Buy milk", "Call Bob"}},
		{`{"action":"cancel"}`, "the user dismissed the question", []string{"Buy milk", "Call Bob"}},
	} {
		eras(t, func(t *testing.T, modern bool) {
			s := twoNotes(t)
			c := (&session{modern: modern, answer: func(method string, params json.RawMessage) any {
				want(t, method, "elicitation/create")
				want(t, string(params), form)
				return json.RawMessage(test.answer)
			}}).start(t, newServer(s))
			text, err := c.call("delete_note", map[string]any{"id": "aaaa1111"})
			if test.err == "" {
				want(t, text, "Deleted.")
			} else {
				want(t, fmt.Sprint(err), test.err)
			}
			wantNotes(t, s, test.left...)
		})
	}
}

// A client that subscribes to the list is notified of a change.
func TestUpdated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := new(session).start(t, newServer(twoNotes(t)))
		c.request("resources/subscribe", map[string]any{"uri": "notes://all"})
		c.call("add_note", map[string]any{"text": "Buy bread"})
		if len(c.notifications) != 1 || !strings.Contains(c.notifications[0], `"uri":"notes://all"`) {
			t.Errorf("notifications %q", c.notifications)
		}
	})
}

// A test decides what the server knows of its client: the values of Serve's context, the name and the capabilities.
func TestClientIsKnown(t *testing.T) {
	type key struct{}
	server := &mcp.Server{Name: "who", Version: "1"}
	mcp.AddTool(server, mcp.Tool{Name: "who"}, func(ctx context.Context, _ struct{}) (string, error) {
		request := mcp.RequestFrom(ctx)
		return fmt.Sprint(request.ClientName, " ", ctx.Value(key{}), " ", string(request.Capabilities)), nil
	})
	eras(t, func(t *testing.T, modern bool) {
		c := &session{modern: modern, name: "host", can: map[string]any{"roots": map[string]any{}}, ctx: context.WithValue(context.Background(), key{}, "ann")}
		text, err := c.start(t, server).call("who", nil)
		if text != `host ann {"roots":{}}` || err != nil {
			t.Errorf("got %s, %v", text, err)
		}
		text, err = (&session{modern: modern}).start(t, server).call("who", nil)
		if !strings.HasPrefix(text, `test <nil> {"elicitation":`) || err != nil {
			t.Errorf("got %s, %v", text, err)
		}
	})
}

// A call that the client cancels has no response, and the next call has one.
func TestCancel(t *testing.T) {
	eras(t, func(t *testing.T, modern bool) {
		slow := &mcp.Server{Name: "slow", Version: "1"}
		mcp.AddTool(slow, mcp.Tool{Name: "wait"}, func(ctx context.Context, _ struct{}) (string, error) {
			<-ctx.Done()
			return "", context.Cause(ctx)
		})
		mcp.AddTool(slow, mcp.Tool{Name: "hi"}, func(context.Context, struct{}) (string, error) { return "hi", nil })
		c := (&session{modern: modern}).start(t, slow)
		c.cancel(c.begin("tools/call", map[string]any{"name": "wait"}), "no longer needed")
		text, err := c.call("hi", nil)
		if text != "hi" || err != nil {
			t.Errorf("got %q %v", text, err)
		}
	})
}

// The bundle's manifest lists the tools that the server lists.
func TestManifest(t *testing.T) {
	type tool struct{ Name, Description string }
	var manifest, server struct{ Tools []tool }
	text, err := os.ReadFile("manifest.json")
	if err != nil {
		t.Fatal(err)
	}
	raw, err := (&session{modern: true}).start(t, newServer(twoNotes(t))).request("tools/list", nil)
	if err := errors.Join(err, json.Unmarshal(text, &manifest), json.Unmarshal(raw, &server)); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(manifest.Tools, server.Tools) {
		t.Errorf("the manifest has %v, the server %v", manifest.Tools, server.Tools)
	}
}

// eras runs a test with two clients: one of revision 2025-11-25, which receives questions
// during a call, and one of 2026-07-28, which receives them in a result.
func eras(t *testing.T, test func(t *testing.T, modern bool)) {
	t.Helper()
	for _, modern := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) { test(t, modern) })
	}
}

func want(t *testing.T, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// Wherever a crash cuts off the last entry, the earlier entries can be read, and so can
// an entry that is added afterwards.
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
			continue // syncing a disk is slow
		}
		if _, err := s.add("Water the flowers"); err != nil {
			t.Fatal(err)
		}
		wantNotes(t, s, "Buy milk", "Call Bob", "Water the flowers")
	}
}

// The command line can be used while a server runs, and neither loses notes that the
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

// mcp tools prints what a client sees in a list.
func TestPrintTools(t *testing.T) {
	s := twoNotes(t)
	raw, err := (&session{}).start(t, newServer(s)).request("tools/list", nil)
	if err != nil {
		t.Fatal(err)
	}
	var list struct{ Tools []json.RawMessage }
	json.Unmarshal(raw, &list)
	table := "TOOL          BYTES  DESCRIPTION\n"
	for _, tool := range list.Tools {
		var about struct{ Name, Description string }
		json.Unmarshal(tool, &about)
		table += fmt.Sprintf("%-12s  %-5d  %s\n", about.Name, len(tool), about.Description)
	}
	var out, asJSON strings.Builder
	if err := errors.Join(run(s, &out, "mcp", "tools"), run(s, &asJSON, "mcp", "tools", "--json")); err != nil {
		t.Fatal(err)
	}
	want(t, out.String(), table)
	var printed []json.RawMessage
	json.Unmarshal([]byte(asJSON.String()), &printed)
	got, _ := json.Marshal(printed)
	listed, _ := json.Marshal(list.Tools)
	want(t, string(got), string(listed))
	if err := run(s, &out, "mcp", "tools", "--xml"); err != errUsage {
		t.Errorf("an unknown option: %v", err)
	}
}

// twoNotes returns a store with two notes.
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
