// Package programs compiles Culvert's programs as the image, the packages and a release ship them.
package programs

import (
	"context"
	"fmt"
	"os"
	"os/exec"
)

// Compile builds the programs of those names for an architecture into the folder bin. They are
// static, without paths of the machine that builds them and without facts of git. The caller's
// flags for Go have no effect on them, so that one Go makes the same bytes everywhere.
func Compile(ctx context.Context, bin, arch, version string, names ...string) error {
	args := []string{"build", "-trimpath", "-ldflags", "-s -w -X main.version=" + version, "-o", bin + "/"}
	for _, name := range names {
		args = append(args, "./cmd/"+name)
	}
	cmd := exec.CommandContext(ctx, "tools/go", args...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch,
		"GOAMD64=v1", "GOARM64=v8.0", "GOFIPS140=off", "GOWORK=off",
		"GOFLAGS=-buildvcs=false") // tools/go adds flags of its own
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the programs for %s: %w\n%s", arch, err, out)
	}
	return nil
}
