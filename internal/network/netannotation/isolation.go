package netannotation

import (
	"fmt"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/internal/vf"
)

// Isolation is the administrator's setting of which networks pods may use. culvertd, the controller
// and the offline checks share it. The zero value lets every pod use every network.
type Isolation struct {
	On bool
	// Global are the namespaces whose networks every pod may use.
	Global []string
}

// Check returns an error if pods of a namespace may not use a network of another one. annotations
// are the network's; nil if it does not exist. The error is the same whether the network exists or
// not (I9). Callers check before they report that a network is missing.
func (i Isolation) Check(pod, namespace, name string, annotations map[string]string) error {
	if !i.On || MayUse(pod, namespace, annotations, i.Global) {
		return nil
	}
	return fmt.Errorf("%w: pods of namespace %s may use networks of their own namespace%s only: to admit them, set the annotation %s of NetworkAttachmentDefinition %s/%s to %s",
		vf.ErrInvalid, pod, listGlobal(i.Global), Namespaces, namespace, name, pod)
}

func listGlobal(global []string) string {
	if len(global) == 0 {
		return ""
	}
	return " and of " + strings.Join(global, ", ")
}

// DefaultGlobal returns the namespaces whose networks every pod may use where the
// administrator names no others.
func DefaultGlobal() []string { return []string{"default", "kube-system", "culvert-system"} }

// MayUse reports whether namespace isolation lets pods of a namespace use a network (I9):
// one of their own namespace or of a global one, and one whose annotation Namespaces names
// theirs. network is the namespace of the network, annotations are the network's.
func MayUse(pod, network string, annotations map[string]string, global []string) bool {
	return network == pod || slices.Contains(global, network) ||
		slices.ContainsFunc(admittedNamespaces(annotations), func(name string) bool { return name == "*" || name == pod })
}

// Admit returns the value of the annotation Namespaces that admits more namespaces. It leaves out
// names that can be no namespace, so that a shell takes the value as it is.
func Admit(annotations map[string]string, more []string) string {
	names := slices.DeleteFunc(append(admittedNamespaces(annotations), more...), func(name string) bool { return !namespaceName.MatchString(name) })
	slices.Sort(names)
	return strings.Join(slices.Compact(names), ",")
}

// admittedNamespaces returns the names in the annotation Namespaces; * stands for every namespace.
func admittedNamespaces(annotations map[string]string) []string {
	names := strings.Split(annotations[Namespaces], ",")
	for i := range names {
		names[i] = strings.TrimSpace(names[i])
	}
	return names
}
