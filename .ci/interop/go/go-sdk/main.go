// The client of github.com/modelcontextprotocol/go-sdk: go-sdk VERSION COMMAND [ARG...], or a URL
// in place of COMMAND
package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"

	"example.com/mcp/interop/steps"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func main() { steps.Run(connect) }

func connect() (*steps.Client, error) {
	client := mcp.NewClient(&mcp.Implementation{Name: "interop", Version: "1.0.0"}, &mcp.ClientOptions{
		Capabilities: &mcp.ClientCapabilities{
			RootsV2:     &mcp.RootCapabilities{ListChanged: true},
			Elicitation: &mcp.ElicitationCapabilities{Form: &mcp.FormElicitationCapabilities{}, URL: &mcp.URLElicitationCapabilities{}},
		},
		CreateMessageHandler: func(_ context.Context, r *mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
			return steps.AnswerAs[*mcp.CreateMessageResult]("sampling/createMessage", r.Params)
		},
		ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return steps.AnswerAs[*mcp.ElicitResult]("elicitation/create", r.Params)
		},
		ToolListChangedHandler: func(_ context.Context, r *mcp.ToolListChangedRequest) {
			steps.Notify("notifications/tools/list_changed", r.Params)
		},
		PromptListChangedHandler: func(_ context.Context, r *mcp.PromptListChangedRequest) {
			steps.Notify("notifications/prompts/list_changed", r.Params)
		},
		ResourceUpdatedHandler: func(_ context.Context, r *mcp.ResourceUpdatedNotificationRequest) {
			steps.Notify("notifications/resources/updated", r.Params)
		},
		LoggingMessageHandler: func(_ context.Context, r *mcp.LoggingMessageRequest) {
			steps.Notify("notifications/message", r.Params)
		},
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
			steps.Notify("notifications/progress", r.Params)
		},
	})
	client.AddRoots(&mcp.Root{URI: "file:///srv/ann", Name: "ann"})
	cmd := exec.Command(os.Args[2], os.Args[3:]...)
	cmd.Stderr = os.Stderr
	var transport mcp.Transport = &mcp.CommandTransport{Command: cmd}
	if strings.HasPrefix(os.Args[2], "http:") {
		transport = &mcp.StreamableClientTransport{Endpoint: os.Args[2]}
	}
	s, err := client.Connect(context.Background(), transport, &mcp.ClientSessionOptions{ProtocolVersion: os.Args[1]})
	if err != nil {
		return nil, err
	}
	do := func(ctx context.Context, method string, params any) (any, error) {
		switch method {
		case "tools/list":
			return steps.Send(ctx, params, s.ListTools)
		case "tools/call":
			return steps.Send(ctx, params, s.CallTool)
		case "resources/list":
			return steps.Send(ctx, params, s.ListResources)
		case "resources/templates/list":
			return steps.Send(ctx, params, s.ListResourceTemplates)
		case "resources/read":
			return steps.Send(ctx, params, s.ReadResource)
		case "resources/subscribe":
			return steps.Send(ctx, params, steps.NoResult(s.Subscribe))
		case "resources/unsubscribe":
			return steps.Send(ctx, params, steps.NoResult(s.Unsubscribe))
		case "prompts/list":
			return steps.Send(ctx, params, s.ListPrompts)
		case "prompts/get":
			return steps.Send(ctx, params, s.GetPrompt)
		case "completion/complete":
			return steps.Send(ctx, params, s.Complete)
		case "logging/setLevel":
			return steps.Send(ctx, params, steps.NoResult(s.SetLoggingLevel))
		}
		return nil, errors.ErrUnsupported
	}
	rootsChanged := func() error {
		client.AddRoots(&mcp.Root{URI: "file:///srv/bob", Name: "bob"})
		return nil
	}
	return &steps.Client{
		Version: s.InitializeResult().ProtocolVersion, Wanted: os.Args[1],
		Do: do, RootsChanged: rootsChanged, Close: s.Close,
		Lacks: map[string]string{"close at work": "its Close waits for open calls, and leaves stdin open meanwhile"},
	}, nil
}
