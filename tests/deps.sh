#!/bin/sh
# Install the Debian packages named on the command line that are missing. Says what it does; does nothing when all is there.
missing=
for package; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing="$missing $package"
done
[ -z "$missing" ] && exit 0
echo "missing packages:$missing"
if ! command -v apt-get >/dev/null; then
    echo "this system has no apt-get; install their counterparts by hand"
    exit 1
fi
sudo=
if [ "$(id -u)" -ne 0 ]; then
    sudo=sudo
    command -v sudo >/dev/null || { echo "not root and no sudo: run as root: apt-get install$missing"; exit 1; }
fi
run() { echo "+ $*"; DEBIAN_FRONTEND=noninteractive "$@"; }
# The lists first: on a new machine they are empty or old.
run $sudo apt-get update -q && run $sudo apt-get install -y -q --no-install-recommends $missing
