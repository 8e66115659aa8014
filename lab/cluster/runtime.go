package cluster

// A Runtime is the container runtime of a cluster's nodes.
type Runtime string

// The runtimes.
const (
	Containerd Runtime = "containerd"
	CRIO       Runtime = "cri-o"
)

// unit returns the systemd unit of the runtime, without its suffix.
func (r Runtime) unit() string {
	if r == CRIO {
		return "crio"
	}
	return "containerd"
}

// socketPath returns the socket at which the runtime serves the CRI.
func (r Runtime) socketPath() string { return "/run/" + r.unit() + "/" + r.unit() + ".sock" }

// cgroup returns the folder of the containers' cgroups.
func (r Runtime) cgroup() string {
	if r == CRIO {
		return "/sys/fs/cgroup/crio"
	}
	return "/sys/fs/cgroup/k8s.io"
}

// loadScript returns the commands that load an archive of images on a node. podman writes to the
// storage that CRI-O reads, also while CRI-O does not run. It takes one image of an archive at a
// time.
func (r Runtime) loadScript(archive string) string {
	if r == CRIO {
		return `
			tar -xOf ` + archive + ` index.json | jq -r '.manifests[].annotations["org.opencontainers.image.ref.name"]' |
			while read -r image; do
				podman pull --quiet "oci-archive:` + archive + `:$image" >/dev/null </dev/null
			done`
	}
	return `
			until ctr version >/dev/null 2>&1; do sleep 0.2; done
			ctr --namespace k8s.io images import ` + archive + ` >/dev/null`
}
