import { randomBytes } from "node:crypto";

/** In every text of one run, so that it is found whatever stands around it. */
const mark = `canary${randomBytes(10).toString("hex")}`;

/** Secrets that nobody else can have written, and the search for them in every spelling in which they could leak. */
export class Canaries {
  /** What each is, by its text. */
  readonly #known = new Map<string, string>();

  /** A new secret: letters and digits only, 40 characters, so that no format changes it. */
  make(what: string): string {
    const text = `${mark}${randomBytes(7).toString("hex")}`;
    this.#known.set(text, what);
    return text;
  }

  /** A secret that the server made and gave away once. */
  keep(what: string, text: string): string {
    if (text.length < 16) throw new Error(`${what} is no secret: ${text}`);
    this.#known.set(text, what);
    return text;
  }

  get count(): number {
    return this.#known.size;
  }

  /** @returns what the secrets are that stand in it, but for those that are meant to. */
  foundIn(text: string | Buffer, { but = [] }: { but?: readonly string[] } = {}): string[] {
    const bytes = typeof text === "string" ? Buffer.from(text) : text;
    const hasMark = disguises(mark).some((one) => bytes.includes(one));
    return [...this.#known]
      .filter(([known]) => (hasMark || !known.startsWith(mark)) && !but.includes(known))
      .filter(([known]) => disguises(known).some((one) => bytes.includes(one)))
      .map(([, what]) => what);
  }
}

/** The ways in which a text could stand there without being sealed. */
export function disguises(text: string): string[] {
  // Of base64, wherever it begins, the part that depends on nothing around it; eight letters are no accident.
  const shifted = [0, 1, 2].map((pad) => Buffer.from(`${"x".repeat(pad)}${text}`).toString("base64"));
  const inner = shifted.map((one, pad) => one.slice(pad === 0 ? 0 : 4, one.endsWith("=") ? -4 : undefined));
  const escaped = [encodeURIComponent(text), JSON.stringify(text).slice(1, -1)];
  const hex = Buffer.from(text).toString("hex");
  return [...new Set([text, ...escaped, hex, ...inner.filter(({ length }) => length >= 8)])];
}
