//go:build kubernetes

// Package kubernetes installs Culvert on a real cluster of two lab nodes, as
// people do, and applies the manifests that they have.
package kubernetes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/culvert-net/culvert/lab"
	"github.com/culvert-net/culvert/lab/cluster"
)

// k8s is the cluster of all tests here, with Culvert installed.
var k8s *cluster.Cluster

const (
	namespace = "culvert-system"
	// soon is how long something may take that is under way, on an emulated
	// node that others keep busy.
	soon = 4 * time.Minute
)

func TestMain(m *testing.M) {
	lab.Reexec()
	os.Exit(run(m))
}

func run(m *testing.M) (status int) {
	ctx := context.Background()
	down, err := up(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, errors.Join(err, down()))
		return 1
	}
	defer func() {
		if err := down(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			status = 1
		}
	}()
	return m.Run()
}

// up brings up the cluster and Culvert on it; down takes away what there is.
func up(ctx context.Context) (down func() error, err error) {
	name := fmt.Sprintf("kubernetes-%d", os.Getpid())
	down = func() error { return nil }
	top, err := filepath.Abs("../..")
	if err != nil {
		return down, err
	}
	k8s, err = cluster.Up(ctx, cluster.Options{Source: top, Lab: lab.Options{Name: name, Nodes: 2, Progress: os.Stdout}})
	if err != nil {
		return down, err
	}
	down = func() error { return errors.Join(k8s.Close(), lab.Down(context.WithoutCancel(ctx), name)) }
	return down, install(ctx, top)
}

// install does what docs/kubernetes.md says.
func install(ctx context.Context, top string) error {
	dir, err := os.MkdirTemp("", "culvert-image-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	archive := filepath.Join(dir, "culvert.tar")
	build := exec.CommandContext(ctx, "tools/go", "run", "./tools/image", "-arch", "amd64", "-out", archive)
	build.Dir = top
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build the image: %w\n%s", err, out)
	}
	if err := k8s.LoadImages(ctx, archive); err != nil {
		return err
	}
	for _, args := range [][]string{
		{"apply", "--server-side", "-f", filepath.Join(top, "dist/kubernetes/culvert.yaml")},
		{"-n", namespace, "rollout", "status", "daemonset/culvertd", "--timeout=5m"},
		{"-n", namespace, "rollout", "status", "deployment/culvert-controller", "--timeout=5m"},
		{"apply", "-f", "testdata/policy.yaml"},
	} {
		if _, err := k8s.Kubectl(ctx, args...); err != nil {
			return errors.Join(err, errors.New(state(ctx)))
		}
	}
	return nil
}

// state is what a person would look at first.
func state(ctx context.Context) string {
	var all []string
	for _, args := range []string{
		"get nodes,nodepolicies,nodestates,addresspools -o wide", "get pods -A -o wide",
		"get events -A --field-selector type=Warning", "-n " + namespace + " logs daemonset/culvertd --tail=40",
		"-n " + namespace + " logs deployment/culvert-controller --tail=40",
	} {
		out, err := k8s.Kubectl(ctx, strings.Fields(args)...)
		all = append(all, "kubectl "+args, string(out))
		if err != nil {
			all = append(all, err.Error())
		}
	}
	return strings.Join(all, "\n")
}

// kubectl runs it, and ends the test when it fails.
func kubectl(t *testing.T, args ...string) string {
	t.Helper()
	out, err := k8s.Kubectl(t.Context(), args...)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// eventually tries until it is done, and else tells the cluster's state.
func eventually(t *testing.T, what string, try func() error) {
	t.Helper()
	var err error
	for deadline := time.Now().Add(soon); ; time.Sleep(time.Second) {
		if err = try(); err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: not after %s: %v\n%s", what, soon, err, state(t.Context()))
		}
	}
}

// object is the part of a Kubernetes object that the tests look at.
type object struct {
	Metadata struct {
		Name        string            `json:"name"`
		Annotations map[string]string `json:"annotations"`
	} `json:"metadata"`
	Spec struct {
		NodeName string `json:"nodeName"`
	} `json:"spec"`
	Status struct {
		Phase       string            `json:"phase"`
		Allocatable map[string]string `json:"allocatable"`
	} `json:"status"`
}

// objects lists them.
func objects(t *testing.T, args ...string) []object {
	t.Helper()
	var list struct {
		Items []object `json:"items"`
	}
	if err := json.Unmarshal([]byte(kubectl(t, append(args, "-o", "json")...)), &list); err != nil {
		t.Fatal(err)
	}
	return list.Items
}
