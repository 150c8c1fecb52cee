package docs

type queryIn struct {
	SQL string `json:"sql"`
}
