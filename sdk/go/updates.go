package hostel

import (
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"
	"time"
)

// Numbers of refusals after which looking again does not help: no such session, wrong parameters.
const (
	rpcNoSession     = -32000
	rpcInvalidParams = -32602
)

// UpdateOptions say what a stream of updates is to give.
type UpdateOptions struct {
	// SinceSeq: only what comes after this number; 0: everything.
	SinceSeq int64
	// ReplayOnly: end with what was there at the moment of the call instead of following.
	ReplayOnly bool
}

// UpdateStream gives what happens in a session, each update once and in the order of its number, across lost
// connections and restarts of the house. It has a connection of its own, which is held up while nobody takes what came.
type UpdateStream struct {
	socket  string
	session string
	replay  bool
	ctx     context.Context
	cancel  context.CancelCauseFunc
	items   chan Update
	done    chan struct{}
	given   atomic.Int64
	// Set before done is closed.
	err    error
	failed bool

	// What follows belongs to the goroutine that reads.
	seq    int64
	pauses *backoff
}

func openUpdates(ctx context.Context, socket, session string, options UpdateOptions) (*UpdateStream, error) {
	inner, cancel := context.WithCancelCause(ctx)
	s := &UpdateStream{
		socket: socket, session: session, replay: options.ReplayOnly, ctx: inner, cancel: cancel,
		items: make(chan Update), done: make(chan struct{}), seq: options.SinceSeq,
		pauses: newBackoff(100*time.Millisecond, 5*time.Second),
	}
	s.given.Store(options.SinceSeq)
	connection, err := s.attach()
	if err != nil {
		cancel(nil)
		return nil, err
	}
	go s.run(connection)
	return s, nil
}

// LastSeq is the number of the last update that was taken: SinceSeq of a later stream.
func (s *UpdateStream) LastSeq() int64 { return s.given.Load() }

// Next waits for the next update. It fails once the stream has ended, with [StreamClosed] if nothing went wrong; that
// ctx has ended leaves the stream as it is.
func (s *UpdateStream) Next(ctx context.Context) (Update, error) {
	select {
	case update := <-s.items:
		if update.Seq > s.given.Load() {
			s.given.Store(update.Seq)
		}
		return update, nil
	case <-s.done:
		return Update{}, s.err
	case <-ctx.Done():
		return Update{}, ctx.Err()
	}
}

// All gives every update until the stream ends, for range; an error is the last it gives.
func (s *UpdateStream) All() func(yield func(Update, error) bool) {
	return func(yield func(Update, error) bool) {
		for {
			update, err := s.Next(context.Background())
			if err != nil {
				if s.failed {
					yield(Update{}, err)
				}
				return
			}
			if !yield(update, nil) {
				return
			}
		}
	}
}

// Close ends the stream. The session goes on.
func (s *UpdateStream) Close() error {
	s.cancel(&ConnectionError{Code: StreamClosed})
	<-s.done
	return nil
}

func (s *UpdateStream) attach() (*rpcConn, error) {
	connection, err := dialHouse(s.ctx, s.socket, true)
	if err != nil {
		return nil, err
	}
	follow := !s.replay
	params := SessionAttachParams{SessionID: s.session, SinceSeq: s.seq, Follow: &follow}
	ctx, cancel := context.WithTimeoutCause(s.ctx, defaultTimeout, &ConnectionError{Code: Timeout})
	defer cancel()
	if err := connection.call(ctx, "session/attach", params, nil); err != nil {
		connection.close()
		return nil, err
	}
	return connection, nil
}

// run reads until the stream is over or cannot go on.
func (s *UpdateStream) run(connection *rpcConn) {
	defer close(s.done)
	for {
		over, err := s.follow(connection)
		connection.close()
		if !over && err == nil {
			connection, err = s.reattach()
		}
		switch {
		case over:
			s.err = &ConnectionError{Code: StreamClosed}
			s.cancel(s.err)
			return
		case s.ctx.Err() != nil:
			s.err = context.Cause(s.ctx)
			return
		case err != nil:
			s.err, s.failed = err, true
			s.cancel(err)
			return
		}
	}
}

func (s *UpdateStream) reattach() (*rpcConn, error) {
	for {
		if err := sleep(s.ctx, s.pauses.pause()); err != nil {
			return nil, err
		}
		connection, err := s.attach()
		var refused *HouseError
		switch {
		case err == nil:
			return connection, nil
		case errors.As(err, &refused) && (refused.Code == rpcNoSession || refused.Code == rpcInvalidParams):
			return nil, err
		case s.ctx.Err() != nil:
			return nil, err
		}
	}
}

// follow gives out what comes over one connection until that is lost; true if there is nothing more to come.
func (s *UpdateStream) follow(connection *rpcConn) (bool, error) {
	for {
		var heard note
		select {
		case heard = <-connection.notes:
		case <-connection.lost:
			return false, nil
		case <-s.ctx.Done():
			return false, context.Cause(s.ctx)
		}
		if heard.method != "session/update" {
			continue
		}
		update := Update{Raw: heard.params}
		if err := json.Unmarshal(heard.params, &update); err != nil {
			return false, &ConnectionError{Code: ProtocolError, Err: err}
		}
		if update.SessionID != s.session {
			continue
		}
		// An approval that is asked again has the number it had.
		if update.Seq > 0 && update.Seq <= s.seq && update.Type != UpdateApprovalRequest {
			continue
		}
		s.seq = max(s.seq, update.Seq)
		if update.Type == UpdateGap {
			s.seq = max(s.seq, update.ToSeq)
		}
		s.pauses.reset()
		select {
		case s.items <- update:
		case <-s.ctx.Done():
			return false, context.Cause(s.ctx)
		}
		switch update.Type {
		case UpdateReplayComplete, UpdateReplayFailed, UpdateSessionClosed:
			return true, nil
		}
	}
}
