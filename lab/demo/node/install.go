package node

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/culvert-net/culvert/lab/parts"
)

// Stage lays out what a node gets in dir: Culvert, and the CNI project's parts beside it.
func (p Parts) Stage(ctx context.Context, dir, hostYAML string) error {
	if err := p.StageCulvert(ctx, dir, hostYAML); err != nil {
		return err
	}
	programs, err := os.ReadDir(p.CNI)
	if err != nil {
		return err
	}
	for _, e := range programs {
		if err := parts.Copy(filepath.Join(p.CNI, e.Name()), filepath.Join(dir, "opt/cni/bin", e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// StageCulvert lays out Culvert in dir, by its own `culvert host install`, with hostYAML.
func (p Parts) StageCulvert(ctx context.Context, dir, hostYAML string) error {
	if err := os.MkdirAll(filepath.Join(dir, "opt/cni/bin"), 0o755); err != nil { // a host with container runtimes
		return err
	}
	cmd := exec.CommandContext(ctx, filepath.Join(p.Top, "build/bin/culvert"), "host", "install", "--root", dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("install Culvert into %s: %w: %s", dir, err, lastPart(string(bytes.TrimSpace(out))))
	}
	return os.WriteFile(filepath.Join(dir, "etc/culvert/host.yaml"), []byte(hostYAML), 0o644)
}

// Install lays a staged tree over the node's root and starts culvertd. It
// returns when culvertd says that it is ready: the VFs are made.
func (n Node) Install(ctx context.Context, stage string) error {
	if err := n.Lab.LayOver(ctx, n.Name, stage); err != nil {
		return fmt.Errorf("install Culvert on %s: %w", n.Name, err)
	}
	_, err := n.Run(ctx, "systemctl", "enable", "--quiet", "--now", "culvertd") // enable reloads the units
	return err
}

// LastWords returns the latest lines that culvertd logged.
func (n Node) LastWords(ctx context.Context) (string, error) {
	out, err := n.Run(ctx, "journalctl", "--no-pager", "--unit", "culvertd", "--lines", "20", "--output", "cat")
	return string(out), err
}
