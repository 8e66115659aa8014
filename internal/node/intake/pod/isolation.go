package pod

import (
	"fmt"
	"strings"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/network/netannotation"
	"github.com/culvert-net/culvert/internal/vf"
)

// checkNamespace refuses a network that pods of a namespace may not use where Isolation is
// on (netannotation.MayUse).
func (h *Handler) checkNamespace(pod string, nad api.NetworkDefinition) error {
	if !h.Isolation || netannotation.MayUse(pod, nad.Namespace, nad.Annotations, h.Global) {
		return nil
	}
	return fmt.Errorf("%w: pods of namespace %s may use networks of their own namespace%s only: to admit them, set the annotation %s of NetworkAttachmentDefinition %s/%s to %s",
		vf.ErrInvalid, pod, listGlobal(h.Global), netannotation.Namespaces, nad.Namespace, nad.Name, pod)
}

func listGlobal(global []string) string {
	if len(global) == 0 {
		return ""
	}
	return " and of " + strings.Join(global, ", ")
}
