import path from "node:path";
import { BuildFailure } from "../failure.ts";

/**
 * One value of a project's configuration with its position in the file, so that an error names the value:
 * `langgraph.json: graphs.agent must be ...`.
 */
export class ConfigValue {
  readonly #file: string;
  readonly place: string;
  readonly value: unknown;

  constructor(file: string, place: string, value: unknown) {
    this.#file = file;
    this.place = place;
    this.value = value;
  }

  /** Rejects this value. `why` continues the sentence that begins with its position. @throws BuildFailure `ConfigInvalid` */
  refuse(why: string): never {
    throw new BuildFailure("ConfigInvalid", `${this.#file}: ${this.place === "" ? "it" : this.place} ${why}.`);
  }

  /** Null counts as absent, as in the API. */
  get isAbsent(): boolean {
    return this.value === undefined || this.value === null;
  }

  get(key: string): ConfigValue {
    const value = isObject(this.value) ? this.value[key] : undefined;
    return new ConfigValue(this.#file, this.place === "" ? key : `${this.place}.${key}`, value);
  }

  entries(): [string, ConfigValue][] {
    if (!isObject(this.value)) this.refuse(`must be an object, not ${nameOf(this.value)}`);
    return Object.keys(this.value).map((key) => [key, this.get(key)]);
  }

  items(): ConfigValue[] {
    if (!Array.isArray(this.value)) this.refuse(`must be a list, not ${nameOf(this.value)}`);
    return this.value.map((item, at) => new ConfigValue(this.#file, `${this.place}[${at}]`, item));
  }

  text(): string {
    if (typeof this.value !== "string") this.refuse(`must be a string, not ${nameOf(this.value)}`);
    if (this.value === "" || this.value.includes("\0")) this.refuse("must not be empty");
    return this.value;
  }

  /** Returns the value as text, which may be empty: an argument of a program. */
  argument(): string {
    return this.value === "" ? "" : this.text();
  }

  /**
   * Resolves the path of a project file.
   * @param from directory of the configuration, relative to the root of the source.
   * @returns its path relative to the root of the source.
   */
  filePath(given: string, from: string): string {
    const file = path.posix.normalize(path.posix.join(from, given));
    if (path.posix.isAbsolute(given) || given.includes("\\") || file === ".." || file.startsWith("../")) {
      this.refuse(`names '${given}', which is outside the source`);
    }
    return file;
  }
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

function nameOf(value: unknown): string {
  if (value === undefined) return "absent";
  if (value === null) return "null";
  if (Array.isArray(value)) return "a list";
  return typeof value === "object" ? "an object" : `a ${typeof value}`;
}
