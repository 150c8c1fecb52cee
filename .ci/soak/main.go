// Soak starts many servers at a time, plays random sessions with them, and checks what a
// client may rely on:
//
//   - Every request gets one response, with its own id and from the right handler, unless it
//     was cancelled.
//   - The server sends nothing about a request after its response, or after the server has
//     read its cancel.
//   - Questions are withdrawn, and clients are notified of changes.
//   - The server exits in time, whichever way the session ends, and leaks no goroutines and
//     no files.
//
// Soak runs only on Unix.
//
//	go run -C .ci/soak . -for 10m -race
//
// The decisions of a client depend only on -seed and the number of the session, so
// `-seed S -only N` plays session N again. The timing may differ.
package main

import (
	"cmp"
	"flag"
	"fmt"
	"log"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

func main() {
	log.SetFlags(0)
	length := flag.Duration("for", time.Minute, "how long to play")
	seed := flag.Uint64("seed", uint64(time.Now().UnixNano()), "seed of all decisions")
	parallel := flag.Int("parallel", 2*runtime.NumCPU(), "number of sessions at a time")
	race := flag.Bool("race", false, "build the server with the race detector")
	only := flag.Int64("only", 0, "play only this session, repeatedly")
	keepOn := flag.Bool("k", false, "continue after a violation")
	flag.Parse()

	dir, err := os.MkdirTemp("", "soak")
	if err != nil {
		log.Fatal(err)
	}
	code := play(dir, *length, *seed, *parallel, *race, *only, *keepOn)
	os.RemoveAll(dir)
	os.Exit(code)
}

func play(dir string, length time.Duration, seed uint64, parallel int, race bool, only int64, keepOn bool) int {
	server := filepath.Join(dir, "server")
	build := exec.Command("go", "build", fmt.Sprintf("-race=%v", race), "-o", server, "./server")
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	if err := build.Run(); err != nil {
		log.Print("building the server: ", err)
		return 1
	}

	var (
		workers sync.WaitGroup
		last    atomic.Int64
		stop    atomic.Bool

		mu     sync.Mutex
		count  = make(map[string]int)
		in     int
		out    int
		faulty int
	)
	over := time.Now().Add(length)
	for range parallel {
		workers.Go(func() {
			for time.Now().Before(over) && !stop.Load() {
				s := newSession(server, seed, cmp.Or(only, last.Add(1)))
				s.play()
				mu.Lock()
				count[s.ending]++
				in, out = in+s.sent, out+s.got
				if len(s.faults) > 0 {
					faulty++
					fmt.Print(s.report())
					stop.Store(!keepOn)
				}
				mu.Unlock()
			}
		})
	}
	workers.Wait()
	sessions := 0
	endings := ""
	for _, name := range slices.Sorted(maps.Keys(count)) {
		sessions += count[name]
		endings += fmt.Sprintf(" %s %d,", name, count[name])
	}
	fmt.Printf("seed %d: %d sessions, %d messages in, %d out, endings:%s violations in %d sessions\n", seed, sessions, in, out, endings, faulty)
	if faulty > 0 || sessions == 0 {
		return 1
	}
	return 0
}
