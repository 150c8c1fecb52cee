// Peers compares this library with other MCP libraries:
//
//	go -C .ci/peers run .
//
// Each directory here has a server with the same tools; floor does only what is necessary to
// respond. The servers take turns, in several rounds, so that other load on the machine
// affects all of them. The table shows medians. See README.md.
package main

import (
	"debug/buildinfo"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

var (
	quick    = flag.Bool("quick", false, "measure less, in about a minute")
	rounds   = flag.Int("rounds", 0, "number of rounds (default 3, with -quick 1)")
	only     = flag.String("only", "", "measure only scenarios whose names contain this")
	check    = flag.Bool("check", false, "exit with status 1 if a goal is missed")
	before   = flag.String("before", "", "also measure the library in this other checkout")
	alone    = flag.Bool("alone", false, "measure only this library, and that of -before")
	cache    = flag.String("cache", "", "directory to install the Python SDK in (default: in the user's cache)")
	svg      = flag.String("svg", "", "draw the picture of five bars to this file")
	markdown = flag.Bool("markdown", false, "print the main figures as Markdown too")
)

type server struct {
	name, dir string
	version   string
	bin       string            // "" if the server cannot be built
	args      []string          // arguments of bin
	proc      *proc             // the last process started
	cannot    map[string]string // the scenarios that it cannot play, and the reasons
}

var (
	ours  = &server{name: "this library", dir: "ours", cannot: map[string]string{}}
	gosdk = &server{name: "go-sdk", dir: "gosdk", cannot: map[string]string{}}
	mcpgo = &server{name: "mcp-go", dir: "mcpgo", cannot: map[string]string{
		"10,000 asleep": "runs at most 100 calls at once, even if WithWorkerPoolSize is larger",
	}}
	python  = &server{name: "Python SDK", dir: "python", cannot: map[string]string{"stripped": "is not a program of its own"}}
	floor   = &server{name: "floor", dir: "floor", cannot: map[string]string{}}
	earlier = &server{name: "before", dir: "ours", cannot: map[string]string{}}
	servers []*server // the servers that could be built
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

// build builds the servers and the examples with the same flags.
func build(dir string) {
	programs := []*server{ours, gosdk, mcpgo, floor}
	goBuild(dir, "example.com/mcp/example/hello", "example.com/mcp/example/everything",
		"./ours", "./gosdk", "./mcpgo", "./floor")
	buildHTTP(dir)
	for _, s := range programs {
		s.bin = dir + s.dir
		info, err := buildinfo.ReadFile(s.bin)
		must(err)
		for _, m := range info.Deps {
			if strings.HasSuffix(m.Path, "/"+s.name) {
				s.version = m.Version
			}
		}
	}
	servers = []*server{ours, gosdk, mcpgo, floor}
	if *before != "" {
		buildEarlier(dir)
		servers = append(servers, earlier)
	}
	if *alone {
		servers = slices.DeleteFunc(servers, func(s *server) bool { return s != ours && s != earlier })
		return
	}
	if err := installPython(); err != nil {
		log.Printf("NOT CHECKED: the Python SDK is left out: %v", err)
		return
	}
	servers = append(servers, python)
}

func goBuild(out string, args ...string) {
	cmd := exec.Command("go", append([]string{"build", "-trimpath", "-ldflags=-s -w", "-o", out}, args...)...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	cmd.Stderr = os.Stderr
	must(cmd.Run())
}

// buildHTTP builds the programs with the build tag http, and ours with the files of example/http.
func buildHTTP(dir string) {
	place, err := filepath.Abs(".")
	must(err)
	files := make(map[string]string)
	for _, name := range []string{"http.go", "message.go"} {
		files[filepath.Join(place, "ours", "example_"+name)] = filepath.Join(place, "../../example/http", name)
	}
	overlay, err := json.Marshal(map[string]any{"Replace": files})
	must(err)
	must(os.WriteFile(dir+"http.json", overlay, 0o666))
	for _, s := range []*server{ours, gosdk, mcpgo} {
		goBuild(dir+s.dir+"-http", "-tags=http", "-overlay="+dir+"http.json", "./"+s.dir)
	}
}

// buildEarlier builds ours with the library of another checkout.
func buildEarlier(dir string) {
	checkout, err := filepath.Abs(*before)
	must(err)
	mod, err := os.ReadFile("go.mod")
	must(err)
	other := strings.Replace(string(mod), "=> ../..", "=> "+checkout, 1)
	must(os.WriteFile(dir+"before.mod", []byte(other), 0o666))
	sum, err := os.ReadFile("go.sum")
	must(err)
	must(os.WriteFile(dir+"before.sum", sum, 0o666))
	earlier.bin = dir + "before"
	goBuild(earlier.bin, "-modfile="+dir+"before.mod", "./ours")
}

// installPython creates a virtual environment with the Python SDK, unless an earlier run
// created it. It uses the versions of the interop tests.
func installPython() error {
	const list = "../interop/requirements-2.txt"
	versions, err := os.ReadFile(list)
	must(err)
	_, version, _ := strings.Cut(string(versions), "\nmcp==")
	python.version, _, _ = strings.Cut(version, "\n")
	dir := *cache
	if dir == "" {
		if dir, err = os.UserCacheDir(); err != nil {
			return err
		}
	}
	dir = filepath.Join(dir, "mcp-peers", "python-"+python.version)
	python.bin, python.args = filepath.Join(dir, "bin", "python"), []string{"python/server.py"}
	if exec.Command(python.bin, "-c", "import mcp.server").Run() == nil {
		return nil
	}
	for _, args := range [][]string{
		{"python3", "-m", "venv", "--clear", dir},
		{python.bin, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "-r", list},
	} {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("%v: %w %s", args, err, out)
		}
	}
	return nil
}
