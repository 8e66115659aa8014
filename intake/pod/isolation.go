package pod

import (
	"fmt"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/api"
	"github.com/culvert-net/culvert/netannotation"
	"github.com/culvert-net/culvert/vf"
)

// checkNamespace refuses a network that pods of a namespace may not use (I9): with
// Isolation they use those of their own namespace, of the Global ones, and those whose
// annotation netannotation.Namespaces names them.
func (h *Handler) checkNamespace(pod string, nad api.NetworkDefinition) error {
	if !h.Isolation || nad.Namespace == pod || slices.Contains(h.Global, nad.Namespace) || admits(nad, pod) {
		return nil
	}
	return fmt.Errorf("%w: pods of namespace %s may use networks of their own namespace%s only: to admit them, set the annotation %s of NetworkAttachmentDefinition %s/%s to %s",
		vf.ErrInvalid, pod, listGlobal(h.Global), netannotation.Namespaces, nad.Namespace, nad.Name, pod)
}

// admits reports whether the annotation of a network names a namespace: a list separated
// by commas, in which * stands for every namespace.
func admits(nad api.NetworkDefinition, namespace string) bool {
	for name := range strings.SplitSeq(nad.Annotations[netannotation.Namespaces], ",") {
		if name = strings.TrimSpace(name); name == "*" || name == namespace {
			return true
		}
	}
	return false
}

func listGlobal(global []string) string {
	if len(global) == 0 {
		return ""
	}
	return " and of " + strings.Join(global, ", ")
}
