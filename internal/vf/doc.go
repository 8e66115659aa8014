// Package vf holds the values of the domain: addresses and identities of Physical and Virtual
// Functions, the wanted settings of a VF (Spec), its state in the kernel (State), its state
// when it was made and clean (Baseline), and its holder (Owner).
//
// Values only: nothing here does I/O, and every other package may import it. Parsing happens
// once, at the edge that received the text; after that the types here are valid by
// construction.
package vf
