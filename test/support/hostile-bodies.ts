import type { BodyLimits } from "../../src/contract/body-limits.ts";

/** A body that does its worst within the limits of an operation, or just beyond them. */
export interface HostileBody {
  name: string;
  text: string;
}

/** JSON Schema of a body, as far as it matters here. */
interface Schema {
  type?: string;
  anyOf?: Schema[];
  properties?: Record<string, Schema>;
}

/**
 * Returns bodies that cost much to scan, parse, validate or report: many keys, values or levels, long texts and numbers, text
 * that breaks off at its end, and lists in which every item is wrong.
 */
export function hostileBodies({ bytesMax, valuesMax }: BodyLimits, schema: unknown): HostileBody[] {
  const fitting = (bytesEach: number) => Math.min(valuesMax - 2, Math.floor((bytesMax - 100) / bytesEach));
  const keys = `{${numbered(fitting(14), (index) => `"k${index.toString(36).padStart(6, "0")}":0`)}}`;
  const members = Object.entries((schema as Schema | null)?.properties ?? {});
  return [
    { name: "keys", text: keys },
    { name: "keys that are numbers", text: `{${numbered(fitting(14), (index) => `"${index * 1_024}":0`)}}` },
    { name: "keys and a broken end", text: `${keys.slice(0, -1)}x` },
    { name: "values", text: `[${numbered(fitting(2), () => "0")}]` },
    { name: "equal hashes", text: `[${numbered(fitting(12), (index) => `"${(index * 131_072) % 16_777_216}"`)}]` },
    { name: "levels", text: `[${numbered(fitting(200) / 100, () => `${"[".repeat(98)}${"]".repeat(98)}`)}]` },
    { name: "too many levels", text: "[".repeat(bytesMax) },
    { name: "too many values", text: `[${"0,".repeat(bytesMax / 2 - 2)}0]` },
    { name: "too many bytes", text: " ".repeat(bytesMax + 1) },
    { name: "escapes", text: `"${"\\u0041".repeat((bytesMax - 10) / 6)}"` },
    { name: "escapes and a broken end", text: `"${"\\u0041".repeat((bytesMax - 20) / 6)}\\x` },
    { name: "wide characters and a broken end", text: `"${"😀".repeat((bytesMax - 20) / 4)}"x` },
    { name: "digits", text: "1".repeat(bytesMax) },
    { name: "hyphens", text: wrongEverywhere(members, JSON.stringify("-".repeat((bytesMax / 2) | 0)), bytesMax) },
    { name: "wrong items", text: wrongLists(members, fitting(30)) },
    {
      name: "missing fields of many keys",
      text: wrongLists(members.slice(0, 1), 10).replace(/\}$/, `,${keys.slice(1)}`),
    },
  ].map(({ name, text }) => ({ name, text: text.length > bytesMax + 1 ? text.slice(0, bytesMax) : text }));
}

const numbered = (count: number, make: (index: number) => string) =>
  Array.from({ length: Math.max(1, Math.floor(count)) }, (_, index) => make(index)).join(",");

/** Gives every member the same long value until the body is full. */
function wrongEverywhere(members: [string, Schema][], value: string, bytesMax: number): string {
  const count = Math.max(1, Math.min(members.length, Math.floor(bytesMax / value.length)));
  return `{${members.slice(0, count).map(([name]) => `${JSON.stringify(name)}:${value}`)}}`;
}

/** Fills the lists of a body with items that lack every field, and gives every other member a wrong type. */
function wrongLists(members: [string, Schema][], items: number): string {
  const lists = members.filter(([, schema]) => isList(schema)).length;
  const list = `[${numbered(items / Math.max(1, lists) / 2, () => '{"a":[1]}')}]`;
  return `{${members.map(([name, schema]) => `${JSON.stringify(name)}:${isList(schema) ? list : "[[]]"}`)}}`;
}

const isList = ({ type, anyOf = [] }: Schema) => type === "array" || anyOf.some((one) => one.type === "array");
