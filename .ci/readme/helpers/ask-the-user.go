package docs

type dropIn struct {
	Table string `json:"table"`
}

func count(table string) (int, error) { return len(table), nil }

func remove(table string) error { return nil }
