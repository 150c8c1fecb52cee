// Members serves a tool, a resource, a template and a prompt with all members that
// the library can send, also those that came with later revisions of the protocol.
// Clients of every revision must accept them.
package main

import (
	"context"
	"log"
	"time"

	"example.com/mcp"
)

var (
	icons  = []mcp.Icon{{Src: "https://example.com/icon.png", MIMEType: "image/png", Sizes: []string{"48x48"}, Theme: "dark"}}
	meta   = map[string]any{"example.com/key": "value"}
	recent = mcp.Annotations{Audience: []mcp.Role{mcp.RoleUser}, LastModified: time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)}
)

type place struct {
	City string `json:"city"`
}

type weather struct {
	City    string `json:"city"`
	Celsius int    `json:"celsius"`
}

func main() {
	s := &mcp.Server{
		Name: "members", Version: "1.0.0", Title: "All members",
		Instructions: "Ask for the weather.", WebsiteURL: "https://example.com", Icons: icons,
	}
	mcp.AddTool(s, mcp.Tool{
		Name: "weather", Title: "Weather", Description: "Returns the weather of a city.",
		Annotations: mcp.ToolAnnotations{Title: "Weather", ReadOnlyHint: mcp.Yes}, Icons: icons, Meta: meta,
	}, func(ctx context.Context, in place) (weather, error) {
		mcp.Progress(ctx, 1, 2, "halfway")
		return weather{City: in.City, Celsius: 21}, nil
	})
	// The result of this tool has members too.
	mcp.AddTool(s, mcp.Tool{Name: "note", Description: "Returns a note."}, func(context.Context, struct{}) (*mcp.Result, error) {
		text := mcp.Text("a note")
		text.Annotations, text.Meta = recent, meta
		return &mcp.Result{Content: []mcp.Content{text}, Meta: meta}, nil
	})
	for _, uri := range []string{"test://note", "test://notes/{id}"} {
		s.AddResource(mcp.Resource{
			URI: uri, Name: "note", Title: "Note", Description: "A note.", MIMEType: "text/plain", Size: 6,
			Annotations: recent, Icons: icons, Meta: meta,
		}, func(context.Context, string, map[string]string) ([]mcp.ResourceContents, error) {
			return []mcp.ResourceContents{{Text: "a note", Meta: meta}}, nil
		})
	}
	s.AddPrompt(mcp.Prompt{
		Name: "forecast", Title: "Forecast", Description: "Asks for a forecast.", Icons: icons, Meta: meta,
		Arguments: []mcp.PromptArgument{{Name: "city", Title: "City", Description: "The city.", Required: true}},
	}, func(_ context.Context, args map[string]string) ([]mcp.PromptMessage, error) {
		text := mcp.Text("Will it rain in " + args["city"] + "?")
		text.Annotations, text.Meta = recent, meta
		return []mcp.PromptMessage{{Content: text}}, nil
	})
	if err := s.ServeStdio(context.Background()); err != nil {
		log.Fatal(err)
	}
}
