// Measures checks the share of comments in Go files, the lines that are too wide, and the names of
// functions and methods: no two of them share a name, except the methods of an interface, such as
// String. The exit status is 1 if a limit is exceeded.
//
//	go run -C .ci/measures . ../../mcp.go ../../session.go ../../cancel.go
//
// A code line has at least one token; a comment line has only a comment. Blank lines are neither.
package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"log"
	"maps"
	"os"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	minComments = 1.0 / 5 // of all lines that are not blank
	maxComments = 1.0 / 3
	wide        = 140 // characters, without the newline; a tab is one character
	maxWide     = 23  // code lines that are wider
)

// measures are the sums over all files.
type measures struct {
	names                     map[string]int // of functions and methods
	code, comments, wideLines int
}

func main() {
	log.SetFlags(0)
	m := measures{names: make(map[string]int)}
	for _, name := range os.Args[1:] {
		src, err := os.ReadFile(name)
		if err == nil {
			err = m.add(name, src)
		}
		if err != nil {
			log.Fatal(err)
		}
	}
	if len(m.names) == 0 {
		log.Fatal("there are no functions")
	}
	if !m.report() {
		os.Exit(1)
	}
}

// add measures one file.
func (m *measures) add(name string, src []byte) error {
	file, err := parser.ParseFile(token.NewFileSet(), name, src, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	lines := strings.SplitAfter(string(src), "\n")
	isCode, isComment := kinds(src, len(lines))
	for i, line := range lines {
		switch {
		case isCode[i]:
			m.code++
			if utf8.RuneCountInString(strings.TrimSuffix(line, "\n")) > wide {
				m.wideLines++
			}
		case isComment[i]:
			m.comments++
		}
	}
	for _, d := range file.Decls {
		// The name of an exported method is often that of an interface.
		if f, ok := d.(*ast.FuncDecl); ok && (f.Recv == nil || !f.Name.IsExported()) {
			m.names[f.Name.Name]++
		}
	}
	return nil
}

// kinds reports for each of the n lines whether it has a token, and whether it has a
// comment. Blank lines inside of tokens and comments have neither.
func kinds(src []byte, n int) (isCode, isComment []bool) {
	isCode, isComment = make([]bool, n), make([]bool, n)
	file := token.NewFileSet().AddFile("", -1, len(src))
	var s scanner.Scanner
	s.Init(file, src, nil, scanner.ScanComments)
	for {
		pos, tok, text := s.Scan()
		if tok == token.EOF {
			return isCode, isComment
		}
		if tok == token.SEMICOLON && text != ";" { // inserted at the end of a line
			continue
		}
		if text == "" {
			text = tok.String()
		}
		kind := isCode
		if tok == token.COMMENT {
			kind = isComment
		}
		for i, part := range strings.Split(text, "\n") {
			if strings.TrimSpace(part) != "" {
				kind[file.Line(pos)-1+i] = true
			}
		}
	}
}

// report prints the measures and their limits, and reports whether all limits hold.
func (m *measures) report() bool {
	share := float64(m.comments) / float64(m.code+m.comments)
	ok := true
	check := func(holds bool, format string, args ...any) {
		if !holds {
			ok = false
			format += ": BROKEN"
		}
		fmt.Printf(format+"\n", args...)
	}
	check(minComments <= share && share <= maxComments, "comments: %d of %d lines, %.1f %%, a fifth to a third",
		m.comments, m.code+m.comments, 100*share)
	check(m.wideLines <= maxWide, "code lines above %d characters: %d, at most %d", wide, m.wideLines, maxWide)
	var twice []string
	for _, name := range slices.Sorted(maps.Keys(m.names)) {
		if m.names[name] > 1 {
			twice = append(twice, name)
		}
	}
	check(len(twice) == 0, "names of two functions or methods: %s", strings.Join(append(twice, "none")[:max(1, len(twice))], ", "))
	return ok
}
