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

// Field says what Convert makes of a field of a kind.
type Field struct {
	Kind string
	// Path is below spec, or below resourceList of a ConfigMap: nicSelector.vendor. A field
	// stands for all below it.
	Path string
	// To is the field that it becomes. It is empty where there is no equivalent, and "nothing"
	// where none is needed.
	To string
	// Why explains what To does not, or why there is no equivalent.
	Why string
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
)

// Fields returns all fields of the objects that Convert reads, by kind.
func Fields() []Field { return slices.Clone(fields) }

var fields = []Field{
	{Kind: KindPolicy, Path: "resourceName", To: "pools[].name", Why: "with the prefix openshift.io, or that of --resource-prefix"},
	{Kind: KindPolicy, Path: "nodeSelector", To: "nodeSelector", Why: "policies of one nodeSelector become one NodePolicy; where others select a node too and share a PF or pool, one more NodePolicy has all of them"},
	{Kind: KindPolicy, Path: "priority", To: "priority", Why: "99 minus the number: 0 is the highest there, the largest number is here"},
	{Kind: KindPolicy, Path: "mtu", To: "pfs[].mtu", Why: "which is that of its VFs too; of several policies of a PF chosen like numVfs"},
	{Kind: KindPolicy, Path: "numVfs", To: "pfs[].vfs", Why: "of several policies of a PF the largest, where they give out different VFs or have one priority; otherwise that of the highest priority, as the operator has it"},
	{Kind: KindPolicy, Path: "nicSelector.vendor", To: "pfs[].vendor, pools[].selectors[].vendors"},
	{Kind: KindPolicy, Path: "nicSelector.deviceID", To: "pfs[].device, pools[].selectors[].devices", Why: "the PF's device ID; the pool has that of its VFs, where it is known"},
	{Kind: KindPolicy, Path: "nicSelector.rootDevices", To: "pfs[].pciAddress, pools[].selectors[].rootDevices"},
	{Kind: KindPolicy, Path: "nicSelector.pfNames", To: "pfs[].name, pools[].selectors[].pfNames", Why: "with the range of VFs after #"},
	{Kind: KindPolicy, Path: "nicSelector.netFilter", Why: "it names a network of OpenStack or AWS, which nodes do not know: select the PFs by address"},
	{Kind: KindPolicy, Path: "deviceType", To: "pools[].deviceType"},
	{Kind: KindPolicy, Path: "needVhostNet", To: "pools[].selectors[].needVhostNet"},
	{Kind: KindPolicy, Path: "excludeTopology", To: "pools[].excludeTopology"},
	{Kind: KindPolicy, Path: "externallyManaged", To: "no entry of pfs", Why: "Culvert leaves a PF alone that no entry matches, and its pools take the VFs that are there"},
	{Kind: KindPolicy, Path: "isRdma", To: "pools[].selectors[].isRdma"},
	{Kind: KindPolicy, Path: "linkType", To: "nothing", Why: "Ethernet is what Culvert serves; a policy with linkType ib is not converted", Harmless: []string{"eth", "ETH"}},
	{Kind: KindPolicy, Path: "eSwitchMode", Why: switchdev, Harmless: []string{"legacy"}},
	{Kind: KindPolicy, Path: "eSwitchParams", Why: switchdev},
	{Kind: KindPolicy, Path: "vdpaType", Why: "Culvert gives out VFs as netdevices or for vfio-pci"},
	{Kind: KindPolicy, Path: "bridge", Why: "it configures Open vSwitch for switchdev mode; " + switchdev},
	{Kind: KindPolicy, Path: "devlinkParams", Why: "Culvert does not set devlink parameters: set them with systemd or the NIC's own tool"},

	{Kind: KindNetwork, Path: "networkNamespace", To: "metadata.namespace", Why: "the object's own namespace where it is empty"},
	{Kind: KindNetwork, Path: "resourceName", To: "annotation k8s.v1.cni.cncf.io/resourceName", Why: "with the prefix openshift.io, or that of --resource-prefix"},
	{Kind: KindNetwork, Path: "capabilities", To: "capabilities"},
	{Kind: KindNetwork, Path: "ipam", To: "ipam"},
	{Kind: KindNetwork, Path: "vlan", To: "vlan"},
	{Kind: KindNetwork, Path: "vlanQoS", To: "vlanQoS"},
	{Kind: KindNetwork, Path: "vlanProto", To: "vlanProto"},
	{Kind: KindNetwork, Path: "spoofChk", To: "spoofchk"},
	{Kind: KindNetwork, Path: "trust", To: "trust"},
	{Kind: KindNetwork, Path: "linkState", To: "link_state"},
	{Kind: KindNetwork, Path: "minTxRate", To: "min_tx_rate"},
	{Kind: KindNetwork, Path: "maxTxRate", To: "max_tx_rate"},
	{Kind: KindNetwork, Path: "metaPlugins", To: "the plugins after it", Why: "the network becomes a list of plugins"},
	{Kind: KindNetwork, Path: "logLevel", To: "nothing", Why: "culvertd logs to the journal"},
	{Kind: KindNetwork, Path: "logFile", To: "nothing", Why: "culvertd logs to the journal"},
	{Kind: KindNetwork, Path: "allMulticast", Why: "chain the plugin tuning with allmulti by metaPlugins", Harmless: []string{"off"}},

	{Kind: KindIBNetwork, Path: "networkNamespace", Why: infiniband},
	{Kind: KindIBNetwork, Path: "resourceName", Why: infiniband},
	{Kind: KindIBNetwork, Path: "capabilities", Why: infiniband},
	{Kind: KindIBNetwork, Path: "ipam", Why: infiniband},
	{Kind: KindIBNetwork, Path: "linkState", Why: infiniband},
	{Kind: KindIBNetwork, Path: "metaPlugins", Why: infiniband},
	{Kind: KindIBNetwork, Path: "interfaceName", Why: infiniband},
	{Kind: KindIBNetwork, Path: "pkey", Why: infiniband},
	{Kind: KindIBNetwork, Path: "scanGuids", Why: infiniband},

	{Kind: KindOVSNetwork, Path: "networkNamespace", Why: switchdev},
	{Kind: KindOVSNetwork, Path: "resourceName", Why: switchdev},
	{Kind: KindOVSNetwork, Path: "capabilities", Why: switchdev},
	{Kind: KindOVSNetwork, Path: "ipam", Why: switchdev},
	{Kind: KindOVSNetwork, Path: "metaPlugins", Why: switchdev},
	{Kind: KindOVSNetwork, Path: "bridge", Why: switchdev},
	{Kind: KindOVSNetwork, Path: "vlan", Why: switchdev},
	{Kind: KindOVSNetwork, Path: "mtu", Why: switchdev},
	{Kind: KindOVSNetwork, Path: "trunk", Why: switchdev},
	{Kind: KindOVSNetwork, Path: "interfaceType", Why: switchdev},

	{Kind: KindPoolConfig, Path: "nodeSelector", To: "nothing", Why: "it says for which nodes maxUnavailable counts"},
	{Kind: KindPoolConfig, Path: "maxUnavailable", To: "nothing", Why: "Culvert drains no node to change a setting; a change of the number of VFs waits until their owners are gone"},
	{Kind: KindPoolConfig, Path: "ovsHardwareOffloadConfig", Why: switchdev},
	{Kind: KindPoolConfig, Path: "rdmaMode", Why: "Culvert leaves the RDMA subsystem's mode alone: set it with rdma system set netns or a modprobe option", Harmless: []string{"shared"}},

	{Kind: KindOperator, Path: "configDaemonNodeSelector", Why: "node.selector of Culvert's chart says on which nodes culvertd runs"},
	{Kind: KindOperator, Path: "disableDrain", Why: "controller.drainNodes=0 of Culvert's chart: then a change of the number of VFs waits until their owners are gone"},
	{Kind: KindOperator, Path: "useCDI", Why: "write cdi: true into the pools that need it"},
	{Kind: KindOperator, Path: "enableOvsOffload", Why: switchdev},
	{Kind: KindOperator, Path: "enableInjector", To: "nothing", Why: "Culvert's webhook adds to pods what their networks need: resources, node labels and /etc/podnetinfo"},
	{Kind: KindOperator, Path: "enableOperatorWebhook", To: "nothing", Why: "Culvert's webhooks check NodePolicies and networks"},
	{Kind: KindOperator, Path: "configurationMode", To: "nothing", Why: "culvertd makes the VFs when it starts, which after a boot is before pods that need them"},
	{Kind: KindOperator, Path: "logLevel", To: "nothing", Why: ofTheOperator},
	{Kind: KindOperator, Path: "disablePlugins", To: "nothing", Why: ofTheOperator},
	{Kind: KindOperator, Path: "featureGates", To: "nothing", Why: ofTheOperator},
	{Kind: KindOperator, Path: "configDaemonEnvVars", To: "nothing", Why: ofTheOperator},

	{Kind: KindConfigMap, Path: "resourceName", To: "pools[].name"},
	{Kind: KindConfigMap, Path: "resourcePrefix", To: "pools[].prefix", Why: "intel.com where it is empty, or that of --resource-prefix"},
	{Kind: KindConfigMap, Path: "deviceType", To: "pools[].deviceType", Why: "vfio-pci where the selectors say so; accelerator and auxNetDevice have no equivalent"},
	{Kind: KindConfigMap, Path: "excludeTopology", To: "pools[].excludeTopology"},
	{Kind: KindConfigMap, Path: "additionalInfo", To: "pools[].additionalInfo"},
	{Kind: KindConfigMap, Path: "selectors.vendors", To: "pools[].selectors[].vendors"},
	{Kind: KindConfigMap, Path: "selectors.devices", To: "pools[].selectors[].devices"},
	{Kind: KindConfigMap, Path: "selectors.drivers", To: "pools[].selectors[].drivers"},
	{Kind: KindConfigMap, Path: "selectors.pciAddresses", To: "pools[].selectors[].pciAddresses"},
	{Kind: KindConfigMap, Path: "selectors.acpiIndexes", To: "pools[].selectors[].acpiIndexes"},
	{Kind: KindConfigMap, Path: "selectors.pfNames", To: "pools[].selectors[].pfNames"},
	{Kind: KindConfigMap, Path: "selectors.rootDevices", To: "pools[].selectors[].rootDevices"},
	{Kind: KindConfigMap, Path: "selectors.linkTypes", To: "pools[].selectors[].linkTypes", Why: "a pool of InfiniBand is not converted"},
	{Kind: KindConfigMap, Path: "selectors.needVhostNet", To: "pools[].selectors[].needVhostNet"},
	{Kind: KindConfigMap, Path: "selectors.isRdma", To: "pools[].selectors[].isRdma"},
	{Kind: KindConfigMap, Path: "selectors.ddpProfiles", Why: "select the PFs that have the profile by pfNames"},
	{Kind: KindConfigMap, Path: "selectors.vdpaType", Why: "Culvert gives out VFs as netdevices or for vfio-pci"},
	{Kind: KindConfigMap, Path: "selectors.pKeys", Why: infiniband},
	{Kind: KindConfigMap, Path: "selectors.auxTypes", Why: "Culvert gives out VFs, not subfunctions"},
}
