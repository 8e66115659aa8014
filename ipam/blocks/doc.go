// Package blocks divides the addresses of a network among the nodes of a
// cluster (I4). Grant and Release are the controller's half: what nodes ask for
// goes in, who may hand out what comes out. Book is a node's half: what was
// granted goes in, and what the node asks for; attach asks it what it may hand
// out. It is pure: kube and controller carry the values to and from the API
// server.
//
// Why no address is on two nodes:
//
//   - Blocks of a pool never overlap, and a pool is only ever written on the
//     version that was read (compare and swap), so any number of controllers may
//     run and die at any moment.
//   - A node hands out what is in its blocks, and nothing else. What it sees of
//     the pool may be old, but a block never moves: it is taken back only some
//     minutes after the Node object was seen to be gone, and handing out stops
//     for everybody as soon as that was noted. Another Node of the same name
//     does not have it, and each controller counts the minutes by its own clock.
//   - A single address that somebody asked for by name is claimed under an ID
//     that is used once. A node that let go of a claim never uses the block of
//     that ID again, and a controller takes the block back only when a look at
//     the node's requests, later than its look at the pool, lacks the ID.
//   - An API server that was restored from a backup forgets blocks. RollCall keeps
//     a controller from granting before the nodes have said what they hold.
//
// TestI4AcrossNodes plays it with old views, lost writes, crashes and restored API
// servers.
package blocks
