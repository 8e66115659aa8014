// Package kernel is the only part of Culvert that makes system calls, talks
// netlink or writes to /sys.
//
// Its inputs are values of package step: Do carries out one step and reads back its effect. Its
// results are vf.PF and vf.State: PFs, PF and VF read them, and Watch wakes callers that want to
// read again. reconcile, inventory and attach call it through small interfaces of their own;
// kernel/fake has the same methods in memory.
//
// Reading sysfs goes through Options.SysRoot and is tested on trees of text;
// netlink is below it in package rtnl, device events in package uevent, network
// namespaces in package netns, and the frames of Announce in package neigh. Package beacon sends and
// receives frames between PFs.
//
// # Tests in the lab
//
// The tests in *_lab_test.go work on real SR-IOV functions and are skipped
// unless CULVERT_LAB_NODE=1 is set. Set it inside a lab node with two igb PFs
// that nothing else uses:
//
//	CGO_ENABLED=0 go test -c -o kernel.test ./internal/kernel
//	culvert lab fast --file kernel.test:/kernel.test -- env CULVERT_LAB_NODE=1 /kernel.test -test.v
package kernel
