// What goes over the wire, typed.
//
// Written by sdk/schema/generate from sdk/schema/schema.json: change that, not this.

export const SDK_VERSION = "0.1.0";
export const IPC_API = "v1";
export const IPC_MINOR = 4;
export const NATIVE_PROTOCOL = 1;

/** How urgent a message is. */
export type Priority = "now" | "next" | "low";

/** A group with the role one has in it. */
export interface Group {
  name: string;
  role?: string | undefined;
}

/** Why something was refused. The word in `error` stays; `detail` is for people. */
export interface Refusal {
  error: string;
  detail: string;
  field: string | null;
  /** Which earlier request has the id (`idempotency_key_reused`). */
  conflict?: string | undefined;
  daemon_fingerprint_prefix?: string | undefined;
  broker_message_id?: string | null | undefined;
  reason?: string | undefined;
  candidates?: unknown[] | undefined;
  [key: string]: unknown;
}

/** POST /v1/send. */
export interface SendRequest {
  /** A name, a public key or 16 digits of it, `#topic`, `@group`, `*`, `host/session`. */
  to: string;
  message: string;
  priority?: Priority | undefined;
  meta?: Record<string, unknown> | undefined;
  replyToId?: string | undefined;
  mentions?: string[] | undefined;
  /** The same id sent twice is sent once. */
  client_message_id?: string | undefined;
  mesh?: string | undefined;
}

/** POST /v1/topic/post. */
export interface PostRequest {
  topic: string;
  message: string;
  priority?: Priority | undefined;
  meta?: Record<string, unknown> | undefined;
  replyToId?: string | undefined;
  mentions?: string[] | undefined;
  client_message_id?: string | undefined;
  mesh?: string | undefined;
}

/** A message was taken: it is on disk. */
export interface Sent {
  /** The same as `client_message_id`. */
  messageId: string;
  client_message_id: string;
  status: "queued" | "inflight" | "done";
  broker_message_id?: string | undefined;
  /** It had been delivered before. */
  duplicate?: boolean | undefined;
  topic?: string | undefined;
  target?: string | undefined;
  targetPubkey?: string | undefined;
  recipientOnline?: boolean | undefined;
}

/** POST /v1/topic/subscribe and /v1/topic/unsubscribe. */
export interface TopicRequest {
  topic: string;
  mesh?: string | undefined;
}

/** A topic is, or is no longer, subscribed to. */
export interface Subscribed {
  ok: boolean;
  topic: string;
  subscribed: boolean;
  topicId?: string | undefined;
  created?: boolean | undefined;
  /** The broker has not heard it yet. */
  pending?: boolean | undefined;
}

/** A topic. */
export interface Topic {
  id: string;
  name: string;
  description: string | null;
  visibility: "public" | "private";
  memberCount: number;
  subscribed: boolean;
  unread: number;
  createdAt: string | null;
}

/** GET /v1/topic/list. */
export interface TopicList {
  topics: Topic[];
}

/** GET /v1/inbox. */
export interface InboxQuery {
  since?: string | undefined;
  topic?: string | undefined;
  from?: string | undefined;
  limit?: number | undefined;
  unread_only?: boolean | undefined;
  /** Default true. */
  mark_seen?: boolean | undefined;
  cursor?: string | undefined;
  session?: string | undefined;
  order?: "newest" | "oldest" | undefined;
  mesh?: string | undefined;
}

/** A message of the inbox. */
export interface InboxItem {
  id: string;
  client_message_id: string;
  broker_message_id: string;
  mesh: string;
  kind: "dm" | "topic" | "group" | "all" | "file";
  topic: string | null;
  sender_pubkey: string;
  sender_member_id: string;
  sender_name: string;
  /** Null if it could not be opened. */
  body: string | null;
  meta: Record<string, unknown> | null;
  priority: Priority;
  mentions: string[];
  mention: boolean;
  received_at: string;
  created_at: string | null;
  reply_to_id: string | null;
  seen_at: string | null;
  recipient_pubkey: string | null;
  recipient_kind: "member" | "session";
  /** The same as `client_message_id`. */
  idempotency_key: string;
  recipient_session?: string | undefined;
  decrypt_error?: string | undefined;
  /** Whether the member that is named as the sender is proven to have written it. Absent: it is not, which is so until the member's own statement has arrived. */
  verified?: boolean | undefined;
  file?: Record<string, unknown> | undefined;
  snippet?: string | undefined;
  cursor?: string | undefined;
}

/** GET /v1/inbox: newest first, unless asked otherwise. */
export interface InboxPage {
  items: InboxItem[];
  marked_seen: number;
  next: string | null;
}

/** GET /v1/inbox/search. */
export interface SearchQuery {
  /** FTS5. */
  q: string;
  limit?: number | undefined;
  mesh?: string | undefined;
}

/** GET /v1/inbox/search. */
export interface SearchPage {
  items: InboxItem[];
  truncated?: boolean | undefined;
}

/** POST /v1/inbox/seen. */
export interface SeenRequest {
  ids: string[];
}

/** POST /v1/inbox/seen. */
export interface Seen {
  ok: boolean;
  marked_seen: number;
}

/** DELETE /v1/inbox/:id. */
export interface DeleteQuery {
  id: string;
}

/** DELETE /v1/inbox. */
export interface DeleteBeforeQuery {
  before: string;
  mesh?: string | undefined;
}

/** DELETE /v1/inbox/:id and DELETE /v1/inbox. */
export interface Deleted {
  ok: boolean;
  deleted: number;
}

/** GET /v1/peers. */
export interface PeersQuery {
  /** Also who is not there. */
  all?: boolean | undefined;
  mesh?: string | undefined;
}

/** Somebody in the mesh. */
export interface Peer {
  pubkey: string;
  memberPubkey: string;
  memberId: string;
  displayName: string;
  status: "idle" | "working" | "dnd" | "offline";
  summary: string | null;
  groups: Group[];
  sessionId: string | null;
  connectedAt: string | null;
  cwd: string | null;
  peerRole: "service" | "session" | "control-plane";
  hostname: string | null;
  peerType: string | null;
  channel: string | null;
  visible: boolean;
  mesh: string;
  online: boolean;
}

/** GET /v1/peers. */
export interface PeerList {
  peers: Peer[];
}

/** POST /v1/profile. */
export interface ProfileRequest {
  summary?: string | undefined;
  status?: "idle" | "working" | "dnd" | undefined;
  visible?: boolean | undefined;
  avatar?: string | undefined;
  title?: string | undefined;
  bio?: string | undefined;
  capabilities?: string[] | undefined;
}

/** POST /v1/profile. */
export interface ProfileApplied {
  ok: boolean;
  applied: string[];
  meshes: string[];
}

/** POST /v1/file/share. */
export interface ShareRequest {
  /** A path on the daemon's host. */
  path: string;
  to?: string | undefined;
  message?: string | undefined;
  persistent?: boolean | undefined;
  tags?: string[] | undefined;
  mesh?: string | undefined;
}

/** POST /v1/file/share. */
export interface Shared {
  ok: boolean;
  fileId: string;
  name: string;
  size: number;
  sha256: string;
  to: string | null;
}

/** GET /v1/file/get. */
export interface FileGetQuery {
  id: string;
  /** Where to put it, on the daemon's host. */
  out: string;
}

/** GET /v1/file/get. */
export interface Fetched {
  ok: boolean;
  fileId: string;
  name: string;
  savedTo: string;
  size: number;
  sha256: string;
  /** Whether the member that is named is proven to have shared it. Absent: it is not. */
  verified?: boolean | undefined;
}

/** A file. */
export interface FileItem {
  id: string;
  name: string;
  size: number;
  tags: string[];
  uploadedBy: string;
  uploadedAt: string;
  persistent: boolean;
  encrypted: boolean;
  sha256: string | null;
  to: string | null;
  /** Whether the member that is named is proven to have shared it. Absent: it is not. */
  verified?: boolean | undefined;
}

/** GET /v1/file/list. */
export interface FileList {
  files: FileItem[];
}

/** GET /v1/health. */
export interface Health {
  ok: boolean;
  pid: number;
  connected: boolean;
  lag_ms: number | null;
  queue_depth: number;
  inflight: number;
  mesh: string;
  member_pubkey: string;
  uptime_s: number;
  schema_version: number;
  daemon_version: string;
  broker_version: string | null;
  brokers: Record<string, "open" | "connecting" | "reconnecting" | "closed">;
  display_name: string;
  state: "ok" | "degraded" | "revoked";
}

/** GET /v1/version. */
export interface Version {
  daemon_version: string;
  ipc_api: string;
  ipc_minor: number;
  schema_version: number;
  broker_protocol_min: string;
  broker_protocol_max: string;
  mesh: string;
  ipc_features: string[];
  broker_features_negotiated: Record<string, unknown>;
}

/** GET /v1/compat. */
export interface Compat {
  daemon: string;
  compatible_brokers: string[];
  compatible_clis: string[];
  compatible_sdks: Record<string, string>;
}

/** POST /v1/heartbeat. */
export interface Heartbeat {
  ok: boolean;
  ts: string;
}

/** GET /v1/events; the header `Last-Event-ID` goes before the query. */
export interface EventsQuery {
  /** Names with commas between. */
  events?: string | undefined;
  topic?: string | undefined;
  last_event_id?: string | undefined;
}

/** A message came. */
export interface MessageEvent {
  ts: string;
  id: string;
  mesh: string;
  kind: "dm" | "topic" | "group" | "all" | "file";
  client_message_id: string;
  broker_message_id: string;
  sender_pubkey: string;
  sender_member_pubkey: string;
  sender_member_id: string;
  sender_name: string;
  topic: string | null;
  reply_to_id: string | null;
  priority: Priority;
  body: string | null;
  meta: Record<string, unknown> | null;
  mentions: string[];
  mention: boolean;
  created_at: string | null;
  recipient_pubkey: string | null;
  recipient_kind: "member" | "session";
  recipient_session?: string | undefined;
  decrypt_error?: string | undefined;
  /** Whether the member that is named as the sender is proven to have written it. Absent: it is not, which is so until the member's own statement has arrived. */
  verified?: boolean | undefined;
  file?: Record<string, unknown> | undefined;
}

/** A file was shared with us. What the sender says about it stands beside these. */
export interface FileSharedEvent {
  ts: string;
  mesh: string;
  from: string;
  message: string | null;
  fileId?: string | undefined;
  name?: string | undefined;
  size?: number | undefined;
  sha256?: string | undefined;
  [key: string]: unknown;
}

/** Somebody came or went. */
export interface PeerEvent {
  ts: string;
  mesh: string;
  /** `peer_joined`, `peer_returned`, `peer_visible`, `peer_left` or `peer_hidden`. */
  event: string;
  memberId?: string | undefined;
  name?: string | undefined;
  pubkey?: string | undefined;
  groups?: Group[] | undefined;
  lastSeenAt?: string | undefined;
  summary?: string | undefined;
}

/** The connection to the broker is gone. */
export interface DisconnectEvent {
  ts: string;
  mesh: string;
  reason: string;
}

/** The connection to the broker stands. */
export interface ReconnectEvent {
  ts: string;
  mesh: string;
  /** Since the daemon's start. */
  first: boolean;
}

/** How the daemon stands to its broker. */
export interface BrokerStatusEvent {
  ts: string;
  mesh: string;
  status: "open" | "connecting" | "reconnecting" | "closed";
}

/** A message was given up. */
export interface OutboxDeadEvent {
  ts: string;
  mesh: string;
  id: string;
  client_message_id: string;
  reason: string;
  detail: string;
}

/** The outbox fills up. */
export interface OutboxPressureEvent {
  ts: string;
  mesh: string;
  percent: number;
  level: string;
}

/** A member's key counts no more; with `self` it is this one's, and nothing follows. */
export interface MemberRevokedEvent {
  ts: string;
  mesh: string;
  self?: boolean | undefined;
  pubkey?: string | undefined;
  event?: string | undefined;
  memberId?: string | undefined;
  name?: string | undefined;
  [key: string]: unknown;
}

/** The broker no longer has what came between. */
export interface HistoryGapEvent {
  ts: string;
  mesh: string;
  reset?: boolean | undefined;
  from?: number | undefined;
  to?: number | undefined;
}

/** Messages of a topic wait for its key. */
export interface TopicKeyMissingEvent {
  ts: string;
  mesh: string;
  topic: string | null;
  epoch: number;
}

/** Something the broker says; `event` says what. */
export interface SystemEvent {
  ts: string;
  mesh: string;
  event: string;
  [key: string]: unknown;
}

/** A member has another key; with `self` it is this one. */
export interface KeypairRotatedEvent {
  ts: string;
  mesh: string;
  memberId: string;
  name: string;
  oldPubkey: string;
  newPubkey: string;
  graceUntil: string;
  self?: boolean | undefined;
  [key: string]: unknown;
}

/** A hook ran. */
export interface HookExecutedEvent {
  ts: string;
  mesh: string;
  hook: string;
  event_id: string;
  exit: number;
  duration_ms: number;
  stdout_bytes: number;
  stderr_bytes: number;
  replied: boolean;
  capability_calls: number;
  /** Why it has no exit status of its own. */
  reason?: string | undefined;
}

/** The id this stream was to go on after is no longer known. It has no id of its own; `resume` is the page of the inbox to read. */
export interface GapEvent {
  from: string;
  resume: string;
}

/** initialize. */
export interface InitializeParams {
  protocol_version: number;
  tui_id?: string | undefined;
  tui_sig?: string | undefined;
  env?: Record<string, string> | undefined;
}

/** A command of the contract's clients. */
export interface Command {
  id: string;
  name: string;
  aliases: string[];
}

/** initialize. */
export interface Initialized {
  protocol_version: number;
  server_version: string;
  server_pid: number;
  tui_id: string;
  capabilities: string[];
  commands: Command[];
  tui_sig?: string | undefined;
}

/** An agent that can be asked for. */
export interface Agent {
  alias: string;
  enabled: boolean;
  channels: string[];
  kind: string;
  model: string | null;
}

/** agents/list. */
export interface AgentList {
  agents: Agent[];
}

/** What an agent may do without asking. */
export type Mode = "auto" | "code" | "plan" | "ask";

/** What becomes of messages from meshes. */
export type MeshPolicy = "off" | "ask" | "on";

/** session/new. */
export interface SessionNewParams {
  /** An agent of `hostel.toml`, a CLI on the PATH, or `echo`. */
  agent_alias: string;
  cwd?: string | undefined;
  /** Names a new session, takes over a live one, or brings an archived one back. */
  session_id?: string | undefined;
  name?: string | undefined;
  mode?: Mode | undefined;
  model?: string | undefined;
  hosting?: "warm" | "per-message" | undefined;
  mesh?: MeshPolicy | undefined;
  tui_id?: string | undefined;
}

/** session/new. */
export interface SessionMade {
  session_id: string;
  agent_alias: string;
  message_count: number;
  workspace_dir: string;
  mode?: Mode | undefined;
}

/** session/list. */
export interface SessionListParams {
  query?: string | undefined;
  limit?: number | undefined;
  /** Also archived and killed ones. */
  all?: boolean | undefined;
}

/** What it cost. */
export interface Usage {
  input_tokens: number;
  output_tokens: number;
  cached_tokens: number;
  cost_usd: number;
}

/** The guard around the agent of a session. */
export interface Guard {
  setting: "off" | "auto" | "strict";
  active: "none" | "scopes" | "view" | "full";
  why_not_stronger?: string | undefined;
}

/** A session of the house. */
export interface SessionInfo {
  session_id: string;
  session_key: string;
  created_at: string;
  last_activity: string;
  message_count: number;
  agent_alias: string;
  status: "idle" | "busy";
  standing: "live" | "archived" | "killed";
  mode: Mode;
  hosting: string;
  cwd: string;
  door: string;
  queued: number;
  last_seq: number;
  turns: number;
  usage: Usage;
  address: string | null;
  mesh: MeshPolicy;
  name?: string | undefined;
  model?: string | undefined;
  running_turn?: number | undefined;
  cli_session_id?: string | undefined;
  pid?: number | undefined;
  guard?: Guard | undefined;
}

/** session/list: newest first. */
export interface SessionList {
  sessions: SessionInfo[];
}

/** Methods about one session: cancel, interrupt, close, kill, delete, detach. */
export interface SessionParams {
  session_id: string;
}

/** session/send. */
export interface SessionSendParams {
  session_id: string;
  prompt: string;
}

/** session/send: the prompt is on disk. */
export interface PromptSent {
  session_id: string;
  turn: number;
  position: number;
  /** What happens in this turn comes after it. */
  after_seq: number;
}

/** session/attach. */
export interface SessionAttachParams {
  session_id: string;
  since_seq?: number | undefined;
  /** Default true; false: stop at what was there. */
  follow?: boolean | undefined;
}

/** session/attach; the updates follow. */
export interface Attached {
  session_id: string;
  first_seq: number;
  last_seq: number;
  status: "idle" | "busy";
}

/** session/detach. */
export interface Detached {
  session_id: string;
  detached: boolean;
}

/** What becomes of an agent's request. */
export type Decision = "allow_once" | "allow_always" | "reject" | "reject_with_edit";

/** session/approve. */
export interface SessionApproveParams {
  session_id: string;
  request_id: string;
  decision: Decision;
  /** With `reject_with_edit`: takes the place of the tool's result. */
  replacement?: string | undefined;
  answers?: Record<string, string> | undefined;
  passphrase?: string | undefined;
}

/** session/approve; also for a request that is settled or unknown. */
export interface Acknowledged {
  session_id: string;
  request_id: string;
  acknowledged: boolean;
}

/** session/cancel. */
export interface Cancelled {
  session_id: string;
  cancelled: boolean;
}

/** session/interrupt. */
export interface Interrupted {
  session_id: string;
  interrupted: boolean;
}

/** session/close. */
export interface Closed {
  session_id: string;
  closed: boolean;
}

/** session/kill. */
export interface Killed {
  session_id: string;
  killed: boolean;
}

/** session/delete. */
export interface SessionDeleted {
  session_id: string;
  deleted: boolean;
}

/** session/messages. */
export interface SessionMessagesParams {
  session_id: string;
  limit?: number | undefined;
  before_index?: number | undefined;
}

/** A question or an answer. */
export interface SessionMessage {
  role: "user" | "assistant";
  content: string;
}

/** session/messages: a page, counted from the end. */
export interface SessionMessages {
  session_id: string;
  messages: SessionMessage[];
  total: number;
  start: number;
}

/** A turn has begun. */
export interface TurnStarted {
  type: "turn_started";
  session_id: string;
  prompt: string;
  door: string;
  seq: number;
  turn: number;
}

/** A piece of the answer. */
export interface MessageChunk {
  type: "agent_message_chunk";
  session_id: string;
  text: string;
  seq: number;
  turn: number;
}

/** A piece of what the agent thinks. */
export interface ThoughtChunk {
  type: "agent_thought_chunk";
  session_id: string;
  text: string;
  seq: number;
  turn: number;
}

/** The agent uses a tool. */
export interface ToolCall {
  type: "tool_call";
  session_id: string;
  tool_call_id: string;
  name: string;
  /** The agent's own. */
  raw_input: unknown;
  seq: number;
  turn: number;
}

/** What the tool gave. */
export interface ToolResult {
  type: "tool_result";
  session_id: string;
  tool_call_id: string;
  name: string;
  raw_output: string;
  failed: boolean;
  seq: number;
  turn: number;
}

/** The agent asks whether it may. Answer with session/approve. */
export interface ApprovalRequest {
  type: "approval_request";
  session_id: string;
  request_id: string;
  tool_name: string;
  arguments_summary: string;
  timeout_secs: number;
  raw_input: unknown;
  turn: number;
  tool_call_id?: string | undefined;
  seq?: number | undefined;
}

/** It was answered, or is not asked any more. */
export interface ApprovalResolved {
  type: "approval_resolved";
  session_id: string;
  request_id: string;
  /** A word of session/approve, or `withdrawn`. */
  decision: string;
  seq: number;
  turn: number;
}

/** How full the agent's memory is. */
export interface ContextUsage {
  type: "context_usage";
  session_id: string;
  seq: number;
  turn: number;
  input_tokens?: number | undefined;
  max_context_tokens?: number | undefined;
}

/** A step of a plan. */
export interface PlanEntry {
  content: string;
  status: string;
  priority: string;
}

/** What the agent is going to do; replaces the list before. */
export interface Plan {
  type: "plan";
  session_id: string;
  entries: PlanEntry[];
  seq: number;
  turn: number;
}

/** Something to know; the turn goes on. */
export interface Notice {
  type: "notice";
  session_id: string;
  message: string;
  seq: number;
  turn: number;
}

/** Something went wrong; the turn goes on. */
export interface TurnError {
  type: "error";
  session_id: string;
  message: string;
  seq: number;
  turn: number;
}

/** The turn is over. */
export interface TurnComplete {
  type: "turn_complete";
  session_id: string;
  outcome: "completed" | "cancelled" | "failed";
  content: string;
  seq: number;
  turn: number;
  usage: Usage;
}

/** Updates that are gone for good. */
export interface UpdateGap {
  type: "gap";
  session_id: string;
  from_seq: number;
  to_seq: number;
}

/** All of it was sent. */
export interface ReplayComplete {
  type: "replay_complete";
  session_id: string;
  last_seq: number;
}

/** The rest cannot be read. */
export interface ReplayFailed {
  type: "replay_failed";
  session_id: string;
  last_seq: number;
}

/** The session was closed; nothing follows. */
export interface SessionClosed {
  type: "session_closed";
  session_id: string;
  last_seq: number;
}

/** The data of each event, by its name. */
export interface EventData {
  message: MessageEvent;
  file_shared: FileSharedEvent;
  peer_join: PeerEvent;
  peer_leave: PeerEvent;
  daemon_disconnect: DisconnectEvent;
  daemon_reconnect: ReconnectEvent;
  broker_status: BrokerStatusEvent;
  outbox_dead: OutboxDeadEvent;
  outbox_pressure_high: OutboxPressureEvent;
  member_revoked: MemberRevokedEvent;
  history_gap: HistoryGapEvent;
  topic_key_missing: TopicKeyMissingEvent;
  member_keypair_rotated: KeypairRotatedEvent;
  hook_executed: HookExecutedEvent;
  system: SystemEvent;
  gap: GapEvent;
}

/** Each update of a session, by its type. */
export interface UpdateData {
  turn_started: TurnStarted;
  agent_message_chunk: MessageChunk;
  agent_thought_chunk: ThoughtChunk;
  tool_call: ToolCall;
  tool_result: ToolResult;
  approval_request: ApprovalRequest;
  approval_resolved: ApprovalResolved;
  context_usage: ContextUsage;
  plan: Plan;
  notice: Notice;
  error: TurnError;
  turn_complete: TurnComplete;
  gap: UpdateGap;
  replay_complete: ReplayComplete;
  replay_failed: ReplayFailed;
  session_closed: SessionClosed;
}

/** An update of a session. */
export type Update =
  | TurnStarted
  | MessageChunk
  | ThoughtChunk
  | ToolCall
  | ToolResult
  | ApprovalRequest
  | ApprovalResolved
  | ContextUsage
  | Plan
  | Notice
  | TurnError
  | TurnComplete
  | UpdateGap
  | ReplayComplete
  | ReplayFailed
  | SessionClosed;
