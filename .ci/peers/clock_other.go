//go:build unix && !linux

package main

import (
	"errors"
	"runtime"
	"syscall"
	"time"
)

var asked *proc // the server whose CPU time was requested

// spent is known only after the server has ended, and includes its start. The first call
// returns 0, and the second call ends the server.
func (p *proc) spent() time.Duration {
	if asked != p {
		asked = p
		return 0
	}
	p.end()
	return p.total()
}

// peak ends the server too.
func (p *proc) peak() float64 {
	p.end()
	most := float64(p.cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss)
	if runtime.GOOS != "darwin" {
		most *= 1024
	}
	return most
}

func (p *proc) threads() float64 {
	must(errors.ErrUnsupported)
	return 0
}
