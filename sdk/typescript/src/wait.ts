/** Waiting that can be ended: every wait has a limit or a signal, and leaves no timer behind. */

/** Waits for so many milliseconds; ends early, with the signal's reason, when that is given. */
export function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted === true) {
      reject(signal.reason);
      return;
    }
    const ended = () => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", ended);
      resolve();
    }, ms);
    signal?.addEventListener("abort", ended, { once: true });
  });
}

/** Pauses between attempts: from `first` doubling to `longest`, each between half of that and all of it. */
export class Backoff {
  #next: number;
  readonly #first: number;
  readonly #longest: number;

  constructor(first: number, longest: number) {
    this.#first = first;
    this.#longest = longest;
    this.#next = first;
  }

  /** How long to wait now. */
  pause(): number {
    const pause = this.#next * (0.5 + Math.random() / 2);
    this.#next = Math.min(this.#next * 2, this.#longest);
    return pause;
  }

  /** It went well. */
  reset(): void {
    this.#next = this.#first;
  }
}
