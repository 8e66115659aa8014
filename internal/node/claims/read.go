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
	maxFile   = 1 << 20
	maxFiles  = 1000     // of one folder, with the right names
	maxListed = 20_000   // entries of one folder
	maxTotal  = 32 << 20 // bytes of all files
	maxErrors = 20
)

// Rules are the files of all managers, parsed.
type Rules struct {
	nm       nmRules
	networkd networkdRules
	netplan  netplanRules
	ifupdown ifupdownRules
	byHand   []handLine
	ifcfg    ifcfgRules
	udev     udevUnmanaged
}

// Read parses the files below the root of a host: os.DirFS("/") outside of
// tests. A file that cannot be read is in the error, and the others are still
// in the rules.
func Read(root fs.FS) (Rules, error) {
	l := loader{root: root}
	return readAll(&l), errors.Join(l.errs...)
}

// readAll reads, or with listOnly lists, the files of all managers.
func readAll(l *loader) Rules {
	r := Rules{
		netplan:  readNetplan(l),
		ifupdown: readIfupdown(l),
		byHand:   readByHand(l),
		ifcfg:    readIfcfg(l),
	}
	r.networkd = readNetworkd(l)
	r.nm = readNM(l)
	if r.nm.active {
		r.udev = readUdevUnmanaged(l)
	}
	return r
}

// On returns the claims on the PFs and on those of their VFs that are on the
// host, ordered by PF, file and line.
func (r Rules) On(pfs []vf.PF) []Claim {
	devices := Devices(pfs)
	var all []Claim
	for _, d := range devices {
		all = append(all, r.nm.claimsOn(d, r)...)
		all = append(all, r.ifcfg.claimsOn(d, r.nm.active)...)
		all = append(all, r.networkd.claimsOn(d)...)
		all = append(all, r.netplan.claimsOn(d)...)
		all = append(all, r.ifupdown.claimsOn(d)...)
	}
	return mergeClaims(append(all, onByHand(append(slices.Clone(r.byHand), r.ifupdown.byHand()...), listFunctions(pfs))...))
}

// Reader reads the files again only when one of them has changed.
type Reader struct {
	Root fs.FS

	mu     sync.Mutex // guards the fields below
	stamps string
	named  map[string]string // the scripts that were read because a file names them, with their stamps
	rules  Rules
	err    error
}

// Rules returns the result of Read. It lists the files at each call, and reads them again only if a
// name, a size or a time has changed.
func (r *Reader) Rules() (Rules, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := loader{root: r.Root, listOnly: true}
	readAll(&l)
	if stamps := l.stamps.String(); r.stamps == "" || stamps != r.stamps || r.isNamedChanged() {
		r.stamps = stamps
		all := loader{root: r.Root}
		r.rules, r.err = readAll(&all), errors.Join(all.errs...)
		r.named = all.named
	}
	return r.rules, r.err
}

// isNamedChanged reports whether a script that a file names has changed.
func (r *Reader) isNamedChanged() bool {
	l := loader{root: r.Root}
	for name, stamp := range r.named {
		if l.stampOf(name) != stamp {
			return true
		}
	}
	return false
}

// loader lists and reads files, and keeps the errors.
type loader struct {
	root     fs.FS
	listOnly bool // note names, sizes and times instead of reading
	sources  bool // with listOnly, read all the same, since the text names other files
	stamps   strings.Builder
	named    map[string]string // see Reader
	total    int               // bytes that were read
	errs     []error
}

// addError keeps an error, unless there are many.
func (l *loader) addError(format string, v ...any) {
	if len(l.errs) < maxErrors {
		l.errs = append(l.errs, fmt.Errorf(format, v...))
	}
}

// stampOf returns the size and time of a file.
func (l *loader) stampOf(name string) string {
	info, err := fs.Stat(l.root, name)
	if err != nil {
		return "none"
	}
	return fmt.Sprint(info.Size(), info.ModTime().UnixNano())
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
	return l.listMatching(dir, func(name string) bool {
		return !strings.HasPrefix(name, ".") && slices.ContainsFunc(suffixes, func(s string) bool { return strings.HasSuffix(name, s) })
	})
}

// listMatching returns the paths in a folder whose names are wanted.
func (l *loader) listMatching(dir string, isWanted func(string) bool) []string {
	names, err := l.listNames(dir, isWanted)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		l.addError("list the network configuration: %w", err)
	}
	slices.Sort(names)
	if len(names) > maxFiles {
		l.addError("list the network configuration: %s has more than %d files: the others are not read", dir, maxFiles)
		names = names[:maxFiles]
	}
	for i, name := range names {
		names[i] = path.Join(dir, name)
	}
	return names
}

// listNames returns the names in a folder that are wanted. It stops in a folder that has
// very many.
func (l *loader) listNames(dir string, isWanted func(string) bool) (out []string, err error) {
	f, err := l.root.Open(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	d, ok := f.(fs.ReadDirFile)
	if !ok {
		return nil, nil // no folder
	}
	for listed := 0; listed < maxListed; {
		entries, err := d.ReadDir(500)
		for _, e := range entries {
			if isWanted(e.Name()) {
				out = append(out, e.Name())
			}
		}
		if listed += len(entries); errors.Is(err, io.EOF) || err == nil && len(entries) == 0 {
			return out, nil
		}
		if err != nil {
			return out, err
		}
	}
	return out, nil
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
		l.addError("read the network configuration: %w", err)
		return nil
	}
	return text
}

// readScript reads a script, and with listOnly only its stamp. A program counts only if it begins as
// a script of a shell, so that no more is read of another.
func (l *loader) readScript(name string, isProgram bool) []byte {
	if l.listOnly {
		l.noteStamp(name, l.stampOf(name))
		return nil
	}
	if l.named == nil {
		l.named = map[string]string{}
	}
	l.named[name] = l.stampOf(name)
	if isProgram && !l.beginsAsScript(name) {
		return nil
	}
	return l.readText(name)
}

// beginsAsScript reads the first bytes of a file.
func (l *loader) beginsAsScript(name string) bool {
	info, err := fs.Stat(l.root, name)
	if err != nil || !info.Mode().IsRegular() {
		return false
	}
	f, err := l.root.Open(name)
	if err != nil {
		return false
	}
	defer f.Close()
	first := make([]byte, 64)
	n, _ := io.ReadFull(f, first)
	return isShellScript(first[:n])
}

func (l *loader) readFile(name string) ([]byte, error) {
	f, err := l.root.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if l.total > maxTotal {
		return nil, fmt.Errorf("%s: the files before it have more than %d bytes", name, maxTotal)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	l.total += len(text)
	if err == nil && len(text) > maxFile {
		err = fmt.Errorf("%s: more than %d bytes", name, maxFile)
	}
	return text, err
}

// readINI reads and parses a file, which messages name by its absolute path.
func (l *loader) readINI(name string) []section { return parseINI("/"+name, l.readText(name)) }
