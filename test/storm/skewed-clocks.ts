import { writeFile } from "node:fs/promises";
import path from "node:path";
import { fakeTimeEnvironment } from "../support/fake-time.ts";

/** Clocks that differ: ahead, behind, right, and so on. */
export class Clocks {
  readonly #directory: string;
  readonly #library: string;
  readonly #skewS: number;
  /** Offset in seconds of each program. */
  readonly #offsetsS: number[] = [];

  constructor(options: { directory: string; library: string; skewMinutes: number }) {
    this.#directory = options.directory;
    this.#library = options.library;
    this.#skewS = options.skewMinutes * 60;
  }

  /** Returns the environment of the next program. */
  async next(): Promise<Record<string, string>> {
    const turn = this.#offsetsS.length;
    const offsetS = [this.#skewS, -this.#skewS, 0][turn % 3] as number;
    const file = path.join(this.#directory, `clock-${turn}`);
    this.#offsetsS.push(offsetS);
    await writeFile(file, `${offsetS < 0 ? "" : "+"}${offsetS}`);
    return fakeTimeEnvironment(this.#library, file);
  }

  /** Counts servers, in the order of their environments, whose clock differs from its setting. */
  async countOthers(urls: string[]): Promise<number> {
    const seen = await Promise.all(urls.map(async (url) => Date.parse((await fetch(url)).headers.get("date") ?? "")));
    // The header has whole seconds, and the response takes a moment.
    return seen.filter((at, index) => !(Math.abs(at - Date.now() - (this.#offsetsS[index] ?? 0) * 1_000) < 30_000))
      .length;
  }
}
