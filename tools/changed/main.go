// Command changed prints the packages that a change of the tree can break, one a line.
// These are the packages that have a changed file, embed it or name it in a string, and the
// packages that import those, themselves or in their tests. `make check` checks them.
//
//	tools/run changed               since the branch left main; on main, since the last commit but one
//	tools/run changed -base HEAD    what is not committed
//	tools/run changed -direct       only the packages that have a changed file
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

func main() {
	base := flag.String("base", "", "the `commit` to compare the tree with")
	direct := flag.Bool("direct", false, "print only the packages that have a changed file")
	flag.Parse()
	if err := runChanged(*base, *direct, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "changed:", err)
		os.Exit(1)
	}
}

func runChanged(base string, direct bool, out, said io.Writer) error {
	if base == "" {
		var err error
		if base, err = findBase(); err != nil {
			return err
		}
	}
	files, err := changedFiles(base)
	if err != nil {
		return err
	}
	all, err := listPackages(".")
	if err != nil {
		return err
	}
	packages := affectedFolders(all, files)
	if direct {
		packages = ownerFolders(all, files)
	}
	fmt.Fprintf(said, "changed: %d files differ from %s: %d of %d packages\n", len(files), base, len(packages), len(all))
	for _, p := range packages {
		fmt.Fprintln(out, "./"+p)
	}
	return nil
}

// findBase returns the commit where the branch left the main branch; on that branch,
// the one before the last.
func findBase() (string, error) {
	head, err := runCommand("git", "rev-parse", "HEAD")
	if err != nil {
		return "", err
	}
	for _, branch := range []string{"main", "master", "origin/HEAD"} {
		base, err := runCommand("git", "merge-base", "HEAD", branch)
		if err == nil && base != head {
			return runCommand("git", "rev-parse", "--short", strings.TrimSpace(base))
		}
	}
	if before, err := runCommand("git", "rev-parse", "--short", "HEAD~1"); err == nil {
		return before, nil
	}
	return runCommand("git", "rev-parse", "--short", "HEAD") // there is one commit
}

// changedFiles lists the files that differ from a commit, including files that git does not
// track yet.
func changedFiles(base string) ([]string, error) {
	differ, err := runCommand("git", "diff", "--no-renames", "--name-only", "--relative", base, "--")
	if err != nil {
		return nil, err
	}
	unknown, err := runCommand("git", "ls-files", "--others", "--exclude-standard")
	if err != nil {
		return nil, err
	}
	files := slices.DeleteFunc(strings.Split(differ+"\n"+unknown, "\n"), func(f string) bool { return f == "" })
	slices.Sort(files)
	return slices.Compact(files), nil
}

// runCommand returns a program's output, without the end of the last line.
func runCommand(name string, args ...string) (string, error) {
	out, err := exec.Command(name, args...).Output() //nolint:noctx // quick, and ended with this program
	var failed *exec.ExitError
	if errors.As(err, &failed) {
		return "", fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, failed.Stderr)
	}
	return strings.TrimSpace(string(out)), err
}

// listPackages asks go for the packages of the module at a folder.
func listPackages(top string) ([]listed, error) {
	text, err := runCommand("tools/go", "list", "-e", "-tags", "lab kubernetes", "-json=ImportPath,Dir,Module,GoFiles,TestGoFiles,XTestGoFiles,EmbedFiles,Imports,TestImports,XTestImports", "./...")
	if err != nil {
		return nil, err
	}
	top, err = filepath.Abs(top)
	if err != nil {
		return nil, err
	}
	var all []listed
	for in := json.NewDecoder(strings.NewReader(text)); ; {
		var p struct {
			ImportPath, Dir                                string
			Module                                         struct{ Path string }
			GoFiles, TestGoFiles, XTestGoFiles, EmbedFiles []string
			Imports, TestImports, XTestImports             []string
		}
		err := in.Decode(&p)
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		folder, err := filepath.Rel(top, p.Dir)
		if err != nil {
			return nil, err
		}
		l := listed{folder: folder, imports: ownFolders(p.Module.Path, p.Imports), tests: ownFolders(p.Module.Path, slices.Concat(p.TestImports, p.XTestImports)),
			hasTests: len(p.TestGoFiles)+len(p.XTestGoFiles) > 0}
		for _, f := range p.EmbedFiles {
			l.embedded = append(l.embedded, filepath.Join(folder, f))
		}
		for _, f := range slices.Concat(p.GoFiles, p.TestGoFiles, p.XTestGoFiles) {
			text, err := os.ReadFile(filepath.Join(p.Dir, f))
			if err != nil {
				return nil, err
			}
			names, err := namesIn(folder, text)
			if err != nil {
				return nil, err
			}
			l.names = append(l.names, names...)
		}
		all = append(all, l)
	}
}

// ownFolders returns the folders of those imports that are packages of the module.
func ownFolders(module string, imports []string) (out []string) {
	for _, i := range imports {
		if folder, ok := strings.CutPrefix(i, module+"/"); ok {
			out = append(out, folder)
		}
	}
	return out
}

// namesIn returns the places in the tree that strings in a Go source may name. The
// arguments of a call of Join name one together.
func namesIn(folder string, source []byte) (names []string, err error) {
	file, err := parser.ParseFile(token.NewFileSet(), "", source, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	add := func(text string) {
		if name := namedPlace(folder, text); name != "" {
			names = append(names, name)
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec: // listPackages has the imports
			return false
		case *ast.BasicLit:
			if text, err := strconv.Unquote(n.Value); err == nil && n.Kind == token.STRING {
				add(text)
			}
		case *ast.CallExpr:
			if f, ok := n.Fun.(*ast.SelectorExpr); ok && f.Sel.Name == "Join" {
				add(joinedPath(n.Args))
			}
		}
		return true
	})
	return names, nil
}

// joinedPath returns the path that the first constants among the arguments of Join make: of
// Join(top, "docs", name) it is docs/.
func joinedPath(args []ast.Expr) string {
	var path string
	for _, a := range args {
		literal, ok := a.(*ast.BasicLit)
		if !ok && path == "" {
			continue
		}
		if !ok {
			break
		}
		if text, err := strconv.Unquote(literal.Value); err == nil {
			path += text + "/"
		}
	}
	return path
}
