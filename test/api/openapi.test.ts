import assert from "node:assert/strict";
import { createHash, randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { Check } from "typebox/value";
import { openapiDocument } from "../../src/api/documents/openapi.ts";
import { exampleOf, unknownText } from "../../src/api/documents/schema-example.ts";
import type { Operation } from "../../src/contract/operation.ts";
import { errorsOf, operations } from "../../src/contract/operations.ts";
import { startApi } from "./harness.ts";

// biome-ignore lint/suspicious/noExplicitAny: a document of any shape is looked into.
const document = openapiDocument(Object.values(operations)) as any;
const documented = Object.entries<Record<string, { operationId: string }>>(document.paths).flatMap(([path, verbs]) =>
  Object.keys(verbs).map((verb) => `${verb.toUpperCase()} ${path}`),
);
const isPublic = ({ audience }: Operation) => audience === "public";
const shown: Operation[] = Object.values(operations).filter(isPublic);
const t = await startApi();

test("docs/reference/openapi.json matches the code (npm run generate)", () => {
  const isEqual = readFileSync("docs/reference/openapi.json", "utf8") === `${JSON.stringify(document, null, 2)}\n`;
  assert.ok(isEqual, "run: npm run generate");
});

test("every operation of the table has a route", () => {
  for (const { id, verb, path } of Object.values(operations)) {
    const url = path.replaceAll(/\{(\w+)\}/g, ":$1");
    assert.ok(t.api.hasRoute({ method: verb, url }), id);
  }
});

test("the document has every public operation and no other, each under a unique name", () => {
  assert.deepEqual(documented.toSorted(), shown.map(({ verb, path }) => `${verb} ${path}`).toSorted());
  const names = shown.map(({ operationId }) => operationId);
  assert.equal(new Set(names).size, names.length);
});

test("every reference in the document resolves, and no internal keyword is left in a schema", () => {
  const text = JSON.stringify(document);
  for (const [, kind, name] of text.matchAll(/"\$ref":"#\/components\/(\w+)\/(\w+)"/g)) {
    assert.ok(document.components[kind as string][name as string], name);
  }
  assert.ok(!/"(uncappable|requiredUnless|\$id)"/.test(text));
  for (const name of ["Deployment", "CreateDeployment", "PatchDeployment", "Revision", "HTTPValidationError"]) {
    assert.ok(name in document.components.schemas, name);
  }
});

test("operation names follow the scheme of existing clients: name, path and verb", () => {
  for (const { operationId, path, verb } of shown.filter((operation) => /^\/v\d/.test(operation.path))) {
    const ending = `${path.replaceAll(/\W/g, "_")}_${verb.toLowerCase()}`;
    assert.ok(operationId.endsWith(ending), `${operationId} should end with ${ending}`);
  }
});

test("every body and every response has an example that matches its schema", () => {
  for (const { id, body, response } of shown) {
    for (const schema of [body, response.schema].filter((one) => one !== null)) {
      const example = exampleOf(schema);
      assert.ok(Check(schema, example), `${id}: ${JSON.stringify(example)}`);
      const name = (schema as { $id?: string }).$id;
      const hint = `give the texts of ${name ?? `what ${id} exchanges`} examples, or the whole one in contract/examples.ts`;
      assert.ok(!JSON.stringify(example).includes(`"${unknownText}"`), `${id}: ${hint}`);
    }
  }
});

test("every parameter is described", () => {
  for (const [path, verbs] of Object.entries<Record<string, { parameters?: { name: string; description?: string }[] }>>(
    document.paths,
  )) {
    for (const { name, description } of Object.values(verbs).flatMap(({ parameters = [] }) => parameters)) {
      assert.ok(description !== undefined && description !== "", `${path}: describe the parameter ${name}`);
    }
  }
});

test("every error of an operation is listed under its status with its body", () => {
  const pages = readFileSync("docs/reference/errors.md", "utf8");
  const statusOf = (code: string) => new RegExp(`^## ${code}\n\n(\\d{3})`, "m").exec(pages)?.[1] ?? "";
  for (const operation of shown) {
    const { responses } = document.paths[operation.path][operation.verb.toLowerCase()];
    for (const code of errorsOf(operation)) {
      const written = responses[statusOf(code)];
      const answer =
        written.$ref === undefined ? written : document.components.responses[written.$ref.split("/").at(-1)];
      assert.equal(answer.content["application/json"].examples[code].$ref, `#/components/examples/${code}`);
      assert.ok("detail" in document.components.examples[code].value, code);
      assert.ok("X-Request-Id" in answer.headers && "X-Pierhead-Error" in answer.headers, code);
    }
  }
});

test("the document names the address that it was requested at, and its version is the API's", async () => {
  for (const [url, server] of [
    ["/openapi.json", "/"],
    ["/api-host/openapi.json", "/api-host"],
  ]) {
    const { body } = await t.ask({ url: url as string, key: null });
    assert.equal(body.servers[0].url, server);
    assert.equal(body.info.version, "0.1.0");
    assert.equal(body.openapi, "3.1.0");
  }
});

test("document and reference page are sent compressed, and not again to a client that has them", async () => {
  for (const url of ["/openapi.json", "/docs"]) {
    const whole = await t.ask({ url, key: null });
    const { etag } = whole.headers;
    assert.match(String(etag), /^"[\w-]{22}"$/, url);
    const small = await t.ask({ url, key: null, headers: { "accept-encoding": "gzip" } });
    assert.equal(small.headers["content-encoding"], "gzip", url);
    assert.ok(Number(small.headers["content-length"]) < whole.text.length / 5, url);
    const known = await t.ask({ url, key: null, headers: { "if-none-match": String(etag) } });
    assert.deepEqual([known.status, known.text], [304, ""], url);
    // A cache would take the length for that of the document (RFC 9110, section 8.6).
    assert.equal(known.headers["content-length"], undefined, url);
  }
});

test("the reference page shows every operation", async () => {
  for (const url of ["/docs", "/redoc", "/api-host/docs"]) {
    const { text } = await t.ask({ url, key: null });
    for (const { operationId } of shown) assert.ok(text.includes(`id="${operationId}"`), operationId);
  }
});

test("addresses that clients print lead to a page without a key that reveals nothing of deployments", async () => {
  const pages = ["/", "/host/deployments", `/o/${t.tenant.tenantId}/host/deployments/${randomUUID()}`, "/o/x/host/<b>"];
  const texts = await Promise.all(pages.map(async (url) => (await t.ask({ url, key: null })).text));
  for (const text of texts) assert.match(text, /npx pierhead list/);
  assert.equal(new Set(texts).size, 1);
});

test("no page runs a script or loads anything", async () => {
  for (const url of ["/docs", "/api-host/docs", "/host/deployments", `/o/any/host/deployments/${randomUUID()}`]) {
    const { status, text, headers } = await t.ask({ url, key: null });
    assert.equal(status, 200, url);
    assert.match(String(headers["content-type"]), /^text\/html/);
    assert.ok(!/<script|<[^>]*\s(on\w+|src)=|href="(?![#/])/i.test(text));
    const style = /<style>([\s\S]*?)<\/style>/.exec(text)?.[1] ?? "";
    const digest = createHash("sha256").update(style).digest("base64");
    assert.match(String(headers["content-security-policy"]), /default-src 'none'/);
    assert.ok(String(headers["content-security-policy"]).includes(`'sha256-${digest}'`));
  }
});

test("browser pages are described as pages, for success and failure", () => {
  const { responses } = document.paths["/v2/auth/callback/{provider_id}"].get;
  for (const status of ["200", "400"]) assert.deepEqual(Object.keys(responses[status].content), ["text/html"]);
});
