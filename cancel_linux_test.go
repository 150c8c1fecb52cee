// SPDX-License-Identifier: MIT

package mcp

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
	"unsafe"
)

// Another process that shares stdin or stdout can make it non-blocking at any time, as Node does.
// Then a call in flight, a response that is larger than the pipe and later requests are served as
// before.
func TestProcessPipesBecomeNonBlocking(t *testing.T) {
	const size = 1 << 20
	p := newProc(t)
	stdin, in := pipe(t)
	out, stdout := pipe(t)
	p.cmd.Stdin, p.cmd.Stdout = stdin, stdout
	p.in, p.lines = in, bufio.NewReaderSize(out, 1<<16)
	p.open().send("1 call wait")
	for _, f := range []*os.File{stdin, stdout} {
		if err := syscall.SetNonblock(int(f.Fd()), true); err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	p.send(fmt.Sprintf(`2 call big {"Size":%d}`, size), `3 call arrived {"N":1}`)
	for range 2 {
		if m := p.recv(); len(m.Result.text()) != map[int]int{2: size, 3: len("yes")}[m.ID] {
			t.Errorf("%d: %d bytes", m.ID, len(m.Result.text()))
		}
	}
	p.in.Close()
	p.sawCause(p.wait("exit status 0"), 1, ErrClosed.Error())
}

// A process whose client leaves while it waits for a full, non-blocking stdout ends in time.
func TestProcessEndsWithAFullNonBlockingPipe(t *testing.T) {
	p := newProc(t, "MCP_TEST_DRAIN=200ms")
	stdin, in := pipe(t)
	out, stdout := pipe(t)
	p.cmd.Stdin, p.cmd.Stdout = stdin, stdout
	p.in, p.lines = in, bufio.NewReaderSize(out, 1<<16)
	p.open()
	if err := syscall.SetNonblock(int(stdout.Fd()), true); err != nil {
		t.Fatal(err)
	}
	stdin.Close()
	p.send(`1 call big {"Size":1048576}`)
	p.lines.Peek(1) // the response has begun
	p.in.Close()
	if rep := p.wait("exit status 1"); !rep.WaitDelay || strings.Contains(rep.Err, "unavailable") {
		t.Errorf("report: %+v", rep)
	}
}

// The end of a terminal, as of "docker run -t", is the end of the input and not a failure.
func TestProcessTerminalCloses(t *testing.T) {
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skip(err)
	}
	defer master.Close()
	var number, locked int32
	for request, arg := range map[uintptr]*int32{syscall.TIOCGPTN: &number, syscall.TIOCSPTLCK: &locked} {
		if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, master.Fd(), request, uintptr(unsafe.Pointer(arg))); errno != 0 {
			t.Skip(errno)
		}
	}
	terminal, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skip(err)
	}
	p := newProc(t)
	p.cmd.Stdin, p.in = terminal, master
	p.open().send("1 call wait", `2 call arrived {"N":1}`)
	p.next(2)
	terminal.Close()
	master.Close()
	p.sawCause(p.wait("exit status 0"), 1, ErrClosed.Error())
}

// The same error of a file is a failure.
func TestProcessErrorOfAFile(t *testing.T) {
	p := newProc(t)
	f, err := os.Open("/proc/self/mem") // its first page cannot be read
	if err != nil {
		t.Skip(err)
	}
	p.cmd.Stdin = f
	p.start()
	f.Close()
	if rep := p.wait("exit status 1"); !strings.Contains(rep.Err, "input/output error") {
		t.Errorf("report: %+v", rep)
	}
}

// What a Write has written before it failed is in the trace: the client may have read it.
func TestTraceHasWhatAFailedWriteHasWritten(t *testing.T) {
	r, w := pipe(t)
	read := make(chan error)
	go func() {
		_, err := io.CopyN(io.Discard, r, 40_000)
		r.Close()
		read <- err
	}()
	var trace bytes.Buffer
	n, err := (&stdioFile{w, context.Background(), &trace}).Write(make([]byte, 1<<20))
	if err := <-read; err != nil {
		t.Fatal(err)
	}
	if !errors.Is(err, syscall.EPIPE) || n < 40_000 || trace.Len() != n {
		t.Errorf("wrote %d bytes and traced %d: %v", n, trace.Len(), err)
	}
}
