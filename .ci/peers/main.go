// Peers compares this library with the other ones for Go, side by side:
//
//	go -C .ci/peers run .
//
// Each directory here is a server with the same tools; floor is the least that
// can answer. They take turns, in several rounds, so that whatever else the
// machine does hits all of them alike, and the table shows medians.
package main

import (
	"debug/buildinfo"
	"flag"
	"log"
	"os"
	"os/exec"
	"strings"
)

var (
	quick    = flag.Bool("quick", false, "measure less, in about a minute")
	rounds   = flag.Int("rounds", 0, "how often all is measured (default 3, with -quick 1)")
	only     = flag.String("only", "", "measure only scenarios whose names contain this")
	check    = flag.Bool("check", false, "exit with status 1 if a goal is missed")
	svg      = flag.String("svg", "", "draw the main figures to this file")
	markdown = flag.Bool("markdown", false, "print the main figures as Markdown too")
)

type server struct {
	name, dir string
	version   string
	bin       string
	proc      *proc             // the last one started
	cannot    map[string]string // which scenarios, and why
}

var (
	ours  = &server{name: "this library", dir: "ours", cannot: map[string]string{}}
	gosdk = &server{name: "go-sdk", dir: "gosdk", cannot: map[string]string{}}
	mcpgo = &server{name: "mcp-go", dir: "mcpgo", cannot: map[string]string{
		"10,000 asleep": "runs no more than 100 calls at once, whatever WithWorkerPoolSize says",
	}}
	floor   = &server{name: "floor", dir: "floor", cannot: map[string]string{}}
	servers = []*server{ours, gosdk, mcpgo, floor}
)

func main() {
	log.SetFlags(0)
	flag.Parse()
	if *rounds == 0 {
		*rounds = 3
		if *quick {
			*rounds = 1
		}
	}
	r := &report{values: make(map[string][]float64)}
	dir, err := os.MkdirTemp("", "peers")
	must(err)
	defer os.RemoveAll(dir)
	build(dir + "/")
	for _, s := range scenarios(dir) {
		if strings.Contains(s.name, *only) {
			r.scenarios = append(r.scenarios, s)
		}
	}
	for round := range *rounds {
		log.Printf("round %d of %d", round+1, *rounds)
		for _, s := range r.scenarios {
			for i := range servers {
				if round == 0 || !s.once {
					r.play(s, servers[(i+round)%len(servers)])
				}
			}
		}
	}
	missed := r.table(os.Stdout)
	if *markdown {
		r.markdown(os.Stdout)
	}
	if *svg != "" {
		must(os.WriteFile(*svg, r.svg(), 0o666))
	}
	if missed > 0 && *check {
		os.RemoveAll(dir)
		os.Exit(1)
	}
}

// build builds the servers and the examples, all in the same way.
func build(dir string) {
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", dir,
		"example.com/mcp/example/hello", "example.com/mcp/example/everything")
	for _, s := range servers {
		cmd.Args = append(cmd.Args, "./"+s.dir)
	}
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	cmd.Stderr = os.Stderr
	must(cmd.Run())
	for _, s := range servers {
		s.bin = dir + s.dir
		info, err := buildinfo.ReadFile(s.bin)
		must(err)
		for _, m := range info.Deps {
			if strings.HasSuffix(m.Path, "/"+s.name) {
				s.version = m.Version
			}
		}
	}
}
