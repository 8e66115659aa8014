package migrate

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/internal/network/netannotation"
)

// isolationSteps returns the step that gives Culvert the namespace isolation of Multus, so that the
// same pods start afterwards. An installed culvertd with the flag keeps it, unless Multus isolates
// more.
func (s settings) isolationSteps(daemon []string) []Step {
	global, isolated := Isolation(nil, daemon)
	if len(global) == 0 {
		global = netannotation.DefaultGlobal()
	}
	_, isSet := flagOf(daemon, "namespace-isolation")
	lacksGlobal := slices.ContainsFunc(s.global, func(n string) bool { return !slices.Contains(global, n) })
	const setIsolation = `sed -i -e 's|- --namespace-isolation=.*|- --namespace-isolation=%t|'`
	switch {
	case s.isolated && (!isolated || lacksGlobal):
		names := strings.Join(s.global, ",")
		return []Step{{
			fmt.Sprintf(setIsolation+` -e 's|- --global-namespaces=.*|- --global-namespaces=%s|' %s`, true, names, manifest),
			fmt.Sprintf("Multus isolates namespaces, and without it only Culvert does; with Helm, --set node.namespaceIsolation=true --set 'node.globalNamespaces={%s}'", names),
		}}
	case s.hasMultus && !s.isolated && !isSet:
		return []Step{{
			fmt.Sprintf(setIsolation+` %s`, false, manifest),
			"Multus does not isolate namespaces, and pods that use networks of other namespaces shall start again; with Helm, --set node.namespaceIsolation=false; " +
				"to close it later, follow what culvert doctor --kubeconfig FILE says, then set it to true",
		}}
	}
	return nil
}

// everyPodSteps returns the step that gives Culvert the networks of Multus for every pod, unless an
// installed culvertd has them.
func (s settings) everyPodSteps(daemon []string) []Step {
	named, _ := flagOf(daemon, "default-networks")
	have := splitNames(named)
	if !slices.ContainsFunc(s.everyPod, func(n string) bool { return !slices.Contains(have, n) }) {
		return nil
	}
	names, except := strings.Join(s.everyPod, ","), strings.Join(s.systemNamespaces, ",")
	return []Step{{
		fmt.Sprintf(`sed -i -e 's|- --default-networks=.*|- --default-networks=%s|' -e 's|- --system-namespaces=.*|- --system-namespaces=%s,%s|' -e 's|false && !object.spec|true \&\& !object.spec|' %s`, names, except, ownNamespace, manifest),
		fmt.Sprintf("Multus gives these networks to every pod outside its systemNamespaces, and without it only Culvert does; with Helm, --set 'node.defaultNetworks={%s}' --set 'node.systemNamespaces={%s}'", names, except),
	}}
}

// ownNamespace is Culvert's in its manifest.
const ownNamespace = "culvert-system"

// resourceKeySteps returns the step that gives the controller the annotations by which the injector
// finds resources, unless it has them.
func (s settings) resourceKeySteps(controller []string) []Step {
	have := []string{netannotation.ResourceName}
	if v, ok := flagOf(controller, "network-resource-name-keys"); ok {
		have = splitNames(v)
	}
	if !slices.ContainsFunc(s.resourceKeys, func(key string) bool { return !slices.Contains(have, key) }) {
		return nil
	}
	keys := strings.Join(s.resourceKeys, ",")
	return []Step{{
		fmt.Sprintf(`sed -i 's|- --network-resource-name-keys=.*|- --network-resource-name-keys=%s|' %s`, keys, manifest),
		fmt.Sprintf("networks name resources under these keys; with Helm, --set 'controller.networkResourceNameKeys={%s}'", keys),
	}}
}

// folderSteps returns the step that gives Culvert the host's folders of plugins and configurations,
// unless an installed culvertd has them.
func (s settings) folderSteps(daemon Workload) []Step {
	haveBin, haveConf := cmp.Or(daemon.hostPath(defaultCNIBin), defaultCNIBin), cmp.Or(daemon.hostPath(defaultCNIConf), defaultCNIConf)
	bin, conf := cmp.Or(s.cniBin, haveBin), cmp.Or(s.cniConf, haveConf)
	if bin == haveBin && conf == haveConf {
		return nil
	}
	const setFolder = `-e 's|{name: %[1]s, hostPath: {path: [^,]*|{name: %[1]s, hostPath: {path: %[2]s|'`
	return []Step{{
		fmt.Sprintf(`sed -i `+setFolder, "cni-bin", bin) + " " + fmt.Sprintf(setFolder, "cni-conf", conf) + " " + manifest,
		fmt.Sprintf("the container runtime has its plugins and configurations there, as Multus' mounts say; with Helm, --set node.cniBin=%s --set node.cniConf=%s", bin, conf),
	}}
}
