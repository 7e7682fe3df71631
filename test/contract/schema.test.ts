import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";
import type { TSchema } from "typebox";
import {
  CreateDeployment,
  Deployment,
  DeploymentType,
  PatchDeployment,
  SourceConfig,
  SourceConfigInput,
  SourceKind,
} from "../../src/contract/deployments/deployment.ts";
import { ResourceSpec, withoutCpuBounds } from "../../src/contract/deployments/resource-spec.ts";
import { type ApiError, errors } from "../../src/contract/error.ts";
import { EventType } from "../../src/contract/logs/event.ts";
import type { Operation } from "../../src/contract/operation.ts";
import { errorsOf, operations } from "../../src/contract/operations.ts";
import { CreateRevision, Revision } from "../../src/contract/revisions/revision.ts";

type Json = Record<string, unknown>;
const table: Operation[] = Object.values(operations);

function* walk(value: unknown): Generator<Json> {
  if (typeof value !== "object" || value === null) return;
  if (!Array.isArray(value)) yield value as Json;
  for (const [key, child] of Object.entries(value)) if (key !== "examples") yield* walk(child);
}

const schemas = table
  .flatMap(({ params, query, body, response }) => [params, query, body, response.schema])
  .filter((schema) => schema !== null) as TSchema[];

test("schemas use only the forms that the validator supports", () => {
  const keywords = new Set([
    "type",
    "properties",
    "required",
    "items",
    "anyOf",
    "enum",
    "const",
    "format",
    "pattern",
    "default",
    "description",
    "examples",
  ]);
  for (const word of [
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "additionalProperties",
    "$id",
    "requiredUnless",
    "uncappable",
  ])
    keywords.add(word);
  for (const schema of schemas)
    for (const [name, node] of namedNodes(JSON.parse(JSON.stringify(schema)))) {
      for (const key of Object.keys(node)) assert.ok(keywords.has(key), `${name}: ${key}`);
    }
});

/** Yields every schema inside a schema. The keys of `properties` are names, not keywords. */
function* namedNodes(node: Json, name = ""): Generator<[string, Json]> {
  yield [name, node];
  for (const [key, child] of Object.entries((node["properties"] ?? {}) as Json))
    yield* namedNodes(child as Json, `${name}.${key}`);
  for (const key of ["items", "additionalProperties"]) if (node[key]) yield* namedNodes(node[key] as Json, `${name}[]`);
  for (const child of (node["anyOf"] ?? []) as Json[]) yield* namedNodes(child, name);
}

test("each schema name stands for one schema", () => {
  const seen = new Map<string, string>();
  for (const schema of schemas)
    for (const node of walk(JSON.parse(JSON.stringify(schema)))) {
      if (typeof node["$id"] !== "string") continue;
      const { description: _text, ...rest } = node;
      const text = JSON.stringify(rest);
      assert.equal(seen.get(node["$id"]) ?? text, text, node["$id"]);
      seen.set(node["$id"], text);
    }
});

test("closed sets have the values and the order that validation messages quote", () => {
  assert.deepEqual(SourceKind.enum, [
    "github",
    "external_docker",
    "internal_docker",
    "internal_source",
    "internal_template",
  ]);
  assert.deepEqual(DeploymentType.enum, ["dev_free", "dev", "prod", "dev_zero", "dev_free_zero"]);
});

test("requests and responses have the same settings, and responses contain every setting", () => {
  assert.deepEqual(
    Object.keys(SourceConfig.properties).filter((key) => key !== "repo_branch"),
    // A request may choose the listener by labels. Responses show the listener.
    Object.keys(SourceConfigInput.properties).filter((key) => key !== "listener_selector"),
  );
  for (const schema of [Deployment, Revision]) assert.deepEqual(schema.required, Object.keys(schema.properties));
});

test("creating requires only name, source and the two configs, and changing requires nothing", () => {
  assert.deepEqual(CreateDeployment.required, ["source", "source_config", "source_revision_config"]);
  assert.equal((CreateDeployment.properties.name as unknown as Json)["requiredUnless"], "agent");
  for (const schema of [PatchDeployment, CreateRevision, SourceConfigInput])
    assert.deepEqual(schema.required ?? [], []);
});

test("lifting the CPU bounds removes nothing else from the schema", () => {
  const bounds = (schema: TSchema) =>
    [...walk(JSON.parse(JSON.stringify(schema)))].filter((node) => "maximum" in node).length;
  assert.equal(bounds(ResourceSpec), 6);
  assert.equal(bounds(withoutCpuBounds(ResourceSpec)), 0);
  assert.deepEqual(
    Object.keys(withoutCpuBounds(CreateDeployment).properties),
    Object.keys(CreateDeployment.properties),
  );
});

test("operations have unique calls, ids equal to their keys, and declared path parameters", () => {
  for (const [key, { id }] of Object.entries(operations)) assert.equal(id, key);
  for (const nameOf of [(o: Operation) => o.operationId, (o: Operation) => `${o.verb} ${o.path}`]) {
    assert.equal(new Set(table.map(nameOf)).size, table.length);
  }
  for (const { id, path, params } of table) {
    const named = [...path.matchAll(/\{(\w+)\}/g)].map((match) => match[1]).toSorted();
    const declared = Object.keys((params as unknown as { properties?: Json } | null)?.properties ?? {}).toSorted();
    assert.deepEqual(declared, named, id);
  }
});

test("operations have a consistent response, a tag, a summary and known errors", () => {
  for (const operation of table) {
    const { id, response, role, path, tag, summary } = operation;
    const isOther = "isPage" in response || "file" in response;
    assert.equal(response.schema === null, response.status === 204 || isOther, id);
    assert.ok(tag !== "" && summary !== "", id);
    for (const code of errorsOf(operation)) assert.ok(code in errors, `${id}: ${code}`);
    assert.equal(role === "listener", path.startsWith("/dp/"), id);
  }
});

test("keeps the texts and keys that clients match on", () => {
  const texts: [ApiError, number, string][] = [
    [errors.workspaceRequired(), 403, "requires workspace specification"],
    [errors.deploymentsDisabled(), 403, "not enabled"],
    [
      errors.listenerRequired(["a", "b"]),
      400,
      "Source configuration error: 'source_config.listener_id' is required for workspace with available listener IDs: ['a', 'b']",
    ],
    [errors.nameTaken("bot"), 409, "A deployment named 'bot' already exists."],
    [errors.agentEnvironmentTaken(), 409, "A deployment already exists for this agent environment."],
    [
      errors.tracingProjectTaken("bot"),
      409,
      "Deployments create a tracing project in LangSmith with the same name as the deployment. There already exists a project in LangSmith named: bot.",
    ],
    [errors.deploymentNotFound("x"), 404, "Deployment ID x not found."],
    [errors.revisionNotFound("x"), 404, "Revision ID x not found."],
    [errors.listenerNotFound("x"), 404, "Listener ID x not found."],
    [
      errors.listenersNotAllowed("w"),
      403,
      "Listeners cannot be created for LangSmith workspace ID 'w'. Creating listeners is only allowed for LangSmith organizations with self-hosted enterprise plans.",
    ],
    [errors.listenerTaken("w", "c"), 409, "Listener for LangSmith workspace ID 'w' and compute ID 'c' already exists."],
    [errors.invalidToken(), 401, "Invalid token"],
    [errors.tenantMismatch(), 403, "API key tenant mismatch"],
  ];
  for (const [error, status, text] of texts) {
    assert.equal(error.status, status);
    assert.ok(error.message.includes(text), error.message);
  }
  assert.equal(errors.workspaceRequired().body()["error"], "org_scoped_key_requires_workspace");
  const item = { type: "missing", loc: ["body", "name"], msg: "Field required", input: {} };
  assert.deepEqual(errors.invalidRequest([item]).body(), { detail: [item] });
});

test("the API's event types are exactly those that the store writes", () => {
  const written = new Set<string>();
  for (const name of readdirSync("src/store", { recursive: true, encoding: "utf8" }).filter((file) =>
    file.endsWith(".ts"),
  )) {
    const text = readFileSync(`src/store/${name}`, "utf8");
    for (const [, insert = ""] of text.matchAll(/insert into events([^`]*)/g)) {
      for (const [, type = ""] of insert.matchAll(
        /['"]((?:alert|deployment|replica|revision|tracing|webhook)\.[a-z_]+)['"]/g,
      ))
        written.add(type);
    }
    for (const [, type = ""] of text.matchAll(/kind: "((?:deployment|revision)\.[a-z]+)"/g)) written.add(type);
  }
  assert.deepEqual([...written].toSorted(), [...EventType.enum].toSorted());
});
