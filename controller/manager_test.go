package controller

import (
	"testing"

	"k8s.io/client-go/rest"
)

// The controller may send 200 requests a second where the connection names no rate: by the rate of
// client-go the EndpointSlices of 1,000 Services take minutes. A rate that the connection names
// stays.
func TestRateOfRequests(t *testing.T) {
	for _, tc := range []struct {
		given, want      float32
		burst, wantBurst int
	}{{0, 200, 0, 400}, {5, 5, 10, 10}, {-1, -1, 0, 0}} {
		config := &rest.Config{Host: "https://10.0.0.1", QPS: tc.given, Burst: tc.burst}
		got := withRate(config)
		if got.QPS != tc.want || got.Burst != tc.wantBurst || got.Host != config.Host {
			t.Errorf("rate %v of %s is %v, burst %d, want %v, %d", tc.given, got.Host, got.QPS, got.Burst, tc.want, tc.wantBurst)
		}
		if config.QPS != tc.given || config.Burst != tc.burst {
			t.Errorf("the caller's connection has another rate: %+v", config)
		}
	}
}
