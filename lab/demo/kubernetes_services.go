package demo

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/lab/cluster"
	"github.com/culvert-net/culvert/lab/demo/requests"
)

// ServiceResult has the demo's findings about Services over the VF network.
type ServiceResult struct {
	Headless       []netip.Addr `json:"headless"`           // DNS's answer for report R0's Service
	ClusterIPRatio float64      `json:"clusterip_ratio"`    // requests a second by ClusterIP, of those by the pod's own address
	ErrorsOnDelete int          `json:"errors_on_delete"`   // of connections begun later than tolerance after the endpoint became not ready
	EndpointChange float64      `json:"endpoint_change_ms"` // until new connections follow; the median of some changes
	PathProved     bool         `json:"path_proved"`        // the VF counted the requests, and the overlay did not

	Requests     int     `json:"requests"` // made while endpoints changed and one was deleted, a connection for each
	PerSecond    float64 `json:"requests_per_second"`
	Errors       int     `json:"errors"`          // of all of them, ErrorsOnDelete too
	ChangeWorst  float64 `json:"worst_change_ms"` // of the changes
	DeletedAfter float64 `json:"not_ready_ms"`    // from the deletion of the pod until its endpoint was not ready
}

const (
	// tolerance is how long after an endpoint became not ready connections may still go there. On a
	// busy machine it is no failure of the demo until twice the time of the slowest change in the run.
	tolerance = 200 * time.Millisecond
	// load is how many requests a second are made; with fewer than wantLoad the test says little.
	load, wantLoad = 60, 50
	// beforeDelete is how long requests are made before the deletion of a backend, while the
	// endpoint changes: how long a change takes at most decides which failures are excused.
	beforeDelete = 18 * time.Second
)

// services is the part of the demo that shows Services.
type services struct {
	k *kubernetes
}

// showServices ends the story of report R0 in another way than the report: its headless Service
// finds the VF, and a ClusterIP is balanced over VFs while one of its two pods is deleted.
func (v services) showServices(ctx context.Context, hello netip.Addr) error {
	v.k.Step("controller.serviceNetworks: default/sriov-net1, so that report R0's Service is served over it as it stands")
	if _, err := v.k.cluster.Kubectl(ctx, "--namespace", cluster.Namespace, "patch", "deployment", "culvert-controller", "--type=json", "--patch",
		`[{"op": "add", "path": "/spec/template/spec/containers/0/args/-", "value": "--service-networks=default/sriov-net1"}]`); err != nil {
		return err
	}
	if err := v.k.cluster.AwaitCulvert(ctx); err != nil {
		return err
	}
	if err := v.askHeadless(ctx, hello); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "culvert-demo-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	built, err := requests.Build(ctx, v.k.Source, dir)
	if err != nil {
		return err
	}
	site, err := requests.Install(ctx, v.k.cluster, built, v.k.nodes[0].Name, v.k.nodes[1].Name)
	if err != nil {
		return err
	}
	return v.askClusterIP(ctx, site)
}

// askHeadless asks another pod for the Service's address, and has it make requests by name.
func (v services) askHeadless(ctx context.Context, hello netip.Addr) error {
	const name = "hello-world.default.svc.cluster.local"
	err := v.k.await(ctx, "DNS answers the VF's address", func(ctx context.Context) error {
		out, err := v.k.cluster.Kubectl(ctx, "exec", "testpod1", "--", "getent", "ahostsv4", name)
		v.k.found.Service.Headless = nil
		for line := range strings.Lines(string(out)) {
			addr, parseErr := netip.ParseAddr(strings.Fields(line + " -")[0])
			if parseErr == nil && !slices.Contains(v.k.found.Service.Headless, addr) {
				v.k.found.Service.Headless = append(v.k.found.Service.Headless, addr)
			}
		}
		if want := []netip.Addr{hello}; !slices.Equal(v.k.found.Service.Headless, want) {
			return errors.Join(err, fmt.Errorf("it answers %v, and the pod's VF has %v", v.k.found.Service.Headless, want))
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := v.k.tell(ctx, "exec", "testpod1", "--", "getent", "ahostsv4", name); err != nil {
		return err
	}
	const count = 20
	v.k.found.Service.PathProved, err = v.provePath(ctx, "hello-world", func() (int, error) {
		_, err := v.k.cluster.Kubectl(ctx, "exec", "testpod1", "--", "bash", "-euc",
			fmt.Sprintf("for ((i = 0; i < %d; i++)); do curl --silent --fail --max-time 20 http://%s:8080 >/dev/null; done", count, name))
		return count, err
	})
	return err
}

// provePath reports whether a pod's VF counted the requests that do makes, and its overlay interface
// did not.
func (v services) provePath(ctx context.Context, pod string, do func() (count int, err error)) (bool, error) {
	received := func() (over [2]int, err error) {
		for i, name := range []string{"net1", "eth0"} {
			out, err := v.k.cluster.Kubectl(ctx, "exec", pod, "--", "cat", "/sys/class/net/"+name+"/statistics/rx_packets")
			if err == nil {
				over[i], err = strconv.Atoi(strings.TrimSpace(string(out)))
			}
			if err != nil {
				return over, err
			}
		}
		return over, nil
	}
	count := 0
	before, err := received()
	if err == nil {
		count, err = do()
	}
	if err != nil {
		return false, err
	}
	after, err := received()
	vf, overlay := after[0]-before[0], after[1]-before[1]
	fmt.Fprintf(v.k.Steps, "         %d requests: %s received %d packets over its VF, and %d over the overlay\n", count, pod, vf, overlay)
	proved := vf >= 4*count && overlay < count/2 // a connection has at least four packets each way
	if !proved {
		v.k.noteProblem("%d requests to pod %s went over its VF with %d packets, and over the overlay with %d", count, pod, vf, overlay)
	}
	return proved, err
}

// askClusterIP makes requests by a ClusterIP with two backends while its endpoints change and one
// of them is deleted, and compares the ClusterIP with the address of the remaining one.
func (v services) askClusterIP(ctx context.Context, s requests.Site) error {
	v.k.Step("a ClusterIP with two backends over sriov-net1: %d requests a second, a connection for each, while one backend is deleted", load)
	near, far := v.k.nodes[0].Name, v.k.nodes[1].Name
	objects := s.Client("asker", near, "sriov-net1") + s.Backend("web", "web-a", near, "sriov-net1") + s.Backend("web", "web-b", far, "sriov-net1") +
		s.Service("web", "app", "web", map[string]string{"culvert.dev/network": "sriov-net1"})
	if _, err := v.k.cluster.KubectlIn(ctx, strings.NewReader(objects), "apply", "-f", "-"); err != nil {
		return err
	}
	if _, err := v.k.cluster.Kubectl(ctx, "wait", "--for=condition=Ready", "pod", "asker", "web-a", "web-b", "--timeout="+patience.String()); err != nil {
		return err
	}
	ip, err := v.k.cluster.Kubectl(ctx, "get", "service", "web", "--output", "jsonpath={.spec.clusterIP}")
	if err != nil {
		return err
	}
	target := string(ip) + ":80"
	err = v.k.await(ctx, "both backends answer", func(ctx context.Context) error {
		l, err := s.Call(ctx, "asker", near, requests.Call{Target: target, PerSecond: 20, For: time.Second})
		if err == nil && (len(l.Failed()) > 0 || len(l.Servers()) != 2) {
			return fmt.Errorf("%d of %d requests failed, the others were answered by %v", len(l.Failed()), len(l), l.Servers())
		}
		return err
	})
	if err != nil {
		return err
	}
	if err := v.k.tell(ctx, "describe", "service", "web"); err != nil {
		return err
	}
	if err := v.loseBackend(ctx, s, target); err != nil {
		return err
	}
	if err := v.compareClusterIP(ctx, s, target); err != nil {
		return err
	}
	_, err = v.k.cluster.KubectlIn(ctx, strings.NewReader(objects), "delete", "--ignore-not-found", "--wait", "-f", "-")
	return err
}

// loseBackend makes requests while a backend leaves the Service and joins it by its label, and is
// then deleted.
func (v services) loseBackend(ctx context.Context, s requests.Site, target string) error {
	var all requests.Log
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() (err error) {
		all, err = s.Call(gctx, "asker", v.k.nodes[0].Name, requests.Call{Target: target, PerSecond: load, For: beforeDelete + v.k.effort().afterDelete})
		return err
	})
	begun := time.Now()
	var left []time.Time // when web-b was no endpoint any more
	var gone time.Time
	g.Go(func() error {
		for time.Since(begun) < beforeDelete-5*time.Second {
			for _, label := range []string{"app-", "app=web"} {
				at, err := v.changeEndpoint(gctx, s, "label", "pod", "web-b", label)
				if err != nil {
					return err
				}
				if label == "app-" {
					left = append(left, at)
				}
			}
		}
		since := time.Now()
		var err error
		gone, err = v.changeEndpoint(gctx, s, "delete", "pod", "web-b", "--wait=false")
		v.k.found.Service.DeletedAfter = milliseconds(gone.Sub(since))
		return err
	})
	if err := g.Wait(); err != nil {
		return err
	}
	v.judgeLoad(all, left, gone)
	return nil
}

// changeEndpoint runs kubectl and returns when the controller then changed the Service's
// EndpointSlices. It leaves time for requests after that.
func (v services) changeEndpoint(ctx context.Context, s requests.Site, args ...string) (time.Time, error) {
	since := time.Now()
	if _, err := v.k.cluster.Kubectl(ctx, args...); err != nil {
		return time.Time{}, err
	}
	at, err := s.EndpointChanged(ctx, "web", since)
	if err != nil {
		return at, err
	}
	select {
	case <-ctx.Done():
		return at, context.Cause(ctx)
	case <-time.After(time.Second):
		return at, nil
	}
}

// judgeLoad reads from the log of requests how fast connections followed changes, and what failed.
func (v services) judgeLoad(all requests.Log, left []time.Time, gone time.Time) {
	r := &v.k.found.Service
	r.Requests, r.PerSecond, r.Errors = len(all), all.PerSecond(), len(all.Failed())
	var follow []float64
	for _, at := range left {
		last := all.Between(at, at.Add(time.Second)).LastTo("web-b")
		follow = append(follow, max(milliseconds(last.Sub(at)), 0))
	}
	if len(follow) > 0 {
		r.EndpointChange, r.ChangeWorst = bench.Median(follow), slices.Max(follow)
	}
	r.ErrorsOnDelete = len(all.After(gone.Add(tolerance)).Failed())
	late := all.After(gone.Add(r.excused())).Failed()
	fmt.Fprintf(v.k.Steps, "         %d requests, %.0f a second, answered by %v; %d failed, %d of them begun more than %s after the endpoint became not ready\n",
		r.Requests, r.PerSecond, all.Servers(), r.Errors, r.ErrorsOnDelete, tolerance)
	early := slices.DeleteFunc(all.Failed(), func(one requests.Request) bool { return !one.End().Before(gone.Add(-r.untilNotReady())) })
	if len(early) > 0 {
		v.k.noteProblem("%d requests by ClusterIP failed before a backend was deleted: %+v", len(early), early[0])
	}
	if len(late) > 0 {
		v.k.noteProblem("%d requests by ClusterIP failed that began more than %s after the deleted endpoint became not ready: %+v", len(late), r.excused(), late[0])
	}
	if r.PerSecond < wantLoad {
		fmt.Fprintf(v.k.Steps, "         this machine makes fewer than %d requests a second: run the demo without other load\n", wantLoad)
	}
}

// excused returns for how long after an endpoint became not ready a failed connection is no failure
// of the demo.
func (r ServiceResult) excused() time.Duration {
	return max(tolerance, time.Duration(2*r.ChangeWorst*float64(time.Millisecond)).Round(time.Millisecond))
}

// untilNotReady returns DeletedAfter as a duration.
func (r ServiceResult) untilNotReady() time.Duration {
	return time.Duration(r.DeletedAfter * float64(time.Millisecond))
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// compareClusterIP compares requests by ClusterIP with those to the pod's own VF address, in turns.
func (v services) compareClusterIP(ctx context.Context, s requests.Site, target string) error {
	_, addresses, err := v.k.addresses(ctx, "--selector", "pod=web-a")
	if err != nil {
		return err
	}
	if len(addresses["web-a"]) != 1 {
		return fmt.Errorf("pod web-a has the addresses %v, want one", addresses["web-a"])
	}
	own := netip.AddrPortFrom(addresses["web-a"][0], requests.Port).String()
	rates, err := s.Compare(ctx, "asker", requests.Compare{Targets: []string{target, own}, Rounds: v.k.effort().targetRounds, For: 2 * time.Second})
	if err != nil {
		return err
	}
	var ratios []float64
	for _, round := range rates {
		if len(round) != 2 || round[1] == 0 {
			return fmt.Errorf("a round of requests to %s and %s has the rates %v", target, own, round)
		}
		ratios = append(ratios, round[0]/round[1])
	}
	v.k.found.Service.ClusterIPRatio = bench.Median(ratios)
	fmt.Fprintf(v.k.Steps, "         by ClusterIP %.2f times the requests a second of the pod's own address: %.2f\n", v.k.found.Service.ClusterIPRatio, ratios)
	proved, err := v.provePath(ctx, "web-a", func() (int, error) {
		l, err := s.Call(ctx, "asker", v.k.nodes[0].Name, requests.Call{Target: target, PerSecond: load, For: 2 * time.Second})
		return len(l), err
	})
	v.k.found.Service.PathProved = v.k.found.Service.PathProved && proved
	return err
}

// text returns the lines of the report.
func (r ServiceResult) text() string {
	return fmt.Sprintf("Service headless: DNS answers %v\n"+
		"        ClusterIP: %.2f times the requests a second of the pod's own address\n"+
		"        %d requests, %.0f a second, as a backend was deleted: %d failed, %d later than %s after it\n"+
		"        was not ready. New connections follow an endpoint's change after %.0f ms (median; worst %.0f)\n",
		r.Headless, r.ClusterIPRatio, r.Requests, r.PerSecond, r.Errors, r.ErrorsOnDelete, tolerance, r.EndpointChange, r.ChangeWorst)
}
