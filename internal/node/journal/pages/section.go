package pages

import (
	"bytes"
	"io"
)

// section is a part of a file: a page with its overflow pages, or a part of these.
type section struct {
	source   io.ReaderAt
	at, size int64
}

// readFrom fills b from an offset of the section on.
func (s section) readFrom(b []byte, from int64) error {
	if have, err := s.source.ReadAt(b, s.at+from); have < len(b) {
		return err
	}
	return nil
}

// readBytes reads n bytes of the section from an offset on, which must be within it.
func (s section) readBytes(from, n int64) ([]byte, error) {
	b := make([]byte, n)
	return b, s.readFrom(b, from)
}

// skipBytes returns the section without its first n bytes, which it must have.
func (s section) skipBytes(n int64) section { return section{s.source, s.at + n, s.size - n} }

// partAfter returns n bytes of the section at pos after e; false when they are outside of it.
func (s section) partAfter(e int64, pos uint32, n uint64) (section, bool) {
	from := uint64(e) + uint64(pos)
	if pos < elementSize || n > uint64(s.size) || from > uint64(s.size)-n {
		return section{}, false
	}
	return section{s.source, s.at + int64(from), int64(n)}, true
}

// loadSection reads the section into memory at once.
func (s section) loadSection() (section, error) {
	b, err := s.readBytes(0, s.size)
	return section{bytes.NewReader(b), 0, s.size}, err
}

// bitset is a set of page numbers below a bound.
type bitset []uint64

func newBitset(bound uint64) bitset { return make(bitset, bound/64+1) }

func (b bitset) hasBit(n uint64) bool { return n/64 < uint64(len(b)) && b[n/64]&(1<<(n%64)) != 0 }

func (b bitset) addBit(n uint64) { b[n/64] |= 1 << (n % 64) }
