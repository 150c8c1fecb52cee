// Cells prints what the cells of the README's comparison say in words: what each library does with
// a panic, a line that is not JSON, a nil map, wrong arguments, and when stdin closes during a call.
//
//	go -C .ci/peers run ./cells
//
// The three servers have the same handlers. Each case starts a new process, opens a session of
// 2025-11-25, and prints the responses, what else is on stdout, and when and how the process ended.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"os/exec"
	"strings"
	"time"
)

const (
	initialize = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`
	initOver   = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
	ping       = `{"jsonrpc":"2.0","id":9,"method":"ping"}`
)

// limit is how long a process may run after its stdin was closed.
const limit = 15 * time.Second

func call(tool, arguments string) string {
	return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + tool + `","arguments":` + arguments + `}}`
}

func main() {
	log.SetFlags(0)
	dir, err := os.MkdirTemp("", "cells")
	must(err)
	defer os.RemoveAll(dir)
	build := exec.Command("go", "build", "-o", dir, "./cells/gosdk", "./cells/mcpgo", "./cells/ours")
	build.Stderr = os.Stderr
	must(build.Run())
	for _, c := range []struct {
		name    string
		lines   []string
		closing bool // stdin is closed during the call, and otherwise after the responses
	}{
		{"a panic in a tool, then a ping", []string{call("panics", `{}`), ping}, false},
		{"fmt.Println in a tool", []string{call("prints", `{}`)}, false},
		{"a line that is not JSON, then a ping", []string{"this is not JSON", ping}, false},
		{"a nil map in a result", []string{`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`, call("labels", `{}`)}, false},
		{"wrong arguments", []string{call("search", `{"txt":"mcp","limit":500}`)}, false},
		{"stdin closes during a call whose handler looks at its context", []string{call("aware", `{}`)}, true},
		{"stdin closes during a call whose handler does not look at its context", []string{call("deaf", `{}`)}, true},
	} {
		fmt.Printf("\n== %s\n", c.name)
		for _, server := range []string{"gosdk", "mcpgo", "ours"} {
			fmt.Printf("%-6s %s\n", server, strings.Join(play(dir+"/"+server, c.lines, c.closing), "\n       "))
		}
	}
}

// play starts a server and sends it the lines. It returns what the server wrote to stdout, and how it ended.
func play(server string, lines []string, closing bool) (seen []string) {
	cmd := exec.Command(server)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	in, err := cmd.StdinPipe()
	must(err)
	out, err := cmd.StdoutPipe()
	must(err)
	must(cmd.Start())
	read := make(chan string, 100)
	go func() {
		s := bufio.NewScanner(out)
		s.Buffer(nil, 1<<20)
		for s.Scan() {
			read <- s.Text()
		}
		close(read)
	}()
	fmt.Fprintln(in, initialize)
	<-read
	fmt.Fprintln(in, initOver)
	for _, line := range lines {
		fmt.Fprintln(in, line) // fails if the process has ended
		time.Sleep(300 * time.Millisecond)
	}
	closed := time.Now()
	in.Close()
	kill := time.AfterFunc(limit, func() { cmd.Process.Kill() })
	for line := range read {
		seen = append(seen, describe(line))
	}
	err = cmd.Wait()
	took := time.Since(closed)
	kill.Stop()
	if closing {
		seen = append(seen, fmt.Sprintf("the process ended %.1f s after stdin was closed: %s", took.Seconds(), cmd.ProcessState))
	} else {
		seen = append(seen, fmt.Sprintf("the process ended: %s", cmd.ProcessState))
	}
	if first, _, _ := strings.Cut(stderr.String(), "\n"); first != "" {
		seen = append(seen, "stderr: "+first)
	}
	return seen
}

// describe returns a line, or, of a list of tools, the output schema of labels.
func describe(line string) string {
	var m struct {
		Result struct {
			Tools []struct {
				Name         string
				OutputSchema json.RawMessage
			}
		}
	}
	if json.Unmarshal([]byte(line), &m) != nil {
		return "NOT JSON: " + line
	}
	for _, tool := range m.Result.Tools {
		if tool.Name == "labels" {
			return "output schema: " + string(tool.OutputSchema)
		}
	}
	return line
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
