package api

import "encoding/json"

// RPCRequest is the one message that a client sends on a connection to
// culvertd's socket, followed by a newline.
type RPCRequest struct {
	Method string `json:"method"`
	// DeadlineMS is how many milliseconds the client waits; 0 means no bound.
	DeadlineMS int64           `json:"deadlineMS,omitempty"`
	Params     json.RawMessage `json:"params,omitempty"`
	// Dialog is set if the client answers questions while it waits (RPCResponse.Ask).
	Dialog bool `json:"dialog,omitempty"`
}

// RPCResponse is the answer: Result or Error. A stream has many responses; More is set on each but
// the last, which has no Result.
type RPCResponse struct {
	Result json.RawMessage `json:"result,omitempty"`
	Error  *Error          `json:"error,omitempty"`
	More   bool            `json:"more,omitempty"`
	// Ask is a question to a client that has set Dialog. The answer to the client's own request
	// follows later.
	Ask *RPCQuestion `json:"ask,omitempty"`
}

// RPCQuestion is a question of culvertd to the client of a dialog. Several may be open at once.
type RPCQuestion struct {
	ID     uint64 `json:"id"`
	Method string `json:"method"`
	// DeadlineMS is how many milliseconds the answer may take; 0 means no bound.
	DeadlineMS int64           `json:"deadlineMS,omitempty"`
	Params     json.RawMessage `json:"params,omitempty"`
}

// RPCReply is the client's answer to the question with the same ID, followed by a newline: Result
// or Error.
type RPCReply struct {
	ID     uint64          `json:"id"`
	Result json.RawMessage `json:"result,omitempty"`
	Error  *Error          `json:"error,omitempty"`
}

// Error is the reason why a request failed.
type Error struct {
	// Code is one of package rpc's codes, for programs.
	Code string `json:"code"`
	// Message is for people: the wanted value, the present value and the next step.
	Message string `json:"message"`
	// Details is a next step, if Message does not have it.
	Details string `json:"details,omitempty"`
}

func (e *Error) Error() string {
	if e.Details == "" {
		return e.Message
	}
	return e.Message + ": " + e.Details
}
