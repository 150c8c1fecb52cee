// SPDX-License-Identifier: MIT
// SPDX-FileCopyrightText: 2026 The mcp authors

// Http is a server that clients reach over HTTP:
//
//	go run ./example/http
//	claude mcp add --transport http files http://127.0.0.1:8080/mcp
//
// It has no authentication, so it listens on the loopback interface only. Before you change that,
// put TLS and authentication in front of the Handler, and set Handler.Hosts.
package main

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"example.com/mcp"
)

type greetIn struct {
	Name string `json:"name" jsonschema:"whom to greet"`
}

func greet(ctx context.Context, in greetIn) (string, error) {
	err := mcp.Confirm(ctx, "May I greet "+in.Name+"?")
	if errors.Is(err, errors.ErrUnsupported) { // such as all clients of older revisions
		return "Hello, " + in.Name + ", unasked!", nil
	}
	if err != nil {
		return "", err
	}
	return "Hello, " + in.Name + "!", nil
}

// newServer returns the server. If key is not empty, all processes with this key can serve the
// same clients.
func newServer(key string) *mcp.Server {
	s := &mcp.Server{Name: "greeter", Version: "1.0.0"}
	if key != "" {
		s.Checksum = func(data []byte) string {
			mac := hmac.New(sha256.New, []byte(key))
			mac.Write(data)
			return string(mac.Sum(nil))
		}
	}
	mcp.AddTool(s, mcp.Tool{Name: "greet", Description: "Greets a person."}, greet)
	return s
}

func main() {
	address := flag.String("http", "127.0.0.1:8080", "the address to listen on")
	flag.Parse()
	listener, err := net.Listen("tcp", *address)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("http://%s/mcp\n", listener.Addr())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := serve(ctx, listener, newServer(os.Getenv("MCP_KEY"))); err != nil {
		log.Fatal(err)
	}
}

// serve serves HTTP until ctx ends. It then cancels all requests, and returns when the last
// responses were sent, or after five seconds.
func serve(ctx context.Context, listener net.Listener, s *mcp.Server) error {
	handler := NewHandler(s.Serve)
	mux := http.NewServeMux()
	mux.Handle("/mcp", handler)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	handler.Close()
	limit, stop := context.WithTimeout(context.Background(), 5*time.Second)
	defer stop()
	if server.Shutdown(limit) != nil { // a client does not read its response
		server.Close()
	}
	return nil
}
