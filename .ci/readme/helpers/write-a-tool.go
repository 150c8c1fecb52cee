package docs

type book struct{ Title, Note string }

func load(id string) book { return book{Title: id} }

func (b book) save() error { return nil }
