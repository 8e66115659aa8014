package cluster

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/culvert-net/culvert/lab"
	"github.com/culvert-net/culvert/lab/parts"
)

// builtImages returns the images that every node gets: that of sandboxes, and those that
// the manifests of reports R0 and R1 name. The latter are made of Debian's packages, and
// have the programs that the manifests need.
func builtImages(root string) []Image {
	base := []Layer{{root, "/"}}
	return []Image{
		// No shell runs in it, and it gets no zombies but those of pods whose
		// containers share its PID namespace.
		{Name: "localhost/pause:1", Entrypoint: []string{"/usr/bin/sleep", "infinity"}, Layers: base},
		{Name: "docker.io/centos/tools:latest", Cmd: []string{"/bin/bash"}, Layers: base},
		{Name: "docker.io/networkstatic/iperf3:latest", Entrypoint: []string{"iperf3"}, Layers: base},
		{Name: "gcr.io/google-samples/node-hello:1.0", Cmd: []string{"busybox", "httpd", "-f", "-p", "8080", "-h", "/srv"}, Layers: base},
		{Name: "localhost/rockylinux8.6:latest", Cmd: []string{"/bin/bash"}, Layers: base},
	}
}

// nodeSoftware returns the software on the disks of all nodes: Kubernetes, the default network, the
// CNI project's plugins, and the images.
func nodeSoftware(parts Parts, n CNI) (*lab.Layer, error) {
	places, err := nodePrograms(parts, n)
	if err != nil {
		return nil, err
	}
	images := func(root string) ([]Image, error) {
		if !n.isCalico() {
			return builtImages(root), nil
		}
		calico, err := calicoImages(parts, root)
		return append(builtImages(root), calico...), err
	}
	without, err := images("")
	if err != nil {
		return nil, err
	}
	// The names of the parts' folders depend on their content.
	body, err := json.Marshal([]any{places, without})
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(body)
	return &lab.Layer{
		Name: "kubernetes-" + hex.EncodeToString(sum[:6]),
		Install: func(ctx context.Context, l *lab.Lab, node string, step func(string, ...any)) error {
			step("copying Kubernetes and plugins to it")
			if err := installPrograms(ctx, l, node, places); err != nil {
				return fmt.Errorf("install Kubernetes: %w", err)
			}
			step("importing %d images", len(without))
			return installImages(ctx, l, node, parts.Runtime, images)
		},
	}, nil
}

// nodePrograms returns the programs of all nodes: from a file of this host to a place of
// the node.
func nodePrograms(parts Parts, n CNI) (map[string]string, error) {
	places := map[string]string{
		filepath.Join(parts.Kubernetes, "kubelet"):    "usr/local/bin/kubelet",
		filepath.Join(parts.Kubernetes, "kube-proxy"): "usr/local/bin/kube-proxy",
	}
	if !n.isCalico() { // Calico's come in images
		places[filepath.Join(parts.Flannel, "flannel")] = "usr/local/bin/flanneld"
		places[filepath.Join(parts.FlannelCNI, "flannel")] = "opt/cni/bin/flannel"
	}
	if parts.Runtime == CRIO {
		for _, program := range []string{"crio", "pinns"} {
			places[filepath.Join(parts.CRIO, program)] = "usr/local/bin/" + program
		}
	}
	plugins, err := os.ReadDir(parts.CNI)
	for _, plugin := range plugins {
		places[filepath.Join(parts.CNI, plugin.Name())] = filepath.Join("opt/cni/bin", plugin.Name())
	}
	return places, err
}

// installPrograms puts programs at their places of a node.
func installPrograms(ctx context.Context, l *lab.Lab, node string, places map[string]string) (err error) {
	stage := filepath.Join(l.Folder(), "stage")
	defer func() { err = errors.Join(err, os.RemoveAll(stage)) }()
	for from, to := range places {
		if err := parts.Copy(from, filepath.Join(stage, to)); err != nil {
			return err
		}
	}
	return l.LayOver(ctx, node, stage)
}

// installImages makes the images and imports them. The runtime does not run afterwards.
func installImages(ctx context.Context, l *lab.Lab, node string, runtime Runtime, images func(root string) ([]Image, error)) error {
	root, err := l.ContainerRoot()
	if err != nil {
		return err
	}
	all, err := images(root)
	if err != nil {
		return err
	}
	archive := filepath.Join(l.Folder(), "images.tar")
	f, err := os.Create(archive)
	if err != nil {
		return err
	}
	defer os.Remove(archive)
	err = WriteImages(f, all...)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	if runtime == CRIO {
		return loadImages(ctx, l, node, runtime, archive)
	}
	if err := runScript(ctx, l, node, "systemctl start containerd"); err != nil {
		return err
	}
	if err := loadImages(ctx, l, node, runtime, archive); err != nil {
		return err
	}
	return runScript(ctx, l, node, "systemctl stop containerd")
}

// LoadImages imports an archive of container images, as WriteImages or docker save make it,
// on the named nodes, or on all nodes.
func (c *Cluster) LoadImages(ctx context.Context, archive string, nodes ...string) error {
	if len(nodes) == 0 {
		all, err := c.Lab.Nodes()
		if err != nil {
			return err
		}
		for _, n := range all {
			nodes = append(nodes, n.Name)
		}
	}
	g, ctx := errgroup.WithContext(ctx)
	for _, node := range nodes {
		g.Go(func() error { return loadImages(ctx, c.Lab, node, c.Parts.Runtime, archive) })
	}
	return g.Wait()
}

func loadImages(ctx context.Context, l *lab.Lab, node string, runtime Runtime, archive string) error {
	const place = "/var/tmp/images.tar"
	err := l.Copy(ctx, node, archive, place)
	if err == nil {
		err = runScript(ctx, l, node, runtime.loadScript(place)+"\nrm "+place)
	}
	if err != nil {
		return fmt.Errorf("load the images %s on %s: %w", archive, node, err)
	}
	return nil
}

// runScript runs a shell script on a node, up to the first command that fails.
func runScript(ctx context.Context, l *lab.Lab, node, script string) error {
	var said bytes.Buffer
	exit, err := l.Exec(ctx, node, lab.Cmd{Argv: []string{"sh", "-euc", script}, Stdout: &said, Stderr: &said})
	if err == nil && exit != 0 {
		err = fmt.Errorf("exit status %d: %s", exit, strings.TrimSpace(said.String()))
	}
	return err
}
