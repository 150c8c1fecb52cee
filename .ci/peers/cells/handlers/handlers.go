// Package handlers holds what the handlers of all three servers do.
package handlers

import (
	"context"
	"fmt"
	"time"
)

// Call is how long a call takes.
const Call = 5 * time.Second

type None struct{}

// Search is the argument of the README's tool search.
type Search struct {
	Text  string `json:"text" jsonschema:"at least 2 letters" minLength:"2"`
	Kind  string `json:"kind,omitempty" jsonschema:"go (default) or md" enum:"go,md" default:"go"`
	Limit int    `json:"limit,omitempty" jsonschema:"1 to 100, default 20" minimum:"1" maximum:"100" default:"20"`
}

// Labels has a map that is nil.
type Labels struct {
	Labels map[string]string `json:"labels"`
}

// Aware looks at its context.
func Aware(ctx context.Context) (string, error) {
	select {
	case <-ctx.Done():
		return "", fmt.Errorf("stopped: %w", context.Cause(ctx))
	case <-time.After(Call):
		return "done", nil
	}
}

// Deaf does not look at its context.
func Deaf(context.Context) (string, error) {
	time.Sleep(Call)
	return "done", nil
}

func Panics(context.Context) (string, error) { panic("oh") }

func Prints(context.Context) (string, error) {
	fmt.Println("a line of fmt.Println")
	return "printed", nil
}
