package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"example.com/mcp/peers/tools"
)

// A scenario is played with every server. It returns a value for each measure.
type scenario struct {
	name     string
	once     bool // one round is enough
	play     func(*server) []float64
	measures []measure
}

// A measure is one row of the table.
type measure struct {
	name  string
	unit  func(float64) string
	rate  bool   // more is better
	title string // name in the short table, or "" if it is left out
	bar   string // name in the picture, or "" if it is left out
	goals []goal
}

// A goal is a bound of the ratio of our figure to that of a peer, or of our figure if peer is
// nil. It is the lower bound of a rate, and the upper bound of any other measure. The goals are
// the budgets of the design. A goal is ignored if its peer is not measured.
type goal struct {
	peer  *server
	bound float64
}

func scenarios(dir string) []scenario {
	return []scenario{
		callScenario("echo", false, 1),
		callScenario("echo", false, 16),
		callScenario("echo", false, 64),
		callScenario("echo", true, 1),
		callScenario("echo", true, 16),
		callScenario("echo", true, 64),
		callScenario("add", false, 1),
		callScenario("add", false, 64),
		httpScenario(false, 1),
		httpScenario(false, 64),
		httpScenario(true, 1),
		httpScenario(true, 64),
		textScenario("64 KiB", 64<<10),
		textScenario("1 MiB", 1<<20),
		textScenario("16 MiB", 16<<20),
		{name: "tools/list of 10,000", play: playList, measures: []measure{
			{name: "start to first response", unit: duration, title: "10,000 tools: start to list", goals: []goal{{gosdk, 0.2}}},
			{name: "CPU per list", unit: duration, title: "10,000 tools: CPU per list", goals: []goal{{gosdk, 0.2}}},
		}},
		{name: "10,000 asleep", play: playAsleep, measures: []measure{
			{name: "peak memory", unit: size, title: "10,000 asleep: memory", goals: []goal{{earlier, 1.4}}},
			{name: "CPU to start and end", unit: duration, title: "10,000 asleep: CPU", goals: []goal{{earlier, 1.4}}},
		}},
		{name: "start", play: playStart, measures: []measure{
			{name: "to first response", unit: duration, title: "Start to first response", goals: []goal{{earlier, 1.1}}},
			{name: "peak memory after first call", unit: size, title: "Memory after first call", bar: "Memory after the first call", goals: []goal{{earlier, 1.15}}},
		}},
		{name: "at rest", once: true, play: playRest, measures: []measure{
			{name: "CPU per second", unit: duration},
			{name: "threads", unit: number},
		}},
		{name: "stripped", once: true, play: func(srv *server) []float64 {
			if srv == ours {
				return []float64{sizeOf(srv.bin), sizeOf(dir + "/hello"), sizeOf(dir + "/everything")}
			}
			return []float64{sizeOf(srv.bin)}
		}, measures: []measure{
			{name: "this server", unit: size, title: "Size of the program", bar: "Size of the program"},
			{name: "example/hello", unit: size, goals: []goal{{nil, 2.70e6}}},
			{name: "example/everything", unit: size, goals: []goal{{nil, 2.95e6}}},
		}},
	}
}

// some returns n, or a quarter of it with -quick, but at least 1.
func some(n int) int {
	if *quick {
		return max(n/4, 1)
	}
	return n
}

// again calls f until a second has passed, and at least once, because the results of shorter
// measurements vary. It returns the number of calls.
func again(f func()) (n int) {
	for began := time.Now(); n == 0 || time.Since(began) < time.Second; n++ {
		f()
	}
	return n
}

func callScenario(tool string, modern bool, window int) scenario {
	below := []goal{{gosdk, 1}, {mcpgo, 1}}
	cpu := measure{name: "CPU per call", unit: duration}
	rate := measure{name: "calls per second", unit: number, rate: true}
	p50 := measure{name: "latency, median", unit: duration, goals: below}
	p99 := measure{name: "latency, p99", unit: duration, goals: below}
	legacyEcho := tool == "echo" && !modern
	cpu.goals = []goal{{earlier, 1.2}}
	if legacyEcho {
		cpu.goals = []goal{{earlier, 1.1}}
	}
	switch window {
	case 1:
		if tool == "echo" {
			cpu.goals = append(cpu.goals, goal{gosdk, 0.09}, goal{floor, 2.2})
		}
		if legacyEcho {
			cpu.bar = "CPU per call, one at a time"
			cpu.title, p99.title = "CPU per call, 1 in flight", "Latency p99, 1 in flight"
		}
	case 64:
		if tool == "echo" {
			cpu.goals = append(cpu.goals, goal{gosdk, 0.03}, goal{floor, 6})
		}
		rate.goals = []goal{{gosdk, 15}}
		if legacyEcho {
			cpu.bar = "CPU per call, 64 at a time"
			cpu.title, rate.title = "CPU per call, 64 in flight", "Calls/s, 64 in flight: more is better"
		}
	}
	revision, open := "", ready
	if modern { // the modern era has no sessions
		revision, open = " 2026-07-28", start
	}
	play := func(srv *server) []float64 {
		n, warm := some(5000), 500
		s := sums(warm+n, modern)
		if tool == "echo" {
			s = echoes(warm+n, modern, greeting)
		}
		p := open(srv)
		p.play(s, 0, warm, window)
		began, calls := time.Now(), 0.0
		cpu := p.cost(func() {
			calls = float64(n * again(func() { p.play(s, warm, warm+n, window) }))
		})
		elapsed := time.Since(began).Seconds()
		slices.Sort(s.took) // the times of the last repetition
		return []float64{cpu / calls, calls / elapsed, float64(s.took[n/2]), float64(s.took[n*99/100])}
	}
	return scenario{
		name: fmt.Sprintf("%s%s, %d in flight", tool, revision, window),
		play: play, measures: []measure{cpu, rate, p50, p99},
	}
}

func textScenario(name string, length int) scenario {
	const line = `They said \"good morning\" to everybody whom they met on their way to the town.\n`
	text := strings.Repeat(line, length/len(line))
	text += strings.Repeat("x", length-len(text))
	cpu := measure{name: "CPU per MB", unit: duration}
	rate := measure{name: "MB per second", unit: number, rate: true}
	memory := measure{name: "peak memory / message", unit: times}
	switch name {
	case "64 KiB":
		cpu.goals = []goal{{earlier, 1.25}}
	case "1 MiB":
		cpu.title, cpu.bar = "CPU per MB, texts of 1 MiB", "CPU per MB, texts of 1 MiB"
		cpu.goals = []goal{{gosdk, 0.05}, {python, 1}, {earlier, 1.7}}
		rate.title, rate.goals = "MB/s, texts of 1 MiB: more is better", []goal{{python, 1}}
	case "16 MiB": // with shorter texts, the program itself would use most of the memory
		memory.goals = []goal{{nil, 10}}
		memory.title = "Memory per byte, 16 MiB of text"
	}
	play := func(srv *server) []float64 {
		n := some(32 << 20 / length)
		warm := max(n/8, 1)
		s := echoes(warm+n, false, same(text))
		p := ready(srv)
		p.play(s, 0, warm, 1)
		began, megabytes := time.Now(), float64(n*length)/1e6
		cpu := p.cost(func() {
			megabytes *= float64(again(func() { p.play(s, warm, warm+n, 1) }))
		})
		elapsed := time.Since(began).Seconds()
		return []float64{cpu / megabytes, megabytes / elapsed, p.peak() / float64(length)}
	}
	return scenario{name: name + " of text", play: play, measures: []measure{cpu, rate, memory}}
}

func playList(srv *server) []float64 {
	n := some(4)
	var first, cpu []float64
	again(func() {
		s := newScript(1+n, false, "tools/list", same(""), same(`"name":"`+tools.Name(tools.Many-1)+`"`))
		began := time.Now()
		p := ready(srv, fmt.Sprint("PEERS_TOOLS=", tools.Many))
		p.play(s, 0, 1, 1)
		first = append(first, float64(time.Since(began)))
		cpu = append(cpu, p.cost(func() { p.play(s, 1, 1+n, 1) })/float64(n))
		p.end()
	})
	return []float64{median(first), median(cpu)}
}

func playAsleep(srv *server) []float64 {
	var peak, cpu []float64
	again(func() {
		p := ready(srv)
		before := p.spent()
		p.sleep()
		peak = append(peak, p.peak())
		p.end()
		cpu = append(cpu, float64(p.total()-before))
	})
	return []float64{median(peak), median(cpu)}
}

func playStart(srv *server) []float64 {
	var first, peak []float64
	for range some(60) {
		began := time.Now()
		p := ready(srv)
		first = append(first, float64(time.Since(began)))
		p.play(echoes(1, false, greeting), 0, 1, 1)
		peak = append(peak, p.peak())
		p.end()
	}
	return []float64{median(first), median(peak)}
}

func playRest(srv *server) []float64 {
	p := ready(srv)
	threads := p.threads()
	time.Sleep(time.Second) // after this time the Go runtime is idle
	seconds := some(4)
	return []float64{p.cost(func() { time.Sleep(time.Duration(seconds) * time.Second) }) / float64(seconds), threads}
}

func sizeOf(bin string) float64 {
	f, err := os.Stat(bin)
	must(err)
	return float64(f.Size())
}
