//go:build unix && !linux

package main

import (
	"errors"
	"runtime"
	"syscall"
	"time"
)

var asked *proc // the server of the last first call of spent

// spent returns 0 at the first call for a server. The second call ends the server and returns
// its total CPU time, including the start, because the time of a running process is unknown.
func (p *proc) spent() time.Duration {
	if asked != p {
		asked = p
		return 0
	}
	p.end()
	return p.total()
}

// peak ends the server and returns the largest memory that it has used, in bytes.
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
