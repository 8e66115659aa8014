// Package lab boots machines with emulated SR-IOV NICs: the hardware that
// Culvert is developed and tested on.
//
// In go: a name, a number of nodes, and the recipe under image/ (packages and
// files of the nodes' root). Out come machines that run commands. There are
// two kinds:
//
//   - A lab ([Up], [Open]) is one to four full Debian nodes, worker01 and up.
//     Each has two igb PFs, enp1s0 and enp2s0, plugged into one switch per
//     wire, an IOMMU, and a management network that commands travel over.
//     A supervisor process owns the machines, taps and bridges of a lab and
//     lives in a network namespace of its own (and, without root, a user
//     namespace): when it dies, everything dies with it.
//   - A fast node ([Fast]) boots from an initramfs, runs one command and
//     powers off. Its two PFs share one wire. It needs no privilege.
//
// The program culvert-lab and the tests of kernel/, attach/ and
// reconcile/ call it.
//
// The machines are emulated by QEMU, with KVM where a guest really runs under
// it and else in software ([Accel]). Nothing is left on the host but the
// cache: $XDG_CACHE_HOME/culvert, or ~/.cache/culvert.
//
// The tests that boot machines are behind a build tag and need QEMU 10 and
// mmdebstrap: go test -tags lab ./lab/
package lab
