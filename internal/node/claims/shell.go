package claims

import (
	"slices"
	"strings"
)

// command is one simple command of a shell, of udev or of systemd: its words without quotes, and the
// files that it writes to by > and >>.
type command struct {
	words   []string
	targets []string
	input   string // the word after <<<
	// pipe is set if the output of the command goes into the next one.
	pipe bool
	// label is set if a closing parenthesis ends the command: a pattern of case is such a command.
	label bool
	// heredoc is the word that ends the lines which follow as input.
	heredoc string
}

// These constants bound a line with its continuations, and the words of a command. The rest is not
// read.
const (
	maxLine  = 16 << 10
	maxWords = 256
)

// splitCommands splits a line of shell into its simple commands. It knows quotes, the operators
// between commands, redirections and comments. A substitution such as $(seq 4) stays within its
// word.
func splitCommands(line string) []command {
	r := &shellReader{rest: line[:min(len(line), maxLine)]}
	for r.rest != "" {
		r.readToken()
	}
	r.endCommand()
	return r.out
}

// shellReader reads a line of shell.
type shellReader struct {
	rest string
	out  []command
	now  command
	into func(string) // takes the next word; nil: it is a word of the command
}

// readToken reads one operator, redirection, comment or word.
func (r *shellReader) readToken() {
	switch c := r.rest[0]; {
	case c == ' ' || c == '\t':
		r.rest = r.rest[1:]
	case c == '#':
		r.rest = ""
	case strings.HasPrefix(r.rest, "<<<"):
		r.readRedirect(3, func(w string) { r.now.input = w })
	case strings.HasPrefix(r.rest, "<<"):
		r.rest = strings.TrimPrefix(r.rest, "<<")
		r.readRedirect(len(r.rest)-len(strings.TrimPrefix(r.rest, "-")), func(w string) { r.now.heredoc = w })
	case strings.HasPrefix(r.rest, ">&"), strings.HasPrefix(r.rest, "<&"):
		r.readRedirect(2, func(string) {})
	case strings.HasPrefix(r.rest, "&>"):
		r.rest = r.rest[1:]
	case strings.HasPrefix(r.rest, ">>"), strings.HasPrefix(r.rest, ">|"):
		r.readRedirect(2, r.addTarget)
	case c == '>':
		r.readRedirect(1, r.addTarget)
	case c == '<':
		r.readRedirect(1, func(string) {})
	case strings.IndexByte(";&|()", c) >= 0:
		r.readOperator()
	default:
		r.addWord(r.readWord())
	}
}

func (r *shellReader) addTarget(file string) { r.now.targets = append(r.now.targets, file) }

func (r *shellReader) readRedirect(length int, into func(string)) {
	r.rest, r.into = r.rest[length:], into
}

func (r *shellReader) readOperator() {
	op := r.rest[:1]
	if len(r.rest) > 1 && r.rest[1] == r.rest[0] && op != "(" && op != ")" {
		op = r.rest[:2]
	}
	r.rest = r.rest[len(op):]
	r.now.pipe, r.now.label = op == "|", op == ")"
	r.endCommand()
}

func (r *shellReader) endCommand() {
	if len(r.now.words) > 0 || len(r.now.targets) > 0 {
		r.out = append(r.out, r.now)
	}
	r.now, r.into = command{}, nil
}

func (r *shellReader) addWord(w string) {
	switch {
	case r.into != nil:
		r.into(w)
		r.into = nil
	case len(w) == 1 && isNumber(w) && strings.HasPrefix(r.rest, ">"): // a file descriptor
	case len(r.now.words) < maxWords:
		r.now.words = append(r.now.words, w)
	}
}

// readWord reads a word, with its quotes taken off.
func (r *shellReader) readWord() string {
	var w strings.Builder
	for r.rest != "" {
		switch c := r.rest[0]; {
		case c == '\\' && len(r.rest) > 1:
			w.WriteByte(r.rest[1])
			r.rest = r.rest[2:]
		case c == '\'' || c == '"':
			r.readQuoted(&w, c)
		case strings.HasPrefix(r.rest, "$("), strings.HasPrefix(r.rest, "${"), c == '`', c == '(' && strings.HasSuffix(w.String(), "="):
			r.readNested(&w)
		case strings.IndexByte(" \t;&|()<>", c) >= 0:
			return w.String()
		default:
			w.WriteByte(c)
			r.rest = r.rest[1:]
		}
	}
	return w.String()
}

// readQuoted reads a quoted part of a word. Between double quotes, a backslash makes a quote part of
// the text.
func (r *shellReader) readQuoted(w *strings.Builder, quote byte) {
	r.rest = r.rest[1:]
	for r.rest != "" {
		c := r.rest[0]
		switch {
		case c == quote:
			r.rest = r.rest[1:]
			return
		case quote == '"' && c == '\\' && len(r.rest) > 1 && strings.IndexByte("\"\\$`", r.rest[1]) >= 0:
			w.WriteByte(r.rest[1])
			r.rest = r.rest[2:]
		case quote == '"' && strings.HasPrefix(r.rest, "$("):
			r.readNested(w)
		default:
			w.WriteByte(c)
			r.rest = r.rest[1:]
		}
	}
}

// readNested copies a substitution or a list in parentheses up to the end of its nesting.
func (r *shellReader) readNested(w *strings.Builder) {
	opening, closing := byte('('), byte(')')
	switch {
	case r.rest[0] == '`':
		opening, closing = 0, '`'
	case strings.HasPrefix(r.rest, "${"):
		opening, closing = '{', '}'
	}
	depth, i := 0, 0
	if opening == 0 {
		depth, i = 1, 1
	}
	for ; i < len(r.rest); i++ {
		switch r.rest[i] {
		case closing:
			depth--
		case opening:
			depth++
		}
		if depth == 0 && i > 0 && r.rest[i] == closing {
			i++
			break
		}
	}
	w.WriteString(r.rest[:i])
	r.rest = r.rest[i:]
}

// wrappers are words before a command that do not change what it sets: programs that run another
// one, and words of the shell.
var wrappers = []string{
	"sudo", "doas", "env", "nohup", "exec", "command", "builtin", "time", "nice", "ionice", "timeout", "setsid", "systemd-run", "eval", "busybox",
	"flock", "chroot", "nsenter", "unshare", "taskset", "chrt", "stdbuf", "python", "python3",
	"if", "elif", "while", "until", "then", "do", "else", "!", "{",
}

// dropWrappers takes the wrappers with their options off the words of a command.
func dropWrappers(words []string) []string {
	for len(words) > 1 && slices.Contains(wrappers, baseName(words[0])) {
		wrapper := baseName(words[0])
		words = words[1:]
		for len(words) > 1 && (strings.HasPrefix(words[0], "-") || isNumber(strings.TrimRight(words[0], "smhd"))) {
			if (words[0] == "-u" || words[0] == "-g") && len(words) > 2 {
				words = words[1:]
			}
			words = words[1:]
		}
		if slices.Contains(withArgument, wrapper) && len(words) > 1 {
			words = words[1:]
		}
	}
	if len(words) > 4 && baseName(words[0]) == "ip" && words[1] == "netns" && words[2] == "exec" {
		return dropWrappers(words[4:])
	}
	return words
}

// withArgument are the wrappers whose first argument is not the command.
var withArgument = []string{"flock", "chroot", "taskset"}

// baseName returns the last part of a path.
func baseName(p string) string { return p[strings.LastIndexByte(p, '/')+1:] }

func isNumber(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}
