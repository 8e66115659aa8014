package api

// Pod is what of a pod matters to its networks.
type Pod struct {
	Namespace, Name string
	// UID is the API object's, which of a static pod is not the one that the
	// runtime knows.
	UID string
	// Annotations are those that are about networks, and where the pod comes from.
	Annotations map[string]string
}

// String is namespace/name.
func (p Pod) String() string { return p.Namespace + "/" + p.Name }

// NetworkDefinition is a NetworkAttachmentDefinition (k8s.cni.cncf.io/v1).
type NetworkDefinition struct {
	Namespace, Name string
	Annotations     map[string]string
	// Config is spec.config: a CNI configuration or a list of them; empty for one
	// that is a file on the node.
	Config string
}

// ObjectRef names an object of the cluster that an event is about.
type ObjectRef struct {
	APIVersion, Kind     string
	Namespace, Name, UID string
}
