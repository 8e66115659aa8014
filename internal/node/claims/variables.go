package claims

import (
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// These constants bound the values of a variable or a word, and their length in all.
const (
	maxValues   = 256
	maxExpanded = 32 << 10
)

// variables are the values that the variables of a script may have: one of an assignment, all of a
// loop. A variable without values stays in the text as it is written.
type variables map[string][]string

// keyed matches an element [KEY]=VALUE of a list.
var keyed = regexp.MustCompile(`^\[["']?([^\]"']+)["']?\]=(.*)$`)

var assignment = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_]*)=(.*)$`)

// takeAssignment takes an assignment NAME=VALUE or NAME=(A B), and reports whether the word is one.
func (v variables) takeAssignment(word string) bool {
	m := assignment.FindStringSubmatch(word)
	if m == nil {
		return false
	}
	if list, ok := strings.CutPrefix(m[2], "("); ok {
		all := strings.Fields(strings.TrimSuffix(list, ")"))
		var keys []string
		for i, element := range all {
			if e := keyed.FindStringSubmatch(element); e != nil {
				keys, all[i] = append(keys, e[1]), e[2]
			}
		}
		v[m[1]], v["!"+m[1]] = v.expandList(all), v.expandList(keys)
		return true
	}
	v[m[1]] = v.expandWord(m[2])
	return true
}

// mostArguments is how many arguments of a script or a function have a variable.
const mostArguments = 9

// setArguments sets $1 and the following.
func (v variables) setArguments(arguments words) {
	var all []string
	for i, texts := range arguments {
		if all = append(all, texts...); i < mostArguments {
			v[strconv.Itoa(i+1)] = texts
		}
	}
	if len(all) > 0 {
		all = all[:min(len(all), maxValues)]
		v["@"], v["*"] = all, all
	}
}

// dropArguments removes $1 and the following with what is known of them, and returns them.
func (v variables) dropArguments() variables {
	out := variables{}
	for key, values := range v {
		if name := strings.TrimPrefix(key, "?"); name == "@" || name == "*" || isNumber(name) && name != "0" {
			out[key] = values
		}
	}
	for key := range out {
		delete(v, key)
	}
	return out
}

// shiftArguments makes $2 the first argument, or a later one if the command shift has a number.
func (v variables) shiftArguments(w words) {
	by := 1
	if len(w) > 0 {
		by, _ = strconv.Atoi(w[0][0])
	}
	was := v.dropArguments()
	if by < 1 {
		maps.Copy(v, was)
		return
	}
	var left words
	for i := by + 1; i <= mostArguments && was[strconv.Itoa(i)] != nil; i++ {
		left = append(left, was[strconv.Itoa(i)])
	}
	v.setArguments(left)
}

// splitArguments replaces the words $@ and $* of a command by the arguments.
func (v variables) splitArguments(all []string) []string {
	isAll := func(word string) bool { return slices.Contains([]string{"$@", "$*", "${@}", "${*}"}, word) }
	if len(v["@"]) == 0 || !slices.ContainsFunc(all, isAll) {
		return all
	}
	var out []string
	for _, word := range all {
		if !isAll(word) {
			out = append(out, word)
			continue
		}
		for i := 1; i <= mostArguments && v[strconv.Itoa(i)] != nil; i++ {
			out = append(out, "$"+strconv.Itoa(i))
		}
	}
	return out
}

// declarations are the words before an assignment.
var declarations = []string{"export", "local", "readonly", "declare", "typeset"}

// takeAssignments sets the variables that a command sets before its program, or as a declaration,
// and returns its other words.
func (v variables) takeAssignments(words []string) []string {
	if len(words) > 0 && slices.Contains(declarations, words[0]) {
		for _, w := range words[1:] {
			v.takeAssignment(w)
		}
		return nil
	}
	for len(words) > 0 && v.takeAssignment(words[0]) {
		words = words[1:]
	}
	return words
}

// comparison are the words of a test that compares.
var comparison = []string{"=", "==", "!="}

// takeComparison takes [ "$IFACE" = enp1s0f0 ] as a value of a variable that has none: the script
// does something only for that value, or for all others.
func (v variables) takeComparison(words []string) {
	for i := 1; i+1 < len(words); i++ {
		if slices.Contains(comparison, words[i]) {
			v.suggestValue(words[i-1], words[i+1])
		}
	}
}

// suggestValue adds a value to the variable that a word consists of, unless the script sets it.
func (v variables) suggestValue(word, value string) {
	name := strings.Trim(word, "${}")
	if !strings.HasPrefix(word, "$") || value == "" || strings.ContainsAny(value, "$`") {
		return
	}
	if was := v[name]; len(was) == 1 && was[0] != word && strings.HasPrefix(was[0], "$") {
		v.suggestValue(was[0], value) // IFACE=$1
		v[name] = v.expandWord(was[0])
		return
	}
	if values := v["?"+name]; len(values) < maxValues {
		v["?"+name] = append(values, value)
	}
}

// withoutGuesses returns the variables without the values that a script only compares with.
func (v variables) withoutGuesses() variables {
	out := maps.Clone(v)
	maps.DeleteFunc(out, func(name string, _ []string) bool { return strings.HasPrefix(name, "?") })
	return out
}

// lookUp returns the values of a variable: those that the script sets, else those that it compares
// with.
func (v variables) lookUp(name string) []string {
	if values, ok := v[name]; ok {
		return values
	}
	return v["?"+name]
}

// reference matches at the beginning of a text: $NAME, ${NAME}, ${NAME[@]}, ${NAME[0]}, ${NAME,,},
// ${NAME[KEY]}, ${!NAME[@]}, ${NAME%/*}, ${NAME##*/}, ${NAME//TEXT/OTHER}, ${NAME:?TEXT},
// ${NAME:-DEFAULT} and ${NAME:=DEFAULT}. A default may have a variable.
var reference = regexp.MustCompile(`^\$(?:([A-Za-z_]\w*|[0-9@*])|\{(!?[A-Za-z_]\w*|[0-9]+|[@*])(?:\[(?:[@*]|(\d{1,4})|[^\]{}]+)\])?(?:` +
	`(%/\*|##\*/|//?[^/{}]+/[^/{}]*)|,,?|\^\^?|:?\?` + plainText + `|:?[-=](` + plainText + `))?\})`)

// plainText matches a text that may have variables ${NAME}.
const plainText = `(?:[^{}]|\$\{[^{}]*\})*`

// sum matches $((N-1)) and $(( $N + 1 )).
var sum = regexp.MustCompile(`\$\(\(\s*(\$?\{?\w+\}?)\s*([-+])\s*(\d{1,4})\s*\)\)`)

// plainSum matches $((N)).
var plainSum = regexp.MustCompile(`\$\(\(\s*\$?\{?([A-Za-z_]\w*)\}?\s*\)\)`)

// addSums replaces the sums of a word whose variable has one value.
func (v variables) addSums(word string) string {
	return sum.ReplaceAllStringFunc(word, func(text string) string {
		m := sum.FindStringSubmatch(text)
		first := strings.Trim(m[1], "${}")
		if values := v.lookUp(first); len(values) == 1 {
			first = values[0]
		}
		a, err := strconv.Atoi(first)
		if err != nil {
			return text
		}
		b, _ := strconv.Atoi(m[2] + m[3])
		return strconv.Itoa(a + b)
	})
}

// expandWord returns the texts that a word may stand for.
func (v variables) expandWord(word string) []string {
	word = plainSum.ReplaceAllString(v.addSums(word), "$${$1}")
	out := []string{""}
	for word != "" {
		i := strings.IndexByte(word, '$')
		if i < 0 {
			i = len(word)
		}
		out = appendEach(out, []string{word[:i]})
		if word = word[i:]; word == "" {
			break
		}
		m := reference.FindStringSubmatch(word)
		if m == nil {
			out, word = appendEach(out, []string{"$"}), word[1:]
			continue
		}
		out, word = appendEach(out, v.expandReference(m)), word[len(m[0]):]
	}
	for i := range out {
		out[i] = readPaths(out[i])
	}
	return expandBraces(out)
}

// expandReference returns the values of a variable, given the parts that reference matches.
func (v variables) expandReference(m []string) []string {
	values, name, index, cut, def := v.lookUp(m[1]+m[2]), m[0], m[3], m[4], m[5]
	if n, err := strconv.Atoi(index); err == nil && n > 0 {
		values = values[min(n, len(values)):min(n+1, len(values))]
	} else if err == nil {
		values = values[:min(1, len(values))]
	}
	switch {
	case len(values) == 0 && def != "":
		return v.expandDefault(def)
	case len(values) == 0:
		return []string{name}
	case cut == "":
		return values
	}
	values = slices.Clone(values)
	for i, value := range values {
		switch {
		case strings.ContainsAny(value, "$`"):
			return []string{name}
		case strings.HasPrefix(cut, "/"):
			old, other, _ := strings.Cut(strings.TrimLeft(cut, "/"), "/")
			if len(value)+strings.Count(value, old)*len(other) > maxExpanded {
				return []string{name}
			}
			values[i] = strings.ReplaceAll(value, old, other)
		case cut == "%/*":
			values[i] = path.Dir(value)
		default:
			values[i] = path.Base(value)
		}
	}
	return values
}

// expandDefault returns the texts that the default of a variable may stand for. It expands the variables
// of the default, and not those of their defaults.
func (v variables) expandDefault(text string) []string {
	text = stripQuotes(text)
	if m := reference.FindStringSubmatch(text); len(m) > 0 && m[0] == text {
		if values := v.lookUp(m[1] + m[2]); len(values) > 0 {
			return values
		}
		return []string{strings.Trim(m[5], `"'`)}
	}
	return []string{text}
}

// appendEach returns each of the texts with each of the ends, as far as the bounds allow.
func appendEach(texts, ends []string) []string {
	if len(ends) == 1 && ends[0] == "" {
		return texts
	}
	out := make([]string, 0, min(len(texts)*len(ends), maxValues))
	length := 0
	for _, t := range texts {
		for _, e := range ends {
			length += len(t) + len(e)
			if len(out) < maxValues && length <= maxExpanded {
				out = append(out, t+e)
			}
		}
	}
	if len(out) == 0 {
		return []string{""}
	}
	return out
}

var (
	braces  = regexp.MustCompile(`^([^$]*)\{([^{}$\s]+)\}(.*)$`)
	numbers = regexp.MustCompile(`^(\d{1,4})\.\.(\d{1,4})$`)
)

// expandBraces expands {1..3} and {a,b} of each text, one in each.
func expandBraces(texts []string) []string {
	var out []string
	for _, t := range texts {
		m := braces.FindStringSubmatch(t)
		var parts []string
		if m != nil {
			parts = strings.Split(m[2], ",")
			if n := numbers.FindStringSubmatch(m[2]); n != nil {
				from, _ := strconv.Atoi(n[1])
				to, _ := strconv.Atoi(n[2])
				parts = countNumbers(from, 1, to)
			}
		}
		if m == nil || len(parts) < 2 {
			out = append(out, t)
			continue
		}
		for _, p := range parts {
			out = append(out, m[1]+p+m[3])
		}
	}
	return out[:min(len(out), maxValues)]
}

// expandList returns the values of a list of words, such as those of a loop.
func (v variables) expandList(words []string) []string {
	var out []string
	for _, w := range words {
		for _, value := range v.expandWord(w) {
			if m := sequence.FindStringSubmatch(value); m != nil {
				out = append(out, expandSequence(m[1:])...)
				continue
			}
			if strings.ContainsAny(value, "`") || strings.Contains(value, "$(") {
				out = append(out, value)
				continue
			}
			out = append(out, strings.Fields(value)...)
		}
	}
	return out[:min(len(out), maxValues)]
}
