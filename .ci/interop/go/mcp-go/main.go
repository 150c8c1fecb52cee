// The client of github.com/mark3labs/mcp-go: mcp-go VERSION COMMAND [ARG...], or a URL in place
// of COMMAND
package main

import (
	"context"
	"errors"
	"os"
	"strings"

	"example.com/mcp/interop/steps"
	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
)

func main() { steps.Run(connect) }

type host struct{}

func (host) Elicit(_ context.Context, r mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
	return steps.AnswerAs[*mcp.ElicitationResult]("elicitation/create", r.Params)
}

func (host) CreateMessage(_ context.Context, r mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
	return steps.AnswerAs[*mcp.CreateMessageResult]("sampling/createMessage", r.CreateMessageParams)
}

func (host) ListRoots(context.Context, mcp.ListRootsRequest) (*mcp.ListRootsResult, error) {
	return steps.AnswerAs[*mcp.ListRootsResult]("roots/list", nil)
}

func connect() (*steps.Client, error) {
	ctx := context.Background()
	var server transport.Interface = transport.NewStdioWithOptions(os.Args[2], nil, os.Args[3:], transport.WithCommandStderrWriter(os.Stderr))
	if strings.HasPrefix(os.Args[2], "http:") {
		var err error
		if server, err = transport.NewStreamableHTTP(os.Args[2]); err != nil {
			return nil, err
		}
	}
	c := client.NewClient(server,
		client.WithProtocolVersion(os.Args[1]), client.WithElicitationHandler(host{}), client.WithSamplingHandler(host{}),
		client.WithRootsHandler(host{}), client.WithClientCapabilities(mcp.ClientCapabilities{
			Elicitation: &mcp.ElicitationCapability{Form: &struct{}{}, URL: &struct{}{}},
		}))
	c.OnNotification(func(n mcp.JSONRPCNotification) { steps.Notify(n.Method, n.Params) })
	if err := c.Start(ctx); err != nil {
		return nil, err
	}
	var hello mcp.InitializeRequest
	hello.Params.ProtocolVersion = os.Args[1]
	hello.Params.ClientInfo = mcp.Implementation{Name: "interop", Version: "1.0.0"}
	if _, err := c.Initialize(ctx, hello); err != nil {
		return nil, err
	}
	do := func(ctx context.Context, method string, params any) (any, error) {
		request := steps.Values{"method": method, "params": params}
		switch method {
		case "tools/list":
			return steps.Send(ctx, request, c.ListTools)
		case "tools/call":
			return steps.Send(ctx, request, c.CallTool)
		case "resources/list":
			return steps.Send(ctx, request, c.ListResources)
		case "resources/templates/list":
			return steps.Send(ctx, request, c.ListResourceTemplates)
		case "resources/read":
			return steps.Send(ctx, request, c.ReadResource)
		case "resources/subscribe":
			return steps.Send(ctx, request, steps.NoResult(c.Subscribe))
		case "resources/unsubscribe":
			return steps.Send(ctx, request, steps.NoResult(c.Unsubscribe))
		case "prompts/list":
			return steps.Send(ctx, request, c.ListPrompts)
		case "prompts/get":
			return steps.Send(ctx, request, c.GetPrompt)
		case "completion/complete":
			return steps.Send(ctx, request, c.Complete)
		case "logging/setLevel":
			return steps.Send(ctx, request, steps.NoResult(c.SetLevel))
		}
		return nil, errors.ErrUnsupported
	}
	client := &steps.Client{
		Version: c.ProtocolVersion(), Wanted: os.Args[1],
		Do: do, RootsChanged: func() error { return c.RootListChanges(ctx) }, Close: c.Close,
	}
	if mcp.IsModernProtocol(client.Version) {
		client.Listen = func(filter any) func() {
			f, err := steps.As[mcp.SubscriptionFilter](filter)
			if err != nil {
				panic(err)
			}
			stop, err := c.ListenAsync(ctx, f, nil)
			if err != nil {
				panic(err)
			}
			steps.Await("notifications/subscriptions/acknowledged")
			return stop
		}
	}
	return client, nil
}
