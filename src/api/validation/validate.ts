import type { TSchema } from "typebox";
import type { ValidationItem } from "../../contract/error.ts";
import { Echoes } from "./echo.ts";
import { checkBoolean, compileInteger, compileNumber } from "./validate-numbers.ts";
import { compileLiteral, compileString, isStorable } from "./validate-text.ts";
import { type Check, nestingMax, report, reportMissing, type Walk } from "./validate-walk.ts";

export type RequestPart = "path" | "query" | "header" | "body";

export interface Validated {
  /**
   * Normalized: only fields of the schema, with defaults, lower-case UUIDs and UTC timestamps. Unusable when there are
   * problems.
   */
  value: unknown;
  problems: ValidationItem[];
}

/** JSON Schema forms that `contract/schema.ts` makes. The program refuses to start with any other. */
interface Schema {
  $id?: string;
  type?: string;
  format?: string;
  enum?: readonly unknown[];
  const?: unknown;
  anyOf?: readonly Schema[];
  properties?: Readonly<Record<string, Schema>>;
  additionalProperties?: Schema | boolean;
  required?: readonly string[];
  items?: Schema;
  minimum?: number;
  maximum?: number;
  minLength?: number;
  maxLength?: number;
  pattern?: string;
  minItems?: number;
  maxItems?: number;
  default?: unknown;
  requiredUnless?: string;
}

/**
 * Compiles a schema to a function that checks one part of a request as pydantic 2 would: the same coercions, and the
 * same problems in the same order with the same texts (contract 1.5). All closures are created once, when routes are
 * registered.
 *
 * `body` takes parsed JSON. The other parts take a record with a list of texts per name, as sent. A single value is the
 * last text of its list. A list is all of them, each split at commas.
 * @throws RangeError for an unknown schema form.
 */
export function compileValidator(schema: TSchema, part: RequestPart): (input: unknown) => Validated {
  const check = part === "body" ? compile(schema) : compileParameters(schema);
  return (input) => {
    const walk: Walk = { path: [part], problems: [], echoes: new Echoes() };
    const value = check(input, walk);
    return { value, problems: walk.problems };
  };
}

function compile(schema: Schema): Check {
  if (schema.anyOf !== undefined) return compileUnion(schema.anyOf);
  if (schema.enum !== undefined) return compileLiteral(schema.enum);
  if (schema.const !== undefined) return compileLiteral([schema.const]);
  switch (schema.type) {
    case "string":
      return compileString(schema);
    case "integer":
      return compileInteger(schema);
    case "number":
      return compileNumber(schema);
    case "boolean":
      return checkBoolean;
    case "array":
      return compileList(schema);
    case "object":
      return schema.properties === undefined ? compileMap(schema) : compileObject(schema.properties, schema.required);
    case undefined:
      return checkAnything;
    default:
      throw unknownForm(schema);
  }
}

/** Compiles "X or null", or a closed set that is written as a union of constants. */
function compileUnion(members: readonly Schema[]): Check {
  const rest = members.filter((member) => member.type !== "null");
  const only = rest.length === 1 ? rest[0] : undefined;
  const check = only === undefined ? compileLiteral(constantsOf(rest)) : compile(only);
  if (rest.length === members.length) return check;
  return (value, walk) => (value === null ? null : check(value, walk));
}

function constantsOf(members: readonly Schema[]): unknown[] {
  return members.flatMap((member) => {
    if (member.enum !== undefined) return member.enum;
    if (member.const === undefined) throw unknownForm(member);
    return [member.const];
  });
}

interface Rules {
  check: Check;
  isRequired: boolean;
  fallback?: unknown;
}

interface Field extends Rules {
  name: string;
  /** Rules that apply instead when the other field `when` is present. */
  relaxed?: Rules & { when: string };
}

function compileFields(properties: Readonly<Record<string, Schema>>, required: readonly string[] = []): Field[] {
  return Object.entries(properties).map(([name, schema]) => {
    const { default: fallback, requiredUnless: when } = schema;
    const check = compile(schema);
    if (when === undefined)
      return { name, check, isRequired: required.includes(name) && fallback === undefined, fallback };
    // While the field is required it must have a value, so null is not accepted then.
    const strict = compile(schema.anyOf?.find(isNotNull) ?? schema);
    return { name, check: strict, isRequired: true, relaxed: { when, check, isRequired: false } };
  });
}

const isNotNull = (schema: Schema) => schema.type !== "null";

function compileObject(properties: Readonly<Record<string, Schema>>, required?: readonly string[]): Check {
  const fields = compileFields(properties, required);
  return (value, walk) => {
    if (!isObject(value)) return report(walk, "model_attributes_type", notAnObject, value);
    const out: Record<string, unknown> = {};
    for (const field of fields) {
      const rules: Rules = field.relaxed && isPresent(value, field.relaxed.when) ? field.relaxed : field;
      walk.path.push(field.name);
      if (Object.hasOwn(value, field.name)) out[field.name] = rules.check(value[field.name], walk);
      else if (rules.isRequired) reportMissing(walk, value);
      else if (rules.fallback !== undefined) out[field.name] = rules.fallback;
      walk.path.pop();
    }
    return out;
  };
}

const notAnObject = "Input should be a valid dictionary or object to extract fields from";

/** Parameters arrive as texts. A missing one is reported with `input: null`, because it has no enclosing object. */
function compileParameters(schema: Schema): Check {
  if (schema.properties === undefined) throw unknownForm(schema);
  const lists = new Set(
    Object.entries(schema.properties).flatMap(([name, one]) => (one.type === "array" ? [name] : [])),
  );
  const fields = compileFields(schema.properties, schema.required);
  return (value, walk) => {
    const texts = value as Readonly<Record<string, readonly string[] | undefined>>;
    const out: Record<string, unknown> = {};
    for (const field of fields) {
      const sent = texts[field.name];
      walk.path.push(field.name);
      if (sent !== undefined && sent.length > 0) {
        out[field.name] = field.check(lists.has(field.name) ? splitList(sent) : sent[sent.length - 1], walk);
      } else if (field.isRequired) reportMissing(walk, null);
      else if (field.fallback !== undefined) out[field.name] = field.fallback;
      walk.path.pop();
    }
    return out;
  };
}

const splitList = (sent: readonly string[]) => sent.flatMap((text) => text.split(","));

function compileList(schema: Schema): Check {
  const check = compile(schema.items ?? {});
  const { minItems = 0, maxItems = Number.POSITIVE_INFINITY } = schema;
  return (value, walk) => {
    if (!Array.isArray(value)) return report(walk, "list_type", "Input should be a valid list", value);
    const lengths = { field_type: "List", actual_length: value.length };
    if (value.length > maxItems) {
      const msg = `List should have at most ${items(maxItems)} after validation, not ${value.length}`;
      return report(walk, "too_long", msg, value, { ...lengths, max_length: maxItems });
    }
    const problemsBefore = walk.problems.length;
    const out = value.map((item, index) => checkAt(check, item, index, walk));
    if (value.length < minItems && walk.problems.length === problemsBefore) {
      const msg = `List should have at least ${items(minItems)} after validation, not ${value.length}`;
      return report(walk, "too_short", msg, value, { ...lengths, min_length: minItems });
    }
    return out;
  };
}

const items = (count: number) => `${count} item${count === 1 ? "" : "s"}`;

function compileMap(schema: Schema): Check {
  const check = typeof schema.additionalProperties === "object" ? compile(schema.additionalProperties) : checkAnything;
  return (value, walk) => {
    if (!isObject(value)) return report(walk, "dict_type", "Input should be a valid dictionary", value);
    const out: Record<string, unknown> = {};
    for (const [key, item] of Object.entries(value)) {
      // Assigning it would replace the prototype of `out` instead of adding a key.
      if (key === "__proto__") continue;
      if (!isStorable(key))
        report(walk, "value_error", "Value error, keys must be text without NUL", key, { error: {} });
      out[key] = checkAt(check, item, key, walk);
    }
    return out;
  };
}

/** Checks values that we pass on unread; rejects only what the database cannot store. */
const checkAnything: Check = (value, walk) => {
  if (typeof value === "string") return isStorable(value) ? value : compileString({})(value, walk);
  if (typeof value !== "object" || value === null) return value;
  if (walk.path.length > nestingMax) {
    return report(walk, "value_error", `Value error, nested deeper than ${nestingMax} levels`, null, { error: {} });
  }
  if (Array.isArray(value)) return value.map((item, index) => checkAt(checkAnything, item, index, walk));
  return compileMap({})(value, walk);
};

function checkAt(check: Check, value: unknown, key: string | number, walk: Walk): unknown {
  walk.path.push(key);
  const checked = check(value, walk);
  walk.path.pop();
  return checked;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

const isPresent = (value: Record<string, unknown>, key: string) => Object.hasOwn(value, key) && value[key] !== null;

const unknownForm = (schema: Schema) => new RangeError(`no request check for this schema: ${JSON.stringify(schema)}`);
