import { type Static, type TSchema, type TSchemaOptions, Type } from "typebox";

/**
 * Builders for all contract schemas. They produce plain JSON Schema, and the request validator supports exactly these
 * forms: `{enum}` for a closed set, `{anyOf: [x, {type: "null"}]}` for "x or null", `{type: "object", properties}` for
 * an object, `{type: "object", additionalProperties: x}` for a map, `format` for UUIDs and timestamps.
 *
 * A field with a `default` may be left out: the validator fills in the default, so handlers always find a value.
 * `requiredUnless: "x"` on a field means: the field is required unless its sibling `x` is given.
 * Unknown keys are ignored everywhere (contract 1.2).
 */

/** Returns the schema of a closed set of strings. */
export function literals<const V extends string[]>(values: readonly [...V], options: TSchemaOptions = {}) {
  return Type.Enum(values, options);
}

export function uuid(description?: string) {
  return Type.String({ format: "uuid", ...describe(description) });
}

/** Returns the schema of an ISO 8601 timestamp in UTC with up to six fractional digits. */
export function timestamp(description?: string) {
  return Type.String({ format: "date-time", ...describe(description) });
}

export function nullable<S extends TSchema>(schema: S, description?: string) {
  return Type.Union([schema, Type.Null()], describe(description));
}

/** Returns the schema of a request field that may be absent or null. Both mean the same (contract 4.1). */
export function optional<S extends TSchema>(schema: S, description?: string, rules: { requiredUnless?: string } = {}) {
  return Type.Optional(Type.Union([schema, Type.Null()], { ...describe(description), ...rules }));
}

/** Returns the schema of an object with arbitrary keys and values of one schema, such as labels. */
export function mapOf<S extends TSchema>(
  value: S,
  description?: string,
  options: { examples?: Record<string, Static<S>>[] } = {},
) {
  return Type.Unsafe<Record<string, Static<S>>>({
    type: "object",
    additionalProperties: value,
    ...describe(description),
    ...options,
  });
}

/** Returns the schema of an object that the server passes on unread. */
export function freeObject(description?: string) {
  return mapOf(Type.Unknown(), description);
}

function describe(description: string | undefined): { description?: string } {
  return description === undefined ? {} : { description };
}
