package cluster

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// A Version is a release of Kubernetes, such as 1.37.2.
type Version string

// The versions that a cluster may have: those whose programs test/tools has.
const (
	Current Version = "1.37.2"
	Earlier Version = "1.34.3" // a job of `make soak` runs it
)

// ParseVersion returns the version of Kubernetes that s names; empty: [Current].
func ParseVersion(s string) (Version, error) {
	switch v := Version(s); v {
	case "":
		return Current, nil
	case Current, Earlier:
		return v, nil
	}
	return "", fmt.Errorf("version of Kubernetes %q: want %s or %s", s, Current, Earlier)
}

// part returns the module below test/tools that has the programs of v.
func (v Version) part() string {
	if v == Earlier {
		return "kubernetes-1.34"
	}
	return "kubernetes"
}

// gates returns the feature gates of Dynamic Resource Allocation that v has switched off, and Current
// on (docs/design/0053-kubernetes-1.37.md). Each program of Kubernetes knows them.
func (v Version) gates() map[string]bool {
	if v != Earlier {
		return nil
	}
	return map[string]bool{
		"DRAConsumableCapacity": true, "DRADeviceTaints": true, "DRAExtendedResource": true,
		"DRAPartitionableDevices": true, "ResourceHealthStatus": true,
	}
}

// gateFlag returns gates as the value of --feature-gates.
func (v Version) gateFlag() string {
	gates := v.gates()
	var all []string
	for _, name := range slices.Sorted(maps.Keys(gates)) {
		all = append(all, fmt.Sprintf("%s=%t", name, gates[name]))
	}
	return strings.Join(all, ",")
}

// kubeletGates returns the gates of the kubelet, for its configuration.
//
// A pod has no cgroup of its own in a lab (cgroupsPerQOS), so its memory limit is nil. The kubelet
// 1.34.3 follows that pointer when it takes a container for one to be resized, and panics
// (kuberuntime_manager.go, doPodResizeAction). It does so where it has no record of the container's
// resources, which happens by chance. The kubelet 1.37.2 makes the record first (kubelet.go, SyncPod),
// and its gate is locked.
func (v Version) kubeletGates() string {
	gates := map[string]bool{}
	maps.Copy(gates, v.gates())
	if v == Earlier {
		gates["InPlacePodVerticalScaling"] = false
	}
	text, _ := json.Marshal(gates) // names and booleans only
	return string(text)
}

// servedGroups returns the value of --runtime-config of the API server: the versions of API groups
// that it does not serve by default. The scheduler and the controller manager of 1.34 read
// DeviceTaintRules, which are v1alpha3 there; those of 1.37 read v1, which is served.
func (v Version) servedGroups() string {
	if v == Earlier {
		return "resource.k8s.io/v1alpha3=true"
	}
	return ""
}
