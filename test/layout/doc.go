// Package layout has no code of its own: its tests read the tree and say where
// it is not as the design asks. Imports point one way, names say something,
// the README's table is the tree's, nothing names a host to download from,
// every invariant has a test, and documents use plain words.
//
// Each check is a function from a file system to a list of complaints, so that
// it is tested on small trees that are wrong.
package layout
