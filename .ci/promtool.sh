#!/bin/bash
# promtool, which evaluates rules of Prometheus: that of the PATH, or else that of Debian's package prometheus.
# Sourced by .ci/check-chart.
#
# The package is not installed, because it starts a server; promtool alone is taken out of it, and kept in
# ~/.cache/kube-reports.

# promtool: prints its path.
promtool()
{
	local directory=${XDG_CACHE_HOME:-$HOME/.cache}/kube-reports/promtool new
	type -P promtool && return 0
	if [ ! -x "$directory/promtool" ]; then
		mkdir -p "$directory" && new=$(mktemp -d "$directory/new-XXXXXX") || return 1
		# Packages are fetched by a user of their own.
		chmod 755 "$new"
		(cd "$new" && { apt-get download -q prometheus || { apt_update && apt-get download -q prometheus; }; } &&
			dpkg-deb --fsys-tarfile prometheus_*.deb | tar -x ./usr/bin/promtool &&
			mv usr/bin/promtool "$directory/promtool") >&2
		rm -rf "$new"
	fi
	[ -x "$directory/promtool" ] && echo "$directory/promtool"
}

apt_update()
{
	if [ "$(id -u)" = 0 ]; then
		apt-get update -q
	else
		sudo -n apt-get update -q
	fi
}
