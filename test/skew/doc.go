// Package skew runs the programs of two versions of Culvert against each other: those of this tree,
// and those of the commit in oldest.txt, the oldest one whose formats Culvert still reads and
// speaks. From the first release on, that is the last release before this tree.
//
// TestOlderPrograms builds the old programs, which takes minutes. TestOldFiles has what they wrote
// and said, in testdata, and needs no program. To record testdata anew:
//
//	tools/go test ./test/skew -run OlderPrograms -v -args -update
package skew
