/**
 * Which messages were given out lately.
 *
 * Invariant: at most `limit` ids are remembered; of what was forgotten the latest time is known, so that nobody asks for
 * anything older again.
 */

/** Remembers the ids of messages with their times. */
export class Recent {
  readonly #limit: number;
  readonly #times = new Map<string, string>();
  #forgotten: string | null = null;

  constructor(limit = 10_000) {
    this.#limit = limit;
  }

  /** The time of the newest message that is no longer remembered. */
  get forgotten(): string | null {
    return this.#forgotten;
  }

  /** Remembers a message; `false` if it was known. */
  add(id: string, time: string): boolean {
    if (this.#times.has(id)) return false;
    this.#times.set(id, time);
    if (this.#times.size > this.#limit) {
      for (const [oldest, when] of this.#times) {
        this.#times.delete(oldest);
        if (this.#forgotten === null || Date.parse(when) > Date.parse(this.#forgotten)) this.#forgotten = when;
        break;
      }
    }
    return true;
  }
}

/** From when on the inbox is to be read: what a gap names, but nothing that was given out and forgotten. */
export function readFrom(resume: string, forgotten: string | null): string | null {
  const query = resume.includes("?") ? resume.slice(resume.indexOf("?") + 1) : "";
  const since = new URLSearchParams(query).get("since");
  if (forgotten === null) return since;
  const after = Date.parse(forgotten) + 1;
  return since !== null && Date.parse(since) >= after ? since : new Date(after).toISOString();
}
