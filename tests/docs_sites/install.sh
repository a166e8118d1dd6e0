#!/bin/sh
# Installs the HTML manuals that tests/docs_sites crawls. Needs root and Debian's or Ubuntu's package lists.
#   tests/docs_sites/install.sh                 that of `make test`
#   tests/docs_sites/install.sh PACKAGE ...     these
#   tests/docs_sites/install.sh --newest PACKAGE ...   these, in the newest version even if there is one already
set -eu
newest=""
[ "${1:-}" != --newest ] || { newest=yes; shift; }
[ $# -gt 0 ] || set -- python3.11-doc
missing=""
for package in "$@"; do
    [ -z "$newest" ] && [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing="$missing $package"
done
[ -n "$missing" ] || exit 0
export DEBIAN_FRONTEND=noninteractive
# Lists of some weeks ago have some versions ago: the pages that were counted are the newest's.
apt-get update -q
# shellcheck disable=SC2086
apt-get install -y -q --no-install-recommends $missing
