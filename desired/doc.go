// Package desired turns what a person declared for this host into one Spec:
// how many VFs each PF has, and how they are cut into pools. The text of
// /etc/culvert/host.yaml enters, a Spec leaves; reconcile, alloc, status and
// the CLI ask it what a PF should look like and which pool a VF is in. It is
// pure: nothing here opens a file or asks the kernel.
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
//	pools:
//	- name: intel_sriov_netdevice
//	  prefix: intel.com     # default culvert.dev
//	  deviceType: netdevice # or vfio-pci
//	  drift: mend           # or report
//	  selectors:            # or a list of such maps
//	    vendors: ["8086"]
//	    pfNames: ["enp1s0f0#0-3", "enp1s0f1"]
//	  allow:                # see allow; without it every request is served
//	    vlans: ["100-200"]
//
// An empty file is right and wants nothing: Culvert then leaves every PF alone.
//
// # pfs
//
// An entry says which PFs it is about with one or more of name (a netdevice
// name or a pattern of path.Match), mac (the permanent address), pciAddress,
// vendor, device (four hexadecimal digits each) and driver. All that are given
// must hold. A PF takes the first entry that matches it. A PF that no entry
// matches is left alone, which is not the same as vfs: 0.
//
// addresses are added to the PF's interface, and kept there. culvertd removes one that is
// not declared any more if it added that address itself: the kernel marks it (Linux 5.18;
// an older kernel keeps the address until a reboot). Addresses of other origin stay. A
// rule that matches several PFs gives each the same addresses.
//
// autoprobe is what sriov_drivers_autoprobe is left at: with true the kernel
// also binds a driver to VFs that somebody else makes. Culvert's own VFs get
// the driver of their pool either way.
//
// needCarrier: true makes VFs only when the PF has carrier. Some hardware, and
// the emulated igb, makes VFs without link that stay unusable until they are
// made again: their mailbox to the PF never comes up. Say false for a PF whose
// cable may be out at boot and whose driver does not mind.
//
// # pools
//
// A VF is in at most one pool: the first in the file that matches it. A list
// of selectors matches when one of its maps does; within a map every key must,
// and within a key any value. A pool without selectors takes every VF that no
// earlier pool took. The keys are those of the SR-IOV device plugin:
//
//	vendors, devices  of the VF, four hexadecimal digits
//	drivers           see Selector
//	pciAddresses      of the VF
//	acpiIndexes       the firmware's own numbers, /sys/bus/pci/devices/*/acpi_index
//	pfNames           a PF's netdevice or pattern, then optionally # and VF
//	                  indexes: enp1s0f0#0,2-7
//	rootDevices       a PF's PCI address, optionally with # and VF indexes
//	linkTypes         ether
//	needVhostNet      true selects nothing: the VFs are given out with
//	                  /dev/vhost-net and /dev/net/tun
//
// drift says what happens when somebody else changes the VLAN, spoof check,
// trust, rates or link state of a VF that an owner has: mend, the default, sets
// them again and tells, report only tells. Free VFs are always mended, and what
// an owner does in its own network namespace is left alone.
//
// On a node of Kubernetes a pool may say more. excludeTopology: true keeps the
// VFs' NUMA nodes from the kubelet's topology manager. additionalInfo is told to
// the pod, under extra in its variable PCIDEVICE_..._INFO: a map from a VF's PCI
// address, or "*" for all, to a map of texts. cdi: true hands device nodes over by
// the Container Device Interface.
//
// auxTypes, ddpProfiles, isRdma, pKeys and vdpaType are known and refused: a pool
// that ignored one would hand out the wrong VFs.
//
// # allow
//
// allow bounds what an owner may ask of the pool's VFs. culvertd compares each request
// with it before the VF is promised: from pods, containers and guests, with and without
// Multus. A pool without allow serves every network that names it.
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
// A key that is absent allows only the default: no VLAN, vlanQoS 0, vlanProto 802.1q, trust as it is or off, spoofchk
// as it is or on, the VF's own MAC, no address, the VF's own MTU, no min_tx_rate. allow: {}
// therefore leaves a plain VF without addresses. Two keys differ. Without namespaces and
// namespaceSelector the pool serves every owner, guests too; with one of them only pods of
// the namespaces that one of the two names. Without maxTxRate a network may limit
// itself as it likes; with it every network must set max_tx_rate, since none means
// unlimited. vlans that do not list 0 refuse a network without VLAN.
//
// namespaceSelector makes culvertd ask the API server for the namespace's labels at each
// attach; it refuses the request when it gets no answer. Leases that were there before
// allow changed stay. A guest's definition names a MAC, so a pool for guests needs macs.
// allow does not count for a pod that takes a resource of a vfio-pci pool without a network:
// the kubelet does not tell which pod gets the device; use a ResourceQuota there.
// linkState, vlanQoS and vlanProto are not bounded. The NIC tags nothing for a VF without
// VLAN, so its owner may use tags of its own: to keep owners to VLANs, leave out 0.
//
// # The device plugin's own file
//
// ParseDevicePlugin reads the configuration of the SR-IOV network device plugin as
// it is: resourceList with resourceName, resourcePrefix, deviceType,
// excludeTopology, additionalInfo and selectors. Its pools take VFs with the driver
// that is bound to them, and culvertd binds none for them. An entry that cannot be
// served keeps no other from being served; an unknown key is ignored with a warning.
package desired
