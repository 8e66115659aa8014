package api

// PluginRequest is one run of a CNI plugin. Its environment is the shim's own with the CNI_
// variables of Call (CNI specification 1.1, section 2), and its standard input is Call.Config.
type PluginRequest struct {
	// Type is the plugin's name. The shim looks for that program in the folders of Call.Path.
	Type string     `json:"type"`
	Call CNIRequest `json:"call"`
	// BoundMS is after how many milliseconds the shim kills the plugin, if the question's deadline
	// is not sooner. culvertd waits longer for the answer, which has the processes that survive.
	BoundMS int64 `json:"boundMs,omitempty"`
}

// PluginResponse is the result of the run.
type PluginResponse struct {
	Stdout []byte `json:"stdout,omitempty"`
	// Stderr is the end of the plugin's standard error.
	Stderr []byte `json:"stderr,omitempty"`
	// Exit is the exit status; 128 and the signal's number when a signal ended the plugin.
	Exit int `json:"exit"`
}

// IsPluginType reports whether s can be the name of a plugin's program: the
// specification's own form (section 1, "type" must not have a path separator).
func IsPluginType(s string) bool {
	for i, r := range s {
		word := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_'
		if !word && (i == 0 || r != '.' && r != '-') {
			return false
		}
	}
	return s != "" && len(s) <= 128
}
