package docs

type convertIn struct {
	Files []string `json:"files"`
}
