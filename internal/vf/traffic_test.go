package vf

import "testing"

// A counter that is lower than before belongs to another netdevice, so there is no rise to show.
func TestTrafficSince(t *testing.T) {
	before := Traffic{RxBytes: 100, RxPackets: 1, RxDropped: 2, RxErrors: 3, TxBytes: 200, TxPackets: 2, TxDropped: 4, TxErrors: 5}
	now := Traffic{RxBytes: 1100, RxPackets: 11, RxDropped: 3, RxErrors: 5, TxBytes: 2200, TxPackets: 22, TxDropped: 7, TxErrors: 9}
	want := Traffic{RxBytes: 1000, RxPackets: 10, RxDropped: 1, RxErrors: 2, TxBytes: 2000, TxPackets: 20, TxDropped: 3, TxErrors: 4}
	if got, ok := now.Since(before); !ok || got != want {
		t.Errorf("%+v %t, want %+v", got, ok, want)
	}
	if got, ok := before.Since(now); ok || got != (Traffic{}) {
		t.Errorf("a netdevice that was made anew: %+v %t", got, ok)
	}
}
