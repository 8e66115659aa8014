package vf

// DescribeUnanswered says why the interface of a VF may have another MAC address than the PF has
// set, and what to do. The driver of a VF asks its PF for the address as it binds, and makes one up
// without an answer. igbvf, ixgbevf and iavf then log "PF still in reset state" or the like.
func DescribeUnanswered() string {
	return "the PF did not answer the VF's driver, which made up a MAC address: take the PF down and up, or bind its driver anew when no pod has a VF of it"
}
