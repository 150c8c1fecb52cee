#!/bin/sh
# build.sh OUT [MUTANT] rewrites the library at $LIB (default: the one above this folder) and builds OUT, a driver for it.
# TIGHT=1 sets small bounds, RACE=1 enables the race detector, and SCRATCH is the working folder (default: a folder in the
# system's directory for temporary files).
set -e

# The rewriter needs these names of the library: constants that are made small, so that small
# scenarios reach the bounds (tight.mut keeps one of these bounds large); functions that are left
# out, because they deal with the process or because other packages call them with a context of
# their own; and the files.
usual='minRead, keepBuffer=128, 2048;maxReports=3'
tight='minRead, keepBuffer=128, 2048;maxReports=3;outputBound=300'
drop='Server.ServeStdio,endOnSignal,stdioFile.*,tracer.*,traceFile.*,Server.LogHandler,logHandler.*'
files='mcp.go session.go cancel.go'

here=$(cd "$(dirname "$0")" && pwd)
lib=${LIB:-$here/../..}
mkdir -p "$(dirname "$1")"
out=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
mutant=$2
set=$usual
if [ -n "$TIGHT" ]; then
	set=$tight
	mutant=${mutant:+$mutant,}$here/tight.mut
fi
scratch=${SCRATCH:-${TMPDIR:-/tmp}/sched}
source=$scratch/$(basename "$out").src
tool=$scratch/schedrewrite
rm -rf "$source"
mkdir -p "$source"
(cd "$here/rewrite" && go build -o "$tool" .)
cp -R "$here/sched" "$here/driver" "$source/"
printf 'module schedrun\n\n%s\n' "$(grep '^go ' "$here/rewrite/go.mod")" >"$source/go.mod"
"$tool" -src "$(go env GOROOT)/src/context" -out "$source/context" -path context context.go
# shellcheck disable=SC2086 # $files holds several arguments
"$tool" -src "$lib" -out "$source/mcp" -context schedrun/context -set "${SET:-$set}" -drop "$drop" ${mutant:+-mutant "$mutant"} $files
cd "$source"
if [ -n "$RACE" ]; then
	go build -race -gcflags='schedrun/sched=-race=false -l' -gcflags='schedrun/driver=-race=false -l' -o "$out" ./driver
else
	go build -o "$out" ./driver
fi
