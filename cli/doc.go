// Package cli has what Culvert's programs for people share at the command line: the
// formats of what they print, the screen they print on, groups of commands, and how
// a command ends.
//
// The mains of culvert, culvert-bench and culvert-lab call it. In go cobra commands
// and values; out come text and exit statuses.
package cli
