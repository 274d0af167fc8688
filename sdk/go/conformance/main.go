// Command conformance runs the shared vectors against the SDK, or the soak's client; see sdk/vectors and
// sdk/conformance.
//
//	conformance VECTORS.json LAB.json
//	conformance soak LAB.json
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sync"

	hostel "hostel/sdk/go"
)

// lab is what the harness has started.
type lab struct {
	SDK     string `json:"sdk"`
	Dir     string `json:"dir"`
	House   string `json:"house"`
	Members map[string]struct {
		DaemonDir string `json:"daemon_dir"`
		Mesh      string `json:"mesh"`
		Pubkey    string `json:"pubkey"`
	} `json:"members"`
}

func (l lab) mesh(member string) (*hostel.Mesh, error) {
	at, ok := l.Members[member]
	if !ok {
		return nil, fmt.Errorf("the lab has no member %q", member)
	}
	return hostel.New(hostel.Options{DaemonDir: at.DaemonDir, Mesh: at.Mesh})
}

var (
	saying sync.Mutex
	output = bufio.NewWriter(os.Stdout)
)

// say writes a line of JSON for the harness.
func say(line any) {
	encoded, err := json.Marshal(line)
	if err != nil {
		fail(err)
	}
	saying.Lock()
	defer saying.Unlock()
	output.Write(append(encoded, '\n'))
	output.Flush()
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: conformance VECTORS.json LAB.json | conformance soak LAB.json")
		os.Exit(2)
	}
	var started lab
	if err := readJSON(os.Args[2], &started); err != nil {
		fail(err)
	}
	input := bufio.NewScanner(os.Stdin)
	input.Buffer(nil, 16<<20)
	run := func() error { return runVectors(context.Background(), os.Args[1], started, input) }
	if os.Args[1] == "soak" {
		run = func() error { return runSoak(context.Background(), started, input) }
	}
	if err := run(); err != nil {
		fail(err)
	}
}

func readJSON(path string, into any) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}
