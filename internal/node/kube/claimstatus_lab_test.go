//go:build lab

package kube

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/test/apiserver"
)

// On a real API server, Culvert's entries come and go beside those of another driver, and a claim of another
// UID stays as it is.
func TestClaimStatusOnARealAPIServer(t *testing.T) {
	r := apiserver.New(t)
	const claims = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
	apiserver.Eventually(t, "namespace", func() error { return r.Do(http.MethodGet, "/api/v1/namespaces/default", "", nil) })
	const request = `{"name":"%s","exactly":{"deviceClassName":"x","allocationMode":"ExactCount","count":1}}`
	r.Must(http.MethodPost, claims, `{"apiVersion":"resource.k8s.io/v1","kind":"ResourceClaim","metadata":{"name":"c"},"spec":{"devices":{"requests":[`+
		fmt.Sprintf(request, "vf")+","+fmt.Sprintf(request, "gpu")+`]}}}`)
	var got struct {
		Metadata struct{ UID, ResourceVersion string }
		Status   struct {
			Devices []struct {
				Driver, Device string
				NetworkData    struct{ InterfaceName string }
			}
		}
	}
	r.Must(http.MethodGet, claims+"/c", "")
	if err := r.Do(http.MethodGet, claims+"/c", "", &got); err != nil {
		t.Fatal(err)
	}
	r.Must(http.MethodPut, claims+"/c/status", fmt.Sprintf(`{"apiVersion":"resource.k8s.io/v1","kind":"ResourceClaim","metadata":{"name":"c","namespace":"default","resourceVersion":%q},
		"status":{"allocation":{"devices":{"results":[{"request":"vf","driver":"culvert.dev","pool":"n1/a","device":"vf-3"},{"request":"gpu","driver":"gpu.example.com","pool":"g","device":"gpu-0"}]}},
		"devices":[{"driver":"gpu.example.com","pool":"g","device":"gpu-0"}]}}`, got.Metadata.ResourceVersion))
	c, err := New(r.Config(), "n1", slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug})))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	defer func() { stop(); <-done }()
	devices := []api.ClaimDevice{{Pool: "n1/a", Device: "vf-3", Ready: true, Reason: "Attached", Since: time.Now(), Interface: "net1", MAC: "02:00:00:00:00:01", Addresses: []string{"10.9.0.2/24"}}}
	claim := api.ResourceClaim{Namespace: "default", Name: "c", UID: got.Metadata.UID}
	wait := func(what string, want ...string) {
		apiserver.Eventually(t, what, func() error {
			got.Status.Devices = nil
			if err := r.Do(http.MethodGet, claims+"/c", "", &got); err != nil {
				return err
			}
			var have []string
			for _, d := range got.Status.Devices {
				have = append(have, d.Driver+" "+d.NetworkData.InterfaceName)
			}
			slices.Sort(have)
			if !slices.Equal(have, want) {
				return fmt.Errorf("the claim has %q", have)
			}
			return nil
		})
	}
	c.SetClaimDevices(api.ResourceClaim{Namespace: "default", Name: "c", UID: "00000000-0000-0000-0000-000000000000"}, []api.ClaimDevice{{Pool: "n1/a", Device: "vf-3", Reason: "Attached", Since: time.Now(), Interface: "wrong"}})
	c.SetClaimDevices(claim, devices)
	wait("the entry", "culvert.dev net1", "gpu.example.com ")
	c.SetClaimDevices(claim, nil)
	wait("the end of the entry", "gpu.example.com ")
}
