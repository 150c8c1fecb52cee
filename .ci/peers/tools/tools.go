// Package tools holds the arguments and results that all servers of the comparison share, and
// the handler that sleeps.
package tools

import (
	"context"
	"os"
	"strconv"
	"sync/atomic"
	"time"
)

// Many is the number of tools that are listed, and of handlers that sleep at once.
const Many = 10_000

// More is the number of tools that a server has in addition to echo, add and sleep.
func More() int {
	n, _ := strconv.Atoi(os.Getenv("PEERS_TOOLS"))
	return n
}

// Name returns the name of additional tool i.
func Name(i int) string { return "tool" + strconv.Itoa(i) }

type Echo struct {
	Text string `json:"text" jsonschema:"what to say"`
}

type Add struct {
	A int `json:"a" jsonschema:"a number"`
	B int `json:"b" jsonschema:"another number"`
}

type Sum struct {
	Sum int `json:"sum" jsonschema:"the sum of a and b"`
}

type Sleep struct {
	MS int `json:"ms,omitempty" jsonschema:"milliseconds; 0 means until the server ends"`
}

var asleep atomic.Int32

// Wait sleeps. When Many handlers sleep, it writes to stderr. The driver waits for that,
// because polling would use CPU.
func (s Sleep) Wait(ctx context.Context) {
	if asleep.Add(1) == Many {
		os.Stderr.WriteString("asleep\n")
	}
	defer asleep.Add(-1)
	var end <-chan time.Time
	if s.MS > 0 {
		end = time.After(time.Duration(s.MS) * time.Millisecond)
	}
	select {
	case <-end:
	case <-ctx.Done():
	}
}
