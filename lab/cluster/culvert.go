package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Namespace is the namespace into which InstallCulvert installs Culvert.
const Namespace = "culvert-system"

// rolloutTime bounds the start of Culvert on all nodes, on a host with much
// else to do.
const rolloutTime = "--timeout=8m"

// LoadCulvert builds Culvert's image from the source tree at top, and brings it
// to all nodes.
func (c *Cluster) LoadCulvert(ctx context.Context, top string) error {
	dir, err := os.MkdirTemp("", "culvert-image-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	archive := filepath.Join(dir, "culvert.tar")
	if err := BuildCulvert(ctx, top, archive); err != nil {
		return err
	}
	return c.LoadImages(ctx, archive)
}

// manifestImage is the name of the image in dist/kubernetes/culvert.yaml, which labs apply as it is.
const manifestImage = "localhost/culvert:v0.1.0"

// BuildCulvert builds Culvert's image for lab nodes from the source tree at top.
func BuildCulvert(ctx context.Context, top, archive string) error {
	build := exec.CommandContext(ctx, "tools/go", "run", "./tools/image", "-arch", "amd64", "-go", "any", "-version", describeTree(ctx, top),
		"-name", manifestImage, "-out", archive)
	build.Dir = top
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build the image: %w\n%s", err, out)
	}
	return nil
}

// describeTree returns the version of a source tree as the Makefile has it.
func describeTree(ctx context.Context, top string) string {
	out, err := exec.CommandContext(ctx, "git", "-C", top, "describe", "--tags", "--always", "--dirty").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}

// InstallCulvert installs Culvert as docs/kubernetes.md does, with an image that is
// loaded: it applies the manifests of the source tree at top, and waits until Culvert
// runs. A CRD of NetworkAttachmentDefinitions that is there stays as it is.
func (c *Cluster) InstallCulvert(ctx context.Context, top string) error {
	dir := filepath.Join(top, "dist/kubernetes")
	there, err := c.Kubectl(ctx, "get", "crd", "network-attachment-definitions.k8s.cni.cncf.io", "--ignore-not-found", "--output", "name")
	if err == nil && strings.TrimSpace(string(there)) == "" {
		_, err = c.Kubectl(ctx, "create", "-f", filepath.Join(dir, "network-attachment-definitions.yaml"))
	}
	if err != nil {
		return err
	}
	if _, err := c.Kubectl(ctx, "apply", "--server-side", "-f", filepath.Join(dir, "culvert.yaml")); err != nil {
		return err
	}
	return c.AwaitCulvert(ctx)
}

// AwaitCulvert waits until the present versions of culvertd, on all nodes, and of the
// controller run.
func (c *Cluster) AwaitCulvert(ctx context.Context) error {
	for _, program := range []string{"daemonset/culvertd", "deployment/culvert-controller"} {
		if _, err := c.Kubectl(ctx, "--namespace", Namespace, "rollout", "status", program, rolloutTime); err != nil {
			return err
		}
	}
	return nil
}

// Get decodes the output of `kubectl get ARGS -o json`.
func (c *Cluster) Get(ctx context.Context, into any, args ...string) error {
	out, err := c.Kubectl(ctx, append([]string{"get", "--output", "json"}, args...)...)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(out, into); err != nil {
		return fmt.Errorf("read what kubectl get printed: %w", err)
	}
	return nil
}
