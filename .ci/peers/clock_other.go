//go:build unix && !linux

package main

import (
	"errors"
	"runtime"
	"syscall"
	"time"
)

var asked *proc // what it has spent

// spent is known only when the server has ended, with what its start has cost:
// it is nothing the first time, and ends the server the second time.
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
