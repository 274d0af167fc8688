package hostel

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
)

// fakeDaemon is one of the mesh lab that says what a test tells it to.
type fakeDaemon struct {
	t       *testing.T
	root    string
	dir     string
	mutex   sync.Mutex
	asked   []asked
	answer  func(http.ResponseWriter, asked)
	servers []*http.Server
}

type asked struct {
	method, path string
	query        url.Values
	header       http.Header
	body         map[string]any
	request      *http.Request
}

func newFakeDaemon(t *testing.T) *fakeDaemon {
	t.Helper()
	root, err := os.MkdirTemp("", "hostel-sdk-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(root) })
	d := &fakeDaemon{t: t, root: root, dir: filepath.Join(root, "lab")}
	if err := os.Mkdir(d.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.stop)
	return d
}

func (d *fakeDaemon) options() Options {
	return Options{DaemonDir: d.root, Mesh: "lab", Getenv: func(string) string { return "" }}
}

func (d *fakeDaemon) mesh() *Mesh {
	d.t.Helper()
	mesh, err := New(d.options())
	if err != nil {
		d.t.Fatal(err)
	}
	return mesh
}

func (d *fakeDaemon) listen() *fakeDaemon {
	d.t.Helper()
	listener, err := net.Listen("unix", filepath.Join(d.dir, "sock"))
	if err != nil {
		d.t.Fatal(err)
	}
	d.serve(listener)
	return d
}

func (d *fakeDaemon) listenLoopback(token string) *fakeDaemon {
	d.t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		d.t.Fatal(err)
	}
	d.write("http.port", strconv.Itoa(listener.Addr().(*net.TCPAddr).Port))
	d.write("local_token", token)
	d.serve(listener)
	return d
}

func (d *fakeDaemon) write(name, text string) {
	if err := os.WriteFile(filepath.Join(d.dir, name), []byte(text+"\n"), 0o600); err != nil {
		d.t.Error(err)
	}
}

func (d *fakeDaemon) serve(listener net.Listener) {
	handler := func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		found := asked{method: r.Method, path: r.URL.EscapedPath(), query: r.URL.Query(), header: r.Header, request: r}
		if len(text) > 0 {
			if err := json.Unmarshal(text, &found.body); err != nil {
				d.t.Error(err)
			}
		}
		d.mutex.Lock()
		d.asked = append(d.asked, found)
		answer := d.answer
		d.mutex.Unlock()
		answer(w, found)
	}
	server := &http.Server{Handler: http.HandlerFunc(handler)}
	d.servers = append(d.servers, server)
	go server.Serve(listener)
}

func (d *fakeDaemon) stop() {
	for _, server := range d.servers {
		server.Close()
	}
	d.servers = nil
}

func (d *fakeDaemon) requests() []asked {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	return append([]asked{}, d.asked...)
}

// inTurn answers each request by the next function.
func (d *fakeDaemon) inTurn(answers ...func(http.ResponseWriter, asked)) {
	next := 0
	d.answer = func(w http.ResponseWriter, a asked) {
		d.mutex.Lock()
		answer := answers[min(next, len(answers)-1)]
		next++
		d.mutex.Unlock()
		answer(w, a)
	}
}

func says(status int, body any, headers ...string) func(http.ResponseWriter, asked) {
	return func(w http.ResponseWriter, _ asked) {
		for i := 0; i+1 < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(status)
		json.NewEncoder(w).Encode(body)
	}
}

// hangsUp ends the connection without an answer.
func hangsUp(http.ResponseWriter, asked) { panic(http.ErrAbortHandler) }

// streams gives blocks and then ends the connection, or stays until the client goes.
func streams(begin string, stays bool, blocks ...string) func(http.ResponseWriter, asked) {
	return func(w http.ResponseWriter, a asked) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header().Set("Last-Event-ID", begin)
		io.WriteString(w, ": connected\n\n")
		for _, block := range blocks {
			io.WriteString(w, block)
		}
		w.(http.Flusher).Flush()
		if stays {
			<-a.request.Context().Done()
		} else {
			panic(http.ErrAbortHandler)
		}
	}
}

func messageBlock(place, id string) string {
	return fmt.Sprintf("id: %s\nevent: message\ndata: {\"ts\":\"2026-01-01T00:00:00.000Z\",\"id\":%q,\"body\":%q}\n\n", place, id, id)
}

// fakeHouse greets by itself and leaves the rest to the test.
type fakeHouse struct {
	t      *testing.T
	home   string
	mutex  sync.Mutex
	called []*called
	answer func(*called)
}

type called struct {
	Method     string          `json:"method"`
	ID         json.RawMessage `json:"id"`
	Params     map[string]any  `json:"params"`
	connection net.Conn
}

func (c *called) say(what map[string]any) {
	what["jsonrpc"] = "2.0"
	line, _ := json.Marshal(what)
	c.connection.Write(append(line, '\n'))
}

func (c *called) result(result any) { c.say(map[string]any{"id": c.ID, "result": result}) }

func (c *called) refuse(code int, message string) {
	c.say(map[string]any{"id": c.ID, "error": map[string]any{"code": code, "message": message}})
}

func (c *called) note(update map[string]any) {
	params := map[string]any{"session_id": c.Params["session_id"], "sessionId": c.Params["session_id"]}
	for name, value := range update {
		params[name] = value
	}
	c.say(map[string]any{"method": "session/update", "params": params})
}

func newFakeHouse(t *testing.T) *fakeHouse {
	t.Helper()
	home, err := os.MkdirTemp("", "hostel-sdk-")
	if err != nil {
		t.Fatal(err)
	}
	h := &fakeHouse{t: t, home: home}
	if err := os.Mkdir(filepath.Join(home, "run"), 0o700); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("unix", filepath.Join(home, "run", "hostel.sock"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close(); os.RemoveAll(home) })
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			go h.serve(connection)
		}
	}()
	return h
}

func (h *fakeHouse) serve(connection net.Conn) {
	defer connection.Close()
	lines := bufio.NewScanner(connection)
	for lines.Scan() {
		c := &called{connection: connection}
		if err := json.Unmarshal(lines.Bytes(), c); err != nil {
			h.t.Error(err)
			return
		}
		if c.Method == "initialize" {
			c.result(map[string]any{"protocol_version": 1, "server_version": "0", "tui_id": "tui_0"})
			continue
		}
		h.mutex.Lock()
		h.called = append(h.called, c)
		answer := h.answer
		h.mutex.Unlock()
		answer(c)
	}
}

// answers says what is said from now on.
func (h *fakeHouse) answers(answer func(*called)) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.answer = answer
}

func (h *fakeHouse) calls(method string) []*called {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	var found []*called
	for _, c := range h.called {
		if c.Method == method {
			found = append(found, c)
		}
	}
	return found
}

func (h *fakeHouse) client() *House {
	h.t.Helper()
	house, err := NewHouse(HouseOptions{Home: h.home})
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { house.Close() })
	return house
}
