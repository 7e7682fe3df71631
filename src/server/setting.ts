import path from "node:path";

/** Environment variable with its default and meaning (a row of docs/reference/configuration.md) and its parser. */
export interface Setting<T> {
  name: string;
  fallback: string;
  meaning: string;
  read(text: string | undefined): T;
}

export type Environment = Record<string, string | undefined>;

/** Values that a table of settings reads. */
export type Read<S> = { [K in keyof S]: S[K] extends Setting<infer T> ? T : never };

/** Reads all settings of a table. @throws Error naming the variable, its expected format and its value. */
export function readSettings<S extends Record<string, Setting<unknown>>>(table: S, environment: Environment): Read<S> {
  const entries = Object.entries(table);
  return Object.fromEntries(
    entries.map(([key, setting]) => [key, setting.read(environment[setting.name] || undefined)]),
  ) as Read<S>;
}

export function text(name: string, fallback: string, meaning: string): Setting<string> {
  return { name, fallback: fallback || "none", meaning, read: (value) => value ?? fallback };
}

export function directory(name: string, fallback: string, shown: string, meaning: string): Setting<string> {
  return { name, fallback: shown, meaning, read: (value) => path.resolve(value ?? fallback) };
}

export function optional(name: string, shown: string, meaning: string): Setting<string | undefined> {
  return { name, fallback: shown, meaning, read: (value) => value };
}

/**
 * Checks that an address has one of the schemes, or matches `other`.
 * @throws Error naming the variable. It does not repeat the address, which may hold a password.
 */
export function requireScheme(
  name: string,
  value: string | undefined,
  schemes: readonly string[],
  other?: RegExp,
): void {
  if (value === undefined || other?.test(value) || schemes.includes(URL.parse(value)?.protocol.slice(0, -1) ?? ""))
    return;
  throw new Error(`${name} must be a URL such as ${schemes[0]}://user:password@host/name`);
}

/** A key that clients send in a header. Trimmed, because headers have no surrounding blanks and key files often end with a newline. */
export function optionalKey(name: string, shown: string, meaning: string): Setting<string | undefined> {
  return { name, fallback: shown, meaning, read: (value) => value?.trim() || undefined };
}

export function whole(name: string, fallback: number, min: number, max: number, meaning: string): Setting<number> {
  const read = (value: string | undefined) => {
    const number = value === undefined ? fallback : Number(value.trim() || Number.NaN);
    if (Number.isInteger(number) && number >= min && number <= max) return number;
    throw new Error(`${name} must be a whole number from ${min} to ${max}, got "${value}"`);
  };
  return { name, fallback: String(fallback), meaning, read };
}

export function optionalWhole(name: string, min: number, max: number, meaning: string): Setting<number | undefined> {
  const given = whole(name, min, min, max, meaning);
  return { name, fallback: "none", meaning, read: (value) => (value === undefined ? undefined : given.read(value)) };
}

export function oneOf<const V extends string>(name: string, values: readonly V[], meaning: string): Setting<V> {
  const read = (value: string | undefined) => {
    const found = values.find((one) => one === (value ?? values[0]));
    if (found !== undefined) return found;
    throw new Error(`${name} must be one of ${values.join(", ")}, got "${value}"`);
  };
  return {
    name,
    fallback: values[0] as string,
    meaning: `${meaning} One of ${values.map((one) => `\`${one}\``).join(", ")}.`,
    read,
  };
}

export function flag(name: string, fallback: boolean, meaning: string): Setting<boolean> {
  const maybe = optionalFlag(name, meaning);
  return { name, fallback: String(fallback), meaning, read: (value) => maybe.read(value) ?? fallback };
}

export function optionalFlag(name: string, meaning: string): Setting<boolean | undefined> {
  const read = (value: string | undefined) => {
    if (value === undefined) return undefined;
    if (["1", "true", "yes", "on"].includes(value.toLowerCase())) return true;
    if (["0", "false", "no", "off"].includes(value.toLowerCase())) return false;
    throw new Error(`${name} must be true or false, got "${value}"`);
  };
  return { name, fallback: "on while the server is local", meaning, read };
}
