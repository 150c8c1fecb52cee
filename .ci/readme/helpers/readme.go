package docs

type removeIn struct {
	Path string `json:"path"`
}
