import { type Static, type TSchema, type TSchemaOptions, Type } from "typebox";

/**
 * The few shapes every contract schema is made of. Plain JSON Schema comes out, and the request validator knows these
 * forms: `{enum}` for a closed set, `{anyOf: [x, {type: "null"}]}` for "x or null", `{type: "object", properties}` for
 * an object, `{type: "object", additionalProperties: x}` for a map, `format` for uuids and timestamps.
 *
 * A field with a `default` may be left out: the validator fills the default in, so handlers always find a value.
 * `requiredUnless: "x"` on a field means: missing is an error unless the sibling `x` is given.
 * Unknown keys are ignored everywhere (contract 1.2).
 */

/** A closed set of strings. */
export function literals<const V extends string[]>(values: readonly [...V], options: TSchemaOptions = {}) {
  return Type.Enum(values, options);
}

export function uuid(description?: string) {
  return Type.String({ format: "uuid", ...describe(description) });
}

/** ISO 8601, UTC, up to six fractional digits. */
export function timestamp(description?: string) {
  return Type.String({ format: "date-time", ...describe(description) });
}

export function nullable<S extends TSchema>(schema: S, description?: string) {
  return Type.Union([schema, Type.Null()], describe(description));
}

/** A request field that may be absent or null; both mean the same (contract 4.1). */
export function given<S extends TSchema>(schema: S, description?: string, rules: { requiredUnless?: string } = {}) {
  return Type.Optional(Type.Union([schema, Type.Null()], { ...describe(description), ...rules }));
}

/** Free keys with values of one shape, such as labels. */
export function mapOf<S extends TSchema>(value: S, description?: string) {
  return Type.Unsafe<Record<string, Static<S>>>({
    type: "object",
    additionalProperties: value,
    ...describe(description),
  });
}

/** An object we pass on without looking into it. */
export function freeObject(description?: string) {
  return mapOf(Type.Unknown(), description);
}

function describe(description: string | undefined): { description?: string } {
  return description === undefined ? {} : { description };
}
