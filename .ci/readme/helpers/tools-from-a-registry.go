package docs

import "context"

type searchIn struct {
	Text string `json:"text"`
}

func search(ctx context.Context, in searchIn) ([]string, error) { return []string{in.Text}, nil }

func count(ctx context.Context, _ struct{}) (int, error) { return 1, nil }
