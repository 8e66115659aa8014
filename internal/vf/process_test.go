package vf

import "testing"

// The text of a use names the user: a pod, a process, or a part of the host's network.
func TestUseNamesTheUser(t *testing.T) {
	for _, tt := range []struct {
		use  Use
		want string
	}{
		{Use{Pod: "default/a"}, "given by the kubelet to pod default/a"},
		{Use{By: Process{PID: 7, Name: "qemu"}}, "open by qemu (process 7)"},
		{Use{By: Process{}}, "open by a process that culvertd could not find in time"},
		{Use{How: "its interface is in another network namespace"},
			"its interface is in another network namespace"},
	} {
		if got := tt.use.String(); got != tt.want {
			t.Errorf("%+v: %q, want %q", tt.use, got, tt.want)
		}
	}
}
