// Package blocks divides the addresses of a network among the nodes of a cluster (I4). Grant and
// Release are the controller's half: the nodes' requests go in, and the blocks of each node come
// out. Book is a node's half: its blocks and its attachments' needs go in. attach asks the Book
// which addresses it may hand out, and the node's requests come out. The package is pure: kube
// and controller carry the values to and from the API server.
//
// Why no address is on two nodes:
//
//   - Blocks of a pool never overlap. A controller writes a pool only on the version that it has
//     read (compare and swap), so any number of controllers may run and die at any moment.
//   - A node hands out only addresses of its blocks. Its view of the pool may be old, but a block
//     never moves: a controller takes it back only some minutes after it has seen that the Node
//     object is gone. As soon as the pool notes that, no node hands out addresses of the block.
//     Another Node of the same name does not get the block, and each controller counts the
//     minutes by its own clock.
//   - A node claims a single address, which a pod requests by name, under an ID that is used
//     once. A node that has given a claim up never uses the block of that ID again. A controller
//     takes the block back only if it reads the pool, and then requests of the node without the
//     ID.
//   - A node requests blocks under an ID that is used once and that its ledger has (Book.Keep).
//     It gives addresses up in a transaction of the ledger that closes the ID. From then on it
//     hands out only the addresses that it kept, whatever its view of the pool. So a NodeState
//     that lists addresses as released stays true for ever, and the controller may act on an old
//     one.
//   - An API server that was restored from a backup has forgotten blocks. RollCall keeps a
//     controller from granting before the nodes have reported the addresses that they hold.
//
// TestI4AcrossNodes and TestI4ReleasedAddresses simulate all this with old views, lost writes,
// crashes and restored API servers.
package blocks
