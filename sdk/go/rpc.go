package hostel

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"sync"
	"time"
)

const (
	// The longest line that is read.
	lineLimit = 64 << 20
	// How long a house may take to greet.
	greetingTimeout = 10 * time.Second
)

// note is something the house says without being asked.
type note struct {
	method string
	params json.RawMessage
}

// rpcConn is one connection to a house: JSON-RPC 2.0, a line each. Every request is answered once, by the house or by
// the loss of the connection. Notes that somebody listens for hold the connection up until they are taken.
type rpcConn struct {
	connection net.Conn
	greeting   Initialized
	notes      chan note
	lost       chan struct{}

	mutex   sync.Mutex
	waiting map[int64]chan rpcAnswer
	next    int64
	reason  error
}

type rpcAnswer struct {
	result json.RawMessage
	err    error
}

// dialHouse connects and says who we are.
func dialHouse(ctx context.Context, socket string, listens bool) (*rpcConn, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, greetingTimeout, &ConnectionError{Code: Timeout, Unsent: true})
	defer cancel()
	connection, err := dialSocket(ctx, socket)
	if err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, &ConnectionError{Code: DaemonUnreachable, Unsent: true, Err: err}
	}
	c := &rpcConn{connection: connection, lost: make(chan struct{}), waiting: map[int64]chan rpcAnswer{}}
	if listens {
		c.notes = make(chan note)
	}
	go c.read()
	if err := c.call(ctx, "initialize", InitializeParams{ProtocolVersion: NativeProtocol}, &c.greeting); err != nil {
		c.close()
		var lost *ConnectionError
		if errors.As(err, &lost) {
			return nil, &ConnectionError{Code: lost.Code, Unsent: true, Err: lost.Err}
		}
		return nil, err
	}
	return c, nil
}

func (c *rpcConn) isOpen() bool {
	select {
	case <-c.lost:
		return false
	default:
		return true
	}
}

func (c *rpcConn) close() { c.lose(errors.New("it was closed")) }

func (c *rpcConn) lose(reason error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.reason != nil {
		return
	}
	c.reason = &ConnectionError{Code: ConnectionLost, Err: reason}
	c.connection.Close()
	for _, waiting := range c.waiting {
		waiting <- rpcAnswer{err: c.reason}
	}
	c.waiting = nil
	close(c.lost)
}

// call asks and waits for the answer.
func (c *rpcConn) call(ctx context.Context, method string, params, result any) error {
	if params == nil {
		params = struct{}{}
	}
	answered := make(chan rpcAnswer, 1)
	c.mutex.Lock()
	if c.reason != nil {
		c.mutex.Unlock()
		return &ConnectionError{Code: ConnectionLost, Unsent: true, Err: c.reason}
	}
	c.next++
	id := c.next
	line, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": id, "method": method, "params": params})
	if err != nil {
		c.mutex.Unlock()
		return err
	}
	c.waiting[id] = answered
	// Without one there is none: that of an earlier call does not count.
	deadline, _ := ctx.Deadline()
	if err = c.connection.SetWriteDeadline(deadline); err == nil {
		_, err = c.connection.Write(append(line, '\n'))
	}
	c.mutex.Unlock()
	if err != nil {
		c.lose(err)
	}
	select {
	case answer := <-answered:
		if answer.err != nil || result == nil {
			return answer.err
		}
		if err := json.Unmarshal(answer.result, result); err != nil {
			return &ConnectionError{Code: ProtocolError, Err: err}
		}
		return nil
	case <-ctx.Done():
		c.mutex.Lock()
		delete(c.waiting, id)
		c.mutex.Unlock()
		return context.Cause(ctx)
	}
}

func (c *rpcConn) read() {
	lines := bufio.NewReaderSize(c.connection, 64<<10)
	for {
		line, err := readLine(lines)
		if err == nil {
			err = c.heard(line)
		}
		if err != nil {
			c.lose(err)
			return
		}
	}
}

func readLine(lines *bufio.Reader) ([]byte, error) {
	var whole []byte
	for {
		piece, err := lines.ReadSlice('\n')
		whole = append(whole, piece...)
		if err == nil {
			return bytes.TrimSpace(whole), nil
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return nil, err
		}
		if len(whole) > lineLimit {
			return nil, errors.New("the house sent a line that is too long to be one")
		}
	}
}

func (c *rpcConn) heard(line []byte) error {
	var message struct {
		ID     *int64          `json:"id"`
		Method string          `json:"method"`
		Params json.RawMessage `json:"params"`
		Result json.RawMessage `json:"result"`
		Error  *struct {
			Code    int    `json:"code"`
			Message string `json:"message"`
		} `json:"error"`
	}
	if err := json.Unmarshal(line, &message); err != nil {
		// A request of the house has an id of another kind; it asks others as well, or again.
		var kind *json.UnmarshalTypeError
		if errors.As(err, &kind) && message.Method != "" {
			return nil
		}
		return err
	}
	if message.Method != "" {
		if message.ID == nil && c.notes != nil {
			select {
			case c.notes <- note{message.Method, message.Params}:
			case <-c.lost:
			}
		}
		return nil
	}
	if message.ID == nil {
		if message.Error != nil {
			return errors.New(message.Error.Message)
		}
		return nil
	}
	c.mutex.Lock()
	waiting := c.waiting[*message.ID]
	delete(c.waiting, *message.ID)
	c.mutex.Unlock()
	if waiting == nil {
		return nil
	}
	if message.Error != nil {
		waiting <- rpcAnswer{err: &HouseError{Code: message.Error.Code, Message: message.Error.Message}}
	} else {
		waiting <- rpcAnswer{result: message.Result}
	}
	return nil
}
