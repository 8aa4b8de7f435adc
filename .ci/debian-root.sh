#!/bin/bash
# Copies of the tree, and clean Debian roots: sourced by .ci/deb, .ci/check-deb, .ci/check-debian13 and
# .ci/check-images.  Roots are made as root.
#
# The base of a root comes from debootstrap, once for each suite and date of its Release file, and is kept with the
# packages that were downloaded in ~/.cache/kube-reports/debian.  The mirror is the one that apt uses on this machine,
# also for a suite that apt does not read here.

debian_cache=${XDG_CACHE_HOME:-$HOME/.cache}/kube-reports/debian

# copy_tree DIR: the sources, as they are, without what was built.
copy_tree()
{
	mkdir -p "$1"
	if git rev-parse --git-dir >/dev/null 2>&1; then
		git ls-files --cached --others --exclude-standard --deduplicate
	else
		find . \( -name build -o -name '.run*' -o -name __pycache__ \) -prune -o -type f ! -name '*.so' -print
	fi | while IFS= read -r file; do
		# Git lists what was deleted as well.
		[ ! -e "$file" ] || printf '%s\n' "$file"
	done | tar -c --verbatim-files-from -T - | tar -x -C "$1"
}

# debian_targets FIELDS: what apt reads on this machine, as lines of these fields of its own records.
debian_targets()
{
	apt-get indextargets --format "$1" 'Created-By: Packages' 'Component: main' | sort -u
}

# debian_base SUITE: path of the tar file of the base.
debian_base()
{
	local suite=$1 own site release date base new
	own=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
	# shellcheck disable=SC2016 # names of apt's
	read -r site release < <(debian_targets '$(REPO_URI) $(FILENAME) $(RELEASE)' | sed -n "s/ $own\$//p") ||
		{ echo "apt's sources name no mirror of Debian $own" >&2; return 1; }
	mkdir -p "$debian_cache"
	if [ "$suite" = "$own" ]; then
		release=${release%_main_binary-*}_InRelease
		[ -e "$release" ] || apt-get update >&2
	else
		release=$debian_cache/$suite.InRelease
		/usr/lib/apt/apt-helper download-file "${site%/}/dists/$suite/InRelease" "$release" >&2 || return 1
	fi
	date=$(date -u -d "$(sed -n 's/^Date: //p' "$release" | head -n 1)" +%Y%m%d%H%M) || return 1
	base=$debian_cache/$suite-$date.tar
	if [ ! -e "$base" ]; then
		new=$(mktemp -d "$debian_cache/$suite-XXXXXX")
		if ! debootstrap --variant=minbase "$suite" "$new/root" "$site" >"$new/log" 2>&1; then
			tail -n 20 "$new/log" >&2
			rm -rf "$new"
			return 1
		fi
		# shellcheck disable=SC2016 # names of apt's
		debian_targets '$(REPO_URI) $(RELEASE)' |
			sed -nE "s/^(.*) $own(-updates|-security)?\$/deb \1 $suite\2 main/p" >"$new/root/etc/apt/sources.list"
		# A root for a check need not outlive a power cut.
		echo force-unsafe-io >"$new/root/etc/dpkg/dpkg.cfg.d/force-unsafe-io"
		rm -rf "$new/root/var/cache/apt/archives/"*.deb
		chroot "$new/root" apt-get update >"$new/log" 2>&1 || { tail -n 20 "$new/log" >&2; rm -rf "$new"; return 1; }
		rm -f "$debian_cache/$suite"-*.tar
		tar -c -C "$new/root" -f "$new/tar" . && mv "$new/tar" "$base"
		rm -rf "$new"
	fi
	echo "$base"
}

# debian_root DIR SUITE: a clean root in DIR.
debian_root()
{
	local base
	base=$(debian_base "$2") && mkdir -p "$1" && tar -x -C "$1" -f "$base" && cp /etc/resolv.conf "$1/etc/resolv.conf"
	mkdir -p "$debian_cache/archives/partial"
}

# debian_mount DIR, debian_unmount DIR: what programs expect, and the cache of packages, below a root.
debian_mount()
{
	mount -t proc proc "$1/proc" && mount -t tmpfs tmpfs "$1/run" && mount --bind /dev "$1/dev" &&
		mount --bind "$debian_cache/archives" "$1/var/cache/apt/archives"
}

debian_unmount()
{
	local below
	findmnt -rno TARGET | grep -F "$1/" | sort -r | while read -r below; do
		umount "$below" || umount -l "$below"
	done
}
