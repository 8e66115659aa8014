package main

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/rpc"
	"github.com/culvert-net/culvert/internal/vf"
	"github.com/culvert-net/culvert/test/rpcserver"
)

// culvert vf top shows what the VFs received and sent between two statuses, the loudest first.
func TestVFTop(t *testing.T) {
	start, asked := time.Now(), uint64(0)
	socket := rpcserver.Socket(t)
	rpcserver.Serve(t, socket, func(srv *rpc.Server) {
		srv.Handle(api.MethodStatus, func(context.Context, json.RawMessage) (any, error) {
			asked++
			v := func(index int, pf, owner string, rx uint64) api.VF {
				return api.VF{Name: pf + "#0", ID: vf.ID{Index: index}, PF: pf, Owner: &vf.Owner{Kind: vf.OwnerPod, Name: owner}, Traffic: &vf.Traffic{RxBytes: asked * rx}}
			}
			return api.NodeStatus{
				Time: start.Add(time.Duration(asked) * time.Second), PFs: []api.PF{{PF: vf.PF{Name: "enp1s0"}}, {PF: vf.PF{Name: "enp2s0"}}},
				VFs: []api.VF{v(0, "enp1s0", "default/quiet", 125), v(1, "enp2s0", "default/loud", 125e6)},
			}, nil
		})
	})
	for _, tt := range []struct{ args, want, failed string }{
		{"", "VF        OWNER              NETWORK  RECEIVES  SENDS  PACKETS/S  DROPS/S\n" +
			"enp2s0#0  pod default/loud   -        1.00 Gb/s  0 b/s          0        0\n" +
			"enp1s0#0  pod default/quiet  -        1.00 kb/s  0 b/s          0        0\n", ""},
		{"--pf enp1s0 -o json", "", ""},
		{"--for 5h", "", `--for "5h": want a time from 100ms to 1h`},
		{"--cluster", "", "culvert vf top works on this node alone"},
		{"--owner default/other", "No VF is in use.", ""},
	} {
		out, err := run(t.Context(), t, socket, append([]string{"vf", "top", "--for", "100ms"}, strings.Fields(tt.args)...)...)
		if (tt.failed == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), tt.failed) {
			t.Errorf("%s: %v, want %q", tt.args, err, tt.failed)
		}
		if squeeze := func(s string) string { return strings.Join(strings.Fields(s), " ") }; tt.want != "" && squeeze(out) != squeeze(tt.want) {
			t.Errorf("%s:\n%s\nwant:\n%s", tt.args, out, tt.want)
		}
		if tt.args != "--pf enp1s0 -o json" {
			continue
		}
		var flows []api.VFFlow
		if err := json.Unmarshal([]byte(out), &flows); err != nil || len(flows) != 1 || flows[0].Owner.Name != "default/quiet" || flows[0].Seconds != 1 || flows[0].Rx.Bits != 1000 {
			t.Errorf("%v: %s", err, out)
		}
	}
}
