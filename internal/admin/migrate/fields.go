package migrate

import "slices"

// Kinds of the operator's objects (API group sriovnetwork.openshift.io), and the ConfigMap of the
// device plugin.
const (
	KindPolicy     = "SriovNetworkNodePolicy"
	KindNetwork    = "SriovNetwork"
	KindIBNetwork  = "SriovIBNetwork"
	KindOVSNetwork = "OVSNetwork"
	KindPoolConfig = "SriovNetworkPoolConfig"
	KindOperator   = "SriovOperatorConfig"
	KindConfigMap  = "ConfigMap"
)

// Outcome says what becomes of a field.
type Outcome string

// The outcomes of fields.
const (
	// Becomes: Field.To is what the field becomes.
	Becomes Outcome = "becomes"
	// Nothing: the field needs no equivalent.
	Nothing Outcome = "nothing"
	// Setting: a setting of Culvert's chart has the same meaning. A note names it.
	Setting Outcome = "setting"
	// Lost: the field has no equivalent. A note names it, and the rest of the object is converted.
	Lost Outcome = "lost"
	// Refused: the object, or the entry of resourceList, is not converted, since it would mean
	// something else without the field. A note names the field.
	Refused Outcome = "refused"
)

// Field says what Convert makes of a field of a kind.
type Field struct {
	Kind string
	// DeviceType is that of the entries of resourceList which have the field; empty for other kinds.
	DeviceType string
	// Path is below spec, or below resourceList of a ConfigMap: nicSelector.vendor. A field
	// stands for all below it.
	Path    string
	Outcome Outcome
	// To is the field that it becomes, below spec of a NodePolicy or below spec.config of a network,
	// or the setting.
	To string
	// Why explains what To does not, or why there is no equivalent.
	Why string
	// Example is a value that asks for something. Values of a SriovNetworkNodePolicy or a
	// SriovNetwork have its type.
	Example any
	// Harmless are values that ask for nothing, besides false, 0 and empty ones.
	Harmless []string
}

// KindDefinition is the kind of networks, which Convert makes.
const KindDefinition = "NetworkAttachmentDefinition"

// Reasons why parts are not converted: switchdev is the reason for parts that need a switch in the
// NIC.
const (
	switchdev     = "Culvert does not switch NICs to switchdev mode"
	infiniband    = "Culvert attaches Ethernet VFs; keep ib-sriov-cni for this network"
	ofTheOperator = "it is about the operator's own programs, which go"
	onlyVFs       = "Culvert gives out VFs"
)

// Fields returns all fields of the objects that Convert reads, by kind and device type. They are those
// of the newest versions of the operator (api/v1/*_types.go) and of the device plugin
// (pkg/types/types.go), and some of older ones.
func Fields() []Field { return slices.Clone(fields) }

// object is a value with keys of its own, and items is a list of values.
type (
	object = map[string]any
	items  = []any
)

var fields = slices.Concat(policyFields, networkFields, otherNetworkFields, configFields, netDeviceFields, otherDeviceFields)

var policyFields = []Field{
	{Kind: KindPolicy, Path: "resourceName", Outcome: Becomes, To: "pools[].name", Why: "with the prefix openshift.io, or that of --resource-prefix", Example: "other"},
	{Kind: KindPolicy, Path: "nodeSelector", Outcome: Becomes, To: "nodeSelector", Why: "policies of one nodeSelector become one NodePolicy; where others select a node too and share a PF or pool, one more NodePolicy has all of them", Example: object{"rack": "7"}},
	{Kind: KindPolicy, Path: "priority", Outcome: Becomes, To: "priority", Why: "99 minus the number: 0 is the highest there, the largest number is here", Example: 10},
	{Kind: KindPolicy, Path: "mtu", Outcome: Becomes, To: "pools[].mtu", Why: "each group of VFs has its own; culvertd raises the PF to the largest one and never lowers it, as the operator does", Example: 9000},
	{Kind: KindPolicy, Path: "numVfs", Outcome: Becomes, To: "pfs[].vfs", Why: "of several policies of a PF the largest, where they give out different VFs or have one priority; otherwise that of the highest priority, as the operator has it", Example: 5},
	{Kind: KindPolicy, Path: "nicSelector.vendor", Outcome: Becomes, To: "pfs[].vendor, pools[].selectors[].vendors", Example: "15b3"},
	{Kind: KindPolicy, Path: "nicSelector.deviceID", Outcome: Becomes, To: "pfs[].device, pools[].selectors[].devices", Why: "the PF's device ID; the pool has that of its VFs, where it is known", Example: "1017"},
	{Kind: KindPolicy, Path: "nicSelector.rootDevices", Outcome: Becomes, To: "pfs[].pciAddress, pools[].selectors[].rootDevices", Example: items{"0000:3b:00.0"}},
	{Kind: KindPolicy, Path: "nicSelector.pfNames", Outcome: Becomes, To: "pfs[].name, pools[].selectors[].pfNames", Why: "with the range of VFs after #; a pattern is refused, since the operator compares whole names", Example: items{"ens1f0#0-0"}},
	{Kind: KindPolicy, Path: "nicSelector.netFilter", Outcome: Refused, Why: "it selects the NICs of one network of OpenStack or AWS, which nodes do not know: select them by rootDevices or pfNames", Example: "openstack/NetworkID:1b2c"},
	{Kind: KindPolicy, Path: "deviceType", Outcome: Becomes, To: "pools[].deviceType", Example: "vfio-pci"},
	{Kind: KindPolicy, Path: "isRdma", Outcome: Becomes, To: "pools[].selectors[].isRdma", Example: true},
	{Kind: KindPolicy, Path: "needVhostNet", Outcome: Becomes, To: "pools[].selectors[].needVhostNet", Example: true},
	{Kind: KindPolicy, Path: "excludeTopology", Outcome: Becomes, To: "pools[].excludeTopology", Example: true},
	{Kind: KindPolicy, Path: "externallyManaged", Outcome: Becomes, To: "pfs", Why: "no entry: Culvert leaves a PF alone that no entry matches, and its pools take the VFs that are there", Example: true},
	{Kind: KindPolicy, Path: "linkType", Outcome: Refused, Why: infiniband, Example: "ib", Harmless: []string{"eth", "ETH"}},
	{Kind: KindPolicy, Path: "eSwitchMode", Outcome: Refused, Why: switchdev, Example: "switchdev", Harmless: []string{"legacy"}},
	{Kind: KindPolicy, Path: "eSwitchParams", Outcome: Lost, Why: switchdev, Example: object{"multiport": true}},
	{Kind: KindPolicy, Path: "vdpaType", Outcome: Refused, Why: "Culvert gives out VFs as netdevices or for vfio-pci", Example: "vhost"},
	{Kind: KindPolicy, Path: "bridge", Outcome: Lost, Why: "it configures Open vSwitch for switchdev mode; " + switchdev, Example: object{"ovs": object{"bridge": object{"failMode": "secure"}}}},
	{Kind: KindPolicy, Path: "devlinkParams", Outcome: Lost, Why: "Culvert does not set devlink parameters: set them with systemd or the NIC's own tool", Example: object{"params": items{object{"name": "flow_steering_mode", "value": "smfs"}}}},
}

var networkFields = []Field{
	{Kind: KindNetwork, Path: "networkNamespace", Outcome: Becomes, To: "metadata.namespace", Why: "the object's own namespace where it is empty", Example: "team-a"},
	{Kind: KindNetwork, Path: "resourceName", Outcome: Becomes, To: "metadata.annotations", Why: "as k8s.v1.cni.cncf.io/resourceName, with the prefix openshift.io, or that of --resource-prefix", Example: "other"},
	{Kind: KindNetwork, Path: "capabilities", Outcome: Becomes, To: "capabilities", Example: `{"ips": true}`},
	{Kind: KindNetwork, Path: "ipam", Outcome: Becomes, To: "ipam", Example: `{"type": "static"}`},
	{Kind: KindNetwork, Path: "vlan", Outcome: Becomes, To: "vlan", Example: 8},
	{Kind: KindNetwork, Path: "vlanQoS", Outcome: Becomes, To: "vlanQoS", Example: 3},
	{Kind: KindNetwork, Path: "vlanProto", Outcome: Becomes, To: "vlanProto", Why: "with vlan 0 where there is no VLAN, as the operator writes it", Example: "802.1ad"},
	{Kind: KindNetwork, Path: "spoofChk", Outcome: Becomes, To: "spoofchk", Example: "off"},
	{Kind: KindNetwork, Path: "trust", Outcome: Becomes, To: "trust", Example: "on"},
	{Kind: KindNetwork, Path: "linkState", Outcome: Becomes, To: "link_state", Example: "enable"},
	{Kind: KindNetwork, Path: "minTxRate", Outcome: Becomes, To: "min_tx_rate", Example: 10},
	{Kind: KindNetwork, Path: "maxTxRate", Outcome: Becomes, To: "max_tx_rate", Example: 20},
	{Kind: KindNetwork, Path: "metaPlugins", Outcome: Becomes, To: "plugins", Why: "the network becomes a list of plugins", Example: `{"type": "rdma"}`},
	{Kind: KindNetwork, Path: "logLevel", Outcome: Nothing, Why: "culvertd logs to the journal", Example: "debug"},
	{Kind: KindNetwork, Path: "logFile", Outcome: Nothing, Why: "culvertd logs to the journal", Example: "/var/log/vf.log"},
	{Kind: KindNetwork, Path: "allMulticast", Outcome: Lost, Why: "chain the plugin tuning with allmulti by metaPlugins", Example: "on", Harmless: []string{"off"}},
}

// otherNetworkFields are those of networks that are not converted.
var otherNetworkFields = []Field{
	{Kind: KindIBNetwork, Path: "networkNamespace", Outcome: Refused, Why: infiniband, Example: "team-a"},
	{Kind: KindIBNetwork, Path: "resourceName", Outcome: Refused, Why: infiniband, Example: "other"},
	{Kind: KindIBNetwork, Path: "capabilities", Outcome: Refused, Why: infiniband, Example: `{"infinibandGUID": true}`},
	{Kind: KindIBNetwork, Path: "ipam", Outcome: Refused, Why: infiniband, Example: "{}"},
	{Kind: KindIBNetwork, Path: "linkState", Outcome: Refused, Why: infiniband, Example: "enable"},
	{Kind: KindIBNetwork, Path: "metaPlugins", Outcome: Refused, Why: infiniband, Example: `{"type": "rdma"}`},
	{Kind: KindIBNetwork, Path: "interfaceName", Outcome: Refused, Why: infiniband, Example: "ibs1"},
	{Kind: KindIBNetwork, Path: "pkey", Outcome: Refused, Why: infiniband, Example: "0x8001"},
	{Kind: KindIBNetwork, Path: "scanGuids", Outcome: Refused, Why: infiniband, Example: true},
	{Kind: KindOVSNetwork, Path: "networkNamespace", Outcome: Refused, Why: switchdev, Example: "team-a"},
	{Kind: KindOVSNetwork, Path: "resourceName", Outcome: Refused, Why: switchdev, Example: "other"},
	{Kind: KindOVSNetwork, Path: "capabilities", Outcome: Refused, Why: switchdev, Example: `{"ips": true}`},
	{Kind: KindOVSNetwork, Path: "ipam", Outcome: Refused, Why: switchdev, Example: "{}"},
	{Kind: KindOVSNetwork, Path: "metaPlugins", Outcome: Refused, Why: switchdev, Example: `{"type": "rdma"}`},
	{Kind: KindOVSNetwork, Path: "bridge", Outcome: Refused, Why: switchdev, Example: "br0"},
	{Kind: KindOVSNetwork, Path: "vlan", Outcome: Refused, Why: switchdev, Example: 5},
	{Kind: KindOVSNetwork, Path: "mtu", Outcome: Refused, Why: switchdev, Example: 9000},
	{Kind: KindOVSNetwork, Path: "trunk", Outcome: Refused, Why: switchdev, Example: items{object{"id": 5}}},
	{Kind: KindOVSNetwork, Path: "interfaceType", Outcome: Refused, Why: switchdev, Example: "dpdk"},
}

var configFields = []Field{
	{Kind: KindPoolConfig, Path: "maxUnavailable", Outcome: Setting, To: "controller.drainNodes", Why: "with 0 the controller evicts no pod, on any node; any other value needs nothing, since it evicts pods on one node at a time by default", Example: 0},
	{Kind: KindPoolConfig, Path: "nodeSelector", Outcome: Nothing, Why: "it says for which nodes maxUnavailable counts, and Culvert has one number for all nodes", Example: object{"matchLabels": object{"rack": "7"}}},
	{Kind: KindPoolConfig, Path: "ovsHardwareOffloadConfig", Outcome: Lost, Why: switchdev, Example: object{"name": "pool"}},
	{Kind: KindPoolConfig, Path: "rdmaMode", Outcome: Lost, Why: "Culvert leaves the RDMA subsystem's mode alone: set it with rdma system set netns or a modprobe option", Example: "exclusive", Harmless: []string{"shared"}},
	{Kind: KindOperator, Path: "configDaemonNodeSelector", Outcome: Setting, To: "node.nodeSelector", Why: "it says on which nodes culvertd runs", Example: object{"rack": "7"}},
	{Kind: KindOperator, Path: "disableDrain", Outcome: Setting, To: "controller.drainNodes", Why: "with 0 the controller evicts no pod: a change of the number of VFs waits until their owners are gone", Example: true},
	{Kind: KindOperator, Path: "useCDI", Outcome: Lost, Why: "write cdi: true into the pools that need it", Example: true},
	{Kind: KindOperator, Path: "enableOvsOffload", Outcome: Lost, Why: switchdev, Example: true},
	{Kind: KindOperator, Path: "ovsHardwareOffload", Outcome: Lost, Why: switchdev, Example: items{object{"nodeSelector": object{"rack": "7"}}}},
	{Kind: KindOperator, Path: "enableInjector", Outcome: Nothing, Why: "Culvert's webhook adds to pods what their networks need: resources, node labels and /etc/podnetinfo", Example: true},
	{Kind: KindOperator, Path: "enableOperatorWebhook", Outcome: Nothing, Why: "Culvert's webhooks check NodePolicies and networks", Example: true},
	{Kind: KindOperator, Path: "configurationMode", Outcome: Nothing, Why: "culvertd makes the VFs when it starts, which after a boot is before pods that need them", Example: "systemd"},
	{Kind: KindOperator, Path: "logLevel", Outcome: Nothing, Why: ofTheOperator, Example: 2},
	{Kind: KindOperator, Path: "logConfig", Outcome: Nothing, Why: ofTheOperator, Example: object{"maxFiles": 3}},
	{Kind: KindOperator, Path: "disablePlugins", Outcome: Nothing, Why: ofTheOperator, Example: items{"mellanox"}},
	{Kind: KindOperator, Path: "featureGates", Outcome: Nothing, Why: ofTheOperator, Example: object{"parallelNicConfig": true}},
	{Kind: KindOperator, Path: "configDaemonEnvVars", Outcome: Nothing, Why: ofTheOperator, Example: object{"A": "b"}},
}

var netDeviceFields = []Field{
	{Kind: KindConfigMap, DeviceType: "netDevice", Path: "resourceName", Outcome: Becomes, To: "pools[].name", Example: "other"},
	{Kind: KindConfigMap, DeviceType: "netDevice", Path: "resourcePrefix", Outcome: Becomes, To: "pools[].prefix", Why: "intel.com where it is empty, or that of --resource-prefix", Example: "example.org"},
	{Kind: KindConfigMap, DeviceType: "netDevice", Path: "deviceType", Outcome: Nothing, Why: "pools take VFs with the driver that is bound to them (asBound)", Example: "netDevice"},
	{Kind: KindConfigMap, DeviceType: "netDevice", Path: "excludeTopology", Outcome: Becomes, To: "pools[].excludeTopology", Example: true},
	{Kind: KindConfigMap, DeviceType: "netDevice", Path: "additionalInfo", Outcome: Becomes, To: "pools[].additionalInfo", Example: object{"*": object{"rail": "1"}}},
	{Kind: KindConfigMap, DeviceType: "netDevice", Path: "selectors.vendors", Outcome: Becomes, To: "pools[].selectors[].vendors", Example: items{"15b3"}},
	{Kind: KindConfigMap, DeviceType: "netDevice", Path: "selectors.devices", Outcome: Becomes, To: "pools[].selectors[].devices", Example: items{"1018"}},
	{Kind: KindConfigMap, DeviceType: "netDevice", Path: "selectors.drivers", Outcome: Becomes, To: "pools[].selectors[].drivers", Why: "the driver that is bound now", Example: items{"vfio-pci"}},
	{Kind: KindConfigMap, DeviceType: "netDevice", Path: "selectors.pciAddresses", Outcome: Becomes, To: "pools[].selectors[].pciAddresses", Example: items{"0000:3b:02.0"}},
	{Kind: KindConfigMap, DeviceType: "netDevice", Path: "selectors.acpiIndexes", Outcome: Becomes, To: "pools[].selectors[].acpiIndexes", Example: items{"101"}},
	{Kind: KindConfigMap, DeviceType: "netDevice", Path: "selectors.pfNames", Outcome: Becomes, To: "pools[].selectors[].pfNames", Why: "whole names in any case, with the range of VFs after #", Example: items{"ens1f0#0,2-7"}},
	{Kind: KindConfigMap, DeviceType: "netDevice", Path: "selectors.rootDevices", Outcome: Becomes, To: "pools[].selectors[].rootDevices", Example: items{"0000:3b:00.0#0-3"}},
	{Kind: KindConfigMap, DeviceType: "netDevice", Path: "selectors.linkTypes", Outcome: Becomes, To: "pools[].selectors[].linkTypes", Why: "a pool of InfiniBand is not converted", Example: items{"ether"}},
	{Kind: KindConfigMap, DeviceType: "netDevice", Path: "selectors.isRdma", Outcome: Becomes, To: "pools[].selectors[].isRdma", Example: true},
	{Kind: KindConfigMap, DeviceType: "netDevice", Path: "selectors.needVhostNet", Outcome: Becomes, To: "pools[].selectors[].needVhostNet", Example: true},
	{Kind: KindConfigMap, DeviceType: "netDevice", Path: "selectors.ddpProfiles", Outcome: Refused, Why: "select the PFs that have the profile by pfNames", Example: items{"GTPv1-C/U IPv4/IPv6 payload"}},
	{Kind: KindConfigMap, DeviceType: "netDevice", Path: "selectors.vdpaType", Outcome: Refused, Why: "Culvert gives out VFs as netdevices or for vfio-pci", Example: "vhost"},
	{Kind: KindConfigMap, DeviceType: "netDevice", Path: "selectors.pKeys", Outcome: Refused, Why: infiniband, Example: items{"0x8001"}},
}

// otherDeviceFields are those of entries for devices that are no VFs of NICs.
var otherDeviceFields = []Field{
	{Kind: KindConfigMap, DeviceType: "accelerator", Path: "deviceType", Outcome: Refused, Why: onlyVFs, Example: "accelerator"},
	{Kind: KindConfigMap, DeviceType: "accelerator", Path: "selectors.vendors", Outcome: Refused, Why: onlyVFs, Example: items{"8086"}},
	{Kind: KindConfigMap, DeviceType: "accelerator", Path: "selectors.devices", Outcome: Refused, Why: onlyVFs, Example: items{"0d5d"}},
	{Kind: KindConfigMap, DeviceType: "accelerator", Path: "selectors.drivers", Outcome: Refused, Why: onlyVFs, Example: items{"vfio-pci"}},
	{Kind: KindConfigMap, DeviceType: "accelerator", Path: "selectors.pciAddresses", Outcome: Refused, Why: onlyVFs, Example: items{"0000:3b:02.0"}},
	{Kind: KindConfigMap, DeviceType: "auxNetDevice", Path: "deviceType", Outcome: Refused, Why: onlyVFs, Example: "auxNetDevice"},
	{Kind: KindConfigMap, DeviceType: "auxNetDevice", Path: "selectors.vendors", Outcome: Refused, Why: onlyVFs, Example: items{"8086"}},
	{Kind: KindConfigMap, DeviceType: "auxNetDevice", Path: "selectors.devices", Outcome: Refused, Why: onlyVFs, Example: items{"0d5d"}},
	{Kind: KindConfigMap, DeviceType: "auxNetDevice", Path: "selectors.drivers", Outcome: Refused, Why: onlyVFs, Example: items{"vfio-pci"}},
	{Kind: KindConfigMap, DeviceType: "auxNetDevice", Path: "selectors.pfNames", Outcome: Refused, Why: onlyVFs, Example: items{"ens1f0"}},
	{Kind: KindConfigMap, DeviceType: "auxNetDevice", Path: "selectors.rootDevices", Outcome: Refused, Why: onlyVFs, Example: items{"0000:3b:00.0"}},
	{Kind: KindConfigMap, DeviceType: "auxNetDevice", Path: "selectors.linkTypes", Outcome: Refused, Why: onlyVFs, Example: items{"ether"}},
	{Kind: KindConfigMap, DeviceType: "auxNetDevice", Path: "selectors.isRdma", Outcome: Refused, Why: onlyVFs, Example: true},
	{Kind: KindConfigMap, DeviceType: "auxNetDevice", Path: "selectors.acpiIndexes", Outcome: Refused, Why: onlyVFs, Example: items{"101"}},
	{Kind: KindConfigMap, DeviceType: "auxNetDevice", Path: "selectors.auxTypes", Outcome: Refused, Why: onlyVFs, Example: items{"sf"}},
}
