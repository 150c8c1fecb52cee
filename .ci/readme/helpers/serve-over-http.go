package docs

import "errors"

type userKey struct{}

func userOf(authorization string) (string, error) {
	if authorization == "" {
		return "", errors.New("no token")
	}
	return authorization, nil
}
