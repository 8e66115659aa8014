package claims

import (
	"maps"
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

var assignment = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_]*)=(.*)$`)

// takeAssignment takes an assignment NAME=VALUE or NAME=(A B), and reports whether the word is one.
func (v variables) takeAssignment(word string) bool {
	m := assignment.FindStringSubmatch(word)
	if m == nil {
		return false
	}
	if list, ok := strings.CutPrefix(m[2], "("); ok {
		v[m[1]] = v.expandList(strings.Fields(strings.TrimSuffix(list, ")")))
		return true
	}
	v[m[1]] = v.expandWord(m[2])
	return true
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

// takeLoop sets the variable of "for NAME in A B", and reports whether the words are such a loop.
func (v variables) takeLoop(words []string) bool {
	if len(words) < 2 || words[0] != "for" {
		return false
	}
	delete(v, words[1])
	if len(words) > 3 && words[2] == "in" {
		v[words[1]] = v.expandList(words[3:])
	}
	return true
}

// countingLoop matches the loop for ((i=0; i<4; i++)).
var countingLoop = regexp.MustCompile(`\bfor\s*\(\(\s*([A-Za-z_]\w*)\s*=\s*(\d{1,4})\s*;\s*\w+\s*(<=?)\s*(\d{1,4}|\$?\{?\w+\}?)\s*;[^)]*\)\)`)

// takeCounting sets the variable of a loop that counts, and returns the rest of the line.
func (v variables) takeCounting(line string) string {
	m := countingLoop.FindStringSubmatchIndex(line)
	if m == nil {
		return line
	}
	part := func(i int) string { return line[m[2*i]:m[2*i+1]] }
	delete(v, part(1))
	last := part(4)
	if values := v[strings.Trim(last, "${}")]; len(values) == 1 {
		last = values[0]
	}
	from, err1 := strconv.Atoi(part(2))
	to, err2 := strconv.Atoi(last)
	if part(3) == "<" {
		to--
	}
	if err1 == nil && err2 == nil {
		v[part(1)] = countNumbers(from, 1, to)
	}
	return line[:m[0]] + line[m[1]:]
}

func countNumbers(from, step, to int) (out []string) {
	for i := from; step > 0 && i <= to && len(out) < maxValues; i += step {
		out = append(out, strconv.Itoa(i))
	}
	return out
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

// reference matches $NAME, ${NAME}, ${NAME:-DEFAULT} and ${NAME[@]} at the beginning of a text.
var reference = regexp.MustCompile(`^\$(?:([A-Za-z_][A-Za-z0-9_]*|[0-9@*])|\{([A-Za-z_][A-Za-z0-9_]*|[0-9]+|[@*])(?:\[[@*]\])?(?::?-([^{}$]*))?\})`)

// sum matches $((N-1)) and $(( $N + 1 )).
var sum = regexp.MustCompile(`\$\(\(\s*(\$?\{?\w+\}?)\s*([-+])\s*(\d{1,4})\s*\)\)`)

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
	word = v.addSums(word)
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
		values := v.lookUp(m[1] + m[2])
		switch {
		case len(values) == 0 && m[3] != "":
			values = []string{m[3]}
		case len(values) == 0:
			values = []string{m[0]}
		}
		out, word = appendEach(out, values), word[len(m[0]):]
	}
	return expandBraces(out)
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
	braces   = regexp.MustCompile(`^([^$]*)\{([^{}$\s]+)\}(.*)$`)
	numbers  = regexp.MustCompile(`^(\d{1,4})\.\.(\d{1,4})$`)
	sequence = regexp.MustCompile("^(?:\\$\\(|`)\\s*seq\\s+(?:-\\S+\\s+)*(\\d{1,4})(?:\\s+(\\d{1,4}))?(?:\\s+(\\d{1,4}))?\\s*[)`]$")
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

// expandSequence returns the numbers of seq LAST, seq FIRST LAST or seq FIRST STEP LAST.
func expandSequence(arguments []string) []string {
	var n []int
	for _, a := range arguments {
		if i, err := strconv.Atoi(a); err == nil {
			n = append(n, i)
		}
	}
	switch len(n) {
	case 1:
		return countNumbers(1, 1, n[0])
	case 2:
		return countNumbers(n[0], 1, n[1])
	}
	return countNumbers(n[0], n[1], n[2])
}
