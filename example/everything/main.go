// SPDX-License-Identifier: MIT
// SPDX-FileCopyrightText: 2026 The mcp authors

// Everything is a server that has each feature of the protocol. The conformance suite is
// run against it.
package main

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"sync"
	"time"

	"example.com/mcp"
)

var (
	png, _ = base64.StdEncoding.DecodeString("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR42mP4z8AAAAMBAQD3A0FDAAAAAElFTkSuQmCC")
	wav, _ = base64.StdEncoding.DecodeString("UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQAAAAA=")
)

func server() *mcp.Server {
	s := &mcp.Server{
		Name: "everything", Title: "Everything", Version: "1.0.0",
		Instructions: "A server with one of everything, to test clients with.",
	}
	addContent(s)
	addRunning(s)
	addAsking(s)
	addRounds(s)
	addTasks(s)
	addPrompts(s)
	addResources(s)
	return s
}

func main() {
	if err := server().ServeStdio(context.Background()); err != nil {
		log.Fatal(err)
	}
}

type none = struct{}

// tool adds a tool without arguments.
func tool[Out any](s *mcp.Server, name, description string, h func(context.Context) (Out, error)) {
	mcp.AddTool(s, mcp.Tool{Name: name, Description: description}, func(ctx context.Context, _ none) (Out, error) { return h(ctx) })
}

func addContent(s *mcp.Server) {
	tool(s, "test_simple_text", "Returns a text.", func(context.Context) (string, error) {
		return "This is a simple text response for testing.", nil
	})
	tool(s, "test_image_content", "Returns an image.", func(context.Context) (mcp.Content, error) {
		return mcp.Image(png, "image/png"), nil
	})
	tool(s, "test_audio_content", "Returns a recording.", func(context.Context) (mcp.Content, error) {
		return mcp.Audio(wav, "audio/wav"), nil
	})
	tool(s, "test_embedded_resource", "Returns a resource.", func(context.Context) (mcp.Content, error) {
		return mcp.EmbeddedResource(mcp.ResourceContents{
			URI: "test://embedded-resource", MIMEType: "text/plain", Text: "This is an embedded resource content.",
		}), nil
	})
	tool(s, "test_multiple_content_types", "Returns a text, an image and a resource.", func(context.Context) ([]mcp.Content, error) {
		return []mcp.Content{
			mcp.Text("Multiple content types test:"),
			mcp.Image(png, "image/png"),
			mcp.EmbeddedResource(mcp.ResourceContents{
				URI: "test://mixed-content-resource", MIMEType: "application/json", Text: `{"test":"data","value":123}`,
			}),
		}, nil
	})
	tool(s, "test_error_handling", "Fails.", func(context.Context) (*mcp.Result, error) {
		return &mcp.Result{Content: []mcp.Content{mcp.Text("This tool intentionally returns an error for testing")}, IsError: true}, nil
	})
	mcp.AddTool(s, mcp.Tool{
		Name: "json_schema_2020_12_tool", Description: "Has a schema written by hand.",
		InputSchema: json.RawMessage(`{
			"$schema": "https://json-schema.org/draft/2020-12/schema",
			"type": "object",
			"$defs": {"address": {"$anchor": "addressDef", "type": "object",
				"properties": {"street": {"type": "string"}, "city": {"type": "string"}}}},
			"properties": {"name": {"type": "string"}, "address": {"$ref": "#/$defs/address"},
				"contactMethod": {"type": "string", "enum": ["phone", "email"]},
				"phone": {"type": "string"}, "email": {"type": "string"}},
			"allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
			"if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
			"then": {"required": ["phone"]},
			"else": {"required": ["email"]},
			"additionalProperties": false}`),
	}, func(_ context.Context, args json.RawMessage) (string, error) { return string(args), nil })
	mcp.AddTool(s, mcp.Tool{
		Name: "test_header_argument", Description: "Has an argument that clients repeat in a header, over HTTP.",
		InputSchema: json.RawMessage(`{"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}, "additionalProperties": false}`),
	}, func(_ context.Context, args json.RawMessage) (string, error) { return string(args), nil })
	type sum struct {
		Sum int `json:"sum" jsonschema:"of a and b"`
	}
	mcp.AddTool(s, mcp.Tool{
		Name: "add", Title: "Add", Description: "Adds two numbers.",
		Annotations: mcp.ToolAnnotations{ReadOnlyHint: mcp.Yes, OpenWorldHint: mcp.No},
	}, func(_ context.Context, in struct {
		A int `json:"a"`
		B int `json:"b"`
	}) (sum, error) {
		return sum{in.A + in.B}, nil
	})
}

func addRunning(s *mcp.Server) {
	logger := slog.New(s.LogHandler("everything"))
	tool(s, "test_tool_with_logging", "Logs while it runs.", func(ctx context.Context) (string, error) {
		for _, message := range []string{"Tool execution started", "Tool processing data", "Tool execution completed"} {
			logger.InfoContext(ctx, message)
			if err := pause(ctx, 50*time.Millisecond); err != nil {
				return "", err
			}
		}
		return "logged", nil
	})
	tool(s, "test_logging_tool", "Logs, if the request asks for it.", func(ctx context.Context) (string, error) {
		logger.InfoContext(ctx, "called", "tool", "test_logging_tool")
		return "logged", nil
	})
	tool(s, "test_tool_with_progress", "Reports progress.", func(ctx context.Context) (string, error) {
		for _, done := range []float64{0, 50, 100} {
			mcp.Progress(ctx, done, 100, fmt.Sprintf("%v %%", done))
			if err := pause(ctx, 50*time.Millisecond); err != nil {
				return "", err
			}
		}
		return "done", nil
	})
	mcp.AddTool(s, mcp.Tool{Name: "slow", Description: "Reports progress, takes a while, and can be cancelled."},
		func(ctx context.Context, in struct {
			Seconds float64 `json:"seconds" default:"60" minimum:"0"`
		}) (string, error) {
			mcp.Progress(ctx, 0, in.Seconds, "begun")
			return "done", pause(ctx, time.Duration(in.Seconds*float64(time.Second)))
		})
	change := func(context.Context, none) (string, error) { return "called", nil }
	tool(s, "test_trigger_tool_change", "Adds a tool and removes it.", func(context.Context) (string, error) {
		mcp.AddTool(s, mcp.Tool{Name: "now_you_see_me", Description: "Exists for a moment."}, change)
		s.RemoveTools("now_you_see_me")
		return "changed", nil
	})
	tool(s, "test_trigger_prompt_change", "Adds a prompt and removes it.", func(context.Context) (string, error) {
		s.AddPrompt(mcp.Prompt{Name: "now_you_see_me", Description: "Exists for a moment."},
			func(context.Context, map[string]string) ([]mcp.PromptMessage, error) { return nil, nil })
		s.RemovePrompts("now_you_see_me")
		return "changed", nil
	})
	tool(s, "touch_watched_resource", "Changes test://watched-resource.", func(context.Context) (string, error) {
		s.ResourceUpdated("test://watched-resource")
		return "touched", nil
	})
	tool(s, "test_missing_capability", "Needs a client with sampling.", func(ctx context.Context) (string, error) {
		_, err := sample(ctx, "Say something.", 10)
		return "sampled", err
	})
}

// pause waits for d, or until the context ends.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// sample asks the client's model.
func sample(ctx context.Context, prompt string, maxTokens int) (string, error) {
	type message struct {
		Role    string      `json:"role"`
		Content mcp.Content `json:"content"`
	}
	var answer struct{ Content struct{ Text string } }
	err := ask(ctx, "sampling/createMessage", map[string]any{
		"messages":  []message{{"user", mcp.Text(prompt)}},
		"maxTokens": maxTokens,
	}, &answer)
	return answer.Content.Text, err
}

type root struct {
	URI  string `json:"uri"`
	Name string `json:"name,omitempty"`
}

// listRoots asks for the directories that the client works on.
func listRoots(ctx context.Context) ([]root, error) {
	var answer struct{ Roots []root }
	err := ask(ctx, "roots/list", nil, &answer)
	if err == nil && answer.Roots == nil {
		err = errors.New("the client's response has no roots")
	}
	return answer.Roots, err
}

// ask asks the client, and decodes its response.
func ask(ctx context.Context, method string, params, answer any) error {
	raw, err := mcp.Ask(ctx, method, params)
	if err != nil {
		return err
	}
	return json.Unmarshal(raw, answer)
}

// outcome describes the user's answer to a form.
func outcome(what string, content any, err error) (string, error) {
	action := "accept"
	switch {
	case errors.Is(err, mcp.ErrDeclined):
		action = "decline"
	case errors.Is(err, mcp.ErrDismissed):
		action = "cancel"
	case err != nil:
		return "", err
	}
	raw, err := json.Marshal(content)
	return fmt.Sprintf("%s: action=%s, content=%s", what, action, raw), err
}

type defaults struct {
	Name     string  `json:"name" default:"John Doe"`
	Age      int     `json:"age" default:"30"`
	Score    float64 `json:"score" default:"95.5"`
	Status   string  `json:"status" enum:"active,inactive,pending" default:"active"`
	Verified bool    `json:"verified" default:"true"`
}

func addAsking(s *mcp.Server) {
	mcp.AddTool(s, mcp.Tool{Name: "test_sampling", Description: "Asks the client's model."},
		func(ctx context.Context, in struct {
			Prompt string `json:"prompt"`
		}) (string, error) {
			text, err := sample(ctx, in.Prompt, 100)
			return "LLM response: " + text, err
		})
	mcp.AddTool(s, mcp.Tool{Name: "test_elicitation", Description: "Asks the user."},
		func(ctx context.Context, in struct {
			Message string `json:"message"`
		}) (string, error) {
			type form struct {
				Username string `json:"username" jsonschema:"User's response"`
				Email    string `json:"email" jsonschema:"User's email address"`
			}
			f, err := mcp.Elicit[form](ctx, in.Message)
			return outcome("User response", f, err)
		})
	tool(s, "test_elicitation_sep1034_defaults", "Asks the user, with defaults.", func(ctx context.Context) (string, error) {
		f, err := mcp.Elicit[defaults](ctx, "Please check these.")
		return outcome("Elicitation completed", f, err)
	})
	tool(s, "test_elicitation_sep1330_enums", "Asks the user to choose.", func(ctx context.Context) (string, error) {
		content, err := mcp.ElicitSchema(ctx, "Please choose.", json.RawMessage(`{"type": "object", "properties": {
			"untitledSingle": {"type": "string", "enum": ["option1", "option2", "option3"]},
			"titledSingle": {"type": "string", "oneOf": [
				{"const": "value1", "title": "First Option"},
				{"const": "value2", "title": "Second Option"},
				{"const": "value3", "title": "Third Option"}]},
			"legacyEnum": {"type": "string", "enum": ["opt1", "opt2", "opt3"],
				"enumNames": ["Option One", "Option Two", "Option Three"]},
			"untitledMulti": {"type": "array", "items": {"type": "string", "enum": ["option1", "option2", "option3"]}},
			"titledMulti": {"type": "array", "items": {"anyOf": [
				{"const": "value1", "title": "First Choice"},
				{"const": "value2", "title": "Second Choice"},
				{"const": "value3", "title": "Third Choice"}]}}}}`))
		return outcome("Elicitation completed", content, err)
	})
	tool(s, "test_streaming_elicitation", "Reports progress and asks.", func(ctx context.Context) (string, error) {
		mcp.Progress(ctx, 1, 2, "about to ask")
		name, err := askName(ctx)
		return "Hello, " + name + "!", err
	})
	tool(s, "test_url_elicitation", "Sends the user to a page.", func(ctx context.Context) (string, error) {
		err := mcp.ElicitURL(ctx, "Please log in.", "https://example.com/login")
		return "on the way", err
	})
	tool(s, "roots", "Returns the roots of the client.", func(ctx context.Context) ([]root, error) {
		return listRoots(ctx)
	})
}

func askName(ctx context.Context) (string, error) {
	type form struct {
		Name string `json:"name"`
	}
	f, err := mcp.Elicit[form](ctx, "What is your name?")
	return f.Name, err
}

func confirm(ctx context.Context) (bool, error) {
	type form struct {
		OK bool `json:"ok"`
	}
	f, err := mcp.Elicit[form](ctx, "Please confirm")
	return f.OK, err
}

// addTasks adds the tools whose calls become tasks, if the client supports tasks.
func addTasks(s *mcp.Server) {
	mcp.AddTool(s, mcp.Tool{Name: "greet", Description: "Greets a person at once."},
		func(_ context.Context, in struct {
			Name string `json:"name"`
		}) (string, error) {
			return "Hello, " + in.Name + "!", nil
		})
	mcp.AddTool(s, mcp.Tool{Name: "slow_compute", Description: "Reports progress and takes a while.", TaskAfter: taskAfter},
		func(ctx context.Context, in struct {
			Seconds float64 `json:"seconds" default:"60" minimum:"0"`
			Label   string  `json:"label,omitempty"`
		}) (string, error) {
			mcp.Progress(ctx, 0, in.Seconds, "computing")
			return "computed", pause(ctx, time.Duration(in.Seconds*float64(time.Second)))
		})
	mcp.AddTool(s, mcp.Tool{Name: "confirm_delete", Description: "Asks before it deletes a file, or would.", TaskAfter: taskAfter},
		func(ctx context.Context, in struct {
			Filename string `json:"filename"`
		}) (string, error) {
			if err := pause(ctx, 2*taskAfter); err != nil { // a question that is asked before the call becomes a task ends the call
				return "", err
			}
			return "deleted " + in.Filename, mcp.Confirm(ctx, "Delete "+in.Filename+"?")
		})
	long := func(name, description string, h func(context.Context) (string, error)) {
		mcp.AddTool(s, mcp.Tool{Name: name, Description: description, TaskAfter: taskAfter}, func(ctx context.Context, _ none) (string, error) {
			return h(ctx)
		})
	}
	long("failing_job", "Fails after a second, and at once if the client does not support tasks.", func(ctx context.Context) (string, error) {
		var client struct{ Extensions map[string]any }
		if json.Unmarshal(mcp.RequestFrom(ctx).Capabilities, &client); client.Extensions[tasks] == nil {
			return "", &mcp.Error{
				Code: -32021, Message: "failing_job needs a client that supports tasks",
				Data: map[string]any{"requiredCapabilities": map[string]any{"extensions": map[string]any{tasks: map[string]any{}}}},
			}
		}
		return "", cmp.Or(pause(ctx, time.Second), errors.New("the job has failed"))
	})
	long("protocol_error_job", "Fails with an error of the protocol.", func(ctx context.Context) (string, error) {
		return "", cmp.Or[error](pause(ctx, 2*taskAfter), &mcp.Error{Code: -32603, Message: "the job has failed"})
	})
	long("multi_input", "Asks two things at once.", func(ctx context.Context) (string, error) {
		if err := pause(ctx, 2*taskAfter); err != nil {
			return "", err
		}
		var name string
		var sure bool
		var errs [2]error
		var asking sync.WaitGroup
		asking.Go(func() { name, errs[0] = askName(ctx) })
		asking.Go(func() { sure, errs[1] = confirm(ctx) })
		asking.Wait()
		return fmt.Sprintf("%s, %v", name, sure), errors.Join(errs[:]...)
	})
	long("test_tool_with_task", "Asks in a round, and then becomes a task.", func(ctx context.Context) (string, error) {
		name, err := askName(ctx)
		if err != nil {
			return "", err
		}
		return "Hello, " + name + "!", pause(ctx, 2*taskAfter)
	})
}

const (
	tasks     = "io.modelcontextprotocol/tasks"
	taskAfter = 100 * time.Millisecond // short, because the conformance suite waits for it
)

// addRounds adds the tools that take several rounds in revision 2026-07-28.
func addRounds(s *mcp.Server) {
	const prefix = "test_input_required_result_"
	tool(s, prefix+"elicitation", "Asks for a name.", func(ctx context.Context) (string, error) {
		name, err := askName(ctx)
		return "Hello, " + name + "!", err
	})
	tool(s, prefix+"sampling", "Asks the model.", func(ctx context.Context) (string, error) {
		return sample(ctx, "What is the capital of France?", 100)
	})
	tool(s, prefix+"list_roots", "Asks for roots.", func(ctx context.Context) ([]root, error) {
		return listRoots(ctx)
	})
	for _, name := range []string{"request_state", "tampered_state"} {
		tool(s, prefix+name, "Asks for confirmation.", func(ctx context.Context) (string, error) {
			ok, err := confirm(ctx)
			return fmt.Sprintf("state-ok %v", ok), err
		})
	}
	tool(s, prefix+"multiple_inputs", "Asks three things at once.", func(ctx context.Context) (string, error) {
		name, err1 := askName(ctx)
		greeting, err2 := sample(ctx, "Generate a greeting", 50)
		roots, err3 := listRoots(ctx)
		return fmt.Sprintf("%s, %s, %d roots", greeting, name, len(roots)), errors.Join(err1, err2, err3)
	})
	tool(s, prefix+"multi_round", "Asks one thing after the other.", func(ctx context.Context) (string, error) {
		type step1 struct {
			Name string `json:"name"`
		}
		type step2 struct {
			Color string `json:"color"`
		}
		one, err := mcp.Elicit[step1](ctx, "Step 1: What is your name?")
		if err != nil {
			return "", err
		}
		two, err := mcp.Elicit[step2](ctx, "Step 2: What is your favorite color?")
		return one.Name + " likes " + two.Color, err
	})
	tool(s, prefix+"capabilities", "Asks what the client can be asked.", func(ctx context.Context) (string, error) {
		name, err := askName(ctx)
		if errors.Is(err, errors.ErrUnsupported) {
			return sample(ctx, "Make up a name.", 10)
		}
		return name, err
	})
}

func addPrompts(s *mcp.Server) {
	text := func(text string) []mcp.PromptMessage { return []mcp.PromptMessage{{Content: mcp.Text(text)}} }
	s.AddPrompt(mcp.Prompt{Name: "test_simple_prompt", Description: "A text."},
		func(context.Context, map[string]string) ([]mcp.PromptMessage, error) {
			return text("This is a simple prompt for testing."), nil
		})
	s.AddPrompt(mcp.Prompt{
		Name: "test_prompt_with_arguments", Description: "A text with two arguments.",
		Arguments: []mcp.PromptArgument{
			{Name: "arg1", Description: "The first.", Required: true, Complete: func(_ context.Context, typed string, _ map[string]string) ([]string, error) {
				return []string{typed + "1", typed + "2"}, nil
			}},
			{Name: "arg2", Description: "The second.", Required: true},
		},
	}, func(_ context.Context, args map[string]string) ([]mcp.PromptMessage, error) {
		return text(fmt.Sprintf("Prompt with arguments: arg1='%s', arg2='%s'", args["arg1"], args["arg2"])), nil
	})
	s.AddPrompt(mcp.Prompt{
		Name: "test_prompt_with_embedded_resource", Description: "A resource and a text.",
		Arguments: []mcp.PromptArgument{{Name: "resourceUri", Description: "Of the resource.", Required: true}},
	}, func(_ context.Context, args map[string]string) ([]mcp.PromptMessage, error) {
		return []mcp.PromptMessage{
			{Content: mcp.EmbeddedResource(mcp.ResourceContents{URI: args["resourceUri"], MIMEType: "text/plain", Text: "Embedded resource content for testing."})},
			{Content: mcp.Text("Please process the embedded resource above.")},
		}, nil
	})
	s.AddPrompt(mcp.Prompt{Name: "test_prompt_with_image", Description: "An image and a text."},
		func(context.Context, map[string]string) ([]mcp.PromptMessage, error) {
			return []mcp.PromptMessage{{Content: mcp.Image(png, "image/png")}, {Content: mcp.Text("Please analyze the image above.")}}, nil
		})
	s.AddPrompt(mcp.Prompt{Name: "test_input_required_result_prompt", Description: "Asks for the context first."},
		func(ctx context.Context, _ map[string]string) ([]mcp.PromptMessage, error) {
			type form struct {
				Context string `json:"context"`
			}
			f, err := mcp.Elicit[form](ctx, "What context should the prompt use?")
			return text("Prompt with context: " + f.Context), err
		})
}

func addResources(s *mcp.Server) {
	fixed := func(uri, name, mimeType string, contents mcp.ResourceContents) {
		s.AddResource(mcp.Resource{URI: uri, Name: name, Description: "A resource for testing.", MIMEType: mimeType},
			func(context.Context, string, map[string]string) ([]mcp.ResourceContents, error) {
				return []mcp.ResourceContents{contents}, nil
			})
	}
	fixed("test://static-text", "static-text", "text/plain", mcp.ResourceContents{Text: "This is the content of the static text resource."})
	fixed("test://static-binary", "static-binary", "image/png", mcp.ResourceContents{Blob: png})
	fixed("test://watched-resource", "watched-resource", "text/plain", mcp.ResourceContents{Text: "Watched resource content"})
	s.AddResource(mcp.Resource{
		URI: "test://template/{id}/data", Name: "template", Description: "Data by its id.", MIMEType: "application/json",
		Complete: map[string]mcp.CompleteFunc{"id": func(_ context.Context, typed string, _ map[string]string) ([]string, error) {
			return []string{typed + "1", typed + "2", typed + "3"}, nil
		}},
	}, func(_ context.Context, _ string, vars map[string]string) ([]mcp.ResourceContents, error) {
		data, err := json.Marshal(map[string]any{"id": vars["id"], "templateTest": true, "data": "Data for ID: " + vars["id"]})
		return []mcp.ResourceContents{{Text: string(data)}}, err
	})
}
