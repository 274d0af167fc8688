/**
 * What can go wrong, each kind a class with a stable `code`.
 *
 * Invariant: a `code` is for programs and stays; a `message` is for people and may change. No error holds a token.
 */

/** What every error of this package is. */
export class HostelError extends Error {
  /** The stable word; of the house a number. */
  readonly code: string | number;

  constructor(code: string | number, message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.name = new.target.name;
    this.code = code;
  }
}

/** It is not clear which daemon or house is meant: `ambiguous_mesh`, `bad_mesh`, `no_home`. */
export class DiscoveryError extends HostelError {
  declare readonly code: string;
}

/** The daemon speaks another major version, or serves another mesh: `incompatible_daemon`. */
export class VersionError extends HostelError {
  declare readonly code: string;

  constructor(message: string) {
    super("incompatible_daemon", message);
  }
}

/**
 * Nobody answers, or nobody does any more: `daemon_unreachable`, `connection_lost`, `timeout`, `protocol_error`.
 * With `unsent` the request has reached nobody; without it, it may have taken effect.
 */
export class ConnectionError extends HostelError {
  declare readonly code: string;
  readonly unsent: boolean;

  constructor(code: string, message: string, options: { unsent?: boolean; cause?: unknown } = {}) {
    super(code, message, options.cause === undefined ? undefined : { cause: options.cause });
    this.unsent = options.unsent ?? false;
  }
}

/** The daemon has refused a request; `code` is its word, such as `peer_not_found`. */
export class MeshError extends HostelError {
  declare readonly code: string;
  /** Of the HTTP answer. */
  readonly status: number;
  /** For people. */
  readonly detail: string;
  /** The field or header it is about. */
  readonly field: string | null;
  /** Seconds after which to come back, where the daemon says so. */
  readonly retryAfter: number | null;
  /** The whole answer: some refusals say more, such as `conflict`. */
  readonly body: Record<string, unknown>;

  constructor(status: number, body: Record<string, unknown>, retryAfter: number | null) {
    const code = typeof body["error"] === "string" ? body["error"] : `http_${status}`;
    const detail = typeof body["detail"] === "string" ? body["detail"] : code.replaceAll("_", " ");
    super(code, detail);
    this.status = status;
    this.detail = detail;
    this.field = typeof body["field"] === "string" ? body["field"] : null;
    this.retryAfter = retryAfter;
    this.body = body;
  }
}

/** The house has refused a request; `code` is its number, such as -32000 for a session that is not there. */
export class HouseError extends HostelError {
  declare readonly code: number;
}
