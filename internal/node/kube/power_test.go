package kube

import (
	"encoding/json"
	"testing"

	"github.com/culvert-net/culvert/internal/vf"
)

// The most powerful container of a pod counts, and NET_RAW is there unless it is dropped.
func TestPower(t *testing.T) {
	const none = `{"securityContext":{"capabilities":{"drop":["ALL"]}}}`
	for spec, want := range map[string]vf.Power{
		`{}`:                            "",
		`{"containers":[{"name":"c"}]}`: vf.PowerRaw,
		`{"containers":[` + none + `]}`: vf.PowerNone,
		`{"containers":[{"securityContext":{"capabilities":{"drop":["NET_RAW"]}}}]}`:                               vf.PowerNone,
		`{"containers":[{"securityContext":{"capabilities":{"drop":["cap_net_raw"]}}}]}`:                           vf.PowerNone,
		`{"containers":[{"securityContext":{"capabilities":{"drop":["CHOWN"]}}}]}`:                                 vf.PowerRaw,
		`{"containers":[` + none + `,{"name":"b"}]}`:                                                               vf.PowerRaw,
		`{"containers":[` + none + `],"initContainers":[{}]}`:                                                      vf.PowerRaw,
		`{"containers":[` + none + `],"ephemeralContainers":[{}]}`:                                                 vf.PowerRaw,
		`{"containers":[{"securityContext":{"capabilities":{"drop":["ALL"],"add":["NET_RAW"]}}}]}`:                 vf.PowerRaw,
		`{"containers":[{"securityContext":{"capabilities":{"drop":["ALL"],"add":["CAP_NET_ADMIN"]}}},{}]}`:        vf.PowerAdmin,
		`{"containers":[{},{"securityContext":{"capabilities":{"drop":["ALL"],"add":["SYS_ADMIN"]}}}]}`:            vf.PowerAdmin,
		`{"containers":[` + none + `],"initContainers":[{"securityContext":{"privileged":true}}]}`:                 vf.PowerAdmin,
		`{"containers":[{"securityContext":{"capabilities":{"add":["ALL"]}}}]}`:                                    vf.PowerAdmin,
		`{"containers":[{"securityContext":{"capabilities":{"add":["NET_BIND_SERVICE"],"drop":["ALL"]}}},{}, {}]}`: vf.PowerRaw,
	} {
		var p pod
		if err := json.Unmarshal([]byte(`{"metadata":{"name":"a"},"spec":`+spec+`}`), &p); err != nil {
			t.Fatal(err)
		}
		lean, err := stripObject(&p)
		if err != nil {
			t.Fatal(err)
		}
		if got := podOf(lean.(*pod).DeepCopyObject().(*pod)).Power; got != want {
			t.Errorf("%s: %q, not %q", spec, got, want)
		}
	}
}
