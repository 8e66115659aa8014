package api

import "encoding/json"

// CNIRequest is a CNI invocation as the shim culvert-cni got it: the environment (CNI specification
// 1.1, section 2, "parameters") and the text of standard input.
type CNIRequest struct {
	Command     string `json:"command"`
	ContainerID string `json:"containerID,omitempty"`
	Netns       string `json:"netns,omitempty"`
	IfName      string `json:"ifName,omitempty"`
	Args        string `json:"args,omitempty"`
	Path        string `json:"path,omitempty"`
	Config      []byte `json:"config,omitempty"`
	// Definition is the namespace/name of the NetworkAttachmentDefinition that Config is
	// of, where culvertd itself read it for a pod. A shim cannot send it.
	Definition string `json:"-"`
	// Claim is the namespace/name of the ResourceClaim that Config is of, likewise.
	Claim string `json:"-"`
}

// CNIResponse has the output and the exit status of the shim. A failed invocation has a response,
// too: Stdout then has the specification's error object, and Exit is not 0.
type CNIResponse struct {
	Stdout []byte `json:"stdout,omitempty"`
	Exit   int    `json:"exit"`
}

// CNINewest is the newest version of the CNI specification that Culvert
// serves.
const CNINewest = "1.1.0"

// CNIVersions returns the versions of the CNI specification that Culvert serves, oldest first.
func CNIVersions() []string {
	return []string{"0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", CNINewest}
}

// CNIVersion is the form of the answer to VERSION (CNI specification 1.1,
// section 5).
type CNIVersion struct {
	CNIVersion        string   `json:"cniVersion"`
	SupportedVersions []string `json:"supportedVersions"`
}

// CNIError is the form of an error (CNI specification 1.1, section 5, which
// lists the codes below 100).
type CNIError struct {
	CNIVersion string `json:"cniVersion"`
	Code       uint   `json:"code"`
	Msg        string `json:"msg"`
	// Details is the next step.
	Details string `json:"details,omitempty"`
}

// Codes of the specification that both the shim and culvertd use.
const (
	CNIInvalidEnvironment uint = 4
	CNIIOFailure          uint = 5
	CNITryAgainLater      uint = 11
	CNIUnavailable        uint = 50 // STATUS only
	CNIInternal           uint = 999
)

// longestVersion is longer than any version of the specification.
const longestVersion = 32

// CNIVersionOf returns the version in which to answer: the cniVersion of a configuration, whose
// other content need not be valid. It returns CNINewest if the configuration has no plausible
// cniVersion.
func CNIVersionOf(config []byte) string {
	var c struct {
		CNIVersion string `json:"cniVersion"`
	}
	if err := json.Unmarshal(config, &c); err != nil || c.CNIVersion == "" || len(c.CNIVersion) > longestVersion {
		return CNINewest
	}
	return c.CNIVersion
}
