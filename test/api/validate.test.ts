import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { Type } from "typebox";
import { parseJsonBody } from "../../src/api/http/json-body.ts";
import { parseQuery } from "../../src/api/http/request-parts.ts";
import { compileValidator } from "../../src/api/validation/validate.ts";
import {
  CreateDeployment,
  DeploymentPath,
  ListDeploymentsQuery,
  PatchDeployment,
} from "../../src/contract/deployments/deployment.ts";
import type { ValidationItem } from "../../src/contract/error.ts";
import { DeploymentLogsQuery, ReadLogsBody } from "../../src/contract/logs/log.ts";
import { CreateRevision } from "../../src/contract/revisions/revision.ts";

/** Measured with pydantic 2.13.4 and the JSON decoder of CPython 3.11, which the original API uses. */
const vectors = readFileSync(path.join(import.meta.dirname, "pydantic-vectors.jsonl"), "utf8")
  .trimEnd()
  .split("\n")
  .map((line) => JSON.parse(line));

const formOf = (form: string) =>
  form === "uuid" || form === "date-time" ? Type.String({ format: form }) : Type.Unsafe({ type: form });
const problemsOf = (schema: Parameters<typeof compileValidator>[0], body: unknown) =>
  compileValidator(schema, "body")(body).problems;
const withoutInput = ({ input: _input, ...rest }: ValidationItem) => rest;

test("rejects a text that is neither a number nor a time quickly, whatever its length", () => {
  const text = `${"1".repeat(1_000_000)}x`;
  const began = performance.now();
  for (const form of ["integer", "number", "date-time"]) assert.equal(problemsOf(formOf(form), text).length, 1, form);
  assert.ok(performance.now() - began < 1_000, `${performance.now() - began} ms`);
});

test("coerces or rejects single values as pydantic does, with its texts", () => {
  const scalars = vectors.filter((vector) => "form" in vector);
  assert.ok(scalars.length > 150);
  for (const { form, input, value, type, msg } of scalars) {
    const checked = compileValidator(formOf(form), "body")(input);
    const found = checked.problems.map((problem) => [problem.type, problem.msg]);
    assert.deepEqual(found, type === undefined ? [] : [[type, msg]], `${form} ${JSON.stringify(input)}`);
    if (type === undefined) assert.deepEqual(checked.value, value, `${form} ${JSON.stringify(input)}`);
  }
});

test("reports all problems of a body in pydantic's order", () => {
  const schemas = {
    CreateDeployment,
    PatchDeployment,
    ListDeploymentsQuery,
    ReadLogsBody,
    DeploymentLogsQuery,
    CreateRevision,
  };
  const bodies = vectors.filter((vector) => "schema" in vector);
  assert.ok(bodies.length > 50);
  for (const { schema, body, problems } of bodies) {
    const found = problemsOf(schemas[schema as keyof typeof schemas], body).map(withoutInput);
    assert.deepEqual(found, problems, `${schema} ${JSON.stringify(body)}`);
  }
});

test("reports invalid JSON with Python's texts and the offset in characters", () => {
  const texts = vectors.filter((vector) => "text" in vector);
  assert.ok(texts.length > 30);
  for (const { text, error, offset } of texts) {
    const parsed = parseJsonBody(Buffer.from(text));
    assert.deepEqual(
      "problem" in parsed && parsed.problem,
      { type: "json_invalid", loc: ["body", offset], msg: "JSON decode error", input: {}, ctx: { error } },
      JSON.stringify(text),
    );
  }
});

test("the contract's first example: two problems of a query", () => {
  const query = parseQuery("limit=0&deployment_type=big");
  const expected = "'dev_free', 'dev', 'prod', 'dev_zero' or 'dev_free_zero'";
  assert.deepEqual(compileValidator(ListDeploymentsQuery, "query")(query).problems, [
    {
      type: "greater_than_equal",
      loc: ["query", "limit"],
      msg: "Input should be greater than or equal to 1",
      input: "0",
      ctx: { ge: 1 },
    },
    {
      type: "literal_error",
      loc: ["query", "deployment_type"],
      msg: `Input should be ${expected}`,
      input: "big",
      ctx: { expected },
    },
  ]);
});

test("the contract's second example: a path parameter that is not a UUID", () => {
  const error = "invalid character: found `p` at 3";
  assert.deepEqual(compileValidator(DeploymentPath, "path")({ deployment_id: ["dep-1"] }).problems, [
    {
      type: "uuid_parsing",
      loc: ["path", "deployment_id"],
      msg: `Input should be a valid UUID, ${error}`,
      input: "dep-1",
      ctx: { error },
    },
  ]);
});

test("the contract's third example: five problems of a body", () => {
  const body = { name: 5, source: "gitlab", source_config: [], secrets: [{ name: "A" }] };
  const expected = "'github', 'external_docker', 'internal_docker', 'internal_source' or 'internal_template'";
  assert.deepEqual(problemsOf(CreateDeployment, body), [
    { type: "string_type", loc: ["body", "name"], msg: "Input should be a valid string", input: 5 },
    {
      type: "literal_error",
      loc: ["body", "source"],
      msg: `Input should be ${expected}`,
      input: "gitlab",
      ctx: { expected },
    },
    {
      type: "model_attributes_type",
      loc: ["body", "source_config"],
      msg: "Input should be a valid dictionary or object to extract fields from",
      input: [],
    },
    { type: "missing", loc: ["body", "source_revision_config"], msg: "Field required", input: body },
    { type: "missing", loc: ["body", "secrets", 0, "value"], msg: "Field required", input: { name: "A" } },
  ]);
});

test("a name is required unless an agent is given, and null is not a name", () => {
  const rest = { source: "github", source_config: {}, source_revision_config: {} };
  const agent = { agent_id: "6b1f0f64-5f0e-4a0e-9a35-0d5b6c1f7a11", environment: "staging" };
  const types = (body: object) =>
    problemsOf(CreateDeployment, { ...rest, ...body }).map(({ type, loc }) => [type, loc[1]]);
  assert.deepEqual(types({}), [["missing", "name"]]);
  assert.deepEqual(types({ name: null }), [["string_type", "name"]]);
  assert.deepEqual(types({ name: "" }), [["string_too_short", "name"]]);
  assert.deepEqual(types({ name: null, agent }), []);
  assert.deepEqual(types({ agent }), []);
  assert.deepEqual(types({ name: 5, agent }), [["string_type", "name"]]);
});

test("normalizes the value: defaults, UUIDs, timestamps, only known fields", () => {
  const query = parseQuery(
    "deployment_id=%7B6B1F0F64-5f0e-4a0e-9a35-0d5b6c1f7a11%7D&start_time=1700000000&x=1&page_size=+5",
  );
  assert.deepEqual(compileValidator(DeploymentLogsQuery, "query")(query), {
    value: {
      deployment_id: "6b1f0f64-5f0e-4a0e-9a35-0d5b6c1f7a11",
      log_type: "DEPLOY",
      sort_order: "asc",
      page_size: 5,
      start_time: "2023-11-14T22:13:20.000000Z",
    },
    problems: [],
  });
});

test("the last value of a repeated parameter wins; a list takes all of them, split at commas", () => {
  const schema = Type.Object({ limit: Type.Integer(), ids: Type.Array(Type.Integer(), { maxItems: 3 }) });
  const read = (query: string) => compileValidator(schema, "query")(parseQuery(query));
  assert.deepEqual(read("limit=1&limit=2&ids=1&ids=2,3").value, { limit: 2, ids: [1, 2, 3] });
  assert.deepEqual(
    read("limit=1&ids=1&ids=x").problems.map(({ loc }) => loc),
    [["query", "ids", 1]],
  );
  assert.deepEqual(read("limit=1").problems, [
    { type: "missing", loc: ["query", "ids"], msg: "Field required", input: null },
  ]);
  assert.deepEqual(read("limit=1&ids=1,2,3,4").problems[0]?.ctx, {
    field_type: "List",
    actual_length: 4,
    max_length: 3,
  });
});

test("lists, maps and lengths use pydantic's singular and plural texts", () => {
  const schema = Type.Object({
    list: Type.Array(Type.Integer(), { minItems: 1, maxItems: 2 }),
    map: Type.Unsafe({ type: "object", additionalProperties: Type.String({ maxLength: 1 }) }),
    text: Type.String({ minLength: 2 }),
    one: Type.Union([Type.Literal("k8s")]),
    two: Type.Union([Type.Literal("asc"), Type.Literal("desc")]),
  });
  const body = { list: [], map: { team: "ab" }, text: "é", one: 1, two: "x" };
  assert.deepEqual(
    problemsOf(schema, body).map(({ loc, msg }) => [loc.slice(1).join("."), msg]),
    [
      ["list", "List should have at least 1 item after validation, not 0"],
      ["map.team", "String should have at most 1 character"],
      ["text", "String should have at least 2 characters"],
      ["one", "Input should be 'k8s'"],
      ["two", "Input should be 'asc' or 'desc'"],
    ],
  );
  assert.deepEqual(problemsOf(schema, { ...body, list: [1, "x", 3] })[0]?.type, "too_long");
});

test("prints bounds as short as possible: 8, not 8.0", () => {
  const source = { name: "a", source: "external_docker", source_revision_config: {} };
  const body = { ...source, source_config: { resource_spec: { cpu: 9, cpu_limit: 0.04 } } };
  assert.deepEqual(
    problemsOf(CreateDeployment, body).map(({ msg, ctx }) => [msg, ctx]),
    [
      ["Input should be less than or equal to 8", { le: 8 }],
      ["Input should be greater than or equal to 0.1", { ge: 0.1 }],
    ],
  );
});

test("rejects what PostgreSQL cannot store, with its path", () => {
  const types = (body: unknown) => problemsOf(PatchDeployment, body).map(({ type, loc }) => [type, ...loc.slice(1)]);
  assert.deepEqual(types({ display_name: "a\u0000b" }), [["value_error", "display_name"]]);
  assert.deepEqual(types({ display_name: "\ud800" }), [["string_unicode", "display_name"]]);
  const volumes = [{ emptyDir: { deep: ["x\u0000"] } }];
  assert.deepEqual(types({ source_config: { resource_spec: { volumes } } }), [
    ["value_error", "source_config", "resource_spec", "volumes", 0, "emptyDir", "deep", 0],
  ]);
});

test("rejects an unknown schema form when it is compiled", () => {
  assert.throws(() => compileValidator(Type.Unsafe({ type: "tuple" }), "body"), RangeError);
  const objects = Type.Union([Type.Object({}), Type.Object({ a: Type.String() })]);
  assert.throws(() => compileValidator(objects, "body"), RangeError);
});
