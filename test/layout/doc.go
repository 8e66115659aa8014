// Package layout has no code of its own: its tests read the source tree and
// fail where it violates the design. Imports point one way, names have a
// meaning, the README's table matches the tree, and no file names a host to
// download from. Every invariant has a test, and documents use plain words.
//
// Each check is a function from a file system to a list of complaints, so that
// it is tested on small trees that are wrong.
package layout
