// Package cli has the parts of the command line that Culvert's programs for people
// share: output formats, the screen that they print on, groups of commands, and
// exit statuses.
//
// The mains of culvert, culvert-bench and culvert-lab call it. In go cobra commands
// and values; out come text and exit statuses.
package cli
