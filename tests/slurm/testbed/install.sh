#!/bin/sh
# Installs what the Slurm test bed needs from Debian's archive: `tests/slurm/testbed/install.sh [--accounting]`.
# Exit codes: 0 everything is there, 75 it cannot be had on this machine (the Slurm tests do not run then).
set -eu

packages="slurmctld slurmd slurm-client munge"
programs="slurmctld slurmd sbatch munged"
if [ "${1:-}" = "--accounting" ]; then
    packages="$packages slurmdbd mariadb-server"
    programs="$programs slurmdbd mariadbd"
fi

not_run() {
    echo "##############################################################" >&2
    echo "## SLURM TESTS NOT RUN: $1" >&2
    echo "##############################################################" >&2
    exit 75
}

PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin"
missing=""
for program in $programs; do
    command -v "$program" >/dev/null 2>&1 || missing="$missing $program"
done
if [ "$(id -u)" -ne 0 ]; then
    not_run "the test bed must be started by root${missing:+, and these programs are missing:$missing}"
fi
[ -z "$missing" ] && exit 0
command -v apt-get >/dev/null 2>&1 || not_run "missing programs:$missing, and there is no apt-get to install $packages"
export DEBIAN_FRONTEND=noninteractive
# shellcheck disable=SC2086 # a list of package names
if ! { apt-get update -qq && apt-get install -y -qq --no-install-recommends $packages; } >&2; then
    not_run "apt-get install $packages failed"
fi
