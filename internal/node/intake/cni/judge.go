package cni

import (
	"github.com/culvert-net/culvert/internal/api"
)

// JudgeAdd reads an ADD as Handler does, and returns the warnings of its network, or why it
// is refused before a VF is chosen.
func JudgeAdd(r api.CNIRequest) (warnings []string, err error) {
	r, _ = leaveOutUndeclared(r)
	c, _, err := parseRequest(r)
	return c.Warnings, err
}
