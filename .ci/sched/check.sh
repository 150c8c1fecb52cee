#!/bin/sh
# check.sh [TIME]: every scenario for that long (default 150ms) in a plain build, in one with small
# bounds and in one with the race detector, and every schedule of the tiny ones with one preemption at most.
# Some are played twice: a seed must give the same schedule again.
# The exit status is 1 if a schedule was found that breaks a promise; its seed is printed.
set -u
time=${1:-150ms}
here=$(cd "$(dirname "$0")" && pwd)
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
export SCRATCH="$tmp"

failed=

# check NAME COMMAND...: the command finds nothing, or its output is shown.
check() {
	name=$1
	shift
	if "$@" >"$tmp/out" 2>&1; then
		echo "$name: $(tail -n 1 "$tmp/out")"
	else
		cat "$tmp/out"
		failed="$failed $name"
	fi
}

build() {
	"$here/build.sh" "$tmp/$1" >"$tmp/out" 2>&1 || { cat "$tmp/out" && exit 1; }
}

build plain
TIGHT=1 build tight
check plain "$tmp/plain" -q -time "$time"
check every-schedule "$tmp/plain" -q -scenario tiny -s dfs -bound 1
check the-same-twice "$tmp/plain" -q -verify -n 50
check tight "$tmp/tight" -q -tight -time "$time"
if [ "$(go env CGO_ENABLED)" = 1 ]; then
	RACE=1 build race
	GORACE="exitcode=0 log_path=$tmp/races" check race "$tmp/race" -q -time "$time"
else
	echo "NOT CHECKED: the race detector wants a C compiler"
fi
[ -z "$failed" ] || { echo "found something:$failed" && exit 1; }
