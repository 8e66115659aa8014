package node

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Parts are folders of this host with the programs that nodes get.
type Parts struct {
	Top string // the source tree, with build/bin in it
	CNI string // cnitool, bridge, host-local
}

// cniModule is the module, within the source tree, that names the CNI
// project's parts and their versions.
const cniModule = "test/tools/cni"

// FindParts finds the programs of the source tree at top. The CNI project's
// are built from their Go modules when the cache has none of this version;
// step is told then.
func FindParts(ctx context.Context, top string, step func(string)) (Parts, error) {
	top, err := filepath.Abs(top)
	if err != nil {
		return Parts{}, err
	}
	p := Parts{Top: top}
	for _, program := range []string{"culvert", "culvertd", "culvert-cni"} {
		if _, err := os.Stat(filepath.Join(top, "build/bin", program)); err != nil {
			return p, fmt.Errorf("find Culvert's programs: %w: run make build in the source tree first", err)
		}
	}
	if p.CNI, err = cniPlace(ctx, top); err != nil {
		return p, err
	}
	if _, err := os.Stat(p.CNI); err == nil {
		return p, nil
	}
	step("building the CNI project's plugins (once; kept in " + filepath.Dir(p.CNI) + ")")
	return p, p.buildCNI(ctx)
}

// cniPlace names the folder in the cache that holds the module's programs, by
// all that decides what they are.
func cniPlace(ctx context.Context, top string) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the cache: %w", err)
	}
	sum := sha256.New()
	for _, name := range []string{"go.mod", "go.sum"} {
		body, err := os.ReadFile(filepath.Join(top, cniModule, name))
		if err != nil {
			return "", fmt.Errorf("find the CNI project's parts: %w: %s is not Culvert's source tree", err, top)
		}
		fmt.Fprintf(sum, "%s %d\n%s", name, len(body), body)
	}
	version, err := goTool(ctx, top, "env", "GOVERSION")
	if err != nil {
		return "", err
	}
	sum.Write(version)
	return filepath.Join(cache, "culvert", "parts", "cni-"+hex.EncodeToString(sum.Sum(nil))[:12]), nil
}

// buildCNI builds beside the place and renames: of two builds at once one
// stays.
func (p Parts) buildCNI(ctx context.Context) error {
	parent := filepath.Dir(p.CNI)
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(parent, "build-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	out := filepath.Join(dir, "bin")
	if _, err := goTool(ctx, p.Top, "build", "-trimpath", "-ldflags=-s -w", "-o", out+"/", "tool"); err != nil {
		return fmt.Errorf("build the CNI project's parts: %w", err)
	}
	if err := os.Rename(out, p.CNI); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return nil
}

// goTool runs the tree's Go within the module of the CNI project's parts.
func goTool(ctx context.Context, top string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(top, "tools/go"), args...)
	cmd.Dir = filepath.Join(top, cniModule)
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "GOFLAGS=") }),
		"CGO_ENABLED=0", "GOWORK=off", "GOOS=linux")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go %s: %w: %s", args[0], errors.Join(err, ctx.Err()), tail(strings.TrimSpace(stderr.String())))
	}
	return bytes.TrimSpace(out), nil
}
