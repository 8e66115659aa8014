#!/bin/sh
# Runs on the host after the image's own customize.sh, while the root in $1 still
# is a folder: makes the small guest in /boot/guest, of the node's kernel and
# busybox, and lets the node run it.
set -eu
root=$1
lab=$root/boot/lab
kernel=$(cat "$lab/kernel")
guest=$root/boot/guest

cp "$lab/vmlinux" "$guest/vmlinux"
mkdir -p "$guest/root/bin" "$guest/root/dev" "$guest/root/proc" "$guest/root/sys"
mv "$guest/init" "$guest/root/init"
chmod 0755 "$guest/root/init"
cp "$lab/busybox" "$guest/root/bin/busybox"
for module in virtio_net igbvf; do # in this order eth0 is the interface that stays when a VF goes
	chroot "$root" modprobe -S "$kernel" --show-depends "$module" | sed -n 's/^insmod \([^ ]*\).*/\1/p' | while read -r file; do
		cp "$root/$file" "$guest/root/"
		echo "/${file##*/}" >>"$guest/root/modules"
	done
done
chroot "$root" sh -c 'cd /boot/guest/root && find . | busybox cpio -o -H newc >../initrd' 2>/dev/null
rm -rf "$guest/root"

# libvirtd looks for hooks when it starts. It is started by its socket, and
# not at boot, where it takes long if the CPU is emulated.
chroot "$root" systemctl disable libvirtd.service >/dev/null 2>&1
chroot "$root" systemctl enable libvirtd.socket libvirtd-ro.socket virtlogd.socket >/dev/null 2>&1
chroot "$root" systemctl mask libvirt-guests.service virtlockd.socket libvirtd-admin.socket >/dev/null 2>&1
rm -f "$root/etc/libvirt/qemu/networks/autostart/default.xml"
