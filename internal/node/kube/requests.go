package kube

import (
	"maps"
	"net/http"
	"slices"
	"strings"

	"k8s.io/client-go/rest"
)

// ResourceOther stands for a resource that culvertd does not name, such as the list of API groups.
const ResourceOther = "other"

// resources are those that culvertd requests.
var resources = []string{
	"addresspools", "configmaps", "daemonsets", "endpointslices", "events", "namespaces", "network-attachment-definitions",
	"nodepolicies", "nodes", "nodestates", "pods", "resourceclaims", "resourceslices", "services",
}

// verbs are those of requests, by method.
var verbs = map[string]string{
	http.MethodPost: "create", http.MethodPut: "update", http.MethodPatch: "patch", http.MethodDelete: "delete",
}

// RequestLabels returns all values that CountRequests passes.
func RequestLabels() (allVerbs, allResources, results []string) {
	allVerbs = append([]string{"get", "list", "watch"}, slices.Sorted(maps.Values(verbs))...)
	return allVerbs, append(slices.Clone(resources), ResourceOther), []string{"ok", "conflict", "refused", "error"}
}

// CountRequests makes the clients of a configuration report each request that they send to the API
// server: its verb (get, list, watch, create, update, patch or delete), its resource and its result.
// The result is ok, conflict, refused (the API server's answer is another error of the client: a
// missing right, an object that does not exist) or error (there was no answer, or the API server
// failed). A watch counts when it begins.
func CountRequests(config *rest.Config, count func(verb, resource, result string)) {
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return requestCounter{next, count}
	})
}

type requestCounter struct {
	next  http.RoundTripper
	count func(verb, resource, result string)
}

// RoundTrip is http.RoundTripper.
func (c requestCounter) RoundTrip(r *http.Request) (*http.Response, error) {
	resource, named := resourceOf(r.URL.Path)
	answer, err := c.next.RoundTrip(r)
	c.count(verbOf(r, named), resource, resultOf(answer, err))
	return answer, err
}

// WrappedRoundTripper returns the transport that carries the requests out: client-go looks for it.
func (c requestCounter) WrappedRoundTripper() http.RoundTripper { return c.next }

// resourceOf returns the resource of a request, and whether it names one object: the paths are
// /api/v1/... and /apis/GROUP/VERSION/..., and then [namespaces/NAMESPACE/]RESOURCE[/NAME[/SUB]].
func resourceOf(path string) (resource string, named bool) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	skip := 2
	if parts[0] == "apis" {
		skip = 3
	}
	if len(parts) <= skip || parts[0] != "api" && parts[0] != "apis" {
		return ResourceOther, true
	}
	if parts = parts[skip:]; parts[0] == "namespaces" && len(parts) > 2 {
		parts = parts[2:]
	}
	if !slices.Contains(resources, parts[0]) {
		return ResourceOther, len(parts) > 1
	}
	return parts[0], len(parts) > 1
}

func verbOf(r *http.Request, named bool) string {
	watch := r.URL.Query().Get("watch")
	switch {
	case verbs[r.Method] != "":
		return verbs[r.Method]
	case watch == "true" || watch == "1":
		return "watch"
	case named:
		return "get"
	}
	return "list"
}

func resultOf(answer *http.Response, err error) string {
	switch {
	case err != nil || answer.StatusCode >= http.StatusInternalServerError:
		return "error"
	case answer.StatusCode == http.StatusConflict:
		return "conflict"
	case answer.StatusCode >= http.StatusBadRequest:
		return "refused"
	}
	return "ok"
}
