package claims

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

// These constants bound what the scanner reads and keeps.
const (
	maxScripts = 200     // files that other files name
	maxDepth   = 3       // scripts that scripts name
	maxLines   = 2000    // lines that set something
	maxWork    = 8 << 20 // bytes of commands with their variables expanded
	ofCommand  = 256     // what a command costs of maxWork beside its text
	ofLine     = 64      // what a line of a function costs, for the search of its end
)

// scanner finds the lines that set VFs up, in files that people write by hand and in the scripts
// that these files name. It interprets no shell beyond variables with known values, loops over them and
// functions.
type scanner struct {
	l       *loader
	lines   []handLine
	seen    map[string]bool // scripts, with their arguments
	scripts int
	work    int
	full    bool // a bound is reached
	// instances are the enabled instances of systemd's templates; nil until they are needed.
	instances map[string][]string
}

// source is the file in which a line is, and what is known of it.
type source struct {
	file    string // absolute
	manager string
	vars    variables
	depth   int
	rule    *udevRule // of a line of udev's rules
	says    string    // the text of the line, if it is not the command
	ends    string    // the word that ends a here-document
	folders []string  // the working directory as far as it is known: after cd in a loop, one of several
	ofEntry bool      // the file has entries of several lines
	// functions are those of the script; nil outside a script.
	functions *functions
}

// reportBound reports that a bound is reached.
func (s *scanner) reportBound(src *source, n textLine) {
	if !s.full {
		s.l.addError("read the network configuration: stop at %s:%d: it and the files before it have more commands than Culvert looks at", src.file, n.number)
	}
	s.full = true
}

// addEffects keeps the effects of a line.
func (s *scanner) addEffects(src *source, n textLine, effects ...effect) {
	says := n.text
	if src.says != "" {
		says = src.says
	}
	for _, e := range effects {
		e.cleanObjects()
		if len(s.lines) >= maxLines {
			s.reportBound(src, n)
			return
		}
		at := entry{file: src.file, line: n.number, key: says, value: e.value}
		remedy := "remove that line from " + at.formatWhere()
		if src.ofEntry {
			remedy = "remove the entry at " + at.formatWhere()
		}
		s.lines = append(s.lines, handLine{at: at, manager: src.manager, effect: e, rule: src.rule, remedy: remedy})
	}
}

// scanScript reads the lines of a shell script, then the functions that it does not call.
func (s *scanner) scanScript(src *source, text []byte) {
	isSourced := src.functions != nil
	if !isSourced {
		src.functions = newFunctions()
		src.vars["0"] = []string{src.file}
	}
	outer := src.vars["BASH_SOURCE"]
	src.vars["BASH_SOURCE"] = []string{src.file}
	s.scanLines(src, joinValues(joinLines(text, "#")))
	src.vars["BASH_SOURCE"] = outer
	if !isSourced {
		s.scanUncalled(src)
	}
}

func (s *scanner) scanLines(src *source, lines []textLine) {
	for i := 0; i < len(lines); i++ {
		n := lines[i]
		if src.ends != "" {
			if n.text == src.ends {
				src.ends = ""
			}
			continue
		}
		if used := src.functions.takeFunction(lines[i:]); used > 0 {
			if s.work += used * ofLine; s.work > maxWork {
				s.reportBound(src, n)
				return
			}
			i += used - 1
			continue
		}
		s.scanLine(src, n, n.text)
	}
}

// scanLine reads a line of shell that is, or is a part of, line n of a file.
func (s *scanner) scanLine(src *source, n textLine, line string) {
	src.vars.takeWhile(line)
	commands := splitCommands(src.vars.takeCounting(line))
	input := ""
	for i, c := range commands {
		if c.heredoc != "" {
			src.ends = c.heredoc
		}
		if len(c.words) > 2 && c.words[0] == "case" {
			src.vars["case"] = []string{c.words[1]}
			if c.words = c.words[min(len(c.words), 3):]; len(c.words) == 0 && !c.label {
				continue
			}
		}
		if c.label && len(c.words) == 1 {
			s.takePattern(src, c.words[0])
			continue
		}
		if c.input != "" {
			input = c.input
		}
		s.scanCommand(src, n, c, input)
		if input = ""; c.pipe && i+1 < len(commands) {
			input = writtenText(dropWrappers(c.words))
		}
	}
}

// takePattern takes a pattern of case as a value of the variable that it is compared with.
func (s *scanner) takePattern(src *source, pattern string) {
	subject := src.vars["case"]
	if len(subject) != 1 || pattern == "*" {
		return
	}
	if slices.Equal(subject, src.vars["getopts"]) {
		src.vars.takeOption(pattern)
		return
	}
	src.vars.suggestValue(subject[0], pattern)
}

// writtenText returns the text that a command writes to its output; empty if it is not in the
// words.
func writtenText(words []string) string {
	if len(words) < 2 || baseName(words[0]) != "echo" && baseName(words[0]) != "printf" {
		return ""
	}
	words = words[1:]
	for len(words) > 0 && (strings.HasPrefix(words[0], "-") && !isNumber(words[0][1:]) || len(words) > 1 && strings.HasPrefix(words[0], "%")) {
		words = words[1:] // an option, or the format of printf
	}
	return strings.TrimSuffix(strings.Join(words, " "), `\n`)
}

// scanCommand reads one command. input is the text that it gets on its standard input, if known.
func (s *scanner) scanCommand(src *source, n textLine, c command, input string) {
	if s.work += ofCommand; s.full || s.work > maxWork {
		s.reportBound(src, n)
		return
	}
	all := dropWrappers(c.words)
	if src.vars.takeLoop(all) {
		return
	}
	src.vars.takeComparison(all)
	all = dropWrappers(src.vars.splitArguments(src.vars.takeAssignments(all)))
	s.addWrites(src, n, all, c.targets, input)
	if len(all) == 0 {
		return
	}
	w := make(words, len(all))
	for i := range all {
		w[i] = src.vars.expandWord(all[i])
		for _, text := range w[i] {
			s.work += len(text) + 16
		}
	}
	if s.callFunction(src, n, w[0][0], w[1:]) {
		return
	}
	for _, f := range forms {
		if slices.Contains(f.programs, baseName(w[0][0])) {
			s.addEffects(src, n, f.read(w[1:])...)
			s.readBatch(src, w.firstTexts())
			return
		}
	}
	switch w[0][0] {
	case "cd", "pushd", "popd":
		src.changeFolder(w[1:])
	case "shift":
		src.vars.shiftArguments(w[1:])
	case "getopts":
		src.vars["getopts"] = []string{"$" + w.textAt(2)}
	default:
		s.followScript(src, n, all, w)
	}
}

// readBatch reads the file of ip -batch, whose lines are commands without the word ip.
func (s *scanner) readBatch(src *source, words []string) {
	for i := 1; i+1 < len(words); i++ {
		if baseName(words[0]) != "ip" || words[i] != "-b" && words[i] != "-batch" || !path.IsAbs(words[i+1]) || s.scripts >= maxScripts {
			continue
		}
		s.scripts++
		name := strings.TrimPrefix(path.Clean(words[i+1]), "/")
		inner := source{file: "/" + name, manager: src.manager, vars: variables{}}
		for _, n := range joinLines(s.l.readScript(name, false), "#") {
			c := command{words: append([]string{"ip"}, strings.Fields(n.text)...)}
			if !slices.Contains(c.words, "-b") && !slices.Contains(c.words, "-batch") {
				s.scanCommand(&inner, n, c, "")
			}
		}
	}
}

// addWrites adds the files of sysfs that a command writes to: by > and by tee.
func (s *scanner) addWrites(src *source, n textLine, all, targets []string, input string) {
	if len(targets) == 0 && (len(all) == 0 || baseName(all[0]) != "tee") {
		return
	}
	value := writtenText(all)
	if len(all) > 0 && baseName(all[0]) == "tee" {
		value = input
		targets = append(slices.Clone(targets), all[1:]...)
	}
	values := src.vars.withoutGuesses().expandWord(value)
	for _, t := range targets {
		for _, file := range src.placeFiles(src.vars.expandWord(t)) {
			for _, v := range values {
				if e, ok := effectOfWrite(file, v); ok {
					if len(values) > 1 && e.setting == Count {
						e.value = ""
					}
					s.addEffects(src, n, e)
				}
			}
		}
	}
}

// placeFiles returns files with the working directory before those that need it.
func (src *source) placeFiles(files []string) (out []string) {
	for _, file := range files {
		if len(src.folders) == 0 || path.IsAbs(file) {
			out = append(out, file)
			continue
		}
		for _, folder := range src.folders {
			out = append(out, folder+"/"+file)
		}
	}
	return out[:min(len(out), maxValues)]
}

// changeFolder takes the folder of cd. Culvert does not know the one before, so that cd - and popd
// leave it unknown.
func (src *source) changeFolder(w words) {
	w = dropOptions(w)
	if len(w) == 0 {
		src.folders = nil
		return
	}
	src.folders = src.placeFiles(w[0])
}

// shells are the programs that run a script.
var shells = []string{"sh", "bash", "dash", "ash", "ksh", "zsh", "su"}

// followScript reads the script that a command names: the text after -c, the argument of a shell, a file
// that is sourced, or the program itself. raw are the words before their variables are expanded.
func (s *scanner) followScript(src *source, n textLine, raw []string, w words) {
	texts := w.firstTexts()
	switch name := baseName(texts[0]); {
	case slices.Contains(shells, name):
		for i := 1; i < len(w); i++ {
			switch option := strings.HasPrefix(texts[i], "-"); {
			case option && strings.HasSuffix(texts[i], "c") && i+1 < len(w):
				s.scanText(src, n, raw[i+1], w[i+2:])
				return
			case !option && name != "su":
				s.readScript(src, texts[i], w[i+1:], false)
				return
			}
		}
	case (name == "." || name == "source") && len(w) > 1:
		for _, file := range w[1] {
			s.readSourced(src, file)
		}
	case strings.Contains(texts[0], "/"):
		s.readScript(src, texts[0], w[1:], true)
	}
}

// scanText reads the script in an argument of a shell.
func (s *scanner) scanText(src *source, n textLine, text string, arguments words) {
	if src.depth >= maxDepth {
		return
	}
	inner := *src
	inner.depth, inner.vars = src.depth+1, maps.Clone(src.vars)
	if len(arguments) > 0 {
		inner.vars.setArguments(arguments[1:])
	}
	for line := range strings.Lines(text) {
		s.scanLine(&inner, n, strings.TrimSpace(line))
	}
}

// readScript reads a script that a line names, once for each list of arguments. A program that
// the kernel starts is a script only if it begins with #!.
func (s *scanner) readScript(src *source, file string, arguments words, isProgram bool) {
	file = src.findScript(file)
	name := strings.TrimPrefix(file, "/")
	id := fmt.Sprintf("%s\x00%q", name, arguments)
	if src.depth >= maxDepth || s.seen[id] || s.scripts >= maxScripts {
		return
	}
	s.seen[id] = true
	text := s.l.readScript(name, isProgram)
	if text == nil {
		return
	}
	s.scripts++
	inner := source{file: "/" + name, manager: src.manager, depth: src.depth + 1, rule: src.rule, folders: src.folders, vars: variables{}}
	for _, known := range []string{"IFACE", "INTERFACE", "DEVPATH"} {
		if values, ok := src.vars[known]; ok {
			inner.vars[known] = values
		}
	}
	inner.vars.setArguments(arguments)
	s.scanScript(&inner, text)
}

// findScript returns the absolute path of a script that a line names. A relative path begins in the
// working directory, or where that is not known in the folder of the file that has the line.
func (src *source) findScript(file string) string {
	switch {
	case path.IsAbs(file):
		return path.Clean(file)
	case len(src.folders) > 0 && path.IsAbs(src.folders[0]):
		return path.Join(src.folders[0], file)
	}
	return path.Join(path.Dir(src.file), file)
}

// readSourced reads a file whose variables become those of the script.
func (s *scanner) readSourced(src *source, file string) {
	name := strings.TrimPrefix(src.findScript(file), "/")
	if src.depth >= maxDepth || s.scripts >= maxScripts {
		return
	}
	s.scripts++
	inner := *src
	inner.file, inner.depth, inner.says = "/"+name, src.depth+1, ""
	s.scanScript(&inner, s.l.readScript(name, false))
}
