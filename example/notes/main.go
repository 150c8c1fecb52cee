// Notes keeps short notes, for people at the command line and for the models
// of MCP hosts. It shows how a program that exists becomes a server: store.go
// and main.go are the program, and mcp.go is what was added, with one line here.
//
//	notes add Buy milk and bread
//	notes search milk
//	claude mcp add notes -- /path/to/notes mcp
//
// To ship it there are manifest.json, for an MCPB bundle of the built program
// and that file, and Dockerfile. client_test.go is for your tests as well.
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

var errUsage = errors.New("usage: notes add TEXT... | list | search TEXT... | delete ID | mcp")

func main() {
	log.SetFlags(0)
	log.SetPrefix("notes: ")
	path := os.Getenv("NOTES_FILE")
	if path == "" {
		dir, err := os.UserConfigDir()
		if err != nil { // some hosts start programs with next to no environment
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
		return newServer(s).ServeStdio(context.Background())
	}
	return errUsage
}

// show prints what a function of the store has returned.
func show(out io.Writer, err error, notes ...note) error {
	for _, n := range notes {
		if err == nil {
			_, err = fmt.Fprintln(out, n.ID, n.Time.Format(time.DateOnly), n.Text)
		}
	}
	return err
}
