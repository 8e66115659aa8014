package controller

import (
	"context"
	"errors"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/culvert-net/culvert/internal/vf"
)

// unanswered is an API server that answers no request.
type unanswered struct{ client.Reader }

func (unanswered) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return vf.ErrNotReady
}

func (unanswered) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return vf.ErrNotReady
}

// The controller does not take an API server that does not answer for a cluster without networks and
// pods.
func TestNetworksWithoutAnAnswer(t *testing.T) {
	foreign := &foreignAddresses{live: unanswered{}, now: time.Now}
	_, errPool := foreign.ofPool(t.Context(), "whereabouts:")
	_, errShared := foreign.ofShared(t.Context(), nil, "whereabouts:")
	_, errList := (&sharedCache{}).listWithin(t.Context(), unanswered{}, nil, time.Now(), time.Minute)
	for name, err := range map[string]error{"addresses of pods": errPool, "addresses of a pool": errShared, "networks": errList} {
		if !errors.Is(err, vf.ErrNotReady) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
