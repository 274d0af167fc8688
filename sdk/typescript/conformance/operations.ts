/** The operations of the schema, each by the method of the SDK that a program would call. */

import type { House, Mesh } from "../src/index.js";

type Arguments = Record<string, any>; // eslint-disable-line -- the vectors say what they are
type Operations<Client> = Record<string, (client: Client, args: Arguments) => Promise<unknown>>;

export const MESH: Operations<Mesh> = {
  send: (mesh, { to, message, ...rest }) => mesh.send(to, message, rest),
  topic_post: (mesh, { topic, message, ...rest }) => mesh.post(topic, message, rest),
  topic_subscribe: (mesh, { topic }) => mesh.subscribe(topic),
  topic_unsubscribe: (mesh, { topic }) => mesh.unsubscribe(topic),
  topic_list: (mesh) => mesh.topics(),
  inbox: (mesh, args) => mesh.inbox(args),
  inbox_search: (mesh, { q, ...rest }) => mesh.search(q, rest),
  inbox_seen: (mesh, { ids }) => mesh.markSeen(ids),
  inbox_delete: (mesh, { id }) => mesh.deleteMessage(id),
  inbox_delete_before: (mesh, { before }) => mesh.deleteBefore(before),
  peers: (mesh, args) => mesh.peers(args),
  profile: (mesh, args) => mesh.profile(args),
  file_share: (mesh, { path, ...rest }) => mesh.shareFile(path, rest),
  file_get: (mesh, { id, out }) => mesh.getFile(id, out),
  file_list: (mesh) => mesh.files(),
  health: (mesh) => mesh.health(),
  version: (mesh) => mesh.version(),
  compat: (mesh) => mesh.compat(),
  metrics: (mesh) => mesh.metrics(),
  heartbeat: (mesh) => mesh.heartbeat(),
};

export const HOUSE: Operations<House> = {
  initialize: (house) => house.initialize(),
  agents_list: (house) => house.agents(),
  session_new: async (house, { agent_alias, ...rest }) => (await house.createSession(agent_alias, rest)).made,
  session_list: (house, args) => house.sessions(args),
  session_send: (house, { session_id, prompt }) => house.session(session_id).send(prompt),
  session_approve: (house, { session_id, request_id, decision, ...rest }) => house.session(session_id).approve(request_id, decision, rest),
  session_cancel: (house, { session_id }) => house.session(session_id).cancel(),
  session_interrupt: (house, { session_id }) => house.session(session_id).interrupt(),
  session_messages: (house, { session_id, ...rest }) => house.session(session_id).messages(rest),
  session_close: (house, { session_id }) => house.session(session_id).close(),
  session_kill: (house, { session_id }) => house.session(session_id).kill(),
  session_delete: (house, { session_id }) => house.session(session_id).delete(),
  // Streams attach by themselves; these two are here for the sake of the list.
  session_attach: (house, args) => house.call("session/attach", args),
  session_detach: (house, args) => house.call("session/detach", args),
};
