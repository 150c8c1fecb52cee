// SPDX-License-Identifier: MIT

package docs

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"example.com/mcp"
	"github.com/spf13/cobra"
)

// The test binary is also the program.
func TestMain(m *testing.M) {
	if os.Getenv("TODO") == "" {
		os.Exit(m.Run())
	}
	if newRoot().Execute() != nil {
		os.Exit(1)
	}
	os.Exit(0)
}

func newServer(run func(ctx context.Context, line []string) (string, error)) *mcp.Server {
	s := &mcp.Server{Name: "todo", Version: "1.0.0", MaxConcurrent: 1}
	addCommands(s, newRoot(), run)
	return s
}

// call calls a tool. A failure is returned as text.
func call(t *testing.T, s *session, name, arguments string) string {
	raw, err := s.request("tools/call", map[string]any{"name": name, "arguments": json.RawMessage(arguments)})
	var result struct {
		Content []struct{ Text string }
		IsError bool
	}
	json.Unmarshal(raw, &result)
	if err != nil || len(result.Content) > 1 {
		t.Fatalf("%s, %v", raw, err)
	}
	text := ""
	for _, content := range result.Content {
		text = content.Text
	}
	if result.IsError {
		return "error: " + text
	}
	return text
}

type tool struct {
	Name, Description string
	InputSchema       struct {
		Properties map[string]struct {
			Type, Description string
			Items             struct{ Type string }
		}
		Required []string
	}
}

func listTools(t *testing.T) map[string]tool {
	s := (&session{}).start(t, newServer(runCommand))
	raw, err := s.end(s.begin("tools/list", map[string]any{}))
	var list struct{ Tools []tool }
	json.Unmarshal(raw, &list)
	if err != nil || len(list.Tools) == 0 {
		t.Fatal(string(raw), err)
	}
	tools := map[string]tool{}
	for _, tool := range list.Tools {
		tools[tool.Name] = tool
	}
	return tools
}

func TestTools(t *testing.T) {
	tools := listTools(t)
	var names []string
	for name := range tools {
		names = append(names, name)
	}
	slices.Sort(names)
	const want = "add check config_edit config_set-value import list move quit remove show sync version wait"
	if got := strings.Join(names, " "); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	add := tools["add"].InputSchema
	for name, want := range map[string]string{"tag": "array", "line": "array", "day": "array", "priority": "integer", "weight": "number", "due": "string",
		"label": "string", "urgent": "boolean", "store": "string", "verbose": "integer", "args": "array"} {
		if got := add.Properties[name].Type; got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if len(add.Properties) != 11 || strings.Join(add.Required, " ") != "args" || add.Properties["args"].Description != "NAME [NOTE...]" {
		t.Errorf("%+v", add)
	}
	if tools["add"].Description != "Adds a task with notes." || tools["list"].Description != "Lists tasks" {
		t.Errorf("%+v", tools)
	}
	list := tools["list"].InputSchema
	if len(list.Properties) != 3 || len(list.Required) != 0 || list.Properties["limit"].Description != "at most" {
		t.Errorf("%+v", list)
	}
	if load := tools["import"].InputSchema; strings.Join(load.Required, " ") != "from" {
		t.Errorf("%+v", load)
	}
}

func TestCalls(t *testing.T) {
	// What a call does not set has the default again.
	const defaults = `home 0 ["x"] tag=["new"] line=[] day=[] priority=5 weight=0 due=1h0m0s label=map[] urgent=false hidden="" "" changed=false` + "\n"
	s := (&session{}).start(t, newServer(runCommand))
	stdin, typed, err := os.Pipe() // under ServeStdio it holds requests, so no command may read it
	if err != nil {
		t.Fatal(err)
	}
	typed.WriteString("request\n")
	typed.Close()
	defer func(old *os.File) { os.Stdin = old }(os.Stdin)
	os.Stdin = stdin
	for _, test := range []struct{ name, arguments, want string }{
		{"add", `{"args":["x"]}`, defaults},
		{"add", `{"args":["x","-u","--priority=9"],"store":"work","verbose":2,"tag":["a,b","c\"d",""],"line":["1,2","-"],"day":[1,"2"],"priority":1e6,"weight":0.5,"due":"90m","label":"a=b","urgent":true}`,
			`work 2 ["x" "-u" "--priority=9"] tag=["a,b" "c\"d" ""] line=["1,2" "-"] day=[1 2] priority=1000000 weight=0.5 due=1h30m0s label=map[a:b] urgent=true hidden="" "" changed=true` + "\n"},
		{"add", `{"args":["x"]}`, defaults},
		{"add", `{"args":["x"],"store":null,"priority":null,"tag":[],"line":null,"urgent":"false"}`, defaults},
		{"add", `{"args":"x","priority":"5"}`, strings.Replace(defaults, "changed=false", "changed=true", 1)},
		{"add", `{"args":["x"],"store":"--urgent"}`, strings.Replace(defaults, "home", "--urgent", 1)},
		{"add", `{"args":["x"],"store":"[1,2]"}`, strings.Replace(defaults, "home", "[1,2]", 1)},
		{"add", `{}`, "error: Invalid arguments: args is required..."},
		{"add", `{"args":[]}`, "error: requires at least 1 arg(s), only received 0\n"},
		{"add", `{"args":["x"],"priority":"high"}`, "error: Invalid arguments: priority must be an integer..."},
		{"add", `{"args":["x"],"due":"soon"}`, `error: invalid argument "soon" for "--due" flag: time: invalid duration "soon"` + "\n"},
		{"add", `{"args":["x"],"internal":"y"}`, "error: Invalid arguments: internal is unknown..."},
		{"list", `{"limit":3}`, "tasks of home at most 3\n"},
		{"list", `{}`, "tasks of home at most 10\n"},
		{"list", `{"args":["x"]}`, "error: Invalid arguments: args is unknown..."},
		{"show", `{"args":["x"]}`, "error: there is no task \"x\"\n"},
		{"show", `{"args":["x","y"]}`, "error: accepts 1 arg(s), received 2\n"},
		{"show", `{"args":["--help"]}`, "error: there is no task \"--help\"\n"},
		{"move", `{"args":["up"]}`, "moved up\n"},
		{"move", `{"args":["left"]}`, "error: invalid argument \"left\" for \"todo move\"\n"},
		{"import", `{}`, "error: Invalid arguments: from is required..."},
		{"import", `{"from":"a b"}`, "imported a b\n"},
		{"check", `{}`, "warning: it is long\nchecked\n"},
		{"sync", `{}`, "error: the network is down\nsent 1 of 2\n"},
		{"version", `{}`, ""}, // as the guide says: what it prints to os.Stdout is lost
		{"config_set-value", `{"args":["a","-b"]}`, "set [a -b]\n"},
		{"config_edit", `{}`, "error: EOF\nread \n"},
	} {
		text := call(t, s, test.name, test.arguments)
		if begin, cut := strings.CutSuffix(test.want, "..."); text != test.want && !(cut && strings.HasPrefix(text, begin)) {
			t.Errorf("%s %s: got %s\nwant %s", test.name, test.arguments, text, test.want)
		}
	}
}

// A command can ask, in both styles of the protocol.
func TestQuestion(t *testing.T) {
	for _, modern := range []bool{false, true} {
		for action, want := range map[string]string{"accept": "removed x\n", "decline": "error: the user declined\n"} {
			s := (&session{modern: modern, answer: func(string, json.RawMessage) any {
				return map[string]any{"action": action, "content": map[string]any{"confirm": true}}
			}}).start(t, newServer(runCommand))
			if text := call(t, s, "remove", `{"args":["x"]}`); text != want {
				t.Errorf("modern %v, %s: got %q", modern, action, text)
			}
		}
	}
}

// A program may be one command.
func TestRoot(t *testing.T) {
	server := &mcp.Server{Name: "one", Version: "1.0.0"}
	addCommands(server, &cobra.Command{Use: "one [NAME]", Run: func(*cobra.Command, []string) {}}, func(ctx context.Context, line []string) (string, error) {
		return strings.Join(line, " "), nil
	})
	s := (&session{}).start(t, server)
	if text := call(t, s, "one", `{"args":["a"]}`); text != "-- a" {
		t.Error(text)
	}
}

// In a process of its own, a command may also print to os.Stdout, and exit.
func TestProcess(t *testing.T) {
	t.Setenv("TODO", "1")
	s := (&session{}).start(t, newServer(func(ctx context.Context, line []string) (string, error) { return runProcess(ctx, os.Args[0], line) }))
	for name, want := range map[string]string{
		"version":     "1.0.0\n",
		"check":       "warning: it is long\nchecked\n",
		"quit":        "error: exit status 3\nno such list\n",
		"config_edit": "error: exit status 1\nread \nError: EOF\n",
	} {
		if text := call(t, s, name, "{}"); text != want && !(name == "config_edit" && strings.HasPrefix(text, want)) { // cobra prints its usage too
			t.Errorf("%s: got %q", name, text)
		}
	}
}

// The program serves its commands over stdio. What it was started with counts in each command, a model cannot change it,
// and a call that is cancelled ends the process of the command.
func TestProgram(t *testing.T) {
	program := exec.Command(os.Args[0], "--store", "work", "mcp")
	program.Env = append(os.Environ(), "TODO=1")
	in, err := program.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := program.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(in, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}
{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"list","arguments":{"limit":3}}}
{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"list","arguments":{"store":"home"}}}
{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"wait","arguments":{}}}`)
	var output string
	lines := bufio.NewScanner(out)
	for n := 1; lines.Scan(); n++ {
		output += lines.Text() + "\n"
		if n == 3 { // all but the call of wait have responses
			in.Close()
		}
	}
	if err := program.Wait(); err != nil {
		t.Error(err)
	}
	for _, want := range []string{`"tasks of work at most 3\n"`, "store is unknown", `"id":4,"result":{"content":[{"type":"text","text":"signal: interrupt\n"}]`} {
		if !strings.Contains(output, want) {
			t.Errorf("without %s: %s", want, output)
		}
	}
}
