package docs

import (
	"context"
	"time"
)

type releaseIn struct {
	Packages []string `json:"packages"`
}

func build(context.Context, string) error { time.Sleep(time.Minute); return nil }

func publish(context.Context, []string) error { return nil }
