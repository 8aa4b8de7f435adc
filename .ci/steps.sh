#!/bin/bash
# Steps of a check that are counted, and blocks of pages: sourced by .ci/check-deb and .ci/check-images.
# $work is the directory of their logs.

passed=0 failed=0

# not COMMAND...: errexit ignores what follows a "!".
not()
{
	! "$@"
}

# run NAME COMMAND...: one test; its output is shown when it fails.
run()
{
	local name=$1 start=$SECONDS
	shift
	# In the background: errexit has no effect inside a condition, nor in what a condition calls, run itself included.
	# shellcheck disable=SC2154 # work is the caller's
	(set -e; "$@") >"$work/$name.log" 2>&1 &
	if wait $!; then
		passed=$((passed + 1))
		printf '%-28s ok %5d s\n' "$name" $((SECONDS - start))
	else
		failed=$((failed + 1))
		tail -n 40 "$work/$name.log"
		printf '%-28s FAILED\n' "$name"
		return 1
	fi
}

# Without this step nothing of what follows can be tried.
need()
{
	run "$@"
	# shellcheck disable=SC2181 # see run
	[ $? = 0 ] || finish
}

finish()
{
	echo "$passed passed, $failed failed"
	[ "$failed" = 0 ]
	exit
}

# page_block PAGE TEXT: prints the one block of a page that has this text.
page_block()
{
	awk -v text="$2" '/^```/ { if (fence && index(lines, text)) { printf "%s", lines; found++ }
		fence = !fence; lines = ""; next } fence { lines = lines $0 "\n" } END { exit found != 1 }' "$1"
}
