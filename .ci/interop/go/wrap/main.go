// Wrap starts a server for a client, with the client's own stdin, stdout and
// stderr, forwards signals, and records in a directory the messages and how the
// server ended.
//
//	wrap DIR SERVER [ARG...]
package main

import (
	"errors"
	"fmt"
	"log"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
)

func main() {
	// Signals are caught before the server starts, so that none is lost.
	signals := make(chan os.Signal, 10)
	signal.Notify(signals, syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM)

	// Clients pass on few environment variables, so MCP_TRACE is set here.
	dir := os.Args[1]
	trace := filepath.Join(dir, fmt.Sprint(os.Getpid(), ".trace"))
	cmd := exec.Command(os.Args[2], os.Args[3:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), "MCP_TRACE="+trace)
	// A client that signals its process group must not signal the server twice.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		log.Fatal(err)
	}
	record := filepath.Join(dir, fmt.Sprint(os.Getpid(), ".end"))
	write(record, fmt.Sprintf(`{"pid":%d}`, cmd.Process.Pid))

	// Only the server holds the pipes, so that the client sees when it ends.
	os.Stdin.Close()
	os.Stdout.Close()

	ended := make(chan error)
	go func() { ended <- cmd.Wait() }()
	seen := []string{}
	for {
		select {
		case s := <-signals:
			seen = append(seen, fmt.Sprintf("%q", s))
			cmd.Process.Signal(s)
		case err := <-ended:
			var exit *exec.ExitError
			if err != nil && !errors.As(err, &exit) {
				log.Fatal(err)
			}
			write(record, fmt.Sprintf(`{"pid":%d,"end":%q,"signals":[%s]}`,
				cmd.Process.Pid, cmd.ProcessState, strings.Join(seen, ",")))
			os.Exit(max(cmd.ProcessState.ExitCode(), 0))
		}
	}
}

// write creates the file with all its contents or not at all.
func write(name, text string) {
	if err := errors.Join(os.WriteFile(name+"~", []byte(text), 0o666), os.Rename(name+"~", name)); err != nil {
		log.Fatal(err)
	}
}
