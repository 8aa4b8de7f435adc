#!/bin/bash
# Commands that run side by side, sourced by scripts: begin NAME COMMAND... starts one, finish waits for all.
#
#   JOBS   2    so many at a time
#
# Each command has JOB_NUMBER in its environment: a number from 0 that no other running command has.
# The script defines ended NAME STATUS; it is called in the script's own shell for each command that has ended.
# An exit trap kills what still runs: stop_jobs.

declare -A running=() numbers=()

begin()
{
	local name=$1 number=0
	shift
	[ ${#running[@]} -lt "${JOBS:-2}" ] || finish_one
	while [[ " ${numbers[*]} " == *" $number "* ]]; do
		number=$((number + 1))
	done
	JOB_NUMBER=$number "$@" &
	running[$!]=$name
	numbers[$!]=$number
}

finish()
{
	while [ ${#running[@]} -gt 0 ]; do
		finish_one
	done
}

finish_one()
{
	local pid status name
	wait -n -p pid "${!running[@]}"
	status=$?
	name=${running[$pid]}
	unset "running[$pid]" "numbers[$pid]"
	ended "$name" $status
}

stop_jobs()
{
	[ ${#running[@]} = 0 ] || kill "${!running[@]}" 2>/dev/null
}
