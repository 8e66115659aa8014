// Package desired parses /etc/culvert/host.yaml, and policies of the cluster, into one Spec
// for this host: how many VFs each PF has, and which pool each VF is in. reconcile, alloc,
// status and the CLI read the Spec. The package is pure: it opens no file and does not ask
// the kernel.
//
// # host.yaml
//
//	pfs:
//	- name: enp1s0f0        # the netdevice, or a pattern such as enp1s0f*
//	  vfs: 7                # how many, 0 for none, or max for all the PF can
//	  mtu: 9000             # of the PF and its free VFs, in bytes; left alone when not given
//	  addresses: [172.16.91.1/24]   # of the PF, such as the gateway of its VFs' networks
//	  autoprobe: true       # default true
//	  needCarrier: true     # default true
//	  segment: storage      # the name of the L2 segment that the PF is on
//	pools:
//	- name: intel_sriov_netdevice
//	  prefix: intel.com     # default culvert.dev
//	  deviceType: netdevice # or vfio-pci
//	  mtu: 1500             # of the pool's free VFs; that of the PF when not given
//	  drift: mend           # or report
//	  selectors:            # or a list of such maps
//	    vendors: ["8086"]
//	    pfNames: ["enp1s0f0#0-3", "enp1s0f1"]
//	  allow:                # see allow; without it every request is served
//	    vlans: ["100-200"]
//
// An empty file is valid: Culvert then leaves every PF alone.
//
// # pfs
//
// An entry selects PFs by one or more of these keys, all of which must match:
//
//	name            a netdevice name, also an alternative one (altname of ip link), or a
//	                pattern: * stands for any text, ? for one character, [0-3] for one of these
//	mac             the permanent address
//	pciAddress      of the PF
//	vendor, device  four hexadecimal digits each
//	driver          of the PF
//
// A PF takes the first entry that matches it. Culvert leaves a PF alone that no entry
// matches, which is not the same as vfs: 0.
//
// culvertd adds addresses to the PF's interface and keeps them there. When the file
// no longer has an address, culvertd removes it if it added the address itself. The kernel
// marks such addresses since Linux 5.18; an older kernel keeps the address until a reboot.
// Addresses of other origin stay. An entry that matches several PFs gives each the same addresses.
//
// A PF in a bond or team of the host has the MTU that the bond gives it. culvertd does not set
// another one: it reports the difference, and gives free VFs no larger MTU than the PF has.
//
// autoprobe is the value of sriov_drivers_autoprobe. With true the kernel also binds a
// driver to VFs that other programs make. Culvert's own VFs get the driver of their pool
// either way.
//
// needCarrier: true makes Culvert create VFs only when the PF has carrier. Some hardware,
// and the emulated igb, creates VFs without link that stay unusable until they are created
// again: their mailbox to the PF never comes up. Set it to false for a PF whose cable may be
// unplugged at boot and whose driver does not have this fault.
//
// segment names the L2 segment that the PF is on: the switches and cables on which PFs reach each
// other without a router. A name is a DNS label. Culvert refuses a pool that has VFs of PFs on two
// named segments, and a bond of such VFs: their pods could not reach each other. A network can
// ask for a segment. A PF without the key conflicts with no other one, since its segment is not
// known, and a network that asks for a segment gets no VF of it.
//
// # pools
//
// A VF is in at most one pool: the first in the file that matches it. A list of selectors
// matches when one of its maps matches. A map matches when every key of it does, and a key
// when any of its values does. A pool without selectors takes every VF that no earlier pool
// took. The keys are those of the SR-IOV device plugin:
//
//	vendors, devices  of the VF, four hexadecimal digits
//	drivers           see Selector
//	pciAddresses      of the VF
//	acpiIndexes       the firmware's own numbers, /sys/bus/pci/devices/*/acpi_index
//	pfNames           a PF's netdevice, also by an alternative name, or a pattern, then
//	                  optionally # and VF indexes: enp1s0f0#0,2-7
//	rootDevices       a PF's PCI address, optionally with # and VF indexes
//	linkTypes         ether
//	isRdma            true selects VFs that have an RDMA device; a pod gets the VF with
//	                  the device's character devices (/dev/infiniband)
//	needVhostNet      true selects nothing: a pod gets the VF with /dev/vhost-net and
//	                  /dev/net/tun
//
// mtu is the MTU of the pool's VFs while they are free. culvertd raises the MTU of their PF to it,
// and never lowers the PF's for it: a PF without mtu keeps a larger one. So VFs of one PF can have
// the MTU 9000 in one pool, and 1500 in another.
//
// asBound: true makes a pool that takes VFs as the SR-IOV device plugin takes them. drivers is
// then the driver that is bound to a VF now, and pfNames are whole names in any case. culvertd
// binds no driver for such a pool, so deviceType is left out. culvert migrate convert makes a
// pool with asBound of each pool of that plugin.
//
// drift decides about a VF with an owner when another program changes its VLAN, spoof check,
// trust, rates or link state. mend, the default, sets them again and reports the change.
// report only reports it. Culvert always mends free VFs, and leaves alone what an owner
// does in its own network namespace.
//
// On a node of Kubernetes a pool has more keys. excludeTopology: true keeps the VFs' NUMA
// nodes from the kubelet's topology manager. additionalInfo reaches the pod, under extra in
// its variable PCIDEVICE_..._INFO: a map from a VF's PCI address, or "*" for all, to a map
// of texts. cdi: true passes device nodes by the Container Device Interface.
//
// offer says how pods get the pool's VFs. resource, the default, makes the pool an extended
// resource of the node, by the device plugin. claims offers the VFs to ResourceClaims: culvertd
// publishes them in ResourceSlices, and the resource of that name has 0 devices. Pods that have
// a VF of the pool keep it when offer changes.
//
// faultTaint says what a problem of a PF means for VFs that are offered to claims. While the PF has no
// steady link, or had errors of late, its VFs have a taint in their ResourceSlices. With NoSchedule, the
// default, no new pod gets them. With NoExecute Kubernetes also evicts the pods that have them.
//
// Culvert refuses auxTypes, ddpProfiles, pKeys and vdpaType: a pool that ignored one of them
// would give out the wrong VFs.
//
// # allow
//
// allow bounds the settings that an owner may request for the pool's VFs. culvertd compares
// each request with it before it promises the VF: from pods, containers and guests, with and
// without Multus. A pool without allow serves every network that names it.
//
//	allow:
//	  namespaces: [blue, team-*]           # names or patterns
//	  namespaceSelector: {tier: gold}      # or by label
//	  vlans: ["0", "100-200"]              # 0: a network without VLAN
//	  vlanQoS: 3                           # the largest
//	  serviceVLANs: true                   # vlanProto 802.1ad may be set
//	  trust: true                          # trust on may be set
//	  spoofchkOff: true                    # spoofchk off may be set
//	  macs: ["02:00:5e:00:00:00/24"]       # the bits that count; all 48 without /
//	  addresses: ["10.1.0.0/16"]
//	  mtu: 9000                            # the largest
//	  maxTxRate: 1000                      # Mb/s, the largest
//	  minTxRate: 100                       # Mb/s, the largest
//
// A key that is absent allows only the default. That is no VLAN, vlanQoS 0, vlanProto
// 802.1q, trust unchanged or off, and spoofchk unchanged or on. It is also the VF's own
// MAC, no address, the VF's own MTU, and no min_tx_rate. So allow: {} admits a plain VF without addresses. vlans that do not
// list 0 refuse a network without VLAN.
//
// Two keys differ. Without namespaces and namespaceSelector the pool serves every owner,
// guests too. With one of them it serves only pods of the namespaces that one of the two
// names. Without maxTxRate a network may set any max_tx_rate or none. With it every network
// must set max_tx_rate, since none means unlimited.
//
// namespaceSelector makes culvertd ask the API server for the namespace's labels at each
// attach. culvertd refuses the request when it gets no answer. A change of allow does not
// end leases. A guest's definition names a MAC, so a pool for guests needs macs. allow does
// not bound link_state.
//
// allow does not apply to a pod that takes a resource of a vfio-pci pool without a network:
// the kubelet does not report which pod gets the device. Use a ResourceQuota there. The NIC
// tags nothing for a VF without VLAN, so its owner may use tags of its own: to keep owners
// to VLANs, leave out 0.
//
// # The device plugin's own file
//
// culvertd also reads the unchanged configuration of the SR-IOV network device plugin:
// resourceList with resourceName, resourcePrefix, deviceType, excludeTopology,
// additionalInfo and selectors. Its pools take VFs with the driver that is bound to them,
// and culvertd binds no driver for them. When culvertd cannot serve an entry, it still serves
// the others. It ignores an unknown key with a warning.
//
// Some values mean what they mean to that plugin. pfNames are whole names in any case, no
// patterns. The first value of pfNames or rootDevices that names a PF decides which of its VFs
// are meant. linkTypes with ether among others means ether. An entry without selectors has no
// VF, and selectors without a condition take every VF. Two pools whose names give one variable
// PCIDEVICE_... are both served, with a warning. culvertd gives out no VF that is bound to a
// driver of UIO, and no PF.
package desired
