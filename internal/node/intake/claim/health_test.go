package claim_test

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/encoding/protowire"
	healthpb "k8s.io/kubelet/pkg/apis/dra-health/v1alpha1"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/culvert-net/culvert/internal/node/offer"
	"github.com/culvert-net/culvert/internal/vf"
)

// watchHealth opens the stream of a version of the service.
func watchHealth(t *testing.T, conn *grpc.ClientConn, service string) func() *healthpb.NodeWatchResourcesResponse {
	t.Helper()
	s, err := conn.NewStream(t.Context(), &healthpb.DRAResourceHealth_ServiceDesc.Streams[0], "/"+service+"/NodeWatchResources", grpc.WaitForReady(true))
	if err != nil {
		t.Fatal(err)
	}
	stream := &grpc.GenericClientStream[healthpb.NodeWatchResourcesRequest, healthpb.NodeWatchResourcesResponse]{ClientStream: s}
	if err := stream.SendMsg(&healthpb.NodeWatchResourcesRequest{}); err != nil {
		t.Fatal(err)
	}
	return func() *healthpb.NodeWatchResourcesResponse {
		t.Helper()
		m, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
}

// messageOf returns the message of a device, a field of v1.
func messageOf(d *healthpb.DeviceHealth) string {
	number, _, tag := protowire.ConsumeTag(d.ProtoReflect().GetUnknown())
	if number != 5 {
		return ""
	}
	text, _ := protowire.ConsumeString(d.ProtoReflect().GetUnknown()[tag:])
	return text
}

// The kubelet gets the health of the devices in both versions: at once, and after each change. It names
// both versions at the registration. A stream ends with culvertd.
func TestHealthStream(t *testing.T) {
	h := newHost(t)
	ctx, stop := context.WithCancel(t.Context())
	var g errgroup.Group
	g.Go(func() error { return h.driver.Run(ctx) })
	conn, err := grpc.NewClient("unix:"+filepath.Join(h.dir, "plugins_registry", "culvert.dev-reg.sock"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	info, err := registerapi.NewRegistrationClient(conn).GetInfo(t.Context(), &registerapi.InfoRequest{}, grpc.WaitForReady(true))
	if err != nil {
		t.Fatal(err)
	}
	var next []func() *healthpb.NodeWatchResourcesResponse
	for _, service := range []string{"v1.DRAResourceHealth", "v1alpha1.DRAResourceHealth"} {
		if !slices.Contains(info.SupportedVersions, service) {
			t.Errorf("the registration has %q", info.SupportedVersions)
		}
		next = append(next, watchHealth(t, conn, service))
	}
	pf := h.node.Inventory.PFs()[0]
	view := func(pf vf.PF) offer.View {
		return offer.View{VFs: []offer.VF{{PF: &pf, State: pf.VFs[0], IsClaimed: true}, {State: pf.VFs[1], IsClaimed: true}}}
	}
	pf.Up, pf.Carrier = true, true
	lost := pf
	lost.Carrier, lost.Faults = false, []vf.Fault{vf.FaultPCIe}
	for _, step := range []struct {
		pf   vf.PF
		want healthpb.HealthStatus
		text []string
	}{
		{pf, healthpb.HealthStatus_HEALTHY, nil},
		{lost, healthpb.HealthStatus_UNHEALTHY, []string{"has no link", "PCIe"}},
		{pf, healthpb.HealthStatus_HEALTHY, nil},
	} {
		h.driver.ShowHealth(view(step.pf))
		h.driver.ShowHealth(view(step.pf)) // no change
		for _, recv := range next {
			got := recv().Devices
			if len(got) != 1 || got[0].Device.PoolName != h.pool() || got[0].Device.DeviceName != "vf-0" || got[0].Health != step.want || got[0].LastUpdatedTime == 0 {
				t.Fatalf("health %v", got)
			}
			text := messageOf(got[0])
			if (text == "") != (step.text == nil) {
				t.Errorf("message %q", text)
			}
			for _, word := range step.text {
				if !strings.Contains(text, word) {
					t.Errorf("message %q, want %q", text, step.text)
				}
			}
		}
	}
	stop()
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
}
