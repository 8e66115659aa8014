package kube

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
)

type answers func(*http.Request) (*http.Response, error)

func (a answers) RoundTrip(r *http.Request) (*http.Response, error) { return a(r) }

// Each request counts once, with its verb, its resource and its result. A resource that culvertd does
// not name is "other", so that the counter stays bounded.
func TestRequestsAreCounted(t *testing.T) {
	for _, c := range []struct {
		method, url string
		code        int
		want        string
	}{
		{"GET", "/api/v1/namespaces/default/pods/a", 200, "get pods ok"},
		{"GET", "/api/v1/pods?fieldSelector=spec.nodeName%3Dw", 200, "list pods ok"},
		{"GET", "/api/v1/pods?watch=true", 200, "watch pods ok"},
		{"GET", "/api/v1/namespaces/default", 404, "get namespaces refused"},
		{"GET", "/api/v1/namespaces", 200, "list namespaces ok"},
		{"PATCH", "/api/v1/namespaces/default/pods/a/status", 409, "patch pods conflict"},
		{"POST", "/api/v1/namespaces/default/events", 403, "create events refused"},
		{"PUT", "/apis/culvert.dev/v1alpha1/nodestates/w", 500, "update nodestates error"},
		{"PUT", "/apis/culvert.dev/v1alpha1/nodestates/w", 0, "update nodestates error"},
		{"DELETE", "/apis/culvert.dev/v1alpha1/nodestates/w", 200, "delete nodestates ok"},
		{"GET", "/apis/k8s.cni.cncf.io/v1/network-attachment-definitions", 429, "list network-attachment-definitions refused"},
		{"GET", "/apis/evil.example/v1/secrets", 200, "list other ok"},
		{"GET", "/apis", 200, "get other ok"},
		{"GET", "/", 200, "get other ok"},
	} {
		config, got := &rest.Config{}, []string(nil)
		CountRequests(config, func(verb, resource, result string) { got = append(got, verb+" "+resource+" "+result) })
		r, err := http.NewRequestWithContext(context.Background(), c.method, "https://api"+c.url, nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := config.WrapTransport(answers(func(*http.Request) (*http.Response, error) {
			if c.code == 0 {
				return nil, errors.New("connection refused")
			}
			return &http.Response{StatusCode: c.code, Body: http.NoBody}, nil
		})).RoundTrip(r)
		if err == nil {
			_ = answer.Body.Close()
		}
		verbs, resources, results := RequestLabels()
		for i, all := range [][]string{verbs, resources, results} {
			if !slices.Contains(all, strings.Fields(c.want)[i]) {
				t.Errorf("RequestLabels lacks a label of %q", c.want)
			}
		}
		if strings.Join(got, ", ") != c.want {
			t.Errorf("%s %s: got %q, want %q", c.method, c.url, got, c.want)
		}
	}
}
