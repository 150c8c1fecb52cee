// SPDX-License-Identifier: MIT
// SPDX-FileCopyrightText: 2026 The mcp authors

package main

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

type note struct {
	ID   string    `json:"id"`
	Time time.Time `json:"time"`
	Text string    `json:"text"`
}

// A store is a file of notes. Any number of goroutines and processes may use it
// concurrently, and a crash does not lose earlier notes:
//
//   - The file only grows. Each entry is one write with O_APPEND, so the system appends it
//     after the entries of other processes. (Some network file systems do not.)
//   - An entry also begins with a newline, so it is on a line of its own even if a crash
//     left half an entry before it. Half an entry is not valid JSON and is skipped.
//   - Nothing is kept in memory: every function reads the file again.
//   - Ids are random, so processes need not agree on the next one, and an id is never
//     used again.
type store struct{ path string }

// An entry is a line of the file.
type entry struct {
	Add    *note  `json:"add,omitempty"`
	Delete string `json:"delete,omitempty"` // an id
}

// append writes an entry, and returns when it is on the disk.
func (s store) append(e entry) error {
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	dir := filepath.Dir(s.path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(s.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(slices.Concat([]byte("\n"), line, []byte("\n")))
	err = errors.Join(err, f.Sync(), f.Close())
	if d, err := os.Open(dir); err == nil {
		d.Sync() // for the name of a new file, if the system supports it
		d.Close()
	}
	return err
}

// all returns the notes, oldest first.
func (s store) all() ([]note, error) {
	data, err := os.ReadFile(s.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var notes []note
	for line := range bytes.Lines(data) {
		var e entry
		if json.Unmarshal(line, &e) != nil {
			continue // empty, or half an entry
		}
		if e.Add != nil {
			notes = append(notes, *e.Add)
		}
		notes = slices.DeleteFunc(notes, func(n note) bool { return n.ID == e.Delete })
	}
	return notes, nil
}

// search returns the notes that contain a text, ignoring case.
func (s store) search(text string) ([]note, error) {
	notes, err := s.all()
	text = strings.ToLower(text)
	return slices.DeleteFunc(notes, func(n note) bool { return !strings.Contains(strings.ToLower(n.Text), text) }), err
}

// get returns one note, or fs.ErrNotExist.
func (s store) get(id string) (note, error) {
	notes, err := s.all()
	if err != nil {
		return note{}, err
	}
	i := slices.IndexFunc(notes, func(n note) bool { return n.ID == id })
	if i < 0 {
		return note{}, fmt.Errorf("note %q: %w", id, fs.ErrNotExist)
	}
	return notes[i], nil
}

func (s store) add(text string) (note, error) {
	if strings.TrimSpace(text) == "" {
		return note{}, errors.New("a note needs a text")
	}
	n := note{ID: strings.ToLower(rand.Text()[:8]), Time: time.Now().Truncate(time.Second), Text: text}
	return n, s.append(entry{Add: &n})
}

func (s store) delete(id string) error {
	if _, err := s.get(id); err != nil {
		return err
	}
	return s.append(entry{Delete: id})
}
