#!/bin/sh
# check.sh [TIME] runs every scenario for that long (default 80ms) in a plain build, in one with small bounds and in one
# with the race detector. It also runs the schedules of the tiny scenarios with at most one preemption (all of them, unless
# one scenario has more than 3 seconds of them), and checks that a
# seed gives the same schedule twice.
# The exit status is 1 if a schedule breaks a promise; its seed is printed.
set -u
time=${1:-80ms}
here=$(cd "$(dirname "$0")" && pwd)
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
export SCRATCH="$tmp"

failed=

# check NAME COMMAND... runs the command and prints its last line, or all of its output if it fails.
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
check every-schedule "$tmp/plain" -q -scenario tiny -s dfs -bound 1 -time 3s
check repeatable "$tmp/plain" -q -verify -n 50
check tight "$tmp/tight" -q -tight -time "$time"
if [ "$(go env CGO_ENABLED)" = 1 ]; then
	RACE=1 build race
	GORACE="exitcode=0 log_path=$tmp/races" check race "$tmp/race" -q -time "$time"
else
	echo "NOT CHECKED: the race detector needs a C compiler"
fi
[ -z "$failed" ] || { echo "FAILED:$failed" && exit 1; }
