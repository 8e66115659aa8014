package filter

import (
	"fmt"
	"slices"

	"github.com/google/nftables"
	"github.com/mdlayher/netlink"
)

// maxElements is how many elements of a set one message has. Their list is one attribute of
// netlink, whose length has 16 bits (struct nlattr, linux/netlink.h). google/nftables writes a
// longer list with a length that has overflowed, and the kernel reads only the first elements.
const maxElements = 500

// Sizes in a transaction, at most: the largest are those of IPv6 with affinity.
const (
	frontendSize = 4 << 10  // the messages of a chain, its rules and its map, and the elements of three sets
	elementSize  = 128      // a backend, or a choice of affinity
	tableSize    = 64 << 10 // the rest
	// A message is answered by one whose buffer the kernel counts with 1 KiB at most.
	answerSize, answersOfFrontend = 1 << 10, 8
)

// setBuffers makes the buffers of a netlink socket large enough for the transaction of a table: the
// kernel takes it as one datagram, and answers each of its messages before any answer is read.
func setBuffers(s *netlink.Conn, frontends []frontend, choices int) error {
	elements := choices
	for _, f := range frontends {
		elements += len(f.Backends)
	}
	write := tableSize + len(frontends)*frontendSize + elements*elementSize
	read := tableSize + (len(frontends)*answersOfFrontend+elements/maxElements)*answerSize
	if err := s.SetWriteBuffer(write); err != nil {
		return fmt.Errorf("make a netlink socket's write buffer %d bytes: %w", write, err)
	}
	if err := s.SetReadBuffer(read); err != nil {
		return fmt.Errorf("make a netlink socket's read buffer %d bytes: %w", read, err)
	}
	if err := s.SetOption(netlink.CapAcknowledge, true); err != nil { // or a failure is answered with the whole message
		return fmt.Errorf("shorten a netlink socket's answers: %w", err)
	}
	return nil
}

// addSet adds a set with its elements.
func (r ruler) addSet(set *nftables.Set, elements []nftables.SetElement) error {
	if err := r.conn.AddSet(set, nil); err != nil {
		return err
	}
	for some := range slices.Chunk(elements, maxElements) {
		if err := r.conn.SetAddElements(set, some); err != nil {
			return err
		}
	}
	return nil
}
