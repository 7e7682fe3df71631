import { randomUUID } from "node:crypto";
import path from "node:path";
import { PassThrough, Readable, type Writable } from "node:stream";
import { create } from "tar";
import { Engine } from "../engine/engine.ts";
import { runInContainer } from "../engine/exec.ts";
import { labels } from "../replicas/container.ts";

/**
 * The container of a service, for who works in it by hand: whoever may use the engine may do all there.
 * @throws EngineError, EngineUnreachable
 */
export class ServiceContainer implements AsyncDisposable {
  readonly name: string;
  readonly #engine: Engine;
  readonly #signal: AbortSignal;
  /** What was put there, and goes in the end. */
  readonly #directory = `/tmp/pierhead-${randomUUID()}`;
  #hasFiles = false;

  private constructor(engine: Engine, name: string, signal: AbortSignal) {
    this.#engine = engine;
    this.name = name;
    this.#signal = signal;
  }

  /** @returns undefined when no container of that name runs in the engine, of whichever installation. */
  static async find(host: string, service: string, signal: AbortSignal): Promise<ServiceContainer | undefined> {
    const engine = await new Engine(host).open(signal);
    const query = { filters: { label: [`${labels.service}=${service}`] } };
    const found = await engine.call<{ Names: string[] }[]>("GET", "/containers/json", { query, signal });
    // Images may have any label, and hand it down to their containers.
    const isOurs = (name: string) => /^\/pierhead-[0-9a-f]{8}-(.+)$/.exec(name)?.[1] === service;
    const name = found.flatMap(({ Names }) => Names.filter(isOurs))[0]?.slice(1);
    if (name !== undefined) return new ServiceContainer(engine, name, signal);
    engine.close();
    return undefined;
  }

  run(argv: string[], env: Record<string, string>, output: Writable) {
    return runInContainer(this.#engine, this.name, { argv, env, output, signal: this.#signal });
  }

  /** @returns where a file of this machine is in the container now. */
  async copyIn(file: string): Promise<string> {
    this.#hasFiles = true;
    const { dir, base } = path.parse(file);
    const prefix = path.basename(this.#directory);
    const body = Readable.from(create({ cwd: dir, portable: true, follow: true, prefix }, [`./${base}`]));
    const query = { path: path.dirname(this.#directory) };
    await this.#engine.call("PUT", `/containers/${this.name}/archive`, {
      ...{ query, body, timeoutMs: 0 },
      signal: this.#signal,
    });
    return path.posix.join(this.#directory, base);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const signal = AbortSignal.timeout(10_000);
    const output = new PassThrough().resume();
    const argv = ["rm", "-rf", "--", this.#directory];
    if (this.#hasFiles)
      await runInContainer(this.#engine, this.name, { argv, env: {}, output, signal }).catch(() => {});
    this.#engine.close();
  }
}
