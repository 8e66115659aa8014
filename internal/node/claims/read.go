package claims

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/culvert-net/culvert/internal/vf"
)

// These constants bound the reading of other programs' files.
const (
	maxFile  = 1 << 20
	maxFiles = 1000 // of one folder
)

// Rules are the files of all managers, parsed.
type Rules struct {
	nm       nmRules
	networkd networkdRules
	netplan  netplanRules
	ifupdown ifupdownRules
	byHand   []handLine
}

// Read parses the files below the root of a host: os.DirFS("/") outside of
// tests. A file that cannot be read is in the error, and the others are still
// in the rules.
func Read(root fs.FS) (Rules, error) {
	l := loader{root: root}
	r := Rules{
		netplan:  readNetplan(&l),
		ifupdown: readIfupdown(&l),
		byHand:   readByHand(&l),
	}
	r.networkd = readNetworkd(&l)
	r.nm = readNM(&l)
	return r, errors.Join(l.errs...)
}

// On returns the claims on the PFs and on those of their VFs that are on the
// host, ordered by PF, file and line.
func (r Rules) On(pfs []vf.PF) []Claim {
	devices := Devices(pfs)
	var all []Claim
	for _, d := range devices {
		all = append(all, r.nm.claimsOn(d, r.ifupdown)...)
		all = append(all, r.networkd.claimsOn(d)...)
		all = append(all, r.netplan.claimsOn(d)...)
		all = append(all, r.ifupdown.claimsOn(d)...)
	}
	return mergeClaims(append(all, onByHand(r.byHand, devices)...))
}

// Reader reads the files again only when one of them has changed.
type Reader struct {
	Root fs.FS

	mu     sync.Mutex // guards the fields below
	stamps string
	rules  Rules
	err    error
}

// Rules returns the result of Read. It lists the files at each call, and reads them again only if a
// name, a size or a time has changed.
func (r *Reader) Rules() (Rules, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := loader{root: r.Root, listOnly: true}
	readNetplan(&l)
	readIfupdown(&l)
	readByHand(&l)
	readNetworkd(&l)
	readNM(&l)
	if stamps := l.stamps.String(); r.stamps == "" || stamps != r.stamps {
		r.stamps = stamps
		r.rules, r.err = Read(r.Root)
	}
	return r.rules, r.err
}

// loader lists and reads files, and keeps the errors.
type loader struct {
	root     fs.FS
	listOnly bool // note names, sizes and times instead of reading
	sources  bool // with listOnly, read all the same, since the text names other files
	stamps   strings.Builder
	errs     []error
}

// fileExists reports whether a path is there.
func (l *loader) fileExists(name string) bool {
	_, err := fs.Stat(l.root, name)
	l.noteStamp(name, err == nil)
	return err == nil
}

func (l *loader) noteStamp(v ...any) {
	if l.listOnly {
		fmt.Fprintln(&l.stamps, v...)
	}
}

// listFiles returns the paths in a folder whose names have one of the suffixes,
// sorted; none when there is no such folder.
func (l *loader) listFiles(dir string, suffixes ...string) []string {
	entries, err := fs.ReadDir(l.root, dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		l.errs = append(l.errs, fmt.Errorf("list the network configuration: %w", err))
	}
	var out []string
	for _, e := range entries[:min(len(entries), maxFiles)] {
		if slices.ContainsFunc(suffixes, func(s string) bool { return strings.HasSuffix(e.Name(), s) }) && !strings.HasPrefix(e.Name(), ".") {
			out = append(out, path.Join(dir, e.Name()))
		}
	}
	return out
}

// listLayered lists the files of several folders, the most important folder first, ordered by name.
// If several files have one name, it lists only the first. In this way systemd, netplan and
// NetworkManager let a file in /etc replace a file of a package.
func (l *loader) listLayered(dirs []string, suffixes ...string) []string {
	seen := map[string]bool{}
	var out []string
	for _, dir := range dirs {
		for _, name := range l.listFiles(dir, suffixes...) {
			if base := path.Base(name); !seen[base] {
				seen[base] = true
				out = append(out, name)
			}
		}
	}
	slices.SortStableFunc(out, func(a, b string) int { return strings.Compare(path.Base(a), path.Base(b)) })
	return out
}

// readText reads a file; nil when there is none, when it is no file (a link to
// /dev/null masks the one it replaces), or when it is empty.
func (l *loader) readText(name string) []byte {
	info, err := fs.Stat(l.root, name)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !info.Mode().IsRegular() {
		return nil
	}
	if err == nil && l.listOnly {
		l.noteStamp(name, info.Size(), info.ModTime().UnixNano())
		if !l.sources {
			return nil
		}
	}
	var text []byte
	if err == nil {
		text, err = l.readFile(name)
	}
	if err != nil {
		l.errs = append(l.errs, fmt.Errorf("read the network configuration: %w", err))
		return nil
	}
	return text
}

func (l *loader) readFile(name string) ([]byte, error) {
	f, err := l.root.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(text) > maxFile {
		err = fmt.Errorf("%s: more than %d bytes", name, maxFile)
	}
	return text, err
}

// readINI reads and parses a file, which messages name by its absolute path.
func (l *loader) readINI(name string) []section { return parseINI("/"+name, l.readText(name)) }
