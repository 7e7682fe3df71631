import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { Ajv2020, type AnySchema } from "ajv/dist/2020.js";
import { openapiDocument } from "../../src/api/documents/openapi.ts";
import { operations } from "../../src/contract/operations.ts";

/** The OpenAPI Initiative's own schema of 3.1 documents (spec.openapis.org/oas/3.1/schema, Apache-2.0). */
const standard = JSON.parse(
  readFileSync(path.join(import.meta.dirname, "openapi-3.1.schema.json"), "utf8"),
) as AnySchema;

// biome-ignore lint/suspicious/noExplicitAny: a document of any shape is looked into.
const document = openapiDocument(Object.values(operations)) as any;

test("the document is valid according to the OpenAPI 3.1 schema", () => {
  const validate = new Ajv2020({ strict: false, validateFormats: false }).compile(standard);
  validate(document);
  assert.deepEqual(validate.errors, null);
  assert.equal(validate({ ...document, paths: { "no slash": {} } }), false, "the check finds mistakes");
});

test("every schema of the document is valid JSON Schema 2020-12 and accepts the examples beside it", () => {
  const ajv = new Ajv2020({ strict: true, allowUnionTypes: true, validateFormats: false, keywords: formKeywords });
  ajv.addSchema({ $id: "doc:", components: { schemas: document.components.schemas } });
  let checked = 0;
  for (const [place, media] of mediaIn(document, "")) {
    if (media.schema === undefined) continue;
    const validate = ajv.compile(JSON.parse(JSON.stringify(media.schema).replaceAll('"#/', '"doc:#/')));
    for (const example of examplesOf(media)) {
      assert.ok(validate(example), `${place}: ${JSON.stringify(validate.errors)}`);
      checked += 1;
    }
  }
  assert.ok(checked > 100, String(checked));
});

/** Paths of the schemas in the document: `components` is not a JSON Schema keyword. */
const formKeywords = ["components"];

interface Media {
  schema?: AnySchema;
  example?: unknown;
  examples?: Record<string, { $ref?: string; value?: unknown }>;
}

/** Every media type with its path. */
function* mediaIn(node: unknown, place: string): Generator<[string, Media]> {
  if (typeof node !== "object" || node === null) return;
  for (const [key, child] of Object.entries(node)) {
    if (key === "content")
      yield* Object.entries(child as Record<string, Media>).map(([type, media]): [string, Media] => [
        `${place}/${type}`,
        media,
      ]);
    else if (key !== "schemas" && key !== "examples") yield* mediaIn(child, `${place}/${key}`);
  }
}

function examplesOf({ example, examples = {} }: Media): unknown[] {
  const named = Object.values(examples).map(({ $ref, value }) =>
    $ref === undefined ? value : document.components.examples[$ref.split("/").at(-1) as string].value,
  );
  return example === undefined ? named : [example, ...named];
}
