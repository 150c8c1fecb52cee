package docs

import (
	"context"

	"example.com/mcp"
)

type dropIn struct {
	Table string `json:"table"`
}

func drop(ctx context.Context, in dropIn) (string, error) {
	return "deleted", mcp.Confirm(ctx, "Delete "+in.Table+"?")
}

func newServer() *mcp.Server {
	s := &mcp.Server{Name: "db", Version: "1.0.0"}
	mcp.AddTool(s, mcp.Tool{Name: "drop", Description: "Drops a table."}, drop)
	return s
}
