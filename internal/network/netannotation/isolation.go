package netannotation

import (
	"slices"
	"strings"
)

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
