/**
 * Talk to a mesh (`Mesh`) and to agent sessions of a house (`House`), both on this machine.
 */

export { type DiscoveryOptions, type Environment, type HouseOptions, type Place, findDaemon, findHouse } from "./discovery.js";
export { ConnectionError, DiscoveryError, HostelError, MeshError, HouseError, VersionError } from "./errors.js";
export { type EventName, type EventOptions, EventStream, type MeshEvent } from "./events.js";
export {
  type ApproveOptions, House, type HouseConnectOptions, type PromptOptions, Session, type SessionOptions, TurnFailed,
} from "./house.js";
export { type CallOptions, Mesh, type MeshOptions, type PostOptions, type SendOptions, type ShareOptions } from "./mesh.js";
export type * from "./models.js";
export { IPC_API, IPC_MINOR, NATIVE_PROTOCOL, SDK_VERSION } from "./models.js";
export { type UpdateOptions, UpdateStream } from "./updates.js";
