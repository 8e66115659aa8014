package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/culvert-net/culvert/internal/durable"
	"github.com/culvert-net/culvert/tools/linked"
	"github.com/culvert-net/culvert/tools/manifests"
	"github.com/culvert-net/culvert/tools/programs"
)

// release is one release to make.
type release struct {
	Top                                   string // the source tree
	Out, Version, Image, URL, Key, VulnDB string
	Go                                    string
	Archs, Programs                       []string

	commit string
	when   time.Time // of the commit, and of every file
	bin    string    // the programs, in a folder for each architecture
	dir    string    // the files, until all are there
}

// everyProgram has the programs of the archives, packages and image.
var everyProgram = []string{"culvert", "culvertd", "culvert-cni", "culvert-hook", "culvert-controller", "culvert-bench", "culvert-esxi", "culvert-lab"}

// make makes the release in a folder beside its final one, and renames it when all of it is there.
func (r release) make(ctx context.Context) error {
	notes, err := r.check(ctx)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(r.Out, 0o755); err != nil {
		return err
	}
	final := filepath.Join(r.Out, r.Version)
	if _, err := os.Lstat(final); err == nil {
		return fmt.Errorf("%s is there already: remove it, or choose another -out", final)
	}
	work, err := os.MkdirTemp(r.Out, ".culvert-*.tmp")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	r.bin, r.dir = filepath.Join(work, "bin"), filepath.Join(work, r.Version)
	if err := os.Mkdir(r.dir, 0o755); err != nil {
		return err
	}
	if err := r.makeFiles(ctx, notes); err != nil {
		return err
	}
	if err := durable.Rename(r.dir, final); err != nil {
		return err
	}
	fmt.Printf("%s\n  verify it: docs/install.md, \"From a release\"\n", final)
	return nil
}

// check returns the notes of the release, or why there can be no release.
func (r *release) check(ctx context.Context) (notes []byte, err error) {
	if !regexp.MustCompile(`^v\d+\.\d+\.\d+(-[0-9a-z.]+)?$`).MatchString(r.Version) {
		return nil, fmt.Errorf("version %q: want one like v0.1.0: make release VERSION=v0.1.0", r.Version)
	}
	if r.VulnDB == "" {
		return nil, errors.New("no database of vulnerabilities: name one by GOVULNDB=URL or -vulndb URL, or choose -vulndb none")
	}
	if err := r.checkSecurity(); err != nil {
		return nil, err
	}
	changes, err := os.ReadFile(filepath.Join(r.Top, "CHANGELOG.md"))
	if err != nil {
		return nil, err
	}
	if notes, err = cutNotes(changes, r.Version); err != nil {
		return nil, err
	}
	changed, err := r.git(ctx, "status", "--porcelain")
	if err != nil {
		return nil, err
	}
	if changed != "" {
		return nil, fmt.Errorf("the sources are not committed: commit these first:\n%s", changed)
	}
	if r.commit, err = r.git(ctx, "rev-parse", "HEAD"); err != nil {
		return nil, err
	}
	at, err := r.git(ctx, "log", "-1", "--format=%cI")
	if err != nil {
		return nil, err
	}
	r.when, err = time.Parse(time.RFC3339, at)
	r.when = r.when.UTC()
	return notes, err
}

// checkSecurity returns an error unless SECURITY.md has an address for reports.
func (r release) checkSecurity() error {
	text, err := os.ReadFile(filepath.Join(r.Top, "SECURITY.md"))
	if err != nil {
		return err
	}
	found := regexp.MustCompile(`(?m)^Address for reports: *(.*)$`).FindSubmatch(text)
	if len(found) < 2 || !bytes.ContainsAny(found[1], "@/") {
		return errors.New("SECURITY.md has no address for reports: write it into the line \"Address for reports:\", a mail address or a URL")
	}
	return nil
}

// cutNotes returns the section of a version of CHANGELOG.md.
func cutNotes(changes []byte, version string) ([]byte, error) {
	heading := regexp.MustCompile(`(?m)^## \[` + regexp.QuoteMeta(strings.TrimPrefix(version, "v")) + `\].*\n`)
	at := heading.FindIndex(changes)
	if at == nil {
		return nil, fmt.Errorf("CHANGELOG.md has no section \"## [%s]\": give the section [Unreleased] that heading, and a date", strings.TrimPrefix(version, "v"))
	}
	notes := changes[at[1]:]
	if end := bytes.Index(notes, []byte("\n## [")); end >= 0 {
		notes = notes[:end+1]
	}
	return fmt.Appendf(nil, "# Culvert %s\n\n%s\n", version, bytes.TrimSpace(notes)), nil
}

func (r release) git(ctx context.Context, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, "git", append([]string{"-C", r.Top}, args...)...).Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w", strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out)), nil
}

// makeFiles makes all files in r.dir, the signed list of their checksums last.
func (r release) makeFiles(ctx context.Context, notes []byte) error {
	if r.VulnDB != "none" {
		if err := r.run(ctx, []string{"GOVULNDB=" + r.VulnDB}, "tools/vuln"); err != nil {
			return err
		}
	}
	for _, arch := range r.Archs {
		if err := programs.Compile(ctx, r.abs(r.bin, arch), arch, r.Version, r.Programs...); err != nil {
			return err
		}
	}
	for _, step := range []func(context.Context) error{r.packPrograms, r.buildPackages, r.buildImage, r.writeChart, r.writeKrew, r.writeSBOM} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	if err := r.write("NOTES.md", notes); err != nil {
		return err
	}
	if err := r.writeProvenance(ctx); err != nil {
		return err
	}
	return r.writeSums(ctx)
}

// run runs a tool of the tree with the time of the commit, and shows its output.
func (r release) run(ctx context.Context, env []string, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = r.Top, os.Stdout, os.Stderr
	cmd.Env = append(append(os.Environ(), fmt.Sprintf("SOURCE_DATE_EPOCH=%d", r.when.Unix())), env...)
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err)
	}
	return nil
}

func (r release) write(name string, body []byte) error {
	return os.WriteFile(filepath.Join(r.dir, name), body, 0o644)
}

// abs returns a path that tools with another working folder find.
func (r release) abs(parts ...string) string {
	path, err := filepath.Abs(filepath.Join(parts...))
	if err != nil {
		return filepath.Join(parts...)
	}
	return path
}

// packPrograms makes an archive of the programs for each architecture, with the licences of what
// they link.
func (r release) packPrograms(ctx context.Context) error {
	for _, arch := range r.Archs {
		licences, err := linked.Texts(ctx, r.Top, r.programsFor(arch))
		if err != nil {
			return err
		}
		licence, err := os.ReadFile(filepath.Join(r.Top, "LICENSE"))
		if err != nil {
			return err
		}
		folder := "culvert-" + r.Version + "-linux-" + arch + "/"
		entries := []entry{{folder + "LICENSE", licence, 0o644}, {folder + "LICENSES.linked", licences, 0o644}}
		for _, name := range r.Programs {
			body, err := os.ReadFile(filepath.Join(r.bin, arch, name))
			if err != nil {
				return err
			}
			entries = append(entries, entry{folder + name, body, 0o755})
		}
		packed, err := packTar(entries, r.when)
		if err != nil {
			return err
		}
		if err := r.write(r.archiveName(arch), packed); err != nil {
			return err
		}
	}
	return nil
}

func (r release) archiveName(arch string) string {
	return "culvert-" + r.Version + "-linux-" + arch + ".tar.gz"
}

func (r release) programsFor(arch string) []string {
	var all []string
	for _, name := range r.Programs {
		all = append(all, filepath.Join(r.bin, arch, name))
	}
	return all
}

func (r release) buildPackages(ctx context.Context) error {
	for _, arch := range r.Archs {
		err := r.run(ctx, nil, "tools/go", "run", "./tools/packages", "-version", r.Version, "-arch", arch, "-bin", r.abs(r.bin, arch), "-out", r.abs(r.dir), "deb", "rpm")
		if err != nil {
			return err
		}
	}
	return nil
}

// buildImage makes the image, and the manifests that name it.
func (r release) buildImage(ctx context.Context) error {
	args := []string{
		"run", "./tools/image", "-version", r.Version, "-revision", r.commit, "-bin", r.abs(r.bin), "-arch", strings.Join(r.Archs, ","),
		"-name", r.imageName(), "-out", r.abs(r.dir, "culvert-"+r.Version+"-image.tar"),
	}
	if r.Go != "" {
		args = append(args, "-go", r.Go)
	}
	if err := r.run(ctx, nil, "tools/go", args...); err != nil {
		return err
	}
	reference, err := r.reference()
	if err != nil {
		return err
	}
	if err := manifests.Write(filepath.Join(r.Top, "dist/kubernetes"), r.dir, reference); err != nil {
		return err
	}
	for _, name := range []string{"network-attachment-definitions.yaml", "device-classes.yaml"} {
		text, err := os.ReadFile(filepath.Join(r.Top, "dist/kubernetes", name))
		if err != nil {
			return err
		}
		if err := r.write(name, text); err != nil {
			return err
		}
	}
	return nil
}

// imageName returns the image's name with its tag.
func (r release) imageName() string {
	if r.Image == "" {
		return "localhost/culvert:" + r.Version
	}
	return r.Image + ":" + r.Version
}

// reference returns the image's name for manifests. An image of a registry has its digest there.
// A node that imported an archive finds the image by its tag. It finds it by its digest only after the
// import of docs/air-gapped.md.
func (r release) reference() (string, error) {
	if r.Image == "" {
		return r.imageName(), nil
	}
	digest, err := readDigest(filepath.Join(r.dir, "culvert-"+r.Version+"-image.tar"))
	return r.imageName() + "@" + digest, err
}

// writeChart packs the chart with the version and the image of the release.
func (r release) writeChart(context.Context) error {
	reference, err := r.reference()
	if err != nil {
		return err
	}
	top := filepath.Join(r.Top, "dist/kubernetes/chart")
	version := strings.TrimPrefix(r.Version, "v")
	var entries []entry
	err = walkFiles(top, func(name, file string) error {
		body, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		switch name {
		case "values.yaml", "files/values.yaml", "values.schema.json", "README.md":
			body, err = manifests.NameImage(body, reference)
		case "Chart.yaml":
			body = regexp.MustCompile(`(?m)^version: .*$`).ReplaceAll(body, []byte("version: "+version))
			body = regexp.MustCompile(`(?m)^appVersion: .*$`).ReplaceAll(body, []byte("appVersion: "+r.Version))
		}
		entries = append(entries, entry{"culvert/" + name, body, 0o644})
		return err
	})
	if err != nil {
		return err
	}
	slices.SortFunc(entries, func(a, b entry) int { return strings.Compare(a.name, b.name) })
	packed, err := packTar(entries, r.when)
	if err != nil {
		return err
	}
	return r.write("culvert-"+version+".tgz", packed)
}

// walkFiles visits the files of a folder, also through links, as helm package does.
func walkFiles(top string, visit func(name, file string) error) error {
	entries, err := os.ReadDir(top)
	if err != nil {
		return err
	}
	for _, e := range entries {
		file := filepath.Join(top, e.Name())
		info, err := os.Stat(file)
		if err != nil {
			return err
		}
		if info.IsDir() {
			err = walkFiles(file, func(name, file string) error { return visit(e.Name()+"/"+name, file) })
		} else {
			err = visit(e.Name(), file)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
