// The SR-IOV CNI plugin, for the benchmark that compares Culvert with the usual
// chain of plugins. Culvert imports none of it.
//
// v2.1.0 is the newest that Go modules serve: later releases changed nothing of
// how it works, and do more (spoofchk, trust, rates, a MAC, announcements), so
// that they take longer. It still imports itself by its old name.
//
//	go build -o DIR tool
module github.com/culvert-net/culvert/test/tools/sriov-cni

go 1.25.0

tool github.com/intel/sriov-cni/cmd/sriov

require (
	github.com/containernetworking/cni v0.6.0 // indirect
	github.com/containernetworking/plugins v0.7.4 // indirect
	github.com/coreos/go-iptables v0.4.5 // indirect
	github.com/intel/sriov-cni v0.0.0-00010101000000-000000000000 // indirect
	github.com/onsi/ginkgo v1.16.5 // indirect
	github.com/onsi/gomega v1.44.0 // indirect
	github.com/stretchr/testify v1.12.1 // indirect
	github.com/vishvananda/netlink v1.1.0 // indirect
	github.com/vishvananda/netns v0.0.0-20191106174202-0a2b9b5464df // indirect
	golang.org/x/sys v0.0.0-20210112080510-489259a85091 // indirect
)

replace github.com/intel/sriov-cni => github.com/k8snetworkplumbingwg/sriov-cni v2.1.0+incompatible
