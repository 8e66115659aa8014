package netannotation

import (
	"fmt"
	"slices"
	"strings"
)

// EveryPod is the administrator's setting of networks that pods get beside their default one, as
// Multus' defaultNetworks: before the networks that the pod asks for. culvertd and the controller
// share it. The zero value names none.
type EveryPod struct {
	Networks []Element
	// Except are the namespaces whose pods get none, as Multus' systemNamespaces.
	Except []string
}

// DefaultSystemNamespaces returns the namespaces whose pods get no networks of EveryPod where the
// administrator names no others: the pods that networks need to work.
func DefaultSystemNamespaces() []string { return []string{"kube-system", "culvert-system"} }

// ParseEveryPod reads the names of networks as Parse does, in DefaultNamespace unless they name
// another. The error wraps vf.ErrInvalid.
func ParseEveryPod(names, except []string) (EveryPod, error) {
	elements, err := parseElements(strings.Join(names, ","), DefaultNamespace)
	if err != nil {
		return EveryPod{}, fmt.Errorf("networks of every pod: %w", err)
	}
	for i := range elements {
		elements[i].ForEveryPod = true
	}
	return EveryPod{Networks: elements, Except: except}, nil
}

// Parse returns the networks that a pod of a namespace gets beside its default one: those of every
// pod, and those that its annotation Networks asks for.
func (e EveryPod) Parse(annotation, namespace string) ([]Element, error) {
	asked, err := Parse(annotation, namespace)
	if err != nil {
		return nil, err
	}
	return slices.Concat(e.networksOf(namespace), asked), nil
}

// networksOf returns the networks that every pod of a namespace gets.
func (e EveryPod) networksOf(namespace string) []Element {
	if slices.Contains(e.Except, namespace) {
		return nil
	}
	return e.Networks
}
