// Measures prints the lengths of functions and lines and the share of comments in Go
// files. The exit status is 1 if a limit is exceeded. The limits make sure that the
// library does not keep to its number of code lines by being dense.
//
//	go run -C .ci/measures . ../../mcp.go ../../session.go ../../cancel.go
//
// A code line has at least one token; a comment line has only a comment. Blank lines
// are neither. The length of a function is the number of code lines from "func" to the
// closing brace of its declaration. Function literals count as part of it. Of two
// functions in the middle, the longer is the median. So counted, 3.0.0 has 394
// functions, with a median of 10 lines and a ninetieth percentile of 25.
package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"log"
	"os"
	"slices"
	"strings"
	"unicode/utf8"
)

// The limits. Those of bytes and of wide lines are the figures of 3.0.0.
const (
	maxMedian   = 10
	maxP90      = 30
	minComments = 1.0 / 5 // of all lines that are not blank
	maxComments = 1.0 / 3
	maxBytes    = 33.2 // of a code line, with its indentation and its newline; a tab is one byte
	wide        = 140  // characters, without the newline; a tab is one character
	maxWide     = 23
)

// measures are the sums over all files.
type measures struct {
	functions        []int // their lengths
	code, comments   int   // lines
	bytes, wideLines int   // of code lines
}

func main() {
	log.SetFlags(0)
	var m measures
	for _, name := range os.Args[1:] {
		src, err := os.ReadFile(name)
		if err == nil {
			err = m.add(name, src)
		}
		if err != nil {
			log.Fatal(err)
		}
	}
	if len(m.functions) == 0 {
		log.Fatal("there are no functions")
	}
	if !m.report() {
		os.Exit(1)
	}
}

// add measures one file.
func (m *measures) add(name string, src []byte) error {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, src, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	lines := strings.SplitAfter(string(src), "\n")
	isCode, isComment := kinds(src, len(lines))
	for i, line := range lines {
		switch {
		case isCode[i]:
			m.code++
			m.bytes += len(line)
			if utf8.RuneCountInString(strings.TrimSuffix(line, "\n")) > wide {
				m.wideLines++
			}
		case isComment[i]:
			m.comments++
		}
	}
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Body != nil {
			length := 0
			for i := fset.Position(f.Pos()).Line; i <= fset.Position(f.End()).Line; i++ {
				if isCode[i-1] {
					length++
				}
			}
			m.functions = append(m.functions, length)
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
	slices.Sort(m.functions)
	n := len(m.functions)
	median, p90 := m.functions[n/2], m.functions[n*9/10]
	share := float64(m.comments) / float64(m.code+m.comments)
	bytes := float64(m.bytes) / float64(m.code)
	ok := true
	check := func(holds bool, format string, args ...any) {
		if !holds {
			ok = false
			format += ": BROKEN"
		}
		fmt.Printf(format+"\n", args...)
	}
	check(median <= maxMedian, "%d functions: their median has %d lines, at most %d", n, median, maxMedian)
	check(p90 <= maxP90, "ninetieth percentile: %d lines, at most %d", p90, maxP90)
	check(minComments <= share && share <= maxComments, "comments: %d of %d lines, %.1f %%, a fifth to a third",
		m.comments, m.code+m.comments, 100*share)
	check(bytes <= maxBytes, "bytes of a code line: %.2f (%d lines), at most %.1f", bytes, m.code, maxBytes)
	check(m.wideLines <= maxWide, "code lines above %d characters: %d, at most %d", wide, m.wideLines, maxWide)
	return ok
}
