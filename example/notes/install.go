// SPDX-License-Identifier: MIT
// Version 4.2.2, 2026-11-29. The SHA-256 of each release of this file is in CHANGES.md of example.com/mcp.
// SPDX-FileCopyrightText: 2026 The mcp authors

package main

// Adds this program to MCP hosts, and removes it again. Copy this file and jsonc.go, change
// their package, and set the two constants. They import only the standard library.
//
//	notes mcp hosts
//	notes mcp install [--force] [--print] [HOST]
//	notes mcp uninstall [--force] [--print] [HOST]
//
// If a host has a command that adds a server, install runs it. A JSON file, also one with
// comments and trailing commas, is edited: every byte that does not belong to the entry is kept,
// and a file that cannot be edited safely is not changed. For other hosts the text to add is
// printed.

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	serverName = "notes" // the name of the server in the files of hosts
	serverArgs = "mcp"   // the arguments with which this program serves
)

// A host is a program that starts MCP servers.
type host struct {
	name    string
	program string // its command, or "" if it has none
	add     string // the arguments with which its command adds a server, or "" if it cannot
	key     string // the member of its file that holds the servers, or "" if the file is not JSON
	entry   string // the text to add

	// The paths at which it may keep its servers, separated by spaces. The first one counts
	// whose variable is set and which, if it is a pattern, matches a file.
	files string
}

const (
	plain   = `{"command": PROGRAM, "args": ARGS}`
	copilot = `{"type": "local", "command": PROGRAM, "args": ARGS, "tools": ["*"]}`
	stdio   = `{"type": "stdio", "command": PROGRAM, "args": ARGS}`
	toml    = "[mcp_servers.NAME]\ncommand = PROGRAM\nargs = ARGS"
	yaml    = "mcpServers:\n  - name: NAME\n    command: PROGRAM\n    args: ARGS"
)

// hosts is what was known on 2026-11-28. The first ten were run, in the versions of .ci/hosts.
// The others are described as in their documentation and in reports of users.
var hosts = []host{
	{"claude", "claude", "mcp add --scope user NAME -- COMMAND", "mcpServers", plain,
		"$CLAUDE_CONFIG_DIR/.claude.json $HOME/.claude.json"},
	{"codex", "codex", "mcp add NAME -- COMMAND", "", toml,
		"$CODEX_HOME/config.toml $HOME/.codex/config.toml"},
	{"gemini", "gemini", "mcp add --scope user NAME COMMAND", "mcpServers", plain,
		"$GEMINI_CLI_HOME/.gemini/settings.json $HOME/.gemini/settings.json"},
	{"copilot", "copilot", "mcp add NAME -- COMMAND", "mcpServers", copilot,
		"$COPILOT_HOME/mcp-config.json $HOME/.copilot/mcp-config.json"},
	{"opencode", "opencode", "", "mcp", `{"type": "local", "command": LIST}`,
		"$XDG/opencode/opencode.json[c] $XDG/opencode/opencode.json"},
	{"qwen", "qwen", "", "mcpServers", plain,
		"$QWEN_HOME/settings.json $HOME/.qwen/settings.json"},
	{"cline", "cline", "", "mcpServers", plain,
		"$CLINE_MCP_SETTINGS_PATH $CLINE_DATA_DIR/settings/cline_mcp_settings.json $CLINE_DIR/data/settings/cline_mcp_settings.json $HOME/.cline/data/settings/cline_mcp_settings.json"},
	{"continue", "cn", "", "", yaml,
		"$CONTINUE_GLOBAL_DIR/config.yaml $HOME/.continue/config.yaml"},
	{"kimi", "kimi", "", "mcpServers", plain,
		"$KIMI_CODE_HOME/mcp.json $HOME/.kimi-code/mcp.json"},
	{"nanocoder", "nanocoder", "", "mcpServers", `{"transport": "stdio", "command": PROGRAM, "args": ARGS}`,
		"$NANOCODER_CONFIG_DIR/.mcp.json $PREFERENCES/nanocoder/.mcp.json $CONFIG/nanocoder/.mcp.json"},
	{"claude-desktop", "", "", "mcpServers", plain,
		"$LOCALAPPDATA/Packages/Claude_*/LocalCache/Roaming/Claude/claude_desktop_config.json $CONFIG/Claude/claude_desktop_config.json"},
	{"cursor", "cursor", "", "mcpServers", plain, "$HOME/.cursor/mcp.json"},
	{"vscode", "code", `--add-mcp {"name":"NAME","command":PROGRAM,"args":ARGS}`, "servers", stdio,
		"$CONFIG/Code/User/mcp.json"},
	{"windsurf", "windsurf", "", "mcpServers", plain, "$HOME/.codeium/windsurf/mcp_config.json"},
	{"devin", "devin", "", "mcpServers", plain, // the name of Windsurf since June 2026
		"$APPDATA/devin/mcp_config.json $XDG/devin/mcp_config.json"},
	{"zed", "zed", "", "context_servers", `{"source": "custom", "command": PROGRAM, "args": ARGS}`,
		"$APPDATA/Zed/settings.json $XDG/zed/settings.json"},
}

// path returns the file in which the host keeps its servers, or "" if no variable is set.
func (h host) path() string {
	home, _ := os.UserHomeDir()
	config, _ := os.UserConfigDir()
	places := map[string]string{"HOME": home, "CONFIG": config}
	places["XDG"] = cmp.Or(os.Getenv("XDG_CONFIG_HOME"), filepath.Join(home, ".config"))
	if runtime.GOOS == "darwin" {
		places["PREFERENCES"] = filepath.Join(home, "Library/Preferences")
	}
	for _, pattern := range strings.Fields(h.files) {
		isSet := true
		path := filepath.Clean(os.Expand(pattern, func(name string) string {
			place := cmp.Or(places[name], os.Getenv(name))
			isSet = isSet && filepath.IsAbs(place)
			return place
		}))
		matches, _ := filepath.Glob(path)
		switch {
		case isSet && !strings.ContainsAny(pattern, "*["):
			return path
		case isSet && len(matches) > 0:
			return matches[0]
		}
	}
	return ""
}

// isFound reports whether the host's command, its file, or a directory of its own exists.
func (h host) isFound() bool {
	place := h.path()
	if home, _ := os.UserHomeDir(); filepath.Dir(place) != home {
		place = filepath.Dir(place)
	}
	_, err := os.Stat(place)
	return h.hasCommand() || h.path() != "" && err == nil
}

func (h host) hasCommand() bool {
	_, err := exec.LookPath(h.program)
	return err == nil
}

// manageHosts runs the command "mcp" with the arguments hosts, install or uninstall. It reads
// the name of the host from in if it is missing and in is a terminal.
func manageHosts(in *os.File, out io.Writer, args ...string) error {
	p := &installer{out: out, remove: args[0] == "uninstall"}
	p.force, p.printOnly = slices.Contains(args, "--force"), slices.Contains(args, "--print")
	args = slices.DeleteFunc(slices.Clone(args), func(arg string) bool { return arg == "--force" || arg == "--print" })
	known, found := "", ""
	for _, h := range hosts {
		known += " " + h.name
		if h.isFound() {
			found += fmt.Sprintf("%-15s %s\n", h.name, h.path())
		}
	}
	switch {
	case args[0] == "hosts" && len(args) == 1:
		_, err := io.WriteString(out, found)
		return err
	case args[0] != "install" && args[0] != "uninstall" || len(args) > 2:
		return errors.New("usage: mcp hosts | install [--force] [--print] [HOST] | uninstall [--force] [--print] [HOST]")
	case len(args) == 1 && !isTerminal(in):
		return fmt.Errorf("name a host:%s", known)
	case len(args) == 1:
		fmt.Fprintf(out, "%s%s, which host? ", found, args[0])
		args = append(args, "")
		fmt.Fscanln(in, &args[1])
	}
	i := slices.IndexFunc(hosts, func(h host) bool { return h.name == args[1] })
	if i < 0 {
		return fmt.Errorf("the host %q is unknown; there are%s", args[1], known)
	}
	program, err := programPath()
	if err != nil {
		return err
	}
	p.command = append([]string{program}, strings.Fields(serverArgs)...)
	return p.change(hosts[i])
}

// programPath returns the absolute path of this program: that of the link by which it was started, if there is one, because
// an update may move what the link leads to.
func programPath() (string, error) {
	program, err := os.Executable() // on Linux it is never a link
	if err != nil {
		return "", err
	}
	started, err := exec.LookPath(os.Args[0])
	if err != nil {
		return program, nil
	}
	info, infoErr := os.Stat(program)
	startedInfo, startedErr := os.Stat(started)
	if infoErr != nil || startedErr != nil || !os.SameFile(info, startedInfo) {
		return program, nil
	}
	return filepath.Abs(started)
}

// isTerminal reports whether the file is a terminal. The null device is a character device too.
func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	null, _ := os.Stat(os.DevNull)
	return err == nil && info.Mode()&fs.ModeCharDevice != 0 && !os.SameFile(info, null)
}

// An installer adds this program to hosts, or removes it.
type installer struct {
	command   []string // the absolute path of the program, and its arguments
	remove    bool     // the entry is removed
	force     bool     // an entry of the same name with another command is replaced, or removed
	printOnly bool     // nothing is changed
	out       io.Writer
}

// goRun matches the paths of programs that go run has built, and will delete.
var goRun = regexp.MustCompile(`[/\\]go-build\d*[/\\]|[/\\][0-9a-f]{64}-d[/\\]`)

// change changes the file of a host, by a command of the host or without, and prints the result.
func (p *installer) change(h host) (err error) {
	path := h.path()
	canRun := h.add != "" && h.hasCommand()
	switch {
	case path == "":
		return fmt.Errorf("the file of %s is unknown: set HOME", h.name)
	case goRun.MatchString(p.command[0]):
		return fmt.Errorf("%s is a temporary build: run go install, and then the program", p.command[0])
	case !utf8.ValidString(p.command[0]):
		return fmt.Errorf("the path %q is not UTF-8: rename it", p.command[0])
	case p.printOnly, h.key == "" && !canRun:
		_, err = fmt.Fprintf(p.out, "%s %s:\n\n%s\n", map[bool]string{false: "add to", true: "remove from"}[p.remove], path, p.newFile(h))
		return err
	case h.key == "":
		err = p.changeByCommand(h)
	case canRun && !p.remove:
		err = p.addByCommand(h, path)
	default:
		err = editFile(path, func(d *document) ([]byte, error) { return p.edit(h, d) })
	}
	if err == nil {
		_, err = fmt.Fprintf(p.out, "%s is %s %s\n", serverName, map[bool]string{false: "installed in", true: "removed from"}[p.remove], path)
	}
	return err
}

// changeByCommand adds or removes the entry of a host whose file is not JSON.
func (p *installer) changeByCommand(h host) error {
	var server struct{ Transport json.RawMessage }
	output, err := exec.Command(h.program, "mcp", "get", serverName, "--json").Output()
	if err == nil {
		err = json.Unmarshal(output, &server)
	}
	// If get failed for another reason than a missing entry, the next command fails too.
	isNeeded, err := p.isNeeded(h.name, err == nil, server.Transport)
	switch {
	case err != nil || !isNeeded:
		return err
	case p.remove:
		return p.run(h, "mcp remove NAME")
	}
	return p.run(h, h.add)
}

// addByCommand adds the entry of a host whose file is JSON.
func (p *installer) addByCommand(h host, path string) error {
	before, err := readDocument(path)
	if err != nil {
		return err
	}
	edited, err := p.edit(h, before)
	if err != nil || bytes.Equal(edited, before.text) {
		return err
	}
	// The commands of hosts drop comments, replace links by files, and do not replace entries.
	if before.path != path || !bytes.Equal(before.text, before.strict) || p.force {
		return editFile(path, func(d *document) ([]byte, error) { return p.edit(h, d) })
	}
	if err := p.run(h, h.add); err != nil {
		return err
	}
	after, err := readDocument(path)
	if err == nil && reflect.DeepEqual(after.others(h.key, serverName)[h.key], before.others(h.key, serverName)[h.key]) {
		return editFile(path, func(d *document) ([]byte, error) { return p.edit(h, d) }) // if the entry is missing
	}
	// The command has changed entries of other servers, as that of Copilot CLI 1.0.102 does.
	return editFile(path, func(*document) ([]byte, error) { return edited, nil })
}

// run runs the command of a host with arguments, in which NAME and COMMAND are replaced.
func (p *installer) run(h host, args string) error {
	cmd := exec.Command(h.program)
	for arg := range strings.FieldsSeq(args) {
		if arg == "COMMAND" {
			cmd.Args = append(cmd.Args, p.command...)
		} else {
			cmd.Args = append(cmd.Args, p.fill(arg))
		}
	}
	cmd.Stdout, cmd.Stderr = p.out, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", cmd, err)
	}
	return nil
}

// fill replaces the words in capitals in a text of the table.
func (p *installer) fill(text string) string {
	var quoted []string
	for _, word := range p.command {
		data, _ := json.Marshal(word)
		quoted = append(quoted, string(data))
	}
	args, list := strings.Join(quoted[1:], ", "), strings.Join(quoted, ", ")
	return strings.NewReplacer("NAME", serverName, "PROGRAM", quoted[0], "ARGS", "["+args+"]", "LIST", "["+list+"]").Replace(text)
}

// newFile returns the text of a file that has only the entry.
func (p *installer) newFile(h host) string {
	if h.key == "" {
		return p.fill(h.entry)
	}
	return newDocument(h.key, serverName, p.fill(h.entry))
}

// edit returns the text of the document with the entry, or without it.
func (p *installer) edit(h host, d *document) ([]byte, error) {
	_, entry, err := d.findEntry(h.key, serverName)
	if err != nil {
		return nil, err
	}
	isNeeded, err := p.isNeeded(d.place(entry.start), entry.end > 0, d.strict[entry.value:entry.end])
	switch {
	case err != nil || !isNeeded:
		return d.text, err
	case p.remove:
		return d.without(h.key, serverName)
	}
	return d.with(h.key, serverName, p.fill(h.entry))
}

// isNeeded reports whether an entry must be added, replaced or removed. It returns an error if
// another program has the name.
func (p *installer) isNeeded(place string, isThere bool, entry []byte) (bool, error) {
	isOther := isThere && !slices.Equal(commandOf(entry), p.command)
	if isOther && !p.force {
		return false, fmt.Errorf("%s: %q has another command: use --force to change it", place, serverName)
	}
	return isOther || isThere == p.remove, nil
}

// commandOf returns the program and the arguments of an entry, or nil if it has none.
func commandOf(entry []byte) []string {
	var list struct{ Command []string }
	var words struct {
		Command string
		Args    []string
	}
	switch {
	case json.Unmarshal(entry, &list) == nil:
		return list.Command
	case json.Unmarshal(entry, &words) == nil:
		return append([]string{words.Command}, words.Args...)
	}
	return nil
}
