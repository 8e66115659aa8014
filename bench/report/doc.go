// Package report writes results for people and for CI. In goes a [bench.Result], or two that are
// compared; out come one sentence, text of at most 100 columns, one HTML file that needs nothing
// else, CSV, Markdown and JUnit's XML.
//
// Results are foreign input: they are valid ([bench.Read]), and their names may still
// hold anything. Foreign text never steers a terminal, breaks a line or becomes
// markup. The program culvert calls it.
package report
