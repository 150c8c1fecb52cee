// SPDX-License-Identifier: MIT
// SPDX-FileCopyrightText: 2026 The mcp authors

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"example.com/mcp"
)

// The test binary is also the server that the tests start as a process.
func TestMain(m *testing.M) {
	if os.Getenv("MCP_TEST_SERVE") == "" {
		os.Exit(m.Run())
	}
	s := newServer(os.Getenv("MCP_KEY"))
	mcp.AddTool(s, mcp.Tool{Name: "book"}, func(ctx context.Context, _ struct{}) (string, error) {
		type where struct {
			City string `json:"city"`
		}
		w, err := mcp.Elicit[where](ctx, "Where to?")
		if err != nil {
			return "", err
		}
		for _, question := range []string{"Book a flight to " + w.City + "?", "And a room?"} {
			if err := mcp.Confirm(ctx, question); err != nil {
				return "", err
			}
		}
		return "booked " + w.City, nil
	})
	mcp.AddTool(s, mcp.Tool{Name: "pid"}, func(context.Context, struct{}) (int, error) { return os.Getpid(), nil })
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println("http://" + listener.Addr().String())
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := serve(ctx, listener, s); err != nil {
		panic(err)
	}
	os.Exit(0)
}

// A process is a server in a process of its own.
type process struct {
	cmd *exec.Cmd
	url *url.URL
}

func startProcess(t *testing.T, key string) *process {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "MCP_TEST_SERVE=1", "MCP_KEY="+key)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	return &process{cmd, u}
}

// stop ends the process as a service manager does, and checks that it exits soon.
func (p *process) stop(t *testing.T) {
	t.Helper()
	began := time.Now()
	if runtime.GOOS == "windows" { // it has no SIGTERM
		p.cmd.Process.Kill()
		p.cmd.Wait()
		return
	}
	p.cmd.Process.Signal(syscall.SIGTERM)
	if err := p.cmd.Wait(); err != nil || time.Since(began) > 8*time.Second {
		t.Errorf("%v after %v", err, time.Since(began))
	}
}

// A round is what a call returns.
type round struct {
	Result struct {
		InputRequests map[string]struct{ Params struct{ Message string } }
		RequestState  string
		Content       []struct{ Text string }
	}
	Error struct{ Message string }
}

func call(t *testing.T, base, tool, more string) (r round) {
	t.Helper()
	req, _ := http.NewRequest("POST", base+"/mcp", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"`+tool+`"`+more+`,`+meta+`}}`))
	for name, value := range map[string]string{"Content-Type": "application/json", "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": tool} {
		req.Header.Set(name, value)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, _ := io.ReadAll(res.Body)
	if err := json.Unmarshal(body, &r); err != nil {
		t.Fatalf("%d %s", res.StatusCode, body)
	}
	return r
}

// answered returns the members of a call that answer the questions of r.
func (r round) answered() string {
	answers := []string{}
	for key, q := range r.Result.InputRequests {
		content := `{"confirm":true}`
		if q.Params.Message == "Where to?" {
			content = `{"city":"Bern"}`
		}
		answers = append(answers, fmt.Sprintf(`%q:{"action":"accept","content":%s}`, key, content))
	}
	return fmt.Sprintf(`,"requestState":%q,"inputResponses":{%s}`, r.Result.RequestState, strings.Join(answers, ","))
}

// Two processes behind a proxy that gives each request to the next one serve a call whose
// questions take several rounds, also if they are restarted between the rounds. Without a common
// key, a process refuses the requestState of another one.
func TestReplicas(t *testing.T) {
	for _, test := range []struct {
		keys [2]string
		ok   bool
	}{
		{[2]string{"secret", "secret"}, true},
		{[2]string{"secret", "other"}, false},
		{[2]string{"", ""}, false},
	} {
		processes := [2]*process{startProcess(t, test.keys[0]), startProcess(t, test.keys[1])}
		var next atomic.Int64
		proxy := &http.Server{Handler: &httputil.ReverseProxy{
			FlushInterval: -1,
			Rewrite: func(r *httputil.ProxyRequest) {
				r.SetURL(processes[next.Add(1)%2].url) // this sets Host too
			},
		}}
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		served := make(chan error)
		go func() { served <- proxy.Serve(listener) }()
		base := "http://" + listener.Addr().String()

		if a, b := call(t, base, "pid", ""), call(t, base, "pid", ""); a.Result.Content[0].Text == b.Result.Content[0].Text {
			t.Error("one process served both calls")
		}
		r := call(t, base, "book", "")
		r = call(t, base, "book", r.answered())
		if !test.ok {
			if r.Error.Message != "Invalid requestState" {
				t.Errorf("%v: %+v", test.keys, r)
			}
		} else {
			for i, p := range processes {
				p.stop(t)
				processes[i] = startProcess(t, test.keys[i])
			}
			r = call(t, base, "book", r.answered())
			if r = call(t, base, "book", r.answered()); len(r.Result.Content) != 1 || r.Result.Content[0].Text != "booked Bern" {
				t.Errorf("%v: %+v", test.keys, r)
			}
		}
		proxy.Close()
		<-served
		for _, p := range processes {
			p.stop(t)
		}
	}
}

// A process that is ended while a stream is open and a client does not read exits soon.
func TestShutdown(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a process cannot be asked to end")
	}
	t.Parallel()
	p := startProcess(t, "")
	half, err := net.Dial("tcp", p.url.Host) // sends half of a request
	if err != nil {
		t.Fatal(err)
	}
	defer half.Close()
	fmt.Fprint(half, "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{")
	var streams []*bufio.Reader
	for range 3 {
		conn, err := net.Dial("tcp", p.url.Host)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		body := `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},` + meta + `}}`
		fmt.Fprintf(conn, "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nMCP-Protocol-Version: 2026-07-28\r\n"+
			"Mcp-Method: subscriptions/listen\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		r := bufio.NewReader(conn)
		for line := ""; !strings.Contains(line, "acknowledged"); {
			if line, err = r.ReadString('\n'); err != nil {
				t.Fatal(err)
			}
		}
		streams = append(streams, r)
	}
	p.stop(t)
	for _, r := range streams {
		if rest, _ := io.ReadAll(r); !strings.Contains(string(rest), `"resultType":"complete"`) {
			t.Errorf("no last result: %q", rest)
		}
	}
}
