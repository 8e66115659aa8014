package clusterview

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/network/netannotation"
)

// PodNetworks are the networks that the pods of a cluster ask for, and which of them
// culvertd lets them use.
type PodNetworks struct {
	// Pods are the pods that ask for networks when they start again, without pods in the host's
	// network and pods that have ended.
	Pods     []api.Pod
	Networks []api.NetworkDefinition // without their configurations
	// Isolated, Global and Mode are culvertd's --namespace-isolation, --global-namespaces
	// and --pod-networks, as its pods have them. A culvertd without the first is of an earlier
	// version, which isolated only with that flag. Each later manifest gives it.
	Isolated bool
	Global   []string
	Mode     string
	// Multus is the namespace/name of a pod of Multus; empty when none runs.
	Multus string
}

// networkPod is the part of a core/v1 Pod that names its networks. Its metadata is
// not metav1.ObjectMeta: managedFields are larger than the rest.
type networkPod struct {
	Metadata networkMeta `json:"metadata"`
	Spec     struct {
		HostNetwork bool `json:"hostNetwork"`
		Containers  []struct {
			Args []string `json:"args"`
		} `json:"containers"`
	} `json:"spec"`
	Status struct {
		Phase string `json:"phase"`
	} `json:"status"`
}

// networkMeta is the metadata of a pod or of a NetworkAttachmentDefinition.
type networkMeta struct {
	Namespace   string            `json:"namespace"`
	Name        string            `json:"name"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

// PodNetworks lists the pods and networks of all namespaces. A cluster without
// NetworkAttachmentDefinitions has none.
func (c *Cluster) PodNetworks(ctx context.Context) (PodNetworks, error) {
	out := PodNetworks{Global: netannotation.DefaultGlobal(), Mode: defaultMode}
	daemons := 0
	err := eachObject(ctx, c, "/api/v1/pods", nil, func(p networkPod) {
		switch m := p.Metadata; {
		case p.Status.Phase == "Succeeded" || p.Status.Phase == "Failed":
		case !p.Spec.HostNetwork:
			if a := pickKeys(m.Annotations, netannotation.Networks, netannotation.DefaultNetwork); len(a) > 0 {
				out.Pods = append(out.Pods, api.Pod{Namespace: m.Namespace, Name: m.Name, Annotations: a})
			}
		// Tenants, who may give their pods any label, may not have the host's network.
		case m.Labels["app.kubernetes.io/name"] == daemonName:
			out.addDaemon(p, daemons == 0)
			daemons++
		case strings.HasSuffix(m.Labels["app"], "multus"): // RKE2's is rke2-multus
			out.Multus = m.Namespace + "/" + m.Name
		}
	})
	if err != nil {
		return PodNetworks{}, fmt.Errorf("list pods of all namespaces in cluster %s: %w", c.Name, err)
	}
	err = eachObject(ctx, c, "/apis/k8s.cni.cncf.io/v1/network-attachment-definitions", nil, func(n struct {
		Metadata networkMeta `json:"metadata"`
	}) {
		m := n.Metadata
		out.Networks = append(out.Networks, api.NetworkDefinition{Namespace: m.Namespace, Name: m.Name, Annotations: pickKeys(m.Annotations, netannotation.Namespaces)})
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return PodNetworks{}, fmt.Errorf("list network-attachment-definitions of all namespaces in cluster %s: %w", c.Name, err)
	}
	return out, nil
}

// defaultMode is culvertd's --pod-networks unless the administrator sets it.
const defaultMode = "auto"

// addDaemon adds the flags of a culvertd. Where two of them differ, as during an update, it keeps
// the flags by which culvertd refuses more.
func (n *PodNetworks) addDaemon(p networkPod, first bool) {
	flags := pflag.NewFlagSet(daemonName, pflag.ContinueOnError)
	flags.ParseErrorsAllowlist.UnknownFlags = true
	isolated := flags.Bool("namespace-isolation", false, "")
	global := flags.StringSlice("global-namespaces", netannotation.DefaultGlobal(), "")
	mode := flags.String("pod-networks", defaultMode, "")
	for _, c := range p.Spec.Containers {
		_ = flags.Parse(c.Args) // culvertd itself refuses wrong flags
	}
	n.Isolated = n.Isolated || *isolated
	n.Mode = *mode
	if first {
		n.Global = *global
		return
	}
	n.Global = slices.DeleteFunc(n.Global, func(name string) bool { return !slices.Contains(*global, name) })
}

// pickKeys returns the annotations of some keys.
func pickKeys(all map[string]string, keys ...string) map[string]string {
	out := map[string]string{}
	for _, key := range keys {
		if value := all[key]; value != "" {
			out[key] = value
		}
	}
	return out
}
