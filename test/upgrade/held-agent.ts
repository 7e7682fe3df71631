import { readdir, writeFile } from "node:fs/promises";
import path from "node:path";

/** Gate files that agents wait for, and mark files by which they report their progress. */
export class Gates {
  readonly #directory: string;

  constructor(directory: string) {
    this.#directory = directory;
  }

  open(gate: string): Promise<void> {
    return writeFile(path.join(this.#directory, gate), "");
  }

  /** Returns the number of marks with this prefix. Each process of an agent writes `started-VERSION-`, `building-` and `ending-` marks. */
  async count(prefix: string): Promise<number> {
    return (await readdir(this.#directory)).filter((name) => name.startsWith(prefix)).length;
  }

  /**
   * Returns the source of an agent server that finishes its build, becomes ready or ends on SIGTERM only once the gate of that name
   * is open, and at once without a gate.
   */
  agent(version: string, held: { build?: string; ready?: string; end?: string } = {}): Record<string, string> {
    const gate = (name: string | undefined) =>
      name === undefined ? "null" : JSON.stringify(path.join(this.#directory, name));
    const start = `
const fs = require("node:fs");
const mark = (name) => fs.writeFileSync(${JSON.stringify(`${this.#directory}/`)} + name + "-${version}-" + process.pid, "");
const when = (gate, act) => (gate === null || fs.existsSync(gate) ? act() : setTimeout(when, 50, gate, act));`;
    const build = `${start}\nmark("building");\nwhen(${gate(held.build)}, () => {});`;
    return {
      "pierhead.json": JSON.stringify({ build: ["node", "build.js"], start: ["node", "server.js"], health: "/ok" }),
      "build.js": build,
      "server.js": `${start}
mark("started");
process.on("SIGTERM", () => {
  mark("ending");
  when(${gate(held.end)}, () => process.exit(0));
});
when(${gate(held.ready)}, () =>
  require("node:http")
    .createServer((request, response) => response.end(JSON.stringify({ version: "${version}", pid: process.pid })))
    .listen(process.env.PORT, "127.0.0.1"),
);
`,
    };
  }
}
