package pages

import (
	"bytes"
	"fmt"
	"hash/fnv"
	"math/bits"
)

// meta is one of the two meta pages of the file, which lead to all other pages.
type meta struct {
	pageSize             uint32
	root, freelist, pgid uint64
	txid                 uint64
}

// parseMeta reads the meta of a page whose header is at the start of b.
func parseMeta(b []byte) (m meta, what string) {
	if len(b) < headerSize+metaSize {
		return m, "the file ends in it, so it is no ledger, or one that was cut short"
	}
	b = b[headerSize:][:metaSize]
	sum := fnv.New64a()
	_, _ = sum.Write(b[:sumAt])
	switch {
	case order.Uint32(b) != magic:
		return m, "it is no page of a ledger"
	case order.Uint32(b[4:]) != version:
		return m, fmt.Sprintf("the file's version is %d, not %d", order.Uint32(b[4:]), version)
	case order.Uint64(b[sumAt:]) != sum.Sum64():
		return m, "its checksum is wrong"
	}
	m = meta{
		pageSize: order.Uint32(b[8:]), root: order.Uint64(b[16:]),
		freelist: order.Uint64(b[32:]), pgid: order.Uint64(b[40:]), txid: order.Uint64(b[48:]),
	}
	if m.pageSize < minPageSize || m.pageSize > maxPageSize || bits.OnesCount32(m.pageSize) != 1 {
		return m, fmt.Sprintf("a page size of %d cannot be", m.pageSize)
	}
	return m, ""
}

// IsBbolt reports whether bbolt wrote the file. One of its two first pages still has bbolt's magic
// number, or the file was cut short before the end of the first magic number.
func (f *File) IsBbolt() bool {
	start := make([]byte, headerSize, headerSize+4) // of page 0, which is a meta without overflow
	order.PutUint16(start[8:], flagMeta)
	start = order.AppendUint32(start, magic)
	if have := f.readAtMost(0, len(start)); len(have) < len(start) {
		return len(have) > 0 && bytes.HasPrefix(start, have)
	}
	hasMagic := func(at int64) bool {
		have := f.readAtMost(at, len(start))
		return len(have) == len(start) && order.Uint32(have[headerSize:]) == magic
	}
	if hasMagic(0) {
		return true
	}
	for size := int64(minPageSize); size <= maxPageSize; size <<= 1 {
		if hasMagic(size) {
			return true
		}
	}
	return false
}

// readAtMost reads n bytes at an offset of the file, or as many as there are.
func (f *File) readAtMost(at int64, n int) []byte {
	b := make([]byte, n)
	have, _ := f.source.ReadAt(b, at) // bytes that cannot be read count as missing
	return b[:have]
}

// chooseMeta chooses the meta that Read follows. In a file without a Fault, both are right. A meta
// that is not right was damaged after it was written, since a write of 64 bytes in one sector is
// whole or did not happen. bbolt writes them in turn, so they are of two transactions in a row, the
// even one in page 0.
func (f *File) chooseMeta() (newest meta, ok bool) {
	first, what := parseMeta(f.readAtMost(0, headerSize+metaSize))
	if what != "" {
		f.addFault(0, "%s", what)
	} else {
		newest, ok = first, true
	}
	for size := uint64(minPageSize); size <= maxPageSize; size <<= 1 {
		if ok && size != uint64(first.pageSize) || uint64(f.source.Size()) < size {
			continue
		}
		second, wrong := parseMeta(f.readAtMost(int64(size), headerSize+metaSize))
		switch {
		case wrong == "" && ok && second.pageSize == first.pageSize:
			if first.txid%2 != 0 || second.txid%2 != 1 || max(first.txid, second.txid)-min(first.txid, second.txid) != 1 {
				f.addFault(1, "it is of transaction %d, and page 0 of %d: one of them is of an earlier time", second.txid, first.txid)
			}
			if second.txid > newest.txid {
				newest = second
			}
			return newest, true
		case wrong == "" && !ok && uint64(second.pageSize) == size:
			return second, true
		}
	}
	f.addFault(1, "it is no whole page of a ledger")
	return newest, ok
}
