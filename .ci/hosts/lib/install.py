"""The case install: `notes mcp install HOST` adds the server to a real host, and `notes mcp uninstall HOST` removes it.

The host is configured as in the other cases, and the entry of the server is taken out of its files. Then the program adds the entry
itself, and the host is run. The program is at BIN/notes; while the host runs, a script that starts it with wrap is at its place.
"""
import json, os, shutil, subprocess


def data(text):
    """Returns what a host reads in a file: its data if it is JSON. An object without servers is as none."""
    try:
        top = json.loads(text or "{}")
        return {k: v for k, v in top.items() if v or k not in ("mcpServers", "mcp")}
    except ValueError:
        return text


def forget(node, name):
    """Removes the entries of a server from data, at any depth."""
    for k, v in list(node.items()):
        if k in ("mcpServers", "mcp") and isinstance(v, dict):
            v.pop(name, None)
        elif k == "mcpServers":
            node[k] = []
        if isinstance(v, dict):
            forget(v, name)


class Install:
    def __init__(self, c, host, env, folder):
        self.c, self.host, self.env, self.bin, self.checks = c, host, {**c.base, **env}, folder + "/bin", []
        os.makedirs(self.bin)
        shutil.copy(c.server[2], self.bin + "/notes")
        for d, _, names in (x for top in (c.home, c.work) for x in os.walk(top)):
            for path in (d + "/" + n for n in names if n in ("config.toml", "config.yaml") or n.endswith(".json") and not d.endswith("backups")):
                self.without_entry(path)
        if host.name == "gemini":  # each of its commands takes the settings of old versions out of the file
            subprocess.run(["gemini", "mcp", "list"], env=self.env, cwd=c.work, stdin=subprocess.DEVNULL, capture_output=True, timeout=90)
        self.file = next(l.split()[1] for l in self.notes("hosts").stdout.splitlines() if l.split()[0] == host.name)

    def without_entry(self, path):
        text = open(path).read()
        if path.endswith(".toml"):
            text = text.split("[mcp_servers.")[0]
        else:
            try:
                top = json.loads(text)
            except ValueError:
                return
            if not isinstance(top, dict):
                return
            forget(top, self.c.name)
            text = json.dumps(top, indent=2) + "\n"
            if path.endswith(".yaml"):
                text = "".join("%s: %s\n" % (k, json.dumps(v)) for k, v in top.items() if k != "mcpServers")
        with open(path, "w") as f:
            f.write(text)

    def notes(self, *args):
        return subprocess.run([self.bin + "/notes", "mcp", *args], env=self.env, cwd=self.c.work, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=90)

    def add(self, name, passed, detail):
        self.checks.append((name, bool(passed), detail, ""))

    def text(self):
        try:
            return open(self.file).read()
        except FileNotFoundError:
            return None

    def change(self, *args):
        p = self.notes(*args, self.host.name)
        self.add(" ".join(args), p.returncode == 0, (p.stdout + p.stderr).strip()[-300:])
        if args == ("install",) and self.host.name == "continue":  # its file is YAML, and what is printed is added by hand
            with open(self.file, "a") as f:
                f.write(p.stdout.partition("\n\n")[2])

    def before(self):
        """Adds the server, twice, removes it, and adds it again."""
        before = self.text()
        self.change("install")
        once = self.text()
        self.add("the entry is in the file", once and self.bin + "/notes" in once, self.file)
        if self.host.name == "continue":
            self.original, self.place = before, once
            self.swap()
            return
        self.change("install")
        self.add("twice is once", self.text() == once, "")
        self.change("uninstall")
        after = self.text()
        how = "byte for byte" if after == before else "as data" if data(after) == data(before) else "%r, was %r" % (after, before)
        self.add("uninstall leaves the file as before", data(after) == data(before), how)
        self.change("install")
        self.original = before
        self.swap()

    def swap(self):
        os.rename(self.bin + "/notes", self.bin + "/notes.real")
        wrap, records = self.c.server[:2]
        with open(self.bin + "/notes", "w") as f:
            f.write("#!/bin/bash\nexport NOTES_FILE=%s\nexec %s %s %s/notes.real \"$@\"\n" % (self.c.env["NOTES_FILE"], wrap, records, self.bin))
        os.chmod(self.bin + "/notes", 0o755)

    def after(self):
        """Removes the server after the host has run, and may have written its file."""
        os.rename(self.bin + "/notes.real", self.bin + "/notes")
        if self.host.name == "continue":
            return
        used = self.text()
        self.change("uninstall")
        left, was = data(self.text()), data(used)
        if isinstance(was, dict):
            forget(was, self.c.name)
            was = data(json.dumps(was))
            self.add("uninstall removes only the entry", left == was, "the file is %s" % ("as before the host" if left == data(self.original) else "changed by the host"))
        else:
            self.add("uninstall removes only the entry", left == data(self.original), repr(left)[-300:])
