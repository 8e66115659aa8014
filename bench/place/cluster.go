package place

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/culvert-net/culvert/internal/excerpt"
	"github.com/culvert-net/culvert/internal/program"
)

// Cluster is a cluster in which the program kubectl makes pods for a measurement. kubectl
// supports every way in which clusters authenticate.
type Cluster struct {
	Kubectl []string // the program, with flags such as --context
	// System is the namespace of the pods in a node's own network and PID namespace. A user who may
	// exec into one of these is root on the node, so they are in culvertd's namespace.
	System string

	Image    string // with the program culvert-bench; empty for that of culvertd
	From, To Seat
	// Via is the node of a third pod, which has a VF of From's and one of To's network, and is in
	// From's namespace; empty for none.
	Via string
}

// Seat is the place of a pod in the pod network.
type Seat struct {
	Node, Namespace string
	Network         string // of its VF: a NetworkAttachmentDefinition's name; empty for none
}

// The interfaces that a pod in the middle has of From's and To's network, and any other pod of its own.
const (
	ViaIn        = "net1"
	ViaOut       = "net2"
	EndInterface = "net1"
)

// Pod is a pod that Open made, with the pipe to its agent.
type Pod struct {
	Name, Namespace, Node string
	Host                  bool // it is in the node's own network
	Role                  Role
	Networks              string // of its VFs, as its annotation has them
	Pipe                  *Pipe
}

// Role is the part of a pod in a measurement.
type Role string

// The roles.
const (
	Starts  Role = "from" // traffic starts in it
	Stops   Role = "to"
	Between Role = "via" // traffic goes through it, or it is in the own network of the node of that pod
)

// Pods are those of one measurement.
type Pods struct {
	All     []Pod
	Service netip.Addr // of the Service that leads to the pod where traffic ends
	cluster Cluster
	run     string // the value of labelRun
	// objects are the objects that Open has made, by namespace, such as pod/NAME. A tenant can give
	// their label to others, so their names identify them.
	objects map[string][]string
	renewed errgroup.Group
	stop    context.CancelFunc
}

// The labels of the objects, and the annotation with the end of their lease.
const (
	labelManaged = "app.kubernetes.io/managed-by=culvert-bench"
	labelRun     = "culvert.dev/bench-run"
	labelEnd     = "culvert.dev/bench-end" // of the pod that the Service leads to
	leaseKey     = "culvert.dev/bench-until"

	made = "pods,services" // the kinds of the objects that Open makes
)

const (
	leaseTime = 5 * time.Minute // renewed each minute
	lifeTime  = 24 * time.Hour  // a pod ends by itself after that
	readyTime = 3 * time.Minute
	goneTime  = 2 * time.Minute
	callTime  = 30 * time.Second

	createTime = 2 * time.Minute // admission may ask the cluster's webhooks, each for up to 30 s

	completionTime = 2 * time.Second // of a person who pressed Tab
)

// Open makes a pod in each node's pod network, with a VF if there is a network for it,
// and one in each node's own, and starts an agent in each. A Service leads to the pod
// where traffic ends. First it removes the objects of earlier invocations whose lease has run out.
// After an error Open leaves no object behind.
func (c Cluster) Open(ctx context.Context) (p *Pods, err error) {
	if err := c.checkSystem(ctx); err != nil {
		return nil, err
	}
	if err := c.removeExpired(ctx, time.Now()); err != nil {
		return nil, err
	}
	if c.Image, err = c.findImage(ctx); err != nil {
		return nil, err
	}
	p = &Pods{cluster: c, run: strings.ToLower(rand.Text()[:8]), objects: map[string][]string{}}
	p.All = p.wantedPods()
	renewing, stop := context.WithCancel(context.WithoutCancel(ctx))
	p.stop = stop
	defer func() {
		if err != nil {
			err = errors.Join(err, p.Close())
			p = nil
		}
	}()
	for _, pod := range p.All {
		if err := p.createPod(ctx, pod); err != nil {
			return p, fmt.Errorf("make pod %s/%s on %s: %w", pod.Namespace, pod.Name, pod.Node, err)
		}
	}
	service, err := p.createService(ctx)
	if err != nil {
		return p, fmt.Errorf("make a Service: %w", err)
	}
	if p.Service, err = netip.ParseAddr(service.Spec.ClusterIP); err != nil {
		return p, fmt.Errorf("read the Service's address: %w", err)
	}
	p.renewed.Go(func() error { p.renewLease(renewing); return nil })
	if err := p.waitReady(ctx); err != nil {
		return p, err
	}
	for i := range p.All {
		if p.All[i].Pipe, err = c.startAgent(ctx, p.All[i]); err != nil {
			return p, err
		}
	}
	return p, nil
}

// createPod makes a pod with CAP_BPF, or without where the cluster's policy refuses that one. An API
// server that does not answer in time has refused nothing.
func (p *Pods) createPod(ctx context.Context, pod Pod) error {
	taken := p.note(pod.Namespace, podPrefix+pod.Name)
	_, err := p.cluster.createObject(ctx, pod.Namespace, p.podManifest(pod, moreCapabilities(), time.Now()))
	if isTaken(err) {
		taken()
	}
	if err == nil || !isRefusal(err) {
		return err
	}
	if _, again := p.cluster.createObject(ctx, pod.Namespace, p.podManifest(pod, leastCapabilities(), time.Now())); again != nil {
		return err
	}
	return nil
}

// createService makes the Service that leads to the pod where traffic ends.
func (p *Pods) createService(ctx context.Context) (state, error) {
	taken := p.note(p.cluster.To.Namespace, "service/"+p.serviceName())
	service, err := p.cluster.createObject(ctx, p.cluster.To.Namespace, p.serviceManifest(time.Now()))
	if isTaken(err) {
		taken()
	}
	return service, err
}

// listPods returns the pods that Open has made in a namespace.
func (p *Pods) listPods(namespace string) []string {
	return slices.DeleteFunc(slices.Clone(p.objects[namespace]), func(o string) bool { return !strings.HasPrefix(o, podPrefix) })
}

// podPrefix begins the pods of Pods.objects.
const podPrefix = "pod/"

// isTaken reports whether kubectl failed since another object has the name. kubectl's text is all
// that there is of the reason.
func isTaken(err error) bool {
	if err == nil {
		return false
	}
	said := err.Error()
	return strings.Contains(said, "(AlreadyExists)")
}

// isRefusal reports whether kubectl failed since the API server, or a policy or webhook of the
// cluster, does not admit the object. All of them say "forbidden" or "denied". An API server that
// has just started forbids, too, what it cannot judge yet (apiserver/pkg/admission, WaitForReady).
func isRefusal(err error) bool {
	said := strings.ToLower(err.Error())
	return (strings.Contains(said, "forbidden") || strings.Contains(said, "denied")) && !strings.Contains(said, "not yet ready")
}

// wantedPods returns the pods to make, on one to three nodes. Each node has one pod in its own network.
func (p *Pods) wantedPods() []Pod {
	c, name := p.cluster, "culvert-bench-"+p.run
	all := []Pod{
		{Name: name + "-from", Namespace: c.From.Namespace, Node: c.From.Node, Role: Starts, Networks: c.From.Network},
		{Name: name + "-to", Namespace: c.To.Namespace, Node: c.To.Node, Role: Stops, Networks: c.To.Network},
		{Name: name + "-to-host", Namespace: c.System, Node: c.To.Node, Role: Stops, Host: true},
	}
	if c.From.Node != c.To.Node {
		all = append(all, Pod{Name: name + "-from-host", Namespace: c.System, Node: c.From.Node, Role: Starts, Host: true})
	}
	if c.Via == "" {
		return all
	}
	networks := fmt.Sprintf("%s/%s@%s,%s/%s@%s", c.From.Namespace, c.From.Network, ViaIn, c.To.Namespace, c.To.Network, ViaOut)
	all = append(all, Pod{Name: name + "-via", Namespace: c.From.Namespace, Node: c.Via, Role: Between, Networks: networks})
	if c.Via != c.From.Node && c.Via != c.To.Node {
		all = append(all, Pod{Name: name + "-via-host", Namespace: c.System, Node: c.Via, Role: Between, Host: true})
	}
	return all
}

// listNamespaces returns the namespaces of the pods, each once.
func (c Cluster) listNamespaces() (names []string) {
	for _, name := range []string{c.From.Namespace, c.To.Namespace, c.System} {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// inEach calls f for each of the namespaces at the same time, and joins the errors.
func (c Cluster) inEach(f func(namespace string) error) error {
	names := c.listNamespaces()
	errs := make([]error, len(names))
	var g errgroup.Group
	for i, name := range names {
		g.Go(func() error {
			errs[i] = f(name)
			return nil
		})
	}
	_ = g.Wait() // the errors are in errs
	return errors.Join(errs...)
}

// checkSystem returns an error where the namespace for the pods in the nodes' networks is not there.
func (c Cluster) checkSystem(ctx context.Context) error {
	out, err := c.runKubectl(ctx, c.System, nil, "get", "namespace", c.System, "--ignore-not-found", "--output", "name")
	if err != nil {
		return fmt.Errorf("look for namespace %s: %w", c.System, err)
	}
	if len(out) == 0 {
		return fmt.Errorf("namespace %s is not there, and the pods in the nodes' own networks belong where Culvert is installed: install it, or name its namespace with --system-namespace", c.System)
	}
	return nil
}

// createObject makes an object, and returns it as the API server has it. kubectl need not check the
// object's fields against the API server's schema, which it would fetch each time.
func (c Cluster) createObject(ctx context.Context, namespace string, o object) (was state, err error) {
	manifest, err := json.Marshal(o)
	if err != nil {
		return was, err
	}
	out, err := c.kubectlFor(ctx, createTime, namespace, manifest, "create", "--validate=false", "-f", "-", "--output", "json")
	if err != nil {
		return was, err
	}
	return was, json.Unmarshal(out, &was)
}

// startAgent starts the agent in a pod. When the connection breaks, its input ends.
func (c Cluster) startAgent(ctx context.Context, pod Pod) (*Pipe, error) {
	return c.execAgent(ctx, pod.Namespace, pod.Name)
}

func (c Cluster) execAgent(ctx context.Context, namespace, pod string, flags ...string) (*Pipe, error) {
	args := slices.Concat([]string{"exec", "--stdin", "--quiet", pod, "--", program.Bench, "agent"}, flags)
	return startCommand(exec.CommandContext(context.WithoutCancel(ctx), c.Kubectl[0], c.kubectlArgs(namespace, args...)...), func() error { return nil })
}

// waitReady waits until all pods are ready.
func (p *Pods) waitReady(ctx context.Context) error {
	err := p.cluster.inEach(func(namespace string) error {
		_, err := p.cluster.kubectlFor(ctx, readyTime+callTime, namespace, nil, slices.Concat([]string{"wait", "--for=condition=Ready", "--timeout", readyTime.String()}, p.listPods(namespace))...)
		return err
	})
	if err == nil || ctx.Err() != nil {
		return err
	}
	pods, listErr := p.cluster.listObjects(ctx, "pods", labelRun+"="+p.run)
	if listErr != nil {
		return errors.Join(err, listErr)
	}
	var why []string
	for _, pod := range pods {
		if s := pod.waitReason(); s != "" {
			why = append(why, fmt.Sprintf("%s/%s on %s: %s", pod.Metadata.Namespace, pod.Metadata.Name, pod.Spec.NodeName, s))
		}
	}
	return fmt.Errorf("wait %s for the pods: %w; %s; they are removed again (kubectl get events -n NAMESPACE says more)", readyTime, err, strings.Join(why, "; "))
}

// renewLease renews the lease until ctx ends. An invocation that died does not renew it, and the
// next invocation removes its pods.
func (p *Pods) renewLease(ctx context.Context) {
	t := time.NewTicker(leaseTime / 5)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-t.C:
			// While the API server is away no other invocation removes them, either.
			_ = p.cluster.inEach(func(namespace string) error {
				_, err := p.cluster.runKubectl(ctx, namespace, nil, slices.Concat([]string{"annotate", "--overwrite"}, p.objects[namespace], []string{leaseKey + "=" + leaseEnd(now)})...)
				return err
			})
		}
	}
}

func leaseEnd(now time.Time) string { return now.Add(leaseTime).UTC().Format(time.RFC3339) }

// note records an object that Open makes, before it is made: a call that failed may have made it. taken
// is called where another object has its name.
func (p *Pods) note(namespace, object string) (taken func()) {
	before := p.objects[namespace]
	p.objects[namespace] = append(slices.Clone(before), object)
	return func() { p.objects[namespace] = before }
}

// Close ends the agents and removes the pods and the Service. It tries again while the API server
// is away, for two minutes at most. The error says how to remove them by hand.
func (p *Pods) Close() error {
	p.stop()
	_ = p.renewed.Wait() // it has no error
	var mu sync.Mutex    // guards errs
	var errs []error
	var g errgroup.Group
	for _, pod := range p.All {
		if pod.Pipe != nil {
			g.Go(func() error {
				err := pod.Pipe.Close()
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, err)
				return nil
			})
		}
	}
	_ = g.Wait()
	return errors.Join(append(errs, p.removeAll())...)
}

// removeAll deletes the objects of the measurement, and waits until they are gone. It is also called
// after the invocation's context has ended.
func (p *Pods) removeAll() error {
	ctx, cancel := context.WithTimeout(context.Background(), goneTime)
	defer cancel()
	return p.cluster.inEach(func(namespace string) error {
		if len(p.objects[namespace]) == 0 {
			return nil
		}
		return p.cluster.removeIn(ctx, namespace, p.objects[namespace]...)
	})
}

// removeIn deletes the objects that arguments of kubectl name.
func (c Cluster) removeIn(ctx context.Context, namespace string, which ...string) error {
	for {
		_, err := c.kubectlFor(ctx, goneTime, namespace, nil, slices.Concat([]string{"delete"}, which, []string{"--ignore-not-found", "--wait", "--timeout", "60s"})...)
		if err == nil {
			return nil
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return fmt.Errorf("objects of a measurement are left: kubectl delete -n %s %s: %w", namespace, strings.Join(which, " "), err)
		}
	}
}

// removeExpired removes the objects of invocations that died: those whose own lease has run out. A
// tenant can give the label of a running measurement to an object of its namespace, so the label does
// not lead to others.
func (c Cluster) removeExpired(ctx context.Context, now time.Time) error {
	left, err := c.listObjects(ctx, made, labelManaged)
	if err != nil {
		return err
	}
	dead := map[string][]string{}
	for _, o := range left {
		end, err := time.Parse(time.RFC3339, o.Metadata.Annotations[leaseKey])
		if o.Metadata.Labels[labelRun] != "" && (err != nil || now.After(end)) {
			dead[o.Metadata.Namespace] = append(dead[o.Metadata.Namespace], strings.ToLower(o.Kind)+"/"+o.Metadata.Name)
		}
	}
	if len(dead) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, goneTime)
	defer cancel()
	return c.inEach(func(namespace string) error {
		if len(dead[namespace]) == 0 {
			return nil
		}
		return c.removeIn(ctx, namespace, dead[namespace]...)
	})
}

// findImage returns the image that the pods run: culvertd's, unless the caller names another.
func (c Cluster) findImage(ctx context.Context) (string, error) {
	if c.Image != "" {
		return c.Image, nil
	}
	out, err := c.runKubectl(ctx, c.System, nil, "get", "daemonset", "culvertd", "--output", "jsonpath={.spec.template.spec.containers[0].image}")
	if err != nil {
		return "", fmt.Errorf("which image has the program culvert-bench? That of culvertd is not known; name one with --image: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// Contexts returns the contexts of a kubeconfig, or of the one that kubectl reads by default.
// There are none if kubectl fails.
func Contexts(ctx context.Context, kubeconfig string) []string {
	args := []string{"config", "get-contexts", "--output", "name"}
	if kubeconfig != "" {
		args = append(args, "--kubeconfig", kubeconfig)
	}
	ctx, cancel := context.WithTimeout(ctx, completionTime)
	defer cancel()
	out, err := exec.CommandContext(ctx, "kubectl", args...).Output()
	if err != nil {
		return nil
	}
	return strings.Fields(string(out))
}

// kubectlArgs returns the arguments of kubectl for objects in a namespace.
func (c Cluster) kubectlArgs(namespace string, more ...string) []string {
	return slices.Concat(c.Kubectl[1:], []string{"--namespace", namespace}, more)
}

// runKubectl runs kubectl in a namespace and returns what it printed. kubectl has a process group
// of its own, so that Ctrl-C reaches only the calling program.
func (c Cluster) runKubectl(ctx context.Context, namespace string, in []byte, args ...string) ([]byte, error) {
	return c.kubectlFor(ctx, callTime, namespace, in, args...)
}

func (c Cluster) kubectlFor(ctx context.Context, bound time.Duration, namespace string, in []byte, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.Kubectl[0], c.kubectlArgs(namespace, args...)...)
	cmd.Stdin = bytes.NewReader(in)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	said := &tail{}
	cmd.Stderr = said
	out, err := cmd.Output()
	if errors.Is(err, exec.ErrNotFound) {
		return nil, fmt.Errorf("%w: a cluster is reached by kubectl: install it", err)
	}
	if err != nil {
		return nil, fmt.Errorf("kubectl %s: %w: %s", args[0], cmp.Or(context.Cause(ctx), err), excerpt.WithoutLogLines(said.String()))
	}
	return out, nil
}
