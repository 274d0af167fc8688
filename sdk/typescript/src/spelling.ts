/**
 * The house sends every key of several words twice, `session_id` and `sessionId`; callers get the first.
 *
 * Never: touches what is an agent's own, such as the input of a tool.
 */

const AGENTS_OWN = new Set(["raw_input", "rawInput"]);

/** The same value with one spelling of each key. */
export function oneSpelling(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(oneSpelling);
  if (typeof value !== "object" || value === null) return value;
  const out: Record<string, unknown> = {};
  for (const [key, inner] of Object.entries(value)) {
    const snake = key.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
    if (snake !== key && Object.hasOwn(value, snake)) continue;
    out[key] = AGENTS_OWN.has(key) ? inner : oneSpelling(inner);
  }
  return out;
}
