// Command server is the server of the soak test. Its tools return, ask the client, report
// progress and fail in every way, and take as long as their arguments say.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"example.com/mcp"
)

const stuck = 3 // the exit status for ErrWaitDelay

var logger *slog.Logger

func main() {
	s := &mcp.Server{Name: "soak", Version: "1"}
	logger = slog.New(s.LogHandler("soak"))
	flag.DurationVar(&s.WaitDelay, "drain", 0, "the `time` of Server.WaitDelay")
	flag.DurationVar(&s.CancelDelay, "linger", 0, "the `time` of Server.CancelDelay")
	flag.IntVar(&s.MaxConcurrent, "concurrent", 0, "the `number` of handlers of Server.MaxConcurrent")
	flag.IntVar(&s.MaxMessageBytes, "message", 0, "the `bytes` of Server.MaxMessageBytes")
	flag.Parse()
	addTools(s)
	addWaiting(s)
	err := s.ServeStdio(context.Background())
	switch {
	case errors.Is(err, mcp.ErrWaitDelay):
		log.Print(err)
		os.Exit(stuck)
	case err != nil:
		log.Fatal(err)
	}
}

// An input holds the arguments of all tools. Text is repeated in the result.
type input struct {
	Text    string `json:"text,omitempty"`
	What    string `json:"what,omitempty"`
	Micros  int    `json:"micros,omitempty"`
	N       int    `json:"n,omitempty"`
	Deaf    bool   `json:"deaf,omitempty"`    // the handler ignores ctx
	Spin    bool   `json:"spin,omitempty"`    // the handler uses the CPU and does not sleep
	Timeout int    `json:"timeout,omitempty"` // time limit of a question, in microseconds
}

func addTools(s *mcp.Server) {
	tool := func(name string, h func(context.Context, input) (string, error)) {
		mcp.AddTool(s, mcp.Tool{Name: name, Description: "Soaks."}, func(ctx context.Context, in input) (string, error) {
			// The client compares the id before and after, to find a buffer that was reused too early.
			before := string(mcp.RequestFrom(ctx).ID)
			if err := in.wait(ctx); err != nil {
				return "", err
			}
			text, err := h(ctx, in)
			return fmt.Sprintf("%s|%s|%s", before, mcp.RequestFrom(ctx).ID, text), err
		})
	}
	tool("echo", func(_ context.Context, in input) (string, error) { return in.Text, nil })
	tool("big", func(_ context.Context, in input) (string, error) { return strings.Repeat("x", in.N), nil })
	tool("fail", func(_ context.Context, in input) (string, error) { return "", errors.New(in.Text) })
	tool("panic", func(context.Context, input) (string, error) { panic("as requested") })
	tool("goexit", func(context.Context, input) (string, error) { runtime.Goexit(); return "", nil })
	tool("print", func(_ context.Context, in input) (string, error) {
		fmt.Println("stray output", in.Text)
		return in.Text, nil
	})
	tool("child", func(ctx context.Context, in input) (string, error) {
		cmd := exec.CommandContext(ctx, "/bin/sh", "-c", "cat; echo stray output of a child")
		cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
		return in.Text, cmd.Run()
	})
	tool("burst", func(ctx context.Context, in input) (string, error) {
		for i := range in.N {
			mcp.Progress(ctx, float64(i+1), float64(in.N), in.Text)
			mcp.Progress(ctx, float64(i), 0, "less than before")
			logger.InfoContext(ctx, in.Text)
		}
		return in.Text, ctx.Err()
	})
	tool("stray", func(ctx context.Context, in input) (string, error) { // continues after it has returned
		go func() {
			for i := range 20 {
				mcp.Progress(ctx, float64(i), 0, "")
				logger.InfoContext(ctx, in.Text)
				time.Sleep(100 * time.Microsecond)
			}
			mcp.Ask(ctx, "roots/list", nil)
		}()
		return in.Text, nil
	})
	tool("ask", func(ctx context.Context, in input) (string, error) {
		for range max(in.N, 1) {
			err := ask(ctx, in)
			if err != nil && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, mcp.ErrDeclined) {
				return "", err
			}
		}
		return in.Text, nil
	})
	tool("change", func(ctx context.Context, in input) (string, error) {
		switch in.What {
		case "tools":
			tool("extra", func(context.Context, input) (string, error) { return "", nil })
			s.RemoveTools("extra")
		case "resources":
			s.AddResource(mcp.Resource{URI: "soak://extra", Name: "extra"}, read)
			s.RemoveResources("soak://extra")
		case "prompts":
			s.AddPrompt(mcp.Prompt{Name: "extra"}, prompt)
			s.RemovePrompts("extra")
		default:
			s.ResourceUpdated("soak://0")
		}
		return in.Text, nil
	})
	tool("stats", func(context.Context, input) (string, error) {
		files, err := os.ReadDir("/proc/self/fd")
		return fmt.Sprintf("%d %d", runtime.NumGoroutine(), len(files)), err
	})
}

// wait blocks for the time in the input.
func (in input) wait(ctx context.Context) error {
	d := time.Duration(in.Micros) * time.Microsecond
	switch {
	case in.Micros == 0:
	case in.Spin:
		for begin := time.Now(); time.Since(begin) < d; {
		}
	case in.Deaf:
		time.Sleep(d)
	default:
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// ask sends one question to the client. It contains in.Text, unless it asks for roots.
func ask(ctx context.Context, in input) (err error) {
	if in.Deaf {
		ctx = context.WithoutCancel(ctx)
	}
	if in.Timeout > 0 && mcp.RequestFrom(ctx).ProtocolVersion < "2026" {
		var cancel func()
		ctx, cancel = context.WithTimeout(ctx, time.Duration(in.Timeout)*time.Microsecond)
		defer cancel()
	}
	switch in.What {
	case "elicit":
		_, err = mcp.Elicit[struct {
			Name string `json:"name"`
		}](ctx, in.Text)
	case "sample":
		_, err = mcp.Ask(ctx, "sampling/createMessage", map[string]any{"maxTokens": 9, "systemPrompt": in.Text, "messages": []string{}})
	default:
		_, err = mcp.Ask(ctx, "roots/list", nil)
	}
	return err
}

// addWaiting adds a resource and a prompt whose handlers wait. The URI or the argument
// holds the time in microseconds.
func addWaiting(s *mcp.Server) {
	s.AddResource(mcp.Resource{URI: "soak://{micros}", Name: "wait"}, read)
	s.AddPrompt(mcp.Prompt{Name: "wait", Arguments: []mcp.PromptArgument{{Name: "micros",
		Complete: func(ctx context.Context, typed string, _ map[string]string) ([]string, error) {
			return []string{typed}, waitFor(ctx, typed)
		}}}}, prompt)
}

func waitFor(ctx context.Context, micros string) error {
	var in input
	json.Unmarshal([]byte(micros), &in.Micros)
	return in.wait(ctx)
}

func read(ctx context.Context, _ string, vars map[string]string) ([]mcp.ResourceContents, error) {
	return []mcp.ResourceContents{{Text: vars["micros"]}}, waitFor(ctx, vars["micros"])
}

func prompt(ctx context.Context, args map[string]string) ([]mcp.PromptMessage, error) {
	return []mcp.PromptMessage{{Content: mcp.Text(args["micros"])}}, waitFor(ctx, args["micros"])
}
