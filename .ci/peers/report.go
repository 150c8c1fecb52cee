package main

import (
	"fmt"
	"io"
	"math"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

type report struct {
	scenarios []scenario
	values    map[string][]float64 // the values of all rounds, by key
}

func key(s scenario, m measure, srv *server) string {
	return s.name + "\n" + m.name + "\n" + srv.name
}

// play plays a scenario with a server and stores the measurements. It skips a server that has
// always failed in this scenario.
func (r *report) play(s scenario, srv *server) {
	if srv.cannot[s.name] != "" && math.IsNaN(r.value(s, s.measures[0], srv)) {
		return
	}
	defer func() {
		if why := recover(); why != nil {
			srv.cannot[s.name] = fmt.Sprint(why)
			if p := srv.proc; p != nil && !p.ended {
				p.cmd.Process.Kill()
				p.cmd.Wait()
			}
		}
	}()
	values := s.play(srv)
	if srv.proc != nil {
		srv.proc.end()
	}
	for i, v := range values {
		k := key(s, s.measures[i], srv)
		r.values[k] = append(r.values[k], v)
	}
}

func median(values []float64) float64 {
	v := slices.Sorted(slices.Values(values))
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

// value returns the median of all rounds, or NaN if there is no value.
func (r *report) value(s scenario, m measure, srv *server) float64 {
	if values := r.values[key(s, m, srv)]; len(values) > 0 {
		return median(values)
	}
	return math.NaN()
}

// cell returns a figure and, for a peer, the ratio of ours to it.
func (r *report) cell(s scenario, m measure, srv *server) string {
	v, ratio := r.value(s, m, srv), r.value(s, m, ours)/r.value(s, m, srv)
	switch {
	case math.IsNaN(v):
		return "-"
	case math.IsNaN(ratio) || srv == ours:
		return m.unit(v)
	}
	return fmt.Sprintf("%s (%s)", m.unit(v), figures(ratio))
}

// table prints all measures and returns the number of goals that were missed.
func (r *report) table(w io.Writer) (missed int) {
	fmt.Fprintf(w, "%s\n\n", r.about())
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, srv := range servers {
		fmt.Fprint(t, "\t", srv.name)
	}
	fmt.Fprintln(t)
	goals := 0
	for _, s := range r.scenarios {
		fmt.Fprintf(t, "%s%s\n", s.name, strings.Repeat("\t", len(servers)+1))
		for _, m := range s.measures {
			fmt.Fprint(t, "  ", m.name)
			for _, srv := range servers {
				fmt.Fprint(t, "\t", r.cell(s, m, srv))
			}
			fmt.Fprint(t, "\t")
			for _, g := range m.goals {
				if g.peer != nil && !slices.Contains(servers, g.peer) {
					continue
				}
				said, ok := r.goal(s, m, g)
				if goals++; !ok {
					missed++
				}
				fmt.Fprint(t, said, " ")
			}
			fmt.Fprintln(t)
		}
	}
	t.Flush()
	for _, s := range r.scenarios {
		for _, srv := range servers {
			if why := srv.cannot[s.name]; why != "" {
				fmt.Fprintf(w, "- %s, %s, measured in %d rounds: %s\n", srv.name, s.name, len(r.values[key(s, s.measures[0], srv)]), why)
			}
		}
	}
	fmt.Fprintf(w, "\n%d of %d goals are met.\n", goals-missed, goals)
	return missed
}

// goal returns the text of a goal and whether it is met. A measure without a value misses it.
func (r *report) goal(s scenario, m measure, g goal) (string, bool) {
	v, said := r.value(s, m, ours), m.unit(g.bound)
	if g.peer != nil {
		v, said = v/r.value(s, m, g.peer), fmt.Sprint(g.bound, " ", g.peer.name)
	}
	sign, ok := "≤", v <= g.bound
	if m.rate {
		sign, ok = "≥", v >= g.bound
	}
	if ok {
		return fmt.Sprintf("ok %s %s", sign, said), true
	}
	return fmt.Sprintf("MISSED %s %s", sign, said), false
}

// about returns what was compared, when and where.
func (r *report) about() string {
	var peers []string
	for _, srv := range servers {
		if srv.version != "" {
			peers = append(peers, srv.name+" "+srv.version)
		}
	}
	return fmt.Sprintf("%s, %s, %s, %s/%s with %d CPUs. Ratios in parentheses: ours / theirs.",
		time.Now().Format(time.DateOnly), strings.Join(peers, ", "), runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU())
}

// headlines calls f for each measure that has a title.
func (r *report) headlines(f func(scenario, measure)) {
	for _, s := range r.scenarios {
		for _, m := range s.measures {
			if m.title != "" {
				f(s, m)
			}
		}
	}
}

func (r *report) markdown(w io.Writer) {
	fmt.Fprint(w, "\n|")
	for _, srv := range servers {
		fmt.Fprint(w, " | ", srv.name)
	}
	fmt.Fprintln(w, " |\n|---"+strings.Repeat("|---:", len(servers))+"|")
	r.headlines(func(s scenario, m measure) {
		fmt.Fprint(w, "| ", m.title)
		for _, srv := range servers {
			fmt.Fprint(w, " | ", r.cell(s, m, srv))
		}
		fmt.Fprintln(w, " |")
	})
	fmt.Fprintf(w, "\n%s\n", r.about())
}

// svg draws a bar for each measure of the picture. The full width is the cost of go-sdk, and
// the bar is our cost. The colours are visible on black and on white.
func (r *report) svg() []byte {
	const left, top, width, height, step = 190, 34, 300, 14, 26
	bars := fmt.Appendf(nil, "<text class=\"b\" x=\"%d\" y=\"16\">This library, in percent of go-sdk</text>\n", left)
	y := top
	for _, s := range r.scenarios {
		for _, m := range s.measures {
			mine, theirs := r.value(s, m, ours), r.value(s, m, gosdk)
			if m.bar == "" || math.IsNaN(mine/theirs) {
				continue
			}
			bars = fmt.Appendf(bars, "<text class=\"e\" x=\"%d\" y=\"%d\">%s</text>\n", left-8, y+11, m.bar)
			bars = fmt.Appendf(bars, "<path class=\"all\" d=\"M%d %dh%dv%dH%d\"/>", left, y, width, height, left)
			bars = fmt.Appendf(bars, "<path class=\"ours\" d=\"M%d %dh%.1fv%dH%d\"/>", left, y, width*mine/theirs, height, left)
			bars = fmt.Appendf(bars, "<text x=\"%d\" y=\"%d\">%s %%</text>\n", left+width+8, y+11, twoDigits(100*mine/theirs))
			y += step
		}
	}
	return fmt.Appendf(nil, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">
<title>%s</title>
<style>text{fill:#808080}.b{font-weight:bold}.e{text-anchor:end}.all{fill:#808080;opacity:.25}.ours{fill:#e0483e}</style>
%s</svg>
`, left+width+60, y, r.about(), bars)
}

// twoDigits formats a number with two significant digits: 0.52, 5.2, 52.
func twoDigits(x float64) string {
	digits := 0
	for bound := 9.95; x < bound && digits < 3; bound /= 10 {
		digits++
	}
	return fmt.Sprintf("%.*f", digits, x)
}

// Units.

func duration(ns float64) string {
	switch {
	case ns < 1e6:
		return figures(ns/1e3) + " µs"
	case ns < 1e9:
		return figures(ns/1e6) + " ms"
	}
	return figures(ns/1e9) + " s"
}

func size(bytes float64) string { return fmt.Sprintf("%.2f MB", bytes/1e6) }

func times(x float64) string { return figures(x) + "×" }

func number(x float64) string { return fmt.Sprintf("%.0f", x) }

// figures formats a number with about three significant digits.
func figures(x float64) string {
	digits := 3
	if x >= 0.1 || x == 0 {
		digits = max(2-int(math.Log10(max(x, 1))), 0)
	}
	return fmt.Sprintf("%.*f", digits, x)
}
