package main

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/test/releases"
	"github.com/culvert-net/culvert/test/soak"
)

// TestReleaseForARM64 makes a release for arm64, and runs the programs of its archive, its packages and
// its image by the emulator of QEMU.
func TestReleaseForARM64(t *testing.T) {
	soak.Only(t, "every program compiled for arm64")
	for _, program := range []string{"qemu-aarch64-static", "dpkg-deb", "rpm2archive"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Fatalf("no %s here: tools/bootstrap test arm64", program)
		}
	}
	key, err := releases.MakeKey(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	made, err := releases.Make(t.Context(), releases.Options{Top: "../..", Dir: filepath.Join(t.TempDir(), "tree"), Key: key, Versions: []string{"v0.1.0"}, Arch: "arm64"})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	out, err := shell(t, dir, `release='`+made[0]+`'
		mkdir archive deb rpm image layers
		tar -xzf "$release"/culvert-*-linux-arm64.tar.gz -C archive --strip-components 1
		for file in "$release"/*_arm64.deb; do dpkg-deb --extract "$file" deb; done
		for file in "$release"/*.aarch64.rpm; do rpm2archive - <"$file" | tar -xz -C rpm; done
		tar -xf "$release"/culvert-*-image.tar -C layers
		for blob in layers/blobs/sha256/*; do
			if gzip --test "$blob" 2>/dev/null; then tar -xzf "$blob" -C image; fi
		done
		find archive deb rpm image -name 'culvert*' -perm -u=x -type f | sort`)
	if err != nil {
		t.Fatal(err, out)
	}
	programs := strings.Fields(out)
	if want := len(everyProgram) + 2*7 + 6; len(programs) != want { // the packages have all but culvert-controller
		t.Errorf("the release has %d programs, want %d:\n%s", len(programs), want, out)
	}
	for _, program := range programs {
		if kind, err := shell(t, dir, "od -An -tx1 -j18 -N2 "+program); err != nil || strings.TrimSpace(kind) != "b7 00" { // EM_AARCH64, elf(5)
			t.Errorf("%s is for the machine %s (%v)", program, kind, err)
		}
		for _, flag := range []string{"--version", "--help"} {
			said, err := shell(t, dir, "qemu-aarch64-static "+program+" "+flag+" </dev/null")
			named := strings.Contains(said, "v0.1.0") || strings.HasSuffix(program, "-cni") // the plugin answers both by its help
			if err != nil || !strings.Contains(said, "ulvert") || flag == "--version" && !named {
				t.Errorf("%s %s: %v: %.300s", program, flag, err, said)
			}
		}
	}
}
