import fc from "fast-check";

/**
 * Values that no field expects. A `raw` text is inserted into the JSON as it is, because JavaScript has no such value.
 */
const strange: readonly fc.Arbitrary<unknown>[] = [
  fc.constantFrom<unknown>(
    null,
    true,
    false,
    0,
    -0,
    -1,
    1.5,
    2 ** 53,
    -(2 ** 63),
    1e308,
    5e-324,
    "",
    " ",
    [],
    {},
    [[]],
    [null],
  ),
  fc.constantFrom(
    "\u0000",
    "a\u0000b",
    "\ud800",
    "\udc00x",
    "\ufeff",
    "\u202e",
    "\u2028",
    "é".normalize("NFD"),
    "👩‍👩‍👧",
    "１",
    "İ",
  ),
  fc.constantFrom(
    "__proto__",
    "constructor",
    "toString",
    "../..",
    "'; drop table deployments; --",
    "${7*7}",
    "%00",
    "\\",
    "null",
  ),
  fc.constantFrom(
    { __proto__: null, constructor: 1 },
    { ["__proto__"]: { admin: true } },
    { length: 1 },
    { $ref: "#" },
  ),
  fc.constantFrom("1e999", "Infinity", "0x10", "+1", "1_0", "true", "NaN", "2026-02-30T25:61:61Z", "99999-01-01", "-1"),
  fc.integer({ min: 100, max: 3_000 }).map((length) => "x".repeat(length * 10)),
  fc.integer({ min: 2, max: 200 }).map((length) => Array.from({ length }, (_, index) => index)),
  fc
    .integer({ min: 1, max: 60 })
    .map((depth) => Array.from({ length: depth }).reduce((inner) => [inner], 1 as unknown)),
  fc.jsonValue({ maxDepth: 4 }),
  fc.string({ unit: "binary" }),
  fc.bigInt({ min: -(2n ** 70n), max: 2n ** 70n }).map((value) => ({ [rawKey]: String(value) })),
  fc.constantFrom("1e400", "-1e400", "1E+2", "0.1e-400", `1${"0".repeat(400)}`).map((raw) => ({ [rawKey]: raw })),
];

const rawKey = "\u0001raw";
const strangeValue = fc.oneof(...strange);
const strangeKey = fc.oneof(
  fc.constantFrom("__proto__", "constructor", "", "nope", "name", "a".repeat(2_000), "\u0000", "\ud800", "é"),
  fc.string({ unit: "binary" }),
);

/** Returns bodies in which one to three values differ from the schema: another value, an extra key or a missing one. */
export function mutatedBody(body: fc.Arbitrary<unknown>): fc.Arbitrary<string> {
  const mutation = fc.tuple(fc.nat(), fc.constantFrom("replace", "replace", "add", "remove"), strangeKey, strangeValue);
  return fc
    .tuple(body, fc.array(mutation, { minLength: 1, maxLength: 3 }))
    .map(([value, mutations]) =>
      textOf(mutations.reduce((at, [place, kind, key, odd]) => mutateAt(at, { place, kind, key, odd }), value)),
    );
}

interface Mutation {
  place: number;
  kind: string;
  key: string;
  odd: unknown;
}

/** Descends to a position that the number selects, and changes the value there. */
function mutateAt(value: unknown, { place, kind, key, odd }: Mutation): unknown {
  if (typeof value !== "object" || value === null) return odd;
  const keys = Object.keys(value);
  const chosen = keys[place % Math.max(1, keys.length)];
  if (kind === "add" || chosen === undefined) return Array.isArray(value) ? [...value, odd] : { ...value, [key]: odd };
  const inner = (value as Record<string, unknown>)[chosen];
  const isDeeper = typeof inner === "object" && inner !== null && place % 3 !== 0;
  const next = isDeeper ? mutateAt(inner, { place: Math.floor(place / keys.length), kind, key, odd }) : odd;
  const entries = Object.entries(value).flatMap(([name, one]): [string, unknown][] => {
    if (name !== chosen) return [[name, one]];
    return kind === "remove" && !isDeeper ? [] : [[name, next]];
  });
  return Array.isArray(value) ? entries.map(([, one]) => one) : Object.fromEntries(entries);
}

export function textOf(value: unknown): string {
  return (JSON.stringify(value) ?? "null").replaceAll(/\{"\\u0001raw":"([^"]*)"\}/g, "$1");
}

/** Texts that are not JSON, or JSON that strains a parser. */
export const invalidJson: fc.Arbitrary<string> = fc.oneof(
  fc.json().chain((json) => fc.nat(json.length).map((at) => json.slice(0, at))),
  fc.string({ unit: "binary" }),
  fc.constantFrom("", " ", "null", "[]", '"text"', "5", "NaN", "{'a':1}", "{a:1}", "\u0000", "\ufeff{}", "{}{}", "{,}"),
  fc.integer({ min: 1_000, max: 50_000 }).map((depth) => "[".repeat(depth)),
  fc.integer({ min: 1_000, max: 20_000 }).map((depth) => `${'{"a":'.repeat(depth)}1${"}".repeat(depth)}`),
);
