package hostel

import (
	"encoding/json"
	"fmt"
	"time"
)

// Code is the stable word of an error: errors.Is(err, hostel.Code("peer_not_found")).
type Code string

// Error makes a Code something errors.Is can look for.
func (c Code) Error() string { return string(c) }

// Words of this package's own errors; those of the daemon come as they are.
const (
	// Nobody answers: nothing was sent.
	DaemonUnreachable Code = "daemon_unreachable"
	// The connection was lost: the request may have taken effect.
	ConnectionLost Code = "connection_lost"
	// There was no answer in time.
	Timeout Code = "timeout"
	// What came back makes no sense.
	ProtocolError Code = "protocol_error"
	// The daemon speaks another major version, or serves another mesh.
	IncompatibleDaemon Code = "incompatible_daemon"
	// The stream was closed.
	StreamClosed Code = "closed"
)

func isCode(target error, code Code) bool {
	wanted, ok := target.(Code)
	return ok && wanted == code
}

// MeshError is a refusal of the daemon.
type MeshError struct {
	// Status is that of the HTTP answer.
	Status int
	// Code is the daemon's word, such as peer_not_found.
	Code Code
	// Detail is for people.
	Detail string
	// Field is the field or header it is about; empty if there is none.
	Field string
	// RetryAfter says when to come back; negative if the daemon does not.
	RetryAfter time.Duration
	// Body is the whole answer: some refusals say more, see Refusal.
	Body json.RawMessage
}

func (e *MeshError) Error() string { return fmt.Sprintf("%s (%s)", e.Detail, e.Code) }

// Is reports whether the target is the error's Code.
func (e *MeshError) Is(target error) bool { return isCode(target, e.Code) }

// Refusal is the whole answer, typed.
func (e *MeshError) Refusal() (Refusal, error) {
	var refusal Refusal
	err := json.Unmarshal(e.Body, &refusal)
	return refusal, err
}

// ConnectionError says that nobody answers, or nobody does any more.
type ConnectionError struct {
	Code Code
	// Unsent: the request has reached nobody. Otherwise it may have taken effect.
	Unsent bool
	// Err is the cause.
	Err error
}

func (e *ConnectionError) Error() string {
	words := map[Code]string{
		DaemonUnreachable: "nobody answers", ConnectionLost: "the connection was lost",
		Timeout: "there was no answer in time", ProtocolError: "the answer makes no sense", StreamClosed: "the stream was closed",
	}[e.Code]
	if e.Err == nil {
		return words
	}
	return words + ": " + e.Err.Error()
}

// Unwrap gives the cause.
func (e *ConnectionError) Unwrap() error { return e.Err }

// Is reports whether the target is the error's Code.
func (e *ConnectionError) Is(target error) bool { return isCode(target, e.Code) }

// DiscoveryError says that it is not clear which daemon or house is meant: ambiguous_mesh, bad_mesh or no_home.
type DiscoveryError struct {
	Code    Code
	Message string
}

func (e *DiscoveryError) Error() string { return e.Message }

// Is reports whether the target is the error's Code.
func (e *DiscoveryError) Is(target error) bool { return isCode(target, e.Code) }

// VersionError says that daemon and package do not fit: incompatible_daemon.
type VersionError struct{ Message string }

func (e *VersionError) Error() string { return e.Message }

// Is reports whether the target is the error's Code.
func (e *VersionError) Is(target error) bool { return isCode(target, IncompatibleDaemon) }

// HouseError is a refusal of the house; Code is its number, such as -32000 for a session that is not there.
type HouseError struct {
	Code    int
	Message string
}

func (e *HouseError) Error() string { return fmt.Sprintf("%s (%d)", e.Message, e.Code) }

// TurnFailed says that a turn did not come to its end: turn_failed or turn_cancelled.
type TurnFailed struct {
	// Turn is the update that ended it.
	Turn Update
}

func (e *TurnFailed) Error() string {
	if e.Turn.Content == "" {
		return "the turn was " + e.Turn.Outcome
	}
	return e.Turn.Content
}

// Is reports whether the target is the error's Code.
func (e *TurnFailed) Is(target error) bool { return isCode(target, Code("turn_"+e.Turn.Outcome)) }
