#!/bin/sh
# Runs on the host after the image's own customize.sh, while the root in $1 still is a folder:
# turns podman's services off, since podman only loads images here.
set -eu
chroot "$1" systemctl mask podman.service podman.socket podman-restart.service podman-auto-update.timer \
	podman-clean-transient.service >/dev/null 2>&1
