#!/bin/sh
# Runs on the host while the root in $1 still is a folder. Prepares it, and
# leaves what the initramfs is made of in $1/boot/lab.
set -eu
root=$1
kernel=$(ls "$root/usr/lib/modules")
modules=$root/usr/lib/modules/$kernel
out=$root/boot/lab
mkdir -p "$out/modules/$kernel" "$out/tools"
list() { grep -v '^#' "$root/lab-$1"; }

# Unpacked modules load several times faster where the CPU is emulated.
find "$modules" -name '*.ko.xz' -print0 | xargs -0 -r -n 128 -P 4 xz -d
chroot "$root" depmod "$kernel"
cp "$modules"/modules.* "$out/modules/$kernel/"
list modules | while read -r _ name; do
	chroot "$root" modprobe -S "$kernel" --show-depends "$name"
done | sed -n "s,^insmod .*/modules/$kernel/\([^ ]*\).*,\1,p" | sort -u |
	while read -r file; do
		mkdir -p "$out/modules/$kernel/${file%/*}"
		cp "$modules/$file" "$out/modules/$kernel/$file"
	done
list modules | sed -n 's/^boot //p' | while read -r name; do
	chroot "$root" modprobe -S "$kernel" --show-depends "$name"
done | sed -n "s,^insmod .*/modules/$kernel/\([^ ]*\).*,\1,p" | awk '!seen[$0]++' >"$out/boot-modules"

# The kernel without its wrapper: a machine that starts it directly does not
# spend 2 s on unpacking it. Offsets: Documentation/arch/x86/boot.rst.
image=$root/boot/vmlinuz-$kernel
number() { od -An -t "u$2" -j "$1" -N "$2" "$image" | tr -d ' '; }
start=$((($(number 497 1) + 1) * 512 + $(number 584 4)))
tail -c +$((start + 1)) "$image" | head -c $(($(number 588 4) - 4)) | chroot "$root" zstd -dcq >"$out/vmlinux"
echo "$kernel" >"$out/kernel"

cp "$root/usr/bin/busybox" "$out/busybox"
# pick LIST: the programs of a list with their libraries, in a tree of its own.
pick() {
	list "$1" | while read -r pattern; do
		for tool in "$root"$pattern; do
			echo "${tool#"$root"}"
			chroot "$root" ldd "${tool#"$root"}" | grep -o '/[^ ]*' || :
		done
	done | sort -u | while read -r file; do
		mkdir -p "$out/$1/${file%/*}"
		cp -L "$root/$file" "$out/$1/$file"
	done
}
pick tools

# The root of the containers that Kubernetes tests run. What the list does not
# have is busybox's.
pick container
mkdir -p "$out/container/bin" "$out/container/etc" "$out/container/tmp" "$out/container/srv"
cp "$root/usr/bin/busybox" "$out/container/bin/busybox"
chroot "$root" busybox --list | while read -r applet; do
	[ "$applet" = busybox ] || [ -e "$out/container/usr/bin/$applet" ] || [ -e "$out/container/usr/sbin/$applet" ] ||
		ln -s busybox "$out/container/bin/$applet"
done
ln -sf /usr/bin/bash "$out/container/bin/bash"
for end in '' -save -restore; do # in the root these are links to Debian's alternatives
	ln -s "iptables-nft$end" "$out/container/usr/sbin/iptables$end"
done
echo 'root:x:0:0:root:/root:/bin/sh' >"$out/container/etc/passwd"
echo 'root:x:0:' >"$out/container/etc/group"
echo 'Hello Kubernetes!' >"$out/container/srv/index.html"

# A node is told who it is by its initramfs, configures no interface by
# itself, and starts nothing that the lab does not need.
rm -f "$root"/etc/ssh/ssh_host_* "$root/etc/hostname" "$root/etc/machine-id"
echo uninitialized >"$root/etc/machine-id"
chroot "$root" passwd -d root >/dev/null
chroot "$root" systemctl set-default multi-user.target >/dev/null
chroot "$root" systemctl enable ssh.service >/dev/null 2>&1
chroot "$root" systemctl mask getty@.service serial-getty@.service console-getty.service \
	systemd-networkd.service systemd-networkd.socket systemd-networkd-wait-online.service \
	systemd-timesyncd.service systemd-firstboot.service systemd-pcrphase.service \
	apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer e2scrub_reap.service \
	fstrim.timer man-db.timer logrotate.timer systemd-tmpfiles-clean.timer \
	systemd-update-utmp.service systemd-hwdb-update.service ldconfig.service systemd-journal-catalog-update.service \
	systemd-update-done.service systemd-user-sessions.service systemd-logind.service systemd-random-seed.service \
	systemd-hibernate-clear.service systemd-udev-load-credentials.service systemd-journal-flush.service \
	systemd-sysusers.service systemd-remount-fs.service kmod-static-nodes.service systemd-tmpfiles-setup-dev-early.service \
	modprobe@configfs.service sys-kernel-config.mount modprobe@fuse.service sys-fs-fuse-connections.mount run-lock.mount \
	apparmor.service modprobe@drm.service modprobe@efi_pstore.service sys-kernel-debug.mount sys-kernel-tracing.mount >/dev/null 2>&1
mkdir -p "$root/etc/systemd/system-generators"
for generator in debug gpt-auto hibernate-resume rc-local run ssh system-update sysv tpm2 getty; do
	ln -s /dev/null "$root/etc/systemd/system-generators/systemd-$generator-generator"
done
chroot "$root" systemctl disable containerd.service >/dev/null 2>&1
rm -rf "$root/lab-modules" "$root/lab-tools" "$root/lab-container" "$root"/var/cache/apt "$root"/var/lib/apt/lists "$root"/boot/vmlinuz* "$root"/boot/System.map*
chown -R 0:0 "$out"
