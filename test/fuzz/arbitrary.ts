import fc from "fast-check";

/** JSON Schema in the forms that `contract/schema.ts` makes. */
export interface Schema {
  type?: string;
  format?: string;
  enum?: unknown[];
  const?: unknown;
  anyOf?: Schema[];
  items?: Schema;
  properties?: Record<string, Schema>;
  required?: string[];
  additionalProperties?: Schema;
  minimum?: number;
  maximum?: number;
  minLength?: number;
  maxLength?: number;
  minItems?: number;
  maxItems?: number;
  pattern?: string;
  examples?: unknown[];
}

/**
 * Returns an arbitrary of a schema's values: what it allows, with fields left out, nulls where allowed, and texts of
 * any script.
 * @param name Name of the field: some texts must look like what they name, or the rules behind the shape are never
 *   reached.
 */
export function arbitraryOf(schema: Schema, name = ""): fc.Arbitrary<unknown> {
  const plain = plainArbitrary(schema, name);
  const { examples } = schema;
  if (examples === undefined) return plain;
  return fc.oneof({ weight: 2, arbitrary: fc.constantFrom(...examples.map(ofNowhere)) }, plain);
}

/** Replaces hosts of examples, which may exist: no request may make the server call them. */
function ofNowhere(example: unknown): unknown {
  return JSON.parse(JSON.stringify(example).replaceAll(/https?:\/\/[\w.-]+|git@[\w.-]+/g, "https://host.invalid"));
}

function plainArbitrary(schema: Schema, name: string): fc.Arbitrary<unknown> {
  if (schema.const !== undefined) return fc.constant(schema.const);
  if (schema.enum !== undefined) return fc.constantFrom(...schema.enum);
  if (schema.anyOf !== undefined) return fc.oneof(...schema.anyOf.map((member) => arbitraryOf(member, name)));
  switch (schema.type) {
    case "null":
      return fc.constant(null);
    case "string":
      return textArbitrary(schema, name);
    case "integer":
      return fc.integer({ min: schema.minimum ?? -1_000, max: schema.maximum ?? 100_000 });
    case "number":
      return fc.double({ min: schema.minimum ?? -1_000, max: schema.maximum ?? 100_000, noNaN: true });
    case "boolean":
      return fc.boolean();
    case "array": {
      const { minItems = 0, maxItems = 3, items = {} } = schema;
      return fc.array(arbitraryOf(items, name), {
        minLength: minItems,
        maxLength: Math.max(minItems, Math.min(maxItems, 3)),
      });
    }
    case "object":
      return objectArbitrary(schema);
    default:
      return fc.jsonValue({ maxDepth: 2 });
  }
}

function objectArbitrary({ properties, required = [], additionalProperties = {} }: Schema): fc.Arbitrary<unknown> {
  if (properties === undefined) {
    return fc.dictionary(fc.string({ maxLength: 12 }), arbitraryOf(additionalProperties), { maxKeys: 3 });
  }
  // Most fields are left out: a request with all of them always breaks some rule.
  const fields = Object.entries(properties).map(([name, schema]) => {
    const value = arbitraryOf(schema, name);
    return [name, required.includes(name) ? value : fc.option(value, { freq: 1, nil: absent })] as const;
  });
  const record = fc.record(
    Object.fromEntries(fields.map(([name, value]) => [name, sparse(value, required.includes(name))])),
  );
  return record.map((made) => Object.fromEntries(Object.entries(made).filter(([, value]) => value !== absent)));
}

const absent = Symbol("absent");

function sparse(value: fc.Arbitrary<unknown>, isRequired: boolean): fc.Arbitrary<unknown> {
  return isRequired ? value : fc.oneof({ weight: 3, arbitrary: fc.constant<unknown>(absent) }, value);
}

/** Texts that pass the rules. Their hosts are on this machine or do not exist. */
const likely: Record<string, readonly string[]> = {
  repo_url: ["https://code.invalid/acme/bot", "git@127.0.0.1:acme/bot.git", "http://127.0.0.1:1/a"],
  custom_url: ["https://agents.invalid/bot"],
  image_uri: ["registry.invalid/agent:1", "agent", `registry.invalid/a@sha256:${"0".repeat(64)}`],
  repo_ref: ["main", "refs/tags/v1", "refs/heads/a/b"],
  tracked_repo_ref: ["main", "refs/tags/v1"],
  langgraph_config_path: ["langgraph.json", "a b/langgraph.json"],
  framework_config_path: ["langgraph.json"],
  install_command: ["npm ci"],
  build_command: ["npm run build && npm test"],
  deployment_ids: ["00000000-0000-4000-8000-000000000000"],
};

function textArbitrary({ format, pattern, minLength = 0, maxLength = 60 }: Schema, name: string): fc.Arbitrary<string> {
  if (format === "uuid") return fc.uuid();
  if (format === "date-time") return fc.date({ noInvalidDate: true, min: firstDate }).map((date) => date.toISOString());
  const bounds = { minLength, maxLength: Math.max(minLength, Math.min(maxLength, 60)) };
  const any = fc.oneof(
    fc.string(bounds),
    fc.string({ ...bounds, unit: "grapheme" }).filter((text) => text.length <= maxLength),
  );
  const fitting = pattern === undefined ? any : fc.stringMatching(new RegExp(pattern, "u"), bounds);
  const known = likely[name];
  return known === undefined ? fitting : fc.oneof({ weight: 3, arbitrary: fc.constantFrom(...known) }, fitting);
}

const firstDate = new Date("0001-01-02T00:00:00Z");
