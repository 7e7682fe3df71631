/**
 * Returns what a response may repeat of a value that it rejects. Secrets are masked. Large values are cut, because one
 * body of 8 MiB can be the enclosing object of many missing fields.
 *
 * @param path Path of the value, request part first: `["body", "secrets", 0, "value"]`.
 */
export function echo(
  value: unknown,
  path: readonly (string | number)[],
  budget: Budget = { left: echoSizeMax },
): unknown {
  const at = path.findIndex((key) => typeof key === "string" && secretLists.has(key));
  if (path.some((key) => typeof key === "string" && secretFields.has(key))) return mask;
  if (at < 0) return copy(value, budget, 0);
  const [index, field] = path.slice(at + 1);
  if (index === undefined) return copySecrets(value, budget);
  if (field === undefined) return copySecret(value, budget);
  return field === "name" ? copyName(value, budget) : mask;
}

/**
 * What one response repeats of the values that it rejects. Each object is read once, however many of its fields are
 * missing, because reading the keys of a large object takes milliseconds. All echoes together are bounded.
 */
export class Echoes {
  readonly #made = new Map<object, { copy: unknown; size: number }>();
  #left = echoesSizeMax;

  /** Returns what the response may repeat of a value, or dots when it repeats enough. */
  of(value: unknown, path: readonly (string | number)[]): unknown {
    if (this.#left <= 0) return cut;
    const { copy, size } = this.#known(value) ?? this.#make(value, path);
    this.#left -= size;
    return copy;
  }

  #known(value: unknown) {
    return typeof value === "object" && value !== null ? this.#made.get(value) : undefined;
  }

  #make(value: unknown, path: readonly (string | number)[]) {
    const begin = Math.min(echoSizeMax, this.#left);
    const budget = { left: begin };
    const copy = echo(value, path, budget);
    const made = { copy, size: Math.min(begin, begin - budget.left) };
    if (typeof value === "object" && value !== null) this.#made.set(value, made);
    return made;
  }
}

/** Returns the path of a problem. Long keys are cut, because each of many problems repeats all keys above it. */
export function locationOf(path: readonly (string | number)[]): (string | number)[] {
  return path.map((key) =>
    typeof key === "string" && key.length > keyLengthMax ? key.slice(0, keyLengthMax) + cut : key,
  );
}

/** Kubernetes allows 253 characters in the longest part of a key. */
const keyLengthMax = 512;

const mask = "**********";
const cut = "...";

/** Characters and members repeated of one value, enough to recognize it, and of all values of a response. */
const echoSizeMax = 8 * 1024;
const echoesSizeMax = 64 * 1024;
const echoDepthMax = 32;

/** Lists of `{name, value}`: only the names may be repeated. */
const secretLists: ReadonlySet<string> = new Set(["secrets", "env"]);

const secretFields: ReadonlySet<string> = new Set([
  "client_secret",
  "token",
  "access_token",
  "refresh_token",
  "code",
  "code_verifier",
  "state",
  "password",
  "api_key",
  "ssh_key",
  "webhook_secret",
  "signature",
]);

interface Budget {
  left: number;
}

function copy(value: unknown, budget: Budget, depth: number): unknown {
  if (typeof value === "string") return copyText(value, budget);
  budget.left -= 1;
  if (typeof value !== "object" || value === null) return value;
  if (depth > echoDepthMax) return cut;
  if (Array.isArray(value)) return copyMembers(value, budget, (item) => copy(item, budget, depth + 1));
  const out: [string, unknown][] = [];
  for (const key of Object.keys(value)) {
    if (budget.left <= 0) return Object.fromEntries([...out, [cut, cut]]);
    const item = (value as Record<string, unknown>)[key];
    out.push([copyText(key, budget), copyField(key, item, budget, depth + 1)]);
  }
  return Object.fromEntries(out);
}

function copyField(key: string, value: unknown, budget: Budget, depth: number): unknown {
  if (secretFields.has(key)) return mask;
  return secretLists.has(key) ? copySecrets(value, budget) : copy(value, budget, depth);
}

function copySecrets(value: unknown, budget: Budget): unknown {
  if (value === null) return null;
  return Array.isArray(value) ? copyMembers(value, budget, (item) => copySecret(item, budget)) : mask;
}

function copySecret(value: unknown, budget: Budget): unknown {
  budget.left -= 1;
  if (typeof value !== "object" || value === null || Array.isArray(value)) return mask;
  const keys = Object.keys(value).slice(0, 8);
  return Object.fromEntries(
    keys.map((key) => [
      copyText(key, budget),
      key === "name" ? copyName((value as { name: unknown }).name, budget) : mask,
    ]),
  );
}

/** A name that is not a text is a mistake with unknown content, so it is masked. */
function copyName(value: unknown, budget: Budget): unknown {
  return typeof value === "object" && value !== null ? mask : copyText(value, budget);
}

function copyMembers(list: readonly unknown[], budget: Budget, copyMember: (item: unknown) => unknown): unknown[] {
  const out: unknown[] = [];
  for (const item of list) {
    if (budget.left <= 0) return [...out, cut];
    out.push(copyMember(item));
  }
  return out;
}

function copyText<T>(value: T, budget: Budget): T | string {
  if (typeof value !== "string") return value;
  const isWhole = value.length <= Math.max(budget.left, 0);
  const kept = isWhole ? value : `${value.slice(0, Math.max(budget.left, 0))}${cut}`;
  budget.left -= value.length + 1;
  return kept;
}
