package controller

import (
	"fmt"
	"testing"
	"time"

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

// TestRetries: what fails for hours is tried again within 30 s, and the first retry of another
// request does not wait for it, nor for thousands of others.
func TestRetries(t *testing.T) {
	retries := newRetries()
	long := named([]string{"fails for long"})[0]
	last := time.Duration(0)
	for range 1000 {
		now := retries.When(long)
		if now < last || now > 30*time.Second {
			t.Fatalf("a retry after %s follows one after %s", now, last)
		}
		last = now
	}
	if last < 10*time.Second {
		t.Errorf("after 1,000 failures the next try comes after %s", last)
	}
	for i := range 5000 {
		retries.When(named([]string{fmt.Sprint("of a tenant ", i)})[0])
	}
	if first := retries.When(named([]string{"of another tenant"})[0]); first > time.Second {
		t.Errorf("the first retry comes after %s", first)
	}
}
