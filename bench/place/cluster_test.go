package place

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/culvert-net/culvert/test/apiserver"
)

// world is a real API server, with a kubelet that the test plays.
type world struct {
	*apiserver.Server
	Cluster
}

type podList struct {
	Items []struct {
		Metadata struct {
			Name        string            `json:"name"`
			Namespace   string            `json:"namespace"`
			Labels      map[string]string `json:"labels"`
			Annotations map[string]string `json:"annotations"`
			Deleted     *time.Time        `json:"deletionTimestamp"`
		} `json:"metadata"`
		Spec struct {
			NodeName    string `json:"nodeName"`
			HostPID     bool   `json:"hostPID"`
			HostNetwork bool   `json:"hostNetwork"`
			Token       *bool  `json:"automountServiceAccountToken"`
			Volumes     []any  `json:"volumes"`
			Containers  []struct {
				SecurityContext struct {
					Capabilities struct {
						Add  []string `json:"add"`
						Drop []string `json:"drop"`
					} `json:"capabilities"`
					Escalates *bool `json:"allowPrivilegeEscalation"`
					Seccomp   struct {
						Type string `json:"type"`
					} `json:"seccompProfile"`
				} `json:"securityContext"`
			} `json:"containers"`
		} `json:"spec"`
		Status struct {
			Phase string `json:"phase"`
		} `json:"status"`
	} `json:"items"`
}

const (
	allPods      = "/api/v1/pods" // of all namespaces
	podsPath     = "/api/v1/namespaces/default/pods"
	servicesPath = "/api/v1/namespaces/default/services"
	systemPods   = "/api/v1/namespaces/culvert-system/pods"
)

func newCluster(t *testing.T) *world {
	t.Helper()
	s := apiserver.New(t)
	text, err := os.ReadFile(s.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	config := filepath.Join(dir, "kubeconfig")
	admin := strings.ReplaceAll(string(text), `"token": "viewer"`, `"token": "admin"`)
	// This kubectl has an exec of its own, since there is no kubelet that could run a command.
	script := fmt.Sprintf(`#!/bin/sh
case " $* " in *" exec "*) exec %s agent;; esac
exec %s --kubeconfig %s "$@"
`, ownProgram(t).Path, apiserver.Program(t, "kubernetes", "kubectl"), config)
	if err := errors.Join(os.WriteFile(config, []byte(admin), 0o600), os.WriteFile(dir+"/kubectl", []byte(script), 0o700)); err != nil {
		t.Fatal(err)
	}
	s.Must(http.MethodPost, "/api/v1/namespaces", "{apiVersion: v1, kind: Namespace, metadata: {name: culvert-system}}")
	for _, namespace := range []string{"default", "culvert-system"} {
		s.Must(http.MethodPost, "/api/v1/namespaces/"+namespace+"/serviceaccounts", "{apiVersion: v1, kind: ServiceAccount, metadata: {name: default}}")
	}
	return &world{s, Cluster{Kubectl: []string{dir + "/kubectl"}, System: "culvert-system", Image: "culvert:test", From: Seat{"n1", "default", "vfs"}, To: Seat{"n2", "default", "vfs"}}}
}

func (w *world) listPods(t *testing.T) podList {
	t.Helper()
	return w.getPods(t, allPods)
}

func (w *world) getPods(t *testing.T, path string) podList {
	t.Helper()
	var all podList
	if err := w.Do(http.MethodGet, path, "", &all); err != nil {
		t.Fatal(err)
	}
	return all
}

// listServices returns the names of the Services that measurements made.
func (w *world) listServices(t *testing.T) (names []string) {
	t.Helper()
	for _, s := range w.getPods(t, servicesPath).Items {
		if strings.HasPrefix(s.Metadata.Name, "culvert-bench-") {
			names = append(names, s.Metadata.Name)
		}
	}
	return names
}

// neverReady is the name of a pod that the kubelet does not start.
const neverReady = "never-ready"

// runKubelet plays the kubelet until stop is called. It removes pods that are being deleted, and if
// starts is true it makes the others ready.
func (w *world) runKubelet(t *testing.T, starts bool) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var g errgroup.Group
	g.Go(func() error {
		for ctx.Err() == nil {
			time.Sleep(50 * time.Millisecond)
			var all podList
			if w.Do(http.MethodGet, allPods, "", &all) != nil {
				continue // the API server is away, or the test ends
			}
			for _, p := range all.Items {
				path := "/api/v1/namespaces/" + p.Metadata.Namespace + "/pods/" + p.Metadata.Name
				if p.Metadata.Deleted != nil {
					_ = w.Do(http.MethodDelete, path, `{apiVersion: v1, kind: DeleteOptions, gracePeriodSeconds: 0}`, nil)
				} else if starts && p.Status.Phase != "Running" && p.Metadata.Name != neverReady {
					w.setReady(path)
				}
			}
		}
		return nil
	})
	return sync.OnceFunc(func() { cancel(); _ = g.Wait() })
}

func (w *world) setReady(path string) {
	var whole map[string]any
	if w.Do(http.MethodGet, path, "", &whole) != nil {
		return
	}
	whole["status"] = object{"phase": "Running", "conditions": []object{{"type": "Ready", "status": "True"}}}
	status, err := json.Marshal(whole)
	if err != nil {
		panic(err) // it was JSON
	}
	_ = w.Do(http.MethodPut, path+"/status", string(status), nil)
}

func TestCluster(t *testing.T) {
	t.Parallel()
	w := newCluster(t)
	t.Run("SaysWhatIsWrong", w.saysWhatIsWrong)
	t.Run("Opens", w.opens)
	t.Run("OpensThree", w.opensThree)
	t.Run("OpensCulvertd", w.opensCulvertd)
	t.Run("KeepsNodesFromTenants", w.keepsNodesFromTenants)
	t.Run("KeepsRunsOfOthers", w.keepsRunsOfOthers)
	t.Run("EntersNoPodOfAnother", w.entersNoPodOfAnother)
	t.Run("WaitsForNoPodOfOthers", w.waitsForNoPodOfOthers)
	t.Run("NeedsTheRightsThatAreDocumented", w.needsTheRightsThatAreDocumented)
	t.Run("LeavesNothing", w.leavesNothing)
	t.Run("DoesWithoutWhatThePolicyRefuses", w.doesWithoutWhatThePolicyRefuses)
}

// A cluster whose policy admits no CAP_BPF gets pods without it; one that admits it gets pods with it.
func (w *world) doesWithoutWhatThePolicyRefuses(t *testing.T) {
	defer w.runKubelet(t, true)()
	capabilities := func() (all []string) {
		p, err := w.Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, pod := range w.listPods(t).Items {
			if len(pod.Spec.Containers) > 0 && pod.Metadata.Labels["app.kubernetes.io/managed-by"] == "culvert-bench" {
				all = append(all, strings.Join(pod.Spec.Containers[0].SecurityContext.Capabilities.Add, " "))
			}
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		return all
	}
	for _, got := range capabilities() {
		if got != "NET_ADMIN NET_RAW SYS_NICE BPF" {
			t.Errorf("a pod has %s", got)
		}
	}
	const (
		policies = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
		bindings = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
	)
	w.Must(http.MethodPost, policies, `{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicy, metadata: {name: no-bpf},
 spec: {matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]},
  validations: [{expression: "!object.spec.containers.exists(c, 'BPF' in c.securityContext.capabilities.add)"}]}}`)
	w.Must(http.MethodPost, bindings, `{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicyBinding, metadata: {name: no-bpf},
 spec: {policyName: no-bpf, validationActions: [Deny]}}`)
	defer w.Must(http.MethodDelete, policies+"/no-bpf", "")
	defer w.Must(http.MethodDelete, bindings+"/no-bpf", "")
	var got []string
	for until := time.Now().Add(10 * time.Minute); time.Now().Before(until); { // the API server learns of a policy within seconds
		if got = capabilities(); len(got) == 4 && !slices.ContainsFunc(got, func(s string) bool { return s != "NET_ADMIN NET_RAW SYS_NICE" }) {
			return
		}
	}
	t.Errorf("where the policy refuses CAP_BPF, pods have %q", got)
}

func (w *world) opens(t *testing.T) {
	defer w.runKubelet(t, true)()
	w.Must(http.MethodPost, podsPath, `{apiVersion: v1, kind: Pod, metadata: {name: somebodys}, spec: {containers: [{name: a, image: b}]}}`)
	p, err := w.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, pod := range w.listPods(t).Items {
		if pod.Metadata.Name == "somebodys" {
			continue
		}
		if pod.Metadata.Labels["app.kubernetes.io/managed-by"] != "culvert-bench" {
			t.Errorf("%s has the labels %v", pod.Metadata.Name, pod.Metadata.Labels)
		}
		host := strings.HasSuffix(pod.Metadata.Name, "-host")
		if pod.Spec.HostPID != host || pod.Spec.HostNetwork != host {
			t.Errorf("%s is in the node's PID namespace: %t, in its network: %t", pod.Metadata.Name, pod.Spec.HostPID, pod.Spec.HostNetwork)
		}
		if c := pod.Spec.Containers[0].SecurityContext; !slices.Equal(c.Capabilities.Drop, []string{"ALL"}) || c.Seccomp.Type != "RuntimeDefault" || c.Escalates == nil || *c.Escalates {
			t.Errorf("%s has more rights than its engines need: %+v", pod.Metadata.Name, c)
		}
		if pod.Spec.Token == nil || *pod.Spec.Token || len(pod.Spec.Volumes) != 0 {
			t.Errorf("%s has a token or a volume: %v, %v", pod.Metadata.Name, pod.Spec.Token, pod.Spec.Volumes)
		}
		name := strings.ReplaceAll(pod.Metadata.Name, p.run, "RUN")
		got = append(got, fmt.Sprintf("%s/%s on %s, network %q", pod.Metadata.Namespace, name, pod.Spec.NodeName, pod.Metadata.Annotations["k8s.v1.cni.cncf.io/networks"]))
	}
	slices.Sort(got)
	want := []string{
		`culvert-system/culvert-bench-RUN-from-host on n1, network ""`, `culvert-system/culvert-bench-RUN-to-host on n2, network ""`,
		`default/culvert-bench-RUN-from on n1, network "vfs"`, `default/culvert-bench-RUN-to on n2, network "vfs"`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := w.listServices(t); !p.Service.IsValid() || len(got) != 1 {
		t.Errorf("Service %s; there are %q", p.Service, got)
	}
	for _, pod := range p.All {
		checkHello(t, pod.Pipe)
	}
	// The lease of another invocation runs: its pods stay.
	if err := w.removeExpired(t.Context(), time.Now()); err != nil || len(w.listPods(t).Items) != 5 {
		t.Errorf("%v, %d pods", err, len(w.listPods(t).Items))
	}
	if len(w.listServices(t)) != 1 {
		t.Error("its Service does not")
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if left := w.listPods(t).Items; len(left) != 1 || left[0].Metadata.Name != "somebodys" {
		t.Errorf("%d pods are left", len(left))
	}
	if left := w.listServices(t); len(left) != 0 {
		t.Errorf("left: %q", left)
	}
	w.Must(http.MethodDelete, podsPath+"/somebodys", "{apiVersion: v1, kind: DeleteOptions, gracePeriodSeconds: 0}")
}

// A person with the rights that docs/bench.md names, in both namespaces, can measure.
func (w *world) needsTheRightsThatAreDocumented(t *testing.T) {
	defer w.runKubelet(t, true)()
	page, err := os.ReadFile("../../docs/bench.md")
	if err != nil {
		t.Fatal(err)
	}
	_, role, _ := strings.Cut(string(page), "```yaml\napiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\n")
	role, _, found := strings.Cut(role, "```")
	if !found {
		t.Fatal("docs/bench.md has no ClusterRole")
	}
	const rbac = "/apis/rbac.authorization.k8s.io/v1/"
	w.Must(http.MethodPost, rbac+"clusterroles", "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\n"+role)
	for _, namespace := range w.listNamespaces() {
		w.Must(http.MethodPost, rbac+"namespaces/"+namespace+"/rolebindings", strings.NewReplacer("name: tenant", "name: ann", "cluster-admin", "culvert-bench").Replace(tenant))
	}
	ann := w.Cluster
	ann.Kubectl = append(slices.Clone(w.Kubectl), "--as", "ann")
	p, err := ann.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ann.OpenCulvertd(t.Context(), "n1"); err == nil || !strings.Contains(err.Error(), "no pod of culvertd runs on n1") {
		t.Errorf("she looks for culvertd's pod: %v", err)
	}
	out, err := ann.runKubectl(t.Context(), ann.System, nil, "get", "daemonsets", "culvertd", "--ignore-not-found")
	if err := errors.Join(err, p.Close()); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	if n := len(w.listPods(t).Items); n != 0 {
		t.Errorf("%d pods are left", n)
	}
}

// Open removes the objects of an invocation that died when their lease has run out. Close removes
// its own objects when the API server, which was away, is back.
func (w *world) leavesNothing(t *testing.T) {
	stop := w.runKubelet(t, true)
	dead := &Pods{cluster: w.Cluster, run: "dead"}
	for _, pod := range dead.wantedPods() {
		w.Must(http.MethodPost, map[bool]string{false: podsPath, true: systemPods}[pod.Host], text(t, dead.podManifest(pod, moreCapabilities(), time.Now().Add(-time.Hour))))
	}
	w.Must(http.MethodPost, servicesPath, text(t, dead.serviceManifest(time.Now().Add(-time.Hour))))
	p, err := w.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if n := len(w.listPods(t).Items); n != 4 {
		t.Errorf("%d pods: those of a dead one are left", n)
	}
	if got := w.listServices(t); len(got) != 1 {
		t.Errorf("%q: that of a dead one is left", got)
	}
	w.Stop()
	closed := make(chan error, 1)
	go func() { closed <- p.Close() }()
	time.Sleep(2 * time.Second) // Close has tried by now
	w.Start()
	if err := <-closed; err != nil {
		t.Error(err)
	}
	if n := len(w.listPods(t).Items); n != 0 {
		t.Errorf("%d pods are left", n)
	}
	stop()
	// Without a kubelet no pod becomes ready. An interrupted Open removes all its objects.
	ctx, interrupt := context.WithTimeout(t.Context(), 5*time.Second)
	defer interrupt()
	defer w.runKubelet(t, false)()
	if _, err := w.Open(ctx); err == nil {
		t.Error("pods that nobody started are ready")
	}
	if n := len(w.listPods(t).Items); n != 0 {
		t.Errorf("%d pods are left after an interrupt", n)
	}
}

func text(t *testing.T, o object) string {
	t.Helper()
	raw, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func (w *world) saysWhatIsWrong(t *testing.T) {
	without := w.Cluster
	without.Image = ""
	if _, err := without.Open(t.Context()); err == nil || !strings.Contains(err.Error(), "--image") {
		t.Errorf("no image: %v", err)
	}
	elsewhere := w.Cluster
	elsewhere.System = "nowhere"
	if _, err := elsewhere.Open(t.Context()); err == nil || !strings.Contains(err.Error(), "namespace nowhere is not there") || !strings.Contains(err.Error(), "--system-namespace") {
		t.Errorf("no namespace for the pods in the nodes' networks: %v", err)
	}
	if n := len(w.listPods(t).Items); n != 0 {
		t.Errorf("%d pods are left", n)
	}
	c := Cluster{Kubectl: []string{"no-such-kubectl"}, System: "default"}
	if _, err := c.Open(t.Context()); err == nil || !strings.Contains(err.Error(), "install it") {
		t.Errorf("no kubectl: %v", err)
	}
}

// A pod does without CAP_BPF where it is refused, not where the API server is slow or away.
func TestCreatePodWithoutBPF(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ said, want string }{
		{`Error from server (Forbidden): pods "a" is forbidden: violates PodSecurity "baseline:latest"`, "BPF without"},
		{`The pods "a" is invalid: : ValidatingAdmissionPolicy 'no-bpf' with binding 'no-bpf' denied request`, "BPF without"},
		{`Error from server: admission webhook "policies.example.com" denied the request: no BPF`, "BPF without"},
		{`Error from server (Forbidden): pods "a" is forbidden: not yet ready to handle request`, "BPF"},
		{"Unable to connect to the server: net/http: TLS handshake timeout", "BPF"},
		{"Error from server (Timeout): the server was unable to return a response in the time allotted", "BPF"},
	} {
		dir := t.TempDir()
		// This kubectl refuses a pod with BPF, and notes which pods it was asked for.
		script := fmt.Sprintf("#!/bin/sh\nif grep -q BPF; then printf 'BPF ' >> %s/asked; cat >&2 <<'EOF'\n%s\nEOF\nexit 1; fi\nprintf without >> %s/asked\necho '{}'\n", dir, c.said, dir)
		if err := os.WriteFile(dir+"/kubectl", []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
		p := &Pods{cluster: Cluster{Kubectl: []string{dir + "/kubectl"}}, objects: map[string][]string{}}
		err := p.createPod(t.Context(), Pod{Name: "a", Namespace: "default"})
		asked, readErr := os.ReadFile(dir + "/asked")
		if got := strings.TrimSpace(string(asked)); readErr != nil || got != c.want || (err == nil) != strings.Contains(got, "without") {
			t.Errorf("%s\npods were asked for: %q (%v), error %v", c.said, got, readErr, err)
		}
	}
}
