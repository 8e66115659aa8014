//go:build kubernetes

package kubernetes

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/culvert-net/culvert/lab/demo/requests"
	"github.com/culvert-net/culvert/test/soak"
)

// servicePods makes pods and Services over the network first: a client and two backends on two
// nodes, a pod of another network, and a pod without a network.
func servicePods(t *testing.T) requests.Site {
	t.Helper()
	networks(t)
	built, err := requests.Build(t.Context(), top, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s, err := requests.Install(t.Context(), k8s, built, twoNodes.names...)
	if err != nil {
		t.Fatal(err)
	}
	over := map[string]string{"culvert.dev/network": "first"}
	open := map[string]string{"culvert.dev/network": "first", "culvert.dev/fallback": "default-network"}
	apply(t, s.Client("client", "worker01", "first")+s.Backend("web", "web-a", "worker01", "first")+s.Backend("web", "web-b", "worker02", "first")+
		s.Client("tenant", "worker01", "second")+pod("plain", "worker02", "")+
		s.Service("web", "app", "web", over)+s.Service("far", "pod", "web-b", over)+s.Service("open", "app", "web", open))
	ready(t, "pod", "--all")
	for service, count := range map[string]int{"web": 2, "far": 1, "open": 2} {
		endpointsAre(t, service, count)
	}
	for _, node := range twoNodes.names {
		eventually(t, node+" balances", func() error {
			status := on(t, node, "culvert status")
			if !strings.Contains(status, "3 with 5 backends, balanced for") || !strings.Contains(status, "by eBPF") {
				return fmt.Errorf("status is:\n%s", status)
			}
			return nil
		})
	}
	return s
}

// endpointsAre waits until Culvert's EndpointSlices of a Service have that many endpoints.
func endpointsAre(t *testing.T, service string, count int) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d endpoints of Service %s", count, service), func() error {
		out := kubectl(t, "get", "endpointslices", "--selector", "endpointslice.kubernetes.io/managed-by=culvert.dev,kubernetes.io/service-name="+service,
			"-o", "go-template={{range .items}}{{range .endpoints}}{{if .conditions.ready}}{{index .addresses 0}} {{end}}{{end}}{{end}}")
		if got := strings.Fields(out); len(got) != count {
			return fmt.Errorf("they are %q; the Service has %s", got, kubectl(t, "get", "service", service, "-o", "jsonpath={.status.conditions}"))
		}
		return nil
	})
}

// ask makes requests from a pod, 20 a second.
func ask(t *testing.T, s requests.Site, pod, node, service string, d time.Duration) requests.Log {
	t.Helper()
	l, err := s.Call(t.Context(), pod, node, requests.Call{Target: clusterIP(t, service) + ":80", PerSecond: 20, For: d})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func clusterIP(t *testing.T, service string) string {
	t.Helper()
	return kubectl(t, "get", "service", service, "-o", "jsonpath={.spec.clusterIP}")
}

// packets returns how many packets an interface of a pod has received.
func packets(t *testing.T, pod, iface string) int {
	t.Helper()
	n, err := strconv.Atoi(strings.TrimSpace(kubectl(t, "exec", pod, "--", "cat", "/sys/class/net/"+iface+"/statistics/rx_packets")))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// Connections to a ClusterIP are balanced inside the client pod, over its VF: both backends answer,
// and the overlay carries nothing. A pod of another network (I9), a pod without one and the node
// are refused at once. If the owner of the Service chose the fallback, they reach the pods by
// kube-proxy.
func TestI9ClusterIPOverVFs(t *testing.T) {
	soak.Only(t, "three pods behind a Service; internal/kernel/balance and internal/node/service are tested in make test")
	s := servicePods(t)
	vf, overlay := packets(t, "web-b", "net1"), packets(t, "web-b", "eth0")
	l := ask(t, s, "client", "worker01", "far", 3*time.Second)
	if failed := l.Failed(); len(failed) > 0 || l.Servers()["web-b"] != len(l) {
		t.Errorf("of %d requests to one backend %d failed: %+v", len(l), len(failed), failed)
	}
	vf, overlay = packets(t, "web-b", "net1")-vf, packets(t, "web-b", "eth0")-overlay
	t.Logf("%d requests: web-b received %d packets over its VF and %d over the overlay", len(l), vf, overlay)
	if vf < 4*len(l) || overlay > len(l)/4 {
		t.Errorf("%d requests: web-b received %d packets over its VF and %d over the overlay", len(l), vf, overlay)
	}
	l = ask(t, s, "client", "worker01", "web", 3*time.Second)
	if by := l.Servers(); len(l.Failed()) > 0 || by["web-a"] < len(l)/5 || by["web-b"] < len(l)/5 {
		t.Errorf("of %d requests to two backends %d failed, and they were answered by %v", len(l), len(l.Failed()), by)
	}

	web, open := clusterIP(t, "web"), clusterIP(t, "open")
	const curl = "curl --silent --show-error --max-time 20 --write-out ' in %{time_total} s' http://"
	calls := func(name string) map[string]string {
		return map[string]string{
			"pod tenant":   kubectl(t, "exec", "tenant", "--", "bash", "-c", curl+name+" 2>&1 || true"),
			"pod plain":    kubectl(t, "exec", "plain", "--", "bash", "-c", curl+name+" 2>&1 || true"),
			"the worker02": on(t, "worker02", curl+name+" 2>&1 || true"),
		}
	}
	// kube-proxy of each node gets the Services some time later, and all of them at once.
	eventually(t, "pods and nodes reach a Service with the fallback by kube-proxy", func() error {
		for who, said := range calls(open) {
			if !strings.Contains(said, "web-") {
				return fmt.Errorf("%s: %q", who, said)
			}
		}
		return nil
	})
	for who, said := range calls(web) {
		t.Logf("%s at web: %q", who, said)
		if strings.Contains(said, "web-") || !strings.Contains(said, "Could not connect") && !strings.Contains(said, "refused") {
			t.Errorf("I9: %s at the ClusterIP of another network: %q; want it refused", who, said)
		}
	}
	if l := ask(t, s, "client", "worker01", "open", time.Second); len(l.Failed()) > 0 {
		t.Errorf("with the network, at a Service with the fallback: %+v", l.Failed())
	}
	weighCulvertd(t)
}

// weighCulvertd fails the test if the memory that the kernel charges to culvertd's containers, with
// eBPF maps, comes near the limit of the DaemonSet.
func weighCulvertd(t *testing.T) {
	t.Helper()
	for _, node := range twoNodes.names {
		out := on(t, node, `
			at=/sys/fs/cgroup$(sed -n s/^0:://p /proc/$(pgrep -x culvertd)/cgroup)
			cat $at/memory.current $at/memory.max
			awk '$1 == "percpu" || $1 == "kernel" || $1 == "anon" || $1 == "file" { print $1, $2 }' $at/memory.stat | xargs`)
		var current, limit int
		if _, err := fmt.Sscan(out, &current, &limit); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		t.Logf("on %s culvertd's container has %d MiB of %d: %s", node, current>>20, limit>>20, strings.TrimSpace(out))
		if current > limit*3/4 {
			t.Errorf("on %s culvertd's container has %d MiB of %d", node, current>>20, limit>>20)
		}
	}
}

// Connections are balanced while culvertd is killed, and afterwards follow the changes made
// meanwhile. New connections follow a change of the endpoints at once: here, on a busy machine,
// within a second, by the median. The log has the times. Only changes made while there were
// requests count, which begin and end when the machine has time for them.
func TestClusterIPUnderLoad(t *testing.T) {
	soak.Only(t, "requests for minutes while endpoints change")
	s := servicePods(t)
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	var l requests.Log
	var g errgroup.Group
	g.Go(func() (err error) {
		l, err = s.Call(ctx, "client", "worker01", requests.Call{Target: clusterIP(t, "web") + ":80", PerSecond: 60, For: time.Minute})
		return err
	})
	time.Sleep(5 * time.Second)
	changed := map[time.Time]string{} // when a label was removed or set
	for range 3 {
		for _, change := range []string{"app-", "app=web"} {
			since := time.Now()
			kubectl(t, "label", "pod", "web-b", change)
			at, err := s.EndpointChanged(ctx, "web", since)
			if err != nil {
				t.Fatal(err)
			}
			changed[at] = change
			time.Sleep(time.Second)
		}
	}
	on(t, "worker01", "pkill -KILL -x culvertd")
	kubectl(t, "label", "pod", "web-b", "app-")
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	if failed := l.Failed(); len(failed) > 0 {
		t.Errorf("%d of %d requests failed: %+v", len(failed), len(l), failed)
	}
	t.Logf("%d requests, %.1f a second, answered by %v", len(l), l.PerSecond(), l.Servers())
	order := slices.SortedFunc(maps.Keys(changed), time.Time.Compare)
	var all []time.Duration
	for i, at := range order {
		until := at.Add(10 * time.Second)
		if i+1 < len(order) {
			until = order[i+1]
		}
		if len(l.Between(time.Time{}, at)) == 0 || len(l.After(until)) == 0 {
			t.Logf("%s: there were no requests before and after it", changed[at])
			continue
		}
		follow := followed(l.Between(at, until), at, changed[at])
		t.Logf("%s: new connections follow the endpoint's change after %v", changed[at], follow)
		all = append(all, follow)
	}
	// The machine may be busy with other work during one of the changes.
	if slices.Sort(all); len(all) < 3 || all[len(all)/2] > time.Second {
		t.Errorf("new connections follow changes of the endpoints after %v; want three and more", all)
	}
	eventually(t, "culvertd is back and knows what changed", func() error {
		by := ask(t, s, "client", "worker01", "web", time.Second).Servers()
		if by["web-b"] > 0 {
			return fmt.Errorf("answered by %v", by)
		}
		return nil
	})
	kubectl(t, "-n", "culvert-system", "rollout", "status", "daemonset/culvertd", "--timeout="+soon.String())
}

// followed returns the time from a change to a connection. If web-b has left, this is the last
// connection to web-b; if web-b has joined, the first one.
func followed(l requests.Log, at time.Time, change string) time.Duration {
	if change == "app-" {
		if last := l.LastTo("web-b"); !last.IsZero() {
			return last.Sub(at)
		}
		return 0
	}
	first := time.Hour
	for _, r := range l {
		if r.Server == "web-b" {
			first = min(first, r.At().Sub(at))
		}
	}
	return first
}
