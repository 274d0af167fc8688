package hostel

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
)

// longestPath is what a socket address holds on the systems there are; Linux has a little more.
const longestPath = 103

// dialError says that no connection could be made, so that nothing was sent.
type dialError struct{ err error }

func (e *dialError) Error() string { return e.err.Error() }
func (e *dialError) Unwrap() error { return e.err }

// dialSocket connects to a unix socket, also to one whose path does not fit into a socket address.
func dialSocket(ctx context.Context, path string) (net.Conn, error) {
	dialled := path
	if len(path) > longestPath && runtime.GOOS == "linux" {
		directory, err := os.Open(filepath.Dir(path))
		if err != nil {
			return nil, &dialError{err}
		}
		defer directory.Close()
		dialled = fmt.Sprintf("/proc/self/fd/%d/%s", directory.Fd(), filepath.Base(path))
	}
	connection, err := (&net.Dialer{}).DialContext(ctx, "unix", dialled)
	if err != nil {
		return nil, &dialError{err}
	}
	return connection, nil
}
