package controller

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"gomodules.xyz/jsonpatch/v2"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/culvert-net/culvert/internal/cluster/endpoints"
	"github.com/culvert-net/culvert/internal/network/service"
)

// serviceWebhook refuses annotated Services that are never served over a VF network, and keeps
// Culvert's key in the selectors of the others from their first write on. If it misses a write,
// Services adds the key.
type serviceWebhook struct {
	client client.Reader // from a cache
	rules  endpoints.Rules
}

// Handle is admission.Handler.
func (w *serviceWebhook) Handle(ctx context.Context, req admission.Request) admission.Response {
	var svc corev1.Service
	if err := json.Unmarshal(req.Object.Raw, &svc); err != nil {
		return admission.Errored(http.StatusBadRequest, fmt.Errorf("read the Service: %w", err))
	}
	svc.Namespace = req.Namespace
	if svc.DeletionTimestamp != nil {
		return admission.Allowed("")
	}
	ctx, cancel := context.WithTimeout(ctx, lookBound)
	defer cancel()
	pods, err := podsOf(ctx, w.client, &svc)
	if err != nil {
		return admission.Allowed("").WithWarnings(fmt.Sprintf("Service not compared with networks: %v", err))
	}
	d := w.rules.Decide(&svc, pods)
	if d.Refusal != "" {
		if wasRefused(req) {
			return admission.Allowed("").WithWarnings(d.Refusal) // it was refused before this update, too: the owner may be about to delete it
		}
		return admission.Denied(d.Refusal)
	}
	patch := keyPatch(&svc, d)
	if len(patch) == 0 {
		return admission.Allowed("")
	}
	return admission.Patched("key of Culvert in the selector", patch...)
}

// wasRefused reports whether the webhook refuses the Service also as it was before the update.
func wasRefused(req admission.Request) bool {
	var old corev1.Service
	if req.Operation != admissionv1.Update || json.Unmarshal(req.OldObject.Raw, &old) != nil {
		return false
	}
	return (endpoints.Rules{}).Decide(&old, nil).Refusal != ""
}

// keyPatch returns the JSON patch that brings Culvert's key of the selector up to date.
func keyPatch(svc *corev1.Service, d endpoints.Decision) []jsonpatch.Operation {
	path := "/spec/selector/" + pointer(service.SelectorKey)
	have, is := svc.Spec.Selector[service.SelectorKey]
	switch want, wanted := d.WantedKey(); {
	case is && !wanted:
		return []jsonpatch.Operation{jsonpatch.NewOperation("remove", path, nil)}
	case wanted && have != want:
		return []jsonpatch.Operation{jsonpatch.NewOperation("add", path, want)}
	}
	return nil
}

// ParseServiceNetworks parses the networks of Config.ServiceNetworks, namespace/name each.
func ParseServiceNetworks(all []string) ([]service.Network, error) {
	var out []service.Network
	for _, text := range all {
		n, err := service.ParseNetwork(text, "")
		if err != nil {
			return nil, fmt.Errorf("default network of Services: %w", err)
		}
		out = append(out, n)
	}
	return out, nil
}
