// Package hostel talks to a mesh and to agent sessions of a house, both on this machine.
//
// [Connect] finds the daemon of a mesh by itself (its socket, else its loopback port and token):
//
//	mesh, err := hostel.Connect(ctx, hostel.Options{})
//	if err != nil {
//		return err
//	}
//	_, err = mesh.Send(ctx, hostel.SendRequest{To: "bob", Message: "the disk is full"})
//
// [Mesh.Events] gives events as they come, across lost connections and restarts of the daemon; none is lost and none
// comes twice. [ConnectHouse] leads to agent sessions: make one, send prompts, follow what happens, answer what the
// agent asks.
//
// Errors are of the types [MeshError], [HouseError], [ConnectionError], [DiscoveryError], [VersionError] and
// [TurnFailed], for [errors.As]; each has a stable word, for [errors.Is] with [Code].
//
// Clients may be used by several goroutines at once; a stream belongs to one.
package hostel
