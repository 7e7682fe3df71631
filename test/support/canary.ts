import { randomBytes } from "node:crypto";

/** Part of every text of one run, so that a search finds it in any context. */
const mark = `canary${randomBytes(10).toString("hex")}`;

/** Unique secrets, and a search for them in every encoding in which they could leak. */
export class Canaries {
  /** The description of each secret, by its text. */
  readonly #known = new Map<string, string>();

  /** Returns a new secret of 40 letters and digits, which no format escapes. */
  make(what: string): string {
    const text = `${mark}${randomBytes(7).toString("hex")}`;
    this.#known.set(text, what);
    return text;
  }

  /** Registers a secret that the server generated and returned once. */
  keep(what: string, text: string): string {
    if (text.length < 16) throw new Error(`${what} is too short for a secret: ${text}`);
    this.#known.set(text, what);
    return text;
  }

  get count(): number {
    return this.#known.size;
  }

  /** @returns the descriptions of the secrets found in the text, except those in `but`. */
  foundIn(text: string | Buffer, { but = [] }: { but?: readonly string[] } = {}): string[] {
    const bytes = typeof text === "string" ? Buffer.from(text) : text;
    const hasMark = disguises(mark).some((one) => bytes.includes(one));
    return [...this.#known]
      .filter(([known]) => (hasMark || !known.startsWith(mark)) && !but.includes(known))
      .filter(([known]) => disguises(known).some((one) => bytes.includes(one)))
      .map(([, what]) => what);
  }
}

/** Returns the encodings in which unencrypted text could appear. */
export function disguises(text: string): string[] {
  // The part of the base64 text that is the same at every offset. Eight letters cannot match by accident.
  const shifted = [0, 1, 2].map((pad) => Buffer.from(`${"x".repeat(pad)}${text}`).toString("base64"));
  const inner = shifted.map((one, pad) => one.slice(pad === 0 ? 0 : 4, one.endsWith("=") ? -4 : undefined));
  const escaped = [encodeURIComponent(text), JSON.stringify(text).slice(1, -1)];
  const hex = Buffer.from(text).toString("hex");
  return [...new Set([text, ...escaped, hex, ...inner.filter(({ length }) => length >= 8)])];
}
