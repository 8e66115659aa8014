package cni

// JudgeAdd reads an ADD as Handler does, and returns the warnings of its network, or why it
// is refused before a VF is chosen.
func JudgeAdd(call Call) (warnings []string, err error) {
	_, _, err = requestOf(call)
	return call.warnings(), err
}
