// Package suggest finds the known word closest to an unknown one: it takes an unknown key and the
// known keys, and returns the nearest known key. Every parser of people's files (CNI
// configurations, host.yaml) calls it before it refuses a key.
package suggest

import "strings"

// Nearest returns the entry of known that word most probably stands for, as known spells it, or
// "" when none is near. Case, '-', '_' and '.' do not count as differences; beyond them one
// change in three letters is near, three changes at most (an insertion, a deletion, a
// replacement, or a swap of neighbours is one change). The first of equally near entries wins.
func Nearest(word string, known []string) string {
	folded := foldWord(word)
	if len(folded) == 0 {
		return ""
	}
	best, bestDistance := "", min(3, max(1, len(folded)/3))+1
	for _, k := range known {
		if d := editDistance(folded, foldWord(k)); d < bestDistance && d < len(folded) {
			best, bestDistance = k, d
		}
	}
	return best
}

// DidYouMean returns ": did you mean max_tx_rate?" for a word near an entry of known, and ""
// otherwise: the tail of a message.
func DidYouMean(word string, known []string) string {
	near := Nearest(word, known)
	if near == "" {
		return ""
	}
	return ": did you mean " + near + "?"
}

var separators = strings.NewReplacer("-", "", "_", "", ".", "")

// longest bounds the work for a hostile word; no key is that long.
const longest = 64

func foldWord(s string) []rune {
	r := []rune(strings.ToLower(separators.Replace(s)))
	return r[:min(len(r), longest)]
}

// editDistance returns the optimal string alignment distance of a and b.
func editDistance(a, b []rune) int {
	before, last := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range a {
		row := make([]int, len(b)+1)
		row[0] = i + 1
		for j := range b {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			row[j+1] = min(last[j]+cost, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}
