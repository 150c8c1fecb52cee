package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// httpScenario measures calls over HTTP, without sessions, in one connection or in several at the
// same time.
func httpScenario(modern bool, conns int) scenario {
	s := scenario{name: fmt.Sprintf("HTTP echo, %d in flight", conns)}
	budget := []goal{{gosdk, 0.6}}
	if modern {
		s.name = fmt.Sprintf("HTTP echo 2026-07-28, %d in flight", conns)
		budget = []goal{{gosdk, 0.4}, {mcpgo, 1}}
		if conns > 1 {
			budget[0].bound = 0.2
		}
	}
	s.measures = []measure{
		{name: "CPU per call", unit: duration, goals: budget},
		{name: "calls per second", unit: number, rate: true},
	}
	for _, srv := range []*server{python, floor, earlier} {
		srv.cannot[s.name] = "is not measured over HTTP"
	}
	s.play = func(srv *server) []float64 {
		n, warm := some(5000), 500
		posts := posted(echoes(warm+n, modern, greeting), modern)
		srv.proc = run(srv.bin+"-http", nil, nil)
		p := srv.proc
		address, err := p.lines.ReadString('\n')
		p.must(err)
		clients := make([]*poster, conns)
		for i := range clients {
			conn, err := net.Dial("tcp", strings.TrimSpace(address))
			p.must(err)
			defer conn.Close()
			clients[i] = &poster{conn, bufio.NewReader(conn)}
		}
		p.post(clients, posts[:warm])
		began, calls := time.Now(), 0.0
		cpu := p.cost(func() { calls = float64(n * again(func() { p.post(clients, posts[warm:]) })) })
		return []float64{cpu / calls, calls / time.Since(began).Seconds()}
	}
	return s
}

// A posting is a request over HTTP, and the text that its response must contain.
type posting struct{ request, want []byte }

// posted returns the requests of a script.
func posted(s *script, modern bool) []posting {
	headers := "MCP-Protocol-Version: 2025-11-25\r\n"
	if modern {
		headers = "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: echo\r\n"
	}
	posts := make([]posting, len(s.sent))
	for i := range posts {
		line := bytes.TrimSuffix(s.lines[s.begin[i]:s.begin[i+1]], []byte("\n"))
		posts[i].request = fmt.Appendf(nil, "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"+
			"Accept: application/json, text/event-stream\r\n%sContent-Length: %d\r\n\r\n%s", headers, len(line), line)
		posts[i].want = s.want(nil, i+1)
	}
	return posts
}

// A poster is a client with one connection.
type poster struct {
	conn net.Conn
	r    *bufio.Reader
}

// post sends each request in one of the connections of the clients, and checks the responses.
func (p *proc) post(clients []*poster, posts []posting) {
	p.alarm.Reset(patience)
	var wg sync.WaitGroup
	wrong := make(chan error, len(clients))
	for i, c := range clients {
		wg.Go(func() {
			for j := i; j < len(posts); j += len(clients) {
				if err := c.post(posts[j]); err != nil {
					wrong <- err
					return
				}
			}
		})
	}
	wg.Wait()
	close(wrong)
	p.must(<-wrong)
}

func (c *poster) post(one posting) error {
	if _, err := c.conn.Write(one.request); err != nil {
		return err
	}
	res, err := http.ReadResponse(c.r, nil)
	if err != nil {
		return err
	}
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK || !bytes.Contains(body, one.want) || bytes.Contains(body, []byte(`"isError":true`)) {
		return fmt.Errorf("a wrong response: %s %.200s", res.Status, body)
	}
	return nil
}
