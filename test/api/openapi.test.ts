import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { openapiDocument } from "../../src/api/openapi.ts";
import { operations } from "../../src/contract/operations.ts";
import { startApi } from "./harness.ts";

// biome-ignore lint/suspicious/noExplicitAny: a document of any shape is looked into.
const document = openapiDocument(Object.values(operations)) as any;
const documented = Object.entries<Record<string, { operationId: string }>>(document.paths).flatMap(([path, verbs]) =>
  Object.keys(verbs).map((verb) => `${verb.toUpperCase()} ${path}`),
);
const t = await startApi();

test("docs/reference/openapi.json is what the code makes (npm run generate)", () => {
  assert.equal(readFileSync("docs/reference/openapi.json", "utf8"), `${JSON.stringify(document, null, 2)}\n`);
});

test("every operation of the table has a route", () => {
  for (const { id, verb, path } of Object.values(operations)) {
    const url = path.replaceAll(/\{(\w+)\}/g, ":$1");
    assert.ok(t.api.hasRoute({ method: verb, url }), id);
  }
});

test("the document has every public operation and no other, under a name of its own", () => {
  const isPublic = Object.values(operations).filter(({ audience }) => audience === "public");
  assert.deepEqual(documented.toSorted(), isPublic.map(({ verb, path }) => `${verb} ${path}`).toSorted());
  const names = isPublic.map(({ operationId }) => operationId);
  assert.equal(new Set(names).size, names.length);
});

test("every reference in the document leads somewhere, and no word of ours is left in a schema", () => {
  const text = JSON.stringify(document);
  for (const [, kind, name] of text.matchAll(/"\$ref":"#\/components\/(\w+)\/(\w+)"/g)) {
    assert.ok(document.components[kind as string][name as string], name);
  }
  assert.ok(!/"(uncappable|requiredUnless|\$id)"/.test(text));
  for (const name of ["Deployment", "CreateDeployment", "PatchDeployment", "Revision", "HTTPValidationError"]) {
    assert.ok(name in document.components.schemas, name);
  }
});

test("the document says where it was asked for, and its version is the API's", async () => {
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

test("the page for people shows every operation, runs no script and loads nothing", async () => {
  for (const url of ["/docs", "/redoc", "/api-host/docs"]) {
    const { text, headers } = await t.ask({ url, key: null });
    assert.match(String(headers["content-type"]), /^text\/html/);
    for (const { operationId } of Object.values(operations).filter(({ audience }) => audience === "public")) {
      assert.ok(text.includes(`id="${operationId}"`), operationId);
    }
    assert.ok(!/<script|\son\w+=|src=|https?:\/\//i.test(text));
    const style = /<style>([\s\S]*?)<\/style>/.exec(text)?.[1] ?? "";
    const digest = createHash("sha256").update(style).digest("base64");
    assert.match(String(headers["content-security-policy"]), /default-src 'none'/);
    assert.ok(String(headers["content-security-policy"]).includes(`'sha256-${digest}'`));
  }
});
