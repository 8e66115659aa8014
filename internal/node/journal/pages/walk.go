package pages

import "bytes"

// walk goes through the tree of a file once.
type walk struct {
	*File
	reached bitset // pages that are in use or free
	faults  int
	report  func(page uint64, format string, args ...any) // nil: they were reported
	// visit gets the entries; nil for none. The walk is done when it returns false.
	visit func(bucket string, key []byte, value section) bool
	done  bool
}

func (f *File) newWalk(visit func(bucket string, key []byte, value section) bool) *walk {
	w := &walk{File: f, reached: newBitset(f.count), visit: visit}
	w.reached.addBit(0)
	w.reached.addBit(1)
	return w
}

func (w *walk) reportFault(page uint64, format string, args ...any) {
	if w.faults++; w.report != nil {
		w.report(page, format, args...)
	}
}

// limits bound the keys of a page: the first is from, where that
// is set, and all are less than below. (bbolt's own check lets the first be
// more than from. But on the next change of that page bbolt looks for the
// first key in the page above, and if it is not there adds the page once more.)
// depth is how many pages are above.
type limits struct {
	from, below []byte
	depth       int
}

// loadBound is the largest size of a page, with its overflow pages, that is read at once. The
// entries of a larger page are read one by one, when they are needed.
const loadBound = 64 << 10

// readSpan returns a page with its overflow pages, and marks them all as reached. more is the
// number of overflow pages.
func (w *walk) readSpan(id uint64) (s section, more uint64, ok bool) {
	size := int64(w.PageSize)
	if id < 2 || id >= w.hwm {
		w.reportFault(id, "there is no such page, and something points to it")
		return s, 0, false
	}
	if id >= w.count {
		w.faults++ // Read reported it once
		return s, 0, false
	}
	s = section{w.source, int64(id) * size, size}
	header, ok := w.readBytes(id, s, 0, headerSize)
	if !ok {
		return s, 0, false
	}
	if have := order.Uint64(header); have != id {
		w.reportFault(id, "it says that it is page %d", have)
		return s, 0, false
	}
	more = uint64(order.Uint32(header[12:]))
	if id+more >= w.hwm || id+more >= w.count {
		w.reportFault(id, "it goes on for %d pages, which are not there", more)
		return s, 0, false
	}
	for i := id; i <= id+more; i++ {
		if w.reached.hasBit(i) {
			w.reportFault(i, "it is used twice")
			return s, 0, false
		}
	}
	for i := id; i <= id+more; i++ {
		w.reached.addBit(i)
	}
	if s.size = int64(more+1) * size; s.size > loadBound {
		return s, more, true
	}
	loaded, err := s.loadSection()
	if err != nil {
		w.reportFault(id, "it cannot be read: %v", err)
	}
	return loaded, more, err == nil
}

// readBytes reads a part of a page.
func (w *walk) readBytes(id uint64, s section, from, n int64) ([]byte, bool) {
	b, err := s.readBytes(from, n)
	if err != nil {
		w.reportFault(id, "it cannot be read: %v", err)
	}
	return b, err == nil
}

// readTree reads a page and the pages below it; bucket is empty for the list of buckets.
func (w *walk) readTree(id uint64, bucket string, l limits) {
	if w.done {
		return
	}
	if l.depth > maxDepth {
		w.reportFault(id, "there are %d pages above it, which cannot be", l.depth)
		return
	}
	s, more, ok := w.readSpan(id)
	if !ok {
		return
	}
	header, ok := w.readBytes(id, s, 0, headerSize)
	if !ok {
		return
	}
	switch order.Uint16(header[8:]) {
	case flagLeaf:
		before := w.faults
		w.readLeaf(id, s, bucket, l)
		for i := id; w.faults == before && w.report != nil && i <= id+more; i++ {
			w.whole.addBit(i)
		}
	case flagBranch:
		w.readBranch(id, s, bucket, l)
	default:
		w.reportFault(id, "its kind is %#x, which is not of a page with entries", order.Uint16(header[8:]))
	}
}

// child is an entry of a branch page.
type child struct {
	key  []byte
	page uint64
}

func (w *walk) readBranch(id uint64, s section, bucket string, l limits) {
	n, table, ok := w.readElements(id, s)
	if !ok {
		return
	}
	if n == 0 {
		w.reportFault(id, "nothing is below it")
	}
	var last *child // a child is read when the key of the next one is known
	index, room := 0, roomOf(s, n)
	descend := func(below []byte) {
		if last != nil {
			w.readTree(last.page, bucket, limits{last.key, below, l.depth + 1})
		}
	}
	for i := range n {
		e := table[i*elementSize:]
		at, ok := s.partAfter(headerSize+i*elementSize, order.Uint32(e), uint64(order.Uint32(e[4:])))
		if !ok || at.size > maxKey {
			w.reportFault(id, "entry %d points outside of it", i)
			continue
		}
		if room -= at.size; room < 0 {
			w.reportFault(id, "entry %d is part of another one", i)
			break
		}
		key, ok := w.readBytes(id, at, 0, at.size)
		if !ok {
			return
		}
		var previous []byte
		if last != nil {
			previous = last.key
		}
		w.inOrder(id, index, key, previous, l)
		descend(key)
		last = &child{key, order.Uint64(e[8:])}
		index++
	}
	descend(l.below)
}

// readLeaf reads a page of entries.
func (w *walk) readLeaf(id uint64, s section, bucket string, l limits) {
	n, table, ok := w.readElements(id, s)
	if !ok {
		return
	}
	var previous []byte
	room := roomOf(s, n)
	for i := range n {
		if w.done {
			return
		}
		key, value, isBucket, ok := leafEntry(s, table, i)
		if !ok {
			w.reportFault(id, "entry %d points outside of it", i)
			continue
		}
		if room -= int64(len(key)) + value.size; room < 0 {
			w.reportFault(id, "entry %d is part of another one", i)
			return
		}
		w.inOrder(id, int(i), key, previous, l)
		previous = key
		switch {
		case isBucket != (bucket == ""):
			w.reportFault(id, "entry %d (%q) is of the wrong kind", i, key)
		case isBucket:
			w.readBucket(id, string(key), value, l.depth+1)
		case w.report != nil:
			w.Largest = max(w.Largest, value.size)
		case w.visit != nil && !w.visit(bucket, key, value):
			w.done = true
		}
	}
}

// readBucket reads the entries of a bucket: below its root page, or, of a small one, on the
// only page that it has, inside of its entry.
func (w *walk) readBucket(id uint64, name string, value section, depth int) {
	if w.report != nil {
		w.Buckets = append(w.Buckets, name)
	}
	if value.size < bucketSize {
		w.reportFault(id, "bucket %q has no place", name)
		return
	}
	place, ok := w.readBytes(id, value, 0, bucketSize)
	if !ok {
		return
	}
	if root := order.Uint64(place); root != 0 {
		w.readTree(root, name, limits{depth: depth})
		return
	}
	page := value.skipBytes(bucketSize)
	if page.size < headerSize {
		w.reportFault(id, "bucket %q is not whole", name)
		return
	}
	header, ok := w.readBytes(id, page, 0, headerSize)
	switch {
	case !ok:
	case order.Uint16(header[8:]) != flagLeaf:
		w.reportFault(id, "bucket %q is not whole", name)
	default:
		w.readLeaf(id, page, name, limits{depth: depth})
	}
}

// readElements reads the table of a page's entries, as far as it can be read.
func (w *walk) readElements(id uint64, s section) (n int64, table []byte, ok bool) {
	header, ok := w.readBytes(id, s, 0, headerSize)
	if !ok {
		return 0, nil, false
	}
	n, room := int64(order.Uint16(header[10:])), (s.size-headerSize)/elementSize
	if n > room {
		w.reportFault(id, "it says that it has %d entries, which is more than it has room for", n)
		return 0, nil, false
	}
	table, ok = w.readBytes(id, s, headerSize, n*elementSize)
	return n, table, ok
}

// roomOf returns how many bytes the keys and values of a page's n entries have together, at most. A
// crafted page may have thousands of entries that are one part of it.
func roomOf(s section, n int64) int64 { return s.size - headerSize - n*elementSize }

// leafEntry reads the key of entry i of a page, and finds its value.
func leafEntry(s section, table []byte, i int64) (key []byte, value section, isBucket, ok bool) {
	e := table[i*elementSize:]
	flags, pos, ksize, vsize := order.Uint32(e), order.Uint32(e[4:]), order.Uint32(e[8:]), order.Uint32(e[12:])
	both, ok := s.partAfter(headerSize+i*elementSize, pos, uint64(ksize)+uint64(vsize))
	if !ok || flags > bucketEntry || ksize == 0 || ksize > maxKey {
		return nil, section{}, false, false
	}
	key, err := both.readBytes(0, int64(ksize))
	return key, both.skipBytes(int64(ksize)), flags == bucketEntry, err == nil
}

func (w *walk) inOrder(id uint64, i int, key, previous []byte, l limits) {
	wrong := l.below != nil && bytes.Compare(key, l.below) >= 0
	if i > 0 {
		wrong = wrong || bytes.Compare(key, previous) <= 0
	} else {
		wrong = wrong || l.from != nil && !bytes.Equal(key, l.from)
	}
	if wrong {
		w.reportFault(id, "key %q is not in its place", key)
	}
}

// readFreelist marks the free pages. None of them may be in use elsewhere, since bbolt would
// overwrite it.
func (w *walk) readFreelist(id uint64) {
	s, _, ok := w.readSpan(id)
	if !ok {
		return
	}
	header, ok := w.readBytes(id, s, 0, headerSize)
	if !ok {
		return
	}
	if kind := order.Uint16(header[8:]); kind != flagFreelist {
		w.reportFault(id, "its kind is %#x, where the list of free pages should be", kind)
		return
	}
	n, list := uint64(order.Uint16(header[10:])), s.skipBytes(headerSize)
	if n == 0xFFFF { // more than fit: the first element has their number
		first, ok := w.readBytes(id, list, 0, 8)
		if !ok {
			return
		}
		n, list = order.Uint64(first), list.skipBytes(8)
	}
	if n > uint64(list.size)/8 {
		w.reportFault(id, "its list of free pages is longer than it")
		return
	}
	for i := int64(0); i < int64(n); i += loadBound / 8 {
		b, ok := w.readBytes(id, list, i*8, min(int64(n)-i, loadBound/8)*8)
		if !ok {
			return
		}
		w.markFree(id, b)
	}
}

// markFree marks some of the free pages.
func (w *walk) markFree(id uint64, list []byte) {
	for ; len(list) >= 8; list = list[8:] {
		free := order.Uint64(list)
		if free < 2 || free >= w.hwm || w.reached.hasBit(free) {
			w.reportFault(id, "it says that page %d is free, which cannot be", free)
			continue
		}
		if w.Free++; free < w.count {
			w.reached.addBit(free)
		}
	}
}
