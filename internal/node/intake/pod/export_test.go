package pod

// HoldSandbox locks a sandbox, as a call that works on it does.
func (h *Handler) HoldSandbox(id string) (unlock func()) {
	unlock, _ = h.sandboxes.TryLock(id, "another ADD for this sandbox")
	return unlock
}
