// SPDX-License-Identifier: MIT
// SPDX-FileCopyrightText: 2026 The mcp authors

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

var (
	cursor = host{name: "cursor", key: "mcpServers", entry: plain, files: "$HOME/.cursor/mcp.json"}
	ours   = []string{"/opt/notes", "mcp"}
)

// Every file that is valid gets the entry, in one piece, and keeps all of its bytes. A second
// install changes nothing, and uninstall restores the file. Read by a parser that shares nothing
// with the program, the file has the same data as before, and the entry.
func TestInstallFiles(t *testing.T) {
	files := validFiles()
	if len(files) < 200 {
		t.Errorf("there are only %d files", len(files))
	}
	for i, name := range slices.Sorted(maps.Keys(files)) {
		text := files[name]
		if runtime.GOOS == "windows" && i%8 > 0 {
			continue // Wine is slow
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel() // they wait for the disk
			path := filepath.Join(t.TempDir(), "mcp.json")
			if err := os.WriteFile(path, []byte(text), 0o640); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if err := installInto(path, ours); err != nil {
					t.Errorf("install: %v\n%.1000s", err, text)
				}
				got := readFile(t, path)
				if !isInsertion(text, got) {
					t.Errorf("bytes have changed\n%.1000s\n%.1000s", text, got)
				}
				if n := strings.Count(text, "\r\n"); n > 0 && n == strings.Count(text, "\n") && strings.Contains(text, "{") && strings.Count(got, "\r\n") < strings.Count(got, "\n") {
					t.Errorf("the ends of lines differ\n%.1000q", got)
				}
				before, _ := parseTolerant(text)
				after, err := parseTolerant(got)
				if err != nil {
					t.Errorf("%v\n%.1000s", err, got)
				}
				wantEntry(t, before, after)
			}
			if err := uninstallFrom(path, ours); err != nil {
				t.Errorf("uninstall: %v", err)
			}
			if strings.Trim(text, "\ufeff \t\r\n") == "" { // the host reads nothing as it reads no file
				if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("the file is still there: %v", err)
				}
				return
			}
			if got := readFile(t, path); got != text {
				t.Errorf("uninstall left\n%.1000q, before it was\n%.1000q", got, text)
			}
			if info, err := os.Stat(path); err != nil || runtime.GOOS != "windows" && info.Mode() != 0o640 {
				t.Errorf("the mode is now %v, %v", info, err)
			}
			if entries, _ := os.ReadDir(filepath.Dir(path)); len(entries) != 1 {
				t.Errorf("the directory has %v", entries)
			}
		})
	}
}

// validFiles returns files with every combination of a shape and a style.
func validFiles() map[string]string {
	files := map[string]string{
		"empty":             "",
		"a line end":        "\n",
		"a byte order mark": "\ufeff",
		"space":             " \r\n\t",
		"an empty object":   "{}",
		"a gap":             "{\n}\n",
		"a comment alone":   "{ // no servers yet\n}",
		"a comment after":   "{} // the end",
		"no space":          `{"a":1,"mcpServers":{"b":{"command":"b"}},"c":[{},[],""]}`,
		"escapes":           `{"mcp\u0053ervers": {"\"//\\": {"command": "/* \" */,}"}}, "n\u006ftes": "notes"}`,
		"nested names":      `{"a": {"mcpServers": {"notes": 1}}, "b": [{"notes": {}}]}`,
		"carriage returns":  "{ // a comment\r\"a\": 1 // another\r}",
		"huge":              `{"history": ["` + strings.Repeat(`/* no comment */ \" // \\ `, 20_000) + `"], /* ` + strings.Repeat("x", 500_000) + " */ }",
		"many servers":      `{"mcpServers": {` + strings.Repeat(`"x`+strings.Repeat("y", 10)+`": {"command": "z"}, // same name`+"\n", 2_000) + `}}`,
		"long numbers":      `{"a": 12345678901234567890.000, "b": 1E400, "c": -0}`,
		"many levels":       `{"a": ` + strings.Repeat(`[{"b": `, 2_000) + "1" + strings.Repeat("}]", 2_000) + "}",
	}
	shapes := map[string]string{ // # is a comment, ~ a gap, ^ a trailing comma
		"other members":    `{~"theme":"dark",#~"list":[1, 2^~]#^}`,
		"no servers":       `{#~"mcpServers":{}^~}`,
		"a gap":            `{~"a":0,~"mcpServers":{~}^#~}`,
		"one server":       `{~"mcpServers":{#~"a":{"command":"x"}^#~}^~}`,
		"two servers":      `{~"mcpServers":{~"a":{"command":"x", "args":["//", "/*", ",]"^]},#~"b":{~"url":"http://localhost"~}#^~},~"z":null^~}#`,
		"after":            `#{~"notes":{"command":"no"},~"mcpServers":{~"a":{}^~}~}`,
		"a similar server": `{~"mcpServers":{~"notes2":{~},~"Notes":{~}^~}~}`,
	}
	for shape, text := range shapes {
		for _, comment := range []string{"", "/* it's \"here\", } */", "// don't, {\n"} {
			for _, gap := range []string{"", "\n  ", "\n\t"} {
				for _, comma := range []string{"", ","} {
					for _, newline := range []string{"\n", "\r\n"} {
						for _, mark := range []string{"", "\ufeff"} {
							s := mark + strings.NewReplacer("#", comment, "~", gap, "^", comma).Replace(text)
							files[fmt.Sprintf("%s, %q %q %q %q %q", shape, comment, gap, comma, newline, mark)] = strings.ReplaceAll(s, "\n", newline)
						}
					}
				}
			}
		}
	}
	return files
}

// An entry that a host or a person has written, at any place, is removed or replaced alone.
func TestInstallOthersEntry(t *testing.T) {
	entry := `"notes" : {"type": "stdio", "command": "/old/notes", "args": ["mcp", ], "env": {}}`
	for _, text := range []string{
		`{"mcpServers":{E}}`,
		`{"mcpServers":{E,}, "a": 1}`,
		"{\n  \"mcpServers\": {\n    E\n  }\n}\n",
		"// servers\n{\n  \"mcpServers\": {\n    E\n  }\n}\n",
		"{\n  \"a\": 1,\n  \"mcpServers\": {\n    \"b\": {},\n    E\n  }\n}\n",
		"{\n  \"mcpServers\": {\n    \"b\": {}, // b\n    // notes\n    E // here\n  }\n}\n",
		"{\r\n\t\"mcpServers\": {\r\n\t\tE,\r\n\t\t\"b\": {}\r\n\t}\r\n}\r\n",
		"{\"mcpServers\": {\"a\": {}, /* 1 */ E /* 2 */, /* 3 */ \"b\": {}}}",
		"{\"mcpServers\": {\"a\": {}, // 1\n E, \"b\": {}}}",
		"{\"mcpServers\": {\"a\": {}, // 1\n E, // 2\n \"b\": {}}}",
		"{\"mcpServers\": {\"a\": {},\n E,\n}}",
		"{\"mcpServers\": {\"a\": {} // 1\n, E // 2\n, \"b\": {}}}",
		"{\"mcpServers\": { // 1\n E // 2\n }}",
		"{\"mcpServers\": { // 1\n E}}",
		"{\"mcpServers\": { // 1\n E,}}",
		"{\"mcpServers\": {\"a\": {}, // 1\n E}}",
		"{\"mcpServers\": {\"a\": {}, // 1\n E,}}",
		"{\"mcpServers\": {\"a\": {}, E // 1\n}}",
		"{ // 1\n\"mcpServers\": {\n E\n}}",
		"{\"a\": 1, // 1\n\"mcpServers\": {\n  E\n}}",
		"{\"mcpServers\": // 1\n{\n  E\n}}",
		"{\"a\": 1, \"mcpServers\" /* 1 */ : /* 2 */ {\n  E\n}\n}\n",
	} {
		text := strings.Replace(text, "E", entry, 1)
		path := filepath.Join(t.TempDir(), "mcp.json")
		os.WriteFile(path, []byte(text), 0o600)

		if err := installInto(path, ours); !strings.Contains(fmt.Sprint(err), `"notes" has another command: use --force`) || readFile(t, path) != text {
			t.Errorf("installed: %v\n%s", err, text)
		}
		if err := uninstallFrom(path, ours); !strings.Contains(fmt.Sprint(err), `"notes" has another command: use --force`) || readFile(t, path) != text {
			t.Errorf("uninstalled: %v\n%s", err, text)
		}
		p := &installer{command: ours, force: true}
		if err := editFile(path, func(d *document) ([]byte, error) { return p.edit(cursor, d) }); err != nil {
			t.Errorf("%v\n%s", err, text)
		}
		replaced := strings.Replace(text, entry[strings.Index(entry, "{"):], `{"command": "/opt/notes", "args": ["mcp"]}`, 1)
		want(t, readFile(t, path), replaced)

		os.WriteFile(path, []byte(text), 0o600)
		if err := uninstallFrom(path, []string{"/old/notes", "mcp"}); err != nil {
			t.Errorf("%v\n%s", err, text)
			continue
		}
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			continue // it held nothing else
		}
		got := readFile(t, path)
		before, _ := parseTolerant(text)
		after, err := parseTolerant(got)
		if servers, ok := before["mcpServers"].(map[string]any); ok {
			delete(servers, "notes")
		}
		if servers, ok := after["mcpServers"].(map[string]any); !ok || len(servers) == 0 {
			delete(before, "mcpServers")
			delete(after, "mcpServers")
		}
		if err != nil || !reflect.DeepEqual(before, after) || !strings.Contains(got, "{") {
			t.Errorf("uninstalled: %v\n%s\n%s", err, text, got)
		}
		for _, comment := range []string{"// 1", "/* 1 */", "// 2", "/* 2 */", "/* 3 */", "// b", "// notes", "// here", "// servers"} {
			if strings.Contains(text, comment) && !strings.Contains(got, comment) {
				t.Errorf("%s is lost\n%s\n%s", comment, text, got)
			}
		}
	}
}

// A file that cannot be edited is not changed, and the error names it, and the line.
func TestInstallRefused(t *testing.T) {
	for _, test := range []struct{ text, err string }{
		{"{", "1: unexpected end of JSON input"},
		{"{\n  \"a\": 1\n  \"b\": 2\n}", "3: invalid character '\"' after object key:value pair"},
		{"{\n\n\"a\": }", "3: invalid character '}' looking for beginning of value"},
		{"{}\n{}", "2: invalid character '{' after top-level value"},
		{"{\"a\": 1}}", "1: invalid character '}' after top-level value"},
		{"{,}", "1: invalid character ','"},
		{"{\n\"a\": [1,,]\n}", "2: invalid character ','"},
		{"{\"a\": [,]}", "1: invalid character ','"},
		{"{\"a\":,}", "1: invalid character"},
		{"{'a': 1}", "1: invalid character '\\''"},
		{"{a: 1}", "1: invalid character 'a'"},
		{"{\n\"a\": 0x10}", "2: invalid character 'x'"},
		{"{\"a\": NaN}", "1: invalid character 'N'"},
		{"{\"a\": \"1\n2\"}", "1: invalid character '\\n' in string"},
		{"{\"a\": \"1}", "1: "},
		{"{} /* never closed", "1: invalid character '/'"},
		{"{} /", "1: invalid character '/'"},
		{"{\n# a comment\n}", "2: invalid character '#'"},
		{"// only a comment\n", ":"},
		{"\n[]\n", "2: this must be an object"},
		{"null", "1: this must be an object"},
		{"\"{}\"", "1: this must be an object"},
		{"{\n\"mcpServers\": []}", "2: this must be an object"},
		{"{\n\"mcpServers\": null}", "2: this must be an object"},
		{"{\"mcpServers\": \"{}\"}", "1: this must be an object"},
		{"{\"mcpServers\": {},\n\n\"mcpServers\": {}}", "3: \"mcpServers\" is in this object twice"},
		{"{\"mcpServers\": {},\n\"mcpServer\\u0073\": {}}", "2: \"mcpServers\" is in this object twice"},
		{"{\"mcpServers\": {\n\"notes\": {},\n\"notes\": {\"command\": \"/opt/notes\", \"args\": [\"mcp\"]}}}", "3: \"notes\" is in this object twice"},
		{"{\n\"mcpServers\": {\"notes\": {\"command\": \"/opt/notes\"}}}", "2: \"notes\" has another command"},
		{"{\"mcpServers\": {\"notes\": {\"command\": \"/opt/notes\", \"args\": [\"mcp\", \"x\"]}}}", "1: \"notes\" has another command"},
		{"{\"mcpServers\": {\n\n\"notes\": {\"url\": \"http://localhost\"}}}", "3: \"notes\" has another command"},
		{"{\"mcpServers\": {\"notes\": null}}", "1: \"notes\" has another command"},
		{"{\"mcpServers\": {\"notes\": [1]}}", "1: \"notes\" has another command"},
		{"{\n\"a\": \"caf\xe9\"}", "2: the text is not UTF-8"},
		{"{} // caf\xe9", "1: the text is not UTF-8"},
		{"\xff\xfe{\x00}\x00", "1: the text is not UTF-8"},
		{"{\x00}", "1: invalid character '\\x00'"},
		{"{\"a\": 1}\x1a", "1: invalid character '\\x1a'"},
		{"\ufeff\ufeff{}", "1: invalid character"},
		{strings.Repeat("[", 20_000), "1: "},
		{"<<<<<<< HEAD\n{}\n=======\n{}\n>>>>>>> main\n", "1: invalid character '<'"},
	} {
		path := filepath.Join(t.TempDir(), "mcp.json")
		os.WriteFile(path, []byte(test.text), 0o600)
		err := installInto(path, ours)
		if err == nil || !strings.HasPrefix(err.Error(), path+":") || !strings.Contains(err.Error(), test.err) {
			t.Errorf("%.80q: %v; want %s", test.text, err, test.err)
		}
		if got := readFile(t, path); got != test.text {
			t.Errorf("%.80q: changed to %.80q", test.text, got)
		}
	}
}

// Files that are special to the system.
func TestInstallSpecialFiles(t *testing.T) {
	const text = `{"mcpServers": {}}`
	file := func(t *testing.T, name string) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	t.Run("missing", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "a/b/mcp.json")
		if err := errors.Join(installInto(path, ours), installInto(path, ours)); err != nil {
			t.Error(err)
		}
		want(t, readFile(t, path), "{\n  \"mcpServers\": {\n    \"notes\": {\"command\": \"/opt/notes\", \"args\": [\"mcp\"]}\n  }\n}\n")
		if info, _ := os.Stat(path); runtime.GOOS != "windows" && info.Mode() != 0o600 {
			t.Errorf("the mode is %v", info.Mode())
		}
		if err := uninstallFrom(path, ours); err != nil {
			t.Error(err)
		}
		if err := uninstallFrom(path, ours); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the file is still there: %v", err)
		}
	})
	t.Run("read-only", func(t *testing.T) {
		path := file(t, "mcp.json")
		os.Chmod(path, 0o400)
		wantRefused(t, path, text, "is read-only")
		os.Chmod(path, 0o600)
	})
	t.Run("read-only directory", func(t *testing.T) {
		if runtime.GOOS == "windows" || os.Geteuid() == 0 {
			t.Skip("the mode of a directory does not bind here")
		}
		path := file(t, "mcp.json")
		os.Chmod(filepath.Dir(path), 0o500)
		wantRefused(t, path, text, "permission denied")
		os.Chmod(filepath.Dir(path), 0o700)
	})
	t.Run("directory", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "mcp.json")
		os.Mkdir(path, 0o700)
		if err := installInto(path, ours); !strings.Contains(fmt.Sprint(err), path+" is not a regular file") {
			t.Error(err)
		}
	})
	t.Run("socket", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "s")
		socket, err := net.Listen("unix", path)
		if err != nil {
			t.Skip(err)
		}
		defer socket.Close()
		if err := installInto(path, ours); err == nil || runtime.GOOS != "windows" && !strings.Contains(err.Error(), path+" is not a regular file") {
			t.Error(err)
		}
	})
	t.Run("hard links", func(t *testing.T) {
		if runtime.GOOS == "windows" {
			t.Skip("hard links are not detected")
		}
		path := file(t, "mcp.json")
		if err := os.Link(path, path+"2"); err != nil {
			t.Skip(err)
		}
		wantRefused(t, path, text, "has 2 hard links")
	})
	t.Run("symbolic links", func(t *testing.T) {
		target := file(t, "dotfiles.json")
		link := filepath.Join(t.TempDir(), "mcp.json")
		if err := errors.Join(os.Symlink(target, link+"2"), os.Symlink(filepath.Base(link)+"2", link)); err != nil {
			t.Skip(err)
		}
		if info, err := os.Lstat(link); err != nil || info.Mode()&fs.ModeSymlink == 0 {
			t.Skip("Wine shows a link as the file to which it leads")
		}
		if err := installInto(link, ours); err != nil {
			t.Error(err)
		}
		want(t, readFile(t, target), `{"mcpServers": {"notes": {"command": "/opt/notes", "args": ["mcp"]}}}`)
		if err := uninstallFrom(link, ours); err != nil {
			t.Error(err)
		}
		want(t, readFile(t, target), text)
		if info, err := os.Lstat(link); err != nil || info.Mode()&fs.ModeSymlink == 0 {
			t.Errorf("the link was replaced: %v, %v", info, err)
		}
		os.Remove(target)
		if err := installInto(link, ours); !errors.Is(err, fs.ErrNotExist) || !strings.HasPrefix(err.Error(), link+": ") {
			t.Errorf("a link to nothing: %v", err)
		}
		os.Symlink(link, target)
		if err := installInto(link, ours); !strings.HasPrefix(fmt.Sprint(err), link+": ") {
			t.Errorf("a link to itself: %v", err)
		}
	})
	t.Run("mode", func(t *testing.T) {
		if runtime.GOOS == "windows" {
			t.Skip("needs modes")
		}
		for _, mode := range []fs.FileMode{0o600, 0o644, 0o666, 0o777, 0o200 | 0o444} {
			path := file(t, "mcp.json")
			os.Chmod(path, mode)
			if err := installInto(path, ours); err != nil {
				t.Error(err)
			}
			if info, _ := os.Stat(path); info.Mode() != mode {
				t.Errorf("the mode is %v, was %v", info.Mode(), mode)
			}
		}
	})
}

// The change of another program, made between reading and replacing, is not lost.
func TestInstallChangedMeanwhile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mcp.json")
	p := &installer{command: ours}
	for _, test := range []struct{ before, meanwhile, want string }{
		{`{"a": 1}`, `{"a": 2}`, `{"mcpServers": {` + "\n" + `  "notes": {"command": "/opt/notes", "args": ["mcp"]}` + "\n" + `}, "a": 2}`},
		{`{"mcpServers": {}}`, `{"mcpServers": {"b": {}}}`, `{"mcpServers": {"notes": {"command": "/opt/notes", "args": ["mcp"]}, "b": {}}}`},
		{"", `{"mcpServers": {}}`, `{"mcpServers": {"notes": {"command": "/opt/notes", "args": ["mcp"]}}}`},
	} {
		os.Remove(path)
		if test.before != "" {
			os.WriteFile(path, []byte(test.before), 0o600)
		}
		calls := 0
		err := editFile(path, func(d *document) ([]byte, error) {
			text, err := p.edit(cursor, d)
			if calls++; calls == 1 {
				err = errors.Join(err, os.WriteFile(path, []byte(test.meanwhile), 0o600))
			}
			return text, err
		})
		if err != nil || calls != 2 {
			t.Errorf("%d calls, %v", calls, err)
		}
		want(t, readFile(t, path), test.want)
		if entries, _ := os.ReadDir(filepath.Dir(path)); len(entries) != 1 {
			t.Errorf("the directory has %v", entries)
		}
	}

	// A program that writes in place empties the file first. It does so twice.
	os.WriteFile(path, nil, 0o600)
	calls, written := 0, make(chan error, 2)
	err := editFile(path, func(d *document) ([]byte, error) {
		switch calls++; calls {
		case 1:
			time.AfterFunc(20*time.Millisecond, func() {
				written <- errors.Join(os.WriteFile(path, []byte(`{"a": 3}`), 0o600), os.WriteFile(path, nil, 0o600))
			})
		case 2:
			time.AfterFunc(20*time.Millisecond, func() { written <- os.WriteFile(path, []byte(`{"a": 4}`), 0o600) })
		}
		return p.edit(cursor, d)
	})
	if err != nil || calls != 3 {
		t.Fatalf("%d calls, %v", calls, err)
	}
	if err := errors.Join(<-written, <-written); err != nil {
		t.Error(err)
	}
	want(t, readFile(t, path), `{"mcpServers": {`+"\n"+`  "notes": {"command": "/opt/notes", "args": ["mcp"]}`+"\n"+`}, "a": 4}`)

	// A text that is not valid is not written.
	os.WriteFile(path, []byte("{}"), 0o600)
	if err := editFile(path, func(*document) ([]byte, error) { return []byte("{\n}}"), nil }); !strings.Contains(fmt.Sprint(err), path+":2: invalid character '}'") {
		t.Error(err)
	}
	want(t, readFile(t, path), "{}")

	// The file became invalid meanwhile, or changes without end.
	for _, test := range []struct {
		change func(i int) error
		left   string
		err    string
	}{
		{func(int) error { return os.WriteFile(path, []byte("{"), 0o600) }, "{", path + ":1: unexpected end of JSON input"},
		{func(i int) error { return os.WriteFile(path, fmt.Appendf(nil, `{"i": %d}`, i), 0o600) }, `{"i": 10}`, "again and again"},
	} {
		os.WriteFile(path, []byte("{}"), 0o600)
		calls := 0
		err := editFile(path, func(d *document) ([]byte, error) {
			text, err := p.edit(cursor, d)
			calls++
			return text, errors.Join(err, test.change(calls))
		})
		if !strings.Contains(fmt.Sprint(err), test.err) {
			t.Errorf("%v; want %s", err, test.err)
		}
		want(t, readFile(t, path), test.left)
	}
}

// While another program replaces the file again and again, and a third one reads it, each
// reading is a whole file.
func TestInstallReadMeanwhile(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows does not replace a file that is open")
	}
	path := filepath.Join(t.TempDir(), "mcp.json")
	write := func(i int) {
		os.WriteFile(path+".other", fmt.Appendf(nil, "{\"i\": %d, \"mcpServers\": {\"b\": {}}}", i), 0o600)
		os.Rename(path+".other", path)
	}
	write(0)
	var isDone atomic.Bool
	finished := make(chan struct{}, 2)
	go func() {
		for i := 1; !isDone.Load(); i++ {
			write(i)
		}
		finished <- struct{}{}
	}()
	go func() {
		for !isDone.Load() {
			text, err := os.ReadFile(path)
			if err != nil || !json.Valid(text) {
				t.Errorf("%q, %v", text, err)
				break
			}
		}
		finished <- struct{}{}
	}()
	for range 10 {
		for _, change := range []func(string, []string) error{installInto, uninstallFrom} {
			if err := change(path, ours); err != nil && !strings.Contains(err.Error(), "again and again") {
				t.Error(err)
			}
		}
	}
	isDone.Store(true)
	<-finished
	<-finished
	if text := readFile(t, path); !strings.Contains(text, `"b": {}`) {
		t.Error(text)
	}
}

// Each host's file, entry and place on this system.
func TestInstallHosts(t *testing.T) {
	home, config := emptyHome(t)
	xdg := filepath.Join(home, "xdg")
	appData := xdg
	if runtime.GOOS == "windows" {
		appData = config
	}
	files := map[string]string{
		"claude":         filepath.Join(home, ".claude.json"),
		"gemini":         filepath.Join(home, ".gemini/settings.json"),
		"copilot":        filepath.Join(home, ".copilot/mcp-config.json"),
		"opencode":       filepath.Join(xdg, "opencode/opencode.json"),
		"qwen":           filepath.Join(home, ".qwen/settings.json"),
		"cline":          filepath.Join(home, ".cline/data/settings/cline_mcp_settings.json"),
		"kimi":           filepath.Join(home, ".kimi-code/mcp.json"),
		"nanocoder":      filepath.Join(config, "nanocoder/.mcp.json"),
		"claude-desktop": filepath.Join(config, "Claude/claude_desktop_config.json"),
		"cursor":         filepath.Join(home, ".cursor/mcp.json"),
		"vscode":         filepath.Join(config, "Code/User/mcp.json"),
		"windsurf":       filepath.Join(home, ".codeium/windsurf/mcp_config.json"),
		"devin":          filepath.Join(appData, "devin/mcp_config.json"),
		"zed":            filepath.Join(appData, map[bool]string{true: "Zed", false: "zed"}[runtime.GOOS == "windows"], "settings.json"),
	}
	if runtime.GOOS == "darwin" {
		files["nanocoder"] = filepath.Join(home, "Library/Preferences/nanocoder/.mcp.json")
	}
	for _, h := range hosts {
		out := new(strings.Builder)
		p := &installer{command: ours, out: out}
		if err := p.change(h); err != nil {
			t.Errorf("%s: %v", h.name, err)
		}
		if h.key == "" { // printed
			if !strings.Contains(out.String(), "add to "+h.path()+":\n\n") || !strings.Contains(out.String(), `"/opt/notes"`) {
				t.Errorf("%s: %s", h.name, out)
			}
			if _, err := os.Stat(h.path()); err == nil {
				t.Errorf("%s has been written", h.path())
			}
			continue
		}
		want(t, h.path(), files[h.name])
		var got map[string]map[string]map[string]any
		if err := json.Unmarshal([]byte(readFile(t, files[h.name])), &got); err != nil {
			t.Errorf("%s: %v", h.name, err)
		}
		key := map[string]string{"opencode": "mcp", "vscode": "servers", "zed": "context_servers"}[h.name]
		if key == "" {
			key = "mcpServers"
		}
		if e := got[key]["notes"]; h.name == "opencode" && fmt.Sprint(e["command"]) != "[/opt/notes mcp]" || h.name != "opencode" && fmt.Sprintf("%v %v", e["command"], e["args"]) != "/opt/notes [mcp]" {
			t.Errorf("%s: %v", h.name, got)
		}
		p.remove = true
		if err := p.change(h); err != nil {
			t.Errorf("%s: %v", h.name, err)
		}
		if _, err := os.Stat(files[h.name]); err == nil {
			t.Errorf("%s is still there", files[h.name])
		}
	}

	// Variables of the hosts, and files that are preferred if they exist.
	t.Setenv("CODEX_HOME", filepath.Join(home, "codex"))
	want(t, findHost("codex").path(), filepath.Join(home, "codex/config.toml"))
	t.Setenv("CLINE_DIR", filepath.Join(home, "cline"))
	want(t, findHost("cline").path(), filepath.Join(home, "cline/data/settings/cline_mcp_settings.json"))
	t.Setenv("CLINE_DATA_DIR", filepath.Join(home, "data"))
	want(t, findHost("cline").path(), filepath.Join(home, "data/settings/cline_mcp_settings.json"))
	t.Setenv("CLINE_MCP_SETTINGS_PATH", filepath.Join(home, "mcp.json"))
	want(t, findHost("cline").path(), filepath.Join(home, "mcp.json"))
	t.Setenv("CLAUDE_CONFIG_DIR", "relative")
	want(t, findHost("claude").path(), filepath.Join(home, ".claude.json"))
	os.MkdirAll(filepath.Join(xdg, "opencode"), 0o700)
	os.WriteFile(filepath.Join(xdg, "opencode/opencode.jsonc"), nil, 0o600)
	want(t, findHost("opencode").path(), filepath.Join(xdg, "opencode/opencode.jsonc"))
	t.Setenv("LOCALAPPDATA", home)
	packaged := filepath.Join(home, "Packages/Claude_x/LocalCache/Roaming/Claude/claude_desktop_config.json")
	want(t, findHost("claude-desktop").path(), filepath.Join(config, "Claude/claude_desktop_config.json"))
	os.MkdirAll(filepath.Dir(packaged), 0o700)
	os.WriteFile(packaged, nil, 0o600)
	want(t, findHost("claude-desktop").path(), packaged)
}

// A host's command is run if it can destroy nothing, and what it did is checked.
func TestInstallCommands(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs /bin/sh")
	}
	home, _ := emptyHome(t)
	bin := filepath.Join(home, "bin")
	os.Mkdir(bin, 0o700)
	t.Setenv("PATH", bin)
	command := func(name, script string) {
		script = "#!/bin/sh\necho \"$0\" \"$@\" >>\"$HOME/log\"\n" + script
		if err := os.WriteFile(filepath.Join(bin, name), []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	log := func() string {
		text, _ := os.ReadFile(filepath.Join(home, "log"))
		os.Remove(filepath.Join(home, "log"))
		return strings.ReplaceAll(string(text), bin+"/", "")
	}
	change := func(name string, p installer) (string, error) {
		out := new(strings.Builder)
		p.command, p.out = ours, out
		err := p.change(findHost(name))
		return out.String(), err
	}
	claude := filepath.Join(home, ".claude.json")
	added := `{"other": 2, "mcpServers": {"b": {"command": "x"}, "notes": {"type": "stdio", "command": "/opt/notes", "args": ["mcp"], "env": {}}}}`
	command("claude", `echo '`+added+`' >"$HOME/.claude.json"`)

	os.WriteFile(claude, []byte(`{"other": 1, "mcpServers": {"b": {"command": "x"}}}`), 0o600)
	for _, wantLog := range []string{"claude mcp add --scope user notes -- /opt/notes mcp\n", ""} {
		if out, err := change("claude", installer{}); err != nil || out != "notes is installed in "+claude+"\n" {
			t.Errorf("%q, %v", out, err)
		}
		want(t, log(), wantLog)
		want(t, readFile(t, claude), added+"\n")
	}
	change("claude", installer{remove: true})
	want(t, log(), "")
	want(t, readFile(t, claude), `{"other": 2, "mcpServers": {"b": {"command": "x"}}}`+"\n")

	// The file has a comment, is a link, or is invalid: the command is not run.
	os.WriteFile(claude, []byte(`{} // none`), 0o600)
	if _, err := change("claude", installer{}); err != nil || !strings.HasSuffix(readFile(t, claude), "} // none") {
		t.Errorf("%v, %s", err, readFile(t, claude))
	}
	os.Rename(claude, claude+"2")
	os.WriteFile(claude+"2", []byte(`{}`), 0o600)
	os.Symlink(claude+"2", claude)
	if _, err := change("claude", installer{}); err != nil || !strings.Contains(readFile(t, claude+"2"), "/opt/notes") {
		t.Errorf("%v, %s", err, readFile(t, claude))
	}
	os.Remove(claude)
	os.WriteFile(claude, []byte(`{`), 0o600)
	if _, err := change("claude", installer{}); !strings.HasPrefix(fmt.Sprint(err), claude+":1: ") {
		t.Error(err)
	}
	os.WriteFile(claude, []byte(`{"mcpServers": {"notes": {"command": "/old/notes"}}}`), 0o600)
	if _, err := change("claude", installer{force: true}); err != nil { // claude mcp add would fail
		t.Error(err)
	}
	want(t, readFile(t, claude), `{"mcpServers": {"notes": {"command": "/opt/notes", "args": ["mcp"]}}}`)
	want(t, log(), "")

	// The command adds nothing, changes another entry, or fails.
	before := `{"mcpServers": {"b": {"command": "x"}}}`
	edited := `{"mcpServers": {"notes": {"command": "/opt/notes", "args": ["mcp"]}, "b": {"command": "x"}}}`
	for _, test := range []struct{ script, want, err string }{
		{"", edited, "<nil>"},
		{`echo '{"mcpServers": {"b": {"command": "x", "tools": ["*"]}, "notes": {"command": "/opt/notes", "args": ["mcp"]}}}' >"$HOME/.claude.json"`, edited, "<nil>"},
		{`echo '{' >"$HOME/.claude.json"`, "{\n", claude + ":1: unexpected end of JSON input"},
		{`exit 3`, before, "mcp add --scope user notes -- /opt/notes mcp: exit status 3"},
	} {
		command("claude", test.script)
		os.WriteFile(claude, []byte(before), 0o600)
		if _, err := change("claude", installer{}); !strings.HasSuffix(fmt.Sprint(err), test.err) {
			t.Errorf("%s: %v", test.script, err)
		}
		want(t, readFile(t, claude), test.want)
	}
	log()

	// Codex has a file that is not JSON, and a command that says what is in it.
	command("codex", `case "$2" in get) echo "$SERVER"; exit $STATUS; esac`)
	const get, add, remove = "codex mcp get notes --json\n", "codex mcp add notes -- /opt/notes mcp\n", "codex mcp remove notes\n"
	const same, other = `{"name": "notes", "transport": {"type": "stdio", "command": "/opt/notes", "args": ["mcp"]}}`, `{"transport": {"type": "stdio", "command": "/old/notes"}}`
	for _, test := range []struct {
		server, status string
		installer
		log string
		err string
	}{
		{"", "1", installer{}, get + add, "<nil>"},
		{same, "0", installer{}, get, "<nil>"},
		{other, "0", installer{}, get, `codex: "notes" has another command: use --force to change it`},
		{other, "0", installer{force: true}, get + add, "<nil>"},
		{"", "1", installer{remove: true}, get, "<nil>"},
		{same, "0", installer{remove: true}, get + remove, "<nil>"},
		{other, "0", installer{remove: true}, get, `codex: "notes" has another command: use --force to change it`},
		{other, "0", installer{remove: true, force: true}, get + remove, "<nil>"},
		{other, "0", installer{printOnly: true}, "", "<nil>"},
	} {
		t.Setenv("SERVER", test.server)
		t.Setenv("STATUS", test.status)
		_, err := change("codex", test.installer)
		want(t, fmt.Sprint(err), test.err)
		want(t, log(), test.log)
	}

	command("gemini", "")
	change("gemini", installer{})
	command("copilot", "")
	change("copilot", installer{})
	command("code", "")
	change("vscode", installer{})
	want(t, log(), `gemini mcp add --scope user notes /opt/notes mcp
copilot mcp add notes -- /opt/notes mcp
code --add-mcp {"name":"notes","command":"/opt/notes","args":["mcp"]}
`)
}

// The command line of the program.
func TestInstallCommandLine(t *testing.T) {
	goPath := goCommand(t)
	terminal, noTerminal := exec.LookPath("script")
	home, config := emptyHome(t)
	program := filepath.Join(t.TempDir(), "notes")
	if runtime.GOOS == "windows" {
		program += ".exe"
	}
	if out, err := exec.Command(goPath, "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	notes := func(args ...string) string {
		t.Helper()
		out, err := exec.Command(program, args...).CombinedOutput()
		if err != nil {
			return fmt.Sprintf("%s%v", out, err)
		}
		return string(out)
	}
	want(t, notes("mcp", "hosts"), "")
	os.MkdirAll(filepath.Join(home, ".cursor"), 0o700)
	os.MkdirAll(filepath.Join(config, "Code/User"), 0o700)
	os.WriteFile(filepath.Join(home, ".claude.json"), []byte(`{"secret": "s"}`), 0o600)
	code := filepath.Join(config, "Code/User/mcp.json")
	path := filepath.Join(home, ".cursor/mcp.json")
	want(t, notes("mcp", "hosts"), fmt.Sprintf("%-15s %s\n%-15s %s\n%-15s %s\n",
		"claude", filepath.Join(home, ".claude.json"), "cursor", path, "vscode", code))

	if got := notes("mcp", "install"); !strings.HasPrefix(got, "notes: name a host: claude codex ") {
		t.Error(got)
	}
	if got := notes("mcp", "install", "emacs"); !strings.HasPrefix(got, `notes: the host "emacs" is unknown; there are claude codex `) {
		t.Error(got)
	}
	for _, args := range [][]string{{"mcp", "list"}, {"mcp", "hosts", "claude"}, {"mcp", "install", "cursor", "vscode"}} {
		if got := notes(args...); !strings.HasPrefix(got, "notes: usage: ") {
			t.Errorf("%q: %s", args, got)
		}
	}
	quoted, _ := json.Marshal(program)
	printed := notes("mcp", "install", "--print", "claude")
	want(t, printed, fmt.Sprintf("add to %s:\n\n{\n  \"mcpServers\": {\n    \"notes\": {\"command\": %s, \"args\": [\"mcp\"]}\n  }\n}\n", filepath.Join(home, ".claude.json"), quoted))
	want(t, readFile(t, filepath.Join(home, ".claude.json")), `{"secret": "s"}`)

	want(t, notes("mcp", "install", "cursor"), "notes is installed in "+path+"\n")
	want(t, notes("mcp", "install", "cursor"), "notes is installed in "+path+"\n")
	os.WriteFile(path, []byte(strings.Replace(readFile(t, path), "[\"mcp\"]", "[]", 1)), 0o600)
	if got := notes("mcp", "install", "cursor"); !strings.HasPrefix(got, "notes: "+path+`:3: "notes" has another command`) {
		t.Error(got)
	}
	want(t, notes("mcp", "install", "cursor", "--force"), "notes is installed in "+path+"\n")
	want(t, notes("mcp", "uninstall", "cursor"), "notes is removed from "+path+"\n")
	if _, err := os.Stat(path); err == nil {
		t.Error("the file is still there")
	}

	// A link to the program stays when an update moves the program.
	link := filepath.Join(home, "link")
	if err := os.Symlink(program, link); err == nil {
		quoted, _ := json.Marshal(link)
		out, err := exec.Command(link, "mcp", "install", "--print", "cursor").CombinedOutput()
		if err != nil || !bytes.Contains(out, quoted) {
			t.Errorf("%s: %v", out, err)
		}
	}

	// In a terminal, install asks.
	if noTerminal == nil && runtime.GOOS == "linux" {
		cmd := exec.Command(terminal, "-qec", program+" mcp install", os.DevNull)
		cmd.Stdin = strings.NewReader("cursor\n")
		out, err := cmd.CombinedOutput()
		if err != nil || !bytes.Contains(out, []byte("which host? ")) || !bytes.Contains(out, []byte("notes is installed in "+path)) {
			t.Errorf("%s: %v", out, err)
		}
	}
}

// What go run has built is deleted after the run, or later.
func TestInstallTemporary(t *testing.T) {
	goPath := goCommand(t)
	emptyHome(t)
	for path, isTemporary := range map[string]bool{
		"/tmp/go-build3245109528/b001/exe/notes":                  true,
		`C:\Users\u\AppData\Local\Temp\go-build32\b001\notes.exe`: true,
		"/home/u/.cache/go-build/78/78-d/notes":                   true,
		"/cache/78/" + strings.Repeat("0f", 32) + "-d/notes":      true,
		"/home/u/go/bin/notes":                                    false,
		"/home/u/go-builder/notes":                                false,
		"/tmp/notes":                                              false,
	} {
		p := &installer{command: []string{path, "mcp"}, out: new(strings.Builder)}
		err := p.change(findHost("cursor"))
		if isTemporary != strings.Contains(fmt.Sprint(err), " is a temporary build: run go install") {
			t.Errorf("%s: %v", path, err)
		}
		p.remove, p.force = true, true
		p.change(findHost("cursor"))
	}
	// JSON cannot hold a path that is not UTF-8.
	p := &installer{command: []string{"/opt/caf\xe9/notes", "mcp"}, out: new(strings.Builder)}
	if err := p.change(findHost("cursor")); !strings.Contains(fmt.Sprint(err), `the path "/opt/caf\xe9/notes" is not UTF-8: rename it`) {
		t.Error(err)
	}
	out, err := exec.Command(goPath, "run", ".", "mcp", "install", "cursor").CombinedOutput()
	if err == nil || !bytes.Contains(out, []byte(" is a temporary build")) {
		t.Errorf("%s, %v", out, err)
	}
}

func installInto(path string, command []string) error {
	p := &installer{command: command}
	return editFile(path, func(d *document) ([]byte, error) { return p.edit(cursor, d) })
}

func uninstallFrom(path string, command []string) error {
	p := &installer{command: command, remove: true}
	return editFile(path, func(d *document) ([]byte, error) { return p.edit(cursor, d) })
}

func wantRefused(t *testing.T, path, text, err string) {
	t.Helper()
	if got := installInto(path, ours); !strings.Contains(fmt.Sprint(got), err) || !strings.Contains(fmt.Sprint(got), path) {
		t.Errorf("got the error %v; want %s", got, err)
	}
	want(t, readFile(t, path), text)
	if entries, _ := os.ReadDir(filepath.Dir(path)); len(entries) > 2 {
		t.Errorf("the directory has %v", entries)
	}
}

func findHost(name string) host {
	return hosts[slices.IndexFunc(hosts, func(h host) bool { return h.name == name })]
}

func goCommand(t *testing.T) string {
	path, err := exec.LookPath("go")
	if err != nil {
		t.Skip(err)
	}
	return path
}

// emptyHome sets the variables of hosts for an empty home directory, and an empty PATH.
// It returns the directory, and that of os.UserConfigDir.
func emptyHome(t *testing.T) (home, config string) {
	cache, _ := os.UserCacheDir()
	t.Setenv("PATH", t.TempDir())
	home, _ = filepath.EvalSymlinks(t.TempDir())
	for name, value := range map[string]string{
		"HOME": home, "USERPROFILE": home, "APPDATA": filepath.Join(home, "AppData"), "LOCALAPPDATA": filepath.Join(home, "Local"),
		"XDG_CONFIG_HOME": filepath.Join(home, "xdg"), "GOCACHE": filepath.Join(cache, "go-build"), "CGO_ENABLED": "0",
		"CLAUDE_CONFIG_DIR": "", "CODEX_HOME": "", "GEMINI_CLI_HOME": "", "COPILOT_HOME": "", "QWEN_HOME": "", "CLINE_DIR": "",
		"CLINE_DATA_DIR": "", "CLINE_MCP_SETTINGS_PATH": "", "CONTINUE_GLOBAL_DIR": "", "KIMI_CODE_HOME": "", "NANOCODER_CONFIG_DIR": "",
	} {
		t.Setenv(name, value)
	}
	if runtime.GOOS != "windows" {
		t.Setenv("APPDATA", "")
		t.Setenv("LOCALAPPDATA", "")
	}
	config, err := os.UserConfigDir()
	if err != nil {
		t.Fatal(err)
	}
	return home, config
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Error(err)
	}
	return string(text)
}

// isInsertion reports whether a text became another by the insertion of one piece.
func isInsertion(before, after string) bool {
	n := 0
	for n < len(before) && n < len(after) && before[n] == after[n] {
		n++
	}
	return strings.HasSuffix(after, before[n:])
}

// wantEntry reports an error unless after is before with the entry.
func wantEntry(t *testing.T, before, after map[string]any) {
	t.Helper()
	servers, _ := after["mcpServers"].(map[string]any)
	entry := servers["notes"]
	if !reflect.DeepEqual(entry, map[string]any{"command": "/opt/notes", "args": []any{"mcp"}}) {
		t.Errorf("the entry is %v", entry)
	}
	delete(servers, "notes")
	if _, ok := before["mcpServers"]; !ok && len(servers) == 0 {
		delete(after, "mcpServers")
	}
	if len(before)+len(after) > 0 && !reflect.DeepEqual(before, after) {
		t.Error("the data has changed")
	}
}

// parseTolerant reads JSON with comments and trailing commas. It is a parser of its own, by
// recursive descent, so that the tests do not rely on what they test.
func parseTolerant(text string) (data map[string]any, err error) {
	p := &parser{rest: strings.TrimPrefix(text, "\ufeff")}
	defer func() {
		if problem := recover(); problem != nil {
			err = fmt.Errorf("%v at %.40q", problem, p.rest)
		}
	}()
	if p.skip(); p.rest == "" {
		return map[string]any{}, nil
	}
	data = p.value().(map[string]any)
	if p.skip(); p.rest != "" {
		panic("more text")
	}
	return data, nil
}

type parser struct{ rest string }

func (p *parser) skip() {
	for {
		before := p.rest
		p.rest = strings.TrimLeft(p.rest, " \t\r\n")
		if strings.HasPrefix(p.rest, "//") {
			p.rest = p.rest[min(len(p.rest), strings.IndexAny(p.rest+"\n", "\r\n")):]
		}
		if strings.HasPrefix(p.rest, "/*") {
			_, p.rest, _ = strings.Cut(p.rest[2:], "*/")
		}
		if p.rest == before {
			return
		}
	}
}

// has removes a prefix, and reports whether it was there.
func (p *parser) has(prefix string) bool {
	p.skip()
	rest, ok := strings.CutPrefix(p.rest, prefix)
	p.rest = rest
	return ok
}

func (p *parser) value() any {
	switch {
	case p.has("{"):
		object := map[string]any{}
		for !p.has("}") {
			name := p.value().(string)
			if !p.has(":") {
				panic("no colon")
			}
			object[name] = p.value()
			if !p.has(",") && !strings.HasPrefix(p.rest, "}") {
				panic("no comma")
			}
		}
		return object
	case p.has("["):
		list := []any{}
		for !p.has("]") {
			list = append(list, p.value())
			if !p.has(",") && !strings.HasPrefix(p.rest, "]") {
				panic("no comma")
			}
		}
		return list
	}
	end := strings.IndexAny(p.rest+" ", " \t\r\n,:]}/")
	if strings.HasPrefix(p.rest, `"`) {
		end = 1
		for p.rest[end] != '"' {
			if p.rest[end] == '\\' {
				end++
			}
			end++
		}
		end++
	}
	var scalar any
	decoder := json.NewDecoder(strings.NewReader(p.rest[:end]))
	decoder.UseNumber()
	if err := decoder.Decode(&scalar); err != nil {
		panic(err)
	}
	p.rest = p.rest[end:]
	return scalar
}
