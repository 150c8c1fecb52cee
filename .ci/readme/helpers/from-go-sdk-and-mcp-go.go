package docs

type greetIn struct {
	Name string `json:"name"`
}
