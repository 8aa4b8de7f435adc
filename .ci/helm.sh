#!/bin/bash
# Helm, built as a Go module with the machine's own go command (Debian 12's is too old) and kept by its version in
# ~/.cache/kube-reports; sourced by .ci/check-chart and .ci/install-manifest.

helm3_version=v3.22.0 helm4_version=v4.3.1
cache=${XDG_CACHE_HOME:-$HOME/.cache}/kube-reports

# build_helm MODULE VERSION: into the cache, whole or not at all.
build_helm()
{
	local new
	[ -x "$cache/helm-$2/helm" ] && return 0
	mkdir -p "$cache/helm-$2" && new=$(mktemp -d "$cache/helm-$2/new-XXXXXX") || return 1
	GOTOOLCHAIN=local GOFLAGS=-mod=mod GOBIN=$new go install "$1/cmd/helm@$2" && mv "$new/helm" "$cache/helm-$2/helm"
	local status=$?
	rm -rf "$new"
	return $status
}

helm3()
{
	build_helm helm.sh/helm/v3 $helm3_version >&2 && echo "$cache/helm-$helm3_version/helm"
}

helm4()
{
	build_helm helm.sh/helm/v4 $helm4_version >&2 && echo "$cache/helm-$helm4_version/helm"
}
