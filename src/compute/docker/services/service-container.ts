import { randomUUID } from "node:crypto";
import path from "node:path";
import { PassThrough, Readable, type Writable } from "node:stream";
import { create } from "tar";
import { Engine } from "../engine/engine.ts";
import { runInContainer } from "../engine/exec.ts";
import { labels } from "../replicas/container.ts";

/**
 * The container of a service, for administration by hand. It checks no rights, because a user of the engine may do anything
 * in its containers.
 * @throws EngineError, EngineUnreachable
 */
export class ServiceContainer implements AsyncDisposable {
  readonly name: string;
  readonly #engine: Engine;
  readonly #signal: AbortSignal;
  /** Directory for copied files, removed on dispose. */
  readonly #directory = `/tmp/pierhead-${randomUUID()}`;
  #hasFiles = false;

  private constructor(engine: Engine, name: string, signal: AbortSignal) {
    this.#engine = engine;
    this.name = name;
    this.#signal = signal;
  }

  /** Finds the running container of a service, of any installation. @returns undefined when there is none */
  static async find(host: string, service: string, signal: AbortSignal): Promise<ServiceContainer | undefined> {
    const engine = await new Engine(host).open(signal);
    const query = { filters: { label: [`${labels.service}=${service}`] } };
    const found = await engine.call<{ Names: string[] }[]>("GET", "/containers/json", { query, signal });
    // Labels alone prove nothing: images may have any label and pass it on to their containers.
    const isOurs = (name: string) => /^\/pierhead-[0-9a-f]{8}-(.+)$/.exec(name)?.[1] === service;
    const name = found.flatMap(({ Names }) => Names.filter(isOurs))[0]?.slice(1);
    if (name !== undefined) return new ServiceContainer(engine, name, signal);
    engine.close();
    return undefined;
  }

  run(argv: string[], env: Record<string, string>, output: Writable) {
    return runInContainer(this.#engine, this.name, { argv, env, output, signal: this.#signal });
  }

  /** Copies a file of this machine into the container. @returns its path there */
  async copyIn(file: string): Promise<string> {
    this.#hasFiles = true;
    const { dir, base } = path.parse(file);
    const prefix = path.basename(this.#directory);
    const body = Readable.from(create({ cwd: dir, portable: true, follow: true, prefix }, [`./${base}`]));
    const query = { path: path.dirname(this.#directory) };
    await this.#engine.call("PUT", `/containers/${this.name}/archive`, {
      query,
      body,
      timeoutMs: 0,
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
