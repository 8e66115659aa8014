package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	bolt "go.etcd.io/bbolt"
	"golang.org/x/sync/errgroup"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/rpc"
)

// The objects that tenants of the attacked cluster wrote: networks of each size, and pods
// that name one of them 64 times, the most that culvertd accepts. More pods take almost all VFs of the
// node, by networks whose leases keep the most (network/config.Config.Kept).
const (
	hugeNetworks   = 40
	largeNetworks  = 400 // each as large as culvertd accepts
	attackingPods  = 24
	networksOfAPod = 64
	leasingPods    = 24
	vfsOfAPod      = 10
)

// networkConfig is the configuration of a network, by its name: of VFs, or of another plugin.
func networkConfig(name string) string {
	if name[0] == 'v' {
		return fmt.Sprintf(`{"cniVersion":"1.0.0","type":"culvert","name":%q,"pool":"bench.dev/fast","ipam":{"type":"dhcp","x":%q}}`, name, strings.Repeat("x", 3900))
	}
	size := map[byte]int{'h': 1200 << 10, 'l': 60 << 10, 's': 2 << 10}[name[0]]
	return fmt.Sprintf(`{"cniVersion":"1.0.0","type":"bridge","name":%q,"x":%q}`, name, strings.Repeat("x", size))
}

// podNetworks returns the annotation of a pod. Each third of the pods names networks of one
// size.
func podNetworks(pod int) string {
	if pod >= attackingPods {
		return strings.TrimSuffix(strings.Repeat(fmt.Sprintf("d/v%d,", pod), vfsOfAPod), ",")
	}
	name := fmt.Sprintf("%c%d", "hls"[pod%3], pod%hugeNetworks)
	return strings.TrimSuffix(strings.Repeat("d/"+name+",", networksOfAPod), ",")
}

// attackedCluster is an API server that lists the objects of the tenants. They never
// change.
type attackedCluster struct {
	reads atomic.Int64
}

func (a *attackedCluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	path := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	last := path[len(path)-1]
	switch isPods, isNetworks := strings.Contains(r.URL.Path, "/pods"), strings.Contains(r.URL.Path, "/network-attachment-definitions"); {
	case r.Method != http.MethodGet:
		fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Success"}`)
	case r.URL.Query().Get("watch") != "":
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	case last == "pods":
		writeList(w, "v1", "PodList", func(item func(any)) {
			for i := range attackingPods + leasingPods {
				item(attackingPod(i))
			}
		})
	case last == "network-attachment-definitions":
		writeList(w, "k8s.cni.cncf.io/v1", "NetworkAttachmentDefinitionList", func(item func(any)) {
			for i := range hugeNetworks {
				item(definition(fmt.Sprint("h", i)))
			}
			for i := range largeNetworks {
				item(definition(fmt.Sprint("l", i)))
			}
			for i := range hugeNetworks {
				item(definition(fmt.Sprint("s", i)))
			}
			for i := range leasingPods {
				item(definition(fmt.Sprint("v", attackingPods+i)))
			}
		})
	case isPods:
		a.reads.Add(1)
		var i int
		_, _ = fmt.Sscanf(last, "p%d", &i)
		_ = json.NewEncoder(w).Encode(attackingPod(i))
	case isNetworks:
		a.reads.Add(1)
		_ = json.NewEncoder(w).Encode(definition(last))
	default:
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`)
	}
}

// writeList writes a list item by item.
func writeList(w http.ResponseWriter, version, kind string, items func(item func(any))) {
	fmt.Fprintf(w, `{"apiVersion":%q,"kind":%q,"metadata":{"resourceVersion":"1"},"items":[`, version, kind)
	between := ""
	items(func(item any) {
		fmt.Fprint(w, between)
		_ = json.NewEncoder(w).Encode(item)
		between = ","
	})
	fmt.Fprint(w, "]}")
}

type fields = map[string]any

func attackingPod(i int) any {
	return fields{
		"apiVersion": "v1", "kind": "Pod", "spec": fields{"nodeName": "n1"},
		"metadata": fields{"namespace": "d", "name": fmt.Sprint("p", i), "uid": fmt.Sprint("u", i), "resourceVersion": "1", "annotations": fields{
			"k8s.v1.cni.cncf.io/networks":       podNetworks(i),
			"k8s.v1.cni.cncf.io/network-status": strings.Repeat("x", 200<<10),
		}},
	}
}

func definition(name string) any {
	return fields{
		"apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition", "spec": fields{"config": networkConfig(name)},
		"metadata": fields{"namespace": "d", "name": name, "resourceVersion": "1"},
	}
}

// attack is one CNI invocation for a pod, by a shim whose plugins always succeed.
func attack(socket, command string, pod int) error {
	id := fmt.Sprint("attack-", pod)
	r := api.CNIRequest{
		Command: command, ContainerID: id, IfName: "eth0", Netns: fmt.Sprintf("/run/netns/pod-%d", pod), Path: "/opt/cni/bin",
		Args:   fmt.Sprintf("IgnoreUnknown=1;K8S_POD_NAMESPACE=d;K8S_POD_NAME=p%d;K8S_POD_INFRA_CONTAINER_ID=%s;K8S_POD_UID=u%d", pod, id, pod),
		Config: []byte(`{"cniVersion":"1.0.0","name":"culvert","type":"culvert","podNetworks":true}`),
	}
	var resp api.CNIResponse
	err := rpc.Converse(context.Background(), socket, api.MethodCNI, r, &resp, func(_ context.Context, _ string, raw json.RawMessage) (any, error) {
		var p api.PluginRequest
		err := json.Unmarshal(raw, &p)
		if p.Type == "dhcp" {
			return api.PluginResponse{Stdout: fmt.Appendf(nil, `{"cniVersion":"1.0.0","ips":[{"address":"10.%d.%s.1/8"}]}`, pod, strings.TrimPrefix(p.Call.IfName, "net"))}, err
		}
		return api.PluginResponse{Stdout: fmt.Appendf(nil, `{"cniVersion":"1.0.0","interfaces":[{"name":%q,"sandbox":%q}]}`, p.Call.IfName, p.Call.Netns)}, err
	})
	if err == nil && resp.Exit != 0 {
		err = fmt.Errorf("%s", resp.Stdout)
	}
	return err
}

// bloatLedger makes a ledger of 300 MiB that is mostly free.
func bloatLedger(t *testing.T, path string) {
	t.Helper()
	l, err := journal.Open(path, journal.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	db, err := bolt.Open(path, 0o600, &bolt.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	pieces := func(change func(b *bolt.Bucket, key []byte) error) {
		for i := range 300 {
			err = errors.Join(err, db.Update(func(tx *bolt.Tx) error { return change(tx.Bucket([]byte("sandboxes")), fmt.Append(nil, i)) }))
		}
	}
	pieces(func(b *bolt.Bucket, key []byte) error { return b.Put(key, make([]byte, mib)) })
	pieces((*bolt.Bucket).Delete)
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
}

// TestMemoryUnderAttack attacks a culvertd with 256 VFs as tenants can: by many large
// networks, pods that name one 64 times, large annotations, and a ledger that such pods
// have bloated. Its memory stays within the budget all the time.
func TestMemoryUnderAttack(t *testing.T) {
	if programs != "" {
		t.Skip("in a node")
	}
	dir := t.TempDir()
	bloatLedger(t, filepath.Join(dir, "ledger.db"))
	confDir := filepath.Join(dir, "net.d")
	if err := errors.Join(os.Mkdir(confDir, 0o755), os.WriteFile(filepath.Join(confDir, "10-default.conflist"),
		[]byte(`{"name":"default","cniVersion":"1.0.0","plugins":[{"type":"bridge"}]}`), 0o644)); err != nil {
		t.Fatal(err)
	}
	cluster := &attackedCluster{}
	server := httptest.NewServer(cluster)
	defer server.CloseClientConnections() // the watches' connections
	program := buildFakenode(t)
	within, unlimited := newLimit(t)
	if unlimited == nil {
		program = within.program(t, program)
	} else {
		t.Logf("without the DaemonSet's limit, since this user cannot make a memory cgroup: %v", unlimited)
	}
	cmd, socket := startFakenodeIn(t, program, dir, server.URL)
	peak := func(after string) {
		t.Helper()
		most, err := peakMemory(cmd.Process.Pid)
		if err != nil {
			t.Fatal(err)
		}
		mapped, err := mappedMemory(cmd.Process.Pid, "ledger.db")
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %.1f MiB resident at most, and %.1f MiB of the ledger's file", after, float64(most-mapped)/mib, float64(mapped)/mib)
		most -= mapped
		if most > maxMemory {
			t.Errorf("%s: %.1f MiB resident, at most %d are allowed", after, float64(most)/mib, maxMemory/mib)
		}
	}
	peak("a bloated ledger")
	if err := rpc.Call(t.Context(), socket, "synced", nil, nil); err != nil {
		t.Fatal(err)
	}
	peak("large and many networks")
	var added atomic.Int64
	runPods(t, func(pod int) error {
		switch err := attack(socket, "ADD", pod); {
		case err == nil:
			added.Add(1)
		case !strings.Contains(err.Error(), "want at most"):
			return err
		}
		return nil
	})
	if n := added.Load(); n == 0 || n == attackingPods {
		t.Errorf("%d of %d pods got their networks", n, attackingPods)
	}
	peak(fmt.Sprintf("%d pods with 64 networks, and %d that are refused", added.Load(), attackingPods-added.Load()))
	for pod := range leasingPods { // one by one: how much of many calls at once is garbage depends on the machine
		if err := attack(socket, "ADD", attackingPods+pod); err != nil {
			t.Fatal(err)
		}
	}
	peak(fmt.Sprintf("%d pods with %d VFs", leasingPods, vfsOfAPod))
	var l api.Ledger
	if err := rpc.Call(t.Context(), socket, api.MethodLedger, nil, &l); err != nil || len(l.Sandboxes) == 0 {
		t.Errorf("%v, %d sandboxes", err, len(l.Sandboxes))
	}
	if n := len(slices.DeleteFunc(l.Records, func(r api.LedgerRecord) bool { return r.Owner == nil })); n != leasingPods*vfsOfAPod {
		t.Errorf("%d leases", n)
	}
	peak("a dump of the ledger")
	runPods(t, func(pod int) error { return attack(socket, "DEL", pod) })
	for pod := range leasingPods {
		if err := attack(socket, "DEL", attackingPods+pod); err != nil {
			t.Error(err)
		}
	}
	peak("their end")
	if cluster.reads.Load() == 0 {
		t.Error("nothing was read from the API server")
	}
	if unlimited == nil {
		within.check(t)
	}
	endFakenode(t, cmd)
}

// runPods calls f for all pods, ten at a time, as many as the kubelet starts at once.
func runPods(t *testing.T, f func(pod int) error) {
	t.Helper()
	var g errgroup.Group
	g.SetLimit(10)
	for pod := range attackingPods {
		g.Go(func() error { return f(pod) })
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
}

// peakMemory returns the peak of a process's resident memory since its start, in bytes.
func peakMemory(pid int) (int, error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(raw), "VmHWM:")
	var kib int
	_, err = fmt.Sscan(rest, &kib)
	return kib << 10, err
}

// mappedMemory returns how much of a mapped file is resident in a process, in bytes. The kernel takes
// these pages back as it takes back those of its cache: they are not changed in memory.
func mappedMemory(pid int, file string) (int, error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps", pid))
	if err != nil {
		return 0, err
	}
	isOf, sum := false, 0
	for line := range strings.Lines(string(raw)) {
		words := strings.Fields(line)
		switch {
		case strings.Contains(words[0], "-"): // the addresses of the next mapping
			isOf = strings.HasSuffix(words[len(words)-1], "/"+file)
		case isOf && words[0] == "Rss:":
			var kib int
			if _, err := fmt.Sscan(words[1], &kib); err != nil {
				return 0, err
			}
			sum += kib << 10
		}
	}
	return sum, nil
}
