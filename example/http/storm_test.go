// SPDX-License-Identifier: MIT
// SPDX-FileCopyrightText: 2026 The mcp authors

package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"example.com/mcp"
)

// 200 clients call, cancel, disconnect and reconnect at random. Each request gets exactly one response,
// or its client has cancelled it; each handler returns; nothing is left after Close. It runs for a
// second, or for as long as MCP_TEST_STORM says, such as 1m.
func TestStorm(t *testing.T) {
	const clients = 200
	lasts := time.Second
	if text := os.Getenv("MCP_TEST_STORM"); text != "" {
		var err error
		if lasts, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
	}
	var runs, running, responses, cancels atomic.Int64
	called := new(sync.Map) // the text of each call that has reached its handler
	s := &mcp.Server{Name: "storm", Version: "1", ErrorLog: log.New(io.Discard, "", 0)}
	type args struct {
		Text  string `json:"text"`
		Micro int    `json:"micro"`
		Steps int    `json:"steps"`
	}
	mcp.AddTool(s, mcp.Tool{Name: "work"}, func(ctx context.Context, in args) (string, error) {
		runs.Add(1)
		running.Add(1)
		defer running.Add(-1)
		if _, again := called.LoadOrStore(in.Text, true); again {
			t.Errorf("%s ran twice", in.Text)
		}
		for i := range in.Steps {
			mcp.Progress(ctx, float64(i), float64(in.Steps), in.Text)
		}
		select {
		case <-time.After(time.Duration(in.Micro) * time.Microsecond):
			return in.Text, nil
		case <-ctx.Done():
			return "", ctx.Err()
		}
	})
	h := NewHandler(s.Serve)
	h.MaxRequests = 2 * clients
	server := httptest.NewServer(h)

	// request sends one request, perhaps cancels it, and checks the response.
	request := func(client *http.Client, rng *rand.Rand, text string) {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		if rng.IntN(3) == 0 {
			defer time.AfterFunc(time.Duration(rng.IntN(3000))*time.Microsecond, cancel).Stop()
		}
		method, name, params := "tools/call", "work", fmt.Sprintf(`"name":"work","arguments":{"text":%q,"micro":%d,"steps":%d}`, text, rng.IntN(3000), rng.IntN(4))
		listens := rng.IntN(10) == 0
		if listens { // until it cancels
			method, name, params = "subscriptions/listen", "", `"notifications":{"toolsListChanged":true}`
			defer time.AfterFunc(time.Duration(rng.IntN(5000))*time.Microsecond, cancel).Stop()
		}
		modern := listens || rng.IntN(2) == 0
		about := `"_meta":{"progressToken":1}`
		if modern {
			about = meta
		}
		r, _ := http.NewRequestWithContext(ctx, "POST", server.URL, strings.NewReader(fmt.Sprintf(`{"jsonrpc":"2.0","id":%q,"method":%q,"params":{%s,%s}}`, text, method, params, about)))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("MCP-Protocol-Version", "2025-11-25")
		if modern {
			r.Header.Set("MCP-Protocol-Version", "2026-07-28")
			r.Header.Set("Mcp-Method", method)
		}
		if modern && name != "" {
			r.Header.Set("Mcp-Name", name)
		}
		res, err := client.Do(r)
		if ctx.Err() != nil {
			cancels.Add(1)
			if err == nil {
				res.Body.Close()
			}
			return
		}
		if err != nil {
			t.Errorf("%s: %v", text, err)
			return
		}
		defer res.Body.Close()
		got, lines := 0, bufio.NewScanner(res.Body)
		for lines.Scan() {
			if line := lines.Text(); strings.Contains(line, fmt.Sprintf(`"id":%q,"result":`, text)) && strings.Contains(line, fmt.Sprintf(`"text":%q`, text)) {
				got++
			} else if strings.Contains(line, `"result":`) || strings.Contains(line, `"error":`) {
				t.Errorf("%s: %s", text, line)
			}
		}
		switch {
		case ctx.Err() != nil:
			cancels.Add(1)
		case got == 1 && res.StatusCode == 200 && lines.Err() == nil:
			responses.Add(1)
		default:
			t.Errorf("%s: %d responses, status %d, %v", text, got, res.StatusCode, lines.Err())
		}
	}

	var wg sync.WaitGroup
	until := time.Now().Add(lasts)
	for i := range clients {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(i), 1))
			for n := 0; time.Now().Before(until); {
				client := &http.Client{Transport: &http.Transport{}} // a connection of its own
				for range 1 + rng.IntN(20) {
					request(client, rng, fmt.Sprintf("c%d-%d", i, n))
					n++
				}
				client.CloseIdleConnections()
			}
		})
	}
	wg.Wait()
	h.Close()
	server.Config.Shutdown(t.Context())
	server.Close()
	t.Logf("%d responses, %d cancelled, %d handlers ran", responses.Load(), cancels.Load(), runs.Load())
	if responses.Load() < clients || cancels.Load() < clients/2 {
		t.Error("too few")
	}
	if running.Load() != 0 || h.requests.Load() != 0 {
		t.Errorf("%d handlers and %d requests are left", running.Load(), h.requests.Load())
	}
	// The goroutines of the sessions have ended, or end in a moment.
	for deadline := time.Now().Add(5 * time.Second); ; runtime.Gosched() {
		stacks := make([]byte, 4<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		left := strings.Count(string(stacks), "mcp.(*session)") + strings.Count(string(stacks), "main.(*exchange)") + strings.Count(string(stacks), "main.(*Handler)")
		if left == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d goroutines are left:\n%s", left, stacks)
		}
	}
}
