package lab

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// image is a built root in the cache, with the kernel and the initramfs parts that machines boot
// from.
type image struct {
	hash string
	dir  string
}

// diskPath returns the file that every node's disk is layered on.
func (i image) diskPath() string { return filepath.Join(i.dir, "root.qcow2") }

// kernelPath returns an uncompressed kernel that starts by PVH.
func (i image) kernelPath() string { return i.partPath("vmlinux") }

// partPath names a piece of an initramfs.
func (i image) partPath(name string) string { return filepath.Join(i.dir, "lab", name) }

// cacheDir returns where images and nodes' disks are.
func cacheDir() (string, error) {
	base, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the cache: %w", err)
	}
	return filepath.Join(base, "culvert"), nil
}

// findImage returns the image of nodes with an addition, or without one. It builds an image that is
// not in the cache. When two callers come at once, one builds and the other waits for it.
func findImage(ctx context.Context, p *Steps, a Addition) (image, error) {
	r, err := newRecipe(a)
	if err != nil {
		return image{}, err
	}
	hash, err := r.hashFiles()
	if err != nil {
		return image{}, fmt.Errorf("hash the image's recipe: %w", err)
	}
	cache, err := cacheDir()
	if err != nil {
		return image{}, err
	}
	images := filepath.Join(cache, "images")
	img := image{hash: hash, dir: filepath.Join(images, hash)}
	if img.isBuilt() {
		img.markUsed()
		return img, nil
	}
	if err := os.MkdirAll(images, 0o755); err != nil {
		return image{}, fmt.Errorf("make the image cache: %w", err)
	}
	unlock, err := lockFile(ctx, filepath.Join(images, ".lock"), func() { p.Step("another build of the image runs: waiting for it") })
	if err != nil {
		return image{}, err
	}
	defer unlock()
	if img.isBuilt() {
		return img, nil
	}
	return img, buildImage(ctx, p, r, img)
}

func (i image) isBuilt() bool { return fileExists(i.diskPath()) }

// imageAge is how long the cache keeps an image that no caller has used.
const imageAge = 7 * 24 * time.Hour

// markUsed notes the use of an image. If that fails, removeOldImages may remove the image, and it
// is built again.
func (i image) markUsed() { _ = os.Chtimes(i.dir, time.Time{}, time.Now()) }

// removeOldImages removes the other images and layers that went unused for imageAge. It ignores
// errors: an image that cannot be removed stays.
func (i image) removeOldImages(now time.Time) {
	others, _ := filepath.Glob(filepath.Join(filepath.Dir(i.dir), "*"))
	for _, dir := range others {
		info, err := os.Stat(dir)
		if err == nil && !strings.HasPrefix(filepath.Base(dir), ".") && dir != i.dir && now.Sub(info.ModTime()) > imageAge {
			_ = os.RemoveAll(dir)
		}
	}
}

// buildImage makes the image in a temporary folder beside its final path, and renames the folder
// when the image is complete. The caller holds the lock of the cache.
func buildImage(ctx context.Context, p *Steps, r recipe, img image) (err error) {
	stale, _ := filepath.Glob(filepath.Join(filepath.Dir(img.dir), "build-*"))
	for _, dir := range stale {
		if err := removeBuild(dir); err != nil {
			return fmt.Errorf("clear what an earlier build left: %w", err)
		}
	}
	dir := filepath.Join(filepath.Dir(img.dir), "build-"+img.hash)
	defer func() { err = errors.Join(err, removeBuild(dir)) }()
	if err := r.writeFiles(filepath.Join(dir, "recipe")); err != nil {
		return fmt.Errorf("lay out the image's recipe: %w", err)
	}
	p.Step("building the image %s (once; kept in %s)", img.hash, filepath.Dir(img.dir))
	uri, err := findMirror(ctx)
	if err != nil {
		return err
	}
	args, err := bootstrapArgs(r, uri)
	if err != nil {
		return err
	}
	if err := runMmdebstrap(ctx, p, dir, args); err != nil {
		return fmt.Errorf("build the image %s: %w", img.hash, err)
	}
	for _, scratch := range []string{"recipe", "tmp"} {
		if err := removeBuild(filepath.Join(dir, scratch)); err != nil {
			return err
		}
	}
	if err := os.Rename(dir, img.dir); err != nil {
		return fmt.Errorf("put the image %s in its place: %w", img.hash, err)
	}
	img.removeOldImages(time.Now())
	p.Step("image %s built", img.hash)
	return nil
}

// bootstrapArgs returns the command line of mmdebstrap, which runs in the build's
// folder: recipe/ is there, lab/ and root.qcow2 are to appear.
func bootstrapArgs(r recipe, uri string) ([]string, error) {
	packages, err := r.readList("packages")
	if err != nil {
		return nil, err
	}
	excludes, err := r.readList("excludes")
	if err != nil {
		return nil, err
	}
	args := []string{
		"--mode=root", "--variant=essential", "--format=null",
		"--keyring=/usr/share/keyrings/debian-archive-keyring.gpg",
		"--include=" + strings.Join(packages, ","),
		"--dpkgopt=force-unsafe-io",
	}
	for _, pattern := range excludes {
		args = append(args, "--dpkgopt=path-exclude="+pattern)
	}
	hooks := []string{
		"echo 'I: preparing the root' >&2",
		"sync-in recipe/tree /",
		"upload recipe/modules /lab-modules",
		"upload recipe/tools /lab-tools",
		"upload recipe/container /lab-container",
	}
	hooks = append(hooks, customizeHooks("recipe/customize.sh")...)
	if r.addition != "" {
		place := "recipe/" + string(r.addition)
		hooks = append(append(hooks, "sync-in "+place+"/tree /"), customizeHooks(place+"/customize.sh")...)
	}
	for _, hook := range append(hooks,
		"copy-out /boot/lab .",
		"echo 'I: writing the disk' >&2",
		// /proc and /sys are mounted while hooks run: the bind mount is the root without them.
		`rm -rf "$1/boot/lab" && mkdir "$1.bind" && mount --bind "$1" "$1.bind"`,
		`mke2fs -q -t ext4 -E lazy_itable_init=1,lazy_journal_init=1 -O ^metadata_csum -d "$1.bind" "$1.ext4" `+diskSize,
		`umount "$1.bind" && rmdir "$1.bind"`,
		`qemu-img convert -f raw -O qcow2 "$1.ext4" "$1/root.qcow2" && rm "$1.ext4"`,
		"download /root.qcow2 root.qcow2",
	) {
		args = append(args, "--customize-hook="+hook)
	}
	return append(args, suite, "/dev/null", uri), nil
}

// customizeHooks returns the hooks that run a script of the recipe on the root.
func customizeHooks(script string) []string {
	return []string{
		"upload " + script + " /lab-customize",
		`cp "$1/lab-customize" "$1.sh" && rm "$1/lab-customize" && sh "$1.sh" "$1" && rm "$1.sh"`,
	}
}

// runMmdebstrap runs mmdebstrap in a PID namespace and a mount namespace, so that none of its
// processes and mounts outlives it.
func runMmdebstrap(ctx context.Context, p *Steps, dir string, args []string) error {
	tmp := filepath.Join(dir, "tmp")
	if err := os.Mkdir(tmp, 0o755); err != nil {
		return err
	}
	cmd := asRoot(ctx, "mmdebstrap", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PATH="+os.Getenv("PATH")+":/usr/sbin:/sbin", "TMPDIR="+tmp)
	errs, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	done := make(chan error, 1)
	onThread(func() {
		if err := cmd.Start(); err != nil {
			done <- err
			return
		}
		tail := followBuild(errs, p)
		if err := cmd.Wait(); err != nil {
			done <- fmt.Errorf("mmdebstrap: %w\n%s", err, tail)
			return
		}
		done <- nil
	})
	return errors.Join(<-done, context.Cause(ctx))
}

// buildStep matches those reported steps of mmdebstrap that take time.
var buildStep = regexp.MustCompile(`^(running apt-get|downloading|extracting|installing|preparing|writing)`)

// asRoot returns a command with a PID namespace and a mount namespace of its own, so that all its
// children die with it. If the caller is not root, it also gets a user namespace, with the users
// that /etc/subuid allots to the caller. The caller must start the command and wait for it within
// [onThread].
func asRoot(ctx context.Context, name string, args ...string) *exec.Cmd {
	if os.Geteuid() == 0 {
		cmd := exec.CommandContext(ctx, name, args...)
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Pdeathsig: syscall.SIGKILL, Cloneflags: unix.CLONE_NEWPID, Unshareflags: unix.CLONE_NEWNS,
		}
		return cmd
	}
	args = append([]string{"--map-root-user", "--map-auto", "--mount", "--pid", "--fork", "--kill-child", "--", name}, args...)
	cmd := exec.CommandContext(ctx, "unshare", args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

// removeBuild removes the folder of a build. If the caller is not root, its files may belong to
// users of the build's user namespace.
func removeBuild(dir string) error {
	err := os.RemoveAll(dir)
	if err == nil || os.Geteuid() == 0 {
		return err
	}
	done := make(chan error, 1)
	onThread(func() { done <- asRoot(context.Background(), "rm", "-rf", dir).Run() })
	return <-done
}

// followBuild shows the steps that mmdebstrap reports, and returns the last lines of its output.
func followBuild(r io.Reader, p *Steps) string {
	var last []string
	in := bufio.NewScanner(r)
	for in.Scan() {
		line := strings.TrimRight(in.Text(), "\r")
		if step, ok := strings.CutPrefix(line, "I: "); ok {
			if buildStep.MatchString(step) {
				p.Step("  %s", strings.TrimRight(step, "."))
			}
			continue
		}
		if last = append(last, line); len(last) > 15 {
			last = last[1:]
		}
	}
	_, _ = io.Copy(io.Discard, r) // a line too long for the scanner must not block the child
	return strings.Join(last, "\n")
}
