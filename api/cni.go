package api

// MethodCNI is the method under which culvertd serves the CNI shim: CNIRequest
// in, CNIResponse out.
const MethodCNI = "cni"

// CNIRequest is a CNI invocation as the shim culvert-cni got it: the
// environment (CNI specification 1.1, section 2, "parameters") and what stood on
// standard input.
type CNIRequest struct {
	Command     string `json:"command"`
	ContainerID string `json:"containerID,omitempty"`
	Netns       string `json:"netns,omitempty"`
	IfName      string `json:"ifName,omitempty"`
	Args        string `json:"args,omitempty"`
	Path        string `json:"path,omitempty"`
	Config      []byte `json:"config,omitempty"`
}

// CNIResponse is what the shim prints and exits with. A failed invocation is a
// response too: Stdout then holds the specification's error object and Exit
// is not 0.
type CNIResponse struct {
	Stdout []byte `json:"stdout,omitempty"`
	Exit   int    `json:"exit"`
}
