#!/bin/sh
# mutants.sh [FOLDER] [TIME] builds a driver for each FILE.mut of the folder (default: mutants, beside this file). Each
# driver must find a violation within that time for each scenario (default 500ms), or in a second attempt within ten times
# as long. The exit status is 1 if a mutant was not found.
#
# A mutant is a fault in the library: blocks of "@@ FILE", "<<<<", old lines, "====", new lines, ">>>>". The old lines must
# occur in the file exactly once. Text before the first block is a comment. In it, a line "scenarios: a,b" names the
# scenarios that find the mutant, and a line "build: tight", "build: race" or "build: tight race" says how to build it.
set -u
here=$(cd "$(dirname "$0")" && pwd)
folder=${1:-$here/mutants} time=${2:-500ms}
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
export SCRATCH="$tmp" GORACE="exitcode=0 log_path=$tmp/races"

n=0 missed=
for mutant in "$folder"/*.mut; do
	[ -e "$mutant" ] || { echo "no mutants in $folder" && exit 1; }
	name=$(basename "$mutant" .mut)
	n=$((n + 1))
	head=$(sed '/^@@ /,$d' "$mutant")
	scenarios=$(echo "$head" | sed -n 's/^scenarios: *//p')
	TIGHT='' RACE='' options=''
	case $head in *build:*tight*) TIGHT=1 options=-tight ;; esac
	case $head in *build:*race*) RACE=1 ;; esac
	export TIGHT RACE
	if ! "$here/build.sh" "$tmp/driver" "$mutant" >"$tmp/out" 2>&1; then
		cat "$tmp/out"
		echo "$name: CANNOT BE BUILT"
		missed="$missed $name"
		continue
	fi
	for t in "$time" "${time%%[a-z]*}0${time##*[0-9]}"; do
		# shellcheck disable=SC2086 # an empty option must not become an argument
		"$tmp/driver" -q -first $options -scenario "${scenarios:-all}" -time "$t" >"$tmp/out" 2>&1 || break
	done
	if found=$(grep -m 1 VIOLATION "$tmp/out"); then
		echo "$name: found in $(awk '{print $1; exit}' "$tmp/out"),$found"
	else
		tail -n 3 "$tmp/out"
		echo "$name: NOT FOUND"
		missed="$missed $name"
	fi
done
echo "$n mutants"
[ -z "$missed" ] || { echo "not found:$missed" && exit 1; }
