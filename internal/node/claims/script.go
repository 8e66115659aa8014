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
)

// scanner finds the lines that set VFs up, in files that people write by hand and in the scripts
// that these files name. It interprets no shell beyond variables with known values and loops over
// them.
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
	folder  string    // the working directory, after cd
	ofEntry bool      // the file has entries of several lines
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

// scanScript reads the lines of a shell script.
func (s *scanner) scanScript(src *source, text []byte) {
	for _, n := range joinLines(text, "#") {
		if src.ends != "" {
			if n.text == src.ends {
				src.ends = ""
			}
			continue
		}
		s.scanLine(src, n, n.text)
	}
}

// scanLine reads a line of shell that is, or is a part of, line n of a file.
func (s *scanner) scanLine(src *source, n textLine, line string) {
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
	all = dropWrappers(src.vars.takeAssignments(all))
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
	for _, f := range forms {
		if slices.Contains(f.programs, baseName(w[0][0])) {
			s.addEffects(src, n, f.read(w[1:])...)
			s.readBatch(src, w.firstTexts())
			return
		}
	}
	if w[0][0] == "cd" && len(w) > 1 {
		src.folder = w[1][0]
	}
	s.followScript(src, n, all, w.firstTexts())
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
	value := writtenText(all)
	if len(all) > 0 && baseName(all[0]) == "tee" {
		value = input
		targets = append(slices.Clone(targets), all[1:]...)
	}
	values := src.vars.withoutGuesses().expandWord(value)
	for _, t := range targets {
		for _, file := range src.vars.expandWord(t) {
			if src.folder != "" && !path.IsAbs(file) {
				file = src.folder + "/" + file
			}
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

// shells are the programs that run a script.
var shells = []string{"sh", "bash", "dash", "ash", "ksh", "zsh", "su"}

// followScript reads the script that a command names: the text after -c, the argument of a shell, a file
// that is sourced, or the program itself. raw are the words before their variables are expanded.
func (s *scanner) followScript(src *source, n textLine, raw, words []string) {
	switch name := baseName(words[0]); {
	case slices.Contains(shells, name):
		for i := 1; i < len(words); i++ {
			switch option := strings.HasPrefix(words[i], "-"); {
			case option && strings.HasSuffix(words[i], "c") && i+1 < len(words):
				s.scanText(src, n, raw[i+1], words[i+2:])
				return
			case !option && name != "su":
				s.readScript(src, words[i], words[i+1:], false)
				return
			}
		}
	case (name == "." || name == "source") && len(words) > 1:
		s.readSourced(src, words[1])
	case path.IsAbs(words[0]):
		s.readScript(src, words[0], words[1:], true)
	}
}

// scanText reads the script in an argument of a shell.
func (s *scanner) scanText(src *source, n textLine, text string, arguments []string) {
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

// setArguments sets $1 and the following.
func (v variables) setArguments(arguments []string) {
	for i, a := range arguments[:min(len(arguments), 9)] {
		v[fmt.Sprint(i+1)] = []string{a}
	}
	if len(arguments) > 0 {
		v["@"], v["*"] = arguments, arguments
	}
}

// readScript reads a script that a line names, once for each list of arguments. A program that
// the kernel starts is a script only if it begins with #!.
func (s *scanner) readScript(src *source, file string, arguments []string, isProgram bool) {
	name := strings.TrimPrefix(path.Clean(file), "/")
	id := name + "\x00" + strings.Join(arguments, "\x00")
	if !path.IsAbs(file) || src.depth >= maxDepth || s.seen[id] || s.scripts >= maxScripts {
		return
	}
	s.seen[id] = true
	text := s.l.readScript(name, isProgram)
	if text == nil {
		return
	}
	s.scripts++
	inner := source{file: "/" + name, manager: src.manager, depth: src.depth + 1, rule: src.rule, vars: variables{}}
	for _, known := range []string{"IFACE", "INTERFACE", "DEVPATH"} {
		if values, ok := src.vars[known]; ok {
			inner.vars[known] = values
		}
	}
	inner.vars["0"] = []string{"/" + name}
	inner.vars.setArguments(arguments)
	s.scanScript(&inner, text)
}

// readSourced reads a file whose variables become those of the script.
func (s *scanner) readSourced(src *source, file string) {
	name := strings.TrimPrefix(path.Clean(file), "/")
	if !path.IsAbs(file) || src.depth >= maxDepth || s.scripts >= maxScripts {
		return
	}
	s.scripts++
	inner := *src
	inner.file, inner.depth, inner.says = "/"+name, src.depth+1, ""
	s.scanScript(&inner, s.l.readScript(name, false))
}
