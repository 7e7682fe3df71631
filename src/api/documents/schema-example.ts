/** Plain JSON Schema, as `contract/schema.ts` makes it. */
export interface ExampleSchema {
  type?: string;
  format?: string;
  anyOf?: ExampleSchema[];
  enum?: unknown[];
  const?: unknown;
  items?: ExampleSchema;
  minItems?: number;
  properties?: Record<string, ExampleSchema>;
  required?: string[];
  minimum?: number;
  default?: unknown;
  examples?: unknown[];
}

/** Placeholder for a text without an example; a test searches the document for it. */
export const unknownText = "...";

/**
 * Returns an example value of a schema, as short as the schema allows: the first of its `examples`, or one composed
 * from its parts. Nullable and optional parts are null or absent, unless they have an example of their own.
 */
export function exampleOf(schema: ExampleSchema): unknown {
  if (schema.examples !== undefined) return schema.examples[0];
  if (schema.default !== undefined) return schema.default;
  if (schema.const !== undefined) return schema.const;
  if (schema.enum !== undefined) return schema.enum[0];
  if (schema.anyOf !== undefined) return exampleOfUnion(schema.anyOf);
  switch (schema.type) {
    case "string":
      return exampleOfText(schema.format);
    case "integer":
    case "number":
      return schema.minimum ?? 1;
    case "boolean":
      return false;
    case "array":
      return Array.from({ length: schema.minItems ?? 1 }, () => exampleOf(schema.items ?? {}));
    case "object":
      return exampleOfObject(schema);
    default:
      return null;
  }
}

function exampleOfUnion(members: readonly ExampleSchema[]): unknown {
  const isNullable = members.some((member) => member.type === "null");
  const chosen = isNullable ? members.find(hasExample) : members[0];
  return chosen === undefined ? null : exampleOf(chosen);
}

function exampleOfText(format: string | undefined): string {
  if (format === "uuid") return "6b1f0f64-5f0e-4a0e-9a35-0d5b6c1f7a11";
  return format === "date-time" ? "2026-11-20T10:00:00.000000Z" : unknownText;
}

function exampleOfObject({ properties = {}, required = [] }: ExampleSchema): Record<string, unknown> {
  const shown = Object.entries(properties).filter(([name, field]) => required.includes(name) || hasExample(field));
  return Object.fromEntries(shown.map(([name, field]) => [name, exampleOf(field)]));
}

const hasExample = (schema: ExampleSchema): boolean =>
  schema.examples !== undefined || (schema.anyOf ?? []).some(hasExample);
