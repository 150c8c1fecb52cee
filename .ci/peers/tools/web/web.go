// Package web runs the servers of the comparison over HTTP.
package web

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
)

// Serve prints its address and serves until stdin ends.
func Serve(h http.Handler) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(listener.Addr())
	go http.Serve(listener, h)
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}
