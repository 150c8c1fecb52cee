// SPDX-License-Identifier: MIT
// SPDX-FileCopyrightText: 2026 The mcp authors

// Notes keeps short notes, for people at the command line and for the models of MCP
// hosts. It shows how an existing program becomes a server: store.go and main.go are the
// program, and mcp.go and one line in main.go were added. With install.go, jsonc.go and three
// more lines, it adds itself to hosts.
//
//	notes add Buy milk and bread
//	notes search milk
//	notes mcp tools
//	notes mcp install claude
//
// To ship it, use manifest.json for an MCPB bundle with the built program, server.json
// for the registry, or Dockerfile. Copy client_test.go for your own tests.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"strings"
	"time"
)

var errUsage = errors.New("usage: notes add TEXT... | list | search TEXT... | delete ID | mcp [tools | hosts | install | uninstall]")

func main() {
	log.SetFlags(0)
	log.SetPrefix("notes: ")
	path := os.Getenv("NOTES_FILE")
	if path == "" {
		dir, err := os.UserConfigDir()
		if err != nil { // some hosts pass on few environment variables
			log.Fatal(err, ": set NOTES_FILE")
		}
		path = filepath.Join(dir, "notes", "notes.jsonl")
	}
	if err := run(store{path}, os.Stdout, os.Args[1:]...); err != nil {
		log.Fatal(err)
	}
}

func run(s store, out io.Writer, args ...string) error {
	if len(args) == 0 {
		return errUsage
	}
	text := strings.Join(args[1:], " ")
	switch args[0] {
	case "add":
		n, err := s.add(text)
		return show(out, err, n)
	case "list":
		notes, err := s.all()
		return show(out, err, notes...)
	case "search":
		notes, err := s.search(text)
		return show(out, err, notes...)
	case "delete":
		return s.delete(text)
	case "mcp":
		switch {
		case len(args) == 1:
			return newServer(s).ServeStdio(context.Background())
		case args[1] == "tools":
			return printTools(out, newServer(s), args[2:]...)
		}
		return manageHosts(os.Stdin, out, args[1:]...)
	}
	return errUsage
}

// show prints the result of a function of the store.
func show(out io.Writer, err error, notes ...note) error {
	for _, n := range notes {
		if err == nil {
			_, err = fmt.Fprintln(out, n.ID, n.Time.Format(time.DateOnly), n.Text)
		}
	}
	return err
}
