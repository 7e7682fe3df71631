import { parseJson } from "../parts/agent/json-text.tsx";
import type { Values } from "./types.ts";

/** A field of a form for a value of an agent. The user types its text. */
export interface ValueField {
  key: string;
  kind: "text" | "number" | "boolean" | "choice" | "messages" | "json";
  /** The values of a choice. */
  options: string[];
  hint: string | null;
  isRequired: boolean;
  /** The text that the field begins with. */
  text: string;
}

type Texts = Readonly<Record<string, string>>;

const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** Returns the fields of a JSON schema's properties, or [] for a schema without any. Agents are foreign servers. */
export function fieldsOfSchema(schema: unknown, given: Values = {}): ValueField[] {
  if (!isRecord(schema)) return [];
  const root = resolved(schema, schema);
  const required = Array.isArray(root["required"]) ? root["required"] : [];
  if (!isRecord(root["properties"])) return [];
  return Object.entries(root["properties"]).flatMap(([key, property]) => {
    if (key.startsWith("__") || !isRecord(property)) return [];
    const field = resolved(property, schema);
    const value = given[key] ?? field["default"];
    const { title, description } = field;
    return {
      ...{ key, ...kindOf(key, field), isRequired: required.includes(key) },
      hint: [description, title].find((one): one is string => typeof one === "string" && one !== "") ?? null,
      text: value === undefined || value === null ? "" : textOf(value),
    };
  });
}

/** Follows a reference, and takes the one type of a field that may also be null. */
function resolved(schema: Record<string, unknown>, root: Record<string, unknown>, depth = 0): Record<string, unknown> {
  const { $ref: reference, anyOf } = schema;
  if (depth > 5) return schema;
  if (typeof reference === "string" && reference.startsWith("#/")) {
    let at: unknown = root;
    for (const part of reference.slice(2).split("/")) at = isRecord(at) ? at[decodeURIComponent(part)] : undefined;
    return isRecord(at) ? { ...resolved(at, root, depth + 1), ...withoutReference(schema) } : schema;
  }
  const others = Array.isArray(anyOf) ? anyOf.filter((one) => isRecord(one) && one["type"] !== "null") : [];
  const [only] = others;
  if (others.length === 1 && isRecord(only)) return { ...resolved(only, root, depth + 1), ...schema, anyOf: undefined };
  return schema;
}

const withoutReference = ({ $ref: _, ...rest }: Record<string, unknown>) => rest;

function kindOf(key: string, { type, enum: choices }: Record<string, unknown>): Pick<ValueField, "kind" | "options"> {
  if (Array.isArray(choices) && choices.every((one) => typeof one === "string"))
    return { kind: "choice", options: choices as string[] };
  const types = Array.isArray(type) ? type.filter((one) => one !== "null") : [type];
  const [only] = types;
  if (key === "messages") return { kind: "messages", options: [] };
  if (types.length !== 1) return { kind: "json", options: [] };
  if (only === "string") return { kind: "text", options: [] };
  if (only === "number" || only === "integer") return { kind: "number", options: [] };
  return { kind: only === "boolean" ? "boolean" : "json", options: [] };
}

/** Returns a field for each value of a state. */
export function fieldsOfValues(values: Values): ValueField[] {
  return Object.entries(values).map(([key, value]) => ({
    ...{ key, options: [], hint: null, isRequired: false, text: textOf(value) },
    kind: kindOfValue(key, value),
  }));
}

function kindOfValue(key: string, value: unknown): ValueField["kind"] {
  if (key === "messages" && Array.isArray(value)) return "messages";
  if (typeof value === "string") return "text";
  if (typeof value === "number") return "number";
  return typeof value === "boolean" ? "boolean" : "json";
}

const textOf = (value: unknown): string => (typeof value === "string" ? value : JSON.stringify(value, null, 2));

/** Returns the texts that the fields begin with. */
export const textsOf = (fields: readonly ValueField[]): Record<string, string> =>
  Object.fromEntries(fields.map(({ key, text }) => [key, text]));

/** Reads what was typed. Empty fields are left out unless they are texts that had a value. */
export function readFields(fields: readonly ValueField[], texts: Texts): { value: Values } | { problem: string } {
  const value: Values = {};
  for (const { key, kind, text: before, isRequired } of fields) {
    const text = texts[key] ?? "";
    if (text.trim() === "" && !(kind === "text" && before !== "")) {
      if (isRequired && kind !== "messages") return { problem: `${key} has no value.` };
      continue;
    }
    if (kind === "text" || kind === "choice") {
      value[key] = text;
      continue;
    }
    const parsed = parseJson(text);
    if ("problem" in parsed) return { problem: `${key}: ${parsed.problem}` };
    if (kind === "number" && typeof parsed.value !== "number") return { problem: `${key} must be a number.` };
    value[key] = parsed.value;
  }
  return { value };
}
