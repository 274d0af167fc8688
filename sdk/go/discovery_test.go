package hostel

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

func environment(pairs ...string) func(string) string {
	return func(name string) string {
		for i := 0; i+1 < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1]
			}
		}
		return ""
	}
}

func TestTheOnlyMeshNeedsNoName(t *testing.T) {
	root := t.TempDir()
	find := func(mesh string, pairs ...string) (place, error) {
		return findDaemon(Options{Mesh: mesh, Getenv: environment(append(pairs, "CLAUDEMESH_DAEMON_DIR", root)...)})
	}
	lab := filepath.Join(root, "lab")
	if err := os.Mkdir(lab, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := find(""); !errors.Is(err, DaemonUnreachable) {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(lab, "http.port"), []byte("4711\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	found, err := find("")
	if err != nil || found.mesh != "lab" || !slices.Equal(found.sockets, []string{filepath.Join(lab, "sock")}) {
		t.Fatal(found, err)
	}
	if _, _, ok := found.loopback(); ok {
		t.Fatal("a port without a token")
	}
	if err := os.WriteFile(filepath.Join(lab, "local_token"), []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if port, token, ok := found.loopback(); !ok || port != 4711 || token != "secret" {
		t.Fatal(port, token, ok)
	}
	if err := os.Mkdir(filepath.Join(root, "home"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "home", "sock"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var unclear *DiscoveryError
	if _, err := find(""); !errors.As(err, &unclear) || unclear.Code != "ambiguous_mesh" {
		t.Fatal(err)
	}
	if found, err := find("", "CLAUDEMESH_MESH", "home"); err != nil || found.mesh != "home" {
		t.Fatal(found, err)
	}
	for _, mesh := range []string{"../lab", ".", "..", "a/b", "-x", strings.Repeat("a", 200)} {
		if _, err := find(mesh); !errors.Is(err, Code("bad_mesh")) {
			t.Fatal(mesh, err)
		}
	}
	if _, err := find("other"); !errors.Is(err, DaemonUnreachable) {
		t.Fatal(err)
	}
	if _, err := findDaemon(Options{Getenv: environment()}); !errors.Is(err, Code("no_home")) {
		t.Fatal(err)
	}
}

func TestASessionIsKnownByItsFileOrVariable(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	a, b := strings.Repeat("a", 64), strings.Repeat("b", 64)
	token := func(pairs ...string) string {
		return strings.TrimPrefix(speaker(Options{Getenv: environment(pairs...)}), "ClaudeMesh-Session ")
	}
	if got := token("CLAUDEMESH_IPC_TOKEN_FILE", file, "CLAUDEMESH_IPC_TOKEN", b); got != b {
		t.Fatal(got)
	}
	if err := os.WriteFile(file, []byte(a+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := token("CLAUDEMESH_IPC_TOKEN_FILE", file, "CLAUDEMESH_IPC_TOKEN", b); got != a {
		t.Fatal(got)
	}
	if got := token("CLAUDEMESH_IPC_TOKEN", "short"); got != "" {
		t.Fatal(got)
	}
	if got := token("CLAUDEMESH_SESSION", "review"); got != strings.Repeat("0", 64) {
		t.Fatal(got)
	}
	if got := speaker(Options{AsMember: true, Getenv: environment("CLAUDEMESH_IPC_TOKEN", b)}); got != "" {
		t.Fatal(got)
	}
}

func TestInsideAHookItIsTheHooksSocketAndToken(t *testing.T) {
	options := Options{Getenv: environment("CLAUDEMESH_MESH", "lab", "CLAUDEMESH_DAEMON_SOCK", "/run/lab/sock", "CLAUDEMESH_CAPABILITY_TOKEN", "cap")}
	found, err := findDaemon(options)
	if err != nil || !slices.Equal(found.sockets, []string{"/run/lab/sock"}) || speaker(options) != "Bearer cap" {
		t.Fatal(found, err)
	}
}

func TestAHouseIsWhereHostelHomeSays(t *testing.T) {
	for want, options := range map[string]HouseOptions{
		"/h/run/hostel.sock":               {Getenv: environment("HOSTEL_HOME", "/h", "HOME", "/home/me")},
		"/home/me/.hostel/run/hostel.sock": {Getenv: environment("HOME", "/home/me")},
		"/x/run/hostel.sock":               {Home: "/x", Getenv: environment()},
		"/y":                               {Socket: "/y", Getenv: environment()},
	} {
		if got, err := findHouse(options); err != nil || got != want {
			t.Fatal(got, err)
		}
	}
}

func TestASocketWithALongPathIsReached(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("needs /proc")
	}
	daemon := newFakeDaemon(t).listen()
	daemon.answer = says(200, map[string]any{"ok": true, "ts": "now"})
	deep := filepath.Join(t.TempDir(), strings.Repeat("d", 90))
	if err := os.Mkdir(deep, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(daemon.dir, filepath.Join(deep, "lab")); err != nil {
		t.Fatal(err)
	}
	mesh, err := New(Options{DaemonDir: deep, Mesh: "lab", Getenv: environment()})
	if err != nil {
		t.Fatal(err)
	}
	if beat, err := mesh.Heartbeat(context.Background()); err != nil || !beat.OK {
		t.Fatal(beat, err)
	}
}
