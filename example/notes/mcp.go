// SPDX-License-Identifier: MIT
// SPDX-FileCopyrightText: 2026 The mcp authors

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"example.com/mcp"
)

// A service is the store as hosts see it: its methods are the handlers.
type service struct {
	store
	server *mcp.Server
}

func newServer(st store) *mcp.Server {
	s := &mcp.Server{
		Name: "notes", Version: "1.0.0", Title: "Notes",
		Instructions: "The user's own notes. Search them before you add one.",
	}
	v := service{st, s}

	reads := mcp.ToolAnnotations{ReadOnlyHint: mcp.Yes, OpenWorldHint: mcp.No}
	adds := mcp.ToolAnnotations{DestructiveHint: mcp.No, OpenWorldHint: mcp.No}
	deletes := mcp.ToolAnnotations{DestructiveHint: mcp.Yes, IdempotentHint: mcp.Yes, OpenWorldHint: mcp.No}
	mcp.AddTool(s, mcp.Tool{
		Name: "list_notes", Title: "List notes", Description: "Lists the newest notes.",
		Annotations: reads,
	}, v.listTool)
	mcp.AddTool(s, mcp.Tool{
		Name: "search_notes", Title: "Search notes", Description: "Finds notes by a text in them.",
		Annotations: reads,
	}, v.searchTool)
	mcp.AddTool(s, mcp.Tool{
		Name: "add_note", Title: "Add a note", Description: "Writes a note.",
		Annotations: adds,
	}, v.addTool)
	mcp.AddTool(s, mcp.Tool{
		Name: "delete_note", Title: "Delete a note", Description: "Deletes a note, if the user agrees.",
		Annotations: deletes,
	}, v.deleteTool)

	s.AddResource(mcp.Resource{URI: listURI, Name: "notes", Description: "All notes, one to a line.", MIMEType: "text/plain"}, v.readList)
	s.AddResource(mcp.Resource{
		URI: noteURI("{id}"), Name: "note", Description: "The text of a note.", MIMEType: "text/plain",
		Complete: map[string]mcp.CompleteFunc{"id": v.completeID},
	}, v.readNote)

	s.AddPrompt(mcp.Prompt{
		Name: "summarise", Description: "Sums up the notes on a topic.",
		Arguments: []mcp.PromptArgument{{Name: "topic", Description: "a word in them", Required: true, Complete: v.completeWord}},
	}, v.summarise)
	return s
}

// printTools runs the command "mcp tools". It prints the tools as a table, with the bytes that each
// of them takes in a list, or, with --json, as they are listed.
func printTools(out io.Writer, s *mcp.Server, args ...string) error {
	if len(args) == 1 && args[0] == "--json" {
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		return e.Encode(s.Tools())
	}
	if len(args) > 0 {
		return errUsage
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "TOOL\tBYTES\tDESCRIPTION")
	for _, tool := range s.Tools() {
		raw, err := json.Marshal(tool)
		if err != nil {
			return err
		}
		fmt.Fprintf(table, "%s\t%d\t%s\n", tool.Name, len(raw), tool.Description)
	}
	return table.Flush()
}

const listURI = "notes://all"

func noteURI(id string) string { return "note://" + id }

// Some hosts do not show bounds and defaults to the model, so the descriptions repeat
// them.
type (
	listIn struct {
		Limit int `json:"limit" jsonschema:"how many at most: 1 or more, 20 if not given" minimum:"1" default:"20"`
	}
	searchIn struct {
		Text string `json:"text" jsonschema:"a word or a phrase, not empty" minLength:"1"`
	}
	addIn struct {
		Text string `json:"text" jsonschema:"not empty" minLength:"1"`
	}
	deleteIn struct {
		ID string `json:"id" jsonschema:"as list_notes and search_notes give it"`
	}
	notesOut struct {
		Notes []note `json:"notes" jsonschema:"the oldest first"`
	}
)

func (v service) listTool(_ context.Context, in listIn) (notesOut, error) {
	notes, err := v.all()
	return notesOut{notes[max(0, len(notes)-in.Limit):]}, err
}

func (v service) searchTool(_ context.Context, in searchIn) (notesOut, error) {
	notes, err := v.search(in.Text)
	return notesOut{notes}, err
}

// addTool notifies the clients that subscribed to the list. They are not notified of
// notes that another process adds, because the server does not watch the file.
func (v service) addTool(_ context.Context, in addIn) (note, error) {
	n, err := v.add(in.Text)
	if err == nil {
		v.server.ResourceUpdated(listURI)
	}
	return n, err
}

// deleteTool deletes a note only if the user agrees.
func (v service) deleteTool(ctx context.Context, in deleteIn) (string, error) {
	n, err := v.get(in.ID)
	if err != nil {
		return "", err
	}
	if err := mcp.Confirm(ctx, fmt.Sprintf("Delete the note %q?", n.Text)); err != nil {
		return "", err // not answered yet, declined or dismissed
	}
	// The code above may have run twice. This runs once.
	if err := v.delete(n.ID); err != nil {
		return "", err
	}
	v.server.ResourceUpdated(listURI)
	v.server.ResourceUpdated(noteURI(n.ID))
	return "Deleted.", nil
}

func (v service) readList(context.Context, string, map[string]string) ([]mcp.ResourceContents, error) {
	notes, err := v.all()
	var text strings.Builder
	err = show(&text, err, notes...)
	return []mcp.ResourceContents{{Text: text.String()}}, err
}

func (v service) readNote(_ context.Context, _ string, vars map[string]string) ([]mcp.ResourceContents, error) {
	n, err := v.get(vars["id"]) // fs.ErrNotExist becomes the protocol's "not found"
	return []mcp.ResourceContents{{Text: n.Text}}, err
}

func (v service) completeID(_ context.Context, typed string, _ map[string]string) ([]string, error) {
	notes, err := v.all()
	var ids []string
	for _, n := range slices.Backward(notes) { // newest first
		if strings.HasPrefix(n.ID, typed) {
			ids = append(ids, n.ID)
		}
	}
	return ids, err
}

func (v service) completeWord(_ context.Context, typed string, _ map[string]string) ([]string, error) {
	notes, err := v.all()
	var words []string
	for _, n := range notes {
		for _, word := range strings.Fields(strings.ToLower(n.Text)) {
			if strings.HasPrefix(word, strings.ToLower(typed)) {
				words = append(words, word)
			}
		}
	}
	slices.Sort(words)
	return slices.Compact(words), err
}

func (v service) summarise(_ context.Context, args map[string]string) ([]mcp.PromptMessage, error) {
	notes, err := v.search(args["topic"])
	if err == nil && len(notes) == 0 {
		err = fmt.Errorf("there is no note on %q", args["topic"])
	}
	messages := []mcp.PromptMessage{{Content: mcp.Text("Please sum up my notes on " + args["topic"] + ".")}}
	for _, n := range notes {
		embedded := mcp.ResourceContents{URI: noteURI(n.ID), MIMEType: "text/plain", Text: n.Text}
		messages = append(messages, mcp.PromptMessage{Content: mcp.EmbeddedResource(embedded)})
	}
	return messages, err
}
