#!/bin/bash
# What the checks that are written in Go have in common; sourced by .ci/check-clients and .ci/check-oracle.
#
# Debian 12's own Go (golang-go, 1.19) is too old for current Kubernetes modules and cannot fetch a newer one.
# So these checks take the go command that is there: golang-1.2x-go of bookworm-backports, or a release of go.dev.
# They say what is missing.

export GOFLAGS=-mod=readonly

# at_least VERSION WANTED: whether 1.26.8 is at least 1.26.0.
at_least()
{
	[ "$(printf '%s\n' "$1" "$2" | sort -V | head -n 1)" = "$2" ]
}

# go_is_there CHECK DIRECTORY: whether the go command is recent enough for the module in DIRECTORY; says so when it is
# not.
go_is_there()
{
	local wanted version
	export GOTOOLCHAIN=local
	wanted=$(awk '$1 == "go" {print $2}' "$2/go.mod")
	version=$(go env GOVERSION 2>/dev/null)
	if [ -z "$version" ] || ! at_least "${version#go}" "$wanted"; then
		echo "$1 needs Go $wanted or newer; the go command of this machine is ${version:-missing}"
		return 1
	fi
}
