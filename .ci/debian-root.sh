#!/bin/bash
# Copies of the tree, and clean Debian roots: sourced by .ci/deb, .ci/check-deb and .ci/check-images.  Roots are made as
# root.
#
# The base of a root comes from debootstrap, once for each suite and date of its Release file, and is kept with the
# packages that were downloaded in ~/.cache/kube-reports/debian.  The mirror is the one that apt uses on this machine.

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
	local suite=$1 site release date base new
	# shellcheck disable=SC2016 # names of apt's
	read -r site release < <(debian_targets '$(REPO_URI) $(FILENAME) $(RELEASE)' | sed -n "s/ $suite\$//p") ||
		{ echo "apt's sources name no mirror of Debian $suite" >&2; return 1; }
	release=${release%_main_binary-*}_InRelease
	[ -e "$release" ] || apt-get update >&2
	date=$(date -u -d "$(sed -n 's/^Date: //p' "$release" | head -n 1)" +%Y%m%d%H%M) || return 1
	base=$debian_cache/$suite-$date.tar
	if [ ! -e "$base" ]; then
		mkdir -p "$debian_cache"
		new=$(mktemp -d "$debian_cache/$suite-XXXXXX")
		if ! debootstrap --variant=minbase "$suite" "$new/root" "$site" >"$new/log" 2>&1; then
			tail -n 20 "$new/log" >&2
			rm -rf "$new"
			return 1
		fi
		# shellcheck disable=SC2016 # names of apt's
		debian_targets '$(REPO_URI) $(RELEASE)' | grep -E " $suite(-updates|-security)?\$" | sed 's/.*/deb & main/' \
			>"$new/root/etc/apt/sources.list"
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
