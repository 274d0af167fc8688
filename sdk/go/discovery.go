package hostel

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"sort"
	"strconv"
	"strings"
	"syscall"
)

// Where daemons and houses are found. Only files are looked at; nothing is started or written. A mesh's name becomes
// part of a path only if it is a name. Tokens are read anew each time they are needed, because they rotate.

var (
	meshName   = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)
	tokenShape = regexp.MustCompile(`^[0-9a-fA-F]{64}$`)
)

// place is where one daemon may be reached.
type place struct {
	mesh      string
	sockets   []string
	directory string
	port      int
	token     string
}

func (o Options) getenv(name string) string {
	if o.Getenv != nil {
		return o.Getenv(name)
	}
	return os.Getenv(name)
}

func daemonDirectory(o Options) (string, error) {
	chosen := o.DaemonDir
	if chosen == "" {
		chosen = o.getenv("CLAUDEMESH_DAEMON_DIR")
	}
	if chosen == "" {
		home := o.getenv("HOME")
		if home == "" {
			return "", &DiscoveryError{"no_home", "HOME is not set: say where to look with CLAUDEMESH_DAEMON_DIR"}
		}
		chosen = filepath.Join(home, ".claudemesh", "daemon")
	}
	return filepath.Abs(chosen)
}

// runtimeDirectory is where ephemeral daemons have their sockets; empty if it is not there, or not ours alone.
func runtimeDirectory(root string, o Options) string {
	base := o.getenv("XDG_RUNTIME_DIR")
	if base == "" {
		base = os.TempDir()
	}
	digest := sha256.Sum256([]byte(root))
	directory := filepath.Join(base, fmt.Sprintf("claudemesh-%d-%s", os.Geteuid(), hex.EncodeToString(digest[:6])))
	about, err := os.Lstat(directory)
	if err != nil || !about.IsDir() || about.Mode().Perm()&0o077 != 0 {
		return ""
	}
	if owner, ok := about.Sys().(*syscall.Stat_t); !ok || int(owner.Uid) != os.Geteuid() {
		return ""
	}
	return directory
}

// findDaemon finds the daemon that is meant; whether it answers shows when it is asked.
func findDaemon(o Options) (place, error) {
	mesh := o.Mesh
	if mesh == "" {
		mesh = o.getenv("CLAUDEMESH_MESH")
	}
	if o.Socket != "" {
		socket, err := filepath.Abs(o.Socket)
		return place{mesh: mesh, sockets: []string{socket}, port: o.Port, token: o.Token}, err
	}
	if o.Port != 0 && o.Token != "" {
		return place{mesh: mesh, port: o.Port, token: o.Token}, nil
	}
	if hook := o.getenv("CLAUDEMESH_DAEMON_SOCK"); hook != "" && o.Mesh == "" && o.DaemonDir == "" {
		socket, err := filepath.Abs(hook)
		return place{mesh: mesh, sockets: []string{socket}, port: o.Port, token: o.Token}, err
	}
	root, err := daemonDirectory(o)
	if err != nil {
		return place{}, err
	}
	runtime := runtimeDirectory(root, o)
	if mesh == "" {
		if mesh, err = onlyMesh(root, runtime); err != nil {
			return place{}, err
		}
	}
	if !meshName.MatchString(mesh) {
		return place{}, &DiscoveryError{"bad_mesh", fmt.Sprintf("%q is no name of a mesh", mesh)}
	}
	found := place{mesh: mesh, directory: filepath.Join(root, mesh), port: o.Port, token: o.Token}
	candidates := []string{found.directory}
	if runtime != "" {
		candidates = append(candidates, filepath.Join(runtime, mesh))
	}
	for _, directory := range candidates {
		if about, err := os.Stat(directory); err == nil && about.IsDir() {
			found.sockets = append(found.sockets, filepath.Join(directory, "sock"))
		}
	}
	if len(found.sockets) == 0 {
		return place{}, nobody("there is no daemon of a mesh %q in %s", mesh, root)
	}
	return found, nil
}

func nobody(format string, of ...any) error {
	return &ConnectionError{Code: DaemonUnreachable, Unsent: true, Err: fmt.Errorf(format, of...)}
}

func onlyMesh(root, runtime string) (string, error) {
	names := map[string]bool{}
	look := func(directory string, files ...string) {
		entries, err := os.ReadDir(directory)
		if err != nil {
			return
		}
		for _, entry := range entries {
			for _, file := range files {
				if _, err := os.Stat(filepath.Join(directory, entry.Name(), file)); err == nil && meshName.MatchString(entry.Name()) {
					names[entry.Name()] = true
				}
			}
		}
	}
	look(root, "sock", "http.port")
	if runtime != "" {
		look(runtime, "sock")
	}
	all := make([]string, 0, len(names))
	for name := range names {
		all = append(all, name)
	}
	sort.Strings(all)
	switch len(all) {
	case 0:
		return "", nobody("no daemon is up in %s: start one with `claudemesh daemon up`", root)
	case 1:
		return all[0], nil
	default:
		return "", &DiscoveryError{"ambiguous_mesh", "several meshes are here, say which is meant: " + strings.Join(all, ", ")}
	}
}

// loopback is the port and token of a place as they are now; false if there are none.
func (p place) loopback() (int, string, bool) {
	port, token := p.port, p.token
	if port == 0 && p.directory != "" {
		port, _ = strconv.Atoi(readTrimmed(filepath.Join(p.directory, "http.port")))
	}
	if token == "" && p.directory != "" {
		token = readTrimmed(filepath.Join(p.directory, "local_token"))
	}
	return port, token, port > 0 && port < 65536 && token != ""
}

func readTrimmed(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// speaker is what is shown on the socket: the token of the session or the hook this program runs in, if it does; empty
// for the member. Inside a session that has no token any more it is one that nobody has: what was started there never
// speaks as the member.
func speaker(o Options) string {
	const session = "ClaudeMesh-Session "
	if o.AsMember {
		return ""
	}
	if o.SessionToken != "" {
		return session + o.SessionToken
	}
	found := ""
	if file := o.getenv("CLAUDEMESH_IPC_TOKEN_FILE"); file != "" {
		found = readTrimmed(file)
	}
	if found == "" {
		found = strings.TrimSpace(o.getenv("CLAUDEMESH_IPC_TOKEN"))
	}
	if tokenShape.MatchString(found) {
		return session + found
	}
	if o.getenv("CLAUDEMESH_SESSION") != "" {
		return session + strings.Repeat("0", 64)
	}
	if capability := o.getenv("CLAUDEMESH_CAPABILITY_TOKEN"); capability != "" {
		return "Bearer " + capability
	}
	return ""
}

// findHouse is the socket of the house that is meant.
func findHouse(o HouseOptions) (string, error) {
	if o.Socket != "" {
		return filepath.Abs(o.Socket)
	}
	getenv := o.Getenv
	if getenv == nil {
		getenv = os.Getenv
	}
	chosen := o.Home
	if chosen == "" {
		chosen = getenv("HOSTEL_HOME")
	}
	if chosen == "" {
		home := getenv("HOME")
		if home == "" {
			return "", &DiscoveryError{"no_home", "HOME is not set: say where the house is with HOSTEL_HOME"}
		}
		chosen = filepath.Join(home, ".hostel")
	}
	chosen, err := filepath.Abs(chosen)
	return filepath.Join(chosen, "run", "hostel.sock"), err
}
