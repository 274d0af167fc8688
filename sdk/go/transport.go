package hostel

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// HTTP/1.1 to one daemon: over its socket, else over loopback with its token. One connection per request. A session's
// token, or a hook's, is shown on the socket only: over loopback it would be the member who speaks, so they never go there.

const (
	// A body longer than this is sent once the daemon wants it: of one that is too long it reads nothing.
	large = 256 << 10
	// How long the daemon may take to say so.
	patientFor = 5 * time.Second
)

// answerLimit is the most of an answer that is read; a daemon's are at most 10 MB.
const answerLimit = 16 << 20

// request is what is asked for.
type request struct {
	method, path string
	query        url.Values
	body         any
	header       map[string]string
	// repeatable: it may be repeated, whatever became of it.
	repeatable bool
	// once: nothing is repeated, who asks wants to know now.
	once bool
	// plain: whoever asks is of no matter, nothing is shown on the socket.
	plain bool
	// timeout instead of the client's.
	timeout time.Duration
}

// answer is one with its whole body.
type answer struct {
	status     int
	retryAfter time.Duration
	body       []byte
	loopback   bool
}

type transport struct {
	place   place
	speaker func() string
	agent   string
	sockets []*http.Transport
	tcp     *http.Transport
}

func newTransport(at place, speaker func() string, agent string) *transport {
	t := &transport{place: at, speaker: speaker, agent: agent}
	for _, socket := range at.sockets {
		dial := func(ctx context.Context, _, _ string) (net.Conn, error) { return dialSocket(ctx, socket) }
		t.sockets = append(t.sockets, once(dial))
	}
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		connection, err := (&net.Dialer{}).DialContext(ctx, network, address)
		if err != nil {
			return nil, &dialError{err}
		}
		return connection, nil
	}
	t.tcp = once(dial)
	return t
}

// once makes a connection for each request.
func once(dial func(ctx context.Context, network, address string) (net.Conn, error)) *http.Transport {
	return &http.Transport{
		DialContext: dial, DisableKeepAlives: true, DisableCompression: true, ExpectContinueTimeout: patientFor,
	}
}

// exchange asks once and reads the whole answer.
func (t *transport) exchange(ctx context.Context, r request) (answer, error) {
	response, loopback, err := t.open(ctx, r)
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()
	body, err := readAnswer(ctx, response)
	return answer{status: response.StatusCode, retryAfter: retryAfter(response), body: body, loopback: loopback}, err
}

func readAnswer(ctx context.Context, response *http.Response) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(response.Body, answerLimit+1))
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		return nil, &ConnectionError{Code: ConnectionLost, Err: err}
	case len(body) > answerLimit:
		return nil, &ConnectionError{Code: ProtocolError, Err: errors.New("it is too long to be one")}
	}
	return body, nil
}

// open asks once; the body is the caller's to read and to close. It also tells whether the way was loopback.
func (t *transport) open(ctx context.Context, r request) (*http.Response, bool, error) {
	speaker := t.speaker()
	authorization := speaker
	if r.plain {
		authorization = ""
	}
	var failure error
	for _, way := range t.sockets {
		response, err := t.send(ctx, r, way, "http://localhost", authorization)
		var lost *ConnectionError
		if err == nil || !errors.As(err, &lost) || !lost.Unsent {
			return response, false, err
		}
		if failure == nil {
			failure = err
		}
	}
	if speaker == "" {
		if port, token, ok := t.place.loopback(); ok {
			response, err := t.send(ctx, r, t.tcp, "http://127.0.0.1:"+strconv.Itoa(port), "Bearer "+token)
			return response, true, err
		}
	}
	if failure == nil {
		failure = &ConnectionError{Code: DaemonUnreachable, Unsent: true, Err: errors.New("there is neither a socket nor a port")}
	}
	return nil, false, failure
}

func (t *transport) send(
	ctx context.Context, r request, way *http.Transport, base, authorization string,
) (*http.Response, error) {
	var body io.Reader
	if r.body != nil {
		encoded, err := json.Marshal(r.body)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(encoded)
	}
	target := base + r.path
	if len(r.query) > 0 {
		target += "?" + r.query.Encode()
	}
	asked, err := http.NewRequestWithContext(ctx, r.method, target, body)
	if err != nil {
		return nil, err
	}
	asked.Header.Set("User-Agent", t.agent)
	asked.Header.Set("Accept", "application/json")
	if r.body != nil {
		asked.Header.Set("Content-Type", "application/json")
	}
	if asked.ContentLength > large {
		asked.Header.Set("Expect", "100-continue")
	}
	if authorization != "" {
		asked.Header.Set("Authorization", authorization)
	}
	for name, value := range r.header {
		asked.Header.Set(name, value)
	}
	response, err := way.RoundTrip(asked)
	if err == nil {
		return response, nil
	}
	var unsent *dialError
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case errors.As(err, &unsent):
		return nil, &ConnectionError{Code: DaemonUnreachable, Unsent: true, Err: err}
	default:
		return nil, &ConnectionError{Code: ConnectionLost, Err: err}
	}
}

// retryAfter is when the daemon says to come back; negative if it does not.
func retryAfter(response *http.Response) time.Duration {
	seconds, err := strconv.Atoi(response.Header.Get("Retry-After"))
	if err != nil || seconds < 0 {
		return -1
	}
	return time.Duration(seconds) * time.Second
}

// refusal is what an answer of 400 and above says. That the daemon is ending is the same as if it was gone.
func refusal(a answer) error {
	var said struct{ Error, Detail, Field string }
	// What is no JSON of ours says nothing.
	_ = json.Unmarshal(a.body, &said)
	refused := &MeshError{
		Status: a.status, Code: Code(said.Error), Detail: said.Detail, Field: said.Field,
		RetryAfter: a.retryAfter, Body: a.body,
	}
	if refused.Code == "" {
		refused.Code = Code("http_" + strconv.Itoa(a.status))
	}
	if refused.Detail == "" {
		refused.Detail = string(refused.Code)
	}
	if refused.Code == "closed" {
		return &ConnectionError{Code: ConnectionLost, Unsent: true, Err: refused}
	}
	return refused
}

// queryOf writes a struct of the models as a query: the names are those of the wire, what is empty is left out.
func queryOf(of any) (url.Values, error) {
	encoded, err := json.Marshal(of)
	if err != nil {
		return nil, err
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(encoded, &fields); err != nil {
		return nil, err
	}
	query := url.Values{}
	for name, value := range fields {
		var text string
		if json.Unmarshal(value, &text) != nil {
			text = string(value)
		}
		query.Set(name, text)
	}
	return query, nil
}
