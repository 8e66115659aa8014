package clusterview

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/internal/network/netannotation"
)

// Stack has the objects in a cluster of the projects that Culvert replaces.
type Stack struct {
	// Workloads are all DaemonSets and Deployments.
	Workloads []Workload
	// Objects are the SR-IOV operator's objects, and ConfigMaps of DaemonSets.
	Objects []StackObject
	// Networks are the NetworkAttachmentDefinitions, and HasNetworks whether the API server knows
	// that kind.
	Networks    []StackNetwork
	HasNetworks bool
	// Webhooks are webhook configurations: kind and name, with a slash between them.
	Webhooks []string
	// Pods are those that ask for networks and have not ended.
	Pods []StackPod
}

// Workload is a DaemonSet or a Deployment.
type Workload struct {
	Kind, Namespace, Name string
	Images                []string
	// Replicas is how many pods of a Deployment are wanted.
	Replicas int
	// OLM names the ClusterServiceVersion by which OLM made it; empty where OLM did not.
	OLM string
	// Args are the commands and arguments of its containers, and ConfigMaps those that it mounts.
	Args, ConfigMaps []string
	// Mounts are the host's folders by their paths in its containers.
	Mounts map[string]string
}

// StackObject is an object as the API server has it.
type StackObject struct {
	Kind string
	JSON json.RawMessage
}

// StackNetwork is a NetworkAttachmentDefinition.
type StackNetwork struct {
	Namespace, Name, Config string
	Annotations             map[string]string
	// Owners are the kinds of its owner references.
	Owners []string
}

// StackPod is a pod that asks for networks.
type StackPod struct {
	Namespace, Name string
	Annotations     map[string]string
	// Ready is false for a pod that does not run, with its phase or the reason.
	Ready  bool
	Reason string
}

// operatorKinds are the kinds of the operator's objects that declare the wanted state, with their
// plural names.
var operatorKinds = []struct{ kind, plural string }{
	{"SriovNetworkNodePolicy", "sriovnetworknodepolicies"},
	{"SriovNetwork", "sriovnetworks"},
	{"SriovIBNetwork", "sriovibnetworks"},
	{"OVSNetwork", "ovsnetworks"},
	{"SriovNetworkPoolConfig", "sriovnetworkpoolconfigs"},
	{"SriovOperatorConfig", "sriovoperatorconfigs"},
}

// Stack reads the objects of these projects in the cluster. A kind that the API server does not
// know has no objects.
func (c *Cluster) Stack(ctx context.Context) (Stack, error) {
	var out Stack
	for _, read := range []func(context.Context, *Stack) error{c.readWorkloads, c.readOperator, c.readNetworks, c.readWebhooks, c.readPods} {
		if err := read(ctx, &out); err != nil {
			return Stack{}, err
		}
	}
	return out, nil
}

// Unapplied yields the NodePolicies that a node does not follow yet, with the reason. If the
// controller has not judged a policy yet, that is the reason.
func (o Objects) Unapplied() iter.Seq2[string, string] {
	return func(yield func(policy, reason string) bool) {
		for _, p := range o.Policies {
			reason := "the controller has not looked at it yet"
			if c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionApplied); c != nil && c.ObservedGeneration == p.Generation {
				if c.Status == metav1.ConditionTrue {
					continue
				}
				reason = c.Message
			}
			if !yield(p.Name, reason) {
				return
			}
		}
	}
}

// ignoreUnknown returns the error of a list, nil where the API server does not know the kind.
func (c *Cluster) ignoreUnknown(what string, err error) error {
	if err == nil || apierrors.IsNotFound(err) {
		return nil
	}
	return fmt.Errorf("list %s of cluster %s: %w", what, c.Name, err)
}

// workload is the part of a DaemonSet or Deployment that is read.
type workload struct {
	Metadata struct {
		networkMeta
		OwnerReferences []struct{ Kind, Name string } `json:"ownerReferences"`
	} `json:"metadata"`
	Spec struct {
		Replicas *int `json:"replicas"`
		Template struct {
			Spec struct {
				InitContainers, Containers []struct {
					Image         string `json:"image"`
					Command, Args []string
					VolumeMounts  []struct {
						Name      string `json:"name"`
						MountPath string `json:"mountPath"`
					} `json:"volumeMounts"`
				}
				Volumes []struct {
					Name     string `json:"name"`
					HostPath struct {
						Path string `json:"path"`
					} `json:"hostPath"`
					ConfigMap struct {
						Name string `json:"name"`
					} `json:"configMap"`
				} `json:"volumes"`
			} `json:"spec"`
		} `json:"template"`
	} `json:"spec"`
}

// toWorkload returns what is needed of a DaemonSet or a Deployment.
func (w workload) toWorkload(kind string) Workload {
	out := Workload{Kind: kind, Namespace: w.Metadata.Namespace, Name: w.Metadata.Name, Replicas: 1}
	if w.Spec.Replicas != nil {
		out.Replicas = *w.Spec.Replicas
	}
	for _, o := range w.Metadata.OwnerReferences {
		if o.Kind == "ClusterServiceVersion" {
			out.OLM = o.Name
		}
	}
	spec, folders := w.Spec.Template.Spec, map[string]string{}
	for _, v := range spec.Volumes {
		if kind == "DaemonSet" && v.ConfigMap.Name != "" {
			out.ConfigMaps = append(out.ConfigMaps, v.ConfigMap.Name)
		}
		if v.HostPath.Path != "" {
			folders[v.Name] = v.HostPath.Path
		}
	}
	for _, container := range append(spec.Containers, spec.InitContainers...) {
		out.Images = append(out.Images, container.Image)
		out.Args = slices.Concat(out.Args, container.Command, container.Args)
		for _, m := range container.VolumeMounts {
			if host, is := folders[m.Name]; is && out.Mounts[m.MountPath] == "" {
				if out.Mounts == nil {
					out.Mounts = map[string]string{}
				}
				out.Mounts[m.MountPath] = host
			}
		}
	}
	return out
}

// The program that patches pods reads ConfigMaps of these names by itself, in its own namespace or
// in kube-system.
const injector = "network-resources-injector"

var injectorConfigMaps = []string{"nri-control-switches", "nri-user-defined-injections"}

// configMaps returns the namespace/name of each ConfigMap that a workload reads.
func (w Workload) configMaps() (out []string) {
	for _, name := range w.ConfigMaps {
		out = append(out, w.Namespace+"/"+name)
	}
	isInjector := func(text string) bool { return strings.Contains(text, injector) }
	if isInjector(w.Name) || slices.ContainsFunc(w.Images, isInjector) {
		for _, name := range injectorConfigMaps {
			out = append(out, w.Namespace+"/"+name, "kube-system/"+name)
		}
	}
	return out
}

// readWorkloads lists DaemonSets and Deployments, and reads the ConfigMaps of DaemonSets, of which
// a device plugin's is one, and of the injector.
func (c *Cluster) readWorkloads(ctx context.Context, out *Stack) error {
	maps := map[string]bool{"kube-system/sriovdp-config": true}
	for kind, path := range map[string]string{"DaemonSet": "/apis/apps/v1/daemonsets", "Deployment": "/apis/apps/v1/deployments"} {
		err := eachObject(ctx, c, path, nil, func(w workload) {
			found := w.toWorkload(kind)
			for _, name := range found.configMaps() {
				maps[name] = true
			}
			out.Workloads = append(out.Workloads, found)
		})
		if err := c.ignoreUnknown(kind+"s", err); err != nil {
			return err
		}
	}
	for fullName := range maps {
		namespace, name, _ := strings.Cut(fullName, "/")
		path := "/api/v1/namespaces/" + namespace + "/configmaps/" + name
		answer := c.rest.Get().AbsPath(path).Do(ctx)
		err := answer.Error() // Raw's error does not have the API server's message
		if apierrors.IsNotFound(err) {
			continue
		}
		raw, _ := answer.Raw()
		if err != nil {
			return fmt.Errorf("read %s of cluster %s: %w", path, c.Name, err)
		}
		out.Objects = append(out.Objects, StackObject{"ConfigMap", raw})
	}
	return nil
}

func (c *Cluster) readOperator(ctx context.Context, out *Stack) error {
	for _, k := range operatorKinds {
		err := eachObject(ctx, c, "/apis/sriovnetwork.openshift.io/v1/"+k.plural, nil, func(raw json.RawMessage) {
			out.Objects = append(out.Objects, StackObject{k.kind, raw})
		})
		if err := c.ignoreUnknown(k.plural, err); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cluster) readNetworks(ctx context.Context, out *Stack) error {
	err := eachObject(ctx, c, "/apis/k8s.cni.cncf.io/v1/network-attachment-definitions", nil, func(n struct {
		Metadata struct {
			networkMeta
			OwnerReferences []struct {
				Kind string `json:"kind"`
			} `json:"ownerReferences"`
		} `json:"metadata"`
		Spec struct {
			Config string `json:"config"`
		} `json:"spec"`
	}) {
		found := StackNetwork{Namespace: n.Metadata.Namespace, Name: n.Metadata.Name, Config: n.Spec.Config, Annotations: n.Metadata.Annotations}
		for _, o := range n.Metadata.OwnerReferences {
			found.Owners = append(found.Owners, o.Kind)
		}
		out.Networks = append(out.Networks, found)
	})
	out.HasNetworks = err == nil
	return c.ignoreUnknown("network-attachment-definitions", err)
}

func (c *Cluster) readWebhooks(ctx context.Context, out *Stack) error {
	for _, kind := range []string{"mutatingwebhookconfigurations", "validatingwebhookconfigurations"} {
		err := eachObject(ctx, c, "/apis/admissionregistration.k8s.io/v1/"+kind, nil, func(w struct {
			Metadata networkMeta `json:"metadata"`
		}) {
			out.Webhooks = append(out.Webhooks, kind+"/"+w.Metadata.Name)
		})
		if err := c.ignoreUnknown(kind, err); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cluster) readPods(ctx context.Context, out *Stack) error {
	err := eachObject(ctx, c, "/api/v1/pods", nil, func(p pod) {
		asked := pickKeys(p.Annotations, netannotation.Networks, netannotation.DefaultNetwork)
		if len(asked) == 0 || p.Status.Phase == "Succeeded" {
			return
		}
		state := p.describeDaemon()
		out.Pods = append(out.Pods, StackPod{Namespace: p.Namespace, Name: p.Name, Annotations: asked, Ready: state.Ready, Reason: state.Reason})
	})
	return c.ignoreUnknown("pods", err)
}
