package endpoints

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/culvert-net/culvert/internal/excerpt"
	"github.com/culvert-net/culvert/internal/network/netannotation"
	"github.com/culvert-net/culvert/internal/network/service"
)

// Decision says how a Service is served.
type Decision struct {
	// Network is nil for a Service that is left to Kubernetes.
	Network *service.Network
	// Fallback leaves the selector to Kubernetes too, so that other clients reach the pods'
	// default addresses.
	Fallback bool
	// Refusal is the reason why a Service that its owner annotated is not served.
	Refusal string
}

// Rules are the administrator's settings for all Services of a cluster.
type Rules struct {
	// Defaults are the networks that serve Services without an annotation.
	Defaults []service.Network
	// Off leaves every Service to Kubernetes, also Services that are served now.
	Off bool
}

// Decide decides by the Service's annotations, else by the default networks: it takes the first
// that one of the Service's pods asks for. pods are the pods that Selector selects.
func (r Rules) Decide(svc *corev1.Service, pods []*corev1.Pod) Decision {
	if r.Off {
		return Decision{}
	}
	fallback, asksFallback := svc.Annotations[service.FallbackAnnotation]
	text, annotated := svc.Annotations[service.NetworkAnnotation]
	if annotated && text == "" {
		return Decision{}
	}
	problem := unservable(svc)
	var network *service.Network
	if annotated {
		n, err := service.ParseNetwork(text, svc.Namespace)
		if err != nil {
			return Decision{Refusal: fmt.Sprintf("annotation %s: %v", service.NetworkAnnotation, err)}
		}
		network = &n
	} else if problem == "" {
		network = chooseDefault(svc, pods, r.Defaults)
	}
	switch {
	case network == nil:
		return Decision{}
	case problem != "":
		return Decision{Refusal: fmt.Sprintf("annotation %s: %s", service.NetworkAnnotation, problem)}
	case asksFallback && fallback != service.FallbackDefault:
		return Decision{Refusal: fmt.Sprintf("annotation %s: %s: want %s, or remove it", service.FallbackAnnotation, excerpt.Quote(fallback), service.FallbackDefault)}
	case asksFallback && IsHeadless(svc):
		return Decision{Refusal: fmt.Sprintf("annotation %s: DNS answers with the addresses of a headless Service, so it has no fallback: remove the annotation, or give the Service a cluster IP", service.FallbackAnnotation)}
	}
	return Decision{Network: network, Fallback: asksFallback}
}

// unservable returns the reason why a Service of this kind is never served; empty if it may be.
func unservable(svc *corev1.Service) string {
	switch {
	case svc.Namespace == metav1.NamespaceSystem || svc.Namespace == metav1.NamespaceDefault && svc.Name == "kubernetes":
		return "Culvert serves neither the API server's Service nor those of namespace kube-system"
	case svc.Spec.Type != "" && svc.Spec.Type != corev1.ServiceTypeClusterIP:
		return fmt.Sprintf("a Service of type %s is reached through the nodes' default network: want type ClusterIP, which may be headless", svc.Spec.Type)
	case len(Selector(svc)) == 0:
		return "the Service has no selector, so Culvert does not know its pods: add one, or remove the annotation"
	}
	return ""
}

// chooseDefault returns the first default network that a pod asks for. A Service without pods keeps
// its present network.
func chooseDefault(svc *corev1.Service, pods []*corev1.Pod, defaults []service.Network) *service.Network {
	for _, n := range defaults {
		if len(pods) == 0 && svc.Spec.Selector[service.SelectorKey] == n.Label() {
			return &n
		}
		if slices.ContainsFunc(pods, func(p *corev1.Pod) bool { return asks(p, n) }) {
			return &n
		}
	}
	return nil
}

// asks reports whether a pod asks for a network beside its default one.
func asks(pod *corev1.Pod, n service.Network) bool {
	elements, err := netannotation.Parse(pod.Annotations[netannotation.Networks], pod.Namespace)
	return err == nil && slices.ContainsFunc(elements, func(e netannotation.Element) bool { return e.Namespace == n.Namespace && e.Name == n.Name })
}

// Selector returns a Service's selector as its owner wrote it, without Culvert's key.
func Selector(svc *corev1.Service) map[string]string {
	out := maps.Clone(svc.Spec.Selector)
	delete(out, service.SelectorKey)
	return out
}

// Selects reports whether a Service's owner selects a pod with these labels.
func Selects(svc *corev1.Service, labels map[string]string) bool {
	matched := 0
	for key, value := range svc.Spec.Selector {
		if key == service.SelectorKey {
			continue
		}
		if have, is := labels[key]; !is || have != value {
			return false
		}
		matched++
	}
	return matched > 0
}

// WantedKey returns the value that Culvert's key of the selector should have, and whether it
// should be there.
func (d Decision) WantedKey() (value string, wanted bool) {
	if d.Network == nil || d.Fallback {
		return "", false
	}
	return d.Network.Label(), true
}

// IsHeadless reports whether a Service has no cluster IP.
func IsHeadless(svc *corev1.Service) bool { return svc.Spec.ClusterIP == corev1.ClusterIPNone }
