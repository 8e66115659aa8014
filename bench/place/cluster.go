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

	"github.com/culvert-net/culvert/program"
)

// Cluster is where pods are made for a measurement, by the program kubectl: whatever
// way of logging in a cluster has, kubectl knows it.
type Cluster struct {
	Kubectl []string // the program, with flags such as --context
	// Namespace is of the pods in the pod network, and System of those in a node's own network and
	// PID namespace: who may exec into these is root on the node, so they are where culvertd is.
	Namespace, System string

	Network  string // of the VFs: a NetworkAttachmentDefinition's name; empty for none
	Image    string // with the program culvert-bench; empty for that of culvertd
	From, To string // nodes
}

// Pod is one that was made, with the pipe to its agent.
type Pod struct {
	Name, Namespace, Node string
	Host                  bool // it is in the node's own network
	From                  bool // traffic starts in it
	Pipe                  *Pipe
}

// Pods are those of one measurement.
type Pods struct {
	All     []Pod
	Service netip.Addr // of the Service that leads to the pod where traffic ends
	cluster Cluster
	run     string // the value of labelRun
	renewed errgroup.Group
	stop    context.CancelFunc
}

// The labels of what is made, and until when somebody minds it.
const (
	labelManaged = "app.kubernetes.io/managed-by=culvert-bench"
	labelRun     = "culvert.dev/bench-run"
	labelEnd     = "culvert.dev/bench-end" // of the pod that the Service leads to
	leaseKey     = "culvert.dev/bench-until"

	made = "pods,services" // the kinds of what is made
)

const (
	leaseTime = 5 * time.Minute // renewed each minute
	lifeTime  = 24 * time.Hour  // after which a pod ends that nobody deletes
	readyTime = 3 * time.Minute
	goneTime  = 2 * time.Minute
	callTime  = 30 * time.Second

	completionTime = 2 * time.Second // of a person who pressed Tab
)

// Open makes a pod in each node's pod network, with a VF if there is a network for it,
// and one in each node's own, and starts an agent in each. A Service leads to the pod
// where traffic ends. First it removes what an
// invocation left whose lease has run out. After an error nothing of it is left.
func (c Cluster) Open(ctx context.Context) (p *Pods, err error) {
	if err := c.checkSystem(ctx); err != nil {
		return nil, err
	}
	if err := c.reap(ctx, time.Now()); err != nil {
		return nil, err
	}
	if c.Image, err = c.image(ctx); err != nil {
		return nil, err
	}
	p = &Pods{cluster: c, run: strings.ToLower(rand.Text()[:8])}
	p.All = p.wanted()
	renewing, stop := context.WithCancel(context.WithoutCancel(ctx))
	p.stop = stop
	defer func() {
		if err != nil {
			err = errors.Join(err, p.Close())
			p = nil
		}
	}()
	for _, pod := range p.All {
		if _, err := c.create(ctx, pod.Namespace, p.manifest(pod, time.Now())); err != nil {
			return p, fmt.Errorf("make pod %s/%s on %s: %w", pod.Namespace, pod.Name, pod.Node, err)
		}
	}
	service, err := c.create(ctx, c.Namespace, p.service(time.Now()))
	if err != nil {
		return p, fmt.Errorf("make a Service: %w", err)
	}
	if p.Service, err = netip.ParseAddr(service.Spec.ClusterIP); err != nil {
		return p, fmt.Errorf("read the Service's address: %w", err)
	}
	p.renewed.Go(func() error { p.renew(renewing); return nil })
	if err := p.ready(ctx); err != nil {
		return p, err
	}
	for i := range p.All {
		if p.All[i].Pipe, err = c.exec(ctx, p.All[i]); err != nil {
			return p, err
		}
	}
	return p, nil
}

// wanted are the pods, on one node or two.
func (p *Pods) wanted() []Pod {
	c, name := p.cluster, "culvert-bench-"+p.run
	all := []Pod{
		{Name: name + "-from", Namespace: c.Namespace, Node: c.From, From: true},
		{Name: name + "-to", Namespace: c.Namespace, Node: c.To},
		{Name: name + "-to-host", Namespace: c.System, Node: c.To, Host: true},
	}
	if c.From != c.To {
		all = append(all, Pod{Name: name + "-from-host", Namespace: c.System, Node: c.From, Host: true, From: true})
	}
	return all
}

// namespaces are those of the pods: one where both are the same.
func (c Cluster) namespaces() []string {
	return slices.Compact([]string{c.Namespace, c.System})
}

// inEach calls f for each of the namespaces at the same time, and joins the errors.
func (c Cluster) inEach(f func(namespace string) error) error {
	names := c.namespaces()
	errs := make([]error, len(names))
	var g errgroup.Group
	for i, name := range names {
		g.Go(func() error {
			errs[i] = f(name)
			return nil
		})
	}
	_ = g.Wait() // they are in errs
	return errors.Join(errs...)
}

// checkSystem returns an error where the namespace for the pods in the nodes' networks is not there.
func (c Cluster) checkSystem(ctx context.Context) error {
	out, err := c.kubectl(ctx, c.System, nil, "get", "namespace", c.System, "--ignore-not-found", "--output", "name")
	if err != nil {
		return fmt.Errorf("look for namespace %s: %w", c.System, err)
	}
	if len(out) == 0 {
		return fmt.Errorf("namespace %s is not there, and the pods in the nodes' own networks belong where Culvert is installed: install it, or name its namespace with --system-namespace", c.System)
	}
	return nil
}

// create makes an object, and returns it as the API server has it.
func (c Cluster) create(ctx context.Context, namespace string, o object) (was state, err error) {
	manifest, err := json.Marshal(o)
	if err != nil {
		return was, err
	}
	out, err := c.kubectl(ctx, namespace, manifest, "create", "-f", "-", "--output", "json")
	if err != nil {
		return was, err
	}
	return was, json.Unmarshal(out, &was)
}

// exec starts the agent in a pod. When the connection breaks, its input ends.
func (c Cluster) exec(ctx context.Context, pod Pod) (*Pipe, error) {
	args := c.args(pod.Namespace, "exec", "--stdin", "--quiet", pod.Name, "--", program.Bench, "agent")
	return startCommand(exec.CommandContext(context.WithoutCancel(ctx), c.Kubectl[0], args...), func() error { return nil })
}

// ready waits until all pods are.
func (p *Pods) ready(ctx context.Context) error {
	err := p.cluster.inEach(func(namespace string) error {
		_, err := p.cluster.kubectlFor(ctx, readyTime+callTime, namespace, nil, "wait", "--for=condition=Ready", "pods", "--selector", p.selector(), "--timeout", readyTime.String())
		return err
	})
	if err == nil || ctx.Err() != nil {
		return err
	}
	pods, listErr := p.cluster.list(ctx, "pods", p.selector())
	if listErr != nil {
		return errors.Join(err, listErr)
	}
	var why []string
	for _, pod := range pods {
		if s := pod.waits(); s != "" {
			why = append(why, fmt.Sprintf("%s/%s on %s: %s", pod.Metadata.Namespace, pod.Metadata.Name, pod.Spec.NodeName, s))
		}
	}
	return fmt.Errorf("wait %s for the pods: %w; %s; they are removed again (kubectl get events -n NAMESPACE says more)", readyTime, err, strings.Join(why, "; "))
}

// renew keeps the lease until ctx ends: who died renews nothing, and the next
// invocation removes its pods.
func (p *Pods) renew(ctx context.Context) {
	t := time.NewTicker(leaseTime / 5)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-t.C:
			// While the API server is away nobody else removes them, either.
			_ = p.cluster.inEach(func(namespace string) error {
				_, err := p.cluster.kubectl(ctx, namespace, nil, "annotate", "--overwrite", made, "--selector", p.selector(), leaseKey+"="+until(now))
				return err
			})
		}
	}
}

func until(now time.Time) string { return now.Add(leaseTime).UTC().Format(time.RFC3339) }

func (p *Pods) selector() string { return labelRun + "=" + p.run }

// Close ends the agents and removes what was made, trying again while the API server is
// away, two minutes at most. The error says how to remove them by hand.
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
	return errors.Join(append(errs, p.cluster.remove(p.selector()))...)
}

// remove deletes what was made and waits until it is gone. It is called when the
// invocation's context has ended, too.
func (c Cluster) remove(selector string) error {
	ctx, cancel := context.WithTimeout(context.Background(), goneTime)
	defer cancel()
	return c.inEach(func(namespace string) error { return c.removeIn(ctx, namespace, selector) })
}

func (c Cluster) removeIn(ctx context.Context, namespace, selector string) error {
	for {
		_, err := c.kubectlFor(ctx, goneTime, namespace, nil, "delete", made, "--selector", selector, "--ignore-not-found", "--wait", "--timeout", "60s")
		if err == nil {
			return nil
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return fmt.Errorf("pods of this measurement are left: kubectl delete %s -n %s -l %s: %w", made, namespace, selector, err)
		}
	}
}

// reap removes what an invocation left that died.
func (c Cluster) reap(ctx context.Context, now time.Time) error {
	left, err := c.list(ctx, made, labelManaged)
	if err != nil {
		return err
	}
	dead := map[string]bool{}
	for _, o := range left {
		end, err := time.Parse(time.RFC3339, o.Metadata.Annotations[leaseKey])
		if run := o.Metadata.Labels[labelRun]; run != "" && (err != nil || now.After(end)) {
			dead[run] = true
		}
	}
	for run := range dead {
		if err := c.remove(labelRun + "=" + run); err != nil {
			return err
		}
	}
	return nil
}

// image is what the pods run: culvertd's, unless another one is named.
func (c Cluster) image(ctx context.Context) (string, error) {
	if c.Image != "" {
		return c.Image, nil
	}
	out, err := c.kubectl(ctx, c.System, nil, "get", "daemonset", "culvertd", "--output", "jsonpath={.spec.template.spec.containers[0].image}")
	if err != nil {
		return "", fmt.Errorf("which image has the program culvert-bench? That of culvertd is not known; name one with --image: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// Contexts are those of a kubeconfig, or of the one that kubectl reads by itself; none
// when kubectl cannot say.
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

// args are kubectl's, for what is in a namespace.
func (c Cluster) args(namespace string, more ...string) []string {
	return slices.Concat(c.Kubectl[1:], []string{"--namespace", namespace}, more)
}

// kubectl runs kubectl in a namespace and returns what it printed. It is in a
// process group of its own: Ctrl-C is for us.
func (c Cluster) kubectl(ctx context.Context, namespace string, in []byte, args ...string) ([]byte, error) {
	return c.kubectlFor(ctx, callTime, namespace, in, args...)
}

func (c Cluster) kubectlFor(ctx context.Context, bound time.Duration, namespace string, in []byte, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.Kubectl[0], c.args(namespace, args...)...)
	cmd.Stdin = bytes.NewReader(in)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	said := &tail{}
	cmd.Stderr = said
	out, err := cmd.Output()
	if errors.Is(err, exec.ErrNotFound) {
		return nil, fmt.Errorf("%w: a cluster is reached by kubectl: install it", err)
	}
	if err != nil {
		return nil, fmt.Errorf("kubectl %s: %w: %s", args[0], cmp.Or(context.Cause(ctx), err), said)
	}
	return out, nil
}
