// Package nodestate converts the PFs and VFs of a node's status to those of a NodeState, and back.
// Each field has its two directions in one file. culvert-controller, which compares networks and
// policies with the PFs of nodes, and package status call it.
package nodestate

import (
	"strings"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/internal/vf"
)

// MaxReason bounds in bytes why something is as it is, since etcd refuses a NodeState from 1.5 MiB
// on and a node may have 256 VFs.
const MaxReason = 1024

// CountAiling counts the VFs of each PF, by the PF's name, that are in quarantine, and those without
// carrier although their PF has a link.
func CountAiling(vfs []v1alpha1.VFState) (aside, dark map[string]int) {
	aside, dark = map[string]int{}, map[string]int{}
	for _, v := range vfs {
		pf := v.Name[:max(0, strings.LastIndexByte(v.Name, '#'))]
		if v.Phase == string(vf.PhaseQuarantined) {
			aside[pf]++
		}
		if v.NoCarrier {
			dark[pf]++
		}
	}
	return aside, dark
}
