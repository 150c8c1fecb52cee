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
