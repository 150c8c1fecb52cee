// Wrap stands between a client and its server: it starts the server with the
// client's own stdin, stdout and stderr, hands on the signals, and records in a
// directory how the server ended and what was said.
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
	// Before the server starts, so that no early signal is lost.
	signals := make(chan os.Signal, 10)
	signal.Notify(signals, syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM)

	// Of clients' environments little comes through, so the trace's name comes from here.
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

	// The pipes are the server's alone: when it ends, the client must see it.
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

// write puts the file there at once or not at all.
func write(name, text string) {
	if err := errors.Join(os.WriteFile(name+"~", []byte(text), 0o666), os.Rename(name+"~", name)); err != nil {
		log.Fatal(err)
	}
}
