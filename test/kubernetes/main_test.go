//go:build kubernetes

// Package kubernetes installs Culvert on real clusters of lab nodes, as people
// do, and applies the manifests that they have. The tests of one kind of cluster
// share it, in the order of the files: [bare], which becomes [twoNodes], then
// [byHand], then [besideMultus]. Jobs of their own run those of [besideCalico] and [onCRIO].
package kubernetes

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/culvert-net/culvert/lab"
	"github.com/culvert-net/culvert/lab/cluster"
)

// A site is a cluster with Culvert installed in one way, or without it.
type site struct {
	names   []string                                            // of its nodes
	cni     cluster.CNI                                         // of its pods; empty: Flannel
	runtime cluster.Runtime                                     // empty: containerd
	version cluster.Version                                     // of Kubernetes; empty: that of -kubernetes-version
	install func(ctx context.Context, c *cluster.Cluster) error // nil: nothing is
	policy  string                                              // a file to apply afterwards, or nothing
	joined  bool                                                // all PFs are on one segment
}

// labPolicy makes the VFs of the emulated NICs.
const labPolicy = "testdata/policy.yaml"

// twoNodes has Culvert from the one manifest, which serves all networks of pods.
var twoNodes = &site{names: []string{"worker01", "worker02"}, install: func(ctx context.Context, c *cluster.Cluster) error {
	return c.InstallCulvert(ctx, top)
}, policy: labPolicy}

const top = "../.."

var kubernetesVersion = flag.String("kubernetes-version", string(cluster.Current), "`version` of Kubernetes of the clusters whose tests name none")

// k8s is the cluster that is up. there is the site that it belongs to.
var (
	k8s   *cluster.Cluster
	there *site
)

func TestMain(m *testing.M) {
	lab.Reexec()
	status := m.Run()
	if err := leave(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		status = 1
	}
	os.Exit(status)
}

// need brings a site up, unless it is up, and takes any other site down.
func need(t *testing.T, s *site) {
	t.Helper()
	if there == s {
		return
	}
	if err := leave(); err != nil {
		t.Fatal(err)
	}
	if err := enter(s); err != nil {
		t.Fatal(errors.Join(err, leave()))
	}
	there = s
}

func enter(s *site) (err error) {
	ctx := context.Background()
	from, err := filepath.Abs(top)
	if err != nil {
		return err
	}
	name := fmt.Sprintf("kubernetes-%d", os.Getpid())
	k8s, err = cluster.Up(ctx, cluster.Options{Source: from, CNI: s.cni, Runtime: s.runtime, Version: cmp.Or(s.version, cluster.Version(*kubernetesVersion)), Lab: lab.Options{Name: name, Names: s.names, JoinWires: s.joined, Progress: os.Stdout, Bound: true}})
	if err != nil {
		return err
	}
	if s.install == nil {
		return nil
	}
	if err := k8s.LoadCulvert(ctx, top); err != nil {
		return err
	}
	for _, node := range s.names { // for the scripts of the tests; the installation does not need it
		if err := k8s.Lab.Copy(ctx, node, top+"/build/bin/culvert", "/usr/local/bin/culvert"); err != nil {
			return err
		}
	}
	if err = s.install(ctx, k8s); err == nil && s.policy != "" {
		_, err = k8s.Kubectl(ctx, "apply", "-f", s.policy)
	}
	if err != nil {
		return errors.Join(err, errors.New(state()))
	}
	return nil
}

// leave takes down the cluster that is up, and reports processes that it leaves.
func leave() error {
	there = nil
	if k8s == nil {
		return nil
	}
	name := k8s.Lab.Name()
	err := k8s.Lab.Down(context.Background())
	k8s = nil
	procs, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, proc := range procs {
		if line, _ := os.ReadFile(proc); strings.Contains(string(line), "/"+name) {
			err = errors.Join(err, fmt.Errorf("the cluster leaves %s: %q", filepath.Dir(proc), line))
		}
	}
	return err
}

// state returns the parts of the cluster's state that a person would look at
// first.
func state() string {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var all []string
	for _, args := range []string{
		"get nodes,nodepolicies,nodestates,addresspools -o wide", "get pods -A -o wide",
		"get pods -o custom-columns=NAME:.metadata.name,REASON:.status.reason,LIMITS:.spec.containers[*].resources.limits",
		"get events -A --field-selector type=Warning", "-n " + cluster.Namespace + " logs -l app.kubernetes.io/name=culvertd --tail=40 --prefix",
		"-n " + cluster.Namespace + " logs deployment/culvert-controller --tail=40",
	} {
		out, err := k8s.Kubectl(ctx, strings.Fields(args)...)
		all = append(all, "kubectl "+args, string(out))
		if err != nil {
			all = append(all, err.Error())
		}
	}
	nodes, err := k8s.Lab.Nodes()
	all = append(all, fmt.Sprintf("%d nodes: %v", len(nodes), err))
	for _, n := range nodes { // a kubelet that was just started fails pods for good
		out, err := tryOn(n.Name, "systemctl show kubelet --property NRestarts")
		all = append(all, fmt.Sprintf("kubelet of %s: %s %v", n.Name, strings.TrimSpace(out), err))
	}
	log, _ := os.ReadFile(k8s.AuditLog) // an API server that has just started has none
	for line := range strings.Lines(string(log)) {
		if strings.Contains(line, "failed-open.mutating.webhook") {
			all = append(all, "made without a webhook: "+line)
		}
	}
	return strings.Join(all, "\n")
}
