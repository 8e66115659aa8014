package controller

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// reviewTime is how long the API server may take to judge one request for metrics.
const reviewTime = 10 * time.Second

// metricsGuard serves metrics only to a client whose token the API server knows and whose user
// may get the URL's path. The API server guards its own /metrics in the same way.
type metricsGuard struct {
	client   client.Client
	next     http.Handler
	log      logr.Logger
	verdicts *verdicts
}

// guardMetrics is server.Options.FilterProvider. Its client has a rate limit of its own:
// requests for metrics do not delay the controller's.
func guardMetrics(config *rest.Config, httpClient *http.Client) (server.Filter, error) {
	c, err := client.New(config, client.Options{HTTPClient: httpClient, Scheme: Scheme()})
	if err != nil {
		return nil, fmt.Errorf("metrics: connect to the cluster: %w", err)
	}
	return func(log logr.Logger, next http.Handler) (http.Handler, error) {
		return &metricsGuard{client: c, next: next, log: log, verdicts: newVerdicts()}, nil
	}, nil
}

// ServeHTTP answers 401 without a token that the API server knows, 403 without the right,
// 429 for one of too many, and 503 when the API server does not judge.
func (g *metricsGuard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), reviewTime)
	defer cancel()
	code, err := g.judge(ctx, r)
	if err != nil {
		g.log.Error(err, "request for metrics is refused")
	}
	if code != http.StatusOK {
		http.Error(w, http.StatusText(code), code)
		return
	}
	g.next.ServeHTTP(w, r)
}

// judge returns the status code for a request: StatusOK when it may be served.
func (g *metricsGuard) judge(ctx context.Context, r *http.Request) (int, error) {
	token, found := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !found || token == "" {
		return http.StatusUnauthorized, nil
	}
	key := newVerdictKey(token, r)
	if code := g.verdicts.findVerdict(key); code != 0 {
		return code, nil
	}
	code, err := g.reviewRequest(ctx, r, token)
	if err == nil {
		g.verdicts.keepVerdict(key, code)
	}
	return code, err
}

// reviewRequest asks the API server whose token it is, and whether that user may get the path.
func (g *metricsGuard) reviewRequest(ctx context.Context, r *http.Request, token string) (int, error) {
	t := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}
	if err := g.client.Create(ctx, t); err != nil {
		return http.StatusServiceUnavailable, fmt.Errorf("review a token: %w", err)
	}
	if !t.Status.Authenticated {
		return http.StatusUnauthorized, nil
	}
	user := t.Status.User
	a := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user.Username, UID: user.UID, Groups: user.Groups, Extra: map[string]authorizationv1.ExtraValue{},
		NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: r.URL.Path, Verb: strings.ToLower(r.Method)},
	}}
	for key, values := range user.Extra {
		a.Spec.Extra[key] = authorizationv1.ExtraValue(values)
	}
	if err := g.client.Create(ctx, a); err != nil {
		return http.StatusServiceUnavailable, fmt.Errorf("review the rights of user %s: %w", user.Username, err)
	}
	if !a.Status.Allowed {
		return http.StatusForbidden, nil
	}
	return http.StatusOK, nil
}
