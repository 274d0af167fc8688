/**
 * Server-sent events, taken out of bytes as they come.
 *
 * Invariant: an event is given once its blank line is here, never before. A block without data gives nothing but its id.
 */

import { ConnectionError } from "./errors.js";

/** The longest event; a message has at most 1 MB. */
const LONGEST = 8 * 1024 * 1024;

/** A block of a stream. */
export interface Block {
  /** The id, where the block has one. */
  id: string | null;
  name: string;
  /** `null` for a block that only says where the stream is. */
  data: string | null;
}

/** Takes blocks out of what was received. */
export class BlockReader {
  readonly #decoder = new TextDecoder("utf-8");
  #rest = "";

  /** What has come; the blocks that are whole with it. */
  push(bytes: Uint8Array): Block[] {
    this.#rest += this.#decoder.decode(bytes, { stream: true });
    const blocks: Block[] = [];
    // A carriage return at the very end may be half of a line end: it waits for what follows.
    const pattern = /\r\n\r\n|\n\n|\r\r(?=[^\n])/g;
    let start = 0;
    for (let match = pattern.exec(this.#rest); match !== null; match = pattern.exec(this.#rest)) {
      const block = parse(this.#rest.slice(start, match.index));
      if (block !== null) blocks.push(block);
      start = pattern.lastIndex;
    }
    this.#rest = this.#rest.slice(start);
    if (this.#rest.length > LONGEST) {
      throw new ConnectionError("protocol_error", "an event is too long to be one");
    }
    return blocks;
  }
}

function parse(text: string): Block | null {
  let id: string | null = null;
  let name = "message";
  let data: string | null = null;
  for (const line of text.split(/\r\n|\n|\r/)) {
    const colon = line.indexOf(":");
    if (colon === 0 || line === "") continue;
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(line[colon + 1] === " " ? colon + 2 : colon + 1);
    if (field === "id") id = value;
    else if (field === "event") name = value;
    else if (field === "data") data = data === null ? value : `${data}\n${value}`;
  }
  return id === null && data === null ? null : { id, name, data };
}
