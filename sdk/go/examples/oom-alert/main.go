// Command oom-alert runs a worker and tells the mesh when the kernel has killed it for want of memory.
//
//	oom-alert -topic alerts ./worker --queue mail
//
// The alert has an id made of what it is about: however often it is tried, it is posted once. The daemon keeps it until
// it is delivered, so this program may end at once.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"syscall"
	"time"

	hostel "hostel/sdk/go"
)

func main() {
	topic := flag.String("topic", "alerts", "where to tell it")
	flag.Parse()
	if flag.NArg() == 0 {
		fmt.Fprintln(os.Stderr, "usage: oom-alert [-topic TOPIC] COMMAND [ARGUMENT...]")
		os.Exit(2)
	}
	code, err := run(context.Background(), *topic, flag.Args())
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(code)
}

func run(ctx context.Context, topic string, command []string) (int, error) {
	mesh, err := hostel.Connect(ctx, hostel.Options{})
	if err != nil {
		return 1, err
	}
	if _, err := mesh.Subscribe(ctx, topic); err != nil {
		return 1, err
	}
	before, counted := oomKills()
	worker := exec.CommandContext(ctx, command[0], command[1:]...)
	worker.Stdin, worker.Stdout, worker.Stderr = os.Stdin, os.Stdout, os.Stderr
	err = worker.Run()
	var ended *exec.ExitError
	if err != nil && !errors.As(err, &ended) {
		return 1, err
	}
	state := worker.ProcessState
	status, _ := state.Sys().(syscall.WaitStatus)
	killed := status.Signaled() && status.Signal() == syscall.SIGKILL
	if after, ok := oomKills(); ok && counted {
		killed = after > before
	}
	if !killed {
		return state.ExitCode(), nil
	}
	host, err := os.Hostname()
	if err != nil {
		return 1, err
	}
	sent, err := mesh.Post(ctx, hostel.PostRequest{
		Topic:           topic,
		Message:         fmt.Sprintf("%s: %s (pid %d) ran out of memory", host, command[0], state.Pid()),
		Priority:        hostel.PriorityNow,
		Meta:            map[string]any{"host": host, "command": command[0], "pid": state.Pid()},
		ClientMessageID: fmt.Sprintf("oom-%s-%d-%d", host, state.Pid(), time.Now().UnixMilli()),
	})
	if err != nil {
		return 1, fmt.Errorf("#%s was not told: %w", topic, err)
	}
	fmt.Fprintf(os.Stderr, "told #%s (%s)\n", topic, sent.ClientMessageID)
	return 1, nil
}

var (
	ownGroup = regexp.MustCompile(`(?m)^0::(.*)$`)
	oomCount = regexp.MustCompile(`(?m)^oom_kill (\d+)$`)
)

// oomKills is how often the kernel has killed something in our control group; false where that is not told.
func oomKills() (int, bool) {
	text, err := os.ReadFile("/proc/self/cgroup")
	group := ownGroup.FindSubmatch(text)
	if err != nil || group == nil {
		return 0, false
	}
	text, err = os.ReadFile("/sys/fs/cgroup" + string(group[1]) + "/memory.events")
	found := oomCount.FindSubmatch(text)
	if err != nil || found == nil {
		return 0, false
	}
	count, err := strconv.Atoi(string(found[1]))
	return count, err == nil
}
