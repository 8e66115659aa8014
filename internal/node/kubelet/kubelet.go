// Package kubelet asks the node's kubelet which pod has which device. The kubelet chooses
// devices when it admits a pod, and names to its device plugins only the devices; its
// PodResources API, a socket of the node, names the pod. intake/pod asks for one pod's VFs;
// attach asks for the VFs of all pods, so that it leaves them alone.
package kubelet

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/vf"
)

// DefaultSocket is where a kubelet with the root folder /var/lib/kubelet
// serves PodResources.
const DefaultSocket = "/var/lib/kubelet/pod-resources/kubelet.sock"

const (
	// answerBound is how long a kubelet may take. It answers from memory.
	answerBound = 30 * time.Second
	// maxAnswer is the largest answer in bytes that the kubelet's own client allows
	// (k8s.io/kubernetes pkg/kubelet/apis/podresources, defaultPodResourcesMaxSize).
	maxAnswer = 16 << 20
	// retryAfter: the kubelet serves 100 calls a second in bursts of 10 and refuses further calls
	// (pkg/kubelet/apis/podresources/constants.go).
	retryAfter = 50 * time.Millisecond
)

// PodResources is a kubelet's PodResources API. It keeps no connection, since a
// kubelet that starts anew makes another socket. Its methods may be called
// concurrently.
type PodResources struct {
	socket string
}

// New returns the API behind a socket; nothing is asked yet.
func New(socket string) *PodResources { return &PodResources{socket: socket} }

// Devices returns the IDs of the devices that the kubelet gave a pod as a resource (prefix/name), in
// the order of their texts, which for VFs is that of the bus. So every call has the same order. The
// IDs of VFs are PCI addresses; other device plugins may have others. An empty resource stands for
// all.
//
// Errors: vf.ErrNotFound when the pod has none, or the kubelet does not know the pod; vf.ErrNotReady
// when the kubelet does not answer.
func (p *PodResources) Devices(ctx context.Context, podNamespace, podName, resource string) ([]string, error) {
	all, err := p.listPods(ctx)
	if err != nil {
		return nil, fmt.Errorf("devices of pod %s/%s: %w", podNamespace, podName, err)
	}
	var (
		out   []string
		known bool
	)
	for _, pod := range all {
		if pod.GetNamespace() == podNamespace && pod.GetName() == podName {
			known, out = true, append(out, deviceIDs(pod, resource)...)
		}
	}
	switch {
	case !known:
		return nil, fmt.Errorf("pod %s/%s: %w: the kubelet has given it nothing, or does not know it", podNamespace, podName, vf.ErrNotFound)
	case len(out) == 0:
		return nil, fmt.Errorf("pod %s/%s has no device of %s: %w: add it to the limits of one of its containers", podNamespace, podName, resource, vf.ErrNotFound)
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// ClaimedDevices returns the devices of a pod's ResourceClaims. It returns none for a pod that the kubelet
// does not know, and from a kubelet that does not list claims (the feature gate
// KubeletPodResourcesDynamicResources is off). Errors: vf.ErrNotReady when the kubelet does not answer.
func (p *PodResources) ClaimedDevices(ctx context.Context, podNamespace, podName string) (out []api.ClaimedDevice, err error) {
	all, err := p.listPods(ctx)
	if err != nil {
		return nil, fmt.Errorf("claims of pod %s/%s: %w", podNamespace, podName, err)
	}
	for _, pod := range all {
		if pod.GetNamespace() != podNamespace || pod.GetName() != podName {
			continue
		}
		for _, c := range pod.GetContainers() {
			for _, claim := range c.GetDynamicResources() {
				for _, d := range claim.GetClaimResources() {
					out = append(out, api.ClaimedDevice{Claim: claim.GetClaimName(), Driver: d.GetDriverName(), Pool: d.GetPoolName(), Device: d.GetDeviceName()})
				}
			}
		}
	}
	return out, nil
}

// Given returns every PCI device that the kubelet has given to a pod, with the pod's
// namespace/name. On a host that has never had a kubelet (no socket) it returns nil. Errors:
// vf.ErrNotReady when the kubelet does not answer.
func (p *PodResources) Given(ctx context.Context) (map[vf.PCIAddr]string, error) {
	if _, err := os.Stat(p.socket); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	all, err := p.listPods(ctx)
	if err != nil {
		return nil, fmt.Errorf("which VFs the kubelet has given to pods: %w", err)
	}
	out := map[vf.PCIAddr]string{}
	for _, pod := range all {
		for _, id := range deviceIDs(pod, "") {
			if a, err := vf.ParsePCIAddr(id); err == nil { // other plugins have other IDs
				out[a] = pod.GetNamespace() + "/" + pod.GetName()
			}
		}
	}
	return out, nil
}

// Knows reports whether the kubelet has a pod of that name. Errors: vf.ErrNotReady when
// the kubelet does not answer, or there is none.
func (p *PodResources) Knows(ctx context.Context, podNamespace, podName string) (bool, error) {
	all, err := p.listPods(ctx)
	if err != nil {
		return false, fmt.Errorf("pod %s/%s: %w", podNamespace, podName, err)
	}
	return slices.ContainsFunc(all, func(pod *podresources.PodResources) bool {
		return pod.GetNamespace() == podNamespace && pod.GetName() == podName
	}), nil
}

// Claims returns the ResourceClaims of the pods that the kubelet has, as namespace/name. Errors:
// vf.ErrNotReady when the kubelet does not answer, or there is none.
func (p *PodResources) Claims(ctx context.Context) (map[string]bool, error) {
	all, err := p.listPods(ctx)
	if err != nil {
		return nil, fmt.Errorf("which claims the pods of the kubelet have: %w", err)
	}
	out := map[string]bool{}
	for _, pod := range all {
		for _, c := range pod.GetContainers() {
			for _, r := range c.GetDynamicResources() {
				out[r.GetClaimNamespace()+"/"+r.GetClaimName()] = true
			}
		}
	}
	return out, nil
}

// deviceIDs returns the IDs of a pod's devices of a resource; of every one when that
// is empty.
func deviceIDs(pod *podresources.PodResources, resource string) (ids []string) {
	for _, c := range pod.GetContainers() {
		for _, d := range c.GetDevices() {
			if resource == "" || d.GetResourceName() == resource {
				ids = append(ids, d.GetDeviceIds()...)
			}
		}
	}
	return ids
}

func (p *PodResources) listPods(ctx context.Context) (pods []*podresources.PodResources, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerBound)
	defer cancel()
	conn, err := grpc.NewClient("unix:"+p.socket, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxAnswer)))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.socket, err)
	}
	defer conn.Close()
	client := podresources.NewPodResourcesListerClient(conn)
	for {
		answer, err := client.List(ctx, &podresources.ListPodResourcesRequest{})
		if err == nil {
			return answer.GetPodResources(), nil
		}
		if status.Code(err) != codes.ResourceExhausted {
			return nil, fmt.Errorf("the kubelet does not answer on %s: %w: %w: is it running?", p.socket, vf.ErrNotReady, err)
		}
		select {
		case <-time.After(retryAfter):
		case <-ctx.Done():
			return nil, fmt.Errorf("the kubelet refuses to answer on %s, too many ask it: %w: %w", p.socket, vf.ErrNotReady, err)
		}
	}
}
