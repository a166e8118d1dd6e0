#!/bin/sh
# Installs the HTML manuals that tests/docs_sites crawls. Needs root and Debian's or Ubuntu's package lists.
#   tests/docs_sites/install.sh                 those of `make test`
#   tests/docs_sites/install.sh PACKAGE ...     these
set -eu
[ $# -gt 0 ] || set -- python3.11-doc postgresql-doc-15
missing=""
for package in "$@"; do
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing="$missing $package"
done
[ -n "$missing" ] || exit 0
export DEBIAN_FRONTEND=noninteractive
# shellcheck disable=SC2086
apt-get install -y -q --no-install-recommends $missing && exit 0
apt-get update -q
# shellcheck disable=SC2086
apt-get install -y -q --no-install-recommends $missing
