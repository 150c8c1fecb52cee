// SPDX-License-Identifier: MIT
// Version 4.2.2, 2026-11-29. The SHA-256 of each release of this file is in CHANGES.md of example.com/mcp.
// SPDX-FileCopyrightText: 2026 The mcp authors

package main

// Files of JSON, with comments and trailing commas, in which one entry is changed. All other
// bytes are kept.
//
// A file that is not valid, is read-only, has several hard links or is not a regular file is not
// changed. The new text is written to a second file, with the mode and owner of the first, which
// then replaces it: no program reads half a file. A symbolic link is followed. If the file has
// changed since it was read, it is read again.
//
// Limits: access control lists and extended attributes are not copied; hard links are not
// detected on Windows; and a change that another program makes between the last comparison and
// the replacement is lost, because the programs have no lock in common.

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

const (
	space         = " \t\r\n"
	byteOrderMark = "\ufeff"
)

// A document is the text of a file. Its top level is an object, of which one member holds
// entries: {"mcpServers": {"notes": {...}}}. Its methods do not change it.
type document struct {
	path        string      // after symbolic links
	info        fs.FileInfo // nil if there is no file
	text        []byte
	uncommented []byte // the text with spaces for a byte order mark and comments
	strict      []byte // the text with spaces for these and for trailing commas: JSON
}

var (
	comments = regexp.MustCompile(`^` + byteOrderMark + `|"(\\.|[^"\\])*"|//[^\r\n]*|/\*(?s:.*?)\*/`)
	commas   = regexp.MustCompile(`"(\\.|[^"\\])*"|[\[{,]\s*,|,\s*[\]}]`)
)

// editFile replaces the text of the file at path by the result of change, which is called again
// if another program has changed the file. If nothing but space is left, it removes the file.
func editFile(path string, change func(*document) ([]byte, error)) error {
	for range 10 {
		d, err := readDocument(path)
		if err != nil {
			return err
		}
		text, err := change(d)
		if err != nil || bytes.Equal(text, d.text) {
			return err
		}
		if _, err := parse(d.path, d.info, text); err != nil {
			return fmt.Errorf("the edited text would be invalid, and was not written: %w", err)
		}
		if isDone, err := d.replace(text); isDone || err != nil {
			return err
		}
	}
	return fmt.Errorf("%s is changed by another program again and again", path)
}

// readDocument reads the file at path and checks that it can be edited.
func readDocument(path string) (*document, error) {
	target, err := filepath.EvalSymlinks(path)
	if _, noLink := os.Lstat(path); errors.Is(err, fs.ErrNotExist) && noLink != nil {
		return &document{path: path}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	info, err := os.Stat(target)
	if err != nil {
		return nil, err
	}
	links, _ := systemField(info, "Nlink")
	switch {
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a regular file", target)
	case info.Mode()&0o200 == 0: // tested here because root can write it
		return nil, fmt.Errorf("%s is read-only", target)
	case links > 1:
		return nil, fmt.Errorf("%s has %d hard links", target, links)
	}
	f, err := os.OpenFile(target, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(f)
	if err != nil {
		return nil, err
	}
	return parse(target, info, text)
}

// systemField returns a number that the system keeps about a file. On Unix it is a field of
// syscall.Stat_t, whose type is not the same on all systems; Windows has other fields.
func systemField(info fs.FileInfo, name string) (uint64, bool) {
	stat := reflect.Indirect(reflect.ValueOf(info.Sys()))
	if stat.Kind() != reflect.Struct || !stat.FieldByName(name).CanUint() {
		return 0, false
	}
	return stat.FieldByName(name).Uint(), true
}

// replace replaces the file, unless it has changed since it was read. It reports whether it did.
func (d *document) replace(text []byte) (bool, error) {
	if err := os.MkdirAll(filepath.Dir(d.path), 0o700); err != nil {
		return false, err
	}
	f, err := os.CreateTemp(filepath.Dir(d.path), filepath.Base(d.path)+".*.tmp") // mode 0600
	if err != nil {
		return false, err
	}
	defer os.Remove(f.Name())
	if d.info != nil {
		uid, isUnix := systemField(d.info, "Uid")
		gid, _ := systemField(d.info, "Gid")
		if isUnix {
			err = f.Chown(int(uid), int(gid))
		}
		err = errors.Join(err, f.Chmod(d.info.Mode().Perm()))
	}
	_, writeErr := f.Write(text)
	if err := errors.Join(err, writeErr, f.Sync(), f.Close()); err != nil {
		return false, err
	}
	if d.info != nil && len(d.text) == 0 {
		time.Sleep(100 * time.Millisecond) // a program that writes in place empties the file first
	}
	// The times are compared too, because such a program may empty the file twice.
	now, err := os.ReadFile(d.path)
	info, _ := os.Stat(d.path)
	switch {
	case err != nil && !(d.info == nil && errors.Is(err, fs.ErrNotExist)):
		return false, err
	case !bytes.Equal(now, d.text), d.info != nil && (info == nil || !info.ModTime().Equal(d.info.ModTime())):
		return false, nil
	case isEmpty(text):
		return true, os.Remove(d.path)
	}
	return true, os.Rename(f.Name(), d.path)
}

// parse returns an error if the text is not valid. An empty text is valid.
func parse(path string, info fs.FileInfo, text []byte) (*document, error) {
	d := &document{path: path, info: info, text: text}
	d.uncommented = comments.ReplaceAllFunc(text, func(match []byte) []byte {
		if match[0] == '"' {
			return match
		}
		return bytes.Repeat([]byte(" "), len(match))
	})
	d.strict = commas.ReplaceAllFunc(d.uncommented, func(match []byte) []byte {
		if match[0] != ',' || match[len(match)-1] == ',' {
			return match
		}
		return append([]byte(" "), match[1:]...)
	})
	if !utf8.Valid(text) {
		return nil, fmt.Errorf("%s: the text is not UTF-8", d.place(bytes.IndexRune(text, utf8.RuneError)))
	}
	var syntax *json.SyntaxError
	err := json.Unmarshal(d.strict, new(json.RawMessage))
	if errors.As(err, &syntax) && !isEmpty(d.text) {
		return nil, fmt.Errorf("%s: %w", d.place(max(0, int(syntax.Offset)-1)), err)
	}
	return d, nil
}

// isEmpty reports whether a text has only space and a byte order mark.
func isEmpty(text []byte) bool {
	return len(bytes.Trim(bytes.TrimPrefix(text, []byte(byteOrderMark)), space)) == 0
}

// place returns the path of the file and the number of the line of an offset.
func (d *document) place(offset int) string {
	return fmt.Sprintf("%s:%d", d.path, 1+bytes.Count(d.text[:offset], []byte("\n")))
}

// A member of an object goes from the offset start of its name to end; its value begins at the
// offset value. If end is 0, there is no such member.
type member struct{ start, value, end int }

// find returns the member called name of the object that begins at an offset.
func (d *document) find(object int, name string) (m member, err error) {
	if d.strict[object] != '{' {
		return m, fmt.Errorf("%s: this must be an object", d.place(object))
	}
	decoder := json.NewDecoder(bytes.NewReader(d.strict[object:]))
	decoder.Token() // the brace
	for decoder.More() {
		start := skip(d.strict, object+int(decoder.InputOffset()), space+",")
		key, _ := decoder.Token()
		value := skip(d.strict, object+int(decoder.InputOffset()), space+":")
		decoder.Decode(new(json.RawMessage))
		switch {
		case key == name && m.end > 0:
			return m, fmt.Errorf("%s: %q is in this object twice", d.place(start), name)
		case key == name:
			m = member{start, value, object + int(decoder.InputOffset())}
		}
	}
	return m, nil
}

// skip returns the offset of the first byte of text, from an offset on, that is not in set.
func skip(text []byte, offset int, set string) int {
	return len(text) - len(bytes.TrimLeft(text[offset:], set))
}

// findEntry returns the member key of the top level, and the member called name of its value.
func (d *document) findEntry(key, name string) (entries, entry member, err error) {
	if !isEmpty(d.text) {
		entries, err = d.find(skip(d.strict, 0, space), key)
	}
	if err == nil && entries.end > 0 {
		entry, err = d.find(entries.value, name)
	}
	return entries, entry, err
}

// others returns the data of the document without an entry.
func (d *document) others(key, name string) map[string]any {
	data := map[string]any{}
	json.Unmarshal(d.strict, &data)
	if entries, ok := data[key].(map[string]any); ok {
		delete(entries, name)
		if len(entries) == 0 {
			delete(data, key)
		}
	}
	return data
}

// newDocument returns the text of a document with one entry.
func newDocument(key, name, value string) string {
	return fmt.Sprintf("{\n  %q: {\n    %q: %s\n  }\n}", key, name, value)
}

// with returns the text with an entry added, in front of the others, or replaced.
func (d *document) with(key, name, value string) ([]byte, error) {
	entries, entry, err := d.findEntry(key, name)
	text := ""
	switch {
	case err != nil:
		return nil, err
	case entry.end > 0:
		text = string(d.text[:entry.value]) + value + string(d.text[entry.end:])
	case entries.end > 0:
		text = d.insert(entries.value, fmt.Sprintf("%q: %s", name, value))
	case isEmpty(d.text):
		text = string(d.text) + newDocument(key, name, value)
	default:
		text = d.insert(skip(d.strict, 0, space), fmt.Sprintf("%q: {\n\t%q: %s\n}", key, name, value))
	}
	if d.info == nil {
		text += "\n"
	}
	return []byte(text), nil
}

// insert returns the text with one more member at the start of an object. In the member, \n is
// the end of a line, and \t stands for one level of indentation.
func (d *document) insert(object int, member string) string {
	before, after := string(d.text[:object+1]), string(d.text[object+1:])
	gap := after[:len(after)-len(strings.TrimLeft(after, space))]
	newline, indent := "\n", ""
	if strings.Contains(before+after, "\r\n") {
		newline = "\r\n"
	}
	if i := strings.LastIndex(gap, "\n"); i >= 0 {
		indent = gap[i+1:]
	}
	member = strings.NewReplacer("\n", newline+indent, "\t", cmp.Or(indent, "  ")).Replace(member)
	if d.strict[skip(d.strict, object+1, space)] != '}' {
		member += ","
		if gap == "" {
			member += " "
		}
	}
	return before + gap + member + after
}

// without returns the text without an entry, and without the objects that with has added.
func (d *document) without(key, name string) ([]byte, error) {
	entries, entry, err := d.findEntry(key, name)
	if err != nil {
		return nil, err
	}
	top := skip(d.strict, 0, space)
	outside := slices.Concat(d.text[:top], d.text[len(bytes.TrimRight(d.strict, space)):])
	switch {
	case !d.isAlone(entries.value, entry), !bytes.Equal(d.text[entries.start:entries.value], d.uncommented[entries.start:entries.value]):
		return d.remove(entry), nil
	case !d.isAlone(top, entries) || !isEmpty(outside):
		return d.remove(entries), nil
	}
	return outside, nil
}

// isAlone reports whether an object looks as if with had written it for one member: it has no
// other member and no comment, and the member is on a line of its own, with an indentation that
// differs from that of the closing brace.
func (d *document) isAlone(object int, m member) bool {
	brace := skip(d.strict, m.end, space)
	before, after := string(d.text[object+1:m.start]), string(d.text[m.end:brace])
	return d.strict[brace] == '}' && strings.Trim(before+after, space) == "" && strings.Contains(before, "\n") && before != after
}

// remove returns the text without a member, its comma and the space on one side. The space after
// a comment stays, because its end may be that of the comment.
func (d *document) remove(m member) []byte {
	text := d.text
	start := len(bytes.TrimRight(text[:m.start], space))
	next := skip(d.uncommented, m.end, space)
	previous := len(bytes.TrimRight(d.uncommented[:m.start], space)) - 1
	if previous+1 < start {
		start = m.start
	}
	switch {
	case d.strict[next] == ',':
		return slices.Concat(text[:m.start], text[m.end:next], bytes.TrimLeft(text[next+1:], space))
	case d.uncommented[next] == ',':
		return slices.Concat(text[:start], text[m.end:next], text[next+1:])
	case d.strict[previous] == ',':
		return slices.Concat(text[:previous], text[previous+1:start], text[m.end:])
	}
	return slices.Concat(text[:start], text[m.end:])
}
