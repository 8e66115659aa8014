package claims

import (
	"regexp"
	"strconv"
	"strings"
)

// takeLoop sets the variable of "for NAME in A B", and reports whether the words are such a loop.
func (v variables) takeLoop(words []string) bool {
	if len(words) < 2 || words[0] != "for" {
		return false
	}
	delete(v, words[1])
	switch {
	case len(words) == 2:
		v[words[1]] = v["@"]
	case len(words) > 3 && words[2] == "in":
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
	from, err1 := strconv.Atoi(part(2))
	to, err2 := v.readNumber(part(4))
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

// whileLoop matches the condition of a loop that counts: while [ $i -lt 4 ], until [ $i -ge 4 ].
var whileLoop = regexp.MustCompile(`\b(while|until)\s*(?:\[\[?|\(\(|test)\s*"?\$?\{?([A-Za-z_]\w*)\}?"?\s*(-lt|-le|-ge|-gt|<=?|>=?)\s*"?(\d{1,4}|\$?\{?\w+\}?)"?`)

// takeWhile sets the variable of a loop that counts from its value.
func (v variables) takeWhile(line string) {
	m := whileLoop.FindStringSubmatch(line)
	if len(m) == 0 || len(v[m[2]]) != 1 {
		return
	}
	from, err1 := strconv.Atoi(v[m[2]][0])
	to, err2 := v.readNumber(m[4])
	if err1 != nil || err2 != nil {
		return
	}
	switch m[1] + m[3] {
	case "while-lt", "while<", "until-ge", "until>=":
		v[m[2]] = countNumbers(from, 1, to-1)
	case "while-le", "while<=", "until-gt", "until>":
		v[m[2]] = countNumbers(from, 1, to)
	}
}

// readNumber returns a number, or that of a variable with one value.
func (v variables) readNumber(word string) (int, error) {
	if values := v[strings.Trim(word, "${}")]; len(values) == 1 {
		word = values[0]
	}
	return strconv.Atoi(word)
}

// sequence matches the output of seq.
var sequence = regexp.MustCompile("^(?:\\$\\(|`)\\s*seq\\s+(?:-\\S+\\s+)*(\\d{1,4})(?:\\s+(\\d{1,4}))?(?:\\s+(\\d{1,4}))?\\s*[)`]$")

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

// takeOption sets the variable OPTARG of getopts to the argument after an option of one letter.
func (v variables) takeOption(letter string) {
	delete(v, "OPTARG")
	all := v["@"]
	for i, argument := range all {
		if after, ok := strings.CutPrefix(argument, "-"+letter); ok && after != "" {
			v["OPTARG"] = []string{after}
		} else if ok && i+1 < len(all) {
			v["OPTARG"] = all[i+1 : i+2]
		}
	}
}
