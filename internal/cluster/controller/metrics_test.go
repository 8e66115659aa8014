package controller

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// I10: metrics are served to a client whose token the API server knows and whose user may get the
// path, and to no other client. An API server that does not answer permits nothing.
func TestI10MetricsAreGuarded(t *testing.T) {
	prometheus := authenticationv1.UserInfo{Username: "prometheus", UID: "u1", Groups: []string{"monitoring"}, Extra: map[string]authenticationv1.ExtraValue{"scope": {"metrics"}}}
	users := map[string]authenticationv1.UserInfo{"of prometheus": prometheus, "of viewer": {Username: "viewer"}}
	away := errors.New("connection refused")
	for name, tc := range map[string]struct {
		header             string
		reviews, decisions error // of the API server
		want               int
	}{
		"a token with the right":      {"Bearer of prometheus", nil, nil, http.StatusOK},
		"no token":                    {"", nil, nil, http.StatusUnauthorized},
		"an empty token":              {"Bearer ", nil, nil, http.StatusUnauthorized},
		"a password":                  {"Basic of prometheus", nil, nil, http.StatusUnauthorized},
		"a token of no user":          {"Bearer of no user", nil, nil, http.StatusUnauthorized},
		"a token without the right":   {"Bearer of viewer", nil, nil, http.StatusForbidden},
		"tokens cannot be reviewed":   {"Bearer of prometheus", away, nil, http.StatusServiceUnavailable},
		"the right cannot be decided": {"Bearer of prometheus", nil, away, http.StatusServiceUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			var asked authorizationv1.SubjectAccessReviewSpec
			reviewed := false
			c := interceptor.NewClient(newCluster(), interceptor.Funcs{Create: func(_ context.Context, _ client.WithWatch, o client.Object, _ ...client.CreateOption) error {
				reviewed = true
				switch o := o.(type) {
				case *authenticationv1.TokenReview:
					o.Status.User, o.Status.Authenticated = users[o.Spec.Token], users[o.Spec.Token].Username != ""
					return tc.reviews
				case *authorizationv1.SubjectAccessReview:
					asked, o.Status.Allowed = o.Spec, o.Spec.User == prometheus.Username
					return tc.decisions
				}
				t.Errorf("it makes a %T", o)
				return nil
			}})
			g := &metricsGuard{client: c, log: logr.Discard(), verdicts: newVerdicts(), next: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("culvert_x 1")) })}
			r := httptest.NewRequest(http.MethodGet, "https://controller/metrics", nil)
			if tc.header != "" {
				r.Header.Set("Authorization", tc.header)
			}
			answer := httptest.NewRecorder()
			g.ServeHTTP(answer, r)
			served := strings.Contains(answer.Body.String(), "culvert_x")
			if answer.Code != tc.want || served != (tc.want == http.StatusOK) {
				t.Errorf("I10: status %d, metrics are served: %t, want %d", answer.Code, served, tc.want)
			}
			if _, token, _ := strings.Cut(tc.header, "Bearer "); reviewed != (token != "") {
				t.Errorf("the API server is asked: %t, and the token is %q", reviewed, token)
			}
			if tc.want != http.StatusOK {
				return
			}
			want := authorizationv1.SubjectAccessReviewSpec{
				User: "prometheus", UID: "u1", Groups: []string{"monitoring"}, Extra: map[string]authorizationv1.ExtraValue{"scope": {"metrics"}},
				NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: "/metrics", Verb: "get"},
			}
			if diff := cmp.Diff(want, asked); diff != "" {
				t.Errorf("the API server decides about (-want +got):\n%s", diff)
			}
		})
	}
}

// I7: many requests for metrics cost the API server few reviews. A client that was served stays
// served beside strangers who make up tokens, and no longer than verdictLife after its right ended.
func TestI7MetricsCostFewReviews(t *testing.T) {
	reviews, right := 0, true
	c := interceptor.NewClient(newCluster(), interceptor.Funcs{Create: func(_ context.Context, _ client.WithWatch, o client.Object, _ ...client.CreateOption) error {
		switch o := o.(type) {
		case *authenticationv1.TokenReview:
			reviews++
			o.Status.User, o.Status.Authenticated = authenticationv1.UserInfo{Username: o.Spec.Token}, o.Spec.Token == "prometheus"
		case *authorizationv1.SubjectAccessReview:
			o.Status.Allowed = right
		}
		return nil
	}})
	clock := time.Now()
	g := &metricsGuard{client: c, log: logr.Discard(), verdicts: newVerdicts(), next: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})}
	g.verdicts.now = func() time.Time { return clock }
	get := func(token, path string) int {
		r := httptest.NewRequest(http.MethodGet, "https://controller"+path, nil)
		r.Header.Set("Authorization", "Bearer "+token)
		answer := httptest.NewRecorder()
		g.ServeHTTP(answer, r)
		return answer.Code
	}
	want := func(what string, got, want int) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %d, want %d", what, got, want)
		}
	}
	for range 100 {
		want("prometheus", get("prometheus", "/metrics"), http.StatusOK)
	}
	want("reviews for 100 requests", reviews, 1)
	codes := map[int]int{}
	for i := range 5000 {
		codes[get(fmt.Sprint("stranger", i), "/metrics")]++
	}
	if diff := cmp.Diff(map[int]int{http.StatusUnauthorized: reviewBurst - 1, http.StatusTooManyRequests: 5000 - reviewBurst + 1}, codes); diff != "" {
		t.Errorf("strangers (-want +got):\n%s", diff)
	}
	clock = clock.Add(verdictLife)
	for i := range 2 * mostVerdicts { // of which each tenth is reviewed
		clock = clock.Add(time.Second / reviewRate / 10)
		get(fmt.Sprint("other", i), "/metrics")
	}
	if n := len(g.verdicts.known); n > mostVerdicts {
		t.Errorf("%d verdicts are kept", n)
	}
	want("prometheus among strangers", get("prometheus", "/metrics"), http.StatusOK)
	want("another path", get("prometheus", "/debug"), http.StatusTooManyRequests)
	right = false
	want("prometheus, whose right ended", get("prometheus", "/metrics"), http.StatusOK)
	clock = clock.Add(verdictLife)
	want("later", get("prometheus", "/metrics"), http.StatusForbidden)
}
