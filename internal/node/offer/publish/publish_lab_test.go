//go:build lab

package publish_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	resourcev1 "k8s.io/api/resource/v1"

	"github.com/culvert-net/culvert/internal/node/desired"
	"github.com/culvert-net/culvert/internal/node/kube"
	"github.com/culvert-net/culvert/internal/node/offer"
	"github.com/culvert-net/culvert/internal/node/offer/publish"
	"github.com/culvert-net/culvert/internal/vf"
	"github.com/culvert-net/culvert/test/apiserver"
)

// offering is a culvertd that publishes, as far as slices are concerned.
type offering struct {
	*publish.Publisher
	writes atomic.Int64
	stop   func()
}

func startOffering(t *testing.T, server *apiserver.Server) *offering {
	t.Helper()
	o := &offering{}
	config := server.Config()
	kube.CountRequests(config, func(verb, resource, _ string) {
		if resource == "resourceslices" && verb != "list" && verb != "watch" && verb != "get" {
			o.writes.Add(1)
		}
	})
	client, err := kube.New(config, "n1", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	o.Publisher = publish.New("n1", client.Slices, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(context.Background())
	var g errgroup.Group
	g.Go(func() error { return client.Run(ctx) })
	g.Go(func() error { o.Run(ctx); return nil })
	o.stop = func() { cancel(); _ = g.Wait() }
	return o
}

// sixteen returns a view of 16 PFs with 16 VFs each, of which the first is free or not.
func sixteen(t *testing.T, first bool) offer.View {
	t.Helper()
	spec, err := desired.Parse("host.yaml", []byte("pfs: [{name: '*', vfs: max, segment: storage}]\npools: [{name: sriov, offer: claims}]"))
	if err != nil {
		t.Fatal(err)
	}
	v := offer.View{Spec: spec}
	for i := range 256 {
		pf := &vf.PF{Name: fmt.Sprintf("enp%ds0f0np0", i/16), ID: vf.PFID{MAC: vf.MAC{2, 0, 0, 0, 0, byte(i / 16)}}, PCI: vf.PCIAddr{Bus: uint8(i / 16)}, PCIeRoot: "pci0000:00",
			NUMA: 1, Up: true, Carrier: true, SpeedMbps: 100000, MTU: 9000, Abilities: vf.Abilities{vf.SetVLAN: vf.Yes, vf.SetTrust: vf.Yes}}
		v.VFs = append(v.VFs, offer.VF{PF: pf, IsFree: i > 0 || first, State: vf.State{
			ID: vf.ID{PF: pf.ID, Index: i % 16}, PCI: vf.PCIAddr{Bus: uint8(i / 16), Device: uint8(1 + i%16/8), Function: uint8(i % 8)}, NUMA: 1,
			Vendor: "15b3", Device: "101e", Driver: "mlx5_core", RDMA: &vf.RDMA{Device: fmt.Sprintf("mlx5_%d", i)},
		}})
	}
	return v
}

// awaitDevices waits until the slices have so many devices, and returns the bytes of these in JSON.
func awaitDevices(t *testing.T, server *apiserver.Server, want int) (size int) {
	t.Helper()
	apiserver.Eventually(t, fmt.Sprintf("%d devices", want), func() error {
		var l resourcev1.ResourceSliceList
		if err := server.Do(http.MethodGet, "/apis/resource.k8s.io/v1/resourceslices", "", &l); err != nil {
			return err
		}
		count := 0
		size = 0
		for _, s := range l.Items {
			count += len(s.Spec.Devices)
			text, err := json.Marshal(s.Spec.Devices)
			if err != nil {
				return err
			}
			size += len(text)
		}
		if count != want {
			return fmt.Errorf("there are %d in %d slices", count, len(l.Items))
		}
		return nil
	})
	return size
}

// A node with 256 VFs on 16 PFs writes one slice for one VF, also after a restart of culvertd, and makes
// slices again that the kubelet deleted while culvertd was away. The test prints the time from the
// change to the API server's answer, and the bytes of a VF.
func TestOneVFIsOneWrite(t *testing.T) {
	server := apiserver.New(t)
	server.Must(http.MethodPost, "/api/v1/nodes", `{apiVersion: v1, kind: Node, metadata: {name: n1}}`)
	o := startOffering(t, server)
	o.Show(sixteen(t, true))
	size := awaitDevices(t, server, 256)
	expect := func(what string, want int64) {
		t.Helper()
		if got := o.writes.Swap(0); got != want {
			t.Errorf("%s: %d writes, want %d", what, got, want)
		}
	}
	expect("all VFs", 16)
	begin := time.Now()
	o.Show(sixteen(t, false))
	awaitDevices(t, server, 255)
	took := time.Since(begin)
	expect("a VF is not free any more", 1)
	t.Logf("256 VFs on 16 PFs: %d bytes/VF, one VF: 1 write, seen after %d ms", size/256, took.Milliseconds())
	o.stop()

	o = startOffering(t, server)
	o.Show(sixteen(t, true))
	awaitDevices(t, server, 256)
	expect("after a restart", 1)
	o.stop()

	var l resourcev1.ResourceSliceList
	if err := server.Do(http.MethodGet, "/apis/resource.k8s.io/v1/resourceslices", "", &l); err != nil {
		t.Fatal(err)
	}
	for _, s := range l.Items { // as the kubelet does
		server.Must(http.MethodDelete, "/apis/resource.k8s.io/v1/resourceslices/"+s.Name, "")
	}
	o = startOffering(t, server)
	defer func() { o.stop() }()
	o.Show(sixteen(t, true))
	awaitDevices(t, server, 256)
	expect("after the kubelet deleted the slices", 16)
	if p := o.Problems(); len(p) != 0 {
		t.Errorf("problems %+v", p)
	}
}
