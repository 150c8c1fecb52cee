package main

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"syscall"
	"time"
	"unsafe"
)

// spent returns the user and system time of the server so far, from the CPU clock of its
// process.
func (p *proc) spent() time.Duration {
	clock := ^p.cmd.Process.Pid<<3 | 2 // CPUCLOCK_SCHED
	var t syscall.Timespec
	if _, _, errno := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, uintptr(clock), uintptr(unsafe.Pointer(&t)), 0); errno != 0 {
		must(errno)
	}
	return time.Duration(t.Nano())
}

// peak returns the largest memory that the server has used, in bytes.
func (p *proc) peak() float64 { return 1024 * p.status("VmHWM") }

func (p *proc) threads() float64 { return p.status("Threads") }

func (p *proc) status(key string) float64 {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	must(err)
	m := regexp.MustCompile(key + `:\s+(\d+)`).FindSubmatch(data)
	v, err := strconv.ParseFloat(string(m[1]), 64)
	must(err)
	return v
}
