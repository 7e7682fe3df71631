import type { TSchema } from "typebox";

type Json = Record<string, unknown>;

/**
 * Returns the plain JSON Schema of a contract schema. Parts with an `$id` move to `named`, and references lead there.
 * @param at Where `named` will be in the document, such as `#/$defs/`.
 */
export function plainSchema(schema: TSchema, named: Record<string, Json>, at: string): Json {
  return plainOf(JSON.parse(JSON.stringify(schema)), named, at) as Json;
}

/** Keywords of ours that only the validator understands. */
const ownKeywords: ReadonlySet<string> = new Set(["$id", "uncappable", "requiredUnless"]);

/** Keywords that hold values, not schemas. */
const valueKeywords: ReadonlySet<string> = new Set(["examples", "default", "enum", "const"]);

function plainOf(node: unknown, named: Record<string, Json>, at: string): unknown {
  if (Array.isArray(node)) return node.map((item) => plainOf(item, named, at));
  if (typeof node !== "object" || node === null) return node;
  const schema = node as Json;
  const id = schema["$id"];
  const isNamed = typeof id === "string";
  const plain: Json = {};
  for (const [key, value] of Object.entries(schema)) {
    if (ownKeywords.has(key) && typeof value !== "object") continue;
    // Examples of named schemas are separate components.
    if (key === "examples" && isNamed) continue;
    plain[key] = valueKeywords.has(key) && Array.isArray(value) ? value : plainOf(value, named, at);
  }
  if (Array.isArray(schema["enum"]) && schema["type"] === undefined) plain["type"] = "string";
  if (!isNamed) return plain;
  named[id] = plain;
  return { $ref: `${at}${id}` };
}
